"""Dual points near the slopes of a fit: at the best intercept, without their part along columns that nothing penalises.

What is found here is a witness: the claims check that it is in the domain of the dual, and what it proves.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.linalg import lstsq
from scipy.special import expit

from lemmata.audit.kernel import losses
from lemmata.audit.kernel.claims import Fit
from lemmata.audit.kernel.duality_gap import TURNED, Point, Risk, balance

Array = np.ndarray
# numbers of a table whose singular values are taken, rather than the eigenvalues of its Gram matrix
SMALL = 2**20


def dual_points(fit: Fit, risk: Risk, at: Point) -> list[Array]:
    """Feasible dual points: the slopes at the best intercept; of least absolute deviations those of a vertex too."""
    f = at.f + best_shift(risk, at.f) if risk.free else at.f
    found = [feasible_slopes(fit, risk, risk.slopes(f))]
    if isinstance(risk.loss, losses.AbsoluteLoss) and not (risk.l1.any() or risk.l2.any()):
        found.append(feasible_slopes(fit, risk, vertex_slopes(risk, at)))
    return found


def feasible_slopes(fit: Fit | None, risk: Risk, U: Array) -> Array:
    """Slopes in the domain of the losses, with 1ᵀu = 0 and xⱼᵀu = 0 where the dual asks for it."""
    if risk.free:
        U = balance(risk, U)
    bare = np.flatnonzero(((risk.l1 == 0) & (risk.l2 == 0)).all(axis=1))
    return _project(risk, U, bare) if bare.size and not risk.positive else U


def vertex_slopes(risk: Risk, at: Point) -> Array:
    """Least absolute deviations at a vertex fit as many rows as there are weights; their slopes balance those of the others."""
    r = (at.f - risk.y)[:, 0]
    s, q = risk.s[:, 0], risk.rows.shape[1] + int(risk.free)
    u = s * np.sign(r)
    if q >= len(r):
        return u[:, None]
    fitted = np.argpartition(np.where(s > 0, np.abs(r), np.inf), q)[:q]
    u[fitted] = 0.0
    missing = risk.rows.adjoint(u[:, None])[:, 0]
    Z = risk.rows.columns(np.arange(risk.rows.shape[1]))[fitted]
    if risk.free:
        Z, missing = np.column_stack([Z, np.ones(q)]), np.append(missing, u.sum())
    u[fitted] = np.clip(np.linalg.lstsq(Z.T, -missing, rcond=None)[0], -s[fitted], s[fitted])
    return u[:, None]


# --- the intercept ----------------------------------------------------------------------------------------------------


def curvature(loss: losses.ConvexLoss, y: Array, f: Array) -> Array:
    """ℓ″ where it exists."""
    if isinstance(loss, losses.LogisticLoss):
        return expit(f) * expit(-f)
    if isinstance(loss, losses.SquaredHingeLoss):
        return 2.0 * ((y * f < 1.0) & (y * f >= loss.linear_below))
    if isinstance(loss, HuberAtScale):
        return (np.abs(f - y) <= loss.delta).astype(np.float64)
    return np.full_like(f, loss.curved)


def best_shift(risk: Risk, f: Array, steps: int = 60) -> Array:
    """Return what to add to the scores of every output so that Σ sᵢℓᵢ is least."""
    if isinstance(risk.loss, losses.SoftmaxLoss):
        return _softmax_shift(risk, f, steps)
    s = np.broadcast_to(risk.s, f.shape)
    if isinstance(risk.loss, losses.SquaredLoss):
        return (s * (risk.y - f)).sum(axis=0) / s.sum(axis=0)
    return np.array([_shift(risk.loss, risk.y[:, k], s[:, k], f[:, k], steps) for k in range(f.shape[1])])  # fmt: skip


def _shift(loss: losses.ConvexLoss, y: Array, s: Array, f: Array, steps: int) -> float:
    """Bisection between signs of Σ sℓ′(f + t), with Newton's step where it stays inside."""
    t, low, high = 0.0, -math.inf, math.inf
    reach = 1.0
    for _ in range(steps):
        u = s * loss.slope(y, f + t)
        total, size = float(u.sum()), float(np.abs(u).sum())
        if abs(total) <= 4e-16 * size:
            break
        low, high = (low, t) if total > 0 else (t, high)
        curved = float(s @ curvature(loss, y, f + t))
        step = t - total / curved if curved > 0 else math.nan
        if not low < step < high:
            if math.isinf(low) or math.isinf(high):
                reach *= 2
                step = t - reach if total > 0 else t + reach
            else:
                step = 0.5 * (low + high)
        if step in (t, low, high):
            break
        t = step
    return t


