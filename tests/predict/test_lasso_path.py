"""Paths and cross-validation."""

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn.linear_model as sk
from numpy.testing import assert_allclose
from sklearn.model_selection import KFold

import lemmata
from lemmata import ElasticNet, ElasticNetCV, Lasso, LassoCV, LassoPath
from lemmata.core import MaxSteps, run
from lemmata.predict import enet_path, lasso_path
from lemmata.predict.lasso import _twins, cv
from lemmata.predict.lasso.algorithm import ElasticNetAlgorithm
from lemmata.predict.lasso.cv import choose
from lemmata.predict.lasso.problem import prepare
from lemmata.predict.lasso.subproblem import gaps_of, guess_path
from tests.predict.test_lasso import regression, violation

PROBLEMS = {"tall": (90, 30), "wide": (50, 1000)}


def at(path, k, l1_ratio=1.0):
    """The model of one λ of a path."""
    model = ElasticNet(path.alphas_[k], l1_ratio=l1_ratio, positive=path.positive)
    model.coef_, model.intercept_ = path.coefs_[:, k], path.intercepts_[k]
    return model


@pytest.mark.parametrize("l1_ratio", [1.0, 0.5])
@pytest.mark.parametrize("shape", PROBLEMS)
def test_every_lambda_has_a_small_gap_and_is_optimal(shape, l1_ratio):
    X, y = regression(*PROBLEMS[shape])
    path = LassoPath(l1_ratio=l1_ratio, alphas=40, eps=1e-2, tol=1e-11, max_iter=10**5).fit(X, y)
    assert not path.coefs_[:, 0].any()
    assert path.dual_gaps_.max() <= 1e-11 * y.var()
    scale = np.abs(X).max() * np.abs(y).max()
    assert max(violation(at(path, k, l1_ratio), X, y) for k in range(40)) <= 3e-5 * scale
    assert path.certificate_.failed == []
    assert path.predict(X).shape == (len(y), 40)


@pytest.mark.parametrize("shape", PROBLEMS)
def test_the_functions_return_what_scikit_learns_return(shape):
    X, y = regression(*PROBLEMS[shape])
    X, y = X - X.mean(0), y - y.mean()
    for ours, theirs, extra in (
        (lasso_path, sk.lasso_path, {}),
        (enet_path, sk.enet_path, {"l1_ratio": 0.7}),
    ):
        a, coefs, gaps, sweeps = ours(
            X, y, alphas=20, eps=0.05, tol=1e-12, max_iter=10**5, return_n_iter=True, **extra
        )
        b, expected, _ = theirs(X, y, alphas=20, eps=0.05, tol=1e-12, max_iter=10**6, **extra)
        assert_allclose(a, b)
        assert_allclose(coefs, expected, atol=1e-5 * np.abs(expected).max())
        assert len(sweeps) == 20
        assert (gaps <= 1e-12 * y @ y / len(y)).all()
    a, coefs, _ = lasso_path(X, y, alphas=[0.01, 0.1], positive=True)
    assert (a == [0.1, 0.01]).all()
    assert (coefs >= 0).all()
    with pytest.raises(ValueError, match="one target"):
        lasso_path(X, np.stack([y, y], axis=1))


def test_the_path_is_continuous_and_its_norm_falls_with_lambda():
    X, y = regression(60, 20)
    path = LassoPath(alphas=400, eps=1e-2, tol=1e-13, max_iter=10**5).fit(X, y)
    jumps = np.abs(np.diff(path.coefs_, axis=1)).max(axis=0)
    # w is Lipschitz in λ: ‖Δw‖ ≤ Δλ √d / μ with μ the least curvature of the centred columns
    curvature = np.linalg.eigvalsh(np.cov(X.T, bias=True)).min()
    assert (jumps <= -np.diff(path.alphas_) * np.sqrt(20) / curvature + 1e-9).all()
    assert (np.diff(np.abs(path.coefs_).sum(axis=0)) >= -1e-9).all()


def test_models_of_a_path_stand_on_it_and_between():
    X, y = regression(60, 20)
    path = LassoPath(alphas=30, tol=1e-12, max_iter=10**5).fit(X, y)
    direct = Lasso(path.alphas_[7], tol=1e-12, max_iter=10**5).fit(X, y)
    assert_allclose(path.at(path.alphas_[7]).coef_, direct.coef_, atol=1e-7)
    assert path.at(path.alphas_[7]).certify(X, y).failed == []
    between = path.at(float(np.sqrt(path.alphas_[7] * path.alphas_[8])))
    assert (
        np.abs(between.coef_ - direct.coef_).max()
        <= np.abs(path.coefs_[:, 8] - direct.coef_).max() + 1e-6
    )
    with pytest.raises(ValueError, match="not on this path"):
        path.at(10 * path.alphas_[0])


