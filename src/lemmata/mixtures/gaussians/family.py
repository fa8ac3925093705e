"""The base of all Gaussian components, whatever the shape of their covariances (shapes.py).

A family of Gaussians says how Σ follows from the sums of an M-step (`covariances`), how it is factored (`of`) and how its
components read blocks of rows (`components`); what rows are surveyed by, replaced starts, attributes and counts of parameters
are the same for all of them.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from lemmata.core.blocks import Blocks
from lemmata.core.engine import map_reduce, worth_compiling
from lemmata.core.store import storable
from lemmata.mixtures.expectation import EStepSums, Family, finer
from lemmata.mixtures.gaussians.components import AxisComponents, Components, GaussianSums

Array = np.ndarray
# multiplications of a pass over all rows, above which kernels do it: in NumPy, a fit of 30 passes takes half a second there
COMPILED = 2.0**27
CENTRED_ENOUGH = 64.0  # a scatter loses log10(64) < 2 digits while N·shift² stays below 64 times what is left of it


@storable
@dataclass(frozen=True)
class GaussianParameters:
    """Means and covariances, in scikit-learn's shapes. Upper triangular P with PPᵀ = Σ⁻¹; 1/σ where Σ is diagonal."""

    version = 1
    layout: ClassVar[dict[str, str]] = {"means": "k d"}

    means: Array  # (k, d)
    # full (k, d, d), tied and fixed (d, d), diag (k, d), spherical and unit (k,)
    covariances: Array
    precisions_cholesky: Array  # of the same shape


def finite(numbers: Array) -> None:
    if not np.isfinite(numbers).all():
        raise ValueError(
            "Input contains infinity, or numbers too large for their dtype to be squared; scale it down."
        )


def positive(matrices: Array, what: str) -> Array:
    """Symmetric positive definite matrices, or ValueError."""
    even = np.isfinite(matrices).all() and np.allclose(matrices, np.swapaxes(matrices, -1, -2))
    if not even or not (np.linalg.eigvalsh(matrices) > 0).all():
        raise ValueError(f"{what} are symmetric positive definite matrices; these are not.")
    return matrices


