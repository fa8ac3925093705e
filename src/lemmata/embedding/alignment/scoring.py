"""Precision of translations at k, with its interval."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lemmata.embedding.alignment.pairs import WordPairs

Array = np.ndarray


@dataclass(frozen=True)
class PrecisionScore:
    """The share of source words with a true translation among the first k, for each k, with exact (Clopper-Pearson) intervals.

    precision, low, high : {k: share}
    n_words : source words that were scored; n_unknown : pairs left out, because a word of theirs has no vector
    chance : {k: share} of words found by drawing k words at random
    """

    precision: dict[int, float]
    low: dict[int, float]
    high: dict[int, float]
    n_words: int
    n_unknown: int
    chance: dict[int, float]
    confidence: float = 0.95

    def __getitem__(self, k: int) -> float:
        return self.precision[k]

    def __str__(self) -> str:
        shares = "; ".join(
            f"@{k} {share:.1%} ({self.low[k]:.1%} to {self.high[k]:.1%})"
            for k, share in self.precision.items()
        )
        return (
            f"precision {shares} at {self.confidence:.0%}, over {self.n_words:,} words, {self.n_unknown:,} pairs without "
            f"vectors; by chance {self.chance[min(self.chance)]:.2%}"
        )


def score(
    places: Array, truth: WordPairs, ks: tuple[int, ...], n_targets: int, confidence: float
) -> PrecisionScore:
    """The score of ranked answers (words, largest k), in the order of `truth.by_source()`."""
    from scipy.stats import binomtest

    true = [targets for _, targets in truth.by_source()]
    hits = np.array([np.isin(row, targets) for row, targets in zip(places, true, strict=True)])
    n, low, high, share, chance = len(hits), {}, {}, {}, {}
    for k in ks:
        right = int(hits[:, :k].any(axis=1).sum())
        interval = binomtest(right, n).proportion_ci(confidence, method="exact")
        share[k], low[k], high[k] = right / n, float(interval.low), float(interval.high)
        chance[k] = float(np.mean([min(1.0, k * len(targets) / n_targets) for targets in true]))
    return PrecisionScore(share, low, high, n, truth.n_unknown, chance, confidence)
