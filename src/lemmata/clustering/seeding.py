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

Taken literally, every centre costs a pass over the data. But distances only shrink: a row drawn with the distances of some
centres ago and then kept with probability D_now²/D_then² has exactly today's distribution (rejection sampling). So one pass,
one matrix product, serves a whole pool of proposals; pools grow with the number of centres, and k centres take O(log k) passes
rather than k. What a pass keeps of each proposal are the rows it would serve better than they are served now.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from lemmata.clustering import _twins
from lemmata.clustering.assignment import ParallelColumns, Points, locate, take_rows
from lemmata.clustering.frames import (
    LITTLE,
    PASSES,
    Coordinates,
    products,
    seeding_loops,
    serve_rows,
    worth_kernels,
)
from lemmata.core.blocks import Blocks, open_rows
from lemmata.core.engine import map_reduce
from lemmata.core.loop import warn_user
from lemmata.core.validation import NotFinite

Array = np.ndarray
# proposals of one pass: enough for matrix products at full speed, few enough for the cache
LARGEST_POOL = 128
SMALLEST_POOL = 8  # fewer would not make a pass cheaper, since it has to read the data anyway
KEPT = 1.5  # numbers per row that a pool may keep: with h centres a proposal serves about 1/(h + 1) of the rows better
POOL_OF_FEW = 3  # centres that a pool is meant for where the rows are few
ALL_DISTANCES = 2**24  # numbers that a pool may keep where it keeps all
NOT_FINITE = "the data contains NaN or infinity; clean or impute it first."
GROWTH = 4  # a pool is meant for one more centre per so many there are: the distances then shrink little meanwhile


def seeding_factor(k: int) -> float:
    """8(ln k + 2): D² sampling costs at most so many times the optimum, in expectation (Arthur & Vassilvitskii 2007)."""
    return 8 * (math.log(k) + 2)


# --- proposed centres -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Gains:
    """The rows of one block that each proposal would serve better than they are served, and their new D², by kernels."""

    starts: Array  # (m + 1,) where the entries of each proposal begin
    rows: Array
    values: Array

    @classmethod
    def pieces(cls, rows: Any, D: Array, centers: Array, frame: Coordinates) -> Iterator[Gains]:
        """Yield the gains of one piece of the rows after the other, in buffers that the next piece overwrites."""
        m, kind, buffers = len(centers), _numbers_of(rows), None
        for here, distances in frame.pieces(rows, centers):
            if buffers is None:  # the first piece is the largest
                most = m * (here.stop - here.start)
                buffers = np.empty(most, kind), np.empty(most, D.dtype)
            starts = np.empty(m + 1, np.int64)
            seeding_loops(True).keep_gains_into(starts, *buffers, D[here], here.start, distances)
            yield cls(starts, *buffers)

    @classmethod
    def of(cls, rows: Any, D: Array, centers: Array, frame: Coordinates) -> Gains:
        parts, append_into = [], seeding_loops(True).append_into
        for piece in cls.pieces(rows, D, centers, frame):
            count = piece.starts[-1]
            parts.append(cls(piece.starts, piece.rows[:count].copy(), piece.values[:count].copy()))
        starts = sum((part.starts for part in parts), np.zeros(len(centers) + 1, np.int64))
        ends, size = starts[:-1].copy(), starts[-1]
        together = cls(starts, np.empty(size, _numbers_of(rows)), np.empty(size, D.dtype))
        for part in parts:
            append_into(together.rows, together.values, ends, part.starts, part.rows, part.values)
        return together

    def total(self, D: Array, weights: Array | None, lines: Array) -> Array:
        """Σ w (D² − g)₊: the part of the potential of the block that each of some proposals would remove."""
        out, w = np.zeros(len(lines)), np.empty(0) if weights is None else weights
        seeding_loops(True).gains_of(out, self.starts, self.rows, self.values, D, w, lines)
        return out

    def lower_into(self, D: Array, line: int) -> None:
        """D² = min(D², g) for one proposal."""
        entries = slice(self.starts[line], self.starts[line + 1])
        seeding_loops(True).lower_into(D, self.rows[entries], self.values[entries])


@dataclass(frozen=True)
class AllDistances:
    """All squared distances of the proposals, by NumPy: the same where rows are few."""

    values: Array  # (m, n)

    @classmethod
    def of(cls, rows: Any, centers: Array, frame: Coordinates) -> AllDistances:
        parts = [_twins.squared_distances(piece) for _, piece in frame.pieces(rows, centers)]
        return cls(
            parts[0] if len(parts) == 1 else np.hstack([np.empty((len(centers), 0)), *parts])
        )

    def total(self, D: Array, weights: Array | None, lines: Array) -> Array:
        gains = np.maximum(np.subtract(D, self.values[lines], dtype=np.float64), 0.0)
        return gains.sum(axis=1) if weights is None else gains @ weights

    def lower_into(self, D: Array, line: int) -> None:
        np.minimum(D, self.values[line], out=D)


