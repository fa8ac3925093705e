"""Delimited text as records: by Arrow where there are many, line by line where there are few or one of them is wrong.

Arrow reads some hundred megabytes per second and says little about what is wrong. Python reads some ten, knows the line, and
has nothing to import. So large texts go to Arrow, in blocks of whole records; what it refuses, or would read in another way
than Python does, is read again line by line, which either succeeds or names the line.

    >>> text = Text(lambda: io.BytesIO(b'7,Alien,4.5\\n7,"Heat, 1995",3\\n'), size=29)
    >>> list(read_records(text, Layout(sep=",", width=3)))
    [(1, [b'7', b'Alien', b'4.5']), (2, [b'7', b'Heat, 1995', b'3'])]
"""

from __future__ import annotations

import csv
import gzip
import io
import re
import shutil
import tempfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np

from lemmata.data.tables import UnreadableData

LARGE = 2**21  # bytes of text: more are read sooner by Arrow, whose import takes 0.1 s
BLOCK = 2**23  # bytes of text given to Arrow at once
CHUNK = 2**20  # bytes that one of its threads parses at once
LONGEST = 2**30  # bytes of one line
UNPACKED = 4  # bytes of text in a byte of a gzipped file, about
STAND_IN = "\x1f"  # for a separator of several characters, which Arrow does not take
BLANKS = b" \t\r"
NEWLINE, RETURN, QUOTE = b'\n\r"'
BOM = b"\xef\xbb\xbf"


# How files of other kinds begin; a wrong suffix is the commonest mistake.
MAGIC = {
    b"\x89PNG": "a PNG image",
    b"\xff\xd8\xff": "a JPEG image",
    b"GIF8": "a GIF image",
    b"%PDF": "a PDF document",
    b"\x1f\x8b": "gzip (name it .csv.gz, .svm.gz, …)",
    b"\x93NUMPY": "a NumPy array (name it .npy)",
    b"PAR1": "Parquet (name it .parquet)",
    b"PK\x03\x04": "a zip archive: an .npz, a spreadsheet or a document",
    b"\x89HDF": "HDF5",
    b"SQLite": "an SQLite database",
}


class Unusual(ValueError):
    """Text that Arrow would read in another way than `read_records` does."""


@dataclass(frozen=True)
class Text:
    """A text that can be read from the start more than once."""

    open_bytes: Callable[[], Any]
    size: int  # bytes, about
    name: str = ""  # said in messages

    def at(self, line: int) -> str:
        return f"{self.name}, line {line}" if self.name else f"line {line}"

    @classmethod
    def of(cls, path: Path, name: str = "") -> Text:
        """The text of a file, gzipped or not."""
        with open(path, "rb") as file:
            packed = path.suffix.lower() == ".gz" or file.read(2) == b"\x1f\x8b"
        size = path.stat().st_size * (UNPACKED if packed else 1)
        return cls(lambda: gzip.open(path) if packed else open(path, "rb"), size, name)

    @classmethod
    def of_stream(cls, stream: Any, name: str = "") -> Text:
        """The text of a stream, kept in a temporary file."""
        kept = tempfile.TemporaryFile()  # noqa: SIM115  (closed with the last reference)
        shutil.copyfileobj(stream, kept)
        size = kept.tell()

        def reopen() -> Any:
            kept.seek(0)
            return io.BufferedReader(io.FileIO(kept.fileno(), closefd=False))

        return cls(reopen, size, name)


@dataclass(frozen=True)
class Layout:
    """Form in which records are written, and where the first of them begins."""

    sep: str
    width: int  # cells of a record
    line: int = 1  # the number of the first line
    offset: int = 0  # bytes before it


# --- files and cells ---------------------------------------------------------------------------------------------------


def check_file(path: Path) -> None:
    """Refuse a path where there is no file, or an empty one."""
    if not path.exists():
        near = _likely_name(path)
        hint = f"; did you mean {near}?" if near else "."
        raise FileNotFoundError(f"there is no file {path}{hint}")
    if path.is_dir():
        raise UnreadableData(f"{path} is a folder; pass a file.")
    if path.is_file() and path.stat().st_size == 0:
        raise UnreadableData(f"{path} is empty.")


