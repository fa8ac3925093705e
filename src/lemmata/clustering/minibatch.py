"""Mini-batch k-means: Lloyd's steps on a few rows at a time (Sculley 2010).

    minimise  Σ_i w_i min_j ‖x_i − c_j‖²      over k centres c_j

A step draws `batch_size` rows, with probability ∝ their weights, gives each to its nearest centre, and moves every centre to
the mean of all rows it was ever given: a step of length 1/count towards each of them, which ends in a fixed point near, not
at, one of Lloyd's. A step is "means, then labels of the next batch", so that the cost in a state is that of its centres.

    >>> from sklearn.datasets import load_iris
    >>> model = MiniBatchKMeans(n_clusters=3, random_state=0).fit(load_iris().data)
    >>> model.cluster_centers_.shape, bool(model.inertia_ < 90)
    ((3, 4), True)

`partial_fit` takes batches that come one after the other; rows that can only be read in order (streams) belong there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from lemmata.audit.clustering.kmeans import MINI_BATCH_CLAIMS
from lemmata.clustering.assignment import ClusterSums, Points, locate, take_rows
from lemmata.clustering.frames import PASSES, spread_of, worth_kernels
from lemmata.clustering.kmeans import KMeans
from lemmata.clustering.lloyd import SEEDINGS, LloydAlgorithm, Still
from lemmata.core import common
from lemmata.core.blocks import Blocks
from lemmata.core.certification.checking import MINI_BATCH_STARTS, cost_of_mini_batch_kmeans
from lemmata.core.loop import Solution, Stop, Stopped
from lemmata.core.parameters import COUNT, KW_ONLY, NONNEGATIVE, WHOLE, choice, parameter
from lemmata.core.store import storable

Array = np.ndarray
# few rows, at most so many times a batch: all are looked at instead of fetching those drawn
WHOLE_BELOW = 4
REASSIGN_EVERY = 10  # rows per cluster that are seen before poor clusters are moved again


@storable
@dataclass(frozen=True)
class MiniBatchState:
    """Centres, all that they were made of, and what they make of the next batch."""

    version = 1
    layout: ClassVar[dict[str, str | type]] = {
        "centers": "k d",
        "given batch": ClusterSums,
        "number seed waited unmoved": "int >=0",
        "epochs average": ">=0",
        "shift least": "any >=0",
    }

    centers: Array  # (k, d)
    given: ClusterSums  # of all batches before this one
    batch: ClusterSums  # of this batch, at these centres
    number: int  # of this batch
    seed: int  # of all draws
    epochs: float  # rows drawn for the centres so far / rows of the data
    shift: float  # Σ‖c − c before‖² relative to the mean variance of a feature
    average: float  # exponentially weighted cost per row
    least: float  # of it
    waited: int  # batches since that
    unmoved: int  # rows since poor clusters were moved


@dataclass(frozen=True)
class NoCheaperBatch(Stop):
    """The average cost of batches has not fallen for so many of them."""

    batches: int

    def reason(self, solution: Solution) -> str | None:
        return Stopped.SETTLED if solution.state.waited >= self.batches else None


@dataclass(frozen=True)
class MaxEpochs(Stop):
    """So many rows were drawn as n passes have."""

    n: int

    def reason(self, solution: Solution) -> str | None:
        return Stopped.MAX_STEPS if solution.state.epochs >= self.n else None


@dataclass(frozen=True)
class MiniBatchAlgorithm:
    """Mini-batch steps on `Points`.

    Parameters
    ----------
    lloyd : LloydAlgorithm
        Says where centres start.
    batch_size : int
        Rows of a step.
    init_size : int
        Rows that starts are drawn from, and as many others that decide between them.
    n_init : int
        How many starts; the one of lowest cost is kept.
    reassignment_ratio : float
        A cluster with less than this share of the largest one's rows moves to a random row of the batch.
    """

    lloyd: LloydAlgorithm
    batch_size: int
    init_size: int
    n_init: int
    reassignment_ratio: float

    hint = "scale the data, or look for extreme values in it"

    def init(self, data: Points, rng: np.random.Generator) -> MiniBatchState:
        seed = int(rng.integers(2**63))
        centers = self._start(data, rng)
        none, batch = ClusterSums.none(centers), self._assign(data, centers, seed, 0)
        average = _per_row(batch)
        return MiniBatchState(centers, none, batch, 0, seed, 0.0, math.inf, average, math.inf, 0, 0)

    def _start(self, data: Points, rng: np.random.Generator) -> Array:
        """The best of some starts, drawn from some rows and compared on others."""
        trial = _some(data, _draw(data, self.init_size, rng))
        found: list[tuple[float, int, Array]] = []
        for number in range(self.n_init):
            n = data.shape[0]
            among = rng.choice(n, self.init_size, replace=False) if self.init_size < n else None
            rows = data if among is None else _some(data, among, weighted=True)
            centers = self.lloyd.start(rows, rng)
            found.append((trial.assign(centers).cost if self.n_init > 1 else 0.0, number, centers))
        return min(found)[2]

    def _assign(self, data: Points, centers: Array, seed: int, number: int) -> ClusterSums:
        rows = _draw(data, self.batch_size, np.random.default_rng([seed, number]))
        if data.few and data.shape[0] <= WHOLE_BELOW * self.batch_size:
            return data.assign_drawn(centers, rows).check_finite()
        return _some(data, rows).assign(centers).check_finite()

    def step(self, state: MiniBatchState, data: Points) -> MiniBatchState:
        given, unmoved = state.given + state.batch, state.unmoved + self.batch_size
        if unmoved >= REASSIGN_EVERY * len(state.centers) or not given.counts.all():
            given, unmoved = self._move_poor_clusters(given, state, data), 0
        centers = given.centers_after(state.centers)
        batch = self._assign(data, centers, state.seed, state.number + 1)
        moves = (centers.astype(np.float64) - state.centers) * 2.0**-data.spread.exponent
        variance = data.spread.variance
        shift = float(np.vdot(moves, moves)) / variance if variance > 0 else math.inf
        # the weight of a batch in the average, and what counts as progress, are scikit-learn's
        alpha = min(2.0 * self.batch_size / (data.shape[0] + 1), 1.0)
        average = (1 - alpha) * state.average + alpha * _per_row(batch)
        better = average < state.least
        return MiniBatchState(
            centers, given, batch, state.number + 1, state.seed,
            state.epochs + self.batch_size / data.shape[0], shift if np.isfinite(shift) else math.inf,
            average, average if better else state.least, 0 if better else state.waited + 1, unmoved,
        )  # fmt: skip

    def _move_poor_clusters(
        self, given: ClusterSums, state: MiniBatchState, data: Points
    ) -> ClusterSums:
        """Clusters that have nearly no rows start again at rows of the batch, at the weight of the least of the others."""
        poor = np.flatnonzero(given.counts < self.reassignment_ratio * given.counts.max())
        if len(poor) == 0:
            return given
        rng = np.random.default_rng([state.seed, state.number, 1])
        poor = rng.permutation(poor)[: self.batch_size // 2]
        if len(poor) == 0:  # of a batch of one row
            return given
        drawn = _draw(data, self.batch_size, np.random.default_rng([state.seed, state.number]))
        rows = take_rows(data.data, rng.choice(drawn, len(poor), replace=False))
        counts, sums = given.counts.copy(), given.sums.copy()
        counts[poor] = np.delete(given.counts, poor).min()
        sums[poor] = counts[poor, None] * rows
        return replace(given, counts=counts, sums=sums)

    def objective(self, state: MiniBatchState) -> float:
        """The cost per row of this batch at these centres."""
        return _per_row(state.batch)

    def extras(self, state: MiniBatchState) -> dict[str, float]:
        return {"shift": state.shift, "average": state.average}

    def attributes(self, state: MiniBatchState) -> dict[str, Any]:
        return {"cluster_centers_": state.centers, "sums_": state.given}


def _per_row(sums: ClusterSums) -> float:
    return sums.cost / float(sums.counts.sum())


def _draw(data: Points, size: int, rng: np.random.Generator) -> Array:
    """Numbers of rows, with replacement and with probability ∝ their weights: a row of weight 2 is that row twice."""
    weights = data.relative_weights
    if weights is None:
        return rng.integers(data.shape[0], size=size)
    return locate(weights, rng.random(size) * weights.sum())


def _some(data: Points, rows: Array, weighted: bool = False) -> Points:
    """Some rows in the frame of all; drawn by their weights, each counts once."""
    blocks = Blocks.of(take_rows(data.data, rows, dense=False))
    if weighted and data.weights is not None:
        blocks = blocks.weighted(data.weights[rows])
    return Points(blocks, data.compiled, data.spread)


class MiniBatchKMeans(KMeans, inherit_parameters=False):
    """k-means by small batches of rows: nearly the cost of `KMeans`, on large data in a fraction of the time.

    Minimises Σ_i w_i min_j ‖x_i − c_j‖² over k centres c_j, a few random rows at a time.

    Attributes
    ----------
    cluster_centers_ : (k, d)
    labels_, inertia_ : (n,), float
        Of all rows, at these centres (compute_labels=False: no labels, and the smoothed cost of batches times the weight).
    sums_ : ClusterSums
        Weight and sum of all rows that each centre was given: what `partial_fit` continues from.
    n_steps_, n_iter_ : int
        Batches, and passes over as many rows as the data has.
    certificate_, trace_, stopped_

    Notes
    -----
    `trace_.objective` is the cost per row of each batch at the centres before it moves them: it goes up and down.
    """

    n_clusters: int = parameter(8, COUNT).doc("k, the number of clusters.")
    _: KW_ONLY
    init: Any = parameter("k-means++", choice(*SEEDINGS), callable, "array-like").doc("""
        Where the centres start, as in `KMeans`, among `init_size` rows.""")
    max_iter: int = common.max_iter(100).doc("""
        Passes over the data: at most max_iter · n / batch_size batches are drawn.""")
    batch_size: int = parameter(1024, COUNT).doc("""
        Rows of a batch, drawn with replacement and with probability ∝ their weights.""")
    verbose: int = common.verbose()
    compute_labels: bool = parameter(True, "boolean").doc("""
        Whether `fit` ends with a pass over all rows, for `labels_` and `inertia_`.""")
    random_state: Any = common.random_state()
    tol: float = common.tol(0.0).doc("""
        Settled when Σ_j ‖c_j − c_j before‖² ≤ tol · (mean variance of a feature); at 0 this rule is
        off.""")
    max_no_improvement: Any = parameter(10, WHOLE, None).doc("""
        Settled when the smoothed cost of so many batches in a row has not fallen.""")
    init_size: Any = parameter(None, COUNT, None).doc("""
        Rows that starts are drawn from; None: 3 · batch_size, or 3 · n_clusters if that is less
        than n_clusters.""")
    n_init: Any = parameter("auto", choice("auto"), COUNT).doc("""
        How many starts are compared. "auto": 3 for "random" and callables, else 1.""")
    reassignment_ratio: float = parameter(0.01, NONNEGATIVE).doc("""
        A cluster given less than this share of the rows of the largest one moves to a random row
        now and then.""")
    checkpoint: Any = common.checkpoint()
    time_limit: Any = common.time_limit()

    claims = MINI_BATCH_CLAIMS
    work = staticmethod(cost_of_mini_batch_kmeans)
    many_starts = MINI_BATCH_STARTS
    stored: ClassVar[dict[str, str | type]] = {
        **KMeans.stored,
        "labels_?": "audited",
        "n_steps_": "int >=0",
    }

    @property
    def _method(self) -> str:
        return "lloyd"

    def _algorithm(self, data: Blocks) -> MiniBatchAlgorithm:
        n, k = self._check_rows(data), int(self.n_clusters)
        batch = min(int(self.batch_size), n)
        wanted = 3 * batch if self.init_size is None else int(self.init_size)
        init_size = min(3 * k if wanted < k else wanted, n)
        ratio = float(self.reassignment_ratio)
        return MiniBatchAlgorithm(self._one_start(), batch, init_size, self._starts(), ratio)

    def _problem(self, data: Blocks) -> Points:
        compiled = worth_kernels(data, self.n_clusters, PASSES / 4)
        return Points(data, compiled, spread_of(data, compiled))

    def _stop(self) -> Stop:
        rule: Stop = MaxEpochs(self.max_iter)
        if self.tol > 0:
            rule = Still(self.tol) | rule
        if self.max_no_improvement is not None:
            rule = NoCheaperBatch(self.max_no_improvement) | rule
        return self._within_time(rule)

    def _attributes(self, solution: Solution, problem: Points) -> dict[str, Any]:
        state = solution.state
        found: dict[str, Any] = {"cluster_centers_": state.centers, "sums_": state.given}
        self._forget("labels_")
        if not self.compute_labels:
            total = problem.data.total_weight
            return {**found, "inertia_": state.average * total}
        sums = problem.assign(state.centers).check_finite()
        self._warn_of_empty(sums)
        return {**found, "inertia_": sums.cost, "labels_": problem.labels(state.centers)}

    def _conclude(self, data: Any, attributes: Any, trace: Any, stopped: Any, steps: int) -> None:
        passes = steps
        if stopped != Stopped.BATCHES:
            n = data.shape[0]
            passes = math.ceil(steps * min(int(self.batch_size), n) / n)
        attributes = {**attributes, "n_steps_": steps}
        super()._conclude(data, attributes, trace, stopped, passes)
