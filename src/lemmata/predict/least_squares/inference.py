"""Inference about least-squares weights: standard errors, intervals, and the rows that decide them.

With Z = [1, X] of full rank, p columns, H = Z(ZᵀSZ)⁻¹ZᵀS, residuals r and σ̂² = Σ s r²/(n − p):

    nonrobust   cov = σ̂² (ZᵀSZ)⁻¹                                     if the noise has variance σ²/s: weights are precisions
    HC0…HC3     cov = (ZᵀSZ)⁻¹ (Σ s² ωᵢ zᵢzᵢᵀ) (ZᵀSZ)⁻¹               ω = r²,  r² n/(n−p),  r²/(1−h),  r²/(1−h)²
    leverage    hᵢ = sᵢ zᵢᵀ(ZᵀSZ)⁻¹zᵢ, between 0 and 1, p in all
    Cook        Dᵢ = tᵢ² hᵢ/(p(1−hᵢ)),  tᵢ = √sᵢ rᵢ/(σ̂√(1−hᵢ)):       how far the fit moves if row i is left out
    interval    xᵀw + b ± t_{n−p} √(zᵀ cov z + σ̂²)                    of a new y; without σ̂² of its mean

The first needs the sums alone (`sums_`), so it comes from disk, batches and clusters too; the others need another pass over
the rows. t and p are those of Student's distribution with n − p degrees of freedom, for HC as well. Where the data does not
determine a weight, its standard error is infinite.

    >>> from sklearn.datasets import load_diabetes
    >>> from lemmata.predict.least_squares.estimator import LinearRegression
    >>> X, y = load_diabetes(return_X_y=True)
    >>> found = LinearRegression().fit(X, y).inference()
    >>> np.round(found.standard_errors[:3], 3), np.round(found.p_values[:3], 2)
    (array([ 2.576, 59.749, 61.222]), array([0.  , 0.87, 0.  ]))
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import scipy.linalg
import scipy.stats
from sklearn.utils.validation import check_is_fitted

from lemmata.core.blocks import Blocks
from lemmata.core.engine import map_reduce
from lemmata.predict.inference import EstimatedWeights, check_level, feature_names
from lemmata.predict.least_squares.normal_equations import EPS, NormalEquations, eigen_solve, pack

Array = np.ndarray
COVARIANCES = ("nonrobust", "HC0", "HC1", "HC2", "HC3")


@dataclass(frozen=True)
class Inference(EstimatedWeights):
    """One output's weights with what is known about their error; the intercept comes first."""

    kind: str  # of the covariance
    dof: int  # n − rank
    n: int
    residual_variance: float  # σ̂²
    r_squared: float
    f_statistic: float
    log_likelihood: float

    @property
    def law(self) -> Any:
        return scipy.stats.t(self.dof)

    @property
    def t_values(self) -> Array:
        return self.statistics

    @property
    def adjusted_r_squared(self) -> float:
        centred = self.names[:1] == ("intercept",)
        return 1 - (1 - self.r_squared) * (self.n - centred) / self.dof

    @property
    def f_p_value(self) -> float:
        """P-value of the hypothesis that every weight but the intercept is 0."""
        return float(scipy.stats.f.sf(self.f_statistic, self._slopes, self.dof))

    @property
    def _slopes(self) -> int:
        return self.n - self.dof - (self.names[:1] == ("intercept",))

    @property
    def aic(self) -> float:
        return 2 * (self.n - self.dof) - 2 * self.log_likelihood

    @property
    def bic(self) -> float:
        return float(np.log(self.n)) * (self.n - self.dof) - 2 * self.log_likelihood

    def summary(self) -> str:
        """A table to print."""
        return (
            f"least squares   n = {self.n:,}   degrees of freedom {self.dof:,}   covariance {self.kind}\n"
            f"R² {self.r_squared:.4f}   adjusted {self.adjusted_r_squared:.4f}   "
            f"F({self._slopes}, {self.dof}) = {self.f_statistic:.4g}   p = {self.f_p_value:.3g}\n"
            f"σ̂ {self.residual_variance**0.5:.6g}   log-likelihood {self.log_likelihood:.6g}   "
            f"AIC {self.aic:.6g}   BIC {self.bic:.6g}\n\n{self.table('t')}"
        )

    __str__ = summary


@dataclass(frozen=True)
class Influence:
    """The effect of every training row on the fit."""

    leverage: Array  # (n,)
    residuals: Array  # (n,) y − xᵀw − b
    studentised: Array  # (n,) internally
    cooks_distance: Array  # (n,)

    def largest(self, count: int = 10) -> Array:
        """The rows that move the fit most, most of all first."""
        return np.argsort(-self.cooks_distance, kind="stable")[:count]


# --- the inverse of ZᵀSZ ----------------------------------------------------------------------------------------------


