"""Kernel matrices by definition, and the facts about a fitted kernel PCA.

A kernel is what a model predicts by, and says so: a name, whose formula is scikit-learn's (`sklearn.metrics.pairwise`); a
function of two rows; or an object of ours, `kernel_`, whose parts are read and written out here once more. A kernel that is
none of these is its own only definition, so nothing can be checked against it.

With weights w, p = w/Σw and D = diag(w), kernel PCA is about M = D^½ K̃ D^½, K̃ = (I − 1pᵀ) K (I − p1ᵀ): its eigenvectors are
a = D^−½α. K is divided by its largest entry (a power of two near it), so that no square overflows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.metrics import pairwise

from lemmata.audit.kernel.claims import CannotTell, Fit, fact, rounding
from lemmata.audit.predict.rows import dense, refuse_other_rows, whole
from lemmata.audit.reduction import spectra
from lemmata.audit.reduction.spectra import squares

Array = np.ndarray

OURS = "lemmata.predict.kernels"  # where kernels are defined whose parts are known here
DENSE = 400  # rows up to which LAPACK finds all eigenvalues
MOST = 12_000  # rows up to which the kernel matrix is formed: 1.2 GB


# --- the definition ---------------------------------------------------------------------------------------------------


def kernel_matrix(fit: Fit, rows: Any, columns: Any) -> Array:
    """κ between two sets of rows, in float64."""
    rows, columns, kernel = _float64(rows), _float64(columns), kernel_of(fit)
    if isinstance(kernel, str):
        return _by_name(fit, rows, columns)
    if type(kernel).__module__.startswith(OURS):
        return _by_parts(kernel, rows, columns)
    if fit.has("kernel_") or not callable(kernel):
        raise CannotTell(f"{type(kernel).__name__} is its own only definition")
    return pairwise.pairwise_kernels(
        rows, columns, metric=kernel, **(fit.get("kernel_params") or {})
    )


def _by_name(fit: Fit, rows: Any, columns: Any) -> Array:
    if fit.kernel == "precomputed":
        return np.asarray(rows)  # the rows are those of K
    if fit.kernel == "rbf":
        return _rbf(rows, columns, float(fit.gamma_))
    given = {"gamma": fit.gamma_, "degree": fit.get("degree"), "coef0": fit.get("coef0")}
    return pairwise.pairwise_kernels(rows, columns, metric=fit.kernel, filter_params=True, **given)


def _by_parts(kernel: Any, rows: Any, columns: Any) -> Array:
    name = type(kernel).__name__
    if name not in FORMULAS:
        raise CannotTell(f"{name} is its own only definition")
    return FORMULAS[name](kernel, rows, columns)


def _by_pairs(kernel: Any, rows: Any, columns: Any) -> Array:
    return pairwise.pairwise_kernels(
        dense(rows), dense(columns), metric=kernel.function, **dict(kernel.parameters)
    )


def name_of(kernel: Any) -> str:
    """Return the name of a kernel, or that of its class, in small letters and without "kernel"."""
    name = kernel if isinstance(kernel, str) else type(kernel).__name__
    return name.lower().removesuffix("kernel")


def is_given(fit: Fit) -> bool:
    """Whether the rows are those of K; the model then keeps a centred copy of them."""
    return name_of(fit.kernel) == "precomputed"


def _rbf(rows: Any, columns: Any, gamma: float) -> Array:
    """exp(−γ‖x − y‖²). Dense rows are moved by the mean of the columns first: far from 0 distances would lose their digits."""
    if sp.issparse(rows) or sp.issparse(columns):
        return pairwise.rbf_kernel(rows, columns, gamma=gamma)
    centre = columns.mean(axis=0)
    A, B = rows - centre, columns - centre
    distances = A @ B.T
    distances *= -2
    distances += squares(A)[:, None]
    distances += squares(B)
    np.maximum(distances, 0, out=distances)
    distances *= -gamma
    return np.exp(distances, out=distances)


# objects of ours by the name of their class: κ(A, B) of rows A and B
FORMULAS: dict[str, Callable[[Any, Any, Any], Array]] = {
    "Sum": lambda k, A, B: _by_parts(k.left, A, B) + _by_parts(k.right, A, B),
    "Product": lambda k, A, B: _by_parts(k.left, A, B) * _by_parts(k.right, A, B),
    "ConstantKernel": lambda k, A, B: np.full((A.shape[0], B.shape[0]), float(k.value)),
    "Linear": lambda k, A, B: pairwise.linear_kernel(A, B),
    "Polynomial": lambda k, A, B: pairwise.polynomial_kernel(A, B, k.degree, k.gamma, k.coef0),
    "RBF": lambda k, A, B: _rbf(A, B, float(k.gamma)),
    "Laplacian": lambda k, A, B: pairwise.laplacian_kernel(A, B, gamma=k.gamma),
    "CosineKernel": lambda k, A, B: pairwise.cosine_similarity(A, B),
    "Sigmoid": lambda k, A, B: pairwise.sigmoid_kernel(A, B, k.gamma, k.coef0),
    "MatrixFunction": lambda k, A, B: np.asarray(k.function(A, B), dtype=np.float64),
    "PairFunction": _by_pairs,
    "Precomputed": lambda k, A, B: np.asarray(A),  # the rows are those of K
}


def _float64(X: Any) -> Any:
    return sp.csr_array(X, dtype=np.float64) if sp.issparse(X) else np.asarray(X, dtype=np.float64)


def kernel_of(fit: Fit) -> Any:
    """Return the kernel by which a fit of ours predicts, or what the parameter of another's says: a name, an object."""
    return fit.get("kernel_", fit.kernel)


