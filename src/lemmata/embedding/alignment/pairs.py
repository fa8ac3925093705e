"""Pairs of words that mean the same, from whatever form a dictionary has, as places among the words of both sides."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lemmata.embedding.vectors.word_vectors import WordVectors

Array = np.ndarray


@dataclass(frozen=True)
class WordPairs:
    """Pairs as places, each once: row (i, j) is source.words[i] and target.words[j]."""

    places: Array  # (p, 2) int64
    n_unknown: int = 0  # pairs left out, because a word of theirs has no vector

    weights = None  # what certificates ask of their data
    dtype = np.dtype(np.int64)

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.places), 2

    @property
    def size(self) -> int:
        return self.places.size

    @property
    def source(self) -> Array:
        """The array that the fingerprint of a certificate is computed from."""
        return self.places

    def __len__(self) -> int:
        return len(self.places)

    def by_source(self) -> Iterator[tuple[int, Array]]:
        """Every source word that occurs, with all its target words."""
        order = np.argsort(self.places[:, 0], kind="stable")
        sources, starts = np.unique(self.places[order, 0], return_index=True)
        yield from zip(sources.tolist(), np.split(self.places[order, 1], starts[1:]), strict=True)


def find_pairs(pairs: Any, source: WordVectors, target: WordVectors) -> WordPairs:
    """The pairs whose words have vectors; None: words that are written alike on both sides."""
    listed = list(_list_pairs(pairs, source, target))
    found: dict[tuple[int, int], None] = {}
    for first, second in listed:
        place = source.ids.get(first, -1), target.ids.get(second, -1)
        if min(place) >= 0:
            found[place] = None
    if not found:
        if pairs is None:
            raise ValueError(
                "no word is written alike on both sides; pass pairs of a source and a target word."
            )
        known = sum(first in source for first, _ in listed), sum(b in target for _, b in listed)
        raise ValueError(
            f"none of {len(listed):,} pairs has a vector on both sides ({known[0]:,} of their first words are among the "
            f"source's, {known[1]:,} of the second among the target's); a pair is (source word, target word)."
        )
    unknown = sum(a not in source or b not in target for a, b in listed)
    return WordPairs(np.array(list(found), dtype=np.int64), unknown)


def _list_pairs(pairs: Any, source: WordVectors, target: WordVectors) -> Iterator[tuple[str, str]]:
    if pairs is None:
        yield from ((word, word) for word in source.words.tolist() if word in target)
    elif isinstance(pairs, (str, os.PathLike)):
        yield from _from_file(pairs)
    elif isinstance(pairs, Mapping):
        for first, others in pairs.items():
            for second in [others] if isinstance(others, str) else others:
                yield _pair(first, second, f"pairs[{first!r}]")
    elif isinstance(pairs, Iterable):
        for number, pair in enumerate(pairs):
            if isinstance(pair, (str, bytes)) or not hasattr(pair, "__len__") or len(pair) != 2:
                raise ValueError(
                    f"pairs[{number}] is {str(pair)[:60]!r}, not (source word, target word)."
                )
            yield _pair(pair[0], pair[1], f"pairs[{number}]")
    else:
        raise TypeError(
            f"pairs is a {type(pairs).__name__}; pass a list of (source word, target word), a dict, the path of a file with "
            "two words a line, or None for words that are written alike."
        )


def _pair(first: Any, second: Any, where: str) -> tuple[str, str]:
    for word in (first, second):
        if not isinstance(word, str):
            raise TypeError(f"{where} holds {word!r}, a {type(word).__name__}; words are texts.")
    return first, second


def _from_file(path: Any) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(Path(path).read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        words = line.split("\t") if "\t" in line else line.split()
        if len(words) != 2:
            raise ValueError(f"{path}, line {number}: {line[:60]!r} is not two words.")
        yield words[0].strip(), words[1].strip()
