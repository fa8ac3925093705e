"""The representer theorem as a claim: under an ℓ2 penalty the weights lie in the span of the rows, w = Xᵀu.

What stands orthogonal to all rows changes no prediction and costs ‖w‖², so the best weights have none of it. A free intercept
changes nothing about it.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from lemmata.audit.kernel.claims import (
    PROVED,
    Evidence,
    Fit,
    Statement,
    at_most,
    claim,
    rounding,
    unknown,
)
from lemmata.audit.kernel.duality_gap import Rows
from lemmata.audit.predict.linear.objectives import Objective, objective_of

LARGEST = 2000  # rows or columns, whichever are fewer: a basis of their span is found by decomposing so many
SHARE = 1e-6  # of the weights: a solver's own error is smaller


def representer(words: Callable[[Fit], Objective]) -> Statement:
    """The claim, of fits whose objective (in `words`) has an ℓ2 penalty on every weight and no other."""

    def applies(fit: Fit) -> bool:
        objective = objective_of(fit, words)
        return not np.any(objective.l1) and bool(np.all(np.asarray(objective.l2) > 0))

    def cost(fit: Fit) -> float:
        n, d = fit.data.shape
        return 4.0 * max(n, d) * float(min(n, d)) ** 2 if applies(fit) else 0.0

    @claim(
        "the weights lie in the span of the rows",
        kind=PROVED,
        source="ML Representer theorem",
        cost=cost,
    )
    def representer(fit: Fit) -> Evidence:
        if not applies(fit):
            return unknown("promised of weights with an ℓ2 penalty, and no other")
        return outside_rows(fit)

    return representer


def outside_rows(fit: Fit) -> Evidence:
    """The part of the weights that is orthogonal to every row with a weight."""
    n, d = fit.data.shape
    if min(n, d) > LARGEST:
        return unknown(f"a basis of the span of {n:,} rows of {d:,} columns is too expensive")
    X = Rows(fit.data).columns(np.arange(d))
    if fit.weights is not None:
        X = X[np.asarray(fit.weights) > 0]
    X = X / (float(np.abs(X).max(initial=0.0)) or 1.0)
    all_of_them = at_most(
        0.0, 1.0, unit="share outside", note=f"the rows span all {d:,} directions"
    )
    if n >= d:
        squares = np.linalg.eigvalsh(X.T @ X)
        if squares[0] > 1e-8 * squares[-1]:
            return all_of_them
    _, values, Vt = np.linalg.svd(X, full_matrices=False)
    basis = Vt[values > rounding(np.float64, max(n, d)) * values.max(initial=0.0)]
    if len(basis) == d:
        return all_of_them
    W = np.atleast_2d(np.asarray(fit.coef_, dtype=np.float64))
    size = float(np.linalg.norm(W))
    outside = float(np.linalg.norm(W - (W @ basis.T) @ basis)) / size if size else 0.0
    coarse = max((fit.data.dtype, np.asarray(fit.coef_).dtype), key=lambda t: np.finfo(t).eps)
    bound = max(SHARE, math.sqrt(rounding(coarse, d)) if coarse == np.float32 else 0.0)
    advice = (
        "a part of the weights does not come from the data: fit again (start at 0), or lower tol"
    )
    note = f"the rows span {len(basis):,} of {d:,} directions"
    return at_most(outside, bound, advice, unit="share outside", note=note)
