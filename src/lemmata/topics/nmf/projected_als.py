"""Projected alternating least squares (CIL (3.41); CIL20 4.5): least squares without the constraint, then clipped at 0.

    w ← max(0, (G + l₂ I)⁺ (p − l₁))

The simplest of all, and quick at first. But the clipped minimiser is not the minimiser among w ≥ 0: where columns of
G overlap, clipping one co-ordinate leaves the others where they balanced it, and **the objective may rise**. Nothing
here prevents that; the claim `never_rose` says whether it happened. (The notes clip without a word about it.)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

Array = np.ndarray


@dataclass(frozen=True)
class ProjectedALS:
    """A pseudo-inverse and a maximum. One call is all there is to do: more sweeps would repeat it."""

    def __call__(self, W: Array, P: Array, G: Array, l1: float, l2: float, sweeps: int) -> Array:
        wide = G.astype(np.float64) + l2 * np.eye(G.shape[-1])
        inverse = np.linalg.pinv(wide, rcond=G.shape[-1] * np.finfo(G.dtype).eps, hermitian=True)
        target = P - np.asarray(l1, P.dtype)
        if G.ndim == 2:
            found = target @ inverse.astype(W.dtype)
        else:
            found = np.einsum("iz,izr->ir", target, inverse).astype(W.dtype)
        return np.maximum(found, 0)
