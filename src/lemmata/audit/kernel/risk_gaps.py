"""How far weights are from the best ones: the duality gap of a penalised risk.

    P(w, b) = Σ sᵢ ℓᵢ(xᵢᵀw + b) + Σⱼ λ₁ⱼ|wⱼ| + ½ λ₂ⱼ wⱼ²                                  (w ≥ 0 where `positive`)
    D(u)    = −Σ sᵢ ℓᵢ*(uᵢ/sᵢ) − Ω*(−Xᵀu),          1ᵀu = 0 if b is free,     D(u) ≤ P* ≤ P(w, b) for every u in the domain

With 1ᵀu = 0 the difference is a sum of Fenchel–Young terms, none of which is negative (v = Xᵀu):

    P − D = Σ sᵢ [ℓᵢ(fᵢ) + ℓᵢ*(uᵢ/sᵢ) − fᵢuᵢ/sᵢ]  +  Σⱼ [λ₁|wⱼ| + wⱼ c] + ½ λ₂ (wⱼ + (vⱼ − c)/λ₂)²,     c = vⱼ clipped to ±λ₁

so it is added up and not subtracted. For λ₂ > 0, λ₁ = 0 and u = sℓ′(f) it is ‖∇P‖²/2λ₂. A column with λ₂ = 0 wants |vⱼ| ≤ λ₁ⱼ:
u is scaled into that; one without any penalty wants vⱼ = 0: u is projected. Any u in the domain is a proof, whoever found it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.linalg import lstsq

from lemmata.audit.kernel.losses import Loss, Softmax, Squared, log_softmax

Array = np.ndarray
TURNED = 1e-12  # of its length: what a projection may leave of u along a column, or of its sum
CONSTANT = 64 * float(
    np.finfo(float).eps
)  # of its length: a column that varies by less is constant
SMALL = (
    2**20
)  # numbers of a table whose singular values are taken, rather than the eigenvalues of its Gram matrix


# --- rows -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rows:
    """The rows as a linear map in float64: Xw, Xᵀu and sums of squares, by blocks. `constant`: one more column, of this."""

    data: Any  # core.blocks.Blocks
    constant: float | None = None
    scale: float = 1.0  # what the numbers of the rows are divided by

    @property
    def shape(self) -> tuple[int, int]:
        n, d = self.data.shape
        return n, d + (self.constant is not None)

    def blocks(self):
        """(slice of the rows, the rows in float64)."""
        start = 0
        for rows, _ in self.data:
            stop = start + rows.shape[0]
            rows = rows.astype(np.float64, copy=False)
            yield slice(start, stop), rows if self.scale == 1.0 else rows / self.scale
            start = stop

    def scores(self, W: Array) -> Array:
        """XW for W: d × m."""
        d = self.data.shape[1]
        out = np.empty((self.shape[0], W.shape[1]))
        for here, rows in self.blocks():
            out[here] = rows @ W[:d]
        return out if self.constant is None else out + self.constant * W[d]

    def adjoint(self, U: Array) -> Array:
        """XᵀU for U: n × m."""
        out = np.zeros((self.data.shape[1], U.shape[1]))
        for here, rows in self.blocks():
            out += rows.T @ U[here]
        return out if self.constant is None else np.vstack([out, self.constant * U.sum(axis=0)])

    def squares(self, s: Array) -> Array:
        """Σ sᵢ xᵢⱼ² of every column."""
        out = np.zeros(self.data.shape[1])
        for here, rows in self.blocks():
            squared = rows.power(2) if hasattr(rows, "power") else np.square(rows)
            out += squared.T @ s[here]
        return out if self.constant is None else np.append(out, self.constant**2 * s.sum())

    def squares_around(self, s: Array, mean: Array) -> Array:
        """Σ sᵢ (xᵢⱼ − mⱼ)² of every column; entries that a sparse row does not hold are at a distance of mⱼ."""
        out = np.zeros(len(mean))
        for here, rows in self.blocks():
            if not hasattr(rows, "tocoo"):
                out += np.square(rows - mean).T @ s[here]
                continue
            held = rows.tocoo()
            weight, m = s[here][held.row], mean[held.col]
            held_weight = np.bincount(held.col, weight, minlength=len(mean))
            out += np.bincount(held.col, weight * np.square(held.data - m), minlength=len(mean))
            out += np.maximum(s[here].sum() - held_weight, 0.0) * np.square(mean)
        return out

    def columns(self, which: Array, some: Array | None = None) -> Array:
        """Some columns, dense; of some rows only, in their order."""
        d, n = self.data.shape[1], self.data.shape[0]
        inner = which[which < d]
        at = np.arange(n) if some is None else some
        out = np.empty((len(at), len(which)))
        if len(inner) < len(which):
            out[:, -1] = self.constant
        for here, rows in self.blocks():
            inside = np.flatnonzero((at >= here.start) & (at < here.stop))
            part = rows if some is None else rows[at[inside] - here.start]
            part = part if len(inner) == d else part[:, inner]
            out[inside, : len(inner)] = part.toarray() if hasattr(part, "toarray") else part
        return out


# --- the problem ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Risk:
    """A penalised risk of m outputs (or of k classes at once, for softmax)."""

    rows: Rows
    y: Array  # (n, m); for softmax (n,): the place of the class
    s: Array  # (n, m), or (n, 1): the same for every output
    loss: Loss | Softmax
    l1: Array  # (d, 1) or (d, m)
    l2: Array
    free: bool = True  # whether there is an intercept that nothing penalises
    positive: bool = False
    names: tuple[str, ...] = ()  # of the outputs, where they have names
    memory: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)

    @property
    def joint(self) -> bool:
        return isinstance(self.loss, Softmax)

    def column_squares(self) -> Array:
        """Σ sᵢ xᵢⱼ² (d,), the largest over the outputs' weights."""
        if "squares" not in self.memory:
            self.memory["squares"] = self.rows.squares(self.s.max(axis=1))
        return self.memory["squares"]

    def centred_columns(self) -> tuple[Array, Array]:
        """Means and lengths of the columns, by the largest weights over the outputs; without a free intercept means of 0.

        A free intercept takes up the mean of every column, so what a column says is its deviations; where these are
        the rounding of its numbers, its length is 0.
        """
        if "centred" not in self.memory:
            s, squares = self.s.max(axis=1), self.column_squares()
            mean, lengths = np.zeros(len(squares)), np.sqrt(squares)
            if self.free and s.sum() > 0:
                mean = self.rows.adjoint(s[:, None])[:, 0] / s.sum()
                deviations = np.sqrt(self.rows.squares_around(s, mean))
                lengths = np.where(deviations > CONSTANT * lengths, deviations, 0.0)
            self.memory["centred"] = mean, lengths
        return self.memory["centred"]

    def losses(self, f: Array) -> Array:
        """Σ sᵢℓᵢ of every output."""
        if self.joint:
            return np.atleast_1d(self.s[:, 0] @ self.loss.value(self.y, f))
        return (self.s * self.loss.value(self.y, f)).sum(axis=0)

    def penalty(self, W: Array) -> Array:
        terms = self.l1 * np.abs(W) + 0.5 * self.l2 * np.square(W)
        if self.positive and W.min(initial=0.0) < 0:
            return np.full(1 if self.joint else W.shape[1], np.inf)
        return np.atleast_1d(terms.sum()) if self.joint else terms.sum(axis=0)

    def value(self, W: Array, f: Array) -> Array:
        """P of every output; of all classes together for softmax."""
        return self.losses(f) + self.penalty(W)


