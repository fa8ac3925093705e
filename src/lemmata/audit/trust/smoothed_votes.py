"""Votes of a classifier under Gaussian noise, counted again with fresh draws (Cohen, Rosenfeld & Kolter 2019).

    g(x) = argmax_c P(f(x + σξ) = c),     P(f(x + σξ) = c) = p > ½   ⇒   g(x̂) = c  for  ‖x̂ − x‖₂ < σΦ⁻¹(p)

Of a linear f this radius is the distance to its hyperplane. A lower bound p̲ of p gives a radius that is right with probability
1 − α; taken from the draws that chose the class, or without the bound, it is too large about half of the time.

The claim allows 5 % of the radii to be too large, where the procedure allows α. A radius is *confirmed* if fresh votes prove
p ≥ Φ(radius/σ), and *refuted* if they prove the opposite, each at its share of the risk: more than 5 % refuted fails, at most
5 % not confirmed holds. As p̲ lies some √n below the estimate, it takes ten times as many draws to confirm most of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

from lemmata.audit.kernel import claims as k
from lemmata.audit.kernel.concentration import clopper_pearson

Array = np.ndarray

MOST_ROWS = 40  # whose votes are counted again
TOO_LARGE = 0.05  # of these radii
LOOKS = (2, 8)  # fresh draws, in units of n; the second for rows that the first did not decide
BATCH = 16_384  # noisy rows at once
SEED = 7_920_331  # draws of our own


def is_smoothed(model: Any) -> bool:
    """Whether a model answers by votes under noise."""
    return all(hasattr(model, name) for name in ("sigma", "alpha", "n", "base_"))


def reach_of(ball: Any, d: int) -> float:
    """Return the ℓ2 radius of the least ball that holds this one."""
    return float(ball.eps) * (d**0.5 if float(ball.norm) == np.inf else 1.0)


def count_votes(
    model: Any, X: Array, classes: Array, draws: int, rng: np.random.Generator
) -> Array:
    """Return how many of fresh noisy copies of every row get its class."""
    X = X if X.dtype.kind == "f" else X.astype(np.float64)  # noise has no whole numbers
    each, hits = max(BATCH // len(X), 1) if len(X) else 1, np.zeros(len(X), int)
    for start in range(0, draws, each):
        now = min(each, draws - start)
        noise = rng.standard_normal((now, *X.shape)).astype(X.dtype)
        rows = (X[None] + model.sigma * noise).reshape(-1, *X.shape[1:])
        hits += (np.asarray(model.base_.predict(rows)).reshape(now, -1) == classes).sum(axis=0)
    return hits


def certify_again(model: Any, X: Array, classes: Array) -> Array:
    """Return σΦ⁻¹(p̲) from n fresh votes for the classes that the model gives; each is right with probability 1 − α."""
    hits = count_votes(model, X, classes, int(model.n), np.random.default_rng([SEED, 1]))
    least = clopper_pearson(hits, np.full(len(X), int(model.n)), 2 * model.alpha)[0]  # one end
    return np.where(least > 0.5, model.sigma * ndtri(np.minimum(least, 1 - 1e-16)), 0.0)


@k.statistical(
    "at most 5 % of the stated radii are larger than σΦ⁻¹(p) is, votes counted again with fresh draws",
    "Cohen, Rosenfeld & Kolter 2019; Clopper–Pearson",
    confidence=0.95,
)
def radius_certified(fit):
    """On at most 40 of the rows with a radius, evenly among them; the risk α of the model is that of the claim."""
    if not is_smoothed(fit.model) or fit.get("radius") is None:
        return k.unknown("no radius by votes under noise was stated")
    X, radii = np.asarray(fit.X, np.float64), np.asarray(fit.radius, np.float64)
    stated = np.flatnonzero(radii > 0)
    if not len(stated):
        return k.unknown("no row has a radius: the model abstains, or says nothing of them")
    some = stated[np.unique(np.linspace(0, len(stated) - 1, MOST_ROWS).round().astype(int))]
    some = some[: len(stated)]
    wanted, m, alpha = ndtr(radii[some] / fit.model.sigma), len(some), float(fit.model.alpha)
    classes = np.asarray(fit.model.predict(np.asarray(fit.X)))[some]
    hits, draws = np.zeros(m, int), np.zeros(m, int)
    open_ = np.arange(m)
    refuted, confirmed = np.zeros((2, m), bool)
    rng, share = np.random.default_rng([SEED, 2]), 2 * alpha / (len(LOOKS) * m)
    for look in LOOKS:
        more = look * int(fit.model.n)
        hits[open_] += count_votes(fit.model, X[some[open_]], classes[open_], more, rng)
        draws[open_] += more
        least, most = clopper_pearson(hits, np.maximum(draws, 1), share)
        confirmed, refuted = least >= wanted, most < wanted
        open_ = np.flatnonzero(~confirmed & ~refuted)
        if not len(open_):
            break
    unit, sure = f"of {m} radii", 1 - alpha
    if refuted.sum() > TOO_LARGE * m:
        advice = "bound p from below, by draws that did not choose the class, and check sigma"
        return k.at_most(refuted.sum() / m, TOO_LARGE, advice, unit, confidence=sure)
    if (~confirmed).sum() <= TOO_LARGE * m:
        return k.at_most((~confirmed).sum() / m, TOO_LARGE, unit=unit, confidence=sure)
    return k.unknown(
        f"{confirmed.sum()} of {m} radii confirmed, {refuted.sum()} refuted; a larger n would tell"
    )


SMOOTHING_CLAIMS = (radius_certified,)
