"""Linear regression: the least-squares weights, from sums over the data, with what they are worth.

    minimise  ½ Σ s(y − xᵀw − b)²                                                       (ML, Least squares; Maximum likelihood)

    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = LinearRegression().fit(X, y)
    >>> round(model.score(X, y), 4), model.rank_, model.solver_
    (0.5177, 10, 'normal')

How it is solved. Normal equations from one pass, if they are well enough conditioned (normal_equations.py); otherwise a
QR and SVD of the rows, or, out of core, the eigenvectors of the equations: the shortest of all minimisers. Wide sparse data:
conjugate gradients on products with the data, which end in the shortest minimiser too. `positive=True`: non-negative least
squares on the triangle of the equations.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
import scipy.linalg
import scipy.optimize

from lemmata.audit.predict.linear.least_squares import LEAST_SQUARES_CLAIMS
from lemmata.core import common
from lemmata.core.blocks import Blocks
from lemmata.core.certification.checking import cost_of_least_squares
from lemmata.core.loop import MaxSteps, Never, Solution, Stopped, run
from lemmata.core.parameters import KW_ONLY, fitted, parameter
from lemmata.core.store import storable
from lemmata.core.supervised import Regressor
from lemmata.predict.base import predict_linear
from lemmata.predict.least_squares import normal_equations as normal
from lemmata.predict.least_squares.inference import (
    Inference,
    Influence,
    infer,
    measure_influence,
    predict_interval,
)

Array = np.ndarray
# features up to which a fit keeps its sums, for standard errors and partial_fit: 8 MB
KEEP_BELOW = 1024
FORM_SPARSE_BELOW = 128  # features of sparse data up to which the equations are formed
FINER = 1e-1  # of tol, for the gradient of conjugate gradients: a tol for singular values is too coarse for it
MOST_ROWS = 2**27  # numbers that are decomposed as rows, 1 GB; beyond, the equations are


@dataclass(frozen=True)
class LeastSquaresProblem:
    """The sums, and the rows they came from: None for batches that are gone."""

    sums: normal.NormalEquations
    data: Blocks | None
    intercept: bool

    @classmethod
    def of(cls, data: Blocks, intercept: bool) -> LeastSquaresProblem:
        sums = normal.NormalEquations.gather(data)
        normal.refuse_vanishing_columns(sums, data)
        return cls(sums, data, intercept)

    @property
    def x_mean(self) -> Array:
        mean = np.asarray(self.sums.moments.mean)
        return mean if self.intercept else np.zeros_like(mean)

    @property
    def y_mean(self) -> Array:
        return self.sums.y_mean if self.intercept else np.zeros_like(self.sums.y_mean)

    def fingerprint(self) -> str:
        return "" if self.data is None else self.data.fingerprint()


@storable
@dataclass(frozen=True)
class LinearState:
    """Weights of every target, the residual sum of squares, and how they were found; no solver before the first step."""

    version = 1
    layout: ClassVar = {"coef": "d m", "squares": "m", "singular?": "r", "rank": "int"}

    coef: Array  # (d, m)
    squares: Array  # (m,) Σ s r²
    rank: int = 0
    singular: Array | None = None
    solver: str = ""


@dataclass(frozen=True)
class LeastSquaresAlgorithm:
    """One step from w = 0 to the minimum."""

    draws: ClassVar = False
    hint: ClassVar = "divide the columns of X, or y, by their largest numbers"

    tol: float = 1e-6
    positive: bool = False

    def init(self, problem: LeastSquaresProblem, rng: Any) -> LinearState:
        _, cross, squares = problem.sums.system(problem.intercept)
        return LinearState(np.zeros(cross.shape), np.asarray(squares))

    def step(self, state: LinearState, problem: LeastSquaresProblem) -> LinearState:
        A, cross, squares = problem.sums.system(problem.intercept)
        if problem.intercept:
            A, cross = without(A, cross, problem.sums.constant_columns())
        if self.positive:
            return self._nonnegative(A, cross, squares, problem)
        factored = normal.factor(A)
        if factored is None or factored.safe < max(normal.SAFE, 10 * self.tol**2):
            return self._decompose(A, cross, squares, problem)
        coef = factored.solve(cross)
        singular = np.sqrt(np.maximum(scipy.linalg.eigvalsh(A, check_finite=False)[::-1], 0.0))
        rough = factored.safe < normal.ROUGH
        solved = LinearState(
            coef, explain(squares, coef, cross, A), len(A), singular[: problem.sums.count], "normal"
        )
        return refine(solved, factored.solve, A, problem, rough)

    def _decompose(self, A, cross, squares, problem) -> LinearState:
        """The shortest minimiser: of the rows if they are in memory, else of the sums."""
        data = problem.data
        if data is not None and data.in_memory and np.prod(data.shape) <= MOST_ROWS:
            constant = problem.sums.constant_columns() if problem.intercept else None
            X, y = normal.centred_rows(data, problem.x_mean, problem.y_mean, constant)
            coef, rank, singular = normal.svd_solve(X, y, self.tol)
            left = ((y - X @ coef) ** 2).sum(axis=0)
            return LinearState(coef, left, rank, singular, "svd")
        coef, rank = normal.eigen_solve(A, cross, self.tol)
        values = scipy.linalg.eigvalsh(A, check_finite=False)[::-1][: problem.sums.count]
        singular = np.sqrt(np.maximum(values, 0.0))
        solved = LinearState(coef, explain(squares, coef, cross, A), rank, singular, "eigh")
        return refine(
            solved, lambda g: normal.eigen_solve(A, g, self.tol)[0], A, problem, rough=True
        )

    def _nonnegative(self, A, cross, squares, problem) -> LinearState:
        """min ½‖Mw − MA⁻c‖² over w ≥ 0 with MᵀM = A, each target apart; then again on the weights that are not 0."""
        coef = np.column_stack([nonnegative(A, one) for one in cross.T])
        values = scipy.linalg.eigvalsh(A, check_finite=False)
        kept = values > max(self.tol**2, 8 * len(A) * normal.EPS) * max(values[-1], 0.0)
        singular = np.sqrt(np.maximum(values[::-1], 0.0))[: problem.sums.count]
        solved = LinearState(
            coef, explain(squares, coef, cross, A), int(kept.sum()), singular, "nnls"
        )
        if problem.data is None:
            return solved

        def on_support(gradient):
            step = np.zeros_like(coef)
            for j, active in enumerate((coef > 0).T):
                part = normal.factor(A[np.ix_(active, active)]) if active.any() else None
                if part is not None:
                    step[active, j] = part.solve(gradient[active, j][:, None])[:, 0]
            return step

        refined = refine(solved, on_support, A, problem, rough=True)
        return refined if (refined.coef >= 0).all() else solved

    def objective(self, state: LinearState) -> float:
        return 0.5 * float(state.squares.sum())

    def finished(self, state: LinearState) -> bool:
        return state.solver != ""

    def attributes(self, state: LinearState) -> dict[str, Any]:
        return {"coef_": state.coef.T, "rank_": state.rank, "singular_": state.singular}


def without(A: Array, cross: Array, constant: Array) -> tuple[Array, Array]:
    """The equations with exact zeros for columns that vary by rounding alone: the intercept has them already."""
    if not constant.any():
        return A, cross
    A, cross = A.copy(), cross.copy()
    A[constant], A[:, constant], cross[constant] = 0.0, 0.0, 0.0
    return A, cross


def nonnegative(A: Array, c: Array, alpha: float = 0.0) -> Array:
    """min ½wᵀ(A + αI)w − cᵀw over w ≥ 0: non-negative least squares with MᵀM = A + αI, in columns of length one."""
    lengths = np.sqrt(np.maximum(np.diagonal(A) + alpha, 0.0))
    scale = np.where(lengths > 0, 1 / np.where(lengths > 0, lengths, 1.0), 0.0)
    C = A * scale * scale[:, None]
    C.flat[:: len(C) + 1] += alpha * scale**2
    values, V = scipy.linalg.eigh(C, check_finite=False)
    kept = values > 8 * len(C) * normal.EPS * max(values[-1], 0.0)
    root = np.sqrt(values[kept])
    M = root[:, None] * V[:, kept].T
    return scale * scipy.optimize.nnls(M, (V[:, kept].T @ (scale * c)) / root)[0]


def explain(squares: Array, coef: Array, cross: Array, A: Array) -> Array:
    """Σ s r² = Σ sỹ² − 2wᵀc + wᵀAw, which rounding may push below 0."""
    return np.maximum(squares + np.einsum("jm,jm->m", coef, A @ coef - 2 * cross), 0.0)


def refine(state: LinearState, solve: Any, A: Array, problem: Any, rough: bool) -> LinearState:
    """w + A⁻¹ Σ s x̃r with residuals of the data, where the sums alone have lost digits of w or of Σ s r²."""
    lost = state.squares < normal.ROUGH * problem.sums.system(problem.intercept)[2]
    if problem.data is None or not (rough or lost.any()):
        return state
    found = normal.residuals(problem.data, state.coef, problem.y_mean - problem.x_mean @ state.coef)
    gradient = found.gradient - np.multiply.outer(problem.x_mean, found.total)
    if problem.intercept:
        gradient[problem.sums.constant_columns()] = 0.0
    step = solve(gradient)
    gain = np.einsum("jm,jm->m", step, A @ step - 2 * gradient)
    # beyond rounding, a step to the minimum of a quadratic cannot raise it
    better = gain <= 0
    coef = state.coef + np.where(better, step, 0.0)
    squares = np.maximum(found.squares + np.where(better, gain, 0.0), 0.0)
    return replace(state, coef=coef, squares=squares)


class LinearRegression(Regressor):
    """Ordinary least squares.

    Minimises ½ Σ s(y − xᵀw − b)² over w and b; where several w do, the shortest.

    Attributes
    ----------
    coef_ : (d,) or (m, d)
    intercept_ : float or (m,)
    rank_ : int
        How many directions the data determines.
    singular_ : (min(n, d),)
        Singular values of X − x̄ (of X without an intercept), rows scaled by √s. Absent for sparse data with
        more than 128 features, as is `rank_`.
    residual_squares_ : (m,)
        Σ s(y − xᵀw − b)² of every output.
    n_samples_ : int
        Rows with a weight.
    solver_ : {"normal", "svd", "eigh", "nnls", "cg"}
        What was chosen.
    sums_ : NormalEquations
        The sums of all rows, where d ≤ 1024: `partial_fit` and standard errors use them.
    certificate_, trace_, stopped_, n_iter_

    Notes
    -----
    `inference()`, `summary()`, `influence(X, y)` and `predict_interval(X)` say what the weights are worth. `partial_fit` is
    exact in any order of the batches.
    """

    _: KW_ONLY
    fit_intercept: bool = common.fit_intercept().doc("""
        Whether there is a b; without it the rows are not centred.""")
    copy_X: bool = common.copy_X()
    tol: float = common.tol(1e-6).doc("""
        Directions of X whose singular value is below `tol` times the largest count as undetermined
        and get weight 0; columns whose lengths differ by a factor of more than 1000 are first
        brought to length 1, so that units do not decide it. Of wide sparse data: conjugate
        gradients end when the gradient is below tol/10 times that at 0.""")
    n_jobs: Any = parameter(None, None, Integral).doc("""
        Has no effect: blocks are worked on by all cores.""")
    positive: bool = parameter(False, "boolean").doc("Only w ≥ 0 (non-negative least squares).")

    claims = LEAST_SQUARES_CLAIMS
    work = staticmethod(cost_of_least_squares)
    accepts_sparse = multi_output = True
    stored: ClassVar[dict[str, str | type]] = {
        "coef_": "d | m d",
        "intercept_": " | m",
        "rank_?": "int >=0",
        "singular_?": "r >=0",
        "residual_squares_": "m >=0",
        "n_samples_": "int >=1",
        "solver_": str,
        "sums_?": normal.NormalEquations,
    }
    coef_: Array = fitted()
    intercept_: Any = fitted()
    sums_: normal.NormalEquations = fitted()
    residual_squares_: Array = fitted()
    rank_: int = fitted()
    n_samples_: int = fitted()

    # solved at once: nothing to draw, to wait for or to resume
    random_state, verbose, checkpoint, time_limit = 0, 0, None, None

    predict = predict_linear

    # --- fitting ---

    def _iterates(self, data: Blocks) -> bool:
        return data.sparse and data.shape[1] > FORM_SPARSE_BELOW and not self.positive

    def _algorithm(self, data: Blocks) -> Any:
        self._forget("sums_", "rank_", "singular_")  # of a fit or batches before
        if self._iterates(data):
            from lemmata.predict.least_squares.conjugate_gradients import ConjugateGradientAlgorithm

            return ConjugateGradientAlgorithm(np.zeros(1), self.tol * FINER)
        return LeastSquaresAlgorithm(self.tol, self.positive)

    def _problem(self, data: Blocks) -> Any:
        if self._iterates(data):
            from lemmata.predict.least_squares.conjugate_gradients import CentredProducts

            return CentredProducts(data, self.fit_intercept, np.zeros(1))
        return LeastSquaresProblem.of(data, self.fit_intercept)

    def _stop(self):
        return MaxSteps(max(1000, 10 * self.n_features_in_))

    def _wants_to_settle(self) -> bool:
        return True

    def _describe_unsettled(self, solution: Solution) -> str:
        return (
            f"LinearRegression stopped after {solution.step} steps with the gradient above tol={self.tol:.0e}: "
            "scale the columns, raise tol, or use Ridge with a small alpha."
        )

    def _attributes(self, solution: Solution, problem: Any) -> dict[str, Any]:
        state, data = solution.state, problem.data
        if isinstance(problem, LeastSquaresProblem):
            found = describe_sums(state, problem, data)
            if data.shape[1] > KEEP_BELOW:
                del found["sums_"]
            return found
        return {
            **show_weights(state, problem, data),
            "residual_squares_": state.squares.astype(data.dtype),
            "n_samples_": int(data.shape[0]),
        }

    def partial_fit(self, X, y, sample_weight=None):
        """Add a batch of rows. The result is that of one fit to all rows, in any order of the batches."""
        with self._all_or_nothing():
            self._validate_params()
            first = not hasattr(self, "coef_")
            data = self._validate_pair(X, y, sample_weight, reset=first)
            if not first and not hasattr(self, "sums_"):
                raise ValueError(
                    f"this model of {self.n_features_in_} features kept no sums to continue from; begin with partial_fit."
                )
            sums = LeastSquaresProblem.of(data, self.fit_intercept).sums
            total = sums if first else self.sums_ + sums
            problem = LeastSquaresProblem(total, None, self.fit_intercept)
            solution = run(LeastSquaresAlgorithm(self.tol, self.positive), problem, stop=Never())
            found = describe_sums(solution.state, problem, data)
            self._conclude(None, found, solution.trace, Stopped.BATCHES, solution.step)
        return self

    # --- what the weights are worth ---

    def inference(
        self, X=None, y=None, sample_weight=None, *, covariance="nonrobust", output=0, level=0.95
    ) -> Inference:
        """Standard errors, t, p and confidence intervals (see inference.py).

        X, y, sample_weight : the training data, for the heteroscedasticity-consistent covariances; without them the sums serve
        covariance : {"nonrobust", "HC0", "HC1", "HC2", "HC3"}
        output : int
            Which of several targets.
        level : float
            Of the confidence intervals.
        """
        data = None if X is None else self._validate_pair(X, y, sample_weight, reset=False)
        return infer(self, data, covariance, output, level)

    def summary(self, X=None, y=None, sample_weight=None, **options) -> str:
        """The table of `inference`, to print."""
        return self.inference(X, y, sample_weight, **options).summary()

    def influence(self, X, y, sample_weight=None, *, output=0) -> Influence:
        """Leverage, studentised residuals and Cook's distance of every training row."""
        return measure_influence(
            self, self._validate_pair(X, y, sample_weight, reset=False), output
        )

    def predict_interval(self, X, *, level=0.95, kind="prediction", output=0) -> Array:
        """(n, 3): prediction, lower and upper end of where a new y ("prediction") or its mean ("mean") lies with this level."""
        return predict_interval(self, self._validate_rows(X, reset=False), level, kind, output)


def describe_sums(state: LinearState, problem: LeastSquaresProblem, data: Blocks) -> dict[str, Any]:
    """Return the public attributes of weights that were solved for from sums."""
    assert state.singular is not None
    return {
        **show_weights(state, problem, data),
        "rank_": state.rank,
        "singular_": state.singular.astype(data.dtype),
        "residual_squares_": state.squares.astype(data.dtype),
        "n_samples_": int(problem.sums.count),
        "sums_": problem.sums,
    }


def show_weights(state: Any, problem: Any, data: Blocks) -> dict[str, Any]:
    """Return coef_, intercept_ and solver_, in the shapes of y and the dtype of the data, from weights (d, m) in float64."""
    assert data.targets is not None
    coef, dtype = np.ascontiguousarray(state.coef.T).astype(data.dtype), data.dtype
    intercept = (problem.y_mean - problem.x_mean @ state.coef).astype(dtype)
    found = {"coef_": coef, "intercept_": intercept, "solver_": state.solver}
    if data.targets.ndim == 1:
        found |= {"coef_": coef[0], "intercept_": intercept[0]}
    return found if problem.intercept else {**found, "intercept_": 0.0}
