"""Minimum or saddle? The smallest curvature of the factored objective, modulo gauge.

At a first-order point of F(U, V, b, c) (factored_objective.py) the Hessian H decides. It is never formed: Lanczos needs
products H d.

**Units.** With the blocks D = LLᵀ that each row feels alone (factored_objective.py), L⁻¹HL⁻ᵀ = [I K; Kᵀ I]: K says how rows and
columns pull at each other. The eigenvalues are 1 ± σ(K), so the smallest is 1 − σ₁(K): H has a negative eigenvalue if and only
if σ₁ > 1, and σ₁² is the factor by which the error of ALS shrinks per sweep. What CIL 2.4.3 leaves open is one singular value
of a matrix on the shorter side of the data.

**Gauge.** UVᵀ does not change under U → UM, V → VM⁻ᵀ, nor F under rotations M (CIL Prop. 1.2.3): the directions (UM, VM) with
a skew M, k(k−1)/2 of them, are flat at every first-order point. With λ = 0 all (UM, −VMᵀ) are. They are projected out.

    >>> from lemmata.completion.observed import Observed
    >>> A = Observed.of(np.diag([3.0, 1.0]))
    >>> saddle = objective.Factored.of(A, np.zeros((2, 1)), np.zeros((2, 1)), reg=0.5)
    >>> round(weakest_curvature(saddle).value, 6), round(smallest_curvature(saddle).value, 6)   # 1 − σ₁(A)/λ and λ − σ₁(A)
    (-5.0, -2.5)
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from lemmata.audit.completion import factored_objective as objective
from lemmata.audit.kernel.lanczos import Ritz, largest_eigenvalue

Array = np.ndarray
PRODUCTS = 190  # at most: they leave σ₁ within 0.1 % at a size of 10⁴
UNSCALED_PRODUCTS = 400  # with H itself, whose spectrum is wider


@dataclass(frozen=True, eq=False)
class Curvature:
    """The smallest eigenvalue of a Hessian, modulo gauge, as far as Lanczos found it."""

    value: float  # a Rayleigh quotient: the true one is not larger, whatever was missed
    direction: objective.Factors  # in which F curves so
    error: float  # how much smaller the true one may be, but for the RISK of lanczos.py
    products: int
    scale: float = 1.0  # the largest eigenvalue seen


# --- in units of what each row feels alone ----------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Gauge:
    """Gauge directions of one side, as k × k matrices M for which the Lᵀ F M are orthonormal."""

    side: objective.Side
    matrices: Array  # (g, k²)

    @classmethod
    def of(cls, side: objective.Side, skew: bool) -> Gauge:
        """The directions F M, for all skew M or for all M."""
        F = side.factors
        n, k = F.shape
        D = np.matmul(side.lower, side.lower.transpose(0, 2, 1))[:, :k, :k]
        pairs = F[:, :, None] * F[:, None, :]
        gram = (pairs.reshape(n, -1).T @ D.reshape(n, -1)).reshape(k, k, k, k)
        # ⟨F M, D F M′⟩ = Σ f_a M_ab D_bd M′_cd f_c
        gram = gram.transpose(0, 2, 1, 3).reshape(k * k, k * k)
        basis = np.eye(k * k)
        if skew:
            i, j = np.triu_indices(k, 1)
            basis = basis[i * k + j] - basis[j * k + i]
        values, vectors = np.linalg.eigh(basis @ gram @ basis.T)
        keep = values > 1e-12 * values.max(initial=0.0)
        return cls(side, (vectors[:, keep] / np.sqrt(values[keep])).T @ basis)

    def remove_from(self, Y: Array) -> Array:
        L, F, k = self.side.lower, self.side.factors, self.side.factors.shape[1]
        overlap = F.T @ np.matmul(L, Y[:, :, None])[:, :k, 0]
        move = np.zeros_like(Y)
        move[:, :k] = F @ (self.matrices.T @ (self.matrices @ overlap.ravel())).reshape(k, k)
        return Y - np.matmul(L.transpose(0, 2, 1), move[:, :, None])[:, :, 0]


def weakest_curvature(
    problem: objective.Factored, *, margin: float = 1e-3, most: int = PRODUCTS, rng: int = 0
) -> Curvature:
    """1 − σ₁(K): the smallest curvature of F modulo gauge, where 1 is what a row feels alone. Negative: a saddle.

    Parameters
    ----------
    margin : float
        Lanczos goes on until the value is known to lie above −margin, or below it, or for `most` products with KᵀK.

    Raises
    ------
    Singular
        If a row's own curvature is zero somewhere; `smallest_curvature` needs none.
    """
    (n, m), p = problem.shape, problem.rank + problem.biased
    if not objective.fit_in_memory(problem):
        raise MemoryError(f"the blocks of {n:,} × {m:,} at rank {problem.rank} need over 1 GB")
    sides = objective.Side.of(problem, 0), objective.Side.of(problem, 1)
    own, other = (0, 1) if n < m else (1, 0)
    short, long = sides[own], sides[other]
    gauge, size = Gauge.of(short, skew=problem.penalised), min(n, m) * p

    def times(y: Array) -> Array:
        x = objective.pull(problem, other, short.direction(gauge.remove_from(y.reshape(-1, p))))
        x = objective.pull(problem, own, long.direction(long.scale_gradient(x)))
        return gauge.remove_from(short.scale_gradient(x)).ravel()

    def enough(found: Ritz) -> bool:
        value, error = _below_one(found)
        # a better direction is worth a few products more
        down = value < -margin and found.residual <= 0.02 * found.value
        return down or value - error >= -margin

    found = largest_eigenvalue(times, size, most=most, enough=enough, rng=rng)
    assert found.vector is not None
    # the random start had a part there
    y = gauge.remove_from(found.vector.reshape(-1, p))
    y = short.direction(y / max(float(np.linalg.norm(y)), np.finfo(float).tiny))
    seen = long.scale_gradient(objective.pull(problem, other, y))
    sigma = float(np.linalg.norm(seen))
    x = -long.direction(seen) / max(sigma, np.finfo(float).tiny)
    error = _below_one(replace(found, value=sigma**2))[1]
    U, V = (x, y) if own else (y, x)
    (dU, db), (dV, dc) = objective.split(problem, U), objective.split(problem, V)
    return Curvature(1 - sigma, objective.Factors(dU, dV, db, dc), error, found.products, 1 + sigma)


def _below_one(found: Ritz) -> tuple[float, float]:
    """1 − σ and how much less it may be, from Lanczos' value for σ²."""
    square = max(found.value, 0.0)
    sigma = math.sqrt(square)
    return 1 - sigma, math.sqrt(square + found.largest_excess(positive=True)) - sigma


