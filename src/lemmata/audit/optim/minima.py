"""Claims about the point that a minimiser ended at: stated values, the gradient, curvature, constraints.

    ‖∇f(x)‖ ≤ tol                          critical (CIL Def. 4.3.2)
    λ_min(∇²f(x)) ≥ 0                       necessary for a minimum, not sufficient (a slip of the ML notes); > 0 is
    ‖x − P(x − η∇f(x))‖/η ≤ tol             with a set: no feasible direction leads down
    ∇f + Jₕᵀλ + J_gᵀν = 0, ν ≥ 0, νg = 0    with conditions h = 0, g ≤ 0: Karush, Kuhn, Tucker

Everything is computed again from the point: by the formula of the objective where the audit knows it (smoothness.py), else by
calling the objective.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from lemmata.audit.kernel import claims as k
from lemmata.audit.kernel.attributes import attributes_sound, discrepancy, statements_true
from lemmata.audit.optim import smoothness
from lemmata.audit.optim.constraints import CONVEX, least_slope, nearest
from lemmata.audit.optim.smoothness import curvature_of, evaluate, lowest_curvature, structure_of

Array = np.ndarray
CURVED_DOWN = 1e-6  # of the largest curvature: what differences of gradients can tell from zero
AFFORDABLE = 2**26  # multiplications for a note
MATCH = 1e-5  # of the gradient: how well it should agree with differences of f


# --- what a check costs -----------------------------------------------------------------------------------------------


def evaluations(times: float):
    """The cost of a claim that calls the objective so many times."""
    return lambda fit: times * smoothness.evaluation_cost(fit)


def scale_of(fit: k.Fit) -> float:
    """The size of the numbers that values of f are sums of, for rounding."""
    scale = evaluate(fit.objective_, np.asarray(fit.x)).value_scale
    if fit.trace is not None and len(fit.trace):
        scale = max(scale, float(np.abs(fit.trace.objective).max()))
    return scale


def terms_of(fit: k.Fit) -> int:
    name, facts = structure_of(fit.objective_)
    return np.size(fit.x) + (facts["X"].shape[0] if name and name != "quadratic" else 0)


# --- the two that begin -----------------------------------------------------------------------------------------------


def _unsound(fit: k.Fit) -> Iterator[str]:
    x = np.asarray(fit.x)
    if x.dtype.kind != "f":
        yield f"x holds {x.dtype}, not real numbers"
    elif not np.isfinite(x).all():
        yield "x has numbers that are not finite"
    if np.shape(fit.gradient) != x.shape:
        yield f"the gradient has shape {np.shape(fit.gradient)}, x has shape {x.shape}"
    elif not np.isfinite(np.asarray(fit.gradient, dtype=float)).all():
        yield "the gradient has numbers that are not finite"
    if fit.trace is not None and len(fit.trace) and not np.isfinite(fit.trace.objective).all():
        yield "the trace has values that are not finite"


def _errors(fit: k.Fit) -> dict[str, float]:
    x = np.asarray(fit.x)
    here = evaluate(fit.objective_, x)
    tolerance = k.rounding(x.dtype, max(terms_of(fit), 1000))
    value_scale = max(here.value_scale, 1e-300)
    found = {"value": discrepancy(fit.value, here.value, value_scale, tolerance)}
    scale = max(here.gradient_scale, 1e-300)
    found["gradient"] = discrepancy(fit.gradient, here.gradient, scale, tolerance)
    if fit.trace is not None and len(fit.trace):
        found["trace"] = discrepancy(fit.trace.last(), here.value, value_scale, tolerance)
    return found


SOUND = attributes_sound({"value": "", "n_iter_": ">=0"}, _unsound)
TRUE = statements_true(_errors, cost=evaluations(2))


# --- the end ----------------------------------------------------------------------------------------------------------


@k.rule_of_thumb(
    "the gradient agrees with differences of f where the run began and ended",
    "by definition",
    cost=evaluations(40),
)
def gradient_matches(fit: k.Fit) -> k.Evidence:
    """The largest |gᵀv − (f(x + hv) − f(x − hv))/2h| over random v, as a share of ‖g‖ and of the differences' own error."""
    rng, worst = np.random.default_rng(0), 0.0
    for x in (np.asarray(fit.get("start_", fit.x)), np.asarray(fit.x)):
        value, gradient = fit.objective_(x.copy())
        g = np.asarray(gradient, dtype=np.float64)
        directions = [g] if np.linalg.norm(g) > 0 else []
        for v in [*directions, *(rng.standard_normal(x.shape) for _ in range(3))]:
            v = v / np.linalg.norm(v)
            worst = max(worst, _mismatch(fit.objective_, x, float(value), g, v))
    advice = "the gradient that f returns is not that of its values: correct it, or pass a torch closure for autograd"
    return k.at_most(worst, 1.0, advice, unit="error / allowed")


