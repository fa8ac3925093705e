"""Heads on BERT that look at words: a label for each, and the span of words that answers a question.

    TokenClassifier    W z_t + b at the first token of every word
    SpanFinder         wᵀz_t of first and last tokens                   "[CLS] question [SEP] text [SEP]"

>>> import itertools
>>> words = ("she", "he", "it"), ("sees", "hears", "likes"), ("me", "us", "you")
>>> texts = [" ".join(one) for one in itertools.product(*words)] * 3
>>> settings = {"width": 16, "depth": 1, "heads": 2, "context": 12, "max_iter": 20, "learning_rate": 0.01, "random_state": 0}
>>> tags = TokenClassifier(**settings).fit(texts, [["pronoun", "verb", "pronoun"]] * len(texts))
>>> tags.predict(["he likes us"])[0].tolist()
['pronoun', 'verb', 'pronoun']
>>> finder = SpanFinder(**settings).fit([("who", text) for text in texts], [(0, text.index(" ")) for text in texts])
>>> finder.answers([("who", "he sees you")])
['he']
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from lemmata.audit.language.heads import SPAN_CLAIMS, TOKEN_CLAIMS
from lemmata.core import common
from lemmata.core.parameters import COUNT, KW_ONLY, choice, parameter
from lemmata.core.supervised import encode
from lemmata.language.base import TextNetwork
from lemmata.language.heads import IGNORED, PRETRAINED, TEST_ROWS, TOKENS, TextHead, TextRow
from lemmata.language.tokens import UNK, TokenCoder
from lemmata.text.reading import as_documents

Array = np.ndarray


def place_words(coder: TokenCoder, words: Sequence[str], at: int) -> tuple[Array, Array, Array]:
    """The tokens of words, a space between them, and the first and last place of each, counted from `at`."""
    parts, first, last = [], [], []
    for number, word in enumerate(words):
        space = " " if number and coder.restores else ""
        tokens = coder.encode(space + word)
        parts.append(tokens if len(tokens) else np.array([UNK]))
        first.append(at)
        at += len(parts[-1])
        last.append(at - 1)
    joint = np.concatenate(parts) if parts else np.empty(0, np.int64)
    return joint, np.array(first, np.int64), np.array(last, np.int64)


class TokenClassifier(TextHead, TextNetwork):
    """A label for each word of a text, by a transformer that reads it from both sides.

    Minimises the mean of −ln P(label | text) over words.

    Attributes
    ----------
    module_ : HeadNet
    tokens_ : Characters, Words or BytePairs, with the vocabulary of the fit or of `pretrained`
    classes_ : (c,)
    loss_ : float
        Nats per word; of the first 2,000 texts that were trained on.
    test_loss_, test_score_ : float
        Of the texts that were kept from training, where there are any: nats per word, and accuracy.
    n_features_in_ : the number of different tokens
    history_, n_iter_, trace_, stopped_, certificate_
    """

    pretrained: Any = PRETRAINED
    tokens: Any = TOKENS
    _: KW_ONLY
    test_fraction: float = TEST_ROWS
    batch_size: Any = parameter("auto", COUNT, choice("auto")).doc('Texts in an update; "auto" is 32.')  # fmt: skip
    max_iter: int = common.max_iter(5).doc("Epochs: times that the texts are read.")

    reads = "tokens"
    claims = TOKEN_CLAIMS
    stored: ClassVar[Mapping[str, str | type]] = {
        **TextNetwork.stored,
        "classes_": "c labels",
        "test_score_?": "",
    }

    def _read_texts(self, X: Any) -> list[list[str]]:
        if isinstance(X, (list, tuple)) and X and isinstance(X[0], (list, tuple)):
            for number, words in enumerate(X):
                if not isinstance(words, (list, tuple)) or not all(isinstance(word, str) for word in words):  # fmt: skip
                    raise TypeError(f"text {number} is no list of words, as the first one is.")
            return [list(words) for words in X]
        return [text.split() for text in as_documents(X)]

    def _plain_texts(self, texts: list[Any]) -> Iterator[str]:
        yield from (" ".join(words) for words in texts)

    def _row(self, text: list[str]) -> TextRow:
        joint, first, last = place_words(self.tokens_, text, 1)
        return TextRow(joint, None, first, last)

    def _labels(self, y: Any, texts: list[Any], rows: list[TextRow], reset: bool, width: int) -> Array:  # fmt: skip
        if len(y) != len(texts):
            raise ValueError(f"{len(texts):,} texts and labels of {len(y):,}; pass as many.")
        for number, (words, labels) in enumerate(zip(texts, y, strict=True)):
            if len(words) != len(labels):
                raise ValueError(
                    f"text {number} has {len(words)} words and {len(labels)} labels; pass one for each."
                )
        joint = np.array([label for labels in y for label in labels])
        if reset:
            self.classes_ = np.unique(joint)
            if len(self.classes_) < 2:
                raise ValueError(f"y holds one class only, {self.classes_.tolist()}; pass two labels and more.")  # fmt: skip
        places, found, at = encode(joint, self.classes_), np.full((len(texts), width), IGNORED, np.int64), 0  # fmt: skip
        for row, reading in enumerate(rows):
            found[row, reading.first] = places[at : at + len(reading.first)]
            at += len(reading.first)
        return found

    def predict(self, X) -> list[Array]:
        """For every text, the most probable label of each word."""
        check_is_fitted(self)
        data, _, rows = self._tokenise(X)
        found = zip(self._run(data), rows, strict=True)
        return [self.classes_[scores[row.first].argmax(axis=1)] for scores, row in found]

    def score(self, X, y) -> float:
        """The share of words with the right label."""
        return float(np.mean(np.concatenate(self.predict(X)) == np.concatenate([np.array(one) for one in y])))  # fmt: skip


class SpanFinder(TextHead, TextNetwork):
    """Where in a text the answer to a question stands, by a transformer that reads both.

    Minimises the mean of −ln P(first word) and −ln P(last word), each among all places of the text.

    Attributes
    ----------
    module_ : HeadNet
    tokens_ : Characters, Words or BytePairs, with the vocabulary of the fit or of `pretrained`
    loss_ : float
        Nats per end of a span; of the first 2,000 texts that were trained on.
    test_loss_, test_score_ : float
        Of the texts that were kept from training, where there are any: nats per end, and the share of ends that are right.
    n_features_in_ : the number of different tokens
    history_, n_iter_, trace_, stopped_, certificate_
    """

    pretrained: Any = PRETRAINED
    tokens: Any = TOKENS
    _: KW_ONLY
    test_fraction: float = TEST_ROWS
    batch_size: Any = parameter("auto", COUNT, choice("auto")).doc('Texts in an update; "auto" is 32.')  # fmt: skip
    max_iter: int = common.max_iter(10).doc("Epochs: times that the texts are read.")

    reads = "span"
    claims = SPAN_CLAIMS
    stored: ClassVar[Mapping[str, str | type]] = {**TextNetwork.stored, "test_score_?": ""}

    def _n_outputs(self) -> int:
        return 2

    def _read_texts(self, X: Any) -> list[tuple[str, str]]:
        pairs = list(X)
        for number, one in enumerate(pairs):
            pair = isinstance(one, (tuple, list)) and len(one) == 2
            if not pair or not all(isinstance(part, str) for part in one):
                raise TypeError(f"X[{number}] is no pair (question, text) of texts.")
            if not one[1].split():
                raise ValueError(f"X[{number}]: the text holds no word.")
        return [tuple(one) for one in pairs]

    def _row(self, text: tuple[str, str]) -> TextRow:
        a = self.tokens_.encode(text[0])
        b, first, last = place_words(self.tokens_, text[1].split(), len(a) + 2)
        return TextRow(a, b, first, last)

    def _labels(self, y: Any, texts: list[Any], rows: list[TextRow], reset: bool, width: int) -> Array:  # fmt: skip
        spans = np.asarray(y)
        if spans.shape != (len(texts), 2) or spans.dtype.kind not in "iu":
            raise ValueError(
                f"y has the shape {spans.shape} of {spans.dtype}; pass (start, stop) in characters for each of the "
                f"{len(texts):,} texts."
            )
        found = np.empty((len(texts), 2), np.int64)
        for row, ((_, text), (start, stop)) in enumerate(zip(texts, spans, strict=True)):
            words = word_spans(text)
            inside = np.flatnonzero((words[:, 0] < stop) & (words[:, 1] > start))
            if not 0 <= start < stop <= len(text) or not len(inside):
                raise ValueError(
                    f"y[{row}] is ({start}, {stop}), of a text of {len(text)} characters: no word stands there."
                )
            found[row] = rows[row].first[inside[0]], rows[row].last[inside[-1]]
        return found

    def predict(self, X) -> Array:
        """(n, 2): start and stop of the likeliest span of words, in characters of the text."""
        check_is_fitted(self)
        data, texts, rows = self._tokenise(X)
        found = np.empty((len(texts), 2), np.int64)
        for at, (scores, row, (_, text)) in enumerate(zip(self._run(data), rows, texts, strict=True)):  # fmt: skip
            total = np.triu(scores[0, row.first][:, None] + scores[1, row.last])
            total[np.tril_indices(len(total), -1)] = -np.inf
            begin, end = np.unravel_index(total.argmax(), total.shape)
            words = word_spans(text)
            found[at] = words[begin, 0], words[end, 1]
        return found

    def answers(self, X) -> list[str]:
        """The likeliest spans as texts."""
        X = list(X)
        return [text[start:stop] for (_, text), (start, stop) in zip(X, self.predict(X), strict=True)]  # fmt: skip

    def score(self, X, y) -> float:
        """The share of spans that are right, both ends."""
        return float((self.predict(X) == np.asarray(y)).all(axis=1).mean())


def word_spans(text: str) -> Array:
    """(words, 2): where the words of a text begin and end."""
    return np.array([one.span() for one in re.finditer(r"\S+", text)], np.int64).reshape(-1, 2)
