"""Networks whose accuracy, calibration and gain over a line are formulas, on rows drawn from the law that they speak of."""

from __future__ import annotations

import warnings
from types import SimpleNamespace

import numpy as np
import torch
from scipy.special import expit, ndtr
from torch import nn

from lemmata.audit.nets.modules import Examples
from lemmata.audit.nets.unseen import (
    beats_linear,
    beats_ridge,
    calibrated,
    held_out_accuracy,
    held_out_error,
)
from lemmata.core.certificate import Certificate, Fit
from lemmata.core.certification.checking import check
from lemmata.nets import NeuralClassifier, NeuralRegressor
from truth.harness import Case, problems


def judged(net, train, test, *claims) -> Certificate:
    X, y = (torch.from_numpy(part) if i == 0 else part for i, part in enumerate(train))
    attributes = {
        "module_": net,
        "X_test": Examples((torch.from_numpy(test[0]),)),
        "y_test": test[1],
    }
    fit = Fit(SimpleNamespace(), Examples((X,)), y, attributes=attributes)
    return check(claims, fit, f"torch {type(net).__name__}")


def line(weight, bias=0.0) -> nn.Linear:
    """Two outputs, whose difference is wᵀx + b."""
    net = nn.Linear(len(weight), 2).double()
    with torch.no_grad():
        net.weight.copy_(torch.tensor(np.stack([np.zeros_like(weight), weight])))
        net.bias.copy_(torch.tensor([0.0, bias]))
    return net


def gaussians(n: int, rng) -> tuple[np.ndarray, np.ndarray]:
    """Two classes at ±1 of the first of two columns: the line at 0 is right with probability Φ(1) = 0.84."""
    y = rng.integers(0, 2, n)
    return rng.standard_normal((n, 2)) + np.outer(2 * y - 1, [1.0, 0.0]), y


@problems(seeds=200, quick=2)
def accuracies(seed):
    """Lines that are right 0.84 of the time, that see nothing, or that are turned round; few rows, and many."""
    rng = np.random.default_rng(seed)
    train, test = gaussians(60, rng), gaussians((25, 120, 500)[seed % 3], rng)
    name = "held_out_accuracy"
    many = (name,) if len(test[1]) > 100 else ()
    for label, weight, truth in (
        ("right", [1.0, 0.0], True),
        ("blind", [0.0, 1.0], False),
        ("turned round", [-1.0, 0.0], False),
    ):
        found = judged(line(np.array(weight)), train, test, held_out_accuracy)
        yield Case(label, found, {name: truth}, easy=() if label == "blind" else many)


class Lookup(nn.Module):
    """Knows its training rows by heart, and says of a row what the nearest of them was."""

    def __init__(self, X, y):
        super().__init__()
        self.rows, self.labels = torch.from_numpy(X), torch.from_numpy(y)
        self.scale = nn.Parameter(torch.tensor(4.0, dtype=torch.float64))

    def forward(self, x):
        nearest = torch.cdist(x, self.rows).argmin(1)
        return self.scale * nn.functional.one_hot(self.labels[nearest], 2)


