"""Facts that a formula proves about an objective: value, gradient, curvature and minimum, computed from its arrays.

An objective that names its formula (`structure`: "quadratic", "least_squares", "logistic", "absolute") is evaluated by that
formula here, not by its own code, and its constants hold everywhere:

    quadratic      ½ xᵀHx − bᵀx + c                            L = max |λ(H)|,       μ = the least eigenvalue
    least_squares  1/2n ‖Xw − y‖² + ½ρ‖w‖²                     L = σ_max²/n + ρ,     μ = σ_min²/n + ρ
    logistic       1/n Σ log(1 + exp(−yᵢxᵢᵀw)) + ½ρ‖w‖²        L = σ_max²/4n + ρ,    μ = ρ
    absolute       1/n Σ |yᵢ − xᵢᵀw| + ½ρ‖w‖²                  convex, no L

Any other function is only called. Its curvature is then what differences of gradients show at points of the line from
the first to the last point, from below: it can refute, and suggest, but not prove.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.special import expit

from lemmata.audit.kernel.claims import PROVED, RULE_OF_THUMB, Fit, fact
from lemmata.audit.kernel.lanczos import largest_eigenvalue

Array = np.ndarray
SMOOTH = ("quadratic", "least_squares", "logistic")
DENSE_HESSIAN = 200  # columns by differences; beyond, Lanczos on products
PRODUCTS = 60  # of power iteration
LANCZOS = 300  # products
SMALL = 20  # numbers of which whole Hessians are taken along a line
ON_THE_LINE = 33  # points


@dataclass(frozen=True)
class Evaluated:
    """A value and a gradient, and the sizes of the terms they are sums of: what their rounding errors follow."""

    value: float
    gradient: Array
    value_scale: float
    gradient_scale: float


@dataclass(frozen=True)
class SmoothnessConstants:
    """L and μ of an objective, and what they are worth."""

    L: float
    mu: float  # 0 where nothing is known
    kind: str
    note: str = ""


def structure_of(objective: Any) -> tuple[str, dict[str, Any]]:
    """The formula that an objective names, if it is one of those known here."""
    name, facts = getattr(objective, "structure", ("", {}))
    return (name, facts) if name in (*SMOOTH, "absolute") else ("", {})


def is_convex(objective: Any) -> bool:
    """Whether the formula is convex."""
    name, facts = structure_of(objective)
    if name == "quadratic":
        values = np.linalg.eigvalsh(_symmetric(facts["H"]))
        return bool(values[0] >= -_noise(values))
    return bool(name) and facts["reg"] >= 0


def evaluate(objective: Any, x: Array) -> Evaluated:
    """Value and gradient at x: by the formula where there is one, else by calling."""
    name, facts = structure_of(objective)
    if not name:
        value, gradient = objective(np.array(x))
        g = np.asarray(gradient, dtype=np.float64)
        return Evaluated(float(value), g, abs(float(value)), float(np.linalg.norm(g)))
    x = np.asarray(x, dtype=np.float64)
    if name == "quadratic":
        return _quadratic(facts, x)
    return _mean_over_rows(name, facts, x)


def _quadratic(facts: dict[str, Any], x: Array) -> Evaluated:
    H, b = np.asarray(facts["H"], np.float64), np.asarray(facts["b"], np.float64)
    Hx, c = H @ x, float(facts["c"])
    sizes = np.abs(H) @ np.abs(x) + np.abs(b)
    return Evaluated(
        float(0.5 * x @ Hx - b @ x + c), Hx - b, float(np.abs(x) @ sizes) + abs(c), float(np.linalg.norm(sizes))
    )  # fmt: skip


def _mean_over_rows(name: str, facts: dict[str, Any], w: Array) -> Evaluated:
    X, y, reg = facts["X"], np.asarray(facts["y"], np.float64), float(facts["reg"])
    n = X.shape[0]
    scores = np.asarray(X @ w, dtype=np.float64)
    if name == "least_squares":
        loss, slope = 0.5 * (scores - y) ** 2, scores - y
        sizes = (np.abs(scores) + np.abs(y)) ** 2
    elif name == "logistic":
        loss, slope = np.logaddexp(0.0, -y * scores), -y * expit(-y * scores)
        sizes = loss + np.abs(scores)
    else:
        loss, slope = np.abs(scores - y), np.sign(scores - y)
        sizes = np.abs(scores) + np.abs(y)
    ridge = 0.5 * reg * float(w @ w)
    gradient = np.asarray(X.T @ slope, dtype=np.float64) / n + reg * w
    bare = np.abs(slope) if name != "least_squares" else np.abs(scores) + np.abs(y)
    gradient_scale = np.linalg.norm(np.asarray(abs(X).T @ bare) / n) + reg * np.linalg.norm(w)
    return Evaluated(
        float(loss.mean()) + ridge, gradient, float(sizes.mean()) + ridge, float(gradient_scale)
    )


# --- curvature --------------------------------------------------------------------------------------------------------


def eigenvalues(objective: Any) -> Array | None:
    """Eigenvalues of the Hessian of a formula (of a bound of it, for logistic), rising; None where there is none.

    Where d > n all zeros of XᵀX but one are left out.
    """
    name, facts = structure_of(objective)
    if name not in SMOOTH:
        return None
    if name == "quadratic":
        return np.linalg.eigvalsh(_symmetric(facts["H"]))
    X, reg = facts["X"], float(facts["reg"])
    n, d = X.shape
    G = X.T @ X if d <= n else X @ X.T
    G = np.asarray(G.toarray() if sp.issparse(G) else G, dtype=np.float64)
    values = np.maximum(np.linalg.eigvalsh(G), 0.0) / n
    values = values if d <= n else np.r_[0.0, values]
    return values / 4 + reg if name == "logistic" else values + reg


def _symmetric(H: Any) -> Array:
    H = np.asarray(H, dtype=np.float64)
    return (H + H.T) / 2


def _noise(values: Array) -> float:
    """The size of eigenvalues that are rounding errors of zero."""
    return 8 * len(values) * float(np.finfo(float).eps) * float(np.abs(values).max(initial=0.0))


def evaluation_cost(fit: Fit) -> float:
    """Multiplications of one gradient, as the objective counts them."""
    return float(getattr(fit.objective_, "multiplications", 100 * np.size(fit.x)))


def _cost_of_curvature(fit: Fit) -> float:
    """The eigenvalues of a formula, or products by differences."""
    name, facts = structure_of(fit.objective_)
    if name == "quadratic":
        return 10.0 * len(facts["H"]) ** 3
    if name:
        n, d = facts["X"].shape
        return float(n * d * min(n, d) + 10 * min(n, d) ** 3)
    d = np.size(fit.x)
    return 2 * ON_THE_LINE * (d if d <= SMALL else 12) * evaluation_cost(fit)


@fact(cost=_cost_of_curvature)
def curvature_of(fit: Fit) -> SmoothnessConstants:
    """Find L and μ: proved by the formula, as the objective states them, or measured where the run began and ended."""
    objective = fit.objective_
    name, facts = structure_of(objective)
    values = eigenvalues(objective)
    if values is not None:
        mu = float(facts["reg"]) if name == "logistic" else _pl_of(values)
        return SmoothnessConstants(float(np.abs(values).max()), mu, PROVED)
    stated = getattr(objective, "L", None)
    if stated is not None:
        mu = getattr(objective, "mu", None) or 0.0
        return SmoothnessConstants(
            float(stated), max(float(mu), 0.0), RULE_OF_THUMB, "as f states L"
        )
    found = _curvature_between(objective, np.asarray(fit.get("start_", fit.x)), np.asarray(fit.x))
    note = "L measured on the line from the first to the last point, from below"
    return SmoothnessConstants(1.01 * found, 0.0, RULE_OF_THUMB, note)  # differences err a little


def _curvature_between(objective: Any, start: Array, end: Array) -> float:
    """The largest |eigenvalue| at points of a line: of whole Hessians where d is small, else by power iteration.

    Power iteration is slow where two eigenvalues are close; each point begins with the direction found at the one before.
    """
    v, found = np.random.default_rng(0).standard_normal(end.shape), 0.0
    for share in np.linspace(0, 1, ON_THE_LINE) if (start != end).any() else (1.0,):
        x = (start + share * (end - start)).astype(end.dtype)
        if end.size <= SMALL:
            found = max(found, _lowest_curvature(objective, x).largest)
        else:
            last = share in (0.0, 1.0)
            value, v = power_iteration(objective, x, v, PRODUCTS if last else PRODUCTS // 10)
            found = max(found, value)
    return found


def _pl_of(values: Array) -> float:
    """μ of the PL condition of a quadratic: its least positive eigenvalue, 0 where one is negative."""
    noise = _noise(values)
    if values[0] < -noise:
        return 0.0
    positive = values[values > noise]
    return float(positive[0]) if positive.size else 0.0


def hessian_times(objective: Any, x: Array, v: Array) -> Array:
    """H(x)v by a central difference of gradients."""
    h = np.cbrt(np.finfo(x.dtype).eps) * (1 + float(np.linalg.norm(x))) / float(np.linalg.norm(v))
    step = (h * v).astype(x.dtype)
    ahead, behind = (np.asarray(objective(x + sign * step)[1], np.float64) for sign in (1, -1))
    return (ahead - behind) / (2 * h)


def power_iteration(objective: Any, x: Array, v: Array, most: int) -> tuple[float, Array]:
    """‖Hv‖ after up to `most` products with the Hessian at x, by differences; and the direction."""
    found = 0.0
    for _ in range(most):
        v = v / np.linalg.norm(v)
        Hv = hessian_times(objective, x, v)
        before, found = found, float(np.linalg.norm(Hv))
        if not math.isfinite(found) or found == 0 or abs(found - before) <= 1e-3 * found:
            break
        v = Hv
    return found, v


@dataclass(frozen=True)
class Lowest:
    """The least eigenvalue of the Hessian at a point with its direction, and the largest in size."""

    value: float
    direction: Array
    largest: float
    kind: str


def _cost_of_hessian(fit: Fit) -> float:
    d, (name, facts) = np.size(fit.x), structure_of(fit.objective_)
    if name in SMOOTH:
        return 10.0 * d**3 + (0 if name == "quadratic" else float(facts["X"].shape[0]) * d**2)
    if d > DENSE_HESSIAN:
        return 2 * LANCZOS * evaluation_cost(fit)
    return 10.0 * d**3 + 2 * d * evaluation_cost(fit)


@fact(cost=_cost_of_hessian)
def lowest_curvature(fit: Fit) -> Lowest:
    """Find the least curvature at the end of a run: of the formula's own Hessian, or of differences."""
    x = np.asarray(fit.x)
    many = x.size > DENSE_HESSIAN and structure_of(fit.objective_)[0] not in SMOOTH
    return (_lowest_by_lanczos if many else _lowest_curvature)(fit.objective_, x)


