"""Worst cases that are known: of a linear classifier exactly; of a dense ReLU net a radius in ℓ2 in which nothing fools it.

    min_δ m(x + δ) = min_{j ≠ y} (w_y − w_j)ᵀx + b_y − b_j − max_δ (w_j − w_y)ᵀδ           max_δ = ε‖w_y − w_j‖_q without a box

Inside the box, ball.maximise gives δ: endpoints in ℓ∞, one multiplier in ℓ2, the steepest coordinates first in ℓ1.
A ReLU net is linear up to the nearest place where a unit changes its sign: the lesser of that radius and margin/‖slope‖.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lemmata.nets.approximation.layers import Layers, linear_region
from lemmata.trust.robust.ball import Perturbations

Array = np.ndarray

ROUNDING = 1e-9  # taken off a radius


def worst_case(W: Array, b: Array, X: Array, y: Array, ball: Perturbations) -> tuple[Array, Array]:
    """Return (the least margin of s = Wx + b in the ball around each row, where it is reached)."""
    X = np.asarray(X, dtype=np.float64)
    least, rows = np.full(len(X), np.inf), X.copy()
    for j in range(len(W)):
        G = W[j] - W[y]
        delta = ball.maximise(G, X)
        m = b[y] - b[j] - np.einsum("nd,nd->n", G, X + delta)
        better = (m < least) & (y != j)
        least[better], rows[better] = m[better], (X + delta)[better]
    return least, rows


def read_dense_net(model: Any) -> Layers | None:
    """Return a dense ReLU net as matrices; None of any other model."""
    if hasattr(model, "coefs_") and getattr(model, "activation", "") == "relu":
        return Layers(tuple(W.T for W in model.coefs_), tuple(model.intercepts_), "relu")
    module = getattr(model, "module_", model)
    if not hasattr(module, "modules"):
        return None
    try:
        net = Layers.of_torch(module)
    except ValueError:
        return None
    return net if net.activation == "relu" and type(module).__name__ == "Sequential" else None


def proved_radii(net: Layers, X: Array, y: Array) -> Array:
    """Return ℓ2 radii around rows in which the net says y, by its linear piece there; 0 where it says something else."""
    found = np.zeros(len(X))
    for i, x in enumerate(np.asarray(X, dtype=np.float64)):
        piece = linear_region(net, x)
        A, s = piece.matrix, piece.matrix @ x + piece.offset
        if len(s) == 1:
            A, s = np.vstack([-A, A]) / 2, np.hstack([-s, s]) / 2
        ahead, slope = np.delete(s[y[i]] - s, y[i]), np.linalg.norm(A[y[i]] - A, axis=1)
        reach = ahead / np.maximum(np.delete(slope, y[i]), np.finfo(float).tiny)
        found[i] = min(piece.radius, reach.min()) if ahead.min() > 0 else 0.0
    return np.maximum(found * (1 - ROUNDING) - ROUNDING, 0)
