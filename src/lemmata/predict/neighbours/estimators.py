"""Votes and means of the k nearest rows (ML k-Nearest Neighbors), exact and with their certificate.

    p̂(y | x) = Σ_n w_n(x) 1[y_n = y],      f(x) = Σ_n w_n(x) y_n,       w_n = 1/k for the k nearest rows of x, else 0

or w_n proportional to 1/distance, or to any function of the distances.

    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = KNeighborsClassifier(5).fit(X, y)
    >>> model.predict_proba(X[70:71]).round(1)
    array([[0. , 0.4, 0.6]])
    >>> model.certify(X, y)["leave_one_out"].verdict
    'holds'
    >>> float(KNeighborsRegressor(5, weights="distance").fit(X[:, :3], X[:, 3]).predict(X[:1, :3]).round(2)[0])
    0.25
    >>> NearestNeighbors(n_neighbors=3).fit(X).kneighbors(X[:1], return_distance=False)
    array([[ 0, 17,  4]])
"""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Real
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from lemmata.audit.predict.neighbours.knn import (
    CLASSIFIER_CLAIMS,
    NEIGHBOUR_CLAIMS,
    REGRESSOR_CLAIMS,
)
from lemmata.core.parameters import COUNT, KW_ONLY, NONNEGATIVE, choice, fitted, parameter
from lemmata.core.supervised import Regressor, SeveralOutputsClassifier
from lemmata.core.validation import Interval
from lemmata.predict.neighbours.base import Neighbours, _refuse_mode

Array = np.ndarray


class NearestNeighbors(Neighbours):
    """Exact nearest rows, and all rows within a radius.

    Of rows at the same distance the one with the lower number comes first. Parameters and attributes are scikit-learn's.

    Attributes
    ----------
    X_fit_ : (n, d)
        The rows themselves, not a copy: do not change them.
    effective_metric_, effective_metric_params_, n_samples_fit_ : str, dict, int
    certificate_, trace_, stopped_, n_iter_
    """

    _: KW_ONLY
    radius: float = parameter(1.0, NONNEGATIVE, before="algorithm").doc("""
        r of `radius_neighbors`; a row at this very distance belongs to it.""")

    claims = NEIGHBOUR_CLAIMS

    def fit(self, X, y=None):  # type: ignore[override]
        """Keep the rows X; y is ignored."""
        return super().fit(X)

    def radius_neighbors(self, X=None, radius=None, return_distance=True, sort_results=False):
        """All rows of the fit at a distance of at most `radius`.

        X : queries; None: the rows of the fit, each of which is then no neighbour of itself
        sort_results : nearest first, ties by the lower number; else by number

        Returns (distances, numbers), each an array of n_queries arrays, or the numbers alone.
        """
        queries, rows, distances, count = self._within(X, radius)
        if sort_results:
            order = np.lexsort((rows, distances, queries))
            queries, rows, distances = queries[order], rows[order], distances[order]
        cuts = np.searchsorted(queries, np.arange(1, count))
        numbers = _as_objects(np.split(rows, cuts))
        return (_as_objects(np.split(distances, cuts)), numbers) if return_distance else numbers

    def radius_neighbors_graph(self, X=None, radius=None, mode="connectivity", sort_results=False):
        """All rows within the radius as a sparse matrix: 1, or with mode="distance" the distance, for each."""
        _refuse_mode(mode)
        queries, rows, distances, count = self._within(X, radius)
        if sort_results:
            order = np.lexsort((rows, distances, queries))
            queries, rows, distances = queries[order], rows[order], distances[order]
        values = np.ones(len(rows)) if mode == "connectivity" else distances
        starts = np.searchsorted(queries, np.arange(count + 1))
        return sp.csr_matrix((values, rows, starts), shape=(count, self.n_samples_fit_))

    def _within(self, X: Any, radius: Any) -> tuple[Array, Array, Array, int]:
        check_is_fitted(self, "X_fit_")
        radius = float(self.radius if radius is None else radius)
        if not radius >= 0:
            raise ValueError(f"radius={radius}; pass a number >= 0.")
        Q = self.X_fit_ if X is None else self._queries(X)
        queries, rows, distances = self._search_rows().within(Q, radius)
        if X is None:
            other = queries != rows
            queries, rows, distances = queries[other], rows[other], distances[other]
        return queries, rows, distances, Q.shape[0]


