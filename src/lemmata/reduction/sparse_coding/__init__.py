"""Sparse codes and learned dictionaries (CIL20 9, 10): rows as sums of a few atoms out of many.

>>> import numpy as np
>>> from lemmata.reduction import sparse_coding
>>> D = sparse_coding.dct_dictionary(64, 128)
>>> x = 2 * D[5] - D[90]
>>> sparse_coding.recover(D.T, x, n_nonzero=2).support
array([ 5, 90])
"""

from lemmata.registry import lazily

__getattr__, __dir__, __all__ = lazily(
    __name__,
    {
        "learning": "DictionaryLearning",
        "coder": "SparseCoder",
        "dictionaries": "coherence dct_dictionary haar_dictionary random_dictionary",
        "recovery": "recover",
    },
)
