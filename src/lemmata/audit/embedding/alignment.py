"""Claims about an alignment of word vectors: x_i W ≈ y_j for pairs (i, j), W orthogonal, all vectors divided by their lengths.

With M = XᵀY over the pairs, Σ ‖x W − y‖² is least where tr(WᵀM) is largest, and no orthogonal W exceeds ‖M‖_*, the sum of
singular values (von Neumann). tr(WᵀM) = ‖M‖_* if and only if WᵀM is symmetric and positive semidefinite: such a W = UVᵀ of M
= UΣVᵀ. So the gap ‖M‖_* − tr(WᵀM) says how far from the best a rotation is. The best is the only one if no
singular value is 0.

What a rotation is worth shows on pairs that it was not made from. The true word of such a pair has a rank among all target
words; by chance it is in the middle.
"""

from __future__ import annotations

import numpy as np

from lemmata.audit.kernel import claims
from lemmata.audit.kernel.attributes import (
    attributes_sound,
    discrepancy,
    never_rose,
    statements_true,
)
from lemmata.audit.kernel.concentration import betting, clopper_pearson

Array = np.ndarray
BEFORE = 0.9  # of the target words: what the true word of a new pair should rank before
FEWEST = 20  # new pairs: fewer say nothing at this confidence
AT_ONCE = 2**22  # similarities


def unit(rows: Array) -> Array:
    """Rows divided by their lengths, in double precision; zeros stay zeros."""
    rows = np.asarray(rows, np.float64)
    with np.errstate(over="ignore"):
        rows = rows / np.maximum(np.abs(rows).max(axis=1, keepdims=True, initial=0.0), 1e-300)
    sizes = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(sizes > 0, sizes, 1)


def kind_of(fit: claims.Fit) -> np.dtype:
    """The float type whose rounding vectors and rotation have."""
    kinds = [
        np.asarray(part).dtype for part in (fit.source_matrix_, fit.target_matrix_, fit.rotation_)
    ]
    return min(kinds, key=lambda kind: kind.itemsize)


def paired_vectors(fit: claims.Fit) -> tuple[Array, Array]:
    """The vectors of pairs_."""
    places = np.asarray(fit.pairs_)
    return (
        unit(np.asarray(fit.source_matrix_)[places[:, 0]]),
        unit(np.asarray(fit.target_matrix_)[places[:, 1]]),
    )


def _work(fit: claims.Fit) -> float:
    size = len(fit.rotation_)
    return float(len(fit.pairs_)) * size**2 + 20.0 * size**3


@claims.fact(cost=_work)
def products(fit: claims.Fit) -> tuple[Array, Array]:
    """Return M = XᵀY over pairs_, and its singular values."""
    X, Y = paired_vectors(fit)
    M = X.T @ Y
    return M, np.linalg.svd(M, compute_uv=False)


def places_wrong(fit: claims.Fit):
    """Pairs that name no words, or an alignment of no pairs."""
    sizes = len(fit.source_matrix_), len(fit.target_matrix_)
    for name in ("pairs_", "seeds_"):
        places = np.asarray(fit.get(name))
        if places.shape[1] != 2 or not len(places):
            yield f"{name} has shape {places.shape}, not (pairs, 2)"
        elif (places >= sizes).any():
            yield f"{name} names words that there are not"


def statement_errors(fit: claims.Fit) -> dict[str, float]:
    X, Y = paired_vectors(fit)
    W = np.asarray(fit.rotation_, np.float64)
    distance = float(((X @ W - Y) ** 2).sum() / max(len(X), 1))
    return {"loss_": discrepancy(fit.loss_, distance, 4.0, claims.rounding(kind_of(fit), len(W)))}


@claims.proved("the map is a rotation: lengths and angles stay", "CIL20 5.5")
def orthogonal_map(fit: claims.Fit):
    W = np.asarray(fit.rotation_, np.float64)
    error = np.abs(W.T @ W - np.eye(len(W))).max()
    bound = claims.rounding(np.asarray(fit.rotation_).dtype, len(W))
    return claims.at_most(error, bound, "fit it again: this map was altered", unit="|WᵀW − I|")


@claims.proved(
    "no rotation brings the pairs nearer to each other", "Schönemann 1966", needs=(products,)
)
def no_better_rotation(fit: claims.Fit):
    """1 − tr(WᵀM)/‖M‖_*. A W rounded to its type is off by at most eps/2 in each entry, which moves the trace by
    eps/2 √k ‖M‖_F ≤ eps/2 √k ‖M‖_*."""
    M, sigma = products(fit)
    if sigma.sum() == 0:
        return claims.unknown("the pairs have no direction in common, so every rotation is as good")
    W = np.asarray(fit.rotation_, np.float64)
    gap = 1 - float(np.einsum("ij,ij->", W, M)) / float(sigma.sum())
    note = f"over {len(fit.pairs_):,} pairs"
    bound = claims.rounding(kind_of(fit), len(W))
    proof = {"singular_values": sigma}
    return claims.at_most(gap, bound, "fit it again on these pairs", "gap", note, witness=proof)