class Gaussian(Family):
    """Abstract: the base of all shapes."""

    axes: ClassVar[str]  # of the covariances: k components, d features
    givable: ClassVar[tuple[str, ...]] = ("means", "precisions")
    estimated: ClassVar[bool] = True  # whether Σ is

    def survey(self, data: Blocks) -> GaussianParameters:
        """One Gaussian with independent features for all rows."""
        data = finer(data, 1)
        first = next(
            (np.asarray(rows, dtype=np.float64) for rows, _ in data), np.zeros((0, data.shape[1]))
        )
        known = ~np.isnan(first)
        start = np.where(known, first, 0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
        finite(start)
        rough = AxisComponents.of(start[None], np.ones((1, len(start))), np.zeros(1), np.float64)
        stats = map_reduce(_Whole(rough), data, EStepSums()).stats
        if not (stats.seen > 0).all():
            raise ValueError(
                f"feature {int(stats.seen[0].argmin())} has no value in any row that counts; drop it."
            )
        with np.errstate(over="ignore", invalid="ignore"):
            variances = stats.scatter[0] / stats.seen[0]
            finite(variances.astype(data.dtype))  # what is fitted has to fit there too
        return self.of(
            stats.origin + stats.shift, self._like(np.where(variances > 0, variances, 1.0))
        )

    def compiles(self, data: Blocks, k: int) -> bool:
        """Whether so many rows × features, of which some may be unknown, are worth a compiler."""
        n, d = data.shape
        work = n * k * (d * (d + 16) if "dd" in self.axes else 8 * d)
        if worth_compiling(work, above=COMPILED):
            return True
        if "dd" not in self.axes or work == 0:
            return False
        holes = sum(int(np.isnan(rows).any(axis=1).sum()) for rows, _ in data)
        return worth_compiling(work + holes * k * d * (d * d + 64), above=COMPILED)

    def check_parameters(self, params, k, d):
        if not isinstance(params, GaussianParameters) or params.means.shape != (k, d):
            raise ValueError(f"its parameters are not {k} means in {d} features.")
        shape = tuple({"k": k, "d": d}[axis] for axis in self.axes)
        for name in ("covariances", "precisions_cholesky"):
            found = getattr(params, name)
            if not isinstance(found, np.ndarray) or found.shape != shape:
                raise ValueError(
                    f"{name} have shape {np.shape(found)}, not {shape} as {self.name} Gaussians have."
                )
            widths = np.einsum("...aa->...a", found) if "dd" in self.axes else found
            if not np.isfinite(found).all() or not (widths > 0).all():
                raise ValueError(
                    f"{name} hold numbers that are not finite, or widths that are not > 0."
                )
        if "dd" in self.axes:
            positive(params.covariances, "covariances")

    def log_density(self, rows, params):
        return self.components(params, np.zeros(len(params.means)), rows.dtype).log_density(rows)

    def statistics(self, rows, weights, responsibilities, params, compiled=False):
        components = self.components(
            params, np.zeros(responsibilities.shape[1]), np.float64, compiled
        )
        return components.statistics(rows, weights, responsibilities)

    def expecting(self, params, log_weights, dtype, compiled=False):
        return self.components(params, log_weights, dtype, compiled)

    def scoring(self, params, log_weights, dtype, compiled=False):
        return self.components(params, log_weights, dtype, compiled).log_density

    def closer(self, stats, rough):
        # sums about means of components already
        if not self.estimated or len(rough.means) == len(stats.counts):
            return None
        left = stats.scatter if np.ndim(stats.squares) == 2 else np.einsum("jaa->ja", stats.scatter)
        if not (stats.known * stats.shift**2 > CENTRED_ENOUGH * left).any():
            return None
        return GaussianParameters(
            stats.origin + stats.shift, rough.covariances, rough.precisions_cholesky
        )

    def sound(self, stats, before):
        """No component may lose more than half of its width in any direction: a leap is no way into a collapse."""
        if not super().sound(stats, before) or not self.estimated:
            return super().sound(stats, before)
        widths, least = self.covariances(stats), 0.5 * self.covariances(before)
        if "dd" not in self.axes:
            return bool((widths > least).all())
        try:
            np.linalg.cholesky(widths - least)
        except np.linalg.LinAlgError:
            return False
        return True

    def parameters(self, stats):
        return self.of(stats.origin + stats.shift, self.covariances(stats))

    def with_given(self, params, k, **given):
        stray = sorted(set(given) - set(self.givable))
        if stray:
            raise ValueError(f"{self.name} Gaussians take no initial {stray[0]}.")
        means = np.asarray(given["means"], dtype=np.float64) if "means" in given else params.means
        d = means.shape[-1] if params is None else params.means.shape[1]
        if means.shape != (k, d):
            raise ValueError(f"initial means have shape ({k}, {d}); got {means.shape}.")
        if not np.isfinite(means).all():
            raise ValueError("initial means are finite numbers; these are not.")
        if "precisions" not in given:
            return self.of(means, params.covariances)
        precisions = np.asarray(given["precisions"], dtype=np.float64)
        shape = tuple({"k": k, "d": d}[axis] for axis in self.axes)
        if precisions.shape != shape:
            raise ValueError(
                f"initial precisions of {self.name} Gaussians have shape {shape}; got {precisions.shape}."
            )
        return self.of(means, self._invert(precisions))

    def attributes(self, params):
        P = params.precisions_cholesky
        shown = {
            "means_": params.means,
            "covariances_": params.covariances,
            "precisions_cholesky_": P,
        }
        return {**shown, "precisions_": P @ np.swapaxes(P, -1, -2) if "dd" in self.axes else P**2}

    def n_parameters(self, params):
        d, size = params.means.shape[1], params.covariances.size
        free = size // d**2 * (d * (d + 1) // 2) if "dd" in self.axes else size
        return params.means.size + (free if self.estimated else 0)

    def _like(self, variances: Array) -> Array:
        """The covariances of a single component with these variances (d,)."""
        C: Any = variances if "d" in self.axes else variances.mean()
        if "dd" in self.axes:
            C = np.diag(variances)
        return np.asarray([C] if self.axes[0] == "k" else C)

    @abstractmethod
    def components(
        self, params: GaussianParameters, log_weights: Array, dtype: Any, compiled: bool = False
    ) -> Components:
        """The components prepared for blocks; a single one stands for all."""

    @abstractmethod
    def of(self, means: Array, covariances: Array) -> GaussianParameters:
        """The parameters with these means and covariances, factored; ValueError where Σ is not positive definite."""

    @abstractmethod
    def covariances(self, stats: GaussianSums) -> Array:
        """Σ of the M-step."""

    @abstractmethod
    def _invert(self, precisions: Array) -> Array:
        """Σ from a user's Σ⁻¹."""


@dataclass(frozen=True)
class _Whole:
    """The sums of a block as if all rows belonged to one component."""

    rough: AxisComponents

    def __call__(self, rows: Array, weights: Array | None) -> EStepSums:
        with np.errstate(over="ignore", invalid="ignore"):
            return EStepSums(self.rough.statistics(rows, weights, np.ones((len(rows), 1))))
