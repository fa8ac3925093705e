"""From the name of a method to an algorithm: checked arguments, how a run begins and ends, and what is claimed of it."""

from __future__ import annotations

import inspect
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from lemmata.audit.optim.descent import (
    DESCENT_CLAIMS,
    KINKED_CLAIMS,
    MINIMISER_CLAIMS,
    MULTIPLIER_CLAIMS,
    NOISY_CLAIMS,
    PROJECTED_CLAIMS,
    PROJECTED_KINKED_CLAIMS,
    PROJECTED_STOCHASTIC_CLAIMS,
    PROJECTED_SUBGRADIENT_CLAIMS,
    PROJECTED_TESTED_CLAIMS,
    STOCHASTIC_CLAIMS,
    SUBGRADIENT_CLAIMS,
    TESTED_CLAIMS,
)
from lemmata.core.loop import MaxSteps, SmallGradient, Stop, Stopped
from lemmata.optim.adaptive import AdaGrad, Adam, AdamCIL, RMSprop, SignSGD
from lemmata.optim.curvature import smoothness
from lemmata.optim.functions import Flat, Function, as_function, as_point, first_call
from lemmata.optim.methods.backtracking import SEARCHES, BackoffDescent, LineSearchDescent
from lemmata.optim.methods.coordinate import CoordinateDescent
from lemmata.optim.methods.descent import Descent
from lemmata.optim.methods.newton import LBFGS, newton_descent
from lemmata.optim.methods.noisy import NoisyDescent
from lemmata.optim.methods.penalties import Conditions, MultiplierDescent
from lemmata.optim.methods.stochastic import StochasticDescent, is_finite_sum
from lemmata.optim.methods.subgradient import SubgradientDescent
from lemmata.optim.schedules import PowerDecay, check_step_size
from lemmata.optim.steps import SGD, AveragedMomentum, GradientDescent, HeavyBall, Nesterov

Array = np.ndarray

OPTIMIZERS: dict[str, Any] = {
    "gd": GradientDescent, "sgd": SGD, "heavy_ball": HeavyBall, "momentum": AveragedMomentum, "nesterov": Nesterov,
    "adagrad": AdaGrad, "rmsprop": RMSprop, "adam": Adam, "adam_cil": AdamCIL, "sign": SignSGD,
}  # fmt: skip
UNSCALED = ("adagrad", "rmsprop", "adam", "adam_cil", "sign")  # their step has the unit of x
MULTIPLIER_METHODS = ("penalty", "augmented_lagrangian")
METHODS = (
    *OPTIMIZERS,
    "subgradient",
    "newton",
    "lbfgs",
    "coordinate",
    "noisy",
    *MULTIPLIER_METHODS,
)
STEPLESS = ("newton", "lbfgs", "coordinate", *MULTIPLIER_METHODS)
FIRST_ORDER = (*OPTIMIZERS, "noisy", "subgradient")
PROJECTING = ("gd", "sgd", "subgradient")
SMOOTH_ENOUGH = 1e-150
# parameters of algorithms that are no options: `minimize` passes them itself
GIVEN = (
    "self",
    "step_size",
    "function",
    "start",
    "conditions",
    "multipliers",
    "tol",
    "max_iter",
    "time_limit",
)


# --- when to stop -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SmallResidual(Stop):
    """The projected-gradient residual of the last step fell to tol."""

    tol: float

    def reason(self, solution):
        return Stopped.SMALL_GRADIENT if solution.trace.last("residual") <= self.tol else None


@dataclass(frozen=True)
class Balanced(Stop):
    """The conditions are met, and the gradient of the Lagrangian is small."""

    tol: float

    def reason(self, solution):
        trace = solution.trace
        small = max(trace.last("violation"), trace.last("gradient")) <= self.tol
        return Stopped.SMALL_GRADIENT if small and solution.step else None


