"""Searches for what claims about k-means ask for: better centres, fits to parts of rows, multipliers of a lower bound.

Nothing that is found here is trusted: costs are recomputed, and any multipliers N ≥ 0 prove their bound (see
`audit/clustering/`). Searching badly makes claims undecided, not wrong.

**Multipliers.** A good N comes in closed form from a clustering: with q_i = ½‖x_i − μ_a‖² for i in cluster a,

    N_ij = max(0, ½‖x_i − x_j‖² − q_i − q_j − (λ/2)(1/W_a + 1/W_c))   for i, j in different clusters, 0 within one.

Where nothing is cut off, PMP = P blockdiag(Gram of the centred cluster + (λ/W_a) u_a u_aᵀ) P: every indicator of a cluster has
the eigenvalue λ, and if that is the largest of any cluster's scatter the bound *equals* the cost (Awasthi et al. 2015,
Iguchi et al. 2017). Where some of it is cut off, projected supergradient steps on the concave bound improve N.

**Subsets.** Of so much work, k/s of a bound is lost to small subsets, α^{1/m} to few of them, looseness to few steps; a few
pilot subsets show what pays best.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.cluster import hierarchy

from lemmata.audit.clustering.kmeans import LONGEST, RESTARTS
from lemmata.audit.clustering.kmeans_bounds import SETTLING, STEPS, WeakDual, eigen_work
from lemmata.audit.clustering.kmeans_refits import LONGEST as REFIT_STEPS
from lemmata.audit.clustering.kmeans_refits import STARTS, sample_rows
from lemmata.audit.clustering.nearest_centres import Partition, squared_distances
from lemmata.audit.clustering.trees import distances_of
from lemmata.clustering.assignment import Points
from lemmata.clustering.lloyd import KMeansState, LloydAlgorithm
from lemmata.core.engine import one_blas_thread

Array = np.ndarray
TRIED = 3  # steps from every random start, before the best goes on
SETTLED = 1e-4  # of the mean variance of a feature: centres that move less, all together
NEARLY, ALIKE = (
    1.1,
    0.9,
)  # of the least cost, and Rand's index: another clustering that is nearly as good
WORTH_SHOWING = 0.002  # of the cost of some rows: what other centres have to gain there
# of the λ at which the closed form would be tight: less of it, less is cut off
SHARES = (1.0, 0.6, 0.3)
TIGHT = 2e-3  # of the cost: a gap not worth another step
SMALLEST, LARGEST = 120, 600  # rows of a random subset
FEWEST, SUBSETS = 20, 1000  # how many of them, at least and at most
ROOM = 2**25  # numbers of all subsets together
PILOTS = 4  # subsets drawn only to choose how many steps pay
FOR_PILOTS = 0.25  # of the work: what they may take
HOPELESS = 0.1  # a gap that pilots promise from which on it is not worth all the work to know it to a percent or two


# --- centres ----------------------------------------------------------------------------------------------------------


def better_centers(fit: Any, known: Partition, rows: int) -> Array | None:
    """Return centres that some rows say are better than those known, from a few fits with other seeds; None if they are not."""
    X, w = sample_rows(fit.data, known.frame, rows)
    k = min(len(known.centers), len(np.unique(X, axis=0)))
    tried = _best(_fits(X, w, [(LloydAlgorithm(k), seed) for seed in range(RESTARTS)], TRIED))
    (best,) = _fits(X, w, [(LloydAlgorithm(k, tried.centers), 0)], LONGEST - TRIED)
    if best.cost < (1 - WORTH_SHOWING) * float(w @ squared_distances(X, known.centers).min(axis=1)):
        return known.frame.outside(best.centers)
    return None


def refit_centers(fit: Any, X: Array, w: Array, starts: list[Array], number: int) -> list[Array]:
    """Return centres fitted to a part of the rows, the best from the given starts and some random ones; then those of other
    clusterings that random starts led to and that cost nearly as little: another part may prefer them."""
    k, seeds = len(starts[0]), np.random.default_rng(number).integers(2**31, size=STARTS)
    known = _fits(X, w, [(LloydAlgorithm(k, start), 0) for start in starts], REFIT_STEPS)
    drawn = _fits(X, w, [(LloydAlgorithm(k), int(seed)) for seed in seeds], REFIT_STEPS)
    best, others, weight = _best([*known, *drawn]), list[KMeansState](), float(w.sum())
    for one in drawn:
        if one.cost <= NEARLY * best.cost and not any(
            _alike(one, to, weight) for to in known + others
        ):
            others.append(one)
    return [best.centers, *(one.centers for one in others)]


def _alike(one: KMeansState, other: KMeansState, weight: float) -> bool:
    """Whether every centre of one clustering is nearly one of the other's."""
    apart = squared_distances(one.centers, other.centers).min(axis=1)
    return float(apart.max()) <= ALIKE * one.cost / weight


