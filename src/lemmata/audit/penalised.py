"""What is claimed of linear predictors with a penalty: Lasso and elastic net, logistic regression, linear SVM, robust regression.

The main claim is *near_optimum*: the objective that the fit set out to minimise is within 0.1 % of the least possible. It is decided
from two sides: a dual point shows that no weights are better by more (risk_gaps.py), other weights show that some are
(risk_search.py). Where neither does, the claim can't tell and says what is known.

Where the least objective is below a thousandth of what a constant prediction has, that thousandth is what the 0.1 % are of:
beyond it, the explained share of the loss (R²) is right to six digits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from lemmata.audit.attributes import attributes_sound, discrepancy, statements_true
from lemmata.audit.linear_objectives import (
    described,
    lasso_words,
    linear_svc_words,
    logistic_words,
    problem_of,
)
from lemmata.audit.risk_gaps import Gap, gap_at, null_value
from lemmata.core.certificate import PROVED, Evidence, Fit, Statement, at_most, claim

Array = np.ndarray
NEAR = 1e-3  # of the least objective
LEAST = 1e-3  # of the objective of a constant prediction: what the least objective counts at least
DIGITS = 1e-3


def gap_cost(fit: Fit) -> float:
    """Three passes: scores, Xᵀu and column sizes, for every output; and some thirty operations on every score."""
    m = len(np.atleast_2d(fit.coef_))
    return float(fit.data.size) * (2 * m + 2) + 60.0 * fit.data.shape[0] * m


def near_optimum(words: Callable[[Fit], object]) -> Statement:
    """The claim that the objective is within 0.1 % of the least possible."""

    @claim(
        "the objective is within 0.1 % of the least possible",
        kind=PROVED,
        source="Fenchel duality; ML Lasso",
        cost=gap_cost,
    )
    def near_optimum(fit: Fit) -> Evidence:
        risk, at = problem_of(described(fit, words))
        found = gap_of(fit)
        scale = np.maximum(found.least, LEAST * null_value(risk))
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(found.gap > 0, found.gap / scale, 0.0)
        worst = int(np.argmax(share))
        advice = "raise max_iter or lower tol; scale the columns if that does not help"
        return at_most(float(share[worst]), NEAR, advice, unit="gap / least")

    return near_optimum


def gap_of(fit: Fit) -> Gap:
    if "gap" not in fit.memory:
        fit.memory["gap"] = gap_at(*problem_of(fit))
    return fit.memory["gap"]


# --- attributes and statements ----------------------------------------------------------------------------------------


def _shapes(fit: Fit) -> Iterator[str]:
    coef, intercept = np.asarray(fit.coef_), np.asarray(fit.intercept_)
    for name, x in (("coef_", coef), ("intercept_", intercept)):
        if x.dtype.kind not in "fiub":
            yield f"{name} holds {x.dtype}, not numbers"
            return
        if not np.isfinite(x).all():
            yield f"{name} has {int((~np.isfinite(x)).sum())} numbers that are not finite"
    if coef.ndim not in (1, 2):
        yield f"coef_ has shape {coef.shape}, not (d) or (m, d)"
        return
    if fit.has_data and coef.shape[-1] != fit.data.shape[1]:
        yield f"coef_ has shape {coef.shape}, but d = {fit.data.shape[1]}"
    outputs = 1 if coef.ndim == 1 else len(coef)
    if intercept.size not in (1, outputs):
        yield f"intercept_ has shape {intercept.shape}, but there are {outputs} rows of weights"
    if fit.has("classes_") and outputs != (1 if len(fit.classes_) == 2 else len(fit.classes_)):
        yield f"coef_ has {outputs} rows for {len(fit.classes_)} classes"
    if fit.get("positive", False) and coef.size and coef.min() < 0:
        yield "coef_ should be >= 0"


SOUND = attributes_sound({}, _shapes)


def _lasso_statements(fit: Fit) -> dict[str, float]:
    """The stated dual gap bounds how far the objective is from the least, in the units of the objective."""
    stated = fit.get("dual_gap_")
    if stated is None:
        return {}
    risk, _ = problem_of(described(fit, lasso_words))
    unit = risk.memory["unit"]
    stated = np.ravel(np.asarray(stated, dtype=np.float64)) / unit / unit
    found = gap_of(fit)
    # a stated gap is true if it is not smaller than the loss of objective that is certain
    certain = np.maximum(certain_loss(fit), 0.0)
    slack = DIGITS * found.gap + 1e-10 * found.value
    wrong = np.maximum(certain - stated - slack, 0.0)
    return {"dual_gap_": discrepancy(wrong, np.zeros_like(wrong), np.maximum(slack, 1e-300), 1.0)}


def certain_loss(fit: Fit) -> Array:
    return np.zeros(1)


def _nothing(fit: Fit) -> dict[str, float]:
    return {}


LASSO_CLAIMS = (SOUND, statements_true(_lasso_statements, cost=gap_cost), near_optimum(lasso_words))
LASSO_PATH_CLAIMS = LASSO_CLAIMS
LOGISTIC_CLAIMS = (SOUND, statements_true(_nothing), near_optimum(logistic_words))
LINEAR_SVC_CLAIMS = (SOUND, statements_true(_nothing), near_optimum(linear_svc_words))
ROBUST_CLAIMS = (SOUND, statements_true(_nothing))
