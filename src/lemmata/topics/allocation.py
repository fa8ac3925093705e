"""LDA by the name, the parameters and the defaults of scikit-learn.

>>> from lemmata import text
>>> counts = text.counts(["cat dog cat", "dog cat pet", "loss risk fit", "fit loss loss"] * 3)
>>> model = LatentDirichletAllocation(2, random_state=0).fit(counts)
>>> model.top_words(2), model.transform(counts).shape
([['loss', 'fit'], ['cat', 'dog']], (12, 2))
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from scipy.special import gammaln, psi
from sklearn.utils.validation import check_is_fitted

from lemmata.core import common
from lemmata.core.blocks import Blocks
from lemmata.core.certificate import Certificate
from lemmata.core.engine import config
from lemmata.core.parameters import COUNT, KW_ONLY, POSITIVE, as_in, choice, fitted, parameter
from lemmata.core.runs.delegate import conclude_as, fit_as
from lemmata.topics.base import TopicModel
from lemmata.topics.lda.estimator import LDA

Array = np.ndarray
SHARED = (
    "n_components", "learning_method", "learning_decay", "learning_offset", "max_iter", "batch_size", "total_samples",
    "verbose", "random_state",
)  # fmt: skip


class LatentDirichletAllocation(TopicModel):
    """Latent Dirichlet allocation by variational inference: LDA as scikit-learn calls it.

    Attributes
    ----------
    components_ : (k, m)
    exp_dirichlet_component_ : (k, m)
        exp E[ln φ] of these counts.
    doc_topic_prior_, topic_word_prior_, lower_bound_, doc_topic_, certificate_, trace_, stopped_, n_iter_ : as of LDA
    """

    n_components: int = as_in(LDA, "n_components")
    _: KW_ONLY
    doc_topic_prior: Any = parameter(None, POSITIVE, None).doc("α; None: 1/n_components.")
    topic_word_prior: Any = parameter(None, POSITIVE, None).doc("β; None: 1/n_components.")
    learning_method: str = parameter("batch", choice("batch", "online")).doc("""
        Variational EM of all documents, or of one batch after the other.""")
    learning_decay: float = as_in(LDA, "learning_decay", 0.7)
    learning_offset: float = as_in(LDA, "learning_offset", 10.0)
    max_iter: int = common.max_iter(10).doc("Passes over the documents.")
    batch_size: int = as_in(LDA, "batch_size", 128)
    evaluate_every: int = parameter(-1, int).doc("""
        "batch" stops at `perp_tol` where this is > 0; otherwise after `max_iter` passes.""")
    total_samples: float = as_in(LDA, "total_samples")
    perp_tol: float = common.tol(0.1).doc("""
        "batch", with evaluate_every > 0: the share of the bound that a pass has to gain, at most
        0.001 of this number.""")
    mean_change_tol: float = common.tol(1e-3).doc("Has no effect: documents settle to rounding.")
    max_doc_update_iter: int = parameter(100, COUNT).doc("Has no effect, for the same reason.")
    n_jobs: Any = common.n_jobs()
    verbose: int = common.verbose()
    random_state: Any = as_in(LDA, "random_state")

    claims = LDA.claims
    checkpoint, time_limit, tol = None, None, 0.0
    stored: ClassVar[dict[str, Any]] = {
        name: spec for name, spec in LDA.stored.items() if name != "chain_log_likelihoods_?"
    }
    doc_topic_prior_: Array = fitted()

    certify, sample = LDA.certify, LDA.sample
    _claims, _mixtures = LDA._claims, LDA._mixtures

    def _ours(self) -> LDA:
        share = 1 / self.n_components
        alpha, beta = (
            share if prior is None else prior
            for prior in (self.doc_topic_prior, self.topic_word_prior)
        )
        tol = 1e-3 * self.perp_tol if self.evaluate_every > 0 else 0.0
        same = {name: getattr(self, name) for name in SHARED}
        return LDA(doc_topic_prior=alpha, topic_word_prior=beta, tol=tol, **same)

    def _certificate(self, data: Any, y: Any = None, **how: Any) -> Certificate:
        asked = 1 / self.n_components if self.doc_topic_prior is None else self.doc_topic_prior
        attributes = {**(how.pop("attributes", None) or {}), "doc_topic_prior": asked}
        return super()._certificate(data, y, attributes=attributes, **how)

    def _fit_blocks(self, data: Blocks) -> None:
        self._forget("doc_topic_", "lower_bound_", "batches_")
        conclude_as(self, fit_as(self, self._ours(), data), data)

    def partial_fit(self, X, y=None):
        """Learn from a batch of documents, as learning_method="online" does; the first call begins."""
        with self._all_or_nothing(), config(certificate=False):
            self._validate_params()
            ours = self._ours().set_params(learning_method="online")
            if hasattr(self, "batches_"):
                for name in self._shapes():
                    if hasattr(self, name):
                        setattr(ours, name, getattr(self, name))
            ours.partial_fit(X)
            for name in ("n_features_in_", "feature_names_in_"):
                if hasattr(ours, name):
                    setattr(self, name, getattr(ours, name))
            self._forget("doc_topic_", "lower_bound_")
            conclude_as(self, ours, None)
        return self

    @property
    def exp_dirichlet_component_(self) -> Array:
        """exp E[ln φ], (k, m)."""
        return np.exp(psi(self.components_) - psi(self.components_.sum(axis=1, keepdims=True)))

    def score(self, X, y=None) -> float:
        """Return the variational lower bound of ln p(X), in nats."""
        check_is_fitted(self)
        data, alpha = self._validate_rows(X, reset=False), self.doc_topic_prior_.astype(float)
        theta, phi, total = self._mixtures(data).astype(float), self.topic_word_, 0.0
        start = 0
        for rows, _ in data:
            counts = rows.tocoo() if hasattr(rows, "tocoo") else rows
            d, w = counts.nonzero() if isinstance(counts, np.ndarray) else (counts.row, counts.col)
            values = counts[d, w] if isinstance(counts, np.ndarray) else counts.data
            here = theta[start : start + rows.shape[0]]
            start += rows.shape[0]
            lengths = np.bincount(d, values, minlength=rows.shape[0])[:, None]
            gamma = here * (alpha.sum() + lengths)
            logs = psi(gamma) - psi(gamma.sum(axis=1, keepdims=True))
            p = np.einsum("ij,ji->i", np.exp(logs)[d], phi[:, w])
            total += float(values @ np.log(np.maximum(p, 1e-300)))
            total += float((gammaln(gamma) + (alpha - gamma) * logs).sum())
            total -= float(gammaln(gamma.sum(axis=1)).sum())
            total += rows.shape[0] * float(gammaln(alpha.sum()) - gammaln(alpha).sum())
        return total

    def perplexity(self, X, sub_sampling: bool = False) -> float:
        """Return exp(−bound per word); `lemmata.topics.perplexity` estimates that of p(w) without bias."""
        words = sum(float(rows.sum()) for rows, _ in self._validate_rows(X, reset=False))
        return float(np.exp(-self.score(X) / max(words, 1.0)))
