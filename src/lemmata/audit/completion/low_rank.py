"""Claims about completions by one factor, by a filled matrix and by projections.

Where every entry is known, Eckart and Young say what the best matrix of rank k costs: the tail of the spectrum. Where not, a
first-order point among the matrices of rank k and the way out of the saddle at 0 can still be checked.

**Both sides of a spectrum.** A search finds a lower bound on Σ_{i≤k} σ_i², hence an upper one on the tail: it proves
that a fit is not the best, never that it is. For that, let Q have k orthonormal columns, and FᵀF in the basis [Q Q⊥] be

    [H Bᵀ; B C],   H = QᵀFᵀFQ with eigenvalues h_1 ≥ … ≥ h_k,   s² ≥ λ_max(C) = σ₁(F − FQQᵀ)²

For all t > 0, [0 Bᵀ; B 0] ≼ [BᵀB/t 0; 0 tI], so with t = h_k − s², if that is positive, the k largest eigenvalues of FᵀF add
up to at most tr H + ‖B‖²/t. Otherwise, by Ky Fan's inequality, to at most Σ max(h_i, s²) + ‖B‖_* (the nuclear norm).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator

from lemmata.audit.completion import statements
from lemmata.audit.completion.factored_objective import products_at
from lemmata.audit.completion.factors import NEVER_ROSE, first_order_point, second_order_minimum
from lemmata.audit.completion.held_out.error import ENTRY_CLAIMS
from lemmata.audit.completion.optimality.global_optimum import SHORT, top_singular_value
from lemmata.audit.completion.optimality.nuclear_norm import orthonormal
from lemmata.audit.completion.statements import SOUND, per_factor, precision, problem_of
from lemmata.audit.kernel import claims
from lemmata.audit.kernel.attributes import discrepancy, statements_true
from lemmata.audit.kernel.lanczos import products_for

Array = np.ndarray
NEAR = 1e-3  # of the least residual: as good as the best
STRENGTH = 0.9  # of what the known entries ask for
DRIFT = 0.1  # of ‖u‖² + ‖v‖²
GAIN = 0.1  # of ‖D‖²/2η: the least gain of an accepted step; a step of length 1/ρ in the tangent space gains all of it
TANGENT = 1e-3  # of the loss: what another step may gain
FIXED = 1e-3  # of ‖X‖
ACCURACY = 1e-3  # of σ₁: how far Lanczos's bound may lie above it

# --- the best matrix of rank k ----------------------------------------------------------------------------------------


def _singular_vectors(U: Array, V: Array) -> tuple[Array, Array, Array]:
    """P, σ, Q of UVᵀ, without directions of rounding errors."""
    (left, R), (right, T) = np.linalg.qr(U), np.linalg.qr(V)
    W, s, Zt = np.linalg.svd(R @ T.T)
    keep = s > max(len(U), len(V)) * np.finfo(np.float64).eps * s.max(initial=0.0)
    return left @ W[:, : len(s)][:, keep], s[keep], right @ Zt[: len(s)][keep].T


def _leading_squares(F, Q: Array, k: int) -> tuple[float, float, float]:
    """Bounds on Σ_{i≤k} σ_i(F)² from below and above, and the risk of the latter; Q: columns that might span the best ones."""
    FQ = F @ Q
    H = FQ.T @ FQ
    h = np.linalg.eigvalsh(H)
    top = top_singular_value(F, (FQ, Q), ACCURACY)
    above = top.bound**2
    B = F.T @ FQ - Q @ H
    coupling = float(np.linalg.norm(B, "nuc")) if B.size else 0.0
    gap = float(h.min(initial=np.inf)) - above
    loose = float(np.maximum(h, above).sum()) + coupling
    tight = float(h.sum() + np.linalg.norm(B) ** 2 / gap) if gap > 0 and h.size else np.inf
    missing = k - Q.shape[1]  # a fit of lower rank leaves room for more
    return float(h.sum()), min(loose, tight) + missing * above, top.risk


def _best(fit: claims.Fit, residual: float) -> claims.Evidence:
    """‖F − X‖² against the tail of the spectrum: from the fit's own columns, then from what a search finds better."""
    problem = problem_of(fit)
    F, k = problem.on_entries(problem.target), problem.rank
    whole = float(problem.target @ problem.target)
    slack = claims.rounding(precision(fit), terms=fit.data.n_observed) * whole
    advice = "lower tol or raise max_iter: it had not converged"
    if k >= min(F.shape) or whole == 0:
        return _excess(residual, 0.0, slack, advice)
    if min(F.shape) <= SHORT:
        narrow = F if F.shape[1] <= F.shape[0] else F.T
        squares = np.linalg.eigvalsh((narrow.T @ narrow).toarray())[-k:]
        return _excess(residual, whole - float(squares.sum()), slack, advice)
    below, above, risk = _leading_squares(F, _singular_vectors(*problem.at[:2])[2], k)
    if residual > (1 + NEAR) * (whole - above) + slack:
        triplets = fit.witness("singular_triplets", F, k)
        if triplets is not None:
            found = _leading_squares(F, np.linalg.qr(triplets[2][:, :k])[0], k)
            below, above, risk = max(below, found[0]), min(above, found[1]), max(risk, found[2])
    if residual > (1 + NEAR) * (whole - below) + slack:
        return _excess(residual, whole - below, slack, advice)  # a better one was seen
    if residual > (1 + NEAR) * (whole - above) + slack:
        off = residual / max(whole - above, slack) - 1
        return claims.unknown(f"its error is {off:.1e} above a bound on the least")
    best = _excess(residual, whole - above, slack, advice)
    return replace(best, kind=claims.STATISTICAL if risk else claims.PROVED, confidence=1 - risk)


