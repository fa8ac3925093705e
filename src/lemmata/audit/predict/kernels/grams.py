"""The kernel of a fit on its rows: recomputed from public parameters, in tiles; and whether it is a kernel.

kernel_matrices.py says what a name or an object means. K = (κ(x_i, x_j)) of a kernel has vᵀKv ≥ 0 for every v: rows on which
some v says otherwise refute it, and rules prove it for all inputs (sums, products and positive multiples of linear, polynomial
with coef0 ≥ 0, RBF, Laplace and cosine kernels are kernels).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
import scipy.sparse as sp

from lemmata.audit.kernel.attributes import discrepancy
from lemmata.audit.kernel.claims import PRODUCTS, CannotTell, Fit, fact
from lemmata.audit.predict.kernels import kernel_matrices
from lemmata.audit.predict.kernels.kernel_matrices import entry_error, is_given, name_of
from lemmata.audit.predict.rows import dense, evenly_spread, whole
from lemmata.audit.reduction.spectra import EIGH

Array = np.ndarray

SAMPLE = 300  # rows whose kernel matrix is tested for being positive semidefinite
SOLVE = 2000  # rows up to which LAPACK solves, or finds all eigenvalues
TILE = 2**20  # entries of K in memory at a time
LOST = 1e-4  # of κ(x, x): entries of K that err by more are useless
DIGITS = 1e-9  # to which the two sides of a gap may cross
CORNER = 64  # rows of the blocks whose diagonals are read
WITH_GAMMA = ("rbf", "poly", "polynomial", "laplacian", "sigmoid")


# --- the kernel of a fit ----------------------------------------------------------------------------------------------


def gram(fit: Fit, rows: Any, columns: Any) -> Array:
    """κ between two sets of rows in float64, by the public parameters of the fit."""
    with np.errstate(over="ignore", invalid="ignore"):
        if callable(fit.kernel) and fit.has("support_") and not fit.has("kernel_"):
            # the function of scikit-learn's machines takes two matrices, that of others two rows
            K = np.asarray(fit.kernel(rows, columns), dtype=np.float64)
        else:
            K = np.asarray(kernel_matrices.kernel_matrix(fit, rows, columns), dtype=np.float64)
    if not np.isfinite(K).all():
        raise CannotTell("the kernel of these rows overflows: scale the columns")
    return K


def gram_among(fit: Fit, rows: Any, these: Array, those: Array) -> Array:
    """κ(x_i, x_j) for i among these rows and j among those; read off where the rows are those of K."""
    if is_given(fit):
        return dense(rows[np.ix_(these, those)])
    return gram(fit, rows[these], rows[those])


def _is_foreign(kernel: Any) -> bool:
    return not type(kernel).__module__.startswith("lemmata.")


def gamma_of(asked: Any, rows: Any) -> float:
    """Return γ as scikit-learn reads it: a number, 1/d ("auto", None), or 1/(d·Var X) ("scale")."""
    d = rows.shape[1]
    if asked is None or (isinstance(asked, str) and asked == "auto"):
        return 1 / d
    if not isinstance(asked, str):
        return float(asked)
    X = dense(rows)
    unit = float(np.abs(X).max(initial=0)) or 1.0
    variance = float(np.var(X / unit))
    return 1 / d / variance / unit / unit if variance > 0 else 1.0


def tiles(fit: Fit, rows: Any, columns: Any) -> Iterator[tuple[slice, Array]]:
    """κ(rows, columns) some rows at a time, so that no more of K than a tile is in memory."""
    step = max(1, TILE // max(columns.shape[0], 1))
    for start in range(0, rows.shape[0], step):
        part = slice(start, start + step)
        yield part, gram(fit, rows[part], columns)


def cost_of_entry(products: float) -> float:
    """The price of an entry of K that takes so many multiplications of matrix products: e^x and some passes over it."""
    return 7 + products / PRODUCTS


def products(fit: Fit, rows: Any, columns: Any, B: Array) -> Array:
    """κ(rows, columns) B."""
    found = np.zeros((rows.shape[0], B.shape[1]))
    if columns.shape[0]:
        for part, K in tiles(fit, rows, columns):
            found[part] = K @ B
    return found


def refuse_lost_digits(fit: Fit, rows: Any) -> None:
    """Raise CannotTell where distances lose their digits: rows that lie far apart in units of 1/√γ."""
    if not is_given(fit) and entry_error(fit, rows, np.float64) > LOST:
        raise CannotTell(
            "gamma times the squared rows is so large that distances lose their digits: scale the columns"
        )


def diagonal_of(fit: Fit, rows: Any) -> Array:
    """κ(x, x) of every row."""
    if is_given(fit):
        return np.diagonal(np.asarray(rows, dtype=np.float64))
    if _has_unit_diagonal(fit):
        return np.ones(rows.shape[0])
    cuts = range(0, rows.shape[0], CORNER)
    parts = [rows[start : start + CORNER] for start in cuts]
    return np.concatenate([np.diagonal(gram(fit, part, part)) for part in parts])


def cost_of_diagonal(fit: Fit) -> float:
    n, d = fit.data.shape
    read = is_given(fit) or _has_unit_diagonal(fit)
    return float(n) * (1 if read else CORNER * cost_of_entry(d))


def _has_unit_diagonal(fit: Fit) -> bool:
    """κ(x, x) = e⁰, whatever the row."""
    return name_of(kernel_matrices.kernel_of(fit)) in ("rbf", "laplacian")


def kernel_by_rules(fit: Fit) -> bool:
    """Say whether κ is a kernel for all inputs, by what it is made of."""
    kernel = kernel_matrices.kernel_of(fit)
    if isinstance(kernel, str):
        return _by_rules(kernel, fit, fit.get("gamma_"))
    return _all_by_rules(kernel)


def _all_by_rules(kernel: Any) -> bool:
    if _is_foreign(kernel):
        return False
    if hasattr(kernel, "left"):  # a sum or a product
        return _all_by_rules(kernel.left) and _all_by_rules(kernel.right)
    return _by_rules(name_of(kernel), kernel, getattr(kernel, "gamma", None))


def _by_rules(name: str, parameters: Any, gamma: Any) -> bool:
    if name == "constant":
        return float(parameters.value) >= 0
    positive = isinstance(gamma, str | None) or float(gamma) >= 0
    if name in ("poly", "polynomial"):
        # (γ xᵀy + c)^p is a sum of products of kernels for whole p and γ, c ≥ 0
        degree = float(parameters.degree)
        return positive and degree >= 0 and degree == round(degree) and float(parameters.coef0) >= 0
    return positive if name in ("rbf", "laplacian") else name in ("linear", "cosine")


def believable(primals: list[float], duals: list[float]) -> bool:
    """Say whether no P is negative and no D above any P, as theory has it: where one is, digits were lost."""
    return min(primals) >= 0 and max(duals) <= (1 + DIGITS) * min(primals)


def difference(kept: Any, rows: Any) -> float:
    """max |kept − rows| in units of the rounding that a copy in another float type has."""
    if kept.shape != rows.shape:
        return float("inf")
    make = sp.csr_array if sp.issparse(kept) or sp.issparse(rows) else np.asarray
    A, B = (make(part, dtype=np.float64) for part in (kept, rows))
    apart, largest = (0.0 if 0 in A.shape else abs(M).max() for M in (A - B, B))
    eps = max(np.finfo(one.dtype).eps for one in (kept, rows) if one.dtype.kind == "f")
    return discrepancy(apart, 0.0, float(largest), float(eps))


def kernel_stated(fit: Fit, rows: Any) -> dict[str, float]:
    """Compare γ with that of the parameters, or of the kernel that is an object; and kernel_, see `kernel_used`."""
    found, gamma, used = kernel_used(fit), fit.get("gamma_"), fit.get("kernel_")
    if gamma is None or is_given(fit):
        return found
    if isinstance(fit.kernel, str) and fit.kernel in WITH_GAMMA:
        true = gamma_of(fit.get("gamma"), rows)
    elif used is not None:
        true = getattr(used, "gamma", None) or 0.0
    else:
        return found
    return found | {"gamma_": discrepancy(gamma, true, abs(true) or 1.0, 1e-6)}


def kernel_used(fit: Fit) -> dict[str, float]:
    """Compare kernel_, by which a fit of ours predicts and which the claims read, with the kernel that was asked for."""
    asked, used = fit.kernel, fit.get("kernel_")
    if used is None or is_given(fit):
        return {}
    if isinstance(asked, str):
        same = not _is_foreign(used) and name_of(used) == {"poly": "polynomial"}.get(asked, asked)
        numbers = {name: fit.get(name) for name in ("degree", "coef0")} | {
            "gamma": fit.get("gamma_")
        }
    elif name_of(used) in ("pairfunction", "matrixfunction"):
        same, numbers = used.function is asked, {}
    else:  # an object has its own numbers; γ may be a word there
        same, numbers = type(used) is type(asked), vars(asked)
    for name, value in numbers.items():
        if same and isinstance(value, Real) and hasattr(used, name):
            same = abs(getattr(used, name) - float(value)) <= 1e-6 * abs(float(value))
    return {"kernel_": 0.0 if same else np.inf}


# --- whether it is a kernel --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sampled:
    """The kernel matrix of some rows: its least eigenvalue, what rounding may have put there, and how far from symmetric."""

    rows: int
    least: float  # λ_min / |λ|_max of the symmetric part
    noise: float  # of the same unit
    skew: float  # max |K − Kᵀ| / max |K|

    @property
    def refuted(self) -> bool:
        return self.least < -self.noise or self.skew > self.noise


def _cost_of_eigenvalues(fit: Fit, rows: int) -> float:
    return 0.0 if kernel_by_rules(fit) else float(rows) ** 2 * (EIGH * rows + fit.data.shape[1] + 8)


@fact(cost=lambda fit: _cost_of_eigenvalues(fit, min(fit.data.shape[0], SAMPLE)))
def sampled_kernel(fit: Fit) -> Sampled:
    """Test the kernel matrix of up to SAMPLE evenly spread rows. Raises CannotTell."""
    return _sample(fit, SAMPLE)


def _sample(fit: Fit, most: int) -> Sampled:
    rows = whole(fit.data)
    chosen = evenly_spread(rows.shape[0], most)
    K, given = gram_among(fit, rows, chosen, chosen), is_given(fit)
    n, largest = len(K), float(np.abs(K).max(initial=0.0))
    if largest > 0:
        K = K / largest
    values = np.linalg.eigvalsh((K + K.T) / 2)
    norm = max(float(np.abs(values).max(initial=0.0)), np.finfo(float).tiny)
    # Weyl: entries that err by e move eigenvalues by at most n·e
    each = float(np.finfo(rows.dtype if given else np.float64).eps)
    each += 0.0 if given else entry_error(fit, rows[chosen], np.float64)
    noise = n * each * max(1.0, float(np.abs(np.diagonal(K)).max()) / norm)
    skew = float(np.abs(K - K.T).max(initial=0.0))
    return Sampled(n, float(values[0]) / norm, noise, skew)


def _cost_of_all_rows(fit: Fit) -> float:
    n = fit.data.shape[0]
    return _cost_of_eigenvalues(fit, n) if SAMPLE < n <= SOLVE else 0.0


@fact(cost=_cost_of_all_rows, needs=(sampled_kernel,))
def why_no_kernel(fit: Fit) -> str:
    """Say why a duality gap proves nothing: κ is no kernel on these rows, or that is not known. Empty if it is one."""
    if kernel_by_rules(fit):
        return ""
    n = fit.data.shape[0]
    found = sampled_kernel(fit)
    if found.refuted:
        return "the kernel matrix is not positive semidefinite: the problem is not convex, and no gap bounds anything"
    if found.rows == n:
        return ""
    if n <= SOLVE:
        refuted = _sample(fit, SOLVE).refuted
        return "the kernel matrix is not positive semidefinite: no gap bounds anything" if refuted else ""  # fmt: skip
    return f"no rule says that this is a kernel, and {n:,} rows are too many to try them all"
