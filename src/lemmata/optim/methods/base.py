"""Base of the methods here: a state is a point x with the value and the gradient of a function there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from lemmata.optim.functions import Function

Array = np.ndarray
NAN = float("nan")


class PointMethod:
    """A method on function(x) -> (value, gradient), with a projection onto a set where there is a constraint."""

    function: Function
    constraint: Callable[[Array], Array] | None = None

    def _evaluate(self, x: Array) -> tuple[float, Array]:
        """Value and gradient at x, in the type of x."""
        value, gradient = self.function(x)
        return float(value), np.asarray(gradient, x.dtype)

    def _nearest(self, x: Array) -> Array:
        """The nearest point of the set."""
        return x if self.constraint is None else self.constraint(x)

    def objective(self, state: Any) -> float:
        return state.loss

    def attributes(self, state: Any) -> dict[str, Any]:
        return {"params_": (state.x,), "loss_": state.loss}
