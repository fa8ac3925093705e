"""Windows of a long array of tokens: what a language model learns from, and is measured on.

    inputs  x_s … x_{s+T−1},   targets  x_{s+1} … x_{s+T}

An epoch draws an offset and then the order of the windows that follow each other from there on; both follow from (seed, epoch).
In measuring, windows overlap: each moves on by `stride`, and only its last `stride` targets count (the others are −100), so
that every token is scored once, after at least T − stride others (in the first window after all that there are).

>>> import numpy as np
>>> data = Windows(np.arange(10), 4, stride=2)
>>> [batch.parts[1].tolist() for batch in data.in_order(2)]
[[[1, 2, 3, 4], [-100, -100, 5, 6]], [[-100, -100, 7, 8], [-100, -100, -100, 9]]]
>>> [batch.parts[0].tolist() for batch in data.batches(seed=0, epoch=0, size=2)]
[[[3, 4, 5, 6]]]
"""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import torch

from lemmata.core.validation import refuse_shrunk_file
from lemmata.nets.data.batches import ALONE, ORDER, Batch, Data

Array = np.ndarray
NOT_COUNTED = -100
READ = 2**20  # tokens of a file that are hashed at once


class Windows(Data):
    """Windows of T tokens and their successors.

    Parameters
    ----------
    tokens : array or mapped file of whole numbers, shape (N,)
    length : int
        T; at most N − 1.
    stride : int, default=T // 2
        Of measuring.
    shifted : bool, default=True
        Whether an epoch draws its offset; else windows begin at 0, T, 2T, …
    """

    def __init__(self, tokens: Any, length: int, stride: int | None = None, shifted: bool = True):
        kind = getattr(tokens, "dtype", type(tokens).__name__)
        if np.ndim(tokens) != 1 or getattr(kind, "kind", "") not in "iu":
            raise ValueError(
                f"tokens are {kind} of shape {np.shape(tokens)}; pass whole numbers, (N,)."
            )
        if len(tokens) <= length:
            raise ValueError(
                f"{len(tokens):,} tokens hold no window of length={length} with its successor: "
                f"pass length <= {len(tokens) - 1}."
            )
        self.tokens, self.length, self.shifted = tokens, length, shifted
        self.stride = max(1, length // 2) if stride is None else stride
        if not 1 <= self.stride <= length:
            raise ValueError(f"stride={stride}; pass 1 <= stride <= length={length}.")
        kept = length if shifted else 1  # for every offset
        self.n: int = max(1, (len(tokens) - kept) // length)

    def count(self, size: int) -> int:
        return -(-self.n // size)

    def batches(self, seed, epoch, size, start=0, share=ALONE):
        rng = np.random.default_rng((seed, epoch, ORDER))
        offset = int(rng.integers(min(self.length, len(self.tokens) - self.n * self.length)))
        starts = offset * self.shifted + self.length * rng.permutation(self.n)
        for first in range(start * size, self.n, size):
            whole = starts[first : first + size]
            yield self._batch(share.of(whole), len(whole), None)

    def in_order(self, size):
        scored = len(self.tokens) - 1  # targets
        starts = np.arange(0, max(scored - self.length, 0) + self.stride, self.stride)
        # the first target that counts in each window, counted from its start
        first = np.where(starts == 0, 0, self.length - self.stride)
        late = np.maximum(starts - (scored - self.length), 0)  # the last window ends with the text
        for begin in range(0, len(starts), size):
            part = slice(begin, begin + size)
            yield self._batch((starts - late)[part], len(starts[part]), (first + late)[part])

    def _batch(self, starts: Array, rows: int, first: Array | None) -> Batch:
        if isinstance(self.tokens, np.memmap):
            refuse_shrunk_file(self.tokens)
        places = starts[:, None] + np.arange(self.length + 1)
        found = torch.from_numpy(np.asarray(self.tokens[places], np.int64))
        x, y = found[:, :-1].contiguous(), found[:, 1:].clone()
        if first is not None:
            y[torch.arange(self.length) < torch.from_numpy(first)[:, None]] = NOT_COUNTED
        return Batch((x, y), None, rows)

    def fingerprint(self) -> str:
        sizes = f"{len(self.tokens)} {self.length} {self.stride}"
        crc = zlib.crc32((sizes if self.shifted else sizes + " 0").encode())
        for start in range(0, len(self.tokens), READ):
            crc = zlib.crc32(np.ascontiguousarray(self.tokens[start : start + READ]).data, crc)
        return self._with_validation(f"{crc:08x}")
