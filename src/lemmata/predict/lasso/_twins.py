"""Coordinate descent on the Gram matrix of the entered columns, in NumPy. Compiled: _kernels.py."""

from __future__ import annotations

import numpy as np

Array = np.ndarray
PER_SIGN = 0.0  # a sweep in Python costs more than a system of equations


def gap_of(q, w, h, l1, l2, yy, positive):
    """P(w) and its duality gap, from h = q − Gw, over the columns at hand (formulas: duality.py)."""
    wq = float(w @ q)
    second = float(l2 @ (w * w))
    rr = max(yy - wq - float(w @ h), 0.0)
    v = h - l2 * w
    size = v if positive else np.abs(v)
    above = size > 0
    limit = (l1[above] / size[above]).min() if above.any() else np.inf
    primal = 0.5 * rr + float(l1 @ np.abs(w)) + 0.5 * second
    yr, norm = yy - wq, rr + second
    c = max(0.0, min(yr / norm if norm > 0 else 1.0, limit))
    dual = c * yr - 0.5 * c * c * norm
    if len(l2) and l2.min() > 0:
        over = np.maximum((h if positive else np.abs(h)) - l1, 0.0)
        dual = max(dual, yr - 0.5 * rr - float((over * over / (2 * l2)).sum()))
    return primal, primal - dual


def descend(G, q, w, h, l1, l2, yy, positive, wanted, share, least, most, inner):
    """Sweep until the duality gap is at most `wanted` and at most `share` of max(P, least); w and h change in place."""
    diagonal = G.diagonal().tolist()
    curvature = (G.diagonal() + l2).tolist()
    bounds = l1.tolist()
    everywhere = [j for j in range(len(q)) if curvature[j] > 0]
    sweeps, over = 0, False
    loss, gap = gap_of(q, w, h, l1, l2, yy, positive)
    while True:
        target = min(wanted, share * max(loss, least))
        if gap <= target:
            over = True
        if over or sweeps >= most:
            return sweeps, loss, gap, over
        active = everywhere
        for turn in range(inner + 1):  # noqa: B007
            fall, kept = 0.0, []
            for j in active:
                old = float(w[j])
                z = float(h[j]) + diagonal[j] * old
                if z > bounds[j]:
                    new = (z - bounds[j]) / curvature[j]
                elif z < -bounds[j] and not positive:
                    new = (z + bounds[j]) / curvature[j]
                else:
                    new = 0.0
                if new != old:
                    w[j] = new
                    step = new - old
                    fall += curvature[j] * step * step
                    h -= G[j] * step
                if new != 0:
                    kept.append(j)
            active = kept
            sweeps += 1
            if fall <= 0.1 * target or sweeps >= most:
                break
        loss, gap = gap_of(q, w, h, l1, l2, yy, positive)
        over = turn == 0 and fall == 0.0
