"""k-means: k centres that serve every row by its nearest one, at the least total squared distance.

    minimise  Σ_i w_i min_j ‖x_i − c_j‖²      over k centres c_j                                              (CIL20 6.2)

    >>> from sklearn.datasets import load_iris
    >>> X = load_iris().data
    >>> model = KMeans(n_clusters=3, n_init=5, random_state=0).fit(X)
    >>> round(model.inertia_, 2), model.cluster_centers_.shape
    (78.85, (3, 4))
    >>> model.certificate_.failed
    []

The problem is NP-hard; Lloyd's steps (lloyd.py) end in a local optimum that depends on where they start (seeding.py). How
good the one found is compared with the best possible is for the certificate.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from sklearn.base import ClassNamePrefixFeaturesOutMixin, ClusterMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from lemmata.audit.clustering.kmeans import KMEANS_CLAIMS
from lemmata.clustering import frames
from lemmata.clustering.assignment import ClusterSums, Points, labels_of
from lemmata.clustering.lloyd import SEEDINGS, LloydAlgorithm, Still
from lemmata.core import common
from lemmata.core.blocks import Blocks, is_dask
from lemmata.core.certificate import Certificate, Statement
from lemmata.core.certification.checking import MANY_STARTS, cost_of_kmeans
from lemmata.core.engine import map_reduce, one_blas_thread
from lemmata.core.estimator import Model, RowTransformer
from lemmata.core.loop import MaxSteps, Never, Solution, Stop, Stopped, best_run, warn_user
from lemmata.core.parameters import COUNT, KW_ONLY, choice, fitted, parameter
from lemmata.core.runs.repeat import Restarts
from lemmata.core.runs.trace import Trace

Array = np.ndarray
ALGORITHMS = ("auto", "lloyd", "hamerly", "yinyang", "elkan")


class KMeans(ClassNamePrefixFeaturesOutMixin, RowTransformer, ClusterMixin, Model):
    """k-means clustering.

    Minimises Σ_i w_i min_j ‖x_i − c_j‖² over k centres c_j by Lloyd's algorithm.

    Attributes
    ----------
    cluster_centers_ : (k, d)
    labels_ : (n,) int32
        The nearest centre of every row, the lowest number where two are equally near. After `partial_fit`, of the rows of the
        last batch.
    inertia_ : float
        The cost, Σ w‖x − c‖² at these centres and labels, summed from differences. After `partial_fit`, of the last batch.
    sums_ : ClusterSums
        Weight and sum of each cluster, and its worst served row: what `partial_fit` continues from.
    n_iter_ : int
        Steps of the start that was kept.
    certificate_, trace_, stopped_

    Notes
    -----
    Weights count rows: weight 2 is the row twice, weight 0 gets a label and nothing else. An empty cluster moves to the worst
    served row. The result depends neither on the number of threads nor on the algorithm. `partial_fit` is mini-batch k-means,
    not `fit` by instalments: rows keep the label of their time, a centre is the mean of all rows ever given to it, and
    the result depends on the order of the batches.
    """

    n_clusters: int = parameter(8, COUNT).doc("k, the number of clusters.")
    _: KW_ONLY
    init: Any = parameter("k-means++", choice(*SEEDINGS), callable, "array-like").doc("""
        Where the centres start: rows drawn by greedy D² sampling (expected cost within 8(ln k + 2)
        of the best), the same in a few passes for data that is not in memory, rows drawn evenly,
        given centres (k, d), or what ``init(X, n_clusters, random_state)`` returns.""")
    n_init: Any = parameter("auto", choice("auto"), COUNT).doc("""
        Number of starts; the result of lowest cost is kept. "auto": 10 for "random" and callables,
        else 1.""")
    algorithm: str = parameter("auto", choice(*ALGORITHMS)).doc("""
        How the nearest centres are found. The result is the same to the bit; only the time differs.
        "lloyd" measures every distance, "hamerly" keeps one bound per row that rules out most of
        them, "yinyang" one per row and group of centres (all three in at most about a seventh of
        the memory of the data, where it has 32 features or more). "auto" begins with "lloyd"
        and switches to "yinyang" once few labels change. "elkan" is accepted for compatibility and
        means "yinyang". Sparse and Dask data: "lloyd".""")
    max_iter: int = common.max_iter(300).doc("Lloyd steps per start.")
    tol: float = common.tol(1e-4).doc("""
        A run has settled when Σ_j ‖c_j − c_j before‖² ≤ tol · (mean variance of a feature); at 0,
        when nothing moves.""")
    random_state: Any = common.random_state()
    copy_x: bool = parameter(True, "boolean").doc("Accepted for compatibility: X is never changed.")
    verbose: int = common.verbose()
    checkpoint: Any = common.checkpoint()
    time_limit: Any = common.time_limit()

    cluster_centers_: Array = fitted()
    accepts_sparse = True
    finds_nonfinite = True
    claims: ClassVar[tuple[Statement, ...]] = KMEANS_CLAIMS
    work = staticmethod(cost_of_kmeans)
    many_starts: ClassVar[int] = MANY_STARTS
    stored: ClassVar[dict[str, str | type]] = {
        "cluster_centers_ labels_ inertia_": "audited",
        "sums_": ClusterSums,
    }

    # --- fitting ---

    def _algorithm(self, data: Blocks) -> Any:
        self._check_rows(data)
        one, starts = self._one_start(), self._starts()
        return one if starts == 1 else Restarts(one, starts, stop=self._stop_of_one())

    def _check_rows(self, data: Blocks) -> int:
        """The number of rows, unless there are fewer than clusters."""
        n, k = data.shape[0], self.n_clusters
        if k > n:
            raise ValueError(f"n_samples={n} should be >= n_clusters={k}; pass n_clusters <= {n}.")
        return n

    def _one_start(self) -> LloydAlgorithm:
        init = np.asarray(self.init) if self._is_given() else self.init
        return LloydAlgorithm(int(self.n_clusters), init, self._method)

    @property
    def _method(self) -> str:
        return "yinyang" if self.algorithm == "elkan" else self.algorithm

    def _starts(self) -> int:
        if not isinstance(self.n_init, str):
            # a given start gives the same result every time
            return 1 if self._is_given() else int(self.n_init)
        careless = callable(self.init) or (isinstance(self.init, str) and self.init == "random")
        return self.many_starts if careless else 1

    def _is_given(self) -> bool:
        return not isinstance(self.init, str) and not callable(self.init)

    def _problem(self, data: Blocks) -> Points:
        compiled = frames.worth_kernels(data, self.n_clusters, frames.PASSES * self._starts())
        return Points(data, compiled, frames.spread_of(data, compiled))

    def _stop_of_one(self) -> Stop:
        return Still(self.tol) | MaxSteps(self.max_iter)

    def _stop(self) -> Stop:
        return self._within_time(Never() if self._starts() > 1 else self._stop_of_one())

    def _attributes(self, solution: Solution, problem: Points) -> dict[str, Any]:
        state = best_run(solution).state
        labels = problem.labels(state.centers)
        self._warn_of_empty(state.sums)
        return {
            "cluster_centers_": state.centers,
            "labels_": labels,
            "inertia_": state.cost,
            "sums_": state.sums,
        }

    def _warn_of_empty(self, sums: ClusterSums) -> None:
        found = int(np.count_nonzero(sums.counts))
        if found < self.n_clusters:
            warn_user(
                f"{type(self).__name__} found {found} distinct clusters, fewer than n_clusters={self.n_clusters}: there may "
                "be no more different rows than that. Pass a smaller n_clusters.",
                ConvergenceWarning,
            )

    def _describe_unsettled(self, solution: Solution) -> str:
        return (
            f"KMeans reached max_iter={self.max_iter} while its centres still moved, by {solution.trace.last('shift'):.1e} > "
            f"tol={self.tol:.0e} of the variance: raise max_iter, or read certificate_."
        )

    def _title(self, data: Blocks | None) -> str:
        n = f"{data.shape[0]:,} × " if data is not None else "… × "
        return f"{type(self).__name__}  {n}{self.n_features_in_:,}, k = {len(self.cluster_centers_)}, cost {self.inertia_:.6g}"

    # --- one batch after the other ---

    def partial_fit(self, X, y=None, sample_weight=None):
        """Give the rows of a batch to their nearest centres, and move these to the mean of all they were ever given.

        The first batch also says where the centres start, so it needs n_clusters rows at least. `labels_` and `inertia_` are
        those of the last batch. After a `fit`, its clusters count as given.
        """
        self._validate_params()
        first = not hasattr(self, "cluster_centers_")
        if not first and len(self.cluster_centers_) != self.n_clusters:
            k = len(self.cluster_centers_)
            raise ValueError(
                f"n_clusters={self.n_clusters}, but there are {k} centres to continue from; set it to {k}, or fit."
            )
        with self._all_or_nothing():
            data = self._validate_rows(
                X, sample_weight, reset=first, min_samples=self.n_clusters if first else 1
            )
            if first:
                points = self._problem(data)
                self.cluster_centers_ = self._one_start().start(
                    points, np.random.default_rng(self._rng())
                )
                self.sums_ = ClusterSums.none(self.cluster_centers_)
            else:
                points = self._beside_centers(_as(data, self.cluster_centers_.dtype))
            self.sums_ = self.sums_ + points.assign(self.cluster_centers_).check_finite()
            self.cluster_centers_ = self.sums_.centers_after(self.cluster_centers_)
            inertia = points.assign(self.cluster_centers_).check_finite().cost
            attributes = {"inertia_": inertia, "labels_": points.labels(self.cluster_centers_)}
            batches = self.n_iter_ if not first and self.stopped_ == Stopped.BATCHES else 0
            trace = Trace()
            trace.append(inertia, 0.0)
            self._conclude(None, attributes, trace, Stopped.BATCHES, batches + 1)
        return self

    @classmethod
    def restored(cls, parameters: dict[str, Any], attributes: dict[str, Any]) -> KMeans:
        model = super().restored(parameters, attributes)
        k = len(model.cluster_centers_)
        if np.max(getattr(model, "labels_", 0), initial=0) >= k:
            raise ValueError(
                f"labels_ go up to {np.max(model.labels_)}, but there are {k} centres."
            )
        return model

    def _certificate(self, data: Any, y=None, **options: Any) -> Certificate:
        little = isinstance(data, Blocks) and frames.is_little(data)
        with one_blas_thread() if little else nullcontext():
            return super()._certificate(data, y, **options)

    # --- using it ---

    def predict(self, X):
        """The number of the nearest centre of each row, int32; of a dask array, a dask array."""
        check_is_fitted(self)
        data = self._validate_rows(X, reset=False)
        packed = self._frame_centers(data)
        if is_dask(data.source):
            return data.source.map_blocks(labels_of, packed, drop_axis=1, dtype=np.int32)
        with one_blas_thread():
            return np.concatenate(map_reduce(lambda rows, _: [labels_of(rows, packed)], data, []))

    def transform(self, X):
        """The distance of each row to each centre, (n, k); of a dask array, a dask array."""
        check_is_fitted(self)
        data = self._validate_rows(X, reset=False)
        packed, k = self._frame_centers(data), len(self.cluster_centers_)
        if is_dask(data.source):
            return data.source.map_blocks(
                _distances, packed, chunks=(data.source.chunks[0], (k,)), dtype=data.dtype
            )
        with one_blas_thread():
            return np.concatenate(map_reduce(lambda rows, _: [_distances(rows, packed)], data, []))

    def score(self, X, y=None, sample_weight=None) -> float:
        """Minus the cost of these rows at the centres."""
        check_is_fitted(self)
        data = self._validate_rows(X, sample_weight, reset=False)
        with one_blas_thread():
            return -self._beside_centers(data).assign(self.cluster_centers_).check_finite().cost

    def _frame_centers(self, data: Blocks) -> frames.FramedCenters:
        """The centres in a frame around them, for a pass over some rows."""
        compiled = frames.worth_kernels(data, len(self.cluster_centers_), 1)
        return frames.FramedCenters.around(self._centers_as(data.dtype), compiled)

    def _centers_as(self, dtype: Any) -> Array:
        with np.errstate(over="ignore"):
            centers = self.cluster_centers_.astype(dtype, copy=False)
        if not np.isfinite(centers).all():
            reach = np.abs(self.cluster_centers_).max()
            raise ValueError(
                f"X is {dtype}, which ends before the centres of this model, at {reach:.1e}; pass float64."
            )
        return centers

    def _beside_centers(self, data: Blocks) -> Points:
        """Rows that need not lie where the centres do, in a frame in which the squares of both are floats."""
        centers = self._centers_as(data.dtype)
        compiled = frames.worth_kernels(data, len(centers), 1)
        own = frames.FeatureSpread.of(centers, np.zeros(len(centers)))
        return Points(data, compiled, frames.spread_of(data, compiled) + own)

    @property
    def _n_features_out(self) -> int:
        return len(self.cluster_centers_)


def _as(data: Blocks, dtype: Any) -> Blocks:
    """Rows of a batch in the type of the centres."""
    if data.dtype == dtype:
        return data
    rows = (
        data.source.astype(dtype)
        if data.source is not None
        else [rows.astype(dtype) for rows, _ in data]
    )
    return Blocks.of(rows, data.weights)


def _distances(rows: Any, packed: frames.FramedCenters) -> Array:
    """‖x − c‖ for every row and centre, from products in the frame of the centres."""
    shifted = packed.centers if sp.issparse(rows) else packed.centers - packed.origin
    moved = rows if sp.issparse(rows) else rows - packed.origin
    numbers = moved.data if sp.issparse(moved) else moved
    reach = max(float(np.abs(numbers).max(initial=0.0)), float(np.abs(shifted).max()))
    limits = np.finfo(shifted.dtype)
    if not limits.tiny**0.4 < reach < limits.max**0.4:  # squares would leave the floats
        scale = shifted.dtype.type(frames.power(-frames.exponent_of(reach), shifted.dtype))
        shifted, moved = shifted * scale, moved * scale
    else:
        scale = shifted.dtype.type(1)
    squares = (
        moved.multiply(moved).sum(axis=1)
        if sp.issparse(moved)
        else np.einsum("ij,ij->i", moved, moved)
    )
    Z = np.asarray(moved @ shifted.T)
    Z *= -2
    Z += np.asarray(squares).reshape(-1, 1)
    Z += np.einsum("ij,ij->i", shifted, shifted)
    np.sqrt(np.maximum(Z, 0, out=Z), out=Z)
    Z /= scale
    return Z
