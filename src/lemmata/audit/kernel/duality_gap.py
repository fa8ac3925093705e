"""The distance of weights from the best ones: the duality gap of a penalised risk.

    P(w, b) = Σ sᵢ ℓᵢ(xᵢᵀw + b) + Σⱼ λ₁ⱼ|wⱼ| + ½ λ₂ⱼ wⱼ²                                  (w ≥ 0 where `positive`)
    D(u)    = −Σ sᵢ ℓᵢ*(uᵢ/sᵢ) − Ω*(−Xᵀu),          1ᵀu = 0 if b is free,     D(u) ≤ P* ≤ P(w, b) for every u in the domain

With 1ᵀu = 0 the difference is a sum of Fenchel–Young terms, none of which is negative (v = Xᵀu):

    P − D = Σ sᵢ [ℓᵢ(fᵢ) + ℓᵢ*(uᵢ/sᵢ) − fᵢuᵢ/sᵢ]  +  Σⱼ [λ₁|wⱼ| + wⱼ c] + ½ λ₂ (wⱼ + (vⱼ − c)/λ₂)²,     c = vⱼ clipped to ±λ₁

so it is added up and not subtracted. For λ₂ > 0, λ₁ = 0 and u = sℓ′(f) it is ‖∇P‖²/2λ₂. A column with λ₂ = 0 wants |vⱼ| ≤ λ₁ⱼ:
u is scaled into that; one without any penalty wants vⱼ = 0, and a u that is not so proves nothing. Any u in the domain is a
proof, however it was found.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from lemmata.audit.kernel.losses import ConvexLoss, SoftmaxLoss, SquaredLoss

Array = np.ndarray
IN_CACHE = 2**17  # numbers of rows that are worked on at once
EPS = float(np.finfo(float).eps)
TURNED = 1e-12  # of its length: what rounding may leave of u along a column, or of its sum
CONSTANT = 64 * EPS  # of its length: a column that varies by less is constant
VARIES = (
    0.01  # of Σ sx²: a Σ s(x − m)² above it is the difference Σ sx² − m²Σs, to all digits but two
)


# --- rows -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class DesignRows:
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
        for rows, _ in self.data.recut(max(IN_CACHE // max(self.data.shape[1], 1), 256)):
            stop = start + rows.shape[0]
            rows = rows.astype(np.float64, copy=False)
            yield slice(start, stop), rows if self.scale == 1.0 else rows / self.scale
            start = stop

    def scores(self, W: Array) -> Array:
        """XW for W: d × m; the scores of an output stand together, so that sums over few outputs are quick."""
        d = self.data.shape[1]
        out = np.empty((W.shape[1], self.shape[0])).T
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

    def squares_around(self, s: Array, mean: Array, which: Array) -> Array:
        """Σ sᵢ (xᵢⱼ − mⱼ)² of columns `which`; entries that a sparse row does not hold are at a distance of mⱼ."""
        out, mean = np.zeros(len(which)), mean[which]
        for here, rows in self.blocks():
            rows, weight = rows[:, which], s[here]
            if not hasattr(rows, "tocoo"):
                out += np.square(rows - mean).T @ weight
                continue
            held = rows.tocoo()
            m, each = mean[held.col], weight[held.row]
            out += np.bincount(held.col, each * np.square(held.data - m), minlength=len(mean))
            missing = weight.sum() - np.bincount(held.col, each, minlength=len(mean))
            out += np.maximum(missing, 0.0) * np.square(mean)
        return out

    def columns(self, which: Array) -> Array:
        """Some columns, dense."""
        n, d = self.data.shape
        inner = which[which < d]
        out = np.empty((n, len(which)))
        if len(inner) < len(which):
            out[:, -1] = self.constant
        for here, rows in self.blocks():
            part = rows if len(inner) == d else rows[:, inner]
            out[here, : len(inner)] = part.toarray() if hasattr(part, "toarray") else part
        return out


def centre_columns(rows: DesignRows, s: Array, squares: Array) -> tuple[Array, Array]:
    """Means mⱼ of columns and √Σ s(x − m)², from Σ sx²; a second pass over those columns alone that hardly vary."""
    if not s.sum() > 0:
        return np.zeros(len(squares)), np.sqrt(squares)
    mean = rows.adjoint(s[:, None])[:, 0] / s.sum()
    around = squares - s.sum() * np.square(mean)
    doubtful = np.flatnonzero(~(around > VARIES * squares) & (squares != 0))
    if len(doubtful):
        around[doubtful] = rows.squares_around(s, mean, doubtful)
    deviations, lengths = np.sqrt(around), np.sqrt(squares)
    return mean, np.where(deviations > CONSTANT * lengths, deviations, 0.0)


# --- the problem ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Risk:
    """A penalised risk of m outputs (or of k classes at once, for softmax)."""

    rows: DesignRows
    y: Array  # (n, m); for softmax (n,): the place of the class
    s: Array  # (n, m), or (n, 1): the same for every output
    loss: ConvexLoss | SoftmaxLoss
    l1: Array  # (d, 1) or (d, m)
    l2: Array
    free: bool = True  # whether there is an intercept that nothing penalises
    positive: bool = False
    names: tuple[str, ...] = ()  # of the outputs, where they have names
    classes: int = 0  # of softmax
    unit: float = 1.0  # what the targets were divided by

    @property
    def joint(self) -> bool:
        return isinstance(self.loss, SoftmaxLoss)

    @cached_property
    def column_squares(self) -> Array:
        """Σ sᵢ xᵢⱼ² (d,), the largest over the outputs' weights."""
        return self.rows.squares(self.s.max(axis=1))

    @cached_property
    def centred_columns(self) -> tuple[Array, Array]:
        """Means and lengths of the columns, by the largest weights over the outputs; without a free intercept means of 0.

        A free intercept takes up the mean of every column, so what a column says is its deviations; where these are
        the rounding of its numbers, its length is 0.
        """
        if self.free:
            return centre_columns(self.rows, self.s.max(axis=1), self.column_squares)
        return np.zeros(len(self.column_squares)), np.sqrt(self.column_squares)

    @cached_property
    def null_scores(self) -> Array:
        """Scores at w = 0, with the best intercept where there is one: for classes, the logarithms of their shares."""
        f = np.zeros((self.rows.shape[0], self.classes if self.joint else self.y.shape[1]))
        if not self.free:
            return f
        if not isinstance(self.loss, SoftmaxLoss):
            return f + self.loss.best_constant(self.y, np.broadcast_to(self.s, self.y.shape))
        masses = np.bincount(self.y, self.s[:, 0], minlength=self.classes)
        return f + np.log(np.maximum(masses, 1e-300 * masses.sum()))

    def losses(self, f: Array) -> Array:
        """Σ sᵢℓᵢ of every output."""
        if self.joint:
            return np.atleast_1d(self.s[:, 0] @ self.loss.value(self.y, f))
        return (self.s * self.loss.value(self.y, f)).sum(axis=0)

    def null_value(self) -> Array:
        """P of a constant prediction: what the columns have to lower."""
        return self.losses(self.null_scores)

    def penalty(self, W: Array) -> Array:
        terms = self.l1 * np.abs(W) + 0.5 * self.l2 * np.square(W)
        if self.positive and W.min(initial=0.0) < 0:
            return np.full(1 if self.joint else W.shape[1], np.inf)
        return np.atleast_1d(terms.sum()) if self.joint else terms.sum(axis=0)

    def value(self, W: Array, f: Array) -> Array:
        """P of every output; of all classes together for softmax."""
        return self.losses(f) + self.penalty(W)

    def slopes(self, f: Array) -> Array:
        """u = sℓ′(f): the dual point that scores name."""
        return self.s * self.loss.slope(self.y, f)

    def output(self, k: int) -> Risk:
        """The problem of one output."""
        pick = lambda x: x if x.shape[1] == 1 else x[:, k : k + 1]  # noqa: E731
        y, s, l1, l2 = (pick(x) for x in (self.y, self.s, self.l1, self.l2))
        return replace(self, y=y, s=s, l1=l1, l2=l2)


