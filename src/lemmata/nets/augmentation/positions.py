"""Augmentations that move pixels: shift, flip, rotation, crop and resize."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from lemmata.core.store import storable
from lemmata.nets.augmentation.draws import (
    check_batch,
    check_strength,
    draw_integers,
    per_image,
    uniform,
)


def shift_by(batch: Tensor, offsets: Sequence[Tensor], fill: float = 0.0) -> Tensor:
    """Image b moved by offsets[a][b] pixels along axis a: x'[i] = x[i − offset], and `fill` where that lies outside."""
    sides = batch.shape[2:]
    reach = [
        min(int(o.abs().max()), n) if len(o) else 0 for o, n in zip(offsets, sides, strict=True)
    ]
    padded = F.pad(batch, [r for r in reversed(reach) for _ in range(2)], value=fill)
    index = torch.zeros(len(batch), *(1,) * len(sides), dtype=torch.long, device=batch.device)
    for axis, (n, r, offset) in enumerate(zip(sides, reach, offsets, strict=True)):
        place = torch.arange(n, device=batch.device) + r - offset.clamp(-n, n)[:, None]  # (B, n)
        place = place.view(len(batch), *(n if a == axis else 1 for a in range(len(sides))))
        index = index * (n + 2 * r) + place
    index = index.flatten(1)[:, None].expand(-1, batch.shape[1], -1)  # (B, C, H·W)
    return padded.flatten(2).gather(2, index).view(batch.shape)


@storable
@dataclass(frozen=True)
class Shift:
    """Move each image by up to `pixels` in each direction; what enters is `fill`. For sequences: in time."""

    pixels: int = 2
    fill: float = 0.0

    def __post_init__(self):
        check_strength("pixels", self.pixels)

    def __call__(self, batch: Tensor, generator: Generator) -> Tensor:
        check_batch(batch, "Shift")
        if self.pixels == 0:
            return batch
        offsets = [
            draw_integers(batch, generator, -self.pixels, self.pixels) for _ in batch.shape[2:]
        ]
        return shift_by(batch, offsets, self.fill)


@storable
@dataclass(frozen=True)
class Flip:
    """Mirror each image with probability `probability`: left and right ("horizontal") or top and bottom ("vertical")."""

    probability: float = 0.5
    direction: str = "horizontal"

    def __post_init__(self):
        check_strength("probability", self.probability, most=1)
        if self.direction not in ("horizontal", "vertical"):
            raise ValueError(
                f"direction={self.direction!r}: pass 'horizontal' (left and right) or 'vertical'."
            )

    def __call__(self, batch: Tensor, generator: Generator) -> Tensor:
        check_batch(batch, "Flip", images=self.direction == "vertical")
        if self.probability == 0:
            return batch
        turned = uniform(batch, generator, 0, 1) < self.probability
        axis = -1 if self.direction == "horizontal" else -2
        return torch.where(per_image(turned, batch), batch.flip(axis), batch)


def sample_affine(batch: Tensor, maps: Tensor, fill: float = 0.0) -> Tensor:
    """x'(p) = x(M p + t), bilinear between pixels and `fill` outside.

    maps : (B, 2, 3), [M | t] for p = (column, row) in pixels measured from the centre of the image
    """
    height, width = batch.shape[2:]
    # grid_sample counts from −1 to 1 across the image: divide by half its sides
    half = maps.new_tensor([width / 2, height / 2])
    scaled = torch.cat([maps[:, :, :2] * half, maps[:, :, 2:]], dim=2) / half[:, None]
    grid = F.affine_grid(scaled, list(batch.shape), align_corners=False)
    if fill == 0:
        return F.grid_sample(batch, grid, align_corners=False)
    return F.grid_sample(batch - fill, grid, align_corners=False) + fill


def rotate_by(batch: Tensor, degrees: Tensor, fill: float = 0.0) -> Tensor:
    """Image b turned counter-clockwise by degrees[b] about its centre; corners that come from outside are `fill`."""
    angle = degrees.to(batch) * (math.pi / 180)
    # rows grow downwards: the pixel at p shows what was at R p, R a clockwise turn as the eye sees it
    cos, sin, zero = angle.cos(), angle.sin(), torch.zeros_like(angle)
    maps = torch.stack([cos, -sin, zero, sin, cos, zero], dim=1).view(-1, 2, 3)
    return sample_affine(batch, maps, fill)


