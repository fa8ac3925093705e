"""How often each word of a corpus occurs: a statistic that adds up over blocks of text.

>>> words = Vocabulary.of([["a", "rose", "is", "a", "rose"]]) + Vocabulary.of([["is", "a"]])
>>> list(words.words), words.counts.tolist()
(['a', 'is', 'rose'], [3, 2, 2])
>>> words.encode(["a", "tulip", "rose"]).tolist()
[0, -1, 2]
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, repeat
from typing import ClassVar

import numpy as np

from lemmata.core import storable

Array = np.ndarray


def _no_words() -> Array:
    return np.empty(0, dtype=object)


def by_count(words: list[str], counts: Array) -> Array:
    """The places of words by falling count, equal counts by the alphabet."""
    alphabet = np.array(sorted(range(len(words)), key=words.__getitem__), dtype=np.int64)
    return alphabet[np.argsort(-counts[alphabet], kind="stable")]


@storable
@dataclass(frozen=True)
class Vocabulary:
    """Words by falling count, equal counts by the alphabet; a word's number is its place. Vocabulary() is the empty sum."""

    layout: ClassVar[Mapping[str, str]] = {"words": "v text", "counts": "v int >=0"}

    words: Array = field(default_factory=_no_words)  # (v,) texts
    counts: Array = field(default_factory=lambda: np.empty(0, dtype=np.int64))  # (v,)

    @classmethod
    def of(cls, sentences: Iterable[list[str]]) -> Vocabulary:
        """The vocabulary of lists of words."""
        return cls.counted(Counter(chain.from_iterable(sentences)))

    @classmethod
    def counted(cls, counter: Mapping[str, int]) -> Vocabulary:
        """From words and their counts."""
        words = np.array(list(counter.keys()), dtype=object)
        counts = np.fromiter(counter.values(), np.int64, len(counter))
        if counts.size and counts.min() < 0:
            word = words[int(counts.argmin())]
            raise ValueError(f"the word {word!r} has the count {counts.min()}; counts are >= 0.")
        if not len(words):
            return cls()
        order = by_count(words.tolist(), counts)
        return cls(words[order], counts[order])

    def __add__(self, other: Vocabulary) -> Vocabulary:
        total = Counter(dict(zip(self.words.tolist(), self.counts.tolist(), strict=True)))
        total.update(dict(zip(other.words.tolist(), other.counts.tolist(), strict=True)))
        return Vocabulary.counted(total)

    def __len__(self) -> int:
        return len(self.words)

    def __iter__(self) -> Iterator[str]:
        return iter(self.words.tolist())

    def __contains__(self, word: object) -> bool:
        return word in self.ids

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Vocabulary):
            return NotImplemented
        return np.array_equal(self.words, other.words) and np.array_equal(self.counts, other.counts)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        first = ", ".join(map(repr, self.words[:5].tolist()))
        more = ", …" if len(self) > 5 else ""
        return f"Vocabulary of {len(self):,} words, {self.n_tokens:,} tokens: {first}{more}"

    @cached_property
    def ids(self) -> dict[str, int]:
        """The number of each word."""
        return dict(zip(self.words.tolist(), range(len(self.words)), strict=True))

    @property
    def n_tokens(self) -> int:
        """How many words of text were counted."""
        return int(self.counts.sum())

    def pruned(self, min_count: int = 1, max_size: int | None = None) -> Vocabulary:
        """Without the words that occur less often, and without all but so many of the most frequent ones."""
        keep = int(np.searchsorted(-self.counts, -min_count, side="right"))
        keep = keep if max_size is None else min(keep, max_size)
        return Vocabulary(self.words[:keep], self.counts[:keep])

    def encode(self, words: list[str]) -> Array:
        """The numbers of words, −1 for those that are not in the vocabulary."""
        return np.fromiter(map(self.ids.get, words, repeat(-1)), np.int32, len(words))
