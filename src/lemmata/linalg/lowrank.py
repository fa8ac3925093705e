"""Low rank: the nearest matrix of rank k, the shrinkage operator, three norms, and angles between subspaces.

    best_rank_k(A, k) = argmin ‖A − B‖_F  over rank B ≤ k           = Σ_{i≤k} σ_i u_i v_iᵀ        (Eckart–Young, CIL 2.3.4)
    shrink(A, τ)      = argmin ½‖A − B‖_F² + τ‖B‖_*                  = Σ (σ_i − τ)₊ u_i v_iᵀ       (CIL (2.40))

Arrays are decomposed by LAPACK, exactly. Anything else with `@` and `.T` (sparse matrices, operators) is never made dense: its
leading singular vectors come from block Lanczos on AᵀA (or AAᵀ, if that is smaller), its singular values from one more
product, AV = UΣZᵀ, since the square roots of the eigenvalues of AᵀA are right to √eps only. The nuclear norm needs all
singular values, hence a dense matrix of the size of A.

    >>> A = np.diag([3.0, 2.0, 1.0])
    >>> best_rank_k(A, 1).matrix().diagonal(), shrink(A, 1.5).matrix().diagonal()
    (array([3., 0., 0.]), array([1.5, 0.5, 0. ]))
    >>> nuclear_norm(A), spectral_norm(A)
    (6.0, 3.0)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from lemmata.linalg._checks import as_matrix, count, float_type, norm, positive, product
from lemmata.linalg.lanczos import lanczos
from lemmata.linalg.projections import orthonormal_basis

Array = np.ndarray
Rng = int | np.random.Generator | None


@dataclass(frozen=True, eq=False)
class LowRank:
    """UΣVᵀ, kept as its factors: `@` from both sides costs (n + m)k, and `.matrix()` makes it dense."""

    U: Array  # (n, k)
    s: Array  # (k,) descending
    Vt: Array  # (k, m)

    __array_ufunc__ = None  # so that `X @ B` asks B, not numpy

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.U), self.Vt.shape[1]

    @property
    def rank(self) -> int:
        return int(np.count_nonzero(self.s))

    @property
    def dtype(self) -> np.dtype:
        return self.U.dtype

    @property
    def T(self) -> LowRank:
        return LowRank(self.Vt.T, self.s, self.U.T)

    def __matmul__(self, X: Any) -> Array:
        Y = np.asarray(self.Vt @ X)
        return self.U @ (self.s[:, None] * Y if Y.ndim == 2 else self.s * Y)

    def __rmatmul__(self, X: Any) -> Array:
        return (self.T @ X.T).T

    def matrix(self) -> Array:
        return (self.U * self.s) @ self.Vt


class _Gram:
    """AᵀA as an operator."""

    def __init__(self, A: Any):
        self.A, self.shape, self.dtype = A, (A.shape[1],) * 2, float_type(A)

    def __matmul__(self, X: Array) -> Array:
        return self.A.T @ (self.A @ X)


def _svd(A: Any, k: int, rng: Rng) -> LowRank:
    """The k leading singular triplets."""
    if isinstance(A, np.ndarray):
        U, s, Vt = np.linalg.svd(A.astype(float_type(A), copy=False), full_matrices=False)
        return LowRank(U[:, :k], s[:k], Vt[:k])
    if A.shape[0] < A.shape[1]:
        return _svd(A.T, k, rng).T
    # Singular values repeat in practice (equal documents, symmetric designs): a block of one would miss their copies.
    block = max(2, min(k, 32))
    # of σ₁²: the vectors are then good for the last digits of σ
    tol = 1e-10 if float_type(A) == np.float64 else 1e-6
    V = lanczos(_Gram(A), k, block=block, tol=tol, rng=rng).vectors
    U, s, Zt = np.linalg.svd(product(A, V), full_matrices=False)
    return LowRank(U, s, Zt @ V.T)


def best_rank_k(A: Any, k: int, *, rng: Rng = 0) -> LowRank:
    """The matrix of rank k nearest to A, in the Frobenius norm and in the spectral norm.

    Its error is what it leaves out: ‖A − A_k‖_F² = Σ_{i>k} σ_i² (CIL 2.3.5) and ‖A − A_k‖₂ = σ_{k+1}.
    """
    A = as_matrix(A)
    return _svd(A, count(k, min(A.shape)), rng)


def shrink(A: Any, tau: float, *, rng: Rng = 0) -> LowRank:
    """Every singular value lowered by τ, and to zero if it is smaller; of rank #{σ_i > τ}."""
    A, tau, most = as_matrix(A), positive(tau, "tau"), min(A.shape)
    k = most if isinstance(A, np.ndarray) else min(10, most)
    found = _svd(A, k, rng)
    while k < most and found.s[-1] > tau:  # how many exceed τ is not known before they are found
        k = min(2 * k, most)
        found = _svd(A, k, rng)
    keep = found.s > tau
    return LowRank(found.U[:, keep], found.s[keep] - found.s.dtype.type(tau), found.Vt[keep])


