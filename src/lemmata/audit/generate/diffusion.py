"""Claims about schedules of noise and denoisers, whoever made them (CIL 5.5).

A denoiser is a function of x_t and t that predicts the noise in x_t = ᾱ_t x_0 + β̄_t ξ, or what amounts to it. Of normal data
the best one is linear (Wiener's filter), so no denoiser of other data has an excuse to be worse: a wrong schedule, target or
time shows there at some noise level. Rows are taken as the denoiser takes them, in its units. Errors are those of
v = ᾱξ − β̄x_0, ‖ξ̂ − ξ‖²/ᾱ², which are of one size at all levels, over what the linear denoiser is expected to leave.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from lemmata.audit.generate.densities import NewRows, new_rows
from lemmata.audit.kernel import claims as k
from lemmata.audit.kernel.attributes import attributes_sound, statements_true
from lemmata.audit.kernel.concentration import union_bound
from lemmata.audit.kernel.held_out import NOT_CAPPED, MeanGain, mean_gain

Array = np.ndarray

RISK = 0.05
LEVELS = 10  # of noise
SLACK = 0.02  # worse than the linear denoiser
CAP = 0.5  # of a row's gain over the linear denoiser, in errors that this one is expected to have
DRAWS = 4  # of noise for every row
MOST = 2000  # new rows that are denoised
SHOWN = 0.1  # total variation between x_T and noise
BACK = 0.01  # of the deviation of the rows
THERE = 200  # steps each way
FEW = 64  # rows that go there and back
UNKNOWN_COST = 1e5  # multiplications of a denoiser that does not say, per row


# --- the schedule -----------------------------------------------------------------------------------------------------


@k.proved("every step keeps a share of the pattern in (0, 1), and steps multiply to ᾱ_t", "CIL (5.42), (5.44)")  # fmt: skip
def noise_adds_up(fit: k.Fit) -> k.Evidence:
    a = amplitudes(fit)
    advice = (
        "ᾱ_t is a product of amplitudes: take the square root of alphas_cumprod, and begin at 1"
    )
    kept = a[1:] / a[:-1]
    wrong = np.flatnonzero(~((kept > 0) & (kept < 1)))
    if len(wrong):
        t = int(wrong[0]) + 1
        return k.at_most(len(wrong), 0, advice, unit=f"steps outside, the first at t = {t}")
    off = 0.0
    if fit.get("step_amplitudes") is not None:
        off = float(np.abs(np.cumprod(fit.step_amplitudes) / a[1:] - 1).max())
    return k.at_most(off, 1e-6, advice, unit="relative error of a product")


def amplitudes(fit: k.Fit) -> Array:
    """(T + 1,): ᾱ_0 = 1, …, ᾱ_T."""
    a = np.asarray(fit.alpha_bar, dtype=np.float64)
    return a if a[0] == 1 else np.concatenate([[1.0], a])


@k.proved(
    f"a bound of the total variation between the last noise level and pure noise is at most {SHOWN:g}",
    "CIL (5.45); convexity of KL; Pinsker",
    cost=k.passes(),
)
def starts_from_noise(fit: k.Fit) -> k.Evidence:
    """KL(x_T ‖ N(0, I)) ≤ E KL(x_T|x_0 ‖ N(0, I)) = ½(ᾱ² E‖x_0‖² − d(ᾱ² + ln(1 − ᾱ²))), and TV ≤ √(KL/2); of these rows."""
    square, n, d = float(amplitudes(fit)[-1]) ** 2, 0, fit.data.shape[1]
    total = 0.0
    for rows, _ in fit.data:
        total, n = total + float(np.square(rows, dtype=np.float64).sum()), n + len(rows)
    kl = (square * total / n - d * (square + math.log1p(-square))) / 2
    advice = "sampling starts from noise that training never saw: more steps, a cosine schedule, or ᾱ_T scaled towards 0"
    note = f"SNR {square / (1 - square):.2g} at the last level"
    return k.at_most(math.sqrt(max(kl, 0.0) / 2), SHOWN, advice, unit="bound", note=note)  # fmt: skip


# --- the denoiser -----------------------------------------------------------------------------------------------------


def noise_in(fit: k.Fit, x: Array, t: int) -> Array:
    """The noise that the denoiser sees in x_t = x, whatever it predicts. CannotTell where that is not finite."""
    a = float(amplitudes(fit)[t])
    b = math.sqrt((1 - a) * (1 + a))
    found = np.asarray(fit.denoise(x, t), dtype=np.float64)
    if found.shape != x.shape or not np.isfinite(found).all():
        raise k.CannotTell(f"the denoiser gives shape {found.shape} at t = {t}, or numbers that are not finite")  # fmt: skip
    if fit.predict == "x0":
        return (x - a * found) / b
    if fit.predict == "v":
        return b * x + a * found
    return found if fit.predict == "noise" else -b * found


class Wiener(NamedTuple):
    """The best linear denoiser of rows of this mean and covariance: E[ξ|x] = β̄ (ᾱ²Σ + β̄²I)⁻¹(x − ᾱμ)."""

    mean: Array
    variances: Array
    axes: Array  # (d, d), columns

    @classmethod
    def of(cls, rows: Array) -> Wiener:
        mean = rows.mean(axis=0)
        variances, axes = np.linalg.eigh(np.cov(rows.T, bias=True).reshape(rows.shape[1], -1))
        return cls(mean, np.maximum(variances, 0), axes)

    def __call__(self, x: Array, a: float) -> Array:
        square = (1 - a) * (1 + a)
        shrunk = (x - a * self.mean) @ self.axes / (a * a * self.variances + square)
        return math.sqrt(square) * shrunk @ self.axes.T

    def expected_error(self, a: float) -> float:
        """The mean of ‖v̂ − v‖²/d: that of λ/(ᾱ²λ + β̄²) over the variances λ."""
        return float(np.mean(self.variances / (a * a * self.variances + (1 - a) * (1 + a))))


def _cost_of_denoising(fit: k.Fit) -> float:
    n, d = fit.data.shape
    return LEVELS * DRAWS * MOST * UNKNOWN_COST + n * d * d / k.PRODUCTS + 10.0 * d**3


@k.statistical(
    f"at none of {LEVELS} noise levels its error is more than {SLACK:.0%} above that of the best linear denoiser",
    "CIL 5.5.3; Wiener filter; bets on capped errors of new rows, all levels at once",
    confidence=1 - RISK,
    cost=_cost_of_denoising,
    needs=(new_rows,),
)
def beats_linear_denoiser(fit: k.Fit) -> k.Evidence:
    found: NewRows = new_rows(fit)
    rows, linear, a = found.new[:MOST], Wiener.of(found.train), amplitudes(fit)
    rng = np.random.default_rng(len(rows))
    times = np.unique(np.ceil((np.arange(LEVELS) + 0.5) / LEVELS * (len(a) - 1)).astype(int))
    gains, means = [], []
    for t in map(int, times):
        ours, theirs = np.mean([_errors(fit, rows, linear, t, rng) for _ in range(DRAWS)], axis=0)
        capped = np.clip((1 + SLACK) * theirs - ours, -CAP, CAP)
        gains.append(mean_gain(capped, union_bound(len(times), RISK), -CAP, CAP))
        means.append((float(ours.mean()), float(theirs.mean())))
    return _judge_levels(times, gains, means)


def _errors(
    fit: k.Fit, rows: Array, linear: Wiener, t: int, rng: np.random.Generator
) -> tuple[Array, Array]:
    """‖v̂ − v‖² of the denoiser and of the linear one, of every row with fresh noise, over the latter's expected error."""
    a, noise = float(amplitudes(fit)[t]), rng.normal(size=rows.shape)
    x = a * rows + math.sqrt((1 - a) * (1 + a)) * noise
    unit = a * a * (linear.expected_error(a) or 1.0)
    ours, theirs = (
        np.square(guess - noise).mean(axis=1) / unit
        for guess in (noise_in(fit, x, t), linear(x, a))
    )
    return ours, theirs


