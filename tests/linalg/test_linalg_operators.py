"""Operators: products with centred data equal those of the matrix that is never formed."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.sparse.linalg import LinearOperator, aslinearoperator

import lemmata
from lemmata.core import Blocks, rounding
from lemmata.linalg import CentredRows, CentredScatter, as_operator, weighted_mean
from lemmata.linalg.operators import Operator, SparseRows


def rows_of(seed, n=70, d=12, density=0.3, offset=0.0, dtype=np.float64):
    rng = np.random.default_rng(seed)
    X = (rng.standard_normal((n, d)) + offset) * (rng.random((n, d)) < density)
    X[::6] = 0
    return X.astype(dtype)


def dense_scatter(X, w=None, mean=None):
    """S, its centre and the size of the products in it, in float64, as it is written."""
    X = np.asarray(X, dtype=np.float64)
    w = np.ones(len(X)) if w is None else w
    mean = w @ X / w.sum() if mean is None else mean
    C = X - mean
    return C.T @ (w[:, None] * C), mean


def every_kind(X, w, tmp_path):
    """The same rows in every form that data takes."""
    file = np.memmap(tmp_path / "rows", dtype=X.dtype, mode="w+", shape=X.shape)
    file[:] = X
    import dask.array as da

    pieces = np.array_split(X, 4)
    return {
        "array": Blocks.of(X, w),
        "csr": Blocks.of(sp.csr_array(X), w),
        "csc": Blocks.of(sp.csc_matrix(X), w),
        "memmap": Blocks.of(file, w),
        "stream": Blocks.of(pieces, w),
        "sparse stream": Blocks.of([sp.csr_array(piece) for piece in pieces], w),
        "mixed stream": Blocks.of([pieces[0], sp.csr_array(pieces[1]), *pieces[2:]], w),
        "dask": Blocks.of(da.from_array(X, chunks=(20, 5)), w),
    }


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_scatter_of_every_kind_of_data_is_that_of_the_dense_rows(dtype, weighted, tmp_path):
    X = rows_of(0, dtype=dtype)
    w = np.random.default_rng(1).integers(0, 4, len(X)).astype(float) if weighted else None
    S, mean = dense_scatter(X, w)
    V = np.random.default_rng(2).standard_normal((X.shape[1], 5)).astype(dtype)
    scale = np.trace(S) * np.linalg.norm(V, axis=0)  # bounds |S||V|
    for kind, data in every_kind(X, w, tmp_path).items():
        operator = CentredScatter(data)
        tolerance = rounding(dtype, len(X))
        assert operator.shape == S.shape, kind
        assert operator.dtype == dtype, kind
        assert np.allclose(operator.mean, mean, rtol=rounding(np.float64, len(X)), atol=1e-15), kind
        product = operator @ V
        assert product.dtype == dtype, kind
        assert (np.abs(product - S @ V) <= tolerance * scale).all(), kind
        assert (np.abs(operator @ V[:, 0] - S @ V[:, 0]) <= tolerance * scale[0]).all(), kind
        assert abs(operator.trace - np.trace(S)) <= tolerance * np.trace(S), kind
        assert operator.fingerprint() == data.fingerprint(), kind
        assert np.array_equal(operator.T @ V, product), kind


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_any_centre_is_accepted_and_the_parallel_axis_theorem_holds(kind):
    X, centre = rows_of(3), np.linspace(-2, 5, 12)
    S, mean = dense_scatter(X)
    shift = mean - centre
    around = CentredScatter(kind(X), centre)
    expected = S + len(X) * np.outer(shift, shift)  # S(c) = S(μ) + n (μ − c)(μ − c)ᵀ
    tolerance = rounding(np.float64, X.size) * np.trace(expected)
    assert np.abs(around @ np.eye(12) - expected).max() <= tolerance
    assert abs(around.trace - np.trace(expected)) <= tolerance


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_a_large_mean_costs_float32_no_more_digits_than_the_data_has(kind):
    """x = 1000 + noise of 1: float32 stores noise to 1000·eps. The uncentred Gram matrix would err by 10⁶·eps."""
    rng = np.random.default_rng(0)
    for _ in range(3):
        X = (1000 + rng.standard_normal((4000, 6))).astype(np.float32)
        S, _ = dense_scatter(X)  # of the stored numbers: only the arithmetic is on trial
        V = np.linalg.qr(rng.standard_normal((6, 6)))[0].astype(np.float32)
        error = np.abs(CentredScatter(kind(X)) @ V - S @ V).max() / np.linalg.norm(S, 2)
        assert error < 1000 * rounding(np.float32)
        naive = (X.T @ (X @ V)) - 4000 * np.outer(X.mean(axis=0), X.mean(axis=0) @ V)
        assert error < np.abs(naive - S @ V).max() / np.linalg.norm(S, 2) / 10


def test_zero_weights_leave_a_row_out_and_whole_ones_repeat_it():
    X = sp.csr_array(rows_of(4))
    w = np.random.default_rng(0).integers(0, 3, X.shape[0])
    repeated = X[np.repeat(np.arange(X.shape[0]), w)]
    V = np.random.default_rng(1).standard_normal((12, 3))
    weighted, plain = CentredScatter(Blocks.of(X, w.astype(float))), CentredScatter(repeated)
    assert np.allclose(
        weighted @ V, plain @ V, rtol=0, atol=rounding(np.float64, X.nnz) * plain.trace
    )
    assert np.isclose(weighted.trace, plain.trace, rtol=rounding(np.float64, X.nnz))


def test_duplicate_entries_are_summed_and_explicit_zeros_change_nothing():
    data, columns, starts = (
        np.array([1.0, 2.0, 0.0, 4.0, -4.0]),
        np.array([1, 1, 0, 2, 2]),
        np.array([0, 3, 5, 5]),
    )
    X = sp.csr_array((data, columns, starts), shape=(3, 3))
    dense = np.array([[0, 3.0, 0], [0, 0, 0], [0, 0, 0]])
    S, _ = dense_scatter(dense)
    operator = CentredScatter(X)
    assert np.allclose(operator @ np.eye(3), S)
    assert np.isclose(operator.trace, np.trace(S))
    assert X.nnz == 5  # the caller's matrix is as it was
    assert np.allclose(CentredRows(X) @ np.eye(3), dense - dense.mean(axis=0))


@given(
    st.integers(0, 2**32),
    st.integers(1, 25),
    st.integers(1, 25),
    st.integers(1, 20),
    st.floats(0, 1),
    st.sampled_from([np.float32, np.float64]),
    st.booleans(),
)
@settings(max_examples=80)
def test_random_sparse_data_agrees_with_its_dense_twin(seed, n, d, m, density, dtype, weighted):
    rng = np.random.default_rng(seed)
    X = (rng.standard_normal((n, d)) * (rng.random((n, d)) < density)).astype(dtype)
    w = np.r_[1.0, rng.integers(0, 3, n - 1)] if weighted else None
    S, mean = dense_scatter(X, w)
    V = rng.standard_normal((d, m)).astype(dtype)
    data = Blocks.of(sp.csr_array(X), w)
    root = np.ones(n) if w is None else np.sqrt(w)
    A = root[:, None] * (X - mean)
    size = (np.abs(X) + np.abs(mean)).astype(np.float64) * root[:, None]
    tolerance = rounding(dtype, X.size)
    assert (
        np.abs(CentredScatter(data) @ V - S @ V) <= tolerance * (size.T @ (size @ np.abs(V)))
    ).all()
    assert abs(CentredScatter(data).trace - np.trace(S)) <= tolerance * (size**2).sum()
    for source in (data, Blocks.of(X, w)):
        rows = CentredRows(source)
        U = rng.standard_normal((n, m)).astype(dtype)
        assert (np.abs(rows @ V - A @ V) <= tolerance * (size @ np.abs(V))).all()
        assert (np.abs(rows.T @ U - A.T @ U) <= tolerance * (size.T @ np.abs(U))).all()


def test_centred_rows_are_adjoint_to_their_transpose_and_their_gram_matrix_is_the_scatter():
    rng = np.random.default_rng(5)
    for kind in (np.asarray, sp.csr_array):
        X, w = kind(rows_of(5)), rng.random(70)
        A, S = CentredRows(Blocks.of(X, w)), CentredScatter(Blocks.of(X, w))
        u, v = rng.standard_normal(70), rng.standard_normal(12)
        assert A.shape == (70, 12)
        assert A.T.shape == (12, 70)
        assert np.isclose(u @ (A @ v), v @ (A.T @ u), rtol=1e-10)
        assert np.allclose(
            A.T @ (A @ v),
            S @ v,
            rtol=0,
            atol=rounding(np.float64, 840) * S.trace * np.linalg.norm(v),
        )
        assert np.allclose((A.T).T @ v, A @ v, rtol=0, atol=0)


def test_blocks_of_many_rows_add_up_to_the_whole(monkeypatch):
    import lemmata.core.blocks as blocks

    X = rows_of(6, n=500)
    whole, rows = CentredScatter(X) @ np.eye(12), CentredRows(X) @ np.eye(12)
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 1)
    monkeypatch.setattr(blocks, "LARGEST_BLOCK", 1)
    monkeypatch.setattr(blocks, "MIN_ROWS", 33)
    cut = Blocks.of(X)
    assert len(list(cut)) == 16
    assert np.allclose(
        CentredScatter(cut) @ np.eye(12),
        whole,
        rtol=0,
        atol=rounding(np.float64, 500) * np.trace(whole),
    )
    assert np.allclose(CentredRows(cut) @ np.eye(12), rows)
    assert np.allclose(
        CentredRows(cut).T @ rows, whole, rtol=0, atol=rounding(np.float64, 500) * np.trace(whole)
    )


def test_a_float64_vector_meets_float32_data_and_comes_back_as_float64():
    X = rows_of(7, dtype=np.float32)
    for data in (X, sp.csr_array(X)):
        assert (CentredScatter(data) @ np.ones(12)).dtype == np.float64
        assert (CentredScatter(data) @ np.ones(12, np.float32)).dtype == np.float32


# --- anything with @ --------------------------------------------------------------------------------------------------


class Halves:
    """An operator of one's own: ½ I, with rmatmul instead of .T."""

    shape = (4, 4)

    def __matmul__(self, V):
        return V / 2

    def rmatmul(self, U):
        return U / 2


