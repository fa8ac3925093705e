"""A network in training: module, optimiser and running mean of the weights on a device; its state is made of arrays.

An update of a batch of B rows with weights wᵢ (of mean 1 over the data), cut into m parts of which each process has some:

    g = Σ_parts ∇ (1/B) Σ_i wᵢ ℓᵢ,      g ← g · min(1, clip/‖g‖),      w ← optimiser(w, g, η),      e ← β e + (1 − β) w

so that cutting a batch into parts (`accumulate`), or sharing it among processes, changes g by rounding only. Where row i is a
sum over nᵢ things (`Terms.counts`), g is divided by (1/B) Σ_i wᵢ nᵢ of the whole batch, once that is known. Which gradients
are taken, and in which order they are applied, is the rule's (rules.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from lemmata.core.files.encoding import storable
from lemmata.core.files.layout import check_stored
from lemmata.nets.data.batches import Batch, Data, Share
from lemmata.nets.training.counting import AT_ONCE
from lemmata.nets.training.devices import Place, add_up
from lemmata.nets.training.losses import (
    NonFiniteLoss,
    Objective,
    Predicting,
    Terms,
    as_terms,
    first_nonfinite,
)
from lemmata.nets.training.optimisers import load_memory, memory_of
from lemmata.nets.training.rules import LossDescent, Players, Rule

Array = np.ndarray
Arrays = dict[str, Array]


def arrays_of(module: nn.Module) -> Arrays:
    """A copy of the parameters and buffers of a module, by name."""
    found = {}
    for name, tensor in module.state_dict().items():
        if tensor.dtype in (torch.bfloat16, torch.float16) or tensor.is_complex():
            raise ValueError(
                f"{name!r} holds {tensor.dtype}; weights are float32 or float64. For narrow products pass precision='bfloat16'."
            )
        found[name] = np.array(tensor.detach().cpu().numpy(), order="C")
    return found


def check_arrays(module: nn.Module, arrays: Mapping[str, Array], some: bool = False) -> None:
    """Raise ValueError unless arrays are those of the tensors of a module, or of some of them, and its buffers hold what the
    `stored_layout` of its parts says (core/files/layout.py).
    """
    own = module.state_dict()
    wrong = [f"{name} is missing" for name in own if name not in arrays and not some]
    wrong += [f"there is no {name}" for name in arrays if name not in own]
    wrong += [
        f"{name} has shape {arrays[name].shape}, not {tuple(tensor.shape)}"
        for name, tensor in own.items()
        if name in arrays and arrays[name].shape != tuple(tensor.shape)
    ]
    if wrong:
        more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
        raise ValueError(
            f"these weights are not those of this {type(module).__name__}: {wrong[0]}{more}."
        )
    for prefix, part in module.named_modules():
        for name, spec in getattr(part, "stored_layout", {}).items():
            if (key := f"{prefix}.{name}".lstrip(".")) in arrays:
                check_stored(key, arrays[key], spec, {})


def load_arrays(module: nn.Module, arrays: Mapping[str, Array]) -> None:
    """Copy arrays into the tensors of a module, which stay where they are; ValueError says what does not fit."""
    check_arrays(module, arrays)
    with torch.no_grad():
        for name, tensor in module.state_dict().items():
            tensor.copy_(torch.from_numpy(np.ascontiguousarray(arrays[name])).view(tensor.shape))


@storable
@dataclass(frozen=True)
class TrainingState:
    """All that the next batch needs."""

    version: ClassVar[int] = 2
    layout: ClassVar[Mapping[str, str]] = {
        "epoch batch updates seed since_best pace": "int >=0",
        "at_once": "int >0",
        "loss": "",
        "rate": ">=0",
        "validation_loss validation_score best_loss": "any",
    }

    model: Arrays  # weights and buffers by name
    memory: dict[str, dict[str, Any]]  # of the optimiser, by weight
    ema: Arrays | None  # running mean of the weights, and of buffers of floats
    best: Arrays | None  # what `module` shows of the state with the least validation loss
    epoch: int
    batch: int  # batches of this epoch that are done
    updates: int
    seed: int
    loss: float  # see `measured`
    measured: str  # "running": over the batches that led here; "evaluated": of this state
    rate: float  # learning rate of the last update
    validation_loss: float  # of the weights that are shown; NaN without validation data
    validation_score: float
    best_loss: float
    since_best: int  # measurements
    device: str
    precision: str
    memory_format: str
    sums: dict[
        str, float
    ]  # over the rows of this epoch so far: "rows", "loss", and what the objective names
    pace: int  # batches in a step; 0: an epoch
    at_once: int  # rows that are evaluated together

    @classmethod
    def upgrade(cls, fields: dict[str, Any], version: int) -> dict[str, Any]:
        """From version 1, which measured by steps."""
        return {**fields, "sums": {"rows": 0.0, "loss": 0.0}, "pace": 0, "at_once": AT_ONCE}


def weights_to_use(state: TrainingState) -> Arrays:
    """The weights to use: their running mean where there is one."""
    return state.model if state.ema is None else {**state.model, **state.ema}


class Trainer:
    """Module and optimiser, ready for the next batch."""

    def __init__(
        self,
        module: nn.Module,
        objective: Objective,
        place: Place,
        optimizer: torch.optim.Optimizer,
        schedule: Callable[[int], float],
        *,
        augment: Callable[[Tensor, torch.Generator], Tensor] | None = None,
        accumulate: int = 1,
        clip: float | None = None,
        ema: float | None = None,
        rule: Rule = LossDescent(),  # noqa: B008
        share: Share = Share(),  # noqa: B008
    ):
        self.module, self.objective, self.place, self.share = module, objective, place, share
        self.optimizer, self.schedule, self.rule = optimizer, schedule, rule
        self.augment, self.accumulate, self.clip, self.decay = augment, accumulate, clip, ema
        self.rng = torch.Generator(place.device)
        # a loss of outputs and targets draws nothing, so that its generator need not be seeded
        self.draws = augment is not None or type(objective) is not Predicting
        self.narrow = place.precision == "bfloat16"
        self.weights = dict(self.module.named_parameters())
        self.names = {id(weight): name for name, weight in self.weights.items()}
        self.trained: list[Tensor] = [
            weight for weight in self.weights.values() if weight.requires_grad
        ]
        self.of_player = objective.weights(module) if isinstance(objective, Players) else {}
        self.players = tuple(self.of_player)
        self.numbers: tuple[str, ...] = ()  # what the objective names, for a process without rows
        # memory before the first step: with PyTorch before 2.13, Adagrad's sums
        self.fresh = memory_of(self.optimizer, self.names)
        self.averaged: list[Tensor] = []  # the weights that are trained, and buffers of floats
        self.mean: list[Tensor] = []  # e, of these
        self.updates, self.rate = 0, math.nan

    # --- in and out ---

    def load(
        self, model: Arrays, memory: Mapping[str, Any], ema: Arrays | None, updates: int
    ) -> None:
        load_arrays(self.module, model)
        load_memory(self.optimizer, self.weights, memory or self.fresh)
        self.optimizer.zero_grad(set_to_none=True)
        self.updates = updates
        if self.decay is not None:
            named = {id(tensor): name for name, tensor in self._find_averaged()}
            unique = {id(tensor): tensor for _, tensor in self._find_averaged()}
            self.averaged = list(unique.values())
            self.mean = [tensor.detach().clone() for tensor in self.averaged]
            for mean, tensor in zip(self.mean, self.averaged, strict=True):
                # states of versions that averaged weights alone have no buffers
                if ema is not None and (name := named[id(tensor)]) in ema:
                    mean.copy_(torch.from_numpy(ema[name]))

    def _find_averaged(self) -> Iterator[tuple[str, Tensor]]:
        """Yield what the running mean is of, by every name that it has in the module: trained weights, and buffers of floats
        (those of batch normalisation follow other weights than the mean's) unless they hold infinities, as masks do."""
        trained = {id(weight) for weight in self.trained}
        for name, tensor in self.module.state_dict(keep_vars=True).items():
            if isinstance(tensor, nn.Parameter):
                if id(tensor) in trained:
                    yield name, tensor
            elif tensor.is_floating_point() and torch.isfinite(tensor).all():
                yield name, tensor

    def memory(self) -> dict[str, dict[str, Any]]:
        return memory_of(self.optimizer, self.names)

    def ema(self) -> Arrays | None:
        """e by name: the same names as in the module, shared weights under each of theirs."""
        if self.decay is None:
            return None
        found = {
            id(tensor): np.array(mean.cpu().numpy(), order="C")
            for tensor, mean in zip(self.averaged, self.mean, strict=True)
        }
        named = self.module.state_dict(keep_vars=True).items()
        return {name: found[id(tensor)] for name, tensor in named if id(tensor) in found}

    # --- learning ---

    def seed(self, seed: int) -> None:
        """Seed dropout, augmentation and objectives: each process has its own stream."""
        seed = (seed + 0x9E3779B97F4A7C15 * self.share.rank) % 2**63
        if self.place.device == "cpu":
            torch.default_generator.manual_seed(seed)
        else:
            torch.manual_seed(seed)
        if self.draws:
            self.rng.manual_seed(seed ^ 0x2545F4914F6CDD1D)

    def update(self, batch: Batch, seed: int, rate: float) -> dict[str, float]:
        """Update the weights once; return the mean loss of the batch before that, what else the objective gives, and under
        "rows" how many rows, or counted things, these are means over."""
        means = self.rule.update(self, batch, seed, rate)
        self.updates += 1
        with torch.no_grad():
            if callable(updated := getattr(self.module, "updated", None)):
                updated()
            if self.decay is not None:
                # early on a mean over few updates, so that the first weights are soon forgotten
                decay = min(self.decay, (1 + self.updates) / (10 + self.updates))
                torch._foreach_lerp_(self.mean, self.averaged, 1 - decay)
        return means

    def gradients(self, batch: Batch, seed: int, player: str | None = None) -> dict[str, float]:
        """Add the gradient of a batch to those of the weights, or of one player's weights; return the means of the batch."""
        self.seed(seed)
        with self._only(player) as weights:
            means: dict[str, float] = {}
            for part in self._parts(batch):
                add_to(means, self._backward(part, player))
            if not means:
                means = dict.fromkeys(("loss", "counted", *self.numbers), 0.0)
            if self.share.size > 1:
                means = self._add_up(means, weights)
        if not math.isfinite(means["loss"]):
            raise self.diagnose(batch, seed, means["loss"])
        counted = means.pop("counted")
        if math.isnan(counted):
            return {**means, "rows": float(batch.rows)}
        times = 1 / counted if counted > 0 else 0.0
        torch._foreach_mul_([weight.grad for weight in weights if weight.grad is not None], times)
        return {**{k: v * times for k, v in means.items()}, "rows": counted * batch.rows}

    def apply(self, rate: float) -> None:
        """Make the optimiser's step by the gradients that were added up, of whichever weights have one, and forget them."""
        if rate != self.rate:
            self.rate = rate
            for group in self.optimizer.param_groups:
                group["lr"] = rate * group.get("factor", 1.0)
        if self.clip is not None:
            nn.utils.clip_grad_norm_(self.trained, self.clip)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)

    @contextmanager
    def _only(self, player: str | None) -> Iterator[list[Tensor]]:
        """Only the weights of this player need gradients; of all of them without one."""
        others = [w for p in self.players if p != player for w in self.of_player[p]]
        for weight in others:
            weight.requires_grad_(False)
        try:
            yield self.trained if player is None else self.of_player[player]
        finally:
            for weight in others:
                weight.requires_grad_(True)

    def _parts(self, batch: Batch) -> list[Batch]:
        n = len(batch.parts[0])
        if self.accumulate == 1 or n == 0:
            return [batch] if n else []
        cuts = np.linspace(0, n, min(self.accumulate, n) + 1).astype(int)
        return [
            Batch(
                tuple(part[a:b] for part in batch.parts),
                None if batch.weights is None else batch.weights[a:b],
                batch.rows,
            )
            for a, b in pairwise(cuts)
        ]

    def _backward(self, batch: Batch, player: str | None) -> dict[str, float]:
        parts = self.inputs(batch.parts)
        if self.narrow:
            with self.place.autocast():
                found = self._losses(parts, player)
        else:
            found = self._losses(parts, player)
        terms = as_terms(found)
        loss = share_of_mean(terms.losses, batch)
        loss.backward()
        return {"loss": loss.item(), "counted": count_of(terms, batch), **numbers_of(terms, batch)}

    def _losses(self, parts: Sequence[Tensor], player: str | None) -> Any:
        if player is None:
            return self.objective(self.module, parts, self.rng)
        return self.objective.of(player, self.module, parts, self.rng)  # type: ignore[attr-defined]

    def inputs(self, parts: Sequence[Tensor]) -> list[Tensor]:
        """The batch on this device, augmented."""
        found = [self.place.tensor(part) for part in parts]
        if self.augment is not None:
            with torch.no_grad():
                found[0] = self.augment(found[0], self.rng)
        return found

    def _add_up(self, means: dict[str, float], weights: list[Tensor]) -> dict[str, float]:
        total = torch.tensor(list(means.values()), dtype=torch.float64)
        for weight in weights:
            if weight.grad is None:
                weight.grad = torch.zeros_like(weight)
        add_up([total, *(weight.grad for weight in weights if weight.grad is not None)])
        return dict(zip(means, total.tolist(), strict=True))

    def diagnose(self, batch: Batch, seed: int, loss: float) -> NonFiniteLoss:
        """The error for a loss that is not finite, which names the layer."""
        self.seed(seed)
        where = "another process found it"
        for part in self._parts(batch):
            where = first_nonfinite(self.module, self.objective, self.inputs(part.parts), self.rng)
            if "itself" not in where:
                break
        return NonFiniteLoss(
            f"the loss of update {self.updates + 1} is {loss}: {where}. To fix it, lower "
            "learning_rate, pass clip=1.0, or look for extreme values in the data"
        )

    # --- measuring ---

    @torch.no_grad()
    def measure(
        self, data: Data, size: int, score: Callable[[Tensor, Tensor], Tensor] | None = None
    ) -> dict[str, float]:
        """Means over data in evaluation mode, without augmentation: "rows", "loss", what the objective names, "score".

        What is drawn is the same every time, so that two measurements differ by the weights alone.
        """
        was = self.module.training
        self.module.eval()
        self.seed(0)
        sums, scored, rows = {"rows": 0.0, "loss": 0.0}, 0.0, 0.0
        for batch in data.in_order(size):
            parts = [self.place.tensor(part) for part in batch.parts]
            with self.place.autocast():
                if isinstance(self.objective, Predicting):
                    outputs = self.module(parts[0])
                    terms = as_terms(self.objective.of(outputs, parts))
                    if score is not None:
                        own = score(outputs, parts[1]).double()
                        scored += float(
                            (own if batch.weights is None else own * batch.weights).sum()
                        )
                else:
                    terms = as_terms(self.objective(self.module, parts, self.rng))
            whole = Batch(batch.parts, batch.weights, 1)
            weight = len(parts[0]) if batch.weights is None else float(batch.weights.sum())
            rows += weight
            counted = weight if terms.counts is None else count_of(terms, whole)
            loss = float(share_of_mean(terms.losses.double(), whole))
            add_to(sums, {"rows": counted, "loss": loss, **numbers_of(terms, whole)})
        self.module.train(was)
        means = {name: value / (sums["rows"] or 1.0) for name, value in sums.items()}
        score_mean = scored / rows if score is not None else math.nan
        return {**means, "rows": sums["rows"], "score": score_mean}


