"""Densities and M-steps of Gaussian components in plain NumPy: what the claims about a mixture audit a fit with.

Nothing here is used by a solver, and nothing of a solver is used here. A family reads the public attributes of a fit; `add`
sums what the responsibilities r (n × k, weights included) say about rows, `step` turns the sums into the next parameters θ'.
`scores` are the derivatives of ln p(x_i) in the directions of the pieces of the step θ' − θ (the move of each mean, of each
covariance), and `pull` those of the whole log-likelihood, which the step tells: they are the information that complete data
would have, times θ' − θ.

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

Array = np.ndarray
LOG_2PI = float(np.log(2 * np.pi))
TINY = 1e-8  # of the data's variance: a ten-thousandth of its standard deviation
CHOSEN = (
    1e-3  # of the data's variance: a reg_covar beyond it is a width somebody chose, not a safeguard
)
HUGE = 1e100  # times the data's variance: where a ratio is cut off
# the other types keep the covariance they were given
ESTIMATED = (
    "full",
    "tied",
    "diag",
    "spherical",
)


def plain_components(fit: Any) -> Any:
    """The family of a fit, from its public attributes."""
    if fit.has("covariances_"):
        kind = fit.covariance_type if fit.has("covariance_type") else fit.family_.name
        return (
            DiagonalGaussians(fit, kind)
            if kind in ("diag", "spherical", "unit")
            else DenseGaussians(fit, kind)
        )
    from lemmata.audit.count_densities import COUNTING

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


def direction(step: Array) -> Array:
    """The step at length one; zero if it is none."""
    length = np.linalg.norm(step)
    return step / length if length > 0 else step


class Gaussians:
    """What the two kinds of Gaussian share. Sums are taken about the current means: no digits are lost far from zero."""

    def __init__(self, fit: Any, kind: str):
        self.kind, self.means = kind, np.asarray(fit.means_, dtype=np.float64)
        self.k, self.d = self.means.shape
        owner = fit if fit.has("reg_covar") else fit.family_
        self.reg = float(owner.reg_covar) if kind in ESTIMATED else 0.0
        self.covariances = np.broadcast_to(
            self.axes(np.asarray(fit.covariances_, dtype=np.float64)), self.shape()
        )
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
        shape = {
            "full": k * d * (d + 1) // 2,
            "tied": d * (d + 1) // 2,
            "diag": k * d,
            "spherical": k,
        }
        return k * d + shape.get(self.kind, 0)

    def _pieces(self, means: Array, shapes: Array) -> Array:
        """Columns for the steps of the means, and of the covariances if there are any of their own."""
        if self.kind not in ESTIMATED:
            return means
        return np.hstack(
            [means, shapes.sum(axis=1, keepdims=True) if self.kind == "tied" else shapes]
        )

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
                y = solve_triangular(
                    L, (rows[np.ix_(which, seen)] - self.means[j, seen]).T, lower=True
                )
                logs = np.log(np.diagonal(L)).sum()
                out[which, j] = -0.5 * (seen.sum() * LOG_2PI + np.einsum("di,di->i", y, y)) - logs
        return out

    def _completed(self, rows: Array, seen: Array, j: int) -> tuple[Array, Array]:
        """E[x − μ_j | x_o] of rows that have these features, and the covariance of the others, (d, d), zero elsewhere."""
        x, rest, S = np.zeros((len(rows), self.d)), np.zeros((self.d, self.d)), self.covariances[j]
        x[:, seen] = rows[:, seen] - self.means[j, seen]
        if not seen.all():
            self.holes, hole = True, ~seen
            back = np.linalg.solve(S[np.ix_(seen, seen)], S[np.ix_(seen, hole)])  # Σ_oo⁻¹ Σ_om
            x[:, hole] = x[:, seen] @ back
            rest[np.ix_(hole, hole)] = S[np.ix_(hole, hole)] - S[np.ix_(hole, seen)] @ back
        return x, rest

    def add(self, sums, rows: Array, r: Array):
        counts, first, second = sums
        for seen, which in observed_patterns(rows):
            for j in range(self.k):
                w = r[which, j]
                x, rest = self._completed(rows[which], seen, j)
                first[j] += w @ x
                second[j] += (x.T * w) @ x + w.sum() * rest
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
        return counts, (
            self.means + shift,
            np.where(counts[:, None, None] > 0, covariances, self.covariances),
        )

    def _moves(self, after: tuple[Array, Array], j: int) -> tuple[Array, Array, Array]:
        """L with LLᵀ = Σ_j, and the step in its units: u = L⁻¹(μ' − μ), V = L⁻¹(Σ' − Σ)L⁻ᵀ."""
        L = cholesky(self.covariances[j], lower=True)
        half = solve_triangular(L, after[1][j] - self.covariances[j], lower=True)
        return (
            L,
            solve_triangular(L, after[0][j] - self.means[j], lower=True),
            solve_triangular(L, half.T, lower=True),
        )

    def scores(self, rows: Array, r: Array, after: tuple[Array, Array]) -> Array:
        means, shapes = np.empty((len(rows), self.k)), np.empty((len(rows), self.k))
        for j in range(self.k):
            L, u, V = self._moves(after, j)
            u, V = direction(u), direction(V)
            for seen, which in observed_patterns(rows):
                x, rest = self._completed(rows[which], seen, j)
                y = solve_triangular(L, x.T, lower=True)
                hidden = solve_triangular(L, solve_triangular(L, rest, lower=True).T, lower=True)
                surplus = ((V @ y) * y).sum(axis=0) + np.trace(V @ (hidden - np.eye(self.d)))
                means[which, j], shapes[which, j] = (
                    r[which, j] * (u @ y),
                    0.5 * r[which, j] * surplus,
                )
        return self._pieces(means, shapes)

    def pull(self, sums, after: tuple[Array, Array]) -> Array:
        moves = [self._moves(after, j)[1:] for j in range(self.k)]
        means = sums[0] * [np.linalg.norm(u) for u, _ in moves]
        # about the old μ
        shapes = (
            0.5 * sums[0] * [((V + np.multiply.outer(u, u)) * direction(V)).sum() for u, V in moves]
        )
        return self._pieces(means[None], shapes[None])[0]

    def _total(self, sums) -> tuple[Array, Array]:
        """Mean (from the first component's) and covariance of all rows: the responsibilities of a row sum to one."""
        counts, first, second = sums
        n, away = counts.sum(), self.means - self.means[0]
        mean = (first + counts[:, None] * away).sum(axis=0) / n
        off = away - mean
        cross = first[:, :, None] * off[:, None, :]
        return mean, (
            second + cross + cross.transpose(0, 2, 1) + counts[:, None, None] * _outer(off)
        ).sum(axis=0) / n

    def distance(self, after: tuple[Array, Array]) -> float:
        """The largest move of a mean in standard deviations, or of a variance in any direction, relative to it."""
        moves = [0.0]
        for j in range(self.k):
            _, u, V = self._moves(after, j)
            moves += [float(np.linalg.norm(u)), float(np.abs(np.linalg.eigvalsh(V)).max())]
        return max(moves)

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
        return float(
            -0.5
            * n
            * (self.d * LOG_2PI + np.linalg.slogdet(C)[1] + np.trace(np.linalg.solve(C, S)))
        )


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

    def _moves(self, after: tuple[Array, Array]) -> tuple[Array, Array]:
        """The step in standard deviations (k, d), and of the variances relative to them (k, d)."""
        return (after[0] - self.means) / np.sqrt(self.covariances), after[1] / self.covariances - 1

    def scores(self, rows: Array, r: Array, after: tuple[Array, Array]) -> Array:
        moves = self._moves(after)
        means, shapes = np.empty((len(rows), self.k)), np.empty((len(rows), self.k))
        for j in range(self.k):
            u, V = direction(moves[0][j]), direction(moves[1][j])
            y = (rows - self.means[j]) / np.sqrt(self.covariances[j])
            means[:, j] = r[:, j] * (np.nan_to_num(y) @ u)
            shapes[:, j] = 0.5 * r[:, j] * (np.nan_to_num(y * y - 1) @ V)
        return self._pieces(means, shapes)

    def pull(self, sums, after: tuple[Array, Array]) -> Array:
        moves = list(zip(sums[3], *self._moves(after), strict=True))
        means = [known @ (u * direction(u)) for known, u, _ in moves]
        # about the old μ
        shapes = [0.5 * known @ ((V + u**2) * direction(V)) for known, u, V in moves]
        return self._pieces(np.array([means]), np.array([shapes]))[0]

    def distance(self, after: tuple[Array, Array]) -> float:
        u, V = self._moves(after)
        return float(max(np.linalg.norm(u, axis=1).max(), np.abs(V).max()))

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
        v = (
            v
            if self.kind == "diag"
            else np.full(self.d, v.mean())
            if self.kind == "spherical"
            else self.covariances[0]
        )
        return float(-0.5 * n * (LOG_2PI + np.log(v) + S / v).sum())


def _outer(v: Array) -> Array:
    return v[:, :, None] * v[:, None, :]


def _constant(spread: Array, mean: Array) -> Array:
    """Features whose spread is what rounding their values to floats leaves of none."""
    return spread <= 8 * np.finfo(float).eps * np.maximum(np.abs(mean), np.finfo(float).tiny)
