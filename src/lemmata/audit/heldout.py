"""What held-out entries say about a completion: an error with a bound, for entries that nobody trained on."""

from __future__ import annotations

import math

import numpy as np

from lemmata.audit.factored import products_at
from lemmata.audit.factors import get, implicit
from lemmata.completion.observed import Observed
from lemmata.core.certificate import RULE_OF_THUMB, Fit, at_most, claim, unknown

Array = np.ndarray
HELD_OUT_RISK = 0.05  # of the Hoeffding interval


@claim(
    "on held-out entries better than the mean, with 95 % confidence",
    kind=RULE_OF_THUMB,
    source="CIL 2.1.4, Hoeffding",
)
def held_out_error(fit):
    """Squared errors lie in [0, w²] if predictions are clipped to the range w of the values, so, with probability 1 − δ,

    E[error²] ≤ their mean over N held-out entries + w² √(ln(1/δ) / 2N)
    """
    if fit.y is None:
        return unknown("pass held-out entries: certify(train, test)")
    if implicit(fit):
        return unknown("implicit feedback predicts preferences, not values; see completion.metrics")
    test = Observed.of(fit.y)
    if test.shape != fit.data.shape or test.n_observed == 0:
        return unknown(
            f"{test!r} are no held-out entries of the {fit.data.shape[0]} × {fit.data.shape[1]} matrix"
        )
    known, wanted = fit.data.values, test.values.astype(np.float64)
    low = float(min(known.min(initial=np.inf), wanted.min()))
    high = float(max(known.max(initial=-np.inf), wanted.max()))
    return _hoeffding(_squared_error(fit, test, low, high), wanted, known, high - low)


def _hoeffding(error: float, wanted: Array, known: Array, width: float):
    baseline = float(np.mean((wanted - (known.mean(dtype=np.float64) if len(known) else 0.0)) ** 2))
    above = error + width**2 * math.sqrt(math.log(1 / HELD_OUT_RISK) / (2 * len(wanted)))
    if error < baseline < above:
        return unknown(
            f"RMSE {math.sqrt(error):.4g} against {math.sqrt(baseline):.4g} of the mean, but {len(wanted):,} entries leave "
            f"up to {math.sqrt(above):.4g}"
        )
    note = f"RMSE {math.sqrt(error):.4g} on {len(wanted):,} held-out entries"
    advice = "it predicts no better than the mean: raise reg, lower the rank, or read the claims about the entries"
    return at_most(math.sqrt(above), math.sqrt(baseline), advice, unit="RMSE below", note=note)


def _squared_error(fit: Fit, test: Observed, low: float, high: float) -> float:
    """The mean squared error of predictions clipped to [low, high]."""
    (n, m), (indptr, indices, values) = test.shape, test.by_row
    s, t = (
        np.asarray(get(fit, f"{side}_scale_", np.ones(size)), float)
        for side, size in (("row", n), ("column", m))
    )
    b, c = (
        np.asarray(get(fit, f"{side}_bias_", np.zeros(size)), float)
        for side, size in (("row", n), ("column", m))
    )
    U, V = np.asarray(fit.U_, float) * s[:, None], np.asarray(fit.V_, float) * t[:, None]
    predicted = (
        products_at(indptr, indices, U, V)
        + b[test.rows]
        + c[indices]
        + float(get(fit, "mean_", 0.0))
    )
    return float(np.mean((np.clip(predicted, low, high) - values) ** 2))
