"""Gaussian components in plain NumPy: densities and M-steps.

Nothing here is used by a solver, and nothing of a solver is used here. `components_of(fit)` reads the public attributes of a
fit. Components have `joint` (ln π_j + ln p(x; θ_j)), `add`, which sums what responsibilities r (n × k, weights included) say
about rows, and `step`, which turns the sums into the components of the next M-step.

Numbers are kept in units of the components' own widths, a power of two per feature, so that data of size 1e±150 is squared
without harm; densities are those of the raw rows.

Missing values (NaN) are marginalised: with o the observed and m the missing features of a row,

    p(x_o) = N(μ_o, Σ_oo),    E[x_m | x_o] = μ_m + Σ_mo Σ_oo⁻¹ (x_o − μ_o),    Cov[x_m | x_o] = Σ_mm − Σ_mo Σ_oo⁻¹ Σ_om

    >>> rows = np.array([[1.0, np.nan], [0.0, 2.0], [3.0, np.nan]])
    >>> [(seen.tolist(), which.tolist()) for seen, which in observed_patterns(rows)]
    [([True, True], [1]), ([True, False], [0, 2])]
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.linalg import cholesky, solve_triangular

Array = np.ndarray
LOG_2PI = float(np.log(2 * np.pi))
EPS = float(np.finfo(float).eps)
HARDLY = 1e-9  # of a row: a smaller membership r adds r·ln r to an error, nothing
# the other types keep the covariance they were given
ESTIMATED = ("full", "tied", "diag", "spherical")
SHAPES = {"full": "kdd", "tied": "dd", "fixed": "dd", "diag": "kd", "spherical": "k", "unit": "k"}


def components_of(fit: Any, unit: float = 1.0) -> Any:
    """The components of a fit, from its public attributes. unit : the weight of a row that counts as one (for priors)."""
    if fit.has("covariances_"):
        kind = kind_of(fit)
        return (DenseGaussians if SHAPES[kind][-2:] == "dd" else AxisGaussians)(fit, kind)
    from lemmata.audit.mixtures.counts import COUNTING

    return COUNTING[fit.family_.name](fit, unit)


def kind_of(fit: Any) -> str:
    """The type of the covariances."""
    return str(fit.covariance_type if fit.has("covariance_type") else fit.family_.name)


def log_of(weights: Array) -> Array:
    """ln π, −∞ for a component without weight."""
    with np.errstate(divide="ignore"):
        return np.log(weights)


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
    """The base of both kinds of Gaussian. Sums are taken about the current means: no digits are lost far from zero."""

    dense = False  # whether covariances are matrices, (k, d, d), or variances, (k, d)

    def __init__(self, fit: Any, kind: str):
        self.kind, self.means = kind, np.asarray(fit.means_, dtype=np.float64)
        self.k, self.d = self.means.shape
        self.pi = np.asarray(fit.weights_, dtype=np.float64)
        given = np.asarray(fit.covariances_, dtype=np.float64)
        self.unit = self._units(given)
        self.log_unit = np.log(self.unit)
        if self.dense:
            inside = given / self.unit / self.unit[:, None]
        else:
            inside = (given[:, None] if given.ndim == 1 else given) / self.unit / self.unit
        shape = (self.k, self.d, self.d) if self.dense else (self.k, self.d)
        self.covariances = np.broadcast_to(inside, shape).copy()
        owner = fit if fit.has("reg_covar") else fit.family_
        with np.errstate(over="ignore"):
            reg = float(owner.reg_covar) if kind in ESTIMATED else 0.0
            self.reg = reg / self.unit / self.unit  # (d,)
        self._factors: Any = None

    def _units(self, given: Array) -> Array:
        """A power of two near the widest component of each feature; one for all where features share their variance."""
        if self.kind == "unit":
            variances = np.ones(self.d)
        elif self.dense:
            variances = np.einsum("...aa->...a", given).reshape(-1, self.d).max(axis=0)
        else:
            variances = np.full(self.d, given.max()) if given.ndim == 1 else given.max(axis=0)
        with np.errstate(divide="ignore", invalid="ignore"):
            powers = np.round(0.5 * np.log2(variances))
        return np.exp2(np.where(np.isfinite(powers), powers, 0.0))

    def with_parameters(self, pi: Array, means: Array, covariances: Array) -> Any:
        """Components of the same kind elsewhere; covariances in units."""
        other = copy.copy(self)
        other.pi, other.means, other.covariances, other._factors = pi, means, covariances, None
        other.k = len(pi)
        return other

    def vector(self) -> Array:
        """All parameters in one row, in units."""
        shared = {"tied": self.covariances[:1], "spherical": self.covariances[:, :1]}
        own = shared.get(self.kind, self.covariances).ravel() if self.estimated else ()
        return np.concatenate([self.pi, (self.means / self.unit).ravel(), own])

    def of_vector(self, v: Array) -> Any:
        """The components with these parameters; LinAlgError where they are none."""
        k, size = self.k, self.means.size
        pi, means = v[:k], v[k : k + size].reshape(self.means.shape) * self.unit
        covariances = self.covariances
        if self.estimated:
            shared = {"tied": (1, self.d, self.d), "spherical": (k, 1)}
            own = v[k + size :].reshape(shared.get(self.kind, covariances.shape))
            covariances = np.broadcast_to(own, covariances.shape)
        possible = (pi >= 0).all() and pi.any() and (self.dense or (covariances > 0).all())
        if not possible:
            raise np.linalg.LinAlgError("no components")
        other = self.with_parameters(pi / pi.sum(), means, covariances)
        if self.dense:
            other.factors  # noqa: B018  (raises)
        return other

    def without_ridge(self) -> Any:
        other = copy.copy(self)
        other.reg = np.zeros(self.d)
        return other

    def log_prior(self) -> float:
        return 0.0

    @property
    def estimated(self) -> bool:
        """Whether the data say anything about widths."""
        return self.kind in ESTIMATED

    @property
    def rows_needed(self) -> int:
        """A covariance of d features has full rank only from d + 1 rows on; a variance from two; a mean needs one."""
        return self.d + 1 if self.kind == "full" else 2 if self.kind in ("diag", "spherical") else 1

    def merge(self, a: int, b: int) -> Any:
        """One component fewer: a and b become one with the mean and covariance of both."""
        keep = [j for j in range(self.k) if j != b]
        pi, means, covariances = self.pi.copy(), self.means.copy(), np.array(self.covariances)
        share = pi[[a, b]] / max(pi[a] + pi[b], np.finfo(float).tiny)
        away = (means[b] - means[a]) / self.unit
        means[a] += share[1] * away * self.unit
        between = share[0] * share[1] * (np.multiply.outer(away, away) if self.dense else away**2)
        if self.kind == "tied":
            covariances = covariances + (pi[a] + pi[b]) * between
        elif self.kind == "full":
            covariances[a] = share[0] * covariances[a] + share[1] * covariances[b] + between
        elif self.estimated:
            covariances[a] = share @ covariances[[a, b]] + between
        if self.kind == "spherical":
            covariances[a] = covariances[a].mean()
        pi[a] += pi[b]
        return self.with_parameters(pi[keep], means[keep], covariances[keep])


class DenseGaussians(Gaussians):
    """Covariances with correlations: full, tied, fixed; (k, d, d)."""

    dense = True

    def work(self, n: int) -> float:
        """Multiplications of an E-step and its sums, here, as measured: those of products count less than elementwise ones."""
        return n * self.k * (0.125 * self.d**2 + 5.0 * self.d + 10)

    def solver_work(self, n: int) -> float:
        """The same in a solver's kernel."""
        return n * self.k * (0.15 * self.d**2 + 2.0 * self.d + 10)

    @property
    def factors(self) -> Array:
        """L with LLᵀ = Σ_j, (k, d, d); LinAlgError where there is none."""
        if self._factors is None:
            own = np.linalg.cholesky(self._own(self.covariances))
            self._factors = np.broadcast_to(own, self.covariances.shape)
        return self._factors

    def whiten(self, rows: Array, seen: Array, j: int) -> tuple[Array, Array]:
        """L⁻¹(x − μ_j) of rows that have these features, (seen, n), and the diagonal of L."""
        x = (rows[:, seen] - self.means[j, seen]) / self.unit[seen]
        L = self.factors[j]
        if not seen.all():
            L = cholesky(self.covariances[j][np.ix_(seen, seen)], lower=True)
        return solve_triangular(L, x.T, lower=True, check_finite=False), np.diagonal(L)

    def joint(self, rows: Array) -> Array:
        if not np.isnan(rows).any():
            return self._joint_of_complete(rows)
        out = np.empty((len(rows), self.k))
        for seen, which in observed_patterns(rows):
            for j in range(self.k):
                y, diagonal = self.whiten(rows[which], seen, j)
                logs = np.log(diagonal).sum() + self.log_unit[seen].sum()
                out[which, j] = -0.5 * (seen.sum() * LOG_2PI + np.einsum("di,di->i", y, y)) - logs
        return out + log_of(self.pi)

    def _joint_of_complete(self, rows: Array) -> Array:
        """The same for all components at once, where nothing is missing."""
        L = self._own(self.factors)
        y = self._away(rows) @ np.linalg.inv(L).transpose(0, 2, 1)
        logs = np.log(np.einsum("jaa->ja", L)).sum(axis=1) + self.log_unit.sum()
        squares = np.einsum("jid,jid->ij", y, y)
        return -0.5 * (self.d * LOG_2PI + squares) - logs + log_of(self.pi)

    def _away(self, rows: Array) -> Array:
        """x − μ_j in units, (k, n, d)."""
        return (rows - self.means[:, None]) / self.unit

    def _own(self, matrices: Array) -> Array:
        """One matrix for all where they share it."""
        return matrices if self.kind == "full" else matrices[:1]

    def grain(self, rows: Array, r: Array) -> Array:
        """(n,): by how many eps ln p(x) may err where x, μ and Σ are rounded to eps, or x − μ loses digits."""
        out = np.zeros(len(rows))
        for seen, pattern in observed_patterns(rows):
            for j in range(self.k):
                which = pattern[r[pattern, j] > HARDLY]
                if not len(which):
                    continue
                y, _ = self.whiten(rows[which], seen, j)
                L = cholesky(self.covariances[j][np.ix_(seen, seen)], lower=True)
                P = np.abs(solve_triangular(L, np.eye(len(L)), lower=True))
                size = (2 * np.abs(self.means[j]) / self.unit + 1)[seen]
                shape = np.linalg.norm(P @ np.abs(L @ L.T) @ P.T)
                squares = np.einsum("di,di->i", y, y)
                out[which] += r[which, j] * (
                    np.abs(y).T @ (P @ size) + 0.5 * shape * (squares + len(L))
                )
        return out

    def complete(self, rows: Array, seen: Array, j: int) -> tuple[Array, Array]:
        """E[x − μ_j | x_o] of rows that have these features, and the covariance of the others, (d, d), zero elsewhere."""
        x, rest, S = np.zeros((len(rows), self.d)), np.zeros((self.d, self.d)), self.covariances[j]
        x[:, seen] = (rows[:, seen] - self.means[j, seen]) / self.unit[seen]
        if not seen.all():
            hole = ~seen
            back = np.linalg.solve(S[np.ix_(seen, seen)], S[np.ix_(seen, hole)])  # Σ_oo⁻¹ Σ_om
            x[:, hole] = x[:, seen] @ back
            rest[np.ix_(hole, hole)] = S[np.ix_(hole, hole)] - S[np.ix_(hole, seen)] @ back
        return x, rest

    def empty(self) -> list[Array]:
        """Counts, Σ r x, Σ r xxᵀ of completed rows, and Σ r Cov of what is missing; x from the means, in units."""
        square = (self.k, self.d, self.d)
        return [np.zeros(self.k), np.zeros_like(self.means), np.zeros(square), np.zeros(square)]

    def add(self, sums: list[Array], rows: Array, r: Array) -> None:
        counts, first, second, hidden = sums
        counts += r.sum(axis=0)
        if not np.isnan(rows).any():
            x = self._away(rows)
            weighted = x * r.T[:, :, None]
            first += weighted.sum(axis=1)
            second += weighted.transpose(0, 2, 1) @ x
            return
        for seen, which in observed_patterns(rows):
            for j in range(self.k):
                w = r[which, j]
                x, rest = self.complete(rows[which], seen, j)
                first[j] += w @ x
                second[j] += (x.T * w) @ x
                hidden[j] += w.sum() * rest

    def step(self, sums: list[Array]) -> DenseGaussians:
        """The next M-step. A component without rows stays as it is."""
        counts, first, second, hidden = sums
        safe = np.where(counts > 0, counts, 1.0)
        shift = first / safe[:, None]
        scatter = second + hidden - counts[:, None, None] * outer(shift)
        full = (counts > 0)[:, None, None]
        covariances = self.covariances
        if self.kind == "full":
            own = scatter / safe[:, None, None] + np.diag(self.reg)
            covariances = np.where(full, own, self.covariances)
        elif self.kind == "tied":
            pooled = scatter.sum(axis=0) / counts.sum() + np.diag(self.reg)
            covariances = np.broadcast_to(pooled, scatter.shape)
        return self.with_parameters(
            counts / counts.sum(), self.means + shift * self.unit, covariances
        )