# --- the problem ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Problem:
    """The arguments of `minimize`, checked."""

    function: Function
    x0: Array
    method: str
    step_size: Any
    constraint: Any
    conditions: Conditions | None
    tol: float
    max_iter: int
    batch_size: int | None
    average: bool
    line_search: str | None
    time_limit: float | None
    options: dict[str, Any]

    @property
    def automatic(self) -> bool:
        return isinstance(self.step_size, str)

    @property
    def stochastic(self) -> bool:
        return self.batch_size is not None

    @property
    def known_smoothness(self) -> float | None:
        """L where the objective states that it holds everywhere."""
        return getattr(self.function, "L", None)

    def smoothness(self) -> float:
        """L, or the curvature at x0; 1 where f is flat there."""
        found = smoothness(self.function, self.x0)
        return found if math.isfinite(found) and found > SMOOTH_ENOUGH else 1.0


@dataclass(frozen=True)
class Plan:
    """An algorithm, its claims, its stopping rule, and further attributes of the result."""

    algorithm: Any
    claims: tuple
    stop: Stop
    attributes: dict[str, Any]


def check_problem(
    f, x0, method, step_size, constraint, tol, max_iter, batch_size, average, line_search, time_limit, options
) -> Problem:  # fmt: skip
    function, x = as_function(f, like=x0), as_point(x0)
    conditions = constraint if isinstance(constraint, Conditions) else None
    constraint = None if conditions is not None else constraint
    if method == "auto":
        method = (
            "augmented_lagrangian" if conditions is not None else "gd" if constraint is not None
            else "sgd" if batch_size is not None else "lbfgs"
        )  # fmt: skip
    _check_method(method, constraint, conditions, line_search)
    if method == "sgd" and batch_size is None:
        batch_size = min(32, getattr(function, "n_terms", 32))
    _check_batches(function, method, batch_size)
    if not (tol >= 0 and math.isfinite(tol)):
        raise ValueError(f"tol={tol} is not accepted; pass a number >= 0.")
    if max_iter is None:
        first_order = 100 if batch_size is not None else 10_000 if method in FIRST_ORDER else 1000
        max_iter = 50 if method in MULTIPLIER_METHODS else first_order
    if max_iter < 0:
        raise ValueError(f"max_iter={max_iter} is not accepted; pass an int >= 0.")
    _check_step(step_size, method, line_search)
    first_call(function, x)
    return Problem(
        function, x, method, step_size, constraint, conditions, float(tol), int(max_iter), batch_size, average,
        line_search, time_limit, options,
    )  # fmt: skip


def _check_method(method: Any, constraint: Any, conditions: Any, line_search: Any) -> None:
    if method not in METHODS:
        raise ValueError(f"method={method!r} is not known; pass one of {', '.join(METHODS)}.")
    if (method in MULTIPLIER_METHODS) != (conditions is not None):
        need = "needs constraint=Conditions(…)" if conditions is None else "takes no Conditions"
        raise ValueError(
            f"method={method!r} {need}; conditions go with {' and '.join(MULTIPLIER_METHODS)}."
        )
    if constraint is not None:
        if not callable(constraint) or not hasattr(constraint, "facts"):
            raise TypeError(
                f"constraint={constraint!r} is not a set of lemmata.optim; pass Box, Ball, Simplex, L1Ball, Affine, "
                "RankK, PSD or Conditions."
            )
        if method not in PROJECTING:
            raise ValueError(
                f"method={method!r} does not project; sets go with {', '.join(PROJECTING)}."
            )
    if line_search is not None and (line_search not in SEARCHES or method != "gd" or constraint):
        raise ValueError(
            f"line_search={line_search!r} is not accepted here; pass 'armijo' or 'wolfe', with method='gd' and no set."
        )


def _check_step(step_size: Any, method: str, line_search: Any) -> None:
    if isinstance(step_size, str):
        if step_size != "auto":
            raise ValueError(
                f"step_size={step_size!r} is not accepted; pass a number > 0, a schedule, or 'auto'."
            )
        return
    if method in STEPLESS:
        raise ValueError(f"method={method!r} finds its own steps; leave step_size='auto'.")
    check_step_size(step_size)
    if callable(step_size) and (method == "noisy" or line_search is not None):
        raise ValueError(
            "method='noisy' and line_search take no schedule; pass a number as step_size."
        )


