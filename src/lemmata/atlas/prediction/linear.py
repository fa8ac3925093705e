"""Losses, penalties and margins of linear models (ML Regression … Support Vector Machines): outliers, zeros, support vectors.

Each entry takes a seed, since what a figure shows should hold for other draws too.
"""

from __future__ import annotations

import numpy as np

from lemmata import SVC, Lasso, LinearRegression, LogisticRegression, Ridge, RobustRegression
from lemmata.atlas import entry, show
from lemmata.core.certification.pictures import BLUE, GREEN, GREY, ORANGE, RED, SKY, figure

Array = np.ndarray


# --- losses (ML Loss Functions, Comparison of logistic and linear regression) ---------------------------


@entry("robust-losses", "ML Loss Functions")
def robust_losses(seed: int = 0):
    """Losses that do not square what is wrong.

    Left: what an error costs. Right: a line through 60 points, 12 of which are outliers on one side; the square is drawn
    to them, the absolute and Huber's loss less, Tukey's not at all.
    """
    rng = np.random.default_rng(seed)
    x = rng.uniform(0, 10, 60)
    y = 1 + 0.5 * x + 0.3 * rng.standard_normal(60)
    bad = np.argsort(x)[-12:]
    y[bad] -= 8
    X, grid = x[:, None], np.linspace(0, 10, 50)
    models = {
        "squared": (LinearRegression(), RED, "-"),
        "absolute": (RobustRegression(loss="absolute"), GREEN, "--"),
        "huber": (RobustRegression(loss="huber"), ORANGE, "-."),
        "tukey": (RobustRegression(loss="tukey", random_state=seed), BLUE, "-"),
    }
    drawing, axes = figure(1, 2)
    errors = np.linspace(-6, 6, 400)
    shapes = {
        "squared": errors**2 / 2,
        "absolute": np.abs(errors),
        "huber": np.where(
            np.abs(errors) < 1.35, errors**2 / 2, 1.35 * np.abs(errors) - 1.35**2 / 2
        ),
        "tukey": 4.685**2 / 6 * (1 - np.maximum(1 - (errors / 4.685) ** 2, 0) ** 3),
    }
    axes[1].plot(np.delete(x, bad), np.delete(y, bad), color="black", marker=".", ls="", alpha=0.6)
    axes[1].plot(x[bad], y[bad], color=GREY, marker="x", ls="", label="outliers")
    slopes = {}
    for name, (model, colour, style) in models.items():
        model.fit(X, y)
        slopes[name] = float(np.ravel(model.coef_)[0])
        axes[0].plot(errors, shapes[name], color=colour, ls=style, label=name)
        label = f"{name}: slope {slopes[name]:.2f}"
        axes[1].plot(grid, model.predict(grid[:, None]), color=colour, ls=style, label=label)
    axes[0].set(ylim=(0, 8), xlabel="error y − f(x)", ylabel="loss")
    axes[1].set(xlabel="x", ylabel="y")
    for ax in axes:
        ax.legend()
    show(abs(slopes["tukey"] - 0.5) < 0.05, "Tukey's loss finds the line of the good points")
    show(slopes["squared"] < 0.2, "the square turns the line towards the outliers")
    away = {name: abs(slope - 0.5) for name, slope in slopes.items()}
    seen = away["tukey"] <= min(away["absolute"], away["huber"]) <= away["squared"]
    show(seen, "the others lie between")
    return drawing


