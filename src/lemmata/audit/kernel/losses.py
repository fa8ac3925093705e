"""Losses of linear predictors as their definitions say: value, slope and the Fenchel–Young excess.

    ℓ(f),   ℓ′(f),   ℓ*(a) = sup_f (a f − ℓ(f)),   excess(f, a) = ℓ(f) + ℓ*(a) − a f ≥ 0

A duality gap is a sum of such excesses, each nonnegative: written so, it is not the small difference of two large sums, and
rounding does not hide it. `a` is the slope per unit of weight. Margin losses know y = ±1 and speak of p = −y a, which is
between 0 and `steepest`; robust losses know a number y and speak of the residual r = f − y.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps

import numpy as np
from scipy.special import expit, xlogy

Array = np.ndarray
ROWS = 2**12  # of scores of several classes that are worked on at once


@dataclass(frozen=True, kw_only=True)
class ConvexLoss:
    """A convex loss of one score f with its target y. `steepest`: the largest |ℓ′|, inf if there is none."""

    name: str = ""
    steepest: float = math.inf
    smooth: bool = True  # whether ℓ′ is continuous, so that the scores alone name the dual point
    margin: bool = False  # whether y is −1 or 1
    curved: float = 0.0  # the largest ℓ″; 0: there is none

    def value(self, y: Array, f: Array) -> Array:
        raise NotImplementedError

    def slope(self, y: Array, f: Array) -> Array:
        raise NotImplementedError

    def excess(self, y: Array, f: Array, a: Array) -> Array:
        """ℓ(f) + ℓ*(a) − a f for a within the domain, as a sum of terms none of which is negative."""
        raise NotImplementedError

    def best_constant(self, y: Array, s: Array) -> Array:
        """The score t with the least Σ sᵢℓᵢ(t), column by column."""
        raise NotImplementedError

    def clip(self, y: Array, a: Array) -> Array:
        """The nearest a in the domain of ℓ*."""
        if self.margin:
            return -y * np.clip(-y * a, 0.0, self.steepest)
        return np.clip(a, -self.steepest, self.steepest)


# --- losses of residuals r = f − y ------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class SquaredLoss(ConvexLoss):
    """½ r²."""

    name: str = "squared"
    curved: float = 1.0

    def value(self, y, f):
        return 0.5 * np.square(f - y)

    def slope(self, y, f):
        return f - y

    def excess(self, y, f, a):
        return 0.5 * np.square(f - y - a)

    def best_constant(self, y, s):
        return (s * y).sum(axis=0) / s.sum(axis=0)


@dataclass(frozen=True, kw_only=True)
class AbsoluteLoss(ConvexLoss):
    """|r|. Its least sum over a constant is at a median."""

    name: str = "absolute"
    steepest: float = 1.0
    smooth: bool = False

    def value(self, y, f):
        return np.abs(f - y)

    def slope(self, y, f):
        return np.sign(f - y)

    def excess(self, y, f, a):
        r, size = f - y, np.abs(a)
        # what points against the residual costs 2|r| per unit
        return np.abs(r) * (1.0 - size) + (np.abs(r) * size - r * a)

    def best_constant(self, y, s):
        order = np.argsort(y, axis=0)
        below = np.cumsum(np.take_along_axis(s, order, axis=0), axis=0)
        half = np.argmax(below >= below[-1] / 2, axis=0)[None]
        return np.take_along_axis(y, np.take_along_axis(order, half, axis=0), axis=0)[0]


# --- losses of margins m = y f ----------------------------------------------------------------------------------------


def _sides(y: Array, s: Array) -> tuple[Array, Array]:
    """The weight of the rows with y = 1, and of those with y = −1."""
    return np.where(y > 0, s, 0.0).sum(axis=0), np.where(y < 0, s, 0.0).sum(axis=0)


@dataclass(frozen=True, kw_only=True)
class LogisticLoss(ConvexLoss):
    """log(1 + e^−m); its conjugate is the negative entropy of p, its excess a Kullback–Leibler divergence."""

    name: str = "logistic"
    steepest: float = 1.0
    margin: bool = True
    curved: float = 0.25

    def value(self, y, f):
        return np.logaddexp(0.0, -y * f)

    def slope(self, y, f):
        return -y * expit(-y * f)

    def excess(self, y, f, a):
        m, p = y * f, -y * a
        log_q, log_rest = -np.logaddexp(0.0, m), -np.logaddexp(0.0, -m)
        q = np.exp(log_q)
        wrong = xlogy(p, p) - p * log_q - p + q
        right = xlogy(1 - p, 1 - p) - (1 - p) * log_rest + p - q
        return np.maximum(wrong, 0.0) + np.maximum(right, 0.0)

    def best_constant(self, y, s):
        up, down = _sides(y, s)
        return np.log(np.maximum(up, 1e-300)) - np.log(np.maximum(down, 1e-300))


@dataclass(frozen=True, kw_only=True)
class HingeLoss(ConvexLoss):
    """max(0, 1 − m)."""

    name: str = "hinge"
    steepest: float = 1.0
    smooth: bool = False
    margin: bool = True

    def value(self, y, f):
        return np.maximum(1.0 - y * f, 0.0)

    def slope(self, y, f):
        return np.where(y * f < 1.0, -y, 0.0)

    def excess(self, y, f, a):
        z, p = 1.0 - y * f, -y * a
        return np.maximum(z, 0.0) * (1.0 - p) + np.maximum(-z, 0.0) * p

    def best_constant(self, y, s):
        up, down = _sides(y, s)
        return np.where(up >= down, 1.0, -1.0)


@dataclass(frozen=True, kw_only=True)
class SquaredHingeLoss(ConvexLoss):
    """max(0, 1 − m)², without a half, as LIBLINEAR has it. `linear_below`: −1 continues it by a line (modified Huber)."""

    name: str = "squared_hinge"
    margin: bool = True
    curved: float = 2.0
    linear_below: float = -math.inf

    def __post_init__(self):
        object.__setattr__(self, "steepest", 2.0 * (1.0 - self.linear_below))

    def value(self, y, f):
        m = np.maximum(y * f, self.linear_below)
        lower = np.minimum(y * f - self.linear_below, 0.0) if self._ends else 0.0
        return np.square(np.maximum(1.0 - m, 0.0)) - (self.steepest * lower if self._ends else 0.0)

    @property
    def _ends(self) -> bool:
        return math.isfinite(self.linear_below)

    def slope(self, y, f):
        return -y * np.clip(2.0 * (1.0 - y * f), 0.0, self.steepest)

    def excess(self, y, f, a):
        z, p = 1.0 - y * f, -y * a
        found = np.where(z >= 0, np.square(z - 0.5 * p), 0.25 * p**2 - p * np.minimum(z, 0.0))
        if not self._ends:
            return found
        short, below = self.steepest - p, np.maximum(self.linear_below - y * f, 0.0)
        return np.where(below > 0, short * below + 0.25 * short**2, found)

    def best_constant(self, y, s):
        up, down = _sides(y, s)
        return (up - down) / (up + down)


# --- all classes at once ----------------------------------------------------------------------------------------------


def log_softmax(f: Array) -> Array:
    """f − log Σ e^f, row by row; SciPy's costs a tenth of a millisecond before it begins."""
    f = f - f.max(axis=1, keepdims=True)
    return f - np.log(np.exp(f).sum(axis=1, keepdims=True))


