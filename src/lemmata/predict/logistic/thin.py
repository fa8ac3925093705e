"""Newton's direction on thin sparse rows, from products with them alone: conjugate gradients with a diagonal preconditioner.

    H p = g,      H V = (ℓ″ ∘ X̃V)ᵀX̃ + ridge ∘ V                          two passes over the entries for each product

A Hessian costs Σ nnz(xᵢ)² multiplications and a factor D³/3; a direction that is right to a tenth, with which Newton's method
still gains a digit a step, some five products (30,000 × 300 rows, 3 % filled). Scores are kept and moved with the weights, and
rows that have no curvature, beyond the margin of a hinge, are left out: a step then costs as much as two passes over all rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from lemmata.predict.logistic.surrogates import signs

if TYPE_CHECKING:
    from lemmata.predict.logistic.problem import LinearProblem

Array = np.ndarray
THIN = 0.05  # share of entries below which sparse products are faster than dense ones
SMALLEST = float(np.finfo(float).tiny)
ENOUGH = 0.1  # of the gradient, in the norm of the preconditioner, may be left
MOST = 100  # products after which a Hessian is cheaper
LENGTHS = 0.25, 4.0  # of a step, by Newton's method along it
FEW = 0.5  # share of rows with curvature below which the others are left out


class CurvedRows(NamedTuple):
    """The rows with curvature at some scores: those beyond the margin of a hinge have none, and no gradient."""

    X: Any  # (r, d) CSR
    V: Array  # (r, m) s·ℓ″; softmax: the probabilities
    s: Array  # (r,)


class ThinRows:
    """Thin sparse rows, with what no weights change, and the curvature at the last scores, which a step asks for next."""

    def __init__(self, data: LinearProblem):
        self.X = data.data.source.astype(np.float64, copy=False)
        self.loss, self.D = data.loss, data.D
        c, s = data.classes_and_weights
        self.c, self.s = c, np.ascontiguousarray(s)
        self.y = None if data.loss.coupled else signs(c, data.m)  # ±1
        self._last: tuple[Array, CurvedRows] | None = None

    def scores(self, W: Array) -> Array:
        """(n, m): X̃W."""
        return multiply_rows(self.X, W)

    def sums(self, F: Array) -> tuple[Array, Array]:
        """Return the losses (m,) at some scores, and their gradient (m, D)."""
        losses, U, V = self._derivatives(F)
        X, s = self.X, self.s
        # of booleans: five times as fast as of numbers
        curved = np.flatnonzero(V > 0 if V.shape[1] == 1 else V.any(axis=1))
        if len(curved) < FEW * len(V) and not self.loss.coupled:
            X, U, V, s = X[curved], U[curved], V[curved], s[curved]
        self._last = F, CurvedRows(X, V, s)
        return losses, multiply_columns(X.T, U, self.D)

    def curvature(self, F: Array) -> CurvedRows:
        if self._last is None or self._last[0] is not F:
            self.sums(F)
        assert self._last is not None
        return self._last[1]

    def _derivatives(self, F: Array) -> tuple[Array, Array, Array]:
        if self.y is None:
            return self.loss.rows(F, self.c, self.s, 2)  # type: ignore[return-value]
        return self.loss.of_signs(F, self.y, self.s, 2)  # type: ignore[attr-defined]

    def lengths(self, F: Array, P: Array, penalty: tuple[Array, Array]) -> Array:
        """The length t (m,) of each step along −p, one of Newton's from t = 1, where slope and curvature are F(W − tp)'s in t.

        The curvature at the start of a step is that of all rows that were short of their margin, too much by the time many
        are beyond it: t is often 1.2 to 2.

        F, P : scores of W and p;  penalty : slope and curvature of the penalties at t = 1
        """
        _, U, V = self._derivatives(F - P)
        slope = penalty[0] - np.vecdot(U.T, P.T)
        t = 1 - slope / np.maximum(np.vecdot(V.T, (P * P).T) + penalty[1], SMALLEST)
        return np.clip(t, *LENGTHS)


def multiply_rows(X: Any, W: Array) -> Array:
    """(n, m): X̃W, the last column of W (m, D) for an intercept."""
    d = X.shape[1]
    F = np.asarray(X @ W[:, :d].T)
    if W.shape[1] > d:
        F += W[:, d]
    return F


def multiply_columns(columns: Any, U: Array, D: int) -> Array:
    """(m, D): X̃ᵀU, the sum of U for an intercept."""
    G = np.empty((U.shape[1], D))
    G[:, : columns.shape[0]] = (columns @ U).T
    if columns.shape[0] < D:
        G[:, -1] = U.sum(axis=0)
    return G


def is_thin(data: LinearProblem) -> bool:
    """Whether rows are sparse, in memory, and so thin that products are cheaper than a Hessian."""
    X = data.data.source
    return data.data.in_memory and sp.issparse(X) and X.nnz < THIN * X.shape[0] * X.shape[1]


def fit_intercept_alone(data: LinearProblem) -> Array:
    """Return weights (m, D) of the best model without features, by Newton's method on one row per class."""
    W = np.zeros((data.m, data.D))
    if not data.intercept or data.loss.coupled:
        return W
    c, s = data.classes_and_weights
    totals = np.bincount(c.astype(np.intp), s)
    for _ in range(8):
        F = np.tile(W[:, -1], (len(totals), 1))
        _, U, V = data.loss.rows(F, np.arange(len(totals)), totals, 2)
        assert V is not None
        W[:, -1] -= U.sum(axis=0) / np.maximum(V.sum(axis=0), SMALLEST)
    return W


