"""Kernel PCA against theory, scikit-learn and its own certificate."""

import copy

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.linalg import subspace_angles
from sklearn.base import clone
from sklearn.datasets import load_digits, make_circles
from sklearn.decomposition import KernelPCA as SklearnKernelPCA
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.linear_model import LogisticRegression

import lemmata
from lemmata import PCA, KernelPCA
from lemmata.core import StoreError, rounding
from lemmata.predict.kernels import RBF, Linear, Polynomial, tiles

BOTH = pytest.mark.parametrize("cls", [KernelPCA, SklearnKernelPCA], ids=["ours", "scikit-learn's"])
EXACT = {"principal_axes", "uncorrelated", "most_variance", "positive_semidefinite"}
CASES = [
    ("linear", {}),
    ("poly", {}),
    ("poly", {"degree": 2, "gamma": 0.01, "coef0": 0}),
    ("rbf", {"gamma": 5e-4}),
]


@pytest.fixture(scope="module")
def digits():
    return load_digits().data[:300]


@pytest.fixture(scope="module")
def circles():
    return make_circles(200, factor=0.3, noise=0.05, random_state=0)


def blobs(n=120, d=4, seed=0):
    """Three clusters of different size and distance, so that the first two kernel axes stand apart."""
    rng = np.random.default_rng(seed)
    centres = np.zeros((3, d))
    centres[1, 0], centres[2, 1] = 6, 9
    return centres[rng.choice(3, size=n, p=[0.5, 0.3, 0.2])] + 0.7 * rng.standard_normal((n, d))


def aligned(A, B):
    """B with the signs of A's columns."""
    return B * np.where(np.sum(np.asarray(A, float) * B, axis=0) < 0, -1, 1)


def vector_error(model, X):
    """How far rounding may turn an eigenvector: its perturbation over the smallest gap, kept and next (Davis–Kahan)."""
    values = np.asarray(
        clone(model).set_params(n_components=model.n_components + 1).fit(X).eigenvalues_, float
    )
    noise = rounding(model.eigenvectors_.dtype, len(X) * X.shape[1])
    return 2 * noise * values[0] / -np.diff(values).max()


# --- agreement --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kernel", "parameters"), CASES)
@pytest.mark.parametrize("solver", ["dense", "lanczos"])
def test_it_agrees_with_scikit_learn_on_digits(digits, kernel, parameters, solver):
    X, new = digits[:250], digits[250:]
    settings = {"n_components": 5, "kernel": kernel, "fit_inverse_transform": True, **parameters}
    ours = KernelPCA(**settings, eigen_solver=solver, random_state=0).fit(X)
    theirs = SklearnKernelPCA(**settings, eigen_solver="dense").fit(X)
    error = vector_error(ours, X)
    assert_allclose(
        ours.eigenvalues_,
        theirs.eigenvalues_,
        rtol=0,
        atol=rounding(float, X.size) * ours.eigenvalues_[0],
    )
    assert_allclose(ours.eigenvectors_, theirs.eigenvectors_, atol=error)  # the signs too
    assert ours.gamma_ == theirs.gamma_
    scale = np.abs(theirs.transform(new)).max()
    assert_allclose(ours.transform(new), theirs.transform(new), atol=10 * error * scale)
    if kernel == "rbf":  # the ridge of the others is ill-conditioned: 1 against eigenvalues of 1e10
        assert_allclose(
            ours.dual_coef_, theirs.dual_coef_, atol=1e-6 * np.abs(theirs.dual_coef_).max()
        )
        back, expected = (m.inverse_transform(m.transform(new)) for m in (ours, theirs))
        assert_allclose(back, expected, atol=1e-6 * np.abs(expected).max())


