"""The loops of the support vector machines in NumPy: for small data, and as what the compiled ones are compared with."""

from __future__ import annotations

import numpy as np

Array = np.ndarray
# a curvature below it counts as this: copies of a row, or a kernel that is not positive semidefinite
TAU = 1e-12
largest = np.maximum.reduce


def solve_into(
    beta: Array, G: Array, K: Array, lo: Array, hi: Array, tol: float, budget: int
) -> tuple[int, float]:
    """SMO on one problem of m variables, at most `budget` steps: (steps made, violation left).

    minimise ½ βᵀKβ + cᵀβ over lo ≤ β ≤ hi with Σβ fixed. A step raises β_i and lowers β_j by as much: i has the least
    gradient of those that can rise, j the largest gain (G_j − G_i)²/(K_ii + K_jj − 2K_ij) of those that can fall
    (second-order selection). It ends where no G_j that can fall exceeds a G_i that can rise by more than tol.

    beta, G, lo, hi : (m,); K : (m, m). β and its gradient G = Kβ + c are changed in place.
    """
    diagonal = K.diagonal().astype(np.float64)
    # the gradients of those that can rise and that can fall, and an infinity that leaves no doubt for the others
    rising, falling = np.where(beta < hi, G, np.inf), np.where(beta > lo, G, -np.inf)
    slope, curved, gain = np.empty_like(G), np.empty_like(G), np.empty_like(G)
    step = 0
    while True:
        i = rising.argmin()
        least = rising[i]
        np.subtract(falling, least, slope)
        violation = max(float(largest(slope)), 0.0)
        if not violation > tol or step >= budget:
            np.copyto(G, np.where(beta < hi, rising, falling), where=lo < hi)
            return step, violation
        row = K[i]
        np.multiply(row, -2.0, curved, dtype=np.float64)
        curved += diagonal
        curved += diagonal[i]
        np.maximum(curved, TAU, out=curved)
        np.maximum(slope, 0.0, out=slope)
        np.multiply(slope, slope, gain)
        gain /= curved
        j = gain.argmax()
        up, down = hi[i] - beta[i], beta[j] - lo[j]
        move = min(slope[j] / curved[j], up, down)
        other = falling[j]
        np.subtract(row, K[j], curved, dtype=np.float64)
        curved *= move
        rising += curved
        falling += curved
        beta[i] = hi[i] if move == up else beta[i] + move
        beta[j] = lo[j] if move == down else beta[j] - move
        least, other = least + curved[i], other + curved[j]
        falling[i], rising[i] = least, np.inf if move == up else least
        rising[j], falling[j] = other, -np.inf if move == down else other
        step += 1


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
