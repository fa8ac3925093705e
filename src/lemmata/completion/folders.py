"""Entries in a folder: one .npy file per array, mapped back without copying them.

by_row-indptr.npy … by_column-values.npy, [row_labels.npy, column_labels.npy, times.npy,] and observed.json, written last
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from lemmata.completion.entries import Entries, check_entries, checked_shape
from lemmata.completion.labels import Labels
from lemmata.core.malformed import refuse_shrunk_file
from lemmata.core.store import write_atomically

ORDERS = ("by_row", "by_column")
NAMES = ("row_labels", "column_labels")


def save_entries(entries: Any, folder: Any) -> None:
    """Write an Observed; a folder half written does not open."""
    folder = Path(folder)
    parts = {
        f"{order}-{name}": part
        for order in ORDERS
        for name, part in getattr(entries, order)._asdict().items()
    }
    for part in parts.values():
        if (
            isinstance(part, np.memmap)
            and Path(part.filename or "").resolve().parent == folder.resolve()
        ):
            raise ValueError(
                f"these entries are mapped from {folder}; save them to another folder."
            )
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "observed.json").unlink(missing_ok=True)
    labels = {name: getattr(entries, name) for name in NAMES}
    optional = {name: None if names is None else names.plain() for name, names in labels.items()}
    for name, part in (parts | optional | {"times": entries.times}).items():
        if part is None:
            (folder / f"{name}.npy").unlink(missing_ok=True)
        else:
            np.save(folder / f"{name}.npy", part)
    write_atomically(
        folder / "observed.json", json.dumps({"format": 1, "shape": entries.shape}).encode()
    )


def open_entries(folder: Any, check: bool) -> tuple[Any, ...]:
    """What the constructor of Observed takes, from a folder."""
    folder = Path(folder)
    if not (folder / "observed.json").exists():
        raise FileNotFoundError(f"{folder} holds no saved Observed: there is no observed.json.")
    try:
        n, m = checked_shape(json.loads((folder / "observed.json").read_text())["shape"])
        by_row, by_column = (
            Entries(*(np.load(folder / f"{order}-{name}.npy", mmap_mode="r") for name in Entries._fields))
            for order in ORDERS
        )  # fmt: skip
        for part in (*by_row, *by_column):
            refuse_shrunk_file(part)
        paths = [folder / f"{name}.npy" for name in NAMES]
        labels = [Labels(np.load(path)) if path.exists() else None for path in paths]
        if any(
            names is not None and len(names) != size
            for names, size in zip(labels, (n, m), strict=True)
        ):
            raise ValueError("the labels do not fit the shape")
        times = np.load(folder / "times.npy") if (folder / "times.npy").exists() else None
        if times is not None and (
            times.shape != by_row.values.shape or times.dtype.kind not in "iuf"
        ):
            raise ValueError("the times do not fit the entries")
        if by_row.values.dtype != by_column.values.dtype:
            raise ValueError("the two orders hold different entries")
        if check:
            check_entries(by_row, n, m)
            check_entries(by_column, m, n)
            if (np.bincount(by_row.indices, minlength=m) != np.diff(by_column.indptr)).any():
                raise ValueError("the two orders hold different entries")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{folder} does not hold a usable Observed: {error}") from error
    return by_row, by_column, (n, m), *labels, times
