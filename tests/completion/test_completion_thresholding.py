"""Singular value thresholding: dual ascent whose every promise can be measured.

The partial SVDs inside stop when ‖B‖² is right to 1e-10, hence B to about 1e-5 of its norm, which is 5 to 20 here: 1e-4.
"""

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning

from lemmata import SingularValueThresholding
from lemmata.completion import Observed
from lemmata.completion.nuclear.thresholding import (
    ThresholdingAlgorithm,
    automatic_tau,
)
from lemmata.core import Fit, MaxSteps, SmallGradient, run


def low_rank(seed, n=60, m=50, rank=2, share=0.5, dtype=np.float64):
    rng = np.random.default_rng(seed)
    M = rng.normal(size=(n, rank)) @ rng.normal(size=(rank, m)) / np.sqrt(rank)
    return M, Observed.of(np.where(rng.random((n, m)) < share, M, np.nan).astype(dtype))


def shrink(Z, tau):
    P, s, Qt = np.linalg.svd(Z, full_matrices=False)
    return (P * np.maximum(s - tau, 0)) @ Qt


def dual(A, Y, tau):
    """−g(Y), by LAPACK on the dense matrix."""
    return 0.5 * np.sum(shrink(A.with_values(Y).dense(0.0), tau) ** 2) - Y @ A.values


def matrix(state):
    return (state.P * state.s) @ state.Q.T


@pytest.mark.parametrize("seed", range(3))
def test_a_state_holds_the_dual_value_and_its_gradient(seed):
    _, A = low_rank(seed, n=15, m=12)
    algorithm = ThresholdingAlgorithm(tau=20.0)
    state = run(algorithm, A, stop=MaxSteps(4), rng=seed).state
    assert state.loss == pytest.approx(dual(A, state.Y, 20.0), rel=1e-9)
    assert np.allclose(matrix(state), shrink(A.with_values(state.Y).dense(0.0), 20.0), atol=1e-4)
    towards = np.random.default_rng(seed).normal(size=A.n_observed)
    slope = (
        dual(A, state.Y + 1e-5 * towards, 20.0) - dual(A, state.Y - 1e-5 * towards, 20.0)
    ) / 2e-5
    assert -state.gap @ towards == pytest.approx(slope, rel=1e-4, abs=1e-4)


@pytest.mark.parametrize("seed", range(3))
def test_a_step_is_that_of_the_notes(seed):
    """Y ← Y + ηΠ_Ω(A − shrink_τ(Y)) with one number per known entry, (2.41)."""
    _, A = low_rank(seed, n=15, m=12)
    algorithm = ThresholdingAlgorithm(tau=10.0, step_size=1.5)
    state = algorithm.init(A, np.random.default_rng(seed))
    for _ in range(5):
        new = algorithm.step(state, A)
        B = shrink(A.with_values(state.Y).dense(0.0), 10.0)
        assert new.Y.shape == (A.n_observed,)
        assert np.allclose(new.Y, state.Y + 1.5 * (A.values - B[A.rows, A.columns]), atol=1e-4)
        state = new


@pytest.mark.parametrize("step_size", [None, 0.5, 1.9])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_dual_never_falls_for_measured_steps_and_for_all_below_two(step_size, dtype):
    _, A = low_rank(0, share=0.3, dtype=dtype)
    solution = run(ThresholdingAlgorithm(50.0, step_size), A, stop=MaxSteps(60), rng=0)
    assert solution.trace.largest_rise <= 1e3 * np.finfo(dtype).eps


@pytest.mark.parametrize("seed", range(1))
def test_the_end_is_the_constrained_optimum_that_plain_dense_iterations_find(seed):
    """τ is small here, so that the optimum is not the planted matrix and has more than its rank."""
    _, A = low_rank(seed, n=14, m=11, share=0.5)
    known, values, Y = ~np.isnan(A.dense()), A.dense(0.0), np.zeros(A.shape)
    for _ in range(20_000):
        Y += 1.9 * np.where(known, values - shrink(Y, 3.0), 0)
    wanted = shrink(Y, 3.0)
    assert np.abs(np.where(known, values - wanted, 0)).max() < 1e-5
    state = run(
        ThresholdingAlgorithm(3.0), A, stop=SmallGradient(1e-7) | MaxSteps(3000), rng=seed
    ).state
    assert np.allclose(matrix(state), wanted, atol=1e-3)


