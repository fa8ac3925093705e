"""The columns of a regression, centred and weighted without being copied: what the solvers multiply with.

    x̃_j = √(s/W) ∘ (x_j − μ_j),   ỹ = √(s/W) ∘ (y − ȳ),        W = Σ s, the sum of the weights

In these units the objective is ½‖ỹ − X̃w‖² + penalty, and the intercept is gone: b = ȳ − μᵀw. Sparse columns stay sparse, the
mean is subtracted from products. Columns without penalty are projected out in the same way (their span is Q), so that every
residual is orthogonal to them and a dual point needs no repair there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from lemmata.core.engine import run_tasks
from lemmata.core.validation import refuse_nonfinite

Array = np.ndarray
IN_CACHE = 2**17  # numbers of a block that several operations read
TASKS = 8  # parts of a pass over all columns
SIDE_BY_SIDE = 2**20  # numbers of a pass that is worth a second thread
# of variance over squared mean: below it products with the raw column lose five digits
OFF_CENTRE = 1e-10
FLAT = 8 * np.finfo(np.float64).eps  # a standard deviation so small against the mean is rounding


@dataclass(frozen=True)
class Design:
    """X̃ as an operator. `X` is the dense array as given, or scaled CSC columns."""

    X: Any  # (n, d)
    scale: Array | float  # √(s/W), a number where all rows count alike
    mean: Array  # (d,) μ, 0 without an intercept
    norms: Array  # (d,) ‖x̃_j‖
    Q: Array | None = None  # (n, u) orthonormal: the span of the columns without penalty

    @property
    def shape(self) -> tuple[int, int]:
        return self.X.shape

    @property
    def sparse(self) -> bool:
        return sp.issparse(self.X)

    @property
    def size(self) -> int:
        """The numbers that a pass reads."""
        return self.X.nnz if self.sparse else self.X.size

    @classmethod
    def of(cls, X: Any, scale: Array | float, centred: bool, Y: Array) -> tuple[Design, Array]:
        """The design and X̃ᵀY, (d, T), in one pass, for a Y that is orthogonal to √(s/W) if the columns are centred.

        Refuses NaN and infinity.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            if sp.issparse(X):
                X = scaled_columns(X, scale)
                mean = X.T @ np.broadcast_to(scale, X.shape[0]) if centred else np.zeros(X.shape[1])
                squares = sums_of_columns(X.data**2, X.indptr)
                products = X.T @ Y
            else:
                mean, squares, products = _dense_moments(X, scale, centred, Y)
        if not np.isfinite(squares).all():
            refuse_nonfinite(X)
            raise ValueError(
                "Input X contains numbers too large to be squared; divide X by its largest number."
            )
        if not centred:
            return cls(X, scale, mean, np.sqrt(squares)), products
        spread = squares - mean**2
        doubtful = np.flatnonzero((spread <= OFF_CENTRE * mean**2) & (mean != 0))
        design = cls(X, scale, mean, np.sqrt(np.maximum(spread, 0)))
        if len(doubtful):
            design = design._recentre(doubtful)
            products[doubtful] = design.correlate(Y, doubtful)
        return design, products

    def _recentre(self, doubtful: Array) -> Design:
        """Columns far from zero: constant ones get norm 0, others are centred in a copy, where products keep their digits."""
        mean, norms = self.mean.copy(), self.norms.copy()
        centred = {}
        for j in doubtful:
            x = self.take(np.array([j]))[0]  # √(s/W)(x − μ)
            rest = float(x @ np.broadcast_to(self.scale, len(x)))
            x = x - rest * self.scale
            mean[j] += rest
            norms[j] = np.sqrt(x @ x)
            if norms[j] <= FLAT * abs(mean[j]):
                norms[j] = 0.0
            else:
                centred[j] = mean[j]
        if centred and not self.sparse:
            at = np.array(list(centred))
            X = np.array(self.X, dtype=np.float64, order="F")
            X[:, at] -= mean[at]
            mean = mean.copy()
            mean[at] = 0.0
            return OffCentre(X, self.scale, mean, norms, None, tuple(centred.items()))
        return replace(self, mean=mean, norms=norms)

    @property
    def offset(self) -> Array:
        """The means of the columns as they were given."""
        return self.mean

    def without(self, J: Array) -> Design:
        """The columns projected onto the complement of the span of columns J, which bear no penalty."""
        basis, R = np.linalg.qr(self.take(J).T)
        size = np.abs(np.diagonal(R))
        independent = size > len(self.norms) * np.finfo(float).eps * self.norms[J].max(initial=0.0)
        if not independent.all():  # the span of dependent columns, by singular vectors
            U, values, _ = np.linalg.svd(self.take(J).T, full_matrices=False)
            basis = U[:, values > max(U.shape) * np.finfo(float).eps * values.max(initial=0.0)]
        return replace(self, Q=np.ascontiguousarray(basis))

    def project(self, R: Array) -> Array:
        """R, (n,) or (n, b), without what the columns that bear no penalty explain."""
        return R if self.Q is None else R - self.Q @ (self.Q.T @ R)

    def take(self, J: Array) -> Array:
        """Columns J as rows of a dense array, (|J|, n), not projected."""
        if self.sparse:
            rows = np.ascontiguousarray(self.X[:, J].toarray().T)
            if self.mean.any():
                rows -= np.multiply.outer(self.mean[J], np.broadcast_to(self.scale, rows.shape[1]))
            return rows
        chosen = self.X.T[J] if self.X.flags.f_contiguous else self.X[:, J].T
        rows = np.array(chosen, dtype=np.float64, order="C")
        rows -= self.mean[J][:, None]
        rows *= self.scale
        return rows

    def correlate(self, R: Array, J: Array | None = None) -> Array:
        """X̃ᵀR, of all columns or of columns J; (n, b) → (d, b)."""
        R = np.ascontiguousarray(R.T).T  # each residual in one piece
        scaled = R if self.sparse else (R.T * self.scale).T
        total = (R.T * self.scale).sum(axis=1) if self.sparse else scaled.sum(axis=0)
        out = np.empty((self.shape[1] if J is None else len(J), R.shape[1]))

        def work(a: int, b: int) -> None:
            columns: Any = slice(a, b) if J is None else J[a:b]
            out[a:b] = self._block(columns).T @ scaled
            out[a:b] -= np.multiply.outer(self.mean[columns], total)

        by_columns(work, len(out), self.size // self.shape[1] * len(out))
        return out

    def _block(self, columns: Any) -> Any:
        if self.sparse and isinstance(columns, slice):
            return shared_columns(self.X, columns.start, columns.stop)
        block = self.X[:, columns]
        return block if self.sparse or block.dtype == np.float64 else block.astype(np.float64)


@dataclass(frozen=True)
class OffCentre(Design):
    """A design some of whose columns were centred in a copy."""

    moved: tuple[tuple[int, float], ...] = ()

    @property
    def offset(self) -> Array:
        mean = self.mean.copy()
        for j, value in self.moved:
            mean[j] = value
        return mean


def by_columns(work: Callable[[int, int], None], count: int, size: int) -> None:
    """work(first, last) for parts of the columns, side by side where that pays; the cuts do not follow the threads."""
    if size < SIDE_BY_SIDE:
        work(0, count)
        return
    cuts = np.linspace(0, count, TASKS + 1).astype(int)
    run_tasks(lambda task: work(cuts[task], cuts[task + 1]), TASKS)


def scaled_columns(X: Any, scale: Array | float) -> Any:
    """√(s/W) ∘ X as CSC columns of float64, in canonical form."""
    X = sp.csc_array(X)
    if not X.has_canonical_format:  # a row named twice in a column is added up, in a copy
        X = X.copy()
        X.sum_duplicates()
    factor = scale if np.ndim(scale) == 0 else np.asarray(scale)[X.indices]
    return sp.csc_array((X.data * np.asarray(factor, np.float64), X.indices, X.indptr), X.shape)


def sums_of_columns(values: Array, indptr: Array) -> Array:
    """The sum of the entries of every column, 0 for an empty one."""
    sums, filled = np.zeros(len(indptr) - 1), np.flatnonzero(np.diff(indptr))
    if len(filled):
        sums[filled] = np.add.reduceat(values, indptr[filled])
    return sums


def shared_columns(X: Any, start: int, stop: int) -> Any:
    """Columns of a CSC matrix that share its entries; scipy's own slices copy them."""
    if stop - start == X.shape[1]:
        return X
    first, last = X.indptr[start], X.indptr[stop]
    parts = (X.data[first:last], X.indices[first:last], X.indptr[start : stop + 1] - first)
    return sp.csc_array(parts, shape=(X.shape[0], stop - start))


def _dense_moments(
    X: Array, scale: Array | float, centred: bool, Y: Array
) -> tuple[Array, Array, Array]:
    """Weighted means of x and of x² per column, and X̃ᵀY, a cached block of columns at a time."""
    n, d = X.shape
    mean, squares, products = np.zeros(d), np.zeros(d), np.zeros((d, Y.shape[1]))
    one = np.broadcast_to(scale, n) * scale  # s/W
    right = np.asfortranarray((Y.T * scale).T)
    even = np.ndim(scale) == 0

    def add(rows: slice, columns: slice) -> None:
        B = X[rows, columns].astype(np.float64, copy=False)
        products[columns] += B.T @ right[rows]
        if centred:
            mean[columns] += one[rows] @ B
        B = B if even else B * np.asarray(scale)[rows, None]
        squares[columns] += np.einsum("ij,ij->j", B, B)

    def work(first: int, last: int) -> None:
        if X.flags.f_contiguous:  # whole columns, or else parts of rows
            step = max(1, IN_CACHE // n)
            for a in range(first, last, step):
                add(slice(None), slice(a, min(a + step, last)))
        else:
            step = max(16, IN_CACHE // max(last - first, 1))
            for a in range(0, n, step):
                add(slice(a, a + step), slice(first, last))

    by_columns(work, d, X.size)
    return mean, squares / n if even else squares, products
