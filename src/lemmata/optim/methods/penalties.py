"""Constraints without a projection: penalties, and multipliers that make them exact.

    minimise f(x)   subject to   h(x) = 0,  g(x) ≤ 0

    penalty               f + ½ρ(‖h‖² + ‖g₊‖²), ρ → ∞                                  off by O(1/ρ), ill-conditioned by ρ
    augmented Lagrangian  f + λᵀh + ½ρ‖h‖² + (‖(ν + ρg)₊‖² − ‖ν‖²)/2ρ                  then λ ← λ + ρh,  ν ← (ν + ρg)₊

A step minimises one of these over x (by L-BFGS), then changes ρ or the multipliers. With multipliers, ρ may stay moderate:
the error of a step is carried by λ, not by the size of the penalty. At the end ∇f + Jₕᵀλ + J_gᵀν = 0, ν ≥ 0 and νᵀg = 0 are
the conditions of Karush, Kuhn and Tucker, which the certificate checks. (Multipliers by plain descent and ascent:
games.Lagrangian.)

    >>> import numpy as np
    >>> from lemmata.core import MaxSteps, run
    >>> circle = Conditions(equal=lambda x: (np.array([x @ x - 2]), 2 * x[None]))
    >>> f = lambda x: (float(x.sum()), np.ones(2))                      # least at (−1, −1), with λ = ½
    >>> state = run(MultiplierDescent(f, np.array([-2.0, 0.5]), circle), None, stop=MaxSteps(12)).state
    >>> state.x.round(6), state.equal_multipliers.round(6)
    (array([-1., -1.]), array([0.5]))
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from lemmata.core.store import storable
from lemmata.optim.functions import Function
from lemmata.optim.methods.base import PointMethod
from lemmata.optim.methods.newton import LBFGS

Array = np.ndarray
Valued = Callable[[Array], tuple[Array, Array]]


@dataclass(frozen=True)
class Conditions:
    """h(x) = 0 and g(x) ≤ 0, each as a function x -> (values (m,), jacobian (m, d))."""

    equal: Valued | None = None
    at_most: Valued | None = None

    def __post_init__(self):
        if self.equal is None and self.at_most is None:
            raise ValueError(
                "Conditions() asks for nothing; pass equal= or at_most=, x -> (values, jacobian)."
            )

    def values(self, x: Array) -> tuple[Array, Array, Array, Array]:
        """h, its Jacobian, g, its Jacobian at x; empty where there is none."""
        h, J = _evaluate_condition(self.equal, x, "equal")
        g, K = _evaluate_condition(self.at_most, x, "at_most")
        return h, J, g, K


def _evaluate_condition(condition: Valued | None, x: Array, name: str) -> tuple[Array, Array]:
    if condition is None:
        return np.zeros(0), np.zeros((0, x.size))
    found = condition(x)
    if not (isinstance(found, tuple) and len(found) == 2):
        raise TypeError(f"{name}(x) returned a {type(found).__name__}; return (values, jacobian).")
    values, jacobian = (np.asarray(part, float) for part in found)
    values, jacobian = np.atleast_1d(values), np.atleast_2d(jacobian)
    if jacobian.shape != (len(values), x.size):
        raise ValueError(
            f"{name}(x) returned {len(values)} value(s) and a Jacobian of shape {jacobian.shape}; "
            f"({len(values)}, {x.size}) is needed."
        )
    return values, jacobian


@storable
@dataclass(frozen=True)
class MultiplierState:
    """A minimiser of the penalised function, the multipliers, the weight ρ, and how far the conditions are violated."""

    version = 1

    x: Array
    gradient: Array  # of the Lagrangian: ∇f + Jₕᵀλ + J_gᵀν
    loss: float  # f(x)
    equal_multipliers: Array
    at_most_multipliers: Array
    rho: float
    violation: float


@dataclass(frozen=True)
class AugmentedLagrangian:
    """The augmented Lagrangian as a function of x; with multipliers of zero, the penalty."""

    function: Function
    conditions: Conditions
    lam: Array
    nu: Array
    rho: float

    def __call__(self, x: Array) -> tuple[float, Array]:
        value, gradient = self.function(x)
        h, J, g, K = self.conditions.values(x)
        active = np.maximum(self.nu + self.rho * g, 0)
        value = value + self.lam @ h + 0.5 * self.rho * (h @ h)
        value += (active @ active - self.nu @ self.nu) / (2 * self.rho)
        return float(value), np.asarray(gradient) + J.T @ (self.lam + self.rho * h) + K.T @ active


@dataclass(frozen=True)
class MultiplierDescent(PointMethod):
    """Rounds of minimising over x and updating multipliers or penalties.

    Parameters
    ----------
    function : callable
        x -> (value, gradient).
    conditions : Conditions
    multipliers : bool
        True: the augmented Lagrangian, ρ raised only where the violation does not fall by 4; False: the penalty, ρ raised
        each time.
    rho : float
        The first weight of the penalty.
    """

    function: Function
    start: Array
    conditions: Conditions
    multipliers: bool = True
    rho: float = 10.0
    grow: float = 10.0
    inner_tol: float = 1e-8

    draws: ClassVar[bool] = False
    hint: ClassVar[str] = "begin nearer to the conditions, or with a larger rho"

    def init(self, data: Any, rng: Any) -> MultiplierState:
        h, _, g, _ = self.conditions.values(self.start)
        return self._at(self.start, np.zeros(len(h)), np.zeros(len(g)), self.rho)

    def step(self, state: MultiplierState, data: Any) -> MultiplierState:
        lam, nu, rho = state.equal_multipliers, state.at_most_multipliers, state.rho
        if not self.multipliers:
            lam, nu = np.zeros_like(lam), np.zeros_like(nu)
        penalised = AugmentedLagrangian(self.function, self.conditions, lam, nu, rho)
        inner = LBFGS(penalised, state.x, self.inner_tol)
        x = inner.step(inner.init(None, None), None).x
        h, _, g, _ = self.conditions.values(x)
        new = self._at(x, lam + rho * h, np.maximum(nu + rho * g, 0), rho)
        if self.multipliers and new.violation <= max(0.25 * state.violation, self.inner_tol):
            return new
        return self._at(x, new.equal_multipliers, new.at_most_multipliers, self.grow * rho)

    def _at(self, x: Array, lam: Array, nu: Array, rho: float) -> MultiplierState:
        value, gradient = self.function(x)
        h, J, g, K = self.conditions.values(x)
        gradient = np.asarray(gradient) + J.T @ lam + K.T @ nu
        # h = 0, and of g ≤ 0 and ν ≥ 0 one is active: min(ν, −g) = 0
        off = float(np.linalg.norm(np.concatenate([h, np.minimum(nu, -g)])))
        return MultiplierState(x, gradient, float(value), lam, nu, rho, off)

    def extras(self, state: MultiplierState) -> dict[str, float]:
        norm = float(np.linalg.norm(state.gradient))
        return {"gradient": norm, "violation": state.violation, "rho": state.rho}
