"""Bounds of the difference of two rates on new rows, from hits of independent draws in two groups.

    p_a − p_b ≥ lower     with probability 1 − δ, whatever p_a and p_b are and however few rows there are

A pair (p_a, p_b) is believed unless the data refute it. Two exact tail probabilities speak about it: P_a = P(at least so
many hits in a), small where p_a is too low, and P_b = P(at most so many hits in b). Under the true pair both are independent
and P(P ≤ t) ≤ t, so z = Φ⁻¹(1 − P) is at most a standard normal variable, and so is w_a z_a + w_b z_b if w_a² + w_b² = 1 is
fixed for each pair beforehand. Weights in proportion to the standard errors √(p(1 − p)/n) give, for large n, the interval of
the difference itself (Stouffer); the union of two exact intervals is √2 times as wide and more. Where fewer than 4 hits or
misses are expected, P_a P_b is compared with its own exact law instead (Fisher: P(UV ≤ c) = c(1 − ln c)). A tenth of δ pays
for leaving out pairs outside of both exact intervals (Berger & Boos 1994). The square of pairs is cut into cells: a cell goes
only if its most favourable corner is refuted, so the grid errs on the safe side. Of weighted rows: Hoeffding's bound.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import betainc, ndtri, ndtri_exp
from scipy.stats import chi2

from lemmata.audit.kernel.concentration import clopper_pearson
from lemmata.audit.trust.fair.counts import GroupCounts, Rate

Array = np.ndarray

CELLS = 64  # of each rate
LEFT_OUT = 0.1  # of δ: the risk that the true rates are outside of the square
FEW = 4.0  # expected hits or misses, below which normal weights are of no use


@dataclass(frozen=True)
class Gaps:
    """p_a − p_b of one rate for all ordered pairs of groups, each bound at one-sided risk δ; NaN where a rate is undefined."""

    rate: Rate
    observed: Array  # (G, G)
    lower: Array  # (G, G); −1 where nothing is known

    @property
    def upper(self) -> Array:
        return -self.lower.T


@dataclass(frozen=True)
class _Cells:
    """The rates of one group that are not yet refuted, cut into cells."""

    edges: Array  # (CELLS + 1,)
    spread: Array  # (CELLS,) p(1 − p)/n in the middle
    few: Array  # (CELLS,) whether the normal weights are of no use there
    # (CELLS,) ln P(at least so many hits) at the upper edge, where it is largest
    log_above: Array
    log_below: Array  # (CELLS,) ln P(at most so many) at the lower edge


def _cells_of(hits: float, draws: float, risk: float) -> _Cells:
    edges = np.linspace(*clopper_pearson(hits, draws, risk), CELLS + 1)
    p = (edges[1:] + edges[:-1]) / 2
    # P(X ≥ x | p) = I_p(x, n − x + 1)
    above = betainc(hits, draws - hits + 1, edges[1:]) if hits > 0 else np.ones(CELLS)
    below = betainc(draws - hits, hits + 1, 1 - edges[:-1]) if hits < draws else np.ones(CELLS)
    with np.errstate(divide="ignore"):
        logs = np.log(above), np.log(below)
    return _Cells(edges, p * (1 - p) / draws, draws * p * (1 - p) < FEW, *logs)


def _least_difference(a: _Cells, b: _Cells, risk: float) -> float:
    """The least p_a − p_b in a cell that is not refuted at this risk."""
    with np.errstate(divide="ignore", invalid="ignore"):
        z_a, z_b = -ndtri_exp(a.log_above)[:, None], -ndtri_exp(b.log_below)[None, :]
        w = np.sqrt(a.spread[:, None] / (a.spread[:, None] + b.spread[None, :]))
        refuted = w * z_a + np.sqrt(1 - w * w) * z_b >= -ndtri(risk)
    both = a.log_above[:, None] + b.log_below[None, :]
    by_product = -both >= chi2.isf(risk, 4) / 2  # −2 ln UV has four degrees of freedom
    refuted = np.where(a.few[:, None] | b.few[None, :], by_product, refuted)
    differences = a.edges[:-1, None] - b.edges[None, 1:]
    return float(np.where(refuted, math.inf, differences).min(initial=1.0))


def gaps_between(rate: Rate, delta: float, weighted: bool = False) -> Gaps:
    """Bound the difference of every ordered pair of groups, each at one-sided risk delta."""
    G, values = len(rate.draws), rate.values
    observed = values[:, None] - values[None, :]
    if weighted:
        with np.errstate(divide="ignore"):
            share = 1 / rate.size
        width = np.sqrt(math.log(1 / delta) / 2 * (share[:, None] + share[None, :]))
        lower = np.maximum(np.nan_to_num(observed - width, nan=-1.0), -1.0)
    else:
        known = [one > 0 for one in rate.draws]
        # four ends of two intervals, each at a quarter of what is set aside
        cells = [
            _cells_of(hits, draws, LEFT_OUT * delta / 2) if draws > 0 else None
            for hits, draws in zip(rate.hits, rate.draws, strict=True)
        ]
        lower = np.full((G, G), -1.0)
        for i, j in zip(*np.nonzero(np.outer(known, known)), strict=True):
            if i != j:
                lower[i, j] = _least_difference(cells[i], cells[j], (1 - LEFT_OUT) * delta)
    np.fill_diagonal(lower, 0.0)
    return Gaps(rate, observed, lower)


def gaps_at_once(counts: GroupCounts, rates: tuple[str, ...], delta: float) -> dict[str, Gaps]:
    """Bound all pairs and all of these rates, all of them true with probability 1 − δ."""
    G = len(counts.names)
    share = delta / max(G * (G - 1) * len(rates), 1)  # two ends for each of G(G − 1)/2 pairs
    return {name: gaps_between(counts.rate(name), share, counts.weighted) for name in rates}
