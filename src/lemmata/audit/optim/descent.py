"""Claims about descent: steps that are short enough, decrease, rates, and what is true where a run ended.

With an L-smooth f and a step η < 2/L (CIL 4.3.2; with a projection the same of the residual G in place of ∇f),

    f(xₜ) − f(xₜ₊₁) ≥ η(1 − Lη/2)‖∇f(xₜ)‖²                          (4.37); at η = 1/L it is ‖∇f‖²/2L   (4.38)
    ‖∇f(xₜ)‖ ≤ ε  for some  t ≤ (f(x₀) − f*) / η(1 − Lη/2)ε²         Thm 4.3.1; at η = 1/L 2L(f(x₀) − f*)/ε²
    f(xₜ) − f* ≤ ρᵗ(f(x₀) − f*),  ρ = 1 − μη(2 − Lη)                 Thm 4.3.2; on a quadratic ρ = max (1 − ηλ)²   (4.35)

These are proofs where L and μ follow from a formula that the audit knows (smoothness.py). Elsewhere L is measured on
the line from the first to the last point, from below, and they are rules of thumb: a point beside it may be more curved.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from lemmata.audit.kernel import claims as k
from lemmata.audit.optim import minima, smoothness
from lemmata.audit.optim.constraints import CONVEX, diameter
from lemmata.audit.optim.minima import scale_of, terms_of
from lemmata.audit.optim.smoothness import curvature_of, minimum_between, structure_of
from lemmata.core.runs.trace import decay_rate

Array = np.ndarray
RATE_SLACK = 0.05  # of a rate fitted to a tail: traces of faster modes
WITHIN = 0.01  # of f: what the sub-gradient bound is compared with


class StepsMade:
    """A run as arrays: f before and after each step, its η, and the residual ‖G‖ that it began with."""

    def __init__(self, fit: k.Fit):
        self.values, extras = fit.trace.objective, fit.trace.extras
        self.eta = extras["step_size"][1:] if "step_size" in extras else np.zeros(0)
        constraint = fit.get("constraint_")
        constrained = constraint is not None
        self.residual = extras["residual"][1:] if constrained else extras["gradient"][:-1]
        self.convex = not constrained or constraint.facts[0] in CONVEX
        self.tested = bool(fit.get("tested_", False))  # every step was tested against (4.36)
        # a last row without a step: nothing better was found
        made = self.eta > 0
        self.eta, self.residual = self.eta[made], self.residual[made]
        self.fall = (self.values[:-1] - self.values[1:])[made]

    def __len__(self) -> int:
        return len(self.eta)

    def curvature_seen(self, scale: float) -> float:
        """The largest L that (4.36) needs to explain a step: 2(f(x⁺) − f(x) + η‖g‖²)/η²‖g‖², where that is above rounding."""
        moved = self.eta * self.residual**2
        clear = moved > 1e6 * float(np.finfo(float).eps) * scale
        needed = 2 * (moved - self.fall)[clear] / (self.eta * moved)[clear]
        return float(needed.max(initial=0.0))

    def promise(self, fit: k.Fit) -> tuple[Array, str, str]:
        """η(1 − Lη/2), or half of η where each step was tested with an L of 1/η; less where the set is not convex.

        With its kind, and a note on L.
        """
        if self.tested:
            return self.eta / 2, k.RULE_OF_THUMB, "L taken as 1/η, which each step was tested with"
        found = curvature_of(fit)
        shares = (1 if self.convex else 0.5) - found.L * self.eta / 2
        return self.eta * shares, found.kind, found.note


def _cost_of_promise(fit: k.Fit) -> float:
    """The price of L; steps that were tested one by one need it from a formula only, to bound f*."""
    measured = bool(fit.get("tested_", False)) and not structure_of(fit.objective_)[0]
    return 0.0 if measured else k.price_of(fit, k.free, (curvature_of,))


# --- the run ----------------------------------------------------------------------------------------------------------


@k.proved("every step is shorter than 2/L", "CIL (4.32)", about="run", needs=(curvature_of,))
def step_below_2_over_L(fit: k.Fit) -> k.Evidence:
    """The longest step in units of 1/L; at 2 and beyond, the most curved direction of a quadratic grows."""
    steps, found = StepsMade(fit), curvature_of(fit)
    if not len(steps):
        return k.unknown("no step was made")
    limit, L = math.nextafter(2.0, 0.0), found.L
    if found.kind != k.PROVED:
        L = max(L, steps.curvature_seen(scale_of(fit)))
    advice = f"pass step_size below {2 / L:.3g}, or step_size='auto'" if L else ""
    return k.at_most(
        float(steps.eta.max()) * L, limit, advice, "step·L", found.note, kind=found.kind
    )


@k.proved(
    "every step lowered f by at least η(1 − Lη/2)‖∇f‖²",
    "CIL (4.37), (4.38)",
    about="run",
    cost=_cost_of_promise,
)
def enough_decrease(fit: k.Fit) -> k.Evidence:
    """The largest shortfall behind (4.37) as a share of |f|; with a constraint the residual stands in place of the gradient."""
    steps = StepsMade(fit)
    if not len(steps):
        return k.unknown("no step was made")
    promise, kind, note = steps.promise(fit)
    if (promise <= 0).any():
        return k.unknown("a step this long promises no decrease")
    scale = max(scale_of(fit), 1e-300)
    short = float((promise * steps.residual**2 - steps.fall).max()) / scale
    error = k.rounding(np.asarray(fit.x).dtype, terms_of(fit))
    advice = "f is more curved somewhere than L says, or its gradient is wrong: lower step_size, or see gradient_matches"
    return k.at_most(max(short, 0.0), error, advice, "shortfall", note, kind=kind)


@k.proved(
    "f − f* shrank as fast as predicted",
    "CIL (4.35), Thm 4.3.2",
    about="run",
    needs=(curvature_of,),
)
def rate_kept(fit: k.Fit) -> k.Evidence:
    """The largest (gapₜ/gap₀)^(1/t) against 1 − μη(2 − Lη), on a quadratic against max (1 − ηλ)² over its eigenvalues."""
    steps, found = StepsMade(fit), curvature_of(fit)
    if not len(steps):
        return k.unknown("no step was made")
    if steps.tested or np.ptp(steps.eta) > 1e-9 * steps.eta.max():
        return k.unknown("the rates of theory are those of a constant step")
    eta = float(steps.eta[0])
    if eta * found.L >= 2:
        return k.unknown("a step of 2/L or more has no rate")
    if found.kind != k.PROVED:
        return _tail_rate(fit, eta)
    if found.mu <= 0:
        return k.unknown("no μ > 0 is known, so no rate is promised")
    predicted = 1 - found.mu * eta * (2 - found.L * eta)
    if structure_of(fit.objective_)[0] != "logistic":
        values = smoothness.eigenvalues(fit.objective_)
        assert values is not None
        positive = values[values >= found.mu]
        predicted = float(((1 - eta * positive) ** 2).max())
    slack = k.rounding(np.asarray(fit.x).dtype, terms_of(fit)) * scale_of(fit)
    below, above = minimum_between(fit)
    advice = "something disturbed the steps: check that f and its gradient are the formula's, and compute in float64"
    worst = [_worst_rate(steps.values, f_star, slack) for f_star in (below, above)]
    bound = predicted * (1 + 1e-9) + 1e-12
    if worst[0] <= bound or worst[1] > bound:
        measured = worst[0] if worst[0] <= bound else worst[1]
        return k.at_most(measured, bound, advice, unit="per step", note=found.note, kind=k.PROVED)
    return k.unknown("f* is not known well enough: run until the gradient is smaller")


def _worst_rate(values: Array, f_star: float, slack: float) -> float:
    first = values[0] - f_star
    if len(values) < 2 or not first > 0:
        return 0.0
    ratios = np.maximum(values - f_star - slack, 0.0)[1:] / first
    return float(np.max(ratios ** (1.0 / np.arange(1, len(values)))))


def _tail_rate(fit: k.Fit, eta: float) -> k.Evidence:
    """‖∇f‖² in the lower half of its decades against the Hessian at the end: what a run near a minimum should do."""
    lowest = smoothness.lowest_curvature(fit)
    if lowest.value <= minima.CURVED_DOWN * lowest.largest:
        return k.unknown("the curvature at the end is not positive in every direction")
    logs = 2 * np.log(np.maximum(fit.trace.extras["gradient"], 1e-300))
    measured = decay_rate(logs, least=5)
    if math.isnan(measured) or logs.max() - logs[-1] < math.log(100):
        return k.unknown("too few steps near the end to fit a rate to")
    predicted = max((1 - eta * lowest.value) ** 2, (1 - eta * lowest.largest) ** 2)
    bound = predicted + RATE_SLACK * (1 - predicted)
    advice = "the run is still far from the minimum, or f is not smooth there: run longer"
    note = "predicted by the curvature at the end"
    return k.at_most(measured, bound, advice, "per step", note, kind=k.RULE_OF_THUMB)


@k.proved(
    "a gradient of at most tol was found within the steps that smoothness promises",
    "CIL Thm 4.3.1",
    about="run",
    cost=_cost_of_promise,
)
def critical_in_time(fit: k.Fit) -> k.Evidence:
    """The first step at which ‖∇f‖ ≤ ε against (f(x₀) − f*)/η(1 − Lη/2)ε²; f* is known between two bounds."""
    steps, tol = StepsMade(fit), float(fit.tol)
    # a run with a constraint does not measure the residual of its last point
    last = fit.trace.last("gradient") if fit.get("constraint_") is None else math.inf
    reached = np.flatnonzero(np.r_[steps.residual, last] <= tol)
    promises, kind, note = steps.promise(fit)
    if not tol > 0:
        return k.unknown("tol = 0 is never promised")
    if not len(steps) and reached.size:
        return k.at_most(0.0, 0.0, unit="steps", kind=kind)
    if not len(steps):
        return k.unknown("no step was made")
    promise = float(promises.min())
    if promise <= 0:
        return k.unknown("a step this long promises nothing")
    below, above = minimum_between(fit)
    first = float(steps.values[0])
    # what the trace shows to have been gained, and what can be gained at most
    least, most = ((first - f_star) / (promise * tol**2) for f_star in (above, below))
    error = k.rounding(np.asarray(fit.x).dtype, terms_of(fit)) * scale_of(fit)
    slack = 1 + error / (promise * tol**2)
    taken = float(reached[0]) if reached.size else float(len(steps))
    advice = "f is more curved than L says, or its gradient is wrong: see gradient_matches"
    if reached.size and taken <= least + slack:
        return k.at_most(taken, least + slack, advice, "steps", note, kind=kind)
    if taken > most + slack:
        return k.at_most(taken, most + slack, advice, "steps", note, kind=kind)
    return k.unknown(f"stopped after {len(steps):,} steps; up to {most:.3g} may be needed")


@k.proved(
    "the step sizes satisfy the conditions of Robbins and Monro: ½ < r ≤ 1 for t^−r",
    "ML SGD Theory",
    about="run",
)
def robbins_monro(fit: k.Fit) -> k.Evidence:
    """r from the formula of the schedule, once the trace shows that the run kept to it; else from values far out."""
    schedule = fit.schedule_
    r, kind, note = _exponent(schedule)
    updates = fit.trace.extras.get("updates", fit.trace.step)[1:]
    said = np.array([_step_at(schedule, int(t) - 1) for t in updates])
    made = fit.trace.extras["step_size"][1:]
    if len(said) and np.abs(said - made).max() > 1e-6 * np.abs(said).max():
        return k.unknown("the run did not keep to its schedule")
    if r > 1:
        advice = "the steps add up to a finite length and may stop short of the minimum: pass PowerDecay with r <= 1"
        return k.at_most(r, 1.0 + (0 if kind == k.PROVED else 1e-6), advice, "r", note, kind=kind)
    advice = "noise shakes the iterates: pass step_size=PowerDecay(η, r=0.75), or any r above ½"
    least = math.nextafter(0.5, 1) if kind == k.PROVED else 0.5 + 1e-6
    return k.at_least(r, least, advice, "r", note, kind=kind)


def _facts(schedule: Any) -> tuple[str, dict[str, float]]:
    """The formula that a schedule names, and its numbers."""
    return getattr(schedule, "facts", ("", {}))


def _step_at(schedule: Any, t: int) -> float:
    """ηₜ, by the formula where one is named."""
    if not callable(schedule):
        return float(schedule)
    name, numbers = _facts(schedule)
    if name == "power":
        return float(numbers["step_size"] / (1 + t / numbers["delay"]) ** numbers["r"])
    if name == "inverse":
        return float(numbers["step_size"] / (1 + numbers["decay"] * t))
    return float(numbers["step_size"]) if name == "constant" else float(schedule(t))


def _exponent(schedule: Any) -> tuple[float, str, str]:
    """r of a schedule: by the formula of its class, or by its values at t = 10⁶⁰ and 2·10⁶⁰."""
    if not callable(schedule):
        return 0.0, k.PROVED, "a constant step"
    name, numbers = _facts(schedule)
    exponents = {
        "constant": lambda: 0.0,
        "power": lambda: float(numbers["r"]),
        "inverse": lambda: 1.0 if numbers["decay"] > 0 else 0.0,
        "step": lambda: math.inf if numbers["factor"] < 1 else 0.0,
        "cosine": lambda: 0.0 if numbers["least"] > 0 else math.inf,
    }
    if name in exponents:
        return exponents[name](), k.PROVED, ""
    near, far = _step_at(schedule, 10**60), _step_at(schedule, 2 * 10**60)
    r = math.inf if far <= 0 else math.log(near / far) / math.log(2)
    return r, k.RULE_OF_THUMB, "r from the steps at t = 10⁶⁰"


@k.proved(
    "f at the best point is proved to be within 1 % (or tol) of its minimum",
    "ML Subgradient Descent",
    about="run",
    needs=(curvature_of,),
)
def subgradient_gap(fit: k.Fit) -> k.Evidence:
    """(R² + Σηₜ²‖gₜ‖²)/2Σηₜ, R the diameter of the constraint set: at least f(best) − f* of a convex f."""
    extras = fit.trace.extras
    eta, norms = extras["step_size"][1:], extras["gradient"][:-1]
    constraint = fit.get("constraint_")
    R = math.inf if constraint is None else diameter(constraint.facts, np.shape(fit.x))
    if not math.isfinite(R):
        return k.unknown("how far the minimum may be is not known; pass a bounded constraint=")
    if not len(eta):
        return k.unknown("no step was made")
    convex = smoothness.is_convex(fit.objective_)
    bound = (R**2 + float((eta**2 * norms**2).sum())) / (2 * float(eta.sum()))
    allowed = max(float(fit.tol), WITHIN * abs(float(fit.value)))
    advice = "the gap falls like 1/√t: raise max_iter fourfold to halve it, or make the constraint set smaller"
    if convex:
        bound = min(bound, float(fit.value) - minimum_between(fit)[0])
        return k.at_most(bound, allowed, advice, unit="gap", kind=k.PROVED)
    note = "if f is convex, which was not checked"
    return k.at_most(bound, allowed, advice, "gap", note, kind=k.RULE_OF_THUMB)


# --- tuples -----------------------------------------------------------------------------------------------------------

_STATED = (minima.SOUND, minima.TRUE)
_BEGIN = (*_STATED, minima.gradient_matches)
_END = (minima.first_order, minima.second_order)
_SET = (minima.feasible, minima.projected_gradient_small)
_RUN = (step_below_2_over_L, enough_decrease)
MINIMISER_CLAIMS = (*_BEGIN, *_END)
POINT_CLAIMS = NOISY_CLAIMS = (*MINIMISER_CLAIMS, minima.saddle_escaped)
STOCHASTIC_CLAIMS = (*MINIMISER_CLAIMS, robbins_monro)
DESCENT_CLAIMS = (*_BEGIN, *_RUN, rate_kept, critical_in_time, *_END)
TESTED_CLAIMS = (*_BEGIN, enough_decrease, critical_in_time, *_END)
KINKED_CLAIMS = (*_STATED, robbins_monro)  # stochastic sub-gradients: no gradient to vanish
SUBGRADIENT_CLAIMS = (*_STATED, subgradient_gap)
PROJECTED_CLAIMS = (*_BEGIN, *_RUN, critical_in_time, *_SET)
PROJECTED_TESTED_CLAIMS = (*_BEGIN, enough_decrease, critical_in_time, *_SET)
PROJECTED_STOCHASTIC_CLAIMS = (*_BEGIN, robbins_monro, *_SET)
PROJECTED_POINT_CLAIMS = (*_BEGIN, *_SET)
PROJECTED_KINKED_CLAIMS = (*KINKED_CLAIMS, minima.feasible)
PROJECTED_SUBGRADIENT_CLAIMS = (*SUBGRADIENT_CLAIMS, minima.feasible)
MULTIPLIER_CLAIMS = (*_BEGIN, minima.conditions_met, minima.multipliers_balance)
