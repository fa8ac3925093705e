"""A curve through points, by the distance from each to the nearest point of the curve (CIL (3.20), Fig. 3.2).

    minimise  1/2n Σ_i min_t ‖c(t, θ) − x_i‖²        over θ

Two steps take turns: the nearest points t_i of the curve as it is, then θ by least squares with these t_i. Neither can raise
the objective. But points could slide along the curve while θ changes, and held fixed they hold θ back; so first the distances
to the tangents at t_i are made least, (I − ττᵀ)(c(t_i, θ) − x_i), and that θ is taken where it is better.

Where c is a line the result is the first principal axis: errors in both coordinates, not in y alone.

    >>> rng = np.random.default_rng(0)
    >>> angle = rng.uniform(0, 2 * np.pi, 60)
    >>> points = ellipse(angle / (2 * np.pi), [1.0, 2.0, 3.0, 1.0, 0.5]) + 0.05 * rng.normal(size=(60, 2))
    >>> found = fit_ellipse(points)
    >>> found.theta_.round(1), found.certificate_.failed                 # centre, half axes, angle of the longer one
    (array([1. , 2. , 3. , 1. , 0.5]), [])
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.optimize import least_squares
from sklearn.utils import check_array

from lemmata.audit.optim.curves import CURVE_CLAIMS
from lemmata.core.certificate import Certificate, Fit
from lemmata.core.certification.checking import check
from lemmata.core.loop import MaxSteps, Settled, run
from lemmata.core.runs.trace import Trace

Array = np.ndarray
# points tried on the whole curve, then on each side of the best, ever closer
GRID, AROUND, ROUNDS = 200, 8, 9
TANGENT, STEP = 1e-5, 1e-7  # of differences: of the span, on each side; of a parameter
HALVINGS = 6  # of a step to the tangents, before the points are held


@dataclass(frozen=True)
class CurveState:
    """θ, the nearest points and the objective they have."""

    theta: Array
    t: Array
    loss: float


@dataclass(frozen=True)
class CurveAlgorithm:
    """Parameters for these nearest points, then nearest points for these parameters."""

    curve: Callable[[Array, Array], Array]
    theta: Array
    span: tuple[float, float]

    hint = "start from other parameters"

    def init(self, X: Array, rng: Any) -> CurveState:
        return self._at(X, self.theta, None)

    def step(self, state: CurveState, X: Array) -> CurveState:
        h = TANGENT * (self.span[1] - self.span[0])
        tangent = self.curve(state.t + h, state.theta) - self.curve(state.t - h, state.theta)
        length = np.linalg.norm(tangent, axis=1, keepdims=True)
        tangent = np.divide(tangent, length, out=np.zeros_like(tangent), where=length > 0)
        r = self._residuals(state.theta, state.t, tangent, X)
        h = STEP * np.maximum(1.0, np.abs(state.theta))
        J = [self._residuals(state.theta + one, state.t, tangent, X) - r for one in np.diag(h)]
        move = np.linalg.lstsq(np.array(J).T / h, -r, rcond=None)[0]
        for share in 0.5 ** np.arange(HALVINGS):
            new = self._at(X, state.theta + share * move, state.t)
            if new.loss < state.loss:
                return new
        fixed = (state.t, np.zeros_like(tangent), X)
        theta = least_squares(self._residuals, state.theta, args=fixed, max_nfev=30).x
        new = self._at(X, theta, state.t)
        return new if new.loss < state.loss else state

    def _residuals(self, theta: Array, t: Array, along: Array, X: Array) -> Array:
        r = self.curve(t, theta) - X
        return (r - np.sum(r * along, axis=1, keepdims=True) * along).ravel()

    def objective(self, state: CurveState) -> float:
        return state.loss

    def attributes(self, state: CurveState) -> dict[str, Array]:
        return {"theta_": state.theta, "t_": state.t}

    def _at(self, X: Array, theta: Array, before: Array | None) -> CurveState:
        t = find_nearest(self.curve, theta, X, self.span)
        if before is not None:  # a search on a grid may lose what was there
            nearer = self._squares(X, before, theta) < self._squares(X, t, theta)
            t = np.where(nearer, before, t)
        return CurveState(theta, t, 0.5 * float(self._squares(X, t, theta).mean()))

    def _squares(self, X: Array, t: Array, theta: Array) -> Array:
        return np.sum((self.curve(t, theta) - X) ** 2, axis=1)


def find_nearest(curve: Callable, theta: Array, X: Array, span: tuple[float, float]) -> Array:
    """The t of the nearest point of the curve for each row, by grids that become four times as fine."""
    low, high = span
    grid = np.linspace(low, high, GRID)
    away = np.sum((X[:, None, :] - curve(grid, theta)) ** 2, axis=2)
    t, h = grid[away.argmin(axis=1)], (high - low) / GRID
    for _ in range(ROUNDS):
        near = np.clip(t[:, None] + h * np.linspace(-1, 1, 2 * AROUND + 1), low, high)
        at = curve(near.ravel(), theta).reshape(*near.shape, -1)
        best = np.sum((X[:, None, :] - at) ** 2, axis=2).argmin(axis=1)
        t, h = near[np.arange(len(t)), best], h / 4
    return t


@dataclass(frozen=True)
class CurveFit:
    """Parameters of a curve, the nearest points of it, and a certificate.

    theta_, t_ : parameters, and the place on the curve nearest to each point
    distances_ : from each point to the curve
    loss_ : half of their mean square
    """

    theta_: Array
    t_: Array = field(repr=False)
    distances_: Array = field(repr=False)
    loss_: float
    stopped_: str
    n_iter_: int
    curve: Callable[[Array, Array], Array] = field(repr=False)
    span: tuple[float, float] = field(repr=False)
    points_: Array = field(repr=False)
    trace_: Trace = field(repr=False)
    certificate_: Certificate | None = field(repr=False, default=None)


def fit_curve(
    points: Any,
    curve: Callable[[Array, Array], Array],
    theta: Any,
    *,
    span: Sequence[float] = (0.0, 1.0),
    tol: float = 1e-10,
    max_iter: int = 300,
) -> CurveFit:
    """Fit the parameters of a curve by the distances from points to it.

    Parameters
    ----------
    points : array (n, d)
    curve : function of (t (m,), θ (p,)) that returns points (m, d)
    theta : array (p,)
        Where to begin.
    span : (low, high), default=(0, 1)
        The t that belong to the curve.
    tol : float, default=1e-10
        Settled when a round changes the objective by at most this share of it.
    max_iter : int, default=300
    """
    X, theta = check_array(points, dtype=np.float64), np.array(theta, dtype=np.float64)
    low, high = map(float, span)
    if theta.ndim != 1 or not np.isfinite(theta).all() or not low < high:
        raise ValueError(f"theta={theta!r}, span={span!r}; pass finite numbers, and low < high.")
    if X.size < len(theta) or len(X) < 2:
        raise ValueError(
            f"{len(X)} points in {X.shape[1]} dimensions, and {len(theta)} parameters: pass {-(-len(theta) // X.shape[1])} "
            "points at least, or a curve of fewer parameters."
        )
    at = np.asarray(curve(np.array([low, high]), theta))
    if at.shape != (2, X.shape[1]) or not np.isfinite(at).all():
        raise ValueError(
            f"curve gives {at.tolist()} at both ends; return finite points of shape (m, {X.shape[1]}) for m values of t."
        )
    algorithm = CurveAlgorithm(curve, theta, (low, high))
    done = run(algorithm, X, stop=Settled(tol) | MaxSteps(max_iter), rng=0)
    state, stopped = done.state, str(done.stopped)
    apart = np.linalg.norm(curve(state.t, state.theta) - X, axis=1)
    found = CurveFit(
        state.theta, state.t, apart, state.loss, stopped, done.step, curve, (low, high), X, done.trace
    )  # fmt: skip
    fit = Fit(found, trace=done.trace, stopped=f"{stopped}, {done.step} steps")
    title = f"curve  {len(X):,} points, {len(theta)} parameters"
    return replace(found, certificate_=check(CURVE_CLAIMS, fit, title))


def ellipse(t: Array, theta: Any) -> Array:
    """Points of an ellipse at t in [0, 1]; θ is its centre (2), half axes (2) and the angle of the first."""
    x, y, a, b, angle = theta
    u, v = a * np.cos(2 * np.pi * t), b * np.sin(2 * np.pi * t)
    c, s = np.cos(angle), np.sin(angle)
    return np.stack([x + c * u - s * v, y + s * u + c * v], axis=-1)


def fit_ellipse(points: Any, *, tol: float = 1e-10, max_iter: int = 300) -> CurveFit:
    """Fit an ellipse in the plane; `theta_` is the centre, the half axes, the longer first, and its angle in (−π/2, π/2]."""
    X = check_array(points, dtype=np.float64)
    if X.shape[1] != 2 or len(X) < 5:
        raise ValueError(f"points have shape {X.shape}; pass five points of the plane or more.")
    centre = X.mean(axis=0)
    variances, axes = np.linalg.eigh(np.cov(X.T))
    if not variances[0] > 1e-12 * variances[1]:
        raise ValueError("the points lie on a line; an ellipse through them has no width.")
    # a point at a random angle has the variance a²/2 along an axis
    start = [*centre, *np.sqrt(2 * variances[::-1]), np.arctan2(axes[1, 1], axes[0, 1])]
    found = fit_curve(X, ellipse, start, tol=tol, max_iter=max_iter)
    theta, t = _in_order(found)
    return replace(found, theta_=theta, t_=t)


def _in_order(found: CurveFit) -> tuple[Array, Array]:
    """The same ellipse with half axes > 0, the longer first, and the t that go with it."""
    (x, y, a, b, angle), t = found.theta_, found.t_
    if a < 0:
        a, t = -a, 0.5 - t
    if b < 0:
        b, t = -b, -t
    if a < b:
        a, b, angle, t = b, a, angle + np.pi / 2, t - 0.25
    turns = np.ceil(angle / np.pi - 0.5)
    return np.array([x, y, a, b, angle - turns * np.pi]), (t + 0.5 * turns) % 1.0
