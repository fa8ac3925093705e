"""Entries held out, and entries at the places of another matrix.

| by            | held out                                       | asks                                            |
|---------------|------------------------------------------------|-------------------------------------------------|
| "entry"       | a random share of the entries                  | how well are entries like the known predicted?  |
| "time"        | the latest share of the entries                | how well is the future predicted?               |
| "leave-k-out" | k random entries of every user with more       | does every user, whatever their number, count?  |
| "user"        | a random share of the users with all of theirs | how well are new users served (by `fold_in`)?   |
"""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np

Array = np.ndarray
BY = ("entry", "time", "user", "leave-k-out")


def held_out(A: Any, test: float, by: str, k: int, seed: Any) -> Array:
    """The mask of the entries of A, in the order of `by_row`, that are held out."""
    if by not in BY:
        raise ValueError(f"by={by!r} is not accepted; split by {', '.join(map(repr, BY))}.")
    if isinstance(test, bool) or not 0 < test < 1:
        raise ValueError(f"test={test} is not a share; pass a number between 0 and 1.")
    rng = np.random.default_rng(seed)
    if by == "entry":
        held = np.zeros(A.n_observed, bool)
        held[rng.permutation(A.n_observed)[: round(test * A.n_observed)]] = True
        return held
    if by == "user":
        users = np.zeros(A.shape[0], bool)
        users[rng.permutation(A.shape[0])[: round(test * A.shape[0])]] = True
        return users[A.rows]
    return _latest(A, test) if by == "time" else _some_of_each(A, k, rng)


def _latest(A: Any, test: float) -> Array:
    """At most this share of the entries; those of one moment stay together, in training if they do not fit."""
    if A.times is None:
        raise ValueError(
            "the entries have no times; make them with Observed.from_frame(frame, time='…') or from_triplets(…, times=…)."
        )
    ordered = np.sort(A.times)
    cut = A.n_observed - round(test * A.n_observed)
    held = A.times > ordered[cut - 1] if 0 < cut < A.n_observed else np.zeros(A.n_observed, bool)
    if not held.any():
        raise ValueError(
            f"no {test:.0%} of the entries are later than the others (there are {len(np.unique(ordered)):,} different times); "
            "pass a larger share, or split by 'entry'."
        )
    return held


def _some_of_each(A: Any, k: int, rng: np.random.Generator) -> Array:
    """k entries of every row that has more."""
    if not isinstance(k, Integral) or isinstance(k, bool) or k < 1:
        raise ValueError(f"k={k!r} is not accepted; hold out an int >= 1 of entries per user.")
    order = np.lexsort((rng.random(A.n_observed), A.rows))  # rows stay in order, shuffled within
    place = np.arange(A.n_observed) - A.by_row.indptr[A.rows]
    held = np.zeros(A.n_observed, bool)
    held[order[(place < k) & (A.row_counts[A.rows] > k)]] = True
    return held


# --- at the places of another matrix ----------------------------------------------------------------------------------


def align(A: Any, like: Any, rows: bool) -> Any:
    """The entries of A at the columns (and rows) of `like`; ValueError names a label that it does not have."""
    sides = [("column", A.columns), ("row", A.rows if rows else None)]
    places, names, shape = {}, {}, {"row": A.shape[0], "column": A.shape[1]}
    for what, positions in sides:
        mine, theirs = getattr(A, f"{what}_labels"), getattr(like, f"{what}_labels")
        places[what], names[what] = positions, mine
        if positions is None or mine is None or theirs is None or mine is theirs:
            continue
        if not np.array_equal(mine.names, theirs.names):
            places[what] = theirs.positions(mine.names, what)[positions]
            names[what], shape[what] = theirs, len(theirs)
    if names["row"] is A.row_labels and names["column"] is A.column_labels:
        return A
    return _move(A, places, names, tuple(shape.values()))


def place_in(A: Any, like: Any) -> Any:
    """The entries of A at the places of `like`; rows and columns that it lacks come at its end."""
    places, names, shape = {}, {}, {}
    for axis, what in enumerate(("row", "column")):
        mine, theirs = getattr(A, f"{what}_labels"), getattr(like, f"{what}_labels")
        positions = A.columns if axis else A.rows
        places[what], names[what] = positions, theirs
        shape[what] = max(A.shape[axis], like.shape[axis])
        if mine is not None and theirs is not None:
            found = theirs.find(mine.names)
            new = found < 0
            found[new] = len(theirs) + np.arange(int(new.sum()))
            places[what], shape[what] = found[positions], len(theirs) + int(new.sum())
            names[what] = theirs.with_more(mine.names[new])
        elif theirs is not None and shape[what] > len(theirs):
            raise ValueError(
                f"these entries have {A.shape[axis]:,} {what}s without labels, but the model has "
                f"{len(theirs):,} with labels; pass labelled entries."
            )
    return _move(A, places, names, (shape["row"], shape["column"]))


def _move(A: Any, places: dict[str, Any], names: dict[str, Any], shape: Any) -> Any:
    rows = A.rows if places["row"] is None else places["row"]
    labels: dict[str, Any] = {
        f"{what}_labels": None if known is None else known.names for what, known in names.items()
    }
    at = rows, places["column"]
    moved = type(A).from_triplets(*at, A.values, shape, **labels, times=A.times)
    if A.weights is None:
        return moved
    return moved.weighted(type(A).from_triplets(*at, A.weights, shape).values)
