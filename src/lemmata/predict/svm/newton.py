"""Newton's method on the free variables of a support vector machine, where SMO would take thousands of steps.

Between their bounds the variables F solve a problem with equations alone: K_FF d + ν1 = −G_F, 1ᵀd = 0. The step d ends at the
first bound it meets; what stands there leaves F, and the rest is solved again. The objective falls with every step.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg

Array = np.ndarray
MOST = 1500  # free variables: a Cholesky factor of so many takes a tenth of a second
# of the largest K_ii, on the diagonal of K_FF: rows may be copies of each other, and features fewer than free variables;
# more of it where K was rounded to float32
RIDGE = {np.dtype(np.float64): 1e-10, np.dtype(np.float32): 1e-5}


def free_newton(
    beta: Array, G: Array, K: Array, lo: Array, hi: Array, most: int = 10**9, work: float = np.inf
) -> int:
    """Solve for the free variables in place; returns how many steps it took (0 where they are too few, many or curved down).

    K : (n, n), variable v is of row v mod n; work : multiplications that it may take, roughly.
    """
    most = min(most, len(beta))
    for step in range(most):
        F = np.flatnonzero((beta > lo) & (beta < hi))
        rows = F % len(K)
        work -= len(F) ** 3 / 3 + len(F) * float(len(K))
        if work < 0 or not 2 <= len(F) <= MOST:
            return step
        block = K[np.ix_(rows, rows)].astype(np.float64)
        block[np.diag_indices(len(F))] += RIDGE[K.dtype] * max(block.diagonal().max(), 1e-300)
        try:
            factor = scipy.linalg.cho_factor(block, overwrite_a=True, check_finite=False)
        except np.linalg.LinAlgError:
            return step
        sides = np.column_stack([G[F], np.ones(len(F))])
        u, v = scipy.linalg.cho_solve(factor, sides, check_finite=False).T
        d = (u.sum() / v.sum()) * v - u
        d -= d.mean()
        if not np.isfinite(d).all():
            return step
        room = np.where(d > 0, hi[F] - beta[F], lo[F] - beta[F])
        with np.errstate(divide="ignore", invalid="ignore"):
            reach = np.where(d != 0, room / d, np.inf)
        far = float(reach.min())
        moved = beta[F] + min(far, 1.0) * d
        if far <= 1.0:
            moved = np.where(reach <= far, np.where(d > 0, hi[F], lo[F]), moved)
        change = K[:, rows].astype(np.float64, copy=False) @ (moved - beta[F])
        G += np.resize(change, len(G))
        beta[F] = moved
        if far > 1.0:
            return step + 1
    return most
