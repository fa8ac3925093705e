"""The objective that a linear predictor was fitted to, from its public parameters, and its weights as one `Point`.

    objective_of(fit, lasso_objective)  ->  LinearObjective(loss="squared", l1=α, mean="weight")
    problem_of(lasso_objective)(fit)    ->  (Risk, Point): that objective on these rows, and the weights of the fit

Parameters are read as scikit-learn means them; adapters (below) say what other libraries minimised:

    Ridge, LinearRegression      ½ Σ sᵢ rᵢ² + ½ α‖w‖²
    Lasso, ElasticNet            Σ sᵢ rᵢ² / 2Σs + α Σⱼ pⱼ (ρ|wⱼ| + ½(1 − ρ) wⱼ²)
    LogisticRegression           C Σ sᵢ ℓᵢ + ρ‖w‖₁ + ½(1 − ρ)‖w‖²                 (liblinear: the intercept is penalised too)
    LinearSVC                    C Σ sᵢ ℓᵢ + ½‖w‖² + ½(b/c)²,  or ‖w‖₁ + |b/c|           (one problem per class)
    SGDClassifier                Σ sᵢ ℓᵢ/n + α(ρ‖w‖₁ + ½(1 − ρ)‖w‖²)                     (the rest has no class weight)
    OLS, Logit (statsmodels)     no penalty; the constant is a column of exog like any other
    Lasso (celer, skglm)         Σ rᵢ²/2n + α Σⱼ pⱼ|wⱼ|,  p = `weights`

Measured on fits that had converged: the gap of each vanishes for the objective named here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
from sklearn.exceptions import NotFittedError

from lemmata.audit.kernel.claims import PRODUCTS, Fact, Fit, fact
from lemmata.audit.kernel.duality_gap import DesignRows, Point, Risk, point
from lemmata.audit.kernel.losses import SoftmaxLoss, loss_named
from lemmata.audit.predict.class_weights import class_factors

Array = np.ndarray
PLAIN = 1e60  # beyond it (or below its inverse) numbers are scaled before anything is squared


@dataclass(frozen=True)
class LinearObjective:
    """A penalised risk: the loss by its name, penalties, what divides the sum, whether the intercept is penalised."""

    loss: str
    l1: Any = 0.0  # a number, or one per column, or (columns, outputs)
    l2: Any = 0.0
    C: float = 1.0  # times the sum of losses
    mean: str = ""  # what that sum is divided by: "" (nothing), "weight" (Σs) or "rows" (n)
    # "free", "none", or "penalised", as one more weight of a column of `constant`
    intercept: str = "free"
    constant: float = 1.0
    positive: bool = False
    class_weight: Any = None
    balanced_by_weight: bool = True  # whether "balanced" counts rows by their weights
    # one-vs-rest: whether only the class itself gets its class weight
    rest_weighs_one: bool = False
    epsilon: float = math.nan  # of Huber's loss
    outputs: tuple[str, ...] = ()  # the names of several fits of one target: a path


Reader = Callable[[Fit], LinearObjective]  # reads the parameters of one family of models


def objective_of(fit: Fit, read: Reader) -> LinearObjective:
    """Return what a fit minimised: as an adapter says, or as its parameters read."""
    return fit.objective if fit.has("objective") else read(fit)


def coefficients(fit: Fit) -> tuple[Array, Array]:
    """coef_, with a row per output where there are several, and intercept_; of a path, an output per penalty."""
    if fit.has("coef_"):
        return np.asarray(fit.coef_), np.asarray(fit.intercept_)
    return np.asarray(fit.coefs_).T, np.ravel(fit.intercepts_)


def outputs(fit: Fit) -> int:
    return len(np.atleast_2d(coefficients(fit)[0]))


def cost_of_scores(fit: Fit) -> float:
    """One pass over the rows, a product with every output, and another pass over the rows or the scores."""
    return float(fit.data.size) * (2 + outputs(fit) / PRODUCTS)


@cache
def problem_of(read: Reader) -> Fact:
    """The fact: the objective of a fit on its data as a Risk, and its weights as a Point."""

    @fact(cost=lambda fit: cost_of_scores(fit))
    def problem(fit: Fit) -> tuple[Risk, Point]:
        return make_problem(fit, objective_of(fit, read))

    return problem


def make_problem(fit: Fit, objective: LinearObjective) -> tuple[Risk, Point]:
    coef, intercept = (np.asarray(x, dtype=np.float64) for x in coefficients(fit))
    W = np.atleast_2d(coef).T.copy()
    b = np.zeros(W.shape[1]) + np.ravel(intercept)
    constant = objective.constant if objective.intercept == "penalised" else None
    y, s, loss, names = _targets(fit, objective, W.shape[1])
    l1, l2 = (_per_column(x, W.shape) for x in (objective.l1, objective.l2))
    scale, unit = _scale(fit), 1.0
    if loss.name == "squared" and y.dtype.kind == "f":
        unit = _unit(np.abs(y).max(initial=0.0))
    y = y / unit if unit != 1.0 else y
    of_constant = l1[-1:] / unit, l2[-1:]  # its column is not divided by anything
    if scale != 1.0 or unit != 1.0:
        W, b = W * scale / unit, b / unit
        l1, l2 = l1 / scale / unit, l2 / scale / scale
    if constant is not None:
        W = np.vstack([W, b / constant])
        l1, l2 = (np.vstack(pair) for pair in zip((l1, l2), of_constant, strict=True))
        b = np.zeros_like(b)
    rows, free = DesignRows(fit.data, constant, scale), objective.intercept == "free"
    risk = Risk(rows, y, s, loss, l1, l2, free, objective.positive, names, W.shape[1], unit)
    return risk, point(risk, W, b)


def _per_column(x: Any, shape: tuple[int, ...]) -> Array:
    """A penalty as (columns, 1) or (columns, outputs)."""
    x = np.asarray(x, dtype=np.float64)
    if x.ndim == 2:
        return np.array(np.broadcast_to(x, shape))
    return np.array(np.broadcast_to(x.reshape(-1, 1), (shape[0], 1)))


def _scale(fit: Fit) -> float:
    parts = (rows.data if hasattr(rows, "tocsr") else rows for rows, _ in fit.data)
    return _unit(max((float(np.abs(part).max(initial=0.0)) for part in parts), default=0.0))


def _unit(largest: float) -> float:
    """1, or the power of two nearest to numbers whose squares would overflow or vanish."""
    if largest == 0 or 1 / PLAIN <= largest <= PLAIN:
        return 1.0
    return math.ldexp(1.0, math.frexp(largest)[1])


Targets = tuple[Array, Array, Any, tuple[str, ...]]  # y, s, the loss, the names of the outputs


def _targets(fit: Fit, objective: LinearObjective, outputs: int) -> Targets:
    """Targets (n, m), weights (n, m) or (n, 1), the loss, and the names of the outputs."""
    n = fit.data.shape[0]
    own = fit.get("row_weights_") if fit.weights is None else fit.weights  # what an adapter found
    weights = np.ones(n) if own is None else np.asarray(own, dtype=np.float64)
    if weights.shape != (n,):
        raise ValueError(f"the fit knows {len(weights):,} rows and their weights; these are {n:,}.")
    y = np.asarray(fit.y)
    if fit.has("classes_"):
        return _classes(fit, objective, outputs, y, weights)
    numbers = {} if math.isnan(objective.epsilon) else {"epsilon": objective.epsilon}
    s = _shares(objective, weights, weights)[:, None]
    y = y.astype(np.float64).reshape(n, -1)
    if objective.outputs:  # one target, and a fit of it for each of several penalties
        y = np.tile(y, (1, len(objective.outputs)))
    return y, s, loss_named(objective.loss, **numbers), objective.outputs


def _shares(objective: LinearObjective, s: Array, weights: Array) -> Array:
    if objective.mean == "weight":
        return objective.C * (s / weights.sum())
    return objective.C * (s / len(s)) if objective.mean == "rows" else objective.C * s


def _classes(
    fit: Fit, objective: LinearObjective, outputs: int, y: Array, weights: Array
) -> Targets:
    labels, factors = np.asarray(fit.classes_).tolist(), np.ones(len(fit.classes_))
    if objective.class_weight is not None:
        counted = weights if objective.balanced_by_weight else None
        factors = class_factors(objective.class_weight, labels, y, counted)
    s = factors[y] * weights
    if outputs == 1:
        signs = np.where(y == 1, 1.0, -1.0)[:, None]
        return signs, _shares(objective, s, weights)[:, None], loss_named(objective.loss), ()
    if objective.loss == "softmax":
        return y, _shares(objective, s, weights)[:, None], SoftmaxLoss(), ()
    own = y[:, None] == np.arange(len(labels))
    signs, names = np.where(own, 1.0, -1.0), tuple(f"class {label}" for label in labels)
    s = np.where(own, factors, 1.0) * weights[:, None] if objective.rest_weighs_one else s[:, None]
    return signs, _shares(objective, s, weights), loss_named(objective.loss), names


# --- the objective of each family -------------------------------------------------------------------------------------


def _intercept(fit: Any) -> str:
    """Whether a fit, or a model of another library, has an intercept: "free" or "none"."""
    return "free" if getattr(fit, "fit_intercept", True) else "none"


def least_squares_objective(fit: Fit, **penalty: Any) -> LinearObjective:
    positive = bool(fit.get("positive", False))
    return LinearObjective("squared", intercept=_intercept(fit), positive=positive, **penalty)


def ridge_objective(fit: Fit) -> LinearObjective:
    """α, or one per output: λ₂ of (columns, outputs)."""
    alpha = np.asarray(fit.get("alpha_", fit.get("alpha")), dtype=np.float64)
    l2 = float(alpha) if alpha.size == 1 else np.tile(alpha, (np.shape(fit.coef_)[-1], 1))
    # of RidgeClassifier, whose targets are ±1
    weights = {"class_weight": fit.get("class_weight"), "balanced_by_weight": False}
    return least_squares_objective(fit, l2=l2, **weights)


def _factors(fit: Fit) -> Any:
    """p: a factor of the penalty for each column, or 1."""
    factors = fit.get("penalty_factor")
    return 1.0 if factors is None else np.asarray(factors, dtype=np.float64)


def lasso_objective(fit: Fit) -> LinearObjective:
    alpha = fit.get("alpha_", fit.get("alpha"))
    ratio, p = fit.get("l1_ratio_", fit.get("l1_ratio", 1.0)), _factors(fit)
    l1, l2 = alpha * ratio * p, alpha * (1 - ratio) * p
    return least_squares_objective(fit, l1=l1, l2=l2, mean="weight")


def path_objective(fit: Fit) -> LinearObjective:
    """Every penalty of a path as one more output."""
    alphas, ratio = np.ravel(fit.alphas_).astype(np.float64), float(fit.get("l1_ratio", 1.0))
    p = np.ones(len(fit.coefs_)) * _factors(fit)
    l1, l2 = (np.multiply.outer(p, alphas * share) for share in (ratio, 1 - ratio))
    names = tuple(f"alpha={alpha:.3g}" for alpha in alphas)
    return least_squares_objective(fit, l1=l1, l2=l2, mean="weight", outputs=names)


def logistic_objective(fit: Fit) -> LinearObjective:
    """scikit-learn's `penalty` is going: None means C = ∞, "l1" and "l2" a ratio of 1 and 0."""
    penalty, chosen = fit.get("penalty", "deprecated"), fit.get("C_")  # LogisticRegressionCV
    C = float(fit.C if chosen is None else np.ravel(chosen)[0])
    ratio = np.ravel(fit.get("l1_ratio_", fit.get("l1_ratio")))[0] or 0.0
    ratio = {"l1": 1.0, "l2": 0.0}.get(penalty, ratio)
    if penalty is None or penalty == "none" or math.isinf(C):
        l1, l2, C = 0.0, 0.0, 1.0
    else:
        l1, l2 = ratio, 1.0 - ratio
    loss = "logistic" if outputs(fit) == 1 else "softmax"
    return _of_classes(fit, loss, l1, l2, C, fit.get("solver") == "liblinear")


