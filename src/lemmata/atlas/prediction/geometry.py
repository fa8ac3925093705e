"""Least squares, likelihood and decision boundaries, drawn (ML Least Squares … Nearest Neighbors)."""

from __future__ import annotations

import numpy as np
from scipy.special import expit
from scipy.stats import norm
from sklearn.datasets import make_moons

from lemmata import KNeighborsClassifier, LinearRegression, LogisticRegression
from lemmata.atlas import entry, show
from lemmata.core.certification.pictures import BLUE, GREEN, GREY, ORANGE, RED, SKY, figure
from lemmata.predict.losses import LOSSES
from lemmata.trust import SmoothClasses, neighbour_bound

Array = np.ndarray


@entry(
    "least-squares-plane",
    "ML Least Squares, Geometric Interpretation, Normal Equations",
    angle=(0.15, 1.5),
)
def least_squares_plane(angle: float = 1.1, seed: int = 0):
    """Least squares drops y onto the plane of the columns; the error stands upright on it.

    Three observations, two columns. Left: y, its projection Xw*, and the error e = y − Xw*, orthogonal to both columns.
    Right: levels of the squared error over the weights: the flatter, the nearer the columns are to one line. The parameter
    is the angle between the columns.
    """
    rng = np.random.default_rng(seed)
    a, b = np.array([1.0, 0.2, 0.0]), np.array([-0.2, 1.0, 0.3])
    a /= np.linalg.norm(a)
    b -= (a @ b) * a
    X = np.stack([a, np.cos(angle) * a + np.sin(angle) * b / np.linalg.norm(b)], axis=1)
    y = X @ [0.5, 0.6] + np.cross(*X.T) / np.sin(angle) * rng.uniform(0.6, 0.9)
    w = LinearRegression(fit_intercept=False).fit(X, y).coef_
    fitted = X @ w
    drawing, _ = figure(1, 2, size=(4.4, 3.8))
    drawing.clear()
    left, right = drawing.add_subplot(1, 2, 1, projection="3d"), drawing.add_subplot(1, 2, 2)
    U = np.linalg.qr(X)[0]
    s, t = np.meshgrid([-0.6, 1.4], [-0.8, 1.4])
    left.plot_surface(
        *(U[:, [0]] * -s.ravel() + U[:, [1]] * t.ravel()).reshape(3, 2, 2), color=SKY, alpha=0.3
    )
    for v, colour, name in (
        (X[:, 0], GREY, "x₁"),
        (X[:, 1], GREY, "x₂"),
        (y, BLUE, "y"),
        (fitted, ORANGE, "Xw*"),
    ):
        left.plot(*np.stack([np.zeros(3), v], axis=1), color=colour, lw=2)
        left.text(*(1.08 * v), name, color=colour)
    left.plot(*np.stack([fitted, y], axis=1), color=RED, ls=":", lw=2, label="e = y − Xw*")
    left.legend(loc="upper left")
    left.set(xlabel="row 1", ylabel="row 2", zlabel="row 3")
    grid = np.linspace(-1.5, 2.5, 121)
    plane = np.stack(np.meshgrid(grid, grid), axis=-1)
    error = np.sum((plane @ X.T - y) ** 2, axis=-1)
    right.contour(
        grid,
        grid,
        error - error.min(),
        levels=[0.02, 0.1, 0.3, 0.8, 1.6, 3],
        colors=GREY,
        linewidths=0.8,
    )
    right.plot(*w, color=ORANGE, marker="o", ls="", label=f"w* = ({w[0]:.2f}, {w[1]:.2f})")
    right.set(
        xlabel="w₁",
        ylabel="w₂",
        aspect="equal",
        title=f"squared error, κ(XᵀX) = {np.linalg.cond(X.T @ X):.1f}",
    )
    right.legend()
    show(
        np.abs(X.T @ (y - fitted)).max() < 1e-9,
        "the error is orthogonal to every column: the normal equations",
    )
    show(np.allclose(w, np.linalg.solve(X.T @ X, X.T @ y)), "w* = (XᵀX)⁻¹Xᵀy")
    show((error >= np.sum((y - fitted) ** 2) - 1e-9).all(), "no other weights have a smaller error")
    c = np.cos(angle)
    show(
        np.isclose(np.linalg.cond(X.T @ X), (1 + c) / (1 - c)),
        "κ = (1 + cos)/(1 − cos): columns at a small angle are ill-conditioned",
    )
    return drawing


