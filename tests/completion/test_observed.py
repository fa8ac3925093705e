"""Observed: the entries of a partly known matrix, from every source, in both orders."""

import copy
import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from lemmata.completion import Observed
from lemmata.completion.data.labels import Labels, encode_labels
from lemmata.core import store
from lemmata.core.files import encoding

MATRICES = arrays(
    np.float64,
    st.tuples(st.integers(1, 8), st.integers(1, 8)),
    elements=st.one_of(st.just(np.nan), st.floats(-5, 5, allow_nan=False)),
)


@settings(max_examples=60)
@given(MATRICES)
def test_an_array_with_holes_comes_back_as_it_was(A):
    observed = Observed.of(A)
    np.testing.assert_array_equal(observed.dense(), A)
    np.testing.assert_array_equal(observed.T.dense(), A.T)
    assert observed.n_observed == np.isfinite(A).sum()
    assert observed.row_counts.sum() == observed.column_counts.sum() == observed.n_observed


@settings(max_examples=40)
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
    assert (
        Observed.from_triplets(rows, columns, values, duplicates=duplicates).values_at(1, 0)
        == expected
    )


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


# --- properties of any entries ----------------------------------------------------------------------------------------

TRIPLETS = st.lists(
    st.tuples(
        st.integers(0, 6), st.integers(0, 4), st.integers(-20, 20).map(lambda half: half / 2)
    ),
    max_size=25,
)


def of_triplets(triplets, dtype=np.float32, **options):
    rows, columns, values = (
        (list(part) for part in zip(*triplets, strict=True)) if triplets else ([], [], [])
    )
    rows, columns = np.array(rows, dtype=np.int64), np.array(columns, dtype=np.int64)
    return Observed.from_triplets(rows, columns, np.array(values, dtype=dtype), (7, 5), **options)


def check_orders(observed):
    """Both orders are sorted, hold each place once, and say the same."""
    n, m = observed.shape
    for entries, (size, other) in ((observed.by_row, (n, m)), (observed.by_column, (m, n))):
        indptr, indices, values = entries
        assert indptr.dtype == np.int64
        assert indices.dtype == np.int32
        assert len(indptr) == size + 1
        assert indptr[-1] == len(indices) == len(values)
        for i in range(size):
            here = indices[indptr[i] : indptr[i + 1]]
            assert (np.diff(here) > 0).all()
            assert ((here >= 0) & (here < other)).all()
    assert {
        (i, j, a) for i, j, a in zip(observed.rows, observed.columns, observed.values, strict=True)
    } == {
        (i, j, a)
        for j, i, a in zip(observed.T.rows, observed.T.columns, observed.T.values, strict=True)
    }


@settings(max_examples=80)
@given(TRIPLETS, st.sampled_from(["last", "mean"]), st.sampled_from([np.float32, np.float64]))
def test_triplets_in_any_order_are_what_a_dict_makes_of_them(triplets, duplicates, dtype):
    observed = of_triplets(triplets, dtype, duplicates=duplicates)
    check_orders(observed)
    assert observed.dtype == dtype
    expected = np.full((7, 5), np.nan)
    for i, j, _ in triplets:
        of_place = [a for k, l, a in triplets if (k, l) == (i, j)]
        expected[i, j] = (
            of_place[-1]
            if duplicates == "last"
            else np.mean(of_place, dtype=np.float64).astype(dtype)
        )
    np.testing.assert_array_equal(observed.dense(), expected.astype(dtype))
    i, j = np.meshgrid(np.arange(7), np.arange(5), indexing="ij")
    np.testing.assert_array_equal(observed.values_at(i, j), observed.dense())
    if len({triplet[:2] for triplet in triplets}) < len(triplets):
        with pytest.raises(ValueError, match="entries are given twice"):
            of_triplets(triplets)


