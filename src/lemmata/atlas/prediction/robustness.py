"""Attacks, drawn (ML Adversarial ML … Adversarial Example): what gradients look like, what a step costs, what is proved."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier

from lemmata.atlas import entry, show
from lemmata.core.certification.pictures import BLUE, GREEN, ORANGE, PURPLE, figure, image_grid
from lemmata.trust import Ball, TwoFeatures, attack

Array = np.ndarray
NORMS = ((math.inf, 0.15), (2, 1.2), (1, 4.0))


def _digits() -> tuple[Array, Array, Array, Array]:
    X, y = load_digits(return_X_y=True)
    return X[:1400] / 16, y[:1400], X[1400:] / 16, y[1400:]


@entry("robust-gradients", "ML Adversarial training")
def robust_gradients(seed: int = 0) -> Any:
    """The gradient of a robust network lies where the ink is, that of a standard one everywhere.

    A network of 128 hidden units, trained on digits as they are and on digits moved by PGD (ℓ∞, 0.15). Below each digit the
    gradient of its margin; right the accuracy of both under attack.
    """
    import torch
    from torch import nn

    from lemmata.nets.estimators.supervised import NeuralClassifier
    from lemmata.trust import AdversarialTraining
    from lemmata.trust.robust.scores import read_target, toward_runner_up

    X, y, X_new, y_new = (part.astype(np.float32 if part.ndim == 2 else int) for part in _digits())
    torch.manual_seed(seed)
    drawing, axes = figure(columns=2, size=(4.4, 3.0), gridspec_kw={"width_ratios": [1.6, 1]})
    some = [int(np.flatnonzero(y_new == digit)[0]) for digit in range(6)]
    images, right, on_ink = [X_new[some].reshape(-1, 8, 8) / 2], {}, {}
    for name, loss in (
        ("standard", "cross_entropy"),
        ("robust", AdversarialTraining(Ball(0.15), steps=3)),
    ):
        net = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
        model = NeuralClassifier(
            net, loss=loss, max_iter=25, learning_rate=3e-3, batch_size=64, random_state=seed
        )
        target = read_target(model.fit(X, y), X_new, (64,))
        with target.ready():
            G = target.pull(X_new, y_new, toward_runner_up)[1]
        images.append((-G / np.abs(G).max(axis=1, keepdims=True))[some].reshape(-1, 8, 8) / 2)
        pairs = zip(np.abs(G), X_new, strict=True)
        on_ink[name] = float(np.mean([np.corrcoef(g, x)[0, 1] for g, x in pairs]))
        found = attack(
            model, X_new[:200], y_new[:200], Ball(0.15), "pgd-margin", restarts=1, steps=20
        )
        right[name] = found.accuracy, found.robust_accuracy
    image_grid(axes[0], np.concatenate(images), len(some), signed=True)
    axes[0].set_title("digits, standard, robust")
    for at, (name, colour) in enumerate((("standard", BLUE), ("robust", ORANGE))):
        axes[1].bar(np.arange(2) + 0.4 * (at - 0.5), right[name], 0.38, color=colour, label=name)
    axes[1].set_xticks([0, 1], ["no attack", "attacked"])
    axes[1].set(ylabel="accuracy", ylim=(0, 1.3))
    axes[1].legend(ncols=2, loc="upper center")
    show(right["robust"][1] > right["standard"][1] + 0.2, "the robust network withstands more")
    show(on_ink["robust"] > on_ink["standard"] + 0.1, "its gradients lie where the ink is")
    return drawing


@entry("two-risks", "ML Adversarial Example")
def two_risks(seed: int = 0) -> Any:
    """Features that help without an attacker hurt with one, and in many dimensions they do both completely.

    The notes' law of one robust and d − 1 weak features. Lines are formulas, points are 4,000 draws; the attacker moves each
    feature by ε = 2√(ln d/(d − 1)), which tends to 0.
    """
    dimensions, n = [2, 5, 10, 30, 100, 300, 1000], 4000
    drawing, ax = figure(size=(4.8, 3.4))
    lines: dict[str, list[float]] = {
        "all features": [],
        "all, attacked": [],
        "robust one, attacked": [],
    }
    seen: dict[str, list[float]] = {name: [] for name in lines}
    for d in dimensions:
        law = TwoFeatures(d)
        X, y = law.sample(n, rng=seed)
        for name, moved, robust in zip(
            lines, (0.0, law.eps, law.eps), (False, False, True), strict=True
        ):
            a = law.a * (np.arange(d) < 1) if robust else law.a
            seen[name].append(float(np.mean(y * (X @ a) - moved * a.sum() < 0)))
            lines[name].append(law.adversarial_risk(moved, robust))
    for (name, risks), colour, mark in zip(
        lines.items(), (BLUE, ORANGE, GREEN), "os^", strict=True
    ):
        ax.plot(dimensions, risks, color=colour)
        ax.plot(dimensions, seen[name], mark, color=colour, label=name)
        off = np.abs(np.subtract(seen[name], risks)) / np.sqrt(
            np.multiply(risks, np.subtract(1, risks)) / n + 1 / n**2
        )
        show((off < 5).all(), f"{name}: draws agree with the formula")
    ax.set(xscale="log", xlabel="d", ylabel="risk", ylim=(-0.02, 1.02))
    ax.legend(loc="center right")
    show(
        lines["all features"][-1] < 0.01 and lines["all, attacked"][-1] > 0.95,
        "one risk tends to 0, the other to 1",
    )
    show(
        lines["robust one, attacked"][-1] < 0.25,
        "the robust feature alone keeps most of its accuracy",
    )
    return drawing


@entry("three-norms", "ML Generating adversarial examples")
def three_norms() -> Any:
    """A small step in ℓ∞ is everywhere, in ℓ1 on a few pixels.

    Digits that logistic regression reads rightly, the worst step in each norm, and the digits it then misreads (above, as
    what). Black and white are the ends of the box: no step leaves it.
    """
    X, y, X_new, y_new = _digits()
    model = LogisticRegression(max_iter=300).fit(X, y)
    drawing, axes = figure(rows=3, size=(4.6, 1.75))
    touched = {}
    for ax, (norm, eps) in zip(axes, NORMS, strict=True):
        found = attack(model, X_new, y_new, Ball(eps, norm=norm), "pgd-margin", restarts=1)
        some = np.flatnonzero(found.clean & found.fooled)[:8]
        before, after = X_new[some], found.adversarial[some]
        step = (after - before) / np.abs(after - before).max()
        said = [
            f"{one} → {other}" for one, other in zip(y_new[some], model.predict(after), strict=True)
        ]
        images = np.concatenate([0.5 + 0.5 * step, after]).reshape(-1, 8, 8)
        image_grid(ax, images, 8, names=said)
        ax.set_title(f"ℓ{'∞' if norm == math.inf else norm}, ε = {eps:g}", pad=20)
        touched[norm] = float(
            (np.abs(found.adversarial - X_new)[found.clean & found.fooled] > 1e-3).mean()
        )
        show(
            (found.fooled == (found.exact < 0)).all(),
            f"ℓ{norm:g}: exactly the rows of the closed form are fooled",
        )
    show(touched[1] < 0.2 < 0.5 < touched[math.inf], "ℓ1 moves a few pixels, ℓ∞ most")
    return drawing


@entry("proved-robustness", "ML Adversarial ML")
def proved_robustness() -> Any:
    """Between what attacks find and what is proved lies the truth: for linear models nothing, for networks a gap.

    Accuracy on 150 digits against ε in ℓ2, under PGD (an upper bound) and proved (a lower one): of logistic regression by its
    closed form, of a dense ReLU network by its linear piece, which ends soon.
    """
    X, y, X_new, y_new = _digits()
    X_new, y_new, radii = X_new[:150], y_new[:150], np.linspace(0, 1.2, 9)
    models = {
        "logistic": LogisticRegression(max_iter=300),
        "network": MLPClassifier((16,), max_iter=60, random_state=0),
    }
    drawing, ax = figure(size=(4.8, 3.4))
    curves = {}
    for (name, model), colour, mark in zip(models.items(), (BLUE, PURPLE), "os", strict=True):
        ball = Ball(float(radii[-1]), norm=2)
        found = attack(model.fit(X, y), X_new, y_new, ball, "pgd-margin", restarts=1, steps=20)
        table = np.array(found.over(radii))
        ax.plot(radii, table[:, 1], f"{mark}-", color=colour, label=f"{name}: withstood PGD")
        ax.plot(radii, table[:, 2], "--", color=colour, label=f"{name}: proved")
        curves[name] = table
    ax.set(xlabel="ε (ℓ2)", ylabel="accuracy", ylim=(0, 1.02))
    ax.legend()
    show(
        np.allclose(curves["logistic"][:, 1], curves["logistic"][:, 2]),
        "of a linear model both are the same",
    )
    show(
        (curves["network"][:, 2] <= curves["network"][:, 1]).all(),
        "no attack succeeds where it is proved that none can",
    )
    show(
        curves["network"][1, 1] > curves["network"][1, 2] + 0.05,
        "of a network the proof ends before the attacks succeed",
    )
    return drawing
