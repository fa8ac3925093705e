"""Networks as estimators. Truth: the loss of their outputs by torch and scikit-learn; altered weights."""

from __future__ import annotations

import copy
from collections.abc import Iterator

import numpy as np
from sklearn.metrics import mean_squared_error

from truth.harness import Case, problems


def rows(seed: int, n: int = 90) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows, a class that they tell, a number that they tell."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4)).astype(np.float32)
    return X, (X[:, 0] + X[:, 1] > 0.3).astype(int), (X @ np.arange(4.0)).astype(np.float32)


def log_loss(model, X, y, weights) -> float:
    """Of the outputs, since a probability of a network that is sure of itself is 0 or 1."""
    import torch
    from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

    with torch.no_grad():
        out, labels = model.module_(torch.from_numpy(X)).double(), torch.from_numpy(y)
        if out.shape[1] == 1:
            losses = binary_cross_entropy_with_logits(out[:, 0], labels.double(), reduction="none")
        else:
            losses = cross_entropy(out, labels, reduction="none")
    return float(np.average(losses.numpy(), weights=weights))


def shaken(model, factor: float):
    """The same estimator with its last layer turned round or blown up."""
    import torch

    other = copy.copy(model)
    other.module_ = copy.deepcopy(model.module_)
    with torch.no_grad():
        for tensor in list(other.module_.parameters())[-2:]:
            tensor.mul_(factor)
    return other


@problems(seeds=10, quick=1)
def classifiers(seed: int) -> Iterator[Case]:
    from lemmata.nets import NeuralClassifier

    X, y, _ = rows(seed)
    weights = np.random.default_rng(seed).uniform(0.5, 2.0, len(X))
    for label, weight in (("plain", None), ("weighted", weights)):
        shares = np.bincount(y, weight) / np.bincount(y, weight).sum()
        constant = float(-(shares * np.log(shares)).sum())
        model = NeuralClassifier(max_iter=15, learning_rate=0.02, random_state=seed)
        model.fit(X, y, sample_weight=weight)
        for what, factor in (
            ("trained", 1.0),
            ("upside down", -1.0),
            ("silent", 0.0),
            ("sure of itself", 60.0),
        ):
            one = model if factor == 1 else shaken(model, factor)
            loss = log_loss(one, X, y, weight)
            truth = {"statements_true": factor == 1, "attributes_sound": True}
            easy = ["statements_true", "attributes_sound"]
            if abs(loss - constant) > 1e-4:
                truth["beats_constant"] = loss < constant
                easy.append("beats_constant")
            yield Case(f"{label}, {what}", one.certify(X, y, weight), truth, easy)


@problems(seeds=10, quick=1)
def regressors(seed: int) -> Iterator[Case]:
    from lemmata.nets import NeuralRegressor

    X, _, y = rows(seed)
    model = NeuralRegressor(max_iter=20, learning_rate=0.02, random_state=seed).fit(X, y)
    constant = float(np.var(y.astype(float)))
    for what, factor in (("trained", 1.0), ("upside down", -1.0), ("blown up", 5.0)):
        one = model if factor == 1 else shaken(model, factor)
        loss = mean_squared_error(y.astype(float), one.predict(X).astype(float))
        truth = {"statements_true": factor == 1, "attributes_sound": True}
        if abs(loss / constant - 1) > 1e-4:
            truth["beats_constant"] = loss < constant
        yield Case(what, one.certify(X, y), truth, tuple(truth))
    broken = shaken(model, np.nan)
    yield Case(
        "NaN among the weights",
        broken.certify(X, y),
        {"attributes_sound": False},
        ("attributes_sound",),
    )
