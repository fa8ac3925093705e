"""The largest gaps and least ratios of rates between groups, under Fairlearn's names.

They describe these rows. The largest of several gaps is biased upwards and has no interval; `trust.fairness` judges new rows.

    >>> y, decisions = [0, 1, 1, 0, 1, 1], [0, 1, 1, 1, 1, 0]
    >>> groups = list("aaabbb")
    >>> round(demographic_parity_difference(y, decisions, sensitive_features=groups), 3)
    0.0
    >>> equal_opportunity_difference(y, decisions, sensitive_features=groups)
    0.5
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lemmata.trust.fair.counts import GroupCounts, check_people

Array = np.ndarray


def rates_by_group(
    y_true: Any, y_pred: Any, *, sensitive_features: Any, sample_weight: Any = None
) -> dict[str, dict[str, float]]:
    """Return every rate of every group: {"acceptance": {"a": 0.4, "b": 0.5}, "TPR": …}."""
    from lemmata.trust.fair.counts import RATES

    counts = _count(y_true, y_pred, sensitive_features, sample_weight)
    return {
        name: dict(zip(counts.names, counts.rate(name).values.tolist(), strict=True))
        for name in RATES
    }


def _count(y: Any, decisions: Any, groups: Any, weights: Any) -> GroupCounts:
    people = check_people(y, decisions, groups, sample_weight=weights)
    return GroupCounts.of(people.names, people.codes, people.y, people.decisions, people.weights)


def _difference(values: Array) -> float:
    return float(np.nanmax(values) - np.nanmin(values))


def _ratio(values: Array) -> float:
    """The least over the largest; of rates that are all 0 it is 1, as nobody is treated worse."""
    most = np.nanmax(values)
    return float(np.nanmin(values) / most) if most > 0 else 1.0


def _metric(name: str, rates: str) -> Any:
    compare, worst, what = _difference, max, "Largest minus least"
    if name.endswith("ratio"):
        compare, worst, what = _ratio, min, "Least over largest"

    def metric(
        y_true: Any, y_pred: Any, *, sensitive_features: Any, sample_weight: Any = None
    ) -> float:
        counts = _count(y_true, y_pred, sensitive_features, sample_weight)
        return worst(compare(counts.rate(rate).values) for rate in rates.split())

    metric.__name__ = metric.__qualname__ = name
    metric.__doc__ = f"{what} {' or '.join(rates.split())} of the groups, whichever is worse."
    return metric


demographic_parity_difference = _metric("demographic_parity_difference", "acceptance")
demographic_parity_ratio = _metric("demographic_parity_ratio", "acceptance")
equalized_odds_difference = _metric("equalized_odds_difference", "TPR FPR")
equalized_odds_ratio = _metric("equalized_odds_ratio", "TPR FPR")
equal_opportunity_difference = _metric("equal_opportunity_difference", "TPR")
equal_opportunity_ratio = _metric("equal_opportunity_ratio", "TPR")
