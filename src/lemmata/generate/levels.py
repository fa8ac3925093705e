"""Probability or density? Numbers of few levels (bytes, counts, 0 and 1) have probabilities, others have densities.

    levels        P(x) ≤ 1                                                  bits/dim = −ln P(x) / (d ln 2)
    a density     of x + δu, u uniform in [0, 1)^d, δ the distance of two levels:
                  E_u ln p(x + δu) + d ln δ ≤ ln P(x)   (Jensen)            bits/dim ≤ −(ln p(x + δu) + d ln δ) / (d ln 2)

with P(x) the mass of p in the cell of x. A density without levels has no bits: in other units it is another number. Nor are
probabilities and densities compared: on levels themselves, without u, a density can grow without bound.

    >>> levels = find_levels(np.array([[0.0, 3, 1], [1, 1, 0], [3, 0, 0]]))
    >>> levels.values.tolist(), levels.step                                    # the gap at 2 is filled
    ([0.0, 1.0, 2.0, 3.0], 1.0)
    >>> levels.places(np.array([[0.0, 2.5]]))
    Traceback (most recent call last):
    ValueError: X[0, 1] is 2.5, which is none of the 4 levels from 0 to 3: ...
    >>> find_levels(np.random.default_rng(0).normal(size=(50, 2))) is None      # these vary continuously
    True
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from lemmata.core.blocks import Blocks

Array = np.ndarray
MOST = 256  # levels that are found; more have to be given
NEAR = 1e-3  # of the distance to the next level: what rounding of numbers like 7/255 explains
NO_LEVELS = (
    "numbers that vary continuously have a density and no probability, and in other units another density, so that there "
    "are no bits to count: fit to numbers of few levels (bytes, counts)"
)


@dataclass(frozen=True)
class Levels:
    """The numbers that may occur.

    values : (K,), ascending
    rounds : whether other numbers are rounded to the nearest, the ends taking all beyond; else they are refused
    """

    values: Array
    rounds: bool = False

    def __post_init__(self) -> None:
        v = self.values
        if v.ndim != 1 or not len(v) or not np.isfinite(v).all() or (np.diff(v) <= 0).any():
            raise ValueError(f"levels of shape {v.shape}: pass different finite numbers in ascending order.")  # fmt: skip

    @property
    def borders(self) -> Array:
        """(K − 1,): the middles between neighbours."""
        v = self.values.astype(np.float64)
        return v[:-1] + np.diff(v) / 2

    @property
    def step(self) -> float | None:
        """δ, the distance of neighbours; None where it changes, or of a single level."""
        gaps = np.diff(self.values.astype(np.float64))
        even = len(gaps) > 0 and np.ptp(gaps) <= NEAR * gaps.min()
        return float(np.ptp(self.values) / len(gaps)) if even else None

    def places(self, rows: Array, first: int = 0) -> Array:
        """The number of the level of each entry; ValueError for one that is none, as X[first + i, …]."""
        found = np.searchsorted(self.borders, rows)
        if not self.rounds:
            self._refuse_others(rows, found, first)
        return found

    def _refuse_others(self, rows: Array, found: Array, first: int) -> None:
        v = self.values.astype(np.float64)
        least = float(np.diff(v).min()) if len(v) > 1 else max(abs(float(v[0])), 1.0)
        wrong = np.abs(rows - v[found]) > NEAR * least
        if wrong.any():
            i, *rest = np.argwhere(wrong)[0]
            place = ", ".join(map(str, (first + i, *rest)))
            more = f" (nor are {wrong.sum() - 1:,} others there)" if wrong.sum() > 1 else ""
            raise ValueError(
                f"X[{place}] is {rows[(i, *rest)]:g}, which is none of the {len(v)} levels from {v[0]:g} to {v[-1]:g}{more}: "
                "pass X in the units of the fit, or levels= with all that may occur."
            )

    def require_apart(self, dtype: Any) -> None:
        """ValueError where numbers of this type merge two levels."""
        v = self.values.astype(np.float64)
        eps = float(np.finfo(dtype).eps) if np.dtype(dtype).kind == "f" else 0.0
        merged = np.flatnonzero(np.diff(v) * NEAR <= eps * np.abs(v).max())
        if len(merged):
            a, b = v[merged[0] : merged[0] + 2]
            raise ValueError(
                f"the levels {a:.10g} and {b:.10g} are too close for {np.dtype(dtype).name}, which merges them: subtract the "
                "least level, or pass X as a table of float64, with input_shape= where rows are images."
            )

    def dequantise(self, rows: Array, rng: np.random.Generator) -> Array:
        """x + δu, u uniform in [0, 1): a draw from the cell of each number, for models of densities."""
        if self.step is None:
            raise ValueError("levels with changing distances have no cells of one size: pass evenly spaced ones.")  # fmt: skip
        u = rng.random(rows.shape, dtype=rows.dtype if rows.dtype == np.float32 else np.float64)
        return rows + rows.dtype.type(self.step) * u


def find_levels(data: Any) -> Levels | None:
    """The levels of rows, gaps of an even spacing filled; None of numbers that vary continuously: too many different ones,
    or most of them once."""
    known, count = np.empty(0), 0
    for rows, _ in Blocks.of(data):
        flat = np.asarray(rows).ravel()
        at = np.searchsorted(known, flat).clip(max=max(len(known) - 1, 0))
        known = np.union1d(known, flat[known[at] != flat] if len(known) else flat)
        count += len(flat)
        if len(known) > MOST:
            return None
    if 2 * len(known) > max(count, 2):
        return None
    # 7 and 9 of bytes show half of their spacing
    for parts in (1, 2, 3, 4) if len(known) > 2 else ():
        last = round(float(np.ptp(known) * parts / np.diff(known).min()))
        places = (known - known[0]) / np.ptp(known) * last
        if last < MOST and np.abs(places - np.round(places)).max() <= NEAR:
            return Levels(np.linspace(known[0], known[-1], last + 1))
    return Levels(known)


def choose_levels(given: Any, data: Any) -> Levels:
    """The levels of a parameter: "auto" are those of the rows; a number K rounds to K even ones between their least and
    largest number; others are the levels themselves."""
    if isinstance(given, str):
        found = find_levels(data)
        if found is None:
            raise ValueError(
                f"X holds more than {MOST} different numbers, or each hardly twice: it varies continuously. Pass levels=16, "
                "say, to round it to so many, or fit a density (NormalizingFlow)."
            )
        return found
    if isinstance(given, (int, np.integer)):
        low = min(float(np.min(rows)) for rows, _ in Blocks.of(data))
        high = max(float(np.max(rows)) for rows, _ in Blocks.of(data))
        return Levels(np.linspace(low, high if high > low else low + 1.0, int(given)), rounds=True)
    return Levels(np.unique(np.asarray(given, dtype=np.float64)))


def bits_per_dim(log_p: Array, size: int, levels: Levels | None, density: bool = False) -> Array:
    """Bits per number of rows of this size, from ln p of each; of a density at x + δu an upper bound. ValueError without
    levels."""
    if levels is None or (density and levels.step is None):
        raise ValueError(f"bits_per_dim is not defined here: {NO_LEVELS}.")
    shift = size * math.log(levels.step or 1.0) if density else 0.0
    return -(np.asarray(log_p, dtype=np.float64) + shift) / (size * math.log(2))
