"""Step sizes that change with the step: ηₜ for t = 0, 1, 2, …

    Constant      ηₜ = η                                       settles within O(η) of a noisy minimum
    PowerDecay    ηₜ = η/(1 + t/delay)ʳ                        Robbins–Monro for ½ < r ≤ 1
    InverseDecay  ηₜ = η/(1 + decay·t)                         r = 1, with the time scale 1/decay
    StepDecay     ηₜ = η·factor^⌊t/every⌋                      falls geometrically: Σηₜ is finite
    Cosine        ηₜ = least + ½(η − least)(1 + cos(πt/T))     from η to `least` in T steps, `least` from there on

Averaging the noise of a stochastic gradient away takes Σηₜ = ∞ (one can still get everywhere) and Σηₜ² < ∞ (the noise adds up
to something finite). Σ t^−r diverges for r ≤ 1 and Σ t^−2r converges for r > ½, so of the powers ½ < r ≤ 1 does both; the ML
notes' 0 < r < 1 is a slip at either end: r = 0.3 keeps trembling, and r = 1 is fine.

    >>> schedule = PowerDecay(0.5, r=0.75)
    >>> schedule(0), round(schedule(15), 4)
    (0.5, 0.0625)
    >>> schedule.exponent, Constant(0.1).exponent, StepDecay(0.1, factor=0.5).exponent
    (0.75, 0.0, inf)

`facts` are its formula and numbers, from which the audit decides. Every optimiser takes a schedule where it takes a number:
``Adam(Cosine(1e-2, steps=1000))``. `exponent` is the r for which ηₜ behaves like t^−r in the long run, which is all that
Robbins and Monro ask about.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import ClassVar, Protocol, runtime_checkable


@runtime_checkable
class Schedule(Protocol):
    """A step size for every step, and the power of t by which it vanishes."""

    @property
    def exponent(self) -> float: ...

    def __call__(self, t: int) -> float: ...


def check_range(
    name: str, value: float, low: float, high: float = math.inf, *, open_low: bool = False
) -> None:
    """Refuse a hyper-parameter outside of [low, high), or (low, high)."""
    inside = (low < value if open_low else low <= value) and value < high
    if not inside:
        left = "(" if open_low else "["
        raise ValueError(
            f"{name}={value} is out of range; pass a number in {left}{low:g}, {high:g})."
        )


def check_step_size(step_size: float | Schedule) -> None:
    if isinstance(step_size, Schedule):
        return
    if isinstance(step_size, str) or callable(step_size):
        raise TypeError(
            f"step_size={step_size!r} is not a number; pass a number > 0 or a schedule such as PowerDecay(0.1, r=0.75)."
        )
    check_range("step_size", step_size, 0, open_low=True)


def rate(step_size: float | Schedule, t: int) -> float:
    """η of step t."""
    return step_size(t) if callable(step_size) else step_size


@dataclass(frozen=True)
class _Formula:
    """Base of the schedules here: a first step > 0, and the facts of a formula, its name and its numbers."""

    step_size: float
    name: ClassVar[str]

    def __post_init__(self):
        check_range("step_size", self.step_size, 0, open_low=True)

    @property
    def facts(self) -> tuple[str, dict[str, float]]:
        return self.name, asdict(self)


@dataclass(frozen=True)
class Constant(_Formula):
    """ηₜ = η."""

    name: ClassVar = "constant"
    exponent = 0.0

    def __call__(self, t: int) -> float:
        return self.step_size


@dataclass(frozen=True)
class PowerDecay(_Formula):
    """ηₜ = η/(1 + t/delay)ʳ; the conditions of Robbins and Monro hold for ½ < r ≤ 1. Steps stay near η for `delay` steps."""

    r: float = 0.75
    delay: float = 1.0

    name: ClassVar = "power"

    def __post_init__(self):
        super().__post_init__()
        check_range("r", self.r, 0)
        check_range("delay", self.delay, 0, open_low=True)

    @property
    def exponent(self) -> float:
        return float(self.r)

    def __call__(self, t: int) -> float:
        return self.step_size / (1 + t / self.delay) ** self.r


@dataclass(frozen=True)
class InverseDecay(_Formula):
    """ηₜ = η/(1 + decay·t): constant for the first 1/decay steps, then like 1/t."""

    decay: float = 0.01

    name: ClassVar = "inverse"

    def __post_init__(self):
        super().__post_init__()
        check_range("decay", self.decay, 0)

    @property
    def exponent(self) -> float:
        return 1.0 if self.decay > 0 else 0.0

    def __call__(self, t: int) -> float:
        return self.step_size / (1 + self.decay * t)


@dataclass(frozen=True)
class StepDecay(_Formula):
    """ηₜ = η·factor^⌊t/every⌋: divided by a number now and then. Σηₜ is finite, so the run can stop short of the minimum."""

    factor: float = 0.1
    every: int = 1000

    name: ClassVar = "step"

    def __post_init__(self):
        super().__post_init__()
        check_range("factor", self.factor, 0, 1 + 1e-15, open_low=True)
        check_range("every", self.every, 1)

    @property
    def exponent(self) -> float:
        return math.inf if self.factor < 1 else 0.0

    def __call__(self, t: int) -> float:
        return self.step_size * self.factor ** (t // self.every)


@dataclass(frozen=True)
class Cosine(_Formula):
    """Half a wave from η down to `least` in `steps` steps; it stays there (Loshchilov & Hutter 2017, without restarts)."""

    steps: int
    least: float = 0.0

    name: ClassVar = "cosine"

    def __post_init__(self):
        super().__post_init__()
        check_range("steps", self.steps, 1)
        check_range("least", self.least, 0, self.step_size)

    @property
    def exponent(self) -> float:
        return 0.0 if self.least > 0 else math.inf

    def __call__(self, t: int) -> float:
        wave = 1 + math.cos(math.pi * min(t / self.steps, 1.0))
        return self.least + 0.5 * (self.step_size - self.least) * wave
