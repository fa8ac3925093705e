"""The non-linear autoencoder for the common suite: its loss recomputed by plain NumPy from the arrays of a state."""

from __future__ import annotations

import numpy as np

from lemmata.nets import Rows, Training


def net():
    from lemmata.nets import AutoencoderNet

    return AutoencoderNet((6,), 2, layers=(5,), activation="tanh")


def training():
    from lemmata.nets import Reconstruction

    return Training(net, Reconstruction(), batch_size=16, measure="evaluated")


def rows(dtype=np.float64):
    t = np.random.default_rng(0).normal(size=(40, 6))
    t[:, 3:] = np.sin(t[:, :3])  # on a curved surface
    return Rows(t.astype(dtype))


def endless():
    """Numbers whose squares are infinite."""
    return Rows(rows().parts[0].numpy() * 1e200)


def loss(state, data):
    model = {name: array.astype(float) for name, array in state.model.items()}
    X = (data.parts[0].numpy().astype(float) - model["mean"]) / model["scale"]

    def through(half, A, first):
        for place in (first, first + 2):
            A = A @ model[f"{half}.{place}.weight"].T + model[f"{half}.{place}.bias"]
            A = np.tanh(A) if place == first else A
        return A

    again = through("decoder", through("encoder", X, 1), 0)
    return float(np.square(again - X).mean())


AUTOENCODERS = [("training of an autoencoder", training, rows, endless, loss, {})]
