"""The way out of a saddle: a direction in which the objective of ALS curves down, followed to the bottom of its line.

Alternation stops wherever no row and no column gains by itself. U = V = 0 is such a point, and so is a fit that lacks a factor:
a column of zeros in U and V stays zero under every sweep. There the Hessian has a negative eigenvalue. Lanczos looks for it
with products H·d, each of which is one pass over the rows and one over the columns, as long as a fraction of a sweep:

    (H d)_i = Σ_j (w_ij dx_ij v_j − r_ij dv_j) + λ_i du_i,          dx_ij = du_iᵀv_j + u_iᵀdv_j,   r: the residual

in units of each row's mean curvature, so that long and short rows count alike. On any line the objective is a polynomial of
degree 4: its value at five points gives the bottom.

    >>> A = Observed.of(np.diag([3.0, 1.0]))
    >>> algorithm = ALSAlgorithm(1, 0.5, weighted=False, biases=False)
    >>> zero = algorithm.evaluate(ALSState(*np.zeros((2, 2, 1)), *np.zeros((2, 2)), 0.0, np.inf), A)
    >>> round(zero.loss - way_down(algorithm, A, zero).loss, 6)                                 # ½(σ₁ − λ)²
    3.125
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp

from lemmata.completion.als.algorithm import ALSAlgorithm, ALSState, sums_per_row
from lemmata.completion.observed import Entries, Observed
from lemmata.completion.rows.solver import predictions, residuals
from lemmata.core.loop import MaxSteps, Solution, Stop, Stopped, run
from lemmata.linalg.lanczos import LanczosAlgorithm
from lemmata.linalg.operators import Operator

Array = np.ndarray

PRODUCTS = 150  # with H at most, where nobody is in a hurry
FLAT = 1e-3  # of the mean curvature: what is above minus this is no way down
SHARE = 0.1  # of the work of the sweeps: what `fit` spends on looking
AT_LEAST = 2**23  # multiplications that it spends all the same, some milliseconds
ENOUGH = 30  # products show every saddle that we met; `escape()` looks longer


def products_within(algorithm: ALSAlgorithm, A: Observed, sweeps: int) -> int:
    """Number of products with H that take a tenth of the work of so many sweeps: counted, so that every run decides alike."""
    (n, m), k, entries = A.shape, algorithm.rank, A.n_observed
    sweep = entries * k * (k + 4) + (n + m) * k**3 / 3
    # eight passes over the entries in float64, and Lanczos' own vectors: measured against sweeps, on MovieLens
    product = 60 * k * (entries + 2 * (n + m))
    return int(min(max(SHARE * sweeps * sweep, AT_LEAST) / product, ENOUGH))


def way_down(
    algorithm: ALSAlgorithm, A: Observed, state: ALSState, products: int = PRODUCTS
) -> ALSState | None:
    """A state below this one, along a direction in which the objective curves down; None where none was found."""
    hessian = Hessian.at(algorithm, A, state)
    size = len(hessian.scale)
    lanczos = LanczosAlgorithm(1, which="bottom", tol=0.0, max_dim=products + 2)
    H = Operator((size, size), np.dtype(np.float64), hessian.times)
    found = run(lanczos, H, stop=CurvesDown() | MaxSteps(products), rng=0)
    if not float(found.state.values[0]) < -FLAT:
        return None
    d = hessian.direction(found.attributes["vectors"][:, 0])
    return _bottom(algorithm, A, state, d)


class CurvesDown(Stop):
    """A negative eigenvalue has been found, and to a tenth: enough to go down there."""

    def reason(self, solution: Solution) -> str | None:
        value, bound = float(solution.state.values[0]), float(solution.state.bounds[0])
        return Stopped.SETTLED if value < -FLAT and bound <= 0.1 * abs(value) else None


def _bottom(
    algorithm: ALSAlgorithm, A: Observed, state: ALSState, d: tuple[Array, ...]
) -> ALSState | None:
    """The lowest point on the line through a state, if it is below it."""

    def at(t: float) -> ALSState:
        parts = (state.U, state.V, state.b, state.c)
        U, V, b, c = (x + (t * y).astype(x.dtype) for x, y in zip(parts, d, strict=True))
        return algorithm.evaluate(replace(state, U=U, V=V, b=b, c=c), A)

    # one unit of t² is about one unit of the objective
    unit = math.sqrt(max(state.loss, 0.0)) or 1.0
    places = np.array([-1.0, -0.5, 0.0, 0.5, 1.0])
    values = np.array([at(t * unit).loss for t in places])
    if not np.isfinite(values).all():
        return None
    coefficients = np.linalg.solve(np.vander(places, increasing=True), values)
    slope = coefficients[1:] * np.arange(1, 5)
    roots = np.polynomial.polynomial.polyroots(slope).real if slope[-1] != 0 else np.zeros(0)
    best = min((at(float(t) * unit) for t in roots), key=lambda one: one.loss, default=None)
    return best if best is not None and best.loss < state.loss else None


# --- products with the Hessian ----------------------------------------------------------------------------------------


def row_curvatures(entries: Entries, squares: Array, alpha: float | None) -> Array:
    """Σ_j w_ij ‖z_j‖² of every row; w of the entries, or α|a| (what is seen beyond the rest) with implicit feedback."""
    weights: Array | float = 1.0 if entries.weights is None else entries.weights
    weights = weights if alpha is None else alpha * np.abs(entries.values)
    return sums_per_row(entries, weights * squares[entries.indices])


def row_curves(
    entries: Entries, V: Array, dV: Array, shift: Array, dc: Array, alpha: float | None, compiled: bool | None,
    U: Array, dU: Array, b: Array, db: Array,
) -> tuple[Array, Array]:  # fmt: skip
    """Σ_j (w dx_ij v_j − s_ij dv_j) and Σ_j w dx_ij of every row, over its entries."""
    indptr, indices, a = entries
    dx = predictions(entries, np.hstack([dU, U]), np.hstack([V, dV]), db, dc, compiled=compiled)
    if alpha is None:
        wide = Entries(indptr, indices, a.astype(np.float64))
        rest = residuals(wide, U, V, b, shift, compiled=compiled)
        if entries.weights is not None:
            dx, rest = entries.weights * dx, entries.weights * rest
    else:
        more, x = alpha * np.abs(a), predictions(entries, U, V, compiled=compiled)
        dx, rest = more * dx, (1 + more) * (a > 0) - more * x
    pull = _times(Entries(indptr, indices, dx), V, compiled)
    pull -= _times(Entries(indptr, indices, rest), dV, compiled)
    return pull, sums_per_row(entries, dx)


def _times(entries: Entries, B: Array, compiled: bool | None) -> Array:
    """S B for the sparse S with these rows."""
    if compiled:
        from lemmata.completion.nuclear.sparse_lowrank import row_products

        return row_products(entries, B)
    indptr, indices, values = entries
    return sp.csr_array((values, indices, indptr), shape=(len(indptr) - 1, len(B))) @ B


@dataclass(frozen=True, eq=False)
class Hessian:
    """H of the objective at a state, scaled: y ↦ S^-½ H S^-½ y with the mean curvature of each row in S."""

    algorithm: ALSAlgorithm
    A: Observed
    state: ALSState  # in float64
    reg: tuple[Array, Array]  # λ_i and λ_j
    bias_reg: tuple[Array, Array]  # κ_i and κ_j
    scale: Array  # (size,) of S^-½

    @classmethod
    def at(cls, algorithm: ALSAlgorithm, A: Observed, state: ALSState) -> Hessian:
        U, V, b, c = (part.astype(np.float64) for part in (state.U, state.V, state.b, state.c))
        counts = A.row_masses, A.column_masses
        regs = tuple(algorithm.reg * algorithm._weights(own) for own in counts)
        own_regs = tuple(algorithm.bias_regs(own) for own in counts)
        p, alpha = (
            algorithm.rank + algorithm.biases,
            algorithm.alpha if algorithm.implicit else None,
        )
        scales = []
        for over, other, reg in ((A.over_rows, V, regs[0]), (A.over_columns, U, regs[1])):
            squares = np.einsum("jk,jk->j", other, other) + algorithm.biases
            own = over(row_curvatures, squares, alpha) + (
                squares.sum() if algorithm.implicit else 0
            )
            own = own / p + reg
            positive = own[own > 0]
            # a row that nothing holds counts like the others; F does not depend on it
            own = np.where(own > 0, own, positive.mean() if len(positive) else 1.0)
            scales.append(1 / np.sqrt(own))
        parts = [np.repeat(scale, algorithm.rank) for scale in scales]
        parts += scales if algorithm.biases else []
        at = replace(state, U=U, V=V, b=b, c=c)
        return cls(algorithm, A, at, regs, own_regs, np.concatenate(parts))  # type: ignore[arg-type]

    def direction(self, y: Array) -> tuple[Array, Array, Array, Array]:
        """S^-½ y as changes of U, V, b and c."""
        (n, m), k, d = self.A.shape, self.algorithm.rank, self.scale * y
        biases = d[(n + m) * k :] if self.algorithm.biases else np.zeros(n + m)
        U, V = d[: n * k].reshape(n, k), d[n * k : (n + m) * k].reshape(m, k)
        return U, V, biases[:n], biases[n:]

    def times(self, Y: Array) -> Array:
        return np.column_stack([self._once(y) for y in Y.T])

    def _once(self, y: Array) -> Array:
        s, algorithm = self.state, self.algorithm
        dU, dV, db, dc = self.direction(y)
        alpha = algorithm.alpha if algorithm.implicit else None
        rows, columns = (s.U, dU, s.b, db), (s.V, dV, s.c, dc)
        (gU, gb), (gV, gc) = (
            over(row_curves, F, dF, s.mean + f, df, alpha, algorithm.compiled, aligned=own)
            for over, (F, dF, f, df), own in (
                (self.A.over_rows, columns, rows),
                (self.A.over_columns, rows, columns),
            )
        )
        if algorithm.implicit:
            gU += dU @ (s.V.T @ s.V) + s.U @ (dV.T @ s.V + s.V.T @ dV)
            gV += dV @ (s.U.T @ s.U) + s.V @ (dU.T @ s.U + s.U.T @ dU)
        parts = [gU + self.reg[0][:, None] * dU, gV + self.reg[1][:, None] * dV]
        if algorithm.biases:
            parts += [gb + self.bias_reg[0] * db, gc + self.bias_reg[1] * dc]
        return self.scale * np.concatenate([part.ravel() for part in parts])
