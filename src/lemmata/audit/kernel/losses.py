"""Losses of linear predictors as their definitions say: value, slope, conjugate and the Fenchel–Young excess.

    ℓ(f),   ℓ′(f),   ℓ*(a) = sup_f (a f − ℓ(f)),   excess(f, a) = ℓ(f) + ℓ*(a) − a f ≥ 0

A duality gap is a sum of such excesses, each nonnegative: written so, it is not the small difference of two large sums, and
rounding does not hide it. `a` is the slope per unit of weight. Margin losses know y = ±1 and speak of p = −y a, which is
between 0 and `steepest`; robust losses know a number y and speak of the residual r = f − y.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import expit, xlogy

Array = np.ndarray


@dataclass(frozen=True, kw_only=True)
class Loss:
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

    def curvature(self, y: Array, f: Array) -> Array:
        """ℓ″ where it exists; what a search for better weights steps by."""
        raise NotImplementedError

    def conjugate(self, y: Array, a: Array) -> Array:
        """ℓ*(a); inf outside of its domain."""
        raise NotImplementedError

    def excess(self, y: Array, f: Array, a: Array) -> Array:
        """ℓ(f) + ℓ*(a) − a f for a within the domain, as a sum of terms none of which is negative."""
        raise NotImplementedError

    def clip(self, y: Array, a: Array) -> Array:
        """The nearest a in the domain of ℓ*."""
        if self.margin:
            return -y * np.clip(-y * a, 0.0, self.steepest)
        return np.clip(a, -self.steepest, self.steepest)

    def shrink(self, y: Array, a: Array) -> float:
        """The largest t ≤ 1 with t·a in the domain of ℓ*; 0 where no such t is positive."""
        size = -y * a if self.margin else np.abs(a)
        if self.margin and size.min(initial=0.0) < 0:
            return 0.0
        most = float(size.max(initial=0.0))
        return 1.0 if most <= self.steepest else self.steepest / most


# --- losses of residuals r = f − y ------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Squared(Loss):
    """½ r²."""

    name: str = "squared"
    curved: float = 1.0

    def value(self, y, f):
        return 0.5 * np.square(f - y)

    def slope(self, y, f):
        return f - y

    def curvature(self, y, f):
        return np.ones_like(f)

    def conjugate(self, y, a):
        return 0.5 * np.square(a) + a * y

    def excess(self, y, f, a):
        return 0.5 * np.square(f - y - a)


@dataclass(frozen=True, kw_only=True)
class Huber(Loss):
    """½ r² up to |r| = δ, δ|r| − ½ δ² beyond."""

    delta: float = 1.35
    name: str = "huber"
    curved: float = 1.0

    def __post_init__(self):
        object.__setattr__(self, "steepest", self.delta)

    def value(self, y, f):
        size = np.abs(f - y)
        return np.where(size <= self.delta, 0.5 * size**2, self.delta * size - 0.5 * self.delta**2)

    def slope(self, y, f):
        return np.clip(f - y, -self.delta, self.delta)

    def curvature(self, y, f):
        return (np.abs(f - y) <= self.delta).astype(np.float64)

    def conjugate(self, y, a):
        inside = np.abs(a) <= self.delta
        return np.where(inside, 0.5 * np.square(a) + a * y, np.inf)

    def excess(self, y, f, a):
        r = f - y
        short = self.delta - np.sign(r) * a  # of the slope that a large residual asks for
        beyond = np.maximum(np.abs(r) - self.delta, 0.0) * short + 0.5 * short**2
        return np.where(np.abs(r) <= self.delta, 0.5 * np.square(r - a), beyond)


@dataclass(frozen=True, kw_only=True)
class Absolute(Loss):
    """|r|, or max(|r| − ε, 0): the ε-insensitive loss. Its least sum over a constant is at a median."""

    epsilon: float = 0.0
    name: str = "absolute"
    steepest: float = 1.0
    smooth: bool = False

    def value(self, y, f):
        return np.maximum(np.abs(f - y) - self.epsilon, 0.0)

    def slope(self, y, f):
        r = f - y
        return np.sign(r) * (np.abs(r) > self.epsilon)

    def curvature(self, y, f):
        return np.zeros_like(f)

    def conjugate(self, y, a):
        return np.where(np.abs(a) <= 1, a * y + self.epsilon * np.abs(a), np.inf)

    def excess(self, y, f, a):
        r, size = f - y, np.abs(a)
        over = np.abs(r) - self.epsilon
        # p = the part of the slope that points with the residual; what points against it costs 2|r| per unit
        against = np.abs(r) * size - r * a
        return np.maximum(over, 0.0) * (1.0 - size) + np.maximum(-over, 0.0) * size + against


# --- losses of margins m = y f ----------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Logistic(Loss):
    """log(1 + e^−m); its conjugate is the negative entropy of p, its excess a Kullback–Leibler divergence."""

    name: str = "logistic"
    steepest: float = 1.0
    margin: bool = True
    curved: float = 0.25

    def value(self, y, f):
        return np.logaddexp(0.0, -y * f)

    def slope(self, y, f):
        return -y * expit(-y * f)

    def curvature(self, y, f):
        return expit(f) * expit(-f)

    def conjugate(self, y, a):
        p = -y * a
        inside = (p >= 0) & (p <= 1)
        p = np.clip(p, 0.0, 1.0)
        return np.where(inside, xlogy(p, p) + xlogy(1 - p, 1 - p), np.inf)

    def excess(self, y, f, a):
        m, p = y * f, -y * a
        log_q, log_rest = -np.logaddexp(0.0, m), -np.logaddexp(0.0, -m)
        q = np.exp(log_q)
        wrong = xlogy(p, p) - p * log_q - p + q
        right = xlogy(1 - p, 1 - p) - (1 - p) * log_rest + p - q
        return np.maximum(wrong, 0.0) + np.maximum(right, 0.0)


@dataclass(frozen=True, kw_only=True)
class Hinge(Loss):
    """max(0, 1 − m)."""

    name: str = "hinge"
    steepest: float = 1.0
    smooth: bool = False
    margin: bool = True
    at: float = 1.0  # the margin that costs nothing; 0: the perceptron's loss

    def value(self, y, f):
        return np.maximum(self.at - y * f, 0.0)

    def slope(self, y, f):
        return np.where(y * f < self.at, -y, 0.0)

    def curvature(self, y, f):
        return np.zeros_like(f)

    def conjugate(self, y, a):
        p = -y * a
        return np.where((p >= 0) & (p <= 1), -self.at * p, np.inf)

    def excess(self, y, f, a):
        z, p = self.at - y * f, -y * a
        return np.maximum(z, 0.0) * (1.0 - p) + np.maximum(-z, 0.0) * p


@dataclass(frozen=True, kw_only=True)
class SquaredHinge(Loss):
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

    def curvature(self, y, f):
        m = y * f
        return 2.0 * ((m < 1.0) & (m >= self.linear_below))

    def conjugate(self, y, a):
        p = -y * a
        return np.where((p >= 0) & (p <= self.steepest), 0.25 * p**2 - p, np.inf)

    def excess(self, y, f, a):
        z, p = 1.0 - y * f, -y * a
        found = np.where(z >= 0, np.square(z - 0.5 * p), 0.25 * p**2 - p * np.minimum(z, 0.0))
        if not self._ends:
            return found
        short, below = self.steepest - p, np.maximum(self.linear_below - y * f, 0.0)
        return np.where(below > 0, short * below + 0.25 * short**2, found)


# --- all classes at once ----------------------------------------------------------------------------------------------


def log_softmax(f: Array) -> Array:
    """f − log Σ e^f, row by row; SciPy's costs a tenth of a millisecond before it begins."""
    f = f - f.max(axis=1, keepdims=True)
    return f - np.log(np.exp(f).sum(axis=1, keepdims=True))


