"""Problems of topic models for the common suite: counts drawn from three topics, and numbers no probability is made of."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from lda_problems import LDA

from lemmata.core import Blocks
from lemmata.topics.plsa.corpus import CountedCorpus
from lemmata.topics.plsa.em import PLSAAlgorithm

N, M, K = 60, 15, 3


def counts(dtype):
    rng = np.random.default_rng(7)
    p = rng.dirichlet(np.full(K, 0.3), N) @ rng.dirichlet(np.full(M, 0.3), K)
    return sp.csr_array(rng.multinomial(40, p).astype(dtype))


def corpus(dtype):
    return CountedCorpus(Blocks.of(counts(dtype), np.arange(N) % 3 + 1.0), K, 10)


def infinite():
    return CountedCorpus(Blocks.of(np.full((N, M), np.inf)), K, 10)


def loss_of(state, data, beta=1.0):
    N = data.data.source.toarray().astype(float) * data.data.weights[:, None]
    p = state.theta.astype(float) ** beta @ (state.phi.astype(float) ** beta).T
    seen = N > 0
    return -float((N[seen] * np.log(p[seen])).sum()) / beta


TOPICS = [
    *LDA,
    ("pLSA", lambda: PLSAAlgorithm(K), corpus, infinite, loss_of, {"threaded": True}),
    (
        "pLSA, tempered", lambda: PLSAAlgorithm(K, 0.7), corpus, infinite,
        lambda state, data: loss_of(state, data, 0.7), {"threaded": True},
    ),
]  # fmt: skip
