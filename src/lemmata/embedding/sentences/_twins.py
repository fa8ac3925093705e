"""The same in NumPy: which words are the input of which target, listed for skip-gram's mini-batches of CBOW."""

from __future__ import annotations

import numpy as np

from lemmata.embedding.skipgram._twins import Occurrences

Array = np.ndarray


def list_targets(words: Array, sentence: Array, n_sentences: int, shift: int) -> Occurrences:
    """Every word as a target, its input the words of the sentence `shift` further on; of its own (0) all other words.

    words, sentence : (n,) the words that are kept, and the sentence of each, rising
    """
    sizes = np.bincount(sentence, minlength=n_sentences)
    firsts = np.cumsum(sizes) - sizes
    source = sentence + shift
    inside = (source >= 0) & (source < n_sentences)
    source = np.where(inside, source, 0)
    sizes_here = np.where(inside, sizes[source] - (shift == 0), 0)
    owner = np.repeat(np.arange(len(words)), sizes_here)
    which = np.arange(len(owner)) - np.repeat(np.cumsum(sizes_here) - sizes_here, sizes_here)
    if shift == 0:  # not itself
        which += which >= owner - firsts[sentence[owner]]
    context = words[firsts[source[owner]] + which]
    used, owner, sizes = np.unique(owner, return_inverse=True, return_counts=True)
    return Occurrences(words[used], owner, context, sizes)
