"""Training of networks for the common suite: the loss of a state recomputed by plain NumPy from its arrays."""

from __future__ import annotations

import numpy as np

from lemmata.nets import Rows, Training


def net():
    from torch import nn

    return nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 2))


def jitter(x, rng):
    import torch

    return x + 0.05 * torch.randn(x.shape, generator=rng, dtype=x.dtype)


def rows(dtype=np.float64):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 6))
    y = np.stack([X[:, 0] * X[:, 1], np.sin(X[:, 2])], axis=1)
    return Rows(X.astype(dtype), y.astype(dtype))


def labelled(dtype=np.float64):
    X = np.random.default_rng(1).normal(size=(40, 6)).astype(dtype)
    return Rows(X, (X[:, 0] > X[:, 1]).astype(int), weights=np.linspace(0.1, 2.0, 40))


def endless():
    """Numbers whose squares are infinite."""
    data = rows()
    return Rows(data.parts[0].numpy() * 1e200, data.parts[1].numpy() * 1e200)


def unlabelled():
    data = labelled()
    return Rows(data.parts[0].numpy() * np.inf, data.parts[1].numpy())


def outputs(state, data):
    W, b, V, c = (state.model[name].astype(float) for name in ("0.weight", "0.bias", "2.weight", "2.bias"))  # fmt: skip
    return np.tanh(data.parts[0].numpy().astype(float) @ W.T + b) @ V.T + c


def squared(state, data):
    return float(np.square(outputs(state, data) - data.parts[1].numpy()).mean())


def log_loss(state, data):
    f, y, w = outputs(state, data), data.parts[1].numpy(), data.weights.numpy()
    return float(w @ (np.log(np.exp(f).sum(1)) - f[np.arange(len(y)), y]) / w.sum())


def training(loss, **more):
    return lambda: Training(net, loss, batch_size=16, measure="evaluated", **more)


IN_BATCHES = {"batches_per_step": 2, "ema": 0.9, "augment": jitter}
IN_PARTS = {"optimizer": "nesterov", "accumulate": 3, "clip": 0.5}
NETS = [
    ("training by adamw, in batches", training("mse", **IN_BATCHES), rows, endless, squared, {}),
    (
        "training by nesterov, in epochs",
        training("cross_entropy", **IN_PARTS),
        labelled,
        unlabelled,
        log_loss,
        {},
    ),
]
