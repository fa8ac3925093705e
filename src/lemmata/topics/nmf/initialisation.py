"""Initial factors: at random, from the leading singular vectors (NNDSVD), or where the user says.

**random**: H is drawn, |N(0, 1)|·√(mean/k); W is constant. Nothing is drawn for a row, so that weight 2 is the row
twice; the first update makes rows different.

**nndsvd** (Boutsidis & Gallopoulos 2008): of each singular pair σuvᵀ the positive or the negative parts of u and v,
whichever pair is larger: u₊v₊ᵀ and u₋v₋ᵀ are non-negative, and with the two pairs of mixed sign they add up to uvᵀ.
Zeros stay zeros. **nndsvda** puts the mean of the column there (theirs is the mean of X, which has another unit),
**nndsvdar** random numbers up to a hundredth of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from lemmata.linalg.operators import CentredScatter
from lemmata.linalg.randomized import RandomizedAlgorithm
from lemmata.topics.nmf.table import RowTable

Array = np.ndarray
INITS = ("random", "nndsvd", "nndsvda", "nndsvdar", "custom")
FORMED = 600  # columns up to which XᵀX is formed and LAPACK finds its eigenvectors
STEPS = 6  # of subspace iteration beyond that


@dataclass(frozen=True)
class Start:
    """One of INITS; W and V where it is "custom"."""

    init: str
    W: Any = None
    V: Any = None

    def __call__(self, table: RowTable, rng: np.random.Generator) -> tuple[Array, Array]:
        """W (n, k) and V (m, k)."""
        if self.init == "custom":
            W, V = (np.ascontiguousarray(one, dtype=table.dtype) for one in (self.W, self.V))
            return W, V
        if self.init == "random":
            return random_start(table, rng)
        W, V = singular_start(table, rng)
        if self.init == "nndsvd":
            return W, V
        drawn = rng if self.init == "nndsvdar" else None
        return _fill(W, drawn, table.data.weights), _fill(V, drawn)


def random_start(table: RowTable, rng: np.random.Generator) -> tuple[Array, Array]:
    (n, m), k = table.shape, table.k
    size = np.sqrt(mean_of(table) / k)
    V = np.abs(rng.standard_normal((m, k))) * size
    return np.full((n, k), size, dtype=table.dtype), V.astype(table.dtype)


def mean_of(table: RowTable) -> float:
    """The weighted mean of what is known."""
    total, count = 0.0, 0.0
    for rows, weights in table.data:
        s = np.ones(rows.shape[0]) if weights is None else np.asarray(weights, np.float64)
        if table.only_stored:
            total += float(s @ np.asarray(rows.sum(axis=1, dtype=np.float64)).ravel())
            count += float(s @ np.diff(rows.indptr))
        elif sp.issparse(rows):
            total += float(s @ np.asarray(rows.sum(axis=1, dtype=np.float64)).ravel())
            count += float(s.sum()) * rows.shape[1]
        else:
            unknown = np.isnan(rows).sum(axis=1) if table.holes else 0
            sums = np.nansum(rows, axis=1) if table.holes else rows.sum(axis=1)
            total += float(s @ sums.astype(np.float64))
            count += float((s * (rows.shape[1] - unknown)).sum())
    return total / count if count > 0 else 0.0


def singular_start(table: RowTable, rng: np.random.Generator) -> tuple[Array, Array]:
    """NNDSVD: W (n, k) and V (m, k)."""
    V = _right_vectors(table, rng).astype(table.dtype)  # (m, k)
    W = np.empty((table.shape[0], table.k), table.dtype)

    def work(part: Any) -> float:
        W[part.place] = part.times(V)  # σ u, whatever the weights of the rows
        return 0.0

    table.map(work, 0.0)
    s = np.ones(len(W)) if table.data.weights is None else table.data.weights
    for z in range(table.k):
        u, v = W[:, z].astype(np.float64), V[:, z].astype(np.float64)
        sides = [(np.maximum(sign * u, 0), np.maximum(sign * v, 0)) for sign in (1.0, -1.0)]
        sizes = [float(np.sqrt(s @ a**2) * np.linalg.norm(b)) for a, b in sides]
        a, b = sides[int(np.argmax(sizes))]
        length = max(sizes)
        # a bᵀ is the part of σuvᵀ; both factors get the same share of its length
        share = np.sqrt(length) / max(float(np.linalg.norm(b)), 1e-300)
        V[:, z] = b * share
        W[:, z] = a / share if length > 0 else 0.0
    return W, V


def _right_vectors(table: RowTable, rng: np.random.Generator) -> Array:
    (_, m), k = table.shape, table.k
    S = CentredScatter(table.data, mean=np.zeros(m))
    if m <= FORMED:
        gram = S @ np.eye(m, dtype=table.dtype)
        gram = np.asarray(gram, np.float64)
        _, vectors = scipy.linalg.eigh((gram + gram.T) / 2, subset_by_index=[m - k, m - 1])
        return vectors[:, ::-1]
    algorithm = RandomizedAlgorithm(k)
    state = algorithm.init(S, rng)
    for _ in range(STEPS):
        state = algorithm.step(state, S)
    return algorithm.attributes(state)["vectors"]


def _fill(factor: Array, rng: np.random.Generator | None, weights: Array | None = None) -> Array:
    """Zeros become the mean of their column, or up to a hundredth of it at random."""
    mean = np.average(factor, axis=0, weights=weights).astype(np.float64)
    mean = np.where(mean > 0, mean, mean.max(initial=0.0))
    fill = np.broadcast_to(mean, factor.shape)
    if rng is not None:
        fill = fill * rng.random(factor.shape) / 100
    return np.where(factor > 0, factor, fill).astype(factor.dtype)
