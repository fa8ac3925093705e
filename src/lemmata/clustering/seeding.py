"""Where k-means starts: centres drawn from the rows.

    D² sampling (k-means++):   first a row drawn with probability ∝ w_i, then, again and again, one with probability
                               p_i ∝ w_i D_i²,   D_i the distance of row i to the nearest centre so far      (CIL20 6.2.2)

Its expected cost is at most 8(ln k + 2) times the optimum (Arthur & Vassilvitskii 2007), so no start is arbitrarily bad.
(That is about the seeding itself; the notes ascribe it to k-means, whose steps only lower the cost further.) The greedy
variant draws several candidates for each centre and keeps the one that lowers the cost most; k-means|| draws many rows at
once in a few passes (Bahmani et al. 2012) and then seeds among them.

    >>> import numpy as np
    >>> X = np.repeat([[0.0, 0.0], [9.0, 0.0], [0.0, 9.0]], 5, axis=0)
    >>> centers = d2_sampling(X, 3, np.random.default_rng(0))
    >>> sorted(map(tuple, centers.tolist()))
    [(0.0, 0.0), (0.0, 9.0), (9.0, 0.0)]

How it is fast and still exact. Taken literally, every centre costs a pass over the data. But distances only shrink: a row
drawn with the distances of some centres ago and then kept with probability D_now²/D_then² has exactly today's distribution
(rejection sampling). So one pass, one matrix product, serves a whole pool of proposals; pools grow with the number of
centres, and k centres take O(log k) passes rather than k, in memory or out of core. What a pass keeps of each proposal are
the rows it would serve better than they are served now: all that choosing among candidates needs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from numbers import Integral
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from lemmata.clustering import _twins_seeding as twins
from lemmata.clustering.distances import (
    PIECE,
    Columns,
    Coordinates,
    Placed,
    exponent_of,
    locate,
    power,
    serve_rows,
    take_rows,
)
from lemmata.clustering.frames import LITTLE, PASSES, is_little, worth_kernels
from lemmata.clustering.proposals import AllDistances, Gains, potential_removed
from lemmata.core.blocks import Blocks, open_rows
from lemmata.core.engine import map_reduce
from lemmata.core.loop import warn_user
from lemmata.core.malformed import NotFinite

Array = np.ndarray
LARGEST_POOL = (
    128  # proposals of one pass: enough for matrix products at full speed, few enough for the cache
)
SMALLEST_POOL = 8  # fewer would not make a pass cheaper, since it has to read the data anyway
KEPT = 1.5  # numbers per row that a pool may keep: with h centres a proposal serves about 1/(h + 1) of the rows better
POOL_OF_FEW = 3  # centres that a pool is meant for where the rows are few
ALL_DISTANCES = 2**24  # numbers that a pool may keep where it keeps all
NOT_FINITE = "the data contains NaN or infinity; clean or impute it first."
GROWTH = 4  # a pool is meant for one more centre per so many there are: the distances then shrink little meanwhile


def seeding_factor(k: int) -> float:
    """8(ln k + 2): D² sampling costs at most so many times the optimum, in expectation (Arthur & Vassilvitskii 2007)."""
    return 8 * (math.log(k) + 2)


# --- what goes in and out ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Prepared:
    """Rows that somebody has looked at already: what a seeding takes in the place of data."""

    data: Blocks
    compiled: bool  # whether kernels do the work rather than NumPy
    placed: tuple[Coordinates, Placed] | None = None  # all rows in coordinates, where they are few

    @classmethod
    def of(cls, data: Any, k: int, weights: Any) -> Prepared:
        """The data as blocks; the size of it and k say who does the work."""
        found = data
        if not isinstance(data, Prepared):
            blocks = open_rows(data, weights)
            found = cls(
                blocks, worth_kernels(blocks, k, PASSES) if isinstance(k, Integral) else False
            )
        n = found.data.shape[0]
        if not isinstance(k, Integral) or not 1 <= k <= n:
            raise ValueError(f"k={k} centres of {n} rows; pass an int with 1 <= k <= {n}.")
        return found

    @property
    def weights(self) -> Array | None:
        """Between 0 and 1: only their ratios matter, and sums of them cannot overflow."""
        own = self.data.weights
        return None if own is None else own / own.max()


def _answer(data: Blocks, chosen: Any, return_indices: bool) -> Any:
    chosen = np.asarray(chosen, dtype=np.int64)
    centers = take_rows(data, chosen)
    if not np.isfinite(
        centers
    ).all():  # of a mapped file, rows drawn evenly are the only ones that were looked at
        raise NotFinite(NOT_FINITE)
    return (centers, chosen) if return_indices else centers


def _around(rows: Any, center: Array, compiled: bool) -> tuple[Array, Any, float]:
    """Squared distances to one centre, the sum of the differences (dense rows), and the largest number among them."""
    if sp.issparse(rows):
        largest = max(np.abs(rows.data).max(initial=0), np.abs(center).max())
        with np.errstate(over="ignore", invalid="ignore"):
            D = serve_rows(rows, center[None], Coordinates(None), compiled=compiled)[0]
        return D, 0.0, float(largest)
    D = np.empty(rows.shape[0], rows.dtype)
    total, largest, step = np.zeros(len(center)), 0.0, max(64, PIECE // len(center))
    for start in range(0, rows.shape[0], step):
        Y = rows[start : start + step] - center
        with np.errstate(over="ignore", invalid="ignore"):
            D[start : start + step] = np.einsum("ij,ij->i", Y, Y)
            total += Y.sum(axis=0, dtype=np.float64)
        largest = np.maximum(largest, max(Y.max(), -Y.min()))  # keeps NaN, which max may lose
    return D, total, float(largest)


# --- the potential and its proposals ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Pool:
    """Rows proposed as centres, drawn with the distances of the time, and what each of them would gain."""

    rows: Array  # (m,)
    then: Array  # (m,) their D² when they were drawn
    gains: Sequence[Gains | AllDistances]  # one per block


class Potential:
    """Σ w_i D_i² and its parts, as centres are added. Rows of any kind of data; one number per row is in memory."""

    def __init__(self, rows: Prepared, rng: np.random.Generator):
        data, weights, compiled, placed = rows.data, rows.weights, rows.compiled, rows.placed
        self.data, self.weights, n = data, weights, data.shape[0]
        self.compiled = compiled  # whether kernels do the work, or their twins
        self.placed: Placed | None = None  # all rows in their coordinates, where they are few
        first = (
            rng.integers(n)
            if weights is None
            else locate(weights, rng.random(1) * weights.sum())[0]
        )
        self.chosen: list[int] = [int(first)]
        if placed is not None:
            self.frame, self.placed = placed
            distances = self.placed.among(np.array(self.chosen))
            self.D, self.cuts = twins.squared_distances(distances)[0], np.array([0, n])
        else:
            self._find_coordinates(take_rows(data, self.chosen))
        if not np.isfinite(self.total):
            raise NotFinite(NOT_FINITE)
        whole = isinstance(data.source, np.ndarray) and is_little(data)
        if not compiled and placed is None and whole:
            self.placed = self.frame.place(data.source)

    def _find_coordinates(self, center: Array) -> None:
        """One pass, two where the scale is extreme: D² to the first centre, and coordinates made of what was seen."""
        data, compiled = self.data, self.compiled
        parts = map_reduce(lambda rows, _: [_around(rows, center[0], compiled)], data, [])
        self.D = np.concatenate([D for D, _, _ in parts])
        self.cuts = np.cumsum([0, *(len(D) for D, _, _ in parts)])
        mean = sum(total for _, total, _ in parts) / data.shape[0]
        self.frame = frame = self._frame(mean, center[0], max(size for _, _, size in parts))
        if frame.scale != 1:
            self.D = np.concatenate(
                self._map(lambda rows, _: serve_rows(rows, center, frame, compiled=compiled)[0])
            )

    def _frame(self, shift: Any, center: Array, largest: float) -> Coordinates:
        """Around the mean, unless zero is nearly as good; scaled by a power of two where squares leave the dtype."""
        limits = np.finfo(self.data.dtype)
        ordinary = (
            largest == 0 or limits.tiny**0.4 < largest < limits.max**0.4 or not np.isfinite(largest)
        )
        scale = 1.0 if ordinary else power(-exponent_of(largest), self.data.dtype)
        if np.ndim(shift) == 0:  # sparse
            return Coordinates(None, scale)
        with np.errstate(over="ignore", invalid="ignore"):
            mean, spread = center + shift, np.mean(self.D, dtype=np.float64) - shift @ shift
            return Coordinates(
                None if mean @ mean <= spread and ordinary else mean.astype(self.data.dtype), scale
            )

    def _map(self, function: Any, columns: Any = None) -> list:
        """What a function makes of every block and the columns beside it; of few rows, in their coordinates already."""
        if self.placed is not None:
            rows = slice(0, self.data.shape[0])
            return [function(self.placed, None if columns is None else columns[rows])]
        data = self.data if columns is None else self.data.weighted(columns)
        return map_reduce(lambda rows, own: [function(rows, own)], data, [])

    def _masses(self, block: int) -> Array:
        rows = slice(self.cuts[block], self.cuts[block + 1])
        D = self.D[rows].astype(np.float64, copy=False)
        return D if self.weights is None else D * self.weights[rows]

    def _sums(self) -> Array:
        return np.array([self._masses(block).sum() for block in range(len(self.cuts) - 1)])

    @property
    def total(self) -> float:
        return float(self._sums().sum())

    def draw(self, m: int, rng: np.random.Generator) -> Array:
        """m rows with probability ∝ w D²: first the block, then the row in it."""
        if len(self.cuts) == 2:
            masses = self._masses(0)
            return locate(masses, rng.random(m) * masses.sum())
        sums = self._sums()
        positions = rng.random(m) * sums.sum()
        blocks = locate(sums, positions)
        positions -= np.concatenate([[0.0], np.cumsum(sums)])[blocks]
        found = np.empty(m, np.int64)
        for block in np.unique(blocks):
            here = blocks == block
            found[here] = self.cuts[block] + locate(self._masses(block), positions[here])
        return found

    def draw_many(self, wanted: float, rng: np.random.Generator) -> Array:
        """Each row with probability min(1, wanted · its share of the potential), independently of the others."""
        total, found = self.total, []
        for block, start in enumerate(self.cuts[:-1]):
            masses = self._masses(block)
            found.append(start + np.flatnonzero(rng.random(len(masses)) * total < wanted * masses))
        return np.concatenate(found)

    def pool(self, candidates: list[int], trials: int, k: int, rng: np.random.Generator) -> Pool:
        """One pass: proposals for the next centres, the first of them the candidates drawn already."""
        have = len(self.chosen)
        m = trials * min(-(-have // GROWTH), k - have)
        m = max(min(m, LARGEST_POOL), min(SMALLEST_POOL, int(KEPT * (have + 1))), trials)
        n, d = self.data.shape
        if n * d <= LITTLE:  # to read the rows takes longer than a few products with them
            m = max(m, POOL_OF_FEW * trials)
        elif not self.compiled:
            m = max(min(m, ALL_DISTANCES // n), trials)
        return self._pool_of(
            np.concatenate([candidates, self.draw(m - len(candidates), rng)]).astype(np.int64)
        )

    def _pool_of(self, rows: Array) -> Pool:
        if self.placed is not None:
            gains = [AllDistances(twins.squared_distances(self.placed.among(rows)))]
            return Pool(rows, self.D[rows], gains)
        centers, frame = take_rows(self.data, rows), self.frame
        kept = Gains if self.compiled else AllDistances
        gains = self._map(lambda block, D: kept.of(block, D, centers, frame), self.D)
        return Pool(rows, self.D[rows], gains)

    def choose_early(self, trials: int, rng: np.random.Generator) -> None:
        """The best of some proposals, when each would serve so many rows that what they gain is better not kept."""
        rows, frame = self.draw(trials, rng), self.frame
        if not self.compiled:
            return self.choose(self._pool_of(rows), list(range(trials)))
        centers, columns = take_rows(self.data, rows), Columns(self.D, self.weights)
        parts = self._map(
            lambda block, own: potential_removed(block, own[0], own[1], centers, frame), columns
        )
        self.choose(self._pool_of(rows[[np.argmax(sum(parts))]]), [0])

    def choose(self, pool: Pool, lines: list[int]) -> None:
        """Make the best of some proposals a centre."""
        candidates, best = np.array(lines), lines[0]
        blocks = [
            (gains, slice(*cut)) for gains, cut in zip(pool.gains, pairwise(self.cuts), strict=True)
        ]
        if len(lines) > 1:
            removed = np.zeros(len(lines))
            for gains, rows in blocks:
                weights = None if self.weights is None else self.weights[rows]
                removed += gains.removed(self.D[rows], weights, candidates)
            best = lines[int(np.argmax(removed))]
        for gains, rows in blocks:
            gains.lower_into(self.D[rows], best)
        self.chosen.append(int(pool.rows[best]))

    def fill(self, k: int, trials: int, rng: np.random.Generator) -> Array:
        """Add centres by D² sampling until there are k: the best of `trials` candidates each time."""
        candidates: list[int] = []  # rows drawn from today's distribution that await others
        while len(self.chosen) < min(k, trials / KEPT - 1) and self.total > 0:
            self.choose_early(trials, rng)
        while len(self.chosen) < k and self.total > 0:
            pool, lines = self.pool(candidates, trials, k, rng), []
            for line, (row, then) in enumerate(zip(pool.rows, pool.then, strict=True)):
                if rng.random() * then < self.D[row]:  # kept with probability D_now²/D_then²
                    lines.append(line)
                if len(lines) == trials:
                    self.choose(pool, lines)
                    lines = []
                if len(self.chosen) == k:
                    break
            candidates = [int(pool.rows[line]) for line in lines]
        return self._fill_up(np.array(self.chosen), k, rng)

    @staticmethod
    def _fill_up(rows: Array, k: int, rng: np.random.Generator) -> Array:
        if len(rows) == k:
            return rows
        warn_user(
            f"only {len(rows)} different rows can be chosen; {k - len(rows)} of k={k} centres repeat one of them.",
            ConvergenceWarning,
        )
        return np.concatenate([rows, rows[rng.integers(len(rows), size=k - len(rows))]])

    def serve(self, rows: Array, nearest: Array) -> None:
        """Add many centres at once; `nearest` is kept up to date."""
        for start in range(0, len(rows), LARGEST_POOL):
            self._serve_some(rows[start : start + LARGEST_POOL], nearest)

    def _serve_some(self, rows: Array, nearest: Array) -> None:
        centers, frame, first = take_rows(self.data, rows), self.frame, len(self.chosen)
        compiled, columns = self.compiled, Columns(self.D, nearest)
        parts = self._map(
            lambda block, before: serve_rows(block, centers, frame, before, first, compiled),
            columns,
        )
        self.D, nearest[:] = (
            np.concatenate([D for D, _ in parts]),
            np.concatenate([which for _, which in parts]),
        )
        self.chosen.extend(int(row) for row in rows)


# --- seeding ----------------------------------------------------------------------------------------------------------


def random_rows(
    data: Any,
    k: int,
    rng: Any,
    weights: Any = None,
    *,
    return_indices: bool = False,
) -> Any:
    """k different rows, drawn with probability ∝ their weights. Parameters as in `d2_sampling`."""
    rows = Prepared.of(data, k, weights)
    data, weights, rng = rows.data, rows.weights, np.random.default_rng(rng)
    possible = np.arange(data.shape[0]) if weights is None else np.flatnonzero(weights)
    p = None if weights is None else weights[possible] / weights[possible].sum()
    chosen = possible[rng.choice(len(possible), size=min(k, len(possible)), replace=False, p=p)]
    return _answer(data, Potential._fill_up(chosen, k, rng), return_indices)


def d2_sampling(
    data: Any,
    k: int,
    rng: Any,
    weights: Any = None,
    *,
    return_indices: bool = False,
) -> Any:
    """k rows by D² sampling, the seeding of k-means++.

    Parameters
    ----------
    data : Blocks, array, CSR matrix, memmap, dask array or a re-iterable of row blocks, of shape (n, d)
    k : int
        How many centres. If there are fewer different rows, all of them are chosen, some repeatedly, with a warning.
    rng : Generator or int
    weights : (n,), optional
        How many times each row counts; by default those of the Blocks, if any. A row of weight 0 is never chosen.
    return_indices : bool, default=False
        Return the pair (centers, numbers of their rows).

    Returns
    -------
    centers : (k, d), in the dtype of the data
    """
    return greedy_d2_sampling(data, k, rng, weights, 1, return_indices=return_indices)


def greedy_d2_sampling(
    data: Any,
    k: int,
    rng: Any,
    weights: Any = None,
    n_local_trials: int | None = None,
    *,
    return_indices: bool = False,
) -> Any:
    """D² sampling that draws n_local_trials candidates for every centre but the first and keeps the best of them.

    The default is scikit-learn's, 2 + ⌊ln k⌋. Other parameters as in `d2_sampling`.
    """
    rows = Prepared.of(data, k, weights)
    trials = 2 + int(math.log(k)) if n_local_trials is None else n_local_trials
    if not isinstance(trials, Integral) or trials < 1:
        raise ValueError(f"n_local_trials={trials}; pass an int >= 1, or None for 2 + ln k.")
    rng = np.random.default_rng(rng)
    return _answer(rows.data, Potential(rows, rng).fill(k, int(trials), rng), return_indices)


def kmeans_parallel(
    data: Any,
    k: int,
    rng: Any,
    weights: Any = None,
    oversampling: float | None = None,
    rounds: int = 5,
    *,
    return_indices: bool = False,
) -> Any:
    """k rows by k-means||: a few rounds that draw many rows each, then greedy D² sampling among these.

    In a round, row i is drawn with probability min(1, ℓ w_i D_i²/Σ w D²), whatever the others are. Each row drawn then
    weighs as much as the rows that are nearest to it. If fewer than k were drawn, D² sampling adds the rest.

    Parameters
    ----------
    oversampling : float, default=2k
        ℓ, how many rows a round draws on average.
    rounds : int, default=5
        Other parameters as in `d2_sampling`.
    """
    prepared = Prepared.of(data, k, weights)
    data = prepared.data
    wanted = 2.0 * k if oversampling is None else float(oversampling)
    if not 0 < wanted < math.inf or not isinstance(rounds, Integral) or rounds < 1:
        raise ValueError(
            f"oversampling={oversampling}, rounds={rounds}; pass a number > 0 and an int >= 1."
        )
    rng = np.random.default_rng(rng)
    potential = Potential(prepared, rng)
    nearest = np.zeros(data.shape[0], np.int32)
    for _ in range(rounds):
        potential.serve(potential.draw_many(wanted, rng), nearest)
    drawn = np.array(potential.chosen)
    if len(drawn) <= k:
        return _answer(data, potential.fill(k, 1, rng), return_indices)
    counts = np.bincount(nearest, prepared.weights, minlength=len(drawn))
    among = Prepared(Blocks.of(take_rows(data, drawn, dense=False), counts), prepared.compiled)
    own = greedy_d2_sampling(among, k, rng, return_indices=True)[1]
    return _answer(data, drawn[own], return_indices)
