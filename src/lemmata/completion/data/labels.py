"""Names of rows and columns: user ids, titles, anything; how they become positions, and which columns of a table hold them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import numpy as np

from lemmata.core.store import storable

Array = np.ndarray
LABELS_AT_ONCE = 2**20  # labels looked at together, so that temporaries stay small
INTS_AT_ONCE = 2**16
COMPARED = 20_000  # names that a mistyped one is compared with
PADDED = 2**26  # bytes of an array of texts of one width; larger ones go to files as separate texts


ROLES = ("user", "item", "rating")
# What columns are called: words that leave no doubt, and words that will do where there is none of the former.
WORDS: dict[str, tuple[str, str]] = {
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


@storable
class Labels:
    """Names of the rows (or columns), and where each is."""

    version = 1

    def __init__(self, names: Any):
        self.names = np.asarray(names)
        self._positions: dict[Any, int] | None = None

    def __len__(self) -> int:
        return len(self.names)

    def to_fields(self) -> dict[str, Any]:
        names = self.plain()
        # every name takes the room of the longest
        padded = names.dtype.kind == "U" and names.nbytes > PADDED
        return {"names": names.astype(object) if padded else names}

    def plain(self) -> Array:
        """The names as numbers or text, which is what files hold; dates and mixtures become text."""
        if self.names.dtype.kind in "biufU":
            return self.names
        dates = self.names.dtype.kind in "mM"
        return np.array(self.names.astype(str) if dates else [str(n) for n in self.names], np.str_)

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
            missing = np.atleast_1d(np.asarray(wanted)).tolist()[int(np.argmax(found < 0))]
            raise ValueError(
                f"the {what} {str(missing)[:80]} is not in the data; {self.hint(missing)}"
            )
        return found

    def hint(self, missing: Any) -> str:
        """Return a hint for a label that is not there: the same name of another type, the nearest name, or some names."""
        if not len(self):
            return "it has none."
        for kind in (str, int, float):
            try:
                other = kind(missing)
            except (TypeError, ValueError, OverflowError):
                continue
            if self.find([other])[0] >= 0:
                return f"its labels are {type(self.names.tolist()[0]).__name__}: pass {other!r}."
        names = [str(name) for name in self.names[:COMPARED].tolist()]
        near = get_close_matches(str(missing)[:80], names, n=1) if isinstance(missing, str) else []
        if near:
            return f"did you mean {near[0]!r}?"
        return f"it has {len(self):,}, such as {', '.join(names[:3])}."

    def with_more(self, names: Array) -> Labels:
        """These labels and some more."""
        if not len(names):
            return self
        if names.dtype.kind == self.names.dtype.kind:
            return Labels(np.concatenate([self.names, names]))
        return Labels(np.array([*self.names.tolist(), *names.tolist()], dtype=object))

    def find(self, wanted: Any) -> Array:
        """Positions of labels, −1 for those that are not known."""
        if self._positions is None:
            self._positions = {name: i for i, name in enumerate(self.names.tolist())}
        wanted = np.atleast_1d(np.asarray(wanted))
        return np.array([self._positions.get(name, -1) for name in wanted.tolist()], dtype=np.int64)


def encode_labels(labels: Any, what: str = "label") -> tuple[Array, Array]:
    """Return the different labels, ascending where they can be compared, and the position of each label among them."""
    labels = np.asarray(labels)
    if labels.ndim != 1:
        raise ValueError(f"the {what} labels have shape {labels.shape}; pass one label per entry.")
    if labels.dtype.kind == "S":
        labels = np.char.decode(labels, "utf-8")
    kind = labels.dtype.kind
    if kind in "iu" and len(labels) and not is_scattered(labels):
        return _encode_ints(labels, int(labels.min()), int(labels.max()))
    missing = (
        np.isnan(labels) if kind == "f" else np.isnat(labels) if kind in "mM" else np.zeros(0, bool)
    )
    if missing.any():
        raise ValueError(f"the {what} label of entry {int(np.argmax(missing))} is missing.")
    if kind in "OU":
        return _encode_objects(labels, what)
    names, positions = np.unique(labels, return_inverse=True)
    return names, positions.astype(np.int32)


def is_scattered(labels: Array) -> bool:
    """Whether ints lie so far apart that sorting them beats a table of what occurs; ids seldom do."""
    low, high = (int(labels.min()), int(labels.max())) if len(labels) else (0, 0)
    return high - low > 4 * len(labels) + 2**16


def _encode_ints(labels: Array, low: int, high: int) -> tuple[Array, Array]:
    """Encode ints by a table of what occurs, some at once that stay in the cache."""
    table = np.zeros(high - low + 1, np.int32)
    for start in range(0, len(labels), INTS_AT_ONCE):
        table[_above(labels[start : start + INTS_AT_ONCE], low)] = 1
    names = np.flatnonzero(table).astype(np.uint64 if low > 0 else np.int64)
    names = (names + names.dtype.type(low)).astype(labels.dtype)
    table = np.cumsum(table, dtype=np.int32) - 1
    positions = np.empty(len(labels), np.int32)
    for start in range(0, len(labels), INTS_AT_ONCE):
        here = slice(start, start + INTS_AT_ONCE)
        table.take(_above(labels[here], low), out=positions[here], mode="clip")
    return names, positions


def _above(labels: Array, low: int) -> Array:
    """labels − low, which fits into an int64 even where the labels do not, or not the difference into their type."""
    above = labels.astype(np.uint64 if labels.dtype == np.uint64 else np.int64)
    above -= above.dtype.type(low)
    return above.view(np.int64)


def _encode_objects(labels: Array, what: str) -> tuple[Array, Array]:
    """Encode text and objects: a dict, which sees each name once, then sorted if the names compare."""
    seen: dict[Any, int] = {}
    positions = np.empty(len(labels), np.int32)
    for start in range(0, len(labels), LABELS_AT_ONCE):
        part = labels[start : start + LABELS_AT_ONCE].tolist()
        positions[start : start + len(part)] = [seen.setdefault(name, len(seen)) for name in part]
    names = list(seen)
    for name in names:
        if name is None or type(name).__name__ in ("NAType", "NaTType") or name != name:
            raise ValueError(
                f"the {what} label of entry {int(np.argmax(positions == seen[name]))} is missing."
            )
    try:
        order = sorted(range(len(names)), key=names.__getitem__)
    except TypeError:  # numbers and text, say: in the order of their first occurrence
        order = list(range(len(names)))
    place = np.empty(len(names), np.int32)
    place[order] = np.arange(len(names))
    kinds = {type(name) for name in names}
    ordered = [names[k] for k in order]
    if kinds <= {int} or kinds <= {str} or kinds <= {float}:
        return np.array(ordered, dtype=None if kinds else labels.dtype), place[positions]
    out = np.empty(len(ordered), dtype=object)
    out[:] = ordered
    return out, place[positions]


# --- columns of tables -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Triplets:
    """Entries as positions and values, with what the positions are called."""

    users: Array
    items: Array
    values: Array
    user_names: Array
    item_names: Array


def choose_columns(
    names: Sequence[str] | None, width: int, given: Sequence[Any]
) -> tuple[int, int, int]:
    """The positions of user, item and rating among `width` columns: `given` by name or position, or found by usual names."""
    from lemmata.data.tables import UnreadableData, position_of

    if width < 3:
        raise UnreadableData(
            f"there are {width} columns; an entry has three: user, item and rating."
        )
    asked = zip(ROLES, given, strict=True)
    found = {role: position_of(str(name), names, width) for role, name in asked if name is not None}
    plain = [simplify(name) for name in names or ()]
    for role in ROLES:
        usual = [plain.index(word) for word in " ".join(WORDS[role]).split() if word in plain]
        free = [i for i in usual if i not in found.values()]
        if free:
            found.setdefault(role, free[0])
    if not found:
        return 0, 1, 2
    missing = [role for role in ROLES if role not in found]
    left = [i for i in range(width) if i not in found.values()]
    if len(left) == len(missing) or (names is None and len(left) > len(missing)):
        found.update(zip(missing, left, strict=False))
    elif missing:
        raise UnreadableData(
            f"which column is the {missing[0]}? There are {', '.join((names or ())[:8])}{', …' if width > 8 else ''}; "
            f"pass {missing[0]}='…' (--{missing[0]})."
        )
    if len({found[role] for role in ROLES}) < 3:
        raise UnreadableData("user, item and rating are three different columns.")
    return found["user"], found["item"], found["rating"]


def simplify(name: Any) -> str:
    """Return a name in small letters and digits only, so that userId, user_id and "User ID" are the same."""
    return re.sub(r"[\W_]", "", str(name).lower())
