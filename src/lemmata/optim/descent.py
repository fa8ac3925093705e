"""Minimise a smooth function with any optimiser.

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
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from lemmata.core.store import storable
from lemmata.optim.steps import Optimizer, OptState, Params, gradient_norm


@storable
@dataclass(frozen=True)
class DescentState:
    """Where the iterate is, the function and its gradient there, and what the optimiser remembers."""

    version = 1

    params: Params
    gradient: Params
    loss: float
    memory: OptState


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
    """

    function: Callable[[Params, Any], tuple[float, Params]]
    optimizer: Optimizer
    start: Params

    hint: ClassVar[str] = "lower the step size of the optimiser"

    def init(self, data: Any, rng: np.random.Generator) -> DescentState:
        if not isinstance(self.start, tuple):
            raise TypeError(
                f"start is a {type(self.start).__name__}; pass a tuple of arrays, (x,) for a single one."
            )
        state = self._at(self.start, self.optimizer.init(self.start), data)
        shapes = (
            [np.shape(part) for part in state.params],
            [np.shape(part) for part in state.gradient],
        )
        if shapes[0] != shapes[1]:
            raise ValueError(
                f"the gradient has shapes {shapes[1]}, the parameters {shapes[0]}; they must agree."
            )
        return state

    def step(self, state: DescentState, data: Any) -> DescentState:
        params, memory = self.optimizer.step(state.memory, state.params, state.gradient)
        return self._at(params, memory, data)

    def _at(self, params: Params, memory: OptState, data: Any) -> DescentState:
        loss, gradient = self.function(params, data)
        return DescentState(params, gradient, float(loss), memory)

    def objective(self, state: DescentState) -> float:
        return state.loss

    def extras(self, state: DescentState) -> dict[str, float]:
        return {"gradient": gradient_norm(state.gradient)}

    def attributes(self, state: DescentState) -> dict[str, Any]:
        return {"params_": state.params, "loss_": state.loss}
