"""When a descent of λ ends: settled at the last one, or past the one with the least error on held-out entries."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lemmata.completion.nuclear.sparse_lowrank import entry_values
from lemmata.completion.observed import Observed
from lemmata.core.loop import Settled, Stop

Array = np.ndarray

WORSE = 3  # levels in a row with a larger held-out error: the best is behind us


@dataclass(frozen=True)
class SettledAtReg(Settled):
    """Settled, and the level has come down to λ."""

    def reason(self, solution):
        return super().reason(solution) if solution.state.level <= solution.algorithm.reg else None


class HeldOut(Stop):
    """Ends a descent of the level when the error on held-out entries has risen WORSE times; keeps the errors."""

    def __init__(self, test: Observed):
        self.test, self.best, self.since = test, np.inf, 0
        self.levels: list[float] = []
        self.squares: list[Array] = []  # of every held-out entry, at each level

    def reason(self, solution):
        state = solution.state
        errors = self.test.values - entry_values(self.test, *state.factors)
        self.squares.append(np.square(errors, dtype=np.float64))
        self.levels.append(state.level)
        self.since += 1
        if self.squares[-1].mean() < self.best:
            self.best, self.since = self.squares[-1].mean(), 0
        return "got worse" if self.since >= WORSE or state.level <= solution.algorithm.reg else None

    @property
    def level(self) -> float:
        """The largest level that is not worse than the best by more than the standard error of the difference."""
        best = self.squares[int(np.argmin([squares.mean() for squares in self.squares]))]
        more = [squares - best for squares in self.squares]
        close = [one.mean() <= one.std() / np.sqrt(len(one)) for one in more]
        return self.levels[close.index(True)]
