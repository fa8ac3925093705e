"""Interpolated Kneser–Ney: the next token from counts of the runs that ended in it (ML "Language Models").

    P_k(w|h) = max(a(hw) − D, 0)/a(h·) + γ(h) P_{k−1}(w|h'),      γ(h) = Σ_w min(D, a(hw)) / a(h·),     P_0 uniform

for the last k − 1 tokens h, h' without the first of them. In the longest runs a counts occurrences, in shorter ones the
different tokens that stood before a run: "Francisco" is frequent, but only after "San". D has three values, for runs of
a = 1, 2 and more (Chen & Goodman 1999), from how many runs have a = 1, 2, 3, 4:

    D_i = i − (i + 1) Y n_{i+1}/n_i,      Y = n₁/(n₁ + 2 n₂)

Before a text stand [EOS] without end, so that texts do not know of each other. Runs that begin with [EOS] have nothing else
before them: their a is the number of occurrences at any length.

A run of k tokens is kept as a number: that of its first k − 1 tokens times V, plus its last one. Counts of two texts add up.

>>> import numpy as np
>>> text = np.array([6, 7, 6, 7, 2])                                # a b a b [EOS]
>>> whole, none = RunCounts.of(text, 2, 8), RunCounts.of(text[:0], 2, 8)
>>> float(np.exp(-KneserNey(whole + none).losses(text)).min()) > 0.2
True
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from lemmata.core.files.encoding import storable
from lemmata.language.tokens import EOS, FIRST, UNK

Array = np.ndarray
LEAST_DISCOUNT = 0.1  # where too few runs are rare to tell: some mass has to be left for others
AT_ONCE = 2**20  # tokens whose runs are looked up together


@storable
@dataclass(frozen=True, eq=False)
class RunCounts:
    """Occurrences of all runs of up to n tokens, those that reach back before a text included.

    n_tokens : int
        V.
    sizes : (n,)
        Number of runs of each length.
    keys, counts : (Σ sizes,)
        Of each length in rising order: number of the run without its last token · V + last token; and its occurrences.
    """

    layout: ClassVar[Mapping[str, str]] = {
        "n_tokens": "int >=1",
        "sizes": "lengths int >=0",
        "keys": "runs int >=0",
        "counts": "runs int >=0",
    }

    n_tokens: int
    sizes: Array
    keys: Array
    counts: Array

    @classmethod
    def of(cls, tokens: Array, order: int, n_tokens: int) -> RunCounts:
        """Count the runs of texts, each of which ends with [EOS]."""
        x = np.concatenate([[EOS], tokens]).astype(np.int64)
        ends, before = x == EOS, np.zeros(len(x), np.int64)
        keys, counts, padding = [], [], 0
        for _ in range(order):
            found, number = np.unique(
                np.append(before[:-1] * n_tokens + x[1:], padding * n_tokens + EOS), return_inverse=True
            )  # fmt: skip
            padding = number[-1]  # the run of [EOS] alone, which ends nowhere but before a text
            keys.append(found)
            counts.append(np.bincount(number[:-1], minlength=len(found)))
            before[1:] = number[:-1]
            before[ends] = padding
        return cls._join(n_tokens, keys, counts)

    @classmethod
    def _join(cls, n_tokens: int, keys: list[Array], counts: list[Array]) -> RunCounts:
        sizes = np.array([len(part) for part in keys], np.int64)
        return cls(n_tokens, sizes, np.concatenate(keys), np.concatenate(counts))

    @property
    def order(self) -> int:
        return len(self.sizes)

    def levels(self) -> list[tuple[Array, Array]]:
        """Keys and counts of each length. ValueError where keys are not those of runs."""
        cuts, above, found = np.cumsum(self.sizes)[:-1], 1, []
        if self.sizes.sum() != len(self.keys) or not len(self.sizes):
            raise ValueError("the sizes of its counts do not add up.")
        for keys, counts in zip(np.split(self.keys, cuts), np.split(self.counts, cuts), strict=True):  # fmt: skip
            if not len(keys) or (np.diff(keys) <= 0).any() or keys[-1] >= above * self.n_tokens:
                raise ValueError("its counts are not those of runs of tokens.")
            found.append((keys, counts))
            above = len(keys)
        return found

    def __add__(self, other: RunCounts) -> RunCounts:
        V, keys, counts = self.n_tokens, [], []
        if (other.n_tokens, other.order) != (V, self.order):
            raise ValueError("counts of other tokens, or of runs of another length, do not add up.")
        places = [np.zeros(1, np.int64)] * 2
        for levels in zip(self.levels(), other.levels(), strict=True):
            moved = [places[i][one // V] * V + one % V for i, (one, _) in enumerate(levels)]
            joint = np.union1d(*moved)
            places = [np.searchsorted(joint, one) for one in moved]
            total = np.zeros(len(joint), np.int64)
            for at, (_, count) in zip(places, levels, strict=True):
                total[at] += count
            keys.append(joint)
            counts.append(total)
        return self._join(V, keys, counts)


def discounts(a: Array) -> Array:
    """(4,): D for runs of a = 0, 1, 2 and more."""
    n = np.bincount(np.minimum(a, 5), minlength=6)[1:5].astype(float)
    D = np.array([0.0, 0.5, 0.5, 0.5])
    if n[0] > 0 and n[1] > 0:
        Y = n[0] / (n[0] + 2 * n[1])
        for i in (1, 2, 3):
            if n[i - 1] > 0:
                D[i] = i - (i + 1) * Y * n[i] / n[i - 1]
    D[1:] = np.clip(D[1:], LEAST_DISCOUNT, [1, 2, 3])
    return D


class KneserNey:
    """Probabilities by counts. Tables for each length k: rest (γ of each context) and share (max(a − D, 0)/a(h·) of each run).

    counts : RunCounts
    """

    def __init__(self, counts: RunCounts):
        self.n_tokens, self.order = counts.n_tokens, counts.order
        V, levels = self.n_tokens, counts.levels()
        self.keys = [keys for keys, _ in levels]
        self.padding = np.zeros(self.order + 1, np.int64)  # the number of the run of [EOS] alone
        first, suffix = np.full(1, -1), np.zeros(1, np.int64)
        suffixes, firsts = [], []
        for k, keys in enumerate(self.keys):
            context, last = keys // V, keys % V
            first = last if k == 0 else first[context]
            firsts.append(first)
            suffix = np.zeros(len(keys), np.int64) if k == 0 else self.find(k, suffix[context], last)  # fmt: skip
            if (suffix < 0).any():
                raise ValueError("its counts lack runs that are parts of others.")
            suffixes.append(suffix)
            self.padding[k + 1] = self.find(k + 1, self.padding[k : k + 1], np.array([EOS]))[0]
        if (self.padding < 0).any():
            raise ValueError("its counts lack the run before a text.")
        self.rest: list[Array] = []
        self.share: list[Array] = []
        for k, (keys, occurrences) in enumerate(levels):
            a = occurrences
            if k + 1 < self.order:
                kinds = np.bincount(suffixes[k + 1], levels[k + 1][1] > 0, minlength=len(keys))
                a = np.where((firsts[k] == EOS) & (k > 0), occurrences, kinds).astype(np.int64)
            D, context = discounts(a)[np.minimum(a, 3)], keys // V
            contexts = len(self.keys[k - 1]) if k else 1
            whole = np.maximum(np.bincount(context, a, minlength=contexts), 1e-300)
            taken = np.bincount(context, np.minimum(D, a), minlength=contexts)
            self.rest.append(np.where(whole >= 1, taken / whole, 1.0))
            self.share.append(np.maximum(a - D, 0) / whole[context])

    def find(self, length: int, context: Array, last: Array) -> Array:
        """Numbers of runs of this length by context and last token, −1 where there is none."""
        keys, wanted = self.keys[length - 1], context * self.n_tokens + last
        at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        return np.where((context >= 0) & (keys[at] == wanted), at, -1)

    def uniform(self) -> Array:
        """(V,): P₀, over all that can come next: tokens of texts, [UNK] and [EOS]."""
        P = np.zeros(self.n_tokens)
        P[FIRST:], P[[UNK, EOS]] = 1.0, 1.0
        return P / P.sum()

    def losses(self, tokens: Array) -> Array:
        """(N,): −ln P of each token of texts, each of which ends with [EOS]."""
        found, state = [], self.start(1)
        for begin in range(0, len(tokens), AT_ONCE):
            part = np.asarray(tokens[begin : begin + AT_ONCE], np.int64)
            contexts, runs = self._walk(state, part)
            P = self.uniform()[part]
            for k in range(self.order):
                known, run = contexts[k] >= 0, runs[k]
                P = P * np.where(known, self.rest[k][contexts[k]], 1.0)
                P += np.where(known & (run >= 0), self.share[k][run], 0.0)
            found.append(-np.log(P))
        return np.concatenate(found) if found else np.empty(0)

    def _walk(self, state: Array, tokens: Array) -> tuple[list[Array], list[Array]]:
        """Numbers of the contexts before each token, and of the runs that end with it, by length; moves the state on."""
        contexts, runs = [], []
        before, ends = np.zeros(len(tokens), np.int64), tokens == EOS
        for k in range(self.order):
            contexts.append(before)
            run = self.find(k + 1, before, tokens)
            runs.append(run)
            after = np.where(ends, self.padding[k + 1], run)
            if k + 1 < self.order:
                before = np.concatenate([state[:1, k + 1], after[:-1]])
                state[0, k + 1] = after[-1]
        return contexts, runs

    # --- one token after the other ---

    def start(self, rows: int) -> Array:
        """(rows, n): the contexts at the beginning of a text, by their length."""
        return np.tile(self.padding[: self.order], (rows, 1))

    def move(self, state: Array, tokens: Array) -> Array:
        """The contexts after one more token in each row."""
        new = state.copy()
        for k in range(1, self.order):
            new[:, k] = self.find(k, state[:, k - 1], tokens)
        new[tokens == EOS] = self.padding[: self.order]
        return new

    def next_probabilities(self, context: Array) -> Array:
        """(V,): P(w|h) of all tokens, after the contexts (n,) of one row."""
        P = self.uniform()
        for k in range(self.order):
            h = int(context[k])
            if h < 0:
                break
            keys, V = self.keys[k], self.n_tokens
            lo, hi = np.searchsorted(keys, (h * V, (h + 1) * V))
            P *= self.rest[k][h]
            P[keys[lo:hi] % V] += self.share[k][lo:hi]
        return P