def _as_objects(parts: list[Array]) -> Array:
    """Return arrays of different lengths as one array of arrays."""
    found = np.empty(len(parts), dtype=object)
    found[:] = parts
    return found


# --- predicting -------------------------------------------------------------------------------------------------------


class _Voting(Neighbours):
    """Neighbours that vote: the share of each of them in a prediction."""

    n_neighbors: int = parameter(5, COUNT)
    _: KW_ONLY
    weights: Any = parameter(
        "uniform", choice("uniform", "distance"), callable, None, before="algorithm"
    ).doc("""
        w: the same for all k rows, 1/distance, or a function that turns distances (q, k) into numbers
        >= 0.""")
    p: float = parameter(2, Interval(Real, 0, None, closed="right"), before="metric").doc("""
        p of minkowski, (Σ|q − x|^p)^(1/p): 1 is manhattan, 2 euclidean.""")

    multi_output = True
    stored: ClassVar[Mapping[str, str | type]] = {
        **Neighbours.stored,
        "y_fit_": "n numbers | n m numbers",
        "sample_weight_fit_?": "n >=0",
    }

    y_fit_: Array = fitted()

    def _voters(self, X: Any) -> tuple[Array, Array]:
        """Return the rows that vote for each prediction and their shares, (q, m) each; shares add up to 1."""
        check_is_fitted(self, "X_fit_")
        counts = getattr(self, "sample_weight_fit_", None)
        if counts is None:
            distances, rows = self.kneighbors(X)
            votes = np.ones(rows.shape)
        else:
            distances, rows, votes = self._count_votes(X, counts)
            if isinstance(self.weights, str):  # a row that does not count is not near either
                distances = np.where(votes > 0, distances, np.inf)
        votes = votes * shares_by(self.weights, distances)
        total = votes.sum(axis=1, keepdims=True)
        if not (total > 0).all():
            raise ValueError(
                "weights gives all neighbours of a row the weight 0; it has to leave a positive one."
            )
        return rows, votes / total

    def _count_votes(self, X: Any, counts: Array) -> tuple[Array, Array, Array]:
        """Return as many of the nearest rows as weigh k together, the last with the weight left: weight 2 is the row twice."""
        k, m, n = self.n_neighbors, min(self.n_neighbors, self.n_samples_fit_), self.n_samples_fit_
        if counts.sum() < k:
            raise ValueError(
                f"n_neighbors={k} exceeds the total weight {counts.sum():g} of the rows; lower n_neighbors, or raise weights."
            )
        # how many neighbours it takes is not known beforehand
        while True:
            distances, rows = self.kneighbors(X, m)
            reached = np.cumsum(counts[rows], axis=1)
            if m == n or (reached[:, -1] >= k).all():
                break
            m = min(2 * m, n)
        before = reached - counts[rows]
        return distances, rows, np.clip(k - before, 0, counts[rows])


def shares_by(weights: Any, distances: Array) -> Array:
    """Weigh distances: all alike, by their inverse (rows at distance 0 leave nothing to others), or by a function."""
    if weights in ("uniform", None):
        return np.ones(distances.shape)
    if isinstance(weights, str):
        with np.errstate(divide="ignore"):
            inverse = 1 / distances
        here = np.isinf(inverse)
        return np.where(here.any(axis=1, keepdims=True), here, np.where(here, 0, inverse))
    found = np.asarray(weights(distances), dtype=np.float64)
    if found.shape != distances.shape or not (np.isfinite(found) & (found >= 0)).all():
        raise ValueError(
            f"the function given as weights returned shape {found.shape} or numbers that are negative or not finite; "
            f"it has to return one number >= 0 per distance, shape {distances.shape}."
        )
    return found


