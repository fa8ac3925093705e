"""Numbers from outside: the first bad one is named with its place, and broken sparse matrices and files end in a message."""

import os

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from lemmata.core import Blocks
from lemmata.core.blocks import open_rows
from lemmata.core.estimator import Model
from lemmata.core.validation import (
    ROWS_AT_ONCE,
    NotFinite,
    all_finite,
    refuse_malformed,
    refuse_nonfinite,
    refuse_shrunk_file,
)


@pytest.mark.parametrize("make", [np.asarray, np.asfortranarray, sp.csr_array, sp.csc_array])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_first_bad_number_is_named_with_its_place(make, dtype):
    X = np.ones((ROWS_AT_ONCE + 9, 4), dtype=dtype)
    refuse_nonfinite(make(X))
    X[ROWS_AT_ONCE + 5, 3] = np.nan
    X[ROWS_AT_ONCE + 5, 2] = -np.inf
    row = ROWS_AT_ONCE + 5
    with pytest.raises(ValueError, match=f"contains infinity: the first in row {row}, column 2 "):
        refuse_nonfinite(make(X))
    X[ROWS_AT_ONCE + 2, 1] = np.nan
    with pytest.raises(ValueError, match=f"NaN: .* row {row + 7}, column 1 .'age'. .*ALS"):
        refuse_nonfinite(make(X), first_row=10, names=["id", "age"])
    with pytest.raises(ValueError, match=f"infinity: .* row {row}, column 2 .* not known is NaN"):
        refuse_nonfinite(make(X), allow_nan=True)
    assert not all_finite(make(X))
    assert not all_finite(make(X), allow_nan=True)


def test_finite_numbers_whose_sum_overflows_are_finite():
    assert all_finite(np.full((3, 3), 1e308))
    assert all_finite(np.array([[1e308, 1e308], [np.nan, 1.0]]), allow_nan=True)


def spoil(X, how):
    if how == "pointer beyond the end":
        X.indptr[5] = 100_000
    elif how == "pointers fall":
        X.indptr[5] = 0
    elif how == "pointers end early and late":
        X.indptr[-1] = len(X.indices) + 1
    elif how == "pointers begin late":
        X.indptr[0] = 1
    elif how == "index too large":
        X.indices[7] = 4000
    elif how == "negative index":
        X.indices[7] = -3
    elif how == "fewer values than indices":
        X.data = X.data[:-2]
    elif how == "pointers missing":
        X.indptr = X.indptr[:-1]
    elif how == "fractional pointers":
        X.indptr = X.indptr.astype(float)
    return X


HOW = [
    "pointer beyond the end", "pointers fall", "pointers end early and late", "pointers begin late", "index too large",
    "negative index", "fewer values than indices", "pointers missing", "fractional pointers",
]  # fmt: skip


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("format", ["csr", "csc", "bsr"])
def test_malformed_sparse_matrices_are_refused_before_anything_follows_their_indices(format, how):
    X = sp.random_array((40, 20), density=0.3, rng=0).asformat(format)
    refuse_malformed(X)
    X = spoil(X, how)
    for door in (refuse_malformed, Blocks.of, open_rows, lambda X: Blocks.of([X])):
        with pytest.raises(ValueError, match=f"malformed {format.upper()} matrix"):
            door(X)


def test_malformed_coordinates_and_lists_are_refused():
    X = sp.random_array((40, 20), density=0.3, rng=0).tocoo()
    X.coords[1][3] = 20
    with pytest.raises(ValueError, match="the index 20 is not within 0 … 19"):
        Blocks.of(X)
    X = sp.random_array((40, 20), density=0.3, rng=0).tolil()
    X.rows[3][0] = 77
    with pytest.raises(ValueError, match="the index 77 is not within 0 … 19"):
        Blocks.of(X)
    with pytest.raises(ValueError, match="1 axes"):
        refuse_malformed(sp.coo_array(np.ones(4)))


@given(
    st.sampled_from(["csr", "csc", "coo", "bsr", "lil", "dok", "dia"]),
    st.integers(0, 6),
    st.integers(0, 6),
)
@settings(max_examples=40)
def test_sound_matrices_of_every_format_pass(format, n, m):
    refuse_malformed(sp.random_array((n, m), density=0.5, rng=n).asformat(format))


def test_a_sound_matrix_with_room_to_spare_is_sound():
    X = sp.csr_array(np.eye(4))
    X.data, X.indices = np.append(X.data, 9.0), np.append(X.indices, 2)
    refuse_malformed(X)


def test_a_mapped_file_that_was_cut_off_is_refused_instead_of_killing_the_process(tmp_path):
    path = tmp_path / "X.npy"
    np.save(path, np.random.default_rng(0).normal(size=(5000, 40)))
    X = np.load(path, mmap_mode="r")
    for view in (X, X[100:], X[::2]):
        refuse_shrunk_file(view)
    data = Blocks.of(X[10:])
    os.truncate(path, 200_000)
    for view in (X, X[100:], X[::2]):
        with pytest.raises(ValueError, match="has 200,000 bytes where 1,600,128 were mapped"):
            refuse_shrunk_file(view)
    with pytest.raises(ValueError, match="it was cut off after it was opened"):
        next(iter(data))
    refuse_shrunk_file(np.ones(3))


def test_a_pass_that_meets_nan_is_told_where_whatever_its_words():
    class Summing(Model):
        finds_nonfinite = True

        def __init__(self, max_iter=1, tol=0.0, random_state=None, verbose=0, checkpoint=None, time_limit=None):  # fmt: skip
            self.max_iter, self.tol, self.random_state = max_iter, tol, random_state
            self.verbose, self.checkpoint, self.time_limit = verbose, checkpoint, time_limit

        def _algorithm(self, data):
            return None

        def _problem(self, data):
            raise NotFinite("a sum is none")

    X = np.ones((5, 3))
    with pytest.raises(NotFinite, match="a sum is none"):  # too large, then: there is no place
        Summing().fit(X)
    X[3, 1] = np.inf
    with pytest.raises(ValueError, match="infinity: the first in row 3, column 1"):
        Summing().fit(X)
