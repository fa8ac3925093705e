"""Linear classification as a smooth problem: the loss of a block of rows, its gradient and its curvature.

    F(W) = Σᵢ sᵢ ℓ(W x̃ᵢ, cᵢ)  +  Σⱼ (½ ridgeⱼ wⱼ² + lassoⱼ |wⱼ|)              x̃ = (x, 1),  c the class of a row,  s its weight

The losses stand in surrogates.py. All sums add up over blocks, so
rows may be an array, sparse, a file, a stream or on a cluster: `LinearProblem.at(W)`.
The gradient is summed in float64. The Hessian only steers the steps, so it may be summed in float32 (`single=True`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import scipy.sparse as sp

from lemmata.core.blocks import Blocks
from lemmata.core.engine import map_reduce
from lemmata.core.loop import Solution, Stop, Stopped
from lemmata.predict.logistic.surrogates import Surrogate, signs
from lemmata.predict.logistic.thin import SMALLEST, THIN, ThinRows, is_thin

Array = np.ndarray
# rows that are worked on at once: they stay in the cache until they are needed again
PART_BYTES = 2**20
SMALL = 2**17  # numbers of all problems up to which calls cost more than what they compute
TINY, LARGE = 1e-12, 1e15  # the squares of numbers beyond leave float32


@dataclass(frozen=True)
class LossSums:
    """Loss, gradient and Hessian of some rows; LossSums() is the empty sum."""

    losses: Any = 0.0  # (m,); of a coupled loss all in the first
    gradient: Any = 0.0  # (m, D)
    hessian: Any = None  # (m, D, D), or (mD, mD) of a coupled loss

    def __add__(self, other: LossSums) -> LossSums:
        H = other.hessian if self.hessian is None else self.hessian + other.hessian
        return LossSums(self.losses + other.losses, self.gradient + other.gradient, H)


def block_sums(
    rows: Any, marks: Array, W: Array, loss: Surrogate, intercept: bool, order: int, single: bool
) -> LossSums:
    """The sums of a block whose `marks` are the class and the weight of each row."""
    m, D = W.shape
    d = D - intercept
    losses, G = np.zeros(m), np.zeros((m, D))
    H = None if order < 2 else np.zeros((m * D, m * D) if loss.coupled else (m, D, D))
    thin = sp.issparse(rows) and rows.nnz < THIN * rows.shape[0] * d
    for part, (c, s) in parts_of(rows, marks, dense=order > 1 and not thin):
        F = scores_of(part, W[:, :d], by_class=order < 2)
        F += W[:, d] if intercept else 0.0
        value, U, V = loss.rows(F, c, s, order)
        losses += value
        G[:, :d] += np.asarray(part.T @ U).T
        if intercept:
            G[:, d] += U.sum(axis=0)
        if H is not None and V is not None and thin:
            _add_thin(H, part, V, s, intercept, loss.coupled)
        elif H is not None and V is not None:
            dtype = np.float32 if single else np.float64
            if loss.coupled:
                _add_coupled(H, part, V, s, intercept, dtype)
            else:
                add_grams(H, part, V, intercept, dtype)
    return LossSums(losses, G, H)


def scores_of(rows: Any, W: Array, by_class: bool) -> Array:
    """(r, m) rows @ Wᵀ; by_class: the scores of a class stand together, and sums over few classes take a third of the time."""
    if by_class and not sp.issparse(rows) and len(W) > 1:
        return (W @ rows.T).T
    return np.asarray(rows @ W.T)


@dataclass(frozen=True)
class FewRows:
    """Rows so few that calls cost more than what they compute, with all that no weights can change."""

    X: Array  # (n, D) x̃
    y: Array  # (n, m) ±1
    s: Array  # (n,)

    @classmethod
    def of(cls, rows: Array, marks: Array, m: int, intercept: bool) -> FewRows:
        X = rows.astype(np.float64, copy=False)
        X = np.hstack([X, np.ones((len(X), 1))]) if intercept else X
        return cls(X, signs(marks[:, 0], m), np.ascontiguousarray(marks[:, 1]))

    def sums(self, W: Array, loss: Any, order: int) -> LossSums:
        """As `block_sums`, of a loss that does not couple its problems."""
        losses, U, V = loss.of_signs(self.X @ W.T, self.y, self.s, order)
        H = None if V is None else np.matmul(self.X.T * V.T[:, None, :], self.X)
        return LossSums(losses, U.T @ self.X, H)


def parts_of(rows: Any, marks: Array, dense: bool) -> Iterator[tuple[Any, tuple[Array, Array]]]:
    """Pieces of a block small enough for the cache; float64, and dense on request."""
    if sp.issparse(rows) and not dense:
        yield rows.astype(np.float64, copy=False), (marks[:, 0], marks[:, 1])
        return
    step = max(256, PART_BYTES // (8 * max(rows.shape[1], 1)))
    for start in range(0, rows.shape[0], step):
        part = rows[start : start + step]
        part = part.toarray() if sp.issparse(part) else part
        yield (
            part.astype(np.float64, copy=False),
            (marks[start : start + step, 0], marks[start : start + step, 1]),
        )


def add_grams(H: Array, part: Array, V: Array, intercept: bool, dtype: Any) -> None:
    """H_k += Σ v_k x̃x̃ᵀ for each column of V."""
    if part.size * V.shape[1] <= SMALL:  # one product of all problems
        X = np.hstack([part, np.ones((len(part), 1))]) if intercept else part
        H += np.matmul(X.T * V.T[:, None, :], X)
        return
    for k in range(V.shape[1]):
        _add_gram(H[k], part, V[:, k], intercept, dtype)


def _add_gram(H: Array, part: Array, v: Array, intercept: bool, dtype: Any) -> None:
    """H += Σ v x̃x̃ᵀ; rows without curvature are left out where they are many."""
    d = part.shape[1]
    curved = np.flatnonzero(v)
    if len(curved) < 0.8 * len(v):
        part, v = part[curved], v[curved]
    Z = part.astype(dtype)
    Z *= np.sqrt(v, dtype=dtype)[:, None]
    H[:d, :d] += Z.T @ Z
    if intercept:
        edge = v @ part
        H[:d, d] += edge
        H[d, :d] += edge
        H[d, d] += v.sum()


def _add_thin(H: Array, part: Any, V: Array, s: Array, intercept: bool, coupled: bool) -> None:
    """The same from sparse products, for rows with so few entries that these are faster than dense ones."""
    X = part if not intercept else sp.hstack([part, np.ones((part.shape[0], 1))], format="csr")
    D, m = X.shape[1], V.shape[1]

    def gram(v: Array) -> Array:
        return (X.T @ X.multiply(v[:, None]).tocsr()).toarray()

    if not coupled:
        for k in range(m):
            H[k] += gram(V[:, k])
        return
    for k in range(m):
        for j in range(k + 1):
            block = gram(s * V[:, k] * ((j == k) - V[:, j]))
            H[k * D : (k + 1) * D, j * D : (j + 1) * D] += block
            if j != k:
                H[j * D : (j + 1) * D, k * D : (k + 1) * D] += block


def _add_coupled(H: Array, part: Array, P: Array, s: Array, intercept: bool, dtype: Any) -> None:
    """H += Σ s (diag(p) − ppᵀ) ⊗ x̃x̃ᵀ, as Gram matrices: one of the rows (p_k x̃)_k, one per class."""
    X = part.astype(dtype)
    if intercept:
        X = np.hstack([X, np.ones((len(X), 1), dtype)])
    (r, D), m = X.shape, P.shape[1]
    P, root = P.astype(dtype), np.sqrt(s, dtype=dtype)
    Z = (P[:, :, None] * (X * root[:, None])[:, None, :]).reshape(r, m * D)
    H -= Z.T @ Z
    for k in range(m):
        Z = X * (np.sqrt(P[:, k]) * root)[:, None]
        H[k * D : (k + 1) * D, k * D : (k + 1) * D] += Z.T @ Z


def squared_sizes(rows: Any) -> Array:
    """‖x‖² of each row."""
    square = rows.multiply(rows) if sp.issparse(rows) else rows * rows
    return np.asarray(square.sum(axis=1), dtype=np.float64).ravel()


# --- the problem ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LossPoint:
    """Weights W with the objective of each problem, the gradient of its smooth part and, at order 2, the Hessian."""

    W: Array  # (m, D)
    losses: Array  # (m,) penalties included
    gradient: Array  # (m, D) without the lasso part
    hessian: Array | None = None
    scores: Array | None = None  # (n, m) of thin rows

    @cached_property
    def loss(self) -> float:
        return float(self.losses.sum())


@dataclass(frozen=True)
class LinearProblem:
    """F(W) of some rows.

    data : Blocks whose weights are pairs (class, weight of the row)
    ridge, lasso : (D,), the penalties of each weight; zero for a free intercept
    intercept : whether x̃ = (x, 1) or x
    """

    data: Blocks
    loss: Surrogate
    ridge: Array
    lasso: Array
    intercept: bool

    @classmethod
    def of(
        cls, data: Blocks, loss: Surrogate, ridge: Array, lasso: Array, intercept: bool
    ) -> LinearProblem:
        assert data.targets is not None
        s = np.ones(data.shape[0]) if data.weights is None else data.weights
        marks = np.stack([data.targets.astype(np.float64), s], axis=1)
        return cls(data.weighted(marks), loss, ridge, lasso, intercept)

    @property
    def sizes(self) -> dict[str, int]:
        return dict(zip("ndmDM", (*self.data.shape, self.m, self.D, self.m * self.D), strict=True))

    @property
    def m(self) -> int:
        return self.loss.m

    @property
    def D(self) -> int:
        return len(self.ridge)

    @cached_property
    def small(self) -> bool:
        """Whether calls cost more than what they compute."""
        return (
            self.data.size * self.m <= SMALL and self.m * self.D <= 64 and self.data.n_blocks == 1
        )

    @cached_property
    def has_lasso(self) -> bool:
        return bool(self.lasso.any())

    @property
    def dtype(self) -> np.dtype:
        """The floats that weights are shown in."""
        return self.data.dtype

    def split(self, W: Array) -> tuple[Array, Array]:
        """coef (m, d) and intercepts (m,) of weights (m, D)."""
        d = self.D - self.intercept
        return W[:, :d], W[:, d] if self.intercept else np.zeros(len(W))

    @property
    def classes_and_weights(self) -> tuple[Array, Array]:
        marks = self.data.weights
        assert marks is not None
        return marks[:, 0], marks[:, 1]

    def blocks(self) -> Iterator[tuple[Any, Array]]:
        """Rows with the class and the weight of each."""
        for rows, marks in self.data:
            assert marks is not None
            yield rows, marks

    @cached_property
    def total(self) -> float:
        """Σ s."""
        return float(self.classes_and_weights[1].sum())

    @cached_property
    def few(self) -> FewRows | None:
        """The rows where they are few, dense, and of problems that are solved one by one."""
        if not self.small or self.data.sparse or self.loss.coupled:
            return None
        return FewRows.of(*next(self.blocks()), self.m, self.intercept)

    @cached_property
    def thin(self) -> ThinRows | None:
        """The rows where they are sparse, so thin that products with them are cheaper than a Hessian, and not few."""
        return ThinRows(self) if not self.small and is_thin(self) else None

    def _sums(self, W: Array, order: int, single: bool) -> LossSums:
        if self.few is not None:
            return self.few.sums(W, self.loss, order)
        work = partial(
            block_sums, W=W, loss=self.loss, intercept=self.intercept, order=order, single=single
        )
        return work(*next(self.blocks())) if self.small else map_reduce(work, self.data, LossSums())

    def at(
        self, W: Array, order: int = 1, single: bool = False, scores: Array | None = None
    ) -> LossPoint:
        """The objective and its derivatives up to `order` (2: the Hessian too; `single`: that one in float32).

        scores : X̃W, where it is known
        """
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):
            if self.thin is not None and order == 1 and self.data.n_blocks == 1:
                scores = self.thin.scores(W) if scores is None else scores
                sums = LossSums(*self.thin.sums(scores))
            else:
                sums = self._sums(W, order, single)
            shrunk = W * self.ridge
            penalties = 0.5 * np.einsum("kj,kj->k", W, shrunk)
            if self.has_lasso:
                penalties += np.abs(W) @ self.lasso
            if self.loss.coupled:
                penalties[:] = np.append(penalties.sum(), np.zeros(self.m - 1))
            losses, gradient = sums.losses + penalties, sums.gradient + shrunk
        H = sums.hessian
        if H is not None:
            diagonal = np.einsum("...ii->...i", H)  # a view
            diagonal += np.tile(self.ridge, self.m) if self.loss.coupled else self.ridge
        return LossPoint(W, losses, gradient, H, scores)

    def sample(self, rows: int) -> LinearProblem | None:
        """Return the same problem on about this many evenly spaced rows, each counted more; None if a class is rare."""
        step = self.data.shape[0] // rows
        source, marks = self.data.source, self.data.weights
        if step < 2 or not self.data.in_memory or marks is None:
            return None
        kept = marks[::step].copy()
        counts = np.bincount(kept[:, 0].astype(np.intp), kept[:, 1] > 0, minlength=max(self.m, 2))
        if counts.min() < 50:
            return None
        kept[:, 1] *= self.total / max(kept[:, 1].sum(), np.finfo(float).tiny)
        X = source[::step]
        return replace(self, data=Blocks.of(X, kept))

    def loss_at_zero(self) -> float:
        """F(0), which asks nothing of the rows."""
        c, s = self.classes_and_weights
        return float(self.loss.rows(np.zeros((len(c), self.m)), c, s, 1)[0].sum())

    def fits_single(self) -> bool:
        """Whether squares of these numbers stay within float32, judged by some rows; a wrong answer only costs steps."""
        X = self.data.source
        if not self.data.in_memory:
            return False
        rows = X[:: max(1, X.shape[0] // 64)]
        size = np.abs(rows.data if sp.issparse(rows) else rows)
        return bool(size.size) and TINY < float(size.max()) < LARGE

    def fingerprint(self) -> str:
        return f"{self.data.fingerprint()} {self.ridge.sum():.17g} {self.lasso.sum():.17g}"

    # --- how far from the minimum ---

    def violation(self, point: LossPoint) -> Array:
        """The smallest subgradient, (m, D): the gradient where nothing is penalised by |w|."""
        g, W = point.gradient, point.W
        if not self.has_lasso:
            return g
        held = np.sign(g) * np.maximum(np.abs(g) - self.lasso, 0)
        return np.where(W == 0, held, g + np.sign(W) * self.lasso)

    def slack(self, point: LossPoint) -> tuple[float, float]:
        """Return what is left to gain, in two ways, each relative.

        First the largest entry of the subgradient over Σs, as scikit-learn measures it, or over the lasso penalty if that
        is smaller: the dual point has to be shrunk by as much. Sparse columns may be much shorter than √Σs (words of tf-idf),
        and their slopes are compared with their own length times that of the slopes of a constant, √(Σs p(1 − p)).
        Then, where there is a ridge, the duality gap ‖∇F‖²/2λ over F,
        with a free intercept counted as if it had one.
        """
        v = self.violation(point)
        scale = min(self.total, float(self.lasso.max()) if self.has_lasso else math.inf)
        first, gap = float((np.abs(v) / np.minimum(scale, self.lengths)).max()), 0.0
        if self._moduli is not None:
            with np.errstate(over="ignore"):
                gap = float(0.5 * np.sum(v**2 / self._moduli)) / max(point.loss, SMALLEST)
        return first, gap

    @cached_property
    def lengths(self) -> Array | float:
        """√(Σs p_k(1 − p_k)) ‖x_j‖ of the columns of a sparse matrix, (m, D); infinite for empty ones, and for other data."""
        X = self.data.source
        if not (self.data.in_memory and sp.issparse(X)):
            return math.inf
        c, s = self.classes_and_weights
        share = np.array([s[c == k].sum() for k in range(max(self.m, 2))])[-self.m :] / self.total
        squared = sp.csr_array((X.data.astype(np.float64) ** 2, X.indices, X.indptr), X.shape)
        squares = np.append(s @ squared, math.inf)[: self.D]
        found = np.sqrt(self.total * np.multiply.outer(share * (1 - share), squares))
        return np.where(found > 0, found, math.inf)

    @cached_property
    def _moduli(self) -> Array | None:
        """The ridge of each weight; the largest for those without one, None if there is none at all."""
        most = self.ridge.max()
        return np.where(self.ridge > 0, self.ridge, most) if most > 0 else None


@dataclass(frozen=True)
class NearOptimum(Stop):
    """Both measures of `LinearProblem.slack` are at most tol."""

    tol: float

    def reason(self, solution: Solution) -> str | None:
        if self.tol == 0:
            return None
        first, gap = solution.trace.last("gradient"), solution.trace.last("gap")
        return Stopped.SMALL_GRADIENT if max(first, gap) <= self.tol else None
