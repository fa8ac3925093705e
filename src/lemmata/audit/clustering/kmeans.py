"""Claims about k-means, checked on the data by plain code.

Everything is recomputed from the rows and the public attributes (`cluster_centers_` and, where they are there, `labels_`,
`inertia_`, `sums_`), so the claims certify scikit-learn's KMeans and MiniBatchKMeans as well as ours.

A gap is decided from two sides: a lower bound on the optimum (`kmeans_bounds.py`) shows that the cost is within some percent
of it, and better centres, found by a few restarts, show that it is not. Where neither does, the claim can't tell, and says what
is known. Whether clusters are more than cuts through a cloud is asked of rows that did not take part (`kmeans_refits.py`).

Checks that search take what the budget leaves them, each its share: with less of it they decide less, never otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lemmata.audit.clustering import nearest_centres
from lemmata.audit.clustering.kmeans_bounds import ENOUGH, WORK, Gap, gap_of
from lemmata.audit.clustering.kmeans_refits import found_again, separated
from lemmata.audit.clustering.nearest_centres import TINY, Partition, eps_of, nearest, pass_work
from lemmata.audit.kernel.attributes import (
    attributes_sound,
    discrepancy,
    never_rose,
    statements_true,
)
from lemmata.audit.kernel.claims import (
    PROVED,
    STATISTICAL,
    Evidence,
    Fit,
    at_least,
    at_most,
    fact,
    proved,
    rounding,
    unknown,
)

Array = np.ndarray
LAST_BATCH = "labels_ and inertia_ are those of the last batch, and these are other rows"
ONE_STEP = 1e-4  # of the cost
BATCH_STEP = 0.02  # of the cost, of mini-batches: defaults gain 0.1 to 0.5 % on thousands of rows, up to 2 % on a hundred
ALL_STEPS = 0.01  # of the cost
SETTLED = 1e-12  # of the cost: a step that gains no more has changed nothing
GAP = 0.05
LOCAL = "a local optimum, or none yet: raise n_init, use k-means++ seeding, or raise max_iter"
CONFIDENCE = 0.99
SOURCE = "CIL20 6.2.1"
RESTARTS, LONGEST = 4, 30  # that a search is paid for, and steps of each
SAMPLE, FEWEST = 10_000, 1_000  # rows for restarts: at most, and at least if there are so many


# --- what a fit states -------------------------------------------------------------------------------------------------


def _unsound(fit: Fit) -> Iterator[str]:
    k = len(fit.cluster_centers_)
    labels, sums = fit.get("labels_"), fit.get("sums_")
    if labels is not None and np.max(labels, initial=0) >= k:
        yield f"labels_ go up to {np.max(labels)}, but there are {k} centres"
    if sums is not None:
        counts, total = np.asarray(sums.counts), np.asarray(sums.sums)
        if counts.shape != (k,) or total.shape != np.shape(fit.cluster_centers_):
            yield f"sums_ has shapes {counts.shape} and {total.shape}"
        elif not (np.isfinite(counts).all() and np.isfinite(total).all() and (counts >= 0).all()):
            yield "sums_ is not finite, or negative"


SOUND = attributes_sound(
    {"cluster_centers_": "k d", "labels_?": "m >=0 int", "inertia_?": ">=0"}, _unsound
)


@dataclass(frozen=True)
class LabelledRows:
    """The clusters of the model's own labels, in the units of the partition's frame."""

    weight: Array  # (k,)
    means: Array  # (k, d) NaN where a label has no weight
    cost: float  # Σ w‖x − c_label‖²
    excess: float  # the largest own distance² − least distance², in units of its rounding
    squares: float  # Σ w(‖x‖² + ‖c‖²), where the library takes squares


def _read_labels(fit: Fit, labels: Array, found: Partition, eps: float, raw: bool) -> LabelledRows:
    """raw: the library squares numbers as they stand, rather than their differences from a common origin."""
    C, (k, d), start = found.centers, found.centers.shape, 0
    far = float(np.linalg.norm(found.frame.origin / found.frame.scale))
    longest = np.einsum("ij,ij->i", C, C).max()
    if np.array_equal(labels, found.labels):  # the one pass has found it all
        W = float(found.weight.sum())
        squares = found.squares + W * float(longest)
        means = np.where(found.weight[:, None] > 0, found.means, np.nan)
        reach = 2 * squares + 2 * W * far**2 if raw else squares
        return LabelledRows(found.weight, means, found.cost, 0.0, reach)
    weight, sums = np.zeros(k), np.zeros((k, d))
    cost = excess = squares = 0.0
    exact = np.finfo(np.float64).eps
    mixed = eps_of(fit.data.dtype) != eps_of(np.asarray(fit.cluster_centers_).dtype)
    for X, w in found.frame.slices(fit.data):
        here = labels[start : start + len(w)]
        D = nearest_centres.squared_distances(X, C)
        own, nearest_one = nearest_centres.own_squares(X, C, here, D), D.argmin(axis=1)
        best, other = own.copy(), np.flatnonzero(nearest_one != here)
        if len(other):
            best[other] = nearest_centres.own_squares(X[other], C, nearest_one[other], D[other])
        norms = nearest_centres.squares_of(X) + longest
        reach = 2 * norms + 2 * far**2 if raw else norms
        # Products of d terms err by rounding(d) of the squares they are made of. Rows of another precision than the fit's
        # moved by eps‖x‖, which changes a difference of two squared distances by 2 eps‖x‖‖c − c'‖.
        slack = 8 * math.sqrt(d) * eps * reach + 16 * exact * (norms + far**2 * exact)
        if mixed:
            slack = slack + 8 * eps * (np.sqrt(norms) + far) * (np.sqrt(own) + np.sqrt(best))
        excess = max(excess, float(((own - best) / np.maximum(slack, TINY)).max(initial=0)))
        weight, cost = weight + np.bincount(here, w, k), cost + float(w @ own)
        sums += nearest_centres.sum_by(nearest_centres.members(here, w, k), X)
        squares += float(w @ reach)
        start += len(w)
    with np.errstate(divide="ignore", invalid="ignore"):
        return LabelledRows(weight, sums / weight[:, None], cost, excess, squares)


def _own_labels(fit: Fit) -> Array | None:
    labels = fit.get("labels_")
    return None if labels is None else np.asarray(labels).astype(np.int64)


def _after_batches(fit: Fit) -> bool:
    """Whether labels and cost may be those of a last batch: ours says so, scikit-learn's has made steps without a fit."""
    if fit.get("stopped_") is not None:
        return str(fit.stopped_) == "batches"
    return fit.has("n_steps_") and not fit.has("n_iter_")


