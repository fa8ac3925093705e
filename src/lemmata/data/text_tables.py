"""Tables of numbers written as text: csv (records.py) and svmlight."""

from __future__ import annotations

import io
import re
from array import array
from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from lemmata.data import records
from lemmata.data.records import Layout, Text, cells_of, is_number
from lemmata.data.tables import Choice, Matrix, UnreadableData, select

DELIMITERS = (",", ";", "\t")
DECIMAL_COMMA = re.compile(r"[-+]?\d+,\d+(e[-+]?\d+)?", re.IGNORECASE)
# of an svmlight file: the hash spaces in use have up to 2²⁸, and an array per column has to fit somewhere
MOST_COLUMNS = 2**28
LONGEST_CELL = 2**17  # bytes: a quote that was never closed, or text that is no table
EMPTY = ("", "na", "null")  # what stands in a cell whose value is unknown, besides nan
EMPTY_FORMS = sorted({form for word in EMPTY for form in (word, word.upper(), word.title())})


def read_csv(
    text: Text,
    choice: Choice,
    header: bool | None,
    delimiter: str | None = None,
    decimal: str = ".",
) -> Matrix:
    """Read a table of numbers; UnreadableData names the line and the column of what is none."""
    start, at = records.find_first_line(text)
    line = start.decode()
    delimiter = delimiter or find_delimiter(line)
    if decimal == delimiter:
        raise UnreadableData(
            f"its cells are separated by {delimiter!r}, which cannot be the decimal sign as well."
        )
    first = cells_of(line, delimiter)
    names = _header(first, at.line, decimal) if header is None else [*map(str.strip, first)]
    names = (
        None
        if header is False or names is None
        else [name or f"column {i}" for i, name in enumerate(names)]
    )
    kept, target = choice.of(names, len(first))
    begin = (at.line, at.offset) if names is None else (at.line + 1, at.offset + len(start))
    table = _Table(
        text, Layout(delimiter, len(first), *begin), names, choice.holes, decimal, kept, target
    )
    X, labels = table.read()
    y = None if target is None else _numbers_if_possible(np.array(labels, dtype=np.str_), decimal)
    chosen = None if names is None else tuple(names[i] for i in kept)
    return Matrix(X, y, chosen, choice.unused_columns(names))


def find_delimiter(line: str) -> str:
    """Return what stands between the cells of the first line. 1,5;2,5 has more commas than semicolons, and they are decimal."""
    for delimiter in (";", "\t"):
        cells = line.strip().split(delimiter)
        if len(cells) > 1 and all(
            DECIMAL_COMMA.fullmatch(c.strip()) or is_number(c) for c in cells
        ):
            return delimiter
    return max(DELIMITERS, key=line.count)


def is_decimal_comma(cell: str) -> bool:
    """Whether a cell is a number written 3,14."""
    return DECIMAL_COMMA.fullmatch(cell) is not None


def _header(cells: list[str], number: int, decimal: str) -> list[str] | None:
    """The names in the first line, None if it is a row of numbers."""
    filled = [cell.strip() for cell in cells if cell.strip()]
    numbers = [c for c in filled if is_number(c) or DECIMAL_COMMA.fullmatch(c)]
    if not numbers:
        return [cell.strip() for cell in cells]
    if len(numbers) == len(filled):
        return None
    text = next(cell for cell in filled if cell not in numbers)
    raise UnreadableData(
        f"line {number} mixes numbers ({numbers[0][:40]!r}) and text ({text[:40]!r}), so it may be a header or a row; "
        "say which (--header or --no-header; header=True or False)."
    )


def _numbers_if_possible(column: np.ndarray, decimal: str) -> np.ndarray:
    try:
        return np.char.replace(column, decimal, ".").astype(np.float64)
    except ValueError:
        return column


