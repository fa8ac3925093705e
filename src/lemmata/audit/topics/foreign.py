"""Topic models of other libraries in our words, and documents as each of them takes them.

    topics_of(model)       -> (p(word | topic) (k, m), α (k,)), or None where a model has no prior
    counts_of(model, X)    -> counts over the model's words, documents in rows
    lda_of(model)          -> what the claims about LDA read

scikit-learn's `components_` and gensim's λ are the parameters of q(φ) = Dirichlet(λ): their mean λ/Σλ is the topic. tomotopy
gives (n_zw + η)/(n_z + mη) of its last sample. No library is imported: a model is known by where its class comes from.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

Array = np.ndarray
SKLEARN_SHARES = 1e-6  # the shares of a token sum to 1 but for so much: scikit-learn adds 2e-16 to what it divides by


def library_of(model: Any) -> str:
    """Whose topic model this is: "sklearn", "gensim", "tomotopy", or "" for any other."""
    for cls in type(model).__mro__:
        home = cls.__module__.partition(".")[0]
        known = {
            ("sklearn", "LatentDirichletAllocation"),
            ("gensim", "LdaModel"),
            ("tomotopy", "LDAModel"),
            ("_tomotopy", "LDAModel"),
        }
        if any(home.startswith(where) and cls.__name__ == name for where, name in known):
            return home.lstrip("_").partition("_")[0]
    return ""


def topics_of(model: Any) -> tuple[Array, Array] | None:
    """p(word | topic) and the prior of topics in a document; None where the model has topics but no prior."""
    if isinstance(model, tuple):
        if len(model) != 2:
            raise ValueError(f"a model as a tuple is (topic_word, alpha), not {len(model)} things.")
        return model
    found = lda_of(model) if library_of(model) else {}
    components = found.get("components_", getattr(model, "components_", None))
    alpha = found.get("doc_topic_prior_", getattr(model, "doc_topic_prior_", None))
    if components is None or alpha is None:
        return None
    components = np.asarray(components, np.float64)
    alpha = np.broadcast_to(np.asarray(alpha, np.float64), (len(components),))
    return components / components.sum(axis=1, keepdims=True), alpha


OTHERS = {  # classes that are made from LDA's and are other models
    "AuthorTopicModel", "CTModel", "DMRModel", "DTModel", "GDMRModel", "HDPModel", "HLDAModel", "HPAModel", "LLDAModel",
    "MGLDAModel", "PAModel", "PLDAModel", "PTModel", "SLDAModel",
}  # fmt: skip


def _is_plain(model: Any) -> bool:
    """Whether this is LDA itself: libraries build other models on its class."""
    return not any(cls.__name__ in OTHERS for cls in type(model).__mro__)


# --- models -----------------------------------------------------------------------------------------------------------


def lda_of(model: Any) -> dict[str, Any]:
    """What the claims about LDA read, from a fit of another library."""
    from lemmata.audit.topics import LDA_FOREIGN_CLAIMS

    if not _is_plain(model):
        raise TypeError(
            f"a {type(model).__module__}.{type(model).__name__} is another model than LDA, with another prior of topics; what "
            "is known about LDA does not hold for it."
        )
    read = {"sklearn": _from_sklearn, "gensim": _from_gensim, "tomotopy": _from_tomotopy}
    found = read[library_of(model)](model)
    found["reads"] = lambda X: counts_of(model, X) if _is_own_form(model, X) else X
    return {**found, "claims": LDA_FOREIGN_CLAIMS}


def _from_sklearn(model: Any) -> dict[str, Any]:
    check_is_fitted(model)
    k = len(model.components_)
    # after a fit by batches nothing adds up to the words of the data; partial_fit counts its batches on
    whole = (
        model.learning_method == "batch"
        and model.n_batch_iter_ == getattr(model, "n_iter_", -1) + 1
    )
    return {
        "components_": model.components_,
        "doc_topic_prior_": np.full(k, float(model.doc_topic_prior_)),
        "topic_word_prior_": float(model.topic_word_prior_),
        "words_add_up_": bool(whole),
        "words_tolerance_": SKLEARN_SHARES,
    }


def _from_gensim(model: Any) -> dict[str, Any]:
    if getattr(model, "state", None) is None:
        raise NotFittedError("this LdaModel has no state; pass it a corpus first.")
    eta = np.asarray(model.eta, np.float64)
    return {
        "components_": np.asarray(model.state.get_lambda(), np.float64),
        "doc_topic_prior_": np.asarray(model.alpha, np.float64),
        "topic_word_prior_": eta if eta.ndim == 2 else float(eta.ravel()[0]),
        "n_features_in_": int(model.num_terms),
        "words_add_up_": False,
    }


def _from_tomotopy(model: Any) -> dict[str, Any]:
    if not len(model.docs) or not len(model.used_vocabs):
        raise NotFittedError("this LDAModel has no documents; add_doc and train it first.")
    k, m, eta = int(model.k), len(model.used_vocabs), float(np.ravel(model.eta)[0])
    shares = np.array([model.get_topic_word_dist(topic) for topic in range(k)], np.float64)
    sizes = np.asarray(model.get_count_by_topics(), np.float64) + m * eta
    alpha = np.asarray(model.alpha, np.float64)
    return {
        "components_": (shares * sizes[:, None]).astype(np.float32),  # as exact as they are told
        "doc_topic_prior_": np.full(k, float(alpha)) if alpha.ndim == 0 else alpha,
        "topic_word_prior_": eta,
        "n_features_in_": m,
        "words_add_up_": True,
    }


# --- documents --------------------------------------------------------------------------------------------------------


def _is_own_form(model: Any, X: Any) -> bool:
    """Whether X is Counts, or documents as gensim and tomotopy take them, rather than some form of a matrix."""
    if hasattr(X, "matrix") and hasattr(X, "words"):
        return True
    matrix = hasattr(X, "shape") or hasattr(X, "__array__")
    return library_of(model) in ("gensim", "tomotopy") and not matrix


def words_of(model: Any) -> list[str] | None:
    """The word of every column of a model; None where it knows none."""
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


def counts_of(model: Any, X: Any) -> Any:
    """Counts over the model's words, (n, m): of Counts, of a matrix, or of documents as gensim and tomotopy take them."""
    words = None if model is None or isinstance(model, tuple) else words_of(model)
    if hasattr(X, "matrix") and hasattr(X, "words"):
        return X.matrix if words is None else _over(X, words)
    if isinstance(X, np.ndarray) or sp.issparse(X) or hasattr(X, "__dataframe__"):
        return X if sp.issparse(X) else np.asarray(X)
    if library_of(model) == "gensim":
        return _from_pairs(X, model)
    if library_of(model) == "tomotopy":
        return _from_tokens(X, words or [])
    return np.asarray(X, np.float64)


