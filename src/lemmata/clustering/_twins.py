"""NumPy twins of the kernels, for rows so few that a compiler would take longer than the work.

    scores    S = ĈX̂ᵀ − ½‖ĉ‖²               label_i = argmax_j S_ji, the lowest number where several are the best
    squares   ‖x̂ − ĉ‖² = ‖x̂‖² − 2 max_j S_ji   summed from differences where this has lost digits
    sums      Σ w x = OᵀX                     O (n × k): in the row of x its weight, in the column of its label

Two matrix products and a few sweeps over n × k numbers. What no centre can change, x̂ and ‖x̂‖², is made once (`FramedRows`).
Where the kernels of seeding keep of every squared distance only what is below D², the twins keep them all: (m, n) numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

if TYPE_CHECKING:
    from lemmata.clustering.frames import FramedRows

Array = np.ndarray
CANCELLED = 0.125  # of ‖x̂‖²: a smaller square is summed from differences, so that products cost three bits at most
PIECE = 2**18  # scores, or numbers of rows, worked on at once
SMALL_INTEGERS = 127  # the largest int8
SHORT = 2**12  # numbers below which one call takes less time than several quick ones


# --- assignment -------------------------------------------------------------------------------------------------------


def nearest_centers(
    framed: FramedRows, centers: Array, hats: Array, starts: Array, scale: float
) -> tuple[Array, Array]:
    """Return the label of every row and ‖x̂ − ĉ‖² to that centre.

    hats, starts: ĉ and −½‖ĉ‖² (−∞, with ĉ = 0, for a centre that is nearest to no row).
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


# --- seeding ----------------------------------------------------------------------------------------------------------


def squared_distances(distances: tuple) -> Array:
    """‖y_i − p‖² of m proposals and n rows, (m, n), from their products; summed directly where these have lost digits."""
    G, squares, lengths, Y, P, cancelled = distances
    g = squares - 2 * G
    g += lengths[:, None]
    p, i = np.nonzero(g < cancelled * squares + cancelled * lengths[:, None])
    step = max(64, PIECE // Y.shape[1])
    for some in (slice(start, start + step) for start in range(0, len(p), step)):
        differences = Y[i[some]] - P[p[some]]
        g[p[some], i[some]] = np.einsum("ij,ij->i", differences, differences)
    return g


def serve_into(D: Array, nearest: Array, first: int, distances: tuple) -> None:
    """D = min(D, ‖y − p‖²) over all p, and in `nearest` the number first + p of the centre it belongs to."""
    g = squared_distances(distances)
    best = g.argmin(axis=0)
    least = g[best, np.arange(len(D))]
    better = least < D
    D[better] = least[better]
    nearest[better] = first + best[better]


# --- coresets ---------------------------------------------------------------------------------------------------------


def spread_into(mean: Array, X: Array, weights: Array, piece: int) -> tuple[float, float]:
    """The total weight and Σ w ‖x − mean‖² of rows, their mean into `mean`; an empty vector of weights stands for ones."""
    weight, total = 0.0, 0.0
    mean[:] = 0.0
    for start in range(0, X.shape[0], piece):
        rows = X[start : start + piece].astype(np.float64, copy=False)
        w = weights[start : start + piece] if len(weights) else np.ones(len(rows))
        here = float(w.sum())
        if here == 0:
            continue
        with np.errstate(over="ignore", invalid="ignore"):  # the sum is checked where it is used
            own = w @ rows / here
            differences = rows - own
            inside = float(w @ np.einsum("ij,ij->i", differences, differences))
            share, step = here / (weight + here), own - mean
            mean += step * share
            total += inside + float(step @ step) * (weight * share)
        weight += here
    return weight, total


def squared_distances_into(out: Array, X: Array, center: Array) -> None:
    """‖x_i − center‖² in float64."""
    step = max(64, PIECE // X.shape[1])
    for start in range(0, X.shape[0], step):
        differences = X[start : start + step] - center
        out[start : start + step] = np.einsum("ij,ij->i", differences, differences)
