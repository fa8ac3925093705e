"""Arnoldi's iteration: an orthonormal basis of the Krylov space of any square matrix, and its Ritz pairs (CIL 1.5.2).

    AQ_m = Q_m H_m + h_{m+1,m} q_{m+1} e_mᵀ          Q_m spans v, Av, …, A^{m−1}v;  H_m = Q_mᵀAQ_m is zero below its subdiagonal

From H_m y = θy the pair (θ, Q_m y) has the residual ‖AQ_m y − θQ_m y‖ = h_{m+1,m}|y_m|, for no product with A. Where A is
symmetric, H_m is tridiagonal and two vectors are enough: that is `lanczos`.

    >>> turn = np.array([[0.0, -2.0, 0.0], [2.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    >>> found = arnoldi(turn, 2, start=[1.0, 0.0, 0.0])                  # the plane that it turns is a Krylov space
    >>> found.values.round(6), bool(found.residuals.max() < 1e-12)
    (array([0.+2.j, 0.-2.j]), True)
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from lemmata.audit.optim.krylov import ARNOLDI_CLAIMS
from lemmata.core.certificate import Certificate, Fit, rounding
from lemmata.core.certification.checking import check
from lemmata.linalg import _checks as checks

Array = np.ndarray


@dataclass(frozen=True)
class ArnoldiResult:
    """Q_m, H_m and the Ritz pairs, largest |θ| first.

    values, vectors : θ (m,) and Q_m y (n, m), complex
    residuals : ‖Ax − θx‖ of each
    basis, hessenberg : Q_m (n, m) and H_m (m, m); m is smaller than asked where the space ends
    """

    values: Array
    vectors: Array
    residuals: Array
    basis: Array
    hessenberg: Array
    A: Any = field(repr=False)
    certificate_: Certificate | None = field(repr=False, default=None)


def arnoldi(A: Any, m: int, *, start: Any = None, rng: Any = None) -> ArnoldiResult:
    """Find eigenpairs of any square matrix by m products with it.

    Parameters
    ----------
    A : anything with `@` and `.shape`
    m : int
        Dimensions of the Krylov space, at most n.
    start : array (n,), optional
        v; random by default.
    rng : seed or Generator of that
    """
    A = checks.as_square(A)
    n = A.shape[0]
    m = checks.count(m, n, "m")
    v = np.random.default_rng(rng).standard_normal(n) if start is None else np.asarray(start, float)
    if v.shape != (n,) or not np.isfinite(v).all() or not v.any():
        raise ValueError(f"start has shape {v.shape}; pass {n} finite numbers that are not all 0.")
    Q, H = np.zeros((n, m + 1)), np.zeros((m + 1, m))
    Q[:, 0] = v / checks.norm(v)
    for j in range(m):
        w = checks.product(A, Q[:, j].copy())
        size = checks.norm(w)
        for _ in range(2):  # once leaves a rounding error of the size of what was removed
            part = Q[:, : j + 1].T @ w
            H[: j + 1, j] += part
            w = w - Q[:, : j + 1] @ part
        length = checks.norm(w)
        if length <= rounding(np.float64, n) * size:  # A maps the space into itself
            m = j + 1
            break
        H[j + 1, j], Q[:, j + 1] = length, w / length
    theta, Y = np.linalg.eig(H[:m, :m])
    order = np.argsort(-np.abs(theta), kind="stable")
    theta, Y = theta[order].astype(complex), Y[:, order]
    below = H[m, m - 1] if m < len(H) else 0.0
    found = ArnoldiResult(theta, Q[:, :m] @ Y, below * np.abs(Y[-1]), Q[:, :m], H[:m, :m], A)
    return replace(
        found, certificate_=check(ARNOLDI_CLAIMS, Fit(found), f"arnoldi  {n} × {n}, m = {m}")
    )
