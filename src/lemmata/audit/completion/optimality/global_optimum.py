"""Claims about the best matrix of any rank: lower bounds by duality, for factors and for the nuclear norm.

**The penalised problem** (factors, SoftImpute). Since min {½‖U‖² + ½‖V‖² : UVᵀ = X} = ‖X‖_*, the factored problem of any rank
is at least the convex one, P(X) = ½‖Π_Ω(A − X)‖² + λ‖X‖_*, whose dual is

    D(Y) = ⟨A, Y⟩ − ½‖Y‖² − ½ Σ_i (Y1)_i²/α_i − ½ Σ_j (Yᵀ1)_j²/β_j      subject to  σ₁(α^-½ Y β^-½) ≤ 1,  Y = 0 off Ω

(the sums only with biases; α = β = λ, or λ times the counts). A second penalty ½γ‖X‖² is at least γ⟨Z, X⟩ − ½γ‖Z‖² for any
Z, so that D loses ½γ‖Z‖² and asks for σ₁ of Y − γZ. Every such Y (and Z) bounds the optimum from below; we take the best
multiple of the residual (and of X), here or a few factors further. At a first-order point with σ₁ ≤ 1 the two meet: no matrix
of any rank is better. LAPACK finds σ₁ where one side is short; elsewhere Lanczos does, with a known risk (lanczos.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.linalg

from lemmata.audit.completion.factored_objective import Factored, Factors, blocks_cost
from lemmata.audit.completion.statements import problem_of
from lemmata.audit.kernel import claims
from lemmata.audit.kernel.lanczos import RISK, largest_eigenvalue, products_for

Array = np.ndarray

GAP = 1.0  # per cent: of factors
CONVEX_GAP = 0.1  # per cent: of a solver for the convex problem itself
STANDS_OUT = 0.01  # of λ: less may be what is left of converging
SHORT = 1000  # rows or columns up to which LAPACK finds σ₁, from the Gram matrix of that side
ROUNDS, FEW_ROUNDS = 8, 2  # of a search for a better bound or matrix: at most, and in the price
SWEEPS = 3  # per round
HOPE = 2  # a search goes on if rounds like the last, gaining so many times as much, would decide


# --- the largest singular value ---------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Top:
    """σ₁ of a matrix, between a Rayleigh quotient and a bound, and its vectors."""

    sigma: float
    bound: float  # σ₁ is not larger, but for `risk`
    left: Array  # (n,)
    right: Array  # (m,)
    risk: float  # 0: by LAPACK


def top_singular_value(
    S: Any, thin: tuple[Array, Array] | None = None, accuracy: float = 1e-3
) -> Top:
    """σ₁ of M = S − PQᵀ, S sparse and `thin` = (P, Q), if there is one.

    accuracy : share of σ₁ by which the bound of Lanczos may exceed it
    """
    P, Q = thin if thin is not None else (np.zeros((S.shape[0], 0)), np.zeros((S.shape[1], 0)))
    if S.shape[0] < S.shape[1]:
        turned = top_singular_value(S.T.tocsr(), (Q, P), accuracy)
        return replace(turned, left=turned.right, right=turned.left)
    m = S.shape[1]
    if m <= SHORT:
        # MᵀM, m × m
        G = (S.T @ S).toarray()
        cross = (S.T @ P) @ Q.T
        G = G - cross - cross.T + Q @ (P.T @ P) @ Q.T
        values, vectors = scipy.linalg.eigh(G, subset_by_index=[m - 1, m - 1])
        x, square, risk = vectors[:, 0], float(values[0]), 0.0
        above = claims.rounding(np.float64, m) * np.trace(G)
    else:
        found = largest_eigenvalue(
            lambda x: S.T @ (y := S @ x - P @ (Q.T @ x)) - Q @ (P.T @ y),
            m,
            most=products_for(2 * accuracy, m),
            enough=lambda found: found.value == 0 and found.products > 2,
        )
        assert found.vector is not None
        x, square, above, risk = (
            found.vector,
            found.value,
            found.largest_excess(positive=True),
            RISK,
        )
    y = S @ x - P @ (Q.T @ x)
    sigma = float(np.linalg.norm(y))
    bound = math.sqrt(max(square, sigma**2, 0.0) + max(float(above), 0.0))
    return Top(sigma, bound, y / sigma if sigma > 0 else y, x, risk)


# --- the best matrix of any rank --------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class DualityGap:
    """F at a point against a lower bound for matrices of every rank."""

    primal: float
    dual: float
    top: Top  # σ₁(α^-½ Y β^-½), in units of λ: at most 1 at the optimum; its vectors, divided by √α and √β
    best: float  # the lowest F found on the way
    risk: float  # that Lanczos missed a σ₁ that would void the bound; 0: by LAPACK
    bounded: Factors | None = None  # the dual point is a multiple of the residual there; None: here
    better: Factors | None = None  # where F was lowest, if not here

    @property
    def gap(self) -> float:
        return max(self.primal - self.dual, 0.0)

    @property
    def share(self) -> float:
        return self.gap / self.primal if self.primal > 0 else 0.0


def duality_gap(problem: Factored, accuracy: float = 1e-3) -> DualityGap:
    """F, and the dual objective at the best feasible multiple of Y."""
    top = _residual_top(problem, accuracy)
    primal, dual = problem.objective, 0.0  # 0 is D(0)
    g, h = _dual_terms(problem)
    if h > 0:
        most = 1 / top.bound if top.bound > 0 else math.inf
        theta = min(max(g / h, 0.0), most)
        dual = theta * g - 0.5 * theta**2 * h
    return DualityGap(primal, dual, top, primal, top.risk)


def search(
    problem: Factored, goal: float, propose: Callable[[Factored, Top], Factors | None], rounds: int
) -> DualityGap:
    """Return the gap at this point with a better lower bound, or a better matrix, until one of them decides.

    Scaling Y down by σ₁ wastes about (σ₁ − 1)λ‖X‖_*, even if all that is missing is one small factor. Any Y will do for a
    bound: so that of the residual at every point that is proposed is tried, until the gap is below `goal` of the objective, or
    a matrix is found that is better by more, or neither is in reach.

    propose : another point, from one and the σ₁ there; None where there is none
    """
    accuracy = goal / 4
    here = gap = duality_gap(problem, accuracy)
    point = problem
    for left in range(rounds, 0, -1):
        if gap.share <= goal or gap.primal - gap.best > goal * gap.primal:
            break
        at = propose(point, here.top)
        if at is None:
            break
        point = problem.move(at)
        here = duality_gap(point, accuracy)
        best, dual = min(gap.best, here.primal), max(gap.dual, here.dual)
        rose, fell = dual - gap.dual, gap.best - best
        found = at if rose > 0 else gap.bounded, at if fell > 0 else gap.better
        gap = DualityGap(gap.primal, dual, gap.top, best, gap.risk + here.risk, *found)
        to_rise, to_fall = gap.gap - goal * gap.primal, goal * gap.primal - (gap.primal - best)
        if rose * HOPE * left < to_rise and fell * HOPE * left < to_fall:
            break
    return gap


def _dual_terms(problem: Factored) -> tuple[float, float]:
    """⟨A, Y⟩ and the square in D(θY) = θ⟨A, Y⟩ − ½θ²(Σ y²/w + Σ(Y1)²/α + Σ(Yᵀ1)²/β)."""
    error = problem.target - problem.fitted
    w = 1.0 if problem.weights is None else problem.weights
    g, h = float(problem.target @ (w * error)), 2 * problem.loss + problem.ridge * problem.energy
    if problem.biased:
        for axis, reg in zip((1, 0), problem.bias_regs, strict=True):
            sums = problem.S.sum(axis=axis)
            # reg = 0 only where there is no entry: sums = 0
            # an unpenalised bias: only Y that sum to 0 there are feasible
            free = (reg == 0) & (sums != 0)
            h += np.inf if free.any() else float(np.sum(sums[reg > 0] ** 2 / reg[reg > 0]))
    return g, h


def _residual_top(problem: Factored, accuracy: float) -> Top:
    """σ₁(α^-½ Y β^-½) and its vectors over √α and √β; 0 where a row or column has no penalty, as Y is 0 there."""
    (U, V, _, _), regs = problem.at, (problem.row_reg, problem.column_reg)
    r, s = (np.divide(1.0, np.sqrt(x), out=np.zeros(len(x)), where=x > 0) for x in regs)
    scaled = problem.on_entries(problem.S.data * r[problem.rows] * s[problem.indices])
    d = problem.everywhere
    thin = (d * r[:, None] * U, s[:, None] * V) if d else None
    top = top_singular_value(scaled, thin, accuracy)
    return replace(top, left=r * top.left, right=s * top.right)


# --- claims about factors ---------------------------------------------------------------------------------------------


def gap_cost(fit: claims.Fit, accuracy: float = GAP / 400) -> float:
    """One lower bound: the Gram matrix of the shorter side and its largest eigenvalue, or Lanczos."""
    entries, short = fit.data.n_observed, min(fit.data.shape)
    here = 5 * entries * (np.shape(fit.U_)[1] + 1)
    if short <= SHORT:
        counts = fit.data.column_counts if short < fit.data.shape[1] else fit.data.row_counts
        return here + 2 * float(np.square(counts, dtype=np.float64).sum()) + short**3 / 4
    q = products_for(2 * accuracy, short)
    return here + q * (2 * entries + q * short)


def _round_cost(fit: claims.Fit) -> float:
    """A round of `search`: a bound, and sweeps."""
    return gap_cost(fit) + SWEEPS * blocks_cost(fit.data, np.shape(fit.U_)[1] + 3)


def _search_cost(fit: claims.Fit) -> float:
    return gap_cost(fit) + FEW_ROUNDS * _round_cost(fit)


def _proposals(fit: claims.Fit) -> tuple[Callable[[Factored, Top], Factors | None], int]:
    """Return who proposes better points, and how many rounds of that the budget allows."""
    rounds = int(np.clip((fit.work - gap_cost(fit)) / _round_cost(fit), 0, ROUNDS))
    return lambda point, top: fit.witness("further_factor", point, top), rounds


@claims.proved(
    "within 1 % of the least objective of all matrices, of any rank",
    "CIL 2.5.2, 2.4",
    cost=_search_cost,
)
def global_optimum(fit):
    """The relative duality gap in per cent; zero at a first-order point where σ₁ of the residual is at most λ."""
    problem = problem_of(fit)
    if not (problem.row_reg.any() and problem.column_reg.any()):
        noise = claims.rounding(np.asarray(fit.U_).dtype, problem.rank) ** 2
        if problem.loss <= noise * problem.size:
            note = "every known entry is met, and no loss is below 0"
            return claims.at_most(0.0, GAP, unit="gap %", note=note)
        why = "with reg = 0 there is no convex problem to compare with, and the best rank-k fit is NP-hard"
        return claims.unknown(why)
    if problem.implicit and _free_rows(problem):
        return claims.unknown("a row without entries is not penalised, but has factors")
    gap = search(problem, GAP / 100, *_proposals(fit))
    advice = "a further factor would lower the objective; among matrices of this rank the fit may still be the best"
    if gap.top.sigma <= 1.01:
        advice = "converge further: lower tol and raise max_iter"
    return _decide(gap, GAP, advice)


def _decide(gap: DualityGap, bound: float, advice: str) -> claims.Evidence:
    """Return the verdict: holds by the lower bound, fails by a better matrix, can't tell without either."""
    percent, better = 100 * gap.share, 100 * (1 - gap.best / gap.primal) if gap.primal > 0 else 0.0
    note = f"σ₁ = {gap.top.sigma:.4g} λ{' by Lanczos' if gap.top.risk else ''}"
    if percent <= bound:
        holds = claims.at_most(percent, bound, "", "gap %", note, confidence=1 - gap.risk)
        witness = gap.bounded._asdict() if gap.bounded else {}
        kind = claims.STATISTICAL if gap.risk else claims.PROVED
        return replace(holds, kind=kind, witness=witness)
    if better > bound:
        note = f"a matrix with {better:.2g} % less was found; {note}"
        witness = gap.better._asdict() if gap.better else {}
        return claims.at_most(
            percent, bound, advice, "gap %", note, kind=claims.PROVED, witness=witness
        )
    why = f"the lower bound leaves {percent:.2g} % open, and a matrix was found that is better by {better:.2g} % only"
    return claims.unknown(f"{why}; {note}", measured=percent, unit="gap %")