def _squares_as_they_stand(fit: Fit) -> bool:
    """Sparse rows are not centred, nor are the batches of scikit-learn's MiniBatchKMeans (ours keeps its sums)."""
    return fit.data.sparse or (fit.has("n_steps_") and not fit.has("sums_"))


def _errors(fit: Fit) -> Mapping[str, float]:
    """The distances of labels, cost and sums from those of the rows, in units of their rounding."""
    found, labels = nearest(fit), _own_labels(fit)
    if labels is not None and labels.shape != (fit.data.shape[0],):
        return {"labels_": math.inf}
    eps = eps_of(fit.data.dtype, np.asarray(fit.cluster_centers_).dtype)
    raw, errors = _squares_as_they_stand(fit), {}
    cost, squares, known = found.cost, 0.0, None
    if labels is not None:
        known = _read_labels(fit, labels, found, eps, raw)
        errors["labels_"], cost, squares = known.excess, known.cost, known.squares if raw else 0.0
    if fit.get("inertia_") is not None:
        errors["inertia_"] = _cost_error(fit, found, cost, eps, squares)
    of_batches = _after_batches(fit) or fit.has("n_steps_")  # sums are those of all batches, then
    if known is not None and fit.get("sums_") is not None and not of_batches:
        errors["sums_"] = _sums_error(fit, found, known, eps)
    return errors


