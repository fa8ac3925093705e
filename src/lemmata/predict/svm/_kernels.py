"""Compiled loops of the support vector machines: SMO within a working set, and the update of Kβ by cached rows.

Their twins in NumPy stand in `_twins.py` and make the same steps in the same order.
"""

from __future__ import annotations

import numpy as np

from lemmata.core.engine import kernel
from lemmata.predict.svm._twins import TAU


@kernel
def solve_into(beta, G, K, lo, hi, tol, budget):
    """SMO on one problem of m variables: (steps made, violation left), as `_twins.solve_into` says."""
    m, n, step = len(beta), len(K), 0
    # the gradients of those that can rise and that can fall, and an infinity for the others
    rising, falling, gain = np.full(m, np.inf), np.full(m, -np.inf), np.empty(m)
    diagonal = np.empty(n)
    for v in range(n):
        diagonal[v] = K[v, v]
    for v in range(m):
        if beta[v] < hi[v]:
            rising[v] = G[v]
        if beta[v] > lo[v]:
            falling[v] = G[v]
    while True:
        # a loop that compares and one that computes: the second is then made of whole lines
        i, least = 0, np.inf
        for v in range(m):
            if rising[v] < least:
                i, least = v, rising[v]
        row, own = K[i % n], diagonal[i % n]
        for start in range(0, m, n):
            stop = start + n
            _gain_into(gain[start:stop], falling[start:stop], row, diagonal, least, own)
        j, best = 0, 0.0
        for v in range(m):
            if gain[v] > best:
                j, best = v, gain[v]
        slope = falling[j] - least
        if not slope > tol or step >= budget:  # the steepest may be another
            violation = 0.0
            for v in range(m):
                violation = max(falling[v] - least, violation)
            if not violation > tol or step >= budget:
                for v in range(m):
                    if lo[v] < hi[v]:
                        G[v] = rising[v] if beta[v] < hi[v] else falling[v]
                return step, violation
        curved = max(np.float64(row[j % n]) * -2.0 + diagonal[j % n] + own, TAU)
        up, down = hi[i] - beta[i], beta[j] - lo[j]
        move = min(slope / curved, min(up, down))
        beta[i] = hi[i] if move == up else beta[i] + move
        beta[j] = lo[j] if move == down else beta[j] - move
        falling[i], rising[j] = rising[i], falling[j]
        if move == up:
            rising[i] = np.inf
        if move == down:
            falling[j] = -np.inf
        for start in range(0, m, n):
            stop = start + n
            _move_into(rising[start:stop], falling[start:stop], row, K[j % n], move)
        step += 1


@kernel
def _gain_into(gain, falling, row, diagonal, least, own):
    """What a step along i and each of these variables gains."""
    for v in range(len(row)):
        slope, curved = falling[v] - least, np.float64(row[v]) * -2.0 + diagonal[v] + own
        slope = slope if slope > 0.0 else 0.0
        curved = curved if curved > TAU else TAU
        gain[v] = slope * slope / curved


@kernel
def _move_into(rising, falling, row, other, move):
    """The gradients after a step along two variables."""
    for v in range(len(row)):
        change = move * (np.float64(row[v]) - np.float64(other[v]))
        rising[v] += change
        falling[v] += change


@kernel
def add_rows_into(field, start, stop, rows, slots, change):
    """field[start:stop] += Σ_k change_k · rows[slots_k, start:stop], float32 rows into a float64 sum."""
    m, k = len(slots), 0
    while k + 4 <= m:  # four rows a pass: field is read and written a quarter as often
        a, b, c, d = rows[slots[k]], rows[slots[k + 1]], rows[slots[k + 2]], rows[slots[k + 3]]
        w, x, y, z = change[k], change[k + 1], change[k + 2], change[k + 3]
        for t in range(start, stop):
            field[t] += (w * a[t] + x * b[t]) + (y * c[t] + z * d[t])
        k += 4
    while k < m:
        a, w = rows[slots[k]], change[k]
        for t in range(start, stop):
            field[t] += w * a[t]
        k += 1


@kernel
def gather_into(out, rows, slots, columns, start, stop):
    """out_ab = out_ba = rows[slots_a, columns_b] for start ≤ a < stop, b ≤ a: K is symmetric, and scattered reads are slow."""
    for a in range(start, stop):
        row = rows[slots[a]]
        for b in range(a + 1):
            out[a, b] = row[columns[b]]
        for b in range(a):
            out[b, a] = out[a, b]
