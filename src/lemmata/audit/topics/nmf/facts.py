"""Errors, slopes and curvatures of two non-negative factors on data, recomputed in float64.

    X ≈ W H,   W (n, k) ≥ 0, H (k, m) ≥ 0,   rows weighted by s, sums over what is known (not NaN, not absent from an Observed)

All in units where the largest number of X and of every row of H is 1 (nothing overflows, and no unit of X nor any
scaling WD, D⁻¹H matters). With F the objective, g = ∂F/∂w and c = ∂²F/∂w² of one entry, the step to the best w ≥ 0 of
that entry alone is −min(w, g/c): the KKT conditions (w ≥ 0, g ≥ 0, wg = 0) hold exactly where it is 0. `stillness` is
its size in the unit of the data,

    √(Σ c min(w, g/c)²) / √(Σ s x²)          for squares;       Σ_i max_z |min(u, tγ)| / Σ t     for the divergence,

where u = w·(Σ_j h) is the part of a row's total t that component z holds, and γ = g/(Σ_j h) its slope in nats.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from lemmata.audit.kernel.claims import Fit, fact, passes
from lemmata.completion.observed import Observed

Array = np.ndarray


@dataclass
class ScaledBlock:
    """Rows in float64, scaled: X, the mask (None: all known) and the weights, relative to the largest."""

    X: Any
    mask: Any
    s: Array


def divergence(fit: Fit) -> bool:
    """Return whether a fit minimises the divergence, not squares."""
    return fit.get("beta_loss", "frobenius") == "kullback-leibler"


class NonnegativeRows:
    """The data of a fit, block by block, in units where the largest number and the largest weight are 1."""

    def __init__(self, data: Any):
        self.data, self.only_stored = data, isinstance(data.source, Observed)
        largest = 0.0
        for rows, _ in self.data:
            numbers = rows.data if sp.issparse(rows) else rows
            largest = max(largest, float(np.fmax.reduce(numbers, axis=None, initial=0.0)))
        self.scale = _power_of_two(largest)
        weights = self.data.weights
        self.unit = 1.0 if weights is None else float(np.max(weights))

    def __iter__(self) -> Iterator[tuple[slice, ScaledBlock]]:
        first = 0
        for rows, weights in self.data:
            X = rows.astype(np.float64) * (1 / self.scale)
            s = np.ones(X.shape[0]) if weights is None else np.asarray(weights) / self.unit
            mask = None
            if self.only_stored:
                X = sp.csr_array(X)
                mask = sp.csr_array((np.ones_like(X.data), X.indices, X.indptr), shape=X.shape)
            elif sp.issparse(X):
                X = sp.csr_array(X)
            elif np.isnan(X).any():
                mask = (~np.isnan(X)).astype(np.float64)
                X = np.where(mask > 0, X, 0.0)
            yield slice(first, first + X.shape[0]), ScaledBlock(X, mask, s)
            first += X.shape[0]


class Numbers(NonnegativeRows):
    """The data of a fit, its factors, and the penalties, all in units where the largest is 1."""

    def __init__(self, fit: Fit):
        super().__init__(fit.data)
        self.fit, self.divergence = fit, divergence(fit)
        self.H, self.sizes = _scale(np.asarray(fit.components_, np.float64))
        self._penalties()
        self.W = self._coefficients()

    def _penalties(self) -> None:
        """Those of scikit-learn: m·α_W on W, n·α_H on H (n is the sum of weights); in the units of this page."""
        fit, d, c = self.fit, self.sizes, self.scale
        on_W, ratio = float(fit.get("alpha_W", 0.0)), float(fit.get("l1_ratio", 0.0))
        on_H = fit.get("alpha_H", "same")
        on_H = on_W if on_H == "same" else float(on_H)
        n, m = self.data.total_weight / self.unit, self.data.shape[1]
        zero = np.zeros(len(d))
        self.l1_W, self.l2_W, self.l1_H, self.l2_H = zero, zero, zero, zero
        self.penalised = bool(on_W or on_H)
        if self.penalised:  # F is divided by scale² (squares) or scale (divergence)
            one = 1.0 if self.divergence else c
            self.l1_W = m * on_W * ratio / one / d
            self.l2_W = m * on_W * (1 - ratio) / one * c / d / d
            self.l1_H = n * on_H * ratio * d / c / one
            self.l2_H = n * on_H * (1 - ratio) * d / c / one * d

    def _coefficients(self) -> Array | None:
        """The model's own W, or one that was searched for where it keeps none; None where it keeps that of other rows."""
        W = self.fit.get("doc_topic_")
        self.given = W is not None and len(W) == self.data.shape[0]
        if self.given:
            return np.asarray(W, np.float64) / self.scale * self.sizes
        if W is not None:
            return None
        W = self.fit.witness("coefficients", self)
        shape = self.data.shape[0], len(self.H)
        return W if np.shape(W) == shape and np.isfinite(W).all() and (W >= 0).all() else None


def _solving(fit: Fit) -> float:
    """The cost of several hundred sweeps where the model keeps no W."""
    k = len(fit.components_)
    if fit.get("doc_topic_") is not None:
        return 0.0
    return 400.0 * k * fit.data.size if divergence(fit) else 200.0 * k * (k * fit.data.shape[0])


