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


def check_format(path: Path) -> None:
    """Raise ValueError unless `write_matrix` knows what to write under this name."""
    if not path.name.lower().endswith((".csv", ".csv.gz", ".npy")):
        raise ValueError(f"{path}: a result is written as .csv, .csv.gz or .npy.")


def write_csv(file: TextIO, Z: Any, names: Sequence[str]) -> None:
    """Rows as text, each number with as many digits as are needed to read back the same one."""
    file.write(",".join(map(_quoted, names)) + "\n")
    for start in range(0, len(Z), ROWS):
        rows = np.asarray(Z[start : start + ROWS]).astype(str)
        file.write("\n".join(map(",".join, rows)) + "\n")


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"' if set(name) & set(',"\n') else name


def write_matrix(path: Path, Z: Any, names: Sequence[str]) -> None:
    """Write a matrix to a .csv, .csv.gz or .npy file."""
    check_format(path)
    buffer = io.BytesIO()
    if path.suffix.lower() == ".npy":
        np.save(buffer, np.asarray(Z), allow_pickle=False)
    else:
        text = io.StringIO()
        write_csv(text, Z, names)
        content = text.getvalue().encode()
        buffer.write(gzip.compress(content, mtime=0) if path.suffix.lower() == ".gz" else content)
    write_atomically(path, buffer.getvalue())
