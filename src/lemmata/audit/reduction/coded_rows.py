"""Rows, their codes and the atoms, as claims about sparse codes read them: what `transform` returns, compared with the data.

    r = x − zD    over what is known of x;        s = ‖z‖₀;        S the atoms that z uses

The codes are those that the model's own `transform` makes of the rows (of a regression by OMP: its `coef_`, with columns as
atoms); everything else is computed here, in float64, one block after the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from lemmata.audit.kernel.claims import Fit, fact, rounding
from lemmata.audit.predict.neighbours.nearest_rows import answer

Array = np.ndarray
CHUNK = 2**22  # numbers at a time


class Coded:
    """What is measured of every row and its code, in one pass. Atoms are of unit length here, and codes of those."""

    def __init__(self, D: Array, penalty: float):
        self.lengths = np.linalg.norm(D, axis=1)
        self.alive = self.lengths > 0
        self.D = D / np.where(self.alive, self.lengths, 1)[:, None]  # (k, d)
        self.raw, self.penalty = D, penalty
        self.G = self.D @ self.D.T
        self.used = np.zeros(len(D))  # rows that use each atom, by weight
        self._parts: list[tuple[Array, ...]] = []
        self.supports: list[Array] = []
        self.values: list[Array] = []  # the numbers of a code on its support, for unit atoms
        self.unit = 1.0  # what rows and codes were divided by

    def add(self, X: Array, Z: Array, weights: Array | None) -> None:
        """Rows, their codes for the atoms as they are, and their weights."""
        known = ~np.isnan(X)
        R = np.where(known, X - Z @ self.raw, 0.0)
        x = np.where(known, X, 0.0)
        w = np.ones(len(X)) if weights is None else np.asarray(weights, np.float64)
        H = R @ self.raw.T
        there = Z != 0
        self.used += w @ there
        unit = Z * self.lengths
        self.supports += (supports := [np.flatnonzero(row) for row in there])
        self.values += [row[S] for row, S in zip(unit, supports, strict=True)]
        gains = np.zeros(len(X)) if self.penalty else self._gains(R, known, supports)
        self._parts.append(
            (
                np.linalg.norm(R, axis=1),
                np.linalg.norm(x, axis=1),
                there.sum(axis=1),
                np.linalg.norm(unit, axis=1),
                ~known.all(axis=1),
                w,
                np.abs(Z).sum(axis=1),
                np.abs(H).max(axis=1, initial=0.0),
                np.einsum("ij,ij->i", x, R),
                gains,
            )
        )

    def _gains(self, R: Array, known: Array, supports: list[Array]) -> Array:
        """‖P_S r‖² of each row: what least squares on the same atoms would take from its squared error."""
        gains = np.zeros(len(R))
        counts = np.array([len(S) for S in supports])
        whole = known.all()
        for rows in blocks_of(np.flatnonzero(counts), float(counts.max(initial=1)) * R.shape[1]):
            index, there = padded([supports[i] for i in rows])
            atoms = np.where(there[:, :, None], self.D[index], 0.0)
            if not whole:
                atoms = atoms * known[rows][:, None, :]
            b = np.einsum("msd,md->ms", atoms, R[rows])
            G = self.grams(index, there) if whole else np.einsum("msd,mtd->mst", atoms, atoms)
            inverse = np.linalg.pinv(G, rcond=1e-10, hermitian=True)
            gains[rows] = np.einsum("ms,mst,mt->m", b, inverse, b)
        return gains

    def grams(self, index: Array, there: Array) -> Array:
        """G_SS of padded supports, (m, s, s), with 1 on the diagonal of places that do not count."""
        both = there[:, :, None] & there[:, None, :]
        G = np.where(both, self.G[index[:, :, None], index[:, None, :]], 0.0)
        return G + np.where(there, 0.0, 1.0)[:, :, None] * np.eye(index.shape[1])

    def finish(self) -> Coded:
        (
            self.errors, self.sizes, self.counts, self.norms, self.holes, self.weights, self.ones,
            self.tops, self.products, self.gains,
        ) = (np.concatenate(column) for column in zip(*self._parts, strict=True))  # fmt: skip
        self._parts = []
        return self

    @property
    def losses(self) -> Array:
        """½‖r‖² + α‖z‖₁ of every row."""
        return 0.5 * self.errors**2 + self.penalty * self.ones

    @property
    def gaps(self) -> Array:
        """At most so much is P(z) above the least, by the residual scaled into the dual."""
        return self.losses - dual_values(self.errors**2, self.products, self.tops, self.penalty)


def dual_values(rr: Array, xr: Array, tops: Array, alpha: float) -> Array:
    """The largest c·xᵀr − ½c²‖r‖² over the c ≥ 0 with c·max|d_jᵀr| ≤ α: a lower bound of min ½‖x − zD‖² + α‖z‖₁."""
    best = np.where(rr > 0, xr / np.where(rr > 0, rr, 1), 1.0)
    most = np.where(tops > 0, alpha / np.where(tops > 0, tops, 1), np.inf)
    c = np.maximum(np.minimum(best, most), 0.0)
    return c * xr - 0.5 * c**2 * rr


def unit_of(data: Any) -> float:
    """A power of two near the largest number of the rows: claims about shares divide by it, so that squares stay floats."""
    top = 0.0
    for rows, _ in data:
        part = np.asarray(rows)
        if part.size:
            top = max(top, float(np.nanmax(np.abs(part), initial=0.0)))
    return 2.0 ** np.floor(np.log2(top)) if top > 0 else 1.0


def _coded(fit: Fit) -> Coded:
    D, unit = np.asarray(fit.components_, np.float64), unit_of(fit.data)
    found = Coded(D, float(fit.get("penalty_", 0.0)) / unit)
    for rows, weights in fit.data:
        Z = np.asarray(answer(fit.model.transform, np.asarray(rows)))
        step = max(1, CHUNK // max(D.shape))
        for start in range(0, len(Z), step):
            part = slice(start, start + step)
            found.add(
                np.asarray(rows[part], np.float64) / unit,
                joined(Z[part], len(D)) / unit,
                None if weights is None else weights[part],
            )
    found.unit = unit
    return found.finish()


def joined(Z: Array, k: int) -> Array:
    """Codes of k numbers, also where positive and negative parts stand apart."""
    Z = np.asarray(Z, np.float64)
    return Z if Z.shape[1] == k else Z[:, :k] - Z[:, k:]


def _regression(fit: Fit) -> Coded:
    """Targets as signals, centred columns as atoms, coefficients as their code."""
    X = np.concatenate([np.asarray(rows, np.float64) for rows, _ in fit.data])
    Y = np.asarray(fit.y, np.float64).reshape(len(X), -1)
    if fit.get("fit_intercept", True):
        X, Y = X - X.mean(axis=0), Y - Y.mean(axis=0)
    found = Coded(X.T, 0.0)
    found.add(Y.T, np.atleast_2d(np.asarray(fit.coef_, np.float64)), None)
    return found.finish()


def _code_work(fit: Fit) -> float:
    """Count what coding the rows again, and looking at the codes, takes."""
    if fit.has("regression_"):
        return 4.0 * fit.data.size
    (n, d), k = fit.data.shape, len(fit.components_)
    atoms = float(fit.get("n_nonzero_") or max(d // 10, 1))
    return float(n) * k * (3.0 * d + 10.0 * atoms)


@fact(cost=_code_work)
def coded(fit: Fit) -> Coded:
    """Code the rows; rows and codes are divided by a common unit, squares thus by its square."""
    return _regression(fit) if fit.has("regression_") else _coded(fit)


def type_of(fit: Fit) -> Any:
    return np.asarray(fit.coef_ if fit.has("regression_") else fit.components_).dtype


def slack(fit: Fit) -> float:
    """The share of ‖x‖ by which a residual may be rounding."""
    found = coded(fit)
    return rounding(type_of(fit), found.D.shape[1])


def padded(supports: list[Array]) -> tuple[Array, Array]:
    """Supports as one array (m, s), −1 where a code has fewer atoms; and which places count."""
    most = max(map(len, supports), default=0)
    index = np.full((len(supports), most), -1)
    for place, S in enumerate(supports):
        index[place, : len(S)] = S
    return index, index >= 0


def blocks_of(items: Array, width: float) -> Iterator[Array]:
    """Items in parts whose arrays of `width` numbers each stay small."""
    step = int(max(1, CHUNK // max(width, 1)))
    for start in range(0, len(items), step):
        yield items[start : start + step]
