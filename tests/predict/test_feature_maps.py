"""Features against the kernels whose inner products they are: exact, and how near."""

import math

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.kernel_approximation import Nystroem as TheirNystroem

from lemmata import Nystroem, RBFSampler
from lemmata.core import rounding
from lemmata.predict.kernels import (
    RBF,
    Constant,
    Cosine,
    Laplacian,
    Linear,
    Polynomial,
    Sigmoid,
    feature_map,
    kernel_error,
    n_features,
)

FINITE = [
    Linear(),
    Constant(2.5),
    Cosine(),
    Polynomial(degree=1, gamma=0.5, coef0=0.0),
    Polynomial(degree=3, gamma=0.7, coef0=1.5),
    Polynomial(degree=4, gamma=0.3, coef0=0.0),
    Polynomial(degree=2, gamma="scale"),
    2 * Linear() + Polynomial(degree=2),
    Polynomial(degree=2, coef0=0.5) * (Linear() + 3),
]


def rows(n=30, d=3, seed=0):
    return np.random.default_rng(seed).standard_normal((n, d))


# --- exact ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", FINITE, ids=repr)
@settings(max_examples=15)
@given(n=st.integers(1, 8), d=st.integers(1, 4), seed=st.integers(0, 10**6))
def test_the_inner_products_of_the_features_are_the_kernel(kernel, n, d, seed):
    X = rows(n, d, seed)
    Phi, K = feature_map(kernel, X), kernel(X)
    assert Phi.shape == (n, n_features(kernel.fitted(X), d))
    scale = math.sqrt(np.abs(np.diag(K)).max() * np.abs(np.diag(K)).max())
    assert_allclose(Phi @ Phi.T, K, atol=10 * rounding(float, Phi.shape[1]) * scale + 1e-300)


def test_sparse_and_float32_rows_have_features_too():
    X = np.where(rows() > 0, rows(), 0.0)
    kernel = Polynomial(degree=2, gamma=0.5)
    assert_allclose(feature_map(kernel, sp.csr_array(X)), feature_map(kernel, X))
    assert feature_map(kernel, X.astype(np.float32)).dtype == np.float32


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (RBF(1.0), "RBF has no finite features"),
        (Laplacian(1.0) + Linear(), "Laplacian has no finite features"),
        (Sigmoid(1.0), "Sigmoid has no finite features"),
        (Polynomial(2, 1.0, -1.0), "not positive semidefinite"),
    ],
)
def test_kernels_without_finite_features_are_refused(kernel, message):
    with pytest.raises(ValueError, match=message):
        feature_map(kernel, rows())


def test_features_beyond_memory_are_refused():
    with pytest.raises(MemoryError, match="features of 200 columns"):
        feature_map(Polynomial(degree=8), np.ones((10, 200)))


# --- Nyström ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", ["rbf", "laplacian", "poly", RBF(0.3) + Linear()])
@pytest.mark.parametrize("sparse", [False, True])
def test_nystroem_is_exact_between_landmarks_and_never_above_the_kernel(kernel, sparse):
    X = rows(120, 4)
    X = sp.csr_array(np.maximum(X, 0)) if sparse else X
    model = Nystroem(kernel, n_components=25, random_state=0).fit(X)
    Z, K = model.transform(X), model.kernel_(X)
    chosen = model.component_indices_
    assert len(set(chosen)) == 25
    assert_allclose(
        (Z @ Z.T)[np.ix_(chosen, chosen)], K[np.ix_(chosen, chosen)], atol=1e-7 * K.max()
    )
    left = np.linalg.eigvalsh(K - Z @ Z.T)
    assert left[0] >= -1e-7 * K.max()
    error = kernel_error(model.kernel_, X, Z)
    assert left[-1] <= error.trace * np.trace(K) * (1 + 1e-9)
    assert error.frobenius == pytest.approx(np.linalg.norm(K - Z @ Z.T) / np.linalg.norm(K))
    assert error.largest == pytest.approx(np.abs(K - Z @ Z.T).max())
    assert "attributes_sound" not in model.certify(X).failed


def test_the_same_landmarks_give_scikit_learns_features():
    X = rows(60)
    model = Nystroem(gamma=0.5, n_components=60, random_state=0).fit(X)
    peer = TheirNystroem(gamma=0.5, n_components=60, random_state=0).fit(X)
    assert_allclose(
        model.transform(X) @ model.transform(X).T,
        peer.transform(X) @ peer.transform(X).T,
        atol=1e-5,
    )
    assert model.get_feature_names_out()[0] == "nystroem0"


def test_more_landmarks_come_nearer():
    X = rows(300, 5)
    errors = [
        kernel_error(
            RBF(0.2), X, Nystroem(gamma=0.2, n_components=q, random_state=0).fit_transform(X)
        ).frobenius
        for q in (5, 30, 150, 300)
    ]
    assert sorted(errors, reverse=True) == errors
    assert errors[-1] < 1e-6


def test_copies_of_rows_as_landmarks_do_no_harm():
    X = np.repeat(rows(10), 5, axis=0)
    Z = Nystroem(gamma=0.5, n_components=50, random_state=0).fit_transform(X)
    assert_allclose(Z @ Z.T, RBF(0.5)(X), atol=1e-6)


def test_rows_without_weight_are_no_landmarks_and_blocks_equal_the_whole():
    X, weights = rows(100), (np.arange(100) % 3 == 0).astype(float)
    model = Nystroem(n_components=1000, random_state=0).fit(X, sample_weight=weights)
    assert_array_equal(np.sort(model.component_indices_), np.flatnonzero(weights))
    blocks = Nystroem(n_components=20, random_state=0).fit([X[:40], X[40:]])
    assert_allclose(
        blocks.components_, Nystroem(n_components=20, random_state=0).fit(X).components_
    )


# --- random features --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("D", [200, 5000])
def test_random_features_are_as_near_as_hoeffding_says(D):
    X = rows(40, 3)
    Z = RBFSampler(gamma=0.5, n_components=D, random_state=0).fit_transform(X)
    pairs = len(X) * (len(X) + 1) / 2
    # P(any pair off by more than ε) ≤ pairs · 2exp(−Dε²/8) = 1e-6
    epsilon = math.sqrt(8 * math.log(2 * pairs / 1e-6) / D)
    assert kernel_error(RBF(0.5), X, Z).largest <= epsilon


def test_the_scale_is_that_of_the_rows_and_float32_stays():
    X = 3 * rows(50, 4)
    model = RBFSampler(gamma="scale", n_components=50, random_state=0).fit(X.astype(np.float32))
    assert model.gamma_ == pytest.approx(1 / (4 * X.var()), rel=1e-5)
    assert model.transform(X.astype(np.float32)).dtype == np.float32
    sparse = model.transform(sp.csr_array(X.astype(np.float32)))
    assert_allclose(sparse, model.transform(X.astype(np.float32)), atol=1e-5)


def test_bad_settings_get_one_clear_sentence():
    with pytest.raises(ValueError, match="knows no rows to draw"):
        Nystroem("precomputed").fit(np.eye(4))
    with pytest.raises(ValueError, match="'n_components' parameter"):
        Nystroem(n_components=0).fit(rows())
    with pytest.raises(ValueError, match="'gamma' parameter"):
        RBFSampler(gamma=-1.0).fit(rows())
    with pytest.raises(ValueError, match="30 rows and the features 20"):
        kernel_error(Linear(), rows(), rows(20))
