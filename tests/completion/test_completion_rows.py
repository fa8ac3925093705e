"""The row solvers against slow twins that write down each row's problem and solve it with NumPy."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import nnls

from lemmata.completion import Observed
from lemmata.completion.observed import Entries
from lemmata.completion.rows.solver import RowSolver, predictions, residuals, solve_rows
from lemmata.core import rounding

TYPES = [np.float32, np.float64]
RANKS = [
    1,
    3,
    8,
    16,
    20,
    33,
    64,
]  # about one, two and many lines of numbers; panels of six that fit and that do not
KINDS = {
    "plain": {},
    "bias": {"bias": True},
    "weighted bias": {"bias": True, "weighted": True},
    "implicit": {"implicit": True, "alpha": 3.0},
}


def problem(seed, dtype=np.float64, n=12, m=150, k=8, density=0.6):
    """Rows of every length: none, one entry, a few, many; with a shift for the columns."""
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((n, m))
    A[rng.random((n, m)) > density] = np.nan
    A[3], A[4, 1:], A[5, 5:] = np.nan, np.nan, np.nan
    A[4, 0], A[6, :10] = 1.0, 0.0
    entries = Observed.of(A.astype(dtype)).by_row
    V = (rng.standard_normal((m, k)) / np.sqrt(k)).astype(dtype)
    return entries, V, rng.standard_normal(m).astype(dtype)


def each_row(entries, V, shift, solver):
    """i, design X, target a, weights c and λ of every row's least squares ½ Σ c (a − Xw)² + ½ λ ‖w‖², in float64."""
    V64, m = V.astype(np.float64), len(V)
    for i in range(len(entries.indptr) - 1):
        here = slice(entries.indptr[i], entries.indptr[i + 1])
        j, a = entries.indices[here], entries.values[here].astype(np.float64)
        reg = solver.reg * (len(a) if solver.weighted else 1)
        if solver.implicit:  # every column counts
            target, c = np.zeros(m), np.ones(m)
            target[j], c[j] = a > 0, 1 + solver.alpha * np.abs(a)
            yield i, V64, target, c, reg
        else:
            X = np.c_[V64[j], np.ones(len(j))] if solver.bias else V64[j]
            yield i, X, a - (0 if shift is None else shift[j]), np.ones(len(j)), reg


def gradient_and_size(X, a, c, reg, w):
    """The gradient of a row's objective, and the size of what it is the difference of, in the norm of its matrix."""
    w = w.astype(np.float64)
    M = (X.T * c) @ X + reg * np.eye(X.shape[1])
    # Cholesky errs by about d·eps·√(m_ii m_jj) in m_ij (Higham, Theorem 10.3)
    scale = np.sqrt(np.diag(M))
    return M @ w - X.T @ (c * a), scale * (np.linalg.norm(np.sqrt(c) * a) + scale @ np.abs(w))


def loss(X, a, c, reg, w):
    w = w.astype(np.float64)
    return 0.5 * (c * (a - X @ w) ** 2).sum() + 0.5 * reg * w @ w


def solve(solver, entries, V, shift, **more):
    return solver(entries, V, None if solver.implicit else shift, **more)


# --- exact rows -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("k", RANKS)
def test_cholesky_rows_solve_the_normal_equations_to_rounding(k, kind, dtype):
    solver = RowSolver(0.5, **KINDS[kind])
    for seed in range(3):
        entries, V, shift = problem(seed, dtype, k=k)
        W, losses = solve(solver, entries, V, shift)
        assert W.dtype == dtype
        assert W.shape == (12, k + solver.bias)
        assert losses.dtype == np.float64
        for i, X, a, c, reg in each_row(entries, V, shift, solver):
            g, size = gradient_and_size(X, a, c, reg, W[i])
            assert (np.abs(g) <= rounding(dtype, len(a) + k) * size).all()


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "how", [{}, {"method": "cg"}, {"nonnegative": True}], ids=["cholesky", "cg", "nonnegative"]
)
def test_losses_are_the_objective_at_the_rows_that_are_returned(how, kind, dtype):
    solver = RowSolver(0.5, **KINDS[kind], **how)
    for seed in range(3):
        entries, V, shift = problem(seed, dtype, k=20)
        W, losses = solve(solver, entries, V, shift)
        for i, X, a, c, reg in each_row(entries, V, shift, solver):
            size = loss(np.abs(X), -np.abs(a), c, reg, np.abs(W[i]))
            assert abs(losses[i] - loss(X, a, c, reg, W[i])) <= rounding(dtype, len(a)) * size


