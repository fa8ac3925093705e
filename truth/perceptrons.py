"""Perceptrons, ours and scikit-learn's: trained, stopped early, changed, with units that are dead.

What is true is found out apart from the claims: units by looking at their largest output, what is left to gain by some hundred
further steps of L-BFGS, on an objective written out here, from the weights of the fit.
"""

from __future__ import annotations

import copy
import warnings

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, logsumexp, softmax
from sklearn import neural_network

import lemmata
from truth.harness import Case, problems

MUCH, LITTLE = 0.1, 0.005  # of what a constant prediction costs: left to gain, or not


def quiet(model, X, y):
    with warnings.catch_warnings(), lemmata.config(certificate=False):
        warnings.simplefilter("ignore")
        return model.fit(X, y)


def changed(model, **attributes):
    other = copy.deepcopy(model)
    for name, value in attributes.items():
        setattr(other, name, value)
    return other


def rows(seed, classes):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(150, 5)) * np.array([1.0, 1.0, 1.0, 3.0, 0.3])
    bend = X[:, 0] * X[:, 1] + np.sin(2 * X[:, 2]) + 0.3 * rng.normal(size=150)
    if classes == 0:
        return X, bend
    return X, np.digitize(bend, np.quantile(bend, np.arange(1, classes) / classes))


