"""L-BFGS: Newton's step without a Hessian, from the last few moves s and changes of the gradient y.

    p = B ∇F,   B the inverse Hessian that B₀ becomes by the BFGS update with each pair (s, y)          (two-loop recursion)

B₀ is usually a multiple of I, and then correlated features cost hundreds of passes. Here it is the inverse of
αₖ XᵀSX + ridge, with the curvature αₖ of each class at its share of the rows and XᵀSX from a sample of the rows: features are
decorrelated before the first step. With very many features only the diagonal is taken.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from lemmata.core.store import storable
from lemmata.predict.logistic.newton import nothing_left, refuse_overflow, search_line, share_of
from lemmata.predict.logistic.problem import LinearProblem, LossPoint

Array = np.ndarray
WIDE = 2000  # features above which B₀ is diagonal
ROWS = 8  # rows in the sample for each feature
MEMORY = 10


@dataclass(frozen=True)
class Preconditioner:
    """B₀ as solves with (αₖ G + ridge), one factor per problem."""

    factors: Array  # (m, D, D) lower Cholesky factors, or (m, D) diagonals

    @classmethod
    def of(cls, data: LinearProblem) -> Preconditioner:
        c, s = data.classes_and_weights
        share = np.array([s[c == k].sum() for k in range(max(data.m, 2))]) / data.total
        alpha = (share * (1 - share))[-data.m :]
        alpha = np.where(alpha > 0, alpha, 0.25)
        d, X = data.D - data.intercept, data.data.source
        if not data.data.in_memory:
            rows, marks = next(data.blocks())
            s = marks[:, 1]
        else:
            wanted = max(ROWS * d, 1000) if d <= WIDE else X.shape[0]
            step = max(1, X.shape[0] // wanted)
            rows, s = X[::step], s[::step]
        s = s * (data.total / max(s.sum(), np.finfo(float).tiny))
        with np.errstate(over="ignore"):
            if d > WIDE:
                square = rows.multiply(rows) if sp.issparse(rows) else rows * rows
                diagonal = np.append(s @ square, data.total)[: data.D]
                return cls(alpha[:, None] * diagonal + data.ridge + _little(diagonal))
            X = rows.toarray() if sp.issparse(rows) else rows
            X = np.hstack([X, np.ones((len(X), 1))])[:, : data.D] * np.sqrt(s)[:, None]
            G = X.T @ X
        spread = np.diag(data.ridge + _little(np.diagonal(G)))
        return cls(np.stack([scipy.linalg.cholesky(a * G + spread, lower=True) for a in alpha]))

    def solve(self, G: Array) -> Array:
        if self.factors.ndim == 2:
            return G / self.factors
        return np.stack(
            [scipy.linalg.cho_solve((L, True), g) for L, g in zip(self.factors, G, strict=True)]
        )


def _little(diagonal: Array) -> Array:
    """The addition that keeps a Cholesky factor of collinear or empty columns finite, each in its own units."""
    return np.where(diagonal > 0, 1e-6 * diagonal, 1.0)


@storable
@dataclass(frozen=True)
class LogisticLBFGSState:
    """Weights with objective and gradient there, and the pairs (s, y), oldest first."""

    version = 2
    layout: ClassVar = {
        "W gradient": "m D",
        "losses": "m",
        "moves changes": "e M",
        "curvature": "m D | m D D",
    }

    W: Array
    losses: Array
    gradient: Array
    first: float
    gap: float
    moves: Array  # (memory, m·D)
    changes: Array  # (memory, m·D)
    curvature: Array  # what B₀ is made of
    stalled: bool = False
    promised: float = np.inf  # by the last step, relative to the objective

    @property
    def point(self) -> LossPoint:
        return LossPoint(self.W, self.losses, self.gradient)


@dataclass(frozen=True)
class LBFGSAlgorithm:
    """L-BFGS on a LinearProblem without lasso terms, all problems as one."""

    start: Array | None = None

    draws: ClassVar[bool] = False
    hint: ClassVar[str] = "scale the features to a common size"

    def init(self, data: LinearProblem, rng: Any) -> LogisticLBFGSState:
        start = np.zeros((data.m, data.D)) if self.start is None else self.start
        point = refuse_overflow(data.at(start))
        none = np.zeros((0, start.size))
        return LogisticLBFGSState(
            start, point.losses, point.gradient, *data.slack(point), none, none, Preconditioner.of(data).factors
        )  # fmt: skip

    def step(self, state: LogisticLBFGSState, data: LinearProblem) -> LogisticLBFGSState:
        point = state.point
        forgetful = replace(state, moves=state.moves[:0], changes=state.changes[:0])
        for kept in (state, forgetful):
            p = two_loops(kept)
            decrement = np.einsum("kj,kj->k", p, point.gradient)
            found, moved = search_line(data, point, p, decrement)
            if moved.any() and decrement.sum() > 0:
                break  # else the pairs lost their meaning to rounding
        s, y = (found.W - point.W).ravel(), (found.gradient - point.gradient).ravel()
        moves, changes = kept.moves, kept.changes
        if s @ y > 1e-12 * np.sqrt((s @ s) * (y @ y)):  # convex, so only rounding says otherwise
            moves = np.vstack([moves, s])[-MEMORY:]
            changes = np.vstack([changes, y])[-MEMORY:]
        new = LogisticLBFGSState(
            found.W, found.losses, found.gradient, *data.slack(found), moves, changes, state.curvature
        )  # fmt: skip
        stalled = not moved.any() or nothing_left(
            decrement, found, lambda: two_loops(new) * found.gradient
        )
        return replace(new, stalled=stalled, promised=share_of(decrement, found))

    def objective(self, state: LogisticLBFGSState) -> float:
        return state.point.loss

    def extras(self, state: LogisticLBFGSState) -> dict[str, float]:
        return {"gradient": state.first, "gap": state.gap}

    def attributes(self, state: LogisticLBFGSState) -> dict[str, Any]:
        return {"W": state.W}

    def finished(self, state: LogisticLBFGSState) -> bool:
        return state.stalled or not np.any(state.gradient)


def two_loops(state: LogisticLBFGSState) -> Array:
    """B ∇F."""
    q, used = state.gradient.ravel().copy(), []
    for s, y in zip(state.moves[::-1], state.changes[::-1], strict=True):
        rho = 1 / (s @ y)
        a = rho * (s @ q)
        q -= a * y
        used.append((rho, a))
    B0 = Preconditioner(state.curvature)
    q = B0.solve(q.reshape(state.W.shape)).ravel()
    if len(state.moves):  # the scale of the last move
        s, y = state.moves[-1], state.changes[-1]
        q *= (s @ y) / (y @ B0.solve(y.reshape(state.W.shape)).ravel())
    for (rho, a), s, y in zip(used[::-1], state.moves, state.changes, strict=True):
        q += (a - rho * (y @ q)) * s
    return q.reshape(state.W.shape)