def test_a_sparse_path_equals_the_dense_one():
    rng = np.random.default_rng(0)
    X = sp.random_array((80, 1400), density=0.05, rng=rng, format="csc")
    y = X[:, :10].sum(axis=1) + 0.05 * rng.normal(size=80)
    options = {"alphas": 25, "eps": 1e-2, "tol": 1e-11, "max_iter": 10**5}
    dense, sparse = (LassoPath(**options).fit(rows, y) for rows in (X.toarray(), X))
    assert_allclose(sparse.alphas_, dense.alphas_)
    assert_allclose(sparse.coefs_, dense.coefs_, atol=1e-4 * np.abs(dense.coefs_).max())


def test_a_path_with_free_columns_begins_at_their_least_squares():
    X, y = regression(60, 20)
    p = np.ones(20)
    p[[0, 3]] = 0.0
    path = LassoPath(alphas=20, penalty_factor=p, tol=1e-12, max_iter=10**5).fit(X, y)
    expected = sk.LinearRegression().fit(X[:, [0, 3]], y)
    assert set(np.flatnonzero(path.coefs_[:, 0])) == {0, 3}
    assert_allclose(path.coefs_[[0, 3], 0], expected.coef_, rtol=1e-7)
    assert max(violation(at(path, k), X, y, factor=p) for k in range(20)) < 1e-5


def test_a_run_that_was_stopped_goes_on_bit_for_bit(tmp_path):
    X, y = regression(70, 1200)
    alphas = tuple(
        prepare(X, y, None, fit_intercept=True).largest(False) * np.geomspace(1, 0.01, 30)
    )
    algorithm = ElasticNetAlgorithm(alphas, tol=1e-8)
    whole = run(algorithm, prepare(X, y, None, fit_intercept=True), stop=MaxSteps(100))
    first = run(algorithm, prepare(X, y, None, fit_intercept=True), stop=MaxSteps(3))
    rest = run(
        algorithm,
        prepare(X, y, None, fit_intercept=True),
        stop=MaxSteps(100),
        start=first.state,
    )
    assert whole.stopped == "finished"
    assert (rest.state.coefs == whole.state.coefs).all()
    assert not np.diff(whole.trace.objective).max() > 1e-12


def test_a_stored_path_and_cv_come_back(tmp_path):
    X, y = regression(50, 15)
    for model in (
        LassoPath(alphas=10).fit(X, y),
        ElasticNetCV(alphas=8, l1_ratio=[0.5, 1.0]).fit(X, y),
        Lasso().fit(X, y),
    ):
        lemmata.save(model, tmp_path / "m.lemma")
        again = lemmata.load(tmp_path / "m.lemma")
        assert (again.predict(X) == model.predict(X)).all()


# --- cross-validation -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
def test_cross_validation_finds_what_scikit_learns_finds(weighted):
    X, y = regression(90, 25)
    weights = np.random.default_rng(0).uniform(0.2, 2, 90) if weighted else None
    options = {
        "cv": KFold(4, shuffle=True, random_state=0),
        "alphas": 30,
        "tol": 1e-10,
        "max_iter": 10**5,
    }
    ours, theirs = LassoCV(**options).fit(X, y, weights), sk.LassoCV(**options).fit(X, y, weights)
    assert_allclose(ours.alphas_, theirs.alphas_)
    assert_allclose(ours.mse_path_, theirs.mse_path_, rtol=1e-4)
    assert_allclose(ours.alpha_, theirs.alpha_)
    assert_allclose(ours.coef_, theirs.coef_, atol=1e-4)
    assert ours.dual_gap_ <= 1e-9
    assert ours.certificate_.failed == []


@pytest.mark.parametrize("rule", ["min", "1se"])
def test_what_was_solved_roughly_is_never_chosen(rule, monkeypatch):
    X, y = regression(300, 250)
    model = LassoCV(cv=3, rule=rule)
    found = model.fit(X, y).mse_path_, model.alpha_
    monkeypatch.setattr(cv, "ROUGH_SHARE", 1e-6)
    exact = model.fit(X, y).mse_path_, model.alpha_
    at = np.argmax(model.alphas_ == exact[1])
    assert found[1] == exact[1]
    assert_allclose(found[0][at], exact[0][at], rtol=1e-4)
    assert 1e-4 < np.abs(found[0] / exact[0] - 1).max() < 0.05  # elsewhere it is rough indeed


def test_several_ratios_are_compared_on_the_same_folds():
    X, y = regression(80, 15)
    options = {"l1_ratio": [0.3, 0.9], "alphas": 12, "cv": 3, "tol": 1e-9, "max_iter": 10**5}
    ours, theirs = ElasticNetCV(**options).fit(X, y), sk.ElasticNetCV(**options).fit(X, y)
    assert ours.mse_path_.shape == theirs.mse_path_.shape == (2, 12, 3)
    assert_allclose(ours.mse_path_, theirs.mse_path_, rtol=1e-4)
    assert ours.l1_ratio_ == theirs.l1_ratio_
    assert_allclose(ours.alpha_, theirs.alpha_)


