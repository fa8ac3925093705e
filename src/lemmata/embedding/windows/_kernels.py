"""Pairs in windows, counted in a hash table: open addressing, keys w·v + u, sums in double precision."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from lemmata.core.compiler import kernel

Array = np.ndarray
FREE = -1
FULLEST = 0.6  # of the slots; beyond it the table doubles
MIXER = np.uint64(0x9E3779B97F4A7C15)


@kernel(forceinline=True)
def place_of(keys, key, shift):
    """Where a key stands, or the free slot where it belongs. The size is a power of two, 2^(64 − shift)."""
    mask = np.uint64(len(keys) - 1)
    place = (np.uint64(key) * MIXER) >> shift
    while keys[place] != FREE and keys[place] != key:
        place = (place + np.uint64(1)) & mask
    return place


@kernel
def count_into(keys, sums, shift, used, most, ids, starts, sentence, g, v, ordered):
    """Add the pairs of sentences from `sentence` on; stop before one that might overfill the table. (next sentence, used)"""
    while sentence < len(starts) - 1:
        first, last = starts[sentence], starts[sentence + 1]
        if used + (last - first) * len(g) > most:
            return sentence, used
        for s in range(first, last):
            w = np.int64(ids[s])
            for t in range(s + 1, min(s + 1 + len(g), last)):
                u = np.int64(ids[t])
                a, b = (w, u) if ordered or w < u else (u, w)
                key = a * v + b
                place = place_of(keys, key, shift)
                if keys[place] == FREE:
                    keys[place] = key
                    used += 1
                sums[place] += g[t - s - 1]
        sentence += 1
    return sentence, used


@kernel
def move_into(keys, sums, shift, old_keys, old_sums):
    """Put the entries of one table into another."""
    for i in range(len(old_keys)):
        if old_keys[i] != FREE:
            place = place_of(keys, old_keys[i], shift)
            keys[place], sums[place] = old_keys[i], old_sums[i]


class PairTable:
    """Sums of pairs; symmetric ones are kept once, the smaller number first."""

    def __init__(self, words: int, symmetric: bool):
        self.words, self.symmetric, self.used = words, symmetric, 0
        self._make(20)

    def _make(self, bits: int) -> None:
        self.bits = bits
        self.keys, self.sums = np.full(2**bits, FREE, np.int64), np.zeros(2**bits)

    def add(self, ids: Array, starts: Array, g: Array) -> None:
        """Count a block, a few sentences at a time, so that no slice can overfill the table."""
        sentence = 0
        while sentence < len(starts) - 1:
            self._reserve(int(starts[sentence + 1] - starts[sentence]) * len(g))
            sentence, self.used = count_into(
                self.keys, self.sums, np.uint64(64 - self.bits), self.used, int(FULLEST * len(self.keys)),
                ids, starts, sentence, g, self.words, not self.symmetric,
            )  # fmt: skip

    def _reserve(self, more: int) -> None:
        """Make room for so many new pairs."""
        bits = self.bits
        while self.used + more > int(FULLEST * 2**bits):
            bits += 1
        if bits > self.bits:
            keys, sums = self.keys, self.sums
            self._make(bits)
            move_into(self.keys, self.sums, np.uint64(64 - bits), keys, sums)

    def matrix(self) -> sp.csr_array:
        """CSR of what was counted; of symmetric counts the pairs with the smaller number first."""
        kept = self.keys != FREE
        rows, columns = np.divmod(self.keys[kept], self.words)
        found = sp.coo_array((self.sums[kept], (rows, columns)), shape=(self.words,) * 2)
        return sp.csr_array(found)
