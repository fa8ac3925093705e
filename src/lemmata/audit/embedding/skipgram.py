"""Claims about word embeddings: what was counted is true of the text, training lowered its loss, and how far it went.

Negative sampling separates the N_wv pairs of a text from M_wv random ones, M_wv = r T_w q_v on average, T_w = N_w = Σ_v N_wv
where r are drawn for each pair, and q ∝ p^α. With scores s_wv = ⟨ζ_w, z_v⟩ + b_v the expected loss and its least value are

    L(s) = Σ_wv N_wv ln(1 + e^−s_wv) + M_wv ln(1 + e^s_wv)         L* = L(s*),   s*_wv = ln N_wv/M_wv              (CIL (3.53))
    L(s) − L* = Σ_wv (N_wv + M_wv) KL(p* ‖ σ(s_wv)),   p* = N_wv/(N_wv + M_wv)

Scores that depend on v alone reach L_v = L(ln Σ_w N_wv / Σ_w M_wv): the best that word frequencies alone can do. (CIL (3.54)
is s* with one negative for each pair; r of them shift it by ln r.) gensim leaves a negative out that is the word itself: there
M_wv = r q_v (N_w − N_wv). Of the exact softmax (3.46), L* is the conditional entropy of v and L_v the entropy of its
frequencies. Of noise contrastive estimation, s stands for ln p(v | w), and s − ln(r q_v) is what separates.

**Pairs.** N and T are averages over dropped words and drawn windows, exactly: nothing is sampled here. An occurrence s is kept
with probability k_s, independently of all others; windows reach over the words that are left. So s sees t if both are kept and
fewer than the reach of s are kept in between:

    E N_wv = Σ_(s,t) k_s k_t Σ_j P(j kept in between) g(j + 1),        w at s, v at t, in one sentence

g(Δ) = 1, or (R − Δ + 1)/R where reaches are drawn evenly from 1 … R. The number kept in between is a sum of independent 0s and
1s; one more word, kept with probability k, makes P'(j) = (1 − k)P(j) + k P(j − 1). With all k = 1 it is the distance, and N the
count in windows. Where fewer than R are kept in between with probability below NEGLIGIBLE, a pair is left out.

    E T_w = Σ_s k_s (1 − Π_(t ≠ s) (1 − k_t))          occurrences of w that are kept and see another word
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.special import logsumexp, xlogy

from lemmata.audit.embedding.geometry import (
    dimensions_used,
    directions_spread,
    frequency_apart,
    nearest_words_determined,
)
from lemmata.audit.kernel import claims
from lemmata.audit.kernel.attributes import attributes_sound, discrepancy, statements_true

Array = np.ndarray
CORRELATED = 0.3
PAIRS, BELOW = (
    2**10,
    0.99,
)  # pairs that are drawn, and the share of the loss of frequencies that they may have
BLOCK = 2**21  # scores at a time
PER_SCORE = 25  # multiplications that a logarithm and an exponential cost
NEGLIGIBLE = 1e-12
AT_ONCE = 2**21  # numbers of P at a time
DENSE = 2**23  # pairs of words that are cheaper to add up in a table than to sort


def count_error(counts, text):
    """Words counted in the text beside what a model says; one that is off by one is off."""
    found = np.zeros(len(counts), np.int64)
    for ids, _ in text:
        found += np.bincount(ids, minlength=len(counts))
    return float(np.abs(found - np.asarray(counts)).max(initial=0)) * 2


def statement_errors(fit):
    """Counts; and the loss, measured on draws of the run, beside its trace."""
    found = {"counts_": count_error(fit.counts_, fit.data)}
    if fit.get("loss_") is None:
        return found
    if fit.trace is None or not len(fit.trace):
        return found | {"loss_": None}
    told = np.asarray(fit.trace.objective)
    nearest = told[np.abs(told - fit.loss_).argmin()]  # that of the state which was kept
    return found | {"loss_": discrepancy(fit.loss_, nearest, abs(nearest), 1e-6)}


@claims.rule_of_thumb("the loss fell in every epoch", "CIL 3.3.2", about="run")
def loss_fell(fit):
    """The largest rise from one epoch to the next, as a share of the largest loss; steps are noisy, so 1 % is let pass."""
    if len(fit.trace) < 2:
        return claims.unknown("no epoch was made")
    return claims.at_most(
        100 * fit.trace.largest_rise,
        1,
        "lower the learning rate (alpha, learning_rate), or train fewer epochs",
        unit="largest rise %",
    )


# --- pairs in windows -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ExpectedPairs:
    """N (v, v), symmetric; T (v,)."""

    N: Any
    T: Array


def expected_pairs(text: Any, keep: Array, window: int, shrink: bool) -> ExpectedPairs:
    """The averages over a text, an iterable of (ids, starts) of sentences."""
    v = len(keep)
    g = (window - np.arange(window)) / window if shrink else np.ones(window)
    sums, T = PairSums(v), np.zeros(v)
    for ids, starts in text:
        sentence = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
        ids = np.asarray(ids, np.int64)
        T += np.bincount(ids, visible(keep[ids], sentence), minlength=v)
        size = max(1, AT_ONCE // window)
        for first in range(0, len(ids), size):
            add_pairs(sums, ids, sentence, keep, g, np.arange(first, min(first + size, len(ids))))
    found = sums.matrix()
    return ExpectedPairs(sp.csr_array(found + found.T), T)


def add_pairs(sums: PairSums, ids: Array, sentence: Array, keep: Array, g: Array, s: Array) -> None:
    """The pairs (s, t) with t after s."""
    P = np.zeros((len(s), len(g)))  # P(j kept in between), j < R
    P[:, 0] = 1
    t = s + 1
    while len(s):
        inside = t < len(ids)
        inside[inside] = sentence[t[inside]] == sentence[s[inside]]
        inside &= P.sum(axis=1) > NEGLIGIBLE
        s, t, P = s[inside], t[inside], P[inside]
        k = keep[ids[t]][:, None]
        sums.add(ids[s], ids[t], keep[ids[s]] * k[:, 0] * (P @ g))
        P[:, 1:] = (1 - k) * P[:, 1:] + k * P[:, :-1]
        P[:, :1] *= 1 - k
        t = t + 1


def visible(k: Array, sentence: Array) -> Array:
    """k_s (1 − Π (1 − k_t)) of every occurrence, the product over the others of its sentence."""
    if not len(k):
        return np.zeros(0)
    sure = k >= 1
    logs = np.log1p(-np.where(sure, 0.0, k))  # a word that is always kept makes the product 0
    certain, rest = np.bincount(sentence, sure), np.bincount(sentence, logs)
    others = np.where(certain[sentence] - sure > 0, 0.0, np.exp(rest[sentence] - logs))
    return k * (1 - others)


class PairSums:
    """Values added up by pair: in a table where that is small, else sorted from time to time."""

    def __init__(self, v: int):
        self.v = v
        self.table = np.zeros(v * v) if v * v <= DENSE else None
        self.waiting: list[tuple[Array, Array]] = []
        self.found: Any = sp.csr_array((v, v))

    def add(self, rows: Array, columns: Array, values: Array) -> None:
        keys = rows * self.v + columns
        if self.table is not None:
            self.table += np.bincount(keys, values, minlength=self.v**2)
            return
        self.waiting.append((keys, values))
        if sum(len(keys) for keys, _ in self.waiting) > DENSE:
            self._sort()

    def _sort(self) -> None:
        keys, values = map(np.concatenate, zip(*self.waiting, strict=True))
        more = sp.coo_array((values, np.divmod(keys, self.v)), shape=(self.v, self.v))
        self.found, self.waiting = self.found + more.tocsr(), []

    def matrix(self) -> Any:
        if self.table is not None:
            return sp.csr_array(self.table.reshape(self.v, self.v))
        if self.waiting:
            self._sort()
        return self.found


# --- the losses they have ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Losses:
    """Losses of all pairs together, and how the scores of those that occur compare with the best ones."""

    model: float  # L(s)
    frequencies: float  # L_v
    least: float  # L*
    pairs: float  # ΣN
    correlation: float  # of s and s*, every pair as often as it occurs


def keep_probabilities(fit: claims.Fit) -> Array:
    """The probability that an occurrence of each word is kept: min{1, √(t/f) + t/f}; the exact softmax takes all."""
    known = fit.get("keep_")
    if known is not None:
        return np.asarray(known, np.float64)
    counts = np.maximum(np.asarray(fit.counts_, np.float64), 1)
    if fit.get("objective") == "softmax" or not fit.sample > 0:
        return np.ones(len(counts))
    ratio = float(fit.sample) * float(np.sum(fit.counts_)) / counts
    return np.minimum(1.0, np.sqrt(ratio) + ratio)


def _cost(fit: claims.Fit) -> float:
    """The cost of all scores, and of pairs out to where some R kept words are in between."""
    (v, k), R = np.shape(fit.embedding_), int(fit.window)
    counts = np.asarray(fit.counts_, np.float64)
    kept = float(counts @ keep_probabilities(fit)) / max(float(counts.sum()), 1.0)
    n = float(fit.data.n_tokens)
    farthest = min(2 * R / max(kept, 1e-6), n / max(fit.data.n_sentences, 1))
    return float(v) * v * (k + PER_SCORE) + n * farthest * (2 * R + PER_SCORE)


@claims.fact(cost=_cost)
def losses(fit: claims.Fit) -> Losses:
    """Return the losses of the model and of what it is compared with."""
    keep = keep_probabilities(fit)
    pairs = expected_pairs(fit.data, keep, int(fit.window), bool(fit.shrink_windows))
    measure = _of_softmax if fit.get("objective") == "softmax" else _of_negatives
    return measure(fit, pairs)


def _scores(fit: claims.Fit):
    """Blocks of rows of s: their places, and the scores (rows, v)."""
    X, Z = (np.asarray(part, np.float64) for part in (fit.embedding_, fit.context_embedding_))
    b = np.asarray(fit.get("biases_", 0.0), np.float64)
    size = max(1, BLOCK // max(len(Z), 1))
    for first in range(0, len(X), size):
        rows = slice(first, min(first + size, len(X)))
        yield rows, X[rows] @ Z.T + b


def _of_negatives(fit: claims.Fit, pairs: ExpectedPairs) -> Losses:
    N, r = pairs.N, float(fit.negative)
    of_word, of_context = (np.asarray(N.sum(axis=axis)).ravel() for axis in (1, 0))
    T = pairs.T if fit.get("negatives_per") == "occurrence" else of_word
    weights = np.asarray(fit.counts_, np.float64)
    q = np.where(weights > 0, np.maximum(weights, 1) ** float(fit.ns_exponent), 0.0)
    q /= q.sum()
    # a negative is never the word itself
    apart = 1.0 if fit.get("negatives_differ_", False) else 0.0
    rows = np.repeat(np.arange(N.shape[0]), np.diff(N.indptr))
    M = r * q[N.indices] * np.maximum(T[rows] - apart * N.data, 0.0)
    s, total = np.empty(N.nnz), 0.0
    odds = log_odds(fit, r * q)
    for at, S in _scores(fit):
        S = S - odds
        places = slice(N.indptr[at.start], N.indptr[at.stop])
        s[places] = S[rows[places] - at.start, N.indices[places]]
        total += r * float(T[at] @ (softplus(S) @ q))
    total += float(N.data @ softplus(-s))
    total -= apart * r * float((q[N.indices] * N.data) @ softplus(s))
    alone = _binary(of_context, r * q * (T.sum() - apart * of_context))
    best = _logs(N.data) - _logs(M)
    known = (claims.rounding(float, 1) * N.data < M) & (N.data > 0)
    correlation = _correlation(s[known], best[known], N.data[known])
    return Losses(total, alone, _binary(N.data, M), float(N.data.sum()), correlation)


def log_odds(fit: claims.Fit, noise: Array) -> Array | float:
    """ln(r q_v) where scores are log-probabilities; 0 where they are those of the classifier."""
    return _logs(noise) if fit.get("objective") == "nce" else 0.0


def _of_softmax(fit: claims.Fit, pairs: ExpectedPairs) -> Losses:
    N = pairs.N
    of_word, of_context = (np.asarray(N.sum(axis=axis)).ravel() for axis in (1, 0))
    rows = np.repeat(np.arange(N.shape[0]), np.diff(N.indptr))
    s = np.empty(N.nnz)
    for at, S in _scores(fit):
        places = slice(N.indptr[at.start], N.indptr[at.stop])
        here = rows[places] - at.start
        s[places] = S[here, N.indices[places]] - logsumexp(S, axis=1)[here]
    best = _logs(N.data) - _logs(of_word[rows])
    total = float(N.data.sum())
    entropy = float(xlogy(total, total) - xlogy(of_context, of_context).sum())
    correlation = _correlation(s, best, N.data)
    return Losses(-float(N.data @ s), entropy, -float(N.data @ best), total, correlation)


def softplus(s: Array) -> Array:
    """ln(1 + eˢ)"""
    return np.maximum(s, 0) + np.log1p(np.exp(-np.abs(s)))


def _binary(N: Array, M: Array) -> float:
    """The least of Σ N ln(1 + e^−s) + M ln(1 + e^s), each term with its own s."""
    N, M = np.maximum(N, 0), np.maximum(M, 0)
    return float((xlogy(N + M, N + M) - xlogy(N, N) - xlogy(M, M)).sum())


def _logs(x: Array) -> Array:
    return np.log(np.maximum(x, np.finfo(np.float64).tiny))


def _correlation(x: Array, y: Array, w: Array) -> float:
    """Pearson's, of weighted pairs of numbers; 0 where one of them does not vary."""
    if not len(w) or not w.sum() > 0:
        return 0.0
    w = w / w.sum()
    a, b = x - w @ x, y - w @ y
    scale = np.sqrt((w @ a**2) * (w @ b**2))
    small = claims.rounding(float, len(w)) * np.sqrt((w @ x**2) * (w @ y**2))
    return float(w @ (a * b) / scale) if scale > small else 0.0


