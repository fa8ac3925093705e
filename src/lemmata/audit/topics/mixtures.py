"""The mixture θ of a document that its words and the prior together like best, with topics fixed.

    maximise  F(θ) = Σ_t ln Σ_c θ_c φ_{c w_t} + Σ_c α_c ln θ_c        over the simplex: concave, so there is one

Its step of EM, θ_c ∝ α_c + Σ_t q_tc with q_tc ∝ θ_c φ_{c w_t}, cannot lower F. (The prior density of θ has the exponent α − 1;
that of ln θ has α, and its mode is a mean of counts, never 0.)
"""

from __future__ import annotations

import numpy as np

Array = np.ndarray
STEPS = 30
BLOCK = 2**20  # numbers at a time


def best_mixtures(
    words: Array, inside: Array, phi: Array, alpha: Array, steps: int = STEPS
) -> Array:
    """θ (n, k) of rows of words (n, T), of which those `inside` count. phi : (m, k), its rows may be scaled."""
    n, k = len(words), len(alpha)
    theta = np.tile(alpha / alpha.sum(), (n, 1))
    size = max(1, BLOCK // (k * max(words.shape[1], 1)))
    for start in range(0, n, size):
        rows = slice(start, start + size)
        likely = phi[words[rows]] * inside[rows, :, None]  # (rows, T, k)
        here = theta[rows]
        for _ in range(steps):
            p = np.matmul(likely, here[:, :, None])[:, :, 0]
            shares = np.where(p > 0, 1 / np.where(p > 0, p, 1), 0.0)
            gained = np.matmul(shares[:, None, :], likely)[:, 0]
            here = alpha + here * gained
            here /= here.sum(axis=1, keepdims=True)
        theta[rows] = here
    return theta
