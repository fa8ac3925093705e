"""Whether a model beats a baseline on rows that it was not trained on: from the gain of each row to a verdict.

A gain is what the baseline loses at a row minus what the model loses there, in a range that was known beforehand (losses are
capped, or bounded by themselves). Bets on the gains and on their negatives bound the mean gain from both sides, each at risk δ:
above 0 the claim holds, below 0 it fails, around 0 it can't tell. How the gains come about is for the subject.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from lemmata.audit.kernel.claims import Evidence, at_least, unknown
from lemmata.audit.kernel.concentration import mean_at_least, mean_of_unlike_at_least

Array = np.ndarray
NOT_CAPPED = "no bound exists for what is not capped"


class MeanGain(NamedTuple):
    """Bounds on a mean gain, each true with probability 1 − δ."""

    lower: float
    upper: float


def mean_gain(
    gains: Array, risk: float, least: float = -1.0, most: float = 1.0, *, alike: bool = True
) -> MeanGain:
    """Return bounds on the mean gain.

    gains : independent draws in [least, most]
    alike : whether they are draws from one law, as random rows are; if not, the bound is about the mean of their means
    """
    above = mean_at_least if alike else mean_of_unlike_at_least
    return MeanGain(above(gains, risk, least, most), -above(-gains, risk, -most, -least))


def beats(
    found: MeanGain,
    note: str,
    advice: str,
    *,
    scale: float = 1.0,
    unit: str = "gain",
    undecided: str = "too few to tell",
    uncapped: float = math.inf,
) -> Evidence:
    """Return the verdict on a mean gain, which should be above 0.

    scale : what the bounds are multiplied by to be shown
    undecided : said where 0 lies between the bounds
    uncapped : the mean gain without a cap; where it is not above 0, the bound of what is capped is not believed
    """
    if found.upper < 0:
        return at_least(found.upper * scale, 0, advice, unit=f"{unit} at most", note=note)
    if not found.lower > 0:
        return unknown(f"{note}: {undecided}")
    if not uncapped > 0:
        return unknown(f"{note}: {NOT_CAPPED}")
    return at_least(found.lower * scale, 0, unit=f"{unit} at least", note=note)
