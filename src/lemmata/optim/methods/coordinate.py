"""Coordinate descent: one number at a time, each by the curvature along its own axis.

    x_j ← x_j − ∂_j f(x)/L_j,   j = 1 … d;  a sweep is a step

On a quadratic the curvature along an axis is constant and every update is exact (Gauss–Seidel); elsewhere f falls by at least
(∂_j f)²/2L_j. An objective that keeps what changes (residuals, scores) makes an update cost a column rather than the data:
`coordinate_curvatures`, `begin_sweep`, `partial`, `move` (objectives.py). Any other function is asked for a whole gradient per
coordinate, and its L_j are found by doubling.

    >>> import numpy as np
    >>> from lemmata.core import MaxSteps, SmallGradient, run
    >>> from lemmata.optim.objectives import Quadratic
    >>> f = Quadratic(np.array([[2.0, 1.0], [1.0, 3.0]]), b=np.array([3.0, 4.0]))
    >>> run(CoordinateDescent(f, np.zeros(2)), None, stop=SmallGradient(1e-9) | MaxSteps(50)).state.x.round(6)
    array([1., 1.])
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np

from lemmata.core.store import storable
from lemmata.optim.functions import Function
from lemmata.optim.methods.base import PointMethod

Array = np.ndarray
MOST_DOUBLINGS = 100


@runtime_checkable
class Coordinatewise(Protocol):
    """An objective that can be followed along its axes."""

    def coordinate_curvatures(self) -> Array: ...

    def begin_sweep(self, x: Array) -> Array:
        """Start a sweep: return the array that `move` keeps up to date."""
        ...

    def partial(self, x: Array, kept: Array, j: int) -> float: ...

    def move(self, kept: Array, j: int, by: float) -> None:
        """Let `kept` follow x_j by so much, in place."""
        ...


@storable
@dataclass(frozen=True)
class CoordinateState:
    """The point after some sweeps, the whole gradient there, and the curvatures along the axes."""

    version = 1

    x: Array
    gradient: Array
    loss: float
    curvatures: Array


@dataclass(frozen=True)
class CoordinateDescent(PointMethod):
    """Sweeps over the coordinates of a function."""

    function: Function
    start: Array
    curvature: float = 1.0  # the first L_j of a function that does not know them

    draws: ClassVar[bool] = False

    def init(self, data: Any, rng: Any) -> CoordinateState:
        if isinstance(self.function, Coordinatewise):
            curvatures = np.asarray(self.function.coordinate_curvatures(), dtype=np.float64)
        else:
            curvatures = np.full(self.start.size, float(self.curvature))
        return self._at(self.start, curvatures)

    def step(self, state: CoordinateState, data: Any) -> CoordinateState:
        known = isinstance(self.function, Coordinatewise)
        return self._sweep(state) if known else self._sweep_by_doubling(state)

    def _sweep(self, state: CoordinateState) -> CoordinateState:
        f: Any = self.function
        x = state.x.copy()
        kept = f.begin_sweep(x)
        for j in range(x.size):
            if state.curvatures[j] > 0:  # a column of zeros: f does not depend on x_j
                by = -f.partial(x, kept, j) / state.curvatures[j]
                x[j] += by
                f.move(kept, j, x.dtype.type(by))
        return self._at(x, state.curvatures)

    def _sweep_by_doubling(self, state: CoordinateState) -> CoordinateState:
        x, curvatures = state.x.copy(), state.curvatures / 2  # it may be flatter here
        flat, slack = x.reshape(-1), 100 * np.finfo(x.dtype).eps
        value, gradient = state.loss, state.gradient
        for j in range(flat.size):
            here, slope = flat[j], float(gradient.reshape(-1)[j])
            for _ in range(MOST_DOUBLINGS):
                flat[j] = here - slope / curvatures[j]
                new, new_gradient = self.function(x)
                after = abs(float(np.asarray(new_gradient).reshape(-1)[j]))
                promised, coarse = slope**2 / (2 * curvatures[j]), slack * abs(value)
                # near a minimum f is too coarse to judge by; its slope is not
                if new <= value - promised or (promised <= coarse and after <= 0.5 * abs(slope)):
                    value, gradient = float(new), np.asarray(new_gradient)
                    break
                curvatures[j] *= 2
            else:
                flat[j] = here
        return self._at(x, curvatures)

    def _at(self, x: Array, curvatures: Array) -> CoordinateState:
        value, gradient = self._evaluate(x)
        return CoordinateState(x, gradient, value if math.isfinite(value) else math.inf, curvatures)

    def extras(self, state: CoordinateState) -> dict[str, float]:
        return {"gradient": float(np.linalg.norm(state.gradient))}
