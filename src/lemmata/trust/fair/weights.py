"""Weights under which group and outcome are independent (Kamiran & Calders 2012).

    w = P(a) P(y) / P(a, y)

With them every group has the same base rate in training, and no group changes its total weight.

    >>> reweigh([0, 0, 1, 0, 1, 1], list("aaabbb")).tolist()
    [0.75, 0.75, 1.5, 1.5, 0.75, 0.75]
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import column_or_1d
from sklearn.utils.validation import check_consistent_length

from lemmata.trust.fair.counts import encode_groups


def reweigh(y: Any, groups: Any, sample_weight: Any = None) -> np.ndarray:
    """Return a weight for each row, for the `sample_weight` of any fit; those given before are multiplied in."""
    labels, y = np.unique(column_or_1d(y), return_inverse=True)
    codes, names = encode_groups(groups)
    check_consistent_length(y, codes, sample_weight)
    w = np.ones(len(y)) if sample_weight is None else np.asarray(sample_weight, np.float64)
    cells = len(labels) * codes + y
    joint = np.bincount(cells, w, len(names) * len(labels)).reshape(len(names), len(labels))
    if not (joint > 0).all():
        a, b = np.argwhere(joint <= 0)[0]
        raise ValueError(
            f"group {names[a]!r} has no row with y = {labels.tolist()[b]!r}, and no weight makes up for it: merge groups."
        )
    wanted = np.outer(joint.sum(axis=1), joint.sum(axis=0)) / joint.sum()
    return w * (wanted / joint).ravel()[cells]