@entry(
    "extreme-points", "ML Comparison of logistic and linear regression for data with extreme values"
)
def extreme_points(seed: int = 0):
    """Least squares pays for points that are right by far; the logistic loss does not.

    Two classes and the lines where least squares on ±1 and logistic regression are undecided. Right: twenty points more of
    one class, far on their own side, where their label is in no doubt.
    """
    rng = np.random.default_rng(seed)
    X = np.vstack([rng.normal([-1.2, 0], 0.7, (60, 2)), rng.normal([1.2, 0], 0.7, (60, 2))])
    y = np.repeat([-1, 1], 60)
    extreme = rng.normal([14, 0], 0.8, (20, 2))
    drawing, axes = figure(1, 2, size=(4.6, 3.2))
    crossings = {}
    for ax, more in zip(axes, (False, True), strict=True):
        rows = np.vstack([X, extreme]) if more else X
        labels = np.append(y, np.ones(20)) if more else y
        for sign, colour in ((-1, ORANGE), (1, BLUE)):
            ax.plot(*rows[labels == sign].T, color=colour, marker=".", ls="", alpha=0.6)
        squares, logistic = (
            LinearRegression().fit(rows, labels),
            LogisticRegression(C=1.0).fit(rows, labels),
        )
        height = np.array([-2.5, 2.5])
        for name, w, b, colour, style in (
            ("least squares", squares.coef_, squares.intercept_, RED, "--"),
            ("logistic", logistic.coef_[0], logistic.intercept_[0], GREEN, "-"),
        ):
            wrong = np.mean(np.sign(X @ w + b) != y)
            crossings[name, more] = float(-b / w[0]), wrong
            label = f"{name}: {100 * wrong:.0f} % wrong"
            ax.plot(-(b + w[1] * height) / w[0], height, color=colour, ls=style, label=label)
        ax.set(xlim=(-4, 17), ylim=(-3, 3), xlabel="x₁", ylabel="x₂")
        ax.legend(title="of the 120 points near 0", title_fontsize=8)
    seen = abs(crossings["least squares", False][0] - crossings["logistic", False][0]) < 0.3
    show(seen, "without them both lines agree")
    seen = crossings["least squares", True][0] > crossings["least squares", False][0] + 0.4
    show(seen, "the extreme points pull the line of least squares to their side")
    seen = abs(crossings["logistic", True][0] - crossings["logistic", False][0]) < 0.1
    show(seen, "the logistic line stays where it was")
    seen = crossings["least squares", True][1] > 2 * crossings["logistic", True][1]
    show(seen, "and makes fewer than half of the mistakes")
    return drawing


# --- penalties (ML Geometric Interpretation) --------------------------------------------------------------------------


@entry("lasso-ridge", "ML Regularization, Geometric Interpretation")
def balls(seed: int = 0):
    """Corners make zeros: the balls of lasso and ridge.

    The squared error of two weights, level by level, and the least of it within an ℓ1 and an ℓ2 ball: the levels touch the
    diamond at a corner, where one weight is 0, and the circle somewhere. Right: both weights as the penalty grows.
    """
    rng = np.random.default_rng(seed)
    n = 400
    X = rng.standard_normal((n, 2)) @ np.array([[1.0, 0.35], [0.0, 0.9]])
    y = X @ [1.6, 0.5] + 0.2 * rng.standard_normal(n)
    best = LinearRegression(fit_intercept=False).fit(X, y).coef_
    lasso = Lasso(0.75, fit_intercept=False, tol=1e-10).fit(X, y).coef_
    ridge = Ridge(0.75 * n, fit_intercept=False, tol=1e-10).fit(X, y).coef_

    def loss(w: Array) -> Array:
        apart = w - best
        return np.einsum("...i,ij,...j->...", apart, X.T @ X / (2 * n), apart)

    drawing, axes = figure(1, 3, size=(3.8, 3.4))
    ticks = np.linspace(-1.2, 2.3, 200)
    plane = np.stack(np.meshgrid(ticks, ticks), axis=-1)
    angle = np.linspace(0, 2 * np.pi, 200)
    for ax, w, name in ((axes[0], lasso, "lasso"), (axes[1], ridge, "ridge")):
        ax.contour(
            ticks,
            ticks,
            loss(plane),
            levels=np.sort(np.append(loss(w), loss(w) * np.array([0.1, 0.4, 2, 4]))),
            colors=GREY,
            linewidths=0.8,
        )
        if name == "lasso":
            t = np.abs(w).sum()
            corners = t * np.array([[1, 0], [0, 1], [-1, 0], [0, -1], [1, 0]])
            ax.fill(*corners.T, color=SKY, alpha=0.5)
            inside = corners[0] + np.linspace(0, 1, 2001)[:, None] * (corners[1] - corners[0])
        else:
            inside = np.linalg.norm(w) * np.stack([np.cos(angle), np.sin(angle)], axis=1)
            ax.fill(*inside.T, color=SKY, alpha=0.5)
        seen = (loss(inside) >= loss(w) * (1 - 1e-6)).all()
        show(seen, f"no point of the ball's edge is better than the {name}'s")
        ax.plot(*best, color="black", marker="+", ms=9, ls="", label="least squares")
        ax.plot(*w, color=RED, marker="o", ms=6, ls="", label=f"{name}: ({w[0]:.2f}, {w[1]:.2f})")
        ax.axhline(0, color="black", lw=0.5)
        ax.axvline(0, color="black", lw=0.5)
        ax.set(aspect="equal", xlabel="w₁", ylabel="w₂", xlim=(-1.2, 2.3), ylim=(-1.2, 2.3))
        ax.legend(loc="upper left")
    show(lasso[1] == 0 and lasso[0] > 0, "the lasso's second weight is exactly 0")
    show(ridge[1] > 0.05, "the ridge's is small, and not 0")
    strengths = np.geomspace(0.01, 10, 40)
    for name, model, colours in (
        ("lasso", lambda a: Lasso(a, fit_intercept=False, tol=1e-10), (BLUE, ORANGE)),
        ("ridge", lambda a: Ridge(a * n, fit_intercept=False, tol=1e-10), (BLUE, ORANGE)),
    ):
        path = np.array([model(a).fit(X, y).coef_ for a in strengths])
        for j in range(2):
            axes[2].plot(
                strengths,
                path[:, j],
                color=colours[j],
                ls="-" if name == "lasso" else "--",
                label=f"{name}, w{'₁₂'[j]}",
            )
        if name == "lasso":
            most = np.abs(X.T @ y).max() / n
            seen = (path[strengths >= most] == 0).all()
            show(seen, "from λ = ‖Xᵀy‖∞/n on the lasso has no weights at all")
        else:
            show((path > 0).all(), "the ridge has both weights at every λ")
    axes[2].set(xscale="log", xlabel="λ", ylabel="weight")
    axes[2].legend()
    return drawing


