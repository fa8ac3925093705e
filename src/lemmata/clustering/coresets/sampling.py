"""Drawing a coreset: what two passes need to know of the rows, the draws, and what so many draws promise.

    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(1_000, 2))
    >>> halves = Coreset.of(X[:500]) + Coreset.of(X[500:])
    >>> few = halves.reduced(100, rng=0)
    >>> few.rows, few.draws, bool(len(few) <= 100)
    (1000, (100,), True)

The sampling and its promise are those of `lemmata.clustering.coresets.estimator`, whose first lines derive the constant B.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from lemmata.clustering.assignment import locate
from lemmata.clustering.frames import seeding_loops, worth_kernels
from lemmata.core.blocks import Blocks
from lemmata.core.engine import map_reduce
from lemmata.core.loop import Never, run
from lemmata.core.store import storable

Array = np.ndarray
B = 2 * (3 + 5**0.5)  # the largest Z, and the largest variance of Z
PIECE = 2**15  # numbers of the rows that are read twice in a row: they stay in the nearest cache


def size_for(epsilon: float, delta: float, k: int = 1, d: int = 1) -> int:
    """Number of draws that keep the cost of k^(dk) sets of centres, fixed beforehand, within ε/2 (φ_X(Q) + φ_X(μ)).

    >>> size_for(0.1, 0.05), size_for(0.1, 0.05, k=10, d=2)
    (7984, 107651)
    """
    rows = (
        2 * B * (1 + epsilon / 3) * (d * k * math.log(k) + math.log(2 / delta)) / epsilon / epsilon
    )
    return math.ceil(min(rows, 2.0**62))  # more than any data has


def epsilon_for(size: int, delta: float, k: int = 1, d: int = 1) -> float:
    """The ε that so many draws keep: the inverse of `size_for`."""
    return _bernstein(size, d * k * math.log(k) + math.log(2 / delta), B, B)


def _bernstein(m: int, log: float, variance: float, largest: float) -> float:
    """t with 2 exp(−m t²/(2 variance + ⅔ largest t)) = 2 exp(−log): what a mean of m draws does not stray beyond."""
    linear = 2 * largest * log / 3
    return (linear + math.sqrt(linear**2 + 8 * m * variance * log)) / (2 * m)


# --- what adds up -----------------------------------------------------------------------------------------------------


@storable
@dataclass(frozen=True)
class Spread:
    """Total weight W, mean μ and φ(μ) = Σ w ‖x − μ‖² of rows, in float64. Spread() is the empty sum."""

    version = 1
    layout: ClassVar = {"weight total": ">=0", "mean": "d | "}

    weight: float = 0.0
    mean: Any = 0.0  # (d,)
    total: float = 0.0

    @classmethod
    def of(cls, rows: Any, weights: Array | None = None, compiled: bool = False) -> Spread:
        if sp.issparse(rows):
            return cls._of_sparse(rows, weights)
        mean, piece = np.empty(rows.shape[1]), max(1, PIECE // rows.shape[1])
        w = np.empty(0) if weights is None else weights.astype(np.float64, copy=False)
        weight, total = seeding_loops(compiled).spread_into(mean, rows, w, piece)
        return cls(weight, mean, total) if weight > 0 else cls()

    @classmethod
    def _of_sparse(cls, rows, weights) -> Spread:
        w = np.ones(rows.shape[0]) if weights is None else weights
        weight = float(w.sum())
        if weight == 0:
            return cls()
        with np.errstate(over="ignore", invalid="ignore"):  # the sum of all is looked at
            mean = (w @ rows) / weight
            return cls(weight, mean, float(w @ squared_distances(rows, mean)))

    def __add__(self, other: Spread) -> Spread:
        if other.weight == 0 or self.weight == 0:
            return self if other.weight == 0 else other
        weight, step = self.weight + other.weight, other.mean - self.mean
        between = float(step @ step) * (self.weight * (other.weight / weight))
        return Spread(
            weight, self.mean + step * (other.weight / weight), self.total + other.total + between
        )


def squared_distances(rows: Any, center: Array, compiled: bool = False) -> Array:
    """‖x_i − center‖², in float64."""
    if sp.issparse(rows):
        rows = rows.astype(np.float64)
        squares = np.asarray(rows.multiply(rows).sum(axis=1)).ravel()
        return np.maximum(squares - 2 * (rows @ center) + center @ center, 0)
    out, center = np.empty(rows.shape[0]), np.asarray(center, np.float64)
    seeding_loops(compiled).squared_distances_into(out, rows, center)
    return out


@storable
@dataclass(frozen=True)
class Coreset:
    """Weighted rows that stand for data, and what is known exactly of that data.

    `+` is for coresets of disjoint parts: their rows together are a coreset of the whole with the larger ε of the two, since
    the parts' φ(μ) add up to no more than the whole's. `reduced` draws again and adds to the error.
    """

    version = 1
    layout: ClassVar = {
        "points?": "m d sparse",
        "weights?": "m >=0",
        "spread": Spread,
        "rows": "int >=0",
    }

    points: Any = None  # (m, d), dense or CSR
    weights: Any = None  # (m,)
    spread: Spread = Spread()  # of the data
    rows: int = 0  # of the data
    # how many rows were drawn, once for each drawing in succession; (): the data itself
    draws: tuple[int, ...] = ()

    def __post_init__(self):
        if self.points is not None and self.points.shape[:1] != np.shape(self.weights):
            raise ValueError(
                f"a coreset of {self.points.shape[0]} points with weights of shape {np.shape(self.weights)}."
            )

    @classmethod
    def of(cls, rows: Any, weights: Array | None = None) -> Coreset:
        """Rows as a coreset of themselves; those of weight 0 are left out."""
        w = np.ones(rows.shape[0]) if weights is None else np.asarray(weights, np.float64)
        kept = w > 0
        points = rows if kept.all() else rows[kept]
        return cls(points, w[kept], Spread.of(rows, weights), rows.shape[0])

    def __len__(self) -> int:
        return 0 if self.weights is None else len(self.weights)

    def __add__(self, other: Coreset) -> Coreset:
        if self.points is None or other.points is None:
            return self if other.points is None else other
        longer, shorter = sorted((self.draws, other.draws), key=len, reverse=True)
        # the fewest count, wherever both were drawn
        draws = *map(min, longer, shorter), *longer[len(shorter) :]
        stacked = (
            sp.vstack if sp.issparse(self.points) or sp.issparse(other.points) else np.concatenate
        )
        points = stacked([self.points, other.points])
        points = sp.csr_array(points) if sp.issparse(points) else points
        weights = np.concatenate([self.weights, other.weights])
        return Coreset(points, weights, self.spread + other.spread, self.rows + other.rows, draws)

    def reduced(self, size: int, rng: Any = None) -> Coreset:
        """At most `size` rows, drawn from this coreset as from data. Adds to the error: see `epsilon`."""
        if len(self) <= size:
            return self
        solution = run(
            CoresetAlgorithm(size), Blocks.of(self.points, self.weights), stop=Never(), rng=rng
        )
        drawn = solution.state.coreset
        return replace(self, points=drawn.points, weights=drawn.weights, draws=(*self.draws, size))

    def cost(self, centers: Array) -> float:
        """φ_C(Q), what these centres cost on the coreset."""
        return float(costs(Blocks.of(self.points, self.weights), [centers])[0])

    def epsilon(self, delta: float = 0.05, k: int = 1, d: int = 1) -> float:
        """The ε of the promise. Each further drawing, from a coreset of error ε, adds its own error times 1 + 3ε/2."""
        return self.error(delta, d * k * math.log(k), B, B, growth=1.5)

    def error(
        self, delta: float, log_sets: float, variance: float, largest: float, growth: float = 1.0
    ) -> float:
        """Bernstein's bound on a mean of draws with this variance, over all drawings in succession."""
        error = 0.0
        for m in self.draws:
            here = _bernstein(
                m, log_sets + math.log(2 * len(self.draws) / delta), variance, largest
            )
            error += here * (1 + growth * error)
        return error

    @property
    def error_at_mean(self) -> float:
        """|φ_C(μ) − φ_X(μ)| / φ_X(μ), both of which are known without the data."""
        total = self.spread.total
        return abs(self.cost(self.spread.mean[None]) - total) / total if total > 0 else 0.0


