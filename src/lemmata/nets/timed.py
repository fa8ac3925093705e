"""Networks that know the time, and the class if there are any (ML "Diffusion: Implementation"): for denoisers.

    TimeAndClass        e = silu(MLP(waves of t) + embedding of the class), as UNet and TimedMLP take it
    AdaptiveGroupNorm   GN(h) ∘ (1 + S e) + B e          time and class by scale and shift, instead of adding W e to h
    TimedMLP            rows of a table, or codes, in and out

Waves of t are those of positions ("sinusoidal"), or random ones ("fourier"): sin 2πft and cos 2πft, f drawn from a normal.

    >>> net = TimedMLP((3,), width=16, n_classes=2)
    >>> net(torch.randn(5, 3), torch.tensor([0, 5, 500, 999, 7]), torch.tensor([0, 1, 1, 2, 2])).shape
    torch.Size([5, 3])
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lemmata.nets.attention.positions import sinusoidal

WAVES = ("sinusoidal", "fourier")
LONGEST = 1000.0  # times count steps up to here, roughly
ALONE = 8  # channels of a group at least, where a channel is one number
TURNS = 4.0  # deviation of random frequencies, in turns over LONGEST


def groups_of(channels: int, least: int = 1) -> int:
    """As many groups as possible, up to 8, of so many channels at least."""
    return next(g for g in (8, 4, 2, 1) if channels % g == 0 and (g == 1 or channels >= g * least))


class TimeAndClass(nn.Module):
    """(B, size): an embedding of times and classes.

    Parameters
    ----------
    width : int
        Waves, an even number.
    size : int
    n_classes : int, optional
        Label `n_classes` means "no class", as does labels=None: what guidance without a classifier trains on for some rows.
    time : {"sinusoidal", "fourier"}
    time_scale : float, default=1.0
        t is multiplied by it. Times count steps, 0 to about 1000: pass 1000 for times between 0 and 1.
    """

    frequencies: Tensor

    def __init__(
        self,
        width: int,
        size: int,
        n_classes: int | None = None,
        time: str = "sinusoidal",
        time_scale: float = 1.0,
    ) -> None:
        super().__init__()
        if width < 2 or width % 2:
            raise ValueError(f"width={width}: half of its time embedding are sines; pass an even one.")  # fmt: skip
        if time not in WAVES:
            raise ValueError(f"time={time!r}; pass 'sinusoidal' or 'fourier'.")
        self.width, self.waves, self.time_scale = width, time, time_scale
        if time == "fourier":
            self.register_buffer("frequencies", TURNS * torch.randn(width // 2))
        self.time = nn.Sequential(nn.Linear(width, size), nn.SiLU(), nn.Linear(size, size))
        self.classes = None if n_classes is None else nn.Embedding(n_classes + 1, size)

    def forward(self, x: Tensor, t: Tensor | float, labels: Tensor | None) -> Tensor:
        """The embedding for rows x, in their precision; t is (B,) or one number for all."""
        precise = torch.promote_types(x.dtype, torch.float32)
        times = torch.as_tensor(t, device=x.device).to(precise) * self.time_scale
        if times.dim() == 0:
            times = times.expand(len(x))
        if tuple(times.shape) != (len(x),):
            raise ValueError(
                f"t has the shape {tuple(times.shape)}; pass one time per row ({len(x)},), or a number."
            )
        e = self.time(self._waves(times).to(x.dtype))
        return F.silu(
            e if self.classes is None and labels is None else e + self._classes(x, labels)
        )

    def _waves(self, times: Tensor) -> Tensor:
        if self.waves == "sinusoidal":
            return sinusoidal(times, self.width)
        angles = 2 * math.pi / LONGEST * times[:, None] * self.frequencies.to(times)
        return torch.cat([angles.sin(), angles.cos()], dim=1)

    def _classes(self, x: Tensor, labels: Tensor | None) -> Tensor:
        if self.classes is None:
            raise ValueError("this network knows no classes; build it with n_classes=….")
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
        return self.classes(labels)


class AdaptiveGroupNorm(nn.Module):
    """GN(h) ∘ (1 + S e) + B e, of channels (B, C, …); S and B begin at 0. `least` channels form a group."""

    def __init__(self, channels: int, embedding: int, least: int = 1) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(groups_of(channels, least), channels, affine=False)
        self.tell = nn.Linear(embedding, 2 * channels)
        nn.init.zeros_(self.tell.weight)
        nn.init.zeros_(self.tell.bias)

    def forward(self, h: Tensor, e: Tensor) -> Tensor:
        scale, shift = self.tell(e).unflatten(1, (2, -1, *[1] * (h.dim() - 2))).unbind(1)
        return self.norm(h) * (1 + scale) + shift


class TimedMLP(nn.Module):
    """A residual perceptron of rows and times, with a linear path of its own.

        h_0 = W x,    h_{l+1} = h_l + W_2 silu(AGN(W_1 h_l, e)),    out = W_3 silu(AGN(h_L, e)) + V (G e ∘ h_0)

    The best denoiser of normal rows is linear with gains that depend on the time: the last term. It answers 0 before training.

    Parameters
    ----------
    input_shape : tuple
        Of one row; it is flattened.
    n_outputs : int, default=as many as inputs
    width : int, default=128
    n_blocks : int, default=3
    n_classes, time, time_scale
        As of `TimeAndClass`.
    """

    def __init__(
        self,
        input_shape: Sequence[int],
        n_outputs: int | None = None,
        width: int = 128,
        n_blocks: int = 3,
        n_classes: int | None = None,
        time: str = "fourier",
        time_scale: float = 1.0,
    ) -> None:
        super().__init__()
        self.config: dict[str, Any] = {
            "input_shape": tuple(input_shape), "n_outputs": n_outputs, "width": width, "n_blocks": n_blocks,
            "n_classes": n_classes, "time": time, "time_scale": time_scale,
        }  # fmt: skip
        d = math.prod(input_shape)
        self.embedding = TimeAndClass(width, width, n_classes, time, time_scale)
        self.first = nn.Linear(d, width)
        self.blocks = nn.ModuleList(TimedLayer(width) for _ in range(n_blocks))
        self.norm = AdaptiveGroupNorm(width, width, ALONE)
        self.last = nn.Linear(width, n_outputs or d)
        self.gains = nn.Linear(width, width)
        self.linear = nn.Linear(width, n_outputs or d, bias=False)
        for layer in (self.last, self.linear):
            nn.init.zeros_(layer.weight)
        nn.init.zeros_(self.last.bias)

    def forward(self, x: Tensor, t: Tensor | float, labels: Tensor | None = None) -> Tensor:
        """(B, n_outputs) from rows (B, …), times (B,) or one for all, and labels (B,)."""
        rows = x.flatten(1)
        e = self.embedding(rows, t, labels)
        h = start = self.first(rows)
        for block in self.blocks:
            h = block(h, e)
        return self.last(F.silu(self.norm(h, e))) + self.linear(self.gains(e) * start)


class TimedLayer(nn.Module):
    """h + W_2 silu(AGN(W_1 h, e))."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.before, self.norm = nn.Linear(width, width), AdaptiveGroupNorm(width, width, ALONE)
        self.after = nn.Linear(width, width)

    def forward(self, h: Tensor, e: Tensor) -> Tensor:
        return h + self.after(F.silu(self.norm(self.before(h), e)))
