"""Entries of one matrix at the places of another: rows and columns are matched by their labels."""

from __future__ import annotations

from typing import Any

import numpy as np

from lemmata.completion.observed import Observed


def align(A: Observed, like: Observed, rows: bool) -> Observed:
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
    return _moved(A, places, names, tuple(shape.values()))


def place_in(A: Observed, like: Observed) -> Observed:
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
            names[what] = theirs.extended(mine.names[new])
        elif theirs is not None and shape[what] > len(theirs):
            raise ValueError(
                f"these entries have {A.shape[axis]:,} {what}s without labels, but the model has "
                f"{len(theirs):,} with labels; pass labelled entries."
            )
    return _moved(A, places, names, (shape["row"], shape["column"]))


def _moved(A: Observed, places: dict[str, Any], names: dict[str, Any], shape: Any) -> Observed:
    rows = A.rows if places["row"] is None else places["row"]
    labels: dict[str, Any] = {
        f"{what}_labels": None if known is None else known.names for what, known in names.items()
    }
    at = rows, places["column"]
    moved = Observed.from_triplets(*at, A.values, shape, **labels, times=A.times)
    if A.weights is None:
        return moved
    return moved.weighted(Observed.from_triplets(*at, A.weights, shape).values)
