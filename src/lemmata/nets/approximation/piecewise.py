"""Every continuous piecewise-linear function of one number is a ReLU net with one hidden layer (ML).

With kinks r_1 < … < r_{m−1} between m pieces of slopes a_1, …, a_m,

    q(x) = q(r_1) − a_1 (r_1 − x)_+ + a_2 (x − r_1)_+ + Σ_{i ≥ 2} (a_{i+1} − a_i)(x − r_i)_+        for every x

one unit per piece; a straight line needs two. (ML "Point-wise approximations" writes the first piece as a_1 (x)_+, which
is a_1 x for x ≥ 0 only.)
"""

from __future__ import annotations

import numpy as np

from lemmata.nets.approximation.layers import Layers


def piecewise_linear_net(knots, values) -> Layers:
    """The ReLU net that runs through these points, straight between them and on beyond the first and the last.

    knots : r_0 < r_1 < … < r_m
    values : q(r_i)
    """
    r, q = (np.asarray(part, dtype=np.float64) for part in (knots, values))
    if r.ndim != 1 or r.shape != q.shape or len(r) < 2:
        raise ValueError(
            f"knots of shape {r.shape} and values of shape {q.shape}; pass two lists of one length, at least 2."
        )
    if not (np.isfinite(r).all() and np.isfinite(q).all()):
        raise ValueError("knots and values have to be finite numbers.")
    if not (np.diff(r) > 0).all():
        i = int(np.argmin(np.diff(r)))
        raise ValueError(
            f"knots have to rise, and knot {i + 1} is {r[i + 1]} after {r[i]}: sort them, without repetition."
        )
    slopes = np.diff(q) / np.diff(r)
    if len(slopes) == 1:
        slopes = np.repeat(slopes, 2)  # a line: a kink of no turn at its end
    kinks = r[1:-1] if len(r) > 2 else r[1:]
    first = kinks[0]
    into = np.array([-1.0, *np.ones(len(kinks))])  # (r_1 − x)_+ and (x − r_i)_+
    bias = np.array([first, *-kinks])
    out = np.array([-slopes[0], slopes[1], *np.diff(slopes[1:])])
    return Layers((into[:, None], out[None]), (bias, np.array([q[1]])), "relu")


def interpolation_bound(curvature: float, spacing: float) -> float:
    """sup |f − q| ≤ h² max|f''| / 8 for the interpolant q of f at knots at most h apart, between the first and the last."""
    return curvature * spacing**2 / 8
