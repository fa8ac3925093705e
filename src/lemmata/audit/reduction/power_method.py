"""What theory promises about a run, read from its trace: objectives that cannot rise, rates, steps that shrink."""

from __future__ import annotations

import math

import numpy as np

from lemmata.audit.kernel.claims import (
    RULE_OF_THUMB,
    Fit,
    at_least,
    at_most,
    claim,
    rounding,
    unknown,
)
from lemmata.audit.kernel.runs import never_rose
from lemmata.core.trace import Trace

# a rate fitted to a finite number of steps still holds traces of the faster modes
RATE_SLACK = 0.05


def _rounding(fit: Fit) -> float:
    C = np.asarray(fit.components_)
    return rounding(C.dtype, C.shape[1])


# the objective is minus the captured variance: for a positive semidefinite S no step of these solvers can lower it
never_fell = never_rose(
    "the captured variance never fell",
    "CIL 1.5",
    _rounding,
    "rounding or a step of its own spoiled the run: solve in float64, or with solver='eigh'",
    name="never_fell",
    unit="largest fall",
)


@claim(
    "the power method kept its predicted rate",
    kind=RULE_OF_THUMB,
    source="CIL Prop. 1.5.1",
    about="run",
)
def power_rate_kept(fit):
    """The angle to the first axis shrinks by λ₂/λ₁ per step; the largest excess of the measured rate over it."""
    values = np.asarray(fit.singular_values_, dtype=np.float64) ** 2
    rates = measured_rates(fit.trace)
    pairs = [
        (rates[i], values[i + 1] / values[i])
        for i in range(min(len(rates), len(values) - 1))
        if np.isfinite(rates[i])
    ]
    if not pairs:
        return unknown("needs two components and a few steps for each")
    excess = max(measured - predicted for measured, predicted in pairs)
    return at_most(
        excess,
        RATE_SLACK,
        unit="measured − λ₂/λ₁",
        advice="the start was unlucky or rounding dominates: try again",
    )


@claim(
    "steps that shrink faster than 1/√t: their noise dies out",
    kind=RULE_OF_THUMB,
    source="Robbins & Monro 1951",
    about="run",
)
def steps_shrink(fit):
    """p in γ_t ∝ (1 + t)^−p, from the first and the last epoch. Σγ_t = ∞ and Σγ_t² < ∞ ask for ½ < p ≤ 1."""
    rates = fit.trace.extras["learning_rate"]
    if len(rates) < 2:
        return unknown("one epoch shows no schedule")
    exponent = math.log(rates[0] / rates[-1]) / math.log(len(rates))
    advice = (
        "the factors keep trembling around a minimum: pass decay above 0.5, or learning_rate='auto'"
    )
    return at_least(exponent, math.nextafter(0.5, 1), advice, unit="p")


def measured_rates(trace: Trace) -> np.ndarray:
    """The factor by which the residual of each vector shrank per step, in the order in which the vectors were found.

    Fitted to the log residuals in the lower half of their decades: at first all eigenvectors take part in the residual
    (which may even grow), at the end only the next one does. NaN with fewer than three rows there.
    """
    residual, vector = trace.extras["residual"], trace.extras["vector"]
    rates = []
    for j in range(int(vector.max()) + 1):
        r = residual[vector == j]
        r = np.log(r[r > 0])
        below = r <= (r.max() + r[-1]) / 2 if r.size else r
        # the rows after the last one above the half
        tail = r[len(r) - np.argmin(below[::-1]) :] if r.size else r
        rates.append(
            np.exp(np.polyfit(np.arange(len(tail)), tail, 1)[0]) if len(tail) >= 3 else np.nan
        )
    return np.array(rates)
