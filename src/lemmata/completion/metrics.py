"""How good predictions and recommendations are, on entries that were held out.

    RMSE = √(mean (a − â)²)        MAE = mean |a − â|

    precision@k = |top k ∩ relevant| / k        recall@k = |top k ∩ relevant| / |relevant|
    NDCG@k = DCG@k / best DCG@k,                DCG@k = Σ_{r=1..k} gain of the item at rank r / log₂(r + 1)

The last three are means over the users who have a relevant held-out item; the others have nothing to be found and are left
out. Held-out entries with a value of at least `threshold` are relevant, all of them by default. What was not held out counts
as irrelevant, so these are lower bounds: an item nobody rated may be a good one.

    >>> import numpy as np
    >>> from lemmata.completion import Observed
    >>> held_out = Observed.from_triplets([0, 0, 1], [2, 3, 0], [5.0, 4.0, 1.0], shape=(3, 4))
    >>> found = precision_at_k(np.array([[2, 1], [1, 0], [3, 2]]), held_out)
    >>> found, found.users
    (0.5, 2)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from lemmata.completion.observed import Observed

Array = np.ndarray

GAINS = ("binary", "graded")


class Mean(float):
    """A mean over users: a number that knows how many of them counted. NaN if nobody did."""

    users: int

    def __new__(cls, parts: Array) -> Mean:
        self = super().__new__(cls, np.mean(parts) if len(parts) else np.nan)
        self.users = len(parts)
        return self

    def __getnewargs__(self):
        return (np.full(self.users, float(self)),)


# --- errors of predictions --------------------------------------------------------------------------------------------


def rmse(truth: Any, predicted: Any) -> float:
    """The root of the mean squared error. truth : array, or Observed (then predicted is in the order of its `values`)."""
    return float(np.sqrt(np.mean(_errors(truth, predicted) ** 2)))


def mae(truth: Any, predicted: Any) -> float:
    """The mean absolute error."""
    return float(np.mean(np.abs(_errors(truth, predicted))))


def _errors(truth: Any, predicted: Any) -> Array:
    truth = np.asarray(truth.values if isinstance(truth, Observed) else truth, dtype=np.float64)
    predicted = np.asarray(predicted, dtype=np.float64)
    if truth.shape != predicted.shape:
        raise ValueError(
            f"{truth.shape} true values and {predicted.shape} predictions do not pair up."
        )
    if truth.size == 0:
        raise ValueError("there are no values to compare.")
    if not (np.isfinite(truth).all() and np.isfinite(predicted).all()):
        raise ValueError("a value is NaN or infinite; leave unknown entries out.")
    return truth - predicted


# --- recommendations --------------------------------------------------------------------------------------------------


def precision_at_k(
    recommended: Any, held_out: Observed, k: int | None = None, *, threshold=None, users=None
) -> Mean:
    """The share of relevant items among the k first; a place where nothing was left (−1) counts as a miss.

    Parameters
    ----------
    recommended : array (users, n) of item positions, best first, −1 where none was left; or what `recommend` returns
    held_out : Observed
        Entries that the model did not see.
    k : int, optional
        By default n, all that was recommended.
    threshold : float, optional
        The smallest held-out value that makes an item relevant; by default every held-out entry does.
    users : array, optional
        The rows of `held_out` that `recommended` is for; by default all of them, in order.
    """
    lists = _Lists.of(recommended, held_out, k, threshold, users)
    return Mean(lists.hits.sum(axis=1)[lists.count] / lists.k)


def recall_at_k(
    recommended: Any, held_out: Observed, k: int | None = None, *, threshold=None, users=None
) -> Mean:
    """The share of a user's relevant items that are among the k first. Parameters as in `precision_at_k`."""
    lists = _Lists.of(recommended, held_out, k, threshold, users)
    return Mean((lists.hits.sum(axis=1) / np.maximum(lists.relevant, 1))[lists.count])


def ndcg_at_k(
    recommended: Any,
    held_out: Observed,
    k: int | None = None,
    *,
    threshold=None,
    users=None,
    gains: str = "binary",
) -> Mean:
    """How near the order comes to the best one, the first ranks counting most; 1 if nothing could be better.

    gains : {"binary", "graded"}
        What finding a relevant item is worth: 1, or its held-out value (linear, as in scikit-learn; not 2^value − 1).
    Other parameters as in `precision_at_k`.
    """
    if gains not in GAINS:
        raise ValueError(f"gains={gains!r} is not accepted; pass one of {', '.join(GAINS)}.")
    lists = _Lists.of(recommended, held_out, k, threshold, users)
    gain = np.ones_like(lists.values) if gains == "binary" else lists.values
    if (gain[lists.hits] < 0).any() or (gains == "graded" and (lists.best < 0).any()):
        raise ValueError(
            "a held-out value is negative, so it is no gain; pass gains='binary', or a threshold >= 0."
        )
    discount = 1 / np.log2(np.arange(2, lists.k + 2))
    found = np.where(lists.hits, gain, 0.0) @ discount
    ideal = (
        np.where(np.isnan(lists.best), 0.0, 1.0 if gains == "binary" else lists.best)
    ) @ discount
    counted = ideal > 0  # a graded gain of 0 is nothing to be found either
    return Mean(found[counted] / ideal[counted])


@dataclass(frozen=True)
class _Lists:
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
    ) -> _Lists:
        places = np.asarray(getattr(recommended, "positions", recommended))
        rows = np.arange(held_out.shape[0]) if users is None else np.asarray(users)
        k = _checked(places, rows, held_out, k)
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


def _checked(places: Array, rows: Array, held_out: Observed, k: int | None) -> int:
    """k, where everything fits together."""
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


def evaluate(
    model: Any, test: Observed, k: int = 10, *, threshold=None, gains: str = "binary"
) -> dict[str, float]:
    """All of them for a fitted model: rmse, mae, precision, recall and ndcg at k, and how many users counted in these.

    test : Observed
        Held-out entries of the matrix that the model was fitted to, as `Observed.split` makes them.
    """
    known = model.observed_
    if test.shape != known.shape:
        raise ValueError(
            f"{test!r} are no held-out entries of the {known.shape[0]} × {known.shape[1]} matrix."
        )
    i, j = test.rows, test.columns
    if known.row_labels is not None:
        i = known.row_labels.names[i]
    if known.column_labels is not None:
        j = known.column_labels.names[j]
    predicted = model.predict(i, j)
    lists, parameters = model.recommend(n=k).positions, {"k": k, "threshold": threshold}
    precision = precision_at_k(lists, test, **parameters)
    return {
        "rmse": rmse(test, predicted),
        "mae": mae(test, predicted),
        "precision": precision,
        "recall": recall_at_k(lists, test, **parameters),
        "ndcg": ndcg_at_k(lists, test, **parameters, gains=gains),
        "users": precision.users,
    }
