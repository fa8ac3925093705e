"""What _kernels.py does, in NumPy: for data on which nobody should wait for a compiler. Same bits."""

from __future__ import annotations

import numpy as np


def best_into(scores, places, approx, P, Q, slack, indptr, indices, who) -> None:
    """Fill scores and places (b, n) with the n largest p_iᵀq_j of every row and their j; NaN and −1 where fewer are left.

    Row i leaves out the j that row who[i] of (indptr, indices) lists; nothing if who[i] is −1. Overwrites `approx` there.
    `slack` is twice the rounding error of a row of approx.
    """
    (b, m), n = approx.shape, places.shape[1]
    _leave_out(approx, indptr, indices, who)
    nth = np.partition(approx, m - n, axis=1)[:, m - n].astype(np.float64)
    least = (nth - slack).astype(approx.dtype)
    rows, columns = np.nonzero((approx >= least[:, None]) & (approx > -np.inf))
    exact = np.zeros(len(rows))
    for p, q in zip(P.T, Q.T, strict=True):  # summed factor by factor, as the kernel does
        exact += p[rows].astype(np.float64) * q[columns].astype(np.float64)
    order = np.lexsort((columns, -exact, rows))
    rows, columns, exact = rows[order], columns[order], exact[order]
    rank = np.arange(len(rows)) - np.searchsorted(rows, np.arange(b))[rows]
    kept = rank < n
    scores[:], places[:] = np.nan, -1
    scores[rows[kept], rank[kept]], places[rows[kept], rank[kept]] = exact[kept], columns[kept]


def _leave_out(approx, indptr, indices, who) -> None:
    asked = np.flatnonzero(who >= 0)
    starts, counts = indptr[who[asked]], indptr[who[asked] + 1] - indptr[who[asked]]
    rows = np.repeat(asked, counts)
    within = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
    approx[rows, indices[np.repeat(starts, counts) + within]] = -np.inf