@pytest.mark.parametrize("dtype", TYPES)
def test_without_measuring_the_rows_are_the_same_and_losses_zero(dtype):
    entries, V, shift = problem(0, dtype)
    solver = RowSolver(0.5, bias=True)
    W, losses = replace(solver, measure=False)(entries, V, shift)
    assert np.array_equal(W, solver(entries, V, shift)[0])
    assert (losses == 0).all()


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "how", [{}, {"method": "cg"}, {"nonnegative": True}], ids=["cholesky", "cg", "nonnegative"]
)
def test_a_row_without_entries_is_zero_and_costs_nothing(how, kind, dtype):
    entries, V, shift = problem(0, dtype)
    solver = RowSolver(0.5, **KINDS[kind], **how)
    start = np.ones((12, V.shape[1] + solver.bias), dtype)
    W, losses = solve(solver, entries, V, shift, start=start)
    assert (W[3] == 0).all()
    assert losses[3] == 0


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(("k", "m"), [(40, 3000), (200, 600)])
def test_rows_longer_than_the_buffer_are_summed_in_chunks(k, m, dtype):
    entries, V, shift = problem(0, dtype, m=m, k=k, density=0.9)
    solver = RowSolver(2.0, bias=True)
    W, _ = solver(entries, V, shift)
    for i, X, a, c, reg in each_row(entries, V, shift, solver):
        g, size = gradient_and_size(X, a, c, reg, W[i])
        assert (np.abs(g) <= rounding(dtype, len(a) + k) * size).all()


@settings(max_examples=40)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(0, 9),
    m=st.integers(0, 30),
    k=st.integers(1, 12),
    density=st.floats(0, 1),
    kind=st.sampled_from(sorted(KINDS)),
    how=st.sampled_from([{}, {"method": "cg", "cg_steps": 200}]),
    reg=st.sampled_from([0.1, 1.0, 30.0]),
)
def test_any_pattern_of_entries_is_solved(seed, n, m, k, density, kind, how, reg):
    rng = np.random.default_rng(seed)
    A = np.where(rng.random((n, m)) < density, rng.standard_normal((n, m)), np.nan)
    rows, columns = np.nonzero(~np.isnan(A))
    entries = Observed.from_triplets(rows, columns, A[rows, columns], (n, m)).by_row
    V, shift = rng.standard_normal((m, k)), rng.standard_normal(m)
    solver = RowSolver(reg, **KINDS[kind], **how)
    W, losses = solve(solver, entries, V, shift)
    assert W.shape == (n, k + solver.bias)
    assert losses.shape == (n,)
    for i, X, a, c, own in each_row(entries, V, shift, solver):
        if entries.indptr[i] == entries.indptr[i + 1]:
            assert (W[i] == 0).all()
            continue
        g, size = gradient_and_size(X, a, c, own, W[i])
        assert (np.abs(g) <= rounding(np.float64, len(a) + k) * size).all()


