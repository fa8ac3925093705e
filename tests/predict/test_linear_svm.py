"""Linear support vector machines: every method ends at the same minimum, and its duality gap shows it."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_breast_cancer, load_iris, load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC as Reference

import lemmata
from lemmata import LinearSVC
from lemmata.predict.linear_svm import _kernels, _twins

HINGE = {"loss": "hinge"}


def drawn(n=200, d=5, k=2, seed=0, noise=1.0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * np.geomspace(0.5, 2, d)
    scores = X @ rng.standard_normal((d, k)) + 0.5 * rng.standard_normal(k)
    return X, np.argmax(scores + noise * rng.gumbel(size=(n, k)), axis=1)


def primal(model, X, y, s=None, C=1.0, squared=True, lasso=False, free=False, a=1.0):
    """The documented objective of all problems together, written out again."""
    s = np.ones(len(y)) if s is None else s
    total = 0.0
    for k, (w, b) in enumerate(zip(model.coef_, model.intercept_, strict=True)):
        own = model.classes_[1 if len(model.coef_) == 1 else k]
        missing = np.maximum(1 - np.where(y == own, 1, -1) * (X @ w + b), 0)
        v = w if free else np.append(w, b / a)
        total += C * s @ (missing**2 if squared else missing)
        total += np.abs(v).sum() if lasso else v @ v / 2
    return total


def dual(alpha, X, y, C=1.0, squared=True, a=1.0):
    """The dual value of multipliers of one problem, an independent formula: Σα − ½‖Σαyx̃‖² − Σα²/4C."""
    assert alpha.min() >= 0
    assert squared or alpha.max() <= C * (1 + 1e-9)
    v = (alpha * y) @ np.hstack([X, np.full((len(y), 1), a)])
    return alpha.sum() - v @ v / 2 - (alpha @ alpha / (4 * C) if squared else 0.0)


@pytest.mark.parametrize(
    ("method", "C"), [("auto", 0.01), ("auto", 1.0), ("auto", 100.0), ("dual", 0.01), ("dual", 1.0)]
)
def test_multipliers_of_the_hinge_prove_the_gap(method, C):
    X, y = drawn(n=100)
    options = {**HINGE, "method": method, "C": C, "random_state": 0, "tol": 1e-3}
    model = LinearSVC(**options, max_iter=5000).fit(X, y)
    value = primal(model, X, y, C=C, squared=False)
    bound = dual(model.dual_coef_[0], X, 2 * y - 1, C, squared=False)
    assert bound <= value * (1 + 1e-9)
    assert value - bound <= 1.01e-3 * value
    assert model.certificate_.failed == []


def test_multipliers_of_the_squared_hinge_prove_the_gap():
    X, y = drawn(n=100)
    newton = LinearSVC(tol=1e-10).fit(X, y)
    ascent = LinearSVC(method="dual", tol=1e-6, random_state=0).fit(X, y)
    bound = dual(ascent.dual_coef_[0], X, 2 * y - 1)
    least = primal(newton, X, y)
    assert bound <= least * (1 + 1e-9)
    assert primal(ascent, X, y) - bound <= 1.01e-6 * least
    # strongly convex with modulus 1: ‖v − v*‖ ≤ √(2 gap)
    reach = np.sqrt(2 * (primal(ascent, X, y) - bound))
    assert np.linalg.norm(newton.coef_ - ascent.coef_) <= reach


@pytest.mark.parametrize("load", [load_iris, load_wine, load_breast_cancer])
@pytest.mark.parametrize("scaling", [1, 5.0])
def test_the_squared_hinge_is_scikit_learns(load, scaling):
    X, y = load(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    ours = LinearSVC(intercept_scaling=scaling, tol=1e-10).fit(X, y)
    theirs = Reference(intercept_scaling=scaling, dual=False, tol=1e-10, max_iter=10_000).fit(X, y)
    assert_allclose(ours.coef_, theirs.coef_, atol=1e-5)
    assert_allclose(ours.intercept_, theirs.intercept_, atol=1e-5)
    assert_array_equal(ours.predict(X), theirs.predict(X))


@pytest.mark.parametrize("load", [load_iris, load_wine])
def test_the_hinge_is_no_higher_than_scikit_learns(load):
    X, y = load(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    ours = LinearSVC(**HINGE, tol=1e-8).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        theirs = Reference(loss="hinge", tol=1e-6, max_iter=100_000, random_state=0).fit(X, y)
    assert primal(ours, X, y, squared=False) <= primal(theirs, X, y, squared=False) * (1 + 1e-7)
    assert_allclose(ours.coef_, theirs.coef_, atol=0.02)


def test_a_lasso_is_scikit_learns_and_sparse():
    X, y = drawn(n=300, d=20)
    ours = LinearSVC(penalty="l1", C=0.02, tol=1e-8).fit(X, y)
    theirs = Reference(penalty="l1", C=0.02, dual=False, tol=1e-8, max_iter=100_000).fit(X, y)
    assert_allclose(ours.coef_, theirs.coef_, atol=1e-4)
    assert (ours.coef_ == 0).any()


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_a_free_intercept_balances_the_classes(loss):
    """∂/∂b = 0: the multipliers of the two classes have the same sum; and the limit of a large intercept_scaling."""
    X, y = drawn(n=150)
    X += 3
    model = LinearSVC(loss=loss, penalise_intercept=False, tol=1e-9).fit(X, y)
    if loss == "hinge":
        alpha = model.dual_coef_[0]
        assert abs(alpha @ (2 * y - 1)) <= 1e-6 * alpha.sum()
    else:
        missing = np.maximum(1 - (2 * y - 1) * model.decision_function(X), 0)
        assert abs(missing @ (2 * y - 1)) <= 1e-6 * missing.sum()
    nearly = LinearSVC(loss=loss, intercept_scaling=1e4, tol=1e-9).fit(X, y)
    assert_allclose(model.coef_, nearly.coef_, atol=1e-3)


def test_the_hard_margin_is_the_limit_of_large_C():
    X, y = load_iris(return_X_y=True)
    y = y == 0
    hard = LinearSVC(C=np.inf, penalise_intercept=False, tol=1e-8).fit(X, y)
    margins = np.where(y, 1, -1) * hard.decision_function(X)
    assert margins.min() >= 1 - 1e-9
    soft = LinearSVC(**HINGE, C=1e6, penalise_intercept=False, tol=1e-8).fit(X, y)
    assert_allclose(hard.coef_, soft.coef_, atol=1e-3)
    # complementary slackness: only rows on the margin carry weight
    alpha = hard.dual_coef_[0]
    assert alpha[margins > 1.01].max() <= 1e-4 * alpha.max()
    assert_allclose((alpha * np.where(y, 1, -1)) @ X, hard.coef_[0], atol=1e-4)


def test_a_narrow_gap_is_no_overlap():
    X, y = load_iris(return_X_y=True)
    X = X.copy()
    X[y == 0] -= X[y == 0].max(axis=0)
    X[y > 0] += 1e-3 - X[y > 0].min(axis=0)  # the nearest corners are 1e-3 apart
    model = LinearSVC(C=np.inf, penalise_intercept=False).fit(X, y > 0)
    assert (np.where(y > 0, 1, -1) * model.decision_function(X)).min() >= 1 - 1e-6


@pytest.mark.parametrize("free", [True, False])
def test_classes_that_overlap_have_no_hard_margin(free):
    X, y = drawn(n=80, noise=2.0)
    with pytest.raises(ValueError, match="overlap"):
        LinearSVC(C=np.inf, penalise_intercept=not free).fit(X, y)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_sub_gradients_come_near(loss):
    X, y = drawn(n=500)
    squared = loss == "squared_hinge"
    least = primal(LinearSVC(loss=loss, tol=1e-8).fit(X, y), X, y, squared=squared)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = LinearSVC(loss=loss, method="subgradient", max_iter=60, tol=0, random_state=0).fit(X, y)  # fmt: skip
        again = LinearSVC(loss=loss, method="subgradient", max_iter=60, tol=0, random_state=0).fit(X, y)  # fmt: skip
    assert primal(model, X, y, squared=squared) <= 1.02 * least
    assert_array_equal(model.coef_, again.coef_)


@pytest.mark.parametrize("options", [{}, HINGE, {"penalty": "l1", "C": 0.1}], ids=str)
def test_weights_are_repetitions_and_class_weights(options):
    X, y = drawn(n=80, k=3, seed=1)
    s = np.random.default_rng(0).integers(0, 3, len(y))
    weighted = LinearSVC(**options, tol=1e-10).fit(X, y, sample_weight=s)
    repeated = LinearSVC(**options, tol=1e-10).fit(np.repeat(X, s, axis=0), np.repeat(y, s))
    assert_allclose(weighted.coef_, repeated.coef_, atol=1e-4)
    two = y < 2
    by_class = LinearSVC(**options, class_weight={0: 3.0}, tol=1e-10).fit(X[two], y[two])
    factors = np.where(y[two] == 0, 3.0, 1.0)
    by_row = LinearSVC(**options, tol=1e-10).fit(X[two], y[two], sample_weight=factors)
    assert_allclose(by_class.coef_, by_row.coef_, atol=1e-4)


@pytest.mark.parametrize("weights", [{0: 3.0}, "balanced"], ids=str)
@pytest.mark.parametrize("options", [{}, HINGE, {"penalty": "l1", "C": 0.1}], ids=str)
def test_class_weights_of_three_classes_are_those_of_scikit_learn(options, weights):
    """Of one class against the rest only its own rows are weighted."""
    X, y = drawn(n=80, k=3, seed=1)
    X, y = X[(y < 2) | (X[:, 0] > 0)], y[(y < 2) | (X[:, 0] > 0)]  # fewer rows of the last class
    ours = LinearSVC(**options, class_weight=weights, tol=1e-8).fit(X, y)
    more = {"dual": False} if options.get("penalty") == "l1" else {}
    theirs = Reference(**options, **more, class_weight=weights, tol=1e-9, max_iter=10**6).fit(X, y)
    assert_allclose(ours.coef_, theirs.coef_, atol=2e-3)
    assert ours.certificate_["near_optimum"].verdict == "holds"


@pytest.mark.parametrize("options", [{}, HINGE, {"method": "dual"}], ids=str)
def test_sparse_rows_and_streams_are_the_whole(options):
    X, y = drawn(n=300, k=3)
    X[np.abs(X) < 0.5] = 0
    with lemmata.config(compile="always" if "method" in options else "never"):
        tol = 1e-4 if "method" in options else 1e-8
        whole = LinearSVC(**options, tol=tol, random_state=0).fit(X, y)
        sources = [sp.csr_matrix(X)] + ([] if "method" in options else [[X[:70], X[70:]]])
        for source in sources:
            other = LinearSVC(**options, tol=tol, random_state=0).fit(source, y)
            assert_allclose(other.coef_, whole.coef_, atol=1e-3)
            assert_array_equal(other.predict(source), whole.predict(X))


@pytest.mark.parametrize("squared", [False, True])
def test_kernel_and_twin_make_the_same_sweep(squared):
    X, y = drawn(n=60)
    rows = sp.csr_array(X)
    signs = 2.0 * y - 1
    upper = np.full(60, np.inf if squared else 1.0)
    extra = np.full(60, 0.5 if squared else 0.0)
    norms = (X**2).sum(axis=1) + 1 + extra
    found = []
    for loops in (_kernels, _twins):
        alpha, w, order = np.zeros(60), np.zeros(6), np.random.default_rng(0).permutation(60)
        state = (60, np.inf, -np.inf)
        for _ in range(4):
            count, high, low = state
            state = loops.sweep_into(
                alpha, w, order, count, rows.indptr, rows.indices, rows.data, signs, 1.0, upper,
                extra, norms, high if high > 0 else np.inf, low if low < 0 else -np.inf,
            )  # fmt: skip
        found.append((alpha, w, order, state[0]))
        assert_allclose(w[:5], (alpha * signs) @ X, atol=1e-10)
    for one, two in zip(*found, strict=True):
        assert_allclose(one, two, atol=1e-10)


def test_compiled_or_not_dual_ascent_is_the_same():
    X, y = drawn(n=60)
    models = []
    for mode in ("always", "never"):
        with lemmata.config(compile=mode):
            models.append(LinearSVC(method="dual", random_state=0).fit(X, y))
    assert_allclose(models[0].coef_, models[1].coef_, atol=1e-8)


def test_more_features_than_rows():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((30, 100)), rng.integers(0, 2, 30)
    for loss in ("hinge", "squared_hinge"):
        ours = LinearSVC(loss=loss, tol=1e-9).fit(X, y)
        ascent = LinearSVC(loss=loss, method="dual", tol=1e-6, random_state=0).fit(X, y)
        assert_allclose(ours.coef_, ascent.coef_, atol=2e-2 if loss == "hinge" else 1e-3)


@given(st.integers(1, 40), st.integers(1, 5), st.integers(0, 2**31), st.sampled_from(["hinge", "squared_hinge"]))  # fmt: skip
@settings(max_examples=30)
def test_arbitrary_small_data_is_certified(n, d, seed, loss):
    rng = np.random.default_rng(seed)
    X = np.round(rng.standard_normal((n + 2, d)) * 2)
    y = np.append([0, 1], rng.integers(0, 2, n))
    model = LinearSVC(loss=loss).fit(X, y)
    assert model.stopped_ in ("small gradient", "finished")
    assert "near_optimum" not in model.certificate_.failed


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"penalty": "l1", "loss": "hinge"}, "squared_hinge"),
        ({"multi_class": "crammer_singer"}, "not offered"),
        ({"C": np.inf, "method": "dual"}, "hard margin"),
        ({"method": "newton", "loss": "hinge"}, "interior"),
        ({"method": "interior"}, "newton"),
        ({"method": "dual", "penalise_intercept": False}, "free intercept"),
        ({"C": 0.0}, "C"),
    ],
)
def test_what_does_not_fit_together_gets_one_sentence(parameters, message):
    X, y = drawn(n=20)
    with pytest.raises(ValueError, match=message):
        LinearSVC(**parameters).fit(X, y)
