"""Claims about a ranking on held-out entries: it puts what users liked before the rest, better than popularity does.

**What is compared.** Two orders of the same items for each user: by the model, and by the number of training entries. Each has
a share of the best possible gain,

    NDCG@10 = Σ_{r ≤ 10} [item at rank r is liked] / log₂(r + 1)  over the same sum for the best order,       in [0, 1]

and x_i ∈ [−1, 1] is the difference for user i.

* Ratings: the items are the user's held-out ones, liked is what the user rated above the mean of all their ratings. (What is
  rated was chosen, for its fame: a held-out item that was disliked is no success.) Users count who liked some, not all.
* Implicit feedback: the items are all that the user has not chosen in training, liked is what was held out.

The model's order is that of

    w_j (c_j + s_i t_j u_iᵀv_j),      w_j = n_j / (n_j + d),   n_j the training entries of item j,

d its public `damping_` (0 where it has none). Ratings that score the same are ordered by popularity, then by position; choices
by position, and where all items score the same, by popularity.

**What is random.** The held-out entries, given the training entries: those of one user independently of those of the others.
Nothing is asked of users to be alike: the claim is about the mean of E x_i over these users.

**What follows.** Bets on numbers that are independent but not alike bound the mean of E x_i (kernel/concentration.py).
"""

from __future__ import annotations

import numpy as np

from lemmata.audit.completion.factored_objective import products_at
from lemmata.audit.completion.held_out.error import entries_unseen, no_test, offsets_and_scales
from lemmata.audit.kernel.claims import Fit, statistical, unknown
from lemmata.audit.kernel.held_out import beats, mean_gain
from lemmata.completion.observed import Observed

Array = np.ndarray
LONG = 10  # items of a list
RISK = 0.05
SCORES_AT_ONCE = 2**21
EQUAL = 1e-6  # of the largest rating: a rating is above a mean by more than rounding of float32


def _cost(fit: Fit) -> float:
    if fit.y is None:
        return 0.0
    test, k = Observed.of(fit.y), np.shape(fit.U_)[1]
    if not _is_implicit(fit):
        return test.n_observed * (k + 4.0 * LONG)
    return int((test.row_counts > 0).sum()) * fit.data.shape[1] * (k + 4.0 * LONG)


def _is_implicit(fit: Fit) -> bool:
    return str(fit.get("feedback", "explicit")) == "implicit"


@statistical(
    "for these users, it ranks what they liked better than popularity does: mean NDCG@10",
    "Järvelin & Kekäläinen 2002; Waudby-Smith & Ramdas 2024",
    cost=_cost,
    confidence=1 - RISK,
)
def ranks_above_popularity(fit):
    """A bound on the mean gain in NDCG@10 over the order of what is popular, user by user."""
    if fit.y is None:
        return unknown("pass held-out entries: certify(train, test)")
    known, test, implicit = fit.data, Observed.of(fit.y), _is_implicit(fit)
    if implicit:
        test = test.select(test.values > 0)  # a count of 0 is no choice
    if (objection := no_test(known, test)) is not None:
        return objection
    own, popular = (gains_of_lists if implicit else gains_among_rated)(fit, known, test)
    if not len(own):
        return unknown("no user has held-out entries above and below the mean of their ratings")
    x = own - popular
    note = f"NDCG@{LONG} {own.mean():.4g}, of popularity {popular.mean():.4g}, {len(x):,} users"
    advice = "recommend what is popular; or choose rank, reg and alpha by NDCG on other entries"
    if not implicit:
        advice = "what is popular pleases more: choose rank and reg by the error on other held-out entries"
    undecided = "too few to tell" if x.any() else "every user gains the same from both"
    return beats(mean_gain(x, RISK, alike=False), note, advice, undecided=undecided)


def gains_among_rated(fit: Fit, known: Observed, test: Observed) -> tuple[Array, Array]:
    """NDCG@10 of held-out items in the model's order and in that of popularity, for users who liked some and not all."""
    (_, s), (c, t) = offsets_and_scales(fit, known.shape)
    counts, w = _counts_and_damping(fit, known)
    indptr, items, values = test.by_row
    with np.errstate(over="ignore", invalid="ignore"):
        U, V = np.asarray(fit.U_, np.float64) * s[:, None], np.asarray(fit.V_, np.float64)
        scores = w[items] * c[items] + products_at(indptr, items, U, V * (w * t)[:, None])
    scores = np.nan_to_num(scores, nan=-1e300, posinf=1e300, neginf=-1e300)
    users, unit = test.rows, max(float(np.abs(part.values).max()) for part in (known, test)) or 1.0
    totals = sum(np.bincount(part.rows, part.values / unit, len(s)) for part in (known, test))
    means = totals / np.maximum(known.row_counts + test.row_counts, 1)
    liked = values / unit > means[users] + EQUAL  # above it by more than rounding
    many = np.bincount(users, liked, len(s)).astype(int)
    counted = (many > 0) & (many < test.row_counts)
    discounts = 1 / np.log2(np.arange(2, LONG + 2))
    best = np.cumsum(discounts)[np.minimum(many, LONG) - 1]
    found = []
    for keys in ((-counts[items], -scores, users), (-counts[items], users)):
        order = np.lexsort(keys)
        rank = np.arange(len(order)) - indptr[users]
        gain = np.where(rank < LONG, liked[order] * discounts[np.minimum(rank, LONG - 1)], 0.0)
        found.append((np.bincount(users, gain, len(s)) / best)[counted])
    return found[0], found[1]


def _counts_and_damping(fit: Fit, known: Observed) -> tuple[Array, Array]:
    """How many training entries each item has, and what its score is multiplied by."""
    counts, damping = known.column_counts.astype(np.float64), float(fit.get("damping_", 0.0))
    return counts, counts / (counts + damping) if damping > 0 else np.ones(len(counts))


def gains_of_lists(fit: Fit, known: Observed, test: Observed) -> tuple[Array, Array]:
    """NDCG@10 of the model's list and of the popular one, for every user with held-out entries."""
    m = known.shape[1]
    (_, s), (c, t) = offsets_and_scales(fit, known.shape)
    counts, w = _counts_and_damping(fit, known)
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
