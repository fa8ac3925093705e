"""Compressed sensing: a sparse vector from fewer measurements than it has numbers.

    y = Ax,   A: m × n with m < n;      the sparsest x is found by OMP, or by least ‖x‖₁, if columns are incoherent enough

A row of unknowns is a code: the columns of A are atoms, y is the signal. What makes the answer trustworthy is in the
certificate: whether another vector as sparse gives the same y, and whether OMP could have gone astray.

    >>> rng = np.random.default_rng(0)
    >>> A, x = rng.normal(size=(40, 100)), np.zeros(100)
    >>> x[[3, 50]] = 1.0, -2.0
    >>> found = recover(A, A @ x, n_nonzero=2)
    >>> found.support, bool(np.allclose(found.x, x))
    (array([ 3, 50]), True)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import check_array

from lemmata.audit.reduction.sparse_codes import CODER_CLAIMS
from lemmata.core.blocks import Blocks
from lemmata.core.certificate import Certificate, Fit
from lemmata.core.certification.checking import check
from lemmata.reduction.sparse_coding.base import checked_atoms
from lemmata.reduction.sparse_coding.coder import SparseCoder

Array = np.ndarray
EXACT = 1e-8  # of ‖y‖: an error at which OMP stops where no number of atoms is given
SMALL = 1e-3  # of the least α that makes every number zero: the default of "l1"
WORK = 5e9  # multiplications that checking may take
FAINT = 1e-3  # of the largest number: what an ℓ1 code leaves of atoms that are not there


@dataclass(frozen=True)
class Recovery:
    """A recovered vector, which numbers of it are not zero, ‖y − Ax‖ over ‖y‖, and what is certain about it."""

    x: Array
    support: Array
    residual: float
    certificate: Certificate


def recover(
    A: Any, y: Any, *, n_nonzero: int | None = None, method: str = "omp", alpha: float | None = None,
    noise: float = 0.0, seconds: float | None = None,
) -> Recovery:  # fmt: skip
    """The sparse x with y ≈ Ax.

    Parameters
    ----------
    A : array of shape (m, n)
        The measurements; columns that are zero or repeated are refused.
    y : array of shape (m,)
    n_nonzero : int, optional
        How many numbers of x are not zero, at most; by default as many as it takes to reach the noise.
    method : {"omp", "l1"}, default="omp"
        OMP, or least ½‖y − Ax‖² + α‖x‖₁ by coordinate descent, then least squares on what that leaves.
    alpha : float, optional
        α of "l1"; by default 1e-3 of the largest |aᵀy|/‖a‖.
    noise : float, default=0.0
        ‖y − Ax‖ that is good enough.
    seconds : float, optional
        How long the checking may take.
    """
    if method not in ("omp", "l1"):
        raise ValueError(f"method={method!r}: pass 'omp' or 'l1'.")
    if not (np.isfinite(noise) and noise >= 0):
        raise ValueError(f"noise={noise!r}: pass a length >= 0.")
    A = check_array(A, dtype=[np.float64, np.float32], input_name="A")
    y = np.asarray(check_array(np.atleast_2d(y), dtype=A.dtype, input_name="y"))
    if y.shape != (1, len(A)):
        raise ValueError(
            f"A has {len(A)} measurements and y shape {np.shape(y)[1:]}; pass one number for each."
        )
    D = checked_atoms(np.ascontiguousarray(A.T))
    size = float(np.linalg.norm(y))
    if method == "omp":
        target = None if n_nonzero else max(float(noise), EXACT * size) ** 2 or None
        x = SparseCoder(D, n_nonzero=n_nonzero, alpha=target).transform(y)[0]
    else:
        x = _least_squares(A, y[0], _candidates(D, y, n_nonzero, alpha))
    residual = float(np.linalg.norm(y[0] - A @ x))
    share = residual / size if size > 0 else 0.0
    return Recovery(x, np.flatnonzero(x), share, _certificate(D, y, x, residual, seconds))


def _candidates(D: Array, y: Array, n_nonzero: int | None, alpha: float | None) -> Array:
    """The atoms of the ℓ1 code that are not faint; the largest of them where n_nonzero is given."""
    if n_nonzero is not None and not 1 <= n_nonzero <= len(D):
        raise ValueError(f"n_nonzero={n_nonzero} of {len(D)} numbers; pass 1 to {len(D)}.")
    lengths = np.linalg.norm(D, axis=1)
    unit = D / lengths[:, None]
    if alpha is None:
        alpha = SMALL * float(np.abs(unit @ y[0]).max())
    if not alpha > 0:  # y is zero, or so was asked
        if y.any():
            raise ValueError(f"alpha={alpha!r}: pass a number > 0.")
        return np.zeros(0, dtype=int)
    z = np.abs(SparseCoder(unit, method="lasso_cd", alpha=alpha).transform(y)[0])
    order = np.argsort(-z, kind="stable")[: n_nonzero or len(y[0])]
    return np.sort(order[z[order] > FAINT * z.max()])


def _least_squares(A: Array, y: Array, chosen: Array) -> Array:
    x = np.zeros(A.shape[1], A.dtype)
    x[chosen] = np.linalg.lstsq(A[:, chosen], y, rcond=None)[0]
    return x


@dataclass(frozen=True)
class _Answer:
    """A code that was found already."""

    x: Array

    def transform(self, X: Array) -> Array:
        return self.x[None]


def _certificate(
    D: Array, y: Array, x: Array, residual: float, seconds: float | None
) -> Certificate:
    stated = {
        "components_": D, "loss_": 0.5 * residual**2, "n_nonzero_": float(np.count_nonzero(x)),
    }  # fmt: skip
    fit = Fit(_Answer(x), Blocks.of(y), attributes=stated)
    k, m = D.shape
    title = f"recover  {m:,} measurements of {k:,} numbers, {np.count_nonzero(x)} not zero"
    return check(CODER_CLAIMS, fit, title, work=WORK, seconds=seconds, usual=WORK)
