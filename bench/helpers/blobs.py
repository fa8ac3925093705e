"""Points to cluster, with clusters and without, and the cost of centres on them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

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
    """k random rows to start from."""
    return X[np.random.default_rng(seed).choice(len(X), k, replace=False)]


def cost(X, centers):
    """Σ min ‖x − c‖² in float64, without kernels."""
    C = np.asarray(centers, np.float64)
    squares, total = (C**2).sum(axis=1), 0.0
    for start in range(0, len(X), PIECE):
        rows = X[start : start + PIECE].astype(np.float64)
        nearest = (rows**2).sum(axis=1) + (squares - 2 * rows @ C.T).min(axis=1)
        total += float(np.maximum(nearest, 0).sum())
    return total
