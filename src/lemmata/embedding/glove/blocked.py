"""Weighted log-counts in P × P blocks, and in each block by rows: for steps that threads make independently.

Words are dealt into P groups, as rows and as columns (completion/sgd/blocked_entries.py): the blocks (p, p + r mod P) of a
round share neither a row nor a column, so that threads work on them in parallel and nothing depends on which is first. Inside
a block the pairs of a row lie together: its vector stays in the first-level cache while its contexts are trained one by one,
which saves half of the traffic of pairs in random order. Rows of a block, and pairs of a row, are walked through by random
strides, others in every epoch.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from lemmata.completion.sgd.blocked_entries import Groups, in_rounds
from lemmata.embedding.glove.counts import PairCounts, weights_of

Array = np.ndarray
GROUPS = 16  # P: work for up to 16 threads


@dataclass(frozen=True, eq=False)
class BlockedPairs:
    """Pairs by block and row. Words go by their places in `rows.order` and `columns.order`, where groups lie together."""

    others: Array  # int32, places of columns
    logs: Array  # float32, ln N
    weights: Array  # float32, f(N)
    starts: Array  # (P, v) int64: where the pairs of the row at a place with column group q begin
    lengths: Array  # (P, v) int32
    rows: Groups
    columns: Groups

    @classmethod
    def of(
        cls, pairs: PairCounts, x_max: float, alpha: float, groups: int = GROUPS
    ) -> BlockedPairs:
        from lemmata.embedding.glove._kernels import count_runs_into, deal_runs_into

        N, v = pairs.matrix, pairs.shape[0]
        indptr, indices = N.indptr.astype(np.int64), N.indices.astype(np.int32, copy=False)
        rows = Groups.of(np.diff(indptr), groups)
        columns = Groups.of(np.bincount(indices, minlength=v), groups)
        lengths = np.zeros((groups, v), np.int32)
        side = partial(
            count_runs_into, lengths, indptr, indices, rows.order, rows.cuts, columns.group
        )
        everyone, effort = [np.arange(groups)], 16.0 * len(indices)
        in_rounds(side, everyone, effort)
        starts, total = np.empty((groups, v), np.int64), 0
        for p in range(groups):
            here = slice(rows.cuts[p], rows.cuts[p + 1])
            for q in range(groups):
                ends = total + np.cumsum(lengths[q, here], dtype=np.int64)
                starts[q, here] = ends - lengths[q, here]
                total = int(ends[-1]) if len(ends) else total
        others, logs, weights = (
            np.empty(total, kind) for kind in (np.int32, np.float32, np.float32)
        )
        f = weights_of(N.data, x_max, alpha).astype(np.float32)
        deal = partial(
            deal_runs_into, others, logs, weights, starts, indptr, indices, pairs.logs, f, rows.order, rows.cuts,
            columns.place, columns.group,
        )  # fmt: skip
        in_rounds(deal, everyone, effort)
        return cls(others, logs, weights, starts, lengths, rows, columns)

    @property
    def groups(self) -> int:
        return len(self.starts)

    def rounds(self, rng: np.random.Generator) -> list[Array]:
        """P rounds in random order, each of P blocks p·P + q that share neither a row nor a column."""
        p, P = np.arange(self.groups), self.groups
        return [p * P + (p + r) % P for r in rng.permutation(P)]

    def place(self, arrays: Iterable[Array]) -> list[Array]:
        """Copies of arrays that belong to rows, columns, rows, columns, … by place, vectors as lines of the kernels."""
        from lemmata.linalg.simd import to_lines

        out = []
        for side, array in enumerate(arrays):
            own = array[(self.rows, self.columns)[side % 2].order]
            lines: Any = to_lines(own) if array.ndim == 2 else own
            lines.flags.writeable = True
            out.append(lines)
        return out

    def put_back(self, arrays: Iterable[Array], like: Iterable[Array]) -> list[Array]:
        """The reverse, in the shapes of `like`."""
        out = [np.empty_like(array) for array in like]
        for side, (array, placed) in enumerate(zip(out, arrays, strict=True)):
            order = (self.rows, self.columns)[side % 2].order
            wide = placed.reshape(len(order), -1)
            array[order] = wide[:, : array.shape[1]] if array.ndim == 2 else placed
        return out
