"""Lasso and elastic net at one λ: the gap, the conditions of optimality, and what must not change the answer."""

import time

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn.linear_model as sk
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sklearn.exceptions import ConvergenceWarning

import lemmata
from lemmata import ElasticNet, Lasso


def regression(n=80, d=30, seed=0, nonzero=6, noise=0.5, correlated=True):
    """Correlated columns far from zero, of different scales, and a sparse truth."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    if correlated:
        X = X + 0.7 * rng.normal(size=(n, 1))
    X = X * rng.uniform(0.5, 2, d) + rng.normal(size=d)
    w = np.zeros(d)
    w[rng.choice(d, min(nonzero, d), replace=False)] = rng.normal(size=min(nonzero, d)) * 3
    return X, X @ w + 2 + noise * rng.normal(size=n)


def loss(model, X, y, weights=None, factor=None):
    """P(w, b), written out again."""
    s = np.ones(len(y)) if weights is None else weights
    p = np.ones(X.shape[1]) if factor is None else factor
    w, rho = model.coef_, model.l1_ratio
    r = y - X @ w - model.intercept_
    penalty = p @ (rho * np.abs(w) + (1 - rho) / 2 * w**2)
    return float((s * r**2).sum() / (2 * s.sum()) + model.alpha * penalty)


def violation(model, X, y, weights=None, factor=None):
    """How far the conditions of optimality are from holding: |∂P| at its smallest, largest over the coordinates."""
    s = np.ones(len(y)) if weights is None else weights
    p = np.ones(X.shape[1]) if factor is None else factor
    w = model.coef_
    r = y - X @ w - model.intercept_
    g = X.T @ (s * r) / s.sum() - model.alpha * (1 - model.l1_ratio) * p * w
    l1 = model.alpha * model.l1_ratio * p
    at_zero = np.maximum((g if model.positive else np.abs(g)) - l1, 0)
    return float(np.where(w != 0, np.abs(g - l1 * np.sign(w)), at_zero).max())


TIGHT = {"tol": 1e-14, "max_iter": 100_000}
SHAPES = {"tall": (80, 30), "wide": (40, 150), "screened": (50, 700)}  # the last has passes over X


@pytest.mark.parametrize("l1_ratio", [1.0, 0.6, 0.0])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_fit_is_optimal_and_agrees_with_scikit_learn(shape, l1_ratio):
    X, y = regression(*SHAPES[shape], seed=3)
    for share in (0.5, 0.05):
        alpha = share * np.abs((X - X.mean(0)).T @ (y - y.mean())).max() / len(y)
        ours = ElasticNet(alpha, l1_ratio=l1_ratio, **TIGHT).fit(X, y)
        scale = np.abs(X).max() * np.abs(y).max()
        assert violation(ours, X, y) <= 1e-9 * scale
        if l1_ratio:
            theirs = sk.ElasticNet(alpha, l1_ratio=l1_ratio, tol=1e-13, max_iter=200_000).fit(X, y)
            assert_allclose(ours.coef_, theirs.coef_, atol=2e-5 * np.abs(theirs.coef_).max())
            assert loss(ours, X, y) <= loss(theirs, X, y) * (1 + 1e-10)
        assert ours.certificate_.failed == []


def test_the_gap_bounds_the_distance_to_the_optimum_at_every_tolerance():
    X, y = regression(50, 700, seed=1)
    best = loss(Lasso(0.1, **TIGHT).fit(X, y), X, y)
    for tol in (1e-1, 1e-2, 1e-4, 1e-6):
        model = Lasso(0.1, tol=tol).fit(X, y)
        above = loss(model, X, y) - best
        assert -1e-12 <= above <= model.dual_gap_ + 1e-12
        assert model.dual_gap_ <= tol * y.var()


@settings(max_examples=30)
@given(
    st.integers(2, 25),
    st.integers(1, 25),
    st.floats(0, 1),
    st.floats(1e-3, 10),
    st.integers(0, 10**6),
)
def test_any_small_problem_is_optimal(n, d, l1_ratio, alpha, seed):
    """A step along one coordinate of curvature L gains v²/2L, and no more than the gap can be gained: v ≤ √(2 L tol var y)."""
    X, y = regression(n, d, seed)
    model = ElasticNet(alpha, l1_ratio=l1_ratio, **TIGHT).fit(X, y)
    curvature = np.square(X).mean(axis=0).max() + alpha * (1 - l1_ratio)
    rounding = 1e-9 * max(1.0, np.abs(X).max() * np.abs(y).max())
    assert violation(model, X, y) <= np.sqrt(2 * curvature * TIGHT["tol"] * y.var()) + rounding
    assert not model.certificate_.failed


@pytest.mark.parametrize("shape", SHAPES)
def test_screening_never_drops_a_nonzero(shape):
    """Against coordinate descent over all columns, unscreened."""
    from lemmata.predict.lasso import _twins
    from lemmata.predict.lasso.algorithm import ElasticNetAlgorithm
    from lemmata.predict.lasso.problem import prepare
    from lemmata.predict.lasso.subproblem import Enough, GramQuadratic

    X, y = regression(*SHAPES[shape], seed=5)
    problem = prepare(X, y, None, fit_intercept=True)
    alphas = tuple(problem.largest(False) * np.geomspace(1, 0.02, 12))
    found = {}
    for screening in (True, False):
        problem = prepare(X, y, None, fit_intercept=True)
        algorithm = ElasticNetAlgorithm(alphas, tol=1e-13, max_iter=10**5, screening=screening)
        state = algorithm.init(problem, None)
        while (state.done == 0).any():
            state = algorithm.step(state, problem)
        found[screening] = state.coefs
    rows = problem.design.take(np.arange(X.shape[1]))
    for k, alpha in enumerate(alphas):
        l1, l2 = np.full(len(rows), alpha), np.zeros(len(rows))
        yy = float(problem.Y[:, 0] @ problem.Y[:, 0])
        exact = GramQuadratic(rows @ rows.T, rows @ problem.Y[:, 0], l1, l2, yy, False, _twins)
        exact = exact.minimise(np.zeros(len(rows)), Enough(1e-15 * yy, 1.0, yy), 10**5).w
        for coefs in found.values():
            assert_allclose(coefs[k], exact, atol=1e-6 * max(np.abs(exact).max(), 1e-3))


def test_gap_safe_screening_keeps_every_nonzero_from_any_point():
    from lemmata.predict.lasso.duality import duality, may_be_nonzero

    rng = np.random.default_rng(0)
    dropped = 0
    for trial in range(30):
        X, y = regression(40, 60, seed=trial)
        Z = (X - X.mean(0)) / np.sqrt(len(y))
        t = (y - y.mean()) / np.sqrt(len(y))
        alpha = 0.3 * np.abs(Z.T @ t).max()
        best = ElasticNet(alpha, l1_ratio=0.8, **TIGHT).fit(X, y).coef_
        w = best + 10.0 ** -rng.integers(0, 8) * rng.normal(size=60) * (rng.random(60) < 0.3)
        r = t - Z @ w
        l1, l2 = np.full(60, 0.8 * alpha), np.full(60, 0.2 * alpha)
        found = duality(w, r, t, Z.T @ r, l1, l2, False)
        alive = may_be_nonzero(found, Z.T @ r - l2 * w, np.linalg.norm(Z, axis=0), l1, l2, False)
        assert alive[best != 0].all()
        dropped += (~alive).sum()
    assert dropped > 50


@pytest.mark.parametrize("positive", [False, True])
def test_from_lambda_max_on_all_coefficients_are_exactly_zero(positive):
    X, y = regression(50, 200)
    v = (X - X.mean(0)).T @ (y - y.mean()) / len(y)
    largest = (v if positive else np.abs(v)).max()
    assert not Lasso(largest, positive=positive).fit(X, y).coef_.any()
    assert Lasso(0.999 * largest, positive=positive, tol=1e-12).fit(X, y).coef_.any()


@pytest.mark.parametrize("shape", SHAPES)
def test_positive_coefficients_are_the_constrained_optimum(shape):
    X, y = regression(*SHAPES[shape], seed=2)
    model = Lasso(0.05, positive=True, **TIGHT).fit(X, y)
    assert (model.coef_ >= 0).all()
    assert (model.coef_ > 0).any()
    assert violation(model, X, y) <= 1e-9 * np.abs(X).max() * np.abs(y).max()
    assert model.certificate_.failed == []


@pytest.mark.parametrize("sparse", [False, True])
def test_weights_are_repetitions(sparse):
    X, y = regression(60, 40)
    times = np.random.default_rng(0).integers(0, 4, len(y))
    rows = sp.csr_array(X) if sparse else X
    weighted = Lasso(0.05, **TIGHT).fit(rows, y, sample_weight=times.astype(float))
    repeated = Lasso(0.05, **TIGHT).fit(np.repeat(X, times, axis=0), np.repeat(y, times))
    assert_allclose(weighted.coef_, repeated.coef_, atol=1e-9)
    assert_allclose(weighted.intercept_, repeated.intercept_, atol=1e-9)
    assert violation(weighted, X, y, times) <= 1e-9
    twice = Lasso(0.05, **TIGHT).fit(rows, y, sample_weight=2.0 * times)
    assert_allclose(twice.coef_, weighted.coef_, atol=1e-10)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("shape", [(80, 30), (50, 700)])
def test_sparse_rows_give_what_dense_rows_give(shape, fit_intercept):
    rng = np.random.default_rng(0)
    X = sp.random_array(shape, density=0.1, rng=rng, format="csc")
    X = (X * (np.arange(shape[1]) != 3)).tocsc()  # an empty column
    w = np.zeros(shape[1])
    w[:8] = 2.0
    y = X @ w + 0.1 * rng.normal(size=shape[0]) + 1
    fits = [
        Lasso(1e-3, fit_intercept=fit_intercept, **TIGHT).fit(rows, y)
        for rows in (X.toarray(), np.asfortranarray(X.toarray()), X, X.tocsr())
    ]
    for fit in fits[1:]:
        assert_allclose(fit.coef_, fits[0].coef_, atol=1e-8)
        assert_allclose(fit.intercept_, fits[0].intercept_, atol=1e-8)
    assert violation(fits[2], X, y) < 1e-9
    assert not fits[2].certificate_.failed


def test_scaling_the_data_scales_the_answer():
    X, y = regression(50, 20)
    plain = Lasso(0.1, **TIGHT).fit(X, y)
    for a, b in ((8.0, 1.0), (1.0, 16.0), (2.0**-20, 2.0**12), (2.0**300, 2.0**-300)):
        scaled = Lasso(0.1 * a * b, **TIGHT).fit(a * X, b * y + 3 * b)
        assert_allclose(scaled.coef_, plain.coef_ * b / a, rtol=1e-6, atol=1e-9 * b / a)


def test_penalty_factors_scale_columns_and_zero_frees_them():
    X, y = regression(60, 25, seed=4)
    p = np.random.default_rng(1).uniform(0.2, 3, 25)
    ours = Lasso(0.1, penalty_factor=p, **TIGHT).fit(X, y)
    assert_allclose(ours.coef_, Lasso(0.1, **TIGHT).fit(X / p, y).coef_ / p, atol=1e-8)
    p[[2, 5, 7]] = 0.0
    for rows in (X, sp.csr_array(X)):
        free = ElasticNet(0.5, l1_ratio=0.7, penalty_factor=p, **TIGHT).fit(rows, y)
        assert violation(free, X, y, factor=p) <= 1e-8
        assert free.coef_[[2, 5, 7]].all()
        assert free.certificate_.failed == []
    everything = Lasso(1e6, penalty_factor=p).fit(X, y)
    least_squares = sk.LinearRegression().fit(X[:, [2, 5, 7]], y)
    assert_allclose(everything.coef_[[2, 5, 7]], least_squares.coef_, rtol=1e-8)
    assert np.count_nonzero(everything.coef_) == 3


def test_duplicated_collinear_constant_and_offset_columns():
    X, y = regression(50, 10)
    plain = Lasso(0.1, **TIGHT).fit(X, y)
    odd = np.hstack([X, X[:, :3], X[:, :1] + X[:, 1:2], np.full((50, 1), 7.0), np.zeros((50, 1))])
    model = Lasso(0.1, tol=1e-10, max_iter=10**5).fit(odd, y)
    assert violation(model, odd, y) < 1e-4
    assert loss(model, odd, y) <= loss(plain, X, y) + 1e-9
    assert not model.coef_[-2:].any()
    far = X.copy()
    far[:, 4] += 1e9  # its mean has nine digits more than its deviations
    assert_allclose(Lasso(0.1, **TIGHT).fit(far, y).coef_, plain.coef_, atol=1e-5)


def test_outputs_are_independent_problems():
    X, _ = regression(40, 700)
    Y = np.stack([regression(40, 700, seed=s)[1] for s in range(3)], axis=1)
    together = Lasso(0.3, **TIGHT).fit(X, Y)
    assert together.coef_.shape == (3, 700)
    assert together.intercept_.shape == (3,)
    assert together.dual_gap_.shape == (3,)
    assert together.predict(X).shape == (40, 3)
    for k in range(3):
        alone = Lasso(0.3, **TIGHT).fit(X, Y[:, k])
        assert_allclose(together.coef_[k], alone.coef_, atol=1e-8)
    assert together.sparse_coef_.shape == (3, 700)


def test_kernels_do_what_their_twins_do():
    from lemmata.predict.lasso import _kernels, _twins

    rng = np.random.default_rng(0)
    for trial in range(12):
        A = rng.normal(size=(30, 12))
        G, q = A.T @ A / 30, rng.normal(size=12)
        l1, l2 = rng.uniform(0.05, 0.3, 12), rng.uniform(0.1, 1, 12) * (trial % 2)
        yy, positive = 2 * float(q @ np.linalg.solve(G, q)), trial % 3 == 0
        results = []
        for module in (_kernels, _twins):
            w = np.zeros(12)
            h = q.copy()
            out = module.descend(G, q, w, h, l1, l2, yy, positive, 1e-10 * yy, 1.0, yy, 500, 4)
            results.append((w, h, np.array(out[1:3])))
            assert out[3]
        for ours, twin in zip(*results, strict=True):
            assert_allclose(ours, twin, atol=1e-9)


def test_compiled_and_numpy_fits_agree(monkeypatch):
    X, y = regression(60, 400)
    fits = []
    for mode in ("always", "never"):
        with lemmata.config(compile=mode):
            fits.append(Lasso(0.05, **TIGHT).fit(X, y).coef_)
    assert_allclose(*fits, atol=1e-9)


def test_one_thread_gives_what_two_give(monkeypatch):
    X, y = regression(900, 1300, correlated=False)  # enough for passes side by side
    fits = []
    for threads in ("1", "2"):
        monkeypatch.setenv("LEMMATA_THREADS", threads)
        fits.append([Lasso(0.05).fit(rows, y).coef_ for rows in (X, np.asfortranarray(X))])
    for one, two in zip(*fits, strict=True):
        assert (one == two).all()


def test_a_planted_support_is_recovered():
    """n ≫ s log d independent columns, large coefficients: the Lasso finds the signs (Wainwright 2009)."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 1000))
    w = np.zeros(1000)
    w[rng.choice(1000, 10, replace=False)] = rng.choice([-2.0, 2.0], 10)
    y = X @ w + 0.3 * rng.normal(size=400)
    model = Lasso(0.15).fit(X, y)
    assert (np.sign(model.coef_) == np.sign(w)).all()


