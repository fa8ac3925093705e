"""Claims about vectors of words as they are used, by the angles between them; no text is needed.

With u_w = z_w/‖z_w‖ the directions of n words (a vector of zeros has none; all of them count as one direction of their own):

    mean cosine              of two different words, (‖Σu‖² − n)/(n(n − 1))
    dimensions               e^H, H the entropy of the eigenvalues of the covariance of u, over those that there could be
    explained by frequency   R² of the regression of u on ln count: ‖cov(u, x)‖²/(var x · tr cov u)

**What the scores determine.** A model with two embeddings knows S = ζzᵀ. (ζA, zA⁻ᵀ) has the same S for every invertible A, so
no angle between rows of ζ follows from the scores; with one embedding S = zzᵀ fixes all angles. Among all pairs with the same
scores, ζ = UΣ^½, z = VΣ^½ with S = UΣVᵀ is the balanced one, ζᵀζ = zᵀz, unique up to a rotation. Gradient steps keep ζᵀζ − zᵀz
up to second order terms, so that training which begins near zero ends near balance. What is measured is how many of the
nearest words survive when ζ is balanced. (With biases, ζ_w + c and b_v − ⟨c, z_v⟩ have the same scores: the origin is free.)
"""

from __future__ import annotations

import math

import numpy as np

from lemmata.audit.kernel import claims
from lemmata.audit.kernel.concentration import mean_of_unlike_at_least

Array = np.ndarray
ALIKE = 0.5  # mean cosine
# Texts of 12,000 to 200,000 tokens: read less than 500 times per word a mean cosine of 0.7 to 1, from 1200 on below 0.5.
# Few words need more: 114 of them 2500, 208 of them 1700 (texts of 3,000 and 6,000 tokens).
READ, FEW_WORDS = 1200, 200
DIMENSIONS = 0.1
EXPLAINED = 0.1
EQUALLY = 0.25  # deviation of ln count: less of it is hardly more than chance
SHARED = 0.5  # of the nearest words
NEAREST = 10
ASKED = 400  # words whose neighbours are compared
ROWS = 2**14  # at a time
NO_SPREAD = 1e-12  # of directions that differ by rounding
RISK = 0.05
QUESTIONS = 256  # at a time


def directions(rows: Array) -> Array:
    """Rows of length 1 in double precision, of any size; zeros stay zeros."""
    rows = np.asarray(rows, np.float64)
    largest = np.abs(rows).max(axis=1, initial=0.0, keepdims=True)
    rows = rows / np.where(largest > 0, largest, 1)
    sizes = np.sqrt(np.einsum("ij,ij->i", rows, rows))[:, None]
    return rows / np.where(sizes > 0, sizes, 1)


def vectors_of(fit: claims.Fit, name: str = "embedding_") -> Array:
    """The vectors that are compared: without the first coordinate where that is a bias, or its counterpart of ones."""
    Z = np.asarray(getattr(fit, name))
    return Z[:, 1:] if isinstance(fit.get("biases"), str) and fit.biases == "clamped" else Z


def _blocks(fit: claims.Fit):
    """Places and directions, block by block."""
    Z = vectors_of(fit)
    for first in range(0, len(Z), ROWS):
        yield slice(first, first + ROWS), directions(Z[first : first + ROWS])


def _require_some(fit: claims.Fit) -> None:
    if len(fit.embedding_) < 5:
        raise claims.CannotTell(f"{len(fit.embedding_)} vectors: too few to speak of")


# --- collapse ---------------------------------------------------------------------------------------------------------


def _entries(fit: claims.Fit) -> float:
    return float(np.size(fit.embedding_))


def _squares(fit: claims.Fit) -> float:
    n, k = np.shape(fit.embedding_)
    return float(n) * k * (k + 1)


@claims.rule_of_thumb(
    "two words taken at random have a cosine of at most 0.5 on average",
    "Mimno & Thompson 2017; Mu & Viswanath 2018",
    cost=_entries,
)
def directions_spread(fit):
    """The mean cosine of all pairs of different words; vectors of zeros count as alike."""
    _require_some(fit)
    n, zeros, total = 0, 0, np.zeros(vectors_of(fit).shape[1])
    for _, u in _blocks(fit):
        n, zeros = n + len(u), zeros + int((~u.any(axis=1)).sum())
        total = total + u.sum(axis=0)
    alike = float(total @ total) - (n - zeros) + zeros * (zeros - 1.0)
    return claims.at_most(
        alike / (n * (n - 1.0)),
        ALIKE,
        f"the vectors have collapsed onto one direction: {_remedy(fit)}",
        unit="mean cosine",
    )