def _over(X: Any, words: list[str]) -> Any:
    """Counts in the order of the model's words. Words that it does not know are left out, as a vectoriser does."""
    places = {word: at for at, word in enumerate(words)}
    to = np.array([places.get(str(word), -1) for word in X.words], np.int64)
    if (to < 0).all():
        raise ValueError(
            f"these counts share no word with the {len(words):,} of the model; count documents over its words "
            "(text.counts(documents, vocabulary=…))."
        )
    kept = np.flatnonzero(to >= 0)
    moved = sp.csc_array((X.matrix.shape[0], len(words)), dtype=X.matrix.dtype)
    chooser = sp.csc_array(
        (np.ones(len(kept), X.matrix.dtype), (kept, to[kept])), shape=(len(to), len(words))
    )
    moved = X.matrix @ chooser
    return sp.csr_array(moved)


def _from_pairs(corpus: Any, model: Any) -> Any:
    """gensim's corpus: a document is a list of (place of the word, count); texts are read with its dictionary."""
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
    return _built(indptr, columns, values, m)


def _from_tokens(documents: Any, words: list[str]) -> Any:
    """tomotopy's documents, or lists of words; words that the model does not use are left out."""
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
    return _built(indptr, columns, [1.0] * len(columns), len(words))


def _built(indptr: list[int], columns: list[int], values: list[float], m: int) -> Any:
    if len(indptr) == 1:
        raise ValueError("there are no documents.")
    found = sp.csr_array(
        (np.array(values), np.array(columns, np.int64), np.array(indptr)),
        shape=(len(indptr) - 1, m),
    )
    found.sum_duplicates()
    return found
