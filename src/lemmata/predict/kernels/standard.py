"""The kernels of the notes and of scikit-learn, by class and by name."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from lemmata.core.store import storable
from lemmata.predict.kernels import tiles
from lemmata.predict.kernels.base import Kernel, is_number
from lemmata.predict.kernels.tiles import products

Array = np.ndarray
GAMMAS = ("scale", "auto")


@storable
@dataclass(frozen=True)
class Linear(Kernel):
    """κ(x, y) = xᵀy, the feature map being the identity."""

    version = 1

    def _tile(self, A, B, dtype):
        return products(A, B)

    def diagonal(self, X):
        return tiles.squares(tiles.float_rows(X))


class _WithGamma(Kernel):
    """A kernel with a scale γ: a number, "scale" = 1/(d·Var X), or "auto" = None = 1/d, as in scikit-learn."""

    gamma: float | str | None

    def _fit_to(self, X):
        if not isinstance(self.gamma, str | None):
            return self
        X = tiles.float_rows(X)
        if self.gamma != "scale":
            return self._without_data(X.shape[1])
        with np.errstate(over="ignore"):
            scale = X.shape[1] * tiles.variance(X)
        if not np.isfinite(scale):
            raise ValueError(
                "gamma='scale' is 1/(n_features · Var X), and the variance of X overflows: divide X by its largest number."
            )
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
        if not (is_number(self.degree) and self.degree >= 1 and self.degree == int(self.degree)):
            raise ValueError(
                f"degree={self.degree!r}; a polynomial kernel has a whole degree >= 1."
            )
        if not is_number(self.coef0):
            raise ValueError(
                f"coef0={self.coef0!r}; pass a finite number, >= 0 for a positive semidefinite kernel."
            )

    def _tile(self, A, B, dtype):
        return self._power(products(A, B))

    def diagonal(self, X):
        X = tiles.float_rows(X)
        return self._without_data(X.shape[1])._power(tiles.squares(X))

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
        K = tiles.squared_distances(A, B)
        K *= -float(self.gamma)  # type: ignore[arg-type]
        K = K.astype(dtype, copy=False)
        return np.exp(K, out=K)

    def _against(self, X, members, cuts):
        """−γ‖x − y‖² as one product of longer rows, (2γx, −γ‖x‖², 1) and (y, 1, −γ‖y‖²); sparse rows as everywhere."""
        if sp.issparse(X):
            return super()._against(X, members, cuts)
        gamma, X = float(self.gamma), X[members].astype(np.float64)  # type: ignore[arg-type]
        X -= X.mean(axis=0)  # far from 0 the three terms would cancel
        length, one = -gamma * tiles.squares(X)[:, None], np.ones((len(X), 1))
        left, right = np.hstack([2 * gamma * X, length, one]), np.hstack([X, one, length])
        parts = [right[cut].T for cut in cuts]

        def tile(rows, c, dtype):
            K = (left[rows] @ parts[c]).astype(dtype, copy=False)
            np.minimum(K, 0, out=K)
            return np.exp(K, out=K)

        return tile

    def diagonal(self, X):
        X = tiles.float_rows(X)
        return np.ones(X.shape[0], dtype=X.dtype)


@storable
@dataclass(frozen=True)
class Laplacian(_WithGamma):
    """κ(x, y) = exp(−γ‖x − y‖₁): like the Gaussian, with a kink at x = y and heavier tails.

    Parameters
    ----------
    gamma : float, "scale", "auto" or None
        γ; None is 1/n_features.
    """

    version = 1

    gamma: float | str | None = None

    def __post_init__(self):
        _check_gamma(self.gamma)

    def _tile(self, A, B, dtype):
        from scipy.spatial.distance import cdist

        K = cdist(tiles.dense(A).astype(np.float64), tiles.dense(B).astype(np.float64), "cityblock")
        K *= -float(self.gamma)  # type: ignore[arg-type]
        K = K.astype(dtype, copy=False)
        return np.exp(K, out=K)

    def diagonal(self, X):
        X = tiles.float_rows(X)
        return np.ones(X.shape[0], dtype=X.dtype)


@storable
@dataclass(frozen=True)
class Sigmoid(_WithGamma):
    """κ(x, y) = tanh(γ xᵀy + c): a unit of a network. Not positive semidefinite, so there is no feature space."""

    version = 1

    gamma: float | str | None = None
    coef0: float = 1.0

    def __post_init__(self):
        _check_gamma(self.gamma)
        if not is_number(self.coef0):
            raise ValueError(f"coef0={self.coef0!r}; pass a finite number.")

    def _tile(self, A, B, dtype):
        return self._squash(products(A, B))

    def diagonal(self, X):
        X = tiles.float_rows(X)
        return self._without_data(X.shape[1])._squash(tiles.squares(X))

    def _squash(self, inner):
        inner *= self.gamma
        inner += self.coef0
        return np.tanh(inner, out=inner)


@storable
@dataclass(frozen=True)
class CosineKernel(Kernel):
    """κ(x, y) = xᵀy/(‖x‖‖y‖): the rows scaled to length 1. A row of zeros has no direction, and κ = 0."""

    version, stored_name = 1, "Cosine"

    def _tile(self, A, B, dtype):
        units = unit_rows(A)
        return products(units, units if A is B else unit_rows(B))

    def diagonal(self, X):
        X = tiles.float_rows(X)
        return (np.asarray(abs(X).sum(axis=1)).ravel() > 0).astype(X.dtype)

    def __repr__(self):
        return "Cosine()"


Cosine = CosineKernel  # as users import it


@storable
@dataclass(frozen=True)
class Precomputed(Kernel):
    """The rows are those of K already: κ(x_i, y_j) in column j."""

    version = 1

    def __call__(self, X: Any, Y: Any = None) -> Array:
        X = tiles.dense(tiles.float_rows(X))
        if X.shape[1] != (X.shape[0] if Y is None else Y.shape[0]):
            form = "as many rows as columns"
            if Y is not None:
                form = f"one column for each of the {Y.shape[0]} rows of the fit"
            raise ValueError(
                f"kernel='precomputed' and X has shape {X.shape}; a kernel matrix has {form}."
            )
        return X.copy()

    def _against(self, X, members, cuts):
        parts = [members[cut] for cut in cuts]
        return lambda rows, c, dtype: X[members[rows][:, None], parts[c]].astype(dtype, copy=False)

    def diagonal(self, X):
        return np.diagonal(tiles.dense(tiles.float_rows(X)))


def unit_rows(X: Any) -> Any:
    """Scale rows to length 1, but rows of zeros; by their largest entry first, so that no square over- or underflows."""
    largest = abs(X).max(axis=1)
    largest = largest.toarray() if sp.issparse(largest) else largest
    X = _divide_rows(X, np.asarray(largest).ravel())
    return _divide_rows(X, np.sqrt(tiles.squares(X)))


def _divide_rows(X: Any, lengths: Array) -> Any:
    """Divide each row by its length, where that is not 0."""
    lengths = np.where(lengths > 0, lengths, 1)
    return X / lengths[:, None] if not sp.issparse(X) else sp.csr_array(X / lengths[:, None])


def _check_gamma(gamma: Any) -> None:
    if gamma is None or (isinstance(gamma, str) and gamma in GAMMAS):
        return
    if not (is_number(gamma) and gamma >= 0):
        raise ValueError(
            f"gamma={gamma!r}; pass a finite number >= 0, 'scale', 'auto', or None for 1/n_features."
        )


# --- functions of two rows, or of two matrices ------------------------------------------------------------------------


@dataclass(frozen=True)
class PairFunction(Kernel):
    """κ as a Python function of two rows. Called n² / 2 times: a subclass of Kernel is far faster, and can be stored."""

    function: Callable[..., float]
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def _tile(self, A, B, dtype):
        A, B = tiles.dense(A), tiles.dense(B)
        return np.array(
            [[self.function(a, b, **self.parameters) for b in B] for a in A], dtype=dtype
        )

    def diagonal(self, X):
        X = tiles.float_rows(X)
        return np.array(
            [self.function(x, x, **self.parameters) for x in tiles.dense(X)], dtype=X.dtype
        )


@dataclass(frozen=True)
class MatrixFunction(Kernel):
    """κ as a Python function of two matrices of rows that returns K, as scikit-learn's SVC and SVR take it."""

    function: Callable[..., Array]

    def _tile(self, A, B, dtype):
        K = np.asarray(self.function(A, B))
        if K.shape != (A.shape[0], B.shape[0]):
            raise ValueError(
                f"the kernel function gave an array of shape {K.shape} for {A.shape[0]} and {B.shape[0]} rows; "
                f"it takes two matrices and returns one number for each pair of rows."
            )
        return K.astype(dtype, copy=False)

    def diagonal(self, X):
        X = tiles.float_rows(X)
        rows = (X[i : i + 1] for i in range(X.shape[0]))
        return np.array([float(self._tile(x, x, X.dtype)[0, 0]) for x in rows], dtype=X.dtype)


