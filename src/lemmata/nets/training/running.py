"""Running a training: `train`, and the rules that end it.

>>> rule = ByEpoch(MaxSteps(3))                         # three epochs, however many steps each of them has
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lemmata.core.loop import MaxSteps, Seconds, Solution, Stop, Stopped, run
from lemmata.core.runs.trace import Trace
from lemmata.nets.data.batches import as_data
from lemmata.nets.training import devices
from lemmata.nets.training.algorithm import Training
from lemmata.nets.training.trainer import TrainingState


@dataclass(frozen=True)
class NoValidationGain(Stop):
    """The validation loss has not fallen below its minimum for so many steps."""

    steps: int

    def reason(self, solution):
        return Stopped.NO_IMPROVEMENT if solution.state.since_best >= self.steps else None


NoImprovement = NoValidationGain  # its name in 0.1.0


@dataclass(frozen=True)
class ByEpoch(Stop):
    """Another rule, asked at the ends of epochs and about them: its steps are epochs."""

    rule: Stop

    def reason(self, solution):
        if solution.state.batch:
            return None
        return self.rule.reason(replace(solution, trace=epochs_of(solution.trace)))


def epochs_of(trace: Trace) -> Trace:
    """The rows of a trace at the ends of epochs."""
    if "batch" not in trace:
        return trace
    ends = trace.extras["batch"] == 0
    extras = {name: column[ends] for name, column in trace.extras.items() if name != "batch"}
    columns = {"objective": trace.objective[ends], "seconds": trace.seconds[ends]}
    return Trace.from_fields({**columns, "extras": extras})


def train(
    training: Training,
    data: Any,
    *,
    epochs: int | None = None,
    seconds: float | None = None,
    stop: Stop | None = None,
    validation: Any = None,
    checkpoint: Any = None,
    callbacks: Iterable[Callable[[Solution], Any]] = (),
    rng: int | np.random.Generator | None = None,
    start: TrainingState | None = None,
) -> Solution:
    """Run a training on data: an array or tuple of arrays, Blocks, a DataLoader, or `Data`.

    epochs : steps of the loop, or epochs if their length is "auto"; by default `training.epochs`
    seconds, stop : further rules that end it
    validation : data whose loss is measured after every step
    checkpoint : a path; the run resumes from the file if it exists
    """
    data = as_data(data)
    if validation is not None:
        data.with_validation(as_data(validation))
    steps = epochs or training.epochs
    limit: Stop | None = MaxSteps(steps) if steps else None
    if limit is not None and training.batches_per_step == "auto":
        limit = ByEpoch(limit)
    rules: list[Stop] = [limit] if limit is not None else []
    rules += [Seconds(seconds)] if seconds else []
    rules += [stop] if stop is not None else []
    if not rules:
        raise ValueError("there is no rule for stopping: pass epochs, seconds or stop.")
    rule = rules[0]
    for other in rules[1:]:
        rule = rule | other
    files = [] if checkpoint is None else [devices.SharedCheckpoint(checkpoint)]
    rule = devices.Together(rule) if devices.share().size > 1 else rule
    return run(training, data, stop=rule, callbacks=[*callbacks, *files], rng=rng, start=start)
