"""Would other rows give the same clusters? Fits to disjoint parts of the rows, compared on rows that neither has seen.

Centres know the rows they were fitted to: a ring cut in arcs, single rows, or noise in many dimensions look like clusters on
these rows and on no others. So the rows are cut at random into parts; each is fitted by itself, and one fit is compared with
the next on the rows of the other parts. Given the two fits, these rows are independent of them, so that counts are binomial and
Clopper–Pearson's bounds hold whatever the law of the rows:

* Of a cluster, J = P(both fits say it)/P(either says it) is how much of it is found again (Jaccard; Hennig 2007).
* Between two clusters, the density of rows on the line through the centres, at the border against the sparser centre, is at
  least that of an even cloud (1) if one cluster was cut, and small if there is a valley.

The fits are searched for outside. The bounds hold for whatever centres come back, however well they were fitted: they compare
two given clusterings on rows that neither was made from. What makes them fits is checked, though: on its part each costs no
more than the model's centres after one of Lloyd's steps on that part. One thing ties them to the other rows: the search may
start from the model's centres, which have seen all rows, so that clusters are not missed for want of luck; this can change
which optimum of its part a fit ends in, nothing else.

Where several clusterings are as good as each other (four corners in two halves), the parts choose among them independently:
twelve times the same one, if at most half of all samples give it, with probability 2⁻¹¹ or less. So what holds is shown on
twelve parts; what fails is shown on three, which have more rows to find their clusters with.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import scipy.sparse as sp

from lemmata.audit.clustering.nearest_centres import (
    Frame,
    are_centers,
    members,
    one_blas_thread,
    squared_distances,
    squares_of,
    sum_by,
)
from lemmata.audit.kernel.claims import rounding
from lemmata.audit.kernel.concentration import clopper_pearson
from lemmata.core.blocks import Blocks

Array = np.ndarray
MANY_PARTS, FEW_PARTS = 12, 3
STARTS, LONGEST = 3, 15  # random starts of a fit that is paid for, and steps of each
RISK = 0.0025  # of all bounds of one kind together
LUCK = 2.0 ** (1 - MANY_PARTS)  # all parts choose the same of two clusterings
BAND = 0.15  # of the distance of two centres: half the width of the bands in which rows are counted
PER_CLUSTER, LEAST_ROWS = 400, 5000  # rows that are looked at, if there are so many
ROOM = 2**25  # numbers of them


def rows_wanted(n: int, d: int, k: int) -> int:
    return min(n, max(PER_CLUSTER * k, LEAST_ROWS), max(ROOM // d, 1))


def refit_work(rows: int, d: int, k: int) -> float:
    """Every row is in a fit from each start, twice, at some 2 multiplications a nanosecond and 2 ms to begin; and is then
    labelled by all fits."""
    parts = MANY_PARTS + FEW_PARTS
    return rows * d * k * ((STARTS + 1.0) * LONGEST + 2 * parts) + (STARTS + 1) * parts * 2e6


def sample_rows(data: Blocks, frame: Frame, most: int) -> tuple[Array, Array]:
    """Some rows of positive weight, evenly at random, dense and in the units of the frame; and their weights."""
    weights = frame.weights(data.shape[0], data.weights)
    chosen = np.flatnonzero(weights > 0)
    if len(chosen) > most:
        chosen = np.sort(np.random.default_rng(0).choice(chosen, most, replace=False))
    parts, start = [], 0
    for rows, _ in data:
        first, last = np.searchsorted(chosen, [start, start + rows.shape[0]])
        part = rows[chosen[first:last] - start]
        parts.append(frame.inside(part.toarray() if sp.issparse(part) else part))
        start += rows.shape[0]
    return np.concatenate(parts), weights[chosen]


@dataclass(frozen=True)
class Refits:
    """What fits to parts of the rows say of k clusters: bounds that hold together with probability 1 − RISK per kind."""

    rows: int  # of the data that took part
    again: Array  # (comparisons, k) Ĵ, how much of a cluster is found again
    surely: Array  # (comparisons, k) at least
    at_best: Array  # (comparisons, k) at most
    valley_most: Array  # (k, k) the density at the border as a share of that at the first centre, at most; NaN: the same
    valley_least: Array  # (k, k) and at least

    @classmethod
    def of(
        cls,
        X: Array,
        w: Array,
        centers: Array,
        parts: int,
        search: Callable[..., Any],
        least: float = 0.0,
    ) -> Refits | None:
        """Compare fits; None where rows are too few for so many, or nobody fits them. Ends as soon as a cluster is not surely
        found again to `least`."""
        k = len(centers)
        if len(X) < 2 * parts * k:
            return None
        rng = np.random.default_rng(0)
        part = rng.permutation(np.arange(len(X)) % parts)
        ours = squared_distances(X, centers).argmin(axis=1)
        risk = RISK / (2 * parts * k)
        bounds: list[tuple[Array, Array, Array]] = []
        bands: list[tuple[Array, Array, Array]] = []

        @cache
        def fitted(j: int) -> tuple[Array, Array] | None:
            X_j, w_j = X[part == j], w[part == j]
            with one_blas_thread():
                found = search("refit_centers", X_j, w_j, centers, j)
            if not _is_fitted(found, X_j, w_j, centers):
                return None
            return found, squared_distances(X, found).argmin(axis=1)

        for i in range(parts):
            j = (i + 1) % parts
            seen = (part == i) | (part == j)
            new = ~seen
            here, there = fitted(i), fitted(j)
            if here is None or there is None:
                return None
            (fit, first), (_, second) = here, there
            names = _match(ours[seen], first[seen], w[seen], k)
            one, two = names[first], _match(ours[seen], second[seen], w[seen], k)[second]
            for pair in ((one, two), (ours, one)):
                J, counts = _overlaps(pair[0][new], pair[1][new], w[new], k)
                bounds.append((J, *clopper_pearson(J * counts, counts, 2 * risk)))
            if i % (parts // 3) == 0:
                ordered = np.empty_like(fit)
                ordered[names] = fit
                bands.append(_bands(X[new], w[new], one[new], ordered))
            if min(bound[1].min() for bound in bounds[-2:]) < least:
                break
        again, surely, at_best = (np.stack(part) for part in zip(*bounds, strict=True))
        return cls(len(X), again, surely, at_best, *_valleys(bands, k))


def _is_fitted(found: Any, X: Array, w: Array, centers: Array) -> bool:
    """Whether centres cost a part of the rows no more than the model's after one of Lloyd's steps on this part."""
    k, d = centers.shape
    if not are_centers(found, k, d) or len(found) < k:
        return False
    D = squared_distances(X, centers)
    table = members(D.argmin(axis=1), w, k)
    weight = table.sum(axis=0)
    shifts = sum_by(table, X) - weight[:, None] * centers
    gains = (shifts**2).sum(axis=1)[weight > 0] / weight[weight > 0]
    cost, size = float(w @ squared_distances(X, found).min(axis=1)), squares_of(X) + D.max()
    slack = rounding(np.float64, d) * float(w @ size)
    return cost <= float(w @ D.min(axis=1)) - float(gains.sum()) + slack


def _match(ours: Array, theirs: Array, w: Array, k: int) -> Array:
    """For every one of their labels the one of ours that it shares most with, one to one."""
    from scipy.optimize import linear_sum_assignment

    table = np.zeros((k, k))
    np.add.at(table, (theirs, ours), w)
    return linear_sum_assignment(-table)[1]


def _overlaps(one: Array, two: Array, w: Array, k: int) -> tuple[Array, Array]:
    """Ĵ of every cluster, and how many rows that is a share of: (Σw)²/Σw² of those that either fit gives to it."""
    same = one == two
    both = np.bincount(one[same], w[same], k)
    first, second = (np.bincount(labels, w, k) for labels in (one, two))
    twice = [np.bincount(labels, w**2, k) for labels in (one, two)]
    either, squares = first + second - both, sum(twice) - np.bincount(one[same], w[same] ** 2, k)
    with np.errstate(divide="ignore", invalid="ignore"):
        counts = np.where(squares > 0, either**2 / squares, 0.0)
        return np.where(either > 0, np.minimum(both / either, 1.0), 0.0), counts


def _bands(X: Array, w: Array, labels: Array, C: Array) -> tuple[Array, Array, Array]:
    """For every pair of clusters the weight of rows at the border and at the first centre, seen along the line of the centres,
    and the number of rows that count."""
    k = len(C)
    border, center, counts = (np.zeros((k, k)) for _ in range(3))
    D, between = squared_distances(X, C), squared_distances(C, C)
    for a, b in _pairs(k):
        if between[a, b] == 0:
            continue
        some = (labels == a) | (labels == b)
        t = (D[some, a] - D[some, b]) / (2 * between[a, b])  # −½ at a, 0 at the border, ½ at b
        here = w[some]
        middle = np.abs(t) <= BAND
        for first, second, side in ((a, b, t + 0.5), (b, a, t - 0.5)):
            near = np.abs(side) <= BAND
            border[first, second], center[first, second] = here[middle].sum(), here[near].sum()
            both = np.concatenate([here[middle], here[near]])
            counts[first, second] = both.sum() ** 2 / max((both**2).sum(), np.finfo(float).tiny)
    return border, center, counts


def _pairs(k: int) -> Iterator[tuple[int, int]]:
    return ((a, b) for a in range(k) for b in range(a + 1, k))


def _valleys(bands: list[tuple[Array, Array, Array]], k: int) -> tuple[Array, Array]:
    """Bounds on the density at the border / the density at the first centre, the mean over the parts.

    Of the rows in the two bands, which are equally wide, q = ratio/(1 + ratio) are at the border.
    """
    risk = RISK / max(3 * k * (k - 1), 1)
    most, least = [], []
    for border, center, counts in bands:
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(border + center > 0, border / (border + center), 0.0)
        low, high = clopper_pearson(share * counts, counts, 2 * risk)
        most.append(high)
        least.append(low)
    off = ~np.eye(k, dtype=bool)
    mean_most, mean_least = np.mean(most, axis=0), np.mean(least, axis=0)
    with np.errstate(divide="ignore"):
        ratios = [np.where(q < 1, q / (1 - q), math.inf) for q in (mean_most, mean_least)]
    return np.where(off, ratios[0], math.nan), np.where(off, ratios[1], math.nan)
