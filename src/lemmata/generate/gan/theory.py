"""The theory of the game (CIL 5.4.2–5.4.4; ML "GANs"): its best discriminator, its value, and two games solved by hand.

    π*(x) = p/(p + q)                                      the best discriminator of densities p (data) and q      (5.32)
    max_π ½ E_p ln π + ½ E_q ln(1 − π) = JS(p, q) − ln 2     the value of the game for the generator q               (5.33)
    JS(p, q) = ½ KL(p ‖ m) + ½ KL(q ‖ m),  m = ½(p + q)     between 0 and ln 2                                      (5.34)

ML's value, 2 JS − ln 4, is of the sum of both expectations: twice this one. Any other discriminator's value is a lower
bound (5.35).

    bilinear       f = xᵀy
    DiracGAN       f = −½ softplus(xy) − (γ/2) y²        data at 0, the generator a point at x, the discriminator's logit yu
                                                        at u, with R1 (Mescheder et al. 2018); but for a constant −½ ln 2

Both are `Game`s for `lemmata.optim.saddle_point`. Near a saddle point a step is z ← M z to first order, z = (x, y);
`step_matrix` has M for each method, and its eigenvalues say whether the steps arrive:

    bilinear, per step:  √(1 + η²) synchronous,  1 alternating (η < 2),  √(1 − η² + η⁴) extragradient

    >>> import numpy as np
    >>> round(jensen_shannon(normal(0.0), normal(1e3), [(-10, 10), (990, 1010)]), 9)      # nothing in common: ln 2
    0.693147181
    >>> J = DiracGAN(r1=0.0).jacobian()
    >>> [float(abs(np.linalg.eigvals(step_matrix(J, 0.4, method))).max().round(6)) for method in METHODS]
    [1.004988, 1.0, 0.995038]
    >>> float(abs(np.linalg.eigvals(step_matrix(DiracGAN(r1=1.0).jacobian(), 0.4, "alternating"))).max().round(4))
    0.974
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from scipy.special import expit, log_expit

Array = np.ndarray
LogDensity = Callable[[Array], Array]  # of rows (n, d), or numbers (n,) where d = 1
METHODS = ("synchronous", "alternating", "extragradient")
PANELS, NODES = 32, 16  # of Gauss–Legendre on each side
LEAST = -1e300  # instead of ln 0, that 0 ln 0 be 0


def best_discriminator(log_p: LogDensity, log_q: LogDensity) -> LogDensity:
    """Return ln π*(x) = ln p/(p + q), by which no discriminator is beaten."""
    return lambda x: log_expit(log_p(x) - log_q(x))


def jensen_shannon(
    log_p: LogDensity, log_q: LogDensity, boxes: Sequence[Any], panels: int = PANELS
) -> float:
    """Return JS(p, q) in nats, by quadrature over boxes that hold both laws and do not overlap.

    boxes : intervals (low, high) for laws of numbers, or pairs of intervals for laws of rows (n, 2)
    """
    return math.fsum(_integrate(log_p, log_q, box, panels) for box in boxes)


def game_value(log_p: LogDensity, log_q: LogDensity, boxes: Sequence[Any]) -> float:
    """Return JS(p, q) − ln 2: −ln 2 where the generator is right, 0 where nothing is in common."""
    return jensen_shannon(log_p, log_q, boxes) - math.log(2)


def _integrate(log_p: LogDensity, log_q: LogDensity, box: Any, panels: int) -> float:
    sides = [box] if np.ndim(box) == 1 else list(box)
    rules = [_gauss_legendre(low, high, panels) for low, high in sides]
    nodes, weights = zip(*rules, strict=True)
    if len(sides) == 1:
        x, w = nodes[0], weights[0]
    else:
        x = np.array(list(product(*nodes)))
        w = np.multiply.outer(*weights).ravel()
    a, b = log_p(x), log_q(x)
    either = (a > -np.inf) | (b > -np.inf)
    odds = np.subtract(a, b, out=np.zeros_like(w), where=either)
    # p ln(p/m) = p (ln 2 + ln π*), which is 0 where p is
    log_pi, log_rest = (np.maximum(log_expit(one), LEAST) for one in (odds, -odds))
    terms = np.exp(a) * (math.log(2) + log_pi) + np.exp(b) * (math.log(2) + log_rest)
    return float(0.5 * w @ terms)


def _gauss_legendre(low: float, high: float, panels: int) -> tuple[Array, Array]:
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    half = (high - low) / (2 * panels)
    middles = low + half * (2 * np.arange(panels) + 1)
    return (middles[:, None] + half * nodes).ravel(), np.tile(half * weights, panels)


def normal(mean: float, sigma: float = 1.0) -> LogDensity:
    """Return ln p of a normal law of numbers."""
    return lambda x: -0.5 * ((x - mean) / sigma) ** 2 - math.log(sigma * math.sqrt(2 * math.pi))


# --- games ------------------------------------------------------------------------------------------------------------


def bilinear(x: Array, y: Array) -> tuple[float, Array, Array]:
    """Return the value xᵀy and both slopes."""
    return float(x @ y), y, x


@dataclass(frozen=True)
class DiracGAN:
    """The smallest GAN: data at 0, the generator a point at x, the logit y·u; γ = r1 charges for the slope y at the data.

    Without r1 nothing draws the discriminator back when x has arrived: J has ±i/4 as eigenvalues.
    """

    r1: float = 0.0

    def __call__(self, x: Array, y: Array) -> tuple[float, Array, Array]:
        u = float(x @ y)
        value = 0.5 * float(log_expit(-u)) - 0.5 * self.r1 * float(y @ y)
        pull = -0.5 * float(expit(u))
        return value, pull * y, pull * x - self.r1 * y

    def jacobian(self) -> Array:
        """Return the derivative of F = (∂f/∂x, −∂f/∂y) at the saddle point 0."""
        return np.array([[0.0, -0.25], [0.25, self.r1]])


def step_matrix(J: Array, eta: float, method: str, n_x: int | None = None) -> Array:
    """Return M of z ← M z, one step of a method of `saddle_point` on a game whose F has the derivative J.

    n_x : numbers of the first player; half of them by default
    """
    if method not in METHODS:
        raise ValueError(f"method={method!r}; pass one of {', '.join(METHODS)}.")
    n, unit = len(J) // 2 if n_x is None else n_x, np.eye(len(J))
    if method == "synchronous":
        return unit - eta * J
    if method == "extragradient":
        return unit - eta * J @ (unit - eta * J)
    first, second = unit.copy(), unit.copy()
    first[:n] -= eta * J[:n]
    second[n:] -= eta * J[n:]
    return second @ first
