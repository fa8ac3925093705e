"""Gibbs sampling by NumPy, for data so small that compiling would take longer.

Collapsed sampling goes from token to token. Here the topics φ are drawn instead of integrated out,

    φ_j ~ Dirichlet(n_·j + β_·j)           then, document by document,      p_j ∝ (n_dj + α_j) φ_jw

which leaves documents independent of each other: the t-th tokens of all documents are drawn at once. The stationary
distribution of the topics is the same and no count is stale; the chain moves a little slower.
"""

from __future__ import annotations

import numpy as np
from scipy.special import gammaln

Array = np.ndarray


def sample(tokens, topics, documents, words, alpha, beta, seed: int, average, share: float):
    """One pass: topics, n_dj and n_wj after it, and their running averages (documents, words) moved by `share` to them."""
    rng, k = np.random.default_rng(seed), len(alpha)
    topics, documents = topics.copy(), documents.astype(np.float64)
    phi = rng.standard_gamma(words + beta)  # (m, k)
    totals = phi.sum(axis=0)
    phi /= np.where(totals > 0, totals, 1)
    for column in tokens.columns:
        d, w = tokens.documents[column], tokens.words[column]
        documents[d, topics[column]] -= 1
        edges = np.cumsum((documents[d] + alpha) * phi[w], axis=1)
        goals = rng.random(len(column)) * edges[:, -1]
        new = np.minimum((edges <= goals[:, None]).sum(axis=1), k - 1)
        documents[d, new] += 1
        topics[column] = new
    counted = tokens.count(topics, k)
    moved = tuple(
        before + share * (now - before) for before, now in zip(average, counted, strict=True)
    )
    return topics, *counted, moved


def log_rising(counts: Array, prior: Array) -> float:
    """Σ lnΓ(n + a) − lnΓ(a) over all counts n, a their prior: what is not counted adds nothing."""
    seen = np.nonzero(counts)
    a = np.broadcast_to(prior, counts.shape)[seen].astype(np.float64)
    return float((gammaln(counts[seen] + a) - gammaln(a)).sum())
