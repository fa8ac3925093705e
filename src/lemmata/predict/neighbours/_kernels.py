"""All rows pass by six queries at a time, in registers; what may be near is measured in float64 and kept in a heap.

Sixteen rows are one tile: line f of it holds feature f of all of them, so one load feeds six fused multiply-adds, as in
clustering/_kernels_assign. A tile's scores are compared with six thresholds at once and almost always thrown away: no matrix of
scores is written. The rows go through in chunks that stay in the second-level cache while all queries of a task see them.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types

from lemmata.core.engine import kernel
from lemmata.linalg.simd import LINE, at, axpy, empty_lines, freeze, load, operation, spread, store

Array = np.ndarray
LANES = LINE // 4
SIX = 6
CHUNK = 2**12  # lines (256 kB) of rows that all queries of a task see before the next


def pack(rows: Array, starts: Array) -> tuple[Array, Array]:
    """Rows (n, d) as lines (tiles · d, 16), and what their scores start with, −∞ for places left empty: (tiles, 16)."""
    n, d = rows.shape
    tiles = -(-n // LANES)
    lines, first = empty_lines(tiles, d, np.float32), empty_lines(tiles, 1, np.float32)[:, 0]
    whole = n // LANES
    lines[:whole] = rows[: whole * LANES].reshape(whole, LANES, d).transpose(0, 2, 1)
    first[:whole] = starts[: whole * LANES].reshape(whole, LANES)
    if whole < tiles:
        rest = n - whole * LANES
        lines[whole], first[whole] = 0, -np.inf
        lines[whole, :, :rest], first[whole, :rest] = (
            rows[whole * LANES :].T,
            starts[whole * LANES :],
        )
    return freeze(lines.reshape(-1, LANES)), freeze(first)


def pack_queries(points: Array) -> Array:
    """Queries by sixes: (sixes, d, 6) float32, the last filled up with zeros."""
    q, d = points.shape
    sixes = np.zeros((-(-q // SIX) * SIX, d), np.float32)
    sixes[:q] = points
    return freeze(sixes.reshape(-1, SIX, d).transpose(0, 2, 1))


@operation
def any_reaches(_, a, b, c, d, e, f, s, t, u, v, w, x):
    """Whether any number of the lines a … f is at least that of s … x."""

    def code(context, builder, signature, args):
        found = None
        for line, bound in zip(args[:6], args[6:], strict=True):
            reached = builder.fcmp_ordered(">=", line, bound)
            found = reached if found is None else builder.or_(found, reached)
        bits = builder.bitcast(found, ir.IntType(a.lanes))
        return builder.icmp_unsigned("!=", bits, ir.IntType(a.lanes)(0))

    return types.boolean(a, b, c, d, e, f, s, t, u, v, w, x), code


@kernel(forceinline=True)
def _square_between(Q, query, X, row, scale):
    """‖(q − x)·scale‖² in float64."""
    d = X.shape[1]
    p, r, even, odd = query * d, row * d, 0.0, 0.0
    for j in range(0, d - 1, 2):
        e = (np.float64(at(Q, p + j)) - np.float64(at(X, r + j))) * scale
        f = (np.float64(at(Q, p + j + 1)) - np.float64(at(X, r + j + 1))) * scale
        even += e * e
        odd += f * f
    if d % 2:
        e = (np.float64(at(Q, p + d - 1)) - np.float64(at(X, r + d - 1))) * scale
        even += e * e
    return even + odd


@kernel(forceinline=True)
def _comes_before(a, i, b, j):
    return a < b or (a == b and i < j)


@kernel
def _sink(squares, rows, place, size):
    """Let the entry at `place` of a heap, the last in the order on top, sink to where it belongs."""
    square, row = squares[place], rows[place]
    while True:
        child = 2 * place + 1
        if child >= size:
            break
        if child + 1 < size and _comes_before(
            squares[child], rows[child], squares[child + 1], rows[child + 1]
        ):
            child += 1
        if not _comes_before(square, row, squares[child], rows[child]):
            break
        squares[place], rows[place] = squares[child], rows[child]
        place = child
    squares[place], rows[place] = square, row


@kernel
def _threshold(square, length, margin, d):
    """The score that a row as near as the k-th has at least, less all that rounding may have taken; as float32, from below."""
    if not square < np.inf:
        return np.float32(-np.inf)
    least = (length - square) / 2 - (d + 8) * 2.0**-51 * (length + square) - margin
    below = np.float32(least)
    return below - abs(below) * np.float32(2.0**-22) - np.float32(2.0**-140)


@kernel
def search_into(squares, rows, margins, lines, starts, sixes, Q, X, lengths, scale, first, last):
    """The k nearest rows of the queries first ≤ i < last, a multiple of six, into squares and rows (q, k), sorted.

    squares, rows : filled with ∞ and n, heaps while the rows pass by
    margins : what scores of a query may be too low by, besides what `starts` makes up for
    lines, starts, sixes : rows and queries as `pack` and `pack_queries` have them
    Q, X, lengths, scale : queries and rows as they are, ‖q‖² in the coordinates of the lines, and their scale
    """
    (n, d), k, tiles = X.shape, squares.shape[1], len(starts)
    blocks = -(-(last - first) // SIX)
    # a place without a query keeps ∞, which no row reaches
    bounds = np.full(blocks * SIX, np.inf, np.float32)
    for i in range(first, last):
        bounds[i - first] = -np.inf
    raw = np.empty((SIX + 1) * LANES, np.float32)
    begin = (-raw.ctypes.data % LINE) // 4
    scores = raw[begin : begin + SIX * LANES].reshape(SIX, LANES)
    step = max(1, CHUNK // d)
    for chunk in range(0, tiles, step):
        for block in range(blocks):
            b = block * SIX
            place = (first // SIX + block) * SIX * d
            t0, t1 = spread(lines, at(bounds, b)), spread(lines, at(bounds, b + 1))
            t2, t3 = spread(lines, at(bounds, b + 2)), spread(lines, at(bounds, b + 3))
            t4, t5 = spread(lines, at(bounds, b + 4)), spread(lines, at(bounds, b + 5))
            for tile in range(chunk, min(chunk + step, tiles)):
                c0 = c1 = c2 = c3 = c4 = c5 = load(starts, tile)
                p, l = place, tile * d
                for _ in range(d):
                    line = load(lines, l)
                    c0 = axpy(at(sixes, p), line, c0)
                    c1 = axpy(at(sixes, p + 1), line, c1)
                    c2 = axpy(at(sixes, p + 2), line, c2)
                    c3 = axpy(at(sixes, p + 3), line, c3)
                    c4 = axpy(at(sixes, p + 4), line, c4)
                    c5 = axpy(at(sixes, p + 5), line, c5)
                    p += SIX
                    l += 1
                if any_reaches(c0, c1, c2, c3, c4, c5, t0, t1, t2, t3, t4, t5):
                    store(scores, 0, c0)
                    store(scores, 1, c1)
                    store(scores, 2, c2)
                    store(scores, 3, c3)
                    store(scores, 4, c4)
                    store(scores, 5, c5)
                    _measure(
                        squares,
                        rows,
                        margins,
                        scores,
                        bounds,
                        b,
                        tile,
                        Q,
                        X,
                        lengths,
                        scale,
                        first,
                        n,
                        k,
                    )
                    t0, t1 = spread(lines, at(bounds, b)), spread(lines, at(bounds, b + 1))
                    t2, t3 = spread(lines, at(bounds, b + 2)), spread(lines, at(bounds, b + 3))
                    t4, t5 = spread(lines, at(bounds, b + 4)), spread(lines, at(bounds, b + 5))
    for i in range(first, last):
        for size in range(k - 1, 0, -1):  # the last of the order goes to the end, again and again
            squares[i, 0], squares[i, size] = squares[i, size], squares[i, 0]
            rows[i, 0], rows[i, size] = rows[i, size], rows[i, 0]
            _sink(squares[i], rows[i], 0, size)


@kernel
def _measure(squares, rows, margins, scores, bounds, b, tile, Q, X, lengths, scale, first, n, k):
    """Measure the rows of a tile that reach the bound of one of six queries; those that are nearer replace the k-th."""
    d = X.shape[1]
    for c in range(SIX):
        i = first + b + c
        for lane in range(LANES):
            row = tile * LANES + lane
            if row < n and scores[c, lane] >= bounds[b + c]:
                square = _square_between(Q, i, X, row, scale)
                if _comes_before(square, row, squares[i, 0], rows[i, 0]):
                    squares[i, 0], rows[i, 0] = square, row
                    _sink(squares[i], rows[i], 0, k)
                    bounds[b + c] = _threshold(squares[i, 0], lengths[i], margins[i], d)
