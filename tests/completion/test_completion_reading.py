"""Ratings from files and frames: every format, every block boundary, every broken line."""

import csv
import gzip
import io
import re
import subprocess
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lemmata.completion import Observed
from lemmata.completion.data import reading
from lemmata.data import UnreadableData, records

ROWS = [("7", "30", "4.5"), ("7", "8", "3"), ("12", "30", "0.5"), ("9", "8", "5.0")]
EXPECTED = np.array([[3.0, 4.5], [5.0, np.nan], [np.nan, 0.5]])  # users 7, 9, 12 and items 8, 30


def written(path, text):
    data = text if isinstance(text, bytes) else text.encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def lines(sep=",", end="\n", header=("userId", "movieId", "rating"), rows=ROWS):
    return "".join(sep.join(row) + end for row in ([header] if header else []) + list(rows))


def check(observed):
    np.testing.assert_array_equal(observed.dense(), EXPECTED)
    assert observed.dtype == np.float32
    for labels, names in ((observed.row_labels, [7, 9, 12]), (observed.column_labels, [8, 30])):
        assert labels.names.dtype == np.int64
        assert labels.names.tolist() == names


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.csv", lines()),
        ("a.csv", lines(end="\r\n")),
        ("a.csv", lines().rstrip("\n")),
        ("a.csv", "\ufeff" + lines()),
        ("a.csv", "\n  \n" + lines().replace("\n", "\n\n")),
        ("a.csv", lines(header=None)),
        ("a.csv", lines(sep=" , ")),
        ("a.csv", lines(sep=";")),
        ("a.csv", lines(sep='","', end='"\n"').join(['"', ""])[:-1]),
        ("a.tsv", lines(sep="\t")),
        ("u.data", lines(sep="\t", header=None)),
        ("a.txt", lines(sep=" ", header=None)),
        ("ratings.dat", lines(sep="::", header=None)),
        ("ratings.dat", lines(sep="::")),
        ("a.csv.gz", lines()),
        ("ratings.dat.gz", lines(sep="::", header=None)),
    ],
    ids=str,
)
def test_every_kind_of_text_gives_the_same_entries(tmp_path, name, text):
    check(Observed.from_file(written(tmp_path / name, text)))


def test_parquet_frames_and_dicts_give_the_same_entries(tmp_path):
    frame = pd.DataFrame(
        {"userId": [7, 7, 12, 9], "movieId": [30, 8, 30, 8], "rating": [4.5, 3, 0.5, 5]}
    )
    frame.to_parquet(tmp_path / "a.parquet", row_group_size=2)
    check(Observed.from_file(tmp_path / "a.parquet"))
    check(Observed.from_frame(frame))
    check(Observed.from_frame(frame.to_dict("list")))
    check(Observed.from_frame(frame.astype({"userId": "Int64"})))
    text = frame.astype({"userId": str, "movieId": "category"})
    text.to_parquet(tmp_path / "text.parquet", row_group_size=2)
    for observed in (Observed.from_frame(text), Observed.from_file(tmp_path / "text.parquet")):
        assert observed.row_labels.names.tolist() == ["12", "7", "9"]
        assert observed.column_labels.names.tolist() == [8, 30]


def test_text_comes_from_the_standard_input(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(lines().encode())))
    check(Observed.from_file("-"))


@pytest.fixture(params=[True, False], ids=["arrow", "lines"])
def by_arrow(request, monkeypatch):
    """Whether Arrow reads, or Python line by line."""
    monkeypatch.setattr(records, "LARGE", -1 if request.param else 10**9)


@pytest.mark.usefixtures("by_arrow")
@pytest.mark.parametrize("size", [16, 23, 64, 2**20])
def test_blocks_may_end_anywhere(tmp_path, monkeypatch, size):
    monkeypatch.setattr(records, "BLOCK", size)
    check(Observed.from_file(written(tmp_path / "a.csv", lines(end="\r\n"))))
    check(Observed.from_file(written(tmp_path / "a.dat", lines(sep="::", header=None))))
    quoted = 'user,item,rating,text\n7,30,4.5,"so, so"\n7,8,3,"two\nlines ""here"""\n12,30,0.5,\n9,8,5.0,"x"\n'
    check(Observed.from_file(written(tmp_path / "q.csv", quoted)))
    with pytest.raises(UnreadableData, match=r"line 5: the rating 'x' is not a number"):
        Observed.from_file(written(tmp_path / "bad.csv", "u,i,r\n\n1,1,1\n1,2,1\n1,3,x\n1,4,1\n"))