# --- no ridge ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("bias", [False, True])
def test_without_a_ridge_rows_are_the_shortest_least_squares_solutions(bias, dtype):
    for seed in range(4):
        # around as many entries as unknowns
        entries, V, shift = problem(seed, dtype, k=9, density=0.08)
        V[:, 4], V[:, 7] = V[:, 2] + V[:, 3], 0  # two factors too many for any row
        W, _ = RowSolver(0.0, bias=bias)(entries, V, shift)
        for i, X, a, _, _ in each_row(entries, V, shift, RowSolver(0.0, bias=bias)):
            P, s, Qt = np.linalg.svd(X, full_matrices=False)
            real = s > np.finfo(dtype).eps * max(X.shape) * s.max(initial=0)
            w = Qt[real].T @ ((P[:, real].T @ a) / s[real])
            condition = s[real].max(initial=1) / s[real].min(initial=1)
            assert np.abs(W[i] - w).max() <= rounding(dtype, 10) * condition**2 * (
                1 + np.abs(w).max()
            )


@pytest.mark.parametrize("dtype", TYPES)
def test_solve_rows_takes_a_ridge_per_row(dtype):
    entries, V, _ = problem(1, dtype, k=5)
    reg = np.linspace(0, 3, 12)
    U = solve_rows(entries, V, reg)
    assert U.dtype == dtype
    for i, X, a, c, _ in each_row(entries, V, None, RowSolver(0.0)):
        if reg[i] > 0:
            g, size = gradient_and_size(X, a, c, reg[i], U[i])
            assert (np.abs(g) <= rounding(dtype, len(a) + 5) * size).all()
        else:
            assert np.allclose(
                U[i], np.linalg.lstsq(X, a, rcond=None)[0], rtol=rounding(dtype, 1000)
            )
    assert np.array_equal(solve_rows(entries, V, 0.7), solve_rows(entries, V, np.full(12, 0.7)))


def test_many_rows_with_too_few_entries_are_solved_in_stacks():
    rng = np.random.default_rng(0)
    n, per, k = 3000, 4, 10
    indices = np.concatenate([np.sort(rng.permutation(50)[:per]) for _ in range(n)]).astype(
        np.int32
    )
    entries = Entries(np.arange(n + 1) * per, indices, rng.standard_normal(n * per))
    V = rng.standard_normal((50, k))
    U = solve_rows(entries, V, 0.0)
    left = residuals(entries, U, V)
    assert np.abs(left).max() < 1e-9  # fewer equations than unknowns: all hold
    row = indices[:per]
    assert np.allclose(U[0], np.linalg.pinv(V[row]) @ entries.values[:per])


def test_a_ridge_that_float32_loses_is_solved_in_float64():
    """Two equal factors of size 300 and λ = 1e-3: the ridge is 1e-9 of the diagonal, below the rounding of float32."""
    rng = np.random.default_rng(0)
    entries, V, _ = problem(2, np.float32, k=4)
    V *= 300
    V[:, 3] = V[:, 2]
    entries = entries._replace(values=rng.standard_normal(len(entries.values)).astype(np.float32))
    solver = RowSolver(1e-3)
    W, losses = solver(entries, V)
    for i, X, a, c, reg in each_row(entries, V, None, solver):
        best = np.linalg.solve(X.T @ X + reg * np.eye(4), X.T @ a)
        assert np.allclose(W[i], best, rtol=1e-4, atol=1e-5 * np.abs(best).max(initial=0))
        assert losses[i] <= loss(X, a, c, reg, best) * (1 + 1e-6)


def test_implicit_rows_without_a_ridge_and_with_dependent_factors_reach_the_minimum():
    entries, V, _ = problem(3, np.float64, k=6)
    V[:, 5] = V[:, 0] - V[:, 1]
    solver = RowSolver(0.0, implicit=True, alpha=2.0)
    W, losses = solver(entries, V)
    for i, X, a, c, reg in each_row(entries, V, None, solver):
        g, size = gradient_and_size(X, a, c, reg, W[i])
        assert np.linalg.norm(g) <= rounding(np.float64, 1000) * np.linalg.norm(size)
        assert losses[i] == pytest.approx(loss(X, a, c, reg, W[i]), rel=1e-12)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("kind", KINDS)
