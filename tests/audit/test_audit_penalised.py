"""near_optimum and its relatives: they hold on converged fits, fail on others, and say by how much."""

import copy
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import (
    ElasticNet,
    ElasticNetCV,
    HuberRegressor,
    Lasso,
    LassoCV,
    LogisticRegression,
    Ridge,
)
from sklearn.svm import LinearSVC

import lemmata
from lemmata import certify
from lemmata.audit.kernel.duality_gap import feasible, gap_at, point
from lemmata.audit.predict.linear.objectives import (
    lasso_objective,
    logistic_objective,
    problem_of,
    ridge_objective,
)
from lemmata.core import Blocks, Fit

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.fixture(scope="module")
def diabetes():
    return load_diabetes(return_X_y=True)


@pytest.fixture(scope="module")
def tumours():
    X, y = load_breast_cancer(return_X_y=True)
    return (X - X.mean(axis=0)) / X.std(axis=0), y


def changed(model, **changes):
    model = copy.deepcopy(model)
    for name, value in changes.items():
        setattr(model, name, value)
    return model


def make_problem(model, X, y, read, w=None):
    """The problem of a fit, as the claims see it."""
    y = np.searchsorted(model.classes_, y) if hasattr(model, "classes_") else y
    data = Blocks.of(X).with_targets(y)
    return problem_of(read)(Fit(model, data if w is None else data.weighted(w), y, w))


# --- the gap ----------------------------------------------------------------------------------------------------------


def test_the_gap_of_the_lasso_is_the_one_scikit_learn_states(diabetes):
    X, y = diabetes
    for alpha in (1.0, 0.1, 0.01):
        model = Lasso(alpha, max_iter=5).fit(X, y)
        risk, at = make_problem(model, X, y, lasso_objective)
        found, _ = gap_at(risk, at, risk.slopes(at.f))
        assert_allclose(found[0], model.dual_gap_, rtol=1e-6)


def test_the_gap_of_ridge_is_the_squared_gradient_over_twice_the_penalty(diabetes):
    X, y = diabetes
    model = Ridge(0.5).fit(X, y)
    model.coef_ = model.coef_ + np.arange(10.0)
    residual = y - X @ model.coef_
    gradient = -(X - X.mean(axis=0)).T @ (residual - residual.mean()) + 0.5 * model.coef_
    risk, _ = make_problem(model, X, y, ridge_objective)
    at = point(risk, model.coef_[:, None], np.array([residual.mean()]))
    found, _ = gap_at(risk, at, risk.slopes(at.f))
    assert_allclose(found[0], gradient @ gradient / (2 * 0.5), rtol=1e-9)


@pytest.mark.parametrize("positive", [False, True])
def test_no_dual_point_is_above_any_primal_value(positive):
    """Weak duality: whatever u is made feasible, D ≤ P at whatever weights."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((30, 6)), rng.standard_normal(30)
    for ratio in (1.0, 0.4):
        model = ElasticNet(0.1, l1_ratio=ratio, positive=positive).fit(X, y)
        risk, at = make_problem(model, X, y, lasso_objective)
        for _ in range(20):
            W = np.abs(rng.standard_normal((6, 1)))
            U, V, missed = feasible(risk, 0.1 * rng.standard_normal((30, 1)), at)
            a = U / risk.s
            D = -(risk.s * (0.5 * a**2 + a * risk.y)).sum()  # the conjugate of the squared loss
            t = np.maximum((-V if positive else np.abs(V)) - risk.l1, 0)
            if ratio < 1:
                D -= (t**2 / (2 * risk.l2)).sum()
            else:
                assert t.max() < 1e-12
            assert risk.value(W, X @ W + rng.standard_normal())[0] + 1e-9 >= D
            assert missed < 1e-12
            assert abs(U.sum()) < 1e-12


@pytest.mark.parametrize("classes", [2, 3])
def test_a_dual_point_outside_of_the_domain_is_moved_into_it(classes):
    """Whatever a search returns, the gap it shows is that of a dual point: never less than the excess of the weights."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 3))
    y = np.digitize(X[:, 0] + rng.standard_normal(60), [-0.5, 0.5][: classes - 1])
    best = LogisticRegression(tol=1e-10).fit(X, y)
    risk, there = make_problem(best, X, y, logistic_objective)
    other = changed(best, coef_=1.3 * best.coef_)
    _, at = make_problem(other, X, y, logistic_objective)
    excess = (risk.value(at.W, at.f) - risk.value(there.W, there.f))[0]
    assert excess > 0
    for U in (np.full_like(at.f, 7.0), -risk.slopes(at.f), rng.standard_normal(at.f.shape)):
        gap, U = gap_at(risk, at, U)
        assert gap[0] >= excess
        assert np.abs(U).max() <= 1
        assert_allclose(U.sum(axis=0), 0, atol=1e-10)
        assert_allclose(risk.loss.clip(risk.y, U), U, atol=1e-12)


