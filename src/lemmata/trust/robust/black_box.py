"""Attacks on a model that only answers: from its scores, or from its decisions alone. Every row asked about is counted.

    finite differences   vᵀs(x + αe_i) − vᵀs(x), over α, for each i               then PGD (ML Query-based gradient estimation)
    square attack        redraw δ in a random window; keep it where the margin falls           (Andriushchenko et al. 2020)
    boundary attack      walk along the border of the decision, towards x                  (Brendel, Rauber & Bethge 2018)

In ℓ2 and ℓ1 the square attack moves length: a second window gives up what the first is then filled with.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from lemmata.trust.robust.ball import Perturbations
from lemmata.trust.robust.gradient import Strongest
from lemmata.trust.robust.scores import Target, Weigh

Array = np.ndarray

SPAN = 0.1  # of ε: α of the differences
MOST_DIRECTIONS = 1000  # of the differences; with more features, so many random ones
# of 10,000 queries: where the windows of the square attack are halved, from 0.8 of the features
HALVINGS = (10, 50, 200, 500, 1000, 2000, 4000, 6000, 8000)
BISECTIONS, STARTS = 12, 20  # of the boundary attack
PROJECT_EVERY = 10  # steps of the boundary attack: is the nearest point of the ball fooled already?


class DifferencedTarget(Target):
    """A black box with gradients by differences of its scores."""

    white = True

    def __init__(self, target: Target, ball: Perturbations, rng: Any = 0):
        super().__init__(target.model, target.classes, target.shape)
        self.target, self.ball, self.rng = target, ball, np.random.default_rng(rng)
        self.at_once = target.at_once

    def _scores(self, Z: Array) -> Array:
        return self.target.scores(Z)

    def _pull(self, Z: Array, y: Array, weigh: Weigh) -> tuple[Array, Array]:
        (n, d), scores = Z.shape, self.target.scores(Z)
        alpha, v = SPAN * self.ball.eps, weigh(scores, y)
        m = min(d, MOST_DIRECTIONS)
        D = np.eye(d) if m == d else self.rng.standard_normal((m, d)) / math.sqrt(d)
        G = np.empty_like(Z)
        for i in range(n):
            ahead = self.target.scores((Z[i] + alpha * D).astype(Z.dtype))
            G[i] = ((ahead - scores[i]) @ v[i] / alpha) @ D
        return scores, G


# --- square attack ----------------------------------------------------------------------------------------------------


def attack_by_squares(
    target: Target, X: Array, y: Array, ball: Perturbations, queries: int = 5000, rng: Any = 0
) -> Strongest:
    """Redraw random windows, of images squares over all channels, of tables random features."""
    best, rng = Strongest(X, y), np.random.default_rng(rng)
    channels, height, width = _as_image(target.shape)
    table, (n, d) = height == 1, X.shape
    stripes = rng.choice([-1.0, 1.0], (n, channels, 1 if height > 1 else height, width))
    delta = np.broadcast_to(stripes, (n, channels, height, width)).reshape(n, d)
    Z = ball.place(X, (ball.eps * delta / ball.measure(delta[:1])[0]).astype(X.dtype))
    best.offer(np.arange(n), Z, target.scores(Z))
    for k in range(1, queries):
        if not len(at := best.waiting):
            break
        share = 0.8 * 0.5 ** sum(k * 10_000 >= halving * queries for halving in HALVINGS)
        here = _draw_windows(len(at), channels, height, width, share, table, rng)
        delta = best.rows[at] - X[at]
        colour = rng.choice([-1.0, 1.0], (len(at), channels, 1))
        signs = np.broadcast_to(colour, (len(at), channels, height * width)).reshape(len(at), d)
        if table:
            signs = rng.choice([-1.0, 1.0], delta.shape)
        if ball.norm == math.inf:
            size: Any = ball.eps
        else:
            delta[_draw_windows(len(at), channels, height, width, share, table, rng)] = 0
            rest = np.where(here, 0, np.abs(delta) ** ball.norm).sum(axis=1)
            spare = np.maximum(ball.eps**ball.norm - rest, 0) / here.sum(axis=1)
            size = (spare ** (1 / ball.norm))[:, None]
        Z = ball.place(X[at], np.where(here, size * signs, delta).astype(X.dtype))
        best.offer(at, Z, target.scores(Z))
    return best


def _as_image(shape: tuple[int, ...]) -> tuple[int, int, int]:
    """(channels, height, width); a table is one channel, one row high."""
    if len(shape) < 2:
        return 1, 1, math.prod(shape)
    return math.prod(shape[:-2]), shape[-2], shape[-1]


def _draw_windows(n, channels, height, width, share, table, rng) -> Array:
    """(n, features): in the window. A table has no neighbours, so that single features are drawn."""
    if table:
        here = rng.uniform(size=(n, channels * width)) < share
        here[np.arange(n), rng.integers(0, channels * width, n)] = True
        return here
    side = max(round(math.sqrt(share * height * width)), 1)
    inside = []
    for size in (height, width):
        first = rng.integers(0, max(size - side, 0) + 1, (n, 1))
        inside.append((np.arange(size) >= first) & (np.arange(size) < first + side))
    window = inside[0][:, None, :, None] & inside[1][:, None, None, :]
    return np.broadcast_to(window, (n, channels, height, width)).reshape(n, -1)


# --- boundary attack --------------------------------------------------------------------------------------------------


def walk_along_border(
    target: Target, X: Array, y: Array, ball: Perturbations, pool: Array, queries: int = 5000, rng: Any = 0
) -> Strongest:  # fmt: skip
    """Start at the nearest row of the pool that is decided otherwise, and come nearer as long as the decision stays wrong."""
    best, rng = Strongest(X, y), np.random.default_rng(rng)

    def wrong(at: Array, Z: Array) -> Array:
        """Ask; points of the ball are kept."""
        said = target.decide(Z)
        legal = ball.measure(Z - X[at]) <= ball.eps * (1 + 1e-9)
        scores = np.eye(len(target.classes))[said]
        best.offer(at[legal], Z[legal], scores[legal])
        return said != y[at]

    at, Z = _find_starts(target, X, y, ball, pool, rng)
    low, high = np.zeros(len(at)), np.ones(len(at))
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        hit = wrong(at, (X[at] + middle[:, None] * (Z - X[at])).astype(X.dtype))
        low, high = np.where(hit, low, middle), np.where(hit, middle, high)
    Z = (X[at] + high[:, None] * (Z - X[at])).astype(X.dtype)
    turn, near = np.full(len(at), 0.1), np.full(len(at), 0.1)
    for k in range(queries - BISECTIONS - STARTS):
        if k % PROJECT_EVERY == 0:
            wrong(at, ball.project(Z, X[at]))
            going = ~best.fooled[at]
            at, Z, turn, near = at[going], Z[going], turn[going], near[going]
        if not len(at):
            break
        back = Z - X[at]
        length = np.linalg.norm(back, axis=1, keepdims=True)
        aside = rng.standard_normal(Z.shape)
        aside -= (aside * back).sum(axis=1, keepdims=True) * back / np.maximum(length**2, 1e-300)
        aside *= turn[:, None] * length / np.linalg.norm(aside, axis=1, keepdims=True)
        tried = ball.project((Z + aside).astype(X.dtype), X[at], (1 - near) * ball.measure(back))
        hit = wrong(at, tried)
        Z[hit] = tried[hit]
        turn = np.clip(np.where(hit, 1.1 * turn, 0.97 * turn), 1e-4, 1)
        near = np.clip(np.where(hit, 1.2 * near, 0.93 * near), 1e-6, 0.5)
    return best


def _find_starts(target, X, y, ball, pool, rng) -> tuple[Array, Array]:
    """Return rows and, for each, a point that the model decides otherwise: the nearest row, else a random point of the box."""
    said, starts = target.decide(pool), X.copy()
    found = np.zeros(len(X), dtype=bool)
    for i in range(len(X)):
        if len(others := np.flatnonzero(said != y[i])):
            starts[i] = pool[others[ball.measure(pool[others] - X[i]).argmin()]]
            found[i] = True
    for _ in range(STARTS):
        if not len(lost := np.flatnonzero(~found)):
            break
        low, high = pool.min(axis=0), pool.max(axis=0)
        points = rng.uniform(low, high, (len(lost), X.shape[1])).astype(X.dtype)
        hit = target.decide(points) != y[lost]
        starts[lost[hit]], found[lost[hit]] = points[hit], True
    return np.flatnonzero(found), starts[found]
