"""Logistic regression whose scores covary with the group no more than a bound (Zafar et al. 2017).

    minimise  Σ sᵢ ln(1 + exp(−y′ᵢ fᵢ)) + ½ λ‖w‖²     with |cov(f, 1[A = k])| ≤ bound for every group k

The covariance is linear in w, so the problem is convex, and at its solution some of the bounds are active: there cₖᵀw = ±bound.
Newton's method solves the problem on the active ones alone, w = w₀ + Zv with CZ = 0. Then the bound that is violated most
becomes active, or one whose multiplier has the wrong sign is dropped, until neither is left. Groups are few, and so are rounds.

    >>> rng = np.random.default_rng(0)
    >>> groups, noise = rng.integers(0, 2, 2000), rng.standard_normal((2000, 2))
    >>> X, y = noise + groups[:, None] * [1, 0], noise.sum(axis=1) + groups > 0.5
    >>> fair = FairLogisticRegression(bound=0.01).fit(X, y, groups)
    >>> fair.certificate_.held, bool(abs(np.cov(fair.decision_function(X), groups, ddof=0)[0, 1]) < 0.0101)
    (['bounded_fit_optimal'], True)
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import null_space
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from lemmata.core.certificate import Certificate, Fit
from lemmata.core.certification.checking import check
from lemmata.trust.fair.counts import BOUNDED_CLAIMS, check_people, covariance_rows
from lemmata.trust.fair.report import Fairness, fairness

Array = np.ndarray

LEAST_STEP = 1e-10
SETTLED = 1e-16  # nats a row that the last Newton step promised
ROUNDS = 10  # for each bound


class FairLogisticRegression(ClassifierMixin, BaseEstimator):
    """Logistic regression with a bound on the covariance of score and group. `predict` needs no group.

    Parameters
    ----------
    criterion : {"parity", "odds"}, default="parity"
        The covariance over all rows, or within each outcome.
    bound : float, default=0
        The largest covariance, in units of the score.
    C : float, default=1
        1/(λ n), as in scikit-learn. The intercept is not penalised.
    max_iter : int, default=100
        Newton steps, at most, for each choice of active bounds.

    coef_, intercept_, classes_ : as in scikit-learn        multipliers_ : prices of the covariances        certificate_
    """

    def __init__(self, criterion="parity", bound=0.0, C=1.0, max_iter=100):
        self.criterion = criterion
        self.bound = bound
        self.C = C
        self.max_iter = max_iter

    def fit(self, X: Any, y: Any, groups: Any, sample_weight: Any = None) -> FairLogisticRegression:
        self._check_parameters()
        X = validate_data(self, X, dtype=np.float64)
        self.classes_ = np.unique(np.asarray(y))
        if len(self.classes_) != 2:
            raise ValueError(f"y holds {len(self.classes_)} class(es); pass two.")
        rows = self._describe_rows(X, y, groups, sample_weight)
        C = covariance_rows(X, rows["y"], rows["codes"], rows["s"], self.criterion)
        coef, b, self.multipliers_ = _solve(
            X, rows["y"], rows["s"], rows["lam"], C, self.bound, self.max_iter
        )
        self.coef_, self.intercept_ = coef[None, :], np.array([b])
        self.certificate_ = self.certify(X, y, groups, sample_weight)
        return self

    def _describe_rows(self, X: Array, y: Any, groups: Any, sample_weight: Any) -> dict[str, Any]:
        people = check_people(y, y, groups, None, sample_weight)
        w = np.ones(len(X)) if people.weights is None else people.weights
        known = {"X": X, "y": people.y.astype(np.float64), "codes": people.codes}
        return {**known, "s": w / w.sum(), "lam": 1 / (self.C * w.sum())}

    def certify(self, X: Any, y: Any, groups: Any, sample_weight: Any = None) -> Certificate:
        """Check on the rows of the fit whether the coefficients keep the bound and are the best that do."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        rows = self._describe_rows(X, y, groups, sample_weight)
        rows |= {"criterion": self.criterion, "bound": float(self.bound)}
        rows |= {"w": self.coef_[0], "b": float(self.intercept_[0]), "multipliers": self.multipliers_}  # fmt: skip
        title = f"FairLogisticRegression  {X.shape[0]:,} × {X.shape[1]:,}, {self.criterion}"
        return check(BOUNDED_CLAIMS, Fit(None, None, rows.pop("y"), attributes=rows), title)

    def _check_parameters(self) -> None:
        if self.criterion not in ("parity", "odds"):
            raise ValueError(f"criterion={self.criterion!r} is not known; pass parity or odds.")
        if not 0 <= self.bound < np.inf:
            raise ValueError(f"bound={self.bound!r}, a covariance: pass a number >= 0.")
        if not 0 < self.C < np.inf:
            raise ValueError(f"C={self.C!r}: pass a number above 0.")

    def decision_function(self, X: Any) -> Array:
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        return X @ self.coef_[0] + self.intercept_[0]

    def predict_proba(self, X: Any) -> Array:
        p = expit(self.decision_function(X))
        return np.column_stack([1 - p, p])

    def predict(self, X: Any) -> Array:
        accepted = self.decision_function(X) > 0
        return self.classes_[accepted.astype(int)]

    def judge(self, X: Any, y: Any, groups: Any, **options: Any) -> Fairness:
        """Judge the decisions on new rows: a small covariance of scores is no promise about decisions."""
        return fairness(y, self.predict(X), groups, X=X, **options)


