"""Rows by a few steps of conjugate gradients: products with a row's matrix M = Σ β v vᵀ + G + λI, which is never made.

    M p = Σ_j β_j (v_j·p + p_b)·[v_j, 1] + G p + λ p                 4·k operations per entry, against 2·k² to make M

A row's entries are taken four at a time, straight from V: their four products with p, then the four multiples of v_j, which
are in the first-level cache by then. Vectors are lines with the bias in the line after the factors, as in _kernels.

Steps are scaled by the diagonal of M (Jacobi), which a first pass collects: the columns of V, and the bias, may differ in size.
"""

from __future__ import annotations

import numpy as np

from lemmata.completion.rows._kernels import loss_of, unpack_into
from lemmata.core.engine import kernel
from lemmata.linalg.simd import add, at, axpy, dot, fetch, load, madd, store, zero

AHEAD = 16  # entries: far enough that their factors arrive in time, near enough that they are still there


@kernel(forceinline=True)
def _weight(values, roots, implicit, alpha, p):
    """β of an entry."""
    if len(roots) > 0:
        return roots[p] * roots[p]
    return values.dtype.type(alpha) * abs(values[p]) if implicit else values.dtype.type(1)


@kernel(forceinline=True)
def _missing(values, roots, shift, implicit, alpha, p, j, x):
    """α_j − β_j x: what the right-hand side still lacks of an entry that is predicted to be x."""
    if implicit:
        more = values.dtype.type(alpha) * abs(values[p])
        return (1 + more if values[p] > 0 else more - more) - more * x
    left = values[p] - shift[j] - x
    return roots[p] * roots[p] * left if len(roots) > 0 else left


@kernel(forceinline=True)
def _size(t, weight, roots):
    """t²/β of a multiple t of v; where β may be 0 (implicit feedback) it is taken to be 1 at least."""
    return t * t / (weight if len(roots) > 0 else max(weight, roots.dtype.type(1)))


@kernel(forceinline=True)
def _add_four_into(q, V, v0, v1, v2, v3, t0, t1, t2, t3, nb):
    """q += t0·v0 + t1·v1 + t2·v2 + t3·v3; two sums of two, so that one need not wait for the other."""
    for block in range(nb):
        odd = axpy(t3, load(V, v3 + block), axpy(t1, load(V, v1 + block), zero(q)))
        even = axpy(t2, load(V, v2 + block), axpy(t0, load(V, v0 + block), load(q, block)))
        store(q, block, add(even, odd))


@kernel(forceinline=True)
def _fetch_four(V, indices, p, nb):
    """Ask for the factors of the four entries that come AHEAD of p, over the end of the row into the next one."""
    for e in range(p + AHEAD, min(p + AHEAD + 4, len(indices))):
        for block in range(nb):
            fetch(V, np.int64(indices[e]) * nb + block)


@kernel
def _add_ridge_into(q, x, k, G, implicit, reg, bias_reg, sign):
    """q += sign · (G + λI) x, with κ for the bias."""
    width = q.shape[0]
    nb = width - 1
    for block in range(nb):
        store(q, block, axpy(sign * q.dtype.type(reg), load(x, block), load(q, block)))
    q[nb, 0] += sign * q.dtype.type(bias_reg) * x[nb, 0]
    if implicit:
        r = 0
        while r + 4 <= k:
            g, t0, t1 = r * nb, sign * at(x, r), sign * at(x, r + 1)
            _add_four_into(
                q,
                G,
                g,
                g + nb,
                g + 2 * nb,
                g + 3 * nb,
                t0,
                t1,
                sign * at(x, r + 2),
                sign * at(x, r + 3),
                nb,
            )
            r += 4
        for rest in range(r, k):
            for block in range(nb):
                store(
                    q, block, axpy(sign * at(x, rest), load(G, rest * nb + block), load(q, block))
                )


