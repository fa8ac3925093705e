"""TruncatedSVD: the singular vectors of rows as they are, under scikit-learn's names."""

import inspect

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose
from sklearn.datasets import load_digits
from sklearn.decomposition import TruncatedSVD as Theirs
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import check_estimator

from lemmata import TruncatedSVD

STATED = ("singular_values_", "explained_variance_", "explained_variance_ratio_")


@pytest.fixture(scope="module")
def digits():
    return load_digits().data


def wide(density=0.02):
    scale = np.random.default_rng(1).exponential(size=2000)
    return sp.csr_array(
        sp.random_array((300, 2000), density=density, rng=np.random.default_rng(0)) * scale
    )


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
def test_scikit_learns_own_checks_pass():
    check_estimator(TruncatedSVD(1))


def test_parameters_are_those_of_scikit_learn():
    assert str(inspect.signature(TruncatedSVD)) == str(inspect.signature(Theirs))


@pytest.mark.parametrize("algorithm", ["randomized", "arpack"])
@pytest.mark.parametrize("X", [load_digits().data, wide()], ids=["dense", "sparse"])
def test_it_agrees_with_scikit_learn(X, algorithm):
    ours = TruncatedSVD(4, algorithm=algorithm, n_iter=40, random_state=0).fit(X)
    theirs = Theirs(4, algorithm="arpack", random_state=0).fit(X)
    for name in STATED:
        assert_allclose(getattr(ours, name), getattr(theirs, name), rtol=1e-5, err_msg=name)
    assert_allclose(ours.components_, theirs.components_, atol=1e-3)
    Z = ours.transform(X=X[:7])
    assert_allclose(Z, theirs.transform(X[:7]), atol=1e-2 * np.abs(Z).max())
    assert_allclose(ours.inverse_transform(X=Z), Z @ ours.components_)
    assert_allclose(ours.fit_transform(X), X @ ours.components_.T)


def test_the_first_direction_may_be_the_mean_and_variances_are_about_it(digits):
    """An offset of 10⁶: taking its square off afterwards would leave no digit of the variances."""
    X = digits + 1e6
    model = TruncatedSVD(3, algorithm="arpack", random_state=0).fit(X)
    mean = X.mean(axis=0)
    assert model.components_[0] @ mean == pytest.approx(np.linalg.norm(mean))
    assert_allclose(model.explained_variance_[0], model.transform(X)[:, 0].var(), rtol=1e-6)


def test_few_iterations_are_kept_and_no_warning_is_given(digits):
    for asked in (1, 5):
        assert TruncatedSVD(2, n_iter=asked, random_state=0).fit(digits).n_iter_ == asked


def test_claims_hold_and_fail(digits):
    model = TruncatedSVD(5, algorithm="arpack", random_state=0).fit(digits)
    assert model.certificate_.failed == []
    assert "principal_axes" in model.certificate_.held
    assert "affine_part_redundant" not in [claim.name for claim in model.certificate_]
    model.components_ = model.components_[[1, 0, 2, 3, 4]]
    assert {"principal_axes", "statements_true"} <= set(model.certify(digits).failed)
    rough = TruncatedSVD(30, n_iter=0, n_oversamples=1, random_state=0).fit(digits)
    assert "principal_axes" in rough.certificate_.failed


def test_every_container_gives_the_same_fit(digits, tmp_path):
    import dask.array as da

    path = tmp_path / "rows.npy"
    np.save(path, digits)
    expected = TruncatedSVD(3, algorithm="arpack", random_state=0).fit(digits)
    for X in (
        sp.csr_array(digits),
        np.load(path, mmap_mode="r"),
        da.from_array(digits, chunks=(500, 64)),
    ):
        model = TruncatedSVD(3, algorithm="arpack", random_state=0).fit(X)
        assert_allclose(model.components_, expected.components_, atol=1e-8)
        assert_allclose(np.asarray(model.transform(X)), expected.transform(digits), atol=1e-6)


def test_a_weight_counts_its_row_that_many_times(digits):
    X, w = digits[:200], np.arange(200) % 3
    weighted = TruncatedSVD(3, algorithm="arpack", random_state=0).fit(X, sample_weight=w)
    repeated = TruncatedSVD(3, algorithm="arpack", random_state=0).fit(np.repeat(X, w, axis=0))
    for name in STATED:
        assert_allclose(getattr(weighted, name), getattr(repeated, name), rtol=1e-8)
    assert {"statements_true", "principal_axes"} <= set(weighted.certify(X, sample_weight=w).held)


def test_bad_input_gets_one_clear_message(digits):
    with pytest.raises(ValueError, match="n_components=65 exceeds n_features=64"):
        TruncatedSVD(65).fit(digits)
    with pytest.raises(ValueError, match="whose square is 0"):
        TruncatedSVD(2).fit(digits * 5e-324)


def test_an_unfinished_lanczos_warns(digits, monkeypatch):
    monkeypatch.setattr("lemmata.reduction.truncated_svd.MOST_STEPS", 1)
    with pytest.warns(ConvergenceWarning):
        TruncatedSVD(20, algorithm="arpack", random_state=0).fit(digits)
