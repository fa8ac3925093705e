"""Ratings from files: who, what, how much; one entry per line.

    >>> import tempfile, pathlib
    >>> from lemmata.completion import Observed
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "ratings.csv"
    >>> _ = path.write_text("userId,movieId,rating\\n7,Alien,4.5\\n7,Heat,3\\n9,Heat,5\\n")
    >>> A = Observed.from_file(path)
    >>> A.shape, A.row_labels.names, A.column_labels.names
    ((2, 2), array([7, 9]), array(['Alien', 'Heat'], dtype='<U5'))

Text and Parquet are read in blocks, so that a file needs 12 bytes of memory per entry, whatever else it holds.
"""

from __future__ import annotations

import gzip
import re
import sys
import zlib
from array import array
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lemmata.completion.data.frames import encode_column, encode_text, ratings_of
from lemmata.completion.data.labels import (
    ROLES,
    Triplets,
    choose_columns,
    encode_labels,
    is_scattered,
)
from lemmata.data import records
from lemmata.data.records import Layout, Text, cells_of, check_file, is_number, refuse_binary
from lemmata.data.tables import UnreadableData

Array = np.ndarray

# bytes of a user or an item: an array of names gives each the length of the longest
LONGEST_NAME = 2**14
PLAIN_INT = re.compile("-?(0|[1-9][0-9]{0,17})")
ENTRIES = 2**20  # of a Parquet file read at once


def triplets_of_file(
    path: Any, user=None, item=None, rating=None, sep=None, header=None, dtype=np.float32
) -> Triplets:
    """Read a csv, tsv, "::" or Parquet file; text also gzipped or from the standard input ("-")."""
    dtype = np.dtype(dtype)
    if dtype not in (np.float32, np.float64):
        raise ValueError(f"dtype={dtype} is not accepted; pass float32 or float64.")
    if sep is not None and (not isinstance(sep, str) or not sep or set(sep) & set('"\r\n')):
        raise ValueError(
            f"sep={sep!r} is not accepted; pass the character (or text) between two cells."
        )
    given = (user, item, rating)
    if str(path) == "-":
        return _of_text(
            Text.of_stream(sys.stdin.buffer, "the standard input"), given, sep, header, dtype
        )
    path = Path(path)
    check_file(path)
    with open(path, "rb") as file:
        parquet = file.read(4) == b"PAR1" or path.suffix.lower() in (".parquet", ".pq")
    if parquet:
        return _of_parquet(path, given, dtype)
    if sep is None and ".tsv" in (suffix.lower() for suffix in path.suffixes):
        sep = "\t"
    return _of_text(Text.of(path, str(path)), given, sep, header, dtype)


# --- text -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Ratings:
    """A text of ratings: how it is written, and which columns are user, item and rating."""

    text: Text
    layout: Layout
    wanted: tuple[int, int, int]
    dtype: np.dtype

    def by_arrow(self) -> Triplets:
        """Read block by block; ValueError for whatever `line_by_line` should look at."""
        import pyarrow as pa

        types = dict(zip(self.wanted, (pa.binary(), pa.binary(), pa.float64()), strict=True))
        users, items, values, quoted = _Names(), _Names(), [], False

        def take(table: Any) -> None:
            user, item, rating = (table.column(str(i)) for i in self.wanted)
            users.add(user)
            items.add(item)
            with np.errstate(over="ignore"):
                values.append(rating.to_numpy().astype(self.dtype, copy=False))
            if not np.isfinite(values[-1]).all():
                raise records.Unusual("a rating is not finite")

        with ThreadPoolExecutor(1) as beside:  # while Arrow parses the next block
            taken = beside.submit(lambda: None)
            for table, has_quotes in records.read_tables(self.text, self.layout, types):
                taken.result()
                taken, quoted = beside.submit(take, table), quoted or has_quotes
            taken.result()
            if not values:
                raise records.Unusual("there are no rows")
            encoded = beside.submit(users.encode, quoted)
            (item_names, j), (user_names, i) = items.encode(quoted), encoded.result()
        return Triplets(i, j, np.concatenate(values), user_names, item_names)

    def line_by_line(self) -> Triplets:
        """Read what Arrow is not worth its import for, or name the line that it cannot read."""
        users: dict[bytes, int] = {}
        items: dict[bytes, int] = {}
        i, j, values = array("i"), array("i"), array("d")
        most = float(np.finfo(self.dtype).max)
        u, v, r = self.wanted
        for line, cells in records.read_records(self.text, self.layout):
            user, item, cell = cells[u], cells[v], cells[r]
            value = _number(cell)
            if not (user and item and abs(value) <= most):
                raise UnreadableData(f"{self.text.at(line)}{_fault(user, item, cell)}")
            for role, name in zip(ROLES, (user, item), strict=False):
                if len(name) > LONGEST_NAME:
                    raise UnreadableData(
                        f"{self.text.at(line)}: the {role} has {len(name):,} bytes, more than {LONGEST_NAME:,}; "
                        "is a quote missing?"
                    )
            i.append(users.setdefault(user, len(users)))
            j.append(items.setdefault(item, len(items)))
            values.append(value)
        if not values:
            raise UnreadableData(f"{self.text.name} has a header but no rows.")
        user_names, place = encode_names([name.decode() for name in users])
        item_names, other = encode_names([name.decode() for name in items])
        numbers = np.frombuffer(values).astype(self.dtype)
        codes = (np.frombuffer(part, np.int32) for part in (i, j))
        return Triplets(place[next(codes)], other[next(codes)], numbers, user_names, item_names)


