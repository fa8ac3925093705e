"""Networks that estimators build: the multi-layer perceptron (CIL 4.2), and encoder and decoder around a code (CIL 1.1).

    FeedForward      f(x) = W_L φ(… φ(W₁ x + b₁) …) + b_L             the default for tables
    AutoencoderNet   z = F((x − μ)/s),   x̂ = μ + s G(z)               the decoder G mirrors the encoder F

μ and s are fixed numbers of the data (its mean, and one scale for all features), kept with the weights, so that the
network learns on numbers of size 1 and answers in the units of the data. The code itself is linear: no activation limits it.

>>> import torch
>>> net = FeedForward((2, 3), 4, widths=(8,))
>>> net(torch.zeros(5, 2, 3)).shape
torch.Size([5, 4])
>>> net = AutoencoderNet((1, 28, 28), 8, layers=(64,), conv=(8, 16))
>>> net.encode(torch.zeros(5, 1, 28, 28)).shape, net(torch.zeros(5, 1, 28, 28)).shape
(torch.Size([5, 8]), torch.Size([5, 1, 28, 28]))
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn

from lemmata.core.files.encoding import storable
from lemmata.nets.training.losses import Objective

ACTIVATIONS: dict[str, type[nn.Module]] = {
    "relu": nn.ReLU,
    "tanh": nn.Tanh,
    "sigmoid": nn.Sigmoid,
    "softplus": nn.Softplus,
    "gelu": nn.GELU,
    "identity": nn.Identity,
}


def _check_activation(name: str) -> None:
    if name not in ACTIVATIONS:
        raise ValueError(f"activation={name!r}; pass one of {', '.join(ACTIVATIONS)}.")


class FeedForward(nn.Module):
    """A multi-layer perceptron as a module.

    Parameters
    ----------
    input_shape : tuple
        Of one input; it is flattened.
    n_outputs : int
    widths : tuple of int, default=(128,)
        Units of each hidden layer; () is a linear map.
    activation : {"relu", "tanh", "sigmoid", "softplus", "gelu", "identity"}, default="relu"
    dropout : float, default=0.0
        The share of hidden units that is set to 0 in training.
    """

    def __init__(
        self,
        input_shape: tuple[int, ...],
        n_outputs: int,
        widths: tuple[int, ...] = (128,),
        activation: str = "relu",
        dropout: float = 0.0,
    ):
        super().__init__()
        _check_activation(activation)
        if any(width < 1 for width in widths) or not 0 <= dropout < 1:
            raise ValueError(
                f"widths={widths}, dropout={dropout}: pass ints >= 1 and a number in [0, 1)."
            )
        self.config = {
            "input_shape": tuple(input_shape), "n_outputs": n_outputs, "widths": tuple(widths),
            "activation": activation, "dropout": dropout,
        }  # fmt: skip
        layers: list[nn.Module] = [nn.Flatten()]
        before = math.prod(input_shape)
        for width in widths:
            layers += [nn.Linear(before, width), ACTIVATIONS[activation]()]
            layers += [nn.Dropout(dropout)] if dropout else []
            before = width
        self.layers = nn.Sequential(*layers, nn.Linear(before, n_outputs))
        for layer in self.layers:
            if isinstance(layer, nn.Linear):
                # He's variance 2/n for units that are 0 half of the time, 1/n for others
                gain = 2.0 if activation == "relu" and layer is not self.layers[-1] else 1.0
                nn.init.normal_(layer.weight, std=math.sqrt(gain / layer.in_features))
                nn.init.zeros_(layer.bias)

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)

    def embed(self, x: Tensor, regions: int = 1) -> Tensor:
        """(B, the last width): the last hidden layer; a table has no regions."""
        return self.layers[:-1](x)

    def embedding_width(self, regions: int = 1) -> int:
        return self.layers[-1].in_features  # type: ignore[return-value]


class AutoencoderNet(nn.Module):
    """Encoder and decoder around a code of m numbers.

    Parameters
    ----------
    input_shape : tuple
        Of one input: (d,), (C, H, W).
    n_components : int
        m, the width of the code.
    layers : tuple of int, default=(128,)
        Units of the dense layers of the encoder; the decoder has them in reverse. () is a linear map.
    conv : tuple of int, default=()
        Channels of convolutions before them, each of which halves height and width; the decoder doubles them again.
    activation : {"gelu", "relu", "tanh", "sigmoid", "softplus", "identity"}, default="gelu"
        "identity" makes both maps linear: the linear autoencoder, which cannot do better than PCA.
    """

    mean: Tensor
    scale: Tensor

    def __init__(
        self,
        input_shape: Sequence[int],
        n_components: int,
        layers: Sequence[int] = (128,),
        conv: Sequence[int] = (),
        activation: str = "gelu",
    ):
        super().__init__()
        shape, layers, conv = tuple(input_shape), tuple(layers), tuple(conv)
        _check_activation(activation)
        if n_components < 1 or any(width < 1 for width in (*layers, *conv)):
            raise ValueError(
                f"n_components={n_components}, layers={layers}, conv={conv}: pass ints >= 1."
            )
        self.config = {
            "input_shape": shape, "n_components": n_components, "layers": layers, "conv": conv, "activation": activation,
        }  # fmt: skip
        self.register_buffer("mean", torch.zeros(shape))
        self.register_buffer("scale", torch.ones(()))
        sizes = _grids(shape, conv)
        flat = math.prod(sizes[-1])
        activate = ACTIVATIONS[activation]
        down: list[nn.Module] = []
        up: list[nn.Module] = []
        for before, after in pairwise(sizes):
            down += [nn.Conv2d(before[0], after[0], 3, stride=2, padding=1), activate()]
            # an even side is one longer than 2h − 1, which is what the transposed convolution gives
            extra = (1 - before[1] % 2, 1 - before[2] % 2)
            back = nn.ConvTranspose2d(
                after[0], before[0], 3, stride=2, padding=1, output_padding=extra
            )
            up = [activate(), back, *up]
        widths = (flat, *layers, n_components)
        self.encoder = nn.Sequential(*down, nn.Flatten(), *_dense(widths, activate))
        fold = [] if len(shape) == 1 and not conv else [nn.Unflatten(1, sizes[-1])]
        self.decoder = nn.Sequential(*_dense(widths[::-1], activate), *fold, *up)
        for part in self.modules():
            if isinstance(part, (nn.Linear, nn.Conv2d, nn.ConvTranspose2d)):
                nn.init.xavier_normal_(part.weight)
                nn.init.zeros_(part.bias)  # type: ignore[arg-type]

    def standardise(self, x: Tensor) -> Tensor:
        return (x - self.mean) / self.scale

    def encode(self, x: Tensor) -> Tensor:
        """(B, m): the codes of inputs (B, *input_shape)."""
        return self.encoder(self.standardise(x))

    def decode(self, z: Tensor) -> Tensor:
        """(B, *input_shape): what codes stand for."""
        return self.mean + self.scale * self.decoder(z)

    def forward(self, x: Tensor) -> Tensor:
        return self.decode(self.encode(x))

    def residual(self, x: Tensor) -> Tensor:
        """(x̂ − x)/s, without the rounding that a large mean would bring."""
        rows = self.standardise(x)
        return self.decoder(self.encoder(rows)) - rows


def _dense(widths: Sequence[int], activate: type[nn.Module]) -> list[nn.Module]:
    """Linear layers with activations between them, none at the end."""
    parts: list[nn.Module] = []
    for before, after in pairwise(widths):
        parts += [nn.Linear(before, after), activate()]
    return parts[:-1]


def _grids(shape: tuple[int, ...], conv: tuple[int, ...]) -> list[tuple[int, ...]]:
    """The shape of an input and what each convolution makes of it."""
    if conv and len(shape) != 3:
        raise ValueError(
            f"conv={conv} needs images, inputs of shape (channels, height, width), and these have {shape}: pass images "
            "(n, H, W) or (n, C, H, W), or input_shape=."
        )
    sizes = [shape]
    for channels in conv:
        _, height, width = sizes[-1]
        sizes.append((channels, (height + 1) // 2, (width + 1) // 2))
    return sizes


@storable
@dataclass(frozen=True)
class Reconstruction(Objective):
    """mean ((x̂ − x)/s)² of an AutoencoderNet: batches are inputs alone."""

    def __call__(self, net: nn.Module, batch: Sequence[Tensor], rng: torch.Generator) -> Tensor:
        return net.residual(batch[0]).square().flatten(1).mean(1)  # type: ignore[operator]
