"""Losses: Fenchel–Young, prox by optimality, conjugates by brute force, and what they say about errors."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from lemmata.predict.losses import (
    LOSSES,
    classifier_from_regressor_bound,
    excess_error_bound,
    huber,
    logistic,
    surrogate_risk,
    tukey,
    zero_one_risk,
)

SCALAR = [name for name in LOSSES if name != "softmax"]
numbers = st.floats(-30, 30)


def target(loss, y):
    return np.where(y < 0, -1.0, 1.0) if loss.margin else y


@settings(max_examples=50)
@pytest.mark.parametrize("name", SCALAR)
@given(f=numbers, y=numbers, u=numbers)
def test_fenchel_young_holds_everywhere_and_is_tight_at_the_gradient(name, f, y, u):
    loss, f, u = LOSSES[name], np.array([f]), np.array([u])
    y = target(loss, np.array([y]))
    scale = 1 + np.abs(f * u) + np.abs(y * u) + f**2 + y**2 + u**2
    assert (loss.value(f, y) + loss.conjugate(u, y) >= u * f - 1e-12 * scale).all()
    g = loss.gradient(f, y)
    if loss.convex:
        assert_allclose(loss.value(f, y) + loss.conjugate(g, y), g * f, atol=1e-10 * scale[0])


@given(st.lists(numbers, min_size=3, max_size=3), st.integers(0, 2))
def test_fenchel_young_of_softmax(f, y):
    f, y, loss = np.array([f]), np.array([y]), LOSSES["softmax"]
    g = loss.gradient(f, y)
    assert_allclose(loss.value(f, y) + loss.conjugate(g, y), (g * f).sum(-1), atol=1e-11)
    assert np.isinf(loss.conjugate(g + 0.5, y)).all()


@settings(max_examples=50)
@pytest.mark.parametrize("name", SCALAR)
@given(v=numbers, y=numbers, t=st.floats(0.05, 20))
def test_no_point_beats_the_prox(name, v, y, t):
    loss = LOSSES[name]
    y = target(loss, np.array([y]))
    f = loss.prox(np.array([v]), y, t)
    tried = np.concatenate([np.linspace(min(v, y[0]) - 1, max(v, y[0]) + 25, 2001), [v, y[0]]])
    at = loss.value(f, y) + (f - v) ** 2 / (2 * t)
    best = (loss.value(tried, y) + (tried - v) ** 2 / (2 * t)).min()
    assert at[0] <= best * (1 + 1e-9) + 1e-9


@settings(max_examples=25)
@given(st.lists(numbers, min_size=4, max_size=4), st.integers(0, 3), st.floats(0.05, 20))
def test_the_prox_of_softmax_is_stationary(v, y, t):
    v, y, loss = np.array([v]), np.array([y]), LOSSES["softmax"]
    f = loss.prox(v, y, t)
    assert np.abs(loss.gradient(f, y) + (f - v) / t).max() < 1e-9 * (1 + np.abs(v).max() / t)


@pytest.mark.parametrize("name", SCALAR)
def test_conjugates_are_suprema(name):
    loss = LOSSES[name]
    f = np.linspace(-25, 25, 50_001)
    for y in (-1.0, 1.0):
        for u in (-0.9, -0.5, -0.1, 0.0, 0.1, 0.5, 0.9):
            stated = float(loss.conjugate(np.array([u]), np.array([y]))[0])
            brute = float((u * f - loss.value(f, y)).max())
            if np.isinf(stated):
                further = float((20 * u * f - loss.value(20 * f, y)).max())
                assert further > brute + 1  # grows with the range that is searched
            else:
                assert brute == pytest.approx(stated, abs=1e-6)


@pytest.mark.parametrize("name", SCALAR)
def test_gradients_are_differences(name):
    loss, rng = LOSSES[name], np.random.default_rng(0)
    f = rng.normal(size=200) * 4
    y = target(loss, rng.normal(size=200))
    slope = (loss.value(f + 1e-6, y) - loss.value(f - 1e-6, y)) / 2e-6
    assert_allclose(loss.gradient(f, y), slope, atol=1e-5)


@given(st.lists(numbers, min_size=1, max_size=15))
def test_the_best_constant_of_the_absolute_loss_is_a_median(y):
    y = np.array(y)
    at = [np.abs(y - c).sum() for c in y]
    assert np.abs(y - np.median(y)).sum() <= min(at) + 1e-9


def test_the_subgradient_of_the_absolute_loss_in_w_has_a_minus():
    """ML, Linear MAE: e = y − f, so ∂|e|/∂w = −sign(e) x; a step against it lowers the loss."""
    X, w = np.random.default_rng(0).normal(size=(50, 3)), np.zeros(3)
    y = X @ [1.0, -2.0, 0.5]
    g = X.T @ LOSSES["absolute"].gradient(X @ w, y) / 50
    assert_allclose(g, -X.T @ np.sign(y - X @ w) / 50)
    assert np.abs(y - X @ (w - 1e-3 * g)).mean() < np.abs(y - X @ w).mean()


@given(st.integers(0, 1000))
def test_surrogates_bound_the_share_of_errors(seed):
    rng = np.random.default_rng(seed)
    f, y = rng.normal(size=20) * rng.choice([0.1, 1, 10]), rng.choice([-1.0, 1.0], 20)
    for name in ("logistic", "hinge", "squared_hinge", "quadratic"):
        assert surrogate_risk(LOSSES[name], f, y) >= zero_one_risk(f, y)
    scores, classes = rng.normal(size=(20, 4)), rng.integers(0, 4, 20)
    assert surrogate_risk(LOSSES["softmax"], scores, classes) >= zero_one_risk(scores, classes)


def test_a_loss_of_regression_bounds_no_share_of_errors():
    with pytest.raises(ValueError, match="bound the share of errors"):
        surrogate_risk(LOSSES["squared"], np.ones(2), np.ones(2))


@given(
    st.lists(st.floats(0.01, 0.99), min_size=4, max_size=4),
    st.lists(st.floats(-3, 3), min_size=4, max_size=4),
)
def test_excess_of_a_surrogate_bounds_the_excess_of_errors(eta, f):
    """Four points of equal weight with P(y = 1) = η: all risks are sums."""
    eta, f = np.array(eta), np.array(f)
    grid = np.linspace(-12, 12, 2401)[:, None]
    errors = np.where(f > 0, 1 - eta, np.where(f < 0, eta, np.maximum(eta, 1 - eta)))
    excess_errors = (errors - np.minimum(eta, 1 - eta)).mean()
    for name in ("logistic", "hinge", "squared_hinge", "quadratic"):
        loss = LOSSES[name]
        risk = eta * loss.value(f, 1.0) + (1 - eta) * loss.value(f, -1.0)
        least = (eta * loss.value(grid, 1.0) + (1 - eta) * loss.value(grid, -1.0)).min(axis=0)
        # the grid's least is above the true one by its step squared at most
        assert excess_errors <= excess_error_bound(loss, max((risk - least).mean(), 0) + 4e-5)


@given(
    st.lists(st.floats(0, 1), min_size=4, max_size=4),
    st.lists(st.floats(-1, 2), min_size=4, max_size=4),
)
def test_a_good_regressor_is_a_good_classifier(eta, f):
    eta, f = np.array(eta), np.array(f)
    errors = np.where(f >= 0.5, 1 - eta, eta).mean() - np.minimum(eta, 1 - eta).mean()
    assert errors <= classifier_from_regressor_bound(np.mean((f - eta) ** 2)) + 1e-12


def test_the_logistic_excess_bound_inverts_its_transform():
    for theta in (0.01, 0.3, 0.9):
        psi = 0.5 * ((1 + theta) * np.log1p(theta) + (1 - theta) * np.log1p(-theta))
        assert excess_error_bound(logistic, psi) == pytest.approx(theta, rel=1e-9)


@pytest.mark.parametrize("make", [huber, tukey])
@pytest.mark.parametrize("delta", [0.0, -1.0, np.inf])
def test_widths_are_positive_numbers(make, delta):
    with pytest.raises(ValueError, match="pass a number > 0"):
        make(delta)


def test_tukey_has_the_slope_of_the_notes_and_no_pull_beyond():
    loss, e = tukey(2.0), np.array([0.5, 1.9, 2.0, 5.0])
    wanted = np.where(e <= 2, e * (1 - e**2 / 4) ** 2, 0)
    assert_allclose(loss.gradient(e, np.zeros(4)), wanted)
    assert_allclose(loss.value(e[2:], np.zeros(2)), 4 / 6)
