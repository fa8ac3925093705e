"""A convolutional network for texts (Kim 2014; ML "Text Representation": sentences by CNNs).

    tokens (T) → vectors E_x (T × d) → windows of 3, 4 and 5 words: relu(W_w [x_t … x_{t+w−1}] + b_w)
               → the largest answer of each filter over the text → dropout → scores

A filter is a phrase that is looked for, wherever it stands; all else a bag of words forgets is forgotten here, too. Padding is
the token 0 and has the vector 0; every window that touches a word counts and no other does, so that a row may be padded to
any length. A text of one word is in some window of five.

    >>> rows = pad_tokens([[7, 8, 9], [9]])
    >>> rows.shape
    (2, 3)
    >>> net = TextCNN((3,), 2, n_tokens=10, width=8, channels=4).eval()
    >>> short, long = net(torch.tensor([[7.0, 8, 9]])), net(torch.tensor([[7.0, 8, 9, 0, 0, 0, 0]]))
    >>> bool(torch.allclose(short, long))
    True
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lemmata.nets.attention.transformer import PAD

EXACT = 2**24  # whole numbers below it are floats of 32 bits


class TextCNN(nn.Module):
    """A convolutional network from rows of tokens (B, T) to (B, n_outputs).

    Tokens are whole numbers, of floats too: a table of them is what `pad_tokens` makes of texts and what
    ``NeuralClassifier("TextCNN", net__n_tokens=…)`` takes.

    Parameters
    ----------
    input_shape : tuple of int
        (T,), the longest row that is read by an estimator; the network itself reads any length.
    n_outputs : int
        Scores per text.
    n_tokens : int
        Size of the vocabulary, the padding included.
    width : int, default=100
        d, the length of a word's vector.
    channels : int, default=100
        Filters of each window.
    windows : tuple of int, default=(3, 4, 5)
        Words that the filters see at once.
    dropout : float, default=0.5
        Share of the features that is dropped before the linear map in training.
    """

    reads_tokens = True  # rows are numbers of tokens: nothing lies between two of them

    def __init__(
        self,
        input_shape: Sequence[int],
        n_outputs: int,
        n_tokens: int,
        width: int = 100,
        channels: int = 100,
        windows: Sequence[int] = (3, 4, 5),
        dropout: float = 0.5,
    ) -> None:
        super().__init__()
        shape, windows = tuple(int(size) for size in input_shape), tuple(windows)
        if len(shape) != 1:
            raise ValueError(
                f"TextCNN takes rows of tokens, input_shape=(T,); got {shape}: pass X of shape (n, T)."
            )
        if not windows or min(n_tokens - 1, width, channels, *windows) < 1 or not 0 <= dropout < 1:
            raise ValueError(
                f"n_tokens={n_tokens}, width={width}, channels={channels}, windows={windows}, dropout={dropout}: pass two "
                "tokens or more, whole numbers >= 1 and a dropout in [0, 1)."
            )
        self.config: dict[str, Any] = {
            "input_shape": shape, "n_outputs": n_outputs, "n_tokens": n_tokens, "width": width, "channels": channels,
            "windows": windows, "dropout": dropout,
        }  # fmt: skip
        self.embedding = nn.Embedding(n_tokens, width)
        nn.init.normal_(self.embedding.weight, std=0.1)  # small: what a word means is learned
        # zeros beyond both ends: windows that begin before the text, or end after it
        convolutions: list[Any] = [
            nn.Conv1d(width, channels, window, padding=window - 1) for window in windows
        ]
        for filters in convolutions:
            nn.init.kaiming_normal_(filters.weight, nonlinearity="relu")
            nn.init.zeros_(filters.bias)
        self.filters: Any = nn.ModuleList(convolutions)
        self.head = nn.Sequential(
            nn.Dropout(dropout), nn.Linear(channels * len(windows), n_outputs)
        )

    def embed(self, x: Tensor, regions: int = 1) -> Tensor:
        """(B, channels · windows): how well each filter fits where it fits best; a text has no regions."""
        tokens = self._tokens_of(x)
        real = tokens != PAD
        length = max(int(real.any(0).nonzero().max()) + 1 if bool(real.any()) else 0, 1)
        tokens, real = tokens[:, :length], real[:, None, :length].to(self.embedding.weight.dtype)
        vectors = self.embedding(tokens).transpose(1, 2) * real  # (B, d, T)
        found = []
        for filters in self.filters:
            (window,) = filters.kernel_size
            # (B, 1, T + window − 1): 1 where it sees a word
            seen = F.max_pool1d(F.pad(real, (window - 1, window - 1)), window, stride=1)
            found.append((F.relu(filters(vectors)) * seen).amax(2))
        return torch.cat(found, 1)

    def embedding_width(self, regions: int = 1) -> int:
        return self.head[1].in_features  # type: ignore[return-value]

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.embed(x))

    def _tokens_of(self, x: Tensor) -> Tensor:
        tokens, n = x.long(), self.embedding.num_embeddings
        if x.dim() != 2 or (x.is_floating_point() and not bool((tokens == x).all())):
            raise ValueError(
                f"x has shape {tuple(x.shape)} and type {x.dtype}; pass rows of whole numbers (B, T), see pad_tokens."
            )
        if len(tokens) and not 0 <= int(tokens.min()) <= int(tokens.max()) < n:
            raise ValueError(
                f"tokens go from {int(tokens.min())} to {int(tokens.max())}, but n_tokens={n}: encode texts by the vocabulary "
                "of the fit, or pass net__n_tokens."
            )
        return tokens


def pad_tokens(texts: Iterable[Sequence[int]], length: int | None = None) -> np.ndarray:
    """Rows of tokens as a table (n, length) of float32, filled up with 0; longer texts keep their beginnings.

    length : by default that of the longest text
    """
    rows = [np.asarray(one) for one in texts]
    length = max(map(len, rows), default=0) if length is None else length
    table = np.full((len(rows), length), PAD, np.float32)
    for row, tokens in zip(table, rows, strict=True):
        if len(tokens) and int(np.max(tokens)) >= EXACT:
            raise ValueError(
                f"token {int(np.max(tokens)):,} is too large; pass tokens < {EXACT:,}."
            )
        row[: len(tokens)] = tokens[:length]
    return table