def test_factors_that_are_not_finite_spoil_their_rows_and_no_others(kind, dtype):
    entries, V, shift = problem(0, dtype)
    solver = RowSolver(0.5, **KINDS[kind])
    V[0] = np.nan
    W, _ = solve(solver, entries, V, shift)
    if solver.implicit:  # every column counts in every row that has entries
        assert np.isnan(np.delete(W, 3, axis=0)).all()
        return
    touched = np.array(
        [
            0 in entries.indices[s:e]
            for s, e in zip(entries.indptr[:-1], entries.indptr[1:], strict=True)
        ]
    )
    assert touched.any()
    assert not touched.all()
    assert np.isnan(W[touched]).all()
    assert np.isfinite(W[~touched]).all()


# --- conjugate gradients ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("kind", KINDS)
def test_many_steps_of_conjugate_gradients_reach_the_exact_row(kind, dtype):
    solver = RowSolver(0.5, **KINDS[kind])
    for k in (1, 5, 33):
        entries, V, shift = problem(k, dtype, k=k)
        exact, _ = solve(solver, entries, V, shift)
        W, _ = solve(replace(solver, method="cg", cg_steps=5 * k + 20), entries, V, shift)
        for i, X, _, c, reg in each_row(entries, V, shift, solver):
            condition = np.linalg.cond((X.T * c) @ X + reg * np.eye(X.shape[1])) if len(X) else 1
            assert np.abs(W[i] - exact[i]).max() <= rounding(dtype, k) * condition * (
                1 + np.abs(exact[i]).max()
            )


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("steps", [0, 1, 3, 30])
def test_conjugate_gradients_never_end_above_their_start(steps, kind, dtype):
    solver = RowSolver(0.3, **KINDS[kind], method="cg", cg_steps=steps)
    for seed in range(3):
        entries, V, shift = problem(seed, dtype, k=17)
        exact, _ = solve(replace(solver, method="cholesky"), entries, V, shift)
        rng = np.random.default_rng(seed)
        for start in (rng.standard_normal(exact.shape).astype(dtype), exact):
            W, losses = solve(solver, entries, V, shift, start=start)
            for i, X, a, c, reg in each_row(entries, V, shift, solver):
                if entries.indptr[i] < entries.indptr[i + 1]:
                    before = loss(X, a, c, reg, start[i])
                    size = loss(np.abs(X), -np.abs(a), c, reg, np.abs(start[i]))
                    assert losses[i] <= before + rounding(dtype, len(a)) * size
            assert steps > 0 or np.array_equal(np.delete(W, 3, axis=0), np.delete(start, 3, axis=0))


def test_more_steps_of_conjugate_gradients_are_never_worse():
    entries, V, shift = problem(0, k=30)
    solver = RowSolver(0.1, bias=True, method="cg")
    falls = np.array([replace(solver, cg_steps=steps)(entries, V, shift)[1] for steps in range(12)])
    assert (np.diff(falls, axis=0) <= 1e-12 * falls[0]).all()


def test_factors_of_very_different_sizes_do_not_slow_conjugate_gradients():
    """Steps are scaled by the diagonal: other units for the factors (and λ ≈ 0) give the same predictions."""
    entries, V, shift = problem(1, k=10)
    scale = 2.0 ** np.arange(-10, 10, 2)
    solver = RowSolver(1e-12, method="cg", cg_steps=4)
    W, losses = solver(entries, V, shift)
    scaled, again = solver(entries, V * scale, shift)
    # with fewer entries than factors it is λ that decides, and λ has units
    long = np.diff(entries.indptr) >= 10
    assert np.allclose(again[long], losses[long], rtol=1e-6)
    assert np.allclose((scaled * scale)[long], W[long], rtol=1e-5, atol=1e-6)


# --- nonnegative ------------------------------------------------------------------------------------------------------


