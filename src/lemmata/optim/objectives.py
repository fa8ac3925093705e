"""Objectives whose curvature is known everywhere, so that what theory promises about descent can be proved of a run.

    Quadratic      ½ xᵀHx − bᵀx + c                             L = λ_max(H),              μ = λ_min(H)
    LeastSquares   1/2n ‖Xw − y‖² + ½ρ‖w‖²                      L = σ_max²/n + ρ,          μ = σ_min²/n + ρ
    Logistic       1/n Σ log(1 + exp(−yᵢxᵢᵀw)) + ½ρ‖w‖²         L ≤ σ_max²/4n + ρ,         μ ≥ ρ
    LeastAbsolute  1/n Σ |yᵢ − xᵢᵀw|                            convex, not smooth;        ‖g‖ ≤ mean ‖xᵢ‖
    Rosenbrock     Σ (1 − xᵢ)² + 100(xᵢ₊₁ − xᵢ²)²                no L holds everywhere; the minimum is 0 at (1, …, 1)

σ are the singular values of X; ρ is `reg`. An objective is called with a point and returns its value and its gradient there.

    >>> import numpy as np
    >>> f = Quadratic(np.diag([1.0, 10.0]))
    >>> f(np.array([1.0, 1.0]))
    (5.5, array([ 1., 10.]))
    >>> f.L, f.mu, f.minimum
    (10.0, 1.0, 0.0)

The slope of |e| at e = y − f is +1 or −1, and e falls as f grows: the sub-gradient of LeastAbsolute is −1/n Σ sign(eᵢ) xᵢ.
The ML notes lack the minus in the sum and have it in their update.

`structure` names the formula and its arrays. The audit evaluates that formula by code of its own and takes L from it, not
from here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.special import expit

Array = np.ndarray
Evaluated = tuple[float, Array]


def _gram_eigenvalues(X: Any) -> Array:
    """The eigenvalues of XᵀX/n, rising, without the zeros that d > n brings; from the smaller of XᵀX and XXᵀ."""
    n, d = X.shape
    G = X.T @ X if d <= n else X @ X.T
    G = G.toarray() if sp.issparse(G) else G
    return np.maximum(np.linalg.eigvalsh(np.asarray(G, dtype=np.float64)), 0.0) / n


def _check_rows(X: Any, y: Any) -> tuple[Any, Array]:
    X = X if sp.issparse(X) else np.asarray(X)
    if not sp.issparse(X) and X.dtype.kind != "f":
        X = X.astype(np.float64)
    y = np.asarray(y)
    if X.ndim != 2 or y.shape != (X.shape[0],) or 0 in X.shape:
        raise ValueError(
            f"X has shape {X.shape} and y shape {y.shape}; pass n × d rows and n targets."
        )
    values = X.data if sp.issparse(X) else X
    if not (np.isfinite(values).all() and np.isfinite(y.astype(np.float64)).all()):
        raise ValueError("X or y contains NaN or infinity; drop or fill those entries first.")
    return X, y.astype(X.dtype, copy=False)


@dataclass(frozen=True, eq=False, repr=False)
class Quadratic:
    """½ xᵀHx − bᵀx + c with a symmetric H; convex exactly if H has no negative eigenvalue."""

    H: Any
    b: Any = 0.0
    c: float = 0.0

    def __post_init__(self):
        H = np.asarray(self.H, dtype=float)
        if H.ndim != 2 or H.shape[0] != H.shape[1] or not np.isfinite(H).all():
            raise ValueError(f"H has shape {H.shape}; pass a finite square matrix.")
        if np.abs(H - H.T).max() > 1e-12 * np.abs(H).max():
            raise ValueError("H is not symmetric; pass (H + H.T) / 2, which is the same quadratic.")
        b = np.broadcast_to(np.asarray(self.b, dtype=float), H.shape[:1]).copy()
        object.__setattr__(self, "H", H)
        object.__setattr__(self, "b", b)

    def __repr__(self) -> str:
        return f"Quadratic({len(self.H)} numbers)"

    @property
    def multiplications(self) -> int:
        """Number of them in a call, for the price of checking."""
        return self.H.size

    def __call__(self, x: Array) -> Evaluated:
        Hx = self.H @ x
        return float(0.5 * (x @ Hx) - self.b @ x + self.c), Hx - self.b

    def hessian(self, x: Array) -> Array:
        return self.H

    @cached_property
    def eigenvalues(self) -> Array:
        return np.linalg.eigvalsh(self.H)

    @property
    def L(self) -> float:
        return float(np.abs(self.eigenvalues).max())

    @property
    def mu(self) -> float:
        """λ_min; negative where the quadratic is not convex."""
        return float(self.eigenvalues[0])

    @property
    def minimum(self) -> float:
        """f* = c − ½ bᵀH⁺b, −∞ where there is none."""
        x = np.linalg.lstsq(self.H, self.b, rcond=None)[0]
        gone = np.linalg.norm(self.H @ x - self.b) > 1e-8 * (1 + np.linalg.norm(self.b))
        return -math.inf if self.mu < -1e-12 * self.L or gone else self(x)[0]

    @property
    def structure(self) -> tuple[str, dict[str, Any]]:
        return "quadratic", {"H": self.H, "b": self.b, "c": self.c}

    # --- one coordinate at a time (methods/coordinate.py): the gradient is kept up to date ---

    def coordinate_curvatures(self) -> Array:
        return np.diag(self.H).copy()

    def begin_sweep(self, x: Array) -> Array:
        return self.H @ x - self.b

    def partial(self, x: Array, gradient: Array, j: int) -> float:
        return float(gradient[j])

    def move(self, gradient: Array, j: int, by: float) -> None:
        gradient += by * self.H[:, j]


@dataclass(frozen=True, eq=False, repr=False)
class _MeanOverRows:
    """A mean over rows of a loss of xᵢᵀw, and a ridge: what sums over data share."""

    X: Any
    y: Any
    reg: float = 0.0

    def __post_init__(self):
        X, y = _check_rows(self.X, self.y)
        if not (self.reg >= 0 and math.isfinite(self.reg)):
            raise ValueError(f"reg={self.reg} is not accepted; pass a number >= 0.")
        object.__setattr__(self, "X", X)
        object.__setattr__(self, "y", y)

    def __repr__(self) -> str:
        n, d = self.X.shape
        return f"{type(self).__name__}({n:,} × {d:,}, reg={self.reg:g})"

    @property
    def multiplications(self) -> int:
        """Number of them in a call, for the price of checking."""
        n, d = self.X.shape
        return 2 * n * d

    def losses(self, scores: Array, y: Array) -> tuple[Array, Array]:
        """The loss of every row and its derivative by the score."""
        raise TypeError(f"{type(self).__name__} defines no losses.")

    @property
    def n_terms(self) -> int:
        return self.X.shape[0]

    def batch(self, w: Array, rows: Array) -> Evaluated:
        """Value and gradient of the mean over these rows: unbiased for the whole if they are drawn at random."""
        return self._over(self.X[rows], self.y[rows], w)

    def __call__(self, w: Array) -> Evaluated:
        return self._over(self.X, self.y, w)

    def _over(self, X: Any, y: Array, w: Array) -> Evaluated:
        loss, slope = self.losses(X @ w, y)
        value = float(loss.mean(dtype=np.float64)) + 0.5 * self.reg * float(w @ w)
        return value, X.T @ (slope / np.asarray(len(y), w.dtype)) + w.dtype.type(self.reg) * w

    @cached_property
    def gram_eigenvalues(self) -> Array:
        return _gram_eigenvalues(self.X)

    def _weighted_gram(self, weights: Array) -> Array:
        """XᵀDX/n + ρI for D = diag(weights)."""
        X = self.X
        G = X.T @ (sp.diags(weights) @ X if sp.issparse(X) else weights[:, None] * X)
        G = G.toarray() if sp.issparse(G) else G
        return G / self.n_terms + self.reg * np.eye(X.shape[1])

    @cached_property
    def _columns(self) -> Any:
        return self.X.tocsc() if sp.issparse(self.X) else np.asfortranarray(self.X)

    def _column(self, j: int) -> Array:
        column = self._columns[:, [j]] if sp.issparse(self.X) else self._columns[:, j]
        return column.toarray().ravel() if sp.issparse(self.X) else column

    def _column_squares(self) -> Array:
        squares = self.X.multiply(self.X).sum(axis=0) if sp.issparse(self.X) else (self.X**2).sum(0)
        return np.asarray(squares, dtype=np.float64).ravel() / self.n_terms

    # --- one coordinate at a time (methods/coordinate.py): the scores Xw are kept up to date ---

    def begin_sweep(self, w: Array) -> Array:
        return np.asarray(self.X @ w)

    def partial(self, w: Array, scores: Array, j: int) -> float:
        slope = self.losses(scores, self.y)[1]
        return float(self._column(j) @ slope) / self.n_terms + self.reg * float(w[j])

    def move(self, scores: Array, j: int, by: float) -> None:
        scores += by * self._column(j)


@dataclass(frozen=True, eq=False, repr=False)
class LeastSquares(_MeanOverRows):
    """1/2n ‖Xw − y‖² + ½ρ‖w‖²."""

    def losses(self, scores: Array, y: Array) -> tuple[Array, Array]:
        residual = scores - y
        return 0.5 * residual * residual, residual

    def hessian(self, w: Array) -> Array:
        return self._weighted_gram(np.ones(self.n_terms, self.X.dtype))

    @property
    def L(self) -> float:
        return float(self.gram_eigenvalues[-1]) + self.reg

    @property
    def mu(self) -> float:
        n, d = self.X.shape
        return (float(self.gram_eigenvalues[0]) if d <= n else 0.0) + self.reg

    @cached_property
    def minimum(self) -> float:
        if self.reg > 0:
            H = self.hessian(np.zeros(self.X.shape[1]))
            w = np.linalg.solve(H, self.X.T @ self.y / self.n_terms)
        else:
            X = self.X.toarray() if sp.issparse(self.X) else self.X
            w = np.linalg.lstsq(X, self.y, rcond=None)[0]
        return self(w)[0]

    def coordinate_curvatures(self) -> Array:
        return self._column_squares() + self.reg

    @property
    def structure(self) -> tuple[str, dict[str, Any]]:
        return "least_squares", {"X": self.X, "y": self.y, "reg": self.reg}


@dataclass(frozen=True, eq=False, repr=False)
class Logistic(_MeanOverRows):
    """1/n Σ log(1 + exp(−yᵢxᵢᵀw)) + ½ρ‖w‖², y of two values: the larger one counts as +1, the other as −1."""

    minimum = None  # known by no formula

    def __post_init__(self):
        super().__post_init__()
        values = np.unique(self.y)
        if len(values) != 2:
            raise ValueError(
                f"y has {len(values)} different value(s); logistic regression is between two."
            )
        signs = np.where(self.y == values[1], 1, -1).astype(self.X.dtype)
        object.__setattr__(self, "y", signs)

    def losses(self, scores: Array, y: Array) -> tuple[Array, Array]:
        margin = y * scores
        return np.logaddexp(0, -margin), -y * expit(-margin)

    def hessian(self, w: Array) -> Array:
        p = expit(self.X @ w)
        return self._weighted_gram(p * (1 - p))

    @property
    def L(self) -> float:
        return float(self.gram_eigenvalues[-1]) / 4 + self.reg  # σ′ ≤ ¼

    @property
    def mu(self) -> float:
        return float(self.reg)

    def coordinate_curvatures(self) -> Array:
        return self._column_squares() / 4 + self.reg

    @property
    def structure(self) -> tuple[str, dict[str, Any]]:
        return "logistic", {"X": self.X, "y": self.y, "reg": self.reg}


@dataclass(frozen=True, eq=False, repr=False)
class LeastAbsolute(_MeanOverRows):
    """1/n Σ |yᵢ − xᵢᵀw| + ½ρ‖w‖², with a sub-gradient; its minimum with X = 1 is a median."""

    def losses(self, scores: Array, y: Array) -> tuple[Array, Array]:
        residual = scores - y
        return np.abs(residual), np.sign(residual)

    @property
    def structure(self) -> tuple[str, dict[str, Any]]:
        return "absolute", {"X": self.X, "y": self.y, "reg": self.reg}


@dataclass(frozen=True)
class Rosenbrock:
    """Σ (1 − xᵢ)² + 100(xᵢ₊₁ − xᵢ²)²: a curved valley, κ ≈ 2,500 at its end. Its curvature grows without bound."""

    minimum = 0.0

    def __call__(self, x: Array) -> Evaluated:
        a, b = x[:-1], x[1:]
        short, off = 1 - a, b - a * a
        gradient = np.zeros_like(x)
        gradient[:-1] = -2 * short - 400 * a * off
        gradient[1:] += 200 * off
        return float(short @ short + 100 * (off @ off)), gradient

    def hessian(self, x: Array) -> Array:
        a, b = x[:-1], x[1:]
        H = np.zeros((len(x), len(x)))
        i = np.arange(len(x) - 1)
        H[i, i] = 2 - 400 * (b - 3 * a * a)
        H[i + 1, i + 1] += 200
        H[i, i + 1] = H[i + 1, i] = -400 * a
        return H
