"""The power method: eigenvectors, the rate |λ₂/λ₁|, deflation, resumption."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse.linalg import aslinearoperator

from lemmata.core import Checkpoint, MaxSteps, Never, Trace, rounding, run
from lemmata.linalg import (
    PowerAlgorithm,
    measured_rates,
    power_iteration,
    predicted_rates,
    subspace_angles,
)

SEEDS = range(2)


def planted(spectrum, seed, dtype=np.float64):
    """A symmetric matrix with these eigenvalues, and its eigenvectors."""
    spectrum = np.asarray(spectrum, dtype=float)
    Q = np.linalg.qr(np.random.default_rng(seed).standard_normal((len(spectrum),) * 2))[0]
    A = (Q * spectrum) @ Q.T
    return ((A + A.T) / 2).astype(dtype), Q


@pytest.mark.parametrize("ratio", [0.3, 0.8, 0.95])
@pytest.mark.parametrize("seed", SEEDS)
def test_the_residual_decays_at_the_predicted_rate(seed, ratio):
    """The others are at most λ₂/2: in the lower half of the decades (≥ 9 steps) their share is below 2⁻⁹ of the start's."""
    tail = np.random.default_rng(seed).uniform(0, 0.5 * ratio, 28)
    A, _ = planted([1.0, ratio, *tail], seed)
    found = power_iteration(A, rng=seed)
    assert found.converged
    assert_allclose(found.predicted_rate, [ratio], rtol=0.01)
    assert_allclose(found.measured_rate, [ratio], rtol=0.03)


@pytest.mark.parametrize("seed", SEEDS)
def test_each_deflated_vector_has_its_own_rate(seed):
    spectrum = [10.0, 8.0, 4.0, 3.0, *np.linspace(1.0, 0.0, 20)]
    A, Q = planted(spectrum, seed)
    found = power_iteration(A, k=3, rng=seed)
    assert_allclose(found.values, [10.0, 8.0, 4.0], rtol=1e-10)
    assert_allclose(found.predicted_rate, [0.8, 0.5, 0.75], rtol=0.01)
    assert_allclose(found.measured_rate, [0.8, 0.5, 0.75], rtol=0.03)
    assert_allclose(found.vectors.T @ found.vectors, np.eye(3), atol=rounding(float, 24))
    assert_allclose(np.abs(np.sum(found.vectors * Q[:, :3], axis=0)), 1.0, atol=1e-12)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_angle_never_shrinks_more_slowly_than_predicted(seed):
    """tan∠(v, u₁) falls by at least |λ₂/λ₁| in every single step (CIL 1.5.1 with its constant)."""
    A, Q = planted([1.0, 0.9, *np.linspace(0.8, 0.0, 18)], seed)
    algorithm = PowerAlgorithm()
    state = algorithm.init(A, np.random.default_rng(seed))
    for _ in range(60):
        later = algorithm.step(state, A)
        before, after = (np.tan(subspace_angles(s.v, Q[:, 0])[0]) for s in (state, later))
        assert after <= 0.9 * before + rounding(float, 20) * (1 + before)
        state = later


@pytest.mark.parametrize("k", [1, 3, 12])
@pytest.mark.parametrize("seed", SEEDS)
def test_the_objective_never_rises_on_a_positive_semidefinite_operator(seed, k):
    A, _ = planted(np.random.default_rng(seed).exponential(size=12) ** 2, seed)
    solution = run(PowerAlgorithm(k), A, rng=seed, stop=MaxSteps(3000))
    assert solution.trace.largest_rise <= rounding(float, 12)
    assert_allclose(solution.trace.last(), -np.sum(solution.attributes["values"]), rtol=1e-14)


def test_the_objective_is_minus_the_trace_of_what_was_found():
    A, _ = planted([5.0, 3.0, 1.0, 0.5], 0)
    solution = run(PowerAlgorithm(2), A, rng=0, stop=Never())
    V = solution.attributes["vectors"]
    assert_allclose(solution.trace.last(), -np.trace(V.T @ A @ V), rtol=1e-14)
    assert_allclose(solution.trace.last(), -8.0, rtol=1e-12)


