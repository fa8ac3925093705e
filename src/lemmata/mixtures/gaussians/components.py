"""Gaussian components and blocks of rows: log-densities, responsibilities, and sums about the current means.

    N_j = Σ_i w_i r_ij,     s_j = Σ_i w_i r_ij δ_ij,     S_j = Σ_i w_i r_ij δ_ij δ_ijᵀ,       δ_ij = x_i − μ_j

Sums are taken about the means that the responsibilities come from, not about zero: what the M-step subtracts is then the little
that a mean has moved, and no digits are lost on data far from zero or on clusters far apart. Rows without NaN go to a sweep
in units in which the data has about mean 0 and deviation 1; the others are marginalised in float64. Either is compiled
(_kernels.py, _kernels_missing.py) or NumPy (_twins_…), as was decided for the whole of the data.

    >>> sums = GaussianSums(np.array([2.0]), np.array([[4.0]]), np.array([[10.0]]), np.array([[1.0]]))  # rows 2 and 4, about 1
    >>> sums.move_to(np.array([[0.0]])).squares, sums.origin + sums.shift, sums.scatter
    (array([[20.]]), array([[3.]]), array([[2.]]))
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np

from lemmata.core.engine import pick
from lemmata.core.store import storable
from lemmata.mixtures.expectation import EStepSums, posterior

Array = np.ndarray
Colour = Callable[[Array, Array], Array]  # (which of some rows, standard normal numbers) -> noise
LOG_2PI = float(np.log(2 * np.pi))
WIDE = 4  # features that the kernel works on at a time: P has a multiple of it as columns
# log-density of a row beyond all densities; what can be squared is above
LOWEST, LOWEST_SINGLE = -8e307, -2e38


class Standardised(NamedTuple):
    """A mixture in units in which the data has about mean 0 and deviation 1: what the sweeps (_kernels.py, _twins.py) read.

    Read-only arrays of one dtype, as the kernels are compiled for.
    """

    centre: Array  # (d,)
    inverse: Array  # (d,) of the deviations
    P: Array  # (k, d, d padded to fours) upper triangular, PPᵀ the precision; or (k, d)
    shift: Array  # Pᵀμ, padded alike
    means: Array  # (k, d)
    logs: Array  # (k,) log π_j and all that does not depend on x

    @classmethod
    def of(cls, dtype: Any, *arrays: Array) -> Standardised:
        fixed = [np.ascontiguousarray(array, dtype=dtype).view() for array in arrays]
        for array in fixed:
            array.flags.writeable = False
        return cls(*fixed)


def patterns(gone: Array) -> tuple[Array, Array]:
    """An order in which equal rows of `gone` (n, d) are neighbours, and where each group of them starts (and the last ends)."""
    packed = np.packbits(gone, axis=1)
    order = np.lexsort(packed.T)
    packed = packed[order]
    starts = np.flatnonzero(np.r_[True, (packed[1:] != packed[:-1]).any(axis=1)])
    return order, np.r_[starts, len(order)]


def outer(v: Array) -> Array:
    """vvᵀ for every row."""
    return v[:, :, None] * v[:, None, :]


@storable
@dataclass(frozen=True)
class GaussianSums:
    """N, Σ r δ and Σ r δδᵀ (or δ², feature by feature), δ = x − origin. GaussianSums() is the empty sum."""

    version = 1
    layout: ClassVar[dict[str, str]] = {
        "counts": "k",
        "sums origin seen?": "k d",
        "squares": "k d d | k d | k | ",
    }

    counts: Any = 0.0  # (k,)
    sums: Any = 0.0  # (k, d)
    squares: Any = 0.0  # (k, d, d), or (k, d), or a number where they are not needed
    origin: Any = None  # (k, d)
    seen: Any = None  # (k, d) the weight of rows that have the feature; None: all, since expectations fill the holes

    def __add__(self, other: GaussianSums) -> GaussianSums:
        if other.origin is None or self.origin is None:
            return self if other.origin is None else other
        other = other.move_to(self.origin)
        counts, sums = self.counts + other.counts, self.sums + other.sums
        seen = None if self.seen is None else self.seen + other.seen
        return GaussianSums(counts, sums, self.squares + other.squares, self.origin, seen)

    def scale(self, c: float) -> GaussianSums:
        """Every row c times."""
        seen = None if self.seen is None else c * self.seen
        return GaussianSums(c * self.counts, c * self.sums, c * self.squares, self.origin, seen)

    def move_to(self, origin: Array) -> GaussianSums:
        """The same rows about another origin."""
        if origin is self.origin or np.array_equal(origin, self.origin):
            return self
        step, squares = self.origin - origin, self.squares
        if np.ndim(squares) == 3:
            cross = self.sums[:, :, None] * step[:, None, :]
            squares = squares + cross + cross.transpose(0, 2, 1)
            squares = squares + self.counts[:, None, None] * outer(step)
        elif np.ndim(squares) == 2:
            squares = squares + 2 * self.sums * step + self.known * step**2
        return GaussianSums(self.counts, self.sums + self.known * step, squares, origin, self.seen)

    @property
    def known(self) -> Array:
        """(k, d) or (k, 1): the weight behind each sum."""
        return self.counts[:, None] if self.seen is None else self.seen

    @property
    def shift(self) -> Array:
        """(k, d): from the origin to the means; 0 where there is nothing to take a mean of."""
        return self.sums / np.where(self.known > 0, self.known, 1)

    @property
    def scatter(self) -> Array:
        """The squares about the means."""
        if np.ndim(self.squares) == 3:
            return self.squares - self.counts[:, None, None] * outer(self.shift)
        return np.maximum(self.squares - self.known * self.shift**2, 0)


@dataclass(frozen=True)
class Components(ABC):
    """Abstract: the Gaussians of an E-step, prepared once for all blocks, in standard units (x − centre)/scale."""

    kernel: Standardised  # in the dtype of the data; in float64 for NumPy
    centre: Array  # (d,)
    scale: Array  # (d,)
    means: Array  # (k, d)
    spread: Array  # (k or 1, d, d) covariances, or (k, d) inverse deviations
    log_weights: Array  # (k,)
    squares: bool  # whether they are needed
    compiled: bool  # whether kernels do the work

    @staticmethod
    def units(means: Array, variances: Array, dtype: Any) -> tuple[Array, Array, Array, Array]:
        """Mean and 1/deviation of the mixture as the kernel has them, and mean and deviation exactly as those, in float64."""
        centre = means.mean(axis=0)
        scale = np.sqrt((variances + (means - centre) ** 2).mean(axis=0))
        tiny = np.finfo(dtype).tiny ** 0.75  # beyond, its inverse would not fit the dtype
        scale = np.where(np.isfinite(scale) & (scale > tiny), scale, 1.0)
        kernel = centre.astype(dtype), (1 / scale).astype(dtype)
        return *kernel, kernel[0].astype(np.float64), 1 / kernel[1].astype(np.float64)

    @property
    def origin(self) -> Array:
        """Where sums are taken about: the means as the kernel rounds them, in the units of the data."""
        return self.centre + self.scale * self.kernel.means.astype(np.float64)

    @property
    def log_volume(self) -> Array:
        """(d,): what a density in standard units is larger by, feature by feature."""
        return np.log(self.scale)

    def __call__(self, rows: Array, weights: Array | None) -> EStepSums:
        """The E-step of a block."""
        likelihood, counts, sums, squares = self._sweep(rows, weights)
        if np.isnan(likelihood):
            gone = np.isnan(rows)
            if gone.any():
                return self._partly_known(rows, weights, gone)
        weight = float(len(rows) if weights is None else weights.sum())
        likelihood -= weight * float(self.log_volume.sum())
        return EStepSums(self._in_units(counts, sums, squares, None), likelihood, weight)

    def _partly_known(self, rows: Array, weights: Array | None, gone: Array) -> EStepSums:
        """Rows without NaN as always, the others one by one; rows of which nothing is known do not count."""
        whole, some = ~gone.any(axis=1), gone.any(axis=1) & ~gone.all(axis=1)
        found = EStepSums(self._in_units(*self._nothing(), None))
        if whole.any():
            found = self(rows[whole], None if weights is None else weights[whole])
        if some.any():
            Z = self.standard(rows[some])
            w = np.ones(some.sum()) if weights is None else weights[some]
            each, R = posterior(self.marginal(Z) + self.log_weights)
            each = each - ~np.isnan(Z) @ self.log_volume
            sums = self._expected_sums(Z, R * w[:, None])
            found = found + EStepSums(sums, float(w @ each), float(w.sum()))
        return found

    def log_density(self, rows: Array) -> Array:
        """log π_j + log p(x; θ_j), (n, k); of a row of which nothing is known, log π_j."""
        out = self._loops.log_densities(rows, self.kernel)
        if out is not None:
            out -= self.log_volume.sum()
            return out
        gone = np.isnan(rows)
        if not gone.any():  # NaN came from the distances
            raise ValueError(
                f"rows hold numbers as large as {np.abs(rows).max():.3g}, and their distances to the components leave "
                f"{rows.dtype}; divide the rows by a unit, those of the fit as well."
            )
        whole, out = ~gone.any(axis=1), np.empty((len(rows), len(self.log_weights)), rows.dtype)
        if whole.any():
            out[whole] = self.log_density(rows[whole])
        Z = self.standard(rows[~whole])
        out[~whole] = (
            self.marginal(Z) + self.log_weights - (~np.isnan(Z) @ self.log_volume)[:, None]
        )
        return out

    def statistics(
        self, rows: Array, weights: Array | None, responsibilities: Array
    ) -> GaussianSums:
        """The sums for given responsibilities, in plain float64."""
        R = np.asarray(responsibilities, dtype=np.float64)
        R = R if weights is None else R * weights[:, None]
        Z = self.standard(rows)
        counts = ~np.isnan(Z).all(axis=1)
        return self._expected_sums(
            Z if counts.all() else Z[counts], R if counts.all() else R[counts]
        )

    def standard(self, rows: Array) -> Array:
        """Rows in standard units."""
        return (rows.astype(np.float64) - self.centre) / self.scale

    def _in_units(
        self, counts: Array, sums: Array, squares: Any, seen: Array | None
    ) -> GaussianSums:
        """Sums in standard units, back in those of the data."""
        unit = np.multiply.outer(self.scale, self.scale) if np.ndim(squares) == 3 else self.scale**2
        return GaussianSums(
            counts, sums * self.scale, squares * unit if self.squares else 0.0, self.origin, seen
        )

    def _nothing(self) -> tuple[Array, Array, Array]:
        k, d = self.means.shape
        return np.zeros(k), np.zeros((k, d)), np.zeros((k, *self.spread.shape[1:]))

    @property
    def _loops(self) -> Any:
        """The sweeps over rows: kernels, or their twins."""
        return pick(self.compiled, "lemmata.mixtures.gaussians")

    # --- what the two kinds differ in ---

    @abstractmethod
    def _sweep(self, rows: Array, weights: Array | None) -> tuple[float, Array, Array, Array]: ...

    @abstractmethod
    def marginal(self, Z: Array) -> Array:
        """log p(z_o; θ_j) of rows with NaN, (n, k)."""

    @abstractmethod
    def conditionals(self, Z: Array) -> Iterator[tuple[int, Array, Array, Colour]]:
        """(j, which rows, E_j[z | z_o] of them, what makes noise of Cov_j[z | z_o]) for all rows with NaN and components."""

    @abstractmethod
    def _expected_sums(self, Z: Array, R: Array) -> GaussianSums:
        """The sums of rows with NaN, for responsibilities times weights."""


@dataclass(frozen=True)
class DenseComponents(Components):
    """Components whose features depend on one another."""

    @classmethod
    def of(
        cls, means, covariances, factors, log_weights, dtype, squares=True, compiled=False
    ) -> DenseComponents:
        """From μ (k, d), Σ (k or 1, d, d) and P (k, d, d) with PPᵀ = Σ⁻¹."""
        dtype = dtype if compiled else np.float64
        k, d = means.shape
        variances = np.einsum("jaa->ja", covariances)
        centre, inverse, exact, scale = cls.units(means, variances, dtype)
        M = (means - exact) / scale
        P = np.zeros((k, d, -(-d // WIDE) * WIDE))
        P[:, :, :d] = factors * scale[:, None]
        logs = (
            log_weights + np.log(np.einsum("jaa->ja", P[:, :, :d])).sum(axis=1) - 0.5 * d * LOG_2PI
        )
        shift = np.einsum("jac,ja->jc", P, M)
        kernel = Standardised.of(dtype, centre, inverse, P, shift, M, logs)
        spread = covariances / np.multiply.outer(scale, scale)
        return cls(kernel, exact, scale, M, spread, log_weights, squares, compiled)

    @property
    def _marginalising(self) -> Any:
        """The loops that integrate over what is unknown: kernels, or their twins."""
        return pick(self.compiled, "lemmata.mixtures.gaussians", "_missing")

    def _sweep(self, rows, weights):
        return self._loops.sweep(rows, weights, self.kernel, self.squares)

    def marginal(self, Z):
        order, starts = patterns(np.isnan(Z))
        out = np.empty((len(Z), len(self.means)))
        out[order] = self._marginalising.marginal_logs(Z[order], starts, self.means, self.spread)
        return out

    def conditionals(self, Z):
        from lemmata.mixtures.gaussians import _twins_missing as twins

        order, starts = patterns(np.isnan(Z))
        for j, stack, mean in twins.conditional_means(Z[order], starts, self.means, self.spread):
            yield j, order[stack.rows], mean, partial(twins.conditional_noise, stack)

    def _expected_sums(self, Z, R):
        _, sums, squares = self._nothing()
        squares = squares if self.squares else np.zeros((0, *squares.shape[1:]))
        origin = self.kernel.means.astype(np.float64)
        gone = np.isnan(Z)
        whole = ~gone.any(axis=1)
        for j in range(len(origin)):
            mine = np.flatnonzero(whole & (R[:, j] > 0))
            root = np.sqrt(R[mine, j])
            E = root[:, None] * (Z[mine] - origin[j])
            sums[j] += root @ E
            if self.squares:
                squares[j] += E.T @ E
        if not whole.all():
            order, starts = patterns(gone[~whole])
            Z, r = Z[~whole][order], R[~whole][order]
            self._marginalising.conditional_sums_into(
                sums, squares, Z, starts, r, self.means, self.spread, origin
            )
        return self._in_units(R.sum(axis=0), sums, squares, None)


@dataclass(frozen=True)
class AxisComponents(Components):
    """Components whose features are independent: what is unknown of a row is left out of all sums, which are exact without."""

    @classmethod
    def of(cls, means, factors, log_weights, dtype, compiled=False) -> AxisComponents:
        """From μ (k, d) and 1/σ (k, d)."""
        dtype = dtype if compiled else np.float64
        centre, inverse, exact, scale = cls.units(means, factors**-2.0, dtype)
        M, P = (means - exact) / scale, factors * scale
        logs = log_weights + np.log(P).sum(axis=1) - 0.5 * means.shape[1] * LOG_2PI
        kernel = Standardised.of(dtype, centre, inverse, P, P * M, M, logs)
        return cls(kernel, exact, scale, M, P, log_weights, True, compiled)

    def _sweep(self, rows, weights):
        return self._loops.axis_sweep(rows, weights, self.kernel)

    def _in_units(self, counts, sums, squares, seen):
        seen = np.repeat(counts[:, None], sums.shape[1], axis=1) if seen is None else seen
        return super()._in_units(counts, sums, squares, seen)

    def marginal(self, Z):
        known = ~np.isnan(Z)
        out = known @ (np.log(self.spread) - 0.5 * LOG_2PI).T
        for j, (mean, p) in enumerate(zip(self.means, self.spread, strict=True)):
            y = np.where(known, Z - mean, 0) * p
            out[:, j] -= 0.5 * np.einsum("ia,ia->i", y, y)
        return out

    def conditionals(self, Z):
        lost, everything = np.isnan(Z), np.arange(len(Z))
        for j, (mean, p) in enumerate(zip(self.means, self.spread, strict=True)):
            yield j, everything, np.where(lost, mean, Z), partial(_divide_by, p)

    def _expected_sums(self, Z, R):
        _, sums, squares = self._nothing()
        known = ~np.isnan(Z)
        for j, mean in enumerate(self.kernel.means.astype(np.float64)):
            mine = np.flatnonzero(R[:, j])
            r, delta = R[mine, j], np.where(known[mine], Z[mine] - mean, 0)
            sums[j], squares[j] = r @ delta, r @ delta**2
        return self._in_units(R.sum(axis=0), sums, squares, R.T @ known)


def _divide_by(p: Array, which: Array, noise: Array) -> Array:
    """Noise of independent features with deviations 1/p."""
    return noise / p
