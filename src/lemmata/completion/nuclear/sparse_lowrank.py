"""Sparse plus low rank: the matrices that SoftImpute, singular value projection and thresholding take the SVD of.

    Z = U Vᵀ + η Π_Ω(A − U Vᵀ)                 U: n × k,  V: m × k,  Ω: the known entries                  (CIL (2.39), (2.41))

Z has n·m entries, none of them zero, but a product with a thin block B (m × b) needs only

    Z B = U (Vᵀ B) + η Π_Ω(A − U Vᵀ) B                         (n + m)·k·b + |Ω|·(k + b) multiplications

and Π_Ω(A − U Vᵀ) is one number per known entry, made once per operator and used by all its products; on a cluster, where it
would have to travel, it is made again in each of them. All passes over entries go through `Observed.over_rows` and
`over_columns`, with functions that can be sent to other machines: NumPy for small data (_twins.py), kernels beyond.

The SVDs of one run are near each other, so each begins with the singular vectors of the one before: one or two rounds of
subspace iteration then do what a random start needs five to ten for.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(60, 2)) @ rng.normal(size=(2, 50))
    >>> A = Observed.of(np.where(rng.random(X.shape) < 0.5, X, np.nan))
    >>> U, V = rng.normal(size=(60, 2)), rng.normal(size=(50, 2))
    >>> Z = gradient_step(A, U, V, step=1.0)                # A where it is known, UVᵀ elsewhere
    >>> dense = np.where(np.isnan(A.dense()), U @ V.T, A.dense())
    >>> bool(np.allclose(Z @ np.eye(50), dense)), bool(np.allclose(Z.T @ np.eye(60), dense.T))
    (True, True)
    >>> bool(np.allclose(leading_svd(Z, 3, passes=30, rng=0).s, np.linalg.svd(dense)[1][:3]))
    True
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lemmata.completion.nuclear import _twins
from lemmata.completion.observed import Entries, Observed
from lemmata.completion.rows.solver import over_ranges, plain, predictions
from lemmata.core.engine import worth_compiling
from lemmata.linalg.lowrank import LowRank
from lemmata.linalg.operators import Operator
from lemmata.linalg.randomized import orthonormalise, signs

Array = np.ndarray

# columns beyond those wanted: they show what comes next, and make the others converge faster
FAR_ABOVE = 100.0  # σ₁/τ up to which a Gram matrix gives σ > τ to 1e-12
NARROW = 128  # columns or rows of a matrix whose whole SVD costs less than a few rounds of subspace iteration
EXTRA = 8
FETCH = 8  # factors fetched for an entry cost as much as so many entries of a matrix product
# known entries: with less NumPy takes some tenths of a second, as kernels do that are compiled already
SMALL, SMALL_DENSE = 2**13, 2**17


# --- passes over rows of entries (picklable: a cluster sends them to its workers) --------------------------------------


def worth_kernels(A: Any) -> bool:
    """Whether this many known entries, those of all blocks together, are work for kernels."""
    return worth_compiling(A.n_observed, above=SMALL_DENSE if is_dense(A) else SMALL)


def is_dense(A: Any) -> bool:
    """Whether so many entries are known that products of dense arrays are faster than fetching factors for each."""
    return A.density * FETCH > 1


def arrays(A: Observed) -> _twins.Arrays | None:
    """A as dense arrays, where the passes over it are made by them: few entries, in a matrix that has few others."""
    small = A.local is A and is_dense(A) and not worth_kernels(A)
    return _twins.Arrays.of(A) if small else None


def row_products(entries: Entries, B: Array, compiled: bool | None = None) -> Array:
    """S B for the sparse S with these rows; compiled: by kernels or by NumPy, None: as many entries as there are decide."""
    if compiled is None:
        compiled = worth_compiling(len(entries.indices), above=SMALL)
    if not compiled:
        return _twins.products(entries, B)
    from lemmata.completion.nuclear._kernels import product_range
    from lemmata.linalg.simd import to_lines

    parts, lines, nb = plain(entries, B.dtype), to_lines(B), _lines_per_row(B)
    out = _empty_like_lines(len(parts[0]) - 1, B)
    over_ranges(
        lambda first, last: product_range(*parts, lines, nb, first, last, out), parts[0], per_row=1
    )
    return _from_lines(out, B)


def row_residual_products(entries: Entries, V: Array, B: Array, compiled: bool, U: Array) -> Array:
    """Π_Ω(A − UVᵀ) B for these rows of A and U."""
    if not compiled:
        return _twins.residual_products(entries, V, B, U)
    from lemmata.completion.nuclear._kernels import residual_product_range
    from lemmata.linalg.simd import to_lines

    parts, lines, nb = plain(entries, B.dtype), to_lines(B), _lines_per_row(B)
    left, right, nk = to_lines(U), to_lines(V), _lines_per_row(V)
    out = _empty_like_lines(len(U), B)

    def work(first: int, last: int) -> None:
        residual_product_range(*parts, left, right, nk, lines, nb, first, last, out)

    over_ranges(work, parts[0], per_row=1)
    return _from_lines(out, B)


def row_residual_squares(entries: Entries, V: Array, compiled: bool, U: Array) -> Array:
    """Σ_j (a_ij − u_iᵀv_j)² for each of these rows, in float64."""
    if not compiled:
        return _twins.residual_squares(entries, V, U)
    from lemmata.completion.nuclear._kernels import residual_squares_range
    from lemmata.linalg.simd import to_lines

    parts, out = plain(entries, V.dtype), np.empty(len(U))
    left, right, nk = to_lines(U), to_lines(V), _lines_per_row(V)

    def work(first: int, last: int) -> None:
        residual_squares_range(*parts, left, right, nk, first, last, out)

    over_ranges(work, parts[0], per_row=1)
    return out


def _lines_per_row(B: Array) -> int:
    """Number of cache lines of 64 bytes a row of B fills."""
    return -(-B.shape[1] * B.itemsize // 64)


def _empty_like_lines(n: int, B: Array) -> Array:
    from lemmata.linalg.simd import empty_lines

    lines = empty_lines(n, _lines_per_row(B), B.dtype)
    return lines.reshape(-1, lines.shape[2])


def _from_lines(lines: Array, B: Array) -> Array:
    """Lines as rows with as many columns as B."""
    width = _lines_per_row(B) * 64 // B.itemsize
    return (
        np.ascontiguousarray(lines.reshape(-1, width)[:, : B.shape[1]])
        if width
        else lines.reshape(-1, 0)
    )


def _factors(U: Any, V: Any, dtype: Any) -> tuple[Array, Array]:
    """Factors as kernels want them; a rank of 0 is one column of zeros."""
    if U.shape[1] == 0:
        return np.zeros((len(U), 1), dtype), np.zeros((len(V), 1), dtype)
    return np.ascontiguousarray(U, dtype=dtype), np.ascontiguousarray(V, dtype=dtype)


# --- numbers and operators --------------------------------------------------------------------------------------------


def entry_values(A: Observed, U: Array, V: Array) -> Array:
    """u_iᵀv_j at every known entry, in the order of `A.by_row`."""
    left, right = _factors(U, V, A.dtype)
    if (dense := arrays(A)) is not None:
        return (left @ right.T).ravel().take(dense.places)
    if worth_kernels(A):
        return predictions(A.by_row, left, right, compiled=True)
    return _twins.entry_values(A.by_row, left, right)


def residual_squares(A: Observed, U: Array, V: Array) -> float:
    """‖Π_Ω(A − UVᵀ)‖²."""
    left, right = _factors(U, V, A.dtype)
    if (dense := arrays(A)) is not None:
        return float(np.square(dense.residual(left, right), dtype=np.float64).sum())
    return float(A.over_rows(row_residual_squares, right, worth_kernels(A), aligned=(left,)).sum())


def known_entries(S: Observed, values: Array | None = None) -> Operator:
    """Π_Ω(S): products with the sparse matrix of the known entries, in either direction by rows of its own order.

    values : others at the same places, in the order of `S.by_row`
    """
    if (dense := arrays(S)) is not None:
        return ArrayOperator(dense.values if values is None else dense.with_values(values))
    if values is not None:
        S = S.with_values(values)
    compiled = worth_kernels(S)

    def times(B):
        return S.over_rows(row_products, np.ascontiguousarray(B, dtype=S.dtype), compiled)

    def transposed_times(B):
        return S.over_columns(row_products, np.ascontiguousarray(B, dtype=S.dtype), compiled)

    return Operator(S.shape, S.dtype, times, transposed_times)


class ArrayOperator(Operator):
    """Products with a dense array."""

    def __init__(self, array: Array):
        self.array = array
        super().__init__(array.shape, array.dtype, array.__matmul__, array.T.__matmul__)


def residual(A: Observed, U: Array, V: Array) -> Operator:
    """Π_Ω(A − UVᵀ). On a cluster its entries stay where they are, and are made in each product."""
    if (dense := arrays(A)) is not None:
        return ArrayOperator(dense.residual(*_factors(U, V, A.dtype)))
    if A.local is A:
        return known_entries(A.with_values(A.values - entry_values(A, U, V)))
    (left, right), compiled = _factors(U, V, A.dtype), worth_kernels(A)

    def times(B):
        B = np.ascontiguousarray(B, dtype=A.dtype)
        return A.over_rows(row_residual_products, right, B, compiled, aligned=(left,))

    def transposed_times(B):
        B = np.ascontiguousarray(B, dtype=A.dtype)
        return A.over_columns(row_residual_products, left, B, compiled, aligned=(right,))

    return Operator(A.shape, A.dtype, times, transposed_times)


class SparsePlusLowRank(Operator):
    """η S + U Vᵀ for an operator S, such as `known_entries(A)` or `residual(A, U, V)`; `@` and `.T`, never dense."""

    def __init__(self, S: Operator, U: Array, V: Array, step: float = 1.0):
        self.S, self.U, self.V, self.step = S, U, V, S.dtype.type(step)

        def times(B):
            return self.step * (self.S @ B) + self.U @ (self.V.T @ B)

        def transposed_times(B):
            return self.step * (self.S.T @ B) + self.V @ (self.U.T @ B)

        super().__init__(S.shape, S.dtype, times, transposed_times)


def gradient_step(A: Observed, U: Array, V: Array, step: float = 1.0) -> SparsePlusLowRank:
    """UVᵀ + η Π_Ω(A − UVᵀ): a step down the gradient of ½‖Π_Ω(A − X)‖² from X = UVᵀ; η = 1 fills the known entries in."""
    return SparsePlusLowRank(residual(A, U, V), U, V, step)


# --- partial SVD ------------------------------------------------------------------------------------------------------


def thin_svd(C: Array) -> tuple[Array, Array, Array]:
    """The SVD of a tall C (n, b): LAPACK sees only what C is in an orthonormal basis of its columns, b × b numbers."""
    basis = orthonormalise(C)
    core = basis.T @ C
    if not np.isfinite(core).all():
        raise ValueError(
            "products with the matrix are not finite: its entries are too large; divide them by a constant."
        )
    P, s, Wt = np.linalg.svd(core)
    return basis @ P, s, Wt


def leading_svd(
    Z: Any,
    k: int,
    *,
    start: Array | None = None,
    passes: int = 2,
    extra: int = 5,
    rng: int | np.random.Generator | None = None,
) -> LowRank:
    """The k leading singular triplets of an operator by block subspace iteration, begun at known right vectors.

    Parameters
    ----------
    Z : operator with `@`, `.T`, `.shape` and `.dtype`
    start : array (m, ·), optional
        Right singular vectors of a matrix near Z; random columns fill them up to k + extra. Without it, all are random.
    passes : int, default=2
        Rounds through ZᵀZ. The error of the j-th vector falls like (σ_{k+extra+1} / σ_j)^(2·passes).
    extra : int, default=5
        Columns beyond k that only speed convergence up.

    Returns
    -------
    LowRank : U (n, k), s (k,) descending, Vt (k, m); the largest entry of each right vector is positive
    """
    n, m = Z.shape
    b = min(k + extra, n, m)
    Q = np.empty((m, 0), Z.dtype) if start is None else np.asarray(start, dtype=Z.dtype)[:, :b]
    Q = orthonormalise(_widen(Q, b, Z.shape, np.random.default_rng(rng)))
    for _ in range(passes):
        Q = orthonormalise(Z.T @ orthonormalise(Z @ Q))
    P, s, Wt = thin_svd(Z @ Q)
    Q, k = Q @ Wt.T, min(k, b)
    flip = signs(Q[:, :k])
    return LowRank(P[:, :k] * flip, s[:k], np.ascontiguousarray((Q[:, :k] * flip).T))


def shrink_operator(
    Z: Any,
    tau: float,
    start: Array,
    *,
    accuracy: float = 1e-10,
    most: int = 20,
    rng: np.random.Generator,
) -> tuple[LowRank, Array]:
    """shrink_τ(Z) (CIL (2.40)), and right singular vectors of Z for the next call to begin with.

    Subspace iteration from `start`, until a round moves the vectors so little that ‖shrink_τ(Z)‖² is right to `accuracy`, or
    `most` rounds are done. While every singular value found exceeds τ the block is doubled: how many do is not known before
    they are found. A narrow Z is decomposed whole.
    """
    if min(Z.shape) <= NARROW:
        P, s, right = _whole_svd(Z, tau, EXTRA)
        kept = np.maximum(s - s.dtype.type(tau), 0)
        rank = int(np.count_nonzero(kept))
        found = LowRank(P[:, :rank], kept[:rank], np.ascontiguousarray(right[:, :rank].T))
        return found, np.ascontiguousarray(right[:, : rank + EXTRA])
    Q = orthonormalise(
        _widen(np.asarray(start, dtype=Z.dtype), max(start.shape[1], 1), Z.shape, rng)
    )
    for _ in range(most):
        P = orthonormalise(Z @ Q)
        right, s, Wt = thin_svd(Z.T @ P)
        kept = np.maximum(s - s.dtype.type(tau), 0)
        rank, before, Q = int(np.count_nonzero(kept)), Q, right
        if rank == len(s) < min(Z.shape):
            Q = orthonormalise(_widen(right, 2 * len(s), Z.shape, rng))
        elif _left_out(before, right, s, kept, tau) <= accuracy * (kept @ kept + accuracy * tau**2):
            break
    found = LowRank((P @ Wt.T)[:, :rank], kept[:rank], np.ascontiguousarray(right[:, :rank].T))
    return found, np.ascontiguousarray(right[:, : rank + EXTRA])


def _whole_svd(Z: Any, tau: float, extra: int) -> tuple[Array, Array, Array]:
    """The singular triplets of a narrow operator that matter above τ, and some more: P (n, ·), s, Q (m, ·).

    From the eigenvectors of its smaller Gram matrix, whose squares cost σ an error of eps·(σ₁/σ)²: nothing for σ > τ unless σ₁
    is far above τ. Then the SVD is taken.
    """
    n, m = Z.shape
    wide = n < m
    if isinstance(Z, ArrayOperator):
        tall = Z.array.T if wide else Z.array
    else:
        tall = (Z.T if wide else Z) @ np.eye(min(n, m), dtype=Z.dtype)
    squares, V = np.linalg.eigh(tall.T @ tall)
    s, V = np.sqrt(np.maximum(squares[::-1], 0)), np.ascontiguousarray(V[:, ::-1])
    if s[0] > FAR_ABOVE * tau:
        U, s, Vt = thin_svd(tall)
        V = Vt.T
    else:
        some = int(np.count_nonzero(s > tau)) + extra
        V, s = np.ascontiguousarray(V[:, :some]), s[:some]
        U = (tall @ V) / np.where(s > 0, s, 1)
    return (V, s, U) if wide else (U, s, V)


def _left_out(before: Array, right: Array, s: Array, kept: Array, tau: float) -> float:
    """Bound on what a round may have left out of ‖shrink_τ(Z)‖², from sin² of the angles by which it turned the vectors.

    Later rounds turn them by less. A kept vector that is off by sin² loses about this share; one below τ may rise above it:
    σ² ≤ s² + sin² · σ₁².
    """
    turned = np.maximum(1 - np.square(before.T @ right).sum(axis=0, dtype=np.float64), 0)
    below = np.sqrt(s**2 + turned * s[0] ** 2)[kept == 0]
    return float(turned @ kept**2) + float(np.square(np.maximum(below - tau, 0)).max(initial=0.0))


def _widen(Q: Array, width: int, shape: tuple[int, int], rng: np.random.Generator) -> Array:
    """Q with random columns up to `width`, as far as the matrix has so many dimensions."""
    missing = max(min(width, *shape) - Q.shape[1], 0)
    fresh = rng.standard_normal((len(Q), missing)) / np.sqrt(max(len(Q), 1))
    return np.hstack([Q[:, : min(shape)], fresh.astype(Q.dtype)])
