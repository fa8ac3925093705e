"""The algorithm behind ALS: rows, then columns, each by least squares (CIL 2.4).

    F = ½ Σ_Ω w_ij (a_ij − μ − b_i − c_j − u_iᵀv_j)² + ½ Σ_i (λ_i ‖u_i‖² + κ_i b_i²) + ½ Σ_j (λ_j ‖v_j‖² + κ_j c_j²)

with w = 1 unless entries have weights. For fixed V and c every row is a ridge regression of its own (rows.py), whose losses add
up to F but for the penalty on V and c: the objective of a state costs nothing extra. Every pass over entries goes through
`A.over_rows` or `A.over_columns`, so the same lines run on a cluster.

    >>> from lemmata.core import MaxSteps, run
    >>> A = Observed.of(np.outer([1.0, 2.0, 3.0], [1.0, 0.5]))
    >>> solution = run(ALSAlgorithm(rank=1, reg=0.1, weighted=False, biases=False), A, stop=MaxSteps(20), rng=0)
    >>> shrunk = np.sqrt(14 * 1.25) - 0.1                                      # σ₁ − λ: the nuclear norm (CIL (2.40))
    >>> bool(abs(np.linalg.norm(solution.state.U @ solution.state.V.T) - shrunk) < 1e-6)
    True
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, ClassVar

import numpy as np

from lemmata.completion.centring import BIAS_REG, residual_deviation
from lemmata.completion.observed import Entries, Observed
from lemmata.completion.rows.solver import RowSolver, power, residuals
from lemmata.core.engine import one_blas_thread
from lemmata.core.store import storable

Array = np.ndarray

OFF = 0.05  # of the longest column of V: a factor below this is switched off, and begins with this if it is wanted again


@storable
@dataclass(frozen=True)
class ALSState:
    """Factors, biases, and the objective they have."""

    version = 1
    layout: ClassVar = {"U": "n k", "V": "d k", "b": "n", "c": "d", "mean": "", "loss": "any"}

    U: Array  # (n, k)
    V: Array  # (m, k)
    b: Array  # (n,) zeros without biases
    c: Array  # (m,)
    mean: float  # μ, 0 without biases
    loss: float  # the objective at these factors, not at the ones before


# --- the penalty by rule ----------------------------------------------------------------------------------------------

WEIGHTINGS = {"counts": 1.0, "root": 0.5, "plain": 0.0}
DEVIATIONS = 1.6  # λ in units of the deviation, with the weighting "root"
IMPLICIT_REG = 0.075  # with "counts": preferences are 0 and 1, whatever the unit of the counts


@dataclass(frozen=True)
class Penalty:
    """λ_i = λ n_i^p on factors; κ on biases, or λ_i where it is None."""

    reg: float
    weighted: float
    bias_reg: float | None = None


def by_rule(data: Observed, weighting: str | None, implicit: bool) -> Penalty:
    """Return the penalty of reg=None, in units of the data.

    The factors of s times the data are √s times as long, and F is s² times as large if λ is s times as large and κ,
    on the biases, as large as before: λ has the unit of the data, κ none. So λ is a number times the deviation σ of an entry
    from offsets of rows and columns that have not seen it. Which number? A matrix of noise with n entries in its rows and m in
    its columns has a σ₁ of some σ(√n + √m), and a factor leaves zero where σ₁ exceeds √(λ_i λ_j) (CIL 2.5.2). With λ_i = λ √n_i
    both are the same power of the counts: λ = 2σ is the level of noise for square matrices of all sizes and densities. As σ
    holds some signal too, and to shrink everything by the level of noise costs more than some noise does, it is 1.6 here: best
    on the whole for the training parts of four sets of ratings, of 26 thousand to a million entries, in four units. Other
    weightings λ_i = λ n_i^p get the λ whose logarithm, averaged over the entries, is the same.
    """
    if implicit:
        return Penalty(IMPLICIT_REG, WEIGHTINGS[weighting or "counts"])
    weighted = WEIGHTINGS[weighting or "root"]
    return Penalty(DEVIATIONS * unit(data, weighted), weighted, BIAS_REG)


def unit(data: Observed, weighted: float) -> float:
    """σ, times what gives λ n_i^p the same mean logarithm over the entries as λ √n_i."""
    logs = sum(
        float((masses * np.log(np.where(masses > 0, masses, 1))).sum())
        for masses in (data.row_masses, data.column_masses)
    )
    return residual_deviation(data) * math.exp((0.5 - weighted) * logs / (2 * data.mass))


# --- a λ for each side ------------------------------------------------------------------------------------------------
#
#     ½ λ_r ‖U‖² + ½ λ_c ‖V‖²  =  ½ λ (‖sU‖² + ‖V/s‖²)          λ = √(λ_r λ_c),  s = (λ_r/λ_c)^¼
#
# and sU, V/s have the same product: two λs complete a matrix as their geometric mean does, and only lengths of factors differ.


def split_reg(reg: Any) -> tuple[float, float]:
    """Return λ and λ_r/λ_c, of a number or of a pair (row, column)."""
    if not isinstance(reg, tuple):
        return float(reg), 1.0
    if len(reg) != 2 or not all(isinstance(one, Real) and 0 < float(one) < math.inf for one in reg):
        raise ValueError(
            f"reg={reg!r}: pass a number, or (row, column), two numbers > 0. With 0 on one side its factors would grow and "
            "the others shrink without end, at no cost."
        )
    row, column = map(float, reg)
    return math.sqrt(row) * math.sqrt(column), row / column


def stretch(U: Array, V: Array, ratio: float) -> tuple[Array, Array]:
    """U/s and Vs, the factors that λ_r and λ_c ask for; with 1/ratio the way back."""
    s = ratio**0.25
    return (U, V) if ratio == 1 else ((U / s).astype(U.dtype), (V * s).astype(V.dtype))


# --- passes over the entries of rows: plain functions, so that a cluster can run them ---------------------------------


def sums_per_row(entries: Entries, x: Array) -> Array:
    """Σ of x over the entries of every row, in float64; 0 for an empty row."""
    out, filled = np.zeros(len(entries.indptr) - 1), np.diff(entries.indptr) > 0
    if len(x):
        out[filled] = np.add.reduceat(x, entries.indptr[:-1][filled], dtype=np.float64)
    return out


def row_moments(entries: Entries) -> tuple[Array, Array]:
    """Σ w a_ij and Σ w a_ij² of every row."""
    a, w = entries.values, entries.weights
    sums = a if w is None else np.multiply(w, a, dtype=np.float64)
    return sums_per_row(entries, sums), weighted_squares(entries, a)


def weighted_squares(entries: Entries, x: Array) -> Array:
    """Σ w x² over the entries of every row."""
    squares = np.square(x, dtype=np.float64)
    return sums_per_row(entries, squares if entries.weights is None else entries.weights * squares)


def row_squares(
    entries: Entries, V: Array, shift: Array, compiled: bool | None, U: Array, b: Array
) -> Array:
    """Σ_j w_ij (a_ij − b_i − shift_j − u_iᵀv_j)² of every row."""
    return weighted_squares(entries, residuals(entries, U, V, b, shift, compiled=compiled))


def implicit_excess(
    entries: Entries, V: Array, alpha: float, compiled: bool | None, U: Array
) -> Array:
    """Σ_j c_ij (p_ij − x_ij)² − x_ij² over the entries of every row: what they add to the sum over all places."""
    a = entries.values
    preferred = (a > 0).astype(V.dtype)
    ones = Entries(entries.indptr, entries.indices, preferred)
    x = preferred - residuals(ones, U, V, compiled=compiled)
    return sums_per_row(entries, (1 + alpha * np.abs(a)) * (preferred - x) ** 2 - x**2)


# --- the algorithm ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ALSAlgorithm:
    """Rows, then columns. Parameters as those of `ALS`.

    weighted : λ_i is λ times this power of the entries of row i: 1, ½ or 0
    bias_reg : κ_i = κ, the same for all rows and columns; None: λ_i
    compiled : whether kernels do the work, decided once by the size of all data; None: each pass for itself
    """

    rank: int
    reg: float
    weighted: bool | float = True
    biases: bool = True
    bias_reg: float | None = None
    nonnegative: bool = False
    method: str = "cholesky"
    implicit: bool = False
    alpha: float = 1.0
    compiled: bool | None = None

    hint: ClassVar[str] = "raise reg, or scale the data"

    def init(self, A: Observed, rng: np.random.Generator) -> ALSState:
        """V at random, U and b the best for it."""
        (n, m), dtype = A.shape, A.dtype
        mean, scale = self._mean_and_scale(A)
        V = rng.standard_normal((m, self.rank)).astype(dtype) * dtype.type(scale)
        V = np.abs(V) if self.nonnegative else V
        state = ALSState(
            np.zeros((n, self.rank), dtype), V, np.zeros(n, dtype), np.zeros(m, dtype), mean, np.inf
        )
        U, b, losses = self._rows(A, state)
        return replace(
            state, U=U, b=b, loss=float(losses.sum()) + self._penalty(V, A.column_masses, state.c)
        )

    def step(self, state: ALSState, A: Observed) -> ALSState:
        U, b, _ = self._rows(A, state, measure=False)  # best U and b for this V and c
        state = replace(state, U=U, b=b)
        V, c, losses = self._columns(A, state)  # best V and c for this U and b
        loss = float(losses.sum()) + self._penalty(U, A.row_masses, b)
        return self._balance(replace(state, V=V, c=c, loss=loss), A)

    def objective(self, state: ALSState) -> float:
        return state.loss

    def attributes(self, state: ALSState) -> dict[str, Any]:
        return {
            "U_": state.U,
            "V_": state.V,
            "mean_": state.mean,
            "row_bias_": state.b,
            "column_bias_": state.c,
        }

    def warm(self, state: ALSState, A: Observed) -> ALSState:
        """The factors of another λ as a first state for this one (`Path`).

        Factors that a larger λ has switched off would need many sweeps to grow out of nothing: they begin again, small and at
        random in V and at zero in U, which changes no prediction.
        """
        lengths = np.sqrt(np.einsum("jk,jk->k", state.V, state.V, dtype=np.float64))
        off = lengths < OFF * lengths.max(initial=0.0)
        if off.any():
            V, U = state.V.copy(), state.U.copy()
            fresh = (
                np.random.default_rng(0).standard_normal((len(V), int(off.sum())))
                * lengths.max()
                * OFF
                / len(V) ** 0.5
            )
            V[:, off], U[:, off] = np.abs(fresh) if self.nonnegative else fresh, 0
            V[A.column_counts == 0] = 0
            state = replace(state, U=U, V=V)
        return self.evaluate(state, A)

    def evaluate(self, state: ALSState, A: Observed) -> ALSState:
        """A state from elsewhere with the objective that it has here."""
        if self.implicit:
            everywhere = np.sum((state.U.T @ state.U) * (state.V.T @ state.V), dtype=np.float64)
            excess = A.over_rows(
                implicit_excess, state.V, self.alpha, self.compiled, aligned=(state.U,)
            )
            squares = float(everywhere) + float(excess.sum())
        else:
            shift = state.c.dtype.type(state.mean) + state.c
            own = A.over_rows(
                row_squares, state.V, shift, self.compiled, aligned=(state.U, state.b)
            )
            squares = float(own.sum())
        penalty = self._penalty(state.U, A.row_masses, state.b) + self._penalty(
            state.V, A.column_masses, state.c
        )
        return replace(state, loss=0.5 * squares + penalty)

    def _balance(self, state: ALSState, A: Observed) -> ALSState:
        """The factors with the same product and the least penalty; see `balance`.

        Alternation alone moves length from U to V by a share of about λ/σ per sweep: this is what it would take forever to do.
        """
        weights = [self._weights(masses) for masses in (A.row_masses, A.column_masses)]
        with one_blas_thread():  # k × k matrices: on a busy machine threads would wait for each other longer than they work
            U, V = (rescale if self.nonnegative else balance)(state.U, state.V, *weights)
        before, after = (
            self._penalty(P, A.row_masses) + self._penalty(Q, A.column_masses)
            for P, Q in ((state.U, state.V), (U, V))
        )
        return (
            replace(state, U=U, V=V, loss=state.loss - before + after) if after < before else state
        )

    # --- half-sweeps ---

    @property
    def solver(self) -> RowSolver:
        return RowSolver(
            self.reg,
            weighted=self.weighted,
            bias=self.biases,
            bias_reg=self.bias_reg,
            method=self.method,
            nonnegative=self.nonnegative,
            implicit=self.implicit,
            alpha=self.alpha,
            compiled=self.compiled,
        )

    def _rows(
        self, A: Observed, state: ALSState, measure: bool = True
    ) -> tuple[Array, Array, Array]:
        return self._half(A.over_rows, state.V, state.c, state.mean, state.U, state.b, measure)

    def _columns(self, A: Observed, state: ALSState) -> tuple[Array, Array, Array]:
        return self._half(A.over_columns, state.U, state.b, state.mean, state.V, state.c)

    def _half(self, over, V, c, mean, U, b, measure: bool = True) -> tuple[Array, Array, Array]:
        """New U and b, and the objective of every row, for V and c as they are."""
        shift = None if self.implicit else c.dtype.type(mean) + c
        gram = V.T @ V if self.implicit else None
        start = np.column_stack([U, b]) if self.biases else U  # where conjugate gradients set out
        W, losses = over(replace(self.solver, measure=measure), V, shift, gram, aligned=(start,))
        if not self.biases:
            return W, b, losses
        return np.ascontiguousarray(W[:, :-1]), np.ascontiguousarray(W[:, -1]), losses

    def _weights(self, masses: Array) -> Array:
        """λ_i / λ, from the entries of every row, each counted by its weight."""
        return power(masses, self.weighted)

    def bias_regs(self, masses: Array) -> Array:
        """κ_i."""
        if self.bias_reg is None:
            return self.reg * self._weights(masses)
        return np.full(len(masses), float(self.bias_reg))

    def _penalty(self, F: Array, masses: Array, bias: Array | None = None) -> float:
        """½ Σ (λ_i ‖f_i‖² + κ_i bias_i²)."""
        squares = np.einsum("ij,ij->i", F, F, dtype=np.float64)
        penalty = self.reg * float(squares @ self._weights(masses))
        if bias is not None and self.biases:
            penalty += float(np.square(bias, dtype=np.float64) @ self.bias_regs(masses))
        return 0.5 * penalty

    def _mean_and_scale(self, A: Observed) -> tuple[float, float]:
        """μ, and the size σ of random factors whose products are as large as the data: k σ⁴ is their variance."""
        sums, squares = A.over_rows(row_moments)
        mean, square = float(sums.sum()) / A.mass, float(squares.sum()) / A.mass
        if self.implicit:
            size = 1.0  # preferences are 0 and 1, whatever the counts
        else:
            # constant data: a little
            size = max(square - mean * mean if self.biases else square, 1e-6 * square) ** 0.5 or 1.0
        return mean if self.biases else 0.0, (size / self.rank**0.5) ** 0.5


def check_determined(algorithm: ALSAlgorithm, data: Observed) -> None:
    """λ = 0 leaves a row with fewer entries than unknowns undetermined; refuse it by name."""
    if algorithm.reg > 0 or algorithm.implicit:
        return
    needed = algorithm.rank + algorithm.biases
    for what, counts in (("row", data.row_counts), ("column", data.column_counts)):
        few = np.flatnonzero((counts < needed) & (counts > 0))
        if len(few):
            raise ValueError(
                f"reg=0 leaves {len(few):,} {what}s undetermined: they have fewer than {needed} entries "
                f"(rank {algorithm.rank}{' and a bias' if algorithm.biases else ''}), such as {what} {few[0]} with "
                f"{counts[few[0]]}; pass reg > 0, or a lower rank."
            )


# --- factors with the same product ------------------------------------------------------------------------------------


def balance(U: Array, V: Array, row_weights: Array, column_weights: Array) -> tuple[Array, Array]:
    """UM and VM⁻ᵀ with the M that minimises ½ Σ d_i ‖u_i‖² + ½ Σ c_j ‖v_j‖², which is then ‖D^½ UVᵀ C^½‖_*.

    With UᵀDU = RᵀR, VᵀCV = SᵀS and the SVD RSᵀ = PΣQᵀ it is M = R⁻¹PΣ^½: afterwards both Gram matrices are Σ, and the columns
    in order of their singular values.
    """
    R, S = (_root(U, row_weights), _root(V, column_weights))
    if R is None or S is None:
        return U, V
    P, sigma, _ = np.linalg.svd(R @ S.T)
    M = np.linalg.solve(R, P * np.sqrt(sigma))
    # the inverse itself: the product stays
    return (U @ M).astype(U.dtype), (V @ np.linalg.inv(M).T).astype(V.dtype)


def _root(F: Array, weights: Array) -> Array | None:
    """R with RᵀR = FᵀDF, its eigenvalues raised to 1e-12 of the largest so that it can be inverted; None for zeros."""
    values, vectors = np.linalg.eigh((F.T * weights) @ F.astype(np.float64))
    if not values[-1] > 0:
        return None
    return np.sqrt(np.maximum(values, 1e-12 * values[-1]))[:, None] * vectors.T


def rescale(U: Array, V: Array, row_weights: Array, column_weights: Array) -> tuple[Array, Array]:
    """`balance` for nonnegative factors: M is diagonal, and makes the weighted lengths of each pair of columns equal."""
    lengths = [
        np.sqrt(weights @ np.square(F, dtype=np.float64))
        for F, weights in ((U, row_weights), (V, column_weights))
    ]
    t = np.sqrt(
        np.divide(lengths[1], lengths[0], out=np.ones(U.shape[1]), where=np.minimum(*lengths) > 0)
    )
    return (U * t).astype(U.dtype), (V / t).astype(V.dtype)


def in_order(U: Array, V: Array, row_weights: Array, column_weights: Array) -> tuple[Array, Array]:
    """The same factors turned so that the first one matters most, with signs by rule: UR and VR with R orthogonal.

    The objective does not see R (UVᵀ and all norms ‖u_i‖, ‖v_j‖ stay), so the columns that a solver ends with are chance.
    R are the eigenvectors of UᵀDU + VᵀCV, with the weights of the penalty in D and C.
    """
    with one_blas_thread():
        S = (U.T * row_weights) @ U.astype(np.float64) + (V.T * column_weights) @ V.astype(
            np.float64
        )
        R = np.linalg.eigh(S)[1][:, ::-1]
    V64 = V.astype(np.float64) @ R
    largest = np.abs(V64).argmax(axis=0)
    R = R * np.where(V64[largest, np.arange(len(S))] < 0, -1.0, 1.0)
    return (U @ R).astype(U.dtype), (V @ R).astype(V.dtype)
