"""Tables from files: every format gives the same numbers, every bad file one clear message."""

import csv
import gzip
import io
import sys
import zipfile

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from lemmata.data import UnreadableData, files, read_matrix, records
from lemmata.data.write import check_format, write_csv, write_matrix

TABLE = "a,b,kind\n1,2.5,x\n-3e2,4,y\n"
A = np.array([[1.0, 2.5], [-300.0, 4.0]])


@pytest.fixture
def put(tmp_path):
    """Write text or bytes to a file of this name, and give its path."""

    def write(name, content):
        path = tmp_path / name
        content = content.encode() if isinstance(content, str) else content
        path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
        return path

    return write


def as_bytes(save, *arguments, **named):
    buffer = io.BytesIO()
    save(buffer, *arguments, **named)
    return buffer.getvalue()


# --- csv --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "T.CSV"])
def test_a_csv_with_names_and_a_text_target(put, name):
    matrix = read_matrix(put(name, TABLE), target="kind")
    assert np.array_equal(matrix.X, A)
    assert matrix.names == ("a", "b")
    assert matrix.y.tolist() == ["x", "y"]


def test_a_target_by_position_and_dropped_columns(put):
    path = put("t.csv", TABLE)
    assert read_matrix(path, target="-1").y.tolist() == ["x", "y"]
    assert read_matrix(path, drop=["kind", "a"]).names == ("b",)
    assert read_matrix(path, target="a", drop=["2"]).y.tolist() == [1, -300]


def test_columns_are_taken_by_name_in_the_order_asked_for(put):
    matrix = read_matrix(put("t.csv", TABLE), columns=["b", "a"])
    assert np.array_equal(matrix.X, A[:, ::-1])
    with pytest.raises(UnreadableData, match="no column 'aa'; did you mean 'a'"):
        read_matrix(put("t.csv", TABLE), columns=["aa"])


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("t.csv", "1,2.5\n-300,4\n"),
        ("t.csv", "1;2.5\n-300;4\n"),
        ("t.tsv", "1\t2.5\n-300\t4\n"),
        ("t.csv", "\n1, 2.5\n\n-300 ,4"),
        ("t.csv", "1,2.5\r\n-300,4\r\n"),
        ("t.csv", '"1","2.5"\n-300,"4"\n'),
    ],
    ids=["comma", "semicolon", "tab", "blank lines", "windows", "quoted"],
)
def test_a_csv_without_names(put, name, text):
    matrix = read_matrix(put(name, text))
    assert np.array_equal(matrix.X, A)
    assert matrix.names is None


def test_a_byte_order_mark_is_no_part_of_the_first_name(put):
    assert read_matrix(put("t.csv", "\ufeffa,b\n1,2\n")).names == ("a", "b")


def test_quoted_text_may_hold_delimiters(put):
    matrix = read_matrix(put("t.csv", 'a,"b, too",kind\n1,2.5,"x, y"\n-300,4,z\n'), target="kind")
    assert matrix.names == ("a", "b, too")
    assert matrix.y.tolist() == ["x, y", "z"]
    assert np.array_equal(matrix.X, A)


def test_a_nameless_column_gets_a_name(put):
    assert read_matrix(put("t.csv", ",a\n0,1\n")).names == ("column 0", "a")


def test_the_user_decides_about_a_doubtful_header(put):
    path = put("t.csv", "2019,2020,total\n1,2,3\n")
    with pytest.raises(
        UnreadableData, match=r"line 1 mixes numbers \('2019'\) and text \('total'\).*--header"
    ):
        read_matrix(path)
    assert read_matrix(path, header=True).names == ("2019", "2020", "total")
    with pytest.raises(UnreadableData, match="line 1, column 3: 'total'"):
        read_matrix(path, header=False)


