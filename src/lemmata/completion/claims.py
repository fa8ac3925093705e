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

import math
from typing import Any

import numpy as np

from lemmata.completion.coupling import RISK
from lemmata.completion.factored import Factored, products_at
from lemmata.completion.observed import Observed
from lemmata.core.certificate import Fit, at_least, at_most, claim, rounding, unknown

Array = np.ndarray

SLOPE = 3e-3  # a sweep changes the objective by about the square of it: 1e-5, the default tol
CURVED = 1e-3  # of the mean curvature; less than this is flat as far as a point with such a slope can tell
WORTH = 1e-4  # of the objective: a way down that gains less is a matter of convergence, not a way out of a saddle
GAP = 1.0  # per cent
EFFORT = 2**29  # entries times rank: a product with the Hessian takes seconds there, and a hundred are needed
HELD_OUT_RISK = 0.05  # of the Hoeffding interval


def factored(fit: Fit) -> Factored:
    """The objective at the fit, made once per certificate."""
    if "factored" not in fit.memory:
        fit.memory["factored"] = Factored.of(
            fit.data,
            fit.U_,
            fit.V_,
            reg=float(_get(fit, "reg_", 0.0)),
            weighted=bool(_get(fit, "weighted_reg_", False)),
            mean=float(_get(fit, "mean_", 0.0)),
            row_bias=_get(fit, "row_bias_", None),
            column_bias=_get(fit, "column_bias_", None),
            biased=bool(_get(fit, "biases", False)) and not _implicit(fit),
            row_scale=_get(fit, "row_scale_", None),
            column_scale=_get(fit, "column_scale_", None),
            feedback=str(_get(fit, "feedback", "explicit")),
            alpha=float(_get(fit, "alpha", 1.0)),
            confidence_offset=float(_get(fit, "confidence_offset_", 1.0)),
        )
    return fit.memory["factored"]


def _get(fit: Fit, name: str, default: Any) -> Any:
    return getattr(fit, name) if fit.has(name) else default


def _implicit(fit: Fit) -> bool:
    return _get(fit, "feedback", "explicit") == "implicit"


# --- about the optimum ------------------------------------------------------------------------------------------------


@claim("the objective never rose", source="CIL 2.4.3", about="run")
def never_rose(fit):
    bound = rounding(np.asarray(fit.U_).dtype, terms=fit.data.n_observed)
    return at_most(
        fit.trace.largest_rise, bound, "report this: an exact half-sweep cannot raise it", unit="largest rise"
    )


@claim("a first-order point: the gradient is below 3e-3 of its scale", source="CIL (2.38)", costly=True)
def first_order_point(fit):
    """Σ ‖∇_P‖‖P‖ over the blocks P of parameters, in units of the objective, over ‖Π_Ω A‖² (A without fixed offsets)."""
    advice = "not converged: lower tol and raise max_iter"
    return at_most(slope(fit), SLOPE, advice, unit="|∇||param| / |A|²")


def slope(fit: Fit) -> float:
    """How far from stationary a fit is, without units; 0 at a first-order point."""
    if "slope" not in fit.memory:
        problem = factored(fit)
        gradient = problem.gradient
        if _get(fit, "nonnegative", False):
            gradient = _kkt(problem)
        lengths = [np.linalg.norm(g) * np.linalg.norm(x) for g, x in zip(gradient, problem.at, strict=True)]
        squares = problem.target**2 if problem.weights is None else problem.weights * problem.target**2
        fit.memory["slope"] = float(sum(lengths) / max(squares.sum(), np.finfo(float).tiny))
    return fit.memory["slope"]


def _kkt(problem: Factored):
    """The gradient with what a bound at 0 holds back removed: min(∇, L·U) with L the curvature of the row, 0 iff KKT."""
    gradient, (rows, columns) = problem.gradient, problem.row_curvatures()
    dimension = problem.rank + problem.biased
    gU = np.minimum(gradient.U, dimension * rows[:, None] * problem.at.U)
    gV = np.minimum(gradient.V, dimension * columns[:, None] * problem.at.V)
    return gradient._replace(U=gU, V=gV)


@claim("a minimum, not a saddle: no direction curves down by over 1e-3", source="CIL 2.4.3, (2.18)", costly=True)
def second_order_minimum(fit):
    """The smallest eigenvalue of the Hessian modulo gauge, in units of the curvature that each row feels alone."""
    from lemmata.completion.curvature import downward, line_search

    problem = factored(fit)
    if _get(fit, "nonnegative", False):
        return unknown("with a bound at 0 this is a question of copositivity, which nobody can answer at this size")
    if slope(fit) > SLOPE:
        return unknown("not a first-order point, so neither a minimum nor a saddle; converge first")
    if problem.rank == 0:
        return unknown("there are no factors")
    if len(problem.target) * problem.rank > EFFORT:
        return unknown("it would take hours; completion.coupling.weakest_curvature does it if you want to wait")
    found = downward(problem, margin=CURVED)
    if found.value >= -CURVED > found.value - found.error:
        return unknown(f"Lanczos: {found.value:.1e}, or up to {found.error:.1e} less, after {found.products} products")
    note = f"{found.products} products; wrong with probability below {RISK:.0e}"
    if found.value < -CURVED:
        _, after = line_search(problem, found.direction)
        gain = 1 - after / problem.objective
        if gain < WORTH:
            return unknown(f"curvature {found.value:.1e}, but all it gains is {100 * gain:.1g} %: lower tol to tell")
        note = f"going down there lowers the objective by {100 * gain:.2g} %"
    advice = "a saddle: go on from completion.curvature.escape, or fit with another random_state"
    return at_least(found.value, -CURVED, advice, unit="curvature", note=note)