LABELS = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=12
)


# --- Arrow and Python ---------------------------------------------------------------------------------------------------

PIECES = st.sampled_from(
    [",", ",", ",", ";", "::", ":", "\n", "\n", "\r\n", '"', '""', " ", "\t", "\r", "a", "7", "12", "-3.5", "+.5", "1e3",
     ".", "-", "007", "-8", "3.14159265358979", "é", "", "1,2,3\n", '"a,b",1,2\n', "u::i::4\n", '" a",2,5\n', "\x1f"]
)  # fmt: skip


def outcome(path, large, **given):
    """Everything that a file gives, or the message."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(records, "LARGE", large)
        patch.setattr(records, "BLOCK", 64)
        try:
            found = reading.triplets_of_file(path, **given)
        except UnreadableData as error:
            return str(error)
    return [(part.tolist(), part.dtype) for part in vars(found).values()]


@settings(max_examples=300)
@given(st.lists(PIECES, max_size=40).map("".join), st.sampled_from([",", ";", "::", "\t", " "]))
def test_arrow_reads_every_text_as_python_does(tmp_path_factory, text, sep):
    path = tmp_path_factory.mktemp("pieces") / "a.csv"
    path.write_bytes(sep.join(("3", "4", "5\n")).encode() + text.encode())
    given = {"sep": sep, "header": False}
    assert outcome(path, -1, **given) == outcome(path, 10**9, **given)


def test_what_arrow_reads_is_not_read_twice(tmp_path, monkeypatch):
    monkeypatch.setattr(records, "LARGE", -1)
    monkeypatch.setattr(records, "read_records", None)
    check(Observed.from_file(written(tmp_path / "a.csv", lines(end="\r\n"))))
    check(Observed.from_file(written(tmp_path / "a.csv", lines(sep=" , "))))
    check(Observed.from_file(written(tmp_path / "a.dat.gz", lines(sep="::", header=None))))
    quoted = lines(sep='","', end='"\n"').join(['"', ""])[:-1]
    check(Observed.from_file(written(tmp_path / "q.csv", quoted)))


@settings(max_examples=100)
@given(
    st.lists(st.tuples(LABELS, LABELS, st.floats(-1e6, 1e6)), min_size=1, max_size=12),
    st.sampled_from([",", ";", "::"]),
    st.sampled_from(["", "x", "1,5", "a,b,c", '"', "1,2,inf", "1,,3", ",1,3", "1,2,", "1;2;3;4"]),
)
def test_small_and_large_files_are_read_alike_errors_included(tmp_path_factory, rows, sep, odd):
    path = tmp_path_factory.mktemp("alike") / "a.csv"
    quoted = [['"' + label.replace('"', '""') + '"' for label in row[:2]] for row in rows]
    text = [sep.join([*pair, repr(row[2])]) for pair, row in zip(quoted, rows, strict=True)]
    path.write_text("\n".join([sep.join(("user", "item", "rating")), *text, odd]), newline="")

    assert outcome(path, -1) == outcome(path, 10**9)


@pytest.mark.usefixtures("by_arrow")
def test_a_name_of_ten_megabytes_is_refused_with_its_line(tmp_path):
    long = "x" * 10_000_000
    text = f'user,item,rating,note\n1,2,3,\n1,"{long}",3,\n'
    with pytest.raises(UnreadableData, match="line 3: the item has 10,000,000 bytes") as caught:
        Observed.from_file(written(tmp_path / "a.csv", text))
    assert len(str(caught.value)) < 300
    note = written(tmp_path / "b.csv", f'user,item,rating,note\n1,2,3,"{long}"\n')
    assert Observed.from_file(note).n_observed == 1


# --- agreement with a slow twin ---------------------------------------------------------------------------------------


@settings(max_examples=80)
@given(
    st.lists(
        st.tuples(LABELS, LABELS, st.integers(-9, 9)),
        min_size=1,
        max_size=12,
        unique_by=lambda row: row[:2],
    ),
    st.sampled_from([",", ";", "\t", "::"]),
    st.integers(1, 40),
)
def test_any_text_in_quotes_is_read_as_python_reads_it(tmp_path_factory, rows, sep, size):
    def quoted(label):
        return '"' + label.replace('"', '""') + '"'

    path = tmp_path_factory.mktemp("quotes") / "a.csv"
    text = "".join(f"{quoted(user)}{sep}{quoted(item)}{sep}{value}\n" for user, item, value in rows)
    path.write_bytes(("user" + sep + "item" + sep + "rating\n" + text).encode())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(records, "LARGE", -1 if size % 2 else 10**9)
        patch.setattr(records, "BLOCK", 8 * size)
        observed = Observed.from_file(path, sep=sep)
    assert observed.n_observed == len(rows)
    for user, item, value in rows:
        at = [
            labels.positions([int(name) if labels.names.dtype == np.int64 else name])
            for labels, name in ((observed.row_labels, user), (observed.column_labels, item))
        ]
        assert observed.values_at(*at)[0] == value
    if len(sep) == 1:
        assert [tuple(row) for row in csv.reader(io.StringIO(text, newline=""), delimiter=sep)] == [
            (user, item, str(value)) for user, item, value in rows
        ]


@settings(max_examples=150)
@given(
    st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=8),
    st.sampled_from(["{!r}", "{:.3f}", "{:e}", "{:+.17g}", "{:.0f}", " {:.1f} "]),
)
def test_numbers_are_rounded_as_python_rounds_them(tmp_path_factory, numbers, form):
    cells = [form.format(number) for number in numbers]
    path = tmp_path_factory.mktemp("numbers") / "a.csv"
    path.write_text("".join(f"{k},0,{cell}\n" for k, cell in enumerate(cells)))
    values = Observed.from_file(path, dtype=np.float64, header=False).values
    assert values.tolist() == [float(cell) for cell in cells]


@pytest.mark.usefixtures("by_arrow")
@pytest.mark.parametrize("form", ["{}", "user {:09d}", "{:03d}", "{}000003"])
def test_many_names_are_numbered_like_numpy_numbers_them(tmp_path, form):
    rng = np.random.default_rng(0)
    users, items = rng.integers(1, 15_000, 20_000), np.arange(20_000)
    path = written(
        tmp_path / "a.csv",
        "".join(f"{form.format(u)},{i},1\n" for u, i in zip(users, items, strict=True)),
    )
    observed = Observed.from_file(path)
    names, positions = np.unique(
        [int(form.format(u)) if form[:2] == "{}" else form.format(u) for u in users],
        return_inverse=True,
    )
    assert observed.row_labels.names.tolist() == names.tolist()
    np.testing.assert_array_equal(observed.by_column.indices, positions)  # item k is column k


@pytest.mark.usefixtures("by_arrow")
def test_leading_zeros_stay_text_and_negative_numbers_are_numbers(tmp_path):
    observed = Observed.from_file(
        written(tmp_path / "a.csv", "user,item,rating\n007,-5,1\n7,10,2\n")
    )
    assert observed.row_labels.names.tolist() == ["007", "7"]
    assert observed.column_labels.names.tolist() == [-5, 10]


# --- columns ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("header", "arguments"),
    [
        ("userId,movieId,rating,timestamp", {}),
        ("USER_ID,Item Id,Score,when", {}),
        ("who,what,stars,when", {"user": "who", "item": "what"}),
        ("a,b,c,d", {}),
        ("a,b,c,d", {"user": 0, "item": 1, "rating": "c"}),
        ("a,b,c,d", {"user": "0", "item": "1", "rating": -2}),
    ],
)
def test_columns_are_found_by_usual_names_by_given_ones_or_by_place(tmp_path, header, arguments):
    path = written(tmp_path / "a.csv", f"{header}\n5,6,3.5,99\n")
    observed = Observed.from_file(path, **arguments)
    assert observed.row_labels.names.tolist() == [5]
    assert observed.column_labels.names.tolist() == [6]
    assert observed.values.tolist() == [3.5]
    frame = pd.read_csv(path)
    assert Observed.from_frame(frame, **arguments).fingerprint() == observed.fingerprint()


def test_columns_may_come_in_any_order(tmp_path):
    check(
        Observed.from_file(
            written(tmp_path / "a.csv", lines(rows=ROWS)), user="userId", rating="rating"
        )
    )
    turned = "rating,when,movie,user\n" + "".join(f"{r},1999,{m},{u}\n" for u, m, r in ROWS)
    check(Observed.from_file(written(tmp_path / "b.csv", turned)))


def test_text_labels_without_a_header_are_told_from_names(tmp_path):
    observed = Observed.from_file(written(tmp_path / "a.csv", "al,Heat,5\nbo,Heat,4\n"))
    assert observed.shape == (2, 1)
    assert Observed.from_file(tmp_path / "a.csv", header=True).shape == (1, 1)


# --- bad input --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "arguments", "message"),
    [
        ("", {}, r"a\.csv is empty"),
        ("\n  \n", {}, r"a\.csv holds no lines"),
        ("user,item,rating\n", {}, r"a\.csv has a header but no rows"),
        ("user,item,rating", {}, r"a\.csv has a header but no rows"),
        (
            "user,item,rating\n1,2,3\n1,3\n",
            {},
            r"a\.csv, line 3 has 2 cells, the lines before it have 3",
        ),
        (
            "user,item,rating\n1,2,3\n\n1,3,4,5\n",
            {},
            r"a\.csv, line 4 has 4 cells, the lines before it have 3",
        ),
        ("1,2,3\n1,3,4,5\n", {}, r"a\.csv, line 2 has 4 cells"),
        ("user,item,rating\n1,2,good\n", {}, r"a\.csv, line 2: the rating 'good' is not a number"),
        (
            "user;item;rating\n1;2;3,5\n",
            {},
            r"line 2: the rating '3,5' is not a number \(decimals are written with",
        ),
        ("user,item,rating\n1,2,1_000\n", {}, r"line 2: the rating '1_000' is not a number"),
        ("user,item,rating\n1,2,3\n1,3,\n", {}, r"a\.csv, line 3 has no rating"),
        (
            "user,item,rating\n1,2,nan\n",
            {},
            r"a\.csv, line 2: the rating is nan; leave unknown entries out",
        ),
        ("user,item,rating\n1,2,inf\n", {}, r"line 2: the rating is inf"),
        ("user,item,rating\n1,2,1e300\n", {}, r"line 2: the rating is 1e300"),
        ("user,item,rating\n1,2,3\n,3,4\n", {}, r"a\.csv, line 3 has no user"),
        ("user,item,rating\n1,2,3\n1, ,4\n", {}, r"a\.csv, line 3 has no item"),
        ("user,item,rating\n1,2,3\n1,2,4\n", {}, r"1 entries are given twice, such as \(1, 2\)"),
        (
            'user,item,rating\n1,"2,3\n1,3,4\n',
            {},
            r"a\.csv, line 2: a quote is opened here and never closed",
        ),
        ('user,item,rating\n1,"2"x,3\n', {}, r"a\.csv, line 2: text follows a closing quote"),
        ("1,2,good\n", {}, r"line 1: the rating 'good' is not a number, but '1' is one"),
        (
            "user item rating\n1 2 3\n",
            {"sep": ","},
            r"line 1 \(separated by ','\): there are 1 columns",
        ),
        ("a\n1\n", {}, r"there are 1 columns; an entry has three"),
        (
            "userId,tag,timestamp,x\n1,2,3,4\n",
            {},
            r"which column is the item\? There are userId, tag, timestamp, x",
        ),
        (
            "userId,movieId,rating\n1,2,3\n",
            {"rating": "ratng"},
            r"no column 'ratng'; did you mean 'rating'\?",
        ),
        (
            "userId,movieId,rating\n1,2,3\n",
            {"user": 0, "item": "userId"},
            r"three different columns",
        ),
        ("1,2,3\n", {"user": "who", "header": False}, r"no column 'who'; there are 3 columns"),
        ("u,i,r\n1,2,3\n", {"dtype": "int8"}, r"pass float32 or float64"),
        ("u,i,r\n1,2,3\n", {"sep": ""}, r"sep='' is not accepted"),
        ("u,i,r\n1,2,3\n", {"duplicates": "first"}, r"pass one of error, last, mean"),
        (b"\x89PNG\r\n", {}, r"a\.csv is not text: it is a PNG image"),
        (b"u,i,r\n\0\0", {}, r"a\.csv is not text: it holds zero bytes"),
        ("user,item,rating\n1,2,3\n".encode("utf-16"), {}, r"is not text"),
        (b"user,item,rating\nJ\xf6rg,2,3\n", {}, r"a\.csv is not UTF-8 text"),
        (b"PAR1 and no more", {}, r"damaged or not Parquet"),
    ],
    ids=lambda value: re.sub(r"\W+", "_", str(value))[:40],
)
@pytest.mark.usefixtures("by_arrow")
def test_what_is_wrong_with_a_file_is_said_with_its_line(tmp_path, text, arguments, message):
    with pytest.raises(ValueError, match=message):
        Observed.from_file(written(tmp_path / "a.csv", text), **arguments)


def test_missing_and_damaged_files_are_named(tmp_path):
    written(tmp_path / "ratings.csv", lines())
    with pytest.raises(FileNotFoundError, match=r"did you mean .*ratings\.csv"):
        Observed.from_file(tmp_path / "rating.csv")
    with pytest.raises(UnreadableData, match="is a folder"):
        Observed.from_file(tmp_path)
    packed = gzip.compress(lines().encode())
    with pytest.raises(UnreadableData, match="damaged or truncated"):
        Observed.from_file(written(tmp_path / "cut.csv", packed[:-9]))


@settings(max_examples=150)
@given(
    st.one_of(st.binary(max_size=60), st.text('12,"\n\r.:;ab e-', max_size=60).map(str.encode)),
    st.integers(1, 30),
)
def test_no_bytes_whatever_break_the_reader(tmp_path_factory, content, size):
    path = tmp_path_factory.mktemp("bytes") / "a.csv"
    path.write_bytes(content)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(records, "LARGE", -1 if size % 2 else 10**9)
        patch.setattr(records, "BLOCK", 4 * size)
        try:
            observed = Observed.from_file(path, duplicates="last")
        except ValueError:
            return
        assert observed.n_observed >= 1
        assert np.isfinite(observed.values).all()


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"user": [1, 2], "item": [1, 2], "rating": [1.0, np.nan]}, "row 1: the rating is nan"),
        (
            {"user": [1, 2], "item": [1, 2], "rating": ["4", "good"]},
            "row 1: the rating 'good' is not a number",
        ),
        (
            {"user": [1.0, np.nan], "item": [1, 2], "rating": [1, 2]},
            "the user label of entry 1 is missing",
        ),
        (
            {"user": ["a", None], "item": [1, 2], "rating": [1, 2]},
            "the user label of entry 1 is missing",
        ),
        (
            {"user": [1, 1], "item": [2, 2], "rating": [1, 2]},
            r"1 entries are given twice, such as \(1, 2\)",
        ),
        ({"user": [1], "item": [2]}, "there are 2 columns; an entry has three"),
    ],
)
def test_bad_frames_are_refused_with_the_row(columns, message):
    with pytest.raises(ValueError, match=message):
        Observed.from_frame(pd.DataFrame(columns))


def test_something_without_columns_is_no_frame():
    with pytest.raises(TypeError, match="pass a DataFrame"):
        Observed.from_frame(np.ones((2, 3)))


def test_ratings_of_a_frame_are_float32_where_that_loses_nothing():
    frame = pd.DataFrame({"user": [1, 2], "item": [1, 1], "rating": [3.5, 0.1]})
    assert Observed.from_frame(frame).dtype == np.float64
    assert Observed.from_frame(frame.assign(rating=[3.5, 4])).dtype == np.float32


def test_duplicates_in_a_file_are_the_last_or_the_mean(tmp_path):
    path = written(tmp_path / "a.csv", "user,item,rating\n1,2,1\n1,2,4\n")
    assert Observed.from_file(path, duplicates="last").values.tolist() == [4]
    assert Observed.from_file(path, duplicates="mean").values.tolist() == [2.5]


def test_files_need_no_pandas(tmp_path):
    written(tmp_path / "a.csv", lines())
    pd.DataFrame({"user": [1], "item": [1], "rating": [1.0]}).to_parquet(tmp_path / "a.parquet")
    code = (
        "import sys; sys.modules['pandas'] = None\n"
        "from lemmata.completion import Observed\n"
        "print(*(Observed.from_file(path).n_observed for path in sys.argv[1:]))\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "a.csv"), str(tmp_path / "a.parquet")]
    out = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout
    assert out.split() == ["4", "1"]


class Stream:
    """A frame of which nothing is known but the Arrow stream interface, as duckdb's and polars' have it."""

    def __init__(self, table):
        self.table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self.table.__arrow_c_stream__(requested_schema)


def test_whatever_streams_arrow_is_a_frame():
    columns = {"userId": [7, 7, 12, 9], "movieId": [30, 8, 30, 8], "rating": [4.5, 3, 0.5, 5]}
    for X in (pa.table(columns), Stream(pa.table(columns))):
        check(Observed.of(X))
        check(Observed.from_frame(X))
    reader = pa.table({**columns, "time": [4, 3, 2, 1]}).to_reader(max_chunksize=2)
    assert Observed.of(reader).times.tolist() == [3, 4, 1, 2]  # by row: (7, 8), (7, 30), (9, 8), …
    texts = pa.table({**columns, "movieId": pa.array(["b", "a", "b", "a"], pa.string_view())})
    assert Observed.from_frame(Stream(texts)).column_labels.names.tolist() == ["a", "b"]
    missing = pa.table({**columns, "userId": [7, None, 12, 9]})
    with pytest.raises(ValueError, match="1 rows have no user"):
        Observed.from_frame(Stream(missing))
