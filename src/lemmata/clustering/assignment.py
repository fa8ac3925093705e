"""Rows as k-means sees them: where they lie, and what a set of centres makes of them.

    ClusterSums    of each cluster its weight Σw, its sum Σw x, and its worst served row; over all the cost Σw‖x − c‖²
    Points         the data, with a frame x̂ = (x − origin)·scale in which squares neither cancel nor overflow

Both add up over blocks, so k-means in memory, on a mapped file, a stream, threads or a cluster is the same sum.

    >>> import numpy as np
    >>> X = np.array([[0.0], [1.0], [9.0], [11.0]])
    >>> sums = Points.of(X).assign(np.array([[0.0], [10.0]]))
    >>> sums.counts, sums.sums.ravel(), sums.cost
    (array([2., 2.]), array([ 1., 20.]), 3.0)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from lemmata.clustering.distances import Columns, exponent_of, power
from lemmata.core.blocks import Blocks, is_dask
from lemmata.core.engine import map_reduce
from lemmata.core.store import storable

Array = np.ndarray
LITTLE = 2**19  # numbers that one thread looks at sooner than several
BYTES_OF_ROWS = 2**17  # bytes of rows that a kernel works on at once
NOT_FINITE = "Input contains NaN or infinity (or numbers, or weights, too large to be added up); clean or scale it."
# bytes of the rows whose spread is measured at once: they are read twice and stay in the cache
SLICE = 2**18


def _floats(rows: Any) -> Array:
    """Rows as kernels want them: contiguous, and read-only so that a mapped file needs no compilation of its own."""
    from lemmata.linalg.simd import frozen

    return frozen(rows)


def _none(weights: Array | None) -> Array:
    """Weights for a kernel: an empty array stands for ones."""
    return _floats(np.empty(0) if weights is None else np.asarray(weights, dtype=np.float64))


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
    def of(cls, rows: Any, weights: Array | None = None) -> FeatureSpread:
        if sp.issparse(rows):
            return cls._of_sparse(rows, weights)
        step = max(1, SLICE // max(rows.shape[1] * rows.itemsize, 1))
        slices = (slice(i, i + step) for i in range(0, rows.shape[0], step))
        return sum(
            (cls._of_slice(rows[s], None if weights is None else weights[s]) for s in slices), cls()
        )

    @classmethod
    def _of_slice(cls, rows: Array, weights: Array | None) -> FeatureSpread:
        from lemmata.clustering._kernels_assign import (
            column_squares_into,
            column_sums_into,
            largest_difference,
        )

        rows, w, d = _floats(rows), _none(weights), rows.shape[1]
        mean, squares = np.empty(d), np.empty(d)
        column_sums_into(mean, rows, w)
        with np.errstate(over="ignore"):
            total = float(rows.shape[0] if weights is None else w.sum())
        if not (np.isfinite(mean).all() and np.isfinite(total)):
            raise ValueError(NOT_FINITE)
        mean = mean / total if total > 0 else rows[0].astype(np.float64)
        exponent = exponent_of(largest_difference(rows, mean))
        column_squares_into(squares, rows, w, mean, 2.0**-exponent)
        return cls(total, mean, squares, exponent)

    @classmethod
    def _of_sparse(cls, rows: Any, weights: Array | None) -> FeatureSpread:
        w = np.ones(rows.shape[0]) if weights is None else weights
        with np.errstate(over="ignore", invalid="ignore"):
            sums, total = rows.T.astype(np.float64) @ w, float(w.sum())
        if not (np.isfinite(sums).all() and np.isfinite(rows.data).all() and np.isfinite(total)):
            raise ValueError(NOT_FINITE)
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

    @property
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
    order: Array | None = None  # which centre is in which place of the sixes; None: as they come

    @classmethod
    def of(cls, centers: Array, origin: Array, scale: float, order: Array | None = None) -> Packed:
        dtype = centers.dtype
        with np.errstate(over="ignore"):  # a centre that far away is nobody's nearest
            hats = ((centers.astype(np.float64) - origin) * scale).astype(dtype)
        return cls(
            _floats(centers), hats, _floats(np.asarray(origin, dtype)), dtype.type(scale), order
        )

    @classmethod
    def around(cls, centers: Array) -> Packed:
        """In a frame of their own, in which no number of a centre exceeds 1."""
        mean = np.mean(centers, axis=0, dtype=np.float64)
        exponent = exponent_of(float(np.abs(centers - mean).max()))
        return cls.of(
            centers, round_origin(mean, exponent, centers.dtype), power(-exponent, centers.dtype)
        )

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
                _floats(C),
                _floats(starts.astype(dtype)),
                _floats(np.maximum(places, 0).astype(dtype)),
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
        return _floats(columns), _floats(starts), _floats(squares)

    @property
    def squares(self) -> Array:
        """‖ĉ‖² in float64."""
        return np.einsum("ij,ij->i", self.hats, self.hats, dtype=np.float64)


# --- what a block adds ------------------------------------------------------------------------------------------------


@storable
@dataclass(frozen=True)
class ClusterSums:
    """What a set of centres makes of rows: weights, sums and worst served rows of the clusters, and the cost."""

    version = 1

    counts: Array  # (k,) Σw, float64
    sums: Array  # (k, d) Σw x, float64
    cost: float  # Σw‖x − c‖²
    far: Array  # (k,) the largest ‖x − c‖² of a row with weight; −1: there is none
    farthest: Array  # (k, d) that row
    moved: int = 0  # rows whose label was another before

    @classmethod
    def none(cls, centers: Array) -> ClusterSums:
        """The empty sum for some centres."""
        k = len(centers)
        return cls(
            np.zeros(k), np.zeros(centers.shape), 0.0, np.full(k, -1.0), np.zeros_like(centers)
        )

    @classmethod
    def of(
        cls, rows: Any, weights: Array | None, centers: Array | Packed, labels: Array | None = None
    ) -> ClusterSums:
        """Assign rows to their nearest centres and add up; writes the labels into `labels`, if given."""
        from lemmata.clustering import _kernels_assign as kernels

        if not isinstance(centers, Packed):
            centers = Packed.around(np.asarray(centers, rows.dtype))
        k, d = centers.hats.shape
        counts, sums, far, farthest = (
            np.zeros(k),
            np.zeros((k, d)),
            np.full(k, -1.0),
            np.zeros(k, np.int64),
        )
        labels = np.full(rows.shape[0], -1, np.int32) if labels is None else labels
        out = (labels, counts, sums, far, farthest)
        if sp.issparse(rows):
            parts = (
                _floats(rows.indptr),
                _floats(rows.indices),
                _floats(rows.data),
                _none(weights),
                centers.centers,
            )
            cost, moved = kernels.assign_sparse_rows_into(
                *out, *parts, *centers.columns, centers.scale
            )
        else:
            rows = _floats(rows)
            cost, moved = kernels.assign_rows_into(
                *out,
                rows,
                _none(weights),
                centers.centers,
                *centers.sixes,
                centers.origin,
                centers.scale,
                chunk_of(rows),
            )
        return cls.from_kernel(rows, *out[1:], cost, moved, float(centers.scale))

    @classmethod
    def from_kernel(cls, rows, counts, sums, far, farthest, cost, moved, scale) -> ClusterSums:
        """From what a kernel left behind, in the units of the frame."""
        # a stream may have empty blocks
        worst: Any = rows[farthest] if rows.shape[0] else np.zeros(sums.shape, rows.dtype)
        with np.errstate(over="ignore"):
            squares = np.where(far > 0, far / scale / scale, far)
            cost = np.float64(cost) / scale / scale
        return cls(
            counts,
            sums,
            float(cost),
            squares,
            worst.toarray() if sp.issparse(worst) else worst,
            int(moved),
        )

    def __add__(self, other: ClusterSums) -> ClusterSums:
        worse = other.far > self.far
        return ClusterSums(
            self.counts + other.counts,
            self.sums + other.sums,
            self.cost + other.cost,
            np.where(worse, other.far, self.far),
            np.where(worse[:, None], other.farthest, self.farthest),
            self.moved + other.moved,
        )

    def checked(self) -> ClusterSums:
        """These sums, unless their cost has left the floats."""
        if not np.isfinite(self.cost):
            raise ValueError(
                "Input contains numbers too large for their squares to be added up; scale it down."
            )
        return self

    def centers_after(self, centers: Array) -> Array:
        """The centroid of each cluster. An empty one moves to the worst served row of all, the next to that of another.

        No row is served worse by a centre more, so this cannot raise the cost. Where no row is served badly (as many
        centres as different rows, or more), an empty cluster's centre stays where it was.
        """
        some = self.counts > 0
        with np.errstate(invalid="ignore", divide="ignore"):
            means = (self.sums / self.counts[:, None]).astype(centers.dtype)
        new = np.where(some[:, None], means, centers)
        empty = np.flatnonzero(~some)
        if len(empty):
            worst = np.argsort(-self.far, kind="stable")[: len(empty)]
            worst = worst[self.far[worst] > 0]
            new[empty[: len(worst)]] = self.farthest[worst]
        return new


# --- the data ---------------------------------------------------------------------------------------------------------


def is_little(data: Blocks) -> bool:
    """Whether a pass is over before threads have begun; more than this is cut into four blocks at least."""
    return data.n_blocks == 1 and data.size <= LITTLE


class Points:
    """The data of a k-means run. It remembers labels, and bounds (bounds.py), between one set of centres and the next.

    What it remembers makes the next assignment faster and never changes its result, so it is not part of a run's state.
    """

    def __init__(self, data: Blocks, spread: FeatureSpread):
        self.data, self.spread = (
            data if is_little(data) else data.recut(-(-data.shape[0] // 4)),
            spread,
        )
        self.shape, self.dtype, self.sparse = data.shape, data.dtype, spread.sparse
        self.origin = round_origin(spread.mean, spread.exponent, data.dtype)
        self.scale = power(-spread.exponent, data.dtype)
        self.bounds: Any = None
        self.moved = data.shape[0]  # rows whose label the last assignment changed
        self._labels: Array | None = None
        self._labelled: Array | None = None  # the centres that the labels belong to

    @classmethod
    def of(cls, X: Any, weights: Array | None = None) -> Points:
        data = Blocks.of(X) if weights is None else Blocks.of(X).weighted(weights)
        return cls(data, map_reduce(FeatureSpread.of, data, FeatureSpread()))

    def fingerprint(self) -> str:
        return self.data.fingerprint()

    @property
    def weights(self) -> Array | None:
        return self.data.weights

    def packed(self, centers: Array, order: Array | None = None) -> Packed:
        return Packed.of(np.asarray(centers, self.dtype), self.origin, self.scale, order)

    def assign(self, centers: Array) -> ClusterSums:
        """One pass over the data: every row to its nearest centre."""
        packed = self.packed(centers)
        empty = ClusterSums.none(packed.centers)
        if is_dask(self.data.source):  # on a worker there are no labels to write into
            return replace(
                map_reduce(lambda rows, w: ClusterSums.of(rows, w, packed), self.data, empty),
                moved=0,
            )
        of = lambda rows, mine: ClusterSums.of(rows, mine[0], packed, mine[1])  # noqa: E731
        total = map_reduce(of, self.columns(), empty)
        self.belong_to(packed.centers, total.moved)
        return replace(total, moved=0)

    def columns(self, *more: Any) -> Blocks:
        """The blocks with their weights, their places for labels, and more columns."""
        if self._labels is None:
            self._labels = np.full(self.shape[0], -1, np.int32)
        self._labelled = None  # until the pass is done
        columns: Any = Columns(self.data.weights, self._labels, *more)
        return self.data.weighted(columns)

    def belong_to(self, centers: Array, moved: int) -> None:
        """The labels are those of these centres now."""
        self._labelled, self.moved = centers, moved

    def labelled_by(self, centers: Array) -> bool:
        """Whether the labels are those of this very array of centres: of the last pass, and of no other since."""
        return self._labelled is centers

    def labels(self, centers: Array) -> Array:
        """The nearest centre of every row, (n,) int32."""
        if (
            self._labels is not None
            and self._labelled is not None
            and np.array_equal(self._labelled, centers)
        ):
            return self._labels
        packed = self.packed(centers)
        return np.concatenate(map_reduce(lambda rows, _: [labels_of(rows, packed)], self.data, []))


def labels_of(rows: Any, packed: Packed) -> Array:
    """The nearest centre of each row of a block."""
    labels = np.full(rows.shape[0], -1, np.int32)
    ClusterSums.of(rows, None, packed, labels)
    return labels
