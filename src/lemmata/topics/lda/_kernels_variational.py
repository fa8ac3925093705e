"""One E-step of variational inference over some documents, compiled. The NumPy twin is in _twins_variational.py.

Topics are rows of cache lines (simd.py), as in pLSA's kernels; what is new is exp(ψ(x)). From

    ψ(x) = ψ(x + 10) − Σ_{i<10} 1/(x + i)    and, for large y,    exp(ψ(y + ½)) = y + 1/(24y) − 37/(5760y³) + …

it costs ten divisions, which go on for many topics at once, and one exponential.
"""

from __future__ import annotations

import math

import numpy as np

from lemmata.core.engine import kernel
from lemmata.linalg.simd import axpy, dot, empty_lines, load, store, to_lines, zero

Array = np.ndarray
SHIFT = 10
SERIES = (1 / 24, -37 / 5760, 10313 / 2903040, -5509121 / 1393459200)


def constants(dtype) -> Array:
    """0, 1, …, 9, then 9.5 and the series, in the type of the numbers: any other would widen them."""
    return np.array([*range(SHIFT), SHIFT - 0.5, *SERIES], dtype)


@kernel(forceinline=True)
def _digamma_parts_into(large, small, x, count, c):
    """large · exp(−small) = exp(ψ(x)) of the first `count` numbers."""
    for j in range(count):
        a = x[j]
        total = c[0]
        for i in range(SHIFT):
            total += np.divide(c[1], a + c[i])
        y = a + c[SHIFT]
        r = np.divide(c[1], y)
        s = r * r
        tail = c[SHIFT + 2] + s * (c[SHIFT + 3] + s * c[SHIFT + 4])
        large[j] = y + r * (c[SHIFT + 1] + s * tail)
        small[j] = total


@kernel
def _digamma(x):
    total = 0.0
    while x < SHIFT:
        total += 1 / x
        x += 1
    y = x - 0.5
    r = 1 / y
    s = r * r
    series = 1 / 24 + s * (-37 / 5760 + s * (10313 / 2903040 + s * (-5509121 / 1393459200)))
    return math.log(y + r * series) - total


# --- documents --------------------------------------------------------------------------------------------------------


def expect(counts, weights, gamma, phi, alpha, max_iter: int, tol: float):
    """γ (n, k) after some rounds, Σ_d N_dw q_dwj (m, k) at it, and what these documents add to the bound."""
    (n, k), m, dtype = gamma.shape, len(phi), gamma.dtype
    F = to_lines(phi)
    nb = len(F) // m
    sums = empty_lines(1, m * nb, dtype)
    gamma, room = gamma.copy(), empty_lines(1, 2 * nb, dtype)
    each = np.ones(n) if weights is None else np.asarray(weights, np.float64)
    bound = _expect_into(
        gamma, sums, room, counts.indptr, counts.indices, counts.data, each, F, nb,
        alpha.astype(dtype), np.finfo(dtype).tiny, max_iter, tol, constants(dtype),
    )  # fmt: skip
    found = sums.reshape(m, -1)[:, :k] * phi
    const = math.lgamma(alpha.sum()) - sum(map(math.lgamma, alpha))
    return gamma, found, float(bound + const * each.sum())


@kernel(forceinline=True)
def _shares_into(room, start, stop, indices, values, F, nb, tiny):
    """Line nb of room on: Σ_w N_w/p_w φ_w with p_w = θ·φ_w, θ in its first nb lines."""
    step, first = np.uint64(nb), np.uint64(0)
    for b in range(step):
        store(room, step + b, zero(room))
    for e in range(start, stop):
        w = np.uint64(indices[e]) * step
        q = values[e] / max(dot(room, first, F, w, nb), tiny)
        for b in range(step):
            store(room, step + b, axpy(q, load(F, w + b), load(room, step + b)))


