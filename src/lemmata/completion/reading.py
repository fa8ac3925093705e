"""Ratings from files: who, what, how much; one entry per line.

    >>> import tempfile, pathlib
    >>> from lemmata.completion import Observed
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "ratings.csv"
    >>> _ = path.write_text("userId,movieId,rating\\n7,Alien,4.5\\n7,Heat,3\\n9,Heat,5\\n")
    >>> A = Observed.from_file(path)
    >>> A.shape, A.row_labels.names, A.column_labels.names
    ((2, 2), array([7, 9]), array(['Alien', 'Heat'], dtype='<U5'))

Text is read in blocks by kernels that find the cells, read the ratings and number the names, so that a file needs 12 bytes per
entry and about a second per ten million of them; small files are read by their NumPy twins, without a compiler. What is odd
about a line is looked at in Python, where messages are made.
"""

from __future__ import annotations

import csv
import gzip
import re
import sys
import zlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from lemmata.completion._twins_reading import NO_LABEL
from lemmata.completion.labels import numbered
from lemmata.completion.triplets import ROLES, Triplets, chosen, ratings_of
from lemmata.core.compiler import worth_compiling
from lemmata.data.files import check_file, refuse_binary
from lemmata.data.tables import UnreadableData
from lemmata.data.text_tables import cells_of, is_number

Array = np.ndarray

BYTES = 8 * 2**20  # of text read at once
# Bytes of text that are worth a compiler. For so many the twins take half a second; with quotes, whose records they read one by
# one, four times as long.
ABOVE, QUOTED = 8 * 2**20, 4
RECORDS = 2**19  # read at once
LONGEST_NAME = 2**14  # bytes of a user or an item
LONGEST = 2**30  # bytes of one record; offsets are int32
PLAIN_INT = re.compile(rb"-?(0|[1-9][0-9]{0,17})")


# --- files ------------------------------------------------------------------------------------------------------------


def triplets_of_file(
    path: Any, user=None, item=None, rating=None, sep=None, header=None, dtype=np.float32
) -> Triplets:
    """From a csv, tsv, "::" or Parquet file; text also gzipped or from the standard input ("-")."""
    dtype = np.dtype(dtype)
    if dtype not in (np.float32, np.float64):
        raise ValueError(f"dtype={dtype} is not accepted; pass float32 or float64.")
    if sep is not None and (not isinstance(sep, str) or not sep or set(sep) & set('"\r\n')):
        raise ValueError(
            f"sep={sep!r} is not accepted; pass the character (or text) between two cells."
        )
    if str(path) == "-":
        return _Reader("the standard input", sys.stdin.buffer, dtype).triplets(
            (user, item, rating), sep, header
        )
    path = Path(path)
    check_file(path)
    with open(path, "rb") as file:
        head = file.read(1024)
        file.seek(0)
        if head.startswith(b"PAR1") or path.suffix.lower() in (".parquet", ".pq"):
            return _of_parquet(path, (user, item, rating), dtype)
        packed = head.startswith(b"\x1f\x8b")
        if sep is None and ".tsv" in (suffix.lower() for suffix in path.suffixes):
            sep = "\t"
        reader = _Reader(str(path), gzip.GzipFile(fileobj=file) if packed else file, dtype)
        return reader.triplets((user, item, rating), sep, header)