def sgd_objective(fit: Fit) -> LinearObjective:
    return _from_sgd(fit)["objective"]


def linear_svc_objective(fit: Fit) -> LinearObjective:
    l1 = float(fit.get("penalty", "l2") == "l1")
    loss, penalised = fit.get("loss", "squared_hinge"), fit.get("penalise_intercept", True)
    objective = _of_classes(fit, loss, l1, 1.0 - l1, float(fit.C), penalised)
    return replace(objective, rest_weighs_one=True)


def _of_classes(
    fit: Fit, loss: str, l1: float, l2: float, C: float, penalised: bool
) -> LinearObjective:
    intercept, constant = _intercept(fit), float(fit.get("intercept_scaling", 1.0))
    if intercept == "free" and penalised:
        intercept = "penalised"
    weights = fit.get("class_weight")
    return LinearObjective(
        loss, l1, l2, C, intercept=intercept, constant=constant, class_weight=weights
    )


# --- fits of other libraries ------------------------------------------------------------------------------------------

# attributes by name, the `objective`, and the claims that can be checked, as the registry names them
Found = dict[str, Any]
LEAST_SQUARES = "audit.predict.linear.least_squares:LEAST_SQUARES_CLAIMS"
LOGISTIC = "audit.predict.linear.penalised:LOGISTIC_CLAIMS"
RISK = "audit.predict.linear.penalised:RISK_CLAIMS"


