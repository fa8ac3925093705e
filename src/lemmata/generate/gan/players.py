"""Generator and discriminator as one module, and networks for both (CIL 5.4.6; Fig. 5.7: DCGAN, deep convolutional).

    GANNet                           x = μ + s · generator(z, …),  f = discriminator((x − μ)/s, …)
    DCGenerator, DCDiscriminator     transposed convolutions from a small grid up, strided ones down again
    ImageTranslator                  an image given to an image made: down twice, up twice, beside the image itself
    perceptron                       for tables

**Conditions** go to both players as further inputs: of classes one-hot vectors, or an embedding that each player learns for
itself; of images the channels that are given. Where a player's input is an image, flat inputs become constant channels. So any
two modules of one tensor will do: the generator takes (B, latent + classes), or (B, latent + given + classes, H, W), and gives
rows in units of the network; the discriminator takes rows with their conditions and gives a logit.

    >>> net = GANNet((2,), latent=4)
    >>> net.sample(3, torch.Generator().manual_seed(0)).shape, net.score(torch.zeros(5, 2)).shape
    (torch.Size([3, 2]), torch.Size([5]))
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize
from torch.nn.utils.parametrizations import spectral_norm

WIDTHS = (128, 128)  # of perceptrons
SLOPE = 0.2  # of LeakyReLU below 0, as in DCGAN
SMALLEST = 4  # side of the grid that a DCGAN begins with
NORMED = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.ConvTranspose2d)


class DCGenerator(nn.Sequential):
    """DCGAN's generator: noise to a small grid of many channels, which transposed convolutions double until it is the image.

    Parameters
    ----------
    n_inputs : int
    output_shape : tuple
        (C, H, W).
    width : int, default=32
        Channels before the last layer; twice as many at each smaller grid.
    """

    def __init__(self, n_inputs: int, output_shape: Sequence[int], width: int = 32):
        self.config = {"n_inputs": n_inputs, "output_shape": tuple(output_shape), "width": width}
        grids = _grids(output_shape, width)[::-1]
        layers = [nn.Linear(n_inputs, math.prod(grids[0])), nn.Unflatten(1, grids[0])]
        for small, large in pairwise(grids):
            layers += [nn.BatchNorm2d(small[0]), nn.ReLU(), _double(small, large)]
        super().__init__(*layers, nn.Tanh())


class DCDiscriminator(nn.Sequential):
    """DCGAN's discriminator: strided convolutions down to a small grid, and a logit of it. Without batch normalisation: rows of
    data and of the generator are scored alike whatever stands beside them, which R1 needs.

    Parameters
    ----------
    input_shape : tuple
        (C, H, W).
    width : int, default=32
    """

    def __init__(self, input_shape: Sequence[int], width: int = 32):
        self.config = {"input_shape": tuple(input_shape), "width": width}
        grids = _grids(input_shape, width)
        layers: list[nn.Module] = []
        for large, small in pairwise(grids):
            layers += [nn.Conv2d(large[0], small[0], 3, stride=2, padding=1), nn.LeakyReLU(SLOPE)]
        super().__init__(*layers, nn.Flatten(), nn.Linear(math.prod(grids[-1]), 1))


class ImageTranslator(nn.Module):
    """An image made from an image given and noise: convolutions down twice and up twice, beside the given image itself.

    Parameters
    ----------
    input_shape : tuple
        (C, H, W) of noise, classes and given channels.
    n_outputs : int
        Channels made.
    width : int, default=32
    """

    def __init__(self, input_shape: Sequence[int], n_outputs: int, width: int = 32):
        super().__init__()
        channels, h, w = input_shape
        self.config = {"input_shape": tuple(input_shape), "n_outputs": n_outputs, "width": width}
        middle = (2 * width, (h + 1) // 2, (w + 1) // 2)
        low = (4 * width, (middle[1] + 1) // 2, (middle[2] + 1) // 2)
        self.inner = nn.Sequential(
            nn.Conv2d(channels, middle[0], 3, stride=2, padding=1), nn.ReLU(),
            nn.Conv2d(middle[0], low[0], 3, stride=2, padding=1), nn.ReLU(),
            _double(low, middle), nn.ReLU(), _double(middle, (width, h, w)), nn.ReLU(),
        )  # fmt: skip
        self.last = nn.Conv2d(width + channels, n_outputs, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(self.last(torch.cat([self.inner(x), x], 1)))


def perceptron(widths: Sequence[int], activation: nn.Module) -> nn.Sequential:
    """Return layers of units with torch's own initial weights, which are small: a generator that begins as a cloud finds the
    modes that one with He's weights, spread over all of them, does not."""
    layers: list[nn.Module] = [nn.Flatten()]
    for before, after in pairwise(widths):
        layers += [nn.Linear(before, after), activation]
    return nn.Sequential(*layers[:-1])


