"""Rows with factors ≥ 0 (the bias is free): min ½ xᵀMx − bᵀx by block principal pivoting.

    at the solution, for every factor:   x_i ≥ 0,   y_i = (M x − b)_i ≥ 0,   x_i y_i = 0                       (KKT)

Guess which factors are positive, solve for those, and move to the other side whoever breaks a sign: all of them while their
number falls, only the last of them after three failures (Murty's rule, which ends for positive definite M). From a good guess
(the last sweep's) one or two factorisations of a k × k matrix are enough. Where rounding or a singular M makes it go round in
circles, co-ordinate descent finishes: it needs no more than M ⪰ 0. All in float64.
"""

from __future__ import annotations

import numpy as np

from lemmata.completion.rows._kernels import (
    clear_extra,
    loss_of,
    normal_equations_into,
    unpack_into,
)
from lemmata.core.engine import kernel
from lemmata.linalg.simd import store, zero


@kernel
def _unpack_system_into(M, b, C, k, bias, count, summed, reg, bias_reg):
    """M and b in float64 from the lines of C, of which only blocks on and above the diagonal are filled."""
    width, lanes = C.shape[1:]
    extra = (width - 1) * lanes
    for r in range(k):
        for s in range(r, k):
            M[r, s] = M[s, r] = C[r, s // lanes, s % lanes]
        b[r] = C[extra, r // lanes, r % lanes]
        M[r, r] += reg
        if bias:
            M[r, k] = M[k, r] = C[extra + 1, r // lanes, r % lanes]
    if bias:
        M[k, k], b[k] = count + bias_reg, summed


@kernel
def _solve_part_into(x, R, M, b, chosen, tolerance):
    """M_FF x_F = b_F for the chosen F, 0 elsewhere. A factor that depends on those before it gets 0: M x = b all the same."""
    size = len(chosen)
    for p in range(size):
        for q in range(p, size):
            R[p, q] = M[chosen[p], chosen[q]]
        R[p, size] = b[chosen[p]]
    for p in range(size):
        sound = R[p, p] > tolerance * M[chosen[p], chosen[p]]
        inverse = 1 / np.sqrt(R[p, p]) if sound else 0.0
        for q in range(p, size + 1):
            R[p, q] *= inverse
        for i in range(p + 1, size):
            m = R[p, i]
            for q in range(i, size + 1):
                R[i, q] -= m * R[p, q]
        R[p, p] = inverse
    x[:] = 0
    for p in range(size - 1, -1, -1):
        left = R[p, size]
        for q in range(p + 1, size):
            left -= R[p, q] * x[chosen[q]]
        x[chosen[p]] = left * R[p, p]


@kernel
def _gradient_into(y, M, x, b):
    """y = M x − b."""
    for q in range(len(b)):
        y[q] = -b[q]
    for p in range(len(b)):
        for q in range(len(b)):
            y[q] += x[p] * M[p, q]


@kernel
def _descend(x, y, M, k, sweeps):
    """Co-ordinate descent from x with gradient y: one exact step per unknown, until none moves or so many sweeps are done."""
    for _ in range(sweeps):
        largest, moved = 0.0, 0.0
        for i in range(len(x)):
            if M[i, i] <= 0:
                continue
            new = x[i] - y[i] / M[i, i]
            if i < k:
                new = max(new, 0.0)
            step = new - x[i]
            for q in range(len(x)):
                y[q] += step * M[i, q]
            moved, largest = max(moved, abs(step)), max(largest, abs(new))
            x[i] = new
        if moved <= 4e-16 * largest:  # two roundings
            break


@kernel
def pivot_into(x, M, b, R, positive, k, tolerance, rounds):
    """x = the minimiser; `positive` (k + bias) is the guess and, at the end, the answer to which unknowns are solved for.

    Returns whether the signs came out right within `rounds` exchanges; if not, co-ordinate descent made x.
    """
    d = len(b)
    small = np.abs(b).max() * d * 2.3e-16  # rounding of one y_i
    fewest, tries = d + 1, 3
    wrong, y = np.empty(d, np.bool_), np.empty(d)
    for _ in range(rounds):
        _solve_part_into(x, R, M, b, np.flatnonzero(positive), tolerance)
        _gradient_into(y, M, x, b)
        level = np.abs(x).max() * d * 2.3e-16
        count, last = 0, -1
        for i in range(k):
            wrong[i] = x[i] < -level if positive[i] else y[i] < -small
            if wrong[i]:
                count, last = count + 1, i
        if count == 0:
            for i in range(k):
                x[i] = max(x[i], 0.0)
            return True
        if count < fewest:
            fewest, tries = count, 3
        else:
            tries -= 1
        for i in range(k):
            if wrong[i] and (tries >= 0 or i == last):
                positive[i] = not positive[i]
    for i in range(k):
        x[i] = max(x[i], 0.0)
    _gradient_into(y, M, x, b)
    _descend(x, y, M, k, 10_000)
    return False


@kernel
def nonnegative_range(problem, tolerance, begin, work, first, last, W, losses, _):
    """Rows first … last − 1 of W, and their losses; `begin` (rows, or none) says which factors to guess positive."""
    indptr, indices, values, roots, masses, V, shift, G, reg, bias_reg = problem[0]
    k, bias, implicit, alpha, measure = problem[1]
    C, X, B, vectors = work
    w, lanes, d = vectors[0], C.shape[2], W.shape[1]
    M, R, b, x = np.empty((d, d)), np.empty((d, d + 1)), np.empty(d), np.empty(d)
    positive = np.ones(d, np.bool_)
    clear_extra(B)
    for i in range(first, last):
        start, end = indptr[i], indptr[i + 1]
        W[i] = 0
        if start == end:
            continue
        summed = normal_equations_into(
            C, X, B, k, V, indices, values, roots, shift, G, implicit, alpha, start, end
        )
        _unpack_system_into(M, b, C, k, bias, masses[i], summed, reg[i], bias_reg[i])
        for c in range(k):
            positive[c] = begin.shape[0] == 0 or begin[i, c] > 0
        pivot_into(x, M, b, R, positive, k, tolerance, 100)
        for block in range(w.shape[0]):
            store(w, block, zero(w))
        for c in range(k):
            w[c // lanes, c % lanes] = x[c]
        if bias:
            w[w.shape[0] - 1, 0] = x[k]
        unpack_into(W, i, w, k)
        if measure:
            losses[i] = loss_of(
                w, k, V, indices, values, roots, shift, G, implicit, alpha, reg[i], bias_reg[i], start, end
            )  # fmt: skip
