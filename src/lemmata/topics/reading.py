"""Reading topics: words, documents and texts through the eyes of a fitted topic model, whichever it is.

All of it follows from two things that every topic model has: `components_`, what each topic makes of each word, and
`transform`, what each document is made of. Rows of either need not be distributions (those of NMF are not): here they are
scaled to p(word | topic) and p(topic | document).

    >>> from lemmata import text, topics
    >>> counts = text.counts(["cat dog cat", "dog cat pet", "loss risk fit", "fit loss loss"])
    >>> model = topics.PLSA(2, random_state=0).fit(counts)
    >>> print(model.table(counts, n=2))
    topic  share  documents  npmi  words
        0   50 %          2  1.00  loss fit
        1   50 %          2  1.00  cat dog
    >>> print(model.show("Her cat eats dog food at a loss."))
    Her cat₁ eats dog₁ food at a loss₀.
    <BLANKLINE>
    ₁  67 %  cat dog pet
    ₀  33 %  loss fit risk
"""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from lemmata.text.counting import Counts
from lemmata.text.documents import are_texts
from lemmata.text.words import Tokenizer
from lemmata.topics.coherence import coherence, diversity
from lemmata.topics.colours import ColouredText, colour_text
from lemmata.topics.tables import SharedWords, TopicRow, TopicTable, shared_words

Array = np.ndarray


class DocumentShare(NamedTuple):
    """A document, and the share of it that belongs to the topic."""

    document: int
    share: float


def rows_to_one(rows: Array) -> Array:
    """Rows scaled to sum 1, in float64; uniform where there is nothing."""
    rows = np.asarray(rows, dtype=np.float64)
    totals = rows.sum(axis=1, keepdims=True)
    return np.where(totals > 0, rows / np.where(totals > 0, totals, 1), 1 / rows.shape[1])


