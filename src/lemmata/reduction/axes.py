"""Methods of models with orthonormal axes: coordinates of rows, rows of coordinates, and the density it stands for.

    z = C(x − μ),      x ≈ μ + Cᵀz,      x ~ N(μ, Cᵀ diag(λ − σ²) C + σ²I)            (rows of C: the axes, λ: variances)

Whitened coordinates are divided by √λ. Outside of the axes the density has the variance σ² in every direction, the average of
what was left out (probabilistic PCA; Tipping & Bishop 1999).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import ClassNamePrefixFeaturesOutMixin
from sklearn.utils.validation import check_array, check_is_fitted

from lemmata.core.blocks import Blocks, is_dask
from lemmata.core.engine import map_reduce, one_blas_thread
from lemmata.core.estimator import RowTransformer

Array = np.ndarray


class Axes(ClassNamePrefixFeaturesOutMixin, RowTransformer):
    """`transform` and `inverse_transform` of a model with `components_` (k, d), and with `mean_` (d,) if it centres."""

    components_: Array
    explained_variance_: Array
    whiten: bool = False

    def _centre(self) -> Array | None:
        """The point that is subtracted from rows; None where nothing is."""
        return None

    def _open(self, X: Any) -> Any:
        """New rows as Blocks, of the width of the fit."""
        return self._validate_rows(X, reset=False)

    def transform(self, X):
        """The coordinates of rows in the axes."""
        check_is_fitted(self, "components_")
        C, centre = self.components_, self._centre()
        offset = None if centre is None else centre @ C.T
        deviations = self._deviations() if self.whiten else None

        def coordinates(rows):
            Z = rows @ C.T
            if offset is not None:
                Z -= offset
            if deviations is not None:
                Z /= deviations
            return Z

        data = self._open(X)
        if is_dask(data.source):
            return data.source.map_blocks(
                coordinates, chunks=(data.source.chunks[0], (len(C),)), dtype=data.dtype
            )
        return row_by_row(coordinates, data)

    def _deviations(self) -> Array:
        """Standard deviations for whitening; a direction without variance is left as it is."""
        deviations = np.sqrt(self.explained_variance_)
        return np.where(deviations > 0, deviations, 1).astype(self.components_.dtype)

    def inverse_transform(self, X):
        """The rows that have these coordinates: the reconstruction."""
        check_is_fitted(self, "components_")
        X = check_array(X, dtype=[np.float64, np.float32], input_name="X")
        if X.shape[1] != len(self.components_):
            raise ValueError(
                f"X has shape {X.shape}; inverse_transform takes rows of {len(self.components_)} coordinates."
            )
        C, centre = self.components_, self._centre()
        C = C * self._deviations()[:, None] if self.whiten else C
        return row_by_row(lambda Z: Z @ C if centre is None else Z @ C + centre, Blocks.of(X))

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)


class GaussianAxes(Axes):
    """Axes through a mean, and the Gaussian density with the variances along them."""

    mean_: Array
    noise_variance_: float

    def _centre(self):
        return self.mean_

    def score_samples(self, X) -> Array:
        """The log-likelihood of each row."""
        check_is_fitted(self, "components_")
        return row_by_row(self._log_likelihood, self._open(X))

    def score(self, X, y=None, sample_weight=None) -> float:
        """The average log-likelihood of the rows; a weight counts its row that many times."""
        if sample_weight is None:
            return float(np.mean(self.score_samples(X)))
        data = self._validate_rows(X, sample_weight, reset=False)
        return float(np.average(self.score_samples(X), weights=data.weights))

    def _log_likelihood(self, rows) -> Array:
        C, mean = self.components_.astype(np.float64), self.mean_.astype(np.float64)
        k, d = C.shape
        values, noise = self._variances(), self.noise_variance_
        Z = rows @ C.T - mean @ C.T
        inside = (Z**2 / values).sum(axis=1) + np.log(values).sum()
        if k == d:
            return -0.5 * (d * np.log(2 * np.pi) + inside)
        outside = (_squared_distances(rows, mean) - (Z**2).sum(axis=1)) / noise
        return -0.5 * (d * np.log(2 * np.pi) + inside + outside + (d - k) * np.log(noise))

    def _variances(self) -> Array:
        """λ in float64, at least σ²; refuses where the density would be flat."""
        k, d = self.components_.shape
        values = np.maximum(self.explained_variance_.astype(np.float64), self.noise_variance_)
        if values.min() <= 0 or (self.noise_variance_ <= 0 and k < d):
            raise ValueError(
                "the data has no variance outside the subspace, so no density exists; keep fewer components."
            )
        return values

    def get_covariance(self) -> Array:
        """Cᵀ diag(λ − σ²) C + σ²I, the covariance of the density."""
        check_is_fitted(self, "components_")
        C = self.components_
        extra = np.maximum(self.explained_variance_ - self.noise_variance_, 0)
        return (C.T * extra) @ C + self.noise_variance_ * np.eye(C.shape[1], dtype=C.dtype)

    def get_precision(self) -> Array:
        """The inverse of the covariance: Cᵀ diag(1/λ) C + (I − CᵀC)/σ², as the axes are orthonormal."""
        check_is_fitted(self, "components_")
        C, values = self.components_.astype(np.float64), self._variances()
        k, d = C.shape
        outside = 1 / self.noise_variance_ if k < d else 0.0
        precision = (C.T * (1 / values - outside)) @ C + outside * np.eye(d)
        return precision.astype(self.components_.dtype)


def row_by_row(function: Callable[[Any], Array], data: Blocks) -> Array:
    """Apply a function to blocks side by side, for each row: the same bits for any number of threads, ours or BLAS's."""
    with one_blas_thread():
        parts = map_reduce(lambda rows, weights: [function(rows)], data, [])
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def delete_attributes(model: Any, *names: str) -> None:
    """Delete those that are there: results of an earlier fit."""
    for name in names:
        with suppress(AttributeError):
            delattr(model, name)


def _squared_distances(rows: Any, mean: Array) -> Array:
    """‖x − μ‖² of every row, in float64; sparse rows stay sparse."""
    if sp.issparse(rows):
        squares = np.asarray(rows.multiply(rows).sum(axis=1)).ravel()
        return squares - 2 * (rows @ mean) + mean @ mean
    centred = rows - mean
    return np.einsum("ij,ij->i", centred, centred)