def test_everything_with_a_product_is_an_operator():
    M = np.random.default_rng(0).standard_normal((5, 4))
    V, U = np.ones((4, 2)), np.ones((5, 2))
    for A in (
        M,
        M.tolist(),
        sp.csr_array(M),
        sp.coo_matrix(M),
        sp.csc_array(M),
        aslinearoperator(M),
    ):
        operator = as_operator(A, transpose=True)
        assert operator.shape == (5, 4)
        assert np.allclose(operator @ V, M @ V)
        assert np.allclose(operator.T @ U, M.T @ U)
    own = as_operator(Halves(), transpose=True)
    assert np.array_equal(own.T @ V, V / 2)
    assert np.array_equal(own @ V[:, 0], V[:, 0] / 2)
    assert isinstance(as_operator(Halves()), Halves)  # nothing to add where no transpose is needed


def test_whole_numbers_become_floats():
    assert as_operator(np.eye(3, dtype=int)).dtype == np.float64
    assert as_operator(sp.eye_array(3, dtype=np.int8, format="csr")).dtype == np.float64
    assert CentredScatter(np.arange(6).reshape(3, 2)).dtype == np.float64


def test_what_is_no_matrix_is_refused_with_what_would_be():
    with pytest.raises(TypeError, match="a dict is not a matrix; accepted are arrays"):
        as_operator({})
    with pytest.raises(TypeError, match="dtype complex128"):
        as_operator(np.eye(2) * 1j)
    with pytest.raises(ValueError, match=r"shape \(3,\)"):
        as_operator(np.ones(3))

    class NoTranspose:
        shape = (2, 2)

        def __matmul__(self, V):
            return V

    assert as_operator(NoTranspose()).shape == (2, 2)
    with pytest.raises(TypeError, match="rmatmul"):
        as_operator(NoTranspose(), transpose=True)
    with pytest.raises(TypeError, match="knows no product with its transpose"):
        _ = Operator((2, 2), float, lambda V: V).T


