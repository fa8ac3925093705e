"""Phrases: two words that stand together far more often than chance become one, "new york" new_york.

    score(a, b) = (N_ab − δ) N / (N_a N_b)  >  threshold          N tokens; δ = min_count takes out rare pairs (word2vec)

Without δ it is e^PMI of the pair, so threshold=100 asks for a PMI of ln 100. Pairs are joined from left to right and do not
overlap; doing it twice joins phrases of three and four words.

>>> from lemmata.text import encode
>>> text = encode([["new", "york", "is", "big"], ["new", "york", "is", "new"]] * 20 + [["big", "is", "is", "not"]] * 20)
>>> list(join_phrases(text, min_count=2, threshold=3.5).vocabulary)
['is', 'big', 'new_york', 'new', 'not']
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from lemmata.text.encoded import BlockStore, EncodedText, renumber
from lemmata.text.words import Vocabulary

Array = np.ndarray


def join_phrases(
    text: EncodedText, min_count: int = 5, threshold: float = 100.0, joiner: str = "_"
) -> EncodedText:
    """The text with phrases as single words, its vocabulary counted again.

    min_count : int, default=5
        δ: pairs that occur so often or less are no phrases.
    threshold : float, default=100.0
        How many times more often than chance two words stand together.
    joiner : str, default="_"
        What stands between the words of a phrase.
    """
    if min_count < 1 or not threshold > 0:
        raise ValueError(
            f"min_count={min_count} and threshold={threshold}: pass an int >= 1 and a number > 0."
        )
    words, counts = text.vocabulary.words, text.vocabulary.counts
    v = len(words)
    pairs, times = _pairs(text, v)
    first, second = pairs // max(v, 1), pairs % max(v, 1)
    score = (times - min_count) * (text.n_tokens / (counts[first] * counts[second].astype(float)))
    chosen = pairs[(score > threshold) & (times > min_count)]
    joined = [f"{words[a]}{joiner}{words[b]}" for a, b in zip(chosen // v, chosen % v, strict=True)]
    store = BlockStore()
    for block in text.blocks:
        store.add(*_join(block.ids, block.starts, chosen, v))
    names = np.concatenate([words, np.array(joined, dtype=object)])
    # two ways to one name ("a_b" may be a word already): its occurrences are one word's
    unique = {name: place for place, name in reversed(list(enumerate(names.tolist())))}
    same = np.array([unique[name] for name in names.tolist()], dtype=np.int32)
    found = np.zeros(len(names), np.int64)
    for block in store.blocks:
        found += np.bincount(same[block.ids], minlength=len(names))
    kept = Vocabulary.from_counts({names[i]: int(found[i]) for i in np.flatnonzero(found).tolist()})
    mapping = kept.encode(names.tolist())
    return replace(text, vocabulary=kept, blocks=renumber(store.drain(), mapping))


def _neighbours(ids: Array, starts: Array, v: int) -> tuple[Array, Array]:
    """The pair that begins at every token but the last, and whether both are in one sentence."""
    inside = np.ones(max(len(ids) - 1, 0), bool)
    ends = starts[1:-1]
    inside[ends[(ends > 0) & (ends < len(ids))] - 1] = False
    return ids[:-1].astype(np.int64) * v + ids[1:], inside


def _pairs(text: EncodedText, v: int) -> tuple[Array, Array]:
    """Every pair of neighbours once, as a·v + b, and how often it occurs."""
    pairs, times = np.empty(0, np.int64), np.empty(0, np.int64)
    for ids, starts in text:
        keys, inside = _neighbours(ids, starts, v)
        new, count = np.unique(keys[inside], return_counts=True)
        pairs, which = np.unique(np.concatenate([pairs, new]), return_inverse=True)
        times = np.bincount(which, np.concatenate([times, count]), len(pairs)).astype(np.int64)
    return pairs, times


def _join(ids: Array, starts: Array, chosen: Array, v: int) -> tuple[Array, Array]:
    """Join pairs from left to right: of those that overlap in a row every second one."""
    keys, inside = _neighbours(ids, starts, v)
    place = np.searchsorted(chosen, keys)
    found = (
        np.take(chosen, place, mode="clip") == keys if len(chosen) else np.zeros(len(keys), bool)
    )
    wanted = np.append(found & inside, False)[: len(ids)]
    at = np.arange(len(ids))
    begins = wanted & ~np.append(False, wanted[:-1])[: len(ids)]
    since = at - np.maximum.accumulate(np.where(begins, at, 0)) if len(ids) else at
    joined = wanted & (since % 2 == 0)
    out = ids.copy()
    out[joined] = v + place[joined[:-1]]
    kept = ~np.append(False, joined[:-1])[: len(ids)]
    return out[kept], np.concatenate([[0], np.cumsum(kept)])[starts]
