"""A flow: a base density pushed through bijections, x = F_L ∘ … ∘ F_1 (z).

    ln p(x) = ln p_Z(z) − Σ_l ln|det J_{F_l}|,    z = F⁻¹(x), each Jacobian at its own input on the way from z to x       (5.12)

The notes leave out where the Jacobians stand: at F⁻¹(x), not at x.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from lemmata.generate.base import sum_over_classes
from lemmata.generate.flows.transforms import Chain, Pair


class StandardNormal(nn.Module):
    """N(0, I) of rows of so many numbers, or of images of this shape."""

    def __init__(self, size: int | Sequence[int]):
        super().__init__()
        self.shape = (size,) if isinstance(size, int) else tuple(size)
        self.config = {"size": size if isinstance(size, int) else self.shape}

    def log_prob(self, z: Tensor) -> Tensor:
        z = z.flatten(1)
        return -0.5 * (z * z).sum(1) - 0.5 * z.shape[1] * math.log(2 * math.pi)

    def sample(self, n: int, generator: torch.Generator | None, like: Tensor) -> Tensor:
        return torch.randn(n, *self.shape, generator=generator, dtype=like.dtype, device=like.device)  # fmt: skip


class Standardisation(nn.Module):
    """scale ⊙ z + mean, as the rows, or images of this shape, have them: the last map of a flow, which is not trained."""

    mean: Tensor
    scale: Tensor

    def __init__(self, size: int | Sequence[int]):
        super().__init__()
        self.config = {"size": size if isinstance(size, int) else tuple(size)}
        self.register_buffer("mean", torch.zeros(size))
        self.register_buffer("scale", torch.ones(size))

    def forward(self, z: Tensor) -> Pair:
        return z * self.scale + self.mean, self.scale.log().sum().expand(len(z))

    def inverse(self, x: Tensor) -> Pair:
        return (x - self.mean) / self.scale, -self.scale.log().sum().expand(len(x))


class Marginals(nn.Module):
    """The increasing map, made of lines, that gives normal numbers the distribution of levels in a channel: not trained.

    A flow of images ends with it: pixels are then normal one by one, and what is left to learn is how they depend.

    Parameters
    ----------
    channels, pieces : int
        Lines in each channel, all over the same distance; the first and the last go on outside.
    """

    start: Tensor
    wide: Tensor
    knots: Tensor

    def __init__(self, channels: int, pieces: int):
        super().__init__()
        self.config = {"channels": channels, "pieces": pieces}
        self.register_buffer("start", torch.zeros(()))
        self.register_buffer("wide", torch.ones(()))
        self.register_buffer("knots", torch.arange(pieces + 1.0).repeat(channels, 1))

    def _at(self, piece: Tensor) -> Pair:
        """The knot below each number, and the distance to the next."""
        channel = torch.arange(len(self.knots), device=piece.device)[:, None, None]
        here = channel * self.knots.shape[1] + piece
        flat = self.knots.reshape(-1)
        return flat[here], flat[here + 1] - flat[here]

    def forward(self, z: Tensor) -> Pair:
        inner = self.knots[:, 1:-1].contiguous()
        columns = z.transpose(0, 1).flatten(1).contiguous()
        piece = torch.searchsorted(inner, columns.detach(), right=True)
        piece = piece.reshape(z.shape[1], len(z), *z.shape[2:]).transpose(0, 1)
        knot, rise = self._at(piece)
        log_det = -(rise / self.wide).log().flatten(1).sum(1)
        return self.start + self.wide * (piece + (z - knot) / rise), log_det

    def inverse(self, x: Tensor) -> Pair:
        t = (x - self.start) / self.wide
        piece = t.detach().floor().clamp(0, self.knots.shape[1] - 2).long()
        knot, rise = self._at(piece)
        return knot + (t - piece) * rise, (rise / self.wide).log().flatten(1).sum(1)


class Flow(Chain):
    """The density of F_L ∘ … ∘ F_1 of a base density.

    Parameters
    ----------
    transforms : modules with forward and inverse, in the order from z to x
    base : module with log_prob(z) and sample(n, generator, like)
    n_classes : int, default=0
        C, where the transforms take classes: `shares` is then p(y), (C,).
    step : float, default=0.0
        δ, the distance of the levels of rows that are trained on: they are drawn from their cells, x + δu, u uniform in [0, 1);
        in evaluation u = ½.
    """

    refuses_bfloat16 = "sums of log-determinants need more than eight bits"
    stored_layout: ClassVar = {"shares": "c >=0 sum=1"}
    shares: Tensor

    def __init__(self, transforms: Sequence[Any], base: Any, n_classes: int = 0, step: float = 0.0):
        super().__init__(transforms)
        if not (
            callable(getattr(base, "log_prob", None)) and callable(getattr(base, "sample", None))
        ):
            raise ValueError(f"base is a {type(base).__name__}; give it log_prob(z) and sample(n).")
        self.config |= {"base": base, "n_classes": n_classes, "step": step}
        self.base, self.step = base, step
        if n_classes:
            self.register_buffer("shares", torch.full((n_classes,), 1.0 / n_classes))

    def log_prob(self, x: Tensor, y: Tensor | None = None) -> Tensor:
        """ln p(x|y), (B,); without classes y ln p(x), the sum over them where there are any."""
        if y is None and self.config["n_classes"]:
            return sum_over_classes(self.log_prob, x, self.shares)
        shape = getattr(self.base, "shape", None)
        z, log_det = self.inverse(x.flatten(1) if shape is None else x.reshape(-1, *shape), y)
        return self.base.log_prob(z) + log_det

    def loss(self, x: Tensor, y: Tensor | None = None) -> Tensor:
        if self.step:
            x = x + self.step * (torch.rand_like(x) if self.training else 0.5)
        return -self.log_prob(x, y)

    def sample(
        self, n: int, generator: torch.Generator | None = None, y: Tensor | None = None
    ) -> Tensor:
        like = next(iter(self.parameters()), torch.zeros(()))
        return self(self.base.sample(n, generator, like), y)[0]

    def begin(self, batch: Sequence[Tensor]) -> None:
        x, *y = batch
        shape = getattr(self.base, "shape", (-1,))
        self.begin_at(x.reshape(len(x), *shape) + self.step / 2, *y)
