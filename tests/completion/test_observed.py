"""Observed: the entries of a partly known matrix, from every source, in both orders."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from lemmata.completion.observed import Observed

MATRICES = arrays(
    np.float64,
    st.tuples(st.integers(1, 8), st.integers(1, 8)),
    elements=st.one_of(st.just(np.nan), st.floats(-5, 5, allow_nan=False)),
)


@settings(max_examples=60, deadline=None)
@given(MATRICES)
def test_an_array_with_holes_comes_back_as_it_was(A):
    observed = Observed.of(A)
    np.testing.assert_array_equal(observed.dense(), A)
    np.testing.assert_array_equal(observed.T.dense(), A.T)
    assert observed.n_observed == np.isfinite(A).sum()
    assert observed.row_counts.sum() == observed.column_counts.sum() == observed.n_observed


@settings(max_examples=40, deadline=None)
@given(MATRICES, st.integers(0, 5))
def test_a_split_loses_no_entry_and_doubles_none(A, seed):
    observed = Observed.of(A)
    train, test = observed.split(0.4, seed=seed)
    assert train.shape == test.shape == observed.shape
    both = np.where(np.isnan(train.dense()), test.dense(), train.dense())
    np.testing.assert_array_equal(both, A)
    assert train.n_observed + test.n_observed == observed.n_observed


def test_a_split_by_user_keeps_users_together():
    observed = Observed.of(np.ones((20, 6)))
    train, test = observed.split(0.25, by="user", seed=0)
    assert set(test.row_counts) == {0, 6}
    assert (test.row_counts > 0).sum() == 5
    assert not ((train.row_counts > 0) & (test.row_counts > 0)).any()


def test_stored_zeros_of_a_sparse_matrix_are_known():
    A = sp.coo_array(([0.0, 2.0], ([0, 1], [1, 0])), shape=(2, 3))
    observed = Observed.of(A)
    assert observed.n_observed == 2
    assert observed.values_at(0, 1) == 0.0
    assert np.isnan(observed.values_at(0, 0))


@pytest.mark.parametrize(("duplicates", "expected"), [("last", 5.0), ("mean", 3.0)])
def test_an_entry_given_twice(duplicates, expected):
    rows, columns, values = [1, 0, 1], [0, 1, 0], [1.0, 7.0, 5.0]
    with pytest.raises(ValueError, match=r"1 entries are given twice, such as \(1, 0\)"):
        Observed.from_triplets(rows, columns, values)
    assert Observed.from_triplets(rows, columns, values, duplicates=duplicates).values_at(1, 0) == expected


def test_labels_of_any_type_are_kept_and_found():
    observed = Observed.from_labels(["bea", "al", "bea"], [30, 10, 10], [1.0, 2.0, 3.0])
    assert list(observed.row_labels.names) == ["al", "bea"]
    i, j = observed.row_labels.positions("bea")[0], observed.column_labels.positions(30)[0]
    assert observed.values_at(i, j) == 1.0
    with pytest.raises(ValueError, match=r"the user cy is not in the data; it has 2"):
        observed.row_labels.positions(["al", "cy"], "user")


def test_memory_stays_within_sixteen_bytes_per_entry_and_order():
    rng = np.random.default_rng(0)
    A = sp.random_array((2000, 1000), density=0.2, rng=rng, dtype=np.float32)
    observed = Observed.of(A)
    assert observed.nbytes <= 2 * 16 * observed.n_observed
    assert observed.dtype == np.float32


def test_saved_entries_are_mapped_back(tmp_path):
    observed = Observed.from_labels(["x", "y"], [2, 1], [0.5, 1.5])
    observed.save(tmp_path / "ratings")
    again = Observed.open(tmp_path / "ratings")
    assert isinstance(again.by_row.values, np.memmap)
    np.testing.assert_array_equal(again.dense(), observed.dense())
    assert list(again.row_labels.names) == ["x", "y"]
    assert again.fingerprint() == observed.fingerprint()
    with pytest.raises(FileNotFoundError, match=r"observed\.json"):
        Observed.open(tmp_path)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Observed.of(np.ones(3)), "two dimensions"),
        (lambda: Observed.of(np.array([["a"]])), "not numbers"),
        (lambda: Observed.from_triplets([0], [0], ["good"]), "ratings are numbers"),
        (lambda: Observed.from_triplets([0], [0], [np.nan]), "leave unknown entries out"),
        (lambda: Observed.from_triplets([0.5], [0], [1.0]), "pass ints from 0"),
        (lambda: Observed.from_triplets([0, 1], [0], [1.0]), "do not pair up"),
        (lambda: Observed.from_triplets([5], [0], [1.0], (2, 2)), "a row lies outside 0 … 1"),
        (lambda: Observed.from_triplets([0], [0], [1.0], duplicates="first"), "pass one of"),
        (lambda: Observed.of(np.ones((2, 2))).split(1.5), "between 0 and 1"),
        (lambda: Observed.of(np.ones((2, 2))).split(0.5, by="item"), "'entry' or by 'user'"),
    ],
)
def test_bad_entries_get_one_clear_message(build, message):
    with pytest.raises(ValueError, match=message):
        build()
