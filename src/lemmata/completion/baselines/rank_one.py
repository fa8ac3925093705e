"""Rank one: every row and every column has a single number, and an entry is their product.

    minimise  ℓ(u, v) = ½ Σ_Ω (a_ij − u_i v_j)²          over u: n,  v: m                                  (CIL (2.9))

    ∇_u ℓ = −R v,   ∇_v ℓ = −Rᵀ u,   R = Π_Ω(A − uvᵀ)

(CIL (2.15) and (2.16) leave out the mask Ω; and in (2.19) it is dx/dt, not du/dt, that equals −2x(x − a).)

**All entries known.** Least squares in u alone, then in v alone, are the power steps u ∝ Av, v ∝ Aᵀu of (2.25): they find the
leading singular pair, and ½‖A − uvᵀ‖² = ½(‖A‖² − σ₁²), the tail of the spectrum, is the global minimum.

**Some unknown.** The problem is NP-hard (CIL 2.3.5), and we follow the gradient flow (u̇, v̇) = (Rv, Rᵀu) in steps that are
sure to descend. The origin is a saddle: its Hessian has the eigenvalues ±σ_i(Π_Ω A), so the flow starts beside it, at a small
multiple of the leading singular pair of Π_Ω A, along which it would leave the origin by itself. Each connected block of entries
gets its own pair: that of the whole matrix is zero on all blocks but one, and zero is where a flow stays. Along the flow

    d/dt (‖u‖² − ‖v‖²) = 2uᵀRv − 2vᵀRᵀu = 0

and an Euler step of length η adds η²(‖Rv‖² − ‖Rᵀu‖²) to it: from ‖u‖ = ‖v‖ the factors stay about balanced.

    >>> import numpy as np
    >>> A = np.outer([1.0, 2.0, 3.0], [4.0, 5.0, 6.0, 7.0])
    >>> A[0, 0] = A[1, 2] = A[2, 3] = np.nan
    >>> model = RankOne().fit(A)
    >>> model.predict([0, 1, 2], [0, 2, 3]).round(4)
    array([ 4., 12., 21.])
    >>> model.certificate_.failed
    []
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from lemmata.audit.completion.low_rank import FLOW_CLAIMS, POWER_STEP_CLAIMS
from lemmata.completion.base import CompletionModel
from lemmata.completion.centring import HOW, centre
from lemmata.completion.observed import Observed
from lemmata.core import common
from lemmata.core.certificate import rounding
from lemmata.core.parameters import KW_ONLY, choice, parameter
from lemmata.core.store import storable
from lemmata.linalg.randomized import signs

Array = np.ndarray

START = 0.01  # of σ₁(Π_Ω A): ‖u‖‖v‖ at the start, beside the saddle but not so near that leaving it takes long
POWER_STEPS = 20  # towards that pair; the flow turns towards it by itself
STRIDE = 0.25  # of ‖(u, v)‖: longer steps than this are no path
DECREASE = 0.1  # of η‖∇‖²: what a step must at least gain (Armijo); short enough steps gain almost all of it


# --- one number, one entry: the flow solved by hand (CIL 2.2.4) -------------------------------------------------------


def logistic_flow(a: float, c: float, t: Any) -> Array:
    """x(t) = u(t)v(t) of the gradient flow of ½(a − uv)² from u = v = c (CIL (2.20)).

    u and v stay equal, so ẋ = 2uu̇ = 2x(a − x). Then y = 1/x has ẏ = 2 − 2ay, which is linear:

        y(t) = e^{−2at}/c² + (1 − e^{−2at})/a,      x(t) = 1/y(t) → a  if a > 0,   → 0, the saddle,  if a ≤ 0

    Written with 1/x it neither divides by zero nor overflows, for a of any sign and c² above or below a.
    """
    a, c2, t = float(a), float(c) ** 2, np.asarray(t, dtype=np.float64)
    if c2 == 0:
        return np.zeros_like(t)  # the saddle: at rest for ever
    with np.errstate(over="ignore"):
        grown = 2 * t if a == 0 else -np.expm1(-2 * a * t) / a
        return c2 / (np.exp(-2 * a * t) + c2 * grown)


def time_to_reach(a: float, c: float, eps: float) -> float:
    """Time that the flow from u = v = c takes until |uv − a| ≤ ε, for a > 0 (CIL Ex. 2.4).

    1/x − 1/a shrinks like e^{−2at}, so (a − x)/x = e^{−2at} (a − c²)/c², and with x = a ∓ ε (from below or above)

        t = (1/2a) ln( |a − c²| (a ∓ ε) / (c² ε) )

    The notes' x(t) = |a − ε| is the case from below, c² < a. From the saddle, c = 0, it takes for ever.
    """
    if not a > 0 or not eps > 0:
        raise ValueError(f"a={a} and eps={eps} are not accepted; both are numbers > 0.")
    c2 = float(c) ** 2
    if abs(c2 - a) <= eps:
        return 0.0
    if c2 == 0:
        return float("inf")
    target = a - eps if c2 < a else a + eps
    return float(np.log(abs(a - c2) / c2 * (target / eps)) / (2 * a))


# --- state and algorithms ---------------------------------------------------------------------------------------------


@storable
@dataclass(frozen=True)
class RankOneState:
    """The two factors, the way down from them, and how far to go."""

    version = 1
    layout: ClassVar = {"u down_u": "n", "v down_v": "d", "step": ">0"}

    u: Array  # (n,)
    v: Array  # (m,)
    down_u: Array  # (n,) −∇_u ℓ = Rv
    down_v: Array  # (m,) −∇_v ℓ = Rᵀu
    loss: float  # ℓ(u, v)
    step: float  # η to try next
    floor: float  # of the loss: below it only rounding is left

    @property
    def slope(self) -> float:
        """‖∇ℓ‖²."""
        return _dot(self.down_u, self.down_u) + _dot(self.down_v, self.down_v)


def _dot(x: Array, y: Array) -> float:
    """xᵀy, added up in float64."""
    return float(np.dot(x.astype(np.float64, copy=False), y.astype(np.float64, copy=False)))


class RankOneAlgorithm:
    """Base of both ways: a state is u and v with their loss and gradient."""

    hint = "scale the data: products of its entries leave the finite numbers"

    def at(self, A: Observed, u: Array, v: Array, step: float) -> RankOneState:
        r = A.values - u[A.rows] * v[A.columns]
        R = A.csr()
        R.data = r
        floor = 0.5 * rounding(A.dtype) ** 2 * _dot(A.values, A.values)
        return RankOneState(u, v, R @ v, R.T @ u, 0.5 * _dot(r, r), step, floor)

    def objective(self, state: RankOneState) -> float:
        return state.loss

    def extras(self, state: RankOneState) -> dict[str, float]:
        uu, vv = _dot(state.u, state.u), _dot(state.v, state.v)
        return {
            "gradient": float(np.sqrt(state.slope)),
            "imbalance": (uu - vv) / max(uu + vv, np.finfo(float).tiny),
            "size": uu + vv,
        }

    def finished(self, state: RankOneState) -> bool:
        return state.loss <= state.floor or state.slope == 0

    def attributes(self, state: RankOneState) -> dict[str, Any]:
        """Balanced factors, ‖U‖ = ‖V‖, with the largest entry of V positive."""
        uu, vv = _dot(state.u, state.u), _dot(state.v, state.v)
        ratio = (vv / uu) ** 0.25 if uu > 0 and vv > 0 else 1.0
        U, V = (
            state.u[:, None] * state.u.dtype.type(ratio),
            state.v[:, None] / state.v.dtype.type(ratio),
        )
        flip = signs(V)
        return {"U_": U * flip, "V_": V * flip}


@dataclass(frozen=True)
class PowerStepsAlgorithm(RankOneAlgorithm):
    """All entries known: u ← Av/‖v‖², v ← Aᵀu/‖u‖², each the least-squares solution for the other (CIL (2.25))."""

    def init(self, A: Observed, rng: np.random.Generator) -> RankOneState:
        n, m = A.shape
        v = rng.standard_normal(m, dtype=A.dtype.type)
        return self.at(A, np.zeros(n, A.dtype), v, 1.0)

    def step(self, state: RankOneState, A: Observed) -> RankOneState:
        matrix = A.values.reshape(A.shape)  # entries by row, none missing: the matrix itself
        u = matrix @ state.v / _dot(state.v, state.v)
        v = matrix.T @ u / max(_dot(u, u), np.finfo(np.float64).tiny)
        return self.at(A, u.astype(A.dtype, copy=False), v.astype(A.dtype, copy=False), 1.0)


def _unit_blocks(x: Array, block: Array, blocks: int) -> tuple[Array, Array]:
    """x with its part in every block divided by the norm of that part, and the norms; a block of zeros stays one."""
    wide = x.astype(np.float64)
    norms = np.sqrt(np.bincount(block, wide * wide, blocks))
    return (wide / np.where(norms > 0, norms, 1.0)[block]).astype(x.dtype), norms


@dataclass(frozen=True)
class GradientFlowAlgorithm(RankOneAlgorithm):
    """Some entries unknown: Euler steps of the flow, each as long as the curvature met by the last one allows.

    With s the last move and y the change of the gradient, sᵀs/sᵀy is the inverse of a curvature (Barzilai & Borwein 1988). A
    step that would gain less than a tenth of η‖∇‖² is halved. Along a line ℓ is a polynomial of degree four,

        r(η) = r − η d₁ − η² d₂,    d₁ = u_i q_j + p_i v_j,  d₂ = p_i q_j       (p = Rv, q = Rᵀu, at the known entries)

    so halving costs no pass over the entries, and the gain is not the difference of two large numbers.
    """

    def init(self, A: Observed, rng: np.random.Generator) -> RankOneState:
        """A small multiple of the leading pair of Π_Ω A, block by connected block, from a few power steps in all of them."""
        (n, m), dtype = A.shape, A.dtype
        S = A.csr()
        # rows and columns are nodes, entries edges
        graph = sp.block_array([[None, S], [S.T, None]])
        graph.data = np.ones_like(graph.data)  # an entry that is 0 is known all the same
        blocks, label = connected_components(graph, directed=False)
        rows, columns = label[:n], label[n:]
        u, v = np.zeros(n, dtype), rng.standard_normal(m, dtype=dtype.type)
        top = np.zeros(blocks)
        for _ in range(POWER_STEPS):
            u, _ = _unit_blocks(S @ v, rows, blocks)
            v, top = _unit_blocks(S.T @ u, columns, blocks)
        size = np.sqrt(START * top).astype(dtype)  # ‖u‖ = ‖v‖ in every block
        return self.at(
            A, u * size[rows], v * size[columns], step=1 / top.max() if top.any() else 1.0
        )

    def step(self, state: RankOneState, A: Observed) -> RankOneState:
        p, q = state.down_u, state.down_v
        eta = self._descending(state, A)
        u, v = state.u + A.dtype.type(eta) * p, state.v + A.dtype.type(eta) * q
        new = self.at(A, u, v, eta)
        s = np.concatenate([u - state.u, v - state.v])
        y = np.concatenate([p - new.down_u, q - new.down_v])
        bent = _dot(s, y)
        # where ℓ is concave nothing holds us back
        return replace(new, step=_dot(s, s) / bent if bent > 0 else 2 * eta)

    def _descending(self, state: RankOneState, A: Observed) -> float:
        """The step to try, halved until it gains enough."""
        i, j = A.rows, A.columns
        p, q, u, v = state.down_u[i], state.down_v[j], state.u[i], state.v[j]
        r, d1, d2 = A.values - u * v, u * q + p * v, p * q
        quadratic = 0.5 * _dot(d1, d1) - _dot(r, d2)
        cubic, quartic = _dot(d1, d2), 0.5 * _dot(d2, d2)
        size = _dot(state.u, state.u) + _dot(state.v, state.v)
        eta = min(state.step, STRIDE * float(np.sqrt(size / state.slope)))
        while eta * (quadratic + eta * (cubic + eta * quartic)) > (1 - DECREASE) * state.slope:
            eta /= 2
        return eta


# --- the estimator ----------------------------------------------------------------------------------------------------


class RankOne(CompletionModel):
    """The outer product uvᵀ nearest to the known entries of a matrix.

    Minimises ½ Σ_Ω (a_ij − u_i v_j)²: by power steps if every entry is known, along the gradient flow otherwise.

    Attributes
    ----------
    U_, V_ : arrays (n, 1) and (m, 1)
        u and v with equal norms; the largest entry of v is positive.
    mean_, row_bias_, column_bias_, row_scale_, column_scale_ : float, (n,), (m,), (n,), (m,)
        What was taken out.
    loss_ : float
        ½ Σ_Ω (x_ij − u_i v_j)², where x is what centring left.
    reg_, weighted_reg_ : float
        0: nothing is regularised.
    observed_, n_features_in_, n_iter_, trace_, stopped_, certificate_
    """

    centre: str = parameter("none", choice(*HOW)).doc("""
        What is taken out before, and put back at prediction (CIL 2.1.4).""")
    _: KW_ONLY
    max_iter: int = common.max_iter(2000).doc("The most steps.")
    tol: float = common.tol(1e-8).doc("""
        Settled when the loss ½ Σ_Ω (x_ij − u_i v_j)² changes by less than this share of it in each
        of five steps in a row.""")
    random_state: Any = common.random_state().doc("""
        Of the vector that the power steps begin with; the result depends on it only by rounding, if
        they converge.""")
    verbose: int = common.verbose()
    checkpoint: Any = common.checkpoint()
    time_limit: Any = common.time_limit()

    claims = FLOW_CLAIMS
    stored: ClassVar = {**CompletionModel.stored, "loss_ reg_ weighted_reg_": "audited"}
    patience = 5  # the way out of the saddle begins slowly, and Barzilai–Borwein steps are of uneven length

    def _algorithm(self, data: Any) -> RankOneAlgorithm:
        n, m = data.shape
        return PowerStepsAlgorithm() if data.n_observed == n * m else GradientFlowAlgorithm()

    def _problem(self, data: Any) -> Observed:
        return centre(data, self.centre).remove_from(data)

    def _claims(self):
        return POWER_STEP_CLAIMS if self.observed_.density == 1 else FLOW_CLAIMS

    def _attributes(self, solution, problem: Observed) -> dict[str, Any]:
        return {
            **solution.attributes,
            **self._set_offsets(centre(self.observed_, self.centre)),
            "loss_": float(solution.state.loss),
            "reg_": 0.0,
            "weighted_reg_": 0,
        }
