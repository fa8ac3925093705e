"""pLSA one batch after the other: stepwise EM (Cappé & Moulines 2009) over expected counts of words.

Given topics φ, what documents say about them are expected counts, S_wz = Σ_d N_dw q_dwz, which add up over documents. Topics of
all batches so far are a running average of such counts,

    s ← (1 − γ_t) s + γ_t S / ΣS,     γ_t = (t + 2)^−κ,     φ_zw ∝ s_wz

with Σ γ_t = ∞ and Σ γ_t² < ∞ for ½ < κ ≤ 1. It is an approximation: a batch is seen once, through the topics of its time, while
EM would come back to it. What EM does to a corpus that does not fit memory is exact, and needs several passes: blocks.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lemmata.topics.plsa.corpus import CountedCorpus
from lemmata.topics.plsa.em import normalise

Array = np.ndarray
KAPPA = 0.6  # as for mixtures
FOLD_IN = 1000  # EM steps over one document at most
NATS = 1e-4  # a token by which no topic could raise the likelihood of a document that was folded in


@dataclass(frozen=True)
class Learnt:
    """Topics after a batch, and what its documents are made of."""

    phi: Array  # (m, k)
    tokens: Array  # (k,): of all batches, by topic
    theta: Array  # (n, k) of this batch, at these topics
    loss: float  # −ℓ of this batch, at these θ and φ


def mixtures(corpus: CountedCorpus, phi: Array) -> Array:
    """θ (n, k), the best mixtures of these topics, from uniform ones: a concave problem for each document."""
    k = phi.shape[1]
    start = np.full((corpus.shape[0], k), 1 / k, dtype=phi.dtype)
    return corpus.fold_in(start, phi, FOLD_IN, NATS)


def learn(
    corpus: CountedCorpus, phi: Array, tokens: Array, batches: int, beta: float = 1.0
) -> Learnt:
    """Topics φ (m, k), made of `tokens` (k,) words in so many batches, after one more; without words it changes nothing."""
    theta = mixtures(corpus, phi)
    # a word that did not occur so far carries no information about topics: it has the document's mixture, q = θ
    known = np.where(
        np.any(phi > 0, axis=1, keepdims=True), phi, np.asarray(1 / len(phi), phi.dtype)
    )
    found = corpus.expect(theta**beta, known**beta).words
    seen, new = float(tokens.sum()), float(found.sum(dtype=np.float64))
    if new > 0:
        gamma = (batches + 2) ** -KAPPA
        counts = (1 - gamma) * phi * (tokens / max(seen, 1e-300)) + gamma * found / new
        phi = normalise(counts.astype(phi.dtype), axis=0)
        tokens = counts.sum(axis=0, dtype=np.float64) * (seen + new)
        theta = mixtures(corpus, phi)
    return Learnt(phi, tokens, theta, corpus.expect(theta, phi).loss)
