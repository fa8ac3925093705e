"""Repetition is a wrapper, not a flag: algorithms that run other algorithms, one after the other.

    run(Restarts(KMeansAlgorithm(8), n=10, stop=Settled(1e-4) | MaxSteps(300)), data, stop=Seconds(60))
    run(Path(LassoAlgorithm(reg=1.0), over={"reg": [1.0, 0.3, 0.1]}, stop=Settled(1e-6)), data, stop=Never())

Both are algorithms themselves, so the children share one clock, one progress bar and one checkpoint, and a killed run
resumes in the middle of a child. The rules inside `stop` end a child; the rules given to `run` end everything.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from lemmata.core.loop import DEFAULT_HINT, MaxSteps, Solution, Stop, Stopped
from lemmata.core.store import storable
from lemmata.core.trace import Trace


@storable
@dataclass(frozen=True)
class ChildrenState:
    """The child under way and what its elder siblings left."""

    version = 1

    state: Any  # of the child under way
    ended: str  # why that child stopped; "" while it goes on
    results: tuple  # the last state of every child that ended
    traces: tuple[Trace, ...]  # of every child begun
    seeds: tuple[int, ...]  # one per child


class Children:
    """Runs children one by one. Subclasses say who they are and where each begins."""

    stop: Stop

    def child(self, index: int) -> Any:
        """The algorithm of child `index`."""
        raise TypeError(f"{type(self).__name__} has no children: define child(index).")

    def count(self) -> int:
        raise TypeError(f"{type(self).__name__} has no children: define count().")

    def first(self, index: int, results: tuple, data: Any, seed: int) -> Any:
        """The first state of child `index`, given the results before it."""
        return self.child(index).init(data, np.random.default_rng(seed))

    def init(self, data, rng):
        seeds = tuple(int(seed) for seed in rng.integers(2**63, size=self.count()))
        return self._begin(ChildrenState(None, "", (), (), seeds), data)

    def step(self, state, data):
        if state.ended:
            return self._begin(state, data)
        algorithm, clock = self.child(len(state.traces) - 1), time.perf_counter()
        # a child that steps in place gets a copy: the state it steps from may be its last good one
        new = algorithm.step(getattr(algorithm, "snapshot", lambda state: state)(state.state), data)
        value = float(algorithm.objective(new))
        if not math.isfinite(value):  # this child is lost, the others are not
            return self._at(state, state.state, state.traces, Stopped.DIVERGED)
        trace = state.traces[-1].copy()
        trace.append(value, trace.elapsed + time.perf_counter() - clock, _extras(algorithm, new))
        return self._at(state, new, (*state.traces[:-1], trace))

    def _begin(self, state, data):
        """The next child at its first state; children whose first objective is not finite are passed over."""
        index, clock = len(state.traces), time.perf_counter()
        algorithm, first = (
            self.child(index),
            self.first(index, state.results, data, state.seeds[index]),
        )
        value, trace = float(algorithm.objective(first)), Trace()
        trace.append(value, time.perf_counter() - clock, _extras(algorithm, first))
        state = self._at(
            state, first, (*state.traces, trace), "" if math.isfinite(value) else Stopped.DIVERGED
        )
        return (
            self._begin(state, data)
            if state.ended == Stopped.DIVERGED and not self.finished(state)
            else state
        )

    def _at(self, before, current, traces, ended=""):
        algorithm = self.child(len(traces) - 1)
        if not ended and getattr(algorithm, "finished", lambda state: False)(current):
            ended = Stopped.FINISHED
        ended = ended or self.stop.reason(Solution(algorithm, current, traces[-1])) or ""
        ended = str(ended)  # the plain word that a checkpoint gives back
        results = (*before.results, current) if ended else before.results
        return ChildrenState(current, ended, results, traces, before.seeds)

    def finished(self, state):
        return len(state.results) == self.count()

    def objective(self, state):
        """Of the child under way, or of the last one that had any."""
        return next(
            (trace.last() for trace in reversed(state.traces) if math.isfinite(trace.last())),
            math.nan,
        )

    def extras(self, state):
        return {
            "child": len(state.traces) - 1,
            **(_extras(self.child(len(state.traces) - 1), state.state) or {}),
        }

    @property
    def hint(self) -> str:
        return getattr(self.child(0), "hint", DEFAULT_HINT)


def _extras(algorithm, state) -> dict[str, float] | None:
    return algorithm.extras(state) if hasattr(algorithm, "extras") else None


@dataclass(frozen=True)
class Restarts(Children):
    """n runs of one algorithm from different seeds; shows the one with the lowest objective."""

    algorithm: Any
    n: int
    stop: Stop = MaxSteps(100)

    def __post_init__(self):
        if self.n < 1:
            raise ValueError(f"Restarts(n={self.n}): n is an int >= 1.")

    def child(self, index):
        return self.algorithm

    def count(self):
        return self.n

    def best(self, state: ChildrenState) -> int:
        """Which child did best so far."""
        ends = np.array([trace.last() for trace in state.traces])
        # a child lost at birth ended at NaN
        return int(np.argmin(np.where(np.isfinite(ends), ends, np.inf)))

    def attributes(self, state):
        best = self.best(state)
        return self.algorithm.attributes(
            state.results[best] if best < len(state.results) else state.state
        )


@dataclass(frozen=True)
class Path(Children):
    """One run per value of a parameter, each begun where the one before ended.

    An algorithm that has `warm(state, data) -> State` is warm-started: the method moves a state of the previous value
    to this one's (its objective belongs to the new parameter). Others begin from `init`. Shows the run under way, or the last.
    """

    algorithm: Any
    over: Mapping[str, Sequence]
    stop: Stop = MaxSteps(100)

    def __post_init__(self):
        known = [field.name for field in fields(self.algorithm)]
        if len(self.over) != 1 or not set(self.over) <= set(known):
            found = ", ".join(map(str, self.over)) or "none"
            raise ValueError(f"Path goes over one parameter of {', '.join(known)}; got {found}.")
        if self.count() < 1:
            raise ValueError("Path goes over at least one value; got none.")

    def child(self, index):
        ((name, values),) = self.over.items()
        return replace(self.algorithm, **{name: values[index]})

    def count(self):
        return len(next(iter(self.over.values())))

    def first(self, index, results, data, seed):
        algorithm = self.child(index)
        if results and hasattr(algorithm, "warm"):
            return algorithm.warm(results[-1], data)
        return super().first(index, results, data, seed)

    def attributes(self, state):
        return self.child(len(state.traces) - 1).attributes(state.state)


def best_run(solution: Solution) -> Solution:
    """Of Restarts the run that is shown, as if it had been alone; any other solution as it is."""
    algorithm, state = solution.algorithm, solution.state
    if not isinstance(algorithm, Restarts):
        return solution
    best = algorithm.best(state)
    alone = Solution(algorithm.algorithm, (*state.results, state.state)[best], state.traces[best])
    return replace(alone, stopped=algorithm.stop.reason(alone) or solution.stopped)