@claim("proven to be within 1 % of the best matrix of any rank", source="CIL 2.5.2, 2.4", costly=True)
def global_optimum(fit):
    """The relative duality gap in per cent; zero at a first-order point where σ₁ of the residual is at most λ."""
    from lemmata.completion.curvature import duality_gap, tightened

    problem = factored(fit)
    if not (problem.row_reg.any() and problem.column_reg.any()):
        if problem.loss <= rounding(np.asarray(fit.U_).dtype, problem.rank) ** 2 * float(
            problem.target @ problem.target
        ):
            return at_most(0.0, GAP, unit="gap %", note="every known entry is met, and no loss is below 0")
        return unknown("with reg = 0 there is no convex problem to compare with, and the best rank-k fit is NP-hard")
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


# --- about the entries ------------------------------------------------------------------------------------------------


@claim("enough entries to determine a rank-k matrix", source="CIL (2.43)")
def enough_entries(fit):
    from lemmata.completion.identifiable import degrees_of_freedom, largest_rank

    (n, m), k = fit.data.shape, _rank(fit)
    most = largest_rank(n, m, fit.data.n_observed)
    advice = (
        f"the completion is not unique: lower the rank to {most} or less, or rely on reg" if most else "rely on reg"
    )
    return at_least(
        fit.data.n_observed, degrees_of_freedom(n, m, k), advice, unit="entries", note="necessary, not enough"
    )


@claim("every row and column has at least k entries", source="CIL 2.6.1, Ex. 2.6")
def enough_per_row_and_column(fit):
    """k numbers of a row's factors need k equations."""
    k, counts = _rank(fit), (fit.data.row_counts, fit.data.column_counts)
    few = [int((part < k).sum()) for part in counts]
    note = f"{few[0]:,} rows and {few[1]:,} columns have fewer" if any(few) else ""
    advice = "their predictions rest on reg and the offsets: drop them, lower the rank, or do not rely on them"
    return at_least(min(int(part.min(initial=k)) for part in counts), k, advice, unit="fewest", note=note)


@claim("the entries connect all rows and columns", source="CIL 2.6")
def connected_observations(fit):
    """Blocks that share no entry can be scaled against each other at will: U → tU, V → V/t in one of them."""
    from lemmata.completion.identifiable import components

    pieces, label = components(fit.data)
    largest = int(np.bincount(label).max(initial=0))
    note = f"the largest holds {largest:,} of {len(label):,} rows and columns" if pieces > 1 else ""
    advice = "predictions across components are not determined: keep the largest, or rely on reg and the offsets"
    return at_most(pieces, 1, advice, unit="components", note=note)


def _rank(fit: Fit) -> int:
    return int(np.asarray(fit.U_).shape[1])


IDENTIFIABLE = (enough_entries, enough_per_row_and_column, connected_observations)


# --- about other entries ----------------------------------------------------------------------------------------------


@claim("on held-out entries better than the mean, with 95 % confidence", source="CIL 2.1.4, Hoeffding")
def held_out_error(fit):
    """Squared errors lie in [0, w²] if predictions are clipped to the range w of the values, so, with probability 1 − δ,

    E[error²] ≤ their mean over N held-out entries + w² √(ln(1/δ) / 2N)
    """
    if fit.y is None:
        return unknown("pass held-out entries: certify(train, test)")
    if _implicit(fit):
        return unknown("implicit feedback predicts preferences, not values; see completion.metrics")
    test = Observed.of(fit.y)
    if test.shape != fit.data.shape or test.n_observed == 0:
        return unknown(f"{test!r} are no held-out entries of the {fit.data.shape[0]} × {fit.data.shape[1]} matrix")
    known, wanted = fit.data.values, test.values.astype(np.float64)
    low = float(min(known.min(initial=np.inf), wanted.min()))
    high = float(max(known.max(initial=-np.inf), wanted.max()))
    return _hoeffding(_squared_error(fit, test, low, high), wanted, known, high - low)


def _hoeffding(error: float, wanted: Array, known: Array, width: float):
    baseline = float(np.mean((wanted - (known.mean(dtype=np.float64) if len(known) else 0.0)) ** 2))
    above = error + width**2 * math.sqrt(math.log(1 / HELD_OUT_RISK) / (2 * len(wanted)))
    if error < baseline < above:
        return unknown(
            f"RMSE {math.sqrt(error):.4g} against {math.sqrt(baseline):.4g} of the mean, but {len(wanted):,} entries leave "
            f"up to {math.sqrt(above):.4g}"
        )
    note = f"RMSE {math.sqrt(error):.4g} on {len(wanted):,} held-out entries"
    advice = "it predicts no better than the mean: raise reg, lower the rank, or read the claims about the entries"
    return at_most(math.sqrt(above), math.sqrt(baseline), advice, unit="RMSE below", note=note)


def _squared_error(fit: Fit, test: Observed, low: float, high: float) -> float:
    """The mean squared error of predictions clipped to [low, high]."""
    (n, m), (indptr, indices, values) = test.shape, test.by_row
    s, t = (np.asarray(_get(fit, f"{side}_scale_", np.ones(size)), float) for side, size in (("row", n), ("column", m)))
    b, c = (np.asarray(_get(fit, f"{side}_bias_", np.zeros(size)), float) for side, size in (("row", n), ("column", m)))
    U, V = np.asarray(fit.U_, float) * s[:, None], np.asarray(fit.V_, float) * t[:, None]
    predicted = products_at(indptr, indices, U, V) + b[test.rows] + c[indices] + float(_get(fit, "mean_", 0.0))
    return float(np.mean((np.clip(predicted, low, high) - values) ** 2))
