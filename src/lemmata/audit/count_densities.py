"""Densities and M-steps of components that count, in plain NumPy: the other half of plain_mixtures.

>>> class Fitted:
...     rates_, family_ = np.array([[2.0]]), type("Poisson", (), {"smoothing": 0.0})
...     def has(self, name): return name == "rates_"
>>> Poissons(Fitted()).log_density(np.array([[0.0], [2.0]])).ravel().round(4)
array([-2.    , -1.3069])
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import gammaln

from lemmata.audit.densities import direction

Array = np.ndarray


class Counts:
    """Families whose log-density is linear in t(x): log p(x; v) = L(1, t(x); v) + h(x), and L(N, s; v) for sums over rows.

    A probability of zero counts as e^−745, the smallest float64: what the family promises of rows that contradict it.
    """

    def __init__(self, fit: Any):
        self.values = np.asarray(
            fit.rates_ if fit.has("rates_") else fit.probabilities_, dtype=np.float64
        )
        self.smoothing = float(fit.family_.smoothing)
        self.sizes = np.asarray(fit.n_categories_ if fit.has("n_categories_") else ())
        self.k, self.m = self.values.shape

    rows_needed = 1

    def statistic(self, rows: Array) -> Array:
        return rows

    def rest(self, rows: Array) -> Array:
        """h(x) of every row."""
        return np.zeros(len(rows))

    def linear(self, N: Array, s: Array, v: Array) -> Array:
        """L(N, s; v) for every row of N and s, and every component of v."""
        raise TypeError(f"{type(self).__name__} defines no linear.")

    def best(self, N: Any, s: Array) -> Array:
        """The v that maximises L(N, s; v), with smoothing."""
        raise TypeError(f"{type(self).__name__} defines no best.")

    def log_density(self, rows: Array) -> Array:
        return (
            self.linear(np.ones(len(rows)), self.statistic(rows), self.values)
            + self.rest(rows)[:, None]
        )

    def empty(self) -> tuple[Array, Array, float]:
        return np.zeros(self.k), np.zeros_like(self.values), 0.0

    def add(self, sums, rows: Array, r: Array):
        counts, first, rest = sums
        return (
            counts + r.sum(axis=0),
            first + r.T @ self.statistic(rows),
            rest + r.sum(axis=1) @ self.rest(rows),
        )

    def step(self, sums) -> tuple[Array, Array]:
        counts, first, _ = sums
        return counts, np.where(counts[:, None] > 0, self.best(counts[:, None], first), self.values)

    def variances(self) -> Array:
        """Of t(x), of which the values are the means (for one trial, where there are several)."""
        return self.values

    def behind(self, sums) -> Array:
        """(k,): how many trials the values are means of."""
        return sums[0]

    def trials(self, rows: Array) -> Any:
        """How many trials each row is, (n, 1)."""
        return 1.0

    def _moves(self, after: Array) -> Array:
        """The step in the natural parameters (k, m): that of the means over the variances."""
        return np.divide(
            after - self.values,
            self.variances(),
            out=np.zeros_like(self.values),
            where=self.variances() > 0,
        )

    def scores(self, rows: Array, r: Array, after: Array) -> Array:
        t, trials, moves = (
            self.statistic(rows),
            self.trials(rows),
            [direction(step) for step in self._moves(after)],
        )
        return np.stack(
            [r[:, j] * ((t - trials * self.values[j]) @ moves[j]) for j in range(self.k)], axis=1
        )

    def pull(self, sums, after: Array) -> Array:
        moves = np.array([direction(step) for step in self._moves(after)])
        return self.behind(sums) * ((after - self.values) * moves).sum(axis=1)

    def distance(self, after: Array) -> float:
        return float(np.abs(after - self.values).max())

    def thinnest(self, sums) -> tuple[float, bool]:
        return np.nan, False

    def alone(self, sums) -> float:
        counts, first, rest = sums
        n, total = counts.sum(), first.sum(axis=0, keepdims=True)
        return float(self.linear(np.array([n]), total, self.best(n, total))[0, 0] + rest)

    def n_parameters(self, k: int) -> int:
        return k * self.m


def _log(values: Array) -> Array:
    with np.errstate(divide="ignore"):
        return np.maximum(np.log(values), -745.0)


class Bernoullis(Counts):
    def variances(self):
        return self.values * (1 - self.values)

    def linear(self, N, s, v):
        return s @ _log(v).T + (N[:, None] - s) @ _log(1 - v).T

    def best(self, N, s):
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.clip((s + self.smoothing) / (N + 2 * self.smoothing), 0, 1)


class Poissons(Counts):
    def rest(self, rows):
        return -gammaln(rows + 1).sum(axis=1)

    def linear(self, N, s, v):
        return s @ _log(v).T - N[:, None] * v.sum(axis=1)

    def best(self, N, s):
        with np.errstate(invalid="ignore", divide="ignore"):
            return (s + self.smoothing) / (N + self.smoothing)

    def distance(self, after):
        """In standard deviations, which are √λ."""
        deviations = np.sqrt(np.maximum(self.values, after))
        return float((np.abs(after - self.values) / np.where(deviations > 0, deviations, 1)).max())


class Multinomials(Counts):
    def behind(self, sums):
        return sums[1].sum(axis=1)

    def trials(self, rows):
        return rows.sum(axis=1, keepdims=True)

    def rest(self, rows):
        return gammaln(rows.sum(axis=1) + 1) - gammaln(rows + 1).sum(axis=1)

    def linear(self, N, s, v):
        return s @ _log(v).T

    def best(self, N, s):
        s = s + self.smoothing
        with np.errstate(invalid="ignore", divide="ignore"):
            return s / s.sum(axis=1, keepdims=True)

    def n_parameters(self, k):
        return k * (self.m - 1)


class Categoricals(Counts):
    def statistic(self, rows):
        return (
            np.concatenate(
                [rows[:, a, None] == np.arange(size) for a, size in enumerate(self.sizes)], axis=1
            )
            * 1.0
        )

    def rest(self, rows):
        return -745.0 * (rows >= self.sizes).sum(axis=1)  # codes never seen in the fit

    def linear(self, N, s, v):
        return s @ _log(v).T

    def best(self, N, s):
        parts = np.split(s + self.smoothing, np.cumsum(self.sizes)[:-1], axis=1)
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.concatenate(
                [part / part.sum(axis=1, keepdims=True) for part in parts], axis=1
            )

    def n_parameters(self, k):
        return k * int((self.sizes - 1).sum())


COUNTING: dict[str, type[Counts]] = {
    "Bernoulli": Bernoullis,
    "Poisson": Poissons,
    "multinomial": Multinomials,
    "categorical": Categoricals,
}
