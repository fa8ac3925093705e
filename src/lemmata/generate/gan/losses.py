"""Losses of the players of a generative adversarial network (CIL 5.4; ML "GANs").

f(x) is the logit of the discriminator π = σ(f), G(z) what the generator makes of noise z. The discriminator classifies rows,
half of which are data: it minimises −ℓ of CIL (5.30). The generator minimises

    saturating       ½ E ln(1 − π(G(z))) = −½ E softplus(f)        ℓ but for its constant (5.31): a zero-sum game
    non-saturating   −½ E ln π(G(z)) = ½ E softplus(−f)            (5.38), whose gradient does not vanish where π is near 0
    wasserstein      −½ E f(G(z)),  against ½ E f(G(z)) − ½ E f(x)    a distance of laws if f has slope 1 at most

The slip before (5.38): there it is to be maximised. The factor ½ is CIL's; at the best discriminator its loss is ln 2 − JS.

    R1   + (γ/2) E‖∇ₓ f(x)‖² over the data: the discriminator is charged for slopes there (Mescheder et al. 2018)

Without it the linearised game circles (`theory.DiracGAN`). x is in units of the network, `GANNet.standardise`.

    >>> generator_loss("saturating", torch.zeros(1)) + discriminator_loss("saturating", torch.zeros(1), torch.zeros(1))
    tensor([0.3466])
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lemmata.core.files.encoding import storable
from lemmata.nets.training.losses import Terms
from lemmata.nets.training.rules import Players

LOSSES = ("non-saturating", "saturating", "wasserstein")


def softplus(f: Tensor) -> Tensor:
    """Return ln(1 + eᶠ) to rounding, also where torch's own goes over to f."""
    return -F.logsigmoid(-f)


def generator_loss(loss: str, fake: Tensor) -> Tensor:
    """Return what the generator minimises, of each logit of its rows."""
    if loss == "saturating":
        return -0.5 * softplus(fake)
    return -0.5 * fake if loss == "wasserstein" else 0.5 * softplus(-fake)


def discriminator_loss(loss: str, real: Tensor, fake: Tensor) -> Tensor:
    """Return what the discriminator minimises, of each logit of the data and of the generator's rows."""
    if loss == "wasserstein":
        return 0.5 * (fake - real)
    return 0.5 * (softplus(-real) + softplus(fake))


def slope_penalty(score: Callable[[Tensor], Tensor], x: Tensor) -> tuple[Tensor, Tensor]:
    """Return f(x) and ‖∇ₓ f(x)‖² of every row, both to be differentiated again by the weights of f."""
    again = torch.is_grad_enabled()
    with torch.enable_grad():
        x = x.detach().requires_grad_()
        found = score(x)
        (slope,) = torch.autograd.grad(found.sum(), x, create_graph=again)
    return found, slope.flatten(1).square().sum(1)


@storable
@dataclass(frozen=True)
class Adversarial(Players):
    """The losses of generator and discriminator: a `Players` for `Training`. Each step of either draws noise of its own.

    In the trace: both losses, and the shares of data and of samples that the discriminator puts on the right side
    ("data_right", "samples_right"); of "wasserstein", of the middle between the means of f.
    """

    loss: str = "non-saturating"
    r1: float = 0.0

    players = ("generator", "discriminator")

    def __post_init__(self):
        if self.loss not in LOSSES:
            raise ValueError(f"loss={self.loss!r}; pass one of {', '.join(LOSSES)}.")

    def of(self, player: str, net: nn.Module, batch: Sequence[Tensor], rng: torch.Generator) -> Any:
        net_: Any = net
        x, given = net_.split(net_.standardise(batch[0]))
        y = batch[1] if len(batch) > 1 else None
        # in float32 whatever the rows are: the same draws
        z = torch.randn(len(x), net_.latent, generator=rng, device=x.device).to(x.dtype)
        fake = net_.score(net_.generator(z, y, given), y, given)
        if player == "generator":
            return generator_loss(self.loss, fake)
        if self.r1:
            real, slopes = slope_penalty(lambda rows: net_.score(rows, y, given), x)
        else:
            real, slopes = net_.score(x, y, given), torch.zeros_like(fake)
        losses = discriminator_loss(self.loss, real, fake) + 0.5 * self.r1 * slopes
        middle = 0.5 * (real.mean() + fake.mean()) if self.loss == "wasserstein" else 0.0
        # a discriminator that gives 0 everywhere is right everywhere: it has stopped looking
        right = {
            "data_right": (real >= middle).double(),
            "samples_right": (fake <= middle).double(),
        }
        return Terms(losses, right)
