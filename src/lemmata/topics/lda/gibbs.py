"""Latent Dirichlet allocation by collapsed Gibbs sampling.

    θ_d ~ Dirichlet(α),   φ_j ~ Dirichlet(β_j),   z_dt ~ θ_d,   w_dt ~ φ_{z_dt}            (CIL20 4.4.2, with a prior on φ)

With θ and φ integrated out, the topics z of all tokens have

    p(w, z) = Π_j [Γ(B_j)/Γ(n_j + B_j) Π_w Γ(n_wj + β_wj)/Γ(β_wj)]  Π_d [Γ(A)/Γ(N_d + A) Π_j Γ(n_dj + α_j)/Γ(α_j)]

A = Σ_j α_j, B_j = Σ_w β_wj; a pass draws each z given all others. Blocks of tokens that share neither document nor word are
drawn in parallel, each with the totals n_j as they were when it began: an approximation, exact for fewer than 131,072 tokens,
which stay in one block.

Many documents start from two passes of online inference (starting.py), few from topics drawn at random.

Counts are averaged over the passes, the t-th with weight ∝ t(t+1)…(t+7): the last tenth of a run has more than half of it, the
first half one in five hundred. So there is no burn-in to choose, and a run needs no planned length.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import Any, ClassVar

import numpy as np
from scipy.special import gammaln

from lemmata.core.engine import pick
from lemmata.core.store import storable
from lemmata.topics.lda.priors import learn_doc_topic_prior
from lemmata.topics.lda.starting import first_topics
from lemmata.topics.lda.tokens import Tokens

Array = np.ndarray
FORGETTING = 8  # powers of t in the weight of pass t
LEARN_EVERY = 10  # passes between two estimates of α


@storable
@dataclass(frozen=True)
class GibbsState:
    """The topic of every token, their counts and averages, α, and where the stream of random numbers is."""

    layout: ClassVar[dict[str, str]] = {
        "documents mean_documents": "n k >=0",
        "topics": "t int >=0 <k",
        "words mean_words": "d k >=0",
        "alpha": "k >=0",
    }

    topics: Array  # (tokens,), in the order of Tokens
    documents: Array  # n_dj, (n, k)
    words: Array  # n_wj, (m, k)
    alpha: Array  # (k,)
    mean_documents: Array  # averages over passes
    mean_words: Array
    seed: int
    passes: int
    loss: float  # −ln p(w, z)


@dataclass(frozen=True)
class GibbsAlgorithm:
    """Collapsed Gibbs sampling of `Tokens`.

    alpha is a tuple of k numbers, learned on the way if `learn`; beta is (m, k), or (1, k) where all words have the same."""

    alpha: tuple[float, ...]
    beta: Array
    learn: bool = False

    hint = "look for extreme counts"

    @property
    def sizes(self) -> dict[str, int]:
        """The letters of a state that only this problem knows."""
        return {"k": len(self.alpha)}

    def _kernels(self, tokens: Tokens) -> ModuleType:
        return pick(tokens.compiled, "lemmata.topics.lda", "_gibbs")

    def init(self, tokens: Tokens, rng: np.random.Generator) -> GibbsState:
        k, alpha = len(self.alpha), np.asarray(self.alpha)
        if tokens.parts > 1:
            topics = first_topics(tokens, self.alpha, self.beta, rng)
        else:
            topics = rng.integers(k, size=len(tokens))
        topics = topics.astype(np.int16 if k < 2**15 else np.int32)
        documents, words = tokens.count(topics, k)
        seed, loss = int(rng.integers(2**63)), self._loss(tokens, documents, words, alpha)
        return GibbsState(topics, documents, words, alpha, documents, words, seed, 0, loss)

    def step(self, state: GibbsState, tokens: Tokens) -> GibbsState:
        passes, alpha = state.passes + 1, state.alpha
        topics, documents, words, averages = self._kernels(tokens).sample(
            tokens, state.topics, state.documents, state.words, alpha, self.beta,
            state.seed + passes, (state.mean_documents, state.mean_words),
            (FORGETTING + 1) / (passes + FORGETTING),
        )  # fmt: skip
        if self.learn and passes % LEARN_EVERY == 0:
            alpha = learn_doc_topic_prior(documents, alpha)
        loss = self._loss(tokens, documents, words, alpha)
        means, seed = dict(zip(("mean_documents", "mean_words"), averages, strict=True)), state.seed
        return GibbsState(
            topics, documents, words, alpha, **means, seed=seed, passes=passes, loss=loss
        )

    def _loss(self, tokens: Tokens, documents: Array, words: Array, alpha: Array) -> float:
        """−ln p(w, z)."""
        rising = self._kernels(tokens).log_rising
        A, beta = alpha.sum(), self.beta
        B = beta[0] * len(words) if len(beta) == 1 else beta.sum(axis=0)
        totals = words.sum(axis=0, dtype=np.float64)
        whole = (gammaln(tokens.lengths + A) - gammaln(A)).sum()
        whole += (gammaln(totals + B) - gammaln(B)).sum()
        return float(whole - rising(documents, alpha[None]) - rising(words, self.beta))

    def objective(self, state: GibbsState) -> float:
        return state.loss

    def attributes(self, state: GibbsState) -> dict[str, Any]:
        theta = state.mean_documents.astype(np.float64) + state.alpha
        return {
            "components_": np.ascontiguousarray((state.mean_words + self.beta).T),
            "doc_topic_": theta / theta.sum(axis=1, keepdims=True),
            "doc_topic_prior_": state.alpha,
        }
