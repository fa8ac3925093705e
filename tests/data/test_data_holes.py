"""Tables with holes: empty cells become NaN where that was asked for, and are refused elsewhere."""

import numpy as np
import pytest

from lemmata.data import UnreadableData, read_matrix


def written(tmp_path, text):
    (tmp_path / "table.csv").write_text(text)
    return tmp_path / "table.csv"


@pytest.mark.parametrize("empty", ["", " ", "NA", "null", "nan", '""'])
def test_empty_cells_are_nan_where_asked_and_refused_elsewhere(tmp_path, empty):
    path = written(tmp_path, f"a,b\n1,{empty}\n2,3\n")
    found = read_matrix(path, holes=True)
    np.testing.assert_array_equal(found.X, [[1, np.nan], [2, 3]])
    assert found.names == ("a", "b")
    if empty != "nan":
        with pytest.raises(UnreadableData, match="line 2, column 2"):
            read_matrix(path)


def test_holes_leave_names_targets_and_choices_alone(tmp_path):
    path = written(tmp_path, "who;b;a\nann;;1\n\nbob;2;\n")
    found = read_matrix(path, target="who", columns=["a", "b"], holes=True)
    np.testing.assert_array_equal(found.X, [[1, np.nan], [np.nan, 2]])
    assert found.y.tolist() == ["ann", "bob"]


def test_other_text_is_still_refused_by_line(tmp_path):
    with pytest.raises(UnreadableData, match=r"line 3, column 1 .*'many' is not a number"):
        read_matrix(written(tmp_path, "a,b\n1,\nmany,2\n"), holes=True)
    with pytest.raises(UnreadableData, match="line 3 has 3 cells"):
        read_matrix(written(tmp_path, "a,b\n1,\n1,2,3\n"), holes=True)
    with pytest.raises(UnreadableData, match="header but no rows"):
        read_matrix(written(tmp_path, "a,b\n"), holes=True)


def test_nulls_of_parquet_files_are_holes_too(tmp_path):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    columns = {"float": [1.5, None], "int": pa.array([None, 2]), "flag": pa.array([True, None])}
    pq.write_table(pa.table(columns), tmp_path / "table.parquet")
    found = read_matrix(tmp_path / "table.parquet", holes=True)
    np.testing.assert_array_equal(found.X, [[1.5, np.nan, 1], [np.nan, 2, np.nan]])
    with pytest.raises(UnreadableData, match="missing values"):
        read_matrix(tmp_path / "table.parquet")
