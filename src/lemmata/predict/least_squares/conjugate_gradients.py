"""Conjugate gradients for least squares and ridge: products with the data, nothing formed.

    (Σ s x̃x̃ᵀ + αI) w = Σ s x̃ỹ,     one pass over the rows per step:  p ↦ Xᵀ S(Xp − 1c) − x̄ Σ s(Xp − 1c) + αp,   c = x̄ᵀp

A pass takes the rows in pieces that stay in the cache between the two products, so the data is read from memory once a step
where LSQR and its kin read it twice. Every target has its own α and its own step lengths; all targets share the pass. From
w = 0 the iterates stay in the span of the rows, so with α = 0 they end in the shortest minimiser. With α > 0 the equations are
scaled to unit diagonal first (Jacobi), so that units of columns do not matter. The objective cannot rise.

Large dense rows in float64 are also kept as x̃/length in float32: steps multiply with these, at half the traffic, and whenever
the gradient has fallen a thousandfold, and before the end, it is computed again from the rows themselves (van der Vorst and Ye
2000). What the float32 products err by is then corrected by the steps that follow.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from lemmata.core.blocks import Blocks
from lemmata.core.engine import map_reduce, run_tasks
from lemmata.core.store import storable
from lemmata.linalg.operators import weighted_mean

Array = np.ndarray
IN_CACHE = 4 * 2**20  # bytes of rows between their two products
FRESH = 50  # steps after which the gradient is computed again rather than carried on …
FALLEN = 1e-3  # … or after it has fallen so much, where products are rough
HALVE_ABOVE = 2**22  # numbers from which a copy in float32 pays
TASKS = 8  # parts of a product, whatever the number of threads


class CentredProducts:
    """Products with Σ s x̃x̃ᵀ, and Σ s x̃ỹ; α of every target scales the unknowns."""

    def __init__(self, data: Blocks, intercept: bool, alpha: Array) -> None:
        assert data.targets is not None
        (n, d), self.data, self.intercept = data.shape, data, intercept
        # rows of a matrix stored by columns are pieces of its columns: short ones would cost more than they save
        stored_by_rows = not isinstance(data.source, np.ndarray) or data.source.flags.c_contiguous
        piece = max(IN_CACHE // (d * data.dtype.itemsize), 16)
        self.pieces = data.recut(piece) if stored_by_rows else data
        y = data.targets.reshape(n, -1).astype(np.float64)
        s = 1.0 if data.weights is None else data.weights[:, None]
        self.transposed = data.source.T if data.sparse else None
        self.y_mean = (s * y).sum(axis=0) / data.total_weight if intercept else np.zeros(y.shape[1])
        self.x_mean = weighted_mean(data) if intercept else np.zeros(d)
        centred = y - self.y_mean
        self.y_squares = (s * centred**2).sum(axis=0)
        self.rhs = self._multiply_transposed(s * centred)
        if not np.isfinite(self.y_squares).all() or not np.isfinite(self.rhs).all():
            raise ValueError(
                "X or y contains numbers too large to be multiplied; divide them by their largest numbers."
            )

        self.rough: Any = self  # whose products the steps are made with
        # of the unknowns: with α = 0 the shortest minimiser needs it to be 1
        self.scale = np.ones_like(self.rhs)
        if (alpha > 0).all():
            squares = self.diagonal()
            self.scale = 1 / np.sqrt(squares[:, None] + alpha)
            if (
                data.in_memory
                and data.dtype == np.float64
                and not data.sparse
                and data.size >= HALVE_ABOVE
            ):
                self.rough = HalvedRows(data, self.x_mean, np.sqrt(squares))

        self.first = _square_lengths(self.scale * self.rhs)  # ‖gradient‖² at w = 0, scaled

    def _multiply_transposed(self, T: Array) -> Array:
        """Σ x̃ tᵀ over the rows t of T."""
        pairs = self.pieces.weighted(T)
        total = map_reduce(
            lambda rows, t: np.asarray(rows.T @ t.astype(rows.dtype), dtype=np.float64), pairs, 0.0
        )
        return total - np.multiply.outer(self.x_mean, T.sum(axis=0))

    def diagonal(self) -> Array:
        """Σ s x̃², of every column."""
        squares = map_reduce(_squares_of, self.pieces, 0.0)
        if not np.isfinite(squares).all():
            raise ValueError(
                "X contains numbers too large to be squared; divide its columns by their largest numbers."
            )
        return np.maximum(squares - self.data.total_weight * self.x_mean**2, 0.0)

    def __matmul__(self, P: Array) -> Array:
        mean, dtype = self.x_mean, self.data.dtype
        if self.transposed is not None and P.shape[1] == 1:
            p = P[:, 0]
            t = self.data.source @ p.astype(dtype) - dtype.type(mean @ p)
            if self.data.weights is not None:
                t = t * self.data.weights.astype(dtype)
            product = (self.transposed @ t).astype(np.float64)
            return (product - mean * t.sum(dtype=np.float64))[:, None]
        shift, P = mean @ P, P.astype(dtype)

        def of(rows, weights):
            T = rows @ P - shift.astype(dtype)
            if weights is not None:
                T *= weights[:, None].astype(dtype)
            product = np.asarray(rows.T @ T, dtype=np.float64)
            return product - np.multiply.outer(mean, T.sum(axis=0, dtype=np.float64))

        return map_reduce(of, self.pieces, 0.0)

    def fingerprint(self) -> str:
        return self.data.fingerprint()


class HalvedRows:
    """Products with Σ s x̃x̃ᵀ from √s x̃/length in float32, on all cores; the same bits for any number of them."""

    def __init__(self, data: Blocks, mean: Array, lengths: Array) -> None:
        X, self.lengths = data.source, lengths[:, None]
        self.by_rows = X.flags.c_contiguous
        self.C = C = np.empty(X.shape, np.float32, order="C" if self.by_rows else "F")
        units = 1 / np.where(lengths > 0, lengths, 1.0)
        root = None if data.weights is None else np.sqrt(data.weights)[:, None]
        axis, centred = 0 if self.by_rows else 1, bool(mean.any())
        step = -(-X.shape[axis] // TASKS)
        self.parts = [slice(i, i + step) for i in range(0, X.shape[axis], step)]
        self.piece = max(IN_CACHE // (4 * X.shape[1]), 16)

        def fill(task: int) -> None:
            part = self.parts[task]
            small = max(IN_CACHE // (8 * X.shape[1 - axis]), 1)
            for first in range(part.start, min(part.stop, X.shape[axis]), small):
                cut = slice(first, min(first + small, part.stop))
                here = (cut, slice(None)) if self.by_rows else (slice(None), cut)
                columns = slice(None) if self.by_rows else cut
                rows = X[here] - mean[columns] if centred else X[here]
                if root is not None:
                    rows = rows * (root[cut] if self.by_rows else root)
                np.multiply(rows, units[columns], out=C[here], casting="same_kind")

        run_tasks(fill, len(self.parts))

    def __matmul__(self, P: Array) -> Array:
        V = (P * self.lengths).astype(np.float32)
        V = V[:, 0] if V.shape[1] == 1 else V
        product = (self._by_rows(V) if self.by_rows else self._by_columns(V)).astype(np.float64)
        return product.reshape(P.shape) * self.lengths

    def _by_rows(self, V: Array) -> Array:
        found: list[Any] = [None] * len(self.parts)

        def multiply(task: int) -> None:
            rows, total = self.C[self.parts[task]], np.zeros(V.shape)
            for first in range(0, len(rows), self.piece):
                piece = rows[first : first + self.piece]
                total += piece.T @ (piece @ V)
            found[task] = total

        run_tasks(multiply, len(self.parts))
        return sum(found[1:], found[0])

    def _by_columns(self, V: Array) -> Array:
        found: list[Any] = [None] * len(self.parts)

        def multiply(task: int) -> None:
            found[task] = self.C[:, self.parts[task]] @ V[self.parts[task]]

        run_tasks(multiply, len(self.parts))
        T = sum(found[1:], found[0])

        def multiply_back(task: int) -> None:
            found[task] = self.C[:, self.parts[task]].T @ T

        run_tasks(multiply_back, len(self.parts))
        return np.concatenate(found)


def _square_lengths(V: Array) -> Array:
    """‖v‖² of every column."""
    return np.einsum("jm,jm->m", V, V)


def _squares_of(rows: Any, weights: Array | None) -> Array:
    """Σ s x² of a block in float64."""
    if sp.issparse(rows):
        squared = rows.multiply(rows)
        s = np.ones(rows.shape[0]) if weights is None else weights
        return np.asarray(squared.T @ s, dtype=np.float64)
    with np.errstate(over="ignore"):
        squares = "ij,ij->j" if weights is None else "ij,ij,i->j"
        parts = (rows, rows) if weights is None else (rows, rows, weights.astype(rows.dtype))
        return np.einsum(squares, *parts).astype(np.float64)


@storable
@dataclass(frozen=True)
class ConjugateState:
    """Weights, residuals of the equations and search directions of every target."""

    version = 1
    layout: ClassVar = {"coef left direction": "d m", "squares objectives mark": "m"}
    solver: ClassVar = "cg"

    coef: Array
    left: Array  # Σ s x̃ỹ − (A + αI)w, minus the gradient
    direction: Array
    squares: Array  # Σ s r²
    objectives: Array  # ½ Σ s r² + ½ α‖w‖²
    mark: Array  # ‖left‖², scaled, when it was last computed from the rows
    steps: int = 0
    arrived: bool = False


@dataclass(frozen=True)
class ConjugateGradientAlgorithm:
    """A step is one iteration; `tol` bounds the scaled gradient relative to that at w = 0, for every target."""

    draws: ClassVar = False
    hint: ClassVar = "divide the columns of X by their largest numbers"

    alpha: Any  # (1,) or (m,)
    tol: float

    def init(self, problem: CentredProducts, rng: Any) -> ConjugateState:
        c, squares = problem.rhs, problem.y_squares
        arrived = not bool(c.any())
        towards = problem.scale**2 * c
        return ConjugateState(
            np.zeros_like(c), c, towards, squares, 0.5 * squares, problem.first, arrived=arrived
        )

    def step(self, state: ConjugateState, problem: CentredProducts) -> ConjugateState:
        p, scale = state.direction, problem.scale
        product = problem.rough @ p + self.alpha * p
        size, curvature = _square_lengths(scale * state.left), np.einsum("jm,jm->m", p, product)
        # targets that have arrived wait for the others
        moves = (curvature > 0) & (size > self.tol**2 * problem.first)
        length = np.where(moves, size / np.where(moves, curvature, 1.0), 0.0)
        coef = state.coef + length * p
        left = state.left - length * product
        mark = state.mark
        if self._wants_fresh(left, mark, state.steps + 1, problem):
            left = problem.rhs - problem @ coef - self.alpha * coef
            mark = _square_lengths(scale * left)
        scaled = scale * left
        after = _square_lengths(scaled)
        turn = np.where(moves, after / np.where(size > 0, size, 1.0), 0.0)
        arrived = bool((after <= self.tol**2 * problem.first).all())
        direction = scale * scaled + turn * p
        return self._at(problem, coef, left, direction, mark, state.steps + 1, arrived)

    def _wants_fresh(self, left: Array, mark: Array, steps: int, problem: CentredProducts) -> bool:
        """Whether the gradient that was carried on may be far from the true one, or is about to end the run."""
        if problem.rough is problem:
            return steps % FRESH == 0
        fallen = _square_lengths(problem.scale * left) <= FALLEN**2 * mark
        return steps % FRESH == 0 or bool(fallen.any() or self._has_arrived(left, problem).all())

    def _at(self, problem, coef, left, direction, mark, steps, arrived) -> ConjugateState:
        """P(w) = ½Σ sỹ² − ½wᵀ(c + left), by Aw + αw = c − left."""
        objectives = 0.5 * (problem.y_squares - np.einsum("jm,jm->m", coef, problem.rhs + left))
        squares = 2 * objectives - self.alpha * np.einsum("jm,jm->m", coef, coef)
        return ConjugateState(
            coef, left, direction, np.maximum(squares, 0.0), objectives, mark, steps, arrived
        )

    def finished(self, state: ConjugateState) -> bool:
        return state.arrived

    def _has_arrived(self, left: Array, problem: CentredProducts) -> Array:
        return _square_lengths(problem.scale * left) <= self.tol**2 * problem.first

    def objective(self, state: ConjugateState) -> float:
        return float(state.objectives.sum())

    def extras(self, state: ConjugateState) -> dict[str, float]:
        return {"gradient": float(np.linalg.norm(state.left))}

    def attributes(self, state: ConjugateState) -> dict[str, Any]:
        return {"coef_": state.coef.T}
