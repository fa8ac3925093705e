"""Held-out perplexity: the probability of documents that a topic model was not fitted to.

    perplexity = exp(−Σ_d ln p(w_d) / Σ_d T_d),        p(w) = ∫ Π_t (Σ_j θ_j φ_{j w_t}) p(θ | α) dθ                (CIL (3.35))

The integral has no formula. Libraries answer with a bound (scikit-learn, gensim: too high), or with the likelihood of topics
that were drawn for the training words (tomotopy). Here it is estimated without bias, with a standard error (`left-to-right`),
or summed up where model and documents are small (`exact`). Predicting the rest of a document from its first half is another
quantity, p(w² | w¹), with a name of its own: `completion`.

    >>> import numpy as np
    >>> topics, alpha = np.array([[0.5, 0.5, 0.0], [0.0, 0.5, 0.5]]), np.array([0.1, 0.1])
    >>> perplexity((topics, alpha), np.array([[2, 1, 0], [0, 1, 2]]), method="exact")
    perplexity 2.594 of p(w) (exact; 2 documents, 6 words)
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.special import logsumexp

from lemmata.audit.topics.documents import Documents, validate_topics
from lemmata.audit.topics.foreign import lda_of
from lemmata.audit.topics.left_to_right import log_probabilities
from lemmata.audit.topics.unigram import unigram_topic
from lemmata.text.foreign import counts_of, library_of
from lemmata.topics.enumeration import enumerate_topics

Array = np.ndarray
METHODS = ("left-to-right", "completion", "exact")
WHOLE, COMPLETION = "p(w)", "p(w² | w¹)"
PARTICLES, RUNS, MOVES = 20, 3, 0


@dataclass(frozen=True)
class Perplexity:
    """The log-likelihoods of documents under a model. `float(result)` is the perplexity."""

    quantity: str  # p(w) or p(w² | w¹)
    method: str
    log_likelihoods: Array  # nats of each document, (n,)
    variances: Array  # of these estimates, (n,); 0 where nothing is estimated
    tokens: Array  # words that the logarithms are of, (n,)
    first: Array | float = 0.0  # the part of the variances of p(w¹), whose logarithm is subtracted

    @property
    def n_tokens(self) -> int:
        return int(self.tokens.sum())

    @property
    def log_likelihood(self) -> float:
        """Nats of all documents."""
        return float(self.log_likelihoods.sum())

    @property
    def perplexity(self) -> float:
        with np.errstate(over="ignore"):
            return float(np.exp(-self.log_likelihood / max(self.n_tokens, 1)))

    @property
    def standard_error(self) -> float:
        """Standard error of the perplexity, by chance of the estimate alone: the documents are fixed."""
        if not np.isfinite(self.perplexity):
            return float("inf")
        return self.perplexity * float(np.sqrt(self.variances.sum())) / max(self.n_tokens, 1)

    @property
    def bias(self) -> float:
        """Roughly how much too high the perplexity is on average: each ln p̂ is low by half its variance."""
        if not np.isfinite(self.perplexity):
            return 0.0
        low = float((self.variances - 2 * np.asarray(self.first)).sum()) / 2
        return self.perplexity * low / max(self.n_tokens, 1)

    def __float__(self) -> float:
        return self.perplexity

    def __repr__(self) -> str:
        unsure = f" ± {self.standard_error:.2g}" if self.variances.any() else ""
        return (
            f"perplexity {self.perplexity:.5g}{unsure} of {self.quantity} ({self.method}; {len(self.tokens):,} documents, "
            f"{self.n_tokens:,} words){self._why_infinite()}"
        )

    def _why_infinite(self) -> str:
        """Say how many documents are impossible under the model, and what to do; nothing where none is."""
        if not (impossible := int((~np.isfinite(self.log_likelihoods)).sum())):
            return ""
        return (
            f"; words of probability 0 under the topics occur in {impossible:,} of them: pass smoothing=0.01, which "
            "spreads a hundredth of every topic over all words"
        )


def perplexity(
    model: Any,
    X: Any,
    method: str = "left-to-right",
    *,
    particles: int = PARTICLES,
    runs: int = RUNS,
    moves: int = MOVES,
    observed: float = 0.5,
    smoothing: float = 0.0,
    random_state: int = 0,
) -> Perplexity:
    """Held-out perplexity of a topic model, ours or another library's.

    Parameters
    ----------
    model : LDA, PLSA, a multinomial Mixture; scikit-learn's LatentDirichletAllocation, gensim's LdaModel, tomotopy's LDAModel
        Or a pair (topic_word, alpha): p(word | topic) of shape (k, m), and α, a number or (k,). LDA is scored at its topics
        `topic_word_` and its prior, however it was fitted.
    X : `lemmata.text.Counts`, or a matrix of whole counts, documents in rows
        Of gensim's and tomotopy's models also documents as they take them. Documents that were not fitted to.
    method : "left-to-right", "completion" or "exact"
        p(w) by a particle filter: unbiased, so that ln p is low on average. p(w² | w¹), where w¹ is a random part of each
        document. p(w) by enumeration, for a few topics and short documents.
    particles, runs : int
        Particles of a filter; independent filters for each document, whose spread gives the standard error.
    moves : int
        Earlier words whose topics each particle draws again after each word.
    observed : float, default=0.5
        Completion: the share of each document that is read.
    smoothing : float, default=0.0
        The share of every topic that is spread evenly over all words first. Topics of maximum likelihood (pLSA, mixtures) have
        words of probability 0, and one of them in one document makes its perplexity infinite.
    random_state : int
        The order of words, the parts, and the particles. The first two do not depend on the model, so that models are compared
        on the same parts.

    Returns
    -------
    Perplexity : float(result) is the perplexity; standard_error, log_likelihoods of documents, tokens, …

    A multinomial mixture (one topic per document) is scored exactly. pLSA has mixtures of the documents it was fitted to and no
    distribution of others (CIL 3.2.4), so there is no p(w): its completion fits a mixture to w¹.
    """
    if method not in METHODS:
        raise ValueError(f"method={method!r}: pass one of {', '.join(map(repr, METHODS))}.")
    for name, value, least in (("particles", particles, 1), ("runs", runs, 2), ("moves", moves, 0)):
        if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
            raise ValueError(f"{name}={value!r}: pass a whole number >= {least}.")
    if not isinstance(observed, Real) or not 0 < observed < 1:
        raise ValueError(f"observed={observed!r}: pass a share between 0 and 1.")
    if not isinstance(smoothing, Real) or not 0 <= smoothing < 1:
        raise ValueError(f"smoothing={smoothing!r}: pass a share, 0 <= smoothing < 1.")
    if not isinstance(random_state, Integral) or random_state < 0:
        raise ValueError(f"random_state={random_state!r}: pass a whole number >= 0.")
    seed, share = int(random_state), float(observed)
    counts = counts_of(model, X)
    if _is_mixture(model):
        topics = spread(model.probabilities_, smoothing)
        return _by_classes(topics, model.weights_, counts, method, share, seed)
    found = topics_of(model)
    if found is None:
        return _by_mixtures(model, counts, method, share, seed, smoothing)
    phi, alpha = validate_topics(spread(found[0], smoothing), found[1])
    documents = Documents.of(counts, seed)
    if documents.n_words != phi.shape[1]:
        raise ValueError(
            f"the counts have {documents.n_words:,} words (columns), the topics {phi.shape[1]:,}."
        )
    if method == "exact":
        logs = enumerate_topics(documents, phi, alpha)
        return Perplexity(WHOLE, "exact", logs, np.zeros(len(logs)), documents.lengths)
    filters = {"particles": int(particles), "runs": int(runs), "moves": int(moves)}
    size = f"{runs} × {particles} particles"
    logs, variances = log_probabilities(documents, phi, alpha, seed=seed, **filters)
    if method == "left-to-right":
        return Perplexity(WHOLE, f"left-to-right, {size}", logs, variances, documents.lengths)
    first = prefix_lengths(documents, share)
    read = prefixes(documents, first)
    start, more = log_probabilities(read, phi, alpha, seed=seed + 1, **filters)
    left = documents.lengths - first
    name = f"completion, {size}"
    return Perplexity(COMPLETION, name, _rest(logs, start), variances + more, left, more)


def topics_of(model: Any) -> tuple[Any, Any] | None:
    """Return p(word | topic) and the prior of topics in a document; None where the model has topics but no prior."""
    if isinstance(model, tuple):
        if len(model) != 2:
            raise ValueError(f"a model as a tuple is (topic_word, alpha), not {len(model)} things.")
        return model
    found = lda_of(model) if library_of(model) else {}
    components = found.get("components_", getattr(model, "components_", None))
    alpha = found.get("doc_topic_prior_", getattr(model, "doc_topic_prior_", None))
    if components is None or alpha is None:
        return None
    components = np.asarray(components, np.float64)
    alpha = np.broadcast_to(np.asarray(alpha, np.float64), (len(components),))
    return components / components.sum(axis=1, keepdims=True), alpha


def _is_mixture(model: Any) -> bool:
    """One topic per document: a Mixture of ours, of multinomials."""
    family = getattr(model, "family_", None)
    name = getattr(family, "name", None)
    if name is None:
        return False
    if name != "multinomial":
        raise TypeError(
            f'a mixture of family "{name}" is no model of words; fit Mixture(k, family="multinomial").'
        )
    return True


def spread(topics: Any, share: float) -> np.ndarray:
    """p(word | topic) with a share of it spread evenly over all words."""
    topics = np.asarray(topics, np.float64)
    return (
        topics if share == 0 or topics.ndim != 2 else (1 - share) * topics + share / topics.shape[1]
    )


def _by_mixtures(
    model: Any, counts: Any, method: str, observed: float, seed: int, smoothing: float
) -> Perplexity:
    if not hasattr(model, "topic_word_") or not hasattr(model, "transform"):
        raise TypeError(
            f"a {type(model).__module__}.{type(model).__name__} states no topics that are known here; pass a topic model, "
            "or a pair (topic_word, alpha)."
        )
    if method != "completion":
        raise ValueError(
            f"{type(model).__name__} has mixtures of the documents it was fitted to and no distribution of others, so a new "
            'document has no probability; pass method="completion", which fits a mixture to a part of it.'
        )
    phi, _ = validate_topics(spread(model.topic_word_, smoothing), 1.0)
    documents = Documents.of(counts, seed)
    first = prefix_lengths(documents, observed)
    begun = counts_in(prefixes(documents, first))
    nameless = copy(model)  # the parts are bare numbers, in the order of its words
    if hasattr(nameless, "feature_names_in_"):
        del nameless.feature_names_in_
    theta = np.asarray(nameless.transform(begun), np.float64)
    rest = sp.csr_array(counts_in(documents) - begun)
    rest.eliminate_zeros()
    owner = np.repeat(np.arange(len(documents)), np.diff(rest.indptr))
    p = np.einsum("ij,ji->i", theta[owner], phi[:, rest.indices])
    with np.errstate(divide="ignore"):
        logs = np.bincount(owner, rest.data * np.log(p), minlength=len(documents))
    name, left = "completion at fitted mixtures", documents.lengths - first
    return Perplexity(COMPLETION, name, logs, np.zeros(len(documents)), left)


def _by_classes(
    class_word: Any, weights: Any, counts: Any, method: str, observed: float, seed: int
) -> Perplexity:
    """Score a model with one topic per document: p(w) = Σ_c π_c Π_t φ_{c w_t}, a sum of k terms, so nothing is estimated."""
    phi, _ = validate_topics(class_word, 1.0)
    weights = np.asarray(weights, np.float64)
    documents = Documents.of(counts, seed)

    def logs_of(N: Any) -> Array:
        with np.errstate(divide="ignore", invalid="ignore"):
            impossible = N @ (phi <= 0).T.astype(np.float64) > 0
            sums = N @ np.where(phi > 0, np.log(phi), 0.0).T
            return logsumexp(np.where(impossible, -np.inf, sums) + np.log(weights), axis=1)

    whole, none = logs_of(counts_in(documents)), np.zeros(len(documents))
    if method != "completion":
        return Perplexity(WHOLE, "exact", whole, none, documents.lengths)
    first = prefix_lengths(documents, observed)
    rest = _rest(whole, logs_of(counts_in(prefixes(documents, first))))
    return Perplexity(COMPLETION, "completion, exact", rest, none, documents.lengths - first)


# --- completion -------------------------------------------------------------------------------------------------------


def prefix_lengths(documents: Documents, share: float) -> Array:
    """Number of words that come first where a share of each document is read: at least one stays unread."""
    lengths = documents.lengths
    return np.minimum(np.ceil(share * lengths), np.maximum(lengths - 1, 0)).astype(np.int64)


def prefixes(documents: Documents, lengths: Array) -> Documents:
    """The first so many words of each document."""
    place = np.arange(len(documents.words)) - np.repeat(documents.starts[:-1], documents.lengths)
    kept = place < np.repeat(lengths, documents.lengths)
    starts = np.concatenate([[0], np.cumsum(lengths)])
    return Documents(documents.words[kept], starts, documents.n_words)


def counts_in(documents: Documents) -> Any:
    """Counts of the words of each document, (n, m), CSR."""
    owner = np.repeat(np.arange(len(documents)), documents.lengths)
    at, ones = (owner, documents.words), np.ones(len(owner))
    return sp.csr_array(sp.coo_array((ones, at), shape=(len(documents), documents.n_words)))


def _rest(whole: Array, start: Array) -> Array:
    """ln p(w² | w¹); a word of the first part that no topic knows leaves nothing to condition on."""
    return np.where(np.isfinite(start), whole - np.where(np.isfinite(start), start, 0), -np.inf)


def unigram(X: Any) -> tuple[np.ndarray, np.ndarray]:
    """The model without topics, as a pair for `perplexity`: what any topic model has to beat.

    X : Counts or matrix of counts, the documents that the others were fitted to. Every word gets the pseudo-count under which
    each token of X is likeliest given all the others.
    """
    return unigram_topic(counts_of(None, X))[None], np.ones(1)
