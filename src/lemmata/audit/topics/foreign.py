"""LDA of other libraries in our words: the attributes that the claims read.

scikit-learn's `components_` and gensim's λ are the parameters of q(φ) = Dirichlet(λ): their mean λ/Σλ is the topic. tomotopy
gives (n_zw + η)/(n_z + mη) of its last sample. No library is imported: a model is known by where its class comes from.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

# the shares of a token sum to 1 to this: scikit-learn adds 2e-16 to the divisor
SKLEARN_SHARES = 1e-6
OTHERS = {  # classes that are made from LDA's and are other models
    "AuthorTopicModel", "CTModel", "DMRModel", "DTModel", "GDMRModel", "HDPModel", "HLDAModel", "HPAModel", "LLDAModel",
    "MGLDAModel", "PAModel", "PLDAModel", "PTModel", "SLDAModel",
}  # fmt: skip


def lda_of(model: Any) -> dict[str, Any]:
    """Return what the claims about LDA read, from another library's fit."""
    from lemmata.audit.topics import LDA_FOREIGN_CLAIMS

    if any(cls.__name__ in OTHERS for cls in type(model).__mro__):
        raise TypeError(
            f"a {type(model).__module__}.{type(model).__name__} is another model than LDA, with another prior of topics; what "
            "is known about LDA does not hold for it."
        )
    homes = (cls.__module__.partition(".")[0].lstrip("_") for cls in type(model).__mro__)
    read = next(
        READERS[home.partition("_")[0]] for home in homes if home.startswith(tuple(READERS))
    )
    return {**read(model), "claims": LDA_FOREIGN_CLAIMS}


def _from_sklearn(model: Any) -> dict[str, Any]:
    check_is_fitted(model)
    steps = getattr(model, "n_iter_", -1)
    return {
        "components_": model.components_,
        "doc_topic_prior_": np.full(len(model.components_), float(model.doc_topic_prior_)),
        "topic_word_prior_": float(model.topic_word_prior_),
        # not after batches, which forget, nor after partial_fit, which adds to the number of batches
        "words_add_up_": model.learning_method == "batch" and model.n_batch_iter_ == steps + 1,
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
    return {
        "components_": (shares * sizes[:, None]).astype(
            np.float32
        ),  # as exact as tomotopy's shares
        "doc_topic_prior_": np.zeros(k) + np.asarray(model.alpha, np.float64),
        "topic_word_prior_": eta,
        "n_features_in_": m,
        "words_add_up_": True,
    }


READERS = {"sklearn": _from_sklearn, "gensim": _from_gensim, "tomotopy": _from_tomotopy}
