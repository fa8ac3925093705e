"""Steps of descent, drawn: how long, on functions with corners, in a set, past a saddle, and with Nesterov's look-ahead."""

from __future__ import annotations

import numpy as np

from lemmata import optim
from lemmata.atlas import entry, show
from lemmata.atlas.optimisation.descent import _contours
from lemmata.core.certification.pictures import BLUE, GREEN, GREY, ORANGE, RED, SKY, figure

Array = np.ndarray


@entry("step-size", "ML Gradient Descent; CIL Thm 4.3.1", gamma=(0.05, 2.5))
def one_parameter(gamma: float = 2.1):
    """One parameter, one step size: below 2 it converges, above 2 it leaves.

    Gradient descent on the mean of squares ½ mean (y − w)², whose minimum is the mean of y: each step multiplies the
    distance by 1 − γ. Left: the steps on the parabola for three γ. Right: the distance after each step; lines are theory,
    |1 − γ|ᵗ. The parameter is the third of them.
    """
    y = np.array([1.0, 2.0, 4.0, 5.0])
    drawing, (left, right) = figure(1, 2, size=(4.8, 3.4))
    w, steps = np.linspace(-4, 10, 200), np.arange(13)
    left.plot(w, [np.mean((y - at) ** 2) / 2 for at in w], color=GREY, lw=1)
    for step, colour, mark in ((0.3, BLUE, "o"), (1.8, GREEN, "s"), (gamma, RED, "^")):
        path = [7.0]
        for _ in steps[1:]:
            path.append(path[-1] - step * (path[-1] - y.mean()))
        far = np.abs(np.array(path) - y.mean())
        kept = np.array(path)[:5]
        left.plot(kept, [np.mean((y - at) ** 2) / 2 for at in kept], color=colour, marker=mark, ms=4, lw=1)  # fmt: skip
        right.semilogy(steps, far[0] * abs(1 - step) ** steps, color=colour, lw=1)
        far = np.maximum(far, 1e-16)
        right.semilogy(steps, far, color=colour, marker=mark, ms=4, ls="", label=f"γ = {step:g}")
        show(np.allclose(far, far[0] * abs(1 - step) ** steps), f"γ = {step:g} multiplies the distance by |1 − γ|")  # fmt: skip
        if step != 1:
            show((far[-1] > far[0]) == (step > 2), f"γ = {step:g} {'leaves' if step > 2 else 'converges'}")  # fmt: skip
    left.axvline(y.mean(), color="black", lw=0.8, ls=":")
    left.set(xlabel="w", ylabel="loss", xlim=(-4, 10), ylim=(0, 24), title="the first four steps")
    right.set(xlabel="step t", ylabel="|w − mean of y|", title="distance to the minimum")
    right.legend()
    return drawing


@entry(
    "subgradients",
    "ML Subgradient Descent, Example: Optimizing Linear MAE, Closed-form solution for MAE",
)
def subgradients(seed: int = 0):
    """A median is the least absolute error, and sub-gradient steps find it only if they shrink.

    Left: the mean absolute error of one number w for nine points, and a sub-gradient of it at a corner: a line that
    nowhere lies above. The slope is (points below − points above)/n, so the minimum is the median. Right: the distance
    to the median with a constant step and with steps 1/√t.
    """
    rng = np.random.default_rng(seed)
    y = np.sort(np.append(rng.uniform(0, 6, 7), [15.0, 20.0]))
    n, middle = len(y), float(np.median(y))

    def loss(w):
        return np.abs(y - np.asarray(w)[..., None]).mean(axis=-1)

    w = np.linspace(-2, 16, 721)
    drawing, (left, right) = figure(1, 2, size=(4.8, 3.4))
    left.plot(w, loss(w), color=BLUE, lw=2, label="mean |y − w|")
    left.plot(y, np.full(n, 0.3), color="black", marker="|", ms=9, ls="", label="the points")
    corner = y[1]
    slope = np.sign(
        corner - y
    ).mean()  # 0 at the point itself: one of the slopes between both sides
    line = loss(corner) + slope * (w - corner)
    left.plot(w, line, color=ORANGE, ls="--", label="a sub-gradient")
    left.axvline(middle, color=GREEN, lw=1, label=f"median {middle:.2f}")
    left.axvline(y.mean(), color=RED, lw=1, ls=":", label=f"mean {y.mean():.2f}")
    left.set(xlabel="w", ylabel="loss", ylim=(0, 10), title="absolute error of one number")
    left.legend(fontsize=7.5, loc="upper right")
    show((line <= loss(w) + 1e-12).all(), "the line of a sub-gradient lies nowhere above the loss")
    show(
        (loss(w) >= loss(middle) - 1e-12).all(),
        "no number has a smaller absolute error than the median",
    )
    steps = np.arange(1, 401)
    for name, rate, colour in (("0.7", np.full(400, 0.7), RED), ("2/√t", 2 / np.sqrt(steps), BLUE)):
        at, far = 12.0, []
        for step in rate:
            far.append(abs(at - middle))
            at -= step * np.sign(at - y).mean()
        right.loglog(steps, np.maximum(far, 1e-6), color=colour, lw=1, label=f"step {name}")
        end = np.array(far)[-100:]
        shrinks = "√" in name
        show((end.max() < 0.2) if shrinks else (np.diff(end) != 0).any() and end.max() > 0.02,
             f"with steps {name} the last hundred {'stay near the median' if shrinks else 'still jump around it'}")  # fmt: skip
    right.set(xlabel="step t", ylabel="|w − median|", title="sub-gradient descent")
    right.legend()
    return drawing


