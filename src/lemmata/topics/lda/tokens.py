"""Documents as a sampler sees them: one word after the other, cut into blocks that do not disturb each other.

Documents are cut into P parts and words into P parts, each with about as many tokens; block (a, b) holds the tokens of words of
part b in documents of part a. In round r the blocks (a, a + r mod P) share neither a document nor a word: they can be sampled
side by side, and all counts that two tokens share are exact but one, the total of each topic. P follows from the number of
tokens alone, so the bits of a fit do not depend on the number of cores.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from lemmata.core.blocks import Blocks
from lemmata.core.engine import worth_compiling

Array = np.ndarray
PARTS = 8  # enough for eight cores
# tokens that one core samples in some milliseconds: they stay together, and the sampler is exact
ALONE = 2**17
LARGEST = 2**24  # up to here float32 counts one by one
COMPILE_ABOVE = 3e9  # nanoseconds of NumPy's: what a compiler takes


@dataclass(frozen=True)
class TokenBlock:
    """The tokens start ≤ t < stop, in documents first ≤ d < last; those of document d begin at indptr[d − first]."""

    start: int
    stop: int
    first: int
    last: int
    indptr: Array


MOST_TOKENS = 2**36  # beyond the memory of any machine this runs on


def whole_numbers(numbers: Array, what: str) -> Array:
    """Numbers as ints; raises where they are not whole."""
    rounded = np.rint(numbers)
    if not np.array_equal(rounded, numbers):
        bad = numbers[np.flatnonzero(rounded != numbers)[0]]
        raise ValueError(
            f'{what} are whole numbers for learning_method="gibbs", which gives every token a topic; found {bad:g}. '
            'Pass counts, or learning_method="batch" or "online", which take any numbers >= 0.'
        )
    if rounded.sum(dtype=np.float64) > MOST_TOKENS:
        raise ValueError(
            f'{what} add up to {rounded.sum(dtype=np.float64):.3g}, and learning_method="gibbs" keeps a topic for each of at '
            f'most {MOST_TOKENS:,}; divide them by a constant, or pass learning_method="batch" or "online".'
        )
    return rounded.astype(np.int64)


class Tokens:
    """Every token of (n documents) × (m words) of counts: its word and its document, block after block."""

    def __init__(self, data: Blocks, topics: int, passes: int, parts: int | None = None):
        self.data, self.dtype = data, data.dtype
        X = self._count_matrix(data)
        self.shape, self.counts = X.shape, X
        words = np.repeat(X.indices.astype(np.int32), X.data)
        documents = np.repeat(np.repeat(np.arange(X.shape[0]), np.diff(X.indptr)), X.data)
        self.lengths = np.bincount(documents, minlength=X.shape[0])
        self.parts = parts or (1 if len(words) < ALONE else PARTS)
        self._cut(words, documents)
        longest = float(self.lengths.max(initial=0))
        nanoseconds = passes * (60e3 * longest + 20.0 * len(words) * topics)
        self.compiled = worth_compiling(nanoseconds, above=COMPILE_ABOVE)

    @property
    def sizes(self) -> dict[str, int]:
        """The letters of a state that only this problem knows."""
        return {"t": len(self)}

    @staticmethod
    def _count_matrix(data: Blocks) -> sp.csr_array:
        """All blocks as one CSR matrix of whole numbers; a document of weight 2 is there twice."""
        found = []
        for rows, _ in data:
            part = sp.csr_array(rows)
            values = whole_numbers(part.data, "counts")
            found.append(sp.csr_array((values, part.indices, part.indptr), shape=part.shape))
        X = sp.csr_array(sp.vstack(found, format="csr"))
        if data.weights is not None:
            X = X[np.repeat(np.arange(X.shape[0]), whole_numbers(data.weights, "sample weights"))]
        totals = np.asarray(X.sum(axis=0)).ravel()
        most = max(totals.max(initial=0), np.asarray(X.sum(axis=1)).max(initial=0))
        if most >= LARGEST:
            raise ValueError(
                f'a word or a document has {most:,} tokens; learning_method="gibbs" counts up to {LARGEST:,}: leave out such '
                'words (max_df of text.counts), or use learning_method="online".'
            )
        return X

    def _cut(self, words: Array, documents: Array) -> None:
        """Sort the tokens by block, within it by document, and note where each begins."""
        P, T = self.parts, max(len(words), 1)
        totals = np.bincount(words, minlength=self.shape[1])
        # the n-th word of each part follows the n-th of the part before: each has frequent and rare ones
        order = np.argsort(-totals, kind="stable")
        word_part = np.empty(self.shape[1], np.int64)
        word_part[order] = np.arange(self.shape[1]) % P
        document_part = np.minimum((np.cumsum(self.lengths) - self.lengths) * P // T, P - 1)
        cell = document_part[documents] * P + word_part[words]
        places = np.argsort(cell * self.shape[0] + documents, kind="stable")
        self.words, self.documents, cell = words[places], documents[places], cell[places]
        self.blocks: list[list[TokenBlock]] = []
        edges = np.searchsorted(cell, np.arange(P * P + 1))
        rows = np.searchsorted(document_part, np.arange(P + 1))
        for a in range(P):
            self.blocks.append([])
            for b in range(P):
                start, stop = int(edges[a * P + b]), int(edges[a * P + b + 1])
                here = np.arange(rows[a], rows[a + 1] + 1)
                indptr = np.searchsorted(self.documents[start:stop], here)
                self.blocks[a].append(
                    TokenBlock(start, stop, int(rows[a]), int(rows[a + 1]), indptr)
                )

    def __len__(self) -> int:
        return len(self.words)

    def fingerprint(self) -> str:
        return self.data.fingerprint()

    def count(self, topics: Array, k: int) -> tuple[Array, Array]:
        """n_dj (n, k) and n_wj (m, k): how many tokens of each document and of each word have each topic."""
        n, m = self.shape
        documents = np.bincount(self.documents * k + topics, minlength=n * k).reshape(n, k)
        words = np.bincount(self.words.astype(np.int64) * k + topics, minlength=m * k).reshape(m, k)
        return documents.astype(np.float32), words.astype(np.float32)

    def of_rows(self, mixtures: Array) -> Array:
        """Mixtures of the documents sampled as those of the rows of the data: the mean of a row's copies."""
        if self.data.weights is None:
            return mixtures
        copies = np.rint(self.data.weights).astype(np.int64)
        rows = np.repeat(np.arange(len(copies)), copies)
        total = np.zeros((len(copies), mixtures.shape[1]))
        np.add.at(total, rows, mixtures)
        empty = np.full(mixtures.shape[1], 1 / mixtures.shape[1])
        return np.where(copies[:, None] > 0, total / np.maximum(copies, 1)[:, None], empty)

    @cached_property
    def columns(self) -> list[Array]:
        """The tokens that are the first of their document, the second, …: no two of a column share a document."""
        order = np.argsort(self.documents, kind="stable")
        starts = np.cumsum(self.lengths) - self.lengths
        position = np.arange(len(order)) - starts[self.documents[order]]
        by_column = order[np.argsort(position, kind="stable")]
        ends = np.cumsum(np.bincount(position)) if len(position) else np.zeros(0, int)
        return [part for part in np.split(by_column, ends[:-1]) if len(part)]