def coreset_centers(fit: Any, points: Any, weights: Array, k: int) -> Array:
    """Return centres that a few steps find on a coreset."""
    (found,) = _fits(points, weights, [(LloydAlgorithm(k), 0)], 10)
    return found.centers


def _best(found: list[KMeansState]) -> KMeansState:
    return min(found, key=lambda one: one.cost)


def _fits(
    X: Any, w: Array, runs: list[tuple[LloydAlgorithm, int]], steps: int
) -> list[KMeansState]:
    """Return what Lloyd's steps lead to in some runs with their seeds: by NumPy, on one thread, which waits for no other."""
    data, found = Points.of(X, w, compiled=False), []
    with warnings.catch_warnings(), one_blas_thread():
        warnings.simplefilter("ignore")  # rows may coincide
        for run, seed in runs:
            state = run.init(data, np.random.default_rng(seed))
            for _ in range(steps):
                state = run.step(state, data)
                if state.shift <= SETTLED:
                    break
            found.append(state)
    return found


# --- trees ------------------------------------------------------------------------------------------------------------


def merge_rows(fit: Any, rows: Any) -> Array:
    """Return the merges of a tree of some rows, (n − 1, 2), by the linkage and the metric of the fit."""
    known = distances_of(rows, fit.metric)
    return hierarchy.linkage(known, fit.linkage)[:, :2].astype(np.int64)


# --- multipliers of the dense bound -----------------------------------------------------------------------------------


def multipliers(
    fit: Any, points: WeakDual, rows: Array, centers: Array | None, steps: int, settling: int
) -> None:
    """Ask for the bounds of multipliers made from centres, and of those that supergradient steps lead to."""
    ascend(points, settled_labels(rows, points.k, centers, settling), steps)


def settled_labels(rows: Array, k: int, centers: Array | None, steps: int) -> Array:
    """Return labels after some of Lloyd's steps from these centres; an empty cluster stays where it was."""
    C = _seeds(rows, k) if centers is None else centers
    labels = squared_distances(rows, C).argmin(axis=1)
    for _ in range(steps):
        C = C.copy()
        for c in np.unique(labels):
            C[c] = rows[labels == c].mean(axis=0)
        before, labels = labels, squared_distances(rows, C).argmin(axis=1)
        if (labels == before).all():
            break
    return labels


def _seeds(X: Array, k: int) -> Array:
    """Draw k rows by D² sampling."""
    rng = np.random.default_rng(0)
    C = X[rng.integers(len(X), size=1)]
    for _ in range(k - 1):
        D = squared_distances(X, C).min(axis=1)
        C = np.vstack([C, X[rng.choice(len(X), p=D / D.sum()) if D.sum() > 0 else 0]])
    return C


def ascend(points: WeakDual, labels: Array, steps: int) -> list[float]:
    """Return the best bound of the closed form, and after each of Polyak's projected supergradient steps; shorter where it is
    tight before. What they aim at lies between the best bound and the cost of the labels."""
    cost = cost_of(points.X, points.w, labels)
    best, N, Y = 0.0, np.zeros((len(points.X), len(points.X))), np.eye(len(points.X))
    for share in SHARES:
        candidate = closed_form(points.X, points.w, labels, share)
        found, gradient = points.ask(candidate)
        if found <= best:
            break
        best, N, Y = found, candidate, gradient
        if best >= (1 - TIGHT) * cost:
            break
    if best == 0:
        N *= 0  # the spectral bound
        best, Y = points.ask(N)
    path, found, reach = [best], best, 0.5
    for _ in range(steps):
        # entries at 0 that would have to fall stay there
        slope = np.where((N > 0) | (Y < 0), Y, 0.0)
        square = np.einsum("ij,ij->", slope, slope)
        if best >= (1 - TIGHT) * cost or square == 0:
            break
        N = np.maximum(N - (best + reach * (cost - best) - found) / square * slope, 0.0)
        found, Y = points.ask(N)
        reach = reach if found > best else max(reach * 0.8, 0.05)
        best = max(best, found)
        path.append(best)
    return path


def closed_form(X: Array, w: Array, labels: Array, share: float = 1.0) -> Array:
    """N of the clustering, as in the file's formula, with `share` of the λ that would make it tight."""
    names, labels = np.unique(labels, return_inverse=True)
    W = np.bincount(labels, w)
    means = np.stack([np.bincount(labels, w * x) for x in X.T], axis=1) / W[:, None]
    Y = X - means[labels]
    top = max(
        np.linalg.eigvalsh((Y[labels == c].T * w[labels == c]) @ Y[labels == c])[-1]
        for c in range(len(names))
    )
    q = np.einsum("ij,ij->i", Y, Y) / 2 + share * top / (2 * W[labels])
    squares = np.einsum("ij,ij->i", X, X)
    N = (squares[:, None] + squares) / 2 - X @ X.T - q[:, None] - q
    N[labels[:, None] == labels] = 0.0
    return np.maximum(N, 0.0) * np.sqrt(np.outer(w, w))


