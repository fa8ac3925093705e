"""Newton's method with a lasso penalty: a small lasso of the Hessian takes the place of the linear system.

    z = argmin  ∇f(w)ᵀ(z − w) + ½ (z − w)ᵀH(z − w) + Σ lassoⱼ |zⱼ|,          w ← w + t (z − w)

The small lasso never sees the rows: coordinate descent finds which weights are zero, and a linear system of the others the
rest. With many features only some may move at a time, a *working set*: those that are not zero and those whose gradient most
exceeds its lassoⱼ. It grows until no other exceeds it, which is what makes a minimum:

    ∂f/∂wⱼ = −lassoⱼ sign(wⱼ)  where wⱼ ≠ 0,       |∂f/∂wⱼ| ≤ lassoⱼ  where wⱼ = 0
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lemmata.core.blocks import Blocks
from lemmata.core.engine import pick, worth_compiling
from lemmata.core.loop import MaxSteps, run
from lemmata.core.store import storable
from lemmata.predict.logistic import newton
from lemmata.predict.logistic.problem import LinearProblem, NearOptimum
from lemmata.predict.logistic.surrogates import Surrogate

Array = np.ndarray
COMPILED = 400  # weights from which the sweeps of a model are worth a compiler
# between two linear systems; those of a kernel cost next to nothing, a linear system of many weights does not
SWEEPS, COMPILED_SWEEPS = 4, 60
SYSTEMS, FEW_SYSTEMS = 20, 3
ROUNDS = 100
FIRST_SET = 64  # features in the first working set
WHOLE = 512  # features up to which all of them are the working set


def sweeps_for(size: int) -> Callable:
    """Return coordinate descent for a model with `size` weights."""
    return pick(worth_compiling(size, above=COMPILED), "lemmata.predict.logistic").sweep_into


def lasso_of(
    H: Array, g: Array, w: Array, lasso: Array, sweep: Callable, tol: float = 1e-1
) -> Array:
    """The minimiser of gᵀ(z − w) + ½(z − w)ᵀH(z − w) + Σ lasso|z|, to tol of how far w is from it.

    Both halves of a round lower the model, so that they may alternate for as long as it takes.
    """
    z, r = w.copy(), g.copy()  # r: the gradient of the quadratic at z
    goal = tol * _violation(z, r, lasso)
    for _ in range(ROUNDS):
        sweep(z, r, H, lasso, COMPILED_SWEEPS if hasattr(sweep, "py_func") else SWEEPS)
        if _violation(z, r, lasso) <= goal:
            break
        for _ in range(SYSTEMS if len(z) <= COMPILED else FEW_SYSTEMS):
            if not _polish_into(z, r, H, lasso):
                break
        if _violation(z, r, lasso) <= goal:
            break
    return z


def _polish_into(z: Array, r: Array, H: Array, lasso: Array) -> bool:
    """Minimise the model over the weights that are not zero, with their signs kept; whether some became zero instead."""
    A = np.flatnonzero((z != 0) | (lasso == 0))
    if len(A) == 0:
        return False
    HA = H[:, A]
    q = -newton.solve(HA[A], r[A] + lasso[A] * np.sign(z[A]))
    was, weight = z[A], lasso[A]
    for t in (1.0, 0.5, 0.25, 0.125, 0.0625, 0.0):
        # a weight that would change its sign stops at zero; at the latest, all go as far as the first that would
        crossing = (weight > 0) & (was * (was + t * q) < 0)
        if t == 0.0:
            ahead = (weight > 0) & (was * q < 0)
            reach = np.where(ahead, -was / np.where(ahead, q, 1.0), 1.0)
            t = min(reach.min(), 1.0)
            crossing = ahead & (reach <= t)
        step = np.where(crossing, -was, t * q)
        fall = r[A] @ step + 0.5 * step @ (HA[A] @ step)
        fall += weight @ (np.abs(was + step) - np.abs(was))
        if fall < 0:
            z[A] = np.where(crossing, 0.0, was + step)
            r += HA @ (z[A] - was)
            return bool(crossing.any())
    return False


def _violation(z: Array, r: Array, lasso: Array) -> float:
    inside = np.maximum(np.abs(r) - lasso, 0)
    return float(np.where(z == 0, inside, np.abs(r + np.sign(z) * lasso)).max(initial=0.0))


@dataclass(frozen=True)
class ProxNewtonAlgorithm(newton.NewtonAlgorithm):
    """Proximal Newton on a LinearProblem with lasso terms, all weights at once."""

    def step(self, state: newton.NewtonState, data: LinearProblem) -> newton.NewtonState:
        sweep = sweeps_for(data.D * (data.m if data.loss.coupled else 1))
        point, H, single = state.point, state.hessian, state.single
        fresh = H is None
        if H is None:
            H = data.at(point.W, 2, single).hessian
        p, decrement = self._towards(H, state, data, sweep)
        found, moved = newton.search_line(data, point, p, decrement)
        if not moved.all() and not (fresh and not single):
            H, single, fresh = data.at(point.W, 2).hessian, False, True
            p, decrement = self._towards(H, state, data, sweep)
            found, moved = newton.search_line(data, point, p, decrement)
        promised = newton.share_of(decrement, found)
        new = newton.NewtonState.of(found, data, hessian=H, single=single, promised=promised)
        _, left = self._towards(H, new, data, sweep)
        if not moved.any() or newton.nothing_left(decrement, found, lambda: left):
            return replace(new, stalled=True)
        if left.sum() <= newton.KEEP * decrement.sum():
            return new
        return replace(
            new, hessian=None, single=single and not (fresh and left.sum() > 0.9 * decrement.sum())
        )

    @staticmethod
    def _towards(H, state: newton.NewtonState, data: LinearProblem, sweep) -> tuple[Array, Array]:
        """w − z of the model's minimiser z, and the decrease it promises, for each problem."""
        W, g = state.W, state.gradient
        if data.loss.coupled:
            lasso = np.tile(data.lasso, data.m)
            Z = lasso_of(H, g.ravel(), W.ravel(), lasso, sweep).reshape(W.shape)
        else:
            Z = np.stack([lasso_of(H[k], g[k], W[k], data.lasso, sweep) for k in range(data.m)])
        promised = ((W - Z) * g).sum(axis=1) + (np.abs(W) - np.abs(Z)) @ data.lasso
        if data.loss.coupled:
            promised = np.eye(1, data.m)[0] * promised.sum()
        return W - Z, promised

    def finished(self, state: newton.NewtonState) -> bool:
        return state.stalled or state.first == 0


