"""Newton's method, damped: solve with the Hessian, halve the step until the objective falls enough.

    W ← W − t H⁻¹ ∇F(W),      t the first of 1, ½, ¼, … with  F(W − tp) ≤ F(W) − 10⁻⁴ t ∇Fᵀp

Near the minimum t = 1 and the number of right digits doubles a step (ML, "Newton"). Three savings, none of which changes the
minimum: H is kept while the steps with it still shrink the Newton decrement ∇FᵀH⁻¹∇F by a factor of twenty; it is summed
in float32 as long as that works, and of thin sparse rows not at all (thin.py); and large data starts from the minimum on a
sample of its rows, with the Hessian found there.

    >>> from sklearn.datasets import load_iris
    >>> from lemmata.core import Blocks, run
    >>> X, y = load_iris(return_X_y=True)
    >>> free, ridge = np.zeros(5), np.array([1.0, 1, 1, 1, 0])
    >>> from lemmata.predict.logistic.surrogates import SoftmaxSurrogate
    >>> data, loss = Blocks.of(X).with_targets(y), SoftmaxSurrogate(3)
    >>> problem = linear.LinearProblem.of(data, loss, ridge, free, intercept=True)
    >>> solution = run(NewtonAlgorithm(), problem, stop=linear.NearOptimum(1e-8))
    >>> solution.stopped, solution.step < 12
    ('small gradient', True)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import scipy.linalg

from lemmata.core.loop import MaxSteps, run
from lemmata.core.store import storable
from lemmata.predict.logistic import problem as linear
from lemmata.predict.logistic.thin import fit_intercept_alone, solve_by_products

Array = np.ndarray
ENOUGH = 1e-4  # of the decrease that the gradient promises (Armijo)
HALVINGS = 40
UNSEEN = 1e-13  # of the objective: less than that is lost in the rounding of a sum of losses
KEEP = 0.05  # of the squared decrement: with a better step than that the Hessian is kept
SINGLE_WORK = 2**24  # multiplications in a Hessian from which float32 saves time
SAMPLE_WORK = 2**27  # and from which a first solution on a sample does
SAMPLE = 16  # a sample is a 16th of the rows, or 40 rows a weight if that is more


@storable
@dataclass(frozen=True)
class NewtonState:
    """Weights with objective and gradient there, and the Hessian of this or an earlier step."""

    version = 3
    layout: ClassVar = {
        "W gradient": "m D",
        "losses": "m",
        "first gap": "any >=0",
        "hessian?": "m D D | e e",
        "scores?": "n m",
    }

    W: Array
    losses: Array
    gradient: Array
    first: float  # how far from the minimum, in the two measures of LinearProblem.slack
    gap: float
    hessian: Array | None = None  # (m, D, D) or (mD, mD); None: to be summed again
    single: bool = (
        True  # whether float32, or products in the place of a Hessian, have been good enough so far
    )
    stalled: bool = False  # no better point was found, or rounding leaves nothing to gain
    promised: float = np.inf  # the decrement of the last step, relative to the objective
    scores: Array | None = None  # (n, m) of thin rows

    @classmethod
    def upgrade(cls, fields: dict[str, Any], version: int) -> dict[str, Any]:
        """Version 1 had no promises, version 2 no scores."""
        return {"promised": np.inf, "scores": None, **fields}

    @classmethod
    def of(cls, point: linear.LossPoint, problem: linear.LinearProblem, **more: Any) -> NewtonState:
        first, gap = problem.slack(point)
        more.setdefault("scores", point.scores)
        return cls(point.W, point.losses, point.gradient, first, gap, **more)

    @cached_property
    def point(self) -> linear.LossPoint:
        return linear.LossPoint(self.W, self.losses, self.gradient, scores=self.scores)


@dataclass(frozen=True)
class NewtonAlgorithm:
    """Damped Newton on a LinearProblem without lasso terms.

    start : (m, D), where to begin; zero by default
    sampling : whether large data begins at the minimum of a sample
    """

    start: Array | None = None
    sampling: bool = True

    draws: ClassVar[bool] = False
    hint: ClassVar[str] = "scale the features to a common size"

    def init(self, data: linear.LinearProblem, rng: Any) -> NewtonState:
        work = data.data.shape[0] * (data.m * data.D) ** 2 / (1 if data.loss.coupled else data.m)
        single = work >= SINGLE_WORK and data.fits_single()
        if data.thin is not None:
            start = fit_intercept_alone(data) if self.start is None else self.start
            return NewtonState.of(refuse_overflow(data.at(start)), data)
        if self.start is None and self.sampling and work >= SAMPLE_WORK:
            found = self._on_a_sample(data, single)
            if found is not None:
                return found
        start = np.zeros((data.m, data.D)) if self.start is None else self.start
        point = refuse_overflow(data.at(start, 2 if data.small else 1))
        return NewtonState.of(point, data, hessian=point.hessian, single=single)

    def _on_a_sample(self, data: linear.LinearProblem, single: bool) -> NewtonState | None:
        """The minimum on a sample of the rows, with its Hessian; None where there is no sample, or where it misleads."""
        rows = data.data.shape[0] // SAMPLE
        sample = data.sample(max(rows, 40 * data.D * (data.m if data.loss.coupled else 1)))
        if sample is None:
            return None
        child = replace(self, sampling=False)
        found = run(child, sample, stop=linear.NearOptimum(1e-3) | MaxSteps(30)).state
        point = data.at(found.W)
        if not point.loss < data.loss_at_zero():
            return None
        H = found.hessian if found.hessian is not None else sample.at(found.W, 2, single).hessian
        return NewtonState.of(point, data, hessian=H, single=single)

    def step(self, state: NewtonState, data: linear.LinearProblem) -> NewtonState:
        point, H, single = state.point, state.hessian, state.single
        if data.small:
            return self._small_step(state, data)
        if H is None and single and data.thin is not None:
            thin = self._thin_step(state, data)
            if thin is not None:
                return thin
            single = False
        fresh = H is None
        if H is None:
            H = data.at(point.W, 2, single).hessian
        assert H is not None
        p, decrement = directions(H, point.gradient, data)
        found, moved = search_line(data, point, p, decrement)
        if not moved.all() and not (fresh and not single):
            # what was saved on the Hessian was too much: again, with all of its digits
            H = data.at(point.W, 2).hessian
            assert H is not None
            single, fresh = False, True
            p, decrement = directions(H, point.gradient, data)
            found, moved = search_line(data, point, p, decrement)
        _, left = directions(H, found.gradient, data)
        keep = left.sum() <= KEEP * decrement.sum()
        return NewtonState.of(
            found,
            data,
            hessian=H if keep else None,
            # a fresh float32 Hessian should do better than a mere constant factor
            single=single and not (fresh and left.sum() > 0.9 * decrement.sum()),
            stalled=not moved.any() or nothing_left(decrement, found, lambda: left),
            promised=share_of(decrement, found),
        )

    def _thin_step(self, state: NewtonState, data: linear.LinearProblem) -> NewtonState | None:
        """A step without a Hessian; None where that leads nowhere."""
        rows, point = data.thin, state.point
        assert rows is not None
        F = rows.scores(point.W) if point.scores is None else point.scores
        solved = solve_by_products(rows, F, point.gradient, data.ridge)
        if solved is None:
            return None
        line = F, solved.P
        found, moved = search_line(data, point, solved.p, solved.decrement, line=line)
        if not moved.all():
            return None

        def left() -> Array:
            F = rows.scores(found.W) if found.scores is None else found.scores
            then = solve_by_products(rows, F, found.gradient, data.ridge)
            return solved.decrement if then is None else then.decrement

        stalled = nothing_left(solved.decrement, found, left)
        promised = share_of(solved.decrement, found)
        return NewtonState.of(found, data, stalled=stalled, promised=promised)

    def _small_step(self, state: NewtonState, data: linear.LinearProblem) -> NewtonState:
        """A step of a problem so small that calls cost more than arithmetic: loss and Hessian of every point in one pass."""
        H = state.hessian if state.hessian is not None else data.at(state.W, 2).hessian
        assert H is not None
        p, decrement = directions(H, state.gradient, data)
        found, moved = search_line(data, state.point, p, decrement, order=2)
        stalled = not moved.any() or nothing_left(
            decrement, found, lambda: directions(H, found.gradient, data)[1]
        )
        promised = share_of(decrement, found)
        return NewtonState.of(
            found, data, hessian=found.hessian, stalled=stalled, promised=promised
        )

    def objective(self, state: NewtonState) -> float:
        return state.point.loss

    def extras(self, state: NewtonState) -> dict[str, float]:
        return {"gradient": state.first, "gap": state.gap}

    def attributes(self, state: NewtonState) -> dict[str, Any]:
        return {"W": state.W}

    def finished(self, state: NewtonState) -> bool:
        return state.stalled or not np.any(state.gradient)


def share_of(decrement: Array, point: linear.LossPoint) -> float:
    """Return the decrease that a step promised, relative to the objective."""
    return float(np.maximum(decrement, 0.0).sum()) / max(abs(point.loss), linear.SMALLEST)


def nothing_left(decrement: Array, point: linear.LossPoint, left: Callable[[], Array]) -> bool:
    """Whether the decrease of a step is lost in the rounding of the objective, and what is `left` in that of the gradient.

    The gradient knows of smaller steps than the objective does: until it is rounding as well, they shrink the decrement.
    """
    return share_of(decrement, point) <= 1e-16 and not left().sum() < decrement.sum()


def refuse_overflow(point: linear.LossPoint) -> linear.LossPoint:
    """Refuse rows so large that sums over them leave the finite numbers."""
    if not (np.isfinite(point.loss) and np.isfinite(point.gradient).all()):
        raise ValueError(
            "X holds numbers so large that sums of their products overflow; divide its columns by their largest numbers."
        )
    return point


def directions(H: Array, g: Array, data: linear.LinearProblem) -> tuple[Array, Array]:
    """p = H⁻¹g for each problem and the decrements gᵀp, (m, D) and (m,); of a coupled loss all in the first."""
    m, D = g.shape
    if not data.loss.coupled:
        p = solve_all(H, g)
        return p, np.einsum("kj,kj->k", p, g)
    # a number added to the scores of all classes changes nothing: without a ridge H is singular along it, and one is added
    free = np.flatnonzero(data.ridge == 0)
    if len(free):
        H = H.copy()
        for j in free:
            at = j + D * np.arange(m)
            H[np.ix_(at, at)] += np.trace(H[np.ix_(at, at)]) / m**2 or 1.0
    p = solve(H, g.ravel()).reshape(m, D)
    return p, np.eye(1, m)[0] * float(np.vdot(p, g))


def solve(H: Array, g: Array) -> Array:
    """H⁻¹g by Cholesky of H with a unit diagonal; where that fails, with the little ridge that it needs."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        size = np.sqrt(np.maximum(np.diagonal(H), 0.0))
        if not np.isfinite(size).all():
            raise ValueError(
                "X holds numbers whose squares overflow; divide its columns by their largest numbers."
            )
        unit = np.where(size > 0, 1 / np.where(size > 0, size, 1.0), 0.0)
        A = H * unit[:, None] * unit
    diagonal = np.arange(len(A))
    for ridge in (0.0, 1e-12, 1e-9, 1e-6, 1e-3):
        A[diagonal, diagonal] = 1 + ridge
        factor, failed = scipy.linalg.lapack.dpotrf(A, lower=1)
        if failed == 0 and np.diagonal(factor).min() > 1e-8:
            x, _ = scipy.linalg.lapack.dpotrs(factor, g * unit, lower=1)
            return x * unit
    return g * unit**2


