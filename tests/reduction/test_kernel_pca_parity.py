"""Changing the import is enough: scikit-learn's parameters, kernels and numbers of KernelPCA."""

import inspect

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_digits
from sklearn.decomposition import KernelPCA as SklearnKernelPCA
from sklearn.metrics.pairwise import pairwise_kernels

from lemmata import KernelPCA
from lemmata.predict.kernels import RBF, Cosine, Precomputed, Sigmoid


@pytest.fixture(scope="module")
def rows():
    return load_digits().data[:150] / 16


def test_every_parameter_of_scikit_learn_is_taken_in_its_order():
    theirs, ours = SklearnKernelPCA().get_params(), KernelPCA().get_params()
    names = list(inspect.signature(SklearnKernelPCA).parameters)
    assert list(inspect.signature(KernelPCA).parameters)[: len(names)] == names
    assert {name: ours[name] for name in theirs} == theirs


@pytest.mark.parametrize("solver", ["dense", "arpack", "randomized"])
@pytest.mark.parametrize(
    ("kernel", "parameters"),
    [
        ("linear", {}),
        ("poly", {"degree": 2, "gamma": 0.1}),
        ("rbf", {"gamma": 0.1}),
        ("cosine", {}),
        ("sigmoid", {"gamma": 0.01, "coef0": 0.1}),
    ],
)
def test_its_kernels_and_solvers_give_its_numbers(rows, kernel, parameters, solver):
    common = {"n_components": 3, "kernel": kernel, **parameters}
    ours = KernelPCA(eigen_solver=solver, iterated_power=30, random_state=0, **common).fit(rows)
    theirs = SklearnKernelPCA(eigen_solver="dense", **common).fit(rows)
    assert_allclose(ours.eigenvalues_, theirs.eigenvalues_, rtol=1e-6)
    assert_allclose(np.abs(ours.eigenvectors_), np.abs(theirs.eigenvectors_), atol=1e-4)
    Z = ours.transform(rows[:9])
    assert_allclose(np.abs(Z), np.abs(theirs.transform(rows[:9])), atol=1e-3)
    assert ours.gamma_ == pytest.approx(theirs.gamma_)


@pytest.mark.parametrize("kernel", ["precomputed", Precomputed()])
@pytest.mark.parametrize("solver", ["dense", "arpack"])
def test_a_precomputed_matrix_gives_what_its_kernel_gives(rows, kernel, solver):
    new, old = rows[100:], rows[:100]
    K = pairwise_kernels(old, metric="rbf", gamma=0.1)
    before = K.copy()
    given = KernelPCA(3, kernel=kernel, eigen_solver=solver, random_state=0).fit(K)
    usual = KernelPCA(3, kernel=RBF(0.1), eigen_solver=solver, random_state=0).fit(old)
    assert_allclose(given.eigenvalues_, usual.eigenvalues_, rtol=1e-9)
    across = pairwise_kernels(new, old, metric="rbf", gamma=0.1)
    assert_allclose(np.abs(given.transform(across)), np.abs(usual.transform(new)), atol=1e-7)
    assert_array_equal(K, before)
    assert given.certificate_.failed == usual.certificate_.failed
    assert {"principal_axes", "statements_true", "positive_semidefinite"} <= set(
        given.certify(K).held
    )


def test_a_precomputed_matrix_is_weighted_and_stored(rows, tmp_path):
    import lemmata

    K, w = rows @ rows.T, np.arange(150) % 3
    weighted = KernelPCA(2, kernel="precomputed").fit(K, sample_weight=w)
    again = np.repeat(np.arange(150), w)
    repeated = KernelPCA(2, kernel="precomputed").fit(K[np.ix_(again, again)])
    assert_allclose(weighted.eigenvalues_, repeated.eigenvalues_, rtol=1e-9)
    lemmata.save(weighted, tmp_path / "m.lemma")
    assert_array_equal(lemmata.load(tmp_path / "m.lemma").transform(K), weighted.transform(K))


def test_a_matrix_that_is_no_kernel_matrix_is_refused(rows):
    K = rows @ rows.T
    model = KernelPCA(2, kernel="precomputed")
    with pytest.raises(ValueError, match="as many rows as columns"):
        model.fit(K[:100])
    with pytest.raises(ValueError, match="not symmetric"):
        model.fit(K + np.triu(np.ones(K.shape)))
    with pytest.raises(ValueError, match="knows none"):
        KernelPCA(2, kernel="precomputed", fit_inverse_transform=True).fit(K)
    with pytest.raises(ValueError, match="150 features"):
        model.fit(K).transform(K[:5, :9])
    assert model.__sklearn_tags__().input_tags.pairwise


def test_a_false_precomputed_spectrum_fails_its_claims(rows):
    K = rows @ rows.T
    model = KernelPCA(3, kernel="precomputed").fit(K)
    model.eigenvalues_ = model.eigenvalues_ * 1.1
    assert "statements_true" in model.certify(K).failed
    indefinite = pairwise_kernels(rows, metric="sigmoid", gamma=1.0, coef0=-1)
    found = KernelPCA(3, kernel="precomputed").fit(indefinite).certificate_
    assert "positive_semidefinite" in found.failed


@pytest.mark.parametrize("kernel", [Cosine() + RBF(0.1), 0.5 * Sigmoid(0.01)])
def test_new_kernels_are_parts_of_others_and_certified(rows, kernel):
    found = KernelPCA(2, kernel=kernel).fit(rows).certificate_
    assert {"principal_axes", "statements_true", "uncorrelated"} <= set(found.held)


def test_a_row_of_zeros_has_no_direction(rows):
    X = rows.copy()
    X[3] = 0
    assert_allclose(Cosine()(X), pairwise_kernels(X, metric="cosine"), atol=1e-14)
    assert_allclose(Cosine()(X * 1e-200), pairwise_kernels(X, metric="cosine"), atol=1e-14)
    assert_allclose(np.diagonal(Cosine()(X)), Cosine().diagonal(X), atol=1e-14)


def test_without_a_copy_the_rows_are_kept_themselves(rows):
    assert KernelPCA(2, copy_X=False).fit(rows).X_fit_ is rows
    assert KernelPCA(2).fit(rows).X_fit_ is not rows


def test_rows_whose_products_vanish_are_refused(rows):
    for kernel in ("linear", "rbf", "poly"):
        with pytest.raises(ValueError, match="sees no difference between the rows"):
            KernelPCA(2, kernel=kernel).fit(rows * 5e-324)


def test_pre_images_take_scikit_learns_keyword(rows):
    model = KernelPCA(5, kernel="rbf", gamma=0.1, fit_inverse_transform=True, alpha=1e-3).fit(rows)
    theirs = SklearnKernelPCA(
        5, kernel="rbf", gamma=0.1, fit_inverse_transform=True, alpha=1e-3
    ).fit(rows)
    Z = theirs.transform(rows[:5])
    flips = np.sign(np.sum(model.transform(rows[:5]) * Z, axis=0))
    assert_allclose(model.inverse_transform(X=Z * flips), theirs.inverse_transform(Z), atol=1e-6)