def entry_error(fit: Fit, rows: Any, dtype: Any, kernel: Any = None) -> float:
    """By how many κ(x, x) an entry of K may err: the rounding of a d-term product, times what the kernel makes of it.

    kernel : a part of that of the fit, if it is not the whole
    """
    kernel = kernel_of(fit) if kernel is None else kernel
    if hasattr(kernel, "left"):
        return sum(entry_error(fit, rows, dtype, part) for part in (kernel.left, kernel.right))
    if is_given(fit):
        return rounding(dtype)
    name, own = name_of(kernel), rounding(dtype, rows.shape[1])
    if name == "rbf":
        # −γ‖x − y‖² is a float64 sum of terms of size γ‖x‖², for float32 rows too
        near = _float64(rows)
        near = near if sp.issparse(near) else near - near.mean(axis=0)
        gamma = float(getattr(kernel, "gamma", fit.get("gamma_")))
        return own + 4 * gamma * float(squares(near).max()) * rounding(np.float64, rows.shape[1])
    if name in ("poly", "polynomial"):
        return float(getattr(kernel, "degree", fit.get("degree"))) * own
    return own


# --- the facts --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Facts:
    """M of the data, the model's vectors in it, and sums. Components with λ = 0 are left out."""

    M: Array  # (n, n) scaled
    unit: float  # what K was divided by
    heaviest: float  # what the weights were divided by
    weights: Array  # (n,) at most 1
    means: Array  # (n,) Kp, scaled
    values: Array  # (k,) the λ > 0 that the model states, scaled
    vectors: Array  # (n, k) a = D^−½α
    around: spectra.Around  # the same as rows, with M a and the trace
    own_noise: float  # what rounding puts into an eigenvalue here, in float64
    noise: float  # and into one of the model, in its float type
    kernel: Array | None  # (n, n) K before it was scaled and centred, up to DENSE rows

    @property
    def p(self) -> Array:
        return self.weights / self.weights.sum()

    @property
    def coordinates(self) -> Array:
        """(n, k) z, by the model's own vectors: K̃α/√λ."""
        root = np.sqrt(self.weights)[:, None]
        return divide(self.around.SC, root) / np.sqrt(self.values)


def unit_of(largest: float) -> float:
    """A power of two near a number, in units of which squares are floats."""
    return math.ldexp(1.0, min(math.frexp(largest)[1], 1023)) if 0 < largest < math.inf else 1.0


def divide(V: Array, root: Array) -> Array:
    """D^−½ V; rows that do not count are 0."""
    return np.divide(V, root, out=np.zeros_like(V), where=root > 0)


def _cost_of_facts(fit: Fit) -> float:
    (n, d), k = fit.data.shape, len(fit.eigenvalues_)
    return float(n) ** 2 * (d + k + 8) if n <= MOST else 0.0


@fact(cost=_cost_of_facts)
def facts(fit: Fit) -> Facts:
    """Measure what the claims about a kernel PCA compare. Raises CannotTell."""
    rows, alpha = whole(fit.data), np.asarray(fit.eigenvectors_, dtype=np.float64)
    n, stated = rows.shape[0], np.asarray(fit.eigenvalues_, dtype=np.float64)
    refuse_other_rows(len(alpha), n)
    if not np.any(stated > 0):
        raise CannotTell("no eigenvalue is above zero")
    if n > MOST:
        raise CannotTell(f"the kernel matrix of {n:,} rows needs {8 * n * n / 2**30:,.1f} GB")
    K = np.array(kernel_matrix(fit, rows, rows), dtype=np.float64)
    kernel = K.copy() if n <= DENSE else None
    largest = float(np.abs(np.diagonal(K)).max())
    unit = unit_of(largest)
    K /= unit
    weights = np.ones(n) if fit.weights is None else np.asarray(fit.weights, dtype=np.float64)
    weights = weights / weights.max()
    p, root = weights / weights.sum(), np.sqrt(weights)
    means = K @ p
    diagonal = float(np.abs(weights * np.diagonal(K)).max())
    middle = float(p @ means)
    K -= means[:, None]
    K -= means
    K += middle
    K *= root[:, None]
    K *= root
    scale = 1.0 if fit.weights is None else float(np.max(fit.weights))
    values = stated[stated > 0] / unit / scale
    vectors = divide(alpha[:, stated > 0], np.sqrt(scale) * root[:, None])
    C = np.ascontiguousarray(vectors.T)
    stated_in, given_in = np.dtype(np.asarray(fit.eigenvectors_).dtype), np.dtype(fit.data.dtype)
    coarser = given_in if np.finfo(given_in).eps > np.finfo(stated_in).eps else stated_in
    # an error in one row's products reaches all its entries of K, hence n and not √n
    top = float(values.max())
    own, noise = (
        rounding(dtype, n) * top + n * entry_error(fit, rows, dtype) * diagonal
        for dtype in (np.dtype(np.float64) if coarser is stated_in else given_in, coarser)
    )
    about = spectra.Around(C, K @ vectors, float(np.trace(K)), own)
    return Facts(K, unit, scale, weights, means, values, vectors, about, own, noise, kernel)


def _cost_of_spectrum(fit: Fit) -> float:
    n, k = fit.data.shape[0], len(fit.eigenvalues_)
    if n > MOST:
        return 0.0
    return (
        spectra.EIGH * float(n) ** 3 if n <= DENSE else float(n) ** 2 * (spectra.PRODUCTS + 3 * k)
    )


@fact(cost=_cost_of_spectrum, needs=(facts,))
def spectrum(fit: Fit) -> spectra.Spectrum:
    """Find the eigenvalues of M: all of them up to DENSE rows, else as far as Lanczos tells."""
    found = facts(fit)
    if len(found.M) <= DENSE:
        return spectra.whole_spectrum(found.M)
    return spectra.leading_spectrum(lambda V: found.M @ V, found.around, positive=False)
