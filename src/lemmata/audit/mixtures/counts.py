"""Components that count, in plain NumPy: Bernoulli, Poisson, multinomial, categorical, with the methods of gaussians.py.

>>> class Fitted:
...     rates_, weights_, family_ = np.array([[2.0]]), np.ones(1), type("Poisson", (), {"smoothing": 0.0})
...     def has(self, name): return name == "rates_"
>>> Poissons(Fitted()).joint(np.array([[0.0], [2.0]])).ravel().round(4)
array([-2.    , -1.3069])
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from scipy.special import gammaln

from lemmata.audit.mixtures.gaussians import log_of

Array = np.ndarray
SUMS = 1e-9


class CountComponents:
    """Families whose log-density is linear in t(x): log p(x; v) = L(t(x); v) + h(x), with v the means of t(x).

    A row that contradicts a probability of 0 or 1 has ln p = −∞.
    """

    estimated = False  # there is no width beside the mean
    rows_needed = 1

    def __init__(self, fit: Any, unit: float = 1.0):
        self.pi = np.asarray(fit.weights_, dtype=np.float64)
        values = fit.rates_ if fit.has("rates_") else fit.probabilities_
        self.values = np.asarray(values, dtype=np.float64)
        self.smoothing = float(fit.family_.smoothing) / unit
        self.sizes = np.asarray(fit.n_categories_ if fit.has("n_categories_") else ())
        self.k, self.m = self.values.shape

    def work(self, n: int) -> float:
        return n * self.k * (3.0 * self.m + 20)

    def solver_work(self, n: int) -> float:
        return n * self.k * (self.m + 20)

    def with_parameters(self, pi: Array, values: Array) -> Any:
        other = copy.copy(self)
        other.pi, other.values, other.k = pi, values, len(pi)
        return other

    def vector(self) -> Array:
        return np.concatenate([self.pi, self.values.ravel()])

    def of_vector(self, v: Array) -> Any:
        pi, values = v[: self.k], v[self.k :].reshape(self.values.shape)
        if not ((pi >= 0).all() and pi.any() and self.possible(values)):
            raise np.linalg.LinAlgError("no components")
        return self.with_parameters(pi / pi.sum(), values)

    def possible(self, values: Array) -> bool:
        return bool(((values >= 0) & (values <= 1)).all())

    def statistic(self, rows: Array) -> Array:
        return rows

    def rest(self, rows: Array) -> Array:
        """h(x) of every row."""
        return np.zeros(len(rows))

    def linear(self, t: Array) -> Array:
        """L(t; v) for every row and every component."""
        raise TypeError(f"{type(self).__name__} defines no linear.")

    def best(self, N: Array, s: Array) -> Array:
        """The v that maximise the likelihood of N rows with sums s, and the prior."""
        raise TypeError(f"{type(self).__name__} defines no best.")

    def log_prior(self) -> float:
        return self.smoothing * float(self.prior_terms().sum()) if self.smoothing else 0.0

    def prior_terms(self) -> Array:
        """The logarithms that smoothing adds to the likelihood."""
        return _log(self.values)

    def joint(self, rows: Array) -> Array:
        return self.linear(self.statistic(rows)) + self.rest(rows)[:, None] + log_of(self.pi)

    def grain(self, rows: Array, r: Array) -> Array:
        """By how many eps ln p(x) may err where v is rounded to eps; the sums of what it is made of."""
        logs = np.abs(_log(self.values)) + np.abs(_log(1 - np.minimum(self.values, 1))) + 1
        sizes = (np.abs(self.statistic(rows)) + 1) @ (logs + self.values).T
        rest = self.rest(rows)
        return (r * sizes).sum(axis=1) + np.abs(np.where(np.isfinite(rest), rest, 0.0))

    def empty(self) -> list[Array]:
        return [np.zeros(self.k), np.zeros_like(self.values)]

    def add(self, sums: list[Array], rows: Array, r: Array) -> None:
        sums[0] += r.sum(axis=0)
        sums[1] += r.T @ self.statistic(rows)

    def step(self, sums: list[Array]) -> Any:
        counts, first = sums
        values = self.best(counts[:, None], first)
        # a component of which the rows say nothing stays as it is
        values = np.where((counts[:, None] > 0) & np.isfinite(values), values, self.values)
        return self.with_parameters(counts / counts.sum(), values)

    def merge(self, a: int, b: int) -> Any:
        keep = [j for j in range(self.k) if j != b]
        pi, values = self.pi.copy(), self.values.copy()
        total = max(pi[a] + pi[b], np.finfo(float).tiny)
        values[a] = (pi[a] * values[a] + pi[b] * values[b]) / total
        pi[a] += pi[b]
        return self.with_parameters(pi[keep], values[keep])


def _log(values: Array) -> Array:
    """ln v, and 0 at 0: for sums in which 0·ln 0 = 0."""
    return np.log(np.where(values > 0, values, 1.0))


def _sums(t: Array, values: Array) -> Array:
    """Σ_a t_a ln v_ja, 0·ln 0 = 0; −∞ where t_a > 0 meets v_ja = 0."""
    contradicted = t @ (values == 0).T > 0
    return np.where(contradicted, -np.inf, t @ _log(values).T)


class Bernoullis(CountComponents):
    def linear(self, t):
        return _sums(t, self.values) + _sums(1 - t, 1 - self.values)

    def best(self, N, s):
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.clip((s + self.smoothing) / (N + 2 * self.smoothing), 0, 1)

    def prior_terms(self):
        return _log(self.values) + _log(1 - self.values)


class Poissons(CountComponents):
    def possible(self, values):
        return bool(((values >= 0) & (values < np.inf)).all())

    def rest(self, rows):
        return -gammaln(rows + 1).sum(axis=1)

    def linear(self, t):
        return _sums(t, self.values) - self.values.sum(axis=1)

    def best(self, N, s):
        with np.errstate(invalid="ignore", divide="ignore"):
            return (s + self.smoothing) / (N + self.smoothing)

    def prior_terms(self):
        return _log(self.values) - self.values


class Multinomials(CountComponents):
    def possible(self, values):
        """Whether the probabilities of what excludes each other sum to 1, up to the rounding of a long leap."""
        firsts = np.cumsum([0, *self.sizes[:-1]])
        sums = np.add.reduceat(values, firsts, axis=1)
        return super().possible(values) and bool((np.abs(sums - 1) <= SUMS).all())

    def rest(self, rows):
        return gammaln(rows.sum(axis=1) + 1) - gammaln(rows + 1).sum(axis=1)

    def linear(self, t):
        return _sums(t, self.values)

    def best(self, N, s):
        s = s + self.smoothing
        with np.errstate(invalid="ignore", divide="ignore"):
            return s / s.sum(axis=1, keepdims=True)


class Categoricals(Multinomials):
    def statistic(self, rows):
        parts = [rows[:, a, None] == np.arange(size) for a, size in enumerate(self.sizes)]
        return np.concatenate(parts, axis=1) * 1.0

    def rest(self, rows):
        # codes never seen in the fit
        return np.where((rows >= self.sizes).any(axis=1), -np.inf, 0.0)

    def best(self, N, s):
        parts = np.split(s + self.smoothing, np.cumsum(self.sizes)[:-1], axis=1)
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.hstack([part / part.sum(axis=1, keepdims=True) for part in parts])


COUNTING: dict[str, type[CountComponents]] = {
    "Bernoulli": Bernoullis,
    "Poisson": Poissons,
    "multinomial": Multinomials,
    "categorical": Categoricals,
}
