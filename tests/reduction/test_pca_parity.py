"""Changing the import is enough: scikit-learn's parameters, words and numbers."""

import inspect

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA as SklearnPCA

from lemmata import PCA
from lemmata.reduction.dimension import _evidence, most_likely_dimension


@pytest.fixture(scope="module")
def digits():
    return load_digits().data


def test_every_parameter_of_scikit_learn_is_taken_in_its_order():
    theirs = list(inspect.signature(SklearnPCA).parameters)
    assert list(inspect.signature(PCA).parameters)[: len(theirs)] == theirs
    defaults = SklearnPCA().get_params()
    different = {
        name for name, value in PCA().get_params().items() if defaults.get(name, value) != value
    }
    assert different == {"tol"}


@pytest.mark.parametrize(
    "parameters",
    [
        {"svd_solver": "full"},
        {"svd_solver": "covariance_eigh", "copy": False},
        {"svd_solver": "arpack", "tol": 0.0},
        {"svd_solver": "randomized", "tol": 0.0, "iterated_power": 12, "n_oversamples": 15},
        {"svd_solver": "randomized", "iterated_power": 20, "power_iteration_normalizer": "LU"},
    ],
    ids=lambda parameters: " ".join(map(str, parameters.values())),
)
def test_its_words_for_solvers_give_its_numbers(digits, parameters):
    parameters = {"n_components": 7, "random_state": 0, **parameters}
    before = digits.copy()
    ours, theirs = PCA(**parameters).fit(digits), SklearnPCA(7, svd_solver="full").fit(digits)
    assert_allclose(ours.components_, theirs.components_, atol=2e-5)
    for name in (
        "explained_variance_",
        "explained_variance_ratio_",
        "singular_values_",
        "noise_variance_",
    ):
        assert_allclose(getattr(ours, name), getattr(theirs, name), rtol=1e-7)
    assert_allclose(ours.get_covariance(), theirs.get_covariance(), atol=1e-4)
    assert_allclose(ours.get_precision(), theirs.get_precision(), atol=1e-4)
    assert ours.score(digits) == pytest.approx(theirs.score(digits), rel=1e-6)
    Z = ours.transform(X=digits[:5])
    assert_allclose(
        ours.inverse_transform(X=Z),
        theirs.inverse_transform(theirs.transform(digits[:5])),
        atol=1e-3,
    )
    assert (digits == before).all()


def test_a_number_of_power_iterations_is_kept_without_a_warning(digits):
    for asked, made in ((0, 1), (3, 3), ("auto", 7)):
        model = PCA(3, svd_solver="randomized", iterated_power=asked, tol=0.0, random_state=0)
        assert model.fit(digits).n_iter_ == made


def test_arpack_with_the_tolerance_of_scikit_learn_goes_to_rounding():
    X = sp.random_array((400, 1500), density=0.05, rng=np.random.default_rng(0), format="csr")
    ours = PCA(5, svd_solver="arpack", tol=0.0, random_state=0).fit(X)
    theirs = SklearnPCA(5, svd_solver="arpack", random_state=0).fit(X)
    assert ours.stopped_ == "finished"
    assert_allclose(ours.components_, theirs.components_, atol=1e-9)


@pytest.mark.parametrize("whiten", [False, True])
def test_the_density_does_not_depend_on_whitening(digits, whiten):
    """scikit-learn scales its axes a second time if whiten=True: its covariance is then not one of the rows."""
    model = PCA(5, whiten=whiten).fit(digits)
    plain = SklearnPCA(5).fit(digits)
    assert_allclose(model.get_covariance(), plain.get_covariance(), atol=1e-9)
    assert model.score(digits) == pytest.approx(plain.score(digits))
    assert_allclose(model.get_precision() @ model.get_covariance(), np.eye(64), atol=1e-9)


def test_all_components_have_a_precision_too():
    X = np.random.default_rng(0).standard_normal((80, 6))
    assert_allclose(PCA().fit(X).get_precision(), np.linalg.inv(np.cov(X.T)), atol=1e-9)


# --- how many components ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("solver", ["auto", "full", "covariance_eigh"])
def test_the_most_likely_dimension_is_that_of_scikit_learn(seed, solver):
    rng = np.random.default_rng(seed)
    k = 2 + seed
    X = 3 * rng.standard_normal((120, k)) @ rng.standard_normal((k, 15)) + rng.standard_normal(
        (120, 15)
    )
    ours, theirs = PCA("mle", svd_solver=solver).fit(X), SklearnPCA("mle", svd_solver="full").fit(X)
    assert ours.n_components_ == theirs.n_components_ == k
    assert_allclose(ours.components_, theirs.components_, atol=1e-9)


def test_the_evidence_is_that_of_its_formula():
    from sklearn.decomposition._pca import _assess_dimension

    variances, n = np.geomspace(9, 0.01, 12), 77
    expected = [_assess_dimension(variances, k, n) for k in range(1, 12)]
    assert_allclose(_evidence(variances, n), expected, rtol=1e-12)


def test_the_most_likely_dimension_has_no_unit_and_survives_equal_variances():
    variances = np.append(np.geomspace(50, 20, 3), np.ones(6))
    for unit in (1e-200, 1.0, 1e200):
        assert most_likely_dimension(variances * unit, 400) == 3
    assert most_likely_dimension(np.append(variances, np.zeros(3)), 400) == 9


def test_the_most_likely_dimension_needs_rows_and_a_whole_spectrum(digits):
    with pytest.raises(ValueError, match="as many rows as features, and these are 50 × 64"):
        PCA("mle").fit(digits[:50])
    with pytest.raises(ValueError, match="whole spectrum"):
        PCA("mle", svd_solver="arpack").fit(digits)


# --- weights are repetitions, numbers may vanish ----------------------------------------------------------------------


def test_every_statement_about_weighted_rows_is_that_about_repeated_ones():
    """Also where there are fewer rows than features, but more repetitions."""
    rng = np.random.default_rng(4)
    X, w = rng.standard_normal((8, 10)), rng.integers(0, 5, 8)
    weighted, repeated = PCA(3).fit(X, sample_weight=w), PCA(3).fit(np.repeat(X, w, axis=0))
    for name in ("explained_variance_", "singular_values_", "mean_", "noise_variance_"):
        assert_allclose(getattr(weighted, name), getattr(repeated, name), rtol=1e-9, err_msg=name)
    assert "statements_true" in weighted.certify(X, sample_weight=w).held
    weighted.noise_variance_ *= 1.1
    assert "statements_true" in weighted.certify(X, sample_weight=w).failed


def test_a_weighted_score_is_that_of_repeated_rows(digits):
    model, w = PCA(5).fit(digits), np.arange(len(digits)) % 3
    expected = model.score(np.repeat(digits, w, axis=0))
    assert model.score(digits, sample_weight=w) == pytest.approx(expected)


@pytest.mark.parametrize("solver", ["auto", "full", "arpack"])
def test_rows_whose_squares_vanish_are_refused(digits, solver):
    with pytest.raises(ValueError, match="whose square is 0 in float64: divide X by its largest"):
        PCA(3, svd_solver=solver).fit(digits * 5e-324)
    with pytest.raises(ValueError, match="whose square is 0"):
        PCA(3).fit(sp.csr_array(digits * 5e-324))
    small = PCA(3, svd_solver=solver, random_state=0).fit(digits * 1e-150)
    assert_allclose(
        small.explained_variance_ratio_, PCA(3).fit(digits).explained_variance_ratio_, rtol=1e-5
    )
