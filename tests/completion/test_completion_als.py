"""Alternating least squares against its theory (CIL 2.4), against slow twins, and on input of every kind."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sklearn.exceptions import ConvergenceWarning

import lemmata
from lemmata import ALS
from lemmata.audit.completion.factored_objective import Factored, Factors
from lemmata.audit.completion.optimality.curvature import as_vector, curve
from lemmata.completion import Observed
from lemmata.completion.als.algorithm import (
    ALSAlgorithm,
    ALSState,
    Penalty,
    balance,
    by_rule,
    in_order,
    rescale,
    unit,
)
from lemmata.completion.als.saddles import Hessian, products_within
from lemmata.completion.als.search import COLUMNS, RANKS, choose, held_out_rmse
from lemmata.core import Checkpoint, MaxSteps, Never, Path, Settled, rounding, run, store
from lemmata.core.engine import one_blas_thread

SEEDS = range(1)
KINDS = [(weighted, biases) for weighted in (False, True) for biases in (False, True)]


def low_rank(seed, n=40, m=30, k=3, density=0.5, noise=0.0, offsets=False):
    """A matrix of rank k (plus row and column effects), and its known entries."""
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(n, k)) @ rng.normal(size=(k, m))
    if offsets:
        A += 3 + rng.normal(size=(n, 1)) + rng.normal(size=m)
    X = np.where(rng.random((n, m)) < density, A + noise * rng.normal(size=(n, m)), np.nan)
    return A, Observed.of(X)


def fitted(data, **parameters):
    """A fit as far as floats allow, whatever the default patience."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return ALS(**{"random_state": 0, "tol": 1e-12, "max_iter": 600, **parameters}).fit(data)


def counts_or_ones(data, weighted):
    sides = (data.row_counts, data.column_counts)
    return [side.astype(float) if weighted else np.ones(len(side)) for side in sides]


def loss_of(data, U, V, b, c, mean, reg, weighted):
    """The objective from its definition."""
    rows, columns = counts_or_ones(data, weighted)
    residual = data.dense() - mean - b[:, None] - c - U @ V.T
    penalties = rows @ ((U**2).sum(axis=1) + b**2) + columns @ ((V**2).sum(axis=1) + c**2)
    return 0.5 * np.nansum(residual**2) + 0.5 * reg * penalties


def implicit_loss_of(data, U, V, reg, weighted, alpha):
    rows, columns = counts_or_ones(data, weighted)
    X = data.dense(0.0)
    residual = (X > 0) - U @ V.T
    penalties = rows @ (U**2).sum(axis=1) + columns @ (V**2).sum(axis=1)
    return 0.5 * np.sum((1 + alpha * X) * residual**2) + 0.5 * reg * penalties


def slow_rows(X, V, c, mean, reg, weighted, biases):
    """Row by row with lstsq on the stacked problem (√λ I below the data), not by normal equations."""
    n, k = len(X), V.shape[1]
    U, b = np.zeros((n, k)), np.zeros(n)
    for i in range(n):
        known = ~np.isnan(X[i])
        if known.any():
            Z = np.c_[V[known], np.ones(known.sum())] if biases else V[known]
            lam = reg * known.sum() if weighted else reg
            ridge = np.sqrt(lam) * np.eye(Z.shape[1])
            target = np.r_[X[i, known] - mean - c[known], np.zeros(Z.shape[1])]
            w = np.linalg.lstsq(np.vstack([Z, ridge]), target, rcond=None)[0]
            U[i], b[i] = w[:k], w[k] if biases else 0.0
    return U, b


def slow_balance(U, V, rows, columns):
    """The balanced factors from the SVD of the whole weighted matrix."""
    r, c = np.sqrt(rows)[:, None], np.sqrt(columns)[:, None]
    P, s, Qt = np.linalg.svd((r * U) @ (c * V).T, full_matrices=False)
    k = U.shape[1]
    divided = [
        np.divide(F, w, out=np.zeros_like(F), where=w > 0)
        for F, w in ((P[:, :k], r), (Qt[:k].T, c))
    ]
    return divided[0] * np.sqrt(s[:k]), divided[1] * np.sqrt(s[:k])


# --- a sweep ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("weighted", "biases"), KINDS)
@pytest.mark.parametrize("seed", SEEDS)
def test_sweeps_are_those_of_a_slow_twin(seed, weighted, biases):
    _, data = low_rank(seed, noise=0.1, offsets=True)
    algorithm = ALSAlgorithm(3, 0.2, weighted, biases)
    state = algorithm.init(data, np.random.default_rng(seed))
    X, mean, V, c = data.dense(), state.mean, state.V, state.c
    assert mean == pytest.approx(np.nanmean(X) if biases else 0.0, rel=1e-14)
    for _ in range(5):
        state = algorithm.step(state, data)
        U, b = slow_rows(X, V, c, mean, 0.2, weighted, biases)
        V, c = slow_rows(X.T, U, b, mean, 0.2, weighted, biases)
        U, V = slow_balance(U, V, *counts_or_ones(data, weighted))
        assert_allclose(state.U @ state.V.T, U @ V.T, atol=1e-9)
        assert_allclose(state.b, b, atol=1e-9)
        assert_allclose(state.c, c, atol=1e-9)
        assert state.loss == pytest.approx(
            loss_of(data, U, V, b, c, mean, 0.2, weighted), rel=1e-10
        )


