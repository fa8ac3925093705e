"""SoftImpute: its steps against dense twins, its end against the convex optimum."""

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import lemmata
from lemmata import SoftImpute
from lemmata.completion import Observed
from lemmata.completion.nuclear.soft_impute import (
    PROBES,
    SettledAtReg,
    SoftImputeAlgorithm,
    chosen_reg,
)
from lemmata.completion.nuclear.sweeps import rebalance, sweep
from lemmata.core import MaxSteps, Path, run

TIGHT = SettledAtReg(1e-13, 3) | MaxSteps(3000)


def low_rank(seed, n=60, m=50, rank=3, share=0.5, noise=0.0, dtype=np.float64):
    """A planted matrix and its known entries, with rows and columns that have none."""
    rng = np.random.default_rng(seed)
    M = rng.normal(size=(n, rank)) @ rng.normal(size=(rank, m)) / np.sqrt(rank)
    mask = rng.random((n, m)) < share
    return M, Observed.of(np.where(mask, M + noise * rng.normal(size=(n, m)), np.nan).astype(dtype))


def objective(A, X, reg):
    R = np.where(np.isnan(A.dense()), 0, A.dense(0.0) - X)
    return 0.5 * np.sum(R**2) + reg * np.linalg.svd(X, compute_uv=False).sum()


def shrink(Z, tau):
    P, s, Qt = np.linalg.svd(Z, full_matrices=False)
    return (P * np.maximum(s - tau, 0)) @ Qt


def dense_optimum(A, reg, steps=2000):
    """Plain proximal gradient steps on the dense matrix (Mazumder, Hastie & Tibshirani 2010), accelerated."""
    known, values = ~np.isnan(A.dense()), A.dense(0.0)
    X = before = np.zeros(A.shape)
    for t in range(steps):
        Y = X + t / (t + 3) * (X - before)
        before, X = X, shrink(np.where(known, values, Y), reg)
    return X


def matrix(state):
    return (state.P * state.s) @ state.Q.T


# --- the step ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_with_probes_in_all_directions_the_proximal_step_is_the_dense_one(seed):
    _, A = low_rank(seed, noise=0.1)
    algorithm = SoftImputeAlgorithm(reg=2.0)
    state = run(algorithm, A, stop=MaxSteps(3), rng=seed).state
    rng = np.random.default_rng(seed)
    everywhere = np.linalg.qr(rng.normal(size=(50, 50)))[0][:, : 50 - len(state.s)]
    state = replace(state, probes=everywhere)
    (P, s, Q), _, _ = algorithm._shrunk(state, A, level=2.0)
    wanted = shrink(np.where(np.isnan(A.dense()), matrix(state), A.dense(0.0)), 2.0)
    assert np.allclose((P * s) @ Q.T, wanted, atol=1e-10)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("probes", [0, 1, 8])
def test_with_few_and_random_probes_the_proximal_step_still_descends(seed, probes):
    _, A = low_rank(seed, noise=0.3)
    state = run(SoftImputeAlgorithm(reg=2.0), A, stop=MaxSteps(2), rng=seed).state
    bad = np.random.default_rng(seed).normal(size=(50, probes))
    for level in (0.5, 2.0):
        (P, s, Q), _, _ = SoftImputeAlgorithm(reg=level)._shrunk(
            replace(state, probes=bad), A, level
        )
        assert objective(A, (P * s) @ Q.T, level) <= objective(A, matrix(state), level) * (
            1 + 1e-12
        )


def test_a_sweep_of_least_squares_descends_and_keeps_the_factors_balanced():
    _, A = low_rank(0, noise=0.3)
    state = run(SoftImputeAlgorithm(reg=1.0), A, stop=MaxSteps(2), rng=0).state
    P, s, Q = sweep(A, (state.P, state.s, state.Q), 1.0)
    assert objective(A, (P * s) @ Q.T, 1.0) < objective(A, matrix(state), 1.0)
    for basis in (P, Q):
        assert np.allclose(basis.T @ basis, np.eye(len(s)), atol=1e-12)


