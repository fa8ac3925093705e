"""Problems of models of words for the common suite: a small text of three topics, and one in which no word has a neighbour.

What skip-gram draws is made certain where its loss is to be written down: nothing is dropped, windows do not shrink, and the
noise has all its mass on word 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.special import logsumexp

from lemmata.core import Blocks
from lemmata.embedding import CoOccurrence
from lemmata.embedding.fasttext.descent import FastTextAlgorithm, Texts
from lemmata.embedding.pmi.matrix import information
from lemmata.embedding.sentences.training import SentenceAlgorithm, SentenceText
from lemmata.embedding.skipgram.algorithm import SkipGramAlgorithm
from lemmata.embedding.skipgram.contexts import WindowedText
from lemmata.embedding.skipgram.softmax import SoftmaxAlgorithm
from lemmata.linalg import RandomizedAlgorithm
from lemmata.reduction.covariance import Scatter
from lemmata.text import encode

K, EPOCHS, R, NEGATIVE = 4, 9, 2, 3


def sentences():
    rng = np.random.default_rng(3)
    return [[f"t{t}w{i}" for i in rng.integers(0, 5, 6)] for t in rng.integers(0, 3, 25)]


@dataclass(frozen=True)
class Compiled(WindowedText):
    """A text that kernels train, however short it is."""

    def compiles(self, *sizes):
        return True


def certain(dtype, kind=WindowedText):
    text = encode(sentences())
    counts = np.ones(len(text.vocabulary), np.int64)
    counts[0] = 10**9
    return kind(text, counts, R, sample=0.0, ns_exponent=10.0)


def drawn(dtype, kind=WindowedText):
    text = encode(sentences())
    return kind(text, text.vocabulary.counts, R, sample=0.05)


def lonely(kind=WindowedText):
    """Sentences of one word: there is nothing to learn from."""
    text = encode([[word] for one in sentences() for word in one])
    return kind(text, text.vocabulary.counts, R, sample=0.0)


def never_fell(solution):
    return not solution.trace.objective[-1] < solution.trace.objective[0]


# --- losses, by plain NumPy -------------------------------------------------------------------------------------------


def windows(data):
    """(word, the words around it) of every occurrence that has neighbours."""
    for ids in data.text.sentences():
        for s, w in enumerate(ids):
            around = [ids[t] for t in range(max(0, s - R), min(len(ids), s + R + 1)) if t != s]
            if around:
                yield w, around


def softplus(s):
    return np.logaddexp(0, s)


def parts(state):
    outputs = state.outputs if len(state.outputs) else state.vectors
    return (np.asarray(part, float) for part in (state.vectors, outputs, state.biases))


def skipgram_loss(state, data, share=lambda around: 1.0):
    X, Z, b = parts(state)
    total, pairs = 0.0, 0
    for w, around in windows(data):
        for v in around:
            noise = NEGATIVE * share(around) * softplus(X[w] @ Z[0] + b[0])
            total, pairs = total + softplus(-X[w] @ Z[v] - b[v]) + noise, pairs + 1
    return total / pairs


def cbow_loss(state, data):
    X, Z, b = parts(state)
    found = []
    for w, around in windows(data):
        x = X[around].mean(axis=0)
        found.append(softplus(-x @ Z[w] - b[w]) + NEGATIVE * softplus(x @ Z[0] + b[0]))
    return float(np.mean(found))


def softmax_loss(state, data):
    X, Z, b = parts(state)
    log_p = X @ Z.T + b
    log_p -= logsumexp(log_p, axis=1, keepdims=True)
    return -float(np.mean([log_p[w, v] for w, around in windows(data) for v in around]))


def measured_again(state, data):
    """What is drawn anew for the state's vectors alone: the number in a state is its own."""
    return negatives().at(state, data).loss


# --- sentences that predict words ---


def certain_sentences(dtype):
    text = encode(sentences())
    counts = np.ones(len(text.vocabulary), np.int64)
    counts[0] = 10**9
    return SentenceText(text, counts, sample=0.0, ns_exponent=10.0)


def lonely_sentences():
    """One word in a sentence, none in those around it."""
    text = encode([[] if i % 2 else [word] for i, word in enumerate("abcde" * 9)])
    return SentenceText(text, text.vocabulary.counts, sample=0.0)


def averaging(predict):
    return SentenceAlgorithm(K, EPOCHS, predict, NEGATIVE, 0.2)