@settings(max_examples=50)
@given(TRIPLETS, st.booleans())
def test_entries_survive_every_way_out_and_back(tmp_path_factory, triplets, labelled):
    names = {"row_labels": list("gfedcba"), "column_labels": np.arange(5) * 10} if labelled else {}
    observed = of_triplets(triplets, duplicates="last", **names)
    folder = tmp_path_factory.mktemp("entries")
    observed.save(folder)
    store.write(folder / "file.lemma", "model", {"observed": observed})
    ways = {
        "csr": Observed.of(observed.csr()),
        "dense": Observed.of(observed.dense()),
        "twice transposed": observed.T.T,
        "own values": observed.with_values(observed.values),
        "mapped": Observed.open(folder),
        "unchecked": Observed.open(folder, check=False),
        "fields": Observed.from_fields(observed.to_fields()),
        "file": store.read(folder / "file.lemma", "model")["observed"],
    }
    for way, again in ways.items():
        assert again.shape == observed.shape, way
        for order in ("by_row", "by_column"):
            for part, other in zip(getattr(again, order), getattr(observed, order), strict=True):
                np.testing.assert_array_equal(part, other, err_msg=way)
                assert part.dtype == other.dtype
        if labelled and way in ("twice transposed", "mapped", "unchecked", "fields", "file"):
            assert again.row_labels.names.tolist() == list("gfedcba")
            assert again.column_labels.positions([30, 0]).tolist() == [3, 0]


@settings(max_examples=50)
@given(TRIPLETS, st.integers(0, 9), st.sampled_from(["entry", "user"]))
def test_the_parts_of_a_split_are_disjoint_and_complete(triplets, seed, by):
    observed = of_triplets(triplets, duplicates="last")
    train, test = observed.split(0.3, by=by, seed=seed)
    places = [
        set(zip(part.rows.tolist(), part.columns.tolist(), strict=True))
        for part in (train, test, observed)
    ]
    assert places[0] | places[1] == places[2]
    assert not places[0] & places[1]
    check_orders(train)
    check_orders(test)
    assert test.fingerprint() == observed.split(0.3, by=by, seed=seed)[1].fingerprint()


LABELS = st.one_of(
    st.lists(st.integers(-(2**40), 2**40), max_size=20),
    st.lists(st.integers(0, 30), max_size=20),
    st.lists(st.text(max_size=4).filter(lambda text: "\0" not in text), max_size=20),
    st.lists(st.floats(-5, 5), max_size=20),
)


@settings(max_examples=100)
@given(LABELS, st.sampled_from([None, object]))
def test_labels_are_numbered_in_their_order(labels, dtype):
    given_ = np.array(labels, dtype=dtype if labels else None)
    names, positions = encode_labels(given_)
    assert positions.dtype == np.int32
    assert names.tolist() == sorted(set(given_.tolist()))
    assert names[positions].tolist() == given_.tolist()
    assert Labels(names).find(given_).tolist() == positions.tolist() if labels else True


@pytest.mark.parametrize(
    "labels",
    [
        np.array([2**63 + 5, 2**63 + 1, 2**63 + 5], dtype=np.uint64),
        np.array([127, -128, 0, 127], dtype=np.int8),
        np.array([2**62, -(2**62), 0]),
        np.array(["1999-12-31", "1970-01-01"], dtype="datetime64[D]"),
        np.array([b"b", b"a"]),
        pd.Series(["x", "y", "x"], dtype="category"),
        pd.Series([3, 1, 3], dtype="Int64"),
        np.array([(1, 2), "a", 3, None], dtype=object)[:3],
    ],
    ids=["uint64", "int8", "far apart", "dates", "bytes", "category", "Int64", "mixed"],
)
def test_labels_of_odd_types_are_numbered_too(labels):
    names, positions = encode_labels(labels)
    expected = (
        np.char.decode(labels)
        if getattr(labels, "dtype", None) == np.dtype("S1")
        else np.asarray(labels)
    )
    assert names[positions].tolist() == expected.tolist()
    again = Labels.from_fields(Labels(names).to_fields())
    assert len(set(again.names.tolist())) == len(names)


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA, pd.NaT])
def test_a_missing_label_is_refused(missing):
    with pytest.raises(ValueError, match="the row label of entry 1 is missing"):
        Observed.from_labels(
            np.array(["a", missing, "b"], dtype=object), [1, 2, 3], [1.0, 2.0, 3.0]
        )


