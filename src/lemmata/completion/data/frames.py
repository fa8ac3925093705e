"""Tables of ratings in memory: which frames hold one rating per line, and which of their columns say what.

    user, item, rating[, time]         a line is an entry            (a long frame)
    users × items, NaN = unknown       a line is a row of the matrix (a wide frame)

Frames are those of pandas, and whatever has the Arrow stream interface (polars, duckdb, pyarrow). One is long if its columns
are called so; WORDS lists what counts, compared in small letters and digits only, so that userId, user_id and "User ID" are
the same. Nothing is guessed: two columns that could both be the item are an error.

    >>> columns_of_entries(["userId", "movieId", "rating", "timestamp"])
    {'user': 0, 'item': 1, 'rating': 2, 'time': 3}
    >>> columns_of_entries(["Alien", "Brazil"]) is None
    True
    >>> found = triplets_of_frame({"user": [7, 7, 9], "film": ["a", "b", "b"], "stars": [4.5, 3, 5]}, None, None, None)
    >>> found.users, found.items, found.item_names
    (array([0, 0, 1], dtype=int32), array([0, 1, 1], dtype=int32), array(['a', 'b'], dtype='<U1'))
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from lemmata.completion.data import labels as naming
from lemmata.core.blocks import is_dask, unmask
from lemmata.core.validation import refuse_malformed, refuse_shrunk_file

Array = np.ndarray

SHOWN = 12  # columns named in a message


# --- frames and their columns -----------------------------------------------------------------------------------------


def as_table(X: Any) -> Any:
    """Return a pyarrow Table of what has the Arrow stream interface; anything else, and pandas' frames, as they are."""
    if not hasattr(X, "__arrow_c_stream__") or hasattr(X, "iloc") or hasattr(X, "column_names"):
        return X
    import pyarrow as pa

    return pa.table(X)


def frame_columns(X: Any) -> dict[str, Any] | None:
    """The columns of a frame by name; None for what is no frame."""
    X = as_table(X)
    if hasattr(X, "column_names") and hasattr(X, "__getitem__"):  # pyarrow's Table
        return {str(name): X[name] for name in X.column_names}
    if not hasattr(X, "columns") or not hasattr(X, "__getitem__") or isinstance(X, Mapping):
        return None
    keys = list(X.columns)
    if not all(isinstance(key, str) for key in keys) or len(set(keys)) < len(keys):
        return {}  # wide: positions or tuples are no names of roles
    return {key: X[key] for key in keys}


def long_frame(X: Any, *, rated: bool = True) -> dict[str, Array] | None:
    """The columns user, item, rating (and time, where there is one) of a long frame; None for anything else.

    rated : whether a rating is needed; where predictions are asked for, it is not
    """
    columns = frame_columns(X)
    if not columns:
        return None
    found = columns_of_entries(list(columns), rated=rated)
    if found is None:
        return None
    parts = list(columns.values())
    return {role: _plain(parts[place]) for role, place in found.items()}


def columns_of_entries(names: Sequence[str], *, rated: bool = True) -> dict[str, int] | None:
    """The position of each role among columns so called; None if they are not those of entries. ValueError if in doubt."""
    plain = [naming.simplify(name) for name in names]
    clear, likely = (
        {role: [i for i, n in enumerate(plain) if n in words[kind].split()] for role, words in naming.WORDS.items()}
        for kind in (0, 1)
    )  # fmt: skip
    if not clear["user"] and not clear["item"]:
        return None
    found: dict[str, int] = {}
    for role in naming.WORDS:
        several = clear[role] or likely[role]
        if len(several) > 1 and role != "time":
            raise ValueError(
                f"the columns {' and '.join(repr(names[i]) for i in several[:3])} could each be the {role}; drop or rename all "
                f"but one, or say which: Observed.from_frame(frame, {role}={names[several[0]]!r})."
            )
        if several:
            found[role] = several[0]
    missing = [role for role in naming.ROLES if role not in found and (rated or role != "rating")]
    if not missing:
        return found
    if len(missing) > 1:  # one word alone is no sign of ratings
        return None
    role = missing[0]
    raise ValueError(
        f"the frame looks like one rating per line, but which column is the {role}? There are {_list(names)}; call it "
        f"{', '.join(' '.join(naming.WORDS[role]).split()[:8])}, …, or say which: Observed.from_frame(frame, {role}='…'). "
        + ("Where nothing was rated, frame.assign(rating=1) counts what happened. " if role == "rating" else "")
        + "For a matrix, pass frame.to_numpy()."
    )  # fmt: skip