def averaged_loss(shifts):
    """The loss of words that means predict: of their own sentence, or of sentences so far away."""

    def loss(state, data):
        X, Z = (np.asarray(part, float) for part in (state.vectors, state.outputs))
        texts, found = list(data.text.sentences()), []
        for s, ids in enumerate(texts):
            for other in (s + shift for shift in shifts):
                for t, w in enumerate(texts[other] if 0 <= other < len(texts) else ()):
                    h = np.mean([X[v] for i, v in enumerate(ids) if other != s or i != t], axis=0)
                    found.append(softplus(-h @ Z[w]) + NEGATIVE * softplus(h @ Z[0]))
        return float(np.mean(found))

    return loss


# --- texts to classes, and pairs --------------------------------------------------------------------------------------


def classes(dtype, value=1.0):
    rng = np.random.default_rng(4)
    X = (rng.random((30, 12)) < 0.3) * value
    y = np.arange(30) % 3
    data = Blocks.of(sp.csr_array(X.astype(np.float32)), rng.integers(1, 4, 30).astype(float))
    return Texts(data.with_targets(y), K, EPOCHS, 3)


def texts_loss(state, data):
    A, B, c = (np.asarray(part, float) for part in (state.A, state.B, state.c))
    z = data.X.toarray().astype(float) @ A @ B + c
    own = z[np.arange(len(z)), data.y]
    w = data.data.weights
    return float(w @ (logsumexp(z, axis=1) - own) / w.sum())


def pmi(dtype, scale=1.0):
    N = CoOccurrence.of(encode(sentences()), R, "linear").matrix
    M = information(N, exponent=0.75, dtype=dtype)
    return Scatter.implicit(Blocks.of(sp.csr_array(M * M.dtype.type(scale))), 20, centred=False)


def too_large():
    with np.errstate(over="ignore", invalid="ignore"):
        return pmi(np.float64, scale=1e170)


def captured(state, S):
    M, Q = (np.asarray(part, float) for part in (S.data.source.toarray(), state.Q[:, :K]))
    return -float(np.sum((M @ Q) ** 2))


# --- the problems -----------------------------------------------------------------------------------------------------


def negatives(**more):
    return SkipGramAlgorithm(K, EPOCHS, negative=NEGATIVE, alpha=0.2, deterministic=True, **more)


def exact(**more):
    return negatives(shrink=False, **more)


SINGLE = {"single": True, "says_so": never_fell}
TEXTS = [
    ("skip-gram", lambda: exact(biases=True), certain, lonely, skipgram_loss, {**SINGLE, "threaded": True}),
    (
        "skip-gram, one embedding, negatives once", lambda: exact(shared="occurrence", tied=True), certain, lonely,
        lambda state, data: skipgram_loss(state, data, lambda around: 1 / len(around)), SINGLE,
    ),
    ("CBOW", lambda: exact(sg=False, biases=True), certain, lonely, cbow_loss, SINGLE),
    ("skip-gram, drawn", negatives, drawn, lonely, measured_again, SINGLE),
    (
        "skip-gram, compiled", lambda: exact(biases=True), lambda dtype: certain(dtype, Compiled), lambda: lonely(Compiled),
        skipgram_loss, {**SINGLE, "threaded": True},
    ),
    (
        "skip-gram, compiled and drawn", negatives, lambda dtype: drawn(dtype, Compiled), lambda: lonely(Compiled),
        measured_again, {**SINGLE, "threaded": True},
    ),
    (
        "skip-gram, softmax", lambda: SoftmaxAlgorithm(K, shrink=False, biases=True), certain, lonely, softmax_loss,
        {"says_so": never_fell},
    ),
    ("means, of words", lambda: averaging("words"), certain_sentences, lonely_sentences, averaged_loss([0]), SINGLE),
    (
        "means, of neighbours", lambda: averaging("neighbours"), certain_sentences, lonely_sentences,
        averaged_loss([-1, 1]), SINGLE,
    ),
    (
        "texts to classes", lambda: FastTextAlgorithm(K, EPOCHS, 0.2, 8, False, 8), classes,
        lambda: classes(np.float64, np.inf), texts_loss, {"single": True},
    ),
    ("PMI", lambda: RandomizedAlgorithm(K, oversampling=2), pmi, too_large, captured, {"wide": ("values",), "threaded": True}),
]  # fmt: skip