@kernel
def _multiply_into(q, x, V, indices, values, roots, implicit, alpha, bias, start, end):
    """q = Σ β (v·x + b)·[v, 1]: M x without the ridge."""
    width = q.shape[0]
    nb = width - 1
    for block in range(width):
        store(q, block, zero(q))
    b, summed = x[nb, 0], 0.0
    p = start
    while p + 4 <= end:
        v0, v1 = np.int64(indices[p]) * nb, np.int64(indices[p + 1]) * nb
        v2, v3 = np.int64(indices[p + 2]) * nb, np.int64(indices[p + 3]) * nb
        t0 = (dot(x, 0, V, v0, nb) + b) * _weight(values, roots, implicit, alpha, p)
        t1 = (dot(x, 0, V, v1, nb) + b) * _weight(values, roots, implicit, alpha, p + 1)
        t2 = (dot(x, 0, V, v2, nb) + b) * _weight(values, roots, implicit, alpha, p + 2)
        t3 = (dot(x, 0, V, v3, nb) + b) * _weight(values, roots, implicit, alpha, p + 3)
        _fetch_four(V, indices, p, nb)
        _add_four_into(q, V, v0, v1, v2, v3, t0, t1, t2, t3, nb)
        summed += (t0 + t1) + (t2 + t3)
        p += 4
    while p < end:
        v = np.int64(indices[p]) * nb
        t = (dot(x, 0, V, v, nb) + b) * _weight(values, roots, implicit, alpha, p)
        for block in range(nb):
            store(q, block, axpy(t, load(V, v + block), load(q, block)))
        summed += t
        p += 1
    if bias:
        q[nb, 0] = summed


@kernel(forceinline=True)
def _square(V, place, weight, d):
    """d + β v², lane by lane."""
    line = load(V, place)
    return madd(axpy(weight, line, zero(V)), line, d)


@kernel
def _begin_into(q, d, x, V, indices, values, roots, shift, implicit, alpha, bias, start, end):
    """q = Σ (α − β (v·x + b))·[v, 1], the right-hand side less M x without the ridge; and d = Σ β v², its diagonal.

    Returns Σ t² / max(β, 1) of the multiples t of v: the size of what q sums up, in the units of qᵀ(q / d).
    """
    width = q.shape[0]
    nb = width - 1
    for block in range(width):
        store(q, block, zero(q))
        store(d, block, zero(d))
    b, summed, squares = x[nb, 0], 0.0, 0.0
    p = start
    while p + 4 <= end:
        j0, j1 = np.int64(indices[p]), np.int64(indices[p + 1])
        j2, j3 = np.int64(indices[p + 2]), np.int64(indices[p + 3])
        v0, v1, v2, v3 = j0 * nb, j1 * nb, j2 * nb, j3 * nb
        t0 = _missing(values, roots, shift, implicit, alpha, p, j0, dot(x, 0, V, v0, nb) + b)
        t1 = _missing(values, roots, shift, implicit, alpha, p + 1, j1, dot(x, 0, V, v1, nb) + b)
        t2 = _missing(values, roots, shift, implicit, alpha, p + 2, j2, dot(x, 0, V, v2, nb) + b)
        t3 = _missing(values, roots, shift, implicit, alpha, p + 3, j3, dot(x, 0, V, v3, nb) + b)
        _fetch_four(V, indices, p, nb)
        _add_four_into(q, V, v0, v1, v2, v3, t0, t1, t2, t3, nb)
        b0, b1 = (
            _weight(values, roots, implicit, alpha, p),
            _weight(values, roots, implicit, alpha, p + 1),
        )
        b2, b3 = (
            _weight(values, roots, implicit, alpha, p + 2),
            _weight(values, roots, implicit, alpha, p + 3),
        )
        for block in range(nb):
            even = _square(V, v2 + block, b2, _square(V, v0 + block, b0, load(d, block)))
            store(
                d, block, add(even, _square(V, v3 + block, b3, _square(V, v1 + block, b1, zero(d))))
            )
        squares += (
            _size(t0, b0, roots)
            + _size(t1, b1, roots)
            + (_size(t2, b2, roots) + _size(t3, b3, roots))
        )
        summed += (t0 + t1) + (t2 + t3)
        p += 4
    while p < end:
        j = np.int64(indices[p])
        t = _missing(values, roots, shift, implicit, alpha, p, j, dot(x, 0, V, j * nb, nb) + b)
        weight = _weight(values, roots, implicit, alpha, p)
        for block in range(nb):
            store(q, block, axpy(t, load(V, j * nb + block), load(q, block)))
            store(d, block, _square(V, j * nb + block, weight, load(d, block)))
        squares += _size(t, weight, roots)
        summed += t
        p += 1
    if bias:
        q[nb, 0] = summed
    return squares


