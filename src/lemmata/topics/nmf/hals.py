"""Hierarchical alternating least squares: one co-ordinate of a factor at a time, each exactly.

    minimise over w ≥ 0      ½ wᵀ G w − pᵀ w + l₁ Σ w + ½ l₂ ‖w‖²            one row of a factor, the other factor fixed

With all co-ordinates but z fixed this is a parabola, whose least point on w_z ≥ 0 is

    w_z ← max(0, w_z + (p_z − l₁ − (Gw)_z − l₂ w_z) / (g_zz + l₂)),

so no step can raise the objective. p = xHᵀ costs a pass over the data, a sweep over all z only k² multiplications a
row: several sweeps are made for every pass (Gillis & Glineur 2012).
"""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType

import numpy as np

from lemmata.core.engine import pick

Array = np.ndarray
SWEEPS = 6  # for every pass over the data; later ones move little (measured: bench/nmf.py)


@dataclass(frozen=True)
class HALS:
    """Sweeps over the co-ordinates of rows, by kernel or by NumPy; `threads`: on all cores, where nothing else is parallel."""

    compiled: bool = False
    threads: bool = True

    @property
    def kernels(self) -> ModuleType:
        return pick(self.compiled, "lemmata.topics.nmf")

    def __call__(self, W: Array, P: Array, G: Array, l1: float, l2: float, sweeps: int) -> Array:
        """W (n, k), better for P (n, k) and G, (k, k) or one for every row."""
        G, inverse = add_ridge(G, l2)
        target = P - np.asarray(l1, P.dtype) if l1 else P
        return self.kernels.sweep_rows(W, target, G, inverse, sweeps, self.threads)


def add_ridge(G: Array, l2: float) -> tuple[Array, Array]:
    """G + l₂ I and one over its diagonal; over 0 a number so large that any slope ends at the bound, and none at rest."""
    if l2:
        G = G + np.asarray(l2, G.dtype) * np.eye(G.shape[-1], dtype=G.dtype)
    diagonal = np.diagonal(G, axis1=-2, axis2=-1)
    return G, 1 / np.maximum(diagonal, 4 * np.finfo(G.dtype).tiny)


def best_rows(
    hals: HALS, W: Array, P: Array, G: Array, l1: float, l2: float, most: int = 2000
) -> Array:
    """The minimiser of every row, from W: sweeps until none of its co-ordinates moves; each row stops by itself."""
    eps = float(np.finfo(W.dtype).eps)
    W, going, done = W.copy(), np.arange(len(W)), 0
    lengths = np.sqrt(np.diagonal(G, axis1=-2, axis2=-1))  # co-ordinates in the unit of the data
    while len(going) and done < most:
        sweeps = 8 if done < 64 else 64
        part = G if G.ndim == 2 else G[going]
        before = W[going]
        after = hals(before, P[going], part, l1, l2, sweeps)
        W[going] = after
        scale = lengths if G.ndim == 2 else lengths[going]
        moved = (np.abs(after - before) * scale).max(axis=1)
        going, done = going[moved > 64 * eps * (after * scale).max(axis=1)], done + sweeps
    return W
