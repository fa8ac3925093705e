"""Likelihood of rows by a denoiser: a bound from the chain of steps (CIL 5.5.3), and the density of the flow (Song 2021).

The chain p(x_T) Π p(x_{t−1}|x_t), p(x_{t−1}|x_t) = N((x_t − β_t² ξ̂/β̄_t)/α_t, σ_t²), is a latent variable model, so that

    ln p(x_0) ≥ −KL(q(x_T|x_0) ‖ N(0, I)) − Σ_{t ≥ 2} E KL(q(x_{t−1}|x_t, x_0) ‖ p(x_{t−1}|x_t)) + E ln p(x_0|x_1)
    KL of step t = ½ Σ (s²/σ² − 1 − ln s²/σ²) + (β_t²/(α_t β̄_t))² ‖ξ − ξ̂‖²/(2σ²),      s = β_t β̄_{t−1}/β̄_t

and the last step has σ_1 = β_1. The flow dy/dσ = ξ̂, y = x/ᾱ, σ = β̄/ᾱ carries the same laws, and along it

    ln p(y_0) = ln p(y_T) + ∫ σ tr(∂ξ̂/∂y) d ln σ        tends to d at the noisy end and to 0 at the other: trapezia in ln σ
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lemmata.generate.diffusion.samplers import heun_move
from lemmata.generate.diffusion.schedules import NoiseSchedule

Array = np.ndarray


# --- the bound --------------------------------------------------------------------------------------------------------


def gap_of_step(error: Tensor, t: Tensor, schedule: NoiseSchedule, share: Any) -> Tensor:
    """KL(q(x_{t−1}|x_t, x_0) ‖ p(x_{t−1}|x_t)) by number, from ξ − ξ̂; of the last step, t = 1, −ln p(x_0|x_1).

    share : of ln σ² between its least value, s², and its largest, β²
    """
    a, b_bar = schedule.alpha, schedule.beta_bar
    b = np.sqrt((1 - a) * (1 + a))
    ratio, drift, wide = np.zeros((3, len(a)))
    ratio[2:] = 2 * np.log(b_bar[1:-1] / b_bar[2:])  # ln s²/β²; the last step has σ = β
    drift[1:] = np.square(b[1:] / (a[1:] * b_bar[1:]))  # of the mean, over β²
    wide[1] = math.log(b[1]) + math.log(2 * math.pi) / 2
    of_least, of_mean, of_last = (_at(t, values, error) for values in (ratio, drift, wide))
    spread = of_least * (1 - share)  # ln σ²/β²
    off = of_least - spread
    return (
        of_mean * error.square() * torch.exp(-spread) / 2 + (torch.expm1(off) - off) / 2 + of_last
    )


def _at(t: Tensor, values: Array, x: Tensor) -> Tensor:
    """Numbers of a schedule at times (B,), shaped to multiply x."""
    return torch.from_numpy(values).to(x)[t].reshape(-1, *[1] * (x.dim() - 1))


def lower_bound(x0: Tensor, predict: Any, schedule: NoiseSchedule, draws: int, rng: Any) -> Tensor:
    """(B,): the bound by `draws` times a row, spread evenly over 1 … T, each with fresh noise of rng (NumPy's).

    predict : (x_t, t) ↦ ξ̂ and the share of the variance
    """
    T, (n, d) = schedule.steps, x0.flatten(1).shape
    square = float(schedule.alpha_bar[-1]) ** 2
    start = (square * x0.flatten(1).square().sum(1) - d * (square + math.log1p(-square))) / 2
    total, places = torch.zeros_like(start), rng.random((n, 1))
    times = 1 + ((np.arange(draws) + places) * T / draws).astype(np.int64).clip(max=T - 1)
    noises = torch.from_numpy(rng.standard_normal((n, draws, d))).to(
        x0
    )  # row by row, whatever the parts
    for j, t in enumerate(torch.from_numpy(times.T.copy()).to(x0.device)):
        noise = noises[:, j].reshape(x0.shape)
        x = _at(t, schedule.alpha_bar, x0) * x0 + _at(t, schedule.beta_bar, x0) * noise
        found, share = predict(x, t)
        total = total + gap_of_step(noise - found, t, schedule, share).flatten(1).sum(1)
    return -(start + total * (T / draws))


# --- the flow ---------------------------------------------------------------------------------------------------------


def log_density(
    x0: Tensor,
    predict: Callable[..., Tensor],
    schedule: NoiseSchedule,
    steps: int,
    probes: Tensor | None = None,
) -> Tensor:
    """ln p of rows by Heun's steps along the flow: (1, B), or (K, B) by each of K probes (K, …) of the divergence.

    predict : (x, t=…) ↦ ξ̂, differentiable
    """
    times = even_in_noise(schedule, steps)
    sigma, a = schedule.noise_ratio, schedule.alpha_bar
    first = times[0]  # below the least noise level, its own field
    here, before = divergence(partial(predict, t=first), x0, probes)
    x, total = a[first] * (x0 + sigma[first] * here), sigma[first] * before
    for t, s in pairwise(times):
        with torch.no_grad():
            x = heun_move(x, t, s, predict, schedule)
        after = divergence(partial(predict, t=s), x, probes)[1]
        half = math.log(sigma[s] / sigma[t]) / 2
        total = total + half * (sigma[t] * a[t] * before + sigma[s] * a[s] * after)
        before = after
    d = x0.flatten(1).shape[1]
    normal = -0.5 * x.flatten(1).square().sum(1) - 0.5 * d * math.log(2 * math.pi)
    return normal + d * math.log(float(a[times[-1]])) + total


def divergence(f: Callable[[Tensor], Tensor], x: Tensor, probes: Tensor | None) -> tuple[Tensor, Tensor]:  # fmt: skip
    """f(x) and tr(∂f/∂x) of every row: (1, B) exact, or (K, B) as vᵀ(∂f/∂x)v of K probes v with E vvᵀ = I."""
    with torch.enable_grad():
        x = x.detach().requires_grad_(True)
        found = f(x)
        if probes is None:
            flat, trace = found.flatten(1), torch.zeros(len(x)).to(x)
            for j in range(flat.shape[1]):
                (slope,) = torch.autograd.grad(flat[:, j].sum(), x, retain_graph=True)
                trace = trace + slope.flatten(1)[:, j]
            return found.detach(), trace[None]
        parts = []
        for v in probes:
            (slope,) = torch.autograd.grad((found * v).sum(), x, retain_graph=True)
            parts.append((slope * v).flatten(1).sum(1))
        return found.detach(), torch.stack(parts)


def even_in_noise(schedule: NoiseSchedule, steps: int) -> list[int]:
    """At most steps + 1 times from 1 to T, evenly spaced in ln σ as far as the schedule has them."""
    at = np.log(schedule.noise_ratio[1:])
    wanted = np.linspace(at[0], at[-1], max(1, steps) + 1)
    return np.unique(np.abs(at[:, None] - wanted).argmin(axis=0) + 1).tolist()