def _excess(residual: float, least: float, slack: float, advice: str) -> claims.Evidence:
    over = max(residual - slack, 0.0)
    share = over / least - 1 if least > 0 else (np.inf if over > 0 else 0.0)
    return claims.at_most(max(share, 0.0), NEAR, advice, unit="error / least − 1")


def _spectrum_cost(fit: claims.Fit) -> float:
    """A Gram matrix and its eigenvalues, or some hundred products for Lanczos, twice."""
    side, entries, k = min(fit.data.shape), fit.data.n_observed, np.shape(fit.U_)[1]
    if side <= SHORT:
        return entries * min(side, entries / max(fit.data.shape)) + 0.12 * side**3  # as measured
    q = products_for(2 * ACCURACY, side)
    return 2 * q * (4 * entries + (4 * k + 2 * q) * side)


@claims.proved(
    "within 0.1 % of the least error that any rank-k approximation of the filled matrix has",
    "CIL 2.3.4, Thm 2.3.4",
    cost=_spectrum_cost,
)
def best_of_filled(fit):
    """‖F − X‖² = ‖F‖² − 2⟨F, X⟩ + ‖X‖² against the tail Σ_{i>k} σ_i(F)² (Eckart–Young); the fill is taken off both."""
    problem = problem_of(fit)
    whole, cross = (float(problem.target @ x) for x in (problem.target, problem.fitted))
    return _best(fit, max(whole - 2 * cross + problem.energy, 0.0))


def _refit_cost(fit: claims.Fit) -> float:
    k = np.shape(fit.U_)[1]
    return 4.0 * fit.data.n_observed * k * k + 20.0 * sum(fit.data.shape) * k**3


