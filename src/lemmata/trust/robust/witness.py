"""Searches that claims about robustness ask for: an attack by gradients on another ball, and the gradients themselves."""

from __future__ import annotations

from typing import Any

import numpy as np

from lemmata.audit.kernel.claims import Fit

Array = np.ndarray

STEPS, RESTARTS = 50, 2


def attack_by_gradients(fit: Fit, ball: Any) -> Array | None:
    """Return the rows that projected gradients on the margin find in another ball; None for black boxes."""
    from lemmata.trust.robust.gradient import pgd

    target, rows, places = _read(fit, ball)
    if target is None:
        return None
    with target.ready():
        found = pgd(target, rows, places, ball, steps=STEPS, restarts=RESTARTS)
    return found.rows.reshape(np.shape(fit.X))


def input_gradients(fit: Fit) -> Array | None:
    """Return the gradient of the margin at every row; None for black boxes."""
    from lemmata.trust.robust.scores import toward_runner_up

    target, rows, places = _read(fit, fit.ball)
    if target is None:
        return None
    with target.ready():
        return target.pull(rows, places, toward_runner_up)[1]


def _read(fit: Fit, ball: Any) -> tuple[Any, Array, Array]:
    from lemmata.trust.robust.scores import places_of, read_target

    X = np.asarray(fit.X)
    rows = X.reshape(len(X), -1)
    if rows.dtype not in (np.float32, np.float64):
        rows = rows.astype(np.float64)
    target = read_target(fit.model, rows, X.shape[1:])
    if not target.white:
        return None, rows, rows
    return target, rows, places_of(fit.y, target.classes)
