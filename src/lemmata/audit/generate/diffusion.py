"""Claims about schedules of noise and denoisers, whoever made them (CIL 5.5).

A denoiser is a function of x_t and t that predicts the noise in x_t = ᾱ_t x_0 + β̄_t ξ, or what amounts to it. Of normal data
the best one is linear (Wiener's filter), so no denoiser of other data has an excuse to be worse: a wrong schedule, target or
time shows there at some noise level. Rows are taken as the denoiser takes them, in its units: of a model of ours in units of
their deviation, `mean` and `scale` of its network. Errors are those of v = ᾱξ − β̄x_0, ‖ξ̂ − ξ‖²/ᾱ², which are of one size at
all levels, over what the linear denoiser is expected to leave.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from lemmata.audit.generate.densities import n_new, new_rows, split_of
from lemmata.audit.kernel import claims as k
from lemmata.audit.kernel.attributes import attributes_sound, discrepancy, statements_true
from lemmata.audit.kernel.concentration import union_bound
from lemmata.audit.kernel.held_out import NOT_CAPPED, MeanGain, mean_gain
from lemmata.audit.nets.modules import rows_of
from lemmata.audit.nets.stated import float_type, stated_rows, unsound_network

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
AT_ONCE = 256  # rows


# --- rows, as the denoiser takes them ---------------------------------------------------------------------------------


class Told(NamedTuple):
    """Context of rows: what a denoiser of ours knows besides x_t: places among the classes, channels that are given."""

    places: Array | None = None
    given: Array | None = None

    def part(self, which: Any) -> Told:
        return Told(*(None if one is None else one[which] for one in self))


NOTHING = Told()


def in_its_units(fit: k.Fit, rows: Array) -> tuple[Array, Array | None]:
    """Rows (n, d) in the units of the denoiser, float64, and the channels that are given."""
    rows = np.asarray(rows, dtype=np.float64)
    if fit.has("denoise"):
        return rows, None
    mean, scale = (one.detach().double().cpu().numpy() for one in (fit.module_.mean, fit.module_.scale))  # fmt: skip
    z = (rows - mean.ravel()) / np.where(scale.ravel() > 0, scale.ravel(), 1.0)
    cut = math.prod(row_shape(fit))
    return z[:, :cut], z[:, cut:] if cut < z.shape[1] else None


def row_shape(fit: k.Fit) -> tuple[int, ...]:
    """Return the shape of a row without the channels that are given."""
    first, *rest = fit.input_shape_
    return (first - int(fit.get("given", 0)), *rest)


class Patterns(NamedTuple):
    """Rows in the units of the denoiser: new ones, with what it is told of them, and those it was trained on."""

    new: Array
    told: Told
    train: Array


@k.fact(cost=k.passes(2), needs=(new_rows,))
def patterns(fit: k.Fit) -> Patterns:
    found = new_rows(fit)
    new, given = in_its_units(fit, found.new)
    places = None
    if fit.get("classes_") is not None:
        places = fit.get("y_test")
        if fit.get("X_test") is None and fit.y is not None:
            places = np.asarray(fit.y)[split_of(fit)[1]]
    return Patterns(new, Told(places, given), in_its_units(fit, found.train)[0])


def row_cost(fit: k.Fit) -> float:
    """Multiplications of the denoiser for a row."""
    products = fit.get("row_work")
    return UNKNOWN_COST if products is None else products / k.PRODUCTS


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
    a = np.asarray(fit.alpha_bar_ if fit.has("alpha_bar_") else fit.alpha_bar, dtype=np.float64)
    return a if a[0] == 1 else np.concatenate([[1.0], a])


@k.proved(
    f"a bound of the total variation between the last noise level and pure noise is at most {SHOWN:g}",
    "CIL (5.45); convexity of KL; Pinsker",
    cost=k.passes(),
)
def starts_from_noise(fit: k.Fit) -> k.Evidence:
    """KL(x_T ‖ N(0, I)) ≤ E KL(x_T|x_0 ‖ N(0, I)) = ½(ᾱ² E‖x_0‖² − d(ᾱ² + ln(1 − ᾱ²))), and TV ≤ √(KL/2); of these rows."""
    square, n, total = float(amplitudes(fit)[-1]) ** 2, 0, 0.0
    for rows, _ in fit.data:
        z = in_its_units(fit, rows)[0]
        total, n, d = total + float(np.square(z).sum()), n + len(z), z.shape[1]
    kl = (square * total / n - d * (square + math.log1p(-square))) / 2
    advice = "sampling starts from noise that training never saw: more steps, a cosine schedule, or ᾱ_T scaled towards 0"
    note = f"SNR {square / (1 - square):.2g} at the last level"
    return k.at_most(math.sqrt(max(kl, 0.0) / 2), SHOWN, advice, unit="bound", note=note)  # fmt: skip


# --- the denoiser -----------------------------------------------------------------------------------------------------


def noise_in(fit: k.Fit, x: Array, t: int, told: Told = NOTHING) -> Array:
    """The noise that the denoiser sees in x_t = x, whatever it predicts. CannotTell where that is not finite."""
    found = np.asarray(_predict(fit, x, t, told), dtype=np.float64)
    if found.shape != x.shape or not np.isfinite(found).all():
        raise k.CannotTell(f"the denoiser gives shape {found.shape} at t = {t}, or numbers that are not finite")  # fmt: skip
    return as_noise(fit, found, x, float(amplitudes(fit)[t]))


def as_noise(fit: k.Fit, found: Any, x: Any, a: float) -> Any:
    b, kind = math.sqrt((1 - a) * (1 + a)), fit.predicts if fit.has("predicts") else fit.predict
    if kind == "x0":
        return (x - a * found) / b
    if kind == "v":
        return b * x + a * found
    return found if kind == "noise" else -b * found


def _predict(fit: k.Fit, x: Array, t: Any, told: Told) -> Any:
    if fit.has("denoise"):
        return fit.denoise(x, t)
    import torch

    net, found = fit.module_, []
    with torch.no_grad():
        for start in range(0, len(x), AT_ONCE):
            part = slice(start, start + AT_ONCE)
            some = torch.from_numpy(x[part]).to(net.log_sigma).reshape(-1, *row_shape(fit))
            times = t if np.ndim(t) == 0 else t[part]
            found.append(call(fit, some, times, told.part(part)).double().cpu().numpy())
    return np.concatenate(found).reshape(x.shape)


def call(fit: k.Fit, x: Any, t: Any, told: Told) -> Any:
    """The network's answer to a tensor of rows, at one time or at one for each."""
    import torch

    net = fit.module_.eval()
    places = None if told.places is None else torch.from_numpy(np.asarray(told.places)).to(x.device)
    given = None
    if told.given is not None:
        given = torch.from_numpy(told.given).to(x).reshape(len(x), -1, *x.shape[2:])
    times = torch.from_numpy(np.broadcast_to(t, len(x)).copy()).to(x.device)
    return net(x, times, places, given)


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
    asked = LEVELS * DRAWS * min(n_new(fit), MOST) * row_cost(fit)
    return asked + n * d * d / k.PRODUCTS + 10.0 * d**3


