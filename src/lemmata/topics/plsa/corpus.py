"""Documents as a topic model sees them: counts in parts, and one pass over them.

A part is some documents in CSR. How many parts there are follows from the size of the data alone, never from threads, and what
they say about words is added in their order; so the bits of a fit do not depend on the number of cores.
"""

from __future__ import annotations

from collections.abc import Iterator
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
COMPILE_ABOVE = 2**31  # multiplications of a fit that NumPy does in less time than a compiler takes
PARTS = 8  # enough for eight cores; each has sums over all words of its own


@dataclass(frozen=True)
class ExpectedTopics:
    """Results of the E-step: expected counts of topics in documents (n, k) and in words (m, k), and −ln p of all tokens."""

    documents: Array
    words: Array
    loss: float


class CountedCorpus:
    """Counts of words, (n documents) × (m words), weighted: weight 2 is the document twice."""

    def __init__(self, data: Blocks, topics: int, passes: int, dtype: Any = None):
        self.data, self.shape = data, data.shape
        self.dtype = data.dtype if dtype is None else np.dtype(dtype)
        self.compiled = worth_compiling(3.0 * data.size * topics * passes, above=COMPILE_ABOVE)

    def fingerprint(self) -> str:
        return self.data.fingerprint()

    @property
    def kernels(self) -> ModuleType:
        return pick(self.compiled, "lemmata.topics.plsa")

    @cached_property
    def parts(self) -> list[tuple[int, Any]]:
        """(first document, CSR) of every part, where the data is in memory."""
        return list(self._cut())

    def _cut(self) -> Iterator[tuple[int, Any]]:
        if self.data.in_memory:
            whole = sp.csr_array(self.data.source, dtype=self.dtype)
            if self.data.weights is not None:
                whole = sp.csr_array(sp.diags_array(self.data.weights.astype(self.dtype)) @ whole)
            n, entries = whole.shape[0], int(whole.indptr[-1])
            parts = max(1, min(PARTS, entries // (4 * max(whole.shape[1], 1))))
            cuts = np.searchsorted(whole.indptr, np.linspace(0, entries, parts + 1))
            cuts[0], cuts[-1] = 0, n
            for first, last in pairwise(cuts):
                yield int(first), whole[first:last]
            return
        first = 0
        for rows, weights in self.data:
            part = sp.csr_array(rows, dtype=self.dtype)
            if weights is not None:
                part = sp.csr_array(sp.diags_array(weights.astype(self.dtype)) @ part)
            yield first, part
            first += part.shape[0]

    def __iter__(self) -> Iterator[tuple[int, Any]]:
        return iter(self.parts) if self.data.in_memory else self._cut()

    @cached_property
    def lengths(self) -> Array:
        """s_d, the (weighted) tokens of each document, (n,)."""
        return np.concatenate([np.asarray(part.sum(axis=1)).ravel() for _, part in self])

    @cached_property
    def word_totals(self) -> Array:
        """Number of occurrences of each word in all documents, (m,)."""
        return sum(
            (np.asarray(part.sum(axis=0)).ravel() for _, part in self), np.zeros(self.shape[1])
        )

    def expect(self, theta: Array, phi: Array) -> ExpectedTopics:
        """The E-step at θ (n, k) and φ (m, k): q_dwz ∝ θ_dz φ_wz, summed over words and over documents."""
        documents = np.empty_like(theta)
        expect = self.kernels.expect

        def one(first: int, part: Any) -> tuple[Array, float]:
            rows = slice(first, first + part.shape[0])
            mine, words, loss = expect(part.indptr, part.indices, part.data, theta[rows], phi)
            np.multiply(mine, theta[rows], out=documents[rows])
            return words, loss

        total, loss = np.zeros_like(phi), 0.0
        for words, cost in self._map(one):
            total += words
            loss += cost
        return ExpectedTopics(documents, total * phi, loss)

    def _map(self, work: Any) -> Iterator[Any]:
        """Yield work(first, part) of every part in order; computed in parallel where the data is in memory."""
        if not self.data.in_memory or len(self.parts) == 1:
            for first, part in self:
                yield work(first, part)
            return
        found: list[Any] = [None] * len(self.parts)

        def task(number: int) -> None:
            found[number] = work(*self.parts[number])

        with one_blas_thread():
            run_tasks(task, len(self.parts))
        yield from found

    def fold_in(self, theta: Array, phi: Array, max_iter: int, tol: float) -> Array:
        """θ (n, k) with topics fixed: the mixture of each document, from the one given."""
        fold = self.kernels.fold_in

        def one(first: int, part: Any) -> Array:
            mine = theta[first : first + part.shape[0]]
            return fold(part.indptr, part.indices, part.data, mine, phi, max_iter, tol)

        return np.concatenate(list(self._map(one)))