def _remedy(fit: claims.Fit) -> str:
    """Return advice: negative sampling needs its epochs, so many that each word is read often; else a mean goes."""
    counts, epochs = fit.get("counts_"), fit.get("epochs")
    if fit.get("negative") is not None and epochs is not None and counts is not None:
        enough = math.ceil(READ * (len(counts) + FEW_WORDS) / max(float(np.sum(counts)), 1.0))
        if enough > epochs:
            return f"pass epochs={enough}"
    return "subtract their mean before comparing"


@claims.fact(cost=_squares)
def spread(fit: claims.Fit) -> Array:
    """Return the covariance of directions."""
    k = vectors_of(fit).shape[1]
    n, total, square = 0, np.zeros(k), np.zeros((k, k))
    for _, u in _blocks(fit):
        n, total, square = n + len(u), total + u.sum(axis=0), square + u.T @ u
    mean = total / n
    return square / n - np.outer(mean, mean)


@claims.rule_of_thumb(
    "directions, less their mean, spread over at least a tenth of their dimensions",
    "Roy & Vetterli 2007",
    needs=(spread,),
)
def dimensions_used(fit):
    """e^H of the eigenvalues of the covariance, as a share of min(k, n − 1)."""
    _require_some(fit)
    C, n = spread(fit), len(fit.embedding_)
    values = np.maximum(np.linalg.eigvalsh(C), 0.0)
    used, most = 0.0, min(len(C), n - 1)
    if values.sum() > NO_SPREAD:
        p = values[values > 0] / values.sum()
        used = math.exp(-float(p @ np.log(p)))
    return claims.at_least(
        used / most,
        DIMENSIONS,
        "few directions carry everything: lower vector_size, or train on more text",
        unit="share of dimensions",
        note=f"{used:.3g} of {most}",
    )


# --- frequency --------------------------------------------------------------------------------------------------------


@claims.rule_of_thumb(
    "how often words occur explains at most a tenth of the spread of their directions",
    "Mu & Viswanath 2018; Gong et al. 2018",
    needs=(spread,),
)
def frequency_apart(fit):
    """R² of directions on ln count."""
    _require_some(fit)
    counts = fit.get("counts_")
    if counts is None:
        return claims.unknown("counts are not known: pass WordVectors(words, matrix, counts)")
    x = np.log(np.maximum(np.asarray(counts, np.float64), 1.0))
    x = x - x.mean()
    if x.std() < EQUALLY:
        return claims.unknown("all words are about equally frequent")
    C, n = spread(fit), len(fit.embedding_)
    if not np.trace(C) > NO_SPREAD:
        return claims.unknown("all vectors are the same: there is no spread to explain")
    c = sum(x[at] @ u for at, u in _blocks(fit)) / n
    share = float(c @ c) / (float(x @ x) / n * float(np.trace(C)))
    return claims.at_most(
        share,
        EXPLAINED,
        "nearest words are those of like frequency: subtract the first principal direction, or train on more text",
        unit="explained share",
    )


# --- what the scores determine ----------------------------------------------------------------------------------------


def _cost_of_neighbours(fit: claims.Fit) -> float:
    n, k = np.shape(fit.embedding_)
    return 4.0 * n * k * k + 2.0 * min(n, ASKED) * n * k


def balance(X: Array, Z: Array) -> tuple[Array, Array]:
    """ζ = UΣ^½ of XZᵀ = UΣVᵀ, by QR decompositions of both, and Σ."""
    (Q, R), (_, S) = (np.linalg.qr(np.asarray(part, np.float64)) for part in (X, Z))
    U, sigma, _ = np.linalg.svd(R @ S.T)
    return (Q @ U)[:, : len(sigma)] * np.sqrt(sigma), sigma


def nearest(vectors: Array, asked: Array, n: int) -> Array:
    """The n words nearest to each asked word, itself left out."""
    u = directions(vectors)
    cosines = u[asked] @ u.T
    cosines[np.arange(len(asked)), asked] = -np.inf
    return np.argpartition(-cosines, n - 1, axis=1)[:, :n]


