"""Logistic regression: the minimum is one point, whoever finds it, from whatever the rows come in."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import logsumexp
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression as Reference
from sklearn.preprocessing import StandardScaler

from lemmata import LogisticRegression
from lemmata.core import Blocks, MaxSteps, run
from lemmata.core.supervised import find_classes
from lemmata.data import DataNotFound, a9a
from lemmata.predict.logistic import newton
from lemmata.predict.logistic.lbfgs import LBFGSAlgorithm
from lemmata.predict.logistic.newton import NewtonAlgorithm
from lemmata.predict.logistic.problem import LinearProblem, NearOptimum
from lemmata.predict.logistic.surrogates import (
    LogisticSurrogate,
    SoftmaxSurrogate,
    SquaredHingeSurrogate,
)

TIGHT = {"tol": 1e-10}


def drawn(n=300, d=6, k=2, seed=0, noise=1.0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * np.geomspace(0.3, 3, d)
    scores = X @ rng.standard_normal((d, k)) + rng.standard_normal(k)
    return X, np.argmax(scores + noise * rng.gumbel(size=(n, k)), axis=1)


def objective(model, X, y, s=None, C=1.0, rho=0.0):
    """The documented objective, written out again from log-probabilities."""
    F = X @ model.coef_.T + model.intercept_
    F = np.hstack([np.zeros_like(F), F]) if F.shape[1] == 1 else F
    place = np.searchsorted(model.classes_, y)
    losses = logsumexp(F, axis=1) - F[np.arange(len(y)), place]
    s = np.ones(len(y)) if s is None else s
    w = model.coef_
    return C * s @ losses + (1 - rho) / 2 * np.sum(w**2) + rho * np.abs(w).sum()


def gradient(model, X, y, s=None, C=1.0):
    """Of the smooth objective in (w, b), from probabilities alone."""
    P = model.predict_proba(X)
    E = P - (np.asarray(y)[:, None] == model.classes_)
    E = E[:, 1:] if len(model.coef_) == 1 else E
    E = C * E if s is None else C * E * s[:, None]
    return np.hstack([E.T @ X + model.coef_, E.sum(axis=0)[:, None]])


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("solver", ["auto", "newton-cg", "lbfgs", "saga"])
def test_the_gradient_vanishes_at_the_weights(solver, k):
    X, y = drawn(k=k)
    model = LogisticRegression(solver=solver, max_iter=1000, **TIGHT).fit(X, y)
    assert np.abs(gradient(model, X, y)).max() < 1e-6 * len(y)
    assert model.certificate_.failed == []


@pytest.mark.parametrize("load", [load_iris, load_wine, load_breast_cancer])
def test_weights_are_as_near_to_scikit_learns_as_both_gaps_allow(load):
    """‖w − w*‖ ≤ √(2 gap/λ), and the gap of weights w is at most ‖∇‖²/2λ; λ = 1."""
    X, y = load(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    ours = LogisticRegression(**TIGHT).fit(X, y)
    theirs = Reference(tol=1e-10, max_iter=5000).fit(X, y)
    reach = sum(np.linalg.norm(gradient(m, X, y)) for m in (ours, theirs))
    assert np.linalg.norm(ours.coef_ - theirs.coef_) <= reach
    centre = theirs.intercept_.mean() if len(theirs.intercept_) > 1 else 0.0
    assert_allclose(ours.intercept_, theirs.intercept_ - centre, atol=1e-4)
    assert_array_equal(ours.predict(X), theirs.predict(X))
    assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-5)


def test_softmax_of_two_classes_is_the_logistic_loss_with_half_the_weights():
    """With w₁ = −w₀ = w/2 the scores differ by w, and two ridges of w/2 are half a ridge of w."""
    X, y = drawn()
    free = np.zeros(7)
    ridge = np.append(np.ones(6), 0.0)
    data = Blocks.of(X).with_targets(y)
    one = run(
        NewtonAlgorithm(), LinearProblem.of(data, LogisticSurrogate(), ridge, free, True), stop=NearOptimum(1e-12)
    ).state  # fmt: skip
    two = run(
        NewtonAlgorithm(),
        LinearProblem.of(data, SoftmaxSurrogate(2), 2 * ridge, free, True),
        stop=NearOptimum(1e-12),
    ).state
    assert_allclose(two.W[1] - two.W[0], one.W[0], atol=1e-6)
    assert_allclose(two.losses.sum(), one.losses.sum(), rtol=1e-10)


def test_class_weights_are_weights_of_rows():
    X, y = drawn(k=3, seed=2)
    chosen = {0: 2.0, 1: 0.5}
    by_class = LogisticRegression(class_weight=chosen, **TIGHT).fit(X, y)
    by_row = LogisticRegression(**TIGHT).fit(X, y, sample_weight=np.array([2.0, 0.5, 1.0])[y])
    assert_allclose(by_class.coef_, by_row.coef_, atol=1e-7)
    ours = LogisticRegression(class_weight="balanced", **TIGHT).fit(X, y)
    theirs = Reference(class_weight="balanced", tol=1e-10, max_iter=5000).fit(X, y)
    assert_allclose(ours.coef_, theirs.coef_, atol=1e-4)


@pytest.mark.parametrize(
    "names",
    [["no", "yes"], [False, True], [-1.0, 2.0], np.array(["b", "a"], dtype=object), [7, 3]],
    ids=["text", "bool", "float", "object", "falling"],
)
def test_labels_may_be_anything(names):
    X, y = drawn(n=100)
    labels = np.asarray(names)[y]
    model = LogisticRegression().fit(X, labels)
    assert set(model.predict(X)) <= set(names)
    reference = LogisticRegression().fit(X, np.searchsorted(model.classes_, labels))
    assert_array_equal(model.coef_, reference.coef_)
    assert model.score(X, labels) == reference.score(X, np.searchsorted(model.classes_, labels))


@pytest.mark.parametrize("options", [{}, {"l1_ratio": 1.0, "C": 0.5}, {"solver": "lbfgs"}])
@pytest.mark.parametrize("k", [2, 3])
def test_sparse_rows_and_streams_are_the_whole(options, k, tmp_path):
    X, y = drawn(n=250, k=k)
    X[X < 0.4] = 0
    whole = LogisticRegression(**options, **TIGHT, max_iter=2000).fit(X, y)
    path = tmp_path / "rows.npy"
    np.save(path, X)
    sources = [sp.csr_matrix(X), sp.csc_array(X), [X[:100], X[100:]], np.load(path, mmap_mode="r")]
    for source in sources:
        other = LogisticRegression(**options, **TIGHT, max_iter=2000).fit(source, y)
        assert_allclose(other.coef_, whole.coef_, atol=1e-5)
        assert_allclose(other.predict_proba(source), whole.predict_proba(X), atol=1e-5)


def test_dask_rows_are_the_whole():
    dask = pytest.importorskip("dask.array")
    X, y = drawn(n=300, k=3)
    lazy = dask.from_array(X, chunks=(70, 6))
    whole = LogisticRegression(**TIGHT).fit(X, y)
    assert_allclose(LogisticRegression(**TIGHT).fit(lazy, y).coef_, whole.coef_, atol=1e-7)


@pytest.mark.parametrize(
    "loss",
    [LogisticSurrogate(), SquaredHingeSurrogate(), SoftmaxSurrogate(3)],
    ids=lambda loss: type(loss).__name__,
)
def test_sums_are_the_derivatives_of_the_loss(loss):
    X, y = drawn(n=40, d=4, k=3 if loss.m > 1 else 2, seed=5)
    s = np.random.default_rng(0).uniform(0.5, 2, len(y))
    ridge = np.array([0.5, 1, 1, 1, 0])
    problem = LinearProblem.of(
        Blocks.of(X, s).with_targets(y), loss, ridge, np.zeros(5), intercept=True
    )
    W = 0.3 * np.random.default_rng(1).standard_normal((loss.m, 5))
    at = problem.at(W, 2)
    h = 1e-6
    size = W.size
    H = at.hessian if loss.coupled else at.hessian.reshape(5, 5)
    for j in range(size):
        step = np.zeros(size)
        step[j] = h
        step = step.reshape(W.shape)
        up, down = problem.at(W + step), problem.at(W - step)
        assert_allclose((up.loss - down.loss) / (2 * h), at.gradient.ravel()[j], rtol=1e-5, atol=1e-5)  # fmt: skip
        measured = (up.gradient - down.gradient).ravel() / (2 * h)
        assert_allclose(measured, H[j], rtol=1e-4, atol=1e-3)
    single = problem.at(W, 2, single=True).hessian
    assert_allclose(single, at.hessian, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize(
    "algorithm", [NewtonAlgorithm(), LBFGSAlgorithm()], ids=["newton", "lbfgs"]
)
@pytest.mark.parametrize("scale", [1.0, 100.0])
def test_damped_steps_never_raise_the_objective(algorithm, scale):
    X, y = drawn(k=3, noise=0.01)
    problem = LinearProblem.of(
        Blocks.of(scale * X).with_targets(y),
        SoftmaxSurrogate(3),
        np.full(7, 1e-6),
        np.zeros(7),
        True,
    )
    solution = run(algorithm, problem, stop=MaxSteps(30))
    values = np.array([solution.trace.last(back=i) for i in range(len(solution.trace))])[::-1]
    assert np.diff(values).max() <= 1e-13 * values[0]


def test_a_sample_is_only_where_to_start(monkeypatch):
    X, y = drawn(n=6000, d=5)
    monkeypatch.setattr(newton, "SAMPLE_WORK", 0)
    sampled = LogisticRegression(**TIGHT).fit(X, y)
    monkeypatch.setattr(newton, "SAMPLE_WORK", np.inf)
    assert_allclose(LogisticRegression(**TIGHT).fit(X, y).coef_, sampled.coef_, atol=1e-7)
    # sorted rows, a rare class: the sample is no smaller version of the data, and the answer is the same
    y = np.zeros(6000, int)
    y[-40:] = 1
    monkeypatch.setattr(newton, "SAMPLE_WORK", 0)
    rare = LogisticRegression(**TIGHT).fit(X, y)
    assert np.abs(gradient(rare, X, y)).max() < 1e-4


def test_more_features_than_rows_are_solved_among_the_rows():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((40, 200)), rng.integers(0, 3, 40)
    ours = LogisticRegression(**TIGHT).fit(X, y)
    assert np.abs(gradient(ours, X, y)).max() < 1e-6
    wide = LogisticRegression(solver="lbfgs", max_iter=3000, **TIGHT).fit(X, y)
    assert_allclose(ours.coef_, wide.coef_, atol=1e-5)


def test_gradient_methods_approach_the_same_minimum():
    X, y = drawn(n=400, d=4)
    best = LogisticRegression(**TIGHT).fit(X, y)
    least = objective(best, X, y)
    slow = LogisticRegression(solver="gd", max_iter=3000).fit(X, y)
    assert slow.stopped_ == "small gradient"
    assert objective(slow, X, y) <= least * (1 + 1e-4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        noisy = LogisticRegression(solver="sgd", max_iter=60, random_state=0).fit(X, y)
        again = LogisticRegression(solver="sgd", max_iter=60, random_state=0).fit(X, y)
    assert objective(noisy, X, y) <= least * 1.01
    assert_array_equal(noisy.coef_, again.coef_)


def test_a_run_cut_short_says_so():
    X, y = drawn()
    with pytest.warns(ConvergenceWarning, match="max_iter=1"):
        model = LogisticRegression(max_iter=1, C=100).fit(X, y)
    assert model.stopped_ == "max steps"


def test_separable_classes_have_no_maximum_likelihood():
    X, y = load_iris(return_X_y=True)
    y = y == 0
    model = LogisticRegression(C=np.inf).fit(X, y)
    assert model.stopped_ == "small gradient"
    assert model.score(X, y) == 1
    assert np.isfinite(model.coef_).all()
    found = model.certify(X, y)
    assert not found.holds, found


def test_overlapping_classes_have_one():
    X, y = drawn(n=400, noise=3.0)
    model = LogisticRegression(penalty=None, **TIGHT).fit(X, y)
    unpenalised = gradient(model, X, y)
    unpenalised[:, :-1] -= model.coef_
    assert np.abs(unpenalised).max() < 1e-6
    assert_allclose(model.coef_, LogisticRegression(C=np.inf, **TIGHT).fit(X, y).coef_)
    assert model.certify(X, y).failed == []


def test_a_warm_start_at_the_minimum_is_done():
    X, y = drawn(n=400, k=3)
    model = LogisticRegression(warm_start=True, **TIGHT).fit(X, y)
    first, before = model.n_iter_, model.coef_
    model.fit(X, y)
    assert model.n_iter_ <= 1 < first
    assert_allclose(model.coef_, before, atol=1e-8)


def test_liblinear_means_its_penalised_intercept():
    X, y = drawn(n=200, seed=4)
    for scaling in (1, 0.3):
        ours = LogisticRegression(solver="liblinear", intercept_scaling=scaling, tol=1e-10).fit(X, y)  # fmt: skip
        theirs = Reference(solver="liblinear", intercept_scaling=scaling, tol=1e-10).fit(X, y)
        assert_allclose(ours.coef_, theirs.coef_, atol=1e-4)
        assert_allclose(ours.intercept_, theirs.intercept_, atol=1e-4)


def test_log_probabilities_of_float32_stay_finite():
    X, y = drawn()
    model = LogisticRegression().fit(X.astype(np.float32), y)
    far = 1e4 * X
    assert np.isfinite(model.predict_log_proba(far)).all()
    assert_allclose(model.predict_proba(far).sum(axis=1), 1, atol=1e-6)


def test_real_digits_reach_the_gap_that_a_peer_needs_thousands_of_steps_for():
    X, y = (part[:700] for part in load_digits(return_X_y=True))
    model = LogisticRegression().fit(X, y)
    assert model.stopped_ == "small gradient"
    assert model.certificate_.failed == []
    assert 0.5 * np.sum(gradient(model, X, y)[:, :-1] ** 2) <= 1e-3 * objective(model, X, y)


@pytest.mark.parametrize("power", [-150, 150])
def test_extreme_scales_settle(power):
    X, y = drawn(n=60)
    model = LogisticRegression().fit(X * 10.0**power, y)
    assert model.stopped_ in ("small gradient", "finished")
    assert np.isfinite(model.predict_proba(X * 10.0**power)).all()
    # so small that only the intercept counts, or so large that the ridge does not
    least = np.mean(y == np.bincount(y).argmax())
    assert model.score(X * 10.0**power, y) >= least


def test_numbers_whose_squares_overflow_are_refused():
    X, y = drawn(n=60)
    with pytest.raises((ValueError, RuntimeError), match=r"divide (its columns|X)"):
        LogisticRegression().fit(1e200 * X, y)


def test_collinear_and_constant_columns_do_not_stop_newton():
    X, y = drawn(n=100, d=3, noise=3.0)
    X = np.hstack([X, X, np.ones((100, 1)), np.zeros((100, 1))])
    for C in (1.0, np.inf):
        model = LogisticRegression(C=C).fit(X, y)
        assert model.stopped_ == "small gradient"
        assert np.isfinite(model.coef_).all()


@given(
    st.integers(1, 40), st.integers(1, 6), st.integers(0, 2**31), st.sampled_from([1e-3, 1.0, 1e3])
)
@settings(max_examples=30)
def test_arbitrary_small_data_ends_at_a_small_gradient(n, d, seed, C):
    rng = np.random.default_rng(seed)
    X = np.round(rng.standard_normal((n + 2, d)) * 2)
    y = np.append([0, 1], rng.integers(0, 3, n))
    model = LogisticRegression(C=C, tol=1e-8).fit(X, y)
    assert model.stopped_ in ("small gradient", "finished")
    assert np.abs(gradient(model, X, y, C=C)).max() <= 2e-8 * max(C, 1) * len(y) + 1e-6


@pytest.mark.parametrize(
    ("parameters", "y", "message"),
    [
        ({}, np.zeros(20), "one class only"),
        ({"solver": "liblinear"}, np.arange(20) % 3, "two classes"),
        ({"class_weight": {5: 1.0}}, None, "which is not in y"),
    ],
)
def test_bad_input_gets_one_sentence(parameters, y, message):
    X = np.random.default_rng(0).standard_normal((20, 2))
    with pytest.raises(ValueError, match=message):
        LogisticRegression(**parameters).fit(X, np.arange(20) % 2 if y is None else y)


@pytest.mark.parametrize(
    "loss",
    [LogisticSurrogate(), SquaredHingeSurrogate(3), SoftmaxSurrogate(3)],
    ids=lambda loss: type(loss).__name__,
)
def test_hessians_of_thin_sparse_rows_are_those_of_dense_ones(loss):
    X = sp.random_array((200, 40), density=0.03, rng=np.random.default_rng(0), format="csr")
    y = np.arange(200) % (3 if loss.m > 1 else 2)
    W = np.random.default_rng(1).standard_normal((loss.m, 41))
    found = [
        LinearProblem.of(Blocks.of(rows).with_targets(y), loss, np.ones(41), np.zeros(41), True).at(
            W, 2
        )
        for rows in (X, X.toarray())
    ]
    assert_allclose(found[0].hessian, found[1].hessian, atol=1e-10)
    assert_allclose(found[0].gradient, found[1].gradient, atol=1e-10)


def test_census_data_is_fitted_to_its_gap():
    try:
        data = a9a()
    except DataNotFound as error:
        pytest.skip(str(error))
    X, y = sp.csr_array(data.X), np.asarray(data.y)
    model = LogisticRegression().fit(X, y)
    least = objective(model, X, y)
    assert 0.5 * np.sum(gradient(model, X, y)[:, :-1] ** 2) <= 1.1e-4 * least
    assert 0.84 < model.score(X, y) < 0.86


@pytest.mark.parametrize("solver", ["newton", "lbfgs"])
def test_units_of_features_do_not_matter_without_a_penalty(solver):
    """Each column in its own units: the weights follow, the number of steps hardly changes.

    The gradient is in those units too, so that both run until rounding leaves nothing to gain.
    """
    X, y = drawn(n=500, noise=3.0)
    units = np.geomspace(1e-6, 1e6, X.shape[1])
    plain = LogisticRegression(C=np.inf, solver=solver, tol=1e-16).fit(X, y)
    scaled = LogisticRegression(C=np.inf, solver=solver, tol=1e-16).fit(X * units, y)
    assert_allclose(scaled.coef_ * units, plain.coef_, atol=1e-3)
    assert scaled.n_iter_ <= plain.n_iter_ + 30


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int64, np.uint64])
def test_classes_of_whole_numbers_are_those_of_a_sort(dtype):
    y = np.random.default_rng(0).choice(np.array([3, 100, 7, 250], np.int64).astype(dtype), 300)
    for labels in (
        y,
        y[:3],
        y.max() - y,
        np.array([np.iinfo(dtype).max, np.iinfo(dtype).min], dtype),
    ):
        classes, places = find_classes(labels)
        wanted = np.unique(labels, return_inverse=True)
        assert classes.dtype == dtype
        assert_array_equal(classes, wanted[0])
        assert_array_equal(places, wanted[1])
