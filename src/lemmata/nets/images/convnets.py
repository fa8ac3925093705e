"""Convolutional networks: ConvNet, and nets built like AlexNet and VGG (CIL 4.4.2; ML "Convolutional Networks").

    z_i = (Σ_j θ_ij ⋆ x_j + b_i)₊        a layer (4.49): k filters over n channels, k·n·|window| weights at every place

A pyramid: with depth, less resolution, more channels, and one linear map at the end. Between the stages the grid is halved, by
the largest or the mean of 2 × 2 values or by a stride of 2.

    >>> net = ConvNet((1, 28, 28), 10, widths=(16, 32, 64))
    >>> sum(p.numel() for p in net.parameters())
    24058

All are plain modules, `Net(input_shape, n_outputs, …)`, from (B, channels, height, width) to (B, n_outputs); `net.config` holds
what builds the same net again. Batch normalisation stands before the ReLU, and makes a bias before it useless.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn

from lemmata.nets.images.parts import (
    MeanOverPositions,
    check_batch,
    check_choice,
    check_image_shape,
    check_odd,
    check_stages,
    conv_block,
    wide_head,
)

POOLINGS = ("max", "mean", "stride")


class ConvNet(nn.Module):
    """A small convolutional network: stages of 3 × 3 convolutions, a mean over positions, one linear map.

    Parameters
    ----------
    input_shape : tuple of int
        (channels, height, width) of an image.
    n_outputs : int
        Scores per image: classes, or numbers to predict.
    widths : tuple of int, default=(16, 32, 64)
        Channels of each stage; a stage halves the grid.
    convs : int or tuple of int, default=1
        Convolutions in a stage.
    pool : {"max", "mean", "stride"}, default="max"
        How a stage halves the grid: by pooling after its convolutions, or by a stride of 2 in the first of them, which costs a
        quarter of the time.
    kernel_size, stem_kernel : int, default=3
        Windows of all convolutions and of the very first one; odd.
    norm : bool, default=True
        Batch normalisation after each convolution.
    dropout : float, default=0.0
        Share of the features that is dropped before the linear map in training.
    """

    def __init__(
        self,
        input_shape: Sequence[int],
        n_outputs: int,
        widths: Sequence[int] = (16, 32, 64),
        convs: int | Sequence[int] = 1,
        pool: str = "max",
        kernel_size: int = 3,
        stem_kernel: int = 3,
        norm: bool = True,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        shape, widths = check_image_shape(input_shape, type(self).__name__), tuple(widths)
        depths = (convs,) * len(widths) if isinstance(convs, int) else tuple(convs)
        check_choice("pool", pool, POOLINGS)
        check_stages(shape, widths, depths)
        check_odd(kernel_size=kernel_size, stem_kernel=stem_kernel)
        self.config: dict[str, Any] = {
            "input_shape": shape, "n_outputs": n_outputs, "widths": widths, "convs": depths, "pool": pool,
            "kernel_size": kernel_size, "stem_kernel": stem_kernel, "norm": norm, "dropout": dropout,
        }  # fmt: skip
        stages, channels, kernel = [], shape[0], stem_kernel
        for width, depth in zip(widths, depths, strict=True):
            layers: list[nn.Module] = []
            for i in range(depth):
                stride = 2 if pool == "stride" and i == 0 else 1
                layers.append(conv_block(channels, width, kernel, stride, norm))
                channels, kernel = width, kernel_size
            if pool != "stride":
                layers.append(nn.MaxPool2d(2) if pool == "max" else nn.AvgPool2d(2))
            stages.append(nn.Sequential(*layers))
        self.features = nn.Sequential(*stages)
        self.head = nn.Sequential(
            MeanOverPositions(), nn.Dropout(dropout), nn.Linear(channels, n_outputs)
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.features(check_batch(x, self.config["input_shape"])))


class AlexNet(nn.Module):
    """Five convolutions, overlapping max-pooling, two wide layers with dropout: Krizhevsky et al. 2012 (CIL Fig. 4.6).

    At 3 × 224 × 224 with width=64 and hidden=4096 it is the net of that name in torchvision, with the same 61,100,840 weights.
    The first window is 11 with a stride of 4 on images of 128 pixels or more and 5 with a stride of 1 on smaller ones.

    Parameters
    ----------
    input_shape, n_outputs
        As of ConvNet; images of at least 15 × 15.
    width : int, default=32
        w: the convolutions have w, 3w, 6w, 4w and 4w filters.
    hidden : int, default=512
        Units of the two wide layers.
    dropout : float, default=0.5
        Share of their inputs that is dropped in training.
    norm : bool, default=False
        Batch normalisation after each convolution (not in the original).
    """

    def __init__(
        self,
        input_shape: Sequence[int],
        n_outputs: int,
        width: int = 32,
        hidden: int = 512,
        dropout: float = 0.5,
        norm: bool = False,
    ) -> None:
        super().__init__()
        shape = check_image_shape(input_shape, type(self).__name__, least=15)
        self.config: dict[str, Any] = {
            "input_shape": shape, "n_outputs": n_outputs, "width": width, "hidden": hidden, "dropout": dropout, "norm": norm,
        }  # fmt: skip
        stem, w = (11, 4, 2) if min(shape[1:]) >= 128 else (5, 1, 2), width
        self.features = nn.Sequential(
            conv_block(shape[0], w, stem[0], stem[1], norm, padding=stem[2]),
            nn.MaxPool2d(3, 2),
            conv_block(w, 3 * w, 5, norm=norm),
            nn.MaxPool2d(3, 2),
            conv_block(3 * w, 6 * w, 3, norm=norm),
            conv_block(6 * w, 4 * w, 3, norm=norm),
            conv_block(4 * w, 4 * w, 3, norm=norm),
            nn.MaxPool2d(3, 2),
        )
        self.head = wide_head(
            self.features, shape, 6, hidden, n_outputs, dropout, first_dropout=True
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.features(check_batch(x, self.config["input_shape"])))


class VGG(nn.Module):
    """Stages of 3 × 3 convolutions and max-pooling, then two wide layers, after Simonyan and Zisserman 2014.

    Two 3 × 3 windows see as far as one of 5 × 5, with 18 weights instead of 25 and a ReLU between them. At 3 × 224 × 224 with
    widths=(64, 128, 256, 512, 512), convs=(2, 2, 3, 3, 3), hidden=4096 and norm=False it is VGG-16.

    Parameters
    ----------
    input_shape, n_outputs, widths, convs, norm
        As of ConvNet.
    hidden : int, default=256
        Units of the two wide layers.
    dropout : float, default=0.5
        Share of their units that is dropped in training.
    """

    def __init__(
        self,
        input_shape: Sequence[int],
        n_outputs: int,
        widths: Sequence[int] = (32, 64, 128),
        convs: int | Sequence[int] = 2,
        hidden: int = 256,
        dropout: float = 0.5,
        norm: bool = True,
    ) -> None:
        super().__init__()
        shape, widths = check_image_shape(input_shape, type(self).__name__), tuple(widths)
        depths = (convs,) * len(widths) if isinstance(convs, int) else tuple(convs)
        check_stages(shape, widths, depths)
        self.config: dict[str, Any] = {
            "input_shape": shape, "n_outputs": n_outputs, "widths": widths, "convs": depths, "hidden": hidden,
            "dropout": dropout, "norm": norm,
        }  # fmt: skip
        layers: list[nn.Module] = []
        channels = shape[0]
        for width, depth in zip(widths, depths, strict=True):
            for _ in range(depth):
                layers.append(conv_block(channels, width, 3, norm=norm, bias=True))
                channels = width
            layers.append(nn.MaxPool2d(2))
        self.features = nn.Sequential(*layers)
        self.head = wide_head(self.features, shape, 7, hidden, n_outputs, dropout)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.features(check_batch(x, self.config["input_shape"])))
