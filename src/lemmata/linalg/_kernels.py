"""Products of a CSR matrix X (n × d) with a dense block, on all cores, the same to the bit for any number of threads.

    multiply_rows         out = X B
    multiply_transposed   Y = Xᵀ U
    gram_product          Y = Xᵀ diag(w) T, T = X B − 1cᵀ   one pass over X, T is never stored; and its column sums wᵀT

A row of X touches rows of B (and of Y) at random, so the cost is not arithmetic but fetching those rows from cache. The last
two therefore cut the columns of B into chunks of 64 bytes, one cache line, and lay a chunk out as d aligned lines: what a
task jumps around in is then d · 64 bytes, which fits the caches when the whole of B does not. A line is added and scaled as
one SIMD value held in registers (simd.py).

A task is (part of the rows) × (chunk of the columns) with lines of its own to add into; parts are summed in order afterwards.
How many parts there are follows from the shapes alone, never from the threads. Kernels do one task each and let go of the
interpreter's lock; the threads are ours (core/engine.py), since numba's own do not survive a fork.
"""

from __future__ import annotations

import numpy as np

from lemmata.core.engine import kernel, run_tasks
from lemmata.linalg.simd import LINE, add, axpy, empty_lines, load, store, zero

Array = np.ndarray
TASKS = 8  # at least so many where the data is worth it: enough for 8 threads, few enough to keep private sums small
ALONE = 2**17  # numbers below which one thread is done before a second one has begun


def in_ranges(work, count: int, numbers: int) -> None:
    """work(first, last) over 0 … count − 1, in TASKS ranges side by side if there are numbers enough."""
    if numbers < ALONE:
        work(0, count)
        return
    cuts = np.linspace(0, count, TASKS + 1).astype(np.int64)
    run_tasks(lambda task: work(cuts[task], cuts[task + 1]), TASKS)


def pack_into(lines: Array, B: Array) -> None:
    """Lay the columns of B out in chunks of one line; the last chunk is filled up with zeros."""
    in_ranges(lambda first, last: _pack_range_into(lines, B, first, last), len(B), lines.size)


@kernel
def _pack_range_into(lines, B, first, last):
    chunks, _, lanes = lines.shape
    m = B.shape[1]
    for j in range(first, last):
        for q in range(chunks):
            for c in range(lanes):
                lines[q, j, c] = B[j, q * lanes + c] if q * lanes + c < m else 0


def sum_parts_into(out: Array, lines: Array) -> None:
    """out = the parts (parts, chunks, d, lanes) added in their order, columns back in place."""
    in_ranges(
        lambda first, last: _sum_range_into(out, lines, first, last), lines.shape[2], lines.size
    )


@kernel
def _sum_range_into(out, lines, first, last):
    parts, lanes = lines.shape[0], lines.shape[3]
    for j in range(first, last):
        for c in range(out.shape[1]):
            total = lines[0, c // lanes, j, c % lanes]
            for part in range(1, parts):
                total += lines[part, c // lanes, j, c % lanes]
            out[j, c] = total


# --- X B --------------------------------------------------------------------------------------------------------------

# Positions and columns are unsigned inside the loops: numba looks whether a signed index is negative (and counts from the
# end), which costs 1.7 times the whole product with a vector.
ONE, TWO, THREE, FOUR = np.uint64(1), np.uint64(2), np.uint64(3), np.uint64(4)


@kernel
def _row(indptr, i):
    """Where the entries of row i start and end."""
    return np.uint64(indptr[i]), np.uint64(indptr[i + 1])


def multiply_rows(indptr: Array, indices: Array, values: Array, B: Array, out: Array) -> None:
    """out = X B."""
    n, entries = len(indptr) - 1, int(indptr[-1])
    if (entries + n) * B.shape[1] < ALONE:
        _multiply_range(indptr, indices, values, B, out, 0, n)
        return
    # a row costs its entries, and a little even without any
    cost = indptr.astype(np.int64) + np.arange(n + 1)
    cuts = np.searchsorted(cost, np.linspace(0, cost[-1], TASKS + 1))
    cuts[-1] = n
    run_tasks(
        lambda task: _multiply_range(indptr, indices, values, B, out, cuts[task], cuts[task + 1]),
        TASKS,
    )


@kernel
def _multiply_range(indptr, indices, values, B, out, first, last):
    """Rows first … last − 1. Four entries at a time, so that a row of `out` is loaded and stored a quarter as often."""
    m = B.shape[1]
    for i in range(first, last):
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


@kernel
def _scatter_row_into(Y, first, indices, values, start, end, line):
    """Add x_ij · line to line `first + j` of Y for every entry j of a row."""
    for p in range(start, end):
        j = first + np.uint64(indices[p])
        store(Y, j, axpy(values[p], line, load(Y, j)))


@kernel
def _clear(Y, first, count):
    for j in range(first, first + np.uint64(count)):
        store(Y, j, zero(Y))


@kernel
def _transposed_part_into(Y, task, indptr, indices, values, U, cuts, row):
    _, chunks, d, lanes = Y.shape
    m, part, q = U.shape[1], task // chunks, task % chunks
    own = np.uint64(task * d)  # this task's first line of Y
    _clear(Y, own, d)
    for c in range(lanes):
        row[task, 0, c] = 0
    for i in range(cuts[part], cuts[part + 1]):
        for c in range(q * lanes, min(m, (q + 1) * lanes)):
            row[task, 0, c - q * lanes] = U[i, c]
        start, end = _row(indptr, i)
        _scatter_row_into(Y, own, indices, values, start, end, load(row, task))


@kernel
def _gram_part_into(Y, task, indptr, indices, values, weights, B, shift, cuts):
    """Private sums Y (parts, chunks, d + 1, lanes); the last line is that of a column of ones beside X."""
    chunks, d = Y.shape[1], B.shape[1]
    # tasks are numbered so that threads that walk different rows use the same chunk of B at the same time
    part, q = task // chunks, task % chunks
    # first lines of its sums, and of its columns of B
    own, chunk = np.uint64(task * (d + 1)), np.uint64(q * d)
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


@kernel
def _gram_vector_into(y, indptr, indices, values, weights, b, shift, first, last):
    """The same for one column and the rows first … last − 1, where a line would hold one number only."""
    y[:] = 0
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
    row = empty_lines(parts * chunks, 1, values.dtype)
    run_tasks(
        lambda task: _transposed_part_into(Y, task, indptr, indices, values, U, cuts, row),
        parts * chunks,
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
        b = np.ascontiguousarray(B[:, 0])
        run_tasks(
            lambda part: _gram_vector_into(
                sums[part], indptr, indices, values, weights, b, shift[0], *cuts[part : part + 2]
            ),
            len(sums),
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
    run_tasks(
        lambda task: _gram_part_into(Y, task, indptr, indices, values, weights, lines, start, cuts),
        parts * chunks,
    )
    sum_parts_into(out, Y)
    return out[:d], out[d]
