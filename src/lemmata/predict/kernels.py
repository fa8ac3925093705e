"""Kernels: inner products of features that are never computed.

    κ(x, x') = φ(x)ᵀφ(x')

A method that sees its rows through inner products alone works in the feature space of φ at the price of κ (ML Kernel
trick). Such a κ exists for some φ exactly if every matrix K = (κ(x_i, x_j)) is symmetric and positive semidefinite (ML
Mercer). Here a kernel is an object: it is called with rows, adds and multiplies with others, and is stored with a model.

    >>> import numpy as np
    >>> X = np.array([[0.0, 1.0], [2.0, 1.0]])
    >>> RBF(gamma=0.5)(X).round(3)
    array([[1.   , 0.135],
           [0.135, 1.   ]])
    >>> (2 * Linear() + Polynomial(degree=2, gamma=1.0))(X, X[:1]).ravel()
    array([6., 6.])

The notes' map of the one-dimensional RBF kernel misses a factor: φ_k(x) = e^{−x²} √(2^k/k!) x^k; and that of a product has
one entry per *pair* of features, φ(x)_ij = φ₁(x)_i φ₂(x)_j.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, fields, replace
from numbers import Real
from typing import Any

import numpy as np
import scipy.sparse as sp

from lemmata.core.engine import cores, one_blas_thread
from lemmata.core.store import storable

Array = np.ndarray
SHARE_OF_MEMORY = 0.6  # of the machine that kernel matrices may take
TILE = 512  # rows and columns worked on at once: 2 MB of float64 stay in the cache between the passes over them
GAMMAS = ("scale", "auto")


class Kernel:
    """Base of all kernels. `kernel(X, Y)` is the matrix of κ(x_i, y_j); Y = X if not given.

    A subclass defines `_tile(A, B, dtype)`, the matrix of two small sets of rows, and `diagonal(X)`; `fitted(X)` where a
    parameter is to be taken from data. `k1 + k2`, `k1 * k2` and `c * k` with c ≥ 0 are kernels again (ML Building kernels).
    """

    __array_ufunc__ = None  # np.float64(2) * kernel is for __rmul__ to answer

    def __call__(self, X: Any, Y: Any = None) -> Array:
        """K of shape (len X, len Y); float32 rows give a float32 K. Nothing larger than K is made on the way."""
        X = _rows(X)
        symmetric = Y is None
        Y = X if symmetric else _rows(Y)
        if X.shape[1] != Y.shape[1]:
            raise ValueError(
                f"X has {X.shape[1]} features and Y has {Y.shape[1]}; a kernel compares rows of one width."
            )
        kernel = self.fitted(X) if symmetric else self._without_data(X.shape[1])
        K = np.empty((X.shape[0], Y.shape[0]), dtype=np.result_type(X.dtype, Y.dtype))

        def fill(corner: tuple[int, int]) -> None:
            i, j = corner
            here = (slice(i, i + TILE), slice(j, j + TILE))
            A = X[here[0]]
            K[here] = kernel._tile(A, A if symmetric and i == j else Y[here[1]], K.dtype)
            if symmetric and i != j:
                K[here[::-1]] = K[here].T  # half the work, and K is symmetric to the last bit

        _side_by_side(fill, [(i, j) for i, j in _corners(*K.shape) if not symmetric or j <= i])
        return K

    def diagonal(self, X: Any) -> Array:
        """κ(x_i, x_i) for every row."""
        raise TypeError(f"{type(self).__name__} does not say what κ(x, x) is: define diagonal(X).")

    def fitted(self, X: Any) -> Kernel:
        """This kernel with every parameter a number; those left open are taken from X."""
        return self

    def _tile(self, A: Any, B: Any, dtype: np.dtype) -> Array:
        raise TypeError(
            f"{type(self).__name__} does not say how to compare rows: define _tile(A, B, dtype)."
        )

    def _without_data(self, n_features: int) -> Kernel:
        """This kernel for rows of a width, where nothing has to be measured on data."""
        return self

    def __add__(self, other: Kernel | float) -> Kernel:
        return Sum(self, _as_kernel(other))

    def __mul__(self, other: Kernel | float) -> Kernel:
        return Product(self, _as_kernel(other))

    def __radd__(self, other: float) -> Kernel:
        return Sum(_as_kernel(other), self)

    def __rmul__(self, other: float) -> Kernel:
        return Product(_as_kernel(other), self)


# --- the kernels of the notes -----------------------------------------------------------------------------------------


@storable
@dataclass(frozen=True)
class Linear(Kernel):
    """κ(x, y) = xᵀy, the feature map being the identity."""

    version = 1

    def _tile(self, A, B, dtype):
        return _products(A, B)

    def diagonal(self, X):
        return _squares(_rows(X))


class _WithGamma(Kernel):
    """A kernel with a scale γ: a number, "scale" = 1/(d·Var X), or "auto" = None = 1/d, as scikit-learn's users know them."""

    gamma: float | str | None

    def fitted(self, X):
        if not isinstance(self.gamma, str | None):
            return self
        X = _rows(X)
        if self.gamma != "scale":
            return self._without_data(X.shape[1])
        scale = X.shape[1] * _variance(X)
        # rows that do not vary, as far as floats can tell
        gamma = 1 / scale if scale > np.finfo(float).tiny else 1.0
        return replace(self, gamma=gamma)  # type: ignore[type-var]

    def _without_data(self, n_features):
        if self.gamma == "scale":
            raise ValueError(
                "gamma='scale' is measured on the training rows; call kernel.fitted(X) first."
            )
        return replace(self, gamma=1 / n_features) if self.gamma in ("auto", None) else self  # type: ignore[type-var]