@fact(cost=_solving)
def numbers_of(fit: Fit) -> Numbers:
    """Return the data and the factors of a fit."""
    return Numbers(fit)


@dataclass(frozen=True)
class Error:
    """The distance of WH from the data, the size of the data, a lower bound on the error of any W ≥ 0 for this H, and the
    stillness of both factors."""

    error: float
    size: float
    least: float
    rows: float
    columns: float


def _work(fit: Fit) -> float:
    """Four products with every number; of dense rows they are those of matrices, beside some passes."""
    k, sparse = len(fit.components_), fit.data.sparse or isinstance(fit.data.source, Observed)
    return passes(5.0 * k if sparse or divergence(fit) else 8.0 + 0.5 * k)(fit)


@fact(cost=_work, needs=(numbers_of,))
def error_of(fit: Fit) -> Error | None:
    """Return the error of the factors; None where W is that of other rows."""
    numbers = numbers_of(fit)
    if numbers.W is None:
        return None
    return (divergence_of if numbers.divergence else squares_of)(numbers)


def _power_of_two(x: float) -> float:
    return math.ldexp(1.0, math.frexp(x)[1]) if 0 < x < math.inf else 1.0


def _scale(H: Array) -> tuple[Array, Array]:
    sizes = np.array([_power_of_two(float(row.max(initial=0.0))) for row in H])
    return H / sizes[:, None], sizes


# --- squares ----------------------------------------------------------------------------------------------------------


def squares_of(numbers: Numbers) -> Error:
    """Return Σ s r² beside Σ s x²."""
    H, W = numbers.H, numbers.W
    assert W is not None
    k, m = H.shape
    error = square = least = still = 0.0
    slopes, curves = np.zeros((k, m)), np.zeros((k, m))
    sums = H.sum(axis=1)
    for place, block in numbers:
        w, s = W[place], block.s
        own, ends, r2, x2, bound = _residuals(block, w, H, sums)
        error += float(s @ r2)
        square += float(s @ x2)
        least += float(s @ bound)
        c = (H**2).sum(axis=1) if block.mask is None else np.asarray(block.mask @ (H**2).T)
        c = c + numbers.l2_W
        g = own + numbers.l1_W + numbers.l2_W * w
        step = np.minimum(w, np.where(c > 0, g / np.where(c > 0, c, 1), w))
        still += float(s @ (c * step**2).sum(axis=1))
        sw = w * s[:, None]
        slopes += ends(sw)
        curves += (sw * w).sum(axis=0)[:, None] if block.mask is None else np.asarray(block.mask.T @ (sw * w)).T  # fmt: skip
    c = curves + numbers.l2_H[:, None]
    g = slopes + numbers.l1_H[:, None] + numbers.l2_H[:, None] * H
    step = np.minimum(H, np.where(c > 0, g / np.where(c > 0, c, 1), H))
    columns = float((c * step**2).sum())
    unit = square if square > 0 else 1.0
    return Error(error, square, least, math.sqrt(still / unit), math.sqrt(columns / unit))


def _residuals(block: ScaledBlock, w: Array, H: Array, sums: Array):
    """∂/∂w of ½‖x − wH‖², a function that gives Σ s w (wH − x), and ‖r‖², ‖x‖² and a lower bound on ‖r‖² of every row.

    Any y with Hy ≤ 0 proves ½‖r‖² ≥ xᵀy − ½‖y‖² for every w ≥ 0; r itself, moved along 1 until it meets Hy ≤ 0, is one.
    """
    X, mask = block.X, block.mask
    if not sp.issparse(X):
        R = w @ H - X
        if mask is not None:
            R *= mask
        own = R @ H.T
        r2, x2 = (R**2).sum(axis=1), (X**2).sum(axis=1)
        known = np.ones_like(X) if mask is None else mask
        slack = np.broadcast_to(sums, own.shape) if mask is None else mask @ H.T
        shift = _shift(own, slack)
        Y = -R - shift[:, None] * known
        bound = 2 * (X * Y).sum(axis=1) - (Y**2).sum(axis=1)
        return own, lambda sw: sw.T @ R, r2, x2, np.maximum(bound, 0.0)
    P = np.asarray(X @ H.T)
    x2 = np.asarray(X.multiply(X).sum(axis=1)).ravel()
    if mask is None:
        G = H @ H.T
        own = w @ G - P
        r2 = np.maximum(x2 - 2 * (P * w).sum(axis=1) + ((w @ G) * w).sum(axis=1), 0.0)
        shift = _shift(own, np.broadcast_to(sums, own.shape))
        # y = x − wH − τ1
        total, fitted = np.asarray(X.sum(axis=1)).ravel(), w @ sums
        xy = x2 - (P * w).sum(axis=1) - shift * total
        yy = r2 - 2 * shift * (total - fitted) + shift**2 * H.shape[1]
        return own, lambda sw: (sw.T @ w) @ H - np.asarray(X.T @ sw).T, r2, x2, np.maximum(2 * xy - yy, 0.0)  # fmt: skip
    R = X.copy()
    R.data = entry_products(X, w, H) - X.data
    own = np.asarray(R @ H.T)
    r2 = np.asarray(R.multiply(R).sum(axis=1)).ravel()
    shift = _shift(own, np.asarray(mask @ H.T))
    y = -R.data - np.repeat(shift, np.diff(X.indptr))
    both = sp.csr_array((2 * X.data * y - y**2, X.indices, X.indptr), shape=X.shape)
    bound = np.asarray(both.sum(axis=1)).ravel()
    return own, lambda sw: np.asarray(R.T @ sw).T, r2, x2, np.maximum(bound, 0.0)


