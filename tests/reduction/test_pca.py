"""PCA against theory, against scikit-learn, and against itself on every kind of data."""

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.linalg import subspace_angles
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA as SklearnPCA

from lemmata import PCA
from lemmata.core import Blocks, rounding
from lemmata.reduction.covariance import Scatter, VarianceAscentAlgorithm

ITERATIVE = ("power", "lanczos", "randomized", "gradient")
SOLVERS = ("eigh", "svd", *ITERATIVE)


@pytest.fixture(scope="module")
def digits():
    return load_digits().data


def planted(n=300, d=30, k=4, noise=0.1, seed=0, dtype=np.float64):
    """Rows with k strong orthogonal directions (standard deviations k+2, …, 3), noise elsewhere, and an offset."""
    rng = np.random.default_rng(seed)
    basis = np.linalg.qr(rng.standard_normal((d, k)))[0]
    scores = rng.standard_normal((n, k)) * np.arange(k + 2, 2, -1)
    X = scores @ basis.T + noise * rng.standard_normal((n, d)) + 5 * rng.standard_normal(d)
    return X.astype(dtype), basis


def same_span(A, B):
    """The sine of the largest angle between the row spaces."""
    return np.sin(subspace_angles(np.asarray(A, float).T, np.asarray(B, float).T)).max()


# --- agreement --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_components", [None, 1, 7, 0.5, 0.95])
@pytest.mark.parametrize("shape", [(200, 12), (12, 40)])
def test_it_agrees_with_scikit_learn(shape, n_components):
    X = np.random.default_rng(1).standard_normal(shape) @ np.diag(np.linspace(3, 0.1, shape[1])) + 2
    if n_components is None:
        # the last axis of n ≤ d rows has no variance and no direction
        n_components = min(shape) - (shape[0] <= shape[1])
    ours, theirs = PCA(n_components).fit(X), SklearnPCA(n_components, svd_solver="full").fit(X)
    for name in (
        "components_",
        "explained_variance_",
        "explained_variance_ratio_",
        "singular_values_",
        "mean_",
    ):
        assert_allclose(
            getattr(ours, name), getattr(theirs, name), rtol=1e-8, atol=1e-10, err_msg=name
        )
    assert ours.noise_variance_ == pytest.approx(theirs.noise_variance_, rel=1e-8)
    assert ours.n_components_ == theirs.n_components_
    assert_allclose(ours.transform(X), theirs.transform(X), atol=1e-9)
    assert_allclose(
        ours.inverse_transform(ours.transform(X)),
        theirs.inverse_transform(theirs.transform(X)),
        atol=1e-9,
    )


def test_the_likelihood_agrees_with_scikit_learn(digits):
    X = digits[:, digits.std(axis=0) > 0]
    ours, theirs = PCA(12).fit(X), SklearnPCA(12, svd_solver="full").fit(X)
    assert_allclose(ours.score_samples(X), theirs.score_samples(X), rtol=1e-9)
    assert ours.score(X) == pytest.approx(theirs.score(X), rel=1e-9)
    assert_allclose(ours.get_covariance(), theirs.get_covariance(), atol=1e-9)


def test_whitened_scores_have_unit_variance(digits):
    Z = PCA(10, whiten=True).fit_transform(digits)
    assert_allclose(np.cov(Z.T), np.eye(10), atol=1e-9)


def test_whitening_is_undone(digits):
    plain, white = PCA(10).fit(digits), PCA(10, whiten=True).fit(digits)
    assert_allclose(
        white.inverse_transform(white.transform(digits)),
        plain.inverse_transform(plain.transform(digits)),
        atol=1e-9,
    )


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("seed", range(3))
def test_every_solver_finds_the_planted_subspace_and_the_same_variance(solver, seed):
    X, _ = planted(seed=seed)
    exact = SklearnPCA(4, svd_solver="full").fit(X)
    model = PCA(4, svd_solver=solver, tol=1e-13, max_iter=20_000, random_state=seed).fit(X)
    assert same_span(model.components_, exact.components_) < 1e-5
    assert_allclose(model.explained_variance_, exact.explained_variance_, rtol=1e-8)
    assert model.certificate_.failed == []
    assert model.solver_ == solver


@pytest.mark.parametrize("solver", ITERATIVE)
def test_iterative_solvers_never_lose_variance(solver, digits):
    model = PCA(6, svd_solver=solver, random_state=0).fit(digits)
    assert model.trace_.largest_rise <= rounding(np.float64, terms=64)
    assert "never_fell" in model.certificate_.held


