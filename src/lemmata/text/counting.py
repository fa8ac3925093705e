"""Documents as counts of words: the occurrence matrix N, N_dw how often word w stands in document d (CIL 3.2).

The order of words inside a document does not matter, so the matrix is all that a topic model sees. It is sparse, adds up over
blocks of documents (`Counts.of(a) + Counts.of(b)` is `Counts.of(a + b)`), and files are read one document at a time.

>>> found = counts(["a rose is a rose", "is it a rose?"], token_pattern=r"\\w+", min_df=2)
>>> found
Counts of 2 documents × 3 words, 8 tokens
>>> found.encode(["rose rose tulip"]).matrix.toarray().tolist()
[[0, 0, 2]]
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count, islice
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from lemmata.core import storable
from lemmata.text.reading import as_documents
from lemmata.text.words import WORD, Tokenizer

Array = np.ndarray


@storable
@dataclass(frozen=True)
class Counts:
    """Counts of each word in each document. The words are in the order of the alphabet; Counts() is the empty sum.

    matrix : CSR array of int64, (n_documents, n_words)
    words : (n_words,) texts
    tokenizer : what made words of texts
    """

    layout: ClassVar[Mapping[str, str]] = {"words": "w text", "matrix": "n w int sparse"}

    matrix: Any = field(default_factory=lambda: sp.csr_array((0, 0), dtype=np.int64))
    words: Array = field(default_factory=lambda: np.empty(0, dtype=object))
    tokenizer: Tokenizer = field(default_factory=Tokenizer)

    @classmethod
    def of(cls, documents: Any, tokenizer: Tokenizer | None = None) -> Counts:
        """Count every word of every document, in one pass."""
        tokenizer = Tokenizer() if tokenizer is None else tokenizer
        places: dict[str, int] = _Growing()
        matrix = _matrix(map(tokenizer, as_documents(documents)), places.__getitem__)
        words = np.array(list(places), dtype=object)
        order = np.argsort(words)
        matrix.resize(matrix.shape[0], len(words))
        return cls(sp.csr_array(matrix[:, order]), words[order], tokenizer)

    def encode(self, documents: Any) -> Counts:
        """Count these words in other documents; words that are not among them are left out."""
        places = {word: place for place, word in enumerate(self.words.tolist())}
        matrix = _matrix(map(self.tokenizer, as_documents(documents)), _look_up(places))
        matrix.resize(matrix.shape[0], len(self.words))
        return Counts(sp.csr_array(matrix), self.words, self.tokenizer)

    def blocks(self, documents: Any, size: int = 10_000) -> CountBlocks:
        """These words counted in documents that need not fit memory, so many at a time, as often as asked: what `fit` of a
        topic model takes. Nothing is kept between passes; documents are read and cut into words again each time.
        """
        if isinstance(documents, Iterator):
            raise TypeError(
                f"a {type(documents).__name__} can be read only once and a fit needs several passes; pass a list of texts, or "
                "lemmata.text.read(path)."
            )
        if isinstance(size, bool) or not isinstance(size, Integral) or size < 1:
            raise ValueError(f"size={size!r}: pass a number of documents >= 1.")
        return CountBlocks(self, as_documents(documents), int(size))

    def __add__(self, other: Counts) -> Counts:
        if not len(self.words) and not self.matrix.shape[0]:
            return other
        if other.matrix.shape[0] and self.tokenizer != other.tokenizer:
            raise ValueError(
                "the two counts were made by different tokenizers: their words are not the same things."
            )
        words = np.array(sorted({*self.words.tolist(), *other.words.tolist()}), dtype=object)
        parts = [one.over(words).matrix for one in (self, other)]
        return Counts(sp.csr_array(sp.vstack(parts, format="csr")), words, self.tokenizer)

    def over(self, words: Array) -> Counts:
        """The same counts over other words, in the order of the alphabet; a word that is not among them is dropped."""
        wanted = np.searchsorted(words, self.words) if len(words) else np.zeros(0, int)
        inside = np.minimum(wanted, max(len(words) - 1, 0))
        kept = words[inside] == self.words if len(words) else np.zeros(len(self.words), bool)
        matrix = self.matrix[:, np.flatnonzero(kept)].tocsr()
        moved = sp.csr_array(
            (matrix.data, inside[kept][matrix.indices], matrix.indptr),
            shape=(matrix.shape[0], len(words)),
        )
        return Counts(moved, words, self.tokenizer)

    def __len__(self) -> int:
        return self.matrix.shape[0]

    def __repr__(self) -> str:
        return f"Counts of {len(self):,} documents × {len(self.words):,} words, {self.n_tokens:,} tokens"

    @property
    def shape(self) -> tuple[int, int]:
        return self.matrix.shape

    @property
    def n_tokens(self) -> int:
        """Number of words of all documents together."""
        return int(self.matrix.sum())

    @property
    def document_frequency(self) -> Array:
        """Number of documents that contain each word, (n_words,)."""
        return np.bincount(self.matrix.indices, minlength=self.matrix.shape[1])

    def pruned(
        self, min_df: float = 1, max_df: float = 1.0, max_features: int | None = None
    ) -> Counts:
        """Without words of too few or too many documents; then the most frequent `max_features` of the rest."""
        low, high = (
            _documents(value, len(self), name)
            for value, name in ((min_df, "min_df"), (max_df, "max_df"))
        )
        if high < low:
            raise ValueError(
                f"max_df={max_df} is {high:g} documents, fewer than min_df={min_df} ({low:g}): no word is left."
            )
        found = self.document_frequency
        keep = np.flatnonzero((found >= low) & (found <= high))
        if max_features is not None and len(keep) > max_features:
            totals = np.asarray(self.matrix.sum(axis=0)).ravel()[keep]
            # the alphabet decides among equals
            keep = np.sort(keep[np.argsort(-totals, kind="stable")[:max_features]])
        return Counts(sp.csr_array(self.matrix[:, keep]), self.words[keep], self.tokenizer)


@dataclass(frozen=True)
class CountBlocks:
    """Blocks of counts over the same words, made again in every pass; `Counts.blocks` makes it."""

    over: Counts
    documents: Iterable[str]
    size: int

    def __iter__(self) -> Iterator[Counts]:
        texts = iter(self.documents)
        while batch := list(islice(texts, self.size)):
            yield self.over.encode(batch)


def counts(
    documents: Any,
    *,
    lowercase: bool = True,
    token_pattern: str | None = WORD,
    stop_words: str | Sequence[str] | None = None,
    stemmer: str | None = None,
    min_df: float = 1,
    max_df: float = 1.0,
    max_features: int | None = None,
    vocabulary: Iterable[str] | None = None,
) -> Counts:
    """Count the words of documents: a sparse matrix and its words, as scikit-learn's `CountVectorizer` would.

    Parameters
    ----------
    documents : list of texts, iterator, Path, `lemmata.text.read(…)`, or a data set of texts
    lowercase, token_pattern, stop_words, stemmer : see `Tokenizer`
    min_df, max_df : int or float
        Words in fewer or more documents than that are left out; a float is a share of the documents.
    max_features : int, optional
        Keep only the most frequent words.
    vocabulary : iterable of words, optional
        Count these words and no others.
    """
    tokenizer = Tokenizer(lowercase, token_pattern, stop_words, stemmer)  # type: ignore[arg-type]
    if vocabulary is not None:
        words = np.array(sorted(set(vocabulary)), dtype=object)
        if not len(words):
            raise ValueError("vocabulary holds no words.")
        return Counts(sp.csr_array((0, len(words)), dtype=np.int64), words, tokenizer).encode(
            documents
        )
    found = Counts.of(documents, tokenizer)
    if not len(found):
        raise ValueError("there are no documents to count.")
    if not len(found.words):
        raise ValueError(
            f"the {len(found):,} documents hold no word: they are empty, or made of stop words, or token_pattern finds nothing."
        )
    kept = found.pruned(min_df, max_df, max_features)
    if not len(kept.words):
        raise ValueError(
            f"none of {len(found.words):,} words is left: lower min_df={min_df} or raise max_df={max_df}."
        )
    return kept


class _Growing(dict):
    """A dict that gives every new word the next place."""

    def __init__(self):
        super().__init__()
        self._next = count()

    def __missing__(self, word: str) -> int:
        place = self[word] = next(self._next)
        return place


def _look_up(places: dict[str, int]):
    """The place of a word; −1 for any other."""
    return lambda word: places.get(word, -1)


def _matrix(documents: Iterable[list[str]], place: Any) -> Any:
    """The CSR matrix of documents whose words have these places; a place below 0 is left out."""
    columns, ends = array("i"), array("q", [0])
    for words in documents:
        columns.extend(map(place, words))
        ends.append(len(columns))
    indices = np.frombuffer(columns, dtype=np.int32) if len(columns) else np.empty(0, np.int32)
    indptr = np.array(ends, dtype=np.int64)
    if len(indices) and indices.min() < 0:
        kept = indices >= 0
        indptr = np.concatenate([[0], np.cumsum(kept)])[indptr]
        indices = indices[kept]
    width = int(indices.max()) + 1 if len(indices) else 0
    matrix = sp.csr_array(
        (np.ones(len(indices), np.int64), indices.copy(), indptr), shape=(len(indptr) - 1, width)
    )
    matrix.sum_duplicates()
    return matrix


def _documents(value: Any, n: int, name: str) -> float:
    """A number of documents from a number or a share of them."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(
            f"{name}={value!r}: pass a number of documents (int) or a share of them (float)."
        )
    if isinstance(value, Integral):
        if value < 0:
            raise ValueError(f"{name}={value}: pass an int >= 0, or a share between 0.0 and 1.0.")
        return float(value)
    if not 0 <= float(value) <= 1:
        raise ValueError(
            f"{name}={value}: a share of the documents is between 0.0 and 1.0; a number is an int."
        )
    return float(value) * n
