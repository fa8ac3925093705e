"""A fit is a loop: every algorithm is `init` and `step` over an immutable state, and one driver runs them all.

    solution = run(ALSAlgorithm(rank=32, reg=0.05), data, stop=Settled(1e-5) | MaxSteps(50) | Seconds(60),
                   callbacks=[Progress(), Checkpoint("als.ckpt", every=5)])
    solution.state, solution.trace, solution.stopped

Stopping is not success: "settled" means that the change fell below tol, nothing more. What is true of the result is for
the claims (certificate.py).
"""

from __future__ import annotations

import math
import sys
import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol, TypeVar

import numpy as np

from lemmata.core.runs.trace import Trace

State = TypeVar("State")


class Stopped(StrEnum):
    """Why a run ended: the values of `stopped_`. Reasons are words, so they print, compare and go to files as text."""

    SETTLED = "settled"  # the change fell below tol
    SMALL_GRADIENT = "small gradient"
    NO_IMPROVEMENT = "no improvement"  # of the loss on rows held out, for as long as was asked
    FINISHED = "finished"  # a direct solver, or nothing left to do
    MAX_STEPS = "max steps"
    OUT_OF_TIME = "out of time"
    INTERRUPTED = "interrupted"  # Ctrl-C; what was reached is kept
    DIVERGED = "diverged"  # the objective left the finite numbers; the last finite state is kept
    BATCHES = "batches"  # partial_fit: there is no end
    FAILED = "failed"  # a step raised

    def __repr__(self) -> str:
        return repr(self.value)


DEFAULT_HINT = "look for extreme values in the data, or scale it"


class Algorithm(Protocol[State]):
    """The methods that the driver needs. `step` depends on state and data alone: randomness inside a step comes from the state.

    Four more members are used where an algorithm has them:

    finished(state) -> bool             nothing is left to do (a direct solver after its step)
    extras(state) -> dict[str, float]   further numbers for the trace ("gradient" feeds SmallGradient)
    snapshot(state) -> State            a copy, for algorithms whose step updates its state in place
    hint: str                           what to change if the run diverges ("lower step_size")
    """

    def init(self, data: Any, rng: np.random.Generator) -> State: ...

    def step(self, state: State, data: Any) -> State: ...

    def objective(self, state: State) -> float:
        """The objective at *this* state; lower is better."""
        ...

    def attributes(self, state: State) -> dict[str, Any]:
        """The attributes that an estimator shows of this state (components_, coef_, …)."""
        ...


@dataclass(frozen=True)
class Solution:
    """A run so far (`stopped` is None) or at its end."""

    algorithm: Any
    state: Any
    trace: Trace
    stopped: str | None = None
    note: str = ""  # what a user should know about the stop

    @property
    def step(self) -> int:
        return len(self.trace) - 1

    @property
    def attributes(self) -> dict[str, Any]:
        return self.algorithm.attributes(self.state)

    @property
    def children(self) -> tuple[Trace, ...]:
        """The traces of the runs inside a run (Restarts, Path)."""
        return self.state.traces if hasattr(self.algorithm, "child") else ()


class Interrupted(UserWarning):
    """A run was stopped by Ctrl-C; its state is kept."""


class Diverged(RuntimeWarning):
    """The objective left the finite numbers; the last finite state is kept."""


class StepFailed(RuntimeError):
    """A step or a callback raised. `solution` holds the last good state, `__cause__` the error."""

    def __init__(self, message: str, solution: Solution | None = None):
        super().__init__(message)
        self.solution = solution


class ResumedRunFailed(StepFailed, ValueError):
    """A step raised in a run that went on from a file, whose numbers may be the cause."""


