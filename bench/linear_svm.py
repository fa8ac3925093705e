"""Linear support vector machines beside LIBLINEAR: ./run bench linear_svm

The squared hinge to the same objective; the hinge to a relative duality gap of 1e-3, which multipliers prove: LIBLINEAR's 100
passes do not reach it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn import svm

from bench.helpers.harness import compare
from bench.logistic import classification, rare
from lemmata.predict.linear_svm.estimator import LinearSVC


def squared_hinge(name: str, X: Any, y: Any, target: float) -> None:
    def objective(model: Any) -> float:
        w = model.coef_.ravel()
        return float((np.maximum(1 - y * (X @ w), 0) ** 2).sum() + 0.5 * w @ w)

    best = objective(LinearSVC(fit_intercept=False, tol=1e-12).fit(X, y))
    compare(
        f"linear SVM, squared hinge, {name}, C = 1",
        {
            "lemmata": lambda: LinearSVC(fit_intercept=False).fit(X, y),
            "LIBLINEAR primal": lambda: svm.LinearSVC(dual=False, fit_intercept=False).fit(X, y),
        },
        lambda model: (best - objective(model)) / best,
        target=target,
        least_quality=-1e-6,
        rounds=3,
    )


def hinge(n: int = 200_000, d: int = 100, passes: int = 100) -> None:
    X, y = classification(n, d)

    def objective(model: Any) -> float:
        w = model.coef_.ravel()
        return float(np.maximum(1 - y * (X @ w), 0).sum() + 0.5 * w @ w)

    exact = LinearSVC(loss="hinge", fit_intercept=False, tol=1e-7).fit(X, y)
    alpha = exact.dual_coef_[0]
    v = (alpha * y) @ X
    bound = float(alpha.sum() - 0.5 * v @ v)  # no weights do better than this
    ours = LinearSVC(loss="hinge", fit_intercept=False, tol=1e-3)
    peer = svm.LinearSVC(loss="hinge", dual=True, fit_intercept=False, max_iter=passes, random_state=0)  # fmt: skip
    compare(
        f"linear SVM, hinge, {n:,} × {d}, C = 1, relative gap 1e-3",
        {
            "lemmata": lambda: ours.fit(X, y),
            f"LIBLINEAR dual, {passes} passes": lambda: peer.fit(X, y),
        },
        lambda model: (bound - objective(model)) / bound,
        least_quality=-1e-3,
        rounds=2,
    )


def main() -> None:
    squared_hinge("30,000 × 300 binary, 3 % filled, 2 % positive", *rare(), target=1.0)
    squared_hinge("200,000 × 100", *classification(200_000, 100), target=3.0)
    hinge()
