"""Complexity and dimension (ML Bias-Variance Decomposition … Curse of dimensionality): how they change the error on new rows.

Each entry takes a seed, since what a figure shows should hold for other draws too.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures

from lemmata import KNeighborsRegressor, LinearRegression, NearestNeighbors
from lemmata.atlas import entry, show
from lemmata.core.certification.pictures import BLUE, GREEN, GREY, ORANGE, PURPLE, RED, SKY, figure
from lemmata.trust import RegressionLaw, bias_variance

Array = np.ndarray


# --- complexity (ML Bias-Variance Decomposition, Double descent curve) ------------------------------------------------


def _wave(X: Array) -> Array:
    return np.sin(np.pi * X[:, 0])


def _draw_parts(ax: Any, along: list[int], parts: list[Any], label: str) -> None:
    """Noise, bias² and variance on top of each other, and the error that was measured."""
    layers = [
        [part.noise for part in parts],
        [max(part.bias2, 0) for part in parts],
        [part.variance for part in parts],
    ]
    ax.stackplot(
        along, layers, labels=["noise", "bias²", "variance"], colors=[GREY, ORANGE, SKY], alpha=0.8
    )
    ax.plot(
        along,
        [part.risk for part in parts],
        color="black",
        marker="o",
        ms=3,
        label="measured error",
    )
    ax.set(xlabel=label, ylabel="mean square error", ylim=(0, 0.6))
    ax.legend(loc="upper center")


@entry("bias-variance", "ML Bias-Variance Decomposition, Bias-variance tradeoff in k-NN")
def split_error(seed: int = 0):
    """Complexity trades bias for variance, by degree and by k.

    The error of regressions on 30 noisy rows of a sine, split into noise, bias² and variance over 60 training sets: left
    polynomials of growing degree, right the k nearest neighbours. Dots are the error measured on targets of its own.
    """
    law = RegressionLaw(_wave, noise=0.3)
    degrees, sizes = list(range(8)), [1, 2, 3, 5, 7, 10, 15, 20, 25, 30]

    def split(model: Any) -> Any:
        return bias_variance(model, law, n=30, repeats=60, test_size=300, random_state=seed)

    def polynomial(degree: int) -> Any:
        powers = PolynomialFeatures(degree, include_bias=False)
        # of degree 0 the mean
        return make_pipeline(powers, LinearRegression()) if degree else KNeighborsRegressor(30)

    polynomials = [split(polynomial(degree)) for degree in degrees]
    neighbours = [split(KNeighborsRegressor(k)) for k in sizes]
    drawing, axes = figure(1, 2, sharey=True)
    _draw_parts(axes[0], degrees, polynomials, "degree of the polynomial")
    _draw_parts(axes[1], sizes, neighbours, "k, the neighbours averaged")
    for parts in (polynomials, neighbours):
        for part in parts:
            total = part.noise + part.bias2 + part.variance
            if total < 1:
                seen = abs(total / part.risk - 1) < 0.1
                show(seen, "noise, bias² and variance add up to the error measured")
    seen = polynomials[1].bias2 > 5 * polynomials[3].bias2
    show(seen, "a line misses most of the sine, a cubic little")
    show(polynomials[7].variance > 3 * polynomials[3].variance, "variance grows with the degree")
    variances = [part.variance for part in neighbours]
    local = sizes.index(10)
    seen = (np.diff(variances[: local + 1]) < 0).all()
    show(seen, "variance falls with k, while a third of the rows are neighbours")
    seen = abs(variances[0] / law.noise**2 - 1) < 0.4
    show(seen, "a single neighbour has about the variance of the noise")
    seen = neighbours[-1].bias2 > 20 * max(neighbours[2].bias2, 1e-3)
    show(seen, "at k = n bias is all that is left: a constant")
    for along, parts in ((degrees, polynomials), (sizes, neighbours)):
        best = along[int(np.argmin([part.risk for part in parts]))]
        seen = along[0] < best < along[-1]
        show(seen, "the least error lies between the simplest and the most complex")
    return drawing


def _label_once(axes: Any) -> tuple[list, list]:
    """Collect what is drawn on some axes, each label once."""
    pairs = {
        label: line
        for ax in axes
        for line, label in zip(*ax.get_legend_handles_labels(), strict=True)
    }
    return list(pairs.values()), list(pairs)


@entry("double-descent", "ML Double descent curve")
def double_descent(seed: int = 0):
    """Beyond as many features as rows the error falls again.

    Random ReLU features of 15 inputs, least squares with the least norm, 100 rows with noise, medians of 20 draws. At as
    many features as rows the fit just reaches every target and its weights are huge; with more, the least norm shrinks.
    """
    rng = np.random.default_rng(seed)
    n, d, counts = 100, 15, np.unique(np.geomspace(5, 2000, 26).astype(int))
    counts = np.unique(np.append(counts, [90, 100, 110]))
    draws = 20
    train, test, norms = (np.empty((draws, len(counts))) for _ in range(3))
    for r in range(draws):
        direction = rng.standard_normal(d) / np.sqrt(d)
        X, far = rng.standard_normal((n, d)), rng.standard_normal((500, d))
        y, true = X @ direction + 0.3 * rng.standard_normal(n), far @ direction
        W = rng.standard_normal((d, counts[-1])) / np.sqrt(d)
        for at, p in enumerate(counts):
            A, B = (np.maximum(rows @ W[:, :p], 0) * np.sqrt(2 / p) for rows in (X, far))
            w = np.linalg.lstsq(A, y, rcond=1e-12)[0]  # of the least norm
            train[r, at], test[r, at] = np.mean((A @ w - y) ** 2), np.mean((B @ w - true) ** 2)
            norms[r, at] = np.linalg.norm(w)
    middle, fitted, size = (
        np.median(test, axis=0),
        np.median(train, axis=0),
        np.median(norms, axis=0),
    )
    drawing, axes = figure(1, 2)
    for ax, lines in (
        (
            axes[0],
            (
                (middle, BLUE, "-", "new rows"),
                (np.maximum(fitted, 1e-6), ORANGE, "--", "training rows"),
            ),
        ),
        (axes[1], ((size, PURPLE, "-", "‖w‖"),)),
    ):
        for values, colour, style, label in lines:
            ax.plot(counts, values, color=colour, ls=style, marker=".", ms=4, label=label)
        ax.axvline(n, color="black", lw=1, ls=":", label="as many features as rows")
        ax.set(xscale="log", yscale="log", xlabel="features")
    axes[0].set(ylabel="mean square error", ylim=(1e-3, None))
    axes[1].set(ylabel="length of the weights")
    drawing.legend(*_label_once(axes), loc="outside upper center", ncols=4)
    peak = int(np.argmax(middle))
    few = middle[counts < n / 2].min()
    show(0.85 * n <= counts[peak] <= 1.15 * n, "the error peaks where features are as many as rows")
    show(middle[peak] > 10 * few, "ten times above the best of few features")
    show(middle[-1] < middle[peak] / 10, "and falls to a tenth with many features")
    show(
        fitted[counts > 1.1 * n].max() < 1e-10, "from there on every training row is fitted exactly"
    )
    show(abs(counts[int(np.argmax(size))] / n - 1) < 0.15, "the weights are longest at the peak")
    return drawing


# --- dimension (ML Curse of dimensionality) ---------------------------------------------------------------------------


@entry("curse-of-dimensionality", "ML Curse of dimensionality")
def curse(seed: int = 0):
    """In many dimensions a neighbourhood is almost everything.

    Left: the side of a box that holds a share of a cube. Middle: the side of a box around the centre that holds one of
    N = 500 points with probability ½, (1 − 2^(−1/N))^(1/d), measured, and as the notes print it (1/d for 1/N). Right: the
    nearest of 500 Gaussian points against any of them.
    """
    rng = np.random.default_rng(seed)
    d, N = np.arange(1, 101), 500
    drawing, axes = figure(1, 3, size=(3.3, 3.2))
    for share, colour in ((0.1, GREEN), (0.01, BLUE), (0.001, PURPLE)):
        axes[0].plot(d, share ** (1 / d), color=colour, label=f"{100 * share:g} % of the volume")
    axes[0].plot(10, 0.01**0.1, color="black", marker="o", ls="", label="d = 10: side 0.63")
    seen = round(0.01 ** (1 / 10), 2) == 0.63
    show(seen, "1 % of a cube in ten dimensions takes 0.63 of each side")
    show(0.01 ** (1 / 100) > 0.95, "and 0.95 in a hundred")
    sides = (1 - 2 ** (-1 / N)) ** (1 / d)
    axes[1].plot(d, sides, color=BLUE, label="(1 − 2^(−1/N))^(1/d)")
    axes[1].plot(
        d, (1 - 2 ** (-1 / d)) ** (1 / d), color=RED, ls="--", label="as the notes print it"
    )
    some, draws = (1, 2, 5, 10, 20, 50, 100), 400
    measured = []
    for m in some:
        nearest = [
            2 * np.abs(rng.uniform(-0.5, 0.5, (N, m))).max(axis=1).min() for _ in range(draws)
        ]
        measured.append(np.median(nearest))
    axes[1].plot(some, measured, color="black", marker="o", ms=4, ls="", label=f"measured, N = {N}")
    seen = np.allclose(measured, sides[np.array(some) - 1], rtol=0.12)
    show(seen, "half of the draws have a point in that box")
    seen = round(float(sides[9]), 2) == 0.52
    show(seen, "with 500 points in ten dimensions that is 0.52 of each side")
    show(abs(measured[3] - (1 - 2**-0.1) ** 0.1) > 0.15, "which the formula as printed misses")
    ratios = []
    for m in some:
        X = rng.standard_normal((N, m))
        near = NearestNeighbors(n_neighbors=1).fit(X).kneighbors()[0].mean()
        ratios.append(
            near / np.sqrt(((X[:, None] - X[rng.permutation(N)[:50]]) ** 2).sum(axis=2)).mean()
        )
    axes[2].plot(some, ratios, color=BLUE, marker="o", ms=4)
    axes[2].axhline(0.75, color=GREY, lw=1, ls=":", label="limit of the claim")
    seen = (np.diff(ratios) > 0).all() and ratios[-1] > 0.7
    show(seen, "the nearest point comes to be as far as any other")
    labels = ("side of the box", "side with a point, half of the time", "nearest / any distance")
    for ax, label in zip(axes, labels, strict=True):
        ax.set(xscale="log", xlabel="dimension d", ylabel=label, ylim=(0, 1.05))
        ax.legend(loc="lower right")
    return drawing
