"""From a text to its words.

    text  →  lower case  →  what the pattern finds  →  without stop words  →  stems

>>> Tokenizer()("The cat's 2 hats: a Poem")
['the', 'cat', 'hats', 'poem']
>>> Tokenizer(stop_words="english", token_pattern=None)("to be , or not to be ?")
[',', '?']
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from lemmata.core import storable
from lemmata.lazy import require

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
