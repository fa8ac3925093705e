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

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from lemmata.completion.data.entries import (
    Entries,
    check_entries,
    check_positions,
    checked_shape,
    checked_weights,
    pointers,
    search_parts,
    sort_triplets,
    transpose,
    weighted_orders,
)
from lemmata.completion.data.frames import find_times, frame_columns, triplets_of_frame
from lemmata.completion.data.labels import Labels, Triplets, encode_labels
from lemmata.core.files.encoding import check_room
from lemmata.core.store import digest, storable

Array = np.ndarray


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
    times : array or None
        When each entry was made, in the order of `by_row`: what `split(by="time")` goes by, and nothing else.
    weights : array or None
        How much each entry counts, in the order of `by_row`; see `weighted`.
    """

    times: Array | None = None

    def __init__(
        self,
        by_row: Entries,
        by_column: Entries,
        shape,
        row_labels=None,
        column_labels=None,
        times=None,
    ):
        self.by_row, self.by_column = by_row, by_column
        self.shape = (int(shape[0]), int(shape[1]))
        self.row_labels, self.column_labels, self.times = row_labels, column_labels, times

    # --- making one ---

    @classmethod
    def of(cls, X: Any) -> Observed:
        """From an Observed, a sparse matrix, a DataFrame, or an array with NaN or a mask for what is not known.

        Of a sparse matrix the stored entries are known, zeros too; but for BSR, whose blocks are filled up with zeros. A
        DataFrame with columns called user, item and rating (frames.py) holds one entry per line, any other is the matrix.
        """
        if isinstance(X, Observed):
            return X
        from lemmata.completion.data.frames import entries_of

        return entries_of(cls, X)

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
        times=None,
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
        times : array, optional
            When each entry was made, for `split(by="time")`: numbers or dates. Of an entry given twice, the last one.
        """
        labels = row_labels, column_labels
        return cls(*sort_triplets(rows, columns, values, shape, duplicates, labels, times))

    @classmethod
    def from_labels(
        cls, rows, columns, values, *, duplicates: str = "error", times=None
    ) -> Observed:
        """From names of any type (user ids, titles) and values; rows and columns are ordered by their names."""
        row_names, i = encode_labels(rows, "row")
        column_names, j = encode_labels(columns, "column")
        return cls._of(Triplets(i, j, values, row_names, column_names), duplicates, times)

    @classmethod
    def _of(cls, found: Triplets, duplicates: str, times=None) -> Observed:
        labels = {"row_labels": found.user_names, "column_labels": found.item_names}
        return cls.from_triplets(
            found.users,
            found.items,
            found.values,
            (len(found.user_names), len(found.item_names)),
            duplicates=duplicates,
            **labels,
            times=times,
        )

    @classmethod
    def from_frame(
        cls, frame: Any, user=None, item=None, rating=None, time=None, *, duplicates: str = "error"
    ) -> Observed:
        """From a DataFrame (or a dict of columns) with one entry per row.

        Parameters
        ----------
        frame : DataFrame of pandas, polars, duckdb or pyarrow (the Arrow stream interface), or a dict of arrays
        user, item, rating : str, int or None
            Columns by name or position. None: the column with a usual name (userId, movie_id, item, score, …), or, where no
            column has one, the first, second and third.
        time : str, optional
            The column that says when, for `split(by="time")`: numbers or dates. None: the one called timestamp, time, date or
            the like, if there is one.
        duplicates : {"error", "last", "mean"}
            What to do with an entry given twice.

        Ratings that float32 holds exactly (whole and half stars) become float32.
        """
        columns = frame_columns(frame) or frame
        found = triplets_of_frame(columns, user, item, rating)
        return cls._of(found, duplicates, find_times(columns, time))

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
        from lemmata.completion.data.reading import triplets_of_file

        found = triplets_of_file(path, user, item, rating, sep, header, dtype)
        return cls._of(found, duplicates)

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
    def weights(self) -> Array | None:
        return self.by_row.weights

    @property
    def row_masses(self) -> Array:
        """Σ of the weights of every row; without weights the number of its entries."""
        return self.by_row.masses

    @property
    def column_masses(self) -> Array:
        return self.by_column.masses

    @property
    def mass(self) -> float:
        """Σ of all weights; without weights the number of entries."""
        return self.n_observed if self.weights is None else float(self.row_masses.sum())

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
        """Number of values to look at."""
        return self.n_observed

    @property
    def local(self) -> Observed:
        """The entries as plain ones of this process: themselves, unless they are spread over a cluster (cluster.py)."""
        return self

    @property
    def T(self) -> Observed:
        """The transposed matrix; nothing is copied but times."""
        times = self.times
        if times is not None:
            times = transpose(self.by_row._replace(values=times), self.shape).values
        labels = self.column_labels, self.row_labels
        return Observed(self.by_column, self.by_row, self.shape[::-1], *labels, times)

    @property
    def nbytes(self) -> int:
        return sum(part.nbytes for order in (self.by_row, self.by_column) for part in order)

    def __repr__(self) -> str:
        n, m = self.shape
        return f"Observed({n:,} × {m:,}, {self.n_observed:,} entries, {self.density:.2%}, {self.dtype})"

    def fingerprint(self) -> str:
        more = [] if self.weights is None else [self.weights]
        return digest([list(self.shape), *self.by_row, *more])

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
        by_column = self.by_column._replace(values=transpose(by_row, self.shape).values)
        labels = self.row_labels, self.column_labels
        return Observed(by_row, by_column, self.shape, *labels, self.times)

    def weighted(self, weights: Any) -> Observed:
        """The same entries, each of which counts so many times: 2 is an entry given twice, 0 one that is not known.

        weights : an array in the order of `by_row`, a sparse or dense matrix of this shape, or None for none
            Of a matrix only the places of known entries are read; a sparse one is 0 where nothing is stored.
        """
        plain = Entries(*self.by_row), Entries(*self.by_column)
        labels = self.row_labels, self.column_labels
        bare = Observed(*plain, self.shape, *labels, self.times)
        if weights is None:
            return bare
        w = checked_weights(weights, self)
        kept = bare if w.all() else bare.select(w > 0)
        orders = weighted_orders(kept.by_row, kept.by_column, w[w > 0])
        return Observed(*orders, self.shape, *labels, kept.times)

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
        check_positions((rows, columns), self.shape)
        out = np.full(rows.shape, np.nan, self.dtype)
        if not out.size or not self.n_observed:
            return out
        indptr, indices, values = self.by_row
        low = search_parts(indices, indptr[rows], indptr[rows + 1], columns, "left")
        place = np.minimum(low, self.n_observed - 1)
        found = (low < indptr[rows + 1]) & (indices[place] == columns)
        return np.where(found, values[place], out)

    def aligned(self, like: Observed, *, rows: bool = True) -> Observed:
        """The same entries at the columns (and rows) where `like` has their labels; itself where either has no labels.

        ValueError names a label that `like` does not have.
        """
        from lemmata.completion.data.selection import align

        return align(self, like, rows)

    def placed_in(self, like: Observed) -> Observed:
        """The same entries at the places of `like`, in a larger matrix where they need one: what it lacks comes at its end."""
        from lemmata.completion.data.selection import place_in

        return place_in(self, like)

    def select(self, keep: Array) -> Observed:
        """The entries where the mask, in the order of `by_row`, is true; the shape stays."""
        rows = self.rows[keep]
        by_row = Entries(pointers(rows, self.shape[0]), self.columns[keep], self.values[keep])
        labels = self.row_labels, self.column_labels
        times = None if self.times is None else self.times[keep]
        chosen = Observed(by_row, transpose(by_row, self.shape), self.shape, *labels, times)
        return chosen if self.weights is None else chosen.weighted(self.weights[keep])

    def split(
        self, test: float = 0.1, *, by: str = "entry", k: int = 1, seed: int | None = None
    ) -> tuple[Observed, Observed]:
        """Training and test entries of the same shape.

        Parameters
        ----------
        test : float
            The share that is held out, of the entries (of the users by "user"; "leave-k-out" goes by k).
        by : {"entry", "time", "user", "leave-k-out"}
            Random entries; the latest entries; users with all of theirs; k random entries of every user with more than k.
            By time and by user, some users of the test have no training entries: predictions for them are offsets alone.
        k : int
            Of "leave-k-out".
        seed : int, optional
            Of whatever is random.
        """
        from lemmata.completion.data.selection import held_out

        held = held_out(self, test, by, k, seed)
        return self.select(~held), self.select(held)

    # --- on the disk ---

    version = 1

    def to_fields(self) -> dict[str, Any]:
        """Return what a model's file keeps: one order (the other is made from it), the shape, the labels."""
        names = {"row_labels": self.row_labels, "column_labels": self.column_labels}
        more = {} if self.weights is None else {"weights": self.weights}
        return {**self.by_row._asdict(), "shape": self.shape, **names, **more}

    @classmethod
    def from_fields(cls, content: dict[str, Any]) -> Observed:
        by_row = Entries(*(content[name] for name in Entries._fields))
        n, m = checked_shape(content["shape"])
        labels = content["row_labels"], content["column_labels"]
        check_room(8.0 * (n + m), f"a matrix of {n:,} × {m:,}")
        check_entries(by_row, n, m)
        for names, size in zip(labels, (n, m), strict=True):
            if names is not None and (not isinstance(names, Labels) or len(names) != size):
                raise ValueError(f"there should be {size} labels.")
        made = cls(by_row, transpose(by_row, (n, m)), (n, m), *labels)
        return made.weighted(content["weights"]) if "weights" in content else made

    def save(self, folder: Any) -> None:
        """Write the arrays as .npy files; `open` maps them into memory without copying them."""
        from lemmata.completion.data.entries import save_entries

        if self.weights is not None:
            raise ValueError(
                "a folder holds no weights; save weighted(None), and the weights as an array of their own."
            )
        save_entries(self, folder)

    @classmethod
    def open(cls, folder: Any, *, check: bool = True) -> Observed:
        """The entries in a folder written by `save`, mapped: they are not copied into memory.

        check : whether to look at every entry first (20 million: 0.3 s). Without it a page is read when it is first used;
            only for folders that nobody else could have written to.
        """
        from lemmata.completion.data.entries import open_entries

        return cls(*open_entries(folder, check))
