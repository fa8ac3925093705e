"""Diffusion, drawn (CIL 5.5; ML "Diffusion models"): patterns drown in noise, and a denoiser leads back."""

from __future__ import annotations

from typing import Any

import numpy as np

from lemmata.atlas import entry, show
from lemmata.core.certification.pictures import BLUE, GREY, ORANGE, figure
from lemmata.generate.diffusion.exact import MixtureDenoiser
from lemmata.generate.diffusion.samplers import SAMPLERS, trajectory
from lemmata.generate.diffusion.schedules import make_schedule

Array = np.ndarray
TIMES = (0, 60, 120, 200)


def _crescents() -> MixtureDenoiser:
    """Two arcs of narrow normals, of deviation near 1."""
    angles = np.linspace(0, np.pi, 10)
    arc = np.stack([np.cos(angles), np.sin(angles)], 1)
    means = np.concatenate([arc, [0.9, 0.35] - arc]) * 1.2 - [0.54, 0.2]
    covariances = 0.015 * np.eye(2)[None].repeat(20, axis=0)
    return MixtureDenoiser(np.full(20, 0.05), means, covariances, make_schedule("cosine", 200))


@entry("diffusion-cloud", "CIL 5.5.1, 5.5.2; Fig. 5.10, 5.11")
def diffusion_cloud(seed: int = 0) -> Any:
    """A cloud of points drowns in noise and comes back, by a drift that noise does not have.

    Top: 800 points at four noise levels. Middle: pure noise, and where 50 steps of the chain (CIL's algorithm) with the exact
    score take it. Bottom: the drift of a step back, which is neither constant in time nor in space.
    """
    best, rng = _crescents(), np.random.default_rng(seed)
    X, schedule = best.draw(800, rng), best.schedule
    drawing, grid = figure(rows=3, columns=4, size=(2.4, 2.3))
    start = rng.normal(size=(800, 2))

    def draw(x: Array) -> Array:
        return rng.normal(size=x.shape)

    walk = dict(trajectory(start, best, draw, schedule, "ancestral", 50))
    levels = np.array(list(walk))
    side = np.linspace(-2.4, 2.4, 13)
    places = np.stack([one.ravel() for one in np.meshgrid(side, side)], 1)
    for column, t in enumerate(TIMES):
        noisy = schedule.alpha_bar[t] * X + schedule.beta_bar[t] * rng.normal(size=X.shape)
        near = int(levels[np.abs(levels - t).argmin()])
        grid[0, column].plot(*noisy.T, ".", color=BLUE, markersize=1.5)
        grid[1, 3 - column].plot(*walk[near].T, ".", color=ORANGE, markersize=1.5)
        drift = best.score(places, max(t, 5)) * (1 if t else 0.2)
        grid[2, 3 - column].quiver(*places.T, *drift.T, color=GREY, width=0.006)
        grid[0, column].set_title(f"t = {t}")
        grid[1, 3 - column].set_title(f"t = {near}")
    for axes in grid.ravel():
        axes.set(xlim=(-2.6, 2.6), ylim=(-2.6, 2.6), xticks=[], yticks=[], aspect="equal")
    back = walk[0]
    near = np.linalg.norm(back[:, None] - best.means, axis=2).min(axis=1)
    own = np.linalg.norm(X[:, None] - best.means, axis=2).min(axis=1)
    show(
        abs(np.median(near) - np.median(own)) < 0.05, "draws lie as near to the arcs as the points"
    )
    share = (back[:, 1] > 0.2).mean() - (X[:, 1] > 0.2).mean()
    show(abs(share) < 0.08, "both arcs get their share")
    return drawing


@entry("diffusion-score", "ML Denoising score matching; CIL 5.5.3")
def diffusion_score(seed: int = 0) -> Any:
    """A regression on noise learns the score of a mixture, where there are points to learn from.

    Arrows: the exact score (grey) and the learned one (orange), after 25 epochs on 1,500 points. Far from all points nothing
    was learned, and nothing is needed there.
    """
    import torch

    from lemmata.generate.diffusion.estimator import Diffusion

    best, rng = _crescents(), np.random.default_rng(seed)
    X = best.draw(1500, rng).astype(np.float32)
    model = Diffusion(width=48, max_iter=25, steps=200, batch_size=64, random_state=seed).fit(X)
    net, schedule = model.module_, best.schedule
    mean, scale = (one.double().numpy() for one in (net.mean, net.scale))
    unit = MixtureDenoiser(
        best.weights, (best.means - mean) / scale, best.covariances / np.outer(scale, scale), schedule
    )  # fmt: skip
    side = np.linspace(-2.4, 2.4, 15)
    places = np.stack([one.ravel() for one in np.meshgrid(side, side)], 1)
    drawing, grid = figure(columns=3, size=(3.2, 3.2))
    errors = []
    for axes, t in zip(grid, (60, 100, 150), strict=True):
        z = (X - mean) / scale
        x = schedule.alpha_bar[t] * z + schedule.beta_bar[t] * rng.normal(size=z.shape)

        def predict_score(rows: Array, t: int = t) -> Array:
            with torch.no_grad():
                some = torch.from_numpy(rows).float()
                noise = net.noise(some, torch.full((len(rows),), t))[0].double().numpy()
            return -noise / schedule.beta_bar[t]

        exact = unit.score(x, t)
        errors.append(np.square(predict_score(x) - exact).sum() / np.square(exact).sum())
        axes.plot(*x.T, ".", color=BLUE, markersize=1, alpha=0.4)
        axes.quiver(*places.T, *unit.score(places, t).T, color=GREY, width=0.006)
        axes.quiver(*places.T, *predict_score(places).T, color=ORANGE, width=0.004)
        axes.set(title=f"t = {t}", xticks=[], yticks=[], xlim=(-2.6, 2.6), ylim=(-2.6, 2.6))
    show(
        max(errors) < 0.25,
        "where points are, the learned score misses at most a quarter of the exact one's energy",
    )
    return drawing


