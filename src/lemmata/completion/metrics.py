"""Measures of predictions and recommendations, on entries that were held out.

    RMSE = √(mean (a − â)²)        MAE = mean |a − â|

    precision@k = |top k ∩ relevant| / k        recall@k = |top k ∩ relevant| / |relevant|
    NDCG@k = DCG@k / best DCG@k,                DCG@k = Σ_{r=1..k} gain of the item at rank r / log₂(r + 1)
    MAP@k = Σ_{r=1..k} [relevant at r] precision@r / min(k, |relevant|)
    AUC = P(a relevant item scores above one that is not; ½ for a tie), over all items not seen in training

The last five are means over the users who have a relevant held-out item; the others have nothing to be found and are left
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

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from lemmata.completion.data.entries import Entries, search_parts
from lemmata.completion.observed import Observed
from lemmata.completion.recommending import recommend
from lemmata.completion.recommending.lists import Lists

Array = np.ndarray

GAINS = ("binary", "graded")
SCORES_AT_ONCE = 2**22  # sorted together for the AUC
WORDS = {
    "rmse": "RMSE",
    "mae": "MAE",
    "precision": "precision@{k}",
    "recall": "recall@{k}",
    "ndcg": "NDCG@{k}",
    "map": "MAP@{k}",
    "auc": "AUC",
}


class Mean(float):
    """A mean over users: a number that knows how many of them counted. NaN if nobody did."""

    users: int

    def __new__(cls, parts: Array) -> Mean:
        self = super().__new__(cls, np.mean(parts) if len(parts) else np.nan)
        self.users = len(parts)
        return self

    @classmethod
    def _again(cls, value: float, users: int) -> Mean:
        self = float.__new__(cls, value)
        self.users = users
        return self

    def __reduce__(self):
        return (Mean._again, (float(self), self.users))


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
    lists = Lists.of(recommended, held_out, k, threshold, users)
    return Mean(lists.hits.sum(axis=1)[lists.count] / lists.k)


def recall_at_k(
    recommended: Any, held_out: Observed, k: int | None = None, *, threshold=None, users=None
) -> Mean:
    """The share of a user's relevant items that are among the k first. Parameters as in `precision_at_k`."""
    lists = Lists.of(recommended, held_out, k, threshold, users)
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
    """Closeness of the order to the best one, the first ranks counting most; 1 if nothing could be better.

    gains : {"binary", "graded"}
        What finding a relevant item is worth: 1, or its held-out value (linear, as in scikit-learn; not 2^value − 1).
    Other parameters as in `precision_at_k`.
    """
    if gains not in GAINS:
        raise ValueError(f"gains={gains!r} is not accepted; pass one of {', '.join(GAINS)}.")
    lists = Lists.of(recommended, held_out, k, threshold, users)
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


def average_precision_at_k(
    recommended: Any, held_out: Observed, k: int | None = None, *, threshold=None, users=None
) -> Mean:
    """MAP: the mean of precision@r over the ranks r at which a relevant item was found, 0 for those that were not.

    Divided by what could have been found, min(k, |relevant|). Parameters as in `precision_at_k`.
    """
    lists = Lists.of(recommended, held_out, k, threshold, users)
    precisions = np.cumsum(lists.hits, axis=1) / np.arange(1, lists.k + 1)
    possible = np.maximum(np.minimum(lists.relevant, lists.k), 1)
    return Mean(((precisions * lists.hits).sum(axis=1) / possible)[lists.count])


