"""One ridge regression per row: the half-sweep of alternating least squares, and the fold-in of new rows (CIL 2.4.2, 2.4.5).

    u_i = argmin ½ Σ_{j∈Ω_i} (a_ij − uᵀv_j)² + ½ λ_i ‖u‖²  =  (V_Ωᵀ V_Ω + λ_i I)⁻¹ V_Ωᵀ a_Ω

An entry with a weight w counts w times: its v_j, its 1 and its a are those of one entry, times √w. Each row is its own small
problem; all rows together are a half-sweep, on all cores.

    >>> import numpy as np
    >>> from lemmata.completion.observed import Observed
    >>> A = Observed.of(np.array([[2.0, np.nan, 4.0], [np.nan, 3.0, np.nan]]))
    >>> V = np.array([[1.0], [1.0], [2.0]])
    >>> U, losses = RowSolver(reg=1.0)(A.by_row, V)
    >>> U.ravel(), losses                                             # 10/(5 + 1) and 3/(1 + 1)
    (array([1.66666667, 1.5       ]), array([1.66666667, 2.25      ]))
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from lemmata.completion.data.entries import Entries
from lemmata.completion.rows import _twins
from lemmata.completion.rows._twins import RowProblems
from lemmata.core.engine import cores, one_blas_thread, run_tasks, worth_compiling

Array = np.ndarray

METHODS = ("cholesky", "cg")
DEPENDENT = 32  # a factor of which only so many roundings are new, given those before it, depends on them (nonnegative rows)
# multiplications of a sweep that NumPy does in some 50 ms, four times as long as kernels take
TWIN_SWEEP = 40e6
TWIN_PASS = 2**23  # and of a pass over the entries
PER_ROW = 5000  # multiplications in the time that LAPACK's caller takes for one small system
TRUST = 1000  # a pivot within so many roundings of nothing is not trusted; the row is then solved more carefully


# --- ways to solve a row ----------------------------------------------------------------------------------------------


class Method(Protocol):
    """A way to solve rows: by NumPy where they are few, by a kernel where they are many."""

    def by_twin(self, rows: RowProblems) -> tuple[Array, Array]:
        """W in float64, and which rows may be trusted; the problems are in float64."""

    def by_kernel(self, rows: RowProblems) -> tuple[Any, tuple]:
        """A kernel, f(problem, *own, space, first, last, W, losses, sound), and its own arguments."""


class Cholesky:
    """Solve the normal equations. A row whose pivots are lost in rounding is not trusted."""

    def by_twin(self, rows: RowProblems) -> tuple[Array, Array]:
        return _twins.solve(rows, self._least_pivots(rows, np.float64))

    def by_kernel(self, rows: RowProblems) -> tuple[Any, tuple]:
        from lemmata.completion.rows._kernels_cholesky import solve_range
        from lemmata.linalg.simd import freeze

        return solve_range, (freeze(self._least_pivots(rows, rows.V.dtype)),)

    def _least_pivots(self, rows: RowProblems, dtype: Any) -> Array:
        """Smallest pivot that is trusted, beside its diagonal entry, for every row.

        Without a ridge the rank is in question, and a square of what went through rounding of eps is nothing.
        """
        own = float(np.finfo(dtype).eps)
        coarse = rows.eps if rows.eps > own else 0.0
        return np.where(rows.reg > 0, TRUST * own, max(TRUST * own, (TRUST * coarse) ** 2))


@dataclass(frozen=True)
class ConjugateGradients:
    """Take some steps from `start`: the loss falls, whether or not they arrive."""

    steps: int

    def by_twin(self, rows: RowProblems) -> tuple[Array, Array]:
        return _twins.conjugate_gradients(rows, self.steps), np.ones(len(rows.reg), bool)

    def by_kernel(self, rows: RowProblems) -> tuple[Any, tuple]:
        from lemmata.completion.rows._kernels_cg import conjugate_gradient_range

        return conjugate_gradient_range, (self.steps, _first_guess(rows))


class Nonnegative:
    """Factors ≥ 0, by block principal pivoting; `start` says which are first taken to be positive."""

    def by_twin(self, rows: RowProblems) -> tuple[Array, Array]:
        return _twins.nonnegative(rows, DEPENDENT * rows.eps), np.ones(len(rows.reg), bool)

    def by_kernel(self, rows: RowProblems) -> tuple[Any, tuple]:
        from lemmata.completion.rows._kernels_nonnegative import nonnegative_range

        dependent = DEPENDENT * float(np.finfo(rows.V.dtype).eps)
        return nonnegative_range, (dependent, _first_guess(rows))


def _first_guess(rows: RowProblems) -> Array:
    """`start` as kernels take it: no rows at all where there is none."""
    from lemmata.linalg.simd import freeze

    begin = np.zeros((0, rows.unknowns)) if rows.start is None else rows.start
    return freeze(np.asarray(begin, rows.V.dtype))


# --- all rows ---------------------------------------------------------------------------------------------------------


def solve(
    rows: RowProblems, how: Method, compiled: bool | None = None, measure: bool = True
) -> tuple[Array, Array]:
    """W and the losses. Rows that are not trusted are solved again: kernels of float32 in float64, then by singular values."""
    if compiled is None:
        compiled = worth_kernels(len(rows.entries.indices), len(rows.reg), rows.unknowns)
    run = _by_kernels if compiled else _by_twins
    W, losses, sound = run(rows, how, measure)
    if compiled and rows.V.dtype == np.float32 and not sound.all():
        doubted = np.flatnonzero(~sound)
        W[doubted], losses[doubted], sound[doubted] = run(rows.take(doubted), how, measure)
    if not sound.all():
        from lemmata.completion.rows.careful import solve_carefully

        doubted = np.flatnonzero(~sound)
        W[doubted], losses[doubted] = solve_carefully(rows.take(doubted))
    return W, losses


def _by_twins(rows: RowProblems, how: Method, measure: bool) -> tuple[Array, Array, Array]:
    """W, losses, and which rows may be trusted, in float64 by NumPy."""
    wide = rows.in_float64()
    with one_blas_thread():
        W, sound = how.by_twin(wide)
        losses = _twins.losses(wide, W) if measure else np.zeros(len(W))
    return W.astype(rows.V.dtype), losses, sound


def _by_kernels(rows: RowProblems, how: Method, measure: bool) -> tuple[Array, Array, Array]:
    """The same in the dtype of V."""
    from lemmata.completion.rows._kernels import workspace
    from lemmata.linalg.simd import freeze, to_lines

    (m, k), n, dtype = rows.V.shape, len(rows.reg), rows.V.dtype
    entries = plain(rows.entries, dtype)
    arrays = (
        *entries,
        freeze(_weight_roots(rows.entries, dtype)),
        freeze(rows.entries.masses.astype(np.float64)),
        to_lines(rows.V),
        freeze(np.asarray(np.zeros(m) if rows.shift is None else rows.shift, dtype)),
        to_lines(np.asarray(np.zeros((0, k)) if rows.gram is None else rows.gram, dtype)),
        freeze(rows.reg),
        freeze(rows.bias_reg),
    )
    alpha = 1.0 if rows.alpha is None else rows.alpha
    problem = arrays, (k, rows.bias, rows.implicit, alpha, measure)
    results = np.zeros((n, rows.unknowns), dtype), np.zeros(n), np.ones(n, bool)
    fill, own = how.by_kernel(rows)

    def work(first: int, last: int) -> None:
        space = workspace(k, dtype, buffers=2 if rows.implicit else 1)
        fill(problem, *own, space, first, last, *results)

    over_ranges(work, entries[0], per_row=8 + k // 4)
    return results


@dataclass(frozen=True)
class RowSolver:
    """The best factors of every row, given those of the columns. A plain record: it can be sent to other processes.

    Parameters
    ----------
    reg : float
        λ ≥ 0. At 0 a row with too few entries gets the shortest of its solutions (with Cholesky; otherwise one of them).
    weighted : bool or float
        λ_i = λ · (number of entries of row i), or λ times this power of the number: ½ for its root, 0 for λ itself. Where
        entries have weights, their sum stands for their number.
    bias : bool
        The last unknown of a row is its bias: what multiplies 1.
    bias_reg : float, optional
        κ, the ridge on the bias, the same for rows of all lengths; by default it is λ_i.
    method : {"cholesky", "cg"}
        Solve the normal equations, or take `cg_steps` steps of conjugate gradients from `start`: 2 or 3 are enough where
        `start` is the last sweep's. Cheaper from rank 50 or so; at rank 32 Cholesky costs about as much.
    nonnegative : bool
        Factors ≥ 0 (the bias is free), exactly, whatever the method.
    implicit : bool
        ½ Σ_j c_ij (p_ij − uᵀv_j)² over *all* j: p_ij = 1 where a_ij > 0, else 0; c_ij = 1 + α|a_ij|, 1 where nothing is stored.
    measure : bool
        Whether losses are wanted; without, they are 0, and a sweep a tenth faster.
    compiled : bool, optional
        Whether kernels do the work, or their NumPy twins; by default as many entries as this call has decide. Where rows come
        in blocks their total number should.
    """

    reg: float
    weighted: bool | float = False
    bias: bool = False
    bias_reg: float | None = None
    method: str = "cholesky"
    cg_steps: int = 3
    nonnegative: bool = False
    implicit: bool = False
    alpha: float = 1.0
    measure: bool = True
    compiled: bool | None = None

    def __post_init__(self):
        if self.method not in METHODS:
            raise ValueError(
                f"method={self.method!r} is not accepted; pass one of {', '.join(METHODS)}."
            )
        if self.implicit and self.bias:
            raise ValueError(
                "implicit feedback has no biases (p is 0 or 1 already); pass bias=False."
            )
        for name, ridge in (("reg", self.reg), ("bias_reg", self.bias_reg)):
            if ridge is not None and ridge < 0:
                raise ValueError(f"{name}={ridge} is negative; a ridge is 0 or more.")

    def __call__(
        self,
        entries: Entries,
        V: Array,
        shift: Array | None = None,
        gram: Array | None = None,
        start: Array | None = None,
    ) -> tuple[Array, Array]:
        """(W, losses): w_i for every row of `entries` and the row's own objective at w_i.

        Parameters
        ----------
        entries : Entries
            Rows of n × m; read only, mapped files too. Their weights, where they have any, count in explicit feedback.
        V : (m, k)
            Factors of the columns; W has their dtype.
        shift : (m,), optional
            What is taken from a_ij first: μ + c_j. Not with implicit feedback.
        gram : (k, k), optional
            VᵀV, for implicit feedback; made here where it is not given.
        start : (n, k + bias), optional
            Where conjugate gradients begin (else at 0), or which factors are first taken to be positive (nonnegative).

        Returns
        -------
        W : (n, k + bias); zero for a row without entries
        losses : (n,) float64
            ½ Σ (a_ij − shift_j − w·[v_j, 1])² + ½ λ_i ‖w‖² (κ for the bias), or the whole objective of implicit feedback.
        """
        (m, k), n = V.shape, len(entries.indptr) - 1
        assert shift is None or shift.shape == (m,), (shift.shape, m)
        assert gram is None or gram.shape == (k, k), gram.shape
        assert start is None or start.shape == (n, k + self.bias), start.shape
        reg = self.reg * power(entries.masses, self.weighted)
        bias_reg = reg if self.bias_reg is None else np.full(len(reg), float(self.bias_reg))
        ridges = (reg, bias_reg, float(np.finfo(V.dtype).eps))
        if not self.implicit:
            rows = RowProblems(entries, V, *ridges, bool(self.bias), shift, start=start)
            return solve(rows, self.how, self.compiled, self.measure)
        if shift is not None:
            raise ValueError(
                "implicit feedback takes no shift: p is 0 or 1, whatever the size of a_ij."
            )
        if entries.weights is not None:
            raise ValueError(
                "implicit feedback has weights of its own, 1 + α a; pass entries without."
            )
        gram = V.T @ V if gram is None else gram
        rows = RowProblems(entries, V, *ridges, alpha=float(self.alpha), gram=gram, start=start)
        return solve(rows, self.how, self.compiled, self.measure)

    @property
    def how(self) -> Method:
        """The way in which rows are solved."""
        if self.nonnegative:
            return Nonnegative()
        return ConjugateGradients(self.cg_steps) if self.method == "cg" else Cholesky()


def power(counts: Array, weighted: bool | float) -> Array:
    """λ_i / λ: the number of entries, its root, or 1."""
    return counts.astype(np.float64) ** float(weighted)


def solve_rows(entries: Entries, V: Array, reg: Array | float) -> Array:
    """u_i for every row of `entries`; reg is λ or λ_i per row. With λ_i = 0 the shortest solution; 0 for an empty row."""
    reg = np.array(np.broadcast_to(np.asarray(reg, dtype=np.float64), len(entries.indptr) - 1))
    rows = RowProblems(entries, V, reg, reg, float(np.finfo(V.dtype).eps))
    return solve(rows, Cholesky(), measure=False)[0]


def worth_kernels(entries: int, rows: int, unknowns: int, fits: int = 1) -> bool:
    """Whether solving so many rows is work for kernels: k² per entry, and what LAPACK's caller pays per row; so many fits."""
    return worth_compiling(fits * (entries * unknowns**2 + rows * PER_ROW), above=TWIN_SWEEP)


