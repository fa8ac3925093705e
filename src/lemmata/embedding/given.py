"""What people have as word vectors, as `WordVectors`: a fitted model of ours, gensim's KeyedVectors, words with their matrix.

>>> as_word_vectors((["cat", "dog"], np.eye(2)), "source")
WordVectors of 2 words, 2 numbers each (float64)
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lemmata.embedding.vectors.word_vectors import WordVectors


def as_word_vectors(given: Any, name: str) -> WordVectors:
    """The word vectors in what was passed as `name`; TypeError where there are none."""
    own = getattr(given, "vectors_", None)  # of a fitted model
    given = own if isinstance(own, WordVectors) else getattr(given, "wv", given)  # gensim's models
    if isinstance(given, WordVectors):
        return given
    if hasattr(given, "index_to_key") and hasattr(given, "vectors"):  # gensim's KeyedVectors
        counts = None
        if given.index_to_key and "count" in getattr(given, "expandos", ()):
            counts = np.array([given.get_vecattr(word, "count") for word in given.index_to_key])
        return WordVectors(given.index_to_key, np.asarray(given.vectors), counts)
    if isinstance(given, tuple) and len(given) == 2:
        return WordVectors(*given)
    raise TypeError(
        f"{name} is a {type(given).__name__}; pass WordVectors, a fitted embedding model, gensim's KeyedVectors, or "
        "(words, matrix)."
    )
