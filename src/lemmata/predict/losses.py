"""Losses: value, gradient, prox and conjugate of ℓ(f, y), the price of predicting f where y is true.

    regression, e = f − y                        margins, m = y·f with y = ±1
    squared     ½e²                              logistic        log(1 + e^−m)
    absolute    |e|                              hinge           (1 − m)₊
    huber       ½e², δ|e| − ½δ² beyond δ         squared_hinge   (1 − m)₊²
    tukey       δ²/6 (1 − (1 − e²/δ²)³₊)         quadratic       (1 − m)²
                                                 softmax         log Σ e^f − f_y,  f a row of scores, y the place of its class

    gradient    u = ℓ′(f, y) in f; at a kink one subgradient
    prox        argmin_f  ℓ(f, y) + (f − v)²/2t
    conjugate   ℓ*(u, y) = sup_f  uf − ℓ(f, y):   Fenchel–Young  ℓ(f) + ℓ*(u) ≥ uf,  equal where u is a subgradient at f

    >>> huber = LOSSES["huber"]
    >>> huber.value(np.array([0.5, 3.0]), np.zeros(2)), huber.gradient(np.array([0.5, 3.0]), np.zeros(2))
    (array([0.125, 2.5  ]), array([0.5, 1. ]))

A slip of the notes: with e = y − f the subgradient of Σ|eₙ| in w is −Σ sign(eₙ) xₙ; the notes lack the minus (ML, Linear MAE).
Here e = f − y, so that no sign can be lost. Tukey's loss is not convex: its conjugate is that of the convex function 0, so no
duality gap says anything about it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import expit, log1p, logsumexp, softmax, xlogy

Array = np.ndarray
# a safeguarded Newton step at least halves the bracket; 60 halvings pass the last bit
NEWTON_STEPS = 60


@dataclass(frozen=True)
class Loss:
    """One loss as four functions of arrays.

    scale : what to divide by so that the loss bounds the 0–1 loss from above, for losses of margins (log 2 for logistic)
    """

    name: str
    value: Callable[[Array, Array], Array]
    gradient: Callable[[Array, Array], Array]
    prox: Callable[[Array, Array, float], Array]
    conjugate: Callable[[Array, Array], Array]
    convex: bool = True
    margin: bool = False  # a function of y·f, y = ±1
    scale: float = 1.0


# --- regression -------------------------------------------------------------------------------------------------------

squared = Loss(
    "squared",
    value=lambda f, y: 0.5 * (f - y) ** 2,
    gradient=lambda f, y: f - y,
    prox=lambda v, y, t: (v + t * y) / (1 + t),
    conjugate=lambda u, y: 0.5 * u**2 + u * y,
)

absolute = Loss(
    "absolute",
    value=lambda f, y: np.abs(f - y),
    gradient=lambda f, y: np.sign(f - y),
    prox=lambda v, y, t: y + soft_threshold(v - y, t),
    conjugate=lambda u, y: np.where(np.abs(u) <= 1, u * y, np.inf),
)


def soft_threshold(e: Array, t: float) -> Array:
    """sign(e)·(|e| − t)₊, the prox of t|e|."""
    return np.sign(e) * np.maximum(np.abs(e) - t, 0.0)


def huber(delta: float = 1.0) -> Loss:
    """Squared up to δ, then linear: convex, differentiable, and an outlier pulls with the force δ at most."""
    _refuse_width(delta)

    def value(f, y):
        e = np.abs(f - y)
        return np.where(e <= delta, 0.5 * e**2, delta * e - 0.5 * delta**2)

    def prox(v, y, t):
        e = v - y
        return y + np.where(np.abs(e) <= delta * (1 + t), e / (1 + t), soft_threshold(e, t * delta))

    return Loss(
        "huber",
        value,
        gradient=lambda f, y: np.clip(f - y, -delta, delta),
        prox=prox,
        conjugate=lambda u, y: np.where(np.abs(u) <= delta, 0.5 * u**2 + u * y, np.inf),
    )


def tukey(delta: float = 4.685) -> Loss:
    """Tukey's bisquare: beyond δ an outlier costs δ²/6 and pulls no more. Not convex."""
    _refuse_width(delta)

    def cost(e):
        return delta**2 / 6 * (1 - np.maximum(1 - (e / delta) ** 2, 0.0) ** 3)

    def slope(e):
        return e * np.maximum(1 - (e / delta) ** 2, 0.0) ** 2

    def prox(v, y, t):
        """The best of the points where e − v + t e(1 − e²/δ²)² = 0, a polynomial of degree five, and of e = v beyond δ."""
        target = np.atleast_1d(np.asarray(v - y, dtype=np.float64) / delta)
        # of t e⁵ − 2t e³ + (1 + t) e − v, e in units of δ
        companion = np.zeros((*target.shape, 5, 5))
        companion[..., range(1, 5), range(4)] = 1.0
        companion[..., 0, 4] = target / t
        companion[..., 1, 4] = -(1 + t) / t
        companion[..., 3, 4] = 2.0
        roots = np.linalg.eigvals(companion)
        real = np.abs(roots.imag) <= 1e-6 * (1 + np.abs(roots))
        inside = np.where(real, np.clip(roots.real, -1, 1), np.sign(target)[..., None])
        tried = np.concatenate([inside, target[..., None]], axis=-1) * delta
        total = cost(tried) + (tried - delta * target[..., None]) ** 2 / (2 * t)
        best = np.take_along_axis(tried, total.argmin(-1)[..., None], -1)[..., 0]
        return y + best.reshape(np.shape(v - y))

    return Loss(
        "tukey",
        value=lambda f, y: cost(f - y),
        gradient=lambda f, y: slope(f - y),
        prox=prox,
        conjugate=lambda u, y: np.where(np.asarray(u) == 0, 0.0 * y, np.inf),
        convex=False,
    )


