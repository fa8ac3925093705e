"""Transformers (ML "Transformers" to "Encoders & Decoders"): attention mixes tokens, an MLP works on each, skips carry both.

    x ← x + Attention(LN(x))                     among the tokens
    x ← x + Attention(LN(x), memory)             only where a decoder reads the output of an encoder
    x ← x + W₂ φ(W₁ LN(x))                       each token by itself, φ = GELU, W₁: d → 4d, W₂: 4d → d

LN stands at the start of each branch (pre-norm), so the sum of all branches reaches the end unchanged and gradients do the
same backwards; one LN more ends the stack. The notes give both matrices of the MLP the shape D × D; the transformers they
name have a hidden layer four times as wide.

    Encoder           all tokens see all tokens                 T × d → T × d          classification, BERT
    Decoder           a token sees itself and earlier ones      T × d → T × d          GPT (cross=False)
    EncoderDecoder    the decoder also reads the encoder        tokens → tokens        translation; here: reversing a word

    >>> import torch
    >>> _ = torch.manual_seed(0)
    >>> net = EncoderDecoder(n_tokens=13, width=32, depth=1, heads=2, max_length=10)
    >>> words = torch.tensor([[3, 4, 5, 2], [7, 8, 2, 0]])     # END is 2, PAD is 0
    >>> net.loss(words, words).counts, net.greedy(words).shape[0]
    (tensor([4, 3]), 2)
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lemmata.nets.attention.heads import KeyValues, MultiHeadAttention
from lemmata.nets.attention.positions import positions as positions_of
from lemmata.nets.training.losses import Terms

PAD, START, END = 0, 1, 2  # the first three tokens of an EncoderDecoder; 3, 4, … are the user's
BlockCache = tuple[KeyValues, KeyValues]  # of a block's own tokens, and of the memory it reads


class TransformerBlock(nn.Module):
    """A layer of a transformer, pre-norm.

    Parameters
    ----------
    width : int
        d, the width of a token.
    heads : int
        Number of heads of each attention.
    hidden : int, default=4 × width
        Units in the hidden layer of the MLP.
    dropout : float, default=0.0
        Dropped share of attention weights and of the output of each branch, in training.
    cross : bool, default=False
        Whether the block also reads a memory.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        hidden: int | None = None,
        dropout: float = 0.0,
        cross: bool = False,
    ) -> None:
        super().__init__()
        hidden = hidden or 4 * width
        self.norm_attention = nn.LayerNorm(width)
        self.attention = MultiHeadAttention(width, heads, dropout=dropout)
        if cross:
            self.norm_cross = nn.LayerNorm(width)
            self.cross = MultiHeadAttention(width, heads, dropout=dropout)
        self.reads_memory = cross
        self.norm_mlp = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, hidden), nn.GELU(), nn.Linear(hidden, width))
        self.dropout = nn.Dropout(dropout) if dropout else nn.Identity()

    def forward(
        self,
        x: Tensor,  # (B, T, d)
        memory: Tensor | None = None,  # (B, S, d)
        *,
        mask: Tensor | None = None,
        padding: Tensor | None = None,
        causal: bool = False,
        memory_padding: Tensor | None = None,
        cache: BlockCache | None = None,
    ) -> Tensor:
        """x (B, T, d) one layer further. Masks as in `MultiHeadAttention`."""
        own, read = cache or (None, None)
        x = x + self.dropout(
            self.attention(
                self.norm_attention(x), mask=mask, padding=padding, causal=causal, cache=own
            )
        )
        if self.reads_memory:
            if memory is None:
                raise ValueError("this block was built with cross=True; pass the memory it reads.")
            x = x + self.dropout(
                self.cross(self.norm_cross(x), memory, padding=memory_padding, cache=read)
            )
        elif memory is not None:
            raise ValueError("this block reads no memory; build it with cross=True.")
        return x + self.dropout(self.mlp(self.norm_mlp(x)))