@pytest.mark.parametrize("gamma", [None, 0.5, 2.0, 10.0])
def test_it_agrees_with_scikit_learn_on_circles(circles, gamma):
    X, _ = circles
    ours = KernelPCA(kernel="rbf", gamma=gamma).fit(X)
    theirs = SklearnKernelPCA(kernel="rbf", gamma=gamma).fit(X)
    common = min(len(ours.eigenvalues_), len(theirs.eigenvalues_))
    # where λ/λ₁ crosses 1e-12 is rounding
    assert abs(len(ours.eigenvalues_) - len(theirs.eigenvalues_)) <= 2
    noise = rounding(float, X.size) * ours.eigenvalues_[0]
    assert_allclose(ours.eigenvalues_[:common], theirs.eigenvalues_[:common], rtol=0, atol=noise)
    assert_allclose(
        ours.fit_transform(X)[:, :3],
        aligned(ours.transform(X)[:, :3], theirs.transform(X)[:, :3]),
        atol=1e-9,
    )


@pytest.mark.parametrize("seed", range(3))
def test_a_linear_kernel_is_pca(seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((80, 6)) * np.arange(6, 0, -1) + 3
    kernel, plain = KernelPCA(3).fit(X), PCA(3).fit(X)
    assert_allclose(
        kernel.eigenvalues_ / (len(X) - 1),
        plain.explained_variance_,
        rtol=rounding(float, X.size) * 10,
    )
    new = rng.standard_normal((20, 6))
    assert_allclose(
        kernel.transform(new), aligned(kernel.transform(new), plain.transform(new)), atol=1e-10
    )


def test_a_quadratic_kernel_is_pca_of_its_monomials():
    X = np.random.default_rng(0).standard_normal((60, 2)) * [2, 1]
    features = np.column_stack([X**2, np.sqrt(2) * X[:, 0] * X[:, 1], np.sqrt(2) * X])
    kernel, plain = KernelPCA(4, kernel="poly", degree=2, gamma=1).fit(X), PCA(4).fit(features)
    assert_allclose(
        kernel.transform(X), aligned(kernel.transform(X), plain.transform(features)), atol=1e-10
    )


def test_a_gaussian_kernel_tells_concentric_circles_apart(circles):
    X, inner = circles
    z = KernelPCA(2, kernel="rbf", gamma=2.0).fit_transform(X)
    assert LogisticRegression().fit(z, inner).score(z, inner) == 1.0
    straight = KernelPCA(2).fit_transform(X)
    assert LogisticRegression().fit(straight, inner).score(straight, inner) < 0.7


# --- theory -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kernel", ["linear", "poly", "rbf", 0.5 * RBF(0.1) + Linear() * Polynomial(2)], ids=str
)
@pytest.mark.parametrize("n_components", [2, None])
def test_transform_gives_the_training_rows_their_training_coordinates(kernel, n_components):
    X = blobs()
    model = KernelPCA(n_components, kernel=kernel)
    at_fit, later = model.fit_transform(X), model.transform(X)
    # α/√λ magnifies the rounding of k(x)ᵀα by 1/√λ
    noise = rounding(float, X.size) * (model.eigenvalues_[0] + model.kernel_.diagonal(X).max())
    assert (np.abs(at_fit - later) <= 2 * noise / np.sqrt(model.eigenvalues_)).all()


@settings(max_examples=40)
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(4, 40),
    d=st.integers(1, 5),
    scale=st.sampled_from([1e-3, 1.0, 1e3]),
    offset=st.sampled_from([0.0, 1.0, 50.0]),
    kernel=st.sampled_from(["linear", "poly", "rbf"]),
    dtype=st.sampled_from([np.float64, np.float32]),
    weighted=st.booleans(),
)
def test_the_exact_claims_hold_for_arbitrary_rows(
    seed, n, d, scale, offset, kernel, dtype, weighted
):
    rng = np.random.default_rng(seed)
    X = (scale * (rng.standard_normal((n, d)) + offset)).astype(dtype)
    weights = rng.integers(0, 4, n) + (np.arange(n) < 2) if weighted else None
    model = KernelPCA(2, kernel=kernel, gamma="scale", random_state=0).fit(X, sample_weight=weights)
    assert (
        model.transform(X).dtype == model.eigenvectors_.dtype == model.eigenvalues_.dtype == dtype
    )
    failed = set(model.certify(X, sample_weight=weights).failed)
    # an axis below the rounding of float32 is none, and both claims say so
    assert "above_rounding" in failed or not EXACT & failed