@dataclass
class _Reader:
    """A text on its way to triplets: what is read of it, and what is wrong with a line."""

    name: str
    file: Any
    dtype: np.dtype
    buffer: bytes = b""
    line: int = 1  # the number of the first line in the buffer
    size: int = field(default_factory=lambda: BYTES)  # to be read next
    names: list[str] | None = None
    wanted: list[int] = field(default_factory=list)

    def triplets(self, given: Sequence[Any], sep: str | None, header: bool | None) -> Triplets:
        try:
            return self._triplets(given, sep, header)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise UnreadableData(
                f"{self.name} is damaged or truncated ({error}); fetch or write it again."
            ) from error
        except UnicodeDecodeError as error:
            raise UnreadableData(
                f"{self.name} is not UTF-8 text ({error.object[:40]!r}); save it as UTF-8."
            ) from error

    def _triplets(self, given, sep, header):
        self.file = _Ahead(self.file, ABOVE + 1)
        if worth_compiling(self.file.work, above=ABOVE):
            from lemmata.completion._kernels_reading import split_records

            users: Any = _Names()
            items: Any = _Names()
        else:
            from lemmata.completion._twins_reading import Names, split_records

            users, items = Names(), Names()
        sep, width = self._begin(given, sep, header)
        how = (np.frombuffer(sep.encode(), np.uint8), width, np.array(self.wanted))
        starts, ends = np.empty((2, 3, RECORDS), np.int32)
        values, flags = np.empty(RECORDS), np.empty(RECORDS, np.uint8)
        parts, more = [], True
        with ThreadPoolExecutor(1) as beside:
            while more:
                more, after, count = self._read(), 0, RECORDS
                text = np.frombuffer(self.buffer, np.uint8)
                while count == RECORDS:
                    count, after, cells = split_records(
                        text, after, *how, starts, ends, values, flags
                    )
                    self._odd_ones(
                        starts[:, :count], ends[:, :count], values[:count], flags[:count]
                    )
                    if cells:
                        raise self._ragged(after, cells, width)
                    self._refuse_long_names(starts[:2, :count], ends[:2, :count])
                    item = beside.submit(items.codes, text, starts[1, :count], ends[1, :count])
                    user = users.codes(text, starts[0, :count], ends[0, :count])
                    parts.append((user, item.result(), values[:count].astype(self.dtype)))
                self._drop(after)
        if self.buffer:
            raise UnreadableData(
                f"{self.name}, line {self.line}: a quote is opened here and never closed."
            )
        return self._joined(parts, users, items)

    def _begin(self, given, sep, header) -> tuple[str, int]:
        """Read the first line: the separator, the number of cells, the names and the wanted columns."""
        first = self._first_line()
        sep, line = sep or _separator(first.decode()), first.decode()
        try:
            cells = cells_of(line, sep) if len(sep) == 1 else line.rstrip("\r").split(sep)
        except csv.Error as error:
            raise UnreadableData(f"{self.name}, line {self.line}: {error}.") from error
        cells = [cell.strip() for cell in cells]
        try:
            if header is None:
                header = self._is_header(cells, given)
            self.names = cells if header else None
            self.wanted = chosen(self.names, len(cells), given)
        except UnreadableData as error:
            shown = f" (separated by {sep!r})" if len(cells) < 3 else ""
            raise UnreadableData(f"{self.name}, line {self.line}{shown}: {error}") from error
        if header:
            self._drop(len(first) + 1)
        return sep, len(cells)

    def _first_line(self) -> bytes:
        """The first line that is not blank, which stays in the buffer."""
        more = self._read()
        refuse_binary(self.name, self.buffer[:1024])
        while more and b"\n" not in self.buffer.lstrip():
            self.size = max(self.size, len(self.buffer))
            more = self._read()
        self.buffer = self.buffer.removeprefix(b"\xef\xbb\xbf")
        blank = re.match(rb"\s*\n", self.buffer)
        self._drop(blank.end() if blank else 0)
        first = self.buffer.split(b"\n", 1)[0]
        if not first.strip():
            raise UnreadableData(f"{self.name} holds no lines.")
        return first

    @staticmethod
    def _is_header(cells: list[str], given: Sequence[Any]) -> bool:
        """The first line holds names unless there is a number in the place of the rating."""
        if any(isinstance(column, str) and column in cells for column in given):
            return True
        wanted = chosen(
            None, len(cells), [g if g is None or is_number(str(g)) else None for g in given]
        )
        if is_number(cells[wanted[2]]):
            return False
        numbers = [cell for cell in cells if is_number(cell)]
        if numbers:
            raise UnreadableData(
                f"the rating {cells[wanted[2]][:40]!r} is not a number, but {numbers[0]!r} is one; "
                "if the line holds names, pass header=True (--header)."
            )
        return True

    def _read(self) -> bool:
        """Read on; whether there may be more. A last line without an end gets one."""
        block = self.file.read(self.size)
        self.buffer += block
        if not block and self.buffer and not self.buffer.endswith(b"\n"):
            self.buffer += b"\n"
        if len(self.buffer) > LONGEST:
            raise UnreadableData(
                f"{self.name}, line {self.line}: the line does not end within 1 GB."
            )
        return bool(block)

    def _drop(self, n: int) -> None:
        self.line += self.buffer.count(b"\n", 0, n)
        # a long record is not read over and over
        self.size = BYTES if n else max(BYTES, len(self.buffer))
        self.buffer = self.buffer[n:]

    def _joined(self, parts, users, items) -> Triplets:
        total = sum(len(part[0]) for part in parts)
        if not total:
            raise UnreadableData(f"{self.name} has a header but no rows.")
        user_names, place = _in_order(users.names())
        item_names, other = _in_order(items.names())
        user, item, values = (
            np.empty(total, np.int32),
            np.empty(total, np.int32),
            np.empty(total, self.dtype),
        )
        while parts:  # given up one by one, so that nothing is held twice
            part = parts.pop()
            here = slice(total - len(part[0]), total)
            user[here], item[here], values[here] = place[part[0]], other[part[1]], part[2]
            total = here.start
        return Triplets(user, item, values, user_names, item_names)

    # --- what is wrong with a line ---

    def _where(self, at: int) -> str:
        line = self.line + self.buffer.count(b"\n", 0, at)
        return f"{self.name}, line {line}"

    def _ragged(self, at: int, cells: int, width: int) -> UnreadableData:
        if cells < 0:
            return UnreadableData(
                f"{self._where(at)}: text follows a closing quote; double the quotes inside a cell."
            )
        return UnreadableData(
            f"{self._where(at)} has {cells} cells, the lines before it have {width}."
        )

    def _refuse_long_names(self, starts: Array, ends: Array) -> None:
        """An array of names gives each of them the room of the longest."""
        lengths = ends - starts
        if lengths.size and lengths.max() > LONGEST_NAME:
            role, t = np.unravel_index(int(np.argmax(lengths)), lengths.shape)
            raise UnreadableData(
                f"{self._where(starts[role, t])}: the {ROLES[role]} has {lengths[role, t]:,} bytes, more than "
                f"{LONGEST_NAME:,}; is a quote missing?"
            )

    def _odd_ones(self, starts: Array, ends: Array, values: Array, flags: Array) -> None:
        """Read the ratings that are not plain decimals (1e-3, or 20 digits) and refuse what is no number."""
        for t in np.flatnonzero(flags):
            where = self._where(starts[0, t])
            if flags[t] & NO_LABEL:
                role = ROLES[int(starts[0, t] < ends[0, t])]
                raise UnreadableData(f"{where} has no {role}; fill it in or remove the line.")
            cell = self.buffer[starts[2, t] : ends[2, t]].decode(errors="replace")
            if not cell:
                raise UnreadableData(f"{where} has no rating; leave unknown entries out.")
            if not is_number(cell):
                hint = (
                    " (decimals are written with a point)"
                    if is_number(cell.replace(",", "."))
                    else ""
                )
                raise UnreadableData(f"{where}: the rating {cell[:40]!r} is not a number{hint}.")
            values[t] = float(cell)
            if not abs(values[t]) <= np.finfo(self.dtype).max:
                raise UnreadableData(
                    f"{where}: the rating is {cell[:40]}; leave unknown entries out."
                )


