"""The twin of `_kernels` in NumPy: the same pass, row by row."""

from __future__ import annotations


def sweep_into(
    alpha, w, order, count, indptr, indices, values, y, scale, upper, extra, norms, high, low
):
    """One pass over rows order[:count]; writes into alpha, w and order, and returns (rows kept, largest, least gradient)."""
    d = len(w) - 1
    top, bottom = -1e300, 1e300
    place = 0
    while place < count:
        i = order[place]
        row = slice(indptr[i], indptr[i + 1])
        columns, entries = indices[row], values[row]
        g = y[i] * (entries @ w[columns] + w[d] * scale) - 1.0 + extra[i] * alpha[i]
        if (alpha[i] <= 0 and g > high) or (0 < alpha[i] >= upper[i] and g < low):
            count -= 1
            order[place], order[count] = order[count], order[place]
            continue
        projected = g
        if alpha[i] <= 0:
            projected = min(g, 0.0)
        elif alpha[i] >= upper[i]:
            projected = max(g, 0.0)
        top, bottom = max(top, projected), min(bottom, projected)
        if projected != 0 and norms[i] > 0:
            old = alpha[i]
            alpha[i] = min(max(old - g / norms[i], 0.0), upper[i])
            step = (alpha[i] - old) * y[i]
            w[columns] += step * entries  # columns of a row are distinct
            w[d] += step * scale
        place += 1
    return count, top, bottom
