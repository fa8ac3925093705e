"""Minimise any function, and learn what is true of the point that comes back.

>>> import numpy as np
>>> from lemmata import optim
>>> found = optim.minimize(optim.Rosenbrock(), [-1.2, 1.0])                  # L-BFGS, by default
>>> found.x.round(6), found.certificate_.failed
(array([1., 1.]), [])
>>> found = optim.minimize((lambda x: float(x @ x), lambda x: 2 * x), [3.0, 4.0], method="gd", constraint=optim.Simplex())
>>> found.x.round(6), found.stopped_
(array([0.5, 0.5]), 'small gradient')

f is a function that returns (value, gradient), a pair (f, grad), an objective of objectives.py, or, with x0 a torch tensor, a
function of a tensor that autograd differentiates. A method is an algorithm of this package by name:

    gd, heavy_ball, momentum, nesterov                steps along gradients; gd with line_search="armijo" or "wolfe" searches
    adagrad, rmsprop, adam, adam_cil, sign            steps scaled per coordinate
    sgd, and the above with batch_size=               mini-batches of a finite sum
    subgradient                                       convex functions with kinks
    newton, lbfgs, coordinate                         curvature
    noisy                                             leaves saddle points
    penalty, augmented_lagrangian                     h(x) = 0, g(x) ≤ 0
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from lemmata.audit.optim.descent import POINT_CLAIMS, PROJECTED_POINT_CLAIMS
from lemmata.core.certificate import Certificate, Fit, Statement
from lemmata.core.certification.checking import check
from lemmata.core.engine import checks_in_fit
from lemmata.core.loop import Diverged, Seconds, Solution, Stopped, run
from lemmata.core.runs.trace import Trace
from lemmata.optim.functions import as_function, as_point, first_call
from lemmata.optim.methods.descent import Descent
from lemmata.optim.methods.newton import LBFGS
from lemmata.optim.methods.noisy import NoisyDescent
from lemmata.optim.methods.stochastic import StochasticDescent
from lemmata.optim.planning import Plan, Problem, check_problem, plan_for
from lemmata.optim.schedules import Schedule

Array = np.ndarray
MOST_ATTEMPTS = 30  # of a step size that is halved until the run does not diverge
# multiplications that checking may take before `minimize` returns, if the run did not take more: 512 calls of a function of
# unknown cost, enough to measure the curvature of one of seven numbers
IN_RUN = 2**26


@dataclass(eq=False, repr=False)
class Result:
    """A minimiser, and what is known of it.

    Attributes
    ----------
    x : array
        The last point (of sub-gradient methods the best one), shaped like x0.
    value, gradient : float, array
        f and ∇f at x; with conditions the gradient is still that of f.
    trace_ : Trace
        f at every step, with "gradient" (its norm) and "step_size" (that of the step that led there) where a method has them.
    stopped_ : str
        Why the run ended; "settled" or "small gradient" are reasons, not claims.
    n_iter_ : int
        Steps (epochs of stochastic methods, sweeps of coordinate descent, rounds of multiplier methods).
    certificate_ : Certificate
    """

    x: Array
    value: float
    gradient: Array
    method: str
    tol: float
    trace_: Trace | None
    stopped_: str
    n_iter_: int
    start_: Array
    objective_: Any
    claims: tuple[Statement, ...] = field(repr=False)
    constraint_: Any = None
    conditions_: Any = None
    multipliers_: tuple[Array, Array] | None = None
    schedule_: Any = None
    step_size_: float = math.nan
    tested_: bool = False
    average_: Array | None = None
    certificate_: Certificate | None = None

    def certify(self, *, seconds: float | None = None) -> Certificate:
        """Check every claim again, on values and gradients computed again."""
        self.certificate_ = self._check_claims(work=math.inf, seconds=seconds)
        return self.certificate_

    def _check_claims(self, work: float, seconds: float | None = None) -> Certificate:
        steps = f"{self.stopped_}, {self.n_iter_} step{'s' if self.n_iter_ != 1 else ''}"
        steps = steps if self.trace_ is not None else ""
        fit = Fit(self, trace=self.trace_, stopped=steps)
        found = check(self.claims, fit, self._title, work=work, seconds=seconds)
        # there is no X to pass
        notes = (
            c.note.replace("certify(X, ", "certify(").replace("certify(X)", "certify()")
            for c in found
        )
        claims = tuple(replace(c, note=note) for c, note in zip(found, notes, strict=True))
        return replace(found, claims=claims)

    def conclude(self) -> Result:
        """Check what takes no more calls than the run (or is cheap), unless lemmata.config(certificate=False)."""
        calls = max(getattr(self.objective_, "calls", 0), self.n_iter_)
        budget = max(IN_RUN, calls * getattr(self.objective_, "multiplications", 0))
        self.certificate_ = self._check_claims(budget if checks_in_fit() else -1.0)
        return self

    @property
    def _title(self) -> str:
        on = f" on {type(self.constraint_).__name__}" if self.constraint_ is not None else ""
        function = getattr(self.objective_, "function", self.objective_)
        name = type(function).__name__
        what = f"{name}, " if hasattr(function, "structure") or name == "Rosenbrock" else ""
        return f"minimize {self.method}{on}  {what}{self.x.size:,} number{'s' if self.x.size != 1 else ''}"

    def __repr__(self) -> str:
        numbers = np.array2string(self.x, precision=6, threshold=8, separator=", ").splitlines()
        shown = numbers[0] + (" …" if len(numbers) > 1 else "")
        counts = self.certificate_.counts if self.certificate_ is not None else "not checked"
        return (
            f"minimum by {self.method}: {self.n_iter_} step{'s' if self.n_iter_ != 1 else ''}, stopped: {self.stopped_}\n"
            f"  f(x) = {self.value:.10g}, ‖∇f(x)‖ = {float(np.linalg.norm(self.gradient)):.3g}\n"
            f"  x = {shown}\n"
            f"  certificate: {counts}"
        )


def minimize(
    f: Any,
    x0: Any,
    method: str = "auto",
    *,
    step_size: float | str | Schedule = "auto",
    constraint: Any = None,
    tol: float = 1e-6,
    max_iter: int | None = None,
    batch_size: int | None = None,
    line_search: str | None = None,
    random_state: int = 0,
    time_limit: float | None = None,
    callbacks: Iterable[Callable[[Solution], Any]] = (),
    **options: Any,
) -> Result:
    """Minimise f from x0.

    Parameters
    ----------
    f : callable, pair of callables, or objective
        x -> (value, gradient); (f, grad); or, if x0 is a torch tensor, a tensor -> a scalar tensor.
    x0 : array of any shape, list or torch tensor
        Where to begin. float32 stays float32.
    method : str, default="auto"
        One of METHODS. auto: lbfgs; gd if there is a set to project onto; augmented_lagrangian if there are conditions.
    step_size : float, Schedule or "auto"
        η. auto: 1/L where f knows L, 2/(L + μ) where f is a quadratic; else steps begin at the curvature that power iteration
        finds at x0 and back off where f does not fall as (4.38) says. Methods that scale each coordinate begin at 1 % of the
        size of x0 (or of 1); stochastic and sub-gradient methods at a schedule that shrinks.
    constraint : a set of projections.py, or Conditions(equal=…, at_most=…)
        Sets are projected onto (gd, sgd, subgradient); conditions are for penalty and augmented_lagrangian.
    tol : float, default=1e-6
        The run ends when ‖∇f(x)‖ (with a set, the residual of the projected step) is at most tol; 0 never stops it.
    max_iter : int, optional
        Most steps: 1,000, of first-order methods 10,000, 50 rounds of multiplier methods, 100 epochs of stochastic ones.
    batch_size : int, optional
        Rows per step, for f a finite sum; 32 for sgd.
    line_search : {"armijo", "wolfe"}, optional
        With gd: search for the length of every step.
    random_state : int
        Seeds the order of batches, and the noise of noisy.
    time_limit : float, optional
        Seconds after which the run ends where it is.
    callbacks : iterable
        Called with the solution so far after every step (core.loop.run); lbfgs is one step, SciPy's own.
    **options
        Parameters of the method itself: momentum=, beta1=, alpha=, radius=, wait=, rho=, …; average=True lets a stochastic run
        answer with the mean of its iterates.

    Returns
    -------
    Result : x, value, gradient, trace_, stopped_, n_iter_, certificate_
    """
    average = bool(options.pop("average", False))
    problem = check_problem(
        f, x0, method, step_size, constraint, tol, max_iter, batch_size, average, line_search, time_limit, options,
    )  # fmt: skip
    plan = plan_for(problem)
    if time_limit is not None and problem.method != "lbfgs":
        plan = replace(plan, stop=plan.stop | Seconds(time_limit))
    solution = _run(problem, plan, int(random_state), tuple(callbacks))
    return _result(problem, plan, solution).conclude()


def certify_minimum(f: Any, x: Any, *, constraint: Any = None, tol: float = 1e-6) -> Certificate:
    """Check what another library found: the claims about a point, without a run.

    Parameters
    ----------
    f : callable, pair of callables, or objective
        As in `minimize`; with x a torch tensor, a closure.
    x : array, torch tensor, or SciPy's OptimizeResult
        The `fun` and `jac` that a result states are checked too.
    constraint : a set of projections.py, optional
    tol : float, default=1e-6
        What the gradient (with a set, the residual of a projected step) is compared with.
    """
    stated = x if hasattr(x, "x") and hasattr(x, "fun") else None
    x = x if stated is None else stated.x
    function, point = as_function(f, like=x), as_point(x)
    value, gradient = first_call(function, point)
    if stated is not None:
        value, gradient = stated.fun, getattr(stated, "jac", gradient)
    claims = POINT_CLAIMS if constraint is None else PROJECTED_POINT_CLAIMS
    result = Result(
        x=point, value=float(value), gradient=np.asarray(gradient), method="elsewhere", tol=float(tol), trace_=None,
        stopped_="", n_iter_=0, start_=point, objective_=function, claims=claims, constraint_=constraint,
    )  # fmt: skip
    return result.certify()


# --- running it -------------------------------------------------------------------------------------------------------


def _run(problem: Problem, plan: Plan, seed: int, callbacks: tuple) -> Solution:
    """The run; an automatic step of momentum that diverges, or ends above its start, is halved and tried again."""
    algorithm = plan.algorithm
    guessed = isinstance(algorithm, Descent | NoisyDescent | StochasticDescent)
    guessed = guessed and problem.automatic and problem.known_smoothness is None
    if not guessed:
        return run(algorithm, None, stop=plan.stop, callbacks=callbacks, rng=seed)
    for _ in range(MOST_ATTEMPTS):
        with warnings.catch_warnings(), np.errstate(over="ignore", invalid="ignore"):
            warnings.simplefilter("ignore", Diverged)
            solution = run(algorithm, None, stop=plan.stop, callbacks=callbacks, rng=seed)
        if solution.stopped != Stopped.DIVERGED and not _rose(algorithm, solution.trace):
            break
        algorithm = _halve_step(algorithm)
    plan.attributes["schedule_"] = getattr(algorithm, "optimizer", algorithm).step_size
    return solution


def _rose(algorithm: Any, trace: Trace) -> bool:
    """Whether a run went up: as a whole or, where nothing but noise may do so, in any step."""
    values = trace.objective
    if not isinstance(algorithm, NoisyDescent):
        return bool(values[-1] > values[0])
    plain = trace.extras["noise"][1:] == 0
    rises = np.diff(values)[plain]
    return bool(rises.max(initial=0.0) > 1e-9 * np.abs(values).max())


def _halve_step(algorithm: Any) -> Any:
    holder = getattr(algorithm, "optimizer", algorithm)
    step = holder.step_size
    half = replace(step, step_size=step.step_size / 2) if callable(step) else step / 2
    smaller = replace(holder, step_size=half)
    return replace(algorithm, optimizer=smaller) if holder is not algorithm else smaller


def _result(problem: Problem, plan: Plan, solution: Solution) -> Result:
    state, trace, stopped, steps = solution.state, solution.trace, solution.stopped, solution.step
    if isinstance(plan.algorithm, LBFGS):
        trace, stopped, steps = _trace_of(state.rows), state.word or stopped, len(state.rows) - 1
    (x,) = solution.attributes["params_"]
    value, gradient = problem.function(x)
    sizes = trace.extras.get("step_size", np.full(1, math.nan))
    return Result(
        x=x,
        value=float(value),
        gradient=np.asarray(gradient, x.dtype),
        method=problem.method,
        tol=problem.tol,
        trace_=trace,
        stopped_=str(stopped),
        n_iter_=steps,
        start_=problem.x0,
        objective_=problem.function,
        claims=plan.claims,
        constraint_=problem.constraint,
        conditions_=problem.conditions,
        multipliers_=(state.equal_multipliers, state.at_most_multipliers)
        if problem.conditions
        else None,
        step_size_=float(sizes[-1]),
        average_=solution.attributes.get("average_"),
        **plan.attributes,
    )


def _trace_of(rows: Array) -> Trace:
    trace = Trace()
    for value, norm, seconds in rows:
        trace.append(value, seconds, {"gradient": norm})
    return trace
