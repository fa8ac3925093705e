"""PairTable: sums over pairs of words in memory that their number bounds, for texts of any length.

A pair that occurs takes 16 bytes in a table which is 50 to 75 % full (_kernels.py): 21 to 32 bytes, a symmetric pair once.
The finished CSR matrix has 24 bytes for a symmetric pair, both ways, and 12 more while it is built; tables are gone by then.
"""

from __future__ import annotations

import mmap
from typing import Any

import numpy as np
import scipy.sparse as sp

from lemmata.core.engine import run_tasks
from lemmata.embedding.windows import _kernels as kernels

Array = np.ndarray
FIRST = 2**9  # slots of a new table: 2 MB for all shards together
FULLEST, GROWTH = 0.75, 1.5
DEALT = 2**21  # pairs that are dealt at a time: 16 MB
PARTS = 8  # of a slice of text, dealt side by side
HANDS = 32  # tasks that share the shards


class PairTable:
    """Sums of pairs; symmetric ones are kept once, the smaller number first."""

    def __init__(self, words: int, symmetric: bool):
        if words > kernels.MOST_WORDS:
            raise ValueError(
                f"pairs of {words:,} words: {kernels.MOST_WORDS:,} are the most; raise min_count."
            )
        self.words, self.symmetric = words, symmetric
        self.tables = [_empty(FIRST) for _ in range(kernels.SHARDS)]
        self.used = [0] * kernels.SHARDS

    @property
    def n_pairs(self) -> int:
        return sum(self.used)

    @property
    def nbytes(self) -> int:
        return sum(cells.nbytes for cells in self.tables)

    def add(self, ids: Array, starts: Array, g: Array) -> None:
        """Count the pairs of sentences, those at distance Δ as g[Δ − 1]."""
        for first, last in _slices(starts, max(1, DEALT // len(g))):
            self._add(ids, starts, _slices(starts, 1, PARTS, first, last), g)

    def _add(self, ids: Array, starts: Array, parts: list[tuple[int, int]], g: Array) -> None:
        text, how = (ids, starts), (len(g), self.words, not self.symmetric)
        counts = np.zeros((len(parts), kernels.SHARDS), np.int64)
        run_tasks(
            lambda i: kernels.count_shards_into(counts[i], *text, *parts[i], *how), len(parts)
        )
        # shard after shard, and inside of one part after part: the order of the text
        ends = np.cumsum(counts.T).reshape(kernels.SHARDS, len(parts))
        places = np.ascontiguousarray((ends - counts.T).T)
        dealt = np.empty(ends[-1, -1], np.int64)
        run_tasks(lambda i: kernels.deal_into(dealt, places[i], *text, *parts[i], *how), len(parts))
        bounds = [0, *ends[:, -1].tolist()]

        def hand(task: int) -> None:
            for shard in range(task, kernels.SHARDS, HANDS):
                self._fill(shard, dealt, bounds[shard], bounds[shard + 1], g)

        run_tasks(hand, HANDS)

    def _fill(self, shard: int, dealt: Array, begin: int, end: int, g: Array) -> None:
        """Add the pairs of one shard; its table grows when it is too full for another one."""
        while True:
            cells, used = self.tables[shard], self.used[shard]
            most = int(FULLEST * len(cells) / 2)
            begin, self.used[shard] = kernels.add_into(cells, used, most, dealt, begin, end, g)
            if begin == end:
                return
            self.tables[shard] = _empty(int(GROWTH * len(cells) / 2))
            kernels.move_into(self.tables[shard], cells)

    # --- the matrix ---

    def matrix(self) -> sp.csr_array:
        """CSR with sorted indices of what was counted, both ways if symmetric. The tables are given up for it."""
        v = self.words
        entries = self._entries()
        # by column, then by row: columns rise in every row
        columns, rows, values, _ = _grouped(*entries, v)
        del entries
        _, columns, values, starts = _grouped(rows, columns, values, v, keep=False)
        del rows
        if self.symmetric:
            columns, values, starts = _mirrored(columns, values, starts)
        found = sp.csr_array((values, columns, starts), shape=(v, v))
        found.has_canonical_format = True
        return found

    def _entries(self) -> tuple[Array, Array, Array]:
        """(column, row, sum) of every pair."""
        n = self.n_pairs
        # as wide as the indices of the matrix need to be
        wide = sp.get_index_dtype(maxval=max(2 * n, self.words))
        rows, columns, values = np.empty(n, wide), np.empty(n, wide), np.empty(n)
        at = 0
        for shard in range(kernels.SHARDS):
            here = slice(at, at + self.used[shard])
            kernels.unpack_into(
                rows[here], columns[here], values[here], self.tables[shard], self.words
            )
            at, self.tables[shard], self.used[shard] = here.stop, _empty(FIRST), 0
        return columns, rows, values


def _empty(slots: int) -> Array:
    """A table without keys, in pages of its own: the system has them back at once when it is given up."""
    cells = np.frombuffer(mmap.mmap(-1, 16 * slots), np.int64)  # zeros, whose bits are those of 0.0
    cells[::2] = kernels.FREE
    return cells


def _slices(
    starts: Array, tokens: int, parts: int | None = None, first: int = 0, last: int | None = None
) -> list[tuple[int, int]]:
    """Ranges of the sentences first … last − 1 of some `tokens` each (one sentence at least), or `parts` even ones."""
    last = len(starts) - 1 if last is None else last
    begin, end = int(starts[first]), int(starts[last])
    marks = (
        np.arange(begin, end, tokens) if parts is None else np.linspace(begin, end, parts + 1)[:-1]
    )
    cuts = np.unique([first, *np.searchsorted(starts[first:last], marks) + first, last])
    return list(zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True))


def _starts(counts: Array, kind: Any) -> Array:
    return np.concatenate([[0], np.cumsum(counts)]).astype(kind)


def _counted(keys: Array, v: int) -> Array:
    counts = np.zeros(v, np.int64)
    kernels.count_into(counts, keys)
    return counts


def _grouped(
    keys: Array, others: Array, values: Array, v: int, keep: bool = True
) -> tuple[Array, Array, Array, Array]:
    """Entries by rising key, and where each key begins; without the keys if they are not kept."""
    starts = _starts(_counted(keys, v), keys.dtype)
    out = np.empty_like(keys if keep else keys[:0]), np.empty_like(others), np.empty_like(values)
    kernels.group_into(*out, starts[:-1].copy(), keys, others, values)
    return *out, starts


def _mirrored(columns: Array, values: Array, starts: Array) -> tuple[Array, Array, Array]:
    """U + Uᵀ, its rows sorted."""
    v = len(starts) - 1
    sizes = np.diff(starts)
    filled = np.flatnonzero(sizes)
    left = _counted(columns, v)
    # a diagonal is the first of its row
    left[filled] -= columns[starts[filled]] == filled
    both = _starts(left + sizes, columns.dtype)
    indices, sums = np.empty(both[-1], columns.dtype), np.empty(both[-1])
    above = (both[:-1] + left).astype(columns.dtype)
    kernels.mirror_into(indices, sums, both[:-1].copy(), above, starts, columns, values)
    return indices, sums, both
