"""Loops over the known entries of rows that involve a low-rank matrix U Vᵀ (n × k, m × k, k ≥ 1).

    product_range             out_i = Σ_{j∈Ω_i} a_ij b_j                          Π_Ω(A) B
    residual_product_range    out_i = Σ_{j∈Ω_i} (a_ij − u_iᵀ v_j) b_j             Π_Ω(A − UVᵀ) B; the residual is not stored
    residual_squares_range    out_i = Σ_{j∈Ω_i} (a_ij − u_iᵀ v_j)²                summed in float64

Each works on the rows first … last − 1; threads take ranges of rows, and a row is added up in the order of its entries, so
the result has the same bits for any number of threads. Dense arrays come as cache lines (`to_lines`): row j of B is the lines
nb·j … nb·j + nb − 1. Sums stay in registers, two lines at a time: kept in memory, each entry would wait for the one before.
"""

from __future__ import annotations

import numpy as np

from lemmata.core.engine import kernel
from lemmata.linalg.simd import axpy, dot, load, store, zero

ONE, TWO = np.uint64(1), np.uint64(2)


@kernel
def _add_rows_into(out, i, indices, start, end, weights, shift, B, nb):
    """Row i of out = Σ_e weights[e − shift] · (row indices[e] of B)."""
    q, width = np.uint64(0), np.uint64(nb)
    own = np.uint64(i) * width
    while q + TWO <= width:
        a, b = zero(B), zero(B)
        for e in range(start, end):
            j, w = np.uint64(indices[e]) * width + q, weights[e - shift]
            a, b = axpy(w, load(B, j), a), axpy(w, load(B, j + ONE), b)
        store(out, own + q, a)
        store(out, own + q + ONE, b)
        q += TWO
    if q < width:
        a = zero(B)
        for e in range(start, end):
            a = axpy(weights[e - shift], load(B, np.uint64(indices[e]) * width + q), a)
        store(out, own + q, a)


@kernel
def product_range(indptr, indices, values, B, nb, first, last, out):
    """out_i = Σ_j a_ij b_j."""
    for i in range(first, last):
        _add_rows_into(out, i, indices, indptr[i], indptr[i + 1], values, 0, B, nb)


@kernel
def residual_product_range(indptr, indices, values, U, V, nk, B, nb, first, last, out):
    """out_i = Σ_j (a_ij − u_iᵀ v_j) b_j."""
    longest = 0
    for i in range(first, last):
        longest = max(longest, indptr[i + 1] - indptr[i])
    rest = np.empty(longest, values.dtype)
    for i in range(first, last):
        start, end = indptr[i], indptr[i + 1]
        for e in range(start, end):
            rest[e - start] = values[e] - dot(U, i * nk, V, np.int64(indices[e]) * nk, nk)
        _add_rows_into(out, i, indices, start, end, rest, start, B, nb)


@kernel
def residual_squares_range(indptr, indices, values, U, V, nk, first, last, out):
    """out_i = Σ_j (a_ij − u_iᵀ v_j)², for a float64 out."""
    for i in range(first, last):
        total = 0.0
        for e in range(indptr[i], indptr[i + 1]):
            r = np.float64(values[e] - dot(U, i * nk, V, np.int64(indices[e]) * nk, nk))
            total += r * r
        out[i] = total
