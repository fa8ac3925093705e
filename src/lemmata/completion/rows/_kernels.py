"""One least-squares problem per row, at the speed of a matrix product.

    (Σ_j β_j v_j v_jᵀ + G + λI) w = Σ_j α_j v_j          over the entries j of a row; explicit feedback: β = 1, α = a, G = 0

(entries with weights: β = ω, α = ωa; `roots` has their √ω, or nothing, and `masses` the Σω of every row, or its entries.)

The sums are where the time goes: 2·k² operations per entry, in principle a product of matrices. Vectors are cache lines (the
SIMD values of linalg/_kernels): a factor is padded to whole lines, a row's factors are gathered into a buffer that stays in
the first-level cache, and the sums are made tile by tile, six rows × one line, held in twelve (AVX2) or six (AVX-512)
registers while they run over the buffer. Only tiles on and above the diagonal are made. Two rows ride along below the
matrix: the sums with a (the right-hand side) and with 1 (the bias), so that six rows of a tile are seldom idle.

The same tile subtracts in the Cholesky factorisation (_kernels_cholesky.py). Chunks of a long row are
summed from zero and then added, so that rounding grows with the chunks, not with the entries. A row is worked on by one
thread in one order: results do not depend on the threads.

Layout of C, in lines of `lanes` numbers, for k unknowns padded to kp = nb · lanes: row r < k is columns 0 … kp − 1, then a
line for right-hand sides: lane −1 the target, lane −2 the bias; rows kp and kp + 1 collect the target and the bias.
"""

from __future__ import annotations

import numpy as np

from lemmata.core.engine import kernel
from lemmata.linalg.simd import LINE, at, axpy, dot, empty_lines, fetch, load, store, zero

Array = np.ndarray
TILE = 6  # rows of a tile: 6 × 2 AVX2 registers for sums, 2 for a line, 2 to spread numbers make 16
BUFFER = 2**14  # bytes of gathered factors: half of a usual first-level cache


