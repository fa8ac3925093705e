"""The factored objective and its gradient in plain NumPy and float64: for verifiers, not for solvers.

    F(U, V, b, c) = ½ Σ_ij w_ij (a_ij − b_i − c_j − u_iᵀv_j)² + ½ Σ_i (α_i ‖u_i‖² + α′_i b_i²) + ½ Σ_j (β_j ‖v_j‖² + β′_j c_j²)

Explicit feedback: w = 1 where a is known (or the weight that an entry was given), 0 elsewhere. Implicit feedback (Hu, Koren &
Volinsky 2008): a = 1 where something was seen, 0 elsewhere; w is the confidence where something was seen and 1 elsewhere. α and
β are λ times a power (0, ½, 1) of the number of entries, each counted by its weight if it has one, α′ and β′ the same, or κ
times a power of its own. In both cases minus the gradient of the first sum with respect to the matrix X = b1ᵀ + 1cᵀ + UVᵀ is
Y = W ∘ (A − X), that is

    Y = S − d UVᵀ,        S_ij = w_ij a_ij − (w_ij − d) x_ij on Ω,  0 elsewhere          d = 0 explicit, 1 implicit

A second penalty ½γ‖UVᵀ‖² (`ridge`) adds −γUVᵀ to it: S stays that of explicit feedback, and d is γ;
a sparse matrix plus, at most, a thin one; nothing here is ever n × m. (CIL (2.15), (2.16) lack the mask Ω in the gradient.)

**Rows and columns one by one.** With the other side fixed, each is a least-squares problem of its own. For row i,
with z_j = (v_j, 1) where there are biases and w = (u_i, b_i),

    f_i(w) = ½ wᵀD_i w − wᵀh + …,          D_i = Σ_j w_ij z_j z_jᵀ + diag(α_i, …, α_i, α′_i) = L_i L_iᵀ            (CIL (2.35))

so solving it again lowers F by exactly ½ gᵀD_i⁻¹g = ½‖L_i⁻¹g‖², g its gradient; no other row notices. Summed over the rows this
is what half a sweep of alternating least squares would gain; it is zero on both sides exactly at a fixed point (CIL (2.38)).

    >>> A = Observed.of(np.array([[2.0, np.nan], [np.nan, 3.0]]))
    >>> at = Factored.of(A, np.ones((2, 1)), np.ones((2, 1)), reg=1.0)
    >>> at.objective, at.gradient.U.ravel()                     # ½(1 + 4) + ½·4, and −r_i + λ
    (4.5, array([ 0., -1.]))
    >>> at = Factored.of(Observed.of(np.array([[2.0, 2.0], [4.0, 4.0]])), np.zeros((2, 1)), np.ones((2, 1)), reg=2.0)
    >>> gain(at, 0)                                     # per row ½ g²/D with g = −Σ a, D = 2 + λ: 16/8 + 64/8
    10.0
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from lemmata.completion.observed import Observed

Array = np.ndarray
# float64 numbers in a buffer: 16 MB, which caches and small machines can bear
NUMBERS_AT_ONCE = 2**21
MOST_NUMBERS = 2**27  # in all blocks: 1 GB
GATHER_COST = 10  # a gathered multiply-add costs about as much as this many in a matrix product


class Factors(NamedTuple):
    """A point, or a direction, in the space of parameters."""

    U: Array  # (n, k)
    V: Array  # (m, k)
    b: Array  # (n,)
    c: Array  # (m,)

    def move(self, step: float, along: Factors) -> Factors:
        return Factors(*(x + step * d for x, d in zip(self, along, strict=True)))

    def dot(self, other: Factors) -> float:
        return float(sum(np.vdot(x, y) for x, y in zip(self, other, strict=True)))


def products_at(indptr: Array, indices: Array, U: Array, V: Array) -> Array:
    """u_iᵀv_j at the entries: by whole rows of UVᵀ where many are wanted, by gathering factors where few are."""
    (n, k), m = U.shape, len(V)
    out = np.zeros(len(indices))
    if not len(indices) or not k:
        return out
    dense = len(indices) * GATHER_COST > n * m
    if dense:
        edges = np.arange(0, n, max(1, NUMBERS_AT_ONCE // m))
    else:
        # whole rows
        edges = np.searchsorted(indptr, np.arange(0, len(indices), max(1, NUMBERS_AT_ONCE // k)))
    edges = np.unique(np.r_[0, edges, n])
    for start, stop in pairwise(edges):
        here = slice(indptr[start], indptr[stop])
        rows = np.repeat(np.arange(start, stop), np.diff(indptr[start : stop + 1]))
        if dense:
            out[here] = (U[start:stop] @ V.T)[rows - start, indices[here]]
        else:
            left, right = np.take(U, rows, axis=0), np.take(V, indices[here], axis=0)
            out[here] = np.einsum("ek,ek->e", left, right)
    return out


class ObjectiveTerms(NamedTuple):
    """Parts of F besides entries and factors. None: the default."""

    reg: float | None = None  # λ; 0
    reg_ratio: float | None = None  # λ of rows over λ of columns, whose geometric mean λ is; 1
    ridge: float | None = None  # γ; 0
    weighted: float | None = None  # the power of the number of entries that multiplies λ; 0
    bias_reg: float | None = None  # κ; without, biases are penalised like factors
    weighted_bias: float | None = None  # its power; 0
    mean: float | None = None  # 0
    row_bias: Any = None  # (n,) 0
    column_bias: Any = None  # (m,) 0
    # whether biases are penalised parameters (ALS) or fixed offsets (centring)
    biased: bool = False
    row_scale: Any = None  # (n,) 1
    column_scale: Any = None  # (m,) 1
    feedback: str = "explicit"
    alpha: float | None = None  # implicit feedback: w = confidence_offset + alpha·|a|, both 1
    confidence_offset: float | None = None


@dataclass(frozen=True, eq=False)
class Factored:
    """F at one point: `objective` and `gradient`."""

    indptr: Array
    indices: Array
    target: Array  # a, without fixed offsets, in the order of the rows
    weights: Array | None  # w on Ω; None: all 1
    at: Factors
    row_reg: Array  # (n,) α
    column_reg: Array  # (m,) β
    bias_regs: tuple[Array, Array]  # α′ and β′, which have no unit
    biased: bool  # whether b and c are parameters; otherwise they are 0 here
    unit: float = 1.0  # what one unit of `target` is in the data; F is in units of its square
    implicit: bool = False  # whether places without an entry count too, d = 1
    ridge: float = 0.0  # γ

    @classmethod
    def of(cls, A: Observed, U: Any, V: Any, **given: Any) -> Factored:
        """Return F of known entries at factors U (n × k), V (m × k); the rest are `ObjectiveTerms` by name."""
        F = ObjectiveTerms(**given)
        if F.feedback not in ("explicit", "implicit"):
            raise ValueError(f"feedback={F.feedback!r}; pass 'explicit' or 'implicit'.")
        (n, m), (indptr, indices, values) = A.shape, A.by_row
        implicit, mean = F.feedback == "implicit", _number(F.mean, 0.0)
        if (len(U), len(V)) != (n, m):
            found = f"the factors are those of a {len(U)} × {len(V)} matrix"
            raise ValueError(f"{found}, the entries of a {n} × {m} one.")
        b, c = _vector(F.row_bias, n, 0.0), _vector(F.column_bias, m, 0.0)
        values, weights = values.astype(np.float64), A.weights
        if weights is not None:
            if implicit:
                raise ValueError("implicit feedback has weights of its own; pass entries without.")
            weights = weights.astype(np.float64)
        if implicit:
            if F.biased or b.any() or c.any() or mean:
                raise ValueError("implicit feedback predicts preferences: it has no offsets.")
            weights = _number(F.confidence_offset, 1.0) + _number(F.alpha, 1.0) * np.abs(values)
            values = (values > 0).astype(np.float64)
        elif F.biased:
            values -= mean
        else:
            s, t, rows = _vector(F.row_scale, n, 1.0), _vector(F.column_scale, m, 1.0), A.rows
            values -= mean + b[rows] + c[indices]
            values /= s[rows] * t[indices]
            b, c = np.zeros(n), np.zeros(m)
        at = Factors(np.asarray(U, dtype=np.float64), np.asarray(V, dtype=np.float64), b, c)
        counts = [np.asarray(own, np.float64) for own in (A.row_masses, A.column_masses)]
        reg, power = _number(F.reg, 0.0), _number(F.weighted, 0.0)
        regs = biases = [reg * own**power for own in counts]
        if F.bias_reg is not None:
            biases = [float(F.bias_reg) * own ** _number(F.weighted_bias, 0.0) for own in counts]
        root = math.sqrt(_number(F.reg_ratio, 1.0))
        penalties = regs[0] * root, regs[1] / root, (biases[0], biases[1])
        made = cls(indptr, indices, values, weights, at, *penalties, F.biased)
        if F.ridge and (implicit or F.biased):
            raise ValueError("a ridge on UVᵀ goes with explicit feedback and fixed offsets.")
        return replace(made, implicit=implicit, ridge=_number(F.ridge, 0.0))

    def move(self, at: Factors) -> Factored:
        """F at another point."""
        return replace(self, at=at)

    def normalise(self) -> Factored:
        """The same problem in units of its largest entry, so that squares of 1e±150 neither overflow nor vanish.

        A/s, b/s, c/s, U/√s, V/√s, and λ/s on the factors (but λ on the biases) make F/s². s is a power of 4: nothing is
        rounded. Implicit feedback has no unit.
        """
        largest = float(np.abs(self.target).max(initial=0.0))
        if self.implicit or not 0 < largest < np.inf:
            return self
        s = 4.0 ** round(math.log(largest, 4))
        U, V, b, c = self.at
        at = Factors(U / math.sqrt(s), V / math.sqrt(s), b / s, c / s)
        smaller = replace(self, target=self.target / s, at=at, unit=s * self.unit)
        return replace(smaller, row_reg=self.row_reg / s, column_reg=self.column_reg / s)

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.at.U), len(self.at.V)

    @property
    def rank(self) -> int:
        return self.at.U.shape[1]

    @property
    def beyond(self) -> Array | None:
        """w − d on Ω, what an entry has beyond other places; None: 1."""
        return self.weights if self.weights is None or not self.implicit else self.weights - 1.0

    @property
    def everywhere(self) -> float:  # d
        return 1.0 if self.implicit else self.ridge

    @property
    def size(self) -> float:
        """Σ w a²: F of nothing, but for the half; what rounding is measured against."""
        w = 1.0 if self.weights is None else self.weights
        return float(self.target @ (w * self.target))

    @property
    def penalised(self) -> bool:
        return bool(self.row_reg.any() or self.column_reg.any())

    # --- the matrix at the entries ---

    def on_entries(self, values: Array) -> sp.csr_array:
        """A sparse matrix with these values on Ω."""
        return sp.csr_array((values, self.indices, self.indptr), shape=self.shape)

    @property
    def rows(self) -> Array:
        return np.repeat(np.arange(self.shape[0]), np.diff(self.indptr))

    def offsets_at(self, b: Array, c: Array) -> Array | float:
        return b[self.rows] + c[self.indices] if self.biased else 0.0

    @cached_property
    def fitted(self) -> Array:
        """x_ij on Ω."""
        U, V, b, c = self.at
        return products_at(self.indptr, self.indices, U, V) + self.offsets_at(b, c)

    @cached_property
    def S(self) -> sp.csr_array:
        """The sparse part of Y; for explicit feedback the residual Π_Ω(A − X), times the weights."""
        if self.weights is None:
            return self.on_entries(self.target - self.fitted)
        return self.on_entries(self.weights * self.target - self.beyond * self.fitted)

    # --- value and slope ---

    @cached_property
    def loss(self) -> float:
        """The first sum of F."""
        error = self.target - self.fitted
        if self.weights is None:
            return 0.5 * float(error @ error)
        if not self.implicit:
            return 0.5 * float(self.weights @ error**2)
        seen = float(self.weights @ error**2) - float(self.fitted @ self.fitted)
        return 0.5 * (seen + self.energy)

    @property
    def energy(self) -> float:
        """‖UVᵀ‖² over all entries, known or not."""
        return float(np.vdot(self.at.U.T @ self.at.U, self.at.V.T @ self.at.V))

    @cached_property
    def penalty(self) -> float:
        U, V, b, c = self.at
        rows = self.row_reg @ np.einsum("ik,ik->i", U, U) + self.bias_regs[0] @ b**2
        columns = self.column_reg @ np.einsum("jk,jk->j", V, V) + self.bias_regs[1] @ c**2
        return 0.5 * float(rows + columns + (self.ridge * self.energy if self.ridge else 0.0))

    @property
    def objective(self) -> float:
        return self.loss + self.penalty

    @cached_property
    def gradient(self) -> Factors:
        U, V, b, c = self.at
        gU, gV = self.row_reg[:, None] * U - self.S @ V, self.column_reg[:, None] * V - self.S.T @ U
        if d := self.everywhere:
            gU, gV = gU + d * U @ (V.T @ V), gV + d * V @ (U.T @ U)
        if not self.biased:
            return Factors(gU, gV, np.zeros_like(b), np.zeros_like(c))
        alpha, beta = self.bias_regs
        return Factors(gU, gV, alpha * b - self.S.sum(axis=1), beta * c - self.S.sum(axis=0))

    # --- curvature ---

    def row_curvatures(self) -> tuple[Array, Array]:
        """The mean curvature over the parameters of each row, and of each column: tr(H_ii) / dimension."""
        (U, V, _, _), regs = self.at, (self.row_reg, self.column_reg)
        pattern = self.on_entries(np.ones(len(self.target)) if self.beyond is None else self.beyond)
        own, out = 1.0 if self.biased else 0.0, []
        for side, (M, X) in enumerate(((pattern, V), (pattern.T, U))):
            squares = np.einsum("jk,jk->j", X, X) + own
            total = M @ squares + self.everywhere * squares.sum()
            total += self.rank * regs[side] + own * self.bias_regs[side]
            out.append(total / max(self.rank + own, 1))
        return out[0], out[1]


def _number(given: Any, default: float) -> float:
    return default if given is None else float(given)


def _vector(given: Any, size: int, default: float) -> Array:
    return np.full(size, default) if given is None else np.asarray(given, dtype=np.float64)


class Singular(ValueError):
    """A row that has entries but fewer than it has parameters, and no penalty: its own curvature is zero somewhere."""


# --- rows and columns one by one --------------------------------------------------------------------------------------


def parameters(problem: Factored) -> int:
    """Number of parameters of a row: its factors and its bias."""
    return problem.rank + problem.biased


def join(problem: Factored, X: Array, x: Array) -> Array:
    """Factors and biases side by side (·, p)."""
    return np.column_stack([X, x]) if problem.biased else X


def split(problem: Factored, Y: Array) -> tuple[Array, Array]:
    """Factors and biases apart: the reverse of `join`."""
    k = problem.rank
    return Y[:, :k], Y[:, k] if problem.biased else np.zeros(len(Y))


def own_curvatures(
    problem: Factored, side: int, at_once: int | None = None, among: Any = slice(None)
) -> Iterator[tuple[slice, Array]]:
    """D_i (·, p, p) of rows (side 0) or columns (side 1), of those among some, all or so many at once.

    One sparse product with the p(p+1)/2 products z_a z_b makes them.
    """
    beyond, other, p = problem.beyond, problem.at[1 - side], parameters(problem)
    pattern = problem.on_entries(np.ones(len(problem.target)) if beyond is None else beyond)
    pattern = (pattern if side == 0 else pattern.T.tocsr())[among]
    Z = join(problem, other, np.ones(len(other)))
    ridge = np.repeat((problem.row_reg, problem.column_reg)[side][:, None], p, axis=1)
    ridge[:, problem.rank :] = problem.bias_regs[side][:, None]
    ridge = ridge[among]
    upper, diagonal = np.triu_indices(p), np.arange(p)
    pairs = Z[:, upper[0]] * Z[:, upper[1]]
    n = len(ridge)
    at_once = n if at_once is None else at_once
    for start in range(0, n, max(at_once, 1)):
        rows = slice(start, min(start + at_once, n))
        sums = np.asarray(pattern[rows] @ pairs)
        D = np.empty((len(sums), p, p))
        D[:, upper[0], upper[1]] = D[:, upper[1], upper[0]] = sums
        if problem.everywhere:
            D += problem.everywhere * (other.T @ other)
        D[:, diagonal, diagonal] += ridge[rows]
        yield rows, D


@dataclass(frozen=True, eq=False)
class Side:
    """The rows, or the columns: D_i = L_i L_iᵀ of each. A direction d is seen as y = Lᵀd, a gradient g as L⁻¹g."""

    factors: Array  # (n, k)
    lower: Array  # (n, p, p) L
    inverse: Array  # (n, p, p) L⁻¹; 0 for a row that nothing depends on

    @classmethod
    def of(cls, problem: Factored, side: int) -> Side:
        ((_, D),) = own_curvatures(problem, side)
        where = problem.indices if side else problem.rows
        empty = ~D.any(axis=(1, 2)) & (np.bincount(where, minlength=len(D)) == 0)
        D[empty] = np.eye(parameters(problem))
        lower = _cholesky(D)
        inverse = np.linalg.inv(lower)
        inverse[empty] = 0.0
        return cls(problem.at[side], lower, inverse)

    def scale_gradient(self, gradient: Array) -> Array:
        """L⁻¹g of every row (n, p)."""
        return np.matmul(self.inverse, gradient[:, :, None])[:, :, 0]

    def direction(self, Y: Array) -> Array:
        """L⁻ᵀy."""
        return np.matmul(self.inverse.transpose(0, 2, 1), Y[:, :, None])[:, :, 0]


def _cholesky(D: Array) -> Array:
    """L of every block; Singular where one has a pivot that is nothing but rounding."""
    try:
        lower = np.linalg.cholesky(D)
    except np.linalg.LinAlgError:
        raise Singular("a row has fewer entries than parameters, and reg = 0.") from None
    pivots = np.diagonal(lower, axis1=1, axis2=2) ** 2
    if (pivots.min(axis=1, initial=np.inf) <= 1e-12 * pivots.max(axis=1, initial=0.0)).any():
        raise Singular("a row has fewer entries than parameters, and reg = 0.")
    return lower


def blocks_cost(A: Observed, p: int) -> float:
    """Multiplications for the blocks of both sides and their inverses; a small matrix costs LAPACK's caller 10 µs as well."""
    return A.n_observed * p * (p + 1) + sum(A.shape) * (7 * p**3 + 1e4)


