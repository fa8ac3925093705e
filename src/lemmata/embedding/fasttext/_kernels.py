"""One mini-batch over sparse rows, compiled: sums of feature vectors, and steps of the vectors. The twins are in _twins.py.

Vectors are rows of cache lines (simd.py): feature f has the lines f·nb … f·nb + nb − 1. Entries of a row are dealt to groups of
features, so that threads step the vectors of different features at the same time, whatever their number.
"""

from __future__ import annotations

import numpy as np

from lemmata.core.engine import kernel
from lemmata.linalg.simd import axpy, fetch, load, store, zero

AHEAD = 8  # entries between asking the memory for a vector and using it


@kernel
def deal_into(dealt, values_dealt, cuts, indptr, indices, values, groups):
    """Write the entries of every row group by group, feature f to group f % groups; cuts (n, groups + 1): where each begins."""
    for i in range(len(indptr) - 1):
        for e in range(indptr[i], indptr[i + 1]):
            cuts[i, indices[e] % groups + 1] += 1
        cuts[i, 0] = indptr[i]
        for g in range(groups):
            cuts[i, g + 1] += cuts[i, g]
        free = cuts[i].copy()
        for e in range(indptr[i], indptr[i + 1]):
            g = indices[e] % groups
            dealt[free[g]], values_dealt[free[g]] = indices[e], values[e]
            free[g] += 1


@kernel
def gather_into(H, A, nb, rows, start, stop, indptr, indices, values):
    """h_t = Σ_f x_f a_f for the rows t = start … stop − 1 of a batch, into the lines of H."""
    step = np.uint64(nb)
    for t in range(start, stop):
        first, last = indptr[rows[t]], indptr[rows[t] + 1]
        for b in range(step):
            h = zero(A)
            for e in range(first, last):
                if b == 0:
                    fetch(A, np.uint64(indices[min(e + AHEAD, last - 1)]) * step)
                h = axpy(values[e], load(A, np.uint64(indices[e]) * step + b), h)
            store(H, np.uint64(t) * step + b, h)


@kernel
def descend_into(A, S, G, nb, rows, squares, cuts, group, indices, values, rate, tiny):
    """Adagrad of the vectors of one group: S_f += Σ_t x_tf² s_t, then a_f −= rate Σ_t x_tf g_t / √S_f."""
    step = np.uint64(nb)
    for t in range(len(rows)):
        for e in range(cuts[rows[t], group], cuts[rows[t], group + 1]):
            S[indices[e]] += values[e] * values[e] * squares[t]
    for t in range(len(rows)):
        first, last = cuts[rows[t], group], cuts[rows[t], group + 1]
        for e in range(first, last):
            f = np.uint64(indices[e])
            size = -rate * values[e] / np.sqrt(max(S[f], tiny))
            for b in range(step):
                store(A, f * step + b, axpy(size, load(G, np.uint64(t) * step + b), load(A, f * step + b)))  # fmt: skip