def test_slopes_of_classes_that_do_not_add_up_to_0_still_prove():
    """An intercept off by t costs t²: what the slopes show, once they are balanced, is no more than of that order."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 3))
    y = np.digitize(X[:, 0] + rng.standard_normal(60), [-0.5, 0.5])
    best = LogisticRegression(tol=1e-10).fit(X, y)
    _, there = make_problem(best, X, y, logistic_objective)
    gaps = []
    for t in (1e-2, 1e-3):
        other = changed(best, intercept_=best.intercept_ + t * np.array([1.0, -2.0, 1.0]))
        risk, at = make_problem(other, X, y, logistic_objective)
        gap, U = gap_at(risk, at, risk.slopes(at.f))
        assert gap[0] >= (risk.value(at.W, at.f) - risk.value(there.W, there.f))[0] > 0
        assert_allclose(U.sum(axis=0), 0, atol=1e-10)
        gaps.append(gap[0] / risk.value(at.W, at.f)[0])
    assert gaps[1] < 0.2 * gaps[0] < 1e-2


def test_slopes_along_a_column_that_nothing_penalises_prove_nothing(diabetes):
    X, y = diabetes
    model = LogisticRegression(C=np.inf, max_iter=3).fit(X, y > 150)
    risk, at = make_problem(model, X, y > 150, logistic_objective)
    U, V, missed = feasible(risk, risk.slopes(at.f), at)
    assert not U.any()
    assert not V.any()
    assert missed == 0


@pytest.mark.parametrize("found", [None, "nonsense"])
def test_a_search_that_is_off_or_lies_makes_no_verdict_false(diabetes, monkeypatch, found):
    """Weights worse than the fit's and slopes outside of every domain: a fit that is off can't be shown to be near."""
    X, y = diabetes
    c = y > 150

    def lie(name):
        huge = {
            "dual_points": lambda fit, risk, at: [1e3 + risk.slopes(at.f)],
            "feasible_slopes": lambda fit, risk, U: 1e3 + U,
            "better_weights": lambda fit, risk, at, *more: (9 * at.W, at.b, 1e3 + 0 * at.f),
            "better_huber_fit": lambda fit, seen, *more: (seen.at.W, 9 + seen.at.b, 1.0, seen.at.f),
            "separating_direction": lambda fit, A: ([np.ones(A.shape[1])], np.ones(len(A))),
        }
        return None if found is None else huge[name]

    monkeypatch.setattr(Fit, "searches", staticmethod(lie))
    for model, target in (
        (Lasso(1.0), y), (Ridge(), y), (LogisticRegression(), c), (LogisticRegression(C=np.inf), c),
        (LinearSVC(loss="hinge"), c), (HuberRegressor(), y), (LogisticRegression(), np.digitize(y, [90, 200])),
    ):  # fmt: skip
        model.fit(X, target)
        for off in (1.0, 0.7):
            verdicts = certify(changed(model, coef_=off * model.coef_), X, target)
            assert not verdicts.broken
            assert verdicts["near_optimum"].verdict in ("holds", "can't tell")
            if off < 1:
                assert verdicts["near_optimum"].verdict == "can't tell"
            assert "weights_exist" not in verdicts.failed


def test_a_fit_that_converged_is_its_own_witness(diabetes):
    """Its slopes are the dual point: no search is asked, so that certifying it loads none."""
    X, y = diabetes
    with lemmata.config(searches=False):
        for model, target in (
            (Lasso(1.0), y), (Ridge(), y), (LogisticRegression(), y > 150),
            (HuberRegressor(alpha=1.0, max_iter=10_000, tol=1e-8), y), (LinearSVC(), y > 150), (lemmata.LassoPath(), y),
        ):  # fmt: skip
            model.fit(X, target)
            found = certify(model, X, target)
            assert {"near_optimum", "path_near_optimum"} & {*found.held}, model


def test_what_a_verdict_rests_on_travels_with_it(diabetes):
    X, y = diabetes
    model = Lasso(1.0).fit(X, y)
    shown = certify(model, X, y)["near_optimum"]
    risk, at = make_problem(model, X, y, lasso_objective)
    gap, _ = gap_at(risk, at, shown.witness["dual_point"])
    least = (risk.value(at.W, at.f) - gap)[0]
    assert_allclose(gap[0] / least, shown.measured, rtol=1e-9)
    shown = certify(changed(model, coef_=0.5 * model.coef_), X, y)["near_optimum"]
    assert_allclose(shown.witness["weights"][:, 0], model.coef_, rtol=1e-2, atol=1.0)


# --- verdicts ---------------------------------------------------------------------------------------------------------


def test_a_convergence_warning_gets_its_answer(tumours):
    """Unscaled columns: the warning is right, and by how much. Two steps too few on scaled ones: harmless."""
    raw, labels = load_breast_cancer(return_X_y=True)
    with pytest.warns(ConvergenceWarning):
        model = LogisticRegression().fit(raw, labels)
    found = certify(model, raw, labels)["near_optimum"]
    assert found.verdict == "fails"
    assert 0.2 < found.measured < 0.5
    assert "at most" in found.note
    X, y = tumours
    steps = int(LogisticRegression().fit(X, y).n_iter_[0])
    with pytest.warns(ConvergenceWarning):
        nearly = LogisticRegression(max_iter=steps - 1).fit(X, y)
    assert certify(nearly, X, y)["near_optimum"].verdict == "holds"


def test_weights_that_an_l2_penalty_ties_down_come_with_their_distance(diabetes):
    X, y = diabetes
    best = Ridge(1.0, solver="svd").fit(X, y)
    other = changed(best, coef_=best.coef_ * 1.01)
    note = certify(other, X, y)["near_optimum"].note
    promised = float(note.removeprefix("the weights are within ").removesuffix(" % of the best"))
    assert promised * 1.05 >= 1.0
    assert promised < 30


@pytest.mark.parametrize("scale", [1e-150, 1e-3, 1e150])
def test_the_unit_of_the_data_changes_no_verdict(diabetes, scale):
    X, y = diabetes
    model = Ridge(1e-3 * min(scale, 1e3) ** 2 if scale == 1e-3 else 0.0, solver="svd").fit(
        X * scale, y
    )
    if scale == 1e-3:
        assert certify(model, X * scale, y)["near_optimum"].verdict == "holds"
        other = changed(model, coef_=model.coef_ * 1.5)
        assert certify(other, X * scale, y)["near_optimum"].verdict == "fails"
    lasso = changed(Lasso(1.0).fit(X, y), alpha=scale)
    lasso.coef_ = lasso.coef_ / scale
    assert certify(lasso, X * scale, y)["near_optimum"].verdict == "holds"
    lasso.coef_ = lasso.coef_ * 1.5
    assert certify(lasso, X * scale, y)["near_optimum"].verdict == "fails"


def test_large_targets_change_no_verdict(diabetes):
    X, y = diabetes
    for unit in (1e-150, 1e150):
        model = Lasso(0.1).fit(X, y)
        model.coef_, model.intercept_, model.alpha = (
            model.coef_ * unit,
            model.intercept_ * unit,
            0.1 * unit,
        )
        model.dual_gap_ = model.dual_gap_ * unit if unit < 1 else 0.0
        assert certify(model, X, y * unit)["near_optimum"].verdict == "holds"


def test_float32_fits_and_sparse_and_streamed_rows_are_judged_alike(diabetes):
    X, y = diabetes
    model = ElasticNet(0.01, tol=1e-7, max_iter=10_000).fit(
        X.astype(np.float32), y.astype(np.float32)
    )
    for rows in (X, X.astype(np.float32), sp.csr_array(X), [X[:100], X[:0], X[100:]]):
        assert certify(model, rows, y)["near_optimum"].verdict == "holds"


def test_several_outputs_are_judged_one_by_one(diabetes):
    X, y = diabetes
    Y = np.column_stack([y, 1e-3 * np.random.default_rng(0).standard_normal(len(y))])
    model = Ridge(np.array([1.0, 0.1])).fit(X, Y)
    assert certify(model, X, Y)["near_optimum"].verdict == "holds"
    model.coef_[1] *= 3  # a small output beside a large one
    found = certify(model, X, Y)["near_optimum"]
    assert found.verdict == "fails"
    assert found.unit.startswith("output 1")


def test_liblinear_is_judged_by_its_own_objective(tumours):
    X, y = tumours
    model = LogisticRegression(solver="liblinear", C=0.01, tol=1e-8, intercept_scaling=0.1).fit(
        X, y
    )
    assert certify(model, X, y)["near_optimum"].verdict == "holds"
    other = changed(model, solver="lbfgs")  # the same weights under a free intercept
    assert certify(other, X, y)["near_optimum"].verdict == "fails"


def test_kinks_are_no_excuse(tumours):
    """The hinge: its dual point is not named by the scores, and has to be found."""
    X, y = tumours
    good = LinearSVC(loss="hinge", C=0.1, tol=1e-8, max_iter=100_000, random_state=0).fit(X, y)
    assert certify(good, X, y)["near_optimum"].verdict == "holds"
    bad = LinearSVC(loss="hinge", C=0.1, max_iter=2, random_state=0).fit(X, y)
    assert certify(bad, X, y)["near_optimum"].verdict == "fails"


def test_no_penalty_on_some_columns(diabetes):
    """A penalty factor of 0: the dual point has to be orthogonal to that column."""
    X, y = diabetes
    factor = np.r_[0.0, 0.0, np.ones(8)]
    model = lemmata.Lasso(1.0, penalty_factor=factor, tol=1e-8).fit(X, y)
    assert certify(model, X, y)["near_optimum"].verdict == "holds"
    other = changed(model, penalty_factor=np.ones(10))
    assert certify(other, X, y)["near_optimum"].verdict == "fails"


def test_a_constant_target_is_fitted_exactly(diabetes):
    X, _ = diabetes
    for model in (Ridge(), Lasso(0.1)):
        found = certify(model.fit(X, np.full(len(X), 7.3)), X, np.full(len(X), 7.3))
        assert "near_optimum" not in found.failed


def test_a_stated_gap_that_is_too_small_is_noticed(diabetes):
    X, y = diabetes
    model = Lasso(0.1, max_iter=2).fit(X, y)
    assert certify(model, X, y)["statements_true"].verdict == "holds"
    assert (
        certify(changed(model, dual_gap_=model.dual_gap_ / 100), X, y)["statements_true"].verdict
        == "fails"
    )
    assert certify(changed(model, dual_gap_=-1.0), X, y)["statements_true"].verdict == "fails"


def test_a_penalty_that_is_not_the_best_of_its_path_is_noticed(diabetes):
    X, y = diabetes
    model = LassoCV(cv=4, alphas=20).fit(X, y)
    assert {"alpha_best", "alpha_inside", "statements_true"} <= set(certify(model, X, y).held)
    path = model.mse_path_.mean(axis=1)
    other = changed(model, alpha_=model.alphas_[int(np.argmax(path))])
    assert "alpha_best" in certify(other, X, y).failed
    assert "statements_true" in certify(changed(model, alpha_=model.alpha_ * 1.1), X, y).failed
    short = LassoCV(cv=4, alphas=[100.0, 50.0, 20.0]).fit(X, y)
    assert "alpha_inside" in certify(short, X, y).failed


@pytest.mark.parametrize("more", [{}, {"l1_ratio": [0.5, 0.9]}])
def test_a_path_of_one_penalty_states_its_errors_without_an_axis_for_it(diabetes, more):
    X, y = diabetes
    for made_by in (ElasticNetCV, lemmata.ElasticNetCV):
        model = made_by(alphas=[0.1], cv=4, **more).fit(X, y)
        assert {"alpha_best", "statements_true"} <= set(certify(model, X, y).held)
        other = changed(model, alpha_=0.2)
        assert {"alpha_best", "statements_true"} <= set(certify(other, X, y).failed)


def test_a_whole_path_is_judged_at_its_worst(diabetes):
    X, y = diabetes
    path = lemmata.LassoPath().fit(X, y)
    assert {"path_near_optimum", "path_first_order"} <= set(path.certify(X, y).held)
    middle = path.coefs_.shape[1] // 2
    path.coefs_ = path.coefs_.copy()
    path.coefs_[:, middle] *= 1.3
    found = path.certify(X, y)["path_near_optimum"]
    assert found.verdict == "fails"
    assert found.unit.startswith(f"alpha={path.alphas_[middle]:.3g}")


def test_hubers_scale_is_part_of_the_objective(diabetes):
    X, y = diabetes
    model = HuberRegressor(max_iter=10_000, tol=1e-8, alpha=1.0).fit(X, y)
    assert certify(model, X, y)["near_optimum"].verdict == "holds"
    found = certify(changed(model, scale_=model.scale_ * 1.3), X, y)
    assert {"near_optimum", "statements_true"} <= set(found.failed)


def test_a_first_order_point_is_noticed_to_one_per_cent(diabetes):
    X, y = diabetes
    for model in (Ridge(1.0).fit(X, y), Lasso(0.5, tol=1e-8).fit(X, y)):
        assert certify(model, X, y)["first_order_point"].verdict == "holds"
        other = changed(model, coef_=model.coef_ * 1.01)
        assert certify(other, X, y)["first_order_point"].verdict == "fails"


def test_weights_beside_the_span_of_the_rows_are_noticed():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((10, 25)), rng.standard_normal(10)
    model = Ridge(1e-3).fit(X, y)
    assert certify(model, X, y)["representer"].verdict == "holds"
    beside = np.linalg.svd(X)[2][-1]
    found = certify(changed(model, coef_=model.coef_ + 1e-3 * beside), X, y)
    assert found["representer"].verdict == "fails"
    narrow = certify(Ridge(1.0).fit(X[:, :4], y), X[:, :4], y)["representer"]
    assert (narrow.verdict, narrow.note) == ("holds", "the rows span all 4 directions")
    labels = (y > 0).astype(int)
    lasso = LogisticRegression(solver="liblinear", l1_ratio=1.0).fit(X, labels)
    assert certify(lasso, X, labels)["representer"].verdict == "can't tell"


def test_a_hard_margin_is_judged_by_its_dual_or_not_at_all():
    """C = ∞ once gave a gap of 0·∞: not a number is broken or can't tell, never a holds."""
    X, y = load_iris(return_X_y=True)
    X, y = X[y < 2], y[y < 2]
    model = LinearSVC(C=1e3, loss="hinge", max_iter=100_000).fit(X, y)
    model.C = np.inf
    assert certify(model, X, y)["near_optimum"].verdict == "can't tell"
    ours = lemmata.LinearSVC(C=np.inf, loss="hinge", tol=1e-8, max_iter=100_000).fit(X, y)
    assert certify(ours, X, y)["near_optimum"].verdict in ("holds", "can't tell")
    ours.coef_ = ours.coef_ * 1.5
    assert certify(ours, X, y)["near_optimum"].verdict == "can't tell"


