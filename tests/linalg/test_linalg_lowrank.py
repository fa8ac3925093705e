"""Eckart–Young, the shrinkage operator as a prox, norms, subspace angles."""

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose
from scipy.sparse.linalg import aslinearoperator

from lemmata.core import rounding
from lemmata.linalg import (
    LowRank,
    best_rank_k,
    frobenius_norm,
    nuclear_norm,
    shrink,
    spectral_norm,
    subspace_angles,
)

SEEDS = range(2)
KINDS = {
    "array": lambda A: A,
    "csr": sp.csr_array,
    "csc matrix": sp.csc_matrix,
    "operator": aslinearoperator,
    "low rank": lambda A: LowRank(*np.linalg.svd(A, full_matrices=False)),
}
entries = st.floats(-1e3, 1e3).filter(lambda x: x == 0 or abs(x) > 1e-3)
matrices = st.tuples(st.integers(1, 7), st.integers(1, 7)).flatmap(
    lambda s: arrays(np.float64, s, elements=entries)
)


def sparse_example(seed, n=40, m=25):
    return sp.random_array((n, m), density=0.3, rng=np.random.default_rng(seed)).toarray()


# --- Eckart–Young -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(40, 25), (25, 40)])
@pytest.mark.parametrize("k", [1, 3, 10, 25])
def test_the_error_is_the_tail_of_the_spectrum(kind, shape, k):
    for seed in SEEDS:
        A = sparse_example(seed, *shape)
        B = best_rank_k(KINDS[kind](A), k)
        s = np.linalg.svd(A, compute_uv=False)
        error = A - B.matrix()
        assert B.shape == A.shape
        assert_allclose(np.linalg.norm(error) ** 2, np.sum(s[k:] ** 2), atol=1e-9 * s[0] ** 2)
        assert_allclose(B.s, s[:k], atol=1e-9 * s[0])
        assert_allclose(B.U.T @ B.U, np.eye(k), atol=rounding(float, 40))
        assert_allclose(B.Vt @ B.Vt.T, np.eye(k), atol=rounding(float, 40))


@given(matrices, st.integers(1, 7), st.integers(0, 2**32 - 1))
@settings(max_examples=80)
def test_no_other_matrix_of_rank_k_is_nearer(A, k, seed):
    k, rng = min(k, *A.shape), np.random.default_rng(seed)
    B = best_rank_k(A, k)
    least = np.linalg.norm(A - B.matrix())
    for size in (1e-6, 1e-2, 1.0):
        U = B.U * B.s + size * rng.standard_normal((len(A), k))
        other = U @ (B.Vt + size * rng.standard_normal((k, A.shape[1])))
        assert np.linalg.norm(A - other) >= least - rounding(float, 49) * (1 + np.linalg.norm(A))
    V = rng.standard_normal((A.shape[1], k))
    assert np.linalg.norm(A - A @ V @ np.linalg.pinv(V)) >= least - rounding(
        float, 49
    ) * np.linalg.norm(A)


def test_repeated_singular_values_of_an_operator_are_all_found():
    A = sp.block_diag([np.ones((3, 3))] * 4 + [np.eye(5)]).tocsr()  # 3, 3, 3, 3, then five ones
    assert_allclose(best_rank_k(A, 4).s, 3.0, rtol=1e-12)
    assert_allclose(best_rank_k(A, 7).s, [3.0] * 4 + [1.0] * 3, rtol=1e-12)


# --- shrinkage --------------------------------------------------------------------------------------------------------


@given(matrices, st.floats(0, 1e3))
@settings(max_examples=100)
def test_shrink_solves_its_prox_problem(A, tau):
    """0 ∈ B − A + τ∂‖B‖_*: A − B = τ(UVᵀ + W) with UᵀW = 0, WV = 0, ‖W‖₂ ≤ 1."""
    B = shrink(A, tau)
    G = A - B.matrix()
    size = np.linalg.norm(A) + tau
    tol = rounding(float, 49) * size
    W = G - tau * B.U @ B.Vt
    assert np.abs(B.U.T @ W).max(initial=0.0) <= tol
    assert np.abs(W @ B.Vt.T).max(initial=0.0) <= tol
    assert np.linalg.norm(W, 2) <= tau + tol
    assert (B.s > 0).all()


