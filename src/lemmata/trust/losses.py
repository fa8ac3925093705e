"""The loss that a model is judged by, its range, and validation of test rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.utils import column_or_1d
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from lemmata.trust.bounds import LOSSES, PredictionLoss

Array = np.ndarray


def loss_of(
    model: Any, loss: str | Callable | None, bounds: tuple[float, float] | None = None
) -> PredictionLoss:
    """The loss by name or as a function of (y, prediction); 0 or 1 for classifiers and squares for others if not said."""
    if loss is None:
        known = hasattr(model, "__sklearn_tags__")  # anything with `predict` will do
        labels = hasattr(model, "classes_") or (known and is_classifier(model))
        loss = "zero_one" if labels else "squared"
    if isinstance(loss, str):
        if loss not in LOSSES:
            raise ValueError(
                f"loss={loss!r} is not known; pass one of {', '.join(LOSSES)}, or a function of (y, prediction)."
            )
        found = LOSSES[loss]
        return found if bounds is None else replace(found, bounds=checked_bounds(bounds))
    if not callable(loss):
        raise TypeError(f"loss={loss!r}: pass a name or a function of (y, prediction).")
    name = getattr(loss, "__name__", "loss")
    limits = None if bounds is None else checked_bounds(bounds)
    return PredictionLoss(name, lambda model, X, y: np.asarray(loss(y, model.predict(X))), limits)


def checked_bounds(bounds: tuple[float, float]) -> tuple[float, float]:
    low, high = map(float, bounds)
    if not (np.isfinite([low, high]).all() and low < high):
        raise ValueError(f"bounds={bounds!r}: pass the least and the largest loss that can occur, low < high.")  # fmt: skip
    return low, high


def checked_rows(
    model: Any, X: Any, y: Any, sample_weight: Any = None
) -> tuple[Array, Array | None]:
    """y and the weights as vectors as long as X; the model has to be fitted."""
    if hasattr(model, "get_params") and not isinstance(model, type):
        check_is_fitted(model)
    y = column_or_1d(y)
    check_consistent_length(X, y, sample_weight)
    if not len(y):
        raise ValueError("there are no rows to test on.")
    if sample_weight is None:
        return y, None
    weights = np.asarray(sample_weight, dtype=np.float64)
    if not (np.isfinite(weights).all() and (weights >= 0).all() and weights.sum() > 0):
        raise ValueError("sample_weight holds numbers that are negative, not finite, or all 0; pass weights >= 0.")  # fmt: skip
    return y, weights
