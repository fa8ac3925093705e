"""One pass of pLSA's E-step over the entries of some documents, compiled. The NumPy twin is in _twins.py.

Topics are rows of cache lines (simd.py): θ_d and φ_w are nb lines each, filled up with zeros, so that an entry costs 3 nb
line operations and fetches one row of φ.
"""

from __future__ import annotations

import numpy as np

from lemmata.core.engine import kernel
from lemmata.linalg.simd import axpy, dot, empty_lines, fetch, load, store, to_lines, zero

Array = np.ndarray
AHEAD = 8  # entries: rows of φ jump about in more than a cache holds, so they are prefetched


def expect(indptr: Array, indices: Array, values: Array, theta: Array, phi: Array):
    """Σ_w (N_dw/p_dw) φ_w (n, k), Σ_d (N_dw/p_dw) θ_d (m, k) and −Σ N_dw ln p_dw, with p_dw = θ_d·φ_w."""
    (n, k), m, dtype = theta.shape, len(phi), theta.dtype
    T, F = to_lines(theta), to_lines(phi)
    nb = len(F) // m
    documents, words = empty_lines(1, n * nb, dtype), empty_lines(1, m * nb, dtype)
    p = np.empty(len(values), dtype)
    _expect_into(documents, words, p, indptr, indices, values, T, F, nb, np.finfo(dtype).tiny)
    # NumPy takes logarithms of many numbers at once; each errs as p itself does, the sum is wider
    logs = np.log(p, out=p)
    logs *= values
    loss = -float(logs.sum(dtype=np.float64))
    return documents.reshape(n, -1)[:, :k], words.reshape(m, -1)[:, :k], loss


@kernel
def _expect_into(documents, words, probabilities, indptr, indices, values, T, F, nb, tiny):
    for line in range(words.shape[1]):
        store(words, line, zero(words))
    step, ahead = np.uint64(nb), np.uint64(AHEAD)
    end = np.uint64(len(indices) - 1)
    for i in range(len(indptr) - 1):
        d = np.uint64(i) * step
        for b in range(step):
            store(documents, d + b, zero(documents))
        for e in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
            soon = np.uint64(indices[min(e + ahead, end)]) * step
            for b in range(step):
                fetch(F, soon + b)
                fetch(words, soon + b)
            w = np.uint64(indices[e]) * step
            p = max(dot(T, d, F, w, nb), tiny)
            q = values[e] / p
            probabilities[e] = p
            for b in range(step):
                store(documents, d + b, axpy(q, load(F, w + b), load(documents, d + b)))
                store(words, w + b, axpy(q, load(T, d + b), load(words, w + b)))


def fold_in(indptr, indices, values, theta, phi, max_iter: int, tol: float) -> Array:
    """θ (n, k) after EM over each θ_d alone, until no topic could raise ln p by more than tol nats a token."""
    (n, k), m, dtype = theta.shape, len(phi), theta.dtype
    T, F = _align(to_lines(theta)), to_lines(phi)
    nb = len(F) // m
    gains = empty_lines(1, nb, dtype)
    _fold_in_into(T, gains, indptr, indices, values, F, nb, np.finfo(dtype).tiny, max_iter, tol)
    return T.reshape(n, -1)[:, :k].copy()


def _align(lines: Array) -> Array:
    """A copy that may be written to, at the start of a cache line."""
    copy = empty_lines(1, len(lines), lines.dtype)[0]
    copy[:] = lines
    return copy


@kernel
def _fold_in_into(T, gains, indptr, indices, values, F, nb, tiny, max_iter, tol):
    step, flat = np.uint64(nb), gains.reshape(-1)
    rows = T.reshape(len(indptr) - 1, -1)
    for i in range(len(indptr) - 1):
        d = np.uint64(i) * step
        for _ in range(max_iter):
            known = 0.0  # tokens of words that the topics know
            for b in range(step):
                store(gains, b, zero(gains))
            for e in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
                w = np.uint64(indices[e]) * step
                p = dot(T, d, F, w, nb)
                if p > tiny:
                    known += values[e]
                    q = values[e] / p
                    for b in range(step):
                        store(gains, b, axpy(q, load(F, w + b), load(gains, b)))
            if known <= 0:
                break
            best = 0.0
            for j in range(len(flat)):
                best = max(best, flat[j])
                rows[i, j] *= flat[j] / known
            if best <= known * (1 + tol):
                break
