"""Rows counted by group, outcome and decision, and the rates that fairness criteria compare.

    acceptance P(D=1|a)     TPR P(D=1|Y=1,a)     FPR P(D=1|Y=0,a)     PPV P(Y=1|D=1,a)     NPV P(Y=0|D=0,a)

Counts of blocks add up, so a million rows are read once and everything else is a table of some groups.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

Array = np.ndarray

# name: rows that count as hits, rows that are drawn; both as [[y=0 d=0, y=0 d=1], [y=1 d=0, y=1 d=1]]
RATES: dict[str, tuple[Any, Any]] = {
    "acceptance": ([[0, 1], [0, 1]], [[1, 1], [1, 1]]),
    "TPR": ([[0, 0], [0, 1]], [[0, 0], [1, 1]]),
    "FPR": ([[0, 1], [0, 0]], [[1, 1], [0, 0]]),
    "PPV": ([[0, 0], [0, 1]], [[0, 1], [0, 1]]),
    "NPV": ([[1, 0], [0, 0]], [[1, 0], [1, 0]]),
    "accuracy": ([[1, 0], [0, 1]], [[1, 1], [1, 1]]),
    "base rate": ([[0, 0], [1, 1]], [[1, 1], [1, 1]]),
}
# what the draws of a rate are, for messages
DRAWN = {"TPR": "with y = 1", "FPR": "with y = 0", "PPV": "accepted", "NPV": "rejected"}


@dataclass(frozen=True)
class Rate:
    """One rate of every group; NaN where no row of the group could count."""

    hits: Array  # (G,) rows, or weights
    draws: Array  # (G,)
    size: Array  # (G,) what the draws are worth: rows, or (Σw)²/Σw²

    @property
    def values(self) -> Array:
        known = np.where(self.draws > 0, self.draws, 1)
        return np.where(self.draws > 0, self.hits / known, np.nan)


@dataclass(frozen=True)
class GroupCounts:
    """Σw and Σw² of rows by group, outcome and decision. GroupCounts() is the empty sum."""

    names: tuple[str, ...] = ()
    sums: Array = field(default_factory=lambda: np.zeros((0, 2, 2)))  # (G, y, d)
    squares: Array = field(default_factory=lambda: np.zeros((0, 2, 2)))
    weighted: bool = False

    @classmethod
    def of(
        cls, names: tuple[str, ...], codes: Array, y: Array, decisions: Array, weights: Array | None = None
    ) -> GroupCounts:  # fmt: skip
        """Count rows; `codes` are places in `names`, y and the decisions 0 or 1."""
        cells = 4 * np.asarray(codes, np.int64) + 2 * np.asarray(y, np.int64) + decisions
        shape = (len(names), 2, 2)
        sums = np.bincount(cells, weights, minlength=4 * len(names)).reshape(shape).astype(float)
        if weights is None:
            return cls(tuple(names), sums, sums)
        squares = np.bincount(cells, np.square(weights), minlength=4 * len(names)).reshape(shape)
        return cls(tuple(names), sums, squares, True)

    def __add__(self, other: GroupCounts) -> GroupCounts:
        names = self.names + tuple(name for name in other.names if name not in self.names)
        place = {name: at for at, name in enumerate(names)}
        sums, squares = np.zeros((2, len(names), 2, 2))
        for one in (self, other):
            at = [place[name] for name in one.names]
            sums[at] += one.sums
            squares[at] += one.squares
        return GroupCounts(names, sums, squares, self.weighted or other.weighted)

    @property
    def rows(self) -> Array:
        """(G,) rows of each group, or their weight."""
        return self.sums.sum(axis=(1, 2))

    def rate(self, name: str) -> Rate:
        """Return one of RATES for every group."""
        hits, draws = (np.asarray(part, float) for part in RATES[name])
        total = (self.sums * draws).sum(axis=(1, 2))
        size = total
        if self.weighted:
            squares = (self.squares * draws).sum(axis=(1, 2))
            size = np.where(squares > 0, total**2 / np.where(squares > 0, squares, 1), 0.0)
        return Rate((self.sums * hits).sum(axis=(1, 2)), total, size)
