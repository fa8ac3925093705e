"""The E-step of a Gaussian mixture in one sweep over the rows: densities, responsibilities, and the sums that M needs.

    l_j = log π_j + log p(x | j),   r_j = w e^{l_j} / Σ_i e^{l_i},   N_j += r_j,  s_j += r_j δ,  S_j += r_j δδᵀ,   δ = x − μ_j

A tile of rows is turned so that one cache line (the SIMD value of linalg/_kernels) holds one feature of 8 or 16 rows: sums over
features then run over lines, rows never meet, and any number of features fills all lanes. A tile fits the first-level
caches; nothing of size n × k is ever stored. Products are made in register tiles: y = Pᵀx four features at a time (P is
triangular, so columns stop at the diagonal), S two × three features at a time on and above the diagonal, from lines that are
scaled by √r beforehand, because then one buffer serves both sides of the product.

Rows come in as (x − centre)·inverse, standardised on loading: float32 keeps its digits at any offset and scale, and the sums
are taken about μ_j, so that S_j/N_j loses nothing to clusters that lie far apart. Sums over a tile, 32 numbers in each lane,
have the dtype of the data and are then added in float64.
"""

from __future__ import annotations

import math

import numpy as np
from llvmlite import ir

from lemmata.core.engine import kernel
from lemmata.linalg.simd import (
    LINE,
    add,
    at,
    axpy,
    divide,
    empty_lines,
    freeze,
    load,
    madd,
    minus,
    multiply,
    operation,
    root,
    spread,
    store,
    total,
    zero,
)
from lemmata.mixtures.gaussians.components import LOWEST, LOWEST_SINGLE, WIDE, Standardised

Array = np.ndarray
TILE = 32  # lines of rows in a tile: 256 of float64. Adding up the lanes of a sum costs a twentieth of its products then
TALL, BROAD = 2, 3  # features × features of S at a time


# --- more operations on lines -----------------------------------------------------------------------------------------


def _constant(kind, number):
    return ir.Constant(kind, [number] * kind.count)


@operation
def larger(_, x, y):
    """max(x, y) for lines, lane by lane; y where they cannot be compared."""

    def code(context, builder, signature, args):
        return builder.select(builder.fcmp_ordered(">", *args), *args)

    return x(x, y), code


@operation
def exponential(_, x):
    """eˣ for lines of numbers ≤ 0: 2ⁿ times a Taylor polynomial in what is left, |x − n ln 2| ≤ ½ ln 2. 0 where it underflows.

    Adding 1.5·2^(digits) rounds to the integer n and leaves it in the low bits, from where it moves to the exponent.
    Degree 13 (7): the first term left out is 0.35¹⁴/14! = 4e-18 (0.35⁸/8! = 6e-9), below rounding.
    """
    double = x.dtype.bitwidth == 64
    digits, bias, degree, lowest = (52, 1023, 13, -708.0) if double else (23, 127, 7, -87.0)
    # ln 2 in two parts, the first with few digits, so that n times it is exact
    high, low = (
        (6.93147180369123816490e-01, 1.90821492927058770002e-10)
        if double
        else (0.693359375, -2.12194440e-4)
    )

    def code(context, builder, signature, args):
        kind = context.get_value_type(x)
        whole = ir.VectorType(ir.IntType(x.dtype.bitwidth), x.lanes)
        number, fused = args[0], ("contract",)
        magic = _constant(kind, 1.5 * 2.0**digits)
        moved = builder.fadd(
            builder.fmul(number, _constant(kind, 1 / math.log(2)), flags=fused), magic, flags=fused
        )
        n = builder.fsub(moved, magic)
        rest = builder.fsub(
            number, builder.fmul(n, _constant(kind, high), flags=fused), flags=fused
        )
        rest = builder.fsub(rest, builder.fmul(n, _constant(kind, low), flags=fused), flags=fused)
        value = _constant(kind, 1 / math.factorial(degree))
        for power in range(degree - 1, -1, -1):
            value = builder.fadd(
                builder.fmul(value, rest, flags=fused),
                _constant(kind, 1 / math.factorial(power)),
                flags=fused,
            )
        bits = builder.shl(builder.bitcast(moved, whole), _constant(whole, digits))
        scale = builder.bitcast(builder.add(bits, _constant(whole, bias << digits)), kind)
        vanishes = builder.fcmp_ordered("<", number, _constant(kind, lowest))
        return builder.select(vanishes, _constant(kind, 0.0), builder.fmul(value, scale))

    return x(x), code


