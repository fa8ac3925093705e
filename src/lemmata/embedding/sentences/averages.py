"""A sentence as the weighted mean of its words' vectors, and what all transformers of sentences share.

    s = (1/n) Σ_(words w of the sentence that are known) c_w z_w                n: how many they are

A sentence without known words is 0, which is similar to nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from lemmata.embedding.base import EmbeddingModel
from lemmata.embedding.vectors.word_vectors import lengths, top
from lemmata.text.encoded import EncodedText, encode_with
from lemmata.text.words import Tokenizer, Vocabulary

Array = np.ndarray


def averages(text: EncodedText, vectors: Array, weights: Array | None = None) -> Iterator[Array]:
    """The weighted means of sentences, block by block, in the dtype of the vectors."""
    for ids, starts in text:
        if weights is None:
            given = np.ones(len(ids), vectors.dtype)
        else:
            given = weights[ids].astype(vectors.dtype)
        sums = sp.csr_array((given, ids, starts), shape=(len(starts) - 1, len(vectors))) @ vectors
        yield sums / np.maximum(np.diff(starts), 1)[:, None].astype(vectors.dtype)


def encode_all(X: Any, words: Vocabulary, tokenizer: Tokenizer | None) -> EncodedText:
    """Texts over some words, one sentence for every text, whatever its length."""
    if isinstance(X, EncodedText):
        return X.over(words)
    return encode_with(X, tokenizer or Tokenizer(), longest=None).over(words)


class SentenceModel(ClassNamePrefixFeaturesOutMixin, TransformerMixin, EmbeddingModel):
    """An embedding of words that makes vectors of sentences. A subclass says how in `_rows`."""

    def _rows(self, text: EncodedText) -> Array:
        """Vectors of encoded sentences."""
        return self._stack(list(averages(text, self.embedding_)))

    def _stack(self, parts: list[Array]) -> Array:
        size = self.embedding_.shape[1]
        return np.concatenate(parts) if parts else np.empty((0, size), self.embedding_.dtype)

    def transform(self, X) -> Array:
        """The vector of every text, (n_texts, vector_size); zeros for a text without a known word."""
        check_is_fitted(self)
        words = Vocabulary(self.feature_names_in_, self.counts_)
        return self._rows(encode_all(X, words, self.tokenizer))

    @property
    def _n_features_out(self) -> int:
        return int(self.embedding_.shape[1])

    def nearest(self, text: str, among: Any, n: int = 5) -> list[tuple[Any, float]]:
        """The n texts of a list most alike to a text, with their cosines."""
        if isinstance(n, bool) or not isinstance(n, (int, np.integer)) or n < 1:
            raise ValueError(f"n={n!r}: pass an int >= 1.")
        texts = list(among)
        if not texts:
            return []
        rows = self.transform(texts)
        places, cosines = top(rows, lengths(rows), self.transform([text]), int(n))
        found = zip(places[0].tolist(), cosines[0].tolist(), strict=True)
        return [(texts[place], cosine) for place, cosine in found]