@storable
@dataclass(frozen=True)
class Polynomial(_WithGamma):
    """κ(x, y) = (γ xᵀy + c)^p: all monomials of degree p, and with c > 0 those of lower degree too.

    Parameters
    ----------
    degree : int, default=3
        p.
    gamma : float, "scale", "auto" or None
        γ; None is 1/n_features.
    coef0 : float, default=1.0
        c. Below zero this is not positive semidefinite, hence no kernel in the strict sense.
    """

    version = 1

    degree: int = 3
    gamma: float | str | None = None
    coef0: float = 1.0

    def __post_init__(self):
        _check_gamma(self.gamma)
        if not (_is_number(self.degree) and self.degree >= 1 and self.degree == int(self.degree)):
            raise ValueError(
                f"degree={self.degree!r}; a polynomial kernel has a whole degree >= 1."
            )
        if not _is_number(self.coef0):
            raise ValueError(
                f"coef0={self.coef0!r}; pass a finite number, >= 0 for a positive semidefinite kernel."
            )

    def _tile(self, A, B, dtype):
        return self._power(_products(A, B))

    def diagonal(self, X):
        X = _rows(X)
        return self._without_data(X.shape[1])._power(_squares(X))

    def _power(self, products):
        base = products
        base *= self.gamma
        base += self.coef0
        result = base if self.degree == 1 else base.copy()
        for _ in range(int(self.degree) - 1):  # products are ten times as fast as pow()
            result *= base
        return result


@storable
@dataclass(frozen=True)
class RBF(_WithGamma):
    """κ(x, y) = exp(−γ‖x − y‖²), the Gaussian kernel; its feature space has infinitely many dimensions.

    Parameters
    ----------
    gamma : float, "scale", "auto" or None
        γ = 1/(2σ²) of a Gaussian of width σ; None is 1/n_features. Too large, and K is the identity: every row resembles
        itself alone. Too small, and K is all ones.
    """

    version = 1

    gamma: float | str | None = None

    def __post_init__(self):
        _check_gamma(self.gamma)

    def _tile(self, A, B, dtype):
        K = _squared_distances(A, B)
        K *= -float(self.gamma)  # type: ignore[arg-type]
        K = K.astype(dtype, copy=False)
        return np.exp(K, out=K)

    def diagonal(self, X):
        X = _rows(X)
        return np.ones(X.shape[0], dtype=X.dtype)


# --- kernels made of others -------------------------------------------------------------------------------------------


@storable
@dataclass(frozen=True)
class Constant(Kernel):
    """κ(x, y) = c, with the single feature √c: scales a kernel in a product, adds a bias in a sum."""

    version = 1

    value: float = 1.0

    def __post_init__(self):
        if not (_is_number(self.value) and self.value >= 0):
            raise ValueError(
                f"a kernel can be combined with a number >= 0, not with {self.value!r}: K would not be psd."
            )

    def _tile(self, A, B, dtype):
        return np.full((A.shape[0], B.shape[0]), self.value, dtype=dtype)

    def diagonal(self, X):
        X = _rows(X)
        return np.full(X.shape[0], self.value, dtype=X.dtype)


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

    def fitted(self, X):
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


@dataclass(frozen=True)
class PairFunction(Kernel):
    """κ as a Python function of two rows. Called n² / 2 times: a subclass of Kernel is far faster, and can be stored."""

    function: Callable[..., float]
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def _tile(self, A, B, dtype):
        A, B = _dense(A), _dense(B)
        return np.array(
            [[self.function(a, b, **self.parameters) for b in B] for a in A], dtype=dtype
        )

    def diagonal(self, X):
        X = _rows(X)
        return np.array([self.function(x, x, **self.parameters) for x in _dense(X)], dtype=X.dtype)


KERNELS: dict[str, type[Kernel]] = {
    "linear": Linear,
    "poly": Polynomial,
    "polynomial": Polynomial,
    "rbf": RBF,
}


