"""The base of all kernels, and kernels built of others: κ₁ + κ₂, κ₁ κ₂ and c κ are kernels again (ML Kernel trick)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np

from lemmata.core.store import storable
from lemmata.predict.kernels import tiles
from lemmata.predict.kernels.tiles import float_rows

Array = np.ndarray
Tiles = Callable[[Array, int, np.dtype], Array]


class Kernel:
    """Base of all kernels. `kernel(X, Y)` is the matrix of κ(x_i, y_j); Y = X if not given.

    A subclass defines `_tile(A, B, dtype)`, the matrix of two small sets of rows, and `diagonal(X)`; `_fit_to(X)` where a
    parameter is to be taken from data. `k1 + k2`, `k1 * k2` and `c * k` with c ≥ 0 are kernels again (ML Kernel trick).
    """

    __array_ufunc__ = None  # so that np.float64(2) * kernel calls __rmul__

    def __call__(self, X: Any, Y: Any = None) -> Array:
        """K of shape (len X, len Y); float32 rows give a float32 K. Nothing larger than K is made on the way."""
        X = float_rows(X)
        symmetric = Y is None
        Y = X if symmetric else float_rows(Y)
        if X.shape[1] != Y.shape[1]:
            raise ValueError(
                f"X has {X.shape[1]} features and Y has {Y.shape[1]}; a kernel compares rows of one width."
            )
        kernel = self.fitted(X) if symmetric else self._without_data(X.shape[1])
        K = np.empty((X.shape[0], Y.shape[0]), dtype=np.result_type(X.dtype, Y.dtype))

        def fill(corner: tuple[int, int]) -> None:
            i, j = corner
            here = (slice(i, i + tiles.TILE), slice(j, j + tiles.TILE))
            A = X[here[0]]
            K[here] = kernel._tile(A, A if symmetric and i == j else Y[here[1]], K.dtype)
            if symmetric and i != j:
                K[here[::-1]] = K[here].T  # half the work, and K is symmetric to the last bit

        tiles.side_by_side(
            fill, [(i, j) for i, j in tiles.corners(*K.shape) if not symmetric or j <= i]
        )
        return K

    def diagonal(self, X: Any) -> Array:
        """κ(x_i, x_i) for every row."""
        raise TypeError(f"{type(self).__name__} does not say what κ(x, x) is: define diagonal(X).")

    def fitted(self, X: Any) -> Kernel:
        """Return this kernel with every parameter a number; those left open are taken from X."""
        return self._fit_to(X)

    def _fit_to(self, X: Any) -> Kernel:
        return self

    def _tile(self, A: Any, B: Any, dtype: np.dtype) -> Array:
        raise TypeError(
            f"{type(self).__name__} does not say how to compare rows: define _tile(A, B, dtype)."
        )

    def _against(self, X: Any, members: Array, cuts: list[slice]) -> Tiles:
        """Return the function (rows, c, dtype) → κ between some members of X and those of cut c, to be called many times."""
        X = X[members]
        parts = [X[cut] for cut in cuts]
        return lambda rows, c, dtype: self._tile(X[rows], parts[c], dtype)

    def _without_data(self, n_features: int) -> Kernel:
        """Return this kernel for rows of a width, where nothing has to be measured on data."""
        return self

    def __add__(self, other: Kernel | float) -> Kernel:
        return Sum(self, _as_kernel(other))

    def __mul__(self, other: Kernel | float) -> Kernel:
        return Product(self, _as_kernel(other))

    def __radd__(self, other: float) -> Kernel:
        return Sum(_as_kernel(other), self)

    def __rmul__(self, other: float) -> Kernel:
        return Product(_as_kernel(other), self)


# --- kernels made of others -------------------------------------------------------------------------------------------


@storable
@dataclass(frozen=True)
class ConstantKernel(Kernel):
    """κ(x, y) = c, with the single feature √c: scales a kernel in a product, adds a bias in a sum."""

    version, stored_name = 1, "Constant"

    value: float = 1.0

    def __post_init__(self):
        if not (is_number(self.value) and self.value >= 0):
            raise ValueError(
                f"a kernel can be combined with a number >= 0, not with {self.value!r}: K would not be psd."
            )

    def _tile(self, A, B, dtype):
        return np.full((A.shape[0], B.shape[0]), self.value, dtype=dtype)

    def diagonal(self, X):
        X = float_rows(X)
        return np.full(X.shape[0], self.value, dtype=X.dtype)

    def __repr__(self):
        return f"Constant(value={self.value!r})"


Constant = ConstantKernel  # as users import it


class _Pair(Kernel):
    """Two kernels as one."""

    left: Kernel
    right: Kernel

    def __post_init__(self):
        for part in (self.left, self.right):
            if not isinstance(part, Kernel):
                raise ValueError(
                    f"kernels combine with kernels and numbers, not with a {type(part).__name__}."
                )

    def _fit_to(self, X):
        return replace(self, left=self.left.fitted(X), right=self.right.fitted(X))  # type: ignore[type-var]

    def _without_data(self, n_features):
        left, right = self.left._without_data(n_features), self.right._without_data(n_features)
        return replace(self, left=left, right=right)  # type: ignore[type-var]


@storable
@dataclass(frozen=True)
class Sum(_Pair):
    """κ₁ + κ₂: the features of both, side by side."""

    version = 1

    left: Kernel
    right: Kernel

    def _tile(self, A, B, dtype):
        return self.left._tile(A, B, dtype) + self.right._tile(A, B, dtype)

    def diagonal(self, X):
        return self.left.diagonal(X) + self.right.diagonal(X)


@storable
@dataclass(frozen=True)
class Product(_Pair):
    """κ₁ κ₂: one feature for every pair of features."""

    version = 1

    left: Kernel
    right: Kernel

    def _tile(self, A, B, dtype):
        return self.left._tile(A, B, dtype) * self.right._tile(A, B, dtype)

    def diagonal(self, X):
        return self.left.diagonal(X) * self.right.diagonal(X)


def _as_kernel(value: Any) -> Kernel:
    return ConstantKernel(float(value)) if isinstance(value, Real) else value


def is_number(value: Any) -> bool:
    return (
        isinstance(value, Real) and not isinstance(value, bool) and bool(np.isfinite(float(value)))
    )
