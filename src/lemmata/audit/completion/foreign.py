"""Factors of cmfrec and implicit by the names of our attributes.

Every claim believes an adapter, so it belongs to what one has to trust. It refuses fits whose objective is not
the one that the claims speak of. The λ of cmfrec and implicit is ours: they minimise twice our objective (measured: their
factors are stationary for F at the same λ). implicit takes αa as the confidence of what was seen, where Hu, Koren & Volinsky,
cmfrec and lemmata take 1 + αa.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.exceptions import NotFittedError

from lemmata.audit.completion.factors import factor_claims


def factors_of(model: Any) -> dict[str, Any]:
    """The attributes that the claims need, from a fit of cmfrec or implicit."""
    if hasattr(model, "user_factors") and hasattr(model, "regularization"):
        found = _from_implicit(model)
    elif hasattr(model, "is_fitted_") and hasattr(model, "lambda_"):
        found = _from_cmfrec(model)
    else:
        raise TypeError(
            f"the factors of a {type(model).__module__}.{type(model).__name__} are not known by name; "
            "pass them to lemmata.completion.certify_factors."
        )
    n, m = len(found["U_"]), len(found["V_"])
    common: dict[str, Any] = {"biases": False, "nonnegative": False, "feedback": "explicit"}
    common |= {"row_bias_": np.zeros(n), "row_scale_": np.ones(n), "n_features_in_": m}
    common |= {"column_bias_": np.zeros(m), "column_scale_": np.ones(m)}
    found = {**common, "mean_": 0.0, "weighted_reg_": 0, **found}
    claims = factor_claims(found["feedback"] == "implicit", found["nonnegative"])
    return {**found, "claims": claims}


def _from_implicit(model: Any) -> dict[str, Any]:
    if model.user_factors is None:
        raise NotFittedError(
            "this AlternatingLeastSquares is not fitted yet; call its fit(user_items) first."
        )
    pair = (model.user_factors, model.item_factors)
    U, V = (np.asarray(X.to_numpy() if hasattr(X, "to_numpy") else X) for X in pair)  # from a GPU
    found = {"U_": U, "V_": V, "reg_": float(model.regularization)}
    return {**found, **_implicit(model.alpha, 0.0)}


def _implicit(alpha: float, offset: float) -> dict[str, Any]:
    return {"feedback": "implicit", "alpha": float(alpha), "confidence_offset_": offset}


def _from_cmfrec(model: Any) -> dict[str, Any]:
    if not model.is_fitted_:
        raise NotFittedError(f"this {type(model).__name__} is not fitted; call its fit(X) first.")
    _refuse_other_objectives(model)
    found = {"U_": model.A_, "V_": model.B_, "nonnegative": bool(model.nonneg)}
    found["reg_"] = float(np.ravel(model.lambda_)[-1])
    if type(model).__name__.startswith("CMF_implicit"):
        return {**found, **_implicit(model.alpha, 1.0)}
    found |= {"mean_": float(model.glob_mean_), "weighted_reg_": int(model.scale_lam)}
    found["biases"] = bool(model.user_bias)
    if model.user_bias:
        offsets = {"row_bias_": model.user_bias_, "column_bias_": model.item_bias_}
        found |= {name: np.asarray(offset) for name, offset in offsets.items()}
    return found


def _refuse_other_objectives(model: Any) -> None:
    """CMF minimises more than one objective; ours is the plain one, with the same λ for everything."""
    penalties, parts = np.ravel(model.lambda_), ("C_", "D_", "Cbin_", "Dbin_")
    biases = getattr(model, "user_bias", False), getattr(model, "item_bias", False)
    other = {
        "a DataFrame (its own order of users and items)": getattr(model, "reindex_", False),
        "several lambda_": bool((penalties != penalties[0]).any()),
        "l1_lambda": bool(np.any(model.l1_lambda)),
        "side information": any(np.size(getattr(model, name, ())) for name in parts),
        "add_implicit_features": getattr(model, "add_implicit_features", False),
        "NA_as_zero": getattr(model, "NA_as_zero", False),
        "k_user, k_item or k_main": bool(model.k_user or model.k_item or model.k_main),
        "w_main": model.w_main != 1.0,
        "scale_bias_const": getattr(model, "scale_bias_const", False) and biases[0],
        "biases on one side only": biases[0] != biases[1],
    }
    used = [name for name, is_used in other.items() if is_used]
    if used:
        raise ValueError(
            f"this {type(model).__name__} was fitted with {', '.join(used)}, which is another objective (or order) than the "
            "claims speak of; pass the factors themselves to lemmata.completion.certify_factors if they are what you want."
        )