def solve_all(H: Array, g: Array) -> Array:
    """H⁻¹g of each problem; small ones together, where they are well enough behaved for it."""
    if H.size <= 2**14:
        diagonal = np.einsum("kii->ki", H)
        if diagonal.min() > 0 and diagonal.max() < 1e6 * diagonal.min():
            try:
                p = np.linalg.solve(H, g[:, :, None])[:, :, 0]
                # no longer than a condition of 1e8 allows, and downhill
                most = 1e8 * np.abs(g).max() / diagonal.max()
                if np.abs(p).max() <= most and np.vecdot(p, g).min() >= 0:
                    return p
            except np.linalg.LinAlgError:
                """Not positive definite to the last digit: one by one."""
    return np.stack([solve(one, right) for one, right in zip(H, g, strict=True)])


def together(data: linear.LinearProblem, each: Array) -> Array:
    """Numbers of each problem; of a coupled loss there is one, their sum, which stands for all: its classes move together."""
    return np.full(data.m, each.sum()) if data.loss.coupled else each


def search_line(
    data: linear.LinearProblem,
    point: linear.LossPoint,
    p: Array,
    decrement: Array,
    order: int = 1,
    line: tuple[Array, Array] | None = None,
) -> tuple[linear.LossPoint, Array]:
    """The first of W − p, W − p/2, … that lowers each objective enough, and which problems moved.

    line : the scores of W and of p, where they are known; the first step is then about as long as is best
    """

    def at(t: Array) -> linear.LossPoint:
        W = point.W - t[:, None] * p
        return data.at(W, order, scores=None if line is None else line[0] - t * line[1])

    t, before = np.ones(data.m), together(data, point.losses)
    if line is not None and data.thin is not None and not data.loss.coupled:
        shrunk = data.ridge * p
        penalty = -np.vecdot(shrunk, point.W - p), np.vecdot(shrunk, p)
        t = data.thin.lengths(*line, penalty)
    decrement = np.maximum(together(data, decrement), 0.0)
    slack = 1e-14 * np.abs(before)  # what rounding does to a sum of losses
    small = decrement <= UNSEEN * np.abs(before)
    for _ in range(HALVINGS):
        found = at(t)
        with np.errstate(invalid="ignore"):
            good = together(data, found.losses) <= before - ENOUGH * t * decrement + slack
        if good.all():
            return found, t > 0
        t = np.where(good, t, np.where(small, 0.0, t / 2))
        if not t.any():
            return point, t > 0
    t = np.where(good, t, 0.0)
    return (at(t) if t.any() else point), t > 0
