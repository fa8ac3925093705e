"""What is claimed of k-means, checked on the data by plain code.

Everything is recomputed from the rows and the public attributes (`cluster_centers_` and, where they are there, `labels_`,
`inertia_`, `sums_`), so the claims certify scikit-learn's KMeans and MiniBatchKMeans as well as ours.

A gap is decided from two sides: a lower bound on the optimum (`kmeans_bounds.py`) shows that the cost is within some percent
of it, and better centres, found by a few restarts, show that it is not. Where neither does, the claim can't tell, and says what
is known. Whether clusters are more than cuts through a cloud is asked of rows that did not take part (`kmeans_refits.py`).

Checks that search take what the budget leaves them, each its share: with less of it they decide less, never otherwise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from lemmata.audit.clustering.kmeans_bounds import ENOUGH, WORK, Gap, gap_of
from lemmata.audit.clustering.kmeans_refits import (
    FEW_PARTS,
    LUCK,
    MANY_PARTS,
    RISK,
    Refits,
    refit_work,
    rows_wanted,
    sample_rows,
)
from lemmata.audit.clustering.kmeans_statements import (
    SOUND,
    TRUE,
    nearest,
    pass_work,
    sizes,
)
from lemmata.audit.clustering.nearest_centres import Partition, are_centers, lloyd
from lemmata.audit.kernel.claims import (
    PROVED,
    STATISTICAL,
    Evidence,
    Fit,
    at_least,
    at_most,
    claim,
    fact,
    free,
    rounding,
    unknown,
)
from lemmata.audit.kernel.runs import never_rose

Array = np.ndarray
ONE_STEP = 1e-4  # of the cost
ALL_STEPS = 0.01  # of the cost
SETTLED = 1e-12  # of the cost: a step that gains no more has changed nothing
GAP = 0.05
FOUND_AGAIN = 0.75  # of a cluster, by the Jaccard index
# of the density at a centre; two equal Gaussians 4 standard deviations apart have 0.34
VALLEY = 1 / 3
CONFIDENCE = 0.99
RESTARTS, LONGEST = 4, 30  # that a search is paid for, and steps of each
SAMPLE, FEWEST = 10_000, 1_000  # rows for restarts: at most, and at least if there are so many
SHARES = {"steps": 0.25, "refits": 0.25, "restarts": 0.15, "bounds": 0.35}  # of the budget


# --- what is paid, and from which budget ------------------------------------------------------------------------------


@dataclass
class Purse:
    """What searches may spend: their shares of what was left when the first of them asked."""

    budget: float = math.nan
    spent: dict[str, float] = field(default_factory=dict)

    def allowance(self, what: str, left: float) -> float:
        """Return what one search may spend; bounds also what others left over."""
        self.budget = left if math.isnan(self.budget) else self.budget
        if math.isinf(self.budget):
            return math.inf
        if what == "bounds":
            shares = SHARES | {name: work / self.budget for name, work in self.spent.items()}
            return max(1 - sum(shares.values()) + shares["bounds"], 0.0) * self.budget
        return min(SHARES[what] * self.budget, left)


@fact(cost=free)
def purse(fit: Fit) -> Purse:
    return Purse()


# --- the run, and the centres -----------------------------------------------------------------------------------------


def _rounding_of_costs(fit: Fit) -> float:
    """A mean is known to the rounding of its dtype, so a cost as small as that moves about: rows repeated, cost zero."""
    C = np.asarray(fit.cluster_centers_)
    error, weight = rounding(C.dtype, C.shape[1]), fit.data.total_weight if fit.has_data else 0.0
    largest = float(fit.trace.objective.max())
    with np.errstate(over="ignore", under="ignore"):
        ratio = (
            np.abs(C, dtype=np.float64).max() * error / math.sqrt(largest) if largest > 0 else 0.0
        )
        least = weight * ratio * ratio * C.shape[1]
    return error + least


ONE_BATCH = "one number is no course: each batch has a cost of its own"
NEVER_ROSE = never_rose(
    "the cost never rose", "CIL20 6.2.1", _rounding_of_costs, needs_steps=ONE_BATCH
)


@claim(
    "every centre is the nearest one of some row",
    kind=PROVED,
    source="CIL20 6.2.1",
    needs=(nearest,),
)
def no_empty_cluster(fit):
    """The notes re-seed an empty cluster at random; a centre without rows is one that the cost could have used."""
    weight = nearest(fit).weight
    advice = "fewer clusters than n_clusters: start again (n_init), or lower n_clusters"
    return at_least(int((weight > 0).sum()), len(weight), unit="clusters with rows", advice=advice)


@claim(
    "moving every centre to the mean of its rows lowers the cost by at most 0.01 %",
    kind=PROVED, source="CIL20 6.2.1", needs=(nearest,),
)  # fmt: skip
def fixed_point(fit):
    """One step of Lloyd's: the centre of a cluster of weight W moved by δ to its mean lowers the cost by exactly W‖δ‖².

    What further steps gain is not said here: see `no_steps_left`.
    """
    found = nearest(fit)
    unit = "gain of one step / cost"
    if found.cost <= found.rounding:
        return at_most(0.0, ONE_STEP, unit=unit, note="the cost is zero")
    bound = max(ONE_STEP, rounding(np.asarray(fit.cluster_centers_).dtype, found.centers.shape[1]))
    advice = "Lloyd's iteration has not converged: raise max_iter, lower tol, or (mini-batches) finish with KMeans"
    return at_most(found.shift / found.cost, bound, advice, unit)


@dataclass(frozen=True)
class Descent:
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
def descent(fit: Fit) -> Descent:
    start, spent = nearest(fit), purse(fit).spent
    spent["steps"] = 0.0
    if _is_still(start):
        return Descent(start, (0.0,), True)
    most = purse(fit).allowance("steps", fit.work) / pass_work(fit)
    path = [start, *lloyd(fit.data, start, int(max(1, min(most, 300))), SETTLED)]
    spent["steps"] = pass_work(fit) * (len(path) - 1)
    costs = np.array([one.cost for one in path])
    gains = -np.diff(costs) / start.cost
    return Descent(path[int(costs.argmin())], tuple(map(float, gains)), _is_still(path[-1]))


@claim(
    "Lloyd's steps, continued from here, lower the cost by at most 1 % in all",
    kind=PROVED, source="CIL20 6.2.1", needs=(descent,),
)  # fmt: skip
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
    """How many rows restarts look at: SAMPLE, or what wide rows and the budget leave room for."""
    n, d, k = sizes(fit)
    paid = work / (RESTARTS * LONGEST * d * k / 2) if math.isfinite(work) else n
    return int(min(n, SAMPLE, max(FEWEST, 2**25 // d), max(FEWEST, paid)))


def restart_work(rows: int, d: int, k: int) -> float:
    """scikit-learn's fits: some 2 multiplications a nanosecond, and 5 ms to begin."""
    return RESTARTS * (LONGEST * rows * d * k / 2.0 + 5e6)


