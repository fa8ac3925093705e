"""Gaussian components, with unknown entries (NaN) marginalised exactly.

    log p(x; μ, Σ) = −½ [d log 2π + log det Σ + (x − μ)ᵀ Σ⁻¹ (x − μ)]                  (CIL (3.23), ML Gaussian Mixture Models)

    full        a Σ_j for every component            Σ_j = S_j / N_j + ρI           S_j = Σ_i w_i r_ij (x_i − μ_j)(x_i − μ_j)ᵀ
    tied        one Σ for all                        Σ = Σ_j S_j / Σ_j N_j + ρI
    diag        Σ_j diagonal                         the diagonal of the full one
    spherical   Σ_j = σ_j² I                         σ_j² = the mean of that diagonal
    unit        Σ = I (CIL 3.1.5)                    and nothing to estimate but μ_j = Σ_i w_i r_ij x_i / N_j
    fixed       a given Σ

ρ = `reg_covar` keeps covariances positive definite (the likelihood is unbounded without). It moves the M-step away from the
maximum of the bound, so the likelihood may fall, but by no more than `price`: with λ the eigenvalues of Σ_j − ρI and t = ρ/λ,
½ Σ_j (N_j/N) Σ_λ [log(1 + t) − t/(1 + t)], which is about t²/4 each.

A row that is partly NaN has the density of what is known of it, and the M-step adds what is expected of the rest: conditional
means, and in S_j the conditional covariance too (full, tied, fixed). With independent features, what is known is enough:
μ and σ² of a feature are those of the rows that have it. A row that is all NaN is no row.

    >>> family = FullGaussian()
    >>> params = family.with_given(None, 1, means=[[0.0, 1.0]], precisions=[np.eye(2)])
    >>> family.log_density(np.array([[0.0, 1.0], [np.nan, 1.0]]), params).ravel() / np.log(2 * np.pi)
    array([-1. , -0.5])
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import cholesky, lapack

from lemmata.core.store import storable
from lemmata.mixtures.gaussians.components import AxisComponents, DenseComponents
from lemmata.mixtures.gaussians.family import Gaussian, GaussianParameters, finite, positive

Array = np.ndarray
HINT = "Raise reg_covar, use fewer components, drop constant features, or scale the data."


@dataclass(frozen=True)
class _Regularised:
    """ρ, for those whose Σ is estimated."""

    reg_covar: float = 1e-6

    def __post_init__(self):
        if not 0 <= self.reg_covar < np.inf:
            raise ValueError(
                f"reg_covar={self.reg_covar}: what is added to variances is a number >= 0."
            )


def _divide(squares: Array, weights: Array) -> Array:
    """Squares (k, …) by their weights. A component without any has what all of them together have."""
    pooled = squares.sum(axis=0) / np.maximum(weights.sum(axis=0), np.finfo(float).tiny)
    return np.where(weights > 0, squares / np.where(weights > 0, weights, 1), pooled)


def _price(weights: Any, variances: Array, reg: float) -> float:
    """½ Σ N [log(1 + t) − t/(1 + t)], t = ρ/λ, for variances λ + ρ with weights N; ∞ where λ = 0."""
    if reg == 0:
        return 0.0
    left = variances - reg
    if not (left > 0).all():
        return np.inf
    return float(0.5 * (weights * (np.log1p(reg / left) - reg / variances)).sum())


# --- features that depend on one another ------------------------------------------------------------------------------


def _factor(covariance: Array, who: str) -> Array:
    """Upper triangular P with PPᵀ = Σ⁻¹."""
    finite(covariance)
    L, lost = lapack.dpotrf(covariance, lower=1, clean=1)
    if lost:
        raise ValueError(
            f"the covariance of {who} is not positive definite: rows lie in a plane, or are too small to be squared. {HINT}"
        )
    # not solve_triangular: waking BLAS's threads for a small system takes milliseconds
    return lapack.dtrtri(L, lower=1)[0].T


class _Dense(Gaussian):
    """Abstract: P is (d, d) or (k, d, d)."""

    def components(self, params, log_weights, dtype, compiled=False):
        k, d = len(log_weights), params.means.shape[1]
        C = params.covariances.reshape(-1, d, d)
        P = np.broadcast_to(params.precisions_cholesky, (k, d, d))
        means = np.broadcast_to(params.means, (k, d))
        return DenseComponents.of(means, C, P, log_weights, dtype, self.estimated, compiled)

    def of(self, means, covariances):
        if covariances.ndim == 2:
            return GaussianParameters(means, covariances, _factor(covariances, "the components"))
        factors = [_factor(C, f"component {j}") for j, C in enumerate(covariances)]
        return GaussianParameters(means, covariances, np.array(factors))

    def _invert(self, precisions):
        return np.linalg.inv(positive(precisions, "initial precisions"))

    def sample(self, params, components, rng):
        k, d = params.means.shape
        C, noise = (
            np.broadcast_to(params.covariances, (k, d, d)),
            rng.standard_normal((len(components), d)),
        )
        rows = params.means[components]
        for j in np.unique(components):
            rows[components == j] += noise[components == j] @ cholesky(C[j])
        return rows


@storable
@dataclass(frozen=True)
class FullGaussian(_Regularised, _Dense):
    """Every component has a covariance of its own."""

    version = 1
    name, axes = "full", "kdd"

    def covariances(self, stats):
        own = _divide(stats.scatter, stats.counts[:, None, None])
        return own + self.reg_covar * np.eye(own.shape[-1])

    def price(self, stats, params):
        share = stats.counts / stats.counts.sum()
        if not self.reg_covar:
            return 0.0
        return _price(share[:, None], np.linalg.eigvalsh(params.covariances), self.reg_covar)


@storable
@dataclass(frozen=True)
class TiedGaussian(_Regularised, _Dense):
    """All components share one covariance."""

    version = 1
    name, axes = "tied", "dd"

    def covariances(self, stats):
        C = stats.scatter.sum(axis=0) / max(stats.counts.sum(), np.finfo(float).tiny)
        return C + self.reg_covar * np.eye(len(C))

    def price(self, stats, params):
        if not self.reg_covar:
            return 0.0
        return _price(1.0, np.linalg.eigvalsh(params.covariances), self.reg_covar)


@storable
@dataclass(frozen=True)
class FixedGaussian(_Dense):
    """All components have a given covariance: (d, d), the variances (d,), or one number for all."""

    covariance: Any = 1.0

    version = 1
    name, axes = "fixed", "dd"
    givable = ("means",)
    estimated = False

    @classmethod
    def of_precision(cls, precision: Array) -> FixedGaussian:
        """From Σ⁻¹ in the same shapes."""
        if precision.ndim == 2:
            square = precision.shape[0] == precision.shape[1]
            return cls(
                np.linalg.inv(positive(precision if square else -np.eye(1), "given precisions"))
            )
        if not (precision > 0).all():
            raise ValueError("given precisions are numbers > 0; these are not.")
        return cls(1 / precision)

    def covariances(self, stats):
        return self._like(np.zeros(stats.sums.shape[1]))

    def _like(self, variances):
        d, C = len(variances), np.asarray(self.covariance, dtype=np.float64)
        if C.shape not in ((), (d,), (d, d)):
            raise ValueError(
                f"the given covariance has shape {C.shape}; it is ({d}, {d}), ({d},), or a number."
            )
        return positive(
            C if C.ndim == 2 else np.diag(np.broadcast_to(C, (d,))), "given covariances"
        )


# --- independent features ---------------------------------------------------------------------------------------------


class _Axis(Gaussian):
    """Abstract: P is (k, d) or (k,)."""

    def components(self, params, log_weights, dtype, compiled=False):
        shape, P = (len(log_weights), params.means.shape[1]), params.precisions_cholesky
        P = np.broadcast_to(P if P.ndim == 2 else P[:, None], shape)
        means = np.broadcast_to(params.means, shape)
        return AxisComponents.of(means, P, log_weights, dtype, compiled)

    def of(self, means, covariances):
        finite(covariances)
        if not (covariances > 0).all():
            raise ValueError(
                f"component {np.argwhere(~(covariances > 0))[0][0]} has no variance in some direction. {HINT}"
            )
        return GaussianParameters(means, covariances, 1 / np.sqrt(covariances))

    def _invert(self, precisions):
        if not (precisions > 0).all() or not np.isfinite(precisions).all():
            raise ValueError("initial precisions are numbers > 0; these are not.")
        return 1 / precisions

    def sample(self, params, components, rng):
        C = params.covariances if params.covariances.ndim == 2 else params.covariances[:, None]
        noise = rng.standard_normal((len(components), params.means.shape[1]))
        return params.means[components] + noise * np.sqrt(C)[components]


@storable
@dataclass(frozen=True)
class DiagonalGaussian(_Regularised, _Axis):
    """Every component has a variance for each feature."""

    version = 1
    name, axes = "diag", "kd"

    def covariances(self, stats):
        return _divide(stats.scatter, stats.seen) + self.reg_covar

    def price(self, stats, params):
        return _price(stats.seen / stats.counts.sum(), params.covariances, self.reg_covar)


@storable
@dataclass(frozen=True)
class SphericalGaussian(_Regularised, _Axis):
    """Every component has one variance."""

    version = 1
    name, axes = "spherical", "k"

    def covariances(self, stats):
        return _divide(stats.scatter.sum(axis=1), stats.seen.sum(axis=1)) + self.reg_covar

    def price(self, stats, params):
        return _price(
            stats.seen.sum(axis=1) / stats.counts.sum(), params.covariances, self.reg_covar
        )


@storable
@dataclass(frozen=True)
class UnitGaussian(_Axis):
    """Σ = I: only the means are learned."""

    version = 1
    name, axes = "unit", "k"
    givable = ("means",)
    estimated = False

    def covariances(self, stats):
        return np.ones(len(stats.counts))

    def of(self, means, covariances):
        ones = np.ones(len(means))
        return GaussianParameters(means, ones, ones)


GAUSSIANS: dict[str, Any] = {
    family.name: family
    for family in (
        FullGaussian,
        TiedGaussian,
        DiagonalGaussian,
        SphericalGaussian,
        UnitGaussian,
        FixedGaussian,
    )
}
