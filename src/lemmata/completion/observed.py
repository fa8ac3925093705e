"""The known entries of a partly known matrix, in both orders.

    Ω = {(i, j) : a_ij is known}      by_row: for each i its j and a_ij,   by_column: for each j its i and a_ij    (CIL (2.5))

Row-wise and column-wise methods each walk their own order, so both are kept: 8 bytes per entry and order for float32 values
(12 for float64). A known zero is an entry like any other.

    >>> import numpy as np
    >>> A = Observed.of(np.array([[5.0, np.nan, 0.0], [np.nan, 3.0, np.nan]]))
    >>> A.shape, A.n_observed, A.values_at([0, 1], [2, 1])
    ((2, 3), 3, array([0., 3.]))
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from lemmata.core.blocks import is_dask
from lemmata.core.store import digest, storable, write_atomically

Array = np.ndarray
DUPLICATES = ("error", "last", "mean")


class Entries(NamedTuple):
    """Compressed rows: row i has columns indices[indptr[i]:indptr[i+1]], ascending, and the values there."""

    indptr: Array  # (n + 1,) int64
    indices: Array  # int32
    values: Array  # float32 or float64


@storable
class Labels:
    """What people call the rows (or columns), and where each is."""

    version = 1

    def __init__(self, names: Any):
        self.names = np.asarray(names)
        self._positions: dict[Any, int] | None = None

    def __len__(self) -> int:
        return len(self.names)

    def to_fields(self) -> dict[str, Any]:
        plain = self.names.dtype.kind in "biufU" or all(isinstance(name, str) for name in self.names)
        return {"names": self.names if plain else self.names.astype(str)}

    @classmethod
    def from_fields(cls, content: dict[str, Any]) -> Labels:
        names = content["names"]
        if not isinstance(names, np.ndarray) or names.ndim != 1:
            raise ValueError("labels are one array of names.")
        return cls(names)

    def positions(self, wanted: Any, what: str = "label") -> Array:
        """Positions of labels; ValueError names the first that is not known."""
        found = self.find(wanted)
        if (found < 0).any():
            missing, known = np.atleast_1d(np.asarray(wanted))[np.argmax(found < 0)], self.names[0]
            raise ValueError(f"the {what} {missing} is not in the data; it has {len(self):,}, such as {known}.")
        return found

    def find(self, wanted: Any) -> Array:
        """Positions of labels, −1 for those that are not known."""
        if self._positions is None:
            self._positions = {name: i for i, name in enumerate(self.names.tolist())}
        wanted = np.atleast_1d(np.asarray(wanted))
        return np.array([self._positions.get(name, -1) for name in wanted.tolist()], dtype=np.int64)


@storable
class Observed:
    """Entries of an n × m matrix. Make it with `of`, `from_triplets`, `from_labels`, `from_frame` or `from_file`.

    Attributes
    ----------
    shape : (n, m)
    by_row, by_column : Entries
        The same entries, sorted by row and by column.
    row_labels, column_labels : Labels or None
        Where rows and columns have names (user and item ids).
    """

    weights = None  # of rows: none here, where Blocks have them

    def __init__(self, by_row: Entries, by_column: Entries, shape, row_labels=None, column_labels=None):
        self.by_row, self.by_column = by_row, by_column
        self.shape = (int(shape[0]), int(shape[1]))
        self.row_labels, self.column_labels = row_labels, column_labels

    # --- making one ---

    @classmethod
    def of(cls, X: Any) -> Observed:
        """From an Observed, a scipy sparse matrix (stored entries are known, zeros too), or an array with NaN for unknown."""
        if isinstance(X, Observed):
            return X
        if hasattr(X, "user") and hasattr(X, "rating"):  # lemmata.data.Ratings
            return cls.from_triplets(X.user, X.item, X.rating, X.shape, row_labels=X.user_ids, column_labels=X.item_ids)
        if sp.issparse(X):
            X = sp.coo_array(X)
            return cls.from_triplets(X.row, X.col, X.data, X.shape)
        if is_dask(X):
            raise TypeError("a dask array is not taken as a whole here; pass X.compute(), or triplets.")
        labels: dict[str, Any] = {}
        if hasattr(X, "columns") and hasattr(X, "index"):
            labels = {"row_labels": np.asarray(X.index), "column_labels": np.asarray(X.columns)}
        array = np.asarray(X)
        if array.dtype.kind not in "biuf":
            try:
                array = array.astype(np.float64)
            except (TypeError, ValueError):
                raise ValueError(
                    f"the matrix holds {array.dtype}, not numbers; unknown entries are NaN, known ones numbers."
                ) from None
        if array.ndim != 2:
            raise ValueError(
                f"the array has shape {array.shape}; a matrix has two dimensions, with NaN for what is unknown."
            )
        array = array if array.dtype in (np.float32, np.float64) else array.astype(np.float64)
        rows, columns = np.nonzero(~np.isnan(array))
        return cls.from_triplets(rows, columns, array[rows, columns], array.shape, **labels)

    @classmethod
    def from_triplets(
        cls, rows, columns, values, shape=None, *, duplicates: str = "error", row_labels=None, column_labels=None
    ) -> Observed:
        """From positions (counted from 0) and values.

        Parameters
        ----------
        shape : (n, m), optional
            By default just large enough.
        duplicates : {"error", "last", "mean"}
            What to do with an entry given twice.
        row_labels, column_labels : arrays, optional
            Names of the rows and columns.
        """
        if duplicates not in DUPLICATES:
            raise ValueError(f"duplicates={duplicates!r} is not accepted; pass one of {', '.join(DUPLICATES)}.")
        rows, columns = _positions(rows, "row"), _positions(columns, "column")
        values = _numbers(values)
        if not len(rows) == len(columns) == len(values):
            raise ValueError(f"{len(rows)} rows, {len(columns)} columns and {len(values)} values do not pair up.")
        if shape is None:
            shape = (int(rows.max(initial=-1)) + 1, int(columns.max(initial=-1)) + 1)
        for positions, size, what in ((rows, shape[0], "row"), (columns, shape[1], "column")):
            if positions.size and not 0 <= positions.min() <= positions.max() < size:
                raise ValueError(f"a {what} lies outside 0 … {size - 1}; give a larger shape, or mend the positions.")
        names = [None if given is None else Labels(given) for given in (row_labels, column_labels)]
        rows, columns, values = _sorted(rows, columns, values, shape, duplicates, names)
        by_row = Entries(_pointers(rows, shape[0]), columns.astype(np.int32), values)
        return cls(by_row, _transposed(by_row, shape), shape, *names)

    @classmethod
    def from_labels(cls, rows, columns, values, *, duplicates: str = "error") -> Observed:
        """From names of any type (user ids, titles) and values; rows and columns are ordered by their names."""
        row_names, i = np.unique(np.asarray(rows), return_inverse=True)
        column_names, j = np.unique(np.asarray(columns), return_inverse=True)
        labels = {"row_labels": row_names, "column_labels": column_names}
        return cls.from_triplets(i, j, values, (len(row_names), len(column_names)), duplicates=duplicates, **labels)

    # --- what it is ---

    @property
    def n_observed(self) -> int:
        return len(self.by_row.values)

    @property
    def dtype(self) -> np.dtype:
        return self.by_row.values.dtype

    @property
    def density(self) -> float:
        """The share of entries that are known."""
        n, m = self.shape
        return self.n_observed / (n * m) if n * m else 0.0

    @property
    def row_counts(self) -> Array:
        return np.diff(self.by_row.indptr)

    @property
    def column_counts(self) -> Array:
        return np.diff(self.by_column.indptr)

    @property
    def rows(self) -> Array:
        """The row of every entry, in the order of `by_row`."""
        return np.repeat(np.arange(self.shape[0], dtype=np.int32), self.row_counts)

    @property
    def columns(self) -> Array:
        return self.by_row.indices

    @property
    def values(self) -> Array:
        return self.by_row.values

    @property
    def size(self) -> int:
        """How many numbers there are to look at."""
        return self.n_observed

    @property
    def T(self) -> Observed:
        """The transposed matrix; nothing is copied."""
        return Observed(self.by_column, self.by_row, self.shape[::-1], self.column_labels, self.row_labels)

    @property
    def nbytes(self) -> int:
        return sum(part.nbytes for order in (self.by_row, self.by_column) for part in order)

    def __repr__(self) -> str:
        n, m = self.shape
        return f"Observed({n:,} × {m:,}, {self.n_observed:,} entries, {self.density:.2%}, {self.dtype})"

    def fingerprint(self) -> str:
        return digest([list(self.shape), *self.by_row])

    # --- using it ---

    def over_rows(self, function: Callable, *shared: Any, aligned: Sequence[Array] = ()) -> Any:
        """function(entries of rows, *shared, *aligned): an array, or a tuple of arrays, with one item per row.

        Every half-sweep goes through here. On a cluster (cluster.py) the rows come in blocks, `shared` goes to all of them,
        `aligned` arrays are cut like the rows, and results are stacked; here there is one block.
        """
        return function(self.by_row, *shared, *aligned)

    def over_columns(self, function: Callable, *shared: Any, aligned: Sequence[Array] = ()) -> Any:
        """The same over columns."""
        return function(self.by_column, *shared, *aligned)

    def with_values(self, values: Array) -> Observed:
        """The same places with other values, given in the order of `by_row`."""
        values = np.ascontiguousarray(values)
        by_row = Entries(self.by_row.indptr, self.by_row.indices, values)
        order = _transposed(by_row, self.shape)
        return Observed(by_row, order, self.shape, self.row_labels, self.column_labels)

    def csr(self) -> sp.csr_array:
        """The entries as a scipy matrix, sharing memory; known zeros are stored."""
        indptr, indices, values = self.by_row
        return sp.csr_array((values, indices, indptr), shape=self.shape)

    def dense(self, fill: float = np.nan) -> Array:
        """The matrix with `fill` where nothing is known."""
        out = np.full(self.shape, fill, dtype=self.dtype)
        out[self.rows, self.columns] = self.values
        return out

    def values_at(self, rows: Any, columns: Any) -> Array:
        """Known values at positions, NaN where nothing is known."""
        rows, columns = np.broadcast_arrays(np.asarray(rows), np.asarray(columns))
        keys = self.rows.astype(np.int64) * self.shape[1] + self.columns
        wanted = rows.ravel().astype(np.int64) * self.shape[1] + columns.ravel()
        place = np.searchsorted(keys, wanted).clip(max=max(len(keys) - 1, 0))
        found = keys[place] == wanted if len(keys) else np.zeros(len(wanted), bool)
        return np.where(found, self.values[place] if len(keys) else np.nan, np.nan).reshape(rows.shape)

    def select(self, keep: Array) -> Observed:
        """The entries where the mask, in the order of `by_row`, is true; the shape stays."""
        rows = self.rows[keep]
        by_row = Entries(_pointers(rows, self.shape[0]), self.columns[keep], self.values[keep])
        return Observed(by_row, _transposed(by_row, self.shape), self.shape, self.row_labels, self.column_labels)

    def split(self, test: float = 0.1, *, by: str = "entry", seed: int | None = None) -> tuple[Observed, Observed]:
        """Training and test entries of the same shape: a random share of the entries, or of the users with all of theirs."""
        if not 0 < test < 1:
            raise ValueError(f"test={test} is not a share; pass a number between 0 and 1.")
        rng = np.random.default_rng(seed)
        if by == "entry":
            held = np.zeros(self.n_observed, bool)
            held[rng.permutation(self.n_observed)[: round(test * self.n_observed)]] = True
        elif by == "user":
            users = np.zeros(self.shape[0], bool)
            users[rng.permutation(self.shape[0])[: round(test * self.shape[0])]] = True
            held = users[self.rows]
        else:
            raise ValueError(f"by={by!r} is not accepted; split by 'entry' or by 'user'.")
        return self.select(~held), self.select(held)

    # --- on the disk ---

    version = 1

    def to_fields(self) -> dict[str, Any]:
        """What a model's file keeps: one order (the other is made from it), the shape, the labels."""
        names = {"row_labels": self.row_labels, "column_labels": self.column_labels}
        return {**self.by_row._asdict(), "shape": self.shape, **names}

    @classmethod
    def from_fields(cls, content: dict[str, Any]) -> Observed:
        by_row = Entries(*(content[name] for name in Entries._fields))
        (n, m), labels = content["shape"], (content["row_labels"], content["column_labels"])
        _check_entries(by_row, n, m)
        for names, size in zip(labels, (n, m), strict=True):
            if names is not None and (not isinstance(names, Labels) or len(names) != size):
                raise ValueError(f"there should be {size} labels.")
        return cls(by_row, _transposed(by_row, (n, m)), (n, m), *labels)

    def save(self, folder: Any) -> None:
        """Write the arrays as .npy files; `open` maps them into memory without reading them."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        for order in ("by_row", "by_column"):
            for name, part in zip(Entries._fields, getattr(self, order), strict=True):
                np.save(folder / f"{order}-{name}.npy", part)
        for name in ("row_labels", "column_labels"):
            labels = getattr(self, name)
            if labels is not None:
                text = labels.names.dtype.kind == "O"
                np.save(folder / f"{name}.npy", labels.names.astype(str) if text else labels.names)
        write_atomically(folder / "observed.json", json.dumps({"format": 1, "shape": self.shape}).encode())

    @classmethod
    def open(cls, folder: Any) -> Observed:
        """The entries in a folder written by `save`, mapped: a page is read when it is first used."""
        folder = Path(folder)
        if not (folder / "observed.json").exists():
            raise FileNotFoundError(f"{folder} holds no saved Observed: there is no observed.json.")
        about = json.loads((folder / "observed.json").read_text())

        def entries(order):
            return Entries(*(np.load(folder / f"{order}-{name}.npy", mmap_mode="r") for name in Entries._fields))

        def labels(name):
            path = folder / f"{name}.npy"
            return Labels(np.load(path)) if path.exists() else None

        names = labels("row_labels"), labels("column_labels")
        return cls(entries("by_row"), entries("by_column"), about["shape"], *names)


def _positions(given: Any, what: str) -> Array:
    positions = np.asarray(given).ravel()
    if positions.dtype.kind not in "iu" and positions.size:
        raise ValueError(
            f"{what} positions are {positions.dtype}; pass ints from 0, or use Observed.from_labels for names."
        )
    return positions.astype(np.int64, copy=False)


def _numbers(given: Any) -> Array:
    values = np.asarray(given).ravel()
    if values.dtype.kind not in "biuf":
        try:
            values = values.astype(np.float64)
        except (TypeError, ValueError):
            raise ValueError(f"the values are {values.dtype}, such as {values[0]!r}; ratings are numbers.") from None
    if values.dtype not in (np.float32, np.float64):
        values = values.astype(np.float32 if values.dtype.itemsize <= 2 else np.float64)
    if not np.isfinite(values).all():
        place = int(np.argmin(np.isfinite(values)))
        raise ValueError(f"value {place} is {values[place]}; leave unknown entries out instead of giving them as NaN.")
    return values


def _sorted(rows, columns, values, shape, duplicates, names):
    """Entries sorted by row, then column, each place once."""
    keys = rows * shape[1] + columns
    if (keys[1:] <= keys[:-1]).any():
        order = np.argsort(keys, kind="stable")
        rows, columns, values, keys = rows[order], columns[order], values[order], keys[order]
    first = np.r_[True, keys[1:] != keys[:-1]] if len(keys) else np.zeros(0, bool)
    if first.all():
        return rows, columns, values
    if duplicates == "error":
        t = int(np.argmin(first))
        place = [label.names[i] if label else i for label, i in zip(names, (rows[t], columns[t]), strict=True)]
        raise ValueError(
            f"{int((~first).sum()):,} entries are given twice, such as ({place[0]}, {place[1]}); "
            "pass duplicates='last' or 'mean'."
        )
    starts = np.flatnonzero(first)
    if duplicates == "mean":
        sums = np.add.reduceat(values.astype(np.float64), starts)
        values = (sums / np.diff(np.r_[starts, len(keys)])).astype(values.dtype)
    else:
        values = values[np.r_[starts[1:], len(keys)] - 1]  # the sort is stable: the last of a run came last
    return rows[starts], columns[starts], values


def _check_entries(entries: Entries, n: int, m: int) -> None:
    """Refuse what kernels would trust blindly: pointers that fall, columns out of range, values that are not numbers."""
    indptr, indices, values = entries
    if not all(isinstance(part, np.ndarray) and part.ndim == 1 for part in entries):
        raise ValueError("the entries are not arrays.")
    if indptr.dtype != np.int64 or indices.dtype != np.int32 or values.dtype not in (np.float32, np.float64):
        raise ValueError(f"the entries have dtypes {indptr.dtype}, {indices.dtype} and {values.dtype}.")
    if len(indptr) != n + 1 or indptr[0] != 0 or indptr[-1] != len(indices) or len(indices) != len(values):
        raise ValueError("the entries do not add up.")
    if (np.diff(indptr) < 0).any() or (indices.size and not 0 <= indices.min() <= indices.max() < m):
        raise ValueError("the entries lie outside their matrix.")
    if not np.isfinite(values).all():
        raise ValueError("an entry is not finite.")


def _pointers(rows: Array, n: int) -> Array:
    return np.r_[0, np.cumsum(np.bincount(rows, minlength=n))].astype(np.int64)


def _transposed(entries: Entries, shape: Sequence[int]) -> Entries:
    """The same entries in the other order, by counting (scipy's conversion is one pass)."""
    indptr, indices, values = entries
    other = sp.csr_array((values, indices, indptr), shape=tuple(shape)).tocsc()
    return Entries(other.indptr.astype(np.int64), other.indices.astype(np.int32, copy=False), other.data)
