"""Coherence: do the words of a topic occur together in texts? And diversity: do topics have different words?

With P(w) the share of windows that hold w, and P(v, w) that of windows that hold both (a window is a document, or so many words
in a row),

    u_mass    mean over i > j of   ln (P(w_i, w_j) + ε) / P(w_j)                                     Mimno et al. 2011
    npmi      mean over i ≠ j of   ln [(P(w_i, w_j) + ε) / (P(w_i) P(w_j))] / −ln (P(w_i, w_j) + ε)    Bouma 2009
    c_v       mean over i of       cos(v_i, Σ_j v_j),   v_i = (npmi(w_i, w_j))_j                      Röder et al. 2015

with ε = 1e-12, as gensim's `CoherenceModel` has them; words w_1, w_2, … by falling probability. A pair with a word that no
window holds says nothing and is left out.

>>> texts = ["cat dog", "dog cat bird", "loss risk", "risk loss fit"]
>>> coherence([["cat", "dog"], ["cat", "risk"]], texts, "npmi").round(2).tolist()
[1.0, -0.95]
>>> diversity([["cat", "dog"], ["cat", "risk"]])
0.75

(gensim's sliding windows lose a word that stands twice in a window as soon as its first occurrence leaves; ours do not.)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import scipy.sparse as sp

from lemmata.text.counting import Counts
from lemmata.text.reading import as_documents
from lemmata.text.words import Tokenizer

Array = np.ndarray
EPSILON = 1e-12
WINDOWS = {"npmi": 10, "c_v": 110, "u_mass": 0}  # words in a row; 0: a document
BATCH = 1000  # texts at a time


@dataclass(frozen=True)
class WindowCounts:
    """Numbers of windows with each word and each pair. Adds up over blocks of documents; WindowCounts() is the empty sum."""

    windows: float = 0.0
    pairs: Array | float = 0.0  # (v, v); the diagonal has each word alone

    @classmethod
    def in_documents(cls, counts: Any) -> WindowCounts:
        """Count windows in counts over the words: a window is a document."""
        there = sp.csr_array(counts, dtype=np.float64)
        there.eliminate_zeros()
        there.data[:] = 1
        return cls(float(there.shape[0]), (there.T @ there).toarray())

    @classmethod
    def in_windows(cls, texts: Sequence[Array], words: int, size: int) -> WindowCounts:
        """Count windows in texts as numbers of words, −1 for one that does not matter: a window is `size` of them in a row.

        A window changes only where a word that matters enters or leaves it; between, it is counted as often as it lasts.
        """
        lengths = np.array([len(text) for text in texts], dtype=np.int64)
        starts = np.maximum(lengths - size, 0) + 1  # windows of each text; a shorter text is one
        document = np.repeat(np.arange(len(texts)), lengths)
        flat = np.concatenate([*texts, np.empty(0, np.int64)]).astype(np.int64)
        place = np.arange(len(flat)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        known = flat >= 0
        word, document, place = flat[known], document[known], place[known]
        base = np.concatenate([[0], np.cumsum(starts)])  # windows numbered through all texts
        first = base[document] + np.maximum(place - size + 1, 0)  # the windows that hold it,
        last = base[document] + np.minimum(place, starts[document] - 1) + 1  # this one excluded
        cuts = np.unique(np.concatenate([first, last]))
        low, high = np.searchsorted(cuts, first), np.searchsorted(cuts, last)
        spread = high - low
        row = np.repeat(low - np.cumsum(spread) + spread, spread) + np.arange(spread.sum())
        there = sp.csr_array(
            (np.ones(len(row)), (row, np.repeat(word, spread))), shape=(max(len(cuts), 1), words)
        )
        there.sum_duplicates()
        there.data[:] = 1
        lasts = np.diff(cuts, append=cuts[-1:]).astype(np.float64) if len(cuts) else np.zeros(1)
        return cls(float(starts.sum()), (there.T @ sp.diags_array(lasts) @ there).toarray())

    def __add__(self, other: WindowCounts) -> WindowCounts:
        return WindowCounts(self.windows + other.windows, self.pairs + other.pairs)

    def u_mass(self, topic: Array) -> float:
        alone, both = self._shares(topic)
        i, j = np.tril_indices(len(topic), -1)
        use = (alone[i] > 0) & (alone[j] > 0)
        return _mean(np.log((both[i, j] + EPSILON)[use] / alone[j][use]))

    def npmi(self, topic: Array) -> float:
        matrix = self._npmi(topic)
        return _mean(matrix[~np.eye(len(topic), dtype=bool) & np.isfinite(matrix)])

    def c_v(self, topic: Array) -> float:
        matrix = self._npmi(topic)
        there = np.isfinite(np.diag(matrix))
        matrix = matrix[np.ix_(there, there)]
        total = matrix.sum(axis=0)
        sizes = np.linalg.norm(matrix, axis=1) * np.linalg.norm(total)
        return _mean(np.divide(matrix @ total, sizes, out=np.zeros(len(matrix)), where=sizes > 0))

    def _npmi(self, topic: Array) -> Array:
        """Normalised pointwise mutual information of the words of a topic, NaN for one that does not occur."""
        alone, both = self._shares(topic)
        there = alone > 0
        apart = np.where(there[:, None] & there, alone[:, None] * alone, np.nan)
        # two words that every window holds are 0/0, of which ε makes −1
        return np.log((both + EPSILON) / apart) / -np.log(both + EPSILON)

    def _shares(self, topic: Array) -> tuple[Array, Array]:
        pairs = np.asarray(self.pairs)[np.ix_(topic, topic)] / max(self.windows, 1)
        return np.diag(pairs), pairs


def _mean(values: Array) -> float:
    return float(values.mean()) if len(values) else float("nan")


def coherence(
    topics: Sequence[Sequence[str]],
    documents: Any,
    measure: str = "npmi",
    *,
    window: int | None = None,
    tokenizer: Tokenizer | None = None,
) -> Array:
    """Coherence of the words of each topic in documents, (n_topics,); NaN where no two of them occur.

    Parameters
    ----------
    topics : lists of words, the likeliest first
        Ten or so words each, as `top_words` gives them.
    documents : Counts, or texts (a list, an iterator, a data set, `lemmata.text.read(…)`), or lists of words
        Where words are searched. Counts have no order, so a document is a window; texts are read once, block by block.
    measure : {"npmi", "c_v", "u_mass"}, default="npmi"
        NPMI lies between −1 and 1 and agrees best with people among the cheap ones; u_mass is at most 0.
    window : int, optional
        Words in a row that count as together; 0 for a whole document. By default 10 for npmi and 110 for c_v, as in gensim.
    tokenizer : Tokenizer, optional
        What makes words of texts.
    """
    if measure not in WINDOWS:
        raise ValueError(f"measure={measure!r}: known are {', '.join(map(repr, WINDOWS))}.")
    topics = [list(topic) for topic in topics]
    short = next((i for i, topic in enumerate(topics) if len(topic) < 2), None)
    if short is not None:
        raise ValueError(f"topic {short} has {len(topics[short])} words; coherence is that of two.")
    words = sorted({word for topic in topics for word in topic})
    places = {word: place for place, word in enumerate(words)}
    found = _count(documents, words, places, _size(documents, measure, window), tokenizer)
    if not found.windows:
        raise ValueError("there are no documents to look for words in.")
    judge = getattr(found, measure)
    return np.array([judge(np.array([places[word] for word in topic])) for topic in topics])


def _size(documents: Any, measure: str, window: int | None) -> int:
    """Words of a window, 0 for a document."""
    if window is not None and (isinstance(window, bool) or window != int(window) or window < 0):
        raise ValueError(f"window={window!r}: pass a number of words, or 0 for whole documents.")
    if isinstance(documents, Counts):
        if window:
            raise ValueError(
                f"window={window}: counts do not know the order of words; pass the texts, or window=0."
            )
        return 0
    if measure == "u_mass" and window:
        raise ValueError("u_mass counts documents; pass window=0.")
    return WINDOWS[measure] if window is None else int(window)


def _count(
    documents: Any, words: list[str], places: dict[str, int], size: int, tokenizer: Any
) -> WindowCounts:
    if isinstance(documents, Counts):
        return WindowCounts.in_documents(documents.over(np.array(words, dtype=object)).matrix)
    total = WindowCounts()
    for texts in _batches(_words(documents, tokenizer)):
        numbers = [np.array([places.get(word, -1) for word in text], int) for text in texts]
        longest = max(map(len, numbers))
        total = total + WindowCounts.in_windows(numbers, len(words), size or max(longest, 1))
    return total


def _words(documents: Any, tokenizer: Tokenizer | None) -> Iterator[Sequence[str]]:
    """Texts as lists of words; lists of words as they are."""
    if (
        isinstance(documents, (list, tuple))
        and documents
        and isinstance(documents[0], (list, tuple))
    ):
        yield from documents
        return
    yield from map(tokenizer or Tokenizer(), as_documents(documents))


def _batches(texts: Iterator[Sequence[str]]) -> Iterator[list[Sequence[str]]]:
    while batch := list(islice(texts, BATCH)):
        yield batch


def diversity(topics: Iterable[Sequence[str]]) -> float:
    """The share of different words among the words of all topics: 1 if no two topics share one, 1/k if all say the same."""
    words = [word for topic in topics for word in topic]
    if not words:
        raise ValueError("there are no topics with words.")
    return len(set(words)) / len(words)