@entry(
    "projected-descent", "ML Projected Gradient Descent; CIL24 Fig. 4; CIL 2.5.1", radius=(0.3, 1.5)
)
def projected_descent(radius: float = 1.0):
    """A step, and back to the set: projected descent ends where the slope points out of it.

    Gradient descent on a quadratic whose minimum (cross) lies outside: blue lines are steps, dotted ones the way back to
    the nearest point of the set. On a ball and on the ℓ1 ball, where the end is a corner: one weight is exactly 0.
    """
    A, b = np.array([[1.0, 0.3], [0.3, 0.6]]), np.array([2.2, 0.9])
    f, best = optim.Quadratic(A, b), np.linalg.solve(A, b)
    drawing, axes = figure(1, 2, size=(4.2, 3.8))
    t = np.linspace(0, 2 * np.pi, 200)
    corners = radius * np.array([[1, 0], [0, 1], [-1, 0], [0, -1], [1, 0]])
    sets = (
        ("ball", optim.Ball(radius), radius * np.stack([np.cos(t), np.sin(t)], axis=1)),
        ("ℓ1 ball", optim.L1Ball(radius), corners),
    )
    for ax, (name, project, edge) in zip(axes, sets, strict=True):
        value = lambda x: (x @ A @ x / 2 - b @ x - (best @ A @ best / 2 - b @ best),)  # noqa: E731
        _contours(ax, value, (-1.8, 3.2), (-1.8, 1.8), [0.05, 0.2, 0.5, 1, 1.8, 3])
        ax.fill(*edge.T, color=SKY, alpha=0.4)
        x = np.array([-1.0, -1.2]) * min(radius, 1) / 2
        for _ in range(12):
            step = x - 0.25 * (A @ x - b)
            back = project(step)
            ax.plot(*np.array([x, step]).T, color=BLUE, marker=".", lw=1)
            ax.plot(*np.array([step, back]).T, color="black", ls=":", lw=1)
            x = back
        found = optim.minimize(f, np.zeros(2), "gd", constraint=project, tol=1e-10).x
        ax.plot(*found, color=RED, marker="o", ls="", label=f"end ({found[0]:.2f}, {found[1]:.2f})")
        ax.plot(*best, color="black", marker="+", ms=9, ls="", label="minimum outside")
        ax.set(xlabel="x₁", ylabel="x₂", aspect="equal", title=f"onto the {name}")
        ax.legend(loc="lower right", fontsize=7.5)
        slope = A @ found - b
        inner = edge * 0.999
        show(
            (inner @ slope >= found @ slope - 1e-2).all(),
            f"no point of the {name} lies lower along the slope",
        )
        show(
            np.allclose(project(found - 0.5 * slope), found, atol=1e-6),
            f"a further step comes back, on the {name}",
        )
    show(found[1] == 0, "on the ℓ1 ball the second weight is exactly 0")
    return drawing


