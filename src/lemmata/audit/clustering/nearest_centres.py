"""Rows at their nearest centres, by plain passes in float64, whatever type and size the data has.

Frame        where numbers are small: rows are read as (x − origin)/scale, so that far-off, huge or tiny data loses nothing
Partition    weight, sum and cost of every cluster, from one pass
lloyd        Lloyd's steps, plain: what they still gain from given centres

>>> data = Blocks.of(np.array([[0.0], [1.0], [9.0], [11.0]]))
>>> found = Partition.of(data, np.array([[0.0], [10.0]]))
>>> found.weight, found.frame.cost_outside(found.cost)
(array([2., 2.]), 3.0)
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import scipy.sparse as sp
from threadpoolctl import ThreadpoolController

from lemmata.audit.kernel.claims import PRODUCTS, Fit, fact, free
from lemmata.core.blocks import Blocks

Array = np.ndarray
TINY = float(np.finfo(float).tiny)
# numbers of rows that are worked on at once: they, and what is made of them, stay in the nearest cache
NUMBERS_AT_ONCE = 2**15
FIRST_NUMBERS = 2**18  # numbers of the first rows, by which the size of all is judged
# of the budget of searches
SHARES = {"steps": 0.25, "refits": 0.25, "restarts": 0.15, "bounds": 0.35}


@cache
def _pools() -> ThreadpoolController:
    """The BLAS libraries, found once: looking for them takes longer than what is done with them."""
    return ThreadpoolController()


def one_blas_thread() -> AbstractContextManager:
    """Limit BLAS to one thread around many small products: threads would wait for each other longer than they work."""
    pools = _pools()
    if all(one.get_num_threads() == 1 for one in pools.lib_controllers if one.user_api == "blas"):
        # as inside of most fits: to set a limit again takes longer than a small check
        return nullcontext()
    return pools.limit(limits=1, user_api="blas")


def eps_of(*dtypes: Any) -> float:
    """The coarsest rounding of several float types; other types count as float64."""
    kinds = [np.dtype(one) for one in dtypes]
    return max(float(np.finfo(one if one.kind == "f" else np.float64).eps) for one in kinds)


# --- rows -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Frame:
    """Rows as (x − origin)/scale in float64. Sparse rows stay sparse: their origin is 0."""

    origin: Array
    scale: float = 1.0  # a power of two
    heavy: float = 1.0  # another one, that weights are divided by

    @classmethod
    def of(cls, data: Blocks, centers: Any = None) -> Frame:
        """Return a frame around the centres, or around the first rows, and as large as these are apart."""
        origin = None if centers is None else _mean(np.asarray(centers))
        top = 1.0 if data.weights is None else float(np.max(data.weights))
        heavy = 2.0 ** (math.frexp(top)[1] - 1)
        for rows, _ in data:
            part = rows[: max(1, FIRST_NUMBERS // max(rows.shape[1], 1))]
            if part.shape[0] == 0:  # a stream may have empty blocks
                continue
            if sp.issparse(part):
                origin, spread = np.zeros(rows.shape[1]), np.abs(part.data).max(initial=0.0)
            else:
                origin = _mean(part) if origin is None else origin
                spread = np.abs(part - origin).max(initial=0.0)
            if np.isfinite(spread) and spread > 0:
                # the inverse is a float, too
                return cls(origin, 2.0 ** max(round(math.log2(spread)), -1000), heavy)
        return cls(np.zeros(data.shape[1]) if origin is None else origin, heavy=heavy)

    def slices(self, data: Blocks, dense: bool = False) -> Iterator[tuple[Any, Array]]:
        """Some rows at a time with their weights; sparse rows as CSR, unless they are to be dense."""
        step = max(1, NUMBERS_AT_ONCE // max(data.shape[1], 1))
        for rows, weights in data:
            # a frame made for other rows may have an origin
            sparse = sp.issparse(rows) and not dense
            wide = max(step, 1024) if sparse else step
            for start in range(0, rows.shape[0], wide):
                part = rows[start : start + wide]
                if sparse and not self.origin.any():
                    inside: Any = sp.csr_array(part).astype(np.float64) / self.scale
                else:
                    inside = self.inside(part)
                yield inside, self.weights(part.shape[0], weights, start)

    def take(self, data: Blocks, numbers: Array) -> Array:
        """Rows by their numbers, in any order, dense."""
        order = np.argsort(numbers, kind="stable")
        ordered, found, start = numbers[order], np.empty((len(order), data.shape[1])), 0
        for rows, _ in data:
            first, last = np.searchsorted(ordered, [start, start + rows.shape[0]])
            found[order[first:last]] = self.inside(rows[ordered[first:last] - start])
            start += rows.shape[0]
        return found

    def weights(self, n: int, weights: Array | None, start: int = 0) -> Array:
        """n of the weights, from `start` on."""
        if weights is None:
            return np.ones(n)
        return np.asarray(weights[start : start + n], np.float64) / self.heavy

    def inside(self, rows: Any) -> Array:
        rows = rows.toarray() if sp.issparse(rows) else rows
        moved = np.asarray(rows, dtype=np.float64) - self.origin
        moved *= 1 / self.scale  # exact, and a tenth of the time of dividing
        return moved

    def outside(self, rows: Array) -> Array:
        return rows * self.scale + self.origin

    def cost_outside(self, cost: float) -> float:
        """A cost in the units of the data; infinite or zero where floats end."""
        with np.errstate(over="ignore", under="ignore"):
            return float(np.float64(cost) * self.heavy * self.scale * self.scale)

    def cost_inside(self, cost: float) -> float:
        """A cost of the data in the units of the frame."""
        with np.errstate(over="ignore", under="ignore"):
            return float(np.float64(cost) / self.scale / self.scale / self.heavy)


def _mean(rows: Array) -> Array:
    """The mean in float64, of numbers whose sum may overflow."""
    rows = rows.astype(np.float64)
    return rows[0] + (rows / len(rows) - rows[0] / len(rows)).sum(axis=0)


def squares_of(X: Any) -> Array:
    """‖x‖² of every row, dense or sparse."""
    if sp.issparse(X):
        return np.asarray(X.multiply(X).sum(axis=1)).ravel()
    return np.einsum("ij,ij->i", X, X)


def squared_distances(X: Any, C: Array) -> Array:
    """‖x − c‖² for all pairs, (n, k), of rows dense or sparse."""
    squares = squares_of(X)[:, None] + np.einsum("ij,ij->i", C, C)
    return np.maximum(squares - 2 * np.asarray(X @ C.T), 0.0)


def are_centers(found: Any, k: int, d: int) -> bool:
    """Whether a search showed at most k centres of d features, all finite."""
    some = found is not None and np.ndim(found) == 2 and np.shape(found)[1] == d
    return bool(some and 1 <= len(found) <= k and np.isfinite(found).all())


def own_squares(X: Any, C: Array, labels: Array, D: Array) -> Array:
    """‖x − c_label‖² of every row; for dense ones from differences, without cancellation."""
    if sp.issparse(X):
        return D[np.arange(len(labels)), labels]
    return squares_of(X - C[labels])


def members(labels: Array, w: Array, k: int) -> Array:
    """(n, k): of every row its weight, in the column of its label."""
    table = np.zeros((len(labels), k))
    table[np.arange(len(labels)), labels] = w
    return table


def sum_by(table: Array, X: Any) -> Array:
    """The weighted sums of rows, dense or sparse, of each cluster: (k, d)."""
    return np.asarray(X.T @ table).T if sp.issparse(X) else table.T @ X


@dataclass(frozen=True)
class Partition:
    """The partition of all rows by their nearest centres, in the units of its frame; from one plain pass."""

    frame: Frame
    centers: Array  # (k, d)
    weight: Array  # (k,)
    sums: Array  # (k, d) Σ w(x − c)
    costs: Array  # (k,) Σ w‖x − c‖²
    along: Array  # (k, k) Σ_{x in a} w((x − c_a)·(c_b − c_a))², for every other centre b
    # a cost below it is zero: what centres and rows of their types cannot tell apart
    rounding: float
    labels: Array  # (n,) the nearest centre of every row
    squares: float  # Σ w‖x‖²

    @classmethod
    def of(cls, data: Blocks, centers: Any, frame: Frame | None = None) -> Partition:
        frame = frame or Frame.of(data, centers)
        C = frame.inside(centers)
        k, between = len(C), squared_distances(C, C)
        weight, costs, along, sums = np.zeros(k), np.zeros(k), np.zeros((k, k)), np.zeros_like(C)
        total = cancelled = 0.0
        found: list[Array] = []
        lengths = np.einsum("ij,ij->i", C, C)
        for X, w in frame.slices(data):
            D = np.asarray(X @ (-2 * C.T))  # ‖x − c‖² − ‖x‖²
            D += lengths
            labels = D.argmin(axis=1)
            found.append(labels.astype(np.int32))
            table, below = members(labels, w, k), D[np.arange(len(w)), labels]
            here = table.sum(axis=0)
            if sp.issparse(X):
                own = np.maximum(below + squares_of(X), 0.0)
                sums += sum_by(table, X) - here[:, None] * C
                cancelled += float(w @ (own - below))
            else:
                apart = X - C[labels]  # without cancellation
                own, sums = squares_of(apart), sums + table.T @ apart
            toward = between[labels] + below[:, None] - D  # 2 (x − c_a)·(c_b − c_a)
            weight, costs, total = weight + here, costs + own @ table, total + w @ (own - below)
            along += table.T @ np.square(toward, out=D) / 4
        eps = eps_of(data.dtype, np.asarray(centers).dtype)
        far = float(weight.sum() * (np.abs(frame.origin).max(initial=0.0) / frame.scale) ** 2)
        least = (4 * eps) ** 2 * (total + far * C.shape[1]) + 8 * np.finfo(float).eps * cancelled
        nearest = np.concatenate([np.empty(0, np.int32), *found])
        return cls(frame, C, weight, sums, costs, along, least, nearest, total)

    @property
    def cost(self) -> float:
        return float(self.costs.sum())

    @property
    def means(self) -> Array:
        """(k, d); an empty cluster stays at its centre."""
        return self.centers + self.sums / np.where(self.weight > 0, self.weight, 1.0)[:, None]

    @property
    def shift(self) -> float:
        """The gain of moving every centre to the mean of its rows: W‖δ‖² each, exactly."""
        squares, full = (self.sums**2).sum(axis=1), self.weight > 0
        return float((squares[full] / self.weight[full]).sum())


def lloyd(data: Blocks, start: Partition, steps: int, settled: float) -> Iterator[Partition]:
    """Make up to so many of Lloyd's steps from a partition; end when one gained less than `settled` of the cost."""
    found = start
    for _ in range(steps):
        if found.cost <= found.rounding:
            return
        before = found.cost
        found = Partition.of(data, found.frame.outside(found.means), found.frame)
        yield found
        if before - found.cost <= settled * before:
            return


