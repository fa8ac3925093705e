"""Autoencoders on data whose shape is known: curves, planes and noise; trained, hurried, learnt by heart, tampered with."""

from __future__ import annotations

import copy

import numpy as np
import torch

from lemmata import Autoencoder
from truth.harness import Case, problems

SIZES = ((1.0, np.float64), (1e-150, np.float64), (1e145, np.float64), (1.0, np.float32))
FRESH = 20_000  # rows that tell how the two compare on new ones


def curve(rng, n: int, turn: np.ndarray) -> np.ndarray:
    """Three quarters of a circle with some noise, turned into d dimensions."""
    t = rng.uniform(0, 1.5 * np.pi, n)
    noise = 0.02 * rng.normal(size=(n, len(turn)))
    return np.column_stack([np.cos(t), np.sin(t)]) @ turn[:2] + noise


def line(rng, n: int, turn: np.ndarray) -> np.ndarray:
    """A line with noise: PCA's home."""
    return rng.normal(size=(n, 1)) * 2 @ turn[:1] + 0.3 * rng.normal(size=(n, len(turn)))


def noise(rng, n: int, turn: np.ndarray) -> np.ndarray:
    return rng.normal(size=(n, len(turn)))


def fitted(X: np.ndarray, seed: int, **settings) -> Autoencoder:
    told = {"layers": (24,), "learning_rate": 0.01, "batch_size": 32, "random_state": seed}
    return Autoencoder(1, **{**told, **settings}).fit(X)


def row_errors(model: Autoencoder, X: np.ndarray, new: np.ndarray, size: float):
    """Squared errors of new rows: the network's by its own method, PCA's by an SVD of the training rows."""
    own = np.square((new - model.reconstruct(new)).astype(np.float64) / size).sum(axis=1)
    X, new = X.astype(np.float64) / size, new.astype(np.float64) / size
    mean = X.mean(axis=0)
    V = np.linalg.svd(X - mean, full_matrices=False)[2][:1]
    return own, np.square((new - mean) - (new - mean) @ V.T @ V).sum(axis=1)


def truths(model, X, size, draw) -> dict[str, bool]:
    """What is true of a sound model: on its rows, and (where it is not close) on so many fresh ones."""
    own, theirs = row_errors(model, X, X, size)
    found = {"attributes_sound": True, "statements_true": True}
    if abs(own.mean() / theirs.mean() - 1) > 1e-4:
        found["beats_pca"] = bool(own.mean() < theirs.mean())
    own, theirs = row_errors(model, X, (draw(FRESH) * size).astype(X.dtype), size)
    shares = (theirs - own) / (theirs + own)
    if abs(shares.mean()) > 5 * shares.std() / np.sqrt(FRESH):
        found["beats_pca_on_new_rows"] = bool(shares.mean() > 0)
    return found


def tampered(model: Autoencoder, change) -> Autoencoder:
    model = copy.deepcopy(model)
    with torch.no_grad():
        change(model)
    return model


def _wider(model: Autoencoder) -> None:
    model.n_components_ = 2


def _another_loss(model: Autoencoder) -> None:
    model.loss_ *= 1.01


def _spoilt(model: Autoencoder) -> None:
    model.module_.encoder[1].weight[0, 0] = np.nan


def _another_decoder(model: Autoencoder) -> None:
    model.module_.decoder[-1].bias.add_(0.3)


@problems(seeds=16, quick=1)
def shapes(seed):
    """Curves are told by one number, lines no better than by PCA; after one epoch nothing is."""
    size, dtype = SIZES[seed % 4]
    rng = np.random.default_rng(seed)
    turn = np.linalg.qr(rng.normal(size=(5, 5)))[0]
    for shape in (curve, line):
        X = (shape(rng, 200, turn) * size).astype(dtype)
        test = (shape(rng, 400, turn) * size).astype(dtype)
        for epochs in (1, 40):
            model = fitted(X, seed, max_iter=epochs)
            found = truths(model, X, size, lambda n, shape=shape: shape(rng, n, turn))
            sure = ["attributes_sound", "statements_true", "beats_pca"] if shape is curve or epochs == 1 else []  # fmt: skip
            if shape is curve and epochs > 1:
                sure.append("beats_pca_on_new_rows")
            certificate = model.certify(X, X_test=test, seconds=60)
            yield Case(f"{shape.__name__}, {epochs} epochs", certificate, found, easy=sure)
    X = (curve(rng, 200, turn) * size).astype(dtype)
    model = fitted(X, seed, max_iter=10)
    for label, change, wrong in (
        ("wider", _wider, {"attributes_sound": False}),
        ("a NaN", _spoilt, {"attributes_sound": False}),
        ("another loss", _another_loss, {"attributes_sound": True, "statements_true": False}),
        ("another decoder", _another_decoder, {"attributes_sound": True, "statements_true": False}),
    ):
        yield Case(label, tampered(model, change).certify(X), wrong, easy=wrong)


@problems(seeds=12, quick=1)
def by_heart(seed):
    """Few rows of noise, learnt by heart: better than PCA on them, worse on others."""
    rng = np.random.default_rng(seed)
    X, test = noise(rng, 16, np.eye(6)), noise(rng, 400, np.eye(6))
    model = fitted(X, seed, layers=(48, 48), max_iter=150, batch_size=16)
    found = truths(model, X, 1.0, lambda n: noise(rng, n, np.eye(6)))
    yield Case("by heart", model.certify(X, X_test=test, seconds=60), found, easy=("beats_pca",))
    linear = fitted(X, seed, layers=(), activation="identity", max_iter=100, batch_size=16)
    found = truths(linear, X, 1.0, lambda n: noise(rng, n, np.eye(6)))
    yield Case("linear", linear.certify(X, X_test=test, seconds=60), {**found, "beats_pca": False})
