"""Augmentations that change values: cut-out, noise, blur, edges, brightness and colour."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from lemmata.core.store import storable
from lemmata.nets.augmentation import draws

GREY = (0.299, 0.587, 0.114)  # luminance of red, green and blue (ITU-R BT.601)


def cut_out_at(batch: Tensor, starts: Sequence[Tensor], size: int, fill: float = 0.0) -> Tensor:
    """Image b with the square [starts[a][b], starts[a][b] + size) of every axis a replaced by `fill`."""
    inside = torch.ones((), dtype=torch.bool, device=batch.device)
    for axis, (n, start) in enumerate(zip(batch.shape[2:], starts, strict=True), 2):
        place = torch.arange(n, device=batch.device).view(-1, *(1,) * (batch.ndim - axis - 1))
        start = draws.per_image(start, batch)
        inside = inside & (place >= start) & (place < start + size)
    return batch.masked_fill(inside, fill)


@storable
@dataclass(frozen=True)
class CutOut:
    """Blank a square of `size` pixels in each image (DeVries & Taylor 2017).

    The square always lies inside, so exactly size² pixels are blanked; in the paper it may hang over the edge.
    """

    size: int = 8
    fill: float = 0.0

    def __post_init__(self):
        draws.check_strength("size", self.size)

    def __call__(self, batch: Tensor, generator: Generator) -> Tensor:
        draws.check_batch(batch, "CutOut")
        if self.size == 0:
            return batch
        if self.size > min(batch.shape[2:]):
            raise ValueError(
                f"CutOut({self.size}) is larger than images of {tuple(batch.shape[2:])}; pass size <= {min(batch.shape[2:])}."
            )
        starts = [draws.draw_integers(batch, generator, 0, n - self.size) for n in batch.shape[2:]]
        return cut_out_at(batch, starts, self.size, self.fill)


@storable
@dataclass(frozen=True)
class Noise:
    """Add independent normal noise of this standard deviation to every pixel."""

    deviation: float = 0.05

    def __post_init__(self):
        draws.check_strength("deviation", self.deviation)

    def __call__(self, batch: Tensor, generator: Generator) -> Tensor:
        draws.check_batch(batch, "Noise")
        if self.deviation == 0:
            return batch
        drawn = torch.randn(
            batch.shape, generator=generator, device=generator.device, dtype=batch.dtype
        )
        return torch.add(batch, drawn.to(batch.device), alpha=self.deviation)


def blur_by(batch: Tensor, deviations: Tensor, radius: int) -> Tensor:
    """Image b convolved along every axis with normal weights of deviations[b] pixels, cut off at `radius`.

    The weights add up to 1 and the border is repeated outwards, so a constant image stays as it is.
    """
    taps = torch.arange(-radius, radius + 1, device=batch.device).to(batch)
    # below 1e-3 pixels all weights but the middle one underflow: no blur
    weights = torch.exp(-0.5 * (taps / deviations.to(batch).clamp(min=1e-3)[:, None]) ** 2)
    weights = weights / weights.sum(dim=1, keepdim=True)  # (B, 2r + 1)
    for axis in range(2, batch.ndim):
        sides = [0] * (2 * (batch.ndim - 2))
        position = 2 * (batch.ndim - 1 - axis)
        sides[position : position + 2] = [radius, radius]
        padded, n = F.pad(batch, sides, mode="replicate"), batch.shape[axis]
        pieces = (padded.narrow(axis, k, n) for k in range(2 * radius + 1))
        batch = sum(  # type: ignore[assignment]
            draws.per_image(w, padded) * piece for w, piece in zip(weights.T, pieces, strict=True)
        )
    return batch


@storable
@dataclass(frozen=True)
class Blur:
    """Blur each image by a normal kernel whose deviation, in pixels, is drawn between these."""

    deviation: tuple[float, float] = (0.1, 1.0)

    def __post_init__(self):
        if not 0 <= self.deviation[0] <= self.deviation[1]:
            raise ValueError(f"deviation={self.deviation}: pass pixels, 0 <= low <= high.")

    def __call__(self, batch: Tensor, generator: Generator) -> Tensor:
        draws.check_batch(batch, "Blur")
        if self.deviation[1] == 0:
            return batch
        radius = math.ceil(3 * self.deviation[1])  # 99.7 % of the weight
        return blur_by(batch, draws.uniform(batch, generator, *self.deviation), radius)


def to_grey(batch: Tensor) -> Tensor:
    """(B, 1, H, W): the luminance of colour images; one channel is grey already."""
    if batch.shape[1] == 1:
        return batch
    return (batch * batch.new_tensor(GREY)[:, None, None]).sum(dim=1, keepdim=True)


def find_edges(batch: Tensor) -> Tensor:
    """√(g_x² + g_y²) of each channel: Sobel's slopes, central differences averaged 1 : 2 : 1 across; borders repeat."""
    padded = F.pad(batch, [1, 1, 1, 1], mode="replicate")
    across = padded[..., 2:] - padded[..., :-2]
    down = padded[:, :, 2:] - padded[:, :, :-2]
    slopes = (
        across[:, :, :-2] + 2 * across[:, :, 1:-1] + across[:, :, 2:],
        down[..., :-2] + 2 * down[..., 1:-1] + down[..., 2:],
    )
    return torch.linalg.vector_norm(torch.stack(slopes), dim=0) / 8  # a norm has slope 0 at 0


