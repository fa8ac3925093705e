"""What is claimed of a penalty that cross-validation chose: it is the best of those tried, with others on both sides.

Claims read `alpha_` and what the fit states of its path: `alphas_` (or the parameter `alphas`) and `mse_path_` of the folds.
"""

from __future__ import annotations

import math

import numpy as np

from lemmata.core.certificate import (
    PROVED,
    RULE_OF_THUMB,
    Evidence,
    Fit,
    at_least,
    at_most,
    claim,
    unknown,
)

Array = np.ndarray
SAME = 1e-9  # relative: two penalties that are one


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
    path = np.asarray(path, dtype=np.float64)
    means, alphas = path.mean(axis=-1), np.asarray(fit.alphas_, dtype=np.float64)
    least = float(means.min())
    if means.ndim == 2:
        place = _ratio(fit)
        means, path = means[place], path[place]
        alphas = alphas[place] if alphas.ndim == 2 else alphas
    at = _place(alphas, float(fit.alpha_))
    advice = "alpha_ is not the one that the stated path chooses: fit it again"
    if at < 0:
        return at_most(math.inf, 0, advice, unit="alpha_ is not on the path")
    allowed = 1e-12 * abs(least)
    if fit.get("rule", "min") == "1se":
        best = int(np.argmin(means))
        allowed += float(path[best].std(ddof=1) / math.sqrt(path.shape[-1]))
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
