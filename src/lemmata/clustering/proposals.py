"""What rows proposed as centres would gain: how much of the potential Σ w D² each of them removes, and the D² it leaves.

    Gains           large data: the rows that a proposal serves better than they are served, found by kernels
    AllDistances    few rows: all distances of all proposals, by NumPy

Both are of one block of rows and a pool of proposals, know their frame, and lower D² once a proposal is chosen.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from lemmata.clustering import _twins_seeding as twins
from lemmata.clustering.distances import Coordinates, seeding_loops

Array = np.ndarray


@dataclass(frozen=True)
class Gains:
    """Of one block and a pool of proposals: the rows each would serve better than they are served, and their new D²."""

    starts: Array  # (m + 1,) where the entries of each proposal begin
    rows: Array
    values: Array

    @classmethod
    def pieces(cls, rows: Any, D: Array, centers: Array, frame: Coordinates) -> Iterator[Gains]:
        """Of one piece of the rows after the other, in buffers that the next piece overwrites."""
        m, kind, buffers = len(centers), _numbers_of(rows), None
        for here, distances in frame.pieces(rows, centers):
            if buffers is None:  # the first piece is the largest
                most = m * (here.stop - here.start)
                buffers = np.empty(most, kind), np.empty(most, D.dtype)
            starts = np.empty(m + 1, np.int64)
            seeding_loops(True).keep_gains_into(starts, *buffers, D[here], here.start, distances)
            yield cls(starts, *buffers)

    @classmethod
    def of(cls, rows: Any, D: Array, centers: Array, frame: Coordinates) -> Gains:
        parts, append_into = [], seeding_loops(True).append_into
        for piece in cls.pieces(rows, D, centers, frame):
            count = piece.starts[-1]
            parts.append(cls(piece.starts, piece.rows[:count].copy(), piece.values[:count].copy()))
        starts = sum((part.starts for part in parts), np.zeros(len(centers) + 1, np.int64))
        ends = starts[:-1].copy()
        together = cls(
            starts, np.empty(starts[-1], _numbers_of(rows)), np.empty(starts[-1], D.dtype)
        )
        for part in parts:
            append_into(together.rows, together.values, ends, part.starts, part.rows, part.values)
        return together

    def removed(self, D: Array, weights: Array | None, lines: Array) -> Array:
        """Σ w (D² − g)₊: how much of the potential of the block each of some proposals would remove."""
        out, w = np.zeros(len(lines)), np.empty(0) if weights is None else weights
        seeding_loops(True).gains_of(out, self.starts, self.rows, self.values, D, w, lines)
        return out

    def lower_into(self, D: Array, line: int) -> None:
        """D² = min(D², g) for one proposal."""
        entries = slice(self.starts[line], self.starts[line + 1])
        seeding_loops(True).lower_into(D, self.rows[entries], self.values[entries])


@dataclass(frozen=True)
class AllDistances:
    """The same where rows are few: every squared distance is kept."""

    values: Array  # (m, n)

    @classmethod
    def of(cls, rows: Any, D: Array, centers: Array, frame: Coordinates) -> AllDistances:
        parts = [twins.squared_distances(distances) for _, distances in frame.pieces(rows, centers)]
        return cls(
            parts[0] if len(parts) == 1 else np.hstack([np.empty((len(centers), 0)), *parts])
        )

    def removed(self, D: Array, weights: Array | None, lines: Array) -> Array:
        gains = np.maximum(np.subtract(D, self.values[lines], dtype=np.float64), 0.0)
        return gains.sum(axis=1) if weights is None else gains @ weights

    def lower_into(self, D: Array, line: int) -> None:
        np.minimum(D, self.values[line], out=D)


def _numbers_of(rows: Any) -> type:
    """The smallest kind of numbers that can count the rows of a block."""
    return np.uint16 if rows.shape[0] <= 2**16 else np.uint32


def potential_removed(
    rows: Any, D: Array, weights: Array | None, centers: Array, frame: Coordinates
) -> Array:
    """How much of the potential of a block each of some proposals would remove, (m,), with nothing kept."""
    lines, total = np.arange(len(centers)), np.zeros(len(centers))
    for piece in Gains.pieces(rows, D, centers, frame):
        total += piece.removed(D, weights, lines)
    return total
