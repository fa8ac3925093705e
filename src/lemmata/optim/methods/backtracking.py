"""Steps whose length is found on the way: by a curvature that is doubled where it was too small, or by a search along a line.

    BackoffDescent     x ← P(x − g/ℓ), ℓ doubled until  f(x⁺) ≤ f + gᵀ(x⁺ − x) + ½ℓ‖x⁺ − x‖²          the test of CIL (4.36)
    LineSearchDescent  x ← x + tp,  p = −g or another direction (Newton's: newton.py), t by Armijo or by Wolfe

    armijo   f(x + tp) ≤ f(x) + c₁t gᵀp                     enough decrease: halve t until it holds
    wolfe    … and  ∇f(x + tp)ᵀp ≥ c₂ gᵀp                   … and enough progress: the slope has risen; t between two bounds

Both conditions can be met along every direction of descent on which f is bounded below (ML "Line-search methods").

    >>> import numpy as np
    >>> from lemmata.optim.objectives import Quadratic
    >>> f, x = Quadratic(np.diag([1.0, 10.0])), np.array([1.0, 1.0])
    >>> armijo(f, x, -f(x)[1]).step, wolfe(f, x, -f(x)[1]).step
    (0.125, 0.125)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from lemmata.core.store import storable
from lemmata.optim.functions import Function
from lemmata.optim.methods.base import NAN, PointMethod

Array = np.ndarray
MOST_HALVINGS = 60
TINY = np.finfo(float).tiny


# --- along a line -----------------------------------------------------------------------------------------------------


class LinePoint(NamedTuple):
    """The end of a search along a line: a step of 0 if no point on it was better."""

    step: float
    point: Array
    value: float
    gradient: Array


def armijo(
    function: Function,
    x: Array,
    direction: Array,
    *,
    step: float = 1.0,
    c1: float = 1e-4,
    at: Any = None,
) -> LinePoint:
    """The first of step, step/2, step/4, … that lowers f by c₁ of what its slope promises. `at`: f(x), if it is known."""
    value, gradient = function(x) if at is None else at
    slope = _slope(gradient, direction)
    for _ in range(MOST_HALVINGS):
        point = x + x.dtype.type(step) * direction
        new, new_gradient = function(point)
        if new <= value + c1 * step * slope and (point != x).any():
            return LinePoint(step, point, float(new), np.asarray(new_gradient, x.dtype))
        step /= 2
    return LinePoint(0.0, x, float(value), np.asarray(gradient))


def wolfe(
    function: Function,
    x: Array,
    direction: Array,
    *,
    step: float = 1.0,
    c1: float = 1e-4,
    c2: float = 0.9,
    at: Any = None,
) -> LinePoint:
    """A step that meets both conditions of Wolfe, by doubling and bisection (Lewis & Overton 2013)."""
    if not 0 < c1 < c2 < 1:
        raise ValueError(f"c1={c1}, c2={c2} are not accepted; pass 0 < c1 < c2 < 1.")
    value, gradient = function(x) if at is None else at
    slope, low, high = _slope(gradient, direction), 0.0, math.inf
    best = LinePoint(0.0, x, float(value), np.asarray(gradient))
    if slope == 0:
        return best
    for _ in range(MOST_HALVINGS):
        point = x + x.dtype.type(step) * direction
        new, new_gradient = function(point)
        if not new <= value + c1 * step * slope:
            high = step
        else:
            best = LinePoint(step, point, float(new), np.asarray(new_gradient, x.dtype))
            if float(np.vdot(new_gradient, direction)) >= c2 * slope:
                return best
            low = step
        step = 2 * low if math.isinf(high) else (low + high) / 2
    return best if (best.point != x).any() else LinePoint(0.0, x, float(value), best.gradient)


def _slope(gradient: Any, direction: Array) -> float:
    slope = float(np.vdot(gradient, direction))
    if not slope <= 0:
        raise ValueError(
            f"the slope along this direction is {slope:.3g}; a line search needs a direction of descent."
        )
    return slope


SEARCHES: dict[str, Callable[..., LinePoint]] = {"armijo": armijo, "wolfe": wolfe}


@storable
@dataclass(frozen=True)
class SearchState:
    """A point with its value and gradient, the step that led to it, and whether no better one was found from it."""

    version = 1

    x: Array
    gradient: Array
    loss: float
    step_size: float
    moved: float
    stuck: bool = False


def measures(state: Any) -> dict[str, float]:
    """Measurements for the trace, of a point that a search or a back-off led to."""
    residual = state.moved / state.step_size if state.step_size else NAN
    return {
        "gradient": float(np.linalg.norm(state.gradient)),
        "step_size": state.step_size,
        "residual": residual,
    }


def steepest(x: Array, gradient: Array) -> Array:
    return -gradient


@dataclass(frozen=True)
class LineSearchDescent(PointMethod):
    """x ← x + tp with t from a line search.

    Parameters
    ----------
    function : callable
        x -> (value, gradient).
    start : array
    search : {"armijo", "wolfe"}
    direction : callable (x, gradient) -> p
        A direction of descent; minus the gradient if not given.
    first : float
        The step that is tried first. Steepest descent tries twice the step before, other directions this one.
    """

    function: Function
    start: Array
    search: str = "armijo"
    direction: Callable[[Array, Array], Array] = steepest
    first: float = 1.0

    draws: ClassVar[bool] = False
    hint: ClassVar[str] = "see whether f has a minimum at all, or pass a constraint"

    def init(self, data: Any, rng: Any) -> SearchState:
        value, gradient = self._evaluate(self.start)
        return SearchState(self.start, gradient, value, NAN, NAN)

    def step(self, state: SearchState, data: Any) -> SearchState:
        p = self.direction(state.x, state.gradient)
        again = self.direction is steepest and state.step_size > 0
        first = 2 * state.step_size if again else self.first
        at = state.loss, state.gradient
        found = SEARCHES[self.search](self.function, state.x, p, step=first, at=at)
        if found.step == 0:  # rounding: f cannot be seen to fall any more
            return SearchState(state.x, state.gradient, state.loss, 0.0, 0.0, stuck=True)
        moved = float(np.linalg.norm(found.point - state.x))
        return SearchState(found.point, found.gradient, found.value, found.step, moved)

    def finished(self, state: SearchState) -> bool:
        return state.stuck

    def extras(self, state: SearchState) -> dict[str, float]:
        return measures(state)


# --- by a curvature ---------------------------------------------------------------------------------------------------


@storable
@dataclass(frozen=True)
class BackoffState:
    """A point with its value and gradient, and the curvature ℓ that the last step was made with."""

    version = 1

    x: Array
    gradient: Array
    loss: float
    curvature: float
    step_size: float
    moved: float
    stuck: bool = False


@dataclass(frozen=True)
class BackoffDescent(PointMethod):
    """x ← P(x − g/ℓ) with ℓ found on the way, for functions whose L is not known.

    Where the test of (4.36) fails, ℓ is too small *here* and is doubled; so f never rises, and a step is at least 1/2L
    wherever L holds. Each step begins a little longer than the one before, since f may be flatter further on.

    Parameters
    ----------
    curvature : float
        The first ℓ, such as `smoothness(f, x0)`.
    constraint : callable, optional
        The nearest point of a set.
    """

    function: Function
    start: Array
    curvature: float
    constraint: Callable[[Array], Array] | None = None
    relax: float = 0.9

    draws: ClassVar[bool] = False

    def init(self, data: Any, rng: Any) -> BackoffState:
        x = self._nearest(self.start)
        value, gradient = self._evaluate(x)
        return BackoffState(x, gradient, value, self.curvature, NAN, NAN)

    def step(self, state: BackoffState, data: Any) -> BackoffState:
        x, g, curvature = state.x, state.gradient, max(self.relax * state.curvature, TINY)
        slack = 4 * np.finfo(x.dtype).eps * abs(state.loss)  # f itself is known no better
        for _ in range(2 * MOST_HALVINGS):
            new = self._nearest(x - x.dtype.type(1 / curvature) * g)
            value, gradient = self._evaluate(new)
            d = new - x
            size = float(np.vdot(d, d))
            promised = state.loss + float(np.vdot(g, d)) + 0.5 * curvature * size
            if value <= promised + slack and math.isfinite(value):
                if not size:
                    break
                length = math.sqrt(size)
                return BackoffState(new, gradient, value, curvature, 1 / curvature, length)
            curvature *= 2
        return BackoffState(x, g, state.loss, state.curvature, 0.0, 0.0, stuck=True)

    def finished(self, state: BackoffState) -> bool:
        return state.stuck

    def extras(self, state: BackoffState) -> dict[str, float]:
        return measures(state)