def _mismatch(objective: Any, x: Array, value: float, g: Array, v: Array) -> float:
    h = float(np.cbrt(np.finfo(x.dtype).eps)) * (1 + float(np.linalg.norm(x)))
    slopes, sizes = [], [abs(value)]
    for width in (h, 2 * h):
        ahead, behind = (float(objective((x + s * width * v).astype(x.dtype))[0]) for s in (1, -1))
        sizes += [abs(ahead), abs(behind)]
        slopes.append((ahead - behind) / (2 * width))
    # the error of the second difference is four times that of the first
    error = abs(slopes[1] - slopes[0]) + 50 * float(np.finfo(x.dtype).eps) * max(sizes) / h
    allowed = MATCH * float(np.linalg.norm(g)) + 4 * error
    off = abs(slopes[0] - float(np.vdot(g, v)))
    return off / allowed if allowed > 0 else (math.inf if off > 0 else 0.0)


@k.proved("the last point is critical: ‖∇f‖ ≤ tol", "CIL Def. 4.3.2", cost=evaluations(2))
def first_order(fit: k.Fit) -> k.Evidence:
    x = np.asarray(fit.x)
    here = evaluate(fit.objective_, x)
    norm, name = float(np.linalg.norm(here.gradient)), structure_of(fit.objective_)[0]
    error = k.rounding(np.float64, terms_of(fit)) * here.gradient_scale if name else 0.0
    note = ""
    affordable = bool(name) and k.price_of(fit, k.free, (curvature_of,)) <= AFFORDABLE
    if affordable and name in smoothness.SMOOTH and curvature_of(fit).mu > 0:
        note = f"so f − f* ≤ ‖∇f‖²/2μ = {norm**2 / (2 * curvature_of(fit).mu):.2g}"
    advice = "run longer (max_iter), with method='lbfgs' or 'newton', or ask for less (tol)"
    kind = k.PROVED if name else k.RULE_OF_THUMB
    return k.at_most(norm, float(fit.tol) + error, advice, "‖∇f‖", note, kind=kind)


@k.proved(
    "f curves down in no direction at the last point",
    "ML Implementation Issues",
    needs=(lowest_curvature,),
)
def second_order(fit: k.Fit) -> k.Evidence:
    """The least eigenvalue of the Hessian over the largest in size: ∇²f ⪰ 0 is necessary for a minimum, not sufficient."""
    lowest = lowest_curvature(fit)
    if lowest.largest == 0:
        return k.unknown("f is flat to second order here")
    ratio, flat = lowest.value / lowest.largest, _flat(fit)
    advice = "this is a saddle point: begin elsewhere, or use method='noisy'"
    note = "necessary for a minimum, not sufficient"
    return k.at_least(ratio, -flat, advice, "λ_min/|λ|_max", note, kind=lowest.kind)


def _flat(fit: k.Fit) -> float:
    """The share of the largest curvature that is zero to rounding, or to differences."""
    proved = lowest_curvature(fit).kind == k.PROVED
    return k.rounding(np.float64, np.size(fit.x)) if proved else CURVED_DOWN


@k.rule_of_thumb(
    "no lower point lies along the direction that curves down most",
    "CIL 4.3.4",
    needs=(lowest_curvature,),
)
def saddle_escaped(fit: k.Fit) -> k.Evidence:
    """The fall of f along that direction, beyond what its slope explains; none where nothing curves down."""
    lowest, x = lowest_curvature(fit), np.asarray(fit.x)
    if lowest.value >= -_flat(fit) * lowest.largest:
        return k.at_most(0.0, 0.0, unit="fall", kind=lowest.kind, note="nothing curves down here")
    here = evaluate(fit.objective_, x)
    v = lowest.direction
    slope, fall = abs(float(np.vdot(here.gradient, v))), 0.0
    for length in (1 + float(np.linalg.norm(x))) * 10.0 ** np.arange(-4, 1):
        for sign in (1, -1):
            there = evaluate(fit.objective_, (x + sign * length * v).astype(x.dtype))
            fall = max(fall, here.value - there.value - slope * length)
    advice = "the run stands at a saddle point: use method='noisy', or begin elsewhere"
    bound = k.rounding(x.dtype, terms_of(fit)) * max(here.value_scale, 1e-300)
    # a lower point is a witness: it proves that this is no minimum
    return k.at_most(
        fall, bound, advice, unit="fall", kind=k.PROVED if fall > bound else k.RULE_OF_THUMB
    )


