"""Robust regression: optimality, agreement with scikit-learn, outliers planted and named, breakdown."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.optimize import minimize_scalar
from scipy.stats import norm
from sklearn.datasets import load_diabetes
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import HuberRegressor, QuantileRegressor

import lemmata
from lemmata import RobustRegression
from lemmata.core import Blocks, MaxSteps, rounding, run
from lemmata.predict.robust.bisquare import bisquare, weighted_median
from lemmata.predict.robust.huber import HuberAlgorithm, best_scale

W = np.array([1.0, -2.0, 0.5])


def planted(n=150, bad=30, seed=0, far=40.0, leverage=False):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    y = X @ W + 1 + 0.1 * rng.normal(size=n)
    y[:bad] += far
    if leverage:
        X[:bad] += 10
    return X, y


def huber_objective(model, X, y, s, epsilon, alpha):
    r = np.abs(y - X @ model.coef_ - model.intercept_) / model.scale_
    costs = np.where(r < epsilon, r**2, 2 * epsilon * r - epsilon**2)
    return s @ (model.scale_ + model.scale_ * costs) + alpha * model.coef_ @ model.coef_


@settings(max_examples=12)
@given(st.integers(0, 10_000))
def test_huber_never_ends_above_scikit_learn(seed):
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(5, 50)), int(rng.integers(1, 40))
    X = rng.normal(size=(n, d)) * rng.choice([1, 10, 0.1], d)
    y = rng.normal(size=n) + rng.choice([0, 1]) * rng.standard_cauchy(n)
    s = rng.random(n) + 0.1
    options = {"alpha": 10.0 ** rng.integers(-4, 3), "epsilon": float(rng.choice([1.35, 3.0]))}
    with lemmata.config(certificate=False):
        ours = RobustRegression(**options, max_iter=300).fit(X, y, s)
    theirs = HuberRegressor(**options, max_iter=300).fit(X, y, s)
    found, best = (huber_objective(m, X, y, s, **options) for m in (ours, theirs))
    assert found <= best * (1 + 1e-6)


def test_huber_is_huber_regressor():
    X, y = load_diabetes(return_X_y=True)
    ours, theirs = (
        RobustRegression().fit(100 * X, y),
        HuberRegressor(max_iter=2000, tol=1e-9).fit(100 * X, y),
    )
    assert_allclose(ours.coef_, theirs.coef_, rtol=1e-2)
    assert ours.scale_ == pytest.approx(theirs.scale_, rel=1e-3)
    assert (ours.outliers_ == theirs.outliers_).mean() > 0.99
    assert ours.certificate_.failed == []
    assert ours.trace_.largest_rise <= 0


@given(st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=20), st.floats(1.01, 5))
def test_the_best_scale_has_no_slope(r, epsilon):
    r = np.array(r)
    s = np.ones(len(r))
    sigma = best_scale(r, s, epsilon, 1e-9)

    def slope(sigma):
        inside = np.abs(r) <= epsilon * sigma
        return len(r) - (r[inside] ** 2).sum() / sigma**2 - epsilon**2 * (~inside).sum()

    assert slope(sigma * (1 + 1e-9)) >= -1e-6 * len(r)
    if sigma > 1e-9:
        assert slope(sigma * (1 - 1e-9)) <= 1e-6 * len(r)


@pytest.mark.parametrize("weighted", [True, False])
def test_absolute_deviations_are_least(weighted):
    X, y = load_diabetes(return_X_y=True)
    s = np.random.default_rng(0).random(len(y)) if weighted else np.ones(len(y))
    ours = RobustRegression(loss="absolute").fit(X, y, s)
    theirs = QuantileRegressor(quantile=0.5, alpha=0).fit(X, y, s)
    costs = [s @ np.abs(y - model.predict(X)) for model in (ours, theirs)]
    assert costs[0] <= costs[1] * (1 + 1e-10)
    assert (
        np.abs(y - ours.predict(X)) < 1e-9
    ).sum() == 11  # a plane through as many rows as it has weights
    assert ours.certificate_.failed == []


@settings(max_examples=25)
@given(st.lists(st.floats(-50, 50).map(lambda v: round(v, 9)), min_size=1, max_size=12))
def test_without_features_that_vary_the_absolute_loss_gives_a_median(y):
    y = np.array(y)
    with lemmata.config(certificate=False):
        b = RobustRegression(loss="absolute").fit(np.ones((len(y), 1)), y).predict([[1.0]])[0]
    assert np.abs(y - b).sum() == pytest.approx(np.abs(y - np.median(y)).sum(), abs=1e-7)


@pytest.mark.parametrize("leverage", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_tukey_names_every_planted_outlier_and_hardly_any_other(seed, leverage):
    X, y = planted(seed=seed, bad=60, leverage=leverage)
    model = RobustRegression(loss="tukey", random_state=seed).fit(X, y)
    assert_allclose(model.coef_, W, atol=0.1)
    assert model.outliers_[:60].all()
    assert model.outliers_[60:].mean() < 0.02
    assert (model.weights_[:60] == 0).all()
    # half of all rows are 5/6 of the good ones: the median shows a larger deviation than theirs
    assert model.scale_ == pytest.approx(0.1 * norm.ppf(11 / 12) / norm.ppf(3 / 4), rel=0.3)
    assert model.trace_.largest_rise <= 0


def test_least_squares_and_huber_break_down_where_tukey_does_not():
    X, y = planted(leverage=True)
    errors = {
        loss: np.abs(RobustRegression(loss=loss, random_state=0).fit(X, y).coef_ - W).max()
        for loss in ("huber", "tukey")
    }
    assert errors["tukey"] < 0.1
    assert errors["huber"] > 1


def test_tukey_ends_where_its_gradient_is_zero():
    """As far as its loss can show: a step p gains at least ½pᵀAp, A = Σ s v zzᵀ with the weights v and z = (x, 1).

    The run ends when √(pᵀAp/Σsv) ≤ tol·σ, or when a step does not lower the loss, a sum that is known to its rounding; and
    the gradient is Ap, so that no entry of it exceeds √A_jj √(pᵀAp).
    """
    X, y = planted()
    s = np.random.default_rng(0).random(len(y)) + 0.5
    tol = 1e-10
    model = RobustRegression(loss="tukey", tol=tol, random_state=0).fit(X, y, s)
    r = y - model.predict(X)
    v = s * model.weights_
    delta = model.tuning * model.scale_
    loss = s @ bisquare(r, delta)
    unseen = 2 * rounding(np.float64, terms=len(y)) * loss  # of the losses before and after
    length = max(tol * model.scale_ * np.sqrt(v.sum()), np.sqrt(2 * unseen))
    Z = np.column_stack([X, np.ones(len(y))])
    assert (np.abs(Z.T @ (v * r)) <= length * np.sqrt(v @ Z**2)).all()
    assert model.trace_.last() == pytest.approx(loss)


def test_absolute_errors_of_blocks_are_refused():
    X, y = planted()
    with pytest.raises(ValueError, match="pass an array"):
        RobustRegression(loss="absolute").fit(list(np.array_split(X, 3)), y)


@pytest.mark.parametrize("loss", ["huber", "absolute", "tukey"])
def test_other_units_of_y_scale_the_answer(loss):
    X, y = planted()
    options = {"loss": loss, "random_state": 0, "alpha": 0.0}
    one, other = (
        RobustRegression(**options).fit(X, y),
        RobustRegression(**options).fit(X, 1e6 * y + 5e6),
    )
    assert_allclose(other.coef_, 1e6 * one.coef_, rtol=1e-4)
    assert other.scale_ == pytest.approx(1e6 * one.scale_, rel=1e-4)
    assert (other.outliers_ == one.outliers_).all()


@pytest.mark.parametrize("loss", ["huber", "absolute", "tukey"])
def test_exact_planes_and_constant_targets_are_found(loss):
    X, _ = planted(40, 0)
    for y in (X @ W + 1, np.full(40, 3.0)):
        model = RobustRegression(loss=loss, random_state=0, alpha=0.0).fit(X, y)
        assert_allclose(model.predict(X), y, atol=1e-6)
        assert not model.outliers_.any()


def test_a_few_wild_rows_on_an_exact_plane_are_all_named():
    X, _ = planted(40, 0)
    y = X @ W
    y[:5] += 1e-3
    model = RobustRegression(loss="tukey", random_state=0).fit(X, y)
    assert np.flatnonzero(model.outliers_).tolist() == [0, 1, 2, 3, 4]


def test_a_warm_start_goes_on():
    X, y = planted()
    model = RobustRegression(warm_start=True).fit(X, y)
    first = model.n_iter_
    assert model.fit(X, y).n_iter_ < first


def test_an_early_end_is_said_and_certified():
    X, y = planted(20, 0)
    with pytest.warns(ConvergenceWarning, match="raise max_iter"):
        model = RobustRegression(max_iter=1).fit(X, y)
    assert "near_optimum" in model.certificate_.failed


def test_weighted_medians_are_those_of_repeated_rows():
    rng = np.random.default_rng(0)
    values, weights = rng.normal(size=(9, 2)), rng.integers(0, 4, 9).astype(float)
    weights[0] += 1 - weights.sum() % 2  # an odd number in all has one median
    repeated = np.repeat(values, weights.astype(int), axis=0)
    assert_allclose(weighted_median(values, weights), np.median(repeated, axis=0))


def test_huber_refuses_a_step_that_is_too_long():
    """Rows within reach have almost no x, so that their curvature says nothing of the others: the step is hundreds too long.

    40 rows of x = 1 and y = 1 pull with full strength; 60 rows of x = 0.01 are all that bends.
    """
    x = np.repeat([1.0, 0.01], [40, 60])
    y = np.append(np.ones(40), 0.01 * (-1.0) ** np.arange(60))
    data = Blocks.of(x[:, None]).with_targets(y)
    algorithm = HuberAlgorithm(epsilon=1.35, alpha=0.0, intercept=False, tol=1e-10)
    first = algorithm.init(data, None)
    direction, slope = algorithm._direction(data, y, np.ones(100), first)
    assert slope < 0
    assert direction[0] > 100
    s = np.ones(100)
    full = algorithm._at(direction, y - x * direction[0], s, first.floor)
    after = algorithm.step(first, data)
    assert full.loss > first.loss > after.loss
    assert 0 < after.theta[0] < direction[0] / 2
    found = run(algorithm, data, stop=MaxSteps(100)).state

    def loss(w):
        return algorithm._at(np.array([w, 0.0]), y - x * w, s, found.floor).loss

    assert found.done
    best = minimize_scalar(loss, bracket=(0.9, 1.0, 1.1), tol=1e-12)
    assert found.loss <= best.fun * (1 + 1e-12)
