"""What theory promises about a completed matrix, checked on the known entries by plain code.

Everything is recomputed in float64 from the entries (`fit.data`) and public attributes: U_, V_, mean_, row_bias_, column_bias_
(and scales), reg_ (λ), weighted_reg_; `biases`, `nonnegative`, `feedback` and `alpha` where a model has them. So the claims
certify factors from anywhere (certify_factors.py). No solver uses this code, and it uses none of theirs.

**Minimum or saddle.** CIL 2.4.3 leaves open whether a fixed point of ALS is a minimum. The smallest eigenvalue of the Hessian
tells (curvature.py). **The global optimum.** Since min {½‖U‖² + ½‖V‖² : UVᵀ = X} = ‖X‖_*, the factored problem of any rank is
at least the convex one, ½‖Π_Ω(A − X)‖² + λ‖X‖_*, whose dual is

    D(Y) = ⟨A, Y⟩ − ½‖Y‖² − ½ Σ_i (Y1)_i²/α_i − ½ Σ_j (Yᵀ1)_j²/β_j      subject to  σ₁(α^-½ Y β^-½) ≤ 1,  Y = 0 off Ω

(the sums only with biases; α = β = λ, or λ times the counts). Every such Y bounds the optimum from below; we take the best
multiple of the residual, here or a few factors further. At a first-order point with σ₁ ≤ 1 the two meet: no matrix of any
rank is better.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lemmata.audit.coupling import RISK
from lemmata.audit.factored import Factored
from lemmata.core.certificate import (
    RULE_OF_THUMB,
    Fit,
    at_least,
    at_most,
    claim,
    passes,
    rounding,
    unknown,
)

Array = np.ndarray

SLOPE = 3e-3  # a sweep changes the objective by about the square of it: 1e-5, the default tol
CURVED = 1e-3  # of the mean curvature; less than this is flat as far as a point with such a slope can tell
WORTH = 1e-4  # of the objective: a way down that gains less is a matter of convergence, not a way out of a saddle
GAP = 1.0  # per cent
# entries times rank: a product with the Hessian takes seconds there, and a hundred are needed
EFFORT = 2**29


def factored(fit: Fit) -> Factored:
    """The objective at the fit, made once per certificate."""
    if "factored" not in fit.memory:
        fit.memory["factored"] = Factored.of(
            fit.data,
            fit.U_,
            fit.V_,
            reg=float(get(fit, "reg_", 0.0)),
            weighted=bool(get(fit, "weighted_reg_", False)),
            mean=float(get(fit, "mean_", 0.0)),
            row_bias=get(fit, "row_bias_", None),
            column_bias=get(fit, "column_bias_", None),
            biased=bool(get(fit, "biases", False)) and not implicit(fit),
            row_scale=get(fit, "row_scale_", None),
            column_scale=get(fit, "column_scale_", None),
            feedback=str(get(fit, "feedback", "explicit")),
            alpha=float(get(fit, "alpha", 1.0)),
            confidence_offset=float(get(fit, "confidence_offset_", 1.0)),
        )
    return fit.memory["factored"]


def get(fit: Fit, name: str, default: Any) -> Any:
    return getattr(fit, name) if fit.has(name) else default


def implicit(fit: Fit) -> bool:
    return get(fit, "feedback", "explicit") == "implicit"


# --- about the optimum ------------------------------------------------------------------------------------------------


@claim("the objective never rose", kind=RULE_OF_THUMB, source="CIL 2.4.3", about="run")
def never_rose(fit):
    bound = rounding(np.asarray(fit.U_).dtype, terms=fit.data.n_observed)
    return at_most(
        fit.trace.largest_rise,
        bound,
        "report this: an exact half-sweep cannot raise it",
        unit="largest rise",
    )


@claim(
    "a first-order point: the gradient is below 3e-3 of its scale",
    kind=RULE_OF_THUMB,
    source="CIL (2.38)",
    cost=passes(),
)
def first_order_point(fit):
    """Σ ‖∇_P‖‖P‖ over the blocks P of parameters, in units of the objective, over ‖Π_Ω A‖² (A without fixed offsets)."""
    advice = "not converged: lower tol and raise max_iter"
    return at_most(slope(fit), SLOPE, advice, unit="|∇||param| / |A|²")


def slope(fit: Fit) -> float:
    """How far from stationary a fit is, without units; 0 at a first-order point."""
    if "slope" not in fit.memory:
        problem = factored(fit)
        gradient = problem.gradient
        if get(fit, "nonnegative", False):
            gradient = _kkt(problem)
        lengths = [
            np.linalg.norm(g) * np.linalg.norm(x) for g, x in zip(gradient, problem.at, strict=True)
        ]
        squares = (
            problem.target**2 if problem.weights is None else problem.weights * problem.target**2
        )
        fit.memory["slope"] = float(sum(lengths) / max(squares.sum(), np.finfo(float).tiny))
    return fit.memory["slope"]


def _kkt(problem: Factored):
    """The gradient with what a bound at 0 holds back removed: min(∇, L·U) with L the curvature of the row, 0 iff KKT."""
    gradient, (rows, columns) = problem.gradient, problem.row_curvatures()
    dimension = problem.rank + problem.biased
    gU = np.minimum(gradient.U, dimension * rows[:, None] * problem.at.U)
    gV = np.minimum(gradient.V, dimension * columns[:, None] * problem.at.V)
    return gradient._replace(U=gU, V=gV)


@claim(
    "a minimum, not a saddle: no direction curves down by over 1e-3",
    kind=RULE_OF_THUMB,
    source="CIL 2.4.3, (2.18)",
    cost=passes(),
)
def second_order_minimum(fit):
    """The smallest eigenvalue of the Hessian modulo gauge, in units of the curvature that each row feels alone."""
    from lemmata.audit.curvature import downward, line_search

    problem = factored(fit)
    if get(fit, "nonnegative", False):
        return unknown(
            "with a bound at 0 this is a question of copositivity, which nobody can answer at this size"
        )
    if slope(fit) > SLOPE:
        return unknown("not a first-order point, so neither a minimum nor a saddle; converge first")
    if problem.rank == 0:
        return unknown("there are no factors")
    if len(problem.target) * problem.rank > EFFORT:
        return unknown(
            "it would take hours; completion.coupling.weakest_curvature does it if you want to wait"
        )
    found = downward(problem, margin=CURVED)
    if found.value >= -CURVED > found.value - found.error:
        return unknown(
            f"Lanczos: {found.value:.1e}, or up to {found.error:.1e} less, after {found.products} products"
        )
    note = f"{found.products} products; wrong with probability below {RISK:.0e}"
    if found.value < -CURVED:
        _, after = line_search(problem, found.direction)
        gain = 1 - after / problem.objective
        if gain < WORTH:
            return unknown(
                f"curvature {found.value:.1e}, but all it gains is {100 * gain:.1g} %: lower tol to tell"
            )
        note = f"going down there lowers the objective by {100 * gain:.2g} %"
    advice = "a saddle: go on from completion.curvature.escape, or fit with another random_state"
    return at_least(found.value, -CURVED, advice, unit="curvature", note=note)


@claim(
    "proven to be within 1 % of the best matrix of any rank",
    kind=RULE_OF_THUMB,
    source="CIL 2.5.2, 2.4",
    cost=passes(),
)
def global_optimum(fit):
    """The relative duality gap in per cent; zero at a first-order point where σ₁ of the residual is at most λ."""
    from lemmata.audit.curvature import duality_gap, tightened

    problem = factored(fit)
    if not (problem.row_reg.any() and problem.column_reg.any()):
        if problem.loss <= rounding(np.asarray(fit.U_).dtype, problem.rank) ** 2 * float(
            problem.target @ problem.target
        ):
            return at_most(
                0.0, GAP, unit="gap %", note="every known entry is met, and no loss is below 0"
            )
        return unknown(
            "with reg = 0 there is no convex problem to compare with, and the best rank-k fit is NP-hard"
        )
    if problem.implicit and _free_rows(problem):
        return unknown("a row without entries is not penalised, but has factors")
    gap = tightened(problem, duality_gap(problem), GAP / 100)
    percent = 100 * gap.gap / gap.primal if gap.primal > 0 else 0.0
    note = f"σ₁ = {gap.sigma:.4g} λ{gap.doubt}"
    advice = (
        "converge further: lower tol and raise max_iter"
        if gap.sigma <= 1.01
        else "raise rank: a further factor lowers it"
    )
    return at_most(percent, GAP, advice, unit="gap %", note=note)


def _free_rows(problem: Factored) -> bool:
    sides = ((problem.row_reg, problem.at.U), (problem.column_reg, problem.at.V))
    return any(bool(np.abs(X[reg == 0]).max(initial=0.0) > 0) for reg, X in sides)
