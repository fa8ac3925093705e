"""scikit-learn's sparse coders and dictionaries in our words (see foreign.py).

scikit-learn's ℓ1 codes minimise ½‖x − zD‖² + α‖z‖₁ as ours do, α being transform_alpha (1 where that is None, or the alpha
of the fit). Its dictionaries have atoms of length at most 1. An OrthogonalMatchingPursuit is one code: columns are atoms, y
the signal.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lemmata.audit.kernel.attributes import attributes_sound
from lemmata.audit.reduction.dictionaries import (
    COUNTED_CLAIMS,
    MORE_CLAIMS,
    PENALISED_CLAIMS,
    PLAIN_CLAIMS,
)
from lemmata.audit.reduction.sparse_codes import (
    CODER_CLAIMS,
    PENALISED_CODER_CLAIMS,
    PLAIN_CODER_CLAIMS,
    TRUE,
    exact_recovery,
    fitted_on_support,
    unique_sparsest,
)

PENALISED = ("lasso_lars", "lasso_cd")
REGRESSION_CLAIMS = (
    attributes_sound({"coef_": "d", "intercept_?": ""}),
    TRUE,
    fitted_on_support,
    unique_sparsest,
    exact_recovery,
)


def components_of(model: Any) -> dict[str, Any]:
    """scikit-learn's TruncatedSVD does not centre: its mean is zero."""
    return {} if hasattr(model, "mean_") else {"mean_": np.zeros(model.components_.shape[1])}


def coder_of(model: Any) -> dict[str, Any]:
    """SparseCoder, or the one code of an OrthogonalMatchingPursuit."""
    if not hasattr(model, "dictionary"):
        return _pursuit(model)
    D = np.asarray(model.dictionary)
    how = model.transform_algorithm
    found = {"components_": D, "n_features_in_": D.shape[1], "dictionary": None}
    return {
        **found,
        **_codes(model, how, 1.0),
        "claims": _chosen(how, CODER_CLAIMS, PENALISED_CODER_CLAIMS, PLAIN_CODER_CLAIMS),
    }


def dictionary_of(model: Any) -> dict[str, Any]:
    """DictionaryLearning and MiniBatchDictionaryLearning."""
    how = model.transform_algorithm
    claims = _chosen(how, COUNTED_CLAIMS, PENALISED_CLAIMS, PLAIN_CLAIMS) + MORE_CLAIMS[1:]
    return {**_codes(model, how, float(model.alpha)), "claims": claims}


def _codes(model: Any, how: str, usual: float) -> dict[str, Any]:
    alpha = model.transform_alpha
    penalty = (usual if alpha is None else float(alpha)) if how in PENALISED else 0.0
    return {"penalty_": penalty, "n_nonzero_": None}


def _chosen(how: str, counted: tuple, penalised: tuple, plain: tuple) -> tuple:
    return counted if how == "omp" else penalised if how in PENALISED else plain


def _pursuit(model: Any) -> dict[str, Any]:
    if np.ndim(model.coef_) != 1:
        raise ValueError(
            f"this {type(model).__name__} has coef_ of shape {np.shape(model.coef_)}; the claims are about one target: "
            "fit one at a time."
        )
    return {"regression_": True, "claims": REGRESSION_CLAIMS}