@entry("ridge-lifts", "ML Ridge Regression Fights Ill-Conditioning", reg=(-4, 0))
def ridge_lifts(reg: int = -2, seed: int = 0):
    """Ridge lifts every eigenvalue by λ, and the small ones are what made weights large.

    30 rows of 20 columns, some almost equal. Left: eigenvalues of XᵀX/N and of XᵀX/N + λI. Right: over 200 draws of the
    noise, how much weights vary along each eigenvector, against theory: σ²λ_j/(N(λ_j + λ)²). The parameter is λ as a power
    of ten.
    """
    rng = np.random.default_rng(seed)
    lam, N, D, sigma = 10.0**reg, 30, 20, 0.5
    X = rng.standard_normal((N, 6)) @ rng.standard_normal((6, D)) / 2 + 0.05 * rng.standard_normal(
        (N, D)
    )
    values, vectors = np.linalg.eigh(X.T @ X / N)
    values, vectors = values[::-1], vectors[:, ::-1]
    noise = sigma * rng.standard_normal((N, 200))
    drawing, (left, right) = figure(1, 2, size=(4.6, 3.4))
    place = np.arange(1, D + 1)
    left.semilogy(
        place, values, color=RED, marker="s", ms=4, label=f"XᵀX/N: κ = {values[0] / values[-1]:.0e}"
    )
    lifted = np.linalg.eigvalsh(X.T @ X / N + lam * np.eye(D))[::-1]
    left.semilogy(
        place, lifted, color=BLUE, marker="o", ms=4, label=f"+ λI: κ = {lifted[0] / lifted[-1]:.0f}"
    )
    left.axhline(lam, color="black", lw=0.8, ls=":")
    left.set(xlabel="eigenvalue", ylabel="size", title=f"λ = {lam:g}")
    left.legend()
    for at, colour, mark, name in ((0.0, RED, "s", "least squares"), (lam, BLUE, "o", "ridge")):
        weights = np.linalg.solve(X.T @ X / N + at * np.eye(D), X.T @ noise / N)
        spread = (vectors.T @ weights).var(axis=1)
        theory = sigma**2 / N * values / (values + at) ** 2
        right.semilogy(place, spread, color=colour, marker=mark, ms=4, ls="", label=name)
        right.semilogy(place, theory, color="black", lw=0.8)
        show(
            np.abs(np.log(spread / theory)).max() < 0.6, f"the variance of {name} is that of theory"
        )
    right.set(
        xlabel="eigenvector", ylabel="variance of the weights along it", title="what noise does"
    )
    right.legend()
    show(np.allclose(lifted, values + lam), "every eigenvalue is lifted by λ")
    show(lifted[-1] >= lam, "none is below λ: weights are unique")
    return drawing


@entry("mle-properties", "ML Properties of MLE", n=(100, 2000))
def mle_properties(n: int = 400, seed: int = 0):
    """Maximum likelihood finds the truth, scatters like a normal law, and no unbiased estimate scatters less.

    The mean of n exponential waits with mean 1, estimated 4,000 times by maximum likelihood (the mean) and by the median
    divided by ln 2. Left: the error falls like 1/√n. Middle: √n times the error of the first, with the normal density of
    variance 1/F = 1. Right: the variances times n: the first meets Cramér and Rao's bound, the second does not.
    """
    rng = np.random.default_rng(seed)
    estimates = {
        "maximum likelihood": lambda x: x.mean(axis=1),
        "median / ln 2": lambda x: np.median(x, axis=1) / np.log(2),
    }
    sizes = np.array([10, 30, 100, 300, 1000])
    drawing, axes = figure(1, 3, size=(3.5, 3.2))
    spread = {}
    for (name, estimate), colour, mark in zip(estimates.items(), (BLUE, ORANGE), "os", strict=True):
        drawn = [estimate(rng.exponential(size=(800, size))) - 1 for size in sizes]
        errors = [np.sqrt(np.mean(e**2)) for e in drawn]
        axes[0].loglog(sizes, errors, color=colour, marker=mark, label=name)
        rate = np.polyfit(np.log(sizes), np.log(errors), 1)[0]
        show(abs(rate + 0.5) < 0.05, f"the error of {name} falls like 1/√n")
        spread[name] = n * estimate(rng.exponential(size=(4000, n))).var()
    axes[0].loglog(sizes, 1 / np.sqrt(sizes), color="black", ls=":", label="1/√n")
    axes[0].set(xlabel="n", ylabel="root mean square error", title="consistent")
    axes[0].legend()
    z = np.sqrt(n) * (rng.exponential(size=(4000, n)).mean(axis=1) - 1)
    grid = np.linspace(-4, 4, 200)
    axes[1].hist(z, bins=50, density=True, color=SKY)
    axes[1].plot(grid, norm.pdf(grid), color=BLUE, label="N(0, 1/F)")
    axes[1].set(xlabel="√n (estimate − truth)", title=f"normal, n = {n}")
    axes[1].legend()
    axes[2].bar(range(2), spread.values(), color=[BLUE, ORANGE])
    axes[2].axhline(1, color="black", ls="--", label="1/F: no less without bias")
    axes[2].set_xticks(range(2), spread)
    axes[2].set(ylabel="n · variance", title="efficient", ylim=(0, 3))
    axes[2].legend()
    ml, median = spread.values()
    far = np.abs(np.sort(norm.cdf(z)) - (np.arange(4000) + 0.5) / 4000).max()
    show(abs(ml - 1) < 0.12, "n times its variance is 1/F")
    show(median > 1.8, "the median needs about twice the rows (1/ln² 2 = 2.08)")
    show(far < 0.08, "√n times its error is nearly normal")
    return drawing