class Readable:
    """Mixin for reading a topic model. `documents` are counts, a matrix over the same words, or texts."""

    components_: Array  # (k, m)
    feature_names_in_: Array
    tokenizer_: Tokenizer
    topic_tokens_: Array  # (k,): how many words each topic made, where a model says so

    def transform(self, X: Any) -> Array:
        raise TypeError(f"{type(self).__name__} does not say what documents are made of.")

    # --- words ---

    @property
    def topic_word_(self) -> Array:
        """p(word | topic), (n_components, n_words); of a topic that is 0 everywhere, 0."""
        totals = self.components_.sum(axis=1, keepdims=True)
        return self.components_ / np.where(totals > 0, totals, 1)

    def _words(self, vocabulary: Any = None) -> Array:
        check_is_fitted(self, "components_")
        if vocabulary is None:
            vocabulary = getattr(self, "feature_names_in_", None)
        if vocabulary is None:
            raise ValueError(
                "the model was fitted to numbers without words; fit it to lemmata.text.counts(documents), or pass "
                "vocabulary, the word of each column."
            )
        if isinstance(vocabulary, str):
            raise TypeError("vocabulary is one text; pass a list with the word of each column.")
        words = np.array(list(vocabulary), dtype=object)
        if len(words) != self.components_.shape[1]:
            raise ValueError(
                f"vocabulary has {len(words):,} words, the model {self.components_.shape[1]:,} columns."
            )
        return words

    def encode(self, documents: Any, vocabulary: Any = None) -> Counts:
        """Counts of the model's words in texts; other words are left out.

        The tokenizer is that of the counts fitted to; a model fitted to a bare matrix takes `Tokenizer()`.
        """
        words = self._words(vocabulary)
        known = Counts(
            sp.csr_array((0, len(words)), dtype=np.int64),
            words,
            getattr(self, "tokenizer_", Tokenizer()),
        )
        return known.encode(documents)

    def top_words(self, n: int = 10, vocabulary: Any = None) -> list[list[str]]:
        """The n most probable words of every topic, the likeliest first."""
        words, n = self._words(vocabulary), _whole(n, "n")
        order = np.argsort(-self.topic_word_, axis=1, kind="stable")[:, :n]
        return [words[one].tolist() for one in order]

    def words_in_several_topics(self, n: int = 10, vocabulary: Any = None) -> SharedWords:
        """Words among the n likeliest of two topics or more: one word, several meanings (CIL Table 3.1).

        First come words that are frequent in topics with otherwise different words.
        """
        tops = self.top_words(n, vocabulary)
        places = {word: place for place, word in enumerate(self._words(vocabulary).tolist())}
        return shared_words(tops, lambda topic, word: self.topic_word_[topic, places[word]])

    # --- documents ---

    def _shares(self, documents: Any = None) -> Array:
        """p(topic | document) of these documents, of those fitted to without any."""
        check_is_fitted(self, "components_")
        if documents is not None:
            return rows_to_one(self.transform(documents))
        theta = getattr(self, "doc_topic_", None)
        if theta is None:
            raise ValueError(
                f"this {type(self).__name__} keeps no mixtures of the documents it was fitted to; pass documents."
            )
        return rows_to_one(theta)

    def _lengths(self, documents: Any) -> Array:
        """Number of words of each document."""
        blocks = self._validate_rows(documents, reset=False)  # type: ignore[attr-defined]
        return np.concatenate([np.asarray(rows.sum(axis=1)).ravel() for rows, _ in blocks])

    def documents_of(
        self, topic: int, n: int = 10, documents: Any = None, by: str = "share"
    ) -> list[DocumentShare]:
        """The n documents with the largest share of a topic, their numbers first.

        Parameters
        ----------
        topic : int
        n : int, default=10
        documents : optional
            Other documents than those fitted to.
        by : {"share", "words"}
            "words": with the most words of the topic, which are long documents; needs `documents`.
        """
        theta = self._shares(documents)
        topic, n = _one_of(topic, theta.shape[1]), _whole(n, "n")
        if by not in ("share", "words"):
            raise ValueError(f"by={by!r}: documents are ordered by 'share' or by 'words'.")
        if by == "words" and documents is None:
            raise ValueError("by='words' needs to know how long documents are; pass documents.")
        score = theta[:, topic] * (self._lengths(documents) if by == "words" else 1.0)
        order = np.argsort(-score, kind="stable")[:n]
        return [DocumentShare(int(d), float(theta[d, topic])) for d in order]

    def show(self, document: str, vocabulary: Any = None) -> ColouredText:
        """A text with each known word in the colour of the topic that most probably made it, p(z | w, d) ∝ θ_dz φ_zw.

        Prints with the number of the topic below each word; in colour in a notebook and by `rich.print`.
        """
        if not isinstance(document, str):
            raise TypeError(
                f"show takes the text of one document, not a {type(document).__name__}."
            )
        words = self._words(vocabulary)
        counts = self.encode([document], words)
        theta = self._shares(counts if vocabulary is None else counts.matrix)[0]
        spans = getattr(self, "tokenizer_", Tokenizer()).spans(document)
        places = {word: place for place, word in enumerate(words.tolist())}
        known = [span for span in spans if span[0] in places]
        phi = self.topic_word_[:, [places[word] for word, _, _ in known]].T  # (tokens, k)
        return colour_text(
            document, known, rows_to_one(phi * theta), theta, self.top_words(3, words)
        )

    # --- how good they are ---

    def coherence(
        self, documents: Any, measure: str = "npmi", n: int = 10, *, window: int | None = None,
        vocabulary: Any = None,
    ) -> Array:  # fmt: skip
        """Coherence of the n likeliest words of each topic in documents (lemmata.topics.coherence), (n_components,).

        A matrix is one over the model's words; texts are read in windows of so many words in a row.
        """
        words = self._words(vocabulary)
        if not (isinstance(documents, Counts) or are_texts(documents)) and _is_matrix(documents):
            documents = Counts(sp.csr_array(documents), words)
        tokenizer = getattr(self, "tokenizer_", None)
        tops = self.top_words(max(n, 2), words)
        return coherence(tops, documents, measure, window=window, tokenizer=tokenizer)

    def diversity(self, n: int = 25, vocabulary: Any = None) -> float:
        """The share of different words among the n likeliest of all topics (Dieng et al. 2020)."""
        return diversity(self.top_words(n, vocabulary))

    def table(
        self, documents: Any = None, n: int = 8, measure: str = "npmi", vocabulary: Any = None
    ) -> TopicTable:
        """The topics, the largest first: share of all words, documents of which it is the largest, coherence, its n top words.

        Without `documents`, of those fitted to, where the model kept their mixtures; coherence needs documents.
        """
        tops = self.top_words(n, vocabulary)
        shares, counts, scores = self._sizes(documents), None, None
        if documents is not None:
            scores = self.coherence(documents, measure, n, vocabulary=vocabulary)
        if documents is not None or getattr(self, "doc_topic_", None) is not None:
            counts = np.bincount(self._shares(documents).argmax(axis=1), minlength=len(tops))
        order = range(len(tops)) if shares is None else np.argsort(-shares, kind="stable")
        rows = [
            TopicRow(
                int(topic),
                None if shares is None else float(shares[topic]),
                None if counts is None else int(counts[topic]),
                None if scores is None else float(scores[topic]),
                tuple(tops[topic]),
            )
            for topic in order
        ]
        return TopicTable(rows, measure if scores is not None else None)

    def _sizes(self, documents: Any = None) -> Array | None:
        """p(topic): the share of all words that a topic made; of the documents' mean mixture where their lengths are gone."""
        if documents is not None:
            tokens = self._lengths(documents) @ self._shares(documents)
        elif getattr(self, "topic_tokens_", None) is not None:
            tokens = np.asarray(self.topic_tokens_, dtype=np.float64)
        elif getattr(self, "doc_topic_", None) is not None:
            tokens = self._shares().mean(axis=0)
        else:
            return None
        return rows_to_one(tokens[None])[0]

    # --- elsewhere ---

    def to_pyldavis(self, documents: Any, vocabulary: Any = None) -> dict[str, Any]:
        """The arguments of `pyLDAvis.prepare`: `pyLDAvis.prepare(**model.to_pyldavis(counts))`.

        Words that these documents do not have, and documents without words, are left out: pyLDAvis divides by their counts.
        """
        words = self._words(vocabulary)
        if are_texts(documents):
            documents = self.encode(documents, words)
        blocks = self._validate_rows(documents, reset=False)  # type: ignore[attr-defined]
        frequency = np.zeros(len(words))
        for rows, _ in blocks:
            frequency += np.asarray(rows.sum(axis=0)).ravel()
        lengths = self._lengths(documents)
        there, filled = frequency > 0, lengths > 0
        if not there.any():
            raise ValueError("these documents have none of the model's words.")
        return {
            "topic_term_dists": rows_to_one(self.topic_word_[:, there]),
            "doc_topic_dists": self._shares(documents)[filled],
            "doc_lengths": lengths[filled],
            "vocab": words[there].tolist(),
            "term_frequency": frequency[there],
        }

    def plot(self, n: int = 8, topics: Sequence[int] | None = None, vocabulary: Any = None):
        """A figure with bars of p(word | topic) for the n likeliest words; of the twelve largest topics, or of these."""
        from lemmata.topics.pictures import bars

        tops, sizes = self.top_words(n, vocabulary), self._sizes()
        k = len(tops)
        if topics is None:
            order = np.arange(k) if sizes is None else np.argsort(-sizes, kind="stable")
            chosen = [int(topic) for topic in order[:12]]
        else:
            chosen = [_one_of(topic, k) for topic in topics]
        heights = -np.sort(-self.topic_word_, axis=1)
        return bars(
            [(z, None if sizes is None else float(sizes[z]), tops[z], heights[z]) for z in chosen]
        )


def _is_matrix(documents: Any) -> bool:
    return sp.issparse(documents) or getattr(documents, "ndim", 0) == 2


def _whole(n: Any, name: str) -> int:
    if isinstance(n, bool) or not isinstance(n, Integral) or n < 1:
        raise ValueError(f"{name}={n!r}: pass an int >= 1.")
    return int(n)


def _one_of(topic: Any, k: int) -> int:
    """The number of a topic, if it is one."""
    if isinstance(topic, bool) or not isinstance(topic, Integral) or not 0 <= int(topic) < k:
        raise ValueError(f"topic={topic!r}: the topics are 0 to {k - 1}.")
    return int(topic)
