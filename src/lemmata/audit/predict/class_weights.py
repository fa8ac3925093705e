"""Weights of classes, as scikit-learn reads the parameter `class_weight`."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray


def class_factors(class_weight: Any, classes: Any, y: Array, weights: Array | None = None) -> Array:
    """Return a factor per class: n/(k·count) for "balanced", what a dict says otherwise, 1 where it says nothing.

    weights : of the rows that "balanced" counts; None: one each
    """
    labels = np.asarray(classes).tolist()
    if class_weight is None:
        return np.ones(len(labels))
    if isinstance(class_weight, str):
        counts = np.bincount(y, weights, len(labels))
        return counts.sum() / (len(labels) * np.where(counts > 0, counts, np.inf))
    return np.array([float(class_weight.get(label, 1.0)) for label in labels])