@dataclass(frozen=True)
class _Table:
    """The rows of a csv below its header."""

    text: Text
    layout: Layout
    names: list[str] | None
    holes: bool
    decimal: str
    kept: Sequence[int]
    target: int | None

    def read(self) -> tuple[np.ndarray, list[str]]:
        """Return the numbers (rows, kept columns) and the cells of the target."""
        if self.text.size > records.LARGE and self.target not in self.kept:
            try:
                return self._by_arrow()
            except records.FAILURES:
                pass
        return self._line_by_line()

    def _by_arrow(self) -> tuple[np.ndarray, list[str]]:
        import pyarrow as pa

        types = {i: pa.float64() for i in self.kept}
        if self.target is not None:
            types[self.target] = pa.string()
        empty = EMPTY_FORMS if self.holes else []
        blocks, labels = [], []
        for table, _ in records.read_tables(self.text, self.layout, types, self.decimal, empty):
            blocks.append(np.column_stack([table.column(str(i)).to_numpy() for i in self.kept]))
            if self.target is not None:
                cells = table.column(str(self.target)).to_pylist()
                if max(map(len, cells)) > LONGEST_CELL:
                    raise records.Unusual("a cell is too long")
                labels += [cell.strip() for cell in cells]
        return np.concatenate(blocks), labels

    def _line_by_line(self) -> tuple[np.ndarray, list[str]]:
        numbers, labels, rows = array("d"), [], 0
        for line, cells in records.read_records(self.text, self.layout):
            if self.layout.sep.isspace() and not any(cells):
                continue
            if max(map(len, cells)) > LONGEST_CELL:
                raise UnreadableData(f"line {line}: a cell has more than {LONGEST_CELL:,} bytes.")
            for i in self.kept:
                numbers.append(self._number(line, i, cells[i].decode()))
            if self.target is not None:
                labels.append(cells[self.target].decode())
            rows += 1
        if not rows:
            raise UnreadableData("it has a header but no rows.")
        return np.frombuffer(numbers).reshape(rows, len(self.kept)), labels

    def _number(self, line: int, i: int, cell: str) -> float:
        pointed = cell if self.decimal == "." else cell.replace(self.decimal, ".")
        if is_number(pointed):
            return float(pointed)
        if self.holes and cell.lower() in EMPTY:
            return np.nan
        raise UnreadableData(self._complaint(line, i, cell))

    def _complaint(self, number: int, i: int, cell: str) -> str:
        where = f"line {number}, column {i + 1}" + (f" ({self.names[i]!r})" if self.names else "")
        if not cell:
            return f"{where} is empty; fill in the value or remove the line."
        if self.decimal == "." and DECIMAL_COMMA.fullmatch(cell):
            read = cell.replace(",", ".")
            return f"{where}: {cell[:40]!r} has a decimal comma; to read it as {read[:40]}, pass decimal=',' (--decimal ,)."
        if self.layout.width == 1:
            return f"{where}: {cell[:40]!r} is not a number; separate the columns by commas, semicolons or tabs."
        return f"{where}: {cell[:40]!r} is not a number; drop the column, make it the target, or correct the cell."


# --- svmlight ---------------------------------------------------------------------------------------------------------


def read_svmlight(path: Path, n_features: int | None, choice: Choice) -> Matrix:
    import scipy.sparse as sp
    from sklearn.datasets import load_svmlight_file

    try:
        X, y = load_svmlight_file(str(path), n_features=n_features)
    except UnicodeDecodeError:
        raise
    except (ValueError, OverflowError) as error:
        raise _svmlight_culprit(path) or UnreadableData(str(error)) from error
    if X.shape[1] > MOST_COLUMNS:
        raise _svmlight_culprit(path) or UnreadableData(f"it has {X.shape[1]:,} columns.")
    return select(sp.csr_array(X), None, choice, y)


def _svmlight_culprit(path: Path) -> UnreadableData | None:
    with closing(_lines(Text.of(path))) as lines:
        for number, line in lines:
            label, *pairs = line.split("#", 1)[0].split() or ["0"]
            halves = [pair.partition(":") for pair in pairs if not pair.startswith("qid:")]
            bad = [
                a + colon + b
                for a, colon, b in halves
                if not (a.isdigit() and len(a) < 19 and is_number(b))
            ]
            if not all(map(is_number, label.split(","))):
                bad = [label]
            if bad:
                return UnreadableData(
                    f"line {number}: {bad[0][:40]!r} does not fit 'label index:value index:value …'."
                )
            order = [int(a) for a, _, _ in halves]
            if max(order, default=0) > MOST_COLUMNS:
                return UnreadableData(
                    f"line {number}: the index {max(order)} is too large; columns are numbered up to {MOST_COLUMNS:,}."
                )
            if order != sorted(set(order)):
                return UnreadableData(
                    f"line {number}: the indices do not increase; sort them, each one once."
                )
    return None


def _lines(text: Text) -> Generator[tuple[int, str], None, None]:
    """Numbered lines that are not blank."""
    with io.TextIOWrapper(text.open_bytes(), encoding="utf-8-sig") as file:
        for number, line in enumerate(file, 1):
            if not line.isspace():
                yield number, line
