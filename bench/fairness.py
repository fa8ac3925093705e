"""Fairness beside Fairlearn, where that is installed: ./run bench fairness

Times are CPU seconds of one process. Without it a row has our time alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression

from lemmata import trust
from lemmata.trust import FairLogisticRegression, FairThresholds, fairness

try:
    from fairlearn import metrics
    from fairlearn.postprocessing import ThresholdOptimizer
    from fairlearn.reductions import DemographicParity, ExponentiatedGradient
except ImportError:
    metrics = None

METRICS = [
    f"{criterion}_{how}" for criterion in ("demographic_parity", "equalized_odds", "equal_opportunity")
    for how in ("difference", "ratio")
]  # fmt: skip


def measure(run: Callable[[], Any]) -> tuple[float, Any]:
    begin = time.process_time()
    found = run()
    return time.process_time() - begin, found


def show(what: str, mine: float, theirs: float | None, quality: str) -> None:
    other = "no counterpart"
    if theirs is not None:
        other = f"Fairlearn {theirs:6.2f} s → {theirs / mine:5.1f}x"
    print(f"{what:<42} lemmata {mine:6.3f} s   {other}   {quality}", flush=True)


def describe(y: Any, decisions: Any, groups: Any) -> str:
    """Decisions are the chances of accepting, so that no draw decides who is better."""
    gap = abs(decisions[groups == 0].mean() - decisions[groups == 1].mean())
    return f"accuracy {np.where(y, decisions, 1 - decisions).mean():.4f}, gap {gap:.4f}"


def compare_rates(rng: np.random.Generator, n: int = 10**6) -> None:
    groups, y, d = rng.integers(0, 6, n), rng.integers(0, 2, n), rng.integers(0, 2, n)

    def run():
        return fairness(y, d, groups).between("0", "1")

    show("6 groups, 15 pairs, all rates, 10⁶ rows", measure(run)[0], None, "intervals and claims")


def compare_agreement() -> None:
    """Fairlearn's metrics on COMPAS and Adult, with and without weights."""
    from lemmata import data

    rng, worst = np.random.default_rng(0), 0.0
    for people, decide in (
        (data.compas(), lambda X: X[:, -1] >= 5),
        (data.adult("test"), lambda X: X[:, 0] > 40),
    ):
        decisions = decide(people.X).astype(int)
        for weights in (None, rng.uniform(0.2, 3, len(people.y))):
            for groups in people.groups.values():
                rows = {"sensitive_features": groups, "sample_weight": weights}
                for name in METRICS:
                    pair = (
                        getattr(where, name)(people.y, decisions, **rows)
                        for where in (trust, metrics)
                    )
                    worst = max(worst, abs(float(np.subtract(*pair))))
    print(
        f"{len(METRICS)} metrics on COMPAS and Adult: at most {worst:.0e} from Fairlearn's",
        flush=True,
    )


def compare_mitigation(rng: np.random.Generator, name: str, shift: Any, n: int = 20_000) -> None:
    groups = rng.integers(0, 2, n)
    X = rng.standard_normal((n, 10)) + groups[:, None] * np.r_[shift, np.zeros(10 - len(shift))]
    y = (X[:, :3] @ [2, 1, 2] + rng.standard_normal(n) > 0.6).astype(int)
    model = LogisticRegression().fit(X, y)
    mine, fair = measure(lambda: FairThresholds(model, random_state=0).fit(X, y, groups))
    quality, theirs = describe(y, fair.predict_proba(X, groups)[:, 1], groups), None
    if metrics is not None:
        other = ThresholdOptimizer(estimator=model, prefit=True, predict_method="predict_proba")
        theirs, other = measure(lambda: other.fit(X, y, sensitive_features=groups))
        found = other._pmf_predict(X, sensitive_features=groups)[:, 1]
        quality += f"; theirs {describe(y, found, groups)}"
    show(f"thresholds, parity, 20,000 rows, {name}", mine, theirs, quality)

    mine, fair = measure(lambda: FairLogisticRegression().fit(X, y, groups))
    quality, theirs = describe(y, fair.predict(X), groups), None
    if metrics is not None:
        other = ExponentiatedGradient(LogisticRegression(), DemographicParity())
        theirs, _ = measure(lambda: other.fit(X, y, sensitive_features=groups))
        quality += f"; theirs {describe(y, other._pmf_predict(X)[:, 1], groups)}"
    show(f"logistic, parity, 20,000 × 10, {name}", mine, theirs, quality)


def main() -> None:
    rng = np.random.default_rng(0)
    compare_rates(rng)
    if metrics is not None:
        compare_agreement()
    # the group moves features that do not count, or those that do: then no fair weights are left but weak ones
    compare_mitigation(rng, "beside", [0.4, 0, 0, 0.4, 0.4, 0.4])
    compare_mitigation(rng, "aligned", [0.5, 0.25])
