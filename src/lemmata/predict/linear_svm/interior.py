"""The hinge by an interior-point method: fifteen Hessians, whatever the data.

    minimise ½ wᵀPw + Σ cᵢ ξᵢ    with  aᵢᵀw − 1 + ξᵢ = zᵢ ≥ 0,  ξᵢ ≥ 0            aᵢ = yᵢ (xᵢ, 1),   c = C s

At the minimum Pw = Σ αᵢaᵢ with 0 ≤ αᵢ ≤ cᵢ, αᵢzᵢ = 0 and (cᵢ − αᵢ)ξᵢ = 0 (complementary slackness: α = 0 beyond the margin,
α = c inside of it). Both products are held at μ > 0 instead, μ is sent to zero, and each step solves

    (P + Σ θᵢ aᵢaᵢᵀ) Δw = …,       1/θᵢ = zᵢ/αᵢ + ξᵢ/(cᵢ − αᵢ)

which is a Newton step whose rows are weighted by how near they are to the margin. C = ∞ is the hard margin: no ξ, no bound on
α. If the classes cannot be separated, α then grows along a combination of rows that cancels, Σ αᵢaᵢ = 0: the proof of it.

Mehrotra's predictor and corrector: a step with μ = 0 shows how much μ may fall and what the products αz miss to second order.
Row vectors are (n, m), m problems side by side (one-vs-rest), and travel beside the rows, so these may be a file or a stream.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np

from lemmata.core.engine import map_reduce
from lemmata.core.store import storable
from lemmata.predict.logistic.newton import SINGLE_WORK, solve_all
from lemmata.predict.logistic.problem import LinearProblem, add_grams, parts_of
from lemmata.predict.logistic.surrogates import signs

Array = np.ndarray
BACK = 0.995  # how far towards the boundary a step may go
FAINT = 1e-9  # of the largest θ: rows below it do not move the Hessian
SEPARATE = 1e-9  # ‖Σ αᵢaᵢ‖ relative to Σ αᵢ at which rows cancel


@storable
@dataclass(frozen=True)
class InteriorState:
    """Weights, multipliers and slacks of m problems."""

    version = 1
    layout: ClassVar = {
        "W combined": "m D",
        "alpha": "n m >=0",
        "z xi margins": "n m",
        "primal dual": "m any",
    }

    W: Array  # (m, D)
    alpha: Array  # (n, m)
    z: Array  # (n, m)
    xi: Array  # (n, m); zeros of the hard margin
    margins: Array  # (n, m): aᵢᵀw
    combined: Array  # (m, D): Σ αᵢaᵢ
    primal: Array  # (m,)
    dual: Array  # (m,)
    single: bool = True  # whether float32 has been good enough for the Hessian
    stalled: bool = False

    @property
    def gap(self) -> float:
        return float((self.primal - self.dual).sum() / max(self.primal.sum(), np.finfo(float).tiny))


@dataclass(frozen=True)
class InteriorAlgorithm:
    """Primal-dual interior point for the hinge.

    C : float
        The bound on the multipliers, over the weight of a row; np.inf for the hard margin.
    """

    C: float

    draws: ClassVar[bool] = False
    hint: ClassVar[str] = "scale the features to a common size"

    def init(self, data: LinearProblem, rng: Any) -> InteriorState:
        n, m = data.data.shape[0], data.m
        c = self._bounds(data)
        W = np.zeros((m, data.D))
        alpha = np.ones((n, m)) if self._hard else np.repeat(c / 2, m, axis=1)
        xi = np.zeros((n, m)) if self._hard else np.full((n, m), 2.0)
        combined = combine(data, alpha)
        if not np.isfinite(combined).all():
            raise ValueError(
                "X holds numbers so large that their sum overflows; divide its columns by their largest numbers."
            )
        single = n * data.D**2 >= SINGLE_WORK and data.fits_single()
        state = InteriorState(
            W, alpha, np.ones((n, m)), xi, np.zeros((n, m)), combined, W[:, 0], W[:, 0], single
        )
        return self._evaluate(state, data)

    @property
    def _hard(self) -> bool:
        return bool(np.isinf(self.C))

    def _bounds(self, data: LinearProblem) -> Array:
        """c, (n, 1). Rows of weight zero keep a trace of one: their multipliers need room to move."""
        s = data.classes_and_weights[1]
        s = np.maximum(s, 1e-10 * s.max())
        return (s if self._hard else self.C * s)[:, None]

    def _ridge(self, data: LinearProblem) -> Array:
        """P: the problem here is C times the one of LinearProblem, with weights of one."""
        return np.where(data.ridge > 0, data.ridge / data.ridge[0], 0.0)

    def step(self, state: InteriorState, data: LinearProblem) -> InteriorState:
        P, c = self._ridge(data), self._bounds(data)
        a, z, xi = state.alpha, state.z, state.xi
        b = np.ones_like(a) if self._hard else c - a
        loose = 0.0 if self._hard else 1.0  # the terms of ξ are there
        theta = 1 / (z / a + loose * xi / b)
        rho = z - xi - state.margins + 1
        mu = (a * z + loose * b * xi).sum(axis=0) / (len(a) * (1 + loose))

        # predictor: towards αz = 0 and βξ = 0
        faint = np.where(theta < FAINT * theta.max(axis=0), 0.0, theta)
        aim = theta * (loose * xi - z + rho)
        centring = theta * (1 / a - loose / b)
        H, towards, centre = hessians(data, faint, aim, centring, state.single)
        diagonal = np.arange(data.D)
        H[:, diagonal, diagonal] += P
        rhs = state.combined - state.W * P + towards
        dW = solve_all(H, rhs)
        moved = margins_of(data, dW)
        da = aim - theta * moved
        dz, dxi = (-z * (a + da)) / a, loose * (-b * xi + xi * da) / b
        reach = np.minimum(_reach(a, da, z, dz), _reach(b, -da, xi, dxi) if loose else 1.0)
        after = (a + reach * da) * (z + reach * dz) + loose * (b - reach * da) * (xi + reach * dxi)
        sigma = np.clip(after.sum(axis=0) / (len(a) * (1 + loose)) / mu, 0.0, 1.0) ** 3

        # corrector: towards σμ, with the second-order terms ΔαΔz and ΔβΔξ
        second = theta * (-da * dz / a - loose * da * dxi / b)
        rhs = rhs + (sigma * mu)[:, None] * centre + combine(data, second)
        dW = solve_all(H, rhs)
        moved = margins_of(data, dW)
        first_r = sigma * mu - a * z - da * dz
        second_r = loose * (sigma * mu - b * xi + da * dxi)
        da = theta * (first_r / a - second_r / b + rho - moved)
        dz, dxi = (first_r - z * da) / a, (second_r + loose * xi * da) / b
        reach = np.minimum(_reach(a, da, z, dz), _reach(b, -da, xi, dxi) if loose else 1.0)
        t = np.where(reach < 1, BACK * reach, 1.0)
        new = replace(
            state,
            W=state.W + t[:, None] * dW,
            alpha=np.maximum(a + t * da, np.finfo(float).tiny),
            z=np.maximum(z + t * dz, np.finfo(float).tiny),
            xi=xi + t * dxi,
            margins=state.margins + t * moved,
        )
        found = self._evaluate(replace(new, combined=combine(data, new.alpha)), data)
        worse = not found.gap < 0.9 * state.gap
        stalled = (worse and t.max() < 1e-3) or (self._hard and overlaps(found))
        return replace(found, single=state.single and not worse, stalled=stalled)

    def _evaluate(self, state: InteriorState, data: LinearProblem) -> InteriorState:
        """Return the state with the primal value of W and the dual value of α of each problem."""
        P, c = self._ridge(data), self._bounds(data)
        missing = np.maximum(1 - state.margins, 0.0)
        if self._hard:  # W scaled until it keeps every margin
            least = state.margins.min(axis=0)
            W = state.W / np.where(least > 0, least, 1.0)[:, None]
            primal = np.where(least > 0, 0.5 * (W * W) @ P, 1e300)
        else:
            primal = 0.5 * (state.W * state.W) @ P + (c * missing).sum(axis=0)
        v, free = state.combined, P == 0
        dual = state.alpha.sum(axis=0) - 0.5 * (v[:, ~free] ** 2 / P[~free]).sum(axis=1)
        # α has to balance the classes where b is free; what is missing counts against it
        dual = dual - (np.abs(v[:, free]) * (1 + np.abs(state.W[:, free]))).sum(axis=1)
        return replace(state, primal=primal, dual=dual)

    def objective(self, state: InteriorState) -> float:
        return float(state.primal.sum()) / (1.0 if self._hard else self.C)

    def extras(self, state: InteriorState) -> dict[str, float]:
        return {"gradient": 0.0, "gap": max(state.gap, 0.0)}

    def attributes(self, state: InteriorState) -> dict[str, Any]:
        W, alpha = state.W, state.alpha
        if self._hard:
            W = W / np.maximum(state.margins.min(axis=0), np.finfo(float).tiny)[:, None]
        return {"W": W, "alpha": alpha.T, "separates": not self._hard or state.margins.min() > 0}

    def finished(self, state: InteriorState) -> bool:
        return state.stalled


def _reach(x: Array, dx: Array, y: Array, dy: Array) -> Array:
    """The largest t ≤ 1 with x + t dx ≥ 0 and y + t dy ≥ 0, for each problem."""
    with np.errstate(divide="ignore", invalid="ignore"):
        both = np.minimum(np.where(dx < 0, -x / dx, 1.0), np.where(dy < 0, -y / dy, 1.0))
    return np.minimum(both.min(axis=0), 1.0)


def overlaps(state: InteriorState) -> bool:
    """Whether a positive combination of the rows cancels, so that no hyperplane has all of them on its side.

    Of separable rows some w has aᵢᵀw ≥ 1, hence ‖Σαa‖‖w‖ ≥ Σα. A ratio this small would ask for a w larger than 1/SEPARATE.
    """
    ratio = np.abs(state.combined).max(axis=1) / state.alpha.sum(axis=0)
    return bool(np.any((state.margins.min(axis=0) <= 0) & (ratio <= SEPARATE)))


# --- passes over the rows ---------------------------------------------------------------------------------------------


def beside(data: LinearProblem, *columns: Array) -> Any:
    """The blocks with further row vectors next to class and weight."""
    return data.data.weighted(np.hstack([data.data.weights, *columns]))


def hessians(
    data: LinearProblem, theta: Array, aim: Array, centring: Array, single: bool
) -> tuple[Array, Array, Array]:
    """Σ θ x̃x̃ᵀ (m, D, D), Σ aim·a and Σ centring·a (m, D), in one pass."""
    work = partial(_hessian_block, m=data.m, intercept=data.intercept, single=single)
    return map_reduce(work, beside(data, theta, aim, centring), _Parts())


class _Parts(tuple):
    """Arrays that add up one by one; the empty one is neutral."""

    def __add__(self, other):
        return other if not self else _Parts(a + b for a, b in zip(self, other, strict=True))


def _hessian_block(rows: Any, marks: Array, m: int, intercept: bool, single: bool) -> _Parts:
    D = rows.shape[1] + intercept
    H, first, second = np.zeros((m, D, D)), np.zeros((m, D)), np.zeros((m, D))
    start = 0
    for part, (c, *_) in parts_of(rows, marks, dense=True):
        more = marks[start : start + part.shape[0], 2:]
        start += part.shape[0]
        y = signs(c, m)
        add_grams(H, part, more[:, :m], intercept, np.float32 if single else np.float64)
        for out, U in ((first, more[:, m : 2 * m] * y), (second, more[:, 2 * m :] * y)):
            out[:, : part.shape[1]] += (part.T @ U).T
            if intercept:
                out[:, -1] += U.sum(axis=0)
    return _Parts((H, first, second))


def combine(data: LinearProblem, alpha: Array) -> Array:
    """Σ αᵢaᵢ, (m, D)."""
    work = partial(_combine_block, m=data.m, intercept=data.intercept)
    return np.asarray(map_reduce(work, beside(data, alpha), 0.0))


def _combine_block(rows: Any, marks: Array, m: int, intercept: bool) -> Array:
    U = marks[:, 2:] * signs(marks[:, 0], m)
    found = np.asarray(rows.T @ U, dtype=np.float64).T
    return np.hstack([found, U.sum(axis=0)[:, None]]) if intercept else found


def margins_of(data: LinearProblem, W: Array) -> Array:
    """aᵢᵀw of every row and problem, (n, m)."""
    work = partial(_margins_block, W=W, intercept=data.intercept)
    return np.concatenate(map_reduce(work, data.data, []))


def _margins_block(rows: Any, marks: Array, W: Array, intercept: bool) -> list[Array]:
    d = rows.shape[1]
    F = np.asarray(rows @ W[:, :d].T) + (W[:, d] if intercept else 0.0)
    return [F * signs(marks[:, 0], len(W))]
