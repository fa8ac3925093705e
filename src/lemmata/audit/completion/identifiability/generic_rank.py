"""The freedom of a matrix of rank k whose known entries stay: the rank of a Jacobian, in exact arithmetic.

Matrices X = UVᵀ of rank k that keep the known entries move, to first order, by dX = dU Vᵀ + U dVᵀ with

    v_jᵀ du_i + u_iᵀ dv_j = 0        for every known (i, j):   J (dU, dV) = 0

k² of these moves change nothing (U → UM, V → VM⁻ᵀ); what is left, dim ker J − k², is the freedom of X. It is the same at almost
all U and V, and 0 if and only if generic matrices of rank k have finitely many completions (Király, Theran & Tomioka 2015).

**Peeling.** A row with d ≤ k entries can follow any move of its columns, in k − d dimensions of ways: without it the kernel is
k − d smaller. So rows and columns are taken off until all that are left have more than k entries. Often nothing is left.

**Growing.** A row with at least k entries in columns whose kernel is the k² moves above adds nothing to it. So if a small dense
block has no freedom, neither has anything that can be added to it row by row and column by column.

**Exact rank.** At random U and V modulo a random prime p, the rank of J is never larger than it is generically: no freedom
there proves that there is none. By Schwartz and Zippel it is smaller with probability at most degree/p, so freedom found is
real but for that. Rows are eliminated first, each on its own, and random weights w_ij on the entries make the rest square:

    JᵀWJ = [A B; Bᵀ C],     A_i = Σ_j w_ij v_j v_jᵀ,     (C − BᵀA⁻¹B)_jj' = Σ_i (w_ij δ_jj' − w_ij v_jᵀA_i⁻¹v_j' w_ij') u_i u_iᵀ

    >>> two_blocks = sp.block_diag([np.ones((4, 4)), np.ones((4, 4))], format="csr")
    >>> freedom(two_blocks, 1).directions, freedom(two_blocks, 2).directions
    (1, 4)
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

Array = np.ndarray

# between these: 128 products of two remainders are then below 2⁵³, exact in float64
PRIMES = (2**22, 2**23)
PANEL = 128
DOUBT = 1e-4  # that freedom was found where there is none; draws are repeated until it is below
SIDE = 12_000  # unknowns left after elimination: a matrix of 1.2 GB
WIDER = 1.6  # from one block to grow from to the next one tried


class Freedom(NamedTuple):
    """The dimension in which generic matrices of rank k can move while the known entries stay."""

    directions: int  # at least; 0: proved that there are none
    doubt: float  # the probability that there are none all the same; 0: proved


def freedom(pattern: sp.csr_array, k: int, budget: float = 1e9, rng: int = 0) -> Freedom | None:
    """The freedom that known entries (those stored) leave, or None if finding out takes more than `budget` multiplications."""
    rest, _, _, loose = peel(pattern, k)
    rows, columns = rest.shape
    if not rest.nnz:  # every row was taken off, and what each of them added is known
        return Freedom(loose - k * k, 0.0)
    pieces = int(connected_components(sp.block_array([[None, rest], [rest.T, None]]), False)[0])
    least = loose - k * k + max((rows + columns) * k - rest.nnz, pieces * k * k)
    if least > 0:
        return Freedom(least, 0.0)
    if all(part.all() for part in determined(rest, k, budget, rng)):
        return Freedom(0, 0.0)
    if 2 * elimination_cost(rest, k) > budget:  # as much as was left for growing
        return None
    draw, doubt = np.random.default_rng(rng), 1.0
    while doubt > DOUBT:
        kernel, risk = _kernel(rest, k, draw)
        if kernel == k * k:
            return Freedom(0, 0.0)
        doubt *= risk
    return Freedom(kernel - k * k, doubt)


def determined(pattern: sp.csr_array, k: int, budget: float, rng: int = 0) -> list[Array]:
    """Rows and columns, as masks, of the largest block found to have no freedom: grown from dense ones for half of `budget`."""
    rest, rows, columns, _ = peel(pattern, k)
    draw, spent = np.random.default_rng(rng), 0.0
    largest = [np.zeros(size, bool) for size in pattern.shape]
    for block in _dense_blocks(rest, k):
        spent += elimination_cost(block.pattern, k)
        if spent > budget / 2:
            break
        if _kernel(block.pattern, k, draw)[0] == k * k:
            grown = _grow(pattern, rows[block.rows], columns[block.columns], k)
            largest = max(largest, grown, key=lambda part: part[0].sum() * part[1].sum())
            if all(part.all() for part in largest):
                break
    return largest


def elimination_cost(pattern: sp.csr_array, k: int) -> float:
    """Multiplications: the elimination of the longer side and of the matrix that it leaves; inf beyond SIDE unknowns."""
    by_row = pattern if pattern.shape[0] >= pattern.shape[1] else pattern.T.tocsr()
    side = k * by_row.shape[1]
    # measured: a multiplication by the first formula takes about four times as long as one of a plain product
    first = 4 * float((np.diff(by_row.indptr).astype(float) ** 2).sum()) * k * (k + 1)
    return math.inf if side > SIDE else first + side**3 / 2 + 100 * side**2


# --- peeling and growing ----------------------------------------------------------------------------------------------


class Peeled(NamedTuple):
    pattern: sp.csr_array  # what is left: every row and column has more than k entries
    rows: Array  # their positions before
    columns: Array
    loose: int  # Σ (k − d) over the rows and columns taken off with d entries


def peel(pattern: sp.csr_array, k: int) -> Peeled:
    """Take off rows and columns with k entries or fewer until there are none."""
    ones = np.ones(pattern.nnz, np.int64)
    P = sp.csr_array((ones, pattern.indices, pattern.indptr), pattern.shape)
    sides = (P, P.T.tocsr())
    keep = [np.ones(size, bool) for size in P.shape]
    loose, changed = 0, True
    while changed:
        changed = False
        for side in (0, 1):
            counts = sides[side] @ keep[1 - side].astype(np.int64)
            off = keep[side] & (counts <= k)
            loose += int((k - counts[off]).sum())
            keep[side] &= ~off
            changed |= bool(off.any())
    rows, columns = (np.flatnonzero(part) for part in keep)
    return Peeled(P[rows][:, columns], rows, columns, loose)


def _dense_blocks(P: sp.csr_array, k: int) -> Iterator[Peeled]:
    """Blocks of the rows and columns with most entries, smallest first, that might have no freedom; never the whole."""
    rows, columns = (np.argsort(-np.diff(X.indptr), kind="stable") for X in (P, P.T.tocsr()))
    size = k + 1.0
    while size < max(P.shape):
        i, j = rows[: int(size)], columns[: int(size)]
        block = peel(P[i][:, j], k)
        if block.pattern.nnz >= max((sum(block.pattern.shape) - k) * k, 1):
            yield block._replace(rows=i[block.rows], columns=j[block.columns])
        size *= WIDER


def _grow(pattern: sp.csr_array, rows: Array, columns: Array, k: int) -> list[Array]:
    """Masks of a block and all that can be added to it, each row and column with at least k entries in what is there."""
    ones = np.ones(pattern.nnz, np.int64)
    P = sp.csr_array((ones, pattern.indices, pattern.indptr), pattern.shape)
    sides, found = (P, P.T.tocsr()), [np.zeros(size, bool) for size in P.shape]
    found[0][rows], found[1][columns] = True, True
    before = -1
    while before != (before := int(found[0].sum() + found[1].sum())):
        for side in (0, 1):
            found[side] |= sides[side] @ found[1 - side].astype(np.int64) >= k
    return found


# --- exact rank -------------------------------------------------------------------------------------------------------


def _kernel(pattern: sp.csr_array, k: int, draw: np.random.Generator) -> tuple[int, float]:
    """dim ker J at a random point modulo a random prime, and the probability that it is generically smaller."""
    P = pattern if pattern.shape[0] >= pattern.shape[1] else pattern.T.tocsr()
    n, m = P.shape
    while True:
        p = _random_prime(draw)
        U, V, w = (draw.integers(1, p, size) for size in ((n, k), (m, k), P.nnz))
        S = _without_rows(P, U, V, w, p)
        if S is not None:  # else a square block happened to be singular: another point
            break
    # a minor of JᵀWJ has degree at most 3 (two factors, one weight) in each of its rows
    return k * m - rank_modulo(S, p), 3 * k * (n + m) / p


def _without_rows(P: sp.csr_array, U: Array, V: Array, w: Array, p: int) -> Array | None:
    """C − BᵀA⁻¹B modulo p, (mk, mk); None where some A_i is singular."""
    (n, m), k = P.shape, U.shape[1]
    here = [slice(P.indptr[i], P.indptr[i + 1]) for i in range(n)]
    wV = [w[s, None] * V[P.indices[s]] % p for s in here]
    A = np.stack([W.T @ V[P.indices[s]] % p for W, s in zip(wV, here, strict=True)])
    inverses = _inverses(A, p)
    if inverses is None:
        return None
    S, step = np.zeros((m * m, k * k)), min(64, k * k)
    for first in range(0, n, step):
        some = np.arange(first, min(first + step, n))
        C = np.zeros((len(some), m, m))
        for t, i in enumerate(some):
            j = P.indices[here[i]]
            C[t][np.ix_(j, j)] = (np.diag(w[here[i]]) - (wV[i] @ inverses[i] % p) @ wV[i].T) % p
        uu = U[some][:, :, None] * U[some][:, None] % p
        # 64 products below 2⁴⁶ add up to less than 2⁵³: exact in float64
        S = _remainder(S + C.reshape(len(some), -1).T @ uu.reshape(len(some), -1).astype(float), p)
    return S.reshape(m, m, k, k).transpose(0, 2, 1, 3).reshape(m * k, m * k)


def _inverses(A: Array, p: int) -> Array | None:
    """The inverses modulo p of a stack of k × k matrices by Gauss and Jordan; None where a pivot is 0."""
    k = A.shape[1]
    A = np.concatenate([A, np.broadcast_to(np.eye(k, dtype=np.int64), A.shape)], axis=2)
    for t in range(k):
        if not A[:, t, t].all():
            return None
        A[:, t] = A[:, t] * _reciprocals(A[:, t, t], p)[:, None] % p
        others = A[:, :, t].copy()
        others[:, t] = 0
        A = (A - others[:, :, None] * A[:, None, t]) % p
    return A[:, :, k:]


def rank_modulo(M: Array, p: int) -> int:
    """The rank of a matrix of whole numbers in [0, p) modulo a prime p ≤ 2²³, by elimination in panels. Overwrites M.

    Within a panel the multipliers of each pivot are kept; the columns to the right of it get all of them at once, by products
    of float64 matrices whose sums of at most PANEL terms stay below 2⁵³.
    """
    rank = 0
    for start in range(0, M.shape[1], PANEL):
        panel, right = M[rank:, start : start + PANEL].copy(), slice(start + PANEL, None)
        found, L = 0, np.zeros((len(panel), PANEL))
        for column in range(panel.shape[1]):
            where = np.flatnonzero(panel[found:, column])
            if not len(where):
                continue
            pivot = found + where[0]
            if pivot != found:
                for X in (panel, L, M[rank:, right]):
                    X[[found, pivot]] = X[[pivot, found]]
            scale = pow(int(panel[found, column]), -1, p)
            L[found + 1 :, found] = _remainder(panel[found + 1 :, column] * scale, p)
            rest = panel[found + 1 :, column:]
            rest[:] = _remainder(rest - np.outer(L[found + 1 :, found], panel[found, column:]), p)
            found += 1
        T = M[rank:, right]
        for t in range(found - 1):
            T[t + 1 : found] = _remainder(T[t + 1 : found] - np.outer(L[t + 1 : found, t], T[t]), p)
        T[found:] = _remainder(T[found:] - L[found:, :found] @ T[:found], p)
        rank += found
        if rank == len(M):
            break
    return rank


def _remainder(X: Array, p: int) -> Array:
    """X modulo p for whole numbers |X| < 2⁵³ in float64: a quotient that is off by one at most, and a correction."""
    X = X - np.floor(X * (1.0 / p)) * p
    X += p * (X < 0)
    return np.where(p > X, X, X - p)


def _reciprocals(x: Array, p: int) -> Array:
    """1/x modulo p as x^(p−2), by squaring."""
    power, out, left = x.copy(), np.ones_like(x), p - 2
    while left:
        if left & 1:
            out = out * power % p
        power, left = power * power % p, left >> 1
    return out


def _random_prime(draw: np.random.Generator) -> int:
    while True:
        p = int(draw.integers(*PRIMES)) | 1
        if all(p % d for d in range(3, math.isqrt(p) + 1, 2)):
            return p