@pytest.mark.parametrize("method", ["cholesky", "cg"])
@pytest.mark.parametrize(("weighted", "biases"), KINDS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_loss_in_a_state_is_its_own_also_after_a_warm_start(dtype, weighted, biases, method):
    _, data = low_rank(1, noise=0.3, offsets=True)
    data = Observed.of(data.dense().astype(dtype))
    algorithm, other = (ALSAlgorithm(4, reg, weighted, biases, method=method) for reg in (0.3, 1.7))
    state = algorithm.init(data, np.random.default_rng(0))
    for _ in range(4):
        for a, s in ((algorithm, state), (other, other.warm(state, data))):
            parts = [part.astype(float) for part in (s.U, s.V, s.b, s.c)]
            # a sum of 600 squares of rounded numbers
            assert s.loss == pytest.approx(
                loss_of(data, *parts, s.mean, a.reg, weighted), rel=8 * rounding(dtype, 600)
            )
        state = algorithm.step(state, data)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_implicit_sweeps_minimise_over_all_places(seed, weighted):
    rng = np.random.default_rng(seed)
    X = np.where(rng.random((25, 20)) < 0.3, rng.integers(1, 9, size=(25, 20)), 0).astype(float)
    data = Observed.of(np.where(X > 0, X, np.nan))
    algorithm = ALSAlgorithm(3, 0.5, weighted, biases=False, implicit=True, alpha=2.0)
    state = algorithm.init(data, rng)
    rows, columns = counts_or_ones(data, weighted)
    for _ in range(4):
        U, V = np.zeros_like(state.U), np.zeros_like(state.V)
        for i, x in enumerate(X):
            C = 1 + 2.0 * x
            H = (state.V.T * C) @ state.V + 0.5 * rows[i] * np.eye(3)
            U[i] = np.linalg.solve(H, state.V.T @ (C * (x > 0))) if rows[i] else 0
        for j, x in enumerate(X.T):
            C = 1 + 2.0 * x
            H = (U.T * C) @ U + 0.5 * columns[j] * np.eye(3)
            V[j] = np.linalg.solve(H, U.T @ (C * (x > 0))) if columns[j] else 0
        state = algorithm.step(state, data)
        assert_allclose(state.U @ state.V.T, U @ V.T, atol=1e-9)
        expected = implicit_loss_of(data, state.U, state.V, 0.5, weighted, 2.0)
        assert state.loss == pytest.approx(expected, rel=1e-11)
        assert algorithm.evaluate(state, data).loss == pytest.approx(expected, rel=1e-11)


@given(st.data())
@settings(max_examples=30)
def test_no_sweep_raises_the_objective_whatever_the_entries(draw):
    n, m = draw.draw(st.integers(2, 8)), draw.draw(st.integers(2, 8))
    numbers = st.one_of(st.just(np.nan), st.floats(-1e3, 1e3).map(lambda x: round(x, 3)))
    X = np.array(draw.draw(st.lists(numbers, min_size=n * m, max_size=n * m))).reshape(n, m)
    if np.isnan(X).all():
        X[0, 0] = 1.0
    algorithm = ALSAlgorithm(
        rank=draw.draw(st.integers(1, min(n, m))),
        reg=draw.draw(st.sampled_from([1e-3, 0.1, 10.0])),
        weighted=draw.draw(st.booleans()),
        biases=draw.draw(st.booleans()),
        method=draw.draw(st.sampled_from(["cholesky", "cg"])),
        nonnegative=draw.draw(st.booleans()),
    )
    trace = run(algorithm, Observed.of(X), stop=MaxSteps(8), rng=0).trace
    assert trace.largest_rise <= rounding(np.float64, X.size)


def test_conjugate_gradients_reach_the_same_objective():
    _, data = low_rank(0, noise=0.3, offsets=True)
    exact, cg = (fitted(data, rank=3, reg=0.05, method=method) for method in ("cholesky", "cg"))
    assert cg.loss_ == pytest.approx(exact.loss_, rel=1e-9)
    assert "never_rose" in cg.certificate_.held


# --- factors with the same product ------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_balanced_factors_have_the_same_product_and_the_nuclear_norm_as_penalty(seed):
    rng = np.random.default_rng(seed)
    U, V = rng.normal(size=(30, 4)) * 100, rng.normal(size=(20, 4)) @ rng.normal(size=(4, 4))
    d, c = rng.integers(0, 9, size=30).astype(float), rng.integers(1, 9, size=20).astype(float)
    U[d == 0] = 0  # as the solver leaves rows without entries
    P, Q = balance(U, V, d, c)
    assert_allclose(P @ Q.T, U @ V.T, rtol=1e-10, atol=1e-8)
    nuclear = np.linalg.svd(np.sqrt(d)[:, None] * U @ V.T * np.sqrt(c), compute_uv=False).sum()
    assert 0.5 * (d @ (P**2).sum(axis=1) + c @ (Q**2).sum(axis=1)) == pytest.approx(
        nuclear, rel=1e-10
    )
    grams = (P.T * d) @ P, (Q.T * c) @ Q
    assert_allclose(grams[0], grams[1], atol=1e-9 * grams[0].max())
    assert (np.diff(np.diag(grams[0])) <= 0).all()


def test_factors_without_full_rank_or_without_anything_are_balanced_too():
    rng = np.random.default_rng(0)
    u, v, ones = rng.normal(size=(9, 1)), rng.normal(size=(7, 1)), (np.ones(9), np.ones(7))
    U, V = u @ np.array([[1.0, 2.0]]), v @ np.array([[3.0, 1.0]])
    P, Q = balance(U, V, *ones)
    assert_allclose(P @ Q.T, U @ V.T, atol=1e-9)
    zero = np.zeros((9, 2))
    assert balance(zero, V, *ones) == (zero, V) or (balance(zero, V, *ones)[0] == 0).all()


def test_nonnegative_factors_are_only_scaled():
    rng = np.random.default_rng(0)
    U, V = rng.random((9, 3)) * [1, 10, 0], rng.random((7, 3))
    d, c = rng.integers(1, 5, size=9).astype(float), rng.integers(1, 5, size=7).astype(float)
    P, Q = rescale(U, V, d, c)
    assert_allclose(P @ Q.T, U @ V.T, rtol=1e-12)
    assert min(P.min(), Q.min()) >= 0
    lengths = (d @ P**2)[:2], (c @ Q**2)[:2]
    assert_allclose(*lengths, rtol=1e-12)


def test_the_order_and_signs_of_factors_do_not_depend_on_the_seed():
    _, data = low_rank(2, noise=0.1)
    one, other = (
        fitted(data, rank=3, reg=0.5, biases=False, reg_weighting="plain", random_state=s)
        for s in (0, 1)
    )
    assert one.loss_ == pytest.approx(other.loss_, rel=1e-9)  # both found the minimum
    assert_allclose(one.V_, other.V_, atol=1e-4)
    turned = in_order(one.U_, -one.V_, np.ones(40), np.ones(30))
    assert_allclose(turned[0] @ turned[1].T, -one.U_ @ one.V_.T, atol=1e-12)


# --- what it finds ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("offsets", [False, True])
def test_noiseless_low_rank_matrices_are_recovered(seed, offsets):
    A, data = low_rank(seed, n=60, m=40, k=3, density=0.6, offsets=offsets)
    model = fitted(data, rank=3, reg=1e-9, biases=offsets)
    hidden = np.isnan(data.dense())
    error = np.linalg.norm((model.complete() - A)[hidden]) / np.linalg.norm(A[hidden])
    assert error < 1e-5
    # at λ = 1e-9 nothing but penalty is left to share out between factors and biases, which no sweep hurries to do
    assert set(model.certificate_.failed) <= ({"global_optimum"} if offsets else set())


def soft_impute(data, reg, scale=1.0, steps=3000):
    """The convex twin by plain proximal gradient: ½‖Π_Ω(A − X)‖² + λ‖S ∘ X‖_* for S = √counts √countsᵀ (or 1)."""
    A, known = np.nan_to_num(data.dense()), ~np.isnan(data.dense())
    Y = np.zeros_like(A)  # Y = S ∘ X
    for _ in range(steps):
        G = np.where(known, Y / scale - A, 0.0) / scale
        P, s, Qt = np.linalg.svd(Y - G * np.min(scale) ** 2, full_matrices=False)
        Y = (P * np.maximum(s - reg * np.min(scale) ** 2, 0)) @ Qt
    s = np.linalg.svd(Y, compute_uv=False)
    return 0.5 * np.sum((A - Y / scale)[known] ** 2) + reg * s.sum()


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_with_a_high_rank_the_objective_is_that_of_the_convex_problem(seed, weighted):
    _, data = low_rank(seed, n=20, m=15, k=2, noise=0.3)
    reg = 0.3 if weighted else 2.0
    scale = np.sqrt(np.outer(data.row_counts, data.column_counts)) if weighted else np.ones((1, 1))
    model = fitted(
        data, rank=15, reg=reg, biases=False, reg_weighting="counts" if weighted else "plain"
    )
    assert model.loss_ == pytest.approx(soft_impute(data, reg, scale), rel=1e-6)
    assert {"global_optimum", "first_order_point", "fixed_point", "never_rose"} <= set(
        model.certificate_.held
    )


@pytest.mark.parametrize("biases", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_saddle_is_a_fixed_point_and_escaping_it_lowers_the_objective(seed, biases):
    _, data = low_rank(seed, noise=0.1)
    algorithm = ALSAlgorithm(2, 0.05, biases=biases)
    zero = ALSState(np.zeros((40, 2)), np.zeros((30, 2)), np.zeros(40), np.zeros(30), 0.0, np.inf)
    stuck = run(
        algorithm, data, stop=Settled(1e-14) | MaxSteps(200), start=algorithm.evaluate(zero, data)
    ).state
    assert (stuck.U == 0).all()
    assert (stuck.V == 0).all()
    # the same saddle as a model's present state: the certificate finds it out, and the model leaves it
    model = ALS(rank=2, reg=0.05, biases=biases, random_state=0).fit(data)
    best = model.loss_
    model.U_, model.V_, model.row_bias_, model.column_bias_ = stuck.U, stuck.V, stuck.b, stuck.c
    model.mean_, model.loss_ = stuck.mean, stuck.loss
    assert "second_order_minimum" in model.certify(data).failed
    assert model.escape()
    assert model.loss_ < 0.9 * stuck.loss
    for _ in range(3):
        if "second_order_minimum" in model.certificate_.failed:
            model.escape()
    assert "second_order_minimum" not in model.certificate_.failed
    assert model.loss_ < 1.5 * best


@pytest.mark.parametrize("kind", ["plain", "weighted", "biased", "implicit"])
@pytest.mark.parametrize("seed", SEEDS)
def test_products_with_the_hessian_are_those_of_the_trusted_base(kind, seed):
    """Two codes that share nothing: kernels over rows and columns here, sparse products there."""
    _, data = low_rank(seed, n=12, m=9, noise=0.3)
    if kind == "implicit":
        data = Observed.of(np.abs(data.dense()))
    weighted, biases, implicit = kind == "weighted", kind == "biased", kind == "implicit"
    algorithm = ALSAlgorithm(2, 0.3, weighted, biases, implicit=implicit, alpha=2.0)
    rng = np.random.default_rng(seed)
    b, c = rng.normal(size=12) * biases, rng.normal(size=9) * biases
    state = ALSState(rng.normal(size=(12, 2)), rng.normal(size=(9, 2)), b, c, 0.5 * biases, np.inf)
    feedback = {"feedback": "implicit", "alpha": 2.0} if implicit else {"mean": state.mean}
    problem = Factored.of(
        data, state.U, state.V, reg=0.3, weighted=weighted, row_bias=b, column_bias=c, biased=biases, **feedback
    )  # fmt: skip
    hessian = Hessian.at(algorithm, data, state)
    y = rng.normal(size=len(hessian.scale))
    d = Factors(*hessian.direction(y))
    expected = as_vector(problem, curve(problem, d))
    assert_allclose(hessian.times(y[:, None])[:, 0] / hessian.scale, expected, atol=1e-11)


def test_looking_for_saddles_costs_a_tenth_of_the_sweeps_and_is_decided_by_counting():
    _, data = low_rank(0, n=400, m=300)
    algorithm = ALSAlgorithm(20, 0.1)
    few, many = (products_within(algorithm, data, sweeps) for sweeps in (1, 100))
    assert few < many <= 30
    assert products_within(replace(algorithm, rank=1), low_rank(0)[1], 1) == 30  # next to nothing


def test_fit_itself_leaves_a_saddle(monkeypatch):
    """A rank-deficient start stays rank-deficient under alternation; only the second-order test shows a way on."""
    _, data = low_rank(0, noise=0.05)

    begin = ALSAlgorithm.init

    def deficient(self, A, rng):
        state = begin(ALSAlgorithm(1, self.reg, self.weighted, self.biases), A, rng)
        pad = replace(
            state, U=np.pad(state.U, ((0, 0), (0, 1))), V=np.pad(state.V, ((0, 0), (0, 1)))
        )
        return self.evaluate(pad, A)

    whole = ALS(rank=2, reg=0.01, random_state=0, tol=1e-9, max_iter=2000).fit(data)
    monkeypatch.setattr(ALSAlgorithm, "init", deficient)
    model = ALS(rank=2, reg=0.01, random_state=0, tol=1e-9, max_iter=2000).fit(data)
    assert np.linalg.matrix_rank(model.U_) == 2
    assert model.loss_ < 1.02 * whole.loss_
    assert {"second_order_minimum", "never_rose"} <= set(model.certificate_.held)
    assert model.trace_.last() == model.loss_
    assert model.n_iter_ == len(model.trace_) - 1


@pytest.mark.parametrize("seed", SEEDS)
def test_the_order_of_the_rows_does_not_matter(seed):
    _, data = low_rank(seed, noise=0.2)
    order = np.random.default_rng(seed).permutation(40)
    model, permuted = (
        fitted(X, rank=3, reg=0.1, max_iter=30) for X in (data, Observed.of(data.dense()[order]))
    )
    assert_allclose(permuted.complete(), model.complete()[order], atol=1e-8)


@pytest.mark.parametrize("weighting", ["counts", "plain"])
def test_ten_times_the_data_and_ten_times_the_reg_give_ten_times_the_answer(weighting):
    _, data = low_rank(0, noise=0.2, offsets=True)
    # a bias b² scales by 100, a factor by 10
    given_ = {
        "rank": 3,
        "biases": False,
        "reg_weighting": weighting,
    }
    one, ten = (fitted(Observed.of(s * data.dense()), reg=s * 0.1, **given_) for s in (1, 10))
    assert_allclose(ten.complete(), 10 * one.complete(), rtol=1e-6)


def test_nonnegative_factors_are_nonnegative_and_a_kkt_point():
    rng = np.random.default_rng(0)
    A = rng.random((40, 3)) @ rng.random((3, 30))
    data = Observed.of(np.where(rng.random(A.shape) < 0.6, A, np.nan))
    for biases in (False, True):
        model = fitted(
            data, rank=3, reg=1e-3, biases=biases, nonnegative=True, max_iter=500, tol=1e-10
        )
        assert min(model.U_.min(), model.V_.min()) >= 0
        assert {"nonnegative_factors", "first_order_point", "never_rose"} <= set(
            model.certificate_.held
        )
        assert np.sqrt(np.mean((model.complete() - A) ** 2)) < 0.05 * A.std()


# --- new rows and columns (CIL 2.4.5) ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "parameters", [{}, {"biases": False}, {"reg_weighting": "plain"}, {"nonnegative": True}]
)
def test_folding_in_a_row_or_column_of_the_training_data_gives_its_own_factors(parameters):
    _, data = low_rank(0, noise=0.2, offsets=True)
    model = fitted(Observed.of(np.abs(data.dense())), rank=3, reg=0.1, **parameters)
    X = model.observed_.dense()
    rows, columns = model.fold_in(X[:7]), model.fold_in(X[:, 4:9], axis="columns")
    assert_allclose(rows.factors, model.U_[:7], atol=1e-4)
    assert_allclose(rows.bias, model.row_bias_[:7], atol=1e-4)
    assert_allclose(columns.factors, model.V_[4:9], atol=1e-4)
    assert_allclose(columns.bias, model.column_bias_[4:9], atol=1e-4)
    assert_allclose(model.predict(X[:7]), model.complete(keep_known=False)[:7], atol=1e-3)


def test_folding_in_implicit_feedback_counts_all_places():
    rng = np.random.default_rng(0)
    data = Observed.of(
        np.where(rng.random((40, 30)) < 0.3, rng.integers(1, 5, size=(40, 30)), np.nan)
    )
    model = fitted(data, rank=3, reg=0.5, feedback="implicit", alpha=3.0)
    assert_allclose(model.fold_in(data.dense()[:5]).factors, model.U_[:5], atol=1e-5)
    assert set(model.certificate_.failed) <= {"global_optimum"}  # a higher rank is better
    assert not [
        claim.note for claim in model.certificate_ if "the check itself failed" in claim.note
    ]
    assert model.mean_ == 0
    assert not model.row_bias_.any()


def test_new_rows_and_columns_are_predicted_after_an_update():
    A, whole = low_rank(0, n=60, m=40, density=0.6, offsets=True)
    X = whole.dense()
    model = fitted(X[:50, :36], rank=3, reg=1e-8)
    folded = model.fold_in(X[50:, :36])
    assert_allclose(
        folded.factors @ model.V_.T + folded.bias[:, None] + model.column_bias_ + model.mean_,
        A[50:, :36],
        atol=1e-3,
    )
    model.tol = 0
    model.update(X, sweeps=100)
    assert model.U_.shape == (60, 3)
    assert model.V_.shape == (40, 3)
    assert model.observed_.shape == (60, 40)
    assert model.n_features_in_ == 40
    assert_allclose(model.complete(), A, atol=1e-3)
    assert model.n_iter_ == 100
    assert "never_rose" in model.certificate_.held


def test_an_update_starts_where_the_fit_ended():
    _, data = low_rank(0, noise=0.3)
    model = ALS(rank=3, reg=0.1, tol=1e-4, random_state=0).fit(data)
    before, steps = model.loss_, model.n_iter_
    model.update(data, sweeps=3)
    assert model.loss_ <= before * (1 + 1e-12)
    assert model.trace_.objective[0] == pytest.approx(before, rel=1e-12)
    assert model.n_iter_ <= 3 < steps


def test_an_update_matches_rows_and_columns_by_label():
    _, data = low_rank(1, noise=0.1)
    X = data.dense()
    names, titles = np.array([f"user {i}" for i in range(40)]), np.arange(100, 130)

    def labelled(rows, columns):
        part = Observed.of(X[np.ix_(rows, columns)])
        return Observed.from_triplets(
            part.rows,
            part.columns,
            part.values,
            part.shape,
            row_labels=names[rows],
            column_labels=titles[columns],
        )

    every = np.arange(30)
    model = fitted(labelled(np.arange(35), every), rank=3, reg=0.1)
    before, mean = model.loss_, model.mean_
    assert model.predict(["user 3"], [105]) == model._at(np.array([3]), np.array([5]))
    model.update(labelled(np.arange(35)[::-1], every[::-1]), sweeps=1)
    assert model.loss_ <= before * (1 + 1e-10)
    assert model.mean_ == pytest.approx(mean)
    assert model.observed_.row_labels.names[0] == "user 34"
    model.update(labelled(np.arange(5, 40), every), sweeps=200)  # five users left, five came
    fresh = fitted(labelled(np.arange(5, 40), every), rank=3, reg=0.1)
    assert model.loss_ == pytest.approx(fresh.loss_, rel=1e-3)
    with pytest.raises(ValueError, match="user 0"):
        model.predict(["user 0"], [105])


def test_a_block_of_new_rows_and_columns_alone_does_not_stay_at_zero():
    rng = np.random.default_rng(0)
    X = np.full((40, 30), np.nan)
    X[:30, :20], X[30:, 20:] = (
        rng.normal(size=(30, 20)),
        rng.normal(size=(10, 1)) * rng.normal(size=10),
    )
    model = fitted(X[:30, :20], rank=2, reg=0.01, biases=False)
    model.update(X, sweeps=50)
    assert np.abs(model.complete(keep_known=False)[30:, 20:] - X[30:, 20:]).max() < 0.5


def test_a_failed_update_leaves_the_model_as_it_was():
    _, data = low_rank(0)
    model = fitted(data, rank=2, reg=0.1, max_iter=5)
    before = dict(vars(model))
    for bad, message in [
        (data.dense()[:30], "30 rows"),
        (np.full((40, 30), np.nan), "no known"),
        (data.dense()[:, :9], "9 col"),
    ]:
        with pytest.raises(ValueError, match=message):
            model.update(bad)
        assert all(vars(model)[key] is value for key, value in before.items())
    with pytest.raises(ValueError, match="sweeps"):
        model.update(data, sweeps=0)


# --- one budget of time ---


@pytest.mark.parametrize("parameters", [{}, {"rank": "auto", "reg": "auto"}])
def test_choosing_fitting_and_escaping_share_one_time_limit(monkeypatch, parameters):
    """The clock is moved, not waited for: every sweep takes a second of it."""
    now = [0.0]
    monkeypatch.setattr("time.perf_counter", lambda: now[0])
    step = ALSAlgorithm.step

    def slow(self, state, A):
        now[0] += 1.0
        return step(self, state, A)

    monkeypatch.setattr(ALSAlgorithm, "step", slow)
    _, data = low_rank(0, noise=0.3, offsets=True)
    model = ALS(**{"rank": 3, "reg": 0.1, "tol": 0, "max_iter": 10**4, **parameters}, time_limit=40)
    model.fit(data)
    assert model.stopped_ == "out of time"
    assert 40 <= now[0] <= 42  # a step under way is finished
    now[0] = 0.0
    model.update(data, sweeps=10**4)
    assert model.stopped_ == "out of time"
    assert 40 <= now[0] <= 42


# --- a ridge without a unit -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("compile", ["always", "never"])
@pytest.mark.parametrize(
    "parameters",
    [{}, {"reg_weighting": "counts"}, {"reg_weighting": "plain"}, {"biases": False}, {"method": "cg"},
     {"nonnegative": True}, pytest.param({"reg": "auto"}, marks=pytest.mark.slow)],
)  # fmt: skip
def test_other_units_give_the_same_predictions_in_those_units(parameters, compile):
    """λ = 0.075 in units of the data lost to plain offsets on ratings between −10 and 10."""
    _, data = low_rank(0, noise=0.5, offsets=True)
    given_ = {"rank": 4, "random_state": 0, "max_iter": 30, "tol": 1e-6, **parameters}
    with lemmata.config(compile=compile, certificate=False):
        one, four, ten = (ALS(**given_).fit(Observed.of(s * data.dense())) for s in (1, 4, 10))
    assert four.complete().tobytes() == (4 * one.complete()).tobytes()  # nothing is rounded
    assert_allclose(ten.complete(), 10 * one.complete(), rtol=1e-6)
    assert ten.reg_ == pytest.approx(10 * one.reg_)
    assert ten.bias_reg_ == one.bias_reg_


def test_the_rule_is_a_multiple_of_the_deviation_for_every_weighting():
    _, data = low_rank(0, n=60, m=60, density=0.5, noise=0.5, offsets=True)
    root, plain, counted = (by_rule(data, name, False) for name in ("root", "plain", "counts"))
    assert root == by_rule(data, None, False)
    for penalty in (plain, counted):
        logs = [
            np.mean(np.log(one.reg) + one.weighted * np.log(data.row_counts[data.rows]))
            + np.mean(np.log(one.reg) + one.weighted * np.log(data.column_counts[data.columns]))
            for one in (root, penalty)
        ]
        assert logs[0] == pytest.approx(logs[1])
    assert by_rule(data, None, True) == Penalty(0.075, 1.0)


@pytest.mark.parametrize(
    "X", [np.full((6, 5), 3.0), np.zeros((6, 5)), np.add.outer(np.arange(6.0), np.arange(5.0))]
)
def test_the_rule_gives_a_ridge_where_nothing_deviates(X):
    model = ALS(2, random_state=0).fit(X)
    assert model.reg_ > 0
    assert np.isfinite(model.complete(keep_known=False)).all()


def test_given_numbers_keep_their_meaning():
    _, data = low_rank(0, noise=0.3, offsets=True)
    for weighting, p in ((None, 1.0), ("counts", 1.0), ("root", 0.5), ("plain", 0.0)):
        model = fitted(data, rank=2, reg=0.2, reg_weighting=weighting)
        found = model.reg_, model.weighted_reg_, model.bias_reg_, model.weighted_bias_reg_
        assert found == (0.2, p, 0.2, p)
        assert set(model.certify(data).failed) <= {"global_optimum", "enough_entries"}
    assert unit(data, 0.5) > 0


def test_models_of_older_files_shrink_biases_like_factors():
    _, data = low_rank(0, noise=0.3, offsets=True)
    model = fitted(data, rank=2, reg=0.2)
    kept = {
        name: value
        for name, value in model.stored_attributes().items()
        if name not in ("bias_reg_", "weighted_bias_reg_")
    }
    old = ALS.restored(model.get_params(), kept)
    X = data.dense()[:3]
    assert old.fold_in(X).bias.tobytes() == model.fold_in(X).bias.tobytes()
    assert old.certify(data).held == model.certify(data).held


# --- rank and λ -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seed", "weighting"), [(1, "counts"), pytest.param(0, "plain", marks=pytest.mark.slow)]
)
def test_the_chosen_rank_and_reg_predict_about_as_well_as_the_best_of_a_grid(seed, weighting):
    _, whole = low_rank(seed, n=150, m=100, k=4, density=0.3, noise=0.7, offsets=True)
    train, test = whole.split(0.2, seed=seed)
    auto = ALS("auto", "auto", reg_weighting=weighting, random_state=seed, tol=1e-4).fit(train)
    grid = [0.03, 0.06, 0.12] if weighting == "counts" else [0.5, 1, 2, 4]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        trials = [
            ALS(k, reg, reg_weighting=weighting, random_state=seed).fit(train).score(test)
            for k in (3, 4, 8)
            for reg in grid
        ]
    # 900 held-out errors of size 0.9 give the validation error a standard deviation of 2 %
    assert -auto.score(test) <= 1.03 * -max(trials)
    assert auto.rank_ in RANKS
    best = auto.validation_[auto.validation_[:, -1].argmin()]
    assert best[:4].tolist() == [auto.rank_, auto.reg_, auto.weighted_reg_, auto.bias_reg_]
    frame = auto.validation_frame()
    assert tuple(frame.columns) == COLUMNS
    assert frame["rmse"].is_monotonic_increasing


