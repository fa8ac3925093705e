"""Where rows lie: frames x̂ = (x − origin)·scale in which squares neither cancel nor overflow, and what is put into them.

    FeatureSpread    weight, mean and squares per feature, which add up over blocks; a frame is made of them
    FramedRows       rows in a frame, with their squares
    FramedCenters    centres in a frame, as the kernels (or their NumPy twins) want them
    Coordinates      the frame of a seeding, and squared distances of rows to proposed centres in it

Here is also the choice between kernels and twins: `worth_kernels`, asked once per fit or prediction.

    >>> X = np.array([[0.0], [1.0], [9.0], [11.0]])
    >>> spread = FeatureSpread.of(X)
    >>> spread.mean, spread.squares * 4.0**spread.exponent
    (array([5.25]), array([92.75]))
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import scipy.sparse as sp

from lemmata.core.blocks import Blocks
from lemmata.core.engine import map_reduce, worth_compiling
from lemmata.core.validation import NotFinite

Array = np.ndarray
LITTLE = 2**19  # numbers that one thread looks at sooner than several
BYTES_OF_ROWS = 2**17  # bytes of rows that a kernel works on at once
NOT_FINITE = "Input contains NaN or infinity (or numbers, or weights, too large to be added up); clean or scale it."
# multiplications of a fit (or of one pass, for `predict`) below which NumPy does the work: some 0.3 s of it
COMPILE_ABOVE = 2.0**30
PASSES = 32  # that a fit is taken to need, seeding included
# bytes of the rows whose spread is measured at once: they are read twice and stay in the cache
SLICE = 2**18
# numbers of rows, or of products, worked on at once: they stay in the cache until they are compared
PIECE = 2**18


def exponent_of(reach: float) -> int:
    """The power of two above a size; 0 for no size at all. Kept where 2^±exponent is a float with room to spare."""
    return min(max(math.frexp(reach)[1], -1000), 1000) if reach > 0 else 0


def power(exponent: int, dtype: Any) -> float:
    """2^exponent, or the nearest to it that a float type holds with room to spare."""
    limit = 120 if np.dtype(dtype) == np.float32 else 1000
    return 2.0 ** min(max(exponent, -limit), limit)


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
    """The compiled loops, imported where they are used, so that small data does not import numba."""
    from lemmata.clustering import _kernels_assign

    return _kernels_assign


def chunk_of(rows: Array) -> int:
    """Number of dense rows that a kernel works on at once: some that stay in the cache, and whole lines of them.

    The cost is added up chunk by chunk, so kernels that must agree to the bit have the same chunks.
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
            total, mean, squares, exponent = _column_spread(rows, w)
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


def _column_spread(X: Array, weights: Array) -> tuple[float, Array, Array, int]:
    """Σ w, the means, Σ w (x − mean)² in units of 4^exponent, and the exponent: 2^exponent exceeds every |x − mean|.

    An empty vector of weights stands for ones. Rows that are not finite have a mean, or a total, that is not.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        total = float(weights.sum()) if len(weights) else float(len(X))
        mean = weights @ X if len(weights) else X.sum(axis=0, dtype=np.float64)
        mean = mean / total if total > 0 else X[0].astype(np.float64)
    if not np.isfinite(mean).all():
        return total, mean, mean, 0
    differences = X - mean
    exponent = exponent_of(float(max(differences.max(), -differences.min())))
    differences *= 2.0**-exponent
    differences *= differences
    squares = weights @ differences if len(weights) else differences.sum(axis=0)
    return total, mean, squares, exponent


def spread_of(data: Blocks, compiled: bool) -> FeatureSpread:
    """One pass: where the rows lie. Refuses what is not finite."""
    return map_reduce(partial(FeatureSpread.of, compiled=compiled), data, FeatureSpread())


def round_origin(mean: Any, exponent: int, dtype: Any) -> Array:
    """A number with few digits close to the mean, so that whole numbers stay whole in the frame and their ties stay ties."""
    quantum = 2.0 ** (exponent - 6)
    with np.errstate(over="ignore", invalid="ignore"):
        origin = np.where(
            np.abs(mean) < 2.0**52 * quantum, np.round(np.asarray(mean) / quantum) * quantum, mean
        )
    return origin.astype(dtype).astype(np.float64)


# --- rows and centres in a frame --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FramedRows:
    """Rows in float64, the same as x̂ = (x − origin)·scale in the dtype of the data, and ‖x̂‖². Sparse rows are not shifted."""

    rows: Any  # (n, d) dense or CSR
    hats: Any
    squares: Array  # (n,) float64

    @classmethod
    def of(cls, rows: Any, origin: Array, scale: Any) -> FramedRows:
        if sp.issparse(rows):
            wide = sp.csr_array(rows).astype(np.float64)
            hats = wide * float(scale)
            return cls(wide, hats, np.asarray(hats.multiply(hats).sum(axis=1)).ravel())
        with np.errstate(over="ignore"):  # a row that far away costs more than any float
            hats = rows - origin
            hats *= scale
            squares = np.einsum("ij,ij->i", hats, hats, dtype=np.float64)
        return cls(np.asarray(rows, np.float64), hats, squares)

    def __getitem__(self, some: slice) -> FramedRows:
        return FramedRows(self.rows[some], self.hats[some], self.squares[some])


@dataclass(frozen=True)
class FramedCenters:
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
    ) -> FramedCenters:
        dtype = centers.dtype
        with np.errstate(over="ignore"):  # a centre that far away is nearest to no row
            hats = ((centers.astype(np.float64, copy=False) - origin) * scale).astype(
                dtype, copy=False
            )
        origin = np.asarray(origin, dtype)
        if compiled:
            centers, origin = floats(centers), floats(origin)
        return cls(centers, hats, origin, dtype.type(scale), compiled, order)

    @classmethod
    def around(cls, centers: Array, compiled: bool = False) -> FramedCenters:
        """In a frame of their own, in which no number of a centre exceeds 1."""
        mean = np.mean(centers, axis=0, dtype=np.float64)
        exponent = exponent_of(float(np.abs(centers - mean).max()))
        origin = round_origin(mean, exponent, centers.dtype)
        return cls.of(centers, origin, power(-exponent, centers.dtype), compiled)

    def scoring(self, sparse: bool) -> tuple[Array, Array]:
        """For the twins: ĉ (of sparse rows, which are not shifted, c·scale in float64) and −½‖ĉ‖².

        A centre whose square is no float any more is nearest to no row: its score is −∞, whatever the row.
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


