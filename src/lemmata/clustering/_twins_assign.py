"""NumPy twins of the kernels of assignment, for rows so few that nobody should wait for a compiler.

    scores    S = X̂Ĉᵀ − ½‖ĉ‖²               label_i = argmax_j S_ij, the lowest number where several are the best
    squares   ‖x̂ − ĉ‖² = ‖x̂‖² − 2 max_j S_ij   summed from differences where this has lost digits
    sums      Σ w x = OᵀX                     O (n × k): in the row of x its weight, in the column of its label

Two matrix products and a few sweeps over n × k numbers. What no centre can change, x̂ and ‖x̂‖², is made once (`Framed`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

Array = np.ndarray
CANCELLED = 0.125  # of ‖x̂‖²: a smaller square is summed from differences, so that products cost three bits at most
PIECE = 2**18  # scores, or numbers of rows, worked on at once


@dataclass(frozen=True)
class Framed:
    """Rows in float64, the same as x̂ = (x − origin)·scale in the dtype of the data, and ‖x̂‖². Sparse rows are not shifted."""

    rows: Any  # (n, d) dense or CSR
    hats: Any
    squares: Array  # (n,) float64

    @classmethod
    def of(cls, rows: Any, origin: Array, scale: Any) -> Framed:
        if sp.issparse(rows):
            wide = sp.csr_array(rows).astype(np.float64)
            hats = wide * float(scale)
            return cls(wide, hats, np.asarray(hats.multiply(hats).sum(axis=1)).ravel())
        with np.errstate(over="ignore"):  # a row that far away costs more than any float
            hats = (rows - origin) * scale
            squares = np.einsum("ij,ij->i", hats, hats, dtype=np.float64)
        return cls(np.asarray(rows, np.float64), hats, squares)

    def __getitem__(self, some: slice) -> Framed:
        return Framed(self.rows[some], self.hats[some], self.squares[some])


def assign_rows_into(
    labels: Array, counts: Array, sums: Array, far: Array, farthest: Array,
    framed: Framed, weights: Array | None, centers: Array, hats: Array, starts: Array, scale: float,
) -> tuple[float, int]:  # fmt: skip
    """Assign every row to its nearest centre and add up. Returns (cost · scale², rows whose label is not what it was).

    hats, starts: ĉ and −½‖ĉ‖² (−∞, with ĉ = 0, for a centre that is nobody's nearest). The rest as in the kernel.
    """
    n, d, k = len(labels), sums.shape[1], len(counts)
    step = max(64, PIECE // max(d, k))
    cost, moved = 0.0, 0
    for start in range(0, n, step):
        here = slice(start, min(start + step, n))
        some = framed if n <= step else framed[here]
        w = None if weights is None else weights[here]
        found, best = _best_centers(some.hats, hats, starts)
        squares = some.squares - 2 * best
        _sum_again(squares, some, centers, found, scale)
        moved += int(np.count_nonzero(labels[here] != found))
        labels[here] = found
        cost += float(squares.sum() if w is None else w @ squares)
        _add_up_into(counts, sums, some.rows, w, found)
        _remember_worst(far, farthest, squares, w, found, start)
    return cost, moved


def _best_centers(rows: Any, hats: Array, starts: Array) -> tuple[Array, Array]:
    """The label of each row and its score."""
    S = np.asarray(rows @ hats.T)
    S += starts
    found = S.argmax(axis=1)
    return found, S[np.arange(len(S)), found].astype(np.float64, copy=False)


def _sum_again(squares: Array, some: Framed, centers: Array, found: Array, scale: float) -> None:
    """The squares of rows close to their centres, from differences."""
    close = np.flatnonzero(squares < CANCELLED * some.squares)
    step = max(64, PIECE // centers.shape[1])
    for start in range(0, len(close), step):
        rows = close[start : start + step]
        own: Any = some.rows[rows]
        own = own.toarray() if sp.issparse(own) else own
        differences = (own - centers[found[rows]]) * scale
        squares[rows] = np.einsum("ij,ij->i", differences, differences)


def _add_up_into(counts: Array, sums: Array, rows: Any, w: Array | None, found: Array) -> None:
    """Weights and sums of the clusters, in float64."""
    members = np.zeros((len(found), len(counts)))
    members[np.arange(len(found)), found] = 1.0 if w is None else w
    counts += np.bincount(found, w, len(counts))
    sums += (rows.T @ members).T if sp.issparse(rows) else members.T @ rows


def _remember_worst(
    far: Array, farthest: Array, squares: Array, w: Array | None, found: Array, first: int
) -> None:
    """The largest square of each cluster and its first row; rows without weight do not count."""
    if w is not None:
        squares = np.where(w > 0, squares, -1.0)
    before = far.copy()
    np.maximum.at(far, found, squares)
    worst = np.flatnonzero((squares == far[found]) & (far > before)[found])[::-1]
    farthest[found[worst]] = first + worst  # the first is written last


# --- how far rows spread ----------------------------------------------------------------------------------------------


def column_sums_into(sums: Array, X: Array, weights: Array) -> None:
    """sums = Σ w x, (d,). An empty vector of weights stands for ones."""
    with np.errstate(over="ignore", invalid="ignore"):
        sums[:] = weights @ X if len(weights) else X.sum(axis=0, dtype=np.float64)


def largest_difference(X: Array, mean: Array) -> float:
    """max |x − mean|."""
    return float(np.abs(X - mean).max(initial=0.0))


def column_squares_into(
    squares: Array, X: Array, weights: Array, mean: Array, scale: float
) -> None:
    """squares = Σ w ((x − mean)·scale)², (d,)."""
    differences = (X - mean) * scale
    differences *= differences
    squares[:] = weights @ differences if len(weights) else differences.sum(axis=0)