# --- in the units of F ------------------------------------------------------------------------------------------------


def change_of(problem: objective.Factored, d: objective.Factors) -> Array:
    """Return dx_ij = du_iᵀv_j + u_iᵀdv_j + db_i + dc_j on Ω."""
    U, V = problem.at.U, problem.at.V
    both = objective.products_at(
        problem.indptr, problem.indices, np.hstack([d.U, U]), np.hstack([V, d.V])
    )
    return both + problem.offsets_at(d.b, d.c)


def curve(problem: objective.Factored, d: objective.Factors) -> objective.Factors:
    """Return H d, the Hessian of F times a direction. For k = 1, all entries known and λ = 0 it is CIL (2.18)."""
    U, V = problem.at.U, problem.at.V
    dx = change_of(problem, d)
    T = problem.on_entries(dx if problem.beyond is None else problem.beyond * dx)
    hU = T @ V - problem.S @ d.V + problem.row_reg[:, None] * d.U
    hV = T.T @ U - problem.S.T @ d.U + problem.column_reg[:, None] * d.V
    if w := problem.everywhere:
        hU += w * (d.U @ (V.T @ V) + U @ (d.V.T @ V + V.T @ d.V))
        hV += w * (d.V @ (U.T @ U) + V @ (d.U.T @ U + U.T @ d.U))
    if not problem.biased:
        return objective.Factors(hU, hV, np.zeros_like(d.b), np.zeros_like(d.c))
    alpha, beta = problem.bias_regs
    return objective.Factors(hU, hV, T.sum(axis=1) + alpha * d.b, T.sum(axis=0) + beta * d.c)