def warn_user(message: str, category: type[Warning]) -> None:
    """Warn at the line that called the library, however deep inside of it we are."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back and frame.f_globals.get("__name__", "").partition(".")[0] in (
        "lemmata",
        "sklearn",
    ):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


# --- when to stop -----------------------------------------------------------------------------------------------------


class Stop:
    """A stopping rule: `reason(solution)` is a word if the loop should end here. Rules combine with `|`."""

    def reason(self, solution: Solution) -> str | None:
        raise TypeError(f"{type(self).__name__} does not say when to stop; define reason().")

    def __or__(self, other: Stop) -> Stop:
        if not isinstance(other, Stop):
            return NotImplemented
        return AnyOf((*_parts(self), *_parts(other)))


@dataclass(frozen=True)
class AnyOf(Stop):
    """Stops as soon as one of its rules does."""

    rules: tuple[Stop, ...]

    def reason(self, solution):
        for rule in self.rules:
            word = rule.reason(solution)
            if word is not None:
                return word
        return None


def _parts(rule: Stop) -> tuple[Stop, ...]:
    return rule.rules if isinstance(rule, AnyOf) else (rule,)


@dataclass(frozen=True)
class Settled(Stop):
    """The objective changed by at most tol times its size, `patience` steps in a row. tol = 0 switches the rule off."""

    tol: float
    patience: int = 1

    def __post_init__(self):
        if not self.tol >= 0 or self.patience < 1:
            raise ValueError(f"{self}: tol is a number >= 0 (0: off) and patience an int >= 1.")

    def reason(self, solution):
        if self.tol == 0 or len(solution.trace) <= self.patience:
            return None
        for back in range(self.patience):
            now, before = solution.trace.last(back=back), solution.trace.last(back=back + 1)
            if not abs(before - now) <= self.tol * max(abs(now), abs(before)):
                return None
        return Stopped.SETTLED


@dataclass(frozen=True)
class MaxSteps(Stop):
    """n steps were made."""

    n: int

    def __post_init__(self):
        if not self.n >= 0:
            raise ValueError(f"{self}: n is an int >= 0.")

    def reason(self, solution):
        return Stopped.MAX_STEPS if solution.step >= self.n else None


@dataclass(frozen=True)
class Seconds(Stop):
    """The run has taken this long. A step under way is finished first."""

    limit: float

    def __post_init__(self):
        if not self.limit > 0:
            raise ValueError(f"{self}: limit is a number of seconds > 0.")

    def reason(self, solution):
        return Stopped.OUT_OF_TIME if solution.trace.elapsed >= self.limit else None


@dataclass(frozen=True)
class SmallGradient(Stop):
    """The gradient norm, which the algorithm reports as the extra "gradient", fell to tol."""

    tol: float

    def __post_init__(self):
        if not self.tol >= 0:
            raise ValueError(f"{self}: tol is a number >= 0.")

    def reason(self, solution):
        if "gradient" not in solution.trace:
            raise ValueError(
                'SmallGradient needs an algorithm whose extras report "gradient"; use Settled for this one.'
            )
        return Stopped.SMALL_GRADIENT if solution.trace.last("gradient") <= self.tol else None


@dataclass(frozen=True)
class Never(Stop):
    """For algorithms that finish by themselves."""

    def reason(self, solution):
        return None


# --- the driver -------------------------------------------------------------------------------------------------------


class Run:
    """The driver's own bookkeeping: the last good state, its trace, the clock and the callbacks."""

    def __init__(self, algorithm, data, stop: Stop, callbacks: Iterable[Callable], rng, start):
        self.algorithm, self.data, self.stop, self.callbacks = (
            algorithm,
            data,
            stop,
            tuple(callbacks),
        )
        self.snapshot = getattr(algorithm, "snapshot", lambda state: state)
        self.extras = getattr(algorithm, "extras", lambda state: None)
        self.finished = getattr(algorithm, "finished", lambda state: False)
        self.calling: Any = None  # the callback at work, to name it if it fails
        self.resumed: Any = None  # the file that the run goes on from
        self.clock = time.perf_counter()
        state, self.trace = self._resume(rng) or self._start(rng, start)
        # what the next step may change in place; the kept state is never touched
        self.live = self.snapshot(state)
        # one assignment: Ctrl-C never parts a state from its rows
        self.kept = state, len(self.trace)

    def _resume(self, rng):
        for callback in self.callbacks:
            if hasattr(callback, "resume"):
                found = callback.resume(self.algorithm, self.data, rng)
                if found is not None:
                    self.clock -= found[1].elapsed  # a resumed run goes on counting
                    self.resumed = getattr(callback, "path", None)
                    return found
        return None

    def _start(self, rng, start):
        draws = getattr(self.algorithm, "draws", True)  # False: init looks at the data alone
        rng = np.random.default_rng(rng) if draws else None
        state = self.algorithm.init(self.data, rng) if start is None else start
        value = float(self.algorithm.objective(state))
        if not math.isfinite(value):
            raise StepFailed(f"{self.name}: the first objective is {value}; {self._hint}.")
        trace = Trace()
        trace.append(value, self._seconds(), self.extras(state))
        return state, trace

    @property
    def name(self) -> str:
        return type(self.algorithm).__name__.removesuffix("Algorithm")

    @property
    def _hint(self) -> str:
        return getattr(self.algorithm, "hint", DEFAULT_HINT)

    @property
    def step(self) -> int:
        """The number of the last good step."""
        return self.kept[1] - 1

    def _seconds(self) -> float:
        return time.perf_counter() - self.clock

    def so_far(self, stopped: str | None = None, note: str = "") -> Solution:
        return Solution(self.algorithm, self.kept[0], self.trace, stopped, note)

    def until_stopped(self) -> str:
        """Step until a rule, or the algorithm itself, says stop; the word it says."""
        self._call("start")
        word = self._reason()
        while word is None:
            word = self._advance() or self._reason()
        return word

    def _reason(self) -> str | None:
        return Stopped.FINISHED if self.finished(self.kept[0]) else self.stop.reason(self.so_far())

    def _advance(self) -> str | None:
        """One step; the word to stop with if it left the finite numbers."""
        self.live = self.algorithm.step(self.live, self.data)
        value = float(self.algorithm.objective(self.live))
        if not math.isfinite(value):
            return Stopped.DIVERGED
        state = self.snapshot(self.live)
        self.trace.append(value, self._seconds(), self.extras(state))
        self.kept = state, len(self.trace)
        self._call("__call__")
        return None

    def _call(self, hook: str) -> None:
        if not self.callbacks:
            return
        solution = self.so_far()
        for callback in self.callbacks:
            self.calling = callback
            if hasattr(callback, hook):
                getattr(callback, hook)(solution)
        self.calling = None

    def describe_failure(self, error: Exception) -> StepFailed:
        """The error to raise for one from below, with the last good state."""
        kind = f"{type(error).__name__}: {error}".rstrip(".")
        if self.calling is None:
            what = f"{self.name} failed at step {self.step + 1} with {kind}."
        else:
            who = getattr(self.calling, "__name__", type(self.calling).__name__)
            what = f"{self.name} stopped after step {self.step}, because its callback {who} failed with {kind}."
        what += f" The state after step {self.step} is in .solution of this error."
        kind_of_failure = StepFailed
        if self.resumed is not None and self.calling is None:
            what += f" The run went on from {self.resumed}, which may be damaged: delete it to start again."
            kind_of_failure = ResumedRunFailed
        failure = kind_of_failure(what, self.so_far(Stopped.FAILED))
        failure.__cause__ = error
        return failure

    def finish(self, word: str, failure: StepFailed | None) -> StepFailed | None:
        """Let every callback finish, whether or not one before it failed; the failure to raise, if any."""
        # what ended the run may have come between a row and its state
        self.trace.truncate(self.kept[1])
        solution = self.so_far(word)
        for callback in self.callbacks:
            self.calling = callback
            try:
                if hasattr(callback, "finish"):
                    callback.finish(solution)
            except Exception as error:
                if failure is None:
                    failure = self.describe_failure(error)
                else:
                    failure.add_note(
                        f"Then {type(callback).__name__}.finish failed with {error!r}."
                    )
        return failure

    def conclude(self, word: str) -> Solution:
        """The solution, with a warning if the run did not end by its own rules."""
        note = ""
        if word == Stopped.INTERRUPTED:
            note = f"{self.name} was interrupted; the state after step {self.step} is kept."
            warn_user(note, Interrupted)
        elif word == Stopped.DIVERGED:
            note = (
                f"{self.name} diverged: the objective was not finite at step {self.step + 1}; "
                f"the state after step {self.step} is kept. To fix it, {self._hint}."
            )
            warn_user(note, Diverged)
        return self.so_far(word, note)


