"""Words and their vectors: nearest words, similarity, analogies.

    similarity(v, w) = cos(z_v, z_w)                    a is to b as c is to argmax_d  cos(z_d, z_b − z_a + z_c)    (CIL (3.64))

The vectors in an analogy are divided by their lengths first, and a, b and c themselves are no answers. The multiplicative form
(Levy and Goldberg 2014) takes the d with the largest c_db c_dc / (c_da + ε), c = (1 + cos)/2: no large term can win alone.
(CIL (3.64) ranks by the inner product, which favours long vectors, those of frequent words; CIL20 5.5 by the cosine, as here.)

>>> words = ["king", "queen", "man", "woman", "apple"]
>>> Z = np.array([[5.0, 5, 0.1], [5, -5, 0.2], [0.5, 5, 0], [0.4, -5, 0], [0, 0.1, 3]])
>>> vectors = WordVectors(words, Z)
>>> vectors.analogy("man", "king", "woman", n=1)
[('queen', 0.95...)]
>>> round(vectors.similarity("king", "apple"), 3)
0.038
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from lemmata.core import storable
from lemmata.core.validation import refuse_nonfinite
from lemmata.embedding.subwords import PartVectors

if TYPE_CHECKING:
    from lemmata.embedding.vectors.judging import AnalogyScore, SimilarityScore

Array = np.ndarray
METHODS = ("additive", "multiplicative")
BLOCK_BYTES = 2**25  # of vectors at a time: more would leave the cache, fewer would cost calls
EPSILON = 1e-6  # keeps a quotient finite where a word is opposite to a; as gensim has it


# --- search, block by block: one matrix product each, no more in memory; a vector of zeros has similarity 0 ----------------


def row_blocks(matrix: Array) -> Iterator[tuple[int, Array]]:
    """Yield where a block begins, and its rows as an array in memory."""
    rows = max(1, BLOCK_BYTES // max(1, matrix.shape[1] * matrix.itemsize))
    for first in range(0, len(matrix), rows):
        yield first, np.asarray(matrix[first : first + rows])


def lengths(matrix: Array) -> Array:
    """‖v‖ of every row, in the dtype of the matrix."""
    out = np.empty(len(matrix), matrix.dtype)
    for first, rows in row_blocks(matrix):
        squares = np.einsum("ij,ij->i", rows, rows, dtype=np.float64)
        out[first : first + len(rows)] = np.sqrt(squares)
    return out


def directions(rows: Array) -> Array:
    """Rows of length 1; zeros stay zeros."""
    sizes = lengths(rows)[:, None]
    return rows / np.where(sizes > 0, sizes, 1)


def top(
    matrix: Array, sizes: Array, queries: Array, n: int, score: Any = None
) -> tuple[Array, Array]:
    """For each query the n best rows and their scores, the best first; of equal ones the first row.

    sizes : ‖v‖ of the rows
    score : from the cosines (q, rows) of a block to one row of what is to be large; None: the cosines of each query
    """
    queries = directions(np.atleast_2d(queries).astype(matrix.dtype, copy=False))
    n = min(n, len(matrix))
    count = len(queries) if score is None else 1
    best = np.zeros((count, 0), matrix.dtype)
    places = np.zeros((count, 0), np.int64)
    for first, rows in row_blocks(matrix):
        part = sizes[first : first + len(rows)]
        cosines = (queries @ rows.T) / np.where(part > 0, part, 1)
        scores = cosines if score is None else score(cosines)
        here = np.broadcast_to(np.arange(first, first + len(rows)), scores.shape)
        best = np.concatenate([best, scores], axis=1)
        places = np.concatenate([places, here], axis=1)
        if best.shape[1] > n:
            kept = np.sort(np.argpartition(-best, n - 1, axis=1)[:, :n], axis=1)
            best, places = (np.take_along_axis(x, kept, axis=1) for x in (best, places))
    order = np.argsort(-best, axis=1, kind="stable")
    return np.take_along_axis(places, order, axis=1), np.take_along_axis(best, order, axis=1)


def multiply_similarities(cosines: Array) -> Array:
    """Similarities to a, b, c (3, rows) as the score c_b c_c / (c_a + ε) of every row, (1, rows)."""
    a, b, c = (1 + cosines) / 2
    return (b * c / (a + a.dtype.type(EPSILON)))[None, :]


# --- words ----------------------------------------------------------------------------------------------------------------


@storable
@dataclass(frozen=True, eq=False)
class WordVectors:
    """Vectors of words. Every embedding model has them as `vectors_`; any matrix with its words makes them, too.

    Parameters
    ----------
    words : sequence of texts, each once
        By falling count where counts are known.
    matrix : (n_words, vector_size) array or memory map
        Row i is the vector of words[i]; floats stay what they are, other numbers become float32.
    counts : (n_words,) ints or None
        How often each word occurred in training.
    parts : PartVectors or None
        What gives words that are not among `words` a vector: its method vector(word) returns one, or None.

    Methods: `nearest`, `similarity`, `analogy`, `evaluate_similarity`, `evaluate_analogies`, `write`, `read`, `plot`;
    `vectors["word"]` is a row, `len(vectors)` the number of words, `"word" in vectors` asks.
    """

    layout: ClassVar[Mapping[str, str | type]] = {
        "words": "v text",
        "matrix": "v k",
        "counts?": "v int >=0",
        "parts?": PartVectors,
    }

    words: Array
    matrix: Array
    counts: Array | None = None
    parts: PartVectors | None = None

    def __post_init__(self):
        words = np.array(list(self.words), dtype=object)
        matrix = self.matrix if isinstance(self.matrix, np.ndarray) else np.asarray(self.matrix)
        if matrix.ndim != 2 or len(matrix) != len(words):
            raise ValueError(
                f"{len(words):,} words and vectors of shape {matrix.shape}: pass a matrix with a row for every word."
            )
        if matrix.dtype not in (np.float32, np.float64):
            matrix = matrix.astype(np.float32)
        for name, value in (("words", words), ("matrix", matrix)):
            object.__setattr__(self, name, value)
        if self.counts is not None:
            counts = np.asarray(self.counts)
            if counts.shape != words.shape or (counts.size and counts.min() < 0):
                raise ValueError("counts are ints >= 0, one for every word.")
            object.__setattr__(self, "counts", counts.astype(np.int64))
        self._check_words()
        for first, rows in row_blocks(matrix):
            self._refuse_nonfinite(first, rows)

    def _refuse_nonfinite(self, first: int, rows: Array) -> None:
        bad = np.flatnonzero(~np.isfinite(rows).all(axis=1))
        if len(bad):
            kind = "NaN" if np.isnan(rows[bad[0]]).any() else "infinity"
            word = str(self.words[first + bad[0]])[:40]
            raise ValueError(
                f"the vector of {word!r} (row {first + bad[0]}, counted from 0) contains {kind}; "
                "vectors are finite numbers: leave the word out, or train again."
            )

    def _check_words(self) -> None:
        for place, word in enumerate(self.words.tolist()):
            if not isinstance(word, str):
                raise TypeError(f"words[{place}] is a {type(word).__name__}; words are texts.")
        if len(self.ids) < len(self.words):
            place = next(i for i, word in enumerate(self.words) if self.ids[word] != i)
            raise ValueError(f"the word {self.words[place]!r} is listed twice.")

    # --- words and rows ---

    @cached_property
    def ids(self) -> dict[str, int]:
        """The row of each word."""
        return dict(zip(self.words.tolist(), range(len(self.words)), strict=True))

    @cached_property
    def lengths(self) -> Array:
        """‖z‖ of every vector."""
        return lengths(self.matrix)

    @property
    def vector_size(self) -> int:
        return int(self.matrix.shape[1])

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: object) -> bool:
        return word in self.ids

    def __repr__(self) -> str:
        return f"WordVectors of {len(self):,} words, {self.vector_size} numbers each ({self.matrix.dtype})"

    def __getitem__(self, word: str | Sequence[str]) -> Array:
        """The vector of a word, or the vectors of several as rows; one that is not known is made of its parts, if those are."""
        if isinstance(word, str):
            return self._vector(word)
        if self.parts is None or all(one in self.ids for one in word):
            return np.array(self.matrix[[self.place(one) for one in word]])
        return np.stack([self._vector(one) for one in word])

    def _vector(self, word: str) -> Array:
        unseen = self.parts is not None and isinstance(word, str) and word not in self.ids
        made = self.parts.vector(word) if self.parts is not None and unseen else None
        return np.array(self.matrix[self.place(word)]) if made is None else made

    def _rows_of(self, words: Iterable[str]) -> list[int]:
        """The rows of words, without those that have none."""
        return [self.ids[word] for word in words if word in self.ids]

    def place(self, word: str) -> int:
        """The row of a word; KeyError, with words spelled like it, if there is none."""
        try:
            return self.ids[word]
        except KeyError:
            raise KeyError(self._unknown(word)) from None

    def _unknown(self, word: Any) -> str:
        if not isinstance(word, str):
            return f"{word!r} is a {type(word).__name__}; words are texts."
        if word.lower() in self.ids and word.lower() != word:
            return f"there is no vector of {word!r}, but one of {word.lower()!r}."
        alike = get_close_matches(word, self.words[:20_000].tolist(), 3, 0.75)
        hint = f"; did you mean {', '.join(map(repr, alike))}?" if alike else "."
        return f"there is no vector of {word!r} among {len(self):,} words{hint}"

    # --- what is alike ---

    def nearest(
        self, word: str | Array | Sequence[str], n: int = 10, *, among: int | None = None
    ) -> list[tuple[str, float]]:
        """The n words most alike to a word, to a vector, or to the mean direction of several words.

        among : int, optional
            Look only at so many of the first words, the most frequent ones.
        """
        left_out: list[int] = []
        if isinstance(word, str):
            query = self[word]
            left_out = self._rows_of([word])
        elif isinstance(word, np.ndarray) and word.dtype.kind in "iuf":
            query = self._as_query(word)
        else:
            query = directions(self[list(word)]).mean(axis=0)
            left_out = self._rows_of(word)
        return self._best(query, n, left_out, among)

    def _as_query(self, vector: Array) -> Array:
        if vector.shape != (self.vector_size,):
            raise ValueError(
                f"the vector has shape {vector.shape}; these words have vectors of {self.vector_size} numbers."
            )
        refuse_nonfinite(vector[None, :], what="vector")
        return vector

    def _best(
        self, query: Array, n: int, left_out: Iterable[int], among: int | None, score: Any = None
    ) -> list[tuple[str, float]]:
        if isinstance(n, bool) or not isinstance(n, (int, np.integer)) or n < 1:
            raise ValueError(f"n={n!r}: pass an int >= 1.")
        matrix, skip = self.matrix[:among], set(left_out)
        places, scores = top(matrix, self.lengths[:among], query, n + len(skip), score)
        pairs = zip(places[0].tolist(), scores[0].tolist(), strict=True)
        return [(self.words[i], score) for i, score in pairs if i not in skip][:n]

    def similarity(self, first: str, second: str) -> float:
        """The cosine of two words' vectors, between −1 and 1."""
        a, b = directions(self[[first, second]].astype(np.float64))
        return float(a @ b)

    def analogy(
        self,
        a: str,
        b: str,
        c: str,
        n: int = 10,
        *,
        method: str = "additive",
        among: int | None = None,
    ) -> list[tuple[str, float]]:
        """a is to b as c is to …: the n best answers with their scores.

        method : {"additive", "multiplicative"}
            The cosine with z_b − z_a + z_c, or the product of similarities (see above).
        """
        if method not in METHODS:
            raise ValueError(f"method={method!r}: pass one of {', '.join(map(repr, METHODS))}.")
        za, zb, zc = directions(self[[a, b, c]])
        given = self._rows_of((a, b, c))
        if method == "additive":
            return self._best(zb - za + zc, n, given, among)
        queries = np.stack([za, zb, zc])
        return self._best(queries, n, given, among, multiply_similarities)

    # --- judging, files, a picture ---

    def evaluate_similarity(self, path: Any, **options: Any) -> SimilarityScore:
        """Spearman's correlation with what people say about pairs of words; see `judging.evaluate_similarity`."""
        from lemmata.embedding.vectors.judging import evaluate_similarity

        return evaluate_similarity(self, path, **options)

    def evaluate_analogies(self, path: Any, **options: Any) -> AnalogyScore:
        """The share of analogy questions answered rightly; see `judging.evaluate_analogies`."""
        from lemmata.embedding.vectors.judging import evaluate_analogies

        return evaluate_analogies(self, path, **options)

    def write(self, path: Any, format: str | None = None) -> None:
        """Write word2vec's text or binary format, or safetensors; see `files.write`."""
        from lemmata.embedding.vectors.files import write

        write(self, path, format)

    @classmethod
    def read(cls, path: Any, format: str | None = None, **options: Any) -> WordVectors:
        """Read what `write`, gensim or word2vec wrote; safetensors are mapped, not copied; see `files.read`."""
        from lemmata.embedding.vectors.files import read

        return read(path, format, **options)

    def plot(self, words: Sequence[str] | None = None, **options: Any) -> Any:
        """A picture of words on their two principal axes; see `picture.plot`."""
        from lemmata.embedding.vectors.picture import plot

        return plot(self, words, **options)
