"""The row solvers in NumPy and SciPy: what the kernels beside this file do, for data too small to wait for a compiler.

All rows at once, in float64. The matrices of all rows come from one sparse product with the products z_a z_b of the columns'
factors z_j = (v_j, 1), and LAPACK solves the stack. Every sum runs over one row's own entries in their order, so that blocks of
rows have the bits of the whole, whatever BLAS does with its threads.

    M_i = Σ_j β_ij z_j z_jᵀ + G + diag(λ_i, …, λ_i, κ_i)          h_i = Σ_j t_ij z_j
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from lemmata.completion.data.entries import Entries, WeightedEntries

Array = np.ndarray

NUMBERS = 2**21  # in one array: 16 MB
DESCENT = 10_000  # sweeps of co-ordinate descent, where pivoting goes round in circles


@dataclass(frozen=True, eq=False)
class RowProblems:
    """One least-squares problem per row of the entries."""

    entries: Entries
    V: Array  # (m, k)
    reg: Array  # (n,) λ_i
    bias_reg: Array  # (n,) κ_i
    eps: float  # the rounding that V and the values have been through
    bias: bool = False
    shift: Array | None = None  # (m,) what is taken from the values
    alpha: float | None = None  # of implicit feedback; None: explicit
    gram: Array | None = None  # (k, k) VᵀV, with implicit feedback
    start: Array | None = None  # (n, p) where to begin

    @property
    def implicit(self) -> bool:
        return self.alpha is not None

    @property
    def unknowns(self) -> int:
        """p of a row: its factors and its bias."""
        return self.V.shape[1] + self.bias

    @cached_property
    def Z(self) -> Array:
        """The factors of the columns, with 1 for the bias (m, p)."""
        return np.column_stack([self.V, np.ones(len(self.V))]) if self.bias else self.V

    @cached_property
    def ridge(self) -> Array:
        """λ_i, and κ_i for the bias (n, p)."""
        out = np.repeat(self.reg[:, None], self.unknowns, axis=1)
        if self.bias:
            out[:, -1] = self.bias_reg
        return out

    @cached_property
    def counts(self) -> Array:
        return np.diff(self.entries.indptr)

    @cached_property
    def weights(self) -> Array:
        """β."""
        values, given = self.entries.values, self.entries.weights
        if self.alpha is not None:
            return self.alpha * np.abs(values)
        return np.ones(len(values)) if given is None else given

    @cached_property
    def targets(self) -> Array:
        """t."""
        (_, indices, values), given = self.entries, self.entries.weights
        if self.alpha is not None:
            return (1 + self.alpha * np.abs(values)) * (values > 0)
        wanted = values if self.shift is None else values - self.shift[indices]
        return wanted if given is None else given * wanted

    @cached_property
    def _pattern(self) -> sp.csr_array:
        indptr, indices, values = self.entries
        return sp.csr_array((values, indices, indptr), shape=(len(self.reg), len(self.V)))

    def times(self, x: Array, B: Array) -> Array:
        """S B for the sparse S with x at the entries."""
        self._pattern.data = x  # to make another one takes longer than a small product
        return np.asarray(self._pattern @ B)

    def in_float64(self) -> RowProblems:
        """The same problems, all in float64."""
        indptr, indices, values = self.entries
        entries = Entries(np.asarray(indptr, np.int64), np.asarray(indices), _wide(values))
        if self.entries.weights is not None:
            entries = WeightedEntries.of(entries, _wide(self.entries.weights))
        wide: dict[str, Any] = {name: getattr(self, name) for name in ("shift", "gram", "start")}
        wide = {name: None if part is None else _wide(part) for name, part in wide.items()}
        return replace(self, entries=entries, V=_wide(self.V), **wide)

    def take(self, rows: Array) -> RowProblems:
        """The problems of some rows in float64, to be solved once more."""
        indptr, counts = self.entries.indptr, self.counts[rows]
        pointers = np.r_[0, np.cumsum(counts)].astype(np.int64)
        places = np.repeat(indptr[rows] - pointers[:-1], counts) + np.arange(pointers[-1])
        entries, V = self._some_entries(pointers, places), _wide(self.V)
        gram = V.T @ V if self.implicit else None
        own: dict[str, Any] = {"reg": self.reg[rows], "bias_reg": self.bias_reg[rows]}
        return replace(self, entries=entries, V=V, **own, gram=gram, start=None).in_float64()

    def cut(self, size: int) -> Iterator[tuple[slice, RowProblems]]:
        """So many rows at once, with the columns that they have entries in."""
        indptr, indices, _ = self.entries
        if len(self.reg) <= size and len(indices) >= len(self.V):
            yield slice(0, len(self.reg)), self
            return
        for first in range(0, len(self.reg), size):
            rows = slice(first, min(first + size, len(self.reg)))
            here = slice(indptr[rows.start], indptr[rows.stop])
            used, columns = np.unique(indices[here], return_inverse=True)
            pointers = indptr[rows.start : rows.stop + 1] - indptr[rows.start]
            entries = self._some_entries(pointers, here)._replace(indices=columns.reshape(-1))
            own: dict[str, Any] = {"reg": self.reg[rows], "bias_reg": self.bias_reg[rows]}
            shift = None if self.shift is None else self.shift[used]
            start = None if self.start is None else self.start[rows]
            part = replace(self, entries=entries, V=self.V[used], **own, shift=shift, start=start)
            yield rows, part

    def _some_entries(self, indptr: Array, places: Any) -> Entries:
        """The entries at some places, with the pointers of their rows."""
        _, indices, values = self.entries
        some, weights = Entries(indptr, indices[places], values[places]), self.entries.weights
        return some if weights is None else WeightedEntries.of(some, weights[places])


def _wide(part: Array) -> Array:
    return np.asarray(part, np.float64)


def normal_equations(rows: RowProblems) -> tuple[Array, Array]:
    """M_i (n, p, p) and h_i (n, p)."""
    Z, n = rows.Z, len(rows.reg)
    p = Z.shape[1]
    a, b = np.triu_indices(p)
    M, at_once = np.empty((n, p, p)), max(1, NUMBERS // max(len(Z), 1))
    for start in range(0, len(a), at_once):
        i, j = a[start : start + at_once], b[start : start + at_once]
        M[:, i, j] = M[:, j, i] = rows.times(rows.weights, Z[:, i] * Z[:, j])
    if rows.gram is not None:
        M += rows.gram
    diagonal = np.arange(p)
    M[:, diagonal, diagonal] += rows.ridge
    return M, rows.times(rows.targets, Z)


def solve(rows: RowProblems, tolerance: Array) -> tuple[Array, Array]:
    """w_i by M_i w = h_i, and whether each may be trusted: no pivot is lost in rounding. Zero for a row without entries."""
    p = rows.unknowns
    W, sound = np.zeros((len(rows.reg), p)), np.ones(len(rows.reg), bool)
    for here, part in rows.cut(max(1, NUMBERS // max(p, 1) ** 2)):
        filled = part.counts > 0
        # more unknowns than equations
        few = (part.reg == 0) & (part.counts < p - (part.bias_reg > 0)) & (not rows.implicit)
        M, h = normal_equations(part)
        trusted = filled & ~few
        # in units of its diagonal: factors and biases have different ones, and pivoting should not see them
        own = np.diagonal(M, axis1=1, axis2=2)
        scale = 1 / np.sqrt(np.where(own > 0, own, 1.0))
        M *= scale[:, :, None] * scale[:, None, :]
        # a ridge as large as this keeps every pivot: no need to look
        least = (part.ridge * scale**2).min(axis=1, initial=np.inf)
        doubtful = np.flatnonzero(trusted & ~(least > 2 * tolerance[here]))
        if len(doubtful):
            trusted[doubtful] = cholesky(M[doubtful], tolerance[here][doubtful])[1].all(axis=1)
        if not trusted.all():
            M, h, scale = M[trusted], h[trusted], scale[trusted]
        W[here][trusted] = scale * np.linalg.solve(M, (scale * h)[:, :, None])[:, :, 0]
        sound[here] = trusted | ~filled
    return W, sound


def cholesky(M: Array, tolerance: Array | float) -> tuple[Array, Array]:
    """R (n, p, p) with RᵀR = M, and which pivots are sound: above the tolerance, in units of their diagonal."""
    R, (n, p) = M.copy(), M.shape[:2]
    least = np.broadcast_to(np.asarray(tolerance), n)[:, None] * np.diagonal(M, axis1=1, axis2=2)
    sound = np.zeros((n, p), bool)
    for i in range(p):
        sound[:, i] = R[:, i, i] > least[:, i]
        root = np.where(sound[:, i], np.sqrt(np.where(sound[:, i], R[:, i, i], 1)), np.inf)
        R[:, i, i:] /= root[:, None]
        R[:, i, :i] = 0
        R[:, i + 1 :, i + 1 :] -= R[:, i, i + 1 :, None] * R[:, i, None, i + 1 :]
    return R, sound


# --- conjugate gradients ----------------------------------------------------------------------------------------------


def conjugate_gradients(rows: RowProblems, steps: int) -> Array:
    """w_i after so many steps from `start`, scaled by the diagonal of M_i; as _kernels_cg.py."""
    Z, ridge, filled = rows.Z, rows.ridge, rows.counts > 0
    weights, targets = rows.weights, rows.targets
    W = np.zeros_like(ridge) if rows.start is None else np.where(filled[:, None], rows.start, 0.0)
    own = rows.times(weights, Z**2) + ridge
    if rows.gram is not None:
        own += np.diagonal(rows.gram)
    inverse = 1 / np.where(own > 0, own, 1.0)

    def times(X: Array) -> Array:
        out = rows.times(weights * dots(rows, X, Z), Z) + ridge * X
        return out + X @ rows.gram if rows.implicit else out

    missing = targets - weights * dots(rows, W, Z)
    r = rows.times(missing, Z) - ridge * W - (W @ rows.gram if rows.implicit else 0.0)
    # rz of a residual that is four roundings per unknown
    counted = weights if rows.entries.weights is not None else np.maximum(weights, 1)
    size = sums(rows.entries.indptr, missing**2 / counted)
    least = 16 * (rows.V.shape[1] + 1) * rows.eps**2 * size
    P = inverse * r
    rz, going = np.einsum("ij,ij->i", P, r), filled
    for _ in range(steps):
        Q = times(P)
        curvature = np.einsum("ij,ij->i", P, Q)
        going = going & (rz > least) & (curvature > 0)
        step = np.where(going, rz / np.where(going, curvature, 1), 0.0)[:, None]
        W, r = W + step * P, r - step * Q
        S = inverse * r
        before, rz = rz, np.where(going, np.einsum("ij,ij->i", S, r), rz)
        P = np.where(going, rz / np.where(going, before, 1), 0.0)[:, None] * P + S
    return W


# --- nonnegative rows -------------------------------------------------------------------------------------------------


def nonnegative(rows: RowProblems, tolerance: float, rounds: int = 100) -> Array:
    """w_i with factors ≥ 0 by block principal pivoting; as _kernels_nonnegative.py."""
    k, p = rows.V.shape[1], rows.unknowns
    W = np.zeros((len(rows.reg), p))
    for here, part in rows.cut(max(1, NUMBERS // max(p, 1) ** 2)):
        filled = np.flatnonzero(part.counts > 0)
        M, h = (whole[filled] for whole in normal_equations(part))
        positive = np.ones((len(filled), p), bool)
        if part.start is not None:
            positive[:, :k] = part.start[filled, :k] > 0
        W[np.arange(len(W))[here][filled]] = pivot(M, h, positive, k, tolerance, rounds)
    return W


def pivot(M: Array, b: Array, positive: Array, k: int, tolerance: float, rounds: int) -> Array:
    """The minimisers of ½ xᵀMx − bᵀx with the first k unknowns ≥ 0; `positive` is the first guess of which are."""
    n, d = b.shape
    x, positive = np.zeros((n, d)), positive.copy()
    fewest, tries, open_ = np.full(n, d + 1), np.full(n, 3), np.arange(n)
    small = np.abs(b).max(axis=1, initial=0.0) * d * 2.3e-16  # rounding of one y_i
    for _ in range(rounds):
        F = positive[open_]
        x[open_] = solve_part(M[open_], b[open_], F, tolerance)
        y = np.einsum("nij,nj->ni", M[open_], x[open_]) - b[open_]
        level = np.abs(x[open_]).max(axis=1, initial=0.0) * d * 2.3e-16
        wrong = np.where(F, x[open_] < -level[:, None], y < -small[open_, None])
        wrong[:, k:] = False
        count = wrong.sum(axis=1)
        better = count < fewest[open_]
        fewest[open_] = np.where(better, count, fewest[open_])
        tries[open_] = np.where(better, 3, tries[open_] - 1)
        last = np.zeros_like(wrong)
        last[np.arange(len(open_)), d - 1 - wrong[:, ::-1].argmax(axis=1)] = True
        positive[open_] = F ^ (wrong & ((tries[open_] >= 0)[:, None] | last))
        open_ = open_[count > 0]
        if not len(open_):
            break
    x[:, :k] = np.maximum(x[:, :k], 0.0)
    if len(open_):
        x[open_] = descend(M[open_], b[open_], x[open_], k)
    return x


def solve_part(M: Array, b: Array, chosen: Array, tolerance: float) -> Array:
    """M_FF x_F = b_F, 0 elsewhere. A factor that depends on those before it gets 0: M x = b all the same."""
    inside = chosen[:, :, None] & chosen[:, None, :]
    diagonal = np.arange(M.shape[1])
    part = np.where(inside, M, 0.0)
    part[:, diagonal, diagonal] = np.where(chosen, M[:, diagonal, diagonal], 1.0)
    R, sound = cholesky(part, tolerance)
    left, x = np.where(chosen, b, 0.0), np.zeros_like(b)
    root = np.where(sound, R[:, diagonal, diagonal], np.inf)
    for i in diagonal:  # Rᵀ z = b
        left[:, i] /= root[:, i]
        left[:, i + 1 :] -= left[:, i, None] * R[:, i, i + 1 :]
    for i in diagonal[::-1]:  # R x = z
        x[:, i] = (left[:, i] - np.einsum("nj,nj->n", R[:, i, i + 1 :], x[:, i + 1 :])) / root[:, i]
    return np.where(chosen, x, 0.0)


def descend(M: Array, b: Array, x: Array, k: int) -> Array:
    """Co-ordinate descent: one exact step per unknown, until none moves."""
    y = np.einsum("nij,nj->ni", M, x) - b
    for _ in range(DESCENT):
        moved, largest = np.zeros(len(x)), np.zeros(len(x))
        for i in range(x.shape[1]):
            own = M[:, i, i]
            new = x[:, i] - np.where(own > 0, y[:, i] / np.where(own > 0, own, 1), 0.0)
            new = np.maximum(new, 0.0) if i < k else new
            step = new - x[:, i]
            y += step[:, None] * M[:, i]
            moved, largest = np.maximum(moved, np.abs(step)), np.maximum(largest, np.abs(new))
            x[:, i] = new
        if (moved <= 4e-16 * largest).all():  # two roundings
            break
    return x


# --- at the entries ---------------------------------------------------------------------------------------------------


def losses(rows: RowProblems, W: Array) -> Array:
    """½ Σ (a − s − w·z)² + ½ wᵀΛw of every row; implicit: ½ Σ c (p − w·v)² over all j, those without an entry through G."""
    x = dots(rows, W, rows.Z)
    penalty = np.einsum("ij,ij,ij->i", rows.ridge, W, W)
    if rows.entries.weights is not None:
        left = rows.targets - rows.entries.weights * x
        return 0.5 * (sums(rows.entries.indptr, left**2 / rows.entries.weights) + penalty)
    if not rows.implicit:
        return 0.5 * (sums(rows.entries.indptr, (rows.targets - x) ** 2) + penalty)
    own = (1 + rows.weights) * ((rows.entries.values > 0) - x) ** 2 - x**2
    return 0.5 * (
        sums(rows.entries.indptr, own) + penalty + np.einsum("ij,ij->i", W @ rows.gram, W)
    )


def dots(rows: RowProblems, W: Array, Z: Array) -> Array:
    """w_i·z_j at every entry."""
    return products(rows.entries.indptr, rows.entries.indices, W, Z)


def products(indptr: Array, indices: Array, U: Array, V: Array) -> Array:
    """u_i·v_j at every entry, in the order of the entries."""
    at = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    out, at_once = np.empty(len(indices), V.dtype), max(1, NUMBERS // max(U.shape[1], 1))
    for start in range(0, len(indices), at_once):
        here = slice(start, start + at_once)
        out[here] = np.einsum("ek,ek->e", np.take(U, at[here], 0), np.take(V, indices[here], 0))
    return out


def sums(indptr: Array, x: Array) -> Array:
    """Σ of x over the entries of every row, in float64; 0 for an empty row."""
    out, filled = np.zeros(len(indptr) - 1), np.diff(indptr) > 0
    if len(x):
        out[filled] = np.add.reduceat(x, indptr[:-1][filled], dtype=np.float64)
    return out
