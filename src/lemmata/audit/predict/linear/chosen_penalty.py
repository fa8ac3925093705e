"""Claims about a penalty that cross-validation chose: it is the best of those tried, with others on both sides.

Claims read `alpha_` and what the fit states of its path: `alphas_` (or the parameter `alphas`) and `mse_path_` of the folds.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from lemmata.audit.kernel import claims as k
from lemmata.audit.kernel.attributes import attributes_sound, discrepancy
from lemmata.audit.kernel.duality_gap import Risk
from lemmata.audit.predict.linear.near_optimum import shape_problems
from lemmata.audit.predict.linear.objectives import problem_of, ridge_objective

Array = np.ndarray
SAME = 1e-6  # relative: two penalties that are one, in float32 too
LARGEST = 2**23  # numbers of a table that is decomposed


def _grid(fit: k.Fit) -> Array:
    """The penalties tried, falling; of the chosen l1_ratio where there are several."""
    stated = fit.get("alphas_")
    alphas = np.asarray(fit.get("alphas") if stated is None else stated, dtype=np.float64)
    if alphas.ndim == 2:
        alphas = alphas[_ratio(fit)]
    return -np.sort(-np.ravel(alphas))


def _ratio(fit: k.Fit) -> int:
    """The place of the chosen l1_ratio."""
    ratios = np.ravel(np.asarray(fit.l1_ratio, dtype=np.float64))
    return int(np.argmin(np.abs(ratios - float(fit.l1_ratio_))))


def _place(grid: Array, alpha: float) -> int:
    near = np.abs(grid - alpha) <= SAME * np.maximum(np.abs(grid), abs(alpha))
    return int(np.argmax(near)) if near.any() else -1


# --- attributes and statements ----------------------------------------------------------------------------------------


def _problems(fit: k.Fit) -> Iterator[str]:
    """A sentence for everything that cannot be so of weights, a chosen penalty and its path, whatever the data is."""
    yield from shape_problems(fit)
    sizes = ["alpha_", "alpha_min_", "alpha_1se_", "l1_ratio_", "alphas_", "mse_path_", "C_", "Cs_"]
    for name in (*sizes, "best_score_", "scores_", "l1_ratios_", "coefs_paths_"):
        value = fit.get(name)
        value = list(value.values()) if isinstance(value, dict) else value
        if value is None or np.ravel(np.asarray(value, dtype=object))[0] is None:
            continue
        x = np.asarray(value, dtype=np.float64)
        if not np.isfinite(x).all():
            yield f"{name} has numbers that are not finite"
        elif name in sizes and x.min(initial=0.0) < 0:
            yield f"{name} should be >= 0"
        elif name == "alphas_" and x.ndim and (np.diff(x) > 0).any():
            yield "alphas_ should be falling"


SOUND = attributes_sound({}, _problems)


def path_statements(fit: k.Fit) -> dict[str, float]:
    """alpha_, alpha_min_ and alpha_1se_ as the stated path has them."""
    if fit.get("mse_path_") is None:
        return {}
    found: dict[str, float] = {}
    means, errors, alphas = _means(fit)
    best = int(np.argmin(means))
    good = means <= means[best] + errors[best]
    true = {"alpha_min_": alphas[best], "alpha_1se_": alphas[good].max()}
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


def _means(fit: k.Fit) -> tuple[Array, Array, Array]:
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


def score_statements(fit: k.Fit) -> dict[str, float | None]:
    """C_ and l1_ratio_ are those whose stated scores, (folds, ρ, C) or a dict by class of (folds, C, ρ), add up to most."""
    stated, Cs = fit.get("scores_"), np.ravel(np.asarray(fit.Cs_, dtype=np.float64))
    found: dict[str, float | None] = {"scores_": None, "coefs_paths_": None}
    asked = np.asarray(fit.get("Cs", 10), dtype=np.float64)
    grid = np.logspace(-4, 4, int(asked)) if asked.ndim == 0 else asked
    found["Cs_"] = discrepancy(Cs, grid, grid, SAME) if len(Cs) == len(grid) else math.inf
    if isinstance(stated, dict):
        stated = next(iter(stated.values()))
        stated = np.moveaxis(np.reshape(stated, (len(stated), len(Cs), -1)), 1, 2)
    if stated is None or not bool(fit.get("refit", True)):
        return found
    total = np.asarray(stated, dtype=np.float64).sum(axis=0).T
    ratios, ratio = np.ravel(fit.l1_ratios_), np.ravel(fit.l1_ratio_)[0]
    at = _place(Cs, float(np.ravel(fit.C_)[0]))
    column = 0 if ratio is None else _place(ratios.astype(np.float64), float(ratio))
    if at < 0 or column < 0:
        return {**found, "C_": math.inf}
    short = float(total.max() - total[at, column])
    return {**found, "C_": short / (1e-6 * max(float(np.abs(total).max()), 1e-300))}


def left_out_statements(fit: k.Fit) -> dict[str, float]:
    """best_score_ and scores_ of a ridge path: minus Σ s e²/n of the leave-one-out errors e = r/(1 − h)."""
    best, every = fit.get("best_score_"), fit.get("scores_")
    if _other_folds(fit) or (best is None and every is None):
        return {}
    alphas = np.atleast_1d(np.asarray(fit.alpha_, dtype=np.float64))
    grid = np.ravel(np.asarray(fit.alphas, dtype=np.float64))
    found = {"alpha_": 0.0 if all(_place(grid, float(a)) >= 0 for a in alphas) else math.inf}
    risk, _ = problem_of(ridge_objective)(fit)
    scores = left_out_scores(risk, grid) * risk.unit**2  # (m, K)
    if not bool(fit.get("alpha_per_target", False)):
        scores = scores.mean(axis=0, keepdims=True)
    slack = 1e-4 * np.abs(scores).max(axis=1)
    if best is not None:
        found["best_score_"] = discrepancy(np.atleast_1d(best), scores.max(axis=1), slack, 1.0)
    if every is not None:
        found["scores_"] = discrepancy(np.atleast_2d(every), scores, slack[:, None], 1.0)
    return found


def _other_folds(fit: k.Fit) -> bool:
    """Whether the scores are not the squared errors of leaving one row out."""
    return fit.get("scoring") is not None or fit.get("cv") is not None


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
    for i, alpha in enumerate(alphas):
        keep = values**2 / np.maximum(values**2 + alpha, 1e-300)
        h = np.square(U) @ keep + (s / s.sum() if risk.free else 0.0)
        errors = (T - U @ (keep[:, None] * inside)) / (1 - h)[:, None]
        out[:, i] = -np.square(errors).sum(axis=0) / n
    return out


def left_out_cost(fit: k.Fit) -> float:
    if fit.get("best_score_") is None or _other_folds(fit):
        return 0.0
    (n, d), tried = fit.data.shape, np.size(fit.alphas)
    return math.inf if n * d > LARGEST else 4.0 * n * min(n, d) * (d + tried)


# --- claims -----------------------------------------------------------------------------------------------------------


@k.proved(
    "the chosen penalty has the least error of the path, by the folds it states", "by definition"
)
def alpha_best(fit: k.Fit) -> k.Evidence:
    """mse_path_ at alpha_ against its minimum; by the rule of one standard error, against that minimum and one such error."""
    path = fit.get("mse_path_")
    if path is None:
        return k.unknown("the fit states no errors of its folds")
    means, errors, alphas = _means(fit)
    folds = np.size(path) // (np.size(fit.get("l1_ratio", 1.0)) * len(means))
    # over every l1_ratio
    least = float(np.asarray(path, dtype=np.float64).reshape(-1, folds).mean(axis=-1).min())
    at = _place(alphas, float(fit.alpha_))
    advice = "alpha_ is not the one that the stated path chooses: fit it again"
    if at < 0:
        return k.at_most(math.inf, 0, advice, unit="alpha_ is not on the path")
    allowed = 1e-12 * abs(least)
    if fit.get("rule", "min") == "1se":
        allowed += float(errors[int(np.argmin(means))])
    return k.at_most(float(means[at]) - least, allowed, advice, unit="error above the least")


@k.rule_of_thumb("weaker and stronger penalties than the chosen one were tried", "by definition")
def alpha_inside(fit: k.Fit) -> k.Evidence:
    """Steps from the chosen penalty to the nearest end of the grid, the fewest over the outputs."""
    grid = _grid(fit)
    if len(grid) < 3:
        return k.unknown(f"{len(grid)} penalties were tried: none has one on each side")
    places = [_place(grid, float(a)) for a in np.ravel(np.asarray(fit.alpha_, dtype=np.float64))]
    if min(places) < 0:
        return k.unknown("alpha_ is not among the penalties tried")
    at = min(places, key=lambda at: min(at, len(grid) - 1 - at))
    advice = "it is the strongest of the grid: the columns may explain nothing; try larger ones (alphas) to be sure"
    if at > len(grid) / 2:
        advice = "it is the weakest of the grid: try smaller ones (eps, alphas), or none at all"
    return k.at_least(min(at, len(grid) - 1 - at), 1, advice, unit="steps from the end of the grid")
