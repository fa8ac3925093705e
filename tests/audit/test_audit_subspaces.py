"""Each claim about a principal subspace holds where it should and fails where it should, on our fits and scikit-learn's."""

import copy

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose
from scipy.linalg import subspace_angles
from scipy.stats import ortho_group
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA as SklearnPCA
from sklearn.decomposition import IncrementalPCA, TruncatedSVD

from lemmata import PCA, NotCertified, certify
from lemmata.audit.reduction.kept_moments import measure
from lemmata.audit.reduction.pca import SUBSPACE_CLAIMS
from lemmata.audit.reduction.sampling_error import GROUPS, turn
from lemmata.core.blocks import Blocks

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
    """Three axes: the gap after the third is the clearest of these digits."""
    yield PCA(3).fit(X)
    yield SklearnPCA(3).fit(X)
    yield SklearnPCA(3, svd_solver="covariance_eigh").fit(X.astype(np.float32))


def test_healthy_fits_keep_every_promise(digits):
    for model in fits(digits):
        assert certify(model, digits).held == NAMES, type(model)


def test_float32_rows_of_a_float64_fit_change_no_verdict(digits):
    model = SklearnPCA(3).fit(digits / 3)
    verdicts = [
        [item.verdict for item in certify(model, rows)]
        for rows in (digits / 3, (digits / 3).astype(np.float32))
    ]
    assert verdicts[0] == verdicts[1]


@pytest.mark.parametrize("size", [1e-150, 1e150])
def test_the_unit_of_the_data_changes_no_verdict(digits, size):
    model = SklearnPCA(3).fit(digits * size)
    assert certify(model, digits * size).held == NAMES
    assert (
        "statements_true" in certify(broken(model, mean_=model.mean_ * 1.01), digits * size).failed
    )


def test_a_rotated_basis_is_no_longer_principal_but_spans_the_same(digits):
    turn = ortho_group.rvs(3, random_state=0)
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
        assert {"affine_part_redundant", "statements_true"} <= set(found.failed)


def test_a_stretched_basis_is_not_orthonormal(digits):
    for model in fits(digits):
        found = certify(broken(model, components_=model.components_ * 1.01), digits)
        assert "orthonormal_basis" in found.failed
        with pytest.raises(NotCertified, match="orthonormal_basis"):
            found.require("orthonormal_basis")


@pytest.mark.parametrize(
    "name",
    ["explained_variance_", "explained_variance_ratio_", "singular_values_", "noise_variance_"],
)
def test_every_stated_number_is_checked_on_its_own(digits, name):
    for model in fits(digits):
        stated = np.array(getattr(model, name), ndmin=1)
        stated[-1] *= 0.999
        found = certify(broken(model, **{name: stated if stated.size > 1 else stated[0]}), digits)
        assert found.failed == ["statements_true"]
        assert name in found["statements_true"].advice


@pytest.mark.parametrize(
    "changes",
    [
        {"components_": np.full((3, 64), np.nan)},
        {"components_": np.zeros((3, 63))},
        {"mean_": np.full(64, np.inf)},
        {"explained_variance_": np.array([3.0, 2.0, -1.0])},
        {"explained_variance_": np.ones(4)},
        {"explained_variance_ratio_": np.ones(3)},
        {"singular_values_": np.array([1.0, 2.0, 3.0])},
        {"noise_variance_": -1.0},
        {"n_components_": 2},
    ],
    ids=lambda changes: "".join(changes),
)
def test_garbage_is_not_certified(digits, changes):
    for model in fits(digits):
        found = certify(broken(model, **changes), digits)
        assert found.failed == ["attributes_sound"]
        assert not found
        with pytest.raises(NotCertified, match="attributes_sound"):
            found.require()


