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
from typing import Any

import numpy as np
import scipy.sparse as sp

from lemmata.completion.entries import (
    Entries,
    check_entries,
    checked_shape,
    each_once,
    pointers,
    sorted_entries,
    transposed,
)
from lemmata.completion.labels import Labels, numbered
from lemmata.core.blocks import is_dask, unmasked
from lemmata.core.store import digest, storable, write_atomically

Array = np.ndarray
DUPLICATES = ("error", "last", "mean")
ORDERS = ("by_row", "by_column")


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

    def __init__(
        self, by_row: Entries, by_column: Entries, shape, row_labels=None, column_labels=None
    ):
        self.by_row, self.by_column = by_row, by_column
        self.shape = (int(shape[0]), int(shape[1]))
        self.row_labels, self.column_labels = row_labels, column_labels

    # --- making one ---

    @classmethod
    def of(cls, X: Any) -> Observed:
        """From an Observed, a scipy sparse matrix (stored entries are known, zeros too), or an array with NaN or a mask."""
        if isinstance(X, Observed):
            return X
        if hasattr(X, "user") and hasattr(X, "rating"):  # lemmata.data.Ratings
            return cls.from_triplets(
                X.user, X.item, X.rating, X.shape, row_labels=X.user_ids, column_labels=X.item_ids
            )
        if sp.issparse(X):
            X = sp.coo_array(X)
            return cls.from_triplets(X.row, X.col, X.data, X.shape)
        if is_dask(X):
            raise TypeError(
                "a dask array is not taken as a whole here; pass X.compute(), or triplets."
            )
        labels: dict[str, Any] = {}
        if hasattr(X, "columns") and hasattr(X, "index"):
            labels = {"row_labels": np.asarray(X.index), "column_labels": np.asarray(X.columns)}
        array = np.asarray(unmasked(X))
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
        cls,
        rows,
        columns,
        values,
        shape=None,
        *,
        duplicates: str = "error",
        row_labels=None,
        column_labels=None,
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
            raise ValueError(
                f"duplicates={duplicates!r} is not accepted; pass one of {', '.join(DUPLICATES)}."
            )
        rows, columns = _positions(rows, "row"), _positions(columns, "column")
        values = _numbers(values)
        if not len(rows) == len(columns) == len(values):
            raise ValueError(
                f"{len(rows)} rows, {len(columns)} columns and {len(values)} values do not pair up."
            )
        n, m = (
            (int(rows.max(initial=-1)) + 1, int(columns.max(initial=-1)) + 1)
            if shape is None
            else checked_shape(shape)
        )
        for positions, size, what in ((rows, n, "row"), (columns, m, "column")):
            if positions.size and not 0 <= positions.min() <= positions.max() < size:
                raise ValueError(
                    f"a {what} lies outside 0 … {size - 1}; give a larger shape, or correct the positions."
                )
        names = [None if given is None else Labels(given) for given in (row_labels, column_labels)]
        for labels, size, what in zip(names, (n, m), ("row", "column"), strict=True):
            if labels is not None and len(labels) != size:
                raise ValueError(f"there are {len(labels)} {what} labels for {size} {what}s.")
        by_row = sorted_entries(rows, columns, values, (n, m))
        by_row = each_once(by_row, duplicates, names)
        return cls(by_row, transposed(by_row, (n, m)), (n, m), *names)

    @classmethod
    def from_labels(cls, rows, columns, values, *, duplicates: str = "error") -> Observed:
        """From names of any type (user ids, titles) and values; rows and columns are ordered by their names."""
        row_names, i = numbered(rows, "row")
        column_names, j = numbered(columns, "column")
        labels = {"row_labels": row_names, "column_labels": column_names}
        return cls.from_triplets(
            i, j, values, (len(row_names), len(column_names)), duplicates=duplicates, **labels
        )

    @classmethod
    def from_frame(
        cls, frame: Any, user=None, item=None, rating=None, *, duplicates: str = "error"
    ) -> Observed:
        """From a DataFrame (or a dict of columns) with one entry per row.

        Parameters
        ----------
        frame : DataFrame of pandas or polars, or a dict of arrays
        user, item, rating : str, int or None
            Columns by name or position. None: the column with a usual name (userId, movie_id, item, score, …), or, where no
            column has one, the first, second and third.
        duplicates : {"error", "last", "mean"}
            What to do with an entry given twice.

        Ratings that float32 holds exactly (whole and half stars) become float32.
        """
        from lemmata.completion.reading import triplets_of_frame

        return triplets_of_frame(frame, user, item, rating).observed(duplicates)

    @classmethod
    def from_file(
        cls,
        path: Any,
        user=None,
        item=None,
        rating=None,
        *,
        duplicates: str = "error",
        sep: str | None = None,
        header: bool | None = None,
        dtype: Any = np.float32,
    ) -> Observed:
        """From a file with one entry per line: csv, tsv, MovieLens' "::", each also as .gz, or Parquet.

        Parameters
        ----------
        path : file name, or "-" for text from the standard input
        user, item, rating : str, int or None
            Columns by name or position (0 is the first), as in `from_frame`.
        duplicates : {"error", "last", "mean"}
            What to do with an entry given twice.
        sep : str, optional
            What separates the cells; by default "::", a tab, ";", "," or "|", whichever the first line has.
        header : bool, optional
            Whether the first line holds names; by default it does if there is no number where the rating should be.
        dtype : float32 or float64
            Of the values.

        Labels that are all whole numbers (in plain digits, without leading zeros) become ints, others stay text. Lines
        without any cell are skipped. UnreadableData, a ValueError, names the file and the line of whatever is wrong.
        """
        from lemmata.completion.reading import triplets_of_file

        return triplets_of_file(path, user, item, rating, sep, header, dtype).observed(duplicates)

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
    def local(self) -> Observed:
        """The entries as plain ones of this process: themselves, unless they are spread over a cluster (cluster.py)."""
        return self

    @property
    def T(self) -> Observed:
        """The transposed matrix; nothing is copied."""
        return Observed(
            self.by_column, self.by_row, self.shape[::-1], self.column_labels, self.row_labels
        )

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
        if values.shape != self.values.shape:
            raise ValueError(f"{values.shape} values do not fit {self.n_observed} entries.")
        by_row = self.by_row._replace(values=values)
        # shares the places
        by_column = self.by_column._replace(values=transposed(by_row, self.shape).values)
        return Observed(by_row, by_column, self.shape, self.row_labels, self.column_labels)

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
        for positions, size, what in (
            (rows, self.shape[0], "row"),
            (columns, self.shape[1], "column"),
        ):
            if positions.size and not 0 <= positions.min() <= positions.max() < size:
                raise ValueError(f"a {what} lies outside 0 … {size - 1}.")
        out = np.full(rows.shape, np.nan, self.dtype)
        if not out.size or not self.n_observed:
            return out
        indptr, indices, values = self.by_row
        # the place is in between: halve what is left until it is found
        low, high = indptr[rows], indptr[rows + 1]
        end, last = high, self.n_observed - 1
        while (low < high).any():
            middle = (low + high) // 2
            below = (indices[np.minimum(middle, last)] < columns) & (low < high)
            low, high = (
                np.where(below, middle + 1, low),
                np.where(below, high, np.minimum(middle, high)),
            )
        place = np.minimum(low, last)
        found = (low < end) & (indices[place] == columns)
        return np.where(found, values[place], out)

    def aligned(self, like: Observed, *, rows: bool = True) -> Observed:
        """The same entries at the columns (and rows) where `like` has their labels; itself where either has no labels.

        ValueError names a label that `like` does not have.
        """
        sides = [("column", self.columns), ("row", self.rows if rows else None)]
        places, names, shape = {}, {}, {"row": self.shape[0], "column": self.shape[1]}
        for what, positions in sides:
            mine, theirs = getattr(self, f"{what}_labels"), getattr(like, f"{what}_labels")
            places[what], names[what] = positions, mine
            if positions is None or mine is None or theirs is None or mine is theirs:
                continue
            if not np.array_equal(mine.names, theirs.names):
                places[what] = theirs.positions(mine.names, what)[positions]
                names[what], shape[what] = theirs, len(theirs)
        if names["row"] is self.row_labels and names["column"] is self.column_labels:
            return self
        labels = [
            None if given is None else given.names for given in (names["row"], names["column"])
        ]
        where = self.rows if places["row"] is None else places["row"], places["column"]
        return Observed.from_triplets(
            *where,
            self.values,
            tuple(shape.values()),
            row_labels=labels[0],
            column_labels=labels[1],
        )

    def select(self, keep: Array) -> Observed:
        """The entries where the mask, in the order of `by_row`, is true; the shape stays."""
        rows = self.rows[keep]
        by_row = Entries(pointers(rows, self.shape[0]), self.columns[keep], self.values[keep])
        return Observed(
            by_row, transposed(by_row, self.shape), self.shape, self.row_labels, self.column_labels
        )

    def split(
        self, test: float = 0.1, *, by: str = "entry", seed: int | None = None
    ) -> tuple[Observed, Observed]:
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
        n, m = checked_shape(content["shape"])
        labels = content["row_labels"], content["column_labels"]
        check_entries(by_row, n, m)
        for names, size in zip(labels, (n, m), strict=True):
            if names is not None and (not isinstance(names, Labels) or len(names) != size):
                raise ValueError(f"there should be {size} labels.")
        return cls(by_row, transposed(by_row, (n, m)), (n, m), *labels)

    def save(self, folder: Any) -> None:
        """Write the arrays as .npy files; `open` maps them into memory without copying them."""
        folder = Path(folder)
        parts = {
            f"{order}-{name}": p
            for order in ORDERS
            for name, p in getattr(self, order)._asdict().items()
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
        # comes last: a folder half written does not open
        (folder / "observed.json").unlink(missing_ok=True)
        for name, part in parts.items():
            np.save(folder / f"{name}.npy", part)
        for name in ("row_labels", "column_labels"):
            labels = getattr(self, name)
            if labels is None:
                (folder / f"{name}.npy").unlink(missing_ok=True)
            else:
                np.save(folder / f"{name}.npy", labels.plain())
        write_atomically(
            folder / "observed.json", json.dumps({"format": 1, "shape": self.shape}).encode()
        )

    @classmethod
    def open(cls, folder: Any, *, check: bool = True) -> Observed:
        """The entries in a folder written by `save`, mapped: they are not copied into memory.

        check : whether to look at every entry first (20 million: 0.3 s). Without it a page is read when it is first used;
            only for folders that nobody else could have written to.
        """
        folder = Path(folder)
        if not (folder / "observed.json").exists():
            raise FileNotFoundError(f"{folder} holds no saved Observed: there is no observed.json.")
        try:
            n, m = checked_shape(json.loads((folder / "observed.json").read_text())["shape"])
            by_row, by_column = (
                Entries(
                    *(
                        np.load(folder / f"{order}-{name}.npy", mmap_mode="r")
                        for name in Entries._fields
                    )
                )
                for order in ORDERS
            )
            paths = [folder / f"{name}.npy" for name in ("row_labels", "column_labels")]
            labels = [Labels(np.load(path)) if path.exists() else None for path in paths]
            if any(
                names is not None and len(names) != size
                for names, size in zip(labels, (n, m), strict=True)
            ):
                raise ValueError("the labels do not fit the shape")
            if by_row.values.dtype != by_column.values.dtype:
                raise ValueError("the two orders hold different entries")
            if check:
                check_entries(by_row, n, m)
                check_entries(by_column, m, n)
                if (np.bincount(by_row.indices, minlength=m) != np.diff(by_column.indptr)).any():
                    raise ValueError("the two orders hold different entries")
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{folder} does not hold a usable Observed: {error}") from error
        return cls(by_row, by_column, (n, m), *labels)


def _positions(given: Any, what: str) -> Array:
    positions = np.asarray(given).ravel()
    if positions.dtype.kind not in "iu" and positions.size:
        raise ValueError(
            f"{what} positions are {positions.dtype}; pass ints from 0, or use Observed.from_labels for names."
        )
    return positions if positions.size else positions.astype(np.int32)


def _numbers(given: Any) -> Array:
    values = np.asarray(given).ravel()
    if values.dtype.kind not in "biuf":
        try:
            values = values.astype(np.float64)
        except (TypeError, ValueError):
            raise ValueError(
                f"the values are {values.dtype}, such as {values[0]!r}; ratings are numbers."
            ) from None
    if values.dtype not in (np.float32, np.float64):
        values = values.astype(np.float32 if values.dtype.itemsize <= 2 else np.float64)
    if not np.isfinite(values).all():
        place = int(np.argmin(np.isfinite(values)))
        raise ValueError(
            f"value {place} is {values[place]}; leave unknown entries out instead of giving them as NaN."
        )
    return values
