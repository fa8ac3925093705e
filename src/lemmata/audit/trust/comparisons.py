"""Claims about several models: which is best, what cross-validation means, whether bias and variance add up.

**Which of K models.** The one with the least average loss has a risk within 2ε of the least of the K risks, where ε is the
deviation that none of the K averages exceeds (union bound). Compared row by row, ℓ_other − ℓ_chosen is a draw in [−R, R] that
varies little where the two agree: bets on it tell models apart long before their intervals do. The choice was made on the same
rows, so each of the K(K − 1) ordered pairs gets its share of δ.

**Cross-validation** averages the scores of k models. Each is tested on n/k rows that it has not seen, but the tests are not
independent of each other. The mean of exp(λ·average deviation) is at most the average of those of the folds (convexity), so the
average deviates no more than one fold of n/k rows may: that is what can be said, about the average risk of the k models, at the
size they were trained with. The usual mean ± deviation/√k is no confidence interval: no estimate of that variance is unbiased
(Bengio & Grandvalet 2004).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from lemmata.audit.kernel import claims as k
from lemmata.audit.kernel import concentration
from lemmata.audit.trust.generalisation import RISK, UNSEEN, WITHIN, at_asked_confidence, gains
from lemmata.audit.trust.seen_rows import SEEN, Memory, judge_seen, memory_of, why_copies

Array = np.ndarray


# --- several models ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Pairwise:
    """The chosen one of K models compared with each of the others; each number is right with probability 1 − δ."""

    chosen: int
    means: Array  # (K,) average losses
    eps: float  # none of the averages is off by more
    regret: float  # the chosen one is within this of the best
    # (K,) the least by which each is worse than the chosen one; −inf for the chosen one
    behind: Array


def compare_losses(
    L: Array, bounds: tuple[float, float], delta: float, weights: Array | None = None
) -> Pairwise:
    """Compare the average losses of models on the same rows.

    L : (K, n) losses of K models on n rows, within bounds
    """
    K, n = L.shape
    width = bounds[1] - bounds[0]
    means = np.average(L, axis=1, weights=weights)
    chosen = int(np.argmin(means))
    size = n if weights is None else concentration.effective_size(weights)
    # half of δ for the K averages, half for the ordered pairs
    eps = concentration.hoeffding(size, concentration.union_bound(2 * K, delta), width)
    share = concentration.union_bound(max(2 * K * (K - 1), 1), delta)
    behind = np.full(K, -math.inf)
    for other in np.delete(np.arange(K), chosen):
        behind[other] = gains((L[other] - L[chosen]) / width, share, weights).lower * width
    regret = float(max([0.0, *-np.delete(behind, chosen)]))
    return Pairwise(chosen, means, eps, min(regret, 2 * eps), behind)


@k.statistical(
    "at most 1 % of these rows equal a training row of a candidate, or lie far nearer to one than training rows to each other",
    "ML Generalization gap; Clopper–Pearson",
    confidence=UNSEEN,
)
def candidates_unseen(fit):
    """The rows are looked for where each model keeps its own, and among the training rows if they were given."""
    kept = [memory_of(model, fit.X, fit.get("train")) for model in fit.models.values()]
    if fit.get("train") is not None:
        kept = kept[:1]  # the same for all
    judged = [judge_seen(one) for one in kept if one is not None]
    for one in judged:
        if one.verdict != k.HOLDS:
            return one
    if not all(one is not None and one.all for one in kept):
        return k.unknown("not every candidate keeps its training rows: pass train=X_train")
    return max(judged, key=lambda one: one.measured)


@k.fact(cost=k.free)
def _pairwise(fit: k.Fit) -> Pairwise:
    """Compare the candidates, if these rows can. Raises CannotTell."""
    judged = candidates_unseen.check(fit)
    if judged.verdict != k.HOLDS:
        raise k.CannotTell(SEEN if judged.verdict == k.FAILS else judged.note)
    if why := why_copies(fit.X, fit.losses.shape[1]):
        raise k.CannotTell(why)
    return compare_losses(fit.losses, fit.bounds, fit.delta, fit.weights)


@k.statistical(
    "no other candidate is better on new rows by more than 0.05 of the range",
    "ML Generalization gap; union bound",
    confidence=1 - RISK,
)
@at_asked_confidence
def good_choice(fit):
    """The smaller of 2ε and the largest gain that another could have, seen row by row."""
    found, width = _pairwise(fit), fit.bounds[1] - fit.bounds[0]
    K, within = len(found.means), float(fit.get("within") or WITHIN) * width
    if K == 1:
        return k.unknown("there is one candidate only")
    rows = f"{concentration.samples_needed(within / 2, fit.delta, K, width):,} rows"
    if found.regret > within:
        return k.unknown(f"up to {found.regret:.3g} better: {rows} would do for any {K} candidates")
    note = f"2ε = {2 * found.eps:.3g} for {K} candidates"
    return k.at_most(found.regret, within, unit="regret at most", note=note)


@k.statistical(
    "the chosen candidate is better than each of the others on new rows",
    "ML Generalization gap; Waudby-Smith & Ramdas 2024",
    confidence=1 - RISK,
)
@at_asked_confidence
def best_alone(fit):
    """Row by row, at a share of δ for each ordered pair, since the choice was made on the same rows."""
    found, names = _pairwise(fit), list(map(str, fit.models))
    others = np.delete(found.behind, found.chosen)
    if not len(others):
        return k.unknown("there is one candidate only")
    if others.min() > 0:
        return k.at_least(float(others.min()), 0, unit="ahead by at least")
    same = [names[i] for i in np.flatnonzero(found.behind <= 0) if i != found.chosen]
    more = f" and {len(same) - 4} more" if len(same) > 4 else ""
    return k.unknown(f"not distinguishable from {', '.join(same[:4])}{more}")


COMPARISON_CLAIMS = (candidates_unseen, good_choice, best_alone)


# --- cross-validation -------------------------------------------------------------------------------------------------


@k.statistical(
    "in every fold at most 1 % of test rows equal a training row, or lie far nearer to one than training rows to each other",
    "ML Model Selection; Clopper–Pearson",
    confidence=UNSEEN,
)
def folds_unseen(fit):
    """By number, and by content: rows that occur twice may be on both sides."""
    worst: k.Evidence | None = None
    for at, (train, test) in enumerate(fit.folds):
        shared = np.intersect1d(train, test).size
        if shared:
            advice = f"fold {at} tests rows it was trained on: use another splitter"
            return k.at_most(shared, 0, advice, unit="trained on")
        rows = take(fit.X, train), take(fit.X, test)
        found = judge_seen(Memory(*rows, f"those of fold {at}", True))
        if found.verdict == k.FAILS:
            return found
        if worst is None or worst.verdict == k.HOLDS:
            worst = found
    return worst if worst is not None else k.unknown("there are no folds")


def take(X: Any, rows: Array) -> Any:
    """Some rows of an array, a sparse matrix, a DataFrame or a list."""
    if hasattr(X, "iloc"):
        return X.iloc[rows]
    return X[rows] if hasattr(X, "shape") else [X[i] for i in rows]


CROSS_VALIDATION_CLAIMS = (folds_unseen,)


# --- bias and variance ------------------------------------------------------------------------------------------------


@k.rule_of_thumb(
    "noise, bias² and variance add up to the risk, to four standard errors",
    "ML Bias-Variance Decomposition",
)
def adds_up(fit):
    """The risk is measured by itself, on targets of its own: E(y − f̂)² = noise + bias² + variance."""
    if not fit.error > 0:
        return k.at_most(abs(fit.total - fit.risk), 1e-9 * max(abs(fit.risk), 1e-300), unit="apart")
    advice = "the generator or the fit depends on what is not drawn again: check their seeds"
    return k.at_most(abs(fit.total - fit.risk) / fit.error, 4.0, advice, unit="standard errors")


BIAS_VARIANCE_CLAIMS = (adds_up,)
