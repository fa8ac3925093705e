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
    curved = np.empty(m)
    diagonal = np.empty(m)
    for v in range(m):
        diagonal[v] = K[v % n, v % n]
    while True:
        i, least, most = 0, np.inf, -np.inf
        for v in range(m):
            if beta[v] < hi[v] and G[v] < least:
                i, least = v, G[v]
            if beta[v] > lo[v] and G[v] > most:
                most = G[v]
        violation = max(most - least, 0.0)
        if not violation > tol or step >= budget:
            return step, violation
        row = K[i % n]
        for start in range(0, m, n):
            for v in range(n):
                here = np.float64(row[v]) * -2.0 + diagonal[v] + diagonal[i]
                curved[start + v] = max(here, TAU)
        j, gain = 0, -np.inf
        for v in range(m):
            slope = G[v] - least
            if slope > 0 and beta[v] > lo[v]:
                here = slope * slope / curved[v]
                if here > gain:
                    j, gain = v, here
        other = K[j % n]
        up, down = hi[i] - beta[i], beta[j] - lo[j]
        move = min((G[j] - least) / curved[j], min(up, down))
        beta[i] = hi[i] if move == up else beta[i] + move
        beta[j] = lo[j] if move == down else beta[j] - move
        for start in range(0, m, n):
            for v in range(n):
                G[start + v] += move * (np.float64(row[v]) - np.float64(other[v]))
        step += 1


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