class KNeighborsClassifier(_Voting, SeveralOutputsClassifier):
    """The label most frequent among the k nearest rows.

    p̂(y | x) = Σ w_n(x) 1[y_n = y] over the k nearest rows; the largest wins, in a tie the first class. Parameters and
    attributes are scikit-learn's.

    Attributes
    ----------
    classes_ : (c,), or a list of such for several outputs
    X_fit_, y_fit_ : (n, d), (n,) or (n, outputs)
        The rows, and the places of their labels in classes_.
    sample_weight_fit_ : (n,), if weights were given
    effective_metric_, effective_metric_params_, n_samples_fit_, outputs_2d_ : str, dict, int, bool
    certificate_, trace_, stopped_, n_iter_

    Notes
    -----
    Weights count rows: weight 2 is the row twice, so the nearest rows vote until their weights add up to k.
    """

    n_neighbors: int = parameter(5, COUNT).doc("""
        k. Small: little bias, much variance; k = n: always the most frequent class.""")

    claims = CLASSIFIER_CLAIMS

    @classmethod
    def restored(
        cls, parameters: dict[str, Any], attributes: dict[str, Any]
    ) -> KNeighborsClassifier:
        """A model from a file, whose labels have to be places in `classes_`."""
        model: Any = super().restored(parameters, attributes)
        classes, y = model.classes_, model.y_fit_
        many = isinstance(classes, list)
        most = np.array([len(one) for one in (classes if many else [classes])])
        if y.ndim != 1 + many or y.dtype.kind not in "iu" or (many and y.shape[1] != len(most)):
            raise ValueError(f"y_fit_ of shape {y.shape} is not of places in classes_.")
        if not ((y >= 0) & (y < (most if many else most[0]))).all():
            raise ValueError("y_fit_ holds places beyond classes_.")
        return model

    @property
    def outputs_2d_(self) -> bool:
        """Whether y had several columns."""
        return self.y_fit_.ndim == 2

    def predict_proba(self, X):
        """The share of each class among the neighbours, (q, c); of several outputs a list of these."""
        rows, shares = self._voters(X)
        if not self.outputs_2d_:
            return votes(self.y_fit_[rows], shares, len(self.classes_))
        return [
            votes(places[rows], shares, len(classes))
            for places, classes in zip(self.y_fit_.T, self.classes_, strict=True)
        ]

    def predict(self, X):
        """The class with the largest share."""
        found = self.predict_proba(X)
        if not self.outputs_2d_:
            return self.classes_[found.argmax(axis=1)]
        columns = [c[p.argmax(axis=1)] for c, p in zip(self.classes_, found, strict=True)]
        return np.stack(columns, axis=1)


def votes(places: Array, shares: Array, count: int) -> Array:
    """Σ shares of each class: (q, count) from the neighbours' classes and shares, (q, k) each."""
    q = len(places)
    cells = places + count * np.arange(q)[:, None]
    return np.bincount(cells.ravel(), shares.ravel(), q * count).reshape(q, count)


class KNeighborsRegressor(_Voting, Regressor):
    """The mean of the k nearest rows' targets.

    f(x) = Σ w_n(x) y_n over the k nearest rows. Parameters and attributes are scikit-learn's.

    Attributes
    ----------
    X_fit_, y_fit_ : (n, d), (n,) or (n, outputs)
    sample_weight_fit_ : (n,), if weights were given
    effective_metric_, effective_metric_params_, n_samples_fit_ : str, dict, int
    certificate_, trace_, stopped_, n_iter_

    Notes
    -----
    Weights count rows: weight 2 is the row twice, so the mean is that of the nearest rows whose weights add up to k.
    """

    n_neighbors: int = parameter(5, COUNT).doc("""
        k. Small: little bias, much variance; k = n: the mean of all.""")

    claims = REGRESSOR_CLAIMS

    def predict(self, X):
        """The weighted mean of the neighbours' targets, (q,) or (q, outputs)."""
        rows, shares = self._voters(X)
        y = self.y_fit_
        return np.einsum("qk,qk...->q...", shares, y[rows].astype(np.float64)).astype(y.dtype)
