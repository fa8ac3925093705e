"""Word vectors in every form that people have them: our models, gensim's KeyedVectors and Word2Vec, words with their matrix.

gensim makes up counts n, n − 1, …, 1 where a file had none; these are not taken for counts.

>>> as_word_vectors((["cat", "dog"], np.eye(2)), "source")
WordVectors of 2 words, 2 numbers each (float64)
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.exceptions import NotFittedError

from lemmata.embedding.vectors.word_vectors import WordVectors

Array = np.ndarray


def as_word_vectors(given: Any, name: str) -> WordVectors:
    """Return the word vectors in what was passed as `name`; TypeError where there are none."""
    own = getattr(given, "vectors_", None)  # of a fitted model
    given = own if isinstance(own, WordVectors) else given
    if isinstance(given, WordVectors):
        return given
    found = read_vectors(getattr(given, "wv", given))  # gensim's models have them as wv
    if found is None:
        raise TypeError(
            f"{name} is a {type(given).__name__}; pass WordVectors, a fitted embedding model, gensim's KeyedVectors, or "
            "(words, matrix)."
        )
    return WordVectors(*found)


def read_vectors(model: Any) -> tuple[Array, Array, Array | None] | None:
    """Return words, their vectors and their counts, which may be None; None for anything else than vectors of words."""
    if is_gensims(model, "Word2Vec"):
        if not len(model.wv.index_to_key) or getattr(model, "epochs", 0) == 0:
            raise NotFittedError(f"this {type(model).__name__} has no vocabulary; train it first.")
        model = model.wv
    if is_gensims(model, "KeyedVectors"):
        return _with_words(model.index_to_key, model.vectors, _counts(model))
    if isinstance(model, WordVectors):
        return _with_words(model.words, model.matrix, model.counts)
    if isinstance(model, dict) and model and all(isinstance(word, str) for word in model):
        return _with_words(list(model), _stack(model), None)
    if isinstance(model, tuple) and len(model) in (2, 3) and _are_words(model[0]):
        return _with_words(*model, *([None] * (3 - len(model))))
    return None


def is_gensims(model: Any, name: str) -> bool:
    return any(
        cls.__name__ == name and cls.__module__.startswith("gensim.") for cls in type(model).__mro__
    )


def _are_words(words: Any) -> bool:
    one_by_one = isinstance(words, (list, tuple)) or getattr(words, "ndim", 0) == 1
    return one_by_one and len(words) > 0 and isinstance(words[0], str)


def _stack(vectors: dict[str, Any]) -> Array:
    sizes = {np.shape(one) for one in vectors.values()}
    if len(sizes) > 1 or len(next(iter(sizes))) != 1:
        raise ValueError(
            f"vectors of words have shapes {sorted(sizes)[:3]}; pass one row of numbers for every word, all of one size."
        )
    return np.stack([np.asarray(one) for one in vectors.values()])


def _with_words(words: Any, matrix: Any, counts: Any) -> tuple[Array, Array, Array | None]:
    words, matrix = np.array(list(words), dtype=object), np.asarray(matrix)
    if matrix.ndim != 2 or len(matrix) != len(words):
        raise ValueError(
            f"{len(words):,} words and vectors of shape {matrix.shape}: pass a matrix with a row for every word."
        )
    if matrix.dtype.kind not in "biuf":
        raise ValueError(f"vectors have dtype {matrix.dtype}; vectors of words hold real numbers.")
    return words, matrix, None if counts is None else np.asarray(counts)


def _counts(vectors: Any) -> Array | None:
    """Return how often each word occurred, unless gensim does not know it or made it up."""
    counts = vectors.expandos.get("count")
    if counts is None:
        return None
    try:
        counts = np.asarray(counts, np.int64)
    except (TypeError, ValueError):
        return None
    n = len(vectors.index_to_key)
    return None if len(counts) != n or (counts == np.arange(n, 0, -1)).all() else counts