# --- claims -----------------------------------------------------------------------------------------------------------


@claims.proved(
    "the expected loss is below the least that scores of the predicted word alone can have",
    "CIL (3.53)",
    needs=(losses,),
)
def beats_frequencies(fit):
    """(L(s) − L*) / (L_v − L*): 0 at the optimum of all functions, 1 for the best scores that do not look at w."""
    if not fit.get("sg", True):
        return claims.unknown("CBOW predicts from means of windows: its loss is no sum over pairs")
    found = losses(fit)
    least, gap = found.least, found.frequencies - found.least
    if not gap > claims.rounding(float, fit.data.n_tokens) * abs(found.frequencies):
        return claims.unknown("in this text frequencies alone say which words stand together")
    each = [one / found.pairs for one in (found.model, found.frequencies, least)]
    note = "a pair: {:.4g}; of frequencies {:.4g}; least of all functions {:.4g}".format(*each)
    advice = "train more epochs, or raise alpha: nothing about pairs was learned"
    if fit.get("tied", False) and not fit.get("biases", False):
        advice = "⟨z_w, z_w⟩ is never below 0: pass biases=True, or tied=False"
    return claims.at_most(
        (found.model - least) / gap, 1, advice, unit="excess / that of frequencies", note=note
    )


def drawn_pairs(fit: claims.Fit, keep: Array) -> tuple[Array, Array]:
    """Draw some PAIRS words w and v that training may take as a pair: of kept words, by their distance, in one sentence."""
    R, rng, found = int(fit.window), np.random.default_rng(0), []
    step = max(1, int(np.asarray(fit.counts_, np.float64) @ keep / PAIRS))
    near = np.arange(R, 0, -1.0) if fit.shrink_windows else np.ones(R)
    for ids, starts in fit.data:
        kept = rng.random(len(ids)) < keep[ids]
        words = np.asarray(ids, np.int64)[kept]
        sentence = np.repeat(np.arange(len(starts) - 1), np.diff(starts))[kept]
        at = np.arange(int(rng.integers(step)), len(words), step)
        away = 1 + rng.choice(R, len(at), p=near / near.sum())
        other = at + away * rng.choice((-1, 1), len(at))
        at, other = (part[(other >= 0) & (other < len(words))] for part in (at, other))
        together = sentence[at] == sentence[other]
        found.append((words[at[together]], words[other[together]]))
    w, v = (np.concatenate(part) for part in zip(*found, strict=True))
    return w, v