def _softmax_shift(risk: Risk, f: Array, steps: int) -> Array:
    """Newton on k offsets, each step halved until the risk does not rise."""
    s, k, last = risk.s[:, 0], f.shape[1], math.inf
    t = np.zeros(k)
    now = float(s @ losses.SoftmaxLoss.value(risk.y, f))
    for _ in range(steps):
        a = losses.SoftmaxLoss.slope(risk.y, f + t)
        gradient = s @ a
        size = float(np.abs(gradient).max())
        if size <= 1e-14 * float(s @ np.abs(a).sum(axis=1)) or size >= 0.9 * last:
            break  # arrived, as far as rounding allows
        last = size if size < 1e-6 * float(s.sum()) else math.inf
        p = np.exp(losses.log_softmax(f + t))
        H = np.diag(s @ p) - p.T @ (p * s[:, None])
        step = np.zeros(k)  # only differences matter: that of the first class stays
        try:
            step[1:] = -np.linalg.solve(H[1:, 1:], gradient[1:])
        except np.linalg.LinAlgError:
            step = -lstsq(H, gradient, cond=1e-14)[0]
        for _ in range(40):
            new = float(s @ losses.SoftmaxLoss.value(risk.y, f + t + step))
            # of a difference within rounding, the step is to be believed
            if new <= now + 1e-15 * abs(now):
                break
            step = step / 2
        else:
            break
        if np.abs(step).max() <= 1e-16 * (1 + np.abs(t).max()):
            break
        t, now = t + step, new
    return t


# --- projections ------------------------------------------------------------------------------------------------------


def _project(risk: Risk, U: Array, bare: Array) -> Array:
    """u without its part along the bare columns (and the constant), then scaled back into the domain of ℓ*.

    In the metric of the dual curvature, so that small u stay small: of logistic losses this is Newton's step in f.
    """
    Z = risk.rows.columns(bare)
    if risk.free:
        Z = np.column_stack([Z, np.ones(len(Z))])
    norms = np.linalg.norm(Z, axis=0)
    Z = Z / np.where(norms > 0, norms, 1.0)
    s = np.broadcast_to(risk.s, U.shape)
    if isinstance(risk.loss, losses.SoftmaxLoss):
        return _project_classes(risk, U, Z)
    out = np.empty_like(U)
    for k in range(U.shape[1]):
        h, u = np.sqrt(_metric(risk.loss, U[:, k], s[:, k])), U[:, k]
        A = Z * h[:, None]
        inverse = _inverse_gram(A)
        for _ in range(3):  # u − HZ(ZᵀHZ)⁻¹Zᵀu; the second and third time against rounding
            u = u - h * (A @ (inverse @ (Z.T @ u)))
        if np.abs(Z.T @ u).max(initial=0.0) > TURNED * np.linalg.norm(u):
            u = 0 * u  # the rows that could move do not span the columns: 0 is always in the domain
        a = np.divide(u, s[:, k], out=np.zeros(len(u)), where=s[:, k] > 0)
        out[:, k] = u * _shrink(risk.loss, risk.y[:, k], a)
    return out