def _list(names: Sequence[Any]) -> str:
    return ", ".join(str(name)[:40] for name in names[:SHOWN]) + ", …" * (len(names) > SHOWN)


# --- entries ----------------------------------------------------------------------------------------------------------


def triplets_of_frame(frame: Any, user: Any, item: Any, rating: Any) -> naming.Triplets:
    """Read a frame, or a dict of columns, with one entry per row."""
    if not isinstance(frame, Mapping) and not hasattr(frame, "columns"):
        raise TypeError(
            f"a {type(frame).__name__} has no columns; pass a DataFrame, or use Observed.of for a matrix."
        )
    keys = list(frame) if isinstance(frame, Mapping) else list(frame.columns)
    names = [str(key) for key in keys]
    places = naming.choose_columns(names, len(names), (user, item, rating))
    columns = [frame[keys[i]] for i in places]
    (users, i), (items, j) = (
        encode_column(column, role) for column, role in zip(columns[:2], naming.ROLES, strict=False)
    )
    return naming.Triplets(i, j, _narrow(ratings_of(np.asarray(columns[2]))), users, items)


def encode_column(column: Any, role: str) -> tuple[Array, Array]:
    """Return the different labels of a column and the position of each among them; text of Arrow is encoded by Arrow."""
    if not hasattr(column, "combine_chunks"):
        return naming.encode_labels(np.asarray(column), role)
    import pyarrow as pa

    if column.null_count:
        raise ValueError(f"{column.null_count:,} rows have no {role}.")
    chunks = [encode_text(chunk) for chunk in column.chunks]
    if not chunks or not pa.types.is_dictionary(chunks[0].type):
        return naming.encode_labels(column.to_numpy(), role)
    whole = pa.chunked_array(chunks).unify_dictionaries()
    codes = np.concatenate([np.asarray(chunk.indices) for chunk in whole.chunks])
    used, codes = naming.encode_labels(codes, role)  # a dictionary may hold names that do not occur
    names, place = naming.encode_labels(np.asarray(whole.chunk(0).dictionary)[used], role)
    return names, place[codes]


def encode_text(chunk: Any) -> Any:
    """Return an Arrow array with text replaced by numbers of a dictionary, which takes 4 bytes per row."""
    from pyarrow import types

    text = (types.is_string, types.is_large_string, types.is_string_view)
    return chunk.dictionary_encode() if any(kind(chunk.type) for kind in text) else chunk


def ratings_of(values: Array) -> Array:
    """A column of ratings as finite numbers; the row of the first that is none is named, counted from 0."""
    if values.dtype.kind not in "biuf":
        numbers = np.full(len(values), np.nan)
        for row, value in enumerate(values.tolist()):
            try:
                numbers[row] = float(value)
            except (TypeError, ValueError):
                raise ValueError(
                    f"row {row}: the rating {str(value)[:40]!r} is not a number."
                ) from None
        values = numbers
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        row = int(np.argmin(np.isfinite(values)))
        raise ValueError(f"row {row}: the rating is {values[row]}; drop rows without a rating.")
    return values


def _narrow(values: Array) -> Array:
    """Return the ratings as float32 where that loses nothing: half the memory, and most are whole or half stars."""
    if values.dtype == np.float32:
        return values
    small = values.astype(np.float32)
    return small if (small == values).all() else values.astype(np.float64)


# --- matrices ---------------------------------------------------------------------------------------------------------


def stored_entries(X: Any) -> sp.coo_array:
    """Stored entries of a sparse matrix, once its parts fit together. Zeros in the blocks of BSR only fill them up."""
    refuse_malformed(X)
    entries = sp.coo_array(X)
    if X.format == "bsr":
        entries.eliminate_zeros()
    return entries


def as_numbers(array: Array) -> Array:
    try:
        return array.astype(np.float64)
    except (TypeError, ValueError):
        raise ValueError(
            f"the matrix holds {array.dtype}, not numbers; unknown entries are NaN, known ones numbers. Ratings, one per line, "
            "need columns called user, item and rating."
        ) from None