def _likely_name(path: Path) -> Path | None:
    """The file beside a missing one that its name may have been meant for: a slip of the fingers, not merely a likeness."""
    if not path.parent.is_dir():
        return None
    beside = [other for other in path.parent.iterdir() if other.is_file()]
    same = [other for other in beside if other.stem == path.stem and other.suffix != path.suffix]
    digits = re.findall(r"\d+", path.name)  # part-1.csv is not part-2.csv
    like = {
        other.stem: other
        for other in beside
        if other.suffix == path.suffix and re.findall(r"\d+", other.name) == digits
    }
    near = get_close_matches(path.stem, like, n=1, cutoff=0.8)
    return like[near[0]] if near else same[0] if same else None


def refuse_binary(path: Any, head: bytes) -> None:
    """Say what a file is that does not begin like text."""
    for magic, kind in MAGIC.items():
        if head.startswith(magic):
            raise UnreadableData(f"{path} is not text: it is {kind}.")
    if b"\0" in head:
        raise UnreadableData(
            f"{path} is not text: it holds zero bytes; save the table as UTF-8 text."
        )


def cells_of(line: str, delimiter: str) -> list[str]:
    if '"' not in line:
        return line.rstrip("\r\n").split(delimiter)
    try:
        return next(csv.reader([line], delimiter=delimiter))
    except (
        csv.Error
    ) as error:  # its limit is 128 kB: a quote never closed, or text that is no table
        raise UnreadableData(
            f"a cell that begins with {line.lstrip()[:40]!r} cannot be read ({error})."
        ) from error


def is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell


# --- the first line ---------------------------------------------------------------------------------------------------


def find_first_line(text: Text) -> tuple[bytes, Layout]:
    """Return the first line that is not blank, and where it begins; its cells are not known yet."""
    line, offset = 1, 0
    with text.open_bytes() as file:
        while found := _read_line(file, text.at(line)):
            skip = len(BOM) if line == 1 and found.startswith(BOM) else 0
            if found[skip:].strip():
                return found[skip:], Layout("", 0, line, offset + skip)
            line, offset = line + 1, offset + len(found)
    raise UnreadableData(f"{text.name or 'it'} holds no lines.")


def _read_line(file: Any, here: str) -> bytes:
    found = file.readline(LONGEST)
    if len(found) == LONGEST:
        raise UnreadableData(f"{here}: the line does not end within 1 GB.")
    return found


# --- line by line -----------------------------------------------------------------------------------------------------


def read_records(text: Text, layout: Layout) -> Iterator[tuple[int, list[bytes]]]:
    """Yield the number of the line and the cells of every record; blank lines are skipped.

    Blanks around a cell are removed, quotes around it too, and what is doubled inside them is single again. UnreadableData
    names the line that has another number of cells, or whose quotes do not match.
    """
    sep, line = layout.sep.encode(), layout.line
    with text.open_bytes() as file:
        file.read(layout.offset)
        while found := _read_line(file, here := text.at(line)):
            quoted = b'"' in found
            number, line = line, line + 1
            if quoted:
                cells, more = _quoted_cells(found, sep, file, here)
                line += more
            else:
                cells = [cell.strip(BLANKS) for cell in found.removesuffix(b"\n").split(sep)]
            if cells == [b""] and not quoted:
                continue
            if len(cells) != layout.width:
                raise UnreadableData(
                    f"{here} has {len(cells)} cells, the lines before it have {layout.width}."
                )
            yield number, cells


def _quoted_cells(line: bytes, sep: bytes, file: Any, here: str) -> tuple[list[bytes], int]:
    """Return the cells of a record, some of them quoted, and how many more lines it takes."""
    cells: list[bytes] = []
    at, more, text = 0, 0, line if line.endswith(b"\n") else line + b"\n"
    while True:
        if text[at : at + 1] != b'"':
            end = _cell_end(text, at, sep)
            cells.append(text[at:end].strip(BLANKS))
        else:
            while (quote := _closing_quote(text, at + 1)) < 0:
                lines = _lines_to_quote(file)
                if not lines:
                    raise UnreadableData(f"{here}: a quote is opened here and never closed.")
                text, more = b"".join([text, *lines]), more + len(lines)
                text = text if text.endswith(b"\n") else text + b"\n"
            end = _cell_end(text, quote + 1, sep)
            if text[quote + 1 : end].strip(BLANKS):
                raise UnreadableData(
                    f"{here}: text follows a closing quote; double the quotes inside a cell."
                )
            cells.append(text[at + 1 : quote].replace(b'""', b'"'))
        if text[end : end + 1] == b"\n":
            return cells, more
        at = end + len(sep)


