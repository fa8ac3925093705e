"""A direction that separates classes, or multipliers that show that there is none: by a linear programme."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import numpy as np
from scipy.optimize import linprog

from lemmata.audit.kernel.claims import Fit

Array = np.ndarray
SMALL = 1e-9  # of the largest weight: what a programme leaves where 0 is meant


def separating_direction(fit: Fit, A: Array) -> tuple[list[Array], Array | None]:
    """Directions that may separate the classes, the likeliest first, and multipliers that may show that none does.

    max Σ min(aᵢᵀw, 1) over Aw ≥ 0; its dual are multipliers u ≥ 1 with Aᵀu = 0 where the maximum is 0.
    """
    n, d = A.shape
    cost = np.r_[np.zeros(d), -np.ones(n)]
    limits = np.hstack([-A, np.eye(n)])  # z ≤ Aw
    bounds = [(-1e6, 1e6)] * d + [(0.0, 1.0)] * n
    found = linprog(cost, A_ub=limits, b_ub=np.zeros(n), bounds=bounds, method="highs")
    if found.x is None:
        return [], None
    u = -np.asarray(found.ineqlin.marginals)
    return list(tidy(found.x[:d])), u if (u > 0.5).all() else None


def tidy(w: Array) -> Iterator[Array]:
    """Yield w unchanged, without its small parts, and in short fractions."""
    largest = np.abs(w).max(initial=0.0)
    if largest == 0:
        return
    w = w / largest
    clean = np.where(np.abs(w) > SMALL, w, 0.0)
    yield w
    yield clean
    for most in (1, 12, 1000, 10**6):
        yield np.array([float(Fraction(x).limit_denominator(most)) for x in clean])