@storable
@dataclass(frozen=True)
class Sobel:
    """Show the edges of each image instead of it, with probability `probability`."""

    probability: float = 0.2

    def __post_init__(self):
        draws.check_strength("probability", self.probability, most=1)

    def __call__(self, batch: Tensor, generator: Generator) -> Tensor:
        draws.check_batch(batch, "Sobel", images=True)
        return draws.Sometimes(lambda x, _: find_edges(x), self.probability)(batch, generator)


@storable
@dataclass(frozen=True)
class ColourDrop:
    """Make each image grey, three equal channels of its luminance, with probability `probability`."""

    probability: float = 0.2

    def __post_init__(self):
        draws.check_strength("probability", self.probability, most=1)

    def __call__(self, batch: Tensor, generator: Generator) -> Tensor:
        draws.check_batch(batch, "ColourDrop", images=True)
        if batch.shape[1] not in (1, 3):
            shape = tuple(batch.shape)
            raise ValueError(f"ColourDrop needs images with 3 channels, and the batch has shape {shape}.")  # fmt: skip
        drop = draws.Sometimes(lambda x, _: to_grey(x).expand_as(x), self.probability)
        return drop(batch, generator)


def turn_hue(batch: Tensor, turns: Tensor) -> Tensor:
    """Colours turned about the grey axis by this share of a circle (Rodrigues' formula; red becomes green at ⅓)."""
    angle = 2 * math.pi * turns.to(batch)
    axis = batch.new_tensor([1.0, 1.0, 1.0]) / math.sqrt(3)
    cross = batch.new_tensor([[0, -1, 1], [1, 0, -1], [-1, 1, 0]]) / math.sqrt(3)
    eye, outer = torch.eye(3).to(batch), torch.outer(axis, axis)
    cos, sin = angle.cos()[:, None, None], angle.sin()[:, None, None]
    return torch.einsum("bij,bjhw->bihw", cos * (eye - outer) + sin * cross + outer, batch)


@storable
@dataclass(frozen=True)
class ColourJitter:
    """Change brightness, contrast, saturation and hue of each image, in this order. Values are not cut to a range.

    brightness : x ← a x                          a within 1 ± brightness; for sequences, the volume
    contrast   : x ← mean + a (x − mean)          the mean grey of the image
    saturation : x ← grey + a (x − grey)          pixel by pixel; three channels (grey images have none to change)
    hue        : turn the colours about grey      by ± hue of a circle; three channels
    """

    brightness: float = 0.2
    contrast: float = 0.2
    saturation: float = 0.0
    hue: float = 0.0

    def __post_init__(self):
        for name in ("brightness", "contrast", "saturation", "hue"):
            draws.check_strength(name, getattr(self, name), most=0.5 if name == "hue" else 1)

    def __call__(self, batch: Tensor, generator: Generator) -> Tensor:
        draws.check_batch(batch, "ColourJitter")
        colours = batch.shape[1]
        if (self.saturation or self.hue) and (colours not in (1, 3) or batch.ndim == 3):
            raise ValueError(
                f"saturation and hue need images with 3 channels (red, green, blue), and the batch has shape "
                f"{tuple(batch.shape)}; set both to 0."
            )

        def draw(strength: float) -> Tensor:
            return draws.per_image(
                draws.uniform(batch, generator, 1 - strength, 1 + strength), batch
            )

        if self.brightness:
            batch = batch * draw(self.brightness)
        if self.contrast:
            grey = to_grey(batch) if colours == 3 and batch.ndim == 4 else batch
            mean = grey.mean(dim=tuple(range(1, batch.ndim)), keepdim=True)
            batch = torch.lerp(mean, batch, draw(self.contrast))
        if self.saturation and colours == 3:
            batch = torch.lerp(to_grey(batch), batch, draw(self.saturation))
        if self.hue and colours == 3:
            batch = turn_hue(batch, draws.uniform(batch, generator, -self.hue, self.hue))
        return batch