def test_a_linear_operator_without_dtype_or_with_only_a_matvec_works():
    A = LinearOperator((3, 3), matvec=lambda v: 2 * v, rmatvec=lambda v: 2 * v)
    assert np.allclose(as_operator(A, transpose=True).T @ np.eye(3), 2 * np.eye(3))


def test_bad_products_means_and_data_get_one_clear_message():
    S = CentredScatter(rows_of(8))
    with pytest.raises(
        ValueError,
        match=r"12 × 12 operator multiplies arrays of shape \(12,\) or \(12, m\); got \(5,\)",
    ):
        _ = S @ np.ones(5)
    with pytest.raises(ValueError, match="accepted are 12 finite numbers"):
        CentredScatter(rows_of(8), np.zeros(3))
    with pytest.raises(ValueError, match="accepted are 12 finite numbers"):
        CentredRows(rows_of(8), np.full(12, np.nan))
    with pytest.raises(ValueError, match="NaN or infinity"):
        CentredScatter(np.full((3, 2), np.nan))
    with pytest.raises(ValueError, match="NaN or infinity"):
        CentredScatter(sp.csr_array(np.array([[np.inf, 0], [0, 1]])))
    with pytest.raises(ValueError, match="no weight in all"):
        weighted_mean(Blocks.of(np.ones((2, 2)), np.zeros(2)))
    with pytest.raises(TypeError, match="use CentredScatter"):
        CentredRows([np.ones((2, 2)), np.ones((3, 2))])


