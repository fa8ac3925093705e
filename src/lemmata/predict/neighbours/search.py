"""Exact Euclidean neighbours by matrix products: float32 decides which rows are looked at, float64 which of them are nearest.

    ‖q − x‖² = ‖q‖² − 2 s(q, x),        s(q, x) = qᵀx − ½‖x‖²          the k largest s are the k nearest rows

s is computed in float32, in coordinates around the rows (moved to their middle, scaled by a power of two). With u = 2⁻²⁴, the
d products, their sums and the rounding of the inputs err by at most (Higham 2002, 3.1)

    |s̃ − s| ≤ a (‖x‖² + ½‖q‖²),         a = 1.1 (d + 8) u                 (from ‖q‖‖x‖ ≤ ½‖q‖² + ½‖x‖²)

so  s̃ + a(‖x‖² + ½‖q‖²) ≥ s:  the term in x goes into the number each sum starts with, the term in q into the threshold, and the
bound costs nothing. A row whose upper bound does not reach the k-th best s known so far is not among the k nearest: proved.
Every other row is measured in float64, from differences. So the result is that of float64 alone, for any data; where
differences are lost in float32 it takes longer and is not wrong.

    >>> X = np.array([[0.0, 0.0], [3.0, 4.0], [0.0, 1.0], [0.0, 1.0]])
    >>> ExactSearch(X).nearest(np.zeros((1, 2)), 3)
    (array([[0., 1., 1.]]), array([[0, 2, 3]]))
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from lemmata.clustering.frames import exponent_of
from lemmata.core.engine import cores, run_tasks, worth_compiling
from lemmata.predict.neighbours import _twins as twins
from lemmata.predict.neighbours.selection import in_blocks, squares_between

Array = np.ndarray
SAMPLE = 999  # rows whose middle is taken as that of all
UNDERFLOW = 2.0**-120  # of d < 2²⁰ products, in coordinates where rows are no longer than 1
# length of a query in these coordinates beyond which its products could overflow float32
FAR = 2.0**40
PER_PAIR = 48  # multiplications that choosing costs the twins, besides the d of the product
WORTH_KERNELS = 2**32  # q·n·(d + PER_PAIR) from which NumPy takes longer than loading kernels does
QUERIES = 240  # of one task of the kernels: forty times six, for one pass over the rows


class ExactSearch:
    """The rows that queries are compared with, in coordinates where squares neither cancel nor overflow.

    Sparse rows are not moved, and multiplied in float64.
    """

    def __init__(self, X: Any):
        self.X = sp.csr_array(X) if sp.issparse(X) else np.ascontiguousarray(X)
        self.sparse = sp.issparse(X)
        self.narrow = np.float64 if self.sparse else np.float32
        d = X.shape[1]
        self.slack = 1.1 * (d + 8) * np.finfo(self.narrow).eps / 2  # a
        self.origin = np.zeros(0) if self.sparse else _middle(self.X)
        self.scale = 2.0 ** -exponent_of(self._reach())
        self.rows: Any = self.move(self.X)
        self.lengths = twins.squares(self.rows)  # ‖x‖², float64
        self.starts = (self.slack - 0.5) * self.lengths
        self.rows = self.rows.astype(self.narrow)
        self._narrow_starts = self.starts.astype(self.narrow)
        self._lines: Any = None

    def move(self, rows: Any) -> Any:
        """(x − origin)·scale in float64: both correctly rounded, so far from zero nothing is lost."""
        if self.sparse:
            return sp.csr_array(rows).astype(np.float64) * self.scale
        return np.subtract(rows, self.origin, dtype=np.float64) * self.scale

    def _reach(self) -> float:
        """An upper bound of the length of the rows around their origin."""
        if self.sparse:
            largest = float(np.abs(self.X.data).max(initial=0.0))
        else:
            low, high = self.X.min(axis=0), self.X.max(axis=0)
            largest = float(max((high - self.origin).max(), (self.origin - low).max()))
        return largest * float(np.sqrt(self.X.shape[1]))

    # --- the k nearest ---

    def nearest(self, Q: Any, k: int) -> tuple[Array, Array]:
        """Distances and numbers of the k nearest rows of each query, (q, k), nearest first, ties by the lower number."""
        (n, d), q = self.X.shape, Q.shape[0]
        squares, found = np.empty((q, k)), np.empty((q, k), np.int64)
        with np.errstate(over="ignore"):
            points = self.move(Q)
            lengths = twins.squares(points)
        near = np.flatnonzero(lengths < FAR**2)
        compiled = not self.sparse and worth_compiling(
            float(q) * n * (d + PER_PAIR), above=WORTH_KERNELS
        )
        if len(near):
            some = near if len(near) < q else slice(None)
            search = self._by_kernels if compiled else self._by_twins
            squares[some], found[some] = search(Q[some], points[some], lengths[some], k)
        for i in np.flatnonzero(~(lengths < FAR**2)):
            squares[i], found[i] = self._by_differences(Q[[i]], k)
        return np.sqrt(squares, out=squares) / self.scale, found

    def _by_twins(self, Q: Any, points: Any, lengths: Array, k: int) -> tuple[Array, Array]:
        out = np.empty((Q.shape[0], k)), np.empty((Q.shape[0], k), np.int64)

        def work(here: slice) -> None:
            scores = self._scores(points[here])
            queries, rows = twins.candidates(scores, self.lengths, lengths[here], self.slack, k)
            exact = squares_between(Q[here], self.X, queries, rows, self.scale)
            out[0][here], out[1][here] = twins.first_k(queries, rows, exact, scores.shape[0], k)

        in_blocks(work, Q.shape[0], self.X.shape[0])
        return out

    def _scores(self, points: Any) -> Array:
        """s̃ + a‖x‖² of all rows for some queries."""
        product = points.astype(self.narrow) @ self.rows.T
        scores = product.toarray() if sp.issparse(product) else product
        scores += self._narrow_starts
        return scores

    def _by_kernels(self, Q: Array, points: Array, lengths: Array, k: int) -> tuple[Array, Array]:
        """All rows pass by six queries at a time; every row that may be near is measured at once."""
        from lemmata.predict.neighbours import _kernels as kernels

        if self._lines is None:
            self._lines = kernels.pack(self.rows, self.starts)
        q = len(Q)
        step = min(QUERIES, -(-q // (6 * cores())) * 6)
        sixes = kernels.pack_queries(points)
        squares, found = np.empty((q, k)), np.empty((q, k), np.int64)
        out = squares, found, self.slack * lengths / 2 + UNDERFLOW * (1 + np.sqrt(lengths))
        exact = np.ascontiguousarray(Q, self.X.dtype), self.X, self.scale, self.slack

        def work(task: int) -> None:
            kernels.search_into(
                *out, *self._lines, sixes, *exact, task * step, min((task + 1) * step, q)
            )

        run_tasks(work, -(-q // step))
        return squares, found

    def _by_differences(self, query: Any, k: int) -> tuple[Array, Array]:
        """One query against all rows in float64."""
        n = self.X.shape[0]
        rows = np.arange(n)
        squares = squares_between(query, self.X, np.zeros(n, np.int64), rows, self.scale)
        chosen = np.lexsort((rows, squares))[:k]
        return squares[chosen], chosen

    # --- all within a radius ---

    def within(self, Q: Any, radius: float) -> tuple[Array, Array, Array]:
        """All rows at a distance of at most `radius`: (query, row, distance) in the order of (query, row)."""
        points = self.move(Q)
        lengths = twins.squares(points)
        parts: dict[int, tuple[Array, Array, Array]] = {}
        reach = (radius * self.scale) ** 2

        def work(here: slice) -> None:
            least = (lengths[here] - reach) / 2  # s of a row on the sphere
            margin = self.slack * (lengths[here] + reach) + UNDERFLOW * (1 + np.sqrt(lengths[here]))
            near = lengths[here] < FAR**2
            with np.errstate(over="ignore", invalid="ignore"):
                inside = self._scores(points[here]) >= (least - margin)[:, None]
            queries, rows = np.nonzero(inside | ~near[:, None])
            squares = squares_between(Q[here], self.X, queries, rows, self.scale)
            distances = np.sqrt(squares) / self.scale
            kept = distances <= radius
            parts[here.start] = queries[kept] + here.start, rows[kept], distances[kept]

        in_blocks(work, Q.shape[0], self.X.shape[0])
        queries, rows, distances = zip(*(parts[at] for at in sorted(parts)), strict=True)
        return np.concatenate(queries), np.concatenate(rows), np.concatenate(distances)


def _middle(X: Array) -> Array:
    """The median of some rows, feature by feature: no outlier moves it."""
    every = max(1, len(X) // SAMPLE)
    return np.median(X[::every][:SAMPLE].astype(np.float64), axis=0)
