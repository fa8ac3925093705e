"""Dirichlet priors: what a user may pass, and Minka's fixed point that learns them from counts.

    ln p(n | α) = Σ_d [ lnΓ(A) − lnΓ(N_d + A) + Σ_j lnΓ(n_dj + α_j) − lnΓ(α_j) ],        A = Σ_j α_j,  N_d = Σ_j n_dj

Minka (2000) bounds it from below by a function that touches it at the present α; its maximum is

    α_j ← α_j Σ_d [ψ(n_dj + α_j) − ψ(α_j)]  /  Σ_d [ψ(N_d + A) − ψ(A)]

so the likelihood cannot fall. For whole numbers ψ(n + a) − ψ(a) = 1/a + … + 1/(a + n − 1): a table and a histogram do it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

Array = np.ndarray
SMALLEST = 1e-5  # of a learned α: a topic that no document uses would go to 0, where Γ has no value
DOC_TOPIC, TOPIC_WORD = 0.1, 0.05  # chosen on AP and newsgroups, among training documents


def doc_topic_prior(given: Any, k: int) -> Array:
    """α (k,) from None, "auto", a number or an array."""
    if given is None or isinstance(given, str):  # "auto" begins at the default
        given = DOC_TOPIC
    alpha = np.asarray(given, dtype=np.float64)
    if alpha.ndim == 0:
        alpha = np.full(k, float(alpha))
    if alpha.shape != (k,):
        raise ValueError(
            f"doc_topic_prior has shape {alpha.shape}; it is a number, or an array of n_components={k} numbers."
        )
    return _positive(alpha, "doc_topic_prior")


def topic_word_prior(given: Any, k: int, m: int) -> Array:
    """β as (m, k), or (1, k) where all words have the same, from None, a number, (m,) or (k, m)."""
    beta = np.asarray(TOPIC_WORD if given is None else given, dtype=np.float64)
    _positive(beta, "topic_word_prior")
    if beta.ndim == 0:
        return np.full((1, k), float(beta))
    if beta.shape == (m,):
        return np.repeat(beta[:, None], k, axis=1)
    if beta.shape == (k, m):
        return np.ascontiguousarray(beta.T)
    raise ValueError(
        f"topic_word_prior has shape {beta.shape}; it is a number, an array of {m} numbers, one for each word, or of "
        f"({k}, {m}), one for each topic and word."
    )


def _positive(prior: Array, name: str) -> Array:
    if not (np.isfinite(prior).all() and (prior > 0).all()):
        raise ValueError(f"{name} is finite and > 0 everywhere; found {prior.min():g}.")
    return prior


def with_seed_words(beta: Array, seeds: Any, weight: float, words: Array | None, m: int) -> Array:
    """β with `weight` added where a word is named for a topic: {topic: [word, …]}."""
    if not isinstance(seeds, Mapping):
        raise TypeError(f"seed_words is a dict {{topic: [words]}}, not a {type(seeds).__name__}.")
    k = beta.shape[1]
    beta = np.array(np.broadcast_to(beta, (m, k)))
    places = {} if words is None else {word: place for place, word in enumerate(words)}
    for topic, named in seeds.items():
        if (
            isinstance(topic, bool)
            or not isinstance(topic, (int, np.integer))
            or not 0 <= topic < k
        ):
            raise ValueError(f"seed_words names topic {topic!r}; topics are numbers 0 … {k - 1}.")
        if isinstance(named, str):
            raise TypeError(f"seed_words[{topic}] is a text; pass a list of words.")
        for word in named:
            beta[_column(word, places, m), topic] += weight
    return beta


def _column(word: Any, places: dict[str, int], m: int) -> int:
    if word in places:
        return places[word]
    if isinstance(word, (int, np.integer)) and not isinstance(word, bool) and 0 <= word < m:
        return int(word)
    where = f"among the {len(places):,} words fitted to" if places else f"a column 0 … {m - 1}"
    raise ValueError(
        f"seed word {word!r} is not {where}; leave it out, or count documents with it."
    )


# --- Minka's fixed point ----------------------------------------------------------------------------------------------


def _histogram(counts: Array) -> Array:
    """Numbers of documents with more than 0, 1, 2, … tokens, for each column: (most, k)."""
    most, k = int(counts.max(initial=0)), counts.shape[1]
    cells = counts.astype(np.int64) * k + np.arange(k)
    seen = np.bincount(cells.ravel(), minlength=(most + 1) * k).reshape(-1, k)
    return np.cumsum(seen[::-1], axis=0)[::-1][1:]


def learn_doc_topic_prior(counts: Array, alpha: Array, steps: int = 5) -> Array:
    """α after some steps of the fixed point on whole counts n_dj (n, k)."""
    above = _histogram(counts)
    lengths = _histogram(counts.sum(axis=1, dtype=np.float64)[:, None])
    order, whole = np.arange(len(above))[:, None], np.arange(len(lengths))[:, None]
    for _ in range(steps):
        gains = (above / (order + alpha)).sum(axis=0)
        cost = float((lengths / (whole + alpha.sum())).sum())
        if cost <= 0:  # no tokens
            return alpha
        alpha = np.maximum(alpha * gains / cost, SMALLEST)
    return alpha