# --- margins (ML Support Vector Machines) -----------------------------------------------------------------------------


@entry("support-vectors", "ML Support Vector Machines, Soft SVM")
def support_vectors(seed: int = 0):
    """The line of a support vector machine rests on few points.

    Left: two classes that a line separates; the line with the widest margin touches the circled points only, and stays if
    all others go. Right: classes that overlap; points beyond their margin are circled too, and C says what they cost.
    """
    rng = np.random.default_rng(seed)
    drawing, axes = figure(1, 2, size=(4.6, 3.4))
    y = np.repeat([-1, 1], 40)
    for ax, apart, C, title in (
        (axes[0], 2.6, 1e6, "hard margin"),
        (axes[1], 1.2, 1.0, "soft margin, C = 1"),
    ):
        X = rng.normal(0, 0.8, (80, 2))
        X[:, 0] += apart * y
        X[:, 1] += 0.6 * y
        model = SVC(kernel="linear", C=C, tol=1e-6).fit(X, y)
        w, b, kept = model.coef_[0], float(model.intercept_[0]), model.support_
        f = X @ w + b
        grid = np.stack(
            np.meshgrid(np.linspace(-5.5, 5.5, 80), np.linspace(-3.5, 3.5, 60)), axis=-1
        )
        ax.contour(
            grid[..., 0],
            grid[..., 1],
            grid @ w + b,
            levels=[-1, 0, 1],
            colors="black",
            linestyles=["--", "-", "--"],
            linewidths=1,
        )
        for sign, colour in ((-1, ORANGE), (1, BLUE)):
            ax.plot(*X[y == sign].T, color=colour, marker=".", ls="")
        ax.plot(*X[kept].T, color="black", marker="o", mfc="none", ms=10, ls="")
        ax.set_title(f"{title}: {len(kept)} support vectors, margin {1 / np.linalg.norm(w):.2f}")
        ax.set(xlabel="x₁", ylabel="x₂", xlim=(-5.5, 5.5), ylim=(-3.5, 3.5))
        seen = set(np.flatnonzero(y * f < 1 - 1e-3)) <= set(kept)
        show(seen, "every point within its margin is a support vector")
        again = SVC(kernel="linear", C=C, tol=1e-6).fit(X[kept], y[kept])
        seen = np.allclose(again.coef_[0], w, rtol=1e-2, atol=1e-3)
        show(seen, "without the other points the line is the same")
        if title == "hard margin":
            show((y * f > 1 - 1e-3).all(), "no point lies within the hard margin")
            show(np.abs(y * f - 1)[kept].max() < 1e-3, "and the support vectors lie on it")
    show(len(kept) > 5, "where classes overlap many points are needed")
    return drawing
