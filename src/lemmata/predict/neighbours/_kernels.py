"""All rows pass by six queries at a time, in registers; those that may be near are noted and measured in float64 later.

Sixteen rows are one tile: line f of it holds feature f of all of them, so one load feeds six fused multiply-adds, as in
clustering/_kernels_assign. A tile's scores are compared with six thresholds at once and almost always thrown away: no matrix of
scores is written. The rows go through in chunks that stay in the second-level cache while all queries of a task see them.

What reaches the threshold is noted by its score. A full list raises the threshold to what k of its rows reach for sure (as in
_twins.candidates) and drops the rest. A heap of measured rows did the same at ten times the price for each of k·ln(n/k) rows:
100,000 × 32, 10,000 queries, k = 100, one core: 2.2 and 1.3 s.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types

from lemmata.core.engine import kernel
from lemmata.linalg.simd import (
    LINE,
    at,
    axpy,
    empty_lines,
    freeze,
    load,
    operation,
    spread,
    spread_over,
    store,
)

Array = np.ndarray
LANES = LINE // 4
SIX = 6
CHUNK = 2**12  # lines (256 kB) of rows that all queries of a task see before the next
SPARE = 64  # places of a list beyond 2k


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


@operation
def lanes_reaching(_, x, number):
    """The lanes of x that are at least `number`, as bits."""

    def code(context, builder, signature, args):
        bounds = spread_over(context, builder, x, args[1], number)
        reached = builder.fcmp_ordered(">=", args[0], bounds)
        bits = builder.bitcast(reached, ir.IntType(x.lanes))
        return builder.zext(bits, ir.IntType(64))

    return types.int64(x, number), code


@operation
def first_bit(_, bits):
    """The place of the lowest 1 of a number that is not 0."""

    def code(context, builder, signature, args):
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.int64), code


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


@kernel(forceinline=True)
def _from_below(score):
    """A score as float32 that is no larger."""
    below = np.float32(score)
    return below - abs(below) * np.float32(2.0**-22) - np.float32(2.0**-140)


@kernel(forceinline=True)
def _move_up(scores, low, high, least):
    """Put what reaches `least` before the rest, between low and high, without a branch; return where the rest begins."""
    end = low
    for e in range(low, high):
        score = scores[e]
        scores[e], scores[end] = scores[end], score
        end += np.int64(score >= least)
    return end


@kernel
def _kth_largest(scores, size, k):
    """The k-th largest of the first `size` scores, which change places."""
    low, high = 0, size
    while True:
        a, b, c = scores[low], scores[(low + high) // 2], scores[high - 1]
        pivot = max(min(a, b), min(max(a, b), c))
        above = _move_up(scores, low, high, np.nextafter(pivot, np.float32(np.inf)))
        if k <= above:
            high = above
            continue
        low = _move_up(scores, above, high, pivot)
        if k <= low:
            return pivot


@kernel
def _drop_far(scores, rows, size, k, starts, share, margin, room):
    """Leave out of a list what k of its rows beat, whatever float32 did: the new size, and the score that others must reach.

    A row has s ≥ score − 2a‖x‖² − margin, with `share` · start = −2a‖x‖², and s ≤ score + margin.
    """
    if size < k:
        return size, np.float32(-np.inf)
    room[:size] = scores[:size]
    least, kth = np.inf, _kth_largest(room, size, k)
    for e in range(size):
        surely = scores[e] + share * at(starts, rows[e])
        least = min(least, surely if scores[e] >= kth else np.inf)
    bound, kept = _from_below(least - 4 * margin), np.int64(0)
    for e in range(size):
        scores[kept], rows[kept] = scores[e], rows[e]
        kept += np.int64(scores[kept] >= bound)
    return kept, bound


@kernel
def _measure(squares, rows, found, size, Q, i, X, scale, n):
    """The k nearest of the first `size` rows in `found`, as a heap by (square, row); what is left of it is ∞ and n."""
    squares[:], rows[:] = np.inf, n
    for e in range(size):
        row = np.int64(found[e])
        square = _square_between(Q, i, X, row, scale)
        if _comes_before(square, row, squares[0], rows[0]):
            squares[0], rows[0] = square, row
            _sink(squares, rows, 0, len(rows))


@kernel(forceinline=True)
def _collect(scores, bounds, b, tile, near, who, sizes, n):
    """Note the rows of a tile that reach the bounds of six queries; return whether a list is nearly full."""
    full = False
    for c in range(b, b + SIX):
        bits = lanes_reaching(load(scores, c - b), at(bounds, c))
        while bits:
            lane = first_bit(bits)
            row, bits = tile * LANES + lane, bits & (bits - 1)
            if row < n:
                near[c, sizes[c]], who[c, sizes[c]] = at(scores, (c - b) * LANES + lane), row
                sizes[c] += 1
        full |= sizes[c] > near.shape[1] - LANES
    return full


@kernel
def search_into(
    squares, rows, margins, lines, starts, sixes, Q, X, scale, slack, first, last
):  # fmt: skip
    """The k nearest rows of the queries first ≤ i < last, a multiple of six, into squares and rows (q, k), sorted.

    margins : what scores of a query may be too low by, besides what `starts` makes up for
    lines, starts, sixes : rows and queries as `pack` and `pack_queries` have them
    Q, X, scale, slack : queries and rows as they are, the scale of the lines, and a
    """
    (n, d), k, tiles = X.shape, squares.shape[1], len(starts)
    blocks, size = -(-(last - first) // SIX), 2 * k + SPARE
    # a place without a query keeps ∞, which no row reaches
    bounds = np.full(blocks * SIX, np.inf, np.float32)
    bounds[: last - first] = -np.inf
    near, room = np.empty((blocks * SIX, size), np.float32), np.empty(size, np.float32)
    who, sizes = np.empty((blocks * SIX, size), np.uint32), np.zeros(blocks * SIX, np.int64)
    share = 2.1 * slack / (0.5 - slack)
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
                    if _collect(scores, bounds, b, tile, near, who, sizes, n):
                        for c in range(b, b + SIX):
                            if sizes[c] > size - LANES:
                                _make_room(
                                    squares, rows, margins, near, who, sizes, bounds, room,
                                    starts, share, Q, X, scale, first, c,
                                )  # fmt: skip
                        t0, t1 = spread(lines, at(bounds, b)), spread(lines, at(bounds, b + 1))
                        t2, t3 = spread(lines, at(bounds, b + 2)), spread(lines, at(bounds, b + 3))
                        t4, t5 = spread(lines, at(bounds, b + 4)), spread(lines, at(bounds, b + 5))
    for i in range(first, last):
        c = i - first
        count, _ = _drop_far(near[c], who[c], sizes[c], k, starts, share, margins[i], room)
        _measure(squares[i], rows[i], who[c], count, Q, i, X, scale, n)
        for size in range(k - 1, 0, -1):  # the last of the order goes to the end, again and again
            squares[i, 0], squares[i, size] = squares[i, size], squares[i, 0]
            rows[i, 0], rows[i, size] = rows[i, size], rows[i, 0]
            _sink(squares[i], rows[i], 0, size)


@kernel
def _make_room(
    squares, rows, margins, near, who, sizes, bounds, room, starts, share, Q, X, scale, first, c
):
    """Shorten a full list and raise its bound; where float32 cannot tell its rows apart, float64 decides which k stay."""
    n, k, i = len(X), squares.shape[1], first + c
    kept, bound = _drop_far(near[c], who[c], sizes[c], k, starts, share, margins[i], room)
    bounds[c] = max(bounds[c], bound)
    if kept > (k + near.shape[1]) // 2:
        _measure(squares[i], rows[i], who[c], kept, Q, i, X, scale, n)
        every, kept = kept, 0
        for e in range(every):
            row = np.int64(who[c, e])
            square = _square_between(Q, i, X, row, scale)
            if not _comes_before(squares[i, 0], rows[i, 0], square, row):
                near[c, kept], who[c, kept] = near[c, e], who[c, e]
                kept += 1
    sizes[c] = kept
