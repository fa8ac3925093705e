"""The search for each metric: trees and matrix products where they pay, all distances block by block elsewhere.

    euclidean, minkowski p = 2     TreeSearch for few features, ExactSearch otherwise, sparse rows too
    manhattan, chebyshev, minkowski p        TreeSearch for few features, SciPy's cdist otherwise
    cosine                         ½‖q/‖q‖ − x/‖x‖‖², so ExactSearch on rows of length 1; with a row of zeros: all distances
    precomputed                    the columns of X are the distances to the rows
    anything else                  SciPy's cdist, or scikit-learn's pairwise_distances (sparse rows, functions of two rows)

>>> effective_metric("minkowski", 1, None)
('manhattan', {})
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.spatial.distance import cdist
from sklearn.metrics import pairwise_distances
from sklearn.preprocessing import normalize

from lemmata.predict.neighbours.search import ExactSearch
from lemmata.predict.neighbours.selection import in_blocks, nearest_of
from lemmata.predict.neighbours.trees import TreeSearch

Array = np.ndarray

SAME = {
    "l2": "euclidean",
    "l1": "manhattan",
    "cityblock": "manhattan",
    "infinity": "chebyshev",
    "p": "minkowski",
}
POWERS = {"manhattan": 1.0, "euclidean": 2.0, "chebyshev": np.inf}
IN_SCIPY = {
    "manhattan": "cityblock", "euclidean": "euclidean", "chebyshev": "chebyshev", "minkowski": "minkowski",
    "sqeuclidean": "sqeuclidean", "braycurtis": "braycurtis", "canberra": "canberra", "correlation": "correlation",
    "cosine": "cosine", "dice": "dice", "hamming": "hamming", "jaccard": "jaccard", "mahalanobis": "mahalanobis",
    "rogerstanimoto": "rogerstanimoto", "russellrao": "russellrao", "seuclidean": "seuclidean",
    "sokalsneath": "sokalsneath", "yule": "yule",
}  # fmt: skip
METRICS = (*IN_SCIPY, "haversine", "nan_euclidean", "precomputed", *SAME)
ON_TRUTH_VALUES = {"dice", "jaccard", "rogerstanimoto", "russellrao", "sokalsneath", "yule"}
ALGORITHMS = ("auto", "ball_tree", "kd_tree", "brute")


def effective_metric(
    metric: Any, p: float, parameters: Mapping[str, Any] | None
) -> tuple[Any, dict[str, Any]]:
    """The metric and its parameters, minkowski with p = 1, 2 or ∞ by its own name, as scikit-learn's attributes have them."""
    parameters = dict(parameters or {})
    if not isinstance(metric, str):
        return metric, parameters
    metric = SAME.get(metric, metric)
    if metric == "minkowski":
        p = parameters.pop("p", p)
        weights = parameters.pop("w", None)
        if weights is None and p in (1, 2, np.inf):
            return {1: "manhattan", 2: "euclidean", np.inf: "chebyshev"}[p], parameters
        return metric, {**parameters, "p": p, "w": weights}
    return metric, parameters


def search_of(
    X: Any, metric: Any, parameters: Mapping[str, Any], algorithm: str, leaf_size: int
) -> Any:
    """The search that finds neighbours among the rows X."""
    power = POWERS.get(metric) if isinstance(metric, str) else None
    if metric == "minkowski" and parameters.get("w") is None and parameters["p"] >= 1:
        power = float(parameters["p"])
    if algorithm in ("kd_tree", "ball_tree") and (power is None or sp.issparse(X)):
        found = "sparse rows" if sp.issparse(X) else f"metric={metric!r}"
        raise ValueError(
            f"algorithm={algorithm!r} takes dense rows and the metrics manhattan, euclidean, chebyshev and minkowski "
            f"(p >= 1), not {found}; pass algorithm='brute' or 'auto'."
        )
    trees = algorithm != "brute" and (algorithm != "auto" or TreeSearch.pays(*X.shape))
    if power is not None and trees and not sp.issparse(X):
        return TreeSearch(X, power, leaf_size)
    if metric == "euclidean":
        return ExactSearch(X)
    if metric == "cosine":
        return CosineSearch(X)
    return BlockSearch(X, distances_by(metric, parameters, sp.issparse(X)))