class Direction(NamedTuple):
    p: Array  # (m, D)
    decrement: Array  # (m,) gᵀp; of a coupled loss all in the first
    P: Array  # (n, m) its scores


def solve_by_products(rows: ThinRows, F: Array, g: Array, ridge: Array) -> Direction | None:
    """p ≈ H⁻¹g where rows have scores F; None where many products do not suffice."""
    (m, D), coupled = g.shape, rows.loss.coupled
    X, V, s = rows.curvature(F)
    Xt = X.T  # once: SciPy takes a quarter of a product's time for it
    P = np.zeros_like(F) if X is rows.X else None

    def multiply(Q: Array) -> tuple[Array, Array]:
        scores = multiply_rows(X, Q)
        curved = V * scores
        if coupled:
            curved -= V * curved.sum(axis=1, keepdims=True)
            curved *= s[:, None]
        return scores, multiply_columns(Xt, curved, D) + ridge * Q

    def dot(A: Array, B: Array) -> Array:
        return np.full((m, 1), np.vdot(A, B)) if coupled else np.vecdot(A, B)[:, None]

    squares = sp.csc_array((X.data**2, X.indices, X.indptr), X.shape[::-1])
    curved = s[:, None] * V * (1 - V) if coupled else V
    diagonal = multiply_columns(squares, curved, D) + ridge
    if coupled:  # one for all classes: then Σₖ pₖ stays 0, as in the gradient, where H has no curvature but the ridge
        diagonal = diagonal.mean(axis=0, keepdims=True)
    diagonal = np.where(diagonal > 0, diagonal, 1.0)
    p, r = np.zeros_like(g), g.copy()
    z = r / diagonal
    q, left = z, dot(r, z)
    enough = ENOUGH**2 * left
    for _ in range(MOST):
        if (left <= enough).all():
            decrement = np.vecdot(p, g)
            if coupled:
                decrement = np.eye(1, m)[0] * decrement.sum()
            return Direction(p, decrement, rows.scores(p) if P is None else P)
        scores, Hq = multiply(q)
        step = left / np.maximum(dot(q, Hq), SMALLEST)
        p += step * q
        if P is not None:
            P += step[:, 0] * scores
        r -= step * Hq
        z = r / diagonal
        before, left = left, dot(r, z)
        q = z + left / np.maximum(before, SMALLEST) * q
    return None
