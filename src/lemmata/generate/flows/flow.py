"""A flow: a base density pushed through bijections, x = F_L ∘ … ∘ F_1 (z).

    ln p(x) = ln p_Z(z) − Σ_l ln|det J_{F_l}|,    z = F⁻¹(x), each Jacobian at its own input on the way from z to x       (5.12)

The notes leave out where the Jacobians stand: at F⁻¹(x), not at x.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from lemmata.generate.flows.transforms import Pair


class StandardNormal(nn.Module):
    """N(0, I) in ℝᵈ."""

    def __init__(self, size: int):
        super().__init__()
        self.config = {"size": size}
        self.size = size

    def log_prob(self, z: Tensor) -> Tensor:
        return -0.5 * (z * z).sum(1) - 0.5 * self.size * math.log(2 * math.pi)

    def sample(self, n: int, generator: torch.Generator | None, like: Tensor) -> Tensor:
        return torch.randn(n, self.size, generator=generator, dtype=like.dtype, device=like.device)


class Standardisation(nn.Module):
    """scale ⊙ z + mean, as the rows have them: the last map of a flow, which is not trained."""

    mean: Tensor
    scale: Tensor

    def __init__(self, size: int):
        super().__init__()
        self.config = {"size": size}
        self.register_buffer("mean", torch.zeros(size))
        self.register_buffer("scale", torch.ones(size))

    def forward(self, z: Tensor) -> Pair:
        return z * self.scale + self.mean, self.scale.log().sum().expand(len(z))

    def inverse(self, x: Tensor) -> Pair:
        return (x - self.mean) / self.scale, -self.scale.log().sum().expand(len(x))


class Flow(nn.Module):
    """The density of F_L ∘ … ∘ F_1 of a base density.

    Parameters
    ----------
    transforms : modules with forward and inverse, in the order from z to x
    base : module with log_prob(z) and sample(n, generator, like)
    """

    refuses_bfloat16 = "sums of log-determinants need more than eight bits"

    def __init__(self, transforms: Sequence[Any], base: Any):
        super().__init__()
        for at, transform in enumerate(transforms):
            if not callable(getattr(transform, "inverse", None)):
                raise ValueError(
                    f"transform {at} of the flow, {type(transform).__name__}, has no inverse: "
                    "give it inverse(x), which returns z and ln|det| of every row."
                )
        self.config = {"transforms": list(transforms), "base": base}
        self.transforms, self.base = nn.ModuleList(transforms), base

    def forward(self, z: Tensor) -> Pair:
        """x = F(z) and ln|det J_F(z)|."""
        log_det: Any = 0.0
        for transform in self.transforms:
            z, one = transform(z)
            log_det = log_det + one
        return z, log_det

    def inverse(self, x: Tensor) -> Pair:
        """z = F⁻¹(x) and ln|det J_F⁻¹(x)|."""
        log_det: Any = 0.0
        for transform in self._backwards():
            x, one = transform.inverse(x)
            log_det = log_det + one
        return x, log_det

    def _backwards(self) -> list[Any]:
        return list(self.transforms)[::-1]

    def log_prob(self, x: Tensor) -> Tensor:
        z, log_det = self.inverse(x.flatten(1))
        return self.base.log_prob(z) + log_det

    def loss(self, x: Tensor) -> Tensor:
        return -self.log_prob(x)

    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        like = next(iter(self.parameters()), torch.zeros(()))
        return self(self.base.sample(n, generator, like))[0]

    def begin(self, batch: Sequence[Tensor]) -> None:
        """Let transforms that look at data first (actnorm) do so."""
        x = batch[0].flatten(1)
        for transform in self._backwards():
            if callable(begin := getattr(transform, "begin", None)):
                begin(x)
            x = transform.inverse(x)[0]