def _refuse_width(delta: float) -> None:
    if not (delta > 0 and math.isfinite(delta)):
        raise ValueError(f"delta={delta!r}: from there on residuals count less; pass a number > 0.")


# --- margins ----------------------------------------------------------------------------------------------------------


def _logistic_prox(v: Array, y: Array, t: float) -> Array:
    """m + t·φ′(m) = yv with φ′(m) = −σ(−m): the root lies in (yv, yv + t), since −1 < φ′ < 0. Newton, kept inside."""
    target = np.asarray(y * v, dtype=np.float64)
    low, high = target.copy(), target + t
    m = 0.5 * (low + high)
    for _ in range(NEWTON_STEPS):
        p = expit(-m)
        excess = m - t * p - target
        low, high = np.where(excess < 0, m, low), np.where(excess > 0, m, high)
        step = m - excess / (1 + t * p * (1 - p))
        new = np.where((step >= low) & (step <= high), step, 0.5 * (low + high))
        if np.array_equal(new, m):
            break
        m = new
    return y * m


def _entropy(u: Array, y: Array) -> Array:
    """α log α + (1−α) log(1−α) at α = −uy in [0, 1]."""
    a = -np.asarray(u * y, dtype=np.float64)
    with np.errstate(invalid="ignore"):
        inside = xlogy(a, a) + xlogy(1 - a, 1 - a)
    return np.where((a >= 0) & (a <= 1), inside, np.inf)


logistic = Loss(
    "logistic",
    value=lambda f, y: np.logaddexp(0.0, -y * f),
    gradient=lambda f, y: -y * expit(-y * f),
    prox=_logistic_prox,
    conjugate=_entropy,
    margin=True,
    scale=math.log(2),
)


def _hinge_prox(v: Array, y: Array, t: float) -> Array:
    m = y * v
    return y * np.where(m >= 1, m, np.minimum(m + t, 1.0))


hinge = Loss(
    "hinge",
    value=lambda f, y: np.maximum(1 - y * f, 0.0),
    gradient=lambda f, y: np.where(y * f < 1, -y, 0.0),
    prox=_hinge_prox,
    conjugate=lambda u, y: np.where((u * y <= 0) & (u * y >= -1), u * y, np.inf),
    margin=True,
)

squared_hinge = Loss(
    "squared_hinge",
    value=lambda f, y: np.maximum(1 - y * f, 0.0) ** 2,
    gradient=lambda f, y: -2 * y * np.maximum(1 - y * f, 0.0),
    prox=lambda v, y, t: y * np.where(y * v >= 1, y * v, (y * v + 2 * t) / (1 + 2 * t)),
    conjugate=lambda u, y: np.where(u * y <= 0, u * y + 0.25 * u**2, np.inf),
    margin=True,
)

quadratic = Loss(
    "quadratic",
    value=lambda f, y: (1 - y * f) ** 2,
    gradient=lambda f, y: -2 * y * (1 - y * f),
    prox=lambda v, y, t: y * (y * v + 2 * t) / (1 + 2 * t),
    conjugate=lambda u, y: u * y + 0.25 * u**2,
    margin=True,
)


# --- several classes --------------------------------------------------------------------------------------------------


def _one_hot(shape: tuple[int, ...], y: Array) -> Array:
    hot = np.zeros(shape)
    np.put_along_axis(hot, np.asarray(y)[..., None], 1.0, axis=-1)
    return hot


def _softmax_value(f: Array, y: Array) -> Array:
    return logsumexp(f, axis=-1) - np.take_along_axis(f, np.asarray(y)[..., None], -1)[..., 0]