def test_csv_from_standard_input(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(TABLE.encode())))
    assert np.array_equal(read_matrix("-", drop=["kind"]).X, A)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n1,2\n3,four\n", r"line 3, column 2 \('b'\): 'four' is not a number"),
        ("1,2\n3,four\n", "line 2, column 2: 'four' is not a number"),
        ("a,b\n1,2\n\n3,\n", r"line 4, column 2 \('b'\) is empty"),
        ("a,b\n1,2\n3\n", "line 3 has 1 cells, the lines before it have 2"),
        ("a,b\n1,2\n3,4,5\n", "line 3 has 3 cells"),
        ('a,b\n1,2\n"3,4"\n', "line 3 has 1 cells"),
        ("a,b\n1,1_000\n", "'1_000' is not a number"),
        ("a,b\n", "a header but no rows"),
        ("\n \n", "no lines"),
        ("1 2 3\n4 5 6\n", "separate the columns by commas"),
    ],
    ids=[
        "text",
        "text, no names",
        "empty cell",
        "short",
        "long",
        "quoted",
        "underscore",
        "no rows",
        "blank",
        "spaces",
    ],
)
def test_a_bad_csv_is_told_by_line_and_column(put, text, message):
    path = put("bad.csv", text)
    with pytest.raises(UnreadableData, match=message) as caught:
        read_matrix(path)
    assert str(path) in str(caught.value)


def test_ragged_lines_are_found_even_where_the_wanted_columns_exist(put):
    with pytest.raises(UnreadableData, match="line 3 has 4 cells"):
        read_matrix(put("t.csv", "a,b,c\n1,2,3\n1,2,3,4\n"), columns=["a"])


def test_ambiguous_unknown_and_exhausted_columns_are_refused(put):
    path = put("t.csv", "a,a,b\n1,2,3\n")
    with pytest.raises(UnreadableData, match="several columns are called 'a'"):
        read_matrix(path, target="a")
    with pytest.raises(UnreadableData, match="no column '7'; there are 3 columns: a, a, b"):
        read_matrix(path, drop=["7"])
    with pytest.raises(UnreadableData, match="no column is left"):
        read_matrix(path, drop=["0", "1"], target="b")


@given(
    arrays(
        np.float64, st.tuples(st.integers(1, 6), st.integers(1, 4)), elements=st.floats(width=64)
    )
)
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_written_and_read_again_numbers_are_the_same_to_the_bit(tmp_path, Z):
    for name in ("z.csv", "z.csv.gz", "z.npy"):
        write_matrix(tmp_path / name, Z, [f"z{i}" for i in range(Z.shape[1])])
        assert np.array_equal(read_matrix(tmp_path / name).X, Z, equal_nan=True)


@given(st.binary(max_size=200))
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_arbitrary_bytes_are_read_or_refused_with_a_message(tmp_path, content):
    for name in ("x.csv", "x.tsv", "x.npy", "x.npz", "x.parquet", "x.svm", "x.csv.gz", "x.svm.gz"):
        path = tmp_path / name
        path.write_bytes(content)
        try:
            said = f"{path} has {read_matrix(path).X.ndim} axes"
        except UnreadableData as error:
            said = str(error)
        assert str(path) in said


# --- arrays -----------------------------------------------------------------------------------------------------------


def test_an_npy_is_read_and_a_large_one_mapped(put, monkeypatch):
    path = put("a.npy", as_bytes(np.save, A.astype(np.float32)))
    small = read_matrix(path)
    assert not isinstance(small.X, np.memmap)
    monkeypatch.setattr(files, "MEMMAP_BYTES", 10)
    large = read_matrix(path)
    assert isinstance(large.X, np.memmap)
    assert large.X.dtype == np.float32
    assert np.array_equal(large.X, A)
    with_target = read_matrix(path, target="0")
    assert with_target.y.tolist() == [1, -300]
    assert with_target.X.shape == (2, 1)


def test_an_npz_gives_x_the_only_matrix_or_the_one_asked_for(put):
    y = np.array([0, 1])
    assert np.array_equal(read_matrix(put("a.npz", as_bytes(np.savez, X=A, other=A + 1))).X, A)
    both = read_matrix(put("a.npz", as_bytes(np.savez, data=A, y=y)), target="y")
    assert np.array_equal(both.X, A)
    assert np.array_equal(both.y, y)
    path = put("a.npz", as_bytes(np.savez, first=A, second=A + 1))
    assert np.array_equal(read_matrix(path, array="second").X, A + 1)
    with pytest.raises(UnreadableData, match=r"2 matrices.*first \(2, 2\)"):
        read_matrix(path)
    with pytest.raises(UnreadableData, match="there are first, second"):
        read_matrix(path, array="third")


def test_a_sparse_npz_stays_sparse(put):
    path = put("s.npz", as_bytes(sp.save_npz, sp.csr_array(A)))
    matrix = read_matrix(path, target="1")
    assert sp.issparse(matrix.X)
    assert np.array_equal(matrix.X.toarray(), A[:, :1])
    assert np.array_equal(matrix.y, A[:, 1])


