"""A lower bound on the k-means optimum of a few hundred points, by duality; no solver has to be trusted.

For a partition of weighted points into k clusters let Y = Σ_c u_c u_cᵀ/W_c, with u = √w and u_c its part on cluster c. Then

    cost = ‖A‖² − ⟨AAᵀ, Y⟩,   rows of A: √w_i x_i,       Y ≥ 0,  Yu = u,  tr Y = k,  Y ⪰ 0      (Peng & Wei 2007)

Y ≥ 0 with Yu = u > 0 has spectral radius 1 (Perron), so 0 ⪯ Y ⪯ I with eigenvector u. Hence for *any* matrix N ≥ 0, with
M = AAᵀ + N and P the projection off u,

    ⟨AAᵀ, Y⟩ ≤ ⟨M, Y⟩ ≤ uᵀMu/‖u‖² + Σ_{i<k} λ_i(PMP)

and ‖A‖² minus the right-hand side bounds the cost of every partition from below, the best one included. N = 0 is the
spectral bound. A good N comes in closed form from a clustering: with q_i = ½‖x_i − μ_a‖² for i in cluster a,

    N_ij = max(0, ½‖x_i − x_j‖² − q_i − q_j − (λ/2)(1/W_a + 1/W_c))   for i, j in different clusters, 0 within one.

Where nothing is cut off, PMP = P blockdiag(Gram of the centred cluster + (λ/W_a) u_a u_aᵀ) P: every indicator of a cluster has
the eigenvalue λ, and if that is the largest of any cluster's scatter the bound *equals* the cost (Awasthi et al. 2015,
Iguchi et al. 2017). Where some of it is cut off, projected supergradient steps on the concave bound improve N.

    >>> X = np.array([[0.0], [0.1], [5.0], [5.1]])
    >>> round(dual_bound(X, 2, labels=np.array([0, 0, 1, 1])), 6)                      # the optimum is 2 · 0.1²/2
    0.01
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.linalg import eigh

Array = np.ndarray
SHARES = (
    1.0,
    0.6,
    0.3,
)  # of the λ at which the closed form would be tight: less of it, less is cut off
TIGHT = 2e-3  # of the cost: a gap not worth another step


def weak_dual(A: Array, u: Array, N: Array, k: int) -> tuple[float, Array]:
    """The bound that N ≥ 0 proves, and the Y that attains it (its negative is a supergradient in N)."""
    n = len(A)
    if N.shape != (n, n) or N.min(initial=0.0) < 0:
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


def closed_form(X: Array, w: Array, labels: Array, share: float = 1.0) -> Array:
    """N of the clustering, as in the file's formula, with `share` of the λ that would make it tight."""
    names, labels = np.unique(labels, return_inverse=True)
    W = np.bincount(labels, w)
    means = np.stack([np.bincount(labels, w * x) for x in X.T], axis=1) / W[:, None]
    Y = X - means[labels]
    top = max(
        np.linalg.eigvalsh((Y[labels == c].T * w[labels == c]) @ Y[labels == c])[-1]
        for c in range(len(names))
    )
    q = np.einsum("ij,ij->i", Y, Y) / 2 + share * top / (2 * W[labels])
    squares = np.einsum("ij,ij->i", X, X)
    N = (squares[:, None] + squares) / 2 - X @ X.T - q[:, None] - q
    N[labels[:, None] == labels] = 0.0
    return np.maximum(N, 0.0) * np.sqrt(np.outer(w, w))


def dual_bound(
    X: Array, k: int, labels: Array, weights: Array | None = None, steps: int = 0
) -> float:
    """A lower bound on the cost of every partition of the rows into k clusters; tight where `labels` are well separated.

    labels : a clustering of the rows, the better the tighter; steps : supergradient steps where the closed form is loose.
    """
    return dual_bounds(X, k, labels, weights, steps)[-1]


def dual_bounds(
    X: Array, k: int, labels: Array, weights: Array | None = None, steps: int = 0
) -> list[float]:
    """The best bound of the closed form, and after each of the steps; shorter where it is tight before."""
    w = np.ones(len(X)) if weights is None else np.asarray(weights, dtype=np.float64)
    X, labels, w = np.asarray(X, dtype=np.float64)[w > 0], np.asarray(labels)[w > 0], w[w > 0]
    if len(X) <= k:
        return [0.0]
    X = X - np.average(X, axis=0, weights=w)
    if X.shape[1] > len(X):  # only inner products matter
        X = np.asarray(np.linalg.qr(X.T, mode="r")).T
    u = np.sqrt(w)
    A = X * u[:, None]
    cost = cost_of(X, w, labels)
    best, N, Y = 0.0, np.zeros((len(X), len(X))), np.eye(len(X))
    for share in SHARES:
        candidate = closed_form(X, w, labels, share)
        found, gradient = weak_dual(A, u, candidate, k)
        if found <= best:
            break
        best, N, Y = found, candidate, gradient
        if best >= (1 - TIGHT) * cost:
            break
    if best == 0:
        N *= 0  # the spectral bound
        best, Y = weak_dual(A, u, N, k)
    return [best, *_ascent(A, u, N, Y, k, best, cost, steps)]


def _ascent(
    A: Array, u: Array, N: Array, Y: Array, k: int, best: float, cost: float, steps: int
) -> Iterator[float]:
    """The best bound after each of Polyak's projected supergradient steps; what they aim at lies between it and the cost."""
    found, reach = best, 0.5
    for _ in range(steps):
        # entries at 0 that would have to fall stay there
        slope = np.where((N > 0) | (Y < 0), Y, 0.0)
        square = np.einsum("ij,ij->", slope, slope)
        if best >= (1 - TIGHT) * cost or square == 0:
            return
        N = np.maximum(N - (best + reach * (cost - best) - found) / square * slope, 0.0)
        found, Y = weak_dual(A, u, N, k)
        reach = reach if found > best else max(reach * 0.8, 0.05)
        best = max(best, found)
        yield best


def cost_of(X: Array, w: Array, labels: Array) -> float:
    _, labels = np.unique(labels, return_inverse=True)
    W = np.bincount(labels, w)
    sums = np.stack([np.bincount(labels, w * x) for x in X.T], axis=1)
    Y = X - (sums / W[:, None])[labels]
    return float(w @ np.einsum("ij,ij->i", Y, Y))
