"""Huber's regression with its scale, by Newton's method.

    minimise  Σ s(σ + σ H(r/σ)) + α‖w‖²   over w, b and σ > 0,       r = y − xᵀw − b,   H(z) = z² for |z| ≤ ε, else 2ε|z| − ε²

scikit-learn's HuberRegressor has this objective (Huber 1981, ch. 7): jointly convex, since σH(r/σ) is the perspective of H, and
in units of y, so that ε counts deviations. With I the rows inside (|r| ≤ εσ) and O those outside, gradient and Hessian
are sums over rows, z = (x, 1):

    ∂w,b   −Σ_I 2s rz/σ − Σ_O 2sε sign(r) z + 2αw          ∂σ   Σ s − Σ_I s r²/σ² − ε² Σ_O s
    Hessian  Σ_I 2s zzᵀ/σ + 2αI,   Σ_I 2s rz/σ²,   Σ_I 2s r²/σ³

For given weights the best σ is one number, and found exactly: ∂σ grows with σ, so it has one root. Newton's step in w and b is
taken on what remains, the objective at its best σ, which is convex too; its Hessian is that of w and b minus hhᵀ/h_σσ, h the
mixed part. The length is 1 or, if that overshoots, where the slope along the step is 0: residuals along it cost no pass.
Where the weights can follow the rows (n < d, or ε near 1) the best σ may be 0, and near it the objective is all kinks. So σ ≥ τ
for a τ that is lowered tenfold whenever the steps at τ have little left to gain; with σ > τ it does not matter, and below
tol²·loss/Σs it ends.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from lemmata.core.blocks import Blocks
from lemmata.core.engine import map_reduce
from lemmata.core.store import storable
from lemmata.predict.least_squares.normal_equations import EPS, eigen_solve
from lemmata.predict.robust.plane import PlaneAlgorithm

Array = np.ndarray
HALVINGS = 60
FARTHEST = 1e6  # times Newton's step
LOWER = 0.1  # of τ at a time …
LITTLE = 1e-3  # … when a step gained less than this share of the objective
LEAST_SCALE = 10 * EPS  # of the deviation of y: below, the residuals are rounding


# --- the scale --------------------------------------------------------------------------------------------------------


def best_scale(r: Array, s: Array, epsilon: float, least: float) -> float:
    """The σ ≥ least with Σ s − Σ_I s r²/σ² − ε² Σ_O s = 0; the left side grows with σ."""
    size = np.abs(r)
    order = np.argsort(size)
    unit = float(size[order[-1]]) or 1.0
    size, s = size[order] / unit, s[order]
    total, inside, squares = s.sum(), np.cumsum(s), np.cumsum(s * size**2)
    # at σ = |r|_k/ε the first k rows are inside
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        slope = total - squares * (epsilon / size) ** 2 - epsilon**2 * (total - inside)
    slope = np.where(size > 1e-150, slope, -np.inf)
    k = int(np.searchsorted(slope, 0.0))  # the number of thresholds below the root
    if k == 0:
        return least
    left = total - epsilon**2 * (total - inside[k - 1])
    if not left > 0:
        return max(unit * float(size[k - 1]) / epsilon, least)
    return max(unit * float(np.sqrt(squares[k - 1] / left)), least)


def least_scale(data: Blocks) -> float:
    """Return the size of residuals that are rounding, in units of y."""
    y = data.targets.astype(np.float64)  # type: ignore[union-attr]
    spread = float(np.abs(y - np.median(y)).max())
    return LEAST_SCALE * (spread or float(np.abs(y).max()) or 1.0)


def _pulls(r: Array, s: Array, sigma: float, epsilon: float) -> Array:
    """Half the slope of every row in its residual: s r/σ inside, ±sε outside."""
    return s * np.clip(r / sigma, -epsilon, epsilon)


# --- sums over the rows -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class HuberSums:
    """Σ zp of the pulls p, and Σ_I s zzᵀ, Σ_I s rz, of a block; z = (x, 1)."""

    pull: Any = 0.0  # (d + 1,)
    curvature: Any = 0.0  # (d + 1, d + 1)
    mixed: Any = 0.0  # (d + 1,)

    def __add__(self, other: HuberSums) -> HuberSums:
        return HuberSums(
            self.pull + other.pull, self.curvature + other.curvature, self.mixed + other.mixed
        )


def _sums_of(rows: Any, columns: Array) -> HuberSums:
    """columns: the pulls p, the weights of the rows inside t, and tr."""
    p, t, tr = columns.T
    rows = rows.astype(np.float64, copy=False)
    d = rows.shape[1]
    C = np.empty((d + 1, d + 1))
    weighted = rows.multiply(t[:, None]).tocsr() if sp.issparse(rows) else rows * t[:, None]
    product = weighted.T @ rows
    C[:d, :d] = product.toarray() if sp.issparse(product) else product
    C[:d, d] = C[d, :d] = rows.T @ t
    C[d, d] = t.sum()
    return HuberSums(np.append(rows.T @ p, p.sum()), C, np.append(rows.T @ tr, tr.sum()))


def _images(data: Blocks, theta: Array) -> Array:
    """xᵀw + b of every row."""
    parts = [rows.astype(np.float64, copy=False) @ theta[:-1] for rows, _ in data]
    return np.concatenate(parts) + theta[-1]


@storable
@dataclass(frozen=True)
class HuberState:
    """Weights θ = (w, b), their best σ, and what the last step promised to gain."""

    version = 1
    layout: ClassVar = {"theta": "p", "sigma floor": ">0"}

    theta: Array
    sigma: float
    floor: float  # τ
    loss: float
    gain: float = np.inf
    done: bool = False


@dataclass(frozen=True)
class HuberAlgorithm(PlaneAlgorithm):
    """Newton's method. Finished when a step promised less than tol² of the objective."""

    draws: ClassVar = False
    hint: ClassVar = "divide the columns of X, or y, by their largest numbers"

    epsilon: float
    alpha: float
    intercept: bool
    tol: float
    start: Array | None = None  # θ of a warm start

    def init(self, data: Blocks, rng: Any) -> HuberState:
        y, s = _targets(data)
        theta = np.zeros(data.shape[1] + 1) if self.start is None else self.start
        if self.start is None and self.intercept:
            theta[-1] = np.median(y)
        r = y - _images(data, theta)
        spread = max(float(s @ np.abs(r)) / s.sum(), least_scale(data))
        return self._at(theta, r, s, spread if self.start is None else LOWER * spread)

    def _at(self, theta, r, s, floor, gain: float = np.inf, done: bool = False) -> HuberState:
        sigma = best_scale(r, s, self.epsilon, floor)
        return HuberState(theta, sigma, floor, self._loss(theta, r, s, sigma), gain, done)

    def _loss(self, theta: Array, r: Array, s: Array, sigma: float) -> float:
        size, e = np.abs(r), self.epsilon
        costs = np.where(size <= e * sigma, r * (r / sigma), 2 * e * size - e**2 * sigma)
        return float(s @ costs + s.sum() * sigma + self.alpha * (theta[:-1] @ theta[:-1]))

    def step(self, state: HuberState, data: Blocks) -> HuberState:
        (y, s), floor = _targets(data), state.floor
        r = y - _images(data, state.theta)
        direction, slope = self._direction(data, r, s, state)
        new, gain = state, 0.0
        if slope < 0:
            q = _images(data, direction)
            length = self._length(state.theta, direction, r, q, s, floor)
            found = self._at(state.theta + length * direction, r - length * q, s, floor)
            if found.loss < state.loss:
                new, gain, r = found, -slope / 2, r - length * q
        least = max(least_scale(data), self.tol**2 * new.loss / s.sum())
        held = new.sigma <= floor and floor > least
        if held and gain <= LITTLE * new.loss:
            return self._at(new.theta, r, s, max(LOWER * floor, least), gain)
        return replace(new, gain=gain, done=not held and gain <= self.tol**2 * new.loss)

    def _direction(
        self, data: Blocks, r: Array, s: Array, state: HuberState
    ) -> tuple[Array, float]:
        """−H⁻¹g at the best σ, and the slope of the objective along it."""
        sigma, theta = state.sigma, state.theta
        t = np.where(np.abs(r) <= self.epsilon * sigma, s, 0.0)
        columns = np.column_stack([_pulls(r, s, sigma, self.epsilon), t, t * r])
        sums = map_reduce(_sums_of, data.weighted(columns), HuberSums())
        penalty = np.append(np.full(len(theta) - 1, self.alpha), 0.0)
        g = 2 * (penalty * theta - sums.pull)
        H = sums.curvature / sigma + np.diag(penalty)
        squares = float(t @ r**2)
        if sigma > state.floor and squares > 0:  # σ moves along
            H -= np.multiply.outer(sums.mixed, sums.mixed) / (squares * sigma)
        if not self.intercept:
            g[-1], H[-1], H[:, -1] = 0.0, 0.0, 0.0
        direction = -eigen_solve(2 * H, g[:, None], 1e-8)[0][:, 0]
        # whatever the units of columns
        if not g @ direction < -1e-12 * (np.abs(g) @ np.abs(direction)):
            direction = -g  # no curvature left where the gradient points
        return direction, float(g @ direction)

    def _length(self, theta, direction, r, q, s, least) -> float:
        """1, if the slope there is not half as steep upwards; else near its root."""

        def slope(length):
            left = r - length * q
            sigma = best_scale(left, s, self.epsilon, least)
            pull = _pulls(left, s, sigma, self.epsilon) @ q
            w = theta[:-1] + length * direction[:-1]
            return 2 * (self.alpha * (w @ direction[:-1]) - pull)

        first, low, high = slope(0.0), 0.0, 1.0
        at = slope(high)
        while at < 0.5 * first and high < FARTHEST:  # a row beyond a kink: much further down
            low, high = high, 4 * high
            at = slope(high)
        if at <= -0.5 * first:
            return high
        for _ in range(HALVINGS):
            middle = 0.5 * (low + high)
            at = slope(middle)
            if at > 0:
                high = middle
                continue
            low = middle
            if at >= 0.1 * first:
                break
        return low  # still on the way down, so the objective is lower here

    def objective(self, state: HuberState) -> float:
        return state.loss

    def finished(self, state: HuberState) -> bool:
        return state.done

    def attributes(self, state: HuberState) -> dict[str, Any]:
        w, b = state.theta[:-1], float(state.theta[-1])
        return {"coef_": w, "intercept_": b, "scale_": float(state.sigma)}


def _targets(data: Blocks) -> tuple[Array, Array]:
    y = data.targets.astype(np.float64)  # type: ignore[union-attr]
    return y, np.ones(len(y)) if data.weights is None else data.weights
