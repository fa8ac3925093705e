"""Searches for points that claims about completions ask for; what is found here is checked there.

lowest_on_line       how far to go along a direction that curves down
further_factor       factors with a lower objective, or whose residual gives a better lower bound
singular_triplets    leading ones of a matrix, by ARPACK

Along any line the factored objective is a polynomial of degree 4. Five numbers describe it, so a direction is followed to the
very bottom of the line, without a step size. For people with factors of their own, `escape` leaves a saddle that way:

    >>> A = Observed.of(np.diag([3.0, 1.0]))
    >>> saddle = objective.Factored.of(A, np.zeros((2, 1)), np.zeros((2, 1)), reg=0.5)
    >>> better = escape(A, np.zeros((2, 1)), np.zeros((2, 1)), reg=0.5)
    >>> round(saddle.objective - better.objective, 6)                                           # ½(σ₁ − λ)²
    3.125
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse.linalg import svds

from lemmata.audit.completion import factored_objective as objective
from lemmata.audit.completion.optimality.curvature import change_of, downward
from lemmata.audit.completion.optimality.global_optimum import SWEEPS, Top, duality_gap
from lemmata.audit.kernel.claims import Fit
from lemmata.completion.observed import Observed

Array = np.ndarray


def lowest_on_line(fit: Fit, problem: objective.Factored, d: objective.Factors) -> float:
    """Return the step t that minimises F(at + t·d)."""
    return line_search(problem, d)[0]


def further_factor(fit: Fit, problem: objective.Factored, top: Top) -> objective.Factors | None:
    """Return the point with the factor that σ₁ says is missing, after some sweeps; None where there is no room for it."""
    if not objective.fit_in_memory(problem):
        return None
    try:
        problem = add_factor(problem, top)
        for _ in range(SWEEPS):
            problem = sweep(problem)
    except objective.Singular:  # λ is a rounding error beside the data
        return None
    return problem.at


def singular_triplets(fit: Fit, M: Any, k: int) -> tuple[Array, Array, Array]:
    """Return P (n × k), s and Q (m × k) with MQ = Ps, of the k largest singular values."""
    P, s, Qt = svds(M, k, v0=np.random.default_rng(0).standard_normal(min(M.shape)))
    return P, s, Qt.T


# --- on a line --------------------------------------------------------------------------------------------------------


def along(problem: objective.Factored, d: objective.Factors) -> Array:
    """Return the 5 coefficients of t ↦ F(at + t·d), constant first: a polynomial of degree 4 (CIL (2.32))."""
    e, q = change_of(problem, d), objective.products_at(problem.indptr, problem.indices, d.U, d.V)
    r = problem.target - problem.fitted
    coefficients = 0.5 * _square((r, -e, -q), problem.weights)
    if problem.implicit:  # entries on Ω have weight 1 twice
        coefficients -= 0.5 * _square((problem.fitted, e, q), None)
    if problem.everywhere:
        (U, V, _, _), (dU, dV, _, _) = problem.at, d
        left = (U.T @ U, U.T @ dU + dU.T @ U, dU.T @ dU)
        right = (V.T @ V, V.T @ dV + dV.T @ V, dV.T @ dV)
        for p, G in enumerate(left):
            for s, K in enumerate(right):
                coefficients[p + s] += 0.5 * problem.everywhere * np.vdot(G, K)
    regs = (problem.row_reg, problem.column_reg, *problem.bias_regs)
    for reg, x, y in zip(regs, problem.at, d, strict=True):
        scale = reg[:, None] if x.ndim == 2 else reg
        coefficients[:3] += 0.5 * np.array(
            [np.vdot(scale * x, x), 2 * np.vdot(scale * x, y), np.vdot(scale * y, y)]
        )
    return coefficients


def _square(parts: tuple[Array, Array, Array], weights: Array | None) -> Array:
    """Return the coefficients of Σ w (p₀ + t p₁ + t² p₂)²."""
    x, y, z = parts
    wx, wy, wz = parts if weights is None else (weights * part for part in parts)
    return np.array([wx @ x, 2 * (wx @ y), wy @ y + 2 * (wx @ z), 2 * (wy @ z), wz @ z])


def line_search(problem: objective.Factored, d: objective.Factors) -> tuple[float, float]:
    """Return the step t that minimises F(at + t·d) over the whole line, and F there."""
    coefficients = along(problem, d)
    slope = coefficients[1:] * np.arange(1, 5)
    scale = np.abs(slope).max()
    stationary = (
        np.polynomial.polynomial.polyroots(np.trim_zeros(slope, "b")) if scale > 0 else np.zeros(0)
    )
    # a complex root's real part is a point of the line too: it can only lose
    candidates = np.r_[0.0, stationary.real]
    values = np.polynomial.polynomial.polyval(candidates, coefficients)
    best = int(np.argmin(values))
    return float(candidates[best]), float(values[best])


def escape(
    observed: Observed,
    U: Any,
    V: Any,
    row_bias: Any = None,
    column_bias: Any = None,
    *,
    mean: float = 0.0,
    reg: float,
    weighted: float = False,
    biased: bool | None = None,
    rng: int = 0,
    **more: Any,
) -> objective.Factored:
    """Go from a saddle to a lower point, along the direction of most negative curvature: its `.at` holds U, V, b, c.

    Where no curvature is negative, the point itself comes back. `more` goes to `Factored.of` (scales, feedback, alpha).
    """
    if biased is None:
        biased = row_bias is not None
    offsets = {"mean": mean, "row_bias": row_bias, "column_bias": column_bias, "biased": biased}
    problem = objective.Factored.of(observed, U, V, reg=reg, weighted=weighted, **offsets, **more)
    found = downward(problem, rng=rng)
    if found.value >= 0:
        return problem
    step, after = line_search(problem, found.direction)
    lower = after < problem.objective
    return problem.move(problem.at.move(step, found.direction)) if lower else problem


# --- more factors -----------------------------------------------------------------------------------------------------


def add_factor(problem: objective.Factored, top: Top | None = None) -> objective.Factored:
    """Return a point with one factor more and a lower objective: the one that the dual names, at its best length.

    With the pair (p, q) of σ₁ > 1 the new matrix X + t·pqᵀ costs t more and gains tσ₁ − ½t²Σ w(pqᵀ)²: a line in t = length².
    Where σ₁ ≤ 1 no factor of any direction helps, and the point itself comes back.
    """
    top = duality_gap(problem).top if top is None else top
    if top.sigma <= 1:
        return problem
    U, V, b, c = problem.at
    wider = problem.move(
        objective.Factors(np.c_[U, np.zeros(len(U))], np.c_[V, np.zeros(len(V))], b, c)
    )
    d = objective.Factors(*(np.zeros_like(part) for part in wider.at))
    d.U[:, -1], d.V[:, -1] = top.left, top.right
    step, after = line_search(wider, d)
    return wider.move(wider.at.move(step, d)) if after < problem.objective else problem


def sweep(problem: objective.Factored) -> objective.Factored:
    """Return the point after a sweep of alternating least squares: a Newton step on the rows, then on the columns."""
    for side in (0, 1):
        block, gradient = objective.Side.of(problem, side), problem.gradient
        step = block.direction(
            block.scale_gradient(objective.join(problem, gradient[side], gradient[side + 2]))
        )
        d, own = objective.split(problem, step)
        parts = list(problem.at)
        parts[side], parts[side + 2] = parts[side] - d, parts[side + 2] - own
        problem = problem.move(objective.Factors(*parts))
    return problem
