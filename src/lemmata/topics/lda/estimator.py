"""Latent Dirichlet allocation: topics of documents, with a prior on what documents are made of.

    θ_d ~ Dirichlet(α),   z_dt ~ θ_d,   w_dt ~ φ_{z_dt},   φ_j ~ Dirichlet(β)                    (CIL 3.2.4; CIL20 4.4)

pLSA has a parameter θ_d for every document it was fitted to and none for others; LDA has a distribution of them, so new
documents have a probability, ∫ Π_t (Σ_j θ_j φ_jw_t) p(θ | α) dθ, and can be drawn.

    >>> from lemmata import text
    >>> counts = text.counts(["cat dog cat", "dog cat pet", "loss risk fit", "fit loss loss"] * 3)
    >>> LDA(2, random_state=0).fit(counts).top_words(2)
    [['loss', 'fit'], ['cat', 'dog']]
"""

from __future__ import annotations

from numbers import Real
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from lemmata.audit.topics import LDA_BATCH_CLAIMS, LDA_CLAIMS, LDA_MORE_CLAIMS, LDA_ONLINE_CLAIMS
from lemmata.core import common
from lemmata.core.blocks import Blocks
from lemmata.core.certificate import Certificate
from lemmata.core.loop import MaxSteps, Never, Settled, Stop, Stopped
from lemmata.core.parameters import COUNT, KW_ONLY, NONNEGATIVE, POSITIVE, choice, fitted, parameter
from lemmata.core.runs.progress import Progress
from lemmata.core.runs.repeat import Restarts
from lemmata.core.runs.trace import Trace
from lemmata.core.validation import Interval
from lemmata.text.counting import Counts
from lemmata.topics.base import TopicModel
from lemmata.topics.lda import priors
from lemmata.topics.lda.documents import DocumentParts
from lemmata.topics.lda.gibbs import GibbsAlgorithm
from lemmata.topics.lda.mixtures import draw_documents, mixtures_of
from lemmata.topics.lda.online import OnlineAlgorithm, OnlineState
from lemmata.topics.lda.tokens import Tokens
from lemmata.topics.lda.variational import VariationalAlgorithm

Array = np.ndarray
PASSES = {"gibbs": 200, "batch": 100, "online": 10}  # max_iter=None


def _goes_on(model: LDA) -> bool:
    """Return whether a model learns by batches, and so from further ones."""
    if model.learning_method != "online":
        raise AttributeError(
            f'partial_fit needs learning_method="online"; this model has {model.learning_method!r}.'
        )
    return True


