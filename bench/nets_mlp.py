"""MLPClassifier beside scikit-learn's at equal work: the same rows, sizes, batches and epochs.

./run py -m bench.nets_mlp            some three minutes; Fashion-MNIST from the shared data where it is there
./run py -m bench.nets_mlp init       how first weights predict: He's, Xavier's, scikit-learn's; a minute

Our epoch ends with the objective at its own weights, a forward pass more than scikit-learn's running mean; both are timed with
what they do. The quality is the accuracy on rows not trained on.
"""

from __future__ import annotations

import sys
from functools import partial
from itertools import product
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_wine
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier as Theirs
from sklearn.neural_network import MLPRegressor as TheirRegressor
from sklearn.preprocessing import StandardScaler

import lemmata
from bench.helpers.harness import compare, machine, run_quietly
from lemmata.data.locate import DataNotFound
from lemmata.nets.mlp.estimators import MLPClassifier, MLPRegressor


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
    settings = {"hidden_layer_sizes": (256, 128), "max_iter": 4}
    for dtype in (np.float32, np.float64):
        X, unseen = train.X.astype(dtype), (test.X.astype(dtype), test.y)
        name = f"Fashion-MNIST 60,000 × 784, (256, 128), {np.dtype(dtype).name}"
        _row(name, settings, (X, train.y), unseen, rounds=2)


def first_weights() -> None:
    """He's and Xavier's first weights, and scikit-learn's: accuracy (or R²) on a quarter of the rows, mean of five seeds."""
    sets = {"digits": load_digits, "cancer": load_breast_cancer, "wine": load_wine, "diabetes": load_diabetes}  # fmt: skip
    print("layers  data      scaled   he      xavier  scikit-learn")
    for hidden, (name, load), scaled in product(((100,), (50,) * 4), sets.items(), (False, True)):
        X, y = load(return_X_y=True)
        X, y = X[:600], (y[:600] - y.mean()) / y.std() if name == "diabetes" else y[:600]
        X = StandardScaler().fit_transform(X) if scaled else X
        kinds = (MLPRegressor, TheirRegressor) if name == "diabetes" else (MLPClassifier, Theirs)
        makers = [partial(kinds[0], init="he"), partial(kinds[0], init="xavier"), kinds[1]]
        means = [_mean_score(partial(make, hidden_layer_sizes=hidden), X, y) for make in makers]
        print(f"{len(hidden)}       {name:<10}{scaled!s:<6}" + "".join(f"{one:8.3f}" for one in means), flush=True)  # fmt: skip


def _mean_score(make: Any, X: Any, y: Any) -> float:
    scores = []
    for seed in range(5):
        train, test, known, asked = train_test_split(X, y, random_state=seed)
        model = run_quietly(lambda: make(random_state=seed).fit(train, known))  # noqa: B023
        scores.append(model.score(test, asked))
    return float(np.mean(scores))


def main() -> None:
    if sys.argv[1:] == ["init"]:
        with lemmata.config(certificate=False):
            first_weights()
        return
    machine()
    digits()
    clothes()


if __name__ == "__main__":
    main()