def _cost_error(fit: Fit, found: Partition, cost: float, eps: float, squares: float) -> float:
    """|inertia_ − cost| in units of its rounding.

    n·d terms of one sign are summed. The centres are known to ‖δ‖ ≤ eps‖c‖, which moves the cost of a cluster by exactly
    W‖δ‖² − 2δ·Σw(x − c); where precisions differ the rows have moved by eps‖x‖, and the cost by 2√(E·cost) + E at most, E = Σ w
    eps²‖x‖². Squares that cancel err by their own size.
    """
    (n, d), frame = fit.data.shape, found.frame
    own = eps_of(np.asarray(fit.cluster_centers_).dtype)
    far = frame.origin / frame.scale
    reach = np.linalg.norm(found.centers + far, axis=1) * own  # of each centre
    slopes = np.linalg.norm(found.sums, axis=1)
    allowed = rounding(np.float32 if eps > 1e-10 else np.float64, n * d) * cost
    allowed += float(found.weight @ reach**2 + 2 * reach @ slopes)
    if eps_of(fit.data.dtype) != own:
        E = 4 * eps**2 * (cost + float(found.weight @ (reach / own) ** 2))
        allowed += 2 * math.sqrt(E * cost) + E
    allowed += 8 * math.sqrt(d) * eps * squares
    with np.errstate(over="ignore", under="ignore"):
        smallest = frame.cost_inside(TINY)  # where floats end
    error = abs(frame.cost_inside(float(fit.inertia_)) - cost)
    return float(error / max(allowed, smallest, TINY))


def _sums_error(fit: Fit, found: Partition, known: LabelledRows, eps: float) -> float:
    """Weights and means of the clusters, as the sums that `partial_fit` continues from give them."""
    counts, sums, n = np.asarray(fit.sums_.counts), np.asarray(fit.sums_.sums), fit.data.shape[0]
    weight, full = known.weight * found.frame.heavy, known.weight > 0
    error = discrepancy(counts, weight, max(weight.max(), TINY), 8e-16 * math.sqrt(n))
    if not full.any() or not (counts[full] > 0).all():
        return error
    means = found.frame.inside(sums[full] / counts[full, None])
    far = float(np.abs(found.frame.origin / found.frame.scale).max(initial=0.0))
    scale = far + np.abs(found.centers).max() + 1
    return max(error, discrepancy(means, known.means[full], scale, 8 * math.sqrt(n) * eps))


def _is_too_coarse(fit: Fit) -> bool:
    """Whether a library that squares numbers as they stand errs by more than a hundredth of the mean squared distance."""
    if not _squares_as_they_stand(fit):
        return False
    found = nearest(fit)
    far = found.frame.origin / found.frame.scale
    eps = eps_of(fit.data.dtype, np.asarray(fit.cluster_centers_).dtype)
    error = 8 * math.sqrt(len(far)) * eps * float(far @ far) * float(found.weight.sum())
    return error > 0.01 * found.cost > 0


_TRUE = statements_true(_errors, cost=pass_work, needs=(nearest,))


def _check_these_rows(fit: Fit) -> Evidence:
    """After `partial_fit`, labels and cost belong to the last batch: other rows cannot contradict them."""
    labels = _own_labels(fit)
    other_rows = labels is not None and len(labels) != fit.data.shape[0]
    if other_rows and (_after_batches(fit) or fit.has("n_steps_")):
        return unknown(LAST_BATCH)
    if _is_too_coarse(fit):
        return unknown("so far from 0, squares of this precision do not tell the rows apart")
    found = _TRUE.check(fit)
    return unknown(LAST_BATCH) if found.verdict == "fails" and _after_batches(fit) else found


TRUE = replace(_TRUE, check=_check_these_rows)


# --- the run, and the centres -----------------------------------------------------------------------------------------


def _rounding_of_costs(fit: Fit) -> float:
    """A mean is known to the rounding of its dtype, so a cost as small as that moves about: rows repeated, cost zero."""
    C = np.asarray(fit.cluster_centers_)
    error, weight = rounding(C.dtype, C.shape[1]), fit.data.total_weight if fit.has_data else 0.0
    largest = float(fit.trace.objective.max())
    with np.errstate(over="ignore", under="ignore"):
        reach = np.abs(C, dtype=np.float64).max() * error
        ratio = reach / math.sqrt(largest) if largest > 0 else 0.0
        return error + weight * ratio * ratio * C.shape[1]


ONE_BATCH = "one batch has one cost: there is nothing to compare"
NEVER_ROSE = never_rose("the cost never rose", SOURCE, _rounding_of_costs, needs_steps=ONE_BATCH)


