"""Rows by Cholesky: the normal equations of _kernels.py, factored and solved in place.

    C = RᵀR,     R w = y − b z          y and z: R⁻ᵀ times the target and the bias, which ride along as columns of C

The factorisation goes by panels of six rows, with the tile that made the sums, now subtracting. A pivot is what is left of
its diagonal entry: where it is lost in rounding the row is not trusted, and solved again more carefully.
"""

from __future__ import annotations

import numpy as np

from lemmata.completion.rows._kernels import (
    TILE,
    clear_extra,
    loss_of,
    normal_equations_into,
    tile_into,
    unpack_into,
)
from lemmata.core.engine import kernel
from lemmata.linalg.simd import at, axpy, load, madd, store, total, zero


@kernel
def _prepare(C, k, reg):
    """Add λ, turn the two extra rows into columns, and fill up to whole panels with the identity."""
    width, lanes = C.shape[1:]
    extra = (width - 1) * lanes * width * lanes  # where row kp starts
    for r in range(k):
        C[r, r // lanes, r % lanes] += reg
        C[r, width - 1, lanes - 1] = at(C, extra + r)
        C[r, width - 1, lanes - 2] = at(C, extra + width * lanes + r)
    for r in range(k, -(-k // TILE) * TILE):
        for block in range(width):
            store(C, r * width + block, zero(C))
        C[r, r // lanes, r % lanes] = 1


@kernel(forceinline=True)
def _factor_corner(corner, C, place, row, d, tolerance):
    """A 6 × 6 block of C as RᵀR: `corner` gets 1/r_ss, and −r_st beside it. False where a pivot is lost.

    The block starts at number `place` of C, whose rows are `row` numbers; d holds the diagonal as it was. Twenty-one
    variables instead of an array, because then they are registers: a corner is one long chain of dependent operations.
    """
    one = C.dtype.type(1)
    c00, c01, c02 = at(C, place), at(C, place + 1), at(C, place + 2)
    c03, c04, c05 = at(C, place + 3), at(C, place + 4), at(C, place + 5)
    c11, c12, c13 = at(C, place + row + 1), at(C, place + row + 2), at(C, place + row + 3)
    c14, c15, c22 = at(C, place + row + 4), at(C, place + row + 5), at(C, place + 2 * row + 2)
    c23, c24, c25 = (
        at(C, place + 2 * row + 3),
        at(C, place + 2 * row + 4),
        at(C, place + 2 * row + 5),
    )
    c33, c34, c35 = (
        at(C, place + 3 * row + 3),
        at(C, place + 3 * row + 4),
        at(C, place + 3 * row + 5),
    )
    c44, c45, c55 = (
        at(C, place + 4 * row + 4),
        at(C, place + 4 * row + 5),
        at(C, place + 5 * row + 5),
    )
    i0 = one / np.sqrt(c00)
    m1, m2, m3, m4, m5 = c01 * -i0, c02 * -i0, c03 * -i0, c04 * -i0, c05 * -i0
    corner[0, 0], corner[0, 1], corner[0, 2], corner[0, 3], corner[0, 4], corner[0, 5] = (
        i0,
        m1,
        m2,
        m3,
        m4,
        m5,
    )
    c11, c12, c13, c14, c15 = (
        c11 - m1 * m1,
        c12 - m1 * m2,
        c13 - m1 * m3,
        c14 - m1 * m4,
        c15 - m1 * m5,
    )
    c22, c23, c24, c25 = c22 - m2 * m2, c23 - m2 * m3, c24 - m2 * m4, c25 - m2 * m5
    c33, c34, c35 = c33 - m3 * m3, c34 - m3 * m4, c35 - m3 * m5
    c44, c45, c55 = c44 - m4 * m4, c45 - m4 * m5, c55 - m5 * m5
    i1 = one / np.sqrt(c11)
    m2, m3, m4, m5 = c12 * -i1, c13 * -i1, c14 * -i1, c15 * -i1
    corner[1, 1], corner[1, 2], corner[1, 3], corner[1, 4], corner[1, 5] = i1, m2, m3, m4, m5
    c22, c23, c24, c25 = c22 - m2 * m2, c23 - m2 * m3, c24 - m2 * m4, c25 - m2 * m5
    c33, c34, c35 = c33 - m3 * m3, c34 - m3 * m4, c35 - m3 * m5
    c44, c45, c55 = c44 - m4 * m4, c45 - m4 * m5, c55 - m5 * m5
    i2 = one / np.sqrt(c22)
    m3, m4, m5 = c23 * -i2, c24 * -i2, c25 * -i2
    corner[2, 2], corner[2, 3], corner[2, 4], corner[2, 5] = i2, m3, m4, m5
    c33, c34, c35 = c33 - m3 * m3, c34 - m3 * m4, c35 - m3 * m5
    c44, c45, c55 = c44 - m4 * m4, c45 - m4 * m5, c55 - m5 * m5
    i3 = one / np.sqrt(c33)
    m4, m5 = c34 * -i3, c35 * -i3
    corner[3, 3], corner[3, 4], corner[3, 5] = i3, m4, m5
    c44, c45, c55 = c44 - m4 * m4, c45 - m4 * m5, c55 - m5 * m5
    i4 = one / np.sqrt(c44)
    m5 = c45 * -i4
    c55 -= m5 * m5
    corner[4, 4], corner[4, 5], corner[5, 5] = i4, m5, one / np.sqrt(c55)
    return (
        (c00 > tolerance * d[0]) & (c11 > tolerance * d[1]) & (c22 > tolerance * d[2])
        & (c33 > tolerance * d[3]) & (c44 > tolerance * d[4]) & (c55 > tolerance * d[5])
    )  # fmt: skip


@kernel(forceinline=True)
def _eliminate_into(C, first, width, corner):
    """Six lines of C, `width` apart, times R⁻ᵀ of their corner."""
    l0 = axpy(corner[0, 0], load(C, first), zero(C))
    l1, l2 = (
        axpy(corner[0, 1], l0, load(C, first + width)),
        axpy(corner[0, 2], l0, load(C, first + 2 * width)),
    )
    l3, l4 = (
        axpy(corner[0, 3], l0, load(C, first + 3 * width)),
        axpy(corner[0, 4], l0, load(C, first + 4 * width)),
    )
    l5 = axpy(corner[0, 5], l0, load(C, first + 5 * width))
    l1 = axpy(corner[1, 1], l1, zero(C))
    l2, l3 = axpy(corner[1, 2], l1, l2), axpy(corner[1, 3], l1, l3)
    l4, l5 = axpy(corner[1, 4], l1, l4), axpy(corner[1, 5], l1, l5)
    l2 = axpy(corner[2, 2], l2, zero(C))
    l3, l4, l5 = axpy(corner[2, 3], l2, l3), axpy(corner[2, 4], l2, l4), axpy(corner[2, 5], l2, l5)
    l3 = axpy(corner[3, 3], l3, zero(C))
    l4, l5 = axpy(corner[3, 4], l3, l4), axpy(corner[3, 5], l3, l5)
    l4 = axpy(corner[4, 4], l4, zero(C))
    l5 = axpy(corner[5, 5], axpy(corner[4, 5], l4, l5), zero(C))
    store(C, first, l0)
    store(C, first + width, l1)
    store(C, first + 2 * width, l2)
    store(C, first + 3 * width, l3)
    store(C, first + 4 * width, l4)
    store(C, first + 5 * width, l5)


@kernel
def _factor_into(C, corners, diagonal, k, tolerance):
    """C = RᵀR in place, right-hand sides included, by panels of six rows; false where a pivot is lost in rounding.

    A pivot is what is left of its diagonal entry; below `tolerance` of it, digits are gone that the solution would need.
    corners[i // 6] keeps 1/r_ss on its diagonal and −r_st beside it.
    """
    width, lanes = C.shape[1:]
    for r in range(len(diagonal)):
        diagonal[r] = at(C, r * width * lanes + r)
    for i in range(0, k, TILE):
        corner = corners[i // TILE]
        for block in range(i // lanes, width):
            tile_into(C, width, block, i, i + TILE, 0, C, C, i, C.dtype.type(-1))
        if not _factor_corner(
            corner, C, i * width * lanes + i, width * lanes, diagonal[i:], tolerance
        ):
            return False
        for block in range(i // lanes, width):
            _eliminate_into(C, i * width + block, width, corner)
    return True


@kernel
def _bias_of(C, k, count, summed, bias_reg, tolerance):
    """The bias is the last unknown: what C leaves of its own equation. (b, whether the pivot is sound)."""
    width, lanes = C.shape[1:]
    pivot, target = count + bias_reg, summed
    for r in range(k):
        z = np.float64(C[r, width - 1, lanes - 2])
        pivot -= z * z
        target -= z * C[r, width - 1, lanes - 1]
    return target / pivot, pivot > tolerance * (count + bias_reg)


@kernel(forceinline=True)
def _target(C, place, b):
    """y − b z of one row: its last two numbers."""
    return at(C, place) - b * at(C, place - 1)


@kernel
def _back_substitute_into(w, C, corners, k, bias):
    """R w = y − b z, six rows at a time from the last up; the bias goes to the first number of the last line.

    Unknowns of the panel are still 0 in w while its six products are made, so these see only the ones after it.
    """
    width, lanes = C.shape[1:]
    for block in range(width):
        store(w, block, zero(w))
    b, flat = w.dtype.type(bias), w.reshape(w.size)
    for panel in range(-(-k // TILE) - 1, -1, -1):
        corner, i = corners[panel], panel * TILE
        s0 = s1 = s2 = s3 = s4 = s5 = zero(w)
        for block in range(i // lanes, width - 1):
            line, c = load(w, block), i * width + block
            s0, s1 = madd(load(C, c), line, s0), madd(load(C, c + width), line, s1)
            s2, s3 = madd(load(C, c + 2 * width), line, s2), madd(load(C, c + 3 * width), line, s3)
            s4, s5 = madd(load(C, c + 4 * width), line, s4), madd(load(C, c + 5 * width), line, s5)
        # where the target of the panel's first row is
        y, row = (i * width + width) * lanes - 1, width * lanes
        w5 = (_target(C, y + 5 * row, b) - total(s5)) * corner[5, 5]
        w4 = (_target(C, y + 4 * row, b) - total(s4) + corner[4, 5] * w5) * corner[4, 4]
        w3 = _target(C, y + 3 * row, b) - total(s3) + corner[3, 5] * w5
        w3 = (w3 + corner[3, 4] * w4) * corner[3, 3]
        w2 = _target(C, y + 2 * row, b) - total(s2) + corner[2, 5] * w5 + corner[2, 4] * w4
        w2 = (w2 + corner[2, 3] * w3) * corner[2, 2]
        w1 = _target(C, y + row, b) - total(s1) + corner[1, 5] * w5 + corner[1, 4] * w4
        w1 = (w1 + corner[1, 3] * w3 + corner[1, 2] * w2) * corner[1, 1]
        w0 = (
            _target(C, y, b) - total(s0) + corner[0, 5] * w5 + corner[0, 4] * w4 + corner[0, 3] * w3
        )
        w0 = (w0 + corner[0, 2] * w2 + corner[0, 1] * w1) * corner[0, 0]
        flat[i], flat[i + 1], flat[i + 2], flat[i + 3], flat[i + 4], flat[i + 5] = (
            w0,
            w1,
            w2,
            w3,
            w4,
            w5,
        )
    w[width - 1, 0] = b  # last: rows that only fill the last panel have written zeros here


@kernel
def solve_range(problem, tolerance, work, first, last, W, losses, sound):
    """Rows first … last − 1 of W by Cholesky, their losses, and whether they may be trusted."""
    indptr, indices, values, roots, masses, V, shift, G, reg, bias_reg = problem[0]
    k, bias, implicit, alpha, measure = problem[1]
    C, X, B, vectors = work
    panels = -(-k // TILE)
    w, diagonal, corners = (
        vectors[0],
        np.empty(panels * TILE, C.dtype),
        np.empty((panels, TILE, TILE), C.dtype),
    )
    clear_extra(B)
    for i in range(first, last):
        start, end = indptr[i], indptr[i + 1]
        W[i] = 0
        if start == end:
            continue
        # more unknowns than equations
        if reg[i] == 0 and not implicit and end - start < W.shape[1] - (bias_reg[i] > 0):
            sound[i] = False
            continue
        summed = normal_equations_into(
            C, X, B, k, V, indices, values, roots, shift, G, implicit, alpha, start, end
        )
        _prepare(C, k, reg[i])
        sound[i] = _factor_into(C, corners, diagonal, k, tolerance[i])
        b = 0.0
        if bias and sound[i]:
            b, sound[i] = _bias_of(C, k, masses[i], summed, bias_reg[i], tolerance[i])
        if not sound[i]:
            continue
        _back_substitute_into(w, C, corners, k, b)
        unpack_into(W, i, w, k)
        if measure:
            losses[i] = loss_of(
                w, k, V, indices, values, roots, shift, G, implicit, alpha, reg[i], bias_reg[i], start, end
            )  # fmt: skip