def _check_batches(function: Any, method: str, batch_size: Any) -> None:
    if batch_size is None:
        return
    if method not in OPTIMIZERS:
        raise ValueError(
            f"method={method!r} takes no batch_size; it goes with {', '.join(OPTIMIZERS)}."
        )
    if not is_finite_sum(function):
        raise TypeError(
            "batch_size needs a finite sum; pass f=LeastSquares(X, y), Logistic(X, y), or SumOf(n, batch)."
        )
    if not 1 <= batch_size <= function.n_terms:
        raise ValueError(
            f"batch_size={batch_size} does not fit {function.n_terms} rows; pass 1 <= batch_size <= {function.n_terms}."
        )


# --- from a method to an algorithm ------------------------------------------------------------------------------------


def plan_for(problem: Problem) -> Plan:
    method, function, x0 = problem.method, problem.function, problem.x0
    end = MaxSteps(problem.max_iter)
    small = SmallGradient(problem.tol) | end if problem.tol > 0 else end
    if problem.stochastic:
        return _stochastic_plan(problem, end)
    if method == "subgradient":
        return _subgradient_plan(problem, end)
    if method in MULTIPLIER_METHODS:
        assert problem.conditions is not None
        descent = MultiplierDescent(
            function, x0, problem.conditions, method == "augmented_lagrangian", **_check_options(problem, MultiplierDescent)
        )  # fmt: skip
        return Plan(descent, MULTIPLIER_CLAIMS, Balanced(problem.tol) | end, {})
    if method == "newton":
        _check_options(problem, None)
        return Plan(newton_descent(function, x0), MINIMISER_CLAIMS, small, {})
    if method == "lbfgs":
        options = _check_options(problem, LBFGS)
        lbfgs = LBFGS(function, x0, problem.tol, problem.max_iter, problem.time_limit, **options)
        return Plan(lbfgs, MINIMISER_CLAIMS, MaxSteps(1), {})
    if method == "coordinate":
        curvature = 1.0 if hasattr(function, "begin_sweep") else problem.smoothness()
        _check_options(problem, None)
        return Plan(CoordinateDescent(function, x0, curvature), MINIMISER_CLAIMS, small, {})
    if method == "noisy":
        eta = 1 / problem.smoothness() if problem.automatic else problem.step_size
        options = {"threshold": max(problem.tol, 1e-12), **_check_options(problem, NoisyDescent)}
        noisy = NoisyDescent(function, x0, eta, **options)
        return Plan(noisy, NOISY_CLAIMS, end, {"schedule_": eta})
    if problem.line_search is not None:
        first = 1 / problem.smoothness() if problem.automatic else problem.step_size
        _check_options(problem, None)
        search = LineSearchDescent(function, x0, problem.line_search, first=first)
        return Plan(search, MINIMISER_CLAIMS, small, {})
    return _gradient_plan(problem, small, end)


def _gradient_plan(problem: Problem, small: Stop, end: Stop) -> Plan:
    """Steps of an optimiser on the whole gradient; gd with an unknown L backs off by itself."""
    method, function, x0, on_set = problem.method, problem.function, problem.x0, problem.constraint
    stop = (
        small if on_set is None else (SmallResidual(problem.tol) | end if problem.tol > 0 else end)
    )
    if method == "gd" and problem.automatic and problem.known_smoothness is None:
        _check_options(problem, None)
        backoff = BackoffDescent(function, x0, problem.smoothness(), on_set)
        tested = TESTED_CLAIMS if on_set is None else PROJECTED_TESTED_CLAIMS
        return Plan(backoff, tested, stop, {"tested_": True})
    optimizer = _optimizer(problem)
    descent = Descent(Flat(function), optimizer, (x0,), on_set)
    claims: tuple = MINIMISER_CLAIMS
    if method == "gd":
        claims = DESCENT_CLAIMS if on_set is None else PROJECTED_CLAIMS
    return Plan(descent, claims, stop, {"schedule_": optimizer.step_size})