def auc(
    P: Array,
    Q: Array,
    held_out: Observed,
    *,
    seen: Observed | None = None,
    threshold=None,
    users=None,
) -> Mean:
    """The chance that a relevant held-out item scores above an irrelevant one, both not `seen`; ½ for a tie.

    P, Q : arrays (b, k) and (m, k)
        User i gives item j the score p_iᵀq_j.
    seen : Observed, optional
        Training entries: their items are not compared with.
    users : array, optional
        The rows of `held_out` (and of `seen`) that P is for; by default all of them, in order.

    Of P relevant and N other items, less + ½ equal over all items, summed over the relevant ones, counts the P²/2 among
    themselves too. Users without an item of either kind are left out.
    """
    rows = np.arange(held_out.shape[0]) if users is None else np.asarray(users)
    m, found = len(Q), []
    relevant = held_out.select(held_out.values >= (-np.inf if threshold is None else threshold))
    for start in range(0, len(rows), max(SCORES_AT_ONCE // max(m, 1), 1)):
        here = slice(start, start + max(SCORES_AT_ONCE // max(m, 1), 1))
        scores = P[here] @ Q.T
        b = len(scores)
        if seen is not None:
            scores[_places(seen.by_row, rows[here], m)] = -np.inf
        i, j = _places(relevant.by_row, rows[here], m)
        wanted = scores[i, j]
        i, wanted = i[wanted > -np.inf], wanted[wanted > -np.inf]
        scores.sort(axis=1)
        below, upto = (_find(scores, i, wanted, side) for side in ("left", "right"))
        hidden = _find(scores, np.arange(b), np.full(b, -np.inf, scores.dtype), "right")
        p = np.bincount(i, minlength=b).astype(np.float64)
        others = m - hidden - p
        wins = np.bincount(i, (below + upto) / 2 - hidden[i], minlength=b) - p**2 / 2
        counted = (p > 0) & (others > 0)
        found.append(wins[counted] / (p * others)[counted])
    return Mean(np.concatenate(found) if found else np.zeros(0))


def _places(entries: Entries, rows: Array, m: int) -> tuple[Array, Array]:
    """Where these rows have entries in the first m columns, the rows counted among themselves."""
    counts = np.diff(entries.indptr)[rows]
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    columns = entries.indices[np.repeat(entries.indptr[rows], counts) + within]
    there = columns < m
    return np.repeat(np.arange(len(rows)), counts)[there], columns[there]


def _find(ordered: Array, rows: Array, values: Array, side: str) -> Array:
    """np.searchsorted(ordered[row], value, side) for many rows at once."""
    first, width = rows * ordered.shape[1], ordered.shape[1]
    return search_parts(ordered.ravel(), first, first + width, values, side) - first


# --- a model, beside what costs nothing -------------------------------------------------------------------------------


class HeldOutScores(dict[str, float]):
    """Figures that a model reached, by name, beside those of what costs nothing: prints as a table.

    Attributes
    ----------
    popularity : dict
        Of a list of the items with the most training entries: precision, recall, ndcg, map and auc.
    mean, offsets : dict
        Of the mean of the training entries, and of μ + b_i + c_j (`MeanRatings`): rmse and mae.
    k : int
        The length of the lists.
    """

    def __init__(self, found, popularity, mean, offsets, k: int, entries: int):
        super().__init__(found)
        self.popularity, self.mean, self.offsets, self.k = popularity, mean, offsets, k
        self.entries = entries

    def __reduce__(self):
        parts = (dict(self), self.popularity, self.mean, self.offsets, self.k, self.entries)
        return (type(self), parts)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, the baselines under their names; NaN is None."""

        def plain(part: dict[str, float]) -> dict[str, float | None]:
            return {key: float(x) if np.isfinite(x) else None for key, x in part.items()}

        others = {"popularity": self.popularity, "mean": self.mean, "offsets": self.offsets}
        return {**plain(self), **{name: plain(part) for name, part in others.items() if part}}

    def __str__(self) -> str:
        columns = {
            "": self,
            "popularity": self.popularity,
            "mean": self.mean,
            "offsets": self.offsets,
        }
        columns = {name: part for name, part in columns.items() if part}
        lines = ["".join(f"{name or 'this model':>12}" for name in columns)]
        lines[0] = f"{'':<14}{lines[0]}"
        for key, word in WORDS.items():
            if key in self:
                cells = (f"{part[key]:.4f}" if key in part else "–" for part in columns.values())
                lines.append(f"{word.format(k=self.k):<14}" + "".join(f"{x:>12}" for x in cells))
        lines.append(f"{self.entries:,} held-out entries; lists for {self['users']:,} users")
        return "\n".join(lines)

    __repr__ = __str__


Evaluation = HeldOutScores  # its name before


def evaluate(
    model: Any,
    test: Any,
    k: int = 10,
    *,
    threshold=None,
    gains: str = "binary",
    unknown: str = "error",
    damping: float | str = "auto",
) -> HeldOutScores:
    """All of them for a fitted model, beside popularity, the mean and offsets alone.

    Parameters
    ----------
    model : a completion model
        Fitted to implicit feedback it predicts no ratings: there is no rmse then, and no mae.
    test : Observed, or what Observed.of takes
        Held-out entries of the matrix that the model was fitted to, as `Observed.split` makes them.
    threshold, gains
        As in `precision_at_k` and `ndcg_at_k`.
    unknown : {"error", "baseline"}
        What to do with users and items that the model does not know: refuse them, or predict without them (μ + c_j, …). Such
        users are recommended what people like in general; such items can only be missed.
    damping : float or "auto"
        As in `recommend`, whose lists are measured.

    Returns
    -------
    HeldOutScores : a dict with rmse, mae, precision, recall, ndcg, map, auc and users (how many counted); prints as a table
    """
    check_is_fitted(model)
    known = model.observed_
    test = model._same_matrix(test, unknown)
    if not test.n_observed:
        raise ValueError("there are no held-out entries to evaluate on.")
    users = np.flatnonzero(test.row_counts)
    asked = recommend.users_at(model, np.where(users < len(model.U_), users, -1))
    options = {"threshold": threshold, "users": users}
    w = recommend.item_weights(model, damping)
    P, Q = recommend.ranking_factors(model, asked, w)
    found = _ranking(recommend.best_items(model, asked, k, w=w).positions, test, k, options, gains)
    found["auc"] = auc(P, Q, test, seen=_as_tall(known, test), **options)
    one, counts = np.ones((len(users), 1)), known.column_counts[:, None].astype(np.float64)
    lists = recommend.best(one, counts, k, asked.data.by_row, asked.places)[0]
    popular = _ranking(lists, test, k, options, gains)
    popular["auc"] = auc(one, counts, test, seen=_as_tall(known, test), **options)
    errors, mean, offsets = _errors_beside(model, known, test)
    figures = {**errors, **found, "users": found["precision"].users}
    return HeldOutScores(figures, popular, mean, offsets, k, test.n_observed)


def _ranking(lists: Array, test: Observed, k: int, options: dict, gains: str) -> dict[str, Any]:
    return {
        "precision": precision_at_k(lists, test, k, **options),
        "recall": recall_at_k(lists, test, k, **options),
        "ndcg": ndcg_at_k(lists, test, k, **options, gains=gains),
        "map": average_precision_at_k(lists, test, k, **options),
    }


def _errors_beside(model: Any, known: Observed, test: Observed) -> tuple[dict, dict, dict]:
    """RMSE and MAE of the model, of the mean, and of offsets; none of them for implicit feedback."""
    from lemmata.completion.baselines.mean_ratings import MeanRatings

    if getattr(model, "feedback", "explicit") == "implicit":
        return {}, {}, {}
    i, j = (
        np.where(places < size, places, -1)
        for places, size in zip((test.rows, test.columns), known.shape, strict=True)
    )
    mean = np.full(test.n_observed, known.values.mean(dtype=np.float64))
    predictions = model._at(i, j), mean, MeanRatings().fit(known)._at(i, j)
    return tuple({"rmse": rmse(test, p), "mae": mae(test, p)} for p in predictions)  # type: ignore[return-value]


def _as_tall(known: Observed, test: Observed) -> Observed:
    """The training entries with rows, empty ones, for users that only the test has."""
    extra = test.shape[0] - known.shape[0]
    if not extra:
        return known
    indptr = np.append(known.by_row.indptr, np.full(extra, known.n_observed))
    by_row = known.by_row._replace(indptr=indptr)
    return Observed(by_row, known.by_column, (test.shape[0], known.shape[1]))