# --- at the entries ---------------------------------------------------------------------------------------------------


def residuals(
    entries: Entries,
    U: Array,
    V: Array,
    row_shift: Array | None = None,
    shift: Array | None = None,
    *,
    compiled: bool | None = None,
    subtract: bool = True,
) -> Array:
    """a_ij − u_i·v_j − row_shift_i − shift_j at every known entry, in the order of the entries; subtract=False: predictions."""
    dtype = V.dtype
    if compiled is None:
        compiled = worth_compiling(len(entries.indices) * V.shape[1], above=TWIN_PASS)
    if not compiled:
        return _twin_at_entries(entries, np.asarray(U, dtype), V, row_shift, shift, subtract)
    from lemmata.completion.rows._kernels import predict_range
    from lemmata.linalg.simd import freeze, to_lines

    indptr, indices, values = plain(entries, dtype)
    offsets = [
        freeze(np.zeros(len(F), dtype) if s is None else np.asarray(s, dtype))
        for F, s in ((U, row_shift), (V, shift))
    ]
    kernel: Any = predict_range
    parts = (indptr, indices, values, to_lines(np.asarray(U, dtype)), to_lines(V), *offsets)
    out = np.empty(len(indices), dtype)

    def work(first: int, last: int) -> None:
        kernel(*parts, V.shape[1], subtract, first, last, out)

    over_ranges(work, indptr, per_row=1)
    return out


