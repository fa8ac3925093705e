"""Certify factors from anywhere: another library's fit, a file, a paper's supplement.

    >>> import numpy as np
    >>> A = np.outer([1.0, 2.0, 3.0], [2.0, 1.0])
    >>> found = certify_factors(A, U=[[1.0], [2.0], [3.0]], V=[[2.0], [1.0]], reg=0.0)
    >>> found["global_optimum"].verdict, found.failed
    ('holds', [])

`lemmata.certify(model, X)` does the same for fits of cmfrec (CMF, CMF_implicit) and implicit (AlternatingLeastSquares). Their
λ is ours: they minimise twice our objective (measured: their factors are stationary for F at the same λ). implicit takes αa as
the confidence of what was seen, where Hu, Koren & Volinsky, cmfrec and lemmata take 1 + αa.
"""

from __future__ import annotations

from numbers import Real
from types import SimpleNamespace
from typing import Any

import numpy as np
from sklearn.exceptions import NotFittedError

from lemmata.audit.entries import IDENTIFIABLE
from lemmata.audit.factors import first_order_point, global_optimum, second_order_minimum
from lemmata.audit.heldout import held_out_error
from lemmata.completion.observed import Observed
from lemmata.core.certificate import Certificate, Fit, check

Array = np.ndarray

EXPLICIT = (first_order_point, second_order_minimum, global_optimum, *IDENTIFIABLE, held_out_error)
IMPLICIT = (first_order_point, second_order_minimum, global_optimum)  # every entry is known there


def certify_factors(
    observed: Any,
    U: Any,
    V: Any,
    reg: float,
    *,
    mean: float = 0.0,
    row_bias: Any = None,
    column_bias: Any = None,
    weighted: bool = False,
    biases: bool | None = None,
    nonnegative: bool = False,
    feedback: str = "explicit",
    alpha: float = 1.0,
    confidence_offset: float = 1.0,
    held_out: Any = None,
) -> Certificate:
    """Check every claim about a ≈ mean + b_i + c_j + u_iᵀv_j as a minimiser of ½ Σ(a − …)² + ½λ(‖U‖² + ‖V‖² + ‖b‖² + ‖c‖²).

    Parameters
    ----------
    observed : Observed, or what Observed.of takes
        The entries that the factors were fitted to.
    U, V : arrays of shape (n, k) and (m, k)
    reg : float
        λ. For libraries that minimise Σ(a − …)² + λ(…) it is the same number; for mean squared errors it is λ times the number
        of entries.
    mean, row_bias, column_bias : number, arrays (n,) and (m,), optional
        Offsets.
    weighted : bool, default=False
        Whether λ is multiplied by the number of entries of each row and column.
    biases : bool, optional
        Whether the offsets were fitted with the factors and penalised by the same λ (the default where they are given), or
        removed beforehand.
    nonnegative : bool, default=False
        Whether the factors were kept nonnegative.
    feedback, alpha, confidence_offset
        "implicit": the entries are counts a with confidence confidence_offset + alpha·a.
    held_out : Observed, or what Observed.of takes, optional
        Entries of the same matrix that the fit did not see.
    """
    A = Observed.of(observed)
    n, m = A.shape
    if A.n_observed == 0:
        raise ValueError(
            f"the {n} × {m} matrix has no known entries; there is nothing to check the factors against."
        )
    if feedback not in ("explicit", "implicit"):
        raise ValueError(f"feedback={feedback!r} is not accepted; pass 'explicit' or 'implicit'.")
    if not isinstance(reg, Real) or not 0 <= float(reg) < np.inf:
        raise ValueError(f"reg={reg!r} is not accepted; pass one number >= 0.")
    if biases is None:
        biases = row_bias is not None or column_bias is not None
    U, V = _factor(U, n, "U", "rows"), _factor(V, m, "V", "columns")
    if U.shape[1] != V.shape[1]:
        raise ValueError(
            f"U has {U.shape[1]} factors and V {V.shape[1]}; they should have the same number."
        )
    attributes = {
        "U_": U,
        "V_": V,
        "mean_": float(mean),
        "row_bias_": _offsets(row_bias, n, "row_bias"),
        "column_bias_": _offsets(column_bias, m, "column_bias"),
        "reg_": float(reg),
        "weighted_reg_": int(weighted),
        "biases": biases,
        "nonnegative": nonnegative,
        "feedback": feedback,
        "alpha": float(alpha),
        "confidence_offset_": float(confidence_offset),
    }
    fit = Fit(SimpleNamespace(), A, held_out, attributes=attributes)
    title = (
        f"factors  {n:,} × {m:,}, {A.n_observed:,} observed ({A.density:.2g}), rank {U.shape[1]}"
    )
    return check(EXPLICIT if feedback == "explicit" else IMPLICIT, fit, title)


