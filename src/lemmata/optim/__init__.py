"""Gradient methods as init/step pairs, and the loop that minimises a smooth function with one of them."""

from lemmata.optim.descent import Descent, DescentState
from lemmata.optim.steps import (
    SGD,
    Adam,
    GradientDescent,
    HeavyBall,
    Nesterov,
    Optimizer,
    OptState,
    Params,
    gradient_norm,
)

__all__ = [
    "SGD", "Adam", "Descent", "DescentState", "GradientDescent", "HeavyBall", "Nesterov", "OptState", "Optimizer", "Params",
    "gradient_norm",
]  # fmt: skip
