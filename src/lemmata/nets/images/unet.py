"""U-Net (ML "Diffusion: Implementation"; CIL Fig. 5.13) with time and class: an image in, an image of the same size out.

    H × W        c   ─ block ────────────────────────────── [skip] ───────────────────────────── block ─ out
    H/2 × W/2    2c            ↓ ─ block ──────────────── [skip] ──────────────── block ─ ↑
    H/4 × W/4    4c                      ↓ ─ block ─ attention ─ block ─ ↑

Halved on the way down, the image is seen from afar; the skips keep it sharp; on the way up the two are concatenated. A
block is residual and takes the time t of a diffusion (and a class) in between:

    h = conv(silu(GN(x))) + W e,      block(x) = x + conv(silu(GN(h))),      e = MLP(waves of t) (+ class), nets/timed.py

The last convolution starts at 0: before training the answer is 0, whatever t is.

    >>> import torch
    >>> net = UNet((1, 28, 28), width=16, n_classes=10)
    >>> net(torch.randn(3, 1, 28, 28), torch.tensor([0, 5, 999]), torch.tensor([7, 1, 10])).shape
    torch.Size([3, 1, 28, 28])
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lemmata.nets.attention.heads import MultiHeadAttention
from lemmata.nets.timed import AdaptiveGroupNorm, TimeAndClass, groups_of


class TimedBlock(nn.Module):
    """A residual block of two 3 × 3 convolutions that takes e; a 1 × 1 convolution on the skip where channels differ."""

    def __init__(
        self,
        channels: int,
        out: int,
        embedding: int,
        dropout: float = 0.0,
        adaptive: bool = False,
    ) -> None:
        super().__init__()
        self.norm1 = nn.GroupNorm(groups_of(channels), channels)
        self.conv1 = nn.Conv2d(channels, out, 3, padding=1)
        self.tell = None if adaptive else nn.Linear(embedding, out)
        self.norm2: nn.Module = nn.GroupNorm(groups_of(out), out)
        if adaptive:
            self.norm2 = AdaptiveGroupNorm(out, embedding)
        self.dropout = nn.Dropout(dropout) if dropout else nn.Identity()
        self.conv2 = nn.Conv2d(out, out, 3, padding=1)
        self.skip = nn.Conv2d(channels, out, 1) if channels != out else nn.Identity()

    def forward(self, x: Tensor, e: Tensor) -> Tensor:  # (B, channels, H, W), (B, embedding)
        """(B, out, H, W)."""
        h = self.conv1(F.silu(self.norm1(x)))
        h = (
            self.norm2(h, e)
            if self.tell is None
            else self.norm2(h + self.tell(e)[:, :, None, None])
        )
        return self.skip(x) + self.conv2(self.dropout(F.silu(h)))


class PixelAttention(nn.Module):
    """x + Attention(GN(x)) with the pixels as tokens; their number squared is the price, so it stands at the smallest size."""

    def __init__(self, channels: int, heads: int) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(groups_of(channels), channels)
        self.attention = MultiHeadAttention(channels, heads)

    def forward(self, x: Tensor) -> Tensor:  # (B, channels, H, W)
        """The same shape."""
        tokens = self.norm(x).flatten(2).transpose(1, 2)
        return x + self.attention(tokens).transpose(1, 2).unflatten(2, x.shape[2:])


class UNet(nn.Module):
    """A small U-Net that knows the time, and the class if there are any.

    Parameters
    ----------
    input_shape : (C, H, W)
        Of an image; H and W are multiples of 4. Images of other sizes are taken too, if theirs are.
    out_channels : int, default=C
        Channels of the answer.
    width : int, default=32
        c, channels at full size; 2c and 4c below.
    n_classes : int, default=None
        Number of classes, or None for a net without. Label `n_classes` means "no class", as does labels=None: what
        guidance without a classifier trains on for some of the images.
    heads : int, default=4
        Of the attention at the smallest size.
    dropout : float, default=0.0
        Inside the blocks.
    time_scale : float, default=1.0
        t is multiplied by it. Times count steps, 0 to about 1000: pass 1000 for times between 0 and 1.
    time : {"sinusoidal", "fourier"}, default="sinusoidal"
        Waves of the time: those of positions, or random ones.
    adaptive : bool, default=False
        Time and class scale and shift the second normalisation of a block, instead of being added before it.
    """

    def __init__(
        self,
        input_shape: tuple[int, ...],
        out_channels: int | None = None,
        width: int = 32,
        n_classes: int | None = None,
        heads: int = 4,
        dropout: float = 0.0,
        time_scale: float = 1.0,
        time: str = "sinusoidal",
        adaptive: bool = False,
    ) -> None:
        super().__init__()
        self.config: dict[str, Any] = {
            "input_shape": tuple(input_shape), "out_channels": out_channels, "width": width,
            "n_classes": n_classes, "heads": heads, "dropout": dropout, "time_scale": time_scale,
            "time": time, "adaptive": adaptive,
        }  # fmt: skip
        if len(input_shape) != 3:
            raise ValueError(
                f"input_shape={tuple(input_shape)}; a U-Net takes images (channels, height, width)."
            )
        _check_size(*input_shape[1:])
        self.channels, c, e = input_shape[0], width, 4 * width
        self.n_classes, self.width = n_classes, width
        self.embedding = TimeAndClass(width, e, n_classes, time, time_scale)
        self.first, options = nn.Conv2d(self.channels, c, 3, padding=1), (dropout, adaptive)
        self.down1 = TimedBlock(c, c, e, *options)
        self.down2 = TimedBlock(c, 2 * c, e, *options)
        self.middle1 = TimedBlock(2 * c, 4 * c, e, *options)
        self.attention = PixelAttention(4 * c, heads)
        self.middle2 = TimedBlock(4 * c, 4 * c, e, *options)
        self.up2 = TimedBlock(6 * c, 2 * c, e, *options)
        self.up1 = TimedBlock(3 * c, c, e, *options)
        self.norm = nn.GroupNorm(groups_of(c), c)
        self.last = nn.Conv2d(c, out_channels or self.channels, 3, padding=1)
        nn.init.zeros_(self.last.weight)
        assert self.last.bias is not None
        nn.init.zeros_(self.last.bias)

    def forward(self, x: Tensor, t: Tensor | float, labels: Tensor | None = None) -> Tensor:
        """(B, out_channels, H, W) from images (B, C, H, W), times (B,) or one for all, and labels (B,)."""
        if x.dim() != 4 or x.shape[1] != self.channels:
            raise ValueError(
                f"images have the shape {tuple(x.shape)}; this U-Net takes (images, {self.channels}, height, width)."
            )
        _check_size(*x.shape[2:])
        e = self.embedding(x, t, labels)  # (B, 4c)
        a = self.down1(self.first(x), e)  # (B, c, H, W)
        b = self.down2(F.avg_pool2d(a, 2), e)  # (B, 2c, H/2, W/2)
        h = self.middle1(F.avg_pool2d(b, 2), e)  # (B, 4c, H/4, W/4)
        h = self.middle2(self.attention(h), e)
        h = self.up2(torch.cat([F.interpolate(h, scale_factor=2.0), b], dim=1), e)
        h = self.up1(torch.cat([F.interpolate(h, scale_factor=2.0), a], dim=1), e)
        return self.last(F.silu(self.norm(h)))


def _check_size(height: int, width: int) -> None:
    if height % 4 or width % 4 or not height or not width:
        raise ValueError(
            f"images of {height} × {width} cannot be halved twice; "
            f"pad them to {max(4, -(-height // 4) * 4)} × {max(4, -(-width // 4) * 4)}, a multiple of 4."
        )