# --- with constraints -------------------------------------------------------------------------------------------------


@k.proved("the last point lies in the constraint set", "ML Constrained Optimization")
def feasible(fit: k.Fit) -> k.Evidence:
    x, facts = np.asarray(fit.x, dtype=np.float64), fit.constraint_.facts
    off, scale = (float(np.linalg.norm(vector)) for vector in (x - nearest(facts, x), x))
    for v in map(np.asarray, facts[1].values()):
        scale = max(scale, float(np.abs(v[np.isfinite(v)]).max(initial=0.0)), 1e-300)
    bound = k.rounding(np.asarray(fit.x).dtype, x.size) * scale
    return k.at_most(off, bound, "project the point onto the set", unit="distance")


@k.proved(
    "no feasible direction leads down: ‖x − P(x − η∇f)‖/η ≤ tol",
    "ML Projected Gradient Descent",
    needs=(curvature_of,),
)
def projected_gradient_small(fit: k.Fit) -> k.Evidence:
    """The projected-gradient residual at η = 1/L; where set and f are convex, also what f may be above its minimum."""
    x, facts = np.asarray(fit.x), fit.constraint_.facts
    here, found = evaluate(fit.objective_, x), curvature_of(fit)
    if not found.L > 0:
        return k.unknown("f is flat here")
    target = x - here.gradient / found.L
    residual = found.L * float(np.linalg.norm(x - nearest(facts, target)))
    size = found.L * float(np.linalg.norm(x)) + here.gradient_scale
    bound = float(fit.tol) * (1 + 1e-6) + k.rounding(np.float64, x.size) * size
    notes = [found.note] if found.note else []
    least = least_slope(facts, here.gradient)
    convex = facts[0] in CONVEX and smoothness.is_convex(fit.objective_)
    if convex and math.isfinite(least):
        gap = max(float(np.vdot(here.gradient, np.asarray(x, np.float64))) - least, 0.0)
        notes.append(f"so f − f* ≤ {gap:.2g}")
    advice = "run longer (max_iter), or ask for less (tol)"
    return k.at_most(residual, bound, advice, "residual", "; ".join(notes), kind=found.kind)


def _conditions(fit: k.Fit) -> tuple[Array, Array, Array, Array]:
    x, parts = np.asarray(fit.x), []
    for condition in (fit.conditions_.equal, fit.conditions_.at_most):
        none = np.zeros(0), np.zeros((0, x.size))
        values, jacobian = none if condition is None else condition(x)
        parts += [np.atleast_1d(values), np.atleast_2d(jacobian)]
    return tuple(parts)  # type: ignore[return-value]


@k.proved("the conditions are met within tol", "ML Constrained Optimization")
def conditions_met(fit: k.Fit) -> k.Evidence:
    h, _, g, _ = _conditions(fit)
    worst = max(np.abs(h).max(initial=0.0), g.max(initial=0.0))
    advice = "raise max_iter, or use method='augmented_lagrangian', whose error does not follow the penalty"
    return k.at_most(worst, float(fit.tol), advice, unit="violation")


@k.proved(
    "the multipliers balance the gradient: ∇f + Jᵀλ = 0, ν ≥ 0, ν or g = 0, within tol",
    "ML Constrained Optimization",
    cost=evaluations(2),
)
def multipliers_balance(fit: k.Fit) -> k.Evidence:
    """The largest of ‖∇f + Jₕᵀλ + J_gᵀν‖, minus the least ν, and |min(ν, −g)|: the conditions of Karush, Kuhn and Tucker."""
    _, J, g, K = _conditions(fit)
    lam, nu = (np.asarray(part, np.float64) for part in fit.multipliers_)
    gradient = evaluate(fit.objective_, np.asarray(fit.x)).gradient
    parts = (
        float(np.linalg.norm(gradient + J.T @ lam + K.T @ nu)),
        float((-nu).max(initial=0.0)),
        float(np.abs(np.minimum(nu, -g)).max(initial=0.0)),
    )
    scale = max(1.0, float(np.linalg.norm(gradient)))
    advice = "raise max_iter; if it stays, the conditions' gradients depend on each other there, and no multipliers exist"
    return k.at_most(max(parts), float(fit.tol) * scale, advice, unit="imbalance")