@claims.rule_of_thumb(
    "predictions of unknown entries are at least 0.9 times as far from the fill as the known entries suggest",
    "CIL 2.3.4",
    cost=_refit_cost,
)
def not_pulled_to_the_fill(fit):
    """Predictions x̂ of unknown entries, beside what one sweep on the known entries alone makes of them, x′ = u′_iᵀv′_j:

        strength = ‖x̂‖² / ⟨x̂, x′⟩ on the unknown entries,      u′: least squares with V,  v′: with U′

    Both are compared at the same entries, so it does not matter which are missing. If its energy lies everywhere alike, an SVD
    of the filled matrix has about the strength p, the share of known entries; a fit with many factors that predicts the fill
    where nothing is known has less.
    """
    problem = problem_of(fit)
    (n, m), (U, V) = fit.data.shape, problem.at[:2]
    unknown_entries = n * m - fit.data.n_observed
    if not unknown_entries or not problem.target.any():
        note = "" if unknown_entries else "nothing was filled in"
        return claims.at_least(1.0, STRENGTH, unit="strength", note=note)
    F = problem.on_entries(problem.target)
    rows = _least_squares(F, V)
    columns = _least_squares(F.T.tocsr(), rows)
    known = products_at(F.indptr, F.indices, rows, columns)
    own = problem.energy - float(problem.fitted @ problem.fitted)
    asked = float(np.vdot(U.T @ rows, V.T @ columns)) - float(problem.fitted @ known)
    # differences of large numbers: below rounding, the unknown entries are predicted as the fill
    seen = own > claims.rounding(np.float64, F.nnz) * problem.energy and asked > 0
    strength = own / asked if seen else 0.0
    advice = "leave unknown entries out instead of filling them in: ALS, SoftImpute or SingularValueProjection"
    note = f"{unknown_entries / (n * m):.0%} of the matrix was filled in"
    return claims.at_least(strength, STRENGTH, advice, unit="strength", note=note)


def _least_squares(F: sp.csr_array, V: Array) -> Array:
    """For every row of F, the shortest u with the least Σ (f_ij − uᵀv_j)² over its entries."""
    k = V.shape[1]
    known = sp.csr_array((np.ones(F.nnz), F.indices, F.indptr), shape=F.shape)
    grams = (known @ (V[:, :, None] * V[:, None, :]).reshape(-1, k * k)).reshape(-1, k, k)
    return (np.linalg.pinv(grams, rcond=1e-10, hermitian=True) @ (F @ V)[:, :, None])[:, :, 0]


# --- one factor -------------------------------------------------------------------------------------------------------


@claims.proved(
    "within 0.1 % of the least loss of any rank-one matrix: the leading singular pair",
    "CIL (2.26)",
    cost=_spectrum_cost,
)
def leading_singular_pair(fit):
    """‖A − uvᵀ‖² against the tail ‖A‖² − σ₁²; only a matrix known everywhere has such a theorem."""
    if fit.data.n_observed < fit.data.shape[0] * fit.data.shape[1]:
        why = "the best rank-one matrix is NP-hard to find where entries are unknown (CIL 2.3.5)"
        return claims.unknown(why)
    return _best(fit, 2 * problem_of(fit).loss)


@claims.proved(
    "the loss fell by at least 99.9 % of ½σ₁², what leaving the saddle at 0 along the leading pair gains",
    "CIL (2.18)",
    cost=_spectrum_cost,
)
def left_the_saddle(fit):
    """At 0 the Hessian has the eigenvalues ±σ_i(Π_Ω A). Along the leading pair (p, q) the loss can fall by

    ½σ₁² / ‖Π_Ω(pqᵀ)‖² ≥ ½σ₁²,   so a gain below that has not even used the first direction of escape.

    σ₁ lies between a Rayleigh quotient and a bound, by LAPACK or Lanczos: the bound decides whether the claim holds, the
    quotient whether it fails.
    """
    problem = problem_of(fit)
    zero = 0.5 * float(problem.target @ problem.target)
    gain = zero - problem.loss + claims.rounding(precision(fit), terms=fit.data.n_observed) * zero
    top = top_singular_value(problem.on_entries(problem.target), accuracy=ACCURACY / 4)
    least, most = (0.5 * (1 - NEAR) * x**2 for x in (top.sigma, top.bound))
    advice, unit = "lower tol and raise max_iter", "(ℓ(0) − ℓ(u, v)) / ½σ₁²"
    if top.bound == 0:
        return claims.at_least(1.0, 1 - NEAR, unit=unit, note="there is no way down")
    if least <= gain < most:
        between = f"{top.sigma:.6g} and {top.bound:.6g}"
        return claims.unknown(f"σ₁ lies between {between}: too wide to tell")
    share = (1 - NEAR) * gain / (most if gain >= most else least)
    kind = claims.STATISTICAL if top.risk and gain >= most else claims.PROVED
    return claims.at_least(share, 1 - NEAR, advice, unit, kind=kind, confidence=1 - top.risk)


