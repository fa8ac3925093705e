"""Mercer's condition: whether a function is a kernel on some rows and, where closure rules say so, on all inputs.

    κ(x, y) = φ(x)ᵀφ(y) for some φ   ⇔   vᵀKv ≥ 0 for every v and the K of every set of rows        (ML Mercer's condition)

One v with vᵀKv < 0 proves that there is no φ. That a K is positive semidefinite speaks of its rows alone; of all inputs speak
the rules by which kernels are built: xᵀy, constants c ≥ 0 and exp(−γ‖x − y‖^p) for p = 1, 2 (p = 1: of the 1-norm) are kernels,
and so are sums, products and polynomials with coefficients ≥ 0 of kernels.

    >>> from lemmata.predict.kernels import RBF, Linear, Sigmoid
    >>> X = np.random.default_rng(0).standard_normal((50, 3))
    >>> found = mercer(2 * RBF(0.5) * Linear(), X)
    >>> found.verdict, found.everywhere
    ('holds', True)
    >>> found = mercer(Sigmoid(gamma=1.0, coef0=-1.0), X)
    >>> found.verdict, bool(found.witness @ Sigmoid(1.0, -1.0)(X[found.rows]) @ found.witness < 0)
    ('fails', True)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg

from lemmata.core.certificate import Evidence
from lemmata.core.engine import one_blas_thread
from lemmata.predict.kernels.base import ConstantKernel, Kernel, Product, Sum
from lemmata.predict.kernels.standard import (
    RBF,
    CosineKernel,
    Laplacian,
    Linear,
    Polynomial,
    kernel_of,
)
from lemmata.predict.kernels.tiles import float_rows

Array = np.ndarray
MOST_ROWS = 2000  # all eigenvalues of so many take about a second


@dataclass(frozen=True)
class MercerEvidence(Evidence):
    """The smallest eigenvalue of K against −n·eps·‖K‖; `verdict` is "holds" or "fails"."""

    everywhere: bool = False  # positive semidefinite on all inputs, by the rules above
    rows: Array | None = None  # the rows that were tested
    # v of length 1 with the smallest vᵀKv; the vector itself, as it was before evidence had named witnesses
    witness: Array | None = None  # type: ignore[assignment]


def mercer(
    kernel: Kernel | str | Callable[..., float],
    X: Any,
    *,
    max_rows: int = MOST_ROWS,
    random_state: int = 0,
) -> MercerEvidence:
    """Look for a v with vᵀKv < 0 on rows of X.

    Parameters
    ----------
    kernel : Kernel, name or function of two rows
        "precomputed": X is K itself.
    X : array or sparse matrix of shape (n, d)
    max_rows : int, default=2000
        The number of rows drawn if there are more: a K of some rows that fails is proof for all of them.
    random_state : int, default=0

    Returns
    -------
    MercerEvidence
        `verdict`, `measured` (the smallest eigenvalue), `bound` (−n·eps·‖K‖, what rounding may do), `everywhere`, `witness`.
    """
    X, kernel = float_rows(X), kernel_of(kernel)
    n, given = X.shape[0], type(kernel).__name__ == "Precomputed"
    if n < 1:
        raise ValueError("X has no rows; Mercer's condition is tested on at least one.")
    if max_rows < 1:
        raise ValueError(f"max_rows={max_rows}; pass an int >= 1.")
    rows = np.arange(n)
    if n > max_rows:
        rows = np.sort(np.random.default_rng(random_state).choice(n, max_rows, replace=False))
    kernel = kernel.fitted(X)
    K = kernel(X)[np.ix_(rows, rows)] if given else kernel(X[rows])
    coarse = K.dtype
    K = K.astype(np.float64)
    if not np.isfinite(K).all():
        raise ValueError(
            f"{kernel!r} gives numbers that are not finite on this data; scale the columns."
        )
    if np.abs(K - K.T).max() > np.sqrt(np.finfo(coarse).eps) * np.abs(K).max():
        raise ValueError(f"{kernel!r} is not symmetric, κ(x, y) ≠ κ(y, x); pass (K + K.T) / 2.")
    with one_blas_thread():
        values, vectors = scipy.linalg.eigh((K + K.T) / 2)
    size = float(np.abs(values).max())
    slack = len(K) * float(np.finfo(coarse).eps) * size
    everywhere = is_positive(kernel)
    return MercerEvidence(
        measured=float(values[0]), relation="≥", bound=-slack,
        advice="there is no feature space: duality gaps and claims about optima mean nothing here; use rbf, or coef0 >= 0",
        unit="smallest eigenvalue", note=_limits(everywhere, bool(values[0] < -slack), len(rows), n),
        everywhere=everywhere, rows=rows, witness=vectors[:, 0],
    )  # fmt: skip


def _limits(everywhere: bool, fails: bool, tested: int, n: int) -> str:
    if fails:
        return "vᵀKv < 0 for the witness v, which is proof whatever the other rows"
    if everywhere:
        return "positive semidefinite on all inputs, by how it is built"
    some = f"{tested:,} of the {n:,} rows" if tested < n else f"these {n:,} rows"
    return f"speaks of {some} alone"


def is_positive(kernel: Kernel) -> bool:
    """Whether the rules prove a kernel positive semidefinite on all inputs; False: they do not tell."""
    if isinstance(kernel, Sum | Product):
        return is_positive(kernel.left) and is_positive(kernel.right)
    if isinstance(kernel, Polynomial):
        return kernel.coef0 >= 0  # γ ≥ 0 and c ≥ 0: a sum of products of kernels
    return type(kernel) in (Linear, ConstantKernel, RBF, Laplacian, CosineKernel)
