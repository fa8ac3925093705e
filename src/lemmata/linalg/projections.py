"""Orthogonal projection onto a span: the point of the span that is nearest.

    Π_U(x) = argmin ‖x − x′‖  over x′ in U          P = UUᵀ  for an orthonormal basis U      (CIL 1.3.3)
                                                    P = VV⁺  for any spanning set V          (CIL 1.3.5)

A matrix P projects orthogonally exactly when P² = P and P = Pᵀ (CIL 1.3.4); both are claims below, for any P.

The notes' V⁺ = (VᵀV)⁻¹Vᵀ needs independent columns and squares the condition number; here V⁺ comes from the singular value
decomposition, which needs neither. Their Ex. 1.2 (P = WᵀW a projection ⇒ W has orthonormal rows) also needs W of full row
rank: W = [1 0; 0 0] is a counterexample.

    >>> P = Projection.onto([[1.0, 2.0], [1.0, 2.0], [0.0, 0.0]])      # two vectors, one direction
    >>> P.rank, P @ np.array([3.0, 1.0, 5.0])
    (1, array([2., 2., 0.]))
    >>> certify_projection(P).held
    ['idempotent', 'self_adjoint']
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from lemmata.audit.reduction.projections import PROJECTION_CLAIMS
from lemmata.core.certificate import Certificate, Fit
from lemmata.core.certification.checking import check
from lemmata.linalg._checks import as_dense, as_square

Array = np.ndarray


def _thin_svd(V: Any, rtol: float | None) -> tuple[Array, Array, Array]:
    """U, σ, Wᵀ of V with the singular values below rtol·σ₁ left out: their directions are rounding errors."""
    V = as_dense(V, "V")
    U, s, Wt = np.linalg.svd(V, full_matrices=False)
    if rtol is None:
        # numpy's matrix_rank: the error of the SVD itself
        rtol = max(V.shape) * float(np.finfo(V.dtype).eps)
    r = int(np.count_nonzero(s > rtol * s[0]))
    return U[:, :r], s[:r], Wt[:r]


def orthonormal_basis(V: Any, *, rtol: float | None = None) -> Array:
    """An orthonormal basis (n, r) of the span of V's columns; r is V's numerical rank.

    rtol : float, optional
        Singular values up to rtol·σ₁ count as zero; max(V.shape)·eps if not given.
    """
    return _thin_svd(V, rtol)[0]


def pseudo_inverse(V: Any, *, rtol: float | None = None) -> Array:
    """V⁺, the Moore–Penrose inverse: W = V⁺ is the best encoder for the decoder V (CIL 1.3.6), of the best the smallest."""
    U, s, Wt = _thin_svd(V, rtol)
    return (Wt.T / s) @ U.T


class _Operator(ABC):
    """Base of a projection and its complement: they are symmetric, and multiply from both sides."""

    __array_ufunc__ = None  # so that `X @ P` asks P, not numpy

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]: ...

    @property
    @abstractmethod
    def dtype(self) -> np.dtype: ...

    @abstractmethod
    def __matmul__(self, X: Any) -> Array: ...

    @property
    def T(self):
        return self

    def __rmatmul__(self, X: Any) -> Array:
        """X @ P projects the rows of X."""
        return (self @ X.T).T

    def matrix(self) -> Array:
        """P itself, (n, n), symmetric to the last bit."""
        P = self @ np.eye(self.shape[0], dtype=self.dtype)
        return (P + P.T) / 2


@dataclass(frozen=True, eq=False)
class Projection(_Operator):
    """The orthogonal projection P = UUᵀ onto the span of an orthonormal basis U; `Projection.onto(V)` takes any V.

    `P @ x` costs 2nr multiplications; P itself is formed only by `P.matrix()`.

    Parameters
    ----------
    basis : array of shape (n, r)
        U, with orthonormal columns.
    """

    basis: Array

    def __post_init__(self):
        U = as_dense(self.basis, "the basis")
        gap = float(np.abs(U.T @ U - np.eye(U.shape[1])).max())
        # √eps: a basis from any decent routine passes, and P errs by no more than the gap itself
        if gap > np.sqrt(np.finfo(U.dtype).eps):
            raise ValueError(
                f"the columns are not orthonormal (|UᵀU − I| = {gap:.2g}); use Projection.onto(V) for them."
            )
        object.__setattr__(self, "basis", U)

    @classmethod
    def onto(cls, V: Any, *, rtol: float | None = None) -> Projection:
        """P = VV⁺, the projection onto the span of V's columns, however oblique or dependent they are."""
        U = orthonormal_basis(V, rtol=rtol)
        if U.shape[1] == 0:
            raise ValueError("every column of V is zero: there is no direction to project onto.")
        return cls(U)

    @property
    def rank(self) -> int:
        return self.basis.shape[1]

    @property
    def shape(self) -> tuple[int, int]:
        return (self.basis.shape[0],) * 2

    @property
    def dtype(self) -> np.dtype:
        return self.basis.dtype

    def __matmul__(self, X: Any) -> Array:
        return np.asarray(self.basis @ (self.basis.T @ X))

    @property
    def complement(self) -> Complement:
        """I − P, the projection onto what is orthogonal to the span."""
        return Complement(self)


@dataclass(frozen=True, eq=False)
class Complement(_Operator):
    """I − P, the rest that a projection leaves. Its complement is P again."""

    complement: Projection

    @property
    def rank(self) -> int:
        return self.shape[0] - self.complement.rank

    @property
    def shape(self) -> tuple[int, int]:
        return self.complement.shape

    @property
    def dtype(self) -> np.dtype:
        return self.complement.dtype

    @property
    def basis(self) -> Array:
        """An orthonormal basis (n, n − r), computed when asked for: the last columns of a full QR of U."""
        U = self.complement.basis
        return np.linalg.qr(U, mode="complete")[0][:, U.shape[1] :]

    def __matmul__(self, X: Any) -> Array:
        X = X.toarray() if hasattr(X, "toarray") else np.asarray(X)
        return X - self.complement @ X


def certify_projection(P: Any) -> Certificate:
    """Check that P, a square matrix or a Projection, projects orthogonally. The claims are measured on P as given."""
    P = as_square(as_dense(P.matrix() if isinstance(P, _Operator) else P, "P"), "P")
    title = f"Projection  {len(P):,} × {len(P):,}, trace {np.trace(P):.6g} (the rank, if it is a projection)"
    return check(PROJECTION_CLAIMS, Fit(None, attributes={"P": P}), title)