def test_with_one_of_them_given_only_the_other_is_chosen():
    _, data = low_rank(0, n=80, m=60, noise=0.3, offsets=True)
    only_reg = ALS(3, "auto", random_state=0, tol=1e-4).fit(data)
    assert only_reg.rank_ == 3
    assert set(only_reg.validation_[:, 0]) == {3}
    only_rank = ALS("auto", 0.1, random_state=0, tol=1e-4).fit(data)
    assert only_rank.reg_ == 0.1
    assert set(only_rank.validation_[:, 1]) == {0.1}
    numbers = ALS(3, 0.1, random_state=0, tol=1e-4).fit(data)
    assert not hasattr(numbers, "validation_")


def test_without_noise_hardly_any_reg_and_with_noise_alone_hardly_any_factor_is_chosen():
    A, clean = low_rank(0, n=100, m=80, density=0.6)
    model = ALS("auto", "auto", random_state=0, biases=False, tol=1e-9, max_iter=1000).fit(clean)
    assert np.linalg.norm(model.complete() - A) < 0.01 * np.linalg.norm(A)
    noise = Observed.of(np.random.default_rng(0).normal(size=(100, 80)))
    train, test = noise.split(0.2, seed=0)
    model = ALS("auto", "auto", random_state=0).fit(train)
    assert -model.score(test) < 1.02 * test.values.std()