def test_one_standard_error_up_is_simpler_and_within_it():
    X, y = regression(90, 40, noise=4.0)
    least, simplest = (LassoCV(cv=5, rule=rule).fit(X, y) for rule in ("min", "1se"))
    assert simplest.alpha_ == least.alpha_1se_ > least.alpha_ == simplest.alpha_min_
    assert np.count_nonzero(simplest.coef_) < np.count_nonzero(least.coef_)
    mean = least.mse_path_.mean(axis=1)
    se = least.mse_path_[mean.argmin()].std(ddof=1) / np.sqrt(5)
    assert mean[least.alphas_ == simplest.alpha_] <= mean.min() + se
    larger = least.alphas_ > simplest.alpha_
    assert (mean[larger] > mean.min() + se).all()


def test_the_choice_takes_the_largest_alpha_of_a_tie():
    errors = np.array([[[3.0, 3.0], [1.0, 1.2], [1.0, 1.2]]])
    found = choose(errors, "min")
    assert (found.least, found.place) == (1, 1)


def test_a_grid_needs_an_l1_part():
    X, y = regression(30, 5)
    with pytest.raises(ValueError, match="pass alphas"):
        ElasticNetCV(l1_ratio=0.0).fit(X, y)
    assert ElasticNetCV(l1_ratio=0.0, alphas=[0.1, 1.0]).fit(X, y).alpha_ in (0.1, 1.0)


@pytest.mark.parametrize("weighted", [False, True])
def test_the_gram_matrix_of_a_fold_is_that_of_its_own_rows(weighted):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(400, 300)) + np.linspace(0, 50, 300), rng.normal(size=400)
    X[:80, 0] += 1e6  # nearly all of this column's squares are in the rows of the first fold
    weights = rng.random(400) + 0.5 if weighted else None
    whole = prepare(X, y, weights, fit_intercept=True)
    splits = tuple(KFold(5).split(X))
    data = cv.Folds(X, y, weights, splits, True, None, whole)
    assert data.gram is not None
    assert cv.FoldPaths(data, *splits[0]).fold.entered.given is None  # digits would be lost
    train = splits[1][0]
    fold = cv.FoldPaths(data, *splits[1]).fold
    s = np.ones(len(train)) if weights is None else weights[train]
    rows = np.sqrt(s / s.sum())[:, None] * (X[train] - np.average(X[train], axis=0, weights=s))
    squares = np.multiply.outer(*[np.linalg.norm(rows, axis=0)] * 2)
    assert_allclose(fold.entered.given / squares, rows.T @ rows / squares, atol=1e-12)
    twice = np.concatenate([train, train[:5]])  # a bootstrap's rows are no rest of all rows
    assert data.gram_without(fold, twice) is None


def test_folds_with_the_gram_matrix_of_all_rows_err_as_folds_without_it_do(monkeypatch):
    X, y = regression(400, 250, seed=3)
    options = {"cv": 4, "alphas": 30, "tol": 1e-8}
    shared = LassoCV(**options).fit(X, y)
    monkeypatch.setattr(cv, "MOST", 0)
    alone = LassoCV(**options).fit(X, y)
    assert shared.alpha_ == alone.alpha_
    assert shared.alpha_1se_ == alone.alpha_1se_
    assert_allclose(shared.mse_path_, alone.mse_path_, rtol=1e-5)


@pytest.mark.parametrize(("l1_ratio", "positive"), [(1.0, False), (0.5, False), (1.0, True)])
def test_guessed_signs_solve_a_path_and_their_gaps_are_those_of_each_problem(l1_ratio, positive):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(80, 12)), rng.normal(size=80)
    y += X[:, :4].sum(axis=1)
    G, q, yy = X.T @ X, X.T @ y, float(y @ y)
    alphas = np.geomspace(1, 1e-3, 40)[:, None] * np.abs(q).max() / l1_ratio
    L1, L2 = alphas * l1_ratio * np.ones(12), alphas * (1 - l1_ratio) * np.ones(12)
    W = guess_path(G, q, L1, L2, positive, np.empty(0, np.int64), np.empty(0))
    losses, gaps, H = gaps_of(G, q, W, L1, L2, yy, positive)
    assert gaps.max() < 1e-10 * yy
    assert W[-1].any()
    rough = W * rng.uniform(0.5, 1.5, W.shape)  # gaps of points that are no solutions
    losses, gaps, H = gaps_of(G, q, rough, L1, L2, yy, positive)
    for i in range(len(W)):
        plain = _twins.gap_of(q, rough[i], H[i], L1[i], L2[i], yy, positive)
        assert_allclose((losses[i], gaps[i]), plain, rtol=1e-10)
    assert gaps.max() > 1e-3 * yy