def _cell_end(text: bytes, at: int, sep: bytes) -> int:
    """Position of the separator or the line's end behind a cell."""
    line = text.index(b"\n", at)
    found = text.find(sep, at, line)
    return line if found < 0 else found


def _closing_quote(text: bytes, at: int) -> int:
    """Position of the quote that ends a quoted cell, −1 if it is not there; a doubled one stands for itself."""
    while (at := text.find(b'"', at)) >= 0 and text[at + 1 : at + 2] == b'"':
        at += 2
    return at


def _lines_to_quote(file: Any) -> list[bytes]:
    """The next lines up to one with a quote; none if there is no such line."""
    lines = []
    while found := file.readline(LONGEST):
        lines.append(found)
        if b'"' in found:
            return lines
    return []


# --- by Arrow ---------------------------------------------------------------------------------------------------------


def read_tables(
    text: Text,
    layout: Layout,
    types: Mapping[int, Any],
    decimal: str = ".",
    empty: Sequence[str] = (),
) -> Iterator[tuple[Any, bool]]:
    """Yield pyarrow Tables of the columns with these positions and types, block by block, and whether there were quotes.

    empty : what stands in a cell whose number is not known
    Whatever goes wrong, or is `Unusual`, is for `read_records` to look at.
    """
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    sep = layout.sep if len(layout.sep) == 1 else STAND_IN
    read = arrow_csv.ReadOptions(
        column_names=[str(i) for i in range(layout.width)], block_size=CHUNK
    )
    convert = arrow_csv.ConvertOptions(
        column_types={str(i): kind for i, kind in types.items()},
        include_columns=[str(i) for i in types],
        null_values=list(empty),
        decimal_point=decimal,
    )
    with text.open_bytes() as file:
        file.read(layout.offset)
        for block, quoted in _blocks_of_records(file):
            if sep != layout.sep:
                if STAND_IN.encode() in (block := bytes(block)):
                    raise Unusual("the stand-in for the separator occurs")
                block = block.replace(layout.sep.encode(), STAND_IN.encode())
            if quoted and not _is_well_quoted(block, ord(sep)):
                raise Unusual("quotes are not those of whole cells")
            parse = arrow_csv.ParseOptions(delimiter=sep, newlines_in_values=quoted)
            yield arrow_csv.read_csv(pa.BufferReader(block), read, parse, convert), quoted


def _blocks_of_records(file: Any) -> Iterator[tuple[Any, bool]]:
    """Yield blocks that end where a line does, and whether they hold quotes. A line within quotes does not end a block.

    All are parts of one buffer, which is filled again: new memory for each would take longer than finding their ends.
    """
    buffer, size, more = bytearray(BLOCK + 1), 0, True
    while more:
        found = file.readinto(memoryview(buffer)[size:BLOCK])
        size, more = size + found, found > 0
        if not more and size and buffer[size - 1] != NEWLINE:
            buffer[size], size = NEWLINE, size + 1
        end = buffer.rfind(b"\n", 0, size) + 1
        quoted = buffer.find(b'"', 0, end) >= 0
        while more and end and quoted and buffer.count(b'"', 0, end) % 2:
            end = buffer.rfind(b"\n", 0, buffer.rfind(b'"', 0, end)) + 1
        if not end and size == BLOCK:
            raise Unusual("a record is longer than a block")
        if buffer.count(b"\r", 0, end) != buffer.count(b"\r\n", 0, end):
            raise Unusual("a carriage return ends no line")
        if end:
            yield memoryview(buffer)[:end], quoted
        buffer[: size - end] = buffer[end:size]
        size -= end


def _is_well_quoted(block: Any, sep: int) -> bool:
    """Whether quotes are those around whole cells, and doubled ones within them.

    Counted from 0, even quotes open a cell or are the second of a pair, odd ones close it or are the first.
    """
    text = np.frombuffer(block, np.uint8)
    quotes = np.flatnonzero(text == QUOTE)
    # a block ends with a newline, which is therefore "before" its first character as well
    before, behind = text[quotes[::2] - 1], text[quotes[1::2] + 1]
    opens = (before == sep) | (before == NEWLINE) | (before == QUOTE)
    closes = (behind == sep) | (behind == NEWLINE) | (behind == RETURN) | (behind == QUOTE)
    return len(quotes) % 2 == 0 and bool(opens.all() and closes.all())


# of files, of Arrow, and of what is Unusual
FAILURES = (ValueError, OSError, EOFError, zlib.error, NotImplementedError, KeyError)
