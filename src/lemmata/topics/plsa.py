"""Probabilistic latent semantic analysis: a document is a mixture of topics, a topic a distribution of words.

    maximise  ℓ(θ, φ) = Σ_dw N_dw ln Σ_z θ_dz φ_zw        over θ_d and φ_z on their simplices               (CIL (3.30))

With q_dwz the probability that topic z made an occurrence of word w in document d, EM is (CIL 3.2.3)

    E   q_dwz = θ_dz φ_zw / Σ_ζ θ_dζ φ_ζw            M   θ_dz ∝ Σ_w N_dw q_dwz,    φ_zw ∝ Σ_d N_dw q_dwz

and ℓ cannot fall. q is never stored: what the M-step needs of it are two products with N_dw/p(w|d), so a pass costs nnz·k and
memory is that of θ and φ. A step is M then E: the likelihood in a state belongs to its θ and φ.

Tempering (β < 1) keeps q softer, q ∝ (θφ)^β, and overfits less; what cannot rise is then −(1/β) Σ N ln Σ_z (θ_dz φ_zw)^β.

    >>> from lemmata import text
    >>> counts = text.counts(["cat dog cat", "dog cat pet", "loss risk fit", "fit loss loss"])
    >>> PLSA(2, random_state=0).fit(counts).top_words(2)
    [['loss', 'fit'], ['cat', 'dog']]
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np

from lemmata.audit.latent_semantics import LATENT_SEMANTICS_CLAIMS
from lemmata.core.blocks import Blocks
from lemmata.core.borrowed import Interval
from lemmata.core.estimator import COMMON
from lemmata.core.store import storable
from lemmata.topics.base import TopicModel
from lemmata.topics.corpus import Corpus

Array = np.ndarray
FOLD_IN = 1000  # EM steps over one document at most


@storable
@dataclass(frozen=True)
class PLSAState:
    """θ, φ, and what the E-step at them says."""

    layout: ClassVar[dict[str, str]] = {
        "theta": "n k >=0", "phi": "d k >=0", "documents": "n k >=0", "words": "d k >=0",
    }  # fmt: skip

    theta: Array  # (n, k)
    phi: Array  # (m, k): φᵀ, so that a word's topics lie side by side
    documents: Array  # Σ_w N_dw q_dwz, (n, k)
    words: Array  # Σ_d N_dw q_dwz, (m, k)
    loss: float  # −ℓ of this θ and φ


def normalised(counts: Array, axis: int) -> Array:
    """Counts as probabilities; uniform where nothing was counted."""
    totals = counts.sum(axis=axis, keepdims=True)
    empty = totals <= 0
    shares = counts / np.where(empty, 1, totals)
    return np.where(empty, np.asarray(1 / counts.shape[axis], counts.dtype), shares)


@dataclass(frozen=True)
class PLSAAlgorithm:
    """EM on a `Corpus`. `beta` tempers the E-step."""

    n_components: int
    beta: float = 1.0

    hint = "look for extreme counts"

    def init(self, corpus: Corpus, rng: np.random.Generator) -> PLSAState:
        (n, m), k = corpus.shape, self.n_components
        theta = np.full(
            (n, k), 1 / k, dtype=corpus.dtype
        )  # nothing is drawn for a document: weight 2 is it twice
        # topics near the frequencies of words: a word that nobody uses has no probability
        noise = rng.gamma(1.0, size=(m, k)) + 0.1
        phi = normalised((corpus.word_totals[:, None] * noise).astype(corpus.dtype), axis=0)
        return self._at(theta, phi, corpus)

    def step(self, state: PLSAState, corpus: Corpus) -> PLSAState:
        theta = normalised(state.documents, axis=1)
        phi = normalised(state.words, axis=0)
        return self._at(theta, phi, corpus)

    def _at(self, theta: Array, phi: Array, corpus: Corpus) -> PLSAState:
        if self.beta == 1:
            found = corpus.expect(theta, phi)
        else:
            found = corpus.expect(theta**self.beta, phi**self.beta)
        return PLSAState(theta, phi, found.documents, found.words, found.loss / self.beta)

    def objective(self, state: PLSAState) -> float:
        return state.loss

    def attributes(self, state: PLSAState) -> dict[str, Any]:
        return {"components_": np.ascontiguousarray(state.phi.T), "doc_topic_": state.theta}


class PLSA(TopicModel):
    """Probabilistic latent semantic analysis by EM.

    Maximises Σ_dw N_dw ln Σ_z θ_dz φ_zw over mixtures θ_d of documents and topics φ_z.

    Parameters
    ----------
    n_components : int, default=10
        k, the number of topics.
    temper : float, default=1.0
        β in (0, 1]: below 1 the E-step uses (θφ)^β, which overfits less.
    max_iter : int, default=500
        EM steps at most.
    tol : float, default=1e-5
        Stop when a step changes ℓ by at most this share of it.
    random_state : int, RandomState or None
        Where EM starts.
    verbose, checkpoint, time_limit
        Progress on the terminal; a file to resume from; seconds.

    Attributes
    ----------
    components_ : (k, m)
        φ: row z holds p(word | topic z).
    doc_topic_ : (n, k)
        θ of the documents fitted to.
    log_likelihood_ : float
        ℓ of those documents, in nats.
    certificate_, trace_, stopped_, n_iter_
    """

    claims = LATENT_SEMANTICS_CLAIMS
    _parameter_constraints: ClassVar[dict[str, list]] = {
        **COMMON,
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "temper": [Interval(Real, 0, 1, closed="right")],
    }

    def __init__(
        self, n_components=10, *, temper=1.0, max_iter=500, tol=1e-5, random_state=None,
        verbose=0, checkpoint=None, time_limit=None,
    ):  # fmt: skip
        self.n_components, self.temper = n_components, temper
        self.max_iter, self.tol, self.random_state = max_iter, tol, random_state
        self.verbose, self.checkpoint, self.time_limit = verbose, checkpoint, time_limit

    def _algorithm(self, data: Blocks) -> PLSAAlgorithm:
        n, m = data.shape
        if self.n_components > min(n, m):
            raise ValueError(
                f"n_components={self.n_components} exceeds the smaller side of {n:,} documents × {m:,} words, where every one "
                f"could have a topic of its own; pass n_components <= {min(n, m)}."
            )
        return PLSAAlgorithm(self.n_components, float(self.temper))

    def _problem(self, data: Blocks) -> Corpus:
        return Corpus(data, self.n_components, min(self.max_iter, 50))

    def _attributes(self, solution: Any, problem: Corpus) -> dict[str, Any]:
        state = solution.state
        loss = state.loss if self.temper == 1 else problem.expect(state.theta, state.phi).loss
        return {**solution.attributes, "log_likelihood_": -float(loss)}

    def _mixtures(self, data: Blocks) -> Array:
        k = len(self.components_)
        corpus = Corpus(data, k, FOLD_IN // 10)
        phi = np.ascontiguousarray(self.components_.T, dtype=data.dtype)
        start = np.full((data.shape[0], k), 1 / k, dtype=data.dtype)
        return corpus.fold_in(start, phi, FOLD_IN, 1e-4)
