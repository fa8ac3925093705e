"""Tables from files: csv, npy, npz, parquet and svmlight become a matrix with the names of its columns.

    matrix = read_matrix("iris.csv", target="species")
    matrix.X, matrix.y, matrix.names

Whatever is wrong with a file is said in one message: which file, which line and column, what to do. Nothing is unpickled.
"""

from __future__ import annotations

import gzip
import sys
import zipfile
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lemmata.data.records import Text, check_file, refuse_binary
from lemmata.data.tables import Choice, Matrix, UnreadableData, numeric, select
from lemmata.data.text_tables import read_csv, read_svmlight

MEMMAP_BYTES = 64 * 2**20  # an .npy file larger than this is mapped, not read


def read_matrix(
    path: str | Path,
    *,
    target: str | None = None,
    drop: Sequence[str] = (),
    columns: Sequence[str] | None = None,
    array: str | None = None,
    header: bool | None = None,
    n_features: int | None = None,
    holes: bool = False,
    decimal: str = ".",
    images: bool = False,
) -> Matrix:
    """Read a table of numbers.

    Parameters
    ----------
    path : .csv, .tsv, .npy, .npz, .parquet, .svm, .svmlight or .libsvm; the text formats also as .gz; "-" is csv from stdin
    target : the column that becomes y, by name or position (0 is the first, -1 the last); in an .npz also an array
    drop : columns to leave out
    columns : the features to take, by name and in this order, where the file has names; others are left out
    array : which array of an .npz; by default X, or the only matrix in it
    header : whether the first line of a csv holds names; by default it does if none of its cells is a number
    n_features : the width of an svmlight file, which may not mention its last columns
    decimal : "," if numbers are written 3,14; a csv whose cells are separated by commas cannot
    holes : whether empty cells (NA, null) of a csv and nulls of a parquet file become NaN; otherwise they are refused
    images : whether arrays may have three or four axes, (n, H, W) or (n, C, H, W); otherwise they are refused
    """
    if decimal not in (".", ","):
        raise ValueError(f"decimal={decimal[:40]!r} is not accepted; pass '.' or ','.")
    choice = Choice(target, tuple(drop), None if columns is None else tuple(columns), holes)
    if str(path) == "-":
        return _guard(
            "the standard input",
            lambda: read_csv(Text.of_stream(sys.stdin.buffer), choice, header, decimal=decimal),
        )
    path = Path(path)
    suffix = _checked_suffix(path)
    readers: dict[str, Callable[[], Matrix]] = {
        "csv": lambda: read_csv(
            Text.of(path), choice, header, "\t" if ".tsv" in path.suffixes else None, decimal
        ),
        "npy": lambda: select(_read_npy(path, images), None, choice),
        "npz": lambda: _read_npz(path, array, choice, images),
        "parquet": lambda: _read_parquet(path, choice),
        "svmlight": lambda: read_svmlight(path, n_features, choice),
    }
    return _guard(str(path), readers[suffix])


# --- what every format shares -----------------------------------------------------------------------------------------

FORMATS = {
    ".csv": "csv",
    ".tsv": "csv",
    ".npy": "npy",
    ".npz": "npz",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".svm": "svmlight",
    ".svmlight": "svmlight",
    ".libsvm": "svmlight",
}
PACKED = ("csv", "svmlight")  # these may be gzipped


def _checked_suffix(path: Path) -> str:
    """The format of a file that exists, is not empty and is what its name says."""
    check_file(path)
    suffixes = [suffix.lower() for suffix in path.suffixes]
    packed = suffixes[-1:] == [".gz"]
    inner = suffixes[:-1] if packed else suffixes
    name = FORMATS.get(inner[-1]) if inner else None
    if name is None or (packed and name not in PACKED):
        raise UnreadableData(
            f"{path} is of no kind that lemmata reads: csv, tsv, svm, svmlight, libsvm (each also .gz), npy, npz, parquet."
        )
    if name in PACKED and not packed:
        with open(path, "rb") as file:
            refuse_binary(path, file.read(1024))
    return name


def _guard(name: str, read: Callable[[], Matrix]) -> Matrix:
    """Read, and turn whatever the layers below raise about a bad file into one message with its name."""
    try:
        matrix = read()
    except UnreadableData as error:
        raise UnreadableData(f"{name}: {error}") from error.__cause__
    except UnicodeDecodeError as error:
        raise UnreadableData(
            f"{name} is not UTF-8 text (byte {error.start}); save it as UTF-8."
        ) from error
    except (EOFError, gzip.BadGzipFile, zlib.error, zipfile.BadZipFile) as error:
        raise UnreadableData(
            f"{name} is damaged or truncated ({error}); fetch or write it again."
        ) from error
    if matrix.X.shape[0] == 0:
        raise UnreadableData(f"{name} holds no rows.")
    return matrix


