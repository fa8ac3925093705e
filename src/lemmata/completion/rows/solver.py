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
from typing import Any

import numpy as np

from lemmata.completion.data.entries import Entries, WeightedEntries
from lemmata.core.engine import cores, one_blas_thread, run_tasks, worth_compiling

Array = np.ndarray

METHODS = ("cholesky", "cg")
STACK = 2**22  # numbers in one stack of dense rows, where rows are solved by singular values
DEPENDENT = 32  # a factor of which only so many roundings are new, given those before it, depends on them (nonnegative rows)
# multiplications of a sweep that NumPy does in some 50 ms, four times as long as kernels take
TWIN_SWEEP = 40e6
TWIN_PASS = 2**23  # and of a pass over the entries
PER_ROW = 5000  # multiplications in the time that LAPACK's caller takes for one small system
TRUST = 1000  # a pivot within so many roundings of nothing is not trusted; the row is then solved more carefully


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
        reg = self.reg * power(entries.masses, self.weighted)
        bias_reg = reg if self.bias_reg is None else np.full(len(reg), float(self.bias_reg))
        return _solve(self, entries, V, reg, bias_reg, shift, gram, start)


def power(counts: Array, weighted: bool | float) -> Array:
    """λ_i / λ: the number of entries, its root, or 1."""
    return counts.astype(np.float64) ** float(weighted)


def solve_rows(entries: Entries, V: Array, reg: Array | float) -> Array:
    """u_i for every row of `entries`; reg is λ or λ_i per row. With λ_i = 0 the shortest solution; 0 for an empty row."""
    reg = np.array(np.broadcast_to(np.asarray(reg, dtype=np.float64), len(entries.indptr) - 1))
    return _solve(RowSolver(0.0, measure=False), entries, V, reg, reg, None, None, None)[0]


def predictions(
    entries: Entries,
    U: Array,
    V: Array,
    row_shift: Array | None = None,
    shift: Array | None = None,
    *,
    compiled: bool | None = None,
) -> Array:
    """u_i·v_j + row_shift_i + shift_j at every known entry, in the order of the entries."""
    return _at_entries(entries, U, V, row_shift, shift, False, compiled)


def residuals(
    entries: Entries,
    U: Array,
    V: Array,
    row_shift: Array | None = None,
    shift: Array | None = None,
    *,
    compiled: bool | None = None,
) -> Array:
    """a_ij − u_i·v_j − row_shift_i − shift_j at every known entry, in the order of the entries."""
    return _at_entries(entries, U, V, row_shift, shift, True, compiled)


def worth_kernels(entries: int, rows: int, unknowns: int, fits: int = 1) -> bool:
    """Whether solving so many rows is work for kernels: k² per entry, and what LAPACK's caller pays per row; so many fits."""
    return worth_compiling(fits * (entries * unknowns**2 + rows * PER_ROW), above=TWIN_SWEEP)


# --- how ------------------------------------------------------------------------------------------------------------


def _at_entries(
    entries: Entries, U: Array, V: Array, row_shift, shift, subtract: bool, compiled: bool | None
) -> Array:
    dtype = V.dtype
    if compiled is None:
        compiled = worth_compiling(len(entries.indices) * V.shape[1], above=TWIN_PASS)
    if not compiled:
        return _twin_at_entries(entries, np.asarray(U, dtype), V, row_shift, shift, subtract)
    from lemmata.completion.rows._kernels import predict_range
    from lemmata.linalg.simd import frozen, to_lines

    indptr, indices, values = plain(entries, dtype)
    offsets = [
        frozen(np.zeros(len(F), dtype) if s is None else np.asarray(s, dtype))
        for F, s in ((U, row_shift), (V, shift))
    ]
    kernel: Any = predict_range
    parts = (indptr, indices, values, to_lines(np.asarray(U, dtype)), to_lines(V), *offsets)
    out = np.empty(len(indices), dtype)

    def work(first: int, last: int) -> None:
        kernel(*parts, V.shape[1], subtract, first, last, out)

    over_ranges(work, indptr, per_row=1)
    return out


