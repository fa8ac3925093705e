"""The loops of the support vector machines in NumPy: for small data, and to compare the compiled ones with."""

from __future__ import annotations

import numpy as np

Array = np.ndarray
# a curvature below it counts as this: copies of a row, or a kernel that is not positive semidefinite
TAU = 1e-12
REMEMBERED = 2**20  # numbers of rows that came before


def solve_into(
    beta: Array, G: Array, K: Array, lo: Array, hi: Array, tol: float, budget: int
) -> tuple[int, float]:
    """SMO on one problem of m variables, at most `budget` steps: (steps made, violation left).

    minimise ½ βᵀKβ + cᵀβ over lo ≤ β ≤ hi with Σβ fixed. A step raises β_i and lowers β_j by as much: i has the least
    gradient of those that can rise, j the largest gain (G_j − G_i)²/(K_ii + K_jj − 2K_ij) of those that can fall
    (second-order selection). It ends where no G_j that can fall exceeds a G_i that can rise by more than tol.

    beta, G, lo, hi : (m,); K : (n, n), m = n or 2n: variable v is of row v mod n. β and its gradient G = Kβ + c are changed in
    place, to the same bits by the compiled loop.
    """
    diagonal = _of_variables(K.diagonal().astype(np.float64), len(beta))
    # the gradients of those that can rise and that can fall, and an infinity that leaves no doubt for the others
    rising, falling = np.where(beta < hi, G, np.inf), np.where(beta > lo, G, -np.inf)
    slope, gain = np.empty_like(G), np.empty_like(G)
    # a number of Python's is quicker than one of an array, and the same rows come again and again
    b, low, high = beta.tolist(), lo.tolist(), hi.tolist()
    known: dict[int, tuple[Array, Array]] = {}
    step = 0
    while True:
        i = int(rising.argmin())
        least = rising.item(i)
        row, curved = known.get(i) or _remember(known, K, diagonal, i)
        np.subtract(falling, least, slope)
        np.maximum(slope, 0.0, out=slope)
        np.multiply(slope, slope, gain)
        np.divide(gain, curved, gain)
        j = int(gain.argmax())
        uphill = slope.item(j)
        if not uphill > tol or step >= budget:  # the steepest may be another
            violation = max(float(slope.max()), 0.0)
            if not violation > tol or step >= budget:
                beta[:] = b
                np.copyto(G, np.where(beta < hi, rising, falling), where=lo < hi)
                return step, violation
        up, down = high[i] - b[i], b[j] - low[j]
        move = min(uphill / curved.item(j), up, down)
        other = falling.item(j)
        np.subtract(row, (known.get(j) or _remember(known, K, diagonal, j))[0], gain)
        np.multiply(gain, move, gain)
        rising += gain
        falling += gain
        b[i] = high[i] if move == up else b[i] + move
        b[j] = low[j] if move == down else b[j] - move
        least, other = least + gain.item(i), other + gain.item(j)
        falling[i], rising[i] = least, np.inf if move == up else least
        rising[j], falling[j] = other, -np.inf if move == down else other
        step += 1


def _remember(known: dict, K: Array, diagonal: Array, i: int) -> tuple[Array, Array]:
    """Row i of K in float64, and K_ii + K_vv − 2K_iv of every v."""
    row = _of_variables(K[i % len(K)].astype(np.float64), len(diagonal))
    curved = row * -2.0
    curved += diagonal
    curved += diagonal[i]
    if len(known) * len(row) > REMEMBERED:
        known.clear()
    known[i] = found = row, np.maximum(curved, TAU, out=curved)
    return found


def _of_variables(values: Array, m: int) -> Array:
    """Numbers of n rows as those of m = n or 2n variables."""
    return values if len(values) == m else np.concatenate([values, values])


def add_rows_into(
    field: Array, start: int, stop: int, rows: Array, slots: Array, change: Array
) -> None:
    """field[start:stop] += Σ_k change_k · rows[slots_k, start:stop], float32 rows into a float64 sum."""
    field[start:stop] += change @ rows[slots, start:stop].astype(np.float64)


def gather_into(
    out: Array, rows: Array, slots: Array, columns: Array, start: int, stop: int
) -> None:
    """out_ab = out_ba = rows[slots_a, columns_b] for start ≤ a < stop, b ≤ a."""
    for a in range(start, stop):
        out[a, : a + 1] = out[: a + 1, a] = rows[slots[a], columns[: a + 1]]
