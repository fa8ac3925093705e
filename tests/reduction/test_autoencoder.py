"""The linear autoencoder against its theory (CIL 1.2 to 1.5.3), against eigh, and against itself on every kind of data."""

import warnings

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.linalg import subspace_angles
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import mean_squared_error

from lemmata import LinearAutoencoder
from lemmata.core import Diverged, MaxSteps, rounding, run
from lemmata.optim import Adam, GradientDescent, HeavyBall, Nesterov
from lemmata.reduction import reconstruction
from lemmata.reduction.reconstruction import (
    LinearAutoencoderAlgorithm,
    StochasticLinearAutoencoderAlgorithm,
    TrainingSample,
    largest_eigenvalue,
    smoothness,
    unit_weights,
    value_and_gradient,
)

SEEDS = range(2)
CLAIMS = {
    "reconstruction_is_projection", "near_pca_optimum", "first_order_point", "axes_identified", "affine_part_redundant",
    "never_rose", "attributes_sound", "statements_true",
}  # fmt: skip


@pytest.fixture(scope="module")
def digits():
    return load_digits().data


def planted(seed=0, n=400, d=12, dtype=np.float64):
    """Rows with standard deviations 8, 7, 6, 5 along four orthonormal directions, 1 along the others, and an offset."""
    rng = np.random.default_rng(seed)
    Q, _ = np.linalg.qr(rng.standard_normal((d, d)))
    deviations = np.concatenate([[8, 7, 6, 5], np.ones(d - 4)])
    return ((rng.standard_normal((n, d)) * deviations) @ Q.T + 3 * rng.standard_normal(d)).astype(
        dtype
    )


def spectrum(X, weights=None):
    """Variances and axes by eigh, descending."""
    values, axes = np.linalg.eigh(np.cov(X.T, bias=True, aweights=weights))
    return values[::-1], axes[:, ::-1]


def loss_of(X, model, weights=None):
    """½ E‖x − x̂‖² by rows."""
    rest = X - model.inverse_transform(model.transform(X))
    return 0.5 * np.average((rest**2).sum(axis=1), weights=weights)


def sample_of(X, rows=False):
    S = np.cov(X.T, bias=True)
    longest = ((X - X.mean(axis=0)) ** 2).sum(axis=1).max()
    return TrainingSample(
        X.mean(axis=0),
        S,
        np.linalg.eigvalsh(S)[-1],
        "float64",
        X if rows else None,
        longest=longest,
    )


# --- the objective ----------------------------------------------------------------------------------------------------


def prefix_risk(W, V, S, basis):
    """R or R_pca straight from its definition."""
    m, d = W.shape
    errors = [np.eye(d) - V[:, :j] @ W[:j] for j in (range(1, m + 1) if basis == "pca" else [m])]
    return float(np.mean([0.5 * np.trace(E @ S @ E.T) for E in errors]))


@pytest.mark.parametrize("basis", ["any", "pca"])
@pytest.mark.parametrize("seed", SEEDS)
def test_value_and_gradient_are_those_of_the_definition(basis, seed):
    rng = np.random.default_rng(seed)
    W, V, B = rng.standard_normal((3, 5)), rng.standard_normal((5, 3)), rng.standard_normal((5, 5))
    S, a, h = B @ B.T, unit_weights(3, basis), 1e-5
    loss, to_W, to_V = value_and_gradient(W, V, W @ S, V.T @ S, np.trace(S), a)
    assert loss == pytest.approx(prefix_risk(W, V, S, basis), rel=1e-12)
    for matrix, gradient in ((W, to_W), (V, to_V)):
        # central differences of a polynomial of degree four: error O(h²)
        for index in np.ndindex(matrix.shape):
            kept = matrix[index]
            matrix[index] = kept + h
            above = prefix_risk(W, V, S, basis)
            matrix[index] = kept - h
            below = prefix_risk(W, V, S, basis)
            matrix[index] = kept
            assert gradient[index] == pytest.approx(
                (above - below) / (2 * h), rel=1e-5, abs=1e-5 * loss
            )


