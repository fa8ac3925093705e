"""The columns that have entered, and their Gram matrix, grown as more of them enter.

    G = X̃_Eᵀ X̃_E,   q = X̃_Eᵀ Ỹ                     E: the entered columns, in the order in which they came

Along a path and from round to round columns are only added, so every product of two columns is computed once.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lemmata.core.engine import run_tasks
from lemmata.predict.lasso.design import SIDE_BY_SIDE, Design

Array = np.ndarray
TILE = 256  # rows of a Gram block that one task computes
CHUNK = 32  # sparse columns made dense at once
# a product of dense columns is so many times as fast as one with their entries; numbers of them that fit into 32 MB
FILLED, ROOM = 16, 2**22


class Entered:
    """E with X̃_E, G and q. `cuts` are the sizes it had: entering in the same portions gives the same bits."""

    def __init__(self, design: Design, Y: Array, given: Array | None = None):
        self.design, self.Y = design, Y  # Ỹ: (n, T)
        self.given = given  # X̃ᵀX̃ of all columns, where it is known: no product is formed again
        self.order = np.empty(0, np.int64)
        self.place = np.full(design.shape[1], -1)
        self.cuts: tuple[int, ...] = ()
        self._G = np.empty((0, 0))
        self.q = np.empty((0, Y.shape[1]))
        self._rows = np.empty((0, design.shape[0]))  # dense: the columns of X̃, one per row
        self._sparse: Any = None  # sparse: scaled CSC columns
        self._Z: Any = None  # sparse: X̃_EᵀQ

    def __len__(self) -> int:
        return len(self.order)

    @property
    def G(self) -> Array:
        return self._G[: len(self), : len(self)]

    def enter(self, J: Array) -> None:
        """Add columns J, none of which is in."""
        if not len(J):
            return
        k = len(self)
        if self.given is not None:
            cross = self.given[np.ix_(np.concatenate([self.order, J]), J)]  # (k + m, m)
            self.q = np.concatenate([self.q, self.design.correlate(self.Y, J)])
        else:
            cross = self._cross_sparse(J) if self.design.sparse else self._cross_dense(J)
        self.place[J] = np.arange(k, k + len(J))
        self.order = np.concatenate([self.order, J])
        self._G = _with_room(self._G, len(self), len(self))
        self._G[: len(self), k : len(self)] = cross
        self._G[k : len(self), :k] = cross[:k].T
        self.cuts = (*self.cuts, len(self))

    def replay(self, order: Array, cuts: tuple[int, ...]) -> None:
        """Become what entering `order` in these portions gives."""
        if self.cuts == cuts and np.array_equal(self.order, order):
            return
        self.__init__(self.design, self.Y, self.given)  # type: ignore[misc]
        for a, b in zip((0, *cuts), cuts, strict=False):
            self.enter(order[a:b])

    def residuals(self, W: Array, targets: Array) -> Array:
        """Ỹ_t − X̃_E w for each row of W, (b, k) → (n, b)."""
        R = self.Y[:, targets]
        if len(self):
            R = R - (self._fitted_sparse(W) if self.design.sparse else self._fitted_dense(W))
        return R

    # --- dense ---

    def _cross_dense(self, J: Array) -> Array:
        k, m = len(self), len(J)
        self._rows = _with_room(self._rows, k + m, self.design.shape[0], columns=False)
        new = self.design.take(J)
        if self.design.Q is not None:
            new -= (new @ self.design.Q) @ self.design.Q.T
        self._rows[k : k + m] = new
        cross = np.empty((k + m, m))
        tiles(
            lambda a, b: np.matmul(self._rows[a:b], new.T, out=cross[a:b]), k + m, m * new.shape[1]
        )
        self.q = np.concatenate([self.q, new @ self.Y])
        return cross

    def _fitted_dense(self, W: Array) -> Array:
        used = np.flatnonzero(W.any(axis=0))
        rows = self._rows[: len(self)] if 2 * len(used) > len(self) else self._rows[used]
        W = W if len(rows) == len(self) else W[:, used]
        out = np.empty((len(W), rows.shape[1]))
        step = max(1, -(-rows.shape[1] // 8))
        parts = range(0, rows.shape[1], step)

        def work(task: int) -> None:
            a = parts[task]
            out[:, a : a + step] = W @ rows[:, a : a + step]

        if rows.size < SIDE_BY_SIDE:
            return (W @ rows).T
        run_tasks(work, len(parts))
        return out.T

    # --- sparse ---

    def _cross_sparse(self, J: Array) -> Array:
        design, k, m = self.design, len(self), len(J)
        E = np.concatenate([self.order, J])
        self._sparse = design.X[:, E]
        cross = np.empty((k + m, m))
        numbers = design.shape[0] * (k + m)

        def work(task: int) -> None:
            part = slice(task * CHUNK, (task + 1) * CHUNK)
            cross[:, part] = self._sparse.T @ design.X[:, J[part]].toarray()

        parts = -(-m // CHUNK)
        if numbers <= min(ROOM, FILLED * self._sparse.nnz):
            columns = self._sparse.toarray(order="F")
            np.matmul(columns.T, columns[:, k:], out=cross)
        elif self._sparse.nnz * m < SIDE_BY_SIDE:
            for task in range(parts):
                work(task)
        else:
            run_tasks(work, parts)
        cross -= np.multiply.outer(design.mean[E], design.mean[J])
        if design.Q is not None:
            Z = np.empty((k + m, design.Q.shape[1]))
            Z[:k], Z[k:] = self._Z if k else 0.0, design.correlate(design.Q, J)
            self._Z = Z
            cross -= Z @ Z[k:].T
        self.q = np.concatenate([self.q, design.correlate(self.Y, J)])
        return cross

    def _fitted_sparse(self, W: Array) -> Array:
        fitted = self._sparse @ W.T
        fitted -= np.multiply.outer(
            np.broadcast_to(self.design.scale, len(fitted)), W @ self.design.mean[self.order]
        )
        return self.design.project(fitted)


def tiles(work: Any, count: int, size: int) -> None:
    """work(first, last) for tiles of rows, side by side where the products are many; the cuts do not follow the threads."""
    starts = range(0, count, TILE)
    if count * size < SIDE_BY_SIDE:
        for a in starts:
            work(a, min(a + TILE, count))
    else:
        run_tasks(lambda task: work(starts[task], min(starts[task] + TILE, count)), len(starts))


def form_gram(rows: Array) -> Array:
    """XᵀX of dense rows, (n, d) → (d, d): each product once, tile by tile."""
    n, d = rows.shape
    G = np.empty((d, d))

    def work(a: int, b: int) -> None:
        np.matmul(rows[:, a:b].T, rows[:, a:], out=G[a:b, a:])
        G[b:, a:b] = G[a:b, b:].T

    tiles(work, d, d * n)
    return G


def _with_room(A: Array, rows: int, width: int, columns: bool = True) -> Array:
    """A, copied into an array of at least twice its size if it is too small."""
    if len(A) >= rows:
        return A
    size = rows if not len(A) else max(rows, 2 * len(A))
    larger = np.empty((size, max(width, size) if columns else width))
    larger[: len(A), : A.shape[1]] = A
    return larger