def test_auto_tries_every_weighting_and_several_ranks():
    """It used to try one weighting, and to stop after one doubling of the rank that did not help."""
    _, data = low_rank(0, n=80, m=60, noise=0.3, offsets=True)
    model = ALS("auto", "auto", random_state=0, tol=1e-4).fit(data)
    assert set(model.validation_[:, 2]) == {0.0, 0.5, 1.0}
    assert {8, 16, 32} <= set(model.validation_[:, 0])
    assert len(set(model.validation_[:, 3])) >= 3


def test_the_choice_is_that_of_the_held_out_entries_and_stops_when_out_of_time():
    _, data = low_rank(0, n=80, m=60, noise=0.3)
    algorithm = ALSAlgorithm(1, 1.0)
    given = {"rank": "auto", "penalties": [Penalty(1.0, 1.0)], "search_reg": True, "seed": 3}
    rank, penalty, table = choose(algorithm, data, **given)
    assert [rank, penalty.reg] == table[table[:, -1].argmin(), :2].tolist()
    short = choose(algorithm, data, **given, seconds=1e-9)
    assert len(short[2]) == 1
    train, test = data.split(0.1, seed=3)
    state = run(replace(algorithm, rank=2), train, stop=MaxSteps(3), rng=0).state
    predicted = state.mean + state.b[:, None] + state.c + state.U @ state.V.T
    assert held_out_rmse(state, test) == pytest.approx(
        np.sqrt(np.nanmean((test.dense() - predicted) ** 2)), rel=1e-12
    )


