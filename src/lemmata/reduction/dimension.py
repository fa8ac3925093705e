"""The number of components to keep: a given one, enough for a share of the variance, or by a rule that reads the spectrum.

"knee": those before the point that lies farthest below the line from the first variance to the last (CIL20 2.3.2).

"parallel" (Horn 1965): those before the first variance that rows of independent normal columns reach, too, the largest of DRAWS
draws of the same n and the same variances of columns. Their scatter is D^½ W D^½, with W of Wishart's law: of n rows it takes
no more than a triangle (Bartlett 1933), A_ii² ~ χ² of n − i degrees of freedom (i = 1 … d), A_ij ~ N(0, 1) below, W = AAᵀ.

"mle", the largest evidence:

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

from collections.abc import Callable

import numpy as np
from scipy.special import gammaln

Array = np.ndarray
MLE, KNEE, PARALLEL = "mle", "knee", "parallel"
DRAWS = 19  # of noise: the largest of them is passed by one draw of noise in twenty


def count_kept(
    values: Array,
    wanted: int | float | str,
    total: float,
    n: float = 0.0,
    squares: Callable[[], Array] | None = None,
) -> int:
    """Count the eigenvalues (descending) of a scatter of n rows to keep.

    total : their sum, in exact arithmetic
    squares : a function that returns the diagonal of the scatter, which "parallel" asks for
    """
    if wanted == KNEE:
        return find_knee(values[: max(int(min(n - 1, len(values))), 1)])
    if wanted == PARALLEL and squares is not None:
        return count_above_noise(np.asarray(values, np.float64), squares(), n)
    if wanted == MLE:
        return most_likely_dimension(values / (n - 1), n)
    if isinstance(wanted, float):
        shares = np.cumsum(values) / max(total, 1e-300)
        return min(int(np.searchsorted(shares, wanted, side="right")) + 1, len(values))
    return int(wanted)


def find_knee(values: Array) -> int:
    """The number of values before the one farthest below the line from the first to the last; at least 1."""
    x, y = np.linspace(0, 1, len(values)), np.asarray(values, np.float64) - values[-1]
    below = 1 - x - y / (y[0] or 1.0)
    return max(int(below.argmax()), 1)


def count_above_noise(values: Array, squares: Array, n: float) -> int:
    """The number of leading values that are above the same ones of all draws of noise; at least 1."""
    rng, m = np.random.default_rng(0), round(n) - 1
    noise = np.max([draw_noise(squares / m, m, rng)[: len(values)] for _ in range(DRAWS)], axis=0)
    above = values[: len(noise)] > noise
    return max(int(np.argmin(above)) if not above.all() else len(above), 1)


def draw_noise(variances: Array, m: int, rng: np.random.Generator) -> Array:
    """The eigenvalues, descending, of a scatter with m degrees of freedom of independent normal columns."""
    d = len(variances)
    A = rng.standard_normal((d, min(m, d)))
    if m >= d:
        A = np.tril(A, -1) + np.diag(np.sqrt(rng.chisquare(m - np.arange(d))))
    return np.linalg.svd(np.sqrt(variances)[:, None] * A, compute_uv=False) ** 2


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
