"""KernelRidge: its normal equations, ridge regression as the linear case, and scikit-learn's."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import kernel_ridge as theirs
from sklearn.linear_model import Ridge
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.pipeline import make_pipeline

from lemmata import KernelRidge, Nystroem
from lemmata.predict.kernel_ridge import FACTORS
from lemmata.predict.kernels import RBF, Linear, Polynomial, feature_map


def data(n=80, d=4, outputs=None, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    Y = np.column_stack(
        [np.sin(X[:, j % d]) + 0.1 * rng.standard_normal(n) for j in range(outputs or 1)]
    )
    return X, Y if outputs else Y[:, 0]


def objective(c, K, y, weights, alpha):
    f = K @ c
    return np.sum(weights * (y - f) ** 2) + alpha * c @ f


@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly", "laplacian", "cosine"])
@pytest.mark.parametrize("weighted", [False, True])
def test_it_is_scikit_learns(kernel, weighted):
    X, Y = data(outputs=3)
    weights = np.random.default_rng(1).random(len(X)) if weighted else None
    settings = {"alpha": [0.1, 1.0, 3.0], "kernel": kernel, "gamma": 0.1}
    ours, peer = (cls(**settings).fit(X, Y, weights) for cls in (KernelRidge, theirs.KernelRidge))
    assert_allclose(ours.predict(X), peer.predict(X), atol=1e-8)
    assert_allclose(ours.dual_coef_, peer.dual_coef_, atol=1e-7)
    assert_array_equal(ours.X_fit_, X)


def test_the_linear_kernel_is_ridge_regression():
    X, Y = data(outputs=2)
    model = KernelRidge(alpha=0.7).fit(X, Y)
    primal = Ridge(alpha=0.7, fit_intercept=False).fit(X, Y)
    assert_allclose(model.predict(X), primal.predict(X), atol=1e-10)
    # the representer theorem: the weights are a combination of the rows
    assert_allclose((X.T @ model.dual_coef_).T, primal.coef_, atol=1e-10)


def test_the_kernel_of_finite_features_is_ridge_regression_on_them():
    X, y = data()
    kernel = Polynomial(degree=2, gamma=0.5) + Linear()
    Phi = feature_map(kernel, X)
    primal = Ridge(alpha=2.0, fit_intercept=False).fit(Phi, y)
    assert_allclose(
        KernelRidge(alpha=2.0, kernel=kernel).fit(X, y).predict(X), primal.predict(Phi), atol=1e-8
    )


def test_the_objective_has_no_slope_at_the_solution_and_is_the_one_in_the_trace():
    X, y = data()
    weights = np.random.default_rng(2).integers(0, 3, len(X)).astype(float)
    model = KernelRidge(alpha=0.3, kernel="rbf").fit(X, y, weights)
    K, c = rbf_kernel(X), model.dual_coef_
    slope = K @ (weights * (K @ c - y) + 0.3 * c)
    assert np.abs(slope).max() < 1e-10
    value = objective(c, K, y, weights, 0.3)
    assert model.trace_.last() == pytest.approx(value, rel=1e-10)
    for seed in range(5):
        other = c + 1e-3 * np.random.default_rng(seed).standard_normal(len(c))
        assert objective(other, K, y, weights, 0.3) > value
    repeated = KernelRidge(alpha=0.3, kernel="rbf").fit(
        np.repeat(X, weights.astype(int), axis=0), np.repeat(y, weights.astype(int))
    )
    assert_allclose(model.predict(X), repeated.predict(X), atol=1e-8)
    assert not model.certify(X, y, weights).failed


def test_a_kernel_that_is_not_positive_semidefinite_is_solved_and_said():
    X, y = data()
    model = KernelRidge(alpha=0.1, kernel="sigmoid", gamma=0.1).fit(X, y)
    K = model.kernel_(X)
    assert np.linalg.eigvalsh(K)[0] < -0.1  # where scikit-learn gives up
    assert_allclose(K @ model.dual_coef_ + 0.1 * model.dual_coef_, y, atol=1e-8)
    assert "mercer" in model.certify(X, y).failed


def test_many_penalties_give_what_each_alone_gives():
    X, Y = data(outputs=FACTORS + 3)
    alphas = np.geomspace(1e-3, 10, FACTORS + 3)
    together = KernelRidge(alpha=alphas, kernel="rbf").fit(X, Y)
    for j, alpha in enumerate(alphas):
        alone = KernelRidge(alpha=alpha, kernel="rbf").fit(X, Y[:, j])
        assert_allclose(together.predict(X)[:, j], alone.predict(X), atol=1e-9)


def test_without_a_penalty_the_rows_are_interpolated_or_projected_on():
    X, y = data(40)
    assert_allclose(
        KernelRidge(alpha=0, kernel="rbf", gamma=2.0).fit(X, y).predict(X), y, atol=1e-6
    )
    twice = np.vstack([X, X])  # K is singular
    halves = np.concatenate([y, y + 1])
    found = KernelRidge(alpha=0.0).fit(twice, halves).predict(X)
    assert_allclose(found, X @ np.linalg.lstsq(twice, halves)[0], atol=1e-8)


def test_sparse_rows_objects_functions_and_matrices_give_one_fit():
    X, y = data()
    X = np.where(X > 0.3, X, 0.0)
    plain = KernelRidge(kernel="rbf", gamma=0.4).fit(X, y).predict(X)
    sparse = KernelRidge(kernel="rbf", gamma=0.4).fit(sp.csr_array(X), y)
    assert_allclose(sparse.predict(sp.csr_array(X)), plain, atol=1e-10)
    assert_allclose(KernelRidge(kernel=RBF(0.4)).fit(X, y).predict(X), plain, atol=1e-12)
    by_rows = KernelRidge(
        kernel=lambda a, b, g: np.exp(-g * ((a - b) ** 2).sum()), kernel_params={"g": 0.4}
    )
    assert_allclose(by_rows.fit(X, y).predict(X), plain, atol=1e-10)
    K = rbf_kernel(X, gamma=0.4)
    assert_allclose(KernelRidge(kernel="precomputed").fit(K, y).predict(K), plain, atol=1e-10)


def test_nystroem_with_all_rows_as_landmarks_is_kernel_ridge():
    X, y = data(60)
    near = make_pipeline(
        Nystroem(gamma=0.5, n_components=60, random_state=0), Ridge(alpha=0.1, fit_intercept=False)
    )
    exact = KernelRidge(alpha=0.1, kernel="rbf", gamma=0.5)
    assert_allclose(near.fit(X, y).predict(X), exact.fit(X, y).predict(X), atol=1e-6)


def test_too_many_rows_are_refused_before_anything_is_computed(monkeypatch):
    X, y = data()
    monkeypatch.setattr("lemmata.predict.kernels.tiles.memory", lambda: 1000.0)
    with pytest.raises(MemoryError, match=r"Nystroem\(n_components=…\), Ridge\(\)"):
        KernelRidge().fit(X, y)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"alpha": [1.0, -1.0]}, "pass numbers >= 0"),
        ({"alpha": [1.0, 1.0, 1.0]}, r"alpha has shape \(3,\) and y 2 output"),
        ({"kernel": RBF(1.0), "gamma": 2.0}, "given twice"),
        ({"kernel": "poly", "degree": 2.5}, "whole degree"),
        ({"kernel": "precomputed"}, "must be a square matrix"),
        ({"kernel": "poly", "gamma": 1e200}, "gives numbers beyond float64"),
    ],
)
def test_bad_settings_get_one_clear_sentence(settings, message):
    with pytest.raises(ValueError, match=message):
        KernelRidge(**settings).fit(*data(outputs=2))
