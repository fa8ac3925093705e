"""The base of all models of words: validation of texts, words by number, and their vectors.

A model is fitted to texts: a list or an iterator of them, a Path, `lemmata.text.read(…)`, lists of words, or an `EncodedText`,
which is what all of these become. `feature_names_in_` holds the words by falling count, `counts_` the counts.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from lemmata.audit.embedding.geometry import ANALOGY_CLAIMS
from lemmata.core.certificate import Certificate, Statement
from lemmata.core.estimator import Model
from lemmata.core.parameters import fitted
from lemmata.embedding.vectors.word_vectors import WordVectors
from lemmata.text.encoded import LONGEST, EncodedText, encode_over, encode_with
from lemmata.text.words import Tokenizer, Vocabulary

Array = np.ndarray


class EmbeddingModel(Model):
    """A model that gives every word a vector. A subclass fits `embedding_`, row by row the words in `feature_names_in_`."""

    further_claims: ClassVar[tuple[Statement, ...]] = ()  # of `certify`, not of `fit`
    # words of a sentence; None: a document, which may be one word long
    _longest: ClassVar[int | None] = LONGEST
    stored: ClassVar[dict[str, Any]] = {"embedding_ counts_": "audited"}

    embedding_: Array = fitted()
    counts_: Array = fitted()
    feature_names_in_: Array = fitted()

    @property
    def max_iter(self) -> int:
        """The number of steps that progress is shown for."""
        return self.epochs

    def _wants_to_settle(self) -> bool:
        return False  # all epochs are made: the learning rate ends with them

    def _validate_rows(  # type: ignore[override]
        self, X, sample_weight=None, reset: bool = True, min_samples=None
    ) -> EncodedText:
        """Texts as numbers of words; over the model's own words where it is fitted already."""
        if sample_weight is not None:
            raise ValueError("sentences have no weights; repeat them.")
        if not reset:
            words = Vocabulary(self.feature_names_in_, self.counts_)
            if isinstance(X, EncodedText):
                return X.over(words)
            return encode_over(words, X, self.tokenizer)
        data = self._encode(X)
        self.feature_names_in_ = data.vocabulary.words
        self.n_features_in_ = len(data.vocabulary)
        return data

    def _encode(self, X: Any) -> EncodedText:
        if isinstance(X, EncodedText):
            data = X.over(X.vocabulary.pruned(self.min_count, self.max_vocab_size))
        else:
            tokenizer = self.tokenizer or Tokenizer()
            data = encode_with(
                X, tokenizer, self.min_count, self.max_vocab_size, longest=self._longest
            )
        found = data.n_tokens + data.n_dropped
        if found == 0:
            raise ValueError(
                "the text holds no word: it is empty, or its tokenizer finds nothing in it; pass texts, or lists of words."
            )
        if len(data.vocabulary) < 2:
            left = "only one word" if len(data.vocabulary) else "no word"
            raise ValueError(
                f"{left} of {found:,} tokens occurs min_count={self.min_count} times; vectors need two words and more: lower "
                "min_count, or pass more text."
            )
        alone = all((np.diff(starts) < 2).all() for _, starts in data)
        if alone and self._longest is not None:
            raise ValueError(
                "no sentence has two words of the vocabulary, so no word has a neighbour. A text is one sentence: pass longer "
                "ones, or lemmata.text.read(path, unit='paragraph')."
            )
        return data

    # --- certificate ---

    def _further_claims(self) -> tuple[Statement, ...]:
        """The claims that `certify` checks besides those of `fit`."""
        return self.further_claims

    def certify(
        self, X, y=None, sample_weight=None, *, analogies: Any = None, seconds: float | None = None
    ) -> Certificate:
        """Check every claim about this fit on X, usually the training text; more of them than in `certificate_`.

        analogies : a file of questions, or rows of four words; only with them is `analogies_solved` decided
        seconds : how long that may take, as in every `certify`
        """
        check_is_fitted(self)
        claims, attributes = (*self._claims(), *self._further_claims()), {}
        if analogies is not None:
            from lemmata.embedding.vectors.judging import questions_over

            attributes["analogies"] = questions_over(self.vectors_.ids, analogies)
            claims += ANALOGY_CLAIMS
        data = self._validate_rows(X, sample_weight, reset=False)
        return self._certificate(data, y, seconds=seconds, claims=claims, attributes=attributes)

    def _title(self, data: Any) -> str:
        name = type(self).__name__
        if data is None:
            return name
        return f"{name}  {data.n_tokens:,} tokens, {len(data.vocabulary):,} words, {self.embedding_.shape[1]} numbers each"

    @property
    def vectors_(self) -> WordVectors:
        """The words and their vectors: nearest, similarity, analogy, files."""
        check_is_fitted(self)
        return self._vectors

    @cached_property
    def _vectors(self) -> WordVectors:
        return WordVectors(self.feature_names_in_, self.embedding_, self.counts_)

    def _conclude(self, *args: Any, **options: Any) -> None:
        self._forget("_vectors")
        super()._conclude(*args, **options)

    def __getstate__(self):
        return {key: value for key, value in super().__getstate__().items() if key != "_vectors"}
