"""Balanced vectors: of all pairs of embeddings with the same scores ζzᵀ, those with ζᵀζ = zᵀz.

    ζzᵀ = UΣVᵀ,        ζ = UΣ^½,   z = VΣ^½

(ζA, zA⁻ᵀ) has the same scores for every invertible A, and other angles; the balanced ones are unique up to a rotation, which
leaves all angles. What `nearest_words_determined` compares the vectors of a model with.

>>> rng = np.random.default_rng(0)
>>> X, Z, A = rng.normal(size=(5, 2)), rng.normal(size=(5, 2)), np.diag([1.0, 100.0])
>>> first, second = (balanced_vectors(*pair)[0] for pair in ((X, Z), (X @ A, Z / np.diag(A))))
>>> bool(np.allclose(first @ first.T, second @ second.T))
True
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lemmata.embedding.vectors.word_vectors import WordVectors

Array = np.ndarray


def balanced_vectors(X: Array, Z: Array) -> tuple[Array, Array]:
    """UΣ^½ and VΣ^½ of XZᵀ, by QR decompositions of X and Z: no matrix of all scores is made."""
    (P, R), (Q, S) = (np.linalg.qr(np.asarray(part, np.float64)) for part in (X, Z))
    U, sigma, Vt = np.linalg.svd(R @ S.T, full_matrices=False)
    scale = np.sqrt(sigma)
    return (P @ U) * scale, (Q @ Vt.T) * scale


def balanced(model: Any) -> WordVectors:
    """The balanced vectors of a model with two embeddings: SkipGram, GloVe, PMI, or gensim's Word2Vec.

    They rank words as the scores themselves do, whatever linear map training happened to end with.
    """
    words: Any = getattr(model, "feature_names_in_", None)
    X = getattr(model, "embedding_", None)
    Z, counts = getattr(model, "context_embedding_", None), getattr(model, "counts_", None)
    if X is None and hasattr(model, "wv"):
        words, X = model.wv.index_to_key, model.wv.vectors
        Z, counts = getattr(model, "syn1neg", None), model.wv.expandos.get("count")
    if X is None or Z is None:
        raise TypeError(
            f"a {type(model).__name__} has no vectors of words and of contexts; pass a fitted SkipGram, GloVe or PMI, or a "
            "gensim Word2Vec with negative sampling."
        )
    return WordVectors(words, balanced_vectors(X, Z)[0].astype(np.asarray(X).dtype), counts)