def test_warm_start_begins_where_the_last_fit_ended():
    X, y = regression(50, 700)
    model = Lasso(0.1, warm_start=True, tol=1e-10).fit(X, y)
    cold = Lasso(0.09, tol=1e-10).fit(X, y)
    sweeps = model.n_iter_
    again = model.fit(X, y)
    assert again.n_iter_ <= 1 < sweeps
    warm = model.set_params(alpha=0.09).fit(X, y)
    assert_allclose(warm.coef_, cold.coef_, atol=1e-6)
    with pytest.raises(ValueError, match="warm_start"):
        model.fit(X[:, :5], y)


def test_one_sweep_is_not_enough_and_is_told():
    X, y = regression(30, 80)
    with pytest.warns(ConvergenceWarning, match="max_iter=1"):
        model = Lasso(1e-3, max_iter=1).fit(X, y)
    assert model.stopped_ == "max steps"
    assert model.n_iter_ == 1
    assert "near_optimum" in model.certify(X, y).failed


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"penalty_factor": [1.0, 2.0]}, "one number per feature"),
        ({"penalty_factor": -np.ones(6)}, "numbers >= 0"),
        ({"penalty_factor": np.zeros(6), "positive": True}, "positive=True"),
    ],
)
def test_bad_parameters_are_named(change, match):
    X, y = regression(20, 6)
    with pytest.raises(ValueError, match=match):
        ElasticNet(**change).fit(X, y)


