"""The learning rate of every update: schedules of `lemmata.optim`, and the two that networks add.

    WarmUp       ηₜ = (t + 1)/(T + 1) · η₀ for t < T, then another schedule begins: statistics of adaptive methods settle first
    OneCycle     up from η/25 to η for `rise` of the way, along a cosine, then down to η/10⁴ (Smith 2018)

>>> schedule = by_name("cosine", 0.1, updates=100, warmup=10)
>>> [round(schedule(t), 3) for t in (0, 4, 10, 55, 100)]
[0.009, 0.045, 0.1, 0.05, 0.0]
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from lemmata.optim.schedules import Constant, Cosine, Schedule, StepDecay, check_range

NAMES = ("constant", "step", "cosine", "one_cycle")
NEEDS_LENGTH = ("step", "cosine", "one_cycle")


@dataclass(frozen=True)
class WarmUp:
    """Rises in a line to the first rate of `then` in `steps` updates, and goes on with it."""

    then: Schedule
    steps: int

    def __post_init__(self):
        check_range("steps", self.steps, 1)

    @property
    def exponent(self) -> float:
        return self.then.exponent

    def __call__(self, t: int) -> float:
        if t < self.steps:
            return self.then(0) * (t + 1) / (self.steps + 1)
        return self.then(t - self.steps)


@dataclass(frozen=True)
class OneCycle:
    """Half a wave up to `step_size`, half a wave down to nearly nothing, in `steps` updates."""

    step_size: float
    steps: int
    rise: float = 0.3
    exponent = 0.0  # it ends at 10⁻⁴ of its height and stays there

    def __post_init__(self):
        check_range("step_size", self.step_size, 0, open_low=True)
        check_range("steps", self.steps, 1)
        check_range("rise", self.rise, 0, 1, open_low=True)

    def __call__(self, t: int) -> float:
        top = self.rise * self.steps
        if t < top:
            return _half_wave(self.step_size / 25, self.step_size, t / top)
        left = (t - top) / (self.steps - top)
        return _half_wave(self.step_size, self.step_size / 1e4, min(left, 1.0))


def _half_wave(begin: float, end: float, share: float) -> float:
    return end + 0.5 * (begin - end) * (1 + math.cos(math.pi * share))


def warmup_updates(warmup: float, updates: int | None) -> int:
    """A share of the run, below 1, or a number of updates."""
    if not warmup >= 0 or (warmup >= 1 and warmup != int(warmup)):
        raise ValueError(
            f"warmup={warmup}; pass a share of the run in [0, 1), or a whole number of updates."
        )
    if warmup >= 1:
        return int(warmup)
    if warmup > 0 and updates is None:
        raise ValueError(
            f"warmup={warmup} is a share of the run, whose length is not known: pass epochs, or a "
            "number of updates."
        )
    return round(warmup * (updates or 0))


def by_name(schedule: Any, rate: float, updates: int | None, warmup: float = 0) -> Schedule:
    """The schedule of a run of so many updates.

    schedule : "constant", "step" (a tenth after a half and after three quarters), "cosine" (down to 0), "one_cycle", or
    a function
        t → ηₜ such as those of `lemmata.optim`, taken as it is
    """
    if callable(schedule):
        made: Any = schedule
    elif schedule not in NAMES:
        raise ValueError(
            f"schedule={schedule!r} is not known; there are {', '.join(NAMES)}, or pass a "
            "function t → rate."
        )
    elif schedule in NEEDS_LENGTH and updates is None:
        raise ValueError(
            f"schedule={schedule!r} needs to know the length of the run: pass epochs, and data "
            "whose batches can be counted."
        )
    else:
        made = None
    begin = warmup_updates(warmup, updates)
    if made is None:
        made = _named(schedule, rate, max((updates or 0) - begin, 1))
    return WarmUp(made, begin) if begin else made


def _named(name: str, rate: float, updates: int) -> Schedule:
    if name == "cosine":
        return Cosine(rate, updates)
    if name == "one_cycle":
        return OneCycle(rate, updates)
    if name == "step":
        return Steps(rate, updates)
    return Constant(rate)


@dataclass(frozen=True)
class Steps:
    """A tenth of the rate after half of the run, a hundredth after three quarters: `StepDecay` with uneven intervals."""

    step_size: float
    steps: int
    exponent = 0.0

    def __call__(self, t: int) -> float:
        drops = (t >= self.steps / 2) + (t >= 3 * self.steps / 4)
        return StepDecay(self.step_size, factor=0.1, every=1)(int(drops))