def _of_text(
    text: Text, given: Sequence[Any], sep: str | None, header: bool | None, dtype: np.dtype
) -> Triplets:
    try:
        with text.open_bytes() as file:
            refuse_binary(text.name, file.read(1024))
        ratings = _Ratings(text, *_begin(text, given, sep, header), dtype)
        if text.size > records.LARGE:
            try:
                return ratings.by_arrow()
            except records.FAILURES:
                pass
        return ratings.line_by_line()
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise UnreadableData(
            f"{text.name} is damaged or truncated ({error}); fetch or write it again."
        ) from error
    except UnicodeDecodeError as error:
        raise UnreadableData(
            f"{text.name} is not UTF-8 text ({error.object[:40]!r}); save it as UTF-8."
        ) from error


def _begin(
    text: Text, given: Sequence[Any], sep: str | None, header: bool | None
) -> tuple[Layout, tuple[int, int, int]]:
    """Read the first line: the separator, the number of cells, where records begin, and the wanted columns."""
    first, at = records.find_first_line(text)
    line = first.decode().removesuffix("\n")
    sep = sep or _separator(line)
    cells: list[str] = []
    try:
        cells = cells_of(line, sep) if len(sep) == 1 else line.rstrip("\r").split(sep)
        cells = [cell.strip() for cell in cells]
        if header is None:
            header = _is_header(cells, given)
        wanted = choose_columns(cells if header else None, len(cells), given)
    except UnreadableData as error:
        shown = f" (separated by {sep!r})" if 0 < len(cells) < 3 else ""
        raise UnreadableData(f"{text.name}, line {at.line}{shown}: {error}") from error
    begin = (at.line + 1, at.offset + len(first)) if header else (at.line, at.offset)
    return Layout(sep, len(cells), *begin), wanted


def _separator(line: str) -> str:
    """The separator that the first line speaks for."""
    if line.count("::") >= 2:
        return "::"
    best = max(("\t", ",", ";", "|"), key=line.count)
    return best if best in line or " " not in line.strip() else " "


def _is_header(cells: list[str], given: Sequence[Any]) -> bool:
    """Whether the first line holds names: unless there is a number in the place of the rating."""
    if any(isinstance(column, str) and column in cells for column in given):
        return True
    positions = [g if g is None or is_number(str(g)) else None for g in given]
    rating = cells[choose_columns(None, len(cells), positions)[2]]
    if is_number(rating):
        return False
    numbers = [cell for cell in cells if is_number(cell)]
    if numbers:
        raise UnreadableData(
            f"the rating {rating[:40]!r} is not a number, but {numbers[0]!r} is one; "
            "if the line holds names, pass header=True (--header)."
        )
    return True


def _number(cell: bytes) -> float:
    """The number in a cell, NaN if there is none."""
    try:
        return float(cell) if b"_" not in cell else np.nan
    except ValueError:
        return np.nan


def _fault(user: bytes, item: bytes, rating: bytes) -> str:
    """Say what is wrong with a record."""
    if not (user and item):
        return f" has no {ROLES[bool(user)]}; fill it in or remove the line."
    cell = rating.decode(errors="replace")
    if not cell:
        return " has no rating; leave unknown entries out."
    if not is_number(cell):
        hint = is_number(cell.replace(",", ".")) and " (decimals are written with a point)"
        return f": the rating {cell[:40]!r} is not a number{hint or ''}."
    return f": the rating is {cell[:40]}; leave unknown entries out."