def test_a_path_over_reg_is_warm_started_and_ends_where_a_cold_fit_ends():
    _, data = low_rank(0, noise=0.3)
    algorithm = ALSAlgorithm(30, 1.0, weighted=False, biases=False)  # a high rank: one minimum
    settled = Settled(1e-10) | MaxSteps(600)
    with one_blas_thread():  # as inside of a fit
        path = Path(algorithm, over={"reg": [8.0, 2.0]}, stop=settled)
        found = run(path, data, stop=Never(), rng=0)
        for reg, state in zip([8.0, 2.0], found.state.results, strict=True):
            cold = run(replace(algorithm, reg=reg), data, stop=settled, rng=1).state
            assert state.loss == pytest.approx(cold.loss, rel=1e-7)


# --- claims -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("feedback", ["explicit", "implicit"])
def test_a_fixed_point_is_told_from_a_point_on_the_way(feedback):
    _, data = low_rank(0, noise=0.3, offsets=True)
    data = Observed.of(np.abs(data.dense()))
    done = fitted(data, rank=3, reg=0.1, feedback=feedback)
    assert "fixed_point" in done.certificate_.held
    with pytest.warns(ConvergenceWarning):
        halfway = ALS(rank=3, reg=0.1, feedback=feedback, max_iter=1, random_state=0).fit(data)
    assert "fixed_point" in halfway.certificate_.failed


