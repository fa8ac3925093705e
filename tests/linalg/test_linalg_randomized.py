"""Randomized subspace iteration and SVD against LAPACK, and against what theory promises of them."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse.linalg import aslinearoperator

from lemmata.core import MaxSteps, Settled, rounding, run, store
from lemmata.linalg import CentredRows, CentredScatter, RandomizedAlgorithm, randomized_svd
from lemmata.linalg.randomized import orthonormalise, signs, unseen_norm

SPECTRA = {
    "geometric": 0.7 ** np.arange(40),
    "power law": 1.0 / np.arange(1, 41),
    "a cliff": np.r_[np.ones(8), np.full(32, 1e-3)],
    "low rank": np.r_[np.linspace(2, 1, 8), np.zeros(32)],
    "many decades": 10.0 ** -np.arange(40),
}


def with_spectrum(spectrum, seed, n=90):
    """A matrix with these singular values and random singular vectors."""
    rng = np.random.default_rng(seed)
    U = np.linalg.qr(rng.standard_normal((n, len(spectrum))))[0]
    V = np.linalg.qr(rng.standard_normal((len(spectrum), len(spectrum))))[0]
    return (U * spectrum) @ V.T


def psd(spectrum, seed, dtype=np.float64):
    V = np.linalg.qr(np.random.default_rng(seed).standard_normal((len(spectrum),) * 2))[0]
    S = (V * spectrum) @ V.T
    return ((S + S.T) / 2).astype(dtype)


def assert_orthonormal(Q):
    assert np.abs(Q.T @ Q - np.eye(Q.shape[1])).max() <= rounding(Q.dtype, Q.shape[0])


# --- orthonormal bases ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("decades", [0, 2, 6, 20])
def test_a_basis_is_orthonormal_and_spans_its_columns_however_ill_conditioned(dtype, decades):
    for seed in range(5):
        rng = np.random.default_rng(seed)
        Y = (
            rng.standard_normal((200, 12))
            @ (np.logspace(0, -decades, 12)[:, None] * rng.standard_normal((12, 12)))
        ).astype(dtype)
        Q = orthonormalise(Y)
        assert Q.dtype == dtype
        assert_orthonormal(Q)
        outside = Y - Q @ (Q.T @ Y)
        assert np.linalg.norm(outside) <= rounding(dtype, Y.size) * np.linalg.norm(Y)


@pytest.mark.parametrize(
    "Y", [np.zeros((9, 3)), np.ones((9, 3)), np.eye(5), np.outer(np.arange(7.0), [1, 0, 2])]
)
def test_a_basis_of_dependent_or_zero_columns_is_orthonormal_too(Y):
    Q = orthonormalise(Y)
    assert Q.shape == Y.shape
    assert_orthonormal(Q)
    assert np.allclose(Q @ (Q.T @ Y), Y)


def test_signs_do_not_depend_on_the_signs_given():
    V = np.random.default_rng(0).standard_normal((9, 4))
    flipped = V * np.array([1, -1, -1, 1])
    assert np.array_equal(V * signs(V), flipped * signs(flipped))
    assert ((V * signs(V)).max(axis=0) == np.abs(V).max(axis=0)).all()


# --- the SVD ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SPECTRA)
@pytest.mark.parametrize("seed", range(3))
def test_the_svd_agrees_with_lapack_where_the_spectrum_lets_it(name, seed):
    spectrum, k = SPECTRA[name], 8
    A = with_spectrum(spectrum, seed)
    found = randomized_svd(A, k, passes=6, rng=seed)
    assert_orthonormal(found.U)
    assert_orthonormal(found.Vt.T)
    assert (np.diff(found.s) <= 0).all()
    # (AAᵀ)^q AΩ misses σ_k by about (σ_19/σ_k)^(4q+2) of it, times a Gaussian constant (HMT 9.3): 10³ is ample.
    gap = (spectrum[18] / spectrum[k - 1]) ** 26
    tolerance = rounding(np.float64, A.size) * spectrum[0] + 1e3 * gap * spectrum[:k]
    assert (np.abs(found.s - spectrum[:k]) <= tolerance).all()
    best = spectrum[k]
    achieved = np.linalg.norm(A - (found.U * found.s) @ found.Vt, 2)
    assert achieved >= best - rounding(np.float64, A.size)  # Eckart–Young: nobody does better
    assert achieved <= found.error + found.tail + rounding(np.float64, A.size)


@pytest.mark.parametrize("name", SPECTRA)
def test_no_singular_value_is_overestimated(name):
    """σ_j(QᵀA) ≤ σ_j(A) for any orthonormal Q, however poor."""
    for seed in range(10):
        A = with_spectrum(SPECTRA[name], seed)
        found = randomized_svd(A, 5, oversampling=0, passes=0, rng=seed)
        assert (
            found.s <= SPECTRA[name][:5] + rounding(np.float64, A.size) * SPECTRA[name][0]
        ).all()


def test_more_passes_never_hurt_much_and_help_a_flat_spectrum():
    A = with_spectrum(SPECTRA["power law"], 0)
    captured = [
        np.mean(
            [
                np.sum(randomized_svd(A, 5, oversampling=2, passes=q, rng=seed).s ** 2)
                for seed in range(20)
            ]
        )
        for q in (0, 1, 2, 4)
    ]
    assert (np.diff(captured) > 0).all()


def test_the_error_bound_fails_no_more_often_than_it_says():
    """With one probe it may be exceeded once in ten; with ten probes once in 10¹⁰."""
    trials, exceeded = 400, 0
    A = with_spectrum(SPECTRA["power law"], 0)
    for seed in range(trials):
        rng = np.random.default_rng(seed)
        Q = orthonormalise(A @ rng.standard_normal((40, 10)))
        truth = np.linalg.norm(A - Q @ (Q.T @ A), 2)
        exceeded += unseen_norm(A, Q, 1, rng) < truth
        assert unseen_norm(A, Q, 10, rng) >= truth
    # five standard deviations of the worst case
    assert exceeded <= 0.1 * trials + 5 * np.sqrt(0.1 * 0.9 * trials)
    lone = np.zeros((40, 40))
    lone[0, 0] = 1.0  # rank one is the worst case: |g|·7.98 < 1 happens with probability 0.0997
    nothing = np.zeros((40, 1))
    count = sum(
        unseen_norm(lone, nothing, 1, np.random.default_rng(seed)) < 1 for seed in range(2000)
    )
    assert abs(count - 2000 * 0.0997) <= 5 * np.sqrt(2000 * 0.0997 * 0.9003)


def test_the_error_bound_is_no_more_than_its_constant_away():
    for seed in range(20):
        A = with_spectrum(SPECTRA["geometric"], seed)
        found = randomized_svd(A, 5, rng=seed)
        # E‖(I−QQᵀ)Aω‖² is the squared Frobenius norm of the rest
        rest = np.linalg.norm(SPECTRA["geometric"][15:])
        assert SPECTRA["geometric"][15] <= found.error <= 10 * np.sqrt(2 / np.pi) * 5 * rest


def test_float32_stays_float32_and_is_right_to_its_precision():
    A = with_spectrum(SPECTRA["geometric"], 1).astype(np.float32)
    for source in (A, sp.csr_array(A), aslinearoperator(A)):
        found = randomized_svd(source, 4, rng=0)
        assert found.U.dtype == found.s.dtype == found.Vt.dtype == np.float32
        assert np.allclose(
            found.s, SPECTRA["geometric"][:4], rtol=0, atol=rounding(np.float32, A.size)
        )


def test_sparse_operator_and_dense_input_give_the_same_answer():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((80, 30)) * (rng.random((80, 30)) < 0.2)
    centred = X - X.mean(axis=0)
    pairs = [
        (sp.csr_array(X), X),
        (sp.csc_array(X), X),
        (aslinearoperator(X), X),
        (CentredRows(sp.csr_array(X)), centred),
    ]
    for source, dense in pairs:
        a, b = randomized_svd(source, 6, passes=4, rng=3), randomized_svd(dense, 6, passes=4, rng=3)
        assert np.allclose(a.s, b.s, rtol=1e-10)
        assert np.allclose(a.U, b.U, atol=1e-7)
        assert np.allclose(a.Vt, b.Vt, atol=1e-7)
        assert np.isclose(a.error, b.error, rtol=1e-6)


def test_the_same_seed_gives_the_same_result_and_a_generator_moves_on():
    A = with_spectrum(SPECTRA["power law"], 0)
    assert np.array_equal(randomized_svd(A, 3, rng=5).U, randomized_svd(A, 3, rng=5).U)
    rng = np.random.default_rng(5)
    assert randomized_svd(A, 3, rng=rng).error != randomized_svd(A, 3, rng=rng).error


@given(st.integers(0, 2**32), st.integers(1, 20), st.integers(1, 20), st.floats(0, 1), st.data())
@settings(max_examples=60)
def test_with_all_columns_sampled_any_matrix_is_decomposed_exactly(seed, n, d, density, data):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((n, d)) * (rng.random((n, d)) < density)
    k = data.draw(st.integers(1, min(n, d)))
    found = randomized_svd(sp.csr_array(A), k, oversampling=20, rng=seed)
    exact = np.linalg.svd(A, compute_uv=False)
    scale = max(exact[0], 1e-300)
    assert np.abs(found.s - exact[:k]).max() <= rounding(np.float64, A.size) * scale
    rest = np.linalg.norm(A - (found.U * found.s) @ found.Vt, 2)
    assert abs(rest - (exact[k] if k < len(exact) else 0)) <= rounding(np.float64, A.size) * scale
    assert_orthonormal(found.U)


# --- the loop ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SPECTRA)
def test_subspace_iteration_finds_the_leading_eigenpairs(name):
    spectrum, k = SPECTRA[name], 5
    for seed in range(3):
        S = psd(spectrum, seed)
        solution = run(RandomizedAlgorithm(k), S, stop=MaxSteps(60), rng=seed)
        values, vectors = solution.attributes["values"], solution.attributes["vectors"]
        gap = (spectrum[15] / spectrum[k - 1]) ** 122
        assert np.allclose(
            values, spectrum[:k], rtol=0, atol=rounding(np.float64, 1600) + 1e3 * gap
        )
        assert_orthonormal(vectors)
        residuals = np.linalg.norm(S @ vectors - vectors * values, axis=0)
        assert abs(residuals.max() / values[0] - solution.trace.last("residual")) <= rounding(
            np.float64, 1600
        )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", SPECTRA)
def test_the_objective_never_rises(name, dtype):
    for seed in range(5):
        S = psd(SPECTRA[name], seed, dtype)
        trace = run(RandomizedAlgorithm(4, oversampling=2), S, stop=MaxSteps(25), rng=seed).trace
        assert trace.largest_rise <= rounding(dtype, S.size)


def test_every_ritz_value_rises_towards_an_eigenvalue_and_none_exceeds_it():
    S = psd(SPECTRA["power law"], 0)
    algorithm = RandomizedAlgorithm(4, oversampling=4)
    state = algorithm.init(S, np.random.default_rng(0))
    for _ in range(15):
        after = algorithm.step(state, S)
        assert (after.values >= state.values - rounding(np.float64, S.size)).all()
        assert (after.values <= SPECTRA["power law"][:8] + rounding(np.float64, S.size)).all()
        state = after


def test_the_state_carries_its_own_numbers_and_a_step_leaves_it_alone():
    S = psd(SPECTRA["geometric"], 0)
    algorithm = RandomizedAlgorithm(3)
    state = algorithm.init(S, np.random.default_rng(0))
    copy = [part.copy() for part in (state.Q, state.SQ, state.values)]
    algorithm.step(state, S)
    assert all(
        np.array_equal(a, b) for a, b in zip(copy, (state.Q, state.SQ, state.values), strict=True)
    )
    assert_orthonormal(state.Q)
    assert np.allclose(state.SQ, S @ state.Q, atol=rounding(np.float64, S.size))
    assert np.isclose(algorithm.objective(state), -np.trace(state.Q[:, :3].T @ S @ state.Q[:, :3]))
    arrays: dict = {}
    again = store.decode(store.encode(state, arrays), arrays)
    assert np.array_equal(algorithm.step(again, S).Q, algorithm.step(state, S).Q)


def test_a_step_costs_one_product():
    class Counting:
        shape, dtype, products = (30, 30), np.dtype(np.float64), 0
        S = psd(0.5 ** np.arange(30), 0)

        def __matmul__(self, V):
            self.products += 1
            return self.S @ V

    S = Counting()
    run(RandomizedAlgorithm(3), S, stop=MaxSteps(7), rng=0)
    assert S.products == 2 + 7


def test_the_scatter_of_sparse_rows_gives_the_components_of_the_dense_ones():
    rng = np.random.default_rng(0)
    X = (rng.random((400, 50)) < 0.1) * rng.random((400, 50)) * np.linspace(1, 5, 50)
    C = X - X.mean(axis=0)
    for dtype in (np.float32, np.float64):
        S = CentredScatter(sp.csr_array(X.astype(dtype)))
        solution = run(RandomizedAlgorithm(5), S, stop=Settled(1e-12) | MaxSteps(300), rng=0)
        assert solution.attributes["vectors"].dtype == dtype
        exact = np.linalg.svd(C, compute_uv=False)[:5] ** 2
        assert np.allclose(
            solution.attributes["values"], exact, rtol=rounding(dtype, X.size) + 1e-9
        )


def test_a_zero_operator_has_zero_values_and_an_orthonormal_basis():
    solution = run(RandomizedAlgorithm(2), np.zeros((5, 5)), stop=MaxSteps(3), rng=0)
    assert np.array_equal(solution.attributes["values"], np.zeros(2))
    assert_orthonormal(solution.attributes["vectors"])
    assert solution.trace.last("residual") == 0


# --- bad input --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [0, -1, 7, 2.0, True, None])
def test_a_rank_that_does_not_fit_is_refused_with_what_does(k):
    with pytest.raises(ValueError, match=r"k=.* between 1 and 6"):
        randomized_svd(np.ones((6, 9)), k)
    with pytest.raises(ValueError, match=r"k=.* between 1 and 6"):
        run(RandomizedAlgorithm(k), np.eye(6))


def test_other_bad_arguments_say_what_is_accepted():
    with pytest.raises(ValueError, match=r"oversampling=-1 .* int >= 0"):
        randomized_svd(np.eye(4), 2, oversampling=-1)
    with pytest.raises(ValueError, match=r"oversampling=1.5 .* int >= 0"):
        run(RandomizedAlgorithm(2, oversampling=1.5), np.eye(4))
    with pytest.raises(ValueError, match=r"passes=-1 .* int >= 0"):
        randomized_svd(np.eye(4), 2, passes=-1)
    with pytest.raises(ValueError, match="probes=0"):
        randomized_svd(np.eye(4), 2, probes=0)
    with pytest.raises(ValueError, match="S is 4 × 3; a symmetric matrix is square"):
        run(RandomizedAlgorithm(2), np.ones((4, 3)))
    with pytest.raises(TypeError, match="is not a matrix"):
        randomized_svd("matrix", 1)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_numbers_that_are_not_finite_are_refused(bad):
    A = np.eye(5)
    A[2, 3] = bad
    for source in (A, sp.csr_array(A), aslinearoperator(A)):
        with pytest.raises(ValueError, match="NaN or infinity"):
            randomized_svd(source, 2, rng=0)
        with pytest.raises(ValueError, match="NaN or infinity"):
            run(RandomizedAlgorithm(2), source, rng=0)
