"""Claims about held-out entries: whether a completion predicts entries like them better than the mean does.

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
from lemmata.audit.completion.identifiability.known_entries import IDENTIFIABLE_CLAIMS
from lemmata.audit.kernel.claims import Evidence, Fit, at_most, proved, statistical, unknown
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


@statistical(
    "predicts entries like the held-out ones better than the mean, losses capped at the training range",
    "CIL 2.1.4; Waudby-Smith & Ramdas 2024",
    cost=_cost,
    confidence=1 - RISK,
)
def held_out_error(fit):
    """A bound on the mean loss of μ minus that of the model, as a share of the former on these entries."""
    given = held_out_entries(fit, "they have no range to cap errors by")
    if not isinstance(given, tuple):
        return given
    test, values, low, high = given
    width = high - low
    with np.errstate(over="ignore", invalid="ignore"):
        errors = test.values.astype(np.float64) / width - predict_entries(fit, test, width)
    errors = np.nan_to_num(errors, nan=1e150, posinf=1e150, neginf=-1e150)  # as wrong as can be
    return _compare(errors, values.mean() / width, test, width)


def held_out_entries(fit: Fit, otherwise: str) -> Any:
    """Return held-out entries, training values and their range; or why the claim can't tell (`otherwise`: equal values)."""
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
        undecided=f"too few to tell{_enough(x)}",
        uncapped=plain - rms,
    )


def _enough(x: Array) -> str:
    """Entries after which bets on draws like these would reach 1/δ: small stakes gain x̄²/2v each, the largest almost x̄."""
    mean, variance = abs(float(x.mean())), float(x.var())
    if mean == 0:
        return ""
    each = min(mean**2 / (2 * variance) if variance else mean, mean)
    return f"; some {2 * math.log(1 / RISK) / each:,.0f} might do"


@proved("none of the held-out entries was trained on", "by counting", cost=_cost)
def entries_unseen(fit):
    """Entries are looked for by their places."""
    if fit.y is None:
        return unknown("pass held-out entries: certify(train, test)")
    known, test = fit.data, Observed.of(fit.y)
    if (why := _why_elsewhere(known, test)) is not None:
        return unknown(why)
    advice = "they are no test: hold out entries that were not trained on (Observed.split)"
    note = f"of {test.n_observed:,} entries"
    return at_most(_count_seen(known, test), 0, advice, unit="trained on", note=note)


def no_test(known: Observed, test: Observed) -> Evidence | None:
    """Return why these entries cannot test a fit to the known ones: of another matrix, or trained on; None if they can."""
    if (why := _why_elsewhere(known, test)) is not None:
        return unknown(why)
    seen = _count_seen(known, test)
    return unknown(f"{seen:,} of these entries were trained on: they are no test") if seen else None


def _why_elsewhere(known: Observed, test: Observed) -> str | None:
    """Say why there are no entries of the same matrix; None if there are."""
    if test.shape == known.shape and test.n_observed > 0:
        return None
    (n, m), given = known.shape, f"{test.n_observed} entries of a {test.shape[0]}"
    return f"{given} × {test.shape[1]} matrix are none of the {n} × {m} one"


def _count_seen(known: Observed, test: Observed) -> int:
    return int(np.isfinite(known.values_at(test.rows, test.columns)).sum())


def predict_entries(fit: Fit, test: Observed, width: float) -> Array:
    """x̂ at the places of the held-out entries, in units of the range; what overflows is as far off as can be."""
    indptr, indices, _ = test.by_row
    (b, s), (c, t) = offsets_and_scales(fit, test.shape)
    with np.errstate(over="ignore", invalid="ignore"):
        U, V = (np.asarray(X, np.float64) * x[:, None] for X, x in ((fit.U_, s), (fit.V_, t)))
        products = products_at(indptr, indices, U, V)
        offsets = b[test.rows] + c[indices] + float(fit.get("mean_", 0.0))
        found = (offsets + products) / width
    return np.nan_to_num(found, nan=1e150, posinf=1e150, neginf=-1e150)


def offsets_and_scales(fit: Fit, shape: tuple[int, int]) -> list[list[Array]]:
    """Offset and scale of every row, then of every column."""
    return [
        [
            np.asarray(fit.get(f"{side}_{what}_", np.full(size, default)), np.float64)
            for what, default in (("bias", 0.0), ("scale", 1.0))
        ]
        for side, size in zip(("row", "column"), shape, strict=True)
    ]


ENTRY_CLAIMS = (*IDENTIFIABLE_CLAIMS, held_out_error)
