"""Claims that other rows give the same clusters: fits to disjoint parts of the rows, compared on rows that neither has seen.

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

Where several clusterings are as good as each other (four corners in two halves), the parts choose among them independently, as
far as searches know them: one that a part has met is a start for those after it. Suppose that at most half of all samples
prefer the model's clustering, and that a search which does not know the other one misses it with probability m. Then all
twelve parts end in the model's with probability 2⁻¹²(1 − m)/(1 − 2m) + m¹²: some miss the other, and once it is known the rest
agree by chance. Twice that, whichever of two the model has, is below 2⁻⁹ for m ≤ 0.4. So what holds is shown on twelve parts;
what fails is shown on three, which have more rows to find their clusters with.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from lemmata.audit.clustering import nearest_centres
from lemmata.audit.clustering.nearest_centres import nearest, purse, sizes, squared_distances
from lemmata.audit.kernel import claims
from lemmata.audit.kernel.concentration import clopper_pearson
from lemmata.core.blocks import Blocks

Array = np.ndarray
MANY_PARTS, FEW_PARTS = 12, 3
STARTS, LONGEST = 3, 15  # random starts of a fit that is paid for, and steps of each
RISK = 0.0025  # of all bounds of one kind together
LUCK = 2.0 ** (3 - MANY_PARTS)  # all parts choose the same of two clusterings, or miss the other
BAND = 0.15  # of the distance of two centres: half the width of the bands in which rows are counted
PER_CLUSTER, LEAST_ROWS = 400, 5000  # rows that are looked at, if there are so many
ROOM = 2**25  # numbers of them
FOUND_AGAIN = 0.75  # of a cluster, by the Jaccard index
# of the density at a centre; two equal Gaussians 4 standard deviations apart have 0.34
VALLEY = 1 / 3
CONFIDENCE = 0.99
SOURCE = "CIL20 6.2.1"
# the bounds of either claim, on twelve and on three parts, and luck
assert 3 * RISK + LUCK <= 1 - CONFIDENCE


def rows_wanted(n: int, d: int, k: int) -> int:
    return min(n, max(PER_CLUSTER * k, LEAST_ROWS), max(ROOM // d, 1))


def refit_work(rows: int, d: int, k: int) -> float:
    """Every row is in a fit from each start, twice, at some 2 multiplications a nanosecond and 2 ms to begin; and is then
    labelled by all fits."""
    parts = MANY_PARTS + FEW_PARTS
    return rows * d * k * ((STARTS + 1.0) * LONGEST + 2 * parts) + (STARTS + 1) * parts * 2e6


def sample_rows(data: Blocks, frame: nearest_centres.Frame, most: int) -> tuple[Array, Array]:
    """Some rows of positive weight, evenly at random, dense and in the units of the frame; and their weights."""
    weights = frame.weights(data.shape[0], data.weights)
    chosen = np.flatnonzero(weights > 0)
    if len(chosen) > most:
        chosen = np.sort(np.random.default_rng(0).choice(chosen, most, replace=False))
    return frame.take(data, chosen), weights[chosen]


@dataclass(frozen=True)
class Refits:
    """Fits to parts of the rows compared, for k clusters: bounds that hold together with probability 1 − RISK per kind."""

    rows: int  # of the data that took part
    again: Array  # (comparisons, k) Ĵ, how much of a cluster is found again
    surely: Array  # (comparisons, k) at least
    at_best: Array  # (comparisons, k) at most
    valley_most: Array  # (k, k) the density at the border as a share of that at the first centre, at most; NaN: the same
    valley_least: Array  # (k, k) and at least

    @classmethod
    def of(
        cls, X: Array, w: Array, centers: Array, parts: int, search: Callable, least: float = 0.0
    ) -> Refits | None:
        """Compare fits; None where rows are too few for so many, or a search finds none. Ends as soon as a cluster is not
        surely found again to `least`."""
        k = len(centers)
        if len(X) < 2 * parts * k:
            return None
        rng = np.random.default_rng(0)
        part = rng.permutation(np.arange(len(X)) % parts)
        ours = squared_distances(X, centers).argmin(axis=1)
        risk = RISK / (2 * parts * k)
        starts, bounds = [centers], list[tuple[Array, Array, Array]]()
        bands: list[tuple[Array, Array, Array]] = []

        @cache
        def refit(j: int) -> tuple[Array, Array] | None:
            X_j, w_j = X[part == j], w[part == j]
            with nearest_centres.one_blas_thread():
                shown = search("refit_centers", X_j, w_j, starts, j)
            if shown is None or not _is_fit(shown[0], X_j, w_j, centers):
                return None
            starts.extend(shown[1:])  # nearly as good here: later parts may prefer them
            return shown[0], squared_distances(X, shown[0]).argmin(axis=1)

        for i in range(parts):
            j = (i + 1) % parts
            seen = (part == i) | (part == j)
            new = ~seen
            here, there = refit(i), refit(j)
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


def _is_fit(found: Any, X: Array, w: Array, centers: Array) -> bool:
    """Whether centres cost a part of the rows no more than the model's after one of Lloyd's steps on this part."""
    k, d = centers.shape
    if not nearest_centres.are_centers(found, k, d) or len(found) < k:
        return False
    D = squared_distances(X, centers)
    table = nearest_centres.members(D.argmin(axis=1), w, k)
    weight = table.sum(axis=0)
    shifts = nearest_centres.sum_by(table, X) - weight[:, None] * centers
    gains = (shifts**2).sum(axis=1)[weight > 0] / weight[weight > 0]
    cost, size = (
        float(w @ squared_distances(X, found).min(axis=1)),
        nearest_centres.squares_of(X) + D.max(),
    )
    slack = claims.rounding(np.float64, d) * float(w @ size)
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

    def sum_of_either(w: Array) -> tuple[Array, Array]:
        both = np.bincount(one[same], w[same], k)
        return np.bincount(one, w, k) + np.bincount(two, w, k) - both, both

    (either, both), (squares, _) = sum_of_either(w), sum_of_either(w**2)
    with np.errstate(divide="ignore", invalid="ignore"):
        counts = np.where(squares > 0, either**2 / squares, 0.0)
        return np.where(either > 0, np.minimum(both / either, 1.0), 0.0), counts


def _bands(X: Array, w: Array, labels: Array, C: Array) -> tuple[Array, Array, Array]:
    """For every pair of clusters the weight of rows at the border and at the first centre, seen along the line of the centres,
    and the number of rows that count."""
    k = len(C)
    border, center, border_squares, center_squares = np.zeros((4, k, k))
    D, between = squared_distances(X, C), squared_distances(C, C)
    np.fill_diagonal(between, 0.0)
    apart = np.where(between > 0, 2 * between, math.inf)
    for a in range(k):
        mine = labels == a
        t = (D[mine, a, None] - D[mine]) / apart[a]  # −½ at a, 0 at the border, ½ at the other
        middle, near = np.abs(t) <= BAND, np.abs(t + 0.5) <= BAND
        border[a], border_squares[a] = w[mine] @ middle, w[mine] ** 2 @ middle
        center[a], center_squares[a] = w[mine] @ near, w[mine] ** 2 @ near
    border, squares = border + border.T, border_squares + border_squares.T + center_squares
    border[between == 0] = squares[between == 0] = 0.0
    return border, center, (border + center) ** 2 / np.maximum(squares, np.finfo(float).tiny)


def _valleys(bands: list[tuple[Array, Array, Array]], k: int) -> tuple[Array, Array]:
    """Bounds on the density at the border / the density at the first centre, the mean over the parts.

    Of the rows in the two bands, which are equally wide, q = ratio/(1 + ratio) are at the border.
    """
    risk, off, bounds = RISK / max(3 * k * (k - 1), 1), ~np.eye(k, dtype=bool), []
    for border, center, counts in bands:
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(border + center > 0, border / (border + center), 0.0)
        bounds.append(clopper_pearson(share * counts, counts, 2 * risk))
    least, most = np.mean(bounds, axis=0)
    with np.errstate(divide="ignore"):
        ratios = [np.where(q < 1, q / (1 - q), math.inf) for q in (most, least)]
    return np.where(off, ratios[0], math.nan), np.where(off, ratios[1], math.nan)


# --- the claims -------------------------------------------------------------------------------------------------------


def _least_rows(fit: claims.Fit) -> int:
    n, d, k = sizes(fit)
    return min(rows_wanted(n, d, k), 100 * k)


def _least_refit_work(fit: claims.Fit) -> float:
    _, d, k = sizes(fit)
    return refit_work(_least_rows(fit), d, k)


@claims.fact(cost=_least_refit_work, needs=(nearest,))
def some_rows(fit: claims.Fit) -> tuple[Array, Array]:
    """Return as many rows, and their weights, as there is work to fit parts of them; its price is that of the fits."""
    n, d, k = sizes(fit)
    most, rows = purse(fit).allowance("refits", fit.work), rows_wanted(n, d, k)
    if math.isfinite(most):
        per_row = refit_work(1_000_000, d, k) / 1_000_000
        rows = max(min(rows, int(most / per_row)), _least_rows(fit))
    purse(fit).spent["refits"] = refit_work(rows, d, k)
    return sample_rows(fit.data, nearest(fit).frame, rows)


@claims.fact(cost=claims.free, needs=(some_rows,))
def many_refits(fit: claims.Fit) -> Refits | None:
    """Compare fits to twelve parts of the rows; None where there are none. Less than a cluster found again is of no use."""
    X, w = some_rows(fit)
    return Refits.of(X, w, nearest(fit).centers, MANY_PARTS, fit.witness, FOUND_AGAIN)


@claims.fact(cost=claims.free, needs=(some_rows,))
def few_refits(fit: claims.Fit) -> Refits:
    """Compare fits to three parts of the rows."""
    X, w = some_rows(fit)
    found = Refits.of(X, w, nearest(fit).centers, FEW_PARTS, fit.witness)
    if found is None:
        few = len(X) < 2 * FEW_PARTS * len(fit.cluster_centers_)
        raise claims.CannotTell(
            "too few rows for other fits" if few else "no search fitted parts of the rows"
        )
    return found


@claims.statistical(
    "fits to disjoint parts of the rows share at least 3/4 of every cluster",
    SOURCE,
    confidence=0.99,
    needs=(few_refits, many_refits),
)
def found_again(fit):
    """Holds if every comparison of twelve fits shows it of every cluster; fails if the mean over three is shown to be below.

    The risk is that of the bounds, and 2⁻⁹ for luck: 1 − confidence is more than both.
    """
    if len(fit.cluster_centers_) < 2:
        return claims.unknown("one cluster has one labelling")
    unit, many = "share found again", many_refits(fit)
    if many is not None and many.surely.min() >= FOUND_AGAIN:
        note = f"{many.rows:,} rows in {MANY_PARTS} parts"
        return claims.at_least(many.surely.min(), FOUND_AGAIN, unit=unit, note=note)
    few = few_refits(fit)
    # comparisons of two fits to parts, and of the model with one of them
    most = np.minimum(few.at_best[::2].mean(axis=0), few.at_best[1::2].mean(axis=0))
    worst = int(most.argmin())
    if most[worst] < FOUND_AGAIN:
        advice = "labels depend on which rows were drawn: lower n_clusters, raise n_init, or take more rows"
        note = f"cluster {worst}, {few.rows:,} rows in {FEW_PARTS} parts"
        return claims.at_least(most[worst], FOUND_AGAIN, advice, unit, note)
    share = float(few.again.mean(axis=0).min())
    return claims.unknown(f"{share:.0%} of one found again; more rows would tell", share, unit)


@claims.statistical(
    "at its borders a cluster is at most 1/3 as dense as at its centre",
    SOURCE,
    confidence=0.99,
    needs=(few_refits, many_refits),
)
def separated(fit):
    """The density of fresh rows at the border, seen along the line of two centres, over that at the sparser of them.

    An even cloud cut in two has 1, two equal Gaussians Δ standard deviations apart about 2 exp(−Δ²/8). Cells of a cloud in
    many dimensions are narrow at their borders whatever the density; but they are not found again.
    """
    if len(fit.cluster_centers_) < 2:
        return claims.unknown("one cluster has no border")
    unit, few = "density at a border / at a centre", few_refits(fit)
    least = np.nan_to_num(few.valley_least, nan=-1.0)
    a, b = np.unravel_index(int(least.argmax()), least.shape)
    if least[a, b] > VALLEY:
        advice = "a border may cut through one cluster: lower n_clusters, or use a mixture"
        return claims.at_most(least[a, b], VALLEY, advice, unit, note=f"clusters {a} and {b}")
    many = many_refits(fit)
    if many is None or many.surely.min() < FOUND_AGAIN:
        return claims.unknown("clusters that are not surely found again have no borders to look at")
    most = float(np.nanmax(many.valley_most))
    if most > VALLEY:
        return claims.unknown(f"at most {most:.2g} as dense; more rows would tell", most, unit)
    return claims.at_most(most, VALLEY, unit=unit, note=f"{many.rows:,} rows in {MANY_PARTS} parts")
