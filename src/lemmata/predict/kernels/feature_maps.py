"""Features of kernels: φ(x) with φ(x)ᵀφ(y) = κ(x, y), where there are finitely many.

    Linear               x                                       Constant c        √c
    Polynomial p         √(p!/(a!(p−|a|)!) γ^|a| c^(p−|a|)) x^a  for all exponents a with |a| ≤ p     (ML Kernel trick)
    κ₁ + κ₂              both, side by side                      κ₁ κ₂             one for every pair of features

With such features a linear model is a kernel machine for any number of rows (ML Kernel regression). Where κ has infinitely
many, sampled_features.py approximates it, and `kernel_error` measures the error.

    >>> X = np.random.default_rng(0).normal(size=(20, 3))
    >>> kernel_error(Linear(), X, feature_map(Linear(), X)).largest < 1e-12
    True
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import Any

import numpy as np

from lemmata.predict.kernels.base import ConstantKernel, Kernel, Product, Sum
from lemmata.predict.kernels.standard import CosineKernel, Linear, Polynomial, unit_rows
from lemmata.predict.kernels.tiles import dense, float_rows, memory

Array = np.ndarray
ROWS = 1024  # of a kernel matrix at once


# --- exact features ---------------------------------------------------------------------------------------------------


def feature_map(kernel: Kernel, X: Any) -> Array:
    """Φ, one row of features for each row of X, with ΦΦᵀ = K; ValueError where κ has no finite features.

    >>> X = np.array([[1.0, 2.0], [3.0, 4.0]])
    >>> kernel = Polynomial(degree=2, gamma=1.0) + Linear()
    >>> Phi = feature_map(kernel, X)
    >>> Phi.shape, bool(np.allclose(Phi @ Phi.T, kernel(X)))
    ((2, 8), True)
    """
    X = float_rows(X)
    kernel = kernel.fitted(X)
    width = n_features(kernel, X.shape[1])
    if X.shape[0] * width * X.dtype.itemsize > 0.5 * memory():
        raise MemoryError(
            f"{kernel!r} has {width:,} features of {X.shape[1]} columns; use the kernel itself, or Nystroem."
        )
    return _features(kernel, dense(X))


def n_features(kernel: Kernel, d: int) -> int:
    """Count the features of κ for rows with d columns; ValueError if infinitely many, or if there are none at all."""
    if isinstance(kernel, ConstantKernel):
        return 1
    if isinstance(kernel, Linear | CosineKernel):
        return d
    if isinstance(kernel, Polynomial):
        if kernel.coef0 < 0:
            raise ValueError(
                f"{kernel!r} is not positive semidefinite, so it has no features; pass coef0 >= 0."
            )
        p = int(kernel.degree)
        return math.comb(d + p, p) if kernel.coef0 > 0 else math.comb(d + p - 1, p)
    if isinstance(kernel, Sum):
        return n_features(kernel.left, d) + n_features(kernel.right, d)
    if isinstance(kernel, Product):
        return n_features(kernel.left, d) * n_features(kernel.right, d)
    raise ValueError(
        f"{type(kernel).__name__} has no finite features that are known here; Nystroem and RBFSampler come near it."
    )


def _features(kernel: Kernel, X: Array) -> Array:
    if isinstance(kernel, ConstantKernel):
        return np.full((len(X), 1), math.sqrt(kernel.value), X.dtype)
    if isinstance(kernel, Linear):
        return X
    if isinstance(kernel, CosineKernel):
        return unit_rows(X)
    if isinstance(kernel, Polynomial):
        columns = [
            scale * X[:, list(chosen)].prod(axis=1)
            for chosen, scale in _monomials(kernel, X.shape[1])
        ]
        return np.column_stack(columns).astype(X.dtype, copy=False)
    left, right = _features(kernel.left, X), _features(kernel.right, X)  # type: ignore[attr-defined]
    if isinstance(kernel, Sum):
        return np.hstack([left, right])
    return (left[:, :, None] * right[:, None, :]).reshape(len(X), -1)


def _monomials(kernel: Polynomial, d: int) -> Iterator[tuple[tuple[int, ...], float]]:
    """The columns to multiply and the factor, from (γxᵀy + c)^p = Σ_a p!/(a!(p−|a|)!) γ^|a| c^(p−|a|) x^a y^a."""
    p, gamma, c = int(kernel.degree), float(kernel.gamma), float(kernel.coef0)  # type: ignore[arg-type]
    for size in range(p + 1) if c > 0 else (p,):
        for chosen in combinations_with_replacement(range(d), size):
            orders = math.factorial(p) // math.factorial(p - size)
            for times in Counter(chosen).values():
                orders //= math.factorial(times)
            yield chosen, math.sqrt(orders * gamma**size * c ** (p - size))


# --- their error ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class KernelError:
    """The distance of ΦΦᵀ from K on some rows."""

    largest: float  # max |K_ij − φ_iᵀφ_j|
    frobenius: float  # ‖K − ΦΦᵀ‖ / ‖K‖
    trace: float  # tr(K − ΦΦᵀ) / tr K; for Nyström a bound on the spectral norm, since K − ΦΦᵀ ⪰ 0


def kernel_error(kernel: Kernel, X: Any, features: Array) -> KernelError:
    """Compare features of rows with the kernel of the same rows, a thousand rows of K at a time."""
    X = float_rows(X)
    kernel, features = kernel.fitted(X), np.asarray(features)
    if len(features) != X.shape[0]:
        raise ValueError(
            f"X has {X.shape[0]} rows and the features {len(features)}; pass the features of X."
        )
    largest = wrong = whole = 0.0
    for start in range(0, X.shape[0], ROWS):
        some = slice(start, start + ROWS)
        K = kernel(X[some], X)
        apart = K - features[some] @ features.T
        largest = max(largest, float(np.abs(apart).max(initial=0.0)))
        wrong += float(np.sum(apart.astype(np.float64) ** 2))
        whole += float(np.sum(K.astype(np.float64) ** 2))
    trace = float(kernel.diagonal(X).sum(dtype=np.float64))
    missed = trace - float(np.sum(features.astype(float) ** 2))
    frobenius = math.sqrt(wrong / whole) if whole else 0.0
    return KernelError(largest, frobenius, missed / trace if trace else 0.0)
