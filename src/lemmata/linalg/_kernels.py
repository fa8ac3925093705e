"""Products of a CSR matrix X (n × d) with a dense block, on all cores, the same to the bit for any number of threads.

    multiply_rows         out = X B
    multiply_transposed   Y = Xᵀ U
    gram_product          Y = Xᵀ diag(w) T, T = X B − 1cᵀ   one pass over X, T is never stored; and its column sums wᵀT

A row of X touches rows of B (and of Y) at random, so the cost is not arithmetic but fetching those rows from cache. The last
two therefore cut the columns of B into chunks of 64 bytes, one cache line, and lay a chunk out as d aligned lines: what a
task jumps around in is then d · 64 bytes, which fits the caches when the whole of B does not. A line is added and scaled as
one SIMD value held in registers (simd.py).

A task is (part of the rows) × (chunk of the columns) with lines of its own to add into; parts are summed in order afterwards.
How many parts there are follows from the shapes alone, never from the threads.
"""

from __future__ import annotations

import numpy as np
from numba import njit, prange

from lemmata.linalg.simd import LINE, add, axpy, empty_lines, load, store, zero

Array = np.ndarray
TASKS = 8  # at least so many where the data is worth it: enough for 8 threads, few enough to keep private sums small


@njit(parallel=True, nogil=True, cache=True)
def pack_into(lines, B):
    """Lay the columns of B out in chunks of one line; the last chunk is filled up with zeros."""
    chunks, d, lanes = lines.shape
    m = B.shape[1]
    for j in prange(d):
        for q in range(chunks):
            for c in range(lanes):
                lines[q, j, c] = B[j, q * lanes + c] if q * lanes + c < m else 0


