"""Fairness beside Fairlearn, where that is installed: ./run bench fairness

Times are CPU seconds of one process. Without Fairlearn a row has our time alone, and says so.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression

from lemmata.trust import FairLogisticRegression, FairThresholds, fairness

try:
    from fairlearn.postprocessing import ThresholdOptimizer
    from fairlearn.reductions import DemographicParity, ExponentiatedGradient
except ImportError:
    ThresholdOptimizer = None


def measure(run: Callable[[], Any]) -> tuple[float, Any]:
    begin = time.process_time()
    found = run()
    return time.process_time() - begin, found


def show(what: str, mine: float, theirs: float | None, quality: str) -> None:
    other = "Fairlearn is not installed"
    if theirs is not None:
        other = f"Fairlearn {theirs:6.2f} s → {theirs / mine:5.1f}x"
    print(f"{what:<42} lemmata {mine:6.3f} s   {other}   {quality}", flush=True)


def describe(y: Any, decisions: Any, groups: Any) -> str:
    gap = abs(decisions[groups == 0].mean() - decisions[groups == 1].mean())
    return f"accuracy {(decisions == y).mean():.4f}, gap {gap:.4f}"


def compare_rates(rng: np.random.Generator, n: int = 10**6) -> None:
    groups, y, d = rng.integers(0, 6, n), rng.integers(0, 2, n), rng.integers(0, 2, n)

    def run():
        return fairness(y, d, groups).between("0", "1")

    show("6 groups, 15 pairs, all rates, 10⁶ rows", measure(run)[0], None, "intervals and claims")


def main() -> None:
    rng = np.random.default_rng(0)
    compare_rates(rng)
    n = 20_000
    groups = rng.integers(0, 2, n)
    X = rng.standard_normal((n, 10)) + groups[:, None] * np.r_[0.5, 0.25, np.zeros(8)]
    y = (X[:, :3] @ [2, 1, 2] + rng.standard_normal(n) > 0.6).astype(int)
    model = LogisticRegression().fit(X, y)

    mine, fair = measure(lambda: FairThresholds(model, random_state=0).fit(X, y, groups))
    quality, theirs = describe(y, fair.predict(X, groups), groups), None
    if ThresholdOptimizer is not None:
        other = ThresholdOptimizer(estimator=model, prefit=True, predict_method="predict_proba")
        theirs, other = measure(lambda: other.fit(X, y, sensitive_features=groups))
        found = other.predict(X, sensitive_features=groups, random_state=0)
        quality += f"; theirs {describe(y, found, groups)}"
    show("thresholds, parity, 20,000 rows", mine, theirs, quality)

    mine, fair = measure(lambda: FairLogisticRegression().fit(X, y, groups))
    quality, theirs = describe(y, fair.predict(X), groups), None
    if ThresholdOptimizer is not None:
        other = ExponentiatedGradient(LogisticRegression(), DemographicParity())
        theirs, _ = measure(lambda: other.fit(X, y, sensitive_features=groups))
        quality += f"; theirs {describe(y, other.predict(X, random_state=0), groups)}"
    show("logistic regression, parity, 20,000 × 10", mine, theirs, quality)
