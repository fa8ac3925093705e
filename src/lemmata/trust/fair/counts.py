"""Validation of decisions on people in groups, before they are counted: labels to codes, columns to intersections, 0 or 1."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from sklearn.utils import column_or_1d
from sklearn.utils.validation import check_consistent_length

from lemmata.audit.trust.fair.counts import RATES, GroupCounts
from lemmata.audit.trust.fair.gaps import Gaps, gaps_at_once

# ruff: noqa: F401
from lemmata.audit.trust.fair.logistic import BOUNDED_CLAIMS, covariance_rows
from lemmata.audit.trust.fair.thresholds import EQUALISED, THRESHOLD_CLAIMS, GroupCurve, curves_of

Array = np.ndarray


@dataclass(frozen=True)
class People:
    """Rows that were decided on: outcomes and decisions as 0 or 1, groups as places in `names`."""

    y: Array
    decisions: Array
    codes: Array
    names: tuple[str, ...]
    positive: Any
    scores: Array | None = None
    weights: Array | None = None


def check_people(
    y: Any,
    decisions: Any,
    groups: Any,
    scores: Any = None,
    sample_weight: Any = None,
    positive: Any = None,
) -> People:
    """Return the rows as codes, or say what is wrong with them."""
    y, decisions = column_or_1d(y), column_or_1d(decisions)
    codes, names = encode_groups(groups)
    check_consistent_length(y, decisions, codes, scores, sample_weight)
    if not len(y):
        raise ValueError("there are no rows to judge.")
    positive = _find_positive(y, decisions, positive)
    if scores is not None:
        scores = np.asarray(column_or_1d(scores), dtype=np.float64)
        if not np.isfinite(scores).all():
            raise ValueError("scores holds NaN or infinity; pass finite numbers.")
    if sample_weight is not None:
        sample_weight = np.asarray(sample_weight, dtype=np.float64)
        known = np.isfinite(sample_weight).all() and (sample_weight >= 0).all()
        if not (known and sample_weight.sum() > 0):
            raise ValueError(
                "sample_weight holds numbers that are negative, not finite, or all 0; pass weights >= 0."
            )
    hits = (y == positive).astype(np.int8), (decisions == positive).astype(np.int8)
    return People(*hits, codes, names, positive, scores, sample_weight)


def _find_positive(y: Array, decisions: Array, positive: Any) -> Any:
    """The class that counts as accepted: the larger of two, or the one that was named."""
    for name, values in (("y", y), ("decisions", decisions)):
        if values.dtype.kind == "f" and not np.isfinite(values).all():
            raise ValueError(f"{name} holds NaN or infinity; pass classes.")
    known = np.unique(np.concatenate([np.unique(y), np.unique(decisions)]))
    if positive is not None:
        if positive not in known and len(known) > 1:
            some = ", ".join(map(repr, known[:8].tolist()))
            raise ValueError(f"positive={positive!r} is not among the classes {some}.")
        return positive
    if len(known) > 2:
        some = ", ".join(map(repr, known[:8].tolist()))
        raise ValueError(
            f"y and decisions hold {len(known)} values ({some}, …): pass decisions, not scores, and positive=, the class "
            "to be judged against the rest."
        )
    return known[-1] if len(known) == 2 or known[0] not in (0, -1, False) else 1


def encode_groups(groups: Any) -> tuple[Array, tuple[str, ...]]:
    """Return places and names of groups; of several columns the intersections that occur, "a & b"."""
    if isinstance(groups, dict):
        columns = list(groups.values())
    elif hasattr(groups, "iloc") and getattr(groups, "ndim", 1) == 2:
        columns = [groups.iloc[:, i] for i in range(groups.shape[1])]
    elif np.ndim(groups) == 2:
        columns = list(np.asarray(groups, dtype=object).T)
    else:
        columns = [groups]
    if not columns:
        raise ValueError("groups has no columns; pass at least one.")
    check_consistent_length(*columns)
    codes, names = _encode_column(columns[0])
    for column in columns[1:]:
        more, labels = _encode_column(column)
        found, codes = np.unique(codes * len(labels) + more, return_inverse=True)
        names = tuple(f"{names[at // len(labels)]} & {labels[at % len(labels)]}" for at in found)
    return codes, names


def _encode_column(column: Any) -> tuple[Array, tuple[str, ...]]:
    values = np.asarray(column)
    if values.ndim != 1:
        raise ValueError(
            f"groups of shape {values.shape}: pass a label for each row, or columns of labels."
        )
    if values.dtype.kind in "biu":
        found, codes = np.unique(values, return_inverse=True)
        return codes, tuple(map(str, found.tolist()))
    encoded = pa.array([*map(_as_text, values.tolist())], pa.string()).dictionary_encode()
    if encoded.null_count:
        raise ValueError(
            f"groups holds {encoded.null_count:,} missing labels: give these people a group of their own, or leave them out."
        )
    labels = encoded.dictionary.to_pylist()
    order = np.argsort(np.array(labels, dtype=object))
    place = np.empty(len(labels), np.int64)
    place[order] = np.arange(len(labels))
    return place[encoded.indices.to_numpy()], tuple(labels[at] for at in order)


def _as_text(label: Any) -> str | None:
    """The label as text; None, NaN, NaT and pandas.NA are missing."""
    missing = label is None or type(label).__name__ == "NAType" or label != label
    return None if missing else str(label)
