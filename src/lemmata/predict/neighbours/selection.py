"""The k smallest of many distances, and distances with all their digits.

    neighbours of q:   the k rows that come first in the order of (distance to q, number of the row)

so that a tie goes to the row with the lower number, whichever path found the candidates.

    >>> nearest_of(np.array([[2.0, 1.0, 1.0, 0.5]]), 2)
    (array([[0.5, 1. ]]), array([[3, 1]]))
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from lemmata.core.engine import one_blas_thread, run_tasks

Array = np.ndarray
# distances worked on at once, by one thread: 4 to 8 MB, and as much again to choose among them
BLOCK = 2**20
PAIRS = 2**14  # numbers of row differences worked on at once
LEAST_QUERIES = 16  # of a block, so that a matrix product has something to multiply


def in_blocks(work: Callable[[slice], None], queries: int, rows: int) -> None:
    """work(some queries) for all of them, in blocks of bounded memory, side by side on our threads."""
    step = max(LEAST_QUERIES, BLOCK // max(rows, 1))
    pieces = [slice(at, min(at + step, queries)) for at in range(0, queries, step)]
    with one_blas_thread():
        run_tasks(lambda task: work(pieces[task]), len(pieces))


def first_k(
    queries: Array, rows: Array, distances: Array, count: int, k: int
) -> tuple[Array, Array]:
    """The first k of each query's candidates by (distance, row). Every query has at least k of them.

    queries, rows, distances : one entry per candidate, in any order
    """
    order = np.lexsort((rows, distances, queries))
    starts = np.searchsorted(queries[order], np.arange(count))
    chosen = order[starts[:, None] + np.arange(k)]
    return distances[chosen], rows[chosen]


def nearest_of(D: Array, k: int) -> tuple[Array, Array]:
    """The first k columns of each row of D by (distance, column), with their distances."""
    q, n = D.shape
    if k < n:
        bound = np.partition(D, k - 1, axis=1)[:, k - 1]
        queries, rows = np.nonzero(bound[:, None] >= D)
    else:
        queries, rows = np.repeat(np.arange(q), n), np.tile(np.arange(n), q)
    return first_k(queries, rows, D[queries, rows], q, k)


def squares_between(Q: Any, X: Any, queries: Array, rows: Array, scale: float) -> Array:
    """‖(q − x)·scale‖² in float64 from differences, pair by pair: nothing cancels, and nothing leaves the floats."""
    found = np.empty(len(queries))
    # if not, a power of two may as well be taken off the sum: the same bits
    extreme = not 1e-100 < scale < 1e100
    step = max(1, PAIRS // X.shape[1]) if not sp.issparse(X) else 1024
    for at in range(0, len(queries), step):
        here = slice(at, at + step)
        if sp.issparse(X):
            difference = (Q[queries[here]] - X[rows[here]]).astype(np.float64) * scale
            found[here] = np.asarray(difference.multiply(difference).sum(axis=1)).ravel()
        else:
            difference = np.subtract(Q[queries[here]], X[rows[here]], dtype=np.float64)
            if extreme:
                difference *= scale
            found[here] = np.einsum("ij,ij->i", difference, difference)
    return found if sp.issparse(X) or extreme else found * scale**2
