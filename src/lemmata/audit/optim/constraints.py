"""Sets of points by their defining numbers: the nearest point, the largest distance, and the least value of a slope.

Plain code beside the projections of the solvers and by other ways where there is one: thresholds by bisection, not by sorting.
A set is a name and its numbers: ("box", {low, high}), ("ball", {radius, centre}), ("simplex", {total}), ("l1_ball", {radius}),
("affine", {A, b}), ("rank", {k}), ("psd", {}).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

Array = np.ndarray
Facts = tuple[str, dict[str, Any]]
CONVEX = ("box", "ball", "simplex", "l1_ball", "affine", "psd")


def nearest(facts: Facts, z: Array) -> Array:
    """The point of a set that is nearest to z, in float64."""
    name, numbers = facts
    z = np.asarray(z, dtype=np.float64)
    if name == "box":
        return np.minimum(np.maximum(z, numbers["low"]), numbers["high"])
    if name == "ball":
        away = z - numbers["centre"]
        return numbers["centre"] + away * min(
            1.0, numbers["radius"] / max(np.linalg.norm(away), 1e-300)
        )
    if name == "simplex":
        return _shift_to_sum(z, numbers["total"])
    if name == "l1_ball":
        inside = np.abs(z).sum() <= numbers["radius"]
        return z if inside else np.sign(z) * _shift_to_sum(np.abs(z), numbers["radius"])
    if name == "affine":
        A, b = np.asarray(numbers["A"], np.float64), np.asarray(numbers["b"], np.float64)
        off = np.linalg.lstsq(A, A @ z.ravel() - b, rcond=None)[0]
        return (z.ravel() - off).reshape(z.shape)
    if name == "rank":
        U, s, Vt = np.linalg.svd(z, full_matrices=False)
        k = numbers["k"]
        return (U[:, :k] * s[:k]) @ Vt[:k]
    if name == "psd":
        values, vectors = np.linalg.eigh((z + z.T) / 2)
        return (vectors * np.maximum(values, 0)) @ vectors.T
    raise ValueError(f"a set called {name!r} is not known to the audit.")


def _shift_to_sum(z: Array, total: float) -> Array:
    """(z − τ)₊ with a sum of `total`; the sum falls as τ rises, so bisection finds it."""
    low, high = float(z.max()) - total, float(z.max())
    for _ in range(200):
        middle = (low + high) / 2
        if not low < middle < high:
            break
        if np.maximum(z - middle, 0).sum() > total:
            low = middle
        else:
            high = middle
    kept = z > high
    # given which entries are kept, τ is exact
    tau = (z[kept].sum() - total) / kept.sum() if kept.any() else low
    return np.maximum(z - tau, 0)


def diameter(facts: Facts, shape: tuple[int, ...]) -> float:
    """The largest distance between two points of a set."""
    name, numbers = facts
    if name == "box":
        return float(np.linalg.norm(np.broadcast_to(numbers["high"] - numbers["low"], shape)))
    if name == "simplex":
        return math.sqrt(2.0) * numbers["total"]
    return 2.0 * numbers["radius"] if name in ("ball", "l1_ball") else math.inf


def least_slope(facts: Facts, gradient: Array) -> float:
    """min ⟨g, z⟩ over z in a bounded set; −∞ for the others."""
    name, numbers = facts
    g = np.asarray(gradient, dtype=np.float64)
    if name == "box":
        ends = np.where(g > 0, numbers["low"], numbers["high"])
        return float(np.where(g == 0, 0.0, g * np.where(g == 0, 0.0, ends)).sum())
    if name == "ball":
        return float((g * numbers["centre"]).sum()) - numbers["radius"] * float(np.linalg.norm(g))
    if name == "simplex":
        return numbers["total"] * float(g.min())
    if name == "l1_ball":
        return -numbers["radius"] * float(np.abs(g).max())
    return -math.inf