def cost_of(X: Array, w: Array, labels: Array) -> float:
    _, labels = np.unique(labels, return_inverse=True)
    W = np.bincount(labels, w)
    sums = np.stack([np.bincount(labels, w * x) for x in X.T], axis=1)
    Y = X - (sums / W[:, None])[labels]
    return float(w @ np.einsum("ij,ij->i", Y, Y))


# --- how many subsets -------------------------------------------------------------------------------------------------


def subset_plan(
    fit: Any,
    draw: Callable[[int, int], Array],
    k: int,
    centers: Array | None,
    alpha: float,
    near: float,
    work: float,
    size: int | None = None,
) -> tuple[int, int, int] | None:
    """Return the size and the number of subsets, and the steps on each, that promise most for so much work.

    draw : gives so many subsets of a size
    near : the least cost known / the cost that is to be bounded; where a bound cannot come close to that, less is done
    """
    sizes = {size} if size is not None else _sizes(k, alpha, work)
    if not sizes or max(sizes) <= k + 1:
        return None
    pilots = {}
    for s in sorted(sizes):
        most = int(FOR_PILOTS * work / len(sizes) / PILOTS / eigen_work(s)) - 4
        pilots[s] = _Pilots.of(draw(PILOTS, s), k, centers, min(max(most, 0), STEPS))
    promise, *plan = _plan(pilots, alpha, (1 - FOR_PILOTS) * work)
    if promise * near * (1 + HOPELESS) < 1:
        less = _plan(pilots, alpha, (1 - FOR_PILOTS) * work / 3)
        plan = list(less[1:]) if less[2] else plan
    s, m, steps = plan
    return (s, m, steps) if m else None


def _sizes(k: int, alpha: float, work: float) -> set[int]:
    """The smallest size of subsets, and the one that loses least: k/s since they are small, ln(1/α)/m since they are few, at 4
    eigenproblems each. Only those whose pilots can be paid, at 4 eigenproblems each and more."""
    sizes = range(SMALLEST, LARGEST + 1, 20)
    best = min(sizes, key=lambda s: k / s + math.log(1 / alpha) * 4 * eigen_work(s) / work)
    return {s for s in (SMALLEST, best) if PILOTS * 8 * eigen_work(s) <= FOR_PILOTS * work}


@dataclass(frozen=True)
class _Pilots:
    """A few subsets of one size, tried to plan the others: bounds step by step, and the costs they are bounds of."""

    shape: tuple[int, int, int]  # k, s, d
    paths: list[list[float]]
    cost: float  # of all of them

    @classmethod
    def of(cls, subsets: Array, k: int, centers: Array | None, steps: int) -> _Pilots:
        ones = np.ones(subsets.shape[1])
        named = [(rows, settled_labels(rows, k, centers, SETTLING)) for rows in subsets]
        paths = [ascend(WeakDual(rows, ones, k), labels, steps) for rows, labels in named]
        cost = sum(cost_of(rows, ones, labels) for rows, labels in named)
        return cls((k, *subsets.shape[1:]), paths, cost)

    def promise(self, steps: int, alpha: float, work: float) -> tuple[float, int]:
        """The bound, as a share of the optimum, that so much work on fresh subsets may give; and how many of them it buys.

        Compared with the cost of the same rows, because the optimum of a subset itself strays too much from one to the other.
        """
        k, s, d = self.shape
        reached = sum(path[min(steps, len(path) - 1)] for path in self.paths)
        solved = np.mean([min(steps, len(path) - 1) + 2 for path in self.paths])
        m = int(work / (eigen_work(s) * solved + d * s**2 / 4))  # the products are BLAS's
        if m < FEWEST:
            return 0.0, 0
        m = max(min(m, SUBSETS, ROOM // (s * d)), FEWEST)
        share = (1 - k / s) * reached / max(self.cost, reached, np.finfo(float).tiny)
        return share * alpha ** (1 / m), m


def _plan(pilots: dict[int, _Pilots], alpha: float, work: float) -> tuple[float, int, int, int]:
    """Return what promises most for so much work, and which size and number of subsets and steps on each that is."""
    best = (0.0, max(pilots), 0, 0)
    for s, some in pilots.items():
        for steps in (0, 1, 2, 3, 5, 8, 12, 20, STEPS):
            promise, m = some.promise(steps, alpha, work)
            best = max(best, (promise, s, m, steps))
    return best