def entries_of(cls: Any, X: Any) -> Any:
    """Make an Observed (`cls`) of ratings of lemmata.data, a sparse matrix, a frame, or an array with NaN."""
    if hasattr(X, "user_ids") and hasattr(X, "rating"):  # lemmata.data.Ratings
        labels = {"row_labels": X.user_ids, "column_labels": X.item_ids}
        times = getattr(X, "timestamp", None)
        return cls.from_triplets(X.user, X.item, X.rating, X.shape, **labels, times=times)
    if sp.issparse(X):
        X = stored_entries(X)
        return cls.from_triplets(X.row, X.col, X.data, X.shape)
    X = as_table(X)
    frame = frame_columns(X)
    roles = columns_of_entries(list(frame)) if frame else None
    if frame and roles is not None:
        return cls.from_frame(X, *(list(frame)[roles[role]] for role in naming.ROLES))
    if is_dask(X):
        raise TypeError("a dask array is not taken as a whole here; pass X.compute(), or triplets.")
    labels = {}
    if hasattr(X, "columns") and hasattr(X, "index"):
        labels = {"row_labels": np.asarray(X.index), "column_labels": np.asarray(X.columns)}
    refuse_shrunk_file(X)
    array = np.asarray(without_na(unmask(X)))
    if array.dtype.kind not in "biuf":
        array = as_numbers(array)
    if array.ndim != 2:
        raise ValueError(
            f"the array has shape {array.shape}; a matrix has two dimensions, with NaN for what is unknown."
        )
    array = array if array.dtype in (np.float32, np.float64) else array.astype(np.float64)
    rows, columns = np.nonzero(~np.isnan(array))
    return cls.from_triplets(rows, columns, array[rows, columns], array.shape, **labels)


# --- times ------------------------------------------------------------------------------------------------------------


def find_times(columns: Any, name: Any = None) -> Array | None:
    """The times of a frame's entries: of the column named, or of the one with a usual name that holds times."""
    if name is not None:
        if name not in list(columns):
            raise ValueError(f"there is no column {name!r}; there are {_list(list(columns))}.")
        times = times_of(columns[name])
        if times is None:
            raise ValueError(
                f"the column {name!r} holds no times: pass numbers or dates, none missing."
            )
        return times
    if not isinstance(columns, Mapping):
        return None
    for words in naming.WORDS["time"]:
        for key in columns:
            if naming.simplify(key) in words.split():
                return times_of(columns[key])
    return None


def times_of(column: Any) -> Array | None:
    """Times as numbers that can be compared: Unix times as they are, dates in nanoseconds; None if they are neither."""
    values = _plain(column)
    if values.dtype.kind in "OU":
        try:
            values = values.astype("datetime64[ns]")
        except (TypeError, ValueError):
            return None
    if values.dtype.kind == "M":
        if np.isnat(values).any():
            return None
        return values.astype("datetime64[ns]").astype(np.int64)
    if values.dtype.kind not in "iuf" or not np.isfinite(values).all():
        return None
    return values


def _plain(column: Any) -> Array:
    """A column as an array; text stored compactly (pandas' categories, arrow's strings) as Python's."""
    array = np.asarray(column)
    return array.astype(object) if array.dtype.kind not in "biufUSMmO" else array


# --- values that are missing ------------------------------------------------------------------------------------------


def without_na(X: Any) -> Any:
    """The same wide frame or array with pandas.NA and None, which are unknown entries, as NaN among floats.

    Frames stay frames, so that their columns keep their names. What holds text is left for the checks that name it.
    """
    if hasattr(X, "notna") and hasattr(X, "dtypes"):
        kinds = np.atleast_1d(X.dtypes)
        if all(isinstance(kind, np.dtype) and kind.kind in "biuf" for kind in kinds):
            return X
        try:
            return X.astype(object).where(X.notna(), np.nan).astype(np.float64)
        except (TypeError, ValueError):
            return X
    if not isinstance(X, np.ndarray) or X.dtype != object:
        return X
    flat = [np.nan if _is_na(value) else value for value in X.ravel().tolist()]
    try:
        return np.array(flat, dtype=np.float64).reshape(X.shape)
    except (TypeError, ValueError):
        return X


def _is_na(value: Any) -> bool:
    return value is None or type(value).__name__ in ("NAType", "NaTType")