def test_without_prefixes_the_gradients_are_those_of_the_notes():
    rng = np.random.default_rng(0)
    W, V, B = rng.standard_normal((2, 6)), rng.standard_normal((6, 2)), rng.standard_normal((6, 6))
    S, D = B @ B.T, V @ W - np.eye(6)
    _, to_W, to_V = value_and_gradient(W, V, W @ S, V.T @ S, np.trace(S), np.ones(2))
    assert_allclose(to_W, V.T @ D @ S, atol=1e-10)  # (1.10)
    assert_allclose(to_V, D @ S @ W.T, atol=1e-10)  # (1.11)


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("basis", ["any", "pca"])
def test_the_gradient_in_a_state_is_the_slope_of_its_loss(tied, basis):
    sample, rng = sample_of(planted()), np.random.default_rng(1)
    algorithm = LinearAutoencoderAlgorithm(3, tied, basis, GradientDescent(1.0))
    params = tuple(
        rng.standard_normal((12, 3)) if tied else part for part in algorithm.start(sample, rng)
    )
    way = tuple(rng.standard_normal(part.shape) for part in params)

    def at(t):
        return algorithm.at(
            tuple(p + t * w for p, w in zip(params, way, strict=True)), sample, None, 0, 0
        )

    slope = sum(float((g * w).sum()) for g, w in zip(at(0).gradient, way, strict=True))
    assert slope == pytest.approx((at(1e-5).loss - at(-1e-5).loss) / 2e-5, rel=1e-5)


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("basis", ["any", "pca"])
@pytest.mark.parametrize("seed", SEEDS)
def test_the_smoothness_bounds_the_curvature_at_projections(tied, basis, seed):
    sample, rng = sample_of(planted(seed)), np.random.default_rng(seed)
    algorithm = LinearAutoencoderAlgorithm(3, tied, basis, GradientDescent(1.0))
    params = algorithm.start(sample, rng)
    L = smoothness(*algorithm.split(params), sample.top, tied)
    for _ in range(30):
        way = tuple(rng.standard_normal(part.shape) for part in params)
        t = 1e-4 / np.sqrt(sum((w**2).sum() for w in way))

        def loss(s, way=way):
            return algorithm.at(
                tuple(p + s * w for p, w in zip(params, way, strict=True)), sample, None, 0, 0
            ).loss

        curvature = (loss(t) - 2 * loss(0) + loss(-t)) / 1e-8
        assert curvature <= L


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=30)
def test_the_largest_eigenvalue_is_met_from_below_within_its_expected_error(seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((30, 15)) * 10.0 ** rng.uniform(-3, 3, 15)
    S = np.cov(X.T, bias=True)
    top = np.linalg.eigvalsh(S)[-1]
    assert 0.8 * top <= largest_eigenvalue(S) <= top * (1 + 1e-12)  # 0.87·ln 15/29 = 0.08, expected


# --- the minimum ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("optimizer", ["gd", "heavy_ball", "nesterov", "adam"])
def test_every_descent_ends_at_the_pca_optimum(tied, optimizer):
    X = planted()
    values, axes = spectrum(X)
    model = LinearAutoencoder(4, tied=tied, optimizer=optimizer, random_state=0, max_iter=3000).fit(
        X
    )
    assert model.loss_ == pytest.approx(0.5 * values[4:].sum(), rel=1e-6)
    assert np.sin(subspace_angles(model.decoder_, axes[:, :4])).max() < 1e-3
    assert CLAIMS - {"axes_identified"} <= set(model.certificate_.held)


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_on_digits_the_default_comes_within_a_millionth_of_pca_without_ever_rising(
    digits, tied, seed
):
    model = LinearAutoencoder(10, tied=tied, random_state=seed).fit(digits)
    best = 0.5 * spectrum(digits)[0][10:].sum()
    assert model.stopped_ in ("settled", "finished")
    assert (np.diff(model.trace_.objective) <= 0).all()
    assert best * (1 - 1e-12) <= model.loss_ <= best * (1 + 1e-6)


def test_tied_weights_are_orthonormal_and_untied_ones_need_not_be(digits):
    """CIL Ex. 1.2 and 1.4."""
    tied = LinearAutoencoder(5, tied=True, random_state=0).fit(digits)
    untied = LinearAutoencoder(5, random_state=0).fit(digits)
    assert (tied.encoder_ == tied.decoder_.T).all()
    assert np.abs(tied.encoder_ @ tied.decoder_ - np.eye(5)).max() < 1e-5
    assert np.abs(untied.encoder_ @ untied.decoder_ - np.eye(5)).max() < 1e-5  # WV = I all the same
    assert np.abs(untied.encoder_ @ untied.encoder_.T - np.eye(5)).max() > 1e-3
    assert tied.loss_ == pytest.approx(untied.loss_, rel=1e-6)


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_the_pca_basis_finds_the_eigenvectors_in_order(tied, seed):
    """CIL Ex. 1.5."""
    X = planted(seed)
    _, axes = spectrum(X)
    model = LinearAutoencoder(4, tied=tied, basis="pca", tol=1e-12, random_state=seed).fit(X)
    for found in (model.encoder_.T, model.decoder_):
        cosines = (found * axes[:, :4]).sum(axis=0)
        assert_allclose(np.abs(cosines), 1, atol=1e-6)
        assert_allclose(found, axes[:, :4] * np.sign(cosines), atol=1e-3)
    assert "axes_identified" in model.certificate_.held


def test_the_eigenimages_of_digits_are_found(digits):
    model = LinearAutoencoder(5, basis="pca", random_state=0).fit(digits)
    variances = model.transform(digits).var(axis=0)
    assert_allclose(variances, spectrum(digits)[0][:5], rtol=1e-4)
    assert "axes_identified" in model.certificate_.held


def test_the_loss_of_a_pca_basis_is_the_plain_one_and_its_scaling_left_the_reconstruction_alone():
    X = planted()
    algorithm = LinearAutoencoderAlgorithm(3, False, "pca", GradientDescent(1.0))
    state = run(algorithm, sample_of(X), stop=MaxSteps(5), rng=0).state
    W, V = state.params
    shown = algorithm.attributes(state)
    assert_allclose(shown["decoder_"] @ shown["encoder_"], V @ W, atol=1e-12)
    assert_allclose(np.linalg.norm(shown["decoder_"], axis=0), 1, atol=1e-12)
    model = LinearAutoencoder(3, basis="pca", random_state=0).fit(X)
    assert model.loss_ == pytest.approx(loss_of(X, model), rel=1e-10)
    assert model.loss_ < model.trace_.last()  # shorter prefixes lose more


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("basis", ["any", "pca"])
def test_the_closed_form_is_the_minimum(tied, basis):
    X = planted()
    values, axes = spectrum(X)
    model = LinearAutoencoder(3, method="closed", tied=tied, basis=basis).fit(X)
    assert model.loss_ == pytest.approx(0.5 * values[3:].sum(), rel=1e-10)
    assert_allclose(np.abs((model.encoder_.T * axes[:, :3]).sum(axis=0)), 1, atol=1e-10)
    assert model.stopped_ == "finished"
    assert model.certificate_.failed == []


@pytest.mark.parametrize("optimizer", ["gd", "heavy_ball", "nesterov", "adam"])
def test_sgd_comes_close(digits, optimizer):
    with pytest.warns(ConvergenceWarning):
        model = LinearAutoencoder(
            2, method="sgd", optimizer=optimizer, max_iter=60, random_state=0
        ).fit(digits)
    assert model.loss_ == pytest.approx(0.5 * spectrum(digits)[0][2:].sum(), rel=0.01)
    assert "near_pca_optimum" in model.certificate_.held
    assert "never_rose" not in {claim.name for claim in model.certificate_}


@pytest.mark.parametrize("seed", SEEDS)
def test_a_batch_gradient_is_unbiased(seed):
    rng = np.random.default_rng(seed)
    X, weights = planted(seed, n=60), rng.uniform(0, 2, 60)
    weights /= weights.mean()
    S = np.cov(X.T, bias=True, aweights=weights)
    sample = TrainingSample(np.average(X, axis=0, weights=weights), S, 1.0, "float64", X, weights)
    algorithm = StochasticLinearAutoencoderAlgorithm(
        3, False, "pca", GradientDescent(1.0), batch_size=20
    )
    params = (rng.standard_normal((3, 12)), rng.standard_normal((12, 3)))
    batches = np.arange(60).reshape(3, 20)
    mean = [
        sum(parts) / 3
        for parts in zip(*(algorithm._on_rows(params, sample, b) for b in batches), strict=True)
    ]
    for found, whole in zip(mean, algorithm.at(params, sample, None, 0, 0).gradient, strict=True):
        assert_allclose(found, whole, rtol=1e-9, atol=1e-9)


# --- steps ------------------------------------------------------------------------------------------------------------


@given(
    st.integers(0, 2**32 - 1),
    st.booleans(),
    st.sampled_from(["any", "pca"]),
    st.sampled_from(range(4)),
)
@settings(max_examples=40)
def test_a_measured_step_never_raises_the_loss_however_badly_the_columns_are_scaled(
    seed, tied, basis, which
):
    rng = np.random.default_rng(seed)
    X = rng.standard_cauchy((20, 6)) * 10.0 ** rng.uniform(-6, 6, 6)
    optimizer = [GradientDescent(1.0), HeavyBall(1.0), Nesterov(1.0), Adam()][which]
    algorithm = LinearAutoencoderAlgorithm(2, tied, basis, optimizer)
    sample = TrainingSample(
        X.mean(axis=0),
        np.cov(X.T, bias=True),
        largest_eigenvalue(np.cov(X.T, bias=True)),
        "float64",
    )
    solution = run(algorithm, sample, stop=MaxSteps(60), rng=seed)
    assert solution.stopped in ("max steps", "finished")
    assert solution.trace.largest_rise == 0


def test_the_seed_decides():
    X = planted()
    fits = [LinearAutoencoder(2, random_state=seed).fit(X).encoder_ for seed in (0, 0, 1)]
    assert (fits[0] == fits[1]).all()
    assert not np.allclose(fits[0], fits[2])


def test_too_long_a_step_diverges_and_the_warning_says_what_to_do():
    with (
        np.errstate(all="ignore"),
        pytest.warns(Diverged, match="lower step_size, or leave it None"),
    ):
        model = LinearAutoencoder(2, optimizer="gd", step_size=1.0, random_state=0).fit(planted())
    assert model.stopped_ == "diverged"
    assert np.isfinite(model.encoder_).all()


# --- theory of the decoder --------------------------------------------------------------------------------------------


@given(st.integers(0, 2**32 - 1), st.integers(1, 4), st.booleans())
@settings(max_examples=40)
def test_no_encoder_beats_the_pseudo_inverse_whatever_the_rank_of_decoder_and_data(
    seed, rank, full
):
    """CIL 1.3.6, with and without the independent columns and the full-rank Σ that make it the only best one."""
    rng = np.random.default_rng(seed)
    V = rng.standard_normal((6, rank)) @ rng.standard_normal((rank, 4))
    B = rng.standard_normal((6, 6 if full else 3))
    W = LinearAutoencoder.optimal_encoder(V)
    best = prefix_risk(W, V, B @ B.T, "any")
    for size in (1e-3, 1.0):
        other = W + size * rng.standard_normal(W.shape)
        assert prefix_risk(other, V, B @ B.T, "any") >= best - rounding(float, 36) * np.trace(
            B @ B.T
        )


def test_without_full_rank_the_best_encoder_is_not_unique():
    rng = np.random.default_rng(0)
    V, B = rng.standard_normal((5, 2)), np.vstack([rng.standard_normal((4, 4)), np.zeros((1, 4))])
    W = LinearAutoencoder.optimal_encoder(V)
    other = W + np.outer([1.0, 2.0], [0, 0, 0, 0, 1.0])  # differs only where the data never is
    assert prefix_risk(other, V, B @ B.T, "any") == pytest.approx(
        prefix_risk(W, V, B @ B.T, "any"), rel=1e-12
    )


def test_the_loss_is_invariant_under_gl_m_and_the_prefix_loss_is_not():
    """CIL 1.2.3 and why Ex. 1.5 needs another objective."""
    rng = np.random.default_rng(0)
    S = sample_of(planted()).covariance
    W, V, A = (
        rng.standard_normal((3, 12)),
        rng.standard_normal((12, 3)),
        rng.standard_normal((3, 3)),
    )
    moved = A @ W, V @ np.linalg.inv(A)
    assert prefix_risk(*moved, S, "any") == pytest.approx(prefix_risk(W, V, S, "any"), rel=1e-9)
    assert prefix_risk(*moved, S, "pca") != pytest.approx(prefix_risk(W, V, S, "pca"), rel=1e-3)


# --- claims -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def fitted():
    X = planted()
    return LinearAutoencoder(4, basis="pca", random_state=0, tol=1e-12).fit(X), X


def test_every_claim_holds_on_a_converged_pca_basis(fitted):
    model, X = fitted
    assert set(model.certificate_.held) == CLAIMS
    assert set(model.certify(X).held) == CLAIMS


def test_a_map_that_is_no_projection_fails_reconstruction_is_projection(fitted):
    model, X = fitted
    model.encoder_ = 1.01 * model.encoder_
    assert "reconstruction_is_projection" in model.certify(X).failed


def test_a_projection_onto_other_axes_fails_near_pca_optimum_but_is_a_projection(fitted):
    model, X = fitted
    _, axes = spectrum(X)
    model.decoder_ = axes[:, [0, 1, 2, 8]]
    model.encoder_ = model.decoder_.T
    certificate = model.certify(X)
    assert "near_pca_optimum" in certificate.failed
    assert "axes_identified" in certificate.failed
    assert "reconstruction_is_projection" in certificate.held
    # it is a saddle: eigenvectors, only not the leading ones
    assert "first_order_point" in certificate.held


def test_a_few_steps_fail_first_order_point():
    with pytest.warns(ConvergenceWarning):
        model = LinearAutoencoder(4, max_iter=3, random_state=0).fit(planted())
    assert "first_order_point" in model.certificate_.failed


@pytest.mark.parametrize(("tied", "group"), [(False, "GL(m)"), (True, "O(m)")])
def test_a_free_basis_fails_axes_identified_and_names_the_group_that_is_free(tied, group):
    certificate = LinearAutoencoder(4, tied=tied, random_state=0).fit(planted()).certificate_
    claim = certificate["axes_identified"]
    assert claim.verdict == "fails"
    assert "basis='pca'" in claim.advice
    assert group in claim.note


def test_turning_the_code_keeps_the_loss_and_loses_the_axes(fitted):
    model, X = fitted
    A = np.random.default_rng(0).standard_normal((4, 4))
    model.encoder_, model.decoder_ = A @ model.encoder_, model.decoder_ @ np.linalg.inv(A)
    certificate = model.certify(X)
    assert certificate.failed == ["axes_identified"]


def test_equal_variances_leave_axes_identified_undecided():
    X = np.vstack([np.eye(3), -np.eye(3)])
    claim = (
        LinearAutoencoder(2, method="closed", basis="pca").fit(X).certificate_["axes_identified"]
    )
    assert claim.verdict == "can't tell"
    assert "variances 1 and 2 agree to rounding" in claim.note


def test_all_axes_can_be_asked_for():
    X = planted()[:, :3]
    assert "axes_identified" in LinearAutoencoder(3, method="closed").fit(X).certificate_.held


def test_a_wrong_mean_fails_affine_part_redundant(fitted):
    model, X = fitted
    model.mean_ = model.mean_ + 1e-6
    assert "affine_part_redundant" in model.certify(X).failed


def test_too_long_a_step_fails_never_rose():
    X = planted()
    L = 3 * spectrum(X)[0][0]
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = LinearAutoencoder(
            2, optimizer="gd", step_size=3.5 / L, max_iter=100, random_state=0
        ).fit(X)
    assert "never_rose" in model.certificate_.failed


def test_a_short_step_of_ones_own_holds_never_rose():
    X = planted()
    model = LinearAutoencoder(
        2, optimizer="gd", step_size=0.3 / spectrum(X)[0][0], random_state=0
    ).fit(X)
    assert "never_rose" in model.certificate_.held


# --- kinds of data ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["gd", "closed"])
def test_arrays_files_streams_and_dask_give_the_same_fit(tmp_path, method):
    X = planted()
    file = np.memmap(tmp_path / "rows", mode="w+", shape=X.shape, dtype=X.dtype)
    file[:] = X
    kinds = {
        "memmap": file,
        "stream": [X[:150], X[150:]],
        "sparse stream": [sp.csr_array(X[:150]), sp.csr_array(X[150:])],
        "dask": da.from_array(X, chunks=(100, 12)),
    }
    whole = LinearAutoencoder(3, method=method, basis="pca", tol=1e-13, random_state=0).fit(X)
    for name, data in kinds.items():
        part = LinearAutoencoder(3, method=method, basis="pca", tol=1e-13, random_state=0).fit(data)
        assert_allclose(part.encoder_, whole.encoder_, atol=1e-4, err_msg=name)
        assert_allclose(part.mean_, whole.mean_, rtol=1e-12, err_msg=name)
        assert_allclose(
            np.asarray(part.transform(data)), part.transform(X), atol=1e-10, err_msg=name
        )
        assert part.score(data) == pytest.approx(part.score(X), rel=1e-9)


def test_sgd_draws_from_a_file_as_from_an_array(tmp_path):
    X = planted()
    file = np.memmap(tmp_path / "rows", mode="w+", shape=X.shape, dtype=X.dtype)
    file[:] = X
    fits = [
        LinearAutoencoder(2, method="sgd", tol=0.1, random_state=0).fit(data).encoder_
        for data in (X, file)
    ]
    assert (fits[0] == fits[1]).all()


def test_sgd_says_that_it_needs_rows_it_can_draw():
    X = planted()
    for data in ([X[:100], X[100:]], da.from_array(X, chunks=(100, 12))):
        with pytest.raises(
            ValueError, match=r"draws rows in random order.*method='gd' or 'closed'"
        ):
            LinearAutoencoder(2, method="sgd").fit(data)


@pytest.mark.parametrize("method", ["gd", "closed"])
@pytest.mark.parametrize("tied", [False, True])
def test_a_weight_counts_its_row_that_many_times(method, tied):
    X, weights = planted(n=120), np.random.default_rng(1).integers(0, 4, 120)
    model = LinearAutoencoder(2, method=method, tied=tied, basis="pca", random_state=0)
    repeated = LinearAutoencoder(2, method=method, tied=tied, basis="pca", random_state=0)
    model.fit(X, sample_weight=weights)
    repeated.fit(np.repeat(X, weights, axis=0))
    assert_allclose(model.mean_, repeated.mean_, rtol=1e-10)
    # two runs of the same descent, rounded differently
    assert_allclose(model.encoder_, repeated.encoder_, atol=1e-6)
    assert set(model.certify(X, sample_weight=weights).held) >= CLAIMS - {"never_rose"}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("method", ["gd", "closed", "sgd"])
def test_loss_and_score_are_weighted_alike(method):
    X, weights = planted(n=120), np.random.default_rng(1).uniform(0, 3, 120)
    model = LinearAutoencoder(2, method=method, batch_size=32, max_iter=50, random_state=0).fit(
        X, sample_weight=weights
    )
    assert model.loss_ == pytest.approx(loss_of(X, model, weights), rel=1e-9)
    assert model.score(X, sample_weight=weights) == pytest.approx(-2 * model.loss_ / 12, rel=1e-9)


def test_columns_without_variance_and_data_of_low_rank_are_no_obstacle():
    rng = np.random.default_rng(0)
    low = rng.standard_normal((100, 2)) @ rng.standard_normal((2, 6))
    for X in (np.hstack([low, np.ones((100, 2))]), np.ones((10, 3)), low[:2]):
        for method in ("gd", "closed"):
            model = LinearAutoencoder(2, method=method, random_state=0).fit(X)
            # two directions hold everything: there is no least loss to compare with
            assert "near_pca_optimum" in model.certificate_.undecided
            assert not model.certificate_.failed or model.certificate_.failed == ["axes_identified"]
            assert_allclose(model.inverse_transform(model.transform(X)), X, atol=1e-4)


def test_codes_and_reconstructions_are_those_of_the_formula(digits):
    model = LinearAutoencoder(3, random_state=0).fit(digits)
    Z = (digits - digits.mean(axis=0)) @ model.encoder_.T
    back = Z @ model.decoder_.T + digits.mean(axis=0)
    assert_allclose(model.transform(digits), Z, atol=1e-9)
    assert_allclose(model.inverse_transform(Z), back, atol=1e-9)
    assert model.score(digits) == pytest.approx(-mean_squared_error(digits, back), rel=1e-10)
    assert model.loss_ == pytest.approx(loss_of(digits, model), rel=1e-10)
    assert list(model.get_feature_names_out()) == [
        "linearautoencoder0",
        "linearautoencoder1",
        "linearautoencoder2",
    ]


# --- files and the door -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_components": 13}, "n_components=13 exceeds n_features=12; pass n_components <= 12"),
    ],
)
def test_parameters_that_make_no_sense_are_refused(parameters, message):
    model = LinearAutoencoder(**parameters)
    with pytest.raises(ValueError, match=message):
        model.fit(planted())
    assert not hasattr(model, "encoder_")


