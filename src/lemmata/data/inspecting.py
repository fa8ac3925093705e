"""What a file holds, from its first lines: a table, ratings, texts, labelled texts, images; columns, gaps and classes.

    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "flowers.csv"
    >>> _ = path.write_text("width,height,kind\\n" + "1.5,2.5,rose\\n1.25,,lily\\n" * 30)
    >>> found = inspect_file(path)
    >>> found.kind, found.n_rows, [(column.name, column.kind) for column in found.columns]
    ('table', 60, [('width', 'number'), ('height', 'number'), ('kind', 'classes')])

At most HEAD bytes of a text are read, so that a large file answers at once; its rows are then counted by their mean length.
"""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lemmata.data.records import Text, cells_of, check_file, is_number, refuse_binary
from lemmata.data.tables import UnreadableData
from lemmata.data.text_tables import EMPTY, find_delimiter, is_decimal_comma

HEAD = 2**21  # bytes of a text that are looked at
LABEL = "__label__"  # before each line of fastText's files
MOST_CLASSES = 30
FEW_RATINGS = 21  # 0 to 10 by halves
USERS = ("user", "customer", "reviewer", "member", "rater")
ITEMS = (
    "item",
    "movie",
    "film",
    "product",
    "asin",
    "book",
    "isbn",
    "song",
    "track",
    "artist",
    "joke",
)


@dataclass(frozen=True)
class Column:
    """A column of a table: its name or position, what its cells are, the share that is empty, and how many differ."""

    name: str
    kind: str  # "number", "whole number", "classes", "text" or "empty"
    missing: float
    distinct: int

    @property
    def is_numeric(self) -> bool:
        return self.kind in ("number", "whole number")


@dataclass(frozen=True)
class FileSummary:
    """What a file holds. `n_rows` is exact if `counted`, else an estimate from the part that was read."""

    path: str
    kind: str  # "table", "ratings", "texts", "labelled texts" or "images"
    n_rows: int
    counted: bool = True
    columns: tuple[Column, ...] = ()
    shape: tuple[int, ...] = ()  # of images


def inspect_file(path: str | Path) -> FileSummary:
    """Say what a csv, tsv, txt (each also .gz), npy, npz or parquet file holds; UnreadableData for what is none of these.

    Parameters
    ----------
    path : str or Path

    Returns
    -------
    summary : FileSummary
        Its kind, rows and columns; of columns their kind, gaps and distinct values in the part that was read.
    """
    path = Path(path)
    check_file(path)
    suffixes = [suffix.lower() for suffix in path.suffixes if suffix.lower() != ".gz"]
    last = suffixes[-1] if suffixes else ""
    if last in (".npy", ".npz"):
        return _of_arrays(path)
    if last in (".parquet", ".pq"):
        return _of_parquet(path)
    if last in (".svm", ".svmlight", ".libsvm"):
        return FileSummary(str(path), "sparse table", *_read_head(path)[1:])
    lines, n_rows, counted = _read_head(path)
    if last == ".txt" or not any(one in lines[0] for one in ",;\t"):
        if all(is_number(line.strip()) for line in lines[1:20]) and len(lines) > 2:
            return _of_cells(path, [[line] for line in lines], n_rows, counted)
        labelled = all(line.startswith(LABEL) for line in lines[:20])
        return FileSummary(str(path), "labelled texts" if labelled else "texts", n_rows, counted)
    separator = "::" if "::" in lines[0] else "\t" if last == ".tsv" else find_delimiter(lines[0])
    return _of_cells(path, [cells_of(line, separator) for line in lines], n_rows, counted)


def _read_head(path: Path) -> tuple[list[str], int, bool]:
    """The first lines that are not blank, how many there are in all, and whether that was counted."""
    text = Text.of(path)
    with text.open_bytes() as file:
        head = file.read(HEAD)
        whole = not file.read(1)
    refuse_binary(path, head[:1024])
    try:
        words = head.decode("utf-8-sig", errors="strict" if whole else "ignore")
    except UnicodeDecodeError as error:
        raise UnreadableData(f"{path} is not UTF-8 text (byte {error.start}); save it as UTF-8.") from error  # fmt: skip
    lines = words.splitlines() if whole else words.splitlines()[:-1]
    lines = [line for line in lines if line.strip()]
    if not lines:
        raise UnreadableData(f"{path} holds no lines.")
    return lines, len(lines) if whole else round(len(lines) * text.size / len(head)), whole


