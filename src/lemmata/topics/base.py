"""What all topic models share: the door for counts, and what documents are made of. How topics are read is in reading.py.

A topic model is fitted to counts: `lemmata.text.counts(…)`, which brings its words along, blocks of such counts, or any matrix
of numbers >= 0, documents in rows. `components_` (k, m) holds what each topic makes of each word, `transform` what each
document is made of.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from lemmata.core.blocks import Blocks, is_stream
from lemmata.core.estimator import Model
from lemmata.text.counting import Counts
from lemmata.text.tokens import Tokenizer
from lemmata.topics.reading import Readable, are_texts

Array = np.ndarray


class TopicModel(Readable, ClassNamePrefixFeaturesOutMixin, TransformerMixin, Model):
    """A model of documents as mixtures of topics. A subclass fits `components_` and says what `_mixtures` are."""

    accepts_sparse = True
    COMMON_STORED: ClassVar[Mapping[str, Any]] = {**Model.COMMON_STORED, "tokenizer_?": Tokenizer}
    stored: ClassVar[dict[str, Any]] = {
        "components_": "k d >=0",
        "doc_topic_?": "n k >=0 <=1",
        "log_likelihood_": "",
    }

    def _validated(self, X, sample_weight=None, reset: bool = True, min_samples=None) -> Blocks:
        if isinstance(X, str):
            raise TypeError("X is one text; pass a list of texts, or counts of their words.")
        if are_texts(X):
            if reset:
                raise TypeError(
                    f"{type(self).__name__} is fitted to counts of words; pass lemmata.text.counts(documents)."
                )
            X = self.encode(X)
        first = X if isinstance(X, Counts) else _first_of(X)
        if first is not None:
            data = self._validated_counts(X, first, sample_weight, reset, min_samples)
        else:
            data = super()._validated(X, sample_weight, reset, min_samples)
            if reset:
                self.__dict__.pop("tokenizer_", None)
        for rows, _ in data:
            least = rows.data.min(initial=0) if sp.issparse(rows) else rows.min(initial=0)
            if least < 0:
                raise ValueError(
                    f"Negative values in data passed to {type(self).__name__}: the least is {least:g}; counts are >= 0."
                )
        return data

    def _validated_counts(
        self, X: Any, first: Counts, sample_weight, reset: bool, min_samples
    ) -> Blocks:
        """Counts bring their words along: these are the names of the columns."""
        known = self.__dict__.pop("feature_names_in_", None)
        try:  # the matrix has no names, which is no news here
            if not reset and known is not None and not np.array_equal(known, first.words):
                raise ValueError(
                    f"these counts are over other words than the {len(known):,} that the model was fitted to; count "
                    "documents over its words by model.encode(documents)."
                )
            matrix = X.matrix if isinstance(X, Counts) else _Matrices(X, first.words)
            data = super()._validated(matrix, sample_weight, reset, min_samples)
        finally:
            if known is not None and not reset:
                self.feature_names_in_ = known
        if reset:
            self.feature_names_in_, self.tokenizer_ = first.words, first.tokenizer
        return data

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    def _mixtures(self, data: Blocks) -> Array:
        """θ of documents that need not have been fitted to."""
        raise TypeError(f"{type(self).__name__} does not say what documents are made of.")

    def transform(self, X) -> Array:
        """θ (n_documents, n_components): which topics each document is made of; uniform for one without known words.

        X : counts, blocks of counts, a matrix, or texts, whose words are counted first
        """
        check_is_fitted(self)
        return self._mixtures(self._validated(X, reset=False))


class _Matrices:
    """The matrices of blocks of counts, all over the same words, as often as asked."""

    def __init__(self, blocks: Any, words: Array):
        self.blocks, self.words = blocks, words

    def __iter__(self) -> Iterator[Any]:
        for number, block in enumerate(self.blocks):
            if not isinstance(block, Counts) or not np.array_equal(block.words, self.words):
                raise ValueError(
                    f"block {number} is not made of counts over the words of block 0; count all over the same words, by "
                    "counts.encode(documents) or counts.blocks(documents)."
                )
            yield block.matrix


def _first_of(X: Any) -> Counts | None:
    """The first block of a stream of counts; None of anything else."""
    if not is_stream(X) or iter(X) is X:  # what can be read once only is refused elsewhere
        return None
    first = next(iter(X), None)
    return first if isinstance(first, Counts) else None
