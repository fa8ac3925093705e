"""The estimator of probabilistic latent semantic analysis; em.py has the formulas.

>>> from lemmata import text
>>> counts = text.counts(["cat dog cat", "dog cat pet", "loss risk fit", "fit loss loss"])
>>> PLSA(2, random_state=0).fit(counts).top_words(2)
[['loss', 'fit'], ['cat', 'dog']]
"""

from __future__ import annotations

from numbers import Real
from typing import Any, ClassVar

import numpy as np

from lemmata.audit.topics.plsa import LATENT_SEMANTICS_CLAIMS
from lemmata.core import common
from lemmata.core.blocks import Blocks
from lemmata.core.certificate import Statement
from lemmata.core.loop import Stopped
from lemmata.core.parameters import COUNT, KW_ONLY, parameter
from lemmata.core.runs.trace import Trace
from lemmata.core.validation import Interval
from lemmata.topics.base import TopicModel
from lemmata.topics.plsa.corpus import CountedCorpus
from lemmata.topics.plsa.em import PLSAAlgorithm
from lemmata.topics.plsa.online import FOLD_IN, learn, mixtures

Array = np.ndarray


class PLSA(TopicModel):
    """Probabilistic latent semantic analysis by EM.

    Maximises Σ_dw N_dw ln Σ_z θ_dz φ_zw over mixtures θ_d of documents and topics φ_z.

    Attributes
    ----------
    components_ : (k, m)
        φ: row z holds p(word | topic z).
    doc_topic_ : (n, k)
        θ of the documents fitted to.
    topic_tokens_ : (k,)
        How many of their words each topic made, Σ_dw N_dw q_dwz.
    log_likelihood_ : float
        ℓ of those documents, in nats.
    certificate_, trace_, stopped_, n_iter_
    """

    n_components: int = parameter(10, COUNT).doc("k, the number of topics.")
    _: KW_ONLY
    temper: float = parameter(1.0, Interval(Real, 0, 1, closed="right")).doc("""
        β in (0, 1]: below 1 the E-step uses (θφ)^β, which overfits less.""")
    max_iter: int = common.max_iter(500).doc("EM steps at most.")
    tol: float = common.tol(1e-5).doc("Stop when a step changes ℓ by at most this share of it.")
    random_state: Any = common.random_state().doc("Where EM starts.")
    verbose: int = common.verbose()
    checkpoint: Any = common.checkpoint()
    time_limit: Any = common.time_limit()

    claims = LATENT_SEMANTICS_CLAIMS
    stored: ClassVar = {"components_ doc_topic_? log_likelihood_ topic_tokens_?": "audited"}

    def _algorithm(self, data: Blocks) -> PLSAAlgorithm:
        n, m = data.shape
        if self.n_components > min(n, m):
            raise ValueError(
                f"n_components={self.n_components} exceeds the smaller side of {n:,} documents × {m:,} words, where every one "
                f"could have a topic of its own; pass n_components <= {min(n, m)}."
            )
        return PLSAAlgorithm(self.n_components, float(self.temper))

    def _problem(self, data: Blocks) -> CountedCorpus:
        return CountedCorpus(data, self.n_components, min(self.max_iter, 50))

    def _attributes(self, solution: Any, problem: CountedCorpus) -> dict[str, Any]:
        state = solution.state
        found = state if self.temper == 1 else problem.expect(state.theta, state.phi)
        tokens = found.documents.sum(axis=0, dtype=np.float64)
        return {
            **solution.attributes,
            "topic_tokens_": tokens.astype(state.theta.dtype),
            "log_likelihood_": -float(found.loss),
        }

    def _mixtures(self, data: Blocks) -> Array:
        corpus = CountedCorpus(data, len(self.components_), FOLD_IN // 10)
        return mixtures(corpus, np.ascontiguousarray(self.components_.T, dtype=data.dtype))

    # --- one batch after the other ---

    def partial_fit(self, X, y=None, sample_weight=None):
        """Learn from a batch of new documents by stepwise EM: an approximation, not the fit to all documents together.

        The first batch is fitted as `fit` does (or continues a fit); then the expected counts of words
        in each batch are averaged into those so far with weight (t + 2)^−0.6. Batches should be alike: shuffle the documents.
        `doc_topic_` and `log_likelihood_` are those of the last batch, at the topics after it; `topic_tokens_` counts all.
        """
        self._validate_params()
        with self._all_or_nothing():
            first = not hasattr(self, "topic_tokens_")
            data = self._validate_rows(X, sample_weight, reset=first)
            if first:
                self._fit_blocks(data)
            else:
                self._learn(data)
        return self

    def _learn(self, data: Blocks) -> None:
        phi = np.ascontiguousarray(self.components_.T)
        if len(self.components_) != self.n_components:
            k = len(self.components_)
            raise ValueError(
                f"n_components={self.n_components}, but there are {k} topics to continue from; set it to {k}, or fit."
            )
        corpus = CountedCorpus(data, self.n_components, FOLD_IN // 10, dtype=phi.dtype)
        batches = self.n_iter_ if self.stopped_ == Stopped.BATCHES else 0
        found = learn(corpus, phi, self.topic_tokens_, batches, float(self.temper))
        attributes = {
            "components_": np.ascontiguousarray(found.phi.T),
            "doc_topic_": found.theta,
            "topic_tokens_": found.tokens.astype(phi.dtype),
            "log_likelihood_": -float(found.loss),
        }
        trace = Trace()
        trace.append(float(found.loss), 0.0)
        self._conclude(None, attributes, trace, Stopped.BATCHES, batches + 1)

    def _claims(self) -> tuple[Statement, ...]:
        """Likelihoods of different batches are no run: nothing is said of their fall."""
        if getattr(self, "stopped_", None) != Stopped.BATCHES:
            return self.claims
        return tuple(claim for claim in self.claims if claim.name != "likelihood_never_fell")
