"""Optimisers of networks: torch.optim behind the names of `lemmata.optim`, and their memory as arrays.

    sgd           w ← w − η g
    heavy_ball    v ← β v + g,   w ← w − η v                          β = 0.9          (momentum)
    nesterov      v ← β v + g,   w ← w − η (g + β v)                  β = 0.9
    sign          w ← w − η sign(g)
    adagrad       s ← s + g²,    w ← w − η g/√s
    rmsprop       s ← ρ s + (1 − ρ) g²,   w ← w − η g/√s              ρ = 0.99
    adam          m, s: running means of g and g²,   w ← w − η m̂/√ŝ   β = (0.9, 0.999)
    adamw         … and w ← (1 − ηλ) w: weight decay that the scaling by √ŝ leaves alone
    nadam, radam  Adam with Nesterov's look ahead; with a warm-up of its own

In all but adamw weight decay λ is the gradient of ½ λ‖w‖². It is on matrices and filters, never on biases and the scales of
normalisations: those have one number per unit, and pulling them to 0 only fights what they are for.

>>> sorted(OPTIMIZERS)[:4]
['adagrad', 'adam', 'adamw', 'heavy_ball']
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn


class SignSGD(torch.optim.Optimizer):
    """w ← w − η sign(g): every weight moves by the same amount."""

    def __init__(self, params, lr: float = 1e-4, weight_decay: float = 0.0):
        super().__init__(params, {"lr": lr, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for weight in group["params"]:
                if weight.grad is not None:
                    gradient = weight.grad.add(weight, alpha=group["weight_decay"])
                    weight.sub_(gradient.sign_(), alpha=group["lr"])


@dataclass(frozen=True)
class Named:
    """An optimiser of the table: its class, the rate it begins with, and its options."""

    cls: Callable[..., torch.optim.Optimizer]
    rate: float
    options: Mapping[str, Any]
    fused: bool = False  # has one loop over all weights, in C++


OPTIMIZERS: dict[str, Named] = {
    "sgd": Named(torch.optim.SGD, 0.1, {}, True),
    "heavy_ball": Named(torch.optim.SGD, 0.02, {"momentum": 0.9}, True),
    "momentum": Named(torch.optim.SGD, 0.02, {"momentum": 0.9}, True),
    "nesterov": Named(torch.optim.SGD, 0.02, {"momentum": 0.9, "nesterov": True}, True),
    "sign": Named(SignSGD, 1e-4, {}),
    "adagrad": Named(torch.optim.Adagrad, 1e-2, {}, True),
    "rmsprop": Named(torch.optim.RMSprop, 1e-3, {}),
    "adam": Named(torch.optim.Adam, 1e-3, {}, True),
    "adamw": Named(torch.optim.AdamW, 1e-3, {}, True),
    "nadam": Named(torch.optim.NAdam, 2e-3, {}),
    "radam": Named(torch.optim.RAdam, 1e-3, {}),
}


def default_rate(optimizer: Any) -> float:
    """The learning rate of an optimiser that was given none."""
    if callable(optimizer):
        raise ValueError(
            "learning_rate=None needs an optimiser by name; pass a number to your own."
        )
    return _known(optimizer).rate


def _known(optimizer: Any) -> Named:
    if optimizer not in OPTIMIZERS:
        raise ValueError(
            f"optimizer={optimizer!r} is not known; there are {', '.join(OPTIMIZERS)}, or pass a "
            "function of (groups, lr)."
        )
    return OPTIMIZERS[optimizer]


def weight_groups(module: nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    """The weights that are trained, those that decay first: matrices and filters outside of normalisations."""
    decaying: list[nn.Parameter] = []
    others: list[nn.Parameter] = []
    seen: set[int] = set()
    for owner in module.modules():
        is_norm = "norm" in type(owner).__name__.lower()
        for _, weight in owner.named_parameters(recurse=False):
            if weight.requires_grad and id(weight) not in seen:
                seen.add(id(weight))
                (others if is_norm or weight.ndim < 2 else decaying).append(weight)
    groups = [
        {"params": decaying, "weight_decay": weight_decay},
        {"params": others, "weight_decay": 0.0},
    ]
    return [group for group in groups if group["params"]]


def make_optimizer(
    optimizer: Any, module: nn.Module, rate: float, weight_decay: float, options: Mapping[str, Any]
) -> torch.optim.Optimizer:
    """An optimiser of the weights of a module."""
    groups = weight_groups(module, weight_decay)
    if not groups:
        raise ValueError(
            f"{type(module).__name__} has no weight to train (none with requires_grad)."
        )
    if not isinstance(optimizer, str):
        if not callable(optimizer):
            raise TypeError(
                f"optimizer is a {type(optimizer).__name__}; pass one of {', '.join(OPTIMIZERS)}, "
                "or a function of (groups, lr)."
            )
        return optimizer(groups, lr=rate, **options)
    named = _known(optimizer)
    weights = [weight for group in groups for weight in group["params"]]
    fused = named.fused and all(
        w.is_floating_point() and w.device.type in ("cpu", "cuda") for w in weights
    )
    try:
        return named.cls(
            groups, lr=rate, **{**named.options, **({"fused": True} if fused else {}), **options}
        )
    except TypeError as error:
        raise ValueError(
            f"optimizer_options={dict(options)} do not fit {optimizer!r}: {error}."
        ) from None


# --- memory as arrays -------------------------------------------------------------------------------------------------


def memory_of(
    optimizer: torch.optim.Optimizer, names: Mapping[int, str]
) -> dict[str, dict[str, Any]]:
    """What an optimiser remembers of each weight, by the name of the weight: arrays and numbers."""
    return {
        names[id(weight)]: {key: _stored(value) for key, value in kept.items()}
        for weight, kept in optimizer.state.items()
    }


def recall(
    optimizer: torch.optim.Optimizer, weights: Mapping[str, torch.Tensor], memory: Mapping[str, Any]
) -> None:
    """Give an optimiser the memory of `memory_of`."""
    optimizer.state.clear()
    for name, kept in memory.items():
        weight = weights[name]
        optimizer.state[weight] = {key: _recalled(value, weight) for key, value in kept.items()}


def _stored(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return np.array(value.detach().cpu().numpy(), order="C")
    return value


def _recalled(value: Any, weight: torch.Tensor) -> Any:
    if not isinstance(value, np.ndarray):
        return value
    if value.shape == tuple(weight.shape) and value.ndim:
        # in the memory format of the weight
        return torch.empty_like(
            weight, dtype=torch.from_numpy(value[:0]).dtype, requires_grad=False
        ).copy_(torch.from_numpy(value))
    return torch.from_numpy(value.copy())
