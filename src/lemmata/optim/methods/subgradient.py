"""Sub-gradient steps: for convex functions with kinks, where a step may well go uphill.

    x ← P(x − ηₜgₜ),  gₜ in ∂f(xₜ)                                                     ML "Subgradient Descent"

The function need not fall, but the distance to a minimum does on the whole. Summing ‖xₜ₊₁ − x*‖² ≤ ‖xₜ − x*‖² − 2ηₜ(f(xₜ) −
f*) + ηₜ²‖gₜ‖² over the steps,

    min_t f(xₜ) − f*   and   f(x̄) − f*   are at most   (‖x₀ − x*‖² + Σηₜ²‖gₜ‖²) / 2Σηₜ,          x̄ = Σηₜxₜ/Σηₜ

which is of the order RG/√T for ηₜ ∝ 1/√t (or the constant R/G√T), and no method of this kind is faster on all such functions.
So the answer is the *best* iterate; the average is kept beside it. A constraint set of diameter D bounds ‖x₀ − x*‖ by D, and
then the right-hand side is a number: the certificate states it.

    >>> import numpy as np
    >>> from lemmata.core import MaxSteps, run
    >>> from lemmata.optim.schedules import PowerDecay
    >>> median = np.array([1.0, 2.0, 7.0])                              # Σ|x − aᵢ|: least at the median
    >>> def f(x):
    ...     return float(np.abs(x - median).sum()), np.array([np.sign(x - median).sum()])
    >>> run(SubgradientDescent(f, np.array([9.0]), PowerDecay(1.0, r=0.5)), None, stop=MaxSteps(400)).state.best.round(1)
    array([2.])
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from lemmata.core.store import storable
from lemmata.optim.functions import Function
from lemmata.optim.methods.base import NAN, PointMethod
from lemmata.optim.schedules import Schedule, check_step_size, rate

Array = np.ndarray


@storable
@dataclass(frozen=True)
class SubgradientState:
    """The iterate, the best one so far, their average with weights ηₜ, and the two sums of the bound."""

    version = 1

    x: Array
    gradient: Array  # a sub-gradient at x
    loss: float  # f(x)
    best: Array
    best_loss: float
    average: Array
    steps: int
    sum_steps: float  # Σηₜ
    sum_squares: float  # Σηₜ²‖gₜ‖²
    step_size: float


@dataclass(frozen=True)
class SubgradientDescent(PointMethod):
    """x ← P(x − ηₜgₜ), keeping the best point.

    Parameters
    ----------
    function : callable
        x -> (value, a sub-gradient).
    step_size : float or Schedule
        ηₜ; PowerDecay(η, r=0.5) needs to know no number of steps beforehand.
    constraint : callable, optional
        The nearest point of a convex set.
    """

    function: Function
    start: Array
    step_size: float | Schedule
    constraint: Callable[[Array], Array] | None = None

    draws: ClassVar[bool] = False
    hint: ClassVar[str] = "lower step_size"

    def __post_init__(self):
        check_step_size(self.step_size)

    def init(self, data: Any, rng: Any) -> SubgradientState:
        x = self._nearest(self.start)
        value, g = self._evaluate(x)
        return SubgradientState(x, g, value, x, value, x, 0, 0.0, 0.0, NAN)

    def step(self, state: SubgradientState, data: Any) -> SubgradientState:
        x, g, eta = state.x, state.gradient, rate(self.step_size, state.steps)
        total = state.sum_steps + eta
        average = state.average + (x - state.average) * x.dtype.type(eta / total)
        squares = state.sum_squares + eta**2 * float(np.vdot(g, g))
        x = self._nearest(x - x.dtype.type(eta) * g)
        value, g = self._evaluate(x)
        best, best_loss = (x, value) if value < state.best_loss else (state.best, state.best_loss)
        steps = state.steps + 1
        return SubgradientState(x, g, value, best, best_loss, average, steps, total, squares, eta)

    def objective(self, state: SubgradientState) -> float:
        return state.best_loss if np.isfinite(state.loss) else state.loss

    def extras(self, state: SubgradientState) -> dict[str, float]:
        norm = float(np.linalg.norm(state.gradient))
        return {"gradient": norm, "step_size": state.step_size, "current": state.loss}

    def attributes(self, state: SubgradientState) -> dict[str, Any]:
        return {"params_": (state.best,), "loss_": state.best_loss, "average_": state.average}


def gap_bound(state: SubgradientState, radius: float) -> float:
    """(R² + Σηₜ²‖gₜ‖²)/2Σηₜ, at least f(best) − f* for a convex f with a minimum within R of the start."""
    if state.sum_steps == 0:
        return float("inf")
    return (radius**2 + state.sum_squares) / (2 * state.sum_steps)
