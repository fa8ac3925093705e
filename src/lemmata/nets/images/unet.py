"""U-Net (ML "Diffusion: Implementation"; CIL Fig. 5.13) with time and class: an image in, an image of the same size out.

    H × W        c   ─ block ────────────────────────────── [skip] ───────────────────────────── block ─ out
    H/2 × W/2    2c            ↓ ─ block ──────────────── [skip] ──────────────── block ─ ↑
    H/4 × W/4    4c                      ↓ ─ block ─ attention ─ block ─ ↑

Halved on the way down, the image is seen from afar; the skips keep it sharp; on the way up the two are concatenated. A
block is residual and takes the time t of a diffusion (and a class) in between:

    h = conv(silu(GN(x))) + W e,      block(x) = x + conv(silu(GN(h))),      e = MLP(sinusoidal(t)) (+ class)

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
from lemmata.nets.attention.positions import sinusoidal


def _groups(channels: int) -> int:
    """As many groups as possible, up to 8."""
    return next(g for g in (8, 4, 2, 1) if channels % g == 0)


class TimedBlock(nn.Module):
    """A residual block of two 3 × 3 convolutions that takes e; a 1 × 1 convolution on the skip where channels differ."""

    def __init__(self, channels: int, out: int, embedding: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.norm1 = nn.GroupNorm(_groups(channels), channels)
        self.conv1 = nn.Conv2d(channels, out, 3, padding=1)
        self.tell = nn.Linear(embedding, out)
        self.norm2 = nn.GroupNorm(_groups(out), out)
        self.dropout = nn.Dropout(dropout) if dropout else nn.Identity()
        self.conv2 = nn.Conv2d(out, out, 3, padding=1)
        self.skip = nn.Conv2d(channels, out, 1) if channels != out else nn.Identity()

    def forward(self, x: Tensor, e: Tensor) -> Tensor:  # (B, channels, H, W), (B, embedding)
        """(B, out, H, W)."""
        h = self.conv1(F.silu(self.norm1(x))) + self.tell(e)[:, :, None, None]
        return self.skip(x) + self.conv2(self.dropout(F.silu(self.norm2(h))))


class PixelAttention(nn.Module):
    """x + Attention(GN(x)) with the pixels as tokens; their number squared is the price, so it stands at the smallest size."""

    def __init__(self, channels: int, heads: int) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(_groups(channels), channels)
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
    ) -> None:
        super().__init__()
        self.config: dict[str, Any] = {
            "input_shape": tuple(input_shape), "out_channels": out_channels, "width": width,
            "n_classes": n_classes, "heads": heads, "dropout": dropout, "time_scale": time_scale,
        }  # fmt: skip
        if len(input_shape) != 3:
            raise ValueError(
                f"input_shape={tuple(input_shape)}; a U-Net takes images (channels, height, width)."
            )
        if width < 2 or width % 2:
            raise ValueError(
                f"width={width}: half of its time embedding are sines; pass an even one."
            )
        _check_size(*input_shape[1:])
        self.channels, c, e = input_shape[0], width, 4 * width
        self.n_classes, self.time_scale, self.width = n_classes, time_scale, width
        self.time = nn.Sequential(nn.Linear(width, e), nn.SiLU(), nn.Linear(e, e))
        self.classes = None if n_classes is None else nn.Embedding(n_classes + 1, e)
        self.first = nn.Conv2d(self.channels, c, 3, padding=1)
        self.down1 = TimedBlock(c, c, e, dropout)
        self.down2 = TimedBlock(c, 2 * c, e, dropout)
        self.middle1 = TimedBlock(2 * c, 4 * c, e, dropout)
        self.attention = PixelAttention(4 * c, heads)
        self.middle2 = TimedBlock(4 * c, 4 * c, e, dropout)
        self.up2 = TimedBlock(6 * c, 2 * c, e, dropout)
        self.up1 = TimedBlock(3 * c, c, e, dropout)
        self.norm = nn.GroupNorm(_groups(c), c)
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
        e = self._embedding(x, t, labels)
        a = self.down1(self.first(x), e)  # (B, c, H, W)
        b = self.down2(F.avg_pool2d(a, 2), e)  # (B, 2c, H/2, W/2)
        h = self.middle1(F.avg_pool2d(b, 2), e)  # (B, 4c, H/4, W/4)
        h = self.middle2(self.attention(h), e)
        h = self.up2(torch.cat([F.interpolate(h, scale_factor=2.0), b], dim=1), e)
        h = self.up1(torch.cat([F.interpolate(h, scale_factor=2.0), a], dim=1), e)
        return self.last(F.silu(self.norm(h)))

    def _embedding(self, x: Tensor, t: Tensor | float, labels: Tensor | None) -> Tensor:
        """e (B, 4c), the embedding of time and class."""
        precise = torch.promote_types(x.dtype, torch.float32)
        times = torch.as_tensor(t, device=x.device).to(precise) * self.time_scale
        if times.dim() == 0:
            times = times.expand(len(x))
        if tuple(times.shape) != (len(x),):
            raise ValueError(
                f"t has the shape {tuple(times.shape)}; pass one time per image ({len(x)},), or a number."
            )
        e = self.time(sinusoidal(times, self.width).to(x.dtype))
        if self.classes is None:
            if labels is not None:
                raise ValueError("this U-Net knows no classes; build it with n_classes=….")
            return F.silu(e)
        n = self.classes.num_embeddings - 1
        if labels is None:
            labels = torch.full((len(x),), n, device=x.device)
        if tuple(labels.shape) != (len(x),) or labels.is_floating_point():
            raise ValueError(
                f"labels are {labels.dtype} of shape {tuple(labels.shape)}; pass whole numbers of shape ({len(x)},)."
            )
        if len(labels) and not (int(labels.min()) >= 0 and int(labels.max()) <= n):
            raise ValueError(
                f"labels go from {int(labels.min())} to {int(labels.max())}; pass 0 to {n - 1}, or {n} for no class."
            )
        return F.silu(e + self.classes(labels))


def _check_size(height: int, width: int) -> None:
    if height % 4 or width % 4 or not height or not width:
        raise ValueError(
            f"images of {height} × {width} cannot be halved twice; "
            f"pad them to {max(4, -(-height // 4) * 4)} × {max(4, -(-width // 4) * 4)}, a multiple of 4."
        )
