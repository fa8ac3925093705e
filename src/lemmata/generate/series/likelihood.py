"""The exact likelihood of an autoregression, and its maximum over stationary processes.

The first values have no q predecessors: value t < q is predicted by the process's own autoregression of order t, whose error
has variance σ² r_t. With the reflection coefficients κ_1 … κ_q,

    r_t = Π_{j > t} 1/(1 − κ_j²),        −2 ln p = n ln 2πσ² + Σ_t ln r_t + (1/σ²) Σ_t e_t²/r_t,       r_t = 1 for t ≥ q

The errors are quadratic forms in lagged products, so a value of the likelihood costs q³ multiplications, however long the
series. Any κ in (−1, 1)^q is a stationary process: the search is over artanh κ and needs no constraint.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

from lemmata.generate.series.moments import LaggedProducts
from lemmata.generate.series.recursions import ARState, Burg, GrowingOrder

Array = np.ndarray
FARTHEST = 1 - 1e-9  # |κ| of a start


def step_up(reflection: Array) -> list[Array]:
    """Return the coefficients of the orders 0, 1, …, q that reflection coefficients stand for."""
    found = [np.zeros(0)]
    for kappa in reflection:
        found.append(np.append(found[-1] - kappa * found[-1][::-1], kappa))
    return found


def step_down(a: Array) -> Array | None:
    """Return the reflection coefficients of a process, (q,); None if it is not stationary."""
    found, a = np.zeros(len(a)), np.asarray(a, dtype=np.float64)
    for m in range(len(a), 0, -1):
        kappa = found[m - 1] = a[m - 1]
        if not abs(kappa) < 1:
            return None
        a = (a[: m - 1] + kappa * a[: m - 1][::-1]) / (1 - kappa**2)
    return found


def relative_variances(reflection: Array) -> Array:
    """r_t of the first q values, (q,)."""
    return 1 / np.cumprod((1 - reflection**2)[::-1])[::-1]


def profile(reflection: Array, data: LaggedProducts) -> tuple[float, float]:
    """Return the best σ² of a process with these reflection coefficients, and −2 ln p / n there, without constants."""
    orders, r = step_up(reflection), relative_variances(reflection)
    q, n = len(reflection), float(data.counts[0])
    whole = np.concatenate([[1.0], -orders[-1]])
    squares = float(whole @ data.from_time(q) @ whole)
    for t in range(q):
        e = np.concatenate([-orders[t][::-1], [1.0]])  # of x_0 … x_t
        squares += float(e @ data.head[: t + 1, : t + 1] @ e) / r[t]
    variance = squares / n
    logs = data.series * float(np.log(r).sum()) / n
    return variance, float(np.log(max(variance, np.finfo(float).tiny))) + logs


@dataclass(frozen=True)
class MostLikely(GrowingOrder):
    """The maximum of the exact likelihood, from Burg's process, by quasi-Newton steps (SciPy's BFGS): one step of the loop."""

    def step(self, state, data):
        start = state
        while len(start.a) < self.order:
            start = Burg(self.order).step(start, data)
        kappa = step_down(start.a)
        kappa = np.zeros(self.order) if kappa is None else np.clip(kappa, -FARTHEST, FARTHEST)
        found = minimize(lambda at: profile(np.tanh(at), data)[1], np.arctanh(kappa), tol=1e-9)
        best = np.tanh(found.x)
        variance = profile(best, data)[0]
        return ARState(step_up(best)[-1], np.append(start.variances[:-1], variance), state.mean)


def log_likelihoods(X: Array, a: Array, mean: float, variance: float) -> Array:
    """ln p of each series, the rows of X, (n,). Raises ValueError where the process is not stationary."""
    errors, r = innovations(X, a, mean)
    n, scale = X.shape[1], np.ones(X.shape[1])
    scale[: len(r)] = r[:n]
    logs = n * np.log(2 * np.pi * variance) + np.log(scale).sum()
    return -0.5 * (logs + (errors**2 / scale).sum(axis=1) / variance)


def innovations(X: Array, a: Array, mean: float) -> tuple[Array, Array]:
    """One-step errors of rows of X, the first q by the process's autoregressions of lower order, and r_t of those."""
    reflection = step_down(a)
    if reflection is None:
        raise ValueError(
            "the process is not stationary (a pole on or outside the unit circle), so a series has no density from its "
            "first value on; use method='yule-walker', 'burg' or 'mle'."
        )
    Y = np.asarray(X, dtype=np.float64) - mean
    errors, q = Y.copy(), len(a)
    for i in range(q if Y.shape[1] > q else 0):
        errors[:, q:] -= a[i] * Y[:, q - 1 - i : Y.shape[1] - 1 - i]
    for t, lower in enumerate(step_up(reflection)[:q]):
        if t < Y.shape[1]:
            errors[:, t] = Y[:, t] - Y[:, :t] @ lower[::-1]
    return errors, relative_variances(reflection)
