"""Claims about topic models with a prior (LDA), and the probability of held-out documents.

left_to_right.py, mixtures.py     p(w) by a particle filter, and the guesses that it uses
documents.py, unigram.py          documents as their words one after the other; the model without topics
stated.py, runs.py, unseen.py     claims about what a fit states, its run, and new documents
foreign.py                        scikit-learn's, gensim's and tomotopy's models
plsa.py, nmf/                     claims about models without a prior

LDA_CLAIMS (Gibbs), LDA_BATCH_CLAIMS, LDA_ONLINE_CLAIMS    in the certificate of a fit; LDA_MORE_CLAIMS only in `certify`
"""

from __future__ import annotations

from lemmata.audit.kernel.claims import Fit, proved
from lemmata.audit.topics.plsa import (
    NATS_A_DOCUMENT,
    judge_mixtures,
    mixture_facts,
    topics_distinct,
    topics_supported,
)
from lemmata.audit.topics.runs import bound_never_fell, chains_agree
from lemmata.audit.topics.stated import SOUND, TRUE
from lemmata.audit.topics.unseen import beats_unigram


@proved(
    "with these topics and priors, no other mixtures gain more than 0.05 nats a token and 1 a document",
    "CIL 3.2.4; concavity in θ",
    needs=(mixture_facts,),
)
def documents_fitted(fit: Fit):
    """The gain is of ln p(w | θ) + Σ α ln θ, whose best θ is a mean of counts (mixtures.py)."""
    return judge_mixtures(fit, NATS_A_DOCUMENT)


_ALL = (SOUND, TRUE, documents_fitted, topics_supported, topics_distinct)
LDA_CLAIMS = (*_ALL[:3], chains_agree, *_ALL[3:])
LDA_BATCH_CLAIMS = (*_ALL[:3], bound_never_fell, *_ALL[3:])
LDA_ONLINE_CLAIMS = (SOUND, TRUE, topics_supported, topics_distinct)
LDA_MORE_CLAIMS = (beats_unigram,)
LDA_FOREIGN_CLAIMS = (SOUND, TRUE, topics_supported, topics_distinct, beats_unigram)