def predictions(*factors: Any, compiled: bool | None = None) -> Array:
    """u_i·v_j + row_shift_i + shift_j at every known entry, from the arguments of `residuals`."""
    return residuals(*factors, compiled=compiled, subtract=False)


def _twin_at_entries(entries: Entries, U: Array, V: Array, row_shift, shift, subtract: bool):
    indptr, indices, values = entries
    x = _twins.products(indptr, indices, U, V)
    if row_shift is not None or shift is not None:
        own = np.zeros(len(U), V.dtype) if row_shift is None else np.asarray(row_shift, V.dtype)
        other = np.zeros(len(V), V.dtype) if shift is None else np.asarray(shift, V.dtype)
        x += np.repeat(own, np.diff(indptr)) + other[indices]
    return np.asarray(values, V.dtype) - x if subtract else x


def plain(entries: Entries, dtype) -> tuple[Array, Array, Array]:
    """The arrays of entries as the kernels take them: read-only, contiguous, values of the factors' dtype."""
    from lemmata.linalg.simd import freeze

    indptr, indices, values = entries
    return (
        freeze(np.asarray(indptr, np.int64)),
        freeze(np.asarray(indices, np.int32)),
        freeze(np.asarray(values, dtype)),
    )


def _weight_roots(entries: Entries, dtype) -> Array:
    """√w of every entry for the kernels; none at all where entries have no weights."""
    w = entries.weights
    return np.zeros(0, dtype) if w is None else np.sqrt(np.asarray(w, np.float64)).astype(dtype)


def over_ranges(work: Callable[[int, int], None], indptr: Array, per_row: int) -> None:
    """work(first, last) on ranges of rows, on all cores; a row costs its entries and `per_row`.

    More ranges than threads, the largest first, since rows of ratings have very different lengths.
    """
    n, threads = len(indptr) - 1, cores()
    cost = indptr - indptr[0] + per_row * np.arange(n + 1, dtype=np.int64)
    parts = int(min(8 * threads, cost[-1] // 2**14)) + 1 if threads > 1 else 1
    cuts = np.unique(np.r_[0, np.searchsorted(cost, np.linspace(0, cost[-1], parts + 1)[1:-1]), n])
    ranges = sorted(
        zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True),
        key=lambda ab: cost[ab[0]] - cost[ab[1]],
    )
    run_tasks(lambda task: work(*ranges[task]), len(ranges))