def test_balancing_keeps_the_product():
    rng = np.random.default_rng(0)
    U, V = rng.normal(size=(9, 3)), rng.normal(size=(7, 3))
    U[:, 2] = U[:, 1]  # of rank 2
    P, s, Q = rebalance(U, V)
    assert np.allclose((P * s) @ Q.T, U @ V.T)
    assert s[2] < 1e-12 * s[0]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("seed", range(3))
def test_the_loss_belongs_to_its_state_and_never_rises(seed, dtype):
    _, A = low_rank(seed, noise=0.5, dtype=dtype)
    algorithm = SoftImputeAlgorithm(reg=0.3)
    state, eps = algorithm.init(A, np.random.default_rng(seed)), 100 * float(np.finfo(dtype).eps)
    for _ in range(25):
        new = algorithm.step(state, A)
        assert new.loss == pytest.approx(
            objective(A, matrix(new).astype(float), new.level), rel=eps
        )
        assert new.loss <= state.loss * (1 + eps)
        assert new.level <= state.level
        state = new
    assert state.level == 0.3


def test_a_step_leaves_its_state_alone():
    _, A = low_rank(0, noise=0.5)
    algorithm = SoftImputeAlgorithm(reg=0.3)
    state = algorithm.step(algorithm.init(A, np.random.default_rng(0)), A)
    before = [state.P.copy(), state.s.copy(), state.Q.copy(), state.probes.copy()]
    algorithm.step(state, A)
    for old, now in zip(before, (state.P, state.s, state.Q, state.probes), strict=True):
        assert old.tobytes() == now.tobytes()


# --- the end ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reg", [0.3, 2.0, 6.0])
@pytest.mark.parametrize("seed", range(1))
def test_the_end_is_the_optimum_that_long_dense_proximal_descent_finds(seed, reg):
    _, A = low_rank(seed, n=30, m=20, noise=0.5)
    state = run(SoftImputeAlgorithm(reg), A, stop=TIGHT, rng=seed).state
    wanted = dense_optimum(A, reg)
    assert state.loss <= objective(A, wanted, reg) * (1 + 1e-9)
    assert np.allclose(matrix(state), wanted, atol=1e-3)


@pytest.mark.parametrize("reg", [0.5, 3.0])
@pytest.mark.parametrize("seed", range(3))
def test_the_end_meets_the_conditions_of_karush_kuhn_and_tucker(seed, reg):
    """(1/λ)R = PQᵀ + W with PᵀW = 0, WQ = 0 and ‖W‖₂ ≤ 1: R/λ is a subgradient of the nuclear norm at X."""
    _, A = low_rank(seed, noise=0.5)
    state = run(SoftImputeAlgorithm(reg), A, stop=TIGHT, rng=seed).state
    strong = state.s > 1e-6 * state.s[0]
    P, Q = state.P[:, strong], state.Q[:, strong]
    W = np.where(np.isnan(A.dense()), 0, A.dense(0.0) - matrix(state)) / reg - P @ Q.T
    assert np.abs(P.T @ W).max() < 1e-4
    assert np.abs(W @ Q).max() < 1e-4
    assert np.linalg.norm(W, 2) < 1 + 1e-4


@pytest.mark.parametrize("seed", range(3))
def test_above_the_largest_singular_value_of_the_entries_nothing_is_left(seed):
    _, A = low_rank(seed, noise=0.5)
    largest = np.linalg.norm(A.dense(0.0), 2)
    none, some = (
        SoftImpute(reg=1.01 * largest, centre="none").fit(A),
        SoftImpute(reg=0.9 * largest, centre="none").fit(A),
    )
    assert none.U_.shape == (60, 0)
    assert (none.complete(keep_known=False) == 0).all()
    assert len(some.singular_values_) >= 1
    for model in (none, some):
        assert "least_penalised" in model.certificate_.held


