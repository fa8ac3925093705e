"""Documents as variational inference sees them: counts in parts that are worked on in parallel and added up in order.

A weight of 2 is the document twice, which is not the document with twice the counts: weights multiply what a document says.
How many parts there are follows from the data alone, never from threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from types import ModuleType
from typing import Any

import numpy as np
import scipy.sparse as sp

from lemmata.core.blocks import Blocks
from lemmata.core.engine import one_blas_thread, pick, run_tasks, worth_compiling

Array = np.ndarray
PARTS = 8
COMPILE_ABOVE = 2**31  # multiplications that NumPy does in less time than a compiler takes


@dataclass(frozen=True)
class DocumentPart:
    """Some documents: the number of the first, their counts and their weights (None: all 1)."""

    first: int
    counts: sp.csr_array
    weights: Array | None

    @property
    def rows(self) -> slice:
        return slice(self.first, self.first + self.counts.shape[0])


def cut(counts: sp.csr_array, weights: Array | None, first: int = 0) -> Iterator[DocumentPart]:
    """Counts in up to PARTS parts of about as many entries."""
    n, entries = counts.shape[0], int(counts.indptr[-1])
    # each has sums over all words of its own, which should cost little beside its entries
    parts = max(1, min(PARTS, entries // max(4 * counts.shape[1], 2**14)))
    cuts = np.searchsorted(counts.indptr, np.linspace(0, entries, parts + 1))
    cuts[0], cuts[-1] = 0, n
    for start, stop in pairwise(cuts):
        mine = None if weights is None else weights[start:stop]
        yield DocumentPart(first + int(start), counts[start:stop], mine)


class DocumentParts:
    """Counts of words, (n documents) × (m words), in parts."""

    def __init__(self, data: Blocks, topics: int, passes: int, compiled: bool | None = None):
        self.data, self.shape, self.dtype = data, data.shape, data.dtype
        self._order: tuple[int, list] = (-1, [])  # the last seed, and the documents in its order
        work = 10.0 * data.size * topics * passes
        self.compiled = worth_compiling(work, above=COMPILE_ABOVE) if compiled is None else compiled

    def fingerprint(self) -> str:
        return self.data.fingerprint()

    @property
    def kernels(self) -> ModuleType:
        return pick(self.compiled, "lemmata.topics.lda", "_variational")

    def blocks(self) -> Iterator[tuple[sp.csr_array, Array | None]]:
        for rows, weights in self.data:
            yield sp.csr_array(rows, dtype=self.dtype), weights

    def shuffle(self, seed: int) -> Iterator[tuple[sp.csr_array, Array | None]]:
        """The documents in a random order that follows from the seed, where they are in memory; else block by block."""
        if not self.data.in_memory:
            yield from self.blocks()
            return
        if self._order[0] != seed:
            places = np.random.default_rng(seed).permutation(self.shape[0])
            whole = sp.csr_array(self.data.source, dtype=self.dtype)[places]
            weights = None if self.data.weights is None else self.data.weights[places]
            self._order = (seed, [(whole, weights)])
        yield from self._order[1]

    @cached_property
    def _parts(self) -> list[DocumentPart]:
        return list(self._cut())

    def _cut(self) -> Iterator[DocumentPart]:
        first = 0
        for counts, weights in self.blocks():
            yield from cut(counts, weights, first)
            first += counts.shape[0]

    @cached_property
    def lengths(self) -> Array:
        """The tokens of each document, (n,)."""
        parts = self.map_parts(lambda part: np.asarray(part.counts.sum(axis=1)).ravel())
        return np.concatenate([np.zeros(0), *parts])

    @property
    def weighted_tokens(self) -> float:
        weights = self.data.weights
        return float(self.lengths.sum() if weights is None else self.lengths @ weights)

    def map_parts(self, work: Callable[[DocumentPart], Any]) -> Iterator[Any]:
        """Yield work(part) of every part in order; computed in parallel where the data is in memory."""
        if self.data.in_memory:
            yield from side_by_side(work, self._parts)
        else:
            for counts, first in self._stream():
                yield from side_by_side(work, list(cut(*counts, first)))

    def _stream(self) -> Iterator[tuple[tuple[sp.csr_array, Array | None], int]]:
        first = 0
        for counts, weights in self.blocks():
            yield (counts, weights), first
            first += counts.shape[0]


def side_by_side(work: Callable[[Any], Any], items: list[Any]) -> list[Any]:
    """work(item) of every item on our own threads, in their order."""
    found: list[Any] = [None] * len(items)

    def task(number: int) -> None:
        found[number] = work(items[number])

    with one_blas_thread():
        run_tasks(task, len(items))
    return found
