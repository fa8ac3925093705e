"""The nearest words of the other side, by cosine and by CSLS, block by block: one matrix product each, no more in memory.

    cos(x, y) = xᵀy                             for rows of length 1
    CSLS(x, y) = 2 xᵀy − r(x) − r(y)            r(x): the mean cosine of x and its n nearest words of the other side

In many dimensions a few words, the hubs, are among the nearest of very many, and take the place of true translations. A hub y
has a large r(y), which CSLS takes off again (cross-domain similarity local scaling; Conneau, Lample et al. 2018).
"""

from __future__ import annotations

import numpy as np

from lemmata.core.engine import one_blas_thread, run_tasks

Array = np.ndarray
BLOCK = 2**21  # similarities at a time for each thread: 8 MB of float32
METHODS = ("csls", "cosine")


def parts(n_queries: int, n_rows: int) -> list[slice]:
    """Queries in blocks whose similarities to all rows take BLOCK numbers; the cuts depend on the sizes alone."""
    size = max(1, BLOCK // max(1, n_rows))
    return [slice(first, min(first + size, n_queries)) for first in range(0, n_queries, size)]


def crowding(queries: Array, rows: Array, n: int) -> Array:
    """r: the mean cosine of every query and its n nearest rows, all of length 1."""
    n, cuts = min(n, len(rows)), parts(len(queries), len(rows))
    out = np.zeros(len(queries), queries.dtype)
    if n == 0:
        return out

    def work(task: int) -> None:
        cosines = queries[cuts[task]] @ rows.T
        out[cuts[task]] = np.partition(cosines, -n, axis=1)[:, -n:].mean(axis=1)

    with one_blas_thread():
        run_tasks(work, len(cuts))
    return out


def best(queries: Array, rows: Array, penalty: Array, n: int) -> tuple[Array, Array]:
    """For every query the n rows with the largest 2 cos − penalty, the best first, and these numbers; ties by place."""
    n, cuts = min(n, len(rows)), parts(len(queries), len(rows))
    places = np.zeros((len(queries), n), np.int64)
    scores = np.zeros((len(queries), n), queries.dtype)

    def work(task: int) -> None:
        found = 2 * (queries[cuts[task]] @ rows.T) - penalty
        if n == 1:
            kept = found.argmax(axis=1)[:, None]
        elif n < len(rows):
            kept = np.sort(np.argpartition(-found, n - 1, axis=1)[:, :n], axis=1)
        else:
            kept = np.broadcast_to(np.arange(n), found.shape)
        values = np.take_along_axis(found, kept, axis=1)
        order = np.argsort(-values, axis=1, kind="stable")
        places[cuts[task]] = np.take_along_axis(kept, order, axis=1)
        scores[cuts[task]] = np.take_along_axis(values, order, axis=1)

    with one_blas_thread():
        run_tasks(work, len(cuts))
    return places, scores


def translations(X: Array, Y: Array, n: int) -> tuple[Array, Array]:
    """The row of Y that is nearest by CSLS to every row of X, and the row of X that is nearest to every row of Y."""
    forward, _ = best(X, Y, crowding(Y, X, n), 1)
    backward, _ = best(Y, X, crowding(X, Y, n), 1)
    return forward[:, 0], backward[:, 0]


def mutual(forward: Array, backward: Array) -> Array:
    """Pairs (i, j) of which each is the other's nearest, (p, 2)."""
    rows = np.arange(len(forward))
    both = backward[forward] == rows
    return np.stack([rows[both], forward[both]], axis=1)
