"""Going on from factors found before: which rows are which, and one trace of several runs."""

from __future__ import annotations

import numpy as np

from lemmata.completion.observed import Observed
from lemmata.core.runs.trace import Trace

Array = np.ndarray


def match_labels(old: Observed, new: Observed, what: str) -> Array:
    """For every row (or column) of the old data its position in the new, −1 if it is gone."""
    labels = getattr(old, f"{what}_labels"), getattr(new, f"{what}_labels")
    if labels[0] is not None and labels[1] is not None:
        return labels[1].find(labels[0].names)
    size, now = old.shape[what == "column"], new.shape[what == "column"]
    if now < size:
        raise ValueError(
            f"update was given {now:,} {what}s and the model has {size:,}; without labels on both, rows and columns keep their "
            "positions and new ones come at the end. Give labels, or pass the full shape."
        )
    return np.arange(size)


def place_factors(
    factors: Array, bias: Array, where: Array, size: int, dtype
) -> tuple[Array, Array, Array]:
    """Factors and biases at their new positions, zeros elsewhere, and the mask of positions that got any."""
    kept = where >= 0
    F, b, known = (
        np.zeros((size, factors.shape[1]), dtype),
        np.zeros(size, dtype),
        np.zeros(size, bool),
    )
    F[where[kept]], b[where[kept]], known[where[kept]] = factors[kept], bias[kept], True
    return F, b, known


def join_traces(first: Trace, second: Trace) -> Trace:
    """One trace of a run and its continuation."""
    trace = first.copy()
    for value, seconds in zip(second.objective, second.seconds, strict=True):
        trace.append(value, first.elapsed + seconds)
    return trace