# --- a tile of rows ---------------------------------------------------------------------------------------------------


@kernel
def _load_tile(X, w, rows, weights, start, count, centre, inverse):
    """X (d, B) = standardised rows, turned; w (B,) their weights. Rows that only fill the tile weigh nothing. False: NaN."""
    d, size = centre.shape[0], w.size
    sound = True
    flat, own = X.reshape(X.shape[0], size), w.reshape(size)
    for r in range(count):
        own[r] = weights[start + r] if weights.shape[0] else 1
        for a in range(d):
            x = (rows[start + r, a] - centre[a]) * inverse[a]
            sound &= x == x
            flat[a, r] = x
    for r in range(count, size):
        own[r] = 0
        for a in range(d):
            flat[a, r] = 0
    return sound


@kernel(forceinline=True)
def _distances_into(Q, j, X, P, shift, d, nb):
    """Q[j] = ‖P_jᵀx − shift_j‖² for every row of the tile. P (k, d, dp) is padded to whole groups of four columns."""
    dp = P.shape[2]
    for i in range(nb):
        q = zero(X)
        for c in range(0, dp, WIDE):
            place = j * dp + c
            s0, s1 = spread(X, -at(shift, place)), spread(X, -at(shift, place + 1))
            s2, s3 = spread(X, -at(shift, place + 2)), spread(X, -at(shift, place + 3))
            for a in range(min(c + WIDE, d)):
                x, p = load(X, a * nb + i), (j * d + a) * dp + c
                s0, s1 = axpy(at(P, p), x, s0), axpy(at(P, p + 1), x, s1)
                s2, s3 = axpy(at(P, p + 2), x, s2), axpy(at(P, p + 3), x, s3)
            q = madd(s0, s0, madd(s1, s1, q))
            q = madd(s2, s2, madd(s3, s3, q))
        store(Q, j * nb + i, q)


@kernel(forceinline=True)
def _axis_distances_into(Q, j, X, P, shift, d, nb):
    """Q[j] = Σ_a (p_ja x_a − shift_ja)² for every row of the tile; P (k, d)."""
    for i in range(nb):
        q, other = zero(X), zero(X)  # two sums, because one would wait for its own additions
        for a in range(0, d - 1, 2):
            s = axpy(at(P, j * d + a), load(X, a * nb + i), spread(X, -at(shift, j * d + a)))
            t = axpy(
                at(P, j * d + a + 1),
                load(X, (a + 1) * nb + i),
                spread(X, -at(shift, j * d + a + 1)),
            )
            q, other = madd(s, s, q), madd(t, t, other)
        if d % 2:
            a = d - 1
            s = axpy(at(P, j * d + a), load(X, a * nb + i), spread(X, -at(shift, j * d + a)))
            q = madd(s, s, q)
        store(Q, j * nb + i, add(q, other))


@kernel(forceinline=True)
def _respond(Q, w, top, norm, logs, k, nb):
    """Q = squared distances -> responsibilities times weights; returns Σ w log p(x), by log-sum-exp."""
    half = Q.dtype.type(-0.5)
    # finite, and the same for all j
    floor = spread(Q, LOWEST if Q.itemsize == 8 else LOWEST_SINGLE)
    for i in range(nb):
        most = larger(axpy(half, load(Q, i), spread(Q, logs[0])), floor)
        store(Q, i, most)
        for j in range(1, k):
            l = larger(axpy(half, load(Q, j * nb + i), spread(Q, logs[j])), floor)
            store(Q, j * nb + i, l)
            most = larger(l, most)
        summed = zero(Q)
        for j in range(k):
            e = exponential(minus(load(Q, j * nb + i), most))
            store(Q, j * nb + i, e)
            summed = add(summed, e)
        share = divide(load(w, i), summed)
        for j in range(k):
            store(Q, j * nb + i, multiply(load(Q, j * nb + i), share))
        store(top, i, most)
        store(norm, i, summed)
    likelihood = 0.0
    for i in range(nb):
        for c in range(w.shape[1]):
            likelihood += np.float64(w[i, c]) * (np.float64(top[i, c]) + math.log(norm[i, c]))
    return likelihood


