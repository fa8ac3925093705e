"""Sparse plus low rank: every product against the dense matrix it stands for."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lemmata.completion import Observed
from lemmata.completion.nuclear.sparse_lowrank import (
    SparsePlusLowRank,
    entry_values,
    gradient_step,
    known_entries,
    leading_svd,
    residual,
    residual_squares,
    row_products,
    row_residual_products,
    row_residual_squares,
    shrink_operator,
    thin_svd,
)
from lemmata.completion.observed import Entries


def problem(n=40, m=30, k=3, share=0.3, seed=0, dtype=np.float64):
    """Known entries (the first row and the last column empty), factors, and the mask."""
    rng = np.random.default_rng(seed)
    mask = rng.random((n, m)) < share
    mask[0], mask[:, -1] = False, False
    A = Observed.of(np.where(mask, rng.normal(size=(n, m)), np.nan).astype(dtype))
    return A, rng.normal(size=(n, k)).astype(dtype), rng.normal(size=(m, k)).astype(dtype), mask


def close(found, wanted, dtype, terms):
    """Equal up to the rounding of sums of so many products of numbers of size 1."""
    return np.abs(found - wanted).max(initial=0) <= 64 * terms * np.finfo(dtype).eps


@pytest.fixture(params=["always", "never"])
def compile_mode(request, monkeypatch):
    """Kernels, and their NumPy twins."""
    monkeypatch.setenv("LEMMATA_COMPILE", request.param)


@pytest.mark.usefixtures("compile_mode")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("k", [0, 1, 5])
@pytest.mark.parametrize("step", [1.0, 2.5])
def test_products_are_those_of_the_dense_matrix(dtype, k, step):
    A, U, V, mask = problem(k=k, dtype=dtype)
    X, values = (U @ V.T).astype(np.float64), A.dense(0.0)
    R = np.where(mask, values - X, 0)
    rng = np.random.default_rng(1)
    B, C = rng.normal(size=(30, 4)).astype(dtype), rng.normal(size=(40, 4)).astype(dtype)
    pairs = (
        (known_entries(A), values),
        (residual(A, U, V), R),
        (gradient_step(A, U, V, step), X + step * R),
        (SparsePlusLowRank(known_entries(A), U, V), values + X),
    )
    for Z, dense in pairs:
        assert Z.shape == (40, 30)
        assert (Z @ B).dtype == dtype
        assert close(Z @ B, dense @ B, dtype, 200)
        assert close(Z.T @ C, dense.T @ C, dtype, 200)
        assert close(Z @ B[:, 0], dense @ B[:, 0], dtype, 200)


@pytest.mark.usefixtures("compile_mode")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("k", [0, 1, 5, 17])
@pytest.mark.parametrize("share", [0.05, 0.3])
def test_values_at_the_entries_are_those_of_the_dense_matrix(dtype, k, share):
    A, U, V, mask = problem(k=k, dtype=dtype, share=share)
    X = (U.astype(np.float64) @ V.astype(np.float64).T)[mask]
    assert entry_values(A, U, V).dtype == dtype
    assert close(entry_values(A, U, V), X, dtype, 20)
    wanted = np.sum((A.values - X) ** 2)
    assert residual_squares(A, U, V) == pytest.approx(wanted, rel=1e3 * float(np.finfo(dtype).eps))


@pytest.mark.parametrize("compiled", [True, False])
def test_passes_can_be_sent_away_and_rows_in_blocks_give_the_bits_of_the_whole(compiled):
    A, U, V, _ = problem()
    indptr, indices, values = A.by_row
    B = np.random.default_rng(2).normal(size=(30, 4))

    def blocks(function, shared, aligned):
        function, parts = pickle.loads(pickle.dumps(function)), []
        for a, b in ((0, 7), (7, 8), (8, 40)):
            rows = Entries(
                indptr[a : b + 1] - indptr[a],
                indices[indptr[a] : indptr[b]],
                values[indptr[a] : indptr[b]],
            )
            parts.append(function(rows, *shared, *(part[a:b] for part in aligned)))
        return np.concatenate(parts)

    cases = (
        (row_products, (B, compiled), ()),
        (row_residual_products, (V, B, compiled), (U,)),
        (row_residual_squares, (V, compiled), (U,)),
    )
    for function, shared, aligned in cases:
        assert (
            blocks(function, shared, aligned).tobytes()
            == function(A.by_row, *shared, *aligned).tobytes()
        )


def test_where_the_entries_stay_on_a_cluster_the_residual_is_made_in_each_product():
    """An operator over blocks, none of whose entries come here, has the products of one that stores its residual."""

    class Spread(Observed):
        @property
        def local(self):
            return Observed(self.by_row, self.by_column, self.shape)

    A, U, V, _ = problem()
    away, B = residual(Spread(A.by_row, A.by_column, A.shape), U, V), np.eye(30)[:, :5]
    here = residual(A, U, V)
    assert np.allclose(away @ B, here @ B)
    assert np.allclose(away.T @ U, here.T @ U)


@pytest.mark.usefixtures("compile_mode")
def test_results_do_not_depend_on_the_number_of_threads(monkeypatch):
    A, U, V, _ = problem(n=400, m=300, share=0.5)
    B, found = np.random.default_rng(2).normal(size=(300, 4)), []
    for threads in ("1", "5"):
        monkeypatch.setenv("LEMMATA_THREADS", threads)
        found.append(
            (gradient_step(A, U, V) @ B).tobytes() + np.float64(residual_squares(A, U, V)).tobytes()
        )
    assert found[0] == found[1]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_thin_svd_is_the_svd(dtype):
    C = np.random.default_rng(0).normal(size=(50, 6)).astype(dtype)
    C[:, 5] = C[:, 0]  # a column that adds nothing
    P, s, Wt = thin_svd(C)
    eps = 100 * np.finfo(dtype).eps
    assert np.abs((P * s) @ Wt - C).max() < eps * s[0]
    assert np.abs(s - np.linalg.svd(C, compute_uv=False)).max() < eps * s[0]
    assert np.abs(P.T @ P - np.eye(6)).max() < eps


@pytest.mark.parametrize("seed", range(3))
def test_the_leading_triplets_are_found(seed):
    A, U, V, mask = problem(seed=seed, share=0.6)
    dense = np.where(mask, A.dense(0.0), U @ V.T)
    found = leading_svd(gradient_step(A, U, V), 3, passes=40, rng=seed)
    P, s, Qt = np.linalg.svd(dense)
    assert np.allclose(found.s, s[:3], rtol=1e-10)
    assert np.allclose(found.matrix(), (P[:, :3] * s[:3]) @ Qt[:3], atol=1e-6 * s[0])
    assert (found.Vt[range(3), np.abs(found.Vt).argmax(axis=1)] > 0).all()  # signs are no accident


@pytest.mark.parametrize("seed", range(5))
def test_the_vectors_of_a_near_matrix_are_a_better_start_than_random_ones(seed):
    A, U, V, _ = problem(seed=seed, n=80, m=70)
    rng = np.random.default_rng(seed)
    near = leading_svd(gradient_step(A, U, V), 3, passes=20, rng=0)
    Z = gradient_step(A, U + 0.01 * rng.normal(size=U.shape), V)
    true = leading_svd(Z, 3, passes=40, rng=0).s.sum()
    warm = leading_svd(Z, 3, start=near.Vt.T, passes=1, rng=0).s.sum()
    cold = leading_svd(Z, 3, passes=1, rng=0).s.sum()
    assert true - warm < 0.1 * (true - cold)  # Ritz values lie below the singular values


@pytest.mark.parametrize("start", [1, 30])
@pytest.mark.parametrize("tau", [0.5, 3.0, 8.0, 1e3])
def test_shrinking_an_operator_is_shrinking_its_matrix_however_few_vectors_it_begins_with(
    tau, start
):
    A, _, _, _ = problem(share=0.8)
    rng = np.random.default_rng(0)
    found, right = shrink_operator(
        known_entries(A), tau, rng.normal(size=(30, start)), accuracy=1e-24, most=500, rng=rng
    )
    P, s, Qt = np.linalg.svd(A.dense(0.0), full_matrices=False)
    assert np.allclose(found.matrix(), (P * np.maximum(s - tau, 0)) @ Qt, atol=1e-6)
    assert right.shape[1] >= found.rank == np.count_nonzero(s > tau)


@settings(max_examples=25)
@given(
    st.integers(1, 12),
    st.integers(1, 12),
    st.integers(0, 3),
    st.floats(0, 1),
    st.integers(0, 10**6),
)
def test_any_shape_and_share_of_known_entries_will_do(n, m, k, share, seed):
    rng = np.random.default_rng(seed)
    mask = rng.random((n, m)) < share
    i, j = np.nonzero(mask)
    values = rng.normal(size=(n, m))
    A = Observed.from_triplets(i, j, values[mask], (n, m))
    U, V = rng.normal(size=(n, k)), rng.normal(size=(m, k))
    dense = np.where(mask, values, U @ V.T)
    Z = gradient_step(A, U, V)
    assert np.allclose(Z @ np.eye(m), dense)
    assert np.allclose(Z.T @ np.eye(n), dense.T)
    found = leading_svd(Z, 2, passes=3, rng=seed)
    assert found.s[0] <= np.linalg.norm(dense, 2) * (1 + 1e-12)