def test_the_gain_that_a_fixed_point_is_judged_by_is_what_a_half_sweep_gains():
    _, data = low_rank(0, noise=0.3, offsets=True)
    with pytest.warns(ConvergenceWarning):
        model = ALS(rank=3, reg=0.1, max_iter=2, random_state=0).fit(data)
    algorithm = ALSAlgorithm(3, 0.1)
    state = ALSState(
        model.U_, model.V_, model.row_bias_, model.column_bias_, model.mean_, model.loss_
    )
    _, _, losses = algorithm._rows(data, state)
    column_penalty = algorithm._penalty(model.V_, data.column_counts, model.column_bias_)
    gain = model.loss_ - (losses.sum() + column_penalty)
    share = gain / (model.loss_ - column_penalty)  # of what the rows can change
    assert model.certificate_["fixed_point"].measured == pytest.approx(share, rel=1e-6)


def test_negative_factors_are_found_out():
    _, data = low_rank(0)
    model = fitted(Observed.of(np.abs(data.dense())), rank=2, reg=0.1, nonnegative=True)
    assert "nonnegative_factors" in model.certificate_.held
    model.U_ = -model.U_
    assert "nonnegative_factors" in model.certify(model.observed_).failed


def test_too_few_entries_fail_their_claim_and_held_out_entries_are_judged():
    _, data = low_rank(0, density=0.3)
    train, test = data.split(0.2, seed=0)
    model = fitted(train, rank=10, reg=0.1, max_iter=50)
    assert "enough_entries" in model.certificate_.failed
    assert "held_out_error" in model.certificate_.undecided
    assert "held_out_error" not in [
        c.name for c in model.certify(train, test) if "pass held-out" in c.note
    ]


