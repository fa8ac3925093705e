"""Entries as triplets: who, what, how much; which columns of a table they are, and those of tables in memory.

    >>> found = triplets_of_frame({"user": [7, 7, 9], "film": ["a", "b", "b"], "stars": [4.5, 3, 5]}, None, None, None)
    >>> found.users, found.items, found.item_names
    (array([0, 0, 1], dtype=int32), array([0, 1, 1], dtype=int32), array(['a', 'b'], dtype='<U1'))

Files are read in reading.py.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lemmata.completion.labels import numbered
from lemmata.completion.observed import Observed
from lemmata.data.tables import UnreadableData, position_of

Array = np.ndarray

ROLES = ("user", "item", "rating")
# What such columns are called, the likeliest first; compared in small letters and digits only.
USUAL = {
    "user": "user userid uid username customer customerid reviewer reviewerid member memberid row",
    "item": "item itemid iid movie movieid film filmid product productid asin parentasin book bookid isbn song songid track "
    "trackid artist artistid title name column",
    "rating": "rating ratings score value stars star overall count counts plays playcount weight",
}


@dataclass(frozen=True)
class Triplets:
    """Entries as positions and values, with what the positions are called."""

    users: Array
    items: Array
    values: Array
    user_names: Array
    item_names: Array

    def observed(self, duplicates: str) -> Observed:
        shape = (len(self.user_names), len(self.item_names))
        names = {"row_labels": self.user_names, "column_labels": self.item_names}
        return Observed.from_triplets(
            self.users, self.items, self.values, shape, duplicates=duplicates, **names
        )


def chosen(names: Sequence[str] | None, width: int, given: Sequence[Any]) -> list[int]:
    """The positions of the columns of user, item and rating among `width` columns; `given` by name, position or None."""
    if width < 3:
        raise UnreadableData(
            f"there are {width} columns; an entry has three: user, item and rating."
        )
    found = {
        role: position_of(str(column), names, width)
        for role, column in zip(ROLES, given, strict=True)
        if column is not None
    }
    plain = [re.sub(r"[\W_]", "", name.lower()) for name in names or ()]
    for role in ROLES:
        usual = [plain.index(name) for name in USUAL[role].split() if name in plain]
        free = [i for i in usual if i not in found.values()]
        if role not in found and free:
            found[role] = free[0]
    if not found:
        return [0, 1, 2]
    missing = [role for role in ROLES if role not in found]
    left = [i for i in range(width) if i not in found.values()]
    if (names is None and len(left) >= len(missing)) or len(left) == len(missing):
        found.update(zip(missing, left, strict=False))
    elif missing:
        raise UnreadableData(
            f"which column is the {missing[0]}? There are {', '.join((names or ())[:8])}{', …' if width > 8 else ''}; "
            f"pass {missing[0]}='…' (--{missing[0]})."
        )
    positions = [found[role] for role in ROLES]
    if len(set(positions)) < 3:
        raise UnreadableData("user, item and rating are three different columns.")
    return positions


def triplets_of_frame(frame: Any, user: Any, item: Any, rating: Any) -> Triplets:
    """From a DataFrame, or a dict of columns."""
    if not isinstance(frame, Mapping) and not hasattr(frame, "columns"):
        raise TypeError(
            f"a {type(frame).__name__} has no columns; pass a DataFrame, or use Observed.of for a matrix."
        )
    keys = list(frame) if isinstance(frame, Mapping) else list(frame.columns)
    names = [str(key) for key in keys]
    columns = [np.asarray(frame[keys[i]]) for i in chosen(names, len(names), (user, item, rating))]
    (users, i), (items, j) = numbered(columns[0], "user"), numbered(columns[1], "item")
    return Triplets(i, j, narrowed(ratings_of(columns[2])), users, items)


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


def narrowed(values: Array) -> Array:
    """As float32 where that loses nothing: half the memory, and most ratings are whole or half stars."""
    if values.dtype == np.float32:
        return values
    small = values.astype(np.float32)
    return small if (small == values).all() else values.astype(np.float64)