@proved("every centre is the nearest one to at least one row", SOURCE, needs=(nearest,))
def no_empty_cluster(fit):
    """The notes re-seed an empty cluster at random; a centre without rows is one that the cost could have used."""
    weight = nearest(fit).weight
    advice = "fewer clusters than n_clusters: start again (n_init), or lower n_clusters"
    return at_least(int((weight > 0).sum()), len(weight), unit="clusters with rows", advice=advice)


@proved("the next step of Lloyd's algorithm lowers the cost by at most 0.01 %", SOURCE, needs=(nearest,))  # fmt: skip
def fixed_point(fit):
    """One step of Lloyd's: the centre of a cluster of weight W moved by δ to its mean lowers the cost by exactly W‖δ‖².

    For what further steps gain see `no_steps_left`.
    """
    return _judge_step(fit, ONE_STEP, "raise max_iter, or lower tol")


@proved("a step of Lloyd's algorithm on all rows lowers the cost by at most 2 %", SOURCE, needs=(nearest,))  # fmt: skip
def near_fixed_point(fit):
    """The same of mini-batches, whose centres are means of the rows they happened to be given."""
    return _judge_step(fit, BATCH_STEP, "finish with KMeans(init=model.cluster_centers_)")


def _judge_step(fit: Fit, bound: float, advice: str) -> Evidence:
    found, unit = nearest(fit), "gain of one step / cost"
    if found.cost <= found.rounding:
        return at_most(0.0, bound, unit=unit, note="the cost is zero")
    bound = max(bound, rounding(np.asarray(fit.cluster_centers_).dtype, found.centers.shape[1]))
    advice = f"Lloyd's iteration has not converged: {advice}"
    return at_most(found.shift / found.cost, bound, advice, unit)


@dataclass(frozen=True)
class LloydSteps:
    """Lloyd's steps from the model's centres, as far as the budget went."""

    end: Partition
    gains: tuple[float, ...]  # of each step, as a share of the cost at the start
    finished: bool  # the last step changed nothing


def _is_still(found: Partition) -> bool:
    """Whether another step would change nothing: the means are the centres already."""
    return found.cost <= found.rounding or found.shift <= SETTLED * found.cost


def _first_step_work(fit: Fit) -> float:
    """Return what one step costs, as far as is known: none is made where nothing moves."""
    return 0.0 if nearest in fit.facts and _is_still(nearest(fit)) else pass_work(fit)


@fact(cost=_first_step_work, needs=(nearest,))
def descent(fit: Fit) -> LloydSteps:
    start, spent = nearest(fit), nearest_centres.purse(fit).spent
    spent["steps"] = 0.0
    if _is_still(start):
        return LloydSteps(start, (0.0,), True)
    most = nearest_centres.purse(fit).allowance("steps", fit.work) / pass_work(fit)
    path = [start, *nearest_centres.lloyd(fit.data, start, int(max(1, min(most, 300))), SETTLED)]
    spent["steps"] = pass_work(fit) * (len(path) - 1)
    costs = np.array([one.cost for one in path])
    gains = -np.diff(costs) / start.cost
    return LloydSteps(path[int(costs.argmin())], tuple(map(float, gains)), _is_still(path[-1]))


@proved("further steps of Lloyd's algorithm lower the cost by at most 1 % in all", SOURCE, needs=(descent,))  # fmt: skip
def no_steps_left(fit):
    """The steps are made, as far as the budget goes. If it ends before they do, a percent gained so far fails all the same."""
    known = descent(fit)
    gained, unit = max(sum(known.gains), 0.0), "gain of all steps / cost"
    advice = "Lloyd's iteration was stopped early: raise max_iter, or lower tol"
    made = f"{len(known.gains)} more steps"
    if not known.finished and gained <= ALL_STEPS:
        return unknown(f"{made} gained {gained:.2%}; not the last", gained, unit)
    note = f"{made}, and nothing moves" if known.finished and gained else made if gained else ""
    return at_most(gained, ALL_STEPS, advice, unit, note)


# --- the optimum ------------------------------------------------------------------------------------------------------


