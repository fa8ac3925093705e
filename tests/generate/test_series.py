"""Autoregressive processes: agreement with statsmodels, theory, forecasts, bad input."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.linalg import toeplitz
from scipy.stats import multivariate_normal

import lemmata
from lemmata import AR
from lemmata.audit.generate.series import autocovariances
from lemmata.generate.series.likelihood import profile, step_down, step_up
from lemmata.generate.series.moments import LaggedProducts

COEF = np.array([1.2, -0.5])


@pytest.fixture(scope="module")
def x():
    return AR(2).from_coefficients(COEF, mean=3.0).sample(1, length=3000, random_state=1)[0]


# --- moments ----------------------------------------------------------------------------------------------------------


@given(
    st.integers(1, 4), st.integers(8, 40), st.integers(0, 7), st.floats(-5, 5), st.integers(0, 99)
)
@settings(max_examples=40, deadline=None)
def test_products_from_any_time_on_are_the_sums_they_stand_for(series, n, order, origin, seed):
    X = np.random.default_rng(seed).normal(size=(series, n)) + 2
    found = LaggedProducts.of(X, order, origin)
    Y = X - origin
    for m in (0, order // 2, order):
        lagged = np.stack([Y[:, m - i : n - i] for i in range(m + 1)])
        assert_allclose(found.from_time(m), np.einsum("ist,jst->ij", lagged, lagged), atol=1e-9)
        assert_allclose(found.sums_from_time(m), lagged.sum(axis=(1, 2)), atol=1e-9)


def test_series_add_up_and_the_origin_moves_in_closed_form(x):
    parts = [LaggedProducts.of(x[None, :700], 5, 1.0), LaggedProducts.of(x[None, 700:], 5, -2.0)]
    apart = LaggedProducts.of(x[None, 700:], 5, 1.0)
    both = parts[0] + parts[1]
    assert_allclose(both.products, parts[0].products + apart.products, rtol=1e-12)
    assert_allclose(both.head, parts[0].head + apart.head, rtol=1e-12)
    assert_allclose(both.tail, parts[0].tail + apart.tail, rtol=1e-12)


def test_long_series_in_chunks_have_the_products_of_the_whole():
    y = np.random.default_rng(0).normal(size=70_001)
    found = LaggedProducts.of(y[None], 20)
    assert_allclose(found.products, [y[: len(y) - k] @ y[k:] for k in range(21)], atol=1e-8)


# --- agreement --------------------------------------------------------------------------------------------------------


def test_all_methods_agree_with_statsmodels(x):
    linear = pytest.importorskip("statsmodels.regression.linear_model")
    from statsmodels.tsa.ar_model import AutoReg

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        rho, sigma = linear.yule_walker(x, 6, method="mle")
        burg = linear.burg(x, 6)[0]
    ours = AR(6).fit(x)
    assert_allclose(ours.coef_, rho, atol=1e-8)
    assert_allclose(ours.variance_, sigma**2, rtol=1e-8)
    assert_allclose(AR(6, method="burg").fit(x).coef_, burg, atol=1e-8)
    theirs, ols = AutoReg(x, 6).fit(), AR(6, method="ols").fit(x)
    assert_allclose(ols.coef_, theirs.params[1:], atol=1e-8)
    assert_allclose(ols.variance_, theirs.sigma2, rtol=1e-8)
    assert_allclose(ols.forecast(4).mean, theirs.forecast(4), rtol=1e-8)


def test_the_density_is_that_of_a_gaussian_with_the_autocovariances_of_the_process(x):
    model = AR(2).fit(x)
    r = list(autocovariances(model.coef_, model.variance_))
    while len(r) < 9:
        r.append(float(model.coef_ @ np.array(r[:-3:-1])))
    law = multivariate_normal(np.full(9, model.mean_), toeplitz(r))
    rows = x[:18].reshape(2, 9)
    assert_allclose(model.score_samples(list(rows)), law.logpdf(rows))


def test_the_most_likely_process_is_the_most_likely(x):
    """No process nearby, and no other method's, has a larger exact likelihood."""
    short = x[:60]
    best = AR(2, method="mle").fit(short)
    others = [AR(2, method=method).fit(short) for method in ("yule-walker", "burg")]
    assert best.score(short) > max(model.score(short) for model in others)
    data, kappa = LaggedProducts.of(short[None], 2, short.mean()), step_down(best.coef_)
    for change in np.random.default_rng(0).normal(size=(20, 2)) * 1e-2:
        assert profile(kappa + change, data)[1] >= profile(kappa, data)[1]


def test_drawn_series_have_the_moments_of_the_process_from_their_first_value_on():
    model = AR(3).from_coefficients([0.5, -0.3, 0.2], mean=-1.0, variance=2.0)
    X = model.sample(40_000, length=6, random_state=0)
    r = autocovariances(model.coef_, 2.0)
    assert_allclose(np.cov(X.T)[0, :4], r, atol=5 * r[0] / np.sqrt(40_000))
    assert_allclose(X.mean(axis=0), -1.0, atol=5 * np.sqrt(r[0] / 40_000))


