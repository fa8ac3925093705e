"""The claims of linear predictors with a penalty: Lasso and elastic net, logistic regression, linear SVM.

Each has near_optimum (near_optimum.py) for its own objective (objectives.py). Lasso's stated `dual_gap_` must not be
smaller than the excess that better weights prove; for a path, every penalty is checked.
"""

from __future__ import annotations

import numpy as np

from lemmata.audit.kernel import claims as k
from lemmata.audit.kernel.attributes import attributes_sound, discrepancy, statements_true
from lemmata.audit.predict.linear import chosen_penalty as chosen
from lemmata.audit.predict.linear import near_optimum as near
from lemmata.audit.predict.linear import objectives
from lemmata.audit.predict.linear.separability import weights_exist

DIGITS = 1e-3
# of the scale of a slope: a path stops by its gap, which forgives more than a last fit
PATH_SLOPE = 1e-3
lasso_optimality = near.optimality_of(objectives.lasso_objective)
path_optimality = near.optimality_of(objectives.path_objective)
path_problem = objectives.problem_of(objectives.path_objective)


def _lasso_statements(fit: k.Fit) -> dict[str, float]:
    stated = fit.get("dual_gap_")
    return {} if stated is None else {"dual_gap_": _too_small(lasso_optimality(fit), stated)}


def _too_small(found: near.Optimality, stated: object) -> float:
    """Measure how wrong a stated gap is, which bounds the distance of the objective from the least.

    It is false where better weights gain more, or where it is negative by more than the rounding of a sum over rows.
    """
    unit = found.risk.unit
    gaps = np.ravel(np.asarray(stated, dtype=np.float64)) / unit / unit
    if gaps.shape != found.certain.shape:
        return np.inf
    if (gaps < -k.rounding(np.float64, terms=len(found.risk.s)) * found.value).any():
        return np.inf
    slack = DIGITS * found.certain + 1e-9 * found.value
    wrong = np.maximum(found.certain - gaps - slack, 0.0)
    return discrepancy(wrong, np.zeros_like(wrong), np.maximum(slack, 1e-300), 1.0)


# --- a whole path -----------------------------------------------------------------------------------------------------


@k.proved(
    f"at every penalty of the path, {near.WITHIN}",
    "Fenchel duality; ML L₁-Regularization",
    needs=(path_optimality,),
)
def path_near_optimum(fit: k.Fit) -> k.Evidence:
    return near.judge(fit, path_optimality(fit))


@k.proved(
    "at every penalty of the path, no column's slope is off by more than 0.1 % of its scale",
    "Karush, Kuhn & Tucker",
    needs=(path_problem,),
    cost=near.slope_cost,
)
def path_first_order(fit: k.Fit) -> k.Evidence:
    risk, at = path_problem(fit)
    return near.judge_slopes(fit, risk, at, PATH_SLOPE)


def _path_statements(fit: k.Fit) -> dict[str, float]:
    stated = fit.get("dual_gaps_")
    found = {} if stated is None else {"dual_gaps_": _too_small(path_optimality(fit), stated)}
    if np.ndim(fit.get("alphas", 100)) == 0:
        found["alphas_"] = _first_penalty(fit)
    return found


def _first_penalty(fit: k.Fit) -> float:
    """A grid that was not given begins where the first weight enters: at the largest |xⱼᵀu|/pⱼ of a constant prediction."""
    risk, _ = path_problem(fit)
    if not (risk.l1[:, :1] > 0).all():
        return 0.0
    first = risk.output(0)
    V = risk.rows.adjoint(first.slopes(first.null_scores))
    size = np.maximum(-V, 0.0) if risk.positive else np.abs(V)
    share = float((size / risk.l1[:, :1]).max())  # what the first penalty has to be multiplied by
    return abs(share - 1) / 1e-3 if share > 1e-6 else 0.0  # a constant target has no first penalty


def _chosen_statements(fit: k.Fit) -> dict[str, float | None]:
    return {**_lasso_statements(fit), **chosen.path_statements(fit)}


LASSO_TRUE = statements_true(_lasso_statements, needs=(lasso_optimality,))
LASSO_CLAIMS = (near.SOUND, LASSO_TRUE, *near.claims_about(objectives.lasso_objective)[2:4])
CHOSEN_TRUE = statements_true(_chosen_statements, needs=(lasso_optimality,))
CHOICE = (chosen.alpha_best, chosen.alpha_inside)
LASSO_CV_CLAIMS = (chosen.SOUND, CHOSEN_TRUE, *LASSO_CLAIMS[2:], *CHOICE)
PATH = {"alphas_": "k >=0 falling", "coefs_": "d k", "intercepts_": "k", "dual_gaps_?": "k >=0"}
PATH_TRUE = statements_true(_path_statements, needs=(path_optimality,))
LASSO_PATH_CLAIMS = (attributes_sound(PATH), PATH_TRUE, path_near_optimum, path_first_order)
LOGISTIC_CLAIMS = (*near.claims_about(objectives.logistic_objective), weights_exist)
LINEAR_SVC_CLAIMS = near.claims_about(objectives.linear_svc_objective)
SCORES_TRUE = statements_true(chosen.score_statements, cost=k.free)
LOGISTIC_CV_CLAIMS = (chosen.SOUND, SCORES_TRUE, *LOGISTIC_CLAIMS[2:])
SGD_CLAIMS = (near.SOUND, near.nothing_stated, near.near_optimum(objectives.sgd_objective))
RISK_CLAIMS = LOGISTIC_CLAIMS[:3]  # of an objective that an adapter names