def test_a_gradient_step_that_overshoots_is_caught_by_never_fell(digits):
    model = PCA(3, svd_solver="gradient", random_state=0).fit(digits)
    model.trace_.append(model.trace_.last() * 0.9, seconds=0.0)
    assert "never_fell" in model.certify(digits).failed


def test_the_power_method_keeps_its_predicted_rate_and_a_stalled_trace_does_not(digits):
    model = PCA(3, svd_solver="power", random_state=0, tol=1e-14, max_iter=5000).fit(digits)
    assert "power_rate_kept" in model.certificate_.held
    residuals = model.trace_._extras["residual"]
    for i in range(len(residuals)):
        residuals[i] = 1.0 / (i + 1)  # sublinear: the rate tends to 1
    assert "power_rate_kept" in model.certify(digits).failed


def test_the_gradient_is_the_tangent_part_of_SU(digits):
    S = Scatter.form(Blocks.of(digits))
    state = VarianceAscentAlgorithm(3).init(S, np.random.default_rng(0))
    tangent = S @ state.vectors - state.vectors @ (state.vectors.T @ (S @ state.vectors))
    assert VarianceAscentAlgorithm(3).extras(state)["gradient"] == pytest.approx(
        np.linalg.norm(tangent), rel=1e-9
    )


# --- all kinds of data ------------------------------------------------------------------------------------------------


class Rereadable:
    """Blocks that can be read again and again, as a user would write it."""

    def __init__(self, X, parts):
        self.X, self.parts = X, parts

    def __iter__(self):
        yield from np.array_split(self.X, self.parts)


def containers(X, tmp_path):
    np.save(tmp_path / "X.npy", X)
    yield "memmap", np.load(tmp_path / "X.npy", mmap_mode="r")
    yield "list of blocks", list(np.array_split(X, 5))
    yield "re-iterable", Rereadable(X, 7)
    yield "dask", da.from_array(X, chunks=(100, 9))
    yield "csr", sp.csr_array(X)
    yield "csc matrix", sp.csc_matrix(X)
    yield "sparse blocks", [sp.csr_array(X[:100]), sp.csr_array(X[100:])]
    yield "fortran", np.asfortranarray(X)


def test_every_container_gives_the_same_fit(tmp_path):
    X, _ = planted()
    whole = PCA(4).fit(X)
    for name, data in containers(X, tmp_path):
        model = PCA(4).fit(data)
        assert_allclose(model.components_, whole.components_, atol=1e-9, err_msg=name)
        assert_allclose(
            model.explained_variance_, whole.explained_variance_, rtol=1e-9, err_msg=name
        )
        assert_allclose(
            np.asarray(model.transform(data)), whole.transform(X), atol=1e-8, err_msg=name
        )
        assert_allclose(model.score(data), whole.score(X), rtol=1e-8, err_msg=name)
        assert model.certify(data).failed == [], name


@pytest.mark.parametrize("solver", ["lanczos", "randomized", "power", "gradient"])
def test_sparse_data_is_centred_without_ever_becoming_dense(solver, monkeypatch):
    rng = np.random.default_rng(0)
    X = sp.random_array((400, 1500), density=0.02, rng=rng, format="csr")
    X.data += 1.0
    X = sp.csr_array(
        X * np.r_[30.0, 20.0, 14.0, np.ones(1497)]
    )  # gaps, or the slow solvers take a minute
    dense = X.toarray()

    def refuse(self, *args, **kwargs):
        if max(self.shape) >= 400:
            raise AssertionError("a sparse matrix was made dense")
        return sp.coo_array(self).toarray(*args, **kwargs)

    for cls in (sp.csr_array, sp.csc_array, sp.csr_matrix, sp.csc_matrix):
        monkeypatch.setattr(cls, "toarray", refuse)
        monkeypatch.setattr(cls, "todense", refuse)
    model = PCA(3, svd_solver=solver, tol=1e-12, max_iter=50_000, random_state=0).fit(X)
    exact = SklearnPCA(3, svd_solver="full").fit(dense)
    assert_allclose(model.mean_, exact.mean_, atol=1e-12)
    assert_allclose(model.explained_variance_, exact.explained_variance_, rtol=1e-5)
    assert_allclose(model.transform(X).var(axis=0, ddof=1), exact.explained_variance_, rtol=1e-5)


