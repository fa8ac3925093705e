"""Curves by the distance to them: a line is the principal axis, ellipses are recovered, nothing rises."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from lemmata import PCA
from lemmata.optim import ellipse, fit_curve, fit_ellipse

RNG = np.random.default_rng(0)
TRUE = [1.0, 2.0, 3.0, 1.2, 0.5]


def around(theta, n=80, noise=0.0):
    return ellipse(RNG.random(n), theta) + noise * RNG.normal(size=(n, 2))


def line(t, theta):
    c, s = np.cos(theta[0]), np.sin(theta[0])
    return np.stack([c * t - s * theta[1], s * t + c * theta[1]], axis=-1)


def test_a_line_is_the_first_principal_axis():
    X = RNG.normal(size=(100, 2)) * [3, 0.5] @ np.array([[0.8, 0.6], [-0.6, 0.8]]) + [1, 2]
    found = fit_curve(X, line, [0.3, 0.0], span=(-20, 20), tol=1e-14)
    axis = PCA(1).fit(X)
    along = [np.cos(found.theta_[0]), np.sin(found.theta_[0])]
    assert abs(axis.components_[0] @ along) == pytest.approx(1, abs=1e-7)
    rest = X - axis.inverse_transform(axis.transform(X))
    assert found.loss_ == pytest.approx(0.5 * (rest**2).sum() / 100, rel=1e-6)
    assert found.certificate_.holds


@pytest.mark.parametrize("theta", [TRUE, [0, 0, 5, 1, -1.2], [9, -3, 2, 1.9, 1.5]])
def test_points_of_an_ellipse_give_it_back(theta):
    found = fit_ellipse(around(theta))
    assert_allclose(found.theta_, theta, atol=1e-3)
    assert found.distances_.max() < 1e-4
    assert_allclose(ellipse(found.t_, found.theta_), found.points_, atol=1e-4)
    moved = fit_ellipse(100 * around(theta))
    assert_allclose(moved.theta_[:4], 100 * np.array(theta[:4]), atol=0.1)


def test_noise_is_what_is_left_and_no_round_is_worse():
    found = fit_ellipse(around(TRUE, 300, noise=0.1))
    assert_allclose(found.theta_, TRUE, atol=0.1)
    assert 2 * found.loss_ == pytest.approx(0.1**2, rel=0.3)  # one of two coordinates is left
    assert (np.diff(found.trace_.objective) <= 0).all()
    assert found.certificate_.failed == []


def test_what_has_not_settled_is_found_out():
    found = fit_ellipse(around(TRUE, noise=0.1), max_iter=0)
    assert "parameters_settled" in found.certificate_.failed


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: fit_ellipse(around(TRUE, 4)), "five points"),
        (lambda: fit_ellipse(np.arange(12.0).reshape(6, 2)), "on a line"),
        (lambda: fit_curve(np.eye(2), ellipse, TRUE), "3 points at least"),
        (lambda: fit_curve(around(TRUE), lambda t, theta: t, TRUE), "shape"),
        (lambda: fit_curve(around(TRUE), ellipse, TRUE, span=(1, 0)), "low < high"),
        (lambda: fit_ellipse([[np.nan, 0.0]] * 6), "NaN"),
    ],
)
def test_bad_input_of_curves(call, message):
    with pytest.raises(ValueError, match=message):
        call()
