"""Held-out perplexity of a topic model, from the probability of each document, with what it cost to be unsure.

    perplexity = exp(−Σ_d ln p(w_d) / Σ_d T_d)              p(w_d): of the T_d words of document d one after the other

Two quantities have that name; they are not comparable, and a result says which it is:

    p(w)        how well the model knows documents of which it has seen nothing
    p(w² | w¹)  completion: how well it goes on where it has read a part, = p(w¹, w²)/p(w¹)

`runs` filters per document give p̂_1 … p̂_S; the estimate is ln of their mean. The variance of ln p̂ among them says how far it
may be off: √(Σ_d σ_d²/S) nats by chance, and Σ_d σ_d²/2S too low on average (Jensen), both stated. Of a quotient both parts are
low, which cancels in part.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.special import logsumexp

from lemmata.audit.topics.documents import Documents, checked_topics
from lemmata.audit.topics.enumeration import enumerated
from lemmata.audit.topics.left_to_right import left_to_right

Array = np.ndarray

WHOLE, COMPLETION = "p(w)", "p(w² | w¹)"
PARTICLES, RUNS, MOVES = 20, 3, 0


@dataclass(frozen=True)
class HeldOut:
    """What a model gives to documents. `float(result)` is the perplexity."""

    quantity: str  # p(w) or p(w² | w¹)
    method: str
    log_likelihoods: Array  # nats of each document, (n,)
    variances: Array  # of these estimates, (n,); 0 where nothing is estimated
    tokens: Array  # words that the logarithms are of, (n,)
    first: Array | float = (
        0.0  # what of the variances is that of p(w¹), whose logarithm is subtracted
    )

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
        """Of the perplexity, by chance of the estimate alone: the documents are those that they are."""
        return self.perplexity * float(np.sqrt(self.variances.sum())) / max(self.n_tokens, 1)

    @property
    def bias(self) -> float:
        """By how much the perplexity is too high on average, roughly: each ln p̂ is low by half its variance."""
        low = float((self.variances - 2 * np.asarray(self.first)).sum()) / 2
        return self.perplexity * low / max(self.n_tokens, 1)

    def __float__(self) -> float:
        return self.perplexity

    def __repr__(self) -> str:
        unsure = f" ± {self.standard_error:.2g}" if self.variances.any() else ""
        return (
            f"perplexity {self.perplexity:.5g}{unsure} of {self.quantity} ({self.method}; {len(self.tokens):,} documents, "
            f"{self.n_tokens:,} words)"
        )


def averaged(logs: Array) -> tuple[Array, Array]:
    """ln of the mean of p̂ over runs, and the variance of that logarithm; of (n, runs)."""
    runs = logs.shape[1]
    possible = np.isfinite(logs).all(axis=1)
    mean = np.where(possible, logsumexp(np.where(possible[:, None], logs, 0.0), axis=1), -np.inf)
    spread = np.where(possible[:, None], logs, 0.0).var(axis=1, ddof=1) if runs > 1 else np.nan
    return mean - np.log(runs), np.broadcast_to(spread / runs, len(logs)).copy()


def held_out(
    topic_word: Any,
    alpha: Any,
    counts: Any,
    method: str = "left-to-right",
    *,
    particles: int = PARTICLES,
    runs: int = RUNS,
    moves: int = MOVES,
    observed: float = 0.5,
    seed: int = 0,
) -> HeldOut:
    """The probability of documents under LDA: topics p(word | topic) (k, m) and the prior α of their mixtures."""
    phi, alpha = checked_topics(topic_word, alpha)
    documents = Documents.of(counts, seed)
    if documents.n_words != phi.shape[1]:
        raise ValueError(
            f"the counts have {documents.n_words:,} words (columns), the topics {phi.shape[1]:,}."
        )
    if method == "exact":
        logs = enumerated(documents, phi, alpha)
        return HeldOut(WHOLE, "exact", logs, np.zeros(len(logs)), documents.lengths)

    def filtered(read: Documents, seed: int) -> tuple[Array, Array]:
        if len(phi) == 1:  # nothing is to be guessed
            logs = enumerated(read, phi, alpha)
            return logs, np.zeros(len(logs))
        found = left_to_right(
            read, phi, alpha, particles=particles, runs=runs, moves=moves, seed=seed
        )
        return averaged(found)

    told = f"{runs} × {particles} particles"
    whole, variance = filtered(documents, seed)
    if method == "left-to-right":
        return HeldOut(WHOLE, f"left-to-right, {told}", whole, variance, documents.lengths)
    first = documents.prefix_lengths(observed)
    start, more = filtered(documents.first(first), seed + 1)
    # a word of the first part that no topic knows leaves nothing to condition on
    logs = np.where(np.isfinite(start), whole - np.where(np.isfinite(start), start, 0), -np.inf)
    read = documents.lengths - first
    return HeldOut(COMPLETION, f"completion, {told}", logs, variance + more, read, more)


def held_out_by_mixtures(
    topic_word: Any, mixtures: Any, counts: Any, observed: float = 0.5, seed: int = 0
) -> HeldOut:
    """Completion by a model that has no prior: mixtures(w¹) gives θ of the first parts, and p(w² | w¹) = Π_t Σ_c θ_c φ_cw."""
    phi, _ = checked_topics(topic_word, 1.0)
    documents = Documents.of(counts, seed)
    first = documents.prefix_lengths(observed)
    begun = documents.prefixes(first)
    theta = np.asarray(mixtures(begun), np.float64)
    rest = sp.csr_array(documents.prefixes(documents.lengths) - begun)
    rest.eliminate_zeros()
    owner = np.repeat(np.arange(len(documents)), np.diff(rest.indptr))
    p = np.einsum("ij,ji->i", theta[owner], phi[:, rest.indices])
    with np.errstate(divide="ignore"):
        logs = np.bincount(owner, rest.data * np.log(p), minlength=len(documents))
    none = np.zeros(len(documents))
    return HeldOut(
        COMPLETION, "completion at fitted mixtures", logs, none, documents.lengths - first
    )


def held_out_by_classes(
    class_word: Any,
    weights: Any,
    counts: Any,
    method: str = "exact",
    observed: float = 0.5,
    seed: int = 0,
) -> HeldOut:
    """One topic per document: p(w) = Σ_c π_c Π_t φ_{c w_t}, a sum of k terms, so nothing is estimated."""
    phi, _ = checked_topics(class_word, 1.0)
    weights = np.asarray(weights, np.float64)
    documents = Documents.of(counts, seed)

    def logs_of(N: Any) -> Array:
        with np.errstate(divide="ignore", invalid="ignore"):
            table = np.log(phi)
            impossible = N @ (phi <= 0).T.astype(np.float64) > 0
            sums = N @ np.where(phi > 0, table, 0.0).T
            return logsumexp(np.where(impossible, -np.inf, sums) + np.log(weights), axis=1)

    whole = logs_of(documents.prefixes(documents.lengths))
    none = np.zeros(len(documents))
    if method != "completion":
        return HeldOut(WHOLE, "exact", whole, none, documents.lengths)
    first = documents.prefix_lengths(observed)
    start = logs_of(documents.prefixes(first))
    logs = np.where(np.isfinite(start), whole - np.where(np.isfinite(start), start, 0), -np.inf)
    return HeldOut(COMPLETION, "completion, exact", logs, none, documents.lengths - first)
