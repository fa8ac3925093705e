"""Games and adversarial networks, drawn (CIL 5.4): orbits around a saddle point, a fooled classifier, a ring of modes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from lemmata.atlas import entry, show
from lemmata.core.certification.pictures import BLUE, GREY, ORANGE, figure
from lemmata.core.engine import config
from lemmata.generate.gan.estimator import GAN
from lemmata.generate.gan.theory import METHODS, DiracGAN, bilinear, normal
from lemmata.optim.games import DescentAscent

Array = np.ndarray
COLOURS = dict(zip(METHODS, (GREY, BLUE, ORANGE), strict=True))
MODES, SIGMA = 8, 0.02


def _orbit(game: Any, method: str, eta: float, steps: int) -> Array:
    """(steps + 1, 2): both players' points, step by step."""
    play = DescentAscent(game, (np.full(1, 0.5), np.full(1, 0.5)), eta, method)
    state = play.init(None, None)
    points = [state]
    for _ in range(steps):
        points.append(state := play.step(state, None))
    return np.array([[one.x[0], one.y[0]] for one in points])


@entry("game-orbits", "CIL 5.4.4, (5.39), (5.40)")
def game_orbits() -> Any:
    """Steps of a game turn: at once they leave, in turns they circle, by extragradient or with R1 they arrive.

    Each player steps 150 times from (½, ½), η = 0.2, on f = xy; η = 0.8 on the Dirac-GAN, a generator of one point against
    a linear discriminator, without R1 and with γ = 0.3.
    """
    games = (("f = xy", bilinear, 0.2), ("Dirac-GAN", DiracGAN(), 0.8), ("with R1", DiracGAN(0.3), 0.8))  # fmt: skip
    drawing, grid = figure(columns=3, size=(3.2, 3.0))
    ends = {}
    for axes, (name, game, eta) in zip(grid, games, strict=True):
        for method in METHODS:
            orbit = _orbit(game, method, eta, 150)
            ends[name, method] = float(np.hypot(*orbit[-1]) / np.hypot(*orbit[0]))
            axes.plot(*orbit.T, ".-", color=COLOURS[method], linewidth=0.6, markersize=2, label=method)  # fmt: skip
        axes.plot(0, 0, "+", color="black")
        axes.set(title=name, xlabel="x", xlim=(-2, 2), ylim=(-2, 2), aspect="equal")
    grid[0].set_ylabel("y")
    grid[0].legend(loc="lower left")
    for name in ("f = xy", "Dirac-GAN"):
        show(ends[name, "synchronous"] > 2, f"{name}: steps at once lead away")
        show(0.3 < ends[name, "alternating"] < 2, f"{name}: steps in turns circle")
        show(ends[name, "extragradient"] < 0.3, f"{name}: extragradient approaches")
    show(max(ends["with R1", method] for method in METHODS) < 0.01, "with R1 every game arrives")
    return drawing


@entry("fooled-classifier", "CIL Example 5.1")
def fooled_classifier() -> Any:
    """A generator is paid for mass where the classifier is sure: its loss falls below ½ p_θ(U) ln ε.

    π is 1 − ε on U = [1, 2] and ½ elsewhere; the generator is N(μ, ½²). Left: its loss ½ E ln(1 − π) by μ. Right: at μ = 1.5
    by ε, with the bound (the notes print ln ε: the share p_θ(U), and the ½ of balanced classes, belong to it).
    """
    x = np.linspace(-4, 7, 22_001)
    inside = (x >= 1) & (x <= 2)

    def loss(mu: float, epsilon: float) -> tuple[float, float]:
        p = np.exp(normal(mu, 0.5)(x)) * (x[1] - x[0])
        share = float(p[inside].sum())
        return 0.5 * (share * math.log(epsilon) + (1 - share) * math.log(0.5)), share

    drawing, (left, right) = figure(columns=2, size=(3.8, 2.9))
    places, sizes = np.linspace(-1, 4, 101), 10.0 ** -np.arange(1, 13)
    for epsilon, colour in ((0.1, GREY), (1e-3, BLUE), (1e-6, ORANGE)):
        left.plot(places, [loss(mu, epsilon)[0] for mu in places], color=colour, label=f"ε = {epsilon:g}")  # fmt: skip
    left.set(xlabel="μ", ylabel="½ E ln(1 − π)")
    left.legend()
    values, masses = np.array([loss(1.5, epsilon) for epsilon in sizes]).T
    bounds = 0.5 * masses * np.log(sizes)
    right.semilogx(sizes, values, color=BLUE, label="loss")
    right.semilogx(sizes, bounds, "--", color=GREY, label="½ p_θ(U) ln ε")
    right.set(xlabel="ε")
    right.legend()
    show(bool((values <= bounds).all()), "the loss is below its bound")
    show(bool((values > np.log(sizes)).all()), "and above ln ε, which the notes print")
    best = places[int(np.argmin([loss(mu, 1e-6)[0] for mu in places]))]
    show(abs(best - 1.5) < 0.06, "the best generator sits where the classifier is sure")
    return drawing


@entry("gan-ring", "CIL 5.4.4, 5.4.5")
def gan_ring(seed: int = 0) -> Any:
    """With R1 samples gather at eight narrow normals in a ring; without it they smear along it, or modes are lost.

    Samples of two fits that differ by R1 alone (orange, 1,000 of each) over the data (grey), and what their discriminators
    say of the plane: darker is "data".
    """
    angles = 2 * np.pi * np.arange(MODES) / MODES
    centres = 2 * np.stack([np.cos(angles), np.sin(angles)], 1)
    rng = np.random.default_rng(seed)
    X = (centres[rng.integers(0, MODES, 3840)] + SIGMA * rng.normal(size=(3840, 2))).astype(np.float32)  # fmt: skip
    side = np.linspace(-2.6, 2.6, 80)
    plane = np.stack([one.ravel() for one in np.meshgrid(side, side)], 1).astype(np.float32)
    drawing, grid = figure(columns=2, size=(3.3, 3.1))
    shares = []
    for axes, r1 in zip(grid, ("auto", 0.0), strict=True):
        with config(certificate=False):
            model = GAN(r1=r1, max_iter=100, test_fraction=0.0, random_state=seed).fit(X)
        S = model.sample(1000, random_state=seed)
        distances = np.linalg.norm(S[:, None] - centres, axis=2)
        near = distances.min(axis=1) < 0.2
        shares.append(np.bincount(distances.argmin(axis=1)[near], minlength=MODES) / len(S))
        field = model.discriminate(plane).reshape(80, 80)
        axes.imshow(field, extent=(-2.6, 2.6, -2.6, 2.6), origin="lower", cmap="Blues", alpha=0.5)
        axes.plot(*X[:500].T, ".", color=GREY, markersize=4)
        axes.plot(*S.T, ".", color=ORANGE, markersize=1)
        axes.set(title="with R1" if r1 else "without", xlim=(-2.6, 2.6), ylim=(-2.6, 2.6))
    kept = int((shares[0] >= 0.25 / MODES).sum())
    show(kept == MODES, "with R1 all eight modes are there")
    show(shares[1].sum() < 0.9 * shares[0].sum(), "without it fewer samples lie near any")
    return drawing
