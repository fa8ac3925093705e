"""Pretext tasks: questions that the data answer themselves, g: x ↦ (x_in, x_out) (ML "Self-supervised Learning").

    task          x_in                          x_out                     loss
    Turned        x turned by k quarters        k                         cross-entropy of four classes
    Masked        x without some patches        x there, NaN elsewhere    mean square over what is asked
    Continued     x up to a place               x after it                the same

Who tells which way up a shirt is has to know what a sleeve is. The network is f₁ with one linear map; f₁ is kept. Of words,
masks and continuations are in `lemmata.language`.

    >>> from sklearn.datasets import load_digits
    >>> X = (load_digits().images[:400, None] / 16).astype("float32")
    >>> encoder = pretrain("ConvNet", X, Turned(), epochs=2, regions=2, widths=(8, 16), random_state=0)
    >>> encoder(torch.from_numpy(X[:5])).shape
    torch.Size([5, 64])
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Generator, Tensor, nn
from torch.nn import functional as F

from lemmata.core.files.encoding import storable
from lemmata.nets.augmentation import turn_quarters
from lemmata.nets.data.batches import Rows
from lemmata.nets.estimators.inputs import flatten
from lemmata.nets.training import Training, train
from lemmata.nets.training.losses import Objective
from lemmata.selfsup.base import make_network
from lemmata.selfsup.networks import FeatureNet


class Task(Protocol):
    """g: a batch ↦ (x_in, x_out), drawn by the generator; and the loss of answers (B, n_outputs)."""

    def __call__(self, x: Tensor, generator: Generator) -> tuple[Tensor, Tensor]: ...

    def count_outputs(self, shape: tuple[int, ...]) -> int: ...

    def measure(self, found: Tensor, x_out: Tensor) -> Tensor: ...


@storable
@dataclass(frozen=True)
class Turned:
    """By how many quarters was the image turned? Of square images (Gidaris et al. 2018)."""

    def __call__(self, x: Tensor, generator: Generator) -> tuple[Tensor, Tensor]:
        k = torch.randint(4, (len(x),), generator=generator, device=generator.device).to(x.device)
        return turn_quarters(x, k), k

    def count_outputs(self, shape: tuple[int, ...]) -> int:
        return 4

    def measure(self, found: Tensor, x_out: Tensor) -> Tensor:
        return F.cross_entropy(found, x_out, reduction="none")


class Hidden:
    """What is hidden from view? A subclass says where, by `hide`; hidden numbers are 0 in x_in."""

    def hide(self, x: Tensor, generator: Generator) -> Tensor:
        raise TypeError(f"{type(self).__name__} does not say what is hidden: define hide.")

    def __call__(self, x: Tensor, generator: Generator) -> tuple[Tensor, Tensor]:
        hidden = self.hide(x, generator).expand_as(x)
        return x.masked_fill(hidden, 0), x.masked_fill(~hidden, math.nan)

    def count_outputs(self, shape: tuple[int, ...]) -> int:
        return math.prod(shape)

    def measure(self, found: Tensor, x_out: Tensor) -> Tensor:
        asked = ~x_out.isnan().flatten(1)
        errors = (found - x_out.flatten(1).nan_to_num()).square() * asked
        return errors.sum(1) / asked.sum(1).clamp(min=1)


@storable
@dataclass(frozen=True)
class Masked(Hidden):
    """Patches of so many pixels a side (of sounds, samples), each hidden with probability `share`."""

    share: float = 0.5
    patch: int = 4

    def __post_init__(self):
        if not (0 < self.share < 1 and self.patch >= 1):
            raise ValueError(f"share={self.share}, patch={self.patch}; pass a share in (0, 1) and patch >= 1.")  # fmt: skip

    def hide(self, x: Tensor, generator: Generator) -> Tensor:
        grid = [-(-n // self.patch) for n in x.shape[2:]]
        hidden = torch.rand(len(x), 1, *grid, generator=generator, device=generator.device) < self.share  # fmt: skip
        for axis, n in enumerate(x.shape[2:], 2):
            hidden = hidden.repeat_interleave(self.patch, axis).narrow(axis, 0, n)
        return hidden.to(x.device)


@storable
@dataclass(frozen=True)
class Continued(Hidden):
    """What comes after the first `known` share: lower rows of an image, the end of a sound."""

    known: float = 0.5

    def __post_init__(self):
        if not 0 < self.known < 1:
            raise ValueError(f"known={self.known}; pass a share in (0, 1).")

    def hide(self, x: Tensor, generator: Generator) -> Tensor:
        n = x.shape[2]
        later = torch.arange(n, device=x.device) >= math.ceil(self.known * n)
        return later.view(1, 1, n, *(1,) * (x.ndim - 3))


@dataclass(frozen=True)
class Solve(Objective):
    """The loss of a network on a task."""

    task: Any

    def __call__(self, net: nn.Module, batch: Sequence[Tensor], rng: Generator) -> Tensor:
        x_in, x_out = self.task(batch[0], rng)
        return self.task.measure(net(x_in), x_out)


def pretrain(
    net: Any, X: Any, task: Task, *, epochs: int = 10, regions: int = 3, learning_rate: float = 2e-3,
    batch_size: int = 128, random_state: Any = None, **options: Any,
) -> FeatureNet:  # fmt: skip
    """Train a network on a pretext task, and return its features f₁: a module for `probe`, `certify` and `NeuralClassifier`.

    Parameters
    ----------
    net : a name or class of `nets`, called as net(input_shape, 1, **options); or a module, which is copied
    X : images (n, H, W) or (n, C, H, W), or sounds (n, 1, L)
    task : Turned(), Masked(…), Continued(…), or one of your own
    """
    rows = np.asarray(X)
    rows, shape = flatten(rows / np.float32(255) if rows.dtype == np.uint8 else rows)
    if shape is None or len(shape) < 2:
        raise ValueError(f"X has shape {rows.shape}; pass images (n, C, H, W) or sounds (n, 1, L).")

    def build() -> nn.Module:
        encoder = FeatureNet(make_network(net, shape, options), regions)
        return encoder.with_outputs(task.count_outputs(shape), shape)

    training = Training(
        build, Solve(task), learning_rate=learning_rate, batch_size=min(batch_size, len(rows)), schedule="cosine", epochs=epochs
    )  # fmt: skip
    solution = train(training, Rows(rows, shape=shape), rng=random_state)
    return training.module(solution.state)[0].eval()