def test_auto_chooses_by_shape_and_sparsity(digits):
    rng = np.random.default_rng(0)
    assert PCA(5).fit(digits).solver_ == "eigh"
    assert PCA(5).fit(rng.standard_normal((20, 200))).solver_ == "svd"
    assert (
        PCA(5).fit(sp.random_array((300, 2000), density=0.01, rng=rng, format="csr")).solver_
        == "lanczos"
    )
    assert (
        PCA(5).fit(sp.random_array((300, 200), density=0.1, rng=rng, format="csr")).solver_
        == "eigh"
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("solver", SOLVERS)
def test_float_types_are_kept(dtype, solver):
    X, _ = planted(dtype=dtype)
    model = PCA(3, svd_solver=solver, random_state=0).fit(X)
    for name in ("components_", "explained_variance_", "singular_values_", "mean_"):
        assert getattr(model, name).dtype == dtype, name
    assert model.transform(X).dtype == dtype
    assert model.inverse_transform(model.transform(X)).dtype == dtype


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_result_does_not_depend_on_threads(dtype, monkeypatch):
    X, _ = planted(n=20_000, d=40, dtype=dtype)
    fits = []
    for threads in ("1", "2", "8"):
        monkeypatch.setenv("LEMMATA_THREADS", threads)
        fits.append(PCA(4).fit(X).components_)
    assert (fits[0] == fits[1]).all()
    assert (fits[0] == fits[2]).all()


def test_a_large_offset_does_not_eat_the_digits():
    X, basis = planted(n=2000, noise=0.01)
    model = PCA(4).fit(X + 1e6)
    assert same_span(model.components_, basis.T) < 0.01


# --- batches and weights ----------------------------------------------------------------------------------------------


@settings(max_examples=25)
@given(
    cuts=st.lists(st.integers(1, 119), max_size=8, unique=True),
    order=st.randoms(use_true_random=False),
)
def test_partial_fit_is_exact_in_any_batch_order(cuts, order):
    X, _ = planted(n=120, d=10)
    batches = np.split(X, sorted(cuts))
    order.shuffle(batches)
    model = PCA(4)
    for batch in batches:
        model.partial_fit(batch)
    whole = PCA(4).fit(X)
    assert_allclose(model.components_, whole.components_, atol=1e-10)
    assert_allclose(model.explained_variance_, whole.explained_variance_, rtol=1e-10)
    assert model.n_samples_ == 120
    assert model.certify(X).failed == []


def test_partial_fit_goes_on_from_a_fit():
    X, _ = planted()
    model = PCA(3).fit(X[:200]).partial_fit(X[200:])
    assert_allclose(model.components_, PCA(3).fit(X).components_, atol=1e-10)


def test_partial_fit_waits_for_enough_rows():
    X, _ = planted()
    model = PCA(5).partial_fit(X[:3])
    with pytest.raises(AttributeError, match="needs more batches"):
        _ = model.components_
    assert model.partial_fit(X[3:]).components_.shape == (5, 30)


def test_a_fit_without_moments_says_so_to_partial_fit():
    X = np.random.default_rng(0).standard_normal((30, 60))
    with pytest.raises(ValueError, match="use partial_fit from the first batch"):
        PCA(3).fit(X).partial_fit(X)


@pytest.mark.parametrize("solver", ["eigh", "svd", "gradient"])
def test_a_weight_counts_its_row_that_many_times(solver):
    X, _ = planted(n=60, d=8)
    w = np.random.default_rng(0).integers(0, 4, 60)
    weighted = PCA(3, svd_solver=solver, tol=1e-14, max_iter=20_000, random_state=0).fit(
        X, sample_weight=w
    )
    repeated = PCA(3).fit(np.repeat(X, w, axis=0))
    assert_allclose(weighted.mean_, repeated.mean_, atol=1e-12)
    assert_allclose(weighted.explained_variance_, repeated.explained_variance_, rtol=1e-9)
    assert same_span(weighted.components_, repeated.components_) < 1e-5
    assert weighted.certify(X, sample_weight=w).failed == []


def test_sparse_weights_equal_dense_weights():
    rng = np.random.default_rng(0)
    X = sp.random_array((300, 1200), density=0.05, rng=rng, format="csr")
    w = rng.random(300)
    sparse = PCA(3, tol=1e-13, random_state=0).fit(X, sample_weight=w)
    dense = PCA(3, svd_solver="svd").fit(X.toarray(), sample_weight=w)
    assert_allclose(sparse.explained_variance_, dense.explained_variance_, rtol=1e-6)


# --- conventions ------------------------------------------------------------------------------------------------------


def test_the_largest_entry_of_every_component_is_positive(digits):
    C = PCA(20).fit(digits).components_
    assert (C[np.arange(20), np.abs(C).argmax(axis=1)] > 0).all()


def test_pandas_in_and_out(digits):
    import pandas as pd

    frame = pd.DataFrame(digits[:, 10:20], columns=[f"pixel {i}" for i in range(10)])
    model = PCA(2).set_output(transform="pandas").fit(frame)
    assert (
        list(model.transform(frame).columns)
        == ["pca0", "pca1"]
        == list(model.get_feature_names_out())
    )
    assert list(model.feature_names_in_) == list(frame.columns)


# --- bad input --------------------------------------------------------------------------------------------------------


def test_too_many_components_say_how_many_there_can_be():
    with pytest.raises(
        ValueError, match=r"n_components=9 exceeds the smaller side of a 20 × 8 matrix; .*<= 8"
    ):
        PCA(9).fit(np.ones((20, 8)))


def test_a_failed_fit_leaves_the_old_one_alone(digits):
    model = PCA(3).fit(digits)
    before = model.components_.copy()
    with pytest.raises(ValueError, match="exceeds"):
        model.set_params(n_components=30).fit(digits[:, :10])
    assert (model.components_ == before).all()
    assert model.n_features_in_ == 64


def test_an_interrupted_direct_solver_leaves_nothing_half_fitted(digits, monkeypatch):
    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr("lemmata.reduction.covariance.scipy.linalg.eigh", interrupted)
    model = PCA(3)
    with pytest.raises(KeyboardInterrupt), pytest.warns(UserWarning, match="interrupted"):
        model.fit(digits)
    assert not hasattr(model, "components_")


def test_equal_variances_are_solved_too():
    """LAPACK's partial driver loses eigenvalues that coincide; the covariance of these rows is a multiple of I − 11ᵀ/n."""
    model = PCA(40).fit(np.eye(204) * 3)
    assert model.components_.shape == (40, 204)
    np.testing.assert_allclose(model.explained_variance_, 9 / 203, rtol=1e-10)


def test_wrong_width_at_transform_is_refused(digits):
    with pytest.raises(ValueError, match="X has 10 features, but PCA is expecting 64"):
        PCA(3).fit(digits).transform(digits[:, :10])
    with pytest.raises(ValueError, match="coordinates"):
        PCA(3).fit(digits).inverse_transform(digits)


def test_constant_data_is_fitted_and_its_claims_cannot_tell():
    model = PCA(2).fit(np.ones((10, 4)))
    assert_allclose(model.explained_variance_, 0)
    assert "most_variance" in model.certificate_.undecided
    assert_allclose(model.inverse_transform(model.transform(np.ones((3, 4)))), 1)


def test_solvers_that_cannot_say_so(digits):
    with pytest.raises(ValueError, match="dense array in memory"):
        PCA(2, svd_solver="svd").fit(sp.csr_array(digits))
    with pytest.raises(ValueError, match="whole spectrum"):
        PCA(0.9, svd_solver="gradient").fit(digits)


def test_weights_that_count_less_than_two_rows_are_refused(digits):
    weights = np.full(len(digits), 1 / len(digits))
    with pytest.raises(ValueError, match="they count rows, and a variance needs more than one"):
        PCA(2).fit(digits, sample_weight=weights)


def test_a_certificate_of_batches_waits_for_the_data(digits):
    model = PCA(3).partial_fit(digits[:900]).partial_fit(digits[900:])
    found = model.certificate_
    assert {"attributes_sound", "orthonormal_basis"} <= set(found.held)
    assert {"statements_true", "most_variance", "principal_axes"} <= set(found.not_checked)
    assert not found
    assert model.certify(digits).holds


def test_negative_weights_are_refused(digits):
    with pytest.raises(ValueError, match=r"[Nn]egative"):
        PCA(2).fit(digits, sample_weight=-np.ones(len(digits)))
    with pytest.raises(ValueError, match="at least one non-zero"):
        PCA(2).fit(digits, sample_weight=np.zeros(len(digits)))


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e200])
def test_a_bad_batch_is_refused_at_once_and_the_ones_before_stay(digits, bad):
    model = PCA(3).partial_fit(digits[:500])
    spoilt = digits[500:].copy()
    spoilt[7, 3] = bad
    with pytest.raises(ValueError, match=r"NaN|too large"):
        model.partial_fit(spoilt)
    with pytest.raises(ValueError, match="63 features"):
        model.partial_fit(digits[500:, 1:])
    model.partial_fit(digits[500:])
    assert_allclose(model.components_, PCA(3).fit(digits).components_, atol=1e-9)
