"""A one-dimensional convolutional network for sounds, such as spoken digits (CIL 4.4.2: "1 (e.g. speech) … dimensional grids").

    waveform (1, L) → filters of 8 ms, every 1 ms → stages of convolutions that halve the time axis → mean over time → scores

The first layer is a bank of learned filters over the raw waveform, and a stride throws away what is faster than the words. The
mean over time makes the answer independent of where in the recording the word is, up to its borders.

    >>> net = SoundNet((1, 8000), 10)
    >>> sum(p.numel() for p in net.parameters())
    38922
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from torch import Tensor, nn

from lemmata.nets.images.convnets import check_batch, conv_block, mean_head
from lemmata.nets.images.regions import WithHead


class SoundNet(WithHead, nn.Module):
    """A 1-d convolutional network from waveforms (B, channels, L) to (B, n_outputs).

    Parameters
    ----------
    input_shape : tuple of int
        (channels, samples); a second of 8 kHz mono is (1, 8000).
    n_outputs : int
        Scores per recording.
    widths : tuple of int, default=(32, 32, 64, 64)
        Channels of the filter bank and of each stage after it; a stage divides time by 4.
    filter_length : int, default=64
        Samples of a filter of the first layer.
    filter_stride : int, default=8
        Samples from one place of a filter to the next.
    dropout : float, default=0.0
        Share of the features that is dropped before the linear map in training.
    """

    def __init__(
        self,
        input_shape: Sequence[int],
        n_outputs: int,
        widths: Sequence[int] = (32, 32, 64, 64),
        filter_length: int = 64,
        filter_stride: int = 8,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        shape, widths = tuple(int(size) for size in input_shape), tuple(widths)
        if len(shape) != 2 or min(shape) < 1:
            advice = f" For mono pass (1, {shape[0]})." if len(shape) == 1 else ""
            raise ValueError(
                f"SoundNet takes sounds, input_shape=(channels, samples); got {shape}.{advice}"
            )
        least = filter_stride * 4 ** (len(widths) - 1)
        if not widths or min(widths) < 1 or filter_length < filter_stride or filter_stride < 1:
            raise ValueError(
                f"widths={widths}, filter_length={filter_length}, filter_stride={filter_stride}: pass one or more widths, and "
                "filters at least as long as their stride."
            )
        if shape[1] < least:
            raise ValueError(
                f"{shape[1]} samples are divided by {filter_stride} and by 4 in {len(widths) - 1} stages, which needs {least}; "
                "pad the sounds, or pass fewer widths."
            )
        self.config: dict[str, Any] = {
            "input_shape": shape, "n_outputs": n_outputs, "widths": widths, "filter_length": filter_length,
            "filter_stride": filter_stride, "dropout": dropout,
        }  # fmt: skip
        layers = [conv_block(shape[0], widths[0], filter_length, filter_stride, axes=1)]
        for channels, width in pairwise(widths):
            stage = [conv_block(channels, width, 5, axes=1), nn.MaxPool1d(4)]
            layers.append(nn.Sequential(*stage))
        self.features = nn.Sequential(*layers)
        self.head = mean_head(widths[-1], n_outputs, dropout)

    def feature_map(self, x: Tensor) -> Tensor:
        return self.features(check_batch(x, self.config["input_shape"]))

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.feature_map(x))
