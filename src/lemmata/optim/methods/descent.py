"""Minimise a smooth function with any optimiser, on the whole space or on a set with a projection.

>>> import numpy as np
>>> from lemmata.core import MaxSteps, SmallGradient, run
>>> from lemmata.optim import GradientDescent
>>> def bowl(params, data):                                   # ½‖x − data‖² and its gradient
...     residual = params[0] - data
...     return 0.5 * float(residual @ residual), (residual,)
>>> descent = Descent(bowl, GradientDescent(0.5), start=(np.zeros(2),))
>>> solution = run(descent, np.array([1.0, 2.0]), stop=SmallGradient(1e-9) | MaxSteps(100))
>>> solution.stopped, solution.attributes["params_"][0].round(6)
('small gradient', array([1., 2.]))

With a constraint every step is followed by its projection, x ← P(x − η∇f(x)). What then vanishes at a minimum is not the
gradient but the *residual* (x − P(x − η∇f(x)))/η, which is the gradient where nothing is projected.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from lemmata.core.files.layout import check_alike
from lemmata.core.store import storable
from lemmata.optim.methods.base import NAN
from lemmata.optim.schedules import rate
from lemmata.optim.steps import Optimizer, OptState, Params, combine, gradient_norm


@storable
@dataclass(frozen=True)
class DescentState:
    """Where the iterate is, the function and its gradient there, and what the optimiser remembers."""

    version = 2

    params: Params
    gradient: Params
    loss: float
    memory: OptState
    step_size: float = NAN  # η of the step that led here; NaN at the start
    moved: float = NAN  # how far that step went

    @classmethod
    def upgrade(cls, fields: dict[str, Any], version: int) -> dict[str, Any]:
        """Version 1 did not say how it was reached."""
        return {**fields, "step_size": NAN, "moved": NAN}

    @property
    def measures(self) -> dict[str, float]:
        """Measurements for the trace: ‖∇f‖, and the step that led to this state with the residual that it had."""
        return {
            "gradient": gradient_norm(self.gradient),
            "step_size": self.step_size,
            "residual": self.moved / self.step_size,
        }


@dataclass(frozen=True)
class Descent:
    """The optimiser's steps on function(params, data) -> (value, gradient), from `start`.

    Parameters
    ----------
    function : callable
        Gives the value, a float, and the gradient, a tuple of arrays shaped like the parameters. For runs with a checkpoint
        make it a frozen dataclass with `__call__`: its fields then tell whether a file belongs to this very function.
    optimizer : Optimizer
    start : tuple of arrays
    constraint : callable, optional
        The nearest point of a set (projections.py), applied to every array of the parameters after each step.
    """

    function: Callable[[Params, Any], tuple[float, Params]]
    optimizer: Optimizer
    start: Params
    constraint: Callable[[Any], Any] | None = None

    hint: ClassVar[str] = "lower the step size of the optimiser"

    def init(self, data: Any, rng: np.random.Generator) -> DescentState:
        if not isinstance(self.start, tuple):
            raise TypeError(
                f"start is a {type(self.start).__name__}; pass a tuple of arrays, (x,) for a single one."
            )
        start = self._nearest(self.start)
        state = self._at(start, self.optimizer.init(start), data)
        shapes, slopes = (
            [np.shape(one) for one in part] for part in (state.params, state.gradient)
        )
        if shapes != slopes:
            raise ValueError(
                f"the gradient has shapes {slopes}, the parameters {shapes}; they must agree."
            )
        return state

    def check_state(self, state: DescentState, data: Any) -> None:
        """ValueError where a state from a file is none of these parameters."""
        check_alike(self.start, state.params, state.gradient, *state.memory.slots)
        if len(state.memory.slots) != len(self.optimizer.init(self.start).slots):
            raise ValueError(f"the optimizer remembers {len(state.memory.slots)} things.")

    def step(self, state: DescentState, data: Any) -> DescentState:
        eta = rate(self.optimizer.step_size, state.memory.count)
        params, memory = self.optimizer.step(state.memory, state.params, state.gradient)
        params = self._nearest(params)
        moved = gradient_norm(combine(1.0, params, -1.0, state.params))
        return self._at(params, memory, data, eta, moved)

    def _nearest(self, params: Params) -> Params:
        return params if self.constraint is None else tuple(map(self.constraint, params))

    def _at(
        self, params: Params, memory: OptState, data: Any, eta: float = NAN, moved: float = NAN
    ) -> DescentState:
        loss, gradient = self.function(params, data)
        return DescentState(params, gradient, float(loss), memory, eta, moved)

    def objective(self, state: DescentState) -> float:
        return state.loss

    def extras(self, state: DescentState) -> dict[str, float]:
        return state.measures

    def attributes(self, state: DescentState) -> dict[str, Any]:
        return {"params_": state.params, "loss_": state.loss}