def _inverse_gram(A: Array) -> Array:
    """(AᵀA)⁺, from the singular values of A; of a large table, from its Gram matrix."""
    if A.size <= SMALL:
        values, right = np.linalg.svd(A, full_matrices=False)[1:]
        squares = np.where(values > 1e-13 * values.max(initial=0.0), values**2, np.inf)
    else:
        squares, vectors = np.linalg.eigh(A.T @ A)
        squares = np.where(squares > 1e-13 * squares.max(initial=0.0), squares, np.inf)
        right = vectors.T
    return (right.T / squares) @ right


def _project_classes(risk: Risk, U: Array, Z: Array) -> Array:
    """The same for softmax: u + s(diag p − ppᵀ)Zδ keeps every row a difference of distributions."""
    s = risk.s[:, 0]
    own = np.zeros_like(U)
    own[np.arange(len(U)), risk.y] = 1.0
    P = np.divide(U, s[:, None], out=np.zeros_like(U), where=s[:, None] > 0) + own
    for _ in range(3):
        H = softmax_hessian(Z, s, P)
        right = (Z.T @ (s[:, None] * (P - own))).T.ravel()
        moved = Z @ lstsq(H, -right, cond=1e-13)[0].reshape(P.shape[1], -1).T
        P = P * (1.0 + moved - (P * moved).sum(axis=1, keepdims=True))
        if P.min(initial=0.0) < 0:
            return np.zeros_like(U)
    U = s[:, None] * (P - own)
    return U if np.abs(Z.T @ U).max(initial=0.0) <= TURNED * np.linalg.norm(U) else 0 * U


def softmax_hessian(A: Array, s: Array, P: Array) -> Array:
    """Σ sᵢ (diag pᵢ − pᵢpᵢᵀ) ⊗ aᵢaᵢᵀ, class by class."""
    k, q = P.shape[1], A.shape[1]
    H = np.empty((k, q, k, q))
    for i in range(k):
        for j in range(i, k):
            h = s * P[:, i] * ((i == j) - P[:, j])
            H[i, :, j] = A.T @ (A * h[:, None])
            H[j, :, i] = H[i, :, j].T
    return H.reshape(k * q, k * q)


def _metric(loss: losses.ConvexLoss, u: Array, s: Array) -> Array:
    """Where u may move, and by how much: 1/ℓ*″, 0 at the ends of the domain."""
    a = np.abs(np.divide(u, s, out=np.zeros_like(u), where=s > 0))
    if loss.name == "logistic":
        return s * a * np.maximum(1.0 - a, 0.0)
    return s * (a < loss.steepest) if not loss.margin else s * ((a > 0) & (a < loss.steepest))


def _shrink(loss: losses.ConvexLoss, y: Array, a: Array) -> float:
    """The largest t ≤ 1 with t·a in the domain of ℓ*; 0 where no such t is positive."""
    size = -y * a if loss.margin else np.abs(a)
    if loss.margin and size.min(initial=0.0) < 0:
        return 0.0
    most = float(size.max(initial=0.0))
    return 1.0 if most <= loss.steepest else loss.steepest / most


@dataclass(frozen=True, kw_only=True)
class HuberAtScale(losses.ConvexLoss):
    """½ r² up to |r| = δ, δ|r| − ½ δ² beyond: what a step of robust regression minimises at a fixed scale."""

    delta: float = 1.35
    name: str = "huber"
    curved: float = 1.0

    def __post_init__(self):
        object.__setattr__(self, "steepest", self.delta)

    def value(self, y, f):
        size = np.abs(f - y)
        return np.where(size <= self.delta, 0.5 * size**2, self.delta * size - 0.5 * self.delta**2)

    def slope(self, y, f):
        return np.clip(f - y, -self.delta, self.delta)

    def excess(self, y, f, a):
        r = f - y
        short = self.delta - np.sign(r) * a  # of the slope that a large residual asks for
        beyond = np.maximum(np.abs(r) - self.delta, 0.0) * short + 0.5 * short**2
        return np.where(np.abs(r) <= self.delta, 0.5 * np.square(r - a), beyond)