@dataclass(frozen=True)
class Point:
    """Weights and their scores."""

    W: Array  # (d, m)
    b: Array  # (m,)
    f: Array  # (n, m): XW + b


def point(risk: Risk, W: Array, b: Array) -> Point:
    return Point(W, b, risk.rows.scores(W) + b)


# --- the intercept ----------------------------------------------------------------------------------------------------


def best_shift(risk: Risk, f: Array, steps: int = 60) -> Array:
    """What to add to the scores of every output so that Σ sᵢℓᵢ is least."""
    if isinstance(risk.loss, Softmax):
        return _softmax_shift(risk, f, steps)
    s = np.broadcast_to(risk.s, f.shape)
    if isinstance(risk.loss, Squared):
        return (s * (risk.y - f)).sum(axis=0) / s.sum(axis=0)
    return np.array([_shift(risk.loss, risk.y[:, k], s[:, k], f[:, k], steps) for k in range(f.shape[1])])  # fmt: skip


def _shift(loss: Loss, y: Array, s: Array, f: Array, steps: int) -> float:
    """Bisection between signs of Σ sℓ′(f + t), with Newton's step where it stays inside."""
    t, low, high = 0.0, -math.inf, math.inf
    reach = 1.0
    for _ in range(steps):
        u = s * loss.slope(y, f + t)
        total, size = float(u.sum()), float(np.abs(u).sum())
        if abs(total) <= 4e-16 * size:
            break
        low, high = (low, t) if total > 0 else (t, high)
        curved = float(s @ loss.curvature(y, f + t))
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
    now = float(s @ Softmax.value(risk.y, f))
    for _ in range(steps):
        a = Softmax.slope(risk.y, f + t)
        gradient = s @ a
        size = float(np.abs(gradient).max())
        if size <= 1e-14 * float(s @ np.abs(a).sum(axis=1)) or size >= 0.9 * last:
            break  # there, or as near as rounding lets it come
        last = size if size < 1e-6 * float(s.sum()) else math.inf
        p = np.exp(log_softmax(f + t))
        H = np.diag(s @ p) - p.T @ (p * s[:, None])
        step = np.zeros(k)  # only differences matter: that of the first class stays
        try:
            step[1:] = -np.linalg.solve(H[1:, 1:], gradient[1:])
        except np.linalg.LinAlgError:
            step = -lstsq(H, gradient, cond=1e-14)[0]
        for _ in range(40):
            new = float(s @ Softmax.value(risk.y, f + t + step))
            if new <= now + 1e-15 * abs(
                now
            ):  # of a difference within rounding, the step is to be believed
                break
            step = step / 2
        else:
            break
        if np.abs(step).max() <= 1e-16 * (1 + np.abs(t).max()):
            break
        t, now = t + step, new
    return t