def _restart_rows(fit: Fit, work: float) -> int:
    """Number of rows that restarts look at: SAMPLE, or what wide rows and the budget leave room for."""
    n, d, k = nearest_centres.sizes(fit)
    paid = work / (RESTARTS * LONGEST * d * k / 2) if math.isfinite(work) else n
    return int(min(n, SAMPLE, max(FEWEST, 2**25 // d), max(FEWEST, paid)))


def restart_work(rows: int, d: int, k: int) -> float:
    """scikit-learn's fits: some 2 multiplications a nanosecond, and 5 ms to begin."""
    return RESTARTS * (LONGEST * rows * d * k / 2.0 + 5e6)


def _least_restart_work(fit: Fit) -> float:
    """Return what restarts on the fewest rows cost, and a look at all rows."""
    n, d, k = nearest_centres.sizes(fit)
    return restart_work(min(n, FEWEST), d, k) + pass_work(fit)


@fact(cost=_least_restart_work, needs=(nearest,))
def better(fit: Fit) -> Partition:
    """Return the best partition known: the model's, where Lloyd's steps led, and that of centres which a search shows."""
    known, (_, d, k) = nearest(fit), nearest_centres.sizes(fit)
    rows = _restart_rows(fit, nearest_centres.purse(fit).allowance("restarts", fit.work))
    spent = restart_work(rows, d, k)
    found = [known, descent(fit).end] if descent in fit.facts else [known]
    centers = fit.witness("better_centers", known, rows)
    if nearest_centres.are_centers(centers, k, d):
        found.append(Partition.of(fit.data, centers, known.frame))
        spent += pass_work(fit)
    nearest_centres.purse(fit).spent["restarts"] = spent
    return min(found, key=_cost_at_means)


def _cost_at_means(found: Partition) -> float:
    """The cost of the means of the clusters, or less: with its rows as they are, each gains W‖δ‖²."""
    return max(found.cost - found.shift, 0.0)


def gap(fit: Fit) -> Gap:
    """Return the gap that can be proved, from bounds built around the best centres known."""
    known, around = nearest(fit), better(fit)
    work = nearest_centres.purse(fit).allowance("bounds", fit.work)
    work = work if math.isfinite(work) else WORK
    rng, k = np.random.default_rng(0), len(known.centers)
    return gap_of(fit.data, known, around, k, rng, CONFIDENCE, ENOUGH, work, fit.witness)


@proved("the cost is within 5 % of the best possible", SOURCE, needs=(better,))
def certified_near_optimum(fit):
    """Fails on better centres, holds on a lower bound; one that is sampled holds with its confidence."""
    known, best = nearest(fit), better(fit)
    excess = 0.0
    if known.cost > known.rounding:
        least = _cost_at_means(best)
        excess = known.cost / least - 1 if least > best.rounding else math.inf
    if excess > GAP:
        unit, note = "cost / cost of better centres − 1", "better centres were found"
        shown = {"cluster_centers": best.frame.outside(best.means)}
        return at_most(excess, GAP, LOCAL, unit, note, witness=shown)
    bounds, unit = gap(fit), "cost / lower bound − 1"
    sure = bounds.confidence
    if bounds.gap <= GAP:
        kind, note = STATISTICAL if sure < 1 else PROVED, f"{bounds.bound} bound"
        proof: dict[str, Any] = {"lower_bound": bounds.lower_bound}
        if bounds.multipliers is not None:
            proof["multipliers"] = bounds.multipliers
        return at_most(bounds.gap, GAP, "", unit, note, kind=kind, confidence=sure, witness=proof)
    # what is known, in a few words that fit beside the claim
    surely = f"sampled, {sure:.0%}" if sure < 1 else bounds.bound
    most = f"within {bounds.gap:.0%} ({surely})" if bounds.gap < 10 else "no bound says anything"
    found = "no better" if excess < 5e-4 else f"{excess:.1%} better"
    return unknown(f"{most}; restarts {found}", bounds.gap, unit)


KMEANS_CLAIMS = (
    SOUND, TRUE, fixed_point, no_steps_left, certified_near_optimum, NEVER_ROSE, no_empty_cluster, found_again, separated,
)  # fmt: skip
# the costs of batches go up and down
MINI_BATCH_CLAIMS = tuple(
    near_fixed_point if one is fixed_point else one
    for one in KMEANS_CLAIMS
    if one is not NEVER_ROSE
)