def run(
    algorithm: Any,
    data: Any,
    *,
    stop: Stop | None = None,
    callbacks: Iterable[Callable[[Solution], Any]] = (),
    rng: int | np.random.Generator | None = None,
    start: Any = None,
) -> Solution:
    """Run an algorithm on data until a rule says stop.

    Parameters
    ----------
    stop : Stop, default=MaxSteps(100)
        When to end, e.g. ``Settled(1e-4) | MaxSteps(300) | Seconds(60)``.
    callbacks : iterable of callables
        Each is called with the `Solution` so far after every step, its `start` and `finish`, if any, around the run.
    rng : int, Generator or None
        Where `init` takes its randomness from.
    start : State, optional
        A state to go on from instead of `init` (a warm start).
    """
    loop = Run(algorithm, data, MaxSteps(100) if stop is None else stop, callbacks, rng, start)
    word: str = Stopped.FAILED
    failure = None
    try:
        word = loop.until_stopped()
    except KeyboardInterrupt:
        word = Stopped.INTERRUPTED
    except Exception as error:
        failure = loop.describe_failure(error)
    finally:  # SystemExit passes through here too: no bar is left on the terminal
        failure = loop.finish(word, failure)
    if failure is not None:
        raise failure
    return loop.conclude(word)


def best_run(solution: Solution) -> Solution:
    """The run of several (Restarts) that is shown, as if it had been alone; any other solution as it is."""
    choose = getattr(solution.algorithm, "best_run", None)
    return solution if choose is None else choose(solution)
