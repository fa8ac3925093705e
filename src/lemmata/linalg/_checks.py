"""Checks of the input of every function of this package, with the messages about what is wrong with it.

A matrix here is anything with `@` and `.shape`: an array, a sparse matrix, a scipy LinearOperator, a user's object.
"""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np

from lemmata.core.validation import NotFinite

LARGEST = 1e150  # its square, summed over a million entries, is still a float64


def as_matrix(A: Any, name: str = "A") -> Any:
    """A itself if it can be multiplied, else an array made of it; refuses what is not a real, finite, non-empty matrix.

    The entries of an operator cannot be looked at; its products are (`product`).
    """
    if not (hasattr(A, "__matmul__") and hasattr(A, "shape")):
        A = np.asarray(A)
    if len(A.shape) != 2 or 0 in A.shape:
        raise ValueError(
            f"{name} has shape {tuple(A.shape)}; a matrix with at least one row and one column is needed."
        )
    kind = np.dtype(getattr(A, "dtype", None) or float).kind
    if kind not in "biuf":
        raise ValueError(f"{name} holds {A.dtype}; real numbers are accepted.")
    entries = A if isinstance(A, np.ndarray) else getattr(A, "data", None)
    if (
        isinstance(entries, np.ndarray)
        and entries.dtype.kind == "f"
        and not np.isfinite(entries).all()
    ):
        raise NotFinite(f"{name} contains NaN or infinity; drop or fill those entries first.")
    return A


def as_square(A: Any, name: str = "A") -> Any:
    """`as_matrix`, and as many rows as columns."""
    A = as_matrix(A, name)
    if A.shape[0] != A.shape[1]:
        raise ValueError(f"{name} is {A.shape[0]} × {A.shape[1]}; a square matrix is needed.")
    return A


def as_dense(A: Any, name: str = "A") -> np.ndarray:
    """A checked matrix with its entries in a float array; a vector becomes a column."""
    if hasattr(A, "toarray"):
        A = A.toarray()
    array = np.asarray(A)
    array = as_matrix(array[:, None] if array.ndim == 1 else array, name)
    return array.astype(float_type(array), copy=False)


def count(k: Any, most: int | None = None, name: str = "k") -> int:
    """k as an int ≥ 1, and ≤ `most` if that is given."""
    if (
        isinstance(k, bool)
        or not isinstance(k, Integral)
        or int(k) < 1
        or (most is not None and int(k) > most)
    ):
        accepted = (
            "an int >= 1"
            if most is None
            else f"an int between 1 and {most}, the size of this matrix"
        )
        raise ValueError(f"{name}={k!r} is not accepted; pass {accepted}.")
    return int(k)


def positive(value: Any, name: str) -> float:
    """A finite number ≥ 0 as a float."""
    if not isinstance(value, Real) or not 0 <= float(value) < np.inf:
        raise ValueError(f"{name}={value!r} is not accepted; pass a finite number >= 0.")
    return float(value)


def float_type(A: Any) -> np.dtype:
    """The float type to work in: float32 stays float32, everything else becomes float64."""
    return np.dtype(np.float32 if getattr(A, "dtype", None) == np.float32 else np.float64)


def product(A: Any, X: np.ndarray) -> np.ndarray:
    """A @ X as an array in the type of X, refused if it is not finite or of the wrong shape. May share memory with X."""
    with np.errstate(invalid="ignore", over="ignore"):  # the error below says it, on every CPU
        Y = np.array(A @ X, dtype=X.dtype, order="C", copy=None)
    if Y.shape != (A.shape[0], *X.shape[1:]):
        raise ValueError(
            f"A @ X has shape {Y.shape} for an X of shape {X.shape}; A is not the matrix its shape promises."
        )
    if Y.size and not max(float(Y.max()), -float(Y.min())) < LARGEST:  # a NaN fails this too
        raise NotFinite(
            "a product with A is not finite: A contains NaN or infinity, or overflows; clean or scale it."
        )
    return Y


def norm(X: np.ndarray, axis: int | None = None) -> Any:
    """The 2-norm of all entries, or along an axis, in float64; scaled, so that no square over- or underflows."""
    X = np.asarray(X, dtype=np.float64)
    size = float(np.abs(X).max(initial=0.0)) or 1.0
    return size * np.linalg.norm(X / size, axis=axis)


def residual_norms(A: Any, values: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """‖A x_j − θ_j x_j‖ for each column; for a symmetric A an eigenvalue lies within it of θ_j (‖x_j‖ = 1)."""
    return norm(product(A, vectors) - vectors * values.astype(vectors.dtype), axis=0)


def check_symmetric(A: Any, rng: np.random.Generator) -> None:
    """Refuse a square A that is visibly not symmetric, for the price of one product with two random vectors.

    For standard normal x, y: xᵀAy − yᵀAx has standard deviation ‖A − Aᵀ‖_F and ‖Ax‖² has mean ‖A‖_F², so their ratio
    estimates the relative asymmetry. √eps lies between what rounding (some eps) and what a mistake (about 1) can cause.
    """
    dtype = float_type(A)
    Z = rng.standard_normal((A.shape[0], 2)).astype(dtype)
    AZ = product(A, Z).astype(np.float64)
    gap = abs(Z[:, 0] @ AZ[:, 1] - Z[:, 1] @ AZ[:, 0])
    if gap > np.sqrt(np.finfo(dtype).eps) * norm(AZ):
        raise ValueError(
            f"A is not symmetric (|xᵀAy − yᵀAx| = {gap:.2g} for random x, y); "
            "pass (A + A.T) / 2, or A.T @ A for singular values."
        )
