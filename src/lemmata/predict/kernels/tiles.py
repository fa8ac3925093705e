"""Tiles of kernel matrices: products and distances of two small sets of rows, and what they need of memory."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

from lemmata.core.blocks import all_rows as all_rows
from lemmata.core.engine import one_blas_thread, run_tasks

Array = np.ndarray
SHARE_OF_MEMORY = 0.6  # of the machine that kernel matrices may take
TILE = 512  # rows and columns worked on at once: 2 MB of float64 stay in the cache between the passes over them


def float_rows(X: Any) -> Any:
    """Return rows as a two-dimensional float array, or CSR if sparse."""
    X = sp.csr_array(X) if sp.issparse(X) else np.asarray(X)
    if X.ndim != 2:
        raise ValueError(
            f"rows of shape {X.shape}; a kernel takes a matrix, one row per point (use X.reshape(1, -1))."
        )
    return X if X.dtype in (np.float32, np.float64) else X.astype(np.float64)


def dense(A: Any) -> Array:
    return A.toarray() if sp.issparse(A) else A


def corners(n: int, m: int) -> Iterator[tuple[int, int]]:
    return ((i, j) for i in range(0, n, TILE) for j in range(0, m, TILE))


def side_by_side(work: Callable[[tuple[int, int]], None], corners: list[tuple[int, int]]) -> None:
    """Run tiles on all threads: they do not overlap, so the result does not depend on the threads."""
    with one_blas_thread():
        run_tasks(lambda task: work(corners[task]), len(corners))


def products(A: Any, B: Any) -> Array:
    return dense(A @ B.T)


def squares(A: Any) -> Array:
    """‖x‖² of every row."""
    if sp.issparse(A):
        return np.asarray(A.multiply(A).sum(axis=1)).ravel()
    return np.einsum("ij,ij->i", A, A)


def squared_distances(A: Any, B: Any) -> Array:
    """‖x − y‖² = ‖x‖² + ‖y‖² − 2xᵀy in float64, about a point among the rows: far from 0 the three terms would cancel."""
    same = A is B
    A = A.astype(np.float64)
    B = A if same else B.astype(np.float64)
    # centring would fill sparse rows, and their zeros keep them near 0
    if not (sp.issparse(A) or sp.issparse(B)):
        centre = B.mean(axis=0)
        A = A - centre
        B = A if same else B - centre
    D = products(A, B)
    D *= -2
    D += np.add.outer(squares(A), squares(B))
    if same:
        np.fill_diagonal(D, 0)
    return np.maximum(D, 0, out=D)


def variance(X: Any) -> float:
    """The variance of all entries, zeros included."""
    if not sp.issparse(X):
        return float(X.var(dtype=np.float64))
    mean = X.mean(dtype=np.float64)
    return float(X.multiply(X).mean(dtype=np.float64) - mean**2)


def memory() -> float:
    """Memory of this machine in bytes; infinity where the system does not say."""
    try:
        return float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, ValueError, OSError):
        return float("inf")


def too_large(n: int, itemsize: int, copies: int = 1) -> str:
    """Say why so many copies of an n × n kernel matrix do not fit into memory; empty if they do."""
    needed, limit = n * n * itemsize * copies, SHARE_OF_MEMORY * memory()
    if needed <= limit:
        return ""
    return f"the kernel matrix of {n:,} rows needs {needed / 2**30:,.1f} GB, more than the {limit / 2**30:,.1f} GB it may take"


def refuse_asymmetric(K: Array) -> None:
    """Refuse a precomputed kernel matrix that is not square and symmetric."""
    if K.shape[0] != K.shape[1]:
        raise ValueError(
            f"Precomputed matrix must be a square matrix. Input is a {K.shape[0]}x{K.shape[1]} matrix."
        )
    largest = float(np.abs(K).max(initial=0.0))
    for start in range(0, len(K), 1024):
        here = slice(start, start + 1024)
        apart = float(np.abs(K[here] - K[:, here].T).max())
        if not apart <= 1e-6 * largest:
            raise ValueError(
                f"kernel='precomputed' and K is not symmetric (K and its transpose differ by {apart:.2g}); pass (K + K.T) / 2."
            )