def _factor(given: Any, size: int, name: str, what: str) -> Array:
    """A factor matrix of `size` rows; a transposed one is refused by name, since guessing would be wrong when k = size."""
    X = np.asarray(given)
    if X.ndim != 2 or X.dtype.kind not in "biuf":
        raise ValueError(
            f"{name} has shape {X.shape} and dtype {X.dtype}; pass numbers of shape ({size}, k)."
        )
    if len(X) != size:
        hint = f" It looks transposed: pass {name}.T." if X.shape[1] == size else ""
        raise ValueError(
            f"{name} has shape {X.shape}, but the matrix has {size} {what}; pass ({size}, k).{hint}"
        )
    if not np.isfinite(X).all():
        raise ValueError(f"{name} contains NaN or infinity.")
    return X if X.dtype in (np.float32, np.float64) else X.astype(np.float64)


def _offsets(given: Any, size: int, name: str) -> Array:
    x = np.zeros(size) if given is None else np.asarray(given, dtype=np.float64)
    if x.shape != (size,) or not np.isfinite(x).all():
        raise ValueError(f"{name} has shape {x.shape}; pass {size} finite numbers.")
    return x


# --- other libraries --------------------------------------------------------------------------------------------------


def foreign_factors(model: Any) -> dict[str, Any]:
    """The attributes that the claims need, from a fit of cmfrec or implicit (`ALS.foreign_attributes`)."""
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
    common = {
        "row_bias_": np.zeros(n),
        "column_bias_": np.zeros(m),
        "row_scale_": np.ones(n),
        "column_scale_": np.ones(m),
        "mean_": 0.0,
        "biases": False,
        "nonnegative": False,
        "weighted_reg_": 0,
        "feedback": "explicit",
        "n_features_in_": m,
    }
    found = {**common, **found}
    return {**found, "claims": EXPLICIT if found["feedback"] == "explicit" else IMPLICIT}


def _from_implicit(model: Any) -> dict[str, Any]:
    if model.user_factors is None:
        raise NotFittedError(
            "this AlternatingLeastSquares is not fitted yet; call its fit(user_items) first."
        )
    U, V = (
        np.asarray(part.to_numpy() if hasattr(part, "to_numpy") else part)
        for part in (model.user_factors, model.item_factors)
    )
    return {
        "U_": U,
        "V_": V,
        "reg_": float(model.regularization),
        "feedback": "implicit",
        "alpha": float(model.alpha),
        "confidence_offset_": 0.0,
    }


def _from_cmfrec(model: Any) -> dict[str, Any]:
    if not model.is_fitted_:
        raise NotFittedError(
            f"this {type(model).__name__} is not fitted yet; call its fit(X) first."
        )
    _refuse_other_objectives(model)
    found = {
        "U_": model.A_,
        "V_": model.B_,
        "reg_": float(np.ravel(model.lambda_)[-1]),
        "nonnegative": bool(model.nonneg),
    }
    if type(model).__name__.startswith("CMF_implicit"):
        return {
            **found,
            "feedback": "implicit",
            "alpha": float(model.alpha),
            "confidence_offset_": 1.0,
        }
    found |= {
        "mean_": float(model.glob_mean_),
        "weighted_reg_": int(model.scale_lam),
        "biases": bool(model.user_bias),
    }
    if model.user_bias:
        found |= {
            "row_bias_": np.asarray(model.user_bias_),
            "column_bias_": np.asarray(model.item_bias_),
        }
    return found


def _refuse_other_objectives(model: Any) -> None:
    """CMF minimises more than one objective; ours is the plain one, with the same λ for everything."""
    penalties, one_sided = (
        np.ravel(model.lambda_),
        getattr(model, "user_bias", False) != getattr(model, "item_bias", False),
    )
    other = {
        "a DataFrame (its own order of users and items)": getattr(model, "reindex_", False),
        "several lambda_": bool((penalties != penalties[0]).any()),
        "l1_lambda": bool(np.any(model.l1_lambda)),
        "side information": any(
            np.size(getattr(model, name, ())) for name in ("C_", "D_", "Cbin_", "Dbin_")
        ),
        "add_implicit_features": getattr(model, "add_implicit_features", False),
        "NA_as_zero": getattr(model, "NA_as_zero", False),
        "k_user, k_item or k_main": bool(model.k_user or model.k_item or model.k_main),
        "w_main": model.w_main != 1.0,
        "scale_bias_const": getattr(model, "scale_bias_const", False)
        and getattr(model, "user_bias", False),
        "biases on one side only": one_sided,
    }
    used = [name for name, is_used in other.items() if is_used]
    if used:
        raise ValueError(
            f"this {type(model).__name__} was fitted with {', '.join(used)}, which is another objective (or order) than the "
            "claims speak of; pass the factors themselves to lemmata.completion.certify_factors if they are what you want."
        )