# --- what is not trusted ----------------------------------------------------------------------------------------------

HOSTILE = {
    "a column twice": {"indices": np.array([1, 1, 0], np.int32)},
    "columns out of order": {"indices": np.array([2, 0, 0], np.int32)},
    "a column too far": {"indices": np.array([0, 3, 0], np.int32)},
    "a negative column": {"indices": np.array([-1, 2, 0], np.int32)},
    "pointers that fall": {"indptr": np.array([0, 4, 3])},
    "pointers too long": {"indptr": np.array([0, 2, 3, 3])},
    "pointers beyond": {"indptr": np.array([0, 2, 9])},
    "pointers not from 0": {"indptr": np.array([1, 2, 3])},
    "short values": {"values": np.ones(2, np.float32)},
    "a value that is none": {"values": np.array([1, np.nan, 2], np.float32)},
    "wide columns": {"indices": np.array([0, 2, 0])},
    "whole values": {"values": np.array([1, 2, 3])},
    "a list": {"values": [1.0, 2.0, 3.0]},
    "a matrix": {"values": np.ones((3, 1), np.float32)},
    "a negative shape": {"shape": (2, -3)},
    "a shape of three": {"shape": (2, 3, 1)},
    "a fractional shape": {"shape": (2, 3.0)},
    "a vast shape": {"shape": (2, 2**40)},
    "no shape": {"shape": None},
    "too few labels": {"row_labels": Labels(["a"])},
    "labels that are none": {"row_labels": ["a", "b"]},
}


@pytest.mark.parametrize("change", HOSTILE.values(), ids=HOSTILE)
def test_hostile_fields_are_refused(tmp_path, change):
    observed = Observed.from_triplets([0, 0, 1], [0, 2, 0], np.array([1, 2, 3], np.float32), (2, 3))
    fields = observed.to_fields()
    Observed.from_fields(copy.copy(fields))
    with pytest.raises((ValueError, TypeError)):
        Observed.from_fields({**fields, **change})
    observed.save(tmp_path)
    for name, value in change.items():
        if name == "shape":
            (tmp_path / "observed.json").write_text(json.dumps({"format": 1, "shape": value}))
        elif name == "row_labels":
            np.save(tmp_path / "row_labels.npy", np.array(["a"]))
        else:
            np.save(tmp_path / f"by_row-{name}.npy", value)
    with pytest.raises(ValueError, match="does not hold a usable Observed"):
        Observed.open(tmp_path)


def test_a_small_file_that_claims_a_vast_matrix_is_refused_before_memory_is_taken():
    fields = Observed.from_triplets([0], [0], [1.0], (1, 1)).to_fields()
    token = encoding._room.set(300_000)  # as if read from a file of this size
    try:
        with pytest.raises(ValueError, match="would take 3,200 MB"):
            Observed.from_fields({**fields, "shape": (1, 4 * 10**8)})
        Observed.from_fields(fields)
    finally:
        encoding._room.reset(token)


def test_hostile_order_is_found_at_the_edge_of_a_block(monkeypatch):
    from lemmata.completion.data import entries

    monkeypatch.setattr(entries, "ENTRIES_AT_ONCE", 2)
    fine = Observed.from_triplets(np.zeros(6, int), np.arange(6), np.ones(6), (2, 6))
    Observed.from_fields(fine.to_fields())
    for at in range(5):
        indices = fine.by_row.indices.copy()
        indices[at : at + 2] = indices[at + 1], indices[at]
        with pytest.raises(ValueError, match="ascending order"):
            Observed.from_fields({**fine.to_fields(), "indices": indices})


def test_the_two_orders_of_a_folder_must_agree(tmp_path):
    Observed.from_triplets([0, 1], [0, 1], [1.0, 2.0]).save(tmp_path)
    np.save(tmp_path / "by_column-indptr.npy", np.array([0, 2, 2]))
    np.save(tmp_path / "by_column-indices.npy", np.array([0, 1], np.int32))
    with pytest.raises(ValueError, match="different entries"):
        Observed.open(tmp_path)