def workspace(k: int, dtype, buffers: int = 1) -> tuple[Array, Array, Array, Array]:
    """C, buffers X and B (the same one, or two) for gathered rows, and 8 vectors like a row of C: what one thread needs."""
    lanes = LINE // np.dtype(dtype).itemsize
    width = -(-k // lanes) + 1
    chunk = max(16, BUFFER // (LINE * width * buffers))
    C, X, vectors = (empty_lines(rows, width, dtype) for rows in (width * lanes, chunk, 8))
    return C, X, X if buffers == 1 else empty_lines(chunk, width, dtype), vectors


# --- the normal equations ---------------------------------------------------------------------------------------------


@kernel(forceinline=True)
def tile_into(C, width, block, t, own, extra, X, B, count, sign):
    """C[o, block] += sign · Σ_e b_eo · x_e[block] for the six rows o = t … t + 5, where those from `own` on lie at `extra`.

    Rows of X, B and C are `width` lines; b is read number by number, x line by line.
    """
    lanes = C.shape[2]
    o0 = t if t < own else extra + t - own
    o1 = t + 1 if t + 1 < own else extra + t + 1 - own
    o2 = t + 2 if t + 2 < own else extra + t + 2 - own
    o3 = t + 3 if t + 3 < own else extra + t + 3 - own
    o4 = t + 4 if t + 4 < own else extra + t + 4 - own
    o5 = t + 5 if t + 5 < own else extra + t + 5 - own
    c0 = c1 = c2 = c3 = c4 = c5 = zero(C)
    for e in range(count):
        line = load(X, e * width + block)
        q = e * width * lanes
        c0 = axpy(at(B, q + o0), line, c0)
        c1 = axpy(at(B, q + o1), line, c1)
        c2 = axpy(at(B, q + o2), line, c2)
        c3 = axpy(at(B, q + o3), line, c3)
        c4 = axpy(at(B, q + o4), line, c4)
        c5 = axpy(at(B, q + o5), line, c5)
    store(C, o0 * width + block, axpy(sign, c0, load(C, o0 * width + block)))
    store(C, o1 * width + block, axpy(sign, c1, load(C, o1 * width + block)))
    store(C, o2 * width + block, axpy(sign, c2, load(C, o2 * width + block)))
    store(C, o3 * width + block, axpy(sign, c3, load(C, o3 * width + block)))
    store(C, o4 * width + block, axpy(sign, c4, load(C, o4 * width + block)))
    store(C, o5 * width + block, axpy(sign, c5, load(C, o5 * width + block)))


@kernel
def _gather_weighted_into(X, width, V, indices, values, roots, shift, start, count):
    """x_e = √ω_e [v_j …, a_j, 1], so that Σ x_e x_eᵀ has the weights; returns Σ ω_e a_j."""
    nb = width - 1
    summed = 0.0
    for e in range(count):
        j, root = np.int64(indices[start + e]), roots[start + e]
        for block in range(nb):
            store(X, e * width + block, axpy(root, load(V, j * nb + block), zero(X)))
        a = root * (values[start + e] - shift[j])
        summed += root * a
        X[e, nb, 0], X[e, nb, 1] = a, root
    return summed


@kernel
def _gather_into(X, B, width, V, indices, values, shift, implicit, alpha, start, count):
    """x_e = [v_j …, a_j, 1] for the entries start … start + count − 1; returns Σ a_j.

    Implicit: b_e = [α|a_j| v_j …, (1 + α|a_j|)·(a_j > 0)] beside it; explicit: B is X.
    """
    nb = width - 1
    summed = 0.0
    for e in range(count):
        j = np.int64(indices[start + e])
        a = values[start + e]
        for block in range(nb):
            store(X, e * width + block, load(V, j * nb + block))
        if implicit:
            more = X.dtype.type(alpha) * abs(a)
            for block in range(nb):
                store(B, e * width + block, axpy(more, load(V, j * nb + block), zero(B)))
            a = 1 + more if a > 0 else more - more
        else:
            a -= shift[j]
        summed += a
        B[e, nb, 0] = a
    return summed


@kernel
def clear_extra(B):
    """The last line of every gathered row: a place for a, then 1, then the zeros that idle rows of a tile read."""
    chunk, width = B.shape[:2]
    for e in range(chunk):
        store(B, e * width + width - 1, zero(B))
        B[e, width - 1, 1] = 1


@kernel
def _add_products_into(C, X, B, count, k, V, indices, ahead):
    """C += Σ b_e x_eᵀ over the `count` gathered rows, tiles on and above the diagonal only.

    Between tiles it asks for the rows of V that the entries from `ahead` on will gather next: arithmetic and memory overlap.
    """
    width, lanes = C.shape[1:]
    nb = width - 1
    tiles = 0
    for block in range(nb):
        tiles += -(-(min(lanes * (block + 1), k) + 2) // TILE)
    share = -(-X.shape[0] // tiles)
    for block in range(nb):
        own = min(lanes * (block + 1), k)
        for t in range(0, own + 2, TILE):
            soon = min(ahead + share, len(indices))
            for e in range(ahead, soon):
                for line in range(nb):
                    fetch(V, np.int64(indices[e]) * nb + line)
            ahead = soon
            tile_into(C, width, block, t, own, nb * lanes, X, B, count, C.dtype.type(1))


@kernel
def normal_equations_into(
    C, X, B, k, V, indices, values, roots, shift, G, implicit, alpha, start, end
):
    """C = G + Σ β v vᵀ with its two extra rows; returns Σ a. G has rows of nb lines, or none (zero)."""
    chunk, width = X.shape[:2]
    nb = width - 1
    for line in range(C.shape[0] * width):
        store(C, line, zero(C))
    if implicit:
        for r in range(k):
            for block in range(nb):
                store(C, r * width + block, load(G, r * nb + block))
    summed = 0.0
    p = start
    while p < end:
        count = min(chunk, end - p)
        if len(roots) > 0:
            summed += _gather_weighted_into(X, width, V, indices, values, roots, shift, p, count)
        else:
            summed += _gather_into(
                X, B, width, V, indices, values, shift, implicit, alpha, p, count
            )
        p += count
        _add_products_into(C, X, B, count, k, V, indices, p)
    return summed


# --- at the entries ---------------------------------------------------------------------------------------------------


@kernel
def unpack_into(W, i, w, k):
    """Row i of W from lines."""
    lanes = w.shape[1]
    for r in range(k):
        W[i, r] = w[r // lanes, r % lanes]
    if W.shape[1] > k:
        W[i, k] = w[-(-k // lanes), 0]


@kernel
def loss_of(w, k, V, indices, values, roots, shift, G, implicit, alpha, reg, bias_reg, start, end):
    """½ Σ ω (a − s − w·v − b)² + ½ λ‖w‖² + ½ κb²; implicit: ½ Σ c (p − w·v)² over all j, those without an entry through G."""
    lanes = w.shape[1]
    nb = -(-k // lanes)
    b = w[nb, 0]
    loss = (
        np.float64(reg) * np.float64(dot(w, 0, w, 0, nb)) + np.float64(bias_reg) * np.float64(b) * b
    )
    for p in range(start, end):
        j = np.int64(indices[p])
        x = dot(w, 0, V, j * nb, nb)
        if implicit:
            more = alpha * abs(np.float64(values[p]))
            miss = (1.0 if values[p] > 0 else 0.0) - x
            loss += (1 + more) * miss * miss - np.float64(x) * x
        else:
            miss = np.float64(values[p] - shift[j] - b - x)
            if len(roots) > 0:
                miss *= roots[p]
            loss += miss * miss
    if implicit:
        for r in range(k):
            loss += np.float64(w[r // lanes, r % lanes]) * dot(w, 0, G, r * nb, nb)
    return 0.5 * loss


@kernel
def predict_range(indptr, indices, values, U, V, row_shift, shift, k, subtract, first, last, out):
    """u_i·v_j + b_i + c_j at the entries of rows first … last − 1, or what the values leave over."""
    nb = -(-k // V.shape[1])
    for i in range(first, last):
        for p in range(indptr[i], indptr[i + 1]):
            j = np.int64(indices[p])
            x = dot(U, i * nb, V, j * nb, nb) + (row_shift[i] + shift[j])
            out[p] = values[p] - x if subtract else x
