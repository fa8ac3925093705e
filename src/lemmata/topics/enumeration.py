"""The probability of a document under LDA without approximation, where the model and the document are small.

    p(w) = Σ_z p(z) Π_t φ_{z_t w_t},        p(z) = Γ(A)/Γ(A+T) Π_c Γ(α_c+n_c)/Γ(α_c),    A = Σ α_c           (CIL (3.35))

p(z) depends on z by the counts n_c of its topics alone. So the kᵀ sequences fall into C(T+k−1, k−1) count vectors n, and

    p(w) = Σ_n p(n) e_n,        e_n = coefficient of x^n in Π_t Σ_c φ_{c w_t} x_c

(CIL24 3.2 has each topic drawn from p(z | α); it is drawn from the document's mixture v, and v once from p(v | α).)

A word multiplies the polynomial by Σ_c φ_cw x_c: k shifted copies of an array with an axis per topic (except the last, whose
count is what is left). Words are first scaled to Σ_c φ_cw = 1: the coefficients are then the distribution of the counts of
independent topics, and stay in range.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import gammaln, logsumexp

from lemmata.audit.topics.documents import Documents

Array = np.ndarray
MOST_WORK = 2e9  # multiplications
MOST_NATS = 650.0  # kᵀ in logarithms: below what a float64 can hold


def enumerate_topics(documents: Documents, phi: Array, alpha: Array) -> Array:
    """ln p(w) of every document, (n,), from its words; −inf where a word has no probability in any topic."""
    k, lengths = len(phi), documents.lengths.tolist()
    if k == 1:  # nothing is to be summed over
        with np.errstate(divide="ignore"):
            logs = np.log(phi[0])
        return np.array([logs[documents[d]].sum() for d in range(len(documents))])
    work = float(sum(float(T) * k * float(T + 1) ** (k - 1) for T in lengths))
    longest = max(lengths, default=0)
    if work > MOST_WORK or longest * math.log(max(k, 1)) > MOST_NATS:
        raise ValueError(
            f"enumerating the topics of documents of up to {longest:,} words under {k} topics takes {work:.1g} operations; "
            'pass fewer topics or shorter documents, or method="left-to-right".'
        )
    return np.array([_one(documents[d], phi, alpha) for d in range(len(documents))])


def _one(words: Array, phi: Array, alpha: Array) -> float:
    T, k = len(words), len(phi)
    totals = phi[:, words].sum(axis=0)
    if (totals <= 0).any():
        return -np.inf
    e = np.zeros((T + 1,) * (k - 1))
    e[(0,) * (k - 1)] = 1.0
    for q in (phi[:, words] / totals).T:
        grown = q[-1] * e
        for c in range(k - 1):
            here = [slice(None)] * (k - 1)
            below = list(here)
            here[c], below[c] = slice(1, None), slice(None, -1)
            grown[tuple(here)] += q[c] * e[tuple(below)]
        e = grown
    with np.errstate(divide="ignore"):
        logs = np.log(e) + _prior(T, alpha)
    return float(np.log(totals).sum() + logsumexp(logs))


def _prior(T: int, alpha: Array) -> Array:
    """ln p(z) for every count vector of T words; −inf where the counts exceed T."""
    k, at = len(alpha), np.arange(T + 1.0)
    logs = np.asarray(gammaln(alpha.sum()) - gammaln(alpha.sum() + T) - gammaln(alpha).sum())
    left = np.asarray(float(T))
    for c in range(k - 1):
        shape = [1] * (k - 1)
        shape[c] = T + 1
        logs = logs + gammaln(alpha[c] + at).reshape(shape)
        left = left - at.reshape(shape)
    last = np.where(left >= 0, gammaln(alpha[-1] + np.maximum(left, 0)), -np.inf)
    return logs + last
