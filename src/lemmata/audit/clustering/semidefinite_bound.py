"""A lower bound on the k-means optimum of a few hundred points, by duality; no solver has to be trusted.

For a partition of weighted points into k clusters let Y = Σ_c u_c u_cᵀ/W_c, with u = √w and u_c its part on cluster c. Then

    cost = ‖A‖² − ⟨AAᵀ, Y⟩,   rows of A: √w_i x_i,       Y ≥ 0,  Yu = u,  tr Y = k,  Y ⪰ 0      (Peng & Wei 2007)

Y ≥ 0 with Yu = u > 0 has spectral radius 1 (Perron), so 0 ⪯ Y ⪯ I with eigenvector u. Hence for *any* matrix N ≥ 0, with
M = AAᵀ + N and P the projection off u,

    ⟨AAᵀ, Y⟩ ≤ ⟨M, Y⟩ ≤ uᵀMu/‖u‖² + Σ_{i<k} λ_i(PMP)

and ‖A‖² minus the right-hand side bounds the cost of every partition from below, the best one included. N = 0 is the
spectral bound. Where a good N comes from does not matter here: whoever looks for one (`lemmata/clustering/witness.py`
does) asks for the bound of one N after the other.

    >>> points = WeakDual(np.array([[0.0], [0.1], [5.0], [5.1]]), np.ones(4), k=1)
    >>> _ = points.ask(np.zeros((4, 4)))
    >>> round(points.best, 6)                                                    # one cluster costs its scatter
    25.01
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import eigh

Array = np.ndarray


def weak_dual(A: Array, u: Array, N: Array, k: int) -> tuple[float, Array]:
    """The bound that N ≥ 0 proves, and the Y that attains it (its negative is a supergradient in N)."""
    n = len(A)
    if N.shape != (n, n) or not N.min(initial=0.0) >= 0:
        raise ValueError("N has to be a square matrix without negative entries.")
    unit = u / np.linalg.norm(u)
    M = A @ A.T + (N + N.T) / 2
    Mu = M @ unit
    along = float(unit @ Mu)
    M -= np.outer(unit, Mu)
    M -= np.outer(M @ unit, unit)  # PMP; u itself now has eigenvalue 0
    M -= np.outer(unit, unit) * (1 + 2 * np.abs(M).sum(axis=0).max())  # and now the smallest of all
    k = min(k, n)
    if k == 1:
        return _rounded_down(np.einsum("ij,ij->", A, A), along, M, 1), np.outer(unit, unit)
    values, V = eigh(
        M, subset_by_index=(n - k + 1, n - 1), driver="evr", overwrite_a=False, check_finite=False
    )
    total = np.einsum("ij,ij->", A, A)
    return _rounded_down(total, along + float(values.sum()), M, k), V @ V.T + np.outer(unit, unit)


def _rounded_down(total: float, captured: float, M: Array, k: int) -> float:
    """total − captured, less what LAPACK may err: every eigenvalue by a few n·eps·‖M‖."""
    n = len(M)
    norm = float(np.abs(M - np.diag(np.diag(M))).sum(axis=0).max(initial=0.0) + total)
    return max(float(total - captured - 4 * k * np.sqrt(n) * np.finfo(float).eps * norm), 0.0)


class WeakDual:
    """The best bound on the cost of k clusters of weighted points that some N proved, of those that a search asked for.

    Nothing else of a search is kept, so that nothing has to be believed: a bad one leaves a loose bound.
    """

    def __init__(self, X: Array, w: Array, k: int):
        X = X - np.average(X, axis=0, weights=w)
        if X.shape[1] > len(X):  # only inner products matter
            X = np.asarray(np.linalg.qr(X.T, mode="r")).T
        self.X, self.w, self.k, self.u = X, w, k, np.sqrt(w)
        self.A = X * self.u[:, None]
        self.best, self.multipliers = 0.0, np.zeros((len(X), len(X)))

    def ask(self, N: Array) -> tuple[float, Array]:
        """Return the bound that N ≥ 0 proves, and where to go from there; see `weak_dual`."""
        found, Y = weak_dual(self.A, self.u, N, self.k)
        if found > self.best:
            self.best, self.multipliers = found, N
        return found, Y
