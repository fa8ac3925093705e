"""Lloyd's algorithm for k-means: centroids of the clusters, then the nearest centroid for every row.

    minimise  Σ_i w_i min_j ‖x_i − c_j‖²      over k centres c_j

With the labels fixed, the best centre of a cluster is its mean; with the centres fixed, the best label of a row is its
nearest centre (CIL20 6.2.1). Both lower the cost, and there are finitely many labellings, so the steps end in a fixed point,
which need not be the best one. A step is "means, then labels": the cost in a state belongs to the centres in it.

    >>> import numpy as np
    >>> from lemmata.core import run
    >>> X = np.array([[0.0], [1.0], [9.0], [11.0]])
    >>> solution = run(LloydAlgorithm(2, X[:2]), Points.of(X), stop=Still(0.0))
    >>> solution.state.centers.ravel(), solution.state.cost, solution.stopped
    (array([ 0.5, 10. ]), 2.5, 'settled')
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from sklearn.utils import check_array

from lemmata.clustering.assignment import ClusterSums, Points
from lemmata.clustering.seeding import greedy_d2_sampling, kmeans_parallel, random_rows
from lemmata.clustering.yinyang.bounds import Bounds
from lemmata.core.blocks import is_dask
from lemmata.core.loop import Solution, Stop, Stopped
from lemmata.core.store import storable

__all__ = ["ClusterSums", "KMeansState", "LloydAlgorithm", "Points", "Still"]

Array = np.ndarray
SEEDINGS: dict[str, Callable] = {
    "k-means++": greedy_d2_sampling,
    "k-means||": kmeans_parallel,
    "random": random_rows,
}
CALM = 0.02  # share of rows that change their label below which bounds are worth their upkeep
MANY = 512  # d·k below which all distances of a row take less time than its bounds
WORTHWHILE = 2**22  # n·k·d below which a pass is over before bounds could save anything


@storable
@dataclass(frozen=True)
class KMeansState:
    """Centres, what they make of the data, and how far they had moved."""

    version = 1
    layout: ClassVar = {"centers": "k d", "sums": ClusterSums, "shift": "any >=0"}

    centers: Array  # (k, d)
    sums: ClusterSums  # of the rows nearest to each of them
    shift: float  # Σ‖c − c before‖² relative to the mean variance of a feature; ∞ at the start

    @property
    def cost(self) -> float:
        return self.sums.cost


@dataclass(frozen=True)
class Still(Stop):
    """The centres moved by at most tol: Σ‖c − c before‖² ≤ tol · mean variance of a feature. At tol = 0, not at all."""

    tol: float

    def reason(self, solution: Solution) -> str | None:
        return Stopped.SETTLED if solution.trace.last("shift") <= self.tol else None


@dataclass(frozen=True)
class LloydAlgorithm:
    """Lloyd's steps from any start, on `Points`.

    Parameters
    ----------
    n_clusters : int
        k.
    seeding : "k-means++" (greedy), "k-means||", "random", an array (k, d), or a callable (X, k, random_state) -> (k, d)
    method : "lloyd", "hamerly", "yinyang" or "auto"
        How the nearest centres are found; the result is the same to the bit. "hamerly" keeps one bound per row, "yinyang"
        one per row and group of centres; "auto" takes the latter once the labels calm down. Sparse and Dask data, and rows so
        few that NumPy does the work: "lloyd".
    """

    n_clusters: int
    seeding: Any = "k-means++"
    method: str = "auto"

    hint = "scale the data, or look for extreme values in it"

    def start(self, data: Points, rng: np.random.Generator) -> Array:
        """The first centres, (k, d)."""
        k, d = self.n_clusters, data.shape[1]
        if isinstance(self.seeding, str):
            draw = SEEDINGS[self.seeding]
            return np.asarray(draw(data, k, rng), data.dtype)
        centers = self.seeding
        if callable(centers):
            X = data.data if data.data.source is None else data.data.source
            centers = centers(X, k, random_state=np.random.RandomState(rng.integers(2**31)))
        centers = check_array(centers, dtype=data.dtype, order="C", input_name="init")
        if centers.shape != (k, d):
            raise ValueError(
                f"init gives centres of shape {centers.shape}; n_clusters={k} and {d} features need ({k}, {d})."
            )
        return centers

    def init(self, data: Points, rng: np.random.Generator) -> KMeansState:
        centers = self.start(data, rng)
        return KMeansState(centers, self._assign(data, centers).check_finite(), math.inf)

    def step(self, state: KMeansState, data: Points) -> KMeansState:
        centers = state.sums.centers_after(state.centers)
        moves = (centers.astype(np.float64) - state.centers) * 2.0**-data.spread.exponent
        shift = float(np.vdot(moves, moves))
        if shift == 0:  # the means are the centres already
            return replace(state, shift=0.0)
        variance = data.spread.variance
        shift = shift / variance if variance > 0 else math.inf
        sums = self._assign(data, centers, (state.centers, state.sums))
        return KMeansState(centers, sums.check_finite(), shift)

    def _assign(
        self, data: Points, centers: Array, before: tuple[Array, ClusterSums] | None = None
    ) -> ClusterSums:
        method = self._method(data)
        if method == "lloyd":
            return data.assign(centers, before)
        groups = 1 if method == "hamerly" else None
        if data.bounds is None or data.bounds.groups != groups:
            data.bounds = Bounds(data, groups)
        return data.bounds.assign(centers)

    def _method(self, data: Points) -> str:
        # bounds are not kept for these
        if data.sparse or is_dask(data.data.source) or not data.compiled:
            return "lloyd"
        if self.method != "auto":
            return self.method
        row = data.shape[1] * self.n_clusters  # numbers that all distances of a row are made of
        large = data.shape[0] * row >= WORTHWHILE and row >= MANY and self.n_clusters > 2
        calm = data.moved <= CALM * data.shape[0]
        return "yinyang" if large and calm else "lloyd"

    def objective(self, state: KMeansState) -> float:
        return state.cost

    def extras(self, state: KMeansState) -> dict[str, float]:
        return {"shift": state.shift}

    def attributes(self, state: KMeansState) -> dict[str, Any]:
        return {"cluster_centers_": state.centers, "inertia_": state.cost}
