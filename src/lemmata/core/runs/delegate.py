"""A model under the names of another library: one of ours is fitted, and what it found becomes the model's own."""

from __future__ import annotations

import warnings
from typing import Any

from sklearn.exceptions import ConvergenceWarning

from lemmata.audit.kernel.attributes import entries
from lemmata.core.engine import config
from lemmata.core.loop import warn_user


def fit_as(
    model: Any, ours: Any, data: Any, unsettled: list[str] | None = None, **state: Any
) -> Any:
    """Fit `ours` for a model, from where that one stands, without a certificate; warnings name the model.

    unsettled : takes what would be said of a run that did not settle, for `conclude_as` to say it once
    state : attributes that `ours` begins with instead of the model's
    """
    standing = {name: getattr(model, name) for name in model._shapes() if hasattr(model, name)}
    for name, value in {**standing, **state}.items():
        setattr(ours, name, value)
    with warnings.catch_warnings(record=True) as heard, config(certificate=False):
        ours._fit_blocks(data)
    for one in heard:
        text = str(one.message).replace(type(ours).__name__, type(model).__name__)
        if unsettled is not None and issubclass(one.category, ConvergenceWarning):
            unsettled.append(text)
        else:
            warn_user(text, one.category)
    return ours


def conclude_as(
    model: Any, ours: Any, data: Any, unsettled: list[str] | None = None, **changed: Any
) -> None:
    """End the fit of a model with the attributes of ours, those `changed` instead of its own, and a certificate."""
    found = {name: getattr(ours, name) for name in entries(model.stored) if hasattr(ours, name)}
    model._conclude(data, {**found, **changed}, ours.trace_, ours.stopped_, ours.n_iter_)
    model._warn_of_distance(unsettled[0] if unsettled else "")
