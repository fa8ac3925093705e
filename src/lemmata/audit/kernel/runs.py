"""Claims about a run: objectives that cannot rise."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from lemmata.audit.kernel.claims import PROVED, Evidence, Fit, Statement, at_most, free, unknown


def never_rose(
    sentence: str,
    source: str,
    rounding: Callable[[Fit], float],
    advice: str | Callable[[Fit], str] = "",
    *,
    name: str = "never_rose",
    unit: str = "largest rise",
    needs_steps: str = "",
    size: Callable[[Fit], float] | None = None,
    price: str = "",
    cost: Callable[[Fit], float] = free,
) -> Statement:
    """The claim that no step of a run raised its objective, as a theorem says of exact steps.

    A rise is measured against the largest objective of the run, since the rounding of a sum follows the size of its terms.

    rounding : what floats may add to a step, as a share of the largest objective
    needs_steps : said where the trace has one number only; empty: that is a run that never rose
    size : of the terms, where they nearly cancel, so that the objective itself is smaller than their rounding
    price : the column of the trace with what a step may add besides
    """

    def check(fit: Fit) -> Evidence:
        assert fit.trace is not None  # the claim is about the run
        values, columns = fit.trace.objective, fit.trace.extras
        if needs_steps and len(values) < 2:
            return unknown(needs_steps)
        bound = rounding(fit)
        rises = np.diff(values) - (columns[price][1:] if price in columns else 0.0)
        scale = max(float(np.abs(values).max(initial=0.0)), size(fit) if size else 0.0)
        largest = max(float(rises.max(initial=0.0)), 0.0) / scale if scale > 0 else 0.0
        return at_most(largest, bound, advice(fit) if callable(advice) else advice, unit=unit)

    return Statement(name, sentence, PROVED, source, check, about="run", cost=cost)
