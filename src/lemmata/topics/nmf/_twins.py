"""The NumPy twin of _kernels.py: the same sweeps over rows, all rows at once."""

from __future__ import annotations

import numpy as np

Array = np.ndarray


def sweep_rows(
    W: Array, P: Array, G: Array, inverse: Array, sweeps: int, threads: bool = True
) -> Array:
    """W (n, k) after sweeps of w_z ← max(0, w_z + (p_z − w·g_z)/g_zz), one z after the other; G (k, k) or one (n, k, k)."""
    # a co-ordinate of all rows is one stretch of memory
    T, Q = (np.array(W.T, order="C"), np.ascontiguousarray(P.T))
    for _ in range(sweeps):
        for z in range(len(T)):
            if G.ndim == 2:
                slope = Q[z] - G[z] @ T
                slope *= inverse[z]
            else:
                slope = (Q[z] - np.einsum("ri,ir->i", T, G[:, z])) * inverse[:, z]
            slope += T[z]
            np.maximum(slope, 0, out=T[z])
    return np.ascontiguousarray(T.T)
