"""Claims about the targets of rows: which classes can win a vote, and how right any function of the rows can be."""

from __future__ import annotations

from typing import Any

import numpy as np

from lemmata.audit.kernel import claims as k
from lemmata.audit.predict.neighbours.nearest_rows import take
from lemmata.audit.trust.seen_rows import row_keys

Array = np.ndarray
MOST = 0.9  # share of the most frequent class


@k.fact(cost=k.passes(10))
def groups_of(fit: k.Fit) -> Array:
    """Give each row a number, the same for equal rows."""
    keys = np.concatenate(row_keys(*(block for block, _ in fit.data)))
    return np.unique(keys, return_inverse=True)[1].ravel()


def weights_of_votes(fit: k.Fit) -> Any:
    """Return how the model weighs votes; `fit.weights` are the weights of the rows."""
    return getattr(fit.model, "weights", "uniform")


def _class_counts(fit: k.Fit) -> Array:
    """Count the rows of each class. Raises CannotTell."""
    if np.ndim(fit.y) == 2:
        raise k.CannotTell("several outputs: certify them one by one")
    return np.bincount(fit.y, fit.weights, minlength=len(fit.classes_))


@k.proved(
    "every class has enough rows to win a vote: k over the number of classes",
    "by counting",
    cost=lambda fit: float(fit.data.shape[0]),
)
def classes_can_win(fit):
    """The winner of k votes has at least k/c, and a class has no more votes than rows."""
    counts = _class_counts(fit)
    if weights_of_votes(fit) not in ("uniform", None):
        return k.unknown("votes are weighted by distance: a single near row can win")
    least = int(np.argmin(counts))
    advice = f"class {fit.classes_.tolist()[least]!r} can never be predicted: lower n_neighbors, or weigh votes by distance"
    return k.at_least(counts[least], int(fit.n_neighbors) / len(counts), advice, unit="rows")


@k.rule_of_thumb(
    "no class has more than 90 % of the rows",
    "ML k-Nearest Neighbors",
    cost=lambda fit: float(fit.data.shape[0]),
)
def no_class_dominates(fit):
    counts = _class_counts(fit)
    most = int(np.argmax(counts))
    advice = f"most votes go to {fit.classes_.tolist()[most]!r} by number alone: judge by recall, or balance the classes"
    return k.at_most(counts[most] / counts.sum(), MOST, advice, unit="share")


@k.proved("equal rows have equal targets", "ML Bayes classifier", needs=(groups_of,))
def equal_rows_agree(fit):
    """Where they do not, no function of the rows can be right on all of them: a floor for every model on this data."""
    groups = groups_of(fit)
    y = np.asarray(fit.y)
    advice = "no model of these features can be right on all rows: add a feature that tells equal rows apart"
    if fit.has("classes_"):
        codes = np.unique(y, axis=0, return_inverse=True)[1].ravel()
        pairs = groups * (codes.max() + 1) + codes
        _, pair, counts = np.unique(pairs, return_inverse=True, return_counts=True)
        best = np.zeros(groups.max() + 1)
        np.maximum.at(best, groups, counts[pair.ravel()])
        floor = 1 - best.sum() / len(y)
        note = f"no model is right on more than {100 * (1 - floor):.1f} % of these rows"
        return k.at_most(floor, 0, advice, unit="least error", note=note if floor > 0 else "")
    y = y.astype(np.float64).reshape(len(y), -1)
    first = np.zeros(groups.max() + 1, np.int64)
    first[groups[::-1]] = np.arange(len(y))[::-1]
    apart = y - y[first[groups]]
    if not apart.any():
        return k.at_most(0, 0, advice, unit="least error")
    counts = np.bincount(groups)[:, None]
    means = np.stack([np.bincount(groups, column) for column in apart.T], axis=1) / counts
    inside, total = ((apart - means[groups]) ** 2).sum(), ((y - y.mean(axis=0)) ** 2).sum()
    note = f"no model leaves less than {100 * inside / total:.1f} % of the variance of these rows"
    least = max(inside / total, np.finfo(float).tiny)
    return k.at_most(least, 0, advice, unit="least error", note=note)


def first_among(fit: k.Fit, numbers: Array) -> Array:
    """Keep of these rows the first among their equals: copies of records must not vouch for each other."""
    (keys,) = row_keys(take(fit, numbers))
    return numbers[np.unique(keys, return_index=True)[1]]


def firsts_of(fit: k.Fit) -> Array:
    """Which rows are the first among their equals: copies of records must not vouch for each other."""
    groups = groups_of(fit)
    return np.isin(np.arange(len(groups)), np.unique(groups, return_index=True)[1])
