"""Claims about EM for any model p(x, z | θ): the likelihood did not fall, and the bound touches it after an E-step.

    ln p(x | θ) = L(q, θ) + KL(q ‖ p(z | x, θ))         L(q, θ) = E_q ln p(x, z | θ) − E_q ln q

L is a lower bound for every q, tight for the posterior. An M-step that does not lower L(q, ·) then cannot lower ln p: whether
it is a maximum does not matter. What a user's steps do is not known here; the numbers that they give are.
"""

from __future__ import annotations

import numpy as np

from lemmata.audit.kernel import claims as k

SOURCE = "CIL20 4.3.5, CIL 3.1.3"
TERMS = 1000  # of a sum that a step makes, for rounding


@k.proved("no step lowered the log-likelihood, as e_step states it", SOURCE, about="run")
def likelihood_never_fell(fit):
    values = -fit.trace.objective
    falls = np.maximum(values[:-1] - values[1:], 0.0)
    bound = k.rounding(np.float64, TERMS) * float(np.abs(values).max())
    worst = int(falls.argmax()) if len(falls) else 0
    fall = float(falls[worst]) if len(falls) else 0.0
    advice = (
        f"step {worst + 1} lowered it by {fall:.3g}: m_step has to raise the bound, or leave it"
    )
    return k.at_most(fall, bound, advice, "largest fall")


@k.proved("after the last E-step the bound equals the log-likelihood: q is the posterior", SOURCE)
def bound_is_tight(fit):
    """KL(q ‖ p(z | x, θ)) = ln p − L(q, θ), with ln p from e_step, and by another way where there is one."""
    stated, found = float(fit.log_likelihood_), []
    if fit.bound is not None:
        found.append(float(fit.bound(fit.X_, fit.q_, fit.theta_)))
    if fit.log_likelihood is not None:
        found.append(float(fit.log_likelihood(fit.X_, fit.theta_)))
    if not found:
        return k.unknown("nothing to compare with: pass bound= (L of X, q, θ) or log_likelihood=")
    numbers = np.array([stated, *found])
    if not np.isfinite(numbers).all():
        return k.unknown("ln p or its bound is not finite")
    allowed = k.rounding(np.float64, TERMS) * max(float(np.abs(numbers).max()), 1.0)
    apart = float(np.ptp(numbers))
    advice = "e_step does not return the posterior under θ, or not its likelihood"
    return k.at_most(apart, allowed, advice, "|ln p − L|")


EM_CLAIMS = (likelihood_never_fell, bound_is_tight)
