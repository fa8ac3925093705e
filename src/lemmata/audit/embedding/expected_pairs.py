"""How often pairs of words meet in the windows of skip-gram, on average over what is drawn: N_wv, exactly.

An occurrence s is kept with probability k_s, independently of all others; windows reach over the words that are left. So s sees
t if both are kept and fewer than the reach of s are kept in between:

    E N_wv = Σ_(s,t) k_s k_t Σ_j P(j kept in between) g(j + 1),        w at s, v at t, in one sentence

g(Δ) = 1, or (R − Δ + 1)/R where reaches are drawn evenly from 1 … R. The number kept in between is a sum of independent 0s and
1s; one more word, kept with probability k, makes P'(j) = (1 − k)P(j) + k P(j − 1). With all k = 1 it is the distance, and N the
count in windows. Where fewer than R are kept in between with probability below NEGLIGIBLE, a pair is left out.

    E T_w = Σ_s k_s (1 − Π_(t ≠ s) (1 − k_t))          occurrences of w that are kept and see another word
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

Array = np.ndarray
NEGLIGIBLE = 1e-12
AT_ONCE = 2**21  # numbers of P at a time
DENSE = 2**23  # pairs of words that are cheaper to add up in a table than to sort


@dataclass(frozen=True)
class ExpectedPairs:
    """N (v, v), symmetric; T (v,)."""

    N: Any
    T: Array


def expected_pairs(text: Any, keep: Array, window: int, shrink: bool) -> ExpectedPairs:
    """The averages over a text, an iterable of (ids, starts) of sentences."""
    v = len(keep)
    g = (window - np.arange(window)) / window if shrink else np.ones(window)
    sums, T = Sums(v), np.zeros(v)
    for ids, starts in text:
        sentence = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
        ids = np.asarray(ids, np.int64)
        T += np.bincount(ids, seen(keep[ids], sentence), minlength=v)
        size = max(1, AT_ONCE // window)
        for first in range(0, len(ids), size):
            add_pairs(sums, ids, sentence, keep, g, np.arange(first, min(first + size, len(ids))))
    found = sums.matrix()
    return ExpectedPairs(sp.csr_array(found + found.T), T)


def add_pairs(sums: Sums, ids: Array, sentence: Array, keep: Array, g: Array, s: Array) -> None:
    """The pairs (s, t) with t after s."""
    P = np.zeros((len(s), len(g)))  # P(j kept in between), j < R
    P[:, 0] = 1
    t = s + 1
    while len(s):
        inside = t < len(ids)
        inside[inside] = sentence[t[inside]] == sentence[s[inside]]
        inside &= P.sum(axis=1) > NEGLIGIBLE
        s, t, P = s[inside], t[inside], P[inside]
        k = keep[ids[t]][:, None]
        sums.add(ids[s], ids[t], keep[ids[s]] * k[:, 0] * (P @ g))
        P[:, 1:] = (1 - k) * P[:, 1:] + k * P[:, :-1]
        P[:, :1] *= 1 - k
        t = t + 1


def seen(k: Array, sentence: Array) -> Array:
    """k_s (1 − Π (1 − k_t)) of every occurrence, the product over the others of its sentence."""
    if not len(k):
        return np.zeros(0)
    sure = k >= 1
    logs = np.log1p(-np.where(sure, 0.0, k))  # a word that is always kept makes the product 0
    certain, rest = np.bincount(sentence, sure), np.bincount(sentence, logs)
    others = np.where(certain[sentence] - sure > 0, 0.0, np.exp(rest[sentence] - logs))
    return k * (1 - others)


class Sums:
    """Values added up by pair: in a table where that is small, else sorted from time to time."""

    def __init__(self, v: int):
        self.v = v
        self.table = np.zeros(v * v) if v * v <= DENSE else None
        self.waiting: list[tuple[Array, Array]] = []
        self.found: Any = sp.csr_array((v, v))

    def add(self, rows: Array, columns: Array, values: Array) -> None:
        keys = rows * self.v + columns
        if self.table is not None:
            self.table += np.bincount(keys, values, minlength=self.v**2)
            return
        self.waiting.append((keys, values))
        if sum(len(keys) for keys, _ in self.waiting) > DENSE:
            self._sort()

    def _sort(self) -> None:
        keys, values = map(np.concatenate, zip(*self.waiting, strict=True))
        more = sp.coo_array((values, np.divmod(keys, self.v)), shape=(self.v, self.v))
        self.found, self.waiting = self.found + more.tocsr(), []

    def matrix(self) -> Any:
        if self.table is not None:
            return sp.csr_array(self.table.reshape(self.v, self.v))
        if self.waiting:
            self._sort()
        return self.found
