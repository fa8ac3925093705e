"""Loops over the known entries of rows that involve a low-rank matrix U Vᵀ (n × k, m × k, k ≥ 1).

    product_range             out_i = Σ_{j∈Ω_i} a_ij b_j                          Π_Ω(A) B
    residual_product_range    out_i = Σ_{j∈Ω_i} (a_ij − u_iᵀ v_j) b_j             Π_Ω(A − UVᵀ) B; the residual is not stored
    residual_squares_range    out_i = Σ_{j∈Ω_i} (a_ij − u_iᵀ v_j)²                summed in float64

Each works on the rows first … last − 1; threads take ranges of rows, and a row is added up in the order of its entries, so
the result has the same bits for any number of threads. Sums of products may be reassociated when a kernel is compiled
("reassoc"), so that several of them share a SIMD register.
"""

from __future__ import annotations

import numpy as np
from numba import njit

SUMS = {"reassoc", "contract"}


@njit(inline="always")
def _dot(U, i, V, j):
    total = U[i, 0] * V[j, 0]
    for c in range(1, U.shape[1]):
        total += U[i, c] * V[j, c]
    return total


@njit(nogil=True, cache=True, fastmath=SUMS)
def product_range(indptr, indices, values, B, first, last, out):
    """out_i = Σ_j a_ij b_j."""
    for i in range(first, last):
        for c in range(B.shape[1]):
            out[i, c] = 0
        for e in range(indptr[i], indptr[i + 1]):
            j = np.uint64(indices[e])
            for c in range(B.shape[1]):
                out[i, c] += values[e] * B[j, c]


@njit(nogil=True, cache=True, fastmath=SUMS)
def residual_product_range(indptr, indices, values, U, V, B, first, last, out):
    """out_i = Σ_j (a_ij − u_iᵀ v_j) b_j."""
    for i in range(first, last):
        for c in range(B.shape[1]):
            out[i, c] = 0
        for e in range(indptr[i], indptr[i + 1]):
            j = np.uint64(indices[e])
            r = values[e] - _dot(U, i, V, j)
            for c in range(B.shape[1]):
                out[i, c] += r * B[j, c]


@njit(nogil=True, cache=True, fastmath=SUMS)
def residual_squares_range(indptr, indices, values, U, V, first, last, out):
    """out_i = Σ_j (a_ij − u_iᵀ v_j)², for a float64 out."""
    for i in range(first, last):
        total = 0.0
        for e in range(indptr[i], indptr[i + 1]):
            r = np.float64(values[e] - _dot(U, i, V, np.uint64(indices[e])))
            total += r * r
        out[i] = total
