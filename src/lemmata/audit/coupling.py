"""Minimum or saddle, decided fast: the Hessian in units of what each row would feel alone.

Let D hold the diagonal blocks of the Hessian H of F (factored.py): for row i, with z_j = (v_j, 1) where there are biases,

    D_i = Σ_j w_ij z_j z_jᵀ + α_i I = L_i L_iᵀ,          L⁻¹ H L⁻ᵀ = [ I  K ; Kᵀ  I ]

With V fixed each row is a least-squares problem, and D_i is its curvature (CIL (2.35)); K says how rows and columns pull at
each other. The eigenvalues are 1 ± σ(K), so the smallest is 1 − σ₁(K): H has a negative eigenvalue if and only if σ₁ > 1, and
σ₁² is the factor by which the error of ALS shrinks per sweep. Gauge directions (curvature.py) have σ = 1 and are projected out.
What CIL 2.4.3 leaves open is one singular value of a matrix on the shorter side of the data.

From a random start, Lanczos with q products misses more than a share ε of σ₁² with probability at most 1.648 √N e^(−√ε(2q−1))
(Kuczyński & Woźniakowski 1992, Theorem 4.1), whatever the spectrum: so its answer has an error bar with a known risk.

    >>> A = Observed.of(np.diag([3.0, 1.0]))
    >>> saddle = Factored.of(A, np.zeros((2, 1)), np.zeros((2, 1)), reg=0.5)
    >>> round(weakest_curvature(saddle).value, 6)                                            # 1 − σ₁(A)/λ
    -5.0
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from lemmata.audit.factored import Factored, Factors, products_at
from lemmata.completion.observed import Observed  # noqa: F401  (the example above)
from lemmata.core.loop import MaxSteps, Solution, Stop, run
from lemmata.linalg.lanczos import LanczosAlgorithm
from lemmata.linalg.operators import Operator

Array = np.ndarray
RISK = 1e-4  # that Lanczos errs by more than the error it states
PRODUCTS = 190  # with K and Kᵀ at most; beyond 200 Lanczos would restart, and its bound not hold
ROOM = 2**27  # numbers in all blocks: 1 GB


@dataclass(frozen=True, eq=False)
class Curvature:
    """The smallest eigenvalue of a Hessian, modulo gauge, as far as Lanczos found it."""

    value: float  # a Rayleigh quotient: the true one is not larger, whatever was missed
    direction: Factors  # in which F curves so
    error: float  # how much smaller the true one may be
    products: int
    scale: float = 1.0  # the largest |eigenvalue| seen


class Singular(ValueError):
    """A row that has entries but fewer than it has parameters, and no penalty: its own curvature is zero somewhere."""


@dataclass(frozen=True, eq=False)
class Side:
    """The rows, or the columns: D_i = L_i L_iᵀ of each. A direction d is seen as y = Lᵀd, a gradient g as L⁻¹g."""

    factors: Array  # (n, k)
    lower: Array  # (n, p, p) L
    inverse: Array  # (n, p, p) L⁻¹; 0 for a row that nothing depends on

    @classmethod
    def of(cls, pattern, Z: Array, reg: Array, factors: Array, everywhere: Array | None) -> Side:
        """`pattern` has the weights w of the entries, Z the features (v_j, 1) of the other side."""
        p = Z.shape[1]
        upper, diagonal = np.triu_indices(p), np.arange(p)
        sums = np.asarray(pattern @ (Z[:, upper[0]] * Z[:, upper[1]]))
        D = np.empty((len(sums), p, p))
        D[:, upper[0], upper[1]] = D[:, upper[1], upper[0]] = sums
        if everywhere is not None:
            D += everywhere
        D[:, diagonal, diagonal] += reg[:, None]
        empty = ~D.any(axis=(1, 2)) & (np.diff(pattern.indptr) == 0)
        D[empty] = np.eye(p)
        try:
            lower = np.linalg.cholesky(D)
        except np.linalg.LinAlgError:
            raise Singular("a row has fewer entries than parameters, and reg = 0.") from None
        pivots = lower[:, diagonal, diagonal] ** 2
        if (pivots.min(axis=1, initial=np.inf) <= 1e-12 * pivots.max(axis=1, initial=0.0)).any():
            raise Singular("a row has fewer entries than parameters, and reg = 0.")
        inverse = np.linalg.inv(lower)
        inverse[empty] = 0.0
        return cls(factors, lower, inverse)

    def seen(self, gradient: Array) -> Array:
        """L⁻¹g of every row (n, p)."""
        return np.matmul(self.inverse, gradient[:, :, None])[:, :, 0]

    def direction(self, Y: Array) -> Array:
        """L⁻ᵀy."""
        return np.matmul(self.inverse.transpose(0, 2, 1), Y[:, :, None])[:, :, 0]

    def gauge(self, skew: bool) -> Gauge:
        """The directions F M, for all skew M or for all M."""
        n, k = self.factors.shape
        D = np.matmul(self.lower, self.lower.transpose(0, 2, 1))[:, :k, :k]
        pairs = self.factors[:, :, None] * self.factors[:, None, :]
        gram = (pairs.reshape(n, -1).T @ D.reshape(n, -1)).reshape(k, k, k, k)
        # ⟨F M, D F M′⟩ = Σ f_a M_ab D_bd M′_cd f_c
        gram = gram.transpose(0, 2, 1, 3).reshape(k * k, k * k)
        basis = np.eye(k * k)
        if skew:
            i, j = np.triu_indices(k, 1)
            basis = basis[i * k + j] - basis[j * k + i]
        values, vectors = np.linalg.eigh(basis @ gram @ basis.T)
        keep = values > 1e-12 * values.max(initial=0.0)
        return Gauge(self, (vectors[:, keep] / np.sqrt(values[keep])).T @ basis)


@dataclass(frozen=True, eq=False)
class Gauge:
    """Gauge directions of one side, as k × k matrices M for which the Lᵀ F M are orthonormal."""

    side: Side
    matrices: Array  # (g, k²)

    def removed_from(self, Y: Array) -> Array:
        L, F, k = self.side.lower, self.side.factors, self.side.factors.shape[1]
        overlap = F.T @ np.matmul(L, Y[:, :, None])[:, :k, 0]
        move = np.zeros_like(Y)
        move[:, :k] = F @ (self.matrices.T @ (self.matrices @ overlap.ravel())).reshape(k, k)
        return Y - np.matmul(L.transpose(0, 2, 1), move[:, :, None])[:, :, 0]


class Decided(Stop):
    """The error bar leaves no doubt whether σ₁ ≤ 1 + margin."""

    def __init__(self, size: int, margin: float):
        self.size, self.margin = size, margin

    def reason(self, solution: Solution) -> str | None:
        state = solution.state
        square, bound = float(state.values[0]), float(state.bounds[0])
        value, error = bar(square, state.products, self.size)
        # a better direction is worth a few products more
        if value < -self.margin and bound <= 0.02 * square:
            return "negative"
        if value - error >= -self.margin:
            return "not negative"
        at_best = value - bar(square, PRODUCTS, self.size)[1]
        return "undecided" if bound <= 1e-6 * square and at_best < -self.margin else None


def bar(square: float, products: int, size: int) -> tuple[float, float]:
    """1 − σ and how much less it may be, from Lanczos' value for σ²."""
    sigma = math.sqrt(max(square, 0.0))
    share = (math.log(1.648 * math.sqrt(size) / RISK) / (2 * products - 1)) ** 2
    return 1 - sigma, math.inf if share >= 1 else sigma / math.sqrt(1 - share) - sigma


