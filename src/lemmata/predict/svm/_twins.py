"""The loops of the support vector machines in NumPy: for small data, and as what the compiled ones are compared with.

A step of SMO costs NumPy the same for three machines as for one, so all machines of a one-vs-one fit step side by side.
"""

from __future__ import annotations

import numpy as np

Array = np.ndarray
# a curvature below it counts as this: copies of a row, or a kernel that is not positive semidefinite
TAU = 1e-12


def solve_into(
    beta: Array, G: Array, K: Array, lo: Array, hi: Array, tol: Array, budget: Array
) -> tuple[Array, Array]:
    """SMO on each of P problems of m variables: (steps made, violation left) of each.

    minimise ½ βᵀKβ + cᵀβ over lo ≤ β ≤ hi with Σβ fixed. A step raises β_i and lowers β_j by as much: i has the least
    gradient of those that can rise, j the largest gain (G_j − G_i)²/(K_ii + K_jj − 2K_ij) of those that can fall
    (second-order selection). It ends where no G_j that can fall exceeds a G_i that can rise by more than tol.

    beta, G, lo, hi : (P, m); K : (P, m, m); tol, budget : (P,). β and its gradient G = Kβ + c are changed in place.
    Variables with lo = hi = β stay, so shorter problems are filled up with them.
    """
    P = len(beta)
    steps, violations = np.zeros(P, np.int64), np.zeros(P)
    live = np.arange(P)
    whole = beta, G, K, lo, hi, tol, budget
    diagonal = np.ascontiguousarray(np.diagonal(K, axis1=1, axis2=2), dtype=np.float64)
    b, g, k, low, high, limit, most, diag = *whole, diagonal
    with np.errstate(invalid="ignore"):
        while True:
            here = np.arange(len(live))
            rising = np.where(b < high, g, np.inf)
            falling = np.where(b > low, g, -np.inf)
            i = rising.argmin(axis=1)
            least = rising[here, i]
            violation = np.maximum(falling.max(axis=1) - least, 0.0)
            going = (violation > limit) & (steps[live] < most)
            if not going.all():
                violations[live[~going]] = violation[~going]
                if b is not beta:
                    beta[live[~going]], G[live[~going]] = b[~going], g[~going]
                if not going.any():
                    return steps, violations
                live = live[going]
                b, g, low, high, diag = (x[going] for x in (b, g, low, high, diag))
                limit, most = limit[going], most[going]
                falling, i, least = falling[going], i[going], least[going]
                k, here = K[live], np.arange(len(live))
            row = k[here, i].astype(np.float64, copy=False)
            curved = np.maximum(diag[here, i][:, None] + diag - 2 * row, TAU)
            slope = falling - least[:, None]
            j = np.where(slope > 0, slope * slope / curved, -np.inf).argmax(axis=1)
            up, down = high[here, i] - b[here, i], b[here, j] - low[here, j]
            move = np.minimum(slope[here, j] / curved[here, j], np.minimum(up, down))
            b[here, i] = np.where(move == up, high[here, i], b[here, i] + move)
            b[here, j] = np.where(move == down, low[here, j], b[here, j] - move)
            g += move[:, None] * (row - k[here, j])
            steps[live] += 1


def add_rows_into(
    field: Array, start: int, stop: int, rows: Array, slots: Array, change: Array
) -> None:
    """field[start:stop] += Σ_k change_k · rows[slots_k, start:stop], float32 rows into a float64 sum."""
    field[start:stop] += change @ rows[slots, start:stop].astype(np.float64)


def gather_into(out: Array, rows: Array, slots: Array, columns: Array) -> None:
    """out_ab = rows[slots_a, columns_b] for b ≤ a, and the same above the diagonal."""
    out[...] = np.tril(rows[slots[:, None], columns])
    out += np.tril(out, -1).T
