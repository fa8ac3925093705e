"""Stochastic gradients of a finite sum: rows in random order, a few at a time.

    f(w) = 1/n Σ f_i(w),   w ← w − ηₜ · 1/|B| Σ_{i∈B} ∇f_i(w)       B runs through a random order of the rows, an epoch a step

The mean over a batch is an unbiased estimate of the gradient (ML "Stochastic Gradient Descent"); with a sub-gradient of each
f_i the same loop is the stochastic sub-gradient method. The order of epoch e follows from the seed in the state and from e,
so a run that was stopped and resumed is bit for bit the run that was not.

    >>> import numpy as np
    >>> from lemmata.core import MaxSteps, run
    >>> from lemmata.optim import SGD, LeastSquares, PowerDecay
    >>> rng = np.random.default_rng(0)
    >>> X, w = rng.standard_normal((500, 3)), np.array([1.0, -2.0, 3.0])
    >>> sgd = StochasticDescent(LeastSquares(X, X @ w), SGD(PowerDecay(0.3, r=0.6)), np.zeros(3), batch_size=10)
    >>> run(sgd, None, stop=MaxSteps(20), rng=0).state.x.round(3)
    array([ 1., -2.,  3.])
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np

from lemmata.core.store import storable
from lemmata.optim.methods.base import NAN, PointMethod
from lemmata.optim.schedules import rate
from lemmata.optim.steps import Optimizer, OptState

Array = np.ndarray
EVALUATE_AT_ONCE = 2**16  # rows of a finite sum that are given to `batch` together


class FiniteSum(Protocol):
    """A mean of n terms that can be evaluated on some of them."""

    @property
    def n_terms(self) -> int: ...

    def batch(self, w: Array, rows: Array) -> tuple[float, Array]:
        """Value and gradient of the mean over these rows."""
        ...

    def __call__(self, w: Array) -> tuple[float, Array]: ...


@dataclass(frozen=True)
class SumOf:
    """A user's finite sum: `batch(w, rows)` returns the value and the gradient of the mean over rows.

    >>> X = np.array([[1.0], [3.0]])
    >>> f = SumOf(2, lambda w, rows: (float(((X[rows] @ w) ** 2).mean()), 2 * X[rows].T @ (X[rows] @ w) / len(rows)))
    >>> f(np.array([1.0]))
    (5.0, array([10.]))
    """

    n_terms: int
    batch: Callable[[Array, Array], tuple[float, Array]]

    def __call__(self, w: Array) -> tuple[float, Array]:
        value, gradient = 0.0, np.zeros_like(w)
        for start in range(0, self.n_terms, EVALUATE_AT_ONCE):
            rows = np.arange(start, min(start + EVALUATE_AT_ONCE, self.n_terms))
            part, slope = self.batch(w, rows)
            share = len(rows) / self.n_terms
            value, gradient = value + share * float(part), gradient + share * np.asarray(slope)
        return value, gradient


def is_finite_sum(f: Any) -> bool:
    return callable(getattr(f, "batch", None)) and hasattr(f, "n_terms")


@storable
@dataclass(frozen=True)
class StochasticState:
    """The iterate after some epochs, the whole function there, what the optimiser remembers, and the order of what comes."""

    version = 1

    w: Array  # where the next batch begins
    x: Array  # the answer: w, or the mean of all iterates
    gradient: Array  # of the whole function at x
    loss: float  # at x
    memory: OptState
    seed: int
    epoch: int
    step_size: float  # of the last batch


@dataclass(frozen=True)
class StochasticDescent(PointMethod):
    """An epoch of mini-batch steps with any optimiser, as one step of the loop.

    Parameters
    ----------
    function : a finite sum
        LeastSquares, Logistic, LeastAbsolute, or SumOf(n, batch).
    optimizer : Optimizer
        Its schedule counts batches, not epochs.
    batch_size : int
        Rows per step; the last batch of an epoch may be smaller.
    average : bool
        Whether the answer is the mean of all iterates (Polyak & Ruppert), which takes noise out of a run whose steps shrink
        slowly.
    constraint : callable, optional
        The nearest point of a set, applied after every batch.
    """

    function: FiniteSum
    optimizer: Optimizer
    start: Array
    batch_size: int = 32
    average: bool = False
    constraint: Callable[[Array], Array] | None = None

    hint: ClassVar[str] = "lower the step size of the optimiser"

    def init(self, data: Any, rng: np.random.Generator) -> StochasticState:
        seed = int(rng.integers(2**63))
        w = self._nearest(self.start)
        return self._at(w, w, self.optimizer.init((w,)), seed, 0, NAN)

    def step(self, state: StochasticState, data: Any) -> StochasticState:
        n = self.function.n_terms
        order = np.random.default_rng([state.seed, state.epoch]).permutation(n)
        w, memory, mean, eta = state.w, state.memory, state.x, state.step_size
        for start in range(0, n, self.batch_size):
            eta = rate(self.optimizer.step_size, memory.count)
            _, gradient = self.function.batch(w, order[start : start + self.batch_size])
            (w,), memory = self.optimizer.step(memory, (w,), (np.asarray(gradient, w.dtype),))
            w = self._nearest(w)
            if self.average:
                mean = mean + (w - mean) / w.dtype.type(memory.count)
        answer = mean if self.average else w
        return self._at(w, answer, memory, state.seed, state.epoch + 1, float(eta))

    def _at(self, w: Array, x: Array, memory: OptState, seed: int, epoch: int, eta: float) -> Any:
        value, gradient = self._evaluate(x)
        return StochasticState(w, x, gradient, value, memory, seed, epoch, eta)

    def extras(self, state: StochasticState) -> dict[str, float]:
        return {
            "gradient": float(np.linalg.norm(state.gradient)),
            "step_size": state.step_size,
            "updates": float(state.memory.count),
        }
