"""Adversarial training: learn from the worst perturbation that an attack finds, batch by batch.

    min_θ E max_{x' ∈ B(x)} ℓ(f_θ(x'), y)             x' by FGSM from a random start (1 step) or PGD (k steps)
    TRADES      min_θ E ℓ(f_θ(x), y) + β max_{x'} KL(f_θ(x) ‖ f_θ(x'))              (Zhang et al. 2019; β = `trades`)

Perturbations are sought in evaluation mode; what the net learns from them, in training mode.

>>> from lemmata import NeuralClassifier
>>> from lemmata.trust import AdversarialTraining, Ball
>>> model = NeuralClassifier(loss=AdversarialTraining(Ball(0.1)), max_iter=3)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lemmata.core.store import storable
from lemmata.nets.training.losses import Objective, Terms
from lemmata.trust.robust.ball import Perturbations
from lemmata.trust.robust.scores import evaluating

ONE_STEP = 1.25  # of ε: the step of FGSM from a random start (Wong, Rice & Kolter 2020)
MANY_STEPS = 2.5  # of ε: what the steps of PGD add up to
NEAR = 1e-3  # of ε: where TRADES starts, since the divergence is flat at x


@storable
@dataclass(frozen=True)
class AdversarialTraining(Objective):
    """The loss of rows at the worst perturbation found in a ball, for `NeuralClassifier(loss=…)`.

    ball : Ball(eps, norm, low, high), in the units that the network sees
    steps : of the attack; 1 is FGSM from a random start
    trades : β of TRADES; None trains on the perturbed rows alone
    """

    ball: Perturbations
    steps: int = 1
    trades: float | None = None

    def __post_init__(self):
        if not isinstance(self.ball, Perturbations):
            raise TypeError(f"ball is a {type(self.ball).__name__}; pass Ball(eps, norm, low, high).")  # fmt: skip
        if not isinstance(self.steps, int) or self.steps < 1:
            raise ValueError(f"steps={self.steps!r}: pass a whole number >= 1.")
        if self.trades is not None and not self.trades > 0:
            raise ValueError(f"trades={self.trades!r}, the weight β: pass a number above 0, or None.")  # fmt: skip

    def __call__(self, net: nn.Module, batch: Sequence[Tensor], rng: torch.Generator) -> Any:
        x, y = batch
        if self.trades is None:
            return _cross_entropy(net(self.perturb(net, x, y, rng)), y)
        moved = self.perturb(net, x, y, rng)
        clean = net(x)
        divergence = _divergence(clean, net(moved))
        losses = _cross_entropy(clean, y)
        return Terms(losses + self.trades * divergence, {"divergence": divergence})

    def perturb(self, net: nn.Module, x: Tensor, y: Tensor, rng: torch.Generator) -> Tensor:
        """Return the rows x moved within their balls, to where the loss (or the divergence of TRADES) is larger."""
        draws = torch.randint(2**63 - 1, (), generator=rng, device=rng.device)
        X = self.ball.check_rows(x.flatten(1))
        Z = self.ball.draw(X, np.random.default_rng(int(draws)))
        if self.trades is not None:
            Z = X + X.dtype.type(NEAR) * (Z - X)
        size = self.ball.eps * (ONE_STEP if self.steps == 1 else MANY_STEPS / self.steps)
        with evaluating(net), torch.enable_grad():
            if self.trades is not None:
                with torch.no_grad():
                    clean = net(x)
            for _ in range(self.steps):
                z = torch.from_numpy(Z).to(x).reshape(x.shape).requires_grad_()
                out = net(z)
                loss = _cross_entropy(out, y) if self.trades is None else _divergence(clean, out)
                (found,) = torch.autograd.grad(loss.sum(), z)
                G = found.flatten(1).cpu().numpy()
                Z = self.ball.project(Z + X.dtype.type(size) * self.ball.steer(G, Z), X)
        return torch.from_numpy(Z).to(x).reshape(x.shape)


def _cross_entropy(out: Tensor, y: Tensor) -> Tensor:
    if out.ndim != 2 or (out.shape[1] > 1 and not 0 <= int(y.min()) <= int(y.max()) < out.shape[1]):
        raise ValueError(
            f"the network gives {tuple(out.shape)} for labels up to {int(y.max())}; pass one with a score per class."
        )
    if out.shape[1] == 1:
        return F.binary_cross_entropy_with_logits(out[:, 0], y.to(out.dtype), reduction="none")
    return F.cross_entropy(out, y.long(), reduction="none")


def _divergence(clean: Tensor, moved: Tensor) -> Tensor:
    """KL(p(clean) ‖ p(moved)) of each row."""
    if clean.shape[1] == 1:
        clean, moved = (torch.cat([torch.zeros_like(one), one], 1) for one in (clean, moved))
    p, q = F.log_softmax(clean, 1), F.log_softmax(moved, 1)
    return (p.exp() * (p - q)).sum(1)