def objects():
    return np.array([[1, "a"]], dtype=object)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.npy", lambda: as_bytes(np.save, A)[:-3], "damaged or truncated"),
        ("a.npy", lambda: as_bytes(np.save, A)[:20], "damaged or truncated"),
        ("a.npy", lambda: as_bytes(np.save, objects(), allow_pickle=True), "never unpickles"),
        ("a.npy", lambda: b"hello", "never unpickles"),
        ("a.npy", lambda: as_bytes(np.savez, X=A), "name it .npz"),
        ("a.npy", lambda: as_bytes(np.save, A[0]), r"1 axes \(2\)"),
        ("a.npy", lambda: as_bytes(np.save, np.array([["a"]])), "not real numbers"),
        ("a.npy", lambda: as_bytes(np.save, A[:0]), "no rows"),
        ("a.npz", lambda: as_bytes(np.savez, X=A)[:-30], "damaged or truncated"),
        ("a.npz", lambda: as_bytes(np.savez, X=objects()), "pickled"),
        ("a.npz", lambda: as_bytes(np.save, A), "name it .npy"),
        ("a.npz", lambda: as_bytes(np.savez, X=A.reshape(2, 2, 1)), "3 axes"),
        ("a.npz", lambda: b"PK\x03\x04 rubbish", "damaged or truncated"),
    ],
)
def test_bad_arrays_are_refused(put, name, content, message):
    with pytest.raises(UnreadableData, match=message):
        read_matrix(put(name, content()))


def test_an_npz_with_a_flipped_byte_is_refused(put):
    content = bytearray(as_bytes(np.savez_compressed, X=np.arange(4000.0).reshape(40, 100)))
    start = zipfile.ZipFile(io.BytesIO(content)).infolist()[0].header_offset + 200
    content[start] ^= 0xFF
    with pytest.raises(UnreadableData, match=r"a\.npz"):
        read_matrix(put("a.npz", bytes(content)))


# --- parquet and svmlight ---------------------------------------------------------------------------------------------


def parquet(**columns):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    return as_bytes(lambda buffer: pq.write_table(pa.table(columns), buffer))


def test_a_parquet_file_keeps_names_and_single_precision(put):
    path = put(
        "t.parquet",
        parquet(a=A[:, 0].astype(np.float32), b=A[:, 1].astype(np.float32), kind=["x", "y"]),
    )
    matrix = read_matrix(path, target="kind")
    assert matrix.names == ("a", "b")
    assert matrix.X.dtype == np.float32
    assert matrix.y.tolist() == ["x", "y"]
    assert np.array_equal(matrix.X, A.astype(np.float32))
    assert read_matrix(path, columns=["b"]).names == ("b",)


def test_a_bad_parquet_file_is_refused(put):
    with pytest.raises(UnreadableData, match="column 'kind' holds string"):
        read_matrix(put("t.parquet", parquet(a=[1.0], kind=["x"])))
    with pytest.raises(UnreadableData, match="column 'a' has 1 missing values"):
        read_matrix(put("t.parquet", parquet(a=[1.0, None])))
    with pytest.raises(UnreadableData, match="damaged or not Parquet"):
        read_matrix(put("t.parquet", parquet(a=[1.0] * 50)[:-40]))


SVM = "1 1:2 3:0.5 # why\n-1 2:4\n"


@pytest.mark.parametrize("name", ["t.svm", "t.svmlight", "t.libsvm", "t.svm.gz"])
def test_svmlight_is_sparse_with_labels(put, name):
    matrix = read_matrix(put(name, SVM))
    assert np.array_equal(matrix.X.toarray(), [[2, 0, 0.5], [0, 4, 0]])
    assert matrix.y.tolist() == [1, -1]
    assert read_matrix(put(name, SVM), n_features=7).X.shape == (2, 7)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 1:2\nfoo 1:2\n", "line 2: 'foo' does not fit"),
        ("1 1:2\n1 1:x\n", "line 2: '1:x' does not fit"),
        ("1 1:2\n1 two:2\n", "line 2: 'two:2' does not fit"),
        ("1 1:2\n1 3:1 2:1\n", "line 2: the indices do not increase"),
    ],
)
def test_bad_svmlight_is_told_by_line(put, text, message):
    with pytest.raises(UnreadableData, match=message):
        read_matrix(put("t.svm", text))


