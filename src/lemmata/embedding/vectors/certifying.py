"""certify_words: the claims about vectors of words, with or without the text they were learned from.

>>> import lemmata
>>> rng = np.random.default_rng(0)
>>> words = [f"w{i}" for i in range(200)]
>>> lemmata.certify((words, rng.normal(size=(200, 20)))).failed
[]
>>> lemmata.certify((words, 5 + rng.normal(size=(200, 20)))).failed
['directions_spread']
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lemmata.audit.embedding.foreign import COUNTED_VECTORS_CLAIMS, VECTORS_CLAIMS, word2vec_of
from lemmata.audit.embedding.geometry import ANALOGY_CLAIMS
from lemmata.core.certificate import Certificate, Fit
from lemmata.core.certification.certify import Request
from lemmata.embedding.vectors.foreign import is_gensims, read_vectors
from lemmata.embedding.vectors.judging import questions_over
from lemmata.text.encoded import EncodedText, encode_over
from lemmata.text.words import Vocabulary

Array = np.ndarray


def certify_words(
    model: Any,
    X: Any = None,
    *,
    analogies: Any = None,
    seconds: float | None = None,
    verbose: bool = False,
) -> Certificate | None:
    """Check the claims about vectors of words; None if this is something else.

    model : WordVectors, gensim's KeyedVectors, Word2Vec or FastText, (words, matrix[, counts]), or {word: vector}
    X : the text they were learned from: texts, lists of words, or an EncodedText; None: what needs it is not checked
    analogies : a file of questions, or rows of four words
    """
    found = read_vectors(model)
    if found is None:
        return None
    words, matrix, counts = found
    attributes = attributes_of(model, matrix, counts)
    claims = attributes.pop("claims")
    known = Vocabulary(words, np.zeros(len(words), np.int64) if counts is None else counts)
    data = None
    if X is not None:
        data = X.over(known) if isinstance(X, EncodedText) else encode_over(known, X)
    if analogies is not None:
        attributes["analogies"] = questions_over(known.ids, analogies)
        claims = (*claims, *ANALOGY_CLAIMS)
    fit = Fit(model, data, attributes=attributes)
    package = type(model).__module__.split(".")[0]
    name = type(model).__name__ if package in ("gensim", "lemmata") else "vectors"
    title = f"{package} {name}" if package == "gensim" else name
    title += f"  {len(words):,} words, {matrix.shape[1]} numbers each"
    request = Request(seconds=seconds, verbose=verbose)
    return request.check(name, claims, fit, title, _work)


def attributes_of(model: Any, matrix: Array, counts: Array | None) -> dict[str, Any]:
    """Return what the claims read of vectors of words, and which of them can be checked."""
    claims = VECTORS_CLAIMS if counts is None else COUNTED_VECTORS_CLAIMS
    found = {"embedding_": matrix, "counts_": counts, "claims": claims}
    if counts is None or not is_gensims(model, "Word2Vec") or is_gensims(model, "Doc2Vec"):
        return found
    return {**found, **word2vec_of(model)}


def answer(model: Any, request: Request) -> Certificate | None:
    """Certify vectors of words for `lemmata.certify`."""
    return certify_words(
        model, request.X, analogies=request.analogies, seconds=request.seconds, verbose=request.verbose
    )  # fmt: skip


def _work(fit: Fit) -> float:
    """The cost of training, as far as it is known, and of some passes over every pair of coordinates."""
    n, k = np.shape(fit.embedding_)
    passes = 4.0 * n * k * (k + 100)
    if not fit.has_data or not fit.has("context_embedding_"):
        return passes
    each = float(fit.window) * (1 + float(fit.negative)) * k
    return passes + float(fit.get("epochs", 5)) * fit.data.n_tokens * each
