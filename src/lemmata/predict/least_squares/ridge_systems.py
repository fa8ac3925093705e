"""The equations of ridge regression and their direct solvers: primal, dual, by the SVD of the rows.

    primal  (A + αI) w = c,  d × d, A and c sums over rows        dual  w = X̃ᵀu,  (X̃X̃ᵀ + αI) u = ỹ,  n × n

Every target has its own α. Where squaring X loses the answer (κ² beyond 1e11) the rows themselves are decomposed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.linalg

from lemmata.core.blocks import Blocks
from lemmata.core.store import storable
from lemmata.predict.least_squares import estimator as ordinary
from lemmata.predict.least_squares import normal_equations as normal

Array = np.ndarray


@storable
@dataclass(frozen=True)
class RidgeState:
    """Weights of every target and their objectives; no solver before the first step."""

    version = 1
    layout: ClassVar = {"coef": "d m", "objectives": "m"}

    coef: Array  # (d, m)
    objectives: Array  # (m,)
    solver: str = ""


class _Direct:
    """Base of the direct solvers: one step from w = 0."""

    draws: ClassVar = False
    hint: ClassVar = "divide the columns of X, or y, by their largest numbers"

    def objective(self, state: RidgeState) -> float:
        return float(state.objectives.sum())

    def finished(self, state: RidgeState) -> bool:
        return state.solver != ""

    def attributes(self, state: RidgeState) -> dict[str, Any]:
        return {"coef_": state.coef.T}


@dataclass(frozen=True)
class PrimalSystemAlgorithm(_Direct):
    """(A + αI) w = c from the sums, d × d."""

    alpha: Array  # (m,)
    positive: bool = False

    def init(self, problem: ordinary.LeastSquaresProblem, rng: Any) -> RidgeState:
        _, c, squares = problem.sums.system(problem.intercept)
        return RidgeState(np.zeros(c.shape), 0.5 * np.asarray(squares))

    def step(self, state: RidgeState, problem: ordinary.LeastSquaresProblem) -> RidgeState:
        A, c, squares = problem.sums.system(problem.intercept)
        if problem.intercept:
            A, c = ordinary.without(A, c, problem.sums.constant_columns())
        if self.positive:
            each = [ordinary.nonnegative(A, c[:, j], a) for j, a in enumerate(self.alpha)]
            coef, solver = np.column_stack(each), "nnls"
        else:
            coef, solver = self._solve(A, c, problem)
        quadratic = np.einsum("jm,jm->m", coef, A @ coef + self.alpha * coef - 2 * c)
        return RidgeState(coef, 0.5 * (squares + quadratic), solver)

    def _solve(
        self, A: Array, c: Array, problem: ordinary.LeastSquaresProblem
    ) -> tuple[Array, str]:
        alphas = np.unique(self.alpha)
        # one factor per α costs d³/3, all eigenvectors some 9 d³
        factors = {a: normal.factor(A, a) for a in alphas} if len(alphas) <= 16 else {}
        sound = {a: f for a, f in factors.items() if f is not None and f.safe >= normal.SAFE}
        if len(sound) < len(alphas):
            return _decompose(A, c, self.alpha, problem)
        worst = min(f.safe for f in sound.values())

        def solve(c):
            found = np.empty_like(c)
            for a, factored in sound.items():
                found[:, self.alpha == a] = factored.solve(c[:, self.alpha == a])
            return found

        coef = solve(c)
        if worst < normal.ROUGH and problem.data is not None:
            coef += solve(_gradient(coef, self.alpha, problem))
        return coef, "cholesky"


def _gradient(coef: Array, alpha: Array, problem: ordinary.LeastSquaresProblem) -> Array:
    """Σ s x̃r − αw from the residuals of the data: minus the gradient, with all its digits."""
    assert problem.data is not None
    found = normal.residuals(problem.data, coef, problem.y_mean - problem.x_mean @ coef)
    left = found.gradient - np.multiply.outer(problem.x_mean, found.total) - alpha * coef
    if problem.intercept:
        left[problem.sums.constant_columns()] = 0.0
    return left


def _decompose(A: Array, c: Array, alpha: Array, problem: Any) -> tuple[Array, str]:
    """V diag(σ/(σ² + α)) Uᵀỹ of the rows in memory, else V diag(1/(λ + α)) Vᵀc; directions of rounding size get weight 0."""
    data = problem.data
    if data is not None and data.in_memory and np.prod(data.shape) <= ordinary.MOST_ROWS:
        constant = problem.sums.constant_columns() if problem.intercept else None
        X, y = normal.centred_rows(data, problem.x_mean, problem.y_mean, constant)
        return shrink_rows(X, y, alpha), "svd"
    if (alpha == 0).any():
        scale = normal.column_scale(np.sqrt(np.diagonal(A)))
        if not np.array_equal(scale, scale != 0) and (alpha == 0).all():
            return normal.eigen_solve(A, c, 0.0)[0], "eigh"
    values, V = scipy.linalg.eigh(A, check_finite=False)
    least = 8 * len(A) * normal.EPS * max(values[-1], 0.0)
    shrunk = np.where(values > least, values, 0.0)[:, None] + alpha
    image = V.T @ c
    with np.errstate(divide="ignore", invalid="ignore"):
        image = np.where(shrunk > 0, image / shrunk, 0.0)
    return V @ image, "eigh"


def shrink_rows(X: Array, y: Array, alpha: Array) -> Array:
    """Ridge weights by the SVD of centred rows."""
    U, singular, Vt = scipy.linalg.svd(X, full_matrices=False, check_finite=False)
    least = max(X.shape) * normal.EPS * singular.max(initial=0.0)
    singular = np.where(singular > least, singular, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        shares = np.where(
            singular[:, None] > 0, singular[:, None] / (singular[:, None] ** 2 + alpha), 0.0
        )
    return Vt.T @ (shares * (U.T @ y))


@dataclass(frozen=True)
class DualProblem:
    """Centred rows in memory, n × d with n < d; sparse ones stay sparse, and their means apart."""

    data: Blocks
    intercept: bool
    x_mean: Array
    y_mean: Array
    kernel: Array  # (n, n) of √s x̃
    targets: Array  # (n, m) √s ỹ

    @classmethod
    def of(cls, data: Blocks, intercept: bool) -> DualProblem:
        assert data.targets is not None
        X = data.source.astype(np.float64, copy=False)
        n, s = len(data.targets), data.weights
        y = data.targets.reshape(n, -1).astype(np.float64)
        share = np.full(n, 1 / n) if s is None else s / s.sum()
        x_mean = np.asarray(X.T @ share) if intercept else np.zeros(X.shape[1])
        y_mean = share @ y if intercept else np.zeros(y.shape[1])
        if data.sparse:
            across = X @ x_mean
            K = (X @ X.T).toarray() - across[:, None] - across + x_mean @ x_mean
        else:
            centred = X - x_mean if intercept else X
            K = centred @ centred.T
        y = y - y_mean
        if s is not None:
            root = np.sqrt(s)
            K *= root[:, None] * root
            y = y * root[:, None]
        if not np.isfinite(np.diagonal(K)).all():
            raise ValueError(
                "X contains numbers too large to be squared; divide its columns by their largest numbers."
            )
        return cls(data, intercept, x_mean, y_mean, K, y)

    def weights(self, u: Array) -> Array:
        """w = X̃ᵀ√s u."""
        if self.data.weights is not None:
            u = u * np.sqrt(self.data.weights)[:, None]
        X = self.data.source
        return np.asarray(X.T.astype(np.float64, copy=False) @ u) - np.multiply.outer(
            self.x_mean, u.sum(axis=0)
        )

    def fingerprint(self) -> str:
        return self.data.fingerprint()


@dataclass(frozen=True)
class DualSystemAlgorithm(_Direct):
    """w = X̃ᵀu with (K + αI)u = ỹ, n × n, K = X̃X̃ᵀ; at the optimum αu are the residuals."""

    alpha: Array  # (m,)

    def init(self, problem: DualProblem, rng: Any) -> RidgeState:
        m = problem.targets.shape[1]
        return RidgeState(
            np.zeros((problem.data.shape[1], m)), 0.5 * (problem.targets**2).sum(axis=0)
        )

    def step(self, state: RidgeState, problem: DualProblem) -> RidgeState:
        K, y = problem.kernel, problem.targets
        u, solver = np.empty_like(y), "dual"
        for a in np.unique(self.alpha):
            mine = self.alpha == a
            factored = normal.factor(K, a)
            if factored is None or factored.safe < normal.SAFE:
                return self._by_svd(problem)
            u[:, mine] = factored.solve(y[:, mine])
            # one step of refinement: y − (K + αI)u has all its digits
            u[:, mine] += factored.solve(y[:, mine] - K @ u[:, mine] - a * u[:, mine])
        coef = problem.weights(u)
        left = y - K @ u
        objectives = 0.5 * ((left**2).sum(axis=0) + self.alpha * (coef**2).sum(axis=0))
        return RidgeState(coef, objectives, solver)

    def _by_svd(self, problem: DualProblem) -> RidgeState:
        X, y = normal.centred_rows(problem.data, problem.x_mean, problem.y_mean)
        coef = shrink_rows(X, y, self.alpha)
        objectives = 0.5 * (((y - X @ coef) ** 2).sum(axis=0) + self.alpha * (coef**2).sum(axis=0))
        return RidgeState(coef, objectives, "svd")


@dataclass(frozen=True)
class ShrinkAlgorithm(DualSystemAlgorithm):
    """The SVD of the rows, for solver="svd"."""

    def step(self, state, problem):
        return self._by_svd(problem)
