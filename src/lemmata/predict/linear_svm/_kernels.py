"""The sweep of dual coordinate ascent, compiled. `_twins` has the same function in NumPy."""

from __future__ import annotations

from lemmata.core.engine import kernel


@kernel
def sweep_into(
    alpha, w, order, count, indptr, indices, values, y, scale, upper, extra, norms, high, low
):
    """One pass over rows order[:count]; writes into alpha, w and order, and returns (rows kept, largest, least gradient).

    αᵢ ← clip(αᵢ − Gᵢ/qᵢ, 0, upperᵢ) with Gᵢ = yᵢ wᵀx̃ᵢ − 1 + extraᵢ αᵢ, the gradient of the negative dual. A row whose α
    stands at a bound and is pushed against it by more than any row was in the pass before (high, low) leaves the order.
    x̃ = (x, scale): the last entry of w belongs to the intercept.
    """
    d = len(w) - 1
    top, bottom = -1e300, 1e300
    place = 0
    while place < count:
        i = order[place]
        g = w[d] * scale
        for at in range(indptr[i], indptr[i + 1]):
            g += values[at] * w[indices[at]]
        g = y[i] * g - 1.0 + extra[i] * alpha[i]
        projected = g
        if alpha[i] <= 0:
            if g > high:
                count -= 1
                order[place], order[count] = order[count], order[place]
                continue
            projected = min(g, 0.0)
        elif alpha[i] >= upper[i]:
            if g < low:
                count -= 1
                order[place], order[count] = order[count], order[place]
                continue
            projected = max(g, 0.0)
        top, bottom = max(top, projected), min(bottom, projected)
        if projected != 0 and norms[i] > 0:
            old = alpha[i]
            alpha[i] = min(max(old - g / norms[i], 0.0), upper[i])
            step = (alpha[i] - old) * y[i]
            for at in range(indptr[i], indptr[i + 1]):
                w[indices[at]] += step * values[at]
            w[d] += step * scale
        place += 1
    return count, top, bottom