@claims.rule_of_thumb(
    "at least half of the nearest words are those of the balanced vectors with the same scores",
    "CIL (3.44), (3.59)",
    cost=_cost_of_neighbours,
)
def nearest_words_determined(fit):
    """For up to 400 evenly spaced words, the share of the 10 nearest that are also among the 10 nearest once ζ is balanced."""
    _require_some(fit)
    if fit.get("context_embedding_") is None:
        return claims.unknown("vectors without those of contexts: their scores are not known")
    ours = vectors_of(fit)
    other, sigma = balance(ours, vectors_of(fit, "context_embedding_"))
    if not sigma.max(initial=0.0) > 0:
        return claims.unknown("all scores are 0: they determine nothing")
    asked = np.unique(np.linspace(0, len(ours) - 1, ASKED).astype(int))
    n = min(NEAREST, (len(ours) - 1) // 2)
    found = [nearest(part, asked, n) for part in (ours, other)]
    both = [len(np.intersect1d(*rows)) for rows in zip(*found, strict=True)]
    return claims.at_least(
        float(np.mean(both)) / n,
        SHARED,
        "scores fix vectors only up to an invertible map: compare words by the balanced ones (embedding.balanced)",
        unit="share of the nearest",
        note=f"{len(asked)} words, {n} nearest",
    )


# --- analogies --------------------------------------------------------------------------------------------------------


def answers(fit: claims.Fit, questions: Array) -> tuple[Array, Array]:
    """Return for each question a b c d whether b − a + c solves it, and whether the word nearest to c does."""
    u = directions(vectors_of(fit))
    solved = []
    for first in range(0, len(questions), QUESTIONS):
        a, b, c, d = questions[first : first + QUESTIONS].T
        for queries in (u[b] - u[a] + u[c], u[c]):
            cosines = queries @ u.T
            for given in (a, b, c):
                cosines[np.arange(len(d)), given] = -np.inf
            solved.append(cosines.argmax(axis=1) == d)
    return np.concatenate(solved[::2]), np.concatenate(solved[1::2])


def draws_of(questions: Array, gains: Array) -> Array:
    """Return the gains of questions that share no word, in a fixed random order: at most half as many as there are pairs.

    All questions about the same four words are one draw, of their mean gain.
    """
    words, at = np.unique(np.sort(questions, axis=1), axis=0, return_inverse=True)
    means = np.bincount(at.ravel(), gains) / np.bincount(at.ravel())
    used: set[int] = set()
    kept = []
    for one in np.random.default_rng(0).permutation(len(words)).tolist():
        mine = set(words[one].tolist())
        if used.isdisjoint(mine):
            used |= mine
            kept.append(one)
    return means[kept]


def _answering(fit: claims.Fit) -> float:
    return 2.0 * len(fit.analogies) * np.size(fit.embedding_)


@claims.statistical(
    "b − a + c solves more analogies like these than the word nearest to c",
    "CIL (3.64); Linzen 2016",
    confidence=1 - RISK,
    cost=_answering,
)
def analogies_solved(fit):
    """The gain in share solved, between −1 and 1, with an interval by bets.

    Questions are pairs of pairs: 16 pairs make 240 of them, and 8 independent draws, those that share no word. Pairs are taken
    as independent draws of their kind; kinds may differ.
    """
    questions = np.asarray(fit.analogies)
    if not len(questions):
        return claims.unknown("no question has vectors for its four words")
    by_offset, by_nearest = (hits.astype(float) for hits in answers(fit, questions))
    gains = draws_of(questions, by_offset - by_nearest)
    low, high = (sign * mean_of_unlike_at_least(sign * gains, RISK / 2, -1, 1) for sign in (1, -1))
    note = (
        f"{100 * by_offset.mean():.3g} % of {len(questions):,} solved, {100 * by_nearest.mean():.3g} % by the word nearest to "
        f"c, {100 / max(len(fit.embedding_) - 3, 1):.2g} % by chance; {len(gains):,} that share no word: a gain between "
        f"{100 * low:.2g} and {100 * high:.2g} points"
    )
    if low <= 0 <= high:
        return claims.unknown(note, float(gains.mean()), "gain")
    advice = "differences of vectors mean nothing: train on more text, or use nearest words only"
    return claims.at_least(float(gains.mean()), 0, advice, unit="gain", note=note)


GEOMETRY_CLAIMS = (directions_spread, dimensions_used, frequency_apart, nearest_words_determined)
ANALOGY_CLAIMS = (analogies_solved,)
