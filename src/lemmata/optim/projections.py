"""The nearest point of a set: what projected gradient descent does after every step.

    P_C(z) = argmin ‖x − z‖  over x in C                                                     ML "Constrained Optimization"

    Box        low ≤ x ≤ high                 clip                                                  O(d)
    Ball       ‖x − c‖ ≤ r                    shrink towards c                                      O(d)
    Simplex    x ≥ 0, Σx = s                  (z − τ)₊, τ so that it adds up to s                   O(d log d)
    L1Ball     ‖x‖₁ ≤ r                       sign(z)·(|z| − τ)₊, τ ≥ 0                             O(d log d)
    Affine     Ax = b                         z − A⁺(Az − b)                                        O(rank·d) after one SVD
    RankK      rank X ≤ k                     the k leading singular triples (CIL Thm 2.3.4)        one SVD
    PSD        X = Xᵀ ⪰ 0                     the symmetric part without its negative eigenvalues   one eigendecomposition

All but RankK are convex, so P is unique, 1-Lipschitz, and x = P(z) exactly if (z − x)ᵀ(y − x) ≤ 0 for every y in C. The set
of matrices of rank at most k is not convex: where σ_k = σ_{k+1} several points are nearest, and one of them is returned.
(Orthogonal projections onto subspaces, as operators: linalg/projections.py.)

    >>> import numpy as np
    >>> Simplex()(np.array([0.4, 0.8, -0.5]))
    array([0.3, 0.7, 0. ])
    >>> L1Ball(1.0)(np.array([2.0, -0.5]))
    array([ 1., -0.])

A set is called with a point and returns the nearest one; `diameter` is the largest distance within it, and `facts` are the
numbers that define it, from which the audit projects by code of its own.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from lemmata.linalg import best_rank_k, pseudo_inverse
from lemmata.optim.schedules import check_range

Array = np.ndarray


class Constraint(ABC):
    """A set with a nearest point, which calling it gives; convex and unbounded, unless it says otherwise."""

    convex: ClassVar[bool] = True

    @abstractmethod
    def __call__(self, z: Array) -> Array: ...

    @property
    @abstractmethod
    def facts(self) -> tuple[str, dict[str, Any]]: ...

    def diameter(self, shape: tuple[int, ...]) -> float:
        """The largest distance between two points of this shape in the set."""
        return math.inf


@dataclass(frozen=True, eq=False)
class Box(Constraint):
    """low ≤ x ≤ high, coordinate by coordinate; infinite where a side is open. ``Box(0)`` are the non-negative vectors."""

    low: Any = -math.inf
    high: Any = math.inf

    def __post_init__(self):
        low, high = np.asarray(self.low, float), np.asarray(self.high, float)
        if np.isnan(low).any() or np.isnan(high).any() or (low > high).any():
            raise ValueError(
                f"Box: low={self.low} is not below high={self.high}; pass low <= high."
            )

    def __call__(self, z: Array) -> Array:
        return np.clip(z, self.low, self.high).astype(z.dtype, copy=False)

    @property
    def facts(self) -> tuple[str, dict[str, Any]]:
        return "box", {"low": np.asarray(self.low, float), "high": np.asarray(self.high, float)}

    def diameter(self, shape: tuple[int, ...]) -> float:
        return float(np.linalg.norm(np.broadcast_to(np.subtract(self.high, self.low), shape)))


@dataclass(frozen=True, eq=False)
class Ball(Constraint):
    """‖x − centre‖ ≤ radius."""

    radius: float = 1.0
    centre: Any = 0.0

    def __post_init__(self):
        check_range("radius", self.radius, 0)

    def __call__(self, z: Array) -> Array:
        away = z - np.asarray(self.centre, z.dtype)
        distance = float(np.linalg.norm(away))
        if distance <= self.radius:
            return z
        return np.asarray(self.centre, z.dtype) + (self.radius / distance) * away

    @property
    def facts(self) -> tuple[str, dict[str, Any]]:
        return "ball", {"radius": float(self.radius), "centre": np.asarray(self.centre, float)}

    def diameter(self, shape: tuple[int, ...]) -> float:
        return 2.0 * self.radius


def _threshold(u: Array, total: float) -> float:
    """The τ with Σ(u − τ)₊ = total: the j largest entries share what exceeds total, for the last j that stay positive."""
    falling = np.sort(u, axis=None)[::-1]
    shares = (np.cumsum(falling) - total) / np.arange(1, falling.size + 1)
    return float(shares[np.flatnonzero(falling > shares)[-1]])


@dataclass(frozen=True, eq=False)
class Simplex(Constraint):
    """x ≥ 0, Σx = total: the weights of a mixture for total = 1."""

    total: float = 1.0

    def __post_init__(self):
        check_range("total", self.total, 0, open_low=True)

    def __call__(self, z: Array) -> Array:
        # relative to the largest entry, so that z as large as 1e16 loses nothing of `total`
        u = z - z.max()
        return np.maximum(u - np.asarray(_threshold(u, self.total), z.dtype), 0)

    @property
    def facts(self) -> tuple[str, dict[str, Any]]:
        return "simplex", {"total": float(self.total)}

    def diameter(self, shape: tuple[int, ...]) -> float:
        return math.sqrt(2.0) * self.total


@dataclass(frozen=True, eq=False)
class L1Ball(Constraint):
    """‖x‖₁ ≤ radius: the constraint of the lasso; most corners lie on axes, so solutions are sparse."""

    radius: float = 1.0

    def __post_init__(self):
        check_range("radius", self.radius, 0, open_low=True)

    def __call__(self, z: Array) -> Array:
        size = np.abs(z)
        if size.sum() <= self.radius:
            return z
        return np.sign(z) * Simplex(self.radius)(size)

    @property
    def facts(self) -> tuple[str, dict[str, Any]]:
        return "l1_ball", {"radius": float(self.radius)}

    def diameter(self, shape: tuple[int, ...]) -> float:
        return 2.0 * self.radius


@dataclass(frozen=True, eq=False)
class Affine(Constraint):
    """Ax = b, for any A of any rank; b must be attainable."""

    A: Any
    b: Any
    _parts: tuple[Array, Array] = field(init=False, repr=False)

    def __post_init__(self):
        A, b = np.atleast_2d(np.asarray(self.A, float)), np.atleast_1d(np.asarray(self.b, float))
        if b.shape != (len(A),):
            raise ValueError(f"Affine: A has {len(A)} rows, b shape {b.shape}; they must agree.")
        inverse = pseudo_inverse(A)
        point = inverse @ b
        error = float(np.abs(A @ point - b).max(initial=0.0))
        scale = float(np.abs(A).max(initial=0.0) * np.abs(point).sum() + np.abs(b).max(initial=0.0))
        if error > 1e-10 * scale:
            raise ValueError(
                f"Affine: Ax = b has no solution (the nearest misses by {error:.2g}); drop the rows that contradict."
            )
        object.__setattr__(self, "_parts", (inverse @ A, point))

    def __call__(self, z: Array) -> Array:
        onto_rows, point = self._parts
        flat = z.ravel()
        return (flat - onto_rows @ flat + point).reshape(z.shape).astype(z.dtype, copy=False)

    @property
    def facts(self) -> tuple[str, dict[str, Any]]:
        return "affine", {"A": np.atleast_2d(self.A), "b": np.atleast_1d(self.b)}


@dataclass(frozen=True, eq=False)
class RankK(Constraint):
    """Matrices of rank at most k (not convex)."""

    k: int
    convex: ClassVar[bool] = False

    def __post_init__(self):
        check_range("k", self.k, 1)

    def __call__(self, z: Array) -> Array:
        if z.ndim != 2:
            raise ValueError(f"RankK projects matrices; the point has shape {z.shape}.")
        if self.k >= min(z.shape):
            return z
        return np.asarray(best_rank_k(z, self.k).matrix(), dtype=z.dtype)

    @property
    def facts(self) -> tuple[str, dict[str, Any]]:
        return "rank", {"k": int(self.k)}


@dataclass(frozen=True, eq=False)
class PSD(Constraint):
    """Symmetric matrices without negative eigenvalues."""

    def __call__(self, z: Array) -> Array:
        if z.ndim != 2 or z.shape[0] != z.shape[1]:
            raise ValueError(f"PSD projects square matrices; the point has shape {z.shape}.")
        values, vectors = np.linalg.eigh((z + z.T) / 2)
        X = (vectors * np.maximum(values, 0)) @ vectors.T
        return (X + X.T) / 2

    @property
    def facts(self) -> tuple[str, dict[str, Any]]:
        return "psd", {}
