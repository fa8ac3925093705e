"""Claims about factors on held-out entries: they predict better than offsets of rows and columns alone.

**What is compared.** At each held-out entry a_ij the prediction p of the model with that of plain offsets, fitted here to the
training entries,

    q_ij = μ + b_i + c_j,        minimising  ½ Σ_Ω (a_ij − q_ij)² + ½ κ (‖b‖² + ‖c‖²),   κ = 3             (CIL 2.1.4)

The gain at an entry is what its squared error loses, and that of a row (a user) the mean over its held-out entries:

    x_ij = (a_ij − q_ij)² − (a_ij − p_ij)²  =  (p_ij − q_ij)(2a_ij − p_ij − q_ij),            x_i = mean_j x_ij

**What is random.** The held-out values, given the training entries, the places, and what rows and columns are like: the values
of one row independently of those of the others. Entries of one row may depend on each other as they like, so rows are what is
counted, each once, however many entries it has; rows need not be alike. The claim is about the mean of E x_i over these rows
and places, and says nothing of others. Values count as cut to the range [l, h] of the training entries.

**What follows.** x_ij is linear in a_ij, so the least it can be, at a = l or a = h, is known before the value is: x_i ≥ −L for
all rows, and bets on numbers that are not alike (kernel/concentration.py) bound the mean of E x_i with confidence 1 − δ; those
on −x give the upper bound. Where predictions are close to offsets, x is small and so is L: stakes need not fear the range of
the data, only what the two may differ by.

Over entries, rather than rows, the sign may be another; then the claim is left undecided.
"""

from __future__ import annotations

import math

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import lsqr

from lemmata.audit.completion.held_out.error import held_out_entries, predict_entries
from lemmata.audit.kernel.claims import Fit, statistical, unknown
from lemmata.audit.kernel.concentration import HALVINGS, MOST_STAKES
from lemmata.audit.kernel.held_out import beats, mean_gain
from lemmata.completion.observed import Observed

Array = np.ndarray
RISK = 0.05  # of each bound
KAPPA = 3.0  # average entries added to every row and column
ACCURACY, MOST_STEPS = 1e-8, 300  # of the offsets
FARTHEST = 1e70  # predictions beyond it, in units of the range: their squares have to be numbers
SAME = 1e-9  # of the range: predictions that differ by less are the same


def _cost(fit: Fit) -> float:
    if fit.y is None:
        return 0.0
    held_out = float(getattr(fit.y, "n_observed", 0) or np.size(fit.y))
    bets = 2.0 * MOST_STAKES * HALVINGS * 10 * min(held_out, fit.data.shape[0])
    return 400.0 * fit.data.n_observed + held_out * (np.shape(fit.U_)[1] + 20) + bets


@statistical(
    "at the held-out places it predicts better than offsets of rows and columns alone: squared errors, mean over rows",
    "CIL 2.1.4; Waudby-Smith & Ramdas 2024",
    cost=_cost,
    confidence=1 - RISK,
)
def beats_offsets(fit):
    """Bounds on the mean gain in squared error over ridge offsets, row by row, as a share of the error of offsets."""
    given = held_out_entries(fit, "offsets predict them without error")
    if not isinstance(given, tuple):
        return given
    test, values, low, high = given
    width = high - low
    with np.errstate(over="ignore", invalid="ignore"):
        mean = float((values / width).mean())
        p = np.clip(predict_entries(fit, test, width) - mean, -FARTHEST, FARTHEST)
    q = offsets_at(fit.data, values / width - mean, test)
    a = test.values.astype(np.float64) / width - mean
    return _compare(a, p, q, (low / width - mean, high / width - mean), test, width)


def _compare(a: Array, p: Array, q: Array, ends: tuple[float, float], test: Observed, width: float):
    """All in units of the range, from the mean of the training entries."""
    rows = test.rows
    inside = np.clip(a, *ends)
    own, plain = (a - p) ** 2, (a - q) ** 2
    rms, of_offsets = (width * math.sqrt(float(part.mean())) for part in (own, plain))
    note = f"RMSE {rms:.4g} on {test.n_observed:,} entries, {of_offsets:.4g} of offsets"
    if np.abs(p - q).max() <= SAME:
        return unknown(f"{note}: it predicts what offsets predict")
    x = _row_means((p - q) * (2 * inside - p - q), rows)
    at_ends = [(p - q) * (2 * end - p - q) for end in ends]
    least, most = (_row_means(function(*at_ends), rows) for function in (np.minimum, np.maximum))
    found = mean_gain(x, RISK, float(least.min()), float(most.max()), alike=False)
    scale = float(_row_means((inside - q) ** 2, rows).mean()) or 1.0
    shares = f"{found.lower / scale:+.2g} to {found.upper / scale:+.2g}"
    note += f"; {len(x):,} rows gain {shares} of the squared error"
    beyond = int((inside != a).sum())
    note += f"; {beyond:,} values cut to the range" if beyond else ""
    if (found.upper < 0 and rms <= of_offsets) or (found.lower > 0 and rms >= of_offsets):
        return unknown(f"{note}: not over entries")
    advice = "offsets predict better: fit MeanRatings(), or ALS(rank='auto', reg='auto')"
    return beats(found, note, advice, scale=1 / scale)


def offsets_at(known: Observed, centred: Array, test: Observed) -> Array:
    """b_i + c_j of the training entries at the places of others; rows and columns without entries have none.

    centred : the training values less their mean, in the order of `known.by_row`
    """
    (n, m), N = known.shape, known.n_observed
    places = np.column_stack([known.rows, n + known.columns.astype(np.int64)]).ravel()
    design = sp.csr_array((np.ones(2 * N), places, 2 * np.arange(N + 1)), shape=(N, n + m))
    accuracy = {"atol": ACCURACY, "btol": ACCURACY, "iter_lim": MOST_STEPS}
    found = lsqr(design, centred, damp=math.sqrt(KAPPA), **accuracy)[0]
    return found[test.rows] + found[n + test.columns.astype(np.int64)]


def _row_means(x: Array, rows: Array) -> Array:
    """Means over the entries of each row that has any."""
    counts = np.bincount(rows)
    return (np.bincount(rows, x)[counts > 0]) / counts[counts > 0]


OFFSET_CLAIMS = (beats_offsets,)
