"""The notes' stochastic sub-gradient method for the SVM (Pegasos): a few rows at a time, steps of 1/(λt).

    w ← (1 − 1/t) w + 1/(λt) · mean of yᵢx̃ᵢ over the rows of the batch with yᵢf(xᵢ) < 1,        λ = 1/(C Σs)

The objective is λ-strongly convex, so steps of 1/(λt) bring it to within O(log t / λt) of the minimum, in the mean; no constant
step would. Half of the epochs' iterates are averaged, which takes the logarithm away. Quick to a rough gap, slow to a fine one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np

from lemmata.core.engine import map_reduce
from lemmata.core.store import storable
from lemmata.predict.linear_svm.interior import margins_of
from lemmata.predict.logistic.problem import LinearProblem, squared_sizes
from lemmata.predict.logistic.surrogates import signs

Array = np.ndarray


@storable
@dataclass(frozen=True)
class PegasosState:
    """The iterate, the mean of those since the count was last a power of two, and the objective of that mean."""

    version = 1
    layout: ClassVar = {"w mean": "m D"}

    w: Array  # (m, D)
    mean: Array  # (m, D)
    averaged: int  # epochs in the mean
    t: int
    primal: float
    epochs: int
    seed: int
    L: float  # what a gradient can grow by: 1 of the hinge, 2 max s‖x̃‖² of its square


@dataclass(frozen=True)
class SubgradientAlgorithm:
    """Stochastic sub-gradients of the hinge or squared hinge; a step is an epoch.

    C, squared : the weight of the loss; whether it is the squared hinge
    batch : rows at a time
    """

    C: float
    squared: bool = False
    batch: int = 32

    hint: ClassVar[str] = "scale the features to a common size"

    def init(self, data: LinearProblem, rng: np.random.Generator) -> PegasosState:
        W = np.zeros((data.m, data.D))
        L = 1.0
        if self.squared:
            sizes = map_reduce(partial(_sizes, intercept=data.intercept), data.data, [])
            L = 2 * max(sizes) * data.data.shape[0] / data.total
        state = PegasosState(W, W, 0, 1, 0.0, 0, int(rng.integers(2**31)), L)
        return replace(state, primal=self._primal(W, data))

    def _primal(self, W: Array, data: LinearProblem) -> float:
        missing = np.maximum(1 - margins_of(data, W), 0.0)
        s = data.classes_and_weights[1]
        loss = (s @ (missing**2 if self.squared else missing)).sum()
        return float(loss + (0.5 * (W * W) @ data.ridge).sum())

    def step(self, state: PegasosState, data: LinearProblem) -> PegasosState:
        rng = np.random.default_rng((state.seed, state.epochs))
        n, total = data.data.shape[0], data.total
        ridge = data.ridge / total  # of the mean loss; λ its largest
        lam = ridge.max()
        w, t, mean, seen = state.w.copy(), state.t, np.zeros_like(state.w), 0
        for rows, marks in data.blocks():
            order = rng.permutation(rows.shape[0])
            for start in range(0, len(order), self.batch):
                chosen = order[start : start + self.batch]
                X, (c, s) = rows[chosen], marks[chosen].T
                y = signs(c, data.m)
                d = X.shape[1]
                F = np.asarray(X @ w[:, :d].T) + (w[:, d] if data.intercept else 0.0)
                missing = np.maximum(1 - y * F, 0.0)
                U = y * (2 * missing if self.squared else missing > 0) * (s * n / total)[:, None]
                # the first steps of 1/(λt) would be as long as 1/λ itself
                eta = 1 / (lam * t + state.L)
                w *= 1 - eta * ridge
                w[:, :d] += (eta / len(chosen)) * np.asarray(X.T @ U).T
                if data.intercept:
                    w[:, d] += (eta / len(chosen)) * U.sum(axis=0)
                t, mean, seen = t + 1, mean + w, seen + 1
        mean /= seen
        # a new mean whenever the number of epochs is a power of two: always about half of them
        epochs = state.epochs + 1
        if epochs & (epochs - 1) == 0:
            averaged = 1
        else:
            averaged = state.averaged + 1
            mean = state.mean + (mean - state.mean) / averaged
        return replace(
            state, w=w, mean=mean, averaged=averaged, t=t, primal=self._primal(mean, data), epochs=epochs
        )  # fmt: skip

    def objective(self, state: PegasosState) -> float:
        return state.primal

    def attributes(self, state: PegasosState) -> dict[str, Any]:
        return {"W": state.mean}

    def finished(self, state: PegasosState) -> bool:
        return False


def _sizes(rows: Any, marks: Array, intercept: bool) -> list[float]:
    """The largest s‖x̃‖² of a block."""
    return [float((marks[:, 1] * (squared_sizes(rows) + intercept)).max(initial=0.0))]