def _solve(X, y, s, lam, C, bound, max_iter) -> tuple[Array, float, Array]:
    """Weights, intercept and multipliers; `sides` says which bounds are active, +1 above, −1 below."""
    sides, b = np.zeros(len(C)), 0.0
    if bound == 0:
        sides[:] = 1
    for _ in range(ROUNDS * len(C) + 1):
        active = np.flatnonzero(sides)
        A = C[active]
        Z = null_space(A) if len(A) else np.eye(X.shape[1])
        w = np.linalg.lstsq(A, bound * sides[active], rcond=None)[0] if len(A) else np.zeros(X.shape[1])  # fmt: skip
        v, b = _newton(X @ Z, y, s, lam, X @ w, b, max_iter)
        w = w + Z @ v
        slope = (s * (expit(X @ w + b) - y)) @ X + lam * w
        nu = np.zeros(len(C))
        nu[active] = np.linalg.lstsq(A.T, -slope, rcond=None)[0] if len(A) else 0.0
        if bound == 0:
            break
        beyond = np.abs(C @ w) - bound
        beyond[active] = 0
        wrong = -nu * sides  # > 0: the bound holds the weights where they would rather go inside
        if beyond.max(initial=0.0) > 1e-12 * max(bound, 1e-12):
            worst = int(beyond.argmax())
            sides[worst] = np.sign(C[worst] @ w)
        elif wrong.max(initial=0.0) > 1e-12:
            sides[int(wrong.argmax())] = 0
        else:
            break
    return w, float(b), nu


def _newton(X, y, s, lam, offset, b, max_iter) -> tuple[Array, float]:
    """The least point of Σ s ℓ(offset + Xv + b) + ½ λ‖v‖², by Newton's method with halved steps."""

    def value(v, b):
        f = offset + X @ v + b
        return s @ (np.logaddexp(0, f) - y * f) + lam / 2 * (v @ v)

    d = X.shape[1]
    v = np.zeros(d)
    for _ in range(max_iter):
        p = expit(offset + X @ v + b)
        residual, curved = s * (p - y), s * p * (1 - p)
        slope = np.append(residual @ X + lam * v, residual.sum())
        H = np.empty((d + 1, d + 1))
        H[:d, :d] = (X * curved[:, None]).T @ X + lam * np.eye(d)
        H[:d, d] = H[d, :d] = curved @ X
        H[d, d] = curved.sum()
        step = np.linalg.solve(H, -slope)
        decrease = -slope @ step
        size, now = 1.0, value(v, b)
        while not value(v + size * step[:d], b + size * step[d]) <= now - 0.1 * size * decrease:
            size /= 2
            if size < LEAST_STEP:  # rounding
                return v, b
        v, b = v + size * step[:d], b + size * step[d]
        if decrease < SETTLED:
            break
    return v, b