def fit_in_memory(problem: Factored) -> bool:
    return max(sum(problem.shape) * parameters(problem) ** 2, problem.rank**4) <= MOST_NUMBERS


# --- what solving again would gain ------------------------------------------------------------------------------------


def gain(problem: Factored, side: int) -> float:
    """½ Σ_i g_iᵀD_i⁻¹g_i over all rows (side 0) or columns: what solving them again would take off F."""
    return float(gains(problem, side).sum())


def gains(problem: Factored, side: int, among: Any = slice(None)) -> Array:
    """½ g_iᵀD_i⁻¹g_i of each of some rows (side 0) or columns."""
    p = parameters(problem)
    g = join(problem, problem.gradient[side], problem.gradient[side + 2])[among]
    found = np.zeros(len(g))
    if p == 0:
        return found
    for rows, D in own_curvatures(problem, side, max(1, NUMBERS_AT_ONCE // p**2), among):
        D[~D.any(axis=(1, 2))] = np.eye(p)  # F does not depend on such a row: g = 0
        try:
            seen = np.linalg.solve(_cholesky(D), g[rows, :, None])[:, :, 0]
        except Singular:  # reg = 0: g has nothing in a null space of D but rounding
            values, vectors = np.linalg.eigh(D)
            least = p * np.finfo(float).eps * values[:, -1:]
            seen = np.matmul(vectors.transpose(0, 2, 1), g[rows, :, None])[:, :, 0]
            seen /= np.sqrt(np.where(values > least, values, np.inf))
        found[rows] = 0.5 * np.sum(seen**2, axis=1)
    return found


# --- how rows and columns pull at each other --------------------------------------------------------------------------


def pull(problem: Factored, side: int, Y: Array) -> Array:
    """The off-diagonal block of H: what a change Y of the other side does to the gradient of this one (0: the rows)."""
    own, other, (d, offsets) = problem.at[side], problem.at[1 - side], split(problem, Y)
    pair, where = ((d, own), problem.rows) if side else ((own, d), problem.indices)
    change = products_at(problem.indptr, problem.indices, *pair) + offsets[where]
    T = problem.on_entries(change if problem.beyond is None else problem.beyond * change)
    sums, T, S = T.sum(axis=1 - side), (T, T.T)[side], (problem.S, problem.S.T)[side]
    out = T @ other - S @ d
    if problem.everywhere:
        out += problem.everywhere * own @ (d.T @ other + other.T @ d)
    return join(problem, out, sums)
