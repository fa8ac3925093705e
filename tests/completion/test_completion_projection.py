"""Singular value projection against its dense twin, the bound on its step, and planted truth (CIL (2.39))."""

import tracemalloc
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sklearn.exceptions import ConvergenceWarning

from lemmata import SingularValueProjection
from lemmata.completion import Observed
from lemmata.completion.centring import HOW
from lemmata.completion.nuclear import projection
from lemmata.completion.nuclear.projection import ProjectionAlgorithm
from lemmata.core import Diverged, MaxSteps, rounding, run

SEEDS = range(2)


def planted(seed=0, n=50, m=40, rank=2, share=0.5, noise=0.0, dtype=np.float64):
    """A matrix of low rank, and the same with holes."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, rank)) @ rng.normal(size=(rank, m))
    known = rng.random((n, m)) < share
    return X.astype(dtype), np.where(known, X + noise * rng.normal(size=(n, m)), np.nan).astype(
        dtype
    )


def truncated(Z, k):
    P, s, Qt = np.linalg.svd(Z, full_matrices=False)
    return (P[:, :k] * s[:k]) @ Qt[:k]


def matrix(state):
    return (state.P * state.s) @ state.Q.T


def quiet(model, A):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(A)


# --- the step ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("eta", [0.5, 1.0, 1.7])
@pytest.mark.parametrize("seed", SEEDS)
def test_steps_of_a_fixed_length_are_those_of_the_dense_twin(eta, seed, monkeypatch):
    # in a run an SVD begins at the one before and is a rough one
    monkeypatch.setattr(projection, "PASSES", 60)
    _, A = planted(seed)
    known, X = ~np.isnan(A), np.zeros(A.shape)
    algorithm, data = ProjectionAlgorithm(2, eta), Observed.of(A)
    state = algorithm.init(data, np.random.default_rng(0))
    for _ in range(8):
        state = algorithm.step(state, data)
        X = truncated(X + eta * np.where(known, A - X, 0), 2)
        assert np.linalg.norm(matrix(state) - X) < 1e-6 * np.linalg.norm(X)
        assert state.loss == pytest.approx(0.5 * np.nansum((A - matrix(state)) ** 2), rel=1e-9)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_gain_of_an_exact_step_is_at_least_what_the_proof_says(seed):
    """f(X) − f(X⁺) ≥ ½(1/η − ρ)‖D‖², ρ = ‖Π_Ω D‖²/‖D‖², for every η and every data."""
    _, A = planted(seed, noise=1.0, share=0.3)
    rng, known, X = np.random.default_rng(seed), ~np.isnan(A), np.zeros(A.shape)
    for eta in rng.uniform(0.1, 3, 20):
        G = np.where(known, A - X, 0)
        new = truncated(X + eta * G, 2)
        D, before = new - X, 0.5 * (G**2).sum()
        after = 0.5 * np.nansum((A - new) ** 2)
        rho = (D[known] ** 2).sum() / (D**2).sum()
        assert before - after >= 0.5 * (1 / eta - rho) * (D**2).sum() - 1e-9 * before
        X = new


@pytest.mark.parametrize("eta", [0.3, 1.0])
@pytest.mark.parametrize("noise", [0.0, 2.0])
def test_up_to_one_no_step_raises_the_loss(eta, noise):
    for seed in SEEDS:
        _, A = planted(seed, noise=noise, share=0.3)
        trace = run(ProjectionAlgorithm(3, eta), Observed.of(A), stop=MaxSteps(30), rng=seed).trace
        assert trace.largest_rise <= rounding(float, terms=A.size)


@pytest.mark.parametrize("noise", [0.0, 0.3, 3.0])
def test_chosen_steps_never_raise_the_loss_and_gain_what_convergence_needs(noise):
    for seed in SEEDS:
        _, A = planted(seed, noise=noise, share=0.25)
        trace = run(ProjectionAlgorithm(3), Observed.of(A), stop=MaxSteps(40), rng=seed).trace
        assert trace.largest_rise <= rounding(float, terms=A.size)
        assert trace.extras["gain"].min() >= 0.1


def test_the_chosen_step_is_the_exact_line_search_in_the_tangent_space():
    _, A = planted(1, noise=0.1)
    data, algorithm = Observed.of(A), ProjectionAlgorithm(2)
    state = algorithm.init(data, np.random.default_rng(0))
    assert algorithm._line_search(state, data) == pytest.approx(A.size / data.n_observed)
    for _ in range(3):
        state = algorithm.step(state, data)
    G = np.where(np.isnan(A), 0, A - matrix(state))
    left, right = state.P @ state.P.T, state.Q @ state.Q.T
    T = left @ G + G @ right - left @ G @ right
    expected = (T**2).sum() / (T[~np.isnan(A)] ** 2).sum()
    assert algorithm._line_search(state, data) == pytest.approx(expected, rel=1e-9)


# --- recovery ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("rank", [1, 3])
def test_noiseless_matrices_are_recovered(seed, rank):
    X, A = planted(seed, 80, 60, rank, share=0.5)
    model = SingularValueProjection(rank, random_state=seed).fit(A)
    assert np.linalg.norm(model.complete(keep_known=False) - X) < 1e-8 * np.linalg.norm(X)
    assert model.certificate_.failed == []
    assert model.stopped_ == "finished"


def test_chosen_steps_need_far_fewer_than_steps_of_one():
    """By 1 − p per step against a rate without p: at p = 0.3 and 8 digits 52 steps against about 20."""
    _, A = planted(0, 120, 100, 2, share=0.3)
    steps = {}
    for step_size, most in (("auto", 100), (1.0, 400)):
        model = quiet(
            SingularValueProjection(2, step_size=step_size, tol=0, max_iter=most, random_state=0), A
        )
        steps[step_size] = int(
            np.argmax(model.trace_.objective < 1e-16 * model.trace_.objective[0])
        )
    assert 0 < 2 * steps["auto"] < steps[1.0]


@pytest.mark.parametrize("seed", SEEDS)
def test_noise_leaves_about_its_own_share(seed):
    """A rank-k fit of N noisy entries leaves the noise but for its k(n + m − k) degrees of freedom."""
    _, A = planted(seed, 100, 80, 2, share=0.6, noise=0.1)
    model = quiet(SingularValueProjection(2, tol=1e-9), A)
    entries, free = np.isfinite(A).sum(), 2 * (180 - 2)
    assert 2 * model.loss_ / 0.01 == pytest.approx(entries - free, rel=5 * np.sqrt(2 / entries))
    assert {"first_order_on_manifold", "fixed_point", "steps_in_range"} <= set(
        model.certificate_.held
    )


# --- claims that fail -------------------------------------------------------------------------------------------------


def test_too_long_a_step_fails_its_claims_or_diverges():
    _, A = planted(0, noise=0.5, share=0.3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Diverged)
        model = quiet(SingularValueProjection(2, step_size=9.0, max_iter=30, random_state=0), A)
    assert "steps_in_range" in model.certificate_.failed
    assert model.trace_.largest_rise > 0


def test_a_run_cut_short_is_neither_first_order_nor_fixed():
    _, A = planted(0, noise=0.5, share=0.3)
    failed = quiet(SingularValueProjection(3, max_iter=1, random_state=0), A).certificate_.failed
    assert {"first_order_on_manifold", "fixed_point"} <= set(failed)


def test_a_first_order_point_with_a_better_direction_outside_is_no_fixed_point():
    """diag(3, 2, 1) known everywhere: diag(3, 0, 1) has no tangent gradient, but [A]₂ is diag(3, 2, 0)."""
    A = np.diag([3.0, 2.0, 1.0])
    model = SingularValueProjection(2, step_size=1.0).fit(A)
    assert_allclose(model.complete(keep_known=False), np.diag([3.0, 2.0, 0.0]), atol=1e-7)
    E = np.eye(3)[:, [0, 2]] * np.sqrt([3.0, 1.0])
    model.U_, model.V_ = E, E.copy()
    certificate = model.certify(A)
    assert "first_order_on_manifold" in certificate.held
    assert "fixed_point" in certificate.failed


def test_too_few_entries_fail_their_claim():
    _, A = planted(0, rank=2, share=0.2)
    assert "enough_entries" in quiet(SingularValueProjection(8, max_iter=5), A).certificate_.failed


def test_held_out_entries_are_judged_if_given():
    rng = np.random.default_rng(0)
    X = np.outer(rng.choice([-1.0, 1.0], 80), rng.choice([-1.0, 1.0], 60))
    train, test = Observed.of(X).split(0.5, seed=0)
    model = SingularValueProjection(1).fit(train)
    assert "held_out_error" in model.certify(train, test).held
    coins = test.with_values(rng.choice([-1.0, 1.0], test.n_observed))
    assert "held_out_error" in model.certify(train, coins).failed


# --- sizes ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(12_000, 1_000), (1_000, 12_000)])
def test_nothing_of_the_size_of_the_matrix_is_made(shape):
    """Dense, the matrix has 12 million entries: 96 MB. The known 40,000 and the factors take a few."""
    rng = np.random.default_rng(0)
    i, j = rng.integers(shape[0], size=40_000), rng.integers(shape[1], size=40_000)
    data = Observed.from_triplets(i, j, rng.normal(size=40_000), shape, duplicates="last")
    # kernels are compiled before memory is watched
    quiet(SingularValueProjection(2, max_iter=2), data)
    tracemalloc.start()
    quiet(SingularValueProjection(3, max_iter=3, random_state=0), data)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * shape[0] * shape[1] / 4


# --- as a model -------------------------------------------------------------------------------------------------------


def test_the_factors_are_balanced_and_do_not_depend_on_the_seed():
    _, A = planted(0, noise=0.3)
    one, other = (
        SingularValueProjection(2, random_state=seed, tol=1e-12).fit(A) for seed in (0, 1)
    )
    assert_allclose(one.U_.T @ one.U_, np.diag(one.singular_values_), atol=1e-8)
    assert_allclose(one.V_.T @ one.V_, np.diag(one.singular_values_), atol=1e-8)
    assert_allclose(one.U_, other.U_, atol=1e-3)


@pytest.mark.parametrize("how", HOW)
def test_offsets_are_taken_out_and_put_back(how):
    X, A = planted(0, noise=0.05, share=0.7)
    rank = 3 if how == "none" else 2
    model = quiet(SingularValueProjection(rank, centre=how, random_state=0), A + 5)
    rest = model.complete(keep_known=False) - 5 - X
    assert np.sqrt((rest**2).mean()) < 0.5 * X.std()


def test_all_zeros_are_met_by_zero():
    model = SingularValueProjection(2).fit(np.where(np.eye(5) == 1, np.nan, 0.0))
    assert (model.complete(keep_known=False) == 0).all()
    assert not model.certificate_.broken


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=20)
def test_arbitrary_entries_give_finite_factors_and_no_rise(seed):
    rng = np.random.default_rng(seed)
    n, m = rng.integers(1, 8, size=2)
    A = rng.normal(size=(n, m)) * 10.0 ** rng.uniform(-6, 6)
    A[rng.random((n, m)) < 0.5] = np.nan
    A[0, 0] = 1.0 if np.isnan(A).all() else A[0, 0]
    model = quiet(
        SingularValueProjection(int(rng.integers(1, min(n, m) + 1)), max_iter=20, random_state=0), A
    )
    assert np.isfinite(model.U_).all()
    assert model.trace_.largest_rise <= rounding(float, terms=A.size)
    assert not model.certificate_.broken


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"rank": 5}, "rank <= 4"),
    ],
)
def test_impossible_parameters_are_refused(parameters, message):
    with pytest.raises(ValueError, match=message):
        SingularValueProjection(**{"rank": 2, **parameters}).fit(np.ones((6, 4)))


def test_a_first_step_that_is_too_long_is_halved():
    """1/p is the length for entries spread evenly; a sixteenth that is one whole block asks for 1, and 16 overshoots by 15."""
    A = np.full((40, 40), np.nan)
    A[:10, :10] = np.outer(np.arange(1.0, 11), np.ones(10))
    A = Observed.of(A)
    tried = []

    class Watched(ProjectionAlgorithm):
        def _project(self, *along):
            new = super()._project(*along)
            tried.append(new.loss)
            return new

    algorithm = Watched(rank=1)
    begin = algorithm.init(A, np.random.default_rng(0))
    after = algorithm.step(begin, A)
    assert tried[0] > begin.loss > after.loss == tried[-1]
    found = run(algorithm, A, stop=MaxSteps(20), rng=0)
    assert found.stopped == "finished"
    assert_allclose(matrix(found.state)[:10, :10], A.dense()[:10, :10], rtol=1e-9)
