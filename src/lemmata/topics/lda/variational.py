"""Latent Dirichlet allocation by variational EM: topics φ are parameters, mixtures θ are not (CIL (3.35)).

The posterior of a document is approximated by q(θ_d) = Dirichlet(γ_d) and a distribution q_dwj of topics for each of its words.
That bounds the likelihood from below; with q_dwj at its best for γ and φ,

    ln p(w | φ, α) ≥ L(γ, φ) = Σ_d E ln p(θ_d | α)/q(θ_d) + Σ_dw N_dw ln Σ_j exp(E ln θ_dj) φ_jw

where E ln θ_dj = ψ(γ_dj) − ψ(Σ_i γ_di), and

    q_dwj ∝ exp(E ln θ_dj) φ_jw         γ_dj = α_j + Σ_w N_dw q_dwj         φ_jw ∝ β_jw + Σ_d N_dw q_dwj

each raise L + Σ_jw β_jw ln φ_jw: β are tokens that every topic has seen before. (With a distribution of φ too, as Hoffman et
al. have it, words that a topic has seen less than once nearly vanish from it, and held-out text is predicted worse.)

A step sets φ from the q of the state and searches γ from the start again, since a document that has chosen its topics
hardly leaves them; that finds better topics, and can lower the sum. When it would, γ continues from where it was instead, now
and in all later steps: then it cannot fall, however few rounds that takes. What φ needs adds up over documents; memory is
(n + m) k.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.special import polygamma, psi

from lemmata.core.store import storable
from lemmata.topics.lda.documents import DocumentPart, DocumentParts
from lemmata.topics.lda.priors import SMALLEST

Array = np.ndarray
ROUNDS = 20  # over q and γ of a document in a step
CHANGE = 1e-3  # of γ, on average, below which a document needs no further round


@storable
@dataclass(frozen=True)
class VariationalState:
    """γ, λ, α, and what the E-step at them says. φ_j = λ_j / Σ_w λ_jw."""

    layout: ClassVar = {"gamma": "n k >=0", "lam words": "d k >=0", "alpha": "k >=0"}

    gamma: Array  # (n, k)
    lam: Array  # β_jw + Σ_d N_dw q_dwj of the step before, (m, k), so that a word's topics are adjacent
    words: Array  # Σ_d N_dw q_dwj, (m, k)
    alpha: Array  # (k,)
    again: bool  # whether γ is searched from the start
    bound: float  # L at this γ, φ and α
    loss: float  # −L − Σ β ln φ


def first_lam(beta: Array, m: int, k: int, dtype: Any, rng: np.random.Generator) -> Array:
    """The first λ: around 1 everywhere, with the prior on top, so that topics with words of their own begin with them."""
    return (rng.gamma(100.0, 0.01, size=(m, k)) + beta).astype(dtype)


def as_topics(lam: Array) -> Array:
    """φ (m, k): each topic's share of every word."""
    return (lam / lam.sum(axis=0, dtype=np.float64)).astype(lam.dtype)


def first_gamma(lengths: Array, alpha: Array, dtype: Any) -> Array:
    """Every topic the same share: nothing is drawn for a document, so that weight 2 is it twice."""
    return (alpha + np.asarray(lengths)[:, None] / len(alpha)).astype(dtype)


@dataclass(frozen=True)
class VariationalAlgorithm:
    """Variational EM on `DocumentParts`.

    alpha is a tuple of k numbers, learned on the way if `learn`; beta is (m, k), or (1, k) where all words have the same."""

    alpha: tuple[float, ...]
    beta: Array
    learn: bool = False

    hint = "look for extreme counts"

    @property
    def sizes(self) -> dict[str, int]:
        """The letters of a state that only this problem knows."""
        return {"k": len(self.alpha)}

    def init(self, data: DocumentParts, rng: np.random.Generator) -> VariationalState:
        m, k, alpha = data.shape[1], len(self.alpha), np.asarray(self.alpha)
        lam = first_lam(self.beta, m, k, data.dtype, rng)
        return self._at(first_gamma(data.lengths, alpha, data.dtype), lam, alpha, data, again=True)

    def step(self, state: VariationalState, data: DocumentParts) -> VariationalState:
        alpha = state.alpha
        if self.learn:
            alpha = best_prior(state.gamma, data.data.weights, alpha)
        lam = (state.words + self.beta).astype(state.lam.dtype)
        if state.again:
            start = first_gamma(data.lengths, alpha, data.dtype)
            found = self._at(start, lam, alpha, data, again=True)
            if found.loss <= state.loss:
                return found
        return self._at(state.gamma, lam, alpha, data, again=False)

    def _at(
        self, gamma: Array, lam: Array, alpha: Array, data: DocumentParts, again: bool
    ) -> VariationalState:
        kernels, gammas = data.kernels, np.empty_like(gamma)
        phi, bound = as_topics(lam), 0.0
        smoothing = float((self.beta * np.log(phi.astype(np.float64))).sum())

        def work(part: DocumentPart) -> tuple[Array, float]:
            gammas[part.rows], words, mine = kernels.expect(
                part.counts, part.weights, gamma[part.rows], phi, alpha, ROUNDS, CHANGE
            )
            return words, mine

        total = np.zeros_like(lam)
        for words, mine in data.map_parts(work):
            total += words
            bound += mine
        return VariationalState(
            gammas, lam, total, alpha, again, float(bound), -float(bound) - smoothing
        )

    def objective(self, state: VariationalState) -> float:
        return state.loss

    def attributes(self, state: VariationalState) -> dict[str, Any]:
        theta = state.gamma.astype(np.float64)
        return {
            "components_": np.ascontiguousarray(state.lam.T),
            "doc_topic_": theta / theta.sum(axis=1, keepdims=True),
            "doc_topic_prior_": state.alpha,
            "lower_bound_": state.bound,
        }


# --- α ----------------------------------------------------------------------------------------------------------------


def best_prior(gamma: Array, weights: Array | None, alpha: Array, steps: int = 20) -> Array:
    """α nearer to the maximum of Σ_d E ln p(θ_d | α): α_j ← ψ⁻¹(ψ(A) + mean E ln θ_dj) (Minka 2000), which cannot lower it."""
    wide = gamma.astype(np.float64)
    logs = psi(wide) - psi(wide.sum(axis=1, keepdims=True))
    if not len(logs) or (weights is not None and not weights.sum() > 0):
        return alpha
    mean = np.average(logs, axis=0, weights=weights)
    for _ in range(steps):
        alpha = np.maximum(inverse_digamma(psi(alpha.sum()) + mean), SMALLEST)
    return alpha


def inverse_digamma(y: Array) -> Array:
    """x with ψ(x) = y, by Newton's method from Minka's start; ψ is concave, so it comes from below and stays there."""
    x = np.where(y >= -2.22, np.exp(np.minimum(y, 700)) + 0.5, -1 / (y - psi(1)))
    for _ in range(6):
        x = np.maximum(x - (psi(x) - y) / polygamma(1, x), x / 10)
    return x
