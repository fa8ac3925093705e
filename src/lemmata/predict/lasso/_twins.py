"""Coordinate descent on the Gram matrix of the entered columns, in NumPy. Compiled: _kernels.py.

Below two dozen coordinates the numbers of a row are fewer than what a call of NumPy costs: there they are Python's own.
"""

from __future__ import annotations

from math import inf

import numpy as np

Array = np.ndarray
FEW, PER_SIGN = 2, 0.0  # a sweep in Python costs more than a system of equations
SOON, FOLLOWS = 24, True
# where no polish follows: the optimum of the signs that w begins with, before any sweep
SIGNS_FIRST = True
TINY = 24


def gap_of(q, w, h, l1, l2, yy, positive):
    """P(w) and its duality gap, from h = q − Gw, over these columns (formulas: duality.py)."""
    wq = float(w @ q)
    second = float(l2 @ (w * w))
    rr = max(yy - wq - float(w @ h), 0.0)
    v = h - l2 * w
    size = v if positive else np.abs(v)
    above = size > 0
    limit = (l1[above] / size[above]).min() if above.any() else inf
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
    if 0 < len(q) <= TINY:
        return _descend_tiny(G, q, w, h, l1, l2, yy, positive, wanted, share, least, most, inner)
    loss, gap = gap_of(q, w, h, l1, l2, yy, positive)
    if gap <= min(wanted, share * max(loss, least)):
        return 0, loss, gap, True
    diagonal = G.diagonal().tolist()
    curvature = (G.diagonal() + l2).tolist()
    bounds = l1.tolist()
    everywhere = [j for j in range(len(q)) if curvature[j] > 0]
    sweeps, over = 0, False
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
                new = _best(float(h[j]) + diagonal[j] * old, bounds[j], curvature[j], positive)
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


def _best(z, bound, curvature, positive):
    """The minimiser over one coordinate: z pulled towards 0 by the bound, divided by the curvature."""
    if z > bound:
        return (z - bound) / curvature
    if z < -bound and not positive:
        return (z + bound) / curvature
    return 0.0


def _descend_tiny(G, q, w, h, l1, l2, yy, positive, wanted, share, least, most, inner):
    """The same with lists."""
    rows, q, x, g, l1, l2 = G.tolist(), q.tolist(), w.tolist(), h.tolist(), l1.tolist(), l2.tolist()
    curvature = [rows[j][j] + l2[j] for j in range(len(q))]
    everywhere = [j for j in range(len(q)) if curvature[j] > 0]
    sweeps, over = 0, False
    loss, gap = _gap_tiny(q, x, g, l1, l2, yy, positive)
    while True:
        target = min(wanted, share * max(loss, least))
        if gap <= target:
            over = True
        if over or sweeps >= most:
            w[:], h[:] = x, g
            return sweeps, loss, gap, over
        active = everywhere
        for turn in range(inner + 1):  # noqa: B007
            fall, kept = 0.0, []
            for j in active:
                old, row = x[j], rows[j]
                new = _best(g[j] + row[j] * old, l1[j], curvature[j], positive)
                if new != old:
                    x[j] = new
                    step = new - old
                    fall += curvature[j] * step * step
                    g = [a - b * step for a, b in zip(g, row, strict=True)]
                if new != 0:
                    kept.append(j)
            active = kept
            sweeps += 1
            if fall <= 0.1 * target or sweeps >= most:
                break
        loss, gap = _gap_tiny(q, x, g, l1, l2, yy, positive)
        over = turn == 0 and fall == 0.0


def _gap_tiny(q, w, h, l1, l2, yy, positive):
    wq = wh = first = second = fenchel = 0.0
    limit, ridged = inf, True
    for qj, wj, hj, bound, ridge in zip(q, w, h, l1, l2, strict=True):
        wq += wj * qj
        wh += wj * hj
        first += bound * abs(wj)
        second += ridge * wj * wj
        v = hj - ridge * wj
        v = v if positive else abs(v)
        if v > 0 and bound < limit * v:
            limit = bound / v
        if ridge > 0:
            over = (hj if positive else abs(hj)) - bound
            fenchel += over * over / (2 * ridge) if over > 0 else 0.0
        else:
            ridged = False
    rr = max(yy - wq - wh, 0.0)
    primal = 0.5 * rr + first + 0.5 * second
    yr, norm = yy - wq, rr + second
    c = max(0.0, min(yr / norm if norm > 0 else 1.0, limit))
    dual = c * yr - 0.5 * c * c * norm
    if ridged:
        dual = max(dual, yr - 0.5 * rr - fenchel)
    return primal, primal - dual