@pytest.mark.parametrize("seed", SEEDS)
def test_shrink_beats_every_perturbation(seed):
    rng = np.random.default_rng(seed)
    A, tau = rng.standard_normal((8, 6)), 1.0

    def objective(M):
        return 0.5 * np.linalg.norm(A - M) ** 2 + tau * np.linalg.svd(M, compute_uv=False).sum()

    B = shrink(A, tau).matrix()
    for size in 10.0 ** np.arange(-5, 2):
        assert objective(B) <= objective(B + size * rng.standard_normal(B.shape))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("tau", [0.0, 0.5, 2.0, 100.0])
def test_shrink_of_anything_is_shrink_of_its_array(kind, tau):
    for seed in SEEDS:
        A = sparse_example(seed)
        s = np.linalg.svd(A, compute_uv=False)
        B = shrink(KINDS[kind](A), tau)
        assert B.rank == np.count_nonzero(s > tau)
        assert_allclose(B.matrix(), shrink(A, tau).matrix(), atol=1e-8 * s[0])


def test_shrinking_is_non_expansive():
    """A prox never moves two points apart."""
    rng = np.random.default_rng(0)
    for _ in range(30):
        A, C = rng.standard_normal((2, 9, 5))
        distance = np.linalg.norm(shrink(A, 0.7).matrix() - shrink(C, 0.7).matrix())
        assert distance <= np.linalg.norm(A - C) * (1 + rounding(float, 45))


# --- norms ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_the_norms_are_those_of_the_singular_values(kind):
    for seed in SEEDS:
        A = sparse_example(seed, 30, 300 if seed % 2 else 12)
        s, M = np.linalg.svd(A, compute_uv=False), KINDS[kind](A)
        assert_allclose(nuclear_norm(M), s.sum(), rtol=1e-12)
        assert_allclose(spectral_norm(M), s[0], rtol=1e-12)
        assert_allclose(frobenius_norm(M), np.sqrt(np.sum(s**2)), rtol=1e-12)


@given(matrices)
@settings(max_examples=60)
def test_the_norms_are_ordered(A):
    two, fro, nuc = spectral_norm(A), frobenius_norm(A), nuclear_norm(A)
    slack = 1 + rounding(float, 49)
    r = max(np.linalg.matrix_rank(A), 1)
    assert two <= fro * slack
    assert fro <= nuc * slack
    assert nuc <= np.sqrt(min(A.shape)) * fro * slack
    assert fro <= np.sqrt(min(A.shape)) * two * slack
    assert r <= min(A.shape)


def test_nuclear_and_spectral_norm_are_dual():
    rng = np.random.default_rng(0)
    for _ in range(20):
        A, B = rng.standard_normal((2, 6, 4))
        assert abs(np.sum(A * B)) <= nuclear_norm(A) * spectral_norm(B)
    U, _, Vt = np.linalg.svd(A, full_matrices=False)
    assert_allclose(np.sum(A * (U @ Vt)), nuclear_norm(A), rtol=1e-13)


def test_the_frobenius_norm_neither_overflows_nor_counts_split_entries_apart():
    assert_allclose(frobenius_norm(np.full((2, 2), 1e200)), 2e200)
    assert_allclose(frobenius_norm(np.full((100, 100), 1e30, dtype=np.float32)), 1e32, rtol=1e-6)
    # one entry of 7, stored in two parts
    split = sp.coo_array(([3.0, 4.0], ([0, 0], [0, 0])), shape=(2, 2))
    assert frobenius_norm(split) == 7.0
    assert (
        frobenius_norm(np.zeros((2, 3)))
        == nuclear_norm(np.zeros((2, 3)))
        == spectral_norm(np.zeros((2, 3)))
        == 0.0
    )
    assert spectral_norm(sp.csr_array((3, 2))) == 0.0


def test_integers_and_float32_are_accepted():
    assert_allclose(nuclear_norm([[3, 0], [0, 4]]), 7.0)
    B = best_rank_k(sparse_example(0).astype(np.float32), 3)
    assert B.dtype == B.s.dtype == np.float32
    S = best_rank_k(sp.csr_array(sparse_example(0).astype(np.float32)), 3)
    assert S.dtype == np.float32
    assert_allclose(S.s, B.s, rtol=rounding(np.float32, 40))
    assert shrink(sparse_example(0).astype(np.float32), 0.5).matrix().dtype == np.float32


