"""Rank and penalty of ALS by trying on entries held out.

A tenth of the entries is held out. For each weighting λ falls by halves, each run warm-started from the one
before, until the held-out error has risen twice; then in steps of √2 around the best, then to the bottom of the parabola
through the best three. The rank is doubled and halved until it has not helped twice, and κ is tried three times larger and
smaller.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lemmata.completion.als.algorithm import ALSAlgorithm, ALSState, Penalty, row_squares, unit
from lemmata.completion.observed import Observed
from lemmata.core.loop import MaxSteps, Seconds, Settled, Stop, Stopped, run
from lemmata.core.runs.repeat import Path

Array = np.ndarray

HELD_OUT = 0.1
FIRST_RANK = 16
RANKS = (4, 8, 16, 32, 64, 128)
HIGHEST = 4.0  # in units of the rule: there nothing is left of the factors
HALVINGS = 18  # with less noise than a 60,000th of that nothing is left to choose
STEP = 2**0.5  # between values of λ around the best one
BIAS_STEP = 3.0  # between values of κ
# of one run on the path: the order of the errors shows long before the last digits
ENOUGH = Settled(1e-4) | MaxSteps(8)
# of a trial; bias_reg is NaN where it is that of the factors
COLUMNS = ("rank", "reg", "weighting", "bias_reg", "rmse")


@dataclass(frozen=True)
class Trial:
    """A rank and a penalty, and the root mean squared error of the entries held out."""

    rank: int
    penalty: Penalty
    error: float

    @property
    def row(self) -> tuple[float, ...]:
        p = self.penalty
        return (self.rank, p.reg, p.weighted, math.nan if p.bias_reg is None else p.bias_reg, self.error)  # fmt: skip


class GotWorse(Stop):
    """Ends a path when the held-out error of its last two runs was above the best; keeps the errors."""

    def __init__(self, held_out: Observed, compiled: bool | None = None):
        self.held_out, self.compiled = held_out, compiled
        self.errors: list[float] = []

    def reason(self, solution):
        for state in solution.state.results[len(self.errors) :]:
            self.errors.append(held_out_rmse(state, self.held_out, self.compiled))
        worse = len(self.errors) - 1 - int(np.argmin(self.errors)) if self.errors else 0
        return "got worse" if worse >= 2 else None


def held_out_rmse(state: ALSState, test: Observed, compiled: bool | None = None) -> float:
    """The root mean squared error of explicit predictions."""
    shift = state.c.dtype.type(state.mean) + state.c
    squares = test.over_rows(row_squares, state.V, shift, compiled, aligned=(state.U, state.b))
    return float(np.sqrt(squares.sum() / test.mass))


class OutOfTime(Exception):
    """Raised when time is up: what was tried by now decides."""


@dataclass
class Search:
    """Trials on one pair of training and held-out entries."""

    algorithm: ALSAlgorithm
    train: Observed
    test: Observed
    seed: Any
    deadline: float | None
    trials: list[Trial]

    @property
    def best(self) -> Trial:
        return min(self.trials, key=lambda trial: trial.error)

    def along(self, rank: int, penalty: Penalty, values: Sequence[float]) -> list[Trial]:
        """A path over falling λ, until it got worse."""
        if self.trials and self.deadline is not None and time.perf_counter() >= self.deadline:
            raise OutOfTime
        algorithm = replace(
            self.algorithm, rank=rank, weighted=penalty.weighted, bias_reg=penalty.bias_reg
        )
        path, judge = Path(algorithm, over={"reg": values}, stop=ENOUGH), GotWorse(self.test, algorithm.compiled)  # fmt: skip
        stop: Stop = judge
        if self.deadline is not None:
            stop = judge | Seconds(max(self.deadline - time.perf_counter(), 1e-3))
        solution = run(path, self.train, stop=stop, rng=self.seed)
        if solution.stopped == Stopped.INTERRUPTED:
            raise KeyboardInterrupt(
                "interrupted while rank and reg were being chosen; there is nothing to keep."
            )
        judge.reason(solution)  # the last run of a path ends without being asked
        errors = judge.errors or [
            held_out_rmse(solution.state.state, self.test, algorithm.compiled)
        ]
        found = [
            Trial(rank, replace(penalty, reg=float(reg)), error)
            for reg, error in zip(values, errors, strict=False)
        ]
        self.trials += found
        return found

    def level(self, rank: int, weighted: float, bias_reg: float | None) -> Trial:
        """The best λ of one weighting: by halves, in steps of √2, and at the bottom of a parabola."""
        top = HIGHEST * unit(self.train, weighted)
        start = Penalty(top, weighted, bias_reg)
        found = self.along(rank, start, [top * 0.5**t for t in range(HALVINGS)])
        for _ in range(2):
            best = min(found, key=lambda trial: trial.error)
            found += self.along(
                rank, best.penalty, [best.penalty.reg * STEP, best.penalty.reg / STEP]
            )
        best = min(found, key=lambda trial: trial.error)
        found += self.along(rank, best.penalty, [_between(best, found)])
        return min(found, key=lambda trial: trial.error)

    def ranks(self, ranks: Sequence[int], vary: bool) -> None:
        """One rank after the other, with λ falling from a step above the best so far, until two in a row did not help."""
        failures = 0
        for rank in ranks:
            before, penalty = self.best.error, self.best.penalty
            steps = range(1, -2 * HALVINGS, -1) if vary else (0,)
            self.along(rank, penalty, [penalty.reg * STEP**step for step in steps])
            failures = 0 if self.best.error < before else failures + 1
            if failures == 2:
                break


def choose(
    algorithm: ALSAlgorithm,
    data: Observed,
    *,
    rank: Any,
    penalties: Sequence[Penalty],
    search_reg: bool,
    seed: Any = 0,
    seconds: float | None = None,
) -> tuple[int, Penalty, Array]:
    """Rank and penalty with the least held-out error, and a table (COLUMNS) of all that was tried.

    rank : a number, or "auto"
    penalties : one per weighting to try; with search_reg=False the only one
    seconds : when to stop trying; what was tried by then decides
    """
    train, test = data.split(HELD_OUT, seed=seed)
    if train.n_observed == 0 or test.n_observed == 0:
        raise ValueError(
            f"'auto' holds out a tenth of the entries, and {data.n_observed} are too few for that; pass rank and reg."
        )
    smaller = min(data.shape)
    first = min(FIRST_RANK, smaller) if rank == "auto" else int(rank)
    deadline = None if seconds is None else time.perf_counter() + seconds
    search = Search(algorithm, train, test, seed, deadline, [])
    try:
        for penalty in penalties:
            if search_reg:
                search.level(first, penalty.weighted, penalty.bias_reg)
            else:
                search.along(first, penalty, [penalty.reg])
        if rank == "auto":
            search.ranks([k for k in RANKS if first < k <= smaller], search_reg)
            search.ranks([k for k in RANKS[::-1] if k < min(first, search.best.rank)], search_reg)
        if search_reg and algorithm.biases:
            _bias_levels(search)
    except OutOfTime:
        pass
    best = search.best
    return best.rank, best.penalty, np.array([trial.row for trial in search.trials], data.dtype)


def _bias_levels(search: Search) -> None:
    """κ three times smaller and larger, as long as that helps."""
    for step in (1 / BIAS_STEP, BIAS_STEP):
        for _ in range(3):
            best = search.best
            if best.penalty.bias_reg is None:
                return
            tried = replace(best.penalty, bias_reg=best.penalty.bias_reg * step)
            search.along(best.rank, tried, [tried.reg])
            if search.best is best:
                break


def _between(best: Trial, trials: Sequence[Trial]) -> float:
    """Where the parabola through the best λ and its neighbours (in log λ) is lowest; a step on where a neighbour is missing."""
    reg = best.penalty.reg
    around = {round(math.log(one.penalty.reg / reg) / math.log(STEP)): one.error for one in trials}
    if -1 not in around or 1 not in around:
        return reg * STEP ** (-1 if -1 not in around else 1)
    down, up = around[-1] - best.error, around[1] - best.error
    return reg * STEP ** (0.5 * (down - up) / max(down + up, np.finfo(float).tiny))
