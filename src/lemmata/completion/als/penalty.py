"""Rank and λ of ALS from the data: a short validated path.

A tenth of the entries is held out. At a small rank λ falls by halves from σ₁, below which the factors leave zero (CIL 2.5.2),
each run warm-started from the one before, until the held-out error has risen twice. Then the rank is doubled as long as that
lowers the error by 0.1 %, and each time λ is tried in steps of √2 around the best so far: a higher rank asks for a similar λ,
since both bound the same sum of singular values. A parabola through the best three gives the last value to try.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from lemmata.completion.als.algorithm import ALSAlgorithm, ALSState, row_squares
from lemmata.completion.observed import Observed
from lemmata.core.loop import MaxSteps, Seconds, Settled, Stop, Stopped, run
from lemmata.core.repeat import Path
from lemmata.linalg import spectral_norm

Array = np.ndarray
Trial = tuple[int, float, float]  # rank, λ, held-out RMSE

HELD_OUT = 0.1
RANKS = (4, 8, 16, 32, 64)
HALVINGS = 14  # σ₁ / 16,000: with less noise than that nothing is left to choose
STEP = 2**0.5  # between values of λ around the best one
# of one run on the path: the order of the errors shows long before the last digits
ENOUGH = Settled(1e-4) | MaxSteps(6)
WORTHWHILE = 1e-3  # of the error: what a doubled rank has to gain


class GotWorse(Stop):
    """Ends a path when the held-out error of its last two runs was above the best; keeps the errors."""

    def __init__(self, held_out: Observed):
        self.held_out = held_out
        self.errors: list[float] = []

    def reason(self, solution):
        for state in solution.state.results[len(self.errors) :]:
            self.errors.append(held_out_rmse(state, self.held_out))
        worse = len(self.errors) - 1 - int(np.argmin(self.errors)) if self.errors else 0
        return "got worse" if worse >= 2 else None


def held_out_rmse(state: ALSState, test: Observed) -> float:
    """The root mean squared error of explicit predictions."""
    shift = state.c.dtype.type(state.mean) + state.c
    squares = test.over_rows(row_squares, state.V, shift, aligned=(state.U, state.b))
    return float(np.sqrt(squares.sum() / test.n_observed))


def largest_reg(algorithm: ALSAlgorithm, A: Observed) -> float:
    """σ₁ of the entries without their mean (rows and columns divided by √counts if λ is weighted): above it U = V = 0."""
    mean = A.values.mean(dtype=np.float64) if algorithm.biases else 0.0
    X: Any = A.csr().astype(np.float64)
    X.data = X.data - mean
    if algorithm.weighted:
        row, column = (
            sp.diags_array(np.maximum(counts, 1) ** -0.5)
            for counts in (A.row_counts, A.column_counts)
        )
        X = row @ X @ column
    return spectral_norm(X) if X.nnz and X.data.any() else 1.0


def choose(
    algorithm: ALSAlgorithm,
    data: Observed,
    *,
    rank: Any,
    reg: Any,
    seed: Any = 0,
    seconds: float | None = None,
) -> tuple[int, float, Array]:
    """Rank and λ with the least held-out error, and a table (rank, λ, RMSE) of all that was tried.

    rank, reg : a number, or "auto"
    seconds : when to stop trying; what was tried by then decides
    """
    train, test = data.split(HELD_OUT, seed=seed)
    if train.n_observed == 0 or test.n_observed == 0:
        raise ValueError(
            f"'auto' holds out a tenth of the entries, and {data.n_observed} are too few for that; pass rank and reg."
        )
    smaller = min(data.shape)
    ranks = (
        tuple(k for k in RANKS if k <= smaller) or (smaller,) if rank == "auto" else (int(rank),)
    )
    deadline = None if seconds is None else time.perf_counter() + seconds
    top = largest_reg(algorithm, train)
    values: Sequence[float] = (
        [top * 0.5**t for t in range(1, HALVINGS)] if reg == "auto" else [float(reg)]
    )
    table: list[Trial] = []
    # one rank: once by halves, once around the best
    rounds = ranks if len(ranks) > 1 or reg != "auto" else ranks * 2
    for k in rounds:
        before = min((error for *_, error in table), default=np.inf)
        table += _along(replace(algorithm, rank=k), values, train, test, seed, deadline)
        best = min(table, key=lambda trial: trial[2])
        out_of_time = deadline is not None and time.perf_counter() >= deadline
        if out_of_time or best[2] > (1 - WORTHWHILE) * before:
            break
        values = [best[1] * STEP, best[1], best[1] / STEP] if reg == "auto" else values
    best = min(table, key=lambda trial: trial[2])
    if reg == "auto" and not out_of_time:
        values = [best[1] * STEP, _between(best, table)]
        table += _along(replace(algorithm, rank=best[0]), values, train, test, seed, deadline)
        best = min(table, key=lambda trial: trial[2])
    return best[0], best[1], np.array(table, dtype=data.dtype)


def _between(best: Trial, table: list[Trial]) -> float:
    """Where the parabola through the best λ and its neighbours (in log λ) is lowest; a step on where a neighbour is missing."""
    around = {
        round(np.log(reg / best[1]) / np.log(STEP)): error
        for rank, reg, error in table
        if rank == best[0]
    }
    if -1 not in around or 1 not in around:
        return best[1] * STEP ** (-1 if -1 not in around else 1)
    down, up = around[-1] - best[2], around[1] - best[2]
    return best[1] * STEP ** (0.5 * (down - up) / max(down + up, np.finfo(float).tiny))


def _along(algorithm, values, train, test, seed, deadline) -> list[Trial]:
    """(rank, λ, RMSE) of a path over falling λ."""
    path, judge = Path(algorithm, over={"reg": values}, stop=ENOUGH), GotWorse(test)
    stop: Stop = (
        judge if deadline is None else judge | Seconds(max(deadline - time.perf_counter(), 1e-3))
    )
    solution = run(path, train, stop=stop, rng=seed)
    if solution.stopped == Stopped.INTERRUPTED:
        raise KeyboardInterrupt(
            "interrupted while rank and reg were being chosen; there is nothing to keep."
        )
    judge.reason(solution)  # the last run of a path ends without being asked
    errors = judge.errors or [held_out_rmse(solution.state.state, test)]
    return [(algorithm.rank, float(reg), error) for reg, error in zip(values, errors, strict=False)]