# --- one pass over the rows of a fit, and what searches may spend ------------------------------------------------------


def sizes(fit: Fit) -> tuple[int, int, int]:
    return *fit.data.shape, len(fit.cluster_centers_)


def pass_work(fit: Fit) -> float:
    """One plain pass: distances by matrix products, and some ten sweeps over the rows and over their distances."""
    n, d, k = sizes(fit)
    share = float(fit.data.size) / max(n * d, 1) if fit.data.sparse else 1.0
    return n * (2.0 * d * k * share / PRODUCTS + 8 * d * share + 12 * k + 50)


@fact(cost=pass_work)
def nearest(fit: Fit) -> Partition:
    """Put every row at its nearest centre."""
    return Partition.of(fit.data, fit.cluster_centers_)


@dataclass
class Purse:
    """The work that searches may spend: their shares of what was left when the first of them asked."""

    budget: float = math.nan
    spent: dict[str, float] = field(default_factory=dict)

    def allowance(self, what: str, left: float) -> float:
        """Return what one search may spend; bounds also what others left over."""
        self.budget = left if math.isnan(self.budget) else self.budget
        if math.isinf(self.budget):
            return math.inf
        if what == "bounds":
            shares = SHARES | {name: work / self.budget for name, work in self.spent.items()}
            return max(1 - sum(shares.values()) + shares["bounds"], 0.0) * self.budget
        return min(SHARES[what] * self.budget, left)


@fact(cost=free)
def purse(fit: Fit) -> Purse:
    return Purse()
