"""The kernels of the search in NumPy: for small data, which should not wait for a compiler."""

from __future__ import annotations

import numpy as np

from lemmata.predict.kernels.tiles import squares
from lemmata.predict.neighbours.selection import first_k

__all__ = ["candidates", "first_k", "squares"]

Array = np.ndarray
GROUPS = 6  # times k: so many groups that few of them hold two of the k largest


def candidates(
    scores: Array, lengths: Array, query_lengths: Array, slack: float, k: int
) -> tuple[Array, Array]:
    """(queries, rows) of all rows that may be among the k nearest, given s̃ + a‖x‖² of every pair; queries in order.

    k rows whose s̃ + a‖x‖² are known have s ≥ (s̃ + a‖x‖²) − 2a‖x‖² − ½a‖q‖², so the k-th largest s of all is at least the least
    of theirs; a row whose upper bound s̃ + a‖x‖² + ½a‖q‖² is below that is not among the k nearest.
    """
    q, n = scores.shape
    if k >= n:
        return np.repeat(np.arange(q), n), np.tile(np.arange(n), q)
    queries, rows = _at_least(scores, _low_kth(scores, k))
    lower = scores[queries, rows] - 2 * slack * lengths[rows]
    starts = np.searchsorted(queries, np.arange(q))
    # the queries' 2a is more than ½a + ½a: float32 thresholds round too
    least = np.minimum.reduceat(lower, starts) - 2 * slack * query_lengths - 1e-30
    return _at_least(scores, np.nextafter(least.astype(scores.dtype), -np.inf, dtype=scores.dtype))


def _low_kth(scores: Array, k: int) -> Array:
    """A number that at least k scores of each query reach, close to the k-th largest.

    The k-th largest among the maxima of groups: k groups have one score each that reaches it. Maxima are five times as fast
    as choosing among all.
    """
    q, n = scores.shape
    groups = max(64, GROUPS * k)
    if groups * 4 > n:
        return np.partition(scores, n - k, axis=1)[:, n - k]
    width = n // groups
    tops = scores[:, : groups * width].reshape(q, width, groups).max(axis=1)
    return np.partition(tops, groups - k, axis=1)[:, groups - k]


def _at_least(scores: Array, bounds: Array) -> tuple[Array, Array]:
    """The places of all scores that reach the bound of their query."""
    return np.divmod(np.flatnonzero(scores >= bounds[:, None]), scores.shape[1])