def _shift(slopes: Array, slack: Array) -> Array:
    """The least τ ≥ 0 with −g − τ·slack ≤ 0 for all components."""
    ratios = np.where(slack > 0, -slopes / np.where(slack > 0, slack, 1), 0.0)
    return np.maximum(ratios.max(axis=1, initial=0.0), 0.0)


def entry_products(X: Any, w: Array, H: Array) -> Array:
    """(wH)_ij of every entry, some at a time."""
    rows = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
    p, step = np.empty(len(rows)), max(1, 2**22 // max(len(H), 1))
    for start in range(0, len(rows), step):
        cut = slice(start, start + step)
        p[cut] = np.einsum("ij,ji->i", w[rows[cut]], H[:, X.indices[cut]])
    return p


# --- divergence -------------------------------------------------------------------------------------------------------


def pulls_of(block: ScaledBlock, w: Array, H: Array):
    """Σ_j (x/p) h_zj of every row, a function that gives Σ s w (x/p), and Σ x ln(x/p) − x of every row."""
    X = block.X if sp.issparse(block.X) else sp.csr_array(block.X)
    p = entry_products(X, w, H)
    x = X.data
    with np.errstate(divide="ignore"):
        logs = np.where(x > 0, x * (np.log(np.where(x > 0, x, 1)) - np.log(p)) - x, 0.0)
    Q = X.copy()
    Q.data = np.where(x > 0, x / np.maximum(p, 1e-300), 0.0)
    rows = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
    logs = np.bincount(rows, logs, minlength=X.shape[0])
    return np.asarray(Q @ H.T), lambda sw: np.asarray(Q.T @ sw).T, logs


def known_sums(block: ScaledBlock, H: Array) -> Array:
    """Σ_j h_zj over the known columns of every row."""
    sums = H.sum(axis=1)
    if block.mask is None:
        return np.broadcast_to(sums, (block.X.shape[0], len(H)))
    return np.asarray(block.mask @ H.T)


def divergence_of(numbers: Numbers) -> Error:
    """Return D beside Σ s x."""
    H, W = numbers.H, numbers.W
    assert W is not None
    k, m = H.shape
    error = least = sum_total = still = 0.0
    pulls, known, totals = np.zeros((k, m)), np.zeros((k, m)), np.zeros(m)
    for place, block in numbers:
        w, s = W[place], block.s
        up, ends, logs = pulls_of(block, w, H)
        slope = known_sums(block, H)
        t = np.asarray(block.X.sum(axis=1)).ravel()
        # infinite where a seen value has p = 0
        d = np.where(s > 0, logs + (w * slope).sum(axis=1), 0.0)
        error, sum_total = error + float(s @ d), sum_total + float(s @ t)
        # D is convex in w: its tangent, and the best length of w, bound it from below
        steep = np.where(slope > 0, up / np.where(slope > 0, slope, 1), 0.0).max(
            axis=1, initial=0.0
        )
        mass = (w * slope).sum(axis=1)
        ratio = mass / np.where(t > 0, t, 1)
        length = mass - t - t * np.log(np.where((ratio > 0) & (t > 0), ratio, 1))
        # after scaling to mass t, pulls are mass/t times as large
        gain = t * np.maximum(steep * ratio - 1, 0)
        least += float(s @ np.maximum(d - length - gain, 0.0))
        still += float(s @ _unrest(w, up, slope + numbers.l1_W + numbers.l2_W * w, t))
        sw = w * s[:, None]
        pulls += ends(sw)
        known += sw.sum(axis=0)[:, None] if block.mask is None else np.asarray(block.mask.T @ sw).T
        totals += np.asarray(block.X.T @ s).ravel()
    slope = known + numbers.l1_H[:, None] + numbers.l2_H[:, None] * H
    columns = float(_unrest(H.T, pulls.T, slope.T, totals).sum())
    unit = sum_total if sum_total > 0 else 1.0
    return Error(error, sum_total, least, still / unit, columns / unit)


def _unrest(w: Array, up: Array, slope: Array, totals: Array) -> Array:
    """max_z |min(u, tγ)| of every row, u = w·slope, γ = 1 − up/slope."""
    u = w * slope
    gamma = 1 - np.where(slope > 0, up / np.where(slope > 0, slope, 1), 1.0)
    t = np.maximum(totals, u.sum(axis=1))[:, None]
    return np.abs(np.minimum(u, t * gamma)).max(axis=1, initial=0.0)
