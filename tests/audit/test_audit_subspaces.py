"""Each claim about a principal subspace holds where it should and fails where it should, on our fits and scikit-learn's."""

import copy

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.linalg import subspace_angles
from scipy.stats import ortho_group
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA as SklearnPCA
from sklearn.decomposition import IncrementalPCA, TruncatedSVD

from lemmata import PCA, NotCertified, certify
from lemmata.audit.subspaces import SUBSPACE_CLAIMS

NAMES = [statement.name for statement in SUBSPACE_CLAIMS]


@pytest.fixture(scope="module")
def digits():
    return load_digits().data


def broken(model, **changes):
    model = copy.deepcopy(model)
    for name, value in changes.items():
        setattr(model, name, value)
    return model


def fits(X):
    yield PCA(10).fit(X)
    yield SklearnPCA(10).fit(X)
    yield SklearnPCA(10, svd_solver="covariance_eigh").fit(X.astype(np.float32))


def test_healthy_fits_keep_every_promise(digits):
    for model in fits(digits):
        assert certify(model, digits).held == NAMES, type(model)


def test_a_rotated_basis_is_no_longer_principal_but_spans_the_same(digits):
    turn = ortho_group.rvs(10, random_state=0)
    for model in fits(digits):
        found = certify(
            broken(model, components_=(turn @ model.components_).astype(model.components_.dtype)),
            digits,
        )
        assert "principal_axes" in found.failed
        assert {"orthonormal_basis", "most_variance"} <= set(found.held)


def test_a_wrong_mean_is_noticed(digits):
    for model in fits(digits):
        found = certify(broken(model, mean_=model.mean_ + 1), digits)
        assert {"affine_part_redundant", "error_is_spectral_tail"} <= set(found.failed)


def test_a_stretched_basis_is_not_orthonormal(digits):
    for model in fits(digits):
        found = certify(broken(model, components_=model.components_ * 1.01), digits)
        assert "orthonormal_basis" in found.failed
        with pytest.raises(NotCertified, match="orthonormal_basis"):
            found.require("orthonormal_basis")


def test_wrong_singular_values_do_not_match_the_error(digits):
    for model in fits(digits):
        found = certify(broken(model, singular_values_=model.singular_values_ * 1.01), digits)
        assert found.failed == ["error_is_spectral_tail"]


def test_an_unconverged_fit_keeps_less_variance(digits):
    """One pass of scikit-learn's randomized solver with hardly any oversampling, on a flat spectrum, is not there yet."""
    X = np.random.default_rng(0).standard_normal((500, 200))
    hasty = SklearnPCA(
        10, svd_solver="randomized", iterated_power=0, n_oversamples=1, random_state=0
    ).fit(X)
    found = certify(hasty, X)
    assert {"most_variance", "principal_axes"} <= set(found.failed)
    assert "orthonormal_basis" in found.held


def test_trailing_directions_do_not_beat_a_random_basis(digits):
    full = PCA(64).fit(digits)
    trailing = broken(
        full, components_=full.components_[-10:], singular_values_=full.singular_values_[-10:]
    )
    found = certify(trailing, digits)
    assert {"beats_random_basis", "most_variance"} <= set(found.failed)


def test_isotropic_data_determines_no_subspace():
    X = np.random.default_rng(0).standard_normal((400, 30))
    assert "subspace_determined" in certify(PCA(5).fit(X), X).failed
    assert "subspace_determined" in certify(SklearnPCA(5).fit(X), X).failed


def test_truncated_svd_without_centring_fails_the_affine_claim_and_centred_data_mends_it(digits):
    assert (
        "affine_part_redundant"
        in certify(TruncatedSVD(5, random_state=0).fit(digits), digits).failed
    )
    centred = digits - digits.mean(axis=0)
    assert (
        certify(TruncatedSVD(5, algorithm="arpack", random_state=0).fit(centred), centred).failed
        == []
    )


def test_incremental_pca_is_certified_and_its_approximation_shows(digits):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((600, 50))
    rough = certify(IncrementalPCA(5, batch_size=10).fit(X), X)
    assert "most_variance" in rough.failed
    assert "orthonormal_basis" in rough.held


