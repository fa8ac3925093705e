"""Robust regression: a line that some wild rows cannot turn, and the rows that tried.

minimise  Σ s ℓ(y − xᵀw − b)        absolute  |r|            an LP; wild y pull no more than others
                                    huber     ½r², then |r|  with its scale; convex
                                    tukey     bisquare       wild rows pull not at all; from a start that survives half of them

>>> rng = np.random.default_rng(0)
>>> X = rng.normal(size=(100, 2)); y = X @ [1.0, -2.0] + 0.1 * rng.normal(size=100)
>>> y[:20] += 50
>>> model = RobustRegression(loss="tukey", random_state=0).fit(X, y)
>>> np.round(model.coef_, 1), int(model.outliers_[:20].sum())
(array([ 1., -2.]), 20)
>>> np.round(HuberRegressor().fit(X, y).coef_)
array([ 1., -2.])
"""

from __future__ import annotations

from numbers import Real
from typing import Any, ClassVar

import numpy as np

from lemmata.audit.predict.linear.robust import ROBUST_CLAIMS
from lemmata.core import common, parameters
from lemmata.core.blocks import Blocks
from lemmata.core.certification.checking import cost_of_robust_regression
from lemmata.core.loop import MaxSteps, Solution
from lemmata.core.runs.delegate import conclude_as, fit_as
from lemmata.core.supervised import Regressor
from lemmata.core.validation import Interval
from lemmata.predict.base import predict_linear
from lemmata.predict.robust.bisquare import BisquareAlgorithm, bisquare_weights, median_scale
from lemmata.predict.robust.huber import HuberAlgorithm, least_scale
from lemmata.predict.robust.least_absolute import LeastAbsoluteAlgorithm

Array = np.ndarray
FAR = 3.0  # scales beyond which a residual of the absolute loss is called an outlier


