"""Stochastic gradient steps over the blocks of a partly known matrix.

    e = x_ij − b_i − c_j − u_iᵀv_j,   u_i ← (u_i + γe v_j) / (1 + γλ_i),   v_j ← (v_j + γe u_i) / (1 + γλ_j),   b and c likewise

with λ_i the share that one entry has in the penalty of its row: one number for factors, one for the bias (n, 2).

Every kernel works on some blocks and lets go of the interpreter, so that threads may run it side by side; who calls it sees to
it that blocks worked on at the same time share neither a row nor a column. (Numba's own threads were no faster here, and many
times slower on a busy machine: they spin at the end of every round.)

Factors come as rows of whole cache lines, filled up with zeros, which every update leaves zero: loops need no remainder,
and no line belongs to two threads. Sums may be reordered (fastmath) at compile time only, so a machine repeats its own bits;
NaN and infinity keep their meaning, since divergence is seen by them. What has such sums is inlined by force: a function
that is called is linked to the copy that was compiled first, its own in a process that compiles, its caller's in one that
loads the caller from the cache, and the two copies need not add in the same order.
"""

from __future__ import annotations

import numpy as np

from lemmata.core.engine import kernel

FAST = {"reassoc", "contract", "nsz", "arcp"}


# --- a cheap generator ------------------------------------------------------------------------------------------------


@kernel
def scramble(x):
    """SplitMix64's output function: 64 bits that look independent for different x."""
    x = np.uint64(x) + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@kernel
def below(x, n):
    """A number in 0 … n − 1 from a hash of x; n is far below 2³², so the remainder is even enough."""
    return np.int64((scramble(x) >> np.uint64(32)) % np.uint64(n))


@kernel
def walk(key, count):
    """Start and stride of a walk t → t + stride (mod count) that meets each of 0 … count − 1 once: gcd(stride, count) = 1."""
    if count <= 1:
        return 0, 0
    key = scramble(key)
    tries = np.uint64(0)
    while True:
        stride = 1 + below(key + tries, count - 1)
        a, b = stride, count
        while b:
            a, b = b, a % b
        if a == 1:
            return below(key + tries + np.uint64(1), count), stride
        tries += np.uint64(2)


# --- the blocks -------------------------------------------------------------------------------------------------------


@kernel
def count_blocks(indptr, indices, row_group, column_group, groups):
    """Entries of every block (row group, column group)."""
    counts = np.zeros((groups, groups), np.int64)
    for i in range(len(row_group)):
        for t in range(indptr[i], indptr[i + 1]):
            counts[row_group[i], column_group[indices[t]]] += 1
    return counts


@kernel
def deal_into(
    rows,
    columns,
    x,
    starts,
    indptr,
    indices,
    values,
    row_order,
    row_cuts,
    column_place,
    column_group,
    mean,
    scale,
    picked,
):
    """Write the entries of the picked row groups block by block: places of rows and columns, and x = (a − mean) / scale."""
    groups = len(row_cuts) - 1
    for p in picked:
        free = starts[p * groups : (p + 1) * groups].copy()
        for place in range(row_cuts[p], row_cuts[p + 1]):
            i = row_order[place]
            for t in range(indptr[i], indptr[i + 1]):
                j = indices[t]
                q = column_group[j]
                rows[free[q]], columns[free[q]], x[free[q]] = (
                    place,
                    column_place[j],
                    (values[t] - mean) / scale,
                )
                free[q] += 1


@kernel
def shuffle_blocks(rows, columns, x, starts, blocks):
    """A random order inside every block (Fisher and Yates), in place, from fixed keys."""
    for block in blocks:
        start, count = starts[block], starts[block + 1] - starts[block]
        key = scramble(np.uint64(block))
        for t in range(count - 1, 0, -1):
            a, b = start + t, start + below(key + np.uint64(t), t + 1)
            rows[a], rows[b] = rows[b], rows[a]
            columns[a], columns[b] = columns[b], columns[a]
            x[a], x[b] = x[b], x[a]


# --- steps ------------------------------------------------------------------------------------------------------------


@kernel(fastmath=FAST, forceinline=True)
def dot(u, v):
    total = u.dtype.type(0)
    for f in range(len(u)):
        total += u[f] * v[f]
    return total


@kernel(fastmath=FAST, forceinline=True)
def descend_block(rows, columns, x, start, count, key, U, V, b, c, rate, keep, keeps, biased):
    """One gradient step for every entry of a block, each from the u, v, b and c before it; keep: 1 / (1 + γλ)."""
    rate = x.dtype.type(rate)
    at, stride = walk(key, count)
    for _ in range(count):
        t = np.uint64(start + at)
        i, j = np.uint64(rows[t]), np.uint64(columns[t])
        u, v, own, other = U[i], V[j], keep[i, 0], keeps[j, 0]
        step = rate * (x[t] - b[i] - c[j] - dot(u, v))
        for f in range(len(u)):
            old = u[f]
            u[f] = own * (old + step * v[f])
            v[f] = other * (v[f] + step * old)
        if biased:
            b[i] = keep[i, 1] * (b[i] + step)
            c[j] = keeps[j, 1] * (c[j] + step)
        at += stride
        if at >= count:
            at -= count