class Objective:
    """F of a fit: tanh or ReLU, squared, logistic or softmax, and the ridge that its batches add up to."""

    def __init__(self, model, X, y):
        self.shapes = [part.shape for part in (*model.coefs_, *model.intercepts_)]
        self.X, self.y, self.relu = np.float64(X), y, model.activation == "relu"
        self.kind = model.out_activation_
        size = len(X) if model.solver == "lbfgs" else min(200, len(X))
        self.ridge = model.alpha * -(-len(X) // size)
        self.start = np.concatenate(
            [np.ravel(p) for p in (*model.coefs_, *model.intercepts_)]
        ).astype(float)

    def parts(self, theta):
        ends = np.cumsum([int(np.prod(shape)) for shape in self.shapes])
        return [p.reshape(s) for p, s in zip(np.split(theta, ends[:-1]), self.shapes, strict=True)]

    def outputs(self, theta):
        """Every layer's."""
        parts, L, found = self.parts(theta), len(self.shapes) // 2, [self.X]
        for k in range(L):
            z = found[-1] @ parts[k] + parts[L + k]
            found.append(z if k == L - 1 else np.maximum(z, 0) if self.relu else np.tanh(z))
        return found

    def __call__(self, theta):
        """F and its gradient."""
        layers, parts, L, n = (
            self.outputs(theta),
            self.parts(theta),
            len(self.shapes) // 2,
            len(self.X),
        )
        f = layers[-1]
        if self.kind == "identity":
            total, delta = 0.5 * ((f[:, 0] - self.y) ** 2).sum(), f - self.y[:, None]
        elif self.kind == "logistic":
            sign = np.where(self.y == 1, -1, 1)[:, None]
            total, delta = np.logaddexp(0, sign * f).sum(), sign * expit(sign * f)
        else:
            total = (logsumexp(f, axis=1) - f[np.arange(n), self.y]).sum()
            delta = softmax(f, axis=1) - np.eye(f.shape[1])[self.y]
        slopes = [np.zeros(0)] * (2 * L)
        for k in range(L - 1, -1, -1):
            slopes[k], slopes[L + k] = (
                layers[k].T @ delta + self.ridge * parts[k],
                delta.sum(axis=0),
            )
            bend = (layers[k] > 0) if self.relu else 1 - layers[k] ** 2
            delta = (delta @ parts[k].T) * bend
        penalty = 0.5 * self.ridge * sum((w**2).sum() for w in parts[:L])
        return (total + penalty) / n, np.concatenate([np.ravel(one) for one in slopes]) / n

    def constant(self):
        if self.kind == "identity":
            return 0.5 * self.y.var()
        shares = np.bincount(self.y) / len(self.y)
        return -(shares * np.log(shares)).sum()

    def beats_constant(self):
        """Whether the loss, without the ridge, is below that of a constant."""
        size = sum((w**2).sum() for w in self.parts(self.start)[: len(self.shapes) // 2])
        return self(self.start)[0] - 0.5 * self.ridge * size / len(self.X) < self.constant()

    def left_to_gain(self):
        """By 500 further steps, as a share of what a constant costs."""
        found = minimize(self, self.start, jac=True, method="L-BFGS-B", options={"maxiter": 500})
        return (self(self.start)[0] - found.fun) / self.constant()

    def dead(self):
        """How many hidden units say the same of every row."""
        return sum(int((np.ptp(h, axis=0) == 0).sum()) for h in self.outputs(self.start)[1:-1])


def trainings(seed, classes):
    """(label, model) of both libraries: to the end, and not."""
    kind = "Classifier" if classes else "Regressor"
    activation, hidden = ("tanh", "relu")[seed % 2], ((6,), (5, 4))[seed // 2 % 2]
    shared = {
        "activation": activation,
        "hidden_layer_sizes": hidden,
        "alpha": 0.1,
        "random_state": seed,
    }
    for library, module in (("ours", lemmata), ("scikit-learn", neural_network)):
        make = getattr(module, f"MLP{kind}")
        yield f"{library}, lbfgs", make(**shared, solver="lbfgs", max_iter=3000, tol=1e-6)
        yield f"{library}, lbfgs, 2 steps", make(**shared, solver="lbfgs", max_iter=2)
        yield f"{library}, adam", make(**shared, learning_rate_init=0.02, max_iter=600)
        yield f"{library}, adam, 2 epochs", make(**shared, max_iter=2)


@problems(seeds=16)
def trained_and_not(seed):
    """What further steps would gain, and whether loss_ is that of the weights."""
    classes = (0, 2, 3)[seed % 3]
    X, y = rows(seed, classes)
    X = X.astype(np.float32) if seed % 4 == 3 else X
    for label, model in trainings(seed, classes):
        model = quiet(model, X, y)
        objective = Objective(model, X, y)
        gain, truths = objective.left_to_gain(), {"attributes_sound": True}
        if gain < LITTLE or (gain > MUCH and "2 " in label):
            truths["little_to_gain"] = gain < LITTLE
        states = (
            "ours" in label or "lbfgs" in label
        )  # scikit-learn's adam states a mean over an epoch
        if states:
            truths["statements_true"] = True
        truths["units_alive"] = objective.dead() == 0
        truths["beats_constant"] = objective.beats_constant()
        yield Case(label, lemmata.certify(model, X, y), truths, easy=truths)
        if states:
            other = changed(model, loss_=model.loss_ * 1.01)
            yield Case(
                f"{label}, loss_ 1 % more", lemmata.certify(other, X, y), {"statements_true": False}
            )
            k = seed % len(model.coefs_)
            coefs = [part * (1 + 0.3 * (j == k)) for j, part in enumerate(model.coefs_)]
            other = changed(model, coefs_=[part.astype(X.dtype) for part in coefs])
            yield Case(
                f"{label}, layer {k + 1} changed",
                lemmata.certify(other, X, y),
                {"statements_true": False},
            )
        others = np.random.default_rng(seed).permutation(
            y
        )  # targets that the rows tell nothing about
        truths = {"beats_constant": Objective(model, X, others).beats_constant()}
        yield Case(
            f"{label}, others' targets", lemmata.certify(model, X, others), truths, easy=truths
        )
        broken = changed(model, coefs_=[part * np.nan for part in model.coefs_])
        yield Case(f"{label}, NaN", lemmata.certify(broken, X, y), {"attributes_sound": False})
        short = changed(model, intercepts_=[part[:-1] for part in model.intercepts_])
        yield Case(
            f"{label}, biases lost", lemmata.certify(short, X, y), {"attributes_sound": False}
        )


@problems(seeds=20, quick=2)
def dead_units(seed):
    """Biases of −1000 on some units, saturated tanh, and nets whose units all work."""
    rng = np.random.default_rng(seed)
    classes = (0, 2, 3)[seed % 3]
    X, y = rows(100 + seed, classes)
    activation = ("relu", "tanh")[seed // 3 % 2]
    kind = "Classifier" if classes else "Regressor"
    for library, module in (("ours", lemmata), ("scikit-learn", neural_network)):
        make = getattr(module, f"MLP{kind}")
        model = (
            make((6, 5), activation)
            if classes
            else make(hidden_layer_sizes=(6, 5), activation=activation)
        )
        model = quiet(model.set_params(max_iter=20, random_state=seed), X, y)
        for killed in (0, 1, 3):
            biases = [part.copy() for part in model.intercepts_]
            k = int(rng.integers(2))
            biases[k][rng.choice(len(biases[k]), killed, replace=False)] = -1000.0
            other = changed(model, intercepts_=biases)
            truths = {"units_alive": Objective(other, X, y).dead() == 0}
            yield Case(
                f"{library}, {activation}, {killed} killed",
                lemmata.certify(other, X, y),
                truths,
                easy=truths,
            )
