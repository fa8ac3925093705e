"""Parts of every augmentation: a checked batch, one draw per image, and ways to combine them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Generator, Tensor

from lemmata.core.store import storable


class Augmentation(Protocol):
    """A random transformation of a batch; each image its own draw."""

    def __call__(self, batch: Tensor, generator: Generator) -> Tensor: ...


def check_batch(batch: Tensor, what: str, images: bool = False) -> Tensor:
    """The batch, if it is one of floats in the layout that this module works on."""
    accepted = "(B, C, H, W)" if images else "(B, C, H, W) or (B, C, L)"
    if batch.ndim not in ((4,) if images else (3, 4)):
        raise ValueError(
            f"{what} works on {accepted}, and the batch has shape {tuple(batch.shape)}; give it a channel axis: batch[:, None]."
        )
    if not batch.is_floating_point():
        raise ValueError(
            f"{what} works on floats, and the batch is {batch.dtype}: batch.float() / 255."
        )
    return batch


def check_strength(name: str, value: float, most: float = float("inf")) -> None:
    """A parameter that has to be within 0 … most."""
    if not 0 <= value <= most:
        accepted = "a number >= 0" if most == float("inf") else f"a number within 0 … {most:g}"
        raise ValueError(f"{name}={value}: pass {accepted}; 0 changes nothing.")


def uniform(batch: Tensor, generator: Generator, low: float, high: float) -> Tensor:
    """One number per image, (B,), of the batch's type; drawn in float64, so that float32 and float64 see the same draws."""
    drawn = torch.rand(
        len(batch), generator=generator, device=generator.device, dtype=torch.float64
    )
    return (low + (high - low) * drawn).to(batch)


def per_image(values: Tensor, batch: Tensor) -> Tensor:
    """(B,) as (B, 1, 1, 1), or (B, 1, 1) for sequences."""
    return values.view(-1, *(1,) * (batch.ndim - 1))


def draw_integers(batch: Tensor, generator: Generator, low: int, high: int) -> Tensor:
    """Whole numbers low ≤ k ≤ high, one per image, (B,)."""
    drawn = torch.randint(
        low, high + 1, (len(batch),), generator=generator, device=generator.device
    )
    return drawn.to(batch.device)


@storable
@dataclass(frozen=True)
class Sometimes:
    """Another augmentation, on each image with this probability."""

    augmentation: Augmentation
    probability: float = 0.5

    def __post_init__(self):
        check_strength("probability", self.probability, most=1)

    def __call__(self, batch: Tensor, generator: Generator) -> Tensor:
        if self.probability == 0:
            return batch
        changed = uniform(batch, generator, 0, 1) < self.probability
        return torch.where(per_image(changed, batch), self.augmentation(batch, generator), batch)


@storable
@dataclass(frozen=True)
class Compose:
    """One after the other: Compose([Shift(2), Flip(0.5)]). `Compose()` changes nothing."""

    steps: Sequence[Augmentation] = ()

    def __post_init__(self):
        object.__setattr__(self, "steps", tuple(self.steps))

    def __call__(self, batch: Tensor, generator: Generator) -> Tensor:
        for step in self.steps:
            batch = step(batch, generator)
        return batch
