"""Latent Dirichlet allocation by variational EM.

The posterior is approximated by q(θ_d) = Dirichlet(γ_d), q(φ_j) = Dirichlet(λ_j) and a distribution q_dwj of topics for each
word of each document, so as to maximise

    L(γ, λ) = Σ_d E ln p(θ_d)/q(θ_d) + Σ_j E ln p(φ_j)/q(φ_j) + Σ_dw N_dw ln Σ_j exp(E ln θ_dj + E ln φ_jw)   ≤   ln p(w)

(q_dwj at its best for γ and λ: that is the logarithm of the sum). With E ln θ_dj = ψ(γ_dj) − ψ(Σ_i γ_di) and the same for φ,

    q_dwj ∝ exp(E ln θ_dj + E ln φ_jw)        γ_dj = α_j + Σ_w N_dw q_dwj        λ_jw = β_jw + Σ_d N_dw q_dwj

each raise L. A step sets λ from the q of the state, then goes on with γ where it was: L cannot fall, however few rounds that
takes. What λ needs adds up over documents; memory is (n + m) k.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.special import polygamma, psi

from lemmata.core.store import storable
from lemmata.topics.lda.documents import Documents, Part
from lemmata.topics.lda.priors import SMALLEST

Array = np.ndarray
ROUNDS = 5  # over q and γ in a step; γ goes on in the next one
CHANGE = 1e-3  # of γ, on average, below which a document needs no further round


@storable
@dataclass(frozen=True)
class VariationalState:
    """γ, λ, α, and what the E-step at them says."""

    layout: ClassVar[dict[str, str]] = {
        "gamma": "n k >=0", "lam": "d k >=0", "words": "d k >=0", "alpha": "k >=0",
    }  # fmt: skip

    gamma: Array  # (n, k)
    lam: Array  # (m, k): λᵀ, so that a word's topics lie side by side
    words: Array  # Σ_d N_dw q_dwj, (m, k)
    alpha: Array  # (k,)
    loss: float  # −L at this γ, λ and α


def first_lam(beta: Array, m: int, k: int, dtype: Any, rng: np.random.Generator) -> Array:
    """Where λ starts: around 1 everywhere, with the prior on top, so that topics with words of their own begin with them."""
    return (rng.gamma(100.0, 0.01, size=(m, k)) + beta).astype(dtype)


def first_gamma(lengths: Array, alpha: Array, dtype: Any) -> Array:
    """Every topic the same share: nothing is drawn for a document, so that weight 2 is it twice."""
    return (alpha + np.asarray(lengths)[:, None] / len(alpha)).astype(dtype)


@dataclass(frozen=True)
class VariationalAlgorithm:
    """Variational EM on `Documents`.

    alpha is a tuple of k numbers, learnt on the way if `learn`; beta is (m, k), or (1, k) where all words have the same."""

    alpha: tuple[float, ...]
    beta: Array
    learn: bool = False

    hint = "look for extreme counts"

    def init(self, data: Documents, rng: np.random.Generator) -> VariationalState:
        m, k, alpha = data.shape[1], len(self.alpha), np.asarray(self.alpha)
        lam = first_lam(self.beta, m, k, data.dtype, rng)
        lengths = list(data.mapped(lambda part: np.asarray(part.counts.sum(axis=1)).ravel()))
        gamma = first_gamma(np.concatenate([np.zeros(0), *lengths]), alpha, data.dtype)
        return self._at(gamma, lam, alpha, data)

    def step(self, state: VariationalState, data: Documents) -> VariationalState:
        alpha = state.alpha
        if self.learn:
            alpha = best_prior(state.gamma, data.data.weights, alpha)
        lam = (state.words + self.beta).astype(state.lam.dtype)
        return self._at(state.gamma, lam, alpha, data)

    def _at(self, gamma: Array, lam: Array, alpha: Array, data: Documents) -> VariationalState:
        kernels, gammas = data.kernels, np.empty_like(gamma)
        shown, largest, bound = kernels.expected_words(lam, self.beta)

        def work(part: Part) -> tuple[Array, float]:
            gammas[part.rows], words, mine = kernels.expect(
                part.counts, part.weights, gamma[part.rows], shown, largest, alpha, ROUNDS, CHANGE
            )
            return words, mine

        total = np.zeros_like(lam)
        for words, mine in data.mapped(work):
            total += words
            bound += mine
        return VariationalState(gammas, lam, total, alpha, -float(bound))

    def objective(self, state: VariationalState) -> float:
        return state.loss

    def attributes(self, state: VariationalState) -> dict[str, Any]:
        theta = state.gamma.astype(np.float64)
        return {
            "components_": np.ascontiguousarray(state.lam.T),
            "doc_topic_": theta / theta.sum(axis=1, keepdims=True),
            "doc_topic_prior_": state.alpha,
            "lower_bound_": -state.loss,
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