class Softmax:
    """log Σₖ e^fₖ − f_y of k scores; y is the place of the class. Its slope is π(f) − e_y, its excess KL(q ‖ π(f)).

    The domain of the conjugate: q = a + e_y is a distribution, and ℓ*(a) = Σ q log q.
    """

    name = "softmax"
    smooth, margin, curved = True, False, 0.5

    @staticmethod
    def value(y: Array, f: Array) -> Array:
        return -log_softmax(f)[np.arange(len(f)), y]

    @staticmethod
    def slope(y: Array, f: Array) -> Array:
        a = np.exp(log_softmax(f))
        a[np.arange(len(f)), y] = 0.0
        a[np.arange(len(f)), y] = -a.sum(axis=1)  # keeps the digits of 1 − π_y
        return a

    @staticmethod
    def conjugate(y: Array, a: Array) -> Array:
        q = _distribution(y, a)
        inside = (q >= 0).all(axis=1)
        q = np.maximum(q, 0.0)
        return np.where(inside, xlogy(q, q).sum(axis=1), np.inf)

    @staticmethod
    def excess(y: Array, f: Array, a: Array) -> Array:
        q, log_p = np.maximum(_distribution(y, a), 0.0), log_softmax(f)
        terms = xlogy(q, q) - q * log_p - q + np.exp(log_p)
        return np.maximum(terms, 0.0).sum(axis=1)


def _distribution(y: Array, a: Array) -> Array:
    q = np.array(a, dtype=np.float64)
    q[np.arange(len(q)), y] += 1.0
    return q


def loss_named(name: str, **numbers: float) -> Loss:
    """The loss that scikit-learn and others call so."""
    makers: dict[str, Callable[..., Loss]] = {
        "squared": Squared, "squared_error": Squared, "absolute": Absolute, "huber": Huber, "logistic": Logistic,
        "log_loss": Logistic, "hinge": Hinge, "squared_hinge": SquaredHinge, "epsilon_insensitive": Absolute,
    }  # fmt: skip
    if name == "modified_huber":
        return SquaredHinge(name=name, linear_below=-1.0)
    if name == "perceptron":
        return Hinge(name=name, at=0.0)
    if name not in makers:
        known = ", ".join(sorted({*makers, "modified_huber", "perceptron"}))
        raise ValueError(f"loss={name!r} is not known to the claims; they know {known}.")
    return makers[name](**numbers)
