"""Projections: idempotent, self-adjoint, orthogonal residuals, the nearest point of the span."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose

from lemmata.core import rounding
from lemmata.linalg import Projection, certify_projection, orthonormal_basis, pseudo_inverse

SEEDS = range(2)


def spanning_set(n, m, seed, dtype=np.float64):
    return np.random.default_rng(seed).standard_normal((n, m)).astype(dtype)


entries = st.floats(-1e3, 1e3).filter(lambda x: x == 0 or abs(x) > 1e-3)
matrices = st.tuples(st.integers(1, 8), st.integers(1, 8)).flatmap(
    lambda s: arrays(np.float64, s, elements=entries)
)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("seed", SEEDS)
def test_projecting_twice_changes_nothing_and_p_is_symmetric(seed, dtype):
    P = Projection.onto(spanning_set(30, 6, seed, dtype))
    M = P.matrix()
    assert M.dtype == dtype
    tol = rounding(dtype, terms=30)
    assert_allclose(M @ M, M, atol=tol)
    assert_allclose(M, M.T, atol=tol)
    assert P.rank == 6
    assert abs(np.trace(M) - 6) < 6 * tol


@given(matrices)
@settings(max_examples=100)
def test_the_certificate_of_any_span_holds(V):
    if not V.any():
        with pytest.raises(ValueError, match="zero"):
            Projection.onto(V)
        return
    P = Projection.onto(V)
    assert certify_projection(P).held == ["idempotent", "self_adjoint"]
    assert certify_projection(P.complement).held == ["idempotent", "self_adjoint"]
    assert P.rank == np.linalg.matrix_rank(V)
    # P leaves the span alone up to the directions that count as rounding errors of V
    assert_allclose(
        P @ V, V, atol=2 * max(V.shape) * np.finfo(float).eps * np.linalg.norm(V) * max(V.shape)
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_the_residual_is_orthogonal_to_the_span_and_no_other_point_is_nearer(seed):
    rng = np.random.default_rng(seed)
    V, x = spanning_set(20, 4, seed), rng.standard_normal(20)
    P = Projection.onto(V)
    residual = x - P @ x
    assert np.abs(V.T @ residual).max() < rounding(float, 20) * np.linalg.norm(V) * np.linalg.norm(
        x
    )
    others = V @ (
        np.linalg.lstsq(V, x)[0][:, None]
        + rng.standard_normal((4, 50)) * 10.0 ** rng.integers(-6, 2, 50)
    )
    assert (
        np.linalg.norm(x[:, None] - others, axis=0)
        >= np.linalg.norm(residual) * (1 - rounding(float, 20))
    ).all()


@pytest.mark.parametrize("seed", SEEDS)
def test_oblique_and_dependent_columns_give_the_projection_of_their_span(seed):
    V = spanning_set(15, 3, seed)
    mix = np.random.default_rng(seed + 100).standard_normal((3, 7))  # 7 vectors in 3 dimensions
    P, R = Projection.onto(V), Projection.onto(V @ mix)
    assert R.rank == 3
    kappa = (
        np.linalg.cond(V)
        * np.linalg.svd(mix, compute_uv=False)[0]
        / np.linalg.svd(mix, compute_uv=False)[-1]
    )
    assert_allclose(P.matrix(), R.matrix(), atol=rounding(float, 15) * kappa)
    assert_allclose(
        P.matrix(),
        V @ np.linalg.inv(V.T @ V) @ V.T,
        atol=rounding(float, 15) * np.linalg.cond(V) ** 2,
    )


def test_it_multiplies_like_its_matrix_from_both_sides():
    P = Projection.onto(spanning_set(9, 2, 0))
    X = np.random.default_rng(1).standard_normal((9, 5))
    for op in (P, P.complement):
        M, tol = op.matrix(), rounding(float, 9)
        assert_allclose(op @ X, M @ X, atol=10 * tol)
        assert_allclose(op @ X[:, 0], M @ X[:, 0], atol=10 * tol)
        assert_allclose(X.T @ op, X.T @ M, atol=10 * tol)
        assert_allclose(op @ sp.csr_array(X), M @ X, atol=10 * tol)
        assert_allclose(op.T @ X, op @ X)
        assert op.shape == M.shape == (9, 9)


def test_the_complement_holds_what_is_left_over():
    P = Projection.onto(spanning_set(9, 2, 0))
    rest = P.complement
    assert rest.rank == 7
    assert rest.complement is P
    assert rest.basis.shape == (9, 7)
    assert_allclose(P.matrix() + rest.matrix(), np.eye(9), atol=rounding(float, 9))
    assert_allclose(rest.basis @ rest.basis.T, rest.matrix(), atol=rounding(float, 9))
    assert np.abs(P @ rest.basis).max() < rounding(float, 9)


@given(matrices)
@settings(max_examples=100)
def test_the_pseudo_inverse_meets_penroses_four_equations(V):
    W = pseudo_inverse(V)
    assert W.shape == V.T.shape
    s = np.linalg.svd(V, compute_uv=False)
    r = np.linalg.matrix_rank(V)
    kappa = s[0] / s[r - 1] if r else 1.0
    tol = rounding(float, 8) * kappa * 8
    dropped = s[r] if r < len(s) else 0.0  # what counted as zero is missing in VWV
    assert_allclose(V @ W @ V, V, atol=tol * np.linalg.norm(V) + dropped)
    assert_allclose(W @ V @ W, W, atol=tol * max(np.linalg.norm(W), 1.0))
    assert_allclose(V @ W, (V @ W).T, atol=tol)
    assert_allclose(W @ V, (W @ V).T, atol=tol)


def test_the_pseudo_inverse_agrees_with_numpy_and_is_the_best_encoder():
    rng = np.random.default_rng(0)
    V, X = rng.standard_normal((12, 3)), rng.standard_normal((12, 200))
    W = pseudo_inverse(V)
    assert_allclose(W, np.linalg.pinv(V), atol=1e-14 * np.linalg.cond(V))

    def loss(encoder):
        return np.sum((X - V @ encoder @ X) ** 2)

    for _ in range(20):
        assert loss(W) <= loss(W + 0.01 * rng.standard_normal(W.shape))


def test_each_claim_fails_where_it_should():
    oblique = np.array([[1.0, 1.0], [0.0, 0.0]])  # P² = P, but along a slanted direction
    assert certify_projection(oblique).failed == ["self_adjoint"]
    assert certify_projection(oblique).held == ["idempotent"]
    stretched = np.diag([1.0, 0.5])  # symmetric, but not idempotent
    assert certify_projection(stretched).failed == ["idempotent"]
    assert certify_projection(stretched).held == ["self_adjoint"]
    off = Projection.onto(spanning_set(40, 5, 0)).matrix()
    off[3, 7] += 1e-11  # far above rounding (1e-14), far below sight
    assert certify_projection(off).failed == ["idempotent", "self_adjoint"]


def test_a_tied_encoder_of_lower_rank_projects_without_orthonormal_rows():
    """The counterexample to CIL Ex. 1.2 as it is worded."""
    W = np.array([[1.0, 0.0], [0.0, 0.0]])
    assert certify_projection(W.T @ W).failed == []
    assert not np.allclose(W @ W.T, np.eye(2))


def test_a_basis_that_is_not_orthonormal_is_refused_with_the_way_out():
    with pytest.raises(ValueError, match=r"Projection\.onto"):
        Projection(np.ones((3, 2)))
    U = orthonormal_basis(np.ones((3, 2)))
    assert Projection(U).rank == 1


@pytest.mark.parametrize(
    ("P", "message"),
    [
        (np.ones((2, 3)), "square"),
        (np.full((2, 2), np.nan), "NaN"),
        (np.array([[1j, 0], [0, 1]]), "real"),
        (np.ones((2, 2, 2)), "shape"),
        (np.zeros((0, 0)), "shape"),
        ([["a", "b"], ["c", "d"]], "real"),
    ],
)
def test_bad_matrices_are_refused(P, message):
    with pytest.raises(ValueError, match=message):
        certify_projection(P)


def test_claims_accept_sparse_matrices_and_lists():
    assert certify_projection(sp.eye_array(4)).failed == []
    assert certify_projection([[1, 0], [0, 0]]).failed == []