# --- norms ------------------------------------------------------------------------------------------------------------


def _columns(A: Any, width: int = 256) -> Iterator[Array]:
    """A's columns in blocks, from products with the columns of the identity."""
    m = A.shape[1]
    for start in range(0, m, width):
        stop = min(start + width, m)
        E = np.zeros((m, stop - start), float_type(A))
        E[np.arange(start, stop), np.arange(stop - start)] = 1.0
        yield product(A, E)


def nuclear_norm(A: Any) -> float:
    """‖A‖_* = Σσ_i, the convex envelope of the rank where ‖A‖₂ ≤ 1 (CIL 2.5.2). Needs all of A, dense."""
    A = as_matrix(A)
    if not isinstance(A, np.ndarray):
        A = np.hstack(list(_columns(A)))
    return float(
        np.linalg.svd(A.astype(float_type(A), copy=False), compute_uv=False).sum(dtype=np.float64)
    )


def spectral_norm(A: Any, *, rng: Rng = 0) -> float:
    """‖A‖₂ = σ₁, the most that A can stretch a vector."""
    return float(_svd(as_matrix(A), 1, rng).s[0])


def frobenius_norm(A: Any) -> float:
    """‖A‖_F = (Σ a_ij²)^½ = (Σσ_i²)^½; of an operator by its columns, one block after the other."""
    A = as_matrix(A)
    if isinstance(A, np.ndarray):
        return float(norm(A))
    if hasattr(A, "tocsr"):
        A = A.tocsr(copy=True)
        A.sum_duplicates()  # entries stored in parts count once, as their sum
        return float(norm(A.data))
    return float(norm(np.array([norm(block) for block in _columns(A)])))


# --- angles -----------------------------------------------------------------------------------------------------------


def subspace_angles(U: Any, V: Any) -> Array:
    """The principal angles between the spans of two sets of columns, in radians, largest first.

    The cosines are the singular values of Q_UᵀQ_V, the sines those of Q_V − Q_U Q_UᵀQ_V. A cosine near 1 does not tell angles
    below √eps apart, a sine near 1 those near π/2; arctan2 of the two is right to rounding everywhere.
    """
    Q_U, Q_V = orthonormal_basis(U), orthonormal_basis(V)
    if len(Q_U) != len(Q_V):
        raise ValueError(
            f"the vectors have {len(Q_U)} and {len(Q_V)} entries; subspaces of one space are needed."
        )
    if 0 in (Q_U.shape[1], Q_V.shape[1]):
        raise ValueError("every column is zero: a span of dimension 0 has no angles.")
    if Q_U.shape[1] < Q_V.shape[1]:
        Q_U, Q_V = Q_V, Q_U
    C = Q_U.T @ Q_V
    cosines = np.linalg.svd(C, compute_uv=False)[::-1]
    sines = np.linalg.svd(Q_V - Q_U @ C, compute_uv=False)
    return np.arctan2(sines, cosines)
