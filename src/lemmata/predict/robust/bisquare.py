"""Tukey's bisquare regression: up to half of the rows may be anything.

    minimise  Σ s ρ(y − xᵀw − b),     ρ(r) = δ²/6 (1 − (1 − r²/δ²)³), and δ²/6 beyond δ = c·σ             (ML, Tukey's bisquare)

Not convex: where one starts decides where one ends. MM (Yohai 1987): a start that half of the rows cannot spoil gives w and the
scale σ; then σ stays, and reweighted least squares descends from there, weights ρ′(r)/r = (1 − r²/δ²)²₊. A step minimises a
quadratic that touches Σ sρ from above, so the objective cannot rise.

The start: planes through d + 1 rows drawn at random, and the least-squares plane; the best by the median of |r| are improved
by reweighting with their own median scale, and the best of those is taken. σ = 1.4826 (1 + 5/(n − p)) median|r| (Rousseeuw and
Leroy 1987): the median of |r| of Gaussian noise is 0.6745 deviations. If a share q of the rows is bad, N draws miss a clean set
with probability (1 − (1−q)^(d+1))^N.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from lemmata.core.blocks import Blocks
from lemmata.core.engine import map_reduce
from lemmata.core.store import storable
from lemmata.predict.least_squares.normal_equations import NormalEquations, eigen_solve, pack
from lemmata.predict.robust.plane import PlaneAlgorithm

Array = np.ndarray
SAMPLE = 4000  # rows that the start looks at
IMPROVED = 10  # the number of planes drawn that are improved
REWEIGHTINGS = 20
GAUSSIAN = 0.6744897501960817  # the median of |N(0, 1)|
BATCH = 2**22  # residuals of planes at once


# --- medians ----------------------------------------------------------------------------------------------------------


def weighted_median(values: Array, weights: Array | None) -> Array:
    """The least v with half of the weight at or below it, of every column."""
    if weights is None:
        return np.median(values, axis=0)
    order = np.argsort(values, axis=0)
    below = np.cumsum(np.take(weights, order), axis=0)
    place = (below < 0.5 * below[-1]).sum(axis=0)
    return np.take_along_axis(values, np.take_along_axis(order, place[None], 0), 0)[0]


def median_scale(r: Array, weights: Array | None, p: int = 0) -> Array:
    """σ of residuals by their median; p weights were fitted."""
    n = len(r) if weights is None else float(weights.sum())
    correction = 1 + 5 / max(n - p, 1) if p else 1.0
    return correction * weighted_median(np.abs(r), weights) / GAUSSIAN


# --- the start --------------------------------------------------------------------------------------------------------


def robust_start(
    data: Blocks, intercept: bool, tuning: float, n_starts: int, rng: np.random.Generator
) -> tuple[Array, float]:
    """θ = (w, b) and σ that up to half of the rows cannot spoil."""
    Z, y, s = _sample(data, intercept, rng)
    n, p = Z.shape
    planes = [_least_squares(Z, y, s)]
    if n > p:  # otherwise a plane passes through all rows, and none is an outlier
        planes.append(_planes(Z, y, s, n_starts, rng))
    theta = np.concatenate(planes, axis=1)
    first = np.argsort(_spread(Z, y, s, theta), kind="stable")[:IMPROVED]
    improved = np.column_stack([_improve(Z, y, s, theta[:, j], tuning) for j in first])
    spread = _spread(Z, y, s, improved)
    best = int(spread.argmin())
    w = improved[:, best]
    sigma = float(median_scale(y - Z @ w, s, p))
    w = w if intercept else np.append(w, 0.0)
    return w, sigma


def _sample(data: Blocks, intercept: bool, rng: np.random.Generator):
    """Some rows with a weight, dense, with a column of ones; all of them if they are few."""
    n = data.shape[0]
    able = np.arange(n) if data.weights is None else np.flatnonzero(data.weights)
    take = np.sort(rng.choice(able, SAMPLE, replace=False)) if len(able) > SAMPLE else able
    parts, start = [], 0
    for rows, _ in data:
        mine = take[(take >= start) & (take < start + rows.shape[0])] - start
        part = rows[mine]
        parts.append(part.toarray() if hasattr(part, "toarray") else part)
        start += rows.shape[0]
    X = np.concatenate(parts).astype(np.float64)
    Z = np.column_stack([X, np.ones(len(X))]) if intercept else X
    y = data.targets[take].astype(np.float64)  # type: ignore[index]
    return Z, y, None if data.weights is None else data.weights[take]


def _least_squares(Z: Array, y: Array, s: Array | None) -> Array:
    root = 1.0 if s is None else np.sqrt(s)
    return np.linalg.lstsq(Z * np.reshape(root, (-1, 1)), y * root, rcond=None)[0][:, None]


def _planes(Z: Array, y: Array, s: Array | None, count: int, rng: np.random.Generator) -> Array:
    """(p, count) planes through p rows each; sets of rows that determine none are left out."""
    n, p = Z.shape
    rows = np.argpartition(rng.random((count, n)), p - 1, axis=1)[:, :p]
    A, b = Z[rows], y[rows]
    norms = np.linalg.norm(A, axis=2, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        singular = np.linalg.svd(np.where(norms > 0, A / norms, 0.0), compute_uv=False)
    sound = singular[:, -1] > 1e-8 * singular[:, 0]
    if not sound.any():
        return np.empty((p, 0))
    return np.linalg.solve(A[sound], b[sound][:, :, None])[:, :, 0].T


def _spread(Z: Array, y: Array, s: Array | None, theta: Array) -> Array:
    """Median |r| of every plane."""
    step = max(BATCH // len(y), 1)
    parts = [
        weighted_median(np.abs(y[:, None] - Z @ theta[:, i : i + step]), s)
        for i in range(0, theta.shape[1], step)
    ]
    return np.concatenate(parts)


def _improve(Z: Array, y: Array, s: Array | None, w: Array, tuning: float) -> Array:
    """Reweighted least squares with the median scale of the moment, while the median falls."""
    best, spread = w, float(_spread(Z, y, s, w[:, None])[0])
    for _ in range(REWEIGHTINGS):
        if spread == 0:
            break
        t = bisquare_weights(y - Z @ w, tuning * spread / GAUSSIAN)
        t = t if s is None else t * s
        w = np.linalg.lstsq(Z * np.sqrt(t)[:, None], y * np.sqrt(t), rcond=None)[0]
        new = float(_spread(Z, y, s, w[:, None])[0])
        if new >= spread * (1 - 1e-6):
            break
        best, spread = w, new
    return best


# --- the descent ------------------------------------------------------------------------------------------------------


def bisquare_weights(r: Array, delta: float) -> Array:
    return np.maximum(1 - (r / delta) ** 2, 0.0) ** 2


def bisquare(r: Array, delta: float) -> Array:
    return delta**2 / 6 * (1 - np.maximum(1 - (r / delta) ** 2, 0.0) ** 3)


@dataclass(frozen=True)
class Reweighted:
    """The objective of a block and its normal equations with the weights of its residuals."""

    loss: float = 0.0
    sums: Any = None

    def __add__(self, other: Reweighted) -> Reweighted:
        sums = other.sums if self.sums is None else self.sums + other.sums
        return Reweighted(self.loss + other.loss, sums)


def _reweighted_of(theta: Array, delta: float, rows: Any, columns: Array) -> Reweighted:
    s, y = columns[:, 0], columns[:, 1:]
    r = y[:, 0] - rows.astype(np.float64, copy=False) @ theta[:-1] - theta[-1]
    return Reweighted(
        float((s * bisquare(r, delta)).sum()),
        NormalEquations.of(rows, y, s * bisquare_weights(r, delta)),
    )


@storable
@dataclass(frozen=True)
class BisquareState:
    """θ = (w, b), the scale of the start, and the equations for the next step."""

    version = 1
    layout: ClassVar = {"theta": "p", "scale": ">0"}

    theta: Array
    scale: float
    loss: float
    sums: NormalEquations
    # of the predictions in the last step, root mean square over σ; infinite at the start
    moved: float
    done: bool = False


@dataclass(frozen=True)
class BisquareAlgorithm(PlaneAlgorithm):
    """Reweighted least squares from a robust start. Finished when predictions move by less than tol·σ."""

    hint: ClassVar = "divide the columns of X, or y, by their largest numbers"

    tuning: float
    intercept: bool
    tol: float
    n_starts: int
    start: tuple[Array, float] | None = None

    def init(self, data: Blocks, rng: np.random.Generator) -> BisquareState:
        theta, scale = self.start or robust_start(
            data, self.intercept, self.tuning, self.n_starts, rng
        )
        y = data.targets.astype(np.float64)  # type: ignore[union-attr]
        least = 1e-12 * (float(np.abs(y - np.median(y)).max()) or float(np.abs(y).max()) or 1.0)
        # half of the rows lie on one plane: the others are outliers, however near, and there is nothing to descend to
        return self._at(data, theta, max(scale, least), np.inf if scale > least else 0.0)

    def _at(self, data: Blocks, theta: Array, scale: float, moved: float) -> BisquareState:
        found = map_reduce(
            partial(_reweighted_of, theta, self.tuning * scale), pack(data), Reweighted()
        )
        done = moved <= self.tol or found.sums.count == 0
        return BisquareState(theta, scale, found.loss, found.sums, moved, done)

    def step(self, state: BisquareState, data: Blocks) -> BisquareState:
        sums = state.sums
        A, c, _ = sums.system(self.intercept)
        if self.intercept:
            A = np.where(sums.constant_columns() | sums.constant_columns()[:, None], 0.0, A)
        w = eigen_solve(A, c, 1e-8)[0][:, 0]
        b = sums.y_mean[0] - np.asarray(sums.moments.mean) @ w if self.intercept else 0.0
        step = w - state.theta[:-1]
        shift = (
            b - state.theta[-1] + np.asarray(sums.moments.mean) @ step if self.intercept else 0.0
        )
        moved = np.sqrt(max(step @ A @ step, 0.0) / sums.moments.n + shift**2) / state.scale
        new = self._at(data, np.append(w, b), state.scale, float(moved))
        # at rounding a step may rise by the last bit: then it was over
        if new.loss > state.loss:
            return BisquareState(state.theta, state.scale, state.loss, state.sums, 0.0, True)
        return new

    def objective(self, state: BisquareState) -> float:
        return state.loss

    def finished(self, state: BisquareState) -> bool:
        return state.done

    def attributes(self, state: BisquareState) -> dict[str, Any]:
        return {
            "coef_": state.theta[:-1],
            "intercept_": float(state.theta[-1]),
            "scale_": state.scale,
        }
