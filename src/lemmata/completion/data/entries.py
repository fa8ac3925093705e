"""Entries of rows, compressed: triplets are sorted into them, checked, and turned into those of columns."""

from __future__ import annotations

import json
import operator
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from lemmata.completion.data.frames import times_of
from lemmata.completion.data.labels import Labels
from lemmata.core.store import write_atomically
from lemmata.core.validation import refuse_shrunk_file

Array = np.ndarray
ENTRIES_AT_ONCE = 2**20  # entries looked at together where temporaries should stay small
DUPLICATES = ("error", "last", "mean")
ORDERS = ("by_row", "by_column")
NAMES = ("row_labels", "column_labels")


class Entries(NamedTuple):
    """Compressed rows: row i has columns indices[indptr[i]:indptr[i+1]], ascending, and the values there."""

    indptr: Array  # (n + 1,) int64
    indices: Array  # int32
    values: Array  # float32 or float64

    @property
    def weights(self) -> Array | None:
        """Weight of each entry; None: all the same."""
        return None

    @property
    def masses(self) -> Array:
        """Σ_j w_ij of every row: how many entries it has, each counted by its weight."""
        return np.diff(self.indptr)


class WeightedEntries(Entries):
    """Entries that know their weights, all > 0; whoever takes apart the three arrays does not see them."""

    own: Array  # (entries,) of the dtype of the values

    @classmethod
    def of(cls, entries: Entries, weights: Array) -> WeightedEntries:
        made = cls(*entries)
        made.own = weights
        return made

    @property
    def weights(self) -> Array:
        return self.own

    @property
    def masses(self) -> Array:
        out, filled = np.zeros(len(self.indptr) - 1), np.diff(self.indptr) > 0
        if len(self.own):
            out[filled] = np.add.reduceat(self.own, self.indptr[:-1][filled], dtype=np.float64)
        return out

    def _replace(self, **changes: Any) -> WeightedEntries:
        return WeightedEntries.of(super()._replace(**changes), self.own)


def checked_shape(shape: Any) -> tuple[int, int]:
    """A shape from outside as two ints that an int32 can count to."""
    try:
        if any(isinstance(size, bool | np.bool_) for size in shape):
            raise TypeError("a bool is no number of rows")
        n, m = map(operator.index, shape)
    except (TypeError, ValueError):
        raise ValueError(f"the shape {shape!r} is not a pair of ints.") from None
    if not (0 <= n < 2**31 and 0 <= m < 2**31):
        raise ValueError(
            f"the shape {n} × {m} is out of reach; rows and columns are counted from 0 to 2³¹ − 1."
        )
    return n, m


def sort_triplets(
    rows: Any,
    columns: Any,
    values: Any,
    shape: Any,
    duplicates: str,
    labels: Sequence[Any],
    times: Any,
) -> tuple[Any, ...]:
    """Check positions and values, and put them into both orders: what the constructor of Observed takes."""
    if duplicates not in DUPLICATES:
        raise ValueError(
            f"duplicates={duplicates!r} is not accepted; pass one of {', '.join(DUPLICATES)}."
        )
    rows, columns = checked_positions(rows, "row"), checked_positions(columns, "column")
    values = checked_values(values)
    if not len(rows) == len(columns) == len(values):
        raise ValueError(
            f"{len(rows)} rows, {len(columns)} columns and {len(values)} values do not pair up."
        )
    if shape is None:
        shape = (int(rows.max(initial=-1)) + 1, int(columns.max(initial=-1)) + 1)
    else:
        shape = checked_shape(shape)
    check_positions((rows, columns), shape, "; give a larger shape, or correct the positions")
    names = [None if given is None else Labels(given) for given in labels]
    for own, size, what in zip(names, shape, ("row", "column"), strict=True):
        if own is not None and len(own) != size:
            raise ValueError(f"there are {len(own)} {what} labels for {size} {what}s.")
    if times is not None:
        times = checked_times(times, len(values))
        times = each_once(sorted_entries(rows, columns, times, shape), "last", names).values
    by_row = each_once(sorted_entries(rows, columns, values, shape), duplicates, names)
    return by_row, transpose(by_row, shape), shape, *names, times


def check_positions(positions: Sequence[Array], shape: Sequence[int], advice: str = "") -> None:
    """Refuse rows and columns outside a matrix."""
    for given, size, what in zip(positions, shape, ("row", "column"), strict=True):
        if given.size and not 0 <= given.min() <= given.max() < size:
            raise ValueError(f"a {what} lies outside 0 … {size - 1}{advice}.")


