"""Rows, their codes and the atoms, as claims about sparse codes read them: output of `transform`, compared with the data.

    r = x − zD    over what is known of x;        s = ‖z‖₀;        S the atoms that z uses

The codes are those that the model's own `transform` makes of the rows (of a regression by OMP: its `coef_`, with columns as
atoms); everything else is computed here, in float64, one block after the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from lemmata.audit.kernel.claims import Fit, fact
from lemmata.audit.predict.neighbours.nearest_rows import answer

Array = np.ndarray
CHUNK = 2**22  # numbers at a time


class CodedRows:
    """Measurements of every row and its code, made in one pass. Atoms are of unit length here, and codes of those."""

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
            index, there = pad_supports([supports[i] for i in rows])
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

    def finish(self) -> CodedRows:
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


def _unit_of(data: Any) -> float:
    """A power of two near the largest number of the rows: claims about shares divide by it, so that squares stay floats."""
    top = 0.0
    for rows, _ in data:
        part = np.asarray(rows)
        if part.size:
            top = max(top, float(np.nanmax(np.abs(part), initial=0.0)))
    return 2.0 ** np.floor(np.log2(top)) if top > 0 else 1.0


def _code_rows(fit: Fit) -> CodedRows:
    D, unit = np.asarray(fit.components_, np.float64), _unit_of(fit.data)
    found = CodedRows(D, float(fit.get("penalty_", 0.0)) / unit)
    for rows, weights in fit.data:
        Z = np.asarray(answer(fit.model.transform, np.asarray(rows)))
        step = max(1, CHUNK // max(D.shape))
        for start in range(0, len(Z), step):
            part = slice(start, start + step)
            codes = np.asarray(Z[part], np.float64)
            if codes.shape[1] != len(D):  # positive and negative parts stand apart
                codes = codes[:, : len(D)] - codes[:, len(D) :]
            shares = None if weights is None else weights[part]
            found.add(np.asarray(rows[part], np.float64) / unit, codes / unit, shares)
    found.unit = unit
    return found.finish()


def _regression(fit: Fit) -> CodedRows:
    """Targets as signals, centred columns as atoms, coefficients as their code."""
    X = np.concatenate([np.asarray(rows, np.float64) for rows, _ in fit.data])
    Y = np.asarray(fit.y, np.float64).reshape(len(X), -1)
    if fit.get("fit_intercept", True):
        X, Y = X - X.mean(axis=0), Y - Y.mean(axis=0)
    found = CodedRows(X.T, 0.0)
    found.add(Y.T, np.atleast_2d(np.asarray(fit.coef_, np.float64)), None)
    return found.finish()


def sizes_of(fit: Fit) -> tuple[int, int, int, float]:
    """Signals, numbers of each, atoms, and atoms of a code."""
    if fit.has("regression_"):
        d, k = fit.data.shape
        return 1, d, k, float(np.count_nonzero(fit.coef_))
    (n, d), k = fit.data.shape, len(fit.components_)
    return n, d, k, float(fit.get("n_nonzero_") or max(d // 10, 1))


def _code_work(fit: Fit) -> float:
    """Count what coding the rows again, and looking at the codes, takes."""
    n, d, k, atoms = sizes_of(fit)
    return 4.0 * n * d * k if fit.has("regression_") else float(n) * k * (3.0 * d + 10.0 * atoms)


@fact(cost=_code_work)
def row_codes(fit: Fit) -> CodedRows:
    """Code the rows; rows and codes are divided by a common unit, squares thus by its square."""
    return _regression(fit) if fit.has("regression_") else _code_rows(fit)


def type_of(fit: Fit) -> Any:
    return np.asarray(fit.coef_ if fit.has("regression_") else fit.components_).dtype


def unit_atoms(D: Any) -> Array:
    """Atoms of unit length, in float64."""
    D = np.asarray(D, np.float64)
    D = D / np.maximum(np.abs(D).max(axis=1, keepdims=True), 1e-300)  # no square overflows then
    return D / np.maximum(np.linalg.norm(D, axis=1, keepdims=True), 1e-300)


def pad_supports(supports: list[Array]) -> tuple[Array, Array]:
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
