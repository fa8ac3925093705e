"""Models that draw, drawn (CIL 5.1–5.3): processes and their spectra, flows that bend space, codes and bounds."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.datasets import load_digits, make_moons

from lemmata.atlas import entry, show
from lemmata.core.certification.pictures import BLUE, GREY, ORANGE, figure, image_grid
from lemmata.generate.series.estimator import AR

Array = np.ndarray


@entry("ar-spectrum", "CIL 5.1.1, 5.1.2; Thm 5.1.1")
def ar_spectrum() -> Any:
    """The process of most entropy: a smooth spectrum through the noise of the periodogram, and forecasts that fade.

    Left: 400 values of a process with two resonances (thin), and what follows by AR of an order that BIC chooses, with
    intervals of 95 %; the true continuation in grey. Right: the periodogram, the true spectrum, and that of the fit.
    """
    poles = np.array([0.97 * np.exp(0.5j), 0.9 * np.exp(1.6j)])
    truth = AR(4).from_coefficients(-np.poly([*poles, *poles.conj()]).real[1:])
    x = truth.sample(1, length=440, random_state=3)[0]
    model = AR("bic", method="burg").fit(x[:400])
    ahead, t = model.forecast(40), np.arange(400, 440)
    drawing, (left, right) = figure(columns=2, size=(4.6, 3.0))
    left.plot(np.arange(300, 400), x[300:400], color=BLUE, linewidth=0.9)
    left.plot(t, x[400:], color=GREY, linewidth=0.9, label="what came")
    left.plot(t, ahead.mean, color=ORANGE, label=f"AR({len(model.coef_)})")
    left.fill_between(t, ahead.lower, ahead.upper, color=ORANGE, alpha=0.2)
    left.set(xlabel="t")
    left.legend()
    w = np.linspace(0.01, np.pi, 400)
    powers = np.abs(np.fft.rfft(x[:400] - x[:400].mean())[1:]) ** 2 / 400
    at = 2 * np.pi * np.arange(1, len(powers) + 1) / 400
    right.semilogy(at, powers, color=GREY, linewidth=0.6, label="periodogram")
    right.semilogy(w, truth.spectrum(w), color=BLUE, label="true")
    right.semilogy(w, model.spectrum(w), "--", color=ORANGE, label="AR")
    right.set(xlabel="ω, radians per step", ylabel="S(ω)")
    right.legend()
    inside = ((x[400:] >= ahead.lower) & (x[400:] <= ahead.upper)).mean()
    off = np.abs(np.log(model.spectrum(w) / truth.spectrum(w)))
    noisy = np.abs(np.log(powers / truth.spectrum(at)))
    show(inside >= 0.85, "at least 85 % of the values to come lie in their intervals")
    show(off.mean() < 0.4 * noisy.mean(), "the spectrum of the fit is nearer to the true one")
    return drawing


@entry("ar-vowel", "CIL 5.1.2")
def ar_vowel() -> Any:
    """A vowel is an autoregression: the resonances of the mouth are the peaks of its spectrum.

    Pulses at 110 Hz through resonances at 700, 1,200 and 2,600 Hz, as in an open a, 8,000 values a second. Left: 40 ms of
    it. Right: its spectrum, line by line of the voice, and the envelope that AR(10) finds, with its peaks.
    """
    rate, formants, n = 8000, np.array([700.0, 1200.0, 2600.0]), 4000
    radius = np.exp(-np.pi * np.array([80.0, 90.0, 130.0]) / rate)
    poles = radius * np.exp(2j * np.pi * formants / rate)
    mouth = AR(6).from_coefficients(-np.poly([*poles, *poles.conj()]).real[1:])
    rng = np.random.default_rng(0)
    voice = (np.arange(n) % round(rate / 110) == 0) + 0.01 * rng.normal(size=n)
    x = np.zeros(n)
    for t in range(n):
        past = x[max(t - 6, 0) : t][::-1]
        x[t] = voice[t] + mouth.coef_[: len(past)] @ past
    model = AR(10, method="burg").fit(x)
    hertz = np.linspace(50, 3900, 1500)
    envelope = model.spectrum(2 * np.pi * hertz / rate)
    inner = (envelope[1:-1] > envelope[:-2]) & (envelope[1:-1] > envelope[2:])
    peaks = hertz[1:-1][inner]
    found = np.array([peaks[np.abs(peaks - f).argmin()] for f in formants])
    drawing, (left, right) = figure(columns=2, size=(4.6, 3.0))
    some = slice(2000, 2000 + rate // 25)
    left.plot(np.arange(rate // 25) / rate * 1000, x[some], color=BLUE, linewidth=0.9)
    left.set(xlabel="milliseconds")
    lines = np.abs(np.fft.rfft(x * np.hanning(n))) ** 2 / n
    right.semilogy(np.arange(len(lines)) * rate / n, lines, color=GREY, linewidth=0.6)
    right.semilogy(hertz, envelope, color=ORANGE, label="AR(10)")
    for f in found:
        right.axvline(f, color=ORANGE, linewidth=0.6, linestyle=":")
    right.set(xlabel="Hz", ylim=(lines.max() * 1e-7, None))
    right.legend(title=", ".join(f"{f:,.0f}" for f in found))
    show(
        bool((np.abs(found - formants) < 60).all()), "the peaks are within 60 Hz of the resonances"
    )
    return drawing


@entry("flow-grid", "CIL 5.2, Prop. 5.2.1")
def flow_grid() -> Any:
    """A flow bends the plane: a grid around the normal density becomes one around two moons.

    Left: draws of N(0, I) and a grid. Middle: where the flow takes both. Right: its density; what holds the moons together is
    a thin bridge, since a bijection cannot tear the plane apart.
    """
    import torch

    from lemmata.generate.flows.estimator import NormalizingFlow

    X = make_moons(3000, noise=0.07, random_state=0)[0].astype(np.float32)
    flow = NormalizingFlow(
        "spline", max_iter=12, learning_rate=1e-2, batch_size=256, random_state=0
    ).fit(X[:2000])
    z = np.random.default_rng(0).normal(size=(600, 2)).astype(np.float32)
    lines = [
        np.stack([np.linspace(-2, 2, 80), np.full(80, c)][::turn], 1).astype(np.float32)
        for c in np.linspace(-2, 2, 13)
        for turn in (1, -1)
    ]
    with torch.no_grad():
        moved = [flow.module_(torch.from_numpy(part))[0].numpy() for part in (z, *lines)]
    drawing, (left, middle, right) = figure(columns=3, size=(3.2, 3.0))
    for axes, points, grid in ((left, z, lines), (middle, moved[0], moved[1:])):
        for line in grid:
            axes.plot(*line.T, color=GREY, linewidth=0.5)
        axes.plot(*points.T, ".", color=BLUE, markersize=2)
    across, up = np.meshgrid(np.linspace(-1.6, 2.6, 120), np.linspace(-1.1, 1.6, 90))
    points = np.stack([across.ravel(), up.ravel()], 1).astype(np.float32)
    p = np.exp(flow.score_samples(points)).reshape(across.shape)
    right.contourf(across, up, p, levels=20, cmap="Blues")
    left.set_title("z")
    middle.set(title="x = F(z)", xlim=(-1.6, 2.6), ylim=(-1.1, 1.6))
    right.set_title("p(x)")
    gain = flow.score(X[2000:]) - _normal_score(X[:2000], X[2000:])
    mass = float(p.sum()) * (4.2 / 119) * (2.7 / 89)
    show(gain > 0.7, "new rows gain 0.7 nats on independent normal columns")
    show(abs(mass - 1) < 0.05, "the density in the window adds up to 1 within 5 %")
    return drawing


def _normal_score(train: Array, rows: Array) -> float:
    mean, s = train.mean(axis=0), train.std(axis=0)
    return float(-(0.5 * ((rows - mean) / s) ** 2 + np.log(s) + 0.9189385).sum(axis=1).mean())


@entry("vae-walk", "CIL 5.3")
def vae_walk() -> Any:
    """Codes of two numbers: where the digits lie, what the decoder draws there, and ways from digit to digit.

    Left: means of q(z|x) of 1,797 digits. Middle: E(x|z) on a grid of quantiles of the prior. Right: from one digit to another
    along the line between their codes.
    """
    from scipy.special import ndtri

    from lemmata.generate.vae.estimator import VAE

    digits = load_digits()
    X = (digits.images / 16).astype(np.float32)
    settings: dict[str, Any] = {
        "layers": (128,),
        "learning_rate": 4e-3,
        "random_state": 0,
        "test_fraction": 0.0,
    }
    model = VAE(2, likelihood="bernoulli", max_iter=30, **settings).fit(X)
    codes = model.transform(X)
    drawing, (left, middle, right) = figure(columns=3, size=(3.2, 3.0))
    for digit in range(10):
        left.plot(*codes[digits.target == digit].T, ".", markersize=2, label=str(digit))
    left.legend(ncols=2, fontsize=6, markerscale=3, handletextpad=0)
    left.set(xlabel="z₁", ylabel="z₂")
    at = ndtri(np.linspace(0.03, 0.97, 9)).astype(np.float32)
    grid = np.stack([np.tile(at, 9), np.repeat(at[::-1], 9)], 1)
    image_grid(middle, model.inverse_transform(grid).reshape(-1, 8, 8), 9)
    firsts = [int(np.flatnonzero(digits.target == digit)[0]) for digit in range(10)]
    pairs = [(0, 6), (1, 7), (3, 8), (4, 9), (5, 2)]
    walks = [model.interpolate(X[firsts[a]], X[firsts[b]], 9) for a, b in pairs]
    image_grid(right, np.concatenate(walks).reshape(-1, 8, 8), 9)
    centres = np.array([codes[digits.target == digit].mean(axis=0) for digit in range(10)])
    nearest = np.linalg.norm(codes[:, None] - centres, axis=2).argmin(axis=1)
    show(
        (nearest == digits.target).mean() > 0.5,
        "half of the digits are next to their own mean code",
    )
    show(bool((np.abs(codes.mean(axis=0)) < 0.5).all()), "codes are centred like the prior")
    return drawing


@entry("elbo-iwae", "CIL 5.3.2, (5.24)")
def elbo_iwae() -> Any:
    """Bounds of ln p(x) close with the number of draws; where p is known, one sees what is missing.

    Left: a linear VAE whose ln p(x) is known exactly (grey), early in training: the ELBO (k = 1) and the importance-weighted
    bound of k draws. Right: how both rise in training, on binary digits.
    """
    from scipy.stats import multivariate_normal

    from lemmata.generate.vae.estimator import VAE

    rng = np.random.default_rng(0)
    W = rng.normal(size=(2, 6))
    X = rng.normal(size=(1000, 2)) @ W + 0.4 * rng.normal(size=(1000, 6))
    linear: dict[str, Any] = {"layers": (), "activation": "identity", "random_state": 0}
    model = VAE(2, **linear, max_iter=10, learning_rate=0.02, test_fraction=0.0).fit(X)
    net = model.module_.double()
    import torch

    with torch.no_grad():
        b = net.decode(torch.zeros(1, 2).double())[0].numpy()
        A = net.decode(torch.eye(2).double()).numpy() - b
        exact = multivariate_normal(b, A.T @ A + net.sigma.item() ** 2 * np.eye(6)).logpdf(X).mean()
    draws = [1, 2, 4, 8, 16, 32, 64]
    bounds = [float(model.bound(X, k).mean()) for k in draws]
    drawing, (left, right) = figure(columns=2, size=(4.6, 3.0))
    left.plot(draws, bounds, "o-", color=ORANGE, label="bound of k draws")
    left.axhline(exact, color=GREY, label="ln p(x)")
    left.set(xscale="log", xticks=draws, xticklabels=draws, xlabel="k", ylabel="nats")
    left.minorticks_off()
    left.legend()
    pixels = (load_digits().images > 7).astype(np.float32)
    train, new = pixels[:1400], pixels[1400:]
    epochs, found = [2, 5, 10, 20], []
    for count in epochs:
        vae = VAE(6, layers=(64,), max_iter=count, learning_rate=5e-3, random_state=0).fit(train)
        found.append([float(vae.bound(new, k).mean()) for k in (1, 50)])
    for name, values, colour in zip(("ELBO", "IWAE-50"), np.array(found).T, (BLUE, ORANGE), strict=True):  # fmt: skip
        right.plot(epochs, values, "o-", color=colour, label=name)
    right.set(xlabel="epochs", ylabel="nats per new digit")
    right.legend()
    show(max(bounds) <= exact + 0.02, "no bound is above ln p(x), but for 0.02 nats of luck")
    show(bounds[0] < bounds[2] < bounds[4], "the bound is closer with 4 and with 16 draws")
    show(all(one < many for one, many in found), "IWAE-50 is above the ELBO at every stage")
    return drawing
