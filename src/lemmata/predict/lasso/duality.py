"""Primal, dual and their gap for the elastic net, in the units of design.py.

    P(w) = ½‖ỹ − X̃w‖² + Σ l1_j|w_j| + ½ Σ l2_j w_j²           l1 = αρp,  l2 = α(1−ρ)p,   p: penalty factors

With r = ỹ − X̃w and v = X̃ᵀr − l2∘w (the elastic net is a lasso with √l2 below X̃ and zeros below ỹ), every c ≥ 0 with
c|v_j| ≤ l1_j for all j (v_j instead of |v_j| where w ≥ 0 is required) gives the dual point c·(r, −√l2∘w) with the value

    D(c) = c ỹᵀr − ½ c² (‖r‖² + Σ l2 w²),

largest at c = ỹᵀr / (‖r‖² + Σ l2 w²) or at the bound. With l2 > 0 the unscaled r is another one (Fenchel):

    D = ỹᵀr − ½‖r‖² − Σ (|x̃_jᵀr| − l1_j)₊² / 2l2_j.

P − D bounds P(w) − min P for every w. The dual is strongly concave with modulus 1, so that its optimum is within
√(2 gap) of the dual point: a column with |x̃_jᵀθ| + √(2 gap)‖x̃_j‖ < l1_j is zero at the optimum (gap-safe screening).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lemmata.core.certificate import rounding

Array = np.ndarray
ROUNDING = 1e-9  # a column so close to its bound is not proved to be zero


class Duality(NamedTuple):
    """P(w), its gap with the better dual point, and the scaled point: its factor c and its own gap."""

    primal: float
    gap: float
    c: float
    scaled_gap: float


def duality(
    w: Array, r: Array, y: Array, V: Array, l1: Array, l2: Array, positive: bool
) -> Duality:
    """The gap at w from its residual r and the correlations V = X̃ᵀr of all columns."""
    rr, yr = float(r @ r), float(y @ r)
    second = float(l2 @ (w * w))
    primal = 0.5 * rr + float(l1 @ np.abs(w)) + 0.5 * second
    c = largest_scale(V - l2 * w, l1, positive)
    norm = rr + second
    c = max(0.0, min(yr / norm if norm > 0 else 1.0, c))
    dual = c * yr - 0.5 * c * c * norm
    if len(l2) and l2.min() > 0:
        over = np.maximum((V if positive else np.abs(V)) - l1, 0.0)
        fenchel = yr - 0.5 * rr - float((over * over / (2 * l2)).sum())
        return Duality(primal, primal - max(dual, fenchel), c, primal - dual)
    return Duality(primal, primal - dual, c, primal - dual)


def above_rounding(gap: float, primal: float, n: int) -> float:
    """The gap, or 0 where it is lost in the rounding of P − D.

    P and D = c ỹᵀr − ½c²(‖r‖² + …) are sums over n rows; near the optimum D ≤ P and ½c²‖r‖² ≤ P, so that all terms sum to 4P.
    """
    return 0.0 if gap <= 4 * rounding(np.float64, terms=n) * primal else gap


def largest_scale(v: Array, l1: Array, positive: bool) -> float:
    """The largest c with c|v_j| ≤ l1_j for all j (c v_j ≤ l1_j where w ≥ 0)."""
    size = v if positive else np.abs(v)
    above = size > 0
    return float((l1[above] / size[above]).min()) if above.any() else np.inf


def may_be_nonzero(
    found: Duality, v: Array, norms: Array, l1: Array, l2: Array, positive: bool
) -> Array:
    """Gap-safe screening: False where no solution has a non-zero coefficient.

    v = X̃ᵀr − l2∘w; the column of the lasso with √l2 below X̃ has the norm √(‖x̃‖² + l2).
    """
    reach = np.sqrt(2 * max(found.scaled_gap, 0.0)) * np.sqrt(norms**2 + l2)
    return found.c * (v if positive else np.abs(v)) + reach >= l1 * (1 - ROUNDING)