@pytest.mark.parametrize("mode", ["always", "never"])
def test_a_damaged_sparse_matrix_is_refused_before_a_kernel_sees_it(mode):
    def damaged(**parts):
        X = sp.csr_array(np.eye(3))
        for name, value in parts.items():
            getattr(X, name)[...] = value
        return X

    with lemmata.config(compile=mode):
        for X in (
            damaged(indices=[0, 7, 2]),
            damaged(indices=[0, -1, 2]),
            damaged(indptr=[0, 2, 1, 3]),
            damaged(indptr=[0, 1, 2, 900]),
        ):
            with pytest.raises(ValueError, match="malformed CSR matrix of shape"):
                SparseRows(X)
            with pytest.raises(ValueError, match="malformed CSR matrix"):
                lemmata.PCA(1, svd_solver="arpack").fit(X)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("weighted", [False, True])
def test_small_matrices_are_multiplied_without_a_compiler_and_give_the_same(dtype, weighted):
    rng = np.random.default_rng(3)
    X = sp.random_array((300, 70), density=0.1, rng=rng, format="csr", dtype=dtype)
    w = rng.random(300) if weighted else None
    V, U = rng.standard_normal((70, 5)).astype(dtype), rng.standard_normal((300, 5)).astype(dtype)
    found = []
    for mode in ("always", "never"):
        with lemmata.config(compile=mode):
            rows, S = SparseRows(X), CentredScatter(Blocks.of(X, w))
        assert (
            rows._kernels.__name__.rpartition(".")[2]
            == {"always": "_kernels", "never": "_twins"}[mode]
        )
        found.append((rows @ V, rows.T @ U, *rows.gram(V, w, V[0]), S @ V))
    for compiled, plain in zip(*found, strict=True):
        assert compiled.dtype == plain.dtype == dtype
        assert_allclose(compiled, plain, rtol=0, atol=rounding(dtype, 300) * np.abs(plain).max())


def test_the_choice_is_by_all_the_work_and_made_once():
    X = sp.random_array((400, 50), density=0.5, rng=np.random.default_rng(0), format="csr")
    small, large = SparseRows(X), SparseRows(X, columns=1e6)
    assert small._kernels.__name__.endswith("_twins")
    assert large._kernels.__name__.endswith("_kernels")
