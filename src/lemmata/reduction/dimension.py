"""The number of components to keep: a given one, enough for a share of the variance, or the one of largest evidence.

    log p(X | k) ≈ log p(U) − n/2 Σ_{j≤k} log λ_j − n(d−k)/2 log v + (m+k)/2 log 2π − ½ log|A| − k/2 log n

Minka (2000) integrates the density of probabilistic PCA over the k axes by Laplace's method: v is the mean of the variances
left out, m = dk − k(k+1)/2 the freedom of k axes, p(U) the uniform law of an orthonormal frame, and

    log|A| = Σ_{i≤k} Σ_{j>i} log[(λ_i − λ_j)(1/λ̂_j − 1/λ̂_i) n],            λ̂_j = λ_j for j ≤ k, v beyond

    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((500, 3)) @ rng.standard_normal((3, 10)) * 4 + rng.standard_normal((500, 10))
    >>> most_likely_dimension(np.linalg.eigvalsh(np.cov(X.T))[::-1], 500)
    3
"""

from __future__ import annotations

import numpy as np
from scipy.special import gammaln

Array = np.ndarray
MLE = "mle"


def count_kept(values: Array, wanted: int | float | str, total: float, n: float = 0.0) -> int:
    """Count the eigenvalues (descending) of a scatter of n rows to keep; `total` is their sum, in exact arithmetic."""
    if wanted == MLE:
        return most_likely_dimension(values / (n - 1), n)
    if isinstance(wanted, float):
        shares = np.cumsum(values) / max(total, 1e-300)
        return min(int(np.searchsorted(shares, wanted, side="right")) + 1, len(values))
    return int(wanted)


def most_likely_dimension(variances: Array, n: float) -> int:
    """The k from 1 to d − 1 with the largest evidence for n rows with these variances (d of them, descending)."""
    d = len(variances)
    if d < 2:
        return d
    evidence = _evidence(np.asarray(variances, dtype=np.float64), n)
    return int(np.argmax(evidence)) + 1 if np.isfinite(evidence).any() else 1


def _evidence(variances: Array, n: float) -> Array:
    """log p(X | k) for k = 1 … d − 1. All sums over pairs are cumulative ones: d² work in all."""
    d, k = len(variances), np.arange(1, len(variances))
    # variances are known up to rounding of the largest: equal ones differ by that much, and none is smaller
    least = max(float(variances[0]) * np.finfo(float).eps, np.finfo(float).tiny)
    values = np.maximum(variances, least)
    logs = np.log(values)
    v = np.cumsum(values[::-1])[-2::-1] / (d - k)
    frame = np.cumsum(gammaln((d - k + 1) / 2) - np.log(np.pi) * (d - k + 1) / 2) - k * np.log(2)
    freedom = d * k - k * (k + 1) / 2
    inside, across = _log_differences(values, least, n)
    heads = np.cumsum(logs)[:-1]
    # i < j ≤ k: 2 log(λ_i − λ_j) − log λ_i − log λ_j; i ≤ k < j: log(λ_i − λ_j) + log(λ_i − v) − log λ_i − log v
    beyond = np.array([_log_gaps(values[:i], v[i - 1], least, n).sum() for i in k])
    hessian = 2 * inside - (k - 1) * heads + across
    hessian += (d - k) * (beyond - heads - k * np.log(v)) + freedom * np.log(n)
    found = frame - n / 2 * (heads + (d - k) * np.log(v)) - k / 2 * np.log(n)
    found += (freedom + k) / 2 * np.log(2 * np.pi) - hessian / 2
    return np.where(variances[:-1] > least, found, -np.inf)


def _log_gaps(above: Array, below: Array | float, least: float, n: float) -> Array:
    """log(λ_i − λ_j); of equal ones, whose axes no sample tells apart, of what sampling makes of their difference."""
    return np.log(np.where(above - below > least, above - below, above * np.sqrt(2 / n)))


def _log_differences(values: Array, least: float, n: float) -> tuple[Array, Array]:
    """Σ log(λ_i − λ_j) over i < j ≤ k, and over i ≤ k < j, for k = 1 … d − 1."""
    L = np.triu(_log_gaps(values[:, None], values, least, n), 1)
    corner = np.cumsum(np.cumsum(L, axis=0), axis=1)  # (a, b): sums over i ≤ a, j ≤ b
    inside = np.diagonal(corner)[:-1]
    return inside, corner[:-1, -1] - inside