def _judge_levels(
    times: Array, gains: list[MeanGain], means: list[tuple[float, float]]
) -> k.Evidence:
    worst = int(np.argmin([one.upper for one in gains]))
    fails = gains[worst].upper < 0
    if not fails:
        worst = int(np.argmin([one.lower for one in gains]))
    ours, theirs = means[worst]
    note = f"t = {times[worst]}: its error is {ours / theirs:.4g} times that of the linear denoiser"
    advice = (
        "predict=, the schedule or the times are not those it was trained with; or train longer"
    )
    unit = "gain"
    if fails:
        return k.at_least(gains[worst].upper, 0, advice, unit=f"{unit} at most", note=note)
    if not gains[worst].lower > 0:
        return k.unknown(f"{note}: too few rows to tell")
    if any(mine > (1 + SLACK) * linear for mine, linear in means):
        return k.unknown(f"{note}: {NOT_CAPPED}")
    return k.at_least(gains[worst].lower, 0, unit=f"{unit} at least", note=note)


@k.proved(
    f"following its flow to noise and back returns rows to {BACK:.0%} of their deviation",
    "CIL 5.5.2; Song et al. 2021, of dy/dσ = ξ̂ with y = x/ᾱ, σ = β̄/ᾱ",
    cost=lambda fit: 4.0 * THERE * FEW * UNKNOWN_COST,
)
def sampler_inverts(fit: k.Fit) -> k.Evidence:
    """Heun's steps in σ, from the least noise level to the last one and back; of these rows, with this denoiser."""
    a, rows = amplitudes(fit), np.asarray(next(iter(fit.data))[0][:FEW], dtype=np.float64)
    spread = float(np.sqrt(np.square(rows - rows.mean(axis=0)).mean()))
    if not spread > 0:
        raise k.CannotTell("all rows are equal")
    times = _evenly_in_noise(a)
    x = rows * a[times[0]]
    for t, s in (*pairwise(times), *pairwise(times[::-1])):
        here = noise_in(fit, x, t)
        x = _move(x, a, t, s, (here + noise_in(fit, _move(x, a, t, s, here), s)) / 2)
    off = float(np.sqrt(np.square(x / a[times[0]] - rows).mean())) / spread
    advice = "the denoiser changes faster than its noise levels: train longer, or with more of them"
    return k.at_most(off, BACK, advice, unit="of the deviation", note=f"{len(rows)} rows, {len(times) - 1} steps")  # fmt: skip