def _free_rows(problem: Factored) -> bool:
    sides = ((problem.row_reg, problem.at.U), (problem.column_reg, problem.at.V))
    return any(bool(np.abs(X[reg == 0]).max(initial=0.0) > 0) for reg, X in sides)


# --- claims about the penalised convex problem ------------------------------------------------------------------------


@claims.proved(
    "within 0.1 % of the least objective of all matrices",
    "CIL 2.5.2",
    cost=lambda fit: gap_cost(fit, CONVEX_GAP / 400),
)
def least_penalised(fit):
    """The duality gap of ½‖Π_Ω(A − X)‖² + λ‖X‖_* + ½γ‖X‖² in per cent of its value."""
    if not float(fit.reg_) > 0:
        return claims.unknown("without a penalty (reg_ = 0) there is no gap to measure")
    gap = search(problem_of(fit), CONVEX_GAP / 100, *_proposals(fit))
    advice = "not converged: lower tol and raise max_iter"
    if gap.top.sigma > 1 + CONVEX_GAP / 100:
        advice = "directions are missing: lower tol and raise max_iter, or raise max_rank"
    return _decide(gap, CONVEX_GAP, advice)


def _at_limit(fit: claims.Fit) -> bool:
    limit, most = fit.get("max_rank"), min(fit.data.shape)
    return limit is not None and limit < most and np.shape(fit.U_)[1] >= limit


@claims.proved(
    "max_rank did not cut the solution: no direction outside of it exceeds λ by over 1 %",
    "CIL 2.5.2",
    cost=lambda fit: gap_cost(fit) if _at_limit(fit) else 0.0,
)
def rank_not_cut(fit):
    """Where the rank found is below the limit, the limit changed nothing. At the limit σ₁ of the residual tells."""
    if not _at_limit(fit):
        return claims.at_most(np.shape(fit.U_)[1], min(fit.data.shape), unit="rank")
    if not float(fit.reg_) > 0:
        return claims.unknown("without a penalty (reg_ = 0) every direction would enter")
    top = _residual_top(problem_of(fit), CONVEX_GAP / 100)
    if top.sigma <= 1 + STANDS_OUT:
        why = "there are as many directions as max_rank allows, and none that is missing stands out"
        return claims.unknown(why)
    advice = "raise max_rank, or reg, or pass max_rank=None"
    return claims.at_most(top.sigma, 1 + STANDS_OUT, advice, unit="σ₁ / λ")