def assert_kkt(X, a, c, reg, w, k, dtype):
    """w ≥ 0, gradient ≥ 0, and one of the two is 0; to the rounding of the system in `dtype`."""
    g, size = gradient_and_size(X, a, c, reg, w)
    error = rounding(dtype, len(a) + len(w)) * size
    assert (w[:k] >= 0).all()
    assert (g[:k] >= -error[:k]).all()
    positive = np.r_[w[:k] > 0, np.ones(len(w) - k, bool)]
    assert (np.abs(g) <= error)[positive].all()


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("kind", KINDS)
def test_nonnegative_rows_fulfil_the_kkt_conditions(kind, dtype):
    solver = RowSolver(0.5, **KINDS[kind], nonnegative=True)
    for k in (1, 7, 40):
        entries, V, shift = problem(k, dtype, k=k)
        cold, _ = solve(solver, entries, V, shift)
        rng = np.random.default_rng(k)
        warm, _ = solve(
            solver, entries, V, shift, start=rng.standard_normal(cold.shape).astype(dtype)
        )
        for W in (cold, warm):
            for i, X, a, c, reg in each_row(entries, V, shift, solver):
                if entries.indptr[i] < entries.indptr[i + 1]:
                    assert_kkt(X, a, c, reg, W[i], k, dtype)


def test_nonnegative_rows_agree_with_scipy():
    solver = RowSolver(0.5, nonnegative=True)
    for seed in range(3):
        entries, V, shift = problem(seed, k=15)
        W, _ = solver(entries, V, shift)
        for i, X, a, _, reg in each_row(entries, V, shift, solver):
            w, _ = nnls(np.r_[X, np.sqrt(reg) * np.eye(15)], np.r_[a, np.zeros(15)])
            assert np.allclose(W[i], w, atol=1e-10)


def test_nonnegative_rows_reach_the_minimum_where_factors_depend_on_each_other():
    for seed in range(5):
        entries, V, shift = problem(seed, k=8, density=0.1)
        V[:, 6], V[:, 7] = V[:, 1], 0
        W, losses = RowSolver(0.0, nonnegative=True)(entries, V, shift)
        assert (W >= 0).all()
        for i, X, a, _, _ in each_row(entries, V, shift, RowSolver(0.0)):
            if len(a):
                assert losses[i] <= 0.5 * nnls(X, a)[1] ** 2 + 1e-9


def test_coordinate_descent_finishes_what_pivoting_does_not():
    from lemmata.completion.rows._kernels_nonnegative import pivot_into

    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 7))
    M, b = X.T @ X + np.eye(7), rng.standard_normal(7)
    answers = []
    for rounds in (100, 0):
        x = np.zeros(7)
        ended = pivot_into(x, M, b, np.empty((7, 8)), np.ones(7, bool), 6, 1e-14, rounds)
        assert ended == (rounds > 0)
        answers.append(x)
    assert np.allclose(*answers, atol=1e-13)
    assert (answers[0][:6] == 0).any()
    assert (answers[0][:6] > 0).any()


# --- at the entries, and machinery ------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("k", RANKS)
def test_predictions_and_residuals_at_the_entries(k, dtype):
    entries, V, shift = problem(0, dtype, k=k)
    rng = np.random.default_rng(0)
    U, own = rng.standard_normal((12, k)).astype(dtype), rng.standard_normal(12).astype(dtype)
    i = np.repeat(np.arange(12), np.diff(entries.indptr))
    exact = np.einsum("ek,ek->e", U[i].astype(np.float64), V[entries.indices])
    size = rounding(dtype, k) * (
        np.einsum("ek,ek->e", np.abs(U[i]), np.abs(V[entries.indices])) + 10
    )
    found = predictions(entries, U, V)
    assert found.dtype == dtype
    assert (np.abs(found - exact) <= size).all()
    exact = entries.values - exact - own[i] - shift[entries.indices]
    assert (np.abs(residuals(entries, U, V, own, shift) - exact) <= size).all()


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(
    "how", [{}, {"method": "cg"}, {"nonnegative": True}], ids=["cholesky", "cg", "nonnegative"]
)
def test_one_thread_gives_the_same_bits_as_many(how, dtype, monkeypatch):
    rng = np.random.default_rng(0)
    counts = rng.integers(0, 400, 400)
    indptr = np.r_[0, np.cumsum(counts)]
    entries = Entries(
        indptr,
        rng.integers(0, 300, indptr[-1]).astype(np.int32),
        rng.standard_normal(indptr[-1]).astype(dtype),
    )
    V = rng.standard_normal((300, 12)).astype(dtype)
    runs = []
    for threads in ("1", "2", "5"):
        monkeypatch.setenv("LEMMATA_THREADS", threads)
        W, losses = RowSolver(0.5, bias=True, **how)(entries, V)
        runs.append((W, losses, residuals(entries, W[:, :12], V, W[:, 12])))
    for again in runs[1:]:
        for a, b in zip(runs[0], again, strict=True):
            assert np.array_equal(a, b)


