"""The worst case of a row within a ball, where it is known: linear classifiers exactly, dense ReLU nets in one linear piece.

linear      min_j (w_y − w_j)ᵀx + b_y − b_j − ε‖w_y − w_j‖_*                         fooled where it is below 0
in a box    the same with min vᵀδ over ‖δ‖ ≤ ε, low ≤ x + δ ≤ high, v = w_y − w_j:   see `least_product`
ReLU net    linear until a unit changes its sign, so no row within min(|z|/‖α‖, margin/‖v‖) (ℓ2) has another class
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray

HALVINGS = 100  # of the multiplier


def least_product(V: Array, X: Array, ball: Any) -> Array:
    """Return min vᵀδ row by row over the ball, within the box where there is one.

    ℓ∞: every δ_i at its end. ℓ2: δ = −tv clipped to the room, t as large as the ball allows (the multiplier is 1/t). ℓ1: the
    largest |v_i| first, each as far as there is room, until ε is spent.
    """
    norm, eps = float(ball.norm), float(ball.eps)
    size = np.abs(V)
    with np.errstate(invalid="ignore"):
        room = np.where(V > 0, X - end_of(ball.low, -np.inf), end_of(ball.high, np.inf) - X)
    room = np.maximum(room, 0.0)
    if norm == np.inf:
        return -(size * np.minimum(room, eps)).sum(axis=1)
    if norm == 1:
        order = np.argsort(-size, axis=1)
        room, size = np.take_along_axis(room, order, 1), np.take_along_axis(size, order, 1)
        room = np.minimum(room, eps)
        before = np.cumsum(room, axis=1) - room
        return -(size * np.clip(eps - before, 0.0, room)).sum(axis=1)
    if norm != 2:
        raise ValueError(f"norm={ball.norm!r}: the worst case is known for inf, 2 and 1.")
    length = np.linalg.norm(V, axis=1)
    low = eps / np.where(length > 0, length, 1.0)  # without a box; with one, t is larger
    high = low * 2.0**HALVINGS
    moved = np.minimum(room, low[:, None] * size)
    if np.isfinite(room).all() or (moved < low[:, None] * size).any():
        for _ in range(2 * HALVINGS):
            t = np.sqrt(low * high)
            inside = np.linalg.norm(np.minimum(room, t[:, None] * size), axis=1) <= eps
            low, high = np.where(inside, t, low), np.where(inside, high, t)
        moved = np.minimum(room, low[:, None] * size)
    return -(size * moved).sum(axis=1)


def end_of(value: Any, absent: float) -> Array:
    """Return an end of the box, a number or one for each feature."""
    return np.asarray(absent if value is None else value, np.float64)


# --- linear -----------------------------------------------------------------------------------------------------------


def linear_map_of(model: Any) -> tuple[Array, Array] | None:
    """Return a row of weights and an offset for each class; None where a model has none."""
    coef, offset = getattr(model, "coef_", None), getattr(model, "intercept_", None)
    if coef is None or offset is None or not hasattr(model, "classes_"):
        return None
    coef, K = coef.toarray() if hasattr(coef, "toarray") else coef, len(model.classes_)
    if K > 2 and hasattr(model, "support_vectors_"):  # one against one: three classes, three rows
        return None
    W, b = np.atleast_2d(np.asarray(coef, np.float64)), np.ravel(np.asarray(offset, np.float64))
    if K == 2 and len(W) == 1:
        W, b = np.vstack([-W / 2, W / 2]), np.r_[-b / 2, b / 2]
    return (W, np.broadcast_to(b, (K,))) if len(W) == K else None


def linear_margins(W: Array, b: Array, X: Array, places: Array, ball: Any) -> tuple[Array, Array]:
    """Return the least margin of the true class over the ball, and the rounding that it may have.

    places : of the true classes in the rows of W; −1 for a class that the model does not know, whose margin is −∞
    """
    X = np.asarray(X, np.float64)
    margins, scores = np.full(len(X), np.inf), X @ W.T + b
    true = scores[np.arange(len(X)), places]
    for j in range(len(W)):
        others = np.flatnonzero(places != j)
        V = W[places[others]] - W[j]
        least = true[others] - scores[others, j] + least_product(V, X[others], ball)
        margins[others] = np.minimum(margins[others], least)
    terms = np.abs(X) @ np.abs(W).max(axis=0) + np.abs(b).max() + np.abs(true)
    error = 16 * np.sqrt(X.shape[1]) * np.finfo(float).eps * terms
    return np.where(places < 0, -np.inf, margins), error


# --- dense nets with ReLU ---------------------------------------------------------------------------------------------


def dense_layers_of(model: Any) -> list[tuple[Array, Array]] | None:
    """Return (weights (in, out), offsets) of a dense net with ReLU between its layers; None for every other model."""
    if hasattr(model, "coefs_") and getattr(model, "activation", "") == "relu":
        pairs = zip(model.coefs_, model.intercepts_, strict=True)
        return [(np.asarray(W, np.float64), np.asarray(b, np.float64)) for W, b in pairs]
    net = next((net for name in ("module_", "net_") if (net := getattr(model, name, None))), model)
    parts = list(getattr(net, "children", list)())
    names = [type(part).__name__ for part in parts]
    while names[:1] == ["Flatten"]:
        parts, names = parts[1:], names[1:]
    if type(net).__name__ != "Sequential" or len(names) % 2 == 0:
        return None
    if names != (["Linear", "ReLU"] * len(names))[: len(names)]:
        return None
    found = []
    for part in parts[::2]:
        W = part.weight.detach().double().cpu().numpy().T
        b = np.zeros(W.shape[1]) if part.bias is None else part.bias.detach().double().cpu().numpy()
        found.append((W, b))
    return found


def dense_scores(layers: list[tuple[Array, Array]], X: Array) -> Array:
    """Return the score of every class; −z/2 and z/2 of a single one."""
    for at, (W, b) in enumerate(layers):
        X = (X if at == 0 else np.maximum(X, 0.0)) @ W + b
    return np.hstack([-X / 2, X / 2]) if X.shape[1] == 1 else X


def dense_radii(layers: list[tuple[Array, Array]], X: Array, places: Array) -> Array:
    """Return the ℓ2 radius in which every row keeps its true class, 0 where it does not have it; less the rounding."""
    X = np.asarray(X, np.float64).reshape(len(X), -1)
    found = np.zeros(len(X))
    slack = 1e3 * np.finfo(float).eps * len(layers) * np.sqrt(X.shape[1])
    for i in np.flatnonzero(places >= 0):
        z, A = X[i], np.eye(X.shape[1])  # the layer's input and its Jacobian, (d, units)
        radius = np.inf
        for at, (W, b) in enumerate(layers):
            z, A = z @ W + b, A @ W
            if at < len(layers) - 1:
                slopes = np.linalg.norm(A, axis=0)
                moving = slopes > 0
                radius = min(radius, (np.abs(z[moving]) / slopes[moving]).min(initial=np.inf))
                z, A = np.maximum(z, 0.0), A * (z > 0)
        if len(z) == 1:  # two classes by one score
            z, A = np.r_[-z, z] / 2, np.hstack([-A, A]) / 2
        others = np.delete(np.arange(len(z)), places[i])
        ahead = z[places[i]] - z[others]
        slopes = np.linalg.norm(A[:, [places[i]]] - A[:, others], axis=0)
        reach = np.where(ahead > 0, ahead / np.maximum(slopes, np.finfo(float).tiny), 0.0)
        found[i] = max(min(radius, reach.min()) * (1 - slack) - slack, 0.0)
    return found
