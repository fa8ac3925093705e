"""Distance of given vectors from the leading eigenvectors of S, and what they lose against them.

Where the whole spectrum is known, angles and errors are compared as they are. Where it is known in part (spectra.py), both are
bounded from either side: a verdict is given where the bounds agree. What rounding in the float type of the components
explains is no failure: their solver saw rows Y + E, ‖E‖ ≤ `moved`, and axes of Y + E turn by at most ‖E‖ over the gap between
singular values (Wedin 1972), while their error is at most (√least + 2‖E‖)².
"""

from __future__ import annotations

import math

import numpy as np
import scipy.linalg

from lemmata.audit.kernel.claims import STATISTICAL, Evidence, at_most, rounding, unknown
from lemmata.audit.reduction.spectra import Around, ScaledRows, Spectrum

Array = np.ndarray

EXCESS = 0.01  # of the least error possible
AXIS = 1.0  # degrees between a component and its principal axis


def _strength(known: Spectrum) -> dict:
    """Return the kind of a verdict: Lanczos and random vectors leave a risk, the whole spectrum of S proves."""
    return {"kind": STATISTICAL, "confidence": 1 - known.risk} if known.risk else {}


def _strength_of_failure(known: Spectrum) -> dict:
    """A failure needs no ceiling, so that only what was found of another matrix than S leaves a doubt."""
    return _strength(known) if known.away else {}


# --- the error --------------------------------------------------------------------------------------------------------


def compare_error(error: float, facts: Around, known: Spectrum) -> Evidence:
    """The error of a projection onto the components against the least possible, the tail of the spectrum Σ_{j>k} λ_j."""
    k, d = facts.C.shape
    least, most = _tail(facts, known)
    floor = (1 + max(d - k, 0)) * facts.noise
    explained = (math.sqrt(max(most, 0.0)) + 2 * facts.moved) ** 2
    advice = "the solver has not converged, or this is not its training data: lower tol, raise max_iter, or use an exact solver"
    if k >= d:  # the least is 0, and CᵀC = I + E loses ‖E‖² of the variance at most
        bound = floor / facts.total + rounding(facts.dtype, d) ** 2
        if error <= bound * facts.total or error > explained:
            return at_most(error / facts.total, bound, advice, unit="lost share")
    if error <= max(floor / EXCESS, explained) and least <= floor / EXCESS:
        return unknown("what is left out is below rounding, so it cannot be compared")
    lower, upper = (error / max(tail, floor) - 1 for tail in (most, least))
    if lower > EXCESS and error > explained:
        doubt = _strength_of_failure(known)
        return at_most(lower, EXCESS, advice, unit="error / least − 1", **doubt)
    if upper <= EXCESS:
        return at_most(upper, EXCESS, advice, unit="error / least − 1", **_strength(known))
    return unknown(f"between {max(lower, 0):.2g} and {upper:.2g} above the least error")


def compare_offset(rows: ScaledRows, offset: float, size: float, advice: str) -> Evidence:
    """The best constant to add to a reconstruction, of this length, against what rounding makes of a mean."""
    scale = size * math.sqrt(rows.square)
    bound = 8 * math.sqrt(rows.data.shape[0]) * rows.eps
    return at_most(offset / scale if scale > 0 else 0.0, bound, advice, unit="best offset / scale")


def _tail(facts: Around, known: Spectrum) -> tuple[float, float]:
    """Bounds on the least error. Where the spectrum is known in part, eigenvalues are known from below, and from above thus:

    Let A = QᵀSQ for an orthonormal basis Q of the components, R = SQ − QA, α its least eigenvalue, and μ ≥ those of S outside.
    A k-dimensional subspace at angles with sines s to Q gains at most −(α − μ)Σs² + 2‖R‖√Σs² ≤ ‖R‖²/(α − μ) over it. And by
    Ky Fan, of the eigenvalues α_i of A at most Σ max(α_i, μ) − α_i, and the nuclear norm ‖R‖_*.
    """
    k = len(facts.C)
    if known.whole:
        tail, slack = float(known.values[k:].sum()), known.slack(facts)
        return tail - slack, tail + slack
    inside, residual = _inside(facts)
    gap = inside[-1] - known.ceiling
    gain = float(np.sum(residual**2)) / gap if gap > 0 else math.inf
    captured, room = float(inside.sum()), float(np.maximum(known.ceiling - inside, 0).sum())
    gain = min(gain, room + float(np.linalg.norm(residual, "nuc")))
    return facts.total - captured - gain, facts.total - max(captured, float(known.values[:k].sum()))


def _inside(facts: Around) -> tuple[Array, Array]:
    """Eigenvalues of S within the span of the components, descending, and what S adds outside of it."""
    Q, R = np.linalg.qr(facts.C.T)
    SQ = scipy.linalg.solve_triangular(R.T, facts.SC.T, lower=True).T
    A = Q.T @ SQ
    return np.linalg.eigvalsh((A + A.T) / 2)[::-1], SQ - Q @ A


