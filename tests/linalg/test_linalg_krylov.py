"""Arnoldi's relation, its residuals and what they mean; and the best approximation in the spectral norm."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from lemmata.linalg import arnoldi, best_rank_k, spectral_norm

RNG = np.random.default_rng(0)
A = RNG.normal(size=(40, 40)) / 6
A[0, 0] += 5


@pytest.mark.parametrize("m", [1, 7, 40])
def test_the_basis_is_orthonormal_and_the_relation_holds(m):
    found = arnoldi(A, m, rng=0)
    Q, H = found.basis, found.hessenberg
    assert_allclose(Q.T @ Q, np.eye(m), atol=1e-13)
    assert_allclose(Q.T @ A @ Q, H, atol=1e-12)
    assert np.abs(np.tril(H, -2)).max(initial=0) == 0
    own = np.linalg.norm(A @ found.vectors - found.vectors * found.values, axis=0)
    assert_allclose(found.residuals, own, atol=1e-12)
    assert "residuals_stated" in found.certificate_.held


def test_the_outermost_eigenvalue_comes_first_and_all_in_the_end():
    true = np.linalg.eigvals(A)
    assert abs(arnoldi(A, 20, rng=0).values[0] - true[np.abs(true).argmax()]) < 1e-8
    whole = arnoldi(A, 40, rng=0)
    assert_allclose(np.sort_complex(whole.values), np.sort_complex(true), atol=1e-10)
    assert whole.certificate_.holds


def test_a_pair_is_exact_for_a_matrix_as_near_as_its_residual():
    found = arnoldi(A, 8, rng=0)
    assert "eigenpairs_close" in found.certificate_.failed
    theta, x, r = found.values[0], found.vectors[:, 0], found.residuals[0]
    E = np.outer(A @ x - theta * x, x.conj())
    assert spectral_norm(np.block([[E.real, -E.imag], [E.imag, E.real]])) == pytest.approx(r)
    assert_allclose((A - E) @ x, theta * x, atol=1e-12)


def test_of_a_symmetric_matrix_it_is_lanczos():
    S = A + A.T
    largest = sorted(np.linalg.eigvalsh(S), key=abs)[::-1][:3]
    assert_allclose(arnoldi(S, 40, rng=0).values[:3].real, largest, atol=1e-10)
    H = arnoldi(S, 10, rng=0).hessenberg
    assert np.abs(np.triu(H, 2)).max() < 1e-12


def test_the_space_ends_where_the_matrix_maps_it_into_itself():
    found = arnoldi(np.diag([3.0, 2.0, 1.0]), 3, start=[1.0, 1.0, 0.0])
    assert_allclose(found.values, [3, 2])
    assert found.residuals.max() < 1e-12
    assert_allclose(arnoldi(np.zeros((4, 4)), 3, rng=0).values, [0])


@pytest.mark.parametrize(
    ("matrix", "m", "start", "message"),
    [
        (np.ones((2, 3)), 1, None, "square"),
        (np.eye(3), 4, None, "between 1 and 3"),
        (np.eye(3), 2, np.zeros(3), "not all 0"),
        (np.full((2, 2), np.nan), 1, None, "NaN"),
    ],
)
def test_bad_input_of_arnoldi(matrix, m, start, message):
    with pytest.raises(ValueError, match=message):
        arnoldi(matrix, m, start=start)


@pytest.mark.parametrize("k", [0, 1, 3])
def test_no_matrix_of_rank_k_is_nearer_in_the_spectral_norm(k):
    """Prop. 2.3.6 of CIL: B of rank k has a kernel that meets the first k + 1 right vectors; there ‖(A − B)x‖ ≥ σ_{k+1}."""
    M = RNG.normal(size=(8, 6))
    _, s, Vt = np.linalg.svd(M, full_matrices=False)
    near = best_rank_k(M, k) if k else None
    best = (near.U * near.s) @ near.Vt if k else np.zeros_like(M)
    assert spectral_norm(M - best) == pytest.approx(s[k])
    for _ in range(20):
        B = RNG.normal(size=(8, k)) @ RNG.normal(size=(k, 6))
        V = Vt[: k + 1].T  # x in their span with Bx = 0
        x = V @ np.linalg.svd(B @ V)[2][-1]
        assert np.linalg.norm(B @ x) < 1e-12
        assert np.linalg.norm((M - B) @ x) >= s[k] - 1e-12


def test_the_nuclear_norm_is_the_convex_envelope_of_the_rank():
    """Thm 2.5.2: below the rank where ‖A‖₂ ≤ 1, and no convex function between: A is a mean of matrices whose ranks add so."""
    for _ in range(20):
        B = RNG.normal(size=(5, 4))
        U, s, Vt = np.linalg.svd(B / np.linalg.norm(B, 2) * RNG.random(), full_matrices=False)
        assert s.sum() <= np.count_nonzero(s > 1e-14) + 1e-12
        # s is a mean of vectors of 0 and 1 (thresholds t uniform on [0, 1]): A = E U[s > t]Vᵀ, E rank = Σ P(s > t) = ‖A‖_*
        cuts = np.r_[0, np.sort(s)]
        weights, levels = np.diff(cuts), cuts[1:]
        mean = sum(w * (U * (s >= t)) @ Vt for w, t in zip(weights, levels, strict=True))
        assert_allclose(mean, (U * s) @ Vt, atol=1e-13)
        ranks = [np.count_nonzero(s >= t) for t in levels]
        assert np.dot(weights, ranks) == pytest.approx(s.sum())