def test_entries_are_not_saved_over_the_file_they_are_mapped_from(tmp_path):
    Observed.of(np.ones((2, 2))).save(tmp_path / "a")
    mapped = Observed.open(tmp_path / "a")
    with pytest.raises(ValueError, match="save them to another folder"):
        mapped.save(tmp_path / "a")
    mapped.save(tmp_path / "b")
    np.testing.assert_array_equal(Observed.open(tmp_path / "b").dense(), np.ones((2, 2)))


def test_labels_of_an_earlier_save_do_not_stay_behind(tmp_path):
    Observed.from_labels(["x"], ["y"], [1.0]).save(tmp_path)
    Observed.of(np.ones((1, 1))).save(tmp_path)
    assert Observed.open(tmp_path).row_labels is None


def test_nothing_of_the_callers_arrays_is_kept():
    rows, columns, values = (
        np.array([0, 1], np.int32),
        np.array([1, 0], np.int32),
        np.array([1.0, 2.0]),
    )
    observed = Observed.from_triplets(rows, columns, values)
    columns[:], values[:] = 0, 9
    np.testing.assert_array_equal(observed.dense(0), [[0, 1], [2, 0]])


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Observed.of(np.ones((2, 2))).values_at(2, 0), "a row lies outside 0 … 1"),
        (lambda: Observed.of(np.ones((2, 2))).values_at(0, -1), "a column lies outside 0 … 1"),
        (lambda: Observed.of(np.ones((2, 2))).with_values(np.ones(3)), "do not fit 4 entries"),
        (
            lambda: Observed.from_triplets([0], [0], [1.0], row_labels=["a", "b"]),
            "2 row labels for 1 rows",
        ),
        (lambda: Observed.from_triplets([0], [0], [1.0], (1, 1.5)), "is not a pair of ints"),
        (lambda: Observed.from_labels([["a"]], ["b"], [1.0]), "one label per entry"),
        (lambda: Observed.of(np.ones(3)), "two dimensions"),
        (lambda: Observed.of(np.array([["a"]])), "not numbers"),
        (lambda: Observed.from_triplets([0], [0], ["good"]), "ratings are numbers"),
        (lambda: Observed.from_triplets([0], [0], [np.nan]), "leave unknown entries out"),
        (lambda: Observed.from_triplets([0.5], [0], [1.0]), "pass ints from 0"),
        (lambda: Observed.from_triplets([0, 1], [0], [1.0]), "do not pair up"),
        (lambda: Observed.from_triplets([5], [0], [1.0], (2, 2)), "a row lies outside 0 … 1"),
        (lambda: Observed.from_triplets([0], [0], [1.0], duplicates="first"), "pass one of"),
        (lambda: Observed.of(np.ones((2, 2))).split(1.5), "between 0 and 1"),
        (
            lambda: Observed.of(np.ones((2, 2))).split(0.5, by="item"),
            "'entry', 'time', 'user', 'leave-k-out'",
        ),
        (lambda: Observed.of(np.ones((2, 2))).split(True), "between 0 and 1"),
        (lambda: Observed.of(np.ones((2, 2))).split(0.5, by="leave-k-out", k=0), "k=0 is not"),
        (lambda: Observed.of(np.ones((2, 2))).split(0.5, by="time"), "have no times"),
        (lambda: Observed.from_triplets([0], [0], [1.0], (True, 1)), "is not a pair of ints"),
        (lambda: Observed.from_triplets([0], [0], [1.0], times=["soon"]), "1 numbers or dates"),
        (lambda: Observed.from_triplets([0], [0], [1.0], times=[1, 2]), "1 numbers or dates"),
    ],
)
def test_bad_entries_get_one_clear_message(build, message):
    with pytest.raises(ValueError, match=message):
        build()


# --- sparse matrices that lie -----------------------------------------------------------------------------------------


