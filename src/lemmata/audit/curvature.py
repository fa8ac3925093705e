"""Minimum or saddle? The curvature of the factored objective, the way out of a saddle, and the distance to the best matrix.

At a first-order point of F(U, V, b, c) (factored.py) the Hessian H decides. It is never formed: Lanczos needs products H d.

**Gauge.** UVᵀ does not change under U → UM, V → VM⁻ᵀ, nor F under rotations M (CIL Prop. 1.2.3): the directions (UM, VM) with
a skew M, k(k−1)/2 of them, are flat at every first-order point. With λ = 0 all (UM, −VMᵀ) are. They are projected out.

**Escape.** Along any line F is a polynomial of degree 4. Five numbers describe it, so a direction of negative curvature is
followed to the very bottom of the line, without a step size (CIL 2.4.3 ends where this begins).

    >>> from lemmata.completion.observed import Observed
    >>> A = Observed.of(np.diag([3.0, 1.0]))
    >>> saddle = Factored.of(A, np.zeros((2, 1)), np.zeros((2, 1)), reg=0.5)
    >>> round(smallest_curvature(saddle).value, 6)                                            # λ − σ₁(A)
    -2.5
    >>> better = escape(A, np.zeros((2, 1)), np.zeros((2, 1)), reg=0.5)
    >>> round(saddle.objective - better.objective, 6)                                         # ½(σ₁ − λ)²
    3.125
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lemmata.audit.coupling import (
    PRODUCTS,
    RISK,
    Curvature,
    Singular,
    fits_in_memory,
    products_for,
    sweep,
    weakest_curvature,
)
from lemmata.audit.factored import Factored, Factors
from lemmata.completion.observed import Observed
from lemmata.core.loop import MaxSteps, Solution, Stop, run
from lemmata.linalg.lanczos import LanczosAlgorithm, lanczos
from lemmata.linalg.operators import Operator

Array = np.ndarray
ERROR = 0.01  # of σ₁, beyond which Lanczos errs with probability RISK at most
DENSE = 2**20  # numbers in a matrix up to which its largest singular value is found by LAPACK


def gauge_part(problem: Factored, d: Factors) -> Factors:
    """The gauge direction nearest to d: a k × k Sylvester equation, whatever n and m.

    λ > 0: min over skew M of ‖d_U − UM‖² + ‖d_V − VM‖² is GM + MG = K − Kᵀ, G = UᵀU + VᵀV, K = Uᵀd_U + Vᵀd_V.
    λ = 0: min over all M of ‖d_U − UM‖² + ‖d_V + VMᵀ‖² is (UᵀU)M + M(VᵀV) = Uᵀd_U − d_VᵀV.
    """
    U, V = problem.at.U, problem.at.V
    nothing = {"b": np.zeros_like(d.b), "c": np.zeros_like(d.c)}
    if problem.penalised:
        G, K = U.T @ U + V.T @ V, U.T @ d.U + V.T @ d.V
        M = _sylvester(G, G, K - K.T)
        return Factors(U @ M, V @ M, **nothing)
    M = _sylvester(U.T @ U, V.T @ V, U.T @ d.U - d.V.T @ V)
    return Factors(U @ M, -V @ M.T, **nothing)


def _sylvester(A: Array, B: Array, C: Array) -> Array:
    """The shortest M with AM + MB = C for positive semi-definite A and B."""
    (a, P), (b, Q) = np.linalg.eigh(A), np.linalg.eigh(B)
    sums = a[:, None] + b
    keep = sums > len(A) * np.finfo(float).eps * max(sums.max(initial=0.0), 0.0)
    return P @ (np.divide(P.T @ C @ Q, sums, out=np.zeros_like(sums), where=keep)) @ Q.T


def as_vector(problem: Factored, d: Factors) -> Array:
    return np.concatenate([part.ravel() for part in (d if problem.biased else d[:2])])


def as_direction(problem: Factored, y: Array) -> Factors:
    (n, m), k = problem.shape, problem.rank
    U, V, b, c = np.split(
        y if problem.biased else np.r_[y, np.zeros(n + m)], np.cumsum([n * k, m * k, n])
    )
    return Factors(U.reshape(n, k), V.reshape(m, k), b, c)


def smallest_curvature(
    problem: Factored, *, tol: float = 1e-8, max_iter: int = 300, rng: int = 0
) -> Curvature:
    """The smallest eigenvalue of the Hessian of F itself, in directions that are not gauge, by Lanczos.

    Where the question is only whether it is negative, `coupling.weakest_curvature` answers it with fewer products.

    Parameters
    ----------
    tol : float
        The error to stop at, as a share of the largest eigenvalue seen; max_iter bounds the products with H.
    """
    rows, columns = problem.row_curvatures()
    lift = max(float(rows.max(initial=0.0)), float(columns.max(initial=0.0)), 1.0)
    # rows that nothing depends on are no more interesting than gauge directions: both are lifted out of the way
    idle = [part == 0 for part in _dependence(problem)]
    dead = as_vector(
        problem, Factors(*(np.tile(part[:, None], problem.rank) for part in idle), *idle)
    ).astype(float)

    def times(Y: Array) -> Array:
        out = np.empty_like(Y)
        for i, y in enumerate(Y.T):
            d = as_direction(problem, y)
            free = y - as_vector(problem, gauge_part(problem, d))
            curved = problem.curve(as_direction(problem, free))
            fixed = as_vector(problem, curved) - as_vector(problem, gauge_part(problem, curved))
            out[:, i] = fixed + lift * (y - free + dead * free)
        return out

    size = len(dead)
    H = Operator((size, size), np.float64, times)
    found = lanczos(H, 1, which="bottom", tol=tol, max_iter=max_iter, rng=rng)
    d = as_direction(problem, found.vectors[:, 0])
    top = lanczos(H, 1, tol=0.1, max_iter=20, rng=rng).values[0]
    scale = max(abs(float(found.values[0])), float(top))
    return Curvature(float(found.values[0]), d, float(found.residuals[0]), len(found.trace), scale)


def _dependence(problem: Factored) -> tuple[Array, Array]:
    """How much F depends on each row and column: 0 where there is neither an entry nor a penalty."""
    if problem.implicit:
        return tuple(np.ones(size) for size in problem.shape)  # type: ignore[return-value]
    columns = np.bincount(problem.indices, minlength=problem.shape[1])
    return np.diff(problem.indptr) + problem.row_reg, columns + problem.column_reg


# --- going on ---------------------------------------------------------------------------------------------------------


def line_search(problem: Factored, d: Factors) -> tuple[float, float]:
    """The step t that minimises F(at + t·d) over the whole line, and F there."""
    coefficients = problem.along(d)
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


def downward(problem: Factored, margin: float = 1e-3, rng: int = 0) -> Curvature:
    """The smallest curvature in units of what a row feels alone or, where that can be zero, of the largest eigenvalue."""
    try:
        return weakest_curvature(problem, margin=margin, rng=rng)
    except Singular:
        found = smallest_curvature(problem, tol=margin / 4, rng=rng)
        return Curvature(
            found.value / found.scale,
            found.direction,
            found.error / found.scale,
            found.products,
            found.scale,
        )


def escape(
    observed: Observed,
    U: Any,
    V: Any,
    row_bias: Any = None,
    column_bias: Any = None,
    *,
    mean: float = 0.0,
    reg: float,
    weighted: bool = False,
    biased: bool | None = None,
    rng: int = 0,
    **more: Any,
) -> Factored:
    """From a saddle to a lower point, along the direction of most negative curvature: its `.at` holds U, V, b, c.

    Where no curvature is negative, the point itself comes back. `more` goes to `Factored.of` (scales, feedback, alpha).
    """
    if biased is None:
        biased = row_bias is not None
    problem = Factored.of(
        observed,
        U,
        V,
        reg=reg,
        weighted=weighted,
        mean=mean,
        row_bias=row_bias,
        column_bias=column_bias,
        biased=biased,
        **more,
    )
    found = downward(problem, rng=rng)
    if found.value >= 0:
        return problem
    step, after = line_search(problem, found.direction)
    return (
        problem.moved(problem.at.moved(step, found.direction))
        if after < problem.objective
        else problem
    )


# --- the best matrix of any rank --------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class DualityGap:
    """F at a point against a lower bound for matrices of every rank."""

    primal: float
    dual: float
    sigma: float  # σ₁(α^-½ Y β^-½), in units of λ: at most 1 at the optimum
    left: Array  # (n,) its singular vectors, divided by √α and √β: the factor that is missing if sigma > 1
    right: Array  # (m,)
    products: int  # of Lanczos; 0: by LAPACK

    @property
    def gap(self) -> float:
        return max(self.primal - self.dual, 0.0)

    @property
    def doubt(self) -> str:
        """What is not certain about sigma: Lanczos from a random start may miss it (coupling.py)."""
        return (
            f" by Lanczos; off by over 1 % with probability below {RISK:.0e}"
            if self.products
            else ""
        )


class Reached(Stop):
    """Lanczos has converged, after enough products to know that it did not miss the largest eigenvalue."""

    def __init__(self, products: int):
        self.products = products

    def reason(self, solution: Solution) -> str | None:
        state = solution.state
        settled = float(state.bounds[0]) <= 1e-8 * state.scale
        return "converged" if settled and state.products >= self.products else None


def duality_gap(problem: Factored, rng: int = 0) -> DualityGap:
    """F, and the dual objective at the best feasible multiple of Y (see claims.py)."""
    sigma, p, q, products = _leading(problem, rng)
    primal, dual = problem.objective, 0.0  # 0 is D(0)
    g, h = _dual_terms(problem)
    if h > 0:
        most = 1 / sigma if sigma > 0 else math.inf
        theta = min(max(g / h, 0.0), most)
        dual = theta * g - 0.5 * theta**2 * h
    return DualityGap(primal, dual, sigma, p, q, products)


def tightened(
    problem: Factored, gap: DualityGap, goal: float, rounds: int = 6, sweeps: int = 3
) -> DualityGap:
    """The gap at the same point with a better lower bound, if one is needed and in reach.

    Scaling Y down by σ₁ wastes about (σ₁ − 1)λ‖X‖_*, even if all that is missing is one small factor. Any Y will do for a
    bound: so factors are added, the result is sweep, and its residual is tried, until the gap is below `goal` of the objective,
    or a matrix is found that is better by more, or a round does not bring the goal nearer by its share.
    """
    point = problem
    for left in range(rounds, 0, -1):
        missing = gap.gap - goal * gap.primal
        if (
            missing <= 0
            or gap.primal - point.objective > goal * gap.primal
            or not fits_in_memory(point)
        ):
            break
        point = add_factor(point)
        try:
            for _ in range(sweeps):
                point = sweep(point)
        except Singular:  # λ is a rounding error beside the data
            break
        better = duality_gap(point).dual
        if better < gap.dual + missing / left:
            return replace(gap, dual=max(gap.dual, better))
        gap = replace(gap, dual=better)
    return gap


def _dual_terms(problem: Factored) -> tuple[float, float]:
    """⟨A, Y⟩ and the square in D(θY) = θ⟨A, Y⟩ − ½θ²(Σ y²/w + Σ(Y1)²/α + Σ(Yᵀ1)²/β)."""
    error = problem.target - problem.fitted
    w = 1.0 if problem.weights is None else problem.weights
    g, h = float(problem.target @ (w * error)), 2 * problem.loss
    if problem.biased:
        for axis, reg in ((1, problem.row_reg), (0, problem.column_reg)):
            sums = problem.S.sum(axis=axis)
            # reg = 0 only where there is no entry: sums = 0
            h += float(np.sum(sums[reg > 0] ** 2 / reg[reg > 0]))
    return g, h


def _leading(problem: Factored, rng: int) -> tuple[float, Array, Array, int]:
    """σ₁(α^-½ Y β^-½) and its vectors over √α and √β; 0 where a row or column has no penalty, as Y is 0 there."""
    (n, m), (U, V, _, _) = problem.shape, problem.at
    r, s = (
        np.divide(1.0, np.sqrt(reg), out=np.zeros(len(reg)), where=reg > 0)
        for reg in (problem.row_reg, problem.column_reg)
    )
    thin = (r[:, None] * U, s[:, None] * V) if problem.implicit else None

    def times(X: Array) -> Array:
        Y = r[:, None] * (problem.S @ (s[:, None] * X))
        return Y if thin is None else Y - thin[0] @ (thin[1].T @ X)

    def transposed(X: Array) -> Array:
        Y = s[:, None] * (problem.S.T @ (r[:, None] * X))
        return Y if thin is None else Y - thin[1] @ (thin[0].T @ X)

    if n * m <= DENSE:
        P, values, Qt = np.linalg.svd(times(np.eye(m)), full_matrices=False)
        return float(values[0]), r * P[:, 0], s * Qt[0], 0
    # v ↦ MᵀMv on the shorter side
    short, tall = (times, transposed) if m <= n else (transposed, times)
    square = Operator((min(n, m),) * 2, np.float64, lambda X: tall(short(X)))
    algorithm, stop = (
        LanczosAlgorithm(1, tol=0.0, max_dim=PRODUCTS + 2),
        Reached(products_for(ERROR, min(n, m))),
    )
    found = run(algorithm, square, stop=stop | MaxSteps(PRODUCTS), rng=rng)
    x = found.attributes["vectors"]
    y = short(x)
    sigma = float(np.linalg.norm(y))
    y = (y / sigma if sigma > 0 else y)[:, 0]
    left, right = (y, x[:, 0]) if m <= n else (x[:, 0], y)
    return (
        math.sqrt(sigma**2 + float(found.state.bounds[0])),
        r * left,
        s * right,
        found.state.products,
    )


def add_factor(problem: Factored) -> Factored:
    """One rank more and a lower objective: the missing factor as the dual certificate names it, at its best length.

    With the pair (p, q) of σ₁ > 1 the new matrix X + t·pqᵀ costs t more and gains tσ₁ − ½t²Σ w(pqᵀ)²: a line in t = length².
    Where σ₁ ≤ 1 no factor of any direction helps, and the point itself comes back.
    """
    found = duality_gap(problem)
    if found.sigma <= 1:
        return problem
    U, V, b, c = problem.at
    wider = problem.moved(Factors(np.c_[U, np.zeros(len(U))], np.c_[V, np.zeros(len(V))], b, c))
    d = Factors(
        np.zeros_like(wider.at.U), np.zeros_like(wider.at.V), np.zeros_like(b), np.zeros_like(c)
    )
    d.U[:, -1], d.V[:, -1] = found.left, found.right
    step, after = line_search(wider, d)
    return wider.moved(wider.at.moved(step, d)) if after < problem.objective else problem
