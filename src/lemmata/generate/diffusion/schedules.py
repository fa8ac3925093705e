"""Schedules: how fast patterns drown in noise (CIL 5.5.1).

    x_t = α_t x_{t−1} + β_t η_t,     α_t² + β_t² = 1                                                       (5.41), (5.42)
    x_t = ᾱ_t x_0 + β̄_t η,          ᾱ_t = Π_{τ ≤ t} α_τ,   β̄_t = √(1 − ᾱ_t²)                              (5.43), (5.44)

α and β are amplitudes, here and in the notes; what others call β_t is β_t², and `alphas_cumprod` is ᾱ_t². Where the notes say
that the noise process can be inverted: its law is reversed, no draw is. For (5.45), Σβ_t² = ∞ is needed as well.

    >>> schedule = make_schedule("linear", 1000)
    >>> schedule.steps, round(float(schedule.alpha_bar[-1]), 4), round(schedule.terminal_snr, 6)
    (1000, 0.0063, 4e-05)
    >>> schedule.times(4).tolist()
    [1000, 667, 334, 1, 0]
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

Array = np.ndarray
NAMES = ("cosine", "linear", "constant")
FIRST, LAST = 1e-4, 0.02  # β² of DDPM, of a thousand steps
OFFSET = 0.008  # of the cosine, so that the first steps are not too small (Nichol & Dhariwal 2021)
LEAST = 1e-3  # ᾱ_T of a cosine, which would end at 0, and of constant steps


@dataclass(frozen=True, eq=False)
class NoiseSchedule:
    """ᾱ_0 = 1 > ᾱ_1 > … > ᾱ_T > 0, and what follows from it."""

    alpha_bar: Array  # (T + 1,)

    @property
    def steps(self) -> int:
        return len(self.alpha_bar) - 1

    @cached_property
    def beta_bar(self) -> Array:
        return np.sqrt((1 - self.alpha_bar) * (1 + self.alpha_bar))

    @cached_property
    def alpha(self) -> Array:
        """(T + 1,): α_t, the amplitude that a step keeps; the first is 1."""
        return np.concatenate([[1.0], self.alpha_bar[1:] / self.alpha_bar[:-1]])

    @cached_property
    def noise_ratio(self) -> Array:
        """σ_t = β̄_t/ᾱ_t, the noise in units of the pattern."""
        return self.beta_bar / self.alpha_bar

    @property
    def terminal_snr(self) -> float:
        """ᾱ_T²/β̄_T²: what the last noise level still shows of the data."""
        return float(1 / self.noise_ratio[-1] ** 2)

    def times(self, steps: int) -> Array:
        """(steps + 1,): T = t_0 > t_1 > … > 1 > 0, evenly spaced down to 1: the last step is of first order only."""
        if not 1 <= steps <= self.steps:
            raise ValueError(f"steps={steps}; pass a whole number from 1 to {self.steps}.")
        return np.append(np.linspace(self.steps, 1, steps).round().astype(int), 0)


def make_schedule(given: Any, steps: int = 1000) -> NoiseSchedule:
    """Return the schedule of a name, or of given ᾱ_1 … ᾱ_T (or ᾱ_0 = 1, ᾱ_1, …). ValueError where it is none."""
    if isinstance(given, str):
        if given not in NAMES:
            raise ValueError(f"schedule={given!r}; pass {', '.join(map(repr, NAMES))}, or an array of ᾱ_1 … ᾱ_T.")  # fmt: skip
        if steps < 1:
            raise ValueError(f"steps={steps}; pass a whole number >= 1.")
        return NoiseSchedule(_by_name(given, steps))
    alpha_bar = np.asarray(given, dtype=np.float64)
    if alpha_bar.ndim != 1 or len(alpha_bar) == 0:
        raise ValueError(f"schedule has shape {alpha_bar.shape}; pass ᾱ_1 … ᾱ_T.")
    if alpha_bar[0] != 1:
        alpha_bar = np.concatenate([[1.0], alpha_bar])
    outside = np.flatnonzero(~((alpha_bar[1:] > 0) & (alpha_bar[1:] < 1)))
    if len(outside):
        t = int(outside[0]) + 1
        raise ValueError(f"ᾱ at step {t} is {alpha_bar[t]:g}; it has to lie between 0 and 1.")
    rising = np.flatnonzero(np.diff(alpha_bar) >= 0)
    if len(rising):
        t = int(rising[0]) + 1
        before, here = alpha_bar[t - 1], alpha_bar[t]
        raise ValueError(f"ᾱ at step {t} is {here:g}, after {before:g}: it has to fall.")
    return NoiseSchedule(alpha_bar)


def _by_name(name: str, steps: int) -> Array:
    t = np.arange(steps + 1) / steps
    if name == "constant":  # α_t = α, as in ML
        return LEAST**t
    if name == "linear":  # DDPM's β_t² grow evenly, as many and as small as make the same whole
        squares = np.minimum((FIRST + (LAST - FIRST) * t[1:]) * 1000 / steps, 0.999)
        return np.concatenate([[1.0], np.sqrt(np.cumprod(1 - squares))])
    curve = np.cos((t + OFFSET) / (1 + OFFSET) * np.pi / 2)
    return LEAST + (1 - LEAST) * curve / curve[0]
