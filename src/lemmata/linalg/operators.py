"""Matrices that are never formed: anything with `@` and `.shape` will do, and these two stand for centred data.

    CentredRows      A = diag(√w) (X − 1μᵀ)                        n × d
    CentredScatter   S = AᵀA = Σ_i w_i (x_i − μ)(x_i − μ)ᵀ         d × d, symmetric, positive semi-definite

Subtracting μ would fill a sparse X, but a product does not need it. Let s = Xᵀw, W = Σw, and T = XV − 1cᵀ for any c; then

    SV = Xᵀ diag(w) T − μ (wᵀT) − (s − Wμ)(μᵀV − cᵀ)

With c = μᵀV the last term is zero, and with μ the mean the middle one too: they stay because numbers are rounded. An error
common to all rows of T, such as that of c, cancels in the first two. The textbook form XᵀWXV − Wμμᵀ V is the same number, but
as the difference of two large ones.

    >>> import numpy as np, scipy.sparse as sp
    >>> X = sp.random_array((50, 8), density=0.2, format="csr", rng=np.random.default_rng(0))
    >>> S = CentredScatter(X)
    >>> C = X.toarray() - X.toarray().mean(axis=0)
    >>> bool(np.allclose(S @ np.eye(8), C.T @ C)), bool(np.isclose(S.trace, np.trace(C.T @ C)))
    (True, True)
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import scipy.sparse as sp

from lemmata.core.blocks import Blocks
from lemmata.core.engine import map_reduce, pick, worth_compiling
from lemmata.core.validation import NotFinite, refuse_malformed
from lemmata.linalg._checks import float_type

Array = np.ndarray
COLUMNS = 256  # that a solver multiplies in all, if it does not say
COMPILE_ABOVE = 2**28  # entries × columns: 0.4 s of SciPy's 3 GFLOP/s, 0.08 s of ours


# --- what counts as an operator ---------------------------------------------------------------------------------------


class Operator:
    """A matrix given by its products: `times(V)` is A V and `transposed_times(U)` is Aᵀ U, for blocks of columns."""

    def __init__(
        self,
        shape: tuple[int, int],
        dtype: Any,
        times: Callable,
        transposed_times: Callable | None = None,
    ) -> None:
        self.shape, self.dtype = (int(shape[0]), int(shape[1])), np.dtype(dtype)
        self._times, self._transposed_times = times, transposed_times

    def __matmul__(self, V: Any) -> Array:
        V = np.asarray(V)
        if V.ndim not in (1, 2) or V.shape[0] != self.shape[1]:
            n, d = self.shape
            raise ValueError(
                f"a {n} × {d} operator multiplies arrays of shape ({d},) or ({d}, m); got {V.shape}."
            )
        product = self._times(V[:, None] if V.ndim == 1 else V)
        return (product[:, 0] if V.ndim == 1 else product).astype(
            np.result_type(self.dtype, V.dtype), copy=False
        )

    @property
    def T(self) -> Operator:
        if self._transposed_times is None:
            raise TypeError(
                "this operator knows no product with its transpose; give it a .T or an rmatmul(U)."
            )
        return Operator(self.shape[::-1], self.dtype, self._transposed_times, self._times)


def as_operator(A: Any, transpose: bool = False) -> Any:
    """A as something with `@` and `.shape`, and with `.T` if `transpose` is asked for.

    Arrays stay arrays (of floats), sparse matrices become `SparseRows`; a scipy LinearOperator or any object with `@` and
    `.shape` is taken at its word. Where an object has `rmatmul(U)` = Aᵀ U instead of `.T`, that is used.
    """
    if sp.issparse(A):
        return SparseRows(A)
    if isinstance(A, (np.ndarray, list, tuple)):
        return _as_floats(np.asarray(A))
    shape = getattr(A, "shape", None)
    if not hasattr(A, "__matmul__") or not isinstance(shape, tuple) or len(shape) != 2:
        raise TypeError(
            f"a {type(A).__name__} is not a matrix; accepted are arrays, sparse matrices, scipy LinearOperators and "
            "objects with `@` and a .shape of two numbers."
        )
    if not transpose or hasattr(A, "T"):
        return A
    if hasattr(A, "rmatmul"):
        return Operator(shape, float_type(A), A.__matmul__, A.rmatmul)
    raise TypeError(
        f"this needs products with the transpose, and the {type(A).__name__} offers none; "
        "give it a .T that has `@`, or a method rmatmul(U) that returns Aᵀ U."
    )


def _as_floats(A: Any) -> Any:
    if A.ndim != 2:
        raise ValueError(f"the array has shape {A.shape}; a matrix has two dimensions.")
    if A.dtype.kind not in "biuf":
        raise TypeError(f"the matrix has dtype {A.dtype}; accepted are real numbers.")
    return A if A.dtype in (np.float32, np.float64) else A.astype(np.float64)


class SparseRows(Operator):
    """A sparse X as an operator: X V and Xᵀ U on all cores, and Xᵀ diag(w)(X V − 1cᵀ) in one pass.

    columns : how many columns will be multiplied in all, roughly: small work is done by SciPy, without a compiler
    """

    def __init__(self, X: Any, columns: float = COLUMNS) -> None:
        refuse_malformed(X)  # kernels do not look
        X = _as_floats(X).tocsr()
        self.X, self._parts = X, (X.indptr, X.indices, X.data)
        self._kernels = _kernels_for(X.nnz * columns)
        super().__init__(X.shape, X.dtype, self._multiply, self._multiply_transposed)

    def _multiply(self, V: Array) -> Array:
        if V.shape[1] == 1:  # nothing to gain from blocks
            return self.X @ self._like(V)
        out = np.empty((self.shape[0], V.shape[1]), self.dtype)
        self._kernels.multiply_rows(*self._parts, self._like(V), out)
        return out

    def _multiply_transposed(self, U: Array) -> Array:
        if U.shape[1] == 1:
            return self.X.T @ self._like(U)
        return self._kernels.multiply_transposed(*self._parts, self._like(U), self.shape[1])

    def gram(
        self, V: Array, weights: Array | None = None, shift: Array | None = None
    ) -> tuple[Array, Array]:
        """Xᵀ diag(w) T and wᵀT for T = XV − 1cᵀ, V (d, m), with c the shift (m,)."""
        weights, shift = (None if part is None else self._like(part) for part in (weights, shift))
        return self._kernels.gram_product(*self._parts, self._like(V), weights, shift)

    def _like(self, V: Array) -> Array:
        return np.ascontiguousarray(V, dtype=self.dtype)


def _kernels_for(work: float) -> ModuleType:
    """SciPy's products where all of them together take less than about half a second, else compiled kernels."""
    return pick(worth_compiling(work, above=COMPILE_ABOVE), "lemmata.linalg")


