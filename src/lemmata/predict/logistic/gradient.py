"""Gradient steps on the logistic loss: the methods of `lemmata.optim`, on all rows or on a few at a time.

    gd     W ← W − ∇F/L                          L = ½ or ¼ λ_max(X̃ᵀSX̃) + ridge: F is L-smooth, so F never rises
    sgd    W ← W − ηₜ ∇F of a batch,  ηₜ = η₀/(1 + t/τ)      Robbins–Monro: Σηₜ = ∞, Σηₜ² < ∞;   reported: the mean of an epoch

A lasso term takes its share after each step: every weight moves towards zero by η·lasso and stops there. Both are slow beside
Newton's method here; they are what the notes prove things about, and what streams of any width can afford.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from lemmata.core.engine import map_reduce
from lemmata.core.files.layout import check_alike
from lemmata.core.store import storable
from lemmata.optim.steps import SGD, GradientDescent, OptState
from lemmata.predict.logistic.newton import refuse_overflow
from lemmata.predict.logistic.problem import LinearProblem, LossPoint, block_sums

Array = np.ndarray
POWER_STEPS = 30
HALVED = 30  # epochs after which the steps of sgd are half as long


def smoothness(data: LinearProblem) -> float:
    """A number that no curvature of F exceeds: κ λ_max(X̃ᵀSX̃) + max ridge, κ = ¼ for two classes, ½ for more.

    λ_max by power iteration, which approaches from below, with a tenth on top.
    """
    kappa = 0.5 if data.loss.coupled else 0.25
    v = np.random.default_rng(0).standard_normal(data.D)
    value = 0.0
    for _ in range(POWER_STEPS):
        v /= np.linalg.norm(v) or 1.0

        def product(rows, marks, v=v):
            d = rows.shape[1]
            scores = np.asarray(rows @ v[:d]) + (v[d] if data.intercept else 0.0)
            scores = scores * marks[:, 1]
            out = np.asarray(rows.T @ scores, dtype=np.float64)
            return np.append(out, scores.sum()) if data.intercept else out

        v = np.asarray(map_reduce(product, data.data, 0.0))
        before, value = value, float(np.linalg.norm(v))
        if not math.isfinite(value):
            raise ValueError(
                "X holds numbers whose squares overflow; divide its columns by their largest numbers."
            )
        if abs(value - before) <= 1e-3 * value:
            break
    return 1.1 * kappa * value + float(data.ridge.max())


def shrink(W: Array, amount: Array) -> Array:
    """sign(w)(|w| − amount)₊: the prox of the lasso term."""
    return np.sign(W) * np.maximum(np.abs(W) - amount, 0.0)


@storable
@dataclass(frozen=True)
class GradientState:
    """Weights with objective and gradient there, and what the method remembers."""

    version = 1
    layout: ClassVar = {"W gradient at": "m D", "losses": "m", "seed": "int >=0"}

    W: Array
    losses: Array
    gradient: Array
    first: float
    gap: float
    L: float
    at: Array  # where the next epoch of sgd starts; gd: W
    memory: OptState
    seed: int

    @property
    def point(self) -> LossPoint:
        return LossPoint(self.W, self.losses, self.gradient)


@dataclass(frozen=True)
class GradientAlgorithm:
    """Gradient descent with the step 1/L."""

    start: Array | None = None

    hint: ClassVar[str] = "scale the features to a common size"

    def check_state(self, state: GradientState, data: LinearProblem) -> None:
        check_alike((state.W,), *state.memory.slots)

    def init(self, data: LinearProblem, rng: np.random.Generator) -> GradientState:
        W = np.zeros((data.m, data.D)) if self.start is None else self.start
        point = refuse_overflow(data.at(W))
        L, seed = smoothness(data), int(rng.integers(2**31))
        return GradientState(
            W, point.losses, point.gradient, *data.slack(point), L, W, OptState(0), seed
        )

    def step(self, state: GradientState, data: LinearProblem) -> GradientState:
        method = GradientDescent(1 / state.L)
        (W,), memory = method.step(state.memory, (state.W,), (state.gradient,))
        W = shrink(W, method.step_size * data.lasso)
        return self._move(state, data, W, W, memory)

    @staticmethod
    def _move(state, data: LinearProblem, W: Array, at: Array, memory: OptState) -> GradientState:
        point = data.at(W)
        first, gap = data.slack(point)
        return replace(
            state, W=W, losses=point.losses, gradient=point.gradient, first=first, gap=gap, at=at,
            memory=memory,
        )  # fmt: skip

    def objective(self, state: GradientState) -> float:
        return state.point.loss

    def extras(self, state: GradientState) -> dict[str, float]:
        return {"gradient": state.first, "gap": state.gap}

    def attributes(self, state: GradientState) -> dict[str, Any]:
        return {"W": state.W}

    def finished(self, state: GradientState) -> bool:
        return state.first == state.gap == 0


@dataclass(frozen=True)
class StochasticAlgorithm(GradientAlgorithm):
    """Mini-batches, shuffled within each block; a step is an epoch.

    batch : rows in a batch
    """

    batch: int = 64

    def step(self, state: GradientState, data: LinearProblem) -> GradientState:
        rng = np.random.default_rng((state.seed, state.memory.count))
        n = data.data.shape[0]
        batches = -(-n // self.batch)
        # a batch stands for all rows: its gradient is that of F up to noise, so the step of gd is where to start
        method = SGD(1 / state.L, decay=1 / (HALVED * batches))
        W, memory, mean, seen = state.at, state.memory, np.zeros_like(state.W), 0
        for rows, marks in data.blocks():
            order = rng.permutation(rows.shape[0])
            for start in range(0, len(order), self.batch):
                chosen = order[start : start + self.batch]
                sums = block_sums(
                    rows[chosen], marks[chosen], W, data.loss, data.intercept, 1, False
                )
                gradient = sums.gradient * (n / len(chosen)) + W * data.ridge
                eta = 1 / (state.L * (1 + memory.count / (HALVED * batches)))
                (W,), memory = method.step(memory, (W,), (gradient,))
                W = shrink(W, eta * data.lasso)
                mean, seen = mean + W, seen + 1
        return self._move(state, data, mean / seen, W, memory)
