"""Claims about a curve through points: the stated nearest points, and the slope in the parameters.

    F(θ) = 1/2n Σ_i min_t ‖c(t, θ) − x_i‖²,        ∇F = 1/n Σ_i (∂c/∂θ)ᵀ(c(t_i, θ) − x_i)      at the nearest t_i (CIL (3.20))

The nearest points depend on θ, too, but to first order they cost nothing: there the residual is orthogonal to the curve.
"""

from __future__ import annotations

import numpy as np

from lemmata.audit.kernel import claims as k

Array = np.ndarray
SOURCE = "CIL (3.20)"
GRID = 2000  # points of the curve that are tried for each x
NEARER, STEEP = (
    1e-3,
    1e-3,
)  # of the mean distance, or of the size of the residuals and of the slopes of the curve
STEP = 1e-6


def distances(fit: k.Fit, t: Array) -> Array:
    return np.linalg.norm(fit.curve(t, fit.theta_) - fit.points_, axis=-1)


def scale_of(fit: k.Fit) -> float:
    """The spread of the points: rounding is measured by it."""
    return float(np.linalg.norm(fit.points_ - fit.points_.mean(axis=0)) / np.sqrt(len(fit.points_)))


@k.rule_of_thumb("no point of the curve that was tried is nearer than the stated ones", SOURCE)
def nearest_found(fit):
    """On an even grid; the excess is that of the mean distance. A nearer point is a proof, none is none."""
    own = distances(fit, np.asarray(fit.t_))
    first, last = fit.span
    grid = fit.curve(np.linspace(first, last, GRID), fit.theta_)
    least = np.array([np.linalg.norm(grid - x, axis=1).min() for x in fit.points_])
    excess = float(np.maximum(own - least, 0.0).mean())
    bound = NEARER * float(own.mean()) + 1e-7 * scale_of(fit)
    advice = "look for the nearest points again: a finer search over t"
    kind = k.PROVED if excess > bound else ""
    return k.at_most(excess, bound, advice, "excess of a distance", kind=kind)


@k.rule_of_thumb("no change of the parameters lowers the distances, to first order", SOURCE)
def parameters_settled(fit):
    """The largest |Σ rᵀ ∂c/∂θ_j| over ‖r‖ ‖∂c/∂θ_j‖: the cosine between the residuals and what θ_j moves."""
    theta, t = np.asarray(fit.theta_, float), np.asarray(fit.t_)
    r = (fit.curve(t, theta) - fit.points_).ravel()
    noise = 1e-7 * scale_of(fit) * np.sqrt(len(t))
    if np.linalg.norm(r) <= noise:
        return k.at_most(0.0, STEEP, unit="cosine", note="the points lie on the curve")
    worst = 0.0
    for j in range(len(theta)):
        h = np.zeros(len(theta))
        h[j] = STEP * max(1.0, abs(theta[j]))
        move = (fit.curve(t, theta + h) - fit.curve(t, theta - h)).ravel()
        size = float(np.linalg.norm(move) * np.linalg.norm(r))
        worst = max(worst, abs(float(r @ move)) / size if size > 0 else 0.0)
    return k.at_most(worst, STEEP, "raise max_iter, or start elsewhere", unit="cosine")


@k.proved("no round lengthened the distances", SOURCE, about="run")
def never_longer(fit):
    values = fit.trace.objective
    rise = float(np.diff(values).max(initial=0.0))
    bound = k.rounding(np.float64, len(fit.points_)) * float(values[0])
    return k.at_most(rise, bound, "the curve is not the same function each time", "largest rise")


CURVE_CLAIMS = (nearest_found, parameters_settled, never_longer)