@storable
@dataclass(frozen=True)
class WorkingSetState(newton.NewtonState):
    """A NewtonState with the number of features that may move."""

    version = 2
    size: int = FIRST_SET


@dataclass(frozen=True)
class WorkingSetAlgorithm(newton.NewtonAlgorithm):
    """Proximal Newton on the features that matter; a step solves for one working set.

    tol : how far each of them is solved, relative to what is left to gain
    """

    tol: float = 0.1
    floor: float = 1e-10

    def init(self, data: LinearProblem, rng: Any) -> WorkingSetState:
        start = np.zeros((data.m, data.D)) if self.start is None else self.start
        return WorkingSetState.of(newton.refuse_overflow(data.at(start)), data)  # type: ignore[return-value]

    def step(self, state, data: LinearProblem) -> WorkingSetState:
        W, d = state.W, data.D - data.intercept
        strength = np.abs(data.violation(state.point)).max(axis=0)[:d]
        support = np.any(W[:, :d] != 0, axis=0)
        strength[support] = np.inf
        # those that are not zero, and as many again
        size = min(max(state.size, 2 * int(support.sum())), d)
        J = np.sort(np.argpartition(-strength, size - 1)[:size])
        part, columns = restrict(data, J)
        goal = max(self.tol * max(state.first, state.gap), self.floor)
        child = ProxNewtonAlgorithm(start=W[:, columns], sampling=False)
        solved = run(child, part, stop=NearOptimum(goal) | MaxSteps(50)).state
        new = W.copy()
        new[:, columns] = solved.W
        point = data.at(new)
        stalled = bool(point.loss >= state.point.loss and size == d)
        if not point.loss < state.point.loss:
            promised = solved.promised if size == d else np.inf
            return replace(state, size=min(2 * size, d), stalled=stalled, promised=promised)
        return WorkingSetState.of(point, data)  # type: ignore[return-value]

    def finished(self, state) -> bool:
        return state.stalled or state.first == 0


def restrict(data: LinearProblem, J: Array) -> tuple[LinearProblem, Array]:
    """The problem of some features (and the intercept), and the columns of W that are its own."""
    columns = np.append(J, data.D - 1) if data.intercept else J
    X = data.data.source[:, J]
    blocks = Blocks.of(X, data.data.weights)
    return (
        replace(data, data=blocks, ridge=data.ridge[columns], lasso=data.lasso[columns]),
        columns,
    )


def algorithm_for(
    data: Blocks, d: int, loss: Surrogate, start: Array | None
) -> newton.NewtonAlgorithm:
    """All weights at once where they are few, else by working sets."""
    many = d * (loss.m if loss.coupled else 1) > WHOLE
    return WorkingSetAlgorithm(start) if many and data.in_memory else ProxNewtonAlgorithm(start)