def gauge_part(problem: objective.Factored, d: objective.Factors) -> objective.Factors:
    """The gauge direction nearest to d: a k × k Sylvester equation, whatever n and m.

    λ > 0: min over skew M of ‖d_U − UM‖² + ‖d_V − VM‖² is GM + MG = K − Kᵀ, G = UᵀU + VᵀV, K = Uᵀd_U + Vᵀd_V.
    λ = 0: min over all M of ‖d_U − UM‖² + ‖d_V + VMᵀ‖² is (UᵀU)M + M(VᵀV) = Uᵀd_U − d_VᵀV.
    """
    U, V = problem.at.U, problem.at.V
    nothing = {"b": np.zeros_like(d.b), "c": np.zeros_like(d.c)}
    if problem.penalised:
        G, K = U.T @ U + V.T @ V, U.T @ d.U + V.T @ d.V
        M = _sylvester(G, G, K - K.T)
        return objective.Factors(U @ M, V @ M, **nothing)
    M = _sylvester(U.T @ U, V.T @ V, U.T @ d.U - d.V.T @ V)
    return objective.Factors(U @ M, -V @ M.T, **nothing)


def _sylvester(A: Array, B: Array, C: Array) -> Array:
    """The shortest M with AM + MB = C for positive semi-definite A and B."""
    (a, P), (b, Q) = np.linalg.eigh(A), np.linalg.eigh(B)
    sums = a[:, None] + b
    keep = sums > len(A) * np.finfo(float).eps * max(sums.max(initial=0.0), 0.0)
    return P @ (np.divide(P.T @ C @ Q, sums, out=np.zeros_like(sums), where=keep)) @ Q.T


def as_vector(problem: objective.Factored, d: objective.Factors) -> Array:
    return np.concatenate([part.ravel() for part in (d if problem.biased else d[:2])])


def as_direction(problem: objective.Factored, y: Array) -> objective.Factors:
    (n, m), k = problem.shape, problem.rank
    y = y if problem.biased else np.r_[y, np.zeros(n + m)]
    U, V, b, c = np.split(y, np.cumsum([n * k, m * k, n]))
    return objective.Factors(U.reshape(n, k), V.reshape(m, k), b, c)


def smallest_curvature(
    problem: objective.Factored, *, tol: float = 1e-8, most: int = UNSCALED_PRODUCTS, rng: int = 0
) -> Curvature:
    """The smallest eigenvalue of the Hessian of F itself, in directions that are not gauge.

    Where the question is only whether it is negative, `weakest_curvature` answers it with fewer products.

    Parameters
    ----------
    tol : float
        Lanczos goes on until an eigenvalue lies within this share of the largest one, and the error is as small, or for `most`
        products with H.
    """
    # where rows feel no curvature, H is as large as the residual
    lift = max(
        float(np.linalg.norm(problem.S.data)) or 1.0,
        *(float(part.max(initial=0.0)) for part in problem.row_curvatures()),
    )
    # rows that nothing depends on are no more interesting than gauge directions: both are lifted out of the way
    idle = _idle(problem)
    wide = (np.tile(part[:, None], problem.rank) for part in idle)
    dead = as_vector(problem, objective.Factors(*wide, *idle)).astype(float)

    def times(y: Array) -> Array:
        """−H y, its gauge part and what is idle replaced by −lift·y."""
        free = y - as_vector(problem, gauge_part(problem, as_direction(problem, y)))
        curved = curve(problem, as_direction(problem, free))
        fixed = as_vector(problem, curved) - as_vector(problem, gauge_part(problem, curved))
        return -(fixed + lift * (y - free + dead * free))

    def enough(found: Ritz) -> bool:
        width = found.value - found.lowest
        return max(found.residual, found.largest_excess()) <= tol * width

    found = largest_eigenvalue(times, len(dead), most=most, enough=enough, rng=rng)
    assert found.vector is not None
    d, scale = as_direction(problem, found.vector), max(abs(found.value), -found.lowest)
    return Curvature(-found.value, d, found.largest_excess(), found.products, scale)


def _idle(problem: objective.Factored) -> list[Array]:
    """The rows and columns that F does not depend on: those with neither an entry nor a penalty."""
    if problem.implicit:
        return [np.zeros(size, bool) for size in problem.shape]
    columns = np.bincount(problem.indices, minlength=problem.shape[1])
    return [np.diff(problem.indptr) + problem.row_reg == 0, columns + problem.column_reg == 0]


def downward(
    problem: objective.Factored, margin: float = 1e-3, most: int = PRODUCTS, rng: int = 0
) -> Curvature:
    """Return the smallest curvature in units of what a row feels alone; where that can be zero, of the largest one."""
    try:
        return weakest_curvature(problem, margin=margin, most=most, rng=rng)
    except objective.Singular:
        found = smallest_curvature(problem, tol=margin / 4, rng=rng)
        if found.scale == 0:  # H = 0: factors and residuals are all zero, and nothing curves
            return found
        return replace(found, value=found.value / found.scale, error=found.error / found.scale)