def test_sparse_and_streamed_data_are_audited_like_dense_data(digits):
    model = SklearnPCA(8).fit(digits)
    dense, sparse = certify(model, digits), certify(model, sp.csr_array(digits))
    streamed = certify(model, [digits[:500], digits[500:]])
    for a, b, c in zip(dense, sparse, streamed, strict=True):
        assert a.verdict == b.verdict == c.verdict
        # those measure rounding
        if a.name not in (
            "error_is_spectral_tail",
            "affine_part_redundant",
            "principal_axes",
        ):
            assert (
                a.measured
                == pytest.approx(b.measured, rel=1e-6)
                == pytest.approx(c.measured, rel=1e-6)
            )


def test_the_audit_of_many_features_agrees_with_that_of_few(monkeypatch, digits):
    """ARPACK on products (the path for large d) against the whole spectrum."""
    model = PCA(6).fit(digits)
    whole = certify(model, digits)
    monkeypatch.setattr("lemmata.audit.subspaces.DENSE_SPECTRUM", 10)
    for data in (digits, sp.csr_array(digits)):
        part = certify(model, data)
        assert part.failed == []
        # it needs more of the spectrum here
        assert set(whole.held) - set(part.held) <= {"subspace_determined"}
        assert part["most_variance"].measured == pytest.approx(
            whole["most_variance"].measured, rel=1e-6
        )


def test_bounds_on_the_angle_enclose_it(digits):
    """With part of the spectrum the angle lies between the two bounds; with all of it they coincide."""
    from lemmata.audit.subspaces import Audit, _sampling_angles

    values = np.sort(np.random.default_rng(0).exponential(size=30))[::-1]

    def facts(known):
        return Audit(500, np.zeros(30), values.sum(), 0.0, values[:4], values[:4], values[:known])

    low, high = _sampling_angles(facts(30), 4)
    assert low == pytest.approx(high)
    least, most = _sampling_angles(facts(5), 4)
    assert least <= low <= most
    assert least < most


def test_the_expected_angle_is_what_sampling_does():
    """On planted Gaussian data the root mean square of the true sine is the promised one, within 25 %."""
    d, k, n, repeats = 20, 3, 2000, 40
    deviations = np.r_[3.0, 2.5, 2.0, np.linspace(1.2, 0.5, d - k)]
    sines, promised = [], []
    for seed in range(repeats):
        X = np.random.default_rng(seed).standard_normal((n, d)) * deviations
        model = PCA(k).fit(X)
        sines.append(np.linalg.norm(np.sin(subspace_angles(model.components_.T, np.eye(d)[:, :k]))))
        promised.append(np.sin(np.radians(certify(model, X)["subspace_determined"].measured)))
    ratio = np.sqrt(np.mean(np.square(sines)) / np.mean(np.square(promised)))
    assert 0.75 < ratio < 1.25


@pytest.mark.parametrize("gap", [0.02, 3.0])
def test_the_verdict_on_the_subspace_is_rarely_wrong(gap):
    """Planted gap small: never called determined. Large: always, and then the true angle is indeed below 30 degrees."""
    n, d, k = 300, 15, 2
    scales = np.sqrt(np.r_[[1 + gap] * k, np.ones(d - k)])
    verdicts, angles = [], []
    for seed in range(20):
        X = np.random.default_rng(seed).standard_normal((n, d)) * scales
        model = PCA(k).fit(X)
        verdicts.append(certify(model, X)["subspace_determined"].verdict)
        angles.append(np.degrees(subspace_angles(model.components_.T, np.eye(d)[:, :k]).max()))
    if gap < 1:
        assert verdicts.count("holds") == 0
        assert np.median(angles) > 30
    else:
        assert verdicts.count("fails") == 0
        assert max(angles) < 30


def test_unknown_estimators_are_refused_with_a_list():
    from sklearn.cluster import DBSCAN
    from sklearn.exceptions import NotFittedError

    with pytest.raises(
        TypeError, match=r"no claims about a sklearn.cluster.*sklearn.decomposition.PCA"
    ):
        certify(DBSCAN().fit(np.ones((5, 2))), np.ones((5, 2)))
    with pytest.raises(NotFittedError):
        certify(SklearnPCA(2), np.ones((5, 2)))
    with pytest.raises(ValueError, match="features"):
        certify(SklearnPCA(1).fit(np.eye(4)), np.eye(3))


def test_whole_space_is_trivially_determined():
    X = np.random.default_rng(0).standard_normal((50, 4))
    assert certify(PCA(4).fit(X), X).failed == []


def test_few_features_with_a_steep_spectrum_beat_a_random_basis():
    X = np.random.default_rng(0).standard_normal((60, 4)) * [4, 2, 1, 0.5]
    assert certify(PCA(2).fit(X), X).failed == []
