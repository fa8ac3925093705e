"""Roughly how many multiplications a fit took, model by model: what checking it may cost is a multiple of that.

A formula reads the data and public attributes, so it serves other libraries' fits of the same model as well, and it stands here
rather than in the model so that nobody who certifies one of those has to load our solver. The registry says which is whose.
"""

from __future__ import annotations

import numpy as np

from lemmata.core.certificate import Fit
from lemmata.core.estimator import Model

# PCA
OVERSAMPLING = 10  # directions beyond k in a random start: what the last of the k would have to wait for otherwise
LANCZOS_BLOCK = 16  # a cache line of float32, which the sparse kernel takes at once; wider blocks need more columns in all
DIRECT = ("eigh", "svd")
FORM_BELOW = 4096  # features up to which the covariance is formed: 128 MB in float64
FORM_SPARSE_BELOW = 1024  # sparse Gram products fill up quickly, so the operator pays earlier

# k-means: starts of n_init="auto" where the start is not drawn with care, as in scikit-learn
MANY_STARTS = 10
MINI_BATCH_STARTS = 3

AS_QUERIES = (
    1000  # rows that a check may ask neighbours about; what such a fit costs is next to nothing
)


def count_steps(fit: Fit, usual: int = 1) -> float:
    """Return n_iter_, the largest of several."""
    return float(np.max(fit.get("n_iter_", usual)))


# --- reduction --------------------------------------------------------------------------------------------------------


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


# --- completion -------------------------------------------------------------------------------------------------------


def cost_of_sweeps(fit: Fit, sweeps: float) -> float:
    """Count sweeps of least squares: k²/2 per entry and side by SIMD, four at a time; k³/3 per row."""
    entries, k = fit.data.n_observed, np.shape(fit.U_)[1]
    return sweeps * (entries * k * (k + 4) / 4 + sum(fit.data.shape) * k**3 / 3)


def cost_of_als(fit: Fit) -> float:
    """Count sweeps; cmfrec says how many as niter, implicit as iterations."""
    sweeps = fit.get("n_iter_") or fit.get("niter") or fit.get("iterations") or 1
    return cost_of_sweeps(fit, float(np.max(sweeps)))


# --- clusters, mixtures, parts ----------------------------------------------------------------------------------------


def cost_of_kmeans(fit: Fit) -> float:
    return _cost_of_starts(fit, MANY_STARTS)


def cost_of_mini_batch_kmeans(fit: Fit) -> float:
    return _cost_of_starts(fit, MINI_BATCH_STARTS)


def _cost_of_starts(fit: Fit, many: int) -> float:
    """Count sweeps over the rows, seeding, and distances to all centres a step; kernels (and bounds, which rule most distances
    out) take a tenth of the time that plain code takes for a multiplication."""
    starts, init = fit.get("n_init", 1), fit.get("init", "k-means++")
    if isinstance(starts, str):
        careless = callable(init) or (isinstance(init, str) and init == "random")
        starts = many if careless else 1
    centres = len(fit.cluster_centers_)
    return float(fit.data.size) * (40 + starts * centres * (2 + count_steps(fit) / 10))


def cost_of_mixture(fit: Fit) -> float:
    """Count n k (d²/7 + 2d + 10) per step with correlations, n k (1.5 d + 10) without, as measured; a start is five steps."""
    k, m = len(fit.weights_), float(fit.data.size) / max(fit.data.shape[0], 1)
    correlated = fit.get("covariance_type") in ("tied", "fixed")
    dense = np.ndim(fit.get("covariances_")) == 3 or correlated
    per_row = 0.15 * m**2 + 2 * m + 10 if dense else 1.5 * m + 10
    steps = count_steps(fit) + 5
    return steps * float(fit.get("n_init", 1)) * fit.data.shape[0] * k * per_row


def cost_of_nmf(fit: Fit) -> float:
    return Model.work(fit) * 2 * len(fit.components_)


# --- linear models ----------------------------------------------------------------------------------------------------


def cost_of_least_squares(fit: Fit) -> float:
    """Count the smaller system and its factor, or products with the data."""
    small = float(min(fit.data.shape))
    if fit.get("solver_") == "cg":
        return 4.0 * count_steps(fit) * fit.data.size
    return float(fit.data.size) * small + small**3


def cost_of_ridge_cv(fit: Fit) -> float:
    """Count the smaller system, its eigenvectors, and the rows in their axes."""
    small = float(min(fit.data.shape))
    return 2 * float(fit.data.size) * small + 9 * small**3


def cost_of_robust_regression(fit: Fit) -> float:
    """Count one weighted Gram matrix a step."""
    return count_steps(fit) * fit.data.size * (fit.data.shape[1] + 2)


def cost_of_lasso(fit: Fit) -> float:
    """Count some passes over the data, and the sweeps."""
    return 10.0 * fit.data.size


def cost_of_lasso_cv(fit: Fit) -> float:
    """Count the paths of the folds."""
    return 100.0 * fit.data.size


def cost_of_logistic_regression(fit: Fit) -> float:
    """Count a pass for each step, and a Hessian or two."""
    return (count_steps(fit) + fit.data.shape[1]) * fit.data.size


def cost_of_linear_svc(fit: Fit) -> float:
    """Count a pass for each step, and a Hessian or two for each problem."""
    k = len(np.atleast_2d(fit.get("coef_", 1)))
    return (count_steps(fit) + k * fit.data.shape[1]) * fit.data.size


# --- kernels, neighbours, networks ------------------------------------------------------------------------------------


def cost_of_svm(fit: Fit) -> float:
    """Count about the rows of K that a fit looks at: those of the support vectors, and as many again."""
    n, d = fit.shape_fit_
    return 2.0 * len(fit.support_) * n * (10 + (d if d != n else 0))


def cost_of_kernel_ridge(fit: Fit) -> float:
    n, d = fit.data.shape
    return float(n) ** 2 * (d + n / 3)


def cost_of_nystroem(fit: Fit) -> float:
    q = len(fit.component_indices_)
    return float(q) ** 2 * (fit.data.shape[1] + 10 * q)


def cost_of_random_features(fit: Fit) -> float:
    return float(np.size(fit.random_weights_))


def cost_of_neighbours(fit: Fit) -> float:
    return min(fit.data.shape[0], AS_QUERIES) * float(fit.data.size)


def cost_of_perceptron(fit: Fit) -> float:
    """Count three products with every weight, for each row of each epoch."""
    weights = sum(np.size(part) for part in fit.coefs_)
    return 3.0 * count_steps(fit) * fit.data.shape[0] * weights
