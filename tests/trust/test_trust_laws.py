"""Bias, variance and the Bayes risk against their formulas."""

import numpy as np
import pytest
from scipy.special import ndtr
from sklearn.base import clone
from sklearn.datasets import load_diabetes
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.dummy import DummyRegressor
from sklearn.linear_model import LinearRegression
from sklearn.neighbors import KNeighborsRegressor

from lemmata import trust

# --- bias and variance ------------------------------------------------------------------------------------------------


def within(found, name, truth, errors=4):
    assert abs(getattr(found, name) - truth) <= errors * found.errors[name], (found, truth)


def test_a_mean_has_the_bias_and_variance_of_the_book():
    """f̂ = ȳ: variance (σ² + Var f)/n, bias² = Var f."""
    law = trust.RegressionLaw(lambda X: X[:, 0], noise=0.5)
    found = trust.bias_variance(
        DummyRegressor(), law, n=20, repeats=200, test_size=3000, random_state=0
    )
    within(found, "variance", (0.25 + 1 / 3) / 20)
    assert found.noise == 0.25
    assert found.bias2 == pytest.approx(1 / 3, abs=0.03)  # the test rows are drawn too
    assert found.certificate_.held == ["adds_up"]
    assert "noise 0.25" in str(found)
    assert len(found.plot().patches) == 3


def test_least_squares_has_no_bias_on_a_linear_law_and_the_known_variance():
    """E xᵀ(XᵀX)⁻¹x σ² = σ² d/(n − d − 1) for standard normal rows without an intercept."""

    def normal(n, rng):
        return rng.standard_normal((n, 4))

    law = trust.RegressionLaw(lambda X: X @ np.arange(4.0), normal, noise=1.0)
    model = LinearRegression(fit_intercept=False)
    found = trust.bias_variance(model, law, n=30, repeats=300, test_size=3000, random_state=0)
    within(found, "bias2", 0.0)
    assert found.variance == pytest.approx(4 / 25, rel=0.1)


def test_more_neighbours_trade_variance_for_bias():
    law = trust.RegressionLaw(lambda X: np.sin(4 * X[:, 0]), noise=0.3)
    few, many = (
        trust.bias_variance(KNeighborsRegressor(k), law, n=60, repeats=60, random_state=0)
        for k in (1, 20)
    )
    assert few.variance > 3 * many.variance
    assert few.bias2 < many.bias2
    assert few.variance == pytest.approx(0.09, rel=0.3)  # that of one noisy neighbour


def test_from_data_alone_bias_and_noise_stay_together():
    X, y = load_diabetes(return_X_y=True)
    found = trust.bias_variance(LinearRegression(), (X, y), n=100, repeats=20, random_state=0)
    assert np.isnan(found.bias2)
    assert np.isnan(found.noise)
    assert found.bias2_and_noise + found.variance == pytest.approx(found.risk, rel=0.02)
    assert "stay together" in str(found)
    drawn = trust.bias_variance(
        LinearRegression(), lambda n, rng: (x := rng.standard_normal((n, 1)), x[:, 0]), n=10, random_state=0
    )  # fmt: skip
    assert drawn.from_data
    assert drawn.risk < 1e-20
    with pytest.raises(ValueError, match="pass n <"):
        trust.bias_variance(LinearRegression(), (X, y), n=400)
    with pytest.raises(ValueError, match="at least 3 fits"):
        trust.bias_variance(LinearRegression(), (X, y), repeats=1)


# --- the best there is ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("priors", [None, [0.9, 0.1]])
def test_the_bayes_risk_of_two_gaussians_is_the_formula(priors):
    covariance = np.array([[2.0, 0.5], [0.5, 1.0]])
    law = trust.GaussianClasses([[0, 0], [1.5, 1.0]], covariance, priors)
    exact, error = law.risk()
    assert error == 0
    law.same = False  # and by draws
    drawn, error = law.risk()
    assert abs(drawn - exact) <= 4 * error
    if priors is None:
        shift = np.array([1.5, 1.0])
        assert exact == pytest.approx(
            ndtr(-np.sqrt(shift @ np.linalg.solve(covariance, shift)) / 2)
        )


def test_no_classifier_beats_the_bayes_classifier():
    law = trust.GaussianClasses([[0, 0], [2, 0], [0, 2]], [np.eye(2), 2 * np.eye(2), np.eye(2) / 2])
    X, y = law.sample(4000, rng=0)
    best = law.bayes()
    risk, _ = law.risk(50_000)
    found = trust.evaluate(best, X, y)
    assert found.lower <= 1 - risk <= found.upper
    rival = LinearDiscriminantAnalysis().fit(X, y)
    assert trust.compare({"bayes": best, "lda": rival}, *law.sample(4000, rng=1)).chosen == "bayes"
    assert clone(best).predict(X[:5]).shape == (5,)
    np.testing.assert_allclose(law.posterior(X).sum(axis=1), 1)


def test_of_a_finite_law_everything_is_a_sum():
    law = trust.FiniteLaw([[0.3, 0.1], [0.05, 0.25], [0.0, 0.3]])
    assert law.risk()[0] == pytest.approx(0.15)
    assert law.risk_of(law.bayes()) == pytest.approx(0.15)
    X, y = law.sample(20_000, rng=0)
    assert np.mean(law.bayes().predict(X) != y) == pytest.approx(0.15, abs=0.01)


def test_laws_refuse_what_is_none():
    with pytest.raises(ValueError, match="positive definite"):
        trust.GaussianClasses([[0.0], [1.0]], [[-1.0]])
    with pytest.raises(ValueError, match="add up to 1"):
        trust.GaussianClasses([[0.0], [1.0]], priors=[0.5, 0.6])
    with pytest.raises(ValueError, match="adds up to"):
        trust.FiniteLaw([[0.5, 0.6]])
    with pytest.raises(ValueError, match="covariances"):
        trust.GaussianClasses([[0.0], [1.0]], np.eye(3))


def test_the_package_imports_nothing_until_it_is_used():
    import subprocess
    import sys

    code = (
        "import sys, lemmata.trust as t\n"
        "print([m for m in sys.modules if m.startswith(('sklearn', 'lemmata.trust.'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