# --- input and files --------------------------------------------------------------------------------------------------


def test_a_forged_checkpoint_of_another_shape_is_refused(tmp_path):
    _, data = low_rank(0)
    path = tmp_path / "run.ckpt"
    ALS(2, 0.1, max_iter=3, tol=0, random_state=0, checkpoint=path).fit(data)
    content = store.read(path, Checkpoint.KIND)
    state = content["state"]
    store.write(path, Checkpoint.KIND, {**content, "state": replace(state, V=state.V[:-1])})
    with pytest.raises(store.StoreError, match="V"):
        ALS(2, 0.1, max_iter=6, tol=0, random_state=0, checkpoint=path).fit(data)


def test_rows_and_columns_without_entries_get_the_baseline():
    _, data = low_rank(0, offsets=True)
    X = data.dense()
    X[3], X[:, 5] = np.nan, np.nan
    for parameters in ({}, {"reg_weighting": "plain"}, {"method": "cg"}):
        model = fitted(X, rank=2, reg=0.1, max_iter=20, **parameters)
        assert not model.U_[3].any()
        assert not model.V_[5].any()
        baseline = model.mean_ + model.column_bias_
        assert_allclose(model.complete()[3], baseline, atol=1e-12)
        assert model.predict(3, 5) == pytest.approx(model.mean_)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"rank": 31}, r"rank=31 exceeds the smaller side of a 40 × 30 matrix; pass rank <= 30"),
        ({"feedback": "implicit"}, "counts what happened"),
        ({"rank": "auto", "feedback": "implicit"}, "explicit|counts"),
    ],
)
def test_impossible_parameters_are_refused_in_plain_words(parameters, message):
    _, data = low_rank(0)
    model = ALS(**{"rank": 2, **parameters})
    with pytest.raises(ValueError, match=message):
        model.fit(data)
    assert not hasattr(model, "U_")