@storable
@dataclass(frozen=True)
class Rotate:
    """Turn each image about its centre by up to ± `degrees`. A 6 turned by 180° is a 9: keep it small where that matters."""

    degrees: float = 10.0
    fill: float = 0.0

    def __post_init__(self):
        check_strength("degrees", self.degrees)

    def __call__(self, batch: Tensor, generator: Generator) -> Tensor:
        check_batch(batch, "Rotate", images=True)
        if self.degrees == 0:
            return batch
        return rotate_by(batch, uniform(batch, generator, -self.degrees, self.degrees), self.fill)


def turn_quarters(batch: Tensor, quarters: Tensor) -> Tensor:
    """Image b turned counter-clockwise by quarters[b] · 90°, exactly; images are square."""
    if batch.shape[2] != batch.shape[3]:
        sides = f"{batch.shape[2]} × {batch.shape[3]}"
        raise ValueError(f"a quarter turn needs square images, and these are {sides}; crop them.")
    turned = torch.stack([batch.rot90(k, (2, 3)) for k in range(4)])
    return turned[quarters % 4, torch.arange(len(batch), device=batch.device)]


@storable
@dataclass(frozen=True)
class QuarterTurn:
    """Turn each image by 90°, 180° or 270° with probability `probability`; at ¾ all four are equally likely."""

    probability: float = 0.75

    def __post_init__(self):
        check_strength("probability", self.probability, most=1)

    def __call__(self, batch: Tensor, generator: Generator) -> Tensor:
        check_batch(batch, "QuarterTurn", images=True)
        if self.probability == 0:
            return batch
        turned = uniform(batch, generator, 0, 1) < self.probability
        return turn_quarters(batch, draw_integers(batch, generator, 1, 3) * turned)


def crop_to(batch: Tensor, centres: Tensor, sides: Tensor) -> Tensor:
    """The window with this centre and these sides, stretched to the whole image, bilinear.

    centres : (B, 2), (column, row) from the image's centre, in shares of the image's sides
    sides : (B, 2), (width, height) of the window, in shares of the image's sides
    """
    flat = batch if batch.ndim == 4 else batch[:, :, None]
    height, width = flat.shape[2:]
    size = batch.new_tensor([width, height])
    maps = torch.cat(
        [torch.diag_embed(sides.to(batch)), (centres * size).to(batch)[:, :, None]], dim=2
    )
    return sample_affine(flat, maps).view(batch.shape)


@storable
@dataclass(frozen=True)
class CropResize:
    """Cut a random window out of each image and stretch it to the image's size.

    scale : the window's share of the area (of the length, for sequences), drawn between these
    ratio : width over height, in units of the image's own, drawn between these (evenly in its logarithm)
    """

    scale: tuple[float, float] = (0.6, 1.0)
    ratio: tuple[float, float] = (3 / 4, 4 / 3)

    def __post_init__(self):
        if not 0 < self.scale[0] <= self.scale[1] <= 1:
            raise ValueError(f"scale={self.scale}: pass shares of the area, 0 < low <= high <= 1.")
        if not 0 < self.ratio[0] <= self.ratio[1]:
            raise ValueError(f"ratio={self.ratio}: pass width over height, 0 < low <= high.")

    def __call__(self, batch: Tensor, generator: Generator) -> Tensor:
        check_batch(batch, "CropResize")
        if self.scale[0] == 1 and (self.ratio == (1, 1) or batch.ndim == 3):
            return batch
        area = uniform(batch, generator, *self.scale)
        if batch.ndim == 3:
            sides = torch.stack([area, torch.ones_like(area)], dim=1)
        else:
            stretch = uniform(batch, generator, *map(math.log, self.ratio)).exp()
            # a window wider than the image is cut to it: its area is then less than drawn
            sides = torch.stack([area * stretch, area / stretch], dim=1).sqrt().clamp(max=1)
        margin = (1 - sides) / 2
        centres = torch.stack([uniform(batch, generator, -1, 1) for _ in range(2)], dim=1) * margin
        return crop_to(batch, centres, sides)
