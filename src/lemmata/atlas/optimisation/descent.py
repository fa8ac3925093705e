"""CIL 4.3 and 5.4.4: how far a step may go, how fast it can be, and what momentum, scaling and look-ahead change."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.datasets import load_wine

from lemmata import optim
from lemmata.atlas import entry, show
from lemmata.core.certification.pictures import BLUE, GREEN, GREY, ORANGE, PURPLE, RED, SKY, figure

Array = np.ndarray


def _points(method: str, f, x0, steps: int, **options) -> Array:
    """The points that a run passes."""
    passed = [np.array(x0, float)]
    keep = lambda solution: passed.append(np.array(solution.attributes["params_"][0]))  # noqa: E731
    optim.minimize(f, x0, method, max_iter=steps, tol=0.0, callbacks=[keep], **options)
    return np.array(passed)


def _contours(ax, f, x: tuple[float, float], y: tuple[float, float], levels) -> None:
    xs, ys = np.linspace(*x, 200), np.linspace(*y, 160)
    values = np.array([[f(np.array([a, b]))[0] for a in xs] for b in ys])
    ax.contour(xs, ys, values, levels=levels, colors=GREY, linewidths=0.6, alpha=0.7)


@entry("descent-quadratic", "CIL Fig. 4.3, (4.33)–(4.35)")
def descent_quadratic():
    """On a quadratic the step decides the rate, and (κ − 1)²/(κ + 1)² is the best.

    Left: gradient descent on ½(x² + 10y²), κ = 10, with a cautious step of 1/L, the best one of 2/(L + μ) and one just
    below 2/L. Right: the gap to the minimum; dotted lines fall by max (1 − ηλ)², the rate of theory, and dashes are the
    bound 1 − μ/L.
    """
    f, start, steps = optim.Quadratic(np.diag([1.0, 10.0])), np.array([10.0, 1.0]), 40
    L, mu = f.L, f.mu
    kinds = {"1/L": (1 / L, BLUE), "2/(L + μ)": (2 / (L + mu), ORANGE), "1.95/L": (1.95 / L, GREEN)}
    drawing, axes = figure(1, 2, size=(5.2, 3.5))
    _contours(axes[0], f, (-4, 11), (-2, 2), [0.2, 1, 3, 7, 13, 22, 35, 55])
    rates = {}
    for name, (eta, colour) in kinds.items():
        path = _points("gd", f, start, steps, step_size=eta)
        gaps = np.array([f(x)[0] for x in path])
        rates[name] = predicted = max((1 - eta * mu) ** 2, (1 - eta * L) ** 2)
        t = np.arange(steps + 1)
        axes[0].plot(*path.T, color=colour, marker="o", ms=2.5, lw=1, label=f"η = {name}")
        axes[1].semilogy(t, gaps, color=colour, label=f"η = {name}: ρ = {predicted:.2f}")
        axes[1].semilogy(t, gaps[0] * predicted**t, color=colour, ls=":", lw=1)
        seen = (gaps <= gaps[0] * predicted**t * (1 + 1e-9)).all()
        show(seen, f"with η = {name} no gap is above the rate of theory")
    label = "1 − μ/L = 0.90"
    axes[1].semilogy(t, gaps[0] * (1 - mu / L) ** t, color=GREY, ls="--", lw=1, label=label)
    axes[0].set(xlabel="x", ylabel="y", title="iterates")
    axes[1].set(xlabel="step", ylabel="f − f*", title="gap", ylim=(1e-6, 300))
    for ax in axes:
        ax.legend(fontsize=7.5, loc="upper right" if ax is axes[0] else "lower left")
    best = rates["2/(L + μ)"]
    show(abs(best - (9 / 11) ** 2) < 1e-12, "the best step has ρ = (κ − 1)²/(κ + 1)² = 0.67")
    show(best < min(rates["1/L"], rates["1.95/L"]), "a shorter and a longer step are both slower")
    return drawing


@entry("momentum-step", "CIL (4.39)")
def momentum_step():
    """Momentum multiplies the step by 1/(1 − β) where the slope is constant.

    The length of every step down a constant slope of 1, in units of η. Heavy ball grows to 1/(1 − β); the notes' averaged
    momentum, m ← βm + (1 − β)g, only grows to 1, so a step size tuned for one is wrong for the other.
    """
    steps, eta = 60, 0.1
    kinds: dict[str, tuple[Any, str, float]] = {
        "plain": (optim.GradientDescent(eta), GREY, 1.0),
        "heavy ball, β = 0.5": (optim.HeavyBall(eta, 0.5), SKY, 2.0),
        "heavy ball, β = 0.9": (optim.HeavyBall(eta, 0.9), BLUE, 10.0),
        "averaged, β = 0.9": (optim.AveragedMomentum(eta, 0.9), ORANGE, 1.0),
    }
    drawing, ax = figure(size=(5.2, 3.5))
    slope = (np.ones(1),)
    for name, (optimizer, colour, limit) in kinds.items():
        x, lengths = (np.zeros(1),), []
        state = optimizer.init(x)
        for _ in range(steps):
            new, state = optimizer.step(state, x, slope)
            lengths.append(float(x[0][0] - new[0][0]) / eta)
            x = new
        style = "--" if "averaged" in name else "-"
        label = f"{name}: {lengths[-1]:.2f} η"
        ax.plot(np.arange(1, steps + 1), lengths, color=colour, ls=style, label=label)
        show(abs(lengths[-1] - limit) < 0.02 * limit, f"{name} ends with steps of {limit:g} η")
    ax.axhline(10, color=GREY, lw=0.6, ls=":")
    ax.set(xlabel="step", ylabel="length of the step / η", ylim=(0, 11))
    ax.set_title("steps down a constant slope")
    ax.legend(loc="center right")
    return drawing


@entry("bilinear-game", "CIL (5.39), (5.40)")
def bilinear_game():
    """On xy synchronous steps drift away, alternating ones circle, extragradient arrives.

    x minimises and y maximises xy, from (1, 1) with η = 0.2. Left: 120 steps each. Right: the distance to the saddle
    point, and dotted what theory says: √(1 + η²) a step for synchronous and √(1 − η² + η⁴) for extragradient steps.
    """
    eta, steps = 0.2, 120
    drawing, axes = figure(1, 2, size=(4.6, 3.9))
    t = np.arange(steps + 1)
    factors = {
        "synchronous": (1 + eta**2) ** 0.5,
        "alternating": None,
        "extragradient": (1 - eta**2 + eta**4) ** 0.5,
    }
    for (method, factor), colour in zip(factors.items(), (RED, ORANGE, BLUE), strict=True):
        path = _play_game(method, eta, steps)
        sizes = np.linalg.norm(path, axis=1)
        axes[0].plot(*path.T, color=colour, lw=1, marker=".", ms=3, label=method)
        axes[1].semilogy(t, sizes, color=colour, label=f"{method}: {sizes[-1]:.2g}")
        if factor is None:
            x, y = path.T
            kept = x**2 + y**2 - eta * x * y
            show(
                np.ptp(kept) < 1e-10, "alternating steps stay on the ellipse x² + y² − ηxy = const"
            )
        else:
            expected = sizes[0] * factor**t
            axes[1].semilogy(t, expected, color="black", ls=":", lw=1)
            seen = np.allclose(sizes, expected, rtol=1e-9)
            show(seen, f"{method} steps multiply the distance by {factor:.4f}")
    axes[0].plot(0, 0, color="black", marker="+", ms=10)
    axes[0].set(
        xlabel="x, which minimises", ylabel="y, which maximises", xlim=(-4, 4), ylim=(-4, 4)
    )
    axes[0].set(aspect="equal")
    axes[1].set(xlabel="step", ylabel="distance to the saddle point")
    axes[0].legend(loc="upper left")
    axes[1].legend(loc="upper left")
    return drawing


def _play_game(mode: str, eta: float, steps: int) -> Array:
    """The points (x, y) of a game of xy."""
    game = optim.DescentAscent(
        lambda x, y: (float(x @ y), y, x), (np.ones(1), np.ones(1)), eta, mode
    )
    state = game.init(None, None)
    path = [np.r_[state.x, state.y]]
    for _ in range(steps):
        state = game.step(state, None)
        path.append(np.r_[state.x, state.y])
    return np.array(path)


@entry("rosenbrock-race", "CIL 4.3, ML Optimization")
def rosenbrock_race():
    """One curved valley, eight ways down it.

    Rosenbrock's valley from (−1.2, 1): the first 300 points of each method (left), and f against the step (right). κ is
    2,508 at the minimum, marked by a cross. Step sizes are those of 1, 2, 5 · 10ᵏ with the lowest f after 1,000 steps
    (momentum 0.95).
    """
    f, start = optim.Rosenbrock(), np.array([-1.2, 1.0])
    runs = {
        "gradient descent": ("gd", {"step_size": 2e-3}, GREY),
        "heavy ball": ("heavy_ball", {"step_size": 2e-3, "momentum": 0.95}, SKY),
        "Nesterov": ("nesterov", {"step_size": 1e-3, "momentum": 0.95}, PURPLE),
        "AdaGrad": ("adagrad", {"step_size": 2.0}, RED),
        "RMSprop": ("rmsprop", {"step_size": 0.01}, ORANGE),
        "Adam": ("adam", {"step_size": 0.5}, GREEN),
        "L-BFGS": ("lbfgs", {}, BLUE),
        "damped Newton": ("newton", {}, "black"),
    }
    drawing, axes = figure(1, 2, size=(5.4, 4.2))
    _contours(axes[0], f, (-2.0, 2.0), (-1.0, 3.0), [0.1, 1, 4, 15, 50, 150, 400, 1000])
    finals = {}
    for name, (method, options, colour) in runs.items():
        found = optim.minimize(f, start, method, tol=1e-12, max_iter=1000, **options)
        finals[name] = values = found.trace_.objective
        points = (
            _points(method, f, start, 300, **options)
            if method != "lbfgs"
            else _visited_points(f, start)
        )
        wide = 1.6 if method in ("lbfgs", "newton") else 0.9
        axes[0].plot(*points.T, color=colour, lw=wide, alpha=0.9, marker=".", ms=2)
        axes[1].loglog(np.arange(1, len(values) + 1), np.maximum(values, 1e-20), color=colour, lw=wide,
                       label=f"{name}: {_steps_to(values, 1e-3)}")  # fmt: skip
    axes[0].plot(1, 1, color="black", marker="x", ms=9, mew=2)
    axes[0].set(xlabel="x", ylabel="y", xlim=(-2, 2), ylim=(-1, 3), title="the first 300 points")
    axes[1].set(
        xlabel="step + 1", ylabel="f", ylim=(1e-12, 100), title="f, and the steps it takes to 10⁻³"
    )
    axes[1].legend(fontsize=7.5, loc="lower left")
    quick = [len(finals[name]) for name in ("damped Newton", "L-BFGS")]
    show(max(quick) < 60, "with curvature, fewer than 60 steps reach a gradient of 10⁻¹²")
    seen = finals["Nesterov"][300] < 0.1 * finals["gradient descent"][300]
    show(seen, "momentum is ten times lower after 300 steps")
    show(finals["gradient descent"][-1] > 1e-3, "gradient descent is not there after 1,000 steps")
    return drawing


def _visited_points(f, start: Array) -> Array:
    """The accepted points of L-BFGS: runs of one step, two steps, …"""
    return np.array([optim.minimize(f, start, "lbfgs", tol=1e-12, max_iter=n).x for n in range(40)])


def _steps_to(values: Array, goal: float) -> str:
    below = np.flatnonzero(values <= goal)
    return f"{below[0]:,} steps" if below.size else f"over {len(values) - 1:,} steps"


@entry("standardising", "ML Implementation Issues, CIL (4.35)")
def standardising():
    """Standardising the features is preconditioning.

    Least squares for the cultivar of 178 wines by gradient descent with the best constant step. The units of 13 raw
    features differ by up to 2,500; centred and divided by their deviations the same problem is solved in a few hundred
    steps.
    """
    wine = load_wine()
    X, y = wine.data, wine.target.astype(float)
    centred = X - X.mean(axis=0)
    kinds = {
        "raw": (X, RED),
        "centred": (centred, ORANGE),
        "standardised": (centred / X.std(axis=0), BLUE),
    }
    drawing, ax = figure(size=(5.4, 3.7))
    steps, kappas, ends = 2000, {}, {}
    for name, (rows, colour) in kinds.items():
        f = optim.LeastSquares(rows, y - y.mean())
        kappas[name] = kappa = optim.condition_number(f)
        found = optim.minimize(f, np.zeros(13), "gd", tol=0.0, max_iter=steps)
        gaps = found.trace_.objective - f.minimum
        ends[name] = gaps / gaps[0]
        t = np.arange(1, steps + 2)
        ax.loglog(
            t, np.maximum(ends[name], 1e-16), color=colour, label=f"{name}: κ = {_power(kappa)}"
        )
    ax.set(xlabel="step + 1", ylabel="(f − f*) / (f₀ − f*)", ylim=(1e-15, 2))
    ax.set_title("gradient descent on 178 wines")
    ax.legend(fontsize=10)
    show(kappas["standardised"] < 100 < 1e5 < kappas["raw"], "κ falls from above 10⁵ to below 100")
    show(ends["standardised"][-1] < 1e-12, "standardised, 2,000 steps reach rounding")
    show(ends["raw"][-1] > 0.01, "raw, over 1 % of the gap is left after as many")
    return drawing


def _power(value: float) -> str:
    exponent = int(np.floor(np.log10(value)))
    return f"{value:.0f}" if exponent < 4 else f"{value / 10**exponent:.1f}e{exponent}"
