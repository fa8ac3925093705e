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


@entry("sunspots", "CIL 5.1.2")
def sunspots() -> Any:
    """Sunspots come back after eleven years: a peak of the spectrum, and a forecast that loses it after a few cycles.

    Left: yearly numbers; what AR forecasts from 1960 on, with intervals of 95 %, and what came (grey). Right: its spectrum by
    period over the periodogram.
    """
    from lemmata.data import time_series

    x = time_series("sunspots-yearly").X.ravel()
    known, later = x[:260], x[260:]
    model = AR("aic", method="burg").fit(known)
    ahead, years = model.forecast(len(later)), 1700 + np.arange(len(x))
    drawing, (left, right) = figure(columns=2, size=(4.6, 3.0))
    left.plot(years[180:260], known[180:], color=BLUE, linewidth=0.9)
    left.plot(years[260:], later, color=GREY, linewidth=0.9, label="what came")
    left.plot(years[260:], ahead.mean, color=ORANGE, label=f"AR({len(model.coef_)})")
    left.fill_between(years[260:], ahead.lower, ahead.upper, color=ORANGE, alpha=0.2)
    left.legend()
    left.set(xlabel="year", ylabel="sunspots")
    periods = np.linspace(5, 30, 1000)
    spectrum = model.spectrum(2 * np.pi / periods)
    powers = np.abs(np.fft.rfft(known - known.mean())[1:]) ** 2 / len(known)
    at = len(known) / np.arange(1, len(powers) + 1)
    right.semilogy(at, powers, color=GREY, linewidth=0.6, label="periodogram")
    right.semilogy(periods, spectrum, color=ORANGE, label="AR")
    right.set(xlabel="period, years", xlim=(5, 30), ylim=(powers.max() * 1e-4, powers.max() * 2))
    right.legend()
    peak = periods[spectrum.argmax()]
    inside = ((later >= ahead.lower) & (later <= ahead.upper)).mean()
    show(10 < peak < 12, "the spectrum peaks between ten and twelve years")
    show(inside >= 0.85, "at least 85 % of the years to come lie in their intervals")
    show(
        np.ptp(ahead.mean[-11:]) < 0.5 * np.ptp(ahead.mean[:11]), "the cycle of the forecast fades"
    )
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


@entry("masked-kernels", "CIL 5.1.3, Fig. 5.1")
def masked_kernels() -> Any:
    """A masked kernel scans an image; layers of masks are blind to the upper right, two stacks are not.

    Left: a 5 × 5 kernel of mask A, which sees the pixels before its own (orange). Middle: on which pixels the output at
    the middle of 15 × 15 depends after three such layers. Right: the same of PixelCNN's rows above and row to the left.
    """
    import torch
    from torch import nn

    from lemmata.generate.pixels.network import CausalNet

    side, middle, mask = 15, 7, np.ones((5, 5))
    mask[3:] = mask[2, 2:] = 0
    torch.manual_seed(0)
    layers = [nn.Conv2d(1, 1, 5, padding=2) for _ in range(3)]
    with torch.no_grad():
        for at, layer in enumerate(layers):
            sees = torch.from_numpy(mask).float()
            sees[2, 2] = float(at > 0)  # mask A, then B
            layer.weight.copy_(sees * layer.weight.abs())
    x = torch.zeros(1, 1, side, side, requires_grad=True)
    found = nn.Sequential(*layers)(x)[0, 0, middle, middle]
    stacked = torch.autograd.grad(found, x)[0][0, 0].numpy() != 0
    net = CausalNet(
        (1, side, side), 2, (side, side), channels=4, kernel=5, dilations=(1,) * 3, hidden=4
    )
    images = torch.zeros(1 + side * side, 1, side, side)
    images[1:].view(side * side, -1)[:] = torch.eye(side * side)
    with torch.no_grad():
        logits = net(images)[:, 0, 0, middle, middle]
    two = (logits[1:] != logits[0]).reshape(side, side).numpy()
    drawing, axes = figure(columns=3, size=(2.8, 2.9))
    titles = ("mask A", "three masked layers", "two stacks")
    for ax, seen, title in zip(axes, (mask, stacked, two), titles, strict=True):
        ax.imshow(seen, cmap="Oranges", vmin=0, vmax=1.5)
        ax.plot([(seen.shape[1] - 1) / 2], [(seen.shape[0] - 1) / 2], "s", color=BLUE)
        ax.set(title=title, xticks=[], yticks=[])
    later = np.arange(side * side).reshape(side, side) >= middle * side + middle
    blind = two & ~stacked
    show(not (stacked | two)[later].any(), "no output depends on its own pixel or on a later one")
    show(blind[:middle, middle + 1 :].any() and not (stacked & ~two).any(),
         "masks upon masks miss pixels to the upper right that two stacks see")  # fmt: skip
    return drawing


