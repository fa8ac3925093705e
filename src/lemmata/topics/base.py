"""What all topic models share: the door for counts, words by number, and the reading of topics.

A topic model is fitted to counts: `lemmata.text.counts(…)`, which brings its words along, or any matrix of numbers >= 0,
documents in rows. `components_` (k, m) holds what each topic makes of each word, `transform` what each document is made of.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from lemmata.core.blocks import Blocks
from lemmata.core.estimator import Model
from lemmata.text.counting import Counts

Array = np.ndarray


class TopicModel(ClassNamePrefixFeaturesOutMixin, TransformerMixin, Model):
    """A model of documents as mixtures of topics. A subclass fits `components_` and says what `_mixtures` are."""

    accepts_sparse = True
    stored: ClassVar[dict[str, Any]] = {
        "components_": "k d >=0",
        "doc_topic_?": "n k >=0 <=1",
        "log_likelihood_": "",
    }

    components_: Array
    feature_names_in_: Array

    def _validated(self, X, sample_weight=None, reset: bool = True, min_samples=None) -> Blocks:
        if isinstance(X, Counts):
            data = self._validated_counts(X, sample_weight, reset, min_samples)
        else:
            data = super()._validated(X, sample_weight, reset, min_samples)
        for rows, _ in data:
            least = rows.data.min(initial=0) if sp.issparse(rows) else rows.min(initial=0)
            if least < 0:
                raise ValueError(
                    f"Negative values in data passed to {type(self).__name__}: the least is {least:g}; counts are >= 0."
                )
        return data

    def _validated_counts(self, X: Counts, sample_weight, reset: bool, min_samples) -> Blocks:
        """Counts bring their words along: these are the names of the columns."""
        known = self.__dict__.pop("feature_names_in_", None)
        try:  # the matrix has no names, which is no news here
            if not reset and known is not None and not np.array_equal(known, X.words):
                raise ValueError(
                    f"these counts are over other words than the {len(known):,} that the model was fitted to; count "
                    "documents over its words by counts.encode(documents)."
                )
            data = super()._validated(X.matrix, sample_weight, reset, min_samples)
        finally:
            if known is not None and not reset:
                self.feature_names_in_ = known
        if reset:
            self.feature_names_in_ = X.words
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

    # --- documents ---

    def _mixtures(self, data: Blocks) -> Array:
        """θ of documents that need not have been fitted to."""
        raise TypeError(f"{type(self).__name__} does not say what documents are made of.")

    def transform(self, X) -> Array:
        """θ (n_documents, n_components): which topics each document is made of; uniform for one without known words."""
        check_is_fitted(self)
        return self._mixtures(self._validated(X, reset=False))

    # --- topics ---

    @property
    def topic_word_(self) -> Array:
        """p(word | topic), (n_components, n_words)."""
        totals = self.components_.sum(axis=1, keepdims=True)
        return self.components_ / np.where(totals > 0, totals, 1)

    def _words(self, vocabulary: Any = None) -> Array:
        if vocabulary is None:
            vocabulary = getattr(self, "feature_names_in_", None)
        if vocabulary is None:
            raise ValueError(
                "the model was fitted to bare numbers and knows no words; fit it to lemmata.text.counts(documents), or pass "
                "vocabulary, the word of each column."
            )
        words = np.asarray(vocabulary, dtype=object)
        if len(words) != self.components_.shape[1]:
            raise ValueError(
                f"vocabulary has {len(words):,} words, the model {self.components_.shape[1]:,} columns."
            )
        return words

    def top_words(self, n: int = 10, vocabulary: Any = None) -> list[list[str]]:
        """The n most probable words of every topic, the likeliest first."""
        check_is_fitted(self)
        words = self._words(vocabulary)
        order = np.argsort(-self.topic_word_, axis=1, kind="stable")[:, :n]
        return [words[one].tolist() for one in order]