def _grids(shape: Sequence[int], width: int) -> list[tuple[int, ...]]:
    """An image's shape, and those of the grids that halve it, until a side is 4 or less."""
    grids = [tuple(shape)]
    while min(grids[-1][1:]) > SMALLEST:
        _, h, w = grids[-1]
        grids.append((width * 2 ** (len(grids) - 1), (h + 1) // 2, (w + 1) // 2))
    return grids


def _double(small: Sequence[int], large: Sequence[int]) -> nn.ConvTranspose2d:
    """Return the layer that doubles a grid; 2h − 1 of an odd side."""
    kernel = (4 - large[1] % 2, 4 - large[2] % 2)
    return nn.ConvTranspose2d(small[0], large[0], kernel, stride=2, padding=1)


class Conditioned(nn.Module):
    """A player's network, to which conditions are joined as further inputs."""

    def __init__(self, net: nn.Module, n_classes: int = 0, embedding: int | None = None):
        super().__init__()
        self.net, self.n_classes = net, n_classes
        self.classes = nn.Embedding(n_classes, embedding) if n_classes and embedding else None

    def forward(self, x: Tensor, y: Tensor | None = None, given: Tensor | None = None) -> Tensor:
        parts = [x] if given is None else [x, given]
        if self.n_classes:
            if y is None:
                raise ValueError(f"a network of {self.n_classes} classes needs them: pass y.")
            one_hot = nn.functional.one_hot(y, self.n_classes).to(x.dtype)
            parts.append(one_hot if self.classes is None else self.classes(y))
        images = [part for part in parts if part.ndim > 2]
        if images and len(parts) > 1:
            sides = images[0].shape[2:]
            parts = [
                part if part.ndim > 2 else part.reshape(*part.shape, *[1] * len(sides)).expand(-1, -1, *sides)
                for part in parts
            ]  # fmt: skip
        return self.net(torch.cat(parts, 1) if len(parts) > 1 else x)


class GANNet(nn.Module):
    """Generator and discriminator, the units of the data, and the classes.

    Parameters
    ----------
    input_shape : tuple
        Of a row: (d,), (C, H, W).
    latent : int
        Numbers of noise that a row is made from.
    generator, discriminator : torch.nn.Module, optional
        Of one tensor each, see above; None is a perceptron for tables, DCGAN for images.
    n_classes : int, default=0
    embedding : int, optional
        Width of the embedding of classes; None is one-hot.
    given : int, default=0
        Channels at the end of an image that are given and not made.
    spectral : bool, default=False
        Whether the discriminator's layers are divided by their largest singular value.
    """

    mean: Tensor
    scale: Tensor
    shares: Tensor

    def __init__(
        self,
        input_shape: Sequence[int],
        latent: int,
        generator: nn.Module | None = None,
        discriminator: nn.Module | None = None,
        n_classes: int = 0,
        embedding: int | None = None,
        given: int = 0,
        spectral: bool = False,
    ):
        super().__init__()
        shape = tuple(input_shape)
        self.config = {
            "input_shape": shape, "latent": latent, "generator": generator, "discriminator": discriminator,
            "n_classes": n_classes, "embedding": embedding, "given": given, "spectral": spectral,
        }  # fmt: skip
        self.shape, self.latent, self.given = shape, latent, given
        self.made = (shape[0] - given, *shape[1:]) if given else shape
        more = n_classes if embedding is None else embedding * bool(n_classes)
        large = len(shape) == 3 and min(shape[1:]) > SMALLEST
        if generator is None:
            generator = _make_generator(self.made, latent + more, given, large)
        if discriminator is None:
            inputs = (shape[0] + more, *shape[1:])
            discriminator = (
                DCDiscriminator(inputs)
                if large
                else perceptron((math.prod(inputs), *WIDTHS, 1), nn.LeakyReLU(SLOPE))
            )
        self.generator = Conditioned(generator, n_classes, embedding)
        self.discriminator = Conditioned(discriminator, n_classes, embedding)
        if spectral:
            for layer in discriminator.modules():
                if isinstance(layer, NORMED) and not parametrize.is_parametrized(layer):
                    spectral_norm(layer)
        units = (shape[0], *[1] * (len(shape) - 1))
        self.register_buffer("mean", torch.zeros(units))
        self.register_buffer("scale", torch.ones(units))
        if n_classes:
            self.register_buffer("shares", torch.full((n_classes,), 1.0 / n_classes))

    def begin(self, batch: Sequence[Tensor]) -> None:
        """Check the players on two rows: ValueError says which one does not fit."""
        was, y = self.training, batch[1][:2] if len(batch) > 1 else None
        self.eval()
        x, given = self.split(self.standardise(batch[0][:2]))
        z = torch.zeros(len(x), self.latent, dtype=x.dtype)
        rows = _try("generator", self.generator, z, y, given)
        if rows.shape != x.shape:
            if given is None and rows.ndim == 2 and math.prod(rows.shape) == math.prod(x.shape):
                pass  # flat rows of an image
            else:
                raise ValueError(
                    f"the generator gives {tuple(rows.shape[1:])} for rows of shape {tuple(x.shape[1:])}, from inputs of "
                    f"{self.latent} numbers of noise and the conditions; let it give {tuple(x.shape[1:])}."
                )
        logits = _try("discriminator", self.discriminator, x, y, given)
        if logits.numel() != len(x):
            raise ValueError(
                f"the discriminator gives {tuple(logits.shape)} for {len(x)} rows; let it give one number for each."
            )
        self.train(was)

    def standardise(self, x: Tensor) -> Tensor:
        return (x - self.mean) / torch.where(self.scale > 0, self.scale, 1.0)

    def split(self, x: Tensor) -> tuple[Tensor, Tensor | None]:
        """The channels that are made, and those that are given."""
        return (x[:, : -self.given], x[:, -self.given :]) if self.given else (x, None)

    def score(self, x: Tensor, y: Tensor | None = None, given: Tensor | None = None) -> Tensor:
        """(B,): the logit f of standardised rows; > 0 says that they are data."""
        return self.discriminator(x.reshape(-1, *self.made), y, given).reshape(len(x))

    def forward(self, x: Tensor, y: Tensor | None = None) -> Tensor:
        """(B,): the logit of rows."""
        rows, given = self.split(self.standardise(x))
        return self.score(rows, y, given)

    @torch.no_grad()
    def logits(self, rows: Any, noise: Any, places: Any = None) -> tuple[Tensor, Tensor]:
        """(B,) each: the logits of flat rows, and of what is made of noise (B, latent), with the same conditions."""
        x, z = (torch.as_tensor(part).to(self.mean) for part in (rows, noise))
        y = None if places is None else torch.as_tensor(places, device=self.mean.device)
        x, given = self.split(self.standardise(x.reshape(-1, *self.shape)))
        return self.score(x, y, given), self.score(self.generator(z, y, given), y, given)

    def sample(
        self,
        n: int,
        generator: torch.Generator,
        y: Tensor | None = None,
        given: Tensor | None = None,
    ) -> Tensor:
        """(n, …): rows in the units of the data."""
        z = torch.randn(n, self.latent, generator=generator, device=self.mean.device).to(self.mean)
        made, rest = (part[: self.made[0]] for part in (self.mean, self.scale)), None
        mean, scale = made
        if given is not None:
            rest = self.standardise(torch.cat([given.new_zeros(n, *self.made), given], 1))[:, -self.given :]  # fmt: skip
        return mean + scale * self.generator(z, y, rest).reshape(n, *self.made)


def _make_generator(made: tuple[int, ...], inputs: int, given: int, large: bool) -> nn.Module:
    if given:
        return ImageTranslator((inputs + given, *made[1:]), made[0])
    return (
        DCGenerator(inputs, made)
        if large
        else perceptron((inputs, *WIDTHS, math.prod(made)), nn.ReLU())
    )


def _try(name: str, player: nn.Module, *inputs: Any) -> Tensor:
    try:
        return player(*inputs)
    except (RuntimeError, TypeError, IndexError) as error:
        line = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise ValueError(
            f"the {name} does not take its inputs, {tuple(inputs[0].shape[1:])} with the conditions behind: {line}."
        ) from error
