"""The NumPy twin of compiled.py: the same mini-batches by sparse products, without a compiler."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray
TINY = np.float32(1e-30)  # below what a step has: no division by 0 where no gradient was


class PlainBatches:
    """Vectors A (features, k) and their sums of squares S (features,) while an epoch changes them."""

    def __init__(self, X: Any, A: Array, S: Array):
        self.X, self.A, self.S = X, A.copy(), S.copy()

    def gather(self, rows: Array) -> Array:
        """h_t = Σ_f x_f a_f of these rows, (t, k)."""
        return self.X[rows] @ self.A

    def descend(self, rows: Array, G: Array, rate: float) -> None:
        """Adagrad with the gradients x_tf g_t: S_f += Σ_t x_tf² ‖g_t‖²/k, then a_f −= rate Σ_t x_tf g_t / √S_f."""
        X = self.X[rows]
        used, places = np.unique(X.indices, return_inverse=True)
        X = type(X)((X.data, places, X.indptr), shape=(len(rows), len(used)))
        squares = np.einsum("ij,ij->i", G, G) / G.shape[1]
        self.S[used] += X.power(2).T @ squares
        steps = np.float32(rate) / np.sqrt(np.maximum(self.S[used], TINY))
        self.A[used] -= (X.T @ G) * steps[:, None]

    def vectors(self) -> tuple[Array, Array]:
        return self.A, self.S
