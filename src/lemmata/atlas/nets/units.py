"""Units and layers, drawn (CIL 4.1, CIL20 7, ML From Linear Models to NNs): ridges, slopes, signals, patterns."""

from __future__ import annotations

import numpy as np
from scipy.special import erf, expit
from sklearn.datasets import load_digits

from lemmata import LogisticRegression
from lemmata.atlas import entry, show
from lemmata.atlas.reduction.subspaces import draw_network
from lemmata.core.certification.pictures import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    RED,
    SKY,
    figure,
    image_grid,
)
from lemmata.nets.mlp.estimators import MLPClassifier
from lemmata.nets.mlp.network import ACTIVATIONS, MLP, Workspace

Array = np.ndarray


@entry(
    "unit-and-layers",
    "CIL Fig. 4.2, (4.1), 4.1.2; CIL20 Fig. 7.1, 7.3; ML Single Neuron View",
    hidden=(2, 6),
)
def unit_and_layers(hidden: int = 5, seed: int = 0):
    """A unit is a ridge: it changes in one direction; a layer of them bends the plane as often as it has units.

    Left: a network 2 → h → h → 1. Middle: one unit φ(wᵀx + b) over the plane: its levels are lines across w. Right: a network
    with random weights over the same plane. Back-propagation costs as much as going forward and gives the slopes that
    differences give. The parameter is h.
    """
    rng = np.random.default_rng(seed)
    net = MLP((2, hidden, hidden, 1), "tanh")
    theta = 2 * net.start(rng)
    theta[net.n_weights :] = rng.standard_normal(net.n_parameters - net.n_weights)
    grid = np.linspace(-3, 3, 81)
    plane = np.stack(np.meshgrid(grid, grid), axis=-1).reshape(-1, 2)
    layers = net.layers(theta)
    w, b = np.array([1.2, 0.8]), -0.5
    unit = np.tanh(plane @ w + b).reshape(81, 81)
    whole = net.scores(layers, plane).reshape(81, 81)
    drawing, axes = figure(1, 3, size=(3.6, 3.5))
    draw_network(
        axes[0],
        (2, hidden, hidden, 1),
        ("x", "layer 1", "layer 2", "ψ(x)"),
        (SKY, GREY, GREY, ORANGE),
    )
    for ax, values, title in ((axes[1], unit, "one unit"), (axes[2], whole, "the network")):
        ax.contourf(grid, grid, values, levels=12, cmap="RdBu_r")
        ax.set(xlabel="x₁", ylabel="x₂", aspect="equal", title=title)
    axes[1].annotate("", 1.4 * w, (0, 0), arrowprops={"arrowstyle": "->", "lw": 2})
    axes[1].text(*(1.5 * w), "w")
    across = np.array([-w[1], w[0]])
    show(
        np.ptp(np.tanh((w + np.outer(np.linspace(-1, 1, 5), across)) @ w + b)) < 1e-12,
        "across w a unit does not change",
    )
    X, y = rng.standard_normal((9, 2)), rng.standard_normal((9, 1))
    kept = Workspace(net, 9, np.dtype(float))
    gradient = np.zeros_like(theta)
    delta = net.forward(layers, X, kept) - y
    net.backward(layers, kept, delta.copy(), net.layers(gradient))
    h = 1e-6
    loss = lambda at: np.sum((net.scores(net.layers(at), X) - y) ** 2) / 2  # noqa: E731
    slopes = [(loss(theta + h * e) - loss(theta - h * e)) / (2 * h) for e in np.eye(len(theta))]
    show(
        np.allclose(gradient, slopes, rtol=1e-4, atol=1e-5),
        f"back-propagation gives the slope in all {len(theta)} parameters",
    )
    forward, backward = net.multiplications(9)
    show(backward <= 2 * forward, "for at most twice the multiplications of going forward")
    return drawing


@entry(
    "activations", "CIL20 Fig. 7.2; ML Popular activation functions; CIL 4.1.3", factor=(1.0, 2.5)
)
def activations(factor: float = 1.702):
    """Smooth steps stop learning far out; ReLU and its smooth relatives do so on one side only.

    Activation functions and their slopes, from the code of the library. Right: how far GELU, zΦ(z), is from z·σ(cz): by at
    most 0.021 with c = 1.702. The parameter is c.
    """
    z = np.linspace(-6, 6, 481)
    looks = {
        "logistic": (ORANGE, "--"),
        "tanh": (RED, ":"),
        "relu": (BLUE, "-"),
        "softplus": (GREEN, "-."),
        "gelu": (SKY, "-"),
    }
    drawing, axes = figure(1, 3, size=(3.6, 3.3))
    slopes = {}
    for name, (colour, style) in looks.items():
        value, slope = z.copy(), np.empty_like(z)
        ACTIVATIONS[name].into(value, slope)
        slopes[name] = np.ones_like(z)
        ACTIVATIONS[name].times_slope(slopes[name], value, slope)
        axes[0].plot(z, value, color=colour, ls=style, label=name)
        axes[1].plot(z, slopes[name], color=colour, ls=style, label=name)
        between = np.gradient(value, z)[np.abs(z) > 0.05]
        show(
            np.abs(between - slopes[name][np.abs(z) > 0.05]).max() < 0.02,
            f"the slope of {name} is that of its values",
        )
    axes[0].set(xlabel="z", ylim=(-1.5, 3), title="activation φ(z)")
    axes[1].set(xlabel="z", ylim=(-0.2, 1.2), title="slope φ′(z)")
    gelu = z * (1 + erf(z / np.sqrt(2))) / 2
    for c, colour, style in ((1.0, GREY, ":"), (factor, BLUE, "-"), (2.5, ORANGE, "--")):
        error = z * expit(c * z) - gelu
        axes[2].plot(
            z, error, color=colour, ls=style, label=f"c = {c:g}: at most {np.abs(error).max():.3f}"
        )
    axes[2].set(
        xlabel="z", ylabel="z·σ(cz) − GELU", ylim=(-0.22, 0.22), title="GELU by a logistic function"
    )
    for ax in axes:
        ax.legend(fontsize=7)
    show(
        np.abs(z * expit(1.702 * z) - gelu).max() < 0.021, "with c = 1.702 the error is below 0.021"
    )
    show(abs(slopes["logistic"].max() - 0.25) < 1e-4, "the logistic slope is at most ¼")
    show(
        slopes["logistic"][0] < 0.003 and slopes["tanh"][-1] < 1e-4,
        "far out the smooth steps have no slope",
    )
    show(
        slopes["relu"][-1] == 1 and slopes["gelu"][-1] > 0.99,
        "ReLU and GELU keep theirs on the right",
    )
    return drawing


