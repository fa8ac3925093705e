"""Claims about least squares: they hold where they should, fail where they should, and name rows and columns."""

import copy

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_diabetes
from sklearn.linear_model import LinearRegression, Ridge, RidgeCV

import lemmata
from lemmata import certify
from lemmata.audit.predict.linear.least_squares import LEAST_SQUARES_CLAIMS

NAMES = [statement.name for statement in LEAST_SQUARES_CLAIMS]


@pytest.fixture(scope="module")
def diabetes():
    return load_diabetes(return_X_y=True)


def changed(model, **changes):
    model = copy.deepcopy(model)
    for name, value in changes.items():
        setattr(model, name, value)
    return model


def test_healthy_fits_keep_every_promise(diabetes):
    X, y = diabetes
    w = np.random.default_rng(0).integers(0, 4, len(y)) + 0.0
    for weights in (None, w):
        assert certify(LinearRegression().fit(X, y, weights), X, y, weights).held == NAMES
        ours = lemmata.LinearRegression().fit(X, y, sample_weight=weights)
        assert certify(ours, X, y, weights).held == NAMES
    without = LinearRegression(fit_intercept=False).fit(X, y)
    assert "normal_equations" in certify(without, X, y).held


def test_columns_are_named(diabetes):
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    X = X.assign(twice=2 * X["bmi"], always=1.0)
    found = certify(LinearRegression().fit(X, y), X, y)["weights_determined"]
    assert (found.verdict, found.measured) == ("fails", 2)
    assert "'always' constant" in found.advice
    assert "'bmi'" in found.advice
    assert "'twice'" in found.advice
    assert "'age'" not in found.advice


def test_near_copies_are_determined_but_ill_conditioned(diabetes):
    X, y = diabetes
    rng = np.random.default_rng(0)
    Z = np.column_stack([X, X[:, 2] + 1e-5 * rng.standard_normal(len(X))])
    found = certify(LinearRegression().fit(Z, y), Z, y)
    assert "weights_determined" in found.held
    assert "well_conditioned" in found.failed
    assert "column 2" in found["well_conditioned"].advice
    assert "column 10" in found["well_conditioned"].advice


def test_rows_are_named(diabetes):
    X, y = (x.copy() for x in diabetes)
    y[17] += 5000
    X[17] *= 4
    found = certify(LinearRegression().fit(X, y), X, y)["no_row_dominates"]
    assert found.verdict == "fails"
    assert "row 17" in found.advice
    assert "row 17" in found.note


def test_longer_weights_of_the_same_predictions_are_noticed(diabetes):
    X, y = diabetes
    Z = np.column_stack([X, X[:, 0]])
    model = LinearRegression().fit(Z, y)
    assert "minimum_norm" in certify(model, Z, y).held
    along = np.zeros(11)
    along[0], along[10] = 50.0, -50.0
    found = certify(changed(model, coef_=model.coef_ + along), Z, y)
    assert "minimum_norm" in found.failed
    assert "normal_equations" in found.held


def test_nonnegative_weights_have_their_own_conditions(diabetes):
    X, y = diabetes
    model = LinearRegression(positive=True).fit(X, y)
    assert model.coef_.min() == 0
    assert "normal_equations" in certify(model, X, y).held
    free = LinearRegression().fit(X, y)
    assert (
        "normal_equations" in certify(changed(model, coef_=np.maximum(free.coef_, 0)), X, y).failed
    )
    assert "attributes_sound" in certify(changed(model, coef_=free.coef_), X, y).failed


def test_a_fit_without_residuals_correlates_with_nothing():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((50, 4))
    y = X @ np.arange(4.0) + 1
    model = LinearRegression().fit(X, y)
    assert "normal_equations" in certify(model, X, y).held
    for size, verdict in ((1e-9, "holds"), (1e-4, "fails")):
        other = changed(model, coef_=model.coef_ + size)
        assert certify(other, X, y)["normal_equations"].verdict == verdict
    nothing = certify(LinearRegression().fit(X, np.zeros(50)), X, np.zeros(50))
    assert "normal_equations" not in nothing.failed


