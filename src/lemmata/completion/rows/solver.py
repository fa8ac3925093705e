"""One ridge regression per row: the half-sweep of alternating least squares, and the fold-in of new rows (CIL 2.4.2, 2.4.5).

    u_i = argmin ½ Σ_{j∈Ω_i} (a_ij − uᵀv_j)² + ½ λ_i ‖u‖²  =  (V_Ωᵀ V_Ω + λ_i I)⁻¹ V_Ωᵀ a_Ω

Each row is its own small problem; all rows together are a half-sweep, on all cores.

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
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from lemmata.completion.observed import Entries
from lemmata.core.engine import cores

Array = np.ndarray

METHODS = ("cholesky", "cg")
STACK = 2**22  # numbers in one stack of dense rows, where rows are solved by singular values
DEPENDENT = 32  # a factor of which only so many roundings are new, given those before it, depends on them (nonnegative rows)
TRUST = 1000  # a pivot within so many roundings of nothing is not trusted; the row is then solved more carefully


@dataclass(frozen=True)
class RowSolver:
    """The best factors of every row, given those of the columns. A plain record: it can be sent to other processes.

    Parameters
    ----------
    reg : float
        λ ≥ 0. At 0 a row with too few entries gets the shortest of its solutions (with Cholesky; otherwise one of them).
    weighted : bool
        λ_i = λ · (number of entries of row i) instead of λ.
    bias : bool
        The last unknown of a row is its bias: what multiplies 1. It is regularised like the others.
    method : {"cholesky", "cg"}
        Solve the normal equations, or take `cg_steps` steps of conjugate gradients from `start`: 2 or 3 are enough where
        `start` is the last sweep's. Cheaper from rank 50 or so; at rank 32 Cholesky costs about as much.
    nonnegative : bool
        Factors ≥ 0 (the bias is free), exactly, whatever the method.
    implicit : bool
        ½ Σ_j c_ij (p_ij − uᵀv_j)² over *all* j: p_ij = 1 where a_ij > 0, else 0; c_ij = 1 + α|a_ij|, 1 where nothing is stored.
    measure : bool
        Whether losses are wanted; without, they are 0, and a sweep a tenth faster.
    """

    reg: float
    weighted: bool = False
    bias: bool = False
    method: str = "cholesky"
    cg_steps: int = 3
    nonnegative: bool = False
    implicit: bool = False
    alpha: float = 1.0
    measure: bool = True

    def __post_init__(self):
        if self.method not in METHODS:
            raise ValueError(
                f"method={self.method!r} is not accepted; pass one of {', '.join(METHODS)}."
            )
        if self.implicit and self.bias:
            raise ValueError(
                "implicit feedback has no biases (p is 0 or 1 already); pass bias=False."
            )
        if self.reg < 0:
            raise ValueError(f"reg={self.reg} is negative; a ridge is 0 or more.")

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
            Rows of n × m; read only, mapped files too.
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
            ½ Σ (a_ij − shift_j − w·[v_j, 1])² + ½ λ_i ‖w‖², or the whole objective of implicit feedback.
        """
        counts = np.diff(entries.indptr)
        reg = (
            self.reg * counts.astype(np.float64)
            if self.weighted
            else np.full(len(counts), float(self.reg))
        )
        return _solve(self, entries, V, reg, shift, gram, start)


def solve_rows(entries: Entries, V: Array, reg: Array | float) -> Array:
    """u_i for every row of `entries`; reg is λ or λ_i per row. With λ_i = 0 the shortest solution; 0 for an empty row."""
    reg = np.array(np.broadcast_to(np.asarray(reg, dtype=np.float64), len(entries.indptr) - 1))
    return _solve(RowSolver(0.0, measure=False), entries, V, reg, None, None, None)[0]


def predictions(
    entries: Entries, U: Array, V: Array, row_shift: Array | None = None, shift: Array | None = None
) -> Array:
    """u_i·v_j + row_shift_i + shift_j at every known entry, in the order of the entries."""
    return _at_entries(entries, U, V, row_shift, shift, subtract=False)


def residuals(
    entries: Entries, U: Array, V: Array, row_shift: Array | None = None, shift: Array | None = None
) -> Array:
    """a_ij − u_i·v_j − row_shift_i − shift_j at every known entry, in the order of the entries."""
    return _at_entries(entries, U, V, row_shift, shift, subtract=True)


# --- how ------------------------------------------------------------------------------------------------------------


def _at_entries(entries: Entries, U: Array, V: Array, row_shift, shift, subtract: bool) -> Array:
    from lemmata.completion.rows._kernels import predict_range
    from lemmata.linalg.simd import frozen, to_lines

    dtype = V.dtype
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


def plain(entries: Entries, dtype) -> tuple[Array, Array, Array]:
    """The arrays of entries as the kernels take them: read-only, contiguous, values of the factors' dtype."""
    from lemmata.linalg.simd import frozen

    indptr, indices, values = entries
    return (
        frozen(np.asarray(indptr, np.int64)),
        frozen(np.asarray(indices, np.int32)),
        frozen(np.asarray(values, dtype)),
    )


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
    if len(ranges) <= 1:
        for first, last in ranges:
            work(first, last)
        return
    with ThreadPoolExecutor(min(threads, len(ranges))) as pool:
        for done in [pool.submit(work, first, last) for first, last in ranges]:
            done.result()