class _Names:
    """Names numbered in the order in which they are met; the arrays of the kernel `count_names`."""

    def __init__(self):
        self.n, self.slots, self.keys = 0, np.full(2**12, -1, np.int32), np.empty(2**12, np.uint64)
        self.bounds, self.arena = np.zeros(2**11 + 1, np.int64), np.empty(2**16, np.uint8)

    def codes(self, text: Array, starts: Array, ends: Array) -> Array:
        from lemmata.completion._kernels_reading import count_names

        codes, at = np.empty(len(starts), np.int32), 0
        while True:
            tables = (self.slots, self.keys, self.bounds, self.arena)
            at, self.n = count_names(text, starts, ends, at, codes, *tables, self.n)
            if at == len(codes):
                return codes
            self._grow(int(ends[at] - starts[at]))

    def _grow(self, length: int) -> None:
        from lemmata.completion._kernels_reading import fill_slots

        if self.bounds[self.n] + length > len(self.arena):
            self.arena = np.concatenate([self.arena, np.empty(len(self.arena) + length, np.uint8)])
        if 2 * (self.n + 1) > len(self.slots):
            self.bounds = np.concatenate([self.bounds, np.zeros_like(self.bounds)])
            before, size = (self.slots, self.keys), 2 * len(self.slots)
            self.slots, self.keys = np.full(size, -1, np.int32), np.empty(size, np.uint64)
            fill_slots(self.slots, self.keys, *before)

    def names(self) -> list[bytes]:
        bytes_, bounds = self.arena.tobytes(), self.bounds
        return [bytes_[bounds[k] : bounds[k + 1]] for k in range(self.n)]