class AxisGaussians(Gaussians):
    """Covariances without correlations: diag, spherical, unit; (k, d). Missing values are independent of the others."""

    def work(self, n: int) -> float:
        return n * self.k * (3.0 * self.d + 10)

    def solver_work(self, n: int) -> float:
        return n * self.k * (1.5 * self.d + 10)

    def joint(self, rows: Array) -> Array:
        v = self.covariances
        constant = LOG_2PI + np.log(v) + 2 * self.log_unit  # (k, d)
        squares = ((rows - self.means[:, None]) / self.unit) ** 2  # (k, n, d)
        known = ~np.isnan(rows)
        if known.all():
            constants = constant.sum(axis=1)
        else:
            squares, constants = np.where(known, squares, 0.0), known @ constant.T
        return -0.5 * (np.einsum("jid,jd->ij", squares, 1 / v) + constants) + log_of(self.pi)

    def grain(self, rows: Array, r: Array) -> Array:
        out = np.zeros(len(rows))
        for j in range(self.k):
            deviation, which = np.sqrt(self.covariances[j]), np.flatnonzero(r[:, j] > HARDLY)
            y = np.abs(np.nan_to_num((rows[which] - self.means[j]) / self.unit)) / deviation
            size = (2 * np.abs(self.means[j]) / self.unit + 1) / deviation
            out[which] += r[which, j] * (y @ size + 0.5 * ((y**2).sum(axis=1) + self.d))
        return out

    def empty(self) -> list[Array]:
        """Counts, Σ r x, Σ r x² and Σ r of the rows that have the feature; x from the means, in units."""
        return [np.zeros(self.k), *(np.zeros_like(self.means) for _ in range(3))]

    def add(self, sums: list[Array], rows: Array, r: Array) -> None:
        counts, first, second, known = sums
        counts += r.sum(axis=0)
        seen = ~np.isnan(rows)
        x = (rows - self.means[:, None]) / self.unit  # (k, n, d)
        if not seen.all():
            x = np.where(seen, x, 0.0)
        by_component = r.T[:, None]  # (k, 1, n)
        first += (by_component @ x)[:, 0]
        x *= x
        second += (by_component @ x)[:, 0]
        known += r.T @ seen

    def step(self, sums: list[Array]) -> AxisGaussians:
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
        covariances = np.where(rest, variances, self.covariances)
        if not (covariances > 0).all():
            raise np.linalg.LinAlgError("a component has no width left")
        return self.with_parameters(
            counts / counts.sum(), self.means + shift * self.unit, covariances
        )


def outer(v: Array) -> Array:
    return v[:, :, None] * v[:, None, :]