@pytest.mark.parametrize("seed", range(5))
def test_noiseless_low_rank_matrices_are_recovered(seed):
    M, A = low_rank(seed, n=120, m=100, share=0.4)
    model = SingularValueThresholding(random_state=seed).fit(A)
    assert len(model.singular_values_) == 2
    assert np.linalg.norm(model.complete(keep_known=False) - M) < 1e-5 * np.linalg.norm(M)
    assert model.stopped_ == "small gradient"
    assert model.certificate_.failed == []


@pytest.mark.parametrize("seed", range(3))
def test_measured_steps_need_far_fewer_iterations_than_the_safe_constant(seed):
    _, A = low_rank(seed, share=0.6)
    tau, rule = automatic_tau(A), SmallGradient(1e-4) | MaxSteps(1000)
    auto, constant = (
        run(ThresholdingAlgorithm(tau, step), A, stop=rule, rng=0) for step in (None, 1.9)
    )
    assert auto.stopped == "small gradient"
    assert 4 * auto.step < constant.step


def test_scaling_the_entries_scales_the_result():
    _, A = low_rank(0)
    one, thousand = (
        SingularValueThresholding(random_state=0).fit(A.with_values(c * A.values))
        for c in (1.0, 1000.0)
    )
    assert thousand.tau_ == pytest.approx(1000 * one.tau_)
    assert np.allclose(thousand.complete(), 1000 * one.complete(), rtol=1e-4, atol=1e-2)


# --- claims -----------------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore")
def test_a_run_cut_short_fails_feasibility_and_the_gap():
    _, A = low_rank(0)
    model = SingularValueThresholding(max_iter=2, random_state=0).fit(A)
    assert {"entries_met", "least_regularised"} <= set(model.certificate_.failed)
    assert "never_rose" in model.certificate_.held


@pytest.mark.filterwarnings("ignore")
def test_a_small_tau_finds_its_own_optimum_but_not_the_least_nuclear_norm():
    _, A = low_rank(0, share=0.3)
    model = SingularValueThresholding(tau=2.0, tol=1e-5, max_iter=3000, random_state=0).fit(A)
    assert "least_regularised" in model.certificate_.held
    assert "least_nuclear_norm" in model.certificate_.failed


@pytest.mark.parametrize("seed", range(3))
def test_the_lower_bounds_are_lower_bounds(seed):
    """No matrix with these entries, such as the planted one, goes below what the multipliers prove."""
    M, A = low_rank(seed, share=0.4)
    for steps in (3, 30):
        state = run(
            ThresholdingAlgorithm(automatic_tau(A)), A, stop=MaxSteps(steps), rng=seed
        ).state
        nuclear, tau = np.linalg.svd(M, compute_uv=False).sum(), automatic_tau(A)
        assert state.Y @ A.values / np.linalg.norm(
            A.with_values(state.Y).dense(0.0), 2
        ) <= nuclear * (1 + 1e-9)
        assert -dual(A, state.Y, tau) / tau <= (nuclear + np.sum(M**2) / (2 * tau)) * (1 + 1e-9)


def test_multipliers_of_other_data_prove_nothing():
    _, A = low_rank(0)
    model = SingularValueThresholding(random_state=0).fit(A)
    model.dual_ = np.random.default_rng(0).permutation(model.dual_)
    assert {"least_regularised", "least_nuclear_norm"} <= set(model.certify(A).failed)
    model.dual_ = model.dual_[1:]
    certificate = model.certify(A)
    assert certificate.failed == ["attributes_sound"]
    assert {"least_regularised", "least_nuclear_norm"} <= set(certificate.not_checked)


def test_certificates_of_matrices_too_large_for_lapack_agree_with_those_of_small_ones(monkeypatch):
    _, A = low_rank(0)
    model = SingularValueThresholding(random_state=0).fit(A)
    small = model.certify(A)
    for module in ("global_optimum", "nuclear_norm"):
        monkeypatch.setattr(f"lemmata.audit.completion.optimality.{module}.SHORT", 0)
    large = model.certify(A)
    for name in ("least_regularised", "least_nuclear_norm"):
        assert large[name].verdict == "holds"
        assert large[name].measured == pytest.approx(small[name].measured, abs=1e-6)
        assert (small[name].kind, large[name].kind) == ("proved", "statistical")
    # without triplets, and with ones that are no triplets, a bound on σ₁ is all there is
    for found in (
        None,
        lambda fit, Y, k: tuple(np.ones((n, k)) for n in (Y.shape[0], 1, Y.shape[1])),
    ):
        monkeypatch.setattr(Fit, "searches", staticmethod(lambda name, found=found: found))
        blind = model.certify(A)
        assert blind["least_regularised"].verdict == "can't tell"
        assert blind["least_nuclear_norm"].verdict == "holds"
        assert blind["statements_true"].verdict == "holds"