def _least_restart_work(fit: Fit) -> float:
    """Return what restarts on the fewest rows cost, and a look at all rows."""
    n, d, k = sizes(fit)
    return restart_work(min(n, FEWEST), d, k) + pass_work(fit)


@fact(cost=_least_restart_work, needs=(nearest,))
def better(fit: Fit) -> Partition:
    """Return the best partition known: the model's, where Lloyd's steps led, and that of centres which a search shows."""
    known, (_, d, k) = nearest(fit), sizes(fit)
    rows = _restart_rows(fit, purse(fit).allowance("restarts", fit.work))
    spent = restart_work(rows, d, k)
    found = [known, descent(fit).end] if descent in fit.facts else [known]
    centers = fit.witness("better_centers", known, rows)
    if are_centers(centers, k, d):
        found.append(Partition.of(fit.data, centers, known.frame))
        spent += pass_work(fit)
    purse(fit).spent["restarts"] = spent
    return min(found, key=_cost_at_means)


def _cost_at_means(found: Partition) -> float:
    """What the means of the clusters cost, or less: with its rows as they are, each gains W‖δ‖²."""
    return max(found.cost - found.shift, 0.0)


def gap(fit: Fit) -> Gap:
    """Return the gap that can be proved, from bounds built around the best centres known."""
    known, around = nearest(fit), better(fit)
    work = purse(fit).allowance("bounds", fit.work)
    work = work if math.isfinite(work) else WORK
    rng, k = np.random.default_rng(0), len(known.centers)
    return gap_of(fit.data, known, around, k, rng, CONFIDENCE, ENOUGH, work, fit.witness)