@pytest.mark.parametrize("seed", range(5))
def test_noiseless_low_rank_matrices_are_recovered_with_an_error_proportional_to_reg(seed):
    M, A = low_rank(seed, n=120, m=100)
    models = SoftImpute(tol=1e-9, random_state=seed, centre="none").path(A, [1e-1, 1e-2, 1e-3])
    errors = [np.linalg.norm(m.complete(keep_known=False) - M) / np.linalg.norm(M) for m in models]
    assert errors[2] < 1e-4
    assert all(len(model.singular_values_) == 3 for model in models)
    assert errors[0] / errors[1] == pytest.approx(10, rel=0.1)
    assert errors[1] / errors[2] == pytest.approx(10, rel=0.1)


def test_a_warm_path_ends_where_cold_fits_end():
    _, A = low_rank(1, noise=0.5)
    regs = [5.0, 1.0, 2.0]  # the last one rises: a warm start from above the solution
    solution = run(
        Path(SoftImputeAlgorithm(1.0), {"reg": regs}, stop=TIGHT), A, stop=MaxSteps(9000), rng=0
    )
    for reg, state in zip(regs, solution.state.results, strict=True):
        cold = run(SoftImputeAlgorithm(reg), A, stop=TIGHT, rng=1).state
        assert state.level == reg
        assert state.loss == pytest.approx(cold.loss, rel=1e-8)
        assert np.allclose(matrix(state), matrix(cold), atol=1e-3)


def test_the_models_of_a_path_are_fitted_models():
    _, A = low_rank(1, noise=0.2)
    model = SoftImpute(centre="global", random_state=0)
    models = model.path(A, [3.0, 1.0])
    alone = SoftImpute(reg=1.0, centre="global", random_state=0).fit(A)
    assert [one.reg_ for one in models] == [3.0, 1.0]
    assert np.allclose(models[1].complete(), alone.complete(), atol=1e-2)
    assert "least_penalised" in models[1].certificate_.held
    assert models[1].stopped_ == "settled"
    assert not hasattr(model, "U_")
    assert len(models[0].singular_values_) <= len(models[1].singular_values_)


def test_the_same_seed_gives_the_same_bits_and_another_the_same_matrix():
    _, A = low_rank(2, noise=0.3)
    one, two, other = (
        SoftImpute(reg=1.0, tol=1e-12, random_state=seed).fit(A) for seed in (0, 0, 1)
    )
    assert one.U_.tobytes() == two.U_.tobytes()
    assert np.allclose(one.complete(), other.complete(), atol=1e-3)


def test_more_directions_than_probes_are_found():
    _, A = low_rank(0, n=80, m=70, rank=30, share=0.9, noise=0.1)
    model = SoftImpute(reg=0.5, random_state=0).fit(A)
    assert len(model.singular_values_) >= 30 > PROBES
    assert "least_penalised" in model.certificate_.held


@settings(max_examples=20)
@given(
    st.integers(1, 9),
    st.integers(1, 9),
    st.floats(0.1, 1),
    st.floats(1e-3, 1e3),
    st.integers(0, 10**6),
)
def test_any_small_matrix_is_completed_to_a_certified_gap(n, m, share, scale, seed):
    rng = np.random.default_rng(seed)
    A = np.where(rng.random((n, m)) < share, scale * rng.normal(size=(n, m)), np.nan)
    A[rng.integers(n), rng.integers(m)] = scale
    model = SoftImpute(reg=0.1 * scale, tol=1e-10, random_state=0, max_iter=2000).fit(A)
    assert np.isfinite(model.complete()).all()
    assert {"never_rose", "least_penalised"} <= set(model.certificate_.held)