def _softmax_prox(v: Array, y: Array, t: float) -> Array:
    """p(f) − e_y + (f − v)/t = 0. Its k numbers hang on one: with L = log Σ e^f every f_j solves
    f_j + t e^(f_j − L) = v_j + t[j = y]; so L is found by halving, and each f_j by w + log w = z."""
    target = np.asarray(v, dtype=np.float64) + t * _one_hot(np.shape(v), y)
    # f ≤ target and f ≥ target − t bound L from both sides
    high = logsumexp(target, axis=-1, keepdims=True)
    low = high - t
    for _ in range(2 * NEWTON_STEPS):
        middle = 0.5 * (low + high)
        f = target - _wright_omega(math.log(t) + target - middle)
        larger = logsumexp(f, axis=-1, keepdims=True) > middle
        low, high = np.where(larger, middle, low), np.where(larger, high, middle)
        if np.all((middle == low) & (high <= np.nextafter(low, np.inf))):
            break
    return f


def _wright_omega(z: Array) -> Array:
    """w with w + log w = z."""
    from scipy.special import wrightomega

    return wrightomega(z)


def _softmax_conjugate(u: Array, y: Array) -> Array:
    """Σ p log p at p = u + e_y in the simplex."""
    p = u + _one_hot(np.shape(u), y)
    near = 8 * p.shape[-1] * np.finfo(np.float64).eps  # a sum of k rounded probabilities
    inside = (p >= -near).all(-1) & (np.abs(p.sum(-1) - 1) <= near)
    p = np.maximum(p, 0.0)
    return np.where(inside, xlogy(p, p).sum(-1), np.inf)


softmax_loss = Loss(
    "softmax",
    value=_softmax_value,
    gradient=lambda f, y: softmax(f, axis=-1) - _one_hot(np.shape(f), y),
    prox=_softmax_prox,
    conjugate=_softmax_conjugate,
    scale=math.log(2),
)

LOSSES: dict[str, Loss] = {
    one.name: one
    for one in (
        squared, absolute, huber(), tukey(), logistic, hinge, squared_hinge, quadratic, softmax_loss
    )
}  # fmt: skip


# --- what they say about errors ---------------------------------------------------------------------------------------


def surrogate_risk(loss: Loss, scores: Array, y: Array) -> float:
    """Mean loss in the units in which it is at least the share of errors: 1[m ≤ 0] ≤ φ(m)/φ(0) (ML, Losses for classification).

    Of softmax: a row whose true class is not the largest has p_y ≤ ½, so it costs log 2 at least.
    """
    if not (loss.margin or loss.name == "softmax"):
        raise ValueError(
            f"{loss.name} is a loss of regression; the losses {', '.join(SURROGATES)} bound the share of errors."
        )
    return float(np.mean(loss.value(scores, y)) / loss.scale)


SURROGATES = (*(name for name, one in LOSSES.items() if one.margin), "softmax")


def zero_one_risk(scores: Array, y: Array) -> float:
    """The share of rows with y·f ≤ 0, or, of rows of scores, whose true class is not alone at the top."""
    if np.ndim(scores) == 1:
        return float(np.mean(y * scores <= 0))
    true = np.take_along_axis(scores, np.asarray(y)[:, None], -1)
    return float(np.mean((scores >= true).sum(-1) > 1))


def excess_error_bound(loss: Loss, excess: float) -> float:
    """Bound how far sign(f) is from the Bayes classifier in error rate, if f is `excess` from the best mean loss.

    ψ(R − R*) ≤ E φ − E φ* (Bartlett, Jordan, McAuliffe 2006); ψ(θ) = θ for hinge, θ² for squared hinge and quadratic, and
    ½[(1+θ)log(1+θ) + (1−θ)log(1−θ)] ≥ θ²/2 for logistic (not divided by log 2).
    """
    if not excess >= 0:
        raise ValueError(
            f"excess={excess!r}: the difference to the best mean loss is a number >= 0."
        )
    bounds = {
        "hinge": excess, "squared_hinge": math.sqrt(excess), "quadratic": math.sqrt(excess),
        "logistic": _logistic_excess(excess),
    }  # fmt: skip
    if loss.name not in bounds:
        raise ValueError(
            f"no such bound is known for {loss.name}; there is one for {', '.join(bounds)}."
        )
    return min(bounds[loss.name], 1.0)


def _logistic_excess(excess: float) -> float:
    """The θ with ψ(θ) = excess, by halving; rounded up, so that the bound stays one."""

    def psi(theta):
        return 0.5 * ((1 + theta) * log1p(theta) + xlogy(1 - theta, 1 - theta))

    low, high = 0.0, 1.0
    for _ in range(NEWTON_STEPS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if psi(middle) < excess else (low, middle)
    return high


def classifier_from_regressor_bound(excess: float) -> float:
    """A regressor η that is `excess` from the best squared error gives a classifier 1[η ≥ ½] at most 2√excess from Bayes.

    (ML, Good regressor ⇒ good classifier; y in {0, 1}.)
    """
    if not excess >= 0:
        raise ValueError(
            f"excess={excess!r}: the difference to the best squared error is a number >= 0."
        )
    return 2 * math.sqrt(excess)
