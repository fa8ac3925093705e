"""What held-out entries say about a completion: whether it predicts entries like them better than the mean does.

**What is compared.** The error e of the model and the error e₀ of the mean μ of the training entries, at each of N held-out
entries. One entry in a thousand may be wrong by any amount, and no sample of a few hundred would show it: nothing can be said
about E e² unless errors are bounded. So losses are capped, at the square of the range R of the training entries:

    x = (min(e₀², R²) − min(e², R²)) / R²  ∈ [−1, 1],          the model is better where  E x > 0

**What is random.** The held-out entries: drawn independently of each other, from the entries to be predicted, and not seen in
training. (A random split of known entries is such a draw from entries like the known ones.)

**What follows.** Bets on x and on −x bound E x from both sides (kernel/concentration.py): with confidence 1 − δ each.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from lemmata.audit.completion.factored_objective import products_at
from lemmata.audit.kernel.claims import PROVED, STATISTICAL, Evidence, Fit, at_most, claim, unknown
from lemmata.audit.kernel.concentration import HALVINGS
from lemmata.audit.kernel.held_out import beats, mean_gain
from lemmata.completion.observed import Observed

Array = np.ndarray
RISK = 0.05


def _cost(fit: Fit) -> float:
    if fit.y is None:
        return 0.0
    entries = float(getattr(fit.y, "n_observed", 0) or np.size(fit.y))
    return fit.data.n_observed + entries * (np.shape(fit.U_)[1] + 10 * HALVINGS)


@claim(
    "predicts entries like the held-out ones better than the mean, losses capped at the training range",
    kind=STATISTICAL,
    source="CIL 2.1.4; Waudby-Smith & Ramdas 2024",
    cost=_cost,
    confidence=1 - RISK,
)
def held_out_error(fit):
    """A bound on the mean loss of μ minus that of the model, as a share of the former on these entries."""
    given = held_out_entries(fit, "they have no range to cap errors by")
    if not isinstance(given, tuple):
        return given
    test, values, low, high = given
    return _compare(_errors(fit, test, low, high), values.mean() / (high - low), test, high - low)


def held_out_entries(fit: Fit, otherwise: str) -> Any:
    """Held-out entries, training values and their range; or why nothing can be told. `otherwise`: what equal values mean."""
    if fit.y is None:
        return unknown("pass held-out entries: certify(train, test)")
    if str(fit.get("feedback", "explicit")) == "implicit":
        return unknown("implicit feedback predicts preferences, not values; see completion.metrics")
    known, test = fit.data, Observed.of(fit.y)
    if (objection := no_test(known, test)) is not None:
        return objection
    values = known.values.astype(np.float64)
    low, high = float(values.min()), float(values.max())
    if not high > low:
        return unknown(f"the training entries are all equal: {otherwise}")
    return test, values, low, high


def _compare(errors: Array, mean: float, test: Observed, width: float) -> Evidence:
    """All in units of the range."""
    baseline = test.values / width - mean
    squares, of_mean = errors**2, baseline**2
    x = np.minimum(of_mean, 1) - np.minimum(squares, 1)
    scale = float(np.minimum(of_mean, 1).mean()) or 1.0
    rms, plain = (width * math.sqrt(float(part.mean())) for part in (squares, of_mean))
    beyond = int((squares > 1).sum())
    note = f"RMSE {rms:.4g} on {test.n_observed:,} entries, {plain:.4g} of the mean"
    note += f"; {beyond:,} errors beyond the range {width:.4g}" if beyond else ""
    return beats(
        mean_gain(x, RISK),
        note,
        "the mean predicts better: raise reg or lower the rank, by the error on other held-out entries",
        scale=1 / scale,
        undecided=f"too few to tell{_how_many(x)}",
        uncapped=plain - rms,
    )


def _how_many(x: Array) -> str:
    """Entries after which bets on draws like these would reach 1/δ: small stakes gain x̄²/2v each, the largest almost x̄."""
    mean, variance = abs(float(x.mean())), float(x.var())
    if mean == 0:
        return ""
    each = min(mean**2 / (2 * variance) if variance else mean, mean)
    return f"; some {2 * math.log(1 / RISK) / each:,.0f} might do"


def no_test(known: Observed, test: Observed) -> Evidence | None:
    """Why these entries cannot test a fit to the known ones: of another matrix, or trained on. None if they can."""
    if test.shape != known.shape or test.n_observed == 0:
        (n, m), (rows, columns) = known.shape, test.shape
        return unknown(
            f"{test.n_observed} entries of a {rows} × {columns} matrix are none of the {n} × {m} one"
        )
    seen = int(np.isfinite(known.values_at(test.rows, test.columns)).sum())
    if not seen:
        return None
    advice = f"they are no test: hold out entries that were not trained on (Observed.split); {seen:,} of these were"
    return at_most(seen, 0, advice, unit="trained on", kind=PROVED)


def _errors(fit: Fit, test: Observed, low: float, high: float) -> Array:
    """a − x̂ over the range; what overflows is as wrong as can be."""
    with np.errstate(over="ignore", invalid="ignore"):
        errors = test.values.astype(np.float64) / (high - low) - predicted(fit, test, high - low)
    return np.nan_to_num(errors, nan=1e150, posinf=1e150, neginf=-1e150)


def predicted(fit: Fit, test: Observed, width: float) -> Array:
    """x̂ at the places of the held-out entries, in units of the range; what overflows is as far off as can be."""
    (n, m), (indptr, indices, _) = test.shape, test.by_row
    sizes = (n, m)
    s, t, b, c = (
        np.asarray(fit.get(f"{side}_{what}_", np.full(size, default)), np.float64)
        for what, default in (("scale", 1.0), ("bias", 0.0))
        for side, size in zip(("row", "column"), sizes, strict=True)
    )
    with np.errstate(over="ignore", invalid="ignore"):
        U, V = (
            np.asarray(fit.U_, np.float64) * s[:, None],
            np.asarray(fit.V_, np.float64) * t[:, None],
        )
        products = products_at(indptr, indices, U, V)
        offsets = b[test.rows] + c[indices] + float(fit.get("mean_", 0.0))
        found = (offsets + products) / width
    return np.nan_to_num(found, nan=1e150, posinf=1e150, neginf=-1e150)