def _numbers_of(rows: Any) -> type:
    """The smallest kind of numbers that can count the rows of a block."""
    return np.uint16 if rows.shape[0] <= 2**16 else np.uint32


def total_gains(
    rows: Any, D: Array, weights: Array | None, centers: Array, frame: Coordinates
) -> Array:
    """The part of the potential of a block that each of some proposals would remove, (m,), with nothing kept."""
    lines, total = np.arange(len(centers)), np.zeros(len(centers))
    for piece in Gains.pieces(rows, D, centers, frame):
        total += piece.total(D, weights, lines)
    return total


@dataclass(frozen=True)
class Pool:
    """Rows proposed as centres, drawn with the distances of the time, and what each of them would gain."""

    rows: Array  # (m,)
    then: Array  # (m,) their D² when they were drawn
    gains: Sequence[Gains | AllDistances]  # one per block


# --- the potential ----------------------------------------------------------------------------------------------------


class Potential:
    """Σ w_i D_i² and its parts, as centres are added. Rows of any kind of data; one number per row is in memory."""

    def __init__(self, points: Points, rng: np.random.Generator):
        self.data, self.weights, n = points.data, points.relative_weights, points.shape[0]
        self.compiled = points.compiled  # whether kernels do the work, or their twins
        w = self.weights
        first = rng.integers(n) if w is None else locate(w, rng.random(1) * w.sum())[0]
        self.chosen: list[int] = [int(first)]
        self.frame = Coordinates.around(points.spread, points.dtype)
        # few dense rows stay in their frame, with their squares
        self.few: tuple[Array, Array] | None = None
        if points.few and not points.sparse:
            hats = points.framed.hats
            self.few = hats, points.framed.squares.astype(hats.dtype, copy=False)
            parts = [_twins.squared_distances(self._products(np.array(self.chosen)))[0]]
        else:
            center, frame = take_rows(self.data, self.chosen), self.frame
            parts = self._map(lambda rows, _: AllDistances.of(rows, center, frame).values[0])
        self.D = np.concatenate(parts).astype(points.dtype, copy=False)
        self.cuts = np.cumsum([0, *map(len, parts)])
        if not np.isfinite(self.total):
            raise NotFinite(NOT_FINITE)

    def _products(self, rows: Array) -> tuple:
        """Return what the distances of few rows to some of them are made of."""
        hats, squares = self.few or (np.empty(0), np.empty(0))
        return products(hats, squares, hats[rows], squares[rows])

    def _map(self, function: Any, columns: Any = None) -> list:
        """Return the results of a function of every block and the columns beside it."""
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
        if self.few is not None:
            gains: list = [AllDistances(_twins.squared_distances(self._products(rows)))]
            return Pool(rows, self.D[rows], gains)
        centers, frame = take_rows(self.data, rows), self.frame
        if self.compiled:
            gains = self._map(lambda block, D: Gains.of(block, D, centers, frame), self.D)
        else:
            gains = self._map(lambda block, _: AllDistances.of(block, centers, frame))
        return Pool(rows, self.D[rows], gains)

    def choose_early(self, trials: int, rng: np.random.Generator) -> None:
        """The best of some proposals, when each would serve so many rows that what they gain is better not kept."""
        rows, frame = self.draw(trials, rng), self.frame
        if not self.compiled:
            return self.choose(self._pool_of(rows), list(range(trials)))
        centers, columns = take_rows(self.data, rows), ParallelColumns(self.D, self.weights)
        parts = self._map(
            lambda block, own: total_gains(block, own[0], own[1], centers, frame), columns
        )
        self.choose(self._pool_of(rows[[np.argmax(sum(parts))]]), [0])

    def choose(self, pool: Pool, lines: list[int]) -> None:
        """Make the best of some proposals a centre."""
        candidates, best = np.array(lines), lines[0]
        blocks = list(zip(pool.gains, map(slice, self.cuts, self.cuts[1:]), strict=True))
        if len(lines) > 1:
            total = np.zeros(len(lines))
            for gains, rows in blocks:
                weights = None if self.weights is None else self.weights[rows]
                total += gains.total(self.D[rows], weights, candidates)
            best = lines[int(np.argmax(total))]
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
        return _fill_up(np.array(self.chosen), k, rng)

    def serve(self, rows: Array, nearest: Array) -> None:
        """Add many centres at once; `nearest` is kept up to date."""
        for start in range(0, len(rows), LARGEST_POOL):
            self._serve_some(rows[start : start + LARGEST_POOL], nearest)

    def _serve_some(self, rows: Array, nearest: Array) -> None:
        first = len(self.chosen)
        self.chosen.extend(int(row) for row in rows)
        if self.few is not None:
            _twins.serve_into(self.D, nearest, first, self._products(rows))
            return
        centers, frame, compiled = take_rows(self.data, rows), self.frame, self.compiled
        parts = self._map(
            lambda block, before: serve_rows(block, centers, frame, before, first, compiled),
            ParallelColumns(self.D, nearest),
        )
        self.D, nearest[:] = (np.concatenate(column) for column in zip(*parts, strict=True))


