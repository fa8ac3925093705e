"""The base of all topic models. Reading topics is in reading.py, validation of input in text/documents.py.

A topic model is fitted to counts: `lemmata.text.counts(…)`, which brings its words along, blocks of such counts, or any matrix
of numbers >= 0, documents in rows. `components_` (k, m) holds what each topic makes of each word, `transform` what each
document is made of.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin
from sklearn.utils.validation import check_is_fitted

from lemmata.core.blocks import Blocks
from lemmata.core.certification.checking import cost_of_topics
from lemmata.core.estimator import Model, RowTransformer
from lemmata.text.documents import ModelOfCounts
from lemmata.text.words import Tokenizer
from lemmata.topics.reading import Readable

Array = np.ndarray


class TopicModel(Readable, ClassNamePrefixFeaturesOutMixin, RowTransformer, ModelOfCounts):
    """A model of documents as mixtures of topics. A subclass fits `components_` and says what `_mixtures` are."""

    COMMON_STORED: ClassVar[Mapping[str, Any]] = {**Model.COMMON_STORED, "tokenizer_?": Tokenizer}

    work = staticmethod(cost_of_topics)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True
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
        return self._mixtures(self._validate_rows(X, reset=False))