# --- sums over the data -----------------------------------------------------------------------------------------------


def weighted_sum(data: Blocks) -> Array:
    """s = Σ w_i x_i in float64, one pass over anything."""

    def of(rows, weights):
        if not sp.issparse(rows):
            return rows.sum(axis=0, dtype=np.float64) if weights is None else weights @ rows
        return rows.T @ (np.ones(rows.shape[0]) if weights is None else weights)

    total = map_reduce(of, data, np.zeros(data.shape[1]))
    if not np.isfinite(total).all():
        raise NotFinite(
            "the data contains NaN or infinity (or numbers too large for its dtype); clean or impute it."
        )
    return total


def weighted_mean(data: Blocks) -> Array:
    """μ = Σ w_i x_i / Σ w_i in float64."""
    return _mean(weighted_sum(data), data.total_weight)


def _mean(total: Array, weight: float) -> Array:
    if weight <= 0:
        raise ValueError(
            "the rows have no weight in all, so they have no mean; give at least one row a weight > 0."
        )
    return total / weight


def _as_blocks(data: Any) -> Blocks:
    return Blocks.of(
        _as_floats(data) if isinstance(data, np.ndarray) or sp.issparse(data) else data
    )


def _centre(mean: Any, d: int) -> Array:
    mean = np.asarray(mean, dtype=np.float64)
    if mean.shape != (d,) or not np.isfinite(mean).all():
        raise ValueError(
            f"the mean has shape {mean.shape}; accepted are {d} finite numbers, one per column of the data."
        )
    return mean


# --- centred data -----------------------------------------------------------------------------------------------------


