"""The largest eigenvalue of a symmetric operator by plain Lanczos, with the probability that it was missed.

    A Q = Q T + ‖y‖ x_{q+1} e_qᵀ,            Q = [x₁ … x_q],  QᵀQ = I,  T = QᵀAQ tridiagonal                        (CIL (1.6))

x₁ is a random direction; each step multiplies A with the newest vector and appends what is new in the product. The largest
eigenvalue θ of T is a Rayleigh quotient of A, so θ ≤ λ₁ whatever happened. How far below it may lie is a theorem (Kuczyński &
Woźniakowski 1992, Theorem 4.1): after q products, whatever the spectrum of N numbers,

    λ₁ − θ ≤ ε (λ₁ − λ_N)          but for a probability of at most  1.648 √N e^(−√ε(2q−1))

(stated there for λ_N ≥ 0 with ελ₁ on the right; Krylov spaces do not see a shift of A, hence this form). The theorem speaks of
one Krylov space in exact arithmetic: so nothing is restarted, and every vector is made orthogonal to all before it, twice.

    >>> found = largest_eigenvalue(lambda x: np.arange(1.0, 101.0) * x, 100, most=60)
    >>> round(found.value, 6), found.products
    (100.0, 60)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh_tridiagonal

Array = np.ndarray

RISK = 1e-4  # that an eigenvalue was missed by more than is stated


@dataclass(frozen=True)
class Ritz:
    """The ends of a spectrum as a Krylov space shows them."""

    value: float  # θ, the largest eigenvalue of T
    lowest: float  # the smallest one
    residual: float  # some eigenvalue of A lies within this of θ
    products: int  # q
    size: int  # N
    vector: Array | None = None  # (N,) of length 1, with θ as its Rayleigh quotient

    def largest_excess(self, positive: bool = False) -> float:
        """By how much λ₁ may exceed θ, but for RISK; 2·RISK unless A is known to be positive semidefinite.

        positive: λ₁ − θ ≤ ελ₁. Otherwise either end is missed by at most ε times the width of the spectrum, which is therefore
        at most (θ − lowest)/(1 − 2ε).
        """
        if self.products >= self.size:
            return 0.0
        share = missed_share(self.products, self.size)
        if positive:
            return math.inf if share >= 1 else max(self.value, 0.0) * share / (1 - share)
        return math.inf if share >= 0.5 else (self.value - self.lowest) * share / (1 - 2 * share)


def missed_share(products: int, size: int, risk: float = RISK) -> float:
    """ε at which the theorem's probability is `risk`."""
    return (math.log(1.648 * math.sqrt(size) / risk) / (2 * products - 1)) ** 2


def products_for(share: float, size: int) -> int:
    """The number of products that bring ε down to this share."""
    return math.ceil((math.log(1.648 * math.sqrt(size) / RISK) / math.sqrt(share) + 1) / 2)


def largest_eigenvalue(
    times: Callable[[Array], Array],
    size: int,
    *,
    most: int,
    enough: Callable[[Ritz], bool] = lambda found: False,
    rng: int = 0,
) -> Ritz:
    """Lanczos from a random vector, until `enough` says so, `most` products are made, or the basis is the whole space.

    times : x ↦ Ax for vectors of length `size`, A symmetric
    """
    draw = np.random.default_rng(rng)
    most = min(most, size)
    basis = np.empty((most, size))  # rows; the system takes the memory only as they are written
    diagonal, beside = np.zeros(most), np.zeros(most)
    x = _unit(draw.standard_normal(size))
    for q in range(1, most + 1):
        basis[q - 1] = x
        y = times(x)
        diagonal[q - 1] = x @ y
        y = _outside(basis[:q], y)
        length = float(np.linalg.norm(y))
        top, last = _end(diagonal[:q], beside[: q - 1], q - 1)
        bottom, _ = _end(diagonal[:q], beside[: q - 1], 0)
        found = Ritz(top, bottom, length * abs(float(last[-1])), q, size)
        if q == most or enough(found):
            break
        if length <= 8 * np.finfo(float).eps * max(abs(top), abs(bottom)):
            # the space is invariant: what it lacks can only be found from another random vector
            length, y = 0.0, _outside(basis[:q], draw.standard_normal(size))
        beside[q - 1] = length
        x = _unit(y)
    vector = _unit(basis[:q].T @ last)
    return Ritz(top, bottom, found.residual, q, size, vector)


def _end(diagonal: Array, beside: Array, index: int) -> tuple[float, Array]:
    """One eigenvalue of a tridiagonal matrix, counted from the smallest, and its vector."""
    values, vectors = eigh_tridiagonal(diagonal, beside, select="i", select_range=(index, index))
    return float(values[0]), vectors[:, 0]


def _outside(basis: Array, y: Array) -> Array:
    """y without its part in the basis: once, and again for what rounding left of it."""
    for _ in range(2):
        y = y - basis.T @ (basis @ y)
    return y


def _unit(x: Array) -> Array:
    return x / np.linalg.norm(x)
