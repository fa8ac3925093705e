"""Assignment that skips what bounds rule out, and still finds the labels of `assign_rows_into` to the bit.

Centres are in groups. For every row and group g a lower bound is kept on the distance to the nearest centre of the group
(other than the row's own). When centres move, a bound falls by the largest move in its group; while it stays above the exact
distance to the row's own centre, no centre of the group can be nearer, and the group is not looked at (Yinyang; with one group:
Hamerly). Half the distance from the own centre to the nearest other one is a bound as well, for all groups at once.

* A bound is stored as (bound + all moves of the group so far), so that it is written only when it is measured, in 16 bits:
  quanta of a fixed length, rounded down by one more than it takes.
* Rounding. Scores err by at most slack·(‖x̂‖M + ½M²), M the largest ‖ĉ‖ and slack = (d + 4)·eps, twice what a sum of d
  products needs. A group is skipped only where its distance squared exceeds the own one by four times that: then the scores,
  had they been made, would have picked the own centre as well. So the bounds change the speed and nothing else.
* Rows are worked on in chunks that stay in the cache: exact own distances; groups to look at; tiles of rows per group (or,
  where half of all groups are due, all groups of all rows); then the sums, in the order of the rows.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types

from lemmata.clustering._kernels_assign import (
    add_up_into,
    distances_into,
    empty_tile,
    gather_into,
    scan,
)
from lemmata.core.engine import kernel
from lemmata.linalg.simd import (
    LINE,
    add,
    axpy,
    load,
    madd,
    minus,
    operation,
    root,
    spread,
    store,
    where_larger,
    zero,
)

MOST = 65_535  # quanta
NEVER = -1e30  # a distance below all bounds: the row needs nothing
DENSE = 0.5  # share of groups to look at from which on all are looked at: rows then need no lists and are gathered once


def _shorts_at(context, builder, kind, shorts, place, place_type, lanes):
    start = context.make_array(kind)(context, builder, shorts).data
    address = builder.gep(start, [context.cast(builder, place, place_type, types.intp)])
    return builder.bitcast(address, ir.VectorType(ir.IntType(16), lanes).as_pointer())


@operation
def store_shorts_into(_, shorts, place, line):
    """shorts[place + i] = line[i], for numbers from 0 to 65,535 and shorts seen as flat."""

    def code(context, builder, signature, args):
        address = _shorts_at(context, builder, shorts, args[0], args[1], place, line.lanes)
        whole = builder.fptosi(args[2], ir.VectorType(ir.IntType(32), line.lanes))
        builder.store(
            builder.trunc(whole, ir.VectorType(ir.IntType(16), line.lanes)), address, align=2
        )
        return context.get_dummy_value()

    return types.void(shorts, place, line), code


@operation
def not_above(_, shorts, place, line):
    """The lanes, as bits, in which not shorts[place + i] > line[i]."""

    def code(context, builder, signature, args):
        address = _shorts_at(context, builder, shorts, args[0], args[1], place, line.lanes)
        wide = builder.zext(
            builder.load(address, align=2), ir.VectorType(ir.IntType(32), line.lanes)
        )
        numbers = builder.sitofp(wide, args[2].type)
        bits = builder.bitcast(
            builder.fcmp_unordered("<=", numbers, args[2]), ir.IntType(line.lanes)
        )
        return builder.zext(bits, ir.IntType(64))

    return types.int64(shorts, place, line), code


# --- bounds -----------------------------------------------------------------------------------------------------------


@kernel(forceinline=True)
def _lower(tile, room, score):
    """The least distance that a score leaves: √(‖x̂‖² − errors − 2·score); 0 where it is not a number."""
    left = minus(room, add(score, score))
    return root(where_larger(left, zero(tile), left, zero(tile)))


@kernel(forceinline=True)
def _room(tile, d, longest, slack):
    """‖x̂‖² minus all that may be wrong with it and with twice a score."""
    squares = zero(tile)
    for l in range(d):
        line = load(tile, l)
        squares = madd(line, line, squares)
    errors = axpy(
        slack,
        squares,
        axpy(slack * (longest + longest), root(squares), spread(tile, slack * longest * longest)),
    )
    return minus(squares, errors)


@kernel(forceinline=True)
def _quanta(tile, lower, drift, unit):
    """Bounds as they are stored: from 0 to MOST."""
    q = axpy(unit, add(lower, spread(tile, drift)), spread(tile, -1))
    q = where_larger(q, zero(tile), q, zero(tile))
    return where_larger(q, spread(tile, MOST), spread(tile, MOST), q)


@kernel(forceinline=True)
def _quantum(lower, drift, unit):
    """The same for one number."""
    q = np.float64(lower + drift) * unit - 1
    return np.uint16(min(max(q, 0.0), np.float64(MOST)))


@kernel
def _needs_into(
    need, near, squares, X, first, count, labels, centers, scale, halves, longest, slack
):
    """For each row the exact ‖x̂ − ĉ‖² to its own centre, and in `need` the distance that bounds have to exceed."""
    lanes, zeros = need.shape[1], zero(need)
    flat, other = need.reshape(need.size), near.reshape(near.size)
    tiles = -(-count // lanes)
    distances_into(squares, X, centers, labels, scale, first, count)
    for r in range(count):
        flat[r] = squares[r]
        other[r] = halves[np.uint64(labels[first + r])]
    for r in range(count, tiles * lanes):
        flat[r] = 0
        other[r] = np.inf
    more, never = spread(need, 1 + slack + slack), spread(need, NEVER)
    error = slack * longest * longest
    for t in range(tiles):
        own = madd(add(root(load(need, t)), spread(need, slack * longest)), more, zeros)
        # 4·slack·((own + M)·M + M²), slightly more than 4·slack·((own + M)·M + ½M²)
        errors = axpy(4 * slack * longest, own, spread(need, 8 * error))
        least = madd(root(madd(own, own, errors)), more, zeros)
        gap = minus(axpy(need.dtype.type(2), load(near, t), zeros), own)
        store(need, t, where_larger(gap, least, never, least))


@kernel
def _masks_into(masks, need, shorts, first, tiles, drifts, unit, labels, group_of, last):
    """Which rows (bits) of a tile have to look at which group; a row that looks at any looks at its own. Returns how many."""
    groups, lanes = len(drifts), need.shape[1]
    due = 0
    for tile in range(tiles):
        line, any_due = load(need, tile), 0
        place = (first // lanes + tile) * groups * lanes
        for g in range(groups):
            mask = not_above(
                shorts,
                place + g * lanes,
                axpy(unit, add(line, spread(need, drifts[g])), zero(need)),
            )
            masks[tile, g] = mask
            any_due |= mask
        r = 0
        while any_due:
            if any_due & 1:
                masks[tile, group_of[labels[min(first + tile * lanes + r, last)]]] |= 1 << r
            any_due >>= 1
            r += 1
        for g in range(groups):
            mask = masks[tile, g]
            while mask:
                due += 1
                mask &= mask - 1
    return due


# --- looking ----------------------------------------------------------------------------------------------------------


@kernel
def _look_everywhere(tile, d, sixes, cuts, drifts, rules, shorts, place):
    """All groups for the rows of a tile: bounds into `shorts` from `place` on, winners into line d of the tile."""
    lanes, groups = tile.shape[1], len(drifts)
    (longest, slack, unit), (C, starts, numbers) = rules, sixes
    room = _room(tile, d, longest, slack)
    best = second = spread(tile, -np.inf)
    which = group = zero(tile)
    for g in range(groups):
        b, s, w = scan(tile, d, C, starts, numbers, cuts[g], cuts[g + 1])
        store_shorts_into(
            shorts, place + g * lanes, _quanta(tile, _lower(tile, room, b), drifts[g], unit)
        )
        here = spread(tile, g)
        second = where_larger(
            b, best, s, where_larger(best, b, second, where_larger(which, w, s, second))
        )
        group = where_larger(
            b, best, here, where_larger(best, b, group, where_larger(which, w, here, group))
        )
        which = where_larger(
            b, best, w, where_larger(best, b, which, where_larger(which, w, w, which))
        )
        best = where_larger(b, best, b, best)
    store(tile, d, which)
    store(tile, d + 1, group)
    store(tile, d + 2, _lower(tile, room, second))
    for r in range(lanes):  # in its own group a row is not its own neighbour
        own = np.int64(tile[d + 1, r])
        shorts[place // (groups * lanes), own, r] = _quantum(tile[d + 2, r], drifts[own], unit)


@kernel
def _look_at_group(
    tile, picked, found, slots, places, g, X, frame, first, sixes, cuts, drifts, rules, shorts
):
    """One group for the picked rows of a chunk: its bounds, and the best so far in the columns of `found`."""
    d, lanes, flat = X.shape[1], tile.shape[1], shorts.reshape(shorts.size)
    (longest, slack, unit), (C, starts, numbers) = rules, sixes
    for start in range(0, len(picked), lanes):
        for r in range(lanes):
            places[r] = (first + picked[min(start + r, len(picked) - 1)]) * d
        gather_into(tile, X, places, frame[0], frame[1])
        room = _room(tile, d, longest, slack)
        b, s, w = scan(tile, d, C, starts, numbers, cuts[g], cuts[g + 1])
        store(tile, d, b)
        store(tile, d + 1, w)
        store(tile, d + 2, _lower(tile, room, s))
        store(tile, d + 3, _quanta(tile, _lower(tile, room, b), drifts[g], unit))
        for r in range(min(lanes, len(picked) - start)):
            row = np.uint64(picked[start + r])
            score, number = tile[d, r], tile[d + 1, r]
            flat[np.uint64(slots[row] + g * lanes)] = np.uint16(np.int32(tile[d + 3, r]))
            if score > found[0, row] or (score == found[0, row] and number < found[1, row]):
                found[0, row], found[1, row], found[2, row] = score, number, tile[d + 2, r]


@kernel
def _rows_of(picked, masks, tiles, lanes, g):
    """The rows of a chunk that look at group g."""
    m = 0
    for tile in range(tiles):
        mask, r = masks[tile, g], tile * lanes
        while mask:
            if mask & 1:
                picked[m] = r
                m += 1
            mask >>= 1
            r += 1
    return picked[:m]


@kernel
def assign_bounded_into(
    labels, counts, sums, far, farthest, shorts, X, weights, centers, sixes, frame, cuts, group_of, drifts, halves, rules,
    fresh, chunk,
):  # fmt: skip
    """`assign_rows_into` with bounds. Returns (cost · scale², rows that moved, pairs of row and group looked at).

    shorts: (tiles of rows, groups, lanes) the stored bounds, overwritten where they are measured; sixes: centres, starts and
    numbers; frame: origin and scale; cuts: (groups + 1,) the sixes of each group; drifts: (groups,) all moves so far; halves:
    (k,) half the distance to the nearest other centre; rules: the largest ‖ĉ‖, slack, quanta per length; fresh: there are no
    bounds yet; chunk: rows worked on at once, a multiple of a line.
    """
    n, d = X.shape
    tile, lanes, groups = empty_tile(X, d + 4), LINE // X.itemsize, len(drifts)
    need, near, squares = (
        empty_tile(X, chunk // lanes),
        empty_tile(X, chunk // lanes),
        np.empty(chunk),
    )
    masks, picked = np.zeros((chunk // lanes, groups), np.int64), np.empty(chunk, np.int64)
    found, places = np.empty((3, chunk), X.dtype), np.empty(lanes, np.int64)
    # where the bounds of a row of the chunk begin, one group every `lanes` numbers
    slots = np.empty(chunk, np.int64)
    for r in range(chunk):
        slots[r] = r // lanes * groups * lanes + r % lanes
    (longest, slack, unit), scale = rules, frame[1]
    cost, moved, looked = 0.0, 0, 0
    for first in range(0, n, chunk):
        count = min(chunk, n - first)
        tiles, due = -(-count // lanes), count * groups
        if not fresh:
            _needs_into(
                need, near, squares, X, first, count, labels, centers, scale, halves, longest, slack
            )
            due = _masks_into(
                masks, need, shorts, first, tiles, drifts, unit, labels, group_of, n - 1
            )
        if due > DENSE * count * groups:
            due = count * groups
            for t in range(tiles):
                for r in range(lanes):
                    places[r] = min(first + t * lanes + r, n - 1) * d
                gather_into(tile, X, places, frame[0], frame[1])
                place = (first // lanes + t) * groups * lanes
                _look_everywhere(tile, d, sixes, cuts, drifts, rules, shorts, place)
                for r in range(min(lanes, count - t * lanes)):
                    found[1, t * lanes + r] = tile[d, r]
        elif due:
            found[0] = -np.inf
            found[1, :count] = -1
            for g in range(groups):
                rows = _rows_of(picked, masks, tiles, lanes, g)
                if len(rows):
                    here = shorts[first // lanes :]
                    _look_at_group(
                        tile,
                        rows,
                        found,
                        slots,
                        places,
                        g,
                        X,
                        frame,
                        first,
                        sixes,
                        cuts,
                        drifts,
                        rules,
                        here,
                    )
            for r in range(count):
                if found[1, r] >= 0:
                    g = group_of[np.int64(found[1, r])]
                    shorts[first // lanes + r // lanes, g, r % lanes] = _quantum(
                        found[2, r], drifts[g], unit
                    )
        looked += due
        if due:
            for r in range(count):
                a = np.int32(found[1, r])
                if a >= 0 and a != labels[first + r]:
                    moved += 1
                    labels[first + r] = a
                    distances_into(squares[r:], X, centers, labels, scale, first + r, 1)
            if fresh:
                distances_into(squares, X, centers, labels, scale, first, count)
        cost += add_up_into(counts, sums, far, farthest, X, weights, labels, squares, first, count)
    return cost, moved, looked