def _solve(
    solver: RowSolver, entries: Entries, V: Array, reg: Array, shift, gram, start, eps=0.0
) -> tuple[Array, Array]:
    """All rows, with λ_i of their own; those that the kernel does not vouch for are solved again, more carefully.

    eps : the rounding that V and the values have been through, where it is more than their dtype's
    """
    from lemmata.completion.rows._kernels import solve_range, workspace
    from lemmata.linalg.simd import frozen, to_lines

    (m, k), n, dtype = V.shape, len(entries.indptr) - 1, V.dtype
    if solver.implicit and shift is not None:
        raise ValueError(
            "implicit feedback takes no shift: p is 0 or 1, whatever the size of a_ij."
        )
    if solver.implicit and gram is None:
        gram = V.T @ V
    G = np.asarray(gram if solver.implicit else np.zeros((0, k)), dtype)
    shift_ = np.zeros(m) if shift is None else shift
    begin = np.asarray(np.zeros((0, k + solver.bias)) if start is None else start, dtype)
    assert shift_.shape == (m,), (shift_.shape, m)
    assert G.shape == (k if solver.implicit else 0, k), G.shape
    assert begin.shape == (n if start is not None else 0, k + solver.bias), begin.shape
    indptr, indices, values = plain(entries, dtype)
    data = (
        indptr,
        indices,
        values,
        to_lines(V),
        frozen(np.asarray(shift_, dtype)),
        to_lines(G),
        frozen(reg),
        k,
    )
    problem = (
        *data,
        bool(solver.bias),
        bool(solver.implicit),
        float(solver.alpha),
        bool(solver.measure),
    )
    W, losses, sound = np.zeros((n, k + solver.bias), dtype), np.zeros(n), np.ones(n, bool)
    rounding = float(np.finfo(dtype).eps)
    # without a ridge the rank is in question, and a square of what went through rounding is nothing
    trust = frozen(np.where(reg > 0, TRUST * rounding, max(TRUST * rounding, (TRUST * eps) ** 2)))

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
        kernel, more, results = solve_range, (trust,), (W, losses, sound)

    def work(first: int, last: int) -> None:
        space = workspace(k, dtype, buffers=2 if solver.implicit else 1)
        kernel(*problem, *more, space, first, last, *results)

    over_ranges(work, indptr, per_row=8 + k // 4)
    doubted = np.flatnonzero(~sound)
    if len(doubted) == 0:
        return W, losses
    rows = _taken(entries, doubted)
    if dtype == np.float32:
        V = V.astype(np.float64)
        shift, gram = (
            None if shift is None else shift.astype(np.float64),
            V.T @ V if solver.implicit else None,
        )
        W[doubted], losses[doubted] = _solve(
            solver, rows, V, reg[doubted], shift, gram, None, rounding
        )
    else:
        eps = max(eps, rounding)
        W[doubted], losses[doubted] = _solve_carefully(
            solver, rows, V, reg[doubted], shift, gram, eps
        )
    return W, losses


def _taken(entries: Entries, rows: Array) -> Entries:
    """Some rows of the entries, values in float64."""
    indptr, indices, values = entries
    counts = (indptr[1:] - indptr[:-1])[rows]
    pointers = np.r_[0, np.cumsum(counts)].astype(np.int64)
    places = np.repeat(indptr[rows] - pointers[:-1], counts) + np.arange(pointers[-1])
    return Entries(pointers, indices[places], np.asarray(values[places], np.float64))


def _solve_carefully(
    solver: RowSolver, entries: Entries, V: Array, reg: Array, shift, gram, eps
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
            if solver.bias:
                X = np.concatenate([X, inside[..., None]], axis=2)
            W[rows], losses[rows] = _ridge_stack(X, a, reg[rows], eps)
    return W, losses


def _ridge_stack(X: Array, a: Array, reg: Array, eps: float) -> tuple[Array, Array]:
    """min ½‖a − Xw‖² + ½λ‖w‖² for every item of a stack, the shortest w where λ = 0."""
    finite = np.isfinite(X).all(axis=(1, 2)) & np.isfinite(a).all(axis=1)
    P, s, Qt = np.linalg.svd(np.where(finite[:, None, None], X, 0), full_matrices=False)
    noise = eps * max(X.shape[1:]) * s[:, :1]  # singular values that are rounding
    keep = (s > noise) | (reg[:, None] > noise**2)
    safe = np.where(keep & (s > 0), s**2 + reg[:, None], 1)
    c = np.where(keep, s / safe, 0) * np.einsum("rni,rn->ri", P, a)
    w = np.where(finite[:, None], np.einsum("ri,rij->rj", c, Qt), np.nan)
    left = a - np.einsum("rnj,rj->rn", X, w)
    return w, 0.5 * (left**2).sum(axis=1) + 0.5 * reg * (w**2).sum(axis=1)


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