# --- arrays -----------------------------------------------------------------------------------------------------------


def _load(path: Path, mmap: bool = False) -> Any:
    try:
        return np.load(path, mmap_mode="r" if mmap else None, allow_pickle=False)
    except ValueError as error:
        if "pickle" in str(error):
            raise UnreadableData(
                "it is pickled or no NumPy file; lemmata never unpickles. Save plain numbers with numpy.save."
            ) from error
        raise UnreadableData(f"it is damaged or truncated ({error}); write it again.") from error


def _read_npy(path: Path, images: bool) -> np.ndarray:
    X = _load(path, mmap=path.stat().st_size > MEMMAP_BYTES)
    if not isinstance(X, np.ndarray):
        X.close()
        raise UnreadableData("it is an archive of arrays; name it .npz.")
    return numeric(X, "it", images)


def _read_npz(path: Path, array: str | None, choice: Choice, images: bool) -> Matrix:
    archive = _load(path)
    if isinstance(archive, np.ndarray):
        raise UnreadableData("it is a single array; name it .npy.")
    with archive:
        if array is None and {"format", "shape", "data"} <= set(archive.files):
            import scipy.sparse as sp

            return select(sp.csr_array(sp.load_npz(path)), None, choice)
        name = _array_name(archive, array, images)
        X = numeric(_member(archive, name), f"the array {name!r}", images)
        if choice.target in archive.files:
            y = _member(archive, choice.target)
            if y.shape != X.shape[:1]:
                raise UnreadableData(
                    f"the target {choice.target!r} has shape {y.shape}, the matrix {len(X)} rows."
                )
            return select(X, None, Choice(None, choice.drop, choice.columns), y)
        return select(X, None, choice)


def _member(archive: Any, name: str | None) -> np.ndarray:
    try:
        return archive[name]
    except ValueError as error:
        raise UnreadableData(
            f"the array {name!r} is pickled or damaged ({error}); save plain numbers with numpy.savez."
        ) from error


def _array_name(archive: Any, array: str | None, images: bool) -> str:
    if array is not None:
        if array not in archive.files:
            raise UnreadableData(
                f"there is no array {array!r}; there are {', '.join(archive.files)}."
            )
        return array
    if "X" in archive.files:
        return "X"
    axes = (2, 3, 4) if images else (2,)
    matrices = [name for name in archive.files if _member(archive, name).ndim in axes]
    if len(matrices) == 1:
        return matrices[0]
    shapes = ", ".join(f"{name} {_member(archive, name).shape}" for name in archive.files)
    raise UnreadableData(
        f"it holds {len(matrices)} matrices among its arrays ({shapes}); say which with --array (array=)."
    )


# --- parquet ----------------------------------------------------------------------------------------------------------


def _read_parquet(path: Path, choice: Choice) -> Matrix:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        file = pq.ParquetFile(path)
        names = file.schema_arrow.names
        kept, target = choice.of(names, len(names))
        table = file.read(
            columns=[names[i] for i in kept] + ([] if target is None else [names[target]])
        )
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError) as error:
        raise UnreadableData(
            f"it is damaged or not Parquet ({' '.join(str(error).split())})."
        ) from error
    columns = [_parquet_column(table, names[i], choice.holes) for i in kept]
    dtype = np.float32 if all(column.dtype == np.float32 for column in columns) else np.float64
    X = np.empty((table.num_rows, len(kept)), dtype=dtype)
    for i, column in enumerate(columns):
        X[:, i] = column
    y = None if target is None else table.column(names[target]).to_numpy()
    return Matrix(X, y, tuple(names[i] for i in kept), choice.unused_columns(names))


def _parquet_column(table: Any, name: str, holes: bool) -> np.ndarray:
    from pyarrow import types

    column = table.column(name)
    if not any(
        test(column.type) for test in (types.is_integer, types.is_floating, types.is_boolean)
    ):
        raise UnreadableData(
            f"column {name!r} holds {column.type}, not numbers; drop it or make it the target."
        )
    if column.null_count and not holes:
        raise UnreadableData(
            f"column {name!r} has {column.null_count:,} missing values; fill them or drop the column."
        )
    return (column.cast("float64") if column.null_count else column).to_numpy()
