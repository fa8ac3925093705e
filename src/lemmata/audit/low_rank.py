"""What theory promises about completions by one factor, by a filled matrix and by projections, checked by plain code.

Where every entry is known, Eckart and Young say what the best matrix of rank k costs: the tail of the spectrum. Where not, a
first-order point among the matrices of rank k and the way out of the saddle at 0 can still be checked.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse.linalg import LinearOperator, svds

from lemmata.audit.entries import IDENTIFIABLE
from lemmata.audit.factors import factored, first_order_point, never_rose, second_order_minimum
from lemmata.audit.heldout import held_out_error
from lemmata.core.certificate import (
    RULE_OF_THUMB,
    Fit,
    at_least,
    at_most,
    claim,
    passes,
    rounding,
    unknown,
)

Array = np.ndarray
NEAR = 1e-3  # of the least residual: as good as the best
STRENGTH = 0.9  # of what the known entries ask for
DRIFT = 0.1  # of ‖u‖² + ‖v‖²
GAIN = 0.1  # of ‖D‖²/2η: the least gain of an accepted step; a step of length 1/ρ in the tangent space gains all of it
TANGENT = 1e-3  # of ‖Π_Ω A‖
FIXED = 1e-3  # of ‖X‖

# --- a filled matrix --------------------------------------------------------------------------------------------------


def _energy(fit: Fit) -> float:
    """‖UVᵀ‖² over all entries, known or not."""
    U, V = factored(fit).at[:2]
    return float(np.vdot(U.T @ U, V.T @ V))


@claim(
    "the best rank-k approximation of the filled matrix, to 0.1 %",
    kind=RULE_OF_THUMB,
    source="CIL 2.3.4, Thm 2.3.4",
    cost=passes(),
)
def best_of_filled(fit):
    """‖F − X‖² = ‖F‖² − 2⟨F, X⟩ + ‖X‖² against the tail Σ_{i>k} σ_i(F)² (Eckart–Young), σ by ARPACK; fill taken off both."""
    problem = factored(fit)
    F, k = problem.on_entries(problem.target), problem.rank
    whole = float(problem.target @ problem.target)
    left = max(whole - 2 * float(problem.target @ problem.fitted) + _energy(fit), 0.0)
    if k >= min(F.shape) or whole == 0:
        least = 0.0
    else:
        start = np.random.default_rng(0).standard_normal(min(F.shape))
        least = max(
            whole - float((svds(F, k, v0=start, return_singular_vectors=False) ** 2).sum()), 0.0
        )
    slack = rounding(np.asarray(fit.U_).dtype, terms=fit.data.n_observed) * whole
    advice = "lower tol or raise max_iter: Lanczos had not converged"
    return at_most(left, (1 + NEAR) * least + slack, advice, unit="‖F − X‖²")


@claim(
    "the fill does not pull predictions to itself by over 10 %",
    kind=RULE_OF_THUMB,
    source="CIL 2.3.4",
)
def not_pulled_to_the_fill(fit):
    """How large predictions of unknown entries are, beyond the fill, compared with what the known entries ask for:

        strength = rms(x̂ on unknown) / rms(s·x̂ on known),      s = ⟨x, x̂⟩_Ω / ‖x̂‖²_Ω

    s, the multiple of the fit that is best on the known entries, is ‖x̂‖² / ‖Π_Ω x̂‖² for an SVD of the filled matrix: 1/p if its
    energy lies everywhere alike. A fit with many factors has s ≈ 1 instead, but predicts the fill where nothing is known. Both
    make the strength small. It is 1 for an unbiased fit if entries are missing at random.
    """
    problem = factored(fit)
    (n, m), known = fit.data.shape, float(problem.fitted @ problem.fitted)
    elsewhere, unknown_entries = max(_energy(fit) - known, 0.0), n * m - fit.data.n_observed
    asked = float(problem.target @ problem.fitted)
    if not problem.target.any():
        strength = 1.0  # the known entries are the fill itself
    elif known == 0 or asked <= 0:
        strength = 0.0
    else:
        ratio = (
            (elsewhere / unknown_entries) / (known / fit.data.n_observed)
            if unknown_entries
            else 1.0
        )
        strength = float(np.sqrt(ratio)) * known / asked
    advice = "leave unknown entries out instead of filling them in: ALS, SoftImpute or SingularValueProjection"
    note = (
        ""
        if not unknown_entries
        else f"{unknown_entries / (n * m):.0%} of the matrix was filled in"
    )
    return at_least(strength, STRENGTH, advice, unit="strength", note=note)


# --- one factor -------------------------------------------------------------------------------------------------------


def _top(fit: Fit) -> float:
    """σ₁(Π_Ω A) of what the factors explain, by Lanczos in float64."""
    if "top" not in fit.memory:
        problem = factored(fit)
        fit.memory["top"] = _spectral_norm(problem.on_entries(problem.target))
    return fit.memory["top"]


def _at_zero(fit: Fit) -> float:
    """ℓ(0, 0)."""
    target = factored(fit).target
    return 0.5 * float(target @ target)


@claim(
    "the best rank-one matrix, to 0.1 % of its loss: the leading singular pair",
    kind=RULE_OF_THUMB,
    source="CIL (2.26)",
    cost=passes(),
)
def leading_singular_pair(fit):
    """½‖A − uvᵀ‖² against the tail ½(‖A‖² − σ₁²), σ₁ by Lanczos; only a matrix known everywhere has such a theorem."""
    n, m = fit.data.shape
    if fit.data.n_observed < n * m:
        return unknown(
            "the best rank-one matrix is NP-hard to find where entries are unknown (CIL 2.3.5)"
        )
    zero = _at_zero(fit)
    best = max(zero - 0.5 * _top(fit) ** 2, 0.0)
    slack = rounding(np.asarray(fit.U_).dtype, terms=n * m) * zero
    advice = "σ₁ and σ₂ lie close together: lower tol and raise max_iter"
    return at_most(factored(fit).loss, (1 + NEAR) * best + slack, advice, unit="loss")


@claim(
    "it left the saddle at the origin, as far as its first way out leads",
    kind=RULE_OF_THUMB,
    source="CIL (2.18)",
    cost=passes(),
)
def left_the_saddle(fit):
    """At 0 the Hessian has the eigenvalues ±σ_i(Π_Ω A). Along the leading pair (p, q) the loss can fall by

    ½σ₁² / ‖Π_Ω(pqᵀ)‖² ≥ ½σ₁²,   so a gain below that has not even used the first direction of escape.
    """
    zero, gain = _at_zero(fit), 0.5 * _top(fit) ** 2
    slack = NEAR * gain + rounding(np.asarray(fit.U_).dtype, terms=fit.data.n_observed) * zero
    advice = "lower tol and raise max_iter"
    return at_least(zero - factored(fit).loss, gain - slack, advice, unit="ℓ(0) − ℓ(u, v)")


@claim(
    "the steps followed the flow: ‖u‖² − ‖v‖² was conserved",
    kind=RULE_OF_THUMB,
    source="CIL 2.2.4",
    about="run",
)
def balance_conserved(fit):
    """The drift over the run, as a share of ‖u‖² + ‖v‖². A long step ends elsewhere than the flow would have."""
    if "imbalance" not in fit.trace or fit.data.density == 1:
        return unknown("power steps are no flow")
    imbalance = fit.trace.extras["imbalance"]
    drift = float(np.abs(imbalance - imbalance[0]).max())
    advice = "the flow may have led to another point; harmless if the claims on the result hold"
    return at_most(drift, DRIFT, advice, unit="drift")


# --- projections onto rank k ------------------------------------------------------------------------------------------


@claim(
    "every step was in the range that guarantees decrease",
    kind=RULE_OF_THUMB,
    source="CIL (2.39)",
    about="run",
)
def steps_in_range(fit):
    """The least gain of a step as a share of ‖D‖²/2η. η ≤ 1 makes it at least 1 − η; at zero nothing ensures convergence."""
    if "gain" not in fit.trace:
        return at_least(np.nan, GAIN)
    advice = "lower step_size: up to 1 the loss cannot rise; or leave it 'auto'"
    return at_least(
        float(fit.trace.extras["gain"].min()), GAIN, advice, unit="least gain / (‖D‖²/2η)"
    )


@claim(
    "a first-order point among rank-k matrices: the tangent gradient is below 1e-3",
    kind=RULE_OF_THUMB,
    source="CIL (2.39)",
    cost=passes(),
)
def first_order_on_manifold(fit):
    """‖P_T G‖ / ‖Π_Ω A‖, with bases of the column and row space of UVᵀ by QR: the same for every pair of factors."""
    problem = factored(fit)
    G, (P, Q) = problem.S, (_span(part) for part in problem.at[:2])
    GQ = G @ Q
    squares = np.linalg.norm(G.T @ P) ** 2 + np.linalg.norm(GQ - P @ (P.T @ GQ)) ** 2
    scale = max(float(np.linalg.norm(problem.target)), np.finfo(float).tiny)
    advice = "not converged: lower tol and raise max_iter"
    return at_most(float(np.sqrt(squares)) / scale, TANGENT, advice, unit="|P_T G| / |A|")


@claim(
    "a fixed point: X = [X + ηΠ_Ω(A − X)]_k to 0.1 %",
    kind=RULE_OF_THUMB,
    source="CIL (2.39)",
    cost=passes(),
)
def fixed_point(fit):
    """‖[X + ηG]_k − X‖ / ‖X‖ with η = step_size_, the SVD by ARPACK. Also fails where a direction outside of X is worth more
    than the last one inside, ησ₁(G) > σ_k(X): a first-order point, but not the best one in reach."""
    problem, eta = factored(fit), float(fit.step_size_)
    (U, V), G, k = problem.at[:2], problem.S, problem.rank
    size = float(np.sqrt(max(np.vdot(U.T @ U, V.T @ V), 0.0)))
    if k >= min(G.shape) or not G.data.any():
        # nothing is projected: every matrix has rank ≤ k, or nothing moves
        moved = eta * float(np.linalg.norm(G.data))
    else:
        Z = LinearOperator(
            G.shape,
            matvec=lambda x: U @ (V.T @ x) + eta * (G @ x),
            rmatvec=lambda x: V @ (U.T @ x) + eta * (G.T @ x),
            dtype=np.float64,
        )
        P, s, Qt = svds(Z, k, v0=np.random.default_rng(0).standard_normal(min(G.shape)))
        moved = _product_norm(np.hstack([P * s, -U]), np.hstack([Qt.T, V]))
    advice = "not converged: lower tol and raise max_iter"
    return at_most(moved / max(size, np.finfo(float).tiny), FIXED, advice, unit="|ΔX| / |X|")


def _span(X: Array) -> Array:
    """An orthonormal basis of the columns of X, without directions of rounding errors."""
    Q, s, _ = np.linalg.svd(X, full_matrices=False)
    return Q[:, s > max(X.shape) * np.finfo(np.float64).eps * s.max(initial=0.0)]


def _product_norm(X: Array, Y: Array) -> float:
    """‖XYᵀ‖ of thin matrices, which is that of their R factors."""
    left, right = (np.asarray(np.linalg.qr(part.astype(np.float64), mode="r")) for part in (X, Y))
    return float(np.linalg.norm(left @ right.T))


def _spectral_norm(A) -> float:
    """σ₁ of a sparse matrix, by LAPACK where it is small."""
    if min(A.shape) < 3 or A.shape[0] * A.shape[1] <= 2**20:
        return float(np.linalg.norm(A.toarray(), 2))
    start = np.random.default_rng(0).standard_normal(min(A.shape))
    return float(svds(A, 1, v0=start, return_singular_vectors=False)[0])


IMPUTED_SVD_CLAIMS = (best_of_filled, not_pulled_to_the_fill, *IDENTIFIABLE, held_out_error)
_RANK_ONE = (left_the_saddle, first_order_point, second_order_minimum, never_rose)
POWER_STEP_CLAIMS = (leading_singular_pair, *_RANK_ONE, *IDENTIFIABLE, held_out_error)
FLOW_CLAIMS = (*_RANK_ONE, balance_conserved, *IDENTIFIABLE, held_out_error)
PROJECTION_CLAIMS = (
    steps_in_range,
    never_rose,
    first_order_on_manifold,
    fixed_point,
    *IDENTIFIABLE,
    held_out_error,
)
