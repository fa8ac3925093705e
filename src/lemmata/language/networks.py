"""Networks of language models (ML "Transformers", "Language Models", "Self-supervised Learning").

    GPTNet       tokens → scores of the next token at every place:  E · Decoder(E[x] + positions),  one table E at both ends

The notes print both matrices of a block's MLP as D × D; here they are D × 4D and 4D × D. A token of a decoder attends to
itself, too.

>>> import torch
>>> net = GPTNet(n_tokens=50, width=16, depth=1, heads=2, context=8)
>>> net(torch.zeros(3, 5, dtype=torch.long)).shape
torch.Size([3, 5, 50])
"""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F

from lemmata.nets.attention.positions import positions as positions_of
from lemmata.nets.attention.transformer import BlockCache, Decoder, TokenEmbedding
from lemmata.nets.training.losses import Terms

PLACES = 0.1  # deviation of learned positions; tokens have 1


class GPTNet(nn.Module):
    """Scores of the next token, from those before it.

    Parameters
    ----------
    n_tokens : int
        V.
    width, depth, heads : int, default=128, 4, 4
        Of the decoder.
    context : int, default=128
        The longest sequence.
    dropout : float, default=0.0
        As in `TransformerBlock`.
    positions : {"learned", "sinusoidal"}, default="learned"
    """

    declares = ("causal", "cached", "batched")

    def __init__(
        self,
        n_tokens: int,
        width: int = 128,
        depth: int = 4,
        heads: int = 4,
        context: int = 128,
        dropout: float = 0.0,
        positions: str = "learned",
    ) -> None:
        super().__init__()
        self.config = {
            "n_tokens": n_tokens, "width": width, "depth": depth, "heads": heads, "context": context,
            "dropout": dropout, "positions": positions,
        }  # fmt: skip
        self.context = context
        self.embedding = TokenEmbedding(n_tokens, width)
        self.positions = positions_of(positions, context, width, std=PLACES)
        self.dropout = nn.Dropout(dropout) if dropout else nn.Identity()
        self.decoder = Decoder(width, depth, heads, dropout=dropout)

    def cache(self) -> list[BlockCache]:
        """An empty memory, for tokens that come in portions."""
        return self.decoder.cache()

    def forward(
        self, tokens: Tensor, padding: Tensor | None = None, cache: list[BlockCache] | None = None
    ) -> Tensor:
        """Scores (B, T, V) of the token after each of these.

        padding : (B, S) bool, True at real tokens; those in the cache are among the S. A row may be padded at its
            beginning: its first real token stands at place 0.
        cache : of the earlier tokens, to which these are added
        """
        start: int | Tensor = cache[0][0].length if cache else 0
        if padding is not None:
            start = start - (~padding).int().cumprod(dim=1).sum(dim=1)
        x = self.dropout(self.positions(self.embedding(tokens), start))
        return self.embedding.scores(self.decoder(x, padding=padding, cache=cache))

    def loss(self, x: Tensor, y: Tensor) -> Terms:
        """−ln P of the successors y of x, at all places at once (teacher forcing: the true earlier tokens are given)."""
        scores = self(x)
        losses = F.cross_entropy(scores.flatten(0, 1), y.flatten(), reduction="none")
        sums, counts = losses.view(y.shape).sum(1), (y != -100).sum(1)
        return Terms(sums, counts=counts)
