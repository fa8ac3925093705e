"""Probabilistic latent semantic analysis: a document is a mixture of topics, a topic a distribution of words.

    maximise  ℓ(θ, φ) = Σ_dw N_dw ln Σ_z θ_dz φ_zw        over θ_d and φ_z on their simplices               (CIL (3.30))

With q_dwz the probability that topic z made an occurrence of word w in document d, EM is (CIL 3.2.3)

    E   q_dwz = θ_dz φ_zw / Σ_ζ θ_dζ φ_ζw            M   θ_dz ∝ Σ_w N_dw q_dwz,    φ_zw ∝ Σ_d N_dw q_dwz

and ℓ cannot fall. q is never stored: what the M-step needs of it are two products with N_dw/p(w|d), so a pass costs nnz·k and
memory is that of θ and φ. A step is M then E: the likelihood in a state belongs to its θ and φ.

Tempering (β < 1) keeps q softer, q ∝ (θφ)^β, and overfits less; what cannot rise is then −(1/β) Σ N ln Σ_z (θ_dz φ_zw)^β.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from lemmata.core.store import storable
from lemmata.topics.plsa.corpus import CountedCorpus

Array = np.ndarray


@storable
@dataclass(frozen=True)
class PLSAState:
    """θ, φ, and what the E-step at them says."""

    layout: ClassVar = {"theta documents": "n k >=0", "phi words": "d k >=0"}

    theta: Array  # (n, k)
    phi: Array  # (m, k): φᵀ, so that a word's topics are adjacent
    documents: Array  # Σ_w N_dw q_dwz, (n, k)
    words: Array  # Σ_d N_dw q_dwz, (m, k)
    loss: float  # −ℓ of this θ and φ


def normalise(counts: Array, axis: int) -> Array:
    """Counts as probabilities; uniform where nothing was counted."""
    totals = counts.sum(axis=axis, keepdims=True)
    empty = totals <= 0
    shares = counts / np.where(empty, 1, totals)
    return np.where(empty, np.asarray(1 / counts.shape[axis], counts.dtype), shares)


@dataclass(frozen=True)
class PLSAAlgorithm:
    """EM on a `CountedCorpus`. `beta` tempers the E-step."""

    n_components: int
    beta: float = 1.0

    hint = "look for extreme counts"

    def init(self, corpus: CountedCorpus, rng: np.random.Generator) -> PLSAState:
        (n, m), k = corpus.shape, self.n_components
        # nothing is drawn for a document: weight 2 is it twice
        theta = np.full((n, k), 1 / k, dtype=corpus.dtype)
        # topics near the frequencies of words: a word that does not occur has no probability
        noise = rng.gamma(1.0, size=(m, k)) + 0.1
        phi = normalise((corpus.word_totals[:, None] * noise).astype(corpus.dtype), axis=0)
        return self._at(theta, phi, corpus)

    def step(self, state: PLSAState, corpus: CountedCorpus) -> PLSAState:
        theta = normalise(state.documents, axis=1)
        phi = normalise(state.words, axis=0)
        return self._at(theta, phi, corpus)

    def _at(self, theta: Array, phi: Array, corpus: CountedCorpus) -> PLSAState:
        if self.beta == 1:
            found = corpus.expect(theta, phi)
        else:
            found = corpus.expect(theta**self.beta, phi**self.beta)
        return PLSAState(theta, phi, found.documents, found.words, found.loss / self.beta)

    def objective(self, state: PLSAState) -> float:
        return state.loss

    def attributes(self, state: PLSAState) -> dict[str, Any]:
        return {"components_": np.ascontiguousarray(state.phi.T), "doc_topic_": state.theta}
