"""Vectors of words from anywhere in our words: gensim's KeyedVectors and Word2Vec, WordVectors, tuples, dicts.

    words_of(model)  ->  {"feature_names_in_": words, "embedding_": ζ, "counts_": … or None, "claims": …}, or None

Of a Word2Vec by skip-gram and negative sampling the scores are known too, ⟨wv.vectors_w, syn1neg_v⟩. Pairs are symmetric on
average, so it does not matter that gensim lets the neighbour predict the word in the middle. It keeps an occurrence with
probability `sample_int`/2³², draws reaches evenly from 1 … window, and leaves a negative out that is the word itself:
M_wv = r q_v (N_w − N_wv). It makes up counts n, n − 1, …, 1 where a file had none; these are not taken for counts.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.exceptions import NotFittedError

from lemmata.audit.embedding.geometry import GEOMETRY_CLAIMS
from lemmata.audit.embedding.skipgram import (
    beats_frequencies,
    follows_information,
    statement_errors,
)
from lemmata.audit.kernel.attributes import attributes_sound, statements_true
from lemmata.audit.kernel.claims import passes

Array = np.ndarray
SOUND = attributes_sound(
    {
        "embedding_": "d k",
        "context_embedding_?": "d k",
        "biases_?": "d",
        "counts_?": "d | >= 0",
    }
)
VECTORS_CLAIMS = (SOUND, *GEOMETRY_CLAIMS)
COUNTED_VECTORS_CLAIMS = (
    SOUND,
    statements_true(statement_errors, cost=passes(1)),
    *GEOMETRY_CLAIMS,
)
WORD2VEC_CLAIMS = (
    *COUNTED_VECTORS_CLAIMS[:2],
    beats_frequencies,
    follows_information,
    *GEOMETRY_CLAIMS,
)


def _is_gensims(model: Any, name: str) -> bool:
    return any(
        cls.__name__ == name and cls.__module__.startswith("gensim.") for cls in type(model).__mro__
    )


def words_of(model: Any) -> dict[str, Any] | None:
    """What the claims about vectors of words read; None where this is something else."""
    if _is_gensims(model, "Word2Vec"):
        return _from_word2vec(model)
    if _is_gensims(model, "KeyedVectors"):
        return _vectors(model.index_to_key, model.vectors, _counts(model))
    if type(model).__name__ == "WordVectors" and hasattr(model, "matrix"):
        return _vectors(model.words, model.matrix, model.counts)
    if isinstance(model, dict) and model and all(isinstance(word, str) for word in model):
        return _vectors(list(model), _stacked(model), None)
    if isinstance(model, tuple) and len(model) in (2, 3) and _are_words(model[0]):
        return _vectors(*model, *([None] * (3 - len(model))))
    return None


def _are_words(words: Any) -> bool:
    one_by_one = isinstance(words, (list, tuple)) or getattr(words, "ndim", 0) == 1
    return one_by_one and len(words) > 0 and isinstance(words[0], str)


def _stacked(vectors: dict[str, Any]) -> Array:
    sizes = {np.shape(one) for one in vectors.values()}
    if len(sizes) > 1 or len(next(iter(sizes))) != 1:
        raise ValueError(
            f"vectors of words have shapes {sorted(sizes)[:3]}; pass one row of numbers for every word, all of one size."
        )
    return np.stack([np.asarray(one) for one in vectors.values()])


def _vectors(words: Any, matrix: Any, counts: Any) -> dict[str, Any]:
    words, matrix = np.array(list(words), dtype=object), np.asarray(matrix)
    if matrix.ndim != 2 or len(matrix) != len(words):
        raise ValueError(
            f"{len(words):,} words and vectors of shape {matrix.shape}: pass a matrix with a row for every word."
        )
    found = {"feature_names_in_": words, "embedding_": matrix, "counts_": counts}
    if counts is None:
        return {**found, "claims": VECTORS_CLAIMS}
    return {**found, "counts_": np.asarray(counts), "claims": COUNTED_VECTORS_CLAIMS}


def _counts(vectors: Any) -> Array | None:
    """How often each word was met, unless nobody knows it or gensim made it up."""
    counts = vectors.expandos.get("count")
    if counts is None:
        return None
    try:
        counts = np.asarray(counts, np.int64)
    except (TypeError, ValueError):
        return None
    n = len(vectors.index_to_key)
    return None if len(counts) != n or (counts == np.arange(n, 0, -1)).all() else counts


def _from_word2vec(model: Any) -> dict[str, Any]:
    words = model.wv
    if not len(words.index_to_key) or getattr(model, "epochs", 0) == 0:
        raise NotFittedError(f"this {type(model).__name__} has no vocabulary; train it first.")
    found = _vectors(words.index_to_key, words.vectors, _counts(words))
    sampled = not model.hs and model.negative > 0 and hasattr(model, "syn1neg")
    if found["counts_"] is None or not sampled or _is_gensims(model, "Doc2Vec"):
        return found
    keep = words.expandos.get("sample_int") if model.sample else None
    kept = None if keep is None else {"keep_": (np.asarray(keep, np.float64) + 1) / 2**32}
    known = {
        "context_embedding_": np.asarray(model.syn1neg),
        "biases_": np.zeros(len(words.index_to_key)),
        "objective": "negative",
        "negatives_per": "pair",
        "negatives_differ_": True,
        "sample": float(model.sample or 0.0),
        "sg": bool(model.sg),
        **(kept or {}),
    }
    claims = WORD2VEC_CLAIMS if model.sg else COUNTED_VECTORS_CLAIMS
    return {**found, **known, "claims": claims}