@entry("planar-depth", "CIL 5.2.4, Fig. 5.4, (5.14)")
def planar_depth() -> Any:
    """A planar map bends space along one line; K of them in a row make any shape out of a normal density or a square.

    Above: draws of N(0, I) through flows of K planar maps that were fitted to three groups. Below: the square [−2, 2]² through
    the same flows; where lines of the grid draw apart, ln|det| is large.
    """
    import torch

    from lemmata.generate.flows.estimator import NormalizingFlow

    rng = np.random.default_rng(0)
    centres = 2 * np.array([[0, 1], [-0.9, -0.5], [0.9, -0.5]])
    X = (centres[rng.integers(0, 3, 1500)] + 0.4 * rng.normal(size=(1500, 2))).astype(np.float32)
    z = torch.from_numpy(rng.normal(size=(800, 2)).astype(np.float32))
    at, width = np.linspace(-2, 2, 161), 0.025
    lines = np.stack(np.meshgrid(at, at, indexing="ij"), -1).astype(np.float32)
    drawing, axes = figure(2, 4, size=(2.4, 2.4))
    scores, errors = [], []
    for K, (above, below) in zip((1, 2, 8, 24), axes.T, strict=True):
        settings: dict[str, Any] = {
            "n_transforms": K,
            "max_iter": 60,
            "learning_rate": 2e-2,
            "test_fraction": 0.0,
        }
        flow = NormalizingFlow("planar", **settings, batch_size=500, random_state=0).fit(X)
        scores.append(flow.score(X))
        net = flow.module_.double()
        with torch.no_grad():
            x = net(z.double())[0].numpy()
            moved, log_det = net(torch.from_numpy(lines.reshape(-1, 2)).double())
        moved, log_det = moved.numpy().reshape(lines.shape), log_det.numpy().reshape(161, 161)
        above.plot(*x.T, ".", color=BLUE, markersize=2)
        for step in range(0, 161, 10):
            below.plot(*moved[step].T, color=ORANGE, linewidth=0.6)
            below.plot(*moved[:, step].T, color=ORANGE, linewidth=0.6)
        above.set_title(f"K = {K}")
        across, up = (np.gradient(moved, width, axis=axis)[1:-1, 1:-1] for axis in (0, 1))
        area = np.abs(across[..., 0] * up[..., 1] - across[..., 1] * up[..., 0])
        errors.append(np.median(np.abs(np.log(area) - log_det[1:-1, 1:-1])))
    show(bool((np.diff(scores) > 0).all()), "each deeper flow gives the rows more probability")
    show(max(errors) < 0.02, "areas of small cells grow by |det|, within 2 % in the median")
    return drawing


@entry("flow-grid", "CIL 5.2, Prop. 5.2.1, Fig. 5.3")
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


@entry("vae-walk", "CIL 5.3, Fig. 5.6")
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


@entry("model-table", "CIL 5.1–5.3, Fig. 5.2, 5.5")
def model_table() -> Any:
    """Four models of binary digits: how probable new ones are, how draws are made, and how different they are.

    Draws of independent pixels, PixelCNN, Glow and a VAE, and digits as they are. "exact" is −ln P, "at most" its bound, in
    nats a new image; passes of the network for a draw; kinds: e to the entropy of the digits that the draws are nearest to.
    """
    from sklearn.neighbors import KNeighborsClassifier

    from lemmata.generate.flows.estimator import NormalizingFlow
    from lemmata.generate.pixels.estimator import PixelCNN
    from lemmata.generate.vae.estimator import VAE

    digits = load_digits()
    order = np.random.default_rng(0).permutation(len(digits.images))
    X, kinds = (digits.images > 7).astype(np.float32)[order, None], digits.target[order]
    train, new, n = X[:1400], X[1400:], 200
    common: dict[str, Any] = {"random_state": 0, "test_fraction": 0.0}
    pixel = PixelCNN(channels=16, max_iter=6, **common).fit(train)
    glow = NormalizingFlow("glow", widths=(32,), n_transforms=4, max_iter=12, **common).fit(train)
    vae = VAE(8, layers=(128,), max_iter=40, learning_rate=4e-3, **common).fit(train)
    shares = (train.sum(axis=0) + 0.5) / (len(train) + 1)
    rng = np.random.default_rng(0)
    nats = {
        "independent": -(new * np.log(shares) + (1 - new) * np.log1p(-shares))
        .sum((1, 2, 3))
        .mean(),
        "PixelCNN": -pixel.score(new),
        "Glow": 64 * np.log(2) * glow.bits_per_dim(new, n_samples=8),
        "VAE": -vae.bound(new, 50).mean(),
        "digits": np.nan,
    }
    alone = (rng.random((n, 1, 8, 8)) < shares).astype(np.float32)
    draws = [alone, pixel.sample(n), glow.sample(n), vae.sample(n), new[:n]]
    nearest = KNeighborsClassifier(1).fit(train.reshape(-1, 64), kinds[:1400])
    drawing, axes = figure(5, 1, size=(7.0, 0.85))
    words = ("exact, 1 pass", "exact, 64 passes", "at most, 1 pass", "at most, 1 pass", "")
    met = []
    for ax, (name, value), images, what in zip(axes, nats.items(), draws, words, strict=True):
        counts = np.bincount(nearest.predict(images.reshape(n, -1)), minlength=10) / n
        met.append(float(np.exp(-(counts[counts > 0] * np.log(counts[counts > 0])).sum())))
        image_grid(ax, images[:20, 0], 20)
        figure_ = f"{value:.1f} nats, {what}, " if what else ""
        ax.set_title(f"{name}: {figure_}{met[-1]:.1f} kinds", loc="left", fontsize=8)
    best = min(nats["PixelCNN"], nats["VAE"])
    show(best < nats["independent"] - 5, "new digits gain five nats and more on independent pixels")
    show(met[1] > 5 and met[3] > 5, "draws of PixelCNN and of the VAE are of more than five kinds")
    return drawing