def least_squares_of(model: Any) -> Found:
    """LinearRegression of scikit-learn, or the results of statsmodels' OLS."""
    return _from_ols(model) if _library(model) == "statsmodels" else {}


def ridge_of(model: Any) -> Found:
    """Ridge and RidgeCV of scikit-learn. Without a penalty it is least squares."""
    alpha = np.asarray(getattr(model, "alpha_", model.alpha if hasattr(model, "alpha") else 1.0))
    return {"claims": LEAST_SQUARES} if not alpha.any() else {}


def lasso_of(model: Any) -> Found:
    """Lasso, ElasticNet and their CV classes of scikit-learn, Lasso and ElasticNet of celer and skglm."""
    name = type(model).__name__
    found: Found = {}
    if name in ("Lasso", "LassoCV"):
        found["l1_ratio"] = 1.0
        if hasattr(model, "l1_ratio_"):
            found["l1_ratio_"] = 1.0
    if _library(model) in ("celer", "skglm"):
        found["penalty_factor"] = getattr(model, "weights", None)
    if not hasattr(model, "coef_"):
        raise NotFittedError(f"this {name} is not fitted yet; call its fit(X, y) first.")
    return found


def logistic_of(model: Any) -> Found:
    """LogisticRegression of scikit-learn (all solvers), SGDClassifier (any loss), statsmodels' Logit, sparse ones of skglm."""
    name = type(model).__name__
    if name == "SGDClassifier":
        return _from_sgd(model)
    if _library(model) == "statsmodels":
        return _from_logit(model)
    if name == "SparseLogisticRegression":
        l1 = float(model.alpha) * float(getattr(model, "l1_ratio", 1.0))
        l2, intercept = float(model.alpha) - l1, _intercept(model)
        return {"objective": LinearObjective("logistic", l1, l2, mean="rows", intercept=intercept)}
    if getattr(model, "multi_class", "auto") == "ovr" and len(model.classes_) > 2:
        raise ValueError(
            "a LogisticRegression with multi_class='ovr' has no single objective; certify the binary fits one by one."
        )
    return {}


