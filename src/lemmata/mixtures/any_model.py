"""Expectation maximisation for any model p(x, z | θ), from its two steps (CIL20 4.3.5, CIL 3.1.3).

    ln p(x | θ) = L(q, θ) + KL(q ‖ p(z | x, θ)),        L(q, θ) = E_q ln p(x, z | θ) + H(q)

    e_step(X, θ) → (q, ln p(x | θ))        the posterior, or what of it the M-step needs, and the likelihood that goes with it
    m_step(X, q, θ) → θ                    any θ with L(q, θ) no lower: a maximum, or one step uphill

As L touches ln p at the θ of the E-step, a rise of L is a rise of ln p. Mixtures and pLSA are two such pairs (of their own
code, which adds blocks up); examples/hidden_chain.py is a hidden Markov chain.

    >>> import numpy as np
    >>> from scipy.stats import norm
    >>> X = np.random.default_rng(0).normal(size=300) + 4 * (np.arange(300) % 3 > 0)
    >>> def e_step(X, theta):                               # two normal components with variance 1
    ...     joint = np.log(theta[0]) + norm.logpdf(X[:, None], theta[1])
    ...     total = np.logaddexp.reduce(joint, axis=1)
    ...     return np.exp(joint - total[:, None]), total.sum()
    >>> def m_step(X, q, theta):
    ...     return q.mean(axis=0), X @ q / q.sum(axis=0)
    >>> found = run_em(e_step, m_step, X, (np.array([0.5, 0.5]), np.array([0.0, 1.0])))
    >>> found.theta_[1].round(1), found.certificate_.held
    (array([-0.2,  4. ]), ['likelihood_never_fell'])
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from lemmata.audit.mixtures.lower_bounds import EM_CLAIMS
from lemmata.core.certificate import Certificate, Fit, rounding
from lemmata.core.certification.checking import check
from lemmata.core.loop import MaxSteps, Settled, run, warn_user
from lemmata.core.runs.trace import Trace

Array = np.ndarray
TERMS = 1000  # of a sum that a step makes, for rounding


@dataclass(frozen=True)
class StepsState:
    """θ, the posterior under it and its likelihood."""

    theta: Any
    q: Any
    log_likelihood: float


@dataclass(frozen=True)
class StepsAlgorithm:
    """M, then E: each state has the likelihood of its own θ."""

    e_step: Callable[[Any, Any], tuple[Any, float]]
    m_step: Callable[[Any, Any, Any], Any]
    theta: Any

    hint = "look for probabilities of 0 in e_step"

    def init(self, data: Any, rng: Any) -> StepsState:
        return self._at(data, self.theta)

    def step(self, state: StepsState, data: Any) -> StepsState:
        return self._at(data, self.m_step(data, state.q, state.theta))

    def objective(self, state: StepsState) -> float:
        return -state.log_likelihood

    def attributes(self, state: StepsState) -> dict[str, Any]:
        return {"theta_": state.theta, "q_": state.q}

    def _at(self, data: Any, theta: Any) -> StepsState:
        found = self.e_step(data, theta)
        if not isinstance(found, tuple) or len(found) != 2 or np.size(found[1]) != 1:
            raise TypeError("e_step returns the posterior and ln p(x | θ), one number: (q, value).")
        return StepsState(theta, found[0], float(np.asarray(found[1]).item()))


@dataclass(frozen=True)
class EMResult:
    """Parameters, the posterior under them, ln p(x | θ), and a certificate.

    theta_, q_ : the last parameters, and what the E-step found with them
    trace_ : of −ln p, a number for each step
    """

    theta_: Any
    q_: Any
    log_likelihood_: float
    n_iter_: int
    stopped_: str
    trace_: Trace = field(repr=False)
    X_: Any = field(repr=False)
    bound: Callable[[Any, Any, Any], float] | None = field(repr=False, default=None)
    log_likelihood: Callable[[Any, Any], float] | None = field(repr=False, default=None)
    certificate_: Certificate | None = field(repr=False, default=None)


def run_em(
    e_step: Callable[[Any, Any], tuple[Any, float]],
    m_step: Callable[[Any, Any, Any], Any],
    X: Any,
    theta: Any,
    *,
    bound: Callable[[Any, Any, Any], float] | None = None,
    log_likelihood: Callable[[Any, Any], float] | None = None,
    tol: float = 1e-8,
    max_iter: int = 500,
) -> EMResult:
    """Maximise a likelihood by expectation maximisation, given both steps.

    Parameters
    ----------
    e_step : function of (X, θ) that returns (q, ln p(x | θ))
    m_step : function of (X, q, θ) that returns θ with a bound L(q, θ) that is no lower
    X, theta : the data, and where to begin; both are handed to the steps as they are
    bound : function of (X, q, θ), optional
        L(q, θ), which `bound_is_tight` compares with the value of e_step.
    log_likelihood : function of (X, θ), optional
        ln p(x | θ) by another way (enumeration, another library), which is compared too.
    tol : float, default=1e-8
        Settled when ln p changes by at most this share of it; 0 switches that off.
    max_iter : int, default=500

    Returns
    -------
    EMResult : θ, q, the trace of −ln p, and a certificate; a step that lowered ln p is warned of
    """
    for name, one in (("e_step", e_step), ("m_step", m_step)):
        if not callable(one):
            raise TypeError(f"{name}={one!r}: pass a function.")
    stop = Settled(tol) | MaxSteps(max_iter)
    found = run(StepsAlgorithm(e_step, m_step, theta), X, stop=stop, rng=0)
    state, stopped = found.state, str(found.stopped)
    known = (state.theta, state.q, state.log_likelihood, found.step, stopped, found.trace, X)
    result = EMResult(*known, bound, log_likelihood)
    fit = Fit(result, trace=found.trace, stopped=f"{stopped}, {found.step} steps")
    result = replace(result, certificate_=check(EM_CLAIMS, fit, "em"))
    _warn_of_falls(found.trace)
    return result


def _warn_of_falls(trace: Trace) -> None:
    """Say which M-step lowered the likelihood, and by how much."""
    rises = np.diff(trace.objective)
    noise = rounding(np.float64, TERMS) * float(np.abs(trace.objective).max())
    if len(rises) and rises.max() > noise:
        worst = int(rises.argmax())
        warn_user(
            f"m_step lowered ln p(x | θ) in {int((rises > noise).sum())} of {len(rises)} steps, most in step {worst + 1}, by "
            f"{rises[worst]:.3g}: it has to return a θ whose bound L(q, θ) is no lower.",
            UserWarning,
        )
