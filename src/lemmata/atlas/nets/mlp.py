"""Perceptrons, drawn (CIL 4): what hidden units look for, what dropout does, what keeps a net from learning by heart.

Each entry takes a seed, since what a figure shows should hold for other draws too.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from sklearn.datasets import load_digits

from lemmata.atlas import entry, show
from lemmata.core.certification.pictures import BLUE, GREY, ORANGE, figure, image_grid
from lemmata.nets.mlp.estimators import MLPClassifier
from lemmata.nets.mlp.network import MLP, Workspace

Array = np.ndarray


@cache
def _digits() -> tuple[Array, Array]:
    X, y = load_digits(return_X_y=True)
    return X / 16, y


# --- what hidden units look for (CIL 4.1.1, Figure 4.1) ---------------------------------------------------------------


def _roughness(weights: Array) -> Array:
    """The difference of each 8 × 8 pattern from pixel to pixel, relative to its own spread: 2 for noise."""
    images = weights.T.reshape(-1, 8, 8)
    steps = np.concatenate(
        [np.diff(images, axis=1).reshape(len(images), -1), np.diff(images, axis=2).reshape(len(images), -1)],
        axis=1,
    )  # fmt: skip
    spread = images.reshape(len(images), -1).var(axis=1)
    return (steps**2).mean(axis=1) / spread


@entry("hidden-units", "CIL 4.1.1, Fig. 4.1")
def hidden_units(seed: int = 0):
    """Hidden units of a digit reader look for strokes.

    The weights of 24 hidden units of a perceptron on the digits, before training and after: red pixels excite a unit, blue
    ones hold it back. Training turns noise into strokes and gaps, each of which some digits have and others have not.
    """
    X, y = _digits()
    rates: dict[str, Any] = {"max_iter": 60, "learning_rate_init": 5e-3, "random_state": seed}
    net = MLP((64, 24, 10), "tanh", "softmax")
    before = net.layers(net.start(np.random.default_rng(seed)))[0][0]
    model = MLPClassifier((24,), "tanh", alpha=1.0, **rates).fit(X[:1200], y[:1200])
    after = model.coefs_[0]
    drawing, axes = figure(1, 2, size=(4.6, 3.4))
    drawing.get_layout_engine().set(wspace=0.08)
    for ax, weights, name in zip(axes, (before, after), ("at the start", "trained"), strict=True):
        image_grid(ax, weights.T.reshape(-1, 8, 8), columns=6, signed=True)
        ax.set_title(f"{name}: roughness {_roughness(weights).mean():.2f}")
    h = np.tanh(X @ after + model.intercepts_[0])
    means = np.stack([h[y == digit].mean(axis=0) for digit in range(10)])
    explained = means.var(axis=0) / h.var(axis=0)
    show(_roughness(before).mean() > 1.5, "the first weights are noise, pixel by pixel")
    show(
        _roughness(after).mean() < 0.8 * _roughness(before).mean(), "trained patterns are smoother"
    )
    show((explained > 0.2).all(), "every unit tells some digits from others")
    show(model.score(X[1200:], y[1200:]) > 0.9, "together they read digits that they have not seen")
    return drawing


# --- dropout (ML "Dropout"; issue of the mean and the variance) --------------------------------------------------------


@entry("dropout-variance", "ML Dropout")
def dropout_variance(seed: int = 0):
    """Dropout keeps the mean of an output and makes it vary.

    The output of a perceptron with 100 hidden units at one row, over 2,000 draws of the units left out. Dots: mean and
    deviation measured; lines: what Bernoulli's law says, a mean that stays and a variance of p/(1 − p) Σ (h w)².
    """
    rng = np.random.default_rng(seed)
    net = MLP((10, 100, 1), "tanh", "squared")
    theta, x = net.start(rng), rng.standard_normal((1, 10))
    layers, draws = net.layers(theta), 2000
    terms = np.tanh(x @ layers[0][0])[0] * layers[0][1][:, 0]
    whole, rates = float(terms.sum()), np.array([0.1, 0.2, 0.3, 0.5, 0.7, 0.8])
    seen = []
    for p in rates:
        kept = Workspace(net, draws, float, dropout=float(p))
        rows = np.repeat(x, draws, axis=0)
        seen.append(net.forward(layers, rows, kept, np.random.default_rng([seed, int(100 * p)])).ravel().copy())  # fmt: skip
    means, deviations = np.mean(seen, axis=1), np.std(seen, axis=1)
    along = np.linspace(0.02, 0.85, 200)
    law = np.sqrt(along / (1 - along) * (terms**2).sum())
    drawing, axes = figure(1, 2)
    axes[0].axhline(whole, color=GREY, label="without dropout")
    axes[0].errorbar(rates, means, 2 * deviations / np.sqrt(draws), fmt="o", color=BLUE, label="mean of the draws")  # fmt: skip
    axes[0].set(xlabel="p, the share of units left out", ylabel="mean output")
    # the largest error decides the scale, not rounding
    reach = 6 * deviations.max() / np.sqrt(draws)
    axes[0].set_ylim(whole - reach, whole + reach)
    axes[1].plot(along, law, color=GREY, label="√(p/(1 − p) Σ (hw)²)")
    axes[1].plot(rates, deviations, "o", color=ORANGE, label="deviation of the draws")
    axes[1].set(xlabel="p, the share of units left out", ylabel="deviation of the output")
    for ax in axes:
        ax.legend()
    true = np.sqrt(rates / (1 - rates) * (terms**2).sum())
    show((np.abs(means - whole) < 4 * true / np.sqrt(draws)).all(), "the mean is that of the whole network")  # fmt: skip
    close = np.abs(deviations / true - 1) < 4 / np.sqrt(2 * draws) + 0.02
    show(close.all(), "the deviation is that of independent units")
    show(deviations[-1] > 4 * deviations[0], "it grows without bound as p nears 1")
    return drawing


# --- what keeps a net from learning by heart (CIL 4.3; ML "Regularization") --------------------------------------------

WAYS: dict[str, dict[str, Any]] = {
    "nothing": {"alpha": 0.0},
    "weight decay": {"alpha": 4.0},
    "dropout": {"alpha": 0.0, "dropout": 0.6},
    "both": {"alpha": 4.0, "dropout": 0.5},
}


def _test_scores(way: dict[str, Any], wrong: float, seed: int, repeats: int = 3) -> list[float]:
    """Accuracy on unseen digits of nets trained on 200, a share of whose labels is wrong."""
    X, y = _digits()
    scores = []
    for draw in range(repeats):
        rng = np.random.default_rng([seed, draw])
        order = rng.permutation(len(X))
        few, rest = order[:200], order[200:]
        labels = y[few].copy()
        bad = rng.random(200) < wrong
        labels[bad] = (labels[bad] + rng.integers(1, 10, bad.sum())) % 10
        model = MLPClassifier(
            (60,), learning_rate_init=0.01, max_iter=100, tol=0, random_state=draw, **way
        )
        scores.append(model.fit(X[few], labels).score(X[rest], y[rest]))
    return scores


@entry("few-labels", "CIL 4.3, ML Regularization")
def few_labels(seed: int = 0):
    """Weight decay and dropout pay where labels are wrong.

    Accuracy on 1,597 unseen digits of perceptrons trained on 200, with all labels right and with a fifth of them wrong; dots
    are draws of the training set, bars their means. No augmentation anywhere. Clean and few, the digits are memorised
    without harm; wrong labels that are memorised are repeated, unless weights are small or units may not rely on each other.
    """
    drawing, ax = figure(size=(6.4, 3.4))
    found = {
        wrong: [_test_scores(way, wrong, seed) for way in WAYS.values()] for wrong in (0.0, 0.2)
    }
    for shift, wrong, colour, name in (
        (-0.2, 0.0, BLUE, "labels right"),
        (0.2, 0.2, ORANGE, "a fifth of them wrong"),
    ):
        at = np.arange(len(WAYS)) + shift
        ax.bar(at, np.mean(found[wrong], axis=1), 0.36, color=colour, alpha=0.6, label=name)
        ax.plot(np.repeat(at, 3), np.ravel(found[wrong]), "o", color=colour, ms=3)
    ax.set(xticks=range(len(WAYS)), xticklabels=list(WAYS), ylim=(0, 1.12))
    ax.set(ylabel="accuracy, unseen digits")
    ax.legend(loc="upper center", ncols=2)
    right, astray = (np.mean(found[wrong], axis=1) for wrong in (0.0, 0.2))
    show(right[0] > 0.88, "200 right labels make a fair reader, by heart or not")
    show((np.abs(right - right[0]) < 0.04).all(), "with right labels none of them matters much")
    show(astray[0] < right[0] - 0.1, "wrong labels that are memorised cost a tenth or more")
    show(
        (astray[1:] > astray[0] + 0.04).all(), "weight decay, dropout and both give much of it back"
    )
    return drawing