def linear_svc_of(model: Any) -> Found:
    """LinearSVC of scikit-learn: LIBLINEAR's objective."""
    if getattr(model, "multi_class", "ovr") == "crammer_singer":
        raise ValueError(
            "LinearSVC(multi_class='crammer_singer') minimises another objective than the claims speak of; they know 'ovr'."
        )
    return {"penalise_intercept": True}


def robust_of(model: Any) -> Found:
    """HuberRegressor of scikit-learn: scale and weights are fitted together."""
    return {"loss": "huber", "weights_": None}


def _library(model: Any) -> str:
    return type(model).__module__.split(".")[0]


def _from_sgd(model: Any) -> Found:
    """The classes of losses decide which claims: the logistic one asks whether weights exist."""
    penalty, alpha = model.penalty, float(model.alpha)
    ratio = {"l1": 1.0, "l2": 0.0, "elasticnet": float(model.l1_ratio)}.get(penalty, 0.0)
    alpha = 0.0 if penalty is None else alpha
    if model.loss in ("epsilon_insensitive", "squared_epsilon_insensitive", "huber"):
        raise ValueError(
            f"SGDClassifier(loss={model.loss!r}) regresses on ±1; the claims know losses of margins and 'squared_error'."
        )
    if model.loss == "perceptron":
        raise ValueError(
            "the perceptron's loss is least at w = 0, which separates nothing: there is no best fit to be near to."
        )
    objective = LinearObjective(
        model.loss, l1=alpha * ratio, l2=alpha * (1 - ratio), mean="rows", intercept=_intercept(model),
        class_weight=model.class_weight, balanced_by_weight=False, rest_weighs_one=True,
    )  # fmt: skip
    bare = alpha == 0 and model.loss == "log_loss" and len(model.classes_) == 2
    claims = LOGISTIC if bare else RISK
    return {"objective": objective, "claims": claims, "loss": model.loss}


