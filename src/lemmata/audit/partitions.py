"""What theory promises about k-means, checked on the data by plain code.

Everything is recomputed from the rows and the public attributes `cluster_centers_` and, where it is there, `labels_`; so the
claims certify scikit-learn's KMeans and MiniBatchKMeans as well as ours. None of this code is used by a solver.

A gap is decided from two sides: a lower bound on the optimum (`gap.py`) shows that the cost is within some percent of it, and
better centres, found by a few restarts, show that it is not. Where neither does, the claim can't tell, and says what is known.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score

from lemmata.audit.partition_bounds import Gap, certified_gap
from lemmata.audit.separation_bound import Frame, Partition, squared_distances
from lemmata.core.blocks import Blocks
from lemmata.core.certificate import (
    RULE_OF_THUMB,
    Fit,
    at_least,
    at_most,
    claim,
    passes,
    rounding,
    unknown,
)

Array = np.ndarray
ONE_MORE_STEP = 1e-4  # of the cost: what another of Lloyd's steps may still gain at what is called a fixed point
GAP = 0.05
SEPARATION = 2.0  # standard deviations on either side; an even cloud cut in pieces has 1.73 to 1.90
AGREEMENT = 0.9  # adjusted Rand index
SAMPLE, FEWEST = 10_000, 1_000  # rows for restarts: at most, and at least if there are so many
ROOM = 2**25  # numbers of them
RESTARTS = 4
LABELS = 2**16  # counted at a time


@dataclass(frozen=True)
class Facts:
    """What the cheap claims compare, from one plain pass over the data."""

    nearest: Partition  # every row at its nearest centre
    labelled: float  # Σ w‖x − c_label‖² with the model's own labels, in the units of the partition; NaN without labels
    misplaced: float  # the weight of rows that are nearer to another centre, as a share; NaN without labels


def facts(fit: Fit) -> Facts:
    if "kmeans" not in fit.memory:
        fit.memory["kmeans"] = _facts(fit)
    return fit.memory["kmeans"]


def _facts(fit: Fit) -> Facts:
    found = Partition.of(fit.data, fit.cluster_centers_)
    labels = _labels(fit)
    if labels is None:
        return Facts(found, math.nan, math.nan)
    start, cost, misplaced, C = 0, 0.0, 0.0, found.centers
    for X, w in found.frame.rows(fit.data):
        here = labels[start : start + len(X)]
        own = ((X - C[here]) ** 2).sum(axis=1)
        D = squared_distances(X, C)
        best = ((X - C[D.argmin(axis=1)]) ** 2).sum(axis=1)
        cost += float(w @ own)
        # ties are nobody's fault: distances are known to the rounding of the rows' own dtype
        slack = rounding(_dtype(fit), X.shape[1]) * (
            np.einsum("ij,ij->i", X, X) + (C**2).sum(axis=1).max()
        )
        misplaced += float(w @ (own > best + slack))
        start += len(X)
    return Facts(found, cost, misplaced / found.weight.sum())


def _labels(fit: Fit) -> Array | None:
    """The model's own labels of these rows; None if it has none, or those of other rows (a last batch)."""
    labels = (
        np.asarray(fit.labels_)
        if fit.has("labels_") and fit.labels_ is not None
        else np.empty(0, dtype=int)
    )
    k = len(fit.cluster_centers_)
    return (
        labels
        if labels.shape == (fit.data.shape[0],) and labels.min() >= 0 and labels.max() < k
        else None
    )


def _dtype(fit: Fit) -> np.dtype:
    return (
        np.result_type(fit.data.dtype, np.float32)
        if fit.data.dtype == np.float32
        else np.dtype(np.float64)
    )


# --- restarts ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Others:
    """Other fits to (a sample of) the same rows."""

    agreement: float  # mean adjusted Rand index of their labels with the model's
    centers: Array  # those of the best, improved on all rows by one step
    cost: float  # of these centres on all rows, in the units of the model's partition


def others(fit: Fit) -> Others:
    if "others" not in fit.memory:
        fit.memory["others"] = _others(fit)
    return fit.memory["others"]


def _others(fit: Fit) -> Others:
    found = facts(fit).nearest
    X, w = _sample(fit.data, found.frame)
    ours = squared_distances(X, found.centers).argmin(axis=1)
    k = min(len(found.centers), len(np.unique(X, axis=0)))
    refits = [
        KMeans(k, n_init=1, random_state=seed).fit(X, sample_weight=w) for seed in range(RESTARTS)
    ]
    agreement = float(np.mean([adjusted_rand_score(ours, refit.labels_) for refit in refits]))
    best = min(refits, key=lambda refit: refit.inertia_)
    outside = found.frame.outside
    once = Partition.of(fit.data, outside(best.cluster_centers_), found.frame)
    twice = Partition.of(fit.data, outside(once.means), found.frame)
    return Others(agreement, outside(once.means), twice.cost)


