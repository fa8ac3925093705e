"""Huber's regression with its scale, by Newton's method.

    minimise  Σ s(σ + σ H(r/σ)) + α‖w‖²   over w, b and σ > 0,       r = y − xᵀw − b,   H(z) = z² for |z| ≤ ε, else 2ε|z| − ε²

scikit-learn's HuberRegressor has this objective (Huber 1981, ch. 7): jointly convex, since σH(r/σ) is the perspective of H, and
in units of y, so that ε means so many deviations. With I the rows inside (|r| ≤ εσ) and O those outside, gradient and Hessian
are sums over rows, z = (x, 1):

    ∂w,b   −Σ_I 2s rz/σ − Σ_O 2sε sign(r) z + 2αw          ∂σ   Σ s − Σ_I s r²/σ² − ε² Σ_O s
    Hessian  Σ_I 2s zzᵀ/σ + 2αI,   Σ_I 2s rz/σ²,   Σ_I 2s r²/σ³

A step halves its length until the objective falls by a share of what the gradient promises (Armijo).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from lemmata.core.blocks import Blocks
from lemmata.core.engine import map_reduce
from lemmata.core.store import storable
from lemmata.predict.normal_equations import (
    EPS,
    NormalEquations,
    eigen_solve,
    packed,
    residuals,
)

Array = np.ndarray
ARMIJO = 1e-4
HALVINGS = 60
LEAST_SCALE = 10 * EPS  # of the deviation of y: below, the residuals are rounding


@dataclass(frozen=True)
class HuberSums:
    """Value, gradient and Hessian of a block in (w, b, σ)."""

    value: float = 0.0
    gradient: Any = 0.0  # (d + 2,)
    hessian: Any = 0.0  # (d + 2, d + 2)

    def __add__(self, other: HuberSums) -> HuberSums:
        return HuberSums(
            self.value + other.value, self.gradient + other.gradient, self.hessian + other.hessian
        )


def _sums_of(theta: Array, epsilon: float, curved: bool, rows: Any, columns: Array) -> HuberSums:
    """Of one block; without its curvature where only the value is asked for."""
    s, y = columns[:, 0], columns[:, 1]
    w, b, sigma = theta[:-2], theta[-2], theta[-1]
    rows = rows.astype(np.float64, copy=False)
    r = y - rows @ w - b
    inside = np.abs(r) <= epsilon * sigma
    squares = np.where(inside, s * r**2, 0.0)
    beyond = np.where(inside, 0.0, s)
    value = s.sum() * sigma + squares.sum() / sigma
    value += (beyond * (2 * epsilon * np.abs(r) - epsilon**2 * sigma)).sum()
    if not curved:
        return HuberSums(float(value))
    pull = np.where(inside, s * r / sigma, epsilon * beyond * np.sign(r))
    slope = s.sum() - squares.sum() / sigma**2 - epsilon**2 * beyond.sum()
    gradient = np.concatenate([-2 * (rows.T @ pull), [-2 * pull.sum(), slope]])
    t = np.where(inside, s, 0.0)
    d = len(w)
    H = np.empty((d + 2, d + 2))
    weighted = rows.multiply(t[:, None]).tocsr() if hasattr(rows, "tocsr") else rows * t[:, None]
    product = weighted.T @ rows
    H[:d, :d] = product.toarray() if hasattr(product, "toarray") else product
    H[:d, d] = H[d, :d] = rows.T @ t
    H[d, d] = t.sum()
    H[:d, d + 1] = H[d + 1, :d] = rows.T @ (t * r) / sigma
    H[d, d + 1] = H[d + 1, d] = (t * r).sum() / sigma
    H[d + 1, d + 1] = squares.sum() / sigma**2
    return HuberSums(float(value), gradient, 2 * H / sigma)


@storable
@dataclass(frozen=True)
class HuberState:
    """θ = (w, b, σ), what the objective does there, and what the next step promises to gain."""

    version = 1
    layout: ClassVar = {"theta": "p", "gradient": "p", "hessian": "p p"}

    theta: Array
    loss: float
    gradient: Array
    hessian: Array
    gain: float  # ½ gᵀH⁻¹g of the step that led here; infinite at the start
    done: bool = False


@dataclass(frozen=True)
class HuberAlgorithm:
    """Newton's method. Finished when a step promised less than tol² of the objective, or σ is that of rounding."""

    draws: ClassVar = False
    hint: ClassVar = "divide the columns of X, or y, by their largest numbers"

    epsilon: float
    alpha: float
    intercept: bool
    tol: float
    start: Array | None = None  # θ of a warm start

    def init(self, data: Blocks, rng: Any) -> HuberState:
        if self.start is not None:
            return self._at(data, self.start, np.inf)
        theta = self._least_squares(data)
        y = data.targets.astype(np.float64)  # type: ignore[union-attr]
        b = float(np.median(y)) if self.intercept else 0.0
        flat = np.zeros_like(theta)
        flat[-2:] = b, max(float(np.abs(y - b).mean()), least_scale(data))
        # weights of columns in tiny units may cost more than all residuals
        first = theta if self._value(data, theta) <= self._value(data, flat) else flat
        return self._at(data, first, np.inf)

    def _least_squares(self, data: Blocks) -> Array:
        sums = NormalEquations.gather(data)
        A, c, _ = sums.system(self.intercept)
        x_mean = np.asarray(sums.moments.mean) if self.intercept else np.zeros(len(A))
        y_mean = sums.y_mean if self.intercept else np.zeros(1)
        w = eigen_solve(A, c, 1e-8)[0]
        # residuals of the data bring the digits back that the squares lost
        found = residuals(data, w, y_mean - x_mean @ w)
        w += eigen_solve(A, found.gradient - np.multiply.outer(x_mean, found.total), 1e-8)[0]
        sigma = np.sqrt(residuals(data, w, y_mean - x_mean @ w).squares[0] / sums.moments.n)
        return np.concatenate([w[:, 0], y_mean - x_mean @ w, [max(sigma, least_scale(data))]])

    def _at(self, data: Blocks, theta: Array, gain: float, done: bool = False) -> HuberState:
        sums = map_reduce(partial(_sums_of, theta, self.epsilon, True), packed(data), HuberSums())
        w = theta[:-2]
        gradient, H = sums.gradient.copy(), sums.hessian.copy()
        gradient[:-2] += 2 * self.alpha * w
        H[range(len(w)), range(len(w))] += 2 * self.alpha
        if not self.intercept:
            gradient[-2], H[-2], H[:, -2] = 0.0, 0.0, 0.0
        return HuberState(theta, sums.value + self.alpha * float(w @ w), gradient, H, gain, done)

    def step(self, state: HuberState, data: Blocks) -> HuberState:
        direction = -eigen_solve(state.hessian, state.gradient[:, None], 1e-8)[0][:, 0]
        slope = float(state.gradient @ direction)
        if slope >= 0:  # nothing left to gain that rounding would let us see
            return self._ended(state)
        least = least_scale(data)
        length = 1.0
        if direction[-1] < 0:  # σ stays positive: at most nine tenths of the way to 0
            length = min(1.0, 0.9 * state.theta[-1] / -direction[-1])
        for _ in range(HALVINGS):
            theta = state.theta + length * direction
            theta[-1] = max(theta[-1], least)
            value = self._value(data, theta)
            if value <= state.loss + ARMIJO * length * slope:
                done = -slope / 2 <= self.tol**2 * abs(state.loss) or theta[-1] <= least
                return self._at(data, theta, -slope / 2, done)
            length /= 2
        return self._ended(state)

    def _value(self, data: Blocks, theta: Array) -> float:
        sums = map_reduce(partial(_sums_of, theta, self.epsilon, False), packed(data), HuberSums())
        return sums.value + self.alpha * float(theta[:-2] @ theta[:-2])

    @staticmethod
    def _ended(state: HuberState) -> HuberState:
        return HuberState(state.theta, state.loss, state.gradient, state.hessian, 0.0, True)

    def objective(self, state: HuberState) -> float:
        return state.loss

    def extras(self, state: HuberState) -> dict[str, float]:
        return {"gradient": float(np.linalg.norm(state.gradient))}

    def finished(self, state: HuberState) -> bool:
        return state.done

    def attributes(self, state: HuberState) -> dict[str, Any]:
        return {
            "coef_": state.theta[:-2],
            "intercept_": float(state.theta[-2]),
            "scale_": float(state.theta[-1]),
        }


def least_scale(data: Blocks) -> float:
    y = data.targets.astype(np.float64)  # type: ignore[union-attr]
    spread = float(np.abs(y - np.median(y)).max())
    return LEAST_SCALE * (spread or float(np.abs(y).max()) or 1.0)
