"""Completion by singular value thresholding: the smallest nuclear norm that reproduces the known entries.

    minimise  ‖B‖_* + ‖B‖_F² / 2τ        over B with Π_Ω(B) = Π_Ω(A)                                       (CIL Prop. 2.5.4)

The iteration of the notes, from sparse Y (zero off Ω; only its values are kept),

    B_t = shrink_τ(Y_t),      Y_{t+1} = Y_t + η_t Π_Ω(A − B_t)                                             (CIL (2.41))

is gradient ascent on the dual. With multipliers Y, τ times the Lagrangian is τ‖B‖_* + ½‖B‖² + ⟨Y, A − B⟩; it is least at
B = shrink_τ(Y) (CIL (2.40)), which leaves

    g(Y) = ⟨Y, A⟩ − ½‖shrink_τ(Y)‖_F²,          ∇g = Π_Ω(A − shrink_τ(Y))

so the scaling 1/2τ of the notes is right. shrink does not expand distances, hence ∇g is 1-Lipschitz: every η < 2 converges and
raises g. But that is slow: along the directions that matter g curves less, by the share p of known entries and by about σ/τ,
another for each σ. As g is concave and smooth, what the last five steps met of its curvature gives a better direction than ∇g,

    ΔY = η H ∇g,        H the L-BFGS estimate of (−∇²g)⁻¹ from pairs s = ΔY and t = −Δ∇g        (Nocedal 1980)

for sᵀt ≥ 0 wherever g is concave, so H is positive and ΔY leads up. η is 1, halved where g would fall; where nothing is gained,
a plain step of length 1 is taken. The objective of a state is −g, which therefore never rises. (The steps 1.2/p often used
diverge for small τ. Digits with holes take 748 steps to a residual of 1e-6; with the lengths of Barzilai and Borwein, 1,000
were not enough.)
float32 entries are worked on in float64: near the end g rises by less than the rounding of float32.

Where A can be recovered by the nuclear norm at all, a finite τ of a few ‖A‖₂ gives exactly A (Zhang, Cai, Cheng & Zhu 2012).

    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(60, 2)) @ rng.normal(size=(2, 50))
    >>> A = np.where(rng.random(X.shape) < 0.5, X, np.nan)
    >>> model = SingularValueThresholding(random_state=0).fit(A)
    >>> bool(np.abs(model.complete() - X).max() < 1e-3), model.certificate_.failed
    (True, [])
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from scipy.linalg import get_blas_funcs

from lemmata.audit.completion.optimality.nuclear_norm import THRESHOLDING_CLAIMS
from lemmata.completion.base import CompletionModel
from lemmata.completion.centring import HOW, centre
from lemmata.completion.nuclear.sparse_lowrank import (
    entry_values,
    known_entries,
    leading_svd,
    shrink_operator,
)
from lemmata.completion.observed import Observed
from lemmata.core import common
from lemmata.core.certificate import Fit
from lemmata.core.certification import checking
from lemmata.core.loop import MaxSteps, SmallGradient, Solution, Stop
from lemmata.core.parameters import KW_ONLY, POSITIVE, choice, parameter
from lemmata.core.store import storable
from lemmata.linalg.randomized import signs

Array = np.ndarray

TAU = 5.0  # times √(nm)·rms ≈ ‖A‖_F: above the few ‖A‖₂ that exact recovery needs
ARMIJO = 1e-4  # of the ascent that the slope promises: the least that a step has to gain
GROWTH = 10.0  # of η at most, from one step to the next: where g is nearly linear (directions below τ) curvature says little
TRIES = 20  # lengths along one direction
EXTRA = 8  # directions besides those above τ, about
MOVES = 5  # remembered; each is two numbers per entry


@storable
@dataclass(frozen=True)
class Move:
    """A step s and by how much the gradient fell along it, t: what was met of −∇²g, t ≈ −∇²g s."""

    version = 1
    layout: ClassVar = {"along fall": "e"}

    along: Array
    fall: Array

    @cached_property
    def bend(self) -> float:
        """sᵀt, used by each of the next steps."""
        return _dot(self.along, self.fall)


@storable
@dataclass(frozen=True)
class ThresholdingState:
    """Multipliers Y on Ω, B = shrink_τ(Y) = P diag(s) Qᵀ, and what the last steps met of the curvature."""

    version = 2
    layout: ClassVar = {
        "Y gap": "e",
        "P": "n r",
        "s": "r >=0",
        "Q": "d r",
        "right": "d b",
        "step": ">0",
    }

    Y: Array  # one number per entry, in the order of by_row
    P: Array  # (n, r)
    s: Array  # (r,) singular values of B, descending
    Q: Array  # (m, r)
    right: Array  # (m, b) right singular vectors of Y, where the next SVD begins
    gap: Array  # Π_Ω(A − B), the gradient
    step: float  # η of a plain step: the inverse of the curvature met last
    loss: float  # −g(Y)
    residual: float  # ‖Π_Ω(A − B)‖ / ‖Π_Ω A‖
    stuck: int  # 1: no step raises g any more, as far as rounding lets us see
    steps: int
    seed: int
    moves: tuple[Move, ...] = ()

    @classmethod
    def upgrade(cls, fields: dict[str, Any], version: int) -> dict[str, Any]:
        """Version 1 remembered no moves."""
        return {**fields, "moves": ()}


@dataclass(frozen=True)
class ThresholdingAlgorithm:
    """One step of (2.41), or of L-BFGS on the same g.

    Parameters
    ----------
    tau : float
        τ > 0.
    step_size : float, optional
        η for all steps along the gradient, taken as it is; by default quasi-Newton steps that raise g.
    """

    tau: float
    step_size: float | None = None

    hint = "lower step_size below 2, or leave it 'auto'"

    def init(self, A: Observed, rng: np.random.Generator) -> ThresholdingState:
        """Y = cA with the c at which B is about to leave 0: steps before that add multiples of A and nothing else."""
        seed = int(rng.integers(2**62))
        found = leading_svd(known_entries(A), min(5, *A.shape), passes=3, extra=0, rng=seed)
        c = self.tau / float(found.s[0]) if found.s[0] > 0 else 0.0
        step = self.step_size or 1 / max(A.density, np.finfo(float).tiny)
        Y = A.values * A.dtype.type(c)
        return self._at(A, Y, np.ascontiguousarray(found.Vt.T), step, 0, seed)

    def step(self, state: ThresholdingState, A: Observed) -> ThresholdingState:
        if self.step_size is not None:
            return self._move(state, A, state.gap, self.step_size)
        new = self._search(state, A, ascent(state.gap, state.moves, state.step))
        # a plain step of 1 gains half the slope: what does not show is below rounding
        if new is None:
            new = self._move(state, A, state.gap, 1.0)
            return new if new.loss < state.loss else replace(state, stuck=1)
        move = Move(new.Y - state.Y, state.gap - new.gap)
        curvature, square = move.bend, _dot(move.fall, move.fall)
        if not (curvature > 0 and square > 0):  # flat: directions below τ
            return replace(new, step=GROWTH * state.step, moves=state.moves)
        length = float(np.clip(curvature / square, 1.0, GROWTH * state.step))  # ∇g is 1-Lipschitz
        return replace(new, step=length, moves=(*state.moves, move)[-MOVES:])

    def _move(
        self, state: ThresholdingState, A: Observed, direction: Array, eta: float
    ) -> ThresholdingState:
        Y = state.Y + state.gap.dtype.type(eta) * direction
        return self._at(A, Y, state.right, eta, state.steps + 1, state.seed)

    def _search(
        self, state: ThresholdingState, A: Observed, direction: Array
    ) -> ThresholdingState | None:
        """Along the direction to where g is higher; None where nothing is gained."""
        slope, eta = _dot(direction, state.gap), 1.0
        for _ in range(TRIES if slope > 0 else 0):
            new = self._move(state, A, direction, eta)
            if new.loss <= state.loss - ARMIJO * eta * slope:
                return new
            eta /= 2
        return None

    def _at(
        self, A: Observed, Y: Array, right: Array, step: float, steps: int, seed: int
    ) -> ThresholdingState:
        B, right = shrink_operator(
            known_entries(A, Y), self.tau, right, rng=np.random.default_rng((seed, steps))
        )
        gap = A.values - entry_values(A, B.U * B.s, B.Vt.T)
        loss = 0.5 * _dot(B.s, B.s) - _dot(Y, A.values)
        size = np.sqrt(_dot(A.values, A.values))
        residual = float(np.sqrt(_dot(gap, gap)) / size) if size > 0 else 0.0
        Q = np.ascontiguousarray(B.Vt.T)
        return ThresholdingState(
            Y, B.U, B.s, Q, right, gap, float(step), loss, residual, 0, steps, seed
        )

    def finished(self, state: ThresholdingState) -> bool:
        return bool(state.stuck) or state.residual == 0

    def objective(self, state: ThresholdingState) -> float:
        return state.loss

    def extras(self, state: ThresholdingState) -> dict[str, float]:
        return {"gradient": state.residual, "rank": float(len(state.s)), "step_size": state.step}

    def attributes(self, state: ThresholdingState) -> dict[str, Any]:
        root, flip = np.sqrt(state.s), signs(state.Q) if len(state.s) else np.ones(0, state.Q.dtype)
        return {
            "U_": state.P * (root * flip),
            "V_": state.Q * (root * flip),
            "singular_values_": state.s,
            "tau_": float(self.tau),
            "step_size_": float(state.step),
            "dual_": state.Y,
        }


def ascent(gradient: Array, moves: tuple[Move, ...], length: float) -> Array:
    """H∇ by the two loops of L-BFGS: undo the moves from the last to the first, step, and put them back."""
    found, add = gradient.copy(), get_blas_funcs("axpy", (gradient,))  # in place
    shares = [0.0] * len(moves)
    for at in reversed(range(len(moves))):
        shares[at] = _dot(moves[at].along, found) / moves[at].bend
        found = add(moves[at].fall, found, a=-shares[at])
    found *= length
    for move, share in zip(moves, shares, strict=True):
        found = add(move.along, found, a=share - _dot(move.fall, found) / move.bend)
    return found


def _dot(x: Array, y: Array) -> float:
    """⟨x, y⟩ of float64."""
    return float(np.dot(x, y))


class SingularValueThresholding(CompletionModel):
    """The matrix of least nuclear norm with the known entries, by thresholding singular values.

    Minimises ‖B‖_* + ‖B‖_F²/2τ over the matrices that agree with A on Ω, for entries without noise. (With noise, SoftImpute.)

    Attributes
    ----------
    U_, V_ : arrays (n, r) and (m, r)
        P√Σ and Q√Σ of B = PΣQᵀ.
    singular_values_ : array (r,)
        Of B, descending.
    dual_ : array, one number per known entry, in the order of `observed_.by_row`
        The multipliers Y, from which the certificate proves how near to the optimum B is.
    tau_, step_size_ : float
        τ, and the last η: with "auto" the inverse of the curvature met last.
    mean_, row_bias_, column_bias_, row_scale_, column_scale_ : float, (n,), (m,), (n,), (m,)
        What was taken out.
    observed_, n_features_in_, n_iter_, trace_, stopped_, certificate_

    Examples
    --------
    >>> import numpy as np
    >>> A = np.outer([1.0, 2.0, 3.0, 4.0], [1.0, -1.0, 2.0])
    >>> A[0, 1] = np.nan
    >>> SingularValueThresholding().fit(A).predict([0], [1]).round(1)
    array([-1.])
    """

    tau: Any = parameter("auto", choice("auto"), POSITIVE).doc("""
        τ: the larger, the nearer to the least nuclear norm, and the slower. "auto" is 5√(nm) times
        the root mean square of the known entries, about 5‖A‖_F.""")
    _: KW_ONLY
    step_size: Any = parameter("auto", choice("auto"), POSITIVE).doc("""
        η. "auto" takes quasi-Newton steps, by the curvature that the last ones met. A number is
        taken as it is, along the gradient: below 2 it is sure to converge.""")
    centre: str = parameter("none", choice(*HOW)).doc("""
        What is taken out before, and put back at prediction (CIL 2.1.4).""")
    max_iter: int = common.max_iter(1000).doc("The most steps.")
    tol: float = common.tol(1e-6).doc('Ends when ‖Π_Ω(A − B)‖ ≤ tol ‖Π_Ω A‖ ("small gradient").')
    random_state: Any = common.random_state().doc("""
        Of the columns the first SVD starts from; the result depends on it only within `tol`.""")
    verbose: int = common.verbose()
    checkpoint: Any = common.checkpoint()
    time_limit: Any = common.time_limit()

    claims = THRESHOLDING_CLAIMS
    stored: ClassVar = {
        **CompletionModel.stored,
        "singular_values_ dual_ tau_ step_size_": "audited",
    }

    def _algorithm(self, data: Any) -> ThresholdingAlgorithm:
        tau = float(self.tau) if self.tau != "auto" else automatic_tau(self._problem(data))
        return ThresholdingAlgorithm(
            tau, None if self.step_size == "auto" else float(self.step_size)
        )

    def _problem(self, data: Any) -> Observed:
        rest = data if self.centre == "none" else centre(data, self.centre).remove_from(data)
        return (
            rest if rest.dtype == np.float64 else rest.with_values(rest.values.astype(np.float64))
        )

    def _stop(self) -> Stop:
        rule: Stop = SmallGradient(self.tol) | MaxSteps(self.max_iter)
        return self._within_time(rule)

    def _attributes(self, solution: Solution, problem: Observed) -> dict[str, Any]:
        arrays = {
            name: value.astype(self.observed_.dtype) if isinstance(value, np.ndarray) else value
            for name, value in solution.attributes.items()
        }
        return {**arrays, **self._set_offsets(centre(self.observed_, self.centre))}

    @classmethod
    def work(cls, fit: Fit) -> float:
        """Count products of the entries with the directions that a step keeps, there and back, some four times a step."""
        (n, m), width = fit.data.shape, len(fit.singular_values_) + EXTRA
        return checking.count_steps(fit) * 8 * width * (fit.data.n_observed + (n + m) * width)

    @classmethod
    def restored(cls, parameters: dict[str, Any], attributes: dict[str, Any]) -> Any:
        """Raises ValueError where there is not one multiplier per known entry."""
        model: Any = super().restored(parameters, attributes)
        if len(model.dual_) != model.observed_.n_observed:
            raise ValueError(
                f"dual_ has {len(model.dual_)} numbers for {model.observed_.n_observed} known entries."
            )
        return model

    def _describe_unsettled(self, solution: Solution) -> str:
        return (
            f"SingularValueThresholding reached max_iter={self.max_iter} with {solution.state.residual:.1e} of the known "
            f"entries unexplained > tol={self.tol:.0e}: raise max_iter, lower tau, or, for entries with noise, use SoftImpute."
        )


def automatic_tau(A: Observed) -> float:
    """5√(nm) times the root mean square of the known entries, an estimate of 5‖A‖_F; 1 if all are zero."""
    n, m = A.shape
    return TAU * float(np.sqrt(n * m * _dot(A.values, A.values) / A.n_observed)) or 1.0
