"""NumPy twins of the loops of seeding and of coresets, for rows so few that nobody should wait for a compiler.

Where the kernels keep of every squared distance only what is below D², the twins keep them all: (m, n) numbers.
"""

from __future__ import annotations

import numpy as np

Array = np.ndarray
PIECE = 2**18  # numbers of rows worked on at once


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
        with np.errstate(over="ignore", invalid="ignore"):  # whoever adds up looks at the sum
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
