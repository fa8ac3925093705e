"""Certify factors from anywhere: another library's fit, a file, a paper's supplement.

    >>> import numpy as np
    >>> A = np.outer([1.0, 2.0, 3.0], [2.0, 1.0])
    >>> found = certify_factors(A, U=[[1.0], [2.0], [3.0]], V=[[2.0], [1.0]], reg=0.0)
    >>> found["global_optimum"].verdict, found.failed
    ('holds', [])

`lemmata.certify(model, X)` does the same for fits of cmfrec (CMF, CMF_implicit) and implicit (AlternatingLeastSquares), whose
attributes audit/completion/foreign.py translates.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from types import SimpleNamespace
from typing import Any

import numpy as np

from lemmata.audit.completion.factors import factor_claims
from lemmata.audit.completion.held_out.ranking import RANKING_CLAIMS
from lemmata.completion.observed import Observed
from lemmata.core.certificate import Certificate, Fit
from lemmata.core.certification.checking import check

Array = np.ndarray


@dataclass(frozen=True, kw_only=True)
class FactorTerms:
    """The objective that factors from elsewhere minimise, but for λ."""

    mean: float = 0.0
    row_bias: Any = None
    column_bias: Any = None
    weighted: bool = False
    biases: bool | None = None
    nonnegative: bool = False
    feedback: str = "explicit"
    alpha: float = 1.0
    confidence_offset: float = 1.0

    def attributes(self, n: int, m: int) -> dict[str, Any]:
        """The attributes of a fitted model that claims read."""
        if self.feedback not in ("explicit", "implicit"):
            raise ValueError(
                f"feedback={self.feedback!r} is not accepted; pass 'explicit' or 'implicit'."
            )
        given = self.row_bias is not None or self.column_bias is not None
        return {
            "mean_": float(self.mean),
            "row_bias_": _offsets(self.row_bias, n, "row_bias"),
            "column_bias_": _offsets(self.column_bias, m, "column_bias"),
            "weighted_reg_": int(self.weighted),
            "biases": given if self.biases is None else self.biases,
            "nonnegative": self.nonnegative,
            "feedback": self.feedback,
            "alpha": float(self.alpha),
            "confidence_offset_": float(self.confidence_offset),
        }


def certify_factors(
    observed: Any,
    U: Any,
    V: Any,
    reg: float,
    *,
    held_out: Any = None,
    seconds: float | None = None,
    **terms: Any,
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
    seconds : float, optional
        How long checking may take; by default as long as it takes.
    """
    A, form = Observed.of(observed), FactorTerms(**terms)
    n, m = A.shape
    if A.n_observed == 0:
        raise ValueError(
            f"the {n} × {m} matrix has no known entries; there is nothing to check the factors against."
        )
    if not isinstance(reg, Real) or not 0 <= float(reg) < np.inf:
        raise ValueError(f"reg={reg!r} is not accepted; pass one number >= 0.")
    U, V = _factor(U, n, "U", "rows"), _factor(V, m, "V", "columns")
    if U.shape[1] != V.shape[1]:
        raise ValueError(
            f"U has {U.shape[1]} factors and V {V.shape[1]}; they should have the same number."
        )
    attributes = {"U_": U, "V_": V, "reg_": float(reg), **form.attributes(n, m)}
    fit = Fit(SimpleNamespace(), A, held_out, attributes=attributes)
    title = (
        f"factors  {n:,} × {m:,}, {A.n_observed:,} observed ({A.density:.2g}), rank {U.shape[1]}"
    )
    claims = factor_claims(attributes["feedback"] == "implicit", bool(attributes["nonnegative"]))
    if held_out is not None:
        claims = (*claims, *RANKING_CLAIMS)
    return check(claims, fit, title, seconds=seconds)


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