# --- the axes ---------------------------------------------------------------------------------------------------------


def compare_axes(facts: Around, known: Spectrum) -> Evidence:
    """The angle between component i and eigenvector i, for the worst i."""
    lower, upper = (_axis_angles if known.whole else _axis_bounds)(facts, known)
    i = int(lower.argmax())
    advice = (
        "turned within its subspace, in the wrong order, or not converged: lower tol, raise max_iter, use an exact solver, "
        "or, where two variances nearly agree, read the subspace and not its axes"
    )
    if lower[i] > AXIS:
        doubt = _strength_of_failure(known)
        return at_most(lower[i], AXIS, advice, unit=f"axis {i + 1}, degrees", **doubt)
    i = int(upper.argmax())
    if upper[i] <= AXIS:
        return at_most(upper[i], AXIS, advice, unit=f"axis {i + 1}, degrees", **_strength(known))
    return unknown(f"axis {i + 1}: its variance and the next agree to what is known")


def _axis_angles(facts: Around, known: Spectrum) -> tuple[Array, Array]:
    """The angle between each component and the eigenvector of its rank, ± what rounding turns that by (noise over gap)."""
    k = len(facts.C)
    units = facts.C / np.linalg.norm(facts.C, axis=1, keepdims=True)
    U = known.vectors[:, :k].T
    cosines = np.abs(np.sum(units * U, axis=1))
    off = units - np.sum(units * U, axis=1, keepdims=True) * U
    angles = np.arctan2(np.linalg.norm(off, axis=1), cosines)
    steps = np.concatenate([[np.inf], -np.diff(known.values), [np.inf]])
    gaps = np.minimum(steps[:-1], steps[1:])[:k]  # from each eigenvalue to the nearest other one
    # of W for S by ‖S − W‖ over what is left of the gap, which is half of it or more where this is below 90°
    off_by = facts.noise + 2 * known.away
    errors = np.arcsin(np.minimum(off_by / np.maximum(gaps, 1e-300), 1.0))
    steps = np.concatenate([[np.inf], -np.diff(np.sqrt(np.maximum(known.values, 0))), [np.inf]])
    gaps = np.minimum(steps[:-1], steps[1:])[:k]
    explained = np.arcsin(np.minimum(facts.moved / np.maximum(gaps, 1e-300), 1.0))
    return np.degrees(angles - np.maximum(errors, explained)), np.degrees(angles + errors)


def _axis_bounds(facts: Around, known: Spectrum) -> tuple[Array, Array]:
    """Bounds where only a ceiling μ of what lies outside is known, with θ = cᵀSc, r = ‖Sc − θc‖ of a unit vector c.

    sin∠ ≤ r / min_{j≠i}|θ_i − λ_j| (Davis & Kahan). Among the components λ_j is in [α_j, α_j + e], beyond it at most μ + e,
    e = 2σ²/(η + √(η² + 4σ²)), σ = ‖R‖, η = α_k − μ (Li & Li 2005). And sin∠ ≥ r/λ₁; and a component within 1° of axis i has
    θ ≥ cos²(1°)·λ_i, where λ_i is at least the i-th Ritz value of any space.
    """
    lengths = np.linalg.norm(facts.C, axis=1)
    theta = np.diagonal(facts.inner) / lengths**2
    r = np.linalg.norm(facts.SC / lengths - facts.C.T / lengths * theta, axis=0)
    inside, residual = _inside(facts)
    sigma, eta = float(np.linalg.norm(residual, 2)), inside[-1] - known.ceiling
    most = max(inside[0], known.ceiling) + sigma
    lower = np.degrees(np.arcsin(np.minimum(np.maximum(r - facts.noise, 0) / most, 1)))
    slant = math.radians(AXIS)
    least = math.cos(slant) ** 2 * known.values[: len(theta)]
    least += math.sin(slant) ** 2 * min(known.lowest, 0.0)
    lower = np.where(theta + facts.noise < least, 90.0, lower)
    if eta <= 0:
        return lower, np.full(len(r), 90.0)
    e = 2 * sigma**2 / (eta + math.hypot(eta, 2 * sigma)) + facts.noise
    distance = np.abs(theta[:, None] - inside)
    np.fill_diagonal(distance, np.inf)
    gap = np.minimum(distance.min(axis=1), theta - known.ceiling) - e
    with np.errstate(divide="ignore", invalid="ignore"):
        sine = np.where(gap > 0, (r + facts.noise) / gap, 1.0)
    return lower, np.degrees(np.arcsin(np.minimum(sine, 1.0)))


def own_angle(facts: Around, known: Spectrum) -> float:
    """Degrees between the components' span and the principal subspace, as far as it is known."""
    Q, _ = np.linalg.qr(facts.C.T)
    U = known.vectors[:, : Q.shape[1]]
    sine = float(np.linalg.norm(Q - U @ (U.T @ Q), 2))
    return float(np.degrees(np.arcsin(min(sine, 1.0))))