def distances_by(
    metric: Any, parameters: Mapping[str, Any], sparse: bool
) -> Callable[[Any, Any], Array]:
    """A function of two sets of rows that gives all distances between them, in float64."""
    parameters = {name: value for name, value in parameters.items() if value is not None}
    if metric == "precomputed":
        return lambda Q, X: np.asarray(Q, dtype=np.float64)
    if isinstance(metric, str) and metric in IN_SCIPY and not sparse:
        name = IN_SCIPY[metric]
        kind = bool if metric in ON_TRUTH_VALUES else np.float64
        return lambda Q, X: cdist(Q.astype(kind), X.astype(kind), name, **parameters)
    return lambda Q, X: np.asarray(
        pairwise_distances(Q, X, metric=metric, **parameters), dtype=np.float64
    )


class BlockSearch:
    """Neighbours from all distances, a block of queries at a time."""

    def __init__(self, X: Any, distances: Callable[[Any, Any], Array]):
        self.X, self.distances = X, distances

    def nearest(self, Q: Any, k: int) -> tuple[Array, Array]:
        """Distances and numbers of the k nearest rows, (q, k), nearest first, ties by the lower number."""
        q = Q.shape[0]
        out = np.empty((q, k)), np.empty((q, k), np.int64)

        def work(here: slice) -> None:
            out[0][here], out[1][here] = nearest_of(self._distances(Q[here]), k)

        in_blocks(work, q, self.X.shape[0])
        return out

    def within(self, Q: Any, radius: float) -> tuple[Array, Array, Array]:
        """All rows at a distance of at most `radius`: (query, row, distance) in the order of (query, row)."""
        parts: dict[int, tuple[Array, Array, Array]] = {}

        def work(here: slice) -> None:
            D = self._distances(Q[here])
            queries, rows = np.nonzero(radius >= D)
            parts[here.start] = queries + here.start, rows, D[queries, rows]

        in_blocks(work, Q.shape[0], self.X.shape[0])
        queries, rows, distances = zip(*(parts[at] for at in sorted(parts)), strict=True)
        return np.concatenate(queries), np.concatenate(rows), np.concatenate(distances)

    def _distances(self, Q: Any) -> Array:
        D = self.distances(Q, self.X)
        if np.isnan(D).any():
            raise ValueError(
                "the metric gives NaN for some pairs of rows (constant or empty rows, numbers out of range); "
                "use another metric, or drop those rows."
            )
        return D


class CosineSearch:
    """1 − cos(q, x) = ½‖q/‖q‖ − x/‖x‖‖²: Euclidean neighbours of rows of length 1. A row of zeros is at distance 1 of all."""

    def __init__(self, X: Any):
        units, zero = _unit_rows(X)
        self.units = units
        self.exact = None if zero.any() else ExactSearch(units)
        self.all = BlockSearch(units, lambda Q, X: np.clip(1 - _products(Q, X), 0, 2))

    def nearest(self, Q: Any, k: int) -> tuple[Array, Array]:
        units, zero = _unit_rows(Q)
        if self.exact is None or zero.any():
            return self.all.nearest(units, k)
        distances, rows = self.exact.nearest(units, k)
        return distances**2 / 2, rows

    def within(self, Q: Any, radius: float) -> tuple[Array, Array, Array]:
        return self.all.within(_unit_rows(Q)[0], radius)


def _products(Q: Any, X: Any) -> Array:
    found = Q @ X.T
    return found.toarray() if sp.issparse(found) else found


def _unit_rows(X: Any) -> tuple[Any, Array]:
    """Rows of length 1 in float64, and which rows are zero; scaled first, so that no square leaves the floats."""
    X = sp.csr_array(X).astype(np.float64) if sp.issparse(X) else np.asarray(X, dtype=np.float64)
    units = normalize(normalize(X, "max"))
    return units, np.asarray(abs(units).sum(axis=1)).ravel() == 0
