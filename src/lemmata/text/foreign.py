"""Documents as topic models of other libraries take them, turned into counts over the model's words.

    counts_of(model, X)         counts (n, m), documents in rows
    read_documents(model, X)    the same, or X itself where it is some form of a matrix already

No library is imported: a model is known by where its class comes from.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

KNOWN = (
    ("sklearn", "LatentDirichletAllocation"),
    ("gensim", "LdaModel"),
    ("tomotopy", "LDAModel"),
    ("_tomotopy", "LDAModel"),
)


def library_of(model: Any) -> str:
    """Return whose topic model this is: "sklearn", "gensim", "tomotopy", or "" for any other."""
    for cls in type(model).__mro__:
        home = cls.__module__.partition(".")[0]
        if any(home.startswith(where) and cls.__name__ == name for where, name in KNOWN):
            return home.lstrip("_").partition("_")[0]
    return ""


def words_of(model: Any) -> list[str] | None:
    """Return the word of every column of a model; None where it does not say."""
    library = library_of(model)
    if library == "tomotopy":
        return list(model.used_vocabs)
    if library == "gensim":
        names = model.id2word
        if type(names).__name__ == "FakeDict":  # gensim's stand-in where no dictionary was given
            return None
        return [str(names[at]) for at in range(model.num_terms)]
    names = getattr(model, "feature_names_in_", None)
    return None if names is None else list(names)


def read_documents(model: Any, X: Any) -> Any:
    """Return counts of Counts and of documents as gensim and tomotopy take them, and any other X as it is."""
    matrix = hasattr(X, "shape") or hasattr(X, "__array__")
    foreign = library_of(model) in ("gensim", "tomotopy") and not matrix
    return counts_of(model, X) if foreign or _is_counts(X) else X


def counts_of(model: Any, X: Any) -> Any:
    """Return counts over the model's words, (n, m): of Counts, of a matrix, or of documents as its library takes them."""
    words = None if model is None or isinstance(model, tuple) else words_of(model)
    if _is_counts(X):
        return X.matrix if words is None else _over(X, words)
    if isinstance(X, np.ndarray) or sp.issparse(X) or hasattr(X, "__dataframe__"):
        return X if sp.issparse(X) else np.asarray(X)
    if library_of(model) == "gensim":
        return _from_pairs(X, model)
    if library_of(model) == "tomotopy":
        return _from_tokens(X, words or [])
    return np.asarray(X, np.float64)


def _is_counts(X: Any) -> bool:
    return hasattr(X, "matrix") and hasattr(X, "words")


def _over(X: Any, words: list[str]) -> Any:
    """Return counts in the order of the model's words. Words that it does not know are left out, as a vectoriser does."""
    places = {word: at for at, word in enumerate(words)}
    to = np.array([places.get(str(word), -1) for word in X.words], np.int64)
    if (to < 0).all():
        raise ValueError(
            f"these counts share no word with the {len(words):,} of the model; count documents over its words "
            "(text.counts(documents, vocabulary=…))."
        )
    kept = np.flatnonzero(to >= 0)
    ones = np.ones(len(kept), X.matrix.dtype)
    return sp.csr_array(
        X.matrix @ sp.csc_array((ones, (kept, to[kept])), shape=(len(to), len(words)))
    )


def _from_pairs(corpus: Any, model: Any) -> Any:
    """Read gensim's corpus: a document is a list of (place of the word, count); its dictionary reads texts."""
    m, indptr, columns, values = int(model.num_terms), [0], [], []
    for number, document in enumerate(corpus):
        pairs = list(document)
        if pairs and isinstance(pairs[0], str):
            pairs = model.id2word.doc2bow(pairs)
        try:
            found = [(int(word), float(count)) for word, count in pairs]
        except (TypeError, ValueError):
            raise ValueError(
                f"document {number} is no list of (word, count), as gensim's corpora are; pass corpus, or a matrix of counts."
            ) from None
        if any(not 0 <= word < m for word, _ in found):
            raise ValueError(f"document {number} names a word outside of the model's {m:,}.")
        columns += [word for word, _ in found]
        values += [count for _, count in found]
        indptr.append(len(columns))
    return _matrix(indptr, columns, values, m)


def _from_tokens(documents: Any, words: list[str]) -> Any:
    """Read tomotopy's documents, or lists of words; words that the model does not use are left out."""
    places = {word: at for at, word in enumerate(words)}
    indptr, columns = [0], []
    for number, document in enumerate(documents):
        if isinstance(document, str):
            raise ValueError(
                f"document {number} is one text; pass lists of words (text.split()), or a matrix of counts."
            )
        known = getattr(document, "words", None)
        if known is not None:  # of tomotopy: numbers of used words
            columns += [int(word) for word in known if 0 <= int(word) < len(words)]
        else:
            columns += [places[word] for word in document if word in places]
        indptr.append(len(columns))
    return _matrix(indptr, columns, [1.0] * len(columns), len(words))


def _matrix(indptr: list[int], columns: list[int], values: list[float], m: int) -> Any:
    if len(indptr) == 1:
        raise ValueError("there are no documents.")
    parts = np.array(values), np.array(columns, np.int64), np.array(indptr)
    found = sp.csr_array(parts, shape=(len(indptr) - 1, m))
    found.sum_duplicates()
    return found