def _twin_at_entries(entries: Entries, U: Array, V: Array, row_shift, shift, subtract: bool):
    from lemmata.completion.rows._twins import products

    indptr, indices, values = entries
    x = products(indptr, indices, U, V)
    if row_shift is not None or shift is not None:
        own = np.zeros(len(U), V.dtype) if row_shift is None else np.asarray(row_shift, V.dtype)
        other = np.zeros(len(V), V.dtype) if shift is None else np.asarray(shift, V.dtype)
        x += np.repeat(own, np.diff(indptr)) + other[indices]
    return np.asarray(values, V.dtype) - x if subtract else x


def plain(entries: Entries, dtype) -> tuple[Array, Array, Array]:
    """The arrays of entries as the kernels take them: read-only, contiguous, values of the factors' dtype."""
    from lemmata.linalg.simd import frozen

    indptr, indices, values = entries
    return (
        frozen(np.asarray(indptr, np.int64)),
        frozen(np.asarray(indices, np.int32)),
        frozen(np.asarray(values, dtype)),
    )


def roots_of(entries: Entries, dtype) -> Array:
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


def _solve(
    solver: RowSolver, entries: Entries, V: Array, reg: Array, bias_reg: Array, shift, gram, start
) -> tuple[Array, Array]:
    """All rows, with λ_i and κ_i of their own; those that are not vouched for are solved again, more carefully."""
    (m, k), n, dtype = V.shape, len(entries.indptr) - 1, V.dtype
    if solver.implicit and shift is not None:
        raise ValueError(
            "implicit feedback takes no shift: p is 0 or 1, whatever the size of a_ij."
        )
    if solver.implicit and entries.weights is not None:
        raise ValueError("implicit feedback has weights of its own, 1 + α a; pass entries without.")
    if solver.implicit and gram is None:
        gram = V.T @ V
    assert shift is None or shift.shape == (m,), (shift.shape, m)
    assert gram is None or gram.shape == (k, k), gram.shape
    assert start is None or start.shape == (n, k + solver.bias), start.shape
    compiled, eps = solver.compiled, float(np.finfo(dtype).eps)
    if compiled is None:
        compiled = worth_kernels(len(entries.indices), n, k + solver.bias)
    wide = V.astype(np.float64)
    more = None if shift is None else np.asarray(shift, np.float64)
    if not compiled:
        twin = _solve_by_twins(solver, entries, wide, reg, bias_reg, more, gram, start, eps)
        W, losses, sound = twin[0].astype(dtype), *twin[1:]
    else:
        W, losses, sound = _solve_by_kernels(
            solver, entries, V, reg, bias_reg, shift, gram, start, eps
        )
        if dtype == np.float32 and not sound.all():  # once more, in float64
            doubted = np.flatnonzero(~sound)
            ridges, G = (
                (reg[doubted], bias_reg[doubted]),
                wide.T @ wide if solver.implicit else None,
            )
            again = _solve_by_kernels(
                solver, _taken(entries, doubted), wide, *ridges, more, G, None, eps
            )
            W[doubted], losses[doubted], sound[doubted] = again
    doubted = np.flatnonzero(~sound)
    if len(doubted):
        rows, ridges = _taken(entries, doubted), (reg[doubted], bias_reg[doubted])
        gram = wide.T @ wide if solver.implicit else None
        W[doubted], losses[doubted] = _solve_carefully(solver, rows, wide, *ridges, more, gram, eps)
    return W, losses


def _trust(reg: Array, rounding: float, eps: float) -> Array:
    """How small a pivot may be beside its diagonal entry.

    Without a ridge the rank is in question, and a square of what went through rounding of eps is nothing.
    """
    return np.where(reg > 0, TRUST * rounding, max(TRUST * rounding, (TRUST * eps) ** 2))