def test_factors_multiply_like_their_matrix():
    B = best_rank_k(sparse_example(0), 4)
    X = np.random.default_rng(0).standard_normal((25, 3))
    tol = rounding(float, 40) * 10
    assert_allclose(B @ X, B.matrix() @ X, atol=tol)
    assert_allclose(B @ X[:, 0], B.matrix() @ X[:, 0], atol=tol)
    assert_allclose(B.T @ B.U, B.matrix().T @ B.U, atol=tol)
    assert_allclose(B.U.T @ B, B.U.T @ B.matrix(), atol=tol)
    assert B.rank == 4


# --- angles -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dims", [(1, 1), (3, 3), (2, 5), (5, 2), (8, 8)])
def test_the_angles_agree_with_scipy(dims):
    for seed in SEEDS:
        rng = np.random.default_rng(seed)
        U, V = rng.standard_normal((8, dims[0])), rng.standard_normal((8, dims[1]))
        kappa = max(np.linalg.cond(U), np.linalg.cond(V))
        tol = rounding(float, 8) * kappa
        assert_allclose(subspace_angles(U, V), scipy.linalg.subspace_angles(U, V), atol=tol)
        assert_allclose(subspace_angles(U, V), subspace_angles(V, U), atol=tol)


@pytest.mark.parametrize(
    "angle", [0.0, 1e-15, 1e-10, 1e-5, 0.3, np.pi / 4, np.pi / 2 - 1e-10, np.pi / 2]
)
def test_planted_angles_are_found_to_rounding(angle):
    for seed in SEEDS:
        Q = np.linalg.qr(np.random.default_rng(seed).standard_normal((20, 4)))[0]
        U = Q[:, :2]
        V = np.column_stack(
            [
                np.cos(angle) * Q[:, 0] + np.sin(angle) * Q[:, 2],
                np.cos(0.1) * Q[:, 1] + np.sin(0.1) * Q[:, 3],
            ]
        )
        expected = sorted([angle, 0.1], reverse=True)
        assert_allclose(subspace_angles(U, V), expected, atol=rounding(float, 20))


def test_angles_do_not_depend_on_the_basis():
    rng = np.random.default_rng(0)
    U, V = rng.standard_normal((2, 12, 3))
    mixed = U @ rng.standard_normal((3, 5))  # five columns, the same three dimensions
    assert_allclose(subspace_angles(mixed, V), subspace_angles(U, V), atol=1e-12)


# --- bad input --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "function", [lambda A: best_rank_k(A, 1), lambda A: shrink(A, 1.0), nuclear_norm, spectral_norm]
)
@pytest.mark.parametrize(
    ("A", "message"),
    [
        (np.array([[np.nan, 1.0]]), "NaN"),
        (sp.csr_array([[np.inf, 1.0]]), "NaN"),
        (aslinearoperator(np.array([[np.nan, 1.0], [1.0, 1.0]])), "finite"),
        (np.ones(3), "shape"),
        (np.zeros((0, 3)), "shape"),
        (np.array([[1j]]), "real"),
    ],
)
def test_bad_matrices_are_refused(function, A, message):
    with pytest.raises(ValueError, match=message):
        function(A)


@pytest.mark.parametrize("k", [0, -1, 4, 2.0, None])
def test_bad_ranks_are_refused(k):
    with pytest.raises(ValueError, match="between 1 and 3"):
        best_rank_k(np.ones((3, 5)), k)


@pytest.mark.parametrize("tau", [-1.0, np.nan, np.inf, "a"])
def test_bad_thresholds_are_refused(tau):
    with pytest.raises(ValueError, match="tau"):
        shrink(np.eye(2), tau)


def test_angles_of_nothing_or_of_different_spaces_are_refused():
    with pytest.raises(ValueError, match="3 and 4"):
        subspace_angles(np.ones(3), np.ones(4))
    with pytest.raises(ValueError, match="zero"):
        subspace_angles(np.zeros((3, 1)), np.ones(3))
