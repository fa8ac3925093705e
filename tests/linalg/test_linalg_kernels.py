"""The sparse kernels against their slow twins, and against themselves on other numbers of threads."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import lemmata
from lemmata.core import rounding
from lemmata.linalg._kernels import (
    TASKS,
    gram_product,
    multiply_rows,
    multiply_transposed,
    pack_into,
    row_parts,
    sum_parts_into,
)
from lemmata.linalg.simd import LINE, empty_lines

# each type of numbers and of indices once: every pair is compiled apart
TYPES = [(np.float32, np.int64), (np.float64, np.int32)]


def problem(seed, n=40, d=23, m=19, density=0.2, dtype=np.float64, index=np.int32):
    """Sparse rows with gaps (every fifth row and every seventh column is empty) and an explicit zero."""
    rng = np.random.default_rng(seed)
    dense = rng.standard_normal((n, d)) * (rng.random((n, d)) < density)
    dense[::5], dense[:, ::7] = 0, 0
    X = sp.csr_array(dense.astype(dtype))
    if X.nnz:
        X.data[0] = 0
    return (
        (X.indptr.astype(index), X.indices.astype(index), X.data),
        X.toarray(),
        rng.standard_normal((d, m)).astype(dtype),
    )


def slow_gram(X, B, w, c):
    """Xᵀ diag(w)(XB − 1cᵀ), as it is written, in float64; and the size of its terms, for the rounding."""
    X, B, w, c = (np.asarray(part, dtype=np.float64) for part in (X, B, w, c))
    X = np.c_[X, np.ones(len(X))]  # the column of ones gives the sums
    B = np.r_[B, np.zeros((1, B.shape[1]))]
    size = np.abs(X).T @ (w[:, None] * (np.abs(X) @ np.abs(B) + np.abs(c)))
    return X.T @ (w[:, None] * (X @ B - c)), size


def assert_near(found, exact, size, terms):
    assert (np.abs(found - exact) <= rounding(found.dtype, terms) * size).all()


@pytest.mark.parametrize(("dtype", "index"), TYPES)
@pytest.mark.parametrize("m", [1, 2, 16, 17])
def test_rows_times_a_block_equal_the_dense_product(dtype, index, m):
    for seed in range(3):
        parts, X, B = problem(seed, m=m, dtype=dtype, index=index)
        out = np.full((len(X), m), np.nan, dtype)
        multiply_rows(*parts, B, out)
        X, B = X.astype(np.float64), B.astype(np.float64)
        assert_near(out, X @ B, np.abs(X) @ np.abs(B), X.shape[1])


@pytest.mark.parametrize(("dtype", "index"), TYPES)
@pytest.mark.parametrize("m", [1, 2, 16, 17])
def test_the_transposed_product_equals_the_dense_one(dtype, index, m):
    for seed in range(3):
        parts, X, _ = problem(seed, m=m, dtype=dtype, index=index)
        U = np.random.default_rng(seed).standard_normal((len(X), m)).astype(dtype)
        found = multiply_transposed(*parts, U, X.shape[1])
        assert found.dtype == dtype
        X, U = X.astype(np.float64), U.astype(np.float64)
        assert_near(found, X.T @ U, np.abs(X).T @ np.abs(U), len(X))


@pytest.mark.parametrize(("dtype", "index"), TYPES)
@pytest.mark.parametrize("m", [1, 2, 8, 33])
def test_the_fused_product_equals_two_dense_ones(dtype, index, m):
    for seed in range(3):
        parts, X, B = problem(seed, n=300, m=m, dtype=dtype, index=index)
        rng = np.random.default_rng(seed)
        w = rng.integers(0, 3, len(X)).astype(dtype)  # weights of zero too
        c = rng.standard_normal(m).astype(dtype)
        found = np.vstack(gram_product(*parts, B, w, c))
        assert found.dtype == dtype
        assert_near(found, *slow_gram(X, B, w, c), terms=X.size)
        plain = np.vstack(gram_product(*parts, B))
        assert_near(plain, *slow_gram(X, B, np.ones(len(X)), np.zeros(m)), terms=X.size)


@pytest.mark.parametrize("m", [1, 5, 60])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_one_thread_gives_the_same_bits_as_all(dtype, m, monkeypatch):
    parts, X, B = problem(0, n=3000, d=200, m=m, density=0.1, dtype=dtype)
    w = np.random.default_rng(1).random(len(X)).astype(dtype)
    U = np.random.default_rng(2).standard_normal((len(X), m)).astype(dtype)

    def products():
        out = np.empty((len(X), m), dtype)
        multiply_rows(*parts, B, out)
        return out, multiply_transposed(*parts, U, X.shape[1]), *gram_product(*parts, B, w)

    runs = []
    for threads in (1, 2, 8):
        monkeypatch.setenv("LEMMATA_THREADS", str(threads))
        runs += [products(), products()]
    for again in runs[1:]:
        for a, b in zip(runs[0], again, strict=True):
            assert np.array_equal(a, b)


@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (0, 0), (3, 4)])
@pytest.mark.parametrize("m", [0, 1, 3])
def test_matrices_without_entries_give_zeros(shape, m):
    n, d = shape
    X = sp.csr_array(shape)
    parts = (X.indptr.astype(np.int32), X.indices.astype(np.int32), X.data)
    out = np.empty((n, m))
    multiply_rows(*parts, np.ones((d, m)), out)
    assert np.array_equal(out, np.zeros((n, m)))
    assert np.array_equal(multiply_transposed(*parts, np.ones((n, m)), d), np.zeros((d, m)))
    Y, sums = gram_product(*parts, np.ones((d, m)))
    assert np.array_equal(Y, np.zeros((d, m)))
    assert np.array_equal(sums, np.zeros(m))


@given(
    st.integers(0, 2**32),
    st.integers(1, 30),
    st.integers(1, 30),
    st.integers(1, 40),
    st.floats(0, 1),
)
@settings(max_examples=60)
def test_any_shape_agrees_with_the_dense_twin(seed, n, d, m, density):
    parts, X, B = problem(seed, n, d, m, density)
    assert_near(
        np.vstack(gram_product(*parts, B)), *slow_gram(X, B, np.ones(n), np.zeros(m)), terms=X.size
    )
    U = X @ B
    assert_near(multiply_transposed(*parts, U, d), X.T @ U, np.abs(X).T @ np.abs(U), terms=n)


def test_lines_are_aligned_and_packing_is_undone_by_summing_one_part():
    for dtype in (np.float32, np.float64):
        B = np.random.default_rng(0).standard_normal((11, 21)).astype(dtype)
        lanes = LINE // B.itemsize
        lines = empty_lines(-(-21 // lanes), 11, dtype)
        assert lines.ctypes.data % LINE == 0
        assert lines.shape[2] * lines.itemsize == LINE
        pack_into(lines, B)
        assert lines[-1, :, 21 % lanes :].max() == 0
        out = np.empty_like(B)
        sum_parts_into(out, lines[None])
        assert np.array_equal(out, B)


def test_rows_are_cut_evenly_whatever_their_lengths_and_never_for_nothing():
    lengths = np.r_[np.zeros(50, int), np.full(100, 400), np.zeros(50, int), np.full(1000, 40)]
    cuts = row_parts(np.r_[0, lengths.cumsum()], d=100, chunks=1)
    assert len(cuts) == TASKS + 1
    assert cuts[0] == 0
    assert cuts[-1] == len(lengths)
    shares = np.add.reduceat(lengths, cuts[:-1])
    assert abs(shares - lengths.sum() / TASKS).max() <= 400  # one row
    assert len(row_parts(np.r_[0, lengths.cumsum()], d=100, chunks=4)) == TASKS // 4 + 1
    # private sums would cost more than the work
    assert len(row_parts(np.array([0, 3, 5]), d=100, chunks=1)) == 2


def test_no_kernel_uses_numbas_own_threads():
    """They die in a forked process (OpenMP), or with two callers at once (workqueue)."""
    sources = Path(lemmata.__file__).parent.rglob("*.py")
    assert not [
        path for path in sources if re.search(r"parallel=True|\bprange\b", path.read_text())
    ]


def test_kernels_work_in_a_forked_process_after_use():
    code = """
import multiprocessing, warnings
import numpy as np, scipy.sparse as sp
warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns of forks beside threads
from lemmata.linalg import as_operator
X = as_operator(sp.random_array((4000, 300), density=0.1, format="csr", rng=np.random.default_rng(0)))
V = np.ones((300, 16))
before = X @ V
def again(out):
    out.send(float(np.abs(X @ V - before).max()))
here, there = multiprocessing.Pipe()
child = multiprocessing.get_context("fork").Process(target=again, args=(there,))
child.start()
assert here.poll(60), "the forked process hangs"
assert here.recv() == 0.0
child.join(60)
assert child.exitcode == 0, child.exitcode
"""
    env = {**os.environ, "LEMMATA_THREADS": "2"}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