@claims.rule_of_thumb(
    "the steps followed the flow: ‖u‖² − ‖v‖² changed by less than 10 % of ‖u‖² + ‖v‖²",
    "CIL 2.2.4",
    about="run",
)
def balance_conserved(fit):
    """The drift over the run, as a share of ‖u‖² + ‖v‖². A long step ends elsewhere than the flow would have."""
    if "imbalance" not in fit.trace or fit.data.density == 1:
        return claims.unknown("power steps are no flow")
    sizes = fit.trace.extras.get("size", np.ones(len(fit.trace)))
    differences = fit.trace.extras["imbalance"] * sizes
    drift = float((np.abs(differences - differences[0]) / np.where(sizes > 0, sizes, 1)).max())
    advice = "the flow may have led to another point; harmless if the claims on the result hold"
    return claims.at_most(drift, DRIFT, advice, unit="drift")


# --- projections onto rank k ------------------------------------------------------------------------------------------


@claims.proved(
    "every step gained at least a tenth of ‖D‖²/2η, so that the moves D tend to 0",
    "CIL (2.39)",
    about="run",
)
def steps_in_range(fit):
    """The least gain of a step as a share of ‖D‖²/2η. η ≤ 1 makes it at least 1 − η; at zero nothing ensures convergence.

    Gains add up to at most f(0): with a share c > 0 of each, Σ‖D‖²/2η ≤ f(0)/c.
    """
    if "gain" not in fit.trace:
        return claims.unknown("the trace has no gains")
    advice = "lower step_size: up to 1 the loss cannot rise; or leave it 'auto'"
    least = float(fit.trace.extras["gain"].min())
    return claims.at_least(least, GAIN, advice, unit="least gain / (‖D‖²/2η)")


@claims.rule_of_thumb(
    "a first-order point among rank-k matrices: the best step along the tangent space gains less than 0.1 % of the loss",
    "CIL (2.39)",
    cost=per_factor(20),
)
def first_order_on_manifold(fit):
    """Along T = P_T G, f falls by ½‖T‖⁴/‖Π_Ω T‖², to first order: a share cos²∠(G, Π_Ω T) of f = ½‖G‖².

    It does not depend on how X is factored. Where X has lower rank than k, it may also move out along any pqᵀ, which gains σ²
    of ‖G‖² for each further direction; σ of what P_T leaves of G. So X = 0 is no way to vanish.
    """
    problem = problem_of(fit)
    G, (P, _, Q) = problem.S, _singular_vectors(*problem.at[:2])
    size = float(G.data @ G.data)
    values = fit.data.values.astype(np.float64) / problem.unit
    noise = (2 * claims.rounding(precision(fit), terms=problem.rank)) ** 2
    if size <= noise * float(values @ values):
        note = "the known entries are met to rounding"
        return claims.at_most(0.0, TANGENT, unit="gain / loss", note=note)
    left, right = G.T @ P, G @ Q
    outside = right - P @ (P.T @ right)
    thin = np.hstack([P, outside]), np.hstack([left, Q])
    known = products_at(problem.indptr, problem.indices, *thin)
    squares, seen = float(np.sum(left**2) + np.sum(outside**2)), float(known @ known)
    share = squares**2 / (seen * size) if seen > 0 else 0.0
    missing = min(problem.rank, *G.shape) - P.shape[1]
    if missing > 0:
        share += missing * top_singular_value(G, thin, accuracy=0.1).sigma ** 2 / size
    advice = "not converged: lower tol and raise max_iter"
    return claims.at_most(share, TANGENT, advice, unit="gain / loss")


def _another_step_cost(fit: claims.Fit) -> float:
    """ARPACK: some ten rounds."""
    (n, m), k = fit.data.shape, np.shape(fit.U_)[1]
    return 10 * (2 * k + 20) * (2 * fit.data.n_observed + 4 * (n + m) * (k + 10))