def test_sparse_streamed_and_frame_rows_are_judged_alike(diabetes):
    X, y = diabetes
    model = LinearRegression().fit(X, y)
    expected = [item.verdict for item in certify(model, X, y)]
    for rows in (sp.csr_array(X), [X[:100], X[:0], X[100:]]):
        assert [item.verdict for item in certify(model, rows, y)] == expected
    frame = pd.DataFrame(X, columns=list("abcdefghij"))
    assert [item.verdict for item in certify(model.fit(frame, y), frame, y)] == expected


def test_large_tables_are_judged_by_their_gram_matrix(diabetes, monkeypatch):
    X, y = diabetes
    model = LinearRegression().fit(X, y)
    monkeypatch.setattr("lemmata.audit.predict.linear.least_squares.IN_MEMORY", 10)
    assert certify(model, X, y).held == NAMES
    Z = np.column_stack([X, X[:, 0]])
    # what is below √eps may be rounding: it says so
    assert "weights_determined" in certify(LinearRegression().fit(Z, y), Z, y).undecided


@pytest.mark.parametrize("scale", [1e-150, 1e150])
def test_the_unit_of_the_columns_changes_no_verdict(diabetes, scale):
    X, y = diabetes
    model = LinearRegression().fit(X, y)
    other = changed(model, coef_=model.coef_ / scale, singular_=model.singular_ * scale)
    assert certify(other, X * scale, y).held == NAMES


def test_several_outputs(diabetes):
    X, y = diabetes
    Y = np.column_stack([y, -y, np.arange(len(y))])
    model = LinearRegression().fit(X, Y)
    assert certify(model, X, Y).held == NAMES
    model.coef_[2] += 100
    assert "normal_equations" in certify(model, X, Y).failed


def test_scores_of_a_ridge_path_are_those_of_leaving_rows_out(diabetes):
    X, y = diabetes
    w = np.random.default_rng(0).random(len(y)) + 0.5
    grid = np.logspace(-4, 2, 9)
    for weights in (None, w):
        model = RidgeCV(grid).fit(X, y, sample_weight=weights)
        assert {"statements_true", "alpha_inside"} <= set(certify(model, X, y, weights).held)
    assert "statements_true" in certify(model, X, y).failed  # without its weights
    assert (
        "statements_true"
        in certify(changed(model, best_score_=model.best_score_ * 0.99), X, y, w).failed
    )
    Y = np.column_stack([y, y**2])
    each = RidgeCV(grid, alpha_per_target=True).fit(X, Y)
    assert "statements_true" in certify(each, X, Y).held


def test_ridge_without_a_penalty_is_least_squares(diabetes):
    X, y = diabetes
    assert [item.name for item in certify(Ridge(0.0, solver="svd").fit(X, y), X, y)] == NAMES


def test_a_column_far_from_zero_hides_no_correlation():
    rng = np.random.default_rng(0)
    x = rng.standard_normal(200)
    X, y = (1e6 + x)[:, None], x + 0.1 * rng.standard_normal(200)
    model = LinearRegression().fit(X, y)
    assert certify(model, X, y)["normal_equations"].verdict == "holds"
    nothing = changed(model, coef_=np.zeros(1), intercept_=y.mean())
    found = certify(nothing, X, y)["normal_equations"]
    assert found.verdict == "fails"
    assert found.measured > 0.99  # and not 1e-6
    sparse = certify(nothing, sp.csr_array(X), y)["normal_equations"]
    assert sparse.measured == pytest.approx(found.measured, rel=1e-6)


def test_sums_of_columns_far_from_zero_are_within_their_rounding():
    rng = np.random.default_rng(0)
    a, b = 1e8 + rng.standard_normal(200), rng.standard_normal(200)
    X = np.column_stack([a, b, a + b])  # a sum, but for the last digits of 1e8
    found = certify(LinearRegression().fit(X, b), X, b)["weights_determined"]
    assert found.verdict == "can't tell"
    apart = np.column_stack([a, b, rng.standard_normal(200)])
    assert (
        certify(LinearRegression().fit(apart, b), apart, b)["weights_determined"].verdict == "holds"
    )