@pytest.mark.parametrize("seed", SEEDS)
def test_repeated_eigenvalues_give_the_eigenspace(seed):
    A, Q = planted([2.0, 2.0, 2.0, 1.0, 0.5, 0.0, 0.0], seed)
    found = power_iteration(A, k=3, rng=seed)
    assert found.converged
    assert_allclose(found.values, 2.0, rtol=1e-12)
    assert subspace_angles(found.vectors, Q[:, :3]).max() < 1e-9
    assert_allclose(found.predicted_rate, [1.0, 1.0, 0.5], rtol=1e-3)


def test_easy_matrices_end_at_once():
    assert len(power_iteration(np.eye(4), k=4, rng=0).trace) == 4
    zero = power_iteration(np.zeros((3, 3)), k=2, rng=0)
    assert zero.converged
    assert_array_equal(zero.values, 0.0)
    assert np.isnan(zero.predicted_rate).all()
    one = power_iteration([[3.0]], rng=0)
    assert (one.values[0], one.predicted_rate[0]) == (3.0, 0.0)


@pytest.mark.parametrize("seed", SEEDS)
def test_more_vectors_than_the_rank_get_the_value_zero(seed):
    A, _ = planted([4.0, 2.0, 0.0, 0.0, 0.0], seed)
    found = power_iteration(A, k=5, rng=seed)
    assert found.converged
    assert_allclose(found.values, [4.0, 2.0, 0.0, 0.0, 0.0], atol=1e-12)
    assert_allclose(found.vectors.T @ found.vectors, np.eye(5), atol=1e-14 * 5)


@pytest.mark.parametrize("seed", SEEDS)
def test_residuals_bound_the_error_of_the_values(seed):
    A, _ = planted(np.random.default_rng(seed).uniform(0, 1, 30), seed)
    found = power_iteration(A, k=4, tol=1e-3, rng=seed)
    truth = np.linalg.eigvalsh(A)
    error = np.abs(found.values[:, None] - truth).min(axis=1)
    assert (error <= found.residuals + rounding(float, 30)).all()


def test_an_indefinite_operator_gives_the_largest_magnitude_with_its_sign():
    A, _ = planted([-5.0, 3.0, 1.0], 0)
    assert_allclose(power_iteration(A, k=2, rng=0).values, [-5.0, 3.0], rtol=1e-10)


def test_opposite_eigenvalues_of_equal_size_are_reported_as_not_converged():
    found = power_iteration(np.diag([1.0, -1.0, 0.5]), rng=0, max_iter=200)
    assert not found.converged
    assert found.stopped == "max steps"
    assert found.residuals[0] > 0.1


def test_sparse_matrices_and_operators_give_what_arrays_give():
    A, _ = planted([3.0, 1.5, 0.7, 0.1], 1)
    dense = power_iteration(A, k=2, rng=0)
    for other in (sp.csr_array(A), sp.csc_matrix(A), aslinearoperator(A), A.tolist()):
        assert_allclose(power_iteration(other, k=2, rng=0).values, dense.values, rtol=1e-12)


def test_float32_stays_float32_and_still_finishes():
    A, Q = planted([4.0, 2.0, *np.linspace(1, 0, 30)], 0, np.float32)
    found = power_iteration(A, k=2, rng=0)
    assert found.converged
    assert found.vectors.dtype == np.float32
    assert_allclose(found.values, [4.0, 2.0], rtol=rounding(np.float32, 32))
    assert subspace_angles(found.vectors, Q[:, :2].astype(np.float32)).max() < 4 * rounding(
        np.float32, 32
    )


@pytest.mark.parametrize("size", [1e-200, 1e-30, 1e30, 1e140])
def test_scaling_the_operator_scales_the_answer(size):
    A, _ = planted([4.0, 3.0, 1.0, 0.5], 0)
    found = power_iteration(size * A, k=2, rng=0)
    assert found.converged
    assert_allclose(found.values, [4.0 * size, 3.0 * size], rtol=1e-12)
    assert_allclose(found.measured_rate, [0.75, 1 / 3], rtol=0.03)


