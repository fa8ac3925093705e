"""Coordinate descent on the Gram matrix of the entered columns, compiled. Twins: _twins.py."""

from __future__ import annotations

import numpy as np

from lemmata.core.engine import kernel

# Sweeps before the signs found are taken for those of the solution: a few, and more for many signs S. A sweep costs |S|·k
# multiplications at the speed of memory, |S| equations |S|³/3 at that of BLAS: about |S|/24 sweeps.
FEW, PER_SIGN = 4, 1 / 24
# sweeps before the exact path is followed; whether it is tried first, from w = 0
SOON, FOLLOWS = (200, False)
SIGNS_FIRST = False


@kernel
def gap_of(q, w, h, l1, l2, yy, positive):
    """P(w) and its duality gap, from h = q − Gw, over these columns (formulas: duality.py)."""
    wq = wh = first = second = 0.0
    limit = np.inf
    fenchel = 0.0
    ridged = True
    for j in range(len(q)):
        wq += w[j] * q[j]
        wh += w[j] * h[j]
        first += l1[j] * abs(w[j])
        second += l2[j] * w[j] * w[j]
        v = h[j] - l2[j] * w[j]
        if not positive:
            v = abs(v)
        if v > 0 and l1[j] < limit * v:
            limit = l1[j] / v
        if l2[j] > 0:
            over = (h[j] if positive else abs(h[j])) - l1[j]
            if over > 0:
                fenchel += over * over / (2 * l2[j])
        else:
            ridged = False
    rr = max(yy - wq - wh, 0.0)
    primal = 0.5 * rr + first + 0.5 * second
    yr = yy - wq
    norm = rr + second
    c = yr / norm if norm > 0 else 1.0
    c = max(0.0, min(c, limit))
    dual = c * yr - 0.5 * c * c * norm
    if ridged:
        dual = max(dual, yr - 0.5 * rr - fenchel)
    return primal, primal - dual


@kernel
def descend(G, q, w, h, l1, l2, yy, positive, wanted, share, least, most, inner):
    """Sweep until the duality gap is at most `wanted` and at most `share` of max(P, least); w and h = q − Gw change in place.

    A sweep over all coordinates is followed by up to `inner` sweeps over the non-zero ones. Returns sweeps, P, gap and whether
    the sweeps are over: the gap is small enough, or no coordinate moves.
    """
    k = len(q)
    active = np.empty(k, np.int64)
    sweeps = 0
    over = False
    loss, gap = gap_of(q, w, h, l1, l2, yy, positive)
    while True:
        target = min(wanted, share * max(loss, least))
        if gap <= target:
            over = True
        if over or sweeps >= most:
            return sweeps, loss, gap, over
        count = k
        for j in range(k):
            active[j] = j
        for turn in range(inner + 1):  # noqa: B007
            fall, kept = 0.0, 0
            for a in range(count):
                j = active[a]
                curvature = G[j, j] + l2[j]
                if curvature <= 0:
                    continue
                old = w[j]
                z = h[j] + G[j, j] * old
                if z > l1[j]:
                    new = (z - l1[j]) / curvature
                elif z < -l1[j] and not positive:
                    new = (z + l1[j]) / curvature
                else:
                    new = 0.0
                if new != old:
                    w[j] = new
                    step = new - old
                    fall += curvature * step * step
                    row = G[j]
                    for i in range(k):
                        h[i] -= row[i] * step
                if new != 0:
                    active[kept] = j
                    kept += 1
            count = kept
            sweeps += 1
            if fall <= 0.1 * target or sweeps >= most:
                break
        loss, gap = gap_of(q, w, h, l1, l2, yy, positive)
        over = turn == 0 and fall == 0.0
