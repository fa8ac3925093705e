"""Loops of seeding over products G = P Yᵀ (m × n) of m proposed centres with n rows.

    ‖y_i − p‖² = ‖y_i‖² + ‖p‖² − 2 p·y_i,       summed directly where this difference has lost its digits

keep_gains_into     of the squared distances, only those below the D² that a row has now
append_into         what was kept of one piece of rows after the other, put together
gains_of            Σ w (D² − g)₊ over what was kept: how much of the potential a proposal removes
lower_into          D² = min(D², g) for the proposal that was chosen
serve_into          D² = min(D², g) for all proposals, and whose it is
"""

from __future__ import annotations

import numpy as np

from lemmata.core.engine import kernel

STRIDE = 32  # products looked at together: nearly all are too small to matter, so most strides end with one comparison


@kernel(fastmath={"reassoc", "contract", "nsz"})
def _squared_distance(x, y):
    total = x[0] - x[0]
    for j in range(x.shape[0]):
        total += (x[j] - y[j]) ** 2
    return total


@kernel
def _distance(product, square, length, y, p, cancelled):
    """‖y − p‖² from p·y; below `cancelled`·(‖y‖² + ‖p‖²) it is summed directly."""
    size = square + length
    g = size - (product + product)
    return _squared_distance(y, p) if g < cancelled * size else g


@kernel
def _threshold(square, D, cancelled):
    """p·y − threshold > ½(1 − cancelled)‖p‖² wherever the distance is below D or has cancelled."""
    return min(square - D, square - cancelled * square) * type(square)(0.5)


@kernel
def _above(products, thresholds, level):
    """Number of products that matter. A count, because LLVM vectorises it and does not vectorise a search."""
    count = np.int32(0)
    for i in range(products.shape[0]):
        count += np.int32(products[i] - thresholds[i] > level)
    return count


@kernel
def keep_gains_into(starts, rows, values, D, first, distances):
    """One proposal after the other: the squared distances below D into `values`, their rows, counted from `first`, into `rows`.

    Those of proposal p are the entries starts[p] … starts[p + 1] − 1.
    """
    G, squares, lengths, Y, P, cancelled = distances
    n, kept = G.shape[1], 0
    thresholds = np.empty_like(squares)
    for i in range(n):
        thresholds[i] = _threshold(squares[i], D[i], cancelled)
    starts[0] = 0
    for p in range(G.shape[0]):
        level = _threshold(lengths[p], lengths[p] - lengths[p], cancelled)
        for start in range(0, n, STRIDE):
            stop = min(start + STRIDE, n)
            if _above(G[p, start:stop], thresholds[start:stop], level) > 0:
                for i in range(start, stop):
                    if not G[p, i] - thresholds[i] > level:
                        continue
                    g = _distance(G[p, i], squares[i], lengths[p], Y[i], P[p], cancelled)
                    if g < D[i]:
                        values[kept] = g
                        rows[kept] = first + i
                        kept += 1
        starts[p + 1] = kept


@kernel
def append_into(rows, values, ends, starts, more_rows, more_values):
    """Move the entries of a piece of rows to the ends of the lines they belong to, which move on."""
    for p in range(ends.shape[0]):
        for e in range(starts[p], starts[p + 1]):
            rows[ends[p]] = more_rows[e]
            values[ends[p]] = more_values[e]
            ends[p] += 1


@kernel
def serve_into(D, nearest, first, distances):
    """D = min(D, ‖y − p‖²) over all p, and in `nearest` the number first + p of the centre it belongs to."""
    G, squares, lengths, Y, P, cancelled = distances
    n = G.shape[1]
    thresholds = np.empty_like(squares)
    for i in range(n):
        thresholds[i] = _threshold(squares[i], D[i], cancelled)
    for p in range(G.shape[0]):
        level = _threshold(lengths[p], lengths[p] - lengths[p], cancelled)
        for start in range(0, n, STRIDE):
            stop = min(start + STRIDE, n)
            if _above(G[p, start:stop], thresholds[start:stop], level) > 0:
                for i in range(start, stop):
                    if not G[p, i] - thresholds[i] > level:
                        continue
                    g = _distance(G[p, i], squares[i], lengths[p], Y[i], P[p], cancelled)
                    if g < D[i]:
                        D[i] = g
                        nearest[i] = first + p
                        thresholds[i] = _threshold(squares[i], D[i], cancelled)


@kernel
def gains_of(out, starts, rows, values, D, weights, lines):
    """Add Σ w (D − g)₊ of some lines to `out`; an empty vector of weights stands for ones."""
    for c in range(lines.shape[0]):
        total = 0.0
        for e in range(starts[lines[c]], starts[lines[c] + 1]):
            i = rows[e]
            gain = np.float64(D[i]) - np.float64(values[e])
            if gain > 0:
                total += gain * weights[i] if weights.shape[0] > 0 else gain
        out[c] += total


@kernel
def lower_into(D, rows, values):
    """D = min(D, g) at the kept entries of one line."""
    for e in range(rows.shape[0]):
        if values[e] < D[rows[e]]:
            D[rows[e]] = values[e]


# --- coresets ---------------------------------------------------------------------------------------------------------


@kernel(fastmath={"reassoc", "contract", "nsz"})
def _summed_wide(x, center):
    """‖x − center‖² in float64."""
    total = 0.0
    for j in range(x.shape[0]):
        difference = np.float64(x[j]) - center[j]
        total += difference * difference
    return total


@kernel
def spread_into(mean, X, weights, piece):
    """The total weight and Σ w ‖x − mean‖² of rows, their mean into `mean`; an empty vector of weights stands for ones.

    Pieces of rows are centred while they are in the cache and added as sums of any two parts are.
    """
    n, d = X.shape
    weight, total = 0.0, 0.0
    own = np.empty(d)
    mean[:] = 0.0
    for start in range(0, n, piece):
        stop = min(start + piece, n)
        here, inside, between = 0.0, 0.0, 0.0
        own[:] = 0.0
        for i in range(start, stop):
            w = weights[i] if weights.shape[0] > 0 else 1.0
            here += w
            for j in range(d):
                own[j] += w * X[i, j]
        if here == 0:
            continue
        own /= here
        for i in range(start, stop):
            w = weights[i] if weights.shape[0] > 0 else 1.0
            inside += w * _summed_wide(X[i], own)
        share = here / (weight + here)
        for j in range(d):
            step = own[j] - mean[j]
            mean[j] += step * share
            between += step * step
        total += inside + between * (weight * share)
        weight += here
    return weight, total


@kernel
def squared_distances_into(out, X, center):
    """‖x_i − center‖² in float64."""
    for i in range(X.shape[0]):
        out[i] = _summed_wide(X[i], center)
