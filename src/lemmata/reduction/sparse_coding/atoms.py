"""Where dictionaries start, and where atoms go that no code uses: rows of the data, made unit.

All rows that a method goes through again and again are held as one array (`Rows`), with their weights; NaN is not known.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from lemmata.core.blocks import Blocks
from lemmata.reduction.sparse_coding.coding import CHUNK, AtomSums, Coder, chunks

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows in memory (or mapped from a file), their weights, and whether kernels do the work."""

    X: Array  # (n, d)
    weights: Array | None
    compiled: bool

    @classmethod
    def of(cls, data: Blocks, compiled: bool) -> Rows:
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
        """What all rows say about the atoms D, chunk by chunk in their order."""
        total = AtomSums.none(D)
        for start in range(0, len(self.X), CHUNK):
            X, weights = self.part(slice(start, start + CHUNK))
            total = total + AtomSums.of(X, weights, D, coder, self.compiled)
        return total

    def fingerprint(self) -> str:
        return Blocks.of(np.asarray(self.X), self.weights).fingerprint()


def starting_atoms(data: Rows, k: int, given: Array | None, rng: np.random.Generator) -> Array:
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


def unused(A: Array) -> Array:
    """Which atoms no code uses, by Σ w zzᵀ."""
    diagonal = np.diag(A)
    return np.flatnonzero(diagonal <= 1e-10 * diagonal.max(initial=0))
