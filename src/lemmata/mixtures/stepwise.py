"""Online EM: a mixture that learns from batches of rows and keeps none of them.

    s ← (1 − γ_t) s + γ_t ŝ,      γ_t = (t + 2)^−κ            ŝ: the expected statistics of a batch; then the M-step

An average over the batches that forgets old ones slowly (Cappé & Moulines 2009).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from lemmata.core.blocks import Blocks
from lemmata.core.store import storable
from lemmata.mixtures.em import EMState
from lemmata.mixtures.expectation import Family, expectation, maximisation

Array = np.ndarray


@storable
@dataclass(frozen=True)
class StepwiseState:
    """A mixture that learns from batches."""

    version = 1
    layout: ClassVar[dict[str, str]] = {"weights": "k >=0 <=1"}

    weights: Array
    params: Any
    stats: Any  # per unit of weight: an average over the batches that forgets old ones slowly
    batches: int  # t
    weight: float  # of all rows so far
    log_likelihood: float  # mean, of the newest batch under the parameters before it was learned from: a fair forecast


@dataclass(frozen=True)
class StepwiseEM:
    """Online EM (Cappé & Moulines 2009): s ← (1 − γ_t) s + γ_t ŝ with the batch's statistics ŝ, γ_t = (t + 2)^−κ, then M.

    Σ γ_t = ∞ and Σ γ_t² < ∞ need ½ < κ ≤ 1. Smaller κ forgets the start sooner, larger κ averages more.
    """

    family: Family
    kappa: float = 0.6

    def __post_init__(self):
        if not 0.5 < self.kappa <= 1:
            raise ValueError(
                f"kappa={self.kappa}: the steps (t + 2)^-kappa converge for 0.5 < kappa <= 1."
            )

    def begin(self, state: EMState) -> StepwiseState:
        """Go on from a fit, or from its first state on the first batch; the fit counts as one batch."""
        total = float(state.stats.counts.sum())
        return StepwiseState(
            state.weights, state.params, state.stats.scaled(1 / total), 0, total, state.log_likelihood
        )  # fmt: skip

    def update(self, state: StepwiseState, data: Blocks) -> StepwiseState:
        """Learn from a batch. One whose rows all weigh nothing, or are all unknown, changes nothing."""
        for rows, _ in data:
            self.family.check(rows)  # as the survey did before a fit
        found = expectation(self.family, state.params, state.weights, data)
        total = float(found.stats.counts.sum()) if found.weight > 0 else 0.0
        if total == 0:
            return state
        gamma = (state.batches + 2) ** -self.kappa
        stats = state.stats.scaled(1 - gamma) + found.stats.scaled(gamma / total)
        weight = state.weight + found.weight
        # a prior counts against all rows seen
        weights, params = maximisation(self.family, stats.scaled(weight))
        mean = found.log_likelihood / found.weight
        return replace(
            state,
            weights=weights,
            params=params,
            stats=stats,
            batches=state.batches + 1,
            weight=weight,
            log_likelihood=mean,
        )
