"""Features of a text as places in a table: its words, runs of words, and parts of words.

    words               the vocabulary, 0 the most frequent
    n-grams of words    2 … word_ngrams neighbours, hashed into `bucket` slots
    parts of words      min_n … max_n letters of "<word>", hashed into as many slots; a new word has its parts, if not itself

Only slots that the training texts fill at least `min_count` times get a row, so unseen ones cost nothing and say nothing. A
text is the set of its features x, of length one: each of its m distinct features has the value 1/√m.

>>> from lemmata.text.encoded import encode
>>> text = encode(["a rose is a rose", "is it a rose"], token_pattern=None)
>>> space = FeatureSpace.of(text, word_ngrams=2)
>>> space.n_words, space.n_features, space.rows(text).toarray().round(2)[0, :5]
(4, 9, array([0.41, 0.41, 0.41, 0.  , 0.41], dtype=float32))
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from lemmata.core import storable
from lemmata.embedding.subwords import MIXER, mix, parts_of, slot
from lemmata.text.encoded import EncodedText
from lemmata.text.words import Vocabulary

Array = np.ndarray


@storable
@dataclass(frozen=True)
class FeatureSpace:
    """The features that have a row: words first, then the slots of n-grams that the training texts filled often enough."""

    layout: ClassVar[Mapping[str, str]] = {"slots": "s int >=0"}

    vocabulary: Vocabulary
    slots: Array  # (s,) int64, rising: those of runs of words below `bucket`, those of parts of words from there on
    word_ngrams: int = 1
    min_n: int = 0
    max_n: int = 0
    bucket: int = 2**21

    def __post_init__(self):
        """Check the places: they are used as indices, and a space may come from a file."""
        if len(self.slots) and (self.slots[-1] >= self._n_slots or (np.diff(self.slots) <= 0).any()):  # fmt: skip
            raise ValueError(f"slots have to rise, below {self._n_slots:,}.")

    @classmethod
    def of(
        cls,
        text: EncodedText,
        word_ngrams: int = 1,
        min_n: int = 0,
        max_n: int = 0,
        bucket: int = 2**21,
        min_count: int = 1,
    ) -> FeatureSpace:
        """The space of texts: what occurs at least min_count times in them."""
        words = text.vocabulary.pruned(min_count)
        empty = cls(words, np.empty(0, np.int64), word_ngrams, min_n, max_n, bucket)
        counts = np.zeros(empty._n_slots, np.int64)
        places = words.encode(list(text.vocabulary))
        for ids, starts in text:
            for _, slots in empty._runs(places[ids], starts):
                counts += np.bincount(slots, minlength=len(counts))
        if max_n:
            owners, slots = empty._parts(text.vocabulary)
            often = np.bincount(slots, text.vocabulary.counts[owners], minlength=len(counts))
            counts += often.astype(np.int64)
        return cls(words, np.flatnonzero(counts >= min_count), word_ngrams, min_n, max_n, bucket)

    @property
    def n_words(self) -> int:
        return len(self.vocabulary)

    @property
    def n_features(self) -> int:
        return self.n_words + len(self.slots)

    @property
    def _n_slots(self) -> int:
        return (2 if self.max_n else 1) * self.bucket

    @cached_property
    def _row_of_slot(self) -> Array:
        """The place of each slot among the features; −1 for slots without a row."""
        found = np.full(self._n_slots, -1, np.int32)
        found[self.slots] = np.arange(self.n_words, self.n_features, dtype=np.int32)
        return found

    # --- texts ---

    def rows(self, text: EncodedText) -> Any:
        """CSR (n texts, n_features) of float32: every text a vector of length one; zeros where nothing is known of it.

        The text may be over words of its own: those that are no features still have parts.
        """
        places = self.vocabulary.encode(list(text.vocabulary))
        parts = self._rows_of_words(text.vocabulary) if self.max_n else None
        blocks = [self._block(ids, starts, places, parts) for ids, starts in text]
        if not blocks:
            return sp.csr_array((0, self.n_features), dtype=np.float32)
        return blocks[0] if len(blocks) == 1 else sp.csr_array(sp.vstack(blocks, format="csr"))

    def _block(self, ids: Array, starts: Array, places: Array, parts: Any) -> Any:
        n, here = len(starts) - 1, places[ids]
        texts = np.repeat(np.arange(n), np.diff(starts))
        pairs = [(texts[here >= 0], here[here >= 0])]
        pairs += [self._known_rows(*pair) for pair in self._runs(here, starts)]
        if parts is not None:
            pairs.append(_spread(texts, ids, *parts))
        of, columns = (np.concatenate(part) for part in zip(*pairs, strict=True))
        ones = np.ones(len(of), np.float32)
        X = sp.coo_array((ones, (of, columns)), shape=(n, self.n_features)).tocsr()
        X.sum_duplicates()
        sizes = np.diff(X.indptr)
        X.data[:] = np.repeat(1 / np.sqrt(np.maximum(sizes, 1)), sizes)
        return X

    def _known_rows(self, owners: Array, slots: Array) -> tuple[Array, Array]:
        """Pairs of an owner and the row of a slot, where it has one."""
        rows = self._row_of_slot[slots]
        kept = rows >= 0
        return owners[kept], rows[kept]

    def _runs(self, places: Array, starts: Array) -> Iterator[tuple[Array, Array]]:
        """(text, slot) of every run of 2, 3, … known words; a run ends with its text."""
        texts = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
        words = (places + 1).astype(np.uint64) * MIXER
        hashes, known = words, places >= 0
        for n in range(2, self.word_ngrams + 1):
            hashes = mix(hashes[:-1]) * MIXER + words[n - 1 :]
            known = known[:-1] & (places[n - 1 :] >= 0)
            inside = known & (texts[: len(hashes)] == texts[n - 1 :])
            yield texts[: len(hashes)][inside], slot(hashes[inside], self.bucket)

    # --- parts of words ---

    def _parts(self, words: Vocabulary) -> tuple[Array, Array]:
        """(word, slot) of every part of every word, words rising."""
        owners, hashes = parts_of(words.words.tolist(), self.min_n, self.max_n)
        return owners, slot(hashes, self.bucket) + self.bucket

    def _rows_of_words(self, words: Vocabulary) -> tuple[Array, Array]:
        """starts, rows: those of the parts of word w are rows[starts[w] : starts[w + 1]]."""
        owners, rows = self._known_rows(*self._parts(words))
        return np.concatenate([[0], np.cumsum(np.bincount(owners, minlength=len(words)))]), rows


def _spread(texts: Array, ids: Array, starts: Array, rows: Array) -> tuple[Array, Array]:
    """(text, row) of the parts of the words of texts; a word that a text repeats counts once."""
    width = np.int64(max(len(starts) - 1, 1))
    texts, ids = np.divmod(np.unique(texts * width + ids), width)
    sizes = starts[ids + 1] - starts[ids]
    first = np.repeat(starts[ids] - (np.cumsum(sizes) - sizes), sizes)
    return np.repeat(texts, sizes), rows[first + np.arange(len(first))]
