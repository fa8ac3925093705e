"""Parts of convolutional networks, and checks of their arguments."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn


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
