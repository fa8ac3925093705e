"""Objectives of two views: the views of a batch are drawn, both go through the network at once, a loss compares them.

    Contrast                 contrast or decouple z and z⁺
    Bootstrap                predict p from the target of the other view, both ways
    VarianceCovariance       regularise z and z⁺
    Match                    match images and captions, which are words' numbers

The trace has the spread of z besides (losses.py): a collapse shows there while the loss still looks well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Generator, Tensor, nn

from lemmata.nets.training.losses import Objective, Terms
from lemmata.selfsup import losses
from lemmata.selfsup.views import Views


@dataclass(frozen=True)
class TwoViews(Objective):
    """A loss of two views. A subclass defines `of`."""

    views: Views

    def of(self, net: Any, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        """The losses of rows, (B,) or their mean, and z of the first views."""
        raise TypeError(f"{type(self).__name__} has no formula: define of.")

    def __call__(self, net: nn.Module, batch: Sequence[Tensor], rng: Generator) -> Terms:
        found, z = self.of(net, *self.views(batch[0], rng))
        return Terms(found, {"spread": losses.spread(z)})


def project_both(net: Any, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """z of two views, which share the statistics of batch normalisation."""
    z, z_plus = net.project(torch.cat([a, b])).chunk(2)
    return z, z_plus


@dataclass(frozen=True)
class Contrast(TwoViews):
    """SimCLR's loss: positive and negatives in the denominator (losses.contrast), or the negatives alone (decouple)."""

    temperature: float = 0.2
    loss: Callable[..., Tensor] = losses.contrast
    compares_rows = True

    def of(self, net: Any, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        z, z_plus = project_both(net, a, b)
        return self.loss(z, z_plus, self.temperature), z


@dataclass(frozen=True)
class Bootstrap(TwoViews):
    """BYOL's loss, the mean of both directions."""

    def of(self, net: Any, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        both = torch.cat([a, b])
        with torch.no_grad():
            t, t_plus = net.target(both).chunk(2)
        z = net.project(both)
        p, p_plus = net.predictor(z).chunk(2)
        return (losses.predict(p, t_plus) + losses.predict(p_plus, t)) / 2, z.chunk(2)[0]


@dataclass(frozen=True)
class VarianceCovariance(TwoViews):
    """VICReg's loss of a batch."""

    invariance: float = 25.0
    variance: float = 25.0
    covariance: float = 1.0
    compares_rows = True

    def of(self, net: Any, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        z, z_plus = project_both(net, a, b)
        return losses.regularise(z, z_plus, self.invariance, self.variance, self.covariance), z


@dataclass(frozen=True)
class Match(Objective):
    """CLIP's loss; captions of equal words are no negatives."""

    compares_rows = True

    def of(self, net: Any, x: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
        u, v = net.project(x), net.read(tokens)
        same = (tokens[:, None] == tokens).all(dim=2)
        return losses.match(u, v, net.scale(), same), u

    def __call__(self, net: Any, batch: Sequence[Tensor], rng: Generator) -> Terms:
        found, u = self.of(net, *batch)
        return Terms(found, {"spread": losses.spread(u)})
