"""The best W for given components: a convex problem for every row, solved until nothing moves.

Least squares: sweeps of HALS (`best_rows`). Divergence, with all columns known and without a₂: in shares u_z = w_z
(Σ_j h_zj + a₁) of a row's total the problem is that of a document and its mixture of topics, so pLSA folds the row
in. Else the multiplicative rule, repeated.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lemmata.topics.nmf.divergence import Counted, go_further, positive_root
from lemmata.topics.nmf.hals import HALS, best_rows
from lemmata.topics.nmf.squares import FactorPenalty
from lemmata.topics.nmf.table import RowPart, RowTable

Array = np.ndarray
MOST_STEPS = 1000  # of the multiplicative rule and of EM over one row
FROM_NEAR = 20  # where they start from the W of a fit
NATS = 1e-4  # a unit of the row's total that EM may leave


def least_squares_rows(
    table: RowTable, V: Array, penalty: FactorPenalty, start: Array | None = None
) -> Array:
    """W (n, k) that minimises ½ Σ‖x − wH‖² + a₁ Σ w + ½ a₂ ‖w‖²."""
    W = np.zeros((table.shape[0], V.shape[1]), table.dtype)
    hals = HALS(table.compiled, threads=table.sparse)
    shared = None if table.holes else V.T @ V

    def work(part: RowPart) -> float:
        G = part.gram(V) if shared is None else shared
        here = W[part.place] if start is None else start[part.place]
        mine = best_rows(hals, here, part.times(V), G, penalty.l1_W, penalty.l2_W)
        # what no known column uses could be anything: it is 0
        W[part.place] = np.where(np.diagonal(G, axis1=-2, axis2=-1) > 0, mine, 0)
        return 0.0

    table.map(work, 0.0)
    return W


def divergence_rows(
    table: Counted, V: Array, penalty: FactorPenalty, start: Array | None = None
) -> Array:
    """W (n, k) that minimises Σ D(x ‖ wH) + a₁ Σ w + ½ a₂ ‖w‖²."""
    n, k, steps = table.shape[0], V.shape[1], MOST_STEPS if start is None else FROM_NEAR
    slope = table.row_sums(V) + np.asarray(penalty.l1_W, V.dtype)
    # which concern nobody here, and those of 0 would hide their rows
    if table.data.weights is not None:
        nothing: Any = None
        table = Counted(table.data.weighted(nothing), table.k, table.passes, table.holes)
    if not table.sparse:
        return _by_dense_ratios(table, V, slope, penalty.l2_W, start, steps)
    if table.holes or penalty.l2_W:
        return _by_ratios(table, V, slope, penalty.l2_W, start, steps)
    slope = np.where(slope > 0, slope, 1)
    theta = np.full((n, k), 1 / k, table.dtype)
    if start is not None:
        shares = start * slope
        totals = shares.sum(axis=1, keepdims=True)
        theta = np.where(totals > 0, shares / np.where(totals > 0, totals, 1), theta)
    theta = table.corpus.fold_in(theta.astype(table.dtype), V / slope, steps, NATS)
    return (theta * table.corpus.lengths[:, None] / slope).astype(table.dtype)


def _first(table: Counted, V: Array, start: Array | None) -> Array:
    return np.ones((table.shape[0], V.shape[1]), table.dtype) if start is None else start.copy()


def _gains(counts: Array, W: Array, slope: Array) -> Array:
    """Return whether each row could still gain: its total is not that of its parts, or a pull exceeds its slope by NATS."""
    parts, total = W * slope, counts.sum(axis=1)
    return (counts > (1 + NATS) * parts).any(axis=1) | (np.abs(parts.sum(axis=1) - total) > NATS * total)  # fmt: skip


def _by_ratios(
    table: Counted, V: Array, slope: Array, l2: float, start: Array | None, steps: int
) -> Array:
    W = _first(table, V, start)
    for _ in range(steps):
        counts = table.share_out(W, V)[0]
        if not _gains(counts, W, slope + np.asarray(l2, W.dtype) * W).any():
            break
        W = positive_root(counts, slope, l2).astype(W.dtype)
    return W


def _by_dense_ratios(
    table: Counted, V: Array, slope: Array, l2: float, start: Array | None, steps: int
) -> Array:
    """The same for dense rows, with the longer steps of a fit; each row stops by itself."""
    W, tiny = _first(table, V, start), np.finfo(V.dtype).tiny
    slopes = np.broadcast_to(slope, W.shape)

    def work(part: RowPart) -> float:
        mine, going = W[part.place], np.arange(part.size)
        for _ in range(steps):
            if not len(going):
                break
            here, down = mine[going], slopes[part.place][going]
            p = here @ V.T
            np.maximum(p, tiny, out=p)
            np.divide(part.rows if len(going) == part.size else part.rows[going], p, out=p)
            counts = here * (p @ V)
            mine[going] = go_further(positive_root(counts, down, l2).astype(mine.dtype), here)
            going = going[_gains(counts, here, down + np.asarray(l2, mine.dtype) * here)]
        return 0.0

    table.map(work, 0.0)
    return W