def products_for(error: float, size: int) -> int:
    """How many products bound the error of σ₁ by this share of it, but for RISK."""
    share = 1 - (1 - error) ** 2
    return math.ceil((math.log(1.648 * math.sqrt(size) / RISK) / math.sqrt(share) + 1) / 2)


# --- how rows and columns pull at each other --------------------------------------------------------------------------


def _split(problem: Factored, Y: Array) -> tuple[Array, Array]:
    """Factors and biases of parameters (·, p)."""
    k = problem.rank
    return Y[:, :k], Y[:, k] if problem.biased else np.zeros(len(Y))


def _joined(problem: Factored, X: Array, x: Array) -> Array:
    return np.column_stack([X, x]) if problem.biased else X


def to_rows(problem: Factored, Y: Array) -> Array:
    """The off-diagonal block of H: what a change Y of the columns does to the gradient of the rows."""
    (U, V, _, _), (dV, dc) = problem.at, _split(problem, Y)
    change = products_at(problem.indptr, problem.indices, U, dV) + dc[problem.indices]
    T = problem.on_entries(change if problem.weights is None else (problem.weights - 1.0) * change)
    out = T @ V - problem.S @ dV
    if problem.implicit:
        out += U @ (dV.T @ V + V.T @ dV)
    return _joined(problem, out, T.sum(axis=1))


