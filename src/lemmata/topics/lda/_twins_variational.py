"""The NumPy twins of _kernels_variational.py, by sparse products and SciPy's special functions."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from scipy.special import gammaln, psi

from lemmata.topics.plsa._twins import products

Array = np.ndarray


def expect(counts, weights, gamma, phi, alpha, max_iter: int, tol: float):
    """γ (n, k) after some rounds, Σ_d N_dw q_dwj (m, k) at it, and what these documents add to the bound."""
    gamma = gamma.copy()
    going = np.arange(len(gamma))
    for _ in range(max_iter):
        if not len(going):
            break
        part, before = counts[going], gamma[going]
        after = (alpha + _shares(part, _mixture(before), phi)[0]).astype(gamma.dtype)
        gamma[going] = after
        going = going[np.abs(after - before).mean(axis=1) > tol]
    theta = _mixture(gamma)
    _, Q, p = _shares(counts, theta, phi)
    bound = _document_bound(gamma, alpha)
    rows = np.repeat(np.arange(len(gamma)), np.diff(counts.indptr))
    logs = counts.data.astype(np.float64) * np.log(p.astype(np.float64))
    bound += np.bincount(rows, logs, minlength=len(gamma))
    if weights is not None:
        theta = theta * weights[:, None].astype(theta.dtype)
        bound = bound * weights
    return gamma, (Q.T @ theta) * phi, float(bound.sum())


def _mixture(gamma: Array) -> Array:
    """exp(E ln θ), (n, k)."""
    wide = gamma.astype(np.float64)
    return np.exp(psi(wide) - psi(wide.sum(axis=1, keepdims=True))).astype(gamma.dtype)


def _shares(counts, theta: Array, phi: Array):
    """Σ_w N_dw q_dwj (n, k), N_dw / p_dw in CSR, and p_dw = Σ_j θ_dj φ_wj of each entry."""
    rows = np.repeat(np.arange(len(theta)), np.diff(counts.indptr))
    p = products(rows, counts.indices, theta, phi)
    Q = sp.csr_array((counts.data / p, counts.indices, counts.indptr), shape=counts.shape)
    return (Q @ phi) * theta, Q, p


def _document_bound(gamma: Array, alpha: Array) -> Array:
    """E ln p(θ) − E ln q(θ) of each document."""
    wide = gamma.astype(np.float64)
    total = wide.sum(axis=1)
    logs = psi(wide) - psi(total)[:, None]
    found = gammaln(alpha.sum()) - gammaln(alpha).sum() - gammaln(total)
    return found + (gammaln(wide) + (alpha - wide) * logs).sum(axis=1)


def fold_in(counts, phi: Array, alpha: Array, max_iter: int, tol: float) -> Array:
    """θ (n, k) that maximises Σ_w N_dw ln θ_d·φ_w + Σ_j α_j ln θ_dj, from the prior's mean."""
    theta = np.repeat((alpha / alpha.sum())[None], counts.shape[0], axis=0)
    counts = counts * (phi.max(axis=1) > 0)[None]  # words that no topic has carry no information
    counts = sp.csr_array(counts)
    counts.eliminate_zeros()
    going = np.flatnonzero(np.diff(counts.indptr))
    for _ in range(max_iter):
        if not len(going):
            break
        part, before = counts[going], theta[going]
        after = alpha + _shares(part, before, phi)[0]
        after /= after.sum(axis=1, keepdims=True)
        theta[going] = after
        going = going[np.abs(after - before).sum(axis=1) > tol]
    return theta
