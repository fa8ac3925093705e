"""The rows of a matrix that are most alike to some vectors, block by block: one matrix product each, no more in memory.

    cos(q, v) = qᵀv / (‖q‖ ‖v‖)

A vector of zeros has no direction; its similarity to anything is 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

Array = np.ndarray
BLOCK_BYTES = 2**25  # of vectors at a time: more would leave the cache, fewer would cost calls


def row_blocks(matrix: Array) -> Iterator[tuple[int, Array]]:
    """Where a block begins, and its rows as an array in memory."""
    rows = max(1, BLOCK_BYTES // max(1, matrix.shape[1] * matrix.itemsize))
    for first in range(0, len(matrix), rows):
        yield first, np.asarray(matrix[first : first + rows])


def lengths(matrix: Array) -> Array:
    """‖v‖ of every row, in the dtype of the matrix."""
    out = np.empty(len(matrix), matrix.dtype)
    for first, rows in row_blocks(matrix):
        squares = np.einsum("ij,ij->i", rows, rows, dtype=np.float64)
        out[first : first + len(rows)] = np.sqrt(squares)
    return out


def directions(rows: Array) -> Array:
    """Rows of length 1; zeros stay zeros."""
    sizes = lengths(rows)[:, None]
    return rows / np.where(sizes > 0, sizes, 1)


def top(
    matrix: Array, sizes: Array, queries: Array, n: int, score: Any = None
) -> tuple[Array, Array]:
    """For each query the n best rows and their scores, the best first; of equal ones the first row.

    sizes : ‖v‖ of the rows
    score : from the cosines (q, rows) of a block to one row of what is to be large; None: the cosines of each query
    """
    queries = directions(np.atleast_2d(queries).astype(matrix.dtype, copy=False))
    n = min(n, len(matrix))
    count = len(queries) if score is None else 1
    best = np.zeros((count, 0), matrix.dtype)
    places = np.zeros((count, 0), np.int64)
    for first, rows in row_blocks(matrix):
        part = sizes[first : first + len(rows)]
        cosines = (queries @ rows.T) / np.where(part > 0, part, 1)
        scores = cosines if score is None else score(cosines)
        here = np.broadcast_to(np.arange(first, first + len(rows)), scores.shape)
        best = np.concatenate([best, scores], axis=1)
        places = np.concatenate([places, here], axis=1)
        if best.shape[1] > n:
            kept = np.sort(np.argpartition(-best, n - 1, axis=1)[:, :n], axis=1)
            best, places = (np.take_along_axis(x, kept, axis=1) for x in (best, places))
    order = np.argsort(-best, axis=1, kind="stable")
    return np.take_along_axis(places, order, axis=1), np.take_along_axis(best, order, axis=1)
