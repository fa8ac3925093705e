"""The normal equations of least squares as sums over rows, and how they are solved.

    minimise ½ Σ s(y − xᵀw − b)²:      (Σ s x̃x̃ᵀ) w = Σ s x̃ỹ,   b = ȳ − x̄ᵀw,      x̃ = x − x̄,  ỹ = y − ȳ     (ML, Least squares)

`NormalEquations` are the sums; those of two blocks add up to those of both, so memory, disk, streams, batches and clusters are
one path. Forming x̃x̃ᵀ squares the condition number κ. While κ² stays below 1e11 the sums decide that the rank is full, and one
step of refinement with residuals of the data, w + A⁻¹ Σ s x̃r, brings the error from eps·κ² back to about eps·κ (Björck 1987).
Beyond, the rows themselves are decomposed if they are in memory; if they are not, the sums are, and directions that rounding
hides count as undetermined.

    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.normal(size=(90, 3)), rng.normal(size=(90, 1))
    >>> parts = [NormalEquations.of(X[i::3], y[i::3]) for i in range(3)]
    >>> bool(np.allclose(sum(parts, NormalEquations()).cross, NormalEquations.of(X, y).cross))
    True
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from scipy.linalg.lapack import dpocon, dpotrf, dpotrs

from lemmata.core.blocks import Blocks
from lemmata.core.engine import map_reduce
from lemmata.core.moments import Moments
from lemmata.core.store import storable

Array = np.ndarray
EPS = float(np.finfo(np.float64).eps)
SAFE = 1e-11  # 1/κ² of normal equations that still say that the rank is full: rounding hides what is below d·eps
ROUGH = 1e-5  # below, coefficients from sums alone have lost too many digits: residuals of the data correct them
CONSTANT = 32 * EPS  # a column that varies by less than this share of its mean varies by rounding
ALIKE = 1e3  # lengths of columns that differ by less are left as they are: rank and minimum norm are then those of X itself


@storable
@dataclass(frozen=True)
class NormalEquations:
    """Rows, moments of X, and Σ s x̃ỹᵀ, ȳ, Σ sỹ² of m targets. NormalEquations() is the empty sum."""

    version = 1
    layout: ClassVar = {"count": ">=0", "y_mean": "m", "cross": "d m", "y_scatter": "m >=0"}

    count: int = 0  # rows with a weight
    moments: Moments = field(default_factory=Moments)
    y_mean: Any = 0.0  # (m,)
    cross: Any = 0.0  # (d, m)
    y_scatter: Any = 0.0  # (m,)

    @classmethod
    def of(cls, rows: Any, y: Array, weights: Array | None = None) -> NormalEquations:
        """Sums over a block, y of shape (n, m)."""
        count = rows.shape[0] if weights is None else int(np.count_nonzero(weights))
        if count == 0:
            return cls()
        rows, y = rows.astype(np.float64, copy=False), y.astype(np.float64, copy=False)
        with np.errstate(over="ignore", invalid="ignore"):  # checked below
            moments = Moments.of(rows, weights)
            s = 1.0 if weights is None else weights[:, None]
            y_mean = (s * y).sum(axis=0) / moments.n
            centred = y - y_mean
            weighted = s * centred
            # x̃ instead of x: Σ s ỹ is zero up to rounding
            cross = np.asarray(rows.T @ weighted) - np.multiply.outer(
                moments.mean, weighted.sum(axis=0)
            )
            y_scatter = (weighted * centred).sum(axis=0)
        if not (np.isfinite(y_scatter).all() and np.isfinite(cross).all()):
            raise ValueError(
                "X or y contains numbers too large to be multiplied; divide them by their largest numbers."
            )
        return cls(count, moments, y_mean, cross, y_scatter)

    @classmethod
    def gather(cls, data: Blocks) -> NormalEquations:
        """Add up all blocks, on threads or a cluster."""
        assert data.targets is not None
        y = data.targets.reshape(data.shape[0], -1)
        if data.n_blocks == 1:
            return cls.of(next(iter(data))[0], y, data.weights)
        return map_reduce(_of_packed, pack(data), cls())

    def __add__(self, other: NormalEquations) -> NormalEquations:
        if other.count == 0:
            return self
        if self.count == 0:
            return other
        a, b = self.moments, other.moments
        share = a.n * b.n / (a.n + b.n)
        dx, dy = b.mean - a.mean, other.y_mean - self.y_mean
        return NormalEquations(
            self.count + other.count,
            a + b,
            self.y_mean + dy * (b.n / (a.n + b.n)),
            self.cross + other.cross + np.multiply.outer(share * dx, dy),
            self.y_scatter + other.y_scatter + share * dy**2,
        )

    def system(self, centred: bool) -> tuple[Array, Array, Array]:
        """A = Σ s x̃x̃ᵀ, Σ s x̃ỹᵀ and Σ sỹ², or those about 0 for a model without intercept."""
        moments, n = self.moments, self.moments.n
        if centred:
            return moments.scatter, self.cross, self.y_scatter
        cross = self.cross + np.multiply.outer(n * moments.mean, self.y_mean)
        return moments.about_zero, cross, self.y_scatter + n * self.y_mean**2

    def constant_columns(self) -> Array:
        """Columns that vary by no more than the rounding of their mean, as a mask."""
        spread = np.diagonal(self.moments.scatter)
        return spread <= self.moments.n * (CONSTANT * self.moments.mean) ** 2


def refuse_vanishing_columns(sums: NormalEquations, data: Blocks) -> None:
    """Refuse columns that vary, but by so little that their squares vanish: they would pass for constant ones."""
    # squares down to here are rounded to 5e-324, which is still eps of them
    doubtful = np.flatnonzero(np.diagonal(sums.moments.scatter) < 1e-307 * sums.moments.n)
    first = None
    for rows, _ in data if len(doubtful) else ():
        part = rows[:, doubtful]
        part = part.toarray() if sp.issparse(part) else part
        first = part[:1] if first is None else first
        apart = np.abs(part - first).max(axis=0)
        if apart.any():
            raise ValueError(
                f"column {doubtful[int(apart.argmax())]} of X varies by {apart.max():.2g} at most, whose square is 0: "
                "divide X by its largest number."
            )


def pack(data: Blocks) -> Blocks:
    """Blocks whose weights are the columns [s, y]: a pass hands every block its part of both, here and on a cluster."""
    assert data.targets is not None
    n = data.shape[0]
    s = np.ones(n) if data.weights is None else data.weights
    return data.weighted(np.column_stack([s, data.targets.reshape(n, -1)]).astype(np.float64))


def _of_packed(rows: Any, columns: Array) -> NormalEquations:
    return NormalEquations.of(rows, columns[:, 1:], columns[:, 0])


# --- residuals --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Residuals:
    """Σ s xrᵀ, Σ s r and Σ s r² of the residuals r = y − xᵀw − b, which add up like everything here."""

    gradient: Any = 0.0  # (d, m)
    total: Any = 0.0  # (m,)
    squares: Any = 0.0  # (m,)

    def __add__(self, other: Residuals) -> Residuals:
        return Residuals(
            self.gradient + other.gradient,
            self.total + other.total,
            self.squares + other.squares,
        )


def residuals(data: Blocks, coef: Array, intercept: Array) -> Residuals:
    """One pass over the rows at the weights coef (d, m)."""

    def of(rows, columns):
        rows = rows.astype(np.float64, copy=False)
        r = columns[:, 1:] - rows @ coef - intercept
        weighted = r * columns[:, :1]
        return Residuals(
            np.asarray(rows.T @ weighted), weighted.sum(axis=0), (weighted * r).sum(axis=0)
        )

    return map_reduce(of, pack(data), Residuals())


# --- solving ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CholeskyFactor:
    """A positive definite A + αI as LLᵀ of its columns scaled to unit diagonal; `safe` is 1/κ as LAPACK estimates it."""

    scale: Array  # (d,)
    triangle: Array
    safe: float

    def solve(self, c: Array) -> Array:
        z, _ = dpotrs(self.triangle, self.scale[:, None] * c, lower=1)
        return self.scale[:, None] * z


def factor(A: Array, alpha: float = 0.0) -> CholeskyFactor | None:
    """Cholesky of A + αI, or None where it is not positive definite."""
    diagonal = np.diagonal(A) + alpha
    if not (diagonal > 0).all():
        return None
    scale = 1 / np.sqrt(diagonal)
    C = A * scale
    C *= scale[:, None]
    C.flat[:: len(C) + 1] = 1.0
    norm = float(np.abs(C).sum(axis=0).max())
    # C is symmetric: its transpose is the same matrix in LAPACK's order, and need not be copied
    triangle, failed = dpotrf(C.T, lower=1, overwrite_a=1, clean=0)
    if failed:
        return None
    safe, _ = dpocon(triangle, norm, uplo="L")
    return CholeskyFactor(scale, triangle, float(safe))


def eigen_solve(A: Array, c: Array, tol: float) -> tuple[Array, int]:
    """Minimum-norm solution of Aw = c and the rank, from the eigenvectors of A; what is below tol² or rounding counts as 0."""
    scale = column_scale(np.sqrt(np.maximum(np.diagonal(A), 0.0)))
    C = A * scale * scale[:, None]
    values, V = scipy.linalg.eigh(C, driver="evd", check_finite=False)
    # d rounded products in every entry
    least = max(tol**2, 8 * len(C) * EPS) * max(values[-1], 0.0)
    kept = values > least
    values, V = values[kept], V[:, kept]
    image = (V.T @ (scale[:, None] * c)) / values[:, None]
    return shortest(image, V, scale), int(kept.sum())


def column_scale(lengths: Array) -> Array:
    """Factors that make columns of very different lengths unit columns; ones where the lengths are alike; 0 for empty ones."""
    present = lengths > 0
    if not present.any():
        return np.zeros_like(lengths)
    if lengths[present].max() < ALIKE * lengths[present].min():
        return present.astype(np.float64)
    return np.where(present, 1 / np.where(present, lengths, 1.0), 0.0)


def shortest(image: Array, V: Array, scale: Array) -> Array:
    """The shortest w, in the units of X, with Vᵀ diag(1/scale) w = image: V spans the rows of X diag(scale)."""
    if V.shape[1] == len(scale) or np.array_equal(scale, scale != 0):
        return scale[:, None] * (V @ image)
    present = scale > 0
    Q, R = scipy.linalg.qr(V[present] / scale[present, None], mode="economic", check_finite=False)
    w = np.zeros((len(scale), image.shape[1]))
    w[present] = Q @ scipy.linalg.solve_triangular(R, image, trans="T", check_finite=False)
    return w


def centred_rows(
    data: Blocks, x_mean: Array, y_mean: Array, constant: Array | None = None
) -> tuple[Array, Array]:
    """√s(x − x̄) and √s(y − ȳ) in float64, dense, of rows in memory; columns known to be constant are 0."""
    assert data.targets is not None
    rows = data.source.toarray() if sp.issparse(data.source) else data.source
    X = rows.astype(np.float64) - x_mean
    if constant is not None:
        X[:, constant] = 0.0
    y = data.targets.reshape(len(X), -1).astype(np.float64) - y_mean
    if data.weights is not None:
        root = np.sqrt(data.weights)[:, None]
        X *= root
        y = y * root
    return X, y


def svd_solve(X: Array, y: Array, tol: float) -> tuple[Array, int, Array]:
    """Minimum-norm least squares by QR and SVD of the rows: weights (d, m), rank, singular values of X."""
    n, d = X.shape
    scale = column_scale(np.sqrt(np.einsum("ij,ij->j", X, X)))
    scaled = not np.array_equal(scale, scale != 0)
    if n > d:
        Qy, R = scipy.linalg.qr_multiply(X, y.T, mode="right")
        X, y = R, Qy.T
    singular_of_X = scipy.linalg.svdvals(X, check_finite=False) if scaled else None
    U, singular, Vt = scipy.linalg.svd(X * scale, full_matrices=False, check_finite=False)
    kept = singular > max(tol, max(n, d) * EPS) * singular.max(initial=0.0)
    image = (U[:, kept].T @ y) / singular[kept, None]
    w = shortest(image, Vt[kept].T, scale)
    return w, int(kept.sum()), singular if singular_of_X is None else singular_of_X
