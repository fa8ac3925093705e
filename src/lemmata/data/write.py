"""Matrices into files: csv for people and pipes, npy for programs; whole or not at all."""

from __future__ import annotations

import gzip
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from lemmata.core.store import write_atomically

ROWS = 4096  # rows turned into text at a time
FORMULA = ("=", "+", "-", "@", "\t", "\r")  # what a spreadsheet computes begins with one of these


def check_format(path: Path) -> None:
    """Raise ValueError unless `write_matrix` knows what to write under this name."""
    if not path.name.lower().endswith((".csv", ".csv.gz", ".npy")):
        raise ValueError(f"{path}: a result is written as .csv, .csv.gz or .npy.")


def write_csv(file: TextIO, Z: Any, names: Sequence[str], safe: bool = False) -> None:
    """Rows as text, each number with as many digits as are needed to read back the same one."""
    file.write(",".join(csv_cell(name, safe) for name in names) + "\n")
    for start in range(0, len(Z), ROWS):
        rows = np.asarray(Z[start : start + ROWS])
        if rows.dtype.kind in "OU":  # labels
            cells: Any = ([csv_cell(str(label), safe) for label in row] for row in rows)
        else:
            cells = rows.astype(str)
        file.write("\n".join(map(",".join, cells)) + "\n")


def csv_cell(text: str, safe: bool = False) -> str:
    """Text, a label or a name, as a cell of a csv: quoted where it has to be.

    safe : whether a text that a spreadsheet would take for a formula (it begins with =, +, -, @, a tab or a carriage return)
        gets an apostrophe before it. Numbers are no text: do not pass them here.
    """
    if safe and text.startswith(FORMULA):
        text = f"'{text}"
    return '"' + text.replace('"', '""') + '"' if set(text) & set(',"\r\n') else text


def write_matrix(path: Path, Z: Any, names: Sequence[str], safe: bool = False) -> None:
    """Write a matrix to a .csv, .csv.gz or .npy file."""
    check_format(path)
    buffer = io.BytesIO()
    if path.suffix.lower() == ".npy":
        np.save(buffer, np.asarray(Z), allow_pickle=False)
    else:
        text = io.StringIO()
        write_csv(text, Z, names, safe)
        content = text.getvalue().encode()
        buffer.write(gzip.compress(content, mtime=0) if path.suffix.lower() == ".gz" else content)
    write_atomically(path, buffer.getvalue())