def _solve_by_twins(
    solver: RowSolver, entries: Entries, V: Array, reg: Array, bias_reg: Array, shift, gram, start, eps: float
) -> tuple[Array, Array, Array]:  # fmt: skip
    """W, losses, and which rows may be trusted, in float64 by NumPy."""
    from lemmata.completion.rows import _twins

    indptr, indices, values = entries
    rows = _twins.Rows(
        np.asarray(indptr, np.int64),
        np.asarray(indices),
        np.asarray(values, np.float64),
        V,
        np.zeros(len(V)) if shift is None else shift,
        np.zeros((0, V.shape[1])) if gram is None else np.asarray(gram, np.float64),
        reg,
        bias_reg,
        bool(solver.bias),
        bool(solver.implicit),
        float(solver.alpha),
        None if entries.weights is None else np.asarray(entries.weights, np.float64),
    )
    begin = None if start is None else np.asarray(start, np.float64)
    sound = np.ones(len(reg), bool)
    with one_blas_thread():
        if solver.nonnegative:
            W = _twins.nonnegative(rows, DEPENDENT * eps, begin)
        elif solver.method == "cg":
            W = _twins.conjugate_gradients(rows, solver.cg_steps, begin, eps)
        else:
            own = float(np.finfo(np.float64).eps)
            W, sound = _twins.solve(rows, _trust(reg, own, eps if eps > own else 0.0))
        losses = _twins.losses(rows, W) if solver.measure else np.zeros(len(reg))
    return W, losses, sound


