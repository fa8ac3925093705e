"""Attention (ML "Attention" to "Multi-Head Self-Attention"): each token gets a weighted average of the others.

    Attention(Q, K, V) = P V,     P = softmax(Q Kᵀ / √d_k + M)          rows of P are weights: ≥ 0, of sum 1

with queries Q: T × d_k, keys K: S × d_k, values V: S × d_v, and a mask M that is 0 where looking is allowed and −∞ where it
is not (or any bias). The products of random queries and keys have variance d_k; divided by √d_k they have variance 1 at any
width, and the softmax starts out soft. H heads do this side by side on slices of the token, and a matrix mixes what they found:

    Z = [Z₁ … Z_H] W_o,     Z_h = Attention(X W_q,h,  C W_k,h,  C W_v,h)

with C = X for self-attention and C = another sequence for cross-attention. Nothing here knows an order: permute the tokens
and the outputs are permuted alike. Order enters by positions (`lemmata.nets.attention.positions`) or by masks.

A token that may look at nothing gets 0 (a softmax over nothing has no value; PyTorch's kernel agrees).

    >>> import torch
    >>> layer = MultiHeadAttention(width=16, heads=4)
    >>> x = torch.randn(2, 5, 16)
    >>> layer(x, causal=True).shape, layer.weights(x, causal=True).shape
    (torch.Size([2, 5, 16]), torch.Size([2, 4, 5, 5]))
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def combine_masks(
    T: int,
    S: int,
    *,
    mask: Tensor | None = None,
    padding: Tensor | None = None,
    causal: bool = False,
    device: Any = None,
) -> Tensor | None:
    """One mask from three, that broadcasts to (B, heads, T, S): True (or a number to add) where a query may look at a key.

    mask : (T, S), (B, T, S) or (B, heads, T, S), bool or a bias that is added to the scores
    padding : (B, S) bool, True at real tokens
    causal : query i may look at keys up to its own place; with T < S the queries are the last T of the S places
    """
    joint = None
    if causal:
        joint = torch.ones(T, S, dtype=torch.bool, device=device).tril(S - T)
    if padding is not None:
        real = padding[:, None, None, :]
        joint = real if joint is None else joint & real
    if mask is None:
        return joint
    mask = mask[:, None] if mask.dim() == 3 else mask
    if joint is None:
        return mask
    if mask.dtype == torch.bool:
        return joint & mask
    return mask.masked_fill(~joint, -math.inf)


def attention_by_definition(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """P V and P by the formula: the slow, obvious twin of `F.scaled_dot_product_attention`, used for pictures."""
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])  # (…, T, S)
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf) if mask.dtype == torch.bool else scores + mask
    top = scores.amax(dim=-1, keepdim=True)  # e^(s − top): no overflow, the same quotient
    e = torch.exp(scores - top.clamp_min(torch.finfo(scores.dtype).min))
    P = e / e.sum(dim=-1, keepdim=True).clamp_min(torch.finfo(scores.dtype).tiny)  # 0/tiny = 0
    return P @ v, P


class KeyValues:
    """Cache of keys and values (B, heads, T, d) of earlier tokens, so that the next one costs one row and not all.

    Its buffers double when they are full. For decoding; no gradient flows through it.
    """

    def __init__(self) -> None:
        self.length = 0
        self._buffer: Tensor | None = None  # (2, B, heads, capacity, d)

    def append(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Remember more tokens; returns the keys and the values of all so far."""
        if k.requires_grad:
            raise RuntimeError("a cache holds no gradients; decode inside torch.no_grad().")
        (B, heads, T, d), old = k.shape, self._buffer
        end = self.length + T
        if old is not None and old.shape[1] != B:  # one sequence would be broadcast to all of them
            raise ValueError(
                f"the cache holds {old.shape[1]} sequences, the input {B}; start a new cache."
            )
        if old is None or end > old.shape[3]:
            self._buffer = k.new_empty(2, B, heads, max(end, 2 * self.length, 16), d)
            if old is not None:
                self._buffer[:, :, :, : self.length] = old[:, :, :, : self.length]
        assert self._buffer is not None
        self._buffer[0, :, :, self.length : end] = k
        self._buffer[1, :, :, self.length : end] = v
        self.length = end
        return self.all()

    def select(self, rows: Tensor) -> None:
        """Go on with these sequences, in this order; one may be there several times, as the beginnings of beams are."""
        if self._buffer is not None:
            self._buffer = self._buffer.index_select(1, rows)

    def all(self) -> tuple[Tensor, Tensor]:
        """Keys and values of the tokens so far."""
        assert self._buffer is not None
        k, v = self._buffer[:, :, :, : self.length]
        return k, v


