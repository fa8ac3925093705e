"""The nearest centre of every row, and what k-means adds up of it, without ever writing the distances.

    label_i = argmax_j  x_i·c_j − ½‖c_j‖²          the same as argmin_j ‖x_i − c_j‖², and half of it is a matrix product

The rows of one cache line (16 float32, 8 float64; SIMD values as in linalg/_kernels) are transposed into a tile, so that a
line holds one feature of 16 rows. Six centres at a time run over the tile with their scores in twelve (AVX2) registers: one
load of a line feeds six fused multiply-adds, and comparing scores needs no sums across a line. While it is transposed the
tile is also shifted and scaled, x̂ = (x − origin)·scale, since the expanded square loses its digits far from the origin and
leaves the floats at 1e150. The squared distance to the centre found is then summed from differences, which loses nothing.

Ties go to the centre with the lowest number. Rows are added up one after the other, in float64.

Layout of six centres: (tiles, d, 6) numbers, feature by feature; `starts` holds −½‖ĉ‖² (−∞ for a place left empty), `numbers`
the numbers of the centres as floats, which are exact up to 2²⁴.
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
    load,
    load_from,
    madd,
    minus,
    operation,
    spread,
    store,
    total,
    where_larger,
    zero,
)

Array = np.ndarray
CANCELLED = 1e-6  # of ‖ĉ‖²: a sparse row's square below it is summed again
SIX = 6  # centres of a tile: 6 × 2 AVX2 registers for scores, 2 for a line, 2 to spread numbers make 16


# --- lines of rows ----------------------------------------------------------------------------------------------------


@operation
def add_wide_into(_, sums, place, weight, line):
    """sums[place + i] += weight · line[i], in float64."""

    def code(context, builder, signature, args):
        wide, i32 = ir.VectorType(ir.DoubleType(), line.lanes), ir.IntType(32)
        start = context.make_array(sums)(context, builder, args[0]).data
        address = builder.gep(start, [context.cast(builder, args[1], place, types.intp)])
        address = builder.bitcast(address, wide.as_pointer())
        nothing = ir.Constant(wide, ir.Undefined)
        first = builder.insert_element(
            nothing, context.cast(builder, args[2], weight, types.float64), i32(0)
        )
        w = builder.shuffle_vector(
            first, nothing, ir.Constant(ir.VectorType(i32, line.lanes), [0] * line.lanes)
        )
        x = args[3] if line.dtype == types.float64 else builder.fpext(args[3], wide)
        fused = ("contract",)
        added = builder.fadd(
            builder.fmul(w, x, flags=fused), builder.load(address, align=8), flags=fused
        )
        builder.store(added, address, align=8)
        return context.get_dummy_value()

    return types.void(sums, place, weight, line), code


@operation
def add_number_into(_, sums, place, number):
    """sums[place] += number, for sums seen as flat."""

    def code(context, builder, signature, args):
        start = context.make_array(sums)(context, builder, args[0]).data
        address = builder.gep(start, [context.cast(builder, args[1], place, types.intp)])
        builder.store(
            builder.fadd(builder.load(address), context.cast(builder, args[2], number, sums.dtype)),
            address,
        )
        return context.get_dummy_value()

    return types.void(sums, place, number), code


@operation
def transpose_into(_, tile, lane, X, places, feature):
    """tile[feature + c, lane + r] = X[places[lane + r] + feature + c] for r, c below half a line; X is seen as flat.

    log₂ rounds exchange halves, quarters, … between pairs of vectors: shuffles of registers instead of single numbers.
    """

    def code(context, builder, signature, args):
        lanes = 8 * LINE // tile.dtype.bitwidth
        side, i64 = lanes // 2, ir.IntType(64)
        number = ir.FloatType() if tile.dtype == types.float32 else ir.DoubleType()
        vector = ir.VectorType(number, side).as_pointer()
        to, rows, starts = (
            context.make_array(kind)(context, builder, value).data
            for kind, value in ((tile, args[0]), (X, args[2]), (places, args[3]))
        )
        first, column = (
            context.cast(builder, value, kind, types.intp)
            for value, kind in ((args[1], lane), (args[4], feature))
        )
        parts = []
        for r in range(side):
            row = builder.load(builder.gep(starts, [builder.add(first, i64(r))]))
            address = builder.bitcast(builder.gep(rows, [builder.add(row, column)]), vector)
            parts.append(builder.load(address, align=tile.dtype.bitwidth // 8))
        for c, part in enumerate(_transpose(builder, parts)):
            place = builder.add(builder.mul(builder.add(column, i64(c)), i64(lanes)), first)
            builder.store(part, builder.bitcast(builder.gep(to, [place]), vector), align=LINE // 2)
        return context.get_dummy_value()

    return types.void(tile, lane, X, places, feature), code


def _transpose(builder, parts):
    """The columns of a square matrix given as row vectors."""
    side = len(parts)
    half = side // 2
    places = ir.VectorType(ir.IntType(32), side)
    while half:
        low = ir.Constant(places, [m if not m & half else side + (m ^ half) for m in range(side)])
        high = ir.Constant(places, [m | half if not m & half else side + m for m in range(side)])
        parts = [
            builder.shuffle_vector(parts[i & ~half], parts[i | half], high if i & half else low)
            for i in range(side)
        ]
        half //= 2
    return parts


@kernel
def empty_tile(X, rows):
    """Uninitialised lines (rows, lanes) of the dtype of X, each of them aligned."""
    lanes = LINE // X.itemsize
    raw = np.empty((rows + 1) * lanes, X.dtype)
    first = (-raw.ctypes.data % LINE) // X.itemsize
    return raw[first : first + rows * lanes].reshape(rows, lanes)


@kernel(forceinline=True)
def gather_into(tile, X, places, origin, scale):
    """tile[j, r] = x̂_j of the row that starts at number places[r] of X."""
    d, lanes = X.shape[1], tile.shape[1]
    side = lanes // 2
    whole = d // side * side
    for j in range(0, whole, side):
        transpose_into(tile, 0, X, places, j)
        transpose_into(tile, side, X, places, j)
    for j in range(whole, d):
        for r in range(lanes):
            tile[j, r] = at(X, places[r] + j)
    for j in range(d):
        store(tile, j, axpy(scale, minus(load(tile, j), spread(tile, at(origin, j))), zero(tile)))


# --- scores -----------------------------------------------------------------------------------------------------------


@kernel(forceinline=True)
def _push_score(score, number, best, second, which):
    """The two best scores and whose the best is, with one more score."""
    second = where_larger(score, best, best, where_larger(score, second, score, second))
    which = where_larger(score, best, number, which)
    return where_larger(score, best, score, best), second, which


@kernel(forceinline=True)
def scan(tile, d, C, starts, numbers, first, last):
    """(best score, second best, number of the best) for the rows of a tile, among the sixes first … last − 1 of centres."""
    best = second = spread(tile, -np.inf)
    which = zero(tile)
    for t in range(first, last):
        j, q = t * SIX, t * SIX * d
        c0, c1, c2 = (
            spread(tile, at(starts, j)),
            spread(tile, at(starts, j + 1)),
            spread(tile, at(starts, j + 2)),
        )
        c3, c4, c5 = (
            spread(tile, at(starts, j + 3)),
            spread(tile, at(starts, j + 4)),
            spread(tile, at(starts, j + 5)),
        )
        for l in range(d):
            line = load(tile, l)
            c0 = axpy(at(C, q), line, c0)
            c1 = axpy(at(C, q + 1), line, c1)
            c2 = axpy(at(C, q + 2), line, c2)
            c3 = axpy(at(C, q + 3), line, c3)
            c4 = axpy(at(C, q + 4), line, c4)
            c5 = axpy(at(C, q + 5), line, c5)
            q += SIX
        best, second, which = _push_score(c0, spread(tile, at(numbers, j)), best, second, which)
        best, second, which = _push_score(c1, spread(tile, at(numbers, j + 1)), best, second, which)
        best, second, which = _push_score(c2, spread(tile, at(numbers, j + 2)), best, second, which)
        best, second, which = _push_score(c3, spread(tile, at(numbers, j + 3)), best, second, which)
        best, second, which = _push_score(c4, spread(tile, at(numbers, j + 4)), best, second, which)
        best, second, which = _push_score(c5, spread(tile, at(numbers, j + 5)), best, second, which)
    return best, second, which


# The loops over rows below call no function that takes arrays: numba would count references to them in every round, and that
# costs more than the row itself (measured: 20 instead of 11 ns per row of 32 float32 for the sums alone).


@kernel
def distances_into(squares, X, centers, labels, scale, first, count):
    """squares[r] = ‖(x_i − c)·scale‖², from differences, for the rows i = first + r and the centres c of their labels."""
    d, lanes = X.shape[1], LINE // X.itemsize
    whole = d // lanes * lanes
    for r in range(count):
        x, c = (first + r) * d, np.int64(labels[first + r]) * d
        line = zero(X)
        for l in range(0, whole, lanes):
            e = axpy(scale, minus(load_from(X, x + l), load_from(centers, c + l)), zero(X))
            line = madd(e, e, line)
        result = total(line)
        for l in range(whole, d):
            e = (at(X, x + l) - at(centers, c + l)) * scale
            result += e * e
        squares[r] = result


@kernel
def add_up_into(counts, sums, far, farthest, X, weights, labels, squares, first, count):
    """Add the rows first … first + count − 1 to their clusters, given ‖x̂ − ĉ‖² of each; returns their cost.

    far and farthest remember the worst served row of each cluster, if it has any weight.
    """
    d, lanes, weighted = X.shape[1], LINE // X.itemsize, len(weights) > 0
    whole = d // lanes * lanes
    cost, weight = 0.0, 1.0
    for r in range(count):
        a = np.uint64(labels[first + r])
        if weighted:
            weight = weights[first + r]
        counts[a] += weight
        if squares[r] > far[a] and weight > 0:
            far[a] = squares[r]
            farthest[a] = first + r
        cost += weight * squares[r]
    for i in range(first, first + count):
        x, c = i * d, np.int64(labels[i]) * d
        if weighted:
            weight = weights[i]
        for l in range(0, whole, lanes):
            add_wide_into(sums, c + l, weight, load_from(X, x + l))
        for l in range(whole, d):
            add_number_into(sums, c + l, weight * at(X, x + l))
    return cost


@kernel
def assign_rows_into(
    labels,
    counts,
    sums,
    far,
    farthest,
    X,
    weights,
    centers,
    C,
    starts,
    numbers,
    origin,
    scale,
    chunk,
):
    """Assign every row to its nearest centre and add up. Returns (cost · scale², rows whose label is not what it was).

    weights: (n,), or empty where all are 1. far and farthest: the largest ‖x̂ − ĉ‖² of each cluster and its row. chunk: how
    many rows, a multiple of a line, are labelled before they are added up.
    """
    n, d = X.shape
    tile, squares = empty_tile(X, d + 1), np.empty(chunk)
    lanes, sixes = tile.shape[1], len(starts) // SIX
    places, cost, moved = np.empty(lanes, np.int64), 0.0, 0
    for begin in range(0, n, chunk):
        end = min(begin + chunk, n)
        for first in range(begin, end, lanes):
            for r in range(lanes):
                places[r] = min(first + r, end - 1) * d
            gather_into(tile, X, places, origin, scale)
            store(tile, d, scan(tile, d, C, starts, numbers, 0, sixes)[2])
            for r in range(min(lanes, end - first)):
                a = np.int32(tile[d, r])
                moved += labels[first + r] != a
                labels[first + r] = a
        distances_into(squares, X, centers, labels, scale, begin, end - begin)
        cost += add_up_into(
            counts, sums, far, farthest, X, weights, labels, squares, begin, end - begin
        )
    return cost, moved


# --- sparse rows ------------------------------------------------------------------------------------------------------


@kernel(forceinline=True)
def _best_of_row(indices, values, p, end, Ct, starts, scale, lanes, buffer):
    """The centre with the best score for one sparse row. Ct: (d, lines of centres), scores two lines at a time."""
    width = len(starts)
    best, which = spread(buffer, -np.inf), zero(buffer)
    for q in range(0, width, 2 * lanes):
        s, t = load_from(starts, q), load_from(starts, q + lanes)
        for e in range(p, end):
            v, c = values[e] * scale, np.int64(indices[e]) * width + q
            s = axpy(v, load_from(Ct, c), s)
            t = axpy(v, load_from(Ct, c + lanes), t)
        which = where_larger(s, best, spread(buffer, q), which)
        best = where_larger(s, best, s, best)
        which = where_larger(t, best, spread(buffer, q + lanes), which)
        best = where_larger(t, best, t, best)
    store(buffer, 0, best)
    store(buffer, 1, which)
    a = np.int64(buffer[1, 0])
    top = buffer[0, 0]
    for r in range(1, lanes):
        number = np.int64(buffer[1, r]) + r
        if buffer[0, r] > top or (buffer[0, r] == top and number < a):
            top, a = buffer[0, r], number
    return a


@kernel
def _summed_square(row, indices, values, p, end, centers, a, scale):
    """‖x̂ − ĉ‖² of one sparse row from differences. row: zeros, (d,), which it leaves as they were."""
    for e in range(p, end):
        row[indices[e]] = values[e]
    square = 0.0
    for j in range(centers.shape[1]):
        e = (row[j] - centers[a, j]) * scale
        square += e * e
    for e in range(p, end):
        row[indices[e]] = 0.0
    return square


@kernel
def assign_sparse_rows_into(
    labels,
    counts,
    sums,
    far,
    farthest,
    indptr,
    indices,
    values,
    weights,
    centers,
    Ct,
    starts,
    squares,
    scale,
):
    """The same for CSR rows. squares: ‖ĉ‖² in float64; ‖x̂ − ĉ‖² = ‖ĉ‖² + Σ x̂(x̂ − 2ĉ) over the entries of the row.

    Where this has lost more than six digits it is summed from differences, over all features.
    """
    lanes = LINE // values.itemsize
    buffer, row = empty_tile(values, 2), np.zeros(centers.shape[1])
    cost, moved = 0.0, 0
    for i in range(len(indptr) - 1):
        p, end = np.int64(indptr[i]), np.int64(indptr[i + 1])
        a = _best_of_row(indices, values, p, end, Ct, starts, scale, lanes, buffer)
        moved += labels[i] != a
        labels[i] = a
        weight, square = weights[i] if len(weights) else 1.0, squares[a]
        for e in range(p, end):
            j = np.int64(indices[e])
            x, c = np.float64(values[e]) * scale, np.float64(centers[a, j]) * scale
            square += x * (x - 2 * c)
            sums[a, j] += weight * values[e]
        if square < CANCELLED * squares[a]:
            square = _summed_square(row, indices, values, p, end, centers, a, np.float64(scale))
        counts[a] += weight
        if square > far[a] and weight > 0:
            far[a], farthest[a] = square, i
        cost += weight * square
    return cost, moved


# --- how far rows spread ----------------------------------------------------------------------------------------------


@kernel
def column_sums_into(sums, X, weights):
    """sums = Σ w x, (d,)."""
    sums[:] = 0.0
    for i in range(X.shape[0]):
        weight = weights[i] if len(weights) else 1.0
        for j in range(X.shape[1]):
            sums[j] += weight * X[i, j]


@kernel(fastmath={"reassoc", "contract", "nsz"})
def largest_difference(X, mean):
    """max |x − mean|; NaN may be lost."""
    reach = 0.0
    for i in range(X.shape[0]):
        for j in range(X.shape[1]):
            reach = max(reach, abs(X[i, j] - mean[j]))
    return reach


@kernel
def column_squares_into(squares, X, weights, mean, scale):
    """squares = Σ w ((x − mean)·scale)², (d,)."""
    squares[:] = 0.0
    for i in range(X.shape[0]):
        weight = weights[i] if len(weights) else 1.0
        for j in range(X.shape[1]):
            e = (X[i, j] - mean[j]) * scale
            squares[j] += weight * (e * e)
