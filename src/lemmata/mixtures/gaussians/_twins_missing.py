"""Gaussian rows with unknown entries in NumPy: the twin of _kernels_missing.py, all patterns of unknown entries at once.

    p(x_o) = N(μ_o, Σ_oo),      E[x_m | x_o] = μ_m + Σ_mo Σ_oo⁻¹ (x_o − μ_o),      Cov[x_m | x_o] = Σ_mm − Σ_mo Σ_oo⁻¹ Σ_om

With the rows and columns of what is unknown replaced by those of the identity, Σ_oo has the same size for every pattern, and
LAPACK factors a stack of them. With LLᵀ that matrix, W = L⁻¹, and T = Σ Wᵀ with the columns of the unknown left out, the three
are −½‖W(x − μ)‖² + Σ log W_aa, T W(x − μ), and Σ_mm − T Tᵀ.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

Array = np.ndarray
NUMBERS = 2**19  # in a stack of matrices: 4 MB
LOG_2PI = float(np.log(2 * np.pi))


class Stack(NamedTuple):
    """Some rows, the patterns they have, and the factors of one component for each of these."""

    rows: slice
    which: Array  # (rows,) the pattern of each
    seen: Array  # (patterns, d) which entries are known
    W: Array  # (patterns, d, d)
    cov: Array  # (d, d)

    def whiten(self, delta: Array) -> Array:
        """W(x − μ) of the rows; 0 for what is unknown."""
        return np.matmul(self.W[self.which], delta[:, :, None])[:, :, 0]

    @property
    def T(self) -> Array:
        """(patterns, d, d): Σ Wᵀ."""
        return np.matmul(self.cov, np.swapaxes(self.W * self.seen[:, None], -1, -2))


def _stacks(gone: Array, starts: Array, covs: Array) -> Iterator[tuple[int, Stack]]:
    """(component, stack) for all rows and components; a covariance shared by all comes once, as component −1."""
    n, d = gone.shape
    step = max(8, NUMBERS // (d * d))
    of_row = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    for start in range(0, n, step):
        rows = slice(start, min(start + step, n))
        first = of_row[start]
        which = of_row[rows] - first
        seen = ~gone[starts[first : first + which[-1] + 1]]
        both = seen[:, :, None] & seen[:, None]
        for j, cov in enumerate(covs):
            W = np.linalg.inv(_factor(np.where(both, cov, np.eye(d))))
            yield (j if len(covs) > 1 else -1), Stack(rows, which, seen, W, cov)


def _factor(A: Array) -> Array:
    """L with LLᵀ = A. What rounding makes of a nearly singular one is kept above 0."""
    try:
        return np.linalg.cholesky(A)
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(A)
        values = np.maximum(values, np.finfo(float).eps * values[:, -1:])
        half = np.swapaxes(vectors * np.sqrt(values)[:, None], -1, -2)  # A = halfᵀ half = RᵀR
        R = np.linalg.qr(half)[1]
        return np.swapaxes(R * np.sign(np.einsum("paa->pa", R))[:, :, None], -1, -2)


def marginal_logs(X: Array, starts: Array, means: Array, covs: Array) -> Array:
    """(n, k) log N(x_o; μ_jo, Σ_joo), 0 for a row of which nothing is known. X is sorted by patterns; covs (k or 1, d, d)."""
    gone, out = np.isnan(X), np.empty((len(X), len(means)))
    for shared, stack in _stacks(gone, starts, covs):
        x, lost = X[stack.rows], gone[stack.rows]
        known = stack.seen.sum(axis=1)
        constant = np.log(np.einsum("paa->pa", stack.W)).sum(axis=1) - 0.5 * known * LOG_2PI
        for j in range(len(means)) if shared < 0 else (shared,):
            y = stack.whiten(np.where(lost, 0.0, x - means[j]))
            out[stack.rows, j] = constant[stack.which] - 0.5 * np.einsum("ia,ia->i", y, y)
    return out


def conditional_means(
    X: Array, starts: Array, means: Array, covs: Array
) -> Iterator[tuple[int, Stack, Array]]:
    """(component, stack, E[x | x_o] of its rows) for all rows and components. X is sorted by patterns."""
    gone = np.isnan(X)
    for shared, stack in _stacks(gone, starts, covs):
        x, lost, T = X[stack.rows], gone[stack.rows], stack.T
        for j in range(len(means)) if shared < 0 else (shared,):
            y = stack.whiten(np.where(lost, 0.0, x - means[j]))
            guess = means[j] + np.matmul(T[stack.which], y[:, :, None])[:, :, 0]
            yield j, stack, np.where(lost, guess, x)


def conditional_covariance(stack: Stack) -> Array:
    """(patterns, d, d) Cov[x | x_o]: Σ_mm − T Tᵀ, and 0 for what is known."""
    T, gone = stack.T, ~stack.seen
    return np.where(
        gone[:, :, None] & gone[:, None], stack.cov - np.matmul(T, np.swapaxes(T, -1, -2)), 0.0
    )


def conditional_noise(stack: Stack, which: Array, noise: Array) -> Array:
    """Standard normal numbers of some rows of a stack turned into noise of Cov[x | x_o]; what is known gets junk."""
    gone = ~stack.seen
    hidden = np.where(
        gone[:, :, None] & gone[:, None], conditional_covariance(stack), np.eye(gone.shape[1])
    )
    return np.matmul(_factor(hidden)[stack.which[which]], noise[:, :, None])[:, :, 0]


def conditional_sums_into(
    sums: Array,
    scatter: Array,
    X: Array,
    starts: Array,
    R: Array,
    means: Array,
    covs: Array,
    origin: Array,
) -> None:
    """sums (k, d) += Σ r E[δ | x_o], scatter (k, d, d) += Σ r E[δδᵀ | x_o], δ = x − origin_j; R (n, k) holds r."""
    for j, stack, guess in conditional_means(X, starts, means, covs):
        r = R[stack.rows, j]
        root = np.sqrt(r)
        delta = root[:, None] * (guess - origin[j])
        sums[j] += root @ delta
        if scatter.size:
            total = np.bincount(stack.which, r, minlength=len(stack.seen))
            left = conditional_covariance(stack)
            scatter[j] += delta.T @ delta + np.tensordot(total, left, axes=1)
