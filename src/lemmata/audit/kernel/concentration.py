"""Distances of an average of independent draws from its mean: the bounds that claims about new rows rest on.

Draws z_1 … z_n are independent, of one mean μ, in a range of width R that was known beforehand. With probability 1 − δ:

    hoeffding          |z̄ − μ| ≤ R √(ln(2/δ)/2n)                       of weights w: R √(ln(2/δ) Σw²/2)/Σw
    clopper_pearson    of draws 0 or 1: the p at which so few, or so many, ones have a chance of δ/2; exact
    betting            nobody gets rich betting on a fair game: no μ is kept against which a bettor made 1/δ
    mean_of_unlike     the same of draws that are independent but not alike: their means may differ, μ is the mean of these
    union_bound        K statements at δ/K each are all true with probability 1 − δ

    >>> round(hoeffding(1000), 4), [round(end, 4) for end in clopper_pearson(90, 100)]
    (0.0429, [0.8238, 0.951])
    >>> samples_needed(0.05, K=10), samples_needed(0.01)
    (1199, 18445)

**The bets.** Put aside 1, and before each draw stake a share λ_t ≥ 0, chosen by the draws before it. If μ ≤ g, the wealth
W(g) = Π(1 + λ_t(z_t − g)) has a mean of at most 1, hence exceeds 1/δ with probability at most δ (Markov): μ is above every g
whose W(g) reached 1/δ. With λ_t ≈ √(2 ln(1/δ)/n v_t), v_t the variance so far, this is almost as narrow as if the variance were
known, and on draws of small variance far narrower than Hoeffding (Waudby-Smith & Ramdas 2024).

**Draws that are not alike** leave nothing to learn about the next one, so the stake λ is fixed beforehand. The geometric mean
is at most the arithmetic one, so with E the mean of E z_i,

    E Π_i (1 + λ(z_i − g))  =  Π_i (1 + λ(E z_i − g))  ≤  (1 + λ(E − g))ⁿ  ≤  1                            if E ≤ g

and the mean of such products over a few stakes λ = s/(g − least), s < 1, falls as g grows and reaches 1/δ with probability at
most δ. Of draws of variance v the best stake is √(2 ln(1/δ)/nv), and v ≤ (g − least)(most − g): so with g halfway, none below
s = √(2 ln(1/δ)/n) is worth its share.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import betaincinv, logsumexp

Array = np.ndarray

LARGEST_STAKE = 0.95  # of what would lose all at the lowest draw
FIRST_SPREAD = 0.01  # of the squared range: one more squared deviation, by which the first bets go
HALVINGS = 40
MOST_STAKES = 7  # of draws that are not alike, each half of the one before


def hoeffding(n: float, delta: float = 0.05, width: float = 1.0) -> float:
    """ε with P(|mean of n draws − its expectation| > ε) ≤ δ, the draws in a range of this width.

    n : how many draws; of weighted ones, (Σw)²/Σw²
    delta : the risk of being wrong
    width : of the range, fixed before the draws
    """
    n, delta = _checked_number("n", n), checked_risk(delta)
    return float(width) * math.sqrt(math.log(2 / delta) / (2 * n))


def union_bound(K: int, delta: float = 0.05) -> float:
    """The risk each of K statements may have so that all are true at risk δ: δ/K."""
    return checked_risk(delta) / _checked_number("K", K)


def samples_needed(eps: float, delta: float = 0.05, K: int = 1, width: float = 1.0) -> int:
    """The number of rows that it takes to know K risks to ε, all at once, with probability 1 − δ: ⌈R² ln(2K/δ)/2ε²⌉."""
    eps = _checked_number("eps", eps)
    rows = (width / eps) ** 2 * math.log(2 / union_bound(K, delta)) / 2
    return math.ceil(rows - 1e-9)


def effective_size(weights: Array) -> float:
    """(Σw)²/Σw²: so many equal rows are worth as much as weighted ones."""
    weights = np.asarray(weights, dtype=np.float64) / np.max(weights)
    return float(weights.sum() ** 2 / np.sum(weights**2))


def clopper_pearson(successes: Any, n: Any, delta: float = 0.05) -> tuple[Any, Any]:
    """The interval of the probability p of a success: every p at which such a count is not too rare (δ/2 on each side).

    successes, n : numbers, or arrays of them; of no draws nothing is known, [0, 1]
    """
    delta, hits, draws = checked_risk(delta), np.asarray(successes, float), np.asarray(n, float)
    if not ((hits >= 0) & (hits <= draws)).all():
        raise ValueError(f"{successes} successes of {n} draws: pass 0 <= successes <= n.")
    with np.errstate(invalid="ignore"):
        lower = np.where(hits > 0, betaincinv(hits, draws - hits + 1, delta / 2), 0.0)
        upper = np.where(hits < draws, betaincinv(hits + 1, draws - hits, 1 - delta / 2), 1.0)
    return (float(lower), float(upper)) if hits.ndim == 0 else (lower, upper)


def mean_at_least(z: Array, delta: float, least: float = 0.0, most: float = 1.0) -> float:
    """A number that the mean of the draws exceeds with probability 1 − δ: the largest g found with W(g) ≥ 1/δ.

    z : independent draws in [least, most]; they come in the order of rows, so they are shuffled first, by a fixed seed
    """
    x = np.random.default_rng(0).permutation((np.asarray(z, np.float64) - least) / (most - least))
    t = np.arange(len(x), dtype=np.float64)  # draws before each
    sums, squares = (np.cumsum(part) - part for part in (x, x * x))
    spread = np.maximum(squares - sums**2 / np.maximum(t, 1), 0)
    variance = (FIRST_SPREAD + spread) / (t + 1)
    wanted = np.sqrt(2 * math.log(1 / delta) / (max(len(x), 1) * variance))

    def is_reached(g: float) -> bool:
        stakes = np.minimum(wanted, LARGEST_STAKE / g)  # W falls as g grows, at the cap too
        return float(np.log1p(stakes * (x - g)).sum()) >= math.log(1 / delta)

    return least + _largest(is_reached, 0.0, 1.0) * (most - least)


def mean_of_unlike_at_least(z: Array, delta: float, least: float = 0.0, most: float = 1.0) -> float:
    """A number that the mean of the E z_i exceeds with probability 1 − δ.

    z : independent numbers, not necessarily alike, of which was known beforehand that least ≤ z_i ≤ most
    """
    z, tiny = np.asarray(z, np.float64), np.finfo(float).tiny
    lowest = math.sqrt(2 * math.log(1 / delta) / max(len(z), 1))
    halvings = math.ceil(math.log2(max(LARGEST_STAKE / lowest, 1)))
    s = LARGEST_STAKE * 0.5 ** np.arange(min(halvings + 1, MOST_STAKES))

    def is_reached(g: float) -> bool:
        with np.errstate(over="ignore"):
            shares = (z - g) / max(g - least, tiny)
            logs = np.log1p(s[:, None] * shares).sum(axis=1)
        return float(logsumexp(logs)) - math.log(len(s)) >= math.log(1 / delta)

    return _largest(is_reached, least, most)


def _largest(reached: Callable[[float], bool], proved: float, refuted: float) -> float:
    """The largest g found that was reached; where none is, the first number."""
    for _ in range(HALVINGS):
        middle = (proved + refuted) / 2
        proved, refuted = (middle, refuted) if reached(middle) else (proved, middle)
    return proved


def betting(
    z: Array, delta: float = 0.05, least: float = 0.0, most: float = 1.0
) -> tuple[float, float]:
    """The interval of the mean of independent draws in [least, most], at confidence 1 − δ, by bets on both sides."""
    z = np.asarray(z, dtype=np.float64)
    lower = mean_at_least(z, checked_risk(delta) / 2, least, most)
    upper = -mean_at_least(-z, delta / 2, -most, -least)
    return lower, upper


def checked_risk(delta: float) -> float:
    if not 0 < delta < 1:
        raise ValueError(f"delta={delta!r}, the risk of an error: pass a number between 0 and 1.")
    return float(delta)


def _checked_number(name: str, value: float) -> float:
    if not value > 0 or not math.isfinite(value):
        raise ValueError(f"{name}={value!r}: pass a number above 0.")
    return float(value)
