"""The draws of negative sampling: which words of a text are kept, and the negatives.

    keep(w) = min{1, √(t/f_w) + t/f_w}       f_w the relative frequency of w, t = `sample`; as word2vec keeps frequent words
    q(w) ∝ p(w)^α                            negatives, CIL (3.51), α = ¾

A draw from q takes one random number and two reads of an alias table (Walker 1977): place i of n, each of which has the mass
1/n and belongs to at most two words, `other[i]` taking what `cut[i]` leaves.

>>> table = AliasTable.of(np.array([1.0, 1, 2]))
>>> table.probabilities.tolist()
[0.25, 0.25, 0.5]
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

Array = np.ndarray
WHOLE = 2**32  # a probability of one, in numbers of 32 bits
CHUNK = 2**13  # tokens that a thread takes at a time
MEASURED = 2**16  # tokens whose windows give the loss


def keep_probabilities(counts: Array, sample: float) -> Array:
    """The probability that an occurrence of each word is kept; sample = 0 keeps all."""
    total = counts.sum()
    if sample <= 0 or total == 0:
        return np.ones(len(counts))
    ratio = sample * total / np.maximum(counts, 1)
    return np.minimum(1.0, np.sqrt(ratio) + ratio)


def noise(counts: Array, exponent: float) -> Array:
    """q ∝ counts^exponent; a word that does not occur is never drawn."""
    weights = np.where(counts > 0, np.maximum(counts, 1).astype(np.float64) ** exponent, 0.0)
    total = weights.sum()
    return weights / total if total > 0 else np.full(len(counts), 1 / max(len(counts), 1))


@dataclass(frozen=True)
class AliasTable:
    """A distribution over 0 … n − 1 that is drawn from in constant time."""

    cut: Array  # (n,) uint64: below it of 2³², place i means i
    other: Array  # (n,) int32: and above it this

    @classmethod
    def of(cls, weights: Array) -> AliasTable:
        n = len(weights)
        if n == 0 or not np.isfinite(weights).all() or weights.min() < 0 or weights.sum() <= 0:
            raise ValueError("weights are finite numbers >= 0, not all of them 0.")
        mass = (np.asarray(weights, np.float64) * (n / weights.sum())).tolist()
        cut, other = [1.0] * n, list(range(n))
        small = [i for i, value in enumerate(mass) if value < 1]
        large = [i for i, value in enumerate(mass) if value >= 1]
        while small and large:
            poor, rich = small.pop(), large[-1]
            cut[poor], other[poor] = mass[poor], rich
            mass[rich] -= 1 - mass[poor]
            if mass[rich] < 1:
                small.append(large.pop())
        cuts = np.minimum(np.rint(np.array(cut) * WHOLE), WHOLE).astype(np.uint64)
        return cls(cuts, np.array(other, dtype=np.int32))

    @property
    def packed(self) -> Array:
        """(n,) uint64, the cut in the low half and the other in the high: one read, not two."""
        # where the cut is 2³², the other is the place itself
        low = np.minimum(self.cut, np.uint64(WHOLE - 1))
        return low | (self.other.astype(np.uint64) << np.uint64(32))

    @property
    def probabilities(self) -> Array:
        """The distribution of draws, exactly: the cuts are rounded to 2⁻³²."""
        share = self.cut.astype(np.float64) / WHOLE
        n = len(share)
        return (share + np.bincount(self.other, 1 - share, minlength=n)) / n

    def draw(self, rng: np.random.Generator, size: int | tuple[int, ...]) -> Array:
        places = rng.integers(0, len(self.cut), size)
        stays = rng.integers(0, WHOLE, size, dtype=np.uint64) < self.cut[places]
        return np.where(stays, places, self.other[places])


@dataclass(frozen=True)
class Chunks:
    """A block of a text, and the ranges of its sentences that are trained one after the other or in parallel."""

    position: int  # of its first token in the text
    unit: int  # number of its first sentence
    ids: Array
    starts: Array
    ranges: list[tuple[int, int]]


class SampledText:
    """A text with what training draws of it: words that are kept, and negatives. A subclass is a dataclass of these fields."""

    text: Any
    counts: Array  # (v,) how often each word occurs
    sample: float
    ns_exponent: float

    @property
    def shape(self) -> tuple[int, int]:
        return self.text.shape

    @cached_property
    def keep(self) -> Array:
        """The probability that an occurrence of each word is kept."""
        return keep_probabilities(self.counts, self.sample)

    @cached_property
    def keep_bits(self) -> Array:
        return np.minimum(np.rint(self.keep * WHOLE), WHOLE).astype(np.uint64)

    @cached_property
    def table(self) -> AliasTable:
        return AliasTable.of(noise(self.counts, self.ns_exponent))

    @cached_property
    def alias(self) -> Array:
        return self.table.packed

    def chunks(self, every: int = 1) -> Iterator[Chunks]:
        """Yield the text in blocks, each cut into ranges of sentences of some CHUNK tokens: all, or one in `every`."""
        position = unit = number = 0
        for ids, starts in self.text:
            cuts = np.searchsorted(starts, np.arange(0, starts[-1] + CHUNK, CHUNK))
            cuts = np.unique(np.minimum(cuts, len(starts) - 1))
            ranges = zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True)
            filled = [(first, last) for first, last in ranges if starts[last] > starts[first]]
            chosen = [one for i, one in enumerate(filled, number) if i % every == 0]
            if chosen:
                yield Chunks(position, unit, ids, starts, chosen)
            position, unit = position + int(starts[-1]), unit + len(starts) - 1
            number += len(filled)

    def loss_chunks(self) -> Iterator[Chunks]:
        """Yield the chunks whose loss is measured: all of a short text, evenly spaced ones of a long one."""
        return self.chunks(max(1, self.text.n_tokens // MEASURED))
