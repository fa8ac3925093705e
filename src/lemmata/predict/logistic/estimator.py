"""Logistic regression: weights that make the labels likely.

    minimise  C Σ sᵢ log(1 + e^(−yᵢ(xᵢᵀw + b)))  +  (1 − ρ)/2 ‖w‖² + ρ ‖w‖₁            two classes, y = ±1
              C Σ sᵢ (log Σₖ e^(xᵢᵀwₖ + bₖ) − f_cᵢ)  + the same of all wₖ                more: softmax

The loss is the negative log-likelihood of labels drawn with odds e^f (ML "Logistic regression"); the penalty is a prior on w,
and without one (C = ∞) the weights are those of maximum likelihood, which exist only if no direction separates the classes:
`certificate_` says which. Strictly convex with a ridge, so every solver has the same answer and only their speed differs.

    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = LogisticRegression().fit(X, y)
    >>> model.n_iter_ < 12, model.coef_.shape, round(model.score(X, y), 2)
    (True, (3, 4), 0.97)
    >>> model.certificate_.failed
    []
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from scipy.special import expit, log_softmax, softmax
from sklearn.utils.validation import check_is_fitted

from lemmata.audit.predict.linear.penalised import LOGISTIC_CLAIMS
from lemmata.core import common
from lemmata.core.blocks import Blocks
from lemmata.core.certificate import FAILS
from lemmata.core.certification.checking import cost_of_logistic_regression
from lemmata.core.loop import MaxSteps, Solution, Stop, Stopped
from lemmata.core.parameters import KW_ONLY, POSITIVE, SHARE, choice, parameter
from lemmata.core.supervised import Classifier
from lemmata.core.validation import Interval
from lemmata.predict.base import LinearClassifier, linear_scores
from lemmata.predict.logistic import problem as linear
from lemmata.predict.logistic import surrogates
from lemmata.predict.logistic.inference import LikelihoodInference, infer
from lemmata.predict.logistic.l1 import algorithm_for
from lemmata.predict.logistic.lbfgs import LBFGSAlgorithm
from lemmata.predict.logistic.newton import UNSEEN, NewtonAlgorithm

Array = np.ndarray
SOLVERS = {
    "auto", "newton", "newton-cholesky", "newton-cg", "lbfgs", "liblinear", "sag", "saga", "gd", "sgd",
}  # fmt: skip
WIDE = 2500  # weights up to which a Hessian is formed
# the same where it couples the classes and costs their number squared: of any number of rows, and of few
WIDE_SOFTMAX, WIDEST_SOFTMAX, FEW = 150, 1500, 2**30

# ends of a run that did not arrive, and what to do about each
ENDS: dict[str, tuple[str, str]] = {
    Stopped.MAX_STEPS: ("reached max_iter={max_iter}", "raise max_iter"),
    Stopped.OUT_OF_TIME: ("ran out of time_limit={time_limit}", "raise time_limit"),
    Stopped.FINISHED: ("found no better weights after {steps} steps", "lower C"),
}


@dataclass(frozen=True)
class RowSpaceProblem(linear.LinearProblem):
    """A problem of n rows in n dimensions instead of d: w = Qv, since a w with a ridge is a combination of rows.

    That is the representer theorem, for X = LQᵀ with orthonormal columns of Q: the scores are those of L and v, ‖w‖ = ‖v‖.
    """

    Q: Array | None = None  # (d, n)
    floats: np.dtype = np.dtype(np.float64)  # of the rows as they were given

    @classmethod
    def of_rows(cls, data: Blocks, *rest: Any) -> RowSpaceProblem:
        Q, R = np.linalg.qr(np.asarray(data.source, np.float64).T)
        small = Blocks.of(np.ascontiguousarray(R.T), data.weights).with_targets(data.targets)  # type: ignore[arg-type]
        of = linear.LinearProblem.of(small, *rest)
        return cls(of.data, of.loss, of.ridge, of.lasso, of.intercept, Q, data.dtype)

    @property
    def dtype(self) -> np.dtype:
        return self.floats

    def split(self, W: Array) -> tuple[Array, Array]:
        coef, b = super().split(W)
        assert self.Q is not None
        return coef @ self.Q.T, b


def penalties(D: int, strength: float, intercept: float | None) -> Array:
    """One penalty for all weights; the intercept, if there is one, has its own factor."""
    found = np.full(D, strength)
    if intercept is not None:
        found[-1] = strength * intercept
    return found


def _softmax_affordable(n: int, weights: int) -> bool:
    return weights <= WIDE_SOFTMAX or (weights <= WIDEST_SOFTMAX and n * weights**2 <= FEW)


class LogisticRegression(LinearClassifier, Classifier):
    """Logistic regression for two or more classes, with a ridge, a lasso, both, or no penalty.

    Minimises C Σ sᵢ ℓᵢ + (1 − ρ)/2 ‖w‖² + ρ ‖w‖₁ over w and b, ℓ the negative log-likelihood of a label (softmax for more than
    two classes) and sᵢ the weight of a row times that of its class.

    Attributes
    ----------
    classes_ : (k,)
    coef_ : (1, d) for two classes, else (k, d)
    intercept_ : (1,) or (k,), the latter with mean 0; zeros without one
    n_iter_, certificate_, trace_, stopped_, n_features_in_, feature_names_in_
    """

    penalty: Any = parameter(
        "auto", choice("l1", "l2", "elasticnet", "auto", "deprecated"), None
    ).doc("""
        "l2" says ρ = 0, "l1" ρ = 1, None C = ∞; "auto" (scikit-learn's "deprecated" too): `C` and
        `l1_ratio` decide.""")
    _: KW_ONLY
    C: float = parameter(1.0, Interval(Real, 0, None, closed="right")).doc("""
        How much the loss counts against the penalty; np.inf for maximum likelihood.""")
    l1_ratio: Any = parameter(0.0, SHARE, None).doc("""
        ρ: 0 is a ridge, 1 a lasso, between them the elastic net.""")
    dual: bool = parameter(False, "boolean").doc("Has no effect: the minimum is the same.")
    tol: float = common.tol(1e-4).doc("""
        When to stop: no entry of the gradient exceeds tol·Σs (with a lasso, tol of its own
        strength), and with a ridge the duality gap ‖∇‖²/2λ is at most tol times the objective.""")
    fit_intercept: bool = common.fit_intercept().doc("""
        Whether there is a b. It is not penalised, except by solver="liblinear".""")
    intercept_scaling: float = parameter(1, POSITIVE).doc("""
        With solver="liblinear" alone: b/intercept_scaling is penalised like a weight.""")
    class_weight: Any = common.class_weight().doc("""
        A factor for the rows of each class; "balanced" gives every class the same total weight.""")
    random_state: Any = common.random_state().doc('Shuffles the rows of solver="sgd".')
    solver: str = parameter("auto", choice(*SOLVERS)).doc("""
        "newton" (also "newton-cholesky", "newton-cg"): damped Newton, few passes over the rows;
        "lbfgs": no Hessian, for many features or classes; "gd": gradient descent with step 1/L;
        "sgd": mini-batches; "auto", "sag" and "saga": Newton where a Hessian is affordable, else
        L-BFGS. With a lasso all but gd and sgd mean Newton with working sets. "liblinear": as
        "auto" for two classes, but with its penalised intercept.""")
    max_iter: int = common.max_iter(100).doc("""
        Steps: of Newton or L-BFGS, passes over the rows of gd and sgd, working sets where there are
        any.""")
    verbose: int = common.verbose()
    warm_start: bool = common.warm_start().doc("Start from the weights of the fit before.")
    n_jobs: Any = parameter(None, None, Integral).doc("""
        Has no effect: threads share the blocks of rows.""")
    checkpoint: Any = common.checkpoint()
    time_limit: Any = common.time_limit()

    claims = LOGISTIC_CLAIMS
    work = staticmethod(cost_of_logistic_regression)
    stored: ClassVar = {"coef_": "k d", "intercept_": "k"}

    # --- the problem ---

    def _strengths(self) -> tuple[float, float]:
        """Ridge and lasso, relative to the loss: (1 − ρ)/C and ρ/C."""
        ratio = {"l1": 1.0, "l2": 0.0}.get(self.penalty, self.l1_ratio)
        if self.penalty is None or math.isinf(self.C):
            return 0.0, 0.0
        if ratio is None:
            raise ValueError(
                "l1_ratio=None says nothing about the penalty; pass a number from 0 (ridge) to 1 (lasso)."
            )
        with np.errstate(over="ignore"):
            return float((1 - ratio) / self.C), float(ratio / self.C)

    def _loss(self) -> surrogates.LogisticSurrogate | surrogates.SoftmaxSurrogate:
        k = len(self.classes_)
        if k > 2 and self.solver == "liblinear":
            raise ValueError(
                f"solver='liblinear' tells two classes apart and y holds {k}; any other solver takes more."
            )
        return surrogates.LogisticSurrogate() if k == 2 else surrogates.SoftmaxSurrogate(k)

    def _in_row_space(self, data: Blocks) -> bool:
        """Whether the problem is solved in as many dimensions as there are rows."""
        n, d = data.shape
        ridge, lasso = self._strengths()
        return (
            isinstance(data.source, np.ndarray)
            and data.in_memory
            and ridge > 0
            and lasso == 0
            and n < d
            and self.solver not in ("gd", "sgd", "lbfgs")
        )

    def _problem(self, data: Blocks) -> linear.LinearProblem:
        ridge, lasso = self._strengths()
        scale = float(self.intercept_scaling) if self.solver == "liblinear" else math.inf
        row_space = self._in_row_space(data)
        D = (data.shape[0] if row_space else data.shape[1]) + self.fit_intercept
        make = RowSpaceProblem.of_rows if row_space else linear.LinearProblem.of
        return make(
            self._weighted_by_class(data),
            self._loss(),
            penalties(D, ridge, scale**-2 if self.fit_intercept else None),
            penalties(D, lasso, 1 / scale if self.fit_intercept else None),
            self.fit_intercept,
        )

    def _algorithm(self, data: Blocks) -> Any:
        n, d = data.shape
        loss, (_, lasso) = self._loss(), self._strengths()
        start = self._start(data, loss.m)
        if self.solver in ("gd", "sgd"):
            from lemmata.predict.logistic.gradient import GradientAlgorithm, StochasticAlgorithm

            return (GradientAlgorithm if self.solver == "gd" else StochasticAlgorithm)(start)
        width = min(n, d) if self._in_row_space(data) else d
        if lasso > 0:
            return algorithm_for(data, width, loss, start)
        asked = self.solver.startswith("newton")
        affordable = width <= WIDE if loss.m == 1 else _softmax_affordable(n, width * loss.m)
        if self.solver != "lbfgs" and (asked or affordable):
            return NewtonAlgorithm(start)
        return LBFGSAlgorithm(start)

    def _start(self, data: Blocks, m: int) -> Array | None:
        """The weights of the fit before, if they are to be used and still fit."""
        if not self.warm_start or getattr(self, "coef_", None) is None:
            return None
        if self.coef_.shape != (m, data.shape[1]) or self._in_row_space(data):
            return None
        b = self.intercept_[:, None] if self.fit_intercept else np.zeros((m, 0))
        return np.hstack([self.coef_, b]).astype(np.float64)

    def _stop(self) -> Stop:
        return self._within_time(linear.NearOptimum(self.tol) | MaxSteps(self.max_iter))

    def _attributes(self, solution: Solution, problem: linear.LinearProblem) -> dict[str, Any]:
        coef, b = problem.split(solution.attributes["W"])
        if problem.loss.coupled:  # the same number added to all scores changes nothing
            b = b - b.mean() if not problem.ridge[-1] else b
        return {"coef_": coef.astype(problem.dtype), "intercept_": b.astype(problem.dtype)}

    def _has_arrived(self, solution: Solution, problem: linear.LinearProblem) -> bool:
        """Whether the run ended near the minimum, or with nothing left that the rounding of the objective would show."""
        if solution.stopped != Stopped.FINISHED:
            return solution.stopped not in ENDS
        state = solution.state
        return max(state.first, state.gap) <= self.tol or state.promised <= UNSEEN

    def _describe_unsettled(self, solution: Solution) -> str:
        left = max(solution.trace.last("gradient"), solution.trace.last("gap"))
        how, advice = ENDS[str(solution.stopped)]
        how = how.format(max_iter=self.max_iter, time_limit=self.time_limit, steps=solution.step)
        return (
            f"{type(self).__name__} {how} with {left:.1e} > tol={self.tol:.0e} left to gain: {advice}, scale the features, or "
            "read certificate_."
        )

    # --- what the weights are worth ---

    def inference(self, X, y, sample_weight=None, *, level: float = 0.95) -> LikelihoodInference:
        """Standard errors, z, p and confidence intervals of the weights of maximum likelihood (see inference.py).

        X, y, sample_weight : the training data
        level : of the confidence intervals
        """
        check_is_fitted(self)
        if any(self._strengths()):
            raise ValueError(
                f"a penalty (C={self.C:g}) biases the weights, so that standard errors do not describe them: "
                "fit with penalty=None."
            )
        if self.class_weight is not None:
            raise ValueError(
                "class_weight replaces the likelihood of the labels by another sum, whose weights have no such errors: "
                "fit with class_weight=None."
            )
        data = self._validate_pair(X, y, sample_weight, reset=False)
        existence = tuple(one for one in self.claims if one.name == "weights_exist")
        for claim in self._certificate(data, claims=existence):
            if claim.verdict == FAILS:
                raise ValueError(
                    f"there are no weights of maximum likelihood here: {claim.advice}."
                )
        return infer(self, self._problem(data), level)

    def summary(self, X, y, sample_weight=None, **options) -> str:
        """The table of `inference`, to print."""
        return self.inference(X, y, sample_weight, **options).summary()

    # --- output ---

    def predict_proba(self, X):
        """The probability of each class, (n, k)."""
        return self._probabilities(X, log=False)

    def predict_log_proba(self, X):
        """Its logarithm, (n, k), without the detour that would make −∞ of a small one."""
        return self._probabilities(X, log=True)

    def _probabilities(self, X, log: bool):
        check_is_fitted(self)

        def probabilities(rows):
            F = linear_scores(rows, self.coef_, self.intercept_)
            if F.shape[1] > 1:
                return log_softmax(F, axis=1) if log else softmax(F, axis=1)
            both = np.hstack([-F, F])
            return -np.logaddexp(0, -both) if log else expit(both)

        return self._apply(X, probabilities)
