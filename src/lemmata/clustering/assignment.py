"""The nearest centre of every row, and what k-means adds up of it.

    ClusterSums    of each cluster its weight Σw, its sum Σw x, and its worst served row; over all the cost Σw‖x − c‖²
    Points         the data of a run, with the frame of frames.py in which squares neither cancel nor overflow

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
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from lemmata.clustering import _twins, frames
from lemmata.clustering.frames import FeatureSpread, FramedCenters, FramedRows, floats, is_little
from lemmata.core.blocks import Blocks, is_dask
from lemmata.core.engine import map_reduce
from lemmata.core.store import storable

Array = np.ndarray
WORTH_MOVING = 2**16  # n·d·k below which adding up is as quick as moving the rows that change
MANY_CHANGES = 0.25  # share of rows that change their label above which sums are added up again
FEW_CENTRES = 8  # default number of clusters for deciding whether to compile


# --- what a block adds ------------------------------------------------------------------------------------------------


@storable
@dataclass(frozen=True)
class ClusterSums:
    """The clusters that a set of centres makes of rows: weights, sums and worst served rows of the clusters, and the cost."""

    version = 1
    layout: ClassVar[dict[str, str]] = {
        "counts": "k >=0",
        "sums farthest": "k d",
        "cost": ">=0",
        "far": "k any",
        "moved": "int >=0",
    }

    counts: Array  # (k,) Σw, float64
    sums: Array  # (k, d) Σw x, float64
    cost: float  # Σw‖x − c‖²
    far: Array  # (k,) the largest ‖x − c‖² of a row with weight; −1: there is none, or no cluster is empty
    farthest: Array  # (k, d) that row
    moved: int = 0  # rows whose label was another before, if kernels counted them

    @classmethod
    def none(cls, centers: Array) -> ClusterSums:
        """The empty sum for some centres."""
        k = len(centers)
        return cls(
            np.zeros(k), np.zeros(centers.shape), 0.0, np.full(k, -1.0), np.zeros_like(centers)
        )

    @classmethod
    def of(
        cls,
        rows: Any,
        weights: Array | None,
        centers: Array | FramedCenters,
        labels: Array | None = None,
    ) -> ClusterSums:
        """Assign rows to their nearest centres and add up; writes the labels into `labels`, if given."""
        if not isinstance(centers, FramedCenters):
            centers = FramedCenters.around(np.asarray(centers, rows.dtype))
        labels = np.full(rows.shape[0], -1, np.int32) if labels is None else labels
        if not centers.compiled:
            framed = FramedRows.of(rows, centers.origin, centers.scale)
            return cls.of_framed(framed, weights, centers, labels)
        k, d = centers.hats.shape
        found = np.zeros(k), np.zeros((k, d)), np.full(k, -1.0), np.zeros(k, np.int64)
        kernels, w, C = frames.kernels(), frames.weights_or_none(weights), centers
        if sp.issparse(rows):
            parts = floats(rows.indptr), floats(rows.indices), floats(rows.data)
            cost, moved = kernels.assign_sparse_rows_into(
                labels, *found, *parts, w, C.centers, *C.columns, C.scale
            )
        else:
            rows = floats(rows)
            frame = C.origin, C.scale, frames.chunk_of(rows)
            cost, moved = kernels.assign_rows_into(
                labels, *found, rows, w, C.centers, *C.sixes, *frame
            )
        return cls.in_frame(rows, *found, cost, moved, centers)

    @classmethod
    def of_framed(
        cls,
        rows: FramedRows,
        weights: Array | None,
        packed: FramedCenters,
        labels: Array,
        before: Array | None = None,
    ) -> ClusterSums:
        """The same by the NumPy _twins. `before`: the sums that belong to the labels as they were."""
        k = len(packed.centers)
        hats, starts = packed.scoring(sparse=not isinstance(rows.rows, np.ndarray))
        found, squares = _twins.nearest_centers(
            rows, packed.centers, hats, starts, float(packed.scale)
        )
        counts = np.bincount(found, weights, k).astype(np.float64, copy=False)
        sums = None
        if before is not None and k * rows.hats.size > WORTH_MOVING:
            changed = (labels != found).nonzero()[0]
            if len(changed) <= MANY_CHANGES * len(labels):
                sums = _twins.move_rows(before, rows.rows, weights, labels, found, changed)
        if sums is None:
            sums = _twins.add_up(rows.rows, weights, found, k)
        labels[:] = found
        cost = float(squares.sum() if weights is None else weights @ squares)
        far = farthest = np.zeros(0)
        if not counts.all():
            sums[counts == 0] = 0.0  # no rounding is left of rows that have gone
            far, farthest = _twins.worst_rows(squares, weights, found, k)
        return cls.in_frame(rows.rows, counts, sums, far, farthest, cost, 0, packed)

    @classmethod
    def in_frame(cls, rows, counts, sums, far, farthest, cost, moved, packed) -> ClusterSums:
        """From what a pass found, in the units of the frame."""
        dtype, scale = packed.hats.dtype, float(packed.scale)
        cost = float(cost) / scale / scale
        # Worst served rows are only needed for empty clusters. What is empty in a sum is empty in every part of it, so no part
        # without an empty cluster has to remember them.
        if counts.all() or not rows.shape[0]:
            worst = np.zeros(sums.shape, dtype)
            return cls(counts, sums, cost, np.full(len(counts), -1.0), worst, int(moved))
        worst = rows[farthest]
        worst = (worst.toarray() if sp.issparse(worst) else worst).astype(dtype, copy=False)
        with np.errstate(over="ignore"):
            squares = np.where(far > 0, far / scale / scale, far)
        return cls(counts, sums, cost, squares, worst, int(moved))

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

    def check_finite(self) -> ClusterSums:
        """Return these sums, unless their cost has left the floats."""
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
        if self.counts.all():
            return (self.sums / self.counts[:, None]).astype(centers.dtype, copy=False)
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


def locate(masses: Array, positions: Array) -> Array:
    """Where positions in [0, Σ masses] fall in the row of masses; never at a mass of zero."""
    heights = masses.cumsum()
    found = heights.searchsorted(positions, side="right")
    if len(found) and heights[-1] <= positions.max():  # a position was rounded up to the end
        last = len(masses) - 1 - int(np.argmax(masses[::-1] > 0))
        return np.minimum(found, last)
    return found


def take_rows(data: Blocks, rows: Any, dense: bool = True) -> Any:
    """Some rows of the data in the given order: an array, or CSR where the data is sparse and `dense` is false."""
    rows = np.asarray(rows, dtype=np.int64)
    if is_dask(data.source):
        found: Any = np.asarray(data.source[rows].compute())
    elif data.source is not None:
        found = data.source[rows]
    else:
        found = _take_from_stream(data, rows)
    if sp.issparse(found):
        found = sp.csr_array(found).astype(data.dtype)
        return found.toarray() if dense else found
    return np.asarray(found, dtype=data.dtype, order="C")


def _take_from_stream(data: Blocks, rows: Array) -> Any:
    order, parts, start = np.argsort(rows, kind="stable"), [], 0
    ascending = rows[order]
    for block, _ in data:
        here = ascending[
            np.searchsorted(ascending, start) : np.searchsorted(ascending, start + block.shape[0])
        ]
        if len(here):
            parts.append(block[here - start])
        start += block.shape[0]
    if any(map(sp.issparse, parts)):
        found: Any = sp.vstack([sp.csr_array(part) for part in parts], format="csr")
    else:
        found = np.concatenate(parts)
    return found[np.argsort(order)]


class ParallelColumns:
    """Columns that go through the blocks side by side, in the place of weights: arrays with one number per row, or None."""

    def __init__(self, *arrays: Any):
        self.arrays = arrays

    def __getitem__(self, rows: slice) -> tuple:
        return tuple(None if array is None else array[rows] for array in self.arrays)


class Points:
    """The data of a k-means run. It remembers labels, and bounds (yinyang/), between one set of centres and the next.

    What it remembers makes the next assignment faster and never changes its result, so it is not part of a run's state.
    """

    def __init__(self, data: Blocks, compiled: bool = False, spread: FeatureSpread | None = None):
        self.data = data if is_little(data) else data.recut(-(-data.shape[0] // 4))
        self.shape, self.dtype = data.shape, data.dtype
        self.compiled = compiled  # whether kernels do the work, or their twins
        if spread is not None:
            self.spread = spread
        self.bounds: Any = None
        self.moved = data.shape[0]  # rows whose label the last assignment changed
        self._labels: Array | None = None
        self._labelled: Array | None = None  # the centres that the labels belong to

    @classmethod
    def of(cls, X: Any, weights: Array | None = None, compiled: bool | None = None) -> Points:
        """compiled : whether kernels do the work; None: if the data is large enough for a few centres."""
        data = Blocks.of(X) if weights is None else Blocks.of(X).weighted(weights)
        if compiled is None:
            compiled = frames.worth_kernels(data, FEW_CENTRES, frames.PASSES)
        return cls(data, compiled, frames.spread_of(data, compiled))

    @cached_property
    def spread(self) -> FeatureSpread:
        """Where the rows lie: one pass, unless it was given."""
        return frames.spread_of(self.data, self.compiled)

    @property
    def sparse(self) -> bool:
        return self.spread.sparse

    @cached_property
    def origin(self) -> Array:
        return frames.round_origin(self.spread.mean, self.spread.exponent, self.dtype)

    @cached_property
    def scale(self) -> float:
        return frames.power(-self.spread.exponent, self.dtype)

    @property
    def few(self) -> bool:
        """Whether NumPy does the work on a single block: what can be kept of the rows is kept."""
        return not self.compiled and is_little(self.data)

    @cached_property
    def framed(self) -> FramedRows:
        """Few rows in their frame."""
        ((rows, _),) = self.data
        dtype = self.dtype
        return FramedRows.of(rows, self.origin.astype(dtype), dtype.type(self.scale))

    def fingerprint(self) -> str:
        return self.data.fingerprint()

    @property
    def weights(self) -> Array | None:
        return self.data.weights

    @property
    def relative_weights(self) -> Array | None:
        """Weights between 0 and 1, for draws: only their ratios matter, and sums of them cannot overflow."""
        return None if self.weights is None else self.weights / self.weights.max()

    def frame_centers(self, centers: Array, order: Array | None = None) -> FramedCenters:
        return FramedCenters.of(
            np.asarray(centers, self.dtype), self.origin, self.scale, self.compiled, order
        )

    def assign(
        self, centers: Array, before: tuple[Array, ClusterSums] | None = None
    ) -> ClusterSums:
        """One pass over the data: every row to its nearest centre.

        before : centres and what they made of the data; where rows are few, only those that change their label move on.
        """
        packed = self.frame_centers(centers)
        if self.few:
            return self._assign_few(centers, packed, before)
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

    def _assign_few(
        self, centers: Array, packed: FramedCenters, before: tuple[Array, ClusterSums] | None
    ) -> ClusterSums:
        """The pass over a single block of few rows, which are put into their frame once.

        Sums continue from those before, and these belong to labels. Labels that are not there (a run that was resumed, another
        start meanwhile) are found again, so that what a step gives depends on its state alone.
        """
        framed, sums = self.framed, None
        if self._labels is None:
            self._labels = np.full(self.shape[0], -1, np.int32)
        labels = self._labels
        if before is not None:
            sums = before[1].sums
            if not self.labelled_by(before[0]):
                self._labelled = None
                old = self.frame_centers(before[0])
                ClusterSums.of_framed(framed, self.weights, old, labels)
        self._labelled = None  # until the pass is done
        total = ClusterSums.of_framed(framed, self.weights, packed, labels, sums)
        self.belong_to(centers, 0)
        return total

    def assign_drawn(self, centers: Array, drawn: Array) -> ClusterSums:
        """The pass over rows drawn with replacement, each counting as often as it was drawn, where all rows are few:
        to look at every row takes less time than to fetch some."""
        times = np.bincount(drawn, minlength=self.shape[0]).astype(np.float64)
        labels = np.full(self.shape[0], -1, np.int32)
        return ClusterSums.of_framed(self.framed, times, self.frame_centers(centers), labels)

    def columns(self, *more: Any) -> Blocks:
        """Return the blocks with their weights, their places for labels, and more columns."""
        if self._labels is None:
            self._labels = np.full(self.shape[0], -1, np.int32)
        self._labelled = None  # until the pass is done
        columns: Any = ParallelColumns(self.data.weights, self._labels, *more)
        return self.data.weighted(columns)

    def belong_to(self, centers: Array, moved: int) -> None:
        """Note that the labels are those of these centres now."""
        self._labelled, self.moved = centers, moved

    def labelled_by(self, centers: Array) -> bool:
        """Whether the labels are those of these centres: of the last pass, and of no other since."""
        return self._labelled is not None and (
            self._labelled is centers or np.array_equal(self._labelled, centers)
        )

    def labels(self, centers: Array) -> Array:
        """The nearest centre of every row, (n,) int32."""
        if self._labels is not None and self.labelled_by(centers):
            return self._labels
        packed = self.frame_centers(centers)
        return np.concatenate(map_reduce(lambda rows, _: [labels_of(rows, packed)], self.data, []))


def labels_of(rows: Any, packed: FramedCenters) -> Array:
    """The nearest centre of each row of a block."""
    labels = np.full(rows.shape[0], -1, np.int32)
    ClusterSums.of(rows, None, packed, labels)
    return labels