@pytest.mark.filterwarnings("ignore")
def test_too_long_a_step_shows_in_the_certificate():
    _, A = low_rank(0)
    model = SingularValueThresholding(tau=1.0, step_size=50.0, max_iter=30, random_state=0).fit(A)
    assert {"never_rose", "entries_met"} <= set(model.certificate_.failed)


def test_reaching_max_iter_says_how_far_it_is():
    with pytest.warns(ConvergenceWarning, match="of the known entries unexplained"):
        SingularValueThresholding(max_iter=2, random_state=0).fit(low_rank(0)[1])


# --- as an estimator --------------------------------------------------------------------------------------------------


def test_float32_stays_float32_and_is_recovered_to_its_precision():
    M, A = low_rank(0, n=120, m=100, dtype=np.float32)
    model = SingularValueThresholding(centre="global", random_state=0).fit(A)
    for name in ("U_", "V_", "singular_values_", "dual_", "row_bias_"):
        assert getattr(model, name).dtype == np.float32
    assert np.linalg.norm(model.complete() - M) < 1e-5 * np.linalg.norm(M)


def test_a_tolerance_below_rounding_ends_the_run_instead_of_going_on_forever():
    _, A = low_rank(0)
    model = SingularValueThresholding(tol=1e-15, random_state=0).fit(A)
    assert model.stopped_ == "finished"
    assert model.trace_.last("gradient") < 1e-6


def test_zeros_and_rows_without_entries_are_completed_with_zeros():
    assert (SingularValueThresholding().fit(np.zeros((5, 4))).complete() == 0).all()
    M, _ = low_rank(0)
    M[3] = np.nan
    assert np.allclose(SingularValueThresholding(random_state=0).fit(M).complete()[3], 0)


@pytest.mark.filterwarnings("ignore")
@settings(max_examples=20)
@given(
    st.integers(1, 8),
    st.integers(1, 8),
    st.floats(0.1, 1),
    st.floats(1e-3, 1e3),
    st.integers(0, 10**6),
)
def test_any_small_matrix_is_met_on_its_entries_without_a_rise(n, m, share, scale, seed):
    rng = np.random.default_rng(seed)
    A = np.where(rng.random((n, m)) < share, scale * rng.normal(size=(n, m)), np.nan)
    A[rng.integers(n), rng.integers(m)] = scale
    model = SingularValueThresholding(random_state=0, max_iter=300).fit(A)
    assert np.isfinite(model.complete()).all()
    assert "never_rose" in model.certificate_.held
    assert model.trace_.last("gradient") < 0.05


@pytest.mark.filterwarnings("ignore")
def test_nothing_dense_is_ever_made():
    """A dense 20,000 × 15,000 matrix would take 2,400 MB."""
    rng = np.random.default_rng(0)
    n, m = 20_000, 15_000
    keys = np.unique(rng.integers(n * m, size=200_000))
    i, j = keys // m, keys % m
    U, V = rng.normal(size=(n, 2)), rng.normal(size=(m, 2))
    A = Observed.from_triplets(i, j, np.einsum("ek,ek->e", U[i], V[j]), (n, m))
    tracemalloc.start()
    model = SingularValueThresholding(max_iter=3, random_state=0).fit(A)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    width = model.trace_.extras["rank"].max() + 40
    assert peak < 20 * A.nbytes + 64 * (n + m) * width < 2.4e9


def test_a_step_that_would_lower_the_dual_is_halved():
    """η a hundred thousand times what the curvature allows: ½‖shrink(Y)‖² grows with η², what is gained with η."""
    _, A = low_rank(0, n=15, m=12)
    tried = []

    class Watched(ThresholdingAlgorithm):
        def _move(self, *along):
            new = super()._move(*along)
            tried.append(new.loss)
            return new

    algorithm = Watched(tau=20.0)
    begin = replace(algorithm.init(A, np.random.default_rng(0)), step=1e5)
    after = algorithm.step(begin, A)
    assert tried[0] > begin.loss > after.loss == tried[-1]
    stop = SmallGradient(1e-6) | MaxSteps(500)
    found, plain = (run(algorithm, A, stop=stop, rng=0, start=state) for state in (begin, None))
    assert found.stopped == plain.stopped == "small gradient"
    assert np.allclose(matrix(found.state), matrix(plain.state), atol=1e-4)
