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

from lemmata.core.files.layout import check_state
from lemmata.core.loop import DEFAULT_HINT, MaxSteps, Solution, Stop, Stopped
from lemmata.core.runs.trace import Trace
from lemmata.core.store import storable


@storable
@dataclass(frozen=True)
class ChildrenState:
    """The child under way and what its elder siblings left."""

    version = 2

    state: Any  # of the child under way
    ended: str  # why that child stopped; "" while it goes on
    results: tuple  # the last state of every child that ended
    traces: tuple[Trace, ...]  # of every child begun
    seeds: tuple[int, ...]  # one per child
    # children that ended under a smaller budget and go on once all were there
    again: tuple[int, ...] = ()

    @classmethod
    def upgrade(cls, fields: dict[str, Any], version: int) -> dict[str, Any]:
        """Version 1 could not be given a larger budget."""
        return {**fields, "again": ()}

    @property
    def current(self) -> int:
        """The number of the child under way, or of the one that ended last."""
        going_on = self.again and len(self.results) == len(self.seeds) and not self.ended
        return self.again[0] if going_on else len(self.traces) - 1

    def result(self, index: int) -> Any:
        """The last state of a child that was begun."""
        going_on = index == self.current and not self.ended
        return self.state if going_on or index >= len(self.results) else self.results[index]


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

    def check_state(self, state: ChildrenState, data: Any) -> None:
        """ValueError where a state from a file is none of so many children, or one of theirs is not its own."""
        begun, ended = len(state.traces), len(state.results)
        again = all(0 <= index < ended for index in state.again)
        if not (len(state.seeds) == self.count() and 1 <= begun <= self.count() and again):
            raise ValueError(f"{begun} of {self.count()} children and {len(state.seeds)} seeds.")
        going_on = not state.ended and not (state.again and ended == self.count())
        if ended != begun - going_on:
            raise ValueError(f"{ended} of {begun} children have ended.")
        for index, one in enumerate(state.results):
            check_state(self.child(index), one, data)
        check_state(self.child(state.current), state.state, data)

    def init(self, data, rng) -> ChildrenState:
        seeds = tuple(int(seed) for seed in rng.integers(2**63, size=self.count()))
        return self._begin(ChildrenState(None, "", (), (), seeds), data)

    def step(self, state, data):
        if state.ended:
            all_begun = len(state.results) == self.count()
            return self._go_on(state) if all_begun else self._begin(state, data)
        index, clock = state.current, time.perf_counter()
        algorithm = self.child(index)
        # a child that steps in place gets a copy: the state it steps from may be its last good one
        new = algorithm.step(getattr(algorithm, "snapshot", lambda state: state)(state.state), data)
        value = float(algorithm.objective(new))
        if not math.isfinite(value):  # this child is lost, the others are not
            return self._at(state, state.state, index, state.traces[index], Stopped.DIVERGED)
        trace = state.traces[index].copy()
        trace.append(value, trace.elapsed + time.perf_counter() - clock, _extras(algorithm, new))
        return self._at(state, new, index, trace)

    def _begin(self, state, data):
        """The next child at its first state; children whose first objective is not finite are passed over."""
        index, clock = len(state.traces), time.perf_counter()
        algorithm = self.child(index)
        first = self.first(index, state.results, data, state.seeds[index])
        value, trace = float(algorithm.objective(first)), Trace()
        trace.append(value, time.perf_counter() - clock, _extras(algorithm, first))
        ended = "" if math.isfinite(value) else Stopped.DIVERGED
        state = self._at(state, first, index, trace, ended)
        lost = state.ended == Stopped.DIVERGED and not self.finished(state)
        return self._begin(state, data) if lost else state

    def _go_on(self, state):
        """All children ended once; the first of those that have budget left is taken up where it ended."""
        return replace(state, state=state.results[state.again[0]], ended="")

    def _at(self, before, current, index, trace, ended=""):
        """The state after child `index` came to `current`."""
        algorithm = self.child(index)
        ended = ended or self._reason(algorithm, current, trace)
        results, again = before.results, before.again
        if ended and index < len(results):  # it went on, and is done now
            results, again = (*results[:index], current, *results[index + 1 :]), again[1:]
        elif ended:
            results = (*results, current)
        traces = (*before.traces[:index], trace, *before.traces[index + 1 :])
        # the plain word that a checkpoint gives back
        return ChildrenState(current, str(ended), results, traces, before.seeds, again)

    def _reason(self, algorithm, state, trace) -> str:
        if getattr(algorithm, "finished", lambda state: False)(state):
            return Stopped.FINISHED
        return self.stop.reason(Solution(algorithm, state, trace)) or ""

    def finished(self, state):
        return bool(state.ended) and len(state.results) == self.count() and not state.again

    def objective(self, state):
        """The objective of the child under way, or of the last one that had any."""
        traces = (state.traces[state.current], *reversed(state.traces))
        return next((trace.last() for trace in traces if math.isfinite(trace.last())), math.nan)

    def extras(self, state):
        return {"child": state.current, **(_extras(self.child(state.current), state.state) or {})}

    @property
    def hint(self) -> str:
        return getattr(self.child(0), "hint", DEFAULT_HINT)


def _extras(algorithm, state) -> dict[str, float] | None:
    return algorithm.extras(state) if hasattr(algorithm, "extras") else None


@dataclass(frozen=True)
class Restarts(Children):
    """n runs of one algorithm from different seeds; shows the one with the lowest objective.

    A checkpoint may be resumed under another `stop`: children that have budget left then go on where they ended.
    """

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

    def identity(self) -> Any:
        """The owner of a checkpoint: the children, not when they stop."""
        return [type(self).__name__, self.algorithm, self.n]

    def resume_state(self, state: ChildrenState) -> ChildrenState:
        """The state of a checkpoint under the rule of this run."""
        going_on = state.current if state.again and not state.ended else -1
        again = [
            index
            for index, result in enumerate(state.results)
            if index != going_on
            and math.isfinite(state.traces[index].last())
            and not self._reason(self.algorithm, result, state.traces[index])
        ]
        return replace(state, again=tuple([going_on, *again] if going_on in state.again else again))

    def best(self, state: ChildrenState) -> int:
        """Which child did best so far."""
        ends = np.array([trace.last() for trace in state.traces])
        # a child lost at birth ended at NaN
        return int(np.argmin(np.where(np.isfinite(ends), ends, np.inf)))

    def attributes(self, state):
        return self.algorithm.attributes(state.result(self.best(state)))

    def best_run(self, solution: Solution) -> Solution:
        """The run that is shown, as if it had been alone."""
        best = self.best(solution.state)
        alone = Solution(self.algorithm, solution.state.result(best), solution.state.traces[best])
        return replace(alone, stopped=self.stop.reason(alone) or solution.stopped)


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
        return self.child(state.current).attributes(state.state)
