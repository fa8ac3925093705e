"""Least absolute deviations: the regression of medians, as a linear programme.

    minimise  Σ s|y − xᵀw − b|      =      maximise  yᵀu   over  |u| ≤ s,  Xᵀu = 0,  1ᵀu = 0                       (ML, MAE)

The dual on the right has one equation per weight and one bounded variable per row: HiGHS solves it, and w, b are the
multipliers of its equations. Rows with |u| < s lie on the plane; where they are as many as the weights they determine it, and
it is computed from them, so that it passes through them to rounding. With x constant the best b is a median of y.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from scipy.optimize import linprog

from lemmata.core.blocks import Blocks
from lemmata.core.store import storable
from lemmata.predict.robust.plane import PlaneAlgorithm

Array = np.ndarray


@storable
@dataclass(frozen=True)
class AbsoluteState:
    """θ = (w, b) and Σ s|r|."""

    version = 1
    layout: ClassVar = {"theta": "p"}

    theta: Array
    loss: float
    done: bool = False


@dataclass(frozen=True)
class LeastAbsoluteAlgorithm(PlaneAlgorithm):
    """One step: the linear programme."""

    draws: ClassVar = False
    hint: ClassVar = "divide the columns of X, or y, by their largest numbers"

    intercept: bool

    def init(self, data: Blocks, rng: Any) -> AbsoluteState:
        theta = np.zeros(data.shape[1] + 1)
        return AbsoluteState(theta, _loss(data, theta))

    def step(self, state: AbsoluteState, data: Blocks) -> AbsoluteState:
        y = data.targets.astype(np.float64)  # type: ignore[union-attr]
        s = np.ones(len(y)) if data.weights is None else data.weights
        able = s > 0
        Z = _with_ones(data.source if data.sparse else np.asarray(data.source), self.intercept)[
            able
        ]
        y, s = y[able], s[able]
        # units of one: HiGHS has absolute tolerances
        units = abs(Z).max(axis=0)
        units = np.ravel(units.toarray() if sp.issparse(units) else units)
        units = np.where(units > 0, units, 1.0)
        middle = float(np.median(y)) if self.intercept else 0.0
        unit = float(np.abs(y - middle).mean()) or 1.0
        t = (y - middle) / unit
        Z = (Z @ sp.diags_array(1 / units)).tocsr() if sp.issparse(Z) else Z / units
        theta = self._solve(Z, t, s / s.max()) * unit / units
        if self.intercept:
            theta[-1] += middle
        else:
            theta = np.append(theta, 0.0)
        return AbsoluteState(theta, _loss(data, theta), True)

    @staticmethod
    def _solve(Z: Any, y: Array, s: Array) -> Array:
        found = linprog(
            -y,
            A_eq=Z.T,
            b_eq=np.zeros(Z.shape[1]),
            bounds=np.column_stack([-s, s]),
            method="highs",
            options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
        )
        if found.status != 0:
            raise ValueError(
                f"the linear programme was not solved ({found.message.strip()}); divide X and y by their largest numbers."
            )
        theta = -np.asarray(found.eqlin.marginals)
        on_plane = np.abs(found.x) < s * (1 - 1e-9)
        if on_plane.sum() == len(theta):
            rows = Z[on_plane].toarray() if sp.issparse(Z) else Z[on_plane]
            if np.linalg.cond(rows) < 1e10:
                exact = np.linalg.solve(rows, y[on_plane])
                before, after = (s @ np.abs(y - Z @ one) for one in (theta, exact))
                theta = exact if after <= before * (1 + 1e-9) else theta
        return theta

    def objective(self, state: AbsoluteState) -> float:
        return state.loss

    def finished(self, state: AbsoluteState) -> bool:
        return state.done

    def attributes(self, state: AbsoluteState) -> dict[str, Any]:
        return {"coef_": state.theta[:-1], "intercept_": float(state.theta[-1])}


def _with_ones(X: Any, intercept: bool) -> Any:
    X = X.astype(np.float64)
    if not intercept:
        return sp.csr_array(X) if sp.issparse(X) else X
    ones = np.ones((X.shape[0], 1))
    return sp.csr_array(sp.hstack([X, ones])) if sp.issparse(X) else np.hstack([X, ones])


def _loss(data: Blocks, theta: Array) -> float:
    total = 0.0
    for rows, y, s in data.triples():
        r = np.abs(y - rows.astype(np.float64, copy=False) @ theta[:-1] - theta[-1])
        total += float(r.sum() if s is None else s @ r)
    return total
