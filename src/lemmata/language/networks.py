"""Networks of language models (ML "Transformers", "Language Models", "Self-supervised Learning").

    GPTNet       tokens → scores of the next token at every place:  E · Decoder(E[x] + positions),  one table E at both ends
    TextEncoder  tokens, segments → numbers of every token:         Encoder(E[x] + positions + segments)
    BERTNet      scores of the tokens that stand there:             E · g(TextEncoder) + b,  and whether b follows a, from [CLS]
    HeadNet      scores of a text, of each token, or of first and last tokens, by a linear map of what a TextEncoder gives

The notes print both matrices of a block's MLP as D × D; here they are D × 4D and 4D × D. A token of a decoder attends to
itself, too.

>>> import torch
>>> net = GPTNet(n_tokens=50, width=16, depth=1, heads=2, context=8)
>>> net(torch.zeros(3, 5, dtype=torch.long)).shape
torch.Size([3, 5, 50])
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lemmata.language.corruption import NOT_ASKED, mask_words
from lemmata.language.tokens import PAD
from lemmata.nets.attention.positions import positions as positions_of
from lemmata.nets.attention.transformer import (
    BlockCache,
    Decoder,
    Encoder,
    MeanHead,
    TokenEmbedding,
)
from lemmata.nets.training.losses import CrossEntropy, Terms

PLACES = 0.1  # deviation of learned positions; tokens have 1


def name_sizes(*sizes: Any, **others: Any) -> dict[str, Any]:
    """The arguments of a network, by which a file makes it again."""
    names = ("n_tokens", "width", "depth", "heads", "context", "dropout")
    return {**dict(zip(names, sizes, strict=True)), **others}


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
    drawn : int, default=0
        With k > 0 the loss is binary: of the next token and k drawn ones, is each the real one? 0: −ln softmax.
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
        drawn: int = 0,
    ) -> None:
        super().__init__()
        sizes = (n_tokens, width, depth, heads, context, dropout)
        self.config = name_sizes(*sizes, positions=positions, drawn=drawn)
        self.context, self.drawn = context, drawn
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

    def next_scores(self, tokens: Tensor, cache: list[BlockCache]) -> Tensor:
        """Scores (B, V) after one more token (B, 1) in each row: `forward` in evaluation mode, written out. Calls of modules
        cost five times what one token does."""
        x = self.positions(self.embedding(tokens), cache[0][0].length)
        blocks: Any = self.decoder.blocks
        for block, (own, _) in zip(blocks, cache, strict=True):
            attention, (up, _, down) = block.attention, block.mlp
            q, k, v = attention._heads(_linear(attention.project_in, _norm(block.norm_attention, x)), 3)  # fmt: skip
            z = F.scaled_dot_product_attention(q, *own.append(k, v)).transpose(1, 2).flatten(2)
            x = x + _linear(attention.project_out, z)
            x = x + _linear(down, F.gelu(_linear(up, _norm(block.norm_mlp, x))))
        return F.linear(_norm(self.decoder.norm, x)[:, -1], self.embedding.weight)

    def loss(self, x: Tensor, y: Tensor) -> Terms:
        """−ln P of the successors y of x, at all places at once (teacher forcing: the true earlier tokens are given)."""
        scores = self(x)
        if self.drawn:
            losses = tell_drawn(scores.flatten(0, 1), y.flatten(), self.drawn)
        else:
            losses = F.cross_entropy(scores.flatten(0, 1), y.flatten(), reduction="none")
        sums, counts = losses.view(y.shape).sum(1), (y != -100).sum(1)
        return Terms(sums, counts=counts)


def tell_drawn(scores: Tensor, y: Tensor, k: int) -> Tensor:
    """−ln σ(s_y − ln kq) − Σ_j ln σ(ln kq − s_j) over k tokens j drawn from q = 1/V; 0 where y is −100.

    The odds that a token is real are P(token)/(k q): the least loss has s = ln P, so that scores become log probabilities
    without a sum over the vocabulary (noise-contrastive estimation, Gutmann and Hyvärinen 2010).
    """
    V = scores.shape[1]
    j = torch.randint(V, (len(scores), k), device=scores.device)
    odds = math.log(k / V)
    real = F.softplus(odds - scores.gather(1, y.clamp_min(0)[:, None])[:, 0])
    return (real + F.softplus(scores.gather(1, j) - odds).sum(1)) * (y != -100)


def _linear(layer: Any, x: Tensor) -> Tensor:
    return F.linear(x, layer.weight, layer.bias)


def _norm(layer: Any, x: Tensor) -> Tensor:
    return F.layer_norm(x, layer.normalized_shape, layer.weight, layer.bias, layer.eps)


class TextEncoder(nn.Module):
    """The part that BERT and its heads share: tokens that have seen each other, (B, T) → (B, T, width)."""

    def __init__(
        self, n_tokens: int, width: int, depth: int, heads: int, context: int, dropout: float
    ) -> None:
        super().__init__()
        self.embedding = TokenEmbedding(n_tokens, width)
        self.positions = positions_of("learned", context, width, std=PLACES)
        self.segments = nn.Parameter(torch.randn(2, width) * PLACES)
        self.dropout = nn.Dropout(dropout) if dropout else nn.Identity()
        self.encoder = Encoder(width, depth, heads, dropout=dropout)

    def forward(
        self, tokens: Tensor, segments: Tensor | None = None, padding: Tensor | None = None
    ) -> Tensor:
        """Rows are padded at their ends; padding (B, T) is True at real tokens."""
        second = 0 if segments is None else segments
        x = self.positions(self.embedding(tokens)) + self.segments[second]
        return self.encoder(self.dropout(x), padding=padding)


def find_padding(tokens: Tensor) -> Tensor | None:
    """True at real tokens; None where there is nothing else: attention without a mask is faster."""
    real = tokens != PAD
    return None if bool(real.all()) else real


class BERTNet(nn.Module):
    """Scores of the tokens at every place, from all others.

    Parameters
    ----------
    n_tokens, width, depth, heads, context, dropout
        As in `GPTNet`.
    next_sentence : float, default=1.0
        How many words the question counts as, whether b follows a.
    """

    declares: ClassVar = {"batched": {"sides": ("right",)}}

    def __init__(
        self,
        n_tokens: int,
        width: int = 128,
        depth: int = 4,
        heads: int = 4,
        context: int = 128,
        dropout: float = 0.0,
        next_sentence: float = 1.0,
    ) -> None:
        super().__init__()
        sizes = (n_tokens, width, depth, heads, context, dropout)
        self.config = name_sizes(*sizes, next_sentence=next_sentence)
        self.context, self.n_tokens, self.next_sentence = context, n_tokens, next_sentence
        self.body = TextEncoder(*sizes)
        self.mix = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.LayerNorm(width))
        self.bias = nn.Parameter(torch.zeros(n_tokens))
        self.follows = nn.Linear(width, 1)

    def forward(
        self, tokens: Tensor, segments: Tensor | None = None, padding: Tensor | None = None
    ) -> Tensor:
        """(B, T, V)."""
        return self.word_scores(self.body(tokens, segments, padding))

    def word_scores(self, z: Tensor) -> Tensor:
        return self.body.embedding.scores(self.mix(z)) + self.bias

    def loss(self, tokens: Tensor, segments: Tensor, follows: Tensor) -> Terms:
        """−ln P of the words that were selected, and of whether b follows a; the mean is over both."""
        inputs, selected = mask_words(tokens, self.n_tokens)
        z = self.body(inputs, segments, find_padding(tokens))
        words = F.cross_entropy(self.word_scores(z[selected]), tokens[selected], reduction="none")
        rows = selected.nonzero()[:, 0]
        sums = torch.zeros_like(z[:, 0, 0]).index_add(0, rows, words.to(z.dtype))
        asked = (follows != NOT_ASKED).to(z.dtype) * self.next_sentence
        if self.next_sentence:
            said, given = self.follows(z[:, 0])[:, 0], follows.clamp_min(0).to(z.dtype)
            sums = sums + asked * F.binary_cross_entropy_with_logits(said, given, reduction="none")
        return Terms(sums, counts=selected.sum(1) + asked)


class HeadNet(nn.Module):
    """Scores by a linear map of the numbers of tokens.

    Parameters
    ----------
    n_tokens, width, depth, heads, context, dropout
        As in `GPTNet`.
    n_outputs : int
    reads : {"text", "tokens", "span"}
        What is scored: the text, by the mean of its tokens, (B, n_outputs); every token, (B, T, n_outputs); or, of two
        outputs, the first and the last token of a span among those of the second segment, (B, 2, T).
    """

    declares: ClassVar = {"batched": {"sides": ("right",)}}

    def __init__(
        self,
        n_tokens: int,
        width: int,
        depth: int,
        heads: int,
        context: int,
        dropout: float,
        n_outputs: int,
        reads: str = "text",
    ) -> None:
        super().__init__()
        sizes = (n_tokens, width, depth, heads, context, dropout)
        self.config = name_sizes(*sizes, n_outputs=n_outputs, reads=reads)
        self.context, self.reads = context, reads
        self.body = TextEncoder(*sizes)
        self.dropout = nn.Dropout(dropout) if dropout else nn.Identity()
        self.head = MeanHead(width, n_outputs) if reads == "text" else nn.Linear(width, n_outputs)

    def forward(
        self, tokens: Tensor, segments: Tensor | None = None, padding: Tensor | None = None
    ) -> Tensor:
        z = self.dropout(self.body(tokens, segments, padding))
        if self.reads == "text":
            return self.head(z, padding)
        scores = self.head(z)
        if self.reads == "tokens":
            return scores
        outside = torch.zeros_like(tokens, dtype=torch.bool) if segments is None else segments == 0
        return scores.masked_fill(outside[..., None], torch.finfo(scores.dtype).min).mT

    def loss(self, tokens: Tensor, segments: Tensor, y: Tensor) -> Any:
        """Cross-entropy of labels (B,), (B, T) or (B, 2); −100 counts not."""
        width = int((tokens != PAD).sum(1).max())  # the batch may be shorter than the longest row
        tokens, segments = tokens[:, :width], segments[:, :width]
        labels = y[:, :width] if self.reads == "tokens" else y
        return CrossEntropy()(self(tokens, segments, find_padding(tokens)), labels)