@pytest.mark.parametrize("reg", ["auto", None])
@pytest.mark.parametrize("factor", [10.0, 1e-3])
def test_by_default_ten_times_the_data_have_ten_times_the_predictions(reg, factor):
    _, A = low_rank(0, noise=0.3)
    one, other = (
        SoftImpute(reg, random_state=0).fit(B) for B in (A, A.with_values(factor * A.values))
    )
    assert other.reg_ == pytest.approx(factor * one.reg_)
    predictions = factor * one.complete(keep_known=False)
    tolerance = 1e-6 * np.abs(predictions).max()
    assert np.allclose(other.complete(keep_known=False), predictions, rtol=0, atol=tolerance)


def test_a_matrix_of_offsets_is_not_drawn_to_zero():
    """Ratings about 3 with few entries per row: uncentred, the penalty took the mean as well."""
    rng = np.random.default_rng(0)
    X = 3 + 0.5 * rng.normal(size=(150, 1)) + 0.5 * rng.normal(size=80)
    A = Observed.of(np.where(rng.random(X.shape) < 0.1, X + 0.5 * rng.normal(size=X.shape), np.nan))
    train, test = A.split(0.2, seed=0)
    mean = np.sqrt(np.mean((test.values - train.values.mean()) ** 2))
    assert -SoftImpute(random_state=0).fit(train).score(test) < 0.95 * mean


def test_new_rows_are_offset_as_those_of_the_fit():
    rng = np.random.default_rng(0)
    _, A = low_rank(0)
    A = A.with_values(A.values + 3)
    model = SoftImpute(1e9, centre_reg=3.0).fit(A)  # offsets alone
    row = np.full((1, A.shape[1]), np.nan)
    row[0, rng.permutation(A.shape[1])[:4]] = 5.0
    j = np.flatnonzero(~np.isnan(row[0]))
    expected = (5.0 - model.mean_ - model.column_bias_[j]).sum() / (len(j) + 3.0)
    assert model.fold_in(row).bias[0] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("share", "dtype"),
    [(0.5, np.float64), (0.05, np.float64), (0.5, np.float32),
     pytest.param(0.05, np.float32, marks=pytest.mark.slow)],
)  # fmt: skip
def test_numpy_and_kernels_end_at_the_same_matrix(dtype, share):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 40)) @ rng.normal(size=(40, 120)) / 6
    A = Observed.of(np.where(rng.random(X.shape) < share, X, np.nan).astype(dtype))
    found = []
    for mode in ("always", "never"):
        with lemmata.config(compile=mode):
            found.append(
                SoftImpute(0.5, tol=1e-9 if dtype == np.float64 else 1e-7, random_state=0).fit(A)
            )
    assert found[0].trace_.last() == pytest.approx(found[1].trace_.last(), rel=1e-6)
    assert {"never_rose", "least_penalised"} <= set(found[1].certificate_.held)


# --- claims -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_claims_hold_on_a_good_fit(dtype):
    _, A = low_rank(0, n=120, m=100, dtype=dtype)
    train, test = A.split(0.2, seed=0)
    model = SoftImpute(reg=0.1, random_state=0, centre="none").fit(train)
    certificate = model.certify(train, test)
    assert certificate.failed == []
    # 120 rows with few test entries each are few for bets on rows
    assert set(certificate.undecided) <= {"ranks_above_popularity", "beats_offsets"}
    assert certificate.holds


@pytest.mark.filterwarnings("ignore")
def test_a_fit_stopped_after_one_step_fails_the_gap():
    _, A = low_rank(0, noise=0.2)
    model = SoftImpute(reg=0.1, max_iter=1, random_state=0).fit(A)
    assert model.reg_ > 0.1  # λ had not come down, and the certificate speaks of the λ reached
    assert "least_penalised" in model.certificate_.failed
    model.reg_ = 0.1
    assert "least_penalised" in model.certify(A).failed


def test_a_rank_that_cuts_fails_its_claim_and_the_gap():
    _, A = low_rank(0)
    model = SoftImpute(reg=0.1, max_rank=2, random_state=0, centre="none").fit(A)
    assert model.U_.shape[1] == 2
    assert {"rank_not_cut", "least_penalised"} <= set(model.certificate_.failed)
    assert "never_rose" in model.certificate_.held
    assert (
        "rank_not_cut"
        in SoftImpute(reg=0.1, max_rank=4, random_state=0, centre="none").fit(A).certificate_.held
    )