class CentredScatter(Operator):
    """S = Σ w_i (x_i − μ)(x_i − μ)ᵀ, never formed and never densifying sparse rows. `S @ V` is one pass over the data.

    Products are made in the dtype of the data; blocks are added up in float64.

    Parameters
    ----------
    data : Blocks, or anything `Blocks.of` takes
        The rows x_i with their weights w_i.
    mean : array of shape (d,), optional
        μ, the centre; the weighted mean of the rows if not given.
    columns : float, optional
        How many columns will be multiplied in all, roughly (see SparseRows).
    """

    def __init__(self, data: Any, mean: Any = None, columns: float = COLUMNS) -> None:
        self.data = data = _as_blocks(data)
        self.n = data.total_weight
        needed = mean is None or data.sparse  # dense blocks are centred themselves
        self._sum = weighted_sum(data) if needed else np.zeros(0)
        self.mean = _mean(self._sum, self.n) if mean is None else _centre(mean, data.shape[1])
        self._rows = SparseRows(data.source, columns) if data.sparse else None
        self._trace: float | None = None
        d = data.shape[1]
        super().__init__((d, d), data.dtype, self._multiply, self._multiply)

    @classmethod
    def of(cls, data: Any) -> CentredScatter:
        """The scatter of the data around its own weighted mean."""
        return cls(data)

    def fingerprint(self) -> str:
        return self.data.fingerprint()

    def _multiply(self, V: Array) -> Array:
        if self._rows is None:
            return self._multiply_blocks(V)
        image = self.mean @ V.astype(np.float64)
        c = image.astype(self.dtype)
        product, sums = self._rows.gram(V, self.data.weights, c)
        left = np.stack([self.mean, self._sum - self.n * self.mean], axis=1).astype(self.dtype)
        product -= left @ np.stack([sums, (image - c).astype(self.dtype)])
        return product

    def _multiply_blocks(self, V: Array) -> Array:
        image = (self.mean @ V.astype(np.float64)).astype(self.dtype)
        # not self in `of`: it may travel to a cluster
        exact, mean = self.mean, self.mean.astype(self.dtype)
        V = np.ascontiguousarray(V, dtype=self.dtype)

        def of(rows, weights):
            sparse = sp.issparse(rows)
            # Centring costs d per row where the products cost 4dm, and keeps every digit.
            centred = rows if sparse else rows - mean
            T = centred @ V
            if sparse:
                T -= image
            if weights is not None:
                T *= weights[:, None].astype(T.dtype)
            product = np.asarray(centred.T @ T, dtype=np.float64)
            if sparse:
                product -= np.multiply.outer(exact, T.sum(axis=0, dtype=np.float64))
            return product

        return map_reduce(of, self.data, np.zeros(V.shape))

    @property
    def trace(self) -> float:
        """tr S = Σ w_i ‖x_i − μ‖², the total scatter. One pass, on first use."""
        # no cached_property: its lock is that of the class, and blocks ask for their own trace in other threads
        if self._trace is None:
            self._trace = self._measure_trace()
        return self._trace

    def _measure_trace(self) -> float:
        if self._rows is not None:
            squares = map_reduce(_weighted_squares, self.data, 0.0)
            return float(squares - 2 * (self._sum @ self.mean) + self.n * (self.mean @ self.mean))
        exact, mean = self.mean, self.mean.astype(self.dtype)

        def of(rows, weights):
            if sp.issparse(rows):
                return CentredScatter(Blocks.of(rows, weights), exact).trace
            centred = rows - mean
            lengths = np.einsum("ij,ij->i", centred, centred).astype(np.float64)
            return lengths.sum() if weights is None else lengths @ weights

        return float(map_reduce(of, self.data, 0.0))


def _weighted_squares(rows: Any, weights: Array | None) -> float:
    """Σ w‖x‖² of sparse rows."""
    # a column named twice has to be added up before it is squared
    if not rows.has_canonical_format:
        rows = rows.copy()
        rows.sum_duplicates()
    values = rows.data.astype(np.float64)
    weighted = values if weights is None else values * np.repeat(weights, np.diff(rows.indptr))
    return values @ weighted


class CentredRows(Operator):
    """A = diag(√w) (X − 1μᵀ) for X in memory, so that AᵀA is the CentredScatter; without weights simply X − 1μᵀ.

    Parameters
    ----------
    data : Blocks in memory, array or sparse matrix
    mean : array of shape (d,), optional
        μ; the weighted mean of the rows if not given.
    """

    def __init__(self, data: Any, mean: Any = None) -> None:
        self.data = data = _as_blocks(data)
        if not data.in_memory:
            raise TypeError(
                "the rows of a memmap, a stream or a dask array cannot be multiplied from both sides at will; "
                "use CentredScatter, which needs one pass per product, or load the data into memory."
            )
        self.mean = weighted_mean(data) if mean is None else _centre(mean, data.shape[1])
        w = data.weights
        self._root = None if w is None else np.sqrt(w)[:, None].astype(data.dtype)
        self._rows = SparseRows(data.source) if data.sparse else None
        super().__init__(data.shape, data.dtype, self._multiply, self._multiply_transposed)

    def fingerprint(self) -> str:
        return self.data.fingerprint()

    def _multiply(self, V: Array) -> Array:
        V = np.asarray(V, dtype=self.dtype)
        if self._rows is not None:
            product = self._rows @ V
            product -= (self.mean @ V.astype(np.float64)).astype(self.dtype)
        else:
            product = np.concatenate([rows @ V for rows in self._centred_blocks()])
        return product if self._root is None else product * self._root

    def _multiply_transposed(self, U: Array) -> Array:
        U = np.asarray(U, dtype=self.dtype)
        U = U if self._root is None else U * self._root
        if self._rows is not None:
            sums = U.sum(axis=0, dtype=np.float64)
            return (self._rows.T @ U) - np.multiply.outer(self.mean, sums)
        product, start = np.zeros((self.shape[1], U.shape[1])), 0
        for rows in self._centred_blocks():
            product += rows.T @ U[start : start + len(rows)]
            start += len(rows)
        return product

    def _centred_blocks(self):
        mean = self.mean.astype(self.dtype)
        for rows, _ in self.data:
            yield rows - mean
