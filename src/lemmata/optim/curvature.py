"""Curvature of a function: L, μ and κ, which decide how far a step may go and how fast descent can be.

    smoothness(f, x)        L: ‖∇f(x) − ∇f(y)‖ ≤ L‖x − y‖           CIL Def. 4.3.1;  a step below 2/L descends
    pl_constant(f, …)       μ: ½‖∇f(x)‖² ≥ μ(f(x) − f*)              CIL Def. 4.3.3;  f − f* shrinks by 1 − μ/L a step
    condition_number(f, x)  κ = L/μ                                  the best step contracts f − f* by ((κ − 1)/(κ + 1))²

Objectives of objectives.py know their constants, everywhere. Of any other function only products with the Hessian at a point
are available, by differences of gradients:

    H(x)v ≈ (∇f(x + hv) − ∇f(x − hv)) / 2h

Power iteration on them finds the largest curvature *at x*, from below: another point may be more curved, and the estimate
itself grows with every product. So such an L starts a search for a step size and proves nothing.

    >>> import numpy as np
    >>> from lemmata.optim.objectives import Quadratic, Rosenbrock
    >>> smoothness(Quadratic(np.diag([1.0, 10.0])))
    10.0
    >>> round(smoothness(Rosenbrock(), np.ones(2))), round(condition_number(Rosenbrock(), np.ones(2)))
    (1002, 2508)
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from lemmata.optim.functions import Function, as_function, as_point

Array = np.ndarray
MOST_COLUMNS = 500  # of a Hessian by differences: as many pairs of gradients


def hessian_product(function: Function, x: Array, v: Array) -> Array:
    """H(x)v by a central difference of gradients; its error is of the order eps^⅔ of the curvature."""
    size = float(np.linalg.norm(v))
    if size == 0:
        return np.zeros_like(x)
    h = np.cbrt(np.finfo(x.dtype).eps) * (1 + float(np.linalg.norm(x))) / size
    ahead, behind = function(x + h * v)[1], function(x - h * v)[1]
    return (np.asarray(ahead) - np.asarray(behind)) / (2 * h)


def hessian(f: Any, x: Any) -> Array:
    """The Hessian at x, (d, d): the objective's own, or symmetrised differences, two gradients per column."""
    function, x = as_function(f, like=x), as_point(x)
    if hasattr(f, "hessian"):
        return np.asarray(f.hessian(x))
    if x.size > MOST_COLUMNS:
        raise ValueError(
            f"a Hessian by differences takes {2 * x.size:,} gradients of {x.size:,} numbers; pass f with a method hessian(x)."
        )
    columns = np.eye(x.size, dtype=x.dtype).reshape(x.size, *x.shape)
    H = np.array([hessian_product(function, x, e).ravel() for e in columns])
    return (H + H.T) / 2


def smoothness(
    f: Any, x: Any = None, *, tol: float = 1e-3, max_iter: int = 50, rng: Any = 0
) -> float:
    """L: exact for objectives that know it; otherwise the largest curvature at x, from below.

    Parameters
    ----------
    f : an objective with L, a function that returns (value, gradient), or a pair (f, grad)
    x : array, optional
        Where to measure; not needed where L is known everywhere.
    tol : float, default=1e-3
        Power iteration ends when the estimate changes by this share of itself.
    """
    known = getattr(f, "L", None)
    if known is not None:
        return float(known)
    if x is None:
        raise ValueError(
            "the curvature of this function is measured at a point; pass smoothness(f, x)."
        )
    x, function = as_point(x), as_function(f, like=x)
    v = np.random.default_rng(rng).standard_normal(x.shape).astype(x.dtype)
    found = 0.0
    for _ in range(max_iter):
        v = v / np.linalg.norm(v)
        Hv = hessian_product(function, x, v)
        before, found = found, float(np.linalg.norm(Hv))
        if not math.isfinite(found) or found == 0 or abs(found - before) <= tol * found:
            break
        v = Hv
    return found


def pl_constant(f: Any, points: Any = None, minimum: float | None = None) -> float:
    """μ of the PL condition: a proved lower bound for objectives that know it; otherwise the least ratio seen, from above.

    A convex quadratic satisfies it with its smallest *positive* eigenvalue, whether or not it is strongly convex.

    Parameters
    ----------
    points : arrays, optional
        Where to look, such as the points that a run passed.
    minimum : float, optional
        f*, where the objective does not know it; with an upper bound of f* the ratio comes out too large.
    """
    name, facts = getattr(f, "structure", ("", {}))
    if name in ("quadratic", "least_squares", "logistic") and points is None:
        return _known_pl(f, name, facts)
    minimum = getattr(f, "minimum", None) if minimum is None else minimum
    if points is None or minimum is None:
        raise ValueError(
            "μ of this function is not known; pass points at which to look, and minimum=, the value f* of its minimum."
        )
    ratios = []
    for point in points:
        value, gradient = as_function(f)(as_point(point))
        if value > minimum:
            ratios.append(0.5 * float(np.vdot(gradient, gradient)) / (value - minimum))
    if not ratios:
        raise ValueError("no point lies above the minimum; pass others, or check minimum=.")
    return min(ratios)


def _known_pl(f: Any, name: str, facts: dict[str, Any]) -> float:
    if name == "logistic":
        return float(f.mu)
    values = f.eigenvalues if name == "quadratic" else f.gram_eigenvalues + f.reg
    rounding = len(values) * np.finfo(float).eps * abs(values[-1])
    if values[0] < -rounding:
        return 0.0  # not bounded from below
    positive = values[values > rounding]
    return float(positive[0]) if positive.size else 0.0


def condition_number(f: Any, x: Any = None) -> float:
    """κ = L/μ: of the whole function where it knows both, else of its Hessian at x; ∞ where μ ≤ 0."""
    if getattr(f, "L", None) is not None and getattr(f, "mu", None) is not None:
        return float(f.L / f.mu) if f.mu > 0 else math.inf
    if x is None:
        raise ValueError(
            "the condition of this function is measured at a point; pass condition_number(f, x)."
        )
    values = np.linalg.eigvalsh(hessian(f, x))
    return float(values[-1] / values[0]) if values[0] > 0 else math.inf
