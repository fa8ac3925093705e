"""From texts to words (`Tokenizer`), and from words to numbers (`Vocabulary`, a statistic that adds up over blocks of text).

    text  →  lower case  →  matches of the pattern  →  without stop words  →  stems

>>> Tokenizer()("The cat's 2 hats: a Poem")
['the', 'cat', 'hats', 'poem']
>>> Tokenizer(stop_words="english", token_pattern=None)("to be , or not to be ?")
[',', '?']
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import chain, repeat
from typing import Any, ClassVar

import numpy as np

from lemmata.core import storable
from lemmata.registry import require

Array = np.ndarray

WORD = r"\b\w\w+\b"  # two letters or digits and more, as scikit-learn's vectorizers have it
WORDS = r"\w+"  # one and more
# ASCII with a blank for what is no letter, digit or underscore: splitting such a text is two to three times faster
BLANKED = "".join(chr(c) if chr(c).isalnum() or c == ord("_") else " " for c in range(128))


@storable
@dataclass(frozen=True)
class Tokenizer:
    """Text to words; names and defaults are those of scikit-learn's `CountVectorizer`.

    Parameters
    ----------
    lowercase : bool, default=True
    token_pattern : str or None
        A regular expression of what a word is, at most one group in it; None: whatever stands between white space.
    stop_words : "english", a collection of words, or None
        Words to leave out, as they are after lower-casing.
    stemmer : str or None
        A language of the Snowball stemmers ("english", "german", …): running and runs become run. Needs `snowballstemmer`.
    """

    lowercase: bool = True
    token_pattern: str | None = WORD
    stop_words: str | tuple[str, ...] | None = None
    stemmer: str | None = None
    _left_out: frozenset[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self):
        find_all(self.token_pattern)
        words = self.stop_words
        if words is not None and not isinstance(words, str):
            object.__setattr__(self, "stop_words", tuple(sorted(words)))
        object.__setattr__(self, "_left_out", stop_list(self.stop_words))
        stems_of(self.stemmer)

    def to_fields(self) -> dict[str, Any]:
        names = ("lowercase", "token_pattern", "stop_words", "stemmer")
        return {name: getattr(self, name) for name in names}

    @classmethod
    def from_fields(cls, fields: dict[str, Any]) -> Tokenizer:
        """A tokenizer from a file, whose pattern must not be one that can run for ever."""
        pattern = fields.get("token_pattern")
        if pattern not in (None, WORD, WORDS) and not _is_simple(pattern):
            raise ValueError(
                f"a file's token_pattern={str(pattern)[:80]!r} may take for ever on some text: pass the tokenizer that you "
                "know, lemmata.load(path, tokenizer=Tokenizer(token_pattern=…))."
            )
        return cls(**fields)

    def __call__(self, text: str) -> list[str]:
        """The words of a text, in their order."""
        words = find_all(self.token_pattern)(text.lower() if self.lowercase else text)
        if self._left_out:
            words = [word for word in words if word not in self._left_out]
        if self.stemmer is not None:
            stem = stems_of(self.stemmer)
            words = [stem(word) for word in words]
        return words

    def spans(self, text: str) -> list[tuple[str, int, int]]:
        """The words of a text as `self(text)` has them, each with where it begins and ends in the text.

        >>> Tokenizer(stop_words="english")("The CATS sat"), Tokenizer(stop_words="english").spans("The CATS sat")
        (['cats', 'sat'], [('cats', 4, 8), ('sat', 9, 12)])
        """
        lowered = text.lower() if self.lowercase else text
        # a capital may become two letters (İ): which letter of the text each one came from
        home: Sequence[int] = range(len(text) + 1)
        if len(lowered) != len(text):
            home = [i for i, letter in enumerate(text) for _ in letter.lower()] + [len(text)]
        stem, found = stems_of(self.stemmer), []
        pattern = re.compile(r"\S+" if self.token_pattern is None else self.token_pattern)
        for match in pattern.finditer(lowered):
            word, (start, stop) = match[pattern.groups], match.span(pattern.groups)
            if word is None:  # a group that took no part: findall has "" for it
                word, start, stop = "", match.start(), match.start()
            if word not in self._left_out:
                end = home[stop - 1] + 1 if stop > start else home[start]
                found.append((stem(word), home[start], end))
        return found


def _is_simple(pattern: str) -> bool:
    """Whether a pattern repeats nothing but single characters, at most two of them without end.

    Matching then takes at most the cube of a text's length; repeats of groups can take exponential time.
    """
    from re import _constants as kinds  # type: ignore[attr-defined]
    from re import _parser as parser  # type: ignore[attr-defined]

    repeats = (kinds.MAX_REPEAT, kinds.MIN_REPEAT, kinds.POSSESSIVE_REPEAT)
    single = (kinds.LITERAL, kinds.NOT_LITERAL, kinds.ANY, kinds.IN)
    endless = 0

    def look(part: Any) -> bool:
        nonlocal endless
        if isinstance(part, tuple) and part and part[0] in repeats:
            least, most, body = part[1]
            if most == 1:  # "?"
                return look(body)
            endless += most == kinds.MAXREPEAT
            few = least <= 64 and (most <= 64 or most == kinds.MAXREPEAT)
            return few and endless <= 2 and len(body) == 1 and body[0][0] in single
        if isinstance(part, tuple) and part and part[0] in (kinds.GROUPREF, kinds.GROUPREF_EXISTS):
            return False
        return not isinstance(part, (tuple, list, parser.SubPattern)) or all(map(look, part))

    try:
        return len(pattern) <= 1000 and look(parser.parse(pattern))
    except re.error:
        return False


@lru_cache(maxsize=32)
def find_all(pattern: str | None):
    """The function that finds what a pattern describes."""
    if pattern is None:
        return str.split
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise ValueError(f"token_pattern={pattern!r} is no regular expression: {error}.") from error
    if compiled.groups > 1:
        raise ValueError(
            f"token_pattern={pattern!r} has {compiled.groups} groups; one says what the word is, more do not."
        )
    if pattern not in (WORD, WORDS):
        return compiled.findall
    search, shortest = compiled.findall, 2 if pattern == WORD else 1

    def split(text: str) -> list[str]:
        if not text.isascii():
            return search(text)
        words = text.translate(BLANKED).split()
        return words if shortest == 1 else [word for word in words if len(word) > 1]

    return split


def stop_list(words: str | Iterable[str] | None) -> frozenset[str]:
    """The words that a parameter names."""
    if words is None:
        return frozenset()
    if isinstance(words, str):
        if words != "english":
            raise ValueError(
                f"stop_words={words!r}: the list that comes with lemmata is 'english'; pass your own words as a list."
            )
        from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

        return frozenset(ENGLISH_STOP_WORDS)
    return frozenset(words)


@lru_cache(maxsize=8)
def stems_of(language: str | None):
    """The function from a word to its stem. A text has few words and repeats them: each is stemmed once."""
    if language is None:
        return str
    snowball = require("snowballstemmer", "text", what=f"stemmer={language!r}")
    if language not in snowball.algorithms():
        known = ", ".join(sorted(snowball.algorithms()))
        raise ValueError(f"stemmer={language!r}: there is no such stemmer; there are {known}.")
    return lru_cache(maxsize=2**20)(snowball.stemmer(language).stemWord)


# --- vocabularies ---------------------------------------------------------------------------------------------------------


def _no_words() -> Array:
    return np.empty(0, dtype=object)


def by_count(words: list[str], counts: Array) -> Array:
    """The places of words by falling count, equal counts by the alphabet."""
    alphabet = np.array(sorted(range(len(words)), key=words.__getitem__), dtype=np.int64)
    return alphabet[np.argsort(-counts[alphabet], kind="stable")]


@storable
@dataclass(frozen=True)
class Vocabulary:
    """Words by falling count, equal counts by the alphabet; a word's number is its place. Vocabulary() is the empty sum.

    >>> words = Vocabulary.of([["a", "rose", "is", "a", "rose"]]) + Vocabulary.of([["is", "a"]])
    >>> list(words.words), words.counts.tolist()
    (['a', 'is', 'rose'], [3, 2, 2])
    >>> words.encode(["a", "tulip", "rose"]).tolist()
    [0, -1, 2]
    """

    layout: ClassVar[Mapping[str, str]] = {"words": "v text", "counts": "v int >=0"}

    words: Array = field(default_factory=_no_words)  # (v,) texts
    counts: Array = field(default_factory=lambda: np.empty(0, dtype=np.int64))  # (v,)

    @classmethod
    def of(cls, sentences: Iterable[list[str]]) -> Vocabulary:
        """The vocabulary of lists of words."""
        return cls.from_counts(Counter(chain.from_iterable(sentences)))

    @classmethod
    def from_counts(cls, counter: Mapping[str, int]) -> Vocabulary:
        """The vocabulary of words with their counts."""
        words = np.array(list(counter.keys()), dtype=object)
        counts = np.fromiter(counter.values(), np.int64, len(counter))
        if counts.size and counts.min() < 0:
            word = words[int(counts.argmin())]
            raise ValueError(f"the word {word!r} has the count {counts.min()}; counts are >= 0.")
        if not len(words):
            return cls()
        order = by_count(words.tolist(), counts)
        return cls(words[order], counts[order])

    def __add__(self, other: Vocabulary) -> Vocabulary:
        total = Counter(dict(zip(self.words.tolist(), self.counts.tolist(), strict=True)))
        total.update(dict(zip(other.words.tolist(), other.counts.tolist(), strict=True)))
        return Vocabulary.from_counts(total)

    def __len__(self) -> int:
        return len(self.words)

    def __iter__(self) -> Iterator[str]:
        return iter(self.words.tolist())

    def __contains__(self, word: object) -> bool:
        return word in self.ids

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Vocabulary):
            return NotImplemented
        return np.array_equal(self.words, other.words) and np.array_equal(self.counts, other.counts)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        first = ", ".join(map(repr, self.words[:5].tolist()))
        more = ", …" if len(self) > 5 else ""
        return f"Vocabulary of {len(self):,} words, {self.n_tokens:,} tokens: {first}{more}"

    @cached_property
    def ids(self) -> dict[str, int]:
        """The number of each word."""
        return dict(zip(self.words.tolist(), range(len(self.words)), strict=True))

    @property
    def n_tokens(self) -> int:
        """Number of words of text that were counted."""
        return int(self.counts.sum())

    def pruned(self, min_count: int = 1, max_size: int | None = None) -> Vocabulary:
        """Without the words that occur less often, and without all but so many of the most frequent ones."""
        keep = int(np.searchsorted(-self.counts, -min_count, side="right"))
        keep = keep if max_size is None else min(keep, max_size)
        return Vocabulary(self.words[:keep], self.counts[:keep])

    def encode(self, words: list[str]) -> Array:
        """The numbers of words, −1 for those that are not in the vocabulary."""
        return np.fromiter(map(self.ids.get, words, repeat(-1)), np.int32, len(words))
