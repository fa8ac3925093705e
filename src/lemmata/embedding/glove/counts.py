"""Pairs that occur, their log-counts, and how much each counts (CIL (3.55) to (3.57)).

    f(n) = min{1, (n / x_max)^α}         rare pairs say little, and no pair says more than one that occurs x_max times

>>> weights_of(np.array([1.0, 10.0, 100.0]), x_max=10.0, alpha=1.0)
array([0.1, 1. , 1. ])
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from lemmata.completion.data.entries import Entries, transpose
from lemmata.completion.observed import Observed
from lemmata.embedding.windows.cooccurrence import CoOccurrence
from lemmata.text.words import Vocabulary

Array = np.ndarray


def weights_of(counts: Array, x_max: float, alpha: float) -> Array:
    """f of counts > 0; in logarithms, so that no power overflows."""
    return np.exp(np.minimum(0.0, alpha * (np.log(counts) - np.log(x_max))))


@dataclass(frozen=True, eq=False)
class PairCounts:
    """N of the pairs that occur, over a vocabulary: what GloVe is fitted to, and what its claims are checked on."""

    vocabulary: Vocabulary
    matrix: Any  # CSR (v, v) float64, sorted, > 0 where something is stored

    weights: ClassVar[None] = None  # of rows: none

    @classmethod
    def of(cls, pairs: CoOccurrence, vocabulary: Vocabulary | None = None) -> PairCounts:
        """Checked counts; ValueError says what is wrong with them."""
        words = pairs.vocabulary if vocabulary is None else vocabulary
        N = sp.csr_array(pairs.matrix, dtype=np.float64, copy=True)
        v = len(words)
        if N.shape != (v, v):
            raise ValueError(
                f"the counts are {N.shape[0]:,} × {N.shape[1]:,} for {v:,} words; pass one row and one column a word."
            )
        if v < 2:
            raise ValueError(f"there are pairs of {v} word; vectors need two words and more.")
        bad = ~(np.isfinite(N.data) & (N.data >= 0))
        if bad.any():
            place = int(np.argmax(bad))
            row = int(np.searchsorted(N.indptr, place, side="right")) - 1
            pair = (str(words.words[row]), str(words.words[N.indices[place]]))
            raise ValueError(
                f"the count of {pair} is {N.data[place]}; counts are finite numbers >= 0: count again, or leave the pair out."
            )
        N.sum_duplicates()
        N.eliminate_zeros()
        if not N.nnz:
            raise ValueError(
                "no two words stand within one window: pass sentences of several words, or a larger window."
            )
        return cls(words, N)

    @property
    def shape(self) -> tuple[int, int]:
        v = len(self.vocabulary)
        return v, v

    @property
    def dtype(self) -> np.dtype:
        return self.matrix.dtype

    @property
    def n_observed(self) -> int:
        """Pairs that occur."""
        return int(self.matrix.nnz)

    @property
    def size(self) -> int:
        return self.n_observed

    @cached_property
    def logs(self) -> Array:
        """ln N of the pairs, row by row, in single precision: the targets."""
        return np.log(self.matrix.data).astype(np.float32)

    def as_observed(self, x_max: float, alpha: float) -> Observed:
        """The log-counts as known entries of a matrix, weighted by f."""
        N = self.matrix
        by_row = Entries(
            N.indptr.astype(np.int64), N.indices.astype(np.int32, copy=False), self.logs
        )
        entries = Observed(by_row, transpose(by_row, N.shape), N.shape)
        return entries.weighted(weights_of(N.data, x_max, alpha))

    def fingerprint(self) -> str:
        from lemmata.core.store import digest

        return digest([list(self.shape), self.matrix.indptr, self.matrix.indices, self.matrix.data])
