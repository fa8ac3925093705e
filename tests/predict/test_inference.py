"""Standard errors and influence: agreement with statsmodels, coverage, and what is not determined."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose
from sklearn.datasets import load_diabetes

import lemmata
from lemmata import LinearRegression

sm = pytest.importorskip("statsmodels.api")


def problem(n=120, d=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) + 3
    y = X @ rng.normal(size=d) + (0.2 + np.abs(X[:, 0])) * rng.normal(size=n)
    return X, y, rng.random(n) + 0.1


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("kind", ["nonrobust", "HC0", "HC1", "HC2", "HC3"])
def test_errors_are_those_of_statsmodels(kind, weighted, intercept):
    X, y, s = problem()
    Z = sm.add_constant(X) if intercept else X
    s = s if weighted else np.ones(len(y))
    theirs = sm.WLS(y, Z, weights=s).fit(cov_type=kind, use_t=True)
    model = LinearRegression(fit_intercept=intercept).fit(X, y, s if weighted else None)
    found = model.inference(X, y, s if weighted else None, covariance=kind)
    assert_allclose(found.coef, theirs.params, rtol=1e-8)
    assert_allclose(found.standard_errors, theirs.bse, rtol=1e-8)
    assert_allclose(found.t_values, theirs.tvalues, rtol=1e-8)
    assert_allclose(found.p_values, theirs.pvalues, rtol=1e-7, atol=1e-14)
    assert_allclose(found.intervals, theirs.conf_int(), rtol=1e-8)
    assert found.dof == theirs.df_resid
    assert found.log_likelihood == pytest.approx(theirs.llf, rel=1e-8)
    assert (found.aic, found.bic) == pytest.approx((theirs.aic, theirs.bic), rel=1e-8)
    assert found.r_squared == pytest.approx(theirs.rsquared, rel=1e-8)
    assert found.adjusted_r_squared == pytest.approx(theirs.rsquared_adj, rel=1e-8)
    if kind == "nonrobust":
        assert found.f_statistic == pytest.approx(theirs.fvalue, rel=1e-8)
        assert found.f_p_value == pytest.approx(theirs.f_pvalue, rel=1e-7, abs=1e-14)


def test_influence_is_that_of_statsmodels():
    X, y, _ = problem()
    theirs = sm.OLS(y, sm.add_constant(X)).fit().get_influence()
    found = LinearRegression().fit(X, y).influence(X, y)
    assert_allclose(found.leverage, theirs.hat_matrix_diag, rtol=1e-8)
    assert_allclose(found.studentised, theirs.resid_studentized_internal, rtol=1e-8)
    assert_allclose(found.cooks_distance, theirs.cooks_distance[0], rtol=1e-8)
    assert found.leverage.sum() == pytest.approx(5)


def test_cooks_distance_is_how_far_the_fit_moves_without_a_row():
    X, y, _ = problem(30, 2)
    model = LinearRegression().fit(X, y)
    found = model.influence(X, y)
    variance = model.residual_squares_[0] / 27
    i = int(found.largest(1)[0])
    without = LinearRegression().fit(np.delete(X, i, 0), np.delete(y, i)).predict(X)
    moved = np.sum((model.predict(X) - without) ** 2) / (3 * variance)
    assert found.cooks_distance[i] == pytest.approx(moved)


@pytest.mark.parametrize(("kind", "columns"), [("mean", "mean_ci"), ("prediction", "obs_ci")])
def test_intervals_of_predictions_are_those_of_statsmodels(kind, columns):
    X, y, _ = problem()
    new = X[:7] + 0.5
    frame = (
        sm.OLS(y, sm.add_constant(X)).fit().get_prediction(sm.add_constant(new)).summary_frame(0.1)
    )
    found = LinearRegression().fit(X, y).predict_interval(new, level=0.9, kind=kind)
    assert_allclose(found[:, 0], frame["mean"], rtol=1e-9)
    assert_allclose(found[:, 1], frame[f"{columns}_lower"], rtol=1e-8)
    assert_allclose(found[:, 2], frame[f"{columns}_upper"], rtol=1e-8)


def test_intervals_cover_as_often_as_they_say():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(15, 2))
    covered = 0
    with lemmata.config(certificate=False):
        for _ in range(200):
            model = LinearRegression().fit(X, X @ [1.0, 2.0] + rng.normal(size=15))
            low, high = model.inference(level=0.8).intervals[1]
            covered += low <= 1 <= high
    assert abs(covered - 160) < 4 * np.sqrt(200 * 0.8 * 0.2)  # four deviations of a binomial count


def test_errors_come_from_batches_sparse_rows_and_blocks_too():
    X, y, _ = problem(400)
    whole = LinearRegression().fit(X, y)
    batches = LinearRegression()
    for rows in np.array_split(np.arange(400), 3):
        batches.partial_fit(X[rows], y[rows])
    assert_allclose(
        batches.inference().standard_errors, whole.inference().standard_errors, rtol=1e-8
    )
    blocks = np.array_split(X, 3)
    for form in (sp.csr_array(X), blocks):
        found = LinearRegression().fit(form, y).inference(form, y, covariance="HC3")
        wanted = whole.inference(X, y, covariance="HC3")
        assert_allclose(found.standard_errors, wanted.standard_errors, rtol=1e-8)


def test_conjugate_gradients_have_errors_too():
    rng = np.random.default_rng(0)
    X = sp.random_array((600, 140), density=0.1, format="csr", rng=rng)
    y = X @ rng.normal(size=140) + rng.normal(size=600)
    model = LinearRegression(tol=1e-12).fit(X, y)
    assert model.solver_ == "cg"
    dense = LinearRegression().fit(X.toarray(), y)
    found = model.inference(X, y)
    assert_allclose(found.standard_errors, dense.inference().standard_errors, rtol=1e-6)
    with pytest.raises(ValueError, match="pass X and y"):
        model.inference()


def test_several_outputs_have_their_own_errors():
    X, y, _ = problem()
    both = LinearRegression().fit(X, np.column_stack([y, 2 * y + X[:, 0] ** 2]))
    alone = LinearRegression().fit(X, y)
    assert_allclose(both.inference(output=0).standard_errors, alone.inference().standard_errors)
    with pytest.raises(ValueError, match="2 output"):
        both.inference(output=2)


def test_what_the_data_does_not_determine_has_no_finite_error():
    X, y, _ = problem(50, 3)
    X = np.column_stack([X, X[:, 0], np.full(50, 2.0)])  # a copy and a constant
    model = LinearRegression().fit(X, y)
    found = model.inference()
    assert np.isinf(found.standard_errors).tolist() == [True, True, False, False, True, True]
    assert "not determined" in model.summary()
    wide = model.predict_interval(np.vstack([X[0], X[0] + [1, 0, 0, 0, 0]]), kind="mean")
    assert np.isfinite(wide[0]).all()
    assert np.isinf(wide[1, 1:]).all()


def test_a_summary_names_the_columns():
    data = load_diabetes(as_frame=True)
    text = LinearRegression().fit(data.data, data.target).summary()
    assert "bmi" in text
    assert "F(10, 431) = 46.27" in text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"covariance": "HC9"}, "accepted are nonrobust"),
        ({"covariance": "HC1"}, "needs the training rows"),
        ({"level": 1.0}, "between 0 and 1"),
    ],
)
def test_options_that_do_not_exist_are_refused(options, message):
    X, y, _ = problem(20, 2)
    with pytest.raises(ValueError, match=message):
        LinearRegression().fit(X, y).inference(**options)


def test_no_rows_left_means_no_errors():
    X, y, _ = problem(5, 4)
    with pytest.raises(ValueError, match="more rows"):
        LinearRegression().fit(X, y).inference()
    with pytest.raises(ValueError, match="boundary"):
        LinearRegression(positive=True).fit(X, y).inference()
