"""Latent Dirichlet allocation by online variational inference (after Hoffman, Blei & Bach 2010).

Batch number t of documents B, out of D, says what λ would be if all documents were like it, and λ moves there by ρ_t:

    λ ← (1 − ρ_t) λ + ρ_t (β + D/|B| Σ_{d∈B} N_dw q_dwj),        ρ_t = (τ₀ + t)^(−κ),        φ_j ∝ λ_j

stepwise EM (Cappé & Moulines 2009) on the bound L of variational.py; κ in (½, 1] makes it converge. Nothing is kept of a
document, so memory is m k and streams may be long. A step of a fit is a pass over all batches, in a random order drawn once;
the number in a state is −Σ_d of what documents added to L when they came, before learning from them, not the bound after it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from lemmata.core.store import storable
from lemmata.topics.lda.documents import DocumentPart, DocumentParts, cut, side_by_side
from lemmata.topics.lda.variational import CHANGE, best_prior, first_gamma, first_lam

Array = np.ndarray
ROUNDS = 20  # over q and γ of a new document at most


@storable
@dataclass(frozen=True)
class OnlineState:
    """λ, α, how many batches and passes there were, and the seed of their order."""

    layout: ClassVar[dict[str, str]] = {"lam": "d k >=0", "alpha": "k >=0"}

    lam: Array  # (m, k)
    alpha: Array  # (k,)
    batches: int
    passes: int
    seed: int
    loss: float  # −Σ_d of what documents added to the bound when they came


@dataclass(frozen=True)
class OnlineAlgorithm:
    """Online variational inference on `DocumentParts`. alpha, beta, learn as in VariationalAlgorithm."""

    alpha: tuple[float, ...]
    beta: Array
    learn: bool
    batch_size: int
    decay: float  # κ
    offset: float  # τ₀

    hint = "raise learning_offset, or look for extreme counts"

    @property
    def sizes(self) -> dict[str, int]:
        """The letters of a state that only this problem knows."""
        return {"k": len(self.alpha)}

    def init(self, data: DocumentParts, rng: np.random.Generator) -> OnlineState:
        k, alpha = len(self.alpha), np.asarray(self.alpha)
        lam = first_lam(self.beta, data.shape[1], k, data.dtype, rng)
        seed, guess = int(rng.integers(2**63)), data.weighted_tokens * np.log(data.shape[1])
        # −ln p of topics that know nothing
        return OnlineState(lam, alpha, 0, 0, seed, float(guess))

    def step(self, state: OnlineState, data: DocumentParts) -> OnlineState:
        after = replace(state, loss=0.0)
        total = data.data.total_weight
        for counts, weights in self._batches(data, state.seed):
            after = self.learn_from(after, counts, weights, total, data.kernels)
        return replace(after, passes=state.passes + 1)

    def _batches(
        self, data: DocumentParts, seed: int
    ) -> Iterator[tuple[sp.csr_array, Array | None]]:
        """Batches in an order of their own where the data is in memory; a stream in the order it comes."""
        for counts, weights in data.shuffle(seed):
            for start in range(0, counts.shape[0], self.batch_size):
                here = slice(start, start + self.batch_size)
                yield counts[here], None if weights is None else weights[here]

    def learn_from(
        self,
        state: OnlineState,
        counts: sp.csr_array,
        weights: Array | None,
        total: float,
        kernels: Any,
    ) -> OnlineState:
        """λ after one batch."""
        size = counts.shape[0] if weights is None else float(weights.sum())
        if size <= 0:
            return state
        words, gamma, bound = batch_statistics(counts, weights, state.lam, state.alpha, kernels)
        rate = (self.offset + state.batches + 1) ** -self.decay
        lam = state.lam * (1 - rate)
        present, found = words
        lam += (rate * self.beta).astype(lam.dtype)
        lam[present] += (rate * total / size) * found
        alpha = state.alpha
        if self.learn:
            alpha = (1 - rate) * alpha + rate * best_prior(gamma, weights, alpha)
        return OnlineState(
            lam, alpha, state.batches + 1, state.passes, state.seed, state.loss - bound
        )

    def objective(self, state: OnlineState) -> float:
        return state.loss

    def attributes(self, state: OnlineState) -> dict[str, Any]:
        return {
            "components_": np.ascontiguousarray(state.lam.T),
            "doc_topic_prior_": state.alpha,
            "batches_": state,
        }


def batch_statistics(
    counts: sp.csr_array, weights: Array | None, lam: Array, alpha: Array, kernels: Any
):
    """(words that occur, Σ_d N_dw q_dwj of these), γ and what the documents add to the bound, at this λ."""
    present = np.flatnonzero(np.bincount(counts.indices, minlength=counts.shape[1]))
    places = np.zeros(counts.shape[1], np.int32)
    places[present] = np.arange(len(present))
    few = sp.csr_array(
        (counts.data, places[counts.indices], counts.indptr), shape=(counts.shape[0], len(present))
    )
    phi = (lam[present] / lam.sum(axis=0, dtype=np.float64)).astype(lam.dtype)
    lengths = np.asarray(counts.sum(axis=1)).ravel()

    def work(part: DocumentPart) -> tuple[Array, Array, float]:
        start = first_gamma(lengths[part.rows], alpha, lam.dtype)
        return kernels.expect(part.counts, part.weights, start, phi, alpha, ROUNDS, CHANGE)

    total, gammas, bound = np.zeros((len(present), len(alpha)), lam.dtype), [], 0.0
    for gamma, words, mine in side_by_side(work, list(cut(few, weights))):
        total += words
        gammas.append(gamma)
        bound += mine
    return (present, total), np.concatenate(gammas), bound
