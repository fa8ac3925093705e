"""Problems of LDA for the common suite: counts drawn from three topics; half tokens, and numbers no probability is made of."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from scipy.special import gammaln, psi

from lemmata.core import Blocks
from lemmata.topics.lda.documents import DocumentParts
from lemmata.topics.lda.gibbs import GibbsAlgorithm
from lemmata.topics.lda.tokens import Tokens
from lemmata.topics.lda.variational import VariationalAlgorithm

N, M, K = 30, 12, 3
ALPHA, BETA = (0.1, 0.4, 0.9), np.full((1, K), 0.2)


def counts(dtype):
    rng = np.random.default_rng(7)
    p = rng.dirichlet(np.full(K, 0.3), N) @ rng.dirichlet(np.full(M, 0.3), K)
    return Blocks.of(sp.csr_array(rng.multinomial(20, p).astype(dtype)), np.arange(N) % 3 + 1.0)


def bound(state, documents):
    """−L − Σ β ln φ, as variational.py writes them."""
    X, weights = documents.data.source.toarray().astype(float), documents.data.weights
    alpha, gamma, lam = state.alpha, state.gamma.astype(float), state.lam.astype(float)
    phi, logs = lam / lam.sum(axis=0), psi(gamma) - psi(gamma.sum(axis=1, keepdims=True))
    each = (X * np.log(np.exp(logs) @ phi.T)).sum(axis=1)
    each += (gammaln(gamma) + (alpha - gamma) * logs).sum(axis=1) - gammaln(gamma.sum(axis=1))
    each += gammaln(alpha.sum()) - gammaln(alpha).sum()
    return -float(weights @ each + (BETA * np.log(phi)).sum())


def joint(state, tokens):
    """−ln p(w, z), as gibbs.py writes it."""
    documents, words = (counted.astype(float) for counted in tokens.count(state.topics, K))
    found = 0.0
    for rows, prior in ((documents, state.alpha[None]), (words.T, np.full((1, M), 0.2))):
        found += (gammaln(rows + prior) - gammaln(prior)).sum()
        found += (gammaln(prior.sum()) - gammaln(rows.sum(axis=1) + prior.sum())).sum()
    return -float(found)


LDA = [
    ("LDA, variational", lambda: VariationalAlgorithm(ALPHA, BETA, learn=True),
     lambda dtype: DocumentParts(counts(dtype), K, 10), lambda: DocumentParts(Blocks.of(np.full((N, M), np.inf)), K, 10), bound,
     {"threaded": True, "wide": ("alpha",)}),
    ("LDA, Gibbs", lambda: GibbsAlgorithm(ALPHA, BETA), lambda dtype: Tokens(counts(dtype), K, 10),
     lambda: Tokens(Blocks.of(np.full((N, M), 0.5)), K, 10), joint, {"threaded": True, "wide": ("alpha",)}),
]  # fmt: skip
