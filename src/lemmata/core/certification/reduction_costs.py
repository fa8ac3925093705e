"""Costs of fits of principal axes and sparse codes, in multiplications; the rest stands in checking.py."""

from __future__ import annotations

import numpy as np

from lemmata.audit.kernel.claims import Fit
from lemmata.core.certification.checking import count_steps

OVERSAMPLING = 10  # directions beyond k in a random start: what the last of the k would have to wait for otherwise
LANCZOS_BLOCK = 16  # a cache line of float32, which the sparse kernel takes at once; wider blocks need more columns in all
DIRECT = ("eigh", "svd")
FORM_BELOW = 4096  # features up to which the covariance is formed: 128 MB in float64
FORM_SPARSE_BELOW = 1024  # sparse Gram products fill up quickly, so the operator pays earlier


def forms_covariance(data) -> bool:
    """Whether PCA forms the covariance of this data, unless it is asked not to."""
    return data.shape[1] <= (FORM_SPARSE_BELOW if data.sparse else FORM_BELOW)


def cost_of_pca(fit: Fit) -> float:
    """Count the covariance and its eigenvectors, the SVD of few rows, or products with the data."""
    (n, d), k, size = fit.data.shape, len(fit.components_), float(fit.data.size)
    solver = fit.get("solver_", "auto")
    forms = forms_covariance(fit.data)
    if solver in DIRECT or (solver == "auto" and forms):
        return size * min(n, d) + 5 * float(min(n, d)) ** 3
    steps = count_steps(fit) if solver != "auto" else 7.0
    if forms:
        return size * d + steps * k * float(d) ** 2
    width = {"power": 1, "lanczos": LANCZOS_BLOCK}.get(solver, k + OVERSAMPLING)
    return steps * 2 * size * width


def cost_of_incremental_pca(fit: Fit) -> float:
    """Count the covariance and its eigenvectors."""
    return float(fit.data.size) * fit.data.shape[1] + 5 * float(fit.data.shape[1]) ** 3


def cost_of_truncated_svd(fit: Fit) -> float:
    """Count products with the rows."""
    width = len(fit.components_) + int(fit.get("n_oversamples", 10))
    return count_steps(fit, fit.get("n_iter", 5)) * 2 * fit.data.size * width


def cost_of_kernel_pca(fit: Fit) -> float:
    """Count the kernel matrix, and a few products with it."""
    (n, d), k = fit.data.shape, len(fit.eigenvalues_)
    return float(n) ** 2 * (d + k)


def cost_of_codes(fit: Fit) -> float:
    k, d = np.shape(fit.components_)
    return float(fit.data.shape[0]) * k * (d + 10 * max(d // 10, 1))


def cost_of_dictionary(fit: Fit) -> float:
    """Count the codes of every step."""
    return count_steps(fit) * cost_of_codes(fit)


def cost_of_tree(fit: Fit) -> float:
    """Distances of all pairs, and some passes over them."""
    return float(fit.data.shape[0]) ** 2 * (fit.data.shape[1] + 20.0)
