"""Training, drawn: what a schedule and a running mean of the weights do about the noise of batches."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from lemmata.atlas import entry, show
from lemmata.atlas.nets.attention import one_torch_thread
from lemmata.core.certification.pictures import BLUE, GREEN, GREY, ORANGE, figure

EPOCHS, BATCH, RATE = 16, 16, 0.3
RUNS: dict[str, tuple[dict[str, Any], str]] = {
    "constant": ({}, GREY),
    "step": ({"schedule": "step"}, GREEN),
    "cosine after a warm-up": ({"schedule": "cosine", "warmup": 0.1}, BLUE),
    "constant, running mean of weights": ({"ema": 0.99}, ORANGE),
}


@cache
def digits() -> tuple[Any, Any]:
    """Inputs and labels to learn from, and those to look at."""
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(X))
    X, y = X[order] / 16, y[order]
    return (X[:800], y[:800]), (X[800:], y[800:])


@cache
def runs(seed: int = 0) -> dict[str, Any]:
    """The same network from the same weights, batches in the same order."""
    from lemmata.nets.estimators.networks import FeedForward
    from lemmata.nets.training import Training, train

    learn, look = digits()
    found = {}
    with one_torch_thread():
        for name, (options, _) in RUNS.items():
            training = Training(
                lambda: FeedForward((64,), 10, widths=(32,)), "cross_entropy", optimizer="sgd",
                learning_rate=RATE, batch_size=BATCH, epochs=EPOCHS, device="cpu", **options,
            )  # fmt: skip
            found[name] = train(training, learn, epochs=EPOCHS, validation=look, rng=seed).trace
    return found


@entry("schedules", 'CIL 4.3; ML "Optimization"')
def schedules(seed: int = 0):
    """A rate that falls, or a mean of weights, settles what batches shake.

    The same perceptron on 800 digits, from the same weights, with batches of 16 in the same order. At a constant
    rate the loss on other digits keeps trembling: each batch pulls elsewhere, and the steps stay long. Steps that
    shorten end the trembling; so does a running mean of the weights, at the same long steps. Left: the rate of the last
    update of each epoch."""
    traces = runs(seed)
    fig, (left, right) = figure(1, 2, size=(4.5, 3.4))
    late = {}
    for name, (_, colour) in RUNS.items():
        trace = traces[name]
        epochs, losses = trace.step[1:], trace.extras["validation_loss"][1:]
        style = "--" if "mean" in name else "-"
        left.plot(epochs, trace.extras["rate"][1:], style, color=colour)
        right.plot(epochs, losses, style, color=colour, label=name)
        late[name] = np.diff(losses[-6:]).std()
    left.set(xlabel="epoch", ylabel="learning rate")
    right.set(xlabel="epoch", ylabel="loss on other digits", yscale="log")
    right.legend()
    shaken = late["constant"]
    for name in list(RUNS)[1:]:
        show(
            late[name] < 0.5 * shaken,
            f"{name}: from epoch to epoch the loss moves less than half as much as at a constant "
            "rate",
        )
    return fig
