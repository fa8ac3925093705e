"""How well a topic model knows documents that it was not fitted to.

    perplexity = exp(−Σ_d ln p(w_d) / Σ_d T_d),        p(w) = ∫ Π_t (Σ_j θ_j φ_{j w_t}) p(θ | α) dθ                (CIL (3.35))

The integral has no formula. Libraries answer with a bound (scikit-learn, gensim: too high), or with the likelihood of topics
that were drawn for the training words (tomotopy). Here it is estimated without bias, with a standard error (`left-to-right`),
or summed up where model and documents are small (`exact`). How well a model goes on where half a document was read is another
quantity, p(w² | w¹), with a name of its own: `completion`.

    >>> import numpy as np
    >>> topics, alpha = np.array([[0.5, 0.5, 0.0], [0.0, 0.5, 0.5]]), np.array([0.1, 0.1])
    >>> perplexity((topics, alpha), np.array([[2, 1, 0], [0, 1, 2]]), method="exact")
    perplexity 2.594 of p(w) (exact; 2 documents, 6 words)
"""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np

from lemmata.audit.topics.estimates import (
    MOVES,
    PARTICLES,
    RUNS,
    HeldOut,
    held_out,
    held_out_by_classes,
    held_out_by_mixtures,
)
from lemmata.audit.topics.foreign import counts_of, topics_of
from lemmata.audit.topics.unigram import unigram_topic

METHODS = ("left-to-right", "completion", "exact")


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
) -> HeldOut:
    """Held-out perplexity of a topic model, ours or another library's.

    Parameters
    ----------
    model : LDA, PLSA, a multinomial Mixture; scikit-learn's LatentDirichletAllocation, gensim's LdaModel, tomotopy's LDAModel
        Or a pair (topic_word, alpha): p(word | topic) of shape (k, m), and α, a number or (k,). LDA is scored at its topics
        `topic_word_` and its prior, whoever fitted it and however.
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
    HeldOut : float(result) is the perplexity; standard_error, log_likelihoods of documents, tokens, …

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
        return held_out_by_classes(topics, model.weights_, counts, method, share, seed)
    found = topics_of(model)
    if found is None:
        return _by_mixtures(model, counts, method, share, seed, smoothing)
    return held_out(
        spread(found[0], smoothing), found[1], counts, method, particles=int(particles), runs=int(runs), moves=int(moves),
        observed=share, seed=seed,
    )  # fmt: skip


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
) -> HeldOut:
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
    known = dict(vars(model))

    def mixtures(begun: Any) -> np.ndarray:
        names = known.pop("feature_names_in_", None)
        if names is None:
            return model.transform(begun)
        from copy import copy

        nameless = copy(model)  # the parts are bare numbers, in the order of its words
        del nameless.feature_names_in_
        return nameless.transform(begun)

    topics = spread(model.topic_word_, smoothing)
    return held_out_by_mixtures(topics, mixtures, counts, observed, seed)


def unigram(X: Any) -> tuple[np.ndarray, np.ndarray]:
    """The model without topics, as a pair for `perplexity`: what any topic model has to beat.

    X : Counts or matrix of counts, the documents that the others were fitted to. Every word gets the pseudo-count under which
    each token of X is likeliest given all the others.
    """
    return unigram_topic(counts_of(None, X))[None], np.ones(1)