@claim(
    "the cost is within 5 % of the best possible",
    kind=PROVED,
    source="CIL20 6.2.1",
    needs=(better,),
)
def certified_near_optimum(fit):
    """Fails on better centres, holds on a lower bound; one that is sampled holds with its confidence."""
    known, best = nearest(fit), better(fit)
    excess = 0.0
    if known.cost > known.rounding:
        least = _cost_at_means(best)
        excess = known.cost / least - 1 if least > best.rounding else math.inf
    if excess > GAP:
        advice = (
            "a local optimum, or none yet: raise n_init, use k-means++ seeding, or raise max_iter"
        )
        return at_most(
            excess,
            GAP,
            advice,
            "cost / cost of better centres − 1",
            note="better centres were found",
            witness={"cluster_centers": best.frame.outside(best.means)},
        )
    proved, unit = gap(fit), "cost / lower bound − 1"
    if proved.gap <= GAP:
        kind = STATISTICAL if proved.confidence < 1 else PROVED
        note = f"{proved.bound} bound"
        shown = {"lower_bound": proved.lower_bound, "multipliers": proved.multipliers}
        shown = {name: value for name, value in shown.items() if value is not None}
        sure = proved.confidence
        return at_most(
            proved.gap, GAP, unit=unit, note=note, kind=kind, confidence=sure, witness=shown
        )
    # what is known, in a few words that fit beside the claim
    surely = f"sampled, {proved.confidence:.0%}" if proved.confidence < 1 else proved.bound
    most = f"within {proved.gap:.0%} ({surely})" if proved.gap < 10 else "no bound says anything"
    found = "no better" if excess < 5e-4 else f"{excess:.1%} better"
    return unknown(f"{most}; restarts {found}", proved.gap, unit)


# --- other rows -------------------------------------------------------------------------------------------------------


def _least_rows(fit: Fit) -> int:
    n, d, k = sizes(fit)
    return min(rows_wanted(n, d, k), 100 * k)


def _least_refit_work(fit: Fit) -> float:
    _, d, k = sizes(fit)
    return refit_work(_least_rows(fit), d, k)


@fact(cost=_least_refit_work, needs=(nearest,))
def some_rows(fit: Fit) -> tuple[Array, Array]:
    """Return as many rows, and their weights, as there is work to fit parts of them; its price is that of the fits."""
    n, d, k = sizes(fit)
    most, rows = purse(fit).allowance("refits", fit.work), rows_wanted(n, d, k)
    if math.isfinite(most):
        per_row = refit_work(1_000_000, d, k) / 1_000_000
        rows = max(min(rows, int(most / per_row)), _least_rows(fit))
    purse(fit).spent["refits"] = refit_work(rows, d, k)
    return sample_rows(fit.data, nearest(fit).frame, rows)


@fact(cost=free, needs=(some_rows,))
def many_refits(fit: Fit) -> Refits | None:
    """Compare fits to twelve parts of the rows; None where there are none. Less than a cluster found again is of no use."""
    X, w = some_rows(fit)
    return Refits.of(X, w, nearest(fit).centers, MANY_PARTS, fit.witness, FOUND_AGAIN)


@fact(cost=free, needs=(some_rows,))
def few_refits(fit: Fit) -> Refits | None:
    X, w = some_rows(fit)
    return Refits.of(X, w, nearest(fit).centers, FEW_PARTS, fit.witness)