def kernel_of(kernel: str | Kernel | Callable, **parameters: Any) -> Kernel:
    """The kernel that a name, a Kernel or a function of two rows stands for.

    A name takes from `gamma`, `degree` and `coef0` what its kernel has; a function is given all parameters.

    >>> kernel_of("rbf", gamma=0.1, degree=3)
    RBF(gamma=0.1)
    """
    if isinstance(kernel, Kernel):
        if parameters:
            raise ValueError(
                f"{kernel!r} has its parameters already; leave out {', '.join(parameters)}."
            )
        return kernel
    if isinstance(kernel, str) and kernel in KERNELS:
        stray = set(parameters) - {"gamma", "degree", "coef0"}
        if stray:
            raise TypeError(
                f"unknown kernel parameter {min(stray)!r}; there are gamma, degree and coef0."
            )
        known = {item.name for item in fields(KERNELS[kernel])}  # type: ignore[arg-type]
        return KERNELS[kernel](
            **{name: value for name, value in parameters.items() if name in known}
        )
    if callable(kernel) and not isinstance(kernel, type):
        return PairFunction(kernel, parameters)
    found = (
        f"the class {kernel.__name__}, not an instance of it"
        if isinstance(kernel, type)
        else repr(kernel)
    )
    raise ValueError(
        f"kernel is {found}; pass one of {', '.join(map(repr, KERNELS))}, a Kernel such as RBF(gamma=0.1), "
        "or a function of two rows."
    )


def memory() -> float:
    """Bytes of this machine; infinity where the system does not say."""
    try:
        return float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, ValueError, OSError):
        return float("inf")


def too_large(n: int, itemsize: int, copies: int = 1) -> str:
    """Why so many copies of an n × n kernel matrix do not fit this machine; empty if they do."""
    needed, limit = n * n * itemsize * copies, SHARE_OF_MEMORY * memory()
    if needed <= limit:
        return ""
    return f"the kernel matrix of {n:,} rows needs {needed / 2**30:,.1f} GB, more than the {limit / 2**30:,.1f} GB it may take"


# --- rows and tiles ---------------------------------------------------------------------------------------------------


def _as_kernel(value: Any) -> Kernel:
    return (
        value
        if isinstance(value, Kernel) or not isinstance(value, Real)
        else Constant(float(value))
    )


def _is_number(value: Any) -> bool:
    return (
        isinstance(value, Real) and not isinstance(value, bool) and bool(np.isfinite(float(value)))
    )


def _check_gamma(gamma: Any) -> None:
    if gamma is None or (isinstance(gamma, str) and gamma in GAMMAS):
        return
    if not (_is_number(gamma) and gamma >= 0):
        raise ValueError(
            f"gamma={gamma!r}; pass a finite number >= 0, 'scale', 'auto', or None for 1/n_features."
        )


def _rows(X: Any) -> Any:
    """Two-dimensional float rows, CSR if sparse."""
    X = sp.csr_array(X) if sp.issparse(X) else np.asarray(X)
    if X.ndim != 2:
        raise ValueError(
            f"rows of shape {X.shape}; a kernel takes a matrix, one row per point (use X.reshape(1, -1))."
        )
    return X if X.dtype in (np.float32, np.float64) else X.astype(np.float64)


def _dense(A: Any) -> Array:
    return A.toarray() if sp.issparse(A) else A


def _corners(n: int, m: int) -> Iterator[tuple[int, int]]:
    return ((i, j) for i in range(0, n, TILE) for j in range(0, m, TILE))


def _side_by_side(work: Callable[[tuple[int, int]], None], corners: list[tuple[int, int]]) -> None:
    """Tiles do not touch each other, so threads change nothing but the time."""
    if len(corners) == 1:
        return work(corners[0])
    with one_blas_thread(), ThreadPoolExecutor(cores()) as pool:
        for _ in pool.map(work, corners):
            pass  # brings up the error of a tile, if any


def _products(A: Any, B: Any) -> Array:
    return _dense(A @ B.T)


def _squares(A: Any) -> Array:
    """‖x‖² of every row."""
    return (
        np.asarray(A.multiply(A).sum(axis=1)).ravel()
        if sp.issparse(A)
        else np.einsum("ij,ij->i", A, A)
    )


def _squared_distances(A: Any, B: Any) -> Array:
    """‖x − y‖² = ‖x‖² + ‖y‖² − 2xᵀy in float64, about a point among the rows: far from 0 the three terms would cancel."""
    same = A is B
    A = A.astype(np.float64)
    B = A if same else B.astype(np.float64)
    # centring would fill sparse rows, and their zeros keep them near 0
    if not (sp.issparse(A) or sp.issparse(B)):
        centre = B.mean(axis=0)
        A = A - centre
        B = A if same else B - centre
    D = _products(A, B)
    D *= -2
    D += np.add.outer(_squares(A), _squares(B))
    if same:
        np.fill_diagonal(D, 0)
    return np.maximum(D, 0, out=D)


def _variance(X: Any) -> float:
    """Of all entries, zeros included."""
    if not sp.issparse(X):
        return float(X.var(dtype=np.float64))
    mean = X.mean(dtype=np.float64)
    return float(X.multiply(X).mean(dtype=np.float64) - mean**2)