@kernel(forceinline=True)
def _centred_into(E, sums, counts, j, X, Q, means, d, nb):
    """E = √r (x − μ_j) for the tile; adds Σ r (x − μ_j) and Σ r to the sums."""
    n = zero(X)
    for i in range(nb):
        r = load(Q, j * nb + i)
        n = add(n, r)
        store(Q, j * nb + i, root(r))
    counts[j] += np.float64(total(n))
    for a in range(d):
        mean, s = spread(X, at(means, j * d + a)), zero(X)
        for i in range(nb):
            r = load(Q, j * nb + i)
            e = multiply(r, minus(load(X, a * nb + i), mean))
            store(E, a * nb + i, e)
            s = madd(r, e, s)
        sums[j, a] += np.float64(total(s))


@kernel(forceinline=True)
def _scatter_into(S, E, d, nb):
    """S += EᵀE, its upper half in tiles of 2 × 3; what a tile has below the diagonal is junk. E has zeros below row d."""
    for a in range(0, d, TALL):
        for b in range(a, d, BROAD):
            c00 = c01 = c02 = c10 = c11 = c12 = zero(E)
            for i in range(nb):
                u, v = load(E, a * nb + i), load(E, (a + 1) * nb + i)
                x = load(E, b * nb + i)
                c00, c10 = madd(u, x, c00), madd(v, x, c10)
                x = load(E, (b + 1) * nb + i)
                c01, c11 = madd(u, x, c01), madd(v, x, c11)
                x = load(E, (b + 2) * nb + i)
                c02, c12 = madd(u, x, c02), madd(v, x, c12)
            S[a, b] += np.float64(total(c00))
            S[a, b + 1] += np.float64(total(c01))
            S[a, b + 2] += np.float64(total(c02))
            S[a + 1, b] += np.float64(total(c10))
            S[a + 1, b + 1] += np.float64(total(c11))
            S[a + 1, b + 2] += np.float64(total(c12))


@kernel(forceinline=True)
def _axis_sums_into(sums, squares, counts, j, X, Q, means, d, nb):
    """Adds Σ r, Σ r δ and Σ r δ² of the tile to the sums, δ = x − μ_j."""
    n = zero(X)
    for i in range(nb):
        n = add(n, load(Q, j * nb + i))
    counts[j] += np.float64(total(n))
    for a in range(d):
        mean, s, t = spread(X, at(means, j * d + a)), zero(X), zero(X)
        for i in range(nb):
            delta = minus(load(X, a * nb + i), mean)
            e = multiply(load(Q, j * nb + i), delta)
            s, t = add(s, e), madd(e, delta, t)
        sums[j, a] += np.float64(total(s))
        squares[j, a] += np.float64(total(t))


@kernel(forceinline=True)
def _none_weighs(Q, j, nb):
    """Whether no row of the tile belongs to component j at all: all its responsibilities underflowed to 0."""
    most = load(Q, j * nb)
    for i in range(1, nb):
        most = larger(load(Q, j * nb + i), most)
    return total(most) == 0


# --- a block of rows --------------------------------------------------------------------------------------------------


@kernel
def _sweep(rows, weights, centre, inverse, P, shift, means, logs, tile, E, counts, sums, scatter):
    """Adds to counts (k,), sums (k, d) and scatter (k, d + 1, d + 2; none if its size is 0); returns Σ w log p(x).

    NaN: there was a NaN in the rows, and nothing that was added counts.
    """
    X, w, Q, top, norm = tile
    n, d, k, nb = rows.shape[0], means.shape[1], means.shape[0], w.shape[0]
    likelihood = 0.0
    for start in range(0, n, w.size):
        if not _load_tile(X, w, rows, weights, start, min(w.size, n - start), centre, inverse):
            return math.nan
        for j in range(k):
            _distances_into(Q, j, X, P, shift, d, nb)
        likelihood += _respond(Q, w, top, norm, logs, k, nb)
        for j in range(k):
            if not _none_weighs(Q, j, nb):
                _centred_into(E, sums, counts, j, X, Q, means, d, nb)
                if scatter.size:
                    _scatter_into(scatter[j], E, d, nb)
    return likelihood


@kernel
def _axis_sweep(rows, weights, centre, inverse, P, shift, means, logs, tile, counts, sums, squares):
    """The same for components with independent features: P, shift and squares are (k, d)."""
    X, w, Q, top, norm = tile
    n, d, k, nb = rows.shape[0], means.shape[1], means.shape[0], w.shape[0]
    likelihood = 0.0
    for start in range(0, n, w.size):
        if not _load_tile(X, w, rows, weights, start, min(w.size, n - start), centre, inverse):
            return math.nan
        for j in range(k):
            _axis_distances_into(Q, j, X, P, shift, d, nb)
        likelihood += _respond(Q, w, top, norm, logs, k, nb)
        for j in range(k):
            if not _none_weighs(Q, j, nb):
                _axis_sums_into(sums, squares, counts, j, X, Q, means, d, nb)
    return likelihood


