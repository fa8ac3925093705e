"""Inference about the weights of maximum likelihood: standard errors from the information that the rows hold.

    F = Σᵢ sᵢ (diag(pᵢ) − pᵢpᵢᵀ) ⊗ x̃ᵢx̃ᵢᵀ           the Hessian of −ln likelihood at the weights;  cov = F⁻¹

The estimate is consistent, √N (w − w*) → N(0, N F⁻¹), and no unbiased one varies less (Cramér & Rao; ML "Properties of MLE").
Of more than two classes only differences of weights matter: those to the first class are shown. Weights of rows count as
repetitions. Along a direction without information the error is infinite.

    >>> from sklearn.datasets import load_breast_cancer
    >>> from lemmata import LogisticRegression
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = LogisticRegression(penalty=None, tol=1e-8).fit(X[:, [1, 4]], y)
    >>> np.round(model.inference(X[:, [1, 4]], y).standard_errors, 3)
    array([1.237, 0.03 , 9.054])
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
import scipy.special

from lemmata.predict.inference import EstimatedWeights, check_level, feature_names

Array = np.ndarray
EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class LikelihoodInference(EstimatedWeights):
    """Weights of maximum likelihood and their errors; of several classes, class by class, against the first class."""

    n: float  # rows, or their total weight
    log_likelihood: float
    null_log_likelihood: float  # of the shares of the classes
    rank: int  # directions that the data determines

    @property
    def z_values(self) -> Array:
        return self.statistics

    @property
    def pseudo_r_squared(self) -> float:
        """1 − ln likelihood / ln likelihood of the shares alone (McFadden)."""
        return 1 - self.log_likelihood / self.null_log_likelihood

    @property
    def aic(self) -> float:
        return 2 * self.rank - 2 * self.log_likelihood

    @property
    def bic(self) -> float:
        return float(np.log(self.n)) * self.rank - 2 * self.log_likelihood

    def summary(self) -> str:
        """A table to print."""
        return (
            f"maximum likelihood   n = {self.n:,g}   covariance: inverse information\n"
            f"log-likelihood {self.log_likelihood:.6g}   of shares alone {self.null_log_likelihood:.6g}   "
            f"pseudo R² {self.pseudo_r_squared:.4f}   AIC {self.aic:.6g}   BIC {self.bic:.6g}\n\n{self.table('z')}"
        )

    __str__ = summary


def infer(model: Any, problem: Any, level: float) -> LikelihoodInference:
    """Standard errors and all that follows from them.

    problem : the unpenalised LinearProblem that the model was fitted to
    """
    check_level(level)
    free = int(model.fit_intercept)
    W = np.hstack([model.coef_, model.intercept_[:, None] * np.ones(free)]).astype(np.float64)
    point = problem.at(W, order=2)
    m, D = W.shape
    first = D if m > 1 else 0  # of several classes, the weights of the first stand at 0
    H = point.hessian.reshape(m * D, m * D)[first:, first:]
    cov, rank = invert_information(H)
    coef = (W - W[0] if m > 1 else W).ravel()[first:]
    order = np.roll(np.arange(len(coef)).reshape(-1, D), free, axis=1).ravel()  # intercepts first
    names = [*(["intercept"] if free else []), *feature_names(model)]
    if m > 1:
        names = [f"{one}: {name}" for one in model.classes_[1:] for name in names]
    c, s = problem.classes_and_weights
    shares = np.bincount(c.astype(int), s)
    null = float(scipy.special.xlogy(shares, shares / shares.sum()).sum())
    return LikelihoodInference(
        tuple(names), coef[order], cov[np.ix_(order, order)], level, problem.total, -point.loss, null, rank
    )  # fmt: skip


def invert_information(F: Array) -> tuple[Array, int]:
    """F⁻¹ and its rank; infinite variances for the weights that a direction without information reaches."""
    lengths = np.sqrt(np.diagonal(F))
    scale = np.divide(1, lengths, where=lengths > 0, out=np.zeros_like(lengths))
    values, V = scipy.linalg.eigh(F * scale * scale[:, None], check_finite=False)
    kept = values > len(F) * EPS * max(values[-1], 0.0)
    half = scale[:, None] * V[:, kept] / np.sqrt(values[kept])
    cov = half @ half.T
    open_ = (np.square(V[:, ~kept]).sum(axis=1) > 1e-12) | (scale == 0)
    cov[open_, open_] = np.inf
    return cov, int(kept.sum())