@entry("classification-losses", "ML Losses for Classification; CIL20 Fig. 7.4", margin=(-2.0, 2.0))
def classification_losses(margin: float = 0.5):
    """Convex losses lie above the count of mistakes, so a small one means few mistakes.

    Losses of the margin η = y·f(x), each divided so that it passes through 1 at 0; black: a mistake counts 1. Right: the
    slope, by which a row pulls at the weights. Hinge stops pulling at η = 1, the square pushes rows that are right by far
    back, logistic never quite stops. The parameter is where values are compared.
    """
    eta = np.linspace(-2.5, 3, 400)
    kinds = {
        "quadratic (1 − η)²": (LOSSES["quadratic"], RED, "-."),
        "logistic / ln 2": (LOSSES["logistic"], BLUE, "-"),
        "hinge": (LOSSES["hinge"], GREEN, "--"),
    }
    drawing, (left, right) = figure(1, 2, size=(4.6, 3.4))
    wrong = (eta <= 0).astype(float)
    left.plot(eta, wrong, color="black", lw=2, label="mistake")
    ones = np.ones_like(eta)
    for name, (loss, colour, style) in kinds.items():
        unit = float(loss.value(np.zeros(1), np.ones(1))[0])
        value = loss.value(eta, ones) / unit
        slope = loss.gradient(eta, ones) / unit
        here = float(loss.value(np.array([margin]), np.ones(1))[0]) / unit
        left.plot(eta, value, color=colour, ls=style, label=f"{name}: {here:.2f} at {margin:g}")
        right.plot(eta, slope, color=colour, ls=style, label=name)
        show((value >= wrong - 1e-12).all(), f"{name} lies above the count of mistakes")
        show((np.diff(value, 2) > -1e-9).all(), f"{name} is convex")
        flat, back = (np.abs(slope[eta > 1.01]) < 1e-12).all(), (slope[eta > 1.01] > 0).all()
        show(flat == (name == "hinge"), f"{name} {'stops' if flat else 'goes on'} beyond η = 1")
        show(
            back == name.startswith("quadratic"),
            f"{name} {'pulls back' if back else 'does not pull back'} what is right by far",
        )
    left.axvline(margin, color=GREY, lw=0.8, ls=":")
    left.set(xlabel="margin η = y·f(x)", ylabel="loss", ylim=(0, 6))
    right.set(xlabel="margin η = y·f(x)", ylabel="slope", ylim=(-4, 3))
    left.legend()
    right.legend()
    return drawing


