"""The estimator of probabilistic latent semantic analysis; em.py has the formulas.

>>> from lemmata import text
>>> counts = text.counts(["cat dog cat", "dog cat pet", "loss risk fit", "fit loss loss"])
>>> PLSA(2, random_state=0).fit(counts).top_words(2)
[['loss', 'fit'], ['cat', 'dog']]
"""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np

from lemmata.audit.latent_semantics import LATENT_SEMANTICS_CLAIMS
from lemmata.core.blocks import Blocks
from lemmata.core.borrowed import Interval
from lemmata.core.estimator import COMMON
from lemmata.topics.base import TopicModel
from lemmata.topics.plsa.corpus import Corpus
from lemmata.topics.plsa.em import PLSAAlgorithm

Array = np.ndarray
FOLD_IN = 1000  # EM steps over one document at most


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
