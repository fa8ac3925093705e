"""What theory promises about completion with the nuclear norm, checked on the known entries by plain code.

**The penalised problem** (SoftImpute) is that of claims.py without biases: P(X) = ½‖Π_Ω(A − X)‖² + λ‖X‖_*, with the dual
D(Y) = ⟨A, Y⟩ − ½‖Y‖² over Y on Ω with σ₁(Y) ≤ λ. Any such Y bounds the optimum from below; a multiple of the residual serves.

**The constrained problem** (SingularValueThresholding) asks for the least ‖B‖_* + ‖B‖²/2τ with Π_Ω(B) = Π_Ω(A). Multipliers Y
on Ω (the attribute dual_) prove two lower bounds, without anybody having to trust how they were found:

    ‖B‖_*               ≥  ⟨Y, A⟩ / σ₁(Y)                          since ⟨Y, A⟩ = ⟨Y, B⟩ ≤ σ₁(Y)‖B‖_*
    ‖B‖_* + ‖B‖²/2τ     ≥  (⟨Y, A⟩ − ½ Σ_i (σ_i(Y) − τ)₊²) / τ      the dual function g(Y)/τ of thresholding.py

An X that misses the entries by R = Π_Ω(A − X) is no candidate, but X + R is, and ‖X + R‖_* ≤ ‖X‖_* + √min(n, m) ‖R‖_F.
"""

from __future__ import annotations

import math

import numpy as np
import scipy.sparse.linalg as spla

from lemmata.audit.entries import IDENTIFIABLE
from lemmata.audit.factors import factored, first_order_point, never_rose
from lemmata.audit.heldout import held_out_error
from lemmata.core.certificate import RULE_OF_THUMB, Fit, at_most, claim, passes, unknown

Array = np.ndarray

GAP = 0.1  # per cent
NUCLEAR_GAP = 5.0  # per cent: a finite τ aims at a little more than the least nuclear norm
MET = 1e-4  # of the known entries
DENSE = 2**20  # entries of a matrix whose singular values LAPACK finds at once


@claim(
    "within 0.1 % of the least objective of all matrices",
    kind=RULE_OF_THUMB,
    source="CIL 2.5.2",
    cost=passes(),
)
def least_penalised(fit):
    """The duality gap of ½‖Π_Ω(A − X)‖² + λ‖X‖_* in per cent of its value."""
    from lemmata.audit.curvature import duality_gap

    if not float(fit.reg_) > 0:
        return unknown("without a penalty (reg_ = 0) there is no gap to measure")
    gap = duality_gap(factored(fit))
    percent = 100 * gap.gap / gap.primal if gap.primal > 0 else 0.0
    if gap.sigma > 1 + GAP / 100:
        advice = "directions are missing: lower tol and raise max_iter, or raise max_rank"
    else:
        advice = "not converged: lower tol and raise max_iter"
    return at_most(percent, GAP, advice, unit="gap %", note=f"σ₁ = {gap.sigma:.4g} λ{gap.doubt}")


@claim("max_rank did not cut the solution", kind=RULE_OF_THUMB, source="CIL 2.5.2")
def rank_not_cut(fit):
    """Where the rank found is below the limit, the limit changed nothing, and the problem was the convex one."""
    limit, (n, m) = getattr(fit.model, "max_rank", None), fit.data.shape
    most = min(n, m) if limit is None or limit >= min(n, m) else limit - 1
    return at_most(
        fit.U_.shape[1], most, "raise max_rank, or reg, or pass max_rank=None", unit="rank"
    )


# --- least nuclear norm with the known entries ------------------------------------------------------------------------


@claim("the known entries are reproduced to 1e-4", kind=RULE_OF_THUMB, source="CIL Prop. 2.5.4")
def entries_met(fit):
    problem = factored(fit)
    size = float(np.linalg.norm(problem.target))
    measured = math.sqrt(2 * problem.loss) / size if size > 0 else 0.0
    return at_most(
        measured,
        MET,
        "raise max_iter, or lower tau; entries with noise: SoftImpute",
        unit="|R| / |A|",
    )


@claim(
    "within 0.1 % of the least ‖B‖_* + ‖B‖²/2τ",
    kind=RULE_OF_THUMB,
    source="CIL Prop. 2.5.4",
    cost=passes(),
)
def least_regularised(fit):
    """The objective of X + R against g(Y)/τ."""
    nuclear, square, inner, values = _evidence(fit)
    tau, most = float(fit.tau_), min(fit.data.shape)
    if len(values) < most and values[-1] > tau:
        return unknown(f"more than {len(values)} singular values of dual_ exceed tau")
    primal = nuclear + square / (2 * tau)
    dual = (inner - 0.5 * float(np.sum(np.maximum(values - tau, 0) ** 2))) / tau
    percent = 100 * max(primal - dual, 0.0) / primal if primal > 0 else 0.0
    return at_most(percent, GAP, "not converged: lower tol and raise max_iter", unit="gap %")


@claim(
    "within 5 % of the least nuclear norm",
    kind=RULE_OF_THUMB,
    source="CIL 2.5.2, Thm 2.6.1",
    cost=passes(),
)
def least_nuclear_norm(fit):
    """‖X + R‖_* against ⟨Y, A⟩ / σ₁(Y)."""
    nuclear, _, inner, values = _evidence(fit)
    dual = inner / float(values[0]) if values[0] > 0 else 0.0
    percent = 100 * max(nuclear - dual, 0.0) / nuclear if nuclear > 0 else 0.0
    return at_most(percent, NUCLEAR_GAP, "raise tau, or lower tol", unit="gap %")


def _evidence(fit: Fit) -> tuple[float, float, float, Array]:
    """A bound on ‖X + R‖_*, ‖X + R‖_F², ⟨Y, A⟩, and the leading singular values of Y."""
    if "multipliers" not in fit.memory:
        problem, Y = factored(fit), np.asarray(fit.dual_, dtype=np.float64)
        if Y.shape != problem.target.shape:
            raise ValueError(f"dual_ has {Y.size} numbers for {len(problem.target)} known entries")
        (U, V, _, _), (n, m) = problem.at, problem.shape
        nuclear = float(
            np.linalg.svd(np.linalg.qr(U)[1] @ np.linalg.qr(V)[1].T, compute_uv=False).sum()
        )
        nuclear += math.sqrt(min(n, m) * 2 * problem.loss)
        # X + R is A on Ω and X elsewhere
        square = float(np.vdot(U.T @ U, V.T @ V)) - float(problem.fitted @ problem.fitted)
        square += float(problem.target @ problem.target)
        values = _leading(problem.on_entries(Y), U.shape[1] + 3)
        fit.memory["multipliers"] = nuclear, square, float(Y @ problem.target), values
    return fit.memory["multipliers"]


def _leading(Y, k: int) -> Array:
    """The k largest singular values, or all of a small matrix, descending."""
    if Y.shape[0] * Y.shape[1] <= DENSE or k >= min(Y.shape):
        return np.linalg.svd(Y.toarray(), compute_uv=False)
    start = np.random.default_rng(0).standard_normal(min(Y.shape))
    return np.sort(spla.svds(Y, k, v0=start, return_singular_vectors=False))[::-1]


SOFT_IMPUTE_CLAIMS = (
    never_rose,
    least_penalised,
    first_order_point,
    rank_not_cut,
    *IDENTIFIABLE,
    held_out_error,
)
THRESHOLDING_CLAIMS = (
    never_rose,
    entries_met,
    least_regularised,
    least_nuclear_norm,
    *IDENTIFIABLE,
    held_out_error,
)
