"""Ridge and RidgeCV: one solution by every way, leave-one-out by leaving one out, and bad input."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sklearn import linear_model
from sklearn.exceptions import ConvergenceWarning

import lemmata
from lemmata import Ridge, RidgeCV
from lemmata.predict.least_squares.conjugate_gradients import (
    CentredProducts,
    ConjugateGradientAlgorithm,
)


def problem(n=60, d=8, m=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) + 1
    return X, X @ rng.normal(size=(d, m)) + rng.normal(size=(n, m)), rng.random(n)


def gradient(model, X, Y, s, alpha):
    """Of ½ Σ s r² + ½ α‖w‖² in w and b."""
    r = (Y - model.predict(X)) * s[:, None]
    return X.T @ r - alpha * model.coef_.T, r.sum(axis=0)


@pytest.mark.parametrize("shape", [(60, 8), (12, 40)])
@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("solver", ["auto", "cholesky", "svd", "sparse_cg", "lsqr"])
def test_every_way_ends_where_the_gradient_is_zero(shape, sparse, intercept, solver):
    X, Y, s = problem(*shape)
    X = np.where(X > 0.5, X, 0)
    if sparse and solver == "svd":
        with pytest.raises(ValueError, match="sparse"):
            Ridge(solver="svd").fit(sp.csr_array(X), Y)
        return
    for alpha in (0.7, np.array([0.1, 10.0])):
        model = Ridge(alpha, fit_intercept=intercept, solver=solver, tol=1e-13)
        model.fit(sp.csr_array(X) if sparse else X, Y, s)
        in_w, in_b = gradient(model, X, Y, s, alpha)
        assert np.abs(in_w).max() < 1e-8
        assert not intercept or np.abs(in_b).max() < 1e-10
        assert model.certificate_.failed == []
    theirs = linear_model.Ridge(alpha, fit_intercept=intercept, solver="auto", tol=1e-12).fit(
        X, Y, s
    )
    assert_allclose(model.coef_, theirs.coef_, atol=1e-8)
    assert_allclose(model.intercept_, theirs.intercept_, atol=1e-8)


def test_primal_and_dual_are_one_solution():
    X, Y, s = problem(20, 20)
    wide, long = (
        Ridge(0.3).fit(X[:19], Y[:19], s[:19]),
        Ridge(0.3).fit(list(np.array_split(X[:19], 2)), Y[:19], s[:19]),
    )
    assert (wide.solver_, long.solver_) == ("dual", "cholesky")
    assert_allclose(wide.coef_, long.coef_, rtol=1e-9)


@pytest.mark.parametrize("alpha", [0.0, 1e-14])
def test_almost_no_penalty_on_collinear_columns(alpha):
    X, Y, _ = problem(50, 4)
    X = np.column_stack([X, X[:, 0]])
    model = Ridge(alpha).fit(X, Y)
    assert model.solver_ == "svd"
    assert_allclose(model.coef_[:, 0], model.coef_[:, 4], rtol=1e-6)  # the shortest weights share
    assert_allclose(
        model.predict(X), linear_model.LinearRegression().fit(X, Y).predict(X), rtol=1e-8
    )


def test_positive_weights():
    X, Y, _ = problem(60, 6)
    model = Ridge(0.5, positive=True).fit(X, Y[:, 0])
    theirs = linear_model.Ridge(0.5, positive=True, tol=1e-12).fit(X, Y[:, 0])
    assert (model.coef_ >= 0).all()
    assert_allclose(model.coef_, theirs.coef_, atol=1e-5)
    assert model.certificate_.failed == []


def test_ridge_is_the_map_estimate():
    """ML, Ridge as MAP: with w ~ N(0, τ²I) and noise σ², α = σ²/τ² maximises the posterior density."""
    X, Y, _ = problem(40, 3, m=1)
    y, sigma2, tau2 = Y[:, 0], 0.5, 2.0
    model = Ridge(sigma2 / tau2, fit_intercept=False).fit(X, y)

    def log_posterior(w):
        return -np.sum((y - X @ w) ** 2) / (2 * sigma2) - w @ w / (2 * tau2)

    rng = np.random.default_rng(0)
    best = log_posterior(model.coef_)
    assert all(log_posterior(model.coef_ + 1e-3 * rng.normal(size=3)) < best for _ in range(50))


def test_the_notes_scalings_of_the_penalty():
    """(1/2N)‖y − Xw‖² + λ‖w‖² is α = 2Nλ, and (1/2N)‖y − Xw‖² + ½λ‖w‖² is α = Nλ; (1/N)(XᵀX + λI)⁻¹Xᵀy is neither."""
    X, Y, _ = problem(40, 3, m=1)
    y, N, lam = Y[:, 0], 40, 0.1
    for factor, alpha in ((1.0, 2 * N * lam), (0.5, N * lam)):
        w = Ridge(alpha, fit_intercept=False).fit(X, y).coef_
        assert_allclose(-X.T @ (y - X @ w) / N + 2 * factor * lam * w, 0, atol=1e-12)
    slip = np.linalg.solve(X.T @ X + lam * np.eye(3), X.T @ y) / N
    assert np.abs(-X.T @ (y - X @ slip) / N + lam * slip).max() > 0.1


def test_conjugate_gradients_never_raise_the_objective_and_say_when_they_stop_early():
    X, Y, _ = problem(300, 60)
    model = Ridge(1e-3, solver="sparse_cg", tol=1e-12).fit(X, Y)
    assert model.stopped_ == "finished"
    assert model.trace_.largest_rise <= 1e-12
    with pytest.warns(ConvergenceWarning, match="raise max_iter"):
        early = Ridge(1e-3, solver="sparse_cg", max_iter=2).fit(X, Y)
    assert "near_optimum" in early.certificate_.failed


def test_the_objective_in_a_state_is_that_of_its_weights():
    X, Y, s = problem(50, 5)
    data = lemmata.core.blocks.Blocks.of(X, s).with_targets(Y)
    alpha = np.array([0.5, 2.0])
    products, algorithm = (
        CentredProducts(data, True, alpha),
        ConjugateGradientAlgorithm(alpha, 1e-12),
    )
    state = algorithm.init(products, None)
    for _ in range(3):
        state = algorithm.step(state, products)
        r = (Y - products.y_mean) - (X - products.x_mean) @ state.coef
        squares = (s[:, None] * r**2).sum(axis=0)
        assert_allclose(state.squares, squares, rtol=1e-10)
        assert_allclose(state.objectives, 0.5 * squares + 0.5 * alpha * (state.coef**2).sum(axis=0))


def test_units_of_columns_slow_no_conjugate_gradients():
    X, Y, _ = problem(200, 20)
    units = 10.0 ** np.arange(-10, 10)
    steps = [Ridge(1e-30, solver="sparse_cg", tol=1e-8).fit(A, Y).n_iter_ for A in (X, X * units)]
    assert steps[1] <= steps[0] + 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"alpha": np.ones(3)}, "do not correspond"),
        ({"alpha": np.array([1.0, np.nan])}, "finite number"),
        ({"solver": "lbfgs"}, "positive=True"),
        ({"solver": "svd", "positive": True}, "positive fitting"),
    ],
)
def test_penalties_and_solvers_that_make_no_sense(options, message):
    X, Y, _ = problem(20, 3)
    with pytest.raises(ValueError, match=message):
        Ridge(**options).fit(X, Y)


# --- RidgeCV ----------------------------------------------------------------------------------------------------------

ALPHAS = np.geomspace(1e-3, 1e3, 7)


@settings(max_examples=12)
@given(st.integers(0, 10_000))
def test_leave_one_out_errors_are_those_of_leaving_one_out(seed):
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(4, 12)), int(rng.integers(1, 16))
    X, Y, s = problem(n, d, seed=seed)
    s = s + 0.1 if rng.random() < 0.5 else None
    intercept = bool(rng.random() < 0.5)
    alphas = np.array([1e-3, 1.0, 50.0])
    with lemmata.config(certificate=False):
        model = RidgeCV(alphas, fit_intercept=intercept, store_cv_results=True).fit(X, Y, s)
        for a, alpha in enumerate(alphas):
            for i in range(n):
                rest = np.delete(np.arange(n), i)
                fold = Ridge(alpha, fit_intercept=intercept)
                fold.fit(X[rest], Y[rest], None if s is None else s[rest])
                error = (Y[i] - fold.predict(X[i : i + 1])[0]) ** 2 * (1 if s is None else s[i])
                assert_allclose(model.cv_results_[i, :, a], error, rtol=1e-6, atol=1e-10)
    mean = model.cv_results_.mean(axis=(0, 1))
    assert_allclose(model.scores_, -mean)
    assert model.alpha_ == alphas[mean.argmin()]


@pytest.mark.parametrize("shape", [(60, 8), (20, 50)])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"alpha_per_target": True},
        {"store_cv_results": True},
        {"scoring": "neg_mean_absolute_error"},
        {"scoring": "r2", "store_cv_results": True},
        {"scoring": "r2", "alpha_per_target": True},
        {"cv": 3},
    ],
)
def test_choices_are_those_of_scikit_learn(shape, options):
    X, Y, s = problem(*shape)
    # scikit-learn 1.9 raises for one target with a scorer per target
    targets = (Y,) if len(options) == 2 and "alpha_per_target" in options else (Y, Y[:, 0])
    for y in targets[:1] if "cv" in options else targets:
        for weights in (None, s):
            ours, theirs = (
                M(ALPHAS, **options).fit(X, y, weights) for M in (RidgeCV, linear_model.RidgeCV)
            )
            assert_allclose(ours.alpha_, theirs.alpha_)
            assert_allclose(ours.best_score_, theirs.best_score_, rtol=1e-8)
            assert_allclose(ours.coef_, theirs.coef_, atol=1e-8)
            if "store_cv_results" in options:
                assert_allclose(ours.cv_results_, theirs.cv_results_, rtol=1e-7, atol=1e-9)


def test_sparse_rows_and_streams_choose_the_same():
    X, Y, s = problem(90, 6)
    X = np.where(X > 1, X, 0)
    whole = RidgeCV(ALPHAS).fit(X, Y, s)
    for form in (sp.csr_array(X), list(np.array_split(X, 4))):
        other = RidgeCV(ALPHAS).fit(form, Y, s)
        assert other.alpha_ == whole.alpha_
        assert_allclose(other.scores_, whole.scores_, rtol=1e-9)


def test_tiny_penalties_lose_no_digits_on_wide_data():
    """(K + αI)⁻¹ has 1/α in the direction of the intercept: taking it off would leave nothing at α = 1e-12."""
    X, Y, _ = problem(12, 40)
    model = RidgeCV([1e-12, 1e3], store_cv_results=True).fit(X, Y)
    for i in (0, 7):
        rest = np.delete(np.arange(12), i)
        exact = linear_model.LinearRegression().fit(X[rest], Y[rest]).predict(X[i : i + 1])[0]
        assert_allclose(model.cv_results_[i, :, 0], (Y[i] - exact) ** 2, rtol=1e-6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"alphas": [1.0, -1.0]}, r"alphas\[1\]"),
        ({"alphas": [0.0]}, "must be > 0"),
        ({"alphas": []}, "at least one"),
        ({"cv": 3, "store_cv_results": True}, "incompatible"),
        ({"cv": 3, "alpha_per_target": True}, "incompatible"),
    ],
)
def test_choices_that_make_no_sense(options, message):
    X, Y, _ = problem(20, 3)
    with pytest.raises(ValueError, match=message):
        RidgeCV(**options).fit(X, Y)


def test_models_come_back_from_their_files(tmp_path):
    X, Y, _ = problem()
    for model in (Ridge(), RidgeCV(alpha_per_target=True, store_cv_results=True)):
        model.fit(X, Y)
        lemmata.save(model, tmp_path / "m.lemma")
        assert_allclose(lemmata.load(tmp_path / "m.lemma").predict(X), model.predict(X))