class LDA(TopicModel):
    """Latent Dirichlet allocation by Gibbs sampling or variational inference.

    Attributes
    ----------
    components_ : (k, m)
        Expected counts of words in topics, β included; `topic_word_` has them as p(word | topic).
    doc_topic_ : (n, k)
        The mean of θ of the documents fitted to ("gibbs" and "batch").
    doc_topic_prior_ : (k,)
        α, learned or given.
    topic_word_prior_ : float or (k, m)
        β, seed words included.
    lower_bound_ : float
        "batch": the bound L ≤ ln p(w).
    chain_log_likelihoods_ : (n_chains, passes kept)
        "gibbs": ln p(w, z) after each pass of the second half of each chain.
    certificate_, trace_, stopped_, n_iter_
    """

    n_components: int = parameter(10, COUNT).doc("k, the number of topics.")
    _: KW_ONLY
    learning_method: str = parameter("gibbs", choice("gibbs", "batch", "online")).doc("""
        Collapsed Gibbs sampling, which needs whole counts and finds the best topics; variational
        EM; the same by batches of documents, which sees each a few times only and can go on
        (`partial_fit`).""")
    doc_topic_prior: Any = parameter(None, POSITIVE, "array-like", choice("auto"), None).doc("""
        α, a number or one per topic. "auto" learns it, one number per topic, by Minka's fixed
        point. None: 0.1.""")
    topic_word_prior: Any = parameter(None, POSITIVE, "array-like", None).doc("""
        β, a number, (m,) or (k, m). None: 0.05.""")
    seed_words: Any = parameter(None, dict, None).doc("""
        Words that a topic should have: `seed_weight` is added to their β. Without words (bare
        numbers), columns.""")
    seed_weight: float = parameter(10.0, POSITIVE).doc("""
        How many tokens a seed word is worth before any document is read.""")
    max_iter: Any = parameter(None, COUNT, None).doc("""
        Passes over the documents. None: 200 for "gibbs", at most 100 for "batch", 10 for "online".
        """)
    tol: float = common.tol(1e-6).doc("""
        "batch" stops when a step changes the bound by at most this share of it; the others do not
        stop by themselves.""")
    n_chains: int = parameter(1, COUNT).doc("""
        "gibbs": chains from different starts, one after the other; that of the highest ln p(w, z)
        is shown.""")
    batch_size: int = parameter(1024, COUNT).doc('"online": documents of a batch.')
    learning_decay: float = parameter(0.6, Interval(Real, 0, 1, closed="right")).doc("""
        "online": κ of the rate (τ₀ + t)^(−κ) of batch t.""")
    learning_offset: float = parameter(1.0, NONNEGATIVE).doc('"online": τ₀ of that rate.')
    total_samples: float = parameter(1e6, POSITIVE).doc("""
        How many documents there are in all, for `partial_fit`; `fit` counts them.""")
    random_state: Any = common.random_state().doc("Where the topics start, and all draws.")
    verbose: int = common.verbose()
    checkpoint: Any = common.checkpoint()
    time_limit: Any = common.time_limit()

    claims = LDA_CLAIMS
    stored: ClassVar[dict[str, Any]] = {
        "components_": "k d >0",
        "doc_topic_? doc_topic_prior_ lower_bound_? chain_log_likelihoods_?": "audited",
        "topic_word_prior_": " | k d >0",
        "batches_?": OnlineState,
    }

    doc_topic_prior_: Array = fitted()
    batches_: OnlineState = fitted()

    # --- what the parameters stand for ---

    @property
    def _passes(self) -> int:
        return PASSES[self.learning_method] if self.max_iter is None else self.max_iter

    def _beta(self, m: int) -> Array:
        beta = priors.topic_word_prior(self.topic_word_prior, self.n_components, m)
        if self.seed_words is None:
            return beta
        words = getattr(self, "feature_names_in_", None)
        return priors.with_seed_words(beta, self.seed_words, self.seed_weight, words, m)

    def _algorithm(self, data: Blocks) -> Any:
        k, m = self.n_components, data.shape[1]
        alpha = tuple(map(float, priors.doc_topic_prior(self.doc_topic_prior, k)))
        beta, learn = self._beta(m), isinstance(self.doc_topic_prior, str)
        if self.learning_method == "gibbs":
            one = GibbsAlgorithm(alpha, beta, learn)
            return (
                one if self.n_chains == 1 else Restarts(one, self.n_chains, MaxSteps(self._passes))
            )
        if self.learning_method == "batch":
            return VariationalAlgorithm(alpha, beta, learn)
        return OnlineAlgorithm(
            alpha, beta, learn, self.batch_size, self.learning_decay, self.learning_offset
        )

    def _fit_blocks(self, data: Blocks) -> None:
        n, m = data.shape
        if self.n_components > max(n, m):
            raise ValueError(
                f"n_components={self.n_components} exceeds both {n:,} documents and {m:,} words: most topics would be empty; "
                f"pass n_components <= {max(n, m)}."
            )
        super()._fit_blocks(data)

    def _problem(self, data: Blocks) -> Tokens | DocumentParts:
        if self.learning_method == "gibbs":
            return Tokens(data, self.n_components, self._passes * self.n_chains)
        return DocumentParts(data, self.n_components, self._passes)

    def _stop(self) -> Stop:
        if self.learning_method == "gibbs" and self.n_chains > 1:
            return self._within_time(Never())
        rule: Stop = MaxSteps(self._passes)
        if self.learning_method == "batch":
            rule = Settled(self.tol, self.patience) | rule
        return self._within_time(rule)

    def _callbacks(self) -> list[Any]:
        bar = Progress(type(self).__name__, total=self._passes * self.n_chains)
        return [bar if isinstance(one, Progress) else one for one in super()._callbacks()]

    def _wants_to_settle(self) -> bool:
        return self.learning_method == "batch" and self.max_iter is not None and self.tol > 0

    # --- fitting ---

    def fit(self, X, y=None, sample_weight=None):
        self._forget("batches_")  # a fit begins again
        return super().fit(X, y, sample_weight)

    def _attributes(self, solution: Any, problem: Any) -> dict[str, Any]:
        found = dict(solution.attributes)
        if isinstance(problem, Tokens):
            found["doc_topic_"] = problem.of_rows(found["doc_topic_"])
            traces = solution.children or (solution.trace,)
            kept = min(len(trace) for trace in traces) // 2
            found["chain_log_likelihoods_"] = np.array(
                [-trace.objective[len(trace) - max(kept, 1) :] for trace in traces]
            )
        return self._finish_attributes(found, problem.dtype, problem.shape[1])

    def _finish_attributes(self, found: dict[str, Any], dtype: Any, m: int) -> dict[str, Any]:
        """Attributes in the type of the data; those of another method do not outlive a fit."""
        self._forget("doc_topic_", "lower_bound_", "chain_log_likelihoods_", "batches_")
        beta = self._beta(m)
        found["topic_word_prior_"] = (
            np.ascontiguousarray(beta.T) if len(beta) > 1 else float(beta[0, 0])
        )
        for name in ("components_", "doc_topic_", "doc_topic_prior_"):
            if name in found:
                found[name] = found[name].astype(dtype, copy=False)
        return found

    @available_if(_goes_on)
    def partial_fit(self, X, y=None, sample_weight=None):
        """Learn from further documents, batch by batch (`learning_method="online"`); the first call begins.

        It continues a fit of the same method. `total_samples` says how many documents there will be in all.
        """
        with self._all_or_nothing():
            self._validate_params()
            first = not hasattr(self, "batches_")
            data = self._validate_rows(X, sample_weight, reset=first)
            documents = DocumentParts(data, self.n_components, self._passes)
            algorithm = self._algorithm(data)
            state = (
                algorithm.init(documents, np.random.default_rng(self._rng()))
                if first
                else self.batches_
            )
            before = state.loss
            for counts, weights in documents.blocks():
                for start in range(0, counts.shape[0], self.batch_size):
                    here = slice(start, start + self.batch_size)
                    mine = None if weights is None else weights[here]
                    state = algorithm.learn_from(
                        state, counts[here], mine, self.total_samples, documents.kernels
                    )
            trace = Trace() if first or self.stopped_ != Stopped.BATCHES else self.trace_.copy()
            trace.append(state.loss - before, trace.elapsed, None)
            attributes = self._finish_attributes(
                algorithm.attributes(state), data.dtype, data.shape[1]
            )
            self._conclude(None, attributes, trace, Stopped.BATCHES, len(trace))
        return self

    # --- certificate ---

    def _claims(self):
        methods = {"batch": LDA_BATCH_CLAIMS, "online": LDA_ONLINE_CLAIMS}
        return methods.get(self.learning_method, LDA_CLAIMS)

    def certify(
        self, X, y=None, sample_weight=None, *, X_test=None, seconds: float | None = None
    ) -> Certificate:
        """Check every claim about this fit on X, usually the training documents.

        X_test : documents drawn like X and independently of it; only with them is `beats_unigram` decided
        seconds : how long that may take, as in every `certify`
        """
        check_is_fitted(self)
        data = self._validate_rows(X, sample_weight, reset=False)
        held_out = None if X_test is None else self._validate_rows(X_test, reset=False)
        claims, attributes = (*self._claims(), *LDA_MORE_CLAIMS), {"X_test": held_out}
        return self._certificate(data, seconds=seconds, claims=claims, attributes=attributes)

    # --- documents ---

    def _mixtures(self, data: Blocks) -> Array:
        return mixtures_of(data, self.topic_word_, self.doc_topic_prior_)

    def sample(
        self, n_documents: int = 1, length: int | Array = 100, random_state: Any = None
    ) -> Counts | sp.csr_array:
        """New documents as the model writes them: θ ~ Dirichlet(α), then words of topics (CIL20 4.4.2).

        length : int or array of shape (n_documents,)
            Tokens of each document.

        Returns counts over the model's words, or a sparse matrix where it was fitted to bare numbers.
        """
        check_is_fitted(self)
        lengths = np.broadcast_to(np.asarray(length), (n_documents,))
        if not np.issubdtype(lengths.dtype, np.integer) or (lengths < 0).any():
            raise ValueError("length is a number of tokens, int >= 0, or one for each document.")
        given = self.random_state if random_state is None else random_state
        rng = np.random.default_rng(check_random_state(given).randint(2**31, size=4))
        counts = draw_documents(self.topic_word_, self.doc_topic_prior_, lengths, rng)
        words = getattr(self, "feature_names_in_", None)
        return counts if words is None else Counts(counts, words)
