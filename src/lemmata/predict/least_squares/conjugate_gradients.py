"""Conjugate gradients for least squares and ridge: products with the data, nothing formed.

    (Σ s x̃x̃ᵀ + αI) w = Σ s x̃ỹ,     one pass over the rows per step:  p ↦ Xᵀ S(Xp − 1c) − x̄ Σ s(Xp − 1c) + αp,   c = x̄ᵀp

A pass takes the rows in pieces that stay in the cache between the two products, so the data is read from memory once a step
where LSQR and its kin read it twice. Every target has its own α and its own step lengths; all targets share the pass. From
w = 0 the iterates stay in the span of the rows, so with α = 0 they end in the shortest minimiser. With α > 0 the equations are
scaled to unit diagonal first (Jacobi), so that units of columns do not matter. The objective cannot rise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from lemmata.core.blocks import Blocks
from lemmata.core.engine import map_reduce
from lemmata.core.store import storable
from lemmata.linalg.operators import weighted_mean

Array = np.ndarray
IN_CACHE = 4 * 2**20  # bytes of rows between their two products
FRESH = 50  # steps after which the gradient is computed again rather than carried on


class CentredProducts:
    """Products with Σ s x̃x̃ᵀ, and Σ s x̃ỹ; α of every target scales the unknowns."""

    def __init__(self, data: Blocks, intercept: bool, alpha: Array) -> None:
        assert data.targets is not None
        (n, d), self.data, self.intercept = data.shape, data, intercept
        self.pieces = data.recut(max(IN_CACHE // (d * data.dtype.itemsize), 16))
        y = data.targets.reshape(n, -1).astype(np.float64)
        s = 1.0 if data.weights is None else data.weights[:, None]
        self.y_mean = (s * y).sum(axis=0) / data.total_weight if intercept else np.zeros(y.shape[1])
        self.x_mean = weighted_mean(data) if intercept else np.zeros(d)
        centred = y - self.y_mean
        self.y_squares = (s * centred**2).sum(axis=0)
        self.rhs = self._transposed(s * centred)
        if not np.isfinite(self.y_squares).all() or not np.isfinite(self.rhs).all():
            raise ValueError(
                "X or y contains numbers too large to be multiplied; divide them by their largest numbers."
            )

        self.scale = np.ones_like(
            self.rhs
        )  # of the unknowns: with α = 0 the shortest minimiser needs it to be 1
        if (alpha > 0).all():
            self.scale = 1 / np.sqrt(self.diagonal()[:, None] + alpha)

    def _transposed(self, T: Array) -> Array:
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


def _squared(V: Array) -> Array:
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
    layout: ClassVar = {"coef": "d m", "left": "d m", "direction": "d m", "squares": "m", "objectives": "m"}  # fmt: skip

    coef: Array
    left: Array  # Σ s x̃ỹ − (A + αI)w, minus the gradient
    direction: Array
    squares: Array  # Σ s r²
    objectives: Array  # ½ Σ s r² + ½ α‖w‖²
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
        return ConjugateState(np.zeros_like(c), c, towards, squares, 0.5 * squares, arrived=arrived)

    def step(self, state: ConjugateState, problem: CentredProducts) -> ConjugateState:
        p, scale = state.direction, problem.scale
        product = problem @ p + self.alpha * p
        size, curvature = _squared(scale * state.left), np.einsum("jm,jm->m", p, product)
        # targets that have arrived wait for the others
        moves = (curvature > 0) & ~self._arrived(state.left, problem)
        length = np.where(moves, size / np.where(moves, curvature, 1.0), 0.0)
        coef = state.coef + length * p
        left = state.left - length * product
        if (state.steps + 1) % FRESH == 0:
            left = problem.rhs - problem @ coef - self.alpha * coef
        turn = np.where(moves, _squared(scale * left) / np.where(size > 0, size, 1.0), 0.0)
        return self._at(problem, coef, left, scale**2 * left + turn * p, state.steps + 1)

    def _at(self, problem, coef, left, direction, steps) -> ConjugateState:
        """P(w) = ½Σ sỹ² − ½wᵀ(c + left), by Aw + αw = c − left."""
        objectives = 0.5 * (problem.y_squares - np.einsum("jm,jm->m", coef, problem.rhs + left))
        squares = 2 * objectives - self.alpha * np.einsum("jm,jm->m", coef, coef)
        arrived = bool(self._arrived(left, problem).all())
        return ConjugateState(
            coef, left, direction, np.maximum(squares, 0.0), objectives, steps, arrived
        )

    def finished(self, state: ConjugateState) -> bool:
        return state.arrived

    def _arrived(self, left: Array, problem: CentredProducts) -> Array:
        scale = problem.scale
        return _squared(scale * left) <= self.tol**2 * _squared(scale * problem.rhs)

    def objective(self, state: ConjugateState) -> float:
        return float(state.objectives.sum())

    def extras(self, state: ConjugateState) -> dict[str, float]:
        return {"gradient": float(np.linalg.norm(state.left))}

    def attributes(self, state: ConjugateState) -> dict[str, Any]:
        return {"coef_": state.coef.T}