@entry(
    "logistic-geometry",
    "ML Logistic Regression, Problem when the data are linearly separable",
    apart=(0.5, 3.0),
)
def logistic_geometry(apart: float = 1.2, seed: int = 0):
    """Weights point across the boundary; where a line parts the classes they grow for ever.

    Left: two classes that overlap, p(y = 1 | x) in steps, w orthogonal to the line p = ½; the probability depends on x by
    its distance to that line alone. Right: the length of w by steps of gradient descent: it settles, or grows like ln t
    where a line parts the classes. The parameter is the distance of the classes on the left.
    """
    rng = np.random.default_rng(seed)
    y = np.repeat([0, 1], 80)
    direction = np.array([0.8, 0.6])
    X = rng.standard_normal((160, 2)) + (2 * y - 1)[:, None] * direction * apart
    model = LogisticRegression(C=1e6, tol=1e-10).fit(X, y)
    w, b = model.coef_[0], float(np.ravel(model.intercept_)[0])
    drawing, (left, right) = figure(1, 2, size=(4.6, 3.8))
    grid = np.linspace(-5, 5, 101)
    plane = np.stack(np.meshgrid(grid, grid), axis=-1)
    p = expit(plane @ w + b)
    left.contourf(grid, grid, p, levels=[0, 0.05, 0.25, 0.5, 0.75, 0.95, 1], cmap="PuOr", alpha=0.6)
    for label, colour, mark in ((0, RED, "o"), (1, BLUE, "^")):
        left.plot(*X[y == label].T, color=colour, marker=mark, ms=3, ls="")
    middle = -b * w / (w @ w)
    left.annotate(
        "", middle + 2 * w / np.linalg.norm(w), middle, arrowprops={"arrowstyle": "->", "lw": 2}
    )
    left.text(*(middle + 2.2 * w / np.linalg.norm(w)), "w", fontsize=11)
    left.set(
        xlabel="x₁", ylabel="x₂", aspect="equal", xlim=(-5, 5), ylim=(-5, 5), title="p(y = 1 | x)"
    )
    along = np.array([-w[1], w[0]]) / np.linalg.norm(w)
    moved = expit(
        (middle + 1.3 * w / np.linalg.norm(w) + np.outer(np.linspace(-3, 3, 9), along)) @ w + b
    )
    show(np.ptp(moved) < 1e-9, "along the line the probability is constant: w is orthogonal to it")
    steps = 3000
    clean = np.sign((X - X.mean(axis=0)) @ direction)
    parted = X - X.mean(axis=0) + 0.5 * clean[:, None] * direction
    mixed = np.where(rng.random(160) < 0.15, 1 - y, y)  # some labels are wrong: no line parts these
    lengths = {}
    for name, rows, labels, colour in (
        ("a line parts them", parted, (clean > 0).astype(float), ORANGE),
        ("they overlap", X, mixed, BLUE),
    ):
        v, found = np.zeros(2), []
        for _ in range(steps):
            v = v - rows.T @ (expit(rows @ v) - labels) / len(rows)
            found.append(np.linalg.norm(v))
        lengths[name] = np.array(found)
        right.semilogx(np.arange(1, steps + 1), found, color=colour, label=name)
    right.set(xlabel="step of gradient descent", ylabel="‖w‖", title="do the weights end?")
    right.legend()
    grows, settles = lengths.values()
    show(
        grows[-1] > grows[steps // 2] + 0.1,
        "where a line parts the classes the weights still grow at the end",
    )
    show(
        abs(settles[-1] - settles[steps // 2]) < 1e-3, "where they overlap the weights have settled"
    )
    return drawing


@entry("neighbour-boundaries", "ML k-Nearest Neighbors, Bias-variance tradeoff in k-NN", k=(3, 61))
def neighbour_boundaries(k: int = 15, seed: int = 0):
    """One neighbour draws islands around single points; many draw one smooth line, all of them none.

    200 points of two moons with noise, and where the majority of the k nearest says which class. Titles: mistakes on these
    points and on 1,000 new ones. The parameter is k in the middle.
    """
    X, y = make_moons(200, noise=0.35, random_state=seed)
    new, labels = make_moons(1000, noise=0.35, random_state=1000 + seed)
    drawing, axes = figure(1, 3, size=(3.6, 3.4))
    xs, ys = np.linspace(-2.2, 3.2, 90), np.linspace(-1.7, 2.2, 70)
    plane = np.stack(np.meshgrid(xs, ys), axis=-1)
    found = {}
    for ax, n in zip(axes, (1, k, 200), strict=True):
        model = KNeighborsClassifier(n).fit(X, y)
        regions = model.predict(plane.reshape(-1, 2)).reshape(plane.shape[:2])
        ax.contourf(xs, ys, regions, levels=[-0.5, 0.5, 1.5], colors=[ORANGE, SKY], alpha=0.35)
        for label, colour, mark in ((0, ORANGE, "o"), (1, BLUE, "^")):
            ax.plot(*X[y == label].T, color=colour, marker=mark, ms=3, ls="")
        found[n] = (
            1 - model.score(X, y),
            1 - model.score(new, labels),
            np.abs(np.diff(regions, axis=1)).sum(),
        )
        ax.set(
            xlabel="x₁",
            ylabel="x₂",
            title=f"k = {n}: wrong {100 * found[n][0]:.0f} %, new {100 * found[n][1]:.0f} %",
        )
    show(found[1][0] == 0, "one neighbour makes no mistake on the points it knows")
    show(found[k][1] < found[1][1], f"{k} neighbours make fewer on new ones")
    show(found[k][2] < found[1][2], f"the boundary of {k} is shorter than that of one")
    show(found[200][2] == 0, "with all points as neighbours every place has the same class")
    return drawing


@entry(
    "nearest-neighbour-bound",
    "ML Generalization bound for 1-NN, Bound on the geometric term",
    d=(1, 6),
)
def nearest_neighbour_bound(d: int = 2, seed: int = 0):
    """One neighbour errs at most twice as often as the best, plus a term that dies slowly in many dimensions.

    Left: rows in the unit square and the boxes of the proof: a new point shares a box with a row, or its box is rare. Middle:
    the error of one neighbour by the number of rows, between the best risk L* and the bound 2L* + c E‖X − nbh(X)‖, for a
    law whose L* and c are known. Right: rows the bound asks for, to come within 0.05 of 2L*. The parameter is d.
    """
    law = SmoothClasses(d=d)
    rng = np.random.default_rng(seed)
    sizes = np.array([50, 100, 200, 400, 800, 1600])
    risk, c = law.risk()[0], law.lipschitz
    errors, bounds = [], []
    new, labels = law.sample(2000, rng=rng)
    for n in sizes:
        X, y = law.sample(int(n), rng=rng)
        model = KNeighborsClassifier(1).fit(X, y)
        far, _ = model.kneighbors(new)
        errors.append(1 - model.score(new, labels))
        bounds.append(2 * risk + c * far.mean())
    drawing, axes = figure(1, 3, size=(3.5, 3.3))
    rows = rng.random((60, 2))
    axes[0].plot(*rows.T, color=BLUE, marker="o", ms=3, ls="")
    for at in np.linspace(0, 1, 7):
        axes[0].axhline(at, color=GREY, lw=0.6)
        axes[0].axvline(at, color=GREY, lw=0.6)
    taken = np.unique(np.floor(rows * 6).astype(int), axis=0)
    for i, j in set(np.ndindex(6, 6)) - set(map(tuple, taken)):
        axes[0].fill(
            [i / 6, (i + 1) / 6, (i + 1) / 6, i / 6],
            [j / 6, j / 6, (j + 1) / 6, (j + 1) / 6],
            color=ORANGE,
            alpha=0.5,
        )
    axes[0].set(
        aspect="equal",
        xlim=(0, 1),
        ylim=(0, 1),
        title=f"60 rows: {36 - len(taken)} of 36 boxes empty",
    )
    axes[1].semilogx(sizes, bounds, color=ORANGE, marker="s", ms=4, label="2L* + c·distance")
    axes[1].semilogx(sizes, errors, color=BLUE, marker="o", ms=4, label="one neighbour")
    axes[1].axhline(2 * risk, color="black", ls="--", lw=0.8, label="2L*")
    axes[1].axhline(risk, color="black", ls=":", lw=0.8, label="L*")
    axes[1].set(xlabel="rows", ylabel="error", title=f"d = {d}")
    axes[1].legend(fontsize=7)
    needed = []
    for dim in range(1, 9):
        X, y = SmoothClasses(d=dim).sample(60, rng=0)
        needed.append(neighbour_bound(X, y, lipschitz=c, bayes_risk=risk, box=(0, 1)).rows_needed)
    axes[2].semilogy(range(1, 9), needed, color=BLUE, marker="o")
    axes[2].set(
        xlabel="dimension d", ylabel="rows asked for", title=f"within 0.05 of 2L*, c = {c:.1f}"
    )
    show((np.array(errors) <= np.array(bounds) + 0.03).all(), "the error stays below the bound")
    show(min(errors) >= risk - 0.03, "and above the best risk")
    show(
        (np.diff(np.log10(np.array(needed, float))) > 0.5).all(),
        "each dimension more asks for several times the rows",
    )
    return drawing
