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

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from lemmata.nets.images.regions import WithHead

POOLINGS = ("max", "mean", "stride")


# --- parts ------------------------------------------------------------------------------------------------------------


def conv_block(
    channels: int,
    width: int,
    kernel: int,
    stride: int = 1,
    norm: bool = True,
    *,
    padding: int | None = None,
    bias: bool | None = None,
    axes: int = 2,
) -> nn.Sequential:
    """Convolution, batch normalisation, ReLU. With the normalisation a bias before it would be useless, so there is none."""
    convolution, normalisation = (
        (nn.Conv1d, nn.BatchNorm1d) if axes == 1 else (nn.Conv2d, nn.BatchNorm2d)
    )
    around = kernel // 2 if padding is None else padding
    layers: list[nn.Module] = [
        convolution(
            channels, width, kernel, stride, around, bias=not norm if bias is None else bias
        )
    ]
    nn.init.kaiming_normal_(layers[0].weight, nonlinearity="relu")  # type: ignore[arg-type]
    if norm:
        layers.append(normalisation(width))
    return nn.Sequential(*layers, nn.ReLU())


class MeanOverPositions(nn.Module):
    """The mean of each channel over the grid: (B, C, …) to (B, C), whatever the size of the grid."""

    def forward(self, x: Tensor) -> Tensor:
        return x.flatten(2).mean(2)


def mean_head(channels: int, n_outputs: int, dropout: float) -> nn.Sequential:
    """The mean over positions, and one linear map."""
    return nn.Sequential(MeanOverPositions(), nn.Dropout(dropout), nn.Linear(channels, n_outputs))


def wide_head(
    features: nn.Module,
    shape: tuple[int, ...],
    most: int,
    hidden: int,
    n_outputs: int,
    dropout: float,
    first_dropout: bool = False,
) -> nn.Sequential:
    """Two wide layers and the last one, on a grid of at most `most` × `most` places."""
    channels, *grid = _answer_shape(features, shape)
    grid = [min(n, most) for n in grid]
    flat = channels * grid[0] * grid[1]
    drop = nn.Dropout(dropout), nn.Dropout(dropout)
    wide = (nn.Linear(flat, hidden), nn.ReLU()), (nn.Linear(hidden, hidden), nn.ReLU())
    each = zip(drop, wide, strict=True)
    layers = [[d, *w] if first_dropout else [*w, d] for d, w in each]
    return nn.Sequential(
        nn.AdaptiveAvgPool2d(tuple(grid)),
        nn.Flatten(),
        *layers[0],
        *layers[1],
        nn.Linear(hidden, n_outputs),
    )


def _answer_shape(module: nn.Module, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape that a module makes of an input, found without computing."""
    with torch.no_grad():
        return tuple(
            copy.deepcopy(module).to("meta").eval()(torch.empty(1, *shape, device="meta")).shape[1:]
        )


# --- checks -----------------------------------------------------------------------------------------------------------


def check_image_shape(input_shape: Sequence[int], net: str, least: int = 1) -> tuple[int, int, int]:
    """(channels, height, width), or a ValueError that says what is wrong with it."""
    shape = tuple(int(size) for size in input_shape)
    if len(shape) != 3 or min(shape) < 1:
        advice = f" For grey images pass (1, {shape[0]}, {shape[1]})." if len(shape) == 2 else ""
        raise ValueError(
            f"{net} takes images, input_shape=(channels, height, width); got {shape}.{advice}"
        )
    if shape[2] in (1, 3) and shape[0] > 4:
        raise ValueError(
            f"input_shape={shape} looks like (height, width, channels); {net} wants channels first: {(shape[2], *shape[:2])}."
        )
    if min(shape[1:]) < least:
        raise ValueError(
            f"{net} needs images of at least {least} × {least}; got {shape[1]} × {shape[2]}."
        )
    return shape


def check_batch(x: Tensor, shape: tuple[int, ...]) -> Tensor:
    """A batch of inputs of this shape, or a ValueError that says which axis is which."""
    if tuple(x.shape[1:]) == shape:
        return x
    found = tuple(x.shape)
    if x.ndim == len(shape) + 1 and found[1:] == (*shape[1:], shape[0]):
        hint = (
            "channels stand last: x.permute(0, 3, 1, 2) puts them first"
            if len(shape) == 3
            else "x.transpose(1, 2)"
        )
    elif x.ndim == len(shape) and shape[0] == 1 and found[1:] == shape[1:]:
        hint = "the axis of channels is missing: x[:, None] adds it"
    elif found == shape:
        hint = "the axis of examples is missing: x[None] adds it"
    else:
        hint = "build the net for these inputs"
    raise ValueError(
        f"got inputs of shape {found} where (B, {', '.join(map(str, shape))}) is expected; {hint}."
    )


def check_stages(shape: tuple[int, ...], widths: tuple[int, ...], depths: tuple[int, ...]) -> None:
    """As many depths as widths, and a grid that can be halved so often."""
    if len(depths) != len(widths) or not widths or min(widths + depths) < 1:
        raise ValueError(
            f"widths={widths}, convs={depths}: pass one or more widths, and as many numbers of convolutions or one for all."
        )
    if min(shape[1:]) < 2 ** len(widths):
        most = min(shape[1:]).bit_length() - 1
        raise ValueError(
            f"{len(widths)} stages halve a grid of {' × '.join(map(str, shape[1:]))} to nothing; pass at most {most} widths."
        )


def check_odd(**kernels: int) -> None:
    for name, size in kernels.items():
        if size < 1 or size % 2 == 0:
            raise ValueError(f"{name}={size}: pass an odd window, so that padding keeps the grid.")


def check_choice(name: str, value: Any, accepted: Sequence[Any]) -> None:
    if value not in accepted:
        raise ValueError(f"{name}={value!r}; pass one of {', '.join(map(repr, accepted))}.")


# --- networks ---------------------------------------------------------------------------------------------------------


class ConvNet(WithHead, nn.Module):
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
        self.head = mean_head(channels, n_outputs, dropout)

    def feature_map(self, x: Tensor) -> Tensor:
        return self.features(check_batch(x, self.config["input_shape"]))

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.feature_map(x))


class AlexNet(WithHead, nn.Module):
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

    def feature_map(self, x: Tensor) -> Tensor:
        return self.features(check_batch(x, self.config["input_shape"]))

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.feature_map(x))


class VGG(WithHead, nn.Module):
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

    def feature_map(self, x: Tensor) -> Tensor:
        return self.features(check_batch(x, self.config["input_shape"]))

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.feature_map(x))
