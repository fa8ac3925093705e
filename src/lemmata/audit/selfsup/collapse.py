"""Claim about collapse: the features of different rows differ, and in more than a few directions.

    spread   √Σ_k Var(h_k/‖h‖)            1 where directions are even, 0 where all coincide
    rank     exp(−Σ p_k ln p_k),  p = σ/Σσ    of the singular values σ of the centred features   (RankMe, Garrido et al. 2023)

Neither is enough. The rank of a network that contracts to a point can rise: what is left of its features is noise, which has
every direction. The spread of features along one line is large. Centred rows have rank n − 1 at most, so that is what full is.
"""

from __future__ import annotations

import numpy as np

from lemmata.audit.kernel import claims as k
from lemmata.audit.selfsup import features as f

Array = np.ndarray

SPREAD, SHARE = 0.1, 0.05
FEW = 40  # rows, less one, below which 5 % is no more than two directions


def spread_of(h: Array) -> float:
    """√Σ_k Var(h_k/‖h‖); rows of nothing but zeros point nowhere."""
    e = f.normalise(h, 1e-300)
    return float(np.sqrt(np.square(e - e.mean(axis=0)).sum(axis=1).mean()))


def entropy_rank(h: Array) -> float:
    """exp of the entropy of the singular values' shares; 0 where nothing varies."""
    sizes = np.linalg.svd(h - h.mean(axis=0), compute_uv=False)
    floor = k.rounding(np.float64, h.size) * np.abs(h).max(initial=0.0)
    sizes = sizes[sizes > floor]
    if not len(sizes):
        return 0.0
    p = sizes / sizes.sum()
    return float(np.exp(-(p * np.log(p)).sum()))


def _cost(fit: k.Fit) -> float:
    """Return the work of the singular values."""
    n, d = min(f.count_new(fit), f.MOST), f.width_of(fit)
    return 4.0 * n * d * min(n, d) / k.PRODUCTS


@k.rule_of_thumb(
    f"not collapsed: on rows not trained on, features spread by {SPREAD} or more, and their rank is {SHARE:.0%} of the largest "
    "possible or more",
    "Wang & Isola 2020; Garrido et al. 2023",
    needs=(f.features,),
    cost=_cost,
)
def not_collapsed(fit: k.Fit) -> k.Evidence:
    """The smaller of spread/0.1 and rank/(5 % of min(n − 1, d)); too few rows can show a collapse but not exclude it."""
    h = f.features(fit)
    n, d = h.shape
    if n < 2:
        raise k.CannotTell(f"{n} row: two or more are compared")
    spread, rank, full = spread_of(h), entropy_rank(h), min(n - 1, d)
    measured = min(spread / SPREAD, rank / (SHARE * full))
    note = f"spread {spread:.3g}, rank {rank:.3g} of {full} possible, {n:,} {f.new_rows(fit).words}"
    numbers = {"spread": spread, "rank": rank, "of": full}
    if measured >= 1 and n - 1 < min(d, FEW):
        doubt = "too few rows to exclude that they lie in few directions"
        return k.unknown(f"{note}: {doubt}", measured)
    advice = (
        "the network gives nearly the same answer to all rows: train longer, lower learning_rate, stronger negatives "
        "(SimCLR) or variance (VICReg); for BYOL keep predictor and stopped gradient, and raise momentum"
    )
    unit = "smaller of both, of its limit"
    return k.at_least(measured, 1, advice, unit=unit, note=note, witness=numbers)
