"""Bounds that let k-means skip most of its work, with the same result to the bit (_kernels.py).

`Bounds` remembers, for the rows of a `Points`, the centres they were last assigned to and what was learned of the others. Given
new centres it looks only at the groups of centres that may have come nearer. Whatever it remembers is valid for any new
centres, near or far, because a bound falls by what the centres have moved; so it is no part of a run's state.

    >>> import numpy as np
    >>> from lemmata.clustering.assignment import Points
    >>> X = np.random.default_rng(0).normal(size=(500, 4))
    >>> points, bounds = Points.of(X, compiled=True), Bounds(Points.of(X, compiled=True), groups=2)
    >>> for scale in (1.0, 0.9, 0.89):
    ...     assert bounds.assign(scale * X[:9]).cost == points.assign(scale * X[:9]).cost
    >>> bounds.looked < 0.5                                   # of all pairs of a row and a group, in the last assignment
    True
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lemmata.clustering.assignment import ClusterSums, Points
from lemmata.clustering.frames import FramedCenters, chunk_of, floats, weights_or_none
from lemmata.core.blocks import is_dask
from lemmata.core.engine import map_reduce

Array = np.ndarray
SHARE = 0.08  # of the size of the data: what labels and bounds may take; more was no faster where it was tried
RANGE = 16.0  # root mean square distances from the mean: what 16 bits reach to; a bound beyond it is stored as that
SMALL_STEPS = 8  # k² distances between centres may cost at most an eighth of k·n


def groups_for(k: int, d: int, itemsize: int) -> int:
    """Number of groups: of at least sixteen centres, and with their bounds in SHARE of the memory of the data."""
    affordable = int((SHARE * d * itemsize - 4) // 2)
    return max(1, min(-(-k // 16), affordable))


def group_centers(centers: Array, groups: int) -> tuple[Array, Array]:
    """Centres in groups of neighbours, by halving between two that are far apart: their order, and the cuts between groups.

    A group fills up to whole sixes with empty places (−1); cuts are counted in sixes.
    """
    from lemmata.clustering._kernels_assign import SIX

    size = SIX * -(-len(centers) // (SIX * groups))

    def halve(members: Array) -> list[Array]:
        if len(members) <= size:
            return [np.sort(members)]
        mine = centers[members]
        one = mine[np.argmax(((mine - mine.mean(axis=0)) ** 2).sum(axis=1))]
        other = mine[np.argmax(((mine - one) ** 2).sum(axis=1))]
        members = members[np.argsort(mine @ (other - one), kind="stable")]
        cut = size * -(-len(members) // size // 2)
        return halve(members[:cut]) + halve(members[cut:])

    parts = halve(np.arange(len(centers)))
    filled = [np.concatenate([part, np.full(-len(part) % SIX, -1)]) for part in parts]
    return np.concatenate(filled), np.cumsum([0, *(len(part) // SIX for part in filled)])


@dataclass(frozen=True)
class CenterGroups:
    """The groups of the centres, which stay what they are while the centres move."""

    order: Array
    cuts: Array  # (groups + 1,) in sixes
    group_of: Array  # (k,)

    @classmethod
    def of(cls, centers: Array, groups: int) -> CenterGroups:
        from lemmata.clustering._kernels_assign import SIX

        order, cuts = group_centers(centers.astype(np.float64), groups)
        group_of = np.zeros(len(centers), np.int64)
        group_of[order[order >= 0]] = np.repeat(np.arange(len(cuts) - 1), SIX * np.diff(cuts))[
            order >= 0
        ]
        return cls(order, cuts.astype(np.int64), group_of)


class Bounds:
    """Assignment of the same rows to one set of centres after the other. Dense rows only.

    Parameters
    ----------
    points : Points
    groups : int, optional
        1 is Hamerly's single bound; by default as many as a share of the data's memory allows (`groups_for`).
    """

    def __init__(self, points: Points, groups: int | None = None):
        if points.sparse or is_dask(points.data.source):
            raise ValueError(
                "bounds are kept for dense rows in this process; use algorithm='lloyd' for this data."
            )
        self.points, self.groups = points, groups
        # share of all pairs of a row and a group that the last assignment looked at
        self.looked = 1.0
        # the centres that bounds and labels belong to; None: there are none
        self._last: FramedCenters | None = None
        self._layout: CenterGroups | None = None
        self._drifts: Array = np.zeros(0)
        # of each block by its first row and the one after its last
        self._shorts: dict[tuple[int, int], Array] = {}

    def assign(self, centers: Array) -> ClusterSums:
        """Return what `Points.assign` gives, to the bit."""
        points = self.points
        layout, fresh = self._prepare(centers)
        packed = points.frame_centers(centers, layout.order)
        work = self._work(packed, layout, fresh)
        self._last, looked = None, []  # a pass that is interrupted leaves nothing to rely on

        def of(rows, mine):
            weights, labels, shorts = mine
            sums, share = _assign_bounded(rows, weights, packed, labels, shorts, *work)
            looked.append(share)
            return sums

        columns = points.columns(_Shorts(self._shorts, len(self._drifts), points.dtype))
        total = map_reduce(of, columns, ClusterSums.none(packed.centers))
        self._last, self.looked = (
            packed,
            sum(looked) / (points.shape[0] * max(len(self._drifts), 1)),
        )
        points.belong_to(packed.centers, total.moved)
        return replace(total, moved=0)

    def _prepare(self, centers: Array) -> tuple[CenterGroups, bool]:
        """Groups and moves for new centres, and whether bounds start from nothing."""
        last, layout = self._last, self._layout
        packed = self.points.frame_centers(centers)
        same = (
            last is not None
            and last.hats.shape == packed.hats.shape
            and self.points.labelled_by(last.centers)
        )
        if last is not None and layout is not None and same:
            moves = np.linalg.norm(packed.hats.astype(np.float64) - last.hats, axis=1) * (1 + 1e-6)
            largest = [
                moves[layout.group_of == g].max(initial=0.0) for g in range(len(self._drifts))
            ]
            self._drifts = self._drifts + np.array(largest)
            if np.median(self._drifts) < self._reach / 4:
                return layout, False
        d, itemsize = self.points.shape[1], self.points.dtype.itemsize
        wanted = groups_for(len(centers), d, itemsize) if self.groups is None else self.groups
        self._layout = layout = CenterGroups.of(packed.hats, wanted)
        self._drifts = np.zeros(len(layout.cuts) - 1)
        if any(shorts.shape[1] != len(self._drifts) for shorts in self._shorts.values()):
            self._shorts = {}
        return layout, True

    @property
    def _reach(self) -> float:
        """The largest bound that can be stored, in the units of the frame."""
        spread, scale = self.points.spread, self.points.scale * 2.0**self.points.spread.exponent
        return RANGE * (spread.variance * self.points.shape[1]) ** 0.5 * scale or 1.0

    def _work(self, packed: FramedCenters, layout: CenterGroups, fresh: bool) -> tuple:
        """Return what the kernel needs besides rows and centres."""
        dtype, (k, d) = packed.hats.dtype, packed.hats.shape
        up = np.nextafter(self._drifts.astype(dtype), dtype.type(np.inf))
        halves = np.zeros(k)
        if k * SMALL_STEPS <= self.points.shape[0]:
            halves = 0.5 * _nearest_others(packed.hats.astype(np.float64)) * (1 - 1e-6)
        longest = dtype.type(np.sqrt(packed.squares.max()) * (1 + 1e-6))
        slack = dtype.type((d + 4) * np.finfo(dtype).eps)
        return (
            packed.sixes, (packed.origin, packed.scale), layout.cuts, layout.group_of, up, halves.astype(dtype),
            (longest, slack, dtype.type(65_535 / self._reach)), fresh,
        )  # fmt: skip


def _nearest_others(hats: Array) -> Array:
    """The distance of each centre to the nearest other one, rounded down; infinite for a single centre."""
    squares = np.einsum("ij,ij->i", hats, hats)
    # of the size of the squares, in their difference
    lost = 4 * (hats.shape[1] + 4) * np.finfo(np.float64).eps
    gaps = (squares[:, None] + squares) * (1 - lost) - 2 * hats @ hats.T
    np.fill_diagonal(gaps, np.inf)
    return np.sqrt(np.maximum(gaps.min(axis=1), 0.0))


def _assign_bounded(
    rows, weights, packed: FramedCenters, labels, shorts, *work
) -> tuple[ClusterSums, int]:
    from lemmata.clustering.yinyang._kernels import assign_bounded_into

    k, d = packed.hats.shape
    rows = floats(rows)
    out = (np.zeros(k), np.zeros((k, d)), np.full(k, -1.0), np.zeros(k, np.int64))
    # numba's own type hints do not know that kernels take arguments
    kernel: Any = assign_bounded_into
    cost, moved, looked = kernel(
        labels, *out, shorts, rows, weights_or_none(weights), packed.centers, *work, chunk_of(rows)
    )
    return ClusterSums.in_frame(rows, *out, cost, moved, packed), looked


class _Shorts:
    """Stored bounds as a column: sliced by the rows of a block, it gives the array of that block, made when first asked for."""

    def __init__(self, shorts: dict[tuple[int, int], Array], groups: int, dtype: Any):
        self.shorts, self.groups, self.lanes = shorts, groups, 64 // np.dtype(dtype).itemsize

    def __getitem__(self, rows: slice) -> Array:
        block = rows.start, rows.stop
        if block not in self.shorts:
            tiles = -(-(rows.stop - rows.start) // self.lanes)
            self.shorts[block] = np.zeros((tiles, self.groups, self.lanes), np.uint16)
        return self.shorts[block]
