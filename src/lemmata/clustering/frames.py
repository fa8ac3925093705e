"""Where rows lie, and centres laid out for them: the frame x̂ = (x − origin)·scale of a k-means run.

    FeatureSpread    weight, mean and squares per feature, which add up over blocks; the frame is made of them
    Packed           centres in a frame, as the kernels (or their NumPy twins) want them

Here is also the choice between the two: `worth_kernels`, asked once per fit or prediction.

    >>> import numpy as np
    >>> X = np.array([[0.0], [1.0], [9.0], [11.0]])
    >>> spread = FeatureSpread.of(X)
    >>> spread.mean, spread.squares * 4.0**spread.exponent
    (array([5.25]), array([92.75]))
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from lemmata.clustering import _twins_assign as twins
from lemmata.clustering.distances import exponent_of, power
from lemmata.core.blocks import Blocks
from lemmata.core.compiler import worth_compiling
from lemmata.core.malformed import NotFinite

Array = np.ndarray
LITTLE = 2**19  # numbers that one thread looks at sooner than several
BYTES_OF_ROWS = 2**17  # bytes of rows that a kernel works on at once
NOT_FINITE = "Input contains NaN or infinity (or numbers, or weights, too large to be added up); clean or scale it."
# multiplications of a fit (or of one pass, for `predict`) below which NumPy does the work: some 0.3 s of it
COMPILE_ABOVE = 2.0**30
PASSES = 32  # that a fit is taken to need, seeding included
# bytes of the rows whose spread is measured at once: they are read twice and stay in the cache
SLICE = 2**18


def is_little(data: Blocks) -> bool:
    """Whether a pass is over before threads have begun; more than this is cut into four blocks at least."""
    return data.n_blocks == 1 and data.size <= LITTLE


def worth_kernels(data: Blocks, k: int, passes: float) -> bool:
    """Whether so many passes over the data with k centres are worth a compiler: a row and a centre cost a product of d terms
    and a few sweeps over n × k numbers, which take as long as 16 terms."""
    return worth_compiling(passes * k * (data.size + 16.0 * data.shape[0]), above=COMPILE_ABOVE)


def floats(rows: Any) -> Array:
    """Rows as kernels want them: contiguous, and read-only so that a mapped file needs no compilation of its own."""
    view = np.ascontiguousarray(rows).view()
    view.flags.writeable = False
    return view


def weights_or_none(weights: Array | None) -> Array:
    """Weights for a kernel: an empty array stands for ones."""
    return floats(np.empty(0) if weights is None else np.asarray(weights, dtype=np.float64))


def kernels() -> Any:
    """The compiled loops, imported where they are used: numba is not for those who do not need it."""
    from lemmata.clustering import _kernels_assign

    return _kernels_assign


def chunk_of(rows: Array) -> int:
    """How many dense rows a kernel works on at once: some that stay in the cache, and whole lines of them.

    The cost is added up chunk by chunk, so every kernel that shall give the same bits has the same chunks.
    """
    from lemmata.linalg.simd import LINE

    lanes = LINE // rows.itemsize
    return lanes * max(4, min(2048, BYTES_OF_ROWS // (rows.shape[1] * rows.itemsize)) // lanes)


# --- where the rows lie -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FeatureSpread:
    """Weight, mean and Σw(x − mean)² per feature, the squares in units of 4^exponent. FeatureSpread() is the empty sum."""

    weight: float = 0.0
    mean: Any = 0.0  # (d,)
    squares: Any = 0.0  # (d,)
    exponent: int = -(2**20)  # 2^exponent exceeds every |x − mean| of every slice, weighted or not
    sparse: bool = False  # some rows were

    @classmethod
    def of(cls, rows: Any, weights: Array | None = None, compiled: bool = False) -> FeatureSpread:
        if sp.issparse(rows):
            return cls._of_sparse(rows, weights)
        step = max(1, SLICE // max(rows.shape[1] * rows.itemsize, 1))
        slices = (slice(i, i + step) for i in range(0, rows.shape[0], step))
        parts = (
            cls._of_slice(rows[s], None if weights is None else weights[s], compiled)
            for s in slices
        )
        return sum(parts, cls())

    @classmethod
    def _of_slice(cls, rows: Array, weights: Array | None, compiled: bool) -> FeatureSpread:
        rows, w, d = floats(rows), weights_or_none(weights), rows.shape[1]
        if not compiled:
            total, mean, squares, exponent = twins.column_spread(rows, w)
            if not (np.isfinite(mean).all() and np.isfinite(total)):
                raise NotFinite(NOT_FINITE)
            return cls(total, mean, squares, exponent)
        loops, mean, squares = kernels(), np.empty(d), np.empty(d)
        loops.column_sums_into(mean, rows, w)
        with np.errstate(over="ignore"):
            total = float(rows.shape[0] if weights is None else w.sum())
        if not (np.isfinite(mean).all() and np.isfinite(total)):
            raise NotFinite(NOT_FINITE)
        mean = mean / total if total > 0 else rows[0].astype(np.float64)
        exponent = exponent_of(loops.largest_difference(rows, mean))
        loops.column_squares_into(squares, rows, w, mean, 2.0**-exponent)
        return cls(total, mean, squares, exponent)

    @classmethod
    def _of_sparse(cls, rows: Any, weights: Array | None) -> FeatureSpread:
        w = np.ones(rows.shape[0]) if weights is None else weights
        with np.errstate(over="ignore", invalid="ignore"):
            sums, total = rows.T.astype(np.float64) @ w, float(w.sum())
        if not (np.isfinite(sums).all() and np.isfinite(rows.data).all() and np.isfinite(total)):
            raise NotFinite(NOT_FINITE)
        mean = sums / total if total > 0 else sums
        exponent = exponent_of(
            max(np.abs(rows.data).max(initial=0.0), np.abs(mean).max(initial=0.0)) * 2
        )
        scaled = rows.astype(np.float64) * 2.0**-exponent
        squares = scaled.multiply(scaled).T @ w - total * (mean * 2.0**-exponent) ** 2
        return cls(total, mean, np.maximum(squares, 0.0), exponent, sparse=True)

    def __add__(self, other: FeatureSpread) -> FeatureSpread:
        if np.ndim(other.mean) == 0:
            return self
        if np.ndim(self.mean) == 0:
            return other
        weight = self.weight + other.weight
        d = other.mean - self.mean
        share = other.weight / weight if weight > 0 else 0.0
        exponent = max(self.exponent, other.exponent, exponent_of(float(np.abs(d).max())))
        one, two = (part.squares * 4.0 ** (part.exponent - exponent) for part in (self, other))
        between = (d * 2.0**-exponent) ** 2 * (self.weight * share)
        return FeatureSpread(
            weight,
            self.mean + d * share,
            one + two + between,
            exponent,
            self.sparse or other.sparse,
        )

    @cached_property
    def variance(self) -> float:
        """The mean variance of a feature, in units of 4^exponent."""
        return float(np.mean(self.squares)) / max(self.weight, np.finfo(float).tiny)


def round_origin(mean: Any, exponent: int, dtype: Any) -> Array:
    """A number with few digits close to the mean, so that whole numbers stay whole in the frame and their ties stay ties."""
    quantum = 2.0 ** (exponent - 6)
    with np.errstate(over="ignore", invalid="ignore"):
        origin = np.where(
            np.abs(mean) < 2.0**52 * quantum, np.round(np.asarray(mean) / quantum) * quantum, mean
        )
    return origin.astype(dtype).astype(np.float64)


# --- centres, laid out for the kernels --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Packed:
    """Centres in a frame: ĉ = (c − origin)·scale in sixes for dense rows, as columns for sparse ones."""

    centers: Array  # (k, d) as they are
    hats: Array  # (k, d) ĉ, in the dtype of the data
    origin: Array  # (d,) in that dtype
    scale: Any  # a power of two, of that dtype
    compiled: bool = False  # whether kernels are to use it, or their twins
    order: Array | None = None  # which centre is in which place of the sixes; None: as they come

    @classmethod
    def of(
        cls,
        centers: Array,
        origin: Array,
        scale: float,
        compiled: bool = False,
        order: Array | None = None,
    ) -> Packed:
        dtype = centers.dtype
        with np.errstate(over="ignore"):  # a centre that far away is nobody's nearest
            hats = ((centers.astype(np.float64, copy=False) - origin) * scale).astype(
                dtype, copy=False
            )
        origin = np.asarray(origin, dtype)
        if compiled:
            centers, origin = floats(centers), floats(origin)
        return cls(centers, hats, origin, dtype.type(scale), compiled, order)

    @classmethod
    def around(cls, centers: Array, compiled: bool = False) -> Packed:
        """In a frame of their own, in which no number of a centre exceeds 1."""
        mean = np.mean(centers, axis=0, dtype=np.float64)
        exponent = exponent_of(float(np.abs(centers - mean).max()))
        origin = round_origin(mean, exponent, centers.dtype)
        return cls.of(centers, origin, power(-exponent, centers.dtype), compiled)

    def scoring(self, sparse: bool) -> tuple[Array, Array]:
        """For the twins: ĉ (of sparse rows, which are not shifted, c·scale in float64) and −½‖ĉ‖².

        A centre whose square is no float any more is nobody's nearest: its score is −∞, whatever the row.
        """
        hats = self.centers * np.float64(self.scale) if sparse else self.hats
        with np.errstate(over="ignore", invalid="ignore"):
            wide = hats.astype(np.float64, copy=False)
            starts = (-0.5 * np.vecdot(wide, wide)).astype(hats.dtype, copy=False)
            total = float(starts.sum())
        if not math.isfinite(total):
            near = np.isfinite(starts)
            hats, starts = np.where(near[:, None], hats, 0), np.where(near, starts, -np.inf)
        return hats, starts

    @cached_property
    def sixes(self) -> tuple[Array, Array, Array]:
        """(tiles, d, 6) centres, their −½‖ĉ‖², their numbers. Places beyond the centres (order −1) are never the best."""
        from lemmata.clustering._kernels_assign import SIX

        k, d = self.hats.shape
        order = np.arange(k) if self.order is None else self.order
        places = np.full(-(-len(order) // SIX) * SIX, -1)
        places[: len(order)] = order
        hats = np.where(places[:, None] >= 0, self.hats[places], 0)
        starts = np.where(places >= 0, -0.5 * self.squares[places], -np.inf)
        C = hats.reshape(-1, SIX, d).transpose(0, 2, 1)
        dtype = self.hats.dtype
        with np.errstate(over="ignore"):
            return (
                floats(C),
                floats(starts.astype(dtype)),
                floats(np.maximum(places, 0).astype(dtype)),
            )

    @cached_property
    def columns(self) -> tuple[Array, Array, Array]:
        """(d, width) centres as columns, their −½‖ĉ‖² and ‖ĉ‖², filled up to whole pairs of lines. The origin is zero here:
        sparse rows are not shifted."""
        from lemmata.linalg.simd import LINE

        k, d = self.hats.shape
        lanes = 2 * LINE // self.hats.itemsize
        width = -(-k // lanes) * lanes
        hats = self.centers * self.scale
        squares = np.einsum("ij,ij->i", hats, hats, dtype=np.float64)
        columns, starts = (
            np.zeros((d, width), self.hats.dtype),
            np.full(width, -np.inf, self.hats.dtype),
        )
        columns[:, :k] = hats.T
        with np.errstate(over="ignore"):
            starts[:k] = -0.5 * squares
        return floats(columns), floats(starts), floats(squares)

    @property
    def squares(self) -> Array:
        """‖ĉ‖² in float64."""
        return np.einsum("ij,ij->i", self.hats, self.hats, dtype=np.float64)
