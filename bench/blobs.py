"""Points to cluster: with clusters and without, what centres cost on them, and what a fit takes beside them."""

from __future__ import annotations

import ctypes
import gc
import statistics
import time
from collections.abc import Callable
from contextlib import suppress

import numpy as np

from bench.harness import memory, reset_peak, run_quietly

PIECE = 50_000  # rows that are made or measured at a time


def blobs(n, d, k, seed=0, spread=1.0, concentration=2.0, dtype=np.float32):
    """k clusters of unequal size and scale. The same law as the script that measured the peers, made piece by piece.

    Centres are about 1.5 √(2d) apart and rows `spread` √d from theirs. A small concentration makes the sizes more unequal.
    """
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((k, d), dtype=np.float32) * 1.5
    ends = np.cumsum(rng.dirichlet(np.full(k, concentration)))
    scale = rng.uniform(0.5, 1.5, (k, d)).astype(np.float32) * spread
    X = np.empty((n, d), dtype)
    for start in range(0, n, PIECE):
        rows = X[start : start + PIECE]
        label = np.searchsorted(ends, rng.random(len(rows))).clip(0, k - 1)
        rows[:] = rng.standard_normal(rows.shape, dtype=np.float32) * scale[label] + centres[label]
    return X


def noise(n, d, k, seed=0):
    """No clusters at all: k is there to be called like `blobs`."""
    return np.random.default_rng(seed).standard_normal((n, d), dtype=np.float32)


KINDS: dict[str, Callable[..., np.ndarray]] = {"clustered": blobs, "noise": noise}


def some_rows(X, k, seed=1):
    """k rows to start from, without care."""
    return X[np.random.default_rng(seed).choice(len(X), k, replace=False)]


def cost(X, centers):
    """Σ min ‖x − c‖² in float64, by nobody's kernel."""
    C = np.asarray(centers, np.float64)
    squares, total = (C**2).sum(axis=1), 0.0
    for start in range(0, len(X), PIECE):
        rows = X[start : start + PIECE].astype(np.float64)
        nearest = (rows**2).sum(axis=1) + (squares - 2 * rows @ C.T).min(axis=1)
        total += float(np.maximum(nearest, 0).sum())
    return total


def timed(function):
    """Seconds, and what came out."""
    begin = time.perf_counter()
    result = run_quietly(function)
    return time.perf_counter() - begin, result


def clocked(systems):
    """The same systems with a clock on each, and what the clocks have shown so far."""
    seen: dict[str, list[float]] = {name: [] for name in systems}

    def with_clock(name):
        def run():
            seconds, result = timed(systems[name])
            seen[name].append(seconds)
            return result

        return run

    return {name: with_clock(name) for name in systems}, seen


def typical(seconds):
    """The median, without the run that warmed up."""
    return statistics.median(seconds[1:] or seconds)


def share_added(function, X):
    """The peak of memory during a call beyond what was in use before, as a share of X, and in MB. Call it once before.

    Memory that was freed but kept for later is given back first: else a call that takes it again would seem to take none.
    """
    gc.collect()
    with suppress(OSError, AttributeError):  # with another C library the figure may be too small
        ctypes.CDLL("libc.so.6").malloc_trim(0)
    base = reset_peak()
    result = run_quietly(function)
    added = memory("VmHWM") - base
    del result
    return added / (X.nbytes / 2**20), added