@kernel
def descend(rows, columns, x, starts, key, U, V, b, c, rate, keep, keeps, biased, k, blocks):
    """Plain steps over the entries of blocks, one block after the other, in place. (k is for Adam, and not used here.)"""
    for block in blocks:
        start, count, own = starts[block], starts[block + 1] - starts[block], key + np.uint64(block)
        descend_block(rows, columns, x, start, count, own, U, V, b, c, rate, keep, keeps, biased)


# What Adam remembers of a row beside the momentum of its factors: the mean square of their gradient and of the bias's, the
# momentum of the bias, and the weights that the two kinds of means have gathered, 1 − βᵗ after t visits of the row.
SQUARE, BIAS_SQUARE, BIAS_MOMENTUM, WEIGHT, SQUARE_WEIGHT = range(5)
BETA, BETA_SQUARE, TINY = 0.9, 0.999, 1e-8


@kernel(fastmath=FAST, forceinline=True)
def remember(memory, square, bias_square, bias_gradient):
    """Add a gradient to the means of its row, in place; what momenta of factors and bias are to be multiplied with."""
    kind = memory.dtype.type  # a plain 1 or 0.9 would turn single precision into double
    old, new, old2, new2 = kind(BETA), kind(1 - BETA), kind(BETA_SQUARE), kind(1 - BETA_SQUARE)
    # rounding may have made it negative
    memory[SQUARE] = old2 * memory[SQUARE] + new2 * max(square, kind(0))
    memory[BIAS_SQUARE] = old2 * memory[BIAS_SQUARE] + new2 * bias_square
    memory[BIAS_MOMENTUM] = old * memory[BIAS_MOMENTUM] + new * bias_gradient
    memory[WEIGHT] = old * memory[WEIGHT] + new
    memory[SQUARE_WEIGHT] = old2 * memory[SQUARE_WEIGHT] + new2
    size = np.sqrt(memory[SQUARE] / memory[SQUARE_WEIGHT]) + kind(TINY)
    bias_size = np.sqrt(memory[BIAS_SQUARE] / memory[SQUARE_WEIGHT]) + kind(TINY)
    return kind(1) / (memory[WEIGHT] * size), kind(1) / (memory[WEIGHT] * bias_size)


@kernel(fastmath=FAST, forceinline=True)
def adapt_block(
    rows, columns, x, start, count, key, U, V, b, c, M, N, memory, memories, k, rate, reg, regs, biased
):  # fmt: skip
    """One step of Adam for every entry of a block; M and N are the momenta of U and V, reg and regs hold λ_i and λ_j."""
    kind = x.dtype.type
    old, new = kind(BETA), kind(1 - BETA)
    rate, share = kind(rate), kind(1 / k)
    at, stride = walk(key, count)
    for _ in range(count):
        t = np.uint64(start + at)
        i, j = np.uint64(rows[t]), np.uint64(columns[t])
        u, v, mu, mv, lu, lv = U[i], V[j], M[i], N[j], reg[i, 0], regs[j, 0]
        uv, uu, vv = dot(u, v), dot(u, u), dot(v, v)
        e = x[t] - b[i] - c[j] - uv
        gb, gc = reg[i, 1] * b[i] - e, regs[j, 1] * c[j] - e
        cross = (e + e) * uv  # ‖λu − ev‖² = λ²‖u‖² − 2λe uᵀv + e²‖v‖²
        su, sb = remember(memory[i], share * (lu * lu * uu - lu * cross + e * e * vv), gb * gb, gb)
        sv, sc = remember(
            memories[j], share * (lv * lv * vv - lv * cross + e * e * uu), gc * gc, gc
        )
        su, sv = rate * su, rate * sv
        for f in range(len(u)):
            uf, vf = u[f], v[f]
            mu[f] = old * mu[f] + new * (lu * uf - e * vf)
            mv[f] = old * mv[f] + new * (lv * vf - e * uf)
            u[f] = uf - su * mu[f]
            v[f] = vf - sv * mv[f]
        if biased:
            b[i] -= rate * sb * memory[i, BIAS_MOMENTUM]
            c[j] -= rate * sc * memories[j, BIAS_MOMENTUM]
        at += stride
        if at >= count:
            at -= count


@kernel
def adapt(
    rows, columns, x, starts, key, U, V, b, c, M, N, memory, memories, rate, reg, regs, biased, k, blocks
):  # fmt: skip
    """Adam's steps over the entries of blocks, one block after the other, in place."""
    for block in blocks:
        start, count, own = starts[block], starts[block + 1] - starts[block], key + np.uint64(block)
        adapt_block(
            rows, columns, x, start, count, own, U, V, b, c, M, N, memory, memories, k, rate, reg, regs, biased
        )  # fmt: skip


@kernel(fastmath=FAST)
def squared_errors_into(sums, rows, columns, x, starts, U, V, b, c, blocks):
    """sums[block] = Σ e² over the entries of the block, in double precision."""
    for block in blocks:
        total = 0.0
        for t in range(np.uint64(starts[block]), np.uint64(starts[block + 1])):
            i, j = np.uint64(rows[t]), np.uint64(columns[t])
            e = np.float64(x[t] - b[i] - c[j] - dot(U[i], V[j]))
            total += e * e
        sums[block] = total
