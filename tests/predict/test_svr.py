"""SVR: the conditions of its optimum, and agreement with scikit-learn's."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import svm as theirs
from sklearn.datasets import load_diabetes
from sklearn.metrics.pairwise import rbf_kernel

import lemmata
from lemmata import SVR
from lemmata.predict.svm import base, smo


def wave(n=250, seed=0, noise=0.1):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-3, 3, (n, 2))
    return X, np.sin(2 * X[:, 0]) + 0.3 * X[:, 1] + noise * rng.standard_normal(n)


@pytest.fixture
def cached(monkeypatch):
    """The way of large data: rows of K from a cache, working sets of 64."""
    monkeypatch.setattr(base, "SMALL", 0)
    monkeypatch.setattr(smo, "WORKING", 64)


def gap(model, y, K, C, epsilon):
    """Primal minus dual by definition: (gap, primal)."""
    beta = np.zeros(len(y))
    beta[model.support_] = model.dual_coef_[0]
    f = K @ beta + model.intercept_[0]
    half = 0.5 * beta @ K @ beta
    primal = half + np.sum(C * np.maximum(0, np.abs(y - f) - epsilon))
    return primal - (y @ beta - epsilon * np.abs(beta).sum() - half), primal


@pytest.mark.parametrize("compile", ["never", "always"])
@pytest.mark.parametrize("way", ["whole", "cached"])
@pytest.mark.parametrize("epsilon", [0.0, 0.1])
def test_the_conditions_of_the_optimum_hold_at_the_end(epsilon, way, compile, request):
    if way == "cached":
        request.getfixturevalue("cached")
    X, y = wave(120)
    C = 5.0
    with lemmata.config(compile=compile):
        model = SVR(C=C, gamma=1.0, epsilon=epsilon, tol=1e-4).fit(X, y)
    K = rbf_kernel(X, gamma=1.0)
    beta = np.zeros(len(y))
    beta[model.support_] = model.dual_coef_[0]
    assert (np.abs(beta) <= C).all()
    assert abs(beta.sum()) <= 1e-12 * C * len(y)
    error, tol = y - K @ beta - model.intercept_, 1.01e-4
    # β = 0 ⇒ within the tube, 0 < |β| < C ⇒ on its edge, |β| = C ⇒ outside, on the side of β
    assert (np.abs(error[beta == 0]) <= epsilon + tol).all()
    free, full = (beta != 0) & (np.abs(beta) < C), np.abs(beta) == C
    assert_allclose((np.sign(beta) * error)[free], epsilon, atol=tol)
    assert ((np.sign(beta) * error)[full] >= epsilon - tol).all()
    missing, primal = gap(model, y, K, C, epsilon)
    assert -1e-9 * primal <= missing <= 1e-3 * primal
    assert model.trace_.largest_rise <= 1e-9 * abs(model.trace_.last())
    assert not {"feasible", "near_optimum", "slackness"} & set(model.certify(X, y).failed)


@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly"])
def test_it_predicts_as_scikit_learn_does(kernel):
    X, y = load_diabetes(return_X_y=True)
    y = y / y.std()
    ours, peer = (cls(kernel=kernel, C=10, tol=1e-5).fit(X, y) for cls in (SVR, theirs.SVR))
    assert_allclose(ours.predict(X), peer.predict(X), atol=2e-3)
    assert_allclose(ours.intercept_, peer.intercept_, atol=2e-3)
    assert ours.n_support_.shape == peer.n_support_.shape
    if kernel == "linear":
        assert_allclose(ours.coef_, peer.coef_, atol=2e-3 * np.abs(peer.coef_).max())


@pytest.mark.parametrize("way", ["whole", "cached"])
def test_weights_sparse_rows_and_given_matrices(way, request):
    if way == "cached":
        request.getfixturevalue("cached")
    X, y = wave(150)
    weights = np.random.default_rng(1).integers(0, 3, len(y))
    settings = {"C": 3.0, "gamma": 0.5, "tol": 1e-6}
    weighted = SVR(**settings).fit(X, y, weights).predict(X)
    peer = theirs.SVR(**settings).fit(X, y, weights).predict(X)
    assert_allclose(weighted, peer, atol=1e-3)
    repeated = SVR(**settings).fit(np.repeat(X, weights, axis=0), np.repeat(y, weights))
    assert_allclose(weighted, repeated.predict(X), atol=1e-3)
    plain = SVR(**settings).fit(X, y).predict(X)
    assert_allclose(
        SVR(**settings).fit(sp.csr_array(X), y).predict(sp.csr_array(X)), plain, atol=1e-3
    )
    K = rbf_kernel(X, gamma=0.5)
    given = SVR(kernel="precomputed", C=3.0, tol=1e-6).fit(K, y)
    assert_allclose(given.predict(K), plain, atol=1e-3)


def test_a_tube_that_holds_everything_needs_no_support_vectors(tmp_path):
    X, y = wave(50)
    model = SVR(epsilon=100.0).fit(X, y)
    assert len(model.support_) == 0
    assert_allclose(model.predict(X), model.intercept_[0])
    assert abs(model.intercept_[0] - y).max() <= 100
    lemmata.save(model, tmp_path / "m.lemma")
    assert_array_equal(lemmata.load(tmp_path / "m.lemma").predict(X), model.predict(X))


def test_a_constant_target_is_its_own_prediction():
    X, _ = wave(50)
    assert_allclose(SVR().fit(X, np.full(50, 7.0)).predict(X), 7.0, atol=0.1 + 1e-9)


@settings(max_examples=30)
@given(
    n=st.integers(1, 25), d=st.integers(1, 3), seed=st.integers(0, 10**6),
    C=st.sampled_from([1e-3, 1.0, 1e3]), epsilon=st.sampled_from([0.0, 0.1, 3.0]),
)  # fmt: skip
def test_any_rows_are_fitted_to_their_optimum(n, d, seed, C, epsilon):
    rng = np.random.default_rng(seed)
    X, y = rng.integers(-2, 3, (n, d)).astype(float), rng.standard_normal(n)
    model = SVR(C=C, epsilon=epsilon).fit(X, y)
    missing, primal = gap(model, y, rbf_kernel(X, gamma=model.gamma_), C, epsilon)
    assert model.fit_status_ == 0
    assert missing <= 4e-3 * max(1.0, C) * n + 1e-6 * primal
