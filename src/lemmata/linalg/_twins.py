"""The products of _kernels.py by SciPy, for matrices too small to wait for a compiler. See there."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

Array = np.ndarray


def _rows(indptr: Array, indices: Array, values: Array, d: int) -> sp.csr_array:
    return sp.csr_array((values, indices, indptr), shape=(len(indptr) - 1, d))


def multiply_rows(indptr: Array, indices: Array, values: Array, B: Array, out: Array) -> None:
    """out = X B."""
    out[...] = _rows(indptr, indices, values, len(B)) @ B


def multiply_transposed(indptr: Array, indices: Array, values: Array, U: Array, d: int) -> Array:
    """Y = Xᵀ U, (d, m)."""
    return np.ascontiguousarray(_rows(indptr, indices, values, d).T @ U)


def gram_product(
    indptr: Array,
    indices: Array,
    values: Array,
    B: Array,
    weights: Array | None = None,
    shift: Array | None = None,
) -> tuple[Array, Array]:
    """Y = Xᵀ diag(w) T and wᵀT for T = X B − 1cᵀ; w and c are 1 and 0 where they are None."""
    X = _rows(indptr, indices, values, len(B))
    T = X @ B
    if shift is not None:
        T -= shift
    if weights is not None:
        T *= weights[:, None]
    return np.ascontiguousarray(X.T @ T), T.sum(axis=0)
