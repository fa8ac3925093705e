"""The known entries of a matrix in P × P blocks, for work that must not meet in a row or a column (DSGD, Gemulla et al. 2011).

Rows are cut into P groups, and so are columns. The blocks (p, p + r mod P) of a round r share neither a row nor a column:
threads work on them at once, without locks, and nothing depends on who is first. P rounds meet every block. P is fixed, so the
number of threads changes nothing.

    >>> A = Observed.of(np.array([[1.0, np.nan, 2.0], [np.nan, 4.0, 5.0]]))
    >>> data = BlockedEntries.of(A, groups=2)
    >>> np.diff(data.starts).reshape(2, 2)                                      # entries of every block
    array([[1, 1],
           [1, 1]])
    >>> [blocks.tolist() for blocks in data.rounds(np.random.default_rng(0))]
    [[0, 3], [1, 2]]
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import cycle
from typing import Any, NamedTuple

import numpy as np

from lemmata.completion.observed import Observed
from lemmata.core.certificate import rounding
from lemmata.core.engine import cores, worth_compiling

Array = np.ndarray

GROUPS = 16  # P: work for up to 16 threads, and a block's share of U and V (1/16 of each) fits a core's own cache
# entries × rank up to which an epoch (2 ms) is over before threads have shared it out
SERIAL = 2**22
SORTED = (
    2**18
)  # entries up to which they are sorted (20 ms), so that nothing is compiled to deal them out (0.7 s)


def in_rounds(work: Callable[[Array], Any], rounds: Iterable[Array], effort: float) -> None:
    """work(items) round by round; the items of a round are shared out among threads, where there is enough to do."""
    threads = cores() if effort > SERIAL else 1
    if threads == 1:
        work(np.concatenate(list(rounds)))
        return
    with ThreadPoolExecutor(threads) as pool:
        # twice as many shares as threads: one that had to wait for its core holds up less
        for items in rounds:
            for _ in pool.map(work, np.array_split(items, 2 * threads)):
                pass  # a round begins when all of the one before is done


class Groups(NamedTuple):
    """Rows (or columns) in P groups with about as many entries each."""

    order: Array  # (n,) the rows, group by group
    place: Array  # (n,) where each row is in that order
    group: Array  # (n,) the group of each row
    cuts: Array  # (P + 1,) where the groups begin in the order

    @classmethod
    def of(cls, counts: Array, groups: int) -> Groups:
        """Deal the rows out by falling counts, to and fro: two groups differ by at most the largest count."""
        lap, seat = np.divmod(np.arange(len(counts)), groups)
        dealt = np.where(lap % 2 == 0, seat, groups - 1 - seat)
        falling = np.argsort(-counts, kind="stable")
        order = falling[np.argsort(dealt, kind="stable")]
        place, group = np.empty_like(order), np.empty_like(order)
        place[order], group[falling] = np.arange(len(order)), dealt
        return cls(order, place, group, np.r_[0, np.cumsum(np.bincount(dealt, minlength=groups))])


@dataclass(frozen=True)
class BlockedEntries:
    """Known entries, block by block and in random order inside each, as x = (a − mean) / scale of standard deviation 1.

    Rows and columns go by their places in `row_order` and `column_order`, where groups lie together.
    """

    rows: Array  # int32, places
    columns: Array
    x: Array
    starts: Array  # (P² + 1,) where block p·P + q begins: row group p, column group q
    row_order: Array  # (n,) the row at each place
    column_order: Array  # (m,)
    row_counts: Array  # (n,) entries of every row, by place
    column_counts: Array  # (m,)
    mean: float  # μ, 0 without biases
    scale: float  # the standard deviation of the values; without biases their root mean square

    @classmethod
    def of(cls, A: Observed, centred: bool = True, groups: int = GROUPS) -> BlockedEntries:
        from lemmata.completion.sgd._kernels import count_blocks, deal_into, shuffle_blocks

        mean = float(A.values.mean(dtype=np.float64)) if centred else 0.0
        spread = math.sqrt(np.square(A.values - mean, dtype=np.float64).mean())
        # what equal values differ by from their mean
        noise = rounding(A.dtype) * (float(np.abs(A.values).max()) or 1.0)
        scale = max(spread, noise)
        rows, columns = Groups.of(A.row_counts, groups), Groups.of(A.column_counts, groups)
        size = A.n_observed
        # an entry is dealt, or swapped with another one, in the time of a step at rank 32
        effort = 32 * size
        if worth_compiling(size, above=SORTED):
            counts = count_blocks(*A.by_row[:2], rows.group, columns.group, groups)
            starts = np.r_[0, np.cumsum(counts)]
            entries = np.empty(size, np.int32), np.empty(size, np.int32), np.empty(size, A.dtype)
            places = rows.order, rows.cuts, columns.place, columns.group
            deal: Any = partial(deal_into, *entries, starts, *A.by_row, *places, mean, scale)
            in_rounds(deal, [np.arange(groups)], effort)
        else:
            starts, entries = _sort_entries(A, rows, columns, mean, scale)
        in_rounds(partial(shuffle_blocks, *entries, starts), [np.arange(groups**2)], effort)
        row_counts, column_counts = A.row_counts[rows.order], A.column_counts[columns.order]
        return cls(
            *entries, starts, rows.order, columns.order, row_counts, column_counts, mean, scale
        )

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.row_order), len(self.column_order)

    @property
    def groups(self) -> int:
        return math.isqrt(len(self.starts) - 1)

    @property
    def counts(self) -> tuple[Array, Array]:
        """Entries of every row and of every column, in their own order."""
        placed = self.row_counts, self.column_counts
        rows, columns = self.put_back(placed, placed)
        return rows, columns

    @property
    def entries(self) -> tuple[Array, Array, Array, Array]:
        """Arguments of the kernels."""
        return self.rows, self.columns, self.x, self.starts

    def rounds(self, rng: np.random.Generator) -> list[Array]:
        """P rounds in random order, each of P blocks (p, p + r mod P), which share neither a row nor a column."""
        p = np.arange(self.groups)
        return [p * self.groups + (p + r) % self.groups for r in rng.permutation(self.groups)]

    def put_in_place(self, arrays: Iterable[Array]) -> list[Array]:
        """Copies of arrays that belong to rows, columns, rows, columns, …, for kernels: by place, factors as whole lines."""
        orders = cycle((self.row_order, self.column_order))
        return [
            _lines(F[order]) if F.ndim == 2 else F[order]
            for F, order in zip(arrays, orders, strict=False)
        ]

    def put_back(self, arrays: Iterable[Array], like: Iterable[Array]) -> list[Array]:
        """The reverse: by row and by column, in the shapes of `like`."""
        out = [np.empty_like(F) for F in like]
        for F, placed, order in zip(
            out, arrays, cycle((self.row_order, self.column_order)), strict=False
        ):
            F[order] = placed[:, : F.shape[1]] if F.ndim == 2 else placed
        return out


def _sort_entries(
    A: Observed, rows: Groups, columns: Groups, mean: float, scale: float
) -> tuple[Array, tuple[Array, Array, Array]]:
    """`count_blocks` and `deal_into` in NumPy: where the blocks begin; places of rows and columns, and x."""
    groups = len(rows.cuts) - 1
    blocks = rows.group[A.rows] * groups + columns.group[A.columns]
    order = np.lexsort((rows.place[A.rows], blocks))
    x = ((A.values.astype(np.float64) - mean) / scale).astype(A.dtype)
    starts = np.r_[0, np.cumsum(np.bincount(blocks, minlength=groups**2))]
    placed = rows.place[A.rows].astype(np.int32), columns.place[A.columns].astype(np.int32)
    return starts, (placed[0][order], placed[1][order], x[order])


def _lines(F: Array) -> Array:
    """A copy whose rows are whole cache lines, filled up with zeros."""
    from lemmata.linalg.simd import LINE, empty_lines

    n, k = F.shape
    out = empty_lines(n, -(-k * F.itemsize // LINE), F.dtype).reshape(n, -1)
    out[:, :k], out[:, k:] = F, 0
    return out