def _in_order(names: list[bytes]) -> tuple[Array, Array]:
    """The names in order, as ints if every one is written like one, and the place of each number among them."""
    if all(map(PLAIN_INT.fullmatch, names)):
        return numbered(np.array(names, dtype=np.int64))
    texts = np.empty(len(names), dtype=object)
    # as quoted cells write a quote
    texts[:] = [name.decode().replace('""', '"') for name in names]
    return numbered(texts)


class _Ahead:
    """A file whose first bytes were read, to see whether there are more."""

    def __init__(self, file: Any, size: int):
        head = file.read(size)
        self.file, self.rest = file, memoryview(head)
        self.work = len(head) * (QUOTED if b'"' in head else 1)

    def read(self, size: int) -> bytes:
        found = bytes(self.rest[:size])
        self.rest = self.rest[size:] if len(self.rest) > size else memoryview(b"")
        return found or self.file.read(size)


def _separator(line: str) -> str:
    """The separator that the first line speaks for."""
    if line.count("::") >= 2:
        return "::"
    best = max(("\t", ",", ";", "|"), key=line.count)
    return best if best in line or " " not in line.strip() else " "


# --- parquet ----------------------------------------------------------------------------------------------------------


def _of_parquet(path: Path, given: Sequence[Any], dtype: np.dtype) -> Triplets:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise UnreadableData(
            f"{path}: Parquet needs pyarrow; install it with: pip install 'lemmata[table]'."
        ) from error
    try:
        file = pq.ParquetFile(path)
        names = file.schema_arrow.names
        wanted = [names[i] for i in chosen(names, len(names), given)]
        table = file.read(columns=wanted)
    except UnreadableData as error:
        raise UnreadableData(f"{path}: {error}") from error
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError) as error:
        raise UnreadableData(
            f"{path} is damaged or not Parquet ({' '.join(str(error).split())})."
        ) from error
    if not table.num_rows:
        raise UnreadableData(f"{path} holds no rows.")
    try:
        (users, i), (items, j) = (
            _arrow_labels(table.column(k), role) for k, role in zip(wanted, ROLES[:2], strict=False)
        )
        values = ratings_of(table.column(wanted[2]).to_numpy())
    except ValueError as error:
        raise UnreadableData(f"{path}: {error}") from error
    return Triplets(i, j, values.astype(dtype, copy=False), users, items)


def _arrow_labels(column: Any, role: str) -> tuple[Array, Array]:
    """Text is numbered by Arrow, which never makes a Python string per row."""
    import pyarrow as pa

    kind = column.type
    if column.null_count:
        raise ValueError(f"{column.null_count:,} rows have no {role}.")
    if not (
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_dictionary(kind)
    ):
        return numbered(column.to_numpy(), role)
    whole = column.combine_chunks()
    whole = whole if pa.types.is_dictionary(kind) else whole.dictionary_encode()
    if isinstance(whole, pa.ChunkedArray):
        whole = whole.unify_dictionaries().combine_chunks()
    codes = whole.indices.to_numpy(zero_copy_only=False)
    used, codes = numbered(codes, role)  # a dictionary may hold names that do not occur
    names, place = numbered(np.asarray(whole.dictionary)[used], role)
    return names, place[codes]
