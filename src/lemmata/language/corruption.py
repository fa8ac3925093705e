"""Inputs of BERT in training: texts with words hidden, and pairs of which one half follows the other or does not.

    [CLS] a [SEP] b [SEP]        segments 0 … 0 1 … 1;  a and b are two parts of a text, or b is a part of another
    15 % of the words are selected; of these 80 % become [MASK], 10 % another word, 10 % stay

What is selected has to be told from all the rest. A word that may be wrong, or right, keeps the network from trusting any.

>>> import torch
>>> _ = torch.manual_seed(0)
>>> tokens = torch.arange(100).view(4, 25) % 40 + 6
>>> inputs, selected = mask_words(tokens, n_tokens=46)
>>> bool((inputs == tokens)[~selected].all()), bool((inputs[selected] == MASK).any())
(True, True)
"""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lemmata.language.tokens import CLS, FIRST, MASK, PAD, SEP
from lemmata.nets.data.batches import ALONE, ORDER, Batch, Data

Array = np.ndarray

SELECTED = 0.15  # of the words
MASKED, OTHER = 0.8, 0.1  # of these
NOT_ASKED = -100  # label of a row with one segment
MEASURED = 0  # the epoch whose draws are those of measuring
TOGETHER = 16  # batches whose rows are sorted by length, so that little is padding


def mask_words(tokens: Tensor, n_tokens: int) -> tuple[Tensor, Tensor]:
    """Tokens of which some are changed, and which were selected (bool); draws from torch's own generator."""
    u, kind = torch.rand(2, *tokens.shape, device=tokens.device).unbind()
    selected = (u < SELECTED) & (tokens >= FIRST)
    others = torch.randint(FIRST, n_tokens, tokens.shape, device=tokens.device)
    changed = torch.where(kind < MASKED + OTHER, others, tokens).masked_fill(kind < MASKED, MASK)
    return torch.where(selected, changed, tokens), selected


def cut_pieces(starts: Array, stops: Array, length: int, offset: int = 0) -> tuple[Array, Array]:
    """Starts and stops of pieces of at most `length` tokens, which follow each other in every text; where a text is longer
    than a piece, its first one ends after offset % length tokens, if that is not 0."""
    first = np.where(stops - starts > length, offset % length, 0)
    count = np.where(stops > starts, -(-(stops - starts - first) // length) + (first > 0), 0)
    text = np.repeat(np.arange(len(starts)), count)
    number = np.arange(len(text)) - np.repeat(np.cumsum(count) - count, count)
    shift = np.where(first > 0, first - length, 0)[text]
    begin = starts[text] + number * length + shift
    return np.maximum(begin, starts[text]), np.minimum(begin + length, stops[text])


def join_segments(rows: list[tuple[Array, Array | None]]) -> tuple[Array, Array]:
    """Tokens (B, T) and segments (B, T) of pairs (a, b), or of a alone: [CLS] a [SEP] b [SEP], filled up with [PAD]."""
    sizes = [2 + len(a) + (0 if b is None else 1 + len(b)) for a, b in rows]
    x, segments = np.full((2, len(rows), max(sizes, default=1)), PAD, np.int64)
    for row, (a, b) in enumerate(rows):
        end = 2 + len(a)
        x[row, 0], x[row, 1 : end - 1], x[row, end - 1] = CLS, a, SEP
        if b is not None:
            x[row, end : end + len(b)], x[row, end + len(b)] = b, SEP
            segments[row, end : end + len(b) + 1] = 1
    return x, segments


class Passages(Data):
    """Batches (tokens, segments, whether the second follows) from texts.

    Each epoch cuts long texts at new places. Of the pieces of four tokens and more, a share is cut in two, and half of these
    get the second part of another piece of the epoch.

    Parameters
    ----------
    tokens : (N,) whole numbers
    starts, stops : (n,)
        Where the texts begin and end.
    context : int
        T, of a row with its special tokens; at least 7.
    pairs : float, default=0.7
        The share that is cut.
    """

    def __init__(
        self, tokens: Array, starts: Array, stops: Array, context: int, pairs: float = 0.7
    ):
        self.tokens, self.starts, self.stops = tokens, starts, stops
        self.context, self.pairs = context, pairs
        self.n: int = len(cut_pieces(starts, stops, context - 3)[0])

    def count(self, size: int) -> int:
        return -(-self.n // size)

    def batches(self, seed, epoch, size, start=0, share=ALONE):
        rng = np.random.default_rng((seed, epoch, ORDER))
        length = self.context - 3
        begin, end = cut_pieces(self.starts, self.stops, length, int(rng.integers(length)))
        # the first pieces of cut texts are more; an epoch has as many rows whatever its cuts
        order = rng.permutation(len(begin))[: self.n]
        order = np.append(order, rng.integers(len(begin), size=self.n - len(order)))
        pool = TOGETHER * size
        for at in range(0, self.n, pool):
            some = order[at : at + pool]
            order[at : at + pool] = some[np.argsort((end - begin)[some], kind="stable")]
        whole = self.n // size * size
        batches = np.append(rng.permutation(whole // size) * size, [whole] * (self.n > whole)).astype(int)  # fmt: skip
        other = rng.integers(len(begin), size=self.n)
        u = rng.random((3, self.n))
        for first in batches[start:].tolist():
            rows = share.of(np.arange(first, min(first + size, self.n)))
            yield self._batch(order[rows], other[rows], u[:, rows], begin, end, min(size, self.n - first))  # fmt: skip

    def in_order(self, size):
        yield from self.batches(MEASURED, MEASURED, size)

    def _batch(self, rows: Array, other: Array, u: Array, begin: Array, end: Array, n: int) -> Batch:  # fmt: skip
        pairs: list[tuple[Array, Array | None]] = []
        follows = np.full(len(rows), NOT_ASKED)
        for at, row in enumerate(rows):
            piece = self.tokens[begin[row] : end[row]]
            if len(piece) < 4 or u[2, at] >= self.pairs:
                pairs.append((piece, None))
                continue
            cut = 2 + int(u[0, at] * (len(piece) - 3))
            a, b = piece[:cut], piece[cut:]
            follows[at] = u[1, at] < 0.5
            if not follows[at]:  # as long, where the other has so much
                o = other[at]
                b = self.tokens[max(begin[o], end[o] - len(b)) : end[o]]
            pairs.append((a, b))
        parts = (*join_segments(pairs), follows)
        return Batch(tuple(map(torch.from_numpy, parts)), None, n)

    def fingerprint(self) -> str:
        crc = zlib.crc32(f"{len(self.tokens)} {self.context} {self.pairs}".encode())
        for part in (self.tokens, self.starts, self.stops):
            crc = zlib.crc32(np.ascontiguousarray(part).data, crc)
        return self._with_validation(f"{crc:08x}")


def texts_of(corpus: Any) -> tuple[Array, Array]:
    """Where the texts of a corpus begin and end, their [EOS] left out."""
    return np.concatenate([[0], corpus.ends[:-1]]), corpus.ends - 1
