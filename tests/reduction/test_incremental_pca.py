"""IncrementalPCA: exact whatever the batches, under scikit-learn's names."""

import inspect

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA as SklearnPCA
from sklearn.decomposition import IncrementalPCA as Theirs
from sklearn.utils.estimator_checks import check_estimator

from lemmata import IncrementalPCA
from lemmata.reduction import incremental_pca

SHARED = ("components_", "explained_variance_", "explained_variance_ratio_", "singular_values_", "mean_")  # fmt: skip


@pytest.fixture(scope="module")
def digits():
    return load_digits().data


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
def test_scikit_learns_own_checks_pass():
    check_estimator(IncrementalPCA(1))


def test_parameters_are_those_of_scikit_learn():
    assert str(inspect.signature(IncrementalPCA)) == str(inspect.signature(Theirs))


@pytest.mark.parametrize("batch_size", [None, 7, 500])
def test_fit_is_the_exact_pca_whatever_the_batches(digits, batch_size):
    ours = IncrementalPCA(6, batch_size=batch_size).fit(digits)
    exact = SklearnPCA(6, svd_solver="full").fit(digits)
    for name in (*SHARED, "noise_variance_"):
        assert_allclose(getattr(ours, name), getattr(exact, name), rtol=1e-8, atol=1e-10)
    assert_allclose(ours.var_, digits.var(axis=0), atol=1e-12)
    assert ours.n_samples_seen_ == len(digits)
    assert ours.batch_size_ == (320 if batch_size is None else batch_size)


def test_with_every_component_it_agrees_with_scikit_learn():
    """Nothing is forgotten there, so that theirs is exact too."""
    X = np.random.default_rng(0).standard_normal((90, 5)) * np.arange(5, 0, -1) + 3
    ours, theirs = IncrementalPCA(batch_size=30).fit(X), Theirs(batch_size=30).fit(X)
    for name in (*SHARED, "var_", "n_samples_seen_", "n_components_", "batch_size_"):
        assert_allclose(getattr(ours, name), getattr(theirs, name), atol=1e-9, err_msg=name)
    assert_allclose(ours.get_covariance(), theirs.get_covariance(), atol=1e-9)
    assert_allclose(ours.get_precision(), theirs.get_precision(), atol=1e-9)
    assert_allclose(ours.transform(X[:4]), theirs.transform(X[:4]), atol=1e-9)


def test_batches_go_on_from_a_fit_and_from_each_other(digits):
    parts = np.array_split(digits, 5)
    model = IncrementalPCA(4, whiten=True).fit(np.concatenate(parts[:2]))
    for part in parts[2:]:
        model.partial_fit(part, check_input=False)
    whole = IncrementalPCA(4, whiten=True).fit(digits)
    assert_allclose(model.components_, whole.components_, atol=1e-9)
    assert_allclose(model.transform(digits).var(axis=0, ddof=1), 1, rtol=1e-9)
    assert model.n_samples_seen_ == 1797
    assert model.certify(digits).failed == []


def test_sparse_rows_are_taken_in_fit_and_in_batches(digits):
    X = sp.csr_array(digits)
    whole = IncrementalPCA(3).fit(digits).components_
    assert_allclose(IncrementalPCA(3, batch_size=100).fit(X).components_, whole, atol=1e-9)
    assert_allclose(IncrementalPCA(3).partial_fit(X).components_, whole, atol=1e-9)


def test_theirs_forgets_and_the_certificate_says_so(digits):
    from lemmata import certify

    found = certify(Theirs(4, batch_size=20).fit(digits), digits)
    assert "statements_true" in found.failed
    assert IncrementalPCA(4, batch_size=20).fit(digits).certificate_.failed == []


def test_weights_are_repetitions_and_have_to_add_up_to_more_than_one_row(digits):
    X, w = digits[:300], np.arange(300) % 4
    weighted = IncrementalPCA(3).partial_fit(X[:100], sample_weight=w[:100])
    weighted.partial_fit(X[100:], sample_weight=w[100:])
    repeated = IncrementalPCA(3).fit(np.repeat(X, w, axis=0))
    assert_allclose(weighted.explained_variance_, repeated.explained_variance_)
    assert_allclose(weighted.var_, repeated.var_, atol=1e-10)
    for fit in (IncrementalPCA(2).fit, IncrementalPCA(2).partial_fit):
        with pytest.raises(ValueError, match="they count rows, and a variance needs more than one"):
            assert fit(X, sample_weight=np.full(300, 1 / 300)).components_ is None


def test_too_many_features_are_refused_before_their_square_is_made(monkeypatch):
    monkeypatch.setattr(incremental_pca, "MOST_FEATURES", 50)
    for fit in (IncrementalPCA(2).fit, IncrementalPCA(2).partial_fit):
        with pytest.raises(ValueError, match=r"up to 50 features, PCA\(svd_solver='arpack'\)"):
            fit(np.ones((3, 64)))
