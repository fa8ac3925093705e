"""align: two embeddings in one space by a rotation, and what a word of one is in the other (CIL20 5.5).

    minimise  Σ_(i,j) in pairs ‖x_i W − y_j‖²      over orthogonal W                                          (procrustes.py)

>>> rng = np.random.default_rng(0)
>>> words, Z = [f"w{i}" for i in range(200)], rng.normal(size=(200, 8))
>>> Q = np.linalg.qr(rng.normal(size=(8, 8)))[0]              # the other language: the same space, turned, other words
>>> found = align((words, Z), ([word.upper() for word in words], Z @ Q), [(w, w.upper()) for w in words[:20]])
>>> bool(np.abs(found.rotation_ - Q).max() < 1e-12)
True
>>> [word for word, _ in found.translate("w150", n=1)]
['W150']
>>> str(found.precision([(w, w.upper()) for w in words[20:]], k=1))
'precision @1 100.0% (98.0% to 100.0%) at 95%, over 180 words, 0 pairs without vectors; by chance 0.50%'
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from sklearn.utils.validation import check_array, check_is_fitted

from lemmata.audit.embedding.alignment import ALIGNMENT_CLAIMS
from lemmata.core import common
from lemmata.core.certificate import Certificate, Fit
from lemmata.core.estimator import Model
from lemmata.core.parameters import COUNT, KW_ONLY, WHOLE, fitted, parameter
from lemmata.embedding.alignment import procrustes
from lemmata.embedding.alignment.pairs import find_pairs
from lemmata.embedding.alignment.retrieval import METHODS, best, crowding
from lemmata.embedding.alignment.scoring import PrecisionScore, score
from lemmata.embedding.vectors.foreign import as_word_vectors
from lemmata.embedding.vectors.word_vectors import WordVectors, directions

Array = np.ndarray
CACHED = ("_source", "_target", "_sides", "_penalty")


def align(
    source: Any, target: Any, pairs: Any = None, *, neighbours: int = 10, among: int = 10_000, max_iter: int = 20,
    tol: float = 0.0, verbose: int = 0, checkpoint: Any = None, time_limit: float | None = None,
) -> Alignment:  # fmt: skip
    """Rotate one embedding into the space of another: `Alignment(…).fit(source, target, pairs)`, which see."""
    model = Alignment(
        neighbours=neighbours, among=among, max_iter=max_iter, tol=tol, verbose=verbose, checkpoint=checkpoint,
        time_limit=time_limit,
    )  # fmt: skip
    return model.fit(source, target, pairs)


class Alignment(Model):
    """The rotation of one embedding into the space of another, from pairs of words that mean the same.

    Minimises Σ ‖x_i W − y_j‖² over orthogonal W, vectors divided by their lengths; then, round by round, over the pairs of
    words that are each other's nearest by CSLS under the last W (self-learning).

    Attributes
    ----------
    rotation_ : (k, k)
        W: a source vector x is x @ W in the target's space.
    pairs_ : (p, 2) ints
        Places of the pairs that W is the best rotation of: those given, or found by the round before the last.
    seeds_ : (s, 2) ints
        Places of the pairs given; n_unknown_ : pairs given that a side has no vector for
    loss_ : float
        The mean of ‖x W − y‖² over pairs_, between 0 and 4.
    source_, target_, vectors_ : WordVectors
        Both sides as they came; the source's words in the target's space.
    certificate_, trace_, stopped_, n_iter_, n_features_in_
        `trace_.objective` is 1 − the mean cosine of source words and their translations (max_iter=0: `loss_`).
    """

    _: KW_ONLY
    neighbours: int = parameter(10, COUNT).doc("""
        n in CSLS: nearest words whose mean cosine measures how crowded a place is.""")
    among: int = parameter(10_000, COUNT).doc("""
        Self-learning and crowding look at so many of the first (most frequent) words of both sides.
        """)
    max_iter: int = parameter(20, WHOLE).doc("""
        The most rounds of self-learning, which ends by itself as a rule; 0: the given pairs decide
        alone.""")
    tol: float = common.tol(0.0).doc("""
        Stop when a round changes the objective by at most this share of it; 0: stop when one does
        not lower it.""")
    verbose: int = common.verbose()
    checkpoint: Any = common.checkpoint()
    time_limit: Any = common.time_limit()

    claims = ALIGNMENT_CLAIMS
    stored: ClassVar[dict[str, Any]] = {
        "rotation_": "d d",
        "pairs_ seeds_ loss_": "audited",
        "n_unknown_": "int >=0",
        "source_words_": "s text",
        "source_matrix_": "s d",
        "target_words_": "t text",
        "target_matrix_": "t d",
    }

    rotation_: Array = fitted()
    pairs_: Array = fitted()
    seeds_: Array = fitted()
    loss_: float = fitted()
    n_unknown_: int = fitted()
    source_words_: Array = fitted()
    source_matrix_: Array = fitted()
    target_words_: Array = fitted()
    target_matrix_: Array = fitted()

    # --- fitting ---

    def fit(self, source, target=None, pairs=None) -> Alignment:
        """Find the rotation of `source` into the space of `target`.

        Parameters
        ----------
        source, target : WordVectors, fitted embedding models, gensim's KeyedVectors, or (words, matrix)
            Vectors of one size; words by falling frequency.
        pairs : list of (source word, target word), dict, path of a file with two words a line, or None
            What means the same; None: words that are written alike.
        """
        with self._all_or_nothing():
            self._validate_params()
            if target is None:
                raise ValueError(
                    "an alignment is of two embeddings: pass the target as second argument."
                )
            one, other = as_word_vectors(source, "source"), as_word_vectors(target, "target")
            if one.vector_size != other.vector_size:
                raise ValueError(
                    f"source vectors have {one.vector_size} numbers and target vectors {other.vector_size}; a rotation needs "
                    "two of one size: train one of them again."
                )
            seeds = find_pairs(pairs, one, other)
            self.n_features_in_, self.n_unknown_ = one.vector_size, seeds.n_unknown
            self.source_words_, self.source_matrix_ = one.words, one.matrix
            self.target_words_, self.target_matrix_ = other.words, other.matrix
            self.seeds_ = seeds.places
            self._forget(*CACHED)
            self._fit_blocks(procrustes.TwoSides.of(one.matrix, other.matrix, seeds.places))  # type: ignore[arg-type]
        return self

    def _algorithm(self, data: Any) -> Any:
        if self.max_iter == 0:
            return procrustes.ProcrustesAlgorithm()
        return procrustes.SelfLearningAlgorithm(int(self.neighbours), int(self.among))

    def _attributes(self, solution: Any, problem: procrustes.TwoSides) -> dict[str, Any]:
        found = solution.attributes
        W = found["rotation_"]
        loss = procrustes.mean_distance(*problem.rows(found["pairs_"]), W)
        return {**found, "rotation_": W.astype(problem.X.dtype), "loss_": loss}

    def _conclude(self, data: Any, *args: Any, **options: Any) -> None:
        """Leave the data out: claims are checked on pairs held out, and a fit has none."""
        super()._conclude(None, *args, **options)

    @classmethod
    def restored(cls, parameters: dict[str, Any], attributes: dict[str, Any]) -> Alignment:
        """A model from what a file holds; pairs are places of words, each once."""
        model = super().restored(parameters, attributes)
        assert isinstance(model, Alignment)
        for name in ("pairs_", "seeds_"):
            pairs = getattr(model, name)
            sizes = len(model.source_words_), len(model.target_words_)
            if (pairs >= sizes).any():
                raise ValueError(f"{name} names words that there are not.")
            if len(np.unique(pairs, axis=0)) < len(pairs):
                raise ValueError(f"{name} holds a pair twice.")
        return model

    # --- words ---

    @property
    def source_(self) -> WordVectors:
        """The source's words and vectors, as they came."""
        check_is_fitted(self)
        return self._source

    @property
    def target_(self) -> WordVectors:
        """The target's words and vectors, as they came."""
        check_is_fitted(self)
        return self._target

    @property
    def vectors_(self) -> WordVectors:
        """The source's words in the target's space."""
        return WordVectors(self.source_.words, self.transform(self.source_.matrix))

    @cached_property
    def _source(self) -> WordVectors:
        return WordVectors(self.source_words_, self.source_matrix_)

    @cached_property
    def _target(self) -> WordVectors:
        return WordVectors(self.target_words_, self.target_matrix_)

    @cached_property
    def _sides(self) -> tuple[Array, Array]:
        """Rows of length 1: the first source words, turned, and all target words."""
        X = directions(np.asarray(self.source_matrix_[: self.among], self.rotation_.dtype))
        Y = directions(np.asarray(self.target_matrix_, self.rotation_.dtype))
        return directions(X @ self.rotation_), Y

    @cached_property
    def _penalty(self) -> Array:
        """r(y) of every target word."""
        turned, Y = self._sides
        return crowding(Y, turned, int(self.neighbours))

    def __getstate__(self):
        return {key: value for key, value in super().__getstate__().items() if key not in CACHED}

    # --- using it ---

    def transform(self, X) -> Array:
        """Source vectors in the target's space: X @ rotation_; lengths and angles stay what they are."""
        return self._rotate(X, self.rotation_)

    def inverse_transform(self, X) -> Array:
        """Target vectors in the source's space."""
        return self._rotate(X, self.rotation_.T)

    def _rotate(self, X: Any, W: Array) -> Array:
        check_is_fitted(self)
        X = check_array(X, dtype=[np.float64, np.float32])
        if X.shape[1] != len(W):
            raise ValueError(f"X has {X.shape[1]} features, but Alignment is expecting {len(W)}.")
        return X @ W.astype(X.dtype)

    def translate(self, word: str | list[str], n: int = 10, *, method: str = "csls") -> list[Any]:
        """The n target words nearest to a source word, with their scores; of a list of words, a list of these.

        method : {"csls", "cosine"}
            The score: 2 cos − r(x) − r(y), which is fair to words outside of crowds, or the cosine.
        """
        check_is_fitted(self)
        if isinstance(n, bool) or not isinstance(n, (int, np.integer)) or n < 1:
            raise ValueError(f"n={n!r}: pass an int >= 1.")
        asked = [word] if isinstance(word, str) else list(word)
        places, scores = self._rank([self.source_.place(one) for one in asked], int(n), method)
        answers = [
            list(zip(self.target_words_[row].tolist(), values.tolist(), strict=True))
            for row, values in zip(places, scores, strict=True)
        ]
        return answers[0] if isinstance(word, str) else answers

    def _rank(self, places: list[int], n: int, method: str) -> tuple[Array, Array]:
        """The n best target words of source words, and their scores."""
        if method not in METHODS:
            raise ValueError(f"method={method!r}: pass one of {', '.join(map(repr, METHODS))}.")
        _, Y = self._sides
        rows = directions(np.asarray(self.source_matrix_[places], self.rotation_.dtype))
        queries = directions(rows @ self.rotation_)
        if method == "cosine":
            found, scores = best(queries, Y, np.zeros(len(Y), Y.dtype), n)
            return found, scores / 2
        found, scores = best(queries, Y, self._penalty, n)
        own = crowding(queries, Y[: self.among], int(self.neighbours))
        return found, scores - own[:, None]

    def precision(
        self, pairs: Any, k: Any = (1, 5, 10), *, method: str = "csls", confidence: float = 0.95
    ) -> PrecisionScore:
        """The share of source words of these pairs with a true translation among the first k.

        Pairs that the alignment was given say little about others: hold some out.
        """
        check_is_fitted(self)
        ks = (k,) if isinstance(k, (int, np.integer)) else tuple(k)
        if not ks or not all(isinstance(one, (int, np.integer)) and one >= 1 for one in ks):
            raise ValueError(f"k={k!r}: pass an int >= 1, or several.")
        if not 0 < confidence < 1:
            raise ValueError(f"confidence={confidence}: pass a probability, such as 0.95.")
        truth = find_pairs(pairs, self.source_, self.target_)
        words = [source for source, _ in truth.by_source()]
        places, _ = self._rank(words, max(ks), method)
        return score(places, truth, tuple(map(int, ks)), len(self.target_words_), confidence)

    # --- certificate ---

    def certify(self, X=None, y=None, sample_weight=None, *, seconds=None) -> Certificate:
        """Check every claim about this alignment; X: pairs held out, which the last claim is about."""
        check_is_fitted(self)
        if sample_weight is not None:
            raise ValueError("pairs have no weights; leave some out.")
        data = None if X is None else find_pairs(X, self.source_, self.target_)
        return self._certificate(data, seconds=seconds)

    def _title(self, data: Any) -> str:
        sizes = f"{len(self.source_words_):,} and {len(self.target_words_):,} words"
        return (
            f"Alignment  {sizes}, {len(self.seeds_):,} pairs given, {len(self.pairs_):,} in the end"
        )

    @classmethod
    def work(cls, fit: Fit) -> float:
        """Four products of all similarities in each round."""
        rows, size = np.shape(fit.source_matrix_)
        words = (
            min(rows, fit.get("among", rows)),
            min(len(fit.target_words_), fit.get("among", rows)),
        )
        return 4.0 * float(fit.get("n_iter_", 1)) * words[0] * words[1] * size