def _lowest_curvature(objective: Any, x: Array) -> Lowest:
    H = _formula_hessian(objective, x)
    kind = PROVED if H is not None else RULE_OF_THUMB
    if H is None:
        columns = np.eye(x.size).reshape(x.size, *x.shape)
        H = np.array([hessian_times(objective, x, e).ravel() for e in columns])
    values, vectors = np.linalg.eigh((H + H.T) / 2)
    return Lowest(
        float(values[0]), vectors[:, 0].reshape(x.shape), float(np.abs(values).max()), kind
    )


def _lowest_by_lanczos(objective: Any, x: Array) -> Lowest:
    """Lanczos on −H until its residual is far below CURVED_DOWN; products by differences."""
    found = largest_eigenvalue(
        lambda v: -hessian_times(objective, x, v.reshape(x.shape)).ravel(),
        x.size,
        most=max(min(LANCZOS, 2**26 // x.size), 20),
        enough=lambda found: found.residual <= 1e-8 * max(abs(found.value), abs(found.lowest)),
    )
    assert found.vector is not None
    largest = max(abs(found.value), abs(found.lowest))
    return Lowest(-found.value, found.vector.reshape(x.shape), largest, RULE_OF_THUMB)


def _formula_hessian(objective: Any, x: Array) -> Array | None:
    name, facts = structure_of(objective)
    if name not in SMOOTH:
        return None
    if name == "quadratic":
        return np.asarray(facts["H"], dtype=np.float64)
    X, reg = facts["X"], float(facts["reg"])
    weights = np.ones(X.shape[0])
    if name == "logistic":
        p = expit(np.asarray(X @ np.asarray(x, np.float64)))
        weights = p * (1 - p)
    G = X.T @ (sp.diags(weights) @ X if sp.issparse(X) else weights[:, None] * X)
    G = np.asarray(G.toarray() if sp.issparse(G) else G, np.float64)
    return G / X.shape[0] + reg * np.eye(X.shape[1])


# --- the minimum ------------------------------------------------------------------------------------------------------


def minimum_between(fit: Fit) -> tuple[float, float]:
    """Bounds of f*: from above the best value seen; from below a formula, μ and the gradient, or what the objective states."""
    trace, objective = fit.trace, fit.objective_
    here = evaluate(objective, fit.x)
    above = min(here.value, float(trace.objective.min()) if trace is not None else math.inf)
    name, _ = structure_of(objective)
    g, mu = here.gradient, curvature_of(fit).mu if name in SMOOTH else 0.0
    if name in ("quadratic", "least_squares") and mu > 0:
        # f(x) − f* = ½ gᵀH⁺g, and both sides are as exact as H
        H = _formula_hessian(objective, np.asarray(fit.x))
        exact = here.value - 0.5 * float(g @ np.linalg.lstsq(H, g)[0])  # type: ignore[arg-type]
        return exact, min(exact, above)
    if name == "logistic" and mu > 0:
        below = here.value - float(g @ g) / (2 * mu)  # ½‖∇f‖² ≥ μ(f − f*)
    elif name in ("least_squares", "logistic", "absolute"):
        below = 0.0
    elif name == "quadratic":
        below = -math.inf
    else:
        stated = getattr(objective, "minimum", None)
        below = -math.inf if stated is None else float(stated)
    return min(below, above), above
