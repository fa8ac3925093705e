"""A search for better weights, and for a better dual point: what decides whether an objective is near the least possible.

Newton's method on the columns that matter (a working set: weights that are not 0, and columns whose slope breaks its bound),
with the quadratic model of every step minimised exactly: by a linear system, or by feature-sign search under an ℓ1 penalty.
Kinks of a loss are rounded off by a width μ that shrinks. What is found is a witness and no more: P at the weights is an upper
bound on the least objective, D at the dual point a lower one, however they were found.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve, lstsq

from lemmata.audit.kernel.claims import Fit
from lemmata.audit.kernel.duality_gap import Point, Risk, gap_at, point
from lemmata.audit.kernel.losses import SoftmaxLoss, log_softmax
from lemmata.audit.predict.linear.near_optimum import NEAR, Optimality
from lemmata.audit.predict.linear.robust import best_scale, huber_gap, huber_value
from lemmata.predict.witness.dual_points import (
    HuberAtScale,
    best_shift,
    curvature,
    feasible_slopes,
    softmax_hessian,
)

Array = np.ndarray
STEPS = 60  # of Newton's method, at most
MOST = 600  # columns (times classes) that a dense Hessian is formed for
WIDTHS = 12  # how often μ shrinks, to a quarter each time
LARGEST = 2**25  # numbers of the dense columns of a working set
KNOWN = 1.1  # times the gain: a gap that says by how much weights are off
ROUNDS = 40  # of σ and (w, b) in turn, when a better robust regression is sought
QUIET = 1e-12  # of the objective: a step that gains no more has arrived


@dataclass
class SearchResult:
    """The best of what was seen, of one output: an upper bound on the least objective, and a lower one."""

    at: Point
    value: float  # P(at): the least objective is at most this
    gap: float  # P(fit) − D(u): how far the fit can be from the least at most
    U: Array | None = None  # that u, if one was found


def better_weights(
    fit: Fit, risk: Risk, start: Point, gap: float, enough: float, work: float
) -> tuple[Array, Array, Array]:
    """Weights, an intercept and a dual point of one output (or of softmax) that are better than those of the fit, if found."""
    found = search(risk, start, gap, enough, work)
    return found.at.W, found.at.b, np.zeros_like(start.f) if found.U is None else found.U


def search(risk: Risk, start: Point, gap: float, enough: float, work: float) -> SearchResult:
    """Look for better weights and dual points until gap or gain decides about `enough`.

    enough : what the excess of the objective is compared with; the search ends when gap ≤ enough or more than it was gained
    work : multiplications that it may take
    """
    first = float(risk.value(start.W, start.f)[0])
    found = SearchResult(start, first, gap)
    seen = _Search(risk, start, found, enough, work)
    if not np.isfinite(first):
        return found
    for width in _widths(risk, start.f):
        if seen.run(width):
            break
    return found


def better_huber_fit(
    fit: Fit, found: Optimality, sigma: float, epsilon: float, alpha: float, work: float
) -> tuple[Array, Array, float, Array]:
    """Weights, intercept and scale of a better robust regression, and slopes with a smaller gap: σ and (w, b) in turn."""
    risk, start, value = found.risk, found.at, float(found.value[0])
    now, scale, U = start, sigma, found.dual
    best, least = (start.W, start.b, sigma), value
    cost = risk.rows.data.size * (20.0 + 3 * risk.rows.shape[1])
    for _ in range(ROUNDS):
        if (found.upper <= NEAR).all() or (found.lower > NEAR).all() or not work > 0:
            break
        # the same σ: a penalised Huber risk, 2/σ times Σ s h(r) + (ασ/2)‖w‖² … its own search moves (w, b)
        fixed = replace(
            risk, loss=HuberAtScale(delta=epsilon * scale), l2=np.full_like(risk.l2, alpha * scale)
        )
        now = search(fixed, now, math.inf, 0.0, min(work, cost)).at
        work -= cost
        r = risk.y - now.f
        scale = best_scale(risk, r, scale, epsilon)
        reached = huber_value(risk, r, now.W, scale, epsilon, alpha)
        if reached < least:
            best, least = (now.W, now.b, scale), reached
        slopes = risk.s * np.clip(2 * r / scale, -2 * epsilon, 2 * epsilon)
        near = feasible_slopes(fit, risk, slopes)
        gap, near = huber_gap(risk, start, sigma, near, epsilon, alpha)
        if gap < found.most[0]:
            U = near
        found = replace(found, most=np.minimum(found.most, gap), certain=np.array([value - least]))
    return (*best, U)


def _widths(risk: Risk, f: Array) -> Array:
    """μ from the size of the residuals (or of a margin of 1) downwards; 0 for a loss that has no kinks."""
    if risk.loss.smooth:
        return np.zeros(1)
    scale = 1.0 if risk.loss.margin else float(np.median(np.abs(f - risk.y))) or 1.0
    return scale * 0.25 ** np.arange(WIDTHS)


class _Search:
    def __init__(self, risk: Risk, start: Point, found: SearchResult, enough: float, work: float):
        self.risk, self.start, self.found, self.enough, self.left = risk, start, found, enough, work
        self.first = found.value
        self.size = float(risk.rows.data.size) * start.W.shape[1]
        self.now = start
        if risk.positive and start.W.min(initial=0.0) < 0:
            self.now = point(risk, np.maximum(start.W, 0.0), start.b)

    @property
    def decided(self) -> bool:
        gain = self.first - self.found.value
        return self.found.gap <= self.enough or (gain > 2 * self.enough and self.found.gap <= KNOWN * gain)  # fmt: skip

    def run(self, width: float) -> bool:
        """Newton steps at one μ; True when there is nothing more to do."""
        smooth = _Rounded(self.risk, width)
        for _ in range(STEPS):
            gain = self._step(smooth)
            if self.decided or self.left <= 0:
                return True
            if gain <= QUIET * abs(smooth.value(self.now)):
                break
        return False

    def _step(self, smooth: _Rounded) -> float:
        risk, at = self.risk, self.now
        before = smooth.value(at)
        U = smooth.slopes(at.f)
        G = risk.rows.adjoint(U)
        cols = self._working_set(at.W, G)
        A = risk.rows.columns(cols)
        if risk.free:
            A = np.column_stack([A, np.ones(len(A))])
        m = at.W.shape[1]
        self.left -= 3 * self.size + A.shape[1] ** 2 * (len(A) * m * m + A.shape[1] * m**3)
        g = (A.T @ U).T.ravel()
        for safe in (False, True):
            step = self._model_step(smooth.hessian(A, at.f, safe), g, at, cols)
            new = self._along(step.reshape(m, -1).T, A, cols, smooth, before)
            if new is not None:
                self.now = new
                self._note(new, smooth)
                return before - smooth.value(new)
        return 0.0

    def _along(
        self, parts: Array, A: Array, cols: Array, smooth: _Rounded, before: float
    ) -> Point | None:
        """A step, halved until the objective falls; None if it never does. `parts`: one column per output."""
        risk, at = self.risk, self.now
        dW, db = np.zeros_like(at.W), np.zeros(at.W.shape[1])
        dW[cols] = parts[: len(cols)]
        if risk.free:
            db = parts[-1]
        moved = A @ parts
        for t in 0.5 ** np.arange(30):
            W = at.W + t * dW
            # the model's zeros are zeros
            W[np.abs(W) <= 1e-15 * np.abs(at.W).max(initial=0.0)] = 0.0
            new = Point(W, at.b + t * db, at.f + t * moved)
            self.left -= 20.0 * at.f.size
            if smooth.value(new) < before:
                return new
        return None

    def _working_set(self, W: Array, G: Array) -> Array:
        risk = self.risk
        most = max(1, min(MOST // W.shape[1], LARGEST // len(risk.s)))
        while most > 8 and most**2 * len(risk.s) * W.shape[1] ** 2 > self.left / 4:
            most //= 2
        size = np.maximum(-G, 0.0) if risk.positive else np.abs(G)
        breach = np.where(W != 0, np.inf, np.maximum(size - risk.l1, 0.0)).max(axis=1)
        order = np.argsort(-breach, kind="stable")
        return np.sort(order[: min(most, max(int((breach > 0).sum()), 1))])

    def _model_step(self, H: Array, g: Array, at: Point, cols: Array) -> Array:
        """The minimiser of gᵀx + ½ xᵀHx + Ω(w + x) over the working set and the intercept."""
        risk, m = self.risk, at.W.shape[1]
        rest = np.zeros((1, m)) if risk.free else np.zeros((0, m))

        def lay_out(x: Array) -> Array:
            return np.vstack([np.broadcast_to(x, at.W.shape)[cols], rest]).T.ravel()

        w, l1, l2 = (lay_out(x) for x in (at.W, risk.l1, risk.l2))
        H = H + np.diag(l2)
        g = g + l2 * w
        bound = lay_out(np.ones_like(at.W)) > 0 if risk.positive else np.zeros(len(w), dtype=bool)
        if not l1.any() and not bound.any():
            return _solve(H, -g)
        return feature_sign(H, g - H @ w, l1, bound, w) - w

    def _note(self, at: Point, smooth: _Rounded) -> None:
        risk, found = self.risk, self.found
        value, f = float(risk.value(at.W, at.f)[0]), at.f
        if risk.free and not risk.loss.smooth:
            shift = best_shift(risk, at.f)
            shifted = Point(at.W, at.b + shift, at.f + shift)
            if float(risk.value(shifted.W, shifted.f)[0]) < value:
                at, value = shifted, float(risk.value(shifted.W, shifted.f)[0])
        if value < found.value:
            found.at, found.value = at, value
        if risk.free and risk.loss.smooth:
            f = f + best_shift(risk, f)
        bare = float(((risk.l1 == 0) & (risk.l2 == 0)).all(axis=1).sum())
        # a projection decomposes the bare columns
        self.left -= 12.0 * at.f.size * (bare + 1) * bare + self.size
        gap, U = gap_at(risk, self.start, feasible_slopes(None, risk, smooth.slopes(f)))
        if gap[0] < found.gap:
            found.gap, found.U = float(gap[0]), U


def _solve(H: Array, right: Array) -> Array:
    scale = np.sqrt(np.maximum(np.diagonal(H), 0.0))
    scale = np.where(scale > 0, scale, 1.0)
    K = H / np.outer(scale, scale)
    K[np.diag_indices_from(K)] += 1e-14
    try:
        x = cho_solve(cho_factor(K), right / scale)
    except LinAlgError:
        x = lstsq(K, right / scale, cond=1e-12)[0]
    return x / scale


def feature_sign(
    H: Array, q: Array, l1: Array, bound: Array, start: Array, rounds: int = 400
) -> Array:
    """argmin ½ xᵀHx + qᵀx + Σ l1|x|, x ≥ 0 where `bound` (Lee et al. 2006).

    Solve for guessed signs, move there or to the best sign change on the way, add the variable that breaks its condition most;
    ends at the minimum, or after some rounds near it.
    """
    x = start.copy()
    free = (l1 == 0) & ~bound
    active = (x != 0) | free
    sign = np.sign(x)
    scale = np.abs(q).max(initial=0.0) + np.abs(l1).max(initial=0.0)

    def value(x: Array) -> float:
        return float(0.5 * x @ (H @ x) + q @ x + l1 @ np.abs(x))

    for _ in range(rounds):
        a = np.flatnonzero(active)
        if a.size:
            goal = x.copy()
            goal[a] = _solve(H[np.ix_(a, a)], -(q[a] + l1[a] * sign[a]))
            flips = a[(goal[a] * sign[a] < 0) & ~free[a]]
            best, best_value = x, value(x)
            if not flips.size:
                best = goal if value(goal) <= best_value + 1e-15 * abs(best_value) else x
            else:
                moved = flips[x[flips] != goal[flips]]
                shares = np.unique(x[moved] / (x[moved] - goal[moved]))
                shares = shares[(shares >= 0) & (shares <= 1)]
                if bound.any():
                    shares = shares[:1]  # no further than the first wall
                for t in shares:
                    y = x + t * (goal - x)
                    y[flips[np.abs(y[flips]) <= 1e-14 * np.abs(goal[flips])]] = 0.0
                    if value(y) <= best_value:
                        best, best_value = y, value(y)
                if not bound[flips].any() and value(goal) < best_value:
                    best = goal
            stuck = best is x and bool(flips.size)
            x = best
            if stuck:
                x = x.copy()
                x[flips] = 0.0
            active = ((x != 0) & active) | free
            sign = np.where(active, np.sign(x), 0.0)
            if flips.size:
                continue
        slope = H @ x + q
        breach = np.where(active, 0.0, np.where(bound, -slope, np.abs(slope)) - l1)
        j = int(np.argmax(breach))
        if breach[j] <= 1e-13 * scale:
            break
        active[j] = True
        sign[j] = 1.0 if bound[j] else -np.sign(slope[j])
    return x


@dataclass(frozen=True)
class _Rounded:
    """The risk with kinks of its loss rounded off by μ: ℓ_μ(f) = max_a a f − ℓ*(a) − ½ μ a². At μ = 0 the risk itself."""

    risk: Risk
    width: float

    def _arc(self, f: Array) -> tuple[Array, Array]:
        """Measure how far into its kinks a score is, in units of μ, and the direction: (a between 0 and 1, where a grows)."""
        risk = self.risk
        if risk.loss.margin:
            z = (1.0 - risk.y * f) / self.width
            return np.clip(z, 0.0, 1.0), -risk.y
        r = f - risk.y
        return np.clip(np.abs(r) / self.width, 0.0, 1.0), np.sign(r)

    def value(self, at: Point) -> float:
        risk = self.risk
        if self.width == 0:
            return float(risk.value(at.W, at.f)[0])
        a, _ = self._arc(at.f)
        plain = risk.loss.value(risk.y, at.f)
        rounded = a * plain - 0.5 * self.width * a**2
        return float((risk.s * rounded).sum() + risk.penalty(at.W)[0])

    def slopes(self, f: Array) -> Array:
        risk = self.risk
        if self.width == 0:
            return risk.slopes(f)
        a, direction = self._arc(f)
        return risk.s * a * direction

    def hessian(self, A: Array, f: Array, safe: bool = False) -> Array:
        """Σ hᵢaᵢaᵢᵀ with h the curvature of the loss; `safe`: or of a parabola above it, for steps that always descend."""
        risk = self.risk
        if isinstance(risk.loss, SoftmaxLoss):
            P = np.exp(log_softmax(f))
            return softmax_hessian(A, risk.s[:, 0], 0.5 * P + 0.5 / P.shape[1] if safe else P)
        if self.width == 0:
            h = risk.s * (risk.loss.curved if safe else curvature(risk.loss, risk.y, f))
        elif not safe:
            a, _ = self._arc(f)
            h = risk.s * ((a > 0) & (a < 1)) / self.width
        elif risk.loss.margin:
            h = risk.s / self.width
        else:
            h = risk.s / np.maximum(self.width, np.abs(f - risk.y))
        return A.T @ (A * h)