def _solve_by_kernels(
    solver: RowSolver, entries: Entries, V: Array, reg: Array, bias_reg: Array, shift, gram, start, eps: float
) -> tuple[Array, Array, Array]:  # fmt: skip
    """The same in the dtype of V; eps: the rounding that V and the values have been through."""
    from lemmata.completion.rows._kernels import solve_range, workspace
    from lemmata.linalg.simd import frozen, to_lines

    (m, k), n, dtype = V.shape, len(entries.indptr) - 1, V.dtype
    G = np.asarray(gram if solver.implicit else np.zeros((0, k)), dtype)
    begin = np.asarray(np.zeros((0, k + solver.bias)) if start is None else start, dtype)
    indptr, indices, values = plain(entries, dtype)
    problem = (
        indptr,
        indices,
        values,
        frozen(roots_of(entries, dtype)),
        frozen(entries.masses.astype(np.float64)),
        to_lines(V),
        frozen(np.asarray(np.zeros(m) if shift is None else shift, dtype)),
        to_lines(G),
        frozen(reg),
        frozen(bias_reg),
        k,
        bool(solver.bias),
        bool(solver.implicit),
        float(solver.alpha),
        bool(solver.measure),
    )
    W, losses, sound = np.zeros((n, k + solver.bias), dtype), np.zeros(n), np.ones(n, bool)
    rounding = float(np.finfo(dtype).eps)
    kernel: Any
    more: tuple[Any, ...]
    results: tuple[Array, ...]
    if solver.nonnegative:
        from lemmata.completion.rows._kernels_nonnegative import nonnegative_range as kernel

        more, results = (DEPENDENT * rounding, frozen(begin)), (W, losses)
    elif solver.method == "cg":
        from lemmata.completion.rows._kernels_cg import conjugate_gradient_range as kernel

        more, results = (solver.cg_steps, frozen(begin)), (W, losses)
    else:
        trust = frozen(_trust(reg, rounding, eps if eps > rounding else 0.0))
        kernel, more, results = solve_range, (trust,), (W, losses, sound)

    def work(first: int, last: int) -> None:
        space = workspace(k, dtype, buffers=2 if solver.implicit else 1)
        kernel(*problem, *more, space, first, last, *results)

    over_ranges(work, indptr, per_row=8 + k // 4)
    return W, losses, sound


def _taken(entries: Entries, rows: Array) -> Entries:
    """Some rows of the entries, values in float64."""
    indptr, indices, values = entries
    counts = (indptr[1:] - indptr[:-1])[rows]
    pointers = np.r_[0, np.cumsum(counts)].astype(np.int64)
    places = np.repeat(indptr[rows] - pointers[:-1], counts) + np.arange(pointers[-1])
    taken = Entries(pointers, indices[places], np.asarray(values[places], np.float64))
    if entries.weights is None:
        return taken
    return WeightedEntries.of(taken, np.asarray(entries.weights[places], np.float64))


def _solve_carefully(
    solver: RowSolver, entries: Entries, V: Array, reg: Array, bias_reg: Array, shift, gram, eps
) -> tuple[Array, Array]:
    """Rows whose normal equations are singular, or nearly: by singular values, in stacks of rows of about the same length."""
    indptr, indices, values = entries
    counts, n, d = np.diff(indptr), len(reg), V.shape[1] + solver.bias
    W, losses = np.zeros((n, d)), np.zeros(n)
    # a row is filled up with zeros to a power of 2
    sizes = 2 ** np.ceil(np.log2(np.maximum(counts, 1))).astype(np.int64)
    for size in np.unique(sizes).tolist():
        same = np.flatnonzero(sizes == size)
        for rows in np.array_split(same, -(-len(same) * size * d // STACK)):
            inside = np.arange(size) < counts[rows, None]
            places = np.where(inside, indptr[rows, None] + np.arange(size), 0)
            j, a = indices[places], np.where(inside, values[places], 0)
            X = np.where(inside[..., None], V[j], 0)
            if solver.implicit:
                W[rows], losses[rows] = _implicit_stack(X, a, reg[rows], gram, solver.alpha, eps)
                continue
            if shift is not None:
                a = np.where(inside, a - shift[j], 0)
            ridge = np.repeat(reg[rows, None], d, axis=1)
            if solver.bias:
                X = np.concatenate([X, inside[..., None]], axis=2)
                ridge[:, -1] = bias_reg[rows]
            if entries.weights is not None:
                root = np.sqrt(entries.weights[places])  # X and a are 0 where nothing is inside
                X, a = root[..., None] * X, root * a
            W[rows], losses[rows] = _ridge_stack(X, a, ridge, eps)
    return W, losses


def _ridge_stack(X: Array, a: Array, ridge: Array, eps: float) -> tuple[Array, Array]:
    """min ½‖a − Xw‖² + ½ wᵀΛw for every item of a stack, Λ diagonal; the shortest w where it is not unique.

    The penalty is d more equations √Λ w = 0: squaring nothing, this keeps the digits that normal equations lose.
    """
    finite = np.isfinite(X).all(axis=(1, 2)) & np.isfinite(a).all(axis=1)
    more = np.sqrt(ridge)[:, :, None] * np.eye(ridge.shape[1])
    X = np.concatenate([np.where(finite[:, None, None], X, 0), more], axis=1)
    a = np.concatenate([a, np.zeros_like(ridge)], axis=1)
    P, s, Qt = np.linalg.svd(X, full_matrices=False)
    keep = s > eps * max(X.shape[1:]) * s[:, :1]  # the others are rounding
    c = np.where(keep, 1 / np.where(keep, s, 1), 0) * np.einsum("rni,rn->ri", P, a)
    w = np.where(finite[:, None], np.einsum("ri,rij->rj", c, Qt), np.nan)
    left = a - np.einsum("rnj,rj->rn", X, w)
    return w, 0.5 * (left**2).sum(axis=1)


def _implicit_stack(
    X: Array, a: Array, reg: Array, gram: Array, alpha: float, eps: float
) -> tuple[Array, Array]:
    """The same for implicit feedback, by the eigenvalues of G + Σ (c − 1) v vᵀ + λI."""
    finite = np.isfinite(X).all(axis=(1, 2)) & np.isfinite(a).all(axis=1) & np.isfinite(gram).all()
    X, gram = np.where(finite[:, None, None], X, 0), np.where(np.isfinite(gram), gram, 0)
    more, liked = alpha * np.abs(a), a > 0
    M = gram + np.einsum("rn,rni,rnj->rij", more, X, X) + reg[:, None, None] * np.eye(len(gram))
    b = np.einsum("rn,rni->ri", (1 + more) * liked, X)
    e, Q = np.linalg.eigh(M)
    keep = e > eps * len(gram) * e[:, -1:]
    c = np.where(keep, np.einsum("rij,ri->rj", Q, b) / np.where(keep, e, 1), 0)
    w = np.where(finite[:, None], np.einsum("rij,rj->ri", Q, c), np.nan)
    constant = ((1 + more) * liked).sum(axis=1)
    return w, 0.5 * (constant - 2 * (w * b).sum(axis=1) + np.einsum("ri,rij,rj->r", w, M, w))