def test_bad_data_gets_one_clear_sentence():
    X, y = regression(20, 6)
    bad = X.copy()
    bad[3, 2] = np.nan
    with pytest.raises(ValueError, match=r"contains NaN.*row 3, column 2"):
        Lasso().fit(bad, y)
    with pytest.raises(ValueError, match="NaN"):
        Lasso().fit(X, np.where(np.arange(20) == 3, np.nan, y))
    with pytest.raises(ValueError, match="too large to be squared"):
        Lasso().fit(X * 1e200, y)
    with pytest.raises(ValueError, match="too large to be squared"):
        Lasso().fit(X, y * 1e200)
    with pytest.raises(ValueError, match="non-zero"):
        Lasso().fit(X, y, sample_weight=np.zeros(20))
    with pytest.warns(UserWarning, match="LinearRegression"):
        model = Lasso(0.0, tol=1e-12).fit(X, y)
    assert_allclose(model.coef_, sk.LinearRegression().fit(X, y).coef_, atol=1e-6)


def test_a_constant_target_has_no_slope():
    X, _ = regression(20, 6)
    model = Lasso(0.1).fit(X, np.full(20, 3.5))
    assert not model.coef_.any()
    assert model.intercept_ == 3.5


def test_a_hundred_thousand_empty_columns_cost_nothing():
    rng = np.random.default_rng(0)
    few = sp.random_array((50, 30), density=0.3, rng=rng, format="csc")
    many = sp.hstack([few, sp.csc_array((50, 100_000))]).tocsc()
    y = few @ rng.normal(size=30)
    begin = time.process_time()
    wide = Lasso(0.01, **TIGHT).fit(many, y)
    assert time.process_time() - begin < 5
    assert_allclose(wide.coef_[:30], Lasso(0.01, **TIGHT).fit(few, y).coef_, atol=1e-9)
    assert not wide.coef_[30:].any()


def test_free_columns_may_explain_everything():
    X, y = regression(4, 12)
    p = np.ones(12)
    p[:6] = 0.0
    model = Lasso(0.1, penalty_factor=p).fit(X, y)
    assert_allclose(model.predict(X), y, atol=1e-8)
    assert not model.coef_[6:].any()
