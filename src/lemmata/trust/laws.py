"""Laws that rows come from, and the best that anybody can do on them: the Bayes classifier and its risk.

    f*(x) = argmax_y p(y | x),        R* = 1 − E max_y p(y | x)

No classifier has a smaller risk. For two Gaussian classes of one covariance Σ, at the distance Δ = ‖Σ^−½(μ₁ − μ₀)‖, with
t = ln(π₁/π₀), it is π₀ Φ(−Δ/2 + t/Δ) + π₁ Φ(−Δ/2 − t/Δ); elsewhere it is an average over draws, with its standard error.

    >>> from lemmata.trust import GaussianClasses
    >>> law = GaussianClasses(means=[[0.0, 0.0], [2.0, 0.0]])
    >>> round(law.risk()[0], 4)                       # Φ(−1)
    0.1587
    >>> X, y = law.sample(5, rng=0)
    >>> law.bayes().predict(X).shape
    (5,)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import logsumexp, ndtr
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression
from sklearn.utils import check_array

Array = np.ndarray

DRAWS = 200_000  # for risks without a formula


class BayesClassifier(ClassifierMixin, BaseEstimator):
    """The best classifier of a known law: says the class with the largest p(y | x). It needs no fitting.

    Parameters
    ----------
    law : a law with `posterior(X)` and `classes_`
    """

    def __init__(self, law: Any):
        self.law = law
        self.classes_ = law.classes_

    def fit(self, X, y=None):
        """Nothing is learned: the law is known."""
        return self

    def predict_proba(self, X):
        """p(y | x), one column per class."""
        return self.law.posterior(X)

    def predict(self, X):
        """The likeliest class."""
        return self.classes_[np.argmax(self.predict_proba(X), axis=1)]


class GaussianClasses:
    """Classes y with probabilities π_y, and x | y ~ N(μ_y, Σ_y).

    Parameters
    ----------
    means : (k, d)
        μ_y.
    covariances : (d, d), (k, d, d), a number or None
        Σ, one for all classes or one for each; a number is a variance, None the identity.
    priors : (k,), optional
        π_y; equal ones by default.
    """

    def __init__(self, means: Any, covariances: Any = None, priors: Any = None):
        self.means = check_array(np.asarray(means, dtype=np.float64))
        k, d = self.means.shape
        given = np.eye(d) if covariances is None else np.asarray(covariances, dtype=np.float64)
        if given.ndim == 0:
            given = given * np.eye(d)
        self.same = given.ndim == 2
        if given.shape not in ((d, d), (k, d, d)):
            raise ValueError(
                f"covariances have the shape {given.shape}; pass ({d}, {d}) or ({k}, {d}, {d})."
            )
        self.covariances = np.broadcast_to(given, (k, d, d))
        try:
            self.factors = np.linalg.cholesky(self.covariances)
        except np.linalg.LinAlgError:
            raise ValueError("a covariance is not positive definite; its eigenvalues must be above 0.") from None  # fmt: skip
        self.priors = np.full(k, 1 / k) if priors is None else _checked_priors(priors, k)
        self.classes_ = np.arange(k)

    def sample(self, n: int, rng: Any = None) -> tuple[Array, Array]:
        """n rows and their classes."""
        rng = np.random.default_rng(rng)
        y = rng.choice(self.classes_, size=n, p=self.priors)
        Z = rng.standard_normal((n, self.means.shape[1]))
        return self.means[y] + np.einsum("nij,nj->ni", self.factors[y], Z), y

    def posterior(self, X: Any) -> Array:
        """p(y | x), one column per class."""
        X = check_array(X, dtype=np.float64)
        logs = np.empty((len(X), len(self.means)))
        for y, (mean, L) in enumerate(zip(self.means, self.factors, strict=True)):
            Z = np.linalg.solve(L, (X - mean).T)
            with np.errstate(divide="ignore"):
                prior = np.log(self.priors[y])
            logs[:, y] = prior - np.log(np.diagonal(L)).sum() - 0.5 * np.sum(Z**2, axis=0)
        return np.exp(logs - logsumexp(logs, axis=1, keepdims=True))

    def bayes(self) -> BayesClassifier:
        """The best classifier there is."""
        return BayesClassifier(self)

    def risk(self, draws: int = DRAWS, rng: Any = 0) -> tuple[float, float]:
        """(R*, its standard error): 0 where a formula gives it."""
        if self.same and len(self.means) == 2 and self.priors.min() > 0:
            shift = np.linalg.solve(self.factors[0], self.means[1] - self.means[0])
            distance = float(np.linalg.norm(shift))
            if distance == 0:
                return float(self.priors.min()), 0.0
            t = math.log(self.priors[1] / self.priors[0]) / distance
            wrong = ndtr([t - distance / 2, -t - distance / 2])
            return float(self.priors @ wrong), 0.0
        X, _ = self.sample(draws, rng)
        misses = 1 - self.posterior(X).max(axis=1)
        return float(misses.mean()), float(misses.std(ddof=1) / math.sqrt(draws))


class TwoFeatures(GaussianClasses):
    """The notes' law of robust and non-robust features: y = ±1 evenly, x = ya + Z, Z ~ N(0, I), in d dimensions.

        a₁ = 1,  a_i = √(ln d/(d − 1)) for i = 2 … d                  ‖a‖² = 1 + ln d,  ‖a‖₁ = 1 + √((d − 1) ln d)

    All features are best without an attack, R = Φ(−‖a‖) → 0; an attacker moves each by ε in the direction −ya_i, and

        R_ε = Φ((ε‖a‖₁ − ‖a‖²)/‖a‖),       of the robust feature alone  Φ(ε − 1)

    At ε = 2√(ln d/(d − 1)) → 0 the first is Φ((ln d − 1 + ε)/√(1 + ln d)) → 1. (The notes' slip: non-robust are i = 2 … d.)

    Parameters
    ----------
    d : int
        At least 2.

    >>> law = TwoFeatures(1000)
    >>> round(law.eps, 3), round(law.risk()[0], 3), round(law.adversarial_risk(), 3)
    (0.166, 0.002, 0.985)
    >>> round(law.adversarial_risk(robust=True), 3)
    0.202
    """

    def __init__(self, d: int):
        if int(d) != d or d < 2:
            raise ValueError(f"d={d!r}: pass the number of features, at least 2.")
        self.a = np.full(int(d), math.sqrt(math.log(d) / (d - 1)))
        self.a[0] = 1.0
        self.eps = 2 * float(self.a[1])
        super().__init__(means=[-self.a, self.a])
        self.classes_ = np.array([-1, 1])

    def sample(self, n: int, rng: Any = None) -> tuple[Array, Array]:
        rng = np.random.default_rng(rng)
        y = rng.choice(self.classes_, size=n)
        return y[:, None] * self.a + rng.standard_normal((n, len(self.a))), y

    def adversarial_risk(self, eps: float | None = None, robust: bool = False) -> float:
        """The risk when each feature may be moved by ε, `self.eps` by default; `robust` looks at the first feature only."""
        eps = self.eps if eps is None else eps
        a = self.a[:1] if robust else self.a
        length = float(np.linalg.norm(a))
        return float(ndtr((eps * a.sum() - length**2) / length))

    def linear(self, robust: bool = False) -> LogisticRegression:
        """Return the best linear classifier, p(y | x) = σ(2y aᵀx), of all features or of the robust one alone."""
        model = LogisticRegression()
        model.classes_, model.intercept_ = self.classes_, np.zeros(1)
        model.coef_ = 2 * np.where(np.arange(len(self.a)) < 1, 1.0, 0.0 if robust else self.a)[None]
        return model


class SmoothClasses:
    """Two classes on the unit cube, X uniform, whose share changes as a wave: the law of the bound for one nearest neighbour.

        P(y = 1 | x) = ½(1 + a sin 2πkx₁)        c = aπk,        L* = ½ − a/π

    The other columns say nothing, but a neighbour has to be near in them, too.

    Parameters
    ----------
    d : int, default=2
    waves : int, default=1
        k, whole periods along the first column.
    contrast : float, default=0.9
        a, between 0 (coins) and 1.
    """

    def __init__(self, d: int = 2, waves: int = 1, contrast: float = 0.9):
        if int(d) != d or d < 1 or int(waves) != waves or waves < 1 or not 0 <= contrast <= 1:
            raise ValueError(
                f"d={d!r}, waves={waves!r}, contrast={contrast!r}; pass whole numbers >= 1 and a contrast from 0 to 1."
            )
        self.d, self.waves, self.contrast = int(d), int(waves), float(contrast)
        self.classes_ = np.arange(2)

    @property
    def lipschitz(self) -> float:
        """c, with |η(x) − η(x′)| ≤ c‖x − x′‖."""
        return self.contrast * math.pi * self.waves

    def sample(self, n: int, rng: Any = None) -> tuple[Array, Array]:
        """n rows and their classes."""
        rng = np.random.default_rng(rng)
        X = rng.random((n, self.d))
        return X, (rng.random(n) < self.posterior(X)[:, 1]).astype(np.int64)

    def posterior(self, X: Any) -> Array:
        """p(y | x), one column per class."""
        wave = np.sin(2 * np.pi * self.waves * check_array(X)[:, 0])
        eta = 0.5 * (1 + self.contrast * wave)
        return np.column_stack([1 - eta, eta])

    def bayes(self) -> BayesClassifier:
        """The best classifier there is."""
        return BayesClassifier(self)

    def risk(self) -> tuple[float, float]:
        """(L*, 0): |sin| is 2/π in the mean."""
        return 0.5 - self.contrast / math.pi, 0.0


class FiniteLaw:
    """A table p(x, y) of finitely many inputs and classes: everything is a sum.

    Parameters
    ----------
    table : (m, k)
        p(x = i, y = j), adding up to 1. Rows of data are (n, 1), the number of the input.
    """

    def __init__(self, table: Any):
        self.table = check_array(np.asarray(table, dtype=np.float64))
        if (self.table < 0).any() or abs(self.table.sum() - 1) > 1e-9:
            raise ValueError(f"the table adds up to {self.table.sum():.6g}; pass probabilities that add up to 1.")  # fmt: skip
        self.classes_ = np.arange(self.table.shape[1])

    def sample(self, n: int, rng: Any = None) -> tuple[Array, Array]:
        """n rows, each the number of an input, and their classes."""
        rng = np.random.default_rng(rng)
        drawn = rng.choice(self.table.size, size=n, p=self.table.ravel() / self.table.sum())
        x, y = np.divmod(drawn, self.table.shape[1])
        return x[:, None].astype(np.float64), y

    def posterior(self, X: Any) -> Array:
        """p(y | x), one column per class; equal ones where x never occurs."""
        rows = self.table[np.asarray(X).ravel().astype(int)]
        totals = rows.sum(axis=1, keepdims=True)
        equal = np.full_like(rows, 1 / rows.shape[1])
        return np.divide(rows, totals, out=equal, where=totals > 0)

    def bayes(self) -> BayesClassifier:
        """The best classifier there is."""
        return BayesClassifier(self)

    def risk(self) -> tuple[float, float]:
        """(R*, 0): 1 − Σ_x max_y p(x, y)."""
        return float(1 - self.table.max(axis=1).sum()), 0.0

    def risk_of(self, model: Any) -> float:
        """The risk of any classifier, exactly."""
        inputs = np.arange(len(self.table), dtype=np.float64)[:, None]
        chosen = np.searchsorted(self.classes_, model.predict(inputs))
        return float(1 - self.table[np.arange(len(self.table)), chosen].sum())


@dataclass(frozen=True)
class RegressionLaw:
    """y = f(x) + noise, with a known f: the best prediction is f, and its risk is the variance of the noise.

    Parameters
    ----------
    f : function of (n, d) rows, giving (n,)
    inputs : function of (n, rng) giving (n, d) rows; by default uniform on [−1, 1]
    noise : float, default=1.0
        The deviation of the noise, which is normal.
    """

    f: Callable[[Array], Array]
    inputs: Callable[[int, np.random.Generator], Array] | None = None
    noise: float = 1.0

    def sample(self, n: int, rng: Any = None) -> tuple[Array, Array]:
        """n rows and their targets."""
        rng = np.random.default_rng(rng)
        X = rng.uniform(-1, 1, (n, 1)) if self.inputs is None else self.inputs(n, rng)
        return X, self.targets(X, rng)

    def targets(self, X: Array, rng: Any = None) -> Array:
        """Fresh targets of given rows."""
        rng = np.random.default_rng(rng)
        return self.mean(X) + self.noise * rng.standard_normal(len(X))

    def mean(self, X: Array) -> Array:
        """E(y | x)."""
        return np.asarray(self.f(X), dtype=np.float64).ravel()

    def noise_variance(self, X: Array) -> Array:
        """Var(y | x)."""
        return np.full(len(X), self.noise**2)

    def risk(self) -> tuple[float, float]:
        """(the least mean square error there is, 0)."""
        return self.noise**2, 0.0


def _checked_priors(priors: Any, k: int) -> Array:
    priors = np.asarray(priors, dtype=np.float64)
    if priors.shape != (k,) or (priors < 0).any() or abs(priors.sum() - 1) > 1e-9:
        raise ValueError(f"priors={priors.tolist()}: pass {k} probabilities that add up to 1.")
    return priors / priors.sum()
