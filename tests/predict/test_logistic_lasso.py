"""Logistic regression with a lasso: optimality conditions, duality gaps, working sets, kernels and twins."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose
from scipy.special import expit, xlogy
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression as Reference
from sklearn.preprocessing import StandardScaler

from lemmata import LogisticRegression
from lemmata.predict.logistic import _kernels, _twins, l1


def drawn(n=200, d=30, seed=0, k=2):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    W = np.zeros((d, k))
    W[:5] = rng.standard_normal((5, k)) * 2
    return X, np.argmax(X @ W + rng.gumbel(size=(n, k)), axis=1)


def violation(model, X, y, C, rho=1.0):
    """How far each weight is from −∂f/∂w ∈ ∂(ρ|w|) + (1 − ρ)w, over ρ; the intercepts' gradient over Σs."""
    E = model.predict_proba(X) - (np.asarray(y)[:, None] == model.classes_)
    E = C * (E[:, 1:] if len(model.coef_) == 1 else E)
    G, w = E.T @ X + (1 - rho) * model.coef_, model.coef_
    off = np.where(w == 0, np.maximum(np.abs(G) - rho, 0), np.abs(G + rho * np.sign(w))) / rho
    return max(off.max(), np.abs(E.sum(axis=0)).max() / (C * len(y)))


def relative_gap(w, X, y, lam):
    """P − D of Σ log(1 + e^(−m)) + λ‖w‖₁ without intercept, with the dual point shrunk into ‖Xᵀu‖∞ ≤ λ."""
    m = y * (X @ w)
    P = np.logaddexp(0, -m).sum() + lam * np.abs(w).sum()
    a = expit(-m)
    a = a * min(1.0, lam / np.abs(X.T @ (y * a)).max())
    D = -(xlogy(a, a) + xlogy(1 - a, 1 - a)).sum()
    assert D <= P * (1 + 1e-12)
    return (P - D) / P


@pytest.mark.parametrize("rho", [1.0, 0.4])
@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("C", [0.05, 1.0])
def test_optimality_conditions_hold(k, C, rho):
    X, y = drawn(k=k)
    model = LogisticRegression(l1_ratio=rho, C=C, tol=1e-8).fit(X, y)
    assert violation(model, X, y, C, rho) <= 1e-7
    assert model.certificate_.failed == []
    assert (model.coef_ == 0).any()


@pytest.mark.parametrize("load", [load_wine, load_breast_cancer])
def test_the_objective_is_no_higher_than_scikit_learns(load):
    X, y = load(return_X_y=True)
    X, y = StandardScaler().fit_transform(X), y > 0
    ours = LogisticRegression(l1_ratio=1, tol=1e-9).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # it is what this test is about
        theirs = Reference(l1_ratio=1, solver="saga", tol=1e-6, max_iter=1000).fit(X, y)

    def objective(model):
        return np.logaddexp(0, (1 - 2 * y) * model.decision_function(X)).sum() + np.abs(model.coef_).sum()  # fmt: skip

    assert objective(ours) <= objective(theirs) * (1 + 1e-9)
    assert objective(theirs) <= objective(ours) * 1.01


@pytest.mark.parametrize("tol", [1e-2, 1e-4, 1e-6])
def test_the_duality_gap_is_of_the_order_of_tol(tol):
    X, y = drawn(n=500)
    y = 2 * y - 1
    lam = 0.1 * np.abs(X.T @ y).max() / 2
    model = LogisticRegression(l1_ratio=1, C=1 / lam, fit_intercept=False, tol=tol).fit(X, y)
    assert relative_gap(model.coef_.ravel(), X, y, lam) <= 2 * tol


def test_beyond_the_largest_penalty_all_weights_are_zero():
    X, y = drawn()
    top = np.abs((X - X.mean(axis=0)).T @ (y - y.mean())).max()
    assert not LogisticRegression(l1_ratio=1, C=0.999 / top, tol=1e-8).fit(X, y).coef_.any()
    assert LogisticRegression(l1_ratio=1, C=1.01 / top, tol=1e-8).fit(X, y).coef_.any()


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
def test_working_sets_end_where_all_weights_at_once_do(make, monkeypatch):
    X, y = drawn(n=150, d=400, seed=1)
    X[np.abs(X) < 1] = 0
    by_sets = LogisticRegression(l1_ratio=1, C=0.5, tol=1e-8)
    monkeypatch.setattr(l1, "WHOLE", 10)
    by_sets.fit(make(X), y)
    monkeypatch.setattr(l1, "WHOLE", 10**6)
    whole = LogisticRegression(l1_ratio=1, C=0.5, tol=1e-8).fit(X, y)
    assert violation(by_sets, X, y, 0.5) <= 1e-7
    assert_allclose(by_sets.coef_, whole.coef_, atol=1e-5)


def test_a_penalised_intercept_is_liblinears():
    X, y = drawn(n=300, d=5)
    ours = LogisticRegression(l1_ratio=1, C=0.1, solver="liblinear", tol=1e-9).fit(X, y)
    theirs = Reference(l1_ratio=1, C=0.1, solver="liblinear", tol=1e-9, max_iter=10_000).fit(X, y)
    assert_allclose(ours.coef_, theirs.coef_, atol=1e-4)
    assert_allclose(ours.intercept_, theirs.intercept_, atol=1e-4)


def test_kernel_and_twin_make_the_same_sweeps():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((60, 20))
    H, g, lasso = A.T @ A, 30 * rng.standard_normal(20), np.full(20, 10.0)
    lasso[-1] = 0.0
    found = []
    for loops in (_kernels, _twins):
        z, r = np.zeros(20), g.copy()
        loops.sweep_into(z, r, H, lasso, 7)
        found.append((z, r))
        assert_allclose(r, g + H @ z, atol=1e-9)
    # the twin leaves out weights that were held at the start of a sweep, so the two agree at the end, not on the way
    for loops in (_kernels, _twins):
        z, r = np.zeros(20), g.copy()
        loops.sweep_into(z, r, H, lasso, 2000)
        found.append((z, r))
    assert_allclose(found[2][0], found[3][0], atol=1e-8)


def test_the_small_lasso_is_solved():
    rng = np.random.default_rng(3)
    A = rng.standard_normal((40, 25)) @ np.diag(np.geomspace(1e-2, 10, 25))  # ill-conditioned
    H, g, w = A.T @ A, 20 * rng.standard_normal(25), rng.standard_normal(25)
    lasso = np.full(25, 2.0)
    z = l1.lasso_of(H, g, w, lasso, _twins.sweep_into, tol=1e-9)
    r = g + H @ (z - w)
    off = np.where(z == 0, np.maximum(np.abs(r) - lasso, 0), np.abs(r + lasso * np.sign(z)))
    assert off.max() <= 1e-9 * np.abs(g).max()
