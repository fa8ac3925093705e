"""ℓ1 codes: least squares with a penalty that makes most numbers zero, each with its distance from the best.

    minimise  P(z) = ½‖x − zD‖² + α‖z‖₁         over codes z, one for every row x            (the Lasso; ML L₁-Regularization)

Convex, unlike counting atoms. A gradient step and a shrinking of every number towards zero (ISTA),

    z ← S_{α/L}(z + (x − zD)Dᵀ/L),      S_t(u) = sign(u)·max(|u| − t, 0),      L = σ₁(D)²,

gains at the rate 1/t; with momentum that starts again when it points uphill (FISTA; Beck & Teboulle 2009, O'Donoghue & Candès
2015) at 1/t². Both take all rows at once, holes included: a gap in a row leaves L an upper bound. Coordinate descent on a
growing set of atoms ("lasso_cd") is quickest where codes are short, and LARS (scikit-learn's) follows the exact path.

The residual r, scaled until no atom correlates with it by more than α, is a point of the dual: P(z) − D bounds P(z) − min P.
All solvers but LARS stop by this gap, at tol·½‖x‖² for every row.

    >>> codes(np.array([[3.0, 0.5]]), np.eye(2), L1("fista", alpha=1.0))
    array([[2., 0.]])
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from lemmata.core.engine import one_blas_thread, run_tasks, worth_compiling
from lemmata.reduction.sparse_coding._twins import gaps, soft

Array = np.ndarray
ROWS = 256  # signals of a task
LOOK_EVERY = 5  # steps between two looks at the gaps
COMPILE_ABOVE = 2**22  # signals × atoms²: some 0.1 s of NumPy


@dataclass(frozen=True)
class L1:
    """Settings of the search for ℓ1 codes. `max_iter` counts steps, sweeps, or pieces of a path."""

    solver: str  # "ista", "fista", "lasso_cd", "lasso_lars"
    alpha: float
    tol: float = 1e-6
    max_iter: int = 1000
    positive: bool = False


def codes(X: Array, D: Array, how: L1, compiled: bool | None = None) -> Array:
    """Z (n, k) of rows X. NaN in X is not known; rows with holes are coded by FISTA, whatever the solver."""
    holes = np.isnan(X)
    some = holes.any(axis=1)
    if some.any() and how.solver not in ("ista", "fista"):
        Z = np.empty((len(X), len(D)), X.dtype)
        Z[~some] = codes(X[~some], D, how, compiled)
        Z[some] = shrink(X[some], D, how, ~holes[some])
        return Z
    if how.solver in ("ista", "fista"):
        return shrink(X, D, how, ~holes if some.any() else None)
    if compiled is None:
        compiled = worth_compiling(float(len(X)) * len(D) ** 2, above=COMPILE_ABOVE)
    if how.solver == "lasso_cd" and not compiled:
        return shrink(X, D, replace(how, solver="fista", max_iter=10 * how.max_iter))
    G, C = D @ D.T, X @ D.T
    if how.solver == "lasso_lars":
        return _by_lars(G, C, how)
    squares = np.einsum("ij,ij->i", X, X)
    from lemmata.reduction.sparse_coding import _kernels

    Z = np.zeros_like(C)
    alpha, tol = X.dtype.type(how.alpha), float(how.tol)

    def task(number: int) -> None:
        part = slice(number * ROWS, min((number + 1) * ROWS, len(X)))
        _kernels.descend_into(
            Z[part], 0, len(Z[part]), G, C[part], squares[part], alpha, tol, how.max_iter,
            how.positive,
        )  # fmt: skip

    with one_blas_thread():
        run_tasks(task, -(-len(X) // ROWS))
    return Z


def _by_lars(G: Array, C: Array, how: L1) -> Array:
    """The path of the Lasso down to α, signal by signal."""
    from sklearn.linear_model import lars_path_gram

    Z = np.zeros_like(C)
    for z, c in zip(Z, C, strict=True):
        if (c if how.positive else np.abs(c)).max(initial=0) > how.alpha:
            z[:] = lars_path_gram(
                c.astype(np.float64), G.astype(np.float64), n_samples=1, alpha_min=how.alpha, method="lasso",
                positive=how.positive, return_path=False, max_iter=how.max_iter,
            )[2]  # fmt: skip
    return Z


def largest_curvature(D: Array) -> float:
    """σ₁(D)², a little more than it is."""
    small = D @ D.T if len(D) <= D.shape[1] else D.T @ D
    top = float(np.linalg.eigvalsh(small.astype(np.float64))[-1])
    return top * (1 + 1e-6) + 1e-300


def shrink(X: Array, D: Array, how: L1, known: Array | None = None) -> Array:
    """ISTA or FISTA over all rows at once; a row whose gap is small enough is done."""
    X = X if known is None else np.where(known, X, 0)
    L = largest_curvature(D)
    rate, threshold = X.dtype.type(1 / L), how.alpha / L
    squares, C = np.einsum("ij,ij->i", X, X), X @ D.T
    goal = np.maximum(0.5 * how.tol, 4 * np.finfo(X.dtype).eps) * squares
    Z = np.zeros((len(X), len(D)), X.dtype)
    alive = np.arange(len(X))
    gram = D @ D.T if known is None and len(D) <= 2 * D.shape[1] else None

    def correlations(z: Array, rows: Array) -> Array:
        """(X − zD)Dᵀ of some rows, over what is known of them."""
        if gram is not None:
            return C[rows] - z @ gram
        R = X[rows] - z @ D
        return (R if known is None else np.where(known[rows], R, 0)) @ D.T

    z, y, t = Z.copy(), Z.copy(), np.ones(len(X), X.dtype)
    for step in range(how.max_iter + 1):
        if step % LOOK_EVERY == 0 or step == how.max_iter:
            H = correlations(z, alive)
            done = gaps(z, C[alive], H, squares[alive], how.alpha, how.positive) <= goal[alive]
            Z[alive] = z
            alive, z, y, t = alive[~done], z[~done], y[~done], t[~done]
        if len(alive) == 0 or step == how.max_iter:
            break
        new = soft(y + rate * correlations(y, alive), threshold, how.positive).astype(X.dtype)
        if how.solver == "ista":
            z = y = new
            continue
        move = new - z
        uphill = np.einsum("ij,ij->i", y - new, move) > 0
        t = np.where(uphill, 1, t).astype(X.dtype)
        later = (1 + np.sqrt(1 + 4 * t * t)) / 2
        y = new + ((t - 1) / later * ~uphill)[:, None].astype(X.dtype) * move
        z, t = new, later.astype(X.dtype)
    return Z
