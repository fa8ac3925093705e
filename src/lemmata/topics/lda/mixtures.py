"""New documents, given topics: what they are made of, and drawing them.

    θ_d  maximises  Σ_w N_dw ln Σ_j θ_j φ_jw + Σ_j α_j ln θ_j         θ_j ← (α_j + Σ_w N_dw q_wj) / (A + N_d),   q_wj ∝ θ_j φ_jw

α_j tokens of each topic come before the document. That is concave, so there is one answer and no draw decides it; for a
document without known words it is α/A, the prior's mean.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from lemmata.core.blocks import Blocks
from lemmata.topics.lda.documents import DocumentPart, DocumentParts

Array = np.ndarray
ROUNDS = 200
CHANGE = 1e-3  # of θ in a round, summed over topics
CHUNK = 2**20  # numbers of θφ at a time


def mixtures_of(data: Blocks, topic_word: Array, alpha: Array) -> Array:
    """θ (n, k) of documents, given p(word | topic) (k, m) and α (k,)."""
    documents = DocumentParts(data, len(alpha), ROUNDS // 10)
    phi = np.ascontiguousarray(topic_word.T, dtype=data.dtype)
    fold_in, alpha = documents.kernels.fold_in, alpha.astype(data.dtype)

    def work(part: DocumentPart) -> Array:
        return fold_in(part.counts, phi, alpha, ROUNDS, CHANGE)

    none = np.zeros((0, len(alpha)), data.dtype)
    return np.concatenate([none, *documents.map_parts(work)])


def draw_documents(
    topic_word: Array, alpha: Array, lengths: Array, rng: np.random.Generator
) -> sp.csr_array:
    """Counts of documents of these lengths: θ ~ Dirichlet(α), then so many words from Σ_j θ_j φ_j."""
    n, m = len(lengths), topic_word.shape[1]
    phi = topic_word.astype(np.float64)
    phi /= phi.sum(axis=1, keepdims=True)
    # a Dirichlet of tiny α is all but one topic; its draws by Gammas underflow, so they are made in logarithms
    draws = rng.gamma(alpha + 1, size=(n, len(alpha)))
    logs = np.log(draws) + np.log(rng.random((n, len(alpha)))) / alpha
    theta = np.exp(logs - logs.max(axis=1, keepdims=True))
    theta /= theta.sum(axis=1, keepdims=True)
    step = max(1, CHUNK // m)
    parts = []
    for start in range(0, n, step):
        p = theta[start : start + step] @ phi
        p /= p.sum(axis=1, keepdims=True)
        parts.append(sp.csr_array(rng.multinomial(lengths[start : start + step], p)))
    return sp.csr_array(sp.vstack(parts)) if parts else sp.csr_array((0, m), dtype=np.int64)