@pytest.mark.parametrize(
    "how", [{}, {"method": "cg"}, {"nonnegative": True}], ids=["cholesky", "cg", "nonnegative"]
)
def test_mapped_entries_give_the_same_rows(how, tmp_path):
    rng = np.random.default_rng(0)
    A = rng.standard_normal((30, 20))
    A[rng.random(A.shape) < 0.5] = np.nan
    A = Observed.of(A)
    A.save(tmp_path / "entries")
    mapped = Observed.open(tmp_path / "entries").by_row
    assert not mapped.values.flags.writeable
    V = rng.standard_normal((20, 4))
    for a, b in zip(
        RowSolver(0.5, **how)(A.by_row, V), RowSolver(0.5, **how)(mapped, V), strict=True
    ):
        assert np.array_equal(a, b)


def test_blocks_of_rows_stack_up_to_the_whole():
    entries, V, shift = problem(0, k=7)
    solver = pickle.loads(pickle.dumps(RowSolver(0.5, bias=True, weighted=True)))
    whole, losses = solver(entries, V, shift)
    parts = []
    for first, last in ((0, 4), (4, 5), (5, 12)):
        start, end = entries.indptr[first], entries.indptr[last]
        block = Entries(
            entries.indptr[first : last + 1] - start,
            entries.indices[start:end],
            entries.values[start:end],
        )
        parts.append(solver(block, V, shift))
    assert np.array_equal(np.vstack([W for W, _ in parts]), whole)
    assert np.array_equal(np.concatenate([own for _, own in parts]), losses)


@pytest.mark.parametrize(
    "how", [{}, {"method": "cg"}, {"nonnegative": True}], ids=["cholesky", "cg", "nonnegative"]
)
def test_inputs_are_left_alone(how):
    entries, V, shift = problem(0)
    start = np.ones((12, 9))
    before = [part.copy() for part in (*entries, V, shift, start)]
    RowSolver(0.5, bias=True, **how)(entries, V, shift, None, start)
    for part, copy in zip((*entries, V, shift, start), before, strict=True):
        assert np.array_equal(part, copy)


def test_a_given_gram_matrix_is_used():
    entries, V, _ = problem(0)
    solver = RowSolver(0.5, implicit=True)
    assert np.array_equal(solver(entries, V)[0], solver(entries, V, None, V.T @ V)[0])


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"method": "lu"}, "cholesky, cg"),
        ({"implicit": True, "bias": True}, "bias=False"),
        ({"reg": -1.0}, "negative"),
    ],
    ids=["method", "implicit bias", "negative ridge"],
)
def test_what_makes_no_sense_is_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        RowSolver(**{"reg": 1.0, **wrong})


def test_implicit_rows_take_no_shift():
    entries, V, shift = problem(0)
    with pytest.raises(ValueError, match="no shift"):
        RowSolver(1.0, implicit=True)(entries, V, shift)


