"""The n largest of many products per row, exactly.

`approx` holds P Qᵀ as BLAS rounds it, which depends on the shape of the block and on the machine. Its n-th largest value, less
twice the rounding error, bounds the true n best from below; the few candidates above it are computed again in float64, always
in the same order. So what comes out depends neither on blocks nor on threads, and equal products are ordered by position.
"""

from __future__ import annotations

import numpy as np

from lemmata.core.engine import kernel, run_tasks

ROWS_AT_ONCE = 64  # of a task
COLUMNS_AT_ONCE = 64  # columns that are looked at together: most chunks hold nothing of interest


@kernel
def _worse(score, place, other_score, other_place):
    """Whether the first pair comes after the second: a lower score, or the same further to the right."""
    return score < other_score or (score == other_score and place > other_place)


@kernel
def _sink_into(scores, places, top, size):
    """Let the pair at `top` sink until no child of it is worse: the worst pair of the heap stays at its root."""
    score, place = scores[top], places[top]
    while 2 * top + 1 < size:
        child = 2 * top + 1
        if child + 1 < size and _worse(
            scores[child + 1], places[child + 1], scores[child], places[child]
        ):
            child += 1
        if not _worse(scores[child], places[child], score, place):
            break
        scores[top], places[top] = scores[child], places[child]
        top = child
    scores[top], places[top] = score, place


@kernel
def _sort_into(scores, places, size):
    """Order a heap: the best pair first."""
    for last in range(size - 1, 0, -1):
        scores[0], scores[last] = scores[last], scores[0]
        places[0], places[last] = places[last], places[0]
        _sink_into(scores, places, 0, last)


@kernel
def _any_above(chunk, bar):
    """Whether one of the numbers is at least `bar`. A sum of comparisons, since LLVM turns it into SIMD."""
    count = np.int32(0)
    for j in range(len(chunk)):
        count += np.int32(chunk[j] >= bar)
    return count > 0


@kernel
def _nth_largest(row, top, found):
    """The n-th largest of a row, n = len(top), by a heap; −inf if fewer are above that. top and found are scratch."""
    top[:], found[:] = -np.inf, 0
    for start in range(0, len(row), COLUMNS_AT_ONCE):
        stop = min(start + COLUMNS_AT_ONCE, len(row))
        if _any_above(row[start:stop], row.dtype.type(top[0])):
            for j in range(start, stop):
                if row[j] > top[0]:
                    top[0] = row[j]
                    _sink_into(top, found, 0, len(top))
    return top[0]


@kernel
def _best_of_row(top, found, row, p, Q, slack):
    """The len(top) largest exact p·q_j among the j whose rounded value, in `row`, may be one of them; how many there are."""
    least = row.dtype.type(_nth_largest(row, top, found) - slack)
    top[:], found[:] = -np.inf, len(row)
    size = 0
    for start in range(0, len(row), COLUMNS_AT_ONCE):
        stop = min(start + COLUMNS_AT_ONCE, len(row))
        if not _any_above(row[start:stop], least):
            continue
        for j in range(start, stop):
            if row[j] >= least and row[j] > -np.inf:
                exact = 0.0
                for f in range(len(p)):
                    exact += np.float64(p[f]) * np.float64(Q[j, f])
                if exact > top[0]:  # at a tie the one that came first stays
                    top[0], found[0] = exact, j
                    _sink_into(top, found, 0, len(top))
                    size += 1
    return min(size, len(top))


def best_into(scores, places, approx, P, Q, slack, indptr, indices, who) -> None:
    """Fill scores and places (b, n) with the n largest p_iᵀq_j of every row and their j; NaN and −1 where fewer are left.

    Row i leaves out the j that row who[i] of (indptr, indices) lists; nothing if who[i] is −1. Overwrites `approx` there.
    `slack` is twice the rounding error of a row of approx.
    """
    parts = (scores, places, approx, P, Q, slack, indptr, indices, who)

    def work(task: int) -> None:
        first = task * ROWS_AT_ONCE
        _best_range_into(*parts, first, min(first + ROWS_AT_ONCE, len(approx)))

    run_tasks(work, -(-len(approx) // ROWS_AT_ONCE))


@kernel
def _best_range_into(scores, places, approx, P, Q, slack, indptr, indices, who, first, last):
    for i in range(first, last):
        if who[i] >= 0:
            for t in range(indptr[who[i]], indptr[who[i] + 1]):
                approx[i, indices[t]] = -np.inf
        size = _best_of_row(scores[i], places[i], approx[i], P[i], Q, slack[i])
        _sort_into(scores[i], places[i], places.shape[1])
        scores[i, size:], places[i, size:] = np.nan, -1