def test_data_that_makes_no_sense_is_refused():
    X = planted()
    model = LinearAutoencoder(2, random_state=0).fit(X)
    with pytest.raises(ValueError, match="NaN"):
        LinearAutoencoder(2).fit(np.where(X > 5, np.nan, X))
    with pytest.raises(ValueError, match="1 sample"):
        LinearAutoencoder(2).fit(X[:1])
    with pytest.raises(TypeError, match="dense"):
        LinearAutoencoder(2).fit(sp.csr_array(X))
    with pytest.raises(ValueError, match="at least one non-zero"):
        LinearAutoencoder(2).fit(X, sample_weight=np.zeros(len(X)))
    with pytest.raises(ValueError, match="12 features"):
        model.transform(X[:, :5])
    with pytest.raises(ValueError, match=r"codes have shape \(n_samples, 2\)"):
        model.inverse_transform(X)


def test_rows_whose_squares_vanish_are_refused(digits):
    with pytest.raises(ValueError, match="whose square is 0 in float64"):
        LinearAutoencoder(2).fit(digits * 5e-324)


@pytest.mark.parametrize("tied", [False, True])
def test_a_step_that_would_raise_the_loss_is_halved(tied, monkeypatch):
    """With a curvature measured a hundred times too small every first step is a hundred times too long."""
    X = planted()
    values, _ = spectrum(X)
    tried = []

    class Watched(LinearAutoencoderAlgorithm):
        def at(self, *along, **more):
            new = super().at(*along, **more)
            tried.append(new.loss)
            return new

    algorithm = Watched(4, tied, "any", GradientDescent(1.0))
    S = np.cov(X.T, bias=True)
    sample = TrainingSample(X.mean(axis=0), S, largest_eigenvalue(S), "float64")
    measured = reconstruction.smoothness
    monkeypatch.setattr(reconstruction, "smoothness", lambda *at: measured(*at) / 100)
    first = run(algorithm, sample, stop=MaxSteps(1), rng=0)
    assert tried[1] > tried[0] > first.trace.last()
    found = run(algorithm, sample, stop=MaxSteps(1000), rng=0)
    assert found.trace.largest_rise == 0
    assert found.trace.last() == pytest.approx(0.5 * values[4:].sum(), rel=1e-6)