class MultiHeadAttention(nn.Module):
    """Self- and cross-attention with H heads; the averaging is PyTorch's `F.scaled_dot_product_attention`.

    Parameters
    ----------
    width : int
        d, the width of tokens going in and coming out.
    heads : int
        H.
    head_width : int, default=width / heads
        d_k = d_v, the width of a head.
    dropout : float, default=0.0
        The share of weights set to 0 in training, the others being scaled up.
    bias : bool, default=True
        Whether the four linear maps have one.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        head_width: int | None = None,
        dropout: float = 0.0,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if heads < 1 or width < 1 or (head_width is None and width % heads):
            raise ValueError(
                f"heads={heads} do not share a width of {width} evenly; choose heads that divide it, or pass head_width."
            )
        if not 0 <= dropout < 1:
            raise ValueError(f"dropout={dropout} is not a share; pass 0 <= dropout < 1.")
        self.width, self.heads, self.dropout = width, heads, dropout
        self.head_width = head_width or width // heads
        inner = heads * self.head_width
        # W_q, W_k and W_v stand in one matrix: self-attention needs one product for the three of them
        self.project_in = nn.Linear(width, 3 * inner, bias=bias)
        self.project_out = nn.Linear(inner, width, bias=bias)

    def forward(
        self,
        x: Tensor,  # (B, T, d)
        context: Tensor | None = None,  # (B, S, d); x itself without
        *,
        mask: Tensor | None = None,
        padding: Tensor | None = None,
        causal: bool = False,
        cache: KeyValues | None = None,
    ) -> Tensor:
        """Z (B, T, d). Masks as in `combine_masks`; a cache remembers keys and values between calls."""
        q, k, v = self._queries_keys_values(x, context, cache)
        self._check_masks(q, k, mask, padding)
        T, S = q.shape[2], k.shape[2]
        plain = causal and mask is None and padding is None and T == S  # the kernel knows this mask
        last = causal and T == 1  # the last token sees all of them
        joint = None
        if not plain:
            joint = combine_masks(
                T, S, mask=mask, padding=padding, causal=causal and not last, device=x.device
            )
            if joint is not None and joint.dtype != torch.bool:
                joint = joint.to(q.dtype)  # under autocast the scores are not of the mask's type
        z = F.scaled_dot_product_attention(
            q, k, v, joint, self.dropout if self.training else 0.0, is_causal=plain
        )
        return self.project_out(z.transpose(1, 2).flatten(2))

    def by_definition(
        self,
        x: Tensor,
        context: Tensor | None = None,
        *,
        mask: Tensor | None = None,
        padding: Tensor | None = None,
        causal: bool = False,
    ) -> tuple[Tensor, Tensor]:
        """Z (B, T, d) and the weights P (B, heads, T, S), by the written-out formula, without dropout."""
        q, k, v = self._queries_keys_values(x, context, None)
        self._check_masks(q, k, mask, padding)
        T, S = q.shape[2], k.shape[2]
        joint = combine_masks(T, S, mask=mask, padding=padding, causal=causal, device=x.device)
        z, P = attention_by_definition(q, k, v, joint)
        return self.project_out(z.transpose(1, 2).flatten(2)), P

    def weights(self, x: Tensor, context: Tensor | None = None, **masks: Any) -> Tensor:
        """P (B, heads, T, S): the weight of key j for query i."""
        return self.by_definition(x, context, **masks)[1]

    def _queries_keys_values(
        self, x: Tensor, context: Tensor | None, cache: KeyValues | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Q, K and V, each (B, heads, T or S, d_k)."""
        self._check_tokens("x", x)
        if context is None:
            q, k, v = self._heads(self.project_in(x), 3)
            if cache is not None:
                k, v = cache.append(k, v)
            return q, k, v
        self._check_tokens("context", context)
        if len(context) != len(x):
            raise ValueError(f"x has {len(x)} sequences, context {len(context)}; pass as many.")
        inner = self.heads * self.head_width
        W, b = self.project_in.weight, self.project_in.bias
        (q,) = self._heads(F.linear(x, W[:inner], None if b is None else b[:inner]), 1)
        if cache is not None and cache.length:  # the context is the same for every token
            k, v = cache.all()
        else:
            k, v = self._heads(F.linear(context, W[inner:], None if b is None else b[inner:]), 2)
            if cache is not None:
                cache.append(k, v)
        return q, k, v

    def _heads(self, projected: Tensor, parts: int) -> tuple[Tensor, ...]:
        B, T, _ = projected.shape
        return (
            projected.view(B, T, parts, self.heads, self.head_width).permute(2, 0, 3, 1, 4).unbind()
        )

    def _check_tokens(self, name: str, x: Tensor) -> None:
        if x.dim() != 3 or x.shape[2] != self.width:
            raise ValueError(
                f"{name} has the shape {tuple(x.shape)}; attention takes (sequences, tokens, {self.width})."
            )

    def _check_masks(
        self, q: Tensor, k: Tensor, mask: Tensor | None, padding: Tensor | None
    ) -> None:
        (B, H, T, _), S = q.shape, k.shape[2]
        if padding is not None and (padding.dtype != torch.bool or tuple(padding.shape) != (B, S)):
            raise ValueError(
                f"padding is {padding.dtype} of shape {tuple(padding.shape)}; "
                f"pass bool of shape ({B}, {S}), True at real tokens."
            )
        if mask is None:
            return
        if mask.dtype != torch.bool and not mask.is_floating_point():
            raise ValueError(
                f"mask is {mask.dtype}; pass bool (True: may look) or floats that are added to scores."
            )
        if tuple(mask.shape) not in (accepted := ((T, S), (B, T, S), (B, 1, T, S), (B, H, T, S))):
            raise ValueError(
                f"mask has the shape {tuple(mask.shape)}; pass one of {', '.join(map(str, accepted))}."
            )


def attention_maps(net: nn.Module, *inputs: Any, **named: Any) -> dict[str, Tensor]:
    """The weights (B, heads, T, S) of every attention layer of a network on this input, by the name of the layer."""
    maps: dict[str, Tensor] = {}

    def listen(name: str):
        def hook(layer: nn.Module, args: Any, kwargs: Any) -> None:
            assert isinstance(layer, MultiHeadAttention)
            maps[name] = layer.weights(*args, **{k: a for k, a in kwargs.items() if k != "cache"})

        return hook

    hooks = [
        layer.register_forward_pre_hook(listen(name), with_kwargs=True)
        for name, layer in net.named_modules()
        if isinstance(layer, MultiHeadAttention)
    ]
    try:
        with torch.no_grad():
            net(*inputs, **named)
    finally:
        for handle in hooks:
            handle.remove()
    return maps
