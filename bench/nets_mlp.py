"""MLPClassifier beside scikit-learn's at equal work: the same rows, sizes, batches and epochs.

./run py -m bench.nets_mlp            some three minutes; Fashion-MNIST from the shared data where it is there

Our epoch ends with the objective at its own weights, a forward pass more than scikit-learn's running mean; both are timed with
what they do. The quality is the accuracy on rows not trained on.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.neural_network import MLPClassifier as Theirs

import lemmata
from bench.harness import compare, machine
from lemmata.data.locate import DataNotFound
from lemmata.nets.mlp_estimators import MLPClassifier


def _fit(kind: Any, settings: dict[str, Any], X: Any, y: Any) -> Any:
    with lemmata.config(certificate=False):
        model = kind(random_state=0, tol=0.0, n_iter_no_change=10_000, **settings).fit(X, y)
    assert model.n_iter_ == settings["max_iter"]
    return model


def _row(name: str, settings: dict[str, Any], train: Any, test: Any, rounds: int) -> None:
    X, y = train
    epochs = settings["max_iter"]
    print(f"{name}: {epochs} epochs; divide the seconds by {epochs} for one")
    compare(
        name,
        {
            "lemmata": partial(_fit, MLPClassifier, settings, X, y),
            "scikit-learn": partial(_fit, Theirs, settings, X, y),
        },
        quality=lambda model: model.score(*test),
        target=1.0,
        rounds=rounds,
    )


def digits() -> None:
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(X))
    X, y = X[order] / 16, y[order]
    for solver in ("adam", "sgd"):
        settings = {"hidden_layer_sizes": (100,), "solver": solver, "max_iter": 40}
        _row(f"digits 1,797 × 64, (100,), {solver}", settings, (X, y), (X, y), rounds=5)
    for dtype in (np.float32,):
        settings = {"hidden_layer_sizes": (100,), "max_iter": 40}
        _row(
            "digits, float32, adam", settings, (X.astype(dtype), y), (X.astype(dtype), y), rounds=5
        )


def clothes() -> None:
    try:
        train, test = lemmata.data.fashion_mnist("train"), lemmata.data.fashion_mnist("test")
    except DataNotFound as missing:
        print(f"Fashion-MNIST is left out: {missing}")
        return
    settings = {"hidden_layer_sizes": (256, 128), "max_iter": 2}
    for dtype in (np.float32, np.float64):
        X, unseen = train.X.astype(dtype), (test.X.astype(dtype), test.y)
        name = f"Fashion-MNIST 60,000 × 784, (256, 128), {np.dtype(dtype).name}"
        _row(name, settings, (X, train.y), unseen, rounds=2)


def main() -> None:
    machine()
    digits()
    clothes()


if __name__ == "__main__":
    main()