# --- by name ----------------------------------------------------------------------------------------------------------


KERNELS: dict[str, type[Kernel]] = {
    "linear": Linear,
    "poly": Polynomial,
    "polynomial": Polynomial,
    "rbf": RBF,
    "laplacian": Laplacian,
    "sigmoid": Sigmoid,
    "cosine": CosineKernel,
    "precomputed": Precomputed,
}


def kernel_of(kernel: str | Kernel | Callable, **parameters: Any) -> Kernel:
    """Return the kernel that a name, a Kernel or a function of two rows stands for.

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
        own = {name: value for name, value in parameters.items() if name in known}
        return KERNELS[kernel](**own)
    if callable(kernel) and not isinstance(kernel, type):
        return PairFunction(kernel, parameters)
    found = repr(kernel)
    if isinstance(kernel, type):
        found = f"the class {kernel.__name__}, not an instance of it"
    raise ValueError(
        f"kernel is {found}; pass one of {', '.join(map(repr, KERNELS))}, a Kernel such as RBF(gamma=0.1), "
        "or a function of two rows."
    )


def brief(kernel: Kernel) -> str:
    """Describe a kernel in a title: numbers with four digits."""
    return re.sub(r"\d+\.\d+(e[-+]?\d+)?", lambda number: f"{float(number[0]):.4g}", repr(kernel))


def named_kernel(model: Any) -> Kernel:
    """Return κ by the parameters kernel, gamma, degree, coef0 and kernel_params of a model (a function takes two rows)."""
    kernel = model.kernel
    if isinstance(kernel, Kernel):
        if model.gamma is not None:
            raise ValueError(
                f"gamma={model.gamma} is given twice: {kernel!r} has its own; leave gamma=None."
            )
        return kernel
    if callable(kernel):
        return kernel_of(kernel, **(model.kernel_params or {}))
    given = {"gamma": model.gamma, "degree": model.degree, "coef0": model.coef0}
    return kernel_of(kernel, **{name: value for name, value in given.items() if value is not None})


def refuse_overflow(kernel: Kernel, X: Any) -> None:
    """Refuse rows whose κ(x, x), which bounds every entry of a positive semidefinite K, is beyond floats."""
    if isinstance(kernel, Precomputed):
        return
    with np.errstate(over="ignore", invalid="ignore"):
        finite = np.isfinite(kernel.diagonal(X)).all()
    if not finite:
        raise ValueError(
            f"{kernel!r} gives numbers beyond {X.dtype} on this data; scale the columns, or lower degree."
        )
