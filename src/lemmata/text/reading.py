"""Texts from anywhere, one after the other: lists, iterators, files larger than memory.

    read("corpus.txt")                      a document a line, as often as asked
    read(["a.txt", "b.txt.gz"], unit="file")
    read("novel.txt", unit="paragraph")     blank lines between documents

Bytes that are no text are named with their file, line and position; a file that shrinks while it is read is noticed.
"""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

UNITS = ("line", "paragraph", "file")


class UnreadableText(ValueError):
    """A file, or a document, is not text."""


@dataclass(frozen=True)
class Files:
    """Documents in files, opened again for every pass; `read` makes it."""

    paths: tuple[Path, ...]
    unit: str = "line"
    encoding: str = "utf-8"

    def __iter__(self) -> Iterator[str]:
        for path in self.paths:
            yield from _documents(_lines(path, self.encoding), self.unit)


def read(paths: Any, unit: str = "line", encoding: str = "utf-8") -> Files:
    """The documents of one or more text files (.gz too), as a re-iterable.

    Parameters
    ----------
    paths : a path, or a list of them
    unit : "line", "paragraph" or "file"
        What a document is. Empty lines and files are documents without words; paragraphs are never empty.
    """
    if unit not in UNITS:
        raise ValueError(f"unit={unit!r}: a document is a {', a '.join(map(repr, UNITS))}.")
    several = isinstance(paths, (list, tuple))
    found = tuple(Path(path) for path in (paths if several else [paths]))
    for path in found:
        if not path.exists():
            raise FileNotFoundError(f"there is no file {path}.")
        if not path.is_file():
            raise UnreadableText(f"{path} is no regular file; pass the text files themselves.")
    return Files(found, unit, encoding)


def _lines(path: Path, encoding: str) -> Iterator[str]:
    """The lines of a file, without their ends. Only "\\n" ends a line: U+0085 and the like may stand inside of one."""
    packed = path.suffix == ".gz"
    size = os.path.getsize(path)
    number = position = 0
    with gzip.open(path) if packed else open(path, "rb") as file:
        try:
            for number, raw in enumerate(file, 1):
                if (
                    number == 1
                    and b"\0" in raw[:1024]
                    and "16" not in encoding
                    and "32" not in encoding
                ):
                    raise UnreadableText(f"{path} is not text: it holds zero bytes.")
                yield raw.decode(encoding).rstrip("\r\n")
                position += len(raw)
        except UnicodeDecodeError as error:
            raise UnreadableText(
                f"{path} is not {encoding}: byte 0x{error.object[error.start]:02x} at position {position + error.start:,} "
                f"(line {number:,}); save it as UTF-8, or pass its encoding, such as encoding='latin-1'."
            ) from error
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise UnreadableText(
                f"{path} is damaged or truncated ({error}); fetch or write it again."
            ) from error
    if not packed and position < size:
        raise UnreadableText(
            f"{path} shrank from {size:,} to {position:,} bytes while it was read; read it when it is no longer written to."
        )


def _documents(lines: Iterator[str], unit: str) -> Iterator[str]:
    if unit == "line":
        yield from lines
    elif unit == "file":
        yield "\n".join(lines)
    else:
        paragraph: list[str] = []
        for line in lines:
            if line.strip():
                paragraph.append(line)
            elif paragraph:
                yield "\n".join(paragraph)
                paragraph = []
        if paragraph:
            yield "\n".join(paragraph)


def refuse_tables(source: Any) -> None:
    """Tables and matrices can be iterated over, too; a broken sparse one would take the process with it."""
    if isinstance(source, dict):
        raise TypeError(
            "documents is a dict, whose keys would be read; pass list(d) or list(d.values())."
        )
    table = hasattr(source, "tocsr") or hasattr(source, "columns")
    if table or (
        hasattr(source, "dtype") and (np.ndim(source) != 1 or source.dtype.kind not in "OUT")
    ):
        raise TypeError(
            f"documents is a {type(source).__name__} of numbers or columns; pass a list of texts, one column of them, or "
            "lemmata.text.read(path)."
        )


def as_documents(source: Any) -> Iterable[str]:
    """Whatever holds texts, as an iterable of them, each checked when its turn comes."""
    refuse_tables(source)
    if isinstance(source, (str, bytes)):
        raise TypeError(
            "documents is one text; pass a list of texts, or lemmata.text.read(path) for a file of them."
        )
    if isinstance(source, Path):
        source = read(source)
    texts = getattr(source, "texts", None)  # a data set of texts
    source = source if texts is None else texts
    if not isinstance(source, Iterable):
        raise TypeError(
            f"documents is a {type(source).__name__}; pass a list of texts, an iterator, or lemmata.text.read(path)."
        )
    return _Checked(source)


@dataclass(frozen=True)
class _Checked:
    """Documents that say which of them is no text. As often to be read as what is inside."""

    source: Iterable[Any]

    def __iter__(self) -> Iterator[str]:
        for number, one in enumerate(self.source):
            if not isinstance(one, str):
                raise TypeError(
                    f"document {number} is {_describe(one)}, not a text; documents are strings (or use lemmata.text.read)."
                )
            yield one


def _describe(value: Any) -> str:
    if isinstance(value, float) and np.isnan(value):
        return "NaN, a missing text"
    return f"a {type(value).__name__}"
