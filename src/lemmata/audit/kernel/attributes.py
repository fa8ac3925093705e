"""Claims that many certificates share: the attributes are sound, what they state is true of the data, no step rose.

    SOUND = attributes_sound({"components_": "k d", "mean_": "d", "explained_variance_?": "k | >= 0, falling"})
    TRUE = statements_true(measure, cost=passes(2))

A specification gives the shape of each attribute in letters that must agree with each other (d: the features of the data, once
there is data) and, after a bar, what its numbers have to be. "?" at the end of a name: it may be absent, or None. The number of
rows is left to the statements: a model that was fitted to other rows is sound, but what it states is not true of these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from lemmata.audit.kernel.claims import (
    PROVED,
    Evidence,
    Fact,
    Fit,
    Statement,
    at_most,
    claim,
    free,
    passes,
    rounding,
    unknown,
)

Array = np.ndarray

RANGES: dict[str, Callable[[Array], bool]] = {
    ">= 0": lambda x: bool((x >= 0).all()),
    "> 0": lambda x: bool((x > 0).all()),
    "<= 1": lambda x: bool((x <= 1 + rounding(x.dtype, x.size)).all()),
    "sum 1": lambda x: abs(float(x.sum(dtype=np.float64)) - 1) <= rounding(x.dtype, x.size),
    "whole": lambda x: bool((x == np.round(x)).all()),
    "falling": lambda x: bool((np.diff(x) <= rounding(x.dtype) * np.abs(x).max(initial=0.0)).all()),
}


def attributes_sound(
    attributes: Mapping[str, str], more: Callable[[Fit], Iterator[str]] | None = None
) -> Statement:
    """The claim that attributes are finite, of shapes that fit each other, and in range.

    more : gives a sentence for everything else that is wrong with a fit
    """

    @claim(
        "the attributes are finite, of matching shapes and in range",
        kind=PROVED,
        source="by definition",
    )
    def attributes_sound(fit: Fit) -> Evidence:
        wrong = list(_problems(fit, attributes))
        if not wrong and more is not None:
            wrong += more(fit)
        more_of_them = [f"and {len(wrong) - 3} more"] if len(wrong) > 3 else []
        note = "; ".join(wrong[:3] + more_of_them)
        return at_most(len(wrong), 0, "do not use this model; fit it again", "unsound", note)

    return attributes_sound


def _problems(fit: Fit, attributes: Mapping[str, str]) -> Iterator[str]:
    sizes: dict[str, int] = {}
    if fit.has_data:
        sizes["d"] = fit.data.shape[1]
    for spec_name, spec in attributes.items():
        name, optional = spec_name.removesuffix("?"), spec_name.endswith("?")
        value = fit.get(name)
        if value is None:
            if not optional:
                yield f"{name} is missing"
            continue
        yield from _problems_of(name, value, spec, sizes)


def _problems_of(name: str, value: Any, spec: str, sizes: dict[str, int]) -> Iterator[str]:
    letters, _, ranges = spec.partition("|")
    x = np.asarray(value)
    if x.dtype.kind not in "fiub":
        yield f"{name} holds {x.dtype}, not numbers"
        return
    if x.ndim != len(letters.split()):
        yield f"{name} has shape {x.shape}, not ({letters.strip()})"
        return
    for letter, size in zip(letters.split(), x.shape, strict=True):
        if sizes.setdefault(letter, size) != size:
            yield f"{name} has shape {x.shape}, but {letter} = {sizes[letter]}"
            return
    if not np.isfinite(x).all():
        yield f"{name} has {int((~np.isfinite(x)).sum())} numbers that are not finite"
        return
    for rule in filter(None, map(str.strip, ranges.split(","))):
        if not RANGES[rule](x):
            yield f"{name} should be {rule}"


def statements_true(
    measure: Callable[[Fit], Mapping[str, float]],
    cost: Callable[[Fit], float] | None = None,
    needs: tuple[Fact, ...] = (),
) -> Statement:
    """The claim that the numbers a model states are those of the data.

    measure : gives, by name, how far each stated number is from that of the data, in units of the rounding it may have (see
        `discrepancy`): at most 1 is true. A model that states nothing gives nothing.
    cost : by default a pass over the data, or nothing besides the facts that it needs
    """

    @claim(
        "what the model states is true of the data",
        kind=PROVED,
        source="by definition",
        cost=cost or (free if needs else passes()),
        needs=needs,
    )
    def statements_true(fit: Fit) -> Evidence:
        found = measure(fit)
        if not found:
            return unknown("the model states no number that the data could contradict")
        errors = {name: np.inf if np.isnan(error) else error for name, error in found.items()}
        worst = max(errors, key=lambda name: errors[name])
        advice = f"{worst} is not that of this data: pass the training data (and its weights), or fit it again"
        return at_most(
            errors[worst], 1.0, advice, unit="error / rounding", note=f"checked {', '.join(found)}"
        )

    return statements_true


def discrepancy(stated: Any, true: Any, scale: Any, tolerance: float) -> float:
    """The largest |stated − true| over tolerance·scale; inf where shapes differ or something is not a finite number."""
    stated, true = np.asarray(stated, dtype=np.float64), np.asarray(true, dtype=np.float64)
    if stated.shape != true.shape:
        return float("inf")
    scale = np.broadcast_to(np.asarray(scale, dtype=np.float64), true.shape)
    known = np.isfinite(stated) & np.isfinite(true) & np.isfinite(scale)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        errors = np.abs(stated - true)
        # divided one after the other: the product of two small numbers may be 0
        ratios = np.where(errors == 0, 0.0, errors / scale / tolerance)
    return float(np.where(known, ratios, np.inf).max(initial=0.0))


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
