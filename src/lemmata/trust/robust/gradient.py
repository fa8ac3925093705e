"""Attacks that follow gradients: one step (FGSM), or many, each projected back (PGD).

    FGSM   x' = x + argmax_{δ in ball and box} gᵀδ                       g = ∇(−m) or ∇ℓ at x
    PGD    z ← P(z + ηₖ · steepest(g(z)))                              ηₖ = ε(1 + cos(πk/K)), from 2ε to 0

g points towards the best other class (the margin m) or to a larger cross-entropy (the loss). The first climb of the margin
starts with a full step towards each other class, which on a linear model is the worst case itself; the others start from
random points, for rows that are not fooled yet: a fooled row rests.

>>> import numpy as np
>>> from sklearn.linear_model import LogisticRegression
>>> from lemmata.trust.robust.ball import Ball
>>> from lemmata.trust.robust.scores import read_target
>>> X, y = np.array([[0.2], [0.8]]), np.array([0, 1])
>>> found = pgd(read_target(LogisticRegression(C=100).fit(X, y), X, (1,)), X, y, Ball(0.35), steps=5)
>>> found.fooled, found.rows.ravel().round(2)
(array([ True,  True]), array([0.55, 0.45]))
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from lemmata.trust.robust.ball import Perturbations
from lemmata.trust.robust.scores import (
    Target,
    Weigh,
    margins,
    toward_class,
    toward_loss,
    toward_runner_up,
)

Array = np.ndarray

TOWARD: dict[str, Weigh] = {"margin": toward_runner_up, "loss": toward_loss}
MOST_CLASSES = 20  # other classes that get a full step of their own
# a row rests when its margin is below this share of its scores: rounding will not turn it back
FOOLED_BY = 1e-5


class Strongest:
    """The strongest perturbation of each row so far: the least margin. Where rows do not `rest`, none counts as fooled."""

    def __init__(self, X: Array, y: Array, rest: bool = True):
        self.X, self.y, self.rest = X, y, rest
        self.rows, self.margins = X.copy(), np.full(len(X), np.inf)
        self.fooled = np.zeros(len(X), dtype=bool)

    def offer(self, at: Array, Z: Array, scores: Array) -> Array:
        """Take the points Z of the rows `at` that are stronger; return which of them are still to be fooled."""
        m = margins(scores, self.y[at])
        better = m < self.margins[at]
        taken = at[better]
        self.rows[taken], self.margins[taken] = Z[better], m[better]
        if self.rest:
            self.fooled[at] |= m < -FOOLED_BY * np.abs(scores).max(axis=1)
        return ~self.fooled[at]

    @property
    def waiting(self) -> Array:
        """The rows that are not fooled yet."""
        return np.flatnonzero(~self.fooled)


def fgsm(target: Target, X: Array, y: Array, ball: Perturbations, on: str = "loss") -> Strongest:
    """Make one full step along the gradient at x: the signs in ℓ∞."""
    best = Strongest(X, y)
    _, G = target.pull(X, y, TOWARD[on])
    Z = ball.project(X + ball.maximise(G, X), X)
    best.offer(np.arange(len(X)), Z, target.scores(Z))
    return best


def pgd(
    target: Target, X: Array, y: Array, ball: Perturbations, *, steps: int = 50, restarts: int = 1,
    on: str = "margin", rng: Any = 0, full_steps: bool = True, rest: bool = True,
) -> Strongest:  # fmt: skip
    """Climb by projected gradients from `restarts` points of each ball.

    on : "margin" or "loss"
    full_steps : whether the first climb starts where a full step towards some class leads; else at a random point
    rest : whether to stop where a row is fooled
    """
    best, rng = Strongest(X, y, rest), np.random.default_rng(rng)
    if full_steps:
        _step_to_each_class(target, X, y, ball, best)
    for restart in range(restarts):
        if not len(at := best.waiting):
            break
        start = best.rows[at] if full_steps and not restart else ball.draw(X[at], rng)
        climb(target, start, at, ball, best, steps, TOWARD[on])
    return best


def climb(
    target: Target, Z: Array, at: Array, ball: Perturbations, best: Strongest, steps: int, toward: Weigh
) -> None:  # fmt: skip
    """Make projected steps from Z, points of the rows `at`, until their rows are fooled."""
    X = best.X[at]
    for k in range(steps):
        scores, G = target.pull(Z, best.y[at], toward)
        going = best.offer(at, Z, scores)
        if not going.all():
            at, X, Z, G = (part[going] for part in (at, X, Z, G))
        if not len(at):
            return
        ahead = ball.steer(G, Z)
        ahead *= ball.eps * (1 + math.cos(math.pi * k / steps))
        ahead += Z
        Z = ball.project(ahead, X)
    best.offer(at, Z, target.scores(Z))


def _step_to_each_class(
    target: Target, X: Array, y: Array, ball: Perturbations, best: Strongest
) -> None:
    scores = target.scores(X)
    best.offer(np.arange(len(X)), X, scores)
    order = np.argsort(-scores, axis=1)
    order = order[order != y[:, None]].reshape(len(X), -1)  # the other classes, likely ones first
    for k in range(min(order.shape[1], MOST_CLASSES)):
        if not len(at := best.waiting):
            return
        _, G = target.pull(X[at], np.column_stack([y[at], order[at, k]]), toward_class)
        Z = ball.project(X[at] + ball.maximise(G, X[at]), X[at])
        best.offer(at, Z, target.scores(Z))
