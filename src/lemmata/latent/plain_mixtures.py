"""Densities and M-steps of mixture components in plain NumPy: what the claims about a mixture audit a fit with.

Nothing here is used by a solver, and nothing of a solver is used here. A family reads the public attributes of a fit; `add`
sums what the responsibilities r (n × k, weights included) say about rows, `step` turns the sums into the next parameters.
Missing values (NaN) are marginalised: with o the observed and m the missing features of a row,

    p(x_o) = N(μ_o, Σ_oo),    E[x_m | x_o] = μ_m + Σ_mo Σ_oo⁻¹ (x_o − μ_o),    Cov[x_m | x_o] = Σ_mm − Σ_mo Σ_oo⁻¹ Σ_om

    >>> rows = np.array([[1.0, np.nan], [0.0, 2.0], [3.0, np.nan]])
    >>> [(seen.tolist(), which.tolist()) for seen, which in observed_patterns(rows)]
    [([True, True], [1]), ([True, False], [0, 2])]
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.linalg import cholesky, eigh, solve_triangular
from scipy.special import gammaln

Array = np.ndarray
LOG_2PI = float(np.log(2 * np.pi))
TINY = 1e-8  # of the data's variance: a ten-thousandth of its standard deviation
CHOSEN = 1e-3  # of the data's variance: a reg_covar beyond it is a width somebody chose, not a safeguard
HUGE = 1e100  # times the data's variance: where a ratio is cut off
ESTIMATED = ("full", "tied", "diag", "spherical")  # the other types keep the covariance they were given


def plain_components(fit: Any) -> Any:
    """The family of a fit, from its public attributes."""
    if fit.has("covariances_"):
        kind = fit.covariance_type if fit.has("covariance_type") else fit.family_.name
        return DiagonalGaussians(fit, kind) if kind in ("diag", "spherical", "unit") else DenseGaussians(fit, kind)
    return COUNTING[fit.family_.name](fit)


def observed_patterns(rows: Array) -> Iterator[tuple[Array, Array]]:
    """Pairs (observed features, indices of the rows that have just these)."""
    missing = np.isnan(rows)
    if not missing.any():
        yield np.ones(rows.shape[1], dtype=bool), np.arange(len(rows))
        return
    kinds, which = np.unique(missing, axis=0, return_inverse=True)
    for i, kind in enumerate(kinds):
        yield ~kind, np.flatnonzero(which.ravel() == i)


class Gaussians:
    """What the two kinds of Gaussian share. Sums are taken about the current means: no digits are lost far from zero."""

    def __init__(self, fit: Any, kind: str):
        self.kind, self.means = kind, np.asarray(fit.means_, dtype=np.float64)
        self.k, self.d = self.means.shape
        owner = fit if fit.has("reg_covar") else fit.family_
        self.reg = float(owner.reg_covar) if kind in ESTIMATED else 0.0
        self.covariances = np.broadcast_to(self.axes(np.asarray(fit.covariances_, dtype=np.float64)), self.shape())
        self.tiny = max(TINY, 8 * float(np.finfo(np.asarray(fit.covariances_).dtype).eps))
        self.holes = False  # whether a value was missing so far

    def axes(self, given: Array) -> Array:
        """Covariances in a form that broadcasts to `shape()`."""
        return given

    def shape(self) -> tuple[int, ...]:
        return (self.k, self.d, self.d)

    def empty(self) -> tuple[Array, ...]:
        return np.zeros(self.k), np.zeros_like(self.means), np.zeros_like(self.covariances)

    def n_parameters(self, k: int) -> int:
        d = self.d
        shape = {"full": k * d * (d + 1) // 2, "tied": d * (d + 1) // 2, "diag": k * d, "spherical": k}
        return k * d + shape.get(self.kind, 0)

    @property
    def rows_needed(self) -> int:
        return self.d + 1 if self.kind == "full" else 2 if self.kind in ("diag", "spherical") else 1


class DenseGaussians(Gaussians):
    """Covariances with correlations: full, tied, fixed."""

    def log_density(self, rows: Array) -> Array:
        out = np.empty((len(rows), self.k))
        for seen, which in observed_patterns(rows):
            for j in range(self.k):
                L = cholesky(self.covariances[j][np.ix_(seen, seen)], lower=True)
                y = solve_triangular(L, (rows[np.ix_(which, seen)] - self.means[j, seen]).T, lower=True)
                logs = np.log(np.diagonal(L)).sum()
                out[which, j] = -0.5 * (seen.sum() * LOG_2PI + np.einsum("di,di->i", y, y)) - logs
        return out

    def add(self, sums, rows: Array, r: Array):
        counts, first, second = sums
        for seen, which in observed_patterns(rows):
            for j in range(self.k):
                w, S = r[which, j], self.covariances[j]
                x = np.zeros((len(which), self.d))
                x[:, seen] = rows[np.ix_(which, seen)] - self.means[j, seen]
                if not seen.all():
                    self.holes, hole = True, ~seen
                    back = np.linalg.solve(S[np.ix_(seen, seen)], S[np.ix_(seen, hole)])  # Σ_oo⁻¹ Σ_om
                    x[:, hole] = x[:, seen] @ back
                    second[j][np.ix_(hole, hole)] += w.sum() * (S[np.ix_(hole, hole)] - S[np.ix_(hole, seen)] @ back)
                first[j] += w @ x
                second[j] += (x.T * w) @ x
        return counts + r.sum(axis=0), first, second

    def step(self, sums) -> tuple[Array, tuple[Array, Array]]:
        """Counts, and (means, covariances) of the next M-step. A component without rows stays as it is."""
        counts, first, second = sums
        safe = np.where(counts > 0, counts, 1.0)
        shift = first / safe[:, None]
        scatter = second - counts[:, None, None] * _outer(shift)
        ridge = self.reg * np.eye(self.d)
        if self.kind == "full":
            covariances = scatter / safe[:, None, None] + ridge
        elif self.kind == "tied":
            covariances = np.broadcast_to(scatter.sum(axis=0) / counts.sum() + ridge, scatter.shape)
        else:
            covariances = self.covariances
        return counts, (self.means + shift, np.where(counts[:, None, None] > 0, covariances, self.covariances))

    def _total(self, sums) -> tuple[Array, Array]:
        """Mean (from the first component's) and covariance of all rows: the responsibilities of a row sum to one."""
        counts, first, second = sums
        n, away = counts.sum(), self.means - self.means[0]
        mean = (first + counts[:, None] * away).sum(axis=0) / n
        off = away - mean
        cross = first[:, :, None] * off[:, None, :]
        return mean, (second + cross + cross.transpose(0, 2, 1) + counts[:, None, None] * _outer(off)).sum(axis=0) / n

    def distance(self, after: tuple[Array, Array]) -> float:
        """The largest move of a mean in standard deviations, or of a variance in any direction, relative to it."""
        moves = [0.0]
        for j in range(self.k):
            L = cholesky(self.covariances[j], lower=True)
            moves.append(float(np.linalg.norm(solve_triangular(L, after[0][j] - self.means[j], lower=True))))
            half = solve_triangular(L, after[1][j], lower=True)
            moves.append(np.abs(np.linalg.eigvalsh(solve_triangular(L, half.T, lower=True)) - 1).max())
        return float(max(moves))

    def thinnest(self, sums) -> tuple[float, bool]:
        """min over components and directions v of vᵀ(Σ_j − ρ)v / vᵀ(ρ + εS)v, and whether the data itself is flat.

        S is the data's covariance, ρ what reg_covar adds: the variance of a component's own rows against the floor.
        """
        if self.kind not in ESTIMATED:
            return np.nan, False
        mean, S = self._total(sums)
        spread = np.sqrt(np.maximum(np.diagonal(S), 0))
        if _constant(spread, mean + self.means[0]).any():
            return 0.0, True
        scale = np.multiply.outer(spread, spread)
        with np.errstate(over="ignore"):  # a reg_covar that dwarfs the data
            floor = np.diag(np.minimum(self.reg / np.diagonal(scale), CHOSEN))
            own = np.clip(self.covariances / scale, -HUGE, HUGE) - floor
        S = S / scale
        flat = bool(np.linalg.eigvalsh(S)[0] <= 8 * self.d * np.finfo(float).eps)
        if flat and self.reg == 0:
            return 0.0, True
        ratios = [eigh(A, floor + self.tiny * S, eigvals_only=True)[0] for A in own]
        return float(max(min(ratios), 0.0)), flat

    def alone(self, sums) -> float:
        """The log-likelihood of one Gaussian of this kind, at its maximum."""
        if self.holes:
            return np.nan
        n, (_, S) = sums[0].sum(), self._total(sums)
        C = self.covariances[0] if self.kind == "fixed" else S + self.reg * np.eye(self.d)
        return float(-0.5 * n * (self.d * LOG_2PI + np.linalg.slogdet(C)[1] + np.trace(np.linalg.solve(C, S))))


class DiagonalGaussians(Gaussians):
    """Covariances without correlations: diag, spherical, unit. Missing values are independent of the others."""

    def axes(self, given: Array) -> Array:
        return given[:, None] if given.ndim == 1 else given

    def shape(self) -> tuple[int, ...]:
        return (self.k, self.d)

    def log_density(self, rows: Array) -> Array:
        out = np.empty((len(rows), self.k))
        for j in range(self.k):
            v = self.covariances[j]
            squares = LOG_2PI + np.log(v) + (rows - self.means[j]) ** 2 / v
            out[:, j] = -0.5 * np.nansum(squares, axis=1)
        return out

    def empty(self):
        return (*super().empty(), np.zeros_like(self.means))

    def add(self, sums, rows: Array, r: Array):
        """What is known of a feature says all there is to say: a fourth sum counts the rows that have it."""
        counts, first, second, known = sums
        seen = ~np.isnan(rows)
        self.holes = self.holes or not seen.all()
        for j in range(self.k):
            x = np.where(seen, rows - self.means[j], 0.0)
            first[j] += r[:, j] @ x
            second[j] += r[:, j] @ (x * x)
            known[j] += r[:, j] @ seen
        return counts + r.sum(axis=0), first, second, known

    def step(self, sums):
        counts, first, second, known = sums
        safe = np.where(known > 0, known, 1.0)
        shift = first / safe
        scatter = second - known * shift**2
        if self.kind == "spherical":
            everything = scatter.sum(axis=1, keepdims=True) / safe.sum(axis=1, keepdims=True)
            variances = np.broadcast_to(everything + self.reg, scatter.shape)
        else:
            variances = scatter / safe + self.reg
        rest = known > 0 if self.kind != "unit" else np.zeros_like(known, dtype=bool)
        return counts, (self.means + shift, np.where(rest, variances, self.covariances))

    def _total(self, sums) -> tuple[Array, Array]:
        _, first, second, known = sums
        n, away = known.sum(axis=0), self.means - self.means[0]
        mean = (first + known * away).sum(axis=0) / n
        off = away - mean
        return mean, (second + 2 * first * off + known * off**2).sum(axis=0) / n

    def distance(self, after: tuple[Array, Array]) -> float:
        moved = np.sqrt(((after[0] - self.means) ** 2 / self.covariances).sum(axis=1)).max()
        return float(max(moved, np.abs(after[1] / self.covariances - 1).max()))

    def thinnest(self, sums) -> tuple[float, bool]:
        if self.kind not in ESTIMATED:
            return np.nan, False
        mean, variances = self._total(sums)
        if self.kind == "spherical":
            variances = np.full(self.d, variances.mean())
        if _constant(np.sqrt(np.maximum(variances, 0)), mean + self.means[0]).any():
            return 0.0, True
        with np.errstate(over="ignore"):
            floor = np.minimum(self.reg / variances, CHOSEN)
            own = np.minimum(self.covariances / variances, HUGE) - floor
        return float(max((own / (floor + self.tiny)).min(), 0.0)), False

    def alone(self, sums) -> float:
        if self.holes:
            return np.nan
        n, (_, S) = sums[0].sum(), self._total(sums)
        v = S + self.reg
        v = v if self.kind == "diag" else np.full(self.d, v.mean()) if self.kind == "spherical" else self.covariances[0]
        return float(-0.5 * n * (LOG_2PI + np.log(v) + S / v).sum())


def _outer(v: Array) -> Array:
    return v[:, :, None] * v[:, None, :]


def _constant(spread: Array, mean: Array) -> Array:
    """Features whose spread is what rounding their values to floats leaves of none."""
    return spread <= 8 * np.finfo(float).eps * np.maximum(np.abs(mean), np.finfo(float).tiny)


class Counts:
    """Families whose log-density is linear in t(x): log p(x; v) = L(1, t(x); v) + h(x), and L(N, s; v) for sums over rows.

    A probability of zero counts as e^−745, the smallest float64: what the family promises of rows that contradict it.
    """

    def __init__(self, fit: Any):
        self.values = np.asarray(fit.rates_ if fit.has("rates_") else fit.probabilities_, dtype=np.float64)
        self.smoothing = float(fit.family_.smoothing)
        self.sizes = np.asarray(fit.n_categories_ if fit.has("n_categories_") else ())
        self.k, self.m = self.values.shape

    rows_needed = 1

    def told(self, rows: Array) -> Array:
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
        return self.linear(np.ones(len(rows)), self.told(rows), self.values) + self.rest(rows)[:, None]

    def empty(self) -> tuple[Array, Array, float]:
        return np.zeros(self.k), np.zeros_like(self.values), 0.0

    def add(self, sums, rows: Array, r: Array):
        counts, first, rest = sums
        return counts + r.sum(axis=0), first + r.T @ self.told(rows), rest + r.sum(axis=1) @ self.rest(rows)

    def step(self, sums) -> tuple[Array, Array]:
        counts, first, _ = sums
        return counts, np.where(counts[:, None] > 0, self.best(counts[:, None], first), self.values)

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
    def told(self, rows):
        return np.concatenate([rows[:, a, None] == np.arange(size) for a, size in enumerate(self.sizes)], axis=1) * 1.0

    def rest(self, rows):
        return -745.0 * (rows >= self.sizes).sum(axis=1)  # codes never seen in the fit

    def linear(self, N, s, v):
        return s @ _log(v).T

    def best(self, N, s):
        parts = np.split(s + self.smoothing, np.cumsum(self.sizes)[:-1], axis=1)
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.concatenate([part / part.sum(axis=1, keepdims=True) for part in parts], axis=1)

    def n_parameters(self, k):
        return k * int((self.sizes - 1).sum())


COUNTING: dict[str, type[Counts]] = {
    "Bernoulli": Bernoullis,
    "Poisson": Poissons,
    "multinomial": Multinomials,
    "categorical": Categoricals,
}
