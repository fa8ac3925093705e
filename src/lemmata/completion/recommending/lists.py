"""Lists of recommended items beside the entries that were held out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from lemmata.completion.observed import Observed

Array = np.ndarray


@dataclass(frozen=True)
class Lists:
    """Recommendations beside what was held out."""

    k: int
    values: Array  # (b, k) held-out values of the recommended items, NaN where there is none
    hits: Array  # (b, k) whether the item is relevant
    relevant: Array  # (b,) how many items are relevant
    best: Array  # (b, k) the k largest relevant values, NaN where there are fewer

    @property
    def count(self) -> Array:
        """The users with something to be found."""
        return self.relevant > 0

    @classmethod
    def of(
        cls, recommended: Any, held_out: Observed, k: int | None, threshold: Any, users: Any
    ) -> Lists:
        places = np.asarray(getattr(recommended, "positions", recommended))
        rows = np.arange(held_out.shape[0]) if users is None else np.asarray(users)
        k = _check_lists(places, rows, held_out, k)
        places = places[:, :k]
        there = places >= 0
        values = held_out.values_at(rows[:, None], np.where(there, places, 0)).astype(np.float64)
        values[~there] = np.nan
        counts = held_out.values >= (-np.inf if threshold is None else threshold)
        hits = ~np.isnan(values) & (values >= (-np.inf if threshold is None else threshold))
        relevant = held_out.select(counts)
        padded = np.full((len(rows), max(k - places.shape[1], 0)), np.nan)
        values, hits = np.hstack([values, padded]), np.hstack([hits, np.zeros(padded.shape, bool)])
        return cls(k, values, hits, relevant.row_counts[rows], _largest(relevant, k)[rows])


def _check_lists(places: Array, rows: Array, held_out: Observed, k: int | None) -> int:
    """Return k, where everything fits together."""
    if places.ndim != 2 or places.dtype.kind not in "iu":
        raise ValueError(
            f"recommended is an array of {places.dtype} of shape {places.shape}; pass item positions (users, n)."
        )
    if len(places) != len(rows):
        raise ValueError(
            f"there are {len(places)} lists for {len(rows)} users; say with users= whose they are."
        )
    if places.size and not -1 <= places.min() <= places.max() < held_out.shape[1]:
        raise ValueError(
            f"an item lies outside 0 … {held_out.shape[1] - 1} (−1 stands for none left)."
        )
    ordered = np.sort(places, axis=1)
    if ((ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)).any():
        raise ValueError("an item is recommended twice to the same user.")
    k = places.shape[1] if k is None else k
    if k < 1:
        raise ValueError(f"k={k} is not accepted; it is an int >= 1.")
    return int(k)


def _largest(entries: Observed, k: int) -> Array:
    """The k largest values of every row, descending; NaN where there are fewer."""
    indptr, _, values = entries.by_row
    rows = entries.rows
    order = np.lexsort((-values.astype(np.float64), rows))
    # sorted by row, so `rows` is that of the sorted entries too
    rank = np.arange(len(order)) - indptr[rows]
    out = np.full((entries.shape[0], k), np.nan)
    kept = rank < k
    out[rows[kept], rank[kept]] = values[order][kept]
    return out
