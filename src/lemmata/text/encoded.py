"""Texts as numbers of words, in their order: what windows slide over. In memory, or in a file beside it if they are many.

One pass gives every word the number of its first appearance; then the counts are known, words get their places in the
vocabulary (0 the most frequent), and those below `min_count` are dropped as if they had not been written. A token takes four
bytes; of a long text most blocks lie in a temporary file, so it needs memory for its vocabulary and a block or two.

>>> text = encode(["a rose is a rose", "is it a rose ?"], token_pattern=None, min_count=2)
>>> text
EncodedText of 2 sentences, 8 tokens, 3 words
>>> [(ids.tolist(), starts.tolist()) for ids, starts in text]
[([0, 1, 2, 0, 1, 2, 0, 1], [0, 5, 8])]
>>> list(text.vocabulary), text.n_dropped
(['a', 'rose', 'is'], 2)
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import weakref
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import chain, count, pairwise, repeat
from numbers import Integral
from typing import Any

import numpy as np

from lemmata.text.reading import as_documents, refuse_tables
from lemmata.text.words import WORD, Tokenizer, Vocabulary, by_count

Array = np.ndarray
BLOCK = 2**19  # tokens: long enough for Python not to matter
PIECE = 2**13  # words that get their numbers together, while they are still in the cache
# tokens: 8 MB; what is beyond goes to a file, whose reading takes 1 % of a pass over it
IN_MEMORY = 2**21
LONGEST = 10_000  # words of a sentence, as gensim's; longer ones are cut, so that no line makes a block of its own


# --- blocks ---------------------------------------------------------------------------------------------------------------


class Spill:
    """A temporary file of int32 numbers, removed with the last reference to it."""

    def __init__(self) -> None:
        handle, self.path = tempfile.mkstemp(prefix="lemmata-", suffix=".ids")
        os.close(handle)
        self._remove = weakref.finalize(self, _unlink, self.path)

    def append(self, ids: Array) -> int:
        """Write numbers at the end; return where they begin, in bytes."""
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


class BlockStore:
    """Blocks in their order: the first IN_MEMORY tokens stay in memory, the rest goes to a file."""

    def __init__(self) -> None:
        self.blocks: list[IdBlock] = []
        self.n_tokens = 0
        self._spill: Spill | None = None

    def add(self, ids: Array, starts: Array) -> None:
        """Append numbers, without those below 0."""
        ids, starts = without_gaps(ids, starts)
        self.n_tokens += len(ids)
        if self.n_tokens > IN_MEMORY:
            self._spill = self._spill or Spill()
        self.blocks.append(IdBlock.of(ids, starts, self._spill))

    def drain(self) -> Iterator[IdBlock]:
        """Yield the blocks in their order, and keep none of them."""
        self.blocks.reverse()
        while self.blocks:
            yield self.blocks.pop()


def without_gaps(ids: Array, starts: Array) -> tuple[Array, Array]:
    """Return tokens without those below 0; sentences stay, shorter or empty."""
    gone = np.flatnonzero(ids < 0)
    if not len(gone):
        return ids, starts
    return ids[ids >= 0], starts - np.searchsorted(gone, starts)


def renumber(blocks: Iterable[IdBlock], mapping: Array) -> tuple[IdBlock, ...]:
    """Return blocks with other numbers; tokens that become −1 are taken out, sentences stay.

    >>> store = BlockStore()
    >>> store.add(np.array([0, 1, -1, 1], np.int32), np.array([0, 3, 4]))
    >>> (block,) = renumber(store.drain(), np.array([5, 7], np.int32))
    >>> block.ids.tolist(), block.starts.tolist()
    ([5, 7, 7], [0, 2, 3])
    """
    store = BlockStore()
    for block in blocks:
        store.add(mapping[block.ids], block.starts)
    return tuple(store.blocks)


# --- texts ----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class EncodedText:
    """Sentences as numbers of words, in blocks; iterating yields (ids, starts) of every block, as often as asked.

    vocabulary : Vocabulary
        Words by falling count; a word's number is its place, `vocabulary.counts` how often it occurs in this text.
    blocks : tuple of IdBlock
        ids (tokens,) int32 and starts (sentences + 1,) int64: sentence s is ids[starts[s] : starts[s + 1]].
    tokenizer : Tokenizer or None
        What made words of texts; None: the sentences came as lists of words.
    n_dropped : int
        Tokens left out, because their words are not in the vocabulary.
    """

    vocabulary: Vocabulary = field(default_factory=Vocabulary)
    blocks: tuple[IdBlock, ...] = ()
    tokenizer: Tokenizer | None = None
    n_dropped: int = 0

    weights = None  # sentences have none; certificates ask
    dtype = np.dtype(np.int32)

    def __iter__(self) -> Iterator[tuple[Array, Array]]:
        for block in self.blocks:
            yield block.ids, block.starts

    def __len__(self) -> int:
        return self.n_sentences

    def __repr__(self) -> str:
        return (
            f"EncodedText of {self.n_sentences:,} sentences, {self.n_tokens:,} tokens, "
            f"{len(self.vocabulary):,} words"
        )

    @property
    def n_tokens(self) -> int:
        return sum(block.n_tokens for block in self.blocks)

    @property
    def n_sentences(self) -> int:
        return sum(block.n_sentences for block in self.blocks)

    @property
    def shape(self) -> tuple[int, int]:
        """Sentences × words."""
        return self.n_sentences, len(self.vocabulary)

    @property
    def size(self) -> int:
        return self.n_tokens

    def fingerprint(self) -> str:
        """A hash of all words and sentences."""
        sha = hashlib.sha256("\n".join(self.vocabulary).encode())
        for ids, starts in self:
            sha.update(np.ascontiguousarray(ids).data)
            sha.update(np.ascontiguousarray(starts).data)
        return sha.hexdigest()[:16]

    def sentences(self) -> Iterator[Array]:
        """The numbers of every sentence, one after the other."""
        for ids, starts in self:
            for first, last in pairwise(starts):
                yield ids[first:last]

    def encode(self, documents: Any) -> EncodedText:
        """Another text over the same words; the vocabulary states its counts here, and other words are left out."""
        return encode_over(self.vocabulary, documents, self.tokenizer)

    def over(self, words: Vocabulary) -> EncodedText:
        """The same text over another vocabulary's numbers; words that it does not have are dropped."""
        mapping = words.encode(list(self.vocabulary))
        blocks = renumber(self.blocks, mapping)
        lost = self.n_tokens - sum(block.n_tokens for block in blocks)
        counts = np.zeros(len(words), np.int64)
        counts[mapping[mapping >= 0]] = self.vocabulary.counts[mapping >= 0]
        return replace(
            self,
            vocabulary=Vocabulary(words.words, counts),
            blocks=blocks,
            n_dropped=self.n_dropped + lost,
        )


