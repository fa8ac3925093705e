"""Claims about one nearest neighbour and the bound of its error, for X in the unit cube and |η(x) − η(x′)| ≤ c‖x − x′‖.

    E L(f_S)  ≤  2L* + c E‖X − nbh(X)‖                                                        ML "Generalization bound for 1-NN"
              ≤  2L* + c√d min_m (m^d/(eN) + 1/m)  ≤  2L* + 4c√d N^(−1/(d+1))

Cut the cube into m^d boxes of side 1/m. If a row lies in the box of X, the nearest is at most √d/m away, else √d at most; the
latter has probability Σ p(1 − p)^N ≤ m^d/(eN), for p(1 − p)^N is largest at p = 1/(N + 1). With m = ⌊N^(1/(d+1))⌋ the sum is at
most (1/e + 2) N^(−1/(d+1)), so the 4 of the notes is more than enough.

The first line holds for every N. Rows are parted into small groups; in each, one row is predicted by its nearest neighbour
among the others: independent draws of 1(Y ≠ Y′) − c‖X − X′‖, whose mean is at most 2L*, or c and L* are not what was stated.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist

from lemmata.audit.kernel import claims as k
from lemmata.audit.kernel.concentration import betting
from lemmata.audit.trust.generalisation import RISK, at_asked_confidence, why_copies

Array = np.ndarray
SOURCE = "ML Generalization bound for 1-NN"
SIDES = 3  # sides of boxes beside the best real number; more than is needed


def bound_distance(n: float, d: int) -> float:
    """Return √d min_m (m^d/(eN) + 1/m), which E‖X − nbh(X)‖ does not exceed; √d at most."""
    best = (math.e * n / d) ** (1 / (d + 1))  # where the derivative vanishes
    sides = [max(math.floor(best) + i, 1) for i in range(SIDES)]
    empty = [math.exp(min(d * math.log(m) - 1 - math.log(n), 700.0)) for m in sides]
    return math.sqrt(d) * min(1.0, *(p + 1 / m for p, m in zip(empty, sides, strict=True)))


def count_rows(distance: float, d: int) -> float:
    """Return the least N at which `bound_distance` is at most so much; infinite beyond 1e300."""
    wanted = distance / math.sqrt(d)
    if wanted >= 1:
        return 1.0
    best = (d + 1) / (d * wanted)
    found = math.inf
    for m in {math.floor(best), math.ceil(best), math.ceil(best) + 1}:
        left = wanted - 1 / m
        log = d * math.log(m) - 1 - math.log(left) if left > 0 else math.inf
        found = min(found, math.ceil(math.exp(log)) if log < 690 else math.inf)
    return found


@k.fact(cost=k.passes(4))
def draws(fit: k.Fit) -> tuple[Array, Array]:
    """Return (wrong or not, distance to the nearest): one row of each group, predicted by the others."""
    X, y, n = fit.X, fit.y, len(fit.X)
    size = max(4, round(n ** (1 / 3)))
    if n < 10 * size:
        raise k.CannotTell(f"{n} rows; ten groups of {size} are the least")
    groups = np.random.default_rng(0).permutation(n)[: n - n % size].reshape(-1, size)
    wrong, apart = np.empty(len(groups)), np.empty(len(groups))
    for i, (row, *others) in enumerate(groups):
        away = cdist(X[row][None], X[others])[0]
        nearest = int(away.argmin())
        wrong[i], apart[i] = y[row] != y[others[nearest]], away[nearest]
    return wrong, apart


@k.fact(cost=k.passes(4))
def least_constant(fit: k.Fit) -> float:
    """Return what c is at least: E(Y_a − Y_b) over E‖a − b‖, of rows a, b on two sides of a cut that other rows chose."""
    X, y, n = fit.X, np.asarray(fit.y, np.float64), len(fit.X)
    order = np.random.default_rng(1).permutation(n)
    first, second = order[: n // 2], order[n // 2 :]
    middle = np.median(X[first], axis=0)
    sides = X[first] > middle
    leans = (sides * 2.0 - 1).T @ (y[first] - y[first].mean())
    j = int(np.abs(leans).argmax())
    above = X[second, j] > middle[j]
    high, low = (second[above], second[~above])[:: 1 if leans[j] >= 0 else -1]
    pairs = min(len(high), len(low))
    if pairs < 2:
        return 0.0
    high, low = high[:pairs], low[:pairs]
    differ = betting(y[high] - y[low], fit.delta, -1.0, 1.0)[0]  # δ/2, as only one end is used
    apart = betting(np.linalg.norm(X[high] - X[low], axis=1), fit.delta, 0.0, math.sqrt(X.shape[1]))
    return max(differ, 0.0) / apart[1]


def _refuse_copies(fit: k.Fit) -> None:
    if why := why_copies(fit.X, len(fit.X)):
        raise k.CannotTell(why)


@k.statistical(
    "one nearest neighbour errs as the bound says: E 1(Y ≠ Y′) − c‖X − X′‖ ≤ 2L*",
    SOURCE,
    confidence=1 - RISK,
    needs=(draws,),
)
@at_asked_confidence
def error_within_bound(fit):
    """Where it fails, classes change faster than c says, or overlap more than L* does; holding does not prove c."""
    c, best = fit.lipschitz, fit.bayes_risk
    if c is None or best is None:
        return k.unknown("nobody knows c and L* from rows alone: pass lipschitz= and bayes_risk=")
    _refuse_copies(fit)
    wrong, apart = draws(fit)
    reach = c * math.sqrt(fit.X.shape[1])
    low, high = betting(wrong - c * apart, fit.delta, -reach, 1.0)
    if low <= 2 * best < high:
        return k.unknown(f"between {low:.3g} and {high:.3g}; 2L* = {2 * best:.3g} is inside")
    advice = "η changes faster than lipschitz= says, or bayes_risk= is too small"
    return k.at_most(high if high <= 2 * best else low, 2 * best, advice, unit="error − c · distance")  # fmt: skip


@k.proved("there are enough rows for the bound: c E‖X − nbh(X)‖ is within the excess", SOURCE)
def enough_rows_for_bound(fit):
    """With c given, proved; else by what c is at least, at the confidence that was asked for."""
    (n, d), c = fit.X.shape, fit.lipschitz
    given = c is not None
    if not given:
        _refuse_copies(fit)
        c = least_constant(fit)
    rows = count_rows(fit.excess / c, d) if c > 0 else 1.0
    note = "" if given else f"c is at least {c:.3g}, as these rows show"
    if not given and rows <= n:
        return k.unknown(f"{note}, and may be larger: pass lipschitz=")
    advice = (
        f"the bound needs {_brief(rows)} rows; trust.evaluate measures what 1-NN does with these"
    )
    kind, confidence = (k.PROVED, math.nan) if given else (k.STATISTICAL, 1 - fit.delta)
    excess = c * bound_distance(n, d)
    return k.at_most(excess, fit.excess, advice, "excess", note, kind=kind, confidence=confidence)


def _brief(rows: Any) -> str:
    return f"{rows:,.0f}" if rows < 1e9 else ("more than 1e299" if math.isinf(rows) else f"{rows:.1e}")  # fmt: skip


NEIGHBOUR_BOUND_CLAIMS = (error_within_bound, enough_rows_for_bound)