@njit(parallel=True, nogil=True, cache=True)
def sum_parts_into(out, lines):
    """out = the parts (parts, chunks, d, lanes) added in their order, columns back in place."""
    parts, _, d, lanes = lines.shape
    for j in prange(d):
        for c in range(out.shape[1]):
            total = lines[0, c // lanes, j, c % lanes]
            for part in range(1, parts):
                total += lines[part, c // lanes, j, c % lanes]
            out[j, c] = total


# --- X B --------------------------------------------------------------------------------------------------------------

# Positions and columns are unsigned inside the loops: numba looks whether a signed index is negative (and counts from the
# end), which costs 1.7 times the whole product with a vector.
ONE, TWO, THREE, FOUR = np.uint64(1), np.uint64(2), np.uint64(3), np.uint64(4)


@njit(nogil=True, cache=True)
def _row(indptr, i):
    """Where the entries of row i start and end."""
    return np.uint64(indptr[i]), np.uint64(indptr[i + 1])


@njit(parallel=True, nogil=True, cache=True)
def multiply_rows(indptr, indices, values, B, out):
    """out = X B. Four entries at a time, so that a row of `out` is loaded and stored a quarter as often."""
    m = B.shape[1]
    for i in prange(indptr.shape[0] - 1):
        for c in range(m):
            out[i, c] = 0
        p, end = _row(indptr, i)
        while p + FOUR <= end:
            j0, j1 = np.uint64(indices[p]), np.uint64(indices[p + ONE])
            j2, j3 = np.uint64(indices[p + TWO]), np.uint64(indices[p + THREE])
            x0, x1, x2, x3 = values[p], values[p + ONE], values[p + TWO], values[p + THREE]
            for c in range(m):
                out[i, c] += x0 * B[j0, c] + x1 * B[j1, c] + x2 * B[j2, c] + x3 * B[j3, c]
            p += FOUR
        while p < end:
            j0, x0 = np.uint64(indices[p]), values[p]
            for c in range(m):
                out[i, c] += x0 * B[j0, c]
            p += ONE


# --- Xᵀ U and Xᵀ W (X B − 1cᵀ) ----------------------------------------------------------------------------------------


@njit(nogil=True, cache=True)
def _scatter_row_into(Y, first, indices, values, start, end, line):
    """Add x_ij · line to line `first + j` of Y for every entry j of a row."""
    for p in range(start, end):
        j = first + np.uint64(indices[p])
        store(Y, j, axpy(values[p], line, load(Y, j)))


@njit(nogil=True, cache=True)
def _clear(Y, first, count):
    for j in range(first, first + np.uint64(count)):
        store(Y, j, zero(Y))


@njit(parallel=True, nogil=True, cache=True)
def _transposed_parts(indptr, indices, values, U, cuts, row, Y):
    parts, chunks, d, lanes = Y.shape
    m = U.shape[1]
    for task in prange(parts * chunks):
        part, q = task // chunks, task % chunks
        own = np.uint64(task * d)  # this task's first line of Y
        _clear(Y, own, d)
        for c in range(lanes):
            row[task, 0, c] = 0
        for i in range(cuts[part], cuts[part + 1]):
            for c in range(q * lanes, min(m, (q + 1) * lanes)):
                row[task, 0, c - q * lanes] = U[i, c]
            start, end = _row(indptr, i)
            _scatter_row_into(Y, own, indices, values, start, end, load(row, task))


@njit(parallel=True, nogil=True, cache=True)
def _gram_parts(indptr, indices, values, weights, B, shift, cuts, Y):
    """Private sums Y (parts, chunks, d + 1, lanes); the last line is that of a column of ones beside X."""
    parts, chunks, d = Y.shape[0], Y.shape[1], B.shape[1]
    # threads that walk different rows use the same chunk of B at the same time
    for task in prange(parts * chunks):
        part, q = task // chunks, task % chunks
        # first lines of this task's sums and of its columns of B
        own, chunk = (
            np.uint64(task * (d + 1)),
            np.uint64(q * d),
        )
        _clear(Y, own, d)
        total = zero(B)
        for i in range(cuts[part], cuts[part + 1]):
            start, end = _row(indptr, i)
            t, u = load(shift, q), zero(B)  # two sums, because one would wait for its own additions
            p = start
            while p + TWO <= end:
                t = axpy(values[p], load(B, chunk + np.uint64(indices[p])), t)
                u = axpy(values[p + ONE], load(B, chunk + np.uint64(indices[p + ONE])), u)
                p += TWO
            if p < end:
                t = axpy(values[p], load(B, chunk + np.uint64(indices[p])), t)
            t = axpy(weights[i], add(t, u), zero(B))
            total = add(total, t)
            _scatter_row_into(Y, own, indices, values, start, end, t)
        store(Y, own + np.uint64(d), total)


@njit(nogil=True, cache=True)
def _gram_vector_into(y, indptr, indices, values, weights, b, shift, first, last):
    """The same for one column and the rows first … last − 1, where lines would be empty but for one number."""
    for i in range(first, last):
        start, end = _row(indptr, i)
        t, u = -shift, shift - shift
        p = start
        while p + TWO <= end:
            t += values[p] * b[np.uint64(indices[p])]
            u += values[p + ONE] * b[np.uint64(indices[p + ONE])]
            p += TWO
        if p < end:
            t += values[p] * b[np.uint64(indices[p])]
        t = weights[i] * (t + u)
        for p in range(start, end):
            y[np.uint64(indices[p])] += values[p] * t
        y[-1] += t


@njit(parallel=True, nogil=True, cache=True)
def _gram_vector_parts(indptr, indices, values, weights, b, shift, cuts, Y):
    for part in prange(Y.shape[0]):
        Y[part] = 0
        _gram_vector_into(
            Y[part], indptr, indices, values, weights, b, shift, cuts[part], cuts[part + 1]
        )


def row_parts(indptr: Array, d: int, chunks: int) -> Array:
    """Where to cut the rows: parts of about equal entries, as many as make TASKS tasks, but never so many that clearing and
    summing their d lines (parts · d) would cost more than a quarter of the work on the entries."""
    n, entries = len(indptr) - 1, int(indptr[-1])
    parts = max(1, min(-(-TASKS // chunks), entries // (4 * max(d, 1))))
    cuts = np.searchsorted(indptr, np.linspace(0, entries, parts + 1)).astype(np.int64)
    cuts[0], cuts[-1] = 0, n
    return cuts


def multiply_transposed(indptr: Array, indices: Array, values: Array, U: Array, d: int) -> Array:
    """Y = Xᵀ U, (d, m)."""
    m = U.shape[1]
    chunks = max(1, -(-m * values.itemsize // LINE))
    cuts = row_parts(indptr, d, chunks)
    parts = len(cuts) - 1
    Y = empty_lines(parts * chunks, d, values.dtype)
    Y = Y.reshape(parts, chunks, *Y.shape[1:])
    _transposed_parts(
        indptr, indices, values, U, cuts, empty_lines(parts * chunks, 1, values.dtype), Y
    )
    out = np.empty((d, m), values.dtype)
    sum_parts_into(out, Y)
    return out


def gram_product(
    indptr: Array,
    indices: Array,
    values: Array,
    B: Array,
    weights: Array | None = None,
    shift: Array | None = None,
) -> tuple[Array, Array]:
    """Y = Xᵀ diag(w) T and wᵀT for T = X B − 1cᵀ and B of shape (d, m); w and c (m,) are 1 and 0 where they are None.

    All arrays of floats have the dtype of `values`. Working memory: (1 + parts) copies of B, padded to whole lines.
    """
    d, m = B.shape
    weights = np.ones(len(indptr) - 1, values.dtype) if weights is None else weights
    shift = np.zeros(m, values.dtype) if shift is None else shift
    out = np.empty((d + 1, m), values.dtype)
    if m == 1:
        cuts = row_parts(indptr, d, 1)
        sums = np.empty((len(cuts) - 1, d + 1), values.dtype)
        _gram_vector_parts(
            indptr, indices, values, weights, np.ascontiguousarray(B[:, 0]), shift[0], cuts, sums
        )
        out[:, 0] = sums.sum(axis=0)
        return out[:d], out[d]
    chunks = max(1, -(-m * values.itemsize // LINE))
    cuts = row_parts(indptr, d, chunks)
    parts = len(cuts) - 1
    lines, start = empty_lines(chunks, d, values.dtype), empty_lines(chunks, 1, values.dtype)
    pack_into(lines, B)
    pack_into(start, -shift[None])
    Y = empty_lines(parts * chunks, d + 1, values.dtype)
    Y = Y.reshape(parts, chunks, *Y.shape[1:])
    _gram_parts(indptr, indices, values, weights, lines, start, cuts, Y)
    sum_parts_into(out, Y)
    return out[:d], out[d]
