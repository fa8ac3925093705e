"""Sentences as numbers, in blocks: in memory while they are few, in a temporary file beside it when they are many.

>>> shelf = Shelf()
>>> shelf.add(np.array([0, 1, -1, 1], np.int32), np.array([0, 3, 4]))
>>> (block,) = renumbered(shelf.taken(), np.array([5, 7], np.int32))
>>> block.ids.tolist(), block.starts.tolist()
([5, 7, 7], [0, 2, 3])
"""

from __future__ import annotations

import os
import tempfile
import weakref
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

Array = np.ndarray
# tokens: 8 MB; what is beyond goes to a file, whose reading takes 1 % of a pass over it
IN_MEMORY = 2**21


class Spill:
    """A temporary file of int32 numbers that is gone when nobody holds it."""

    def __init__(self) -> None:
        handle, self.path = tempfile.mkstemp(prefix="lemmata-", suffix=".ids")
        os.close(handle)
        self._remove = weakref.finalize(self, _unlink, self.path)

    def append(self, ids: Array) -> int:
        """Write numbers at the end; where they begin, in bytes."""
        with open(self.path, "ab") as file:
            at = file.tell()
            ids.tofile(file)
        return at

    def read(self, at: int, size: int) -> Array:
        return np.fromfile(self.path, np.int32, size, offset=at)


def _unlink(path: str) -> None:
    if os.path.exists(path):
        os.unlink(path)


@dataclass(frozen=True)
class IdBlock:
    """Sentences one after the other: their words' numbers and where each of them begins, in memory or in a file."""

    n_tokens: int
    n_sentences: int
    here: tuple[Array, Array] | None = None  # ids and starts
    spill: Spill | None = None
    at: int = 0  # where the ids begin in the file, in bytes; the starts follow

    @classmethod
    def of(cls, ids: Array, starts: Array, spill: Spill | None = None) -> IdBlock:
        """A block in memory, or at the end of a file."""
        sizes = len(ids), len(starts) - 1
        if spill is None:
            return cls(*sizes, (ids, starts))
        at = spill.append(ids)
        spill.append(starts.astype(np.int32))
        return cls(*sizes, None, spill, at)

    @property
    def ids(self) -> Array:
        """(n_tokens,) int32"""
        if self.here is not None:
            return self.here[0]
        assert self.spill is not None
        return self.spill.read(self.at, self.n_tokens)

    @property
    def starts(self) -> Array:
        """(n_sentences + 1,) int64, the first 0, the last the number of tokens."""
        if self.here is not None:
            return self.here[1]
        assert self.spill is not None
        return self.spill.read(self.at + 4 * self.n_tokens, self.n_sentences + 1).astype(np.int64)


class Shelf:
    """Where blocks are put one after the other: the first IN_MEMORY tokens stay in memory, the rest goes to a file."""

    def __init__(self) -> None:
        self.blocks: list[IdBlock] = []
        self.n_tokens = 0
        self._spill: Spill | None = None

    def add(self, ids: Array, starts: Array) -> None:
        """Put numbers here, without those below 0."""
        ids, starts = without_gaps(ids, starts)
        self.n_tokens += len(ids)
        if self.n_tokens > IN_MEMORY:
            self._spill = self._spill or Spill()
        self.blocks.append(IdBlock.of(ids, starts, self._spill))

    def taken(self) -> Iterator[IdBlock]:
        """The blocks in their order, each forgotten here when it is handed out."""
        self.blocks.reverse()
        while self.blocks:
            yield self.blocks.pop()


def without_gaps(ids: Array, starts: Array) -> tuple[Array, Array]:
    """Tokens below 0 are taken out; sentences stay, shorter or empty."""
    gone = np.flatnonzero(ids < 0)
    if not len(gone):
        return ids, starts
    return ids[ids >= 0], starts - np.searchsorted(gone, starts)


def renumbered(blocks: Iterable[IdBlock], mapping: Array) -> tuple[IdBlock, ...]:
    """Blocks with other numbers; tokens that become −1 are taken out, sentences stay."""
    shelf = Shelf()
    for block in blocks:
        shelf.add(mapping[block.ids], block.starts)
    return tuple(shelf.blocks)