@dataclass(frozen=True)
class Point:
    """Weights and their scores."""

    W: Array  # (d, m)
    b: Array  # (m,)
    f: Array  # (n, m): XW + b

    def output(self, k: int) -> Point:
        column = slice(k, k + 1)
        return Point(self.W[:, column], self.b[column], self.f[:, column])


def point(risk: Risk, W: Array, b: Array) -> Point:
    return Point(W, b, risk.rows.scores(W) + b)


# --- the dual point ---------------------------------------------------------------------------------------------------


def balance(risk: Risk, U: Array) -> Array:
    """1ᵀu = 0 to rounding: scaling the heavier side towards 0 stays in the domain of every loss.

    Of classes u = s(q − e_y), and the distributions q are mixed with one, the same for every row, that has what is missing.
    """
    if risk.joint:
        s, missing = risk.s, -U.sum(axis=0)
        masses = np.bincount(risk.y, s[:, 0], minlength=risk.classes)
        part = np.max(-missing / np.maximum(masses - missing, 1e-300), initial=0.0)
        if not 0 < part < 1:
            return U
        q = masses + (1 - part) / part * missing
        U = (1 - part) * U + part * s * (q / q.sum())
        U[np.arange(len(U)), risk.y] -= part * s[:, 0]
        return U
    if isinstance(risk.loss, SquaredLoss):
        s = np.broadcast_to(risk.s, U.shape)
        return U - s * (U.sum(axis=0) / s.sum(axis=0))
    up, down = np.maximum(U, 0.0).sum(axis=0), np.maximum(-U, 0.0).sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        lower = np.where(up > down, np.where(up > 0, down / up, 1.0), 1.0)
        raise_ = np.where(down > up, np.where(down > 0, up / down, 1.0), 1.0)
    return np.where(U > 0, U * lower, U * raise_)