def sorted_entries(rows: Array, columns: Array, values: Array, shape: tuple[int, int]) -> Entries:
    """Entries by row, then by column; those of one place stay in the order in which they were given.

    Counting sorts (scipy's conversions), first by column and then by row: three passes and 8 bytes per entry more than the
    result, where sorting by one key of 64 bits takes several times both.
    """
    rows, columns = rows.astype(np.int32, copy=False), columns.astype(np.int32, copy=False)
    if not len(rows):
        return Entries(np.zeros(shape[0] + 1, np.int64), columns, values)
    if ((rows[1:] > rows[:-1]) | ((rows[1:] == rows[:-1]) & (columns[1:] > columns[:-1]))).all():
        # nothing of the caller's is kept
        return Entries(pointers(rows, shape[0]), columns.copy(), values.copy())
    triplets = sp.coo_array((values, (columns, rows)), shape=shape[::-1])
    triplets.has_canonical_format = True  # or tocsr would add up what is given twice
    return _compress(triplets.tocsr().tocsc())


def each_once(entries: Entries, duplicates: str, names: Sequence[Labels | None]) -> Entries:
    """Sorted entries with every place once."""
    indptr, indices, values = entries
    again = np.zeros(len(indices) + 1, bool)  # the same place as the entry before it
    again[1:-1] = indices[1:] == indices[:-1]
    again[indptr] = False  # a row begins
    again = again[:-1]
    if not again.any():
        return entries
    if duplicates == "error":
        t = int(np.argmax(again))
        place = (int(np.searchsorted(indptr, t, side="right")) - 1, int(indices[t]))
        shown = [
            str(label.names[i]) if label else str(i) for label, i in zip(names, place, strict=True)
        ]
        raise ValueError(
            f"{int(again.sum()):,} entries are given twice, such as ({shown[0]}, {shown[1]}); "
            "pass duplicates='last' or 'mean'."
        )
    starts = np.flatnonzero(~again)
    ends = np.append(starts[1:], len(indices))
    if duplicates == "mean":
        values = (np.add.reduceat(values.astype(np.float64), starts) / (ends - starts)).astype(
            values.dtype
        )
    else:
        values = values[ends - 1]  # the sort is stable: the last of a run came last
    return Entries(np.searchsorted(starts, indptr).astype(np.int64), indices[starts], values)


def check_entries(entries: Entries, n: int, m: int) -> None:
    """Refuse what kernels would trust blindly: pointers that fall, columns out of range or order, values that are not numbers.

    In blocks, so that entries mapped from a file are not all held in memory.
    """
    indptr, indices, values = entries
    if not all(isinstance(part, np.ndarray) and part.ndim == 1 for part in entries):
        raise ValueError("the entries are not arrays.")
    if (
        indptr.dtype != np.int64
        or indices.dtype != np.int32
        or values.dtype not in (np.float32, np.float64)
    ):
        raise ValueError(
            f"the entries have dtypes {indptr.dtype}, {indices.dtype} and {values.dtype}."
        )
    if (
        len(indptr) != n + 1
        or indptr[0] != 0
        or indptr[-1] != len(indices)
        or len(indices) != len(values)
    ):
        raise ValueError("the entries do not add up.")
    if (indptr[1:] < indptr[:-1]).any():
        raise ValueError("the entries lie outside their matrix.")
    for start in range(0, len(indices), ENTRIES_AT_ONCE):
        here, numbers = (
            indices[start : start + ENTRIES_AT_ONCE + 1],
            values[start : start + ENTRIES_AT_ONCE],
        )
        if not 0 <= here.min() <= here.max() < m:
            raise ValueError("the entries lie outside their matrix.")
        falls = start + 1 + np.flatnonzero(here[1:] <= here[:-1])  # only where a row begins
        if (indptr[np.searchsorted(indptr, falls)] != falls).any():
            raise ValueError("the entries of a row are not in ascending order, each column once.")
        if not np.isfinite(numbers).all():
            raise ValueError("an entry is not finite.")


def pointers(rows: Array, n: int) -> Array:
    return np.r_[0, np.cumsum(np.bincount(rows, minlength=n))].astype(np.int64)


