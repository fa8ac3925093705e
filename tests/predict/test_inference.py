"""Standard errors and influence: agreement with statsmodels, coverage, and what is not determined."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose
from scipy.stats import binom
from sklearn.datasets import load_diabetes

import lemmata
from lemmata import LinearRegression, LogisticRegression

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


# --- maximum likelihood -----------------------------------------------------------------------------------------------


def labels(k=2, n=300, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3)) * [1.0, 10.0, 0.1] + 1
    F = X @ rng.normal(size=(3, k)) * [0.5, 1.0, 1.5][:k] / 4
    return X, (F + rng.gumbel(size=F.shape)).argmax(axis=1), rng.integers(1, 4, n)


def maximum_likelihood(**options):
    return LogisticRegression(penalty=None, tol=1e-12, solver="newton", max_iter=50, **options)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
def test_errors_of_two_classes_are_those_of_statsmodels(weighted, intercept):
    X, y, s = labels()
    s = s if weighted else np.ones(len(y))
    Z = sm.add_constant(X) if intercept else X
    theirs = sm.GLM(y, Z, family=sm.families.Binomial(), freq_weights=s).fit(tol=1e-14)
    found = maximum_likelihood(fit_intercept=intercept).fit(X, y, s).inference(X, y, s)
    assert_allclose(found.coef, theirs.params, rtol=1e-8)
    assert_allclose(found.standard_errors, theirs.bse, rtol=1e-8)
    assert_allclose(found.z_values, theirs.tvalues, rtol=1e-8)
    assert_allclose(found.p_values, theirs.pvalues, rtol=1e-7, atol=1e-14)
    assert_allclose(found.intervals, theirs.conf_int(), rtol=1e-7)
    assert found.log_likelihood == pytest.approx(theirs.llf, rel=1e-8)
    assert found.aic == pytest.approx(theirs.aic, rel=1e-8)
    assert found.null_log_likelihood == pytest.approx(theirs.llnull, rel=1e-8)


def test_errors_of_three_classes_are_those_of_statsmodels():
    X, y, _ = labels(3)
    theirs = sm.MNLogit(y, sm.add_constant(X)).fit(method="newton", disp=False, tol=1e-14)
    found = maximum_likelihood().fit(X, y).inference(X, y)
    assert_allclose(found.coef, theirs.params.T.ravel(), rtol=1e-8)
    assert_allclose(found.standard_errors, theirs.bse.T.ravel(), rtol=1e-8)
    assert found.bic == pytest.approx(theirs.bic, rel=1e-8)
    assert found.pseudo_r_squared == pytest.approx(theirs.prsquared, rel=1e-8)
    assert [name.split(":")[0] for name in found.names] == ["1"] * 4 + ["2"] * 4


def test_weights_that_the_rows_leave_open_have_no_error():
    X, y, _ = labels()
    twin = np.column_stack([X, X[:, 0]])
    found = maximum_likelihood().fit(twin, y).inference(twin, y)
    assert np.isinf(found.standard_errors[[1, 4]]).all()
    alone = maximum_likelihood().fit(X, y).inference(X, y)
    assert_allclose(found.standard_errors[[2, 3]], alone.standard_errors[[2, 3]], rtol=1e-6)
    assert found.summary().count("not determined") == 2


def test_weights_without_errors_are_refused_with_the_reason():
    X, y, _ = labels()
    with pytest.raises(ValueError, match="penalty=None"):
        LogisticRegression().fit(X, y).inference(X, y)
    with pytest.raises(ValueError, match="class_weight=None"):
        maximum_likelihood(class_weight="balanced").fit(X, y).inference(X, y)
    apart = (X[:, 0] > 1).astype(int)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = LogisticRegression(penalty=None).fit(X, apart)
    with pytest.raises(ValueError, match="a direction separates the classes"):
        model.inference(X, apart)
    with pytest.raises(ValueError, match="level=95"):
        maximum_likelihood().fit(X, y).inference(X, y, level=95)


def test_the_estimate_is_consistent_normal_and_efficient():
    """Over 120 samples of a known law: as many intervals miss as they say, and the spread is that of Cramér and Rao."""
    rng, true, n = np.random.default_rng(0), np.array([0.5, -1.0]), 400
    estimates, missed = [], 0
    for _ in range(120):
        X = rng.normal(size=(n, 2))
        y = (rng.random(n) < 1 / (1 + np.exp(-X @ true))).astype(int)
        model = LogisticRegression(penalty=None, fit_intercept=False, tol=1e-8).fit(X, y)
        found = model.inference(X, y)
        estimates.append(found.coef)
        missed += ((found.intervals[:, 0] > true) | (found.intervals[:, 1] < true)).sum()
    X = rng.normal(size=(200_000, 2))
    p = 1 / (1 + np.exp(-X @ true))
    bound = np.linalg.inv((X * (p * (1 - p))[:, None]).T @ X / len(X)) / n
    # 99.9 % of 240 intervals of 95 %, and of variances of 120 draws; the rest is O(1/n)
    assert binom.cdf(missed, 240, 0.05) > 5e-4
    assert binom.sf(missed - 1, 240, 0.05) > 5e-4
    ratio = np.var(estimates, axis=0, ddof=1) / np.diagonal(bound)
    assert (np.abs(ratio - 1) < 3.3 * np.sqrt(2 / 119) + 10 / n).all()