class Encoder(nn.Module):
    """Blocks in which all tokens see all tokens, and a last normalisation: (B, T, d) → (B, T, d). Adds no positions.

    Parameters
    ----------
    width, depth, heads : int
        d, the number of blocks, heads per block.
    hidden, dropout
        As in `TransformerBlock`.
    """

    def __init__(
        self, width: int, depth: int, heads: int, hidden: int | None = None, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.config = {
            "width": width, "depth": depth, "heads": heads, "hidden": hidden, "dropout": dropout,
        }  # fmt: skip
        self.blocks = nn.ModuleList(
            TransformerBlock(width, heads, hidden, dropout) for _ in range(depth)
        )
        self.norm = nn.LayerNorm(width)

    def forward(
        self, x: Tensor, *, mask: Tensor | None = None, padding: Tensor | None = None
    ) -> Tensor:
        """Transform the tokens, each of which sees all others; padding is ignored."""
        for block in self.blocks:
            x = block(x, mask=mask, padding=padding)
        return self.norm(x)


class Decoder(nn.Module):
    """Blocks in which a token sees itself and earlier ones: (B, T, d) → (B, T, d). Adds no positions.

    With `cross=True` each block also reads a memory (B, S, d). With a cache, only tokens not seen before are passed:

        cache = decoder.cache()
        for x_t in tokens:  y_t = decoder(x_t, cache=cache)          # x_t: (B, 1, d); equals decoder(all of them)[:, t]

    Parameters
    ----------
    width, depth, heads : int
        d, the number of blocks, heads per block.
    hidden, dropout, cross
        As in `TransformerBlock`.
    """

    declares = ("causal",)  # `lemmata.certify` always checks it

    def __init__(
        self,
        width: int,
        depth: int,
        heads: int,
        hidden: int | None = None,
        dropout: float = 0.0,
        cross: bool = False,
    ) -> None:
        super().__init__()
        self.config = {
            "width": width, "depth": depth, "heads": heads, "hidden": hidden, "dropout": dropout,
            "cross": cross,
        }  # fmt: skip
        self.blocks = nn.ModuleList(
            TransformerBlock(width, heads, hidden, dropout, cross) for _ in range(depth)
        )
        self.norm = nn.LayerNorm(width)

    def cache(self) -> list[BlockCache]:
        """An empty memory of keys and values, for decoding token by token."""
        return [(KeyValues(), KeyValues()) for _ in self.blocks]

    def forward(
        self,
        x: Tensor,
        memory: Tensor | None = None,
        *,
        padding: Tensor | None = None,
        memory_padding: Tensor | None = None,
        cache: list[BlockCache] | None = None,
    ) -> Tensor:
        """Transform the tokens, each of which sees itself and earlier ones. `padding` covers those in the cache, too."""
        for i, block in enumerate(self.blocks):
            x = block(
                x,
                memory,
                padding=padding,
                causal=True,
                memory_padding=memory_padding,
                cache=None if cache is None else cache[i],
            )
        return self.norm(x)


class TokenEmbedding(nn.Module):
    """Token i is row e_i of E, times √d; the scores of a vector x for the next token are E x, with the same E (tied weights).

    Entries of E have variance 1/d, so that tokens and scores both start with variance about 1.
    """

    def __init__(self, n_tokens: int, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(n_tokens, width) / math.sqrt(width))

    def forward(self, tokens: Tensor) -> Tensor:  # (B, T) whole numbers
        """(B, T, d)."""
        if tokens.is_floating_point() or tokens.dtype == torch.bool:
            raise ValueError(f"tokens are {tokens.dtype}; pass whole numbers (torch.long).")
        return F.embedding(tokens, self.weight) * math.sqrt(self.weight.shape[1])

    def scores(self, x: Tensor) -> Tensor:  # (B, T, d)
        """Logits of the next token, (B, T, n_tokens)."""
        return F.linear(x, self.weight)


class ClassTokenHead(nn.Module):
    """A learned token in front of the others is read at the end: W z₀ + b."""

    def __init__(self, width: int, n_outputs: int) -> None:
        super().__init__()
        self.token = nn.Parameter(torch.randn(width) * 0.02)
        self.linear = nn.Linear(width, n_outputs)

    def prepare(self, x: Tensor, padding: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        """The tokens that go into the encoder, and their padding."""
        x = torch.cat([self.token.expand(len(x), 1, -1), x], dim=1)
        return x, padding if padding is None else F.pad(padding, (1, 0), value=True)

    def forward(self, x: Tensor, padding: Tensor | None = None) -> Tensor:
        """(B, n_outputs) from the outputs of the encoder, (B, 1 + T, d)."""
        return self.linear(x[:, 0])


class MeanHead(nn.Module):
    """The mean of the real tokens is read at the end: W z̄ + b."""

    def __init__(self, width: int, n_outputs: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width, n_outputs)

    def prepare(self, x: Tensor, padding: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        """The tokens that go into the encoder, and their padding."""
        return x, padding

    def forward(self, x: Tensor, padding: Tensor | None = None) -> Tensor:
        """(B, n_outputs) from the outputs of the encoder, (B, T, d)."""
        if padding is None:
            return self.linear(x.mean(dim=1))
        real = padding[:, :, None].to(x.dtype)
        return self.linear((x * real).sum(dim=1) / real.sum(dim=1).clamp_min(1))


HEADS: dict[str, type[ClassTokenHead] | type[MeanHead]] = {
    "class": ClassTokenHead,
    "mean": MeanHead,
}


class EncoderDecoder(nn.Module):
    """From one sequence of tokens to another: an encoder reads, a causal decoder writes.

    One table of embeddings serves all three ends (source, target, scores).
    The tokens 0, 1, 2 are PAD, START and END; 3, 4, … are yours.

    Parameters
    ----------
    n_tokens : int
        Size of the vocabulary, PAD, START and END included.
    width, depth, heads : int
        Of encoder and decoder.
    hidden, dropout
        As in `TransformerBlock`.
    max_length : int, default=64
        The longest sequence, END included.
    positions : {"learned", "sinusoidal"}, default="learned"
        Encoding of positions; source and target have their own if learned.
    encoder_depth : int, default=depth
        Blocks of the encoder, if it has another number of them; with 0 the decoder reads the tokens themselves.
    """

    def __init__(
        self,
        n_tokens: int,
        width: int = 64,
        depth: int = 2,
        heads: int = 4,
        hidden: int | None = None,
        dropout: float = 0.0,
        max_length: int = 64,
        positions: str = "learned",
        encoder_depth: int | None = None,
    ) -> None:
        super().__init__()
        if n_tokens <= END + 1:
            raise ValueError(
                f"n_tokens={n_tokens} leaves none beside PAD, START and END; pass >= 4."
            )
        self.config: dict[str, Any] = {
            "n_tokens": n_tokens, "width": width, "depth": depth, "heads": heads, "hidden": hidden,
            "dropout": dropout, "max_length": max_length, "positions": positions,
            "encoder_depth": encoder_depth,
        }  # fmt: skip
        self.embedding = TokenEmbedding(n_tokens, width)
        self.source_positions = positions_of(positions, max_length, width, std=1.0)
        self.target_positions = positions_of(positions, max_length, width, std=1.0)
        blocks = depth if encoder_depth is None else encoder_depth
        self.encoder = Encoder(width, blocks, heads, hidden, dropout)
        self.decoder = Decoder(width, depth, heads, hidden, dropout, cross=True)

    def encode(self, source: Tensor) -> tuple[Tensor, Tensor]:
        """Output of the encoder (B, S, d), and where there are tokens (B, S)."""
        real = self._check_tokens("source", source) != PAD
        return self.encoder(self.source_positions(self.embedding(source)), padding=real), real

    def forward(self, source: Tensor, written: Tensor) -> Tensor:
        """Scores (B, T, n_tokens) of the token that follows each of those written so far (B, T), START first."""
        memory, real = self.encode(source)
        x = self.target_positions(self.embedding(self._check_tokens("target", written)))
        return self.embedding.scores(self.decoder(x, memory, memory_padding=real))

    def loss(self, source: Tensor, target: Tensor) -> Terms:
        """Return −Σ_t log p(target_t | target_<t, source) of every row and its number of tokens, PAD left out. The mean is over
        tokens, however a batch is cut. Teacher forcing: the true earlier tokens are given, so that all places are trained
        at once."""
        start = torch.full_like(target[:, :1], START)
        scores = self(source, torch.cat([start, target[:, :-1]], dim=1))
        losses = F.cross_entropy(scores.mT, target, ignore_index=PAD, reduction="none")  # (B, T)
        return Terms(losses.sum(1), counts=(target != PAD).sum(1))

    @torch.no_grad()
    def greedy(self, source: Tensor, max_length: int | None = None, cache: bool = True) -> Tensor:
        """The likeliest token, then the next, until END or `max_length`: (B, ≤ max_length), PAD after END.

        cache : remember keys and values, or compute them again for every token (the same tokens, slower)

        A net with dropout has to be in evaluation mode (`net.eval()`).
        """
        longest = max_length or self.config["max_length"]
        memory, real = self.encode(source)
        written = torch.full_like(source[:, :1], START)
        kept = self.decoder.cache() if cache else None
        ended = torch.zeros(len(source), dtype=torch.bool, device=source.device)
        for t in range(longest):
            first = t if cache else 0
            x = self.target_positions(self.embedding(written[:, first:]), first)
            z = self.decoder(x, memory, memory_padding=real, cache=kept)[:, -1]
            token = self.embedding.scores(z).argmax(dim=-1).masked_fill(ended, PAD)
            written = torch.cat([written, token[:, None]], dim=1)
            ended = ended | (token == END)
            if ended.all():
                break
        return written[:, 1:]

    def _check_tokens(self, name: str, tokens: Tensor) -> Tensor:
        n = self.config["n_tokens"]
        if tokens.dim() != 2:
            raise ValueError(
                f"{name} has the shape {tuple(tokens.shape)}; pass (sequences, tokens)."
            )
        if tokens.numel() and not (int(tokens.min()) >= 0 and int(tokens.max()) < n):
            raise ValueError(
                f"{name} has tokens from {int(tokens.min())} to {int(tokens.max())}; this network knows 0 to {n - 1}."
            )
        return tokens