def test_factors_that_were_tampered_with_fail():
    _, A = low_rank(0)
    model = SoftImpute(reg=0.1, random_state=0).fit(A)
    model.U_ = model.U_ * 1.1
    assert {"least_penalised", "first_order_point"} <= set(model.certify(A).failed)


def test_a_rise_in_the_trace_fails_its_claim():
    _, A = low_rank(0)
    model = SoftImpute(reg=0.1, random_state=0).fit(A)
    model.trace_.append(2 * model.trace_.last(), 0.0)
    assert "never_rose" in model.certify(A).failed


# --- choosing λ -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_the_chosen_reg_predicts_about_as_well_as_the_best(seed):
    M, A = low_rank(seed, n=150, m=120, share=0.4, noise=0.5)
    error = {}
    for reg in (*(1.0 * 2.0 ** np.arange(5)), "auto"):
        model = SoftImpute(reg=reg, random_state=0).fit(A)
        error[reg] = np.linalg.norm(model.complete(keep_known=False) - M)
    assert error["auto"] <= 1.05 * min(value for reg, value in error.items() if reg != "auto")


def test_a_reg_is_chosen_for_few_and_for_zero_entries():
    few = Observed.of(np.array([[1.0, np.nan], [np.nan, 2.0]]))
    assert 0 < chosen_reg(few) < np.inf
    assert chosen_reg(Observed.of(np.zeros((10, 10)))) > 0


# --- as an estimator --------------------------------------------------------------------------------------------------


def test_rows_and_columns_without_entries_are_predicted_by_the_offsets():
    M, _ = low_rank(0)
    M[3], M[:, 7] = np.nan, np.nan
    model = SoftImpute(reg=0.5, centre="global", random_state=0).fit(M + 3.0)
    assert np.allclose(model.complete()[3], model.mean_)
    assert np.allclose(model.complete()[:, 7], model.mean_)


def test_known_rows_fold_in_to_their_own_factors():
    """At the optimum a row of U is the ridge regression on V with the same λ."""
    _, A = low_rank(0, noise=0.3)
    model = SoftImpute(reg=1.0, tol=1e-13, max_iter=2000, random_state=0).fit(A)
    assert np.allclose(model.fold_in(A).factors, model.U_, atol=1e-4)
    assert np.allclose(model.fold_in(A, axis="columns").factors, model.V_, atol=1e-4)


def test_nothing_dense_is_ever_made():
    """A dense 20,000 × 15,000 matrix would take 2,400 MB."""
    rng = np.random.default_rng(0)
    n, m, e = 20_000, 15_000, 200_000
    keys = np.unique(rng.integers(n * m, size=e))
    i, j = keys // m, keys % m
    U, V = rng.normal(size=(n, 2)), rng.normal(size=(m, 2))
    A = Observed.from_triplets(i, j, np.einsum("ek,ek->e", U[i], V[j]), (n, m))
    # kernels are compiled before memory is counted
    SoftImpute(reg=20.0, max_iter=1, tol=0).fit(low_rank(0)[1])
    tracemalloc.start()
    model = SoftImpute(reg=2.0, max_rank=6, max_iter=4, tol=0, random_state=0).fit(A)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(model.singular_values_) >= 2
    width = len(model.singular_values_) + model.trace_.extras["rank"].max() + 2 * PROBES
    assert peak < 20 * A.nbytes + 64 * (n + m) * width < 2.4e9


def test_an_empty_path_and_an_empty_matrix_are_refused():
    with pytest.raises(ValueError, match="at least one"):
        SoftImpute().path(np.eye(3), [])
    with pytest.raises(ValueError, match="no known entries"):
        SoftImpute().fit(sp.csr_array((3, 4)))