# --- seeding ----------------------------------------------------------------------------------------------------------


def _points(data: Any, k: int, weights: Any) -> Points:
    """The data of a seeding; its size and k decide whether kernels do the work."""
    points = data
    if not isinstance(data, Points):
        blocks = open_rows(data, weights)
        points = Points(blocks, isinstance(k, Integral) and worth_kernels(blocks, k, PASSES))
    n = points.shape[0]
    if not isinstance(k, Integral) or not 1 <= k <= n:
        raise ValueError(f"k={k} centres of {n} rows; pass an int with 1 <= k <= {n}.")
    return points


def _answer(data: Blocks, chosen: Any, return_indices: bool) -> Any:
    chosen = np.asarray(chosen, dtype=np.int64)
    centers = take_rows(data, chosen)
    # of a mapped file, rows drawn evenly are the only ones that were looked at
    if not np.isfinite(centers).all():
        raise NotFinite(NOT_FINITE)
    return (centers, chosen) if return_indices else centers


def _fill_up(rows: Array, k: int, rng: np.random.Generator) -> Array:
    """Repeat rows where there are fewer than k."""
    if len(rows) == k:
        return rows
    warn_user(
        f"only {len(rows)} different rows can be chosen; {k - len(rows)} of k={k} centres repeat one of them.",
        ConvergenceWarning,
    )
    return np.concatenate([rows, rows[rng.integers(len(rows), size=k - len(rows))]])


def random_rows(
    data: Any, k: int, rng: Any, weights: Any = None, *, return_indices: bool = False
) -> Any:
    """k different rows, drawn with probability ∝ their weights. Parameters as in `d2_sampling`."""
    points = _points(data, k, weights)
    data, weights, rng = points.data, points.relative_weights, np.random.default_rng(rng)
    possible = np.arange(data.shape[0]) if weights is None else np.flatnonzero(weights)
    p = None if weights is None else weights[possible] / weights[possible].sum()
    chosen = possible[rng.choice(len(possible), size=min(k, len(possible)), replace=False, p=p)]
    return _answer(data, _fill_up(chosen, k, rng), return_indices)


def d2_sampling(
    data: Any, k: int, rng: Any, weights: Any = None, *, return_indices: bool = False
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
    points = _points(data, k, weights)
    trials = 2 + int(math.log(k)) if n_local_trials is None else n_local_trials
    if not isinstance(trials, Integral) or trials < 1:
        raise ValueError(f"n_local_trials={trials}; pass an int >= 1, or None for 2 + ln k.")
    rng = np.random.default_rng(rng)
    return _answer(points.data, Potential(points, rng).fill(k, int(trials), rng), return_indices)


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
    points = _points(data, k, weights)
    data = points.data
    wanted = 2.0 * k if oversampling is None else float(oversampling)
    if not 0 < wanted < math.inf or not isinstance(rounds, Integral) or rounds < 1:
        raise ValueError(
            f"oversampling={oversampling}, rounds={rounds}; pass a number > 0 and an int >= 1."
        )
    rng = np.random.default_rng(rng)
    potential = Potential(points, rng)
    nearest = np.zeros(data.shape[0], np.int32)
    for _ in range(rounds):
        potential.serve(potential.draw_many(wanted, rng), nearest)
    drawn = np.array(potential.chosen)
    if len(drawn) <= k:
        return _answer(data, potential.fill(k, 1, rng), return_indices)
    counts = np.bincount(nearest, points.relative_weights, minlength=len(drawn))
    among = Points(Blocks.of(take_rows(data, drawn, dense=False), counts), points.compiled)
    own = greedy_d2_sampling(among, k, rng, return_indices=True)[1]
    return _answer(data, drawn[own], return_indices)
