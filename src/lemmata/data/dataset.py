"""The result of a loader: numbers or texts, their meaning, their source and the terms of use."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Described:
    """The description of a data set."""

    name: str
    description: str
    source: str
    terms: str

    @property
    def _size(self) -> str:
        raise TypeError(f"{type(self).__name__} does not say how large it is: define _size.")

    def __repr__(self) -> str:
        lines = (self.description, f"source: {self.source}", f"terms:  {self.terms}")
        return "\n  ".join((f"{self.name}: {self._size}", *lines))


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Dataset(Described):
    """Rows of numbers (`X`) or texts, with labels where there are any.

    X : array or CSR matrix of shape (n_samples, n_features), or None for texts
    texts : tuple of str, or None for numbers
    y : labels or targets of shape (n_samples,), or None; codes of classes index `names`
    names : what the class codes stand for
    features : the names of the columns of X
    image : (height, width) where a row of X is an image
    groups : of data about people, the columns that name a group, one label for each row
    """

    X: Any = None
    texts: tuple[str, ...] | None = None
    y: np.ndarray | None = None
    names: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    image: tuple[int, int] | None = None
    groups: dict[str, np.ndarray] = field(default_factory=dict)

    def __post_init__(self):
        if (self.X is None) == (self.texts is None):
            raise ValueError(f"{self.name}: a data set has either numbers (X) or texts.")
        if self.y is not None and len(self.y) != len(self):
            raise ValueError(f"{self.name}: {len(self)} samples but {len(self.y)} labels.")

    def __len__(self) -> int:
        return len(self.texts) if self.texts is not None else self.X.shape[0]

    @property
    def _size(self) -> str:
        if self.texts is not None:
            size = f"{len(self):,} text{'s' if len(self) != 1 else ''}, {sum(map(len, self.texts)):,} characters"
        else:
            sparse = f" sparse, {self.X.nnz:,} non-zeros" if hasattr(self.X, "nnz") else ""
            size = f"{len(self):,} × {self.X.shape[1]:,} {self.X.dtype}{sparse}"
        return f"{size}, {len(self.names)} classes" if self.names else size


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Ratings(Described):
    """Ratings of items by users: entry t says that user `user[t]` gave item `item[t]` the value `rating[t]`.

    user, item : int32 positions from 0; `user_ids` and `item_ids` translate them into the numbers of the files
    timestamp : Unix seconds, or None where the set has none
    titles, genres : of each item, in the order of `item_ids`
    """

    user: np.ndarray
    item: np.ndarray
    rating: np.ndarray
    user_ids: np.ndarray
    item_ids: np.ndarray
    titles: tuple[str, ...]
    genres: tuple[tuple[str, ...], ...]
    timestamp: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.rating)

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.user_ids), len(self.item_ids)

    @property
    def _size(self) -> str:
        n, m = self.shape
        return f"{len(self):,} ratings of {m:,} items by {n:,} users ({len(self) / (n * m):.1%} of all pairs)"
