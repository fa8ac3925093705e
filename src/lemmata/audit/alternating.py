"""What theory promises about a fit by alternating least squares, besides what holds for all completions (claims.py).

Rows (and columns) are looked at one by one, by plain code: with the other side fixed, row i has the quadratic objective

    f_i(w) = ½ wᵀH w − wᵀh + …,   H = Σ_j ω_ij z_j z_jᵀ + λ_i I,   z_j = (v_j, 1),   w = (u_i, b_i)                 (CIL (2.35))

so that solving it would lower the objective by exactly ½ gᵀH⁻¹g with g = Hw − h. At a fixed point all g are zero (CIL (2.38)).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from lemmata.audit.entries import IDENTIFIABLE
from lemmata.audit.factors import (
    first_order_point,
    global_optimum,
    never_rose,
    second_order_minimum,
)
from lemmata.audit.heldout import held_out_error
from lemmata.audit.runs import steps_shrink
from lemmata.core.certificate import RULE_OF_THUMB, Fit, at_least, at_most, claim
from lemmata.core.engine import one_blas_thread

Array = np.ndarray

GAIN = 1e-4  # of the objective of the rows looked at; the default tol is a tenth of it
NOISE_LEFT = 0.01  # of the objective: what stochastic steps may leave behind
SAMPLE = 200  # rows, and columns, evenly spread: this claim is checked in every fit, and should cost less than a sweep


def _rows_one_by_one(fit: Fit, columns: bool) -> Iterator[tuple[Array, Array, Array, float]]:
    """(w, H, g, f) of up to SAMPLE rows, or columns: their factors, Hessian, gradient and objective."""
    data = fit.data.T if columns else fit.data
    U, V, b, c = fit.U_, fit.V_, fit.row_bias_, fit.column_bias_
    if columns:
        U, V, b, c = V, U, c, b
    implicit = getattr(fit.model, "feedback", "explicit") == "implicit"
    biases = bool(getattr(fit.model, "biases", False)) and not implicit
    Z = np.column_stack([V, np.ones(len(V))]) if biases else V
    Z, gram = Z.astype(np.float64), V.T.astype(np.float64) @ V
    indptr, indices, values = data.by_row
    for i in np.unique(np.linspace(0, len(U) - 1, min(SAMPLE, len(U))).astype(int)):
        here = slice(indptr[i], indptr[i + 1])
        z, a = Z[indices[here]], values[here].astype(np.float64)
        w = np.append(U[i], b[i]).astype(np.float64) if biases else U[i].astype(np.float64)
        ridge = fit.reg_ * (len(a) if fit.weighted_reg_ else 1) * np.eye(len(w))
        if implicit:
            weight, wanted = 1 + fit.model.alpha * a, (a > 0).astype(np.float64)
            H = gram + (z.T * (weight - 1)) @ z + ridge
            h, constant = z.T @ (weight * wanted), weight @ wanted
        else:
            wanted = a - fit.mean_ - c[indices[here]]
            H, h, constant = z.T @ z + ridge, z.T @ wanted, wanted @ wanted
        yield w, H, H @ w - h, 0.5 * constant - w @ h + 0.5 * w @ H @ w


def _share(fit: Fit, gain: Callable[[Array, Array, Array], float]) -> float:
    """The gain as a share of the objective of the rows, or of the columns, whichever is larger."""
    shares = []
    with one_blas_thread():  # thousands of tiny products: threads would only wait for each other
        for columns in (False, True):
            gained = total = 0.0
            for w, H, g, f in _rows_one_by_one(fit, columns):
                gained, total = gained + gain(w, H, g), total + f
            shares.append(gained / max(total, np.finfo(float).tiny))
    return max(shares)


@claim(
    "a fixed point: solving any side again gains less than 0.01 % of the objective",
    kind=RULE_OF_THUMB,
    source="CIL (2.38)",
)
def fixed_point(fit):
    """½ gᵀH⁻¹g per row, summed over up to SAMPLE rows and as many columns."""

    def gain(w, H, g):
        if H.diagonal().min() > 0 and fit.reg_ > 0:  # else λ = 0, or a row without entries
            return 0.5 * float(g @ np.linalg.solve(H, g))
        return 0.5 * float(g @ np.linalg.lstsq(H, g, rcond=None)[0])

    note = (
        f"measured on {SAMPLE} rows and columns, evenly spread"
        if max(fit.data.shape) > SAMPLE
        else ""
    )
    return at_most(_share(fit, gain), GAIN, "lower tol, or raise max_iter", unit="gain", note=note)


@claim("the factors are nonnegative", kind=RULE_OF_THUMB, source="CIL 2.4")
def nonnegative_factors(fit):
    return at_least(
        min(fit.U_.min(), fit.V_.min()), 0.0, "fit with nonnegative=True", unit="smallest"
    )


@claim(
    "solving either side exactly would gain less than 1 % of the objective",
    kind=RULE_OF_THUMB,
    source="CIL (2.38)",
)
def near_fixed_point(fit):
    """The gain of half a sweep of ALS from here: what noise, or too few epochs, left behind. See `fixed_point` of ALS."""
    advice = "raise max_iter and lower tol; with a learning_rate of your own, give it more decay"
    found = fixed_point.check(fit)
    return at_most(found.measured, NOISE_LEFT, advice, unit="gain", note=found.note)


EXPLICIT_CLAIMS = (
    never_rose,
    fixed_point,
    first_order_point,
    second_order_minimum,
    global_optimum,
    *IDENTIFIABLE,
    held_out_error,
)
NONNEGATIVE_CLAIMS = (
    never_rose,
    nonnegative_factors,
    first_order_point,
    *IDENTIFIABLE,
    held_out_error,
)
IMPLICIT_CLAIMS = (never_rose, fixed_point, first_order_point, second_order_minimum, global_optimum)
SGD_CLAIMS = (never_rose, near_fixed_point, first_order_point, *IDENTIFIABLE, held_out_error)
SCHEDULED_SGD_CLAIMS = (steps_shrink, *SGD_CLAIMS[1:])
