"""Steps that scale every coordinate by its own gradients.

    AdaGrad    γ ← γ + g²,               x ← x − η g/(√γ + δ)                                        CIL (4.42)
    RMSprop    h ← αh + (1 − α)g²,       x ← x − η g/√(h + δ)                                        CIL 4.3.7
    AdamCIL    m ← βm + (1 − β)g,  h ← αh + (1 − α)g²,  x ← x − η m/√(h + δ)                CIL (4.43)–(4.45)
    Adam       m and h begin at 0, m̂ = m/(1 − βᵗ), ĥ = h/(1 − αᵗ),  x ← x − η m̂/(√ĥ + ε)         Kingma & Ba 2015
    SignSGD    x ← x − η sign(g)                                                                     ML "SignSGD"

All of them move a coordinate by about η whatever the unit of its gradient. So they need no L, and at a constant η they do not
settle closer than η to a minimum: pass a schedule (schedules.py), or read the certificate.

The two Adams differ in how they begin. CIL's first means are the first gradient itself and its square, which is exact for a
constant gradient and gives the first gradient the weight βᵗ that it would have if it had been seen forever; the corrected
form gives it the weight (1 − β)βᵗ⁻¹/(1 − βᵗ), that of any other. δ stands inside the root in (4.45) and outside in Kingma &
Ba. RMSprop is CIL's Adam with β = 0. The ML notes' Adam leaves out δ, and divides by zero where a gradient is zero.

    >>> import numpy as np
    >>> x = (np.array([1.0, 1.0]),)
    >>> for optimizer in (AdamCIL(0.1), Adam(0.1), SignSGD(0.1)):              # gradients of 1 and of 100
    ...     (new,), _ = optimizer.step(optimizer.init(x), x, (np.array([1.0, 100.0]),))
    ...     print(new.round(6))
    [0.9 0.9]
    [0.9 0.9]
    [0.9 0.9]
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from lemmata.optim.schedules import Schedule, rate
from lemmata.optim.steps import POSITIVE, SHARE, OptState, Params, StepRule, combine


def squares(gradient: Params) -> Params:
    return tuple(part * part for part in gradient)


@dataclass(frozen=True)
class AdaGrad(StepRule):
    """x ← x − η g/(√γ + δ), γ the sum of all squared gradients: steps shrink like 1/√t where gradients stay as they are."""

    step_size: float | Schedule = 1e-2
    delta: float = 1e-10

    ranges: ClassVar = {"delta": POSITIVE}
    slots: ClassVar = 1

    def step(self, state: OptState, params: Params, gradient: Params) -> tuple[Params, OptState]:
        eta = rate(self.step_size, state.count)
        sums = combine(1.0, state.slots[0], 1.0, squares(gradient))
        new = tuple(
            x - eta * g / (np.sqrt(s) + self.delta)
            for x, g, s in zip(params, gradient, sums, strict=True)
        )
        return new, OptState(state.count + 1, (sums,))


@dataclass(frozen=True)
class AdamCIL(StepRule):
    """x ← x − η m/√(h + δ), the running means m and h begun with the first gradient and its square (CIL (4.43)–(4.45)).

    beta, alpha : float
        β of the mean of gradients, α of the mean of their squares.
    """

    step_size: float | Schedule = 1e-3
    beta: float = 0.9
    alpha: float = 0.999
    delta: float = 1e-16

    ranges: ClassVar = {"beta": SHARE, "alpha": SHARE, "delta": POSITIVE}
    slots: ClassVar = 2

    def step(self, state: OptState, params: Params, gradient: Params) -> tuple[Params, OptState]:
        eta = rate(self.step_size, state.count)
        m, h = gradient, squares(gradient)
        if state.count:
            m = combine(self.beta, state.slots[0], 1 - self.beta, m)
            h = combine(self.alpha, state.slots[1], 1 - self.alpha, h)
        new = tuple(
            x - eta * a / np.sqrt(b + self.delta) for x, a, b in zip(params, m, h, strict=True)
        )
        return new, OptState(state.count + 1, (m, h))


@dataclass(frozen=True)
class RMSprop(StepRule):
    """x ← x − η g/√(h + δ), h a running mean of g² that begins as the first one: CIL's Adam without momentum."""

    step_size: float | Schedule = 1e-3
    alpha: float = 0.99
    delta: float = 1e-16

    ranges: ClassVar = {"alpha": SHARE, "delta": POSITIVE}
    slots: ClassVar = 1

    def step(self, state: OptState, params: Params, gradient: Params) -> tuple[Params, OptState]:
        eta = rate(self.step_size, state.count)
        h = squares(gradient)
        if state.count:
            h = combine(self.alpha, state.slots[0], 1 - self.alpha, h)
        new = tuple(
            x - eta * g / np.sqrt(b + self.delta)
            for x, g, b in zip(params, gradient, h, strict=True)
        )
        return new, OptState(state.count + 1, (h,))


@dataclass(frozen=True)
class Adam(StepRule):
    """x ← x − η m̂/(√v̂ + ε), with m, v running means of g and g², corrected for having begun at zero.

    Each coordinate moves by about η whatever the scale of its gradient; at a constant η it does not settle closer than that.
    """

    step_size: float | Schedule = 1e-3
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8

    ranges: ClassVar = {"beta1": SHARE, "beta2": SHARE, "epsilon": POSITIVE}
    slots: ClassVar = 2

    def step(self, state: OptState, params: Params, gradient: Params) -> tuple[Params, OptState]:
        count, eta = state.count + 1, rate(self.step_size, state.count)
        m = combine(self.beta1, state.slots[0], 1 - self.beta1, gradient)
        v = combine(self.beta2, state.slots[1], 1 - self.beta2, squares(gradient))
        unbias1, unbias2 = 1 - self.beta1**count, 1 - self.beta2**count
        new = tuple(
            x - (eta / unbias1) * a / (np.sqrt(b / unbias2) + self.epsilon)
            for x, a, b in zip(params, m, v, strict=True)
        )
        return new, OptState(count, (m, v))


@dataclass(frozen=True)
class SignSGD(StepRule):
    """x ← x − η sign(g): one bit per coordinate. With noise it follows the median of g, not its mean, and may not converge."""

    step_size: float | Schedule = 1e-3

    def step(self, state: OptState, params: Params, gradient: Params) -> tuple[Params, OptState]:
        eta = rate(self.step_size, state.count)
        signs = tuple(np.sign(g) for g in gradient)
        return combine(1.0, params, -eta, signs), OptState(state.count + 1)
