"""The worst case of a linear classifier in a ball, exactly: no search needed.

    min_δ m(x + δ) = min_{j ≠ y} (w_y − w_j)ᵀx + b_y − b_j − max_δ (w_j − w_y)ᵀδ           max_δ = ε‖w_y − w_j‖_q without a box

Inside the box, ball.maximise gives δ: endpoints in ℓ∞, one multiplier in ℓ2, the steepest coordinates first in ℓ1.
"""

from __future__ import annotations

import numpy as np

from lemmata.trust.robust.ball import Perturbations

Array = np.ndarray


def worst_case(W: Array, b: Array, X: Array, y: Array, ball: Perturbations) -> tuple[Array, Array]:
    """Return (the least margin of s = Wx + b in the ball around each row, where it is reached)."""
    X = np.asarray(X, dtype=np.float64)
    least, rows = np.full(len(X), np.inf), X.copy()
    for j in range(len(W)):
        G = W[j] - W[y]
        delta = ball.maximise(G, X)
        m = b[y] - b[j] - np.einsum("nd,nd->n", G, X + delta)
        better = (m < least) & (y != j)
        least[better], rows[better] = m[better], (X + delta)[better]
    return least, rows
