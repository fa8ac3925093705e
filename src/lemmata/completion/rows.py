"""One ridge regression per row: the half-sweep of alternating least squares, and the fold-in of new rows (CIL 2.4.2, 2.4.5).

u_i = argmin ½ Σ_{j∈Ω_i} (a_ij − uᵀv_j)² + ½ λ_i ‖u‖²  =  (V_Ωᵀ V_Ω + λ_i I)⁻¹ V_Ωᵀ a_Ω
"""

from __future__ import annotations

import numpy as np

from lemmata.completion.observed import Entries

Array = np.ndarray


def solve_rows(entries: Entries, V: Array, reg: Array | float) -> Array:
    """u_i for every row of `entries`; reg is λ or λ_i per row. With λ_i = 0 the shortest solution; 0 for an empty row."""
    indptr, indices, values = entries
    reg = np.broadcast_to(np.asarray(reg, dtype=np.float64), len(indptr) - 1)
    U = np.zeros((len(indptr) - 1, V.shape[1]), dtype=V.dtype)
    for i in range(len(U)):
        here = slice(indptr[i], indptr[i + 1])
        W, a = V[indices[here]], values[here]
        if not len(a):
            continue
        if reg[i] > 0:
            U[i] = np.linalg.solve(W.T @ W + W.dtype.type(reg[i]) * np.eye(W.shape[1], dtype=W.dtype), W.T @ a)
        else:
            U[i] = np.linalg.lstsq(W, a, rcond=None)[0]
    return U