def _optimizer(problem: Problem) -> Any:
    kind = OPTIMIZERS[problem.method]
    options = _check_options(problem, kind)
    if not problem.automatic:
        return kind(problem.step_size, **options)
    if problem.method in UNSCALED:
        return kind(0.01 * max(1.0, float(np.abs(problem.x0).max())), **options)
    L, mu = problem.smoothness(), _known_mu(problem)
    if problem.method == "gd":
        name = getattr(problem.function, "structure", ("",))[0]
        quadratic = name in ("quadratic", "least_squares")
        return GradientDescent.for_curvature(
            L, mu if quadratic and problem.constraint is None else 0.0
        )
    if problem.method == "nesterov" and not options:
        return Nesterov.for_curvature(L, mu)
    if problem.method == "heavy_ball" and not options and mu > 0:
        return HeavyBall.for_curvature(L, mu)
    return kind(1 / L, **options)


def _known_mu(problem: Problem) -> float:
    mu = getattr(problem.function, "mu", None) if problem.known_smoothness is not None else None
    return max(float(mu or 0.0), 0.0)


def _stochastic_plan(problem: Problem, end: Stop) -> Plan:
    f: Any = problem.function
    kind = OPTIMIZERS[problem.method]
    if problem.automatic and problem.method in UNSCALED:
        step: Any = 0.01 * max(1.0, float(np.abs(problem.x0).max()))
    elif problem.automatic:
        # ½/L for ten epochs: the curvature of a batch may be above that of the whole
        epochs = 10.0 * f.n_terms / (problem.batch_size or 1)
        step = PowerDecay(0.5 / problem.smoothness(), r=0.75, delay=epochs)
    else:
        step = problem.step_size
    optimizer = kind(step, **_check_options(problem, kind))
    assert problem.batch_size is not None
    descent = StochasticDescent(
        f, optimizer, problem.x0, int(problem.batch_size), problem.average, problem.constraint
    )
    claims = _stochastic_claims(f, problem.constraint is not None)
    stop = (
        SmallGradient(problem.tol) | end if problem.tol > 0 and problem.constraint is None else end
    )
    return Plan(descent, claims, stop, {"schedule_": step})


def _stochastic_claims(f: Any, on_set: bool) -> tuple:
    if getattr(f, "structure", ("",))[0] == "absolute":
        return PROJECTED_KINKED_CLAIMS if on_set else KINKED_CLAIMS
    return PROJECTED_STOCHASTIC_CLAIMS if on_set else STOCHASTIC_CLAIMS


def _subgradient_plan(problem: Problem, end: Stop) -> Plan:
    _check_options(problem, None)
    step: Any = problem.step_size
    if problem.automatic:
        gradient = problem.function(problem.x0)[1]
        norm = float(np.linalg.norm(gradient)) or 1.0
        on_set = problem.constraint is not None
        reach = problem.constraint.diameter(problem.x0.shape) if on_set else math.inf
        if not math.isfinite(reach):
            reach = max(1.0, float(np.linalg.norm(problem.x0)))
        step = PowerDecay(reach / norm, r=0.5)
    descent = SubgradientDescent(problem.function, problem.x0, step, problem.constraint)
    claims = SUBGRADIENT_CLAIMS if problem.constraint is None else PROJECTED_SUBGRADIENT_CLAIMS
    return Plan(descent, claims, end, {"schedule_": step})


def _check_options(problem: Problem, kind: Any) -> dict[str, Any]:
    """The options, if the method has them; an error that names those it has otherwise."""
    names = () if kind is None else inspect.signature(kind).parameters
    known = [name for name in names if name not in GIVEN]
    for name in problem.options:
        if name not in known:
            has = f"it has {', '.join(known)}" if known else "it has no options"
            raise TypeError(f"method={problem.method!r} has no option {name!r}; {has}.")
    return problem.options
