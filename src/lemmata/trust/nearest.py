"""Bound of the error of one nearest neighbour, and how many rows it asks for (ML "Generalization bound for 1-NN").

    E L(f_S)  ≤  2L* + c E‖X − nbh(X)‖  ≤  2L* + 4c√d N^(−1/(d+1))         X in the unit cube, |η(x) − η(x′)| ≤ c‖x − x′‖

L* is the risk of the Bayes classifier, c says how fast the probability η of the second class changes. Both are facts about the
law, not about rows: what is stated of them can be refuted by rows, and c can be shown to be at least something.

    >>> from lemmata.trust import SmoothClasses, neighbour_bound
    >>> law = SmoothClasses(d=2)
    >>> found = neighbour_bound(*law.sample(2000, rng=0), lipschitz=2.83, bayes_risk=0.214, box=(0, 1))
    >>> found.certificate_.held, found.certificate_.failed, round(found.error, 2), round(found.bound, 2)
    (['error_within_bound'], ['enough_rows_for_bound'], 0.35, 0.86)
    >>> f"{found.rows_needed:,.0f}"                                    # for an excess of 0.05 over 2L*
    '1,273,515'
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from sklearn.utils import check_X_y

from lemmata.audit.predict.neighbours.one_nearest import NEIGHBOUR_BOUND_CLAIMS
from lemmata.core.certificate import Certificate, Fit
from lemmata.core.certification.checking import check
from lemmata.trust.bounds import (
    bound_distance,
    checked_risk,
    count_rows,
    least_constant,
    nearest_draws,
)

Array = np.ndarray
FEWEST = 40  # rows: ten groups of four


@dataclass(frozen=True, repr=False)
class NeighbourBound:
    """The bound of one nearest neighbour on these rows, and the rows that it asks for.

    lipschitz, bayes_risk : c (of columns scaled to the unit cube) and L*, as they were stated; None where they were not
    error, distance : mean error and distance of a nearest neighbour in groups of `group` rows
    least_lipschitz : what these rows show c to be at least
    bound, notes_bound : 2L* + c√d min_m (m^d/(eN) + 1/m) and 2L* + 4c√d N^(−1/(d+1)); NaN where c or L* are not known
    rows_needed : by the first, for c E‖X − nbh(X)‖ ≤ excess; where c is not known, by what it is at least
    """

    X: Array = field(repr=False)
    y: Array = field(repr=False)
    lipschitz: float | None
    bayes_risk: float | None
    excess: float
    delta: float
    error: float = math.nan
    distance: float = math.nan
    least_lipschitz: float = 0.0
    certificate_: Certificate | None = None

    @property
    def bound(self) -> float:
        return self._add(bound_distance(*self.X.shape))

    @property
    def notes_bound(self) -> float:
        n, d = self.X.shape
        return self._add(4 * math.sqrt(d) * n ** (-1 / (d + 1)))

    @property
    def rows_needed(self) -> float:
        c = self.least_lipschitz if self.lipschitz is None else self.lipschitz
        return count_rows(self.excess / c, self.X.shape[1]) if c > 0 else 1.0

    def _add(self, distance: float) -> float:
        if self.lipschitz is None or self.bayes_risk is None:
            return math.nan
        return 2 * self.bayes_risk + self.lipschitz * distance

    def __str__(self) -> str:
        n, d = self.X.shape
        least = "at least " if self.lipschitz is None else ""
        rows = f"{self.rows_needed:,.0f}" if self.rows_needed < 1e9 else f"{self.rows_needed:.1e}"
        said = f"; the bound is {self.bound:.3g}" if not math.isnan(self.bound) else ""
        return (
            f"one nearest neighbour, {n:,} × {d}: among few rows it errs in {self.error:.3g} at distance "
            f"{self.distance:.3g}{said}\n"
            f"  within {self.excess:g} of 2L* by this bound: {least}{rows} rows (it holds {n:,})"
        )

    __repr__ = __str__


def neighbour_bound(
    X: Any,
    y: Any,
    *,
    lipschitz: float | None = None,
    bayes_risk: float | None = None,
    excess: float = 0.05,
    box: tuple[Any, Any] | None = None,
    delta: float = 0.05,
) -> NeighbourBound:
    """Compare one nearest neighbour with the bound of the notes, and count the rows that the bound needs here.

    Parameters
    ----------
    X, y : rows (n, d), drawn independently, and their two classes
    lipschitz : float, optional
        c, of η in the columns as they are scaled to the unit cube; where it is not given, rows show what it is at least.
    bayes_risk : float, optional
        L*, between 0 and ½.
    excess : float, default=0.05
        What the bound may add to 2L*.
    box : (low, high), optional
        Ends of each column, known before; (0, 1) leaves them as they are. By default the ends of these rows.
    delta : float, default=0.05
        Risk of the statistical claims.
    """
    X, y = check_X_y(X, y, dtype=np.float64)
    classes, y = np.unique(y, return_inverse=True)
    if len(y) < FEWEST:
        raise ValueError(f"{len(y)} rows; pass {FEWEST} or more.")
    if len(classes) != 2:
        raise ValueError(f"y has {len(classes)} classes; the bound is about two.")
    if lipschitz is not None and not 0 <= lipschitz < math.inf:
        raise ValueError(f"lipschitz={lipschitz!r}; pass a number >= 0.")
    if bayes_risk is not None and not 0 <= bayes_risk <= 0.5:
        raise ValueError(f"bayes_risk={bayes_risk!r}; the best classifier of two errs in 0 to 0.5.")
    if not 0 < excess < 1:
        raise ValueError(f"excess={excess!r}; pass a number between 0 and 1.")
    low, high = (X.min(axis=0), X.max(axis=0)) if box is None else map(np.asarray, box)
    X = (X - low) / np.where(high > low, high - low, 1.0)
    if X.min() < 0 or X.max() > 1:
        raise ValueError(f"box={box!r}: rows lie outside of it; pass ends that hold all rows.")
    found = NeighbourBound(X, y, lipschitz, bayes_risk, excess, checked_risk(delta))
    fit = Fit(found, y=y)
    title = f"one nearest neighbour  {len(X):,} × {X.shape[1]}"
    certificate = check(NEIGHBOUR_BOUND_CLAIMS, fit, title)
    wrong, apart = nearest_draws(fit)
    return replace(
        found, error=float(wrong.mean()), distance=float(apart.mean()), least_lipschitz=least_constant(fit),
        certificate_=certificate,
    )  # fmt: skip
