"""NumPy twins of the kernels of assignment, for rows so few that nobody should wait for a compiler.

    scores    S = ĈX̂ᵀ − ½‖ĉ‖²               label_i = argmax_j S_ji, the lowest number where several are the best
    squares   ‖x̂ − ĉ‖² = ‖x̂‖² − 2 max_j S_ji   summed from differences where this has lost digits
    sums      Σ w x = OᵀX                     O (n × k): in the row of x its weight, in the column of its label

Two matrix products and a few sweeps over n × k numbers. What no centre can change, x̂ and ‖x̂‖², is made once (`Framed`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from lemmata.clustering.distances import exponent_of

Array = np.ndarray
CANCELLED = 0.125  # of ‖x̂‖²: a smaller square is summed from differences, so that products cost three bits at most
PIECE = 2**18  # scores, or numbers of rows, worked on at once
SMALL_INTEGERS = 127  # the largest int8
SHORT = 2**12  # numbers below which one call takes less time than several quick ones


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
            hats = rows - origin
            hats *= scale
            squares = np.einsum("ij,ij->i", hats, hats, dtype=np.float64)
        return cls(np.asarray(rows, np.float64), hats, squares)

    def __getitem__(self, some: slice) -> Framed:
        return Framed(self.rows[some], self.hats[some], self.squares[some])


def nearest_centers(
    framed: Framed, centers: Array, hats: Array, starts: Array, scale: float
) -> tuple[Array, Array]:
    """The label of every row and ‖x̂ − ĉ‖² to that centre.

    hats, starts: ĉ and −½‖ĉ‖² (−∞, with ĉ = 0, for a centre that is nobody's nearest).
    """
    n, step = len(framed.squares), max(64, PIECE // max(centers.shape))
    if n > step:
        parts = [
            nearest_centers(framed[i : i + step], centers, hats, starts, scale)
            for i in range(0, n, step)
        ]
        return np.concatenate([one for one, _ in parts]), np.concatenate([two for _, two in parts])
    # (k, n): comparing long rows with each other is several times as quick as looking along short ones
    S = hats @ framed.hats.T if isinstance(framed.hats, np.ndarray) else (framed.hats @ hats.T).T
    S += starts[:, None]
    best = S.max(axis=0)
    found = _first_equal(S, best)
    squares = best.astype(np.float64, copy=False)
    squares *= -2
    squares += framed.squares
    close = (squares < CANCELLED * framed.squares).nonzero()[0]
    if len(close):
        squares[close] = _summed_squares(framed.rows[close], centers[found[close]], scale)
    return found, squares


def _first_equal(S: Array, best: Array) -> Array:
    """The first line j of each column i with S_ji = best_i, int32: what argmax gives, by long comparisons."""
    k = len(S)
    if S.size <= SHORT or k > SMALL_INTEGERS or np.isnan(best.min(initial=0.0)):
        return S.argmax(axis=0).astype(np.int32)
    places = np.arange(k, 0, -1, dtype=np.int8)[:, None]  # the first line has the largest
    return k - ((best == S) * places).max(axis=0).astype(np.int32)


def _summed_squares(rows: Any, centers: Array, scale: float) -> Array:
    differences = ((rows if isinstance(rows, np.ndarray) else rows.toarray()) - centers) * scale
    return np.vecdot(differences, differences)


def add_up(rows: Any, weights: Array | None, labels: Array, k: int) -> Array:
    """Σ w x of every cluster, (k, d) in float64."""
    n, step = len(labels), max(64, PIECE // k)
    if n > step:
        w = weights
        cuts = [slice(i, i + step) for i in range(0, n, step)]
        return sum(
            (add_up(rows[c], None if w is None else w[c], labels[c], k) for c in cuts),
            np.zeros((k, rows.shape[1])),
        )
    members = np.zeros((n, k))
    members[np.arange(n), labels] = 1.0 if weights is None else weights
    return members.T @ rows if isinstance(rows, np.ndarray) else (rows.T @ members).T


def move_rows(
    sums: Array, rows: Any, weights: Array | None, old: Array, new: Array, changed: Array
) -> Array:
    """The same from sums before: some rows changed their labels from `old` to `new`."""
    old, new, moving = old[changed], new[changed], np.arange(len(changed))
    w = 1.0 if weights is None else weights[changed]
    steps = np.zeros((len(changed), len(sums)))
    steps[moving, new] = w
    steps[moving, old] -= w
    rows = rows[changed]
    return sums + ((rows.T @ steps).T if sp.issparse(rows) else steps.T @ rows)


def worst_rows(squares: Array, weights: Array | None, labels: Array, k: int) -> tuple[Array, Array]:
    """The largest square of each cluster (−1: it has no row with weight), and the first row that has it."""
    far, farthest = np.full(k, -1.0), np.zeros(k, np.int64)
    if weights is not None:
        squares = np.where(weights > 0, squares, -1.0)
    np.maximum.at(far, labels, squares)
    worst = ((squares == far[labels]) & (squares >= 0)).nonzero()[0][::-1]
    farthest[labels[worst]] = worst  # the first is written last
    return far, farthest


# --- how far rows spread ----------------------------------------------------------------------------------------------


def column_spread(X: Array, weights: Array) -> tuple[float, Array, Array, int]:
    """Σ w, the means, Σ w (x − mean)² in units of 4^exponent, and the exponent: 2^exponent exceeds every |x − mean|.

    An empty vector of weights stands for ones. Rows that are not finite have a mean, or a total, that is not.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        total = float(weights.sum()) if len(weights) else float(len(X))
        mean = weights @ X if len(weights) else X.sum(axis=0, dtype=np.float64)
        mean = mean / total if total > 0 else X[0].astype(np.float64)
    if not np.isfinite(mean).all():
        return total, mean, mean, 0
    differences = X - mean
    exponent = exponent_of(float(max(differences.max(), -differences.min())))
    differences *= 2.0**-exponent
    differences *= differences
    squares = weights @ differences if len(weights) else differences.sum(axis=0)
    return total, mean, squares, exponent
