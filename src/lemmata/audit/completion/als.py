"""Claims about a fit by alternating least squares, or by steps that aim at the same objective.

Each row is a quadratic problem of its own (factored_objective.py), so what solving it again would gain is known exactly:
½ gᵀD⁻¹g. Summed over all rows, or over all columns, that is the gain of half a sweep, and zero at a fixed point (CIL (2.38)).
"""

from __future__ import annotations

import math

import numpy as np

from lemmata.audit.completion.factored_objective import gain
from lemmata.audit.completion.factors import NEVER_ROSE, first_order_point, second_order_minimum
from lemmata.audit.completion.held_out.error import ENTRY_CLAIMS
from lemmata.audit.completion.held_out.offsets import beats_offsets
from lemmata.audit.completion.optimality.global_optimum import global_optimum
from lemmata.audit.completion.statements import SOUND, factored, precision
from lemmata.audit.kernel import claims

GAIN = 1e-4  # of the objective; the default tol is a tenth of it
NOISE_LEFT = 0.01  # of the objective: what stochastic steps may leave behind


def _sweep_cost(fit: claims.Fit) -> float:
    p = np.shape(fit.U_)[1] + 1
    return fit.data.n_observed * p * (p + 1) + sum(fit.data.shape) * (1.5 * p**3 + 2500)


@claims.fact(cost=_sweep_cost)
def half_sweep_gain(fit: claims.Fit) -> float:
    """Return what solving the rows again, or the columns, would gain: a share of the loss and of their own penalty.

    Where every entry is met, what is left of the objective is the rounding of the factors, and of no interest.
    """
    problem = factored(fit)
    noise = claims.rounding(precision(fit), problem.rank + 1)
    floor = noise**2 * problem.size / GAIN
    shares = []
    for side, reg in enumerate((problem.row_reg, problem.column_reg)):
        lengths = np.square(problem.at[side]).sum(axis=1)
        biases = problem.bias_regs[side] @ problem.at[side + 2] ** 2
        own = problem.loss + 0.5 * float(reg @ lengths + biases)
        shares.append(gain(problem, side) / max(own + floor, np.finfo(float).tiny))
    return max(shares)


@claims.claim(
    "a fixed point: solving either side again gains less than 0.01 % of the objective",
    kind=claims.PROVED,
    source="CIL (2.38)",
    needs=(half_sweep_gain,),
)
def fixed_point(fit):
    """½ gᵀD⁻¹g, summed over all rows, and over all columns."""
    return claims.at_most(half_sweep_gain(fit), GAIN, "lower tol, or raise max_iter", unit="gain")


@claims.claim(
    "solving either side exactly would gain less than 1 % of the objective",
    kind=claims.PROVED,
    source="CIL (2.38)",
    needs=(half_sweep_gain,),
)
def near_fixed_point(fit):
    """The gain of half a sweep of ALS from here: what noise, or too few epochs, left behind. See `fixed_point` of ALS."""
    advice = "raise max_iter and lower tol; with a learning_rate of your own, give it more decay"
    return claims.at_most(half_sweep_gain(fit), NOISE_LEFT, advice, unit="gain")


@claims.claim(
    "steps that shrink faster than 1/√t: their noise dies out",
    kind=claims.RULE_OF_THUMB,
    source="Robbins & Monro 1951",
    about="run",
)
def steps_shrink(fit):
    """p in γ_t ∝ (1 + t)^−p, from the first and the last epoch. Σγ_t = ∞ and Σγ_t² < ∞ ask for ½ < p ≤ 1."""
    rates = fit.trace.extras["learning_rate"]
    if len(rates) < 2:
        return claims.unknown("one epoch shows no schedule")
    exponent = math.log(rates[0] / rates[-1]) / math.log(len(rates))
    advice = (
        "the factors keep trembling around a minimum: pass decay above 0.5, or learning_rate='auto'"
    )
    return claims.at_least(exponent, math.nextafter(0.5, 1), advice, unit="p")


@claims.claim("the factors are nonnegative", kind=claims.PROVED, source="CIL 2.4")
def nonnegative_factors(fit):
    smallest = min(np.min(fit.U_, initial=0.0), np.min(fit.V_, initial=0.0))
    return claims.at_least(smallest, 0.0, "fit with nonnegative=True", unit="smallest")


_FREE = (fixed_point, first_order_point, second_order_minimum, global_optimum)
_NONNEGATIVE = (nonnegative_factors, first_order_point)
EXPLICIT_CLAIMS = (*SOUND, NEVER_ROSE, *_FREE, *ENTRY_CLAIMS)
NONNEGATIVE_CLAIMS = (*SOUND, NEVER_ROSE, *_NONNEGATIVE, *ENTRY_CLAIMS)
IMPLICIT_CLAIMS = (*SOUND, NEVER_ROSE, *_FREE)  # every entry is known there
NONNEGATIVE_IMPLICIT_CLAIMS = (*SOUND, NEVER_ROSE, *_NONNEGATIVE)
SGD_CLAIMS = (*SOUND, NEVER_ROSE, near_fixed_point, first_order_point, *ENTRY_CLAIMS)
SCHEDULED_SGD_CLAIMS = (*SOUND, steps_shrink, *SGD_CLAIMS[3:])


def factor_claims(implicit: bool, nonnegative: bool) -> tuple[claims.Statement, ...]:
    """Return the claims about factors from elsewhere, whose run is not known."""
    about = (*SOUND, *(_NONNEGATIVE if nonnegative else _FREE))
    return about if implicit else (*about, *ENTRY_CLAIMS, beats_offsets)