def test_spoilt_attributes_stop_the_checking(diabetes):
    X, y = diabetes
    model = Lasso(0.1).fit(X, y)
    for coef in (np.full(10, np.nan), model.coef_[:-1], model.coef_.astype(str)):
        found = certify(changed(model, coef_=coef), X, y)
        assert found.failed == ["attributes_sound"]
        assert "near_optimum" in found.not_checked
    assert "attributes_sound" in certify(changed(model, positive=True), X, y).failed


@pytest.mark.parametrize("k", [2, 3])
def test_the_search_spends_no_more_than_its_budget(k):
    X, y = load_iris(return_X_y=True)
    X, y = X[y < k], y[y < k]
    model = LogisticRegression(max_iter=2).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = certify(model, X, y, seconds=1e-3)
    assert found["near_optimum"].verdict in ("fails", "can't tell", "not checked")
    assert certify(model, X, y)["near_optimum"].verdict == "fails"


def test_slopes_of_columns_far_from_zero_are_those_of_their_deviations():
    rng = np.random.default_rng(0)
    x = rng.standard_normal(200)
    X, y = (1e6 + x)[:, None], x + 0.1 * rng.standard_normal(200)
    for model in (Ridge(1e-3), Lasso(1e-3)):
        model.fit(X - 1e6, y)
        for share, verdict in ((1.0, "holds"), (0.9, "fails"), (0.0, "fails")):
            other = copy.deepcopy(model)
            other.coef_ = share * model.coef_
            other.intercept_ = y.mean() - X.mean(axis=0) @ other.coef_
            assert certify(other, X, y)["first_order_point"].verdict == verdict