def test_an_svmlight_file_wider_than_the_model_is_refused(put):
    with pytest.raises(UnreadableData, match="features"):
        read_matrix(put("t.svm", SVM), n_features=2)


# --- files that are something else ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.csv", b"\x89PNG\r\n\x1a\n" + bytes(30), "it is a PNG image"),
        ("t.csv", gzip.compress(b"1,2\n", mtime=0), "it is gzip"),
        ("t.csv", b"PK\x03\x04" + bytes(30), "a spreadsheet"),
        ("t.csv", "1,2\n3,4\n".encode("utf-16"), "zero bytes"),
        ("t.csv", "a,b\n1,2\nü,3\n".encode("latin-1"), "not UTF-8"),
        ("t.csv", b"", "is empty"),
        ("t.xlsx", b"PK", "of no kind that lemmata reads"),
        ("t", b"1,2", "of no kind that lemmata reads"),
        ("t.gz", b"1,2", "of no kind that lemmata reads"),
        ("t.npy.gz", b"1,2", "of no kind that lemmata reads"),
    ],
)
def test_a_file_of_another_kind_is_named(put, name, content, message):
    with pytest.raises(UnreadableData, match=message):
        read_matrix(put(name, content))


def test_damaged_gzip_is_refused(tmp_path):
    path = tmp_path / "t.csv.gz"
    path.write_bytes(gzip.compress(b"1,2\n" * 1000)[:-12])
    with pytest.raises(UnreadableData, match="damaged or truncated"):
        read_matrix(path)
    path.write_bytes(b"1,2\n")
    with pytest.raises(UnreadableData, match="damaged or truncated"):
        read_matrix(path)


def test_a_missing_file_suggests_its_neighbour(put, tmp_path):
    put("digits.csv", "1\n")
    with pytest.raises(FileNotFoundError, match=r"did you mean .*digits\.csv"):
        read_matrix(tmp_path / "digit.csv")
    with pytest.raises(FileNotFoundError, match="there is no file"):
        read_matrix(tmp_path / "nowhere" / "digits.csv")


def test_a_folder_is_no_file(tmp_path):
    with pytest.raises(UnreadableData, match="is a folder"):
        read_matrix(tmp_path)


# --- writing ----------------------------------------------------------------------------------------------------------


def test_single_precision_is_written_with_the_digits_it_has():
    text = io.StringIO()
    write_csv(text, np.array([[0.1, 2]], dtype=np.float32), ["a", 'b "c", d'])
    assert text.getvalue() == 'a,"b ""c"", d"\n0.1,2.0\n'


def test_a_result_needs_a_known_suffix_and_leaves_nothing_else(tmp_path):
    with pytest.raises(ValueError, match=r"\.csv, \.csv\.gz or \.npy"):
        check_format(tmp_path / "z.xlsx")
    write_matrix(tmp_path / "z.npy", A, ["a", "b"])
    assert [path.name for path in tmp_path.iterdir()] == ["z.npy"]


# --- what people's files really look like -----------------------------------------------------------------------------


def test_a_decimal_comma_is_recognised_and_read_if_asked(put):
    path = put("t.csv", "a;b;kind\n1,5;-2,25e1;x,y\n3;4;z\n")
    message = (
        r"line 2, column 1 \('a'\): '1,5' has a decimal comma; to read it as 1.5, pass decimal=','"
    )
    with pytest.raises(UnreadableData, match=message):
        read_matrix(path, target="kind")
    matrix = read_matrix(path, target="kind", decimal=",")
    np.testing.assert_array_equal(matrix.X, [[1.5, -22.5], [3, 4]])
    assert matrix.y.tolist() == ["x,y", "z"]
    assert read_matrix(path, target="a", drop=["kind"], decimal=",").y.tolist() == [1.5, 3.0]
    plain = read_matrix(put("u.csv", "1,5;2,5\n3,0;4,5\n"), decimal=",")
    np.testing.assert_array_equal(plain.X, [[1.5, 2.5], [3, 4.5]])
    with pytest.raises(UnreadableData, match="'1,5' has a decimal comma"):
        read_matrix(put("u.csv", "1,5;2,5\n3,0;4,5\n"))
    holes = read_matrix(put("v.csv", "a;b\n1,5;\n"), decimal=",", holes=True)
    np.testing.assert_array_equal(holes.X, [[1.5, np.nan]])
    with pytest.raises(UnreadableData, match="separated by ',', which cannot be the decimal sign"):
        read_matrix(put("t.csv", "a,b\n1,2\n"), decimal=",")
    with pytest.raises(ValueError, match="decimal=';' is not accepted"):
        read_matrix(path, decimal=";")