def broken_csr(**parts):
    X = sp.csr_array(np.array([[1.0, 0, 2], [0, 3, 0]]))
    for name, value in parts.items():
        setattr(X, name, np.asarray(value))
    return X


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (broken_csr(indptr=[0, 9, 3]), "indptr falls"),
        (broken_csr(indptr=[0, 2, 9]), "there are 3 values"),
        (broken_csr(indices=[0, 7, 1]), "index 7 is not within 0 … 2"),
        (broken_csr(indices=[0, -1, 1]), "index -1 is not within"),
        (broken_csr(indices=[2, 2, 1]), "given twice"),
    ],
)
def test_a_malformed_sparse_matrix_is_refused(X, message):
    with pytest.raises(ValueError, match=message):
        Observed.of(X)


def test_unsorted_indices_are_sorted():
    X = broken_csr(indices=[2, 0, 1], data=[2.0, 1.0, 3.0])
    np.testing.assert_array_equal(Observed.of(X).dense(0), [[1, 0, 2], [0, 3, 0]])


def test_what_fills_up_the_blocks_of_bsr_is_not_known():
    X = np.array([[5.0, 0, 0, 0], [0, 4, 0, 0], [0, 0, 0, 3], [0, 0, 0, 0]])
    found = Observed.of(sp.bsr_array(X, blocksize=(2, 2)))
    assert found.n_observed == 3
    np.testing.assert_array_equal(found.dense(0), X)


def test_pandas_na_is_not_known():
    wide = pd.DataFrame(
        {"x": pd.array([5, pd.NA], "Int64"), "y": [None, 3.0]}, index=["ann", "bob"]
    )
    found = Observed.of(wide)
    np.testing.assert_array_equal(found.dense(0), [[5, 0], [0, 3]])
    assert found.row_labels.names.tolist() == ["ann", "bob"]
    objects = np.array([[5.0, pd.NA], [None, 3]], dtype=object)
    np.testing.assert_array_equal(Observed.of(objects).dense(0), [[5, 0], [0, 3]])


def test_a_mapped_file_that_was_cut_off_is_refused(tmp_path):
    path = tmp_path / "X.npy"
    np.save(path, np.ones((4096, 4)))
    X = np.load(path, mmap_mode="r")
    with open(path, "r+b") as file:
        file.truncate(8192)
    with pytest.raises(ValueError, match="cut off after it was opened"):
        Observed.of(X)


# --- long frames ------------------------------------------------------------------------------------------------------

LONG = {
    "userId": ["b", "a", "a", "c"],
    "movieId": [20, 10, 20, 10],
    "rating": [3.0, 5.0, 4.0, 1.0],
    "timestamp": [4, 1, 3, 2],
}


@pytest.mark.parametrize(
    "names",
    [
        ["userId", "movieId", "rating", "timestamp"],
        ["user", "item", "rating", "time"],
        ["uid", "iid", "score", "date"],
        ["User ID", "product_id", "stars", "datetime"],
        ["customer", "asin", "overall", "ts"],
    ],
)
def test_a_frame_with_one_rating_per_line_is_known_by_its_columns(names):
    columns = dict(zip(names, LONG.values(), strict=True))
    expected = Observed.from_labels(*list(LONG.values())[:3])
    for frame in (pd.DataFrame(columns), pa.table(columns)):
        found = Observed.of(frame)
        np.testing.assert_array_equal(found.dense(0), expected.dense(0))
        assert found.row_labels.names.tolist() == ["a", "b", "c"]
        assert found.column_labels.names.tolist() == [10, 20]
        assert found.times.tolist() == [1, 3, 4, 2]  # in the order of the rows


def test_columns_in_any_order_and_further_ones_do_no_harm():
    frame = pd.DataFrame({"title": list("xyxy"), "text": list("abcd"), **LONG})[
        ["rating", "title", "text", "movieId", "timestamp", "userId"]
    ]
    np.testing.assert_array_equal(
        Observed.of(frame).dense(0), Observed.from_labels(*list(LONG.values())[:3]).dense(0)
    )


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["user", "uid", "item", "rating"], "'user' and 'uid' could each be the user"),
        (["user", "asin", "parent_asin", "rating"], "'asin' and 'parent_asin' could each"),
        (["user", "thing", "rating"], "which column is the item. There are user, thing, rating"),
        (["user", "item", "opinion"], "which column is the rating.*assign.rating=1"),
    ],
)
def test_columns_that_leave_a_doubt_are_named(names, message):
    frame = pd.DataFrame({name: [1, 2] for name in names})
    with pytest.raises(ValueError, match=message):
        Observed.of(frame)


