"""The regression that the algorithm solves, in its own units: from rows, targets and weights, and back to raw columns."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils import check_array

from lemmata.core.blocks import Blocks
from lemmata.predict.lasso.design import Design
from lemmata.predict.lasso.gram import Entered

Array = np.ndarray
TINY = float(np.finfo(np.float64).tiny)
SMALL = 2**24  # multiplications of a Gram matrix of all columns that is formed at once


@dataclass(frozen=True)
class Regression:
    """Centred and scaled columns and targets, how strongly each column is penalised, and the way back to raw columns."""

    design: Design
    Y: Array  # (n, T) ỹ, without what unpenalised columns explain
    factor: Array  # (d,) p
    entered: Entered
    at_zero: Array  # (d, T) X̃ᵀỹ: the correlations of all columns at w = 0
    y_mean: Array  # (T,)
    centred: Array  # (n, T) ỹ before unpenalised columns were projected out
    data: Blocks | None = None
    start: Array | None = None  # (T, d) where to begin

    @property
    def shape(self) -> tuple[int, int]:
        return self.design.shape

    @property
    def fits_at_once(self) -> bool:
        """Whether the Gram matrix of all columns is there, or formed at the beginning."""
        n, d = self.shape
        return self.entered.given is not None or n * float(d) * d <= SMALL

    @cached_property
    def usable(self) -> Array:
        """Columns that vary and bear a penalty."""
        return (self.design.norms > 0) & (self.factor > 0)

    @cached_property
    def yy(self) -> Array:
        """(T,) ‖ỹ‖²."""
        with np.errstate(over="ignore"):
            return np.einsum("ij,ij->j", self.Y, self.Y)

    def largest(self, positive: bool) -> float:
        """λ_max = max_j |x̃_jᵀỹ| / p_j: from there on all penalised coefficients are 0."""
        size = (self.at_zero if positive else np.abs(self.at_zero)).max(axis=1)[self.usable]
        return float(max((size / self.factor[self.usable]).max(initial=0.0), 0.0))

    def fingerprint(self) -> str:
        return "" if self.data is None else self.data.fingerprint()

    def coefficients(self, coefs: Array, targets: Array) -> tuple[Array, Array]:
        """(P, d) coefficients of the raw columns, those without penalty filled in, and (P,) intercepts."""
        design, free = self.design, np.flatnonzero(self.factor == 0)
        if len(free):
            coefs = coefs.copy()
            used = np.flatnonzero(coefs.any(axis=0))
            rest = self.centred[:, targets]
            for a in range(0, len(used), 64):
                part = used[a : a + 64]
                rest = rest - (coefs[:, part] @ design.take(part)).T
            coefs[:, free] = np.linalg.lstsq(design.take(free).T, rest, rcond=None)[0].T
        return coefs, self.y_mean[targets] - coefs @ design.offset


def prepare(
    X: Any,
    y: Array,
    weights: Array | None,
    *,
    fit_intercept: bool,
    factor: Array | None = None,
    start: Array | None = None,
    data: Blocks | None = None,
) -> Regression:
    """Centre, weight, and project out what bears no penalty. X: dense or sparse, (n, d); y: (n,) or (n, T)."""
    Y = np.array(y, dtype=np.float64).reshape(len(y), -1)
    scale = len(Y) ** -0.5 if weights is None else np.sqrt(weights / weights.sum())
    y_mean = np.zeros(Y.shape[1])
    if fit_intercept:
        y_mean = Y.mean(axis=0) if weights is None else np.average(Y, axis=0, weights=weights)
    Y = Y - y_mean
    # constant targets, but for the rounding of their mean
    eps = 8 * np.finfo(np.float64).eps
    Y[:, np.isfinite(y_mean) & (np.abs(Y).max(axis=0, initial=0.0) <= eps * np.abs(y_mean))] = 0.0
    Y = (Y.T * scale).T
    design, at_zero = Design.of(X, scale, fit_intercept, Y)
    factor = np.ones(X.shape[1]) if factor is None else factor
    free = np.flatnonzero(factor == 0)
    if len(free):
        design = design.without(free)
    projected = np.ascontiguousarray(design.project(Y).T).T
    if len(free):
        at_zero = design.correlate(projected)
        at_zero[free] = 0.0
    entered = Entered(design, projected)
    problem = Regression(design, projected, factor, entered, at_zero, y_mean, Y, data, start)
    refuse_extremes(problem, Y)
    return problem


def check_factors(penalty_factor: Any, d: int, positive: bool) -> Array | None:
    """Return the penalty factors of d features; None: all 1."""
    if penalty_factor is None:
        return None
    p = check_array(penalty_factor, ensure_2d=False, dtype=np.float64, input_name="penalty_factor")
    if p.shape != (d,):
        raise ValueError(
            f"penalty_factor has shape {p.shape} for {d} features; pass one number per feature."
        )
    if p.min() < 0:
        raise ValueError(
            f"penalty_factor holds {p.min():g}; pass numbers >= 0 (0: no penalty on that feature)."
        )
    if positive and (p == 0).any():
        raise ValueError(
            "penalty_factor holds 0 and positive=True: a feature without penalty is solved for without bounds; "
            "pass a small factor such as 1e-6 instead, or positive=False."
        )
    return p


def refuse_extremes(problem: Regression, Y: Array) -> None:
    """Refuse a target, or columns, that are not constant but whose squares overflow or vanish."""
    if not np.isfinite(problem.yy).all():
        raise ValueError(
            "y contains numbers too large to be squared; divide y by its largest number."
        )
    if problem.yy.min() < TINY and ((Y * Y).sum(axis=0) < TINY)[Y.any(axis=0)].any():
        raise ValueError(
            f"y differs from its mean by {np.abs(Y).max():.2g} at most, whose square is 0; divide y by its largest number."
        )
    norms = problem.design.norms
    if 0 < norms.max() < TINY**0.5:
        raise ValueError(
            f"the columns of X differ by {norms.max():.2g}, whose square is 0; divide X by its largest number."
        )


def column_matrix(data: Blocks) -> Any:
    """All rows as one matrix, by columns where they came so."""
    return row_matrix(data) if data.columns is None else data.columns


def row_matrix(data: Blocks) -> Any:
    """All rows as one matrix; what is not in memory is gathered."""
    if data.in_memory and data.source is not None:
        return data.source
    parts = [rows for rows, _ in data]
    return sp.vstack(parts).tocsc() if sp.issparse(parts[0]) else np.concatenate(parts)
