"""The inner loop of the lasso model, compiled. `_twins` has the same functions in NumPy."""

from __future__ import annotations

import numpy as np

from lemmata.core.engine import kernel


@kernel
def sweep_into(z, r, H, lasso, times):
    """`times` rounds of coordinate descent on ½zᵀHz + … + Σ lasso|z|; r is the gradient of the smooth part at z.

    zⱼ ← shrink(zⱼ − rⱼ/Hⱼⱼ, lassoⱼ/Hⱼⱼ), and r follows. Writes into z and r.
    """
    d = len(z)
    for _ in range(times):
        moved = False
        for j in range(d):
            h = H[j, j]
            if h <= 0:
                continue
            old = z[j]
            raw = old * h - r[j]
            new = np.sign(raw) * max(abs(raw) - lasso[j], 0.0) / h
            step = new - old
            if step != 0:
                moved = True
                z[j] = new
                for i in range(d):
                    r[i] += H[j, i] * step
        if not moved:
            break
