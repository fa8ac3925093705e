"""Completion within a ball of the nuclear norm, by Frank–Wolfe steps.

    minimise  f(X) = ½‖Π_Ω(A − X)‖²   over  ‖X‖_* ≤ r                                                   (CIL20 3.4.3, (3.5))

With R = Π_Ω(A − X) = −∇f, the linear function −⟨R, ·⟩ is least in the ball at r u vᵀ, of the leading singular pair. So

    g(X) = r σ₁(R) − ⟨R, X⟩  ≥  f(X) − f*          by convexity: how far from the best X is, at most, for one singular pair
    X ← (1 − η) X + η r u vᵀ,    η = min(g / ‖Π_Ω(r u vᵀ − X)‖², 1)                          the exact length (Jaggi 2013)

Such a step adds a direction of rank 1 and gains little in the others: alone they end at g ∝ 1/t. So each is followed by
* projected gradient steps among the matrices L C Rᵀ, L and R spanning the columns and rows of X and some more leading pairs: C
  is small, its singular values are projected onto {s ≥ 0, Σs ≤ r}, which drops what is not needed;
* a sweep of least squares (sweeps.py) for the λ that belongs to X, ⟨R, X⟩/‖X‖_*. On the way to the optimum that λ settles. A
  longer X is projected, a shorter one grows to its best multiple in the ball; it is taken where it is better.
No step raises f.

For λ = σ₁(R) at the end, X also minimises ½‖Π_Ω(A − X)‖² + λ‖X‖_*: every radius is a λ of SoftImpute, and the reverse.

    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(60, 2)) @ rng.normal(size=(2, 50))
    >>> A = np.where(rng.random(X.shape) < 0.5, X + 0.1 * rng.normal(size=X.shape), np.nan)
    >>> model = NuclearBall(radius=0.9 * np.linalg.norm(X, "nuc"), centre="none", random_state=0).fit(A)
    >>> len(model.singular_values_), model.certificate_["least_in_ball"].verdict
    (2, 'holds')
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from lemmata.audit.completion.optimality.ball import BALL_CLAIMS
from lemmata.completion.base import CompletionModel
from lemmata.completion.centring import HOW, centre
from lemmata.completion.nuclear import sparse_lowrank
from lemmata.completion.nuclear.sweeps import sweep
from lemmata.completion.observed import Observed
from lemmata.core import common
from lemmata.core.certificate import rounding
from lemmata.core.loop import MaxSteps
from lemmata.core.parameters import KW_ONLY, POSITIVE, choice, parameter
from lemmata.core.store import storable
from lemmata.linalg.randomized import orthonormalise
from lemmata.optim.projections import L1Ball

Array = np.ndarray

CORRECTIONS = 2  # projected gradient steps within the span, after each pair
PAIRS = 16  # that join the span: the first for the step, the others for the corrections
LEAST = 1e-6  # λ, in units of ‖Π_Ω A‖: inside of the ball nothing is penalised
PASSES = 2  # of subspace iteration for a pair, from the one before


@storable
@dataclass(frozen=True)
class BallState:
    """X = P diag(s) Qᵀ, the leading pair of its residual, and what both say of the distance from the best."""

    version = 1
    layout: ClassVar = {"P": "n k", "s": "k >=0", "Q": "d k", "left": "n b", "right": "d b"}

    P: Array  # (n, k) orthonormal
    s: Array  # (k,) descending, Σs ≤ r
    Q: Array  # (m, k)
    left: Array  # (n, b) leading singular vectors of R, the first is u
    right: Array  # (m, b) v
    gap: float  # g(X)
    loss: float  # f(X)
    floor: float  # of the loss: below it only rounding is left
    steps: int
    seed: int

    @property
    def factors(self) -> tuple[Array, Array]:
        root = np.sqrt(self.s)
        return self.P * root, self.Q * root


@dataclass(frozen=True)
class BallAlgorithm:
    """A Frank–Wolfe step, projected gradients within the span, and a sweep; ends where g ≤ tol · f."""

    radius: float
    tol: float

    hint = "scale the data"

    def init(self, A: Observed, rng: np.random.Generator) -> BallState:
        (n, m), dtype = A.shape, A.dtype
        none = np.zeros((n, 0), dtype), np.zeros(0, dtype), np.zeros((m, 0), dtype)
        return self._at(A, *none, None, 0, int(rng.integers(2**62)))

    def step(self, state: BallState, A: Observed) -> BallState:
        L = orthonormalise(np.column_stack([state.P, state.left]))
        R = orthonormalise(np.column_stack([state.Q, state.right]))
        X = (L.T @ state.P * state.s) @ (R.T @ state.Q).T
        u, v = L.T @ state.left[:, 0], R.T @ state.right[:, 0]
        towards = self.radius * np.outer(u, v) - X
        seen = sparse_lowrank.entry_values(A, L @ towards, R)
        length = float(np.square(seen, dtype=np.float64).sum())
        eta = min(state.gap / length, 1.0) if length > 0 else 0.0
        C = self._correct(A, L, X + X.dtype.type(eta) * towards, R)
        W, s, Zt = np.linalg.svd(C, full_matrices=False)
        kept = s > rounding(A.dtype, terms=len(s)) * s[0]  # what the projection made 0
        P, s, Q = self._sweep(A, (L @ W[:, kept], s[kept], R @ Zt[kept].T))
        return self._at(A, P, s, Q, state.right, state.steps + 1, state.seed)

    def _correct(self, A: Observed, L: Array, C: Array, R: Array) -> Array:
        """Projected gradient steps with momentum on C ↦ f(LCRᵀ) over ‖C‖_* ≤ r (FISTA); the best of them."""
        best, least, ahead, t = C, self._loss(A, L @ C, R), C, 1.0
        for _ in range(CORRECTIONS):
            G = L.T @ (sparse_lowrank.residual(A, L @ ahead, R) @ R)
            seen = sparse_lowrank.entry_values(A, L @ G, R)
            size, length = (float(np.square(x, dtype=np.float64).sum()) for x in (G, seen))
            eta = size / length if length > 0 else 1.0  # the best without a ball
            there = self._project(ahead + C.dtype.type(eta) * G)
            loss = self._loss(A, L @ there, R)
            if loss < least:
                best, least = there, loss
            before, t = t, (1 + np.sqrt(1 + 4 * t * t)) / 2
            ahead = there + C.dtype.type((before - 1) / t) * (there - C)
            C = there
        return best

    def _sweep(self, A: Observed, X: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        """Least squares with the λ of X, then back into the ball; X itself where that is no better."""
        seen, total = self._entries(A, *X), float(X[1].sum(dtype=np.float64))
        rest = A.values - seen
        level = float(np.dot(rest.astype(np.float64), seen)) / total if total > 0 else 0.0
        least = LEAST * float(np.linalg.norm(A.values))
        if not total > 0 or not least > 0:
            return X
        P, s, Q = sweep(A, X, max(level, least))
        if float(s.sum(dtype=np.float64)) > self.radius:
            s = L1Ball(self.radius)(s.astype(np.float64)).astype(s.dtype)
        now = self._entries(A, P, s, Q).astype(np.float64)
        best = float(A.values @ now) / max(float(now @ now), np.finfo(float).tiny)
        room = self.radius / max(float(s.sum(dtype=np.float64)), np.finfo(float).tiny)
        s, now = s * s.dtype.type(grown := max(1.0, min(best, room))), now * grown
        kept = s > rounding(A.dtype, terms=len(s)) * s.max(initial=0.0)
        better = np.square(A.values - now).sum() < np.square(rest, dtype=np.float64).sum()
        return (P[:, kept], s[kept], Q[:, kept]) if better else X

    @staticmethod
    def _entries(A: Observed, P: Array, s: Array, Q: Array) -> Array:
        root = np.sqrt(s)
        return sparse_lowrank.entry_values(A, P * root, Q * root)

    def _project(self, C: Array) -> Array:
        """The nearest matrix of the ball: its singular values in the l1 ball (L1Ball)."""
        W, s, Zt = np.linalg.svd(C, full_matrices=False)
        return ((W * L1Ball(self.radius)(s.astype(np.float64))) @ Zt).astype(C.dtype)

    @staticmethod
    def _loss(A: Observed, U: Array, V: Array) -> float:
        return 0.5 * sparse_lowrank.residual_squares(A, U, V)

    def _at(self, A, P, s, Q, start, steps, seed) -> BallState:
        root = np.sqrt(s)
        R = sparse_lowrank.residual(A, P * root, Q * root)
        rng = np.random.default_rng((seed, steps))
        # at the optimum the leading vectors of R are those of X, and none exceeds theirs
        guess = None if start is None else np.hstack([start, Q])
        passes, extra = PASSES + 4 * (start is None), len(s) + PAIRS
        top = sparse_lowrank.leading_svd(R, PAIRS, start=guess, passes=passes, extra=extra, rng=rng)
        inner = float(np.einsum("ik,ik,k->", P, R @ Q, s, dtype=np.float64)) if len(s) else 0.0
        gap = max(self.radius * float(top.s[0]) - inner, 0.0)
        loss = self._loss(A, P * root, Q * root)
        right = np.ascontiguousarray(top.Vt.T)
        whole = float(np.square(A.values, dtype=np.float64).sum())
        floor = 0.5 * rounding(A.dtype, terms=len(s) + 1) ** 2 * whole
        return BallState(P, s, Q, top.U, right, gap, loss, floor, steps, seed)

    def objective(self, state: BallState) -> float:
        return state.loss

    def extras(self, state: BallState) -> dict[str, float]:
        return {"gap": state.gap, "rank": float(len(state.s))}

    def finished(self, state: BallState) -> bool:
        return state.gap <= self.tol * state.loss or state.loss <= state.floor

    def attributes(self, state: BallState) -> dict[str, Any]:
        U, V = state.factors
        return {"U_": U, "V_": V, "singular_values_": state.s}


class NuclearBall(CompletionModel):
    """The matrix nearest to the known entries whose nuclear norm is at most r, by Frank–Wolfe steps.

    Minimises ½‖Π_Ω(A − X)‖² over ‖X‖_* ≤ r, a leading singular pair of the residual at a time; X is never formed.

    Attributes
    ----------
    U_, V_ : arrays (n, k) and (m, k)
        P√Σ and Q√Σ of X = PΣQᵀ; k is the rank found.
    singular_values_ : array (k,)
        Of X, descending.
    radius_ : float
        r as used.
    mean_, row_bias_, column_bias_, row_scale_, column_scale_ : float, (n,), (m,), (n,), (m,)
        What was taken out.
    loss_ : float
        ½‖Π_Ω(A − X)‖², of what centring left.
    reg_, weighted_reg_ : float
        0: nothing is penalised.
    observed_, n_features_in_, n_iter_, trace_, stopped_, certificate_
        `trace_` has the `gap` of every step.
    """

    radius: Any = parameter(None, POSITIVE, None).doc("""
        r > 0, in the units of the data. None: √(nm) times the root mean square of the entries, after
        centring: what a matrix of rank one has whose entries are as large.""")
    _: KW_ONLY
    centre: str = parameter("none", choice(*HOW)).doc("""
        What is taken out before, and put back at prediction (CIL 2.1.4).""")
    max_iter: int = common.max_iter(300).doc("The most steps; the rank is no larger.")
    tol: float = common.tol(1e-3).doc("""
        Ends when the gap is at most this share of the objective.""")
    random_state: Any = common.random_state().doc("""
        Of the columns that the first SVD starts from.""")
    verbose: int = common.verbose()
    checkpoint: Any = common.checkpoint()
    time_limit: Any = common.time_limit()

    claims = BALL_CLAIMS
    stored: ClassVar = {
        **CompletionModel.stored,
        "singular_values_ radius_ loss_ reg_ weighted_reg_": "audited",
    }

    def _algorithm(self, data: Any) -> BallAlgorithm:
        radius, rest = self.radius, self._problem(data)
        if radius is None:
            square = float(np.mean(np.square(rest.values, dtype=np.float64)))
            radius = (square * data.shape[0] * data.shape[1]) ** 0.5 or 1.0
        return BallAlgorithm(float(radius), max(float(self.tol), rounding(data.dtype) ** 2))

    def _problem(self, data: Any) -> Observed:
        return centre(data, self.centre).remove_from(data)

    def _stop(self):
        return self._within_time(MaxSteps(self.max_iter))

    def _attributes(self, solution, problem: Observed) -> dict[str, Any]:
        return {
            **solution.attributes,
            **self._set_offsets(centre(self.observed_, self.centre)),
            "radius_": solution.algorithm.radius,
            "loss_": float(solution.state.loss),
            "reg_": 0.0,
            "weighted_reg_": 0,
        }