@given(st.lists(st.floats(-0.99, 0.99), min_size=1, max_size=6))
@settings(deadline=None)
def test_reflection_coefficients_and_processes_are_one_to_one(kappa):
    # a step down divides by 1 − κ² what carries errors of 1 + |κ|
    grows = np.prod(1 / (1 - np.abs(kappa)))
    error = 64 * np.finfo(float).eps * grows
    assert_allclose(step_down(step_up(np.array(kappa))[-1]), kappa, rtol=0, atol=error)


def test_the_order_is_found():
    """BIC never stops short of it, and goes beyond it with probability about P(χ² > ln n), here below 2 %."""
    X = AR(3).from_coefficients([0.5, -0.3, 0.4]).sample(50, length=2000, random_state=3)
    found = np.array([len(AR("bic").fit(row).coef_) for row in X])
    assert found.min() == 3
    assert (found > 3).sum() <= 5
    assert len(AR("bic").fit(X).coef_) == 3  # of all of them together


# --- claims -----------------------------------------------------------------------------------------------------------


def test_a_right_process_keeps_every_promise(x):
    for method in ("yule-walker", "burg", "ols", "mle"):
        found = AR(2, method=method).fit(x[:2500]).certify(x[:2500], X_test=x[2500:])
        assert found.holds, found


def test_what_is_left_in_the_residuals_is_noticed_and_so_are_changed_numbers(x):
    assert "residuals_white" in AR(0).fit(x).certificate_.failed
    model = AR(2).fit(x)
    model.variance_ = 2 * model.variance_
    assert {"moments_reproduced", "most_entropy", "statements_true"} <= set(model.certify(x).failed)
    model = AR(2, method="burg").fit(x)
    model.variance_ = model.variance_ / 9
    assert "intervals_cover" in model.certify(x, X_test=x).failed


def test_an_explosive_regression_is_not_stationary():
    walk = 1.05 ** np.arange(200) + np.random.default_rng(0).normal(size=200) * 0.01
    model = AR(1, method="ols").fit(walk)
    assert "stationary" in model.certificate_.failed
    with pytest.raises(ValueError, match="not stationary"):
        model.score_samples(walk)
    with pytest.raises(ValueError, match="not stationary"):
        model.sample(2)


def test_fits_of_statsmodels_are_certified(x):
    from statsmodels.tsa.ar_model import AutoReg

    found = lemmata.certify(AutoReg(x[:2500], 2).fit(), x[:2500], X_test=x[2500:])
    assert found.holds, found
    assert "residuals_white" in lemmata.certify(AutoReg(x, 0).fit(), x).failed


# --- using it ---------------------------------------------------------------------------------------------------------


def test_the_spectrum_is_the_fourier_series_of_the_autocovariances(x):
    model = AR(2).fit(x)
    r = list(autocovariances(model.coef_, model.variance_))
    while len(r) < 200:
        r.append(float(model.coef_ @ np.array(r[:-3:-1])))
    at = np.array([0.0, 0.7, np.pi])
    sums = r[0] + 2 * (np.cos(np.multiply.outer(at, np.arange(1, 200))) @ np.array(r[1:]))
    assert_allclose(model.spectrum(at), sums, rtol=1e-8)


def test_forecasts_end_at_the_mean_with_the_deviation_of_the_process(x):
    model = AR(2).fit(x)
    far = model.forecast(200, level=0.6826894921370859)
    assert_allclose(far.mean[-1], model.mean_, rtol=1e-6)
    deviation = np.sqrt(autocovariances(model.coef_, model.variance_)[0])
    assert_allclose(far.upper[-1] - far.mean[-1], deviation, rtol=1e-6)


def test_gaps_cut_a_series_in_two(x):
    gaps = x.copy()
    gaps[[1000, 2500]] = np.nan
    cut = AR(2, missing="cut").fit(gaps)
    apart = AR(2).fit([x[:1000], x[1001:2500], x[2501:]])
    assert_allclose(cut.coef_, apart.coef_, rtol=1e-12)
    with pytest.warns(UserWarning, match="1 pieces between gaps have at most 2 values"):
        AR(2, missing="cut").fit(np.concatenate([x[:50], [np.nan, 1.0, np.nan], x[:50]]))


@pytest.mark.parametrize(
    ("series", "settings", "message"),
    [
        ([1.0, 2.0, np.nan, 3.0], {"order": 1}, "series 0 contains NaN at position 2"),
        ([[1.0, 2.0, 3.0], [1.0, np.nan]], {"order": 1}, "series 1 contains NaN at position 1"),
        ([1.0, 2.0, 3.0], {"order": 3}, "needs series of more than 3 values.*n_features=3"),
        (np.ones(20), {"order": 1}, "every series is constant"),
        (np.arange(9.0), {"order": -1}, "order"),
        (np.arange(9.0), {"method": "kalman"}, "method"),
    ],
)
def test_bad_input_is_named(series, settings, message):
    with pytest.raises(ValueError, match=message):
        AR(**{"order": 1, **settings}).fit(series)


def test_a_forecast_needs_its_past(x):
    model = AR(2).fit(x)
    with pytest.raises(ValueError, match="the last 2 values; X has 1"):
        model.forecast(1, X=[1.0])
    with pytest.raises(ValueError, match="steps=0"):
        model.forecast(0)
    with pytest.raises(ValueError, match="level=2"):
        model.forecast(1, level=2)
