"""PairTable: sums over pairs of words in memory that their number bounds, for texts of any length.

A pair that occurs takes 16 bytes in a table which is 50 to 75 % full (_kernels.py): 21 to 32 bytes, a symmetric pair once.
The finished CSR matrix has 24 bytes for a symmetric pair, both ways, and is built in hardly more.
"""

from __future__ import annotations

import mmap
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp

from lemmata.core.engine import run_tasks
from lemmata.embedding.windows import _kernels as kernels

Array = np.ndarray
FIRST = 2**9  # slots of a new table: 2 MB for all shards together
FULLEST, GROWTH = 0.75, 1.5
DEALT = 2**21  # pairs that are dealt at a time: 16 MB
PARTS = 8  # of a slice of text, dealt in parallel
HANDS = 32  # tasks that share the shards
# pages that are not shared with other processes are faster to come by; Windows has no flags
PRIVATE: Any = (
    {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_PRIVATE") else {}
)
BUCKET = 2**18  # entries that are put in order at a time: 4 MB


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
        """CSR with sorted indices of what was counted, both ways if symmetric. The tables are freed for it.

        Rows are put in order a bucket of them at a time, and a bucket is freed once its entries are in the matrix. The rare
        words' go first: there are few of them, and their rows will not need further pages.
        """
        v, n = self.words, self.n_pairs
        wide = sp.get_index_dtype(maxval=max(2 * n, v))  # of the indices of the matrix
        buckets, sizes = self._buckets(wide)
        left = np.zeros(v, np.int64)
        cuts = np.searchsorted(np.cumsum(sizes) - sizes, np.arange(len(buckets) + 1) * BUCKET)

        def put_in_order(i: int) -> None:
            rows, columns, sums = buckets[i]
            by_column = tuple(np.empty_like(part) for part in (columns, rows, sums))
            _group_into(by_column, columns, rows, sums)
            # by column, then by row: columns rise in every row
            _group_into((rows, columns, sums), by_column[1], by_column[0], by_column[2])

        run_tasks(put_in_order, len(buckets))
        for i, (rows, columns, sums) in enumerate(buckets):
            if self.symmetric:
                kernels.count_left_into(left, rows, columns)
            buckets[i] = columns, sums
        starts = np.concatenate([[0], np.cumsum(left + sizes)]).astype(wide)
        indices, values = np.empty(starts[-1], wide), np.empty(starts[-1])
        lefts, rights = (starts[:-1] + left).astype(wide), starts[1:].copy()
        while buckets:
            columns, sums = buckets.pop()
            first, last = cuts[len(buckets)], cuts[len(buckets) + 1]
            if self.symmetric:
                ends = np.cumsum(sizes[first:last])
                kernels.mirror_into(indices, values, lefts, rights, first, ends, columns, sums)
            else:
                here = slice(starts[first], starts[last])
                indices[here], values[here] = columns, sums
        found = sp.csr_array((values, indices, starts), shape=(v, v))
        found.has_canonical_format = True
        return found

    def _buckets(self, wide: Any) -> tuple[list[Any], Array]:
        """(rows, columns, sums) of all entries, some BUCKET of them and whole rows at a time; and how many each row has."""
        sizes = np.zeros(self.words, np.int64)
        for cells in self.tables:
            kernels.count_rows_into(sizes, cells, self.words)
        bucket_of = (np.cumsum(sizes) - sizes) // BUCKET
        sizes_of = np.bincount(bucket_of, sizes).astype(np.int64)
        kinds = (wide, wide, np.float64)
        buckets: list[Any] = [tuple(_pages(int(n), kind) for kind in kinds) for n in sizes_of]
        filled = np.zeros(len(sizes_of), np.int64)
        for shard, cells in enumerate(self.tables):
            parts = tuple(np.empty(self.used[shard], kind) for kind in kinds)
            ends = np.zeros(len(sizes_of), np.int64)
            kernels.unpack_into(*parts, ends, bucket_of, cells, self.words)
            self.tables[shard], self.used[shard] = _empty(FIRST), 0
            for bucket, (first, last) in enumerate(pairwise([0, *ends.tolist()])):
                here = slice(filled[bucket], filled[bucket] + last - first)
                for whole, part in zip(buckets[bucket], parts, strict=True):
                    whole[here] = part[first:last]
                filled[bucket] = here.stop
        return buckets, sizes


def _pages(size: int, kind: Any) -> Array:
    """Zeros in pages of their own, which the system gets back at once when they are freed."""
    kind = np.dtype(kind)
    return np.frombuffer(mmap.mmap(-1, max(1, size) * kind.itemsize, **PRIVATE), kind)[:size]


def _empty(slots: int) -> Array:
    cells = _pages(2 * slots, np.int64)  # the bits of 0 are those of 0.0
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


def _group_into(out: tuple[Array, ...], keys: Array, others: Array, values: Array) -> None:
    """Write entries by rising key, those of one key in their old order."""
    low = keys.min(initial=np.iinfo(keys.dtype).max)
    counts = np.bincount(keys - low)
    kernels.group_into(*out, np.cumsum(counts) - counts, low, keys, others, values)
