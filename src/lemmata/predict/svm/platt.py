"""Probabilities of support vector machines: Platt's sigmoid of decisions that were not trained on, coupled over pairs.

    p(i | i or j, x) = 1/(1 + e^(A f_ij(x) + B))         A, B: most likely for f of rows left out, labels smoothed (Platt 1999)
    p = argmin Σ_i Σ_j≠i (r_ji p_i − r_ij p_j)²,  Σ p = 1        r_ij = p(i | i or j)                (Wu, Lin & Weng 2004)

The sum of squares is pᵀQp, so p solves one linear system a row.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
from scipy.special import expit

Array = np.ndarray
FOLDS = 5
STEPS = 100
NEVER = 1e-7  # probabilities of pairs stay this far from 0 and 1


def fit_sigmoid(f: Array, first: Array) -> tuple[float, float]:
    """A and B by Newton's method with halved steps; first: whether a row is of the class that f > 0 speaks for."""
    n = first.sum()
    t = np.where(first, (n + 1) / (n + 2), 1 / (len(f) - n + 2))
    Z = np.column_stack([f, np.ones(len(f))])

    def loss(theta: Array) -> float:
        z = Z @ theta
        return float((t * z + np.logaddexp(0, -z)).sum())

    theta = np.array([0.0, np.log((len(f) - n + 1) / (n + 1))])
    for _ in range(STEPS):
        p = expit(-(Z @ theta))
        gradient = Z.T @ (t - p)
        if np.abs(gradient).max() < 1e-5:
            break
        hessian = (Z.T * (p * (1 - p))) @ Z + 1e-12 * np.eye(2)
        step, before = np.linalg.solve(hessian, -gradient), loss(theta)
        while loss(theta + step) > before + 1e-4 * float(gradient @ step):
            step = step / 2
            if np.abs(step).max() < 1e-10:
                return float(theta[0]), float(theta[1])
        theta = theta + step
    return float(theta[0]), float(theta[1])


def fit_pairs(values: Array, places: Array, k: int) -> tuple[Array, Array]:
    """A and B of every pair of classes, from decisions (n, pairs) that speak for the first class of each."""
    found = []
    for pair, (i, j) in enumerate(combinations(range(k), 2)):
        both = (places == i) | (places == j)
        found.append(fit_sigmoid(values[both, pair], places[both] == i))
    A, B = np.array(found).T
    return A, B


def couple(values: Array, A: Array, B: Array, k: int) -> Array:
    """Probabilities (n, k) from decisions (n, pairs) that speak for the first class of each pair."""
    p = np.clip(expit(-(values * A + B)), NEVER, 1 - NEVER)
    if k == 2:
        return np.column_stack([p[:, 0], 1 - p[:, 0]])
    r = np.zeros((len(p), k, k))
    for pair, (i, j) in enumerate(combinations(range(k), 2)):
        r[:, i, j], r[:, j, i] = p[:, pair], 1 - p[:, pair]
    system = np.ones((len(p), k + 1, k + 1))
    system[:, :k, :k] = -r * r.transpose(0, 2, 1)
    system[:, range(k), range(k)] = np.square(r).sum(axis=1)
    system[:, k, k] = 0.0
    right = np.zeros((len(p), k + 1, 1))
    right[:, k] = 1.0
    found = np.maximum(np.linalg.solve(system, right)[:, :k, 0], 0.0)
    return found / found.sum(axis=1, keepdims=True)