def _evenly_in_noise(a: Array) -> list[int]:
    """At most THERE times, evenly spaced in ln σ as far as the schedule has them, ascending."""
    ln_sigma = np.log(np.sqrt((1 - a[1:]) * (1 + a[1:])) / a[1:])
    wanted = np.linspace(ln_sigma[0], ln_sigma[-1], THERE + 1)
    nearest = np.abs(ln_sigma[:, None] - wanted).argmin(axis=0) + 1
    return np.unique(nearest).tolist()


def _move(x: Array, a: Array, t: int, s: int, noise: Array) -> Array:
    sigma = np.sqrt((1 - a[[t, s]]) * (1 + a[[t, s]])) / a[[t, s]]
    return a[s] * (x / a[t] + (sigma[1] - sigma[0]) * noise)


def _unsound(fit: k.Fit) -> Iterator[str]:
    a = np.asarray(fit.alpha_bar, dtype=np.float64)
    if a.ndim != 1 or len(a) < 2 or not np.isfinite(a).all():
        yield f"alpha_bar has shape {a.shape}, or numbers that are not finite"


DENOISER_CLAIMS: tuple[Any, ...] = (
    attributes_sound({}, _unsound),
    statements_true(lambda fit: {}, cost=k.free),
    beats_linear_denoiser,
    noise_adds_up,
    starts_from_noise,
    sampler_inverts,
)
