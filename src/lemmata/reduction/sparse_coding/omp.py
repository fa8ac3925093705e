"""Orthogonal matching pursuit: one atom after the other, and all of them fitted again each time.

    minimise  ‖x − zD‖²     over codes z with at most s numbers that are not zero          (NP-hard in general)

OMP is greedy: the atom that correlates most with what is left joins, then z is the least-squares fit on all that joined. Where
the atoms are incoherent enough (audit/reduction/sparse_codes.py says when, for this code) it finds the sparsest code.

Batch OMP (Rubinstein, Zibulevsky & Elad 2008): with G = DDᵀ and c = Dx, correlations with the residual need no residual,
and a signal costs k·d once and then k·s per atom, instead of k·d. Here the products of all atoms with the orthonormal
directions that span the chosen ones are kept (a Cholesky factor row by row), so a step is one subtraction.

    >>> D = np.eye(3)
    >>> pursue(np.array([[3.0, 0.0, -4.0]]), D, n_nonzero=1).dense(3)
    array([[ 0.,  0., -4.]])
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lemmata.core.engine import one_blas_thread, run_tasks, worth_compiling
from lemmata.reduction.sparse_coding import _twins

Array = np.ndarray
ROWS = 1024  # signals of a task: their correlations with all atoms fit into a cache
TWIN_NUMBERS = 2**22  # of Q, the orthonormal directions, that the twin holds at a time
COMPILE_ABOVE = 2**27  # multiplications: some 0.3 s of NumPy


@dataclass(frozen=True)
class Codes:
    """Sparse codes by place: index (n, s), −1 where unused, and value (n, s), 0 there."""

    index: Array
    value: Array

    def dense(self, k: int) -> Array:
        """Z, (n, k)."""
        Z = np.zeros((len(self.index), k), self.value.dtype)
        rows, places = np.nonzero(self.index >= 0)
        Z[rows, self.index[rows, places]] = self.value[rows, places]
        return Z

    def rebuilt(self, D: Array) -> Array:
        """ZD, (n, d)."""
        return self.dense(len(D)) @ D


def pursue(
    X: Array, D: Array, n_nonzero: int, target: float = 0.0, compiled: bool | None = None
) -> Codes:
    """Codes of rows by OMP. NaN in X is not known: such a row is fitted where it is.

    D : atoms (k, d), of any lengths above 0; a choice does not depend on them
    n_nonzero : atoms of a code, at most
    target : squared error at which a code is good enough
    compiled : whether the kernel does the work; by default it does where there is enough of it
    """
    lengths = np.sqrt(np.einsum("ij,ij->i", D, D))
    unit = np.ascontiguousarray(D / lengths[:, None])
    holes = np.isnan(X)
    some = holes.any(axis=1)
    n, k, most = len(X), len(D), min(n_nonzero, len(D))
    if compiled is None:
        compiled = worth_compiling(work(n, X.shape[1], k, most), above=COMPILE_ABOVE)
    index, value = np.full((n, most), -1, np.int64), np.zeros((n, most), X.dtype)
    if compiled and not some.all():
        whole = slice(None) if not some.any() else ~some
        index[whole], value[whole] = _by_kernel(X[whole], unit, most, target)
        left = np.flatnonzero(some)
    else:
        left = np.arange(n)
    step = max(1, TWIN_NUMBERS // max(most * X.shape[1], 1))
    dependent = _dependent(X)
    for start in range(0, len(left), step):
        part = left[start : start + step]
        known = ~holes[part] if some[part].any() else None
        index[part], value[part] = _twins.pursue(X[part], unit, most, target, dependent, known)
    return Codes(index, np.where(index >= 0, value / lengths[index], 0).astype(X.dtype))


def work(n: float, d: int, k: int, most: int) -> float:
    """Multiplications that NumPy takes; the kernel needs fewer, which is not the question."""
    return float(n) * k * d * max(most, 1)


def _dependent(X: Array) -> float:
    """The squared share of an atom outside of the span of others below which it counts as inside."""
    return 64 * float(np.finfo(X.dtype).eps)


def _by_kernel(X: Array, D: Array, most: int, target: float) -> tuple[Array, Array]:
    from lemmata.reduction.sparse_coding import _kernels

    X = np.ascontiguousarray(X)
    n, G = len(X), D @ D.T
    index, value = np.empty((n, most), np.int64), np.empty((n, most), X.dtype)
    squares = np.einsum("ij,ij->i", X, X)
    dependent = X.dtype.type(_dependent(X))

    def task(number: int) -> None:
        part = slice(number * ROWS, min((number + 1) * ROWS, n))
        C = X[part] @ D.T
        _kernels.pursue_into(
            index[part], value[part], 0, len(C), X[part], D, G, C, squares[part], most,
            float(target), dependent,
        )  # fmt: skip

    with one_blas_thread():
        run_tasks(task, -(-n // ROWS))
    return index, value
