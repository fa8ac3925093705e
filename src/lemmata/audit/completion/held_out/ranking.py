"""Claims about a ranking on held-out entries: its ten best items hold more of what users chose than the most popular do.

**What is compared.** For each user with held-out entries, two lists of ten items that the user has not rated in training: those
that the model puts first, and those with the most training entries. Each has a share of the best possible gain,

    NDCG@10 = Σ_{r ≤ 10} [item at rank r is held out] / log₂(r + 1)  over the same sum for the best list,       in [0, 1]

and x_i ∈ [−1, 1] is the difference for user i. The model puts items in the order of

    w_j (c_j + s_i t_j u_iᵀv_j),      w_j = n_j / (n_j + d),   n_j the training entries of item j,

d its public `damping_` (0 where it has none); what scores the same is ordered by position, and where all items score the same,
by popularity.

**What is random.** The held-out entries, given the training entries: those of one user independently of those of the others.
Nothing is asked of users to be alike: the claim is about the mean of E x_i over these users.

**What follows.** Bets on numbers that are independent but not alike bound the mean of E x_i (kernel/concentration.py).
"""

from __future__ import annotations

import numpy as np

from lemmata.audit.completion.held_out.error import entries_unseen, no_test, offsets_and_scales
from lemmata.audit.kernel.claims import Fit, statistical, unknown
from lemmata.audit.kernel.held_out import beats, mean_gain
from lemmata.completion.observed import Observed

Array = np.ndarray
LONG = 10  # items of a list
RISK = 0.05
SCORES_AT_ONCE = 2**21


def _cost(fit: Fit) -> float:
    if fit.y is None:
        return 0.0
    users = int((Observed.of(fit.y).row_counts > 0).sum())
    return users * fit.data.shape[1] * (np.shape(fit.U_)[1] + 4.0 * LONG)


@statistical(
    "for these users, its ten best items hold what they chose more than the ten most popular do: mean NDCG@10",
    "Järvelin & Kekäläinen 2002; Waudby-Smith & Ramdas 2024",
    cost=_cost,
    confidence=1 - RISK,
)
def ranks_above_popularity(fit):
    """A bound on the mean gain in NDCG@10 over a list of what is popular, user by user."""
    if fit.y is None:
        return unknown("pass held-out entries: certify(train, test)")
    known, test = fit.data, Observed.of(fit.y)
    if str(fit.get("feedback", "explicit")) == "implicit":
        test = test.select(test.values > 0)  # a count of 0 is no choice
    if (objection := no_test(known, test)) is not None:
        return objection
    own, popular = gains_of_lists(fit, known, test)
    x = own - popular
    note = f"NDCG@{LONG} {own.mean():.4g}, of popularity {popular.mean():.4g}, {len(x):,} users"
    return beats(
        mean_gain(x, RISK, alike=False),
        note,
        "recommend what is popular, or fit ALS(feedback='implicit'), which learns what people choose; this model may still "
        "predict ratings well",
        undecided="too few to tell" if x.any() else "every user gains the same from both",
    )


def gains_of_lists(fit: Fit, known: Observed, test: Observed) -> tuple[Array, Array]:
    """NDCG@10 of the model's list and of the popular one, for every user with held-out entries."""
    m = known.shape[1]
    (_, s), (c, t) = offsets_and_scales(fit, known.shape)
    counts = known.column_counts.astype(np.float64)
    damping = float(fit.get("damping_", 0.0))
    w = counts / (counts + damping) if damping > 0 else np.ones(m)
    users = np.flatnonzero(test.row_counts)
    own, popular = np.empty(len(users)), np.empty(len(users))
    at_once = max(SCORES_AT_ONCE // m, 1)
    with np.errstate(over="ignore", invalid="ignore"):
        V = np.asarray(fit.V_, np.float64) * (w * t)[:, None]
        for start in range(0, len(users), at_once):
            here = users[start : start + at_once]
            U = np.asarray(fit.U_[here], np.float64) * s[here, None]
            scores = np.nan_to_num(U @ V.T + w * c, nan=-1e300, posinf=1e300, neginf=-1e300)
            scores[np.ptp(scores, axis=1) == 0] = counts
            part = slice(start, start + len(here))
            own[part] = _ndcg(scores, here, known, test)
            popular[part] = _ndcg(np.tile(counts, (len(here), 1)), here, known, test)
    return own, popular


def _ndcg(scores: Array, users: Array, known: Observed, test: Observed) -> Array:
    """NDCG@10 of the highest scores (changed here), without what was known in training; the first of equal ones."""
    scores[_places(known, users)] = -np.inf
    everyone, discounts = np.arange(len(users)), 1 / np.log2(np.arange(2, LONG + 2))
    found, wanted = np.zeros(len(users)), np.zeros(scores.shape, bool)
    wanted[_places(test, users)] = True
    for discount in discounts[: scores.shape[1]]:
        best = np.argmax(scores, axis=1)
        found += discount * ((scores[everyone, best] > -np.inf) & wanted[everyone, best])
        scores[everyone, best] = -np.inf
    most = np.minimum(test.row_counts[users], LONG)
    return found / np.cumsum(discounts)[most - 1]


def _places(entries: Observed, users: Array) -> tuple[Array, Array]:
    """Where some rows have entries, the rows counted among themselves."""
    indptr, indices, _ = entries.by_row
    counts = entries.row_counts[users]
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    places = indices[np.repeat(indptr[users], counts) + within]
    return np.repeat(np.arange(len(users)), counts), places


RANKING_CLAIMS = (entries_unseen, ranks_above_popularity)  # where entries are held out