def _from_ols(results: Any) -> Found:
    kind = type(results.model).__name__
    if kind not in ("OLS", "WLS"):
        raise ValueError(
            f"these are results of statsmodels' {kind}; the claims about least squares speak of OLS and WLS."
        )
    if "Regularized" in type(getattr(results, "_results", results)).__name__:
        raise ValueError("a regularised fit of statsmodels does not state its penalty; refit with Ridge or Lasso.")  # fmt: skip
    weights = np.asarray(results.model.weights, dtype=np.float64) if kind == "WLS" else None
    return {**_exog(results), "row_weights_": weights, "claims": LEAST_SQUARES}


def _from_logit(results: Any) -> Found:
    kind = type(results.model).__name__
    if kind != "Logit":
        raise ValueError(f"these are results of statsmodels' {kind}; the claims about classes know Logit.")  # fmt: skip
    if "L1" in type(getattr(results, "_results", results)).__name__:
        raise ValueError(
            "Logit.fit_regularized does not state its penalty; refit with LogisticRegression(l1_ratio=1)."
        )
    found = _exog(results)
    return {
        **found,
        "coef_": found["coef_"][None, :],
        "intercept_": np.zeros(1),
        "classes_": np.array([0.0, 1.0]),
        "objective": LinearObjective("logistic", intercept="none"),
        "claims": LOGISTIC,
    }


def _exog(results: Any) -> Found:
    weights = np.asarray(results.params, dtype=np.float64)
    names = getattr(results.model, "exog_names", None)
    found: Found = {
        "coef_": weights, "intercept_": 0.0, "fit_intercept": False, "n_features_in_": len(weights), "positive": False,
    }  # fmt: skip
    if names is not None and len(names) == len(weights):
        found["names_"] = np.asarray(names, dtype=object)
    return found
