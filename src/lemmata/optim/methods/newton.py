"""Second-order steps: damped Newton, and L-BFGS by SciPy.

    Newton   p = −(H + τI)⁻¹g, τ = 0 where H is positive definite, else the least of a rising sequence that makes it so;
             x ← x + tp with t = 1, ½, ¼, … by Armijo                                     quadratic convergence near a minimum

L-BFGS is SciPy's: it keeps ten pairs of steps and changes of gradients in place of H, and is what one takes for a smooth
function of many numbers without constraints.

    >>> import numpy as np
    >>> from lemmata.core import MaxSteps, SmallGradient, run
    >>> from lemmata.optim.objectives import Rosenbrock
    >>> solution = run(newton_descent(Rosenbrock(), np.array([-1.2, 1.0])), None, stop=SmallGradient(1e-9) | MaxSteps(100))
    >>> solution.stopped, solution.step, solution.state.x.round(6)
    ('small gradient', 21, array([1., 1.]))
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from lemmata.core.loop import Stopped
from lemmata.core.store import storable
from lemmata.optim.curvature import hessian
from lemmata.optim.functions import Function
from lemmata.optim.methods.backtracking import LineSearchDescent
from lemmata.optim.methods.base import PointMethod

Array = np.ndarray


@dataclass(frozen=True)
class NewtonDirection:
    """−(H + τI)⁻¹g with the least τ ≥ 0 of 0, δ, 4δ, 16δ, … that makes H + τI positive definite, δ = 10⁻³ of ‖H‖."""

    objective: Any  # with hessian(x), or with gradients

    def __call__(self, x: Array, gradient: Array) -> Array:
        H = np.asarray(hessian(self.objective, x), dtype=np.float64)
        scale = float(np.linalg.norm(H, 2 if len(H) <= 100 else "fro")) or 1.0
        tau = 0.0
        while True:
            try:
                factor = cho_factor(H + tau * np.eye(len(H)), lower=True)
            except LinAlgError:
                tau = 4 * tau or 1e-3 * scale
                continue
            p = -cho_solve(factor, gradient.ravel()).reshape(x.shape)
            # a nearly singular factor may turn p around by rounding
            if float(np.vdot(p, gradient)) <= 0 and np.isfinite(p).all():
                return p.astype(x.dtype, copy=False)
            tau = 4 * tau or 1e-3 * scale


def newton_descent(
    objective: Any, start: Array, function: Function | None = None
) -> LineSearchDescent:
    """Damped Newton steps on an objective; its Hessian is its own, or differences of its gradients."""
    return LineSearchDescent(function or objective, start, "armijo", NewtonDirection(objective))


@storable
@dataclass(frozen=True)
class LBFGSState:
    """The point where SciPy ended, and the rows of its own run: objective, norm of the gradient, seconds."""

    version = 1

    x: Array
    gradient: Array
    loss: float
    rows: Array  # (steps + 1, 3)
    word: str = ""  # why it ended; "" before it began


@dataclass(frozen=True)
class LBFGS(PointMethod):
    """SciPy's L-BFGS-B as one step: its loop is compiled, and its memory cannot be handed out between two of its steps."""

    function: Function
    start: Array
    tol: float = 1e-6
    max_iter: int = 1000
    time_limit: float | None = None
    pairs: int = 10

    draws: ClassVar[bool] = False
    hint: ClassVar[str] = "see whether f has a minimum at all, or pass a constraint"

    def init(self, data: Any, rng: Any) -> LBFGSState:
        value, gradient = self._evaluate(self.start)
        row = [value, float(np.linalg.norm(gradient)), 0.0]
        return LBFGSState(self.start, gradient, value, np.array([row]))

    def step(self, state: LBFGSState, data: Any) -> LBFGSState:
        from scipy.optimize import minimize

        begin, shape, dtype = time.perf_counter(), state.x.shape, state.x.dtype
        rows, word = [state.rows[0]], ""
        last: dict[str, Any] = {"x": state.x, "at": (state.loss, state.gradient)}
        seen: dict[bytes, tuple[float, Array]] = {}

        def flat(z: Array) -> tuple[float, Array]:
            value, gradient = self.function(z.reshape(shape).astype(dtype, copy=False))
            found = float(value), np.asarray(gradient, np.float64).ravel()
            seen.clear()
            seen[z.tobytes()] = found
            return found

        def after(intermediate_result: Any) -> None:
            nonlocal word
            z = intermediate_result.x
            value, gradient = seen.get(z.tobytes()) or flat(z)
            norm = float(np.linalg.norm(gradient))
            rows.append(np.array([value, norm, time.perf_counter() - begin]))
            last.update(x=z.reshape(shape).astype(dtype), at=(value, gradient.reshape(shape)))
            if norm <= self.tol:
                word = Stopped.SMALL_GRADIENT
            elif self.time_limit is not None and rows[-1][2] >= self.time_limit:
                word = Stopped.OUT_OF_TIME
            if word:
                raise StopIteration

        if rows[0][1] > self.tol:
            # SciPy's own rules are off (gtol, ftol): ours are the norm of the gradient and the budgets
            limits = {"maxiter": self.max_iter, "maxfun": 20 * self.max_iter}
            options = {"maxcor": self.pairs, **limits, "gtol": 0.0, "ftol": 0.0}
            start, how = state.x.ravel().astype(np.float64), "L-BFGS-B"
            try:
                minimize(flat, start, jac=True, method=how, callback=after, options=options)
            except KeyboardInterrupt:
                word = Stopped.INTERRUPTED
        else:
            word = Stopped.SMALL_GRADIENT
        if not word:  # either the budget is spent, or no step along the line is better
            word = Stopped.MAX_STEPS if len(rows) > self.max_iter else Stopped.FINISHED
        value, gradient = last["at"]
        return LBFGSState(last["x"], gradient.astype(dtype), value, np.array(rows), word)

    def finished(self, state: LBFGSState) -> bool:
        return bool(state.word)

    def objective(self, state: LBFGSState) -> float:
        return state.loss if math.isfinite(state.loss) else math.inf
