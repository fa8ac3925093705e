"""Sparse × dense products: our kernels against SciPy's, on the matrix of the sparse PCA benchmark."""

import numpy as np

from bench.helpers.harness import compare
from bench.pca import documents
from lemmata.linalg.operators import SparseRows


def main():
    X = documents(200_000, 50_000, 50)
    A = SparseRows(X)  # large enough to be compiled
    B = np.random.default_rng(0).standard_normal((50_000, 64), dtype=np.float32)
    U = np.random.default_rng(1).standard_normal((200_000, 64), dtype=np.float32)
    work = f"{X.nnz / 1e6:.1f}M entries, 64 columns, float32: {4 * X.nnz * 64 / 1e9:.1f} GFLOP for both products"
    compare(f"Xᵀ(X B) {work}", {"lemmata": lambda: A.gram(B), "scipy": lambda: X.T @ (X @ B)})
    compare("X B", {"lemmata": lambda: A @ B, "scipy": lambda: X @ B})
    compare("Xᵀ U", {"lemmata": lambda: A.T @ U, "scipy": lambda: X.T @ U})
