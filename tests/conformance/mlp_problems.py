"""Perceptrons for the common suite: the loss of a state recomputed by plain NumPy from its one vector of parameters."""

from __future__ import annotations

import numpy as np

from lemmata.core import Blocks, Never
from lemmata.nets import MLP
from lemmata.nets.mlp import MLPAlgorithm, MLPQuasiNewton
from lemmata.nets.mlp.steps import InPlaceAdam, Momentum, Pure
from lemmata.nets.mlp.training import Sample
from lemmata.optim import AdaGrad

N, D, H = 60, 6, 5
ALPHA, BATCH = 0.3, 25


def of(X, targets, y, weights=None):
    blocks = Blocks.of(X).with_targets(targets)
    return Sample(blocks if weights is None else blocks.weighted(weights), X, y, weights)


def numbers(dtype, scale=1.0):
    rng = np.random.default_rng(0)
    X = (scale * rng.normal(size=(N, D))).astype(dtype)
    y = np.stack([X[:, 0] * X[:, 1], np.sin(X[:, 2])], axis=1).astype(dtype)
    return of(X, y, y, np.linspace(0.5, 2.0, N))


def classes(dtype, scale=1.0):
    rng = np.random.default_rng(1)
    X = (scale * rng.normal(size=(N, D))).astype(dtype)
    y = X[:, :3].argmax(axis=1)
    return of(X, y, y)


def scores(theta, X, outputs):
    theta, X = theta.astype(float), X.astype(float)
    W, V = theta[: D * H].reshape(D, H), theta[D * H : D * H + H * outputs].reshape(H, outputs)
    b, c = theta[-H - outputs : -outputs], theta[-outputs:]
    return np.tanh(X @ W + b) @ V + c, (W**2).sum() + (V**2).sum()


def squared(state, data, batches=3):
    f, length = scores(state.theta, data.X, 2)
    s, r = data.weights, f - data.y.astype(float)
    return float((s @ (0.5 * r**2).sum(axis=1) + 0.5 * ALPHA * batches * length) / s.sum())


def log_loss(state, data):
    """Of the rows that were not held out."""
    rows = np.setdiff1d(np.arange(N), state.held_out)
    f, length = scores(state.theta, data.X[rows], 3)
    own = f[np.arange(len(rows)), data.y[rows]]
    batches = -(-len(rows) // BATCH)
    total = (np.log(np.exp(f).sum(axis=1)) - own).sum() + 0.5 * ALPHA * batches * length
    return float(total / len(rows))


def trained(loss, outputs, optimizer, **more):
    net = MLP((D, H, outputs), "tanh", loss)
    return MLPAlgorithm(net, optimizer, BATCH, alpha=ALPHA, rate=0.02, **more)


def too_large():
    return numbers(np.float64, scale=1e200)


def too_large_classes():
    X = classes(np.float64).X * np.inf
    return of(X, classes(np.float64).y, classes(np.float64).y)


# (name, algorithm, easy, hopeless, recompute, more)
PERCEPTRONS = (
    ("MLP, Adam", lambda: trained("squared", 2, InPlaceAdam()), numbers, too_large, squared, {}),
    (
        "MLP, momentum, dropout, rate by progress",
        lambda: trained("squared", 2, Momentum(), dropout=0.3, schedule="adaptive", tol=0.5, patience=1),
        numbers, too_large, squared, {},
    ),
    (
        "MLP, early stopping, AdaGrad",
        lambda: trained("softmax", 3, Pure(AdaGrad(0.05)), validation=0.2, classifies=True),
        classes, too_large_classes, log_loss, {},
    ),
    (
        "MLP, L-BFGS",
        lambda: MLPQuasiNewton(MLP((D, H, 2), "tanh", "squared"), ALPHA, 1e-4, 50, 1000),
        numbers, too_large, lambda state, data: squared(state, data, batches=1), {"stop": Never(), "wide": ("curve",)},
    ),
)  # fmt: skip