def add_to(sums: dict[str, float], more: Mapping[str, float], times: float = 1.0) -> None:
    for name, value in more.items():
        sums[name] = sums.get(name, 0.0) + value * times


def numbers_of(terms: Terms, batch: Batch) -> dict[str, float]:
    """The further numbers of an objective: their share of the mean of a batch. A mean counts as much as its rows, or as what
    they count."""
    rows, found = len(batch.parts[0]), {}
    for name, value in terms.numbers.items():
        value = value.detach().double()
        if value.ndim == 0:
            value = value.expand(rows) if terms.counts is None else value * terms.counts
        found[name] = float(share_of_mean(value, batch))
    return found


def count_of(terms: Terms, batch: Batch) -> float:
    """(1/B) Σ wᵢ nᵢ over the rows at hand; NaN, which a sum keeps, where each row counts once."""
    return math.nan if terms.counts is None else float(share_of_mean(terms.counts.double(), batch))


def share_of_mean(losses: Tensor, batch: Batch) -> Tensor:
    """(1/B) Σ wᵢ ℓᵢ over the rows at hand, of a batch of B rows."""
    if losses.ndim == 0:
        n = len(batch.parts[0])
        if batch.weights is not None:
            raise ValueError(
                "rows have weights, but the loss gives the mean of a batch; let it give one number per row, shape (B,)."
            )
        return losses if n == batch.rows else losses * (n / batch.rows)
    if batch.weights is not None:
        losses = losses * batch.weights.to(losses)
    return losses.sum() / batch.rows
