"""Rows and columns one by one: with the other side fixed, each is a least-squares problem of its own.

For row i of F (factored_objective.py), with z_j = (v_j, 1) where there are biases and w = (u_i, b_i),

    f_i(w) = ½ wᵀD_i w − wᵀh + …,          D_i = Σ_j w_ij z_j z_jᵀ + diag(α_i, …, α_i, α′_i) = L_i L_iᵀ            (CIL (2.35))

so solving it again lowers F by exactly ½ gᵀD_i⁻¹g = ½‖L_i⁻¹g‖², g its gradient; no other row notices. Summed over the rows this
is what half a sweep of alternating least squares would gain; it is zero on both sides exactly at a fixed point (CIL (2.38)).

    >>> A = Observed.of(np.array([[2.0, 2.0], [4.0, 4.0]]))
    >>> at = Factored.of(A, np.zeros((2, 1)), np.ones((2, 1)), reg=2.0)
    >>> gain(at, 0)                                     # per row ½ g²/D with g = −Σ a, D = 2 + λ: 16/8 + 64/8
    10.0
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from lemmata.audit.completion.factored_objective import Factored, products_at
from lemmata.completion.observed import Observed

Array = np.ndarray

MOST_NUMBERS = 2**27  # in all blocks: 1 GB
NUMBERS_AT_ONCE = 2**21  # in the blocks of some rows: 16 MB


class Singular(ValueError):
    """A row that has entries but fewer than it has parameters, and no penalty: its own curvature is zero somewhere."""


# --- the blocks -------------------------------------------------------------------------------------------------------


def parameters(problem: Factored) -> int:
    """Number of parameters of a row: its factors and its bias."""
    return problem.rank + problem.biased


def joined(problem: Factored, X: Array, x: Array) -> Array:
    """Factors and biases side by side (·, p)."""
    return np.column_stack([X, x]) if problem.biased else X


def split(problem: Factored, Y: Array) -> tuple[Array, Array]:
    """Factors and biases apart: the reverse of `joined`."""
    k = problem.rank
    return Y[:, :k], Y[:, k] if problem.biased else np.zeros(len(Y))


def own_curvatures(
    problem: Factored, side: int, at_once: int | None = None
) -> Iterator[tuple[slice, Array]]:
    """D_i (·, p, p) of rows (side 0) or columns (side 1), all or so many at once.

    One sparse product with the p(p+1)/2 products z_a z_b makes them.
    """
    beyond, other, p = problem.beyond, problem.at[1 - side], parameters(problem)
    pattern = problem.on_entries(np.ones(len(problem.target)) if beyond is None else beyond)
    pattern = pattern if side == 0 else pattern.T.tocsr()
    Z = joined(problem, other, np.ones(len(other)))
    ridge = np.repeat((problem.row_reg, problem.column_reg)[side][:, None], p, axis=1)
    ridge[:, problem.rank :] = problem.bias_regs[side][:, None]
    upper, diagonal = np.triu_indices(p), np.arange(p)
    pairs = Z[:, upper[0]] * Z[:, upper[1]]
    n = problem.shape[side]
    at_once = n if at_once is None else at_once
    for start in range(0, n, max(at_once, 1)):
        rows = slice(start, min(start + at_once, n))
        sums = np.asarray(pattern[rows] @ pairs)
        D = np.empty((len(sums), p, p))
        D[:, upper[0], upper[1]] = D[:, upper[1], upper[0]] = sums
        if problem.implicit:
            D += other.T @ other
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

    def seen(self, gradient: Array) -> Array:
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
    p, total = parameters(problem), 0.0
    g = joined(problem, problem.gradient[side], problem.gradient[side + 2])
    if p == 0:
        return 0.0
    for rows, D in own_curvatures(problem, side, max(1, NUMBERS_AT_ONCE // p**2)):
        D[~D.any(axis=(1, 2))] = np.eye(p)  # F does not depend on such a row: g = 0
        try:
            seen = np.linalg.solve(_cholesky(D), g[rows, :, None])[:, :, 0]
        except Singular:  # reg = 0: g has nothing in a null space of D but rounding
            values, vectors = np.linalg.eigh(D)
            least = p * np.finfo(float).eps * values[:, -1:]
            seen = np.matmul(vectors.transpose(0, 2, 1), g[rows, :, None])[:, :, 0]
            seen /= np.sqrt(np.where(values > least, values, np.inf))
        total += 0.5 * float(np.sum(seen**2))
    return total


# --- how rows and columns pull at each other --------------------------------------------------------------------------


def pull(problem: Factored, side: int, Y: Array) -> Array:
    """The off-diagonal block of H: what a change Y of the other side does to the gradient of this one (0: the rows)."""
    own, other, (d, offsets) = problem.at[side], problem.at[1 - side], split(problem, Y)
    pair, where = ((d, own), problem.rows) if side else ((own, d), problem.indices)
    change = products_at(problem.indptr, problem.indices, *pair) + offsets[where]
    T = problem.on_entries(change if problem.beyond is None else problem.beyond * change)
    sums, T, S = T.sum(axis=1 - side), (T, T.T)[side], (problem.S, problem.S.T)[side]
    out = T @ other - S @ d
    if problem.implicit:
        out += own @ (d.T @ other + other.T @ d)
    return joined(problem, out, sums)