def encode(
    documents: Any,
    *,
    min_count: int = 1,
    max_vocab_size: int | None = None,
    lowercase: bool = True,
    token_pattern: str | None = WORD,
    stop_words: Any = None,
    stemmer: str | None = None,
) -> EncodedText:
    """Texts as numbers of words.

    Parameters
    ----------
    documents : texts (a list, an iterator, a Path, `lemmata.text.read(…)`, a data set) or sentences as lists of words
        A text is one sentence: no window reaches into the next. `read(path, unit="paragraph")` makes them longer.
    min_count : int, default=1
        Words that occur less often are dropped.
    max_vocab_size : int, optional
        Keep only so many of the most frequent words.
    lowercase, token_pattern, stop_words, stemmer : see `Tokenizer`; lists of words are taken as they are
    """
    tokenizer = Tokenizer(lowercase, token_pattern, stop_words, stemmer)
    return encode_with(documents, tokenizer, min_count, max_vocab_size)


def encode_with(
    documents: Any,
    tokenizer: Tokenizer,
    min_count: int = 1,
    max_vocab_size: int | None = None,
    longest: int | None = LONGEST,
) -> EncodedText:
    """Texts as numbers of words by a tokenizer, which lists of words do not need; longest=None cuts no sentence."""
    if isinstance(min_count, bool) or not isinstance(min_count, Integral) or min_count < 1:
        raise ValueError(f"min_count={min_count!r}: pass an int >= 1.")
    documents, tokenized = _inspect(documents)
    places: Any = defaultdict(count().__next__)
    raw, counts = BlockStore(), np.zeros(0, np.int64)

    def number(words: Iterable[str], size: int) -> Array:
        return np.fromiter(map(places.__getitem__, words), np.int32, size)

    for ids, starts in _batches(documents, None if tokenized else tokenizer, number, longest):
        found = np.bincount(ids, minlength=len(counts))
        found[: len(counts)] += counts
        counts = found
        raw.add(ids, starts)
    words, often = _words_of(places), np.flatnonzero(counts >= min_count)
    order = often[by_count(words[often].tolist(), counts[often])][:max_vocab_size]
    mapping = np.full(len(words), -1, np.int32)
    mapping[order] = np.arange(len(order))
    kept = Vocabulary(words[order], counts[order])
    dropped = int(counts.sum()) - kept.n_tokens
    places.clear()  # a long text has many rare words, and their memory is needed now
    del words
    blocks = renumber(raw.drain(), mapping)
    return EncodedText(kept, blocks, None if tokenized else tokenizer, dropped)


