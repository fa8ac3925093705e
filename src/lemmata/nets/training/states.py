"""The state of a training: all that the next batch needs, as arrays and numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from lemmata.core.encoding import storable
from lemmata.nets.training.machine import Arrays


@storable
@dataclass(frozen=True)
class TrainingState:
    """All that the next batch needs."""

    layout: ClassVar[Mapping[str, str]] = {
        "epoch": "int >=0", "batch": "int >=0", "updates": "int >=0", "seed": "int >=0", "loss": "", "rate": ">=0",
        "validation_loss": "any", "validation_score": "any", "best_loss": "any", "since_best": "int >=0",
    }  # fmt: skip

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
    since_best: int  # steps
    device: str
    precision: str
    memory_format: str


def shown(state: TrainingState) -> Arrays:
    """The weights to use: their running mean where there is one."""
    return state.model if state.ema is None else {**state.model, **state.ema}