@pytest.mark.parametrize("kernel", ["linear", "poly", "rbf"])
@pytest.mark.parametrize("seed", range(3))
def test_a_weight_counts_a_row_that_many_times(kernel, seed):
    rng = np.random.default_rng(seed)
    X, weights = blobs(50, seed=seed), rng.integers(0, 4, 50)
    settings = {"n_components": 3, "kernel": kernel, "fit_inverse_transform": True}
    weighted = KernelPCA(**settings).fit(X, sample_weight=weights)
    repeated = KernelPCA(**settings).fit(np.repeat(X, weights, axis=0))
    assert_allclose(weighted.eigenvalues_, repeated.eigenvalues_, rtol=1e-10)
    assert_allclose(
        weighted.transform(X),
        repeated.transform(X),
        rtol=0,
        atol=1e-8 * np.abs(weighted.transform(X)).max(),
    )
    back, expected = (m.inverse_transform(m.transform(X)) for m in (weighted, repeated))
    assert_allclose(
        back, expected, atol=(1e-3 if kernel == "poly" else 1e-6) * np.abs(expected).max()
    )
    z = weighted.fit_transform(X, sample_weight=weights)
    assert_allclose(np.average(z, axis=0, weights=weights), 0, atol=1e-9 * np.abs(z).max())
    assert_allclose(
        (weights[:, None] * z).T @ z,
        np.diag(weighted.eigenvalues_),
        atol=1e-9 * weighted.eigenvalues_[0],
    )
    assert set(weighted.certify(X, sample_weight=weights).held) >= EXACT
    assert "principal_axes" in weighted.certify(X).failed


def test_what_is_stated_of_preimages_is_true_of_weighted_rows():
    X = blobs(40)
    weights = np.arange(40) % 4 + 1.0
    model = KernelPCA(2, kernel="rbf", fit_inverse_transform=True, alpha=0.1)
    model.fit(X, sample_weight=weights)
    assert model.certify(X, sample_weight=weights)["statements_true"].verdict == "holds"