def test_reg_zero_needs_enough_entries_in_every_row():
    A, data = low_rank(0, density=0.8)
    X = data.dense()
    model = fitted(X, rank=3, reg=0, biases=False)
    assert np.abs(model.complete() - A).max() < 1e-4
    X[7, 2:] = np.nan
    with pytest.raises(
        ValueError, match=r"reg=0 leaves 1 rows undetermined.*fewer than 3 entries.*row 7 with [12]"
    ):
        ALS(rank=3, reg=0, biases=False).fit(X)
    X[7] = np.nan  # nothing at all is no problem: the factors are 0
    ALS(rank=3, reg=0, biases=False, max_iter=3, tol=0).fit(X)
    X[10:, 4] = np.nan
    with pytest.raises(ValueError, match=r"column 4 with"):
        ALS(rank=9, reg=0).fit(X)


def test_auto_refuses_what_it_cannot_judge():
    with pytest.raises(ValueError, match="too few"):
        ALS("auto", "auto").fit(np.array([[1.0, np.nan], [np.nan, 2.0]]))
    with pytest.raises(ValueError, match="implicit"):
        ALS("auto", feedback="implicit").fit(np.ones((9, 9)))


def test_negative_entries_and_nonnegative_factors_are_worth_a_word():
    _, data = low_rank(0)
    with pytest.warns(UserWarning, match="predicts no negative entries"):
        ALS(rank=2, biases=False, nonnegative=True, max_iter=2, tol=0).fit(data)


def test_constant_data_needs_no_factors():
    model = ALS(rank=1, random_state=0).fit(np.where(np.eye(6) == 1, np.nan, 3.0))
    assert_allclose(model.complete(), 3.0, atol=1e-2)
    assert ALS(rank=1, random_state=0).fit(np.zeros((5, 4))).loss_ < 1e-3


# --- small data waits for no compiler ---------------------------------------------------------------------------------


SOLVERS = [{}, {"reg": 0.1}, {"method": "cg"}, {"nonnegative": True}, {"feedback": "implicit", "reg": 0.1}]  # fmt: skip


@pytest.mark.parametrize(
    ("parameters", "dtype"),
    [
        *((parameters, np.float64) for parameters in SOLVERS),
        ({}, np.float32),
        # the same lines, compiled once more
        *(pytest.param(one, np.float32, marks=pytest.mark.slow) for one in SOLVERS[1:]),
    ],
)
def test_kernels_and_their_numpy_twins_fit_alike(parameters, dtype):
    _, data = low_rank(0, noise=0.3, offsets=True)
    data = Observed.of(np.abs(data.dense()).astype(dtype))
    given_ = {"rank": 3, "random_state": 0, "tol": 0, "max_iter": 5, **parameters}
    fits = []
    for compile in ("always", "never"):
        with lemmata.config(compile=compile):
            fits.append(ALS(**given_).fit(data))
    tolerance = 1e-8 if dtype == np.float64 else 2e-2  # five sweeps carry rounding on
    assert fits[0].n_iter_ == fits[1].n_iter_
    assert_allclose(fits[1].loss_, fits[0].loss_, rtol=tolerance)
    assert_allclose(fits[1].complete(keep_known=False), fits[0].complete(keep_known=False), atol=10 * tolerance)  # fmt: skip