def _of_cells(path: Path, rows: Sequence[Sequence[str]], n_rows: int, counted: bool) -> FileSummary:
    first = [cell.strip() for cell in rows[0]]
    named = not any(is_number(cell) or is_decimal_comma(cell) for cell in first if cell)
    names = first if named else [str(number) for number in range(len(first))]
    rows = [row for row in rows[named:] if len(row) == len(first)]
    if not rows:
        raise UnreadableData(f"{path} holds names of columns and no rows.")
    columns = tuple(
        _describe(name, [row[place].strip() for row in rows]) for place, name in enumerate(names)
    )
    kind = "ratings" if _are_ratings(columns, len(rows), named) else "table"
    return FileSummary(str(path), kind, n_rows - named, counted, columns)


def _describe(name: str, cells: Sequence[str]) -> Column:
    known = [cell for cell in cells if cell.lower() not in (*EMPTY, "nan")]
    distinct, missing = len(set(known)), 1 - len(known) / len(cells)
    if not known:
        return Column(name, "empty", 1.0, 0)
    if all(is_number(cell) or is_decimal_comma(cell) for cell in known):
        whole = all(cell.lstrip("+-").isdigit() for cell in known)
        return Column(name, "whole number" if whole else "number", missing, distinct)
    repeats = distinct <= min(MOST_CLASSES, len(known) / 2)
    return Column(name, "classes" if repeats else "text", missing, distinct)


def _are_ratings(columns: Sequence[Column], rows: int, named: bool) -> bool:
    """Whether columns are user, item, rating (and time): by their names, or without names by what repeats."""
    if not 3 <= len(columns) <= 5 or columns[0].kind == columns[1].kind == "number":
        return False
    if named:
        names = [column.name.lower() for column in columns]
        return any(n.startswith(USERS) for n in names) and any(n.startswith(ITEMS) for n in names)
    user, item, value = columns[:3]
    ids = all(one.kind != "number" and one.distinct > 2 for one in (user, item))
    repeat = min(user.distinct, item.distinct) < rows / 2
    return ids and repeat and value.is_numeric and value.distinct <= FEW_RATINGS < rows


def _of_parquet(path: Path) -> FileSummary:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        file = pq.ParquetFile(path)
        head: Any = next(file.iter_batches(batch_size=10_000), None)
    except (pa.ArrowException, OSError) as error:
        raise UnreadableData(f"{path} is damaged or no Parquet file ({error}).") from error
    if head is None or not file.metadata.num_rows:
        raise UnreadableData(f"{path} holds no rows.")
    names = [str(name) for name in head.schema.names]
    cells = [["" if one is None else str(one) for one in column.to_pylist()] for column in head]
    columns = tuple(map(_describe, names, cells))
    kind = "ratings" if _are_ratings(columns, head.num_rows, True) else "table"
    return FileSummary(str(path), kind, file.metadata.num_rows, True, columns)


def _of_arrays(path: Path) -> FileSummary:
    try:
        found: Any = np.load(path, mmap_mode="r" if path.suffix == ".npy" else None, allow_pickle=False)  # fmt: skip
        if not isinstance(found, np.ndarray):
            names = {name: found[name] for name in found.files}
            found = names.get("X", max(names.values(), key=np.size)) if names else np.empty(0)
    except (ValueError, OSError, EOFError, zipfile.BadZipFile) as error:
        raise UnreadableData(f"{path} is damaged, or holds Python objects ({error}).") from error
    if not found.size or found.dtype.kind not in "iufb":
        raise UnreadableData(f"{path} holds no numbers, but {found.dtype} of shape {found.shape}.")
    if found.ndim > 2:
        return FileSummary(str(path), "images", len(found), shape=found.shape[1:])
    table = found.reshape(len(found), -1)
    head = table[:10_000]
    columns = tuple(
        Column(
            str(place),
            "whole number" if np.mod(head[:, place], 1).max(initial=0) == 0 else "number",
            float(np.isnan(head[:, place]).mean()) if head.dtype.kind == "f" else 0.0,
            len(np.unique(head[:1000, place])),
        )
        for place in range(table.shape[1])
    )
    return FileSummary(str(path), "table", len(table), True, columns)
