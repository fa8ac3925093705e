"""Claims about runs of the power method, read from their trace: captured variance that cannot fall, and its rate."""

from __future__ import annotations

import numpy as np

from lemmata.audit.kernel.attributes import never_rose
from lemmata.audit.kernel.claims import at_most, rounding, rule_of_thumb, unknown
from lemmata.core.runs.trace import decay_rate

# a rate fitted to a finite number of steps still holds traces of the faster modes
RATE_SLACK = 0.05

# the objective is minus the captured variance: for a positive semidefinite S no step of these solvers can lower it
never_fell = never_rose(
    "the captured variance never fell",
    "CIL 1.5",
    lambda fit: rounding(fit.components_.dtype, fit.components_.shape[1]),
    "rounding or a step of its own spoiled the run: solve in float64, or with solver='eigh'",
    name="never_fell",
    unit="largest fall",
)


@rule_of_thumb("the power method kept its predicted rate", "CIL Prop. 1.5.1", about="run")
def power_rate_kept(fit):
    """The angle to the first axis shrinks by λ₂/λ₁ per step; the largest excess of the measured rate over it."""
    values = np.asarray(fit.singular_values_, dtype=np.float64) ** 2
    residual, vector = fit.trace.extras["residual"], fit.trace.extras["vector"]
    excesses = []
    for j in range(min(int(vector.max()) + 1, len(values) - 1)):
        rate = decay_rate(np.log(residual[(vector == j) & (residual > 0)]))
        if np.isfinite(rate):
            excesses.append(rate - values[j + 1] / values[j])
    if not excesses:
        return unknown("needs two components and a few steps for each")
    advice = "the start was unlucky or rounding dominates: try again"
    return at_most(max(excesses), RATE_SLACK, advice, unit="measured − λ₂/λ₁")
