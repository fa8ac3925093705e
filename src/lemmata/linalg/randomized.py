"""Randomized subspace iteration and SVD (Halko, Martinsson & Tropp 2011; CIL 2.5.3).

A random block Ω of k + p columns, multiplied by A, lands near the leading singular directions of A: what is large grows most.
Orthonormalise, multiply again, and again: the small ones fade like (σ_{k+p+1} / σ_k)^(2q+1). Inside the subspace found, the
small problem is solved exactly.

    >>> A = np.random.default_rng(0).normal(size=(300, 40)) * 0.8 ** np.arange(40)
    >>> found = randomized_svd(A, k=5, rng=0)
    >>> bool(np.allclose(found.s, np.linalg.svd(A)[1][:5], rtol=1e-6)), bool(found.error < 2 * found.s[4])
    (True, True)

`RandomizedAlgorithm` is the same for a symmetric positive semi-definite operator as a loop, one product per step, with the
residual in its trace. (The notes take 2k columns and one orthonormalisation at the end; in floats (AAᵀ)^q A would then have
lost every singular value below σ₁ · eps^(1/(2q+1)), so we orthonormalise after each product.)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
import scipy.linalg

from lemmata.core.store import storable
from lemmata.linalg._checks import count, float_type, product
from lemmata.linalg.operators import as_operator

Array = np.ndarray
# the error estimate is exceeded with probability at most ALPHA^-probes (HMT Lemma 4.1)
ALPHA = 10.0


def orthonormalise(Y: Array) -> Array:
    """An orthonormal basis (d, l) whose span contains that of Y.

    Cholesky QR, twice, at the speed of matrix products: Y has few, long columns, on which Householder's method, which is
    the fallback for ill-conditioned Y, is 5–10 times slower. Once leaves |QᵀQ − I| ≈ eps·κ(Y)²; if that is below ½ the
    second round makes it eps (Yamamoto et al. 2015). Scaled columns, since those of SQ are about as different in length as
    eigenvalues, and almost orthogonal.
    """
    Q = Y
    for attempt in range(2):
        lengths = np.linalg.norm(Q, axis=0).astype(np.float64)
        if not lengths.all():
            break
        G = (Q.T @ Q) / np.multiply.outer(lengths, lengths)
        if attempt == 1 and np.abs(G - np.eye(len(G))).max() > 0.5 / len(G):
            break
        try:
            R = np.linalg.cholesky(G).T * lengths
        except np.linalg.LinAlgError:
            break
        Q = Q @ np.linalg.inv(R).astype(Q.dtype)
    else:
        return Q
    return np.ascontiguousarray(scipy.linalg.qr(Y, mode="economic", check_finite=False)[0])


def signs(V: Array) -> Array:
    """±1 for each column of V (d, k): its entry of largest magnitude times this is positive, so that runs agree on signs."""
    return np.where(V[np.abs(V).argmax(axis=0), np.arange(V.shape[1])] < 0, -1, 1).astype(V.dtype)


def _check_oversampling(oversampling: Any) -> None:
    if isinstance(oversampling, bool) or not isinstance(oversampling, Integral) or oversampling < 0:
        raise ValueError(
            f"oversampling={oversampling!r} is not accepted; pass an int >= 0, usually 5 to 20."
        )


# --- symmetric operators, as a loop -----------------------------------------------------------------------------------


@storable
@dataclass(frozen=True)
class RandomizedState:
    """Ritz vectors of S in a subspace of k + p dimensions, their values, and the product that the next step starts from."""

    version = 1
    layout: ClassVar = {"Q SQ": "r l", "values": "l"}

    Q: Array  # (d, l), orthonormal, QᵀSQ diagonal
    SQ: Array  # (d, l)
    values: Array  # (l,), descending: the diagonal of QᵀSQ


@dataclass(frozen=True)
class RandomizedAlgorithm:
    """The k largest eigenvalues of a symmetric positive semi-definite S by subspace iteration from a random start.

    One step is one product with S: Q ← orth(SQ), then Rayleigh–Ritz. No Ritz value can fall, since for S ⪰ 0 the Rayleigh
    quotient of Sx is at least that of x (E[λ³]/E[λ²] ≥ E[λ]), for the least x of any subspace too.

    Parameters
    ----------
    k : int
        Number of eigenpairs.
    oversampling : int, default=10
        p, further columns. The j-th value settles like (λ_{k+p+1} / λ_j)^(2 · steps).
    """

    k: int
    oversampling: int = 10

    hint = "scale the data: products with S leave the finite numbers"

    def init(self, data: Any, rng: np.random.Generator) -> RandomizedState:
        S = as_operator(data)
        d = S.shape[0]
        if S.shape[1] != d:
            raise ValueError(
                f"S is {d} × {S.shape[1]}; a symmetric matrix is square (randomized_svd takes any)."
            )
        count(self.k, d)
        _check_oversampling(self.oversampling)
        start = rng.standard_normal(
            (d, min(self.k + self.oversampling, d)), dtype=float_type(S).type
        )
        return self._ritz(S, product(S, start))

    def step(self, state: RandomizedState, data: Any) -> RandomizedState:
        return self._ritz(as_operator(data), state.SQ)

    def _ritz(self, S: Any, Y: Array) -> RandomizedState:
        Q = orthonormalise(Y)
        SQ = product(S, Q)
        H = (Q.T @ SQ).astype(np.float64)
        values, rotation = scipy.linalg.eigh((H + H.T) / 2)
        rotation = np.ascontiguousarray(rotation[:, ::-1], dtype=Q.dtype)
        return RandomizedState(Q @ rotation, SQ @ rotation, values[::-1].copy())

    def objective(self, state: RandomizedState) -> float:
        return -float(state.values[: self.k].sum())

    def extras(self, state: RandomizedState) -> dict[str, float]:
        """residual: max_j ‖S v_j − θ_j v_j‖ / θ₁ over the k wanted; an eigenvalue of S lies within it·θ₁ of each θ_j."""
        theta = state.values[: self.k]
        if theta[0] <= 0:
            return {"residual": 0.0}
        rest = state.SQ[:, : self.k] - state.Q[:, : self.k] * theta.astype(state.Q.dtype)
        return {"residual": float(np.linalg.norm(rest, axis=0).max() / theta[0])}

    def attributes(self, state: RandomizedState) -> dict[str, Any]:
        V = np.ascontiguousarray(state.Q[:, : self.k])
        return {"values": state.values[: self.k].astype(V.dtype), "vectors": V * signs(V)}


# --- any matrix -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SVDResult:
    """A ≈ U diag(s) Vt of rank k.

    error bounds ‖A − QQᵀA‖₂, what the subspace Q of k + p dimensions misses, except with probability 10^−probes. For the
    rank-k result itself ‖A − U diag(s) Vt‖₂ ≤ error + tail, where tail is the first singular value left out (HMT 9.4).
    """

    U: Array  # (n, k)
    s: Array  # (k,), descending
    Vt: Array  # (k, m)
    error: float
    tail: float


def randomized_svd(
    A: Any,
    k: int,
    *,
    oversampling: int = 10,
    passes: int = 2,
    probes: int = 10,
    rng: int | np.random.Generator | None = None,
) -> SVDResult:
    """The k leading singular triplets of A, approximately, with an error estimate.

    Parameters
    ----------
    A : array, sparse matrix, scipy LinearOperator, or any object with `@`, `.shape` and `.T` (or `rmatmul`)
    k : int
        The rank.
    oversampling : int, default=10
        p, columns beyond k.
    passes : int, default=2
        q, the number of products of the subspace with AᵀA. 0 suffices where singular values fall fast; more where they do not.
    probes : int, default=10
        r, Gaussian vectors that test the result: one more product of A with r columns.
    """
    A = as_operator(A, transpose=True)
    n, m = A.shape
    count(k, min(n, m))
    _check_oversampling(oversampling)
    if isinstance(passes, bool) or not isinstance(passes, Integral) or passes < 0:
        raise ValueError(f"passes={passes!r} is not accepted; pass an int >= 0, usually 2.")
    count(probes, max(n, m, 100), "probes")
    rng, dtype = np.random.default_rng(rng), float_type(A).type
    Q = orthonormalise(
        product(A, rng.standard_normal((m, min(k + oversampling, n, m)), dtype=dtype))
    )
    for _ in range(passes):
        Z = orthonormalise(product(A.T, Q))
        Q = orthonormalise(product(A, Z))
    U, s, Vt = scipy.linalg.svd(product(A.T, Q).T, full_matrices=False, check_finite=False)
    U, Vt, tail = Q @ U[:, :k], Vt[:k], float(s[k]) if len(s) > k else 0.0
    flip = signs(Vt.T)
    return SVDResult(U * flip, s[:k], Vt * flip[:, None], unseen_norm(A, Q, probes, rng), tail)


def unseen_norm(A: Any, Q: Array, probes: int, rng: np.random.Generator) -> float:
    """A bound on ‖A − QQᵀA‖₂ that fails with probability at most 10^−probes (HMT (4.3)), from `probes` products."""
    Y = product(A, rng.standard_normal((A.shape[1], probes), dtype=Q.dtype.type))
    Y -= Q @ (Q.T @ Y)
    return float(ALPHA * math.sqrt(2 / math.pi) * np.linalg.norm(Y, axis=0).max())