@entry(
    "signal-by-depth",
    "ML Parameter Initialization, Variance-Preserving Initialization; CIL20 7",
    scale=(0.5, 2.0),
)
def signal_by_depth(scale: float = 0.7, seed: int = 0):
    """A weight variance of 2/n carries a signal through fifty layers of ReLU; any other loses or blows it up.

    The mean square of the units by depth in networks of 100 ReLU units a layer, whose weights have the variance s²·2/n; theory
    is s²ᵗ (dashed). Right: the mean square of the gradient with respect to each layer's units, going back. The parameter is
    s of the first line.
    """
    n, depth = 100, 50
    drawing, (left, right) = figure(1, 2, size=(4.6, 3.4))
    t = np.arange(depth + 1)
    for s, colour, mark in ((scale, RED, "s"), (1.0, BLUE, "o"), (1.25, ORANGE, "^")):
        rng = np.random.default_rng(seed)
        h = rng.standard_normal((100, n))
        sizes, masks, weights = [np.mean(h**2)], [], []
        for _ in range(depth):
            W = s * np.sqrt(2 / n) * rng.standard_normal((n, n))
            z = h @ W
            h = np.maximum(z, 0)
            masks.append(z > 0)
            weights.append(W)
            sizes.append(np.mean(z**2) / 2)
        back, going = rng.standard_normal((100, n)), []
        for mask, W in zip(reversed(masks), reversed(weights), strict=True):
            going.append(np.mean(back**2))
            back = (back * mask) @ W.T
        falls = np.array(going[::-1])
        left.semilogy(t, sizes, color=colour, marker=mark, ms=3, label=f"s = {s:g}")
        left.semilogy(t, sizes[0] / 2 * s ** (2.0 * t), color=colour, ls="--", lw=0.8)
        right.semilogy(t[1:], falls, color=colour, marker=mark, ms=3, label=f"s = {s:g}")
        rate = np.polyfit(t[1:], np.log(sizes[1:]), 1)[0] / 2
        show(
            abs(rate - np.log(s)) < 0.06,
            f"with s = {s:g} each layer multiplies the signal by about s²",
        )
    left.set(xlabel="layer", ylabel="mean square of the units", title="forward")
    right.set(xlabel="layer", ylabel="mean square of the gradient", title="back")
    left.legend()
    right.legend()
    return drawing


@entry(
    "pattern-matching",
    "ML Recap: Logistic Regression, Two-Layer Neural Networks",
    units=(4, 12),
)
def pattern_matching(units: int = 8, seed: int = 0):
    """Logistic regression has one pattern; two layers have several, and say how much each of them counts.

    Odd digits against even ones, pixel by pixel. Left: the one pattern that logistic regression lays over an image (red:
    for, blue: against). Right: the patterns of the hidden units, with the weight that each has in the answer; titles: held-out
    accuracy. The parameter is the number of units.
    """
    images, labels = load_digits(return_X_y=True)
    X, y = images / 16, labels % 2
    order = np.random.default_rng(seed).permutation(len(X))
    X, y = X[order], y[order]
    line = LogisticRegression(C=1.0).fit(X[:900], y[:900])
    net = MLPClassifier(
        (units,), "tanh", alpha=0.3, max_iter=150, learning_rate_init=1e-2, random_state=seed
    ).fit(X[:900], y[:900])
    scores = line.score(X[900:], y[900:]), net.score(X[900:], y[900:])
    drawing, (left, right) = figure(1, 2, size=(4.2, 3.6), width_ratios=(1, 2))
    image_grid(left, line.coef_.reshape(1, 8, 8), columns=1, signed=True)
    left.set_title(f"one pattern: {100 * scores[0]:.1f} %")
    out = np.ravel(net.coefs_[1])
    first = np.argsort(-np.abs(out))
    names = [f"{out[j]:+.1f}" for j in first]
    image_grid(
        right, net.coefs_[0].T[first].reshape(-1, 8, 8), columns=4, signed=True, gap=2, names=names
    )
    right.set_title(f"{units} patterns and their weights: {100 * scores[1]:.1f} %", pad=14)
    by_hand = np.tanh(X @ net.coefs_[0] + net.intercepts_[0]) @ net.coefs_[1] + net.intercepts_[1]
    show(
        np.array_equal((np.ravel(by_hand) > 0).astype(int), net.predict(X)),
        "the answer is a weighted sum of how well patterns fit",
    )
    show(scores[1] > scores[0], "several patterns tell more images apart than one")
    return drawing