def to_columns(problem: Factored, Y: Array) -> Array:
    """Its transpose."""
    (U, V, _, _), (dU, db) = problem.at, _split(problem, Y)
    change = products_at(problem.indptr, problem.indices, dU, V) + np.repeat(
        db, np.diff(problem.indptr)
    )
    T = problem.on_entries(change if problem.weights is None else (problem.weights - 1.0) * change)
    out = T.T @ U - problem.S.T @ dU
    if problem.implicit:
        out += V @ (dU.T @ U + U.T @ dU)
    return _joined(problem, out, T.sum(axis=0))


def sides(problem: Factored) -> tuple[Side, Side]:
    """Rows and columns with their blocks."""
    (U, V, _, _), weights = problem.at, problem.weights
    pattern = problem.on_entries(np.ones(len(problem.target)) if weights is None else weights - 1.0)
    features = [_joined(problem, X, np.ones(len(X))) for X in (U, V)]
    everywhere = (U.T @ U, V.T @ V) if problem.implicit else (None, None)
    rows = Side.of(pattern, features[1], problem.row_reg, U, everywhere[1])
    return rows, Side.of(pattern.T.tocsr(), features[0], problem.column_reg, V, everywhere[0])


def sweep(problem: Factored) -> Factored:
    """One sweep of alternating least squares: a Newton step on the rows, then on the columns, exact for a quadratic."""
    for side in (0, 1):
        block, gradient = sides(problem)[side], problem.gradient
        step = block.direction(block.seen(_joined(problem, gradient[side], gradient[side + 2])))
        d, own = _split(problem, step)
        parts = list(problem.at)
        parts[side], parts[side + 2] = parts[side] - d, parts[side + 2] - own
        problem = problem.moved(Factors(*parts))
    return problem


def fits_in_memory(problem: Factored) -> bool:
    (n, m), p = problem.shape, problem.rank + problem.biased
    return max((n + m) * p * p, problem.rank**4) <= ROOM


def weakest_curvature(problem: Factored, *, margin: float = 1e-3, rng: int = 0) -> Curvature:
    """1 − σ₁(K): the smallest curvature of F modulo gauge, where 1 is what a row feels alone. Negative: a saddle.

    Parameters
    ----------
    margin : float
        Lanczos goes on until the value is known to lie above −margin, or below it, or for 190 products.

    Raises
    ------
    Singular
        If a row's own curvature is zero somewhere; `curvature.smallest_curvature` needs none.
    """
    (n, m), p = problem.shape, problem.rank + problem.biased
    if not fits_in_memory(problem):
        raise ValueError(f"the blocks of {n:,} × {m:,} at rank {problem.rank} need more than 1 GB.")
    rows, columns = sides(problem)
    short, long, forth, back = columns, rows, to_rows, to_columns
    if n < m:
        short, long, forth, back = rows, columns, to_columns, to_rows
    gauge, size = short.gauge(skew=problem.penalised), min(n, m) * p

    def times(Y: Array) -> Array:
        out = []
        for y in Y.T:
            x = forth(problem, short.direction(gauge.removed_from(y.reshape(-1, p))))
            x = back(problem, long.direction(long.seen(x)))
            out.append(gauge.removed_from(short.seen(x)).ravel())
        return np.column_stack(out)

    algorithm = LanczosAlgorithm(1, tol=0.0, max_dim=PRODUCTS + 2)
    stop = Decided(size, margin) | MaxSteps(PRODUCTS)
    found = run(algorithm, Operator((size, size), np.float64, times), stop=stop, rng=rng)
    # the random start had a part there
    y = gauge.removed_from(found.attributes["vectors"].reshape(-1, p))
    y = short.direction(y / max(float(np.linalg.norm(y)), np.finfo(float).tiny))
    pull = long.seen(forth(problem, y))
    sigma = float(np.linalg.norm(pull))
    x = -long.direction(pull) / max(sigma, np.finfo(float).tiny)
    _, error = bar(sigma**2, found.state.products, size)
    # the basis is the whole space: nothing can be missed
    error = 0.0 if found.stopped == "finished" else error
    U, V = (y, x) if short is rows else (x, y)
    (dU, db), (dV, dc) = _split(problem, U), _split(problem, V)
    return Curvature(1 - sigma, Factors(dU, dV, db, dc), error, found.state.products, 1 + sigma)