# --- the dual point ---------------------------------------------------------------------------------------------------


def slopes(risk: Risk, f: Array) -> Array:
    """u = sℓ′(f) at the best intercept, where there is one: the dual point that scores name."""
    if risk.free:
        f = f + best_shift(risk, f)
    return risk.s * risk.loss.slope(risk.y, f)


def balance(risk: Risk, U: Array) -> Array:
    """1ᵀu = 0 to rounding: scaling the heavier side towards 0 stays in the domain of every loss."""
    if risk.joint:
        return U
    if isinstance(risk.loss, Squared):
        s = np.broadcast_to(risk.s, U.shape)
        return U - s * (U.sum(axis=0) / s.sum(axis=0))
    up, down = np.maximum(U, 0.0).sum(axis=0), np.maximum(-U, 0.0).sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        lower = np.where(up > down, np.where(up > 0, down / up, 1.0), 1.0)
        raise_ = np.where(down > up, np.where(down > 0, up / down, 1.0), 1.0)
    return np.where(U > 0, U * lower, U * raise_)


def feasible(risk: Risk, U: Array, at: Point) -> tuple[Array, Array, float]:
    """u and Xᵀu with u balanced, projected and scaled into the domain of D, and by how much rounding leaves it outside.

    That is Σ|vⱼ||wⱼ| over the columns where vⱼ should be 0, and |1ᵀu||b|: what D may be too large by, at weights of this size.
    """
    if risk.free:
        U = balance(risk, U)
    bare = np.flatnonzero(((risk.l1 == 0) & (risk.l2 == 0)).all(axis=1))
    missed = np.zeros(U.shape[1])
    if bare.size and not risk.positive:
        U = _project(risk, U, bare)
        V = risk.rows.adjoint(U)
        missed += np.abs(V[bare] * at.W[bare]).sum(axis=0)
        V[bare] = 0.0
    else:
        V = risk.rows.adjoint(U)
    if risk.free:
        sums = np.abs(U.sum(axis=0))
        if (sums > TURNED * np.abs(U).sum(axis=0)).any():
            U, V, sums = 0 * U, 0 * V, 0 * sums
        missed += sums * np.abs(at.b)
    if not (risk.l2 > 0).all():
        tight = np.broadcast_to(risk.l2 == 0, V.shape)
        size = np.where(tight, np.maximum(-V, 0.0) if risk.positive else np.abs(V), 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(size > risk.l1, risk.l1 / size, 1.0)
        scale = share.min() if risk.joint else share.min(axis=0)
        U, V = U * scale, V * scale
    return U, V, float(missed.sum()) if risk.joint else float(missed.max(initial=0.0))


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
    if isinstance(risk.loss, Softmax):
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
        out[:, k] = u * risk.loss.shrink(risk.y[:, k], a)
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


def project(risk: Risk, U: Array) -> Array:
    """U without its part along any column: Xᵀu = 0, and 1ᵀu = 0 if the intercept is free."""
    return _project(risk, U, np.arange(risk.rows.shape[1]))


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


def _metric(loss: Loss, u: Array, s: Array) -> Array:
    """Where u may move, and by how much: 1/ℓ*″, 0 at the ends of the domain."""
    a = np.abs(np.divide(u, s, out=np.zeros_like(u), where=s > 0))
    if loss.name == "logistic":
        return s * a * np.maximum(1.0 - a, 0.0)
    return s * (a < loss.steepest) if not loss.margin else s * ((a > 0) & (a < loss.steepest))


# --- the gap ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Gap:
    """P − D of every output, and P."""

    gap: Array
    value: Array

    @property
    def least(self) -> Array:
        """D: no weights have a lower objective."""
        return self.value - self.gap


def excess(risk: Risk, at: Point, U: Array, V: Array) -> Array:
    """P(w, b) − D(u) as the sum of Fenchel–Young terms, for a feasible u."""
    s = np.broadcast_to(risk.s, at.f.shape)
    A = np.divide(U, s, out=np.zeros_like(U), where=s > 0)
    if isinstance(risk.loss, Softmax):
        data = np.atleast_1d(risk.s[:, 0] @ risk.loss.excess(risk.y, at.f, A))
    else:
        data = (s * risk.loss.excess(risk.y, at.f, risk.loss.clip(risk.y, A))).sum(axis=0)
    return data + penalty_excess(risk, at.W, V)


def penalty_excess(risk: Risk, W: Array, V: Array) -> Array:
    """Ω(w) + Ω*(−v) + wᵀv for v in the domain of Ω*."""
    C = np.maximum(V, -risk.l1) if risk.positive else np.clip(V, -risk.l1, risk.l1)
    kinked = np.maximum(risk.l1 * np.abs(W) + W * C, 0.0)
    l2 = np.broadcast_to(risk.l2, W.shape)
    ratio = np.divide(V - C, l2, out=np.zeros_like(V), where=l2 > 0)
    terms = kinked + 0.5 * l2 * np.square(W + ratio)
    if risk.positive and W.min(initial=0.0) < 0:
        terms = terms + np.inf
    return np.atleast_1d(terms.sum()) if risk.joint else terms.sum(axis=0)


def gap_at(risk: Risk, at: Point, U: Array | None = None) -> Gap:
    """The gap that a dual point shows; by default the one that the scores name."""
    U, V, missed = feasible(risk, slopes(risk, at.f) if U is None else U, at)
    return Gap(excess(risk, at, U, V) + missed, risk.value(at.W, at.f))


def null_scores(risk: Risk) -> Array:
    """Scores at w = 0, with the best intercept where there is one: for classes, the logarithms of their shares."""
    if "null" not in risk.memory:
        m = int(risk.memory["classes"]) if risk.joint else risk.y.shape[1]
        f = np.zeros((risk.rows.shape[0], m))
        if risk.free and risk.joint:
            masses = np.bincount(risk.y, risk.s[:, 0], minlength=m)
            f = f + np.log(np.maximum(masses, 1e-300 * masses.sum()))
        elif risk.free and risk.loss.name == "logistic":
            up, down = (
                np.where(side, risk.s, 0.0).sum(axis=0) for side in (risk.y > 0, risk.y < 0)
            )
            f = f + np.log(np.maximum(up, 1e-300)) - np.log(np.maximum(down, 1e-300))
        elif risk.free:
            f = f + best_shift(risk, f)
        risk.memory["null"] = f
    return risk.memory["null"]


def null_value(risk: Risk) -> Array:
    """P of a constant prediction: what the columns have to lower."""
    return risk.losses(null_scores(risk))


def one_output(risk: Risk, k: int) -> Risk:
    """The problem of one output."""
    column = slice(k, k + 1)
    pick = lambda x: x if x.shape[1] == 1 else x[:, column]  # noqa: E731
    return replace(
        risk, y=risk.y[:, column], s=pick(risk.s), l1=pick(risk.l1), l2=pick(risk.l2), memory={}
    )