def feasible(risk: Risk, U: Array, at: Point) -> tuple[Array, Array, float]:
    """u and Xᵀu with u clipped, balanced and scaled into the domain of D, and by how much rounding leaves it outside.

    That is Σ|vⱼ||wⱼ| over the columns where vⱼ should be 0, and |1ᵀu||b|: what D may be too large by, at weights of this size.
    Where it is more than rounding, 0 takes the place of u: that is always in the domain.
    """
    s = np.broadcast_to(risk.s, U.shape)
    A = _per_weight(U, s)
    inside = risk.loss.clip(risk.y, A)
    U = np.where((inside == A) & (s > 0), U, s * inside)
    if risk.free:
        U = balance(risk, U)
    V = risk.rows.adjoint(U)
    missed = np.zeros(U.shape[1])
    off = _is_tilted(U) if risk.free else np.zeros(U.shape[1], dtype=bool)
    if risk.free:
        missed += np.abs(U.sum(axis=0) * at.b)
    bare = ((risk.l1 == 0) & (risk.l2 == 0)).all(axis=1)
    if bare.any() and not risk.positive:
        lengths = np.sqrt(risk.rows.squares(np.ones(len(U))))[bare, None]
        size = np.linalg.norm(U) if risk.joint else np.linalg.norm(U, axis=0)
        off |= (np.abs(V[bare]) > TURNED * lengths * size).any(axis=0)
        missed += np.abs(V[bare] * at.W[bare]).sum(axis=0)
        V[bare] = 0.0
    if off.any():
        kept = 0.0 if risk.joint else np.where(off, 0.0, 1.0)
        U, V, missed = U * kept, V * kept, missed * kept
    if not (risk.l2 > 0).all():
        tight = np.broadcast_to(risk.l2 == 0, V.shape)
        size = np.where(tight, np.maximum(-V, 0.0) if risk.positive else np.abs(V), 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(size > risk.l1, risk.l1 / size, 1.0)
        scale = share.min() if risk.joint else share.min(axis=0)
        U, V = U * scale, V * scale
    return U, V, float(missed.sum()) if risk.joint else float(missed.max(initial=0.0))


def _per_weight(U: Array, s: Array) -> Array:
    return U / s if (s > 0).all() else np.divide(U, s, out=np.zeros_like(U), where=s > 0)


def _is_tilted(U: Array) -> Array:
    """Whether 1ᵀu is more than the rounding of its sum, output by output."""
    return np.abs(U.sum(axis=0)) > TURNED * np.abs(U).sum(axis=0)


# --- the gap ----------------------------------------------------------------------------------------------------------


def gap_at(risk: Risk, at: Point, U: Array) -> tuple[Array, Array]:
    """P(w, b) − D(u) of every output, and u, made feasible."""
    U, V, missed = feasible(risk, U, at)
    return excess(risk, at, U, V) + missed, U


def excess(risk: Risk, at: Point, U: Array, V: Array) -> Array:
    """P(w, b) − D(u) as the sum of Fenchel–Young terms, for a feasible u."""
    s = np.broadcast_to(risk.s, at.f.shape)
    A = _per_weight(U, s)
    if isinstance(risk.loss, SoftmaxLoss):
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