@problems(seeds=40, quick=1)
def disguises(seed):
    """Coin flips, known by heart: tested on training rows that were rounded, moved or jittered, and on others."""
    rng = np.random.default_rng(seed)
    n, d = (100, 400)[seed % 2], (2, 5, 20)[seed % 3]
    X, y = rng.standard_normal((n, d)), rng.integers(0, 2, n)
    net, name = Lookup(X, y), "held_out_accuracy"
    new = rng.standard_normal((n, d)), rng.integers(0, 2, n)
    half = X[: n // 2]
    for label, rows in (
        ("six decimals", X.round(6)),
        ("moved by 1e-12", half + 1e-12),
        ("jitter", half + 1e-3 * rng.standard_normal(half.shape)),
    ):
        found = judged(net, (X, y), (rows, y[: len(rows)]), held_out_accuracy)
        yield Case(label, found, {name: False})
    yield Case("new", judged(net, (X, y), new, held_out_accuracy), {name: False})


def true_gaps(temperature: float) -> np.ndarray:
    """|E(hit − confidence | bin)| by integration, for logits z ~ N(0, 2²) and outputs z/temperature; with each bin's share."""
    z = np.linspace(-16, 16, 400_001)
    density = np.exp(-(z**2) / 8)
    says, right = expit(np.abs(z) / temperature), expit(np.abs(z))
    bins = np.minimum((says * 10).astype(int), 9)
    mass = np.bincount(bins, density, 10)
    gaps = np.bincount(bins, density * (right - says), 10) / np.where(mass > 0, mass, 1)
    return np.stack([np.abs(gaps), mass / mass.sum()])


@problems(seeds=60, quick=1)
def temperatures(seed):
    """Logits that are those of the law, flattened (the confidence is too low), and sharpened (it is too high)."""
    rng = np.random.default_rng(seed)
    name = "calibrated"

    def draw(n):
        X = 2 * rng.standard_normal((n, 1))
        return X, (rng.random(n) < expit(X[:, 0])).astype(int)

    train = draw(50)
    for temperature, n in ((1.0, 6000), (1.0, 300), (4.0, 3000), (0.3, 3000), (1.3, 1500)):
        gaps, shares = true_gaps(temperature)
        truth = bool(gaps[shares > 0.07].max() <= 0.1)
        found = judged(line(np.array([1 / temperature])), train, draw(n), calibrated)
        decided = n == 6000 or temperature in (4.0, 0.3)
        yield Case(f"{temperature}, {n}", found, {name: truth}, easy=(name,) if decided else ())


class Corner(nn.Module):
    """x₁x₂ > 0: what no line can tell. With flips, it is right with probability 1 − flips."""

    def forward(self, x):
        z = 20 * x[:, 0] * x[:, 1]
        return torch.stack([-z, z], 1)


@problems(seeds=60, quick=1)
def lines(seed):
    """Corners, which lines guess at; the best line, which is a line; a network that is worse than one."""
    rng = np.random.default_rng(seed)
    name = "beats_linear"

    def corners(n):
        X = rng.standard_normal((n, 2))
        return X, ((X[:, 0] * X[:, 1] > 0) ^ (rng.random(n) < 0.1)).astype(int)

    found = judged(Corner(), corners(300), corners(400), beats_linear)
    yield Case("corner", found, {name: True}, easy=(name,))
    train, test = gaussians(2000, rng), gaussians(3000, rng)
    found = judged(line(np.array([1.0, 0.0])), train, test, beats_linear)
    yield Case("the best line", found, {name: False})
    tilted = line(np.array([1.0, 2.0]))  # Φ(1/√5) = 0.67
    assert ndtr(1 / 5**0.5) < ndtr(1) - 0.1
    yield Case("a worse line", judged(tilted, train, test, beats_linear), {name: False}, easy=(name,))  # fmt: skip


class Number(nn.Module):
    """a·x₁² + b·x₁: what the law is, or not."""

    def __init__(self, square, slope):
        super().__init__()
        self.square, self.slope = nn.Parameter(torch.tensor(square)), nn.Parameter(torch.tensor(slope))  # fmt: skip

    def forward(self, x):
        return (self.square * x[:, :1] ** 2 + self.slope * x[:, :1]).double()


@problems(seeds=60, quick=1)
def numbers(seed):
    """A parabola with noise, and a slope with noise: predicted by the law itself, by a slope, by nothing, and upside down."""
    rng = np.random.default_rng(seed)

    def draw(n, square):
        X = rng.standard_normal((n, 2))
        law = X[:, 0] ** 2 if square else X[:, 0]
        return X, law + 0.5 * rng.standard_normal(n)

    new, gain = "held_out_error", "beats_ridge"
    cases = (
        ("the law", True, (1.0, 0.0), True, True),
        ("upside down", True, (-1.0, 0.0), False, False),
        ("zero", False, (0.0, 0.0), False, False),
        ("the slope", False, (0.0, 1.0), True, False),
        ("half the slope", False, (0.0, 0.5), True, False),
    )
    for label, square, (a, b), better, worth in cases:
        train, test = draw(400, square), draw(800, square)
        found = judged(Number(a, b), train, test, held_out_error, beats_ridge)
        sure = label in ("the law", "upside down")
        yield Case(label, found, {new: better, gain: worth}, easy=(new, gain) if sure else ())


def _quiet_fit(model, X, y, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(X, y, **options)


@problems(seeds=30, quick=1)
def stated(seed):
    """Fits that learnt something, whose weights are then put upside down; losses stated wrong; weights that are NaN."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((120, 3))
    numbers = seed % 2 == 1
    y = X[:, 0] if numbers else (X[:, 0] + 0.3 * rng.standard_normal(120) > 0).astype(int)
    weights = rng.uniform(0.5, 2.0, 120) if seed % 3 == 0 else None
    kind = NeuralRegressor if numbers else NeuralClassifier
    settings = {"max_iter": 25, "learning_rate": 0.02, "batch_size": 32, "net__widths": (8,)}
    model = _quiet_fit(kind(random_state=seed, **settings), X, y, sample_weight=weights)
    yes = {"attributes_sound": True, "statements_true": True, "beats_constant": True}
    found = model.certify(X, y, weights)
    yield Case("as it is", found, yes, easy=yes)
    told = model.loss_
    model.loss_ = told * 1.01
    found = model.certify(X, y, weights)
    yield Case("another loss_", found, {"statements_true": False}, easy=("statements_true",))
    model.loss_ = told
    last = [layer for layer in model.module_.modules() if isinstance(layer, nn.Linear)][-1]
    with torch.no_grad():
        last.weight.mul_(-3)
    no = {"statements_true": False, "beats_constant": False}
    yield Case("upside down", model.certify(X, y, weights), no, easy=no)
    with torch.no_grad():
        last.weight[0, 0] = torch.nan
    yield Case("NaN", model.certify(X, y, weights), {"attributes_sound": False})


@problems(seeds=60, quick=1)
def early_stops(seed):
    """Labels that nothing can predict: the best of thirty epochs on 25 rows looks better than guessing, and is not. Then a
    score, and a loss of the history, that are told better than they were."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((250, 4))
    noise, real = rng.integers(0, 2, 250), (X[:, 0] > 0).astype(int)
    for label, y, truth in (("noise", noise, False), ("a line", real, True)):
        model = NeuralClassifier(
            max_iter=30, learning_rate=0.02, net__widths=(16,), early_stopping=True, n_iter_no_change=30,
            random_state=seed,
        )  # fmt: skip
        model = _quiet_fit(model, X, y)
        true = "statements_true"
        known = {"held_out_accuracy": truth, true: True}
        yield Case(label, model.certificate_, known, easy=(true,))
    told = model.best_validation_score_
    model.best_validation_score_ = told - 0.04  # one row of 25
    yield Case("another score", model.certify(X, y, seconds=1), {true: False}, easy=(true,))
    model.best_validation_score_ = told
    best = int(model.history_["validation_loss"].argmin())
    model.trace_._extras["validation_loss"][best] *= 0.99
    yield Case("another history", model.certify(X, y, seconds=1), {true: False}, easy=(true,))
