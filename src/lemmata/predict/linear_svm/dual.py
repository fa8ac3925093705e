"""Dual coordinate ascent: one multiplier at a time, with the weights kept in step.

    maximise  Σ αᵢ − ½ ‖Σ αᵢyᵢx̃ᵢ‖² − ½ Σ eᵢαᵢ²       over 0 ≤ αᵢ ≤ uᵢ,         w = Σ αᵢyᵢx̃ᵢ

    hinge           u = Cs,  e = 0            squared hinge   u = ∞,  e = 1/(2Cs)

In αᵢ alone the dual is a parabola, so its best value is a formula: αᵢ ← clip(αᵢ − Gᵢ/(‖x̃ᵢ‖² + eᵢ)). Rows far from the margin
soon stand at a bound and are left out until the rest has settled (shrinking). Hsieh et al. 2008, who wrote LIBLINEAR. A pass
costs the entries of the rows, so this is the method for sparse rows with very many features. The intercept is the weight of a
constant feature, and penalised like one: with a free one the multipliers could not move one at a time.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from lemmata.core.engine import pick, run_tasks, worth_compiling
from lemmata.core.store import storable
from lemmata.predict.linear_svm.interior import margins_of
from lemmata.predict.logistic.problem import LinearProblem, squared_sizes
from lemmata.predict.logistic.surrogates import signs

Array = np.ndarray
SWEEPS = 5  # passes in a step; the gap at its end costs about half of one
SETTLED = 1e-12  # spread of the gradients at which nothing is left to gain
COMPILED = 2**12  # rows times problems from which some hundred passes are worth a compiler


@storable
@dataclass(frozen=True)
class MarginDualState:
    """Multipliers, weights, and which rows are still looked at, of m problems."""

    version = 2
    layout: ClassVar[dict[str, str | type]] = {
        "alpha": "m n >=0",
        "w": "m D",
        "kept": "m n int >=0 <=1",
        "bounds": "m 2 any",
        "primal dual": "m",
    }

    alpha: Array  # (m, n)
    w: Array  # (m, d + 1)
    kept: Array  # (m, n) 0 or 1: rows not left out
    bounds: Array  # (m, 2): the largest and least gradient of the pass before
    primal: Array  # (m,)
    dual: Array  # (m,)
    steps: int
    seed: int
    slope: float = 0.0  # the largest of the primal, by its scale; 0 of the hinge, which has kinks

    @classmethod
    def upgrade(cls, fields: dict[str, Any], version: int) -> dict[str, Any]:
        """Version 1 stopped by the gap alone."""
        return {**fields, "slope": 0.0}

    @property
    def gap(self) -> float:
        return float((self.primal - self.dual).sum() / max(self.primal.sum(), np.finfo(float).tiny))


@dataclass(frozen=True)
class DualAlgorithm:
    """Dual coordinate ascent with shrinking.

    C, squared : the bound on the multipliers; whether the loss is the squared hinge
    intercept_scaling : the constant feature, 0 for none
    """

    C: float
    squared: bool
    intercept_scaling: float

    hint: ClassVar[str] = "scale the features to a common size"

    def init(self, data: LinearProblem, rng: np.random.Generator) -> MarginDualState:
        n, m = data.data.shape[0], data.m
        d = data.data.shape[1]
        zero = np.zeros(m)
        state = MarginDualState(
            np.zeros((m, n)), np.zeros((m, d + 1)), np.ones((m, n), np.int8), np.tile([np.inf, -np.inf], (m, 1)),
            zero, zero, 0, int(rng.integers(2**31)),
        )  # fmt: skip
        return self._evaluate(state, data)

    def step(self, state: MarginDualState, data: LinearProblem) -> MarginDualState:
        X = as_rows(data.data.source)
        c, s = data.classes_and_weights
        Y = signs(c, data.m)
        upper = np.full(len(s), np.inf) if self.squared else self.C * s
        with np.errstate(divide="ignore"):
            extra = np.where(s > 0, 0.5 / (self.C * s), 0.0) if self.squared else np.zeros(len(s))
        upper = np.where(s > 0, upper, 0.0)
        norms = squared_sizes(X) + self.intercept_scaling**2 + extra
        compiled = worth_compiling(X.shape[0] * data.m, above=COMPILED)
        loops = pick(compiled, "lemmata.predict.linear_svm")
        alpha, w, kept = state.alpha.copy(), state.w.copy(), state.kept.copy()
        bounds = state.bounds.copy()
        scale = float(self.intercept_scaling)

        def solve(k: int) -> None:
            rng = np.random.default_rng((state.seed, state.steps, k))
            order = rng.permutation(np.flatnonzero(kept[k]))
            count, (high, low) = len(order), bounds[k]
            for _ in range(SWEEPS):
                order[:count] = order[rng.permutation(count)]
                count, top, bottom = loops.sweep_into(
                    alpha[k], w[k], order, count, X.indptr, X.indices, X.data, Y[:, k].copy(), scale,
                    upper, extra, norms, high, low,
                )  # fmt: skip
                # what pushes less than the pass before did is no reason to leave a row out
                high, low = (top if top > 0 else np.inf), (bottom if bottom < 0 else -np.inf)
                if top - bottom <= SETTLED:
                    break
            kept[k] = 0
            kept[k, order[:count]] = 1
            if top - bottom <= SETTLED * max(1.0, self.C) or state.steps % 4 == 3:
                kept[k], high, low = 1, np.inf, -np.inf  # a look at all rows
            bounds[k] = high, low

        run_tasks(solve, data.m)
        new = replace(state, alpha=alpha, w=w, kept=kept, bounds=bounds, steps=state.steps + 1)
        return self._evaluate(new, data)

    def _weights(self, state: MarginDualState, data: LinearProblem) -> Array:
        """(m, D) with the intercept itself in the last column."""
        W = state.w.copy()
        W[:, -1] *= self.intercept_scaling
        return W[:, : data.D]

    def _evaluate(self, state: MarginDualState, data: LinearProblem) -> MarginDualState:
        s = data.classes_and_weights[1]
        missing = np.maximum(1 - margins_of(data, self._weights(state, data)), 0.0)
        size = 0.5 * (state.w * state.w).sum(axis=1)
        primal = size + self.C * (s @ (missing**2 if self.squared else missing))
        dual = state.alpha.sum(axis=1) - size
        if self.squared:
            counted = s > 0
            dual -= (state.alpha[:, counted] ** 2 @ (1 / s[counted])) / (4 * self.C)
        return replace(state, primal=primal, dual=dual, slope=self._slope(state, data, missing))

    def _slope(self, state: MarginDualState, data: LinearProblem, missing: Array) -> float:
        """The largest slope of ‖w‖²/2C + Σ s missing² by a feature, over what `LinearProblem.slack` compares it with."""
        if not self.squared:
            return 0.0
        c, s = data.classes_and_weights
        X, d = as_rows(data.data.source), data.data.shape[1]
        G = state.w[:, :d] / self.C - 2 * (X.T @ (signs(c, data.m) * missing * s[:, None])).T
        scale = np.broadcast_to(np.minimum(data.total, data.lengths), (data.m, data.D))[:, :d]
        return float((np.abs(G) / scale).max())

    def objective(self, state: MarginDualState) -> float:
        return float(state.primal.sum()) / self.C

    def extras(self, state: MarginDualState) -> dict[str, float]:
        return {
            "gradient": state.slope,
            "gap": max(state.gap, 0.0),
            "dual": float(state.dual.sum()) / self.C,
        }

    def attributes(self, state: MarginDualState) -> dict[str, Any]:
        W = state.w.copy()
        W[:, -1] *= self.intercept_scaling
        return {"W": W if self.intercept_scaling else W[:, :-1], "alpha": state.alpha}

    def finished(self, state: MarginDualState) -> bool:
        return False


def as_rows(X: Any) -> Any:
    """Rows as float64 CSR, which is what the passes read."""
    return sp.csr_array(X).astype(np.float64, copy=False)
