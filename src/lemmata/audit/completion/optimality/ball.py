"""Claims about the best matrix of a ball of the nuclear norm: what one singular pair of the residual proves.

    f(Y) ≥ f(X) − ⟨R, Y − X⟩ ≥ f(X) − g(X),     g(X) = r σ₁(R) − ⟨R, X⟩,     R = Π_Ω(A − X),   for every ‖Y‖_* ≤ r

by convexity, and since ⟨R, Y⟩ ≤ σ₁(R)‖Y‖_*. The other way round, a step of the best length from X towards r u vᵀ, u and v the
leading pair, ends in the ball and is better by ηg − ½η²‖Π_Ω(r u vᵀ − X)‖²: where that is much, X is not the best.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from lemmata.audit.completion.factored_objective import products_at
from lemmata.audit.completion.factors import NEVER_ROSE
from lemmata.audit.completion.held_out.error import ENTRY_CLAIMS
from lemmata.audit.completion.optimality.global_optimum import gap_cost, top_singular_value
from lemmata.audit.completion.statements import SOUND, precision, problem_of, singular_values
from lemmata.audit.kernel import claims

SOURCE = "CIL20 3.4.3; Jaggi 2013"
GAP = 1.0  # per cent of the objective


@claims.proved("within 1 % of the least error of all matrices in the ball", SOURCE, cost=gap_cost)
def least_in_ball(fit):
    """The gap of Frank and Wolfe as a share of the objective, by an upper bound on σ₁ of the residual."""
    problem, size = problem_of(fit), None
    radius, inner = float(fit.radius_) / problem.unit, float(problem.S.data @ problem.fitted)
    noise = claims.rounding(precision(fit), problem.rank + 1) ** 2
    if problem.loss <= noise * problem.size:
        note = "every known entry is met, and no loss is below 0"
        return claims.at_most(0.0, GAP, unit="gap %", note=note)
    top = top_singular_value(problem.S, accuracy=GAP / 1000)
    gap = max(radius * top.bound - inner, 0.0)
    percent, advice = 100 * gap / problem.loss, "run longer: raise max_iter, or lower tol"
    if percent <= GAP:
        kind = claims.STATISTICAL if top.risk else claims.PROVED
        found = claims.at_most(percent, GAP, unit="gap %", confidence=1 - top.risk)
        return replace(found, kind=kind)
    corner = products_at(
        problem.indptr, problem.indices, radius * top.left[:, None], top.right[:, None]
    )
    size = float(np.sum((corner - problem.fitted) ** 2))
    slope = radius * top.sigma - inner
    eta = min(max(slope / size, 0.0), 1.0) if size > 0 else 0.0
    gain = 100 * (eta * slope - 0.5 * eta**2 * size) / problem.loss
    note = f"one step gains {gain:.2g} %"
    if gain > GAP:
        witness = {"left": top.left, "right": top.right, "share": eta}
        return claims.at_most(percent, GAP, advice, "gap %", note, witness=witness)
    return claims.unknown(f"the gap is {percent:.2g} %, but {note}", measured=percent, unit="gap %")


@claims.proved("its nuclear norm is at most the radius", SOURCE)
def in_ball(fit):
    values = singular_values(np.asarray(fit.U_, np.float64), np.asarray(fit.V_, np.float64))
    bound = 1 + claims.rounding(precision(fit), terms=max(fit.data.shape))
    advice = "divide U_ by the excess, or fit again"
    return claims.at_most(float(values.sum()) / float(fit.radius_), bound, advice, "of the radius")


BALL_CLAIMS = (*SOUND, least_in_ball, in_ball, NEVER_ROSE, *ENTRY_CLAIMS)