def test_any_state_has_k_orthonormal_vectors():
    A, _ = planted([4.0, 2.0, 1.0, 0.5, 0.1], 0)
    for steps in (0, 1, 20, 40):
        solution = run(PowerAlgorithm(4), A, rng=0, stop=MaxSteps(steps))
        assert solution.attributes["values"].shape == (4,)
        V = solution.attributes["vectors"]
        assert_allclose(V.T @ V, np.eye(4), atol=rounding(float, 5))


def test_a_step_leaves_its_state_alone_even_where_the_operator_returns_its_input():
    class Identity:
        shape, dtype = (3, 3), np.dtype(float)

        def __matmul__(self, X):
            return X

    algorithm = PowerAlgorithm(2)
    state = algorithm.init(Identity(), np.random.default_rng(0))
    copy = state.v.copy()
    algorithm.step(state, Identity())
    assert_array_equal(state.v, copy)


@pytest.mark.parametrize("stop_at", [0, 7, 40, 60])
def test_stopped_and_resumed_equals_never_stopped(stop_at):
    A, _ = planted([4.0, 2.0, 1.0, 0.9, 0.1], 3)
    whole = run(PowerAlgorithm(3), A, rng=0, stop=Never())
    first = run(PowerAlgorithm(3), A, rng=0, stop=MaxSteps(stop_at))
    second = run(PowerAlgorithm(3), A, start=first.state, stop=Never())
    assert_array_equal(second.state.v, whole.state.v)
    assert_array_equal(second.state.values, whole.state.values)
    assert_array_equal(
        np.append(first.trace.objective, second.trace.objective[1:]),
        whole.trace.objective,
    )


def test_a_checkpoint_holds_the_state(tmp_path):
    A, _ = planted([4.0, 2.0, 1.0], 3)
    path = tmp_path / "power.ckpt"
    run(PowerAlgorithm(2), A, rng=0, stop=MaxSteps(9), callbacks=[Checkpoint(path, every=1)])
    resumed = run(PowerAlgorithm(2), A, rng=0, stop=Never(), callbacks=[Checkpoint(path, every=1)])
    whole = run(PowerAlgorithm(2), A, rng=0, stop=Never())
    assert_array_equal(resumed.state.v, whole.state.v)
    assert_array_equal(resumed.trace.objective, whole.trace.objective)


def test_rates_are_read_from_the_trace_alone():
    trace = Trace()
    for t in range(40):
        trace.append(0.0, 0.0, {"residual": 0.7**t + 0.2**t, "vector": 0.0})
    for _ in range(2):
        trace.append(0.0, 0.0, {"residual": 0.1, "vector": 1.0})
    rates = measured_rates(trace)
    assert_allclose(rates[0], 0.7, rtol=1e-6)
    assert np.isnan(rates[1])  # two rows are not a rate
    assert_allclose(predicted_rates([4.0, 2.0, 0.0], 0.0), [0.5, 0.0, np.nan])


@pytest.mark.parametrize(
    ("A", "k", "message"),
    [
        (np.ones((2, 3)), 1, "square"),
        (np.diag([1.0, np.nan]), 1, "NaN"),
        (np.eye(3), 0, "k=0"),
        (np.eye(3), 4, "between 1 and 3"),
        (np.eye(3), 1.5, "k=1.5"),
        (np.triu(np.ones((4, 4))), 1, "symmetric"),
        (aslinearoperator(np.diag([1.0, np.inf])), 1, "finite"),
        (np.eye(2) * 1j, 1, "real"),
    ],
)
def test_bad_input_is_refused(A, k, message):
    with pytest.raises(ValueError, match=message):
        power_iteration(A, k, rng=0)


@pytest.mark.parametrize("tol", [-1e-3, np.nan, "small"])
def test_a_bad_tolerance_is_refused(tol):
    with pytest.raises(ValueError, match="tol"):
        power_iteration(np.eye(2), tol=tol)