def test_equal_weights_change_the_eigenvalues_alone():
    X = blobs()
    plain, tripled = (
        KernelPCA(2, kernel="rbf").fit(X),
        KernelPCA(2, kernel="rbf").fit(X, sample_weight=np.full(len(X), 3.0)),
    )
    assert_allclose(tripled.eigenvalues_, 3 * plain.eigenvalues_, rtol=1e-12)
    assert_allclose(tripled.transform(X), plain.transform(X), atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("k", [1, 20])
def test_lanczos_and_lapack_find_the_same(k, dtype):
    X = load_digits().data[:900].astype(dtype)
    dense = KernelPCA(k, kernel="rbf", gamma=1e-3, eigen_solver="dense").fit(X)
    krylov = KernelPCA(k, kernel="rbf", gamma=1e-3, random_state=0).fit(X)
    assert (dense.solver_, krylov.solver_, krylov.stopped_) == ("dense", "lanczos", "finished")
    noise = rounding(dtype, len(X))
    assert_allclose(
        krylov.eigenvalues_, dense.eigenvalues_, rtol=0, atol=noise * dense.eigenvalues_[0]
    )
    gap = (
        dense.eigenvalues_[-1] - KernelPCA(k + 1, kernel="rbf", gamma=1e-3).fit(X).eigenvalues_[-1]
    )
    angle = subspace_angles(
        dense.eigenvectors_.astype(float), krylov.eigenvectors_.astype(float)
    ).max()
    assert angle <= 2 * noise * dense.eigenvalues_[0] / gap
    assert set(krylov.certify(X).held) >= EXACT


def test_lanczos_finds_an_eigenvalue_as_often_as_it_repeats():
    X = np.concatenate([np.eye(6) * 10, -np.eye(6) * 10])  # λ = 200, six times
    X = np.concatenate([X, 0.01 * np.random.default_rng(0).standard_normal((40, 6))])
    model = KernelPCA(6, eigen_solver="lanczos", random_state=0).fit(X)
    assert_allclose(model.eigenvalues_, 200, rtol=1e-2)
    # the gaps are those of the 40 small rows; and no direction is left over to lose anything in
    assert set(model.certificate_.held) >= EXACT - {"most_variance"}
    assert "most_variance" in model.certificate_.undecided


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("solver", ["dense", "lanczos"])
def test_eigenvalues_that_all_coincide_are_all_found(dtype, solver):
    # K is the identity, and LAPACK's partial solver gives up on it
    X = 10 * np.eye(204, dtype=dtype)
    model = KernelPCA(5, kernel="rbf", gamma=1.0, eigen_solver=solver, random_state=0).fit(X)
    assert_allclose(model.eigenvalues_, 1, rtol=rounding(dtype, len(X)))
    found = model.certify(X)
    assert set(found.held) >= EXACT - {"principal_axes"}
    assert "principal_axes" in found.undecided  # every direction is an eigenvector
    assert {"informative", "subspace_determined"} <= set(found.failed)


def test_a_fit_interrupted_before_it_found_anything_leaves_no_model(monkeypatch):
    model = KernelPCA(2)

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("scipy.linalg.eigh", interrupted)
    with pytest.raises(KeyboardInterrupt), pytest.warns(UserWarning, match="interrupted"):
        model.fit(blobs())
    assert not hasattr(model, "eigenvalues_")


def test_preimages_of_a_linear_kernel_are_the_reconstruction_of_pca():
    X = blobs()
    X -= X.mean(axis=0)  # the ridge has no intercept
    model, plain = KernelPCA(2, fit_inverse_transform=True, alpha=1e-4).fit(X), PCA(2).fit(X)
    shrunk = 1e-4 / model.eigenvalues_[-1]  # the ridge multiplies an axis by λ/(λ + α)
    back, expected = (m.inverse_transform(m.transform(X)) for m in (model, plain))
    assert_allclose(back, expected, atol=2 * shrunk * np.abs(X).max())


def test_preimages_denoise(circles):
    clean, _ = make_circles(400, factor=0.3, random_state=0)
    noisy = clean + 0.1 * np.random.default_rng(0).standard_normal(clean.shape)
    model = KernelPCA(4, kernel="rbf", gamma=2.0, fit_inverse_transform=True, alpha=0.1).fit(noisy)
    back = model.inverse_transform(model.transform(noisy))
    assert np.mean((back - clean) ** 2) < np.mean((noisy - clean) ** 2)


# --- the certificate --------------------------------------------------------------------------------------------------


def healthy(cls, X, **parameters):
    return cls(
        **{"n_components": 2, "kernel": "rbf", "gamma": 0.05, "random_state": 0} | parameters
    ).fit(X)


@BOTH
@pytest.mark.parametrize("seed", range(3))
def test_every_claim_holds_on_a_healthy_fit(cls, seed):
    X = blobs(seed=seed)
    assert lemmata.certify(healthy(cls, X), X).held == [item.name for item in KernelPCA.claims]


@BOTH
@pytest.mark.parametrize("kernel", ["linear", "poly"])
def test_other_kernels_are_certified_too(cls, kernel):
    X = blobs()
    assert lemmata.certify(healthy(cls, X, kernel=kernel, gamma=None), X).failed == []


def broken(model, X, how):
    """A copy of a fit with one thing wrong."""
    model = copy.deepcopy(model)
    if how == "turned":
        c = np.sqrt(0.5)
        model.eigenvectors_ = model.eigenvectors_ @ np.array([[c, -c], [c, c]])
    elif how == "scaled":
        model.eigenvalues_ = model.eigenvalues_ * 1.1
    elif how == "other rows":
        model.X_fit_ = model.X_fit_[::-1].copy()
    elif how == "fewer rows":
        model.X_fit_ = model.X_fit_[:-1].copy()
    elif how == "other gamma":
        model.gamma_ = model.gamma_ * 2
        if hasattr(model, "kernel_"):  # by which ours predicts
            model.kernel_ = RBF(model.gamma_)
    elif how == "not the leading":
        more = clone(model).set_params(n_components=3).fit(X)
        model.eigenvectors_, model.eigenvalues_ = more.eigenvectors_[:, 1:], more.eigenvalues_[1:]
    return model


@BOTH
@pytest.mark.parametrize(
    ("how", "failing", "still_holding"),
    [
        # the span is the same
        (
            "turned",
            {"principal_axes", "uncorrelated", "eigenvectors_solved"},
            {"most_variance"},
        ),
        ("scaled", {"statements_true", "uncorrelated"}, {"principal_axes", "most_variance"}),
        ("other rows", {"statements_true", "uncorrelated"}, {"principal_axes", "most_variance"}),
        ("fewer rows", {"attributes_sound"}, set()),
        ("other gamma", {"statements_true", "eigenvectors_solved", "uncorrelated"}, set()),
        (
            "not the leading",
            {"principal_axes", "most_variance"},
            {"uncorrelated", "eigenvectors_solved"},
        ),
    ],
)
def test_a_broken_fit_fails_the_claims_it_breaks(cls, how, failing, still_holding):
    X = blobs()
    found = lemmata.certify(broken(healthy(cls, X), X, how), X)
    assert failing <= set(found.failed)
    assert still_holding <= set(found.held)
    if how == "not the leading":
        assert "away from the leading ones themselves" in found["subspace_determined"].note


@BOTH
def test_a_kernel_that_sees_each_row_alone_is_not_informative(cls, digits):
    found = lemmata.certify(cls(5, kernel="rbf").fit(digits), digits)
    assert {"informative", "subspace_determined"} <= set(found.failed)
    assert set(found.held) >= EXACT
    middle = np.median(
        ((digits[:, None] - digits[None]) ** 2).sum(axis=2)[np.triu_indices(len(digits), 1)]
    )
    assert f"{1 / middle:.2g}" in found["informative"].advice
    assert (
        "informative"
        in lemmata.certify(cls(5, kernel="rbf", gamma=1 / middle).fit(digits), digits).held
    )


@BOTH
def test_components_without_variance_fail_to_stand_above_rounding(cls):
    X = blobs(d=2)
    found = lemmata.certify(cls(3).fit(X), X)  # two columns span two directions
    assert found.failed == ["above_rounding"]
    assert "n_components <= 2" in found["above_rounding"].advice
    assert "above_rounding" in lemmata.certify(cls(2).fit(X), X).held


@BOTH
def test_a_polynomial_with_a_negative_constant_is_not_positive_semidefinite(cls):
    X = blobs()
    found = lemmata.certify(healthy(cls, X, kernel="poly", degree=2, coef0=-5, gamma=1.0), X)
    assert "positive_semidefinite" in found.failed
    assert "coef0 >= 0" in found["positive_semidefinite"].advice


def test_the_expected_angle_covers_what_fresh_samples_show():
    deviations = np.array([4.0, 3.0, 1.5, 1.0, 0.7])
    truth, n = np.eye(5)[:, :2], 150
    expected, measured = [], []
    for seed in range(40):
        X = np.random.default_rng(seed).standard_normal((n, 5)) * deviations
        claim = KernelPCA(2).fit(X).certificate_["subspace_determined"]
        expected.append(np.sin(np.radians(claim.measured)) ** 2)
        measured.append(np.sum(np.sin(subspace_angles(truth, PCA(2).fit(X).components_.T)) ** 2))
    # a bound at 99 %, but not a wild one: 6 squares on 20 groups leave a factor of 1.5 on average
    assert 1 < np.mean(expected) / np.mean(measured) < 2.5


def test_a_linear_kernel_has_the_angle_of_pca():
    X = np.random.default_rng(0).standard_normal((300, 5)) * [4, 3, 1.5, 1, 0.7]
    angles = [
        lemmata.certify(cls(2).fit(X), X)["subspace_determined"].measured
        for cls in (KernelPCA, PCA)
    ]
    assert_allclose(*angles, rtol=1e-6)


def test_a_gap_that_closes_fails_its_claim():
    X = np.random.default_rng(0).standard_normal((200, 12))  # no direction is special
    found = KernelPCA(4).fit(X).certificate_["subspace_determined"]
    assert found.verdict == "fails"
    assert "choose k at a larger gap" in found.advice


def test_what_lanczos_knows_encloses_what_lapack_knows(monkeypatch):
    X = blobs(390)
    model = KernelPCA(2, kernel="rbf", gamma=0.05).fit(X)
    exact = lemmata.certify(model, X)
    monkeypatch.setattr("lemmata.audit.predict.kernels.kernel_matrices.DENSE", 100)
    part = lemmata.certify(model, X)
    assert part.failed == exact.failed == []
    assert part["principal_axes"].kind == "statistical"
    assert part["subspace_determined"].measured >= exact["subspace_determined"].measured
    assert_allclose(
        part["subspace_determined"].measured, exact["subspace_determined"].measured, rtol=0.3
    )
    for how in ("turned", "not the leading"):
        assert "principal_axes" in lemmata.certify(broken(model, X, how), X).failed


@pytest.mark.parametrize(
    "kernel", ["precomputed", "cosine", "sigmoid", lambda x, y: float(x @ y) ** 2]
)
def test_kernels_that_only_scikit_learn_has_are_certified(kernel):
    X = blobs(60)
    data = RBF(0.05)(X) if kernel == "precomputed" else X
    model = SklearnKernelPCA(2, kernel=kernel, gamma=0.05, random_state=0).fit(data)
    found = lemmata.certify(model, data)
    assert {"principal_axes", "uncorrelated", "statements_true"} <= set(found.held)
    assert ("positive_semidefinite" in found.failed) == (kernel == "sigmoid")
    # what is no inner product has no feature space
    assert ("most_variance" in found.held) == (kernel != "sigmoid")


def test_scikit_learn_loses_digits_far_from_the_origin_and_the_certificate_says_so():
    X = blobs() + 1e7
    assert "statements_true" in lemmata.certify(healthy(SklearnKernelPCA, X), X).failed
    assert set(healthy(KernelPCA, X).certificate_.held) >= EXACT


def test_other_data_than_the_training_rows_cannot_be_told():
    X = blobs()
    model = healthy(KernelPCA, X)
    found = model.certify(X[:50])
    assert found.held == ["attributes_sound"]
    assert found.failed == ["statements_true"]
    assert not found.broken
    assert "pass the training data" in found["principal_axes"].note


def test_an_unconverged_run_warns_and_fails_its_claim():
    X = load_digits().data[:400]
    with pytest.warns(ConvergenceWarning, match="max_iter=1"):
        model = KernelPCA(
            5, kernel="rbf", gamma=1e-3, eigen_solver="lanczos", max_iter=1, random_state=0
        ).fit(X)
    assert "principal_axes" in model.certify(X).failed


def test_the_tolerance_that_was_asked_for_is_no_excuse():
    X = load_digits().data[:400]
    settings = {
        "n_components": 5,
        "kernel": "rbf",
        "gamma": 1e-3,
        "eigen_solver": "lanczos",
        "random_state": 0,
    }
    loose, tight = KernelPCA(**settings, tol=0.3).fit(X), KernelPCA(**settings).fit(X)
    assert loose.n_iter_ < tight.n_iter_
    assert "principal_axes" in loose.certify(X).failed
    assert {"principal_axes", "uncorrelated", "most_variance"} <= set(tight.certify(X).held)


def test_a_kernel_of_ones_own_is_not_checked_against_itself():
    class Mine(RBF):
        pass

    X = blobs()
    found = lemmata.certify(KernelPCA(2, kernel=Mine(0.05)).fit(X), X)
    assert "Mine is its own only definition" in found["principal_axes"].note
    assert found.failed == []


# --- kinds of data ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", ["linear", "poly", "rbf"])
def test_sparse_rows_streams_and_dask_arrays_give_what_an_array_gives(kernel):
    X = np.where(blobs() > 0.5, blobs(), 0)
    plain = healthy(KernelPCA, X, kernel=kernel)
    scale = np.abs(plain.transform(X)).max()
    for data in (
        sp.csr_array(X),
        sp.csc_matrix(X),
        [X[:50], X[50:]],
        da.from_array(X, chunks=(40, 4)),
    ):
        model = healthy(KernelPCA, data, kernel=kernel)
        assert_allclose(model.eigenvalues_, plain.eigenvalues_, rtol=1e-10)
        assert_allclose(model.transform(data), plain.transform(X), atol=1e-9 * scale)
        assert_allclose(model.transform(X), plain.transform(X), atol=1e-9 * scale)
        assert model.certificate_.failed == plain.certificate_.failed == []


def test_a_memmap_is_read_into_memory(tmp_path):
    X = blobs().astype(np.float32)
    file = np.memmap(tmp_path / "rows", dtype=np.float32, mode="w+", shape=X.shape)
    file[:] = X
    assert_array_equal(healthy(KernelPCA, file).eigenvectors_, healthy(KernelPCA, X).eigenvectors_)


def test_the_model_keeps_its_own_copy_of_the_rows():
    X = blobs()
    model = healthy(KernelPCA, X)
    before = model.transform(blobs())
    X[:] = 0
    assert_array_equal(model.transform(blobs()), before)


def test_a_function_of_two_rows_is_a_kernel():
    X = blobs(40)
    by_hand = KernelPCA(
        2,
        kernel=lambda x, y, width: np.exp(-np.sum((x - y) ** 2) / width),
        kernel_params={"width": 20},
    )
    assert_allclose(by_hand.fit(X).eigenvalues_, healthy(KernelPCA, X).eigenvalues_, rtol=1e-10)
    assert set(by_hand.certificate_.held) >= EXACT


# --- files ------------------------------------------------------------------------------------------------------------


def test_a_python_function_is_not_written_to_a_file(tmp_path):
    model = KernelPCA(1, kernel=lambda x, y: float(x @ y)).fit(blobs(20))
    with pytest.raises(StoreError, match="function, which a lemmata file cannot hold"):
        lemmata.save(model, tmp_path / "m.lemma")
    assert not (tmp_path / "m.lemma").exists()


@pytest.mark.parametrize(
    "rows", [np.zeros((3, 4)), "rows", np.zeros((120, 4), dtype=int), np.zeros((120, 3))]
)
def test_rows_that_do_not_fit_the_rest_of_a_file_are_refused(rows):
    model = healthy(KernelPCA, blobs())
    with pytest.raises(ValueError, match=r"X_fit_ (has shape|is not an array|is an array of int)"):
        KernelPCA.restored(model.get_params(), model.stored_attributes() | {"X_fit_": rows})


@pytest.mark.parametrize("solver", ["dense", "lanczos"])
def test_a_checkpoint_gives_the_same_fit_and_knows_its_kernel(tmp_path, solver):
    X = blobs()
    settings = {"eigen_solver": solver, "checkpoint": str(tmp_path / "c"), "random_state": 0}
    first, again = healthy(KernelPCA, X, **settings), healthy(KernelPCA, X, **settings)
    assert_array_equal(first.eigenvectors_, again.eigenvectors_)
    with pytest.raises(ValueError, match=r"gamma: 0\.05 in the checkpoint, 0\.06 now"):
        healthy(KernelPCA, X, gamma=0.06, **settings)


# --- bad input --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_components": 200}, "n_components=200 exceeds the 120 rows.*pass n_components <= 119"),
        (
            {"kernel": RBF(1.0), "gamma": 2.0},
            r"gamma=2.0 is given twice: RBF\(gamma=1.0\) has its own",
        ),
        ({"kernel": "poly", "degree": 2.5}, "whole degree"),
    ],
)
def test_bad_parameters_get_one_clear_message(parameters, message):
    model = KernelPCA(**parameters)
    with pytest.raises(ValueError, match=message):
        model.fit(blobs())
    assert not [name for name in vars(model) if name.endswith("_")]


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.ones((5, 3)), "sees no difference between the rows"),
        (np.ones((5, 3)) * 1e8, "sees no difference between the rows"),
        (
            np.array([[1e200, 1.0], [0.0, 1.0], [1.0, 2.0]]),
            "numbers beyond float64.*scale the columns",
        ),
    ],
)
def test_bad_rows_get_one_clear_message(X, message):
    model = KernelPCA(1, kernel="poly")
    with pytest.raises(ValueError, match=message):
        model.fit(X)
    assert not [name for name in vars(model) if name.endswith("_")]


