"""What a network says of an image before its head: the last channels, averaged over a grid of regions.

    e_rc = mean of channel c over region r,    r × r regions that share the grid of the last convolutions;   1: over all of it

The mean over everything (regions=1) is what a head reads, and forgets where something was; a few regions keep that. A grid that
does not divide evenly is cut as PyTorch's adaptive pooling does: regions overlap by at most one place.

    >>> from lemmata.nets import ConvNet
    >>> net = ConvNet((1, 28, 28), 10, widths=(8, 16))
    >>> net.embed(torch.zeros(5, 1, 28, 28), regions=3).shape, net.embedding_width(3)
    (torch.Size([5, 144]), 144)
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class WithHead:
    """A network of features and a head. A subclass has `feature_map(x)`, (B, C, …) on a grid, and the attribute `head`."""

    config: dict[str, Any]
    head: nn.Module

    def feature_map(self, x: Tensor) -> Tensor:
        raise TypeError(f"{type(self).__name__} does not define its feature map.")

    def embed(self, x: Tensor, regions: int = 3) -> Tensor:
        """(B, C·regions²): the mean of each channel in each region; of sequences (B, C·regions)."""
        found = self.feature_map(x)
        if not 1 <= regions <= min(found.shape[2:]):
            grid = " × ".join(map(str, found.shape[2:]))
            raise ValueError(
                f"regions={regions}, and the last features of {type(self).__name__} lie on a grid of {grid}: pass "
                f"regions from 1 to {min(found.shape[2:])}, larger images, or fewer stages."
            )
        if regions == 1:
            return found.flatten(2).mean(2)
        pool = F.adaptive_avg_pool1d if found.ndim == 3 else F.adaptive_avg_pool2d
        return pool(found, regions).flatten(1)

    def embedding_width(self, regions: int = 3) -> int:
        """The number of features that `embed` gives."""
        like = next(self.parameters())  # type: ignore[attr-defined]
        was = self.training  # type: ignore[attr-defined]
        with torch.no_grad():
            x = torch.zeros(1, *self.config["input_shape"], dtype=like.dtype, device=like.device)
            width = int(self.eval().embed(x, regions).shape[1])  # type: ignore[attr-defined]
        self.train(was)  # type: ignore[attr-defined]
        return width
