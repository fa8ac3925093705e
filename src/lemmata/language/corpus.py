"""Texts as one array of tokens, an [EOS] after each: what language models are fitted to and judged on.

    The last tenth of the characters is kept from training (`test_fraction`), so that claims can be checked on it; where the
    cut falls into a text, this becomes two.

>>> parts = split_texts(["one text", "another"], 0.2)
>>> parts
(['one text', 'anot'], ['her'])
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from lemmata.language.tokens import EOS, UNK, TokenCoder
from lemmata.text.reading import UnreadableText, as_documents, read

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class Corpus:
    """Texts with their tokens.

    texts : the texts
    tokens : (N,) int32, an [EOS] after each text
    coder : what made the tokens
    kept, stopping : texts that were kept from training for claims, and for early stopping
    """

    texts: tuple[str, ...]
    tokens: Array
    coder: TokenCoder
    kept: Corpus | None = None
    stopping: Corpus | None = None

    weights = targets = None  # texts have none; certificates ask
    dtype = np.dtype(np.int32)

    @classmethod
    def of(cls, texts: Sequence[str], coder: TokenCoder) -> Corpus:
        parts = []
        for number, text in enumerate(texts):
            try:
                parts += [coder.encode(text), np.array([EOS], np.int32)]
            except ValueError as error:
                where = f"text {number}: " if len(texts) > 1 else ""
                raise ValueError(f"{where}{error}") from None
        tokens = np.concatenate(parts) if parts else np.empty(0, np.int32)
        return cls(tuple(texts), tokens, coder)

    def with_parts(self, kept: Corpus | None, stopping: Corpus | None = None) -> Corpus:
        return replace(self, kept=kept, stopping=stopping)

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def n_tokens(self) -> int:
        return len(self.tokens)

    @property
    def size(self) -> int:
        return len(self.tokens)

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.tokens), 1

    @property
    def extent(self) -> str:
        """The size as people read it."""
        return f"{len(self.tokens):,} tokens of {len(self.coder):,}"

    @property
    def source(self) -> Array:
        return self.tokens[:, None]

    @cached_property
    def ends(self) -> Array:
        """(n,): the place after the [EOS] of each text."""
        return np.flatnonzero(self.tokens == EOS) + 1

    def stream(self) -> Array:
        """(N + 1,): an [EOS] before all of them, after which the first text begins."""
        return np.concatenate([np.array([EOS], np.int32), self.tokens])

    def units(self) -> dict[str, int]:
        """Numbers of tokens, characters, words and bytes; the end of a text counts as a token and as none of the others."""
        return {
            "token": len(self.tokens),
            "character": sum(map(len, self.texts)),
            "word": sum(len(text.split()) for text in self.texts),
            "byte": sum(len(text.encode("utf-8", "surrogatepass")) for text in self.texts),
        }

    @property
    def unknown(self) -> int:
        return int((self.tokens == UNK).sum())

    def fingerprint(self) -> str:
        sha = hashlib.sha256(np.ascontiguousarray(self.tokens).data)
        for part in (self.kept, self.stopping):
            if part is not None:
                sha.update(part.fingerprint().encode())
        return sha.hexdigest()[:16]


def read_texts(source: Any) -> list[str]:
    """Texts of a list, an iterator, a data set; a path is one text, the whole file, line ends included.

    Lists of words are joined by spaces.
    """
    if isinstance(source, Path):
        source = read(source, unit="file")
    elif isinstance(source, str):
        if len(source) < 4096 and "\n" not in source and Path(source).is_file():
            return read_texts(Path(source))
        raise TypeError("documents is one text; pass a list of texts, [text], or a path.")
    if isinstance(source, (list, tuple)) and source and isinstance(source[0], (list, tuple)):
        return _join_words(source)
    texts = list(as_documents(source))
    if not any(text.strip() for text in texts):
        raise ValueError(f"{len(texts):,} texts hold no word; pass texts, or the path of a file.")
    for number, text in enumerate(texts):
        if "\0" in text:
            raise UnreadableText(f"text {number} holds zero bytes: it is no text.")
    return texts


def _join_words(sentences: Sequence[Any]) -> list[str]:
    """Texts of lists of words, a space between them."""
    for number, words in enumerate(sentences):
        if not isinstance(words, (list, tuple)):
            kind = type(words).__name__
            raise TypeError(f"sentence {number} is a {kind}, and others are lists of words.")
        if not all(isinstance(word, str) for word in words):
            raise TypeError(f"sentence {number} holds other things than words; words are texts.")
    return read_texts([" ".join(words) for words in sentences])


def split_texts(texts: Sequence[str], share: float) -> tuple[list[str], list[str]]:
    """Texts without the last share of all characters, and that share."""
    first, left = list(texts), round(share * sum(map(len, texts)))
    kept: list[str] = []
    while left > 0 and first:
        text = first.pop()
        if len(text) > left:
            cut = len(text) - left
            first.append(text[:cut])
            text = text[cut:]
        left -= len(text)
        kept.insert(0, text)
    return first, kept
