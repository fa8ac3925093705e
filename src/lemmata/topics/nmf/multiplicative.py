"""Multiplicative updates (Lee & Seung 1999): every entry times the ratio of what pulls it up and what pulls it down.

    w_z ← w_z · p_z / ((Gw)_z + l₁ + l₂ w_z)              for  ½ wᵀGw − pᵀw + l₁ Σ w + ½ l₂ ‖w‖²,   G, p ≥ 0

This minimises a parabola in each w_z that touches the objective and lies above it, so the objective cannot rise. An
entry that is 0 stays 0, and entries that should be 0 come near it, never there. Those of the Kullback–Leibler
divergence are in divergence.py.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

Array = np.ndarray


@dataclass(frozen=True)
class Multiplicative:
    """Ratios instead of steps."""

    def __call__(self, W: Array, P: Array, G: Array, l1: float, l2: float, sweeps: int) -> Array:
        for _ in range(sweeps):
            down = W @ G if G.ndim == 2 else np.einsum("ir,irz->iz", W, G)
            if l2:
                down += np.asarray(l2, W.dtype) * W
            if l1:
                down += np.asarray(l1, W.dtype)
            W = W * (P / np.where(down > 0, down, 1))
        return W