@claims.rule_of_thumb(
    "a fixed point: another step X ← [X + ηΠ_Ω(A − X)]_k moves X by less than 0.1 % of its norm",
    "CIL (2.39)",
    cost=_another_step_cost,
)
def fixed_point(fit):
    """‖[X + ηG]_k − X‖ / ‖X‖ with η = step_size_, by singular triplets from a search: orthonormal, and right to FIXED.

    Also fails where a direction outside of X is worth more than the last one inside, ησ₁(G) > σ_k(X): a first-order point, but
    not the best one in reach.
    """
    problem, eta = problem_of(fit), float(fit.step_size_)
    (U, V), G, k = problem.at[:2], problem.S, problem.rank
    size = float(np.sqrt(max(problem.energy, 0.0)))
    if k >= min(G.shape) or not G.data.any():
        # nothing is projected: every matrix has rank ≤ k, or nothing moves
        moved = eta * float(np.linalg.norm(G.data))
    else:
        times = (lambda x: U @ (V.T @ x) + eta * (G @ x), lambda x: V @ (U.T @ x) + eta * (G.T @ x))
        triplets = fit.witness("singular_triplets", LinearOperator(G.shape, *times, dtype=float), k)
        if triplets is None or not all(orthonormal(part) for part in triplets[::2]):
            return claims.unknown("the step was not searched for")
        P, s, Q = triplets
        off = np.linalg.norm(times[0](Q) - P * s) + np.linalg.norm(times[1](P) - Q * s)
        if not off <= FIXED * np.linalg.norm(s):
            return claims.unknown(f"the singular vectors of the step err by {off:.1e}")
        moved = _product_norm(np.hstack([P * s, -U]), np.hstack([Q, V]))
    advice = "not converged: lower tol and raise max_iter"
    share = moved / size if size > 1e-150 * moved else np.inf  # any move of 0 is a long one
    return claims.at_most(share if moved > 0 else 0.0, FIXED, advice, unit="|ΔX| / |X|")


def _product_norm(X: Array, Y: Array) -> float:
    """‖XYᵀ‖ of thin matrices, which is that of their R factors."""
    left, right = (np.asarray(np.linalg.qr(part, mode="r")) for part in (X, Y))
    return float(np.linalg.norm(left @ right.T))


# --- what they state --------------------------------------------------------------------------------------------------

FILLS = {"zero": "none"}  # other fills are called as the centring that gives them


def _filled_statements(fit: claims.Fit) -> dict[str, float]:
    """singular_values_ are those of UVᵀ, and p_iᵀFq_i of the filled matrix F without its fill; the offsets are the fill."""
    problem, found = problem_of(fit), statements.factor_statements(fit)
    fill = str(fit.get("fill", "both"))
    names = ("mean_", "row_bias_", "column_bias_", "row_scale_", "column_scale_", "U_")
    shown = {name: fit.get(name) for name in names} | {"centre": FILLS.get(fill, fill)}
    found |= dict(statements.offset_statements(claims.Fit(None, fit.data, attributes=shown)))
    P, s, Q = _singular_vectors(*problem.at[:2])
    kept = np.einsum("ik,ik->k", P, problem.on_entries(problem.target) @ Q)
    tolerance = claims.rounding(precision(fit), terms=max(problem.shape))
    wrong = discrepancy(kept, s, s.max(initial=0.0), tolerance)
    return {**found, "singular_values_ of the filled matrix": wrong}


_FILLED = (SOUND[0], statements_true(_filled_statements, cost=per_factor(8)))
_RANK_ONE = (first_order_point, left_the_saddle, second_order_minimum, NEVER_ROSE)
_PROJECTED = (first_order_on_manifold, fixed_point, steps_in_range)
IMPUTED_SVD_CLAIMS = (*_FILLED, best_of_filled, not_pulled_to_the_fill, *ENTRY_CLAIMS)
POWER_STEP_CLAIMS = (*SOUND, leading_singular_pair, *_RANK_ONE, *ENTRY_CLAIMS)
FLOW_CLAIMS = (*SOUND, *_RANK_ONE, balance_conserved, *ENTRY_CLAIMS)
PROJECTION_CLAIMS = (*SOUND, *_PROJECTED, *ENTRY_CLAIMS)