@k.statistical(
    f"at none of {LEVELS} noise levels its error is more than {SLACK:.0%} above that of the best linear denoiser",
    "CIL 5.5.3; Wiener filter; bets on capped errors of new rows, all levels at once",
    confidence=1 - RISK,
    cost=_cost_of_denoising,
    needs=(patterns,),
)
def beats_linear_denoiser(fit: k.Fit) -> k.Evidence:
    """A denoiser of a model with classes is told the class of each row, where it is known."""
    found, some = patterns(fit), slice(MOST)
    rows, told = found.new[some], found.told.part(some)
    linear, a = Wiener.of(found.train), amplitudes(fit)
    rng = np.random.default_rng(len(rows))
    times = np.unique(np.ceil((np.arange(LEVELS) + 0.5) / LEVELS * (len(a) - 1)).astype(int))
    gains, means = [], []
    for t in map(int, times):
        ours, theirs = np.mean(
            [_errors(fit, rows, told, linear, t, rng) for _ in range(DRAWS)], axis=0
        )
        capped = np.clip((1 + SLACK) * theirs - ours, -CAP, CAP)
        gains.append(mean_gain(capped, union_bound(len(times), RISK), -CAP, CAP))
        means.append((float(ours.mean()), float(theirs.mean())))
    return _judge_levels(times, gains, means)


