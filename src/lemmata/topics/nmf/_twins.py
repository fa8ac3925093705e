"""The NumPy twin of _kernels.py: the same sweeps over rows, all rows at once."""

from __future__ import annotations

import numpy as np

Array = np.ndarray


def sweep_rows(
    W: Array, P: Array, G: Array, inverse: Array, sweeps: int, threads: bool = True
) -> Array:
    """W (n, k) after sweeps of w_z ← max(0, w_z + (p_z − w·g_z)/g_zz), one z after the other; G (k, k) or one (n, k, k)."""
    W = W.copy()
    for _ in range(sweeps):
        for z in range(W.shape[1]):
            if G.ndim == 2:
                step = (P[:, z] - W @ G[:, z]) * inverse[z]
            else:
                step = (P[:, z] - np.einsum("ir,ir->i", W, G[:, z])) * inverse[:, z]
            np.maximum(W[:, z] + step, 0, out=W[:, z])
    return W
