"""Riemann sums as sigmoid nets (ML "L1 Approximation"): a rectangle is the difference of two steps, a step a steep sigmoid.

One input, k rectangles of width h with the heights of f at their middles, on [a, b]:

    f_k(x) = Σ_i f(m_i) [σ(w(x − e_i)) − σ(w(x − e_{i+1}))]

The notes count 2k units; neighbours share an edge, so k + 1 are enough. For f with Lipschitz constant L

    ∫|f − f_k| ≤ L(b − a)h/4 + (2 ln 2 / w) Σ_j |c_j|           c_j: the jump at edge j

since ∫|x − m| over a rectangle is h²/4, and ∫|σ(wx) − 1[x > 0]| dx = 2 ln 2 / w. (In the notes ∫|f − f_n| = ∫(f − f_n), which
holds for rectangles below f.)

Two inputs, k × k rectangles: σ(w(x₁ − a₁)) − σ(w(x₁ − b₁)) + σ(w(x₂ − a₂)) − σ(w(x₂ − b₂)) is 2 on the rectangle, 1 on the
arms of its cross and 0 elsewhere; a second hidden layer σ(v(· − 3/2)) removes the arms (bias −3v/2; the notes drop the
sign). The bound is derived at `_threshold_bound`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from lemmata.nets.approximation.layers import Layers

Array = np.ndarray

# mean distance of a square's points from its centre, for side 1: (√2 + ln(1 + √2)) / 6
MEAN_DISTANCE = (math.sqrt(2) + math.asinh(1)) / 6
FLAT = 1e-3  # of max|f| · area: what the sigmoids may cost where the rectangles cost nothing


@dataclass(frozen=True)
class Approximation:
    """A net with a proved bound of its L1 error, in two parts."""

    net: Layers
    steepness: float  # w
    rectangles: float  # ∫|f − step function| at most
    sigmoids: float  # ∫|step function − net| at most

    @property
    def bound(self) -> float:
        return self.rectangles + self.sigmoids


def _middles(f: Callable, low: float, high: float, pieces: int) -> tuple[Array, Array]:
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ValueError(f"[{low}, {high}] is no interval: pass finite ends with low < high.")
    if pieces < 1:
        raise ValueError(f"pieces={pieces}: pass at least 1.")
    edges = np.linspace(low, high, pieces + 1)
    return edges, (edges[:-1] + edges[1:]) / 2


def rectangle_net(
    f: Callable,
    low: float,
    high: float,
    pieces: int,
    *,
    lipschitz: float,
    steepness: float | None = None,
) -> Approximation:
    """A net with one hidden layer of `pieces` + 1 sigmoids for f on [low, high].

    f : takes and returns an array
    lipschitz : L with |f(x) − f(y)| ≤ L|x − y|; the bound stands on it
    steepness : w; None chooses one at which the sigmoids cost no more than the rectangles
    """
    edges, middles = _middles(f, low, high, pieces)
    heights = np.asarray(f(middles), dtype=np.float64)
    jumps = np.diff(heights, prepend=0.0, append=0.0)
    cost = lipschitz * (high - low) ** 2 / pieces / 4
    swing = 2 * math.log(2) * float(np.abs(jumps).sum())
    if steepness is None:
        allowed = max(cost, FLAT * float(np.abs(heights).max()) * (high - low))
        steepness = swing / allowed if allowed > 0 else 1.0
    w = float(steepness)
    hidden = (np.full((pieces + 1, 1), w), -w * edges)
    net = Layers((hidden[0], jumps[None]), (hidden[1], np.zeros(1)), "sigmoid")
    return Approximation(net, w, cost, swing / w if w > 0 else math.inf)


def rectangle_net_2d(
    f: Callable,
    low: float,
    high: float,
    pieces: int,
    *,
    lipschitz: float,
    steepness: float | None = None,
) -> Approximation:
    """A net with two hidden layers, 2(k + 1) edges and k² thresholds, for f(x₁, x₂) on the square [low, high]².

    f : takes an array (n, 2) and returns (n,)
    lipschitz : L with |f(x) − f(y)| ≤ L‖x − y‖
    steepness : w of the edges; None chooses one at which the sigmoids cost no more than the rectangles. The thresholds' v is
        12 + 4 ln k², at which the k² − 1 rectangles that do not contain a point add less than e⁻⁶ of max|f|
    """
    edges, middles = _middles(f, low, high, pieces)
    k, side = pieces, high - low
    first, second = np.meshgrid(middles, middles, indexing="ij")
    heights = np.asarray(f(np.column_stack([first.ravel(), second.ravel()])), dtype=np.float64)
    height, v = float(np.abs(heights).max()), 12 + 4 * math.log(k * k)
    cost = lipschitz * MEAN_DISTANCE * side / k * side**2
    if steepness is None:
        allowed, steepness = max(cost, 20 * FLAT * height * side**2), 8 * k / side
        while _threshold_bound(steepness, v, k, side, height) > allowed:
            steepness *= 2
    w = float(steepness)
    axis = np.kron(np.eye(2), np.ones((k + 1, 1)))  # (2(k + 1), 2): each edge looks at one input
    cross = np.zeros((k * k, 2 * (k + 1)))
    for i in range(k):
        for j in range(k):
            cross[i * k + j, [i, i + 1, k + 1 + j, k + 2 + j]] = 1, -1, 1, -1
    net = Layers(
        (w * axis, v * cross, heights[None]),
        (-w * np.tile(edges, 2), np.full(k * k, -1.5 * v), np.zeros(1)),
        "sigmoid",
    )
    return Approximation(net, w, cost, _threshold_bound(w, v, k, side, height))


def _threshold_bound(w: float, v: float, k: int, side: float, height: float) -> float:
    """∫|step function − net| over the square, for every height function with |f| ≤ height.

    At distance ≥ δ from all edges a sigmoid of steepness w is within e^{−wδ} of its step, so a cross is within η = 4e^{−wδ} of
    2, 1 or 0, and each of the k² thresholds errs by at most e^{−v(½ − η)}. Nearer to an edge (2(k + 1) strips of width 2δ): the
    k rectangles of one axis are ≥ 0 and add up to at most 1, so at most 3 are above ¼, so at most 9 crosses are above 5/4; the
    net is at most (9 + k² e^{−v/4}) height there, and the step function at most height. The best δ of many is taken.
    """
    best = math.inf
    for delta in np.geomspace(2.1, 60, 200) / w:
        eta = 4 * math.exp(-w * delta)
        if eta >= 0.5:
            continue
        inside = side**2 * k * k * math.exp(-v * (0.5 - eta))
        strips = min(4 * (k + 1) * delta * side, side**2) * (10 + k * k * math.exp(-v / 4))
        best = min(best, height * (inside + strips))
    return best