def _errors(
    fit: k.Fit, rows: Array, told: Told, linear: Wiener, t: int, rng: np.random.Generator
) -> tuple[Array, Array]:
    """‖v̂ − v‖² of the denoiser and of the linear one, of every row with fresh noise, over the latter's expected error."""
    a, noise = float(amplitudes(fit)[t]), rng.normal(size=rows.shape)
    x = a * rows + math.sqrt((1 - a) * (1 + a)) * noise
    unit = a * a * (linear.expected_error(a) or 1.0)
    ours, theirs = (
        np.square(guess - noise).mean(axis=1) / unit
        for guess in (noise_in(fit, x, t, told), linear(x, a))
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
    cost=lambda fit: 4.0 * THERE * FEW * row_cost(fit),
)
def sampler_inverts(fit: k.Fit) -> k.Evidence:
    """Heun's steps in σ, from the least noise level to the last one and back; of these rows, with this denoiser."""
    a = amplitudes(fit)
    rows, given = in_its_units(fit, next(iter(fit.data))[0][:FEW])
    known = fit.get("classes_") is not None and fit.y is not None
    told = Told(np.asarray(fit.y)[: len(rows)] if known else None, given)
    spread = float(np.sqrt(np.square(rows - rows.mean(axis=0)).mean()))
    if not spread > 0:
        raise k.CannotTell("all rows are equal")
    times = evenly_in_noise(a, THERE)
    x = rows * a[times[0]]
    for t, s in (*pairwise(times), *pairwise(times[::-1])):
        here = noise_in(fit, x, t, told)
        ahead = noise_in(fit, move(x, a, t, s, here), s, told)
        x = move(x, a, t, s, (here + ahead) / 2)
    off = float(np.sqrt(np.square(x / a[times[0]] - rows).mean())) / spread
    advice = "the denoiser changes faster than its noise levels: train longer, or with more of them"
    return k.at_most(off, BACK, advice, unit="of the deviation", note=f"{len(rows)} rows, {len(times) - 1} steps")  # fmt: skip


def evenly_in_noise(a: Array, steps: int) -> list[int]:
    """At most steps + 1 times, evenly spaced in ln σ as far as the schedule has them, ascending."""
    ln_sigma = np.log(np.sqrt((1 - a[1:]) * (1 + a[1:])) / a[1:])
    wanted = np.linspace(ln_sigma[0], ln_sigma[-1], steps + 1)
    nearest = np.abs(ln_sigma[:, None] - wanted).argmin(axis=0) + 1
    return np.unique(nearest).tolist()


def move(x: Array, a: Array, t: int, s: int, noise: Array) -> Array:
    sigma = np.sqrt((1 - a[[t, s]]) * (1 + a[[t, s]])) / a[[t, s]]
    return a[s] * (x / a[t] + (sigma[1] - sigma[0]) * noise)


# --- what a fit states ------------------------------------------------------------------------------------------------


def _statement_errors(fit: k.Fit) -> Mapping[str, float]:
    """loss_ : the error of the prediction at a time and noise for each row, the draws of NumPy's generator of seed 0."""
    some, weights = stated_rows(fit)
    x0, given = in_its_units(fit, rows_of(fit.data, some))
    rng, a, n = np.random.default_rng(0), amplitudes(fit), len(x0)
    if fit.get("classes_") is not None and fit.y is None:
        raise k.CannotTell("it is of rows given their classes: pass y")
    places = None if fit.get("classes_") is None else np.asarray(fit.y)[some]
    times = 1 + (rng.permutation(n) * (len(a) - 1)) // n
    noise, told = rng.standard_normal(x0.shape), Told(places, given)
    a, b = (one[times][:, None] for one in (a, np.sqrt((1 - a) * (1 + a))))
    found = np.asarray(_predict(fit, a * x0 + b * noise, times, told))
    wanted = {"noise": noise, "x0": x0, "v": a * noise - b * x0, "score": -noise}[fit.predicts]
    found = b * found if fit.predicts == "score" else found
    errors = np.square(found - wanted).mean(axis=1)
    sizes = np.square(np.abs(found) + np.abs(wanted)).mean(axis=1)
    loss, size = (float(np.average(one, weights=weights)) for one in (errors, sizes))
    return {"loss_": discrepancy(fit.loss_, loss, loss + size, k.rounding(float_type(fit), 4096))}


def _unsound_fit(fit: k.Fit) -> Iterator[str]:
    yield from unsound_network(fit)
    a = np.asarray(fit.alpha_bar_)
    if a[0] != 1 or not ((a[1:] > 0) & (a[1:] < 1)).all():
        yield "alpha_bar_ does not begin at 1, or leaves (0, 1)"


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

DIFFUSION_CLAIMS: tuple[Any, ...] = (
    attributes_sound({"loss_": ">=0", "alpha_bar_": "s", "test_rows_?": "t int >=0"}, _unsound_fit),
    statements_true(
        _statement_errors,
        cost=lambda fit: min(fit.data.shape[0], 2000) * 2 * row_cost(fit),
        unchecked="test_rows_",
    ),
    beats_linear_denoiser,
    noise_adds_up,
    starts_from_noise,
    sampler_inverts,
)
