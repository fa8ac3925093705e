"""What `minimize` returns: the point, the run that led to it, and the certificate."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from lemmata.core.certificate import Certificate, Fit, Statement, check
from lemmata.core.config import checks_in_fit
from lemmata.core.trace import Trace

Array = np.ndarray
# multiplications that checking may take before `minimize` returns, if the run did not take more:
# 512 calls of a function that nobody knows the cost of, enough to measure the curvature of one of seven numbers
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
        self.certificate_ = self._checked(work=math.inf, seconds=seconds)
        return self.certificate_

    def _checked(self, work: float, seconds: float | None = None) -> Certificate:
        steps = f"{self.stopped_}, {self.n_iter_} step{'s' if self.n_iter_ != 1 else ''}"
        steps = steps if self.trace_ is not None else ""
        fit = Fit(self, trace=self.trace_, stopped=steps)
        found = check(self.claims, fit, self._title, work=work, seconds=seconds)
        # there is no X to pass
        claims = (
            replace(
                c, note=c.note.replace("certify(X, ", "certify(").replace("certify(X)", "certify()")
            )
            for c in found
        )
        return replace(found, claims=tuple(claims))

    def conclude(self) -> Result:
        """Check what takes no more calls than the run (or is cheap), unless lemmata.config(certificate=False)."""
        calls = max(getattr(self.objective_, "calls", 0), self.n_iter_)
        budget = max(IN_RUN, calls * getattr(self.objective_, "multiplications", 0))
        self.certificate_ = self._checked(budget if checks_in_fit() else -1.0)
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