def test_a_gamma_too_small_for_the_data_is_refused():
    with pytest.raises(ValueError, match="gamma is too small"):
        KernelPCA(1, kernel="rbf", gamma=1e-24).fit(blobs())  # e^−γd² is 1 to the last bit


def test_a_matrix_that_does_not_fit_the_machine_is_refused_before_it_is_made(monkeypatch):
    monkeypatch.setattr(tiles, "memory", lambda: 1e5)
    with pytest.raises(
        MemoryError, match=r"the kernel matrix of 120 rows needs .* fit a sample of the rows"
    ):
        healthy(KernelPCA, blobs())


def test_claims_that_need_too_large_a_matrix_cannot_tell(monkeypatch):
    model = healthy(KernelPCA, blobs())
    monkeypatch.setattr("lemmata.audit.predict.kernels.kernel_matrices.MOST", 100)
    found = model.certify(blobs())
    assert "the kernel matrix of 120 rows needs" in found["subspace_determined"].note
    assert found.held == ["attributes_sound", "statements_true", "eigenvectors_solved"]


def test_a_new_fit_forgets_the_preimages_of_the_last():
    X = blobs()
    model = (
        healthy(KernelPCA, X, fit_inverse_transform=True)
        .set_params(fit_inverse_transform=False)
        .fit(X)
    )
    assert not hasattr(model, "dual_coef_")
    with pytest.raises(NotFittedError, match="fit_inverse_transform=True"):
        model.inverse_transform(np.zeros((1, 2)))


def test_a_run_out_of_time_keeps_what_it_has():
    X = blobs(400)
    model = healthy(KernelPCA, X, eigen_solver="lanczos", time_limit=1e-9)
    assert model.stopped_ == "out of time"
    assert model.transform(X).shape == (400, 2)
    assert "principal_axes" in model.certify(X).failed


def test_coordinates_of_the_wrong_width_and_missing_preimages_are_refused():
    X = blobs()
    with pytest.raises(NotFittedError, match="fit_inverse_transform=True"):
        healthy(KernelPCA, X).inverse_transform(np.zeros((1, 2)))
    with pytest.raises(
        ValueError, match="X has 3 columns; inverse_transform takes rows of 2 coordinates"
    ):
        healthy(KernelPCA, X, fit_inverse_transform=True).inverse_transform(np.zeros((1, 3)))
    with pytest.raises(TypeError, match="Sparse data was passed"):
        healthy(KernelPCA, sp.csr_array(X), fit_inverse_transform=True)
