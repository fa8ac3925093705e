"""The claims of linear predictors with a penalty: Lasso and elastic net, logistic regression, linear SVM, robust regression.

Each has near_optimum (near_optimum.py) for its own objective (objectives.py). Lasso's stated `dual_gap_` must not be
smaller than the excess that better weights prove; of a path, every penalty is looked at.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from lemmata.audit.kernel.attributes import attributes_sound, discrepancy, statements_true
from lemmata.audit.kernel.claims import PROVED, Evidence, Fit, claim, rounding
from lemmata.audit.predict.linear.chosen_penalty import (
    alpha_best,
    alpha_inside,
    chosen_problems,
    path_statements,
)
from lemmata.audit.predict.linear.near_optimum import (
    SHAPES,
    SOUND,
    WITHIN,
    Optimality,
    first_order_point,
    judge,
    judge_slopes,
    near_optimum,
    nothing_stated,
    optimality_of,
    shape_problems,
    slope_cost,
)
from lemmata.audit.predict.linear.objectives import (
    lasso_words,
    linear_svc_words,
    logistic_words,
    path_words,
    problem_of,
)
from lemmata.audit.predict.linear.representer import representer
from lemmata.audit.predict.linear.robust import ROBUST_CLAIMS
from lemmata.audit.predict.linear.separability import weights_exist

__all__ = [
    "LASSO_CLAIMS", "LASSO_CV_CLAIMS", "LASSO_PATH_CLAIMS", "LINEAR_SVC_CLAIMS", "LOGISTIC_CLAIMS", "RISK_CLAIMS",
    "ROBUST_CLAIMS",
]  # fmt: skip
Array = np.ndarray
DIGITS = 1e-3
# of the scale of a slope: a path stops by its gap, which forgives more than a last fit
PATH_SLOPE = 1e-3
lasso_optimality, path_optimality = optimality_of(lasso_words), optimality_of(path_words)
path_problem = problem_of(path_words)


def _lasso_statements(fit: Fit) -> dict[str, float]:
    stated = fit.get("dual_gap_")
    return {} if stated is None else {"dual_gap_": _too_small(lasso_optimality(fit), stated)}


def _too_small(found: Optimality, stated: object) -> float:
    """A stated gap bounds how far the objective is from the least: false where better weights gain more, or where it is
    negative by more than the rounding of a sum over rows.
    """
    unit = found.risk.unit
    gaps = np.ravel(np.asarray(stated, dtype=np.float64)) / unit / unit
    if gaps.shape != found.certain.shape:
        return np.inf
    if (gaps < -rounding(np.float64, terms=len(found.risk.s)) * found.value).any():
        return np.inf
    slack = DIGITS * found.certain + 1e-9 * found.value
    wrong = np.maximum(found.certain - gaps - slack, 0.0)
    return discrepancy(wrong, np.zeros_like(wrong), np.maximum(slack, 1e-300), 1.0)


# --- a whole path -----------------------------------------------------------------------------------------------------


@claim(
    f"at every penalty of the path, {WITHIN}",
    kind=PROVED,
    source="Fenchel duality; ML Lasso",
    needs=(path_optimality,),
)
def path_near_optimum(fit: Fit) -> Evidence:
    return judge(fit, path_optimality(fit))


@claim(
    "at every penalty of the path, no column's slope is off by more than 0.1 % of its scale",
    kind=PROVED,
    source="Karush, Kuhn & Tucker",
    needs=(path_problem,),
    cost=slope_cost,
)
def path_first_order(fit: Fit) -> Evidence:
    risk, at = path_problem(fit)
    return judge_slopes(fit, risk, at, PATH_SLOPE)


def _path_statements(fit: Fit) -> dict[str, float]:
    stated = fit.get("dual_gaps_")
    found = {} if stated is None else {"dual_gaps_": _too_small(path_optimality(fit), stated)}
    if np.ndim(fit.get("alphas", 100)) == 0:
        found["alphas_"] = _first_penalty(fit)
    return found


def _first_penalty(fit: Fit) -> float:
    """A grid that was not given begins where the first weight enters: at the largest |xⱼᵀu|/pⱼ of a constant prediction."""
    risk, _ = path_problem(fit)
    if not (risk.l1[:, :1] > 0).all():
        return 0.0
    first = risk.output(0)
    V = risk.rows.adjoint(first.slopes(first.null_scores))
    size = np.maximum(-V, 0.0) if risk.positive else np.abs(V)
    share = float((size / risk.l1[:, :1]).max())  # what the first penalty has to be multiplied by
    return abs(share - 1) / 1e-3 if share > 1e-6 else 0.0  # a constant target has no first penalty


PATH = {
    "alphas_": "k | >= 0, falling",
    "coefs_": "d k",
    "intercepts_": "k",
    "dual_gaps_?": "k | >= 0",
}

LASSO_CLAIMS = (
    SOUND, statements_true(_lasso_statements, needs=(lasso_optimality,)), near_optimum(lasso_words),
    first_order_point(lasso_words),
)  # fmt: skip


def _chosen(fit: Fit) -> Iterator[str]:
    yield from shape_problems(fit)
    yield from chosen_problems(fit)


LASSO_CV_CLAIMS = (
    attributes_sound(SHAPES, _chosen),
    statements_true(
        lambda fit: {**_lasso_statements(fit), **path_statements(fit)}, needs=(lasso_optimality,)
    ),
    *LASSO_CLAIMS[2:],
    alpha_best,
    alpha_inside,
)
LASSO_PATH_CLAIMS = (
    attributes_sound(PATH),
    statements_true(_path_statements, needs=(path_optimality,)),
    path_near_optimum,
    path_first_order,
)
LOGISTIC_CLAIMS = (
    SOUND, nothing_stated, near_optimum(logistic_words), first_order_point(logistic_words), representer(logistic_words),
    weights_exist,
)  # fmt: skip
LINEAR_SVC_CLAIMS = (
    SOUND, nothing_stated, near_optimum(linear_svc_words), first_order_point(linear_svc_words),
    representer(linear_svc_words),
)  # fmt: skip
RISK_CLAIMS = (
    SOUND,
    nothing_stated,
    near_optimum(logistic_words),
)  # of an objective that an adapter names
