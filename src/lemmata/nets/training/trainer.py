"""A network in training: module, optimiser and running mean of the weights on a device; its state is made of arrays.

An update of a batch of B rows with weights wᵢ (of mean 1 over the data), cut into m parts of which each process has some:

    g = Σ_parts ∇ (1/B) Σ_i wᵢ ℓᵢ,      g ← g · min(1, clip/‖g‖),      w ← optimiser(w, g, η),      e ← β e + (1 − β) w

so that cutting a batch into parts (`accumulate`), or sharing it among processes, changes g by rounding only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from lemmata.core.files.encoding import storable
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
    """Raise ValueError unless arrays are those of the tensors of a module, or of some of them."""
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
    ema: Arrays | None  # running mean of the weights
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
        share: Share = Share(),  # noqa: B008
    ):
        self.module, self.objective, self.place, self.share = module, objective, place, share
        self.optimizer, self.schedule = optimizer, schedule
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
        # memory before the first step: with PyTorch before 2.13, Adagrad's sums
        self.fresh = memory_of(self.optimizer, self.names)
        self.mean: list[Tensor] = []  # e, of the weights that are trained
        self.updates, self.rate = 0, math.nan

    # --- in and out ---

    def load(
        self, model: Arrays, memory: Mapping[str, Any], ema: Arrays | None, updates: int
    ) -> None:
        load_arrays(self.module, model)
        load_memory(self.optimizer, self.weights, memory or self.fresh)
        self.updates, self.mean = updates, []
        if self.decay is not None:
            self.mean = [weight.detach().clone() for weight in self.trained]
            for mean, weight in zip(self.mean, self.trained, strict=True):
                if ema is not None:
                    mean.copy_(torch.from_numpy(ema[self.names[id(weight)]]))

    def memory(self) -> dict[str, dict[str, Any]]:
        return memory_of(self.optimizer, self.names)

    def ema(self) -> Arrays | None:
        """e by name: the same names as the weights have in the module, shared ones under each of theirs."""
        if self.decay is None:
            return None
        by_weight = {
            id(weight): np.array(mean.cpu().numpy(), order="C")
            for weight, mean in zip(self.trained, self.mean, strict=True)
        }
        named = self.module.named_parameters(remove_duplicate=False)
        return {name: by_weight[id(w)] for name, w in named if id(w) in by_weight}

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
        """Update the weights once; return the mean loss of the batch before that, and of what else the objective gives."""
        if rate != self.rate:
            self.rate = rate
            for group in self.optimizer.param_groups:
                group["lr"] = rate
        self.optimizer.zero_grad(set_to_none=True)
        self.seed(seed)
        if self.accumulate == 1 and len(batch.parts[0]):
            means = self._backward(batch)
        else:
            means = {"loss": 0.0}
            for part in self._parts(batch):
                add_to(means, self._backward(part))
        if self.share.size > 1:
            means = self._add_up(means)
        if not math.isfinite(means["loss"]):
            raise self.diagnose(batch, seed, means["loss"])
        if self.clip is not None:
            nn.utils.clip_grad_norm_(self.trained, self.clip)
        self.optimizer.step()
        self.updates += 1
        if self.decay is not None:
            # early on a mean over few updates, so that the first weights are soon forgotten
            decay = min(self.decay, (1 + self.updates) / (10 + self.updates))
            with torch.no_grad():
                torch._foreach_lerp_(self.mean, self.trained, 1 - decay)
        return means

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

    def _backward(self, batch: Batch) -> dict[str, float]:
        parts = self.inputs(batch.parts)
        if self.narrow:
            with self.place.autocast():
                found = self.objective(self.module, parts, self.rng)
        else:
            found = self.objective(self.module, parts, self.rng)
        loss = share_of_mean(found.losses if isinstance(found, Terms) else found, batch)
        loss.backward()
        means = {"loss": loss.item()}
        return {**means, **numbers_of(found, batch)} if isinstance(found, Terms) else means

    def inputs(self, parts: Sequence[Tensor]) -> list[Tensor]:
        """The batch on this device, augmented."""
        found = [self.place.tensor(part) for part in parts]
        if self.augment is not None:
            with torch.no_grad():
                found[0] = self.augment(found[0], self.rng)
        return found

    def _add_up(self, means: dict[str, float]) -> dict[str, float]:
        total = torch.tensor(list(means.values()), dtype=torch.float64)
        for weight in self.trained:
            if weight.grad is None:
                weight.grad = torch.zeros_like(weight)
        add_up([total, *(weight.grad for weight in self.trained if weight.grad is not None)])
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
        sums, scored = {"rows": 0.0, "loss": 0.0}, 0.0
        for batch in data.in_order(size):
            parts = [self.place.tensor(part) for part in batch.parts]
            with self.place.autocast():
                if isinstance(self.objective, Predicting):
                    outputs = self.module(parts[0])
                    terms = Terms(self.objective.of(outputs, parts))
                    if score is not None:
                        own = score(outputs, parts[1]).double()
                        scored += float(
                            (own if batch.weights is None else own * batch.weights).sum()
                        )
                else:
                    terms = as_terms(self.objective(self.module, parts, self.rng))
            whole = Batch(batch.parts, batch.weights, 1)
            weight = len(parts[0]) if batch.weights is None else float(batch.weights.sum())
            loss = float(share_of_mean(terms.losses.double(), whole))
            add_to(sums, {"rows": weight, "loss": loss, **numbers_of(terms, whole)})
        self.module.train(was)
        means = {name: value / sums["rows"] for name, value in sums.items()}
        score_mean = scored / sums["rows"] if score is not None else math.nan
        return {**means, "rows": sums["rows"], "score": score_mean}


def add_to(sums: dict[str, float], more: Mapping[str, float], times: float = 1.0) -> None:
    for name, value in more.items():
        sums[name] = sums.get(name, 0.0) + value * times


def numbers_of(terms: Terms, batch: Batch) -> dict[str, float]:
    """The further numbers of an objective: their share of the mean of a batch. A mean counts as much as its rows."""
    rows, found = len(batch.parts[0]), {}
    for name, value in terms.numbers.items():
        value = value.detach().double()
        found[name] = float(share_of_mean(value.expand(rows) if value.ndim == 0 else value, batch))
    return found


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