# --- kernels and their NumPy twins ------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("how", [{}, {"method": "cg"}, {"nonnegative": True}])
@pytest.mark.parametrize(
    "kind",
    [*KINDS.values(), {"bias": True, "bias_reg": 3.0, "weighted": 0.5}, {"bias": True, "bias_reg": 0.0}],
)  # fmt: skip
def test_twins_solve_what_kernels_solve(kind, how, dtype):
    entries, V, shift = problem(0, dtype, k=9)
    start = np.abs(np.random.default_rng(1).normal(size=(12, 9 + kind.get("bias", False))))
    results = [
        solve(RowSolver(0.5, **kind, **how, compiled=compiled), entries, V, shift, start=start.astype(dtype))
        for compiled in (True, False)
    ]  # fmt: skip
    (W, losses), (W_twin, losses_twin) = results
    assert W_twin.dtype == dtype
    # three steps of conjugate gradients carry the rounding of each on
    tolerance = (1000 if how.get("method") else 50) * rounding(dtype, 150)
    np.testing.assert_allclose(W_twin, W, atol=tolerance * np.abs(W).max())
    np.testing.assert_allclose(losses_twin, losses, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", TYPES)
def test_twins_predict_what_kernels_predict(dtype):
    entries, V, shift = problem(0, dtype)
    U = np.random.default_rng(0).normal(size=(12, 8)).astype(dtype)
    for function in (predictions, residuals):
        one, other = (
            function(entries, U, V, U[:, 0], shift, compiled=compiled) for compiled in (True, False)
        )
        assert one.dtype == other.dtype == dtype
        np.testing.assert_allclose(one, other, atol=rounding(dtype, 8) * 10)


@pytest.mark.parametrize("how", [{}, {"method": "cg"}, {"nonnegative": True}])
def test_blocks_of_rows_have_the_bits_of_the_whole_in_twins_too(how):
    entries, V, shift = problem(0, n=40)
    solver = RowSolver(0.5, bias=True, **how, compiled=False)
    W, losses = solver(entries, V, shift)
    for first, last in ((0, 13), (13, 14), (14, 40)):
        here = slice(entries.indptr[first], entries.indptr[last])
        pointers = entries.indptr[first : last + 1] - entries.indptr[first]
        part = Entries(pointers, entries.indices[here], entries.values[here])
        W_part, losses_part = solver(part, V, shift)
        assert W_part.tobytes() == W[first:last].tobytes()
        assert losses_part.tobytes() == losses[first:last].tobytes()


def test_a_ridge_of_its_own_on_the_bias_is_the_one_that_was_asked_for():
    """With no factors worth having, b = Σ(a − s)/(n + κ)."""
    entries, V, shift = problem(0)
    for compiled in (True, False):
        solver = RowSolver(1e12, bias=True, bias_reg=3.0, compiled=compiled)
        b = solver(entries, V, shift)[0][:, -1]
        for i in range(12):
            here = slice(entries.indptr[i], entries.indptr[i + 1])
            rest = entries.values[here] - shift[entries.indices[here]]
            assert b[i] == pytest.approx(rest.sum() / (len(rest) + 3), abs=1e-9)


def test_pivoting_ends_in_a_kkt_point_even_where_it_goes_round_in_circles():
    from lemmata.completion.rows._twins import pivot

    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 6, 5))
    M, b = np.einsum("nij,nik->njk", X, X), rng.normal(size=(50, 5))
    M[:10, 3], M[:10, :, 3] = M[:10, 2], M[:10, :, 2]  # two factors alike
    M[:10, 3, 3] = M[:10, 2, 2]
    for rounds in (100, 0):  # none: co-ordinate descent alone
        x = pivot(M, b, np.ones((50, 5), bool), 5, 1e-13, rounds)
        y = np.einsum("nij,nj->ni", M, x) - b
        assert (x >= 0).all()
        held = slice(None) if rounds else slice(10, None)
        assert y[held].min() > -1e-8
        assert np.abs(x * y)[held].max() < 1e-7
