"""Claims about held-out documents: a topic model beside the model without topics.

**What is compared.** With u the unigram of the training documents (unigram.py), the gain on a held-out document is

    D = ln p(w) − Σ_t ln u(w_t)                    held-out perplexity is below that of u just where E D > 0

Documents differ, one in a thousand may be lost by any amount, and no sample would show it: nothing can be said about E D unless
D is bounded. So it is capped at ±C, two nats for each token of a mean training document, and x = D/C ∈ [−1, 1].

**What is random.** The held-out documents, drawn independently of each other and of the training ones; and the filters that
estimate ln p(w). They are low on average (left_to_right.py), so a lower bound on the mean of what they say is one of E D,
however few particles they have. An upper bound is not: there, twice the estimated bias is added first.

**What follows.** Bets on x (kernel/held_out.py): with confidence 95 % E x exceeds every g against which a bettor got rich.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from lemmata.audit.kernel.claims import FAILS, Fit, at_least, statistical, unknown
from lemmata.audit.kernel.held_out import MeanGain, beats, mean_gain
from lemmata.audit.topics.documents import Documents, validate_topics, whole_counts
from lemmata.audit.topics.left_to_right import log_probabilities
from lemmata.audit.topics.plsa import topic_word
from lemmata.audit.topics.stated import word_totals
from lemmata.audit.topics.unigram import smooth
from lemmata.audit.trust.seen_rows import SEEN, Memory, judge_seen

Array = np.ndarray

RISK = 0.05
CAP = 2.0  # nats for each token of a mean training document
PARTICLES, RUNS = 10, 2
PER_TOKEN = 10.0 * PARTICLES * RUNS  # multiplications for each topic
SOME = 2.5e8  # multiplications that are spent at least: some 2,500 tokens of 500 topics, or 25,000 of 50
FEWEST = 10  # documents from which on there is something to compare


def _cost(fit: Fit) -> float:
    test = fit.get("X_test")
    if test is None:
        return 0.0
    return min(PER_TOKEN * len(fit.components_) * _tokens(test), SOME)


def _tokens(data: Any) -> float:
    return float(sum(rows.sum() for rows, _ in data))


def as_matrix(data: Any) -> Any:
    """Blocks of counts below each other, CSR."""
    return sp.csr_array(sp.vstack([sp.csr_array(rows) for rows, _ in data], format="csr"))


@statistical(
    "predicts documents like the held-out ones better than word frequencies do, gains capped",
    "CIL 3.2.4; Wallach et al. 2009; Waudby-Smith & Ramdas 2024",
    cost=_cost,
    confidence=1 - RISK,
)
def beats_unigram(fit: Fit):
    """A bound on the mean gain D of a document, in nats."""
    if fit.get("X_test") is None:
        return unknown("pass held-out documents: certify(X, X_test=…)")
    train, test = as_matrix(fit.data), as_matrix(fit.X_test)
    try:
        train, test = whole_counts(train), whole_counts(test)
    except ValueError as error:
        return unknown(str(error))
    test = test[np.flatnonzero(np.diff(test.indptr))]  # documents without words say nothing
    if test.shape[0] < FEWEST:
        return unknown(f"{test.shape[0]} documents are too few to tell")
    if judge_seen(Memory(train, test, "the training documents", True)).verdict == FAILS:
        return unknown(SEEN.replace("rows", "documents"))
    return _compare(fit, train, _affordable(fit, test))


def _affordable(fit: Fit, test: Any) -> Any:
    """Return as many documents as there is work for, drawn at random."""
    order = np.random.default_rng(0).permutation(test.shape[0])
    work = PER_TOKEN * len(fit.components_) * np.asarray(test.sum(axis=1)).ravel()[order]
    much = np.searchsorted(np.cumsum(work), max(float(fit.work), SOME)) + 1
    return test[np.sort(order[: max(int(much), FEWEST)])]


def _compare(fit: Fit, train: Any, test: Any):
    u = smooth(word_totals(fit))
    phi, alpha = validate_topics(topic_word(fit), fit.doc_topic_prior_)
    logs, variances = log_probabilities(
        Documents.of(test), phi, alpha, particles=PARTICLES, runs=RUNS, moves=0, seed=0
    )
    of_unigram, tokens = test @ np.log(u), int(test.sum())
    gains = logs - of_unigram
    with np.errstate(over="ignore"):
        found, plain = (float(np.exp(-each.sum() / tokens)) for each in (logs, of_unigram))
    error = found * float(np.sqrt(variances.sum())) / tokens
    note = f"perplexity {found:.4g} ± {error:.1g} on {test.shape[0]:,} documents"
    note += f", {plain:.4g} of the unigram"
    advice = "the unigram does better: fit longer, or ask for fewer topics"
    if not np.isfinite(gains).all():
        lost = int((~np.isfinite(gains)).sum())
        note += f"; {lost:,} documents have a word that no topic knows"
        return at_least(-np.inf, 0, "raise topic_word_prior above 0", "nats a document", note)
    length = float(train.sum()) / max(train.shape[0], 1)
    cap = CAP * max(length, 1.0)
    # ln p̂ is low by half its variance: twice that, for what may be wrong with the estimate of it
    least, most = (np.clip(each / cap, -1, 1) for each in (gains, gains + variances))
    bounds = MeanGain(mean_gain(least, RISK).lower, mean_gain(most, RISK).upper)
    mean = float(gains.mean())
    return beats(bounds, note, advice, scale=cap, unit="nats a document,", uncapped=mean)
