"""FastTextClassifier: texts to classes, as fast as they are read (Joulin et al. 2017; ML "Text Representation").

z = Bᵀ(Σ_f x_f a_f) + c                     x_f = 1/√m for the m distinct words and runs of words f of a text

>>> texts = ["a fine film", "fine acting , a joy", "a dull film", "dull and long"] * 5
>>> model = FastTextClassifier(epochs=20, random_state=0).fit(texts, [1, 1, 0, 0] * 5)
>>> model.predict(["a joy of a film", "long , dull"]).tolist()
[1, 0]
>>> model.certificate_.failed
[]
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from scipy.special import softmax
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from lemmata.audit.embedding.fasttext import FASTTEXT_CLAIMS
from lemmata.core import common
from lemmata.core.blocks import Blocks
from lemmata.core.certificate import Fit
from lemmata.core.parameters import COUNT, KW_ONLY, POSITIVE, choice, fitted, parameter
from lemmata.core.supervised import Classifier
from lemmata.core.validation import check_weights
from lemmata.embedding import parameters
from lemmata.embedding.fasttext.descent import FastTextAlgorithm, Texts
from lemmata.embedding.fasttext.features import FeatureSpace
from lemmata.text.encoded import EncodedText, encode_with
from lemmata.text.words import WORDS, Tokenizer

Array = np.ndarray
LINE = 16  # numbers of a cache line: a shorter vector is no faster


def _has_probabilities(model: Any) -> bool:
    if model.loss == "hinge":
        raise AttributeError(
            "loss='hinge' has scores and no probabilities: see decision_function, or fit with loss='softmax'."
        )
    return True


class FastTextClassifier(Classifier):
    """A linear classifier of low rank over words, runs of words and parts of words of a text.

    Minimises the mean softmax or hinge loss of z = Bᵀ(Σ x_f a_f) + c over vectors a_f, weights B and biases c.

    Attributes
    ----------
    classes_ : (n_classes,)
    features_ : FeatureSpace
        Which words, runs and parts have a vector.
    vectors_ : (n_features_in_, k) float32
    coef_ : (n_classes, k); intercept_ : (n_classes,)
    loss_ : float
        The mean loss of the training texts; `trace_` has one for every epoch.
    certificate_, trace_, stopped_, n_iter_, n_features_in_
    """

    vector_size: Any = parameter(None, parameters.between(1, 2**16), None).doc("""
        k; None: 16, or the number of classes rounded up to a multiple of 16 where there are more.
        """)
    word_ngrams: int = parameter(2, parameters.between(1, 100)).doc("""
        The longest run of words that is a feature; 1: words alone.""")
    _: KW_ONLY
    min_n: int = parameter(0, parameters.between(0, 100)).doc("""
        Parts of words of min_n to max_n letters are features, too. They help with new words and
        many forms.""")
    max_n: int = parameter(0, parameters.between(0, 100)).doc("""
        The longest parts of words; 0: none.""")
    bucket: int = parameter(2**21, parameters.between(1, 2**28)).doc("""
        Slots that runs are hashed into, and as many for parts of words; those that nothing falls
        into take no memory later.""")
    min_count: int = parameter(1, COUNT).doc("""
        Words and slots that occur less often have no vector.""")
    loss: str = parameter("softmax", choice("softmax", "hinge")).doc("""
        −ln of the softmax, or hinge losses of one class against the rest.""")
    learning_rate: float = parameter(0.2, POSITIVE).doc("""
        η at the start, of Adagrad's steps; it falls to 0 over the epochs.""")
    epochs: int = parameter(5, COUNT).doc("Passes over the texts.")
    batch_size: int = parameter(128, COUNT).doc("Texts between two steps.")
    class_weight: Any = common.class_weight()
    tol: float = parameters.TOL
    tokenizer: Any = parameters.TOKENIZER.doc("""
        What makes words of texts; by default lower case and runs of letters and digits. Lists of
        words need none.""")
    random_state: Any = common.random_state().doc("First vectors, and the order of texts.")
    verbose: int = common.verbose()
    checkpoint: Any = common.checkpoint()
    time_limit: Any = common.time_limit()

    claims = FASTTEXT_CLAIMS
    stored: ClassVar[dict[str, Any]] = {
        "features_": FeatureSpace,
        "vectors_ coef_ intercept_ loss_": "audited",
    }

    features_: FeatureSpace = fitted()
    vectors_: Array = fitted()
    coef_: Array = fitted()
    intercept_: Array = fitted()
    loss_: float = fitted()

    @property
    def max_iter(self) -> int:
        """The number of steps that progress is shown for."""
        return self.epochs

    # --- texts ---

    def _validate_rows(self, X, sample_weight=None, reset: bool = True, min_samples=None) -> Blocks:
        """Texts as sparse rows of features, which are those of the training texts."""
        text = self._encode(X)
        if reset:
            if self.min_n > self.max_n:
                raise ValueError(
                    f"min_n={self.min_n} exceeds max_n={self.max_n}: parts of words have min_n to max_n letters."
                )
            self.features_ = FeatureSpace.of(
                text, self.word_ngrams, max(self.min_n, 1), self.max_n, self.bucket, self.min_count
            )
            if not self.features_.n_features:
                raise ValueError(
                    f"none of {text.vocabulary.n_tokens:,} words occurs min_count={self.min_count} times: lower it, or pass "
                    "texts that hold words."
                )
            self.n_features_in_ = self.features_.n_features
        data = Blocks.of(self.features_.rows(text))
        if sample_weight is None:
            return data
        return data.weighted(check_weights(sample_weight, data.shape[0]))

    def _encode(self, X: Any) -> EncodedText:
        if isinstance(X, EncodedText):
            return X
        tokenizer = self.tokenizer or Tokenizer(token_pattern=WORDS)
        text = encode_with(X, tokenizer, longest=None)
        if not len(text):
            raise ValueError("Found 0 texts while a minimum of 1 is required.")
        return text

    # --- fitting ---

    def _wants_to_settle(self) -> bool:
        return False  # the learning rate ends with the epochs

    def _size(self) -> int:
        if self.vector_size is not None:
            return int(self.vector_size)
        return LINE * -(-max(len(self.classes_), LINE) // LINE)

    def _algorithm(self, data: Blocks) -> FastTextAlgorithm:
        return FastTextAlgorithm(
            self._size(), int(self.epochs), float(self.learning_rate), int(self.batch_size), self.loss == "hinge",
            self.features_.n_words,
        )  # fmt: skip

    def _problem(self, data: Blocks) -> Texts:
        weighted = self._weighted_by_class(data)
        return Texts(weighted, self._size(), int(self.epochs), len(self.classes_))

    def _certificate(self, data: Any, y=None, **options: Any) -> Any:
        data = data if data is None else self._weighted_by_class(data)
        return super()._certificate(data, y, **options)

    def _title(self, data: Blocks | None) -> str:
        name = type(self).__name__
        return f"{name}  {data.shape[0]:,} texts, {data.shape[1]:,} features" if data else name

    @classmethod
    def work(cls, fit: Fit) -> float:
        """Gathering and stepping every vector of every text, in each epoch."""
        return (
            4.0 * float(fit.get("n_iter_", 1)) * fit.data.size * np.asarray(fit.vectors_).shape[1]
        )

    # --- output ---

    def transform(self, X) -> Array:
        """The vector of every text, (n, k)."""
        check_is_fitted(self)
        return self._apply(X, lambda rows: rows @ self.vectors_)

    def decision_function(self, X) -> Array:
        """The score of every class, (n, n_classes); for two classes how far the second is ahead, (n,)."""
        check_is_fitted(self)
        scores = self._apply(
            X, lambda rows: (rows @ self.vectors_) @ self.coef_.T + self.intercept_
        )
        return scores[:, 1] - scores[:, 0] if len(self.classes_) == 2 else scores

    def predict(self, X) -> Array:
        """The class with the largest score."""
        scores = self.decision_function(X)
        places = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        return self.classes_[places]

    @available_if(_has_probabilities)
    def predict_proba(self, X) -> Array:
        """The probability of every class, (n, n_classes)."""
        scores = self.decision_function(X)
        if scores.ndim == 1:
            scores = np.stack([np.zeros_like(scores), scores], axis=1)
        return softmax(scores, axis=1)
