"""The NumPy twins of _kernels.py: the same numbers by sparse products, without a compiler.

With Q_dw = N_dw/p_dw on the entries of N, what documents and words get are two sparse products, Q Φ and Qᵀ Θ; only p_dw, one
inner product per entry, is new, and is made some entries at a time.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

Array = np.ndarray
CHUNK = 2**18  # numbers of products at a time: what fits the caches


def products(rows: Array, columns: Array, theta: Array, phi: Array) -> Array:
    """p_dw = θ_d·φ_w for each entry."""
    p = np.empty(len(columns), theta.dtype)
    step = max(1, CHUNK // theta.shape[1])
    for start in range(0, len(columns), step):
        part = slice(start, start + step)
        p[part] = np.einsum("ij,ij->i", theta[rows[part]], phi[columns[part]])
    return np.maximum(p, np.finfo(p.dtype).tiny)


def expect(indptr: Array, indices: Array, values: Array, theta: Array, phi: Array):
    """Σ_w (N_dw/p_dw) φ_w (n, k), Σ_d (N_dw/p_dw) θ_d (m, k) and −Σ N_dw ln p_dw, with p_dw = θ_d·φ_w."""
    n, m = len(theta), len(phi)
    rows = np.repeat(np.arange(n), np.diff(indptr))
    p = products(rows, indices, theta, phi)
    Q = sp.csr_array((values / p, indices, indptr), shape=(n, m))
    loss = -float(np.dot(values.astype(np.float64), np.log(p.astype(np.float64))))
    return Q @ phi, Q.T @ theta, loss


def fold_in(indptr, indices, values, theta, phi, max_iter: int, tol: float) -> Array:
    """θ (n, k) after EM over each θ_d alone, until no topic could raise ln p by more than tol nats a token."""
    theta = theta.copy()
    N = sp.csr_array((values, indices, indptr), shape=(len(theta), len(phi)))
    going = np.flatnonzero(np.diff(indptr))
    for _ in range(max_iter):
        if not len(going):
            break
        part, here = N[going], theta[going]
        rows = np.repeat(np.arange(len(going)), np.diff(part.indptr))
        p = products(rows, part.indices, here, phi)
        known = p > np.finfo(p.dtype).tiny  # words that the topics know
        counts = np.where(known, part.data, 0)
        tokens = np.bincount(rows, counts, minlength=len(going)).astype(theta.dtype)
        Q = sp.csr_array((counts / p, part.indices, part.indptr), shape=part.shape)
        gain = (Q @ phi) / np.where(tokens > 0, tokens, 1)[:, None]
        theta[going] = np.where(tokens[:, None] > 0, here * gain, here)
        going = going[gain.max(axis=1) > 1 + tol]
    return theta
