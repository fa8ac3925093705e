"""Whether test rows lie nearer to training rows than those do to each other: rows that were rounded, moved or rescaled.

Of a row x, t its nearest training row and t₃ the third nearest training row of t,

    ρ(x) = ‖x − t‖ / ‖t − t₃‖          columns in units of their deviation

is a pure number: where rows are dense both distances shrink, so ρ has much the same law wherever test rows come from, and is
below a small r with probability ~ r^dimension. Training rows tell its law: each is a test row for the others. Independent test
rows have no smaller ρ than these; copies have a ρ near 0. Rows in other units, or with columns in another order, are found as
long as all rows are there (each table standardised by itself) or the units are the same (the numbers of each row sorted).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.stats import binom, ks_2samp

from lemmata.audit.kernel.concentration import clopper_pearson

Array = np.ndarray

RISK = 1e-4  # of each comparison: there are up to four, of three shares each
MARGIN = 2.0  # times as many near rows as training rows have: test rows may come from elsewhere
SHARES = (0.0, 0.02, 0.1)  # of the training rows, from the nearest on, whose ρ are compared with
# nearly equal: ρ below this, or below this share of the least one above 0 of training rows
NEARLY, SHARPER = (1e-4, 0.1)
LEAST, MOST = 50, 200  # rows that are looked at
WORK = 5e7  # multiplications, if more than LEAST rows are to be looked at
AT_ONCE = 2**22  # distances
THIRD = 3
FEWEST = 20  # different training rows, from which on they tell what is near
# difference of two distribution functions from which on a column may have another unit
UNLIKE = 0.05


class Nearness(NamedTuple):
    """How many of some test rows are nearly equal to a training row, and whether more are near than chance allows."""

    rows: int
    nearly: int
    share: float  # of test rows nearer than `SHARES` of the training rows; the share that is most too large
    allowed: float  # what chance allows at most
    too_near: bool


def rows_looked_at(n: int, d: int) -> int:
    return int(np.clip(WORK / max(n * d, 1), LEAST, MOST))


def cost_of_nearness(n: int, d: int) -> float:
    # four products, each some four times as fast as plain NumPy
    return 1.0 * rows_looked_at(n, d) * n * d


def find_near(train: Any, copies: Array, test: Any) -> Nearness | None:
    """Compare distances of test rows to training rows with those among training rows.

    train, test : dense or sparse numbers; rows of `train` differ. None if there are too few rows to compare
    copies : how often each training row occurs; one that occurs twice is at no distance from another
    """
    n, m = train.shape[0], test.shape[0]
    if n < FEWEST or m == 0:
        return None
    train, test = _scale(train, test)
    rng, most = np.random.default_rng(0), rows_looked_at(*train.shape)
    own = np.repeat(np.arange(n), copies)
    own, some = (rng.permutation(rows)[:most] for rows in (own, np.arange(m)))
    known = np.sort(np.where(copies[own] > 1, 0.0, _ratios(train[own], train, own)))
    found = _ratios(test[some], train)
    worst = (-math.inf, 0.0, 0.0, False)
    for border in (known[int(share * len(known))] for share in SHARES):
        near, of_known = (int((ratios <= border).sum()) for ratios in (found, known))
        allowed = min(MARGIN * clopper_pearson(of_known, len(known), 2 * RISK)[1], 1.0)
        chance = float(binom.logsf(near - 1, len(found), allowed))
        worst = max(worst, (-chance, near / len(found), allowed, chance < math.log(RISK)))
    least = known[known > 0].min(initial=math.inf)
    nearly = int((found <= max(NEARLY, SHARPER * min(least, 1.0))).sum())
    return Nearness(len(found), nearly, *worst[1:])


def _scale(train: Any, test: Any) -> tuple[Any, Any]:
    """Both tables in units of the deviations of training columns, dense ones from their means; what is missing is the mean."""
    if sp.issparse(train) or sp.issparse(test):
        train, test = (sp.csr_array(X, dtype=np.float64) for X in (train, test))
        most = max(float(np.abs(train.data).max(initial=0.0)), np.finfo(float).tiny)
        train, test = train / most, test / most
        squares = np.asarray(train.power(2).mean(axis=0)).ravel()
        weights = sp.diags_array(1 / np.sqrt(np.where(squares > 0, squares, 1.0)))
        return sp.csr_array(train @ weights), sp.csr_array(test @ weights)
    train, test = (np.asarray(X, np.float64) for X in (train, test))
    with np.errstate(all="ignore"):
        top = np.nanmax(np.abs(np.where(np.isfinite(train), train, np.nan)), axis=0)
        top = np.where(top > 0, top, 1.0)
        train, test = train / top, test / top
        mean, deviation = np.nanmean(train, axis=0), np.nanstd(train, axis=0)
        deviation = np.where(deviation > 0, deviation, 1.0)
        both = ((X - mean) / deviation for X in (train, test))
        train, test = (np.clip(np.nan_to_num(X), -1e100, 1e100) for X in both)
    return train, test


def _ratios(rows: Any, train: Any, own: Array | None = None) -> Array:
    """ρ of each row; `own`: where it stands itself among the training rows, if it does."""
    first, at = _nth_nearest(rows, train, 1, *([] if own is None else [own]))
    there, _ = _nth_nearest(train[at], train, THIRD, at, *([] if own is None else [own]))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(first > 0, first / there, 0.0)


def _nth_nearest(rows: Any, train: Any, nth: int, *but: Array) -> tuple[Array, Array]:
    """The distance of each row to its nth nearest training row, and which that is; `but` names rows that do not count."""
    step, distances, places = max(AT_ONCE // train.shape[0], 1), [], []
    squares = _squares(train)
    for start in range(0, rows.shape[0], step):
        part = rows[start : start + step]
        products = part @ train.T
        products = products.toarray() if sp.issparse(products) else products
        D, every = squares - 2 * products, np.arange(part.shape[0])  # less ‖x‖², the same for all
        for places_of in but:
            D[every, places_of[start : start + step]] = np.inf
        at = D.argmin(axis=1)
        for _ in range(nth - 1):
            D[every, at] = np.inf
            at = D.argmin(axis=1)
        distances.append(np.sqrt(_squares(part - train[at])))
        places.append(at)
    return np.concatenate(distances), np.concatenate(places)


def _squares(rows: Any) -> Array:
    if sp.issparse(rows):
        return np.asarray(rows.power(2).sum(axis=1)).ravel()
    return np.einsum("ij,ij->i", rows, rows)


# --- tables in another form -------------------------------------------------------------------------------------------


def rewrite(train: Array, test: Array) -> Iterator[tuple[Array, Array]]:
    """Yield dense tables as they would be alike in another order of columns, in other units, and both."""
    yield np.sort(train, axis=1), np.sort(test, axis=1)
    own = [_scale(X, X)[0] for X in (train, test)]
    yield own[0], own[1]
    yield np.sort(own[0], axis=1), np.sort(own[1], axis=1)


def columns_alike(train: Array, test: Array) -> Array:
    """Which columns have much the same distribution in both tables (Kolmogorov–Smirnov)."""
    alike, rng = np.ones(train.shape[1], bool), np.random.default_rng(0)
    some = [rng.permutation(X)[:2000] if len(X) > 2000 else X for X in (train, test)]
    for j in range(train.shape[1]):
        one, two = (X[np.isfinite(X[:, j]), j] for X in some)
        if len(one) and len(two):
            apart = ks_2samp(one, two, method="asymp")
            alike[j] = apart.statistic < UNLIKE or apart.pvalue > 1e-3
    return alike
