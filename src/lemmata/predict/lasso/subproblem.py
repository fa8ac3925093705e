"""The elastic net over the entered columns, from their Gram matrix alone.

    minimise  ½wᵀGw − qᵀw + Σ l1_j|w_j| + ½ Σ l2_j w_j²

Sweeps of coordinate descent find the signs s of the solution and usually its value. Where columns are so alike that sweeps go
on and on, the optimum of the signs found is solved for at once,

    (G_SS + diag l2_S) w_S = q_S − l1_S ∘ s_S                    S: the non-zero coordinates,

and one goes there, or as far as the first sign change: P is quadratic in between and falls all the way.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.linalg

Array = np.ndarray
# Sweeps before the signs found are taken for those of the solution. A sweep costs |S|·k multiplications at the speed of memory,
# the solution of |S| equations |S|³/3 at that of BLAS, which is about |S|/24 sweeps.
FEW, PER_SIGN = 4, 1 / 24
INNER = 4  # sweeps over the non-zero coordinates between two over all


class Enough(NamedTuple):
    """The gap asked for: at most `gap`, and at most `share` of P, where P counts as `least` if it is less."""

    gap: float
    share: float
    least: float

    def reached(self, loss: float, gap: float) -> bool:
        return gap <= min(self.gap, self.share * max(loss, self.least))

    def times(self, factor: float) -> Enough:
        return Enough(factor * self.gap, factor * self.share, self.least)


class Reached(NamedTuple):
    """Where the descent ended."""

    w: Array
    h: Array  # q − Gw
    sweeps: int
    loss: float
    gap: float


def minimise(
    G: Array,
    q: Array,
    w: Array,
    penalties: tuple[Array, Array],
    yy: float,
    positive: bool,
    enough: Enough,
    most: int,
    kernels: Any,
) -> Reached:
    """From w on, until the duality gap over these columns is small enough or `most` sweeps were made."""
    l1, l2 = penalties
    q, w = np.ascontiguousarray(q), w.copy()
    h = q - G @ w if w.any() else q.copy()
    sweeps, patience = 0, 1
    while True:
        portion = patience * (FEW + int(PER_SIGN * np.count_nonzero(w)))
        made, loss, gap, over = kernels.descend(
            G, q, w, h, l1, l2, yy, positive, *enough, min(portion, most - sweeps), INNER
        )
        sweeps += made
        if over or sweeps >= most:
            return Reached(w, h, sweeps, loss, gap)
        moved = step_to_signed_optimum(G, q, w, l1, l2)
        if moved is None:
            patience *= 4  # singular: descent alone
            continue
        w, h = moved, q - G @ moved
        sweeps += 1


def step_to_signed_optimum(G: Array, q: Array, w: Array, l1: Array, l2: Array) -> Array | None:
    """w moved towards the optimum of its signs, as far as they stay; None where G_SS is singular."""
    S = np.flatnonzero(w)
    if not len(S):
        return None
    signs = np.sign(w[S])
    A = G[np.ix_(S, S)]
    A[np.diag_indices(len(S))] += l2[S]
    try:
        factor = scipy.linalg.cho_factor(A, overwrite_a=True, check_finite=False)
    except scipy.linalg.LinAlgError:
        return None
    best = scipy.linalg.cho_solve(factor, q[S] - l1[S] * signs, check_finite=False)
    if not np.isfinite(best).all():
        return None
    moved = w.copy()
    turning = best * signs < 0
    if turning.any():
        shares = w[S][turning] / (w[S][turning] - best[turning])
        share = float(shares.min())
        moved[S] += share * (best - w[S])
        moved[S[turning][shares <= share]] = 0.0
    else:
        moved[S] = best
    return moved
