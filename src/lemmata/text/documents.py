"""Documents as models take them: counts of words, blocks of such counts, any matrix of numbers >= 0, or texts to be counted.

Validates what a model is fitted to, and what another library's topic model is certified on.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from lemmata.core.blocks import Blocks, is_stream
from lemmata.core.estimator import Model
from lemmata.core.validation import refuse_large
from lemmata.text.counting import Counts
from lemmata.text.reading import Files

Array = np.ndarray


def are_texts(documents: Any) -> bool:
    """Whether documents are texts that have not been counted yet."""
    if isinstance(documents, (Files, Path)) or getattr(documents, "texts", None) is not None:
        return True
    if getattr(documents, "ndim", 1) != 1 or isinstance(documents, (str, bytes, dict)):
        return False
    listed = hasattr(documents, "__len__") and hasattr(documents, "__iter__")  # a Series too
    return listed and isinstance(next(iter(documents), None), str)


class ModelOfCounts(Model):
    """A model whose rows are documents, counted. Counts bring their words along."""

    accepts_sparse = True

    def _validate_rows(self, X, sample_weight=None, reset: bool = True, min_samples=None) -> Blocks:
        if isinstance(X, str):
            raise TypeError("X is one text; pass a list of texts, or counts of their words.")
        if are_texts(X):
            if reset or not hasattr(self, "encode"):  # another library's fit
                raise TypeError(
                    f"{type(self).__name__} is fitted to counts of words; pass lemmata.text.counts(documents)."
                )
            X = self.encode(X)
        first = X if isinstance(X, Counts) else _first_of(X)
        if first is not None:
            data = self._validated_counts(X, first, sample_weight, reset, min_samples)
        else:
            data = super()._validate_rows(X, sample_weight, reset, min_samples)
            if reset:
                self._forget("tokenizer_")
        for rows, _ in data:
            least = rows.data.min(initial=0) if sp.issparse(rows) else rows.min(initial=0)
            if least < 0:
                raise ValueError(
                    f"Negative values in data passed to {type(self).__name__}: the least is {least:g}; counts are >= 0."
                )
            refuse_large(rows, power=1)
        return data

    def _validated_counts(
        self, X: Any, first: Counts, sample_weight, reset: bool, min_samples
    ) -> Blocks:
        """Counts bring their words along: these are the names of the columns."""
        known = getattr(self, "feature_names_in_", None)
        self._forget("feature_names_in_")  # the matrix has no names, and none are asked for
        try:
            if not reset and known is not None and not np.array_equal(known, first.words):
                raise ValueError(
                    f"these counts are over other words than the {len(known):,} that the model was fitted to; count "
                    "documents over its words by model.encode(documents)."
                )
            matrix = X.matrix if isinstance(X, Counts) else _Matrices(X, first.words)
            data = super()._validate_rows(matrix, sample_weight, reset, min_samples)
        finally:
            if known is not None and not reset:
                self.feature_names_in_ = known
        if reset:
            self.feature_names_in_, self.tokenizer_ = first.words, first.tokenizer
        return data


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
