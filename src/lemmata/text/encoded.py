"""Texts as numbers of words, in their order: what windows slide over. In memory, or in a file beside it if they are many.

One pass gives every word the number of its first appearance; then the counts are known, words get their places in the
vocabulary (0 the most frequent), and those below `min_count` are dropped as if they had not been written. A token takes four
bytes; beyond `IN_MEMORY` of them blocks lie in a temporary file, so a text of any size needs the vocabulary and a block or two.

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
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import chain, count, pairwise, repeat
from numbers import Integral
from typing import Any

import numpy as np

from lemmata.text.reading import as_documents, refuse_tables
from lemmata.text.tokens import WORD, Tokenizer
from lemmata.text.vocabulary import Vocabulary, by_count

Array = np.ndarray
BLOCK = 2**19  # tokens: long enough for Python not to matter, and some 40 MB while they are texts
IN_MEMORY = 2**24  # tokens: 64 MB; what is beyond goes to a file
LONGEST = 10_000  # words of a sentence, as gensim's; longer ones are cut, so that no line makes a block of its own


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
        blocks = renumbered(self.blocks, mapping)
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
    documents, tokenized = _looked_at(documents)
    places: Any = defaultdict(count().__next__)
    raw = _encoded(documents, None if tokenized else tokenizer, places, longest)
    for kind in set(map(type, places)) - {str}:
        if not issubclass(kind, str):
            wrong = next(word for word in places if type(word) is kind)
            raise TypeError(f"a sentence holds {wrong!r}, a {kind.__name__}; words are texts.")
    counts = np.zeros(len(places), np.int64)
    for block in raw:
        counts += np.bincount(block.ids, minlength=len(places))
    words, often = np.array(list(places), dtype=object), np.flatnonzero(counts >= min_count)
    order = often[by_count(words[often].tolist(), counts[often])][:max_vocab_size]
    mapping = np.full(len(words), -1, np.int32)
    mapping[order] = np.arange(len(order))
    kept = Vocabulary(words[order], counts[order])
    dropped = int(counts.sum()) - kept.n_tokens
    return EncodedText(kept, renumbered(raw, mapping), None if tokenized else tokenizer, dropped)


def encode_over(
    vocabulary: Vocabulary, documents: Any, tokenizer: Tokenizer | None = None
) -> EncodedText:
    """A text over the words of a vocabulary. The result's vocabulary states how often each occurs in this text."""
    documents, tokenized = _looked_at(documents)
    tokenizer = None if tokenized else tokenizer or Tokenizer()
    known = len(vocabulary)
    places: Any = defaultdict(repeat(-1).__next__, vocabulary.ids)
    raw = _encoded(documents, tokenizer, places)
    blocks = renumbered(raw, np.arange(-1, known, dtype=np.int32), first=-1)
    counts = np.zeros(known, np.int64)
    for block in blocks:
        counts += np.bincount(block.ids, minlength=known)
    dropped = sum(block.n_tokens for block in raw) - int(counts.sum())
    return EncodedText(Vocabulary(vocabulary.words, counts), blocks, tokenizer, dropped)


def _looked_at(documents: Any) -> tuple[Any, bool]:
    """The documents, and whether they are lists of words already, which the first one tells."""
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


def _encoded(
    documents: Any, tokenizer: Tokenizer | None, places: Any, longest: int | None = LONGEST
) -> list[IdBlock]:
    """Blocks of the numbers that `places` gives to words; beyond IN_MEMORY tokens they are in a file."""
    blocks: list[IdBlock] = []
    spill: Spill | None = None
    words: list[str] = []
    lengths: list[int] = []
    total = 0

    def close() -> None:
        nonlocal spill, total
        ids = _numbers(words, places)
        starts = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
        total += len(ids)
        if total > IN_MEMORY:
            spill = spill or Spill()
        blocks.append(IdBlock.of(ids, starts, spill))
        words.clear()
        lengths.clear()

    for sentence in _sentences(documents, tokenizer):
        words.extend(sentence)
        size = len(sentence)
        while longest is not None and size > longest:
            lengths.append(longest)
            size -= longest
        lengths.append(size)
        if len(words) >= BLOCK:
            close()
    if lengths:
        close()
    return blocks


def _numbers(words: list[str], places: Any) -> Array:
    try:
        return np.fromiter(map(places.__getitem__, words), np.int32, len(words))
    except TypeError:
        wrong = next(word for word in words if not isinstance(word, str))
        raise TypeError(
            f"a sentence holds {wrong!r}, a {type(wrong).__name__}; words are texts."
        ) from None


def renumbered(blocks: Iterable[IdBlock], mapping: Array, first: int = 0) -> tuple[IdBlock, ...]:
    """Blocks with other numbers, mapping[0] for the number `first`; tokens that become −1 are taken out, sentences stay."""
    spill: Spill | None = None
    out = []
    for block in blocks:
        ids = mapping[block.ids - first]
        kept = ids >= 0
        starts = block.starts
        if not kept.all():
            starts = np.concatenate([[0], np.cumsum(kept)])[starts]
            ids = ids[kept]
        if block.spill is not None:
            spill = spill or Spill()
        out.append(IdBlock.of(ids, starts, spill))
    return tuple(out)
