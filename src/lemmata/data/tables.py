"""Shared by the readers of all file formats: the matrix they return, the choice of columns, and the error they raise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import numpy as np


class UnreadableData(ValueError):
    """A file cannot be read as a matrix; the message says where and why."""


@dataclass(frozen=True, eq=False)
class Matrix:
    """The content of a file: X of shape (rows, columns), an array, memmap or CSR; y if there is a target; column names or None.

    unused : the names of columns that are neither wanted, nor the target, nor dropped
    """

    X: Any
    y: np.ndarray | None = None
    names: tuple[str, ...] | None = None
    unused: tuple[str, ...] = ()


@dataclass(frozen=True)
class Choice:
    """Which columns of a file are wanted."""

    target: str | None = None
    drop: tuple[str, ...] = ()
    columns: tuple[str, ...] | None = None
    holes: bool = False  # cells may be empty: NaN

    def unused_columns(self, names: Sequence[str] | None) -> tuple[str, ...]:
        """The columns that are neither wanted nor left out explicitly."""
        if self.columns is None or names is None:
            return ()
        known = {*self.columns, *self.drop, self.target}
        target = None if self.target is None else position_of(self.target, names, len(names))
        return tuple(name for i, name in enumerate(names) if name not in known and i != target)

    def of(self, names: Sequence[str] | None, width: int) -> tuple[list[int], int | None]:
        """The positions of the features, in order, and of the target."""
        target = None if self.target is None else position_of(self.target, names, width)
        if self.columns is not None and names is not None:
            return [position_of(name, names, width) for name in self.columns], target
        left_out = {position_of(name, names, width) for name in self.drop} | {target}
        kept = [i for i in range(width) if i not in left_out]
        if not kept:
            raise UnreadableData(
                "no column is left once the target and the dropped ones are taken out."
            )
        return kept, target


def position_of(column: str, names: Sequence[str] | None, width: int) -> int:
    """The position of a column given by its name, or by its number: 0 is the first, -1 the last."""
    if names is not None and column in names:
        if list(names).count(column) > 1:
            raise UnreadableData(
                f"several columns are called {column!r}; rename them, or give the position (0 is the first)."
            )
        return list(names).index(column)
    try:
        return range(width)[int(column)]
    except (ValueError, IndexError):
        pass
    near = get_close_matches(column, names or (), n=1)
    if near:
        raise UnreadableData(f"there is no column {column!r}; did you mean {near[0]!r}?")
    known = f": {', '.join(names[:8])}{', …' if width > 8 else ''}" if names else ", counted from 0"
    raise UnreadableData(f"there is no column {column!r}; there are {width} columns{known}.")


def select(X: Any, names: Sequence[str] | None, choice: Choice, y=None) -> Matrix:
    """The wanted columns of a whole matrix; images are whole."""
    if X.ndim > 2:
        return Matrix(X, y)
    kept, target = choice.of(names, X.shape[1])
    if target is not None:
        y = np.asarray(X[:, [target]].todense() if hasattr(X, "todense") else X[:, target]).ravel()
    if kept != list(range(X.shape[1])):
        X = X[:, kept]
    return Matrix(
        X, y, None if names is None else tuple(names[i] for i in kept), choice.unused_columns(names)
    )


def numeric(X: np.ndarray, what: str, images: bool = False) -> np.ndarray:
    """A two-dimensional array of real numbers, or one of images, or a message."""
    if X.dtype.kind not in "biuf":
        raise UnreadableData(
            f"{what} holds {X.dtype}, not real numbers; save it as float32 or float64."
        )
    if X.ndim != 2 and not (images and X.ndim in (3, 4)):
        shape = " × ".join(map(str, X.shape)) or "a single number"
        raise UnreadableData(
            f"{what} has {X.ndim} axes ({shape}); a matrix has two: reshape it to rows × columns."
        )
    return X
