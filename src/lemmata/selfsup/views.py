"""Two views of each image, x → (x⁺, x⁺⁺): what an encoder should not see the difference of (ML "SimCLR").

    images    crops, flips, brightness and contrast, blur, colours if there are any: `nets.augmentation.for_views`
    sounds    when it begins (± a tenth), how loud it is, a hiss, a gap (a twentieth)
    tables    numbers left out (set to 0), each with probability 0.3

or one augmentation of your own, drawn twice, or two: `views=(weak, strong)`, each a function of (batch, generator).

    >>> views = choose_views(None, (1, 8, 8))
    >>> a, b = views(torch.rand(4, 1, 8, 8), torch.Generator().manual_seed(0))
    >>> tuple(a.shape), bool((a != b).any())
    ((4, 1, 8, 8), True)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Generator, Tensor

from lemmata.core.files.encoding import storable
from lemmata.nets.augmentation import ColourJitter, Compose, CutOut, Noise, Shift, for_views

Augment = Callable[[Tensor, Generator], Tensor]


@storable
@dataclass(frozen=True)
class LeaveOut:
    """Set each number to 0 with this probability: a view of a row of a table, whose numbers should be centred."""

    share: float = 0.3

    def __post_init__(self):
        if not 0 <= self.share < 1:
            raise ValueError(f"share={self.share} of the numbers left out; pass one in [0, 1).")

    def __call__(self, batch: Tensor, generator: Generator) -> Tensor:
        kept = torch.rand(batch.shape, generator=generator, device=generator.device) >= self.share
        return batch * kept.to(batch)


@dataclass(frozen=True)
class Views:
    """Two augmentations, each with draws of its own."""

    first: Augment
    second: Augment

    def __call__(self, x: Tensor, generator: Generator) -> tuple[Tensor, Tensor]:
        """Two views of a batch; ValueError for one of another shape, or with numbers that are not finite."""
        with torch.no_grad():
            return _draw(self.first, x, generator), _draw(self.second, x, generator)


def _draw(augment: Augment, x: Tensor, generator: Generator) -> Tensor:
    found = augment(x, generator)
    if not isinstance(found, Tensor) or found.shape != x.shape:
        shape = tuple(found.shape) if isinstance(found, Tensor) else type(found).__name__
        made = f"{describe(augment)} makes {shape} of a batch of shape {tuple(x.shape)}"
        raise ValueError(f"views: {made}; a view has the shape of the batch.")
    if not torch.isfinite(found.sum()) and torch.isfinite(x).all():
        for step in getattr(augment, "steps", ()):  # which one, as far as new draws show it
            x = step(x, generator)
            if not torch.isfinite(x).all():
                augment = step
                break
        why = "gives numbers that are not finite, from finite ones"
        raise ValueError(f"views: {describe(augment)} {why}.")
    return found


def describe(augment: Any) -> str:
    return getattr(augment, "__name__", None) or str(augment)


def choose_views(views: Any, shape: tuple[int, ...]) -> Views:
    """The views of a parameter: None, an augmentation, or two.

    shape : of one input
    """
    if views is None:
        if len(shape) == 3:
            views = for_views(colour=shape[0] == 3)
        elif len(shape) == 2:
            tenth = shape[1] // 10
            views = Compose([Shift(tenth), ColourJitter(0.3, 0.0), Noise(0.005), CutOut(tenth // 2)])  # fmt: skip
        else:
            views = LeaveOut()
    pair = tuple(views) if isinstance(views, (tuple, list)) else (views, views)
    if len(pair) != 2 or not all(map(callable, pair)):
        accepted = "None, a function of (batch, generator) that is drawn twice, or two of them"
        raise ValueError(f"views={views!r}; pass {accepted}.")
    return Views(*pair)
