"""scikit-learn's sparse coders and dictionaries in our words (see foreign.py).

scikit-learn's ℓ1 codes minimise ½‖x − zD‖² + α‖z‖₁ as ours do, α being transform_alpha (1 where that is None, or the alpha
of the fit). Its dictionaries have atoms of length at most 1. An OrthogonalMatchingPursuit is one code: columns are atoms, y
the signal.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lemmata.audit.kernel.attributes import attributes_sound
from lemmata.audit.reduction import dictionaries
from lemmata.audit.reduction import sparse_codes as codes

PENALISED = ("lasso_lars", "lasso_cd")
REGRESSION_CLAIMS = (attributes_sound({"coef_": "d", "intercept_?": ""}), *codes.CODER_CLAIMS[1:-1])


def components_of(model: Any) -> dict[str, Any]:
    """scikit-learn's TruncatedSVD does not centre: its mean is zero."""
    return {} if hasattr(model, "mean_") else {"mean_": np.zeros(model.components_.shape[1])}


def coder_of(model: Any) -> dict[str, Any]:
    """SparseCoder, or the one code of an OrthogonalMatchingPursuit."""
    if not hasattr(model, "dictionary"):
        return _pursuit(model)
    D = np.asarray(model.dictionary)
    claims = (codes.CODER_CLAIMS, codes.PENALISED_CODER_CLAIMS, codes.PLAIN_CODER_CLAIMS)
    given = {"components_": D, "n_features_in_": D.shape[1], "dictionary": None}
    return {**given, **_codes(model, 1.0, *claims)}


def dictionary_of(model: Any) -> dict[str, Any]:
    """DictionaryLearning and MiniBatchDictionaryLearning."""
    claims = (dictionaries.COUNTED_CLAIMS, dictionaries.PENALISED_CLAIMS, dictionaries.PLAIN_CLAIMS)
    more = dictionaries.MORE_CLAIMS[1:]
    return _codes(model, float(model.alpha), *(one + more for one in claims))


def _codes(
    model: Any, usual: float, counted: tuple, penalised: tuple, plain: tuple
) -> dict[str, Any]:
    """The penalty of the codes, and the claims about codes of that kind."""
    how, alpha = model.transform_algorithm, model.transform_alpha
    claims = counted if how == "omp" else penalised if how in PENALISED else plain
    penalty = (usual if alpha is None else float(alpha)) if how in PENALISED else 0.0
    return {"penalty_": penalty, "n_nonzero_": None, "claims": claims}


def _pursuit(model: Any) -> dict[str, Any]:
    if np.ndim(model.coef_) != 1:
        raise ValueError(
            f"this {type(model).__name__} has coef_ of shape {np.shape(model.coef_)}; the claims are about one target: "
            "fit one at a time."
        )
    return {"regression_": True, "claims": REGRESSION_CLAIMS}