def _no_refits(fit: Fit) -> Evidence:
    few = len(some_rows(fit)[0]) < 2 * FEW_PARTS * len(fit.cluster_centers_)
    return unknown("too few rows for other fits" if few else "nobody fitted parts of the rows")


@claim(
    "fits to disjoint parts of the rows share at least 3/4 of every cluster",
    kind=STATISTICAL, confidence=0.99, source="CIL20 6.2.1", needs=(few_refits, many_refits),
)  # fmt: skip
def found_again(fit):
    """Holds if every comparison of twelve fits shows it of every cluster; fails if the mean over three is shown to be below.

    The risk is that of the bounds, and 2⁻¹¹ for luck: 1 − confidence is more than both.
    """
    if len(fit.cluster_centers_) < 2:
        return unknown("one cluster has one labelling")
    unit, many = "share found again", many_refits(fit)
    if many is not None and many.surely.min() >= FOUND_AGAIN:
        note = f"{many.rows:,} rows in {MANY_PARTS} parts"
        return at_least(many.surely.min(), FOUND_AGAIN, unit=unit, note=note)
    few = few_refits(fit)
    if few is None:
        return _no_refits(fit)
    # comparisons of two fits to parts, and of the model with one of them
    most = np.minimum(few.at_best[::2].mean(axis=0), few.at_best[1::2].mean(axis=0))
    worst = int(most.argmin())
    if most[worst] < FOUND_AGAIN:
        advice = "labels depend on which rows were drawn: lower n_clusters, raise n_init, or take more rows"
        note = f"cluster {worst}, {few.rows:,} rows in {FEW_PARTS} parts"
        return at_least(most[worst], FOUND_AGAIN, advice, unit, note)
    share = float(few.again.mean(axis=0).min())
    return unknown(f"{share:.0%} of one found again; more rows would tell", share, unit)


@claim(
    "at its borders a cluster is at most 1/3 as dense as at its centre",
    kind=STATISTICAL, confidence=0.99, source="CIL20 6.2.1", needs=(few_refits, many_refits),
)  # fmt: skip
def separated(fit):
    """The density of fresh rows at the border, seen along the line of two centres, over that at the sparser of them.

    An even cloud cut in two has 1, two equal Gaussians Δ standard deviations apart about 2 exp(−Δ²/8). Cells of a cloud in
    many dimensions are narrow at their borders whatever the density; but they are not found again.
    """
    if len(fit.cluster_centers_) < 2:
        return unknown("one cluster has no border")
    unit, few = "density at a border / at a centre", few_refits(fit)
    if few is None:
        return _no_refits(fit)
    least = np.nan_to_num(few.valley_least, nan=-1.0)
    a, b = np.unravel_index(int(least.argmax()), least.shape)
    if least[a, b] > VALLEY:
        advice = "a border may cut through one cluster: lower n_clusters, or use a mixture"
        return at_most(least[a, b], VALLEY, advice, unit, note=f"clusters {a} and {b}")
    many = many_refits(fit)
    if many is None or many.surely.min() < FOUND_AGAIN:
        return unknown("clusters that are not surely found again have no borders to look at")
    most = float(np.nanmax(many.valley_most))
    if most > VALLEY:
        return unknown(f"at most {most:.2g} as dense; more rows would tell", most, unit)
    return at_most(most, VALLEY, unit=unit, note=f"{many.rows:,} rows in {MANY_PARTS} parts")


# the bounds of either claim, on twelve and on three parts, and luck
assert 3 * RISK + LUCK <= 1 - CONFIDENCE

KMEANS_CLAIMS = (
    SOUND,
    TRUE,
    NEVER_ROSE,
    no_empty_cluster,
    fixed_point,
    no_steps_left,
    certified_near_optimum,
    found_again,
    separated,
)

# the costs of batches go up and down
MINI_BATCH_CLAIMS = tuple(one for one in KMEANS_CLAIMS if one is not NEVER_ROSE)