def infer(model: Any, data: Blocks | None, covariance: str, output: int, level: float) -> Inference:
    """Standard errors and all that follows from them."""
    sums = _sums(model, data, output, level)
    if covariance not in COVARIANCES:
        raise ValueError(
            f"covariance={covariance!r} is not known; accepted are {', '.join(COVARIANCES)}."
        )
    if covariance != "nonrobust" and data is None:
        raise ValueError(
            f"covariance={covariance!r} needs the training rows: pass X and y to inference or summary."
        )
    n, centred = sums.count, bool(model.fit_intercept)
    dof = _degrees_of_freedom(model, sums)
    coef, squares = _weights(model, output), float(model.residual_squares_[output])
    found = Inverse.of(model, sums)
    inverse, undetermined = found.matrix, found.undetermined_weights()
    variance = squares / dof
    if covariance == "nonrobust":
        cov = variance * inverse
    else:
        assert data is not None
        cov = inverse @ _meat(model, data, inverse, covariance, output, n / dof) @ inverse
    cov = np.where(np.diag(undetermined), np.inf, cov)
    _, _, y_scatter = sums.system(centred)
    total = float(y_scatter[output])
    slopes = n - dof - centred
    with np.errstate(divide="ignore", invalid="ignore"):
        f = np.divide((total - squares) / slopes, variance) if slopes else np.nan
        likelihood = -0.5 * n * (np.log(2 * np.pi * squares / n) + 1)
    if data is not None and data.weights is not None:
        used = data.weights[data.weights > 0]
        likelihood += 0.5 * float(np.log(used).sum())
    names = (*(["intercept"] if centred else []), *feature_names(model))
    return Inference(
        names, coef, cov, level, covariance, dof, n, variance, 1 - squares / total if total else np.nan,
        float(f), float(likelihood),
    )  # fmt: skip


def _sums(model: Any, data: Blocks | None, output: int, level: float) -> NormalEquations:
    """The sums of the training data, kept by the fit or made again."""
    check_is_fitted(model)
    if model.positive:
        raise ValueError(
            "the weights of positive=True lie on a boundary, where standard errors do not hold; fit without it."
        )
    check_level(level)
    m = len(model.residual_squares_)
    if not -m <= output < m:
        raise ValueError(f"output={output}: the model has {m} output(s), counted from 0.")
    if hasattr(model, "sums_"):
        return model.sums_
    if data is None:
        raise ValueError(
            f"a model of {model.n_features_in_:,} features keeps no sums: pass X and y to this method."
        )
    return NormalEquations.gather(data)


def _degrees_of_freedom(model: Any, sums: NormalEquations) -> int:
    rank = _rank(model, sums)
    dof = sums.count - rank - bool(model.fit_intercept)
    if dof < 1:
        raise ValueError(
            f"{sums.count} rows leave nothing to measure the noise with beside {rank} weights"
            f"{' and an intercept' if model.fit_intercept else ''}; standard errors need more rows than that."
        )
    return dof


def _rank(model: Any, sums: NormalEquations) -> int:
    """As the fit found it; conjugate gradients do not, and the sums say."""
    if hasattr(model, "rank_"):
        return model.rank_
    A, c, _ = sums.system(bool(model.fit_intercept))
    return eigen_solve(A, c, model.tol)[1]


def _weights(model: Any, output: int) -> Array:
    coef = np.atleast_2d(np.asarray(model.coef_, dtype=np.float64))[output]
    if not model.fit_intercept:
        return coef
    return np.concatenate([[np.ravel(model.intercept_)[output]], coef]).astype(np.float64)


@dataclass(frozen=True)
class Inverse:
    """(ZᵀSZ)⁻¹, a pseudo-inverse where the rank is not full, and the directions that are left out of it."""

    matrix: Array  # (p, p), the intercept first
    mean: Array  # (d,) x̄, or 0 without an intercept
    scale: Array  # (d,) 1/length of a column, 0 of one that does not vary
    left_out: Array  # (d, d − rank), of scaled columns

    @classmethod
    def of(cls, model: Any, sums: NormalEquations) -> Inverse:
        """With centred columns the block of the slopes is A⁻¹, and that of the intercept 1/Σs + x̄ᵀA⁻¹x̄."""
        centred = bool(model.fit_intercept)
        A, _, _ = sums.system(centred)
        lengths = np.sqrt(np.maximum(np.diagonal(A), 0.0))
        if centred:
            lengths = np.where(sums.constant_columns(), 0.0, lengths)
        scale = np.where(lengths > 0, 1 / np.where(lengths > 0, lengths, 1), 0.0)
        values, V = scipy.linalg.eigh(A * scale * scale[:, None], check_finite=False)
        kept = np.arange(len(values)) >= len(values) - _rank(model, sums)
        kept &= values > EPS * max(values[-1], 0.0)
        W = scale[:, None] * V[:, kept]
        slopes = (W / values[kept]) @ W.T
        mean = np.asarray(sums.moments.mean)
        if not centred:
            return cls(slopes, np.zeros_like(mean), scale, V[:, ~kept])
        image = slopes @ mean
        matrix = np.empty((len(mean) + 1, len(mean) + 1))
        matrix[0, 0] = 1 / sums.moments.n + mean @ image
        matrix[0, 1:] = matrix[1:, 0] = -image
        matrix[1:, 1:] = slopes
        return cls(matrix, mean, scale, V[:, ~kept])

    def undetermined_at(self, points: Array) -> Array:
        """At which points x the data leaves xᵀw + b open: x − x̄ reaches into a direction left out."""
        apart = points - self.mean
        scaled = apart * self.scale
        hidden = np.linalg.norm(scaled @ self.left_out, axis=1)
        return (hidden > 1e-6 * np.linalg.norm(scaled, axis=1)) | (
            (apart != 0) & (self.scale == 0)
        ).any(axis=1)

    def undetermined_weights(self) -> Array:
        """Which weights are open, the intercept first: it is the value at x = 0."""
        slopes = (np.square(self.left_out).sum(axis=1) > 1e-12) | (self.scale == 0)
        if len(self.matrix) == len(slopes):
            return slopes
        return np.concatenate([self.undetermined_at(np.zeros((1, len(slopes)))), slopes])


