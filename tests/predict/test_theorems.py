"""Theorems of the ML notes that no model has to itself: what a ridge does, what the mean absolute error assumes, which
activations approximate, what a precision matrix says."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize
from scipy.special import erf, expit
from scipy.stats import laplace

from lemmata import Ridge, RobustRegression

RNG = np.random.default_rng(0)


def test_a_ridge_lifts_every_eigenvalue_by_the_same_and_bounds_the_condition():
    X = RNG.normal(size=(30, 5))
    X[:, 4] = X[:, 3] + 1e-5 * RNG.normal(size=30)
    S, lam = X.T @ X, 0.7
    values = np.linalg.eigvalsh(S)
    assert_allclose(np.linalg.eigvalsh(S + lam * np.eye(5)), values + lam, atol=1e-12)
    assert np.linalg.cond(S + lam * np.eye(5)) <= 1 + values[-1] / lam
    y = RNG.normal(size=30)
    weights = Ridge(alpha=lam, fit_intercept=False).fit(X, y).coef_
    assert_allclose(weights, np.linalg.solve(S + lam * np.eye(5), X.T @ y), rtol=1e-8)


def test_the_least_absolute_error_is_maximum_likelihood_under_laplace_noise():
    """−ln p = Σ|y − xᵀw|/b + n ln 2b: the w of least Σ|·| whatever b; then b is its mean."""
    X = RNG.normal(size=(60, 2))
    y = X @ [1.0, -2.0] + RNG.laplace(size=60)
    ours = RobustRegression(loss="absolute", fit_intercept=False).fit(X, y)

    def unlikely(z):
        return -laplace.logpdf(y - X @ z[:2], scale=np.exp(z[2])).sum()

    width = np.abs(y - X @ ours.coef_).mean()
    here = unlikely(np.r_[ours.coef_, np.log(width)])
    for z in (np.zeros(3), np.r_[ours.coef_ + 0.1, 0.0], np.r_[1.0, -2.0, 0.0]):
        found = minimize(unlikely, z, method="Nelder-Mead", options={"maxiter": 4000})
        assert here <= found.fun + 1e-9  # nothing is more likely
    for other in (0.99, 1.01):
        assert unlikely(np.r_[ours.coef_, np.log(other * width)]) > here
        assert unlikely(np.r_[other * ours.coef_, np.log(width)]) > here


@pytest.mark.parametrize("degree", [1, 2, 3])
def test_polynomial_activations_approximate_no_more_than_their_degree(degree):
    """Σ a_j (w_j x + b_j)^p is a polynomial of degree p, however many units: its distance from |x| stays that of the best."""
    x = np.linspace(-1, 1, 401)
    best = np.polynomial.Polynomial.fit(x, np.abs(x), degree)(x) - np.abs(x)
    errors = []
    for units in (5, 50, 500):
        hidden = (np.outer(x, RNG.normal(size=units)) + RNG.normal(size=units)) ** degree
        fitted = hidden @ np.linalg.lstsq(hidden, np.abs(x), rcond=1e-12)[0]
        errors.append(np.sqrt(np.mean((fitted - np.abs(x)) ** 2)))
    assert_allclose(errors, np.sqrt(np.mean(best**2)), rtol=1e-6)
    kinks = np.maximum(np.outer(x, [1.0, -1.0]), 0)  # two rectified units are |x|
    assert_allclose(kinks.sum(axis=1), np.abs(x))


def test_the_error_linear_unit_is_nearly_a_sigmoid_gate():
    x = np.linspace(-8, 8, 4001)
    exact, quick = 0.5 * x * (1 + erf(x / np.sqrt(2))), x * expit(1.702 * x)
    assert 0.01 < np.abs(exact - quick).max() < 0.021


def test_a_zero_of_the_precision_matrix_is_a_conditional_independence():
    """Gaussian x₁, x₂ given the others: covariance (Λ_AA)⁻¹, diagonal just where Λ₁₂ = 0, though Σ₁₂ is not 0."""
    precision = np.array([[2.0, 0.0, 0.7], [0.0, 1.5, 0.6], [0.7, 0.6, 1.8]])
    S = np.linalg.inv(precision)
    given = S[:2, :2] - np.outer(S[:2, 2], S[2, :2]) / S[2, 2]
    assert_allclose(given, np.linalg.inv(precision[:2, :2]), atol=1e-14)
    assert abs(given[0, 1]) < 1e-14 < abs(S[0, 1])


def test_draws_given_a_hidden_coin_are_exchangeable_and_not_independent():
    """De Finetti's mixture: θ ~ Beta(a, b), x_i | θ independent; p(x) depends on Σx alone, and covariances are Var θ."""
    from itertools import product

    from scipy.special import betaln

    a, b, n = 2.0, 3.0, 5
    by_sum: dict[int, list[float]] = {}
    for x in product((0, 1), repeat=n):
        p, ones = 1.0, 0
        for t, one in enumerate(x):  # Pólya's urn: each draw puts back two of its colour
            p *= ((a + ones) if one else (b + t - ones)) / (a + b + t)
            ones += one
        by_sum.setdefault(sum(x), []).append(p)
        assert p == pytest.approx(np.exp(betaln(a + sum(x), b + n - sum(x)) - betaln(a, b)))
    assert all(np.ptp(same) < 1e-15 for same in by_sum.values())
    together = a / (a + b) * (a + 1) / (a + b + 1)
    assert together - (a / (a + b)) ** 2 == pytest.approx(a * b / ((a + b) ** 2 * (a + b + 1)))


def test_nesterovs_steps_have_the_rate_of_the_square_and_plain_ones_have_not():
    """Worst case of CIL 4.3.5: f − f* ≤ 2L‖x₀ − x*‖²/(t + 1)², while plain steps stay near L‖x₀ − x*‖²/4t on that function."""
    d = 200
    T = 2 * np.eye(d) - np.eye(d, k=1) - np.eye(d, k=-1)  # L ≤ 4
    best = np.linalg.solve(T, np.eye(d)[0])
    f = lambda x: 0.5 * x @ T @ x - x[0]  # noqa: E731
    x = y = plain = np.zeros(d)
    lam, size = 1.0, best @ best
    for t in range(1, 101):
        new = y - (T @ y - np.eye(d)[0]) / 4
        following = (1 + np.sqrt(1 + 4 * lam**2)) / 2
        x, y, lam = new, new + (lam - 1) / following * (new - x), following
        plain = plain - (T @ plain - np.eye(d)[0]) / 4
        assert f(x) - f(best) <= 2 * 4 * size / (t + 1) ** 2
    assert f(plain) - f(best) > 2 * (f(x) - f(best))
