"""Tables written as text: csv (read fast by NumPy, diagnosed slowly after a failure) and svmlight.

A reader of good files should be fast and a message about a bad one exact; so a file is first read at full speed, and only
if that fails line by line, to name the line and the column that are wrong.
"""

from __future__ import annotations

import csv
import gzip
import io
import re
from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lemmata.data.tables import Choice, Matrix, UnreadableData, selected

DELIMITERS = (",", ";", "\t")
DECIMAL_COMMA = re.compile(r"[-+]?\d+,\d+(e[-+]?\d+)?", re.IGNORECASE)
MOST_COLUMNS = (
    2**28
)  # of an svmlight file: the hash spaces in use have up to 2²⁸, and an array per column has to fit somewhere
EMPTY = ("", "na", "null")  # what stands in a cell whose value is unknown, besides nan

Lines = Generator[tuple[int, str], None, None]  # numbered from 1


@dataclass(frozen=True)
class Text:
    """A text that can be read from the start more than once."""

    open_bytes: Callable[[], Any]

    @classmethod
    def of(cls, path: Path) -> Text:
        return cls(lambda: gzip.open(path) if path.suffix.lower() == ".gz" else open(path, "rb"))

    def lines(self) -> Lines:
        """Numbered lines that are not blank."""
        with io.TextIOWrapper(self.open_bytes(), encoding="utf-8-sig") as file:
            for number, line in enumerate(file, 1):
                if not line.isspace():
                    yield number, line


def read_csv(
    text: Text,
    choice: Choice,
    header: bool | None,
    delimiter: str | None = None,
    decimal: str = ".",
) -> Matrix:
    with closing(text.lines()) as lines:
        start, line = next(lines, (0, ""))
    if not line:
        raise UnreadableData("it holds no lines.")
    delimiter = delimiter or _delimiter(line)
    if decimal == delimiter:
        raise UnreadableData(
            f"its cells are separated by {delimiter!r}, which cannot be the decimal sign as well."
        )
    first = cells_of(line, delimiter)
    names = (
        _header(first, start, decimal)
        if header is None
        else [cell.strip() for cell in first]
        if header
        else None
    )
    if names is not None:
        names = [name or f"column {i}" for i, name in enumerate(names)]
    kept, target = choice.of(names, len(first))
    after = start if names is not None else start - 1
    rows = _Rows(text, after, delimiter, len(first), names, choice.holes, decimal)
    X = rows.numbers(kept)
    y = None if target is None else rows.labels(target)
    chosen = None if names is None else tuple(names[i] for i in kept)
    return Matrix(X, y, chosen, choice.unused(names))


def _delimiter(line: str) -> str:
    """What stands between the cells of the first line. 1,5;2,5 has more commas than semicolons, and they are decimal."""
    for delimiter in (";", "\t"):
        cells = line.strip().split(delimiter)
        if len(cells) > 1 and all(
            DECIMAL_COMMA.fullmatch(c.strip()) or is_number(c) for c in cells
        ):
            return delimiter
    return max(DELIMITERS, key=line.count)


def cells_of(line: str, delimiter: str) -> list[str]:
    if '"' not in line:
        return line.rstrip("\r\n").split(delimiter)
    try:
        return next(csv.reader([line], delimiter=delimiter))
    except (
        csv.Error
    ) as error:  # its limit is 128 kB: a quote that was never closed, or text that is no table
        raise UnreadableData(
            f"a cell that begins with {line.lstrip()[:40]!r} cannot be read ({error})."
        ) from error


def is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell


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


@dataclass(frozen=True)
class _Rows:
    """The rows of a csv below its header."""

    text: Text
    after: int  # the number of the line before them
    delimiter: str
    width: int
    names: list[str] | None
    holes: bool = False
    decimal: str = "."

    def lines(self) -> Lines:
        """Numbered lines, each checked to have as many cells as the first."""
        for number, line in self.text.lines():
            if number <= self.after:
                continue
            # a quoted cell may hold delimiters
            if line.count(self.delimiter) != self.width - 1 or '"' in line:
                try:
                    found = len(cells_of(line, self.delimiter))
                except UnreadableData as error:
                    raise UnreadableData(f"line {number}: {error}") from error
                if found != self.width:
                    raise UnreadableData(
                        f"line {number} has {found} cells, the lines before it have {self.width}."
                    )
            yield number, line

    def numbers(self, kept: list[int]) -> np.ndarray:
        try:
            table = self._with_holes(kept) if self.holes else self._parsed(np.float64, kept)
        except UnreadableData:
            raise
        except ValueError as error:
            raise self._culprit(kept) or UnreadableData(str(error)) from error
        return table if table.size else np.empty((0, len(kept)))

    def _with_holes(self, kept: list[int]) -> np.ndarray:
        """The same with NaN for empty cells, which NumPy's reader does not know; cell by cell, so a few times slower."""
        with closing(self._texts()) as texts:
            rows = (cells_of(self._pointed(text), self.delimiter) for text in texts)
            filled = (
                ["nan" if row[i].strip().lower() in EMPTY else row[i] for i in kept] for row in rows
            )
            return np.loadtxt(
                (",".join(row) for row in filled), np.float64, delimiter=",", ndmin=2, comments=None
            )

    def labels(self, target: int) -> np.ndarray:
        """A column as numbers if it can be, as text otherwise."""
        column = self._parsed(str, [target])[:, 0]
        try:
            return np.char.replace(column, self.decimal, ".").astype(np.float64)
        except ValueError:
            return column

    def _parsed(self, dtype, kept: list[int]) -> np.ndarray:
        with closing(self._texts()) as texts:
            return np.loadtxt(
                texts if dtype is str else map(self._pointed, texts),
                dtype,
                delimiter=self.delimiter,
                usecols=kept,
                ndmin=2,
                comments=None,
                quotechar='"',
            )

    def _pointed(self, line: str) -> str:
        """A line of numbers with a decimal point; what is text in it is not read from here."""
        return line if self.decimal == "." else line.replace(self.decimal, ".")

    def _texts(self) -> Generator[str, None, None]:
        empty = True
        for _, line in self.lines():
            empty = False
            yield line
        if empty:
            raise UnreadableData("it has a header but no rows.")

    def _culprit(self, kept: list[int]) -> UnreadableData | None:
        """The first cell that is not a number. Read again only after a failure, so that good files are read fast."""
        with closing(self.lines()) as lines:
            for number, line in lines:
                cells = cells_of(line, self.delimiter)
                for i in kept:
                    if not is_number(self._pointed(cells[i])) and not (
                        self.holes and cells[i].strip().lower() in EMPTY
                    ):
                        return UnreadableData(self._complaint(number, i, cells[i].strip()))
        return None

    def _complaint(self, number: int, i: int, cell: str) -> str:
        where = f"line {number}, column {i + 1}" + (f" ({self.names[i]!r})" if self.names else "")
        if not cell:
            return f"{where} is empty; fill in the value or remove the line."
        if self.decimal == "." and DECIMAL_COMMA.fullmatch(cell):
            read = cell.replace(",", ".")
            return f"{where}: {cell[:40]!r} has a decimal comma; to read it as {read[:40]}, pass decimal=',' (--decimal ,)."
        if self.width == 1:
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
    return selected(sp.csr_array(X), None, choice, y)


def _svmlight_culprit(path: Path) -> UnreadableData | None:
    with closing(Text.of(path).lines()) as lines:
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