@claims.proved("the pairs determine the rotation", "Schönemann 1966", needs=(products,))
def rotation_determined(fit: claims.Fit):
    """σ_min/σ_max of M. At 0 another rotation is as good: that of the directions which no pair shows is left open."""
    _, sigma = products(fit)
    k = len(sigma)
    advice = f"pass pairs in more directions: at least {k} for vectors of {k} numbers, better several times that"
    ratio = float(sigma[-1] / sigma[0]) if sigma[0] > 0 else 0.0
    bound = claims.rounding(kind_of(fit), len(fit.pairs_))
    return claims.at_least(ratio, bound, advice, unit="σ_min/σ_max")


# a round that would raise 1 − mean cosine of words and their translations is not taken
no_round_rose = never_rose(
    "no round of self-learning raised the objective",
    "by construction",
    lambda fit: 0.0,
    "do not use this run: it took a round that it should have left out",
    name="no_round_rose",
    needs_steps="no round of self-learning was made",
)


def _search(fit: claims.Fit) -> float:
    rows, size = np.shape(fit.target_matrix_)
    return float(len(fit.data.places)) * rows * size + rows * size


def ranks(fit: claims.Fit, sources: Array, targets: list[Array]) -> tuple[Array, int]:
    """For source words, the share of other target words that the best of their true ones ranks before; and how many rank first.

    Equal cosines count half.
    """
    W = np.asarray(fit.rotation_, np.float64)
    X, Y = unit(np.asarray(fit.source_matrix_)[sources]) @ W, unit(fit.target_matrix_)
    shares, first = np.empty(len(X)), 0
    rows = max(1, AT_ONCE // max(len(Y), 1))
    for start in range(0, len(X), rows):
        scores = X[start : start + rows] @ Y.T
        for i, row in enumerate(scores, start):
            true = row[targets[i]].max()
            row[targets[i]] = np.nan
            above, equal = int((row > true).sum()), int((row == true).sum())
            shares[i] = 1 - (above + equal / 2) / max(len(row) - len(targets[i]), 1)
            first += above + equal == 0
    return shares, first


@claims.statistical(
    "the true word of a new pair ranks before nine in ten others, on average",
    "ML Generalization gap",
    cost=_search,
    confidence=0.95,
)
def new_pairs_found(fit: claims.Fit):
    """By the cosine, over source words that no given pair holds; by chance half of the words rank before. Words are taken as
    independent draws from those that will be asked for."""
    given = np.asarray(fit.seeds_)
    places = np.asarray(fit.data.places)
    new = ~(np.isin(places[:, 0], given[:, 0]) | np.isin(places[:, 1], given[:, 1]))
    sources, where = np.unique(places[new, 0], return_inverse=True)
    if len(sources) < FEWEST:
        return claims.unknown(f"{len(sources)} words that no given pair has; pass {FEWEST} or more")
    targets = [places[new, 1][where == i] for i in range(len(sources))]
    shares, first = ranks(fit, sources, targets)
    low, high = betting(shares, 0.05)
    exact = clopper_pearson(first, len(shares))
    note = (
        f"{len(shares):,} new words; precision@1 {first / len(shares):.3f} ({exact[0]:.3f} to {exact[1]:.3f}), by chance "
        f"{1 / len(fit.target_matrix_):.2g}"
    )
    advice = "pass more pairs, or better ones; or the two are too different for a rotation"
    if low >= BEFORE or high < BEFORE:
        measured = low if low >= BEFORE else high
        return claims.at_least(measured, BEFORE, advice, unit="ranks before", note=note)
    return claims.unknown(
        f"between {low:.3f} and {high:.3f}: pass more pairs ({note})", float(shares.mean())
    )


SHAPES = {"rotation_": "k k", "source_matrix_": "s k", "target_matrix_": "t k"}
PLACES = {"pairs_": "p 2 int >=0", "seeds_": "r 2 int >=0", "loss_": ">=0"}
SOUND = attributes_sound({**SHAPES, **PLACES}, places_wrong)
OTHERS = "n_features_in_ seeds_ n_unknown_ source_words_ target_words_"
TRUE = statements_true(statement_errors, cost=_work, unchecked=OTHERS)
ALIGNMENT_CLAIMS = (
    SOUND, TRUE, no_better_rotation, orthogonal_map, rotation_determined, no_round_rose, new_pairs_found,
)  # fmt: skip