def test_small_axes_beside_a_dominant_one_are_looked_at_too():
    """Turned by 45°, or a thousand times the optimal error: beside a λ₁ of 10⁸ both used to count as rounding."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((500, 6)) * [1e4, 2, 1, 0.1, 0.1, 0.1]
    model = SklearnPCA(3).fit(X)
    c, C = np.sqrt(0.5), model.components_
    turned = np.vstack([C[:1], np.array([[c, -c], [c, c]]) @ C[1:]])
    found = certify(broken(model, components_=turned), X)
    assert found["principal_axes"].measured == pytest.approx(45, rel=1e-4)
    assert found["principal_axes"].unit == "axis 2, degrees"
    assert "most_variance" in found.held
    others = np.vstack([C[:1], SklearnPCA(6).fit(X).components_[4:]])
    assert "most_variance" in certify(broken(model, components_=others), X).failed


def test_a_tail_below_rounding_cannot_be_compared():
    X = np.random.default_rng(0).standard_normal((50, 3)) @ np.ones((3, 5)) + 1.0
    found = certify(SklearnPCA(2).fit(X), X)  # rank 1
    assert {"most_variance", "principal_axes", "subspace_determined"} <= set(found.undecided)


def test_an_unconverged_fit_keeps_less_variance(digits):
    """One pass of scikit-learn's randomized solver with hardly any oversampling, on a flat spectrum, is not there yet."""
    X = np.random.default_rng(0).standard_normal((500, 200))
    hasty = SklearnPCA(
        10, svd_solver="randomized", iterated_power=0, n_oversamples=1, random_state=0
    ).fit(X)
    found = certify(hasty, X)
    assert {"most_variance", "principal_axes"} <= set(found.failed)
    assert "orthonormal_basis" in found.held


def test_trailing_directions_are_far_from_the_least_error(digits):
    model = PCA(10).fit(digits)
    found = certify(broken(model, components_=PCA(64).fit(digits).components_[-10:]), digits)
    assert {"most_variance", "principal_axes", "statements_true"} <= set(found.failed)


def test_isotropic_data_determines_no_subspace():
    X = np.random.default_rng(0).standard_normal((400, 30))
    assert "subspace_determined" in certify(PCA(5).fit(X), X).failed
    assert "subspace_determined" in certify(SklearnPCA(5).fit(X), X).failed


def test_a_truncated_svd_makes_no_affine_claim_and_that_of_centred_data_is_certified(digits):
    found = certify(TruncatedSVD(5, random_state=0).fit(digits), digits)
    assert "affine_part_redundant" not in [claim.name for claim in found]
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
    model = SklearnPCA(3).fit(digits)
    dense, sparse = certify(model, digits), certify(model, sp.csr_array(digits))
    streamed = certify(model, [digits[:500], digits[:0], digits[500:]])
    for a, b, c in zip(dense, sparse, streamed, strict=True):
        assert a.verdict == b.verdict == c.verdict
    for found in (sparse, streamed):
        assert found["subspace_determined"].measured == pytest.approx(
            dense["subspace_determined"].measured, rel=1e-6
        )


def test_the_audit_of_many_features_agrees_with_that_of_few(monkeypatch, digits):
    """Lanczos on products (the path for large d) against the whole spectrum."""
    model = PCA(3).fit(digits)
    monkeypatch.setattr("lemmata.audit.reduction.spectra.DENSE", 10)
    monkeypatch.setattr("lemmata.audit.reduction.spectra.PRODUCTS", 60)
    for data in (digits, sp.csr_array(digits)):
        part = certify(model, data)
        assert part.failed == []
        # it counts all directions beyond as if they stood at the ceiling
        assert set(NAMES) - set(part.held) <= {"subspace_determined"}
        assert part["most_variance"].strength == "statistical 99.98 %"
    turn = ortho_group.rvs(3, random_state=0)
    assert (
        "principal_axes"
        in certify(broken(model, components_=turn @ model.components_), digits).failed
    )
    later = PCA(7).fit(digits).components_[4:]
    found = certify(broken(model, components_=later), digits)
    assert {"principal_axes", "most_variance"} <= set(found.failed)
    assert found["most_variance"].kind == "proved"  # a better subspace was found