def _cost_of_drawn(fit: claims.Fit) -> float:
    v, k = np.shape(fit.embedding_)
    return 20.0 * fit.data.n_tokens + PAIRS * v * (k / claims.PRODUCTS + 5)  # as measured


@claims.rule_of_thumb(
    "the expected loss of some 1,000 pairs of words is at least 1 % below what their frequencies alone reach",
    "CIL (3.53)",
    cost=_cost_of_drawn,
)
def pairs_learned(fit):
    """The mean of −ln σ(s_wv) + r Σ_u q_u ln(1 + e^s_wu), or of −ln softmax, over that of the best scores of v alone."""
    if not fit.get("sg", True):
        return claims.unknown("CBOW predicts from means of windows: it has no scores of pairs")
    softmax = fit.get("objective") == "softmax"
    if not softmax and fit.get("negatives_per") == "occurrence":
        return claims.unknown("several pairs share their negatives here")
    keep = keep_probabilities(fit)
    w, v = drawn_pairs(fit, keep)
    if not len(w):
        return claims.unknown("no two words stand together")
    X, Z = (np.asarray(part, np.float64) for part in (fit.embedding_, fit.context_embedding_))
    b, counts = np.asarray(fit.get("biases_", 0.0), np.float64), np.asarray(fit.counts_, np.float64)
    p, r = counts * keep / (counts @ keep), 0.0 if softmax else float(fit.negative)
    q = np.where(counts > 0, np.maximum(counts, 1) ** float(fit.get("ns_exponent", 1.0)), 0.0)
    q /= q.sum()
    apart = 1.0 if fit.get("negatives_differ_", False) else 0.0  # a negative is never v itself
    total, size = 0.0, max(1, BLOCK // len(Z))
    for first in range(0, len(w), size):
        mine, S = v[first : first + size], X[w[first : first + size]] @ Z.T + b
        S = S - log_odds(fit, r * q)
        own = S[np.arange(len(S)), mine]
        if softmax:
            total += float((logsumexp(S, axis=1) - own).sum())
        else:
            total += float(
                (softplus(-own) + r * (softplus(S) @ q - apart * q[mine] * softplus(own))).sum()
            )
    best = -float(xlogy(p, p).sum()) if softmax else _binary(p, r * q * (1 - apart * p))
    advice = "train more epochs, or raise alpha: little about pairs was learned"
    note = f"{len(w):,} pairs: {total / len(w):.4g}, frequencies {best:.4g}"
    share = total / len(w) / best if best > 0 else np.inf
    return claims.at_most(share, BELOW, advice, unit="share of the frequencies' loss", note=note)


@claims.rule_of_thumb(
    "scores follow the shifted information of pairs that occur: their correlation is at least 0.3",
    "CIL (3.53), (3.54)",
    needs=(losses,),
)
def follows_information(fit):
    """Pearson's correlation of s_wv and ln N_wv/M_wv over pairs that occur, each as often as it does on average."""
    if not fit.get("sg", True):
        return claims.unknown("CBOW predicts from means of windows: its scores are not of pairs")
    return claims.at_least(
        losses(fit).correlation,
        CORRELATED,
        "train more epochs, or raise vector_size",
        unit="correlation",
    )


VECTORS = "embedding_ context_embedding_"
SHAPES = {VECTORS: "d k", "biases_": "d", "counts_": "d int >=0 falling", "loss_": ">=0"}
SOUND = attributes_sound(SHAPES)
TRUE = statements_true(statement_errors, cost=claims.passes(1), unchecked=VECTORS)
SKIPGRAM_CLAIMS = (
    SOUND, TRUE, pairs_learned, beats_frequencies, loss_fell, directions_spread, dimensions_used,
)  # fmt: skip
# what `certify` checks besides
SKIPGRAM_MORE_CLAIMS = (follows_information, frequency_apart, nearest_words_determined)
# the context is a whole sentence, or a document with a vector of its own: such pairs are no pairs in windows
SENTENCE_CONTEXT_CLAIMS = (SOUND, TRUE, loss_fell)
SOUND_DOCUMENTS = attributes_sound({**SHAPES, "context_embedding_": "n k"})
DOCUMENT_CONTEXT_CLAIMS = (SOUND_DOCUMENTS, TRUE, loss_fell)