@entry("diffusion-guidance", "ML Conditional training")
def diffusion_guidance(seed: int = 0) -> Any:
    """Guidance exaggerates what is special about a class: draws leave the law, and each other's company.

    Two classes, normals at ±1 of variance 0.6; draws of the right one with guidance w. The exact scores are used:
    nothing here is an error of learning.
    """
    schedule, rng = make_schedule("cosine", 200), np.random.default_rng(seed)
    one, left = (
        MixtureDenoiser(np.ones(1), np.array([[m, 0.0]]), np.eye(2)[None] * 0.6, schedule) for m in (1, -1)
    )  # fmt: skip
    both = MixtureDenoiser(
        np.full(2, 0.5), np.concatenate([one.means, left.means]), np.eye(2)[None].repeat(2, 0) * 0.6, schedule
    )  # fmt: skip
    noise, weights = rng.normal(size=(600, 2)), (0.0, 1.0, 4.0)
    drawing, grid = figure(columns=3, size=(3.0, 2.6))
    means, spreads = [], []
    for axes, w in zip(grid, weights, strict=True):

        def guide(x: Array, t: int, w: float = w) -> Array:
            return both(x, t) + (1 + w) * (one(x, t) - both(x, t))

        *_, (_, drawn) = trajectory(noise, guide, np.zeros_like, schedule, "heun", 50)
        axes.plot(*both.draw(600, rng).T, ".", color=GREY, markersize=1.5)
        axes.plot(*drawn.T, ".", color=ORANGE, markersize=2)
        axes.set(title=f"w = {w:g}", xlim=(-3.5, 4.5), ylim=(-2.6, 2.6), xticks=[], yticks=[])
        means.append(float(drawn[:, 0].mean()))
        spreads.append(float(drawn[:, 0].std()))
    show(means[0] < means[1] < means[2], "draws move away from the other class")
    show(spreads[2] < 0.9 * spreads[0], "and become more alike")
    return drawing


@entry("diffusion-steps", "ML Diffusion models, Algorithms 1–3")
def diffusion_steps(seed: int = 0) -> Any:
    """ML's sampling step is right to first order; CIL's is exact where its σ is.

    On N(0, I) with the exact score: the variance that 400 steps of size δ = 1 − α tend to, measured on 4,000 draws (dots)
    and by formula (lines).
    """
    deltas, rng = np.array([0.01, 0.03, 0.1, 0.2, 0.3]), np.random.default_rng(seed)
    drawing, axes = figure(size=(4.6, 3.2))
    found: dict[str, list[float]] = {"euler-maruyama": [], "ancestral": []}
    for delta in deltas:
        schedule = make_schedule((1 - delta) ** np.arange(1, 401))
        unit = MixtureDenoiser(np.ones(1), np.zeros((1, 1)), np.ones((1, 1, 1)), schedule)
        for name, variances in found.items():
            more = {"share": 1.0} if name == "ancestral" else {}
            step = SAMPLERS[name](unit, lambda x: rng.normal(size=x.shape), schedule, **more)
            x = rng.normal(size=(4000, 1))
            for t in range(400, 20, -1):
                x = step(x, t, t - 1)
            variances.append(float(x.var()))
    d = np.linspace(0, 0.3, 100)
    axes.plot(d, (2 - d) / (2 - 3 * d + 2 * d**2 - d**3), color=ORANGE, label="(2 − α)x + …, ML")
    axes.plot(deltas, found["euler-maruyama"], "o", color=ORANGE)
    axes.axhline(1, color=BLUE, label="σ = β, CIL")
    axes.plot(deltas, found["ancestral"], "o", color=BLUE)
    axes.set(xlabel="δ = 1 − α", ylabel="variance of the draws")
    axes.legend()
    expected = (2 - deltas) / (2 - 3 * deltas + 2 * deltas**2 - deltas**3)
    off = np.abs(np.array(found["euler-maruyama"]) / expected - 1).max()
    show(
        off < 0.12,
        "ML's step has the variance of the formula, five deviations of 4,000 draws at most",
    )
    show(
        np.abs(np.array(found["ancestral"]) - 1).max() < 0.12,
        "the chain with σ = β keeps a variance of 1",
    )
    return drawing
