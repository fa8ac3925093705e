"""Optimisers of networks: torch.optim behind the names of `lemmata.optim`, their memory as arrays; learning-rate schedules.

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

The learning rate of every update follows a schedule of `lemmata.optim`, or one of the two that networks add:

    WarmUp       ηₜ = (t + 1)/(T + 1) · η₀ for t < T, then another schedule begins: statistics of adaptive methods settle first
    OneCycle     up from η/25 to η for `rise` of the way, along a cosine, then down to η/10⁴ (Smith 2018)

>>> schedule = schedule_by_name("cosine", 0.1, updates=100, warmup=10)
>>> [round(schedule(t), 3) for t in (0, 4, 10, 55, 100)]
[0.009, 0.045, 0.1, 0.05, 0.0]
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from lemmata.nets.training.transfer import factors_of
from lemmata.optim.schedules import Constant, Cosine, Schedule, StepDecay, check_range

SCHEDULES = ("constant", "step", "cosine", "one_cycle")
COUNTERS = (
    "step",
    "mu_product",
)  # one number for a weight; all else that optimisers remember has its shape
NEEDS_LENGTH = ("step", "cosine", "one_cycle")


class TorchSignSGD(torch.optim.Optimizer):
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
class OptimizerEntry:
    """An optimiser of the table: its class, the rate it begins with, and its options."""

    cls: Callable[..., torch.optim.Optimizer]
    rate: float
    options: Mapping[str, Any]
    fused: bool = False  # has one loop over all weights, in C++


OPTIMIZERS: dict[str, OptimizerEntry] = {
    "sgd": OptimizerEntry(torch.optim.SGD, 0.1, {}, True),
    "heavy_ball": OptimizerEntry(torch.optim.SGD, 0.02, {"momentum": 0.9}, True),
    "momentum": OptimizerEntry(torch.optim.SGD, 0.02, {"momentum": 0.9}, True),
    "nesterov": OptimizerEntry(torch.optim.SGD, 0.02, {"momentum": 0.9, "nesterov": True}, True),
    "sign": OptimizerEntry(TorchSignSGD, 1e-4, {}),
    "adagrad": OptimizerEntry(torch.optim.Adagrad, 1e-2, {}, True),
    "rmsprop": OptimizerEntry(torch.optim.RMSprop, 1e-3, {}),
    "adam": OptimizerEntry(torch.optim.Adam, 1e-3, {}, True),
    "adamw": OptimizerEntry(torch.optim.AdamW, 1e-3, {}, True),
    "nadam": OptimizerEntry(torch.optim.NAdam, 2e-3, {}),
    "radam": OptimizerEntry(torch.optim.RAdam, 1e-3, {}),
}


def default_rate(optimizer: Any) -> float:
    """The learning rate of an optimiser by default."""
    if callable(optimizer):
        raise ValueError(
            "learning_rate=None needs an optimiser by name; pass a number to your own."
        )
    return _find_optimizer(optimizer).rate


def _find_optimizer(optimizer: Any) -> OptimizerEntry:
    if optimizer not in OPTIMIZERS:
        raise ValueError(
            f"optimizer={optimizer!r} is not known; there are {', '.join(OPTIMIZERS)}, or pass a function of (groups, lr)."
        )
    return OPTIMIZERS[optimizer]


def weight_groups(
    module: nn.Module, weight_decay: float, rates: Mapping[str, float] | None = None
) -> list[dict[str, Any]]:
    """The weights that are trained, those that decay first: matrices and filters outside of normalisations. Weights with
    rates of their own are groups with a "factor"."""
    decaying: list[nn.Parameter] = []
    others: list[nn.Parameter] = []
    seen: set[int] = set()
    for owner in module.modules():
        is_norm = "norm" in type(owner).__name__.lower()
        for _, weight in owner.named_parameters(recurse=False):
            if weight.requires_grad and id(weight) not in seen:
                seen.add(id(weight))
                (others if is_norm or weight.ndim < 2 else decaying).append(weight)
    groups: list[dict[str, Any]] = [
        {"params": decaying, "weight_decay": weight_decay},
        {"params": others, "weight_decay": 0.0},
    ]
    if rates:
        by_name = factors_of([name for name, _ in module.named_parameters()], rates)
        factors = {id(w): by_name.get(name, 1.0) for name, w in module.named_parameters()}
        groups = [
            {**group, "factor": factor, "params": [w for w in group["params"] if factors[id(w)] == factor]}
            for group in groups
            for factor in sorted(set(factors.values()))
        ]  # fmt: skip
    return [group for group in groups if group["params"]]


def make_optimizer(
    optimizer: Any,
    module: nn.Module,
    rate: float,
    weight_decay: float,
    options: Mapping[str, Any],
    rates: Mapping[str, float] | None = None,
) -> torch.optim.Optimizer:
    """An optimiser of the weights of a module."""
    groups = weight_groups(module, weight_decay, rates)
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
    named = _find_optimizer(optimizer)
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
    """The memory of an optimiser for each weight, by the name of the weight: arrays and numbers."""
    return {
        names[id(weight)]: {key: _to_array(value) for key, value in kept.items()}
        for weight, kept in optimizer.state.items()
    }


def load_memory(
    optimizer: torch.optim.Optimizer, weights: Mapping[str, torch.Tensor], memory: Mapping[str, Any]
) -> None:
    """Give an optimiser the memory of `memory_of`."""
    optimizer.state.clear()
    for name, kept in memory.items():
        weight = weights.get(name)
        if weight is None or not isinstance(kept, dict):
            raise ValueError(
                f"the optimiser remembers {name!r}, which is no weight of the network."
            )
        if kept.keys() != next(iter(memory.values())).keys():
            raise ValueError(f"the optimiser remembers other things of {name!r} than of others.")
        for key, value in kept.items():
            # fused steps do not look where they read
            numbers, counts = np.asarray(value), key in COUNTERS
            fits = numbers.shape == (() if counts else weight.shape) and numbers.dtype.kind in "iuf"
            same = type(value) is np.ndarray and str(value.dtype) == str(weight.dtype).split(".")[1]
            if not fits or not (counts or same) or not np.isfinite(numbers).all():
                raise ValueError(
                    f"{key!r} of {name!r} does not fit a weight of shape {tuple(weight.shape)}."
                )
        optimizer.state[weight] = {key: _to_tensor(value, weight) for key, value in kept.items()}


def _to_array(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return np.array(value.detach().cpu().numpy(), order="C")
    return value


def _to_tensor(value: Any, weight: torch.Tensor) -> Any:
    if not isinstance(value, np.ndarray):
        return value
    if value.shape == tuple(weight.shape) and value.ndim:
        # in the memory format of the weight
        return torch.empty_like(
            weight, dtype=torch.from_numpy(value[:0]).dtype, requires_grad=False
        ).copy_(torch.from_numpy(value))
    return torch.from_numpy(value.copy())


# --- schedules --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class WarmUp:
    """Rises linearly to the first rate of `then` in `steps` updates, then follows it."""

    then: Schedule
    steps: int

    def __post_init__(self):
        check_range("steps", self.steps, 1)

    @property
    def exponent(self) -> float:
        return self.then.exponent

    def __call__(self, t: int) -> float:
        if t < self.steps:
            return self.then(0) * (t + 1) / (self.steps + 1)
        return self.then(t - self.steps)


@dataclass(frozen=True)
class OneCycle:
    """Half a wave up to `step_size`, half a wave down to nearly nothing, in `steps` updates."""

    step_size: float
    steps: int
    rise: float = 0.3
    exponent = 0.0  # it ends at 10⁻⁴ of its height and stays there

    def __post_init__(self):
        check_range("step_size", self.step_size, 0, open_low=True)
        check_range("steps", self.steps, 1)
        check_range("rise", self.rise, 0, 1, open_low=True)

    def __call__(self, t: int) -> float:
        top = self.rise * self.steps
        if t < top:
            return _half_wave(self.step_size / 25, self.step_size, t / top)
        left = (t - top) / (self.steps - top)
        return _half_wave(self.step_size, self.step_size / 1e4, min(left, 1.0))


def _half_wave(begin: float, end: float, share: float) -> float:
    return end + 0.5 * (begin - end) * (1 + math.cos(math.pi * share))


def warmup_updates(warmup: float, updates: int | None) -> int:
    """A share of the run, below 1, or a number of updates."""
    if not warmup >= 0 or (warmup >= 1 and warmup != int(warmup)):
        raise ValueError(
            f"warmup={warmup}; pass a share of the run in [0, 1), or a whole number of updates."
        )
    if warmup >= 1:
        return int(warmup)
    if warmup > 0 and updates is None:
        raise ValueError(
            f"warmup={warmup} is a share of the run, whose length is not known: pass epochs, or a number of updates."
        )
    return round(warmup * (updates or 0))


def schedule_by_name(
    schedule: Any, rate: float, updates: int | None, warmup: float = 0
) -> Schedule:
    """The schedule of a run of so many updates.

    schedule : "constant", "step" (a tenth after a half and after three quarters), "cosine" (down to 0), "one_cycle",
        or a function t → ηₜ such as those of `lemmata.optim`
    """
    if not callable(schedule) and schedule not in SCHEDULES:
        raise ValueError(
            f"schedule={schedule!r} is not known; there are {', '.join(SCHEDULES)}, or pass a function t → rate."
        )
    if schedule in NEEDS_LENGTH and updates is None:
        raise ValueError(
            f"schedule={schedule!r} needs to know the length of the run: pass epochs, and data whose batches can be counted."
        )
    begin, found = warmup_updates(warmup, updates), schedule
    if schedule == "constant":
        found = Constant(rate)
    elif not callable(schedule):
        kinds = {"step": TwoDrops, "cosine": Cosine, "one_cycle": OneCycle}
        found = kinds[schedule](rate, max((updates or 0) - begin, 1))
    return WarmUp(found, begin) if begin else found


@dataclass(frozen=True)
class TwoDrops:
    """A tenth of the rate after half of the run, a hundredth after three quarters: `StepDecay` with uneven intervals."""

    step_size: float
    steps: int
    exponent = 0.0

    def __call__(self, t: int) -> float:
        drops = (t >= self.steps / 2) + (t >= 3 * self.steps / 4)
        return StepDecay(self.step_size, factor=0.1, every=1)(int(drops))
