"""Residual networks for small images (CIL 4.4.2, Fig. 4.7; ML "Residual Networks").

    y = (R(x) + P(x))₊        R: two convolutions; P: the identity, or a projection where sizes differ

A layer that has nothing to add leaves R at 0 and passes x on, and gradients reach every block through the sum, so depth does no
harm. Where a block halves the grid or changes the number of channels, P is a 1 × 1 convolution with the same stride.

    >>> net = ResNet((3, 32, 32), 10, widths=(16, 32, 64), blocks=3)       # 20 layers, He et al. 2016
    >>> sum(p.numel() for p in net.parameters())
    272474
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from lemmata.nets.images import convnets
from lemmata.nets.images.regions import WithHead


class ResidualBlock(nn.Module):
    """(R(x) + P(x))₊ with R = norm ∘ conv ∘ ReLU ∘ norm ∘ conv, 3 × 3; P projects where the sizes of x and R(x) differ.

    skip=False leaves P(x) out: the same layers as a plain stack, for comparison.
    """

    def __init__(
        self, channels: int, width: int, stride: int = 1, norm: bool = True, skip: bool = True
    ) -> None:
        super().__init__()
        first, second = (
            convnets.conv_block(channels, width, 3, stride, norm),
            convnets.conv_block(width, width, 3, 1, norm),
        )
        self.branch = nn.Sequential(first, second[:-1])
        self.skip = skip
        self.projection: nn.Module = nn.Identity()
        if skip and (stride != 1 or channels != width):
            self.projection = convnets.conv_block(channels, width, 1, stride, norm)[:-1]
        if norm and skip:
            last: Any = second[-2]
            nn.init.zeros_(last.weight)  # a new block is the identity, as far as it can be

    def forward(self, x: Tensor) -> Tensor:
        inner = self.branch(x)
        return F.relu(inner + self.projection(x) if self.skip else inner)


class ResNet(WithHead, nn.Module):
    """A residual network for images of about 28² or 32² pixels: a stem, stages of residual blocks, a mean, one linear map.

    Parameters
    ----------
    input_shape : tuple of int
        (channels, height, width).
    n_outputs : int
        Scores per image.
    widths : tuple of int, default=(32, 64, 128)
        Channels of each stage. Every stage but the first halves the grid.
    blocks : int or tuple of int, default=1
        Residual blocks in a stage, of two convolutions each.
    stem : {"full", "pool", "stride"}, default="full"
        What the first convolution leaves of the grid: all of it, or half of it by max-pooling or by a stride of 2, which makes
        everything after it four times cheaper.
    stem_kernel : int, default=3
        Window of the first convolution; odd.
    norm, skip : bool, default=True
        Batch normalisation, and the sums that make it residual; False for comparisons.
    dropout : float, default=0.0
        Share of the features that is dropped before the linear map in training.
    """

    def __init__(
        self,
        input_shape: Sequence[int],
        n_outputs: int,
        widths: Sequence[int] = (32, 64, 128),
        blocks: int | Sequence[int] = 1,
        stem: str = "full",
        stem_kernel: int = 3,
        norm: bool = True,
        skip: bool = True,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        shape, widths = convnets.check_image_shape(input_shape, type(self).__name__), tuple(widths)
        depths = (blocks,) * len(widths) if isinstance(blocks, int) else tuple(blocks)
        convnets.check_choice("stem", stem, ("full", "pool", "stride"))
        convnets.check_odd(stem_kernel=stem_kernel)
        if len(depths) != len(widths) or not widths or min(widths + depths) < 1:
            raise ValueError(
                f"widths={widths}, blocks={depths}: pass one or more widths, and as many numbers of blocks or one for all."
            )
        self.config: dict[str, Any] = {
            "input_shape": shape, "n_outputs": n_outputs, "widths": widths, "blocks": depths, "stem": stem,
            "stem_kernel": stem_kernel, "norm": norm, "skip": skip, "dropout": dropout,
        }  # fmt: skip
        first = convnets.conv_block(
            shape[0], widths[0], stem_kernel, 2 if stem == "stride" else 1, norm
        )
        self.stem = nn.Sequential(*first, *([nn.MaxPool2d(2)] if stem == "pool" else []))
        stages, channels = [], widths[0]
        for stage, (width, depth) in enumerate(zip(widths, depths, strict=True)):
            parts = []
            for i in range(depth):
                stride = 2 if stage > 0 and i == 0 else 1
                parts.append(ResidualBlock(channels, width, stride, norm, skip))
                channels = width
            stages.append(nn.Sequential(*parts))
        self.stages = nn.Sequential(*stages)
        self.head = convnets.mean_head(channels, n_outputs, dropout)

    def feature_map(self, x: Tensor) -> Tensor:
        return self.stages(self.stem(convnets.check_batch(x, self.config["input_shape"])))

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.feature_map(x))
