"""Claims about the run of an LDA fit: a bound that cannot fall, and chains that should agree.

**R̂** (Gelman & Rubin 1992, chains split in halves). With W the mean variance within the halves and B/n the variance of their
means, R̂ = √((n−1)/n + B/(nW)): 1 where all halves wander about the same values, more where some have values of their own,
because chains sit in different modes or still climb. It is of the log-likelihood alone: modes of one height look the same.

Passes depend on the passes before, and few independent ones have means that differ by chance: with τ the passes that one
independent one is worth (1 + 2 Σ autocorrelations, while pairs of them are positive: Geyer 1992), by W τ/n. A large R̂ fails
only where the means differ by more than chance explains; else it is undecided.
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from lemmata.audit.kernel.attributes import never_rose
from lemmata.audit.kernel.claims import Fit, at_most, rounding, rule_of_thumb, unknown

Array = np.ndarray
AGREEING = 1.1  # R̂ that is let pass: halves of two chains at most 0.8 deviations apart
EXPLAINED = 4.0  # times the variance that chance gives to means: what it may have done
PASSES = 40  # kept of each chain: with fewer, R̂ of chains that agree may exceed it by chance


def _rounding(fit: Fit) -> float:
    terms = max(fit.data.size, 1) if fit.has_data else 2**20
    return rounding(np.asarray(fit.components_).dtype, terms)


never_fell = partial(
    never_rose,
    rounding=_rounding,
    advice="rounding spoiled the run: fit float64 counts",
    unit="largest fall",
)
bound_never_fell = never_fell(
    "the bound on the likelihood, with the prior of the topics, never fell",
    "CIL 3.2.4; CIL20 4.2",
    name="bound_never_fell",
)


def split(chains: Array) -> tuple[Array, float, float]:
    """Halves (2c, n) of chains (c, passes), their mean variance W, and the variance B/n of their means."""
    n = chains.shape[1] // 2
    halves = np.concatenate([chains[:, :n], chains[:, -n:]])
    halves = halves - halves.mean()  # log-likelihoods are large numbers that differ little
    return halves, float(halves.var(axis=1, ddof=1).mean()), float(halves.mean(axis=1).var(ddof=1))


def r_hat(chains: Array) -> float:
    """R̂ of chains (c, passes), each split in halves; NaN where nothing moves, inf where only the means differ."""
    halves, within, between = split(chains)
    n = halves.shape[1]
    if within == 0:
        return math.nan if between == 0 else math.inf
    return math.sqrt((n - 1) / n + between / within)


def dependence(halves: Array) -> float:
    """τ: how many passes an independent one is worth, at least 1. The larger of two estimates, since both are low where n is
    no large multiple of τ: Geyer's, and that of an autoregression whose first correlation is corrected for n (Kendall 1954)."""
    n = halves.shape[1]
    x = halves - halves.mean(axis=1, keepdims=True)
    covariances = np.array([(x[:, : n - lag] * x[:, lag:]).sum() for lag in range(n)])
    if covariances[0] <= 0:
        return 1.0
    correlations = covariances / covariances[0]
    pairs = correlations[: n - n % 2].reshape(-1, 2).sum(axis=1)
    kept = pairs[: int(np.argmax(pairs <= 0)) if (pairs <= 0).any() else len(pairs)]
    first = float(correlations[1])
    first = min(first + (1 + 3 * first) / n, 0.99)
    return max(2 * float(kept.sum()) - 1, (1 + first) / (1 - first), 1.0)


def by_chance(halves: Array, within: float) -> float:
    """The variance that means of halves have by chance: W τ/n, with W made larger by what dependent passes hide of it."""
    n = halves.shape[1]
    share = min(dependence(halves) / n, 0.9)
    return within * share / (1 - share)


@rule_of_thumb(
    "the log-likelihoods of all chains vary around the same value", "Gelman & Rubin 1992"
)
def chains_agree(fit: Fit):
    """R̂ of ln p(w, z) over the kept passes of each chain."""
    chains = fit.get("chain_log_likelihoods_")
    if chains is None:
        return unknown("the chains are not there")
    chains = np.asarray(chains, np.float64)
    if len(chains) < 2:
        return unknown("there is one chain: pass n_chains=2 or more")
    if chains.shape[1] < PASSES:
        return unknown(
            f"{chains.shape[1]} passes of each chain are too few to tell; raise max_iter to {2 * PASSES} or more"
        )
    found = r_hat(chains)
    if math.isnan(found):
        return unknown("the log-likelihood does not move")
    means = chains.mean(axis=1)
    note = f"chains at {means.min():,.1f} … {means.max():,.1f} nats"
    halves, within, between = split(chains)
    if found > AGREEING and between <= EXPLAINED * by_chance(halves, within):
        return unknown(
            f"R̂ {found:.2f}, {note}: so few independent passes may differ by chance; raise max_iter",
            found,
        )
    return at_most(found, AGREEING, "run longer (raise max_iter)", "R̂", note)
