"""What a trace says of a run: objectives that cannot rise."""

from __future__ import annotations

from collections.abc import Callable

from lemmata.audit.kernel.claims import PROVED, Evidence, Fit, Statement, at_most, unknown


def never_rose(
    sentence: str,
    source: str,
    rounding: Callable[[Fit], float],
    advice: str = "",
    *,
    name: str = "never_rose",
    unit: str = "largest rise",
    needs_steps: str = "",
) -> Statement:
    """The claim that no step of a run raised its objective, as a theorem says of exact steps.

    rounding : what floats may add to a step, as a share of the largest objective
    needs_steps : said where the trace has one number only; empty: that is a run that never rose
    """

    def check(fit: Fit) -> Evidence:
        if needs_steps and len(fit.trace) < 2:
            return unknown(needs_steps)
        return at_most(fit.trace.largest_rise, rounding(fit), advice, unit=unit)

    return Statement(name, sentence, PROVED, source, check, about="run")
