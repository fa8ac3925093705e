"""GloVe's steps, pair by pair: for every pair of a block, in place,

    e = ⟨ζ_w, z_v⟩ + b_w + c_v + μ − ln N_wv,    g = f(N_wv) e z_v,   ζ_w ← ζ_w − γg,  or  S_w ← S_w + g²,  ζ_w ← ζ_w − g / √S_w

with S_w = 1/γ² at first, and z_v, b_w, c_v likewise, each from the values before the step (CIL (3.62), (3.63): their 2η is γ).
Vectors are lines (linalg/simd.py). The next context's vector is prefetched; the word's own stays in the cache.
"""

from __future__ import annotations

import numpy as np

from lemmata.completion.sgd._kernels import walk
from lemmata.core.engine import kernel
from lemmata.linalg.simd import axpy, divide, dot, fetch, load, madd, minus, root, store, zero

# --- blocks -----------------------------------------------------------------------------------------------------------


@kernel
def count_runs_into(lengths, indptr, indices, order, cuts, column_group, picked):
    """lengths[q, place]: pairs of the row at a place with columns of group q; for the picked row groups."""
    for p in picked:
        for place in range(cuts[p], cuts[p + 1]):
            i = order[place]
            for t in range(indptr[i], indptr[i + 1]):
                lengths[column_group[indices[t]], place] += 1


@kernel
def deal_runs_into(
    others, logs, weights, starts, indptr, indices, x, f, order, cuts, column_place, column_group, picked
):  # fmt: skip
    """Write the pairs of the picked row groups where their runs begin."""
    groups = len(starts)
    free = np.empty(groups, np.int64)
    for p in picked:
        for place in range(cuts[p], cuts[p + 1]):
            i = order[place]
            free[:] = starts[:, place]
            for t in range(indptr[i], indptr[i + 1]):
                q = column_group[indices[t]]
                s = free[q]
                others[s], logs[s], weights[s] = column_place[indices[t]], x[t], f[t]
                free[q] += 1


# --- steps ------------------------------------------------------------------------------------------------------------


@kernel(forceinline=True)
def _ask_for(V, S, j, nb, adaptive):
    """The lines of a context, and of its sums."""
    for block in range(nb):
        fetch(V, j * nb + block)
        if adaptive:
            fetch(S, j * nb + block)


@kernel(forceinline=True)
def _adapt(own, sums, g, block, other):
    """sums[block] += (g·other)², and own[block] −= g·other / √sums[block]."""
    slope = axpy(g, other, zero(own))
    total = madd(slope, slope, load(sums, block))
    store(sums, block, total)
    store(own, block, minus(load(own, block), divide(slope, root(total))))


@kernel
def _walk_row(
    i, at, stride, start, count, others, logs, weights, U, V, b, c, SU, SV, sb, sc, mean, rate, nb, adaptive
):  # fmt: skip
    """Steps for the pairs of one row with the columns of one group."""
    own = i * nb
    j = np.int64(others[start + at])
    for _ in range(count):
        t = start + at
        at += stride
        if at >= count:
            at -= count
        following = np.int64(others[start + at])
        _ask_for(V, SV, following, nb, adaptive)
        v = j * nb
        g = weights[t] * (dot(U, own, V, v, nb) + b[i] + c[j] + mean - logs[t])
        if adaptive:
            for block in range(nb):
                line, other = load(U, own + block), load(V, v + block)
                _adapt(U, SU, g, own + block, other)
                _adapt(V, SV, g, v + block, line)
            square = g * g
            sb[i] += square
            sc[j] += square
            b[i] -= g / np.sqrt(sb[i])
            c[j] -= g / np.sqrt(sc[j])
        else:
            step = -rate * g
            for block in range(nb):
                line, other = load(U, own + block), load(V, v + block)
                store(U, own + block, axpy(step, other, line))
                store(V, v + block, axpy(step, line, other))
            b[i] += step
            c[j] += step
        j = following


@kernel
def descend(
    others, logs, weights, starts, lengths, cuts, key, U, V, b, c, SU, SV, sb, sc, mean, rate, nb, adaptive, blocks
):  # fmt: skip
    """One step for every pair of some blocks, rows and pairs in an order drawn by the key, in place."""
    groups = len(starts)
    for block in blocks:
        p, q = block // groups, block % groups
        first, size = cuts[p], cuts[p + 1] - cuts[p]
        seed = key + np.uint64(block) * np.uint64(0x9E3779B97F4A7C15)
        place, leap = walk(seed, size)
        for _ in range(size):
            i = first + place
            place += leap
            if place >= size:
                place -= size
            count = np.int64(lengths[q, i])
            if count > 0:
                at, stride = walk(seed ^ np.uint64(i + 1), count)
                _walk_row(
                    i, at, stride, starts[q, i], count, others, logs, weights, U, V, b, c, SU, SV, sb, sc, mean, rate,
                    nb, adaptive,
                )  # fmt: skip


@kernel
def squares_into(sums, others, logs, weights, starts, lengths, cuts, U, V, b, c, mean, nb, blocks):
    """sums[block] = Σ f e² over the pairs of the block, in double precision."""
    groups = len(starts)
    for block in blocks:
        p, q = block // groups, block % groups
        total = 0.0
        for i in range(cuts[p], cuts[p + 1]):
            start = starts[q, i]
            for t in range(start, start + lengths[q, i]):
                j = np.int64(others[t])
                e = np.float64(dot(U, i * nb, V, j * nb, nb) + b[i] + c[j] + mean - logs[t])
                total += weights[t] * e * e
        sums[block] = total
