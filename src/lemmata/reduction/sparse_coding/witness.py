"""Searches for codes and atoms that claims about sparse codes ask for; what is found here is checked there.

better_codes             codes with a lower ℓ1 objective, and residuals that bound it from below
other_codes              codes as short and as close as those of a model, far from them
atoms_of_another_start   the atoms that the same estimator learns from another random_state
"""

from __future__ import annotations

import numpy as np
from sklearn.base import clone

from lemmata.audit.kernel.claims import Fit
from lemmata.audit.reduction.coded_rows import dual_values

Array = np.ndarray
STEPS = 300  # of FISTA


def better_codes(fit: Fit, X: Array, D: Array, alpha: float, positive: bool) -> tuple[Array, Array]:
    """Return, of each row, the code with the lowest ½‖x − zD‖² + α‖z‖₁ that FISTA finds, and the residual of the best bound."""
    known = ~np.isnan(X)
    x = np.where(known, X, 0.0)
    L = np.linalg.norm(D, 2) ** 2 * (1 + 1e-9) + 1e-300
    Z = Y = np.zeros((len(X), len(D)))
    codes, residuals = Z.copy(), x.copy()
    t, low, high = 1.0, np.full(len(X), np.inf), np.full(len(X), -np.inf)
    for _ in range(STEPS):
        R = np.where(known, x - Y @ D, 0.0)
        aim = Y + R @ D.T / L
        new = np.sign(aim) * np.maximum(np.abs(aim) - alpha / L, 0)
        new = np.maximum(new, 0) if positive else new
        R = np.where(known, x - new @ D, 0.0)
        rr = np.einsum("ij,ij->i", R, R)
        loss = 0.5 * rr + alpha * np.abs(new).sum(axis=1)
        H = R @ D.T
        tops = (H if positive else np.abs(H)).max(axis=1, initial=0.0)
        bound = dual_values(rr, np.einsum("ij,ij->i", x, R), tops, alpha)
        codes[loss < low], residuals[bound > high] = new[loss < low], R[bound > high]
        low, high = np.minimum(low, loss), np.maximum(high, bound)
        later = (1 + np.sqrt(1 + 4 * t * t)) / 2
        Z, Y, t = new, new + (t - 1) / later * (new - Z), later
    return codes, residuals


def other_codes(fit: Fit, X: Array, D: Array, Z: Array, close: Array) -> Array:
    """Return, of each row, the code furthest from its z that OMP finds with one atom of z forbidden; z where none is close.

    close : the error that each row may have
    """
    others = Z.copy()
    for other, x, z, most in zip(others, X, Z, close, strict=True):
        S, furthest = np.flatnonzero(z), 0.0
        for forbidden in (-1, *S):
            found = _pursue(x, D, len(S), int(forbidden))
            apart = float(np.linalg.norm(found - z))
            if apart > furthest and np.linalg.norm(x - found @ D) <= most:
                other[:], furthest = found, apart
    return others


def _pursue(x: Array, D: Array, most: int, forbidden: int) -> Array:
    """Run OMP as it is written in books."""
    S: list[int] = []
    z, r = np.zeros(len(D)), x
    for _ in range(most):
        h = np.abs(D @ r)
        h[S] = 0
        if forbidden >= 0:
            h[forbidden] = 0
        S.append(int(h.argmax()))
        z[:] = 0
        z[S] = np.linalg.lstsq(D[S].T, x, rcond=None)[0]
        r = x - z @ D
    return z


def atoms_of_another_start(fit: Fit) -> Array:
    """Fit the estimator once more from another random_state."""
    X = np.concatenate([np.asarray(rows) for rows, _ in fit.data])
    seed = fit.random_state
    seed = int(seed) + 1 if isinstance(seed, (int, np.integer)) else 1
    again = clone(fit.model).set_params(random_state=seed)
    weights = {} if fit.weights is None else {"sample_weight": fit.weights}
    return np.asarray(again.fit(X, **weights).components_)
