"""Small data, warm: what a fit of iris, wine or digits costs beside scikit-learn's, with and without the certificate.

./run bench small

Limits: 1.1 times scikit-learn's fit without the certificate (1.2 times for models that predict), 1.5 times and 2 ms more
with it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from sklearn import cluster, decomposition, kernel_ridge, linear_model, mixture, neighbors, svm
from sklearn.datasets import (
    load_breast_cancer,
    load_diabetes,
    load_digits,
    load_iris,
    load_wine,
)

import lemmata
from bench.helpers.harness import milliseconds, run_quietly

DATA = {"iris": (load_iris, 3), "wine": (load_wine, 3), "digits": (load_digits, 10)}
SEED = {"random_state": 0}
SEEDS = 8  # starts of what begins at random: seed 0 is another start here than there, and takes another number of steps
# name -> scikit-learn's module, the rest of the parameters, whether it begins at random
MODELS: dict[str, tuple[Any, dict[str, Any], bool]] = {
    "PCA": (decomposition, {}, False),
    "TruncatedSVD": (decomposition, {}, True),
    "IncrementalPCA": (decomposition, {}, False),
    "KernelPCA": (decomposition, {"kernel": "rbf"}, False),
    "KMeans": (cluster, {}, True),
    "MiniBatchKMeans": (cluster, {}, True),
    "GaussianMixture": (mixture, {}, True),
}


CLASSES = {"iris": load_iris, "wine": load_wine, "breast cancer": load_breast_cancer}
NUMBERS = {"diabetes": load_diabetes}
# name -> scikit-learn's module, parameters; fitted to standardised columns, where a peer's solver settles as well
CLASSIFIERS: dict[str, tuple[Any, dict[str, Any]]] = {
    "LogisticRegression": (linear_model, {}),
    "LinearSVC": (svm, {**SEED, "dual": "auto"}),
    "SVC": (svm, {}),
    "KNeighborsClassifier": (neighbors, {}),
}
REGRESSORS: dict[str, tuple[Any, dict[str, Any]]] = {
    "LinearRegression": (linear_model, {}),
    "Ridge": (linear_model, {}),
    "RidgeCV": (linear_model, {}),
    "Lasso": (linear_model, {"alpha": 0.5}),
    "LassoCV": (linear_model, {}),
    "ElasticNet": (linear_model, {"alpha": 0.5}),
    "SVR": (svm, {}),
    "KernelRidge": (kernel_ridge, {"kernel": "rbf"}),
    "KNeighborsRegressor": (neighbors, {}),
}


Fits = Callable[[], list[Any]]  # unfitted models, of which a row shows the mean time


def row(name: str, data: tuple[Any, ...], ours: Fits, theirs: Fits, most: float = 1.1) -> str:
    """One line of the table: the peer, ours without the certificate, ours with it."""

    def fit(models: Fits) -> None:
        for model in models():
            model.fit(*data)

    def bare() -> None:
        with lemmata.config(certificate=False):
            fit(ours)

    times = run_quietly(
        lambda: milliseconds(
            {"peer": partial(fit, theirs), "bare": bare, "ours": partial(fit, ours)}
        )
    )
    t = {key: value / len(ours()) for key, value in times.items()}
    ratio, limit = t["bare"] / t["peer"], 1.5 * t["peer"] + 2
    over = "" if ratio <= most and t["ours"] <= limit else "   over"
    peer, bare_ms, ours_ms = (f"{t[one]:7.2f} ms" for one in ("peer", "bare", "ours"))
    return f"  {name:26}{peer}{bare_ms}{ratio:7.2f}x {ours_ms}{limit:6.2f} ms{over}"


def seeded(make: Callable[..., Any], k: int, parameters: dict[str, Any], random: bool) -> list[Any]:
    """A model for every seed, or the one that needs none."""
    if not random:
        return [make(k, **parameters)]
    return [make(k, random_state=seed, **parameters) for seed in range(SEEDS)]


def main() -> None:
    print(
        "small fits, warm, the best of one second; limits 1.1x, and 1.5x + 2 ms with the certificate"
    )
    print(f"what begins at random: the mean of {SEEDS} seeds")
    print(f"  {'':26}{'sklearn':>10}{'lemmata':>10}{'ratio':>8}{'certified':>11}{'limit':>9}")
    for model, (module, parameters, random) in MODELS.items():
        for name, (load, k) in DATA.items():
            ours, theirs = (
                partial(seeded, getattr(home, model), k, parameters, random)
                for home in (lemmata, module)
            )
            print(row(f"{model} {name}", (load().data,), ours, theirs), flush=True)
    print(flush=True)
    supervised()


def supervised() -> None:
    print("the same of models that predict, on standardised columns; limit 1.2x")
    for sets, models in ((CLASSES, CLASSIFIERS), (NUMBERS, REGRESSORS)):
        for model, (module, parameters) in models.items():
            mine, peers = (
                partial(getattr(home, model), **parameters) for home in (lemmata, module)
            )
            ours, theirs = (lambda: [mine()]), (lambda: [peers()])  # noqa: B023
            for name, load in sets.items():
                X, y = load(return_X_y=True)
                X = (X - X.mean(axis=0)) / X.std(axis=0)
                print(row(f"{model} {name}", (X, y), ours, theirs, most=1.2), flush=True)
    print(flush=True)
