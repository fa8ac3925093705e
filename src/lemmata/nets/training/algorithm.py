"""Training: a network, a loss and data become an algorithm of the one loop that runs every fit.

    minimise  (1/n) Σ_i wᵢ ℓ(f_w(xᵢ), yᵢ)  over the weights w of a network f, by updates on batches

    >>> import numpy as np, torch
    >>> from lemmata.nets.training.running import train
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(256, 2)).astype(np.float32)
    >>> y = (X[:, 0] * X[:, 1] > 0).astype(int)
    >>> def net():
    ...     return torch.nn.Sequential(torch.nn.Linear(2, 32), torch.nn.ReLU(), torch.nn.Linear(32, 2))
    >>> solution = train(Training(net, "cross_entropy", learning_rate=0.02, batch_size=32), (X, y), epochs=10, rng=0)
    >>> solution.stopped, solution.trace.last() < 0.3
    ('max steps', True)
    >>> module = solution.attributes["module_"]                 # a torch.nn.Module in evaluation mode

* A **step** of the loop is an epoch, or `batches_per_step` batches of one. Callbacks, checkpoints and clocks work between
  steps; what an epoch gives does not depend on them.
* **Randomness**: the order of an epoch, and what dropout, augmentation and the objective draw in a batch, follow from
  (seed, epoch, batch). The seed is in the state, with the position in the data: a run that was killed resumes from its
  last step and ends in the same bits.
* **The loss of a state**: `measure="running"` is the mean over the rows of its epoch so far, each batch under
  the weights before its update (the first state's: of the first batch), so it lags behind; it costs nothing. "evaluated"
  is that of the state itself over all the data, in evaluation mode: a pass more for each step.
* **A network that looks at data first** (actnorm) has a method `begin(batch)`, which is called once, before anything is
  tried, with the tensors of the first batch. A buffer of its own says that it has begun: it is called again in a warm start.
* **Any model**: `loss` is a name, a function of (outputs, targets), or an objective of (net, batch, rng) (losses.py),
  whose batches are whatever the data holds; classification is the case ``loss(net(x), y)``.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from lemmata.core.files.encoding import digest
from lemmata.core.files.owner import describe
from lemmata.nets.data.batches import Batch, Data, One, as_data, seeds
from lemmata.nets.training import devices, optimisers
from lemmata.nets.training.counting import Operations
from lemmata.nets.training.devices import Place, own_draws, reused_memory
from lemmata.nets.training.losses import Objective, as_objective, check_outputs
from lemmata.nets.training.rules import LossDescent, Rule
from lemmata.nets.training.trainer import (
    Trainer,
    TrainingState,
    add_to,
    arrays_of,
    check_arrays,
    load_arrays,
    weights_to_use,
)
from lemmata.nets.training.transfer import freeze_weights

MEASURES = ("running", "evaluated")
WEIGHTS = ("best", "mean", "raw")


@dataclass(eq=False)
class Training:
    """A network, a loss and how to train: an `Algorithm` for `lemmata.core.run`.

    It keeps the trainer of its last step, so that the next step need not load the state again; results do not depend on it.

    Parameters
    ----------
    net : torch.nn.Module, or a function without arguments that makes one
        A module is copied and its weights are where training begins; a function is called once torch's generator is seeded.
    loss : str, callable of (outputs, targets), or Objective
    optimizer, learning_rate, weight_decay, optimizer_options
        A name of `optimisers.OPTIMIZERS` or a function of (groups, lr); η (None: the usual of that optimiser); λ, not
        on biases and normalisations; further arguments such as {"momentum": 0.95}.
    schedule, warmup, epochs
        "constant", "step", "cosine", "one_cycle" or a function of the update; updates (or a share of the run) in which
        the rate rises; the length of the run, where the schedule needs it.
    batch_size, batches_per_step, accumulate
        Rows in an update; batches in a step of the loop, which ends with the epoch at the latest (None: an epoch; "auto":
        some 2 s of work by counted operations); parts in which a batch is worked on, to save memory.
    clip : float, optional
        The longest gradient (2-norm of all weights together).
    ema : float, optional
        β of the running mean of the weights, which `module` and validation then use.
    augment : callable of (batch, generator), optional
        Changes the inputs of a training batch, a tensor (B, …).
    score : callable of (outputs, targets), optional
        One number per row; its mean over the validation data is traced.
    precision, layout, device : see devices.py
    measure : {"running", "evaluated"}
    rule : Rule, default=LossDescent()
        Which gradients of a batch make an update: of one loss, or of two players in turn, at once or by extragradient.
    rates : dict of pattern and number, optional
        Factors of the learning rate by the names of weights, 0: frozen; see transfer.py.
    """

    net: nn.Module | Callable[[], nn.Module]
    loss: Any
    optimizer: Any = "adamw"
    learning_rate: float | None = None
    weight_decay: float = 0.0
    optimizer_options: Mapping[str, Any] = field(default_factory=dict)
    schedule: Any = "constant"
    warmup: float = 0
    epochs: int | None = None
    batch_size: int = 128
    batches_per_step: int | str | None = None
    accumulate: int = 1
    clip: float | None = None
    ema: float | None = None
    augment: Callable[[Tensor, torch.Generator], Tensor] | None = None
    score: Callable[[Tensor, Tensor], Tensor] | None = None
    precision: str = "auto"
    layout: str = "auto"
    device: str = "auto"
    measure: str = "running"
    rule: Rule = LossDescent()
    rates: Mapping[str, float] = field(default_factory=dict)
    _objective: Objective = field(init=False, repr=False)
    # the trainer of the last step, and the state that it is in
    _last: tuple[Trainer, TrainingState] | None = field(default=None, init=False, repr=False)
    _steps_per_epoch: int = field(default=1, init=False, repr=False)

    hint = "lower learning_rate, or pass clip=1.0"

    def __post_init__(self):
        for name, least in (
            ("batch_size", 1),
            ("accumulate", 1),
            ("batches_per_step", 1),
            ("epochs", 1),
        ):
            value = getattr(self, name)
            if value is not None and value != "auto" and value < least:
                raise ValueError(f"{name}={value}; pass an int >= {least}.")
        if self.ema is not None and not 0 < self.ema < 1:
            raise ValueError(
                f"ema={self.ema} is the share of the mean that is kept; pass a number in (0, 1), such as 0.999."
            )
        if self.clip is not None and not self.clip > 0:
            raise ValueError(f"clip={self.clip}; pass a number > 0, or None.")
        if self.learning_rate is not None and not self.learning_rate > 0:
            raise ValueError(
                f"learning_rate={self.learning_rate}; pass a number > 0, or None for the usual one."
            )
        if self.measure not in MEASURES:
            raise ValueError(f"measure={self.measure!r}; pass one of {', '.join(MEASURES)}.")
        self._objective = as_objective(self.loss)
        self.rule.check(self._objective)

    # --- the algorithm ---

    def init(self, data: Any, rng: np.random.Generator) -> TrainingState:
        data = as_data(data)
        if data.n is not None and self.batch_size > data.n and not data.own_batches:
            raise ValueError(
                f"batch_size={self.batch_size} exceeds the {data.n} rows; pass batch_size <= {data.n}."
            )
        seed = int(devices.broadcast(int(rng.integers(2**62))))
        with own_draws():
            first = next(data.batches(seed, 0, self.batch_size), None)
            if first is None:
                raise ValueError("the data gives no batch: there is nothing to learn from.")
            module = self._build(seed)
            place, counted = self._place(module, first, data)
            place = Place(*devices.broadcast(tuple(place)))
            trainer = self._trainer(module, place, data)
            model = devices.broadcast(arrays_of(trainer.module))
            trainer.load(model, {}, None, 0)
            batches, wanted = data.count(self.batch_size), self.batches_per_step
            auto = wanted == "auto"
            pace = counted.batches_per_step(batches) if auto else int(wanted or 0)
            self._steps_per_epoch = -(-batches // pace) if batches and pace else 1
            at_once = len(first.parts[0])
            if not self._compares_rows(trainer.module):
                at_once = counted.rows_at_once(at_once)
            sums = self._first_sums(trainer, first, data, at_once)
        state = TrainingState(
            model, {}, trainer.ema(), None, 0, 0, 0, seed, sums["loss"] / (sums["rows"] or 1.0), self.measure, 0.0,
            math.nan, math.nan, math.inf, 0, *place, sums, pace, at_once,
        )  # fmt: skip
        try:
            return self._validate(state, trainer, data)
        except (RuntimeError, ValueError) as error:
            raise ValueError(
                f"the network does not take the validation data, though it takes the other: {error}"
            ) from error

    def check_state(self, state: TrainingState, data: Any) -> None:
        """ValueError where the weights, or what the optimiser remembers, are not those of this network."""
        Place(state.device, state.precision, state.memory_format).check()
        most = as_data(data).count(self.batch_size)
        self._steps_per_epoch = -(-most // state.pace) if most and state.pace else 1
        if most is not None and state.batch >= max(most, 1):
            raise ValueError(f"{state.batch:,} batches of {most:,} in an epoch are done.")
        known = {"rows", "loss"} <= state.sums.keys()
        if not known or not all(type(one) is float and math.isfinite(one) for one in state.sums.values()):  # fmt: skip
            raise ValueError("the sums of its epoch are not finite numbers.")
        with own_draws():
            self._last = self._trainer_at(state, as_data(data)), state
        for arrays in (state.model, state.best, state.ema):
            check_arrays(self._last[0].module, arrays or {}, some=arrays is not state.model)
            if not all(np.isfinite(array).all() for array in (arrays or {}).values()):
                raise ValueError("its weights are not all finite numbers.")

    def step(self, state: TrainingState, data: Any) -> TrainingState:
        data = as_data(data)
        with own_draws(), reused_memory():
            trainer = self._trainer_at(state, data)
            trainer.module.train()
            epoch, batch, sums, rate = self._train_batches(trainer, state, data)
            self._share_buffers(trainer)
            if self.measure == "evaluated":
                sums = self._evaluate(trainer, data, state.at_once)
            new = replace(
                state, model=arrays_of(trainer.module), memory=trainer.memory(), ema=trainer.ema(),
                epoch=epoch, batch=batch, updates=trainer.updates, loss=sums["loss"] / (sums["rows"] or 1.0), rate=rate,
                sums=sums,
            )  # fmt: skip
            if batch == 0 or self.batches_per_step != "auto":
                new = self._validate(new, trainer, data)
        self._last = trainer, new
        return new

    def objective(self, state: TrainingState) -> float:
        return state.loss

    def count(self) -> int:
        """Steps in an epoch, for a bar that counts steps where a user counts epochs."""
        return self._steps_per_epoch

    def attributes(self, state: TrainingState) -> dict[str, Any]:
        return {"module_": self.module(state)}

    def extras(self, state: TrainingState) -> dict[str, float]:
        found = {"epoch": float(state.epoch), "rate": state.rate}
        if state.pace:
            found["batch"] = float(state.batch)
        rows = state.sums["rows"] or 1.0
        found |= {k: v / rows for k, v in state.sums.items() if k not in ("rows", "loss")}
        if not math.isnan(state.validation_loss):
            found["validation_loss"] = state.validation_loss
            if not math.isnan(state.validation_score):
                found["validation_score"] = state.validation_score
        return found

    def module(self, state: TrainingState, weights: str = "best") -> nn.Module:
        """The network of a state in evaluation mode, on the CPU.

        weights : "best", the best so far by validation; "mean", the running mean; "raw". Each is the next where there is none.
        """
        if weights not in WEIGHTS:
            raise ValueError(f"weights={weights!r}; pass one of {', '.join(WEIGHTS)}.")
        with own_draws():
            module = self._build(state.seed)
        dtype = torch.float64 if state.precision == "float64" else torch.float32
        module.to("cpu", dtype)
        shown = state.model if weights == "raw" else weights_to_use(state)
        load_arrays(module, state.best if weights == "best" and state.best is not None else shown)
        return module.eval()

    # --- what a checkpoint belongs to ---

    def identity(self) -> dict[str, Any]:
        """Everything that the next batch depends on, without the network."""
        found = {
            name: describe(getattr(self, name))
            for name in self.__dataclass_fields__
            if name != "net" and name[0] != "_"
        }
        if self.schedule not in optimisers.NEEDS_LENGTH and not 0 < self.warmup < 1:
            found.pop("epochs")  # a finished run can be continued
        if self.rule == LossDescent():
            found.pop("rule")  # as in checkpoints that knew no other
        if not self.rates:
            found.pop("rates")
        return found

    def marks(self) -> dict[str, str]:
        with own_draws():
            module = self._build(0)
        shapes = {name: list(tensor.shape) for name, tensor in module.state_dict().items()}
        config = getattr(module, "config", None)
        if isinstance(config, dict):
            config = {name: _describe(value) for name, value in config.items()}
        return {"network": f"{type(module).__name__} {digest([repr(module), config, shapes])}"}

    # --- inside ---

    def _build(self, seed: int) -> nn.Module:
        """Make or copy the network; torch's generator is seeded for it, and the caller restores that."""
        if isinstance(self.net, nn.Module):
            return copy.deepcopy(self.net)
        torch.manual_seed(int(np.random.default_rng((seed, 2)).integers(2**63)))
        module = self.net()
        if not isinstance(module, nn.Module):
            raise TypeError(
                f"net() gives a {type(module).__name__}; a network is a torch.nn.Module."
            )
        return module

    def _place(self, module: nn.Module, batch: Batch, data: Data) -> tuple[Place, Operations]:
        """Choose where to compute, and count the work of a batch; ValueError unless network, data and loss fit each other."""
        wanted = {"device": self.device, "precision": self.precision, "layout": self.layout}
        place = devices.choose(module, batch.parts[0], **wanted)
        why = self._objective.refuses_bfloat16 or getattr(module, "refuses_bfloat16", "")
        if why and place.precision == "bfloat16":
            raise ValueError(f"precision='bfloat16' is refused: {why}. Pass 'auto', 'float32' or 'float64'.")  # fmt: skip
        if callable(begin := getattr(module, "begin", None)):
            here = place._replace(device="cpu", layout="contiguous")
            here.put(module)
            with torch.no_grad():
                begin([here.tensor(part) for part in batch.parts])
        if self.layout == "auto" and place.layout == "channels_last":
            with suppress(ValueError):
                return place, self._check(module, place, batch, data)
            # e.g. x.view, which needs the numbers of an image in their order
            place = place._replace(layout="contiguous")
        return place, self._check(module, place, batch, data)

    def _check(self, module: nn.Module, place: Place, batch: Batch, data: Data) -> Operations:
        """Run a copy of the network on a batch, on the CPU; ValueError says what does not fit."""
        here = place._replace(device="cpu")
        copied = here.put(copy.deepcopy(module)).eval()
        parts = [here.tensor(part) for part in batch.parts]
        rng = torch.Generator().manual_seed(0)
        with here.autocast():
            return check_outputs(copied, self._objective, parts, rng, data.labels)

    def _compares_rows(self, module: nn.Module) -> bool:
        return bool(self._objective.compares_rows or getattr(module, "compares_rows", False))

    def _trainer(self, module: nn.Module, place: Place, data: Data) -> Trainer:
        rate = self.learning_rate
        if rate is None:
            rate = optimisers.default_rate(self.optimizer)
        if self._compares_rows(module) and (self.accumulate > 1 or devices.share().size > 1):
            parts = f"accumulate={self.accumulate}" if self.accumulate > 1 else f"{devices.share().size} processes"  # fmt: skip
            raise ValueError(
                f"{parts} would cut batches, and this loss compares the rows of a batch: in parts it is another loss. "
                "Leave accumulate at 1, use one process, and lower batch_size if memory is short."
            )
        batches = data.count(self.batch_size)
        updates = None if batches is None or self.epochs is None else self.epochs * batches
        module = place.put(module)
        freeze_weights(module, self.rates)
        options = self.weight_decay, self.optimizer_options, self.rates
        return Trainer(
            module,
            self._objective,
            place,
            optimisers.make_optimizer(self.optimizer, module, rate, *options),
            optimisers.schedule_by_name(self.schedule, rate, updates, self.warmup),
            augment=self.augment,
            accumulate=self.accumulate,
            clip=self.clip,
            ema=self.ema,
            rule=self.rule,
            share=devices.share(),
        )

    def _trainer_at(self, state: TrainingState, data: Data) -> Trainer:
        """The trainer in this state: the one that came to it, or another into which the state is loaded."""
        last, self._last = self._last, None  # after an exception it is between two states
        if last is not None and last[1] is state:
            return last[0]
        place = Place(state.device, state.precision, state.memory_format)
        if last is not None and last[0].place == place:
            trainer = last[0]
        else:
            trainer = self._trainer(self._build(state.seed), place, data)
        trainer.load(state.model, state.memory, state.ema, state.updates)
        return trainer

    def _first_sums(
        self, trainer: Trainer, first: Batch, data: Data, at_once: int
    ) -> dict[str, float]:
        whole = data if self.measure == "evaluated" else One(first)
        found = self._evaluate(trainer, whole, at_once)
        if not math.isfinite(found["loss"]):
            raise trainer.diagnose(first, 0, found["loss"])
        return found

    def _evaluate(self, trainer: Trainer, data: Data, at_once: int) -> dict[str, float]:
        """Means over data, as the sums of one row."""
        found = trainer.measure(data, at_once)
        return {name: value for name, value in found.items() if name != "score"} | {"rows": 1.0}

    def _train_batches(
        self, trainer: Trainer, state: TrainingState, data: Data
    ) -> tuple[int, int, dict[str, float], float]:
        """Train the batches of one step; return epoch and batch at its end, the sums of its epoch and its last rate."""
        epoch, batch, rate, done = state.epoch, state.batch, 0.0, 0
        sums = dict(state.sums) if batch else {"rows": 0.0, "loss": 0.0}
        trainer.numbers = tuple(name for name in state.sums if name not in ("rows", "loss"))
        while not done:
            walk = data.batches(state.seed, epoch, self.batch_size, batch, trainer.share)
            for found, seed in zip(walk, seeds(state.seed, epoch, batch), strict=False):
                rate = float(trainer.schedule(trainer.updates))
                means = trainer.update(found, seed, rate)
                rows = means.pop("rows")
                add_to(sums, means, rows)
                sums["rows"] += rows
                batch, done = batch + 1, done + 1
                if done == state.pace:
                    break
            if batch == 0:
                raise ValueError(f"the data gives no batch in epoch {epoch}.")
            if not done:  # of data that cannot be counted: the last step was the end of its epoch
                sums = {"rows": 0.0, "loss": 0.0}
            if done != state.pace or batch == data.count(self.batch_size):
                epoch, batch = epoch + 1, 0
        return epoch, batch, sums, rate

    def _share_buffers(self, trainer: Trainer) -> None:
        """Set running means of normalisations to those of the first process."""
        if trainer.share.size > 1:
            for buffer in trainer.module.buffers():
                buffer.copy_(devices.broadcast(buffer))

    def _validate(self, state: TrainingState, trainer: Trainer, data: Data) -> TrainingState:
        """The state with loss and score of the validation data."""
        if data.validation is None:
            return state
        kept = None
        if state.ema is not None:
            kept = arrays_of(trainer.module)
            load_arrays(trainer.module, weights_to_use(state))
        found = trainer.measure(data.validation, state.at_once, self.score)
        loss, score = found["loss"], found["score"]
        if kept is not None:
            load_arrays(trainer.module, kept)
        new = replace(state, validation_loss=loss, validation_score=score)
        if loss < state.best_loss:
            return replace(new, best_loss=loss, since_best=0, best=weights_to_use(state))
        return replace(new, since_best=state.since_best + 1)


def _describe(value: Any) -> Any:
    """An argument of a network as `digest` takes it: numbers and names as they are, modules and classes described."""
    if isinstance(value, (tuple, list)):
        return type(value)(map(_describe, value))
    return describe(value) if isinstance(value, (nn.Module, type)) else value
