"""Adapters of other libraries' linear predictors: what they minimised, and their weights in scikit-learn's shapes.

Each adapter gives the `objective` (objectives.py) and the claims that can be checked on this fit, or refuses a fit whose
objective it does not know. Measured on fits that had converged: the gap of each vanishes for the objective named here.

    scikit-learn   Lasso, ElasticNet: Σ sr²/2Σs + …          Ridge: ½ Σ sr² + ½α‖w‖²         LogisticRegression: C Σ sℓ + …
                   liblinear (LinearSVC, LogisticRegression) penalises the intercept, the weight of a column `intercept_scaling`
                   SGDClassifier: Σ sℓ/n + α(ρ‖w‖₁ + ½(1 − ρ)‖w‖²), the intercept free; the rest has no class weight
    statsmodels    OLS and Logit: no penalty, the constant is a column of exog like any other
    celer, skglm   Lasso: Σ r²/2n + α Σ pⱼ|wⱼ|, p = `weights`
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.exceptions import NotFittedError

from lemmata.audit.predict.linear.least_squares import LEAST_SQUARES_CLAIMS
from lemmata.audit.predict.linear.objectives import LinearObjective
from lemmata.audit.predict.linear.penalised import LOGISTIC_CLAIMS, RISK_CLAIMS

Found = dict[str, Any]


def least_squares_of(model: Any) -> Found:
    """LinearRegression of scikit-learn, or the results of statsmodels' OLS."""
    return _from_ols(model) if _library(model) == "statsmodels" else {}


def ridge_of(model: Any) -> Found:
    """Ridge and RidgeCV of scikit-learn. Without a penalty it is least squares."""
    alpha = np.asarray(getattr(model, "alpha_", model.alpha if hasattr(model, "alpha") else 1.0))
    return {"claims": LEAST_SQUARES_CLAIMS} if not alpha.any() else {}


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


# --- one library at a time --------------------------------------------------------------------------------------------


def _library(model: Any) -> str:
    return type(model).__module__.split(".")[0]


def _intercept(model: Any) -> str:
    return "free" if getattr(model, "fit_intercept", True) else "none"


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
    claims = LOGISTIC_CLAIMS if bare else RISK_CLAIMS
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
    return {**_exog(results), "row_weights_": weights, "claims": LEAST_SQUARES_CLAIMS}


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
        "claims": LOGISTIC_CLAIMS,
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
