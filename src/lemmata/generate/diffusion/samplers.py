"""From noise back to patterns: one loop, with the step passed in (CIL 5.5.2–5.5.3; ML "Diffusion models").

A step leads from x_t to x_s, s < t, given ξ̂ = E[ξ|x_t]. With α = ᾱ_t/ᾱ_s, β² = 1 − α² of that step and σ = β̄/ᾱ:

    ancestral         (x − β² ξ̂/β̄_t)/α + σ_s z        CIL's algorithm; σ_s between β β̄_s/β̄_t (exact for one point) and
                                                        β (exact for N(0, I))
    euler-maruyama    (2 − α) x − β² ξ̂/β̄_t + β z       ML's; right to first order only: on N(0, I) its variance tends to
                                                        (2 − δ)/(2 − 3δ + 2δ² − δ³) ≈ 1 + δ, δ = 1 − α
    ddim              ᾱ_s (x/ᾱ_t + (σ_s − σ_t) ξ̂)      Euler's method on dy/dσ = ξ̂, y = x/ᾱ, the flow of the same laws
    heun              the same path by its slope at both ends: second order

With ᾱ = cos φ, β̄ = sin φ the flow is dx/dφ = v, v = ᾱξ̂ − β̄x̂_0, and a constant pattern with constant noise is a rotation:
x_s = cos Δ x + sin Δ v, which is DDIM. Heun's v is the mean of that at t and of that at s turned back, cos Δ v_s + sin Δ x_s.
(In σ the first step would be as long as all others together, and multiply an error of ξ̂ by σ_T, 1,000 and more.)

No noise enters in the last step. x may be an array or a tensor.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from itertools import pairwise
from typing import Any

from lemmata.generate.base import check_count
from lemmata.generate.diffusion.schedules import NoiseSchedule

Noise = Callable[[Any, int], Any]  # (x_t, t) ↦ ξ̂
Draw = Callable[[Any], Any]  # fresh N(0, I), of the shape of x


def ancestral(
    predict: Noise, draw: Draw, schedule: NoiseSchedule, share: Any = 0.0
) -> Callable[[Any, int, int], Any]:
    """share : of the way from the least to the largest deviation, 0 … 1, or a function that gives it after a prediction."""

    def step(x: Any, t: int, s: int) -> Any:
        a, (b_t, b_s) = schedule.alpha_bar[t] / schedule.alpha_bar[s], schedule.beta_bar[[t, s]]
        b = ((1 - a) * (1 + a)) ** 0.5
        mean = (x - b**2 / b_t * predict(x, t)) / a
        if s == 0:
            return mean
        u = share() if callable(share) else share
        return mean + b * float(b_s / b_t) ** (1 - u) * draw(x)

    return step


def euler_maruyama(predict: Noise, draw: Draw, schedule: NoiseSchedule) -> Callable:
    def step(x: Any, t: int, s: int) -> Any:
        a = schedule.alpha_bar[t] / schedule.alpha_bar[s]
        square = (1 - a) * (1 + a)
        mean = (2 - a) * x - square / schedule.beta_bar[t] * predict(x, t)
        return mean + square**0.5 * draw(x) if s > 0 else mean

    return step


def ddim(predict: Noise, draw: Draw, schedule: NoiseSchedule) -> Callable:
    def step(x: Any, t: int, s: int) -> Any:
        return move(x, t, s, predict(x, t), schedule)

    return step


def heun(predict: Noise, draw: Draw, schedule: NoiseSchedule) -> Callable:
    def step(x: Any, t: int, s: int) -> Any:
        return heun_move(x, t, s, predict, schedule) if s > 0 else move(x, t, s, predict(x, t), schedule)  # fmt: skip

    return step


def heun_move(x: Any, t: int, s: int, predict: Noise, schedule: NoiseSchedule) -> Any:
    """Follow dx/dφ = v from t to s, up or down in time, to second order."""
    (a_t, a_s), (b_t, b_s) = schedule.alpha_bar[[t, s]].tolist(), schedule.beta_bar[[t, s]].tolist()
    cos, sin = a_s * a_t + b_s * b_t, b_s * a_t - a_s * b_t
    v = (predict(x, t) - b_t * x) / a_t
    ahead = cos * x + sin * v
    v_ahead = (predict(ahead, s) - b_s * ahead) / a_s
    return cos * x + sin * (v + cos * v_ahead + sin * ahead) / 2


def move(x: Any, t: int, s: int, noise: Any, schedule: NoiseSchedule) -> Any:
    """Follow dy/dσ = ξ̂ from t to s, up or down in time, with one ξ̂ for all of the way."""
    change = schedule.noise_ratio[s] - schedule.noise_ratio[t]
    return schedule.alpha_bar[s] * (x / schedule.alpha_bar[t] + change * noise)


SAMPLERS: dict[str, Callable[..., Callable]] = {
    "ancestral": ancestral,
    "euler-maruyama": euler_maruyama,
    "ddim": ddim,
    "heun": heun,
}


def trajectory(
    x: Any,
    predict: Noise,
    draw: Draw,
    schedule: NoiseSchedule,
    sampler: str = "heun",
    steps: int = 50,
    **options: Any,
) -> Generator[tuple[int, Any], Any, None]:
    """Yield (T, x_T), then (t, x_t) at each of the times on the way to x_0. An x that is sent back takes its place.

    x : noise, N(0, I), of the shape of a batch
    options : of the sampler
    """
    if sampler not in SAMPLERS:
        raise ValueError(f"sampler={sampler!r}; pass {', '.join(map(repr, SAMPLERS))}.")
    step, times = SAMPLERS[sampler](predict, draw, schedule, **options), schedule.times(steps)
    for t, s in pairwise([*times, None]):
        other = yield int(t), x
        x = x if other is None else other
        if s is not None:
            x = step(x, int(t), int(s))


def check_options(steps: Any, sampler: Any, guidance: Any, classes: bool) -> dict[str, Any]:
    """Return how to walk. ValueError for what cannot be."""
    count = check_count("steps", steps)
    if sampler not in SAMPLERS:
        raise ValueError(f"sampler={sampler!r}; pass {', '.join(map(repr, SAMPLERS))}.")
    if not (isinstance(guidance, (int, float)) and 0 <= guidance < math.inf):
        raise ValueError(f"guidance={guidance!r}; pass a number >= 0, 0 for none.")
    if guidance and not classes:
        raise ValueError(f"guidance={guidance:g} needs classes: fit(X, y), or leave it out.")
    return {"steps": count, "sampler": sampler, "guidance": float(guidance)}