def _sampled(data: Blocks) -> int:
    """How many rows restarts look at: SAMPLE, or what wide (usually sparse) rows leave room for."""
    return min(data.shape[0], SAMPLE, max(FEWEST, ROOM // data.shape[1]))


def _sample(data: Blocks, frame: Frame) -> tuple[Array, Array]:
    """Some rows of positive weight, evenly at random, dense and in the units of the frame."""
    most = _sampled(data)
    weights = frame.weights(data.shape[0], data.weights)
    candidates = np.flatnonzero(weights > 0)
    if len(candidates) > most:
        candidates = np.sort(np.random.default_rng(0).choice(candidates, most, replace=False))
    parts, start = [], 0
    for rows, _ in data:
        here = candidates[
            np.searchsorted(candidates, start) : np.searchsorted(candidates, start + rows.shape[0])
        ]
        part = rows[here - start]
        parts.append(frame.inside(part.toarray() if sp.issparse(part) else part))
        start += rows.shape[0]
    return np.concatenate(parts), weights[candidates]


def proved_gap(fit: Fit) -> Gap:
    """The certified gap, built around the best centres known; computed once per certificate."""
    if "gap" not in fit.memory:
        better = others(fit).cost < facts(fit).nearest.cost
        guide = others(fit).centers if better else None
        fit.memory["gap"] = certified_gap(fit.data, fit.cluster_centers_, guide=guide)
    return fit.memory["gap"]


# --- claims -----------------------------------------------------------------------------------------------------------


@claim("the cost never rose", kind=RULE_OF_THUMB, source="CIL20 6.2.1", about="run")
def never_rose(fit):
    """A mean is known to the rounding of its dtype, so a cost as small as that moves about: rows repeated, cost zero."""
    C = np.asarray(fit.cluster_centers_)
    error, weight = (
        rounding(C.dtype, C.shape[1]),
        0.0 if fit.data is None else fit.data.total_weight,
    )
    least = weight * float(np.abs(C, dtype=np.float64).max() * error) ** 2 * C.shape[1]
    largest = float(fit.trace.objective.max())
    return at_most(
        fit.trace.largest_rise,
        error + (least / largest if largest > 0 else 0.0),
        unit="largest rise",
    )


@claim("no cluster is empty", kind=RULE_OF_THUMB, source="CIL20 6.2.1")
def no_empty_cluster(fit):
    """The notes re-seed an empty cluster at random; a centre without rows is one that the cost could have used."""
    if fit.data is None:
        return unknown("needs the data")
    labels = _labels(fit)  # a count of labels costs nothing beside a pass over the rows
    weight = facts(fit).nearest.weight if labels is None else _counted(labels, fit)
    advice = "fewer clusters than n_clusters: start anew (n_init), or lower n_clusters"
    return at_least(int((weight > 0).sum()), len(weight), unit="clusters with rows", advice=advice)


def _counted(labels: Array, fit: Fit) -> Array:
    """The weight of each label, in slices: NumPy counts 64-bit integers only, and such a copy takes twice the size of all."""
    total = np.zeros(len(fit.cluster_centers_))
    for start in range(0, len(labels), LABELS):
        some = slice(start, start + LABELS)
        total += np.bincount(
            labels[some], None if fit.weights is None else fit.weights[some], len(total)
        )
    return total


@claim(
    "a fixed point: rows at their nearest centre, centres at the mean of their rows",
    kind=RULE_OF_THUMB,
    source="CIL20 6.2.1",
    cost=passes(),
)
def fixed_point(fit):
    """What one more of Lloyd's steps would gain, as a share of the cost: both conditions, in the currency that is minimised.

    Moving the centre of a cluster of weight W by δ to its mean lowers the cost by exactly W‖δ‖².
    """
    known = facts(fit)
    found = known.nearest
    if found.cost <= found.rounding:
        return at_most(0.0, ONE_MORE_STEP, unit="gain of a step / cost", note="the cost is zero")
    full = found.weight > 0
    shift = ((found.sums[full] ** 2).sum(axis=1) / found.weight[full]).sum() / found.cost
    labelled = not math.isnan(known.labelled)
    reassigned = max(known.labelled / found.cost - 1, 0.0) if labelled else 0.0
    where = (
        f"{known.misplaced:.2%} of the rows nearer to another centre"
        if labelled
        else "no labels to compare"
    )
    bound = max(
        ONE_MORE_STEP, rounding(np.asarray(fit.cluster_centers_).dtype, found.centers.shape[1])
    )
    return at_most(
        shift + reassigned,
        bound,
        unit="gain of a step / cost",
        advice="Lloyd's iteration has not converged: raise max_iter, lower tol, or (MiniBatchKMeans) finish with KMeans",
        note=f"centres off their means: {shift:.1e} of the cost; {where}",
    )


@claim(
    "the cost is within 5 % of the best possible",
    kind=RULE_OF_THUMB,
    source="CIL20 6.2.1",
    cost=passes(),
)
def certified_near_optimum(fit):
    proved = proved_gap(fit)
    confident = f", confidence {proved.confidence:.0%}" if proved.confidence < 1 else ""
    if proved.gap <= GAP:
        return at_most(
            proved.gap, GAP, unit="cost / lower bound − 1", note=f"{proved.bound} bound{confident}"
        )
    excess = _excess(fit)
    if excess > GAP:
        advice = "a local optimum: raise n_init, or use k-means++ seeding"
        return at_most(
            excess,
            GAP,
            unit="cost / cost of better centres − 1",
            advice=advice,
            note="restarts found better",
        )
    # what is known, in a few words that fit beside the claim
    surely = f"sampled, {proved.confidence:.0%}" if proved.confidence < 1 else proved.bound
    most = f"within {proved.gap:.0%} ({surely})" if proved.gap < 10 else "no bound says anything"
    found = "no better" if excess < 5e-4 else f"{excess:.1%} better"
    return replace(unknown(f"{most}; restarts {found}"), measured=proved.gap, relation="≤")


def _excess(fit: Fit) -> float:
    """By how much the cost exceeds that of the best centres known."""
    found, other = facts(fit).nearest, others(fit).cost
    if found.cost <= found.rounding:
        return 0.0
    return found.cost / other - 1 if other > 0 else math.inf


@claim(
    "within the factor that k-means++ promises on average",
    kind=RULE_OF_THUMB,
    source="CIL20 6.2.2",
    cost=passes(),
)
def seeding_factor(fit):
    """8(ln k + 2) times the optimum (Arthur & Vassilvitskii 2007) is what D² sampling alone costs on average.

    The notes give the order ln k only. The promise is one about the mean over seeds, so a single fit may miss it.
    """
    factor = 8 * (math.log(len(fit.cluster_centers_)) + 2)
    note = "a promise about the mean over random seeds"
    advice = "worse than seeds alone should be: use init='k-means++', or raise n_init"
    excess = _excess(fit) + 1
    if excess > factor:
        return at_most(
            excess, factor, unit="cost / cost of better centres", advice=advice, note=note
        )
    proved = proved_gap(fit)
    if proved.gap + 1 > factor:
        return unknown("no lower bound on the optimum is sharp enough")
    return at_most(proved.gap + 1, factor, unit="cost / lower bound", advice=advice, note=note)


@claim(
    "the clusters are apart, so labels mean something",
    kind=RULE_OF_THUMB,
    source="CIL20 6.2.1",
    cost=passes(),
)
def separated(fit):
    """The smallest distance of two centres, in units of both clusters' standard deviations along the line between them.

    A uniform cloud cut in two has pieces of length ℓ at distance ℓ with deviations ℓ/√12: √3 = 1.73; a Gaussian one has 1.33,
    hexagons in the plane 1.90. From 2 on, the border lies two deviations from either centre: 2.3 % of a Gaussian cluster's
    rows are beyond it. (In four and more dimensions very many cells of one even cloud may pass.)

    Means of a few rows in many dimensions lie apart by chance: ‖c_a − c_b‖² is too large by the variances of the two means,
    cost_a/(W_a(n_a − 1)) + …, with n = W²/Σw² rows that count. These are taken off first.
    """
    found = facts(fit).nearest
    full = np.flatnonzero(found.weight > 0)
    if len(full) < 2:
        return unknown("fewer than two clusters have rows")
    between = squared_distances(found.centers[full], found.centers[full])
    chance = _variance_of_mean(found)[full]
    # deviation times distance
    spread = np.sqrt(found.along[np.ix_(full, full)] / found.weight[full, None])
    np.fill_diagonal(between, np.inf)
    with np.errstate(divide="ignore", invalid="ignore"):
        apart = between - chance[:, None] - chance
        ratios = np.where(apart > 0, apart / (spread + spread.T), 0.0)
    a, b = np.unravel_index(ratios.argmin(), ratios.shape)
    return at_least(
        ratios[a, b],
        SEPARATION,
        unit="distance / deviations",
        advice="the labels are not to be trusted: a border may cut through one cluster; lower n_clusters, or use a mixture",
        note=f"clusters {full[a]} and {full[b]}",
    )


def _variance_of_mean(found: Partition) -> Array:
    """How far the mean of each cluster is, squared and on average, from where more rows would put it; 0 for a single row."""
    with np.errstate(divide="ignore", invalid="ignore"):
        others = found.weight**2 / found.squares - 1
        return np.where(others > 0, found.costs / (found.weight * others), 0.0)


@claim("restarts give the same labels", kind=RULE_OF_THUMB, source="CIL20 6.2.1", cost=passes())
def stable(fit):
    """The adjusted Rand index between the labels and those of a few fits from other random seeds, on average."""
    if len(fit.cluster_centers_) < 2:
        return unknown("one cluster has one labelling")
    return at_least(
        others(fit).agreement,
        AGREEMENT,
        unit="adjusted Rand",
        advice="the labels depend on the seed: raise n_init, or choose another n_clusters",
        note=f"mean over {RESTARTS} fits with one start each, {_sampled(fit.data):,} rows",
    )


KMEANS_CLAIMS = (
    never_rose,
    no_empty_cluster,
    fixed_point,
    certified_near_optimum,
    seeding_factor,
    separated,
    stable,
)
