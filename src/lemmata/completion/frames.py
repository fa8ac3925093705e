"""Tables of ratings in memory: which DataFrames hold one rating per line, and which of their columns say what.

    user, item, rating[, time]         a line is an entry            (a long frame)
    users × items, NaN = unknown       a line is a row of the matrix (a wide frame)

A frame is long if its columns are called so; ROLES lists what counts, compared in small letters and digits only, so that
userId, user_id and "User ID" are the same. Nothing is guessed: two columns that could both be the item are an error.

    >>> columns_of_entries(["userId", "movieId", "rating", "timestamp"])
    {'user': 0, 'item': 1, 'rating': 2, 'time': 3}
    >>> columns_of_entries(["Alien", "Brazil"]) is None
    True
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

Array = np.ndarray

# What columns are called: words that leave no doubt, and words that will do where there is none of the former.
ROLES: dict[str, tuple[str, str]] = {
    "user": (
        "user userid uid customer customerid reviewer reviewerid member memberid rater raterid",
        "username row",
    ),
    "item": (
        "item itemid iid movie movieid film filmid product productid asin parentasin book bookid isbn song songid track "
        "trackid artist artistid joke jokeid",
        "title name column",
    ),
    "rating": (
        "rating ratings score scores stars",
        "value star overall count counts plays playcount weight",
    ),
    "time": ("timestamp time date datetime", "ts when unixtime unixreviewtime reviewtime ratedat"),
}
NEEDED = ("user", "item", "rating")
SHOWN = 12  # columns named in a message


def frame_columns(X: Any) -> dict[str, Any] | None:
    """The columns of a DataFrame (pandas, polars, pyarrow) by name; None for what is no DataFrame."""
    if hasattr(X, "column_names") and hasattr(X, "__getitem__"):  # pyarrow's Table
        return {str(name): X[name] for name in X.column_names}
    if not hasattr(X, "columns") or not hasattr(X, "__getitem__") or isinstance(X, Mapping):
        return None
    keys = list(X.columns)
    if not all(isinstance(key, str) for key in keys) or len(set(keys)) < len(keys):
        return {}  # wide: positions or tuples are no names of roles
    return {key: X[key] for key in keys}


def is_frame(X: Any) -> bool:
    """Whether X is a DataFrame, long or wide."""
    return frame_columns(X) is not None


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
    plain = [re.sub(r"[\W_]", "", name.lower()) for name in names]
    clear, likely = (
        {role: [i for i, n in enumerate(plain) if n in words[kind].split()] for role, words in ROLES.items()}
        for kind in (0, 1)
    )  # fmt: skip
    if not clear["user"] and not clear["item"]:
        return None
    found: dict[str, int] = {}
    for role in ROLES:
        several = clear[role] or likely[role]
        if len(several) > 1 and role != "time":
            raise ValueError(
                f"the columns {' and '.join(repr(names[i]) for i in several[:3])} could each be the {role}; drop or rename all "
                f"but one, or say which: Observed.from_frame(frame, {role}={names[several[0]]!r})."
            )
        if several:
            found[role] = several[0]
    missing = [role for role in NEEDED if role not in found and (rated or role != "rating")]
    if not missing:
        return found
    if len(missing) > 1:  # one word alone is no sign of ratings
        return None
    role = missing[0]
    raise ValueError(
        f"the frame looks like one rating per line, but which column is the {role}? There are {_shown(names)}; call it "
        f"{', '.join(' '.join(ROLES[role]).split()[:8])}, …, or say which: Observed.from_frame(frame, {role}='…'). "
        + ("Where nothing was rated, frame.assign(rating=1) counts what happened. " if role == "rating" else "")
        + "For a matrix, pass frame.to_numpy()."
    )  # fmt: skip


def _shown(names: Sequence[Any]) -> str:
    return ", ".join(str(name)[:40] for name in names[:SHOWN]) + (
        ", …" if len(names) > SHOWN else ""
    )


def find_times(columns: Any, name: Any = None) -> Array | None:
    """The times of a frame's entries: of the column named, or of the one with a usual name that holds times."""
    if name is not None:
        if name not in list(columns):
            raise ValueError(f"there is no column {name!r}; there are {_shown(list(columns))}.")
        times = times_of(columns[name])
        if times is None:
            raise ValueError(
                f"the column {name!r} holds no times: pass numbers or dates, none missing."
            )
        return times
    if not isinstance(columns, Mapping):
        return None
    for words in ROLES["time"]:
        for key in columns:
            if re.sub(r"[\W_]", "", str(key).lower()) in words.split():
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
        kinds = [getattr(kind, "kind", "O") for kind in np.atleast_1d(X.dtypes)]
        plain = all(isinstance(kind, np.dtype) for kind in np.atleast_1d(X.dtypes))
        if plain and all(kind in "biuf" for kind in kinds):
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
