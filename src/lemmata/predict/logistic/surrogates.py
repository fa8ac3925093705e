"""Surrogates of the 0–1 loss, with their derivatives in the score f (ML "Classification"; y = ±1 is "this class or not").

logistic       ℓ = log(1 + e^(−yf))         ℓ′ = −y σ(−yf)          ℓ″ = σ(f) σ(−f)
squared hinge  ℓ = (1 − yf)₊²               ℓ′ = −2y (1 − yf)₊      ℓ″ = 2 where yf < 1      (a generalised derivative)
softmax        ℓ = log Σ eᶠᵏ − f_c          ∇ℓ = p − e_c            ∇²ℓ = diag(p) − ppᵀ
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

Array = np.ndarray


class Surrogate(Protocol):
    """m problems over the same rows; coupled: one loss of all m scores."""

    @property
    def m(self) -> int: ...

    @property
    def coupled(self) -> bool: ...

    def rows(self, F: Array, c: Array, s: Array, order: int) -> tuple[Array, Array, Array | None]:
        """Return, for scores F (r, m), the weighted losses (m,), s·ℓ′ (r, m) and, at order 2, s·ℓ″ (r, m); softmax: the p."""
        ...


def signs(c: Array, m: int) -> Array:
    """±1 for each of m problems: one problem asks for class 1, several ask for one class each."""
    if m == 1:
        return (2 * c - 1)[:, None]
    return np.where(c[:, None] == np.arange(m), 1.0, -1.0)


@dataclass(frozen=True)
class LogisticSurrogate:
    m: int = 1
    coupled: ClassVar[bool] = False

    def rows(self, F, c, s, order):
        return self.of_signs(F, signs(c, self.m), s, order)

    def of_signs(self, F, y, s, order):
        margin = y * F
        e = np.exp(-np.abs(margin))
        losses = s @ (np.log1p(e) + np.maximum(-margin, 0))
        q = np.where(margin > 0, e, 1.0) / (1 + e)  # σ(−margin)
        U = -y * q * s[:, None]
        return losses, U, (q * (1 - q)) * s[:, None] if order > 1 else None


@dataclass(frozen=True)
class SquaredHingeSurrogate:
    m: int = 1
    coupled: ClassVar[bool] = False

    def rows(self, F, c, s, order):
        return self.of_signs(F, signs(c, self.m), s, order)

    def of_signs(self, F, y, s, order):
        missing = np.maximum(1 - y * F, 0)
        U = (-2 * s)[:, None] * y * missing
        return s @ missing**2, U, (missing > 0) * (2 * s)[:, None] if order > 1 else None


@dataclass(frozen=True)
class SoftmaxSurrogate:
    m: int
    coupled: ClassVar[bool] = True

    def rows(self, F, c, s, order):
        P, own = F - F.max(axis=1, keepdims=True), (np.arange(len(F)), c.astype(np.intp))
        scores = P[own]
        np.exp(P, out=P)
        total = P.sum(axis=1)
        losses = np.zeros(self.m)
        losses[0] = s @ (np.log(total) - scores)
        P /= total[:, None]
        U = P.copy() if order > 1 else P
        U[own] -= 1
        U *= s[:, None]
        return losses, U, P if order > 1 else None


# --- sums over rows ---------------------------------------------------------------------------------------------------
