"""Autoregressions of growing order: each step of the loop makes the order one larger.

    x_t = Σ_{i ≤ q} a_i x_{t−i} + z_t,    z_t ~ N(0, σ²)                                              (CIL Thm 5.1.1)

From order m to m + 1 only one new number is needed, the reflection coefficient κ:

    a ← (a − κ ā, κ),   σ² ← σ²(1 − κ²),       ā is a in reverse order

* `YuleWalker` (Levinson and Durbin) takes the κ with which the process has one more autocovariance of the data,
      κ = (r_{m+1} − Σ a_i r_{m+1−i}) / σ²,
* `Burg` (not Burgh) the κ for which the errors f forwards and b backwards in time are least, κ = 2 Σ f b / Σ (f² + b²).

Both have |κ| ≤ 1, so the process is stationary. `ConditionalLeastSquares` regresses x_t on what came before, in one step, and
may explode.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np

from lemmata.core.store import storable
from lemmata.generate.series.moments import LaggedProducts

Array = np.ndarray


@storable
@dataclass(frozen=True)
class ARState:
    """An autoregression, and the variances of those of lower order on the way to it."""

    version: ClassVar[int] = 1
    layout: ClassVar[dict[str, str]] = {"a": "q", "variances": "v >=0", "mean": ""}

    a: Array  # (m,)
    variances: Array  # (m + 1,) σ² of orders 0 … m
    mean: float

    def __post_init__(self) -> None:
        if not len(self.variances):
            raise ValueError("an autoregression has a variance, that of order 0 at least.")


class Recursion(Protocol):
    """Says which κ it takes."""

    def reflection(self, state: ARState, data: LaggedProducts) -> float: ...


@dataclass(frozen=True)
class GrowingOrder:
    """Base of algorithms that make an order larger: all but the step, which is that of a `Recursion`."""

    order: int
    draws: ClassVar[bool] = False

    def init(self, data: LaggedProducts, rng: Any) -> ARState:
        return ARState(np.zeros(0), data.autocovariance[:1].copy(), data.mean)

    def step(self: Recursion, state: ARState, data: LaggedProducts) -> ARState:
        kappa, last = self.reflection(state, data), state.variances[-1]
        a = np.append(state.a - kappa * state.a[::-1], kappa)
        return ARState(a, np.append(state.variances, last * (1 - kappa**2)), state.mean)

    def objective(self, state: ARState) -> float:
        return float(np.log(max(state.variances[-1], np.finfo(float).tiny)))

    def finished(self, state: ARState) -> bool:
        return len(state.a) >= self.order

    def attributes(self, state: ARState) -> dict[str, Any]:
        return {"coef_": state.a, "variance_": float(state.variances[-1]), "mean_": state.mean}


@dataclass(frozen=True)
class YuleWalker(GrowingOrder):
    """Levinson's and Durbin's recursion on the autocovariances."""

    def reflection(self, state, data):
        r, m = data.autocovariance, len(state.a)
        return float((r[m + 1] - state.a @ r[m:0:-1]) / state.variances[-1])


@dataclass(frozen=True)
class Burg(GrowingOrder):
    """Burg's recursion, with errors as quadratic forms in Φ: no pass over the series."""

    def reflection(self, state, data):
        m = len(state.a)
        forwards = np.concatenate([[1.0], -state.a, [0.0]])
        backwards, Phi = forwards[::-1], data.from_time(m + 1)
        size = forwards @ Phi @ forwards + backwards @ Phi @ backwards
        return float(2 * (forwards @ Phi @ backwards) / size)


@dataclass(frozen=True)
class ConditionalLeastSquares(GrowingOrder):
    """Regression of x_t, t ≥ q, on its q predecessors and a constant: one step."""

    def step(self, state, data):
        q, Phi = self.order, data.from_time(self.order)
        sums, n = data.sums_from_time(q), float(data.counts[q])
        G = np.block([[n, sums[None, 1:]], [sums[1:, None], Phi[1:, 1:]]])
        target = np.append(sums[0], Phi[1:, 0])
        solution = np.linalg.lstsq(G, target, rcond=None)[0]
        constant, a = float(solution[0]), solution[1:]
        left = float(Phi[0, 0] - solution @ target) / n
        mean = data.origin + constant / (1 - float(a.sum()))
        return ARState(a, np.append(state.variances, max(left, 0.0)), mean)