class RobustRegression(Regressor):
    """Linear regression with a robust loss.

    Minimises Σ s ℓ(y − xᵀw − b): ℓ of Huber with its scale as scikit-learn's HuberRegressor does, the absolute value, or
    Tukey's bisquare.

    Attributes
    ----------
    coef_ : (d,)
    intercept_ : float
    scale_ : float
        σ, the deviation of the good rows. huber: minimised over; tukey: of the start, by the median; absolute:
        median|r|/0.6745.
    weights_ : (n,)
        What every row still counts: 1 at the plane, 0 where tukey has dropped it. huber: min(1, εσ/|r|); absolute:
        min(1, σ/|r|).
    outliers_ : (n,) of bool
        huber: |r| > εσ. tukey: |r| > tuning·σ. absolute: |r| > 3σ.
    n_iter_, certificate_, trace_, stopped_
    """

    _: parameters.KW_ONLY
    epsilon: float = parameters.parameter(1.35, Interval(Real, 1.0, None, closed="neither")).doc("""
        Of huber: residuals beyond ε·σ count linearly. 1.35 keeps 95 % efficiency under Gaussian
        noise.""")
    max_iter: int = common.max_iter(100).doc("huber and tukey stop after this many steps.")
    alpha: float = parameters.parameter(0.0001, parameters.NONNEGATIVE).doc("""
        Of huber: the price of ‖w‖². absolute and tukey have no penalty.""")
    warm_start: bool = common.warm_start().doc("huber and tukey continue from the fit before.")
    fit_intercept: bool = common.fit_intercept().doc("Whether there is a b.")
    tol: float = common.tol(1e-5).doc("""
        huber stops when a Newton step promised less than tol² of the objective; tukey when the
        predictions move by less than tol·σ; absolute is exact.""")
    loss: str = parameters.parameter("huber", parameters.choice("huber", "absolute", "tukey")).doc(
        "ℓ, the loss of a residual."
    )
    tuning: float = parameters.parameter(4.685, parameters.POSITIVE).doc("""
        Of tukey: rows beyond tuning·σ have weight 0. 4.685 keeps 95 % efficiency under Gaussian
        noise.""")
    n_starts: int = parameters.parameter(200, parameters.COUNT).doc(
        "Of tukey: planes that are tried for the start."
    )
    random_state: Any = common.random_state().doc("Which planes are drawn.")
    verbose: int = common.verbose()
    checkpoint: Any = common.checkpoint()
    time_limit: Any = common.time_limit()

    claims = ROBUST_CLAIMS
    work = staticmethod(cost_of_robust_regression)
    accepts_sparse = True
    stored: ClassVar[dict[str, str | type]] = {
        "coef_": "d",
        "intercept_": "",
        "scale_ weights_": "audited",
        "outliers_": "n bool",
    }
    coef_: Array = parameters.fitted()
    intercept_: Any = parameters.fitted()
    scale_: float = parameters.fitted()

    predict = predict_linear

    def _algorithm(self, data: Blocks) -> Any:
        with np.errstate(over="ignore"):
            squares = float(np.square(data.targets, dtype=np.float64).sum())  # type: ignore[arg-type]
        if np.any(data.targets) and not np.finfo(np.float64).tiny <= squares < np.inf:
            size = "large" if squares > 1 else "small"
            raise ValueError(
                f"y contains numbers too {size} to be squared; divide it by its largest number."
            )
        if self.loss == "absolute":
            if not isinstance(data.source, np.ndarray) and not data.sparse:
                raise ValueError(
                    "loss='absolute' solves a linear programme of all rows; pass an array, or use loss='huber' for streams."
                )
            return LeastAbsoluteAlgorithm(self.fit_intercept)
        before = self._fit_before(data)
        if self.loss == "huber":
            theta = None if before is None else before[0]
            return HuberAlgorithm(
                float(self.epsilon), float(self.alpha), self.fit_intercept, float(self.tol), theta
            )
        return BisquareAlgorithm(
            float(self.tuning), self.fit_intercept, float(self.tol), int(self.n_starts), before
        )

    def _fit_before(self, data: Blocks) -> tuple[Array, float] | None:
        """(w, b) and σ to continue from."""
        if not (self.warm_start and hasattr(self, "coef_") and len(self.coef_) == data.shape[1]):
            return None
        theta = np.append(self.coef_, self.intercept_).astype(np.float64)
        return theta, float(self.scale_)

    def _stop(self):
        return self._within_time(MaxSteps(self.max_iter))

    def _describe_unsettled(self, solution: Solution) -> str:
        return (
            f"{type(self).__name__} reached max_iter={self.max_iter} before it settled to tol={self.tol:.0e}: "
            "raise max_iter, scale the columns, or read certificate_."
        )

    def _attributes(self, solution: Solution, problem: Blocks) -> dict[str, Any]:
        found = solution.attributes
        w, b = found["coef_"], found["intercept_"] if self.fit_intercept else 0.0
        r = np.concatenate(
            [y - rows.astype(np.float64, copy=False) @ w - b for rows, y, _ in problem.triples()]
        )
        scale = found.get("scale_")
        if scale is None:  # of residuals that are rounding, so that none of them is called far
            scale = max(float(median_scale(r, problem.weights)), least_scale(problem))
        far = {"huber": self.epsilon, "tukey": self.tuning, "absolute": FAR}[self.loss] * scale
        size = np.abs(r)
        if self.loss == "tukey":
            weights = bisquare_weights(r, far)
        else:
            reach = far if self.loss == "huber" else scale
            weights = reach / np.maximum(size, reach) if reach > 0 else (size == 0).astype(float)
        dtype = problem.dtype
        return {
            "coef_": w.astype(dtype),
            "intercept_": dtype.type(b) if self.fit_intercept else 0.0,
            "scale_": scale,
            "weights_": weights.astype(dtype),
            "outliers_": size > far,
        }


class HuberRegressor(Regressor):
    """Linear regression with Huber's loss: RobustRegression by the name and the parameters of scikit-learn.

    Minimises Σ s (σ + σ H((y − xᵀw − b)/σ)) + α‖w‖² over w, b and σ, H(z) = z² up to ε and linear beyond.

    Attributes
    ----------
    coef_, intercept_, scale_, weights_, outliers_, n_iter_, certificate_, trace_, stopped_ : as of RobustRegression
    """

    _: parameters.KW_ONLY
    epsilon: float = parameters.as_in(RobustRegression, "epsilon")
    max_iter: int = parameters.as_in(RobustRegression, "max_iter")
    alpha: float = parameters.as_in(RobustRegression, "alpha")
    warm_start: bool = parameters.as_in(RobustRegression, "warm_start")
    fit_intercept: bool = parameters.as_in(RobustRegression, "fit_intercept")
    tol: float = parameters.as_in(RobustRegression, "tol")

    claims = ROBUST_CLAIMS
    work = staticmethod(cost_of_robust_regression)
    accepts_sparse = True
    random_state, verbose, checkpoint, time_limit = None, 0, None, None
    stored: ClassVar[dict[str, str | type]] = RobustRegression.stored
    coef_: Array = parameters.fitted()
    intercept_: Any = parameters.fitted()

    predict = predict_linear

    def _fit_blocks(self, data: Blocks) -> None:
        unsettled: list[str] = []
        ours = fit_as(self, RobustRegression(**self.get_params()), data, unsettled)
        conclude_as(self, ours, data, unsettled)
