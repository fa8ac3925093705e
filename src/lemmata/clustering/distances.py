"""Squared distances of rows to centres, whatever the rows are kept in, with their digits.

    ‖y − p‖² = ‖y‖² + ‖p‖² − 2 p·y       one matrix product, but far from the origin or close to p its digits cancel

so rows are first moved to where they lie around zero (and scaled by a power of two where squares leave the dtype), and what
still cancels is summed directly.

    >>> import numpy as np
    >>> X = 1e8 + np.array([[0.0], [1.0], [3.0]])
    >>> serve_rows(X, X[:1], Coordinates(X[0]))[0]
    array([0., 1., 9.])
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from lemmata.core.blocks import Blocks, is_dask

Array = np.ndarray
# numbers of rows, or of products, worked on at once: they stay in the cache until they are compared
PIECE = 2**18


def exponent_of(reach: float) -> int:
    """The power of two above a size; 0 for no size at all. Kept where 2^±exponent is a float with room to spare."""
    return min(max(math.frexp(reach)[1], -1000), 1000) if reach > 0 else 0


def power(exponent: int, dtype: Any) -> float:
    """2^exponent, or the nearest to it that a float type holds with room to spare."""
    limit = 120 if np.dtype(dtype) == np.float32 else 1000
    return 2.0 ** min(max(exponent, -limit), limit)


def locate(masses: Array, positions: Array) -> Array:
    """Where positions in [0, Σ masses] fall in the row of masses; never at a mass of zero."""
    heights = masses.cumsum()
    found = heights.searchsorted(positions, side="right")
    if len(found) and heights[-1] <= positions.max():  # a position was rounded up to the end
        last = len(masses) - 1 - int(np.argmax(masses[::-1] > 0))
        return np.minimum(found, last)
    return found


def seeding_loops(compiled: bool) -> Any:
    """The loops of seeding: kernels, or their NumPy twins, for which numba is not even imported."""
    if compiled:
        from lemmata.clustering import _kernels_seeding as loops
    else:
        from lemmata.clustering import _twins_seeding as loops  # type: ignore[no-redef]
    return loops


def take_rows(data: Blocks, rows: Any, dense: bool = True) -> Any:
    """Some rows of the data in the given order: an array, or CSR where the data is sparse and `dense` is false."""
    rows = np.asarray(rows, dtype=np.int64)
    if is_dask(data.source):
        found: Any = np.asarray(data.source[rows].compute())
    elif data.source is not None:
        found = data.source[rows]
    else:
        found = _taken_from_stream(data, rows)
    if sp.issparse(found):
        found = sp.csr_array(found).astype(data.dtype)
        return found.toarray() if dense else found
    return np.asarray(found, dtype=data.dtype, order="C")


def _taken_from_stream(data: Blocks, rows: Array) -> Any:
    order, parts, start = np.argsort(rows, kind="stable"), [], 0
    ascending = rows[order]
    for block, _ in data:
        here = ascending[
            np.searchsorted(ascending, start) : np.searchsorted(ascending, start + block.shape[0])
        ]
        if len(here):
            parts.append(block[here - start])
        start += block.shape[0]
    if any(map(sp.issparse, parts)):
        found: Any = sp.vstack([sp.csr_array(part) for part in parts], format="csr")
    else:
        found = np.concatenate(parts)
    return found[np.argsort(order)]


class Columns:
    """Columns that go through the blocks side by side, in the place of weights: arrays with one number per row, or None."""

    def __init__(self, *arrays: Any):
        self.arrays = arrays

    def __getitem__(self, rows: slice) -> tuple:
        return tuple(None if array is None else array[rows] for array in self.arrays)


@dataclass(frozen=True)
class Coordinates:
    """y = (x − origin)·scale: coordinates in which squares neither cancel nor overflow. Sparse rows are not shifted."""

    origin: Array | None  # (d,); None: the rows lie around zero already
    scale: float = 1.0

    def of(self, rows: Any) -> Any:
        if sp.issparse(rows):
            return rows.astype(np.float64) * self.scale
        if self.origin is not None:
            rows = rows - self.origin
        return np.ascontiguousarray(rows if self.scale == 1 else rows * rows.dtype.type(self.scale))

    def place(self, rows: Array) -> Placed:
        """Rows in these coordinates once and for all, where they are few."""
        Y = self.of(rows)
        return Placed(Y, np.einsum("ij,ij->i", Y, Y))

    def pieces(self, rows: Any, centers: Array) -> Iterator[tuple[slice, tuple]]:
        """Pieces of some rows, each with what the kernels make distances to centres of: G, ‖y‖², ‖p‖², Y, P, cancelled.

        A product errs by a few eps·(‖y‖² + ‖p‖²). What has cancelled to less than eps^¼ of that is summed again, so that
        three quarters of the digits are left of every distance, and a row has distance 0 to itself.
        """
        P = self.of(sp.csr_array(centers)).toarray() if sp.issparse(rows) else self.of(centers)
        lengths = np.einsum("ij,ij->i", P, P)
        if isinstance(rows, Placed):
            yield slice(0, len(rows.squares)), rows.beside(P, lengths)
            return
        # both Y and the product
        step = max(64, PIECE // max(0 if sp.issparse(rows) else rows.shape[1], len(P)))
        for start in range(0, rows.shape[0], step):
            here = slice(start, min(start + step, rows.shape[0]))
            Y = self.of(rows[here])
            if sp.issparse(Y):
                yield here, _sparse_pieces(Y, P, lengths)
            else:
                yield here, Placed(Y, np.einsum("ij,ij->i", Y, Y)).beside(P, lengths)


@dataclass(frozen=True)
class Placed:
    """Dense rows in their coordinates, with their squares."""

    Y: Array  # (n, d)
    squares: Array  # (n,)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.Y.shape

    @property
    def dtype(self) -> Any:
        return self.Y.dtype

    def among(self, rows: Array) -> tuple:
        """What distances to some of the rows are made of."""
        return self.beside(self.Y[rows], self.squares[rows])

    def beside(self, P: Array, lengths: Array) -> tuple:
        """What distances to centres P are made of."""
        cancelled = self.dtype.type(np.finfo(self.dtype).eps ** 0.25)
        return P @ self.Y.T, self.squares, lengths, self.Y, P, cancelled


def _sparse_pieces(Y, P, lengths) -> tuple:
    """The same for sparse rows. What cancelled is summed again here, since the kernels do not know sparse rows."""
    squares = np.asarray(Y.multiply(Y).sum(axis=1)).ravel()
    G = np.ascontiguousarray(np.asarray(Y @ P.T).T)
    size = squares + lengths[:, None]
    p, i = np.nonzero(size - 2 * G < np.finfo(np.float64).eps ** 0.25 * size)
    for some in np.array_split(np.arange(len(p)), -(-len(p) // 1024) or 1):
        difference = Y[i[some]] - sp.csr_array(P[p[some]])
        G[p[some], i[some]] = -0.5 * np.asarray(difference.multiply(difference).sum(axis=1)).ravel()
        size[p[some], i[some]] = 0
    # −½ of the squared distances: to the kernels, rows and centres at zero that never cancel
    G -= size / 2
    nothing = np.empty((0, 1))
    return G, np.zeros(len(squares)), np.zeros(len(P)), nothing, nothing, -1.0


def serve_rows(
    rows: Any,
    centers: Array,
    frame: Coordinates,
    before: tuple[Array, Array] | None = None,
    first: int = 0,
    compiled: bool = False,
) -> tuple[Array, Array]:
    """D², in the units of the frame, and the nearest centre of each row once more centres are there, numbered from `first`.

    `before` is the same pair as it was without them.
    """
    loops = seeding_loops(compiled)
    n = rows.shape[0]
    if before is None:
        D, nearest = np.full(n, np.inf, rows.dtype), np.zeros(n, np.int32)
    else:
        D, nearest = before[0].copy(), before[1].copy()
    for here, distances in frame.pieces(rows, centers):
        loops.serve_into(D[here], nearest[here], first, distances)
    return D, nearest
