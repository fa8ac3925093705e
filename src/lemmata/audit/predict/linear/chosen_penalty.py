"""What is claimed of a penalty that cross-validation chose: it is the best of those tried, with others on both sides.

Claims read `alpha_` and what the fit states of its path: `alphas_` (or the parameter `alphas`) and `mse_path_` of the folds.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from lemmata.audit.kernel.attributes import discrepancy
from lemmata.audit.kernel.claims import (
    PROVED,
    RULE_OF_THUMB,
    Evidence,
    Fit,
    at_least,
    at_most,
    claim,
    unknown,
)
from lemmata.audit.kernel.duality_gap import Risk
from lemmata.audit.predict.linear.objectives import problem_of, ridge_words

Array = np.ndarray
SAME = 1e-6  # relative: two penalties that are one, in float32 too
LARGEST = 2**23  # numbers of a table that is decomposed


def _grid(fit: Fit) -> Array:
    """The penalties tried, falling; of the chosen l1_ratio where there are several."""
    alphas = fit.get("alphas_")
    if alphas is None:
        alphas = fit.get("alphas")
    alphas = np.asarray(alphas, dtype=np.float64)
    if alphas.ndim == 2:
        alphas = alphas[_ratio(fit)]
    return -np.sort(-np.ravel(alphas))


def _ratio(fit: Fit) -> int:
    """The place of the chosen l1_ratio."""
    ratios = np.ravel(np.asarray(fit.l1_ratio, dtype=np.float64))
    return int(np.argmin(np.abs(ratios - float(fit.l1_ratio_))))


def _place(grid: Array, alpha: float) -> int:
    near = np.abs(grid - alpha) <= SAME * np.maximum(np.abs(grid), abs(alpha))
    return int(np.argmax(near)) if near.any() else -1


# --- attributes and statements ----------------------------------------------------------------------------------------


def chosen_problems(fit: Fit) -> Iterator[str]:
    """What cannot be so of a chosen penalty and of a path, whatever the data is."""
    for name in ("alpha_", "alpha_min_", "alpha_1se_", "l1_ratio_", "alphas_", "mse_path_"):
        value = fit.get(name)
        if value is None:
            continue
        x = np.asarray(value, dtype=np.float64)
        if not np.isfinite(x).all():
            yield f"{name} has numbers that are not finite"
        elif x.size and x.min() < 0:
            yield f"{name} should be >= 0"
    for name in ("best_score_", "scores_"):
        value = fit.get(name)
        if value is not None and not np.isfinite(np.asarray(value, dtype=np.float64)).all():
            yield f"{name} has numbers that are not finite"


def path_statements(fit: Fit) -> dict[str, float]:
    """alpha_, alpha_min_ and alpha_1se_ as the stated path has them."""
    found: dict[str, float] = {}
    path = fit.get("mse_path_")
    if path is None:
        return found
    means, errors, alphas = _means(fit)
    best = int(np.argmin(means))
    true = {"alpha_min_": alphas[best]}
    good = np.flatnonzero(means <= means[best] + errors[best])
    true["alpha_1se_"] = alphas[good].max()
    true["alpha_"] = true["alpha_1se_" if fit.get("rule", "min") == "1se" else "alpha_min_"]
    for name, value in true.items():
        stated = fit.get(name)
        if stated is not None and (name != "alpha_" or _place(alphas, float(stated)) < 0):
            found[name] = abs(float(stated) - value) / (1e-6 * value) if value > 0 else 0.0
    found.setdefault("alpha_", 0.0)
    if fit.has("l1_ratio_") and np.size(fit.get("l1_ratio", 1.0)) > 0:
        ratios = np.ravel(np.asarray(fit.get("l1_ratio", 1.0), dtype=np.float64))
        found["l1_ratio_"] = float(np.abs(ratios - float(fit.l1_ratio_)).min()) / 1e-6
    return found


def _means(fit: Fit) -> tuple[Array, Array, Array]:
    """The mean error of every penalty over the folds, its standard error, and the penalties; of the chosen l1_ratio."""
    alphas = np.asarray(fit.alphas_, dtype=np.float64)
    ratios = np.size(fit.get("l1_ratio", 1.0))
    # a single l1_ratio, penalty or fold has no axis of its own in what scikit-learn states
    path = np.asarray(fit.mse_path_, dtype=np.float64).reshape(ratios, alphas.shape[-1], -1)
    place = _ratio(fit) if ratios > 1 else 0
    path, alphas = path[place], alphas[place] if alphas.ndim == 2 else alphas
    folds = path.shape[-1]
    spread = path.std(axis=-1, ddof=1) / math.sqrt(folds) if folds > 1 else np.zeros(len(path))
    return path.mean(axis=-1), spread, alphas


def left_out_statements(fit: Fit) -> dict[str, float]:
    """best_score_ and scores_ of a ridge path: minus Σ s e²/n of the leave-one-out errors e = r/(1 − h)."""
    told = {name: fit.get(name) for name in ("best_score_", "scores_")}
    if fit.get("scoring") is not None or fit.get("cv") is not None or all(x is None for x in told.values()):  # fmt: skip
        return {}
    alphas = np.atleast_1d(np.asarray(fit.alpha_, dtype=np.float64))
    grid = np.ravel(np.asarray(fit.alphas, dtype=np.float64))
    found = {"alpha_": 0.0 if all(_place(grid, float(a)) >= 0 for a in alphas) else math.inf}
    risk, _ = problem_of(ridge_words)(fit)
    scores = left_out_scores(risk, grid) * risk.unit**2  # (m, K)
    if not bool(fit.get("alpha_per_target", False)):
        scores = scores.mean(axis=0, keepdims=True)
    slack = 1e-4 * np.abs(scores).max(axis=1)
    if told["best_score_"] is not None:
        found["best_score_"] = discrepancy(np.atleast_1d(told["best_score_"]), scores.max(axis=1), slack, 1.0)  # fmt: skip
    if told["scores_"] is not None:
        stated = np.atleast_2d(np.asarray(told["scores_"], dtype=np.float64))
        found["scores_"] = discrepancy(stated, scores, slack[:, None], 1.0)
    return found


def left_out_scores(risk: Risk, alphas: Array) -> Array:
    """−Σ s e²/n for every output and penalty, from one singular value decomposition."""
    s, n = risk.s[:, 0], len(risk.s)
    root = np.sqrt(s)[:, None]
    X, Y = risk.rows.columns(np.arange(risk.rows.shape[1])), risk.y
    if risk.free:
        X, Y = X - s @ X / s.sum(), Y - s @ Y / s.sum()
    U, values, _ = np.linalg.svd(X * root, full_matrices=False)
    T = Y * root
    inside = U.T @ T
    out = np.empty((Y.shape[1], len(alphas)))
    for k, alpha in enumerate(alphas):
        keep = values**2 / np.maximum(values**2 + alpha, 1e-300)
        h = np.square(U) @ keep + (s / s.sum() if risk.free else 0.0)
        errors = (T - U @ (keep[:, None] * inside)) / (1 - h)[:, None]
        out[:, k] = -np.square(errors).sum(axis=0) / n
    return out


def left_out_cost(fit: Fit) -> float:
    if fit.get("best_score_") is None or fit.get("scoring") is not None or fit.get("cv") is not None:  # fmt: skip
        return 0.0
    n, d = fit.data.shape
    return math.inf if n * d > LARGEST else 4.0 * n * d * min(n, d) + 4.0 * n * min(n, d) * np.size(fit.alphas)  # fmt: skip


# --- claims -----------------------------------------------------------------------------------------------------------


@claim(
    "the chosen penalty has the least error of the path, by the folds it states",
    kind=PROVED,
    source="by definition",
)
def alpha_best(fit: Fit) -> Evidence:
    """mse_path_ at alpha_ against its minimum; by the rule of one standard error, against that minimum and one such error."""
    path = fit.get("mse_path_")
    if path is None:
        return unknown("the fit states no errors of its folds")
    means, errors, alphas = _means(fit)
    folds = np.size(path) // (np.size(fit.get("l1_ratio", 1.0)) * len(means))
    # over every l1_ratio
    least = float(np.asarray(path, dtype=np.float64).reshape(-1, folds).mean(axis=-1).min())
    at = _place(alphas, float(fit.alpha_))
    advice = "alpha_ is not the one that the stated path chooses: fit it again"
    if at < 0:
        return at_most(math.inf, 0, advice, unit="alpha_ is not on the path")
    allowed = 1e-12 * abs(least)
    if fit.get("rule", "min") == "1se":
        allowed += float(errors[int(np.argmin(means))])
    return at_most(float(means[at]) - least, allowed, advice, unit="error above the least")


@claim(
    "weaker and stronger penalties than the chosen one were tried",
    kind=RULE_OF_THUMB,
    source="by definition",
)
def alpha_inside(fit: Fit) -> Evidence:
    """How many steps the chosen penalty is from the end of the grid; the nearest end of all outputs."""
    grid = _grid(fit)
    if len(grid) < 3:
        return unknown(f"{len(grid)} penalties were tried: none has one on each side")
    steps, low = len(grid), False
    for alpha in np.ravel(np.asarray(fit.alpha_, dtype=np.float64)):
        at = _place(grid, float(alpha))
        if at < 0:
            return unknown("alpha_ is not among the penalties tried")
        if min(at, len(grid) - 1 - at) < steps:
            steps, low = min(at, len(grid) - 1 - at), at > len(grid) / 2
    advice = (
        "it is the weakest of the grid: try smaller ones (eps, alphas), or none at all"
        if low
        else "it is the strongest of the grid: the columns may explain nothing; try larger ones (alphas) to be sure"
    )
    return at_least(steps, 1, advice, unit="steps from the end of the grid")