# --- what needs the rows ----------------------------------------------------------------------------------------------


def _with_ones(rows: Any, centred: bool) -> Array:
    rows = rows.toarray() if hasattr(rows, "toarray") else rows
    rows = rows.astype(np.float64, copy=False)
    return np.column_stack([np.ones(len(rows)), rows]) if centred else rows


def _leverage(Z: Array, inverse: Array, s: Array) -> Array:
    return s * np.einsum("ij,ij->i", Z @ inverse, Z)


def _meat(
    model: Any, data: Blocks, inverse: Array, kind: str, output: int, correction: float
) -> Array:
    """Σ s² ω zzᵀ, a sum over blocks."""
    return map_reduce(
        partial(_meat_of, _weights(model, output), bool(model.fit_intercept), inverse, kind, output, correction),
        pack(data), 0.0,
    )  # fmt: skip


def _meat_of(coef, centred, inverse, kind, output, correction, rows, columns):
    Z, s = _with_ones(rows, centred), columns[:, 0]
    r = columns[:, 1:][:, output] - Z @ coef
    omega = (s * r) ** 2
    if kind == "HC1":
        omega *= correction
    elif kind in ("HC2", "HC3"):
        free = 1 - _leverage(Z, inverse, s)
        # a row with leverage 1 is fitted exactly, whatever its noise: it says nothing about it
        with np.errstate(divide="ignore", invalid="ignore"):
            omega = np.where(free > EPS, omega / free ** (1 if kind == "HC2" else 2), 0.0)
    return (Z * omega[:, None]).T @ Z


def measure_influence(model: Any, data: Blocks, output: int) -> Influence:
    """Leverage and what follows from it, block by block."""
    sums = _sums(model, data, output, 0.5)
    dof = _degrees_of_freedom(model, sums)
    inverse = Inverse.of(model, sums).matrix
    coef, p = _weights(model, output), sums.count - dof
    h, r = [], []
    for rows, y, weights in data.triples():
        Z = _with_ones(rows, bool(model.fit_intercept))
        s = np.ones(len(Z)) if weights is None else weights
        h.append(np.clip(_leverage(Z, inverse, s), 0.0, 1.0))
        r.append(y.reshape(len(Z), -1)[:, output].astype(np.float64) - Z @ coef)
    leverage, residual = np.concatenate(h), np.concatenate(r)
    root = 1.0 if data.weights is None else np.sqrt(data.weights)
    sigma = np.sqrt(model.residual_squares_[output] / dof)
    with np.errstate(divide="ignore", invalid="ignore"):
        studentised = root * residual / (sigma * np.sqrt(1 - leverage))
        cook = studentised**2 * leverage / (p * (1 - leverage))
    return Influence(leverage, residual, studentised, cook)


def predict_interval(model: Any, data: Blocks, level: float, kind: str, output: int) -> Array:
    """Predictions with the ends of their intervals."""
    if kind not in ("prediction", "mean"):
        raise ValueError(
            f"kind={kind!r} is not known; pass 'prediction' for a new y, 'mean' for its expectation."
        )
    sums = _sums(model, None, output, level)
    dof = _degrees_of_freedom(model, sums)
    inverse = Inverse.of(model, sums)
    variance = float(model.residual_squares_[output]) / dof
    reach = scipy.stats.t.ppf(0.5 + level / 2, dof)
    parts = []
    for rows, _ in data:
        Z = _with_ones(rows, bool(model.fit_intercept))
        spread = variance * np.maximum(np.einsum("ij,ij->i", Z @ inverse.matrix, Z), 0.0)
        spread += variance if kind == "prediction" else 0.0
        spread[inverse.undetermined_at(Z[:, len(Z[0]) - model.n_features_in_ :])] = np.inf
        middle, around = Z @ _weights(model, output), reach * np.sqrt(spread)
        parts.append(np.column_stack([middle, middle - around, middle + around]))
    return np.concatenate(parts)