def costs(data: Blocks, sets: Iterable[Array]) -> Array:
    """φ_X(Q) for several sets of centres Q, in one pass of plain NumPy and in float64."""
    sets = [np.asarray(centers, np.float64) for centers in sets]
    starts, C = np.cumsum([0, *map(len, sets)]), np.concatenate(sets)
    # close to the data if the centres are, so that squares of large numbers do not cancel
    shift = C.mean(axis=0)

    def of_block(rows, weights):
        total, step = np.zeros(len(sets)), max(1, 2**20 // sum(C.shape))
        for start in range(0, rows.shape[0], step):
            piece, w = rows[start : start + step], slice(start, start + step)
            Y = (piece.toarray() if sp.issparse(piece) else piece) - shift
            D = (Y**2).sum(axis=1)[:, None] + ((C - shift) ** 2).sum(axis=1) - 2 * Y @ (C - shift).T
            for q in range(len(sets)):
                nearest = np.maximum(D[:, starts[q] : starts[q + 1]].min(axis=1), 0)
                total[q] += nearest.sum() if weights is None else weights[w] @ nearest
        return total

    return map_reduce(of_block, data, 0.0)


def mean_of(data: Blocks) -> Array:
    def sum_rows(rows, weights):
        total = rows.sum(axis=0, dtype=np.float64) if weights is None else weights @ rows
        return np.asarray(total).ravel()

    return map_reduce(sum_rows, data, 0.0) / data.total_weight


def epsilon_of(coreset: Coreset, data: Blocks, sets: list) -> Array:
    """|φ_C(Q) − φ_X(Q)| / (½φ_X(Q) + ½φ_X(μ)) for each set of centres Q, as it is."""
    true = costs(data, [*sets, mean_of(data)[None]])
    found = costs(Blocks.of(coreset.points, coreset.weights), sets)
    allowed = 0.5 * (true[:-1] + true[-1])
    return np.abs(found - true[:-1]) / np.where(allowed > 0, allowed, 1)


# --- drawing ----------------------------------------------------------------------------------------------------------


@storable
@dataclass(frozen=True)
class CoresetState:
    """After the first pass, which knows mean and spread; or after the second, which draws."""

    version = 1
    layout: ClassVar[dict[str, str | type]] = {
        "spread": Spread,
        "cuts": "b int >=0 <=n",
        "shares": "s >=0",
        "positions": "p >=0",
        "coreset": Coreset,
        "loss": ">=0",
    }

    spread: Spread
    cuts: Array  # (blocks + 1,) the first row of each block
    shares: Array  # (blocks,) the probability of each
    positions: Array  # (m,) where the draws fall in the row of all probabilities, ascending
    coreset: Coreset
    loss: float  # |φ_C(μ) − φ_X(μ)| / φ_X(μ)
    drawn: bool


class BlockDraws:
    """For each block its weights and where draws fall in it, handed to the block in the place of weights."""

    def __init__(self, state: CoresetState, weights: Array | None):
        self.state, self.weights = state, weights
        self.ends = np.cumsum(state.shares)
        self.first = np.concatenate(
            [[0], np.searchsorted(state.positions, self.ends[:-1]), [len(state.positions)]]
        )

    def __getitem__(self, rows: slice):
        weights = None if self.weights is None else self.weights[rows]
        if rows.start == rows.stop:
            return weights, np.empty(0)
        block = int(np.searchsorted(self.state.cuts, rows.start, side="right")) - 1
        before = self.ends[block] - self.state.shares[block]
        return weights, self.state.positions[self.first[block] : self.first[block + 1]] - before


@dataclass(frozen=True)
class CoresetAlgorithm:
    """Mean and spread in `init`, the draws in one step. Draws are positions in the sequence of all rows' probabilities, so
    where blocks are cut and who works on them does not matter."""

    size: int

    def init(self, data: Blocks, rng: np.random.Generator) -> CoresetState:
        compiled = self._worth_kernels(data)
        parts = map_reduce(
            lambda rows, weights: [(rows.shape[0], Spread.of(rows, weights, compiled))], data, []
        )
        spread = sum((part for _, part in parts), Spread())
        if not np.isfinite(spread.total):
            raise ValueError(
                "the data contains NaN, infinity, or numbers (or weights) too large to be squared; clean or scale it first."
            )
        if not spread.weight > np.finfo(float).tiny:
            raise ValueError(
                f"the weights add up to {spread.weight:g}; pass larger ones, their ratios are what matters."
            )
        shares = np.array([self._share(part, spread) for _, part in parts])
        mean_alone = Coreset(
            spread.mean[None].astype(data.dtype), np.array([spread.weight]), spread, data.shape[0]
        )
        cuts, positions = (
            np.cumsum([0, *(n for n, _ in parts)]),
            np.sort(rng.random(self.size)) * shares.sum(),
        )
        return CoresetState(spread, cuts, shares, positions, mean_alone, 1.0, False)

    @staticmethod
    def _share(part: Spread, whole: Spread) -> float:
        if part.weight == 0 or whole.total == 0:
            return part.weight / whole.weight
        total = part.total + part.weight * float(
            (part.mean - whole.mean) @ (part.mean - whole.mean)
        )
        return 0.5 * part.weight / whole.weight + 0.5 * total / whole.total

    def step(self, state: CoresetState, data: Blocks) -> CoresetState:
        spread, m = state.spread, self.size
        if m >= data.shape[0]:  # the data is its own coreset, and an exact one
            whole = sum(
                map_reduce(lambda rows, weights: [Coreset.of(rows, weights)], data, []), Coreset()
            )
            return replace(state, coreset=replace(whole, spread=spread), loss=0.0, drawn=True)
        draws: Any = BlockDraws(state, data.weights)
        compiled = self._worth_kernels(data)
        parts = map_reduce(
            lambda rows, own: [_draw_from(rows, own[0], own[1], spread, m, compiled)],
            data.weighted(draws),
            [],
        )
        points = [points for points, _, _ in parts if points.shape[0]]
        sparse = any(map(sp.issparse, points))
        stacked = sp.csr_array(sp.vstack(points)) if sparse else np.concatenate(points)
        weights = np.concatenate([weights for _, weights, _ in parts])
        found = sum(cost for _, _, cost in parts)
        loss = abs(found - spread.total) / spread.total if spread.total > 0 else 0.0
        coreset = Coreset(stacked, weights, spread, data.shape[0], (m,))
        return replace(state, coreset=coreset, loss=loss, drawn=True)

    @staticmethod
    def _worth_kernels(data: Blocks) -> bool:
        """Whether kernels do the work: two passes, each of which takes some eight times what a product takes."""
        return worth_kernels(data, 1, 16)

    def finished(self, state: CoresetState) -> bool:
        return state.drawn

    def objective(self, state: CoresetState) -> float:
        return state.loss

    def attributes(self, state: CoresetState) -> dict[str, Any]:
        return {"coreset_": state.coreset}


def _draw_from(
    rows: Any, weights: Array | None, positions: Array, spread: Spread, m: int, compiled: bool
) -> tuple[Any, Array, float]:
    """The rows of a block on which draws fall, their weights w/(m p) times how often, and what they cost at the mean."""
    if len(positions) == 0:
        return rows[:0], np.empty(0), 0.0
    squares = squared_distances(rows, spread.mean, compiled)
    p = np.full(rows.shape[0], 1 / spread.weight)
    if spread.total > 0:
        p = 0.5 * p + 0.5 * squares / spread.total  # per unit of weight
    masses = p if weights is None else weights * p
    chosen, times = np.unique(locate(masses, positions), return_counts=True)
    out = times / (m * p[chosen])
    return rows[chosen], out, float(out @ squares[chosen])