def test_a_wide_frame_stays_a_matrix():
    wide = pd.DataFrame({"Alien": [5.0, np.nan], "rating": [1.0, 2.0]}, index=["ann", "bob"])
    assert Observed.of(wide).shape == (2, 2)
    assert Observed.of(pd.DataFrame([[1.0, np.nan]])).n_observed == 1


# --- splits -----------------------------------------------------------------------------------------------------------


def timed(seed=0, n=30, m=20):
    rng = np.random.default_rng(seed)
    i, j = np.nonzero(rng.random((n, m)) < 0.4)
    return Observed.from_triplets(
        i, j, rng.normal(size=len(i)), (n, m), times=rng.integers(0, 50, len(i))
    )


def test_a_split_by_time_holds_out_what_came_last():
    A = timed()
    train, test = A.split(0.2, by="time")
    assert train.times.max() < test.times.min()
    assert train.n_observed + test.n_observed == A.n_observed
    assert 0 < test.n_observed <= round(0.2 * A.n_observed)
    same = Observed.from_triplets([0, 1], [0, 1], [1.0, 2.0], times=[7, 7])
    with pytest.raises(ValueError, match="1 different times"):
        same.split(0.5, by="time")


@pytest.mark.parametrize("k", [1, 3])
def test_leave_k_out_holds_out_k_of_every_user_with_more(k):
    A = timed()
    train, test = A.split(by="leave-k-out", k=k, seed=0)
    expected = np.where(A.row_counts > k, k, 0)
    np.testing.assert_array_equal(test.row_counts, expected)
    np.testing.assert_array_equal(train.row_counts, A.row_counts - expected)
    assert not (~np.isnan(train.dense()) & ~np.isnan(test.dense())).any()
    again = A.split(by="leave-k-out", k=k, seed=0)[1]
    np.testing.assert_array_equal(again.columns, test.columns)


def test_times_stay_with_their_entries(tmp_path):
    A = timed()
    where = {(i, j): t for i, j, t in zip(A.rows, A.columns, A.times, strict=True)}
    A.save(tmp_path)
    for B in (A.T.T, A.select(A.values > 0), A.with_values(A.values + 1), Observed.open(tmp_path)):
        assert [where[place] for place in zip(B.rows, B.columns, strict=True)] == B.times.tolist()
    assert [where[j, i] for i, j in zip(A.T.rows, A.T.columns, strict=True)] == A.T.times.tolist()
    dates = pd.Series(pd.to_datetime(["2020-01-02", "2020-01-01"]))
    B = Observed.from_triplets([0, 1], [0, 0], [1.0, 2.0], times=dates)
    assert B.times[0] > B.times[1]
    twice = Observed.from_triplets([0, 0], [0, 0], [1, 2], times=[5, 9], duplicates="last")
    assert twice.times.tolist() == [9]


def test_entries_are_placed_in_a_larger_matrix():
    A = Observed.from_labels(["ann", "bob"], ["x", "y"], [1.0, 2.0])
    B = Observed.from_labels(["bob", "zoe", "zoe"], ["x", "x", "new"], [3.0, 4.0, 5.0]).placed_in(A)
    assert B.shape == (3, 3)
    assert B.row_labels.names.tolist() == ["ann", "bob", "zoe"]
    assert B.values_at([1, 2, 2], [0, 0, 2]).tolist() == [3, 4, 5]


def test_a_mistyped_label_is_answered_with_the_near_one():
    A = Observed.from_labels(["anna", "bob"], [1, 2], [1.0, 2.0])
    with pytest.raises(ValueError, match="did you mean 'anna'"):
        A.row_labels.positions(["ann"], "row")
    with pytest.raises(ValueError, match="labels are int: pass 2"):
        A.column_labels.positions(["2"], "column")
    with pytest.raises(ValueError, match="it has 2, such as 1"):
        A.column_labels.positions([7], "column")
