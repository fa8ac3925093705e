"""Claims about eigenpairs of any square matrix, symmetric or not: each pair's residual, measured again.

    r = ‖Ax − θx‖,  ‖x‖ = 1:       θ is an eigenvalue of A − (Ax − θx)x*, which is r away from A

A symmetric A has an eigenvalue within r of θ itself; another one may not, if its eigenvectors are nearly parallel.
"""

from __future__ import annotations

import numpy as np

from lemmata.audit.kernel import claims as k

SOURCE = "CIL 1.5.2; Arnoldi 1951"
SMALL = 1e-8  # of the size of the matrix, as its products show it


@k.fact(cost=lambda fit: 2.0 * np.size(fit.vectors))
def measure(fit: k.Fit) -> tuple[np.ndarray, float]:
    """Return ‖Ax − θx‖ of each pair, and the largest ‖Ax‖: how large A is seen to be."""
    X, theta = np.asarray(fit.vectors, complex), np.asarray(fit.values, complex)
    with np.errstate(divide="ignore", invalid="ignore"):
        X = X / np.linalg.norm(X, axis=0)
    AX = np.asarray(fit.A @ np.ascontiguousarray(X.real)) + 1j * np.asarray(
        fit.A @ np.ascontiguousarray(X.imag)
    )
    size = max(float(np.linalg.norm(AX, axis=0).max()), float(np.abs(theta).max()))
    return np.linalg.norm(AX - X * theta, axis=0), size


@k.proved("each pair has the residual that is stated", SOURCE, needs=(measure,))
def residuals_stated(fit):
    found, size = measure(fit)
    terms = fit.A.shape[0] + np.size(fit.values)
    apart = float(np.max(np.abs(found - np.asarray(fit.residuals))))
    bound = k.rounding(np.float64, terms) * size
    return k.at_most(apart, bound, "A is not the matrix of the run", "difference of a residual")


@k.rule_of_thumb(
    "each is an eigenvalue of a matrix within 1e-8 of the size of this one",
    SOURCE,
    needs=(measure,),
)
def eigenpairs_close(fit):
    found, size = measure(fit)
    advice = "raise m, or restart from the sum of the vectors that are wanted"
    return k.at_most(float(found.max()), SMALL * size, advice, "|Ax − θx|")


ARNOLDI_CLAIMS = (residuals_stated, eigenpairs_close)
