"""From rows, targets and weights to the regression that the algorithm solves, and back to coefficients of the raw columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from lemmata.predict.lasso.algorithm import Regression
from lemmata.predict.lasso.design import Design
from lemmata.predict.lasso.gram import Entered

Array = np.ndarray
TINY = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True)
class Prepared:
    """A regression with what is needed to return from its units: means, and the columns that were projected out."""

    problem: Regression
    y_mean: Array  # (T,)
    centred: Array  # (n, T) ỹ before unpenalised columns were projected out
    free: Array  # columns without penalty

    def coefficients(self, coefs: Array, targets: Array) -> tuple[Array, Array]:
        """(P, d) coefficients, those without penalty filled in, and (P,) intercepts."""
        design = self.problem.design
        if len(self.free):
            coefs = coefs.copy()
            used = np.flatnonzero(coefs.any(axis=0))
            rest = self.centred[:, targets]
            for a in range(0, len(used), 64):
                part = used[a : a + 64]
                rest = rest - (coefs[:, part] @ design.take(part)).T
            coefs[:, self.free] = np.linalg.lstsq(design.take(self.free).T, rest, rcond=None)[0].T
        return coefs, self.y_mean[targets] - coefs @ design.offset


def prepare(
    X: Any,
    y: Array,
    weights: Array | None,
    *,
    fit_intercept: bool,
    factor: Array | None = None,
    start: Array | None = None,
    data: Any = None,
) -> Prepared:
    """Centre, weight, and project out what bears no penalty. X: dense or sparse, (n, d); y: (n,) or (n, T)."""
    Y = np.array(y, dtype=np.float64).reshape(len(y), -1)
    scale = len(Y) ** -0.5 if weights is None else np.sqrt(weights / weights.sum())
    y_mean = np.zeros(Y.shape[1])
    if fit_intercept:
        y_mean = Y.mean(axis=0) if weights is None else np.average(Y, axis=0, weights=weights)
    Y = ((Y - y_mean).T * scale).T
    design, products = Design.of(X, scale, fit_intercept, Y)
    factor = np.ones(X.shape[1]) if factor is None else factor
    free = (factor == 0).nonzero()[0]
    if len(free):
        design = design.without(free)
    projected = np.ascontiguousarray(design.project(Y).T).T
    problem = Regression(design, projected, factor, Entered(design, projected), data, start)
    if not len(free):
        problem.__dict__["at_zero"] = products  # known already
    refuse_extremes(problem, Y)
    return Prepared(problem, y_mean, Y, free)


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


def column_matrix(data: Any) -> Any:
    """The rows of Blocks as one matrix: what is in memory as it is, anything else gathered."""
    if data.in_memory and data.source is not None:
        return data.source
    parts = [rows for rows, _ in data]
    return sp.vstack(parts).tocsc() if sp.issparse(parts[0]) else np.concatenate(parts)
