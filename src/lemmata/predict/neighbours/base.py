"""Base of all models of neighbours: a fit that keeps the rows, and queries for the nearest of them.

    fit          keeps X (and y, and weights): there is nothing to optimise
    kneighbors   the k rows that come first in the order of (distance, number of the row); a row is no neighbour of itself
                 where the queries are the rows of the fit (X=None)

The search is chosen by metric and shape (metrics.py) when it is first needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from lemmata.core import common
from lemmata.core.blocks import Blocks
from lemmata.core.certification.checking import cost_of_neighbours
from lemmata.core.estimator import Model
from lemmata.core.loop import Never
from lemmata.core.parameters import COUNT, KW_ONLY, choice, fitted, parameter
from lemmata.core.store import storable
from lemmata.core.validation import Interval, refuse_large
from lemmata.predict.kernels.tiles import all_rows
from lemmata.predict.neighbours.metrics import ALGORITHMS, METRICS, effective_metric, search_of

Array = np.ndarray
SPARSE = ("euclidean", "manhattan", "cosine", "minkowski")  # metrics that sparse rows can have


@storable
@dataclass(frozen=True)
class KeptRows:
    """The rows that were kept, None before the only step."""

    version = 1
    layout: ClassVar[dict[str, str]] = {"y?": "n numbers | n m numbers", "weights?": "n >=0"}

    X: Any
    y: Any
    weights: Any


@dataclass(frozen=True)
class KeepRows:
    """Keep the data: the whole of training by neighbours (ML k-Nearest Neighbors)."""

    draws: ClassVar = False

    def init(self, data: Blocks, rng: Any) -> KeptRows:
        return KeptRows(None, None, None)

    def step(self, state: KeptRows, data: Blocks) -> KeptRows:
        return KeptRows(all_rows(data), data.targets, data.weights)

    def objective(self, state: KeptRows) -> float:
        return 0.0  # nothing is minimised

    def finished(self, state: KeptRows) -> bool:
        return state.X is not None

    def attributes(self, state: KeptRows) -> dict[str, Any]:
        return {"X_fit_": state.X, "y_fit_": state.y, "sample_weight_fit_": state.weights}


def like(rows: Any, others: Any) -> Any:
    """Return rows as an array or as CSR, whichever the others are."""
    if sp.issparse(rows) == sp.issparse(others):
        return rows
    return sp.csr_array(rows) if sp.issparse(others) else rows.toarray()


class Neighbours(Model):
    """Rows that are kept, and the search among them."""

    _: KW_ONLY
    n_neighbors: int = parameter(5, COUNT).doc("k, the number of neighbours.")
    algorithm: str = parameter("auto", choice(*ALGORITHMS)).doc("""
        brute: matrix products in float32 with a bound on their error, what may be near measured in
        float64. kd_tree, ball_tree: SciPy's k-d tree. "auto" takes the tree up to five features.
        All of them give the same rows.""")
    leaf_size: int = parameter(30, COUNT).doc("Rows in a leaf of the tree.")
    metric: Any = parameter("minkowski", choice(*METRICS), callable).doc("""
        A name that SciPy's cdist or scikit-learn knows, "precomputed" (X holds distances), or a
        function of two rows.""")
    p: float = parameter(2, Interval(Real, 0, None, closed="right")).doc("""
        p of minkowski, (Σ|q − x|^p)^(1/p): 1 is manhattan, 2 euclidean.""")
    metric_params: Any = parameter(None, dict, None).doc("Further arguments of the metric.")
    n_jobs: Any = common.n_jobs()

    stored: ClassVar[Mapping[str, str | type]] = {"X_fit_": "n d sparse"}

    work = staticmethod(cost_of_neighbours)

    # nothing to draw, to wait for or to resume
    random_state, verbose, checkpoint, time_limit = 0, 0, None, None

    X_fit_: Any = fitted()

    # --- the metric ---

    @property
    def effective_metric_(self) -> Any:
        """The metric that is used, by its own name."""
        check_is_fitted(self, "X_fit_")
        return self._metric()[0]

    @property
    def effective_metric_params_(self) -> dict[str, Any]:
        """The parameters of that metric."""
        check_is_fitted(self, "X_fit_")
        return self._metric()[1]

    @property
    def n_samples_fit_(self) -> int:
        """The number of rows that were kept."""
        return int(self.X_fit_.shape[0])

    def _metric(self) -> tuple[Any, dict[str, Any]]:
        return effective_metric(self.metric, self.p, self.metric_params)

    @property
    def accepts_sparse(self) -> bool:  # type: ignore[override]
        return self._metric()[0] in SPARSE if isinstance(self.metric, str) else False

    @property
    def accepts_nan(self) -> bool:  # type: ignore[override]
        return self.metric == "nan_euclidean"

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        given = isinstance(self.metric, str) and self.metric == "precomputed"
        tags.input_tags.pairwise = tags.input_tags.positive_only = given
        return tags

    # --- fitting ---

    def _algorithm(self, data: Blocks) -> KeepRows:
        if self.metric == "precomputed":
            refuse_no_distances(data)
        self._search = None
        return KeepRows()

    def _stop(self):
        return Never()

    def _attributes(self, solution: Any, problem: Any) -> dict[str, Any]:
        return forget_missing(self, solution.attributes)

    def _title(self, data: Blocks | None) -> str:
        metric = self.effective_metric_
        name = metric if isinstance(metric, str) else getattr(metric, "__name__", "its own metric")
        return f"{type(self).__name__}  {self.n_samples_fit_:,} × {self.n_features_in_:,}, k = {self.n_neighbors}, {name}"

    def __getstate__(self):
        return {name: value for name, value in super().__getstate__().items() if name != "_search"}

    # --- queries ---

    def _search_rows(self) -> Any:
        """Return the search among the rows, made when first needed."""
        if getattr(self, "_search", None) is None:
            metric, parameters = self._metric()
            self._search = search_of(
                self.X_fit_, metric, parameters, self.algorithm, self.leaf_size
            )
        return self._search

    def _queries(self, X: Any) -> Any:
        """Validate rows to find neighbours of; sparse where the rows of the fit are."""
        queries = all_rows(self._validate_rows(X, reset=False))
        refuse_large(queries)  # their distances would all be infinite
        return like(queries, self.X_fit_)

    def kneighbors(self, X=None, n_neighbors=None, return_distance=True):
        """The k nearest rows of the fit, nearest first; of rows at the same distance the one with the lower number.

        X : queries; None: the rows of the fit, each of which is then no neighbour of itself
        n_neighbors : k, if not that of the model

        Returns (distances, numbers), each (n_queries, k), or the numbers alone.
        """
        check_is_fitted(self, "X_fit_")
        k = self._checked_k(self.n_neighbors if n_neighbors is None else n_neighbors, X is None)
        if X is None:
            distances, rows = self._search_rows().nearest(self.X_fit_, k + 1)
            distances, rows = _without_itself(distances, rows)
        else:
            distances, rows = self._search_rows().nearest(self._queries(X), k)
        return (distances, rows) if return_distance else rows

    def _checked_k(self, k: Any, alone: bool) -> int:
        if not isinstance(k, Integral) or isinstance(k, bool):
            raise TypeError(f"n_neighbors={k!r}; pass a whole number >= 1.")
        most, k = self.n_samples_fit_ - alone, int(k)
        if not 1 <= k <= most:
            why = ", none of which is its own neighbour" if alone else ""
            raise ValueError(
                f"n_neighbors={k}, but the model was fitted to n_samples_fit={self.n_samples_fit_} rows{why}; "
                f"pass 1 <= n_neighbors <= {most}."
            )
        return k

    def kneighbors_graph(self, X=None, n_neighbors=None, mode="connectivity"):
        """The k nearest rows as a sparse matrix (n_queries, n_samples_fit) of ones, or with mode="distance" of distances."""
        _refuse_mode(mode)
        distances, rows = self.kneighbors(X, n_neighbors)
        q, k = rows.shape
        values = np.ones(q * k) if mode == "connectivity" else distances.ravel()
        return sp.csr_matrix(
            (values, rows.ravel(), np.arange(0, q * k + 1, k)), shape=(q, self.n_samples_fit_)
        )


def forget_missing(model: Model, attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes that are there, and delete from a model those of an earlier fit that are not."""
    for name, value in attributes.items():
        if value is None and hasattr(model, name):
            delattr(model, name)
    return {name: value for name, value in attributes.items() if value is not None}


def _without_itself(distances: Array, rows: Array) -> tuple[Array, Array]:
    """Neighbours of the rows themselves, one fewer: without the row itself, or the last where equal rows come before it."""
    q, k = rows.shape
    own = rows == np.arange(q)[:, None]
    own[~own.any(axis=1), -1] = True
    return distances[~own].reshape(q, k - 1), rows[~own].reshape(q, k - 1)


def _refuse_mode(mode: Any) -> None:
    if mode not in ("connectivity", "distance"):
        raise ValueError(f"mode={mode!r}; pass 'connectivity' or 'distance'.")


def refuse_no_distances(data: Blocks) -> None:
    """A matrix of distances is square and nowhere negative."""
    if data.shape[0] != data.shape[1]:
        raise ValueError(
            f"metric='precomputed' and X has shape {data.shape}; a matrix of distances has as many rows as columns."
        )
    if any((rows < 0).any() for rows, _ in data):
        raise ValueError("Negative values in data: metric='precomputed', and distances are >= 0.")
