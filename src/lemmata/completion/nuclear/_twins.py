"""Passes over known entries with a low-rank matrix U Vᵀ, in NumPy and SciPy: what `_kernels.py` does, for small data.

products             Σ_{j∈Ω_i} a_ij b_j                      Π_Ω(A) B
residual_products    Σ_{j∈Ω_i} (a_ij − u_iᵀ v_j) b_j         Π_Ω(A − UVᵀ) B
residual_squares     Σ_{j∈Ω_i} (a_ij − u_iᵀ v_j)²            in float64
entry_values         u_iᵀ v_j at every known entry

Where a good part of the entries is known, dense arrays with zeros are fastest: `Arrays` holds them, `improve_rows` sweeps them.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from weakref import WeakKeyDictionary

import numpy as np
import scipy.sparse as sp

from lemmata.completion.observed import Entries, Observed

Array = np.ndarray

NUMBERS = 2**21  # in one array: 16 MB


def products(entries: Entries, B: Array) -> Array:
    """Π_Ω(A) B."""
    indptr, indices, values = entries
    shape = (len(indptr) - 1, len(B))
    S = sp.csr_array((np.asarray(values, B.dtype), indices, indptr), shape=shape)
    return np.asarray(S @ B)


def residual_products(entries: Entries, V: Array, B: Array, U: Array) -> Array:
    """Π_Ω(A − UVᵀ) B."""
    rest = np.asarray(entries.values, V.dtype) - entry_values(entries, U, V)
    return products(entries._replace(values=rest), B)


def residual_squares(entries: Entries, V: Array, U: Array) -> Array:
    """Σ_j (a_ij − u_iᵀv_j)² of every row."""
    rest = np.asarray(entries.values, V.dtype) - entry_values(entries, U, V)
    out, filled = np.zeros(len(U)), np.diff(entries.indptr) > 0
    if len(rest):
        squares = np.square(rest, dtype=np.float64)
        out[filled] = np.add.reduceat(squares, entries.indptr[:-1][filled])
    return out


def entry_values(entries: Entries, U: Array, V: Array) -> Array:
    """u_iᵀv_j, by fetching the factors of every entry: other than with a matrix product, blocks have the bits of the whole."""
    indptr, indices, _ = entries
    n, k = U.shape
    out = np.empty(len(indices), V.dtype)
    cuts = np.searchsorted(indptr, np.arange(0, len(indices), max(1, NUMBERS // k)))
    for first, last in pairwise(np.unique(np.r_[0, cuts, n])):
        here = slice(indptr[first], indptr[last])
        rows = np.repeat(np.arange(first, last), np.diff(indptr[first : last + 1]))
        out[here] = np.einsum("ek,ek->e", U[rows], V[indices[here]])
    return out


# --- dense arrays, zero where nothing is known ------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Arrays:
    """A small matrix as dense arrays."""

    known: Array  # (n, m) 1 where an entry is known, else 0
    values: Array  # (n, m) with the same zeros
    places: Array  # of the entries in the flattened arrays, in the order of `by_row`

    @classmethod
    def of(cls, A: Observed) -> Arrays:
        """Made once for every A, since a fit asks in each of its steps."""
        if A not in _made:
            places = A.rows.astype(np.int64) * A.shape[1] + A.columns
            known, values = np.zeros((2, *A.shape), A.dtype)
            known.ravel()[places], values.ravel()[places] = 1, A.values
            _made[A] = cls(known, values, places)
        return _made[A]

    def with_values(self, values: Array) -> Array:
        """Others at the places of the entries, in the order of `by_row`; zero elsewhere."""
        found = np.zeros(self.values.shape, values.dtype)
        found.ravel()[self.places] = values
        return found

    def residual(self, U: Array, V: Array) -> Array:
        """Π_Ω(A − UVᵀ)."""
        return self.values - self.known * (U @ V.T)


_made: WeakKeyDictionary[Observed, Arrays] = WeakKeyDictionary()


def improve_rows(known: Array, values: Array, U: Array, V: Array, reg: float, steps: int) -> Array:
    """Steps of conjugate gradients from U towards the best rows for V, all rows at once; as rows/_kernels_cg.py.

    known : (n, m) 1 where an entry is known, else 0;  values : (n, m) with the same zeros
    """
    reg = V.dtype.type(reg)
    rest = (values - known * (U @ V.T)) @ V - reg * U
    scale = 1 / (known @ (V * V) + reg)
    direction = scale * rest
    slope = np.einsum("ik,ik->i", direction, rest)
    for _ in range(steps):
        bent = (known * (direction @ V.T)) @ V + reg * direction
        curvature = np.einsum("ik,ik->i", direction, bent)
        going = (slope > 0) & (curvature > 0)
        length = np.where(going, slope / np.where(going, curvature, 1), 0)[:, None]
        U, rest = U + length * direction, rest - length * bent
        scaled = scale * rest
        before, slope = slope, np.einsum("ik,ik->i", scaled, rest)
        direction = (
            scaled + np.where(going, slope / np.where(going, before, 1), 0)[:, None] * direction
        )
    return U
