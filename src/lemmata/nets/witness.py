"""Searches for what claims about networks ask for: better weights, and a line to be compared with.

What is found here is checked in audit/nets and never believed: an objective is recomputed at the weights, a line's
predictions are computed from its coefficients.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, ndtr

from lemmata.audit.kernel.claims import Fit
from lemmata.audit.nets import mlp

Array = np.ndarray

SLOPES = {  # φ′ as a function of z
    "identity": np.ones_like,
    "logistic": lambda z: expit(z) * expit(-z),
    "tanh": lambda z: 1 - np.tanh(z) ** 2,
    "relu": lambda z: (z > 0).astype(float),
    "softplus": expit,
    "gelu": lambda z: ndtr(z) + z * np.exp(-0.5 * z * z) / np.sqrt(2 * np.pi),
}


def better_network_weights(fit: Fit, steps: int, powers: list[Array]) -> list[Array]:
    """Return the best Θ₁ … Θ_L, b₁ … b_L seen by L-BFGS from those of a perceptron.

    powers : the mean square of every input of every layer. Weights are measured by what they multiply, so that units do not
        matter.
    """
    theta, L = mlp.parameters_of(fit), len(powers)
    scale = [np.sqrt(np.where(power > 0, power, 1.0))[:, None] for power in powers]
    units = [np.broadcast_to(scale[k] if k < L else 1.0, part.shape) for k, part in enumerate(theta)]  # fmt: skip
    ends = np.cumsum([part.size for part in theta])[:-1]
    best, least = theta, np.inf

    def function(v: Array) -> tuple[float, Array]:
        nonlocal best, least
        moved = np.split(v, ends)
        at = [part.reshape(u.shape) / u for part, u in zip(moved, units, strict=True)]
        value, slopes = _objective(fit, at)
        if value < least:
            best, least = at, value
        return value, np.concatenate([(g / u).ravel() for g, u in zip(slopes, units, strict=True)])

    start = np.concatenate([(part * u).ravel() for part, u in zip(theta, units, strict=True)])
    options = {"maxiter": steps, "maxfun": 2 * steps}
    with np.errstate(over="ignore", invalid="ignore"):
        minimize(function, start, jac=True, method="L-BFGS-B", options=options)
    return best


def _objective(fit: Fit, theta: list[Array]) -> tuple[float, list[Array]]:
    """Return F and its gradient."""
    y, mask = mlp.targets_of(fit), mlp.trained_on(fit)
    share, loss, start, L = mlp.weights_of(fit) * mask, 0.0, 0, len(theta) // 2
    gradient = [np.zeros_like(part) for part in theta]
    for rows in mlp.pieces(fit.data):
        here = slice(start, start + rows.shape[0])
        start = here.stop
        h, z = mlp.forward(fit, theta, rows)
        losses, delta = mlp.loss_and_error(fit.out_activation_, z[-1], y[here])
        loss += float(share[here] @ losses.sum(axis=1))
        delta = delta * share[here][:, None]
        for k in reversed(range(L)):
            gradient[k] += h[k].T @ delta
            gradient[L + k] += delta.sum(axis=0)
            if k:
                delta = (delta @ theta[k].T) * SLOPES[fit.activation](z[k - 1])
    S, ridge = float(share.sum()), mlp.ridge_of(fit, mask)
    slopes = [(part + (ridge * theta[k] if k < L else 0.0)) / S for k, part in enumerate(gradient)]
    return (loss + mlp.penalty_of(theta, ridge)) / S, slopes


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