# --- names ------------------------------------------------------------------------------------------------------------


def encode_names(names: list[str]) -> tuple[Array, Array]:
    """Return the names in order, as ints if every one is written like one, and the place of each among them."""
    if all(map(PLAIN_INT.fullmatch, names)):
        return encode_labels(np.fromiter(map(int, names), np.int64, len(names)))
    texts = np.empty(len(names), dtype=object)
    texts[:] = names
    return encode_labels(texts)


class _Names:
    """A column of names, block by block: as ints while all of them are written like ints, as codes of Arrow's otherwise."""

    def __init__(self) -> None:
        self.ints: list[Array] | None = []
        self.texts: list[Any] = []

    def add(self, column: Any) -> None:
        import pyarrow as pa
        from pyarrow import compute

        if self.ints is not None:
            try:
                numbers = column.cast(pa.int64()).to_numpy()
                if numbers.min() > -(2**31) and numbers.max() < 2**31:
                    numbers = numbers.astype(np.int32)
                if _digits(numbers) == compute.sum(compute.binary_length(column)).as_py():
                    self.ints.append(numbers)
                    return
            except pa.ArrowInvalid:  # not all are ints
                pass
            for numbers in self.ints:
                written = pa.array(numbers).cast(pa.string()).cast(pa.binary())
                self.texts.append(written.dictionary_encode())
            self.ints = None
        self.texts += column.dictionary_encode().chunks

    def encode(self, quoted: bool) -> tuple[Array, Array]:
        """Return the different names, and the position of each cell's name among them."""
        import pyarrow as pa

        if self.ints is not None:
            numbers = np.concatenate(self.ints or [np.zeros(0, np.int32)])
            coded = pa.array(numbers).dictionary_encode() if is_scattered(numbers) else None
            labels, codes = encode_labels(numbers if coded is None else coded.dictionary.to_numpy())
            return labels.astype(np.int64), codes if coded is None else codes[coded.indices]
        whole = pa.chunked_array(self.texts).unify_dictionaries()
        cells = [cell.decode() for cell in whole.chunk(0).dictionary.to_pylist()]
        names = [cell.strip(" \t") for cell in cells]
        if quoted and names != cells:
            raise records.Unusual("blanks around a name may have been quoted")
        if not all(names) or 4 * max(map(len, names)) > LONGEST_NAME:
            raise records.Unusual("a name is missing, or too long")
        found, place = encode_names(names)
        return found, place[np.concatenate([chunk.indices.to_numpy() for chunk in whole.chunks])]


def _digits(numbers: Array) -> int:
    """Number of characters that ints take, without blanks, signs other than minus, and leading zeros."""
    total = len(numbers)
    if numbers.min() < 0:
        numbers, total = np.abs(numbers), total + int(np.count_nonzero(numbers < 0))
    for power in range(1, len(str(numbers.max()))):
        total += int(np.count_nonzero(numbers >= 10**power))
    return total


# --- parquet ----------------------------------------------------------------------------------------------------------


def _of_parquet(path: Path, given: Sequence[Any], dtype: np.dtype) -> Triplets:
    import pyarrow as pa
    from pyarrow import parquet

    try:
        file = parquet.ParquetFile(path)
        names = file.schema_arrow.names
        wanted = [names[i] for i in choose_columns(names, len(names), given)]
        batches = file.iter_batches(ENTRIES, columns=wanted)
        parts = [[encode_text(batch.column(name)) for name in wanted] for batch in batches]
    except UnreadableData as error:
        raise UnreadableData(f"{path}: {error}") from error
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError) as error:
        raise UnreadableData(
            f"{path} is damaged or not Parquet ({' '.join(str(error).split())})."
        ) from error
    if not any(len(part[0]) for part in parts):
        raise UnreadableData(f"{path} holds no rows.")
    user, item, rating = (pa.chunked_array(column) for column in zip(*parts, strict=True))
    try:
        (users, i), (items, j) = encode_column(user, "user"), encode_column(item, "item")
        values = ratings_of(rating.to_numpy())
    except ValueError as error:
        raise UnreadableData(f"{path}: {error}") from error
    return Triplets(i, j, values.astype(dtype, copy=False), users, items)
