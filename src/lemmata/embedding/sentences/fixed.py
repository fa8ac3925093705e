"""SentenceVectors: sentences as means of word vectors that are given; plain, or weighted with what all share taken out (SIF).

    mean    s = (1/n) Σ z_w
    SIF     s = (1/n) Σ a/(a + p_w) z_w,      then  s ← s − U Uᵀ s                       (Arora, Liang & Ma 2017)

p_w is how frequent w is: "the" counts next to nothing. U holds the first right singular vectors of all training sentences, not
centred: what every sentence has, grammar more than meaning. (The paper takes one. Its derivation: in a model where words are
drawn near a sentence's direction or, with probability α p_w, for no reason, this mean is the maximum-likelihood direction.)

>>> from lemmata.embedding import WordVectors
>>> words = WordVectors(["cat", "dog", "car", "the"], np.array([[1.0, 0, 1], [0.9, 0.1, 1], [0, 1, 1], [0.5, 0.5, 3]]))
>>> texts = ["the cat", "the dog", "the car", "the the cat", "something else"]
>>> model = SentenceVectors(words, method="sif").fit(texts)
>>> model.nearest("a cat", ["the dog", "the car"], n=1)[0][0]
'the dog'
>>> model.transform(["something else"]), model.n_empty_
(array([[0., 0., 0.]]), 1)
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone

from lemmata.audit.embedding.sentence_vectors import SENTENCE_CLAIMS
from lemmata.core import common
from lemmata.core.blocks import Blocks
from lemmata.core.engine import one_blas_thread
from lemmata.core.loop import MaxSteps
from lemmata.core.parameters import ANYTHING, KW_ONLY, POSITIVE, WHOLE, choice, fitted, parameter
from lemmata.embedding import parameters
from lemmata.embedding.base import EmbeddingModel
from lemmata.embedding.sentences.averages import SentenceModel, averages, encode_all
from lemmata.embedding.vectors.foreign import as_word_vectors
from lemmata.reduction.covariance import EighAlgorithm, Scatter, upright
from lemmata.text.encoded import EncodedText, encode_with
from lemmata.text.words import Tokenizer, Vocabulary

Array = np.ndarray


class SentenceVectors(SentenceModel):
    """Vectors of sentences from vectors of words: their mean, or a weighted mean with the common directions removed.

    Attributes
    ----------
    embedding_ : (n_words, k); vectors_ : WordVectors
        The words' vectors.
    counts_, weights_ : (n_words,)
        How often each word occurs in the training texts, and what it counts: a/(a + p_w), or 1.
    components_ : (n_removed, k); singular_values_ : (n_removed,)
        The directions removed, none for "mean", and how much of all sentences they held.
    n_empty_ : int
        Training texts without a known word.
    certificate_, trace_, stopped_, n_iter_, feature_names_in_ (the words)
    """

    words: Any = parameter(None, ANYTHING).doc("""
        The vectors. A model (`PMI(50)`) is fitted to the texts that are passed to fit, whether it
        was before or not, as scikit-learn has it; to take its vectors as they are, pass
        `model.vectors_`. None: SentenceEmbedding(), with tokenizer and random_state.""")
    method: str = parameter(
        "sif", choice("mean", "sif")
    ).doc("""
        "sif": weights a/(a + p_w) and removed directions, the better one on three of four sets of
        labelled texts; "mean": the plain mean, better for questions, where frequent words decide.""")
    _: KW_ONLY
    a: float = parameter(1e-3, POSITIVE).doc("""
        The frequency at which a word counts half; the smaller, the less frequent words count.""")
    n_removed: int = parameter(1, WHOLE).doc("""
        How many directions that sentences have in common are removed.""")
    tokenizer: Any = parameters.TOKENIZER.doc("""
        What makes words of texts; the one that the vectors were trained with. Lists of words need
        none.""")
    random_state: Any = common.random_state().doc("For words=None.")

    claims = SENTENCE_CLAIMS
    stored: ClassVar[dict[str, Any]] = {
        **SentenceModel.stored,
        "weights_ components_ singular_values_ n_empty_": "audited",
    }

    checkpoint, time_limit, verbose, tol, max_iter = None, None, 0, 0.0, 1
    counts_: Array = fitted()
    weights_: Array = fitted()
    components_: Array = fitted()
    singular_values_: Array = fitted()
    n_empty_: int = fitted()

    # --- fitting ---

    def _encode(self, X: Any) -> EncodedText:
        """Texts over the words that have vectors."""
        data: Any = X
        if self.words is None or isinstance(self.words, EmbeddingModel):
            if not isinstance(X, EncodedText):
                data = encode_with(X, self.tokenizer or Tokenizer(), longest=None)
            words = self._model().fit(data).vectors_
        else:
            words = as_word_vectors(self.words, "words")
        none = np.zeros(len(words), np.int64)
        data = encode_all(data, Vocabulary(words.words, none), self.tokenizer)
        if not data.n_tokens:
            told = (
                "the texts are empty"
                if not data.n_dropped
                else f"none of {data.n_dropped:,} words has a vector"
            )
            raise ValueError(
                f"{told}: pass texts with words of these vectors, and their tokenizer."
            )
        if self._number_removed() > words.vector_size:
            raise ValueError(
                f"n_removed={self.n_removed} directions of {words.vector_size}; pass fewer than vectors have numbers."
            )
        self.embedding_ = np.array(words.matrix)
        return data

    def _model(self) -> EmbeddingModel:
        """The algorithm that is run on the texts."""
        if self.words is not None:
            return clone(self.words)
        from lemmata.embedding.sentences.trained import SentenceEmbedding

        return SentenceEmbedding(tokenizer=self.tokenizer, random_state=self.random_state)

    def _number_removed(self) -> int:
        return 0 if self.method == "mean" else int(self.n_removed)

    def _fit_blocks(self, data: Any) -> None:
        self.counts_ = data.vocabulary.counts
        frequency = self.counts_ / self.counts_.sum()
        weights = (
            np.ones(len(frequency)) if self.method == "mean" else self.a / (self.a + frequency)
        )
        self.weights_ = weights.astype(self.embedding_.dtype)
        self.n_empty_ = sum(int((np.diff(starts) == 0).sum()) for _, starts in data)
        with one_blas_thread():
            super()._fit_blocks(data)

    def _algorithm(self, data: EncodedText) -> EighAlgorithm:  # type: ignore[override]
        return EighAlgorithm(max(self._number_removed(), 1))

    def _problem(self, data: EncodedText) -> Scatter:  # type: ignore[override]
        """Σ s sᵀ over sentences: its eigenvectors are their right singular vectors."""
        rows = self._stack(list(averages(data, self.embedding_, self.weights_)))
        return Scatter.form(Blocks.of(rows), centred=False)

    def _stop(self) -> Any:
        return MaxSteps(1)

    def _attributes(self, solution: Any, problem: Scatter) -> dict[str, Any]:
        found, r = solution.attributes, self._number_removed()
        sigma = np.sqrt(np.maximum(np.asarray(found["values"], np.float64), 0))[:r]
        U = upright(np.asarray(found["vectors"], self.embedding_.dtype))
        return {
            "components_": np.ascontiguousarray(U[:, :r].T),
            "singular_values_": sigma.astype(self.embedding_.dtype),
        }

    # --- files: the vectors stand in embedding_, once ---

    def stored_parameters(self) -> dict[str, Any]:
        """Parameters as a file holds them."""
        own = self.words is None or isinstance(self.words, EmbeddingModel)
        return {**self.get_params(deep=False), "words": None if own else "embedding_"}

    @classmethod
    def restored(cls, parameters: dict[str, Any], attributes: dict[str, Any]) -> SentenceVectors:
        model = super().restored(parameters, attributes)
        assert isinstance(model, SentenceVectors)
        if isinstance(model.words, str):
            model.words = model.vectors_
        return model

    # --- sentences ---

    def _rows(self, text: EncodedText) -> Array:
        C = self.components_
        parts = averages(text, self.embedding_, self.weights_)
        return self._stack([rows - (rows @ C.T) @ C for rows in parts])

    def _title(self, data: Any) -> str:
        if data is None:
            return type(self).__name__
        return f"SentenceVectors  {data.n_sentences:,} texts, {self.n_empty_:,} without a known word, method {self.method!r}"
