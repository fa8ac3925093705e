"""A way of coding: OMP with so many atoms, or an ℓ1 penalty, or a threshold; statistics of codes, which add up.

    Coder("omp", n_nonzero=5).codes(X, D)          Z, (n, k), in the type of X

The statistics that a dictionary is learned from are Σ w zzᵀ and Σ w zᵀx (`AtomSums`): they add up over blocks and batches. Rows
that a method reads again and again are held as one array (`TrainingRows`); NaN is not known. Dictionaries start at rows of the
data, made unit, and atoms that no code uses go to such rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from lemmata.core.blocks import Blocks
from lemmata.core.store import storable
from lemmata.reduction.sparse_coding import fista, omp

Array = np.ndarray
PENALISED = ("ista", "fista", "lasso_cd", "lasso_lars")
METHODS = ("omp", *PENALISED, "lars", "threshold")
CHUNK = 4096  # rows coded at a time


@dataclass(frozen=True)
class Coder:
    """The code that a row gets. `alpha` is the penalty, the threshold, or (omp) the squared error that is good enough."""

    method: str = "omp"
    n_nonzero: int = 1
    alpha: float = 0.0
    tol: float = 1e-6
    max_iter: int = 1000
    positive: bool = False

    @property
    def penalty(self) -> float:
        """α of the ℓ1 penalty that is part of the objective; 0 where atoms are counted instead."""
        return self.alpha if self.method in PENALISED else 0.0

    def codes(self, X: Array, D: Array, compiled: bool | None = None) -> Array:
        """Z (n, k) with X ≈ ZD. NaN in X is not known."""
        scale = _unit_of(X)
        if scale != 1:  # squares would leave the floats
            one = X.dtype.type(1 / scale)
            alpha = self.alpha / scale / (scale if self.method == "omp" else 1)
            return scale * self._with(alpha)._codes(X * one, D, compiled)
        return self._codes(X, D, compiled)

    def _with(self, alpha: float) -> Coder:
        return Coder(self.method, self.n_nonzero, alpha, self.tol, self.max_iter, self.positive)

    def _codes(self, X: Array, D: Array, compiled: bool | None) -> Array:
        if self.method == "omp":
            return omp.pursue(X, D, self.n_nonzero, self.alpha, compiled).dense(len(D))
        if self.method == "lars":
            return _least_angle(X, D, self.n_nonzero, self.positive)
        if self.method == "threshold":
            _refuse_holes(X, "threshold")
            return fista.soft(X @ D.T, self.alpha, self.positive).astype(X.dtype)
        how = fista.L1(self.method, self.alpha, self.tol, self.max_iter, self.positive)
        return fista.codes(X, D, how, compiled)

    def work(self, n: float, d: int, k: int) -> float:
        """Multiplications, roughly, that plain code would take for n rows."""
        if self.method == "omp":
            return omp.work(n, d, k, self.n_nonzero)
        return float(n) * k * (d + 200.0 * k)  # some hundred steps of FISTA


def _least_angle(X: Array, D: Array, n_nonzero: int, positive: bool) -> Array:
    """Least angle regression up to so many atoms, by scikit-learn."""
    from sklearn.linear_model import lars_path_gram

    _refuse_holes(X, "lars")
    G, C = (D @ D.T).astype(np.float64), (X @ D.T).astype(np.float64)
    Z = np.zeros(C.shape, X.dtype)
    for z, c in zip(Z, C, strict=True):
        z[:] = lars_path_gram(
            c, G, n_samples=1, method="lar", max_iter=n_nonzero, positive=positive, return_path=False
        )[2]  # fmt: skip
    return Z


def _refuse_holes(X: Array, method: str) -> None:
    if np.isnan(X).any():
        raise ValueError(
            f"transform_algorithm={method!r} takes no missing values (NaN); use 'omp', 'fista' or 'lasso_cd'."
        )


def _unit_of(X: Array) -> Any:
    """1, or a power of two that brings extreme numbers near 1."""
    top = float(np.nanmax(np.abs(X), initial=0.0)) if X.size else 0.0
    limits = np.finfo(X.dtype)
    if math.isinf(top):
        raise ValueError(
            "rows hold infinity; codes need finite numbers (NaN is what is not known)."
        )
    if top == 0 or float(limits.tiny) ** 0.3 < top < float(limits.max) ** 0.3:
        return X.dtype.type(1)
    return X.dtype.type(math.ldexp(1.0, math.frexp(top)[1] - 1))


def dense(rows: Any) -> Array:
    """A block as an array."""
    return np.asarray(rows.toarray() if hasattr(rows, "toarray") else rows)


def chunks(data: Blocks, size: int = CHUNK) -> Iterator[tuple[Array, Array | None]]:
    """Rows as dense arrays of at most `size` of them, with their weights."""
    for rows, weights in data:
        for start in range(0, rows.shape[0], size):
            part = slice(start, start + size)
            yield dense(rows[part]), None if weights is None else weights[part]


def fill_missing(X: Array, rebuilt: Array) -> Array:
    """Rows with what the codes make of them in place of what is not known."""
    holes = np.isnan(X)
    return np.where(holes, rebuilt, X) if holes.any() else X


@storable
@dataclass(frozen=True)
class CodeCosts:
    """Costs of codes of rows: weight, Σ w(½‖x − zD‖² + α‖z‖₁), Σ w‖x‖², Σ w‖z‖₀. CodeCosts() is the empty sum."""

    layout: ClassVar = {"weight loss squares nonzeros": ">=0"}

    weight: float = 0.0
    loss: float = 0.0
    squares: float = 0.0
    nonzeros: float = 0.0

    @classmethod
    def of(cls, X: Array, weights: Array | None, Z: Array, R: Array, penalty: float) -> CodeCosts:
        """R: the residual, 0 where x is not known."""
        w = np.ones(len(X)) if weights is None else np.asarray(weights, np.float64)
        wide = R.astype(np.float64, copy=False)
        loss = 0.5 * np.einsum("ij,ij->i", wide, wide)
        if penalty:
            loss = loss + penalty * np.abs(Z).sum(axis=1, dtype=np.float64)
        known = np.nan_to_num(X).astype(np.float64, copy=False)
        squares = np.einsum("ij,ij->i", known, known)
        counts = np.count_nonzero(Z, axis=1)
        return cls(float(w.sum()), float(w @ loss), float(w @ squares), float(w @ counts))

    def __add__(self, other: CodeCosts) -> CodeCosts:
        return CodeCosts(
            self.weight + other.weight, self.loss + other.loss,
            self.squares + other.squares, self.nonzeros + other.nonzeros,
        )  # fmt: skip

    @property
    def mean_loss(self) -> float:
        return self.loss / self.weight if self.weight > 0 else 0.0

    @property
    def mean_nonzeros(self) -> float:
        return self.nonzeros / self.weight if self.weight > 0 else 0.0


@storable
@dataclass(frozen=True)
class AtomSums:
    """Statistics of coded rows: A = Σ w zzᵀ, B = Σ w zᵀx (x filled in where it is not known), and the costs of the codes.

    AtomSums.none(D) is the empty sum; `worst` is the row that is coded worst, where an unused atom may go.
    """

    layout: ClassVar[dict[str, str | type]] = {
        "A": "k k",
        "B": "k d",
        "costs": CodeCosts,
        "worst": "d",
        "misfit": ">=0",
    }

    A: Array  # (k, k)
    B: Array  # (k, d)
    costs: CodeCosts
    worst: Array  # (d,)
    misfit: float  # its squared error

    @classmethod
    def none(cls, D: Array) -> AtomSums:
        k, d = D.shape
        return cls(
            np.zeros((k, k), D.dtype), np.zeros((k, d), D.dtype), CodeCosts(), np.zeros(d, D.dtype), 0.0
        )  # fmt: skip

    @classmethod
    def of(
        cls, X: Array, weights: Array | None, D: Array, coder: Coder, compiled: bool | None = None
    ) -> AtomSums:
        Z = coder.codes(X, D, compiled)
        again = Z @ D
        X_full = fill_missing(X, again)
        R = X_full - again
        w = None if weights is None else weights.astype(X.dtype)[:, None]
        weighted = Z if w is None else w * Z
        errors = np.einsum("ij,ij->i", R, R)
        if w is not None:
            errors = np.where(w[:, 0] > 0, errors, 0)
        i = int(errors.argmax())
        costs = CodeCosts.of(X, weights, Z, R, coder.penalty)
        return cls(weighted.T @ Z, weighted.T @ X_full, costs, X_full[i].copy(), float(errors[i]))

    def __add__(self, other: AtomSums) -> AtomSums:
        worse = self if self.misfit >= other.misfit else other
        return AtomSums(
            self.A + other.A, self.B + other.B, self.costs + other.costs, worse.worst, worse.misfit
        )

    def fade(self, share: float) -> AtomSums:
        """The same statistics with this share of their weight; what they cost and the worst row stay."""
        share = self.A.dtype.type(share)
        return AtomSums(share * self.A, share * self.B, self.costs, self.worst, self.misfit)


# --- rows that a dictionary is learned from -----------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class TrainingRows:
    """Rows in memory (or mapped from a file), their weights, and whether kernels do the work."""

    X: Array  # (n, d)
    weights: Array | None
    compiled: bool

    @classmethod
    def of(cls, data: Blocks, compiled: bool) -> TrainingRows:
        in_place = isinstance(data.source, np.ndarray)
        X = data.source if in_place else np.concatenate([rows for rows, _ in chunks(data)])
        return cls(X, data.weights, compiled)

    @property
    def shape(self) -> tuple[int, int]:
        return self.X.shape

    def part(self, rows: Any) -> tuple[Array, Array | None]:
        X = np.asarray(self.X[rows])
        return X, None if self.weights is None else self.weights[rows]

    def sums(self, D: Array, coder: Coder) -> AtomSums:
        """Statistics of all rows about the atoms D, added chunk by chunk in their order."""
        total = AtomSums.none(D)
        for start in range(0, len(self.X), CHUNK):
            X, weights = self.part(slice(start, start + CHUNK))
            total = total + AtomSums.of(X, weights, D, coder, self.compiled)
        return total

    def fingerprint(self) -> str:
        return Blocks.of(np.asarray(self.X), self.weights).fingerprint()


def starting_atoms(
    data: TrainingRows, k: int, given: Array | None, rng: np.random.Generator
) -> Array:
    """k rows that differ, made unit, drawn with probability ∝ weight; random directions where there are too few."""
    (n, d), dtype = data.shape, data.X.dtype
    if given is not None:
        return unit(given.astype(dtype), rng)
    weights = np.ones(n) if data.weights is None else data.weights / data.weights.max()
    order = np.argsort(
        -np.log(np.maximum(rng.random(n), 1e-300)) / np.where(weights > 0, weights, 1e-300)
    )
    D = unit(np.nan_to_num(data.X[order[: min(n, 4 * k)]]), rng)
    kept: list[int] = []
    for i in range(len(D)):  # no atom twice
        if not kept or np.abs(D[kept] @ D[i]).max() < 0.99:
            kept.append(i)
        if len(kept) == k:
            break
    missing = k - len(kept)
    return np.concatenate([D[kept], unit(np.zeros((missing, d), dtype), rng)])


def unit(D: Array, rng: np.random.Generator) -> Array:
    """Rows of unit length; those that are zero become random directions."""
    D = np.array(D)
    scale = np.abs(D).max(axis=1, keepdims=True, initial=0)
    empty = scale[:, 0] == 0
    D = D / np.where(scale > 0, scale, 1)
    D[empty] = rng.normal(size=(int(empty.sum()), D.shape[1]))
    return (D / np.linalg.norm(D, axis=1, keepdims=True)).astype(D.dtype)


def find_unused(A: Array) -> Array:
    """Indices of the atoms that no code uses, by Σ w zzᵀ."""
    diagonal = np.diag(A)
    return np.flatnonzero(diagonal <= 1e-10 * diagonal.max(initial=0))
