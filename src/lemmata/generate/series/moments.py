"""Lagged products of series: all that autoregression of order q has to know of them.

    c_k = Σ_t x_t x_{t+k},  0 ≤ k ≤ q          and the products among the first q and among the last q values

c_k / n is the biased estimate of the autocovariance (CIL (5.5)); dividing by n and not by n − k makes the Toeplitz matrix of
the c_k positive semidefinite: it is AᵀA/n for the matrix A of the shifted series, padded with zeros. The sums that Burg's
method and least squares need begin later, at t = m, and end with the series,

    Φ_m[i, j] = Σ_{t ≥ m} x_{t−i} x_{t−j} = c_{|i−j|} − products before the first such t − products after the last,

so they follow from the same numbers. Everything adds up over series, and moving the origin by δ changes it in closed form.

    >>> whole = LaggedProducts.of(np.arange(8.0)[None], 2)
    >>> whole.products
    array([140., 112.,  85.])
    >>> (LaggedProducts.of(np.ones((3, 5)), 2) + whole).counts      # pairs at each lag
    array([23., 19., 15.])
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lemmata.core.engine import run_tasks

Array = np.ndarray
CHUNK = 2**14  # values at a time: they stay in the cache while all lags are formed
TASK = (
    2**21
)  # values that a thread takes, 6 ms of work: below, waking threads costs more than they save


@dataclass(frozen=True)
class LaggedProducts:
    """Products of series about an origin, up to a lag q. `of` makes them, `+` adds series up."""

    counts: Array  # (q + 1,) pairs at each lag
    products: Array  # (q + 1,) c_k
    head: Array  # (q, q) Σ over series of x_a x_b, a, b < q
    tail: Array  # (q, q) the same of x_{n−1−a} x_{n−1−b}
    edges: Array  # (2, q) Σ over series of x_a, and of x_{n−1−a}
    total: float  # Σ x
    series: float  # how many there are
    origin: float  # subtracted from all values

    @classmethod
    def of(cls, X: Array, order: int, origin: float = 0.0) -> LaggedProducts:
        """Form the products of series of equal length n > order, the rows of X."""
        S, n = X.shape
        first, last = X[:, :order] - origin, X[:, ::-1][:, :order] - origin
        if S == 1:
            products, total = sum_products(X[0], order, origin)
        else:
            Y = X - origin
            total = float(Y.sum())
            pairs = ((Y[:, : n - k], Y[:, k:]) for k in range(order + 1))
            products = np.array([np.einsum("st,st->", *pair) for pair in pairs])
        return cls(
            S * (n - np.arange(order + 1.0)), products, first.T @ first, last.T @ last,
            np.stack([first.sum(axis=0), last.sum(axis=0)]), total, float(S), origin,
        )  # fmt: skip

    def about(self, origin: float) -> LaggedProducts:
        """Return the products about another origin: x − δ for x."""
        by = origin - self.origin
        shared = np.concatenate([[0.0], np.cumsum(self.edges.sum(axis=0))])  # left out at each lag
        products = self.products - by * (2 * self.total - shared) + self.counts * by**2
        head, tail = (
            gram - by * np.add.outer(edge, edge) + self.series * by**2
            for gram, edge in zip((self.head, self.tail), self.edges, strict=True)
        )
        total = self.total - self.counts[0] * by
        return LaggedProducts(
            self.counts, products, head, tail, self.edges - self.series * by, total, self.series, origin,
        )  # fmt: skip

    def __add__(self, other: LaggedProducts) -> LaggedProducts:
        other = other.about(self.origin)
        return LaggedProducts(
            self.counts + other.counts, self.products + other.products, self.head + other.head, self.tail + other.tail,
            self.edges + other.edges, self.total + other.total, self.series + other.series, self.origin,
        )  # fmt: skip

    @property
    def order(self) -> int:
        return len(self.products) - 1

    @property
    def mean(self) -> float:
        return self.origin + self.total / float(self.counts[0])

    @property
    def autocovariance(self) -> Array:
        """c_k / n, (q + 1,): biased, and so positive semidefinite."""
        return self.products / self.counts[0]

    def sums_from_time(self, m: int) -> Array:
        """Σ_{t ≥ m} x_{t−i} over all series, (m + 1,)."""
        before, after = (np.concatenate([[0.0], np.cumsum(edge[:m])]) for edge in self.edges)
        return self.total - before[::-1] - after

    def from_time(self, m: int) -> Array:
        """Φ_m, (m + 1, m + 1): Σ_{t ≥ m} x_{t−i} x_{t−j}, over all series."""
        found = np.empty((m + 1, m + 1))
        for lag in range(m + 1):
            before = np.concatenate([[0.0], np.cumsum(np.diagonal(self.head, -lag)[: m - lag])])
            after = np.concatenate([[0.0], np.cumsum(np.diagonal(self.tail, -lag)[: m - lag])])
            i = np.arange(m + 1 - lag)  # and j = i + lag
            values = self.products[lag] - before[m - lag - i] - after[i]
            found[i, i + lag] = found[i + lag, i] = values
        return found


def sum_products(x: Array, order: int, origin: float) -> tuple[Array, float]:
    """Return c_k of one series, k ≤ order, and its sum, about an origin.

    The series is written in lines of L ≥ order values: a product at lag k is one of a line with itself or with the next line,
    so that two products of matrices hold all lags on their diagonals.
    """
    L = max(order, 8)
    chunk = max(CHUNK // L, 1) * L
    starts = range(0, len(x), TASK // chunk * chunk)
    found, sums = np.zeros((len(starts), 2, L, L)), np.zeros(len(starts))

    def form(task: int) -> None:
        y = np.empty(chunk + L)
        stop = min(starts[task] + starts.step, len(x))
        for a in range(starts[task], stop, chunk):
            here = x[a : a + chunk + order]
            y[len(here) :] = 0.0
            np.subtract(here, origin, out=y[: len(here)])
            sums[task] += y[: min(chunk, stop - a)].sum()
            lines = y.reshape(-1, L)
            found[task, 0] += lines[:-1].T @ lines[:-1]
            found[task, 1] += lines[:-1].T @ lines[1:]

    if len(starts) == 1:
        form(0)
    else:
        run_tasks(form, len(starts))
    same, following = found.sum(axis=0)
    lags = range(order + 1)
    products = np.array([np.trace(same, k) + np.trace(following, k - L) for k in lags])
    return products, float(sums.sum())