@pytest.mark.parametrize(
    ("asked", "there", "hint"),
    [
        ("ratigns.csv", "ratings.csv", True),
        ("iris.csv", "iris.npy", True),
        ("iris.csv", "wine.csv", False),
        ("train.csv", "trace.csv", False),
        ("part-1.csv", "part-2.csv", False),
        ("missing.csv", "mission.txt", False),
    ],
)
def test_a_missing_file_does_not_suggest_an_unrelated_one(put, asked, there, hint):
    path = put(there, "1,2\n")
    with pytest.raises(FileNotFoundError, match="there is no file") as caught:
        read_matrix(path.with_name(asked))
    assert (f"did you mean {path}?" in str(caught.value)) == hint


def test_columns_that_nobody_asked_for_are_named(put):
    path = put("t.csv", "id,a,b,kind,note\n1,2,3,x,7\n")
    matrix = read_matrix(path, columns=["b", "a"], target="kind", drop=["id"])
    assert matrix.unused == ("note",)
    assert read_matrix(path, columns=["b", "a"], target="3").unused == ("id", "note")
    assert read_matrix(path, drop=["kind"]).unused == ()


@pytest.mark.parametrize("target", [None, "b"])
def test_a_cell_of_ten_megabytes_is_refused_with_its_line(put, target):
    path = put("t.csv", 'a,b\n1,2\n1,"' + "x" * 10_000_000 + '"\n')
    with pytest.raises(
        UnreadableData, match=r"line 3: a cell has more than 131,072 bytes"
    ) as caught:
        read_matrix(path, target=target)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("index", [2 * 10**9, 2**31, 10**17, 10**30])
def test_an_impossible_column_of_an_svmlight_file_is_refused_with_its_line(put, index):
    path = put("t.svm", f"1 1:2\n1 1:2 {index}:3\n")
    with pytest.raises(UnreadableData, match=f"line 2: .*{index}"):
        read_matrix(path)


def test_labels_that_a_spreadsheet_would_compute_are_quoted_if_asked():
    names = ["=1+1", "+a", "-b", "@c", "\td", "\re", "plain", 'a"b', "a,b"]
    plain, safe = io.StringIO(), io.StringIO()
    write_csv(plain, np.array([[-1.0] * 9]), names)
    write_csv(safe, np.array([[-1.0] * 9]), names, safe=True)
    rows = list(csv.reader(io.StringIO(plain.getvalue(), newline="")))
    assert rows == [names, ["-1.0"] * 9]
    rows = list(csv.reader(io.StringIO(safe.getvalue(), newline="")))
    assert rows[0] == ["'=1+1", "'+a", "'-b", "'@c", "'\td", "'\re", "plain", 'a"b', "a,b"]
    assert rows[1] == ["-1.0"] * 9  # numbers are numbers


@pytest.mark.parametrize("decimal", [".", ","])
def test_large_tables_are_read_by_arrow_as_small_ones_by_python(put, monkeypatch, decimal):
    rng = np.random.default_rng(0)
    cells = [
        [*(f"{x:.17g}".replace(".", decimal) for x in row), "ab"[i % 2]]
        for i, row in enumerate(rng.normal(size=(50, 3)))
    ]
    cells[7][1] = "NA"
    path = put("t.csv", "\n".join(";".join(row) for row in [["x", "y", "z", "kind"], *cells]))
    found = []
    for large in (10**9, -1):
        monkeypatch.setattr(records, "LARGE", large)
        monkeypatch.setattr(records, "BLOCK", 500)
        found.append(read_matrix(path, target="kind", decimal=decimal, holes=True))
        monkeypatch.setattr(records, "read_records", None)  # Arrow does not need it
    np.testing.assert_array_equal(found[0].X, found[1].X)
    assert np.isnan(found[1].X[7, 1])
    assert found[0].y.tolist() == found[1].y.tolist() == ["a", "b"] * 25