# --- distances to proposed centres ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Coordinates:
    """y = (x − origin)·scale: coordinates in which squares neither cancel nor overflow. Sparse rows are not shifted."""

    origin: Array | None  # (d,); None: the rows lie around zero already
    scale: float = 1.0

    @classmethod
    def around(cls, spread: FeatureSpread, dtype: Any) -> Coordinates:
        """Around the mean, unless zero is nearly as good; scaled by a power of two where squares leave the dtype."""
        limits, mean, exponent = np.finfo(dtype), spread.mean, spread.exponent
        ordinary = limits.tiny**0.4 < 2.0**exponent < limits.max**0.4
        scale = 1.0 if ordinary else power(-exponent, dtype)
        if spread.sparse:
            return cls(None, scale)
        near_zero = ordinary and mean @ mean <= spread.variance * len(mean) * 4.0**exponent
        return cls(None if near_zero else mean.astype(dtype), scale)

    def of(self, rows: Any) -> Any:
        if sp.issparse(rows):
            return rows.astype(np.float64) * self.scale
        if self.origin is not None:
            rows = rows - self.origin
        return np.ascontiguousarray(rows if self.scale == 1 else rows * rows.dtype.type(self.scale))

    def pieces(self, rows: Any, centers: Array) -> Iterator[tuple[slice, tuple]]:
        """Pieces of some rows, each with what the kernels make distances to centres of: G, ‖y‖², ‖p‖², Y, P, cancelled.

        A product errs by a few eps·(‖y‖² + ‖p‖²). What has cancelled to less than eps^¼ of that is summed again, so that
        three quarters of the digits are left of every distance, and a row has distance 0 to itself.
        """
        P = self.of(sp.csr_array(centers)).toarray() if sp.issparse(rows) else self.of(centers)
        lengths = np.einsum("ij,ij->i", P, P)
        # both Y and the product
        step = max(64, PIECE // max(0 if sp.issparse(rows) else rows.shape[1], len(P)))
        for start in range(0, rows.shape[0], step):
            here = slice(start, min(start + step, rows.shape[0]))
            Y = self.of(rows[here])
            if sp.issparse(Y):
                yield here, _sparse_products(Y, P, lengths)
            else:
                yield here, products(Y, np.einsum("ij,ij->i", Y, Y), P, lengths)


def products(Y: Array, squares: Array, P: Array, lengths: Array) -> tuple:
    """Return what the distances of rows Y to centres P are made of."""
    # finite rows: a flag that BLAS leaves after a short product (seen once, float32 on AVX-512) is none of the numbers
    with np.errstate(invalid="ignore"):
        G = P @ Y.T
    return G, squares, lengths, Y, P, Y.dtype.type(np.finfo(Y.dtype).eps ** 0.25)


def _sparse_products(Y, P, lengths) -> tuple:
    """The same for sparse rows. What cancelled is summed again here, since the kernels do not know sparse rows."""
    squares = np.asarray(Y.multiply(Y).sum(axis=1)).ravel()
    G = np.ascontiguousarray(np.asarray(Y @ P.T).T)
    size = squares + lengths[:, None]
    p, i = np.nonzero(size - 2 * G < np.finfo(np.float64).eps ** 0.25 * size)
    for some in np.array_split(np.arange(len(p)), -(-len(p) // 1024) or 1):
        difference = Y[i[some]] - sp.csr_array(P[p[some]])
        G[p[some], i[some]] = -0.5 * np.asarray(difference.multiply(difference).sum(axis=1)).ravel()
        size[p[some], i[some]] = 0
    # −½ of the squared distances: to the kernels, rows and centres at zero that never cancel
    G -= size / 2
    nothing = np.empty((0, 1))
    return G, np.zeros(len(squares)), np.zeros(len(P)), nothing, nothing, -1.0


def seeding_loops(compiled: bool) -> Any:
    """The loops of seeding: kernels, or their NumPy twins, for which numba is not imported."""
    if compiled:
        from lemmata.clustering import _kernels_seeding as loops
    else:
        from lemmata.clustering import _twins as loops  # type: ignore[no-redef]
    return loops


def serve_rows(
    rows: Any,
    centers: Array,
    frame: Coordinates,
    before: tuple[Array, Array] | None = None,
    first: int = 0,
    compiled: bool = False,
) -> tuple[Array, Array]:
    """D², in the units of the frame, and the nearest centre of each row once more centres are there, numbered from `first`.

    `before` is the same pair as it was without them.
    """
    loops = seeding_loops(compiled)
    n = rows.shape[0]
    if before is None:
        D, nearest = np.full(n, np.inf, rows.dtype), np.zeros(n, np.int32)
    else:
        D, nearest = before[0].copy(), before[1].copy()
    for here, distances in frame.pieces(rows, centers):
        loops.serve_into(D[here], nearest[here], first, distances)
    return D, nearest
