"""Singular value projection: a step down the gradient, then back to the nearest matrix of rank k.

    minimise  f(X) = ½‖Π_Ω(A − X)‖²  over rank X ≤ k           X ← [X + η Π_Ω(A − X)]_k,  from X = 0       (CIL (2.39))

**Which η?** Let G = Π_Ω(A − X) and D the move. X itself has rank k, so the nearest such matrix to X + ηG is no farther from
it: ‖D − ηG‖² ≤ ‖ηG‖², that is ⟨G, D⟩ ≥ ‖D‖²/2η, and

    f(X + D) = f(X) − ⟨G, D⟩ + ½‖Π_Ω D‖²  ≤  f(X) − ½ (1/η − ρ) ‖D‖²,        ρ = ‖Π_Ω D‖² / ‖D‖² ≤ 1

So η ≤ 1 never raises f, whatever the data. But ρ is about p, the share of known entries, and then steps up to 1/p do as well:
with η = 1 the error shrinks by 1 − p per step, with η ≈ 1/p by a factor that does not depend on p. `step_size="auto"` takes

    η = ‖P_T G‖² / ‖Π_Ω P_T G‖²                    P_T: onto the tangent space of the rank-k matrices at X

the exact line search along the part of G that the projection keeps (Tanner & Wei 2013), and halves it, down to 1 if need be,
until the step gains at least a tenth of ‖D‖²/2η. Gains add up to at most f(0), so the moves D tend to zero.

Nothing dense: X is kept as its SVD, X + ηG as an operator, and each SVD begins at the one before (sparse_lowrank.py).

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> truth = rng.normal(size=(80, 2)) @ rng.normal(size=(2, 60))
    >>> model = SingularValueProjection(rank=2).fit(np.where(rng.random(truth.shape) < 0.4, truth, np.nan))
    >>> bool(np.abs(model.complete() - truth).max() < 1e-6), model.certificate_.failed
    (True, [])
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from lemmata.audit.completion.low_rank import PROJECTION_CLAIMS
from lemmata.completion.base import CompletionModel, check_rank
from lemmata.completion.centring import HOW, centre
from lemmata.completion.nuclear import sparse_lowrank
from lemmata.completion.observed import Observed
from lemmata.core import common
from lemmata.core.certificate import rounding
from lemmata.core.parameters import COUNT, KW_ONLY, POSITIVE, choice, parameter
from lemmata.core.store import storable

Array = np.ndarray

GAIN = 0.1  # of ‖D‖²/2η: the least gain of an accepted step; a step of length 1/ρ in the tangent space gains all of it
PASSES = 1  # round of subspace iteration from the SVD before; one more after each refusal
REFUSALS = 12  # steps tried at most: 2⁻¹² of the first is shorter than 1 for any data with more than 1 in 4,000 known


# --- state ------------------------------------------------------------------------------------------------------------


@storable
@dataclass(frozen=True)
class ProjectionState:
    """X = P diag(s) Qᵀ and how the step before came to it."""

    version = 1
    layout: ClassVar = {"P": "n k", "s": "k >=0", "Q": "d k", "step": ">0"}

    P: Array  # (n, k) orthonormal
    s: Array  # (k,) descending; zeros at the start
    Q: Array  # (m, k) orthonormal
    loss: float  # f(X)
    step: float  # η of the step that led here
    gain: float  # (f before − f) / (‖D‖²/2η) of that step
    moved: float  # ‖D‖ / ‖X‖
    floor: float  # of the loss: below it only rounding is left
    steps: int
    seed: int  # with `steps` it gives each SVD its own random columns

    @property
    def factors(self) -> tuple[Array, Array]:
        """Balanced: P√Σ and Q√Σ."""
        root = np.sqrt(self.s)
        return self.P * root, self.Q * root


def _distance(state: ProjectionState, P: Array, s: Array, Q: Array) -> float:
    """‖P diag(s) Qᵀ − X‖ as ‖[P P₀][Qs −Q₀s₀]ᵀ‖, which cancels nothing large."""
    return _product_norm(np.hstack([P, state.P]), np.hstack([Q * s, -state.Q * state.s]))


def _product_norm(X: Array, Y: Array) -> float:
    """‖XYᵀ‖ of thin matrices, which is that of their R factors."""
    left, right = (np.asarray(np.linalg.qr(part.astype(np.float64), mode="r")) for part in (X, Y))
    return float(np.linalg.norm(left @ right.T))


# --- the algorithm ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ProjectionAlgorithm:
    """X ← [X + ηG]_k; step_size None chooses η again in every step, a number is taken as it is."""

    rank: int
    step_size: float | None = None

    hint = "lower step_size: up to 1 the loss cannot rise; or leave it 'auto'"

    def init(self, A: Observed, rng: np.random.Generator) -> ProjectionState:
        (n, m), k = A.shape, self.rank
        whole = float(np.dot(A.values.astype(np.float64), A.values))
        floor = 0.5 * rounding(A.dtype, terms=k) ** 2 * whole  # entries of X are sums of k products
        P, Q = np.zeros((n, k), A.dtype), np.zeros((m, k), A.dtype)
        s = np.zeros(k, A.dtype)
        return ProjectionState(
            P, s, Q, 0.5 * whole, self._first_step(A), 1.0, 1.0, floor, 0, int(rng.integers(2**62))
        )

    def step(self, state: ProjectionState, A: Observed) -> ProjectionState:
        if self.step_size is not None:
            return self._project(state, A, self.step_size, PASSES + 2)
        # a refused length is not tried again at once
        eta = min(self._line_search(state, A), 2 * state.step)
        for refused in range(REFUSALS):
            new = self._project(state, A, eta, PASSES + refused)
            if new.gain >= GAIN:
                break
            eta = max(eta / 2, min(eta, 1.0))
        return new

    def _first_step(self, A: Observed) -> float:
        """1/p: Π_Ω A is about p times the matrix sought."""
        return A.shape[0] * A.shape[1] / A.n_observed if self.step_size is None else self.step_size

    def _line_search(self, state: ProjectionState, A: Observed) -> float:
        """‖P_T G‖² / ‖Π_Ω P_T G‖² with P_T G = PPᵀG + (I − PPᵀ)GQQᵀ, of rank 2k; X = 0 has no tangent space."""
        if state.steps == 0:
            return self._first_step(A)
        G = sparse_lowrank.residual(A, *state.factors)
        right, left = G @ state.Q, G.T @ state.P  # GQ (n, k), GᵀP (m, k)
        outside = right - state.P @ (state.P.T @ right)
        known = sparse_lowrank.entry_values(
            A, np.hstack([state.P, outside]), np.hstack([left, state.Q])
        ).astype(np.float64)
        seen = float(known @ known)
        squares = sum(
            float(np.vdot(part, part))
            for part in (left.astype(np.float64), outside.astype(np.float64))
        )
        return squares / seen if seen > 0 else 1.0

    def _project(
        self, state: ProjectionState, A: Observed, eta: float, passes: int
    ) -> ProjectionState:
        """[X + ηG]_k, and what the step gained."""
        start, rng = (
            state.Q if state.steps else None,
            np.random.default_rng((state.seed, state.steps)),
        )
        passes = passes if state.steps else passes + 4  # nothing to begin at yet
        Z = sparse_lowrank.gradient_step(A, *state.factors, eta)
        found = sparse_lowrank.leading_svd(Z, self.rank, start=start, passes=passes, rng=rng)
        P, s, Q = found.U, found.s, np.ascontiguousarray(found.Vt.T)
        root = np.sqrt(s)
        loss = 0.5 * sparse_lowrank.residual_squares(A, P * root, Q * root)
        moved, size = _distance(state, P, s, Q), float(np.linalg.norm(s))
        asked = moved**2 / (2 * eta)
        # a move of rounding errors gains or loses nothing
        small = moved <= 16 * float(np.finfo(A.dtype).eps) * size
        gain = 1.0 if small or asked == 0 else (state.loss - loss) / asked
        share = moved / size if size > 0 else 0.0
        return ProjectionState(
            P, s, Q, loss, eta, gain, share, state.floor, state.steps + 1, state.seed
        )

    def objective(self, state: ProjectionState) -> float:
        return state.loss

    def extras(self, state: ProjectionState) -> dict[str, float]:
        return {"step_size": state.step, "gain": state.gain, "moved": state.moved}

    def finished(self, state: ProjectionState) -> bool:
        return state.loss <= state.floor or state.moved <= 4 * float(np.finfo(state.s.dtype).eps)

    def attributes(self, state: ProjectionState) -> dict[str, Any]:
        U, V = state.factors
        return {"U_": U, "V_": V, "singular_values_": state.s}


# --- the estimator ----------------------------------------------------------------------------------------------------


class SingularValueProjection(CompletionModel):
    """The matrix of rank k nearest to the known entries, by projected gradient steps.

    Minimises ½‖Π_Ω(A − X)‖² over X of rank ≤ k by X ← [X + ηΠ_Ω(A − X)]_k, without ever forming X.

    Attributes
    ----------
    U_, V_ : arrays (n, k) and (m, k)
        P√Σ and Q√Σ of the SVD of X.
    singular_values_ : array (k,)
        Of X, descending.
    step_size_ : float
        η of the last step.
    mean_, row_bias_, column_bias_, row_scale_, column_scale_ : float, (n,), (m,), (n,), (m,)
        What was taken out.
    loss_ : float
        ½‖Π_Ω(A − X)‖², of what centring left.
    reg_, weighted_reg_ : float
        0: nothing is regularised.
    observed_, n_features_in_, n_iter_, trace_, stopped_, certificate_
    """

    rank: int = parameter(10, COUNT).doc("""
        k, at most the smaller side of the matrix. Needs at least k(n + m − k) known entries.""")
    _: KW_ONLY
    step_size: Any = parameter("auto", choice("auto"), POSITIVE).doc("""
        η. "auto" measures the best length in every step and shortens it until the loss is certain
        to fall. A number is taken as it is: up to 1 the loss cannot rise, beyond about 1/p (p: the
        share of known entries) it diverges.""")
    centre: str = parameter("none", choice(*HOW)).doc("""
        What is taken out before, and put back at prediction (CIL 2.1.4).""")
    max_iter: int = common.max_iter(500).doc("The most steps.")
    tol: float = common.tol(1e-6).doc("""
        Settled when the loss ½‖Π_Ω(A − X)‖² changes by less than this share of it in each of two
        steps in a row.""")
    random_state: Any = common.random_state().doc("""
        Of the columns that the first SVD starts from; the result depends on it only by rounding.
        """)
    verbose: int = common.verbose()
    checkpoint: Any = common.checkpoint()
    time_limit: Any = common.time_limit()

    claims = PROJECTION_CLAIMS
    stored: ClassVar = {
        **CompletionModel.stored,
        "singular_values_ step_size_ loss_ reg_ weighted_reg_": "audited",
    }
    patience = 2  # a shortened step gains little, and the next one may gain much

    def _algorithm(self, data: Any) -> ProjectionAlgorithm:
        check_rank(self.rank, data)
        return ProjectionAlgorithm(
            int(self.rank), None if self.step_size == "auto" else float(self.step_size)
        )

    def _problem(self, data: Any) -> Observed:
        return centre(data, self.centre).remove_from(data)

    def _attributes(self, solution, problem: Observed) -> dict[str, Any]:
        state = solution.state
        return {
            **solution.attributes,
            **self._set_offsets(centre(self.observed_, self.centre)),
            "step_size_": float(state.step),
            "loss_": float(state.loss),
            "reg_": 0.0,
            "weighted_reg_": 0,
        }