@kernel(forceinline=True)
def _mixture_into(theta, large, small, gamma, k, c):
    """θ_j = exp(ψ(γ_j)): its scale falls out of q, so ψ(Σγ) is added where it matters, in the bound."""
    _digamma_parts_into(large, small, gamma, k, c)
    for j in range(k):
        theta[j] = large[j] * math.exp(-small[j])


@kernel
def _expect_into(
    gamma, sums, room, indptr, indices, values, weights, F, nb, alpha, tiny, max_iter, tol, c
):  # fmt: skip
    n, k = gamma.shape
    step, first = np.uint64(nb), np.uint64(0)
    for line in range(sums.shape[1]):
        store(sums, line, zero(sums))
    for line in range(2 * step):
        store(room, line, zero(room))
    flat = room.reshape(2, -1)
    theta, gains = flat[0], flat[1]
    large, small = np.empty(k, gamma.dtype), np.empty(k, gamma.dtype)
    bound = 0.0
    for i in range(n):
        start, stop = np.uint64(indptr[i]), np.uint64(indptr[i + 1])
        mine = gamma[i]
        _mixture_into(theta, large, small, mine, k, c)
        for _ in range(max_iter):
            _shares_into(room, start, stop, indices, values, F, nb, tiny)
            change = 0.0
            for j in range(k):
                new = alpha[j] + theta[j] * gains[j]
                change += abs(new - mine[j])
                mine[j] = new
            _mixture_into(theta, large, small, mine, k, c)
            if change <= tol * k:
                break
        total, found = 0.0, 0.0
        for j in range(k):
            total += mine[j]
        mean = _digamma(total)
        for j in range(k):
            x = np.float64(mine[j])
            found += math.lgamma(x) + (alpha[j] - x) * (math.log(large[j]) - small[j] - mean)
        found -= math.lgamma(total)
        weight = weights[i]
        for e in range(start, stop):
            w = np.uint64(indices[e]) * step
            p = max(dot(room, first, F, w, nb), tiny)
            found += values[e] * (math.log(p) - mean)
            q = values[e] / p * weight
            for b in range(step):
                store(sums, w + b, axpy(q, load(room, b), load(sums, w + b)))
        bound += found * weight
    return bound


def fold_in(counts, phi: Array, alpha: Array, max_iter: int, tol: float) -> Array:
    """θ (n, k) that maximises Σ_w N_dw ln θ_d·φ_w + Σ_j α_j ln θ_dj, from the prior's mean."""
    (m, k), dtype = phi.shape, phi.dtype
    F = to_lines(phi)
    nb = len(F) // m
    theta, room = np.empty((counts.shape[0], k), dtype), empty_lines(1, 2 * nb, dtype)
    _fold_in_into(
        theta, room, counts.indptr, counts.indices, counts.data, F, nb, alpha, np.finfo(dtype).tiny, max_iter, tol
    )  # fmt: skip
    return theta


@kernel
def _fold_in_into(out, room, indptr, indices, values, F, nb, alpha, tiny, max_iter, tol):
    n, k = out.shape
    for line in range(2 * np.uint64(nb)):
        store(room, line, zero(room))
    flat = room.reshape(2, -1)
    theta, gains, before = flat[0], flat[1], 0.0
    for j in range(k):
        before += alpha[j]
    for i in range(n):
        start, stop = np.uint64(indptr[i]), np.uint64(indptr[i + 1])
        for j in range(k):
            theta[j] = alpha[j] / before
        for _ in range(max_iter):
            _shares_into(room, start, stop, indices, values, F, nb, tiny)
            total = 0.0
            for j in range(k):
                gains[j] = alpha[j] + theta[j] * gains[j]
                total += gains[j]
            scale = gains.dtype.type(1 / total)
            change = 0.0
            for j in range(k):
                new = gains[j] * scale
                change += abs(new - theta[j])
                theta[j] = new
            if change <= tol:
                break
        for j in range(k):
            out[i, j] = theta[j]
