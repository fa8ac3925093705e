"""Bias and variance: where the error of a regression comes from.

    E (y − f̂(x))²  =  Var(y | x)  +  (E f̂(x) − E(y | x))²  +  Var f̂(x)          noise + bias² + variance

The expectation is over training sets (f̂), and over a fresh y. With the law known (`RegressionLaw`, or anything with `sample`
and `mean`), R training sets are drawn, and at each test row

    variance = s²,        bias² = (f̄ − E(y | x))² − s²/R

are unbiased: the square of an average over R fits contains s²/R of variance. From data alone E(y | x) is not known, only y, so

    noise + bias² = (y − f̄)² − s²/R

stay together: no method can tell noise from what the model misses without assuming what the model may miss. And training sets
cut from one data set share rows, so their fits vary less than fits to independent ones: that variance is a lower estimate.

    >>> from sklearn.linear_model import LinearRegression
    >>> from lemmata.trust import RegressionLaw, bias_variance
    >>> law = RegressionLaw(lambda X: X[:, 0] ** 2, noise=0.3)
    >>> parts = bias_variance(LinearRegression(), law, n=30, repeats=40, random_state=0)
    >>> round(parts.noise, 2), round(parts.bias2, 1), parts.variance < 0.05
    (0.09, 0.1, True)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils import column_or_1d

from lemmata.audit.trust.comparisons import BIAS_VARIANCE_CLAIMS
from lemmata.core.certificate import Certificate, Fit
from lemmata.core.certification.checking import check

Array = np.ndarray

PARTS = ("noise", "bias2", "variance")


@dataclass(frozen=True, repr=False)
class BiasVariance:
    """noise, bias² and variance, averaged over the test rows, with standard errors of what training sets change.

    noise, bias2 : NaN where the law is not known; `bias2_and_noise` is their sum and always known
    risk : the mean square error, measured on targets of its own
    errors : standard errors by name        n, repeats : the size of a training set, and how many
    """

    noise: float
    bias2: float
    bias2_and_noise: float
    variance: float
    risk: float
    errors: dict[str, float]
    n: int
    repeats: int
    from_data: bool
    certificate_: Certificate

    def __str__(self) -> str:
        e = self.errors
        if self.from_data:
            return (
                f"bias² + noise {self.bias2_and_noise:.4g} ± {e['bias2_and_noise']:.2g}, variance {self.variance:.4g} ± "
                f"{e['variance']:.2g} (of {self.repeats} fits to {self.n:,} rows)\n  from data alone bias² and noise stay "
                "together; training sets that share rows vary less than independent ones"
            )
        return (
            f"noise {self.noise:.4g}, bias² {self.bias2:.4g} ± {e['bias2']:.2g}, variance {self.variance:.4g} ± "
            f"{e['variance']:.2g}; risk {self.risk:.4g} (of {self.repeats} fits to {self.n:,} rows)"
        )

    __repr__ = __str__

    def plot(self, ax=None):
        """One bar, cut into its parts. Gives the axes."""
        from lemmata.core.certification.pictures import BLUE, GREY, ORANGE, figure

        if ax is None:
            _, ax = figure(size=(5.0, 1.4))
        parts = (
            {"bias² + noise": (self.bias2_and_noise, GREY), "variance": (self.variance, BLUE)}
            if self.from_data
            else {"noise": (self.noise, GREY), "bias²": (self.bias2, ORANGE), "variance": (self.variance, BLUE)}
        )  # fmt: skip
        left = 0.0
        for name, (value, colour) in parts.items():
            ax.barh(0, max(value, 0.0), left=left, color=colour, label=name)
            left += max(value, 0.0)
        ax.set_yticks([])
        ax.set_xlabel("mean square error")
        ax.legend(ncols=3, frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0))
        return ax


def bias_variance(
    model: Any,
    generator: Any,
    n: int = 100,
    repeats: int = 50,
    *,
    test_size: int = 500,
    random_state: int | None = None,
) -> BiasVariance:
    """Split the mean square error of a regressor into noise, bias² and variance.

    Parameters
    ----------
    model : an estimator, which is cloned and fitted `repeats` times
    generator : a law, a function, or data
        A law has `sample(n, rng)` → (X, y) and `mean(X)` = E(y | x) (`targets(X, rng)` and `noise_variance(X)` if it has them);
        a function of (n, rng) gives (X, y); data is a pair (X, y). Of the last two, E(y | x) is not known.
    n : int, default=100
        Rows of a training set.
    repeats : int, default=50
        R, how many training sets.
    test_size : int, default=500
        Test rows; of data, a fifth of the rows at most.
    random_state : int, optional
    """
    if repeats < 3:
        raise ValueError(f"repeats={repeats}: a variance with its error takes at least 3 fits.")
    rng = np.random.default_rng(random_state)
    law = hasattr(generator, "mean") and hasattr(generator, "sample")
    draw, X_test, y_test = _source(generator, n, test_size, rng)
    F, Y = np.empty((repeats, len(y_test))), np.empty((repeats, len(y_test)))
    for r in range(repeats):
        X, y = draw()
        F[r] = np.asarray(clone(model).fit(X, y).predict(X_test), dtype=np.float64).ravel()
        Y[r] = generator.targets(X_test, rng) if law and hasattr(generator, "targets") else y_test
    mean, noise = None, math.nan
    if law:
        mean = np.asarray(generator.mean(X_test), dtype=np.float64)
        noise = _noise(generator, X_test, Y, mean)
    found = _split(F.mean(axis=0), F.var(axis=0, ddof=1), Y.mean(axis=0), repeats, mean, noise)
    risks = np.mean((Y - F) ** 2, axis=1)  # of each fit
    found |= {"risk": float(risks.mean()), "apart": found["total"] - float(risks.mean())}
    errors = _errors(F, Y, risks, mean, noise)
    attributes = {"total": found["total"], "risk": found["risk"], "error": errors.pop("apart")}
    certificate = check(
        BIAS_VARIANCE_CLAIMS, Fit(model, None, attributes=attributes),
        f"{type(model).__name__}  {repeats} fits to {n:,} rows, {len(y_test):,} test rows",
    )  # fmt: skip
    return BiasVariance(
        float(noise), found["bias2"], found["bias2_and_noise"], found["variance"], found["risk"], errors, n, repeats,
        not law, certificate,
    )  # fmt: skip


def _split(
    middle: Array, variance: Array, y: Array, R: int, mean: Array | None, noise: float
) -> dict[str, float]:
    """The parts from the average f̄ of R predictions, their variance s² and the average target y of every test row."""
    aim = y if mean is None else mean
    beyond = float(np.mean((aim - middle) ** 2 - variance / R))  # bias², or bias² + noise
    together = beyond if mean is None else beyond + noise
    spread = float(variance.mean())
    return {
        "bias2": math.nan if mean is None else beyond,
        "bias2_and_noise": together,
        "variance": spread,
        "total": together + spread,
    }


def _errors(F: Array, Y: Array, risks: Array, mean: Array | None, noise: float) -> dict[str, float]:
    """Standard errors by leaving out one training set at a time (jackknife): what all of them together may be off by."""
    R = len(F)
    middle, average = F.mean(axis=0), Y.mean(axis=0)
    squares = np.sum((F - middle) ** 2, axis=0)
    without = []
    for r in range(R):
        apart = F[r] - middle
        variance = np.maximum(squares - apart**2 * R / (R - 1), 0) / (R - 2)
        y = average - (Y[r] - average) / (R - 1)
        parts = _split(middle - apart / (R - 1), variance, y, R - 1, mean, noise)
        risk = (R * risks.mean() - risks[r]) / (R - 1)
        without.append({**parts, "risk": risk, "apart": parts["total"] - risk})
    return {
        name: math.sqrt((R - 1) * float(np.var([one[name] for one in without])))
        for name in without[0]
    }


def _noise(law: Any, X: Array, Y: Array, mean: Array) -> float:
    if hasattr(law, "noise_variance"):
        return float(np.mean(law.noise_variance(X)))
    return float(np.mean((Y - mean) ** 2))


def _source(generator: Any, n: int, test_size: int, rng: np.random.Generator) -> Any:
    """(a function that draws a training set, the test rows, a target of each)."""
    if hasattr(generator, "sample"):
        return lambda: generator.sample(n, rng), *generator.sample(test_size, rng)
    if callable(generator):
        return lambda: generator(n, rng), *generator(test_size, rng)
    X, y = generator
    y = column_or_1d(y)
    rows = rng.permutation(len(y))
    tested, pool = np.split(rows, [min(test_size, len(y) // 5)])
    if not 0 < n < len(pool) or not len(tested):
        raise ValueError(
            f"{len(y):,} rows leave {len(pool):,} to train on beside the test rows; pass n < {len(pool):,} to draw different "
            "training sets."
        )
    X = X if hasattr(X, "shape") and not hasattr(X, "iloc") else np.asarray(X)

    def draw() -> tuple[Any, Array]:
        chosen = rng.choice(pool, size=n, replace=False)
        return X[chosen], y[chosen]

    return draw, X[tested], y[tested]
