"""Counts of words near each other: N_vw, a statistic that adds up over blocks of text (CIL 3.3.1; CIL20 5.4).

    N_wv = Σ over places s, t of one sentence with w at s, v at t, 1 ≤ |s − t| ≤ R, of g(|s − t|)

with g = 1 ("flat"), 1/Δ ("harmonic", GloVe's) or (R − Δ + 1)/R ("linear": what windows that shrink at random see on average).
Symmetric counts look both ways; otherwise v stands after w. Only pairs that occur take memory.

>>> from lemmata.text.encoded import encode
>>> found = CoOccurrence.of(encode(["a rose is a rose"], token_pattern=None), window=2)
>>> found
CoOccurrence of 3 words, 6 pairs that occur, window 2
>>> found.matrix.toarray().tolist()
[[0.0, 3.0, 2.0], [3.0, 0.0, 2.0], [2.0, 2.0, 0.0]]
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from lemmata.core import storable
from lemmata.core.engine import worth_compiling
from lemmata.text.encoded import EncodedText
from lemmata.text.words import Vocabulary

Array = np.ndarray
WEIGHTINGS = ("flat", "harmonic", "linear")
MOST_WINDOW = 1000
COMPILE_ABOVE = 2**22  # pairs that NumPy counts in less time than a compiler takes


def weights_of(window: int, weighting: str) -> Array:
    """g(1), …, g(R)."""
    distance = np.arange(1, window + 1, dtype=np.float64)
    shapes = {
        "flat": np.ones(window),
        "harmonic": 1 / distance,
        "linear": (window - distance + 1) / window,
    }
    if weighting not in shapes:
        raise ValueError(
            f"weighting={weighting!r}: pass one of {', '.join(map(repr, WEIGHTINGS))}."
        )
    return shapes[weighting]


@storable
@dataclass(frozen=True)
class CoOccurrence:
    """Counts of pairs of words in windows. CoOccurrence() is the empty sum.

    vocabulary : the words, with how often each occurs
    matrix : CSR (v, v) of float64, row w, column v
    window, weighting, symmetric : what was counted
    """

    layout: ClassVar[Mapping[str, str]] = {"matrix": "v v sparse"}

    vocabulary: Vocabulary = field(default_factory=Vocabulary)
    matrix: Any = field(default_factory=lambda: sp.csr_array((0, 0), dtype=np.float64))
    window: int = 5
    weighting: str = "flat"
    symmetric: bool = True

    @classmethod
    def of(
        cls, text: EncodedText, window: int = 5, weighting: str = "flat", symmetric: bool = True
    ) -> CoOccurrence:
        """Count the pairs of a text, block by block."""
        if isinstance(window, bool) or window != int(window) or not 1 <= window <= MOST_WINDOW:
            raise ValueError(f"window={window!r}: pass an int from 1 to {MOST_WINDOW}.")
        g, v = weights_of(int(window), weighting), len(text.vocabulary)
        if worth_compiling(float(text.n_tokens) * window, above=COMPILE_ABOVE):
            from lemmata.embedding.windows.table import PairTable

            table = PairTable(v, symmetric)
            for ids, starts in text:
                table.add(ids, starts, g)
            matrix = table.matrix()
        else:
            found = sp.csr_array((v, v), dtype=np.float64)
            for ids, starts in text:
                found = found + pairs_of(ids, starts, g, v)
            matrix = sp.csr_array(found + found.T if symmetric else found)
        return cls(text.vocabulary, matrix, int(window), weighting, symmetric)

    def __add__(self, other: CoOccurrence) -> CoOccurrence:
        """Counts of both texts, over the words of either."""
        if not len(self.vocabulary):
            return other
        if not len(other.vocabulary):
            return self
        ways = [(one.window, one.weighting, one.symmetric) for one in (self, other)]
        if ways[0] != ways[1]:
            raise ValueError(
                f"pairs were counted in two ways, {ways[0]} and {ways[1]} (window, weighting, symmetric): they do not add up."
            )
        words = self.vocabulary + other.vocabulary
        matrix = self._over(words) + other._over(words)
        return CoOccurrence(words, sp.csr_array(matrix), *ways[0])

    def _over(self, words: Vocabulary) -> Any:
        """The counts with the places that words have in another vocabulary."""
        places, pairs = words.encode(list(self.vocabulary)), self.matrix.tocoo()
        at = (places[pairs.row], places[pairs.col])
        return sp.coo_array((pairs.data, at), shape=(len(words),) * 2).tocsr()

    def __repr__(self) -> str:
        pairs = self.matrix.nnz
        return f"CoOccurrence of {len(self.vocabulary):,} words, {pairs:,} pairs that occur, window {self.window}"


def pairs_of(ids: Array, starts: Array, g: Array, v: int) -> Any:
    """Σ g of every pair (earlier word, later word) of a block, as a sparse matrix: the twin of the kernel."""
    sentence = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    found = sp.csr_array((v, v), dtype=np.float64)
    for distance, weight in enumerate(g, 1):
        together = sentence[distance:] == sentence[:-distance]
        first, second = ids[:-distance][together], ids[distance:][together]
        values = np.full(len(first), weight)
        found = found + sp.coo_array((values, (first, second)), shape=(v, v)).tocsr()
    return found
