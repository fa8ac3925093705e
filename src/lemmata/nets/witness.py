"""Searches for witnesses of claims about networks: better weights, and a linear model to compare with.

The results are checked in audit/nets and never believed: an objective is recomputed at the weights, a line's
predictions are computed from its coefficients.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np
from scipy.optimize import minimize

from lemmata.audit.kernel.claims import Fit
from lemmata.audit.nets import mlp
from lemmata.nets.mlp.network import MLP

Array = np.ndarray

LOSSES = {"identity": "squared", "exp": "poisson", "logistic": "logistic", "softmax": "softmax"}


def better_network_weights(fit: Fit, steps: int, powers: list[Array]) -> list[Array]:
    """Return the best Θ₁ … Θ_L, b₁ … b_L seen by L-BFGS from those of a perceptron.

    powers : the mean square of every input of every layer. Weights are measured by what they multiply, so that units do not
        matter.
    """
    theta, L = mlp.parameters_of(fit), len(powers)
    net = MLP((len(theta[0]), *map(len, theta[L:])), fit.activation, LOSSES[fit.out_activation_])
    scale = [np.sqrt(np.where(power > 0, power, 1.0))[:, None] for power in powers]
    scale += [np.ones(1)] * L
    units = _join(np.broadcast_to(u, part.shape) for u, part in zip(scale, theta, strict=True))
    y, mask = mlp.targets_of(fit), mlp.training_mask(fit)
    share, ridge = mlp.weights_of(fit) * mask, mlp.ridge_of(fit, mask)
    best, least = _join(theta), np.inf

    def function(v: Array) -> tuple[float, Array]:
        nonlocal best, least
        at, value, slopes, start = v / units, 0.0, np.zeros_like(v), 0
        for rows in mlp.pieces(fit.data):
            s, targets = share[start:][: rows.shape[0]], y[start:][: rows.shape[0]]
            start += rows.shape[0]
            part = float(s.sum() / share.sum())  # of the rows, and of the penalty
            if part > 0:
                found = net.value_and_gradient(at, rows, targets, s, part * ridge)
                value, slopes = value + part * found[0], slopes + part * found[1]
        if value < least:
            best, least = at, value
        return value, slopes / units

    options = {"maxiter": steps, "maxfun": 2 * steps}
    with np.errstate(over="ignore", invalid="ignore"):
        minimize(function, best * units, jac=True, method="L-BFGS-B", options=options)
    weights, biases = net.layers(best)
    return [*weights, *biases]


def _join(parts: Iterable[Array]) -> Array:
    return np.concatenate([part.ravel() for part in parts])


def linear_baseline(
    fit: Fit, kind: str, X: Array, y: Array, weights: Array | None
) -> tuple[Array, Array]:
    """Return W (d, k) and b of scikit-learn's "logistic" or "ridge" regression; the fit need not converge."""
    from sklearn.linear_model import LogisticRegression, Ridge

    model: Any = LogisticRegression(max_iter=100) if kind == "logistic" else Ridge(1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, y if kind == "logistic" else y.reshape(len(y), -1), sample_weight=weights)
    return np.atleast_2d(model.coef_).T, model.intercept_
