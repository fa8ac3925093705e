"""Attention can be a convolution (ML "Vision Transformer Architecture" says that it could): the weights, written down.

A 3 × 3 convolution adds up nine shifted images, each through its own matrix:   y(p) = Σ_Δ K_Δ x(p + Δ) + b.
Nine heads do the same if head Δ looks at the pixel p + Δ and nowhere else, and W_o holds the K_Δ. Where a head
looks is up to its scores:

    s(p, r) = −α ‖r − (p + Δ)‖² = α (2 rᵀ(p + Δ) − ‖r‖²) + something that does not depend on r

and the part that counts is a product of a query (2α(p + Δ), −α), linear in (p, 1), and a key (r, ‖r‖²), linear in (r, ‖r‖²). So
pixels become tokens (x, p, ‖p‖², 1), a position encoding of four numbers, and ordinary multi-head attention does the rest.
A ring of zero pixels around the image stands for the padding.

A softmax is never quite at one place. On a grid the weight that strays is at most ε = (Σ_k e^(−αk²))² − 1 ≈ 4e^(−α), so that

    |attention − convolution|  ≤  2 ε  max|x|  Σ|K|         beside rounding:    α = 10: ε = 1.8e-4,   α = 40: 1.7e-17

    >>> import torch
    >>> _ = torch.manual_seed(0)
    >>> conv = torch.nn.Conv2d(2, 3, 3, padding=1, dtype=torch.float64)
    >>> x = torch.randn(1, 2, 6, 7, dtype=torch.float64)
    >>> bool((AttentionConvolution(conv)(x) - conv(x)).abs().max() < 1e-13)
    True
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lemmata.nets.attention.heads import MultiHeadAttention

PLACE = 4  # row, column, ‖p‖² and 1


def stray_weight(sharpness: float) -> float:
    """ε: the most that a head's weights can put elsewhere than on its pixel, on a grid of any size."""
    line = 2 * sum(math.exp(-sharpness * k * k) for k in range(1, 40))  # Σ_{k ≠ 0} e^(−αk²)
    return 2 * line + line * line


class AttentionConvolution(nn.Module):
    """Multi-head attention whose weights are set so that it is a given convolution with zero padding and stride 1.

    Parameters
    ----------
    conv : nn.Conv2d
        k × k with odd k, stride 1, padding k // 2, one group, no dilation. Its k² places become heads.
    sharpness : float, default=40.0
        α. The error is at most 2ε max|x| Σ|K| with ε = `stray_weight(sharpness)`, and rounding.
    """

    def __init__(self, conv: nn.Conv2d, sharpness: float = 40.0) -> None:
        super().__init__()
        k = _check_convolution(conv)
        self.ring, self.sharpness = k // 2, sharpness
        self.n_in, self.n_out = conv.in_channels, conv.out_channels
        width, head = max(self.n_in + PLACE, self.n_out), max(self.n_in, 3)
        attention = MultiHeadAttention(width, heads=k * k, head_width=head)
        self.attention = attention.to(conv.weight.device, conv.weight.dtype)
        with torch.no_grad():
            self._set_weights(conv, k)

    def _set_weights(self, conv: nn.Conv2d, k: int) -> None:
        """Queries 2α(p + Δ) and −α, keys r and ‖r‖², values x; W_o holds the kernel."""
        layer, n = self.attention, self.n_in
        for parameter in layer.parameters():
            parameter.zero_()
        row, column, square, one = range(n, n + PLACE)
        d = layer.head_width
        W_q, W_k, W_v = layer.project_in.weight.view(3, k * k, d, layer.width)
        a = self.sharpness * math.sqrt(d)  # attention divides by √d_k
        for h in range(k * k):
            down, right = h // k - k // 2, h % k - k // 2  # Δ
            W_q[h, 0, row], W_q[h, 0, one] = 2 * a, 2 * a * down
            W_q[h, 1, column], W_q[h, 1, one] = 2 * a, 2 * a * right
            W_q[h, 2, one] = -a
            W_k[h, 0, row] = W_k[h, 1, column] = W_k[h, 2, square] = 1
            W_v[h, :n, :n] = torch.eye(n)
            place = slice(h * d, h * d + n)
            layer.project_out.weight[: self.n_out, place] = conv.weight[:, :, h // k, h % k]
        if conv.bias is not None:
            layer.project_out.bias[: self.n_out] = conv.bias

    def tokens(self, x: Tensor) -> Tensor:
        """The pixels of images (B, C, H, W) with a ring of zeros around them, as tokens (x, p, ‖p‖², 1, 0 …)."""
        x = F.pad(x, [self.ring] * 4)
        B, _, H, W = x.shape
        rows = torch.arange(H, dtype=x.dtype, device=x.device) - H // 2  # small numbers round less
        columns = torch.arange(W, dtype=x.dtype, device=x.device) - W // 2
        p = torch.stack(torch.meshgrid(rows, columns, indexing="ij"))
        place = torch.cat([p, (p * p).sum(0, keepdim=True), torch.ones_like(p[:1])])
        tokens = torch.cat([x, place.expand(B, -1, -1, -1)], dim=1).flatten(2).transpose(1, 2)
        return F.pad(tokens, (0, self.attention.width - tokens.shape[2]))

    def forward(self, x: Tensor) -> Tensor:  # (B, C, H, W)
        """(B, n_out, H, W)."""
        B, _, H, W = x.shape
        ring = self.ring
        y = self.attention(self.tokens(x))[:, :, : self.n_out].transpose(1, 2)
        y = y.reshape(B, self.n_out, H + 2 * ring, W + 2 * ring)
        return y[:, :, ring : ring + H, ring : ring + W]

    def error_bound(self, x: Tensor) -> float:
        """2ε max|x| Σ|K| over the output channel where it is largest."""
        W = self.attention.project_out.weight.detach()[: self.n_out]
        return 2 * stray_weight(self.sharpness) * float(x.abs().max() * W.abs().sum(dim=1).max())


def _check_convolution(conv: nn.Conv2d) -> int:
    k = conv.kernel_size[0]
    square = conv.kernel_size == (k, k) and k % 2 == 1
    plain = conv.stride == (1, 1) and conv.dilation == (1, 1) and conv.groups == 1
    padded = conv.padding in ((k // 2, k // 2), "same") and conv.padding_mode == "zeros"
    if not (square and plain and padded):
        raise ValueError(
            f"{conv} cannot be written as attention here; pass a square kernel of odd size with stride 1, "
            "zero padding of half its size, one group and no dilation."
        )
    return k