@pytest.mark.parametrize("classes", [2, 3])
def test_a_direction_that_projection_cannot_see_is_no_proof(classes):
    rng = np.random.default_rng(0)
    x, z = rng.standard_normal((2, 300))
    y = np.digitize(z + 0.5 * rng.standard_normal(300), [-0.5, 0.5][: classes - 1])
    X = np.column_stack([x, x + 3e-10 * z])  # the difference tells the classes apart
    for model in (LogisticRegression(C=np.inf), lemmata.LogisticRegression(C=np.inf)):
        assert model.fit(X, y).score(X, y) < 0.72
        assert certify(model, X, y)["near_optimum"].verdict != "holds"


def test_the_sentence_of_near_optimum_is_true_of_nearly_exact_fits():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((100, 3))
    y = X @ [1.0, 2.0, 3.0] + 1e-4 * rng.standard_normal(100)
    model = Ridge(1e-9).fit(X, y)
    # a tenth more than the least, and 1e-9 of a constant's
    model.coef_ = model.coef_ + np.array([3e-5, 0.0, 0.0])
    found = certify(model, X, y)["near_optimum"]
    assert found.verdict == "holds"
    assert "1e-6 of a constant prediction" in found.sentence


@pytest.mark.parametrize("scale", [1e-150, 1e-100, 1e100])
def test_the_penalty_of_an_intercept_has_no_unit_of_the_columns(diabetes, scale):
    X, y = diabetes
    X, c = X / X.std(axis=0), y > np.median(y)
    if scale < 1:  # the columns say nothing then, and the penalised intercept all
        model = lemmata.LinearSVC().fit(X * scale, c)
        assert model.certificate_["near_optimum"].verdict == "holds"
        moved = copy.deepcopy(model)
        moved.intercept_ = model.intercept_ + 0.5
        assert certify(moved, X * scale, c)["near_optimum"].verdict == "fails"
    huber = lemmata.RobustRegression(alpha=0.0 if scale > 1 else 1e-4).fit(X * scale, y)
    assert huber.certificate_["near_optimum"].verdict == "holds"
    if scale > 1:
        plain = lemmata.RobustRegression(alpha=0.0).fit(X, y)
        assert_allclose(huber.coef_ * scale, plain.coef_, rtol=1e-6)