@entry("saddle-escape", "CIL 4.3.4, Def. 4.3.2; Jin et al. 2017", noise=(-8, -1))
def saddle_escape(noise: int = -6):
    """Descent waits at a saddle, the longer the closer it starts; from exactly there it never leaves.

    Gradient descent on ½x² − ½y² + ¼y⁴, with a saddle at 0 and minima at y = ±1, from y = 10⁻ᵏ. Each step multiplies y by
    1 + η, so that a start ten times closer waits ln 10/ln(1 + η) steps more. Orange: started on the line y = 0, with
    noise added once; without it the run ends in the saddle. The parameter is the size of the noise, as a power of ten.
    """
    eta, steps = 0.1, 260

    def descend(x, y):
        values = []
        for _ in range(steps):
            values.append(x * x / 2 - y * y / 2 + y**4 / 4)
            x, y = x - eta * x, y + eta * (y - y**3)
        return np.array(values)

    drawing, ax = figure(size=(6.2, 3.6))
    waits = {}
    for k, colour in ((1, SKY), (3, BLUE), (5, GREEN)):
        values = descend(1.0, 10.0**-k)
        waits[k] = int(np.argmax(values < -0.125))
        ax.plot(values, color=colour, label=f"from y = 1e-{k}: {waits[k]} steps until halfway")
    ax.plot(descend(1.0, 10.0**noise), color=ORANGE, ls="--", label=f"from y = 0, noise 1e{noise}")
    stuck = descend(1.0, 0.0)
    ax.plot(stuck, color=RED, lw=2, ls=":", label="from y = 0: stays at the saddle")
    ax.axhline(-0.25, color="black", lw=0.8)
    ax.set(xlabel="step", ylabel="f", ylim=(-0.28, 0.2), title="f = ½x² − ½y² + ¼y⁴, η = 0.1")
    ax.legend(loc="upper right")
    per = 2 * np.log(10) / np.log(1 + eta)
    show(abs(waits[3] - waits[1] - per) < 6 and abs(waits[5] - waits[3] - per) < 6,
         f"a hundred times closer costs {per:.0f} steps more, as theory says")  # fmt: skip
    show(abs(stuck[-1]) < 1e-6, "without noise the run ends in the saddle")
    show(descend(1.0, 10.0**noise)[-1] < -0.2, "with a little noise it finds a minimum")
    return drawing


@entry("nesterov-rate", "CIL 4.3.5, (4.41)", kappa=(20, 5000))
def nesterov_rate(kappa: float = 1000.0):
    """Nesterov's steps need √κ where gradient descent needs κ.

    The gap of a quadratic in 60 dimensions with eigenvalues from 1/κ to 1, with steps of 1/L: gradient descent and
    Nesterov's method with β = (√κ − 1)/(√κ + 1). Dashed: their rates (1 − 1/κ)²ᵗ and (1 − 1/√κ)ᵗ. Right: the steps to a
    gap of 10⁻⁶, by κ; slopes 1 and ½.
    """
    drawing, (left, right) = figure(1, 2, size=(4.8, 3.5))

    def gaps(k: float, steps: int, accelerated: bool) -> Array:
        values = np.geomspace(1 / k, 1, 60)
        x = look = 1 / np.sqrt(values)  # every direction has its share of the gap
        beta = (np.sqrt(k) - 1) / (np.sqrt(k) + 1) if accelerated else 0.0
        found = np.empty(steps)
        for t in range(steps):
            found[t] = values @ x**2 / 2
            new = look - values * look
            x, look = new, new + beta * (new - x)
        return found / found[0]

    kinds = (("gradient descent", False, BLUE, "o"), ("Nesterov", True, ORANGE, "s"))
    steps = int(min(25 * np.sqrt(kappa), 3000))
    t = np.arange(steps)
    for name, fast, colour, mark in kinds:
        left.semilogy(t, gaps(kappa, steps, fast), color=colour, lw=2, label=name)
        rate = (1 - 1 / np.sqrt(kappa)) if fast else (1 - 1 / kappa) ** 2
        left.semilogy(t, rate**t, color=colour, ls="--", lw=1)
        sizes = np.array([10, 30, 100, 300, 1000])
        need = [int(np.argmax(gaps(k, int(8 * k + 300), fast) < 1e-6)) for k in sizes]
        slope = np.polyfit(np.log(sizes[1:]), np.log(need[1:]), 1)[0]
        right.loglog(sizes, need, color=colour, marker=mark, label=f"{name}: slope {slope:.2f}")
        show(
            abs(slope - (0.5 if fast else 1)) < 0.15,
            f"the steps of {name} grow like κ^{0.5 if fast else 1}",
        )
        after = gaps(kappa, steps, fast)
        show(
            (after <= (2 * rate**t if fast else rate**t) + 1e-300).all(),
            f"{name} is at least as fast as its rate",
        )
    left.set(
        xlabel="step t", ylabel="gap, of that at the start", title=f"κ = {kappa:g}", ylim=(1e-12, 2)
    )
    right.set(xlabel="condition κ = L/μ", ylabel="steps to a gap of 10⁻⁶", title="by condition")
    left.legend()
    right.legend()
    return drawing
