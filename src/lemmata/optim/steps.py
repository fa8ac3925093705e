"""Gradient steps: an optimiser is a frozen set of hyper-parameters with a pure `init` and a pure `step`.

    GradientDescent   x ← x − ηg                                    with g = ∇f(x)                 CIL (1.12)
    SGD               x ← x − ηₜg,  ηₜ = η/(1 + decay·t)            with E g = ∇f(x)               Robbins & Monro 1951
    HeavyBall         x ← x − ηg + β(x − x₋)                        x₋ the iterate before x        Polyak 1964
    AveragedMomentum  m ← βm + (1 − β)g,  x ← x − ηm                m: a running mean of g         ML "SGD with Momentum"
    Nesterov          x ← y − η∇f(y),  y ← x + β(x − x₋)            the gradient is taken at y     Nesterov 1983, CIL (4.40)

Methods that scale every coordinate by its own gradients (AdaGrad, RMSprop, Adam, SignSGD) stand in adaptive.py. η is a number
or a schedule (schedules.py). Parameters are a tuple of arrays, gradients a tuple of the same shapes; what a method remembers
is an `OptState`:

    >>> import numpy as np
    >>> optimizer, params = GradientDescent(step_size=0.5), (np.array([4.0]),)
    >>> state = optimizer.init(params)
    >>> optimizer.step(state, params, gradient=params)           # ∇ ½x² = x
    ((array([2.]),), OptState(count=1, slots=()))

Nothing is updated in place and float32 stays float32. Step sizes and momenta are plain fields, so a line search is
`dataclasses.replace(optimizer, step_size=…)` between two steps. For that reason momentum is kept as a displacement of the
parameters rather than as a sum of gradients (PyTorch's choice): the two agree while η is constant, and only the first
stays meaningful when it changes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from lemmata.core.store import storable
from lemmata.optim.schedules import Schedule, check_range, check_step_size, rate

Array = np.ndarray
Params = tuple[Array, ...]
Range = tuple[float, float, bool]  # low, high, and whether low itself is excluded; high always is
NONNEGATIVE, POSITIVE, SHARE = (0, math.inf, False), (0, math.inf, True), (0, 1, False)


@storable
@dataclass(frozen=True)
class OptState:
    """Memory of an optimiser between steps: how many it made, and arrays shaped like the parameters."""

    version = 1

    count: int
    # heavy ball and Nesterov: (displacement,); Adam: (mean of g, mean of g²)
    slots: tuple[Params, ...] = ()


class Optimizer(Protocol):
    """Interface of every method here. `step` takes the gradient at `params` and returns what replaces them."""

    @property
    def step_size(self) -> float | Schedule: ...

    def init(self, params: Params) -> OptState: ...

    def step(
        self, state: OptState, params: Params, gradient: Params
    ) -> tuple[Params, OptState]: ...


def gradient_norm(gradient: Sequence[Array]) -> float:
    """The Euclidean norm of all entries together."""
    return math.sqrt(sum(float(np.vdot(part, part)) for part in gradient))


def zeros_like(params: Params) -> Params:
    return tuple(np.zeros_like(part) for part in params)


def combine(a: float, xs: Params, b: float, ys: Params) -> Params:
    """a·x + b·y, array by array. Plain floats do not widen float32 arrays."""
    return tuple(a * x + b * y for x, y in zip(xs, ys, strict=True))


class StepRule:
    """Base of the methods here: ranges of hyper-parameters, and a memory of some arrays shaped like the parameters."""

    step_size: float | Schedule
    ranges: ClassVar[Mapping[str, Range]] = {}  # of other hyper-parameters
    slots: ClassVar[int] = 0  # arrays in the memory, for every array of parameters

    def __post_init__(self):
        check_step_size(self.step_size)
        for name, (low, high, open_low) in self.ranges.items():
            check_range(name, getattr(self, name), low, high, open_low=open_low)

    def init(self, params: Params) -> OptState:
        return OptState(0, tuple(zeros_like(params) for _ in range(self.slots)))


def _check_curvature(L: float, mu: float) -> None:
    check_range("L", L, 0, open_low=True)
    if not 0 <= mu <= L:
        raise ValueError(
            f"mu={mu} is not a lower bound of a curvature that is at most L={L}; pass 0 <= mu <= L."
        )


@dataclass(frozen=True)
class GradientDescent(StepRule):
    """x ← x − ηg. On an L-smooth function any η < 2/L descends; η = 1/L contracts f − f* by 1 − μ/L."""

    step_size: float | Schedule

    @classmethod
    def for_curvature(cls, L: float, mu: float = 0.0) -> GradientDescent:
        """η = 2/(L + μ), the best constant step for curvatures in [μ, L]; 1/L where nothing is known of μ."""
        _check_curvature(L, mu)
        return cls(2 / (L + mu) if mu > 0 else 1 / L)

    tuned = for_curvature  # its former name

    def step(self, state: OptState, params: Params, gradient: Params) -> tuple[Params, OptState]:
        eta = rate(self.step_size, state.count)
        return combine(1.0, params, -eta, gradient), OptState(state.count + 1)


@dataclass(frozen=True)
class SGD(StepRule):
    """x ← x − η/(1 + decay·t)·g with a noisy g. With decay > 0, Σηₜ = ∞ and Σηₜ² < ∞: the noise is averaged away.

    At decay = 0 the iterates reach a neighbourhood of the minimum whose size is proportional to η, and stay in it.
    """

    step_size: float | Schedule
    decay: float = 0.0

    ranges: ClassVar = {"decay": NONNEGATIVE}

    def step(self, state: OptState, params: Params, gradient: Params) -> tuple[Params, OptState]:
        eta = rate(self.step_size, state.count) / (1 + self.decay * state.count)
        return combine(1.0, params, -eta, gradient), OptState(state.count + 1)


@dataclass(frozen=True)
class HeavyBall(StepRule):
    """x ← x − ηg + β(x − x₋).

    With the tuned η and β the error on a quadratic shrinks by (√κ − 1)/(√κ + 1) a step, κ = L/μ. That is a theorem about
    quadratics: on other strongly convex functions these very parameters can cycle (Lessard, Recht & Packard 2016).
    """

    step_size: float | Schedule
    momentum: float = 0.9

    ranges: ClassVar = {"momentum": SHARE}
    slots: ClassVar = 1

    @classmethod
    def for_curvature(cls, L: float, mu: float) -> HeavyBall:
        """η = 4/(√L + √μ)², β = ((√L − √μ)/(√L + √μ))²."""
        _check_curvature(L, mu)
        root = math.sqrt(L) + math.sqrt(mu)
        return cls(4 / root**2, ((math.sqrt(L) - math.sqrt(mu)) / root) ** 2)

    tuned = for_curvature  # its former name

    def step(self, state: OptState, params: Params, gradient: Params) -> tuple[Params, OptState]:
        eta = rate(self.step_size, state.count)
        moved = combine(self.momentum, state.slots[0], -eta, gradient)
        return combine(1.0, params, 1.0, moved), OptState(state.count + 1, (moved,))


@dataclass(frozen=True)
class AveragedMomentum(StepRule):
    """m ← βm + (1 − β)g,  x ← x − ηm: the notes' momentum, a step along a running mean of the gradients.

    While η is constant this is heavy ball with the step (1 − β)η. So its effective step is η, where heavy ball's is η/(1 − β)
    (CIL (4.39)); a step size tuned for one is wrong by 1/(1 − β) for the other.
    """

    step_size: float | Schedule
    momentum: float = 0.9

    ranges: ClassVar = {"momentum": SHARE}
    slots: ClassVar = 1

    def step(self, state: OptState, params: Params, gradient: Params) -> tuple[Params, OptState]:
        eta = rate(self.step_size, state.count)
        m = combine(self.momentum, state.slots[0], 1 - self.momentum, gradient)
        return combine(1.0, params, -eta, m), OptState(state.count + 1, (m,))


@dataclass(frozen=True)
class Nesterov(StepRule):
    """x ← y − η∇f(y),  y ← x + β(x − x₋): heavy ball with the gradient taken where momentum is about to lead.

    The parameters handed in and out are the look-ahead points y, so the gradient at `params` is the right one and one
    evaluation a step is enough (PyTorch does the same). `without_momentum` gives the point x behind y; theorems speak of x.

    momentum : float or None
        A constant β, or None for βₜ = (t − 1)/(t + 2), which needs no μ: f(xₜ) − f* ≤ 2‖x₀ − x*‖²/(η(t + 1)²) on convex f with
        η ≤ 1/L (Su, Boyd & Candès 2016). The tuned constant gives (1 − 1/√κ)ᵗ.
    """

    step_size: float | Schedule
    momentum: float | None = None

    slots: ClassVar = 1

    def __post_init__(self):
        super().__post_init__()
        if self.momentum is not None:
            check_range("momentum", self.momentum, 0, 1)

    @classmethod
    def for_curvature(cls, L: float, mu: float = 0.0) -> Nesterov:
        """η = 1/L, β = (√κ − 1)/(√κ + 1); the growing βₜ where nothing is known of μ."""
        _check_curvature(L, mu)
        return cls(
            1 / L,
            (math.sqrt(L) - math.sqrt(mu)) / (math.sqrt(L) + math.sqrt(mu)) if mu > 0 else None,
        )

    tuned = for_curvature  # its former name

    def _beta(self, count: int) -> float:
        """The momentum that leads from xₜ to yₜ, t = count."""
        return max(count - 1, 0) / (count + 2) if self.momentum is None else self.momentum

    def step(self, state: OptState, params: Params, gradient: Params) -> tuple[Params, OptState]:
        count, eta = state.count + 1, rate(self.step_size, state.count)
        # xₜ₊₁ − xₜ
        moved = combine(self._beta(state.count), state.slots[0], -eta, gradient)
        x = combine(1.0, params, -eta, gradient)
        return combine(1.0, x, self._beta(count), moved), OptState(count, (moved,))

    def without_momentum(self, state: OptState, params: Params) -> Params:
        """x, the point from which momentum led to `params`."""
        return combine(1.0, params, -self._beta(state.count), state.slots[0])
