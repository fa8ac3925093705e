"""The claim about logistic regression whose scores may covary with the group only so far: weak duality.

    minimise  P(w, b) = Σ sᵢ ln(1 + exp(−y′ᵢ fᵢ)) + ½ λ‖w‖²,   f = Xw + b,   Σ s = 1,       with |cₖᵀw| ≤ bound
    D(p, ν)   = Σ sᵢ H(pᵢ) − ‖Σ sᵢ (pᵢ − yᵢ) xᵢ + Cᵀν‖²/2λ − bound ‖ν‖₁ ≤ P              with Σ s (p − y) = 0

cₖ = Σ sᵢ (1[aᵢ = k] − P(k)) xᵢ, so cₖᵀw is the covariance of score and group; for odds it is taken within Y = 0 and Y = 1. Any
p in [0, 1] and any ν are a proof, as ln(1 + e^f) − yf is the largest (p − y)f + H(p), H the entropy.
"""

from __future__ import annotations

import numpy as np
from scipy.special import expit, xlogy

from lemmata.audit.kernel import claims as k

Array = np.ndarray

NEAR = 1e-6  # nats a row


def covariance_rows(X: Array, y: Array, codes: Array, s: Array, criterion: str) -> Array:
    """Return C, a row for each group (but the last), and for odds and each outcome: Cw are the covariances."""
    parts = [np.ones(len(y), bool)] if criterion == "parity" else [y == 0, y == 1]
    rows = []
    for part in parts:
        weights = np.where(part, s, 0.0)
        for group in range(codes.max()):  # those of all groups add up to 0
            share = weights[codes == group].sum() / weights.sum()
            rows.append((weights * ((codes == group) - share)) @ X)
    return np.array(rows).reshape(-1, X.shape[1])


def loss_of(X: Array, y: Array, s: Array, lam: float, w: Array, b: float) -> float:
    """P(w, b)."""
    f = X @ w + b
    return float(s @ (np.logaddexp(0, f) - y * f) + lam / 2 * (w @ w))


def lower_bound(fit: k.Fit, C: Array) -> float:
    """D at p = σ(f), moved so that its mean is that of y, and the multipliers of the fit."""
    X, y, s = fit.X, fit.y, fit.s
    p = expit(X @ fit.w + fit.b)
    mean, base = float(s @ p), float(s @ y)
    p = p * (base / mean) if mean > base else 1 - (1 - p) * ((1 - base) / (1 - mean))
    nu = np.asarray(fit.multipliers, np.float64)
    slope = (s * (p - y)) @ X + C.T @ nu
    entropy = -(xlogy(p, p) + xlogy(1 - p, 1 - p))
    return float(s @ entropy - slope @ slope / (2 * fit.lam) - fit.bound * np.abs(nu).sum())


@k.proved(
    "the covariances are within the bound, and by its multipliers no weights that keep it have a loss lower by 1e-6",
    "ML How to achieve fairness criteria; weak duality",
)
def bounded_fit_optimal(fit):
    """The duality gap, or by how much a covariance is beyond the bound, whichever is larger."""
    C = covariance_rows(fit.X, fit.y, fit.codes, fit.s, fit.criterion)
    loss = loss_of(fit.X, fit.y, fit.s, fit.lam, fit.w, fit.b)
    beyond = float(np.abs(C @ fit.w).max(initial=0.0)) - fit.bound
    gap = max(loss - lower_bound(fit, C), beyond)
    note = f"loss {loss:.6f} a row, largest covariance {fit.bound + beyond:.4g}"
    return k.at_most(gap, NEAR, "raise max_iter, or bound", unit="gap", note=note)


BOUNDED_CLAIMS = (bounded_fit_optimal,)
