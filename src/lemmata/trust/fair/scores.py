"""Scores by group in tenths: how far apart their distributions are, and what a score means in each group.

    TV(R_a, R_b) = ½ Σ_t |P_a(t) − P_b(t)|          tenths t hide what differs within them: at most that of the scores
    q_a(t) = P(Y = 1 | t, a)                        calibrated: the mean score of the tenth

With p the base rates and E over the tenths of b, TV(R_a, R_b) + E_b|q_a − q_b| ≥ |p_a − p_b|: scores of one distribution that
mean the same in both groups need equal base rates.

    >>> bins = ScoreBins.of(("a", "b"), np.array([0, 0, 1, 1]), np.array([0, 1, 1, 1]), np.array([0.1, 0.8, 0.8, 0.9]))
    >>> bins.distances["a", "b"], bins.base_rates.tolist()
    (0.5, [0.5, 1.0])
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np

Array = np.ndarray

BINS = 10


@dataclass(frozen=True)
class ScoreBins:
    """Weights, outcomes and scores added up by group and tenth of the scores; of two blocks with `+`."""

    names: tuple[str, ...]
    sizes: Array  # (G, BINS)
    hits: Array  # (G, BINS), of which y = 1
    scores: Array  # (G, BINS), their sum

    @classmethod
    def of(
        cls, names: tuple[str, ...], codes: Array, y: Array, R: Array, weights: Array | None = None
    ) -> ScoreBins:
        """Add up rows with scores from 0 to 1."""
        w = np.ones(len(R)) if weights is None else weights
        at = BINS * codes + np.minimum((BINS * R).astype(int), BINS - 1)
        parts = (np.bincount(at, v, BINS * len(names)) for v in (w, w * y, w * R))
        return cls(names, *(part.reshape(-1, BINS) for part in parts))

    def __add__(self, other: ScoreBins) -> ScoreBins:
        names = self.names + tuple(name for name in other.names if name not in self.names)
        total = np.zeros((3, len(names), BINS))
        for one in (self, other):
            total[:, [names.index(name) for name in one.names]] += one.sizes, one.hits, one.scores
        return ScoreBins(names, *total)

    @property
    def shares(self) -> Array:
        """(G, BINS) P(t | a)."""
        return self.sizes / self.sizes.sum(axis=1, keepdims=True)

    @property
    def meaning(self) -> Array:
        """(G, BINS) P(Y = 1 | t, a), NaN where the group has no row."""
        return _divide(self.hits, self.sizes)

    @property
    def mean_scores(self) -> Array:
        """(G, BINS) E(R | t, a): what `meaning` would be, were the scores calibrated."""
        return _divide(self.scores, self.sizes)

    @property
    def base_rates(self) -> Array:
        return self.hits.sum(axis=1) / self.sizes.sum(axis=1)

    @property
    def distances(self) -> dict[tuple[str, str], float]:
        """The total variation between the scores of each two groups."""
        P = self.shares
        pairs = combinations(range(len(P)), 2)
        return {
            (self.names[i], self.names[j]): float(np.abs(P[i] - P[j]).sum() / 2) for i, j in pairs
        }

    @property
    def miscalibration(self) -> dict[str, float]:
        """Σ_t P(t | a) |E(Y − R | t, a)| of each group: the claim `calibrated_by_group` judges it on new rows."""
        off = np.abs(self.hits - self.scores).sum(axis=1) / self.sizes.sum(axis=1)
        return dict(zip(self.names, off.tolist(), strict=True))


def _divide(part: Array, whole: Array) -> Array:
    return np.divide(part, whole, out=np.full_like(part, np.nan), where=whole > 0)
