"""The twins of `_kernels` in NumPy."""

from __future__ import annotations

import numpy as np


def sweep_into(z, r, H, lasso, times):
    """`times` rounds of coordinate descent on ½zᵀHz + … + Σ lasso|z|; r is the gradient of the smooth part at z."""
    h = np.diagonal(H)
    for _ in range(times):
        moved = False
        for j in np.flatnonzero((h > 0) & ((z != 0) | (np.abs(r) > lasso) | (lasso == 0))):
            old = z[j]
            raw = old * h[j] - r[j]
            new = np.sign(raw) * max(abs(raw) - lasso[j], 0.0) / h[j]
            if new != old:
                moved = True
                z[j] = new
                r += H[j] * (new - old)
        if not moved:
            break