def encode_over(
    vocabulary: Vocabulary, documents: Any, tokenizer: Tokenizer | None = None
) -> EncodedText:
    """A text over the words of a vocabulary. The result's vocabulary states how often each occurs in this text."""
    documents, tokenized = _inspect(documents)
    tokenizer = None if tokenized else tokenizer or Tokenizer()
    numbers, found = vocabulary.ids.get, 0
    store, counts = BlockStore(), np.zeros(len(vocabulary), np.int64)

    def look_up(words: Iterable[str], size: int) -> Array:
        return np.fromiter(map(numbers, words, repeat(-1)), np.int32, size)

    for ids, starts in _batches(documents, tokenizer, look_up):
        store.add(ids, starts)
        counts += np.bincount(ids[ids >= 0], minlength=len(counts))
        found += len(ids)
    dropped = found - int(counts.sum())
    words = Vocabulary(vocabulary.words, counts)
    return EncodedText(words, tuple(store.blocks), tokenizer, dropped)


def _words_of(places: Any) -> Array:
    """All words by their numbers, each of them a text."""
    for kind in set(map(type, places)) - {str}:
        if not issubclass(kind, str):
            raise _no_word(next(word for word in places if type(word) is kind))
    return np.fromiter(places, object, len(places))


def _no_word(wrong: Any) -> TypeError:
    return TypeError(f"a sentence holds {wrong!r}, a {type(wrong).__name__}; words are texts.")


def _inspect(documents: Any) -> tuple[Any, bool]:
    """Return the documents, and whether they are lists of words already, which the first one shows."""
    refuse_tables(documents)
    if isinstance(documents, (list, tuple)):
        first = next(iter(documents), None)
        return documents, _is_words(first)
    if isinstance(documents, Iterable) and not hasattr(documents, "texts"):
        if isinstance(documents, (str, bytes)):
            return documents, False  # as_documents says what is wrong with it
        rest = iter(documents)
        first = next(rest, None)
        if not _is_words(first):
            if rest is documents:  # an iterator: the one taken is put back
                return ([] if first is None else chain([first], rest)), False
            return documents, False
        return (chain([first], rest) if rest is documents else documents), True
    return documents, False


def _is_words(one: Any) -> bool:
    if not isinstance(one, (list, tuple)):
        return False
    return all(isinstance(word, str) for word in one)


def _sentences(documents: Any, tokenizer: Tokenizer | None) -> Iterator[list[str]]:
    if tokenizer is not None:
        yield from map(tokenizer, as_documents(documents))
        return
    for number, words in enumerate(documents):
        if not isinstance(words, (list, tuple)):
            raise TypeError(
                f"sentence {number} is a {type(words).__name__}, the first one a list of words; pass either texts or lists."
            )
        yield words  # type: ignore[misc]


def _batches(
    documents: Any,
    tokenizer: Tokenizer | None,
    numbers: Callable[[Iterable[str], int], Array],
    longest: int | None = LONGEST,
) -> Iterator[tuple[Array, Array]]:
    """(ids, starts) of some BLOCK tokens at a time; `numbers` makes ids of words."""
    # an iterator may fill one list again and again
    stays = tokenizer is not None or isinstance(documents, (list, tuple))
    batch: list[Any] = []
    lengths: list[int] = []
    pieces: list[Array] = []
    here = total = 0  # words of the batch, and of the block

    def number() -> Array:
        try:
            return numbers(chain.from_iterable(batch), here)
        except TypeError:
            for one in chain.from_iterable(batch):
                if not isinstance(one, str):
                    raise _no_word(one) from None
            raise

    def block() -> tuple[Array, Array]:
        starts = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
        return np.concatenate([*pieces, number()]), starts

    for sentence in _sentences(documents, tokenizer):
        batch.append(sentence if stays else tuple(sentence))
        size = len(sentence)
        here += size
        total += size
        while longest is not None and size > longest:
            lengths.append(longest)
            size -= longest
        lengths.append(size)
        if total >= BLOCK:
            yield block()
            batch, lengths, pieces, here, total = [], [], [], 0, 0
        elif here >= PIECE:
            pieces.append(number())
            batch, here = [], 0
    if lengths:
        yield block()