@kernel
def _invert(d, k, G, bias, implicit, reg, bias_reg, count):
    """d = 1 / (d + g + λ), number by number; 1 where there is nothing, and 0 for a bias that is not asked for."""
    width, lanes = d.shape
    for r in range(k):
        own = d[r // lanes, r % lanes] + d.dtype.type(reg)
        if implicit:
            own += G[r * (width - 1) + r // lanes, r % lanes]
        d[r // lanes, r % lanes] = 1 / own if own > 0 else 1
    d[width - 1, 0] = 1 / (count + bias_reg) if bias else 0


@kernel
def conjugate_gradient_range(problem, steps, begin, work, first, last, W, losses, _):
    """Rows first … last − 1 of W after `steps` steps from the rows of `begin` (at 0 where it has none), and their losses."""
    indptr, indices, values, roots, masses, V, shift, G, reg, bias_reg = problem[0]
    k, bias, implicit, alpha, measure = problem[1]
    vectors = work[3]
    w, r, p, q, z, d = vectors[0], vectors[1], vectors[2], vectors[3], vectors[4], vectors[5]
    width, lanes = w.shape
    for i in range(first, last):
        start, end = indptr[i], indptr[i + 1]
        W[i] = 0
        if start == end:
            continue
        for block in range(width):
            store(w, block, zero(w))
        if begin.shape[0] > 0:
            for c in range(k):
                w[c // lanes, c % lanes] = begin[i, c]
            if bias:
                w[width - 1, 0] = begin[i, k]
        size = _begin_into(
            r, d, w, V, indices, values, roots, shift, implicit, alpha, bias, start, end
        )
        _add_ridge_into(r, w, k, G, implicit, reg[i], bias_reg[i], w.dtype.type(-1))
        _invert(d, k, G, bias, implicit, reg[i], bias_reg[i], masses[i])
        for block in range(width):
            store(p, block, madd(load(d, block), load(r, block), zero(r)))
        rz = np.float64(dot(p, 0, r, 0, width))
        # rz of a residual that is four roundings per unknown
        least = 16 * (k + 1) * np.finfo(w.dtype).eps ** 2 * size
        for _ in range(steps):
            _multiply_into(q, p, V, indices, values, roots, implicit, alpha, bias, start, end)
            _add_ridge_into(q, p, k, G, implicit, reg[i], bias_reg[i], w.dtype.type(1))
            curvature = np.float64(dot(p, 0, q, 0, width))
            if not (rz > least and curvature > 0):  # there already, as far as rounding can tell
                break
            step = w.dtype.type(rz / curvature)
            for block in range(width):
                store(w, block, axpy(step, load(p, block), load(w, block)))
                store(r, block, axpy(-step, load(q, block), load(r, block)))
                store(z, block, madd(load(d, block), load(r, block), zero(r)))
            before, rz = rz, np.float64(dot(z, 0, r, 0, width))
            turn = w.dtype.type(rz / before)
            for block in range(width):
                store(p, block, axpy(turn, load(p, block), load(z, block)))
        unpack_into(W, i, w, k)
        if measure:
            losses[i] = loss_of(
                w, k, V, indices, values, roots, shift, G, implicit, alpha, reg[i], bias_reg[i], start, end
            )  # fmt: skip
