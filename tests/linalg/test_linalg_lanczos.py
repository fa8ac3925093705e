"""Block Lanczos: true residual bounds, agreement with eigh, breakdown, restart, resumption."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse.linalg import aslinearoperator

from lemmata.core import Checkpoint, MaxSteps, Never, Settled, rounding, run
from lemmata.linalg import LanczosAlgorithm, lanczos, subspace_angles

N = 60
SPECTRA = {
    "wigner": lambda rng: rng.standard_normal(N) * 3,
    "decaying": lambda rng: 0.8 ** np.arange(N),
    "clustered": lambda rng: np.concatenate(
        [5 + 1e-4 * rng.standard_normal(4), rng.uniform(0, 1, N - 4)]
    ),
    "repeated": lambda rng: np.concatenate([[3.0, 3.0, 3.0, 2.0, 2.0], rng.uniform(-1, 1, N - 5)]),
    "low rank": lambda rng: np.concatenate([[7.0, 5.0, 1.0], np.zeros(N - 3)]),
    "negative": lambda rng: -rng.exponential(size=N),
    "huge": lambda rng: 1e12 * rng.uniform(0, 1, N),
    "identity": lambda rng: np.ones(N),
    "zero": lambda rng: np.zeros(N),
}

# What each kind leaves of overlaps in the basis; "selective" allows eps^¾, and a column of AQ meets three blocks.
LEFT = {
    "full": rounding(float, N),
    "selective": rounding(float, N) + 3 * np.finfo(float).eps ** 0.75,
}


def planted(spectrum, seed, dtype=np.float64):
    spectrum = np.asarray(spectrum, dtype=float)
    Q = np.linalg.qr(np.random.default_rng(seed).standard_normal((len(spectrum),) * 2))[0]
    A = (Q * spectrum) @ Q.T
    return ((A + A.T) / 2).astype(dtype)


def wanted(A, k, which):
    values = np.linalg.eigvalsh(A.astype(np.float64))
    return values[::-1][:k] if which == "top" else values[:k]


def nearest(values, A, spectrum=None):
    """The distance of each value to the spectrum of A."""
    spectrum = np.linalg.eigvalsh(A.astype(np.float64)) if spectrum is None else spectrum
    return np.abs(values[:, None] - spectrum).min(axis=1)


@pytest.mark.parametrize("reorthogonalise", ["full", "selective"])
@pytest.mark.parametrize("block", [1, 4])
@pytest.mark.parametrize("name", SPECTRA)
def test_the_bounds_bound_the_error_at_every_step(name, block, reorthogonalise):
    for seed in range(1):
        A = planted(SPECTRA[name](np.random.default_rng(seed)), seed)
        spectrum = np.linalg.eigvalsh(A)
        slack = LEFT[reorthogonalise] * np.abs(spectrum).max()
        for which in ("top", "bottom"):
            algorithm = LanczosAlgorithm(5, block, which, reorthogonalise)
            state = algorithm.init(A, np.random.default_rng(seed))
            for _ in range(N):
                assert (nearest(state.values, A, spectrum) <= state.bounds + slack).all()
                x = algorithm.attributes(state)["vectors"]
                assert_allclose(
                    np.linalg.norm(A @ x - x * state.values, axis=0), state.bounds, atol=slack
                )
                if algorithm.finished(state):
                    break
                state = algorithm.step(state, A)
            assert algorithm.finished(state)


@pytest.mark.parametrize("reorthogonalise", ["full", "selective"])
@pytest.mark.parametrize("which", ["top", "bottom"])
@pytest.mark.parametrize("name", SPECTRA)
def test_it_agrees_with_eigh_at_both_ends(name, which, reorthogonalise):
    """With a block of k, so that no multiplicity among the k wanted can be missed."""
    for seed in range(2):
        A = planted(SPECTRA[name](np.random.default_rng(seed)), seed)
        found = lanczos(A, 5, which=which, block=5, rng=seed, reorthogonalise=reorthogonalise)
        scale = max(np.abs(np.linalg.eigvalsh(A)).max(), 1e-300)
        assert found.converged
        assert_allclose(found.values, wanted(A, 5, which), atol=1e-9 * scale)
        assert (found.residuals <= 2e-10 * scale).all()
        assert_allclose(found.vectors.T @ found.vectors, np.eye(5), atol=rounding(float, N))


@given(
    st.integers(1, 12),
    st.integers(1, 12),
    st.integers(1, 5),
    st.integers(0, 12),
    st.integers(0, 2**32 - 1),
)
@settings(max_examples=150)
def test_any_size_block_and_rank_works(n, k, block, rank, seed):
    k, rank = min(k, n), min(rank, n)
    L = np.random.default_rng(seed).standard_normal((n, rank))
    A = L @ L.T
    found = lanczos(A, k, block=block, rng=seed, tol=1e-9)
    scale = np.abs(A).max(initial=0.0)
    assert found.converged
    assert_allclose(found.vectors.T @ found.vectors, np.eye(k), atol=rounding(float, n))
    assert (nearest(found.values, A) <= found.residuals + rounding(float, n) * n * scale).all()
    assert (np.diff(found.values) <= 0).all()


@pytest.mark.parametrize("seed", range(5))
def test_a_block_finds_every_copy_of_a_repeated_eigenvalue(seed):
    A = planted([3.0] * 4 + [2.0] * 3 + list(np.linspace(1, 0, 40)), seed)
    found = lanczos(A, 7, block=4, rng=seed)
    assert_allclose(found.values, [3.0] * 4 + [2.0] * 3, rtol=1e-12)


def test_one_vector_sees_one_copy_but_its_bounds_stay_true():
    A = planted([3.0, 3.0, 2.0, *np.linspace(1, 0, 30)], 0)
    found = lanczos(A, 2, block=1, rng=0)
    assert (nearest(found.values, A) <= found.residuals + rounding(float, 33) * 3).all()


@pytest.mark.parametrize("block", [1, 2, 5])
@pytest.mark.parametrize("seed", range(4))
def test_an_invariant_subspace_is_left_by_random_directions(seed, block):
    """Rank 3, ten values asked for: the Krylov space closes after 4 dimensions, and seven zeros must still be found."""
    A = planted([7.0, 5.0, 1.0] + [0.0] * 37, seed)
    found = lanczos(A, 10, block=block, rng=seed)
    assert found.converged
    assert_allclose(found.values, [7.0, 5.0, 1.0] + [0.0] * 7, atol=7 * rounding(float, 40))
    assert_allclose(found.vectors.T @ found.vectors, np.eye(10), atol=rounding(float, 40))


def test_a_diagonal_matrix_with_two_values_is_exhausted_without_harm():
    A = np.diag([1.0] * 5 + [0.0] * 5)
    for k in range(1, 11):
        found = lanczos(A, k, block=5, rng=k)
        assert_allclose(found.values, ([1.0] * 5 + [0.0] * 5)[:k], atol=1e-14 * 10)


@pytest.mark.parametrize("reorthogonalise", ["full", "selective"])
@pytest.mark.parametrize("seed", range(4))
def test_the_basis_stays_orthonormal_and_t_is_a_seen_in_it(seed, reorthogonalise):
    # converges early, where plain Lanczos loses orthogonality
    A = planted(SPECTRA["decaying"](None), seed)
    algorithm = LanczosAlgorithm(3, 2, reorthogonalise=reorthogonalise, tol=0.0)
    state = run(algorithm, A, rng=seed, stop=MaxSteps(25)).state
    Q = np.hstack(state.basis)
    lost = np.abs(Q.T @ Q - np.eye(state.dim)).max()
    assert lost < LEFT[reorthogonalise]
    rest = A @ Q - Q @ state.T - state.next @ state.coupling
    assert np.abs(rest).max() < LEFT[reorthogonalise]
    assert_allclose(
        algorithm.attributes(state)["values"], wanted(A, 3, "top"), atol=rounding(float, N)
    )


@pytest.mark.parametrize("which", ["top", "bottom"])
@pytest.mark.parametrize("seed", range(4))
def test_the_objective_never_rises_whatever_the_signs_also_across_restarts(seed, which):
    A = planted(np.random.default_rng(seed).standard_normal(150), seed)
    algorithm = LanczosAlgorithm(4, 2, which, max_dim=16)
    solution = run(algorithm, A, rng=seed, stop=MaxSteps(400))
    assert solution.stopped == "finished"
    assert solution.trace.largest_rise <= rounding(float, 150)
    sign = -1 if which == "top" else 1
    assert_allclose(solution.trace.last(), sign * wanted(A, 4, which).sum(), rtol=1e-10)
    assert solution.trace.extras["dim"].max() <= 16
    assert_allclose(solution.trace.last("residual"), solution.state.bounds.max())


@pytest.mark.parametrize("reorthogonalise", ["full", "selective"])
@pytest.mark.parametrize("block", [1, 3])
def test_a_thick_restart_gives_the_same_answer_in_bounded_memory(block, reorthogonalise):
    for seed in range(2):
        A = planted(np.random.default_rng(seed).uniform(0, 1, 200) ** 2, seed)
        free = lanczos(A, 4, block=block, rng=seed, reorthogonalise=reorthogonalise)
        tight = lanczos(
            A,
            4,
            block=block,
            max_dim=4 + 6 * block,
            max_iter=3000,
            rng=seed,
            reorthogonalise=reorthogonalise,
        )
        assert tight.converged
        assert tight.trace.extras["dim"].max() <= 4 + 6 * block
        assert len(tight.trace) > len(free.trace)
        assert_allclose(tight.values, free.values, rtol=1e-9)
        # residual 1e-10 over gaps of about 1e-2
        assert subspace_angles(tight.vectors, free.vectors).max() < 1e-6


def test_the_smallest_room_to_grow_is_enough():
    A = planted(np.linspace(0, 1, 40) ** 3, 0)
    assert_allclose(
        lanczos(A, 2, max_dim=3, max_iter=5000, rng=0).values, wanted(A, 2, "top"), atol=1e-9
    )


@pytest.mark.parametrize("stop_at", [0, 1, 5, 12, 30])
@pytest.mark.parametrize("reorthogonalise", ["full", "selective"])
def test_stopped_and_resumed_equals_never_stopped(stop_at, reorthogonalise):
    A = planted(np.random.default_rng(1).uniform(0, 1, 120), 1)
    # with restarts on the way
    algorithm = LanczosAlgorithm(3, 2, max_dim=20, reorthogonalise=reorthogonalise)
    whole = run(algorithm, A, rng=0, stop=Never())
    first = run(algorithm, A, rng=0, stop=MaxSteps(stop_at))
    second = run(algorithm, A, start=first.state, stop=Never())
    assert len(whole.trace) > 31
    for name in ("T", "next", "values", "bounds"):
        assert_array_equal(getattr(second.state, name), getattr(whole.state, name))
    assert_array_equal(second.attributes["vectors"], whole.attributes["vectors"])


@pytest.mark.parametrize("rank", [3, 40])
def test_a_checkpoint_is_resumed_bit_for_bit(tmp_path, rank):
    # rank 3: through the random directions
    A = planted([*np.linspace(2, 1, rank), *[0.0] * (40 - rank)], 1)
    algorithm = LanczosAlgorithm(6, 1)
    path = tmp_path / "lanczos.ckpt"
    run(algorithm, A, rng=0, stop=MaxSteps(1), callbacks=[Checkpoint(path, every=1)])
    resumed = run(algorithm, A, rng=0, stop=Never(), callbacks=[Checkpoint(path, every=1)])
    whole = run(algorithm, A, rng=0, stop=Never())
    assert_array_equal(resumed.trace.objective, whole.trace.objective)
    assert_array_equal(resumed.attributes["vectors"], whole.attributes["vectors"])


def test_a_step_leaves_its_state_alone():
    A = planted(np.linspace(0, 1, 30), 0)
    algorithm = LanczosAlgorithm(2, 2, max_dim=8)
    state = run(algorithm, A, rng=0, stop=MaxSteps(2)).state
    before = [np.copy(x) for x in (*state.basis, state.T, state.next, state.coupling, state.values)]
    once, twice = algorithm.step(state, A), algorithm.step(state, A)
    for x, y in zip(
        (*state.basis, state.T, state.next, state.coupling, state.values), before, strict=True
    ):
        assert_array_equal(x, y)
    assert_array_equal(once.next, twice.next)


def test_earlier_blocks_are_shared_not_copied():
    A = sp.diags_array(np.arange(1000.0))
    algorithm = LanczosAlgorithm(2, 40)
    state = algorithm.init(A, np.random.default_rng(0))
    later = algorithm.step(state, A)
    assert later.basis[0] is state.basis[0]


@pytest.mark.parametrize("block", [1, 5])
@pytest.mark.parametrize("seed", range(3))
def test_float32_keeps_a_float32_basis_and_is_right_to_its_rounding(seed, block):
    A = planted([5.0, 4.0, 3.5, *np.linspace(1, 0, 97)], seed, np.float32)
    found = lanczos(A, 3, block=block, tol=1e-6, rng=seed)
    assert found.converged
    assert found.vectors.dtype == np.float32
    assert found.values.dtype == np.float64
    assert_allclose(found.values, wanted(A, 3, "top"), rtol=rounding(np.float32, 100))
    assert_allclose(found.vectors.T @ found.vectors, np.eye(3), atol=rounding(np.float32, 100))
    assert (nearest(found.values, A) <= found.residuals + 5 * rounding(np.float32, 100)).all()


@pytest.mark.parametrize("reorthogonalise", ["full", "selective"])
@pytest.mark.parametrize("block", [1, 4])
def test_float32_breakdown_and_restart_go_well_too(block, reorthogonalise):
    for seed in range(3):
        A = planted([7.0, 5.0, 1.0] + [0.0] * 97, seed, np.float32)
        found = lanczos(
            A, 6, block=block, tol=1e-5, max_dim=20, rng=seed, reorthogonalise=reorthogonalise
        )
        assert found.converged
        assert_allclose(
            found.values, [7.0, 5.0, 1.0, 0.0, 0.0, 0.0], atol=7 * rounding(np.float32, 100)
        )
        assert_allclose(found.vectors.T @ found.vectors, np.eye(6), atol=rounding(np.float32, 100))


@pytest.mark.parametrize("size", [1e-200, 1e-30, 1e30, 1e140])
def test_scaling_the_operator_scales_the_answer(size):
    A = planted([5.0, 4.0, 3.0, *np.linspace(1, 0, 47)], 0)
    for block in (1, 3):
        found = lanczos(size * A, 3, block=block, rng=0)
        assert found.converged
        assert_allclose(found.values, np.array([5.0, 4.0, 3.0]) * size, rtol=1e-12)
        assert (found.residuals <= 1e-9 * size).all()


def test_numbers_too_large_to_square_are_refused():
    with pytest.raises(ValueError, match="scale it"):
        lanczos(1e200 * np.eye(3), 1, rng=0)


def test_sparse_matrices_and_operators_give_what_arrays_give():
    A = planted([9.0, 5.0, 2.0, *np.linspace(1, 0, 47)], 0)

    class Mine:
        shape = A.shape

        def __matmul__(self, X):
            return A @ X

    for other in (
        sp.csr_array(A),
        sp.csc_matrix(A),
        aslinearoperator(A),
        Mine(),
        A.tolist(),
        np.asfortranarray(A),
    ):
        assert_allclose(lanczos(other, 2, rng=0).values, [9.0, 5.0], rtol=1e-12)


def test_one_step_is_one_product_with_one_block():
    calls = []
    A = planted(np.linspace(0, 1, 80), 0)

    class Counting:
        shape, dtype = A.shape, A.dtype

        def __matmul__(self, X):
            calls.append(X.shape[1])
            return A @ X

    solution = run(LanczosAlgorithm(6, 3, max_dim=15), Counting(), rng=0, stop=MaxSteps(11))
    assert calls == [3] * (2 + 11)  # two until there are six Ritz pairs, then one a step
    assert solution.state.products == 13


def test_a_laplacian_gives_its_smallest_eigenvalues():
    """The path on n points: λ_j = 2 − 2cos(πj/n), the first of them 0, so that a tolerance relative to it would never do."""
    n = 100
    L = sp.diags_array(
        [[-1.0] * (n - 1), [1.0, *[2.0] * (n - 2), 1.0], [-1.0] * (n - 1)], offsets=[-1, 0, 1]
    ).tocsr()
    found = lanczos(L, 4, which="bottom", rng=0)
    assert found.converged
    assert_allclose(found.values, 2 - 2 * np.cos(np.pi * np.arange(4) / n), atol=1e-12)


def test_a_run_cut_short_says_so_and_its_bounds_hold():
    A = planted(np.linspace(0, 1, 300), 0)
    found = lanczos(A, 3, rng=0, max_iter=2)
    assert (found.converged, found.stopped) == (False, "max steps")
    assert (nearest(found.values, A) <= found.residuals).all()


def test_it_runs_under_the_usual_stopping_rules():
    A = planted(np.linspace(0, 1, 100) ** 4, 0)
    assert run(LanczosAlgorithm(2, 2), A, rng=0, stop=Settled(1e-3)).stopped == "settled"


@pytest.mark.parametrize(
    ("A", "k", "options", "message"),
    [
        (np.ones((2, 3)), 1, {}, "square"),
        (np.diag([1.0, np.nan]), 1, {}, "NaN"),
        (sp.csr_array(np.diag([1.0, np.inf])), 1, {}, "NaN"),
        (aslinearoperator(np.diag([1.0, np.nan])), 1, {}, "finite"),
        (np.eye(3), 0, {}, "k=0"),
        (np.eye(3), -1, {}, "k=-1"),
        (np.eye(3), 4, {}, "between 1 and 3"),
        (np.eye(3), True, {}, "k=True"),
        (np.eye(3), 1, {"block": 0}, "block=0"),
        (np.eye(3), 1, {"which": "middle"}, "'top' or 'bottom'"),
        (np.eye(3), 1, {"reorthogonalise": "never"}, "'full' or 'selective'"),
        (np.eye(9), 3, {"max_dim": 3}, "at least k \\+ block = 4"),
        (np.eye(3), 1, {"tol": -1.0}, "tol"),
        (np.triu(np.ones((5, 5))), 1, {}, "symmetric"),
        (np.eye(3) * 1j, 1, {}, "real"),
        (np.zeros((0, 0)), 1, {}, "shape"),
    ],
)
def test_bad_input_is_refused(A, k, options, message):
    with pytest.raises(ValueError, match=message):
        lanczos(A, k, rng=0, **options)


def test_an_operator_that_breaks_its_promise_is_named():
    class Wrong:
        shape, dtype = (4, 4), np.dtype(float)

        def __matmul__(self, X):
            return X[:2]

    with pytest.raises(ValueError, match="its shape promises"):
        lanczos(Wrong(), 1, rng=0)
