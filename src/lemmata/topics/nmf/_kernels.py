"""Sweeps of HALS over the rows of a factor, compiled. The NumPy twin is in _twins.py.

Rows are independent of each other, so a cache line holds one co-ordinate of 16 (float32) or 8 rows: k lines are 16 rows, which
stay in the nearest cache for all sweeps, and a co-ordinate step is k multiply-adds of lines, in four sums that do not wait for
each other.
"""

from __future__ import annotations

import numpy as np

from lemmata.core.engine import kernel, run_tasks
from lemmata.linalg.simd import add, axpy, empty_lines, load, store, where_larger, zero

Array = np.ndarray
TASKS = 8  # ranges of rows: enough for eight cores
ALONE = 2**17  # multiplications that one thread has done before a second one has begun


def sweep_rows(
    W: Array, P: Array, G: Array, inverse: Array, sweeps: int, threads: bool = True
) -> Array:
    """W (n, k) after sweeps of w_z ← max(0, w_z + (p_z − w·g_z)/g_zz), one z after the other."""
    if G.ndim == 3:  # a matrix for every row: NumPy's work is as good
        from lemmata.topics.nmf import _twins

        return _twins.sweep_rows(W, P, G, inverse, sweeps)
    (n, k), dtype = W.shape, W.dtype
    out = np.empty_like(W, order="C")
    G, inverse = np.ascontiguousarray(G, dtype), np.ascontiguousarray(inverse, dtype)
    tasks = TASKS if threads and float(n) * k * k * sweeps > ALONE else 1
    lanes = 64 // dtype.itemsize
    cuts = np.linspace(0, -(-n // lanes), tasks + 1).astype(np.int64) * lanes
    cuts[-1] = n

    def task(number: int) -> None:
        tile, target = empty_lines(1, k, dtype)[0], empty_lines(1, k, dtype)[0]
        _sweep_range(out, W, P, G, inverse, sweeps, cuts[number], cuts[number + 1], tile, target)

    run_tasks(task, tasks)
    return out


@kernel
def _sweep_range(out, W, P, G, inverse, sweeps, first, last, tile, target):
    k, lanes = tile.shape
    nothing = zero(tile)
    fours = k // 4 * 4
    for start in range(first, last, lanes):
        count = min(lanes, last - start)
        for z in range(k):
            for c in range(lanes):
                tile[z, c] = W[start + c, z] if c < count else 0
                target[z, c] = P[start + c, z] if c < count else 0
        for _ in range(sweeps):
            for z in range(k):
                a, b, c_, d = load(target, z), nothing, nothing, nothing
                for r in range(0, fours, 4):
                    a = axpy(-G[z, r], load(tile, r), a)
                    b = axpy(-G[z, r + 1], load(tile, r + 1), b)
                    c_ = axpy(-G[z, r + 2], load(tile, r + 2), c_)
                    d = axpy(-G[z, r + 3], load(tile, r + 3), d)
                for r in range(fours, k):
                    a = axpy(-G[z, r], load(tile, r), a)
                slope = add(add(a, b), add(c_, d))
                new = axpy(inverse[z], slope, load(tile, z))
                store(tile, z, where_larger(new, nothing, new, nothing))
        for z in range(k):
            for c in range(count):
                out[start + c, z] = tile[z, c]
