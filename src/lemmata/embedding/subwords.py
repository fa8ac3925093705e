"""Parts of words: runs of letters of "<word>", hashed into slots, so that words spelled alike share vectors.

    x_w = (ζ_w + Σ_g a_g) / √m        over the m − 1 distinct slots g of w's parts;        unseen words: Σ_g a_g / √m alone

A part is a run of min_n … max_n characters (not bytes), hashed by their code points into `bucket` slots; only slots that the
words of the vocabulary fill have a row. With 1/√m a gradient step moves x_w as far as it would move a vector without parts:
every row gets 1/√m of it, and m (1/√m)² = 1. (fastText and gensim take the mean, and add the whole gradient to each of its
rows: m times the gradient of the mean, and for words of equal m the same path as here.)

>>> owners, _ = parts_of(["we", "ate"], 3, 4, whole=True)
>>> np.bincount(owners).tolist()  # <we we> <we>; <at ate te> <ate ate>
[3, 5]
>>> table = PartTable.of(["walk", "walked"], min_n=3, max_n=3, bucket=1000)
>>> table.n_words, len(table.slots), table.rows_of(0).tolist()[0]
(2, 7, 0)
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from lemmata.core import storable

Array = np.ndarray
MIXER = np.uint64(0x9E3779B97F4A7C15)  # 2⁶⁴/φ, odd: multiplying by it spreads the low bits


# --- hashing ----------------------------------------------------------------------------------------------------------


def mix(hashes: Array) -> Array:
    return hashes ^ (hashes >> np.uint64(29))


def slot(hashes: Array, bucket: int) -> Array:
    """The one of `bucket` slots that a 64-bit number falls into, by its high bits, which multiplying mixes best."""
    return ((hashes >> np.uint64(32)) * np.uint64(bucket) >> np.uint64(32)).astype(np.int64)


def parts_of(
    words: list[str], min_n: int, max_n: int, *, whole: bool = False
) -> tuple[Array, Array]:
    """(word, hash) of every run of min_n … max_n letters of "<word>", words rising.

    whole : bool, default=False
        Take all of "<word>" for a part of it, too, if it is no longer than max_n, as fastText does.
    """
    marked = [f"<{word}>" for word in words]
    sizes = np.fromiter(map(len, marked), np.int64, len(marked))
    text = "".join(marked).encode("utf-32-le", "surrogatepass")
    letters = np.frombuffer(text, np.uint32).astype(np.uint64)
    word_of = np.repeat(np.arange(len(marked)), sizes)
    hashes, owners, found = np.zeros(len(letters) + 1, np.uint64), [], []
    for n in range(1, max_n + 1):
        hashes = (mix(hashes[:-1]) + letters[n - 1 :] + np.uint64(1)) * MIXER
        if n >= min_n:
            inside = word_of[: len(hashes)] == word_of[len(word_of) - len(hashes) :]
            inside &= sizes[word_of[: len(hashes)]] >= n + (not whole)
            if n == 1:  # "<" and ">" alone are parts of every word
                ends = np.cumsum(sizes)
                inside[ends - 1] = inside[ends - sizes] = False
            owners.append(word_of[: len(hashes)][inside])
            found.append(hashes[inside])
    owner = np.concatenate(owners) if owners else np.empty(0, np.int64)
    order = np.argsort(owner, kind="stable")
    return owner[order], (np.concatenate(found) if found else np.empty(0, np.uint64))[order]


def distinct_slots(words: list[str], min_n: int, max_n: int, bucket: int) -> tuple[Array, Array]:
    """(word, slot), each pair once: a part that a word has twice, or two parts in one slot, count once."""
    owners, hashes = parts_of(words, min_n, max_n, whole=True)
    pairs = np.unique(owners * np.int64(bucket) + slot(hashes, bucket))
    return np.divmod(pairs, np.int64(bucket))


# --- the rows of known words, and vectors of unseen ones --------------------------------------------------------------


@dataclass(frozen=True)
class PartTable:
    """The rows that make up each word: its own first, then those of its parts, which follow those of all words."""

    slots: Array  # (s,) int64, rising: those that the words fill; slot i has row n_words + i
    firsts: Array  # (v + 1,) int64
    rows: Array  # int32: those of word w are rows[firsts[w] : firsts[w + 1]]
    min_n: int
    max_n: int
    bucket: int

    @classmethod
    def of(cls, words: list[str], min_n: int, max_n: int, bucket: int) -> PartTable:
        if min_n > max_n:
            raise ValueError(
                f"min_n={min_n} exceeds max_n={max_n}; pass min_n <= max_n, or max_n=0 for words without parts."
            )
        v = len(words)
        owners, filled = distinct_slots(words, min_n, max_n, bucket)
        slots, places = np.unique(filled, return_inverse=True)
        owners = np.concatenate([np.arange(v), owners])
        order = np.argsort(owners, kind="stable")
        rows = np.concatenate([np.arange(v), v + places])[order].astype(np.int32)
        firsts = np.concatenate([[0], np.cumsum(np.bincount(owners, minlength=v))])
        return cls(slots, firsts.astype(np.int64), rows, min_n, max_n, bucket)

    @property
    def n_words(self) -> int:
        return len(self.firsts) - 1

    @property
    def n_rows(self) -> int:
        return self.n_words + len(self.slots)

    @property
    def widest(self) -> int:
        """The most rows that a word has."""
        return int(np.diff(self.firsts).max(initial=1))

    def rows_of(self, word: int) -> Array:
        return self.rows[self.firsts[word] : self.firsts[word + 1]]

    @cached_property
    def shares(self) -> Any:
        """CSR (rows, words) of float32, 1/√m: how much of each row is in a word."""
        sizes = np.diff(self.firsts)
        values = np.repeat(1 / np.sqrt(sizes), sizes).astype(np.float32)
        shape = (self.n_words, self.n_rows)
        return sp.csr_array((values, self.rows, self.firsts), shape=shape).T.tocsr()

    def compose(self, rows: Array) -> Array:
        """Return x (words, k) of all rows (n_rows, k)."""
        return np.ascontiguousarray(self.shares.T @ rows, dtype=rows.dtype)

    def decompose(self, vectors: Array, parts: Array) -> Array:
        """Return the rows that give these vectors of words with these vectors of parts: ζ_w = √m x_w − Σ a_g."""
        of_parts = self.shares[self.n_words :].T @ parts  # Σ a_g / √m
        roots = np.sqrt(np.diff(self.firsts))[:, None]
        own = (roots * (vectors.astype(np.float64) - of_parts)).astype(vectors.dtype)
        return np.concatenate([own, parts])

    def continue_rows(
        self, rows: Array, vectors: Array, places: Array, known: PartVectors | None
    ) -> Array:
        """Return rows of words and parts in which the words at `places` and known parts keep their vectors.

        A new word begins as its parts say.
        """
        own, parts = rows[: self.n_words].copy(), rows[self.n_words :].copy()
        if known is not None:
            now = self.min_n, self.max_n, self.bucket
            if now != (known.min_n, known.max_n, known.bucket):
                raise ValueError(
                    f"the fit that is continued has parts of {known.min_n} to {known.max_n} letters in {known.bucket:,} "
                    f"slots; leave min_n, max_n and bucket as they were, not {now}."
                )
            parts[np.searchsorted(self.slots, known.slots)] = known.matrix
        words = np.zeros((self.n_words, rows.shape[1]), rows.dtype)
        words[places] = vectors
        own[places] = self.decompose(words, parts)[places]
        return np.concatenate([own, parts])

    def vectors(self, rows: Array) -> PartVectors:
        """The vectors of parts among all rows."""
        parts = np.ascontiguousarray(rows[self.n_words :])
        return PartVectors(self.slots, parts, self.min_n, self.max_n, self.bucket)


@storable
@dataclass(frozen=True, eq=False)
class PartVectors:
    """Vectors of the parts of words, by slot: what gives a word that was never seen a vector."""

    layout: ClassVar = {"slots": "s int >=0", "matrix": "s p", "min_n max_n bucket": "int >=1"}

    slots: Array  # (s,) int64, rising
    matrix: Array  # (s, k)
    min_n: int
    max_n: int
    bucket: int

    def __post_init__(self):
        """Check that slots rise: they are found by bisection, and may come from a file."""
        if len(self.slots) and (self.slots[-1] >= self.bucket or (np.diff(self.slots) <= 0).any()):
            raise ValueError("slots have to rise, below the number of buckets.")

    def __repr__(self) -> str:
        return f"PartVectors of {len(self.slots):,} slots of {self.bucket:,}, parts of {self.min_n} to {self.max_n} letters"

    def places(self, slots: Array) -> Array:
        """The rows of slots; −1 for those that have none."""
        at = np.minimum(np.searchsorted(self.slots, slots), max(len(self.slots) - 1, 0))
        known = self.slots[at] == slots if len(self.slots) else np.zeros(len(slots), bool)
        return np.where(known, at, -1)

    def vector(self, word: str) -> Array | None:
        """Σ a_g / √m over the parts of a word that have a vector; None if no part has."""
        _, slots = distinct_slots([word], self.min_n, self.max_n, self.bucket)
        places = self.places(slots)
        known = places[places >= 0]
        if not len(known):
            return None
        total = self.matrix[known].sum(axis=0, dtype=np.float64) / np.sqrt(len(known))
        return total.astype(self.matrix.dtype)
