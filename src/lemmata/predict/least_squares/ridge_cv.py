"""Ridge regression that chooses α by leave-one-out errors: exact, for all α from one decomposition.

Leave row i out, fit again, predict it: for ridge this needs no second fit. With h the leverage of row i at α,

    yᵢ − ŷᵢ(without i) = rᵢ/(1 − hᵢ),       hᵢ = sᵢ/Σs + sᵢ x̃ᵢᵀ(A + αI)⁻¹x̃ᵢ                            (ML, Model selection)

n ≥ d: A = VΛVᵀ, and z = Vᵀx̃ of a row gives x̃ᵀ(A + αI)⁻¹x̃ = Σ z²/(λ + α): the squares of all z times a matrix with one column
per α, one product for all α, block by block.
n < d: K = X̃X̃ᵀ = QΛQᵀ, u = Q diag(1/(λ + α)) Qᵀỹ, and rᵢ/(1 − hᵢ) = uᵢ/dᵢ with d the diagonal of (K + αI)⁻¹ without the
direction of the intercept: √s, on which K vanishes. That direction is first moved to eigenvalue τ, since taking sᵢ/(αΣs) from
the diagonal would cancel all digits where α is small.

    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = RidgeCV(alphas=np.geomspace(1e-4, 10, 50)).fit(X, y)
    >>> round(model.alpha_, 4), round(-model.best_score_, 1)
    (0.0043, 2999.8)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
import scipy.linalg
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.metrics import get_scorer

from lemmata.audit.predict.linear.least_squares import RIDGE_CV_CLAIMS
from lemmata.core import common
from lemmata.core.blocks import Blocks
from lemmata.core.certification.checking import cost_of_ridge_cv
from lemmata.core.engine import config, map_reduce
from lemmata.core.loop import MaxSteps, Solution
from lemmata.core.parameters import KW_ONLY, POSITIVE, choice, fitted, parameter
from lemmata.core.store import storable
from lemmata.core.supervised import Regressor
from lemmata.predict.base import predict_linear
from lemmata.predict.least_squares import ridge_systems as systems
from lemmata.predict.least_squares.estimator import LeastSquaresProblem, show_weights, without
from lemmata.predict.least_squares.normal_equations import pack
from lemmata.predict.least_squares.ridge import STORED, Ridge

Array = np.ndarray
PIECE = 2**21  # numbers of a block of rows times V at once: 16 MB


@storable
@dataclass(frozen=True)
class RidgePathState:
    """The weights at the best α of every target, the scores, and the errors if they are to be stored."""

    version = 1
    layout: ClassVar = {"coef": "d m", "objectives": "m", "alpha": "m >=0", "scores": "k any"}

    coef: Array  # (d, m)
    objectives: Array  # (m,)
    alpha: Array  # (m,)
    scores: Array  # (K,) or, for one α per target, K·m, targets together
    errors: Array | None = None  # (n, m, K)
    solver: str = ""


@dataclass(frozen=True)
class LeaveOneOutAlgorithm:
    """One step: the errors of every α, the best α, and its weights."""

    draws: ClassVar = False
    hint: ClassVar = "divide the columns of X, or y, by their largest numbers"

    alphas: Array  # (K,)
    each: bool  # one α per target
    # None: minus the mean squared error
    score: Callable[[Array, Array, Array | None], float] | None
    stores: bool

    def init(self, problem: LeastSquaresProblem | systems.DualProblem, rng: Any) -> RidgePathState:
        d = problem.data.shape[1]  # type: ignore[union-attr]
        if isinstance(problem, systems.DualProblem):
            squares = (problem.targets**2).sum(axis=0)
        else:
            squares = problem.sums.system(problem.intercept)[2]
        m = len(squares)
        return RidgePathState(
            np.zeros((d, m)), 0.5 * squares, np.full(m, self.alphas[0]), np.zeros(0)
        )

    def step(self, state: RidgePathState, problem: Any) -> RidgePathState:
        dual = isinstance(problem, systems.DualProblem)
        errors = dual_errors if dual else primal_errors
        whole = self.stores or self.score is not None
        # (n, m, K) scaled by √s, or sums of their squares (m, K)
        found = errors(problem, self.alphas, whole)
        scores = self._scores(found, problem.data) if whole else -found / problem.data.shape[0]
        if not self.each:
            scores = scores.mean(axis=0, keepdims=True) if self.score is None else scores
        best = np.argmax(scores, axis=1)
        alpha = np.broadcast_to(self.alphas[best], len(state.alpha)).astype(np.float64)
        solver = (systems.DualSystemAlgorithm if dual else systems.PrimalSystemAlgorithm)(alpha)
        solved = solver.step(solver.init(problem, None), problem)
        shown = None
        if self.stores:
            shown = found**2 if self.score is None else self._predictions(found, problem.data)
        return RidgePathState(
            solved.coef, solved.objectives, alpha, scores.ravel(), shown, solved.solver
        )

    def _scores(self, errors: Array, data: Blocks) -> Array:
        """(m, K), or (1, K) of a scorer that sees all targets together."""
        if self.score is None:
            return -np.square(errors).mean(axis=0)
        y, predicted = data.targets.astype(np.float64), self._predictions(errors, data)  # type: ignore[union-attr]
        flat = y.ndim == 1
        k = range(predicted.shape[2])
        if self.each and not flat:
            return np.array(
                [
                    [self.score(predicted[:, j, a], y[:, j], data.weights) for a in k]
                    for j in range(y.shape[1])
                ]
            )
        return np.array(
            [
                [
                    self.score(predicted[:, 0, a] if flat else predicted[:, :, a], y, data.weights)
                    for a in k
                ]
            ]
        )

    @staticmethod
    def _predictions(errors: Array, data: Blocks) -> Array:
        y = data.targets.reshape(len(errors), -1).astype(np.float64)  # type: ignore[union-attr]
        if data.weights is not None:
            with np.errstate(divide="ignore", invalid="ignore"):
                errors = errors / np.sqrt(data.weights)[:, None, None]
        return y[:, :, None] - errors

    def objective(self, state: RidgePathState) -> float:
        return float(state.objectives.sum())

    def finished(self, state: RidgePathState) -> bool:
        return state.solver != ""

    def attributes(self, state: RidgePathState) -> dict[str, Any]:
        return {"coef_": state.coef.T, "alpha_": state.alpha}


# --- leave-one-out errors ---------------------------------------------------------------------------------------------


def primal_errors(problem: LeastSquaresProblem, alphas: Array, whole: bool) -> Array:
    """√s times the errors of all rows (n, m, K), or the sums of their squares (m, K), from the eigenvectors of A."""
    A, c, _ = problem.sums.system(problem.intercept)
    if problem.intercept:
        A, c = without(A, c, problem.sums.constant_columns())
    values, V = scipy.linalg.eigh(A, driver="evd", check_finite=False)
    shrunk = 1 / (np.maximum(values, 0.0)[:, None] + alphas)  # (d, K)
    coefs = (V.T @ c)[:, :, None] * shrunk[:, None]  # (d, m, K), in the axes V
    share = 1 / problem.sums.moments.n if problem.intercept else 0.0
    errors = partial(_errors_of, V, problem.x_mean @ V, problem.y_mean, coefs, shrunk, share, whole)
    assert problem.data is not None
    if not whole:
        return map_reduce(errors, pack(problem.data), 0.0)
    parts = [errors(rows, columns) for rows, columns in pack(problem.data)]
    return np.concatenate(parts)


def _errors_of(V, z_mean, y_mean, coefs, shrunk, share, whole, rows, columns):
    """Compute the errors of one block, a piece at a time: z = Vᵀx̃ of its rows, then two products for all α."""
    d, m, k = coefs.shape
    step = max(PIECE // d, 1)
    parts, total = [], np.zeros((m, k))
    for first in range(0, rows.shape[0], step):
        here = slice(first, first + step)
        s, y = columns[here, 0], columns[here, 1:]
        Z = rows[here].astype(np.float64, copy=False) @ V - z_mean
        r = (y - y_mean)[:, :, None] - (Z @ coefs.reshape(d, m * k)).reshape(-1, m, k)
        np.square(Z, out=Z)
        left = 1 - s[:, None] * (share + Z @ shrunk)  # (rows, K)
        r /= left[:, None]
        r *= np.sqrt(s)[:, None, None]
        if whole:
            parts.append(r)
        else:
            total += np.einsum("imk,imk->mk", r, r)
    return np.concatenate(parts) if whole else total


def dual_errors(problem: systems.DualProblem, alphas: Array, whole: bool) -> Array:
    """The same from the eigenvectors of K, n × n."""
    K, y, n = problem.kernel, problem.targets, len(problem.targets)
    s = np.ones(n) if problem.data.weights is None else problem.data.weights
    v2, tau = s / s.sum(), 0.0
    if problem.intercept:
        tau = max(float(np.trace(K)) / n, float(alphas.min()))
        root = np.sqrt(v2)
        K = K + tau * np.multiply.outer(root, root)
    values, Q = scipy.linalg.eigh(K, driver="evd", check_finite=False)
    shrunk = 1 / (np.maximum(values, 0.0)[:, None] + alphas)  # (n, K)
    m, k = y.shape[1], len(alphas)
    u = Q @ ((Q.T @ y)[:, :, None] * shrunk[:, None]).reshape(n, m * k)
    diagonal = np.square(Q) @ shrunk
    if problem.intercept:
        diagonal -= v2[:, None] / (tau + alphas)
    with np.errstate(divide="ignore", invalid="ignore"):
        errors = u.reshape(n, m, k) / diagonal[:, None]
    errors[s == 0] = 0.0  # a row that does not count has no error that would
    return errors if whole else np.einsum("imk,imk->mk", errors, errors)


# --- the estimator ----------------------------------------------------------------------------------------------------


class _Identity(RegressorMixin, BaseEstimator):
    """Stands in for a model in a scorer: its predictions are the rows."""

    def fit(self, X, y):  # pragma: no cover - scorers never fit
        return self

    def predict(self, X):
        return X

    def __sklearn_is_fitted__(self):
        return True


def _score(scorer: Any, predictions: Array, y: Array, weights: Array | None) -> float:
    more = {} if weights is None else {"sample_weight": weights}
    return float(scorer(_Identity(), predictions, y, **more))


class RidgeCV(Regressor):
    """Ridge regression that chooses α among several by leave-one-out errors, or by other folds.

    Minimises ½ Σ s(y − xᵀw − b)² + ½ α‖w‖² over w and b, at the α with the best score.

    Attributes
    ----------
    alpha_ : float or (m,)
    best_score_ : float or (m,)
    scores_ : (K,) or (m, K)
        The score of every α; not with `cv`.
    cv_results_ : (n, K) or (n, m, K)
        With store_cv_results. Errors are multiplied by the weights of their rows, as in scikit-learn.
    coef_, intercept_, solver_, certificate_, trace_, stopped_, n_iter_ : as of Ridge
    """

    alphas: Any = parameter((0.1, 1.0, 10.0), "array-like", POSITIVE).doc("""
        The α > 0 to choose from (≥ 0 with `cv`); all of them cost little more than one.""")
    _: KW_ONLY
    fit_intercept: bool = common.fit_intercept().doc("""
        Whether there is a b, which is not penalised.""")
    scoring: Any = parameter(None, str, callable, None).doc("""
        A scorer of scikit-learn; larger is better. None is minus the mean squared error (with `cv`:
        R²).""")
    cv: Any = parameter(None, "cv_object").doc("""
        None leaves one row out at a time, exactly and without fitting again. Otherwise
        scikit-learn's folds, rows in memory.""")
    gcv_mode: Any = parameter(None, choice("auto", "svd", "eigen", "gram", "cov"), None).doc("""
        Has no effect: the smaller of XᵀX and XXᵀ is decomposed.""")
    store_cv_results: bool = parameter(False, "boolean").doc("""
        Keep the squared errors of every row (with `scoring`: the predictions) at every α as
        `cv_results_`.""")
    alpha_per_target: bool = parameter(False, "boolean").doc("One α for every output.")

    claims = RIDGE_CV_CLAIMS
    work = staticmethod(cost_of_ridge_cv)
    accepts_sparse = multi_output = True
    min_samples = 2  # one to leave out, one to fit to
    random_state, verbose, checkpoint, time_limit = None, 0, None, None
    tol = 0.0  # leave-one-out is one step: no warning about max_iter
    coef_: Array = fitted()
    intercept_: Any = fitted()
    stored: ClassVar[dict[str, str | type]] = {
        **STORED,
        "alpha_": ">=0 | m >=0",
        "best_score_": " | m",
        "scores_?": "a | m a",
        "cv_results_?": np.ndarray,
    }

    predict = predict_linear

    def _fit_blocks(self, data: Blocks) -> None:
        self._forget("scores_", "cv_results_")
        if self.cv is None:
            return super()._fit_blocks(data)
        best = self._choose_by_folds(data)
        return self._fit_by(best._algorithm(data), data, best._problem(data))

    def _algorithm(self, data: Blocks) -> LeaveOneOutAlgorithm:
        scorer = None
        if self.scoring is not None:
            chosen = get_scorer(self.scoring) if isinstance(self.scoring, str) else self.scoring
            scorer = partial(_score, chosen)
        each = bool(self.alpha_per_target) and data.targets.ndim > 1  # type: ignore[union-attr]
        return LeaveOneOutAlgorithm(self._check_alphas(), each, scorer, bool(self.store_cv_results))

    def _problem(self, data: Blocks) -> Any:
        if data.in_memory and data.shape[0] < data.shape[1]:
            return systems.DualProblem.of(data, self.fit_intercept)
        return LeastSquaresProblem.of(data, self.fit_intercept)

    def _stop(self):
        return MaxSteps(max(1000, 10 * self.n_features_in_))

    def _check_alphas(self) -> Array:
        alphas = np.asarray(self.alphas, dtype=np.float64).ravel()
        if alphas.size == 0:
            raise ValueError("alphas is empty; pass at least one α.")
        for index, alpha in enumerate(alphas):
            if not (np.isfinite(alpha) and (alpha > 0 or (alpha == 0 and self.cv is not None))):
                least = "> 0" if self.cv is None else ">= 0"
                raise ValueError(f"alphas[{index}] == {alpha:g}, must be {least}.")
        return alphas

    def _choose_by_folds(self, data: Blocks) -> Ridge:
        """scikit-learn's search over folds, with our Ridge inside; the best α is then fitted on the one path of all models."""
        from sklearn.model_selection import GridSearchCV

        for name in ("store_cv_results", "alpha_per_target"):
            if getattr(self, name):
                raise ValueError(f"cv!=None and {name}=True are incompatible; set one of them.")
        if not isinstance(data.source, np.ndarray) and not data.sparse:
            raise ValueError(
                "cv needs rows that can be chosen, an array or a sparse matrix; cv=None takes any data."
            )
        ridge, grid = (
            Ridge(fit_intercept=self.fit_intercept),
            {"alpha": self._check_alphas().tolist()},
        )
        search = GridSearchCV(ridge, grid, cv=self.cv, scoring=self.scoring, refit=False)
        with config(certificate=False):
            more = {} if data.weights is None else {"sample_weight": data.weights}
            search.fit(data.source, data.targets, **more)
        self.alpha_, self.best_score_ = map(
            float, (search.best_params_["alpha"], search.best_score_)
        )
        return ridge.set_params(alpha=self.alpha_)

    def _attributes(self, solution: Solution, problem: Any) -> dict[str, Any]:
        state = solution.state
        found = show_weights(state, problem, problem.data)
        if self.cv is not None:
            return found
        flat = problem.data.targets.ndim == 1
        each = bool(self.alpha_per_target) and not flat
        scores = state.scores.reshape(-1, len(self._check_alphas()))
        best = scores.max(axis=1)
        found |= {
            "alpha_": state.alpha if each else float(state.alpha[0]),
            "best_score_": best if each else float(best[0]),
            "scores_": (scores if each else scores[0]).astype(found["coef_"].dtype),
        }
        if state.errors is not None:
            found["cv_results_"] = (state.errors[:, 0] if flat else state.errors).astype(
                found["coef_"].dtype
            )
        return found
