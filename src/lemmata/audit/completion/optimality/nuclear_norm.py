"""Claims about the least nuclear norm: what the multipliers of singular value thresholding prove.

SingularValueThresholding asks for the least ‖B‖_* + ‖B‖²/2τ with Π_Ω(B) = Π_Ω(A). Multipliers Y
on Ω (the attribute dual_) prove two lower bounds, without anybody having to trust how they were found:

    ‖B‖_*               ≥  ⟨Y, A⟩ / σ₁(Y)                          since ⟨Y, A⟩ = ⟨Y, B⟩ ≤ σ₁(Y)‖B‖_*
    ‖B‖_* + ‖B‖²/2τ     ≥  (⟨Y, A⟩ − ½ Σ_i (σ_i(Y) − τ)₊²) / τ      the dual function g(Y)/τ of thresholding.py

An X that misses the entries by R = Π_Ω(A − X) is no candidate, but X + R is, and ‖X + R‖_* ≤ ‖X‖_* + √min(n, m) ‖R‖_F.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from lemmata.audit.completion import statements
from lemmata.audit.completion.factors import NEVER_ROSE
from lemmata.audit.completion.held_out.error import ENTRY_CLAIMS
from lemmata.audit.completion.optimality.global_optimum import SHORT, gap_cost, top_singular_value
from lemmata.audit.completion.statements import SOUND, per_factor, problem_of, singular_values
from lemmata.audit.kernel import claims
from lemmata.audit.kernel.attributes import discrepancy, statements_true

Array = np.ndarray

REGULARISED_GAP = 0.1  # per cent
NUCLEAR_GAP = 5.0  # per cent: a finite τ aims at a little more than the least nuclear norm
MET = 1e-4  # of the known entries
MOST_DENSE = 2**24  # numbers of a table, 128 MB
SHRUNK = 1e-4  # of σ₁(Y): squares of singular values are found to 1e-10, they themselves to 1e-5


@claims.proved(
    "the known entries are reproduced to 1e-4 of their size", "CIL Prop. 2.5.4", cost=per_factor(5)
)
def entries_met(fit):
    problem = problem_of(fit)
    size = float(np.linalg.norm(problem.target))
    measured = math.sqrt(2 * problem.loss) / size if size > 0 else 0.0
    advice = "raise max_iter, or lower tau; entries with noise: SoftImpute"
    return claims.at_most(measured, MET, advice, unit="|R| / |A|")


@dataclass(frozen=True, eq=False)
class Multipliers:
    """Numbers of dual_ and X, in units of the largest entry."""

    nuclear: float  # a bound on ‖X + R‖_*
    square: float  # ‖X + R‖_F²
    inner: float  # ⟨Y, A⟩
    tau: float
    values: Array  # the leading singular values of Y, descending
    rest: float  # no other exceeds this, but for `risk`
    risk: float

    def against(self, primal: float, dual: float, bound: float, advice: str) -> claims.Evidence:
        percent = 100 * max(primal - dual, 0.0) / primal if primal > 0 else 0.0
        kind, sure = claims.STATISTICAL if self.risk else claims.PROVED, 1 - self.risk
        return claims.at_most(percent, bound, advice, unit="gap %", kind=kind, confidence=sure)


def _multiplier_cost(fit: claims.Fit) -> float:
    k, (n, m), entries = np.shape(fit.U_)[1] + 3, fit.data.shape, fit.data.n_observed
    side = min(n, m)
    if side <= SHORT:  # a Gram matrix and its eigenvalues, as measured
        gram = entries * min(side, entries / max(n, m))
        if _is_full(entries, n, m):
            gram = float(n) * m * side / claims.PRODUCTS
        return gram + 0.05 * side**3 + 10.0 * k * entries
    return gap_cost(fit) + 20.0 * k * (entries + k * (n + m))


@claims.fact(cost=_multiplier_cost)
def multipliers(fit: claims.Fit) -> Multipliers:
    problem = problem_of(fit)
    Y = np.asarray(fit.dual_, dtype=np.float64) / problem.unit
    (U, V, _, _), (n, m) = problem.at, problem.shape
    nuclear = float(singular_values(U, V).sum()) + math.sqrt(min(n, m) * 2 * problem.loss)
    # X + R is A on Ω and X elsewhere
    square = problem.energy - float(problem.fitted @ problem.fitted)
    square += float(problem.target @ problem.target)
    leading = _leading(fit, problem.on_entries(Y), U.shape[1] + 3)
    inner, tau = float(Y @ problem.target), float(fit.tau_) / problem.unit
    return Multipliers(nuclear, square, inner, tau, *leading)


@claims.proved(
    "its multipliers prove it within 0.1 % of the least ‖B‖_* + ‖B‖²/2τ",
    "CIL Prop. 2.5.4",
    needs=(multipliers,),
)
def least_regularised(fit):
    """The objective of X + R against g(Y)/τ."""
    found = multipliers(fit)
    if found.rest > found.tau:
        return claims.unknown(f"more than {len(found.values)} singular values of dual_ exceed tau")
    primal = found.nuclear + found.square / (2 * found.tau)
    above = np.maximum(found.values - found.tau, 0)
    dual = (found.inner - 0.5 * float(above @ above)) / found.tau
    advice = "not converged: lower tol and raise max_iter"
    return found.against(primal, dual, REGULARISED_GAP, advice)


@claims.proved(
    "its multipliers prove it within 5 % of the least nuclear norm",
    "CIL 2.5.2, Thm 2.6.1",
    needs=(multipliers,),
)
def least_nuclear_norm(fit):
    """‖X + R‖_* against ⟨Y, A⟩ / σ₁(Y)."""
    found = multipliers(fit)
    sigma = max(float(found.values.max(initial=0.0)), found.rest)
    dual = found.inner / sigma if sigma > 0 else 0.0
    return found.against(found.nuclear, dual, NUCLEAR_GAP, "raise tau, or lower tol")


def _leading(fit: claims.Fit, Y: Any, k: int) -> tuple[Array, float, float]:
    """Return leading singular values of Y, a bound on the others, and its risk: all of them where one side is short.

    Elsewhere a search finds triplets (p, s, q), and Lanczos bounds what is left when they are taken out. Orthonormal
    ones that are right to ε = ‖Yq − sp‖ + ‖Yᵀp − sq‖ shift no singular value by more (Weyl).
    """
    n, m = Y.shape
    if min(n, m) <= SHORT or k >= min(n, m):
        Z = Y if n >= m else Y.T
        if _is_full(Y.nnz, n, m):
            Z = Z.toarray()
        G = Z.T @ Z
        squares = np.linalg.eigvalsh(G.toarray() if hasattr(G, "toarray") else G)[::-1]
        return np.sqrt(np.maximum(squares, 0)), 0.0, 0.0
    found = fit.witness("singular_triplets", Y, k)
    if found is None or not all(orthonormal(part) for part in found[::2]):
        top = top_singular_value(Y.tocsr())
        return np.zeros(0), top.bound, top.risk
    P, s, Q = found
    left = top_singular_value(Y.tocsr(), (P * s, Q))
    off = float(np.linalg.norm(Y @ Q - P * s) + np.linalg.norm(Y.T @ P - Q * s))
    return np.sort(s)[::-1] + off, left.bound + off, left.risk


def _is_full(entries: int, n: int, m: int) -> bool:
    """Whether so many entries are multiplied faster as a table."""
    return n * m <= MOST_DENSE and entries >= 0.05 * n * m


def orthonormal(Q: Array) -> bool:
    return bool(np.abs(Q.T @ Q - np.eye(Q.shape[1])).max() <= claims.rounding(Q.dtype, len(Q)))


def multiplier_statements(fit: claims.Fit) -> dict[str, float]:
    """X is shrink_τ(Y): its singular values are those of dual_ above tau_, less tau_, as far as iterations find them."""
    found, shown = multipliers(fit), np.asarray(fit.singular_values_, np.float64)
    if not len(found.values):  # they were not searched for
        return statements.factor_statements(fit)
    above = np.maximum(found.values - found.tau, 0)
    size, unit = max(len(above), len(shown)), problem_of(fit).unit
    shown, above = (np.pad(part, (0, size - len(part))) for part in (shown / unit, above))
    wrong = discrepancy(shown, above, found.values.max(initial=0.0), SHRUNK)
    return {**statements.factor_statements(fit), "dual_, tau_": wrong}


MULTIPLIERS_TRUE = statements_true(multiplier_statements, needs=(multipliers,))
_LEAST = (least_regularised, entries_met, least_nuclear_norm)
THRESHOLDING_CLAIMS = (SOUND[0], MULTIPLIERS_TRUE, *_LEAST, NEVER_ROSE, *ENTRY_CLAIMS)