def search_parts(ordered: Array, low: Array, high: Array, values: Array, side: str) -> Array:
    """Place of each value in its own part ordered[low:high], as np.searchsorted: by halving, for many parts at once."""
    last = len(ordered) - 1
    while (low < high).any():
        middle = (low + high) // 2
        here = ordered[np.minimum(middle, last)]
        above = (here < values if side == "left" else here <= values) & (low < high)
        low, high = (
            np.where(above, middle + 1, low),
            np.where(above, high, np.minimum(middle, high)),
        )
    return low


def transpose(entries: Entries, shape: Sequence[int]) -> Entries:
    """The same entries in the other order, by counting (scipy's conversion is one pass)."""
    indptr, indices, values = entries
    return _compress(sp.csr_array((values, indices, indptr), shape=tuple(shape)).tocsc())


def _compress(matrix: Any) -> Entries:
    return Entries(
        matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32, copy=False), matrix.data
    )


def weighted_orders(
    by_row: Entries, by_column: Entries, weights: Array
) -> tuple[WeightedEntries, WeightedEntries]:
    """Both orders with weights, given in the order of `by_row`."""
    shape = len(by_row.indptr) - 1, len(by_column.indptr) - 1
    turned = transpose(Entries(by_row.indptr, by_row.indices, weights), shape).values
    return WeightedEntries.of(by_row, weights), WeightedEntries.of(by_column, turned)


# --- what comes from outside ------------------------------------------------------------------------------------------


def checked_times(given: Any, size: int) -> Array:
    times = times_of(given)
    if times is None or times.shape != (size,):
        raise ValueError(
            f"times should be {size:,} numbers or dates, one for each entry, none of them missing."
        )
    return times


def checked_positions(given: Any, what: str) -> Array:
    positions = np.asarray(given).ravel()
    if positions.dtype.kind not in "iu" and positions.size:
        raise ValueError(
            f"{what} positions are {positions.dtype}; pass ints from 0, or use Observed.from_labels for names."
        )
    return positions if positions.size else positions.astype(np.int32)


def checked_values(given: Any) -> Array:
    values = np.asarray(given).ravel()
    if values.dtype.kind not in "biuf":
        try:
            values = values.astype(np.float64)
        except (TypeError, ValueError):
            raise ValueError(
                f"the values are {values.dtype}, such as {str(values[0])[:40]!r}; ratings are numbers."
            ) from None
    if values.dtype not in (np.float32, np.float64):
        values = values.astype(np.float32 if values.dtype.itemsize <= 2 else np.float64)
    if not np.isfinite(values).all():
        place = int(np.argmin(np.isfinite(values)))
        raise ValueError(
            f"value {place} is {values[place]}; leave unknown entries out instead of giving them as NaN."
        )
    return values


def checked_weights(given: Any, entries: Any) -> Array:
    """Weights of the entries of an Observed, in its order by row and of its dtype: finite, >= 0, not all 0."""
    shape, n = entries.shape, entries.n_observed
    size = tuple(np.shape(given))  # a sparse matrix has one too
    if size not in (shape, (n,)):
        raise ValueError(
            f"weights have shape {size}; pass one for each of the {n:,} known entries, row by row, or a matrix of "
            f"{shape[0]:,} × {shape[1]:,}."
        )
    if sp.issparse(given):
        given = np.nan_to_num(type(entries).of(given).values_at(entries.rows, entries.columns))
    try:
        w = np.asarray(given, np.float64)
    except (TypeError, ValueError):
        raise ValueError("weights hold something that is no number.") from None
    if w.ndim == 2 and size != (n,):
        w = w[entries.rows, entries.columns]
    bad = ~(np.isfinite(w) & (w >= 0))
    if bad.any():
        place = int(np.argmax(bad))
        raise ValueError(
            f"weight {place} is {w[place]}; weights are finite numbers >= 0, and 0 leaves an entry out."
        )
    with np.errstate(over="ignore", under="ignore"):
        w = w.astype(entries.dtype)
        total = w.sum(dtype=np.float64)
    if n and not total > 0:
        raise ValueError(f"all weights are 0 in {entries.dtype}; at least one entry has to count.")
    if not np.isfinite(total):
        raise ValueError(
            "the weights are too large: their sum overflows; divide them by their maximum."
        )
    return w


# --- in a folder ------------------------------------------------------------------------------------------------------

# One .npy file per array, mapped back without copying them: by_row-indptr.npy … by_column-values.npy, [row_labels.npy,
# column_labels.npy, times.npy,] and observed.json, written last.


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
    """Arguments for the constructor of Observed, from a folder."""
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
