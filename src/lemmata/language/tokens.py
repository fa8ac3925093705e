"""Tokens: a text as whole numbers, and back (ML "Language Models").

    Characters()                 a token for each character; every text of known characters comes back as it was
    Words(min_count=2)           what stands between spaces, and line ends; rare words become [UNK], spaces become single
    BytePairs(size=1000)         frequent runs of bytes, by Hugging Face's tokenizers (pip install 'lemmata[language]')

The first six numbers are tokens that no text contains: [PAD] fills up rows, [UNK] is an unknown word, [EOS] ends a text,
[CLS], [SEP] and [MASK] are BERT's. A text that contains "[EOS]" is a text: its letters, or its word, have numbers of their own.

>>> letters = Characters().learn(["to be"])
>>> letters.encode("bet").tolist(), letters.decode(letters.encode("bet"))
([7, 8, 10], 'bet')
>>> words = Words().learn(["to be or not to be"])
>>> words.encode("to err").tolist(), words.decode([7, 8, 2])
([9, 1], 'not or')
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from lemmata.core.files.encoding import storable
from lemmata.registry import require
from lemmata.text.words import Vocabulary

Array = np.ndarray

SPECIAL = ("[PAD]", "[UNK]", "[EOS]", "[CLS]", "[SEP]", "[MASK]")
PAD, UNK, EOS, CLS, SEP, MASK = range(len(SPECIAL))
FIRST = len(SPECIAL)  # the number of the first token of a text


class TokenCoder:
    """The base of what turns texts into numbers and back."""

    closed: ClassVar[bool] = False  # knows no token for what it has not seen, and refuses it
    restores: ClassVar[bool] = True  # promises that decode(encode(text)) is the text

    def learn(self, texts: Iterable[str]) -> TokenCoder:
        """The same with the vocabulary of these texts."""
        raise TypeError(f"{type(self).__name__} does not say how it is learned: define learn.")

    def __len__(self) -> int:
        """Number of tokens, the special ones included."""
        raise TypeError(f"{type(self).__name__} does not say how many tokens there are.")

    def encode(self, text: str) -> Array:
        """The numbers of a text (T,), int32."""
        raise TypeError(f"{type(self).__name__} does not say how texts become numbers.")

    def decode(self, tokens: Any) -> str:
        """The text of numbers; of the special ones only [UNK] is shown."""
        raise TypeError(f"{type(self).__name__} does not say how numbers become texts.")

    def name(self, token: int) -> str:
        """A token as people read it."""
        return SPECIAL[token] if token < FIRST else self.decode([token])


@storable
@dataclass(frozen=True, eq=False)
class Characters(TokenCoder):
    """A token for each character that was seen."""

    layout: ClassVar[Mapping[str, str]] = {"points": "points int >=0"}
    closed: ClassVar[bool] = True

    points: Array = field(default_factory=lambda: np.empty(0, np.int32))  # code points, rising

    def learn(self, texts: Iterable[str]) -> Characters:
        found: set[str] = set()
        for text in texts:
            found.update(text)
        return Characters(np.array(sorted(map(ord, found)), np.int32))

    def __len__(self) -> int:
        return FIRST + len(self.points)

    @cached_property
    def _places(self) -> Array:
        """(largest code point + 2,): the token of every code point, 0 where there is none."""
        if len(self.points) and (np.diff(self.points) <= 0).any():
            raise ValueError("the code points of its characters do not rise.")
        largest = int(self.points[-1]) if len(self.points) else 0
        if largest > 0x10FFFF:
            raise ValueError(f"there is no character {largest:#x}.")
        table = np.zeros(largest + 2, np.int32)
        table[self.points] = np.arange(FIRST, len(self), dtype=np.int32)
        return table

    def encode(self, text: str) -> Array:
        points = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
        found = self._places[np.minimum(points, len(self._places) - 1)]
        if not found.all():
            place = int((found == 0).argmax())
            strange = text[place]
            raise ValueError(
                f"the character {strange!r} (U+{ord(strange):04X}) at position {place:,} is none of the "
                f"{len(self.points):,} that were learned: leave it out, or fit to text that contains it."
            )
        return found

    def decode(self, tokens: Any) -> str:
        tokens = np.asarray(tokens, np.int64)
        return "".join(map(chr, self.points[tokens[tokens >= FIRST] - FIRST].tolist()))


@storable
@dataclass(frozen=True, eq=False)
class Words(TokenCoder):
    """A token for each word that is frequent enough, and for each line end; other words are [UNK].

    Parameters
    ----------
    min_count : int, default=1
        Words that occur less often are [UNK].
    max_size : int, optional
        At most so many words, the most frequent.
    """

    layout: ClassVar[Mapping[str, str]] = {"min_count": "int >=1", "words": "words text"}
    restores: ClassVar[bool] = False

    min_count: int = 1
    max_size: int | None = None
    words: Array = field(default_factory=lambda: np.empty(0, object))

    def learn(self, texts: Iterable[str]) -> Words:
        found = Vocabulary.of(map(split_words, texts)).pruned(self.min_count, self.max_size)
        return Words(self.min_count, self.max_size, np.sort(found.words))

    def __len__(self) -> int:
        return FIRST + len(self.words)

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {word: FIRST + i for i, word in enumerate(self.words.tolist())}

    def encode(self, text: str) -> Array:
        words, numbers = split_words(text), self._numbers
        return np.fromiter((numbers.get(word, UNK) for word in words), np.int32, len(words))

    def decode(self, tokens: Any) -> str:
        kept = [self.name(token) for token in np.asarray(tokens).tolist() if token >= FIRST or token == UNK]  # fmt: skip
        return " ".join(kept).replace(" \n ", "\n").replace(" \n", "\n").replace("\n ", "\n")

    def name(self, token: int) -> str:
        return SPECIAL[token] if token < FIRST else self.words[token - FIRST]


def split_words(text: str) -> list[str]:
    """Words, which stand between spaces, and every line end."""
    return [word for word in text.replace("\n", " \n ").split(" ") if word]


@storable
@dataclass(frozen=True, eq=False)
class BytePairs(TokenCoder):
    """Frequent runs of bytes as tokens (byte pair encoding): every text comes back as it was.

    Learned and applied by Hugging Face's tokenizers.

    Parameters
    ----------
    size : int, default=1000
        Tokens, the 256 bytes among them, without the six special ones.
    """

    layout: ClassVar[Mapping[str, str]] = {"size": "int >=1", "pieces": "pieces text", "merges": "merges text"}  # fmt: skip
    size: int = 1000
    # pieces are in the library's letters for bytes
    pieces: Array = field(default_factory=lambda: np.empty(0, object))
    merges: Array = field(default_factory=lambda: np.empty(0, object))  # "a b", in their order

    def __post_init__(self):
        if self.size < 256:
            raise ValueError(f"size={self.size}; the 256 bytes are tokens: pass size >= 256.")

    def learn(self, texts: Iterable[str]) -> BytePairs:
        import json

        library = _tokenizers()
        learner = self._with(library.models.BPE())
        alphabet = library.pre_tokenizers.ByteLevel.alphabet()
        trainer = library.trainers.BpeTrainer(
            vocab_size=self.size, initial_alphabet=alphabet, show_progress=False
        )
        learner.train_from_iterator(iter(texts), trainer)
        model = json.loads(learner.to_str())["model"]
        pieces = sorted(model["vocab"], key=model["vocab"].get)
        merges = [one if isinstance(one, str) else " ".join(one) for one in model["merges"]]
        return BytePairs(self.size, np.array(pieces, object), np.array(merges, object))

    @staticmethod
    def _with(model: Any) -> Any:
        library = _tokenizers()
        found = library.Tokenizer(model)
        found.pre_tokenizer = library.pre_tokenizers.ByteLevel(add_prefix_space=False)
        found.decoder = library.decoders.ByteLevel()
        return found

    @cached_property
    def _coder(self) -> Any:
        library, pieces = _tokenizers(), self.pieces.tolist()
        merges = [tuple(one.split(" ", 1)) for one in self.merges.tolist()]
        known, parts = set(pieces), {part for pair in merges for part in (*pair, "".join(pair))}
        whole = known.issuperset(library.pre_tokenizers.ByteLevel.alphabet())
        if len(known) < len(pieces) or not whole or parts - known or {*map(len, merges)} - {2}:
            raise ValueError("its pieces are not those of byte pairs: all bytes, and what is merged.")  # fmt: skip
        places = {piece: i for i, piece in enumerate(pieces)}
        return self._with(library.models.BPE(places, merges))

    def __len__(self) -> int:
        return FIRST + len(self.pieces)

    def encode(self, text: str) -> Array:
        try:
            text.encode()
        except UnicodeEncodeError as error:
            strange = f"U+{ord(text[error.start]):04X} at position {error.start:,}"
            raise ValueError(f"{strange} is half a character: no bytes stand for it; leave it out.") from None  # fmt: skip
        return np.array(self._coder.encode(text).ids, np.int32) + FIRST

    def decode(self, tokens: Any) -> str:
        tokens = np.asarray(tokens, np.int64)
        return self._coder.decode((tokens[tokens >= FIRST] - FIRST).tolist())


def impossible_tokens(coder: TokenCoder) -> list[int]:
    """The special tokens that never follow in a text: all but [EOS], and [UNK] where words may be unknown."""
    return [PAD, CLS, SEP, MASK] + ([UNK] if coder.closed else [])


def _tokenizers() -> Any:
    return require("tokenizers", "language", what="BytePairs")


KINDS: dict[str, Any] = {"characters": Characters, "words": Words, "byte pairs": BytePairs}


def as_tokens(given: Any) -> TokenCoder:
    """Tokens by name, or such an object."""
    if isinstance(given, str) and given in KINDS:
        return KINDS[given]()
    if not isinstance(given, TokenCoder):
        known = ", ".join(map(repr, KINDS))
        raise ValueError(f"tokens={given!r}; pass {known}, or Characters(), Words(…), BytePairs(…).")  # fmt: skip
    return given