@kernel
def _log_densities_into(out, rows, centre, inverse, P, shift, logs, tile):
    """out (n, k) = log π_j + log p(x | j). False: there was a NaN."""
    X, w, Q = tile[:3]
    n, d, k, nb = rows.shape[0], rows.shape[1], logs.shape[0], w.shape[0]
    flat, half = Q.reshape(k, w.size), out.dtype.type(-0.5)
    for start in range(0, n, w.size):
        count = min(w.size, n - start)
        if not _load_tile(X, w, rows, rows[0, :0], start, count, centre, inverse):
            return False
        for j in range(k):
            if P.ndim == 3:
                _distances_into(Q, j, X, P, shift, d, nb)
            else:
                _axis_distances_into(Q, j, X, P, shift, d, nb)
        for r in range(count):
            for j in range(k):
                out[start + r, j] = logs[j] + half * flat[j, r]
    return True


def _tile(n: int, k: int, d: int, dtype) -> tuple[Array, ...]:
    """X, w, Q, top, norm: what the kernels turn a tile of rows into."""
    nb = min(TILE, max(1, -(-n * np.dtype(dtype).itemsize // LINE)))
    X, Q = empty_lines(d, nb, dtype), empty_lines(k, nb, dtype)
    w, top, norm = (empty_lines(nb, 1, dtype)[:, 0] for _ in range(3))
    return X, w, Q, top, norm


def sweep(
    rows: Array, weights: Array | None, mixture: Standardised, scatter: bool = True
) -> tuple[float, Array, Array, Array]:
    """Σ w log p(x), N (k,), s (k, d) and S (k, d, d) of a block, in standard units; S is empty if it is not wanted.

    The first is NaN where the rows hold a NaN; then the others mean nothing.
    """
    k, d = mixture.means.shape
    tile = _tile(len(rows), k, d, rows.dtype)
    E = empty_lines(d + BROAD - 1, tile[1].shape[0], rows.dtype)
    E[d:] = 0
    counts, sums, S = (
        np.zeros(k),
        np.zeros((k, d)),
        np.zeros((k if scatter else 0, d + TALL - 1, d + BROAD - 1)),
    )
    weights, unit = _in_units(weights, rows)
    likelihood = _sweep(freeze(rows), weights, *mixture, tile, E, counts, sums, S)
    S = np.triu(S[:, :d, :d])
    return (
        unit * likelihood,
        unit * counts,
        unit * sums,
        unit * (S + np.triu(S, 1).transpose(0, 2, 1)),
    )


def axis_sweep(
    rows: Array, weights: Array | None, mixture: Standardised
) -> tuple[float, Array, Array, Array]:
    """The same for components with independent features; the last is Σ r δ² (k, d)."""
    k, d = mixture.means.shape
    counts, sums, squares = np.zeros(k), np.zeros((k, d)), np.zeros((k, d))
    tile = _tile(len(rows), k, d, rows.dtype)
    weights, unit = _in_units(weights, rows)
    likelihood = _axis_sweep(freeze(rows), weights, *mixture, tile, counts, sums, squares)
    return unit * likelihood, unit * counts, unit * sums, unit * squares


def log_densities(rows: Array, mixture: Standardised) -> Array | None:
    """log π_j + log p(x | j) for every row and component (n, k); None where there is a NaN."""
    k, d = mixture.means.shape
    out = np.empty((len(rows), k), rows.dtype)
    centre, inverse, P, shift, _, logs = mixture
    sound = _log_densities_into(
        out, freeze(rows), centre, inverse, P, shift, logs, _tile(len(rows), k, d, rows.dtype)
    )
    return out if sound else None


def _in_units(weights: Array | None, rows: Array) -> tuple[Array, float]:
    """Weights in the dtype of the rows, and what they are multiples of; none for rows that count once each.

    The unit is a power of two, at which the largest weight is about one: 1e-50 and 1e50 are no numbers of float32.
    """
    if weights is None:
        return freeze(np.empty(0, rows.dtype)), 1.0
    largest = float(weights.max(initial=0.0))
    unit = math.ldexp(1.0, math.frexp(largest)[1] - 1) if largest > 0 else 1.0
    return freeze((weights / unit).astype(rows.dtype)), unit