def _by_parts(function: Callable[..., Array]) -> Callable[..., Array]:
    """Apply a function of rows to a few thousand at a time, whose intermediate results stay in the cache."""

    @wraps(function)
    def apply(*rows: Array) -> Array:
        if len(rows[0]) <= ROWS:
            return function(*rows)
        cuts = [slice(i, i + ROWS) for i in range(0, len(rows[0]), ROWS)]
        return np.concatenate([function(*(part[cut] for part in rows)) for cut in cuts])

    return apply


class SoftmaxLoss:
    """log Σₖ e^fₖ − f_y of k scores; y is the place of the class. Its slope is π(f) − e_y, its excess KL(q ‖ π(f)).

    The domain of the conjugate: q = a + e_y is a distribution, and ℓ*(a) = Σ q log q.
    """

    name = "softmax"
    steepest, smooth, margin, curved = 1.0, True, False, 0.5

    @staticmethod
    @_by_parts
    def value(y: Array, f: Array) -> Array:
        return -log_softmax(f)[np.arange(len(f)), y]

    @staticmethod
    @_by_parts
    def slope(y: Array, f: Array) -> Array:
        a = np.exp(log_softmax(f))
        a[np.arange(len(f)), y] = 0.0
        a[np.arange(len(f)), y] = -a.sum(axis=1)  # keeps the digits of 1 − π_y
        return a

    @staticmethod
    @_by_parts
    def excess(y: Array, f: Array, a: Array) -> Array:
        q, log_p = np.maximum(_distribution(y, a), 0.0), log_softmax(f)
        terms = xlogy(q, q) - q * log_p - q + np.exp(log_p)
        return np.maximum(terms, 0.0).sum(axis=1)

    @staticmethod
    @_by_parts
    def clip(y: Array, a: Array) -> Array:
        """a whose q is a distribution; what is one to rounding stays as it is."""
        q, own = _distribution(y, a), _distribution(y, np.zeros_like(a))
        positive = np.maximum(q, 0.0)
        total = positive.sum(axis=1, keepdims=True)
        shares = np.where(total > 0, positive / np.where(total > 0, total, 1.0), own)
        return np.where(np.abs(shares - q) <= 1e-14, a, shares - own)


def _distribution(y: Array, a: Array) -> Array:
    q = np.array(a, dtype=np.float64)
    q[np.arange(len(q)), y] += 1.0
    return q


LOSSES: dict[str, Callable[..., ConvexLoss]] = {
    "squared": SquaredLoss,
    "squared_error": SquaredLoss,
    "absolute": AbsoluteLoss,
    # its slopes alone: what robust regression minimises has a scale besides
    "huber": lambda epsilon: ConvexLoss(name="huber", steepest=2.0 * epsilon, curved=1.0),
    "logistic": LogisticLoss,
    "log_loss": LogisticLoss,
    "hinge": HingeLoss,
    "squared_hinge": SquaredHingeLoss,
    "modified_huber": lambda: SquaredHingeLoss(name="modified_huber", linear_below=-1.0),
}


def loss_named(name: str, **numbers: float) -> ConvexLoss:
    """The loss that scikit-learn and others call so."""
    if name not in LOSSES:
        known = ", ".join(sorted(LOSSES))
        raise ValueError(f"loss={name!r} is not known to the claims; they know {known}.")
    return LOSSES[name](**numbers)
