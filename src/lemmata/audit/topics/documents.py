"""Documents as their words one after the other, in an order that is drawn once and depends on the counts alone.

Words of a document are exchangeable, so any order of them has the same probability. A random one serves two ends: a prefix of
it is a fair half of the document (completion), and a filter that reads it sees all topics early. The order depends on the
counts and the seed, never on a model: models compared on the same documents are compared on the same halves.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

Array = np.ndarray


@dataclass(frozen=True)
class Documents:
    """Words of n documents, one below the other."""

    words: Array  # column of every token, (tokens,)
    starts: Array  # where each document begins, (n + 1,)
    n_words: int  # m, the size of the vocabulary

    @classmethod
    def of(cls, counts: Any, seed: int = 0) -> Documents:
        """Draw the order of the words of whole counts >= 0, documents in rows; ValueError for any others."""
        N = whole_counts(counts)
        words = np.repeat(N.indices, N.data)
        lengths = np.asarray(N.sum(axis=1)).ravel().astype(np.int64)
        owner = np.repeat(np.arange(N.shape[0]), lengths)
        order = np.lexsort((np.random.default_rng(seed).random(len(words)), owner))
        return cls(words[order], np.concatenate([[0], np.cumsum(lengths)]), N.shape[1])

    @property
    def lengths(self) -> Array:
        """Tokens of each document, (n,)."""
        return np.diff(self.starts)

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, document: int) -> Array:
        return self.words[self.starts[document] : self.starts[document + 1]]

    def pad(self, chosen: Array) -> Array:
        """The words of some documents as rows, (len(chosen), longest), filled up with the word 0."""
        lengths = self.lengths[chosen]
        at = np.arange(int(lengths.max(initial=0)))
        inside = at < lengths[:, None]
        found = np.zeros(inside.shape, np.int64)
        found[inside] = self.words[(self.starts[chosen][:, None] + at)[inside]]
        return found


def whole_counts(counts: Any) -> Any:
    """CSR of int64 without stored zeros. Half a word has no place in a sequence of words."""
    plain = sp.issparse(counts) or isinstance(counts, np.ndarray)
    N = sp.csr_array(counts if plain else np.asarray(counts, dtype=np.float64))
    if N.ndim != 2:
        raise ValueError(f"counts are documents in rows, words in columns, not of shape {N.shape}.")
    values = N.data
    if not np.isfinite(values).all():
        raise ValueError("the counts hold NaN or infinity; a count is a whole number >= 0.")
    if len(values) and values.min() < 0:
        raise ValueError(f"the least count is {values.min():g}; a count is a whole number >= 0.")
    rounded = np.rint(values)
    if (rounded != values).any():
        odd = values[rounded != values][0]
        raise ValueError(
            f"a word occurs {odd:g} times in a document: the probability of a document is that of its words one after the "
            "other, so counts are whole; pass counts before tf-idf or weights."
        )
    whole = sp.csr_array((rounded.astype(np.int64), N.indices, N.indptr), shape=N.shape, copy=True)
    whole.sum_duplicates()
    whole.eliminate_zeros()
    return whole


def validate_topics(topic_word: Any, alpha: Any) -> tuple[Array, Array]:
    """Return φ (k, m) with rows on the simplex and α (k,) above 0, in float64; ValueError says what is wrong."""
    phi, alpha = np.asarray(topic_word, np.float64), np.asarray(alpha, np.float64)
    if phi.ndim != 2 or not phi.size:
        raise ValueError(f"topic_word has shape {phi.shape}; pass p(word | topic), topics × words.")
    alpha = np.full(len(phi), float(alpha)) if alpha.ndim == 0 else alpha
    if alpha.shape != (len(phi),) or not (np.isfinite(alpha) & (alpha > 0)).all():
        raise ValueError(
            f"alpha, the prior of topics in a document, is a number above 0 or one for each of the {len(phi)} topics."
        )
    if not np.isfinite(phi).all() or phi.min() < 0:
        raise ValueError("topic_word holds NaN, infinity or numbers below 0; pass p(word | topic).")
    totals = phi.sum(axis=1)
    if np.abs(totals - 1).max() > 1e-4:
        worst = int(np.abs(totals - 1).argmax())
        raise ValueError(
            f"row {worst} of topic_word sums to {totals[worst]:.6g}, not to 1; pass p(word | topic): counts over their sum."
        )
    return phi / totals[:, None], alpha