def test_a_ceiling_and_what_lies_beyond_make_the_angle_larger_never_smaller():
    """Where part of the axes is known, the bound covers what all of them would give."""
    rng = np.random.default_rng(0)
    values = np.array([9.0, 4.0, 1.0, 0.8, 0.5, 0.1])
    groups = [(1 / GROUPS, rng.standard_normal((6, 3)) * 0.2, np.zeros(3)) for _ in range(GROUPS)]
    whole = turn(groups, values, 2, 1e-12)
    part = [(share, D[:3], np.sum(D[3:] ** 2, axis=0)) for share, D, _ in groups]
    some = turn(part, values[:3], 2, 1e-12, ceiling=1.02)
    assert some.least <= whole.least <= whole.most <= some.most
    assert (whole.axes <= some.axes).all()


def test_weights_in_any_unit_give_the_same_angle():
    X = np.random.default_rng(0).standard_normal((400, 5)) * [4, 2, 1, 1, 1]
    weights = np.random.default_rng(1).integers(1, 4, 400)
    angles = [
        certify(PCA(2).fit(X, sample_weight=unit * weights), X, sample_weight=unit * weights)[
            "subspace_determined"
        ].measured
        for unit in (1e-2, 1.0, 1e6)
    ]
    assert_allclose(angles, angles[0], rtol=1e-9)


def test_the_expected_angle_is_covered_and_not_by_far():
    """On planted data the promised angle is above the root mean square of the true ones, and below twice that."""
    d, k, n, repeats = 20, 3, 2000, 30
    deviations = np.r_[3.0, 2.5, 2.0, np.linspace(1.2, 0.5, d - k)]
    sines, promised = [], []
    for seed in range(repeats):
        X = np.random.default_rng(seed).standard_normal((n, d)) * deviations
        model = PCA(k).fit(X)
        sines.append(np.linalg.norm(np.sin(subspace_angles(model.components_.T, np.eye(d)[:, :k]))))
        promised.append(np.sin(np.radians(certify(model, X)["subspace_determined"].measured)))
    assert 1 < np.mean(promised) / np.sqrt(np.mean(np.square(sines))) < 2


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


def test_axes_are_told_apart_one_by_one():
    X = np.random.default_rng(0).standard_normal((2000, 4)) * [4, 2, 2, 0.5]
    found = certify(PCA(3).fit(X), X)["subspace_determined"]
    assert found.verdict == "holds"
    assert found.note == "axis 1 too; axis 2 may turn by any angle"


@pytest.mark.parametrize("far", [0.0, 5.0, 1e4])
@pytest.mark.parametrize(
    ("dtype", "times", "rounding"), [("float32", 100, 1e-8), ("float64", 4000, 1e-6)]
)
def test_random_vectors_bound_the_distance_of_two_scatters(dtype, times, rounding, far):
    """Four vectors multiply what they show by 26, two by 1,200: both are enough of numbers of their dtype."""
    rng = np.random.default_rng(0)
    X = (far + rng.standard_normal((500, 8)) * np.arange(1, 9)).astype(dtype)
    c, S = X.mean(axis=0, dtype=float), np.cov(X.T.astype(float), bias=True)
    for size in (0.0, 1e-9, 1e-3, 1.0):
        noise = size * rng.standard_normal((8, 8))
        away, shift = measure(Blocks.of(X), c, S + noise + noise.T)
        assert np.linalg.norm(noise + noise.T) <= away <= rounding + times * np.linalg.norm(noise)
        assert_allclose(shift, 0, atol=1e-13 * max(far, 1))


def test_a_large_fit_checks_the_moments_it_kept_and_certify_proves():
    X = np.random.default_rng(0).standard_normal((60_000, 40)) * np.linspace(3, 1, 40)
    model = PCA(5).fit(X)
    for found, kind in ((model.certificate_, "statistical"), (model.certify(X), "proved")):
        assert (found["most_variance"].verdict, found["most_variance"].kind) == ("holds", kind)
