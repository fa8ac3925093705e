"""Rows of a kernel matrix, computed in blocks and kept within a number of bytes.

A row is n float32 numbers, as LIBSVM keeps them: sums over them run in float64. Missing rows are computed together, tile by
tile on all cores (a matrix product and one pass of the kernel's function), and take the place of those used longest ago.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lemmata.core.engine import run_tasks
from lemmata.predict.kernels.base import Kernel

Array = np.ndarray
COLUMNS = 1024  # of a tile: with 256 rows of it, 1 MB of float32
FEWEST = 64  # rows that are kept whatever the limit: a working set has to fit


class RowCache:
    """κ(x_i, ·) of the rows asked for, at most `megabytes` of them at a time (and never fewer than 64 rows)."""

    def __init__(self, kernel: Kernel, X: Any, megabytes: float, members: Array):
        n = len(members)
        self.cuts = [slice(start, min(start + COLUMNS, n)) for start in range(0, n, COLUMNS)]
        self.tile = kernel._against(X, members, self.cuts)
        self.source = kernel, X, members
        self.capacity = min(n, max(FEWEST, int(megabytes * 2**20 / (4 * n))))
        # memory is taken from the system as rows are written, not now
        self.rows = np.empty((self.capacity, n), np.float32)
        self.slot_of = np.full(n, -1)
        self.row_at = np.full(self.capacity, -1)
        self.used = np.zeros(self.capacity, np.int64)  # when; 0: never
        self.clock = 0
        self.scale = float(np.abs(kernel.diagonal(X)).max(initial=0.0))  # of an entry

    def slots(self, wanted: Array) -> Array:
        """Where the rows stand in `rows`; `wanted` are at most `capacity` different places."""
        self.clock += 1
        found = self.slot_of[wanted]
        self.used[found[found >= 0]] = self.clock
        missing = wanted[found < 0]
        if len(missing):
            free = np.argpartition(self.used, len(missing) - 1)[: len(missing)]
            gone = self.row_at[free]
            self.slot_of[gone[gone >= 0]] = -1
            self._compute_into(free, missing)
            self.slot_of[missing], self.row_at[free], self.used[free] = free, missing, self.clock
        return self.slot_of[wanted]

    def _compute_into(self, slots: Array, wanted: Array) -> None:
        def fill(task: int) -> None:
            self.rows[slots, self.cuts[task]] = self.tile(wanted, task, np.dtype(np.float32))

        run_tasks(fill, len(self.cuts))

    def block(self, places: Array) -> Array:
        """K between some places, in float64."""
        kernel, X, members = self.source
        tile = kernel._against(X, members[places], [slice(0, len(places))])
        return tile(np.arange(len(places)), 0, np.dtype(np.float64))

    def field(self, beta: Array) -> Array:
        """Kβ in float64, computed once more from the rows of the data."""
        out, chosen = np.zeros(len(self.slot_of)), np.flatnonzero(beta)

        def add(task: int) -> None:
            for start in range(0, len(chosen), COLUMNS):
                some = chosen[start : start + COLUMNS]
                out[self.cuts[task]] += beta[some] @ self.tile(some, task, np.dtype(np.float64))

        run_tasks(add, len(self.cuts))
        return out
