"""The E-step of a Gaussian mixture in NumPy, where a compiler would take longer than the work: the twin of _kernels.py.

    l_j = log π_j + log p(x | j),   r_j = w e^{l_j} / Σ_i e^{l_i},   N_j = Σ r_j,  s_j = Σ r_j δ,  S_j = Σ r_j δδᵀ,  δ = x − μ_j

All components at once: one product of the rows with all P makes all distances, and one of δ (k, rows, d) with itself all
scatters.
Sums are in float64 whatever the data is.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lemmata.mixtures.gaussians.components import LOWEST, Standardised

Array = np.ndarray
NUMBERS = 2**19  # in δ at a time: 4 MB
NEARBY = (
    2**15
)  # in x at a time, where there is no δ: with x² half a megabyte, which stays in the second-level cache
# (μ/σ)² up to which squares are expanded: (x − μ)²/σ² = (x² − 2xμ + μ²)/σ² errs by eps·(μ/σ)², 2e-10 at most
NEAR = 2.0**20
quiet = np.errstate(over="ignore", invalid="ignore")  # rows beyond all densities, and NaN, occur


@quiet
def sweep(
    rows: Array, weights: Array | None, mixture: Standardised, scatter: bool = True
) -> tuple[float, Array, Array, Array]:
    """Σ w log p(x), N (k,), s (k, d) and S (k, d, d) of a block, in standard units; S is empty if it is not wanted.

    The first is NaN where the rows hold a NaN; then the others mean nothing.
    """
    k, d = mixture.means.shape
    likelihood, N, s = 0.0, np.zeros(k), np.zeros((k, d))
    S, P = np.zeros((k if scatter else 0, d, d)), _side_by_side(mixture)
    for x, w in _slices(rows, weights, mixture):
        found, r = _respond(_squares(x, P, mixture), mixture.logs, w)
        likelihood += found
        root = np.sqrt(r)
        delta = x - mixture.means[:, None]  # (k, rows, d)
        delta *= root[:, :, None]
        N += r.sum(axis=1)
        s += np.matmul(root[:, None], delta)[:, 0]
        if scatter:
            S += np.matmul(delta.transpose(0, 2, 1), delta)
    return likelihood, N, s, S


@quiet
def axis_sweep(
    rows: Array, weights: Array | None, mixture: Standardised
) -> tuple[float, Array, Array, Array]:
    """The same for components with independent features; the last is Σ r δ² (k, d)."""
    k, d = mixture.means.shape
    nearby = Nearby.of(mixture)
    likelihood, N, s, squares = 0.0, np.zeros(k), np.zeros((k, d)), np.zeros((k, d))
    for x, w in _axis_slices(rows, weights, mixture, nearby):
        found, r = _respond(_axis_squares(x, mixture, nearby), mixture.logs, w)
        n = r.sum(axis=1)
        likelihood, N = likelihood + found, N + n
        if nearby:
            M, n = nearby.means, n[:, None]
            sums = r @ x
            first, second = sums[:, :d], sums[:, d:]
            s += first - n * M
            squares += second - M * (2 * first - n * M)
        else:
            delta = x - mixture.means[:, None]
            s += np.matmul(r[:, None], delta)[:, 0]
            squares += np.matmul(r[:, None], delta * delta)[:, 0]
    return likelihood, N, s, np.maximum(squares, 0.0)


@quiet
def log_densities(rows: Array, mixture: Standardised) -> Array | None:
    """log π_j + log p(x | j) for every row and component (n, k); None where there is a NaN."""
    dense = mixture.P.ndim == 3
    P, nearby = (_side_by_side(mixture), None) if dense else (mixture.P, Nearby.of(mixture))
    out, start = np.empty((len(rows), len(mixture.logs)), rows.dtype), 0
    slices = _slices(rows, None, mixture) if dense else _axis_slices(rows, None, mixture, nearby)
    for x, _ in slices:
        squares = _squares(x, P, mixture) if dense else _axis_squares(x, mixture, nearby)
        out[start : start + len(x)] = (mixture.logs[:, None] - 0.5 * squares).T
        start += len(x)
    return None if np.isnan(out).any() else out


def _slices(rows: Array, weights: Array | None, mixture: Standardised):
    """Standardised rows and their weights (None: one each), as many at a time as fit a cache beside their δ."""
    step = max(64, NUMBERS // max(len(mixture.logs) * rows.shape[1], 1))
    for start in range(0, len(rows), step):
        x = (rows[start : start + step] - mixture.centre) * mixture.inverse
        yield x, None if weights is None else weights[start : start + step]


def _side_by_side(mixture: Standardised) -> Array:
    """P of all components, (d, k·d): one large product is faster than k small ones."""
    k, d = mixture.means.shape
    return mixture.P[:, :, :d].transpose(1, 0, 2).reshape(d, k * d)


def _squares(x: Array, P: Array, mixture: Standardised) -> Array:
    """‖Pᵀx − Pᵀμ‖², (k, rows)."""
    k, d = mixture.means.shape
    y = (x @ P).reshape(len(x), k, d)
    y -= mixture.shift[:, :d]
    return np.einsum("ija,ija->ji", y, y)


class Nearby(NamedTuple):
    """Components whose squares can be expanded about one point: in each feature the mean of the narrowest of them."""

    origin: Array  # (d,) in the units of the rows
    means: Array  # (k, d) from there, in standard units
    factors: Array  # (k, 2d): of x and of x² in the distances
    constant: Array  # (k, 1)

    @classmethod
    def of(cls, mixture: Standardised) -> Nearby | None:
        """None where the components lie so far apart, for their widths, that digits would be lost."""
        P, M = mixture.P, mixture.means
        middle = M[P.argmax(axis=0), np.arange(M.shape[1])]
        origin = mixture.centre + middle / mixture.inverse
        M = M - (origin - mixture.centre) * mixture.inverse
        P2, PM2 = P**2, (P * M) ** 2
        if not PM2.max() <= NEAR:
            return None
        return cls(origin, M, np.hstack([-2 * P2 * M, P2]), PM2.sum(axis=1)[:, None])


def _axis_slices(rows: Array, weights: Array | None, mixture: Standardised, nearby: Nearby | None):
    """As `_slices`; with `nearby`, x from its origin and x² beside it, (rows, 2d), so that both are one product."""
    if nearby is None:
        yield from _slices(rows, weights, mixture)
        return
    d = rows.shape[1]
    step = max(64, NEARBY // max(d, 1))
    for start in range(0, len(rows), step):
        some = rows[start : start + step]
        both = np.empty((len(some), 2 * d))
        x = np.subtract(some, nearby.origin, out=both[:, :d])
        x *= mixture.inverse
        np.multiply(x, x, out=both[:, d:])
        yield both, None if weights is None else weights[start : start + step]


def _axis_squares(x: Array, mixture: Standardised, nearby: Nearby | None) -> Array:
    """Σ_a (x_a − μ_a)²/σ_a², (k, rows)."""
    if nearby is None:
        y = x * mixture.P[:, None] - mixture.shift[:, None]
        return np.einsum("jia,jia->ji", y, y)
    expanded = nearby.factors @ x.T
    expanded += nearby.constant
    return np.maximum(expanded, 0.0, out=expanded)


def _respond(squares: Array, logs: Array, w: Array | None) -> tuple[float, Array]:
    """Σ w log p(x), and the responsibilities times the weights (k, rows)."""
    l = np.maximum(logs[:, None] - 0.5 * squares, LOWEST)
    top = l.max(axis=0)
    l -= top
    r = np.exp(l, out=l)
    total = r.sum(axis=0)
    each = top + np.log(total)
    r *= 1 / total if w is None else w / total
    return float(each.sum() if w is None else w @ each), r
